//! Hosts: an IPv4 address, an IPv6 address in brackets, or a name (RFC 1123 section 2.1, and the
//! underscore that DNS names use).
//!
//! A host keeps its spelling for lists, but comparisons ignore it. Text that looks like an IPv4
//! address and is none is refused, never used as a name: `127.1`, `0x7f000001` and `010.0.0.1` mean
//! different hosts to different resolvers.

use std::fmt::{self, Display, Formatter};
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;

/// The longest label of a name and the longest name, in bytes, without the final dot (RFC 1035,
/// section 2.3.4).
const LABEL_BYTES_MAX: usize = 63;
const NAME_BYTES_MAX: usize = 253;

const NO_PORT: &str = "no port; give HOST:PORT, with a port from 1 to 65535";
/// Error of [`HostName::parse`]: resolvers could read the name as an address.
pub const BAD_IPV4: &str = "bad IPv4 address; give four numbers from 0 to 255: 192.0.2.1";

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

    /// Returns its address with this port. `None`: it is a name.
    pub fn socket_address(&self, port: NonZeroU16) -> Option<SocketAddr> {
        match self {
            Host::Address { address, .. } => Some(SocketAddr::new(*address, port.get())),
            Host::Name(_) => None,
        }
    }

    /// Parses the host of HOST:PORT if it has no brackets: an IPv4 address or a name.
    fn parse_unbracketed(text: &str) -> Result<Host, &'static str> {
        match text.parse::<Ipv4Addr>() {
            Ok(address) => Ok(Host::Address {
                address: IpAddr::V4(address),
                written: text.into(),
            }),
            Err(_) => HostName::parse(text).map(Host::Name),
        }
    }

    /// Parses the text between brackets as an IPv6 address.
    fn parse_bracketed(text: &str) -> Result<Host, &'static str> {
        if text.contains('%') {
            return Err("IPv6 address with a zone (%); give the address alone");
        }
        let address: Ipv6Addr = text.parse().map_err(
            |_| "no IPv6 address between the brackets; IPv4 addresses and names have none",
        )?;
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
    pub fn parse(text: &str) -> Result<HostName, &'static str> {
        let bare = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return Err("no host; give HOST:PORT");
        }
        if bare.len() > NAME_BYTES_MAX {
            return Err("name too long; give at most 253 bytes");
        }
        let mut last = bare;
        for label in bare.split('.') {
            check_label(label)?;
            last = label;
        }
        match is_number(last) {
            true => Err(BAD_IPV4),
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

fn check_label(label: &str) -> Result<(), &'static str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !label.bytes().all(plain) {
        return Err(
            "bad name; give letters, digits, hyphens, underscores and dots (other scripts as xn--...)",
        );
    }
    if label.is_empty() {
        return Err("empty label in the name; give labels of 1 to 63 bytes");
    }
    if label.len() > LABEL_BYTES_MAX {
        return Err("label too long in the name; give labels of 1 to 63 bytes");
    }
    if label.starts_with('-') || label.ends_with('-') {
        return Err("label with a hyphen at an end; give labels that begin and end otherwise");
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
pub fn host_and_port(text: &str) -> Result<(Host, NonZeroU16), &'static str> {
    if let Some(bracketed) = text.strip_prefix('[') {
        let (inside, after) = bracketed
            .split_once(']')
            .ok_or("no closing bracket; give [IPv6]:PORT")?;
        let host = Host::parse_bracketed(inside)?;
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, parse_port(port)?)),
            None if after.is_empty() => Err(NO_PORT),
            None => Err("no colon behind the bracket; give [IPv6]:PORT"),
        };
    }
    let (host, port) = text.split_once(':').ok_or(NO_PORT)?;
    if port.contains(':') {
        return Err(
            "more than one colon; give HOST:PORT, an IPv6 address in brackets: [2001:db8::1]:5004",
        );
    }
    Ok((Host::parse_unbracketed(host)?, parse_port(port)?))
}

fn parse_port(text: &str) -> Result<NonZeroU16, &'static str> {
    if text.is_empty() {
        return Err(NO_PORT);
    }
    let mut port: u16 = 0;
    for byte in text.bytes() {
        if !byte.is_ascii_digit() {
            return Err("the port is not a number; give 1 to 65535 in digits");
        }
        port = port
            .checked_mul(10)
            .and_then(|tens| tens.checked_add(u16::from(byte - b'0')))
            .ok_or("port above 65535; give a port from 1 to 65535")?;
    }
    NonZeroU16::new(port).ok_or("port 0; give a port from 1 to 65535")
}

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
        let fault = |name: &str| HostName::parse(name).expect_err(name);
        assert!(fault(&format!("{longest}d")).starts_with("name too long"));
        assert!(fault(&"a".repeat(64)).starts_with("label too long"));
    }

    #[test]
    fn each_fault_is_told_apart() {
        let cases = [
            ("", NO_PORT),
            (":5004", "no host"),
            ("host", NO_PORT),
            ("host:", NO_PORT),
            ("[::1]", NO_PORT),
            ("[::1]:", NO_PORT),
            ("host:0", "port 0;"),
            ("host:000", "port 0;"),
            ("host:65536", "port above"),
            ("host:99999999999999999999", "port above"),
            ("host:+5", "the port is not"),
            ("host:-5", "the port is not"),
            ("host: 5", "the port is not"),
            ("host:5x", "the port is not"),
            ("host:٥", "the port is not"),
            ("::1:5004", "more than one colon"),
            ("host:1:2", "more than one colon"),
            ("[::1:5004", "no closing"),
            ("[::1]5004", "no colon"),
            ("[192.0.2.1]:5", "no IPv6"),
            ("[host]:5", "no IPv6"),
            ("[]:5", "no IPv6"),
            ("[[::1]]:5", "no IPv6"),
            ("[fe80::1%eth0]:5", "IPv6 address with a zone"),
            ("1.2.3:5", BAD_IPV4),
            ("256.1.1.1:5", BAD_IPV4),
            ("1.2.3.4.:5", BAD_IPV4),
            ("010.0.0.1:5", BAD_IPV4),
            ("host.1:5", BAD_IPV4),
            ("2130706433:5", BAD_IPV4),
            ("0x7f000001:5", BAD_IPV4),
            ("1.2.3.0X:5", BAD_IPV4),
            ("ho st:5", "bad name"),
            ("höst:5", "bad name"),
            ("a/b:5", "bad name"),
            ("::1]:5", "more than one colon"),
            ("a..b:5", "empty label"),
            (".a:5", "empty label"),
            (".:5", "empty label"),
            ("a..:5", "empty label"),
            ("-a:5", "label with a hyphen"),
            ("a-.b:5", "label with a hyphen"),
        ];
        for (text, fault) in cases {
            let printed = host_and_port(text).expect_err(text);
            assert!(printed.starts_with(fault), "{text}: {printed}");
        }
    }
}
