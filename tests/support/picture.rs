//! The server's state as a reader of events sees it, for comparison with the lists.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// A unit of a `text/event-stream`.
#[derive(Clone, Debug)]
pub struct Unit {
    pub event: String,
    pub id: Option<String>,
    pub data: Value,
}

impl Unit {
    /// Parses a block of lines with its empty line. Returns `None` for a comment.
    #[track_caller]
    pub fn parse(block: &str) -> Option<Unit> {
        let mut fields: BTreeMap<&str, &str> = BTreeMap::new();
        for line in block.lines().filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').expect("a field or a comment");
            if name.is_empty() {
                continue;
            }
            assert!(matches!(name, "event" | "id" | "data"), "{line:?}");
            let value = value.strip_prefix(' ').unwrap_or(value);
            assert_eq!(fields.insert(name, value), None, "{block:?}");
        }
        let data = fields.get("data")?;
        Some(Unit {
            event: (*fields.get("event").expect("a name")).to_owned(),
            id: fields.get("id").map(|id| (*id).to_owned()),
            data: serde_json::from_str(data).expect("JSON"),
        })
    }
}

/// What is there, by the events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picture {
    /// By their ids whether they have a source.
    pub streams: BTreeMap<String, bool>,
    /// Those over HTTP, by their ids.
    pub viewers: BTreeSet<String>,
    /// How many tuples each sessionid has.
    pub tokens: BTreeMap<String, u64>,
}

impl Picture {
    pub fn take(&mut self, unit: &Unit) {
        let text = |name: &str| unit.data[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| unit.data[name].as_u64().expect("a number");
        match unit.event.as_str() {
            "snapshot" => *self = Picture::default(),
            "token" => *self.tokens.entry(text("sessionid")).or_default() += 1,
            "stream" => {
                self.streams
                    .insert(text("id"), !unit.data["source"].is_null());
            }
            "stream-begins" | "stream-held" | "stream-goes-on" => {
                self.streams.insert(text("id"), true);
            }
            "stream-ends" => {
                self.streams.insert(text("id"), false);
            }
            "stream-over" => {
                self.streams.remove(&text("id"));
            }
            "viewer" | "viewer-comes" => {
                self.viewers.insert(text("id"));
            }
            "viewer-goes" => {
                self.viewers.remove(&text("id"));
            }
            "token-added" => {
                self.tokens.insert(text("sessionid"), number("tuples"));
            }
            "token-revoked" => {
                self.tokens.remove(&text("sessionid"));
            }
            "token-forgotten" => {
                let tuples = self.tokens.remove(&text("sessionid")).unwrap_or_default();
                if tuples > 1 {
                    self.tokens.insert(text("sessionid"), tuples - 1);
                }
            }
            "snapshot-end" | "missed" | "viewer-cut" | "source-too-fast" | "token-over"
            | "tokens-over" | "publisher-refused" | "refusal" => {}
            other => panic!("{other} is not known"),
        }
    }

    /// What the lists say.
    pub fn of_lists(tokens: &Value, streams: &Value, viewers: &Value) -> Picture {
        let rows = |list: &Value| list.as_array().expect("an array").clone();
        let id = |row: &Value| row["id"].as_str().expect("an id").to_owned();
        let mut picture = Picture::default();
        for row in rows(tokens) {
            let name = row["sessionid"].as_str().expect("a sessionid").to_owned();
            *picture.tokens.entry(name).or_default() += 1;
        }
        for row in rows(streams) {
            picture.streams.insert(id(&row), !row["source"].is_null());
        }
        let watches = |row: &&Value| row["way"] == "http" && row["state"] == "watching";
        let viewers = rows(viewers);
        picture.viewers = viewers.iter().filter(watches).map(id).collect();
        picture
    }
}
