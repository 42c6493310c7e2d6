//! The table of request-smuggling and framing vectors.

use Outcome::{Accepted, Last, Refused};

/// What must become of a vector.
#[derive(Clone, Copy, Debug)]
pub enum Outcome {
    /// An error with this status; the connection is closed, and nothing behind the vector is read.
    Refused(u16),
    /// The request gets this status, and the next bytes are the next request.
    Accepted(u16),
    /// Answered with this status, and the last that is: the connection is closed because the client
    /// or its request wanted it so.
    Last(u16),
}

/// Bytes that somebody might send.
pub struct Vector {
    pub name: &'static str,
    text: &'static [u8],
    /// In `text`, `~` stands for this many `x`.
    filler: usize,
    pub outcome: Outcome,
}

impl Vector {
    pub fn bytes(&self) -> Vec<u8> {
        match self.filler {
            0 => self.text.to_vec(),
            filler => self
                .text
                .iter()
                .flat_map(|&byte| {
                    if byte == b'~' {
                        vec![b'x'; filler]
                    } else {
                        vec![byte]
                    }
                })
                .collect(),
        }
    }

    /// The method, as far as it matters for reading the response.
    pub fn method(&self) -> &'static str {
        if self.text.starts_with(b"HEAD ") {
            "HEAD"
        } else {
            "GET"
        }
    }
}

const fn vector(name: &'static str, text: &'static [u8], outcome: Outcome) -> Vector {
    Vector {
        name,
        text,
        filler: 0,
        outcome,
    }
}

const fn filled(
    name: &'static str,
    text: &'static [u8],
    filler: usize,
    outcome: Outcome,
) -> Vector {
    Vector {
        name,
        text,
        filler,
        outcome,
    }
}

/// A request to stream with these fields after `Host`, and this body.
macro_rules! put {
    ($fields:literal, $body:literal) => {
        concat!(
            "PUT /stream/v HTTP/1.1\r\nHost: h\r\n",
            $fields,
            "\r\n",
            $body
        )
        .as_bytes()
    };
}

/// A request to stream in chunks, with this body.
macro_rules! chunks {
    ($body:literal) => {
        put!("Transfer-Encoding: chunked\r\n", $body)
    };
}

/// A request for nothing, with these fields instead of `Host`.
macro_rules! get {
    ($fields:literal) => {
        concat!("GET /nowhere HTTP/1.1\r\n", $fields, "\r\n").as_bytes()
    };
}

// A table: one vector a line.
#[rustfmt::skip]
pub const VECTORS: &[Vector] = &[
    // Both framings, or one of them in a doubtful way.
    vector("length and chunked", put!("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), Refused(400)),
    vector("chunked and length", put!("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"), Refused(400)),
    vector("length 0 and chunked", put!("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), Refused(400)),
    vector("length and an unknown coding", put!("Content-Length: 5\r\nTransfer-Encoding: gzip\r\n", "hello"), Refused(400)),
    vector("both on a request without use for a body", get!("Host: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n"), Refused(400)),
    vector("two lengths that differ", put!("Content-Length: 5\r\nContent-Length: 6\r\n", "hello"), Refused(400)),
    vector("two lengths in different cases", put!("Content-Length: 5\r\ncontent-length: 6\r\n", "hello"), Refused(400)),
    vector("the same length twice", put!("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), Refused(400)),
    vector("a list of one length", put!("Content-Length: 5, 5\r\n", "hello"), Refused(400)),
    vector("a list of lengths", put!("Content-Length: 5,6\r\n", "hello"), Refused(400)),
    vector("a length with a plus", put!("Content-Length: +5\r\n", "hello"), Refused(400)),
    vector("a length with a minus", put!("Content-Length: -5\r\n", "hello"), Refused(400)),
    vector("a length with a space inside", put!("Content-Length: 5 5\r\n", "hello"), Refused(400)),
    vector("a length in hexadecimal", put!("Content-Length: 0x5\r\n", "hello"), Refused(400)),
    vector("a length with a hexadecimal digit", put!("Content-Length: a\r\n", "hellohello"), Refused(400)),
    vector("a length with a fraction", put!("Content-Length: 5.0\r\n", "hello"), Refused(400)),
    vector("a length with an exponent", put!("Content-Length: 5e0\r\n", "hello"), Refused(400)),
    vector("a length in quotes", put!("Content-Length: \"5\"\r\n", "hello"), Refused(400)),
    vector("a length with a parameter", put!("Content-Length: 5;a=b\r\n", "hello"), Refused(400)),
    vector("an empty length", put!("Content-Length:\r\n", "hello"), Refused(400)),
    vector("a length of 2^64", put!("Content-Length: 18446744073709551616\r\n", "hello"), Refused(400)),
    vector("a length of 2^64 + 5", put!("Content-Length: 18446744073709551621\r\n", "hello"), Refused(400)),
    vector("a length in other digits", put!("Content-Length: \u{ff15}\r\n", "hello"), Refused(400)),
    vector("a space before a length's colon", put!("Content-Length : 5\r\n", "hello"), Refused(400)),
    vector("a tab before a length's colon", put!("Content-Length\t: 5\r\n", "hello"), Refused(400)),
    vector("a space before a length", put!(" Content-Length: 5\r\n", "hello"), Refused(400)),
    vector("a length", put!("Content-Length: 5\r\n", "hello"), Accepted(200)),
    vector("a length of nothing", put!("Content-Length: 0\r\n", ""), Accepted(200)),
    vector("a length with zeros in front", put!("Content-Length: 005\r\n", "hello"), Accepted(200)),
    vector("a length with blanks around", put!("Content-Length: \t 5 \t\r\n", "hello"), Accepted(200)),
    // Codings.
    vector("an unknown coding", put!("Transfer-Encoding: gzip\r\n", "0\r\n\r\n"), Refused(501)),
    vector("an unknown coding before chunked", put!("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), Refused(501)),
    vector("an unknown coding behind chunked", put!("Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n"), Refused(400)),
    vector("an unknown coding on a line of its own", put!("Transfer-Encoding: cow\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), Refused(501)),
    vector("identity", put!("Transfer-Encoding: identity\r\n", "hello"), Refused(501)),
    vector("almost chunked", put!("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), Refused(501)),
    vector("chunked in two words", put!("Transfer-Encoding: chunk ed\r\n", "0\r\n\r\n"), Refused(501)),
    vector("chunked in quotes", put!("Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n"), Refused(501)),
    vector("chunked with a parameter", put!("Transfer-Encoding: chunked;q=1\r\n", "0\r\n\r\n"), Refused(501)),
    vector("chunked twice", put!("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"), Refused(400)),
    vector("chunked on two lines", put!("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), Refused(400)),
    vector("an empty coding", put!("Transfer-Encoding:\r\n", "0\r\n\r\n"), Refused(400)),
    vector("an empty coding before chunked", put!("Transfer-Encoding: ,chunked\r\n", "0\r\n\r\n"), Refused(400)),
    vector("an empty coding behind chunked", put!("Transfer-Encoding: chunked,\r\n", "0\r\n\r\n"), Refused(400)),
    vector("a vertical tab before chunked", put!("Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n"), Refused(400)),
    vector("a NUL behind chunked", put!("Transfer-Encoding: chunked\0\r\n", "0\r\n\r\n"), Refused(400)),
    vector("a space before a coding's colon", put!("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"), Refused(400)),
    vector("a space in a coding's name", put!("Transfer Encoding: chunked\r\n", "0\r\n\r\n"), Refused(400)),
    vector("a NUL in a coding's name", put!("Transfer-Encoding\0: chunked\r\n", "0\r\n\r\n"), Refused(400)),
    vector("chunked in HTTP/1.0", b"PUT /stream/v HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Refused(400)),
    vector("chunked", chunks!("5\r\nhello\r\n0\r\n\r\n"), Accepted(200)),
    vector("chunked in capitals, with blanks around", put!("Transfer-Encoding: \tCHUNKED \r\n", "5\r\nhello\r\n0\r\n\r\n"), Accepted(200)),
    // Line ends, folding and control characters.
    vector("a bare LF behind a field", put!("X: y\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), Refused(400)),
    vector("a bare LF behind the request line", b"GET /nowhere HTTP/1.1\nHost: h\r\n\r\n", Refused(400)),
    vector("a bare LF for the empty line", b"GET /nowhere HTTP/1.1\r\nHost: h\r\n\n", Refused(400)),
    vector("bare LFs only", b"GET /nowhere HTTP/1.1\nHost: h\n\n", Refused(400)),
    vector("a bare CR in a field", put!("X: y\rTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), Refused(400)),
    vector("a CR too many", get!("Host: h\r\nX: y\r\r\n"), Refused(400)),
    vector("a CR for the empty line", b"GET /nowhere HTTP/1.1\r\nHost: h\r\n\rGET", Refused(400)),
    vector("a bare CR in the request line", b"GET /nowhere\rX HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    vector("a folded field", get!("Host: h\r\nX: y\r\n z\r\n"), Refused(400)),
    vector("a field folded with a tab", get!("Host: h\r\nX: y\r\n\tz\r\n"), Refused(400)),
    vector("a folded length", put!("Content-Length:\r\n 5\r\n", "hello"), Refused(400)),
    vector("a folded coding", put!("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"), Refused(400)),
    vector("a folded Host", get!("Host:\r\n h\r\n"), Refused(400)),
    vector("a fold before the first field", get!(" X: y\r\nHost: h\r\n"), Refused(400)),
    vector("a NUL in a value", get!("Host: h\r\nX: a\0b\r\n"), Refused(400)),
    vector("a DEL in a value", get!("Host: h\r\nX: a\x7fb\r\n"), Refused(400)),
    vector("an escape in a value", get!("Host: h\r\nX: a\x1bb\r\n"), Refused(400)),
    vector("a tab in a value", get!("Host: h\r\nX: a\tb\r\n"), Accepted(404)),
    vector("other than ASCII in a value", b"GET /nowhere HTTP/1.1\r\nHost: h\r\nX: \xe9\xff\r\n\r\n", Accepted(404)),
    vector("an empty field name", get!("Host: h\r\n: y\r\n"), Refused(400)),
    vector("a field without a colon", get!("Host: h\r\nX\r\n"), Refused(400)),
    vector("a field name with a parenthesis", get!("Host: h\r\nX(y): z\r\n"), Refused(400)),
    vector("other than ASCII in a field name", b"GET /nowhere HTTP/1.1\r\nHost: h\r\nX\xe9: y\r\n\r\n", Refused(400)),
    // Request lines.
    vector("two spaces before the target", b"GET  /nowhere HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    vector("two spaces before the version", b"GET /nowhere  HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    vector("a space in the target", b"GET /no where HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    vector("a tab before the target", b"GET\t/nowhere HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    vector("a space before the method", b" GET /nowhere HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    vector("a space behind the version", b"GET /nowhere HTTP/1.1 \r\nHost: h\r\n\r\n", Refused(400)),
    vector("no version", b"GET /nowhere\r\nHost: h\r\n\r\n", Refused(400)),
    vector("no target", b"GET HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    vector("a version in small letters", b"GET /nowhere http/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    vector("a version of three digits", b"GET /nowhere HTTP/1.10\r\nHost: h\r\n\r\n", Refused(400)),
    vector("a version without a point", b"GET /nowhere HTTP/11\r\nHost: h\r\n\r\n", Refused(400)),
    vector("something behind the version", b"GET /nowhere HTTP/1.1x\r\nHost: h\r\n\r\n", Refused(400)),
    vector("HTTP/2.0", b"GET /nowhere HTTP/2.0\r\nHost: h\r\n\r\n", Refused(505)),
    vector("HTTP/0.9 by name", b"GET /nowhere HTTP/0.9\r\nHost: h\r\n\r\n", Refused(505)),
    vector("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Refused(505)),
    vector("a later minor version", b"GET /nowhere HTTP/1.2\r\nHost: h\r\n\r\n", Accepted(404)),
    vector("a method that is no token", b"G(T /nowhere HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    vector("a method in small letters", b"get /nowhere HTTP/1.1\r\nHost: h\r\n\r\n", Accepted(404)),
    vector("the greeting of TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", Refused(400)),
    vector("an empty line in front", b"\r\nGET /nowhere HTTP/1.1\r\nHost: h\r\n\r\n", Accepted(404)),
    vector("a bare LF in front", b"\nGET /nowhere HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    // Targets.
    vector("a NUL in the target", b"GET /no\0where HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    vector("other than ASCII in the target", b"GET /no\xc3\xbcwhere HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    vector("a fragment", b"GET /nowhere#x HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    vector("a relative target", b"GET nowhere HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    vector("a percent without digits", b"GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    vector("an absolute target", b"GET http://h/nowhere HTTP/1.1\r\nHost: h\r\n\r\n", Accepted(404)),
    vector("an absolute target for another host", b"GET http://other:80/nowhere HTTP/1.1\r\nHost: h\r\n\r\n", Accepted(404)),
    vector("an absolute target without a host", b"GET http:///nowhere HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    vector("an absolute target with a user", b"GET http://user@h/nowhere HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    vector("an absolute target of another scheme", b"GET ftp://h/nowhere HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    vector("an authority for a target", b"CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n", Refused(501)),
    vector("an asterisk for a target", b"GET * HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    vector("an asterisk with OPTIONS", b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", Accepted(204)),
    // Host.
    vector("no Host", get!("X: y\r\n"), Refused(400)),
    vector("no field at all", b"GET /nowhere HTTP/1.1\r\n\r\n", Refused(400)),
    vector("two Hosts that differ", get!("Host: h\r\nHost: other\r\n"), Refused(400)),
    vector("the same Host twice", get!("Host: h\r\nhost: h\r\n"), Refused(400)),
    vector("no Host beside an absolute target", b"GET http://h/nowhere HTTP/1.1\r\n\r\n", Refused(400)),
    vector("two words for a Host", get!("Host: a b\r\n"), Refused(400)),
    vector("a list of Hosts", get!("Host: a, b\r\n"), Refused(400)),
    vector("a URL for a Host", get!("Host: http://h\r\n"), Refused(400)),
    vector("a path behind a Host", get!("Host: h/x\r\n"), Refused(400)),
    vector("a user before a Host", get!("Host: user@h\r\n"), Refused(400)),
    vector("a word for a port", get!("Host: h:http\r\n"), Refused(400)),
    vector("a port too long", get!("Host: h:100000\r\n"), Refused(400)),
    vector("a bracket that does not close", get!("Host: [::1\r\n"), Refused(400)),
    vector("brackets around no address", get!("Host: [h]\r\n"), Refused(400)),
    vector("an address and a port", get!("Host: [::1]:8000\r\n"), Accepted(404)),
    vector("no Host in HTTP/1.0", b"GET /nowhere HTTP/1.0\r\n\r\n", Last(404)),
    // Chunks.
    vector("a chunk's size with a plus", chunks!("+5\r\nhello\r\n0\r\n\r\n"), Refused(400)),
    vector("a chunk's size with a minus", chunks!("-5\r\nhello\r\n0\r\n\r\n"), Refused(400)),
    vector("a chunk's size with 0x", chunks!("0x5\r\nhello\r\n0\r\n\r\n"), Refused(400)),
    vector("a space before a chunk's size", chunks!(" 5\r\nhello\r\n0\r\n\r\n"), Refused(400)),
    vector("a space behind a chunk's size", chunks!("5 \r\nhello\r\n0\r\n\r\n"), Refused(400)),
    vector("blanks before an extension", chunks!("5 \t ;a=b\r\nhello\r\n0 ;\r\n\r\n"), Accepted(200)),
    vector("blanks within a chunk's size", chunks!("0 5\r\nhello\r\n0\r\n\r\n"), Refused(400)),
    vector("an old source's LF without --icecast", b"SOURCE /v HTTP/1.0\nHost: h\n\n", Refused(400)),
    vector("an old source's version without --icecast", b"SOURCE /v ICE/1.0\r\nHost: h\r\n\r\n", Refused(400)),
    vector("no chunk's size", chunks!("\r\nhello\r\n0\r\n\r\n"), Refused(400)),
    vector("a chunk's size that is none", chunks!("g\r\nhello\r\n0\r\n\r\n"), Refused(400)),
    vector("an underscore in a chunk's size", chunks!("0_5\r\nhello\r\n0\r\n\r\n"), Refused(400)),
    vector("a chunk's size of 2^64", chunks!("10000000000000000\r\nhello\r\n0\r\n\r\n"), Refused(400)),
    vector("a chunk's size of 2^64 + 5", chunks!("10000000000000005\r\nhello\r\n0\r\n\r\n"), Refused(400)),
    vector("a bare LF behind a chunk's size", chunks!("5\nhello\r\n0\r\n\r\n"), Refused(400)),
    vector("a bare CR behind a chunk's size", chunks!("5\rhello\r\n0\r\n\r\n"), Refused(400)),
    vector("a CR too many behind a chunk's size", chunks!("5\r\r\nhello\r\n0\r\n\r\n"), Refused(400)),
    vector("a bare LF in an extension", chunks!("5;a\nb\r\nhello\r\n0\r\n\r\n"), Refused(400)),
    vector("a bare CR in an extension", chunks!("5;a\rb\r\nhello\r\n0\r\n\r\n"), Refused(400)),
    vector("a NUL in an extension", chunks!("5;a\0b\r\nhello\r\n0\r\n\r\n"), Refused(400)),
    filled("an extension without end", chunks!("5;~\r\nhello\r\n0\r\n\r\n"), 20_000, Refused(400)),
    vector("no CRLF behind a chunk", chunks!("5\r\nhello0\r\n\r\n"), Refused(400)),
    vector("a bare LF behind a chunk", chunks!("5\r\nhello\n0\r\n\r\n"), Refused(400)),
    vector("a bare CR behind a chunk", chunks!("5\r\nhello\r0\r\n\r\n"), Refused(400)),
    vector("a chunk longer than its size", chunks!("5\r\nhello!\r\n0\r\n\r\n"), Refused(400)),
    vector("a chunk shorter than its size", chunks!("7\r\nhello\r\n0\r\n\r\n"), Refused(400)),
    vector("a bare LF behind the last chunk", chunks!("5\r\nhello\r\n0\n\r\n"), Refused(400)),
    vector("a bare LF behind all chunks", chunks!("5\r\nhello\r\n0\r\n\n"), Refused(400)),
    vector("no CRLF behind the last chunk", chunks!("5\r\nhello\r\n0\r\n"), Refused(400)),
    vector("a bare LF in the trailer", chunks!("0\r\nX: y\n\r\n"), Refused(400)),
    vector("a bare CR in the trailer", chunks!("0\r\nX: y\rz\r\n\r\n"), Refused(400)),
    vector("a NUL in the trailer", chunks!("0\r\nX: \0\r\n\r\n"), Refused(400)),
    vector("a folded trailer", chunks!("0\r\nX: y\r\n z\r\n\r\n"), Refused(400)),
    filled("a trailer without end", chunks!("0\r\nX: ~\r\n\r\n"), 70_000, Refused(400)),
    vector("chunks with extensions and a trailer", chunks!("5;a=b\r\nhello\r\nA;\"c\"\r\n0123456789\r\n000\r\nX: y\r\n\r\n"), Accepted(200)),
    // Sizes and the rest.
    filled("a target without end", b"GET /~ HTTP/1.1\r\nHost: h\r\n\r\n", 40_000, Refused(414)),
    filled("a method without end", b"GET~ /nowhere HTTP/1.1\r\nHost: h\r\n\r\n", 40_000, Refused(414)),
    filled("a field without end", b"GET /nowhere HTTP/1.1\r\nHost: h\r\nX: ~\r\n\r\n", 40_000, Refused(431)),
    filled("a field name without end", b"GET /nowhere HTTP/1.1\r\nHost: h\r\nX~: y\r\n\r\n", 40_000, Refused(431)),
    vector("another expectation", put!("Content-Length: 5\r\nExpect: 200-ok\r\n", "hello"), Refused(417)),
    vector("a request behind one that closes", get!("Host: h\r\nConnection: close\r\n"), Last(404)),
    vector("close among other options", get!("Host: h\r\nConnection: keep-alive, Close\r\n"), Last(404)),
    vector("a request that was meant to be a body", b"GET /stream/v HTTP/1.1\r\nHost: h\r\nContent-Length: 36\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n--", Last(404)),
    vector("a request that was meant to be a chunk", b"GET /stream/v HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n24\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n--\r\n0\r\n\r\n", Last(404)),
];
