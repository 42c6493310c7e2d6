//! The README says what the program says.
#![cfg(feature = "default")]

use std::fs;
use std::path::Path;

use tollgate::config;

/// The list of options is made from their table. `TOLLGATE_WRITE_README=1 cargo test --test readme`
/// writes it anew.
#[test]
fn the_readme_lists_the_options_as_they_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = fs::read_to_string(&path).expect("README.md");
    let (before, rest) = readme
        .split_once("<!-- options -->\n")
        .expect("where the list begins");
    let (listed, behind) = rest
        .split_once("<!-- /options -->")
        .expect("where the list ends");
    let table = config::readme_table();
    if std::env::var_os("TOLLGATE_WRITE_README").is_some() {
        let written = format!("{before}<!-- options -->\n{table}<!-- /options -->{behind}");
        fs::write(&path, written).expect("README.md can be written");
    } else {
        assert!(
            listed == table,
            "the list of options is not what the table says; write it anew"
        );
    }
}
