//! Other relays, which the server calls: origins that are asked for streams, and peers that are
//! asked for lists. They answer well, badly, late or never.

use std::net::SocketAddr;

use super::chance::Chance;
use super::knowledge::{Knowledge, StreamNumber};
use super::script::Script;

/// Where they are. One of the origins has a name.
pub const ORIGIN: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 8, 0, 1)),
    8000,
);
pub const ORIGIN_NAME: &str = "origin.test:8000";
pub const PEER: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 8, 1, 1)),
    8000,
);

/// What the server asked, once its head is whole.
pub struct Question {
    /// The session whose stream it wants; none if it wants a list.
    pub session: Option<usize>,
    via: String,
}

/// What is said to it.
pub struct Answer {
    pub bytes: Vec<u8>,
    pub stream: Option<StreamNumber>,
    /// Its end is the connection's.
    pub ends_with_connection: bool,
    pub name: &'static str,
}

impl Question {
    /// Parses the received bytes. They must be valid for a relay.
    pub fn read(heard: &[u8], knowledge: &Knowledge) -> Option<Question> {
        let text = std::str::from_utf8(heard).expect("a request of the server's");
        let head = text.strip_suffix("\r\n\r\n")?;
        let mut lines = head.split("\r\n");
        let target = lines
            .next()
            .and_then(|line| line.strip_prefix("GET "))
            .and_then(|line| line.strip_suffix(" HTTP/1.1"))
            .expect("a request line");
        let mut field = |name: &str| {
            let of_name = |line: &str| line.strip_prefix(name).map(str::to_owned);
            lines.find_map(of_name)
        };
        assert!(field("Host: ").is_some(), "{text:?}");
        let via = field("Via: ").expect("a relay says what it is");
        let session = target.strip_prefix("/stream?sessionid=").map(|encoded| {
            let name = decoded(encoded);
            let mut names = knowledge.sessions.iter().map(|session| &session.name);
            names
                .position(|known| known.as_bytes() == name)
                .expect("a session that somebody named")
        });
        assert!(
            session.is_some() || target.starts_with("/api/list-"),
            "{target}"
        );
        Some(Question { session, via })
    }

    /// What a relay at this address says. One that is calm says at once that there is nothing.
    pub fn answer(
        &self,
        from: SocketAddr,
        is_calm: bool,
        knowledge: &mut Knowledge,
        chance: &mut Chance,
    ) -> Answer {
        let roll = if is_calm { 99 } else { chance.within(0..=99) };
        let plain = |name, bytes: &[u8]| Answer {
            bytes: bytes.to_vec(),
            stream: None,
            ends_with_connection: false,
            name,
        };
        let status = |name, line: &str| {
            let text = format!("HTTP/1.1 {line}\r\nContent-Length: 2\r\n\r\n{{}}");
            plain(name, text.as_bytes())
        };
        match (self.session, roll) {
            (_, 0..=4) => status("other: busy", "503 Service Unavailable"),
            (_, 5..=9) => status("other: forbids", "403 Forbidden"),
            (_, 10..=13) => status("other: ill", "500 Internal Server Error"),
            (_, 14..=17) => plain("other: garbage", b"SSH-2.0-server\r\n"),
            (_, 18..=20) => plain("other: malformed", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"),
            (_, 21..=24) => plain("other: silent", b""),
            (_, 25..=27) => Answer {
                ends_with_connection: true,
                ..plain("other: hangs up", b"HTTP/1.1 200 O")
            },
            (Some(_), 28..=32) => {
                let text = format!(
                    "HTTP/1.1 200 OK\r\nVia: {}\r\nContent-Length: 9\r\n\r\nxxxxxxxxx",
                    self.via
                );
                plain("other: loop", text.as_bytes())
            }
            (Some(session), 33..=85) => stream(session, from, knowledge, chance),
            (Some(_), _) => status("other: not found", "404 Not Found"),
            (None, 28..=32) => plain(
                "other: no list",
                b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"a\": 1} ",
            ),
            (None, _) => plain(
                "other: list",
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n[{\"a\": 1}\r\n4\r\n,{}]\r\n0\r\n\r\n",
            ),
        }
    }
}

fn stream(
    session: usize,
    from: SocketAddr,
    knowledge: &mut Knowledge,
    chance: &mut Chance,
) -> Answer {
    let first = *chance.pick(&["", "", "HTTP/1.1 103 Early Hints\r\n\r\n"]);
    let via = *chance.pick(&["", "Via: 1.1 another\r\n"]);
    let mut script = Script::default();
    let is_delimited = chance.percent(80);
    let framing = is_delimited.then_some(chance.percent(60));
    let stream = script.origin_stream(
        &format!("{first}HTTP/1.1 200 OK\r\n{via}"),
        (session, from),
        framing,
        knowledge,
        chance,
    );
    Answer {
        bytes: script.bytes,
        stream: Some(stream),
        ends_with_connection: !is_delimited,
        name: "other: stream",
    }
}

fn decoded(encoded: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), encoded.as_bytes());
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = std::str::from_utf8(&rest[..2]).expect("two digits");
        bytes.push(u8::from_str_radix(digits, 16).expect("two digits"));
        rest = &rest[2..];
    }
    bytes
}

/// A PROXY protocol header that says that a connection is this client's.
pub fn introduction(client: SocketAddr, chance: &mut Chance) -> Vec<u8> {
    let SocketAddr::V4(v4) = client else {
        panic!("{client} is of this world")
    };
    if chance.percent(50) {
        return format!(
            "PROXY TCP4 {} 10.9.0.1 {} 8000\r\n",
            client.ip(),
            client.port()
        )
        .into_bytes();
    }
    // Fields after the addresses are nobody's business.
    let extra = chance.within(0..=40);
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11".to_vec();
    header.extend((12 + extra as u16).to_be_bytes());
    header.extend(v4.ip().octets());
    header.extend([10, 9, 0, 1]);
    header.extend(v4.port().to_be_bytes());
    header.extend(8000_u16.to_be_bytes());
    header.extend(std::iter::repeat_n(4, extra));
    header
}
