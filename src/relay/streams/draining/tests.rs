//! Draining streams in a simulated server: how long they last, and that nothing outlives them.

use std::net::SocketAddr;
use std::time::Duration;

use super::{Draining, drain_time};
use crate::format::mpegts::{PACKET_BYTES, SYNC_BYTE};
use crate::gate::SessionId;
use crate::relay::counts::Count;
use crate::relay::stage::Stage;
use crate::relay::{DATAGRAMS_COST_MAX, StreamId, UdpPort};
use crate::rtp::Packet;
use crate::stream::Outcome;

const CLIENT: &str = "10.2.0.1:6000";
const CAMERA: &str = "10.2.0.2:6000";

fn stage() -> Stage {
    let mut stage = stage_with(&[]);
    admit(&mut stage, "s");
    stage
}

fn stage_with(options: &[&str]) -> Stage {
    let mut stage = Stage::new(&[&["--token-server=10.0.0.0/24"], options].concat());
    let bound = SocketAddr::from(([10, 0, 0, 9], 5004));
    stage.relay.set_rtp(bound);
    stage
}

fn admit(stage: &mut Stage, session: &str) {
    let query = format!("type=http,rtp-udp&sessionid={session}&udp-clients={CLIENT},{CAMERA}");
    call(stage, &format!("POST /api/add-token?{query}"));
}

/// Lets time pass. Returns how many bytes went out to UDP clients meanwhile.
fn pass(stage: &mut Stage, time: Duration) -> usize {
    let until = stage.now + time;
    let mut bytes = 0;
    loop {
        while let Some(datagrams) = stage.relay.next_datagrams(stage.now, &[]) {
            bytes += datagrams.bytes.len() * datagrams.to.len();
        }
        stage.settle();
        let Some(due) = stage.relay.next_deadline().filter(|due| *due <= until) else {
            stage.now = until;
            return bytes;
        };
        stage.now = due.max(stage.now);
        stage.relay.expire(stage.now);
    }
}

/// Returns MPEG-TS packets with a clock reference each, a second apart.
fn slow(packets: u64) -> Vec<u8> {
    let packet = |number: u64| {
        let mut packet = [0xff; PACKET_BYTES];
        let base = number * 90_000;
        packet[..6].copy_from_slice(&[SYNC_BYTE, 1, 0, 0x30, 7, 0x10]);
        packet[6..10].copy_from_slice(&((base >> 1) as u32).to_be_bytes());
        packet[10..12].copy_from_slice(&[(base as u8 & 1) << 7 | 0x7e, 0]);
        packet
    };
    (0..packets).flat_map(packet).collect()
}

fn put(stage: &mut Stage, media: &[u8]) {
    let length = media.len();
    let head = format!("PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n");
    let id = stage.client(&head);
    stage.send(id, media);
    stage.assert_status(id, 200);
}

fn call(stage: &mut Stage, request: &str) -> String {
    let id = stage.client(&format!("{request} HTTP/1.1\r\nHost: 10.0.0.9\r\n\r\n"));
    stage.text(id)
}

fn rtp(stage: &mut Stage, payload_type: u8, numbers: std::ops::Range<u16>, ssrc: u32) {
    for number in numbers {
        let header = Packet::header(payload_type, number, 0, ssrc);
        stage.arrive(CAMERA, &[&header[..], b"payload"].concat());
    }
}

fn goodbye(stage: &mut Stage, ssrc: u8) {
    stage.arrive(CAMERA, &[0x81, 203, 0, 1, 0, 0, 0, ssrc]);
}

/// The packets are inside an element of Matroska that does not end. Until it ends, the format is
/// unknown, and the clock in it means nothing.
#[test]
fn an_unknown_format_is_not_sent_and_sets_no_timer() {
    let mut stage = stage();
    let mut ebml = vec![0x1a, 0x45, 0xdf, 0xa3, 1, 0, 0, 0, 0, 0, 3, 0xe8];
    ebml.extend([0xec, 1, 0, 0, 0, 0, 0, 3, 0xdf]);
    let put = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n";
    let source = stage.client(put);
    stage.relay.received(source, &ebml, stage.now);
    for packet in slow(5).chunks(PACKET_BYTES) {
        stage.wait(Duration::from_millis(40));
        stage.send(source, packet);
    }
    stage.client("GET /stream/s/index.m3u8 HTTP/1.1\r\nHost: h\r\n\r\n");
    let until = stage.now + Duration::from_secs(5);
    for turns in 0.. {
        assert!(turns < 100, "it is called again and again, for nothing");
        let Some(due) = stage.relay.next_deadline().filter(|due| *due <= until) else {
            break;
        };
        stage.now = due.max(stage.now);
        stage.relay.expire(stage.now);
        stage.settle();
    }
    assert_eq!(pass(&mut stage, Duration::from_secs(1)), 0);
}

/// The first bytes are too few to detect the format.
#[test]
fn bytes_before_the_format_is_known_go_out_too() {
    let mut stage = stage();
    let media = slow(40);
    let put = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n";
    let source = stage.client(put);
    for piece in media.chunks(50) {
        stage.send(source, piece);
    }
    stage.lose(source);
    // RTP adds twelve bytes to seven packets, and two clients get them.
    let sent = pass(&mut stage, Duration::from_secs(60));
    let datagrams = 40_usize.div_ceil(7);
    let least = 2 * (media.len() + 12 * datagrams);
    assert!(sent >= least, "{sent} of {least}");
}

/// By its clock this rest would take an hour and a half.
#[test]
fn the_rest_of_a_stream_with_a_slow_clock_ends_in_time() {
    let mut stage = stage();
    let media = slow(5_000);
    put(&mut stage, &media);
    let sent = pass(&mut stage, Duration::from_secs(60));
    assert!(sent > 0 && stage.relay.streams.streams.len() == 1);
    // 60 s, and 940,000 bytes at 4,000 a second.
    let sent = pass(&mut stage, Duration::from_secs(230));
    assert!(sent > 0 && stage.relay.streams.streams.len() == 1);
    pass(&mut stage, Duration::from_secs(6));
    assert_eq!(stage.relay.streams.streams.len(), 0);
    stage.assert_nothing_left();
}

#[test]
fn the_rest_of_a_stream_ends_when_its_clients_are_revoked() {
    let mut stage = stage();
    put(&mut stage, &slow(5_000));
    pass(&mut stage, Duration::from_secs(1));
    assert_eq!(stage.relay.streams.streams.len(), 1);
    let free = stage.relay.streams.pool.bytes_left;
    let revoked = call(&mut stage, "DELETE /api/revoke-token?sessionid=s");
    assert!(revoked.starts_with("HTTP/1.1 200 "), "{revoked}");
    assert_eq!(stage.relay.streams.streams.len(), 0);
    assert!(stage.relay.streams.pool.bytes_left > free);
}

/// A publisher uploads again and again, and the viewers read nothing: the oldest streams go.
#[test]
fn a_session_has_sixteen_draining_streams_at_most() {
    let mut stage = Stage::new(&["--streams=60"]);
    let mut viewers = Vec::new();
    for round in 1..40 {
        let head = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n";
        let source = stage.client(head);
        let viewer = stage.viewer("s");
        stage.relay.served(viewer, Outcome::Blocked, stage.now);
        viewers.push(viewer);
        stage.relay.received(source, &[7; 1000], stage.now);
        stage.settle();
        stage.assert_status(source, 200);
        assert_eq!(stage.relay.streams.draining.len(), round.min(16));
        let cut = viewers
            .iter()
            .filter(|id| stage.closed.contains(id))
            .count();
        assert_eq!(cut, round.saturating_sub(16));
        assert!(viewers[..cut].iter().all(|id| stage.closed.contains(id)));
    }
    // The streams of another session stay.
    let other = stage.client("PUT /stream/t HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx");
    stage.assert_status(other, 200);
    assert_eq!(stage.relay.streams.draining.len(), 16);
}

/// The stream is removed if its bytes were too few to detect a format, or if it has no output but
/// datagrams.
#[test]
fn a_stream_of_unknown_format_is_removed_too() {
    let mut stage = stage();
    put(&mut stage, b"G");
    pass(&mut stage, Duration::from_secs(1));
    assert_eq!(
        stage.relay.streams.streams.len(),
        0,
        "of a body of one byte"
    );
    for round in 0..3 {
        rtp(&mut stage, 96, 10..20, 7);
        assert_eq!(stage.relay.streams.running.len(), 1);
        goodbye(&mut stage, 7);
        let sent = pass(&mut stage, Duration::from_secs(1));
        assert!(sent > 10 * 19, "{sent}");
        assert_eq!(
            stage.relay.streams.streams.len(),
            0,
            "of RTP, round {round}"
        );
    }
}

#[test]
fn another_ssrc_becomes_the_source_when_the_first_is_silent() {
    let mut stage = stage();
    rtp(&mut stage, 96, 0..2, 7);
    for number in 2..50 {
        rtp(&mut stage, 96, number..number + 1, 7);
        pass(&mut stage, Duration::from_millis(900));
        rtp(&mut stage, 96, 100 * number..100 * number + 20, 8);
    }
    let counts = &stage.relay.ctx.counts;
    assert_eq!(counts.of(Count::Datagrams), 50);
    assert_eq!(counts.of(Count::SecondSource), 48 * 20);
    assert_eq!(stage.relay.ctx.counts.of(Count::Streams), 1);
    pass(&mut stage, Duration::from_millis(100));
    rtp(&mut stage, 96, 1..3, 8);
    assert_eq!(stage.relay.ctx.counts.of(Count::Streams), 2);
    assert_eq!(stage.relay.streams.running.len(), 1);
    // A goodbye frees the session at once, although another stream may begin only a second later.
    goodbye(&mut stage, 8);
    assert_eq!(stage.relay.streams.running.len(), 0);
    rtp(&mut stage, 96, 1..3, 9);
    assert_eq!(stage.relay.ctx.counts.of(Count::Streams), 2);
    pass(&mut stage, Duration::from_secs(1));
    rtp(&mut stage, 96, 3..5, 9);
    assert_eq!(stage.relay.ctx.counts.of(Count::Streams), 3);
    pass(&mut stage, Duration::from_secs(1));
    goodbye(&mut stage, 9);
    rtp(&mut stage, 96, 1..3, 10);
    assert_eq!(stage.relay.ctx.counts.of(Count::Streams), 4);
}

/// Each round begins and ends a stream with three datagrams.
#[test]
fn streams_that_begin_and_end_cost_work_and_begin_once_a_second() {
    let mut stage = stage();
    let from: SocketAddr = CAMERA.parse().expect("an address");
    for round in 0..1_000u32 {
        let mut cost = 0;
        for number in 0..2 {
            let packet = Packet::header(33, number, 0, round);
            let (port, now) = (UdpPort::Rtp, stage.now);
            cost += stage.relay.datagram(from, port, &packet, now);
        }
        let bye = [&[0x81, 203, 0, 1][..], &round.to_be_bytes()].concat();
        cost += stage.relay.datagram(from, UdpPort::Rtp, &bye, stage.now);
        // This many rounds fit into one turn.
        let rounds = DATAGRAMS_COST_MAX / cost;
        assert!(if round % 100 == 0 {
            rounds < 30
        } else {
            rounds < 200
        });
        pass(&mut stage, Duration::from_millis(10));
    }
    assert_eq!(stage.relay.ctx.counts.of(Count::Streams), 10);
}

#[test]
fn a_first_packet_is_forgotten_when_no_second_comes() {
    let mut stage = stage();
    rtp(&mut stage, 33, 1..2, 7);
    assert!(!stage.relay.rtp_in.has_no_candidates());
    pass(&mut stage, Duration::from_secs(2));
    assert!(stage.relay.rtp_in.has_no_candidates());
    rtp(&mut stage, 33, 2..3, 7);
    assert_eq!(stage.relay.streams.running.len(), 0);
    rtp(&mut stage, 33, 3..4, 7);
    assert_eq!(stage.relay.streams.running.len(), 1);
}

/// RTP sources and HTTP publishers are refused in the same cases.
#[test]
fn rtp_and_http_sources_are_refused_alike() {
    let mut stage = stage();
    let blocked = call(&mut stage, "DELETE /api/abort-stream?sessionid=s&block=60");
    assert!(
        blocked.contains("{\"sessionid\":\"s\",\"viewers\":0}"),
        "{blocked}"
    );
    rtp(&mut stage, 33, 0..10, 7);
    assert_eq!(stage.relay.streams.running.len(), 0, "blocked");
    pass(&mut stage, Duration::from_secs(60));
    stage.relay.shut_down(stage.now);
    rtp(&mut stage, 33, 0..10, 7);
    assert_eq!(stage.relay.streams.running.len(), 0, "shut down");
    assert_eq!(stage.relay.ctx.counts.of(Count::Refused), 20);
}

/// Early packets wait for one that never comes. They are sent before the end, and nothing after it.
#[test]
fn early_packets_go_out_when_the_source_says_goodbye() {
    let mut stage = stage();
    rtp(&mut stage, 33, 0..2, 7);
    let viewer = stage.viewer("s");
    rtp(&mut stage, 33, 2..3, 7);
    rtp(&mut stage, 33, 4..6, 7);
    goodbye(&mut stage, 7);
    assert!(!stage.media(viewer).1, "the missing one may come");
    stage.now = stage.now + Duration::from_millis(60);
    stage.relay.expire(stage.now);
    stage.settle();
    let (media, is_complete) = stage.media(viewer);
    assert!(is_complete && media == b"payload".repeat(5), "{media:?}");
    assert_eq!(stage.relay.ctx.counts.of(Count::Lost), 1);
    assert_eq!(
        stage.relay.streams.streams.len(),
        1,
        "its clients have not got it yet"
    );
    pass(&mut stage, Duration::from_secs(1));
    assert_eq!(stage.relay.streams.streams.len(), 0);
}

/// 1,250 hosts with a token each send one large packet, and no second one.
#[test]
fn first_packets_keep_no_new_source_out() {
    let mut stage = stage();
    let header = Packet::header(33, 1, 0, 7);
    let large = [&header[..], &[0; 65_000]].concat();
    for net in 0..5 {
        let list: Vec<String> = (1..=250)
            .map(|host| format!("10.3.{net}.{host}:6000"))
            .collect();
        let clients = list.join(",");
        let query = format!("type=rtp-udp&sessionid=flood{net}&udp-clients={clients}");
        let added = call(&mut stage, &format!("POST /api/add-token?{query}"));
        assert!(added.starts_with("HTTP/1.1 201 "), "{added}");
        for from in list {
            let from = from.parse().expect("an address");
            let (port, now) = (UdpPort::Rtp, stage.now);
            stage.relay.datagram(from, port, &large, now);
        }
    }
    rtp(&mut stage, 33, 1..3, 7);
    assert_eq!(stage.relay.streams.running.len(), 1);
}

/// Sources, viewers, calls and time in random order: the invariants hold after every step, and
/// nothing is left in the end.
#[cfg(feature = "hold")]
#[test]
fn random_sequences_leave_nothing_behind() {
    let mut most = 0;
    for seed in 0..80 {
        let mut random = crate::random::Random::new(seed);
        let mut stage = stage_with(&["--streams=3", "--buffer=256K", "--hold=2", "--wait=1"]);
        let mut clients = Vec::new();
        let mut media = slow(200);
        media.extend(vec![0x47; 100]);
        for _ in 0..150 {
            let (choice, number) = (random.draw() % 12, random.draw() as u16);
            let session = ["s", "t", "u", "v"][usize::from(number) % 4];
            let piece = &media[..usize::from(number) % media.len()];
            match choice {
                0 => rtp(
                    &mut stage,
                    33,
                    number..number.saturating_add(9),
                    u32::from(number % 3),
                ),
                1 => rtp(
                    &mut stage,
                    96,
                    number..number.saturating_add(3),
                    u32::from(number % 3),
                ),
                2 => goodbye(&mut stage, (number % 3) as u8),
                3 | 4 => {
                    let length = piece.len() + usize::from(number % 2);
                    let id = stage.client(&format!("PUT /stream/{session} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n"));
                    stage.relay.received(id, piece, stage.now);
                    clients.push(id);
                }
                5 => clients.push(stage.viewer(session)),
                6 => {
                    // This viewer reads no more.
                    let id = stage.viewer(session);
                    stage.relay.served(id, Outcome::Blocked, stage.now);
                    clients.push(id);
                }
                7 if !clients.is_empty() => {
                    let id = clients.swap_remove(usize::from(number) % clients.len());
                    stage.lose(id);
                }
                8 => {
                    let query = ["", "&block=1"][usize::from(number) / 4 % 2];
                    let call_of = format!("DELETE /api/abort-stream?sessionid={session}{query}");
                    call(&mut stage, &call_of);
                }
                9 if number % 4 == 0 => {
                    let query = ["", "&abort=true"][usize::from(number) / 4 % 2];
                    call(
                        &mut stage,
                        &format!("DELETE /api/revoke-token?sessionid={session}{query}"),
                    );
                }
                9 => admit(&mut stage, session),
                _ => {
                    pass(&mut stage, Duration::from_millis(u64::from(number % 1_500)));
                }
            }
            stage.settle();
            most = most.max(stage.relay.streams.draining.len());
        }
        for session in ["s", "t", "u", "v"] {
            call(
                &mut stage,
                &format!("DELETE /api/abort-stream?sessionid={session}"),
            );
        }
        pass(&mut stage, Duration::from_secs(100));
        assert_eq!(stage.relay.streams.streams.len(), 0, "seed {seed}");
        assert!(stage.relay.streams.posting.is_empty(), "seed {seed}");
        stage.assert_nothing_left();
    }
    assert!(most >= 2, "{most} streams drain at once");
}

/// The session's own streams go first, each once, the oldest first. Others follow.
#[test]
fn a_sessions_own_streams_make_room_first() {
    let name = |name: &str| SessionId::parse(name.as_bytes()).expect("a name");
    let id = StreamId::from_u64;
    let mut draining = Draining::default();
    for (serial, session) in [(1, "s"), (2, "t"), (3, "s"), (4, "u"), (5, "t")] {
        draining.enter(&name(session), serial, id(serial));
        assert_eq!(draining.check(), serial as usize);
    }
    for (session, order) in [
        ("s", [1, 3, 2, 4, 5]),
        ("t", [2, 5, 1, 3, 4]),
        ("u", [4, 1, 2, 3, 5]),
        ("none", [1, 2, 3, 4, 5]),
    ] {
        for count in 0..7 {
            let first = draining.first_for(&name(session), count);
            assert_eq!(
                first,
                order[..count.min(5)]
                    .iter()
                    .map(|it| id(*it))
                    .collect::<Vec<_>>()
            );
        }
    }
    for (session, rests, its) in [("s", Some(3), 2), ("t", Some(5), 2), ("none", None, 0)] {
        assert_eq!(draining.draining_to_udp(&name(session)), rests.map(id));
        assert_eq!(draining.of(&name(session)).count(), its);
    }
    draining.leave(&name("s"), 3);
    assert_eq!(draining.draining_to_udp(&name("s")), Some(id(1)));
    draining.leave(&name("s"), 1);
    assert_eq!(draining.draining_to_udp(&name("s")), None);
    assert_eq!((draining.check(), draining.len()), (3, 3));
    // Sixteen streams of a session may drain, the one that begins included.
    for serial in 10..40 {
        let many = (serial - 10_usize).saturating_sub(15);
        assert_eq!(draining.too_many_of(&name("many")), many, "{serial}");
        draining.enter(&name("many"), serial as u64, id(serial as u64));
    }
}

/// The rest lasts a minute, and a second for each 4,000 bytes.
#[test]
fn the_rest_of_a_stream_has_a_minute_and_the_time_of_its_bytes() {
    for (bytes, seconds) in [
        (0, 60),
        (3_999, 60),
        (4_000, 61),
        (11_999, 62),
        (940_000, 295),
    ] {
        assert_eq!(drain_time(bytes), Duration::from_secs(seconds), "{bytes}");
    }
}

/// A session's own draining stream goes although there are places. Its last viewers are counted.
#[test]
fn viewers_that_are_cut_off_are_counted() {
    for viewers in [0, 1, 2, 5] {
        let mut stage = Stage::new(&[]);
        let put = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 2000\r\n\r\n";
        let source = stage.client(put);
        let ids: Vec<_> = (0..viewers).map(|_| stage.viewer("s")).collect();
        for id in &ids {
            stage.relay.served(*id, Outcome::Blocked, stage.now);
        }
        stage.relay.received(source, &[7; 1_000], stage.now);
        stage.settle();
        let streams = stage.relay.streams.streams.iter();
        let id = streams.map(|(id, _)| id).next().expect("a stream");
        let (streams, ctx) = (&mut stage.relay.streams, &mut stage.relay.ctx);
        assert_eq!(streams.cut_off(id, "a test", ctx), viewers);
        assert_eq!(streams.cut_off(StreamId::from_u64(77), "a test", ctx), 0);
        stage.relay.dispatch_events();
        stage.settle();
        assert!(ids.iter().all(|id| stage.closed.contains(id)));
        stage.lose(source);
        stage.assert_nothing_left();
    }
}

/// A new stream takes a place. A draining stream goes when none is left.
#[test]
fn streams_that_drain_stay_while_there_are_places() {
    let put = |stage: &mut Stage, session: &str| {
        let line = format!("PUT /stream/{session} HTTP/1.1");
        let source = stage.client(&format!("{line}\r\nHost: h\r\nContent-Length: 9\r\n\r\nx"));
        stage.settle();
        source
    };
    for (places, left) in [(3, 0), (4, 1), (5, 2), (6, 2)] {
        let mut stage = Stage::new(&[&format!("--streams={places}")]);
        for session in ["a", "b"] {
            let source = put(&mut stage, session);
            let viewer = stage.viewer(session);
            stage.relay.received(source, b"yz", stage.now);
            stage.relay.served(viewer, Outcome::Blocked, stage.now);
            stage.lose(source);
        }
        assert_eq!(stage.relay.streams.draining.len(), 2);
        for session in ["c", "d", "e"] {
            put(&mut stage, session);
        }
        assert_eq!(stage.relay.streams.draining.len(), left, "{places}");
        assert_eq!(stage.relay.streams.running(), 3, "{places}");
    }
}
