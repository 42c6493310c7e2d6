//! Request heads: valid and invalid ones, cut at every byte.

use super::*;

const LIMITS: Limits = Limits {
    head_bytes_max: 1024,
    head_fields_max: 16,
    takes_old_sources: false,
};

const WITH_OLD_SOURCES: Limits = Limits {
    takes_old_sources: true,
    ..LIMITS
};

/// Reads a head with every cut, and checks that the result is the same.
fn read(bytes: &[u8], limits: &Limits) -> Result<Option<(Head, usize)>, Refusal> {
    let whole = HeadReader::default().read(bytes, limits);
    for piece in [1, 2, 3, 7] {
        let (mut reader, mut read) = (HeadReader::default(), Ok(None));
        assert!(!reader.has_begun());
        let ends = (1..=bytes.len()).filter(|end| end % piece == 0 || *end == bytes.len());
        for end in ends {
            read = reader.read(&bytes[..end], limits);
            if read != Ok(None) {
                break;
            }
            assert!(reader.has_begun());
        }
        assert_eq!(read, whole, "{} in {piece}", bytes.escape_ascii());
    }
    whole
}

/// Reads a head of these lines.
fn head(lines: &str) -> Result<Head, Refusal> {
    let text = format!("{}\r\n\r\n", lines.replace('|', "\r\n"));
    let (head, length) = read(format!("{text}GET").as_bytes(), &LIMITS)?.expect("a whole one");
    assert_eq!(length, text.len(), "{lines}");
    Ok(head)
}

/// Reads the head of a GET with these fields besides `Host`.
fn with_fields(version: &str, fields: &str) -> Result<Head, Refusal> {
    head(&format!("GET / {version}|Host: h|{fields}"))
}

#[test]
fn all_that_matters_of_a_head_is_kept() {
    let head = head(
        "PUT /stream/a?b HTTP/1.1|HOST: h:80|content-type: video/webm|Origin: o|\
         Sec-Fetch-Site: one|sec-fetch-site: two|Authorization: Basic x|User-Agent: old|\
         User-Agent: \u{fc}ser|Referer: r|Last-Event-ID: 7|Via: 1.0 a|via: 1.1 b|Forwarded: for=c|\
         X-Forwarded-For: d|X-Other:",
    );
    let head = head.expect("a good head");
    assert_eq!(head.method, Method::Put);
    assert_eq!((&*head.method_token, &*head.host), ("PUT", "h:80"));
    assert_eq!(head.target.query.as_deref(), Some("b"));
    for (found, expected) in [
        (head.fields.content_type, "video/webm"),
        (head.fields.origin, "o"),
        (head.fields.site, "one,two"),
        (head.fields.authorization, "Basic x"),
        (head.fields.user_agent, "\u{fc}ser"),
        (head.fields.referer, "r"),
        (head.fields.last_event_id, "7"),
        (head.fields.via, "1.0 a,1.1 b"),
        (head.fields.forwarded.standard, "for=c"),
        (head.fields.forwarded.x_forwarded_for, "d"),
    ] {
        assert_eq!(found.as_deref(), Some(expected));
    }
}

#[test]
fn methods_are_known_by_their_names() {
    for (token, method) in [
        ("GET", Method::Get),
        ("HEAD", Method::Head),
        ("PUT", Method::Put),
        ("POST", Method::Post),
        ("DELETE", Method::Delete),
        ("OPTIONS", Method::Options),
        ("SOURCE", Method::Source),
        ("PATCH", Method::Other),
        ("get", Method::Other),
    ] {
        let head = head(&format!("{token} / HTTP/1.1|Host: h")).expect("a good head");
        assert_eq!((head.method, &*head.method_token), (method, token));
        let takes_media = matches!(method, Method::Put | Method::Source);
        let until_close = head.framing_of_media() == Framing::UntilClose;
        assert_eq!(until_close, takes_media, "{token}");
    }
    let sized = head("PUT / HTTP/1.1|Host: h|Content-Length: 5").expect("a good head");
    assert_eq!(sized.framing_of_media(), Framing::Length(5));
}

#[test]
fn the_authority_is_that_of_the_target_or_the_host() {
    for (lines, host) in [
        ("GET / HTTP/1.1|Host: h", "h"),
        ("GET / HTTP/1.1|Host:", ""),
        ("GET / HTTP/1.0", ""),
        ("GET / HTTP/1.0|Host: h", "h"),
        ("GET http://other:1/ HTTP/1.1|Host: h", "other:1"),
        ("|GET / HTTP/1.1|Host: h", "h"),
    ] {
        assert_eq!(head(lines).expect(lines).host, host, "{lines}");
    }
    for (lines, why) in [
        ("GET / HTTP/1.1", "no Host"),
        ("GET http://h/ HTTP/1.1", "no Host"),
        ("GET / HTTP/1.1|Host: h|Host: h", "more than one Host"),
        ("GET / HTTP/1.0|Host: h|Host: h", "more than one Host"),
        ("GET / HTTP/1.1|Host: a b", "'a b' is not HOST"),
        ("GET / HTTP/1.1|Host: u@h", "'u@h' is not HOST"),
        ("GET http://other/ HTTP/1.1|Host: a/b", "'a/b' is not HOST"),
    ] {
        assert_refused(head(lines), Status::BadRequest, why, lines);
    }
}

fn assert_refused<T>(found: Result<T, Refusal>, status: Status, why: &str, what: &str) {
    let Err(refusal) = found else {
        panic!("{what} is taken");
    };
    assert_eq!(refusal.status, status, "{what}");
    assert!(refusal.detail.contains(why), "{what}: {:?}", refusal.detail);
    assert!(refusal.ends_connection, "{what}");
}

#[test]
fn a_request_line_has_three_parts_and_a_known_version() {
    for (line, status, why) in [
        (" / HTTP/1.1", Status::BadRequest, "the method '' is not"),
        ("G(T / HTTP/1.1", Status::BadRequest, "'G(T' is not a token"),
        ("GET  / HTTP/1.1", Status::BadRequest, "one space between"),
        ("GET / HTTP/1.1 ", Status::BadRequest, "one space between"),
        ("GET /", Status::BadRequest, "one space between"),
        ("GET  HTTP/1.1", Status::BadRequest, "no target"),
        ("GET /a#b HTTP/1.1", Status::BadRequest, "percent-encoded"),
        ("GET / HTTP/1.10", Status::BadRequest, "not an HTTP version"),
        ("GET / ICE/1.0", Status::BadRequest, "not an HTTP version"),
        (
            "SOURCE / ICE/1.0",
            Status::BadRequest,
            "not an HTTP version",
        ),
        ("GET / HTTP/2.0", Status::VersionNotSupported, "HTTP/1.1"),
        ("CONNECT h:1 HTTP/1.1", Status::NotImplemented, "CONNECT"),
    ] {
        assert_refused(head(&format!("{line}|Host: h")), status, why, line);
    }
    for (version, taken_for) in [
        ("HTTP/1.0", Version::Http10),
        ("HTTP/1.1", Version::Http11),
        ("HTTP/1.7", Version::Http11),
    ] {
        let head = with_fields(version, "X: y").expect("a good head");
        assert_eq!(head.version, taken_for);
    }
}

#[test]
fn lines_end_with_crlf_and_hold_no_control_character() {
    for (text, why) in [
        ("GET / HTTP/1.1\nHost: h\r\n\r\n", "an LF without its CR"),
        ("GET / HTTP/1.1\r\nHost: h\n\r\n", "an LF without its CR"),
        ("GET / HTTP/1.1\r\nHost: h\r\n\n", "an LF without its CR"),
        ("GET / HTTP/1.1\rHost: h\r\n\r\n", "a CR without its LF"),
        ("GET / HTTP/1.1\r\nHost: h\rX: y\r\n\r\n", "a CR without"),
        (
            "GET / HTTP/1.1\r\nHost: h\r\n\rX\r\n",
            "a CR without its LF",
        ),
        ("GET / HTTP/1.1\r\nHost: h\r\r\n\r\n", "a CR without its LF"),
        (
            "\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
            "with empty lines",
        ),
        (
            "\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
            "an LF without its CR",
        ),
        ("\rGET / HTTP/1.1\r\nHost: h\r\n\r\n", "a CR without its LF"),
    ] {
        for limits in [&LIMITS, &WITH_OLD_SOURCES] {
            assert_refused(read(text.as_bytes(), limits), Status::BadRequest, why, text);
        }
    }
    for byte in (0..=u8::MAX).filter(|byte| !b"\r\n ".contains(byte)) {
        let with = |before: &str, after: &str| {
            let text = [before.as_bytes(), &[byte], after.as_bytes()].concat();
            read(&text, &LIMITS)
        };
        let shown = format!("0x{byte:02x}");
        let in_field = with("GET / HTTP/1.1\r\nHost: h\r\nX: a", "b\r\n\r\n");
        if byte.is_ascii_control() && byte != b'\t' {
            assert_refused(in_field, Status::BadRequest, &shown, &shown);
        } else {
            assert!(in_field.is_ok_and(|read| read.is_some()), "{shown}");
        }
        let in_line = with("GET /a", "b HTTP/1.1\r\nHost: h\r\n\r\n");
        if byte.is_ascii_control() || byte >= 0x80 {
            assert_refused(in_line, Status::BadRequest, &shown, &shown);
        }
    }
}

#[test]
fn fields_have_names_and_no_blank_before_the_colon() {
    for fields in [
        "X : y",
        " X: y",
        "X",
        ": y",
        "X y: z",
        "X\t: y",
        "X(: y",
        "\u{fc}: y",
        "X: y| folded",
    ] {
        let found = with_fields("HTTP/1.1", fields);
        assert_refused(found, Status::BadRequest, "a field", fields);
    }
    for twice in ["Content-Type", "Origin", "Authorization"] {
        let found = with_fields("HTTP/1.1", &format!("{twice}: a|{twice}: a"));
        let why = format!("more than one {twice}");
        assert_refused(found, Status::BadRequest, &why, twice);
    }
}

#[test]
fn the_body_ends_as_the_fields_say_or_the_request_is_refused() {
    let framing = |version, fields| with_fields(version, fields).map(|head| head.framing);
    for (fields, expected) in [
        ("X: y", Framing::None),
        ("Content-Length: 0", Framing::Length(0)),
        ("Content-Length: 10", Framing::Length(10)),
        ("Content-Length: 007", Framing::Length(7)),
        (
            "Content-Length:\t 18446744073709551615 ",
            Framing::Length(u64::MAX),
        ),
        ("Transfer-Encoding: chunked", Framing::Chunked),
        ("transfer-encoding:\tChunked ", Framing::Chunked),
    ] {
        assert_eq!(framing("HTTP/1.1", fields), Ok(expected), "{fields}");
    }
    let bad_length = "is not a number of bytes";
    for (fields, status, why) in [
        ("Content-Length:", Status::BadRequest, bad_length),
        ("Content-Length: +6", Status::BadRequest, bad_length),
        ("Content-Length: -6", Status::BadRequest, bad_length),
        ("Content-Length: 0x6", Status::BadRequest, bad_length),
        ("Content-Length: 6,6", Status::BadRequest, bad_length),
        ("Content-Length: 3 1", Status::BadRequest, bad_length),
        (
            "Content-Length: 18446744073709551616",
            Status::BadRequest,
            bad_length,
        ),
        (
            "Content-Length: 99999999999999999999",
            Status::BadRequest,
            bad_length,
        ),
        (
            "Content-Length: 6|Content-Length: 6",
            Status::BadRequest,
            "more than one Content-Length",
        ),
        (
            "Content-Length: 6|Transfer-Encoding: chunked",
            Status::BadRequest,
            "send one of them",
        ),
        (
            "Transfer-Encoding: x|Content-Length: 6",
            Status::BadRequest,
            "send one of them",
        ),
        (
            "Transfer-Encoding:",
            Status::BadRequest,
            "an empty transfer coding",
        ),
        (
            "Transfer-Encoding: chunked,",
            Status::BadRequest,
            "an empty transfer coding",
        ),
        (
            "Transfer-Encoding: chunked, chunked",
            Status::BadRequest,
            "more than once",
        ),
        (
            "Transfer-Encoding: chunked|Transfer-Encoding: chunked",
            Status::BadRequest,
            "more than",
        ),
        (
            "Transfer-Encoding: chunked, gzip",
            Status::BadRequest,
            "is not the last",
        ),
        (
            "Transfer-Encoding: chunked|Transfer-Encoding: x",
            Status::BadRequest,
            "is not the last",
        ),
        (
            "Transfer-Encoding: gzip",
            Status::NotImplemented,
            "'gzip' is not supported",
        ),
        (
            "Transfer-Encoding: gzip, chunked",
            Status::NotImplemented,
            "'gzip' is not supported",
        ),
        (
            "Transfer-Encoding: xchunked",
            Status::NotImplemented,
            "'xchunked' is not supported",
        ),
        (
            "Transfer-Encoding: \"chunked\"",
            Status::NotImplemented,
            "is not supported",
        ),
        (
            "Transfer-Encoding: identity",
            Status::NotImplemented,
            "is not supported",
        ),
    ] {
        assert_refused(framing("HTTP/1.1", fields), status, why, fields);
    }
    let old = framing("HTTP/1.0", "Transfer-Encoding: chunked");
    assert_refused(old, Status::BadRequest, "HTTP/1.0", "chunked in 1.0");
    assert_eq!(
        framing("HTTP/1.0", "Content-Length: 5"),
        Ok(Framing::Length(5))
    );
}

#[test]
fn a_connection_goes_on_if_its_client_wants_it() {
    for (version, fields, expected) in [
        ("HTTP/1.1", "X: y", true),
        ("HTTP/1.1", "Connection: keep-alive", true),
        ("HTTP/1.1", "Connection: closed", true),
        ("HTTP/1.1", "Connection: close", false),
        ("HTTP/1.1", "Connection: x,\tClose ,y", false),
        ("HTTP/1.1", "Connection: x|Connection: close", false),
        ("HTTP/1.1", "Connection: close|Connection: x", false),
        ("HTTP/1.0", "X: y", false),
        ("HTTP/1.0", "Connection: close", false),
        ("HTTP/1.0", "Connection: x, Keep-Alive", true),
    ] {
        let head = with_fields(version, fields).expect(fields);
        assert_eq!(head.keep_alive, expected, "{version} {fields}");
    }
}

#[test]
fn an_expectation_other_than_100_continue_is_refused() {
    for (version, fields, expected) in [
        ("HTTP/1.1", "X: y", false),
        ("HTTP/1.1", "Expect: 100-Continue", true),
        ("HTTP/1.0", "Expect: 100-continue", false),
    ] {
        let head = with_fields(version, fields).expect(fields);
        assert_eq!(head.expects_continue, expected, "{version} {fields}");
    }
    for fields in ["Expect: x", "Expect:", "Expect: 100-continue|Expect: x"] {
        let found = with_fields("HTTP/1.1", fields);
        assert_refused(found, Status::ExpectationFailed, "not supported", fields);
    }
}

/// Heads at the limits are accepted, and larger ones are not.
#[test]
fn a_head_has_its_bounds() {
    let of_target = |bytes: usize| {
        let target = "x".repeat(bytes - 1);
        head(&format!("GET /{target} HTTP/1.1|Host: h"))
    };
    assert!(of_target(512).is_ok());
    for bytes in [513, 514, 600, 900] {
        assert_refused(
            of_target(bytes),
            Status::UriTooLong,
            "512 bytes",
            "a target",
        );
    }
    // A first line is refused as soon as it is too long.
    for before in ["", "\r\n"] {
        let of_line = |bytes: usize| {
            let text = format!("{before}{}", "x".repeat(bytes));
            read(text.as_bytes(), &LIMITS)
        };
        assert_eq!(of_line(576), Ok(None));
        assert_refused(
            of_line(577),
            Status::UriTooLong,
            "512 bytes",
            "a first line",
        );
    }
    let of_head = |bytes: usize| {
        let begin = "GET / HTTP/1.1\r\nHost: h\r\nX: ";
        let value = "x".repeat(bytes - begin.len() - 4);
        read(format!("{begin}{value}\r\n\r\n").as_bytes(), &LIMITS)
    };
    assert!(of_head(1024).is_ok_and(|read| read.is_some_and(|(_, length)| length == 1024)));
    for bytes in [1025, 1030, 3000] {
        assert_refused(
            of_head(bytes),
            Status::HeaderFieldsTooLarge,
            "1024 bytes",
            "a head",
        );
    }
    let of_fields = |fields: usize| with_fields("HTTP/1.1", &vec!["X: y"; fields - 1].join("|"));
    assert!(of_fields(16).is_ok());
    assert_refused(
        of_fields(17),
        Status::HeaderFieldsTooLarge,
        "16 fields",
        "fields",
    );
}

/// Each element may cost as much as an address.
#[test]
fn a_list_has_a_bounded_number_of_elements() {
    for name in [
        "Accept",
        "Connection",
        "Expect",
        "Transfer-Encoding",
        "Via",
        "Forwarded",
        "X-Forwarded-For",
    ] {
        let line = |separators: usize| format!("{name}: {}", ",;".repeat(separators / 2));
        // The lines are joined by one more.
        let refused = with_fields("HTTP/1.1", &format!("{}|{}", line(128), line(128)));
        let why = format!("257 commas and semicolons in {name}; it may have at most 256");
        assert_refused(refused, Status::BadRequest, &why, name);
    }
    let most = format!("X-Forwarded-For: {}", ",".repeat(256));
    assert!(with_fields("HTTP/1.1", &most).is_ok());
}

/// Old Icecast clients are accepted with `--icecast` only, and other requests are not affected.
#[test]
fn old_sources_are_understood_where_they_are_let_in() {
    let with = |text: &str| read(text.as_bytes(), &WITH_OLD_SOURCES);
    for (text, framing, version) in [
        ("SOURCE /a ICE/1.0\n\n", Framing::None, Version::Http10),
        (
            "SOURCE /a HTTP/1.0\nX: y\n\n",
            Framing::None,
            Version::Http10,
        ),
        (
            "SOURCE /a ICE/1.0\r\nX: y\nZ:\r\n\n",
            Framing::None,
            Version::Http10,
        ),
        ("SOURCE /a ICE/1.0\r\n\r\n", Framing::None, Version::Http10),
        (
            "SOURCE /a HTTP/1.0\r\nContent-Length: 5\r\n\r\n",
            Framing::Length(5),
            Version::Http10,
        ),
        (
            "SOURCE /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n",
            Framing::Chunked,
            Version::Http11,
        ),
    ] {
        let (head, length) = with(text).expect(text).expect("a whole one");
        assert_eq!((head.framing, head.version), (framing, version), "{text:?}");
        assert_eq!(length, text.len());
    }
    for (text, why) in [
        (
            "SOURCE /a HTTP/1.0\nContent-Length: 5\r\n\r\n",
            "an LF without its CR",
        ),
        (
            "SOURCE /a HTTP/1.0\r\nContent-Length: 5\n\r\n",
            "an LF without its CR",
        ),
        (
            "SOURCE /a HTTP/1.0\r\nContent-Length: 5\r\n\n",
            "an LF without its CR",
        ),
        ("GET /a HTTP/1.0\n\n", "an LF without its CR"),
        ("SOURCES /a HTTP/1.0\n\n", "an LF without its CR"),
        ("GET /a ICE/1.0\r\n\r\n", "not an HTTP version"),
        ("SOURCE /a ICE/1.1\n\n", "not an HTTP version"),
    ] {
        assert_refused(with(text), Status::BadRequest, why, text);
    }
    for text in ["SOURCE /a ICE/1.0\r\n\r\n", "SOURCE /a HTTP/1.0\n\n"] {
        let found = read(text.as_bytes(), &LIMITS);
        assert_refused(found, Status::BadRequest, "", text);
    }
}
