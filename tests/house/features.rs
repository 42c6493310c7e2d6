//! Compares the table of features with the sources: what each feature brings, and its lines.
//!
//! A feature's door is a module with this declaration, and all modules below it:
//!
//! ```text
//! #[cfg_attr(not(feature = "x"), path = "a/absent.rs")]
//! mod a;
//! ```
//!
//! `#[cfg(feature = "x")]` marks everything else that exists only with the feature: modules that only
//! the door uses, and rows of tables.

use std::collections::BTreeMap;
use std::path::Path;

use tollgate::config::FEATURES;

use crate::sources::{Source, end_of_item, read, sources};

/// What is in a program with one feature, and not without it.
#[derive(Debug, Default, PartialEq)]
struct Extra {
    /// Below `src/`.
    files: Vec<String>,
    /// The same, with a folder's name for all that is in one.
    names: Vec<String>,
    /// Lines of code, in these files and elsewhere.
    lines: usize,
    /// Lines of the door's absent twin.
    absent_lines: usize,
}

/// Of each feature, by its name.
fn extras(sources: &[Source]) -> BTreeMap<String, Extra> {
    let mut extras: BTreeMap<String, Extra> = BTreeMap::new();
    for source in sources {
        for marked in marked_in(source) {
            let extra = extras.entry(marked.feature).or_default();
            match marked.module {
                None => extra.lines += marked.lines,
                Some(module) => {
                    let place = place_of(source, &module);
                    let folder = format!("{}/", place.join("/"));
                    let is_folder = sources
                        .iter()
                        .any(|file| file.path == format!("{folder}mod.rs"));
                    let behind = |other: &&Source| other.modules().starts_with(&place);
                    for file in sources.iter().filter(behind) {
                        if file.is_absent() {
                            extra.absent_lines += file.code_lines();
                        } else {
                            extra.lines += file.code_lines();
                            extra.files.push(file.path.clone());
                            let name = if is_folder { &folder } else { &file.path };
                            extra.names.push(format!("`{name}`"));
                        }
                    }
                    extra.names.dedup();
                }
            }
        }
    }
    extras
}

fn place_of<'a>(source: &'a Source, module: &'a str) -> Vec<&'a str> {
    let mut place = source.modules();
    place.push(module);
    place
}

/// An item that a feature decides on.
struct Marked {
    feature: String,
    /// Its name, if it is a module.
    module: Option<String>,
    lines: usize,
}

fn marked_in(source: &Source) -> Vec<Marked> {
    let mut marked = Vec::new();
    let mut offset = 0;
    for line in source.text.split_inclusive('\n') {
        offset += line.len();
        let attribute = line.trim();
        let named = attribute
            .strip_prefix("#[cfg(feature = \"")
            .or_else(|| attribute.strip_prefix("#[cfg_attr(not(feature = \""));
        let Some((feature, _)) = named.and_then(|named| named.split_once('"')) else {
            continue;
        };
        let item = &source.code[offset..];
        let item = &item[..end_of_item(item)];
        let declared = item.trim().strip_suffix(';');
        let module = declared.and_then(|item| Some(item.split_once("mod ")?.1.to_owned()));
        marked.push(Marked {
            feature: feature.to_owned(),
            module,
            lines: item.lines().filter(|line| !line.trim().is_empty()).count(),
        });
    }
    marked
}

/// As `docs/building.md` has it.
fn table(sources: &[Source]) -> String {
    let extras = extras(sources);
    let mut text = String::from(
        "| feature | what it is | its options | its files in `src/` | lines, in hundreds |\n|---|---|---|---|---|\n",
    );
    let is_read = |source: &&Source| !source.is_absent() && !source.is_for_tests;
    let here = sources.iter().filter(is_read);
    let all: usize = here.map(Source::code_lines).sum();
    let mut none = all;
    for feature in FEATURES {
        let extra = &extras[feature.name];
        none = none - extra.lines + extra.absent_lines;
        let options = feature.options.iter().map(|name| format!("`--{name}`"));
        let options = options.collect::<Vec<_>>().join(", ");
        text += &format!(
            "| `{}` | {} | {} | {} | {} |\n",
            feature.name,
            feature.what,
            if options.is_empty() { "none" } else { &options },
            extra.names.join(", "),
            hundreds(extra.lines)
        );
    }
    text += &format!(
        "\nAbout {} lines of code with all of them, {} with none.\n",
        hundreds(all),
        hundreds(none)
    );
    text
}

/// The number rounded to hundreds, so that a small change does not need a new table.
fn hundreds(number: usize) -> String {
    match (number + 50) / 100 {
        0 => "below 50".to_owned(),
        hundreds @ 1..10 => format!("{hundreds}00"),
        hundreds => format!("{},{}00", hundreds / 10, hundreds % 10),
    }
}

/// `TOLLGATE_WRITE_README=1 cargo test --test house features` writes the table anew.
#[test]
fn the_docs_say_what_features_are_and_what_they_cost_to_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/building.md");
    let page = read(&path);
    let (before, rest) = page
        .split_once("<!-- features -->\n")
        .expect("where the table begins");
    let (listed, behind) = rest
        .split_once("<!-- /features -->")
        .expect("where the table ends");
    let table = table(&sources());
    if std::env::var_os("TOLLGATE_WRITE_README").is_some() {
        let written = format!("{before}<!-- features -->\n{table}<!-- /features -->{behind}");
        std::fs::write(&path, written).expect("it can be written");
    } else {
        assert!(
            listed == table,
            "the table of features in docs/building.md is not what the sources say; `TOLLGATE_WRITE_README=1 cargo test --test house features` writes it:\n{table}"
        );
    }
}

#[test]
fn features_are_those_of_the_manifest_and_all_of_them_are_used() {
    let manifest = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    let names: Vec<&str> = FEATURES.iter().map(|feature| feature.name).collect();
    let default = names.iter().map(|name| format!("\"{name}\""));
    let default = format!("default = [{}]\n", default.collect::<Vec<_>>().join(", "));
    assert!(manifest.contains(&default), "Cargo.toml has no {default}");
    let extras = extras(&sources());
    assert_eq!(extras.keys().collect::<Vec<_>>(), names);
    let mut files: Vec<&String> = extras.values().flat_map(|extra| &extra.files).collect();
    let count = files.len();
    files.sort();
    files.dedup();
    assert_eq!(files.len(), count, "a file belongs to one feature");
}

#[test]
fn what_a_feature_brings_is_counted() {
    let source = |path: &str, text: &str| Source::new(path, text.to_owned());
    let sources = [
        source(
            "a/mod.rs",
            "#[cfg_attr(not(feature = \"x\"), path = \"b/absent.rs\")]\nmod b;\n#[cfg(feature = \"x\")]\npub mod c;\nmod d;\n",
        ),
        source("a/b.rs", "1\n2\n// 3\n"),
        source("a/b/e.rs", "1\n"),
        source("a/b/absent.rs", "1\n2\n3\n4\n"),
        source("a/c/mod.rs", "1\n"),
        source("a/c/f.rs", "1\n"),
        source(
            "a/d.rs",
            "[\n#[cfg(feature = \"x\")]\nRow {\n1;\n},\nRow {},\n]",
        ),
    ];
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let extra = Extra {
        files: texts(&["a/b.rs", "a/b/e.rs", "a/c/mod.rs", "a/c/f.rs"]),
        names: texts(&["`a/b.rs`", "`a/b/e.rs`", "`a/c/`"]),
        lines: 8,
        absent_lines: 4,
    };
    assert_eq!(extras(&sources), BTreeMap::from([("x".to_owned(), extra)]));
}
