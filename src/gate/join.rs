//! Multicast groups that the server joins: `GROUP[@SOURCE][%INTERFACE]`, such as `239.1.2.3`,
//! `232.1.2.3@192.0.2.7` or `ff3e::1234@2001:db8::7%eth1`.

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;

/// A group to join. Prints as text that parses to the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// A multicast address.
    pub group: IpAddr,
    /// Only datagrams from this host count (source-specific multicast, RFC 4607). Has the IP
    /// version of the group. `None`: any host may send, and the first one with packets in sequence
    /// becomes the source.
    pub source: Option<IpAddr>,
    /// Interface to join on; `None`: the one that the routing table names.
    pub interface: Option<InterfaceName>,
}

/// A name that a network interface may have: 1 to 15 bytes without spaces, slashes and control
/// characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceName(Box<str>);

/// The kernel has 16 bytes (`IFNAMSIZ`), the final zero included.
const NAME_BYTES_MAX: usize = 15;

impl InterfaceName {
    /// Returns `None` if no interface can have this name.
    pub fn parse(text: &str) -> Option<InterfaceName> {
        let is_good = |byte: u8| byte.is_ascii_graphic() && !b"/%@".contains(&byte);
        let fits = (1..=NAME_BYTES_MAX).contains(&text.len());
        (fits && text.bytes().all(is_good)).then(|| InterfaceName(text.into()))
    }

    /// Returns the name as the system spells it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Join {
    /// Returns `None` if the text names no group, or a source that cannot send to it.
    pub fn parse(text: &str) -> Option<Join> {
        let (rest, interface) = match text.split_once('%') {
            Some((rest, name)) => (rest, Some(InterfaceName::parse(name)?)),
            None => (text, None),
        };
        let (group, source) = match rest.split_once('@') {
            Some((group, source)) => (group, Some(source)),
            None => (rest, None),
        };
        let address = |text: &str| Some(text.parse::<IpAddr>().ok()?.to_canonical());
        let group = address(group).filter(IpAddr::is_multicast)?;
        let sends = |source: &IpAddr| {
            let is_broadcast = match source {
                IpAddr::V4(source) => source.is_broadcast(),
                IpAddr::V6(_) => false,
            };
            let is_host = !source.is_multicast() && !source.is_unspecified() && !is_broadcast;
            is_host && source.is_ipv4() == group.is_ipv4()
        };
        let source = match source {
            Some(source) => Some(address(source).filter(sends)?),
            None => None,
        };
        Some(Join {
            group,
            source,
            interface,
        })
    }
}

impl Display for Join {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.group)?;
        if let Some(source) = self.source {
            write!(formatter, "@{source}")?;
        }
        match &self.interface {
            Some(interface) => write!(formatter, "%{}", interface.as_str()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed_text_prints_unchanged() {
        for good in [
            "239.1.2.3",
            "232.1.2.3@192.0.2.7",
            "224.0.1.1%eth0",
            "ff3e::1234@2001:db8::7%br-lan.7",
            "ff02::5%en0",
        ] {
            let read = Join::parse(good).map(|join| join.to_string());
            assert_eq!(read.as_deref(), Some(good));
        }
        let mapped = Join::parse("::ffff:239.1.2.3").map(|join| join.to_string());
        assert_eq!(mapped.as_deref(), Some("239.1.2.3"));
    }

    #[test]
    fn groups_that_cannot_be_joined_are_refused() {
        for bad in [
            "",
            "192.0.2.1",
            "239.1.2.3:5004",
            "[ff02::1]",
            "239.1.2.3@",
            "239.1.2.3%",
            "239.1.2.3@239.1.2.4",
            "239.1.2.3@0.0.0.0",
            "239.1.2.3@255.255.255.255",
            "239.1.2.3@2001:db8::1",
            "ff02::1@192.0.2.1",
            "239.1.2.3%eth0@192.0.2.1",
            "239.1.2.3%a-name-too-long-",
            "239.1.2.3%a b",
            "239.1.2.3%../x",
            "239.1.2.3@192.0.2.1@192.0.2.2",
        ] {
            assert_eq!(Join::parse(bad), None, "{bad}");
        }
    }
}
