//! What proxies that speak only HTTP say of the client: `Forwarded` (RFC 7239) or
//! `X-Forwarded-For`.
//!
//! Each proxy adds the address that it was called from behind the others. So the list is read from
//! the right, and what stands before the first address that is no proxy's may be anybody's
//! invention.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::fields::Forwarded;
use super::refusal::{Refusal, malformed, quoted};

impl Forwarded {
    /// Whether a proxy, or somebody in its place, says whose the request is.
    pub fn is_there(&self) -> bool {
        self.standard.is_some() || self.x_forwarded_for.is_some()
    }

    /// The client: the last address that is not one of the proxies'. `None`: there is none, since
    /// nothing is said, or proxies are named alone. The port is 0 where none is given.
    pub fn client(&self, is_proxy: impl Fn(IpAddr) -> bool) -> Result<Option<SocketAddr>, Refusal> {
        let (name, list) = match (&self.standard, &self.x_forwarded_for) {
            (None, None) => return Ok(None),
            (Some(list), None) => ("Forwarded", list),
            (None, Some(list)) => ("X-Forwarded-For", list),
            // The proxy writes one of them and may pass on whatever the client wrote into the
            // other.
            (Some(_), Some(_)) => {
                return Err(malformed(
                    "both Forwarded and X-Forwarded-For; the proxy must remove the one that it does not write",
                ));
            }
        };
        for element in list.rsplit(',') {
            let element = element.trim_matches([' ', '\t']);
            let node = match name {
                "Forwarded" => forwarded_for(element),
                _ => Some(element),
            };
            let address = node.and_then(node_address).ok_or_else(|| {
                malformed(format!(
                    "'{}' in {name} names no address",
                    quoted(element, 64)
                ))
            })?;
            if !is_proxy(address.ip()) {
                return Ok(Some(address));
            }
        }
        Ok(None)
    }
}

/// The `for` of one element, which is one proxy's.
fn forwarded_for(element: &str) -> Option<&str> {
    let mut found = element.split(';').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let name = name.trim_matches([' ', '\t']);
        name.eq_ignore_ascii_case("for").then_some(value)
    });
    let value = found.next().filter(|_| found.next().is_none())?;
    let value = value.trim_matches([' ', '\t']);
    match value.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"'),
        None => Some(value),
    }
}

/// `192.0.2.7`, `192.0.2.7:80`, `[2001:db8::7]`, `[2001:db8::7]:80`; and without brackets, as
/// `X-Forwarded-For` has it.
fn node_address(node: &str) -> Option<SocketAddr> {
    let in_brackets = || {
        let inner = node.strip_prefix('[')?.strip_suffix(']')?;
        inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
    };
    let without_port = node.parse().ok().or_else(in_brackets);
    let address = match without_port {
        Some(address) => SocketAddr::new(address, 0),
        None => node.parse().ok()?,
    };
    Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(forwarded: &Forwarded) -> Result<Option<String>, Refusal> {
        let is_proxy = |address: IpAddr| address.to_string().starts_with("10.");
        let client = forwarded.client(is_proxy)?;
        Ok(client.map(|client| client.to_string()))
    }

    fn standard(list: &str) -> Option<String> {
        let forwarded = Forwarded {
            standard: Some(list.to_owned()),
            x_forwarded_for: None,
        };
        assert!(forwarded.is_there());
        client(&forwarded).ok().flatten()
    }

    fn x_forwarded_for(list: &str) -> Option<String> {
        let forwarded = Forwarded {
            standard: None,
            x_forwarded_for: Some(list.to_owned()),
        };
        assert!(forwarded.is_there());
        client(&forwarded).ok().flatten()
    }

    #[test]
    fn the_last_that_is_no_proxy_is_the_client() {
        for (list, expected) in [
            ("192.0.2.7", "192.0.2.7:0"),
            ("192.0.2.7:81", "192.0.2.7:81"),
            ("::ffff:192.0.2.7", "192.0.2.7:0"),
            ("2001:db8::7", "[2001:db8::7]:0"),
            ("[2001:db8::7]", "[2001:db8::7]:0"),
            ("[2001:db8::7]:9", "[2001:db8::7]:9"),
            ("127.0.0.1, 192.0.2.7, 10.0.0.1,10.0.0.2", "192.0.2.7:0"),
            ("rubbish, 192.0.2.7", "192.0.2.7:0"),
        ] {
            assert_eq!(x_forwarded_for(list).as_deref(), Some(expected), "{list}");
        }
        for (list, expected) in [
            ("for=192.0.2.7", "192.0.2.7:0"),
            ("proto=https; For=\"192.0.2.7:81\" ;by=_x", "192.0.2.7:81"),
            (
                "for=127.0.0.1, for=\"[2001:db8::7]:9\", for=10.0.0.9",
                "[2001:db8::7]:9",
            ),
        ] {
            assert_eq!(standard(list).as_deref(), Some(expected), "{list}");
        }
    }

    #[test]
    fn who_is_not_named_is_not_guessed() {
        for list in [
            "",
            "192.0.2.7,",
            "unknown",
            "192.0.2.7, _hidden",
            "192.0.2.7 10.0.0.1",
            "192.0.2",
            "10.0.0.2",
            "10.0.0.3, ::ffff:10.0.0.2",
        ] {
            assert_eq!(x_forwarded_for(list), None, "{list}");
        }
        for list in [
            "for=unknown",
            "proto=https",
            "for=192.0.2.7;for=192.0.2.8",
            "for=\"192.0.2.7",
            "192.0.2.7",
            "for=10.0.0.3, for=\"10.0.0.2:80\"",
        ] {
            assert_eq!(standard(list), None, "{list}");
        }
        assert_eq!(client(&Forwarded::default()).ok(), Some(None));
        assert!(!Forwarded::default().is_there());
        let both = Forwarded {
            standard: Some("for=192.0.2.7".to_owned()),
            x_forwarded_for: Some("192.0.2.8".to_owned()),
        };
        assert!(client(&both).is_err());
    }
}
