//! What can be left out when the program is built: the features of `Cargo.toml`, all of them in by
//! default.
//!
//! Each has one door, a module in whose place `absent.rs` stands where it is left out, with the
//! same names and nothing behind them; and its rows in the table of options.

/// Something that not everybody needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// As `Cargo.toml` calls it.
    pub name: &'static str,
    /// What it is, in a few words.
    pub what: &'static str,
    /// Whether it is in this program.
    pub is_in: bool,
    /// Its options, without the two dashes; those that wake it first. None: it is always awake.
    pub options: &'static [&'static str],
}

/// All there are, by their names.
pub const FEATURES: &[Feature] = &[
    Feature {
        name: "handover",
        what: "another process takes over, and nobody is cut",
        is_in: cfg!(feature = "handover"),
        options: &["handover"],
    },
    Feature {
        name: "hls",
        what: "playlists and segments, for players and caches",
        is_in: cfg!(feature = "hls"),
        options: &["hls", "hls-segment"],
    },
    Feature {
        name: "hold",
        what: "viewers that outlive their source",
        is_in: cfg!(feature = "hold"),
        options: &["hold"],
    },
    Feature {
        name: "icecast",
        what: "sources as Icecast's clients send them",
        is_in: cfg!(feature = "icecast"),
        options: &["icecast"],
    },
    Feature {
        name: "page",
        what: "the operator's page and the viewers' (their HTML is not counted)",
        is_in: cfg!(feature = "page"),
        options: &[],
    },
    Feature {
        name: "remux",
        what: "streams in other containers than their own",
        is_in: cfg!(feature = "remux"),
        options: &["remux"],
    },
    Feature {
        name: "sandbox",
        what: "threads that can do only what they need",
        is_in: cfg!(feature = "sandbox"),
        options: &["sandbox"],
    },
    Feature {
        name: "token-file",
        what: "tokens that survive a restart",
        is_in: cfg!(feature = "token-file"),
        options: &["token-file"],
    },
];

/// What this program has been built without, if it would have an option so called.
pub(super) fn left_out(option: &str) -> Option<&'static str> {
    let mut out = FEATURES.iter().filter(|feature| !feature.is_in);
    out.find(|feature| feature.options.contains(&option))
        .map(|feature| feature.name)
}

/// What is in this program, as `--version` says it.
pub fn compiled_in() -> String {
    let features = FEATURES.iter().filter(|feature| feature.is_in);
    let names: Vec<&str> = features.map(|feature| feature.name).collect();
    match names.as_slice() {
        [] => "without features".to_owned(),
        names => format!("with {}", names.join(", ")),
    }
}
