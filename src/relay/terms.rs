//! What add-token grants over HTTP, as its parameters say it: `for`, `direction`, `expires`,
//! `ends`, `max-viewers`, `max-bitrate` and `note`.

use std::time::Duration;

use super::parameters::{Parameters, bad};
use crate::gate::{Direction, Grant, Note, SessionId, Terms};
use crate::http::{Refusal, percent_decoded, quoted};
use crate::stamp::Stamp;

/// The parameters that are about what is granted over HTTP.
pub(super) const NAMES: &[&str] = &[
    "for",
    "direction",
    "expires",
    "ends",
    "max-viewers",
    "max-bitrate",
    "note",
];

/// The longest time that is given as seconds: ten years.
const SECONDS_MAX: u64 = 10 * 365 * 86_400;
const VIEWERS_MAX: u64 = 1_000_000;
/// The slowest that a source can be made, in bits a second; a slower one is taken for a dead one.
const BITRATE_MIN: u64 = 8 << 10;
const BITRATE_MAX: u64 = 1 << 40;

/// What an `http` token is to grant, asked for at `now`; nothing, where `is_http` does not say that
/// one is asked for.
pub(super) fn read(
    parameters: &Parameters<'_>,
    is_http: bool,
    now: Stamp,
) -> Result<Option<Grant>, Refusal> {
    if !is_http {
        let mut given = NAMES.iter().filter(|name| parameters.raw(name).is_some());
        return match given.next() {
            None => Ok(None),
            Some(name) => Err(bad(format!("{name} is given, but type does not say http"))),
        };
    }
    let opens = match parameters.raw("for") {
        None => None,
        Some(_) => Some(
            SessionId::parse(&decoded(parameters, "for")?)
                .map_err(|error| bad(format!("for: {error}")))?,
        ),
    };
    let direction = match parameters.raw("direction") {
        None if opens.is_some() => {
            return Err(bad(
                "direction is missing: a key says what it is for; give in, out or both",
            ));
        }
        None => Direction::Both,
        Some(name) => Direction::parse(name).ok_or_else(|| {
            bad(format!(
                "direction: '{}' is none of in, out and both",
                quoted(name, 64)
            ))
        })?,
    };
    let viewers_max = number(parameters, "max-viewers", (1, VIEWERS_MAX), "a number")?;
    let terms = Terms {
        opens,
        expires: time(parameters, "expires", now)?,
        ends: time(parameters, "ends", now)?,
        viewers_max: viewers_max.and_then(|number| u32::try_from(number).ok()),
        bits_per_second_max: number(
            parameters,
            "max-bitrate",
            (BITRATE_MIN, BITRATE_MAX),
            "bits a second, or with K, M or G for 1024, 1024² or 1024³ of them,",
        )?,
        note: note(parameters)?,
    };
    Ok(Some(Grant { direction, terms }))
}

fn decoded(parameters: &Parameters<'_>, name: &str) -> Result<Vec<u8>, Refusal> {
    let raw = parameters.raw(name).unwrap_or_default();
    percent_decoded(raw).ok_or_else(|| {
        bad(format!(
            "the parameter '{name}' has a % that two hexadecimal digits do not follow"
        ))
    })
}

fn note(parameters: &Parameters<'_>) -> Result<Option<Note>, Refusal> {
    if parameters.raw("note").is_none() {
        return Ok(None);
    }
    let text = String::from_utf8(decoded(parameters, "note")?).ok();
    let note = text.and_then(|text| Note::parse(&text));
    note.map(Some).ok_or_else(|| {
        let bytes_max = Note::BYTES_MAX;
        bad(format!(
            "note: it must be 1 to {bytes_max} bytes of UTF-8 without control characters"
        ))
    })
}

/// Digits, with K, M or G behind them or not.
fn number(
    parameters: &Parameters<'_>,
    name: &str,
    (least, most): (u64, u64),
    what: &str,
) -> Result<Option<u64>, Refusal> {
    let read = |raw| {
        read_number(raw, (least, most)).ok_or_else(|| {
            bad(format!(
                "{name}: '{}' is not {what} from {least} to {most}",
                quoted(raw, 64)
            ))
        })
    };
    parameters.raw(name).map(read).transpose()
}

fn read_number(raw: &str, (least, most): (u64, u64)) -> Option<u64> {
    let (digits, shift) = match raw.as_bytes() {
        [digits @ .., b'K' | b'k'] => (digits.len(), 10),
        [digits @ .., b'M' | b'm'] => (digits.len(), 20),
        [digits @ .., b'G' | b'g'] => (digits.len(), 30),
        digits => (digits.len(), 0),
    };
    let number = plain(&raw[..digits]).and_then(|number| number.checked_mul(1 << shift));
    number.filter(|number| (least..=most).contains(number))
}

fn plain(digits: &str) -> Option<u64> {
    let mut digits = digits.bytes().peekable();
    digits.peek()?;
    digits.try_fold(0_u64, |number, digit| {
        let digit = char::from(digit).to_digit(10)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// So many seconds from now, and never less; or a second of the calendar.
fn time(parameters: &Parameters<'_>, name: &str, now: Stamp) -> Result<Option<Stamp>, Refusal> {
    if parameters.raw(name).is_none() {
        return Ok(None);
    }
    let text = String::from_utf8(decoded(parameters, name)?).unwrap_or_default();
    let of_calendar = Stamp::parse(&text).filter(|stamp| *stamp <= Stamp::MAX);
    match (plain(&text), of_calendar) {
        // A part of this second is over.
        (Some(seconds @ 1..=SECONDS_MAX), _) => {
            Ok(Some(now.after(Duration::from_secs(seconds + 1))))
        }
        (_, Some(stamp)) if stamp > now => Ok(Some(stamp)),
        (_, Some(stamp)) => Err(bad(format!("{name}: {stamp} is over; it is {now} here"))),
        (_, None) => Err(bad(format!(
            "{name}: '{}' is neither a number of seconds from 1 to {SECONDS_MAX} nor a time such as {}",
            quoted(&text, 64),
            now.after(Duration::from_secs(3600))
        ))),
    }
}
