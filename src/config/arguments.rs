//! Parses arguments and environment into a [`Command`].
//!
//! An option may be given once, unless it is repeatable. Its variable counts if the option is not
//! given; for repeatable options it has a list with commas. Otherwise the default counts.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

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

/// Parses the arguments after the program's name, and the environment. The error is one line. It
/// names the option or the variable, and what would be right.
pub fn parse(
    arguments: impl IntoIterator<Item = impl Into<OsString>>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Command, String> {
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
fn read_arguments(mut parser: Parser) -> Result<(Given, Option<OtherCommand>), String> {
    let mut given = Given::new();
    let mut later = None;
    // The parser only fails if a value was not fetched.
    while let Some(argument) = parser.next().expect("every value is fetched") {
        let row = match argument {
            Arg::Long(name) => row_named(name).ok_or_else(|| unknown(name))?,
            Arg::Short('h') => row_named("help").ok_or_else(|| unknown_letter('h'))?,
            Arg::Short('V') => row_named("version").ok_or_else(|| unknown_letter('V'))?,
            Arg::Short(letter) => return Err(unknown_letter(letter)),
            Arg::Value(value) => {
                let shown = Quoted(value.as_encoded_bytes());
                return Err(format!(
                    "{shown} is not an option; options begin with two dashes, see --help"
                ));
            }
        };
        let name = row.name;
        let value = match row.placeholder() {
            None => parser.optional_value().map_or(Ok(None), |value| {
                let shown = Quoted(value.as_encoded_bytes());
                Err(format!(
                    "--{name}: it takes no value, and {shown} is one; give --{name} alone"
                ))
            })?,
            Some(placeholder) => match next_value(&mut parser) {
                None => {
                    return Err(format!(
                        "--{name}: it has no value; give --{name}={placeholder}"
                    ));
                }
                value => value,
            },
        };
        if given.contains_key(name) && !row.is_repeatable() {
            return Err(format!("--{name}: it is given twice; give it once"));
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

/// Returns the value after `=`, or the next argument unless it is an option.
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
) -> Result<BTreeMap<&'static str, OsString>, String> {
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
        Some(name) => Err(unknown_variable(&name)),
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
) -> Result<(), String> {
    let bad = |why: String| format!("--{}: {why}", row.name);
    if let Takes::Nothing(set) = row.takes {
        set(config);
    }
    for value in values {
        row.read(config, text_of(value).map_err(bad)?)
            .map_err(bad)?;
    }
    Ok(())
}

fn set_from_variable(config: &mut Config, row: &'static Row, value: &OsStr) -> Result<(), String> {
    let bad = |why: String| format!("{}: {why}", variable(row.name));
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
fn check_together(config: &Config) -> Result<(), String> {
    let core = &config.core;
    let (has_file, has_joins) = (config.token_file.is_some(), !core.joins.is_empty());
    let has_tokens = !core.token_servers.is_empty();
    let has_origins = !core.origins.is_empty();
    let pairs = [
        ("token-file", has_file, "token-server", has_tokens),
        ("join", has_joins, "token-server", has_tokens),
        ("join", has_joins, "rtp", config.rtp.is_some()),
        ("origin-tokens", core.asks_origin, "origin", has_origins),
    ];
    for (name, is_given, needed, has_needed) in pairs {
        if is_given && !has_needed {
            return Err(format!(
                "--{name} has no meaning without --{needed}; give both"
            ));
        }
    }
    let limits = &core.limits;
    let buffer = limits.stream.buffer_bytes;
    let join_back = limits.stream.join_back_bytes as usize;
    for (low, low_value, high, high_value) in [
        ("buffer", buffer, "buffers", limits.buffers_bytes_max),
        ("join-back-bytes", join_back, "buffer", buffer),
    ] {
        if low_value > high_value {
            return Err(format!(
                "--{low}: {low_value} is above --{high}, {high_value}; give at most that, or raise \
                 --{high}"
            ));
        }
    }
    Ok(())
}

fn unknown(name: &str) -> String {
    if let Some(feature) = left_out(name) {
        return without_feature(&format!("--{name}"), feature);
    }
    let shown = Quoted(name.as_bytes());
    if ["tls", "ssl", "https"].contains(&name) {
        return format!(
            "there is no option {shown}; put a proxy in front for TLS, see docs/proxies.md"
        );
    }
    let meant = nearest(name).map(|nearest| format!("--{nearest}"));
    let meant = suggestion(meant, "see --help");
    format!("there is no option {shown}; {meant}")
}

fn unknown_variable(name: &OsStr) -> String {
    let origin = name.to_string_lossy();
    let typed = origin.strip_prefix(VARIABLE_PREFIX).unwrap_or_default();
    let option = typed.to_ascii_lowercase().replace('_', "-");
    if let Some(feature) = left_out(&option) {
        return without_feature(&origin, feature);
    }
    let shown = Quoted(name.as_encoded_bytes());
    let nearest = nearest(typed).filter(|near| row_named(near).is_some_and(Row::has_variable));
    let meant = suggestion(
        nearest.map(variable),
        "unset it, or see --help for the options",
    );
    format!("no option has the variable {shown}; {meant}")
}

/// Returns the error for an option, or its variable, of a feature that this program lacks.
fn without_feature(origin: &str, feature: &str) -> String {
    format!("{origin}: this program is built without `{feature}`; build one with it")
}

fn unknown_letter(letter: char) -> String {
    let text = letter.to_string();
    let shown = Quoted(text.as_bytes());
    // Letters of other programs.
    let option = match letter {
        '?' => Some("--help".to_owned()),
        'v' => Some("--version".to_owned()),
        _ => None,
    };
    let meant = suggestion(option, "see --help");
    format!("there is no option {shown} with one dash; {meant}")
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
