//! The rules of the house, read from the sources as text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules from the top down, each with those that it imports, and no others. Each of these
/// stands further down in this table, so there can be no cycle.
const IMPORTS: &[(&str, &[&str])] = &[
    ("main", &["config", "server"]),
    ("lib", &[]),
    (
        "server",
        &["config", "relay", "stream", "gate", "gather", "moment"],
    ),
    (
        "relay",
        &[
            "config",
            "proxy_header",
            "stream",
            "rtp",
            "format",
            "http",
            "gate",
            "gather",
            "held",
            "slots",
            "moment",
            "random",
        ],
    ),
    ("config", &["gate"]),
    ("proxy_header", &[]),
    ("stream", &["format", "gather", "moment"]),
    ("rtp", &["format", "held", "moment"]),
    ("format", &[]),
    ("http", &[]),
    ("gate", &["held", "moment"]),
    ("gather", &[]),
    ("held", &[]),
    ("slots", &[]),
    ("moment", &[]),
    ("random", &[]),
];

/// What only the shell may know, and the program's first lines.
const OF_THE_SHELL: &[&str] = &[
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "UnixListener",
    "UnixStream",
    "mio",
    "libc",
    "Instant",
    "SystemTime",
    "std::thread",
    "std::fs",
    "std::process",
    "stderr",
    "stdout",
    "println",
    "eprintln",
];

/// What a server of one thread has no use for.
const FOR_NOBODY: &[&str] = &[
    "Arc",
    "Mutex",
    "RwLock",
    "Atomic",
    "async",
    "await",
    "thread_local",
    "static mut",
];

const CODE_LINES_MAX: usize = 600;

/// A source file without its tests.
struct Source {
    /// Below `src/`, with `/` between.
    path: String,
    text: String,
    /// The text without comments, and with empty strings.
    code: String,
}

impl Source {
    /// The top-level module that it belongs to.
    fn module(&self) -> &str {
        let first = self.path.split('/').next().expect("a name");
        first.strip_suffix(".rs").unwrap_or(first)
    }

    fn is_of_the_shell(&self) -> bool {
        matches!(self.module(), "server" | "main")
    }
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&root, &mut files);
    let mut sources = Vec::new();
    for file in files {
        let path = file
            .strip_prefix(&root)
            .expect("below src")
            .to_string_lossy()
            .into_owned();
        if path.ends_with("/tests.rs") || path.contains("/tests/") {
            continue;
        }
        let text = fs::read_to_string(&file).expect("UTF-8");
        // Tests are the last thing in a file.
        let text = text
            .split("#[cfg(test)]\nmod tests")
            .next()
            .unwrap_or_default()
            .to_owned();
        let code = code_of(&text);
        sources.push(Source { path, text, code });
    }
    assert!(
        sources.len() > 10,
        "the sources are not where they are looked for"
    );
    sources
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Leaves out comments, and what is in strings and character literals.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(quoted) = rest.strip_prefix("r#\"") {
            code.push_str("\"\"");
            quoted.find("\"#").map_or(rest.len(), |end| 3 + end + 2)
        } else if let Some(quoted) = rest.strip_prefix('"') {
            code.push_str("\"\"");
            1 + end_of_quoted(quoted, '"')
        } else if let Some(length) = character_literal(rest) {
            code.push_str("' '");
            length
        } else {
            code.push(character);
            character.len_utf8()
        };
        rest = &rest[skipped..];
    }
    code
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

/// Whether `word` stands in `code`, not as a part of a longer word.
fn has_word(code: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    code.match_indices(word).any(|(index, _)| {
        let before = code[..index].chars().next_back();
        let after = code[index + word.len()..].chars().next();
        // `Atomic` stands for all types that begin so.
        !before.is_some_and(is_part) && (word == "Atomic" || !after.is_some_and(is_part))
    })
}

/// The top-level modules that `code` names after `crate::`, alone or in braces.
fn imports(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut imports = BTreeSet::new();
    for (index, _) in code.match_indices(prefix) {
        let rest = &code[index + prefix.len()..];
        match rest.strip_prefix('{') {
            None => drop(imports.insert(first_name(rest))),
            Some(group) => imports.extend(names_in_group(group)),
        }
    }
    imports.retain(|name| name.starts_with(|character: char| character.is_ascii_lowercase()));
    imports
}

fn first_name(text: &str) -> String {
    text.trim_start()
        .chars()
        .take_while(|&character| character.is_alphanumeric() || character == '_')
        .collect()
}

/// The first names of the entries of a group, up to its closing brace.
fn names_in_group(group: &str) -> Vec<String> {
    let mut names = vec![first_name(group)];
    let mut depth = 0;
    for (index, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(first_name(&group[index + 1..])),
            _ => {}
        }
    }
    names
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
        let mut imported = imports(&source.code, "crate::");
        imported.extend(imports(&source.code, "tollgate::"));
        unused.retain(|(of, import)| *of != module || !imported.contains(*import));
        for import in imported {
            let is_fine = import == module || may.contains(&import.as_str());
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
fn unsafe_stands_in_one_file() {
    for source in sources() {
        let is_place_for_it = source.path == "server/sys.rs";
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
fn only_the_shell_knows_sockets_clocks_threads_and_files() {
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

#[test]
fn no_file_is_too_long() {
    for source in sources() {
        let lines = source
            .code
            .lines()
            .filter(|line| !line.trim().is_empty())
            .count();
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
    let text = "use crate::{a::{b, c}, d, E};\n// crate::comment unsafe\nlet s = \"crate::string \\\" unsafe\";\nlet c = '\"'; let q = '\\'';\nfn f<'a>(x: &'a str) { crate::g::h() }\n";
    let code = code_of(text);
    let names: Vec<String> = imports(&code, "crate::").into_iter().collect();
    assert_eq!(names, ["a", "d", "g"]);
    assert!(!has_word(&code, "unsafe"));
    assert!(has_word("let x = Instant::now();", "Instant"));
    assert!(!has_word(
        "fn forbid_unsafe_code() { unsafely() }",
        "unsafe"
    ));
    assert!(has_word("use std::sync::atomic::AtomicUsize;", "Atomic"));
    assert_eq!(code_of("a /* b */ r#\"unsafe \" \"# c"), "a  \"\" c");
}
