//! The PROXY protocol of HAProxy, versions 1 (a line of text) and 2 (binary), as in its
//! `doc/proxy-protocol.txt`. A proxy sends this header in front of a connection's first byte, to
//! name the client.
//!
//! This file only parses. The caller decides which proxies it believes.

use std::net::{IpAddr, SocketAddr};

/// A complete header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// Address of the client. `None`: the proxy's own health check, or a client without an address.
    pub client: Option<SocketAddr>,
    /// Length of the header. The client's bytes follow it.
    pub bytes: usize,
}

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Longest line of version 1 with its CRLF.
const LINE_BYTES_MAX: usize = 107;
/// Fixed part of version 2: signature, version and command, family, length.
const FIXED_BYTES: usize = 16;
/// Longest rest of version 2: addresses, and fields that are ignored. Proxies send some dozens of
/// bytes.
const REST_BYTES_MAX: usize = 4096;

/// Parses a header at the front of `bytes`. Returns `None` if it is incomplete, which can only be
/// so below about 4 KiB.
///
/// The error is a sentence.
pub fn read(bytes: &[u8]) -> Result<Option<ProxyHeader>, &'static str> {
    let begins_like = |start: &[u8]| bytes.iter().zip(start).all(|(a, b)| a == b);
    if begins_like(b"PROXY ") {
        read_line(bytes)
    } else if begins_like(SIGNATURE) {
        read_binary(bytes)
    } else {
        Err(
            "this proxy's connections must begin with a PROXY protocol header, and this one does not",
        )
    }
}

fn read_line(bytes: &[u8]) -> Result<Option<ProxyHeader>, &'static str> {
    let mut looked_at = bytes.iter().take(LINE_BYTES_MAX);
    let Some(end) = looked_at.position(|&byte| byte == b'\n') else {
        return match bytes.len() < LINE_BYTES_MAX {
            true => Ok(None),
            false => Err("the line of the PROXY protocol is too long"),
        };
    };
    let line = bytes[..end].strip_suffix(b"\r");
    let line = line.and_then(|line| std::str::from_utf8(line).ok());
    let client = line.and_then(line_client);
    match client {
        Some(client) => Ok(Some(ProxyHeader {
            client,
            bytes: end + 1,
        })),
        None => Err(
            "the line of the PROXY protocol is malformed; it must be PROXY TCP4|TCP6 SOURCE DESTINATION PORT PORT, or PROXY UNKNOWN",
        ),
    }
}

/// Returns `None` if the line is malformed, and `Some(None)` if it names no address.
fn line_client(line: &str) -> Option<Option<SocketAddr>> {
    let mut words = line.split(' ').skip(1);
    let family = words.next()?;
    if family == "UNKNOWN" {
        return Some(None);
    }
    let address = |text: &str| text.parse::<IpAddr>().ok();
    let (source, destination) = (address(words.next()?)?, address(words.next()?)?);
    let (port, _) = (port(words.next()?)?, port(words.next()?)?);
    let is_of_family = match family {
        "TCP4" => source.is_ipv4() && destination.is_ipv4(),
        "TCP6" => source.is_ipv6() && destination.is_ipv6(),
        _ => false,
    };
    let is_whole = is_of_family && words.next().is_none();
    is_whole.then(|| Some(SocketAddr::new(source, port)))
}

fn port(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

fn read_binary(bytes: &[u8]) -> Result<Option<ProxyHeader>, &'static str> {
    let Some((fixed, rest)) = bytes.split_at_checked(FIXED_BYTES) else {
        return Ok(None);
    };
    let (version_and_command, family) = (fixed[12], fixed[13]);
    let rest_bytes = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    let is_proxied = match version_and_command {
        0x20 => false,
        0x21 => true,
        _ => {
            return Err("the PROXY protocol header is of no version or command that is known here");
        }
    };
    if rest_bytes > REST_BYTES_MAX {
        return Err("the PROXY protocol header is longer than 4096 bytes");
    }
    let Some(rest) = rest.get(..rest_bytes) else {
        return Ok(None);
    };
    let client = match (is_proxied, family) {
        // A health check of the proxy, or a family without addresses that a subnet could contain.
        (false, _) | (true, 0x00 | 0x31) => None,
        (true, 0x11) => Some(source::<4>(rest, 8).ok_or(SHORT)?),
        (true, 0x21) => Some(source::<16>(rest, 32).ok_or(SHORT)?),
        (true, _) => {
            return Err(
                "the PROXY protocol header is of another family than TCP over IPv4 or IPv6",
            );
        }
    };
    Ok(Some(ProxyHeader {
        client,
        bytes: FIXED_BYTES + rest_bytes,
    }))
}

const SHORT: &str = "the PROXY protocol header is too short for its addresses";

/// Returns the source of two addresses and two ports. The ports begin at `ports`.
fn source<const N: usize>(block: &[u8], ports: usize) -> Option<SocketAddr>
where
    IpAddr: From<[u8; N]>,
{
    let address: [u8; N] = *block.first_chunk()?;
    let (port, _) = block.get(ports..ports + 4)?.split_first_chunk()?;
    Some(SocketAddr::new(
        IpAddr::from(address),
        u16::from_be_bytes(*port),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = (rest.len() as u16).to_be_bytes();
        [SIGNATURE, &[command, family][..], &length, rest].concat()
    }

    /// Parses the header complete, with further bytes, and with every cut.
    fn outcome(header: &[u8]) -> Result<Option<SocketAddr>, &'static str> {
        for end in 0..header.len() {
            match read(&header[..end]) {
                Ok(None) => {}
                Ok(Some(_)) => panic!("whole after {end} bytes"),
                Err(error) => return Err(error),
            }
        }
        let followed = [header, b"GET / HTTP/1.1\r\n"].concat();
        let found = read(&followed)?.expect("it is whole");
        assert_eq!(found.bytes, header.len());
        Ok(found.client)
    }

    fn client(text: &str) -> Result<Option<SocketAddr>, &'static str> {
        Ok(Some(text.parse().expect("an address")))
    }

    #[test]
    fn headers_name_the_client() {
        let line = |text: &str| outcome(text.as_bytes());
        assert_eq!(
            line("PROXY TCP4 192.0.2.7 198.51.100.1 4711 8000\r\n"),
            client("192.0.2.7:4711")
        );
        assert_eq!(
            line("PROXY TCP6 2001:db8::7 2001:db8::1 1 65535\r\n"),
            client("[2001:db8::7]:1")
        );
        assert_eq!(line("PROXY UNKNOWN\r\n"), Ok(None));
        assert_eq!(line("PROXY UNKNOWN ffff:f::f ffff::f 1 2\r\n"), Ok(None));
        let v4 = [192, 0, 2, 7, 198, 51, 100, 1, 0x12, 0x67, 0x1f, 0x40];
        assert_eq!(outcome(&binary(0x21, 0x11, &v4)), client("192.0.2.7:4711"));
        let with_more = [&v4[..], &[0x04, 0, 1, 9]].concat();
        assert_eq!(
            outcome(&binary(0x21, 0x11, &with_more)),
            client("192.0.2.7:4711")
        );
        let mut v6 = [0; 36];
        v6[15] = 1;
        v6[33] = 80;
        assert_eq!(outcome(&binary(0x21, 0x21, &v6)), client("[::1]:80"));
        assert_eq!(outcome(&binary(0x20, 0x00, &[])), Ok(None));
        assert_eq!(outcome(&binary(0x20, 0x11, &v4)), Ok(None));
        assert_eq!(outcome(&binary(0x21, 0x31, &[0; 216])), Ok(None));
    }

    #[test]
    fn anything_else_is_wrong_as_soon_as_it_shows() {
        for wrong in [
            &b"G"[..],
            b"PROXX",
            b"\r\n\r\nG",
            b"PROXY TCP4 192.0.2.7 198.51.100.1 4711\r\n",
            b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 8000 9\r\n",
            b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 +80\r\n",
            b"PROXY TCP4 192.0.2.7 198.51.100.1 70000 80\r\n",
            b"PROXY TCP4 ::1 ::1 4711 8000\r\n",
            b"PROXY TCP6 192.0.2.7 198.51.100.1 1 2\r\n",
            b"PROXY UDP4 192.0.2.7 198.51.100.1 1 2\r\n",
            b"PROXY TCP4  192.0.2.7 198.51.100.1 1 2\r\n",
            b"PROXY UNKNOWN\n",
            b"PROXY \xff\r\n",
        ] {
            let shown = String::from_utf8_lossy(wrong);
            assert!(outcome(wrong).is_err(), "{shown:?}");
            assert!(read(wrong).is_err(), "{shown:?} shows it");
        }
        let endless = [b"PROXY UNKNOWN ", &[b'x'; 200][..]].concat();
        assert!(outcome(&endless).is_err());
        assert!(outcome(&binary(0x11, 0x11, &[0; 12])).is_err());
        assert!(outcome(&binary(0x22, 0x11, &[0; 12])).is_err());
        assert!(outcome(&binary(0x21, 0x12, &[0; 12])).is_err());
        assert_eq!(outcome(&binary(0x21, 0x11, &[0; 11])), Err(SHORT));
        assert_eq!(outcome(&binary(0x21, 0x21, &[0; 35])), Err(SHORT));
        assert!(outcome(&binary(0x21, 0x11, &[0; 5000])).is_err());
    }

    /// Headers at the limits are valid, and longer ones are not.
    #[test]
    fn headers_have_their_bounds() {
        let line = |bytes: usize| {
            let begin = "PROXY UNKNOWN ";
            format!("{begin}{}\r\n", "x".repeat(bytes - begin.len() - 2))
        };
        assert_eq!(outcome(line(107).as_bytes()), Ok(None));
        assert!(read(line(108).as_bytes()).is_err());
        assert_eq!(read(&line(200).as_bytes()[..106]), Ok(None));
        assert!(read(&line(200).as_bytes()[..107]).is_err());
        assert_eq!(outcome(&binary(0x20, 0x00, &[0; 4096])), Ok(None));
        assert!(read(&binary(0x20, 0x00, &[0; 4097])).is_err());
        assert!(read(&binary(0x20, 0x00, &[0; 4097])[..16]).is_err());
    }
}
