//! The door to what another process tells: records, and bytes of streams.

use std::net::SocketAddr;
use std::time::Duration;

use tollgate::config::Config;
use tollgate::gather::Gather;
use tollgate::relay::handover::{Piece, Successor};
use tollgate::relay::{ConnectionId, Outgoing, Relay, StreamId, write_next};
use tollgate::time::Instant;

/// Of one stream no more is made up.
const MEDIA_BYTES_MAX: usize = 256 * 1024;
const PIECE: [u8; 4096] = [0x47; 4096];

/// Lines `media <stream> <from> <bytes>`, an empty line, and the state of a core. It is refused, or
/// makes a core that keeps its invariants for any further input.
pub fn records(data: &[u8]) {
    is_taken_over(data);
}

/// The same. Returns whether it made a core.
pub fn is_taken_over(data: &[u8]) -> bool {
    let mut config = Config::default();
    let subnet = "10.9.0.0/16".parse().expect("a subnet");
    config.core.token_servers = vec![subnet];
    config.core.limits.stream.buffer_bytes = 128 * 1024;
    config.core.limits.buffers_bytes_max = 8 * 1024 * 1024;
    config.core.limits.hold_time = Duration::from_secs(60);
    let mut successor = Successor::new(config.settings(100, 1_800_000_000, 7), false);
    let mut rest = data;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let (line, behind) = rest.split_at(end);
        rest = &behind[1..];
        let Some((live, from, bytes)) = media(line) else {
            break;
        };
        if tell_media(&mut successor, StreamId::from_u64(live), from, bytes).is_none() {
            return false;
        }
    }
    let heard = successor.receive(rest).and_then(|()| successor.take_over());
    let is_taken_over = heard.is_ok();
    if let Ok((relay, now)) = heard {
        go_on(relay, now, sources_and_others(rest));
    }
    is_taken_over
}

/// What the sources of [`told`](crate::door) go on with, each of which has sent half of a file.
const FILES: [&[u8]; 10] = [
    include_bytes!("../media/h264.ts"),
    include_bytes!("../media/h264.mp4"),
    include_bytes!("../media/h264.mkv"),
    include_bytes!("../media/h264.flv"),
    include_bytes!("../media/vp8.webm"),
    include_bytes!("../media/vp9.webm"),
    include_bytes!("../media/theora.ogg"),
    include_bytes!("../media/opus.ogg"),
    include_bytes!("../media/sound.mp3"),
    include_bytes!("../media/sound.aac"),
];

/// The connections of the state, each with the bytes that it sends next.
fn sources_and_others(records: &[u8]) -> Vec<(ConnectionId, &'static [u8])> {
    let mut files = FILES.iter().cycle();
    let lines = records.split(|byte| *byte == b'\n');
    let connections = lines.filter_map(|line| {
        let line = std::str::from_utf8(line).ok()?;
        let (id, what) = line.strip_prefix("connection ")?.split_once(' ')?;
        let is_source = what.contains("\"Source\"");
        let file = is_source.then(|| files.next()).flatten();
        let sends = file.map_or(&PIECE[..], |file| &file[file.len() / 2..]);
        Some((ConnectionId::from_u64(id.parse().ok()?), sends))
    });
    connections.take(64).collect()
}

fn media(line: &[u8]) -> Option<(u64, u64, usize)> {
    let line = std::str::from_utf8(line).ok()?.strip_prefix("media ")?;
    let mut numbers = line.split(' ').map(|number| number.parse::<u64>().ok());
    let (live, from, bytes) = (numbers.next()??, numbers.next()??, numbers.next()??);
    Some((live, from, usize::try_from(bytes).ok()?))
}

fn tell_media(successor: &mut Successor, live: StreamId, from: u64, bytes: usize) -> Option<()> {
    let mut left = bytes.min(MEDIA_BYTES_MAX);
    let mut at = from;
    while left > 0 {
        let piece = &PIECE[..left.min(PIECE.len())];
        successor.take(Piece::Media(live, at, piece)).ok()?;
        (at, left) = (at + piece.len() as u64, left - piece.len());
    }
    Some(())
}

/// Input of clients that come after the hand-over: no HTTP; calls that list and count everything; a
/// new stream; viewers of it, and viewers of the streams that were handed over.
const NEWCOMERS: [&[u8]; 8] = [
    &PIECE,
    b"POST /api/add-token?type=http&sessionid=new HTTP/1.1\r\nHost: localhost\r\n\r\n\
      GET /api/list-streams HTTP/1.1\r\nHost: localhost\r\n\r\n\
      GET /api/list-viewers HTTP/1.1\r\nHost: localhost\r\n\r\n\
      GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"PUT /stream/new HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nthe media",
    b"GET /stream/new HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET /stream/h264.ts HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET /stream/h264.ts/index.m3u8 HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET /stream/h264.mp4/index.m3u8 HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET /stream/ts/live.mp4 HTTP/1.1\r\nHost: h\r\n\r\n",
];

/// Everybody sends something, gets something, and leaves.
fn go_on(mut relay: Relay, now: Instant, mut clients: Vec<(ConnectionId, &'static [u8])>) {
    relay.check();
    let mut now = relay.next_deadline().unwrap_or(now).max(now);
    for (port, request) in (9..).zip(NEWCOMERS) {
        let newcomer = relay.accepted(SocketAddr::from(([10, 9, 0, 1], port)), now);
        clients.extend(newcomer.map(|id| (id, request)));
    }
    for round in 0..4 {
        for (id, sends) in &mut clients {
            relay.unblocked(*id);
            let wanted = relay.bytes_wanted(*id).min(sends.len()).min(PIECE.len());
            if wanted > 0 {
                let (piece, rest) = sends.split_at(wanted);
                relay.received(*id, piece, now);
                *sends = rest;
            }
            relay.check();
        }
        for _ in 0..64 {
            let write = |_, gather: &Gather<'_>| Outgoing::Whole(gather.bytes());
            if write_next(&mut relay, now, write).is_none() {
                break;
            }
            relay.check();
        }
        while relay.next_datagrams(now, &[]).is_some() && round > 0 {}
        while relay.next_action().is_some() {}
        now = now + Duration::from_secs(round);
        relay.expire(now);
        relay.check();
    }
    for (id, _) in clients {
        relay.lost(id, now);
        relay.check();
    }
}
