//! The features of `Cargo.toml`, which can be left out of the program. All are in by default.
//!
//! Each feature is one module. Without it, `absent.rs` replaces the module, with the same names and
//! no function. Its options are left out of the table.

/// A part of the program that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// The name in `Cargo.toml`.
    pub name: &'static str,
    /// A few words on what it does.
    pub what: &'static str,
    /// Whether this program has it.
    pub is_in: bool,
    /// Its options without the two dashes; the first ones turn it on. Empty: it is always on.
    pub options: &'static [&'static str],
}

/// All features, by name.
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
        name: "rtmp",
        what: "sources by RTMP, as OBS and ffmpeg send them",
        is_in: cfg!(feature = "rtmp"),
        options: &["rtmp"],
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

/// Returns the feature that this program lacks for an option of this name, if any.
pub(super) fn left_out(option: &str) -> Option<&'static str> {
    let mut out = FEATURES.iter().filter(|feature| !feature.is_in);
    out.find(|feature| feature.options.contains(&option))
        .map(|feature| feature.name)
}

/// Returns the features of this program, for `--version`.
pub fn compiled_in() -> String {
    let features = FEATURES.iter().filter(|feature| feature.is_in);
    let names: Vec<&str> = features.map(|feature| feature.name).collect();
    match names.as_slice() {
        [] => "without features".to_owned(),
        names => format!("with {}", names.join(", ")),
    }
}
