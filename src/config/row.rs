//! What is to be said about an option: the shape of a row of the table in `options`.

use super::Config;
use super::values::Read;

pub(super) struct Row {
    /// Without the two dashes.
    pub name: &'static str,
    /// What follows it, and where that is written.
    pub takes: Takes,
    /// Under which heading it stands in `--help` and `docs/options.md`.
    pub group: Group,
    /// What holds without it.
    pub fallback: Fallback,
    /// Its one line in `--help`; the default is put behind it.
    pub help: &'static str,
    /// What `docs/options.md` says besides: what happens at it. Sentences, or nothing.
    pub more: &'static str,
}

/// Writes a value into the `Config`.
type Reader = fn(&mut Config, &str) -> Read<()>;

#[derive(Clone, Copy)]
pub(super) enum Takes {
    Nothing(fn(&mut Config)),
    /// Asks for something else than to run.
    Asked(Asked),
    /// One value, called so in `--help`.
    One(&'static str, Reader),
    /// May be repeated; each value is added.
    Many(&'static str, Reader),
}

#[derive(Clone, Copy)]
pub(super) enum Asked {
    Help,
    Version,
    Check,
    Health,
}

/// What holds when the option is not given, and how that is shown.
pub(super) enum Fallback {
    /// Nothing, which needs no word.
    None,
    /// Nothing, which this word explains.
    Shown(&'static str),
    /// As if this had been given.
    Value(&'static str),
    /// Shown so, and made so.
    Made(&'static str, fn(&mut Config)),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Main,
    Gate,
    Limits,
    Times,
    Buffers,
    Operation,
}

impl Group {
    /// In the order of `--help` and `docs/options.md`.
    pub const ALL: [Group; 6] = [
        Group::Main,
        Group::Gate,
        Group::Limits,
        Group::Times,
        Group::Buffers,
        Group::Operation,
    ];

    /// The heading.
    pub fn title(self) -> &'static str {
        match self {
            Group::Main => "Main",
            Group::Gate => "Who may do what",
            Group::Limits => "How many",
            Group::Times => "How long",
            Group::Buffers => "What is buffered",
            Group::Operation => "Operation",
        }
    }
}

impl Row {
    /// Whether it can be given by a variable as well.
    pub fn has_variable(&self) -> bool {
        !matches!(self.takes, Takes::Asked(_))
    }

    /// As it is typed: `--name` or `--name=PLACEHOLDER`.
    pub fn usage(&self) -> String {
        match self.takes {
            Takes::Nothing(_) | Takes::Asked(_) => format!("--{}", self.name),
            Takes::One(placeholder, _) | Takes::Many(placeholder, _) => {
                format!("--{}={placeholder}", self.name)
            }
        }
    }
}
