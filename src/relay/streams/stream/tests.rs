//! A single stream, and streams in a simulated server: their outputs, when a source is read, and
//! their memory.
#![cfg(feature = "default")]

use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::format::mpegts::{PACKET_BYTES, SYNC_BYTE};
use crate::gate::session;
use crate::gate::{Destination, Transport};
use crate::relay::stage::Stage;
use crate::relay::stage::address;
use crate::relay::streams::rtp_out::TsOutput;
use crate::relay::{Outgoing, write_next};
use crate::remux::Target;
use crate::rtp::Packet;

const FLV: &[u8] = include_bytes!("../../../../tests/media/h264.flv");
const MP3: &[u8] = include_bytes!("../../../../tests/media/sound.mp3");
const CLIENT: &str = "10.2.0.1:6000";
const CAMERA: &str = "10.2.0.2:6000";

/// Returns MPEG-TS packets with a clock reference each, this many milliseconds apart.
fn packets(count: u64, milliseconds: u64) -> Vec<u8> {
    let packet = |number: u64| {
        let mut packet = [0xff; PACKET_BYTES];
        let base = number * 90 * milliseconds;
        packet[..6].copy_from_slice(&[SYNC_BYTE, 1, 0, 0x30, 7, 0x10]);
        packet[6..10].copy_from_slice(&((base >> 1) as u32).to_be_bytes());
        packet[10..12].copy_from_slice(&[(base as u8 & 1) << 7 | 0x7e, 0]);
        packet
    };
    (0..count).flat_map(packet).collect()
}

/// How a source arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Http,
    Rtp,
    Bare,
}

/// Begins a stream from such a source that has sent this, without viewers and clients.
fn begin(stage: &mut Stage, by: By, media: &[u8]) -> StreamId {
    let (streams, ctx) = (&mut stage.relay.streams, &mut stage.relay.ctx);
    let from = address(CAMERA);
    let source = match by {
        By::Http => StreamSource::Http(ConnectionId::from_u64(1)),
        By::Rtp | By::Bare => StreamSource::Rtp(from),
    };
    let id = streams.begin_stream(session("s"), None, source, from, ctx);
    let header = Packet::header(33, 1, 0, 7);
    match by {
        By::Http => {}
        By::Rtp => {
            let packet = Packet::parse(&header).expect("a packet");
            streams.begin_rtp(id, from, &packet, ctx);
        }
        By::Bare => streams.begin_bare(id, from, ctx),
    }
    let stream = streams.streams.get_mut(id).expect("it is there");
    stream.buffer.append(media, &mut streams.pool, ctx.now());
    id
}

fn stream(stage: &mut Stage, id: StreamId) -> &mut Stream {
    stage
        .relay
        .streams
        .streams
        .get_mut(id)
        .expect("it is there")
}

fn seat(stream: &mut Stream) {
    let client = Destination {
        address: address(CLIENT),
        transport: Transport::Bare,
    };
    stream
        .rtp_out
        .udp_out
        .set_clients(Rc::new([client]), None, || 7);
}

/// RTP goes out as it came, even after its source is gone. Other possible MPEG-TS is sent from the
/// buffer, once there is a client.
#[test]
fn only_possible_mpeg_ts_without_rtp_needs_an_output_from_the_buffer() {
    let unknown = [7; 20_000];
    let known = packets(20, 0);
    for (by, media, needs) in [
        (By::Http, &known[..], true),
        (By::Http, b"G", true),
        (By::Bare, &known, true),
        (By::Bare, b"", true),
        (By::Rtp, &known, false),
        (By::Rtp, b"", false),
        (By::Http, FLV, false),
        (By::Http, &unknown, false),
        (By::Bare, &unknown, false),
    ] {
        let case = format!("{by:?}, {} bytes", media.len());
        for is_held in [false, true] {
            let mut stage = Stage::new(&[]);
            let id = begin(&mut stage, by, media);
            let until = stage.now;
            let stream = stream(&mut stage, id);
            if is_held {
                stream.source = StreamSource::Held { until };
            }
            assert!(!stream.needs_transport(), "{case}: for nobody");
            assert!(!stream.is_wanted(), "{case}");
            seat(stream);
            assert!(stream.is_wanted() && !stream.is_watched(), "{case}");
            assert_eq!(stream.needs_transport(), needs, "{case}, held: {is_held}");
            let is_undecided = media.len() < 2;
            assert_eq!(stream.is_undecided(), is_undecided, "{case}");
            stream.rtp_out.ts_output = Some(TsOutput::new(0, 7));
            assert!(!stream.needs_transport(), "{case}: a second one");
            stream.rtp_out.ts_output = None;
            stream.buffer.finish(End::Complete);
            assert!(!stream.needs_transport(), "{case}: it has ended");
            assert!(!stream.is_undecided(), "{case}");
        }
    }
}

/// A player with a playlist counts as a viewer.
#[test]
fn a_stream_is_watched_by_viewers_and_by_playlist() {
    let mut stage = Stage::new(&[]);
    let id = begin(&mut stage, By::Http, b"");
    let now = stage.now;
    let stream = stream(&mut stage, id);
    assert!(!stream.is_watched() && !stream.is_wanted());
    stream.watched_until = Some(now);
    assert!(stream.is_watched() && stream.is_wanted());
    let viewer = stream.buffer.join(ConnectionId::from_u64(5), now);
    assert!(stream.is_watched() && stream.is_wanted());
    stream.watched_until = None;
    assert!(stream.is_watched() && stream.is_wanted());
    stream.buffer.leave(viewer);
    assert!(!stream.is_watched() && !stream.is_wanted());
}

#[test]
fn why_a_stream_cannot_go_out_by_rtp() {
    let remux_target = |target: Format, fault: &str| RemuxTarget {
        target: *Target::ALL
            .iter()
            .find(|it| it.format() == target)
            .expect("there is this one"),
        stream: None,
        fault: Some(fault.into()),
    };
    let unknown = [7; 20_000];
    let not = Some("not MPEG-TS");
    let packets = packets(20, 0);
    for (remux, by, media, expected) in [
        ("on", By::Http, &b""[..], None),
        ("on", By::Http, &packets, None),
        ("off", By::Http, &packets, None),
        ("on", By::Http, FLV, None),
        ("off", By::Http, FLV, not),
        ("on", By::Http, MP3, not),
        ("on", By::Http, &unknown, not),
        ("on", By::Bare, &unknown, not),
        ("on", By::Rtp, &unknown, None),
        ("on", By::Rtp, MP3, None),
    ] {
        let mut stage = Stage::new(&[&format!("--remux={remux}")]);
        let id = begin(&mut stage, by, media);
        let stream = stage.relay.streams.streams.get(id).expect("it is there");
        let fault = stream.rtp_fault(&stage.relay.ctx);
        assert_eq!(fault, expected, "{remux} {by:?} {}", media.len());
    }
    let mut stage = Stage::new(&[]);
    let id = begin(&mut stage, By::Http, FLV);
    let fault = |stage: &Stage| {
        let stream = stage.relay.streams.streams.get(id).expect("it is there");
        stream.rtp_fault(&stage.relay.ctx).map(str::to_owned)
    };
    stream(&mut stage, id)
        .remux_targets
        .push(remux_target(Format::Mp4, "of MP4"));
    assert_eq!(fault(&stage), None, "another container's is not its");
    let mut remux_targets = vec![remux_target(Format::MpegTs, "of MPEG-TS")];
    stream(&mut stage, id)
        .remux_targets
        .append(&mut remux_targets);
    assert_eq!(fault(&stage).as_deref(), Some("of MPEG-TS"));
    stream(&mut stage, id).cast_again_at = Some(Instant::START);
    let fault = fault(&stage).expect("there is no room");
    assert!(fault.contains("needs one more --buffer"), "{fault}");
}

/// Returns the connections that are to be read again, and the log lines. Writes nothing.
fn actions(stage: &mut Stage) -> (Vec<ConnectionId>, Vec<String>) {
    let (mut wanted, mut lines) = (Vec::new(), Vec::new());
    while let Some(action) = stage.relay.next_action() {
        match action {
            Action::ReadOn(id) => wanted.push(id),
            Action::Log(line) => lines.push(line),
            _ => {}
        }
    }
    (wanted, lines)
}

fn put(stage: &mut Stage, media: &[u8]) -> ConnectionId {
    let head = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n";
    let source = stage.client(head);
    stage.send(source, media);
    source
}

fn write_all(stage: &mut Stage) {
    let whole =
        |_: ConnectionId, output: &crate::gather::Gather<'_>| Outgoing::Whole(output.bytes());
    while write_next(&mut stage.relay, stage.now, whole).is_some() {}
}

/// A source is not read while viewers that could take it have unsent bytes. It is read again once
/// they have them or have left, and this is reported once.
#[test]
fn a_source_is_read_again_when_its_viewers_have_caught_up() {
    for leaves in [false, true] {
        let mut stage = Stage::new(&["--buffer=256K"]);
        let source = put(&mut stage, &[7; 1_000]);
        let viewers = [0; 2].map(|_| stage.viewer("s"));
        assert_eq!(actions(&mut stage).0, [], "it was not waiting");
        assert!(stage.relay.bytes_wanted(source) > 1);
        write_all(&mut stage);
        for _ in 0..5 {
            stage.relay.received(source, &[7; 40_000], stage.now);
        }
        assert_eq!(stage.relay.bytes_wanted(source), 0);
        assert_eq!(actions(&mut stage).0, []);
        if leaves {
            for (place, viewer) in viewers.into_iter().enumerate() {
                stage.relay.lost(viewer, stage.now);
                let wanted = actions(&mut stage).0;
                assert_eq!(wanted.contains(&source), place == 1, "{place}");
            }
        } else {
            write_all(&mut stage);
            assert_eq!(actions(&mut stage).0, [source]);
        }
        assert!(stage.relay.bytes_wanted(source) > 1);
        stage.relay.received(source, &[7; 1_000], stage.now);
        write_all(&mut stage);
        assert_eq!(actions(&mut stage).0, [], "it is read already");
        stage.lose(source);
    }
}

fn with_client(options: &[&str]) -> Stage {
    let mut stage = Stage::new(&[&["--token-server=10.0.0.0/24"], options].concat());
    stage.relay.set_rtp(SocketAddr::from(([10, 0, 0, 9], 5004)));
    let query = format!("type=http,rtp-udp&sessionid=s&udp-clients={CLIENT}");
    let add = format!("POST /api/add-token?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let added = stage.client(&add);
    stage.assert_status(added, 201);
    stage
}

/// Sends the datagrams that are due within this time.
fn post(stage: &mut Stage, time: Duration) {
    let until = stage.now + time;
    loop {
        while stage.relay.next_datagrams(stage.now, &[]).is_some() {}
        let Some(due) = stage.relay.next_deadline().filter(|due| *due <= until) else {
            stage.now = until;
            return;
        };
        stage.now = due.max(stage.now);
        stage.relay.expire(stage.now);
    }
}

/// UDP clients get a stream at the pace of its clock. Its source waits for that, and for its
/// viewers.
#[test]
fn a_source_that_is_ahead_of_its_clock_waits_with_and_without_viewers() {
    for is_watched in [false, true] {
        let mut stage = with_client(&["--buffer=256K", "--source-idle-time=5"]);
        // 5,000 bytes last a second.
        let media = packets(1_000, 36);
        let source = put(&mut stage, &media[..10 * PACKET_BYTES]);
        let viewer = is_watched.then(|| stage.viewer("s"));
        write_all(&mut stage);
        for piece in media[10 * PACKET_BYTES..].chunks(20_000) {
            stage.relay.received(source, piece, stage.now);
        }
        assert_eq!(stage.relay.bytes_wanted(source), 0);
        // The viewers have all bytes, but the clock is still behind.
        write_all(&mut stage);
        assert_eq!(actions(&mut stage).0, []);
        if let Some(viewer) = viewer {
            assert!(stage.relay.clients.has(viewer));
        }
        post(&mut stage, Duration::from_secs(5));
        assert_eq!(actions(&mut stage).0, [], "still far ahead");
        assert_eq!(stage.relay.bytes_wanted(source), 0);
        // Longer than the idle time: the source is not silent, as it is not read.
        post(&mut stage, Duration::from_millis(5_400));
        assert_eq!(actions(&mut stage).0, [], "ahead still");
        assert_eq!(stage.relay.streams.running(), 1);
        post(&mut stage, Duration::from_secs(4));
        assert_eq!(stage.relay.streams.running(), 1);
        assert!(actions(&mut stage).0.contains(&source));
        assert!(stage.relay.bytes_wanted(source) > 1);
        stage.lose(source);
    }
}

/// The source waits for its viewers, although the UDP clients have all that is due.
#[test]
fn a_source_that_waits_for_viewers_is_not_read_for_udp_clients() {
    let mut stage = with_client(&["--buffer=256K"]);
    let media = packets(1_000, 1);
    let source = put(&mut stage, &media[..10 * PACKET_BYTES]);
    stage.viewer("s");
    write_all(&mut stage);
    for piece in media[10 * PACKET_BYTES..].chunks(20_000) {
        stage.relay.received(source, piece, stage.now);
    }
    assert_eq!(stage.relay.bytes_wanted(source), 0);
    actions(&mut stage);
    post(&mut stage, Duration::from_secs(2));
    assert_eq!(actions(&mut stage).0, []);
    write_all(&mut stage);
    assert_eq!(actions(&mut stage).0, [source]);
    stage.lose(source);
}

/// The reason is logged once, however many bytes follow.
#[test]
fn the_reason_against_rtp_is_logged_once() {
    for (options, media, is_said) in [
        (&["--remux=off"][..], FLV, true),
        (&["--remux=on"], FLV, false),
        (&["--remux=off"], MP3, true),
    ] {
        let mut stage = with_client(options);
        let head = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n";
        let source = stage.client(head);
        let mut said = 0;
        for piece in media.chunks(media.len() / 30) {
            stage.relay.received(source, piece, stage.now);
            let (_, lines) = actions(&mut stage);
            said += lines
                .iter()
                .filter(|it| it.contains("event=no-rtp"))
                .count();
        }
        assert_eq!(said, usize::from(is_said), "{options:?}");
        stage.lose(source);
    }
}

fn rows(stage: &Stage) -> Vec<Value> {
    let rows = stage.relay.streams.rows((0, 0), &stage.relay.ctx);
    let rows = rows.map(|(_, row)| serde_json::to_value(&row).expect("a row"));
    rows.collect()
}

#[test]
fn streams_have_numbers_in_the_order_of_their_begin_times() {
    let mut stage = Stage::new(&[]);
    for name in ["a", "b", "c"] {
        let head = format!("PUT /stream/{name} HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nx");
        stage.client(&head);
        stage.wait_seconds(2);
    }
    let rows = rows(&stage);
    let began: Vec<_> = rows.iter().map(|row| row["started_at"].as_u64()).collect();
    assert_eq!(began, [Some(0), Some(2), Some(4)]);
    let serials: Vec<u64> = {
        let streams = stage.relay.streams.streams.iter();
        streams.map(|(_, stream)| stream.serial).collect()
    };
    assert_eq!(serials, [1, 2, 3]);
    let ids: Vec<_> = rows.iter().map(|row| row["id"].to_string()).collect();
    assert!(
        ids.is_sorted() && ids[0] != ids[1] && ids[1] != ids[2],
        "{ids:?}"
    );
}

/// The loss of a source is handled once. It does not affect the stream's next source.
#[test]
fn a_stream_loses_only_its_own_source() {
    let mut stage = Stage::new(&[]);
    let id = begin(&mut stage, By::Http, b"x");
    let own = StreamSource::Http(ConnectionId::from_u64(1));
    let streams = &mut stage.relay.streams;
    let others = [
        StreamSource::Http(ConnectionId::from_u64(2)),
        StreamSource::Rtp(address(CAMERA)),
        StreamSource::Remuxed,
        StreamSource::Gone,
    ];
    assert!(streams.has_as_source(id, own));
    for other in others {
        assert!(!streams.has_as_source(id, other), "{other:?}");
        streams.source_lost(id, other, "it broke", &mut stage.relay.ctx);
        assert!(streams.has_as_source(id, own), "{other:?}");
    }
    assert!(!streams.has_as_source(StreamId::from_u64(99), own));
    streams.source_lost(id, own, "it broke", &mut stage.relay.ctx);
    assert!(!streams.has_as_source(id, own) && !streams.has(id));
}

/// With and without a stream of the session, and with and without viewers.
#[test]
fn an_abort_says_whether_the_session_existed_and_how_many_watched() {
    for viewers in [None, Some(0), Some(1), Some(3)] {
        let mut stage = Stage::new(&[]);
        let source = viewers.map(|_| put(&mut stage, &[7; 1_000]));
        let ids: Vec<_> = (0..viewers.unwrap_or(0))
            .map(|_| stage.viewer("s"))
            .collect();
        let aborted = stage.relay.end_session(&session("s"));
        stage.relay.dispatch_events();
        stage.settle();
        // The viewers have got the end, and are closed soon.
        stage.wait_seconds(3);
        assert_eq!(aborted, viewers);
        let source = source.into_iter();
        for id in source.chain(ids) {
            assert!(stage.closed.contains(&id), "{viewers:?}");
        }
        assert_eq!(stage.relay.streams.len(), 0);
        stage.assert_nothing_left();
    }
}

/// With every kind of source, the viewers get all bytes and a clean end.
#[test]
fn a_stream_ends_well_when_the_server_shuts_down() {
    let known = packets(70, 0);
    for by in ["http", "rtp-udp", "udp", "held"] {
        let mut stage = Stage::new(&["--token-server=10.0.0.0/24", "--hold=9"]);
        stage.relay.set_rtp(SocketAddr::from(([10, 0, 0, 9], 5004)));
        let query = match by {
            "http" | "held" => "type=http&sessionid=s".to_owned(),
            _ => format!("type=http,{by}&sessionid=s&udp-clients={CAMERA}"),
        };
        let add = format!("POST /api/add-token?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let added = stage.client(&add);
        stage.assert_status(added, 201);
        let mut source = None;
        match by {
            "http" | "held" => source = Some(put(&mut stage, &known)),
            _ => {
                for (number, payload) in known.chunks(7 * PACKET_BYTES).enumerate() {
                    let header = Packet::header(33, number as u16, 0, 7);
                    let head: &[u8] = if by == "udp" { &[] } else { &header };
                    let datagram = [head, payload].concat();
                    let (from, now) = (address(CAMERA), stage.now);
                    let port = crate::relay::UdpPort::Rtp;
                    stage.relay.datagram(from, port, &datagram, now);
                    stage.settle();
                }
            }
        }
        let viewer = stage.viewer("s");
        stage.assert_status(viewer, 200);
        if by == "held" {
            stage.lose(source.expect("it came"));
            assert_eq!(stage.relay.streams.running(), 1, "viewers wait");
        }
        stage.relay.shut_down(stage.now);
        stage.settle();
        assert_eq!(stage.relay.streams.running(), 0, "{by}");
        stage.wait_seconds(3);
        assert!(stage.closed.contains(&viewer), "{by}");
        assert!(stage.media(viewer).1, "{by}");
    }
}

/// Where takeover is on, the new source replaces the old one. Elsewhere it is refused.
#[test]
fn another_source_takes_over_where_it_may() {
    for takes_over in [false, true] {
        let mut stage = Stage::new(&["--takeover"][..usize::from(takes_over)]);
        let first = put(&mut stage, &[7; 1_000]);
        let viewer = stage.viewer("s");
        let second = put(&mut stage, b"the other's");
        let is_refused = stage.text(second).starts_with("HTTP/1.1 4");
        assert_eq!(is_refused, !takes_over, "{}", stage.text(second));
        let after = stage.viewer("s");
        stage.wait_seconds(3);
        assert_eq!(stage.closed.contains(&first), takes_over);
        assert_eq!(stage.closed.contains(&viewer), takes_over);
        assert_eq!(stage.relay.streams.running(), 1);
        let source = if takes_over { second } else { first };
        stage.send(source, b"and more");
        assert!(stage.media(after).0.ends_with(b"and more"));
        assert_eq!(
            stage.relay.ctx.counts.of(Count::Streams),
            1 + u64::from(takes_over)
        );
        stage.lose(source);
    }
}
