//! The `udp-clients` list of a request: `HOST:PORT,HOST:PORT,…`.
//!
//! The list is split at its commas before its entries are percent-decoded. So an encoded comma is
//! part of an entry, where it is wrong. A wrong entry makes the whole list wrong.

use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;

use super::host::{Host, host_and_port};
use super::quoted::Quoted;
use crate::percent::percent_decoded;

/// Host and port of a UDP client. Prints as an entry that parses to the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UdpClient {
    /// An address, or a name to resolve.
    pub host: Host,
    /// Port for RTP.
    pub port: NonZeroU16,
}

impl UdpClient {
    /// Returns the allocated memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.host.as_str().len()
    }

    /// Parses one decoded entry.
    pub(super) fn parse(entry: &[u8]) -> Result<UdpClient, &'static str> {
        if entry.is_empty() {
            return Err("it is empty; give HOST:PORT, such as 192.0.2.7:5004");
        }
        let text = std::str::from_utf8(entry).map_err(|_| "not UTF-8; give HOST:PORT")?;
        let (host, port) = host_and_port(text)?;
        if let Host::Address { address, .. } = &host {
            check_destination(*address)?;
        }
        Ok(UdpClient { host, port })
    }

    /// Returns its address, if the host is an address.
    pub fn address(&self) -> Option<SocketAddr> {
        self.host.socket_address(self.port)
    }
}

impl Display for UdpClient {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.host, self.port)
    }
}

/// Checks whether datagrams can be sent to an address: not to the unspecified address, nor to the
/// broadcast address. Also checks addresses of names.
pub fn check_destination(address: IpAddr) -> Result<(), &'static str> {
    let address = address.to_canonical();
    if address.is_unspecified() {
        return Err("the unspecified address is no destination; give the host's own");
    }
    match address {
        IpAddr::V4(address) if address.is_broadcast() => {
            Err("the broadcast address is no destination; give a host or a group")
        }
        IpAddr::V4(_) | IpAddr::V6(_) => Ok(()),
    }
}

/// Parses the raw value of the parameter, with at most `entries_max` entries. Removes repeats. The
/// error names the parameter, the first wrong entry and what would be right.
pub fn parse(raw: &str, entries_max: usize) -> Result<Vec<UdpClient>, String> {
    let (mut clients, mut seen) = (Vec::new(), HashSet::new());
    for (index, entry) in raw.split(',').enumerate() {
        let bad = |shown: &[u8], fault: &str| {
            let (number, entry) = (index + 1, Quoted(shown));
            format!("udp-clients: entry {number}, {entry}: {fault}")
        };
        if index >= entries_max {
            let fault = format!("too many entries; give at most {entries_max}");
            return Err(bad(entry.as_bytes(), &fault));
        }
        let decoded = percent_decoded(entry).ok_or_else(|| {
            bad(
                entry.as_bytes(),
                "% without two hexadecimal digits after it",
            )
        })?;
        let client = UdpClient::parse(&decoded).map_err(|fault| bad(&decoded, fault))?;
        if seen.insert(client.clone()) {
            clients.push(client);
        }
    }
    Ok(clients)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(raw: &str) -> Vec<String> {
        let clients = parse(raw, 100).expect("a good list");
        clients.iter().map(UdpClient::to_string).collect()
    }

    /// Asserts that the error names this entry and begins with this fault.
    fn assert_fault(raw: &str, number: usize, fault: &str) {
        let error = parse(raw, 100).expect_err(raw);
        let after = error.strip_prefix(&format!("udp-clients: entry {number}, '"));
        let (_, printed) = after.and_then(|after| after.split_once("': ")).expect(raw);
        assert!(printed.starts_with(fault), "{raw}: {error}");
    }

    #[test]
    fn entries_print_back_as_given() {
        let raw = "192.0.2.1:5004,[2001:DB8::1]:5006,Player.example.:1,[::ffff:192.0.2.9]:65535";
        assert_eq!(printed(raw), raw.split(',').collect::<Vec<_>>());
        assert_eq!(printed(&printed(raw).join(",")), printed(raw));
        assert_eq!(printed("239.1.2.3:5004"), ["239.1.2.3:5004"]);
        assert_eq!(printed("[ff02::1]:05004"), ["[ff02::1]:5004"]);
    }

    #[test]
    fn entries_are_decoded_after_splitting() {
        assert_eq!(printed("%5B%3a%3A1%5d:5,ho%73t%3a7"), ["[::1]:5", "host:7"]);
        let comma = parse("a:1%2Cb:2", 100).expect_err("a comma inside an entry");
        assert!(comma.contains(" 'a:1,b:2': more than one colon"));
    }

    #[test]
    fn repeats_count_once_where_they_came_first() {
        assert_eq!(printed("a:1,b:1,a:1,a:2"), ["a:1", "b:1", "a:2"]);
        assert_eq!(
            printed("Host.Example:1,hOST.example.:1"),
            ["Host.Example:1"]
        );
        assert_eq!(
            printed("[::FFFF:1.2.3.4]:9,1.2.3.4:9"),
            ["[::FFFF:1.2.3.4]:9"]
        );
        assert_eq!(printed("[::1]:9,[0:0::0:1]:9"), ["[::1]:9"]);
    }

    #[test]
    fn errors_name_the_entry() {
        for (raw, number, fault) in [
            ("", 1, "it is empty"),
            ("a:1,", 2, "it is empty"),
            ("a:1,,b:2", 2, "it is empty"),
            ("a:1,b", 2, "no port"),
            ("a:1,b:2,c:0", 3, "port 0"),
            ("a:1+", 1, "the port is not a number"),
            ("0.0.0.0:1", 1, "the unspecified address"),
            ("[::]:1", 1, "the unspecified address"),
            ("[::ffff:0.0.0.0]:1", 1, "the unspecified address"),
            ("255.255.255.255:1", 1, "the broadcast address"),
            ("[::ffff:255.255.255.255]:1", 1, "the broadcast address"),
            ("%ff:1", 1, "not UTF-8"),
        ] {
            assert_fault(raw, number, fault);
        }
        for raw in ["a%", "a%4", "a%4x:1", "%+1:1", "a%é:1"] {
            assert_fault(raw, 1, "% without two");
        }
    }

    #[test]
    fn the_list_is_bounded() {
        assert_eq!(parse("a:1,b:2", 2).map(|clients| clients.len()), Ok(2));
        let bad = parse("a:1,b:2,c:3", 2).expect_err("one too many");
        assert!(bad.contains("entry 3, 'c:3': too many entries; give at most 2"));
    }

    #[test]
    fn an_error_is_one_bounded_line() {
        let bad = parse("a:1,b%0d%0a:0", 100).expect_err("a line break");
        let line = "udp-clients: entry 2, 'b\\u{d}\\u{a}:0': bad name; give letters, digits, \
                    hyphens, underscores and dots (other scripts as xn--...)";
        assert_eq!(bad, line);
        let long = parse(&"x".repeat(100_000), 100).expect_err("no port");
        assert!(long.len() < 300);
    }
}
