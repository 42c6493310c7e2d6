//! Functions and structs, found in the tokens of a file.

use std::ops::Range;

use crate::sources::Source;
use crate::tokens::{Token, find_outside, skip_generics, stands, within};

/// A function with a body.
pub struct Function {
    pub name: String,
    /// The type or the trait in whose block it stands.
    pub owner: Option<String>,
    /// It stands in a block `impl Type`, not in one of a trait.
    pub is_inherent: bool,
    /// From `fn` to its closing brace.
    pub lines: usize,
    /// What is in its braces, as a range of the file's tokens.
    pub body: Range<usize>,
}

impl Function {
    /// Its file and its name, for people to read.
    pub fn place(&self, source: &Source) -> String {
        match &self.owner {
            Some(owner) => format!("{}: {owner}::{}", source.path, self.name),
            None => format!("{}: {}", source.path, self.name),
        }
    }
}

/// A struct with its fields.
pub struct Struct {
    pub name: String,
    /// `pub`, `pub(super)`, …; nothing, if it is private.
    pub visibility: String,
    /// It can be cloned, or borrows all that it has: who holds one holds a value, and nobody's
    /// state.
    pub is_value: bool,
    pub fields: Vec<Field>,
}

/// A field of a struct.
pub struct Field {
    pub name: String,
    pub visibility: String,
    /// The words of its type.
    pub types: Vec<String>,
}

/// A block of `impl` or `trait`.
struct Block {
    owner: String,
    is_inherent: bool,
    range: Range<usize>,
}

pub fn functions(tokens: &[Token]) -> Vec<Function> {
    let blocks = blocks(tokens);
    let mut functions = Vec::new();
    for at in 0..tokens.len() {
        if !tokens[at].is("fn") || !tokens.get(at + 1).is_some_and(Token::is_word) {
            continue;
        }
        let Some(open) = find_outside(tokens, at, &["{", ";"]) else {
            continue;
        };
        if tokens[open].is(";") {
            continue;
        }
        let body = within(tokens, open);
        let close = &tokens[body.end.min(tokens.len() - 1)];
        let block = blocks.iter().rfind(|block| block.range.contains(&at));
        functions.push(Function {
            name: tokens[at + 1].text.clone(),
            owner: block.map(|block| block.owner.clone()),
            is_inherent: block.is_some_and(|block| block.is_inherent),
            lines: close.line - tokens[at].line + 1,
            body,
        });
    }
    functions
}

fn blocks(tokens: &[Token]) -> Vec<Block> {
    let mut blocks = Vec::new();
    for at in 0..tokens.len() {
        let is_trait = tokens[at].is("trait");
        // Not `impl` in a type.
        let begins_item = at == 0 || "};{]".contains(&tokens[at - 1].text);
        if !(is_trait || tokens[at].is("impl") && begins_item) {
            continue;
        }
        let Some(open) = find_outside(tokens, at, &["{", ";"]) else {
            continue;
        };
        let of = (at..open).find(|&index| stands(tokens, index, &["for"]));
        let name = of.map_or_else(|| skip_generics(tokens, at + 1), |of| of + 1);
        blocks.push(Block {
            owner: last_of_path(&tokens[name..open]),
            is_inherent: !is_trait && of.is_none(),
            range: within(tokens, open),
        });
    }
    blocks
}

/// The last name of the path with which this begins, as `Formatter` of `fmt::Formatter<'_>`.
fn last_of_path(tokens: &[Token]) -> String {
    let end = |token: &Token| !(token.is_word() || token.is(":") || token.is("&"));
    let path = tokens.split(end).next().unwrap_or_default();
    let path = path.split(|token| token.is("where")).next();
    let last = path.and_then(|path| path.iter().rfind(|token| token.is_word()));
    last.map_or_else(String::new, |last| last.text.clone())
}

pub fn structs(tokens: &[Token]) -> Vec<Struct> {
    let mut structs = Vec::new();
    for at in 0..tokens.len() {
        if !tokens[at].is("struct") || !tokens.get(at + 1).is_some_and(Token::is_word) {
            continue;
        }
        let after = skip_generics(tokens, at + 2);
        let lifetimes = tokens[at + 2..after].iter().any(|token| token.is("'"));
        let open = (after..tokens.len())
            .find(|&index| "{(;".contains(&tokens[index].text))
            .unwrap_or(after);
        let (visibility, begin) = visibility_before(tokens, at);
        structs.push(Struct {
            name: tokens[at + 1].text.clone(),
            visibility,
            is_value: lifetimes || derives_clone(tokens, begin),
            fields: fields(tokens, open),
        });
    }
    structs
}

/// What stands before the word at `at`, and where that begins.
fn visibility_before(tokens: &[Token], at: usize) -> (String, usize) {
    let begin = tokens[..at].iter().rposition(|token| token.is("pub"));
    let begin = begin.filter(|&begin| visibility(tokens, begin).1 == at);
    begin.map_or((String::new(), at), |begin| {
        (visibility(tokens, begin).0, begin)
    })
}

/// The visibility with which this begins, and where it ends.
fn visibility(tokens: &[Token], at: usize) -> (String, usize) {
    let end = if !stands(tokens, at, &["pub"]) {
        at
    } else if stands(tokens, at + 1, &["("]) {
        within(tokens, at + 1).end + 1
    } else {
        at + 1
    };
    let words = tokens[at..end].iter().map(|token| token.text.as_str());
    (words.collect(), end)
}

/// Whether one of the attributes that end at `end` derives `Clone`.
fn derives_clone(tokens: &[Token], end: usize) -> bool {
    let item = tokens[..end]
        .iter()
        .rposition(|token| ";}{".contains(&token.text));
    let attributes = &tokens[item.map_or(0, |item| item + 1)..end];
    let derive = attributes.iter().position(|token| token.is("derive"));
    derive.is_some_and(|derive| {
        let derived = &attributes[within(attributes, derive + 1)];
        derived.iter().any(|token| token.is("Clone"))
    })
}

/// The fields in the braces or parentheses that open at `open`.
fn fields(tokens: &[Token], open: usize) -> Vec<Field> {
    let mut fields = Vec::new();
    if stands(tokens, open, &[";"]) {
        return fields;
    }
    let range = within(tokens, open);
    let has_names = tokens[open].is("{");
    let mut at = range.start;
    while at < range.end {
        while stands(tokens, at, &["#", "["]) {
            at = within(tokens, at + 1).end + 1;
        }
        let (visibility, name) = visibility(tokens, at);
        let end = end_of_field(&tokens[..range.end], name);
        let typed = if has_names { name + 2 } else { name };
        fields.push(Field {
            name: if has_names {
                tokens[name].text.clone()
            } else {
                fields.len().to_string()
            },
            visibility,
            types: tokens[typed.min(end)..end]
                .iter()
                .filter(|token| token.is_word())
                .map(|token| token.text.clone())
                .collect(),
        });
        at = end + 1;
    }
    fields
}

/// Where the next comma stands that is not within brackets of any kind.
fn end_of_field(tokens: &[Token], from: usize) -> usize {
    let mut at = from;
    while at < tokens.len() && !tokens[at].is(",") {
        at = match tokens[at].text.as_str() {
            "<" => skip_generics(tokens, at),
            "(" | "[" | "{" => within(tokens, at).end + 1,
            _ => at + 1,
        };
    }
    at
}

#[test]
fn items_are_found() {
    let text = "#[derive(Debug, Clone)]\npub(super) struct A<T> { a: HashMap<u8, T>, #[b(c)] pub(super) d: fn(u8) -> (u8, E), }\nstruct F(pub u8, Vec<G>);\n\
        struct H; pub struct I<'a> where u8: Copy { j: &'a u8 }\n\
        impl<T: Fn() -> u8> A<T> { fn k(&self) -> impl Iterator { [0; 2]; } fn l(); }\n\
        impl x::M for x::N<'_> {\n  fn o<T>() where T: P {\n { } \n }\n}\nfn p(q: fn(u8)) {}";
    let tokens = crate::tokens::tokens(&crate::sources::code_of(text));
    let structs = structs(&tokens);
    let said: Vec<String> = structs
        .iter()
        .map(|found| {
            let fields = found.fields.iter();
            let fields: Vec<String> = fields
                .map(|field| format!("{} {}: {:?}", field.visibility, field.name, field.types))
                .collect();
            format!("{} {} {}", found.name, found.is_value, fields.join(", "))
        })
        .collect();
    assert_eq!(
        said,
        [
            "A true  a: [\"HashMap\", \"u8\", \"T\"], pub(super) d: [\"fn\", \"u8\", \"u8\", \"E\"]",
            "F false pub 0: [\"u8\"],  1: [\"Vec\", \"G\"]",
            "H false ",
            "I true  j: [\"a\", \"u8\"]",
        ]
    );
    assert_eq!(structs[0].visibility, "pub(super)");
    let functions = functions(&tokens);
    let said: Vec<_> = functions
        .iter()
        .map(|found| {
            let owner = found.owner.as_deref().unwrap_or_default();
            format!(
                "{owner} {} {} {}",
                found.name, found.is_inherent, found.lines
            )
        })
        .collect();
    assert_eq!(said, ["A k true 1", "N o false 3", " p false 1"]);
}
