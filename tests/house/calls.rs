//! Which functions call which, by their names.
//!
//! Types are not known here, so the rule is simple, and rather finds a call too many than one too
//! few:
//!
//! - `self.name(…)` and `Self::name` are the function of that name on the same type;
//! - `Type::name` is that type's, called or passed on;
//! - `….field.name(…)` is that of any type named in the type of a field so called, in whichever
//!   struct;
//! - `name(…)` and `module::name(…)` are the free functions of that name, those of the same file if
//!   there are any;
//! - `variable.name(…)` is that of the type after which the variable is called, as `live` after
//!   `Live`;
//! - `….name(…)` on anything else is that of every type but `Relay`. Is it one of those that the
//!   standard library's types have as well ([`EVERYBODYS`]), it is nobody's.

use std::collections::BTreeSet;

use crate::graph::Graph;
use crate::items::{Function, Struct};
use crate::sources::Source;
use crate::tokens::{Token, stands};

/// Methods that types of the standard library have, too.
const EVERYBODYS: &[&str] = &[
    "clear",
    "count",
    "finish",
    "held_bytes",
    "get",
    "insert",
    "is_empty",
    "len",
    "name",
    "new",
    "next",
    "push",
    "remove",
    "take",
    "write",
];

/// Functions, and who calls whom.
pub struct Calls {
    pub names: Vec<String>,
    /// Where each stands, for people to read.
    pub places: Vec<String>,
    pub graph: Graph,
}

impl Calls {
    pub fn between<'a>(sources: impl Iterator<Item = &'a Source> + Clone) -> Calls {
        let functions = sources.clone().flat_map(|source| {
            let functions = source.functions.iter();
            functions.map(move |function| (source, function))
        });
        let known = Known {
            functions: functions.collect(),
            structs: sources.flat_map(|source| &source.structs).collect(),
        };
        let functions = known.functions.iter();
        Calls {
            names: functions
                .clone()
                .map(|(_, item)| item.name.clone())
                .collect(),
            places: functions
                .clone()
                .map(|(source, item)| item.place(source))
                .collect(),
            graph: Graph {
                edges: functions
                    .map(|(source, item)| known.called_by(source, item))
                    .collect(),
            },
        }
    }
}

/// What a name may stand for.
struct Known<'a> {
    functions: Vec<(&'a Source, &'a Function)>,
    structs: Vec<&'a Struct>,
}

impl Known<'_> {
    fn called_by(&self, source: &Source, caller: &Function) -> BTreeSet<usize> {
        let body = source.body(caller);
        let names = (0..body.len()).filter(|&at| body[at].is_word());
        names
            .flat_map(|at| self.named_at(body, at, source, caller))
            .collect()
    }

    /// Which functions the word at `at` may name.
    fn named_at(
        &self,
        body: &[Token],
        at: usize,
        source: &Source,
        caller: &Function,
    ) -> Vec<usize> {
        let name = body[at].text.as_str();
        let before = |count: usize| at.checked_sub(count).map_or("", |at| &body[at].text);
        let own = caller.owner.as_deref().unwrap_or_default();
        let is_in_path = before(1) == ":" && before(2) == ":";
        if is_in_path && before(3).starts_with(|first: char| first.is_uppercase()) {
            let of = if before(3) == "Self" { own } else { before(3) };
            return self.methods(name, |owner| owner == of);
        }
        if !(stands(body, at + 1, &["("]) || stands(body, at + 1, &[":", ":", "<"])) {
            return Vec::new();
        }
        if before(1) != "." {
            return self.free(name, source);
        }
        let is_field = before(3) == ".";
        if before(2) == "self" && !is_field {
            return self.methods(name, |owner| owner == own);
        }
        if is_field && let Some(types) = self.types_of_field(before(2)) {
            return self.methods(name, |owner| types.contains(owner));
        }
        if !is_field && let Some(named) = self.type_called(before(2)) {
            return self.methods(name, |owner| owner == named);
        }
        if EVERYBODYS.contains(&name) {
            return Vec::new();
        }
        self.methods(name, |owner| owner != "Relay")
    }

    /// The type after which a variable is called: `RtpInput` for `rtp_input`.
    fn type_called(&self, variable: &str) -> Option<&str> {
        let words = variable.split('_');
        let called: String = words.map(capitalised).collect();
        let mut structs = self.structs.iter();
        structs
            .find(|item| item.name == called)
            .map(|item| item.name.as_str())
    }

    fn methods(&self, name: &str, is_of: impl Fn(&str) -> bool) -> Vec<usize> {
        self.find(|_, item| item.name == name && item.owner.as_deref().is_some_and(&is_of))
    }

    fn free(&self, name: &str, source: &Source) -> Vec<usize> {
        let is_it = |item: &Function| item.name == name && item.owner.is_none();
        let near = self.find(|file, item| is_it(item) && file.path == source.path);
        if near.is_empty() {
            return self.find(|_, item| is_it(item));
        }
        near
    }

    fn find(&self, is_it: impl Fn(&Source, &Function) -> bool) -> Vec<usize> {
        let functions = self.functions.iter().enumerate();
        let found = functions.filter(|(_, (source, item))| is_it(source, item));
        found.map(|(index, _)| index).collect()
    }

    /// The words of the types of the fields so called; `None`, if there are none.
    fn types_of_field(&self, name: &str) -> Option<BTreeSet<&str>> {
        let fields = self.structs.iter().flat_map(|item| &item.fields);
        let mut named = fields.filter(|field| field.name == name).peekable();
        named.peek()?;
        let types = named.flat_map(|field| &field.types);
        Some(types.map(String::as_str).collect())
    }
}

fn capitalised(word: &str) -> String {
    let (first, rest) = word.split_at(word.len().min(1));
    first.to_ascii_uppercase() + rest
}

#[test]
fn calls_are_found() {
    let text = "struct Relay { part: Option<Part>, other: Vec<u8> } struct PartOf;\n\
        impl Relay { fn a(&mut self) { self.b(); x.b(); self.part.get(0); self.other.get(1); } fn b() {} }\n\
        impl Part { fn get() { c::<u8>(1); self.d } fn d() { x.get(); y.z.e(); Self::get; relay.b() } }\n\
        fn c() { f.map(Other::e); a(); }\n\
        impl Other { fn e() { d(); x.d(); part_of.d() } }";
    let source = Source::new("x.rs", text.to_owned());
    let calls = Calls::between([source].iter());
    let edges = calls.graph.edges.iter();
    let called: Vec<String> = edges
        .map(|called| {
            called
                .iter()
                .map(|&called| calls.names[called].as_str())
                .collect()
        })
        .collect();
    assert_eq!(calls.names, ["a", "b", "get", "d", "c", "e"]);
    assert_eq!(called, ["bget", "", "c", "bgete", "e", "d"]);
    assert_eq!(calls.places[0], "x.rs: Relay::a");
}
