//! What a core has told another: read by one of another version, and by one that is told wrong.
#![cfg(feature = "default")]

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tollgate::config::Config;
use tollgate::gather::Gather;
use tollgate::moment::Moment;
use tollgate::relay::handover::{Successor, hand_over, media};
use tollgate::relay::{ConnectionId, Outgoing, Relay, Settings, write_next};

#[path = "doors/handover.rs"]
mod door;

/// What version 0.1.0 told in format 1: it must be read for as long as that number stands.
const TOLD: &[u8] = include_bytes!("handover/format-1");

fn settings() -> Settings {
    let mut config = Config::default();
    config.core.token_servers = vec!["10.9.0.0/16".parse().expect("a subnet")];
    config.core.limits.stream.buffer_bytes = 128 * 1024;
    config.core.limits.buffers_bytes_max = 1024 * 1024;
    config.settings(100, 1_800_000_000, 7)
}

fn client(relay: &mut Relay, host: u8, port: u16, request: &[u8], now: Moment) -> ConnectionId {
    let peer = SocketAddr::from(([10, 9, 0, host], port));
    let id = relay.accepted(peer, now).expect("room");
    relay.received(id, request, now);
    id
}

fn write(relay: &mut Relay, now: Moment, times: usize) {
    for _ in 0..times {
        let whole = |_, gather: &Gather<'_>| Outgoing::Whole(gather.bytes());
        write_next(relay, now, whole);
    }
    while relay.next_action().is_some() {}
}

/// A core with somebody in many phases.
fn core() -> (Relay, Moment) {
    let mut relay = Relay::new(settings());
    relay.set_rtp(SocketAddr::from(([10, 9, 0, 9], 5004)));
    let now = Moment::after_start(Duration::from_secs(3));
    let caller = client(&mut relay, 1, 1, b"", now);
    for call in [
        "POST /api/add-token?type=http,rtp-udp&sessionid=ts&udp-clients=10.9.1.1:5006",
        "POST /api/add-token?type=http&sessionid=text&max-viewers=9&note=n",
        "POST /api/add-token?type=http&sessionid=key&for=text",
    ] {
        let request = format!("{call} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        relay.received(caller, request.as_bytes(), now);
        write(&mut relay, now, 4);
    }
    client(
        &mut relay,
        1,
        2,
        b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n",
        now,
    );
    write(&mut relay, now, 8);
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/media");
    for (session, media) in [
        ("ts", std::fs::read(folder.join("h264.ts")).expect("a file")),
        ("text", b"some text, and more of it".to_vec()),
    ] {
        let head =
            format!("PUT /stream/{session} HTTP/1.1\r\nHost: h\r\nContent-Length: 900000\r\n\r\n");
        let source = client(&mut relay, 2, 3, head.as_bytes(), now);
        for piece in media.chunks(8192).take(8) {
            relay.received(source, piece, now);
        }
        for (port, path) in [(4, ""), (5, "/index.m3u8?_HLS_msn=9999999999"), (6, "")] {
            let request = format!("GET /stream/{session}{path} HTTP/1.1\r\nHost: h\r\n\r\n");
            client(&mut relay, 3, port, request.as_bytes(), now);
            write(&mut relay, now, 1);
        }
    }
    client(&mut relay, 4, 7, b"GET /stream/ts HTTP/1.1\r\nHo", now);
    relay.check();
    (relay, now)
}

/// As the door takes it.
fn told() -> Vec<u8> {
    let (mut relay, now) = core();
    let ranges = media(&relay).map(|(live, range)| {
        let bytes = range.end - range.start;
        format!("media {} {} {bytes}\n", live.to_u64(), range.start)
    });
    let mut text: String = ranges.collect();
    text.push('\n');
    let (records, going) = hand_over(&mut relay, now);
    assert!(going.len() > 5);
    [text.into_bytes(), records].concat()
}

fn take_over(data: &[u8]) -> Result<Relay, String> {
    let mut successor = Successor::new(settings());
    let mut rest = data;
    while let Some(line) = rest.strip_prefix(b"media ") {
        let end = line.iter().position(|byte| *byte == b'\n').expect("a line");
        let text = std::str::from_utf8(&line[..end]).expect("text");
        let numbers: Vec<u64> = text
            .split(' ')
            .map(|number| number.parse().expect("a number"))
            .collect();
        let bytes = vec![0; numbers[2] as usize];
        let live = tollgate::relay::LiveId::from_u64(numbers[0]);
        successor.media(live, numbers[1], &bytes).expect("media");
        rest = &line[end + 1..];
    }
    let records = rest.strip_prefix(b"\n").expect("an empty line");
    let taken = successor.take_over(records, false);
    taken.map(|(relay, _)| relay).map_err(|why| why.to_string())
}

/// Writes the file anew, where the number has changed: `TOLLGATE_WRITE_HANDOVER=1`.
#[test]
fn what_was_told_in_this_format_is_read() {
    if std::env::var_os("TOLLGATE_WRITE_HANDOVER").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/handover/format-1");
        std::fs::write(path, told()).expect("the file");
    }
    take_over(TOLD).expect("it is read").check();
    take_over(&told()).expect("what is told now").check();
}

#[test]
fn what_a_later_version_tells_besides_is_passed_over() {
    let text = String::from_utf8(TOLD.to_vec()).expect("text");
    let more = text.replace("{\"peer\":", "{\"news\":[1,{\"a\":null}],\"peer\":");
    assert_ne!(more, text);
    take_over(more.as_bytes()).expect("it is read").check();
}

#[test]
fn another_format_is_refused_in_words() {
    let text = String::from_utf8(TOLD.to_vec()).expect("text");
    let later = text.replacen("tollgate 1 \"0.1.0\"", "tollgate 2 \"0.9.0\"", 1);
    let why = take_over(later.as_bytes()).err().expect("it is refused");
    assert_eq!(
        why,
        "it is told in format 2, by version \"0.9.0\"; this one knows format 1"
    );
}

/// Numbers that are told are others: it is refused, or taken over by a core that keeps what it
/// promises. (So many of them: `HANDOVER_NUMBERS=n`.)
#[test]
fn nothing_that_is_told_is_believed() {
    let text = String::from_utf8(TOLD.to_vec()).expect("text");
    let mut wrong = Vec::new();
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let numbers = (0..bytes.len()).filter(|at| is_digit(*at) && !is_digit(at.wrapping_sub(1)));
    // Of a stream's own line more is taken as it is told: see docs/handover.md.
    let line_of = |at: usize| text[..at].rfind('\n').map_or(0, |end| end + 1);
    let is_checked = |at: &usize| !text[line_of(*at)..].starts_with("stream ");
    let numbers: Vec<usize> = numbers.filter(is_checked).collect();
    let most = std::env::var("HANDOVER_NUMBERS").ok();
    let most = most.map_or(120, |most| most.parse().expect("a number"));
    let step = numbers.len().div_ceil(most).max(1);
    for at in numbers.into_iter().step_by(step) {
        let end = (at..).find(|end| !is_digit(*end)).expect("an end");
        for other in ["0", "1", "7777777", "18446744073709551615", "-1"] {
            wrong.push([&text[..at], other, &text[end..]].concat());
        }
    }
    let failed: Vec<String> = wrong
        .into_iter()
        .filter(|told| catch_unwind(AssertUnwindSafe(|| door::records(told.as_bytes()))).is_err())
        .collect();
    let first = failed.first().map(|told| {
        let pairs = told.lines().zip(text.lines());
        pairs
            .filter(|(one, other)| one != other)
            .map(|(one, _)| one.chars().take(300).collect::<String>())
            .next()
    });
    assert!(failed.is_empty(), "{} panics: {first:?}", failed.len());
}
