//! Runs each reader of bytes from outside on all inputs of up to 6 bytes of its significant letters,
//! split in all ways. It ends, does not panic, and takes no more bytes than there are. The result
//! does not depend on the splits. Some runs begin with a prefix, so that the 6 bytes meet the reader
//! in the middle of its input.

use std::fmt::Debug;

use tollgate::events::EventId;
use tollgate::format::{Finding, Scanner};
use tollgate::gate::{SessionId, udp_clients};
#[cfg(feature = "icecast")]
use tollgate::http::credentials::basic_password;
use tollgate::http::{Body, Framing, Part};
use tollgate::proxy_header;
use tollgate::time::UnixTime;

const BYTES_MAX: usize = 6;

/// Calls with every input over these letters.
fn each(letters: &[u8], mut check: impl FnMut(&[u8])) {
    fn go(letters: &[u8], input: &mut Vec<u8>, check: &mut impl FnMut(&[u8])) {
        check(input);
        if input.len() < BYTES_MAX {
            for letter in letters {
                input.push(*letter);
                go(letters, input, check);
                input.pop();
            }
        }
    }
    go(letters, &mut Vec::new(), &mut check);
}

/// Feeds a machine every input, and checks that splits make no difference.
///
/// Each input has one split. Its first part was tried with all splits when it was the whole input.
/// So it is enough that a machine that gets the two parts equals one that gets the whole input.
fn in_all_cuts<M: Clone + PartialEq + Debug>(
    begun: &M,
    letters: &[u8],
    feed: impl Fn(&mut M, &[u8]),
) {
    each(letters, |input| {
        let fed = |machine: &M, bytes: &[u8]| {
            let mut machine = machine.clone();
            feed(&mut machine, bytes);
            machine
        };
        let whole = fed(begun, input);
        for place in 1..input.len() {
            let (first, rest) = input.split_at(place);
            let cut = fed(&fed(begun, first), rest);
            assert_eq!(cut, whole, "{input:x?} cut at {place}");
        }
    });
}

/// A body, and the results so far.
#[derive(Clone, Debug, PartialEq)]
struct Reading {
    body: Body,
    content: Vec<u8>,
    is_refused: bool,
    /// Bytes after its end.
    behind: usize,
}

impl Reading {
    fn of(framing: Framing, beginning: &[u8]) -> Reading {
        let mut reading = Reading {
            body: Body::new(framing),
            content: Vec::new(),
            is_refused: false,
            behind: 0,
        };
        reading.feed(beginning);
        reading
    }

    fn feed(&mut self, mut bytes: &[u8]) {
        while !self.is_refused {
            match self.body.read(&mut bytes) {
                Ok(Part::Content(content)) => {
                    assert!(!content.is_empty());
                    self.content.extend_from_slice(content);
                }
                Ok(Part::More) => return assert!(bytes.is_empty(), "it takes all that it can"),
                Ok(Part::End) => {
                    assert!(self.body.is_complete());
                    self.behind += bytes.len();
                    return;
                }
                Err(_) => self.is_refused = true,
            }
        }
    }
}

#[test]
fn bodies_are_the_same_in_all_cuts() {
    let chunked = |beginning: &str| Reading::of(Framing::Chunked, beginning.as_bytes());
    for (begun, letters) in [
        (chunked(""), &b"0f\r\n; x"[..]),
        (chunked("2"), b"0\r\n;\t\0"),
        (chunked("2\r\n"), b"\r\n0a"),
        (chunked("2\r\nab"), b"\r\n0a"),
        (chunked("0\r\n"), b"\r\na: \0"),
        (chunked("fffffffffffffff"), b"f0\r\n"),
        (Reading::of(Framing::Length(3), b""), b"\r\n0"),
        (Reading::of(Framing::Length(0), b""), b"\r\n0"),
        (Reading::of(Framing::None, b""), b"\r\n0"),
        (Reading::of(Framing::UntilClose, b""), b"\r\n0"),
    ] {
        in_all_cuts(&begun, letters, Reading::feed);
    }
}

/// The first line of a chunk against its grammar (RFC 9112 section 7.1), written down once more.
#[test]
fn chunk_lines_are_those_of_the_grammar() {
    each(b"1a\r\n; x", |line| {
        let mut reading = Reading::of(Framing::Chunked, b"");
        reading.feed(line);
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit());
        let rest = &line[digits.count()..];
        let blanks = rest.iter().take_while(|byte| **byte == b' ').count();
        let is_begun = rest.len() < line.len();
        let is_line = match (is_begun, &rest[blanks..]) {
            (false, _) => line.is_empty(),
            (true, []) => true,
            (true, [b';', extension @ ..]) => is_rest_of_line(extension),
            (true, other) => blanks == 0 && is_rest_of_line(other) && !is_word(other),
        };
        // What stands after the line is content, and after it more framing.
        let end = line.windows(2).position(|pair| pair == b"\r\n");
        if end.is_none_or(|end| end + 2 == line.len()) {
            assert_eq!(!reading.is_refused, is_line, "{line:x?}");
        }
    });
}

/// Of an extension, or none: up to CRLF, if that has come.
fn is_rest_of_line(bytes: &[u8]) -> bool {
    let bytes = match bytes {
        [front @ .., b'\r', b'\n'] | [front @ .., b'\r'] => front,
        front => front,
    };
    !bytes.contains(&b'\r') && !bytes.contains(&b'\n')
}

fn is_word(bytes: &[u8]) -> bool {
    !matches!(bytes, [] | [b'\r', ..])
}

/// What a scanner finds of these pieces.
fn found(pieces: [&[u8]; 2]) -> Vec<(Finding, Vec<u8>)> {
    let (mut scanner, mut found) = (Scanner::default(), Vec::new());
    for piece in pieces {
        scanner.feed(piece, &mut |finding, header| {
            found.push((finding, header.to_vec()));
        });
    }
    found
}

/// Behind a beginning, in two pieces, wherever they are cut.
fn find_in_all_cuts(beginning: &[u8], letters: &[u8], end: &[u8]) {
    each(letters, |input| {
        let bytes = [beginning, input, end].concat();
        let whole = found([&bytes, &[]]);
        for place in beginning.len()..beginning.len() + input.len() {
            let (first, rest) = bytes.split_at(place);
            assert_eq!(found([first, rest]), whole, "{input:x?} cut at {place}");
        }
    });
}

#[test]
fn lengths_of_matroskas_elements_are_the_same_in_all_cuts() {
    let magic = b"\x1a\x45\xdf\xa3";
    let header = [&magic[..], b"\x87\x42\x82\x84webm"].concat();
    let segment = [
        &header[..],
        b"\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff",
    ]
    .concat();
    for beginning in [&magic[..], &header, &segment] {
        find_in_all_cuts(beginning, b"\x00\x01\x42\x81\xff", &[0; 4]);
    }
}

#[test]
fn heads_of_mpeg_ts_packets_are_the_same_in_all_cuts() {
    let packet = |head: &[u8]| {
        let mut packet = head.to_vec();
        packet.resize(188, 0xff);
        packet
    };
    let null = packet(b"\x47\x1f\xff\x10");
    let beginning = [&null[..], &null].concat();
    let end = [&null[6..], &null[..]].concat();
    find_in_all_cuts(&beginning, b"\x47\x00\x30", &end);
}

#[test]
fn proxy_headers_once_known_stay_what_they_are() {
    let signature = b"\r\n\r\n\0\r\nQUIT\n";
    let local = [&signature[..], b"\x20"].concat();
    let ipv4 = [&signature[..], b"\x21\x11\0\x0c\x7f\0\0\x01\x7f\0\0"].concat();
    for (beginning, letters) in [
        (&b""[..], &b"PR\r\n\0 "[..]),
        (b"PROXY ", b"TCP4 \r\n"),
        (b"PROXY UNKNOWN", b"N \r\n"),
        (b"PROXY TCP4 1.2.3.4 1.2.3.4 ", b"09 \r\n"),
        (b"PROXY TCP6 ", b":1a \r\n"),
        (&signature[..], b"\x20\x21\x11\x00\x0c\xff"),
        (&local, b"\x00\x11\x01\x10\xff"),
        (&ipv4, b"\x00\x01\xff"),
    ] {
        each(letters, |input| {
            let bytes = [beginning, input].concat();
            let whole = proxy_header::read(&bytes);
            if let Ok(Some(header)) = whole {
                assert!(header.bytes <= bytes.len());
            }
            // What was said of less holds.
            match proxy_header::read(&bytes[..bytes.len().saturating_sub(1)]) {
                Ok(None) => {}
                known => assert_eq!(known, whole, "{input:x?}"),
            }
        });
    }
}

#[test]
fn tuples_are_read_or_refused() {
    for (beginning, letters) in [
        ("", &b"1.:[]%a,"[..]),
        ("a.b", b":,1-.%0"),
        ("127.0.0.1", b":,1.%0"),
        ("[::1", b"]:,1%0"),
        ("h:6553", b"0123456,"),
    ] {
        each(letters, |input| {
            let text = format!("{beginning}{}", String::from_utf8_lossy(input));
            let Ok(clients) = udp_clients::parse(&text, 4) else {
                return;
            };
            assert!((1..=4).contains(&clients.len()), "{text}");
            for client in clients {
                // As it is written it is read again.
                let written = match client.host.as_str() {
                    host if host.contains(':') => format!("[{host}]:{}", client.port),
                    host => format!("{host}:{}", client.port),
                };
                let again = udp_clients::parse(&written, 1).expect("it is one");
                assert_eq!(again, [client], "{text}");
            }
        });
    }
}

/// Calls with every text over these letters after a beginning.
fn each_behind(beginning: &str, letters: &[u8], check: impl Fn(&str)) {
    each(letters, |input| {
        check(&format!("{beginning}{}", String::from_utf8_lossy(input)));
    });
}

#[test]
#[cfg(feature = "icecast")]
fn short_credentials_are_read_or_refused() {
    for beginning in ["Basic ", "Basic OnNlY3"] {
        each_behind(beginning, b"Q/+= a", |text| {
            if let Some(password) = basic_password(text) {
                assert!(password.len() <= text.len() * 3 / 4, "{text}");
            }
        });
    }
}

/// Times, numbers of events and sessionids, after a beginning that is one of them.
#[test]
fn short_texts_are_read_or_refused() {
    for beginning in ["", "2026-02-28T23:5", "2026-02-28T23:59:59"] {
        each_behind(beginning, b"09-:.+Z", |text| {
            if let Some(stamp) = UnixTime::parse(text) {
                assert!(stamp.unix_seconds > 0, "{text}");
            }
        });
    }
    for beginning in ["", "18446744073709551"] {
        each_behind(beginning, b"0169-", |text| {
            if let Some(id) = EventId::of_text(text) {
                assert_eq!(id.to_string(), text);
            }
        });
    }
    each(b"a\0%\xc3\xbc\xff", |bytes| {
        let is_text = std::str::from_utf8(bytes).is_ok() && !bytes.is_empty();
        assert!(SessionId::parse(bytes).is_err() || is_text, "{bytes:x?}");
    });
}
