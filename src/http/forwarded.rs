//! The client address that HTTP proxies name: `Forwarded` (RFC 7239) or `X-Forwarded-For`.
//!
//! Each proxy appends the address that called it. So the list is read from the right, up to the
//! first address that is no proxy's. Anyone could have written the addresses in front of that one.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::fields::Forwarded;
use super::grammar::{elements, parameter};
use super::refusal::{Refusal, malformed, quoted};

impl Forwarded {
    /// Returns whether the request has a field that proxies write.
    pub fn is_there(&self) -> bool {
        self.standard.is_some() || self.x_forwarded_for.is_some() || self.has_others
    }

    /// Returns whether the client reached the first proxy over TLS, as far as the fields say so.
    pub fn is_https(&self) -> bool {
        let first = self
            .standard
            .as_deref()
            .map(|list| elements(list, ',').next());
        let mut pairs = elements(first.flatten().unwrap_or_default(), ';').filter_map(parameter);
        let scheme = pairs.find(|(name, _)| name.eq_ignore_ascii_case("proto"));
        let is_https = scheme.is_some_and(|(_, scheme)| scheme.eq_ignore_ascii_case("https"));
        is_https || self.x_forwarded_https
    }

    /// Returns whether the fields name somebody else than this client: instead of it, or in front of
    /// it. Then the client has passed the request on.
    pub fn names_another(&self, client: IpAddr) -> bool {
        let is_first = |list: &str, address: fn(&str) -> Option<SocketAddr>| {
            let client = Some(client.to_canonical());
            let mut hosts = elements(list, ',').map(|it| address(it).map(|it| it.ip()));
            hosts.next() == Some(client) && hosts.all(|host| host != client)
        };
        let (standard, other) = (self.standard.as_deref(), self.x_forwarded_for.as_deref());
        standard.is_some_and(|list| !is_first(list, forwarded_for))
            || other.is_some_and(|list| !is_first(list, node_address))
    }

    /// Returns the client that this proxy names: the last address that is no proxy's. `None`: the
    /// fields name nobody, only proxies, or another machine's loopback address. The port is 0 if
    /// none is given.
    pub fn client(
        &self,
        mut proxy: SocketAddr,
        is_proxy: impl Fn(IpAddr) -> bool,
    ) -> Result<Option<SocketAddr>, Refusal> {
        let (name, list) = match (&self.standard, &self.x_forwarded_for) {
            (None, None) => return Ok(None),
            (Some(list), None) => ("Forwarded", list),
            (None, Some(list)) => ("X-Forwarded-For", list),
            // The proxy writes one field, and may pass the other one on as the client sent it.
            (Some(_), Some(_)) => {
                return Err(malformed(
                    "both Forwarded and X-Forwarded-For; the proxy must remove the one that it does not write",
                ));
            }
        };
        let elements: Vec<&str> = elements(list, ',').collect();
        for element in elements.into_iter().rev() {
            let address = match name {
                "Forwarded" => forwarded_for(element),
                _ => node_address(element),
            };
            let address = address.ok_or_else(|| {
                malformed(format!(
                    "'{}' in {name} names no address",
                    quoted(element, 64)
                ))
            })?;
            if is_of_another_machine(address, proxy) {
                return Ok(None);
            }
            if !is_proxy(address.ip()) {
                return Ok(Some(address));
            }
            // It has written the element in front of its own.
            proxy = address;
        }
        Ok(None)
    }
}

/// Returns whether a proxy names a loopback address of its own machine, which is not this one.
pub fn is_of_another_machine(client: SocketAddr, proxy: SocketAddr) -> bool {
    client.ip().is_loopback() && !proxy.ip().is_loopback()
}

/// Returns the `for` of an element, which one proxy has written. An element with a malformed pair
/// has none.
fn forwarded_for(element: &str) -> Option<SocketAddr> {
    let mut node = None;
    for pair in elements(element, ';').filter(|pair| !pair.is_empty()) {
        let (name, value) = parameter(pair)?;
        if name.eq_ignore_ascii_case("for") && node.replace(value).is_some() {
            return None;
        }
    }
    let node = node?;
    // A port may be a word. An IPv6 address with a port needs brackets, or its end is unknown.
    let is_word = |port: &str| {
        port.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    let node = match node.split_once(":_") {
        Some((host, port)) if !port.is_empty() && is_word(port) => host,
        _ => &node,
    };
    node_address(node).filter(|_| node.parse::<Ipv6Addr>().is_err())
}

/// Parses `192.0.2.7`, `192.0.2.7:80`, `[2001:db8::7]` and `[2001:db8::7]:80`; in `X-Forwarded-For`
/// an IPv6 address may have no brackets.
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
        let client = forwarded.client(SocketAddr::from(([10, 0, 0, 1], 7)), is_proxy)?;
        Ok(client.map(|client| client.to_string()))
    }

    fn standard(list: &str) -> Option<String> {
        let forwarded = Forwarded {
            standard: Some(list.to_owned()),
            ..Forwarded::default()
        };
        assert!(forwarded.is_there());
        client(&forwarded).ok().flatten()
    }

    fn x_forwarded_for(list: &str) -> Option<String> {
        let forwarded = Forwarded {
            x_forwarded_for: Some(list.to_owned()),
            ..Forwarded::default()
        };
        assert!(forwarded.is_there());
        client(&forwarded).ok().flatten()
    }

    /// Proxies behind the client may be named, too.
    #[test]
    fn who_stands_in_front_of_the_client_is_another() {
        let client = "192.0.2.7".parse().expect("an address");
        for (list, is_another) in [
            ("192.0.2.7", false),
            ("192.0.2.7:81", false),
            ("::ffff:192.0.2.7", false),
            ("192.0.2.7, 10.0.0.1", false),
            ("198.51.100.7, 192.0.2.7", true),
            ("198.51.100.7, 192.0.2.7, 10.0.0.1", true),
            ("unknown, 192.0.2.7", true),
            ("192.0.2.7, 192.0.2.7", true),
            ("198.51.100.7", true),
            ("10.0.0.1", true),
        ] {
            let x_forwarded_for = Some(list.to_owned());
            let standard = list.replace("::ffff:192.0.2.7", "\"[::ffff:192.0.2.7]\"");
            let standard = standard.replace("7:81", "7;proto=http");
            let standard = standard.split(", ").map(|node| format!("for={node}"));
            let standard = Some(standard.collect::<Vec<_>>().join(", "));
            for (standard, x_forwarded_for) in [(standard, None), (None, x_forwarded_for)] {
                let forwarded = Forwarded {
                    standard,
                    x_forwarded_for,
                    ..Forwarded::default()
                };
                let seen = forwarded.names_another(client);
                assert_eq!(seen, is_another, "{forwarded:?}");
            }
        }
        assert!(!Forwarded::default().names_another(client));
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
            ("for=\"\\1\\92.0.2.7:_http\"", "192.0.2.7:0"),
            ("for=\"[2001:db8::7]:_a\";;", "[2001:db8::7]:0"),
            ("for=192.0.2.7;host=\"x, for=127.0.0.1;y=\"", "192.0.2.7:0"),
            (
                r#"for=192.0.2.7;host="\",for=127.0.0.1;y=\"""#,
                "192.0.2.7:0",
            ),
            (
                "for=127.0.0.1, for=\"[2001:db8::7]:9\", for=10.0.0.9",
                "[2001:db8::7]:9",
            ),
        ] {
            assert_eq!(standard(list).as_deref(), Some(expected), "{list}");
        }
    }

    #[test]
    fn a_client_that_is_not_named_is_not_guessed() {
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
            "for=192.0.2.7:80",
            "for=\"192.0.2.7\"8",
            "for=\"2001:db8::7:80\"",
            "for=\"192.0.2.7:_\"",
            "for=192.0.2.7;host=x y",
            "for=192.0.2.7 by=_x",
            "for=(192.0.2.7)",
            "for=10.0.0.3, for=\"10.0.0.2:80\"",
        ] {
            assert_eq!(standard(list), None, "{list}");
        }
        assert_eq!(client(&Forwarded::default()).ok(), Some(None));
        assert!(!Forwarded::default().is_there());
        let both = Forwarded {
            standard: Some("for=192.0.2.7".to_owned()),
            x_forwarded_for: Some("192.0.2.8".to_owned()),
            ..Forwarded::default()
        };
        assert!(client(&both).is_err());
    }

    /// A client can send any text in front of the proxy's element, in a line of its own, and in a
    /// parameter that the proxy quotes. `None`: the request is refused.
    fn client_behind_proxy(lines: &[&str]) -> Option<String> {
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        let head = format!("GET / HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
        let limits = crate::http::Limits {
            head_bytes_max: 4096,
            head_fields_max: 16,
            takes_old_sources: false,
        };
        let mut reader = crate::http::HeadReader::default();
        let (head, _) = reader.read(head.as_bytes(), &limits).ok()??;
        client(&head.fields.forwarded).ok().flatten()
    }

    #[test]
    fn no_text_of_a_client_names_another_client() {
        let own = "192.0.2.7:0".to_owned();
        let mut refused = 0;
        for text in super::super::grammar::texts(4) {
            let text = text.replace('a', "for=127.0.0.1");
            for (name, element) in [("Forwarded", "for="), ("X-Forwarded-For", "")] {
                let real = format!("{element}192.0.2.7");
                for lines in [
                    [format!("{name}: {text}, {real}"), "X: y".to_owned()],
                    [format!("{name}: {text}"), format!("{name}: {real}")],
                ] {
                    let found = client_behind_proxy(&[&lines[0], &lines[1]]);
                    refused += usize::from(found.is_none());
                    assert!(found.is_none_or(|found| found == own), "{lines:?}");
                }
            }
            let escaped = text.replace('\\', r"\\").replace('"', r#"\""#);
            let line = format!("Forwarded: for=192.0.2.7;host=\"{escaped}\"");
            assert_eq!(client_behind_proxy(&[&line]).as_ref(), Some(&own), "{line}");
        }
        assert!(refused > 0);
    }
}
