//! Held streams in worlds that a seed decides: sources of one session that break, complete and take
//! over, viewers who come and go, and an origin that does what it likes.
#![cfg(feature = "default")]

use std::net::SocketAddr;
use std::time::Duration;

use crate::random::Random;
use crate::relay::stage::Stage;
use crate::relay::{ConnectionId, UdpPort};

const PACKET_BYTES: usize = 188;
const SEEDS: u64 = 150;
const STEPS: usize = 120;
/// With so many the file is known for what it is.
const UNKNOWN_BYTES_MAX: usize = 3 * PACKET_BYTES;

/// A real transport stream, in which no two packets are the same but for tables and stuffing.
const FILE: &[u8] = include_bytes!("../../../../tests/media/h264.ts");

struct World {
    stage: Stage,
    random: Random,
    source: Option<Sending>,
    viewers: Vec<ConnectionId>,
    /// Sources that there have been.
    sources: usize,
    is_completed: bool,
}

/// A source, or an origin, and how much of the file it has sent.
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
        // An answer is a refusal; without one it is admitted.
        if self.stage.text(id).is_empty() {
            self.sources += 1;
            self.source = Some(Sending { id, sent: 0 });
        } else {
            self.stage.lose(id);
        }
    }

    /// An origin that is called answers with the stream, or not.
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

    /// A viewer has whole packets of the file, in its order but where a source followed another.
    /// Says at how many places it jumps.
    fn check_viewer(&self, viewer: ConnectionId) -> usize {
        let (media, is_complete) = self.stage.media(viewer);
        // Before its format shows a stream goes out as it comes, and is not held.
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
        // Each source has its tables first, which are two packets, and goes on at a join point.
        assert!(jumps <= 3 * self.sources, "{jumps} jumps");
        jumps
    }
}

/// A packet without the mark that says that it jumps; `None` if it is nothing else. (The file's own
/// packets have none.)
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

/// What an origin says of a token may change while viewers are held for its stream.
#[test]
fn an_origin_is_asked_again_while_viewers_are_held_whatever_it_says() {
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

/// Whom an origin has let in watches what comes of the origin. A source of this server's own is for
/// those with a token here.
#[test]
fn viewers_whom_an_origin_let_in_are_not_given_to_a_source_of_this_server() {
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
                    let (from, now) = (SocketAddr::from(([10, 0, 0, 2], 6000)), stage.now);
                    stage.relay.datagram(from, UdpPort::Rtp, &packet, now);
                    stage.settle();
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
            // It has been told, and is closed soon.
            stage.wait_seconds(3);
            assert_eq!(
                stage.closed.contains(&viewer),
                !stays,
                "{direction} {by_rtp}"
            );
        }
    }
}

/// What is held of an origin that has said no since is shown to nobody new.
#[test]
fn who_comes_after_an_origin_has_said_no_is_not_let_in_by_what_it_said_before() {
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
