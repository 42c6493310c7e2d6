//! Held streams in random sequences: sources of one session that break, complete and take over,
//! viewers that come and go, and an origin with random answers.
#![cfg(feature = "default")]

use std::net::SocketAddr;
use std::time::Duration;

use crate::gate::session as name;
use crate::random::Random;
#[cfg(feature = "remux")]
use crate::relay::Action;
use crate::relay::stage::Stage;
use crate::relay::{ConnectionId, StreamId};

const PACKET_BYTES: usize = 188;
const SEEDS: u64 = 150;
const STEPS: usize = 120;
/// After this many bytes the file's format is known.
const UNKNOWN_BYTES_MAX: usize = 3 * PACKET_BYTES;

/// A real transport stream. Its packets all differ, except for tables and stuffing.
const FILE: &[u8] = include_bytes!("../../../../tests/media/h264.ts");

struct World {
    stage: Stage,
    random: Random,
    source: Option<Sending>,
    viewers: Vec<ConnectionId>,
    /// How many sources there were.
    sources: usize,
    is_completed: bool,
}

/// A source or an origin, and how much of the file it has sent.
struct Sending {
    id: ConnectionId,
    sent: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed.into());
        let mut options = vec!["--hold=4", "--source-idle-time=3"];
        if random.draw().is_multiple_of(2) {
            options.push("--takeover");
        }
        if random.draw().is_multiple_of(2) {
            options.extend(["--origin=http://10.1.0.1:8000", "--origin-idle=2"]);
        }
        World {
            stage: Stage::new(&options),
            random,
            source: None,
            viewers: Vec::new(),
            sources: 0,
            is_completed: false,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.random.draw() % bound as u64) as usize
    }

    fn step(&mut self) {
        match self.below(20) {
            0..=2 => self.publish(),
            3..=11 => self.send(),
            12 => self.finish(),
            13 => self.lose_source(),
            14..=15 => {
                let viewer = self.stage.viewer("a");
                self.viewers.push(viewer);
            }
            16 if !self.viewers.is_empty() => {
                let index = self.below(self.viewers.len());
                let viewer = self.viewers[index];
                if !self.stage.closed.contains(&viewer) {
                    self.check_viewer(viewer);
                    self.stage.lose(viewer);
                }
                self.viewers.remove(index);
            }
            _ => {
                let milliseconds = self.below(1500) as u64;
                self.stage.wait(Duration::from_millis(milliseconds));
            }
        }
        self.answer_calls();
        let is_gone = |source: &Sending| self.stage.closed.contains(&source.id);
        if self.source.as_ref().is_some_and(is_gone) {
            self.source = None;
        }
    }

    fn publish(&mut self) {
        let head = "PUT /stream/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        let id = self.stage.client(head);
        // A response is a refusal. An admitted source has none yet.
        if self.stage.text(id).is_empty() {
            self.sources += 1;
            self.source = Some(Sending { id, sent: 0 });
        } else {
            self.stage.lose(id);
        }
    }

    /// Answers the server's request to the origin, with the stream or without.
    fn answer_calls(&mut self) {
        while !self.stage.calls.is_empty() {
            let (id, ..) = self.stage.call();
            if self.below(3) == 0 {
                self.stage.lose(id);
                continue;
            }
            self.sources += 1;
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            self.stage.send(id, head);
            self.source = Some(Sending { id, sent: 0 });
        }
    }

    fn send(&mut self) {
        let length = 1 + self.below(9_000);
        let Some(source) = &mut self.source else {
            return;
        };
        let media = &FILE[source.sent..FILE.len().min(source.sent + length)];
        if media.is_empty() {
            return self.finish();
        }
        source.sent += media.len();
        let chunk = [format!("{:x}\r\n", media.len()).as_bytes(), media, b"\r\n"].concat();
        let (id, now) = (source.id, self.stage.now);
        self.stage.relay.received(id, &chunk, now);
        self.stage.settle();
    }

    fn finish(&mut self) {
        if let Some(source) = self.source.take() {
            self.is_completed = true;
            self.stage.send(source.id, "0\r\n\r\n");
            self.stage.lose(source.id);
        }
    }

    fn lose_source(&mut self) {
        if let Some(source) = self.source.take() {
            self.stage.lose(source.id);
        }
    }

    /// Checks that a viewer has whole packets in the file's order, except where a source followed
    /// another. Returns how often its media jump.
    fn check_viewer(&self, viewer: ConnectionId) -> usize {
        let (media, is_complete) = self.stage.media(viewer);
        // A stream of unknown format goes out as it came, and is not held.
        let mut pieces = FILE.windows(media.len().max(1));
        if !is_complete && media.len() < UNKNOWN_BYTES_MAX && pieces.any(|piece| piece == media) {
            return 0;
        }
        assert!(media.len().is_multiple_of(PACKET_BYTES), "part of a packet");
        assert!(!is_complete || self.is_completed, "a clean end of nothing");
        let mut jumps = 0;
        let mut place: Option<usize> = None;
        for packet in media.chunks(PACKET_BYTES).filter_map(without_mark) {
            let next = place.map(|place| place + PACKET_BYTES);
            let goes_on = next.is_some_and(|next| FILE[next..].starts_with(&packet));
            place = if goes_on {
                next
            } else {
                jumps += 1;
                let packets = FILE.chunks(PACKET_BYTES);
                let found = packets.enumerate().find(|(_, known)| **known == packet);
                let (number, _) = found.expect("a packet of the file");
                Some(number * PACKET_BYTES)
            };
        }
        // Each source sends two packets of tables first, and continues at a join point.
        assert!(jumps <= 3 * self.sources, "{jumps} jumps");
        jumps
    }
}

/// Returns a packet without its discontinuity mark, if it has nothing but the mark. The file's own
/// packets have no mark.
fn without_mark(packet: &[u8]) -> Option<Vec<u8>> {
    let mut packet = packet.to_vec();
    let has_flags = packet[3] & 0x20 != 0 && packet[4] > 0;
    let is_marked = has_flags && packet[5] & 0x80 != 0;
    if is_marked && packet[3] & 0x10 == 0 {
        return None;
    }
    packet[5] &= if has_flags { 0x7f } else { 0xff };
    Some(packet)
}

/// An origin's answer for a token may change while viewers wait for its stream.
#[test]
fn an_origin_is_asked_again_while_viewers_are_held() {
    let options = ["--hold=60", "--origin=http://10.1.0.1:8000"];
    let mut stage = Stage::new(&options);
    let viewer = stage.viewer("a");
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let origin = stage.answer(head);
    let chunk = |media: &[u8]| {
        let line = format!("{:x}\r\n", media.len());
        [line.as_bytes(), media, b"\r\n"].concat()
    };
    let now = stage.now;
    stage.relay.received(origin, &chunk(FILE), now);
    stage.settle();
    stage.lose(origin);
    for _ in 0..3 {
        stage.wait_seconds(8);
        stage.answer("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    }
    stage.wait_seconds(8);
    let origin = stage.answer(head);
    let now = stage.now;
    stage.relay.received(origin, &chunk(FILE), now);
    stage.send(origin, "0\r\n\r\n");
    let (media, is_complete) = stage.media(viewer);
    assert!(is_complete && media.len() > FILE.len() * 3 / 2);
}

/// A viewer that an origin admitted watches that origin's stream only. A source that publishes here
/// is for viewers with a token of this server.
#[test]
fn viewers_that_an_origin_admitted_do_not_watch_a_local_source() {
    let origin_head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let media = |stage: &mut Stage, id: ConnectionId| {
        let chunk = [format!("{:x}\r\n", FILE.len()).as_bytes(), FILE, b"\r\n"].concat();
        let now = stage.now;
        stage.relay.received(id, &chunk, now);
        stage.settle();
    };
    for (direction, stays) in [("in", false), ("both", true)] {
        for by_rtp in [false, true] {
            let mut stage = Stage::new(&[
                "--hold=60",
                "--origin=http://10.1.0.1:8000",
                "--origin-tokens",
                "--token-server=10.0.0.1",
            ]);
            stage.relay.set_rtp(SocketAddr::from(([10, 9, 0, 1], 5004)));
            let viewer = stage.viewer("a");
            let origin = stage.answer(origin_head);
            let key = "POST /api/add-token?type=http&sessionid=key&for=a&direction=out";
            let key = stage.client(&format!("{key} HTTP/1.1\r\nHost: 10.9.0.1\r\n\r\n"));
            stage.assert_status(key, 201);
            let by_key = stage.viewer("key");
            media(&mut stage, origin);
            stage.lose(origin);
            let before = stage.media(viewer).0.len();
            assert!(before > 0 && !stage.closed.contains(&viewer), "it is held");
            let add = format!(
                "POST /api/add-token?type=http,rtp-udp&sessionid=a&udp-clients=10.0.0.2:6000&direction={direction}"
            );
            let add = stage.client(&format!("{add} HTTP/1.1\r\nHost: 10.9.0.1\r\n\r\n"));
            stage.assert_status(add, 201);
            if by_rtp {
                for (number, payload) in FILE.chunks(7 * PACKET_BYTES).enumerate() {
                    let mut packet = vec![0x80, 33, 0, number as u8, 0, 0, 0, 0, 1, 2, 3, 4];
                    packet.extend(payload);
                    stage.arrive("10.0.0.2:6000", &packet);
                }
            } else {
                let head =
                    "PUT /stream/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
                let source = stage.client(head);
                media(&mut stage, source);
            }
            assert_eq!(
                stage.media(viewer).0.len() > before,
                stays,
                "{direction} {by_rtp}"
            );
            // A key of this server is good for its own source.
            assert!(stage.media(by_key).0.len() > before, "{direction} {by_rtp}");
            assert!(!stage.closed.contains(&by_key), "{direction} {by_rtp}");
            stage.wait_seconds(3);
            assert_eq!(
                stage.closed.contains(&viewer),
                !stays,
                "{direction} {by_rtp}"
            );
        }
    }
}

/// A held stream of an origin that refuses by now is closed to new viewers.
#[test]
fn an_origins_refusal_replaces_its_earlier_consent() {
    let mut stage = Stage::new(&[
        "--hold=60",
        "--origin=http://10.1.0.1:8000",
        "--origin-tokens",
        "--token-server=10.0.0.1",
        "--rtp=off",
    ]);
    let held = stage.viewer("a");
    let origin = stage.answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunk = [format!("{:x}\r\n", FILE.len()).as_bytes(), FILE, b"\r\n"].concat();
    let now = stage.now;
    stage.relay.received(origin, &chunk, now);
    stage.settle();
    stage.lose(origin);
    let meanwhile = stage.viewer("a");
    stage.assert_status(meanwhile, 200);
    stage.wait_seconds(8);
    stage.answer("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    let late = stage.viewer("a");
    stage.assert_status(late, 403);
    assert!(!stage.closed.contains(&held));
    stage.wait_seconds(8);
    stage.answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    let again = stage.viewer("a");
    assert!(
        !stage.text(again).contains(" 403 "),
        "{}",
        stage.text(again)
    );
}

#[test]
fn viewers_of_sources_that_come_and_go_get_whole_packets_in_order() {
    let mut have_outlived = 0;
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
        }
        for viewer in world.viewers.clone() {
            have_outlived += usize::from(world.check_viewer(viewer) > 3);
            if !world.stage.closed.contains(&viewer) {
                world.stage.lose(viewer);
            }
        }
        world.lose_source();
        for _ in 0..20 {
            world.stage.wait_seconds(4);
            while !world.stage.calls.is_empty() {
                let (id, ..) = world.stage.call();
                world.stage.lose(id);
            }
        }
        world.stage.assert_nothing_left();
    }
    assert!(
        have_outlived > SEEDS as usize / 2,
        "{have_outlived} viewers only"
    );
}

fn chunked(media: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", media.len()).as_bytes(), media, b"\r\n"].concat()
}

/// Begins a source and sends its media in pieces.
fn source(stage: &mut Stage, media: &[u8]) -> ConnectionId {
    let head = "PUT /stream/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    let id = stage.client(head);
    for piece in media.chunks(30_000) {
        stage.send(id, &chunked(piece));
    }
    id
}

/// A session has a source, or viewers that wait for one, or neither.
#[test]
fn a_session_whose_viewers_wait_has_no_source() {
    let mut stage = Stage::new(&["--hold=5"]);
    let state = |stage: &Stage, session: &str| {
        let (streams, session) = (&stage.relay.streams, name(session));
        let is_held = streams.held(&session).is_some();
        (
            streams.runs(&session),
            streams.has_source(&session),
            is_held,
        )
    };
    assert_eq!(state(&stage, "a"), (false, false, false));
    let first = source(&mut stage, FILE);
    stage.viewer("a");
    assert_eq!(state(&stage, "a"), (true, true, false));
    assert_eq!(state(&stage, "b"), (false, false, false));
    stage.lose(first);
    assert_eq!(state(&stage, "a"), (true, false, true));
    let second = source(&mut stage, FILE);
    assert_eq!(state(&stage, "a"), (true, true, false));
    stage.lose(second);
    stage.wait_seconds(6);
    assert_eq!(state(&stage, "a"), (false, false, false));
}

/// A stream is held for `--hold` and no longer, only with viewers, and only with the option.
#[test]
fn a_stream_is_held_for_its_viewers_and_for_its_time() {
    for (option, watches, is_held) in [
        ("--hold=5", true, true),
        ("--hold=5", false, false),
        ("--hold=0", true, false),
    ] {
        let mut stage = Stage::new(&[option]);
        let source = source(&mut stage, FILE);
        let viewer = watches.then(|| stage.viewer("a"));
        stage.lose(source);
        for _ in 0..4 {
            let held = stage.relay.streams.held(&name("a"));
            assert_eq!(held.is_some(), is_held, "{option} {watches}");
            stage.wait_seconds(1);
        }
        let is_closed = viewer.is_some_and(|id| stage.closed.contains(&id));
        assert_eq!(is_closed, watches && !is_held, "{option}");
        stage.wait(Duration::from_millis(1100));
        assert!(stage.relay.streams.held(&name("a")).is_none());
        if let Some(viewer) = viewer {
            // The viewer has got the end, and is closed soon.
            stage.wait_seconds(3);
            assert!(stage.closed.contains(&viewer) && !stage.media(viewer).1);
        }
        stage.assert_nothing_left();
    }
    // The last viewer that leaves ends the wait.
    let mut stage = Stage::new(&["--hold=5"]);
    let source = source(&mut stage, FILE);
    let viewers = [stage.viewer("a"), stage.viewer("a")];
    stage.lose(source);
    for (place, viewer) in viewers.into_iter().enumerate() {
        stage.lose(viewer);
        let held = stage.relay.streams.held(&name("a"));
        assert_eq!(held.is_some(), place == 0);
    }
    stage.assert_nothing_left();
}

/// The event counts the viewers of all containers.
#[cfg(feature = "remux")]
#[test]
fn viewers_of_remuxed_streams_are_counted_when_their_stream_is_held() {
    let mut stage = Stage::new(&["--hold=5"]);
    let source = source(&mut stage, FILE);
    stage.viewer("a");
    stage.viewer("a/live.mp4");
    stage.relay.lost(source, stage.now);
    let actions = std::iter::from_fn(|| stage.relay.next_action());
    let lines = actions.filter_map(|action| match action {
        Action::Log(line) => Some(line),
        _ => None,
    });
    let held: Vec<String> = lines.filter(|line| line.contains("stream-held")).collect();
    assert!(held.len() == 1 && held[0].contains("viewers=2"), "{held:?}");
}

/// A stream of unknown format goes out as it came, so no source could continue it. A server that
/// shuts down holds nothing.
#[test]
fn a_stream_that_no_source_can_continue_is_not_held() {
    for (media, closes, is_held) in [
        (FILE, false, true),
        (&[7; 20_000][..], false, false),
        (FILE, true, false),
    ] {
        let mut stage = Stage::new(&["--hold=5"]);
        let source = source(&mut stage, media);
        stage.viewer("a");
        if closes {
            stage.relay.ctx.is_closing = true;
        }
        stage.lose(source);
        let held = stage.relay.streams.held(&name("a"));
        assert_eq!(held.is_some(), is_held, "{} {closes}", media.len());
    }
}

/// A unit is held until it is whole, up to half of the buffer. A longer one goes out as it comes.
#[test]
fn a_unit_is_held_up_to_half_of_the_buffer() {
    const FLV: &[u8] = include_bytes!("../../../../tests/media/h264.flv");
    // After the file's head: the tags with metadata and decoder setup, and some more.
    let mut tags = Vec::new();
    let mut rest = &FLV[13..];
    while rest.len() > 15 && tags.len() < 8 {
        let length = u32::from_be_bytes([0, rest[1], rest[2], rest[3]]) as usize + 15;
        let (tag, behind) = rest.split_at(length);
        tags.push(tag);
        rest = behind;
    }
    let last = tags[tags.len() - 1];
    for (bytes, is_held) in [(100_000_usize, true), (180_000, false)] {
        let mut stage = Stage::new(&["--hold=5", "--buffer=256K"]);
        let source = source(&mut stage, &[&FLV[..13], &tags.concat(), last].concat());
        let viewer = stage.viewer("a");
        let before = stage.media(viewer).0.len();
        // A picture of that length, of which more than half arrives.
        let length = (bytes as u32).to_be_bytes();
        let head = [&[9], &length[1..], &last[4..11], &[0x27, 1, 0, 0, 0]].concat();
        let begins = [head, vec![2; bytes / 2]].concat();
        for piece in begins.chunks(30_000) {
            stage.send(source, &chunked(piece));
        }
        let more = stage.media(viewer).0.len() - before;
        assert_eq!(more == 0, is_held, "{more} of {bytes}");
        assert!(is_held || more > 60_000, "{more} of {bytes}");
        stage.lose(source);
    }
}

/// Viewers of the old stream cannot continue and are disconnected. The source goes on, and all its
/// bytes belong to the new stream.
#[test]
fn a_source_with_other_tracks_begins_a_new_stream() {
    const FLV: &[u8] = include_bytes!("../../../../tests/media/h264.flv");
    for by_rtp in [false, true] {
        let mut stage = Stage::new(&["--hold=5", "--token-server=10.0.0.0/24"]);
        stage.relay.set_rtp(SocketAddr::from(([10, 9, 0, 1], 5004)));
        let add = "POST /api/add-token?type=http,rtp-udp&sessionid=a&udp-clients=10.0.0.2:6000";
        let add = stage.client(&format!(
            "{add}&max-bitrate=90000000 HTTP/1.1\r\nHost: 10.9.0.1\r\n\r\n"
        ));
        stage.assert_status(add, 201);
        let first = source(&mut stage, FLV);
        let waits = stage.viewer("a");
        let before = stage.media(waits).0.len();
        stage.lose(first);
        assert!(stage.relay.streams.held(&name("a")).is_some());
        let (half, rest) = FILE.split_at(FILE.len() / 2 / PACKET_BYTES * PACKET_BYTES);
        let mut number = 0;
        let mut by_datagrams = |stage: &mut Stage, media: &[u8]| {
            for payload in media.chunks(7 * PACKET_BYTES) {
                let mut packet = vec![0x80, 33, 0, number, 0, 0, 0, 0, 1, 2, 3, 4];
                number += 1;
                packet.extend(payload);
                stage.arrive("10.0.0.2:6000", &packet);
            }
        };
        let mut second = None;
        if by_rtp {
            by_datagrams(&mut stage, half);
        } else {
            second = Some(source(&mut stage, half));
        }
        // The viewer has got the end, and is closed soon.
        stage.wait_seconds(3);
        assert!(stage.relay.streams.has_source(&name("a")), "{by_rtp}");
        assert!(
            stage.closed.contains(&waits) && !stage.media(waits).1,
            "{by_rtp}"
        );
        assert_eq!(stage.media(waits).0.len(), before);
        let viewer = stage.viewer("a");
        let begun = stage.media(viewer).0.len();
        assert!(begun > 0, "{by_rtp}");
        if let Some(second) = second {
            for piece in rest.chunks(30_000) {
                stage.send(second, &chunked(piece));
            }
        } else {
            by_datagrams(&mut stage, rest);
        }
        assert!(stage.media(viewer).0.len() > begun + 10_000, "{by_rtp}");
        let rows = stage.relay.streams.rows((0, 0), &stage.relay.ctx);
        let rows: Vec<_> = rows
            .map(|(_, row)| serde_json::to_value(&row).expect("a row"))
            .collect();
        assert_eq!(rows.len(), 1);
        let protocol = if by_rtp { "rtp-udp" } else { "http" };
        assert_eq!(rows[0]["source"]["protocol"], protocol);
        let has_quota = rows[0]["source"]["too_fast"].is_number();
        assert_eq!(has_quota, by_rtp, "what its token allows goes with it");
    }
}

/// The new stream takes over the pull, which does not end with the old stream.
#[test]
fn a_source_that_begins_a_new_stream_keeps_its_state() {
    let mut stage = Stage::new(&["--hold=5"]);
    source(&mut stage, FILE);
    let (streams, ctx) = (&mut stage.relay.streams, &mut stage.relay.ctx);
    let (old, source) = streams.running_source(&name("a")).expect("it runs");
    let pull = crate::relay::PullId::from_u64(3);
    streams.set_pull(old, pull, "1.1 here".to_owned());
    let stream = streams.streams.get_mut(old).expect("it is there");
    stream.source_type = Some("video/mp2t".to_owned());
    let new = streams.begin_anew(old, ctx).expect("another stream");
    assert_eq!(streams.running_source(&name("a")), Some((new, source)));
    assert_eq!(streams.source_of(new), Some((source, Some(pull))));
    assert!(new != old && !streams.has(old), "nobody watched it");
    let stream = streams.streams.get(new).expect("it is there");
    assert_eq!(stream.via.as_deref(), Some("1.1 here"));
    assert_eq!(stream.buffer.media_type(), Some("video/mp2t"));
    assert!(streams.begin_anew(StreamId::from_u64(77), ctx).is_none());
}

#[cfg(feature = "handover")]
#[test]
fn a_stream_is_held_for_the_time_of_the_new_options() {
    for (hold, is_held) in [
        ("--hold=30", true),
        ("--hold=2", false),
        ("--hold=0", false),
    ] {
        let mut stage = Stage::new(&["--hold=20"]);
        let source =
            stage.client("PUT /stream/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
        stage.send(source, &chunked(FILE));
        stage.viewer("a");
        stage.lose(source);
        stage.change_hands(&[hold]);
        stage.wait_seconds(3);
        assert_eq!(stage.relay.streams.len() == 1, is_held, "{hold}");
        stage.wait_seconds(18);
        assert_eq!(stage.relay.streams.len(), 0, "{hold}");
    }
}

/// Each held stream counts once and has its own deadline, beside other timers.
#[test]
fn held_streams_are_counted_and_have_their_own_deadlines() {
    let mut stage = Stage::new(&["--hold=60"]);
    let mut viewers = Vec::new();
    for session in ["a", "b", "c"] {
        let head = format!("PUT /stream/{session} HTTP/1.1\r\nHost: h\r\n");
        let source = stage.client(&format!("{head}Transfer-Encoding: chunked\r\n\r\n"));
        stage.send(source, &chunked(FILE));
        viewers.push(stage.viewer(session));
        // A request for the playlist counts as watching for a while.
        let line = format!("GET /stream/{session}/index.m3u8 HTTP/1.1");
        let list = stage.client(&format!("{line}\r\nHost: h\r\n\r\n"));
        stage.lose(list);
        let held = viewers.len() - 1;
        let sums = stage.relay.streams.sums(&stage.relay.ctx);
        assert_eq!((sums.held, sums.running), (held, held + 1));
        let all = stage.relay.ctx.settings().limits.buffers_bytes_max;
        assert!((1..all).contains(&sums.buffers_left));
        stage.lose(source);
    }
    for _ in 0..5 {
        stage.wait_seconds(11);
        let sums = stage.relay.streams.sums(&stage.relay.ctx);
        assert_eq!((sums.held, sums.running), (3, 3));
    }
    for viewer in &viewers {
        assert!(!stage.closed.contains(viewer));
    }
    stage.wait_seconds(9);
    stage.assert_nothing_left();
}

/// Where `--buffers` leaves a stream less than a unit takes, the unit passes as it comes. Held until
/// it is whole, it would overwrite its own beginning.
#[test]
fn viewers_get_units_that_are_longer_than_the_memory_left() {
    let mut stage = Stage::new(&["--hold=30", "--buffer=8M", "--buffers=8M"]);
    let publish = |name: &str| {
        format!("PUT /stream/{name} HTTP/1.1\r\nHost: h\r\nContent-Length: 99000000\r\n\r\n")
    };
    let other = stage.client(&publish("other"));
    stage.send_media(other, &vec![b'x'; 9 << 20]);
    let source = stage.client(&publish("a"));
    stage.send(source, b"FLV\x01\x01\0\0\0\x09\0\0\0\0");
    let size = 1_000_000u32.to_be_bytes();
    let mut tag = vec![9, size[1], size[2], size[3], 0, 0, 0, 0, 0, 0, 0, 0x17, 1];
    tag.resize(11 + 1_000_000, 0);
    tag.extend(1_000_011u32.to_be_bytes());
    let viewer = stage.viewer("a");
    for _ in 0..3 {
        tag.chunks(40_000).for_each(|piece| {
            stage.send(source, piece);
        });
    }
    assert_eq!(stage.media(viewer).0.len(), 13 + 3 * tag.len());
}

/// A unit that is held goes out together with the piece in which it ends. The buffer keeps both.
#[test]
fn a_viewer_that_keeps_up_skips_nothing_when_units_are_held() {
    let tag = |kind: u8, bytes: usize| {
        let size = (bytes as u32).to_be_bytes();
        let mut tag = vec![9, size[1], size[2], size[3], 0, 0, 0, 0, 0, 0, 0, kind, 1];
        tag.resize(11 + bytes, 0);
        tag.extend((bytes as u32 + 11).to_be_bytes());
        tag
    };
    let put = |name: &str| {
        format!("PUT /stream/{name} HTTP/1.1\r\nHost: h\r\nContent-Length: 99000000\r\n\r\n")
    };
    for (has_rival, unit) in [
        (true, 12_000),
        (true, 14_000),
        (true, 15_000),
        (true, 15_800),
        (false, 120_000),
        (false, 130_000),
    ] {
        let mut stage = Stage::new(&["--hold=30", "--buffer=256K", "--buffers=256K", "--bundle=0"]);
        if has_rival {
            let rival = stage.client(&put("rival"));
            stage.send_media(rival, &[b'x'; 300_000]);
        }
        let source = stage.client(&put("a"));
        stage.send(source, b"FLV\x01\x01\0\0\0\x09\0\0\0\0");
        stage.send(source, &tag(0x17, 100));
        let viewer = stage.viewer("a");
        let round = [tag(0x27, unit), tag(0x27, 100).repeat(2 * unit / 115)].concat();
        let media = round.repeat(20);
        let mut rest = &media[..];
        while !rest.is_empty() {
            let wanted = stage.relay.bytes_wanted(source).min(rest.len());
            stage.send(source, &rest[..wanted]);
            rest = &rest[wanted..];
        }
        let sums = stage.relay.streams.sums(&stage.relay.ctx);
        assert_eq!(sums.figures.skips, 0, "{has_rival} {unit}");
        assert!(stage.media(viewer).0.len() > media.len() - unit, "{unit}");
    }
}
