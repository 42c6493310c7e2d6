//! What add-token grants over HTTP, as its parameters say it: `for`, `direction`, `expires`,
//! `ends`, `max-viewers`, `max-bitrate` and `note`.

use std::time::Duration;

use super::parameters::{Parameters, bad, plain};
use crate::gate::{Direction, GrantChange, Note, SessionId, Terms};
use crate::http::{Refusal, quoted};
use crate::time::UnixTime;

/// The parameters about permissions over HTTP.
pub(super) const NAMES: &[&str] = &[
    "for",
    "direction",
    "expires",
    "ends",
    "max-viewers",
    "max-bitrate",
    "note",
];

/// The longest time in seconds: ten years.
const SECONDS_MAX: u64 = 10 * 365 * 86_400;
const VIEWERS_MAX: u64 = 1_000_000;
/// The lowest limit on a source, in bits per second. A slower source counts as silent.
const BITRATE_MIN: u64 = 8 << 10;
const BITRATE_MAX: u64 = 1 << 40;

/// Returns what a call at `now` grants over HTTP. `is_http`: whether its type has `http`. Without
/// that it grants nothing, and may have none of these parameters.
pub(super) fn read(
    parameters: &Parameters<'_>,
    is_http: bool,
    now: UnixTime,
) -> Result<Option<GrantChange>, Refusal> {
    if !is_http {
        let mut given = NAMES.iter().filter(|name| parameters.raw(name).is_some());
        return match given.next() {
            None => Ok(None),
            Some(name) => Err(bad(format!(
                "{name} needs type=http; UDP clients are added to the session itself"
            ))),
        };
    }
    let opens = parameters
        .decoded("for")?
        .map(|name| SessionId::parse(&name).map_err(|error| bad(format!("for: {error}"))));
    let opens = opens.transpose()?;
    let direction = match parameters.raw("direction") {
        None if opens.is_some() => {
            return Err(bad("direction is missing; a key needs in, out or both"));
        }
        None => None,
        Some(name) => Some(Direction::parse(name).ok_or_else(|| {
            bad(format!(
                "direction: '{}' is wrong; give in, out or both",
                quoted(name, 64)
            ))
        })?),
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
            "a number of bits a second, such as 8M,",
        )?,
        note: note(parameters)?,
    };
    Ok(Some(GrantChange { direction, terms }))
}

fn note(parameters: &Parameters<'_>) -> Result<Option<Note>, Refusal> {
    let Some(bytes) = parameters.decoded("note")? else {
        return Ok(None);
    };
    let note = String::from_utf8(bytes).ok();
    let note = note.and_then(|text| Note::parse(&text));
    note.map(Some).ok_or_else(|| {
        let bytes_max = Note::BYTES_MAX;
        bad(format!(
            "note: it must be 1 to {bytes_max} bytes of UTF-8 without control characters"
        ))
    })
}

/// Parses digits that K, M or G may follow.
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

/// Parses a number of seconds from now, or a time of the calendar. A number never means less time.
fn time(
    parameters: &Parameters<'_>,
    name: &str,
    now: UnixTime,
) -> Result<Option<UnixTime>, Refusal> {
    let Some(bytes) = parameters.decoded(name)? else {
        return Ok(None);
    };
    let text = String::from_utf8(bytes).unwrap_or_default();
    let of_calendar = UnixTime::parse(&text).filter(|stamp| *stamp <= UnixTime::MAX);
    match (plain(&text), of_calendar) {
        // A part of this second is over.
        (Some(seconds @ 1..=SECONDS_MAX), _) => {
            let stamp = now.after(Duration::from_secs(seconds + 1));
            Ok(Some(stamp.min(UnixTime::MAX)))
        }
        (_, Some(stamp)) if stamp > now => Ok(Some(stamp)),
        (_, Some(stamp)) => Err(bad(format!(
            "{name}: {stamp} is in the past; the server's clock says {now}"
        ))),
        (_, None) => Err(bad(format!(
            "{name}: '{}' is neither a number of seconds from 1 to {SECONDS_MAX} nor a time such as {}",
            quoted(&text, 64),
            now.after(Duration::from_secs(3600))
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Target;

    const NOW: UnixTime = UnixTime { unix_seconds: 1000 };

    /// What a query grants, or why nothing.
    fn granted(query: &str, is_http: bool) -> Result<Option<GrantChange>, String> {
        granted_at(query, is_http, NOW)
    }

    fn granted_at(
        query: &str,
        is_http: bool,
        now: UnixTime,
    ) -> Result<Option<GrantChange>, String> {
        let target = Target {
            segments: Vec::new(),
            is_plain: true,
            query: Some(query.to_owned()),
        };
        let parameters = Parameters::read(&target, NAMES).map_err(|refusal| refusal.detail)?;
        read(&parameters, is_http, now).map_err(|refusal| refusal.detail)
    }

    fn terms(query: &str) -> Result<Terms, String> {
        granted(query, true).map(|grant| grant.expect("what was asked for").terms)
    }

    /// On either side of each bound.
    #[test]
    fn numbers_are_taken_within_their_bounds() {
        let viewers = |raw: &str| terms(&format!("max-viewers={raw}")).map(|is| is.viewers_max);
        for (raw, number) in [
            ("1", 1),
            ("00017", 17),
            ("1000000", 1_000_000),
            ("1K", 1 << 10),
            ("2k", 2 << 10),
        ] {
            assert_eq!(viewers(raw), Ok(Some(number)), "{raw}");
        }
        for raw in [
            "",
            "0",
            "1000001",
            "1M",
            "977K",
            "K",
            "+1",
            "-1",
            "1.5",
            "x",
            "1KK",
            "1 ",
            "%31",
            "18446744073709551616",
            "18014398509481984K",
        ] {
            assert!(viewers(raw).is_err(), "{raw}");
        }
        let rate =
            |raw: &str| terms(&format!("max-bitrate={raw}")).map(|is| is.bits_per_second_max);
        for (raw, number) in [
            ("8192", 8192),
            ("8K", 8192),
            ("3M", 3 << 20),
            ("3m", 3 << 20),
            ("2G", 2 << 30),
            ("2g", 2 << 30),
            ("1024G", 1 << 40),
            ("1099511627776", 1 << 40),
        ] {
            assert_eq!(rate(raw), Ok(Some(number)), "{raw}");
        }
        for raw in ["8191", "7K", "1099511627777", "1025G", "8T"] {
            assert!(rate(raw).is_err(), "{raw}");
        }
    }

    /// So many seconds are never less: a part of this one is over.
    #[test]
    fn times_are_seconds_from_now_or_of_the_calendar_and_to_come() {
        for name in ["expires", "ends"] {
            let time = |raw: &str| {
                let terms = terms(&format!("{name}={raw}"))?;
                let [time, other] = match name {
                    "expires" => [terms.expires, terms.ends],
                    _ => [terms.ends, terms.expires],
                };
                assert_eq!(other, None);
                Ok::<_, String>(time.map(|time| time.unix_seconds))
            };
            for (raw, at) in [
                ("1", 1002),
                ("60", 1061),
                ("315360000", 315_361_001),
                ("1970-01-01T00:16:41Z", 1001),
                ("1970-01-01T01:16:41%2B01:00", 1001),
                ("9999-12-31T23:59:59Z", UnixTime::MAX.unix_seconds),
            ] {
                assert_eq!(time(raw), Ok(Some(at)), "{raw}");
            }
            for raw in ["1970-01-01T00:16:40Z", "1970-01-01T00:16:39Z"] {
                let refusal = time(raw).expect_err(raw);
                assert!(
                    refusal.contains("is in the past; the server's clock says"),
                    "{refusal}"
                );
            }
            for raw in [
                "",
                "0",
                "315360001",
                "-1",
                "soon",
                "1970-01-01",
                "%zz",
                "%ff",
            ] {
                assert!(time(raw).is_err(), "{raw}");
            }
        }
    }

    /// A token file has no later times.
    #[test]
    fn no_time_is_after_the_year_9999() {
        let now = UnixTime {
            unix_seconds: UnixTime::MAX.unix_seconds - 1,
        };
        let granted = granted_at("expires=60", true, now).expect("a good time");
        let expires = granted.and_then(|grant| grant.terms.expires);
        assert_eq!(expires, Some(UnixTime::MAX));
    }

    #[test]
    fn a_key_says_what_it_is_for_and_a_plain_token_need_not() {
        let direction =
            |query| granted(query, true).map(|grant| grant.map(|grant| grant.direction));
        for (query, expected) in [
            ("", None),
            ("direction=both", Some(Direction::Both)),
            ("direction=in", Some(Direction::In)),
            ("direction=out", Some(Direction::Out)),
            ("for=a&direction=out", Some(Direction::Out)),
        ] {
            assert_eq!(direction(query), Ok(Some(expected)), "{query}");
        }
        for query in [
            "for=a",
            "direction=",
            "direction=IN",
            "for=&direction=in",
            "for=%zz",
        ] {
            assert!(direction(query).is_err(), "{query}");
        }
        let opens = terms("for=a%2Fb&direction=in").map(|terms| terms.opens);
        assert_eq!(opens, Ok(SessionId::parse(b"a/b").ok()));
        assert_eq!(terms("").map(|terms| terms.opens), Ok(None));
        let note = |raw: &str| terms(&format!("note={raw}")).map(|terms| terms.note);
        assert_eq!(note("caf%C3%A9"), Ok(Note::parse("caf\u{e9}")));
        for bad in ["", "%00", "%FF", "%4", &"x".repeat(257)] {
            assert!(note(bad).is_err(), "{bad}");
        }
    }

    /// Where nothing is asked for over HTTP, nothing may be said of it.
    #[test]
    fn terms_are_for_tokens_over_http() {
        assert_eq!(granted("", false), Ok(None));
        for name in NAMES {
            let refusal = granted(&format!("{name}=1"), false);
            let words =
                format!("{name} needs type=http; UDP clients are added to the session itself");
            assert_eq!(refusal, Err(words));
        }
    }
}
