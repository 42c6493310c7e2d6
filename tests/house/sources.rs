//! Reads the sources as text: without their tests, and with comments and strings out of the way.

use std::fs;
use std::path::{Path, PathBuf};

use crate::items::{Function, functions};
use crate::tokens::{Token, tokens};

/// A source file without its tests.
pub struct Source {
    /// Below `src/`, with `/` between.
    pub path: String,
    pub text: String,
    /// The text, line for line: where comments stood are spaces, and in strings `~`.
    pub code: String,
    pub tokens: Vec<Token>,
    pub functions: Vec<Function>,
    /// It is compiled for tests only, as a stage on which they play is.
    pub is_for_tests: bool,
}

impl Source {
    /// From a text whose tests have been cut out.
    pub fn new(path: &str, text: String) -> Source {
        let code = code_of(&text);
        let tokens = tokens(&code);
        Source {
            path: path.to_owned(),
            functions: functions(&tokens),
            text,
            code,
            tokens,
            is_for_tests: false,
        }
    }

    /// The top-level module that it belongs to.
    pub fn module(&self) -> &str {
        let first = self.path.split('/').next().expect("a name");
        first.strip_suffix(".rs").unwrap_or(first)
    }

    /// Its place among the modules: `relay/fetch.rs` is `relay`, `fetch`; `relay/mod.rs` is
    /// `relay`.
    pub fn modules(&self) -> Vec<&str> {
        let path = self.path.trim_end_matches(".rs");
        path.split('/')
            .filter(|part| !matches!(*part, "mod" | "lib" | "main"))
            .collect()
    }

    pub fn is_of_the_shell(&self) -> bool {
        matches!(self.module(), "server" | "main")
    }

    /// Returns whether the file is in this folder, or in one below it.
    pub fn is_in(&self, folder: &str) -> bool {
        let below = self.path.strip_prefix(folder);
        below.is_some_and(|below| below.starts_with('/'))
    }

    /// Returns whether the file is the absent twin of a door.
    pub fn is_absent(&self) -> bool {
        self.path.ends_with("/absent.rs")
    }

    /// The lines that are neither empty nor comments.
    pub fn code_lines(&self) -> usize {
        let lines = self.code.lines();
        lines.filter(|line| !line.trim().is_empty()).count()
    }

    /// What is in the function's braces.
    pub fn body(&self, function: &Function) -> &[Token] {
        &self.tokens[function.body.clone()]
    }
}

/// All of `src` but the tests.
pub fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = Vec::new();
    let mut modules_of_tests = Vec::new();
    for file in rust_files(&root) {
        let path = file.strip_prefix(&root).expect("below src");
        let path = path.to_string_lossy().into_owned();
        if path.ends_with("/tests.rs") || path.contains("/tests/") {
            continue;
        }
        let (text, names) = without_tests(&read(&file));
        let folder = match path.strip_suffix("mod.rs") {
            Some(folder) => folder.to_owned(),
            None => format!("{}/", path.trim_end_matches(".rs")),
        };
        modules_of_tests.extend(names.iter().map(|name| format!("{folder}{name}.rs")));
        sources.push(Source::new(&path, text));
    }
    for source in &mut sources {
        source.is_for_tests = modules_of_tests.contains(&source.path);
    }
    assert!(
        sources.len() > 10,
        "the sources are not where they are looked for"
    );
    sources
}

pub fn read(file: &Path) -> String {
    fs::read_to_string(file).expect("UTF-8")
}

/// The Rust files in a folder and below it, but for what Cargo puts there.
pub fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with("target") {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

const FOR_TESTS: &str = "#[cfg(test)]";

/// Cuts out each item that is compiled for tests only. Names the modules among them that are files.
fn without_tests(text: &str) -> (String, Vec<String>) {
    let code = code_of(text);
    let mut kept = String::new();
    let mut names = Vec::new();
    let mut from = 0;
    while let Some(found) = code[from..].find(FOR_TESTS) {
        let begin = from + found;
        kept.push_str(&text[from..begin]);
        let item = begin + FOR_TESTS.len();
        let end = item + end_of_item(&code[item..]);
        let declared = code[item..end].trim().strip_suffix(';');
        names.extend(declared.and_then(|item| Some(item.split_once("mod ")?.1.to_owned())));
        from = end;
    }
    kept.push_str(&text[from..]);
    (kept, names)
}

/// Where the first item ends: at a semicolon, or at the end of its braces.
pub fn end_of_item(code: &str) -> usize {
    let mut depth = 0;
    for (index, character) in code.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ';' => {}
            _ => continue,
        }
        if depth == 0 {
            return index + 1;
        }
    }
    code.len()
}

/// Replaces comments by spaces, and the content of strings and character literals by `~`. All bytes
/// and lines keep their positions.
pub fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_within_word = code.ends_with(|last: char| last.is_alphanumeric() || last == '_');
        let (length, filling) = if let Some(length) = comment(rest) {
            (length, Some(' '))
        } else if let Some(length) = quoted(rest, is_within_word) {
            (length, Some('~'))
        } else {
            (first.len_utf8(), None)
        };
        let (piece, after) = rest.split_at(length);
        match filling {
            None => code.push_str(piece),
            Some(filling) => code.push_str(&filled(piece, filling)),
        }
        rest = after;
    }
    code
}

/// As many bytes and lines as `piece`; a string keeps its quotes.
fn filled(piece: &str, filling: char) -> String {
    let last = piece.len() - 1;
    let fill = |(index, byte)| match byte {
        b'\n' => '\n',
        _ if filling == '~' && (index == 0 || index == last) => '"',
        _ => filling,
    };
    piece.bytes().enumerate().map(fill).collect()
}

/// The length of the comment with which this begins.
fn comment(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    let inner = rest.strip_prefix("/*")?;
    Some(inner.find("*/").map_or(rest.len(), |end| 2 + end + 2))
}

/// The length of the string or character literal with which this begins.
fn quoted(rest: &str, is_within_word: bool) -> Option<usize> {
    if let Some(inner) = rest.strip_prefix('"') {
        return Some(1 + end_of_quoted(inner, '"'));
    }
    if let Some(length) = character_literal(rest) {
        return Some(length);
    }
    // `r#"…"#`, and with a `b` before.
    let raw = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'));
    let raw = raw.filter(|_| !is_within_word)?;
    let marks = raw.len() - raw.trim_start_matches('#').len();
    let inner = raw[marks..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(marks));
    let begin = rest.len() - inner.len();
    let end = inner.find(&close);
    Some(end.map_or(rest.len(), |end| begin + end + close.len()))
}

/// The bytes up to the closing quote, that included.
fn end_of_quoted(quoted: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (index, character) in quoted.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if character == quote => return index + 1,
            _ => {}
        }
    }
    quoted.len()
}

/// The bytes of a character literal; nothing, if this is a lifetime.
fn character_literal(rest: &str) -> Option<usize> {
    let quoted = rest.strip_prefix('\'')?;
    if quoted.starts_with('\\') {
        return Some(1 + end_of_quoted(quoted, '\''));
    }
    let first = quoted.chars().next()?;
    quoted[first.len_utf8()..]
        .starts_with('\'')
        .then(|| 1 + first.len_utf8() + 1)
}

#[test]
fn comments_and_strings_are_out_of_the_way() {
    let text = "a /* b\n */ r#\"unsafe \" \"# c // d\n\"e\\\"\n\" 'f' '\\'' <'g> br\"\\\" car\"\"";
    let code = "a     \n    \"~~~~~~~~~~~~\" c     \n\"~~~\n\" \"~\" \"~~\" <'g> \"~~~\" car\"\"";
    assert_eq!(code_of(text), code);
}

#[test]
fn tests_are_cut_out_wherever_they_stand() {
    let text = "//! a\n#[cfg(test)]\nmod stage;\nmod b;\n// #[cfg(test)]\n#[cfg(test)]\nmod tests { {;} }\nc\n";
    let (kept, names) = without_tests(text);
    assert_eq!(kept, "//! a\n\nmod b;\n// #[cfg(test)]\n\nc\n");
    assert_eq!(names, ["stage"]);
}
