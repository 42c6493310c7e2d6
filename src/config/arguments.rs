//! Parses arguments and environment into a [`Command`].
//!
//! An option may be given once, unless it is repeatable. Its variable counts if the option is not
//! given; for repeatable options it has a list with commas. Otherwise the default counts.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::{self, Display, Formatter};

use lexopt::{Arg, Parser};

use super::features::left_out;
use super::options::options;
use super::row::{Fallback, OtherCommand, Row, Takes};
use super::{Command, Config, Outgoing, SandboxMode};
use crate::gate::Quoted;
use crate::relay::Settings;

/// Prefix of our variables.
const VARIABLE_PREFIX: &str = "TOLLGATE_";

/// The values of each option that is given, by name. Options without a value have an empty list.
type Given = BTreeMap<&'static str, Vec<OsString>>;

/// Parses the arguments after the program's name, and the environment.
pub fn parse(
    arguments: impl IntoIterator<Item = impl Into<OsString>>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Command, BadArgument> {
    let (given, asked) = match read_arguments(Parser::from_args(arguments))? {
        (_, Some(OtherCommand::Help)) => return Ok(Command::Help),
        (_, Some(OtherCommand::Version)) => return Ok(Command::Version),
        read => read,
    };
    let variables = read_environment(environment)?;
    let mut config = blank();
    for row in options() {
        if let Some(values) = given.get(row.name) {
            set_from_arguments(&mut config, row, values)?;
        } else if let Some(value) = variables.get(row.name) {
            set_from_variable(&mut config, row, value)?;
        } else {
            set_default(&mut config, row);
        }
    }
    check_together(&config)?;
    Ok(match asked {
        Some(OtherCommand::Check) => Command::Check(config),
        Some(OtherCommand::Health) => Command::Health(config),
        Some(OtherCommand::Help | OtherCommand::Version) | None => Command::Run(config),
    })
}

impl Default for Config {
    fn default() -> Config {
        let mut config = blank();
        for row in options() {
            set_default(&mut config, row);
        }
        config
    }
}

/// Returns a `Config` for the rows of the table to fill.
fn blank() -> Config {
    Config {
        listen: Vec::new(),
        rtp: None,
        rtmp: None,
        outgoing: Outgoing::default(),
        token_file: None,
        handover: None,
        sandbox: SandboxMode::Off,
        access_log: None,
        logs_json: false,
        cors: Vec::new(),
        connections_max: None,
        connections_per_host_max: None,
        core: Settings::default(),
    }
}

/// Reads all arguments, or up to `--help` or `--version`.
fn read_arguments(mut parser: Parser) -> Result<(Given, Option<OtherCommand>), BadArgument> {
    let mut given = Given::new();
    let mut later = None;
    // The parser only fails if a value was not fetched.
    while let Some(argument) = parser.next().expect("every value is fetched") {
        let row = match argument {
            Arg::Long(name) => row_named(name).ok_or_else(|| BadArgument::unknown(name))?,
            Arg::Short('h') => row_named("help").ok_or(BadArgument::Short { letter: 'h' })?,
            Arg::Short('V') => row_named("version").ok_or(BadArgument::Short { letter: 'V' })?,
            Arg::Short(letter) => return Err(BadArgument::Short { letter }),
            Arg::Value(value) => return Err(BadArgument::Stray { value }),
        };
        let value = match row.placeholder() {
            None => match parser.optional_value() {
                Some(value) => {
                    return Err(BadArgument::Unwanted {
                        name: row.name,
                        value,
                    });
                }
                None => None,
            },
            Some(placeholder) => {
                let missing = BadArgument::Missing {
                    name: row.name,
                    placeholder,
                };
                Some(next_value(&mut parser).ok_or(missing)?)
            }
        };
        if given.contains_key(row.name) && !row.is_repeatable() {
            return Err(BadArgument::Repeated { name: row.name });
        }
        given.entry(row.name).or_default().extend(value);
        if let Takes::Command(command) = row.takes {
            match command {
                OtherCommand::Help | OtherCommand::Version => return Ok((given, Some(command))),
                OtherCommand::Check | OtherCommand::Health => later = Some(command),
            }
        }
    }
    Ok((given, later))
}

fn row_named(name: &str) -> Option<&'static Row> {
    options().find(|row| row.name == name)
}

/// Returns the value behind `=`, or the next argument unless it is an option.
fn next_value(parser: &mut Parser) -> Option<OsString> {
    let attached = parser.optional_value();
    attached.or_else(|| {
        let mut rest = parser.raw_args().ok()?;
        rest.next_if(|next| !next.as_encoded_bytes().starts_with(b"--"))
    })
}

/// Returns the variables of options, by the option's name. An unknown variable with our prefix is
/// an error: a typing error in `TOLLGATE_TOKEN_SERVER` would open the relay to everyone.
fn read_environment(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<BTreeMap<&'static str, OsString>, BadArgument> {
    let mut variables = BTreeMap::new();
    let mut unknown = None;
    for (name, value) in environment {
        if !name
            .as_encoded_bytes()
            .starts_with(VARIABLE_PREFIX.as_bytes())
        {
            continue;
        }
        let named = |row: &&Row| row.has_variable() && name == *variable(row.name);
        match options().find(named) {
            Some(row) => drop(variables.insert(row.name, value)),
            // The error names the first one in the alphabet, so that their order does not matter.
            None => unknown = Some(unknown.map_or(name.clone(), |other| name.min(other))),
        }
    }
    match unknown {
        Some(name) => Err(BadArgument::unknown_variable(&name)),
        None => Ok(variables),
    }
}

/// Returns the name of an option's variable: `TOLLGATE_HEAD_BYTES` for `head-bytes`.
pub(super) fn variable(name: &str) -> String {
    let upper = name.to_ascii_uppercase().replace('-', "_");
    format!("{VARIABLE_PREFIX}{upper}")
}

fn set_from_arguments(
    config: &mut Config,
    row: &'static Row,
    values: &[OsString],
) -> Result<(), BadArgument> {
    let bad = |why: String| BadArgument::value(format!("--{}", row.name), why);
    if let Takes::Nothing(set) = row.takes {
        set(config);
    }
    for value in values {
        row.read(config, text_of(value).map_err(bad)?)
            .map_err(bad)?;
    }
    Ok(())
}

fn set_from_variable(
    config: &mut Config,
    row: &'static Row,
    value: &OsStr,
) -> Result<(), BadArgument> {
    let bad = |why: String| BadArgument::value(variable(row.name), why);
    let text = text_of(value).map_err(bad)?;
    if !row.is_repeatable() {
        return row.read(config, text).map_err(bad);
    }
    text.split(',')
        .try_for_each(|part| row.read(config, part.trim()))
        .map_err(bad)
}

fn text_of(value: &OsStr) -> Result<&str, String> {
    let shown = Quoted(value.as_encoded_bytes());
    value
        .to_str()
        .ok_or_else(|| format!("{shown} is not UTF-8; give UTF-8"))
}

fn set_default(config: &mut Config, row: &Row) {
    match row.fallback {
        Fallback::Value(text) => {
            let read = row.read(config, text);
            debug_assert_eq!(read, Ok(()), "the default of --{}", row.name);
        }
        Fallback::Computed(_, set) => set(config),
        Fallback::None | Fallback::Unset(_) => {}
    }
}

/// Checks combinations of options.
fn check_together(config: &Config) -> Result<(), BadArgument> {
    if config.token_file.is_some() && config.core.token_servers.is_empty() {
        return Err(BadArgument::Alone {
            name: "token-file",
            needs: "token-server",
        });
    }
    let needed = [
        ("token-server", config.core.token_servers.is_empty()),
        ("rtp", config.rtp.is_none()),
    ];
    if let Some((needs, _)) = needed.into_iter().find(|(_, is_missing)| *is_missing)
        && !config.core.joins.is_empty()
    {
        return Err(BadArgument::Alone {
            name: "join",
            needs,
        });
    }
    if config.core.asks_origin && config.core.origins.is_empty() {
        return Err(BadArgument::Alone {
            name: "origin-tokens",
            needs: "origin",
        });
    }
    let limits = &config.core.limits;
    let pairs = [
        (
            "buffer",
            limits.stream.buffer_bytes,
            "buffers",
            limits.buffers_bytes_max,
        ),
        (
            "join-back-bytes",
            limits.stream.join_back_bytes as usize,
            "buffer",
            limits.stream.buffer_bytes,
        ),
    ];
    let apart = pairs.into_iter().find(|(_, low, _, high)| low > high);
    match apart {
        Some((low, low_value, high, high_value)) => Err(BadArgument::Order {
            low,
            low_value,
            high,
            high_value,
        }),
        None => Ok(()),
    }
}

/// Errors in the arguments or the environment. Prints as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadArgument {
    /// There is no such option. `nearest` is the option that was probably meant.
    Unknown {
        name: String,
        nearest: Option<&'static str>,
    },
    /// The program was built without the feature of this option or variable.
    LeftOut {
        origin: String,
        feature: &'static str,
    },
    /// No option has this variable.
    UnknownVariable {
        name: OsString,
        nearest: Option<&'static str>,
    },
    Short {
        letter: char,
    },
    Stray {
        value: OsString,
    },
    Unwanted {
        name: &'static str,
        value: OsString,
    },
    Missing {
        name: &'static str,
        placeholder: &'static str,
    },
    Repeated {
        name: &'static str,
    },
    /// The value of `origin`, an option or a variable, is wrong; `why` says how.
    Value {
        origin: String,
        why: String,
    },
    /// The option needs another one.
    Alone {
        name: &'static str,
        needs: &'static str,
    },
    /// The option must be at most the other one.
    Order {
        low: &'static str,
        low_value: usize,
        high: &'static str,
        high_value: usize,
    },
}

impl BadArgument {
    fn unknown(name: &str) -> BadArgument {
        if let Some(feature) = left_out(name) {
            let origin = format!("--{name}");
            return BadArgument::LeftOut { origin, feature };
        }
        BadArgument::Unknown {
            name: name.to_owned(),
            nearest: nearest(name),
        }
    }

    fn unknown_variable(name: &OsStr) -> BadArgument {
        let origin = name.to_string_lossy().into_owned();
        let typed = origin.strip_prefix(VARIABLE_PREFIX).unwrap_or_default();
        let option = typed.to_ascii_lowercase().replace('_', "-");
        if let Some(feature) = left_out(&option) {
            return BadArgument::LeftOut { origin, feature };
        }
        BadArgument::UnknownVariable {
            name: name.to_owned(),
            nearest: nearest(typed).filter(|near| row_named(near).is_some_and(Row::has_variable)),
        }
    }

    fn value(origin: String, why: String) -> BadArgument {
        BadArgument::Value { origin, why }
    }
}

impl Display for BadArgument {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            BadArgument::Unknown { name, nearest } => {
                let shown = Quoted(name.as_bytes());
                let meant = nearest.map(|nearest| format!("--{nearest}"));
                let meant = suggestion(meant, "see --help");
                write!(formatter, "there is no option {shown}; {meant}")
            }
            BadArgument::LeftOut { origin, feature } => write!(
                formatter,
                "{origin}: this program is built without `{feature}`; build one with it"
            ),
            BadArgument::UnknownVariable { name, nearest } => {
                let shown = Quoted(name.as_encoded_bytes());
                let meant = suggestion(
                    nearest.map(variable),
                    "unset it, or see --help for the options",
                );
                write!(formatter, "no option has the variable {shown}; {meant}")
            }
            BadArgument::Short { letter } => {
                let mut bytes = [0; 4];
                let shown = Quoted(letter.encode_utf8(&mut bytes).as_bytes());
                let meant = suggestion(meant_by(*letter), "see --help");
                write!(
                    formatter,
                    "there is no option {shown} with one dash; {meant}"
                )
            }
            BadArgument::Stray { value } => {
                let shown = Quoted(value.as_encoded_bytes());
                write!(
                    formatter,
                    "{shown} is not an option; options begin with two dashes, see --help"
                )
            }
            BadArgument::Unwanted { name, value } => {
                let shown = Quoted(value.as_encoded_bytes());
                write!(
                    formatter,
                    "--{name}: it takes no value, and {shown} is one; give --{name} alone"
                )
            }
            BadArgument::Missing { name, placeholder } => {
                write!(
                    formatter,
                    "--{name}: it has no value; give --{name}={placeholder}"
                )
            }
            BadArgument::Repeated { name } => {
                write!(formatter, "--{name}: it is given twice; give it once")
            }
            BadArgument::Value { origin, why } => write!(formatter, "{origin}: {why}"),
            BadArgument::Alone { name, needs } => write!(
                formatter,
                "--{name} has no meaning without --{needs}; give both"
            ),
            BadArgument::Order {
                low,
                low_value,
                high,
                high_value,
            } => write!(
                formatter,
                "--{low}: {low_value} is above --{high}, {high_value}; give at most that, or raise \
                 --{high}"
            ),
        }
    }
}

impl std::error::Error for BadArgument {}

/// Returns the option for letters that other programs use.
fn meant_by(letter: char) -> Option<String> {
    match letter {
        '?' => Some("--help".to_owned()),
        'v' => Some("--version".to_owned()),
        _ => None,
    }
}

/// Returns advice for an unknown name.
fn suggestion(nearest: Option<String>, otherwise: &str) -> String {
    nearest.map_or_else(
        || otherwise.to_owned(),
        |nearest| format!("{nearest} was probably meant"),
    )
}

/// Returns the option that is closest to a mistyped name, if one is close enough.
fn nearest(name: &str) -> Option<&'static str> {
    const NAME_BYTES_MAX: usize = 40;
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return None;
    }
    let typed = name.to_ascii_lowercase().replace('_', "-");
    // Other servers' names for the same.
    if ["port", "bind", "address", "host"].contains(&typed.as_str()) {
        return Some("listen");
    }
    let near = options().filter_map(|row| Some((distance(&typed, row.name)?, row.name)));
    near.min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns the distance from a typed name to an option, in half edits; `None` if it is too large. A
/// name that was cut short (`--conn`) is closer than one with a wrong letter. A name with an extra
/// word (`--log-level`) is as close as one with two wrong letters.
fn distance(typed: &str, name: &str) -> Option<usize> {
    if name.starts_with(typed) {
        return Some(1);
    }
    if typed
        .strip_prefix(name)
        .is_some_and(|rest| rest.starts_with('-'))
    {
        return Some(5);
    }
    let edits = edits(typed, name);
    (edits <= 1 + name.len() / 4).then_some(2 * edits)
}

/// Returns the number of bytes to add, remove or change to turn one text into the other
/// (Levenshtein).
fn edits(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, byte) in one.bytes().enumerate() {
        let mut diagonal = index;
        let mut left = index + 1;
        for (cell, wanted) in row.iter_mut().skip(1).zip(other.bytes()) {
            let changed = diagonal + usize::from(byte != wanted);
            diagonal = *cell;
            left = changed.min(left + 1).min(*cell + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = index + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}
