//! Multicast groups to be listened to: `GROUP[@SOURCE][%INTERFACE]`, such as `239.1.2.3`,
//! `232.1.2.3@192.0.2.7` or `ff3e::1234@2001:db8::7%eth1`.

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;

/// A group, who may send to it, and where it is joined. Prints as it reads back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// Multicast.
    pub group: IpAddr,
    /// The one host whose datagrams count (source-specific multicast, RFC 4607); `None`: anyone's
    /// do, of whom the first in sequence becomes the source. Of the group's IP version.
    pub source: Option<IpAddr>,
    /// `None`: where the system's routes say.
    pub interface: Option<InterfaceName>,
}

/// A name that a network interface may have: 1 to 15 bytes, neither spaces, slashes nor control
/// characters among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceName(Box<str>);

/// With the zero that ends it, the kernel has 16 bytes (`IFNAMSIZ`).
const NAME_BYTES_MAX: usize = 15;

impl InterfaceName {
    /// `None` if nothing can be called so.
    pub fn parse(text: &str) -> Option<InterfaceName> {
        let is_good = |byte: u8| byte.is_ascii_graphic() && !b"/%@".contains(&byte);
        let fits = (1..=NAME_BYTES_MAX).contains(&text.len());
        (fits && text.bytes().all(is_good)).then(|| InterfaceName(text.into()))
    }

    /// As the system has it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Join {
    /// `None` if the text is no group, or its source is none that could send to it.
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
    fn what_reads_prints_as_it_was() {
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
    fn what_nobody_can_join_is_none() {
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
