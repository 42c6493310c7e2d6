//! Compares the events of the log in the sources with the tables of `docs/operating.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::sources::sources;

/// Each event with its keys.
type Events = BTreeMap<String, BTreeSet<String>>;

/// Each has its row, with its keys, and each row its event.
#[test]
fn the_page_has_the_events_of_the_log() {
    let said = of_sources();
    assert!(said.len() > 30, "{said:?}");
    assert_eq!(of_page(), said);
}

fn of_sources() -> Events {
    let mut events = Events::new();
    for source in sources().iter().filter(|source| !source.is_for_tests) {
        for line in source.text.split("event=").skip(1) {
            let mut ends = line.match_indices('"').map(|(at, _)| &line[..at]);
            let text = ends.find(|text| !text.ends_with('\\')).unwrap_or(line);
            let name = text.split(' ').next().expect("a name");
            // What changes of tokens are called stands below.
            if name == "{event}" {
                continue;
            }
            let keys = events.entry(name.to_owned()).or_default();
            for word in text.split(' ') {
                let key = word.split_once('=').map(|(key, _)| key);
                keys.extend(key.map(str::to_owned));
                if key == Some("detail") {
                    break;
                }
            }
        }
        if source.path == "relay/server_event.rs" {
            for text in source.text.split("\"token-").skip(1) {
                let (name, _) = text.split_once('"').expect("a name");
                let keys = ["session", "for", "tuples", "left_out"].map(str::to_owned);
                events.insert(format!("token-{name}"), keys.into());
            }
        }
    }
    events
}

fn of_page() -> Events {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operating.md");
    let page = fs::read_to_string(page).expect("the page");
    let tables = page.split("| event |").skip(1);
    let rows = tables.flat_map(|table| table.lines().skip(2).take_while(|line| !line.is_empty()));
    let named = |cell: &str| {
        let codes = cell.split('`').skip(1).step_by(2);
        codes.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let mut events = Events::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').collect();
        for name in named(cells[1]) {
            events.insert(name, named(cells[3]));
        }
    }
    events
}
