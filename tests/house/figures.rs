//! What it costs to read the house, in figures. They are counted in the text of `src`, without
//! tests if nothing else is said; each function says how. The limits stand in `limits.rs`.

use std::path::Path;

use crate::calls::Calls;
use crate::items::Function;
use crate::paths::{folders, import_circle};
use crate::sources::{Source, code_of, read, rust_files, sources};
use crate::tokens::{find_outside, stands};

const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 500;
const COMMENT_COLUMNS_MAX: usize = 100;

/// What is counted in.
pub struct House {
    /// Of what is compiled for others than tests.
    pub sources: Vec<Source>,
    /// Within `relay/`.
    pub calls: Calls,
}

/// What has been counted.
pub enum Count {
    /// There is nothing in which to count.
    Nowhere,
    Number(usize),
    /// Each of these.
    These(Vec<String>),
}

impl Count {
    pub fn number(&self) -> Option<usize> {
        match self {
            Count::Nowhere => None,
            Count::Number(number) => Some(*number),
            Count::These(these) => Some(these.len()),
        }
    }
}

impl House {
    pub fn read() -> House {
        let mut sources = sources();
        sources.retain(|source| !source.is_for_tests && !source.is_absent());
        House::of(sources)
    }

    pub fn of(sources: Vec<Source>) -> House {
        let relay = sources.iter().filter(|source| source.is_in("relay"));
        let calls = Calls::between(relay);
        House { sources, calls }
    }

    fn relay(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter().filter(|source| source.is_in("relay"))
    }

    fn functions<'a>(&'a self) -> impl Iterator<Item = (&'a Source, &'a Function)> {
        let functions = |source: &'a Source| {
            let functions = source.functions.iter();
            functions.map(move |function| (source, function))
        };
        self.sources.iter().flat_map(functions)
    }
}

/// The fields of `struct Relay`.
pub fn fields_of_relay(house: &House) -> Count {
    let structs = house.relay().flat_map(|source| &source.structs);
    let relay = structs.filter(|item| item.name == "Relay");
    let fields = relay.flat_map(|item| &item.fields);
    Count::These(fields.map(|field| field.name.clone()).collect())
}

fn is_of_relay(function: &Function) -> bool {
    function.is_inherent && function.owner.as_deref() == Some("Relay")
}

/// The functions with a body in the blocks `impl Relay` below `relay/`, those without `self` as
/// well.
pub fn methods_of_relay(house: &House) -> Count {
    let methods = house.relay().flat_map(|source| &source.functions);
    Count::Number(methods.filter(|function| is_of_relay(function)).count())
}

/// The files in which there is one of them.
pub fn files_of_relay(house: &House) -> Count {
    let files = house.relay();
    let files = files.filter(|source| source.functions.iter().any(is_of_relay));
    Count::These(files.map(|source| source.path.clone()).collect())
}

/// A part is a file or a folder directly in `relay/`. Counted are the fields that can be seen from
/// outside of it: those whose `pub…`, and that of their struct, reach the module `relay`. Not those
/// of values, structs that can be cloned or that borrow: whoever changes a copy changes nothing for
/// others. Nor what is in an enum's variants, which have no walls.
pub fn fields_seen_outside(house: &House) -> Count {
    Count::These(house.relay().flat_map(seen_outside).collect())
}

fn seen_outside(source: &Source) -> Vec<String> {
    let part_depth = source.modules().len().min(2);
    let mut seen = Vec::new();
    for item in source.structs.iter().filter(|item| !item.is_value) {
        let of_struct = seen_in(&item.visibility, source);
        for field in &item.fields {
            if seen_in(&field.visibility, source).max(of_struct) < part_depth {
                seen.push(format!("{}: {}.{}", source.path, item.name, field.name));
            }
        }
    }
    seen
}

/// How deep the module lies in which all can see what has this visibility; 0 is everywhere.
fn seen_in(visibility: &str, source: &Source) -> usize {
    let own = source.modules().len();
    match visibility {
        "" | "pub(self)" => own,
        "pub(super)" => own - 1,
        "pub" | "pub(crate)" => 0,
        // Written together: `pub(incrate::a)`.
        within => within.matches("::").count(),
    }
}

/// The most functions in `relay/` of which each can reach each. `calls.rs` says what is a call.
pub fn circle_of_calls(house: &House) -> Count {
    let circle = house.calls.graph.largest_circle().into_iter();
    Count::These(
        circle
            .map(|index| house.calls.places[index].clone())
            .collect(),
    )
}

/// How many functions in `relay/`, methods or not, whose ever, one of this name can reach by calls;
/// the most, if several have the name.
pub fn reach_of(house: &House, name: &str) -> Count {
    let names = house.calls.names.iter().enumerate();
    let named = names.filter(|(_, known)| *known == name);
    let reached = named.map(|(index, _)| house.calls.graph.reach(index).len());
    reached.max().map_or(Count::Nowhere, Count::Number)
}

/// What stands directly in this folder and imports each other in a circle. `paths.rs` says what is
/// an import.
pub fn circle_in(house: &House, folder: &str) -> Count {
    Count::These(import_circle(&house.sources, folder))
}

/// The same, in all folders but these.
pub fn circles_but_in(house: &House, others: &[&str]) -> Count {
    let folders = folders(&house.sources).into_iter();
    let folders = folders.filter(|folder| !others.contains(folder));
    let of_folder = |folder: &str| {
        let circle = import_circle(&house.sources, folder).into_iter();
        circle
            .map(|name| format!("{folder}/{name}"))
            .collect::<Vec<_>>()
    };
    Count::These(folders.flat_map(of_folder).collect())
}

/// From the line of `fn` to that of the closing brace, with all that stands between.
pub fn long_functions(house: &House) -> Count {
    let functions = house.functions();
    let long = functions.filter(|(_, function)| function.lines > FUNCTION_LINES_MAX);
    Count::These(
        long.map(|(source, function)| function.place(source))
            .collect(),
    )
}

/// The length, counted in the same way, that 95 of 100 functions have at most.
pub fn length_of_most_functions(house: &House) -> Count {
    let mut lengths: Vec<usize> = house.functions().map(|(_, item)| item.lines).collect();
    lengths.sort_unstable();
    let place = (lengths.len() * 95).div_ceil(100);
    Count::Number(lengths[place.saturating_sub(1)])
}

/// Lines of code are neither empty nor all comment.
pub fn long_files(house: &House) -> Count {
    let files = house.sources.iter();
    let long = files.filter(|source| source.code_lines() > FILE_LINES_MAX);
    Count::These(long.map(|source| source.path.clone()).collect())
}

/// Each `let Some(…) = … else { return; }` in `relay/`: what should be there is not, and nobody
/// learns of it.
pub fn silent_returns(house: &House) -> Count {
    let files = house.relay();
    Count::These(
        files
            .flat_map(|source| returns(source, &[";", "}"]))
            .collect(),
    )
}

/// Each `let Some(…) = … else { return … }` in `relay/`, with a value or without.
pub fn all_returns(house: &House) -> Count {
    Count::These(
        house
            .relay()
            .flat_map(|source| returns(source, &[]))
            .collect(),
    )
}

/// The first lines of those after whose `return` one of `next` stands; of all, if that is empty.
fn returns(source: &Source, next: &[&str]) -> Vec<String> {
    let tokens = &source.tokens;
    let returns = |at: &usize| {
        let end = find_outside(tokens, *at, &["else", "{", ";"]);
        let end = end.filter(|_| stands(tokens, *at, &["let", "Some", "("]));
        end.filter(|&end| stands(tokens, end, &["else", "{", "return"]))
            .and_then(|end| tokens.get(end + 3))
            .is_some_and(|token| next.is_empty() || next.contains(&token.text.as_str()))
    };
    let found = (0..tokens.len()).filter(returns);
    found.map(|at| source.line(tokens[at].line)).collect()
}

/// Lines that begin with `pub` and a function, a type, a constant or a field, if no doc comment
/// stands before it and its attributes. Not `pub(…)`; not modules, whose files begin with their
/// docs; not what is passed on from elsewhere.
pub fn undocumented(house: &House) -> Count {
    Count::These(house.sources.iter().flat_map(undocumented_in).collect())
}

fn undocumented_in(source: &Source) -> Vec<String> {
    let lines: Vec<&str> = source.text.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for (number, line) in source.code.lines().enumerate() {
        let item = line.trim_start().strip_prefix("pub ");
        if item.is_none_or(|item| item.starts_with("use ") || item.starts_with("mod ")) {
            continue;
        }
        let is_attribute = |line: &&&str| line.starts_with("#[") || line.ends_with(")]");
        let above = lines[..number]
            .iter()
            .rev()
            .find(|line| !is_attribute(line));
        if !above.is_some_and(|line| line.starts_with("///")) {
            found.push(source.line(number));
        }
    }
    found
}

/// Lines with a comment and more than 100 characters. The tests count here as well, and so do
/// `tests`, `benches`, `fuzz` and `examples`.
pub fn wide_comments(_: &House) -> Count {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in ["src", "tests", "benches", "fuzz", "examples"] {
        for file in rust_files(&root.join(folder)) {
            let wide = wide_comments_in(&read(&file)).into_iter();
            let path = file.strip_prefix(root).expect("below it").display();
            found.extend(wide.map(|number| format!("{path}:{number}")));
        }
    }
    Count::These(found)
}

/// The numbers of these lines, counted from 1.
fn wide_comments_in(text: &str) -> Vec<usize> {
    let code = code_of(text);
    let lines = (1..).zip(text.lines().zip(code.lines()));
    let is_wide = |(_, (line, code)): &(usize, (&str, &str))| {
        line.chars().count() > COMMENT_COLUMNS_MAX && line.trim().len() > code.trim().len()
    };
    lines.filter(is_wide).map(|(number, _)| number).collect()
}

/// The lines of `src` that are neither empty nor all comment.
pub fn code_lines(house: &House) -> Count {
    Count::Number(house.sources.iter().map(Source::code_lines).sum())
}

/// All lines of `src`.
pub fn lines(house: &House) -> Count {
    let files = house.sources.iter();
    Count::Number(files.map(|source| source.text.lines().count()).sum())
}
