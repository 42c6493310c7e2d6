//! The README and the pages of `docs` agree with the program, and their links lead somewhere.
#![cfg(feature = "default")]

mod completions;
mod manual;
mod options;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// What is made of the table of options is as that is. `TOLLGATE_WRITE_README=1 cargo test --test
/// readme` writes it anew.
#[test]
fn what_is_made_of_the_options_is_as_they_are() {
    let page = read(&Path::new(ROOT).join("docs/options.md"));
    let (before, rest) = page
        .split_once("<!-- options -->\n")
        .expect("where the list begins");
    let (_, behind) = rest
        .split_once("<!-- /options -->")
        .expect("where the list ends");
    let sections = options::sections();
    let page = format!("{before}<!-- options -->\n{sections}<!-- /options -->{behind}");
    let written = [
        ("docs/options.md", page),
        ("packaging/tollgate.1", manual::page()),
        ("packaging/completions/tollgate.bash", completions::bash()),
        ("packaging/completions/_tollgate", completions::zsh()),
        ("packaging/completions/tollgate.fish", completions::fish()),
    ];
    for (file, text) in written {
        let path = Path::new(ROOT).join(file);
        if std::env::var_os("TOLLGATE_WRITE_README").is_some() {
            fs::write(&path, text).expect("it can be written");
        } else {
            let is_as_written = fs::read_to_string(&path).is_ok_and(|there| there == text);
            assert!(
                is_as_written,
                "{file} is not what the table says; write it anew"
            );
        }
    }
}

/// A file that is named, and a heading within it.
#[test]
fn every_link_leads_somewhere() {
    let mut wrong = Vec::new();
    for page in pages() {
        let folder = page.parent().expect("a folder");
        for link in links(&read(&page)) {
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => page.clone(),
                file => folder.join(file),
            };
            let is_there = target.exists()
                && (heading.is_empty() || headings(&read(&target)).contains(heading));
            if !is_there {
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// What the pages show of the unit, and make of it, is the unit.
#[test]
fn the_unit_of_the_pages_is_the_packages() {
    let file = |name| read(&Path::new(ROOT).join(name));
    let unit = file("packaging/tollgate.service");
    let lines: BTreeSet<&str> = unit.lines().collect();
    let page = file("docs/handover.md");
    let (_, shown) = page.split_once("```ini\n").expect("the unit");
    let (shown, _) = shown.split_once("```").expect("its end");
    assert!(shown.lines().count() > 5, "{shown}");
    for line in shown.lines() {
        assert!(lines.contains(line), "the unit has no line {line}");
    }

    // By hand: all that names the program names it where the page puts it.
    let page = file("docs/operating.md");
    let command = page
        .lines()
        .find(|line| line.starts_with("sed "))
        .expect("how it is made");
    let (command, _) = command.split_once(" | sudo tee ").expect("where it goes");
    let made = Command::new("sh")
        .args(["-c", command])
        .current_dir(ROOT)
        .output();
    let made = String::from_utf8(made.expect("sed").stdout).expect("UTF-8");
    let by_hand = unit.replace("/usr/bin/tollgate", "/usr/local/bin/tollgate");
    let by_hand = by_hand.replace("\nUser=", "\nDynamicUser=yes\nUser=");
    assert_eq!(made, by_hand);
    assert!(page.contains("sudo install ~/.cargo/bin/tollgate /usr/local/bin/\n"));
}

/// Whoever begins here finds every page.
#[test]
fn the_readme_leads_to_every_page_and_is_short() {
    let readme = read(&Path::new(ROOT).join("README.md"));
    let named: BTreeSet<String> = links(&readme).into_iter().collect();
    for page in fs::read_dir(Path::new(ROOT).join("docs")).expect("docs") {
        let name = page.expect("an entry").file_name();
        let name = format!("docs/{}", name.to_string_lossy());
        assert!(
            !name.ends_with(".md") || named.contains(&name),
            "the README does not name {name}"
        );
    }
    assert!(readme.lines().count() <= 100, "the README has grown");
}

/// Each test is named as `file::name` in the table of threats.
#[test]
fn the_tests_that_threats_names_are_there() {
    let page = read(&Path::new(ROOT).join("docs/threats.md"));
    let named: BTreeSet<&str> = page
        .split('`')
        .filter(|code| code.contains(".rs::"))
        .collect();
    assert!(named.len() > 50, "{}", named.len());
    for test in named {
        let (file, name) = test.split_once("::").expect("a file and a name");
        let text = read(&Path::new(ROOT).join(file));
        assert!(
            text.contains(&format!("#[test]\n{}fn {name}() {{", indent(file))),
            "there is no test {test}"
        );
    }
    let kinds = page.lines().filter(|line| {
        let mut cells = line.split('|').map(str::trim);
        cells.nth(1).is_some_and(|cell| cell.parse::<u32>().is_ok())
    });
    for (number, line) in (1..).zip(kinds) {
        assert!(line.starts_with(&format!("| {number} |")), "{line}");
        let is_shown = line.contains(".rs::") || line.contains("*by reading*");
        assert!(is_shown, "nothing shows it: {line}");
    }
}

/// Each line of `figures.txt` has a figure of a page, and the line of the sources that decides it: who changes one
/// looks at the other. Line breaks do not count.
#[test]
fn the_figures_of_the_pages_are_those_of_the_sources() {
    let words = |file: &str| {
        let text = read(&Path::new(ROOT).join(file));
        let words: Vec<&str> = text.split_whitespace().collect();
        words.join(" ")
    };
    let mut wrong = Vec::new();
    for line in include_str!("figures.txt").lines() {
        let (figure, source) = line.split_once(" <- ").expect("a figure and its source");
        for place in [figure, source] {
            let (file, text) = place.split_once(": ").expect("a file and its text");
            if !words(file).contains(text) {
                wrong.push(format!("{file} does not have \"{text}\": {line}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Unit tests are in a module, or in a file of their own.
fn indent(file: &str) -> &'static str {
    let has_own = file.starts_with("tests/") || file.ends_with("/tests.rs");
    if has_own { "" } else { "    " }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The README, the other pages beside it, and those in `docs`.
fn pages() -> Vec<PathBuf> {
    let folders = [Path::new(ROOT).to_owned(), Path::new(ROOT).join("docs")];
    let files = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    let paths = files.map(|file| file.expect("an entry").path());
    paths
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect()
}

/// Returns the targets of a page's links, without links to other sites and without code.
fn links(text: &str) -> Vec<String> {
    let ends = text.split("](").skip(1);
    let links = ends.filter_map(|rest| Some(rest.split_once(')')?.0));
    links
        .filter(|link| !link.contains("://") && !link.contains([' ', '\n']))
        .map(str::to_owned)
        .collect()
}

/// The names that a page's headings have in links.
fn headings(text: &str) -> BTreeSet<String> {
    let titles = text.lines().filter(|line| line.starts_with('#'));
    titles
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter_map(|character| match character {
                ' ' => Some('-'),
                '-' | '_' => Some(character),
                character => character.is_alphanumeric().then_some(character),
            });
            kept.collect()
        })
        .collect()
}
