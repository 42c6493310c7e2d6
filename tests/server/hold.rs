//! `--hold`: viewers that outlive their source, through the real binary.

use std::collections::HashMap;
use std::net::UdpSocket;

use crate::support::client::Client;
use crate::support::corpus::{file, findings};
use crate::support::response::End;
use crate::support::server::Server;
use crate::support::streaming::{Source, Viewer};
use crate::support::{corpus, datagrams, free_address, until};
use tollgate::format::{Finding, mpegts};
use tollgate::rtp::Packet;

fn headers(bytes: &[u8]) -> usize {
    let findings = findings(bytes).into_iter();
    findings
        .filter(|finding| matches!(finding, Finding::Header))
        .count()
}

fn await_held(server: &Server, session: &str) {
    until("the stream is held", || {
        server.stream(session)?["held"].as_bool()?.then_some(())
    });
}

/// A source that sends a part of a file to a viewer, and breaks off.
fn broken(server: &Server, session: &str, part: &[u8]) -> Viewer {
    let target = format!("/stream/{session}");
    let mut source = Source::open(server.address(), &target);
    let viewer = Viewer::ask(server.address(), &target);
    server.await_viewers(session, 1);
    source.send(part);
    drop(source);
    await_held(server, session);
    viewer
}

#[test]
fn a_source_that_comes_back_goes_on_for_its_viewers() {
    let server = Server::gated(&["--hold=60"]);
    // The small Opus file has no more than two pages.
    let files = corpus::LATER_SOURCES.iter();
    for &(name, leaves_header_out) in files.filter(|(name, _)| *name != "opus.ogg") {
        server.admit(name);
        let file = file(name);
        let target = format!("/stream/{name}");
        let mut viewer = broken(&server, name, &file[..file.len() * 3 / 5]);
        // A viewer that comes meanwhile waits with the others.
        let mut late = Viewer::ask(server.address(), &target);
        server.await_viewers(name, 2);
        let mut source = Source::open(server.address(), &target);
        // It has to show where it goes on.
        assert_eq!(server.stream(name).expect("it runs")["held"], true);
        source.send(&file);
        until("its viewers wait no more", || {
            (server.stream(name)?["held"] == false).then_some(())
        });
        let answer = source.finish();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.json()["bytes_received"], file.len(), "{name}");
        for viewer in [&mut viewer, &mut late] {
            let (got, end) = viewer.read_to_end();
            assert_eq!(end, End::Complete, "{name}");
            assert!(!findings(&got).contains(&Finding::Unknown), "{name}");
            if leaves_header_out {
                assert_eq!(headers(&got), 1, "{name}");
            }
            // An index at the end of a file speaks of that file's bytes, and is left out.
            let index = file.windows(4).position(|bytes| bytes == b"mfra");
            let media_end = index.map_or(file.len(), |at| at - 4);
            // Of the last unit all but its time.
            assert!(
                got.ends_with(&file[media_end - 9..media_end]) && got.len() > file.len() * 9 / 10,
                "{name}: much of the second source is missing"
            );
        }
    }
}

/// Of its first picture viewers have had nothing, and of MPEG-TS too little to tell what it is.
#[test]
fn a_source_that_breaks_before_its_first_picture_is_whole_goes_on_too() {
    let server = Server::gated(&["--hold=60"]);
    for name in ["h264.ts", "h264.flv"] {
        server.admit(name);
        let file = file(name);
        let mut viewer = broken(&server, name, &file[..900]);
        let mut source = Source::open(server.address(), &format!("/stream/{name}"));
        source.send(&file);
        assert_eq!(source.finish().status(), 200);
        let (got, end) = viewer.read_to_end();
        assert_eq!((end, headers(&got)), (End::Complete, 1), "{name}");
        assert!(got.ends_with(&file[file.len() - 9..]) && got.len() > file.len() * 9 / 10);
    }
}

#[test]
fn an_edge_lets_viewers_in_while_it_waits_for_its_origin() {
    let address = free_address();
    let listen = format!("--listen={address}");
    let origin = Server::gated(&[&listen]);
    let fetch = format!("--origin=http://{address}");
    let edge = Server::gated(&[&fetch, "--origin-tokens", "--hold=60"]);
    origin.admit("demo");
    let file = file("vp8.webm");
    let mut source = Source::open(address, "/stream/demo");
    let mut viewers = vec![Viewer::ask(edge.address(), "/stream/demo")];
    origin.await_viewers("demo", 1);
    source.send(&file[..file.len() * 3 / 5]);
    edge.await_viewers("demo", 1);
    origin.signal("KILL");
    origin.forget();
    await_held(&edge, "demo");
    let metrics = edge.request("GET", "/metrics").text();
    assert!(metrics.contains("\ntollgate_held_streams 1\n"));
    viewers.push(Viewer::ask(edge.address(), "/stream/demo"));
    edge.await_viewers("demo", 2);
    let origin = Server::gated(&[&listen]);
    origin.admit("demo");
    let mut source = Source::open(address, "/stream/demo");
    origin.await_viewers("demo", 1);
    source.send(&file);
    assert_eq!(source.finish().status(), 200);
    for viewer in &mut viewers {
        let (got, end) = viewer.read_to_end();
        assert_eq!((end, headers(&got)), (End::Complete, 1));
        assert!(got.ends_with(&file[file.len() - 9..]));
    }
}

/// How often counters jump in a transport stream (ISO/IEC 13818-1 section 2.4.3.3): where a packet
/// says so, and where none does.
fn counter_jumps(transport: &[u8]) -> (usize, usize) {
    let mut newest: HashMap<u16, u8> = HashMap::new();
    let (mut marked, mut unmarked) = (0, 0);
    for bytes in transport.as_chunks::<188>().0 {
        let packet = mpegts::Packet::within(bytes, 0).expect("in step");
        let has_payload = bytes[3] & 0x10 != 0;
        let counter = bytes[3] & 15;
        let before = newest.insert(packet.pid(), counter);
        let expected = before.map(|before| (before + u8::from(has_payload)) & 15);
        if packet.pid() != 0x1fff && expected.is_some_and(|expected| expected != counter) {
            let jumps = if packet.is_discontinuous() {
                &mut marked
            } else {
                &mut unmarked
            };
            *jumps += 1;
        }
    }
    (marked, unmarked)
}

/// A UDP client gets both sources as one stream: sequence numbers continue, nothing is missing, and
/// each jump is marked for the decoder.
#[test]
fn udp_clients_stay_too() {
    let server = Server::gated(&["--hold=60", "--rtp=127.0.0.1:0"]);
    let client = datagrams::client();
    let target = format!(
        "/api/add-token?type=http,rtp-udp&sessionid=demo&udp-clients={}",
        client.local_addr().expect("its address")
    );
    assert_eq!(server.request("POST", &target).status(), 201);
    let file = file("h264.ts");
    let mut viewer = broken(&server, "demo", &file);
    let mut source = Source::open(server.address(), "/stream/demo");
    source.send(&file);
    assert_eq!(source.finish().status(), 200);
    let (whole, end) = viewer.read_to_end();
    assert_eq!(end, End::Complete);
    let (mut received, mut next, mut ssrc) = (Vec::new(), None, None);
    while received.len() < whole.len() {
        let datagram = datagrams::receive(&client);
        let packet = Packet::parse(&datagram).expect("RTP");
        assert!(next.is_none_or(|next| next == packet.sequence_number));
        assert_eq!(*ssrc.get_or_insert(packet.ssrc), packet.ssrc);
        next = Some(packet.sequence_number.wrapping_add(1));
        received.extend_from_slice(packet.payload);
    }
    assert!(received == whole);
    let (marked, unmarked) = counter_jumps(&received);
    assert_eq!(unmarked, counter_jumps(&file).1);
    assert!(marked > 0);
}

#[test]
fn a_source_with_other_tracks_begins_anew() {
    let server = Server::gated(&["--hold=60"]);
    server.admit("demo");
    let (first, second) = (file("vp8.webm"), file("vp9.webm"));
    let mut viewer = broken(&server, "demo", &first[..first.len() / 2]);
    let mut source = Source::open(server.address(), "/stream/demo");
    source.send(&second);
    server.await_line(&["event=stream-ends", "the next source has other tracks"]);
    assert_eq!(viewer.read_to_end().1, End::CutShort);
    let mut next = Viewer::ask(server.address(), "/stream/demo");
    server.await_viewers("demo", 1);
    assert_eq!(source.finish().json()["bytes_received"], second.len());
    let (got, end) = next.read_to_end();
    assert_eq!(end, End::Complete);
    assert!(got.starts_with(&second[..40]) && headers(&got) == 1);
}

#[test]
fn viewers_are_let_go_when_nobody_comes_back() {
    let server = Server::gated(&["--hold=0.3"]);
    server.admit("demo");
    let mut viewer = broken(&server, "demo", &file("h264.ts"));
    assert_eq!(viewer.read_to_end().1, End::CutShort);
    server.await_line(&[
        "event=stream-ends",
        "the source did not come back within --hold",
    ]);
    assert_eq!(server.request("GET", "/stream/demo").status(), 404);
}

#[test]
fn a_body_without_a_length_may_have_broken_off_where_it_ends() {
    let server = Server::gated(&["--hold=60", "--icecast"]);
    server.admit("demo");
    let file = file("sound.mp3");
    let connect = || {
        let mut source = Client::connect(server.address());
        let fields = [
            "Authorization: Basic c291cmNlOmRlbW8=",
            "Content-Type: audio/mpeg",
        ];
        source.send_head("SOURCE", "/demo.mp3", &fields);
        assert_eq!(source.head().status, 200);
        source
    };
    let mut first = connect();
    let mut viewer = Viewer::ask(server.address(), "/stream/demo");
    server.await_viewers("demo", 1);
    first.send(&file);
    assert!(viewer.read(file.len()) == file);
    drop(first);
    await_held(&server, "demo");
    let mut second = connect();
    second.send(&file);
    assert!(viewer.read(file.len() * 9 / 10).len() > file.len() / 2);
}

#[test]
fn the_token_server_ends_a_held_stream() {
    let server = Server::gated(&["--hold=60"]);
    server.admit("demo");
    let mut viewer = broken(&server, "demo", &file("h264.ts"));
    let aborted = server.request("DELETE", "/api/abort-stream?sessionid=demo");
    assert_eq!(aborted.json()["viewers"], 1);
    assert_eq!(viewer.read_to_end().1, End::CutShort);
    assert!(server.streams().is_empty());
}

#[test]
fn a_second_source_takes_over_without_a_viewer_noticing() {
    let server = Server::gated(&["--hold=60", "--takeover"]);
    server.admit("demo");
    let file = file("h264.mp4");
    let mut first = Source::open(server.address(), "/stream/demo");
    let mut viewer = Viewer::ask(server.address(), "/stream/demo");
    server.await_viewers("demo", 1);
    first.send(&file);
    let mut second = Source::open(server.address(), "/stream/demo");
    second.send(&file);
    assert_eq!(second.finish().status(), 200);
    let (got, end) = viewer.read_to_end();
    assert_eq!(end, End::Complete);
    assert!(got.len() > file.len() * 3 / 2 && headers(&got) == 1);
}

#[test]
fn a_second_source_gets_409_until_the_first_is_gone() {
    let server = Server::gated(&["--hold=60", "--streams=1"]);
    server.admit("demo");
    let file = file("h264.ts");
    let mut first = Source::open(server.address(), "/stream/demo");
    let _viewer = Viewer::ask(server.address(), "/stream/demo");
    server.await_viewers("demo", 1);
    first.send(&file);
    let (_, head) = Source::ask(server.address(), "PUT", "/stream/demo", &[]);
    assert_eq!(head.status, 409);
    drop(first);
    await_held(&server, "demo");
    // Its place among the streams is kept.
    let mut second = Source::open(server.address(), "/stream/demo");
    second.send(&file);
    assert_eq!(second.finish().status(), 200);
}

#[test]
fn a_stream_is_held_for_rtp_and_over_to_http() {
    let idle = "--source-idle-time=2";
    let server = Server::gated(&["--hold=60", idle, "--rtp=127.0.0.1:0", "--wait=60"]);
    let rtp = server.rtp.expect("it says where RTP is");
    let encoder = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let target = format!(
        "/api/add-token?type=http,rtp-udp&sessionid=demo&udp-clients={}",
        encoder.local_addr().expect("its address")
    );
    assert_eq!(server.request("POST", &target).status(), 201);
    let file = file("h264.ts");
    let send = |ssrc: u32, first: u16, media: &[u8]| {
        for (number, payload) in media.chunks(7 * 188).enumerate() {
            let header = Packet::header(33, first + number as u16, 9, ssrc);
            let datagram = [&header[..], payload].concat();
            encoder.send_to(&datagram, rtp).expect("sent");
        }
    };
    // A packet of MPEG-TS that says nothing.
    let null_packet = [&[0x47, 0x1f, 0xff, 0x10][..], &[0xff; 184]].concat();
    // The viewer joins first, since a silent source is lost without regard to later viewers.
    let mut viewer = Viewer::ask(server.address(), "/stream/demo");
    until("the viewer waits", || {
        let metrics = server.request("GET", "/metrics").text();
        metrics
            .contains("\ntollgate_waiting_viewers 1\n")
            .then_some(())
    });
    send(1, 0, &file);
    server.await_line(&["event=stream-begins"]);
    // It starts anew: another synchronisation source from the same address, which counts when the
    // first has been silent. Its pictures come when it does, so that none of them is passed over.
    let mut first = 0;
    until("it goes on", || {
        send(2, first, &null_packet);
        first += 1;
        let lines = server.stderr();
        let mut lines = lines.iter();
        lines
            .any(|line| line.contains("event=stream-goes-on"))
            .then_some(())
    });
    send(2, first, &file);
    await_held(&server, "demo");
    let stream = server.stream("demo").expect("it is held");
    assert_eq!(stream["source"]["protocol"], "rtp-udp");
    let mut source = Source::open(server.address(), "/stream/demo");
    source.send(&file);
    assert_eq!(source.finish().status(), 200);
    let (got, end) = viewer.read_to_end();
    assert_eq!(end, End::Complete);
    assert!(got.len() > 2 * file.len() && got.len().is_multiple_of(188));
    assert!(got.ends_with(&file[file.len() - 188..]));
    assert!(!findings(&got).contains(&Finding::Unknown));
}

#[test]
fn a_server_that_shuts_down_ends_held_streams_cleanly() {
    let mut server = Server::gated(&["--hold=60"]);
    server.admit("demo");
    let mut viewer = broken(&server, "demo", &file("h264.ts"));
    server.signal("TERM");
    assert_eq!(viewer.read_to_end().1, End::Complete);
    assert!(server.exit_status().success());
}
