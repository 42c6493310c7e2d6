//! The rules of the house: which module may know which, what only the shell may know, where
//! `unsafe` stands, and how a file begins.

use std::collections::{BTreeMap, BTreeSet};

use crate::paths::{folders, import_circle, paths};
use crate::sources::{Source, code_of, sources};
use crate::tokens::is_of_word;

/// The modules from the top down, each with exactly the modules that it imports. Imports are further
/// down in this table, so there is no cycle.
const IMPORTS: &[(&str, &[&str])] = &[
    ("main", &["config", "server"]),
    ("lib", &[]),
    (
        "server",
        &["config", "relay", "gate", "gather", "handover", "time"],
    ),
    ("config", &["relay", "gate"]),
    (
        "relay",
        &[
            "json",
            "proxy_header",
            "udp_out",
            "stream",
            "events",
            "hls",
            "rtmp",
            "rtp",
            "remux",
            "format",
            "http",
            "clean_text",
            "copied",
            "gate",
            "gather",
            "slots",
            "token_bucket",
            "time",
            "random",
            "handover",
        ],
    ),
    ("json", &[]),
    ("proxy_header", &[]),
    ("udp_out", &["rtp", "gate", "handover"]),
    (
        "stream",
        &[
            "hls", "slots", "format", "copied", "gather", "time", "handover",
        ],
    ),
    ("events", &["gate", "gather"]),
    ("hls", &["format", "http", "clean_text", "time", "handover"]),
    ("remux", &["format", "time", "handover"]),
    ("rtmp", &["format", "clean_text", "percent"]),
    ("rtp", &["format", "time", "handover"]),
    ("format", &["copied", "time", "handover"]),
    ("http", &["clean_text", "percent", "time"]),
    (
        "gate",
        &["clean_text", "percent", "memory", "time", "handover"],
    ),
    ("clean_text", &[]),
    ("copied", &["handover"]),
    ("gather", &[]),
    ("slots", &["handover"]),
    ("token_bucket", &["time"]),
    ("memory", &[]),
    ("percent", &[]),
    ("time", &[]),
    ("random", &[]),
    ("handover", &[]),
];

/// Crates that only the shell may know. What it may call of std is in clippy.toml.
const OF_THE_SHELL: &[&str] = &["mio", "libc"];

/// What a server of one thread has no use for, and clippy.toml cannot name.
const FOR_NOBODY: &[&str] = &["Atomic", "async", "await", "thread_local"];

const CODE_LINES_MAX: usize = 600;

/// Returns whether `code` has `word`, not as a part of a longer word.
fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(index, _)| {
        let before = code[..index].chars().next_back();
        let after = code[index + word.len()..].chars().next();
        // `Atomic` stands for all types that begin so.
        !before.is_some_and(is_of_word) && (word == "Atomic" || !after.is_some_and(is_of_word))
    })
}

/// The top-level modules that a file names.
fn imports(source: &Source) -> BTreeSet<String> {
    let modules = paths(source)
        .into_iter()
        .filter_map(|path| path.into_iter().next());
    modules
        .filter(|name| name.starts_with(|character: char| character.is_ascii_lowercase()))
        .collect()
}

#[test]
fn imports_point_down() {
    let allowed: BTreeMap<&str, &[&str]> = IMPORTS.iter().copied().collect();
    let place = |module: &str| IMPORTS.iter().position(|(name, _)| *name == module);
    for (module, imports) in IMPORTS {
        for import in *imports {
            assert!(
                place(import) > place(module),
                "the table: {import} does not stand below {module}"
            );
        }
    }
    let mut unused: BTreeSet<(&str, &str)> = IMPORTS
        .iter()
        .flat_map(|(module, imports)| imports.iter().map(|import| (*module, *import)))
        .collect();
    for source in sources() {
        let module = source.module();
        let may = allowed
            .get(module)
            .unwrap_or_else(|| panic!("the module {module} has no place in the table"));
        let imported = imports(&source);
        unused.retain(|(of, import)| *of != module || !imported.contains(*import));
        for import in imported {
            // Tests write settings as the operator does.
            let is_of_test = source.is_for_tests && import == "config";
            let is_fine = import == module || may.contains(&import.as_str()) || is_of_test;
            assert!(
                is_fine,
                "{} imports {import}, which {module} may not know",
                source.path
            );
        }
    }
    assert!(
        unused.is_empty(),
        "the table: rows are wider than what is imported: {unused:?}"
    );
}

#[test]
fn no_files_of_a_folder_import_each_other_in_a_circle() {
    let sources: Vec<Source> = sources()
        .into_iter()
        .filter(|source| !source.is_for_tests && !source.is_absent())
        .collect();
    for folder in folders(&sources) {
        let circle = import_circle(&sources, folder);
        assert!(circle.is_empty(), "src/{folder}: {circle:?}");
    }
}

#[test]
fn unsafe_stands_where_the_system_is_called() {
    for source in sources() {
        let is_place_for_it = source.path == "server/sys.rs" || source.is_in("server/sys");
        assert!(
            is_place_for_it || !has_word(&source.code, "unsafe"),
            "{}",
            source.path
        );
        let lifts_the_ban = ["allow(unsafe_code)", "expect(unsafe_code)"]
            .iter()
            .any(|lift| source.code.contains(lift));
        let may_lift_it = matches!(source.path.as_str(), "server/sys.rs" | "server/mod.rs");
        assert!(may_lift_it || !lifts_the_ban, "{}", source.path);
        if source.path == "lib.rs" {
            // `forbid` could not be lifted for the one file.
            assert!(
                source.code.contains("#![deny(unsafe_code)]"),
                "lib.rs does not deny unsafe code"
            );
        }
    }
}

#[test]
fn only_the_shell_knows_sockets() {
    for source in sources().iter().filter(|source| !source.is_of_the_shell()) {
        for word in OF_THE_SHELL {
            assert!(
                !has_word(&source.code, word),
                "{} knows of {word}",
                source.path
            );
        }
    }
}

#[test]
fn one_thread_shares_nothing_and_awaits_nothing() {
    for source in sources() {
        for word in FOR_NOBODY {
            assert!(!has_word(&source.code, word), "{} has {word}", source.path);
        }
    }
}

/// Clippy denies the hashers that chance does not key (clippy.toml). A trait is no type to it.
#[test]
fn only_the_start_has_a_hasher_of_its_own() {
    for source in sources() {
        assert!(
            source.path == "server/start.rs" || !has_word(&source.code, "BuildHasher"),
            "{} has a hasher of its own",
            source.path
        );
    }
}

#[test]
fn no_file_is_too_long() {
    for source in sources() {
        let lines = source.code_lines();
        assert!(
            lines <= CODE_LINES_MAX,
            "{} has {lines} lines of code",
            source.path
        );
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    for source in sources() {
        assert!(
            source.text.starts_with("//! "),
            "{} does not begin with its purpose",
            source.path
        );
    }
}

/// The rules above are only as good as the eyes with which they look.
#[test]
fn the_sources_are_read_right() {
    let text = "use crate::{a::{b, c}, d, E};\n// crate::comment unsafe\nlet s = \"crate::string \\\" unsafe\";\nlet c = '\"'; let q = '\\'';\nfn f<'a>(x: &'a str) { crate::g::h(super::super::j::k) }\n";
    let code = code_of(text);
    let source = Source::new("h/i.rs", text.to_owned());
    let names: Vec<String> = imports(&source).into_iter().collect();
    assert_eq!(names, ["a", "d", "g", "j"]);
    assert!(!has_word(&code, "unsafe"));
    assert!(has_word("let x = Instant::now();", "Instant"));
    assert!(!has_word(
        "fn forbid_unsafe_code() { unsafely() }",
        "unsafe"
    ));
    assert!(has_word("use std::sync::atomic::AtomicUsize;", "Atomic"));
    assert!(!has_word(
        &code_of("a /* b */ r#\"unsafe \" \"# c"),
        "unsafe"
    ));
}
