//! Weaves the mutants that cargo-mutants lists into a tree, all at once, each behind a number that is asked for at
//! run time: so the tree is built once, and not once a mutant.
//!
//!     weave TREE MUTANTS LEFT-OUT LIST
//!
//! TREE is rewritten in place. MUTANTS is what `cargo mutants --list --json` printed in it; their numbers are their
//! places in it, from 1. LEFT-OUT has the numbers of those that do not compile. LIST gets a line for each, with tabs
//! between: number, file, its own bytes in the file that was written (`-` for none), and `woven` or why it is not.

mod sites;
mod writer;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use sites::Site;
use writer::Writer;

struct Mutant {
    number: usize,
    genre: String,
    replacement: String,
    /// From 1, both.
    line: usize,
    column: usize,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tree, mutants, left_out, list] = &arguments[..] else {
        panic!("weave TREE MUTANTS LEFT-OUT LIST");
    };
    let left_out = read(left_out)
        .lines()
        .map(|line| line.parse().expect("a number"))
        .collect();
    let mut told = Vec::new();
    for (file, mutants) in
        by_file(&serde_json::from_str(&read(mutants)).expect("cargo-mutants wrote it"))
    {
        let path = Path::new(tree).join(&file);
        let (woven, own) = weave(&read(&path), &mutants, &left_out);
        fs::write(&path, woven).expect("the tree can be written");
        told.extend(
            own.into_iter()
                .map(|(number, what)| format!("{number}\t{file}\t{what}\n")),
        );
    }
    fs::write(list, told.concat()).expect("the list can be written");
    append(tree, "src/mutants.rs", include_str!("asked.rs"));
    append(tree, "src/lib.rs", "\npub mod mutants;\n");
    // The program opens its record before it gives up the opening of files.
    let main = Path::new(tree).join("src/main.rs");
    let begun = read(&main).replace("-> ExitCode {", "-> ExitCode { tollgate::mutants::on(0);");
    fs::write(main, begun).expect("the tree can be written");
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.as_ref().display()))
}

fn append(tree: &str, file: &str, text: &str) {
    let path = Path::new(tree).join(file);
    let before = fs::read_to_string(&path).unwrap_or_default();
    fs::write(path, before + text).expect("the tree can be written");
}

fn by_file(all: &Value) -> BTreeMap<String, Vec<Mutant>> {
    let text = |value: &Value| value.as_str().expect("a text").to_string();
    let count = |value: &Value| value.as_u64().expect("a number") as usize;
    let mut files: BTreeMap<String, Vec<Mutant>> = BTreeMap::new();
    for (number, row) in (1..).zip(all.as_array().expect("a list")) {
        let start = &row["span"]["start"];
        files.entry(text(&row["file"])).or_default().push(Mutant {
            number,
            genre: text(&row["genre"]),
            replacement: text(&row["replacement"]),
            line: count(&start["line"]),
            column: count(&start["column"]),
        });
    }
    files
}

/// The file with its mutants, and of each number what is to be told.
fn weave(
    source: &str,
    mutants: &[Mutant],
    left_out: &HashSet<usize>,
) -> (String, Vec<(usize, String)>) {
    let lines: Vec<usize> = std::iter::once(0)
        .chain(source.match_indices('\n').map(|(at, _)| at + 1))
        .collect();
    let mut sites: Vec<(Site, Vec<&Mutant>)> = sites::find(source, &lines)
        .into_iter()
        .map(|site| (site, Vec::new()))
        .collect();
    let places: HashMap<(&str, usize), usize> = sites
        .iter()
        .enumerate()
        .map(|(index, (site, _))| ((site.kind.genre(), site.named_at), index))
        .collect();
    let mut told = Vec::new();
    for mutant in mutants {
        let at = sites::byte(source, &lines, mutant.line, mutant.column - 1);
        let why = match places.get(&(mutant.genre.as_str(), at)) {
            _ if left_out.contains(&mutant.number) => "does not compile",
            Some(site) if sites[*site].0.is_const => "constant",
            Some(site) => {
                sites[*site].1.push(mutant);
                continue;
            }
            None => "beside a let",
        };
        told.push((mutant.number, format!("-\t{why}")));
    }
    sites.retain(|(_, mutants)| !mutants.is_empty());
    sites.sort_by_key(|(site, _)| (site.range.0, std::cmp::Reverse(site.range.1)));
    let writer = Writer::new(source, &sites);
    told.extend(
        writer
            .own
            .iter()
            .map(|(number, (from, to))| (*number, format!("{from}-{to}\twoven"))),
    );
    (writer.out, told)
}
