//! Parses the values of options. An error is one line: the wrong text, and the right form.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::{AccessLog, Bind, CorsOrigin, Listen};
use crate::gate::host::{BAD_IPV4, host_and_port};
use crate::gate::{HostName, InterfaceName, Join, Quoted};
use crate::relay::{Level, OriginUrl, Peer};

/// A value, or a sentence with the wrong text and the right form.
pub(super) type Read<T> = Result<T, String>;

pub(super) fn wrong<T>(text: &str, right: impl std::fmt::Display) -> Read<T> {
    let shown = Quoted(text.as_bytes());
    Err(match text.is_empty() {
        true => format!("it is empty; give {right}"),
        false => format!("{shown} is wrong; give {right}"),
    })
}

/// Returns the parsed value. Without one, the text is wrong.
fn value<T>(parsed: Option<T>, text: &str, right: impl std::fmt::Display) -> Read<T> {
    parsed.map_or_else(|| wrong(text, right), Ok)
}

/// Parses digits only. Returns `None` if the number is too large.
fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// Parses a number in `range`.
pub(super) fn count(text: &str, range: RangeInclusive<usize>) -> Read<usize> {
    let number = digits(text).and_then(|number| usize::try_from(number).ok());
    let number = number.filter(|number| range.contains(number));
    let (least, most) = (range.start(), range.end());
    value(
        number,
        text,
        format_args!("a number from {least} to {most}"),
    )
}

/// Parses a size in `range`: bytes, or a number with K, M or G for 1024, 1024² or 1024³.
pub(super) fn size(text: &str, range: RangeInclusive<u64>) -> Read<usize> {
    let (number, shift) = match text.as_bytes() {
        [.., b'K' | b'k'] => (text.split_at(text.len() - 1).0, 10),
        [.., b'M' | b'm'] => (text.split_at(text.len() - 1).0, 20),
        [.., b'G' | b'g'] => (text.split_at(text.len() - 1).0, 30),
        _ => (text, 0),
    };
    let bytes = digits(number).and_then(|number| number.checked_mul(1 << shift));
    let bytes = bytes.filter(|bytes| range.contains(bytes));
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    let (least, most) = (size_text(*range.start()), size_text(*range.end()));
    let right = format_args!("a size from {least} to {most}, in bytes or with K, M or G");
    value(bytes, text, right)
}

/// Returns a size in the largest unit of which it is a multiple.
pub(super) fn size_text(bytes: u64) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    let whole = |(shift, _): &(u32, &str)| bytes != 0 && bytes.trailing_zeros() >= *shift;
    match units.into_iter().find(whole) {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

/// The longest time of any option, in seconds.
pub(super) const HOUR: f64 = 3600.0;

/// Parses a time in `range` of seconds: `30`, `0.5`, `30s`, `500ms`, `2m` or `1h`.
pub(super) fn time(text: &str, range: RangeInclusive<f64>) -> Read<Duration> {
    match nanoseconds(text).map(Duration::from_nanos) {
        Some(time) if range.contains(&time.as_secs_f64()) => Ok(time),
        Some(_) | None => {
            let (least, most) = (range.start(), range.end());
            let examples = [(30.0, "30"), (0.5, "0.5"), (2.5, "2.5s"), (120.0, "2m")];
            let examples = examples
                .iter()
                .filter(|(seconds, _)| range.contains(seconds));
            let examples: Vec<&str> = examples.map(|(_, example)| *example).collect();
            wrong(
                text,
                format_args!("{least} to {most} seconds, such as {}", examples.join(", ")),
            )
        }
    }
}

fn nanoseconds(text: &str) -> Option<u64> {
    let (second, minute) = (1_000_000_000, 60_000_000_000);
    let units = [
        ("ms", 1_000_000),
        ("s", second),
        ("m", minute),
        ("h", 60 * minute),
    ];
    let mut units = units.into_iter();
    let unit = units.find_map(|(unit, size)| Some((text.strip_suffix(unit)?, size)));
    let (number, unit) = unit.unwrap_or((text, 1_000_000_000));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let places = u32::try_from(fraction.len())
        .ok()
        .filter(|places| *places <= 9)?;
    let whole = digits(whole)?.checked_mul(unit)?;
    // At most 10⁹ times an hour, which has 62 bits.
    let fraction = digits(fraction)?.checked_mul(unit)? / 10_u64.checked_pow(places)?;
    whole.checked_add(fraction)
}

/// Parses an address: `192.0.2.1:8000` or `[::]:8000`. Port 0 asks for a free port.
fn bind(text: &str) -> Option<Bind> {
    let address: SocketAddr = text.parse().ok()?;
    Some(Bind {
        address,
        without_ipv6: None,
    })
}

pub(super) fn listen(text: &str) -> Read<Listen> {
    let right = "ADDR:PORT, such as 127.0.0.1:8000 or [::]:8000, or unix:PATH";
    match text.strip_prefix("unix:") {
        Some("") => wrong(text, right),
        Some(place) => path(place).map(Listen::Unix),
        None => value(bind(text).map(Listen::Tcp), text, right),
    }
}

/// Parses the path of a socket in the file system.
#[cfg(feature = "handover")]
pub(super) fn unix(text: &str) -> Read<PathBuf> {
    match text.strip_prefix("unix:") {
        None | Some("") => wrong(text, "unix:PATH, such as unix:/run/tollgate/handover"),
        Some(place) => path(place),
    }
}

pub(super) fn rtp(text: &str) -> Read<Option<Bind>> {
    if text == "off" {
        return Ok(None);
    }
    let right = "ADDR:PORT, such as 127.0.0.1:5004 or [::]:5004, or off";
    value(bind(text).map(Some), text, right)
}

#[cfg(feature = "rtmp")]
pub(super) fn rtmp(text: &str) -> Read<Option<Bind>> {
    let right = "ADDR:PORT, such as 127.0.0.1:1935 or [::]:1935";
    value(bind(text).map(Some), text, right)
}

pub(super) fn join(text: &str) -> Read<Join> {
    let right =
        "GROUP[@SOURCE][%INTERFACE], such as 239.1.2.3, 232.1.2.3@192.0.2.7 or ff3e::1%eth0";
    value(Join::parse(text), text, right)
}

/// Parses a TTL, with an interface or without.
pub(super) fn multicast(text: &str) -> Read<(u8, Option<InterfaceName>)> {
    let (hops, name) = match text.split_once('%') {
        Some((hops, name)) => (hops, Some(InterfaceName::parse(name))),
        None => (text, None),
    };
    let hops = digits(hops).and_then(|hops| u8::try_from(hops).ok());
    match (hops.filter(|hops| *hops > 0), name) {
        (Some(hops), None) => Ok((hops, None)),
        (Some(hops), Some(Some(name))) => Ok((hops, Some(name))),
        (None, _) | (_, Some(None)) => wrong(
            text,
            "a TTL from 1 to 255, or TTL%INTERFACE, such as 8%eth0",
        ),
    }
}

pub(super) fn hostname(text: &str) -> Read<String> {
    let name = HostName::parse(text);
    name.map(|name| name.as_str().to_owned()).map_err(|bad| {
        let shown = Quoted(text.as_bytes());
        match bad {
            BAD_IPV4 => format!(
                "{shown} is not a name; give one such as relay.example (addresses need no option)"
            ),
            _ => format!("{shown}: {bad}"),
        }
    })
}

/// Reads the address of the server in links. Returns it with a slash at its end. Its bytes can stand
/// in a script as they are.
pub(super) fn public_url(text: &str) -> Read<String> {
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/%[]".contains(&byte);
    match rest {
        Some(rest) if !rest.trim_start_matches('/').is_empty() && rest.bytes().all(is_plain) => {
            Ok(format!("{}/", text.trim_end_matches('/')))
        }
        _ => wrong(
            text,
            "https://NAME or https://NAME/PATH, such as https://live.example",
        ),
    }
}

pub(super) fn log_level(text: &str) -> Read<Level> {
    match text {
        "error" => Ok(Level::Error),
        "warn" => Ok(Level::Warn),
        "info" => Ok(Level::Info),
        "debug" => Ok(Level::Debug),
        _ => wrong(text, "error, warn, info or debug"),
    }
}

/// Returns whether log lines are JSON.
pub(super) fn log_format(text: &str) -> Read<bool> {
    match text {
        "text" => Ok(false),
        "json" => Ok(true),
        _ => wrong(text, "text or json"),
    }
}

/// Parses `on` or `off`.
#[cfg(any(feature = "hls", feature = "remux"))]
pub(super) fn switch(text: &str) -> Read<bool> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => wrong(text, "on or off"),
    }
}

/// Parses a sandbox mode.
#[cfg(feature = "sandbox")]
pub(super) fn sandbox(text: &str) -> Read<super::SandboxMode> {
    use super::SandboxMode;
    match text {
        "on" => Ok(SandboxMode::On),
        "log" => Ok(SandboxMode::Log),
        "off" => Ok(SandboxMode::Off),
        _ => wrong(text, "on, log or off"),
    }
}

/// Parses the path of a file.
pub(super) fn path(text: &str) -> Read<PathBuf> {
    if text.is_empty() {
        return wrong(text, "the path of a file");
    }
    Ok(text.into())
}

/// Parses `-` or a path.
pub(super) fn access_log(text: &str) -> Read<AccessLog> {
    match text {
        "" => wrong(text, "the path of a file, or - for stdout"),
        "-" => Ok(AccessLog::Stdout),
        path => Ok(AccessLog::File(path.into())),
    }
}

/// Parses `*`, or an origin as browsers send it (RFC 6454 section 6.1).
pub(super) fn cors_origin(text: &str) -> Read<CorsOrigin> {
    if text == "*" {
        return Ok(CorsOrigin::Any);
    }
    let right = "* or an origin, such as https://example.org, without a path and in lower case";
    let site = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    let plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_:[]".contains(&byte);
    match site {
        Some(site) if !site.is_empty() && site.bytes().all(plain) => {
            Ok(CorsOrigin::Site(text.to_owned()))
        }
        Some(_) | None => wrong(text, right),
    }
}

/// Parses the URL of a peer: `http://ADDR:PORT`, perhaps with a path.
pub(super) fn peer(text: &str) -> Read<Peer> {
    let peer = origin(text).ok().as_ref().and_then(Peer::new);
    value(
        peer,
        text,
        "http://ADDR:PORT, such as http://127.0.0.1:8002",
    )
}

/// Parses the URL of an origin: `http://HOST:PORT`, perhaps with a path.
pub(super) fn origin(text: &str) -> Read<OriginUrl> {
    let right = "http://HOST:PORT or http://HOST:PORT/PATH, such as http://origin.example:8000";
    let Some(rest) = text.strip_prefix("http://") else {
        return wrong(text, right);
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%/".contains(&byte);
    match host_and_port(authority) {
        Ok((host, port)) if path.bytes().all(plain) => Ok(OriginUrl {
            host,
            port,
            path: path.trim_end_matches('/').to_owned(),
        }),
        Ok(_) | Err(_) => wrong(text, right),
    }
}
