//! A row of the table of options, and the functions that make one.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::Config;
use super::values::{self, Read};
use crate::gate::Subnet;

/// An option, for the parser, `--help`, `docs/options.md`, the manual page and shell completions.
pub struct Row {
    /// Name without the two dashes.
    pub name: &'static str,
    /// The value that follows the name, and the field of `Config` that it sets.
    pub(super) takes: Takes,
    /// The value without the option.
    pub(super) fallback: Fallback,
    /// Its line in `--help`, without a full stop. The default is added.
    pub help: &'static str,
    /// Further sentences for `docs/options.md`; may be empty.
    pub more: &'static str,
}

/// The options of one heading of `--help` and `docs/options.md`.
#[derive(Clone)]
pub struct Group {
    /// The heading.
    pub title: &'static str,
    /// Its options in the order of `--help`.
    pub rows: &'static [Row],
}

/// Parses a value and writes it into the `Config`.
type Reader = fn(&mut Config, &str) -> Read<()>;

/// Returns the field of the `Config` that an option sets.
type Field<T> = fn(&mut Config) -> &mut T;

#[derive(Clone)]
pub(super) enum Takes {
    /// No value: the option turns something on.
    Nothing(fn(&mut Config)),
    /// No value: the program does something else than run the server.
    Command(OtherCommand),
    /// A number in a range.
    Count(RangeInclusive<usize>, Field<usize>),
    /// Bytes in a range.
    Size(RangeInclusive<u64>, Field<usize>),
    /// Seconds in a range.
    Time(RangeInclusive<f64>, Field<Duration>),
    /// One value, with its placeholder in `--help`.
    One(&'static str, Reader),
    /// Values that add up, with their placeholder in `--help`.
    Many(&'static str, Reader),
    /// Subnets that add up.
    Subnets(Field<Vec<Subnet>>),
}

/// What the program does instead of running the server.
#[derive(Clone, Copy)]
pub(super) enum OtherCommand {
    Help,
    Version,
    Check,
    Health,
}

/// The value of an option that is not given.
pub(super) enum Fallback {
    /// None, and none is shown.
    None,
    /// None, shown as this word.
    Unset(&'static str),
    /// This value.
    Value(&'static str),
    /// The value that the function sets, shown as this text.
    Computed(&'static str, fn(&mut Config)),
}

pub(super) const fn flag(name: &'static str, set: fn(&mut Config)) -> Row {
    row(name, Takes::Nothing(set))
}

pub(super) const fn command(name: &'static str, command: OtherCommand) -> Row {
    row(name, Takes::Command(command))
}

pub(super) const fn count(
    name: &'static str,
    range: RangeInclusive<usize>,
    field: Field<usize>,
) -> Row {
    row(name, Takes::Count(range, field))
}

pub(super) const fn size(
    name: &'static str,
    range: RangeInclusive<u64>,
    field: Field<usize>,
) -> Row {
    row(name, Takes::Size(range, field))
}

pub(super) const fn time(
    name: &'static str,
    range: RangeInclusive<f64>,
    field: Field<Duration>,
) -> Row {
    row(name, Takes::Time(range, field))
}

pub(super) const fn one(name: &'static str, placeholder: &'static str, read: Reader) -> Row {
    row(name, Takes::One(placeholder, read))
}

pub(super) const fn many(name: &'static str, placeholder: &'static str, read: Reader) -> Row {
    row(name, Takes::Many(placeholder, read))
}

pub(super) const fn subnets(name: &'static str, field: Field<Vec<Subnet>>) -> Row {
    row(name, Takes::Subnets(field))
}

const fn row(name: &'static str, takes: Takes) -> Row {
    Row {
        name,
        takes,
        fallback: Fallback::None,
        help: "",
        more: "",
    }
}

impl Row {
    /// Makes the option off unless it is given. `--help` shows `word`.
    pub(super) const fn unset(self, word: &'static str) -> Row {
        let fallback = Fallback::Unset(word);
        Row { fallback, ..self }
    }

    /// Sets the value that counts if the option is not given.
    pub(super) const fn default(self, value: &'static str) -> Row {
        let fallback = Fallback::Value(value);
        Row { fallback, ..self }
    }

    /// Sets the function that is called if the option is not given. `--help` shows `word`.
    pub(super) const fn computed(self, word: &'static str, set: fn(&mut Config)) -> Row {
        let fallback = Fallback::Computed(word, set);
        Row { fallback, ..self }
    }

    /// Sets its line in `--help`, which has at most 80 columns with the default.
    pub(super) const fn help(self, help: &'static str) -> Row {
        Row { help, ..self }
    }

    /// Sets further sentences for `docs/options.md`.
    pub(super) const fn more(self, more: &'static str) -> Row {
        Row { more, ..self }
    }

    /// Returns the name of the value in `--help`. `None` if the option takes no value.
    pub(super) fn placeholder(&self) -> Option<&'static str> {
        match &self.takes {
            Takes::Nothing(_) | Takes::Command(_) => None,
            Takes::Count(..) => Some("N"),
            Takes::Size(..) => Some("SIZE"),
            Takes::Time(..) => Some("TIME"),
            Takes::One(placeholder, _) | Takes::Many(placeholder, _) => Some(placeholder),
            Takes::Subnets(_) => Some("SUBNET"),
        }
    }

    /// Returns whether the option can be given several times.
    pub fn is_repeatable(&self) -> bool {
        matches!(self.takes, Takes::Many(..) | Takes::Subnets(_))
    }

    /// Returns whether the option can be given by a variable as well.
    pub(super) fn has_variable(&self) -> bool {
        !matches!(self.takes, Takes::Command(_))
    }

    /// Returns the default in a word; may be empty.
    pub fn default_word(&self) -> &'static str {
        match self.fallback {
            Fallback::None => "",
            Fallback::Unset(text) | Fallback::Value(text) | Fallback::Computed(text, _) => text,
        }
    }

    /// Returns the option as it is typed: `--name` or `--name=PLACEHOLDER`.
    pub fn usage(&self) -> String {
        match self.placeholder() {
            None => format!("--{}", self.name),
            Some(placeholder) => format!("--{}={placeholder}", self.name),
        }
    }

    /// Parses one value of the option and writes it into the `Config`.
    pub(super) fn read(&self, config: &mut Config, text: &str) -> Read<()> {
        match &self.takes {
            Takes::Nothing(set) => match text {
                "1" | "true" => set(config),
                "0" | "false" => {}
                _ => return values::wrong(text, "1 or 0"),
            },
            Takes::Command(_) => {}
            Takes::Count(range, field) => *field(config) = values::count(text, range.clone())?,
            Takes::Size(range, field) => *field(config) = values::size(text, range.clone())?,
            Takes::Time(range, field) => *field(config) = values::time(text, range.clone())?,
            Takes::One(_, read) | Takes::Many(_, read) => read(config, text)?,
            Takes::Subnets(field) => field(config).push(text.parse()?),
        }
        Ok(())
    }
}
