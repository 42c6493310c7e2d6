//! Replays every input of the fuzz corpora through its door, so that a mended fault stays mended.
#![cfg(feature = "default")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

mod doors;

#[test]
fn every_kept_input_passes_its_door() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let mut folders = BTreeSet::new();
    for folder in fs::read_dir(&corpus).expect("fuzz/corpus") {
        let folder = folder.expect("a folder").path();
        let name = folder
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        for input in fs::read_dir(&folder).expect("its inputs") {
            let path = input.expect("an input").path();
            doors::pass(&name, &fs::read(&path).expect("its bytes"));
        }
        folders.insert(name);
    }
    for (door, _) in doors::ALL {
        assert!(folders.contains(*door), "the door {door} has no corpus");
        let target = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fuzz/fuzz_targets")
            .join(format!("{door}.rs"));
        assert!(target.exists(), "the door {door} has no fuzz target");
    }
}
