//! The features of `Cargo.toml`, which can be left out of the program. All are in by default.
//!
//! Each feature is one module. Without it, `absent.rs` replaces the module, with the same names and
//! no function. Its options are left out of the table.

/// A part of the program that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// The name in `Cargo.toml`.
    pub name: &'static str,
    /// Describes it in a few words.
    pub what: &'static str,
    /// Whether this program has it.
    pub is_in: bool,
    /// Its options without the two dashes; the first ones turn it on. Empty: it is always on.
    pub options: &'static [&'static str],
}

macro_rules! features {
    ($($name:literal: $what:literal, $options:expr;)*) => {
        /// All features, by name.
        pub const FEATURES: &[Feature] = &[$(Feature {
            name: $name,
            what: $what,
            is_in: cfg!(feature = $name),
            options: &$options,
        }),*];
    };
}

features! {
    "handover": "another process takes over, and nobody is cut", ["handover"];
    "hls": "playlists and segments, for players and caches", ["hls", "hls-segment"];
    "hold": "viewers that outlive their source", ["hold"];
    "icecast": "sources as Icecast's clients send them", ["icecast"];
    "page": "the operator's page and the viewers' (their HTML is not counted)", [];
    "remux": "streams in other containers than their own", ["remux"];
    "rtmp": "sources by RTMP, as OBS and ffmpeg send them", ["rtmp"];
    "sandbox": "threads that can do only what they need", ["sandbox"];
    "token-file": "tokens that survive a restart", ["token-file"];
}

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
