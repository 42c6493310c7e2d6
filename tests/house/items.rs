//! Functions, found in the tokens of a file.

use std::ops::Range;

use crate::tokens::{Token, find_outside, skip_generics, stands, within};

/// A function with a body.
pub struct Function {
    pub name: String,
    /// The type or the trait in whose block it stands.
    pub owner: Option<String>,
    /// What is in its braces, as a range of the file's tokens.
    pub body: Range<usize>,
}

/// A block of `impl` or `trait`.
struct Block {
    owner: String,
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
        let block = blocks.iter().rfind(|block| block.range.contains(&at));
        functions.push(Function {
            name: tokens[at + 1].text.clone(),
            owner: block.map(|block| block.owner.clone()),
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

#[test]
fn functions_are_found() {
    let text = "impl<T: Fn() -> u8> A<T> { fn k(&self) -> impl Iterator { [0; 2]; } fn l(); }\n\
        impl x::M for x::N<'_> {\n  fn o<T>() where T: P {\n { } \n }\n}\nfn p(q: fn(u8)) {}";
    let tokens = crate::tokens::tokens(&crate::sources::code_of(text));
    let functions = functions(&tokens);
    let found: Vec<_> = functions
        .iter()
        .map(|found| (found.owner.as_deref(), found.name.as_str()))
        .collect();
    assert_eq!(found, [(Some("A"), "k"), (Some("N"), "o"), (None, "p")]);
}
