//! A file, with each site written in all of its ways.

use std::fmt::Write;
use std::iter;

use crate::Mutant;
use crate::sites::{Kind, Range, Site};

pub struct Writer<'s> {
    source: &'s str,
    /// Outer ones before those within them.
    sites: &'s [(Site, Vec<&'s Mutant>)],
    pub out: String,
    /// Each number, with its own bytes of what was written.
    pub own: Vec<(usize, Range)>,
}

impl<'s> Writer<'s> {
    pub fn new(source: &'s str, sites: &'s [(Site, Vec<&'s Mutant>)]) -> Writer<'s> {
        let mut writer = Writer {
            source,
            sites,
            out: String::new(),
            own: Vec::new(),
        };
        writer.copy((0, source.len()), 0..sites.len());
        writer
    }

    /// What stands there, with these sites in it.
    fn copy(&mut self, (mut at, end): Range, sites: std::ops::Range<usize>) {
        let mut next = sites.start;
        while next < sites.end {
            let (from, to) = self.sites[next].0.range;
            assert!(
                at <= from && to <= end,
                "{} overlaps",
                &self.source[from..to]
            );
            let within = |index: &usize| self.sites[*index].0.range.1 <= to && *index < sites.end;
            let behind = iter::successors(Some(next + 1), |index| Some(index + 1))
                .find(|index| *index >= self.sites.len() || !within(index))
                .expect("they end");
            self.out.push_str(&self.source[at..from]);
            self.site(next, next + 1..behind);
            (at, next) = (to, behind);
        }
        self.out.push_str(&self.source[at..end]);
    }

    fn own(&mut self, mutant: &Mutant, text: &str) {
        let start = self.out.len();
        self.out.push_str(text);
        self.own.push((mutant.number, (start, self.out.len())));
    }

    fn asked(&mut self, mutant: &Mutant) {
        let _ = write!(self.out, "if crate::mutants::on({}) {{ ", mutant.number);
    }

    /// `(if it is this one { one way } else { another })`; what is within has its ways in the last only.
    fn either(
        &mut self,
        range: Range,
        mutants: &[&Mutant],
        within: std::ops::Range<usize>,
        way: impl Fn(&Mutant) -> String,
    ) {
        self.out.push('(');
        for mutant in mutants {
            self.asked(mutant);
            self.own(mutant, &way(mutant));
            self.out.push_str(" } else ");
        }
        self.out.push_str("{ ");
        self.copy(range, within);
        self.out.push_str(" })");
    }

    fn site(&mut self, index: usize, within: std::ops::Range<usize>) {
        let (source, sites) = (self.source, self.sites);
        let text = |(from, to): Range| &source[from..to];
        let (site, mutants) = &sites[index];
        match &site.kind {
            Kind::Body => {
                for mutant in mutants {
                    self.out.push(' ');
                    self.asked(mutant);
                    self.own(mutant, &format!("return {};", mutant.replacement));
                    self.out.push_str(" }");
                }
                self.copy(site.range, within);
            }
            Kind::Binary {
                left,
                right,
                assigns,
            } => self.either(site.range, mutants, within, |mutant| {
                let (left, operator, right) = (text(*left), &mutant.replacement, text(*right));
                if *assigns {
                    format!("{left} {operator} {right}")
                } else {
                    format!("({left}) {operator} ({right})")
                }
            }),
            Kind::Unary { operand } => {
                self.either(site.range, mutants, within, |mutant| {
                    format!("{} {}", mutant.replacement, text(*operand))
                });
            }
            Kind::Field { name, value, base } => {
                self.out.push_str(text((site.range.0, value.0)));
                self.either(*value, mutants, within, |_| {
                    format!("({}).{name}", text(*base))
                });
            }
            Kind::Arm { guard } => {
                self.out.push_str(" if ");
                self.own(
                    mutants[0],
                    &format!("!crate::mutants::on({})", mutants[0].number),
                );
                if let Some(guard) = guard {
                    self.out.push_str(" && (");
                    self.copy(*guard, within);
                    self.out.push(')');
                }
            }
            Kind::Guard => {
                for mutant in mutants {
                    let way = match mutant.replacement.as_str() {
                        "true" => format!("(crate::mutants::on({}) || ", mutant.number),
                        "false" => format!("(!crate::mutants::on({}) && ", mutant.number),
                        other => panic!("a guard is true or false, not {other}"),
                    };
                    self.own(mutant, &way);
                }
                self.out.push('(');
                self.copy(site.range, within);
                self.out.push_str(&")".repeat(mutants.len() + 1));
            }
        }
    }
}
