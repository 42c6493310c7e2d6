//! Words and signs, and how to find one's way among them.

use std::ops::Range;

/// A word (a name or a number), or a sign of one character, quotes included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub text: String,
    /// Counted from 0.
    pub line: usize,
}

impl Token {
    pub fn is(&self, text: &str) -> bool {
        self.text == text
    }

    pub fn is_word(&self) -> bool {
        self.text.starts_with(is_of_word)
    }
}

pub fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Returns the tokens of code whose comments are spaces and whose strings are `~`.
pub fn tokens(code: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    for (line, text) in code.lines().enumerate() {
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|character| !is_of_word(character));
            let length = word.unwrap_or(rest.len()).max(first.len_utf8());
            let (text, after) = rest.split_at(length);
            if !text.trim().is_empty() && text != "~" {
                tokens.push(Token {
                    text: text.to_owned(),
                    line,
                });
            }
            rest = after;
        }
    }
    tokens
}

/// Whether these texts stand at `at`, one after the other.
pub fn stands(tokens: &[Token], at: usize, texts: &[&str]) -> bool {
    let there = tokens.get(at..at + texts.len());
    there.is_some_and(|there| there.iter().zip(texts).all(|(token, text)| token.is(text)))
}

/// Where the first of `ends` stands that is not in brackets which open at `from` or later; it may
/// be a bracket itself. `None`, if brackets close before that.
pub fn find_outside(tokens: &[Token], from: usize, ends: &[&str]) -> Option<usize> {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(from) {
        if depth == 0 && ends.contains(&token.text.as_str()) {
            return Some(index);
        }
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return None;
        }
    }
    None
}

/// What is within the brackets that open at `open`.
pub fn within(tokens: &[Token], open: usize) -> Range<usize> {
    let begin = open + 1;
    let close = find_outside(tokens, begin, &[")", "]", "}"]);
    begin..close.unwrap_or(tokens.len())
}

/// Past the `<…>` that may stand at `at`; the arrow `->` closes nothing.
pub fn skip_generics(tokens: &[Token], at: usize) -> usize {
    if !stands(tokens, at, &["<"]) {
        return at;
    }
    let mut depth = 0;
    for index in at..tokens.len() {
        match tokens[index].text.as_str() {
            "<" => depth += 1,
            ">" if !tokens[index - 1].is("-") => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}
