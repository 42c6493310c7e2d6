//! The small real files of `tests/media`, and what a scan of them finds.

use std::path::Path;

use tollgate::format::{Finding, Scanner};

/// The bytes of one.
pub fn file(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/media");
    std::fs::read(folder.join(name)).expect("a file of the corpus")
}

/// All that these bytes show.
pub fn findings(bytes: &[u8]) -> Vec<Finding> {
    let mut findings = Vec::new();
    Scanner::new().feed(bytes, &mut findings);
    findings
}
