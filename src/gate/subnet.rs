//! Subnets: `10.0.0.0/8`, `10.0.0.0/255.0.0.0`, `fd00::/8`, or one address.
//!
//! IPv4-mapped IPv6 addresses count as IPv4. So `::/0` contains all of IPv6, and no IPv4 host.

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;

use super::quoted::Quoted;

/// Bits of an IPv4-mapped IPv6 address in front of the IPv4 address (RFC 4291 section 2.5.5.2).
const MAPPED_BITS: u8 = 96;

/// A subnet. No bits are set after its prefix, and it is never IPv4-mapped. Prints as
/// `ADDR/LENGTH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet(IpNet);

impl Subnet {
    /// Returns whether the subnet contains the address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

/// Returns the network that a host of this address controls, or the address itself.
pub fn network_of(address: IpAddr) -> IpAddr {
    shared_network(address).unwrap_or(address.to_canonical())
}

/// Returns the IPv6 network that a host of this address controls. An IPv6 site has at least 64 bits
/// (RFC 6177), and its hosts change addresses daily (RFC 8981). `None` for addresses that count for
/// themselves: of IPv4, of one link, and of IPv4 behind a translator (RFC 6052 section 2.1, RFC 8215).
pub fn shared_network(address: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(address) = address.to_canonical() else {
        return None;
    };
    let is_translated = matches!(address.segments(), [0x64, 0xff9b, 0 | 1, ..]);
    if address.is_unicast_link_local() || address.is_loopback() || is_translated {
        return None;
    }
    let network = address.to_bits() >> 64 << 64;
    Some(IpAddr::V6(Ipv6Addr::from_bits(network)))
}

impl Display for Subnet {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, formatter)
    }
}

impl FromStr for Subnet {
    /// Names the text, and what would be right.
    type Err = String;

    fn from_str(text: &str) -> Result<Subnet, String> {
        parse(text).map_err(|fault| format!("{} {fault}", Quoted(text.as_bytes())))
    }
}

fn parse(text: &str) -> Result<Subnet, String> {
    let (address, mask) = match text.split_once('/') {
        Some((address, mask)) => (address, Some(mask)),
        None => (text, None),
    };
    if address.starts_with('[') {
        return Err("has brackets; give the address without them".to_owned());
    }
    let written: IpAddr = address.parse().map_err(|_| {
        "is not a subnet; give ADDR/MASK, such as 10.0.0.0/8, 10.0.0.0/255.0.0.0 or fd00::/8, or \
         one bare ADDR"
    })?;
    let address = written.to_canonical();
    let mapped_bits = if address == written { 0 } else { MAPPED_BITS };
    let length = match mask {
        None if address.is_ipv4() => 32,
        None => 128,
        Some(mask) => mask_length(mask, written)?
            .checked_sub(mapped_bits)
            .ok_or_else(|| {
                format!(
                    "is IPv4-mapped, with a prefix length below 96; give one from 96 to 128, or \
                     write {address} with one from 0 to 32"
                )
            })?,
    };
    let subnet = IpNet::new(address, length).map_err(|_| bad_length(written))?;
    let meant = subnet.trunc();
    match meant == subnet {
        true => Ok(Subnet(subnet)),
        false => Err(format!(
            "has bits set beyond its mask; {meant} was probably meant, or {address} for that one \
             host"
        )),
    }
}

fn bad_length(address: IpAddr) -> String {
    let (length_max, or) = match address {
        IpAddr::V4(_) => (32, " or a dotted mask such as 255.0.0.0"),
        IpAddr::V6(_) => (128, ""),
    };
    format!("has a bad mask; give a prefix length from 0 to {length_max}{or}")
}

/// Parses a prefix length or, for an IPv4 address, a dotted mask.
fn mask_length(mask: &str, address: IpAddr) -> Result<u8, String> {
    match (mask.parse::<Ipv4Addr>(), address) {
        (Ok(mask), IpAddr::V4(_)) => dotted_mask_length(mask),
        (Ok(_), IpAddr::V6(_)) => {
            Err("has a dotted mask behind an IPv6 address; give a prefix length".to_owned())
        }
        // The caller checks the length against the address, since an IPv4-mapped address has fewer
        // bits left.
        (Err(_), _) => prefix_length(mask).ok_or_else(|| bad_length(address)),
    }
}

/// Parses a number of digits, without sign or leading zeros.
fn prefix_length(text: &str) -> Option<u8> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let padded = text.len() > 1 && text.starts_with('0');
    match digits && !padded {
        true => text.parse().ok(),
        false => None,
    }
}

fn dotted_mask_length(mask: Ipv4Addr) -> Result<u8, String> {
    let bits = mask.to_bits();
    if is_mask(bits) {
        return Ok(bits.count_ones() as u8);
    }
    // Routers often use masks with inverted bits.
    let right = match is_mask(!bits) {
        true => format!("{} was probably meant", Ipv4Addr::from_bits(!bits)),
        false => "give ones and then zeros, such as 255.255.0.0".to_owned(),
    };
    Err(format!("has a mask with a gap, {mask}; {right}"))
}

/// Returns whether all ones come in front of all zeros.
fn is_mask(bits: u32) -> bool {
    bits.leading_ones() == bits.count_ones()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_of_ipv4_counts_for_itself_however_it_comes() {
        for (address, network) in [
            ("192.0.2.1", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("64:ff9b::192.0.2.1", "64:ff9b::192.0.2.1"),
            ("64:ff9b:1:2::192.0.2.1", "64:ff9b:1:2::192.0.2.1"),
            ("64:ff9b:2::1", "64:ff9b:2::"),
            ("2001:db8::1", "2001:db8::"),
            ("fe80::1", "fe80::1"),
            ("::1", "::1"),
        ] {
            let parse = |text: &str| text.parse::<IpAddr>().expect("an address");
            assert_eq!(network_of(parse(address)), parse(network), "{address}");
        }
    }

    fn subnet(text: &str) -> Subnet {
        text.parse().expect("a good subnet")
    }

    fn said(text: &str) -> String {
        text.parse::<Subnet>().expect_err(text).to_string()
    }

    #[test]
    fn all_spellings_of_a_subnet_are_equal() {
        let cases = [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.0.0.0/255.0.0.0", "10.0.0.0/8"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("0.0.0.0/0.0.0.0", "0.0.0.0/0"),
            ("::ffff:0.0.0.0/96", "0.0.0.0/0"),
            ("192.0.2.7", "192.0.2.7/32"),
            ("192.0.2.7/255.255.255.255", "192.0.2.7/32"),
            ("::ffff:192.0.2.7", "192.0.2.7/32"),
            ("::ffff:c000:207/128", "192.0.2.7/32"),
            ("fd00::/8", "fd00::/8"),
            ("::1", "::1/128"),
            ("::/0", "::/0"),
        ];
        for (text, printed) in cases {
            assert_eq!(subnet(text).to_string(), printed, "{text}");
            assert_eq!(subnet(printed), subnet(text), "{text}");
        }
    }

    #[test]
    fn mapped_addresses_count_as_ipv4() {
        let contains =
            |text: &str, address: &str| subnet(text).contains(address.parse().expect("an address"));
        assert!(contains("10.0.0.0/8", "10.255.255.255"));
        assert!(contains("10.0.0.0/8", "::ffff:10.1.2.3"));
        assert!(contains("::ffff:10.0.0.0/104", "10.1.2.3"));
        assert!(contains("0.0.0.0/0", "::ffff:1.2.3.4"));
        assert!(contains("fd00::/8", "fdff::1"));
        assert!(contains("::1", "::1"));
        assert!(!contains("10.0.0.0/8", "11.0.0.0"));
        assert!(!contains("10.0.0.0/8", "::ffff:11.0.0.0"));
        assert!(!contains("::/0", "1.2.3.4"));
        assert!(!contains("::/0", "::ffff:1.2.3.4"));
        assert!(!contains("0.0.0.0/0", "::1"));
        assert!(!contains("127.0.0.1", "127.0.0.2"));
    }

    #[test]
    fn an_error_about_bits_beyond_the_mask_names_the_likely_subnet() {
        assert_eq!(
            said("10.1.2.3/8"),
            "'10.1.2.3/8' has bits set beyond its mask; 10.0.0.0/8 was probably meant, or 10.1.2.3 \
             for that one host"
        );
        assert!(said("10.1.2.3/255.255.0.0").contains("10.1.0.0/16 was probably meant"));
        assert!(said("::ffff:10.1.2.3/104").contains("10.0.0.0/8 was probably meant"));
        assert!(said("fd00::1/64").contains("fd00::/64 was probably meant"));
        assert!(said("1.2.3.4/0").contains("0.0.0.0/0 was probably meant"));
    }

    #[test]
    fn masks_have_no_gaps() {
        assert!(said("10.0.0.0/255.0.255.0").contains("with a gap, 255.0.255.0; give ones and"));
        assert!(said("10.0.0.0/0.255.255.255").contains("255.0.0.0 was probably meant"));
        assert!(said("fd00::/255.0.0.0").contains("dotted mask behind an IPv6 address"));
        assert!(said("::ffff:10.0.0.0/255.0.0.0").contains("dotted mask behind an IPv6 address"));
    }

    #[test]
    fn every_other_fault_is_told() {
        for text in [
            "",
            "/8",
            "host/8",
            "10.0.0/8",
            "010.0.0.0/8",
            "fe80::1%eth0",
            "1.2.3.4:80",
        ] {
            assert!(
                said(text).contains("is not a subnet; give ADDR/MASK"),
                "{text}"
            );
        }
        let bad = [
            "/33",
            "/",
            "/-1",
            "/+8",
            "/08",
            "/8/8",
            "/8 ",
            "/256",
            "/99999999999",
            "/1.2.3",
        ];
        for mask in bad {
            let said = said(&format!("10.0.0.0{mask}"));
            assert!(said.contains("from 0 to 32 or a dotted mask"), "{said}");
        }
        assert!(said("::/129").ends_with("give a prefix length from 0 to 128"));
        assert!(said("::ffff:10.0.0.0/8").contains("write 10.0.0.0 with one from 0 to 32"));
        assert!(said("[::1]").ends_with("has brackets; give the address without them"));
        assert!(said("a\nb").starts_with("'a\\u{a}b' is not"));
    }
}
