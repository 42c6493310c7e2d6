//! Log lines, as `key=value` and as JSON.

use std::fmt::Write;

use crate::time::UnixTime;

/// Returns a line as a JSON object. A whole number of at most 15 digits is a JSON number, except in
/// `session` and `for`, whose labels can consist of digits. A line that is no event is the
/// `message`. Leaves out members that do not fit in `bytes_max`, which must have space for time and
/// level.
pub(super) fn as_json(line: &str, time: Option<UnixTime>, bytes_max: usize) -> String {
    let mut object = String::with_capacity(line.len() + 64);
    object.push('{');
    if let Some(time) = time {
        push(&mut object, "time", &time.to_string(), bytes_max);
    }
    if line.starts_with("level=") {
        for (key, value) in members(line) {
            push(&mut object, key, value, bytes_max);
        }
    } else {
        push(&mut object, "message", line, bytes_max);
    }
    object.push('}');
    object
}

fn push(object: &mut String, key: &str, value: &str, bytes_max: usize) {
    let before = object.len();
    let comma = if before > 1 { "," } else { "" };
    // A label can consist of digits.
    let is_number = !matches!(key, "session" | "for") && is_number(value);
    // Serialising text cannot fail, nor can writing to a string.
    let [key, quoted] = [key, value].map(|text| serde_json::to_string(text).unwrap_or_default());
    let value = if is_number { value } else { &quoted };
    let _ = write!(object, "{comma}{key}:{value}");
    if object.len() >= bytes_max {
        object.truncate(before);
    }
}

fn is_number(value: &str) -> bool {
    let is_plain = value.len() == 1 || !value.starts_with('0');
    (1..=15).contains(&value.len()) && is_plain && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the members of a line. A quoted value may contain quotes: it ends where the next key
/// begins.
fn members(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let (key, after) = rest.split_once('=')?;
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => in_quotes(quoted),
            None => after.split_once(' ').unwrap_or((after, "")),
        };
        rest = next;
        Some((key, value))
    })
}

fn in_quotes(quoted: &str) -> (&str, &str) {
    let ends = quoted.match_indices("\" ").find(|(at, _)| {
        let after = quoted[at + 2..].split('=').next().unwrap_or_default();
        let is_key = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        after.len() < quoted.len() - at - 2 && !after.is_empty() && after.bytes().all(is_key)
    });
    match ends {
        Some((at, _)) => (&quoted[..at], &quoted[at + 2..]),
        None => (quoted.strip_suffix('"').unwrap_or(quoted), ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(line: &str) -> Value {
        let text = as_json(line, None, 4096);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn each_key_is_a_member() {
        assert_eq!(
            read(
                "level=info event=stream-ends session=00012345 reason=\"it is over\" bytes_sent=12 skips=0"
            ),
            json!({"level": "info", "event": "stream-ends", "session": "00012345",
                "reason": "it is over", "bytes_sent": 12, "skips": 0})
        );
        assert_eq!(
            read("level=warn event=x detail=\"no \"file\" a=1 here\" count=07 peer=[::1]:9"),
            json!({"level": "warn", "event": "x", "detail": "no \"file", "a": 1,
                "here\" count": "07", "peer": "[::1]:9"}),
            "what nobody writes is an object all the same"
        );
        assert_eq!(
            read("level=warn event=x detail=\"cannot open \"a b\" (13)\""),
            json!({"level": "warn", "event": "x", "detail": "cannot open \"a b\" (13)"})
        );
        assert_eq!(
            read("listening http 127.0.0.1:1"),
            json!({"message": "listening http 127.0.0.1:1"})
        );
    }

    #[test]
    fn members_that_do_not_fit_are_left_out() {
        let line = format!(
            "level=info event=x detail=\"{}\" count=3",
            "\\".repeat(4_000)
        );
        let time = Some(UnixTime { unix_seconds: 1 });
        let text = as_json(&line, time, 4095);
        assert!(text.len() <= 4095);
        assert_eq!(
            serde_json::from_str::<Value>(&text).expect("JSON"),
            json!({"time": "1970-01-01T00:00:01Z", "level": "info", "event": "x", "count": 3})
        );
    }
}
