//! Where something can be written in another way.

use proc_macro2::{LineColumn, Span};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Bytes of a file, from the first to behind the last.
pub type Range = (usize, usize);

pub enum Kind {
    /// A function's body, without its braces.
    Body,
    Binary {
        left: Range,
        right: Range,
        assigns: bool,
    },
    Unary {
        operand: Range,
    },
    /// From behind its pattern to the end of its guard, if it has one.
    Arm {
        guard: Option<Range>,
    },
    Guard,
    /// `name: value` of a struct of which the rest is taken from `base`.
    Field {
        name: String,
        value: Range,
        base: Range,
    },
}

impl Kind {
    /// What cargo-mutants calls it.
    pub fn genre(&self) -> &'static str {
        match self {
            Kind::Body => "FnValue",
            Kind::Binary { .. } => "BinaryOperator",
            Kind::Unary { .. } => "UnaryOperator",
            Kind::Arm { .. } => "MatchArm",
            Kind::Guard => "MatchArmGuard",
            Kind::Field { .. } => "StructField",
        }
    }
}

pub struct Site {
    pub range: Range,
    pub kind: Kind,
    /// Where cargo-mutants says that it begins.
    pub named_at: usize,
    /// What is computed by the compiler cannot ask at run time.
    pub is_const: bool,
}

/// All of a file. `lines` are the bytes at which its lines begin.
pub fn find(source: &str, lines: &[usize]) -> Vec<Site> {
    let mut finder = Finder {
        source,
        lines,
        sites: Vec::new(),
        consts: 0,
    };
    finder.visit_file(&syn::parse_file(source).expect("it compiles"));
    finder.sites
}

struct Finder<'s> {
    source: &'s str,
    lines: &'s [usize],
    sites: Vec<Site>,
    /// So many constants is this within.
    consts: usize,
}

impl Finder<'_> {
    fn at(&self, place: LineColumn) -> usize {
        byte(self.source, self.lines, place.line, place.column)
    }

    fn range(&self, span: Span) -> Range {
        (self.at(span.start()), self.at(span.end()))
    }

    fn push(&mut self, range: Range, named_at: usize, kind: Kind) {
        self.sites.push(Site {
            range,
            kind,
            named_at,
            is_const: self.consts > 0,
        });
    }

    fn within_const(&mut self, visit: impl FnOnce(&mut Self)) {
        self.consts += 1;
        visit(self);
        self.consts -= 1;
    }

    fn function(
        &mut self,
        attributes: &[syn::Attribute],
        signature: &syn::Signature,
        block: &syn::Block,
    ) {
        if attributes.iter().any(is_for_tests) {
            return;
        }
        let body = |this: &mut Self| {
            let (open, close) = this.range(block.span());
            if let Some(first) = block.stmts.first() {
                let named_at = this.range(first.span()).0;
                this.push((open + 1, close - 1), named_at, Kind::Body);
            }
            visit::visit_block(this, block);
        };
        if signature.constness.is_some() {
            self.within_const(body)
        } else {
            body(self)
        }
    }
}

/// The byte of this line, from 1, and column, from 0.
pub fn byte(source: &str, lines: &[usize], line: usize, column: usize) -> usize {
    let first = lines[line - 1];
    let text = &source[first..];
    first
        + text
            .char_indices()
            .nth(column)
            .map_or(text.len(), |(at, _)| at)
}

fn is_for_tests(attribute: &syn::Attribute) -> bool {
    match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        syn::Meta::NameValue(_) => false,
    }
}

/// `let` is no value: what it is joined with stays as it is.
fn has_let(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(both) => has_let(&both.left) || has_let(&both.right),
        _ => false,
    }
}

impl<'a> Visit<'a> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.attrs, &item.sig, block);
        }
    }

    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if !item.attrs.iter().any(is_for_tests) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_const(&mut self, item: &'a syn::ItemConst) {
        self.within_const(|this| visit::visit_item_const(this, item));
    }

    fn visit_item_static(&mut self, item: &'a syn::ItemStatic) {
        self.within_const(|this| visit::visit_item_static(this, item));
    }

    fn visit_impl_item_const(&mut self, item: &'a syn::ImplItemConst) {
        self.within_const(|this| visit::visit_impl_item_const(this, item));
    }

    fn visit_variant(&mut self, item: &'a syn::Variant) {
        self.within_const(|this| visit::visit_variant(this, item));
    }

    fn visit_type(&mut self, item: &'a syn::Type) {
        self.within_const(|this| visit::visit_type(this, item));
    }

    fn visit_pat(&mut self, item: &'a syn::Pat) {
        self.within_const(|this| visit::visit_pat(this, item));
    }

    fn visit_expr_const(&mut self, item: &'a syn::ExprConst) {
        self.within_const(|this| visit::visit_expr_const(this, item));
    }

    fn visit_expr_repeat(&mut self, item: &'a syn::ExprRepeat) {
        self.visit_expr(&item.expr);
        self.within_const(|this| this.visit_expr(&item.len));
    }

    fn visit_expr_binary(&mut self, item: &'a syn::ExprBinary) {
        use syn::BinOp::{
            AddAssign, BitAndAssign, BitOrAssign, BitXorAssign, DivAssign, MulAssign, RemAssign,
            ShlAssign, ShrAssign, SubAssign,
        };
        if !has_let(&item.left) && !has_let(&item.right) {
            let assigns = matches!(
                item.op,
                AddAssign(_)
                    | SubAssign(_)
                    | MulAssign(_)
                    | DivAssign(_)
                    | RemAssign(_)
                    | BitXorAssign(_)
                    | BitAndAssign(_)
                    | BitOrAssign(_)
                    | ShlAssign(_)
                    | ShrAssign(_)
            );
            let (left, right) = (self.range(item.left.span()), self.range(item.right.span()));
            let operator = self.range(item.op.span()).0;
            self.push(
                (left.0, right.1),
                operator,
                Kind::Binary {
                    left,
                    right,
                    assigns,
                },
            );
        }
        visit::visit_expr_binary(self, item);
    }

    fn visit_expr_unary(&mut self, item: &'a syn::ExprUnary) {
        let range = self.range(item.span());
        self.push(
            range,
            range.0,
            Kind::Unary {
                operand: self.range(item.expr.span()),
            },
        );
        visit::visit_expr_unary(self, item);
    }

    fn visit_arm(&mut self, item: &'a syn::Arm) {
        let named_at = self.range(item.span()).0;
        let behind_pattern = self.range(item.pat.span()).1;
        let guard = item
            .guard
            .as_ref()
            .map(|(_, guard)| self.range(guard.span()));
        let end = guard.map_or(behind_pattern, |guard| guard.1);
        self.push((behind_pattern, end), named_at, Kind::Arm { guard });
        if let Some(guard) = guard {
            self.push(guard, guard.0, Kind::Guard);
        }
        visit::visit_arm(self, item);
    }

    fn visit_expr_struct(&mut self, item: &'a syn::ExprStruct) {
        for field in &item.fields {
            if let (Some(rest), Some(_), syn::Member::Named(name)) =
                (&item.rest, field.colon_token, &field.member)
            {
                let range = self.range(field.span());
                let (value, base) = (self.range(field.expr.span()), self.range(rest.span()));
                self.push(
                    range,
                    range.0,
                    Kind::Field {
                        name: name.to_string(),
                        value,
                        base,
                    },
                );
            }
        }
        visit::visit_expr_struct(self, item);
    }
}
