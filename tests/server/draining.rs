//! Streams whose source is gone and which still go out: they are seen, ended and counted as those
//! that run.

use std::net::UdpSocket;
use std::time::Duration;

use crate::support::client::Client;
use crate::support::datagrams;
use crate::support::media::media;
use crate::support::response::End;
use crate::support::server::Server;
use crate::support::streaming::{Source, Viewer};
use crate::support::until;

const PACKET_BYTES: usize = 188;

/// Returns MPEG-TS that lasts `seconds` by its clock.
fn film(seconds: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..seconds * 25 {
        let mut packet = [0xff; PACKET_BYTES];
        let base = number * 3_600;
        packet[..6].copy_from_slice(&[0x47, 1, 0, 0x30, 7, 0x10]);
        packet[6..10].copy_from_slice(&((base >> 1) as u32).to_be_bytes());
        packet[10..12].copy_from_slice(&[(base as u8 & 1) << 7 | 0x7e, 0]);
        bytes.extend(packet);
    }
    bytes
}

fn put(server: &Server, session: &str, media: &[u8]) {
    let mut source = Source::open(server.address(), &format!("/stream/{session}"));
    source.send(media);
    assert_eq!(source.finish().status(), 200);
}

/// A session with a UDP client, whose film has been uploaded and goes out for minutes.
fn resting(server: &Server) -> UdpSocket {
    let client = datagrams::client();
    let address = client.local_addr().expect("its address");
    let target = format!("/api/add-token?type=http,rtp-udp&sessionid=tv&udp-clients={address}");
    assert_eq!(server.request("POST", &target).status(), 201);
    put(server, "tv", &film(300));
    datagrams::receive(&client);
    client
}

/// What has been sent is taken; nothing more comes.
fn assert_silent(client: &UdpSocket, server: &Server) {
    server.tokens();
    client.set_nonblocking(true).expect("an option");
    while client.recv(&mut [0; 2048]).is_ok() {}
    client.set_nonblocking(false).expect("an option");
    let wait = Some(Duration::from_millis(300));
    client.set_read_timeout(wait).expect("an option");
    let more = client.recv(&mut [0; 2048]);
    assert!(more.is_err(), "it goes on");
}

#[test]
fn what_goes_out_after_its_upload_is_listed_and_aborted() {
    let server = Server::gated(&["--rtp=127.0.0.1:0"]);
    let client = resting(&server);
    let rest = server.draining("tv");
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(
        (&rest[0]["udp_clients"], &rest[0]["viewers"]),
        (&1.into(), &0.into())
    );
    let aborted = server.request("DELETE", "/api/abort-stream?sessionid=tv");
    assert_eq!(
        (aborted.status(), &aborted.json()["viewers"]),
        (200, &0.into())
    );
    assert!(server.streams().is_empty());
    assert_silent(&client, &server);
    let again = server.request("DELETE", "/api/abort-stream?sessionid=tv");
    again.assert_problem(404, &["sessionid"]);
}

#[test]
fn a_new_source_takes_the_place_of_a_rest() {
    let server = Server::gated(&["--rtp=127.0.0.1:0", "--streams=1"]);
    let _client = resting(&server);
    let mut source = Source::open(server.address(), "/stream/tv");
    source.send(&film(1));
    let stream = until("the new one runs", || server.stream("tv"));
    assert_eq!(stream["udp_clients"], 1);
    assert!(server.draining("tv").is_empty());
}

#[test]
fn a_block_holds_for_a_session_that_does_not_run() {
    let server = Server::gated(&["--wait=60"]);
    server.admit("demo");
    let mut early = Client::connect(server.address());
    early.send("GET /stream/demo HTTP/1.1\r\nHost: x\r\n\r\n");
    until("somebody waits", || {
        let text = server.request("GET", "/metrics").text();
        text.contains("tollgate_waiting_viewers 1\n").then_some(())
    });
    let aborted = server.request("DELETE", "/api/abort-stream?sessionid=demo&block=60");
    assert_eq!(
        (aborted.status(), &aborted.json()["viewers"]),
        (200, &0.into())
    );
    assert_eq!(early.response("GET").status(), 429);
    let mut source = Client::connect(server.address());
    source.send("PUT /stream/demo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(source.response("PUT").status(), 429);
    assert_eq!(server.request("GET", "/stream/demo").status(), 429);
}

/// Viewers that have not read all of a complete stream are disconnected when the stream is aborted
/// or its token revoked.
#[test]
fn viewers_of_what_is_complete_are_ended_too() {
    for call in [
        "/api/abort-stream?sessionid=demo",
        "/api/revoke-token?sessionid=demo&abort=true",
    ] {
        let server = Server::gated(&[]);
        server.admit("demo");
        let mut source = Source::open(server.address(), "/stream/demo");
        let mut viewer = Viewer::ask(server.address(), "/stream/demo");
        server.await_viewers("demo", 1);
        source.send(&media(1, 7 << 20));
        assert_eq!(source.finish().status(), 200);
        let rest = server.draining("demo");
        assert_eq!((rest.len(), &rest[0]["viewers"]), (1, &1.into()), "{call}");
        assert_eq!(server.request("DELETE", call).status(), 200, "{call}");
        assert!(server.streams().is_empty(), "{call}");
        assert_eq!(viewer.read_to_end().1, End::CutShort, "{call}");
    }
}
