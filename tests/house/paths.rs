//! The paths that a file names, and who imports whom within a folder.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::Graph;
use crate::sources::Source;
use crate::tokens::{Token, find_outside, stands};

/// Where a path begins that says from where it counts.
const ROOTS: &[&str] = &["crate", "tollgate", "super", "self"];

/// All paths that begin with a root, wherever they stand, those in braces one by one; each counted
/// from the crate's root.
pub fn paths(source: &Source) -> Vec<Vec<String>> {
    let tokens = &source.tokens;
    let mut paths = Vec::new();
    for at in 0..tokens.len() {
        let is_root = ROOTS.contains(&tokens[at].text.as_str());
        let goes_on = stands(tokens, at + 1, &[":", ":"]);
        let is_within = at > 0 && tokens[at - 1].is(":");
        if is_root && goes_on && !is_within {
            unfold(tokens, at, &[], &mut paths);
        }
    }
    paths.iter().map(|path| resolved(path, source)).collect()
}

/// The path from the crate's root.
fn resolved(path: &[String], source: &Source) -> Vec<String> {
    let mut resolved: Vec<String> = source.modules().into_iter().map(str::to_owned).collect();
    for name in path {
        match name.as_str() {
            "crate" | "tollgate" => resolved.clear(),
            "super" => drop(resolved.pop()),
            "self" => {}
            name => resolved.push(name.to_owned()),
        }
    }
    resolved
}

/// Returns each path of the part of an import that begins at `at`, with its prefix.
fn unfold(tokens: &[Token], mut at: usize, before: &[String], paths: &mut Vec<Vec<String>>) {
    let mut path = before.to_vec();
    while tokens.get(at).is_some_and(Token::is_word) {
        path.push(tokens[at].text.clone());
        at += 1;
        if !stands(tokens, at, &[":", ":"]) {
            break;
        }
        at += 2;
    }
    if !stands(tokens, at, &["{"]) {
        // Nothing follows a last comma.
        paths.extend(Some(path).filter(|path| path.len() > before.len()));
        return;
    }
    let mut begin = at + 1;
    while let Some(end) = find_outside(tokens, begin, &[",", "}"]) {
        unfold(tokens, begin, &path, paths);
        begin = end + 1;
        if tokens[end].is("}") {
            return;
        }
    }
}

/// The folders in which there are sources.
pub fn folders(sources: &[Source]) -> BTreeSet<&str> {
    let folders = sources
        .iter()
        .filter_map(|source| source.path.rsplit_once('/'));
    folders.map(|(folder, _)| folder).collect()
}

/// Returns the largest circle of imports among the modules of a folder, by name. A file and the
/// folder of its name are one module. The folder's own `mod.rs` is none. An import from `mod.rs` of
/// a name that `mod.rs` imports counts as an import from the name's own module.
pub fn import_circle(sources: &[Source], folder: &str) -> Vec<String> {
    let above: Vec<String> = folder.split('/').map(str::to_owned).collect();
    let inside: Vec<&Source> = sources
        .iter()
        .filter(|source| source.is_in(folder))
        .collect();
    let names: BTreeSet<&str> = inside
        .iter()
        .filter_map(|source| source.modules().get(above.len()).copied())
        .collect();
    let names: Vec<&str> = names.into_iter().collect();
    let place = |name: &str| names.iter().position(|known| *known == name);
    let mut passed_on = BTreeMap::new();
    for source in inside.iter().filter(|source| source.modules() == above) {
        for path in imported(&source.tokens) {
            if let (Some(from), Some(name)) = (place(&path[0]), path.last()) {
                passed_on.insert(name.clone(), from);
            }
        }
    }
    let mut edges = vec![BTreeSet::new(); names.len()];
    for source in inside {
        let modules = source.modules();
        let Some(from) = modules.get(above.len()).and_then(|name| place(name)) else {
            continue;
        };
        for path in paths(source).iter().filter(|path| path.starts_with(&above)) {
            let Some(name) = path.get(above.len()) else {
                continue;
            };
            let to = place(name).or_else(|| passed_on.get(name).copied());
            edges[from].extend(to.filter(|to| *to != from));
        }
    }
    let circle = Graph { edges }.largest_circle();
    circle
        .into_iter()
        .map(|index| names[index].to_owned())
        .collect()
}

/// The paths after each `use`.
fn imported(tokens: &[Token]) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for at in (0..tokens.len()).filter(|&at| tokens[at].is("use")) {
        unfold(tokens, at + 1, &[], &mut paths);
    }
    paths
}

#[test]
fn circles_of_imports_are_found() {
    let source = |path: &str, text: &str| Source::new(path, text.to_owned());
    let sources = [
        source(
            "a/mod.rs",
            "mod b; mod c; use b::{B, X as Y}; pub use c::*;",
        ),
        source("a/b.rs", "use super::c::{self, C};"),
        source("a/c/mod.rs", "mod d; mod e;"),
        source(
            "a/c/d.rs",
            "use super::super::B; use super::e; use super::F;",
        ),
        source("a/c/e.rs", "fn e() { crate::a::c::d::D }"),
        source("a/f.rs", "use super::{b, c::{d::D, E}};"),
    ];
    assert_eq!(import_circle(&sources, "a"), ["b", "c"]);
    assert_eq!(import_circle(&sources, "a/c"), ["d", "e"]);
    assert_eq!(folders(&sources), BTreeSet::from(["a", "a/c"]));
}
