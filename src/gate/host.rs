//! Hosts: an IPv4 address, an IPv6 address in brackets, or a name (RFC 1123 section 2.1, and the
//! underscore that DNS names use).
//!
//! A host keeps its spelling for lists, but comparisons ignore it. Text that looks like an IPv4
//! address and is none is refused, never used as a name: `127.1`, `0x7f000001` and `010.0.0.1` mean
//! different hosts to different resolvers.

use std::fmt::{self, Display, Formatter};
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;

/// The longest label of a name and the longest name, in bytes, without the final dot (RFC 1035,
/// section 2.3.4).
const LABEL_BYTES_MAX: usize = 63;
const NAME_BYTES_MAX: usize = 253;

/// A host. Addresses are compared as addresses, names without case and final dot.
#[derive(Clone, Debug)]
pub enum Host {
    Address {
        /// An IPv4-mapped IPv6 address is stored as IPv4.
        address: IpAddr,
        /// The spelling in the request, without brackets.
        written: Box<str>,
    },
    Name(HostName),
}

impl Host {
    /// Returns the spelling in the request, without brackets.
    pub fn as_str(&self) -> &str {
        match self {
            Host::Address { written, .. } => written,
            Host::Name(name) => name.as_str(),
        }
    }

    /// Parses the host of HOST:PORT if it has no brackets: an IPv4 address or a name.
    fn parse_unbracketed(text: &str) -> Result<Host, BadHost> {
        match text.parse::<Ipv4Addr>() {
            Ok(address) => Ok(Host::Address {
                address: IpAddr::V4(address),
                written: text.into(),
            }),
            Err(_) => HostName::parse(text).map(Host::Name),
        }
    }

    /// Parses the text between brackets as an IPv6 address.
    fn parse_bracketed(text: &str) -> Result<Host, BadHost> {
        if text.contains('%') {
            return Err(BadHost::Zone);
        }
        let address: Ipv6Addr = text.parse().map_err(|_| BadHost::BracketNotIpv6)?;
        Ok(Host::Address {
            address: address.to_canonical(),
            written: text.into(),
        })
    }
}

impl PartialEq for Host {
    fn eq(&self, other: &Host) -> bool {
        match (self, other) {
            (Host::Address { address: one, .. }, Host::Address { address: two, .. }) => one == two,
            (Host::Name(one), Host::Name(two)) => one == two,
            (Host::Address { .. }, Host::Name(_)) | (Host::Name(_), Host::Address { .. }) => false,
        }
    }
}

impl Eq for Host {}

impl Hash for Host {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Host::Address { address, .. } => address.hash(state),
            Host::Name(name) => name.hash(state),
        }
    }
}

/// The spelling in the request. An IPv6 address is in brackets, so that a port can follow.
impl Display for Host {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let written = self.as_str();
        // Only an IPv6 address has a colon.
        match written.contains(':') {
            true => write!(formatter, "[{written}]"),
            false => formatter.write_str(written),
        }
    }
}

/// A valid host name that is no address. Comparisons ignore case and a final dot.
#[derive(Clone, Debug)]
pub struct HostName(Box<str>);

impl HostName {
    /// Parses a name of at most 253 bytes, without counting a final dot. Labels have 1 to 63
    /// letters, digits, `_` and `-`, and neither begin nor end with `-`. The last label is no
    /// number, since resolvers would read the name as an IPv4 address.
    pub fn parse(text: &str) -> Result<HostName, BadHost> {
        let bare = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return Err(BadHost::NoHost);
        }
        if bare.len() > NAME_BYTES_MAX {
            return Err(BadHost::NameTooLong);
        }
        let mut last = bare;
        for label in bare.split('.') {
            check_label(label)?;
            last = label;
        }
        match is_number(last) {
            true => Err(BadHost::BadIpv4),
            false => Ok(HostName(text.into())),
        }
    }

    /// Returns the spelling in the request.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn without_dot(&self) -> &str {
        self.0.strip_suffix('.').unwrap_or(&self.0)
    }
}

impl PartialEq for HostName {
    fn eq(&self, other: &HostName) -> bool {
        self.without_dot().eq_ignore_ascii_case(other.without_dot())
    }
}

impl Eq for HostName {}

impl Hash for HostName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for byte in self.without_dot().bytes() {
            state.write_u8(byte.to_ascii_lowercase());
        }
        state.write_u8(b'.');
    }
}

fn check_label(label: &str) -> Result<(), BadHost> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !label.bytes().all(plain) {
        return Err(BadHost::NameCharacters);
    }
    if label.is_empty() {
        return Err(BadHost::LabelEmpty);
    }
    if label.len() > LABEL_BYTES_MAX {
        return Err(BadHost::LabelTooLong);
    }
    if label.starts_with('-') || label.ends_with('-') {
        return Err(BadHost::LabelHyphen);
    }
    Ok(())
}

/// Returns whether resolvers could read a name with this last label as an IPv4 address. They read
/// decimal, octal and hexadecimal numbers.
fn is_number(label: &str) -> bool {
    let hexadecimal = label
        .strip_prefix("0x")
        .or_else(|| label.strip_prefix("0X"));
    match hexadecimal {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

/// Parses HOST:PORT.
pub fn host_and_port(text: &str) -> Result<(Host, NonZeroU16), BadHost> {
    if let Some(bracketed) = text.strip_prefix('[') {
        let (inside, after) = bracketed.split_once(']').ok_or(BadHost::BracketOpen)?;
        let host = Host::parse_bracketed(inside)?;
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, parse_port(port)?)),
            None if after.is_empty() => Err(BadHost::NoPort),
            None => Err(BadHost::BracketThenJunk),
        };
    }
    let (host, port) = text.split_once(':').ok_or(BadHost::NoPort)?;
    if port.contains(':') {
        return Err(BadHost::Colons);
    }
    Ok((Host::parse_unbracketed(host)?, parse_port(port)?))
}

fn parse_port(text: &str) -> Result<NonZeroU16, BadHost> {
    if text.is_empty() {
        return Err(BadHost::NoPort);
    }
    let mut port: u16 = 0;
    for byte in text.bytes() {
        if !byte.is_ascii_digit() {
            return Err(BadHost::PortNotNumber);
        }
        port = port
            .checked_mul(10)
            .and_then(|tens| tens.checked_add(u16::from(byte - b'0')))
            .ok_or(BadHost::PortTooLarge)?;
    }
    NonZeroU16::new(port).ok_or(BadHost::PortZero)
}

/// Reasons why a HOST:PORT is wrong. Prints what would be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadHost {
    NoHost,
    NoPort,
    PortZero,
    PortTooLarge,
    PortNotNumber,
    Colons,
    BracketOpen,
    BracketThenJunk,
    BracketNotIpv6,
    Zone,
    BadIpv4,
    NameCharacters,
    NameTooLong,
    LabelEmpty,
    LabelTooLong,
    LabelHyphen,
}

impl Display for BadHost {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            BadHost::NoHost => "no host; give HOST:PORT",
            BadHost::NoPort => "no port; give HOST:PORT, with a port from 1 to 65535",
            BadHost::PortZero => "port 0; give a port from 1 to 65535",
            BadHost::PortTooLarge => "port above 65535; give a port from 1 to 65535",
            BadHost::PortNotNumber => "the port is not a number; give 1 to 65535 in digits",
            BadHost::Colons => {
                "more than one colon; give HOST:PORT, an IPv6 address in brackets: \
                 [2001:db8::1]:5004"
            }
            BadHost::BracketOpen => "no closing bracket; give [IPv6]:PORT",
            BadHost::BracketThenJunk => "no colon behind the bracket; give [IPv6]:PORT",
            BadHost::BracketNotIpv6 => {
                "no IPv6 address between the brackets; IPv4 addresses and names have none"
            }
            BadHost::Zone => "IPv6 address with a zone (%); give the address alone",
            BadHost::BadIpv4 => "bad IPv4 address; give four numbers from 0 to 255: 192.0.2.1",
            BadHost::NameCharacters => {
                "bad name; give letters, digits, hyphens, underscores and dots (other scripts as \
                 xn--...)"
            }
            BadHost::NameTooLong => "name too long; give at most 253 bytes",
            BadHost::LabelEmpty => "empty label in the name; give labels of 1 to 63 bytes",
            BadHost::LabelTooLong => "label too long in the name; give labels of 1 to 63 bytes",
            BadHost::LabelHyphen => {
                "label with a hyphen at an end; give labels that begin and end otherwise"
            }
        })
    }
}

impl std::error::Error for BadHost {}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Host {
        host_and_port(text).expect("a good HOST:PORT").0
    }

    #[test]
    fn hosts_are_kept_as_written_and_compared_by_meaning() {
        let mapped = host("[::ffff:192.0.2.1]:1");
        assert_eq!(mapped.as_str(), "::ffff:192.0.2.1");
        assert_eq!(mapped.to_string(), "[::ffff:192.0.2.1]");
        assert_eq!(mapped, host("192.0.2.1:1"));
        assert_eq!(host("[2001:DB8:0::1]:1"), host("[2001:db8::1]:1"));
        assert_eq!(host("Example.COM.:1"), host("example.com:1"));
        assert_ne!(host("example.com:1"), host("example.org:1"));
        assert_ne!(host("a1:1"), host("192.0.2.1:1"));
    }

    /// Equal hosts must have equal hashes, and different hosts should not.
    #[test]
    fn hosts_that_are_equal_hash_alike_and_others_do_not() {
        let hash = |text: &str| {
            let mut hasher = std::hash::DefaultHasher::new();
            host(text).hash(&mut hasher);
            hasher.finish()
        };
        assert_eq!(hash("Example.COM.:1"), hash("example.com:1"));
        assert_eq!(hash("[::ffff:192.0.2.1]:1"), hash("192.0.2.1:1"));
        let others = [
            "example.com:1",
            "example.org:1",
            "192.0.2.1:1",
            "192.0.2.2:1",
        ];
        let hashes: std::collections::HashSet<u64> = others.map(hash).into();
        assert_eq!(hashes.len(), others.len());
    }

    #[test]
    fn names_follow_rfc_1123() {
        let longest_label = format!("{}:1", "a".repeat(63));
        let label = "a".repeat(49);
        let longest = format!("{label}.{label}.{label}.{label}.{label}.abc");
        assert_eq!(longest.len(), 253);
        for good in [
            "a:1",
            "3com.com:1",
            "a_b._tcp.x:1",
            "1.2.3.x:1",
            "0xg:1",
            "x.0y:1",
        ] {
            assert!(matches!(host(good), Host::Name(_)), "{good}");
        }
        assert!(host_and_port(&longest_label).is_ok());
        assert!(HostName::parse(&longest).is_ok());
        assert!(HostName::parse(&format!("{longest}.")).is_ok());
        assert_eq!(
            HostName::parse(&format!("{longest}d")),
            Err(BadHost::NameTooLong)
        );
        assert_eq!(HostName::parse(&"a".repeat(64)), Err(BadHost::LabelTooLong));
    }

    #[test]
    fn each_fault_is_told_apart() {
        let cases = [
            ("", BadHost::NoPort),
            (":5004", BadHost::NoHost),
            ("host", BadHost::NoPort),
            ("host:", BadHost::NoPort),
            ("[::1]", BadHost::NoPort),
            ("[::1]:", BadHost::NoPort),
            ("host:0", BadHost::PortZero),
            ("host:000", BadHost::PortZero),
            ("host:65536", BadHost::PortTooLarge),
            ("host:99999999999999999999", BadHost::PortTooLarge),
            ("host:+5", BadHost::PortNotNumber),
            ("host:-5", BadHost::PortNotNumber),
            ("host: 5", BadHost::PortNotNumber),
            ("host:5x", BadHost::PortNotNumber),
            ("host:٥", BadHost::PortNotNumber),
            ("::1:5004", BadHost::Colons),
            ("host:1:2", BadHost::Colons),
            ("[::1:5004", BadHost::BracketOpen),
            ("[::1]5004", BadHost::BracketThenJunk),
            ("[192.0.2.1]:5", BadHost::BracketNotIpv6),
            ("[host]:5", BadHost::BracketNotIpv6),
            ("[]:5", BadHost::BracketNotIpv6),
            ("[[::1]]:5", BadHost::BracketNotIpv6),
            ("[fe80::1%eth0]:5", BadHost::Zone),
            ("1.2.3:5", BadHost::BadIpv4),
            ("256.1.1.1:5", BadHost::BadIpv4),
            ("1.2.3.4.:5", BadHost::BadIpv4),
            ("010.0.0.1:5", BadHost::BadIpv4),
            ("host.1:5", BadHost::BadIpv4),
            ("2130706433:5", BadHost::BadIpv4),
            ("0x7f000001:5", BadHost::BadIpv4),
            ("1.2.3.0X:5", BadHost::BadIpv4),
            ("ho st:5", BadHost::NameCharacters),
            ("höst:5", BadHost::NameCharacters),
            ("a/b:5", BadHost::NameCharacters),
            ("::1]:5", BadHost::Colons),
            ("a..b:5", BadHost::LabelEmpty),
            (".a:5", BadHost::LabelEmpty),
            (".:5", BadHost::LabelEmpty),
            ("a..:5", BadHost::LabelEmpty),
            ("-a:5", BadHost::LabelHyphen),
            ("a-.b:5", BadHost::LabelHyphen),
        ];
        for (text, fault) in cases {
            assert_eq!(host_and_port(text), Err(fault), "{text}");
        }
    }
}
