//! The ceiling of memory that follows from the options: every bound is filled, and the server stays
//! below what `docs/security.md` says.

use crate::support::client::Client;
use crate::support::media::media;
use crate::support::process::resident_kib;
use crate::support::server::Server;
use crate::support::streaming::Source;
use crate::support::until;

const CONNECTIONS: usize = 150;
const STREAMS: usize = 20;
const TOKENS: usize = 2_000;
const BUFFERS: usize = 8 << 20;
const BUFFER: usize = 1 << 20;
const HEAD_BYTES: usize = 16 << 10;
const UDP_CLIENTS: usize = 1;

/// What `docs/security.md` says, in bytes.
const CEILING: usize = (26 << 20)
    + BUFFERS
    + STREAMS * (BUFFER + BUFFER / 30 + (1863 << 10))
    + CONNECTIONS * (HEAD_BYTES + (85 << 10) + UDP_CLIENTS * 640)
    + TOKENS * (5 << 10);

#[test]
fn every_bound_filled_stays_below_the_ceiling() {
    let server = Server::gated(&[
        &format!("--connections={CONNECTIONS}"),
        &format!("--streams={STREAMS}"),
        &format!("--tokens={TOKENS}"),
        &format!("--buffers={BUFFERS}"),
        &format!("--buffer={BUFFER}"),
        &format!("--head-bytes={HEAD_BYTES}"),
        &format!("--udp-clients={UDP_CLIENTS}"),
        "--head-time=3600",
        "--viewer-stall-time=3600",
    ]);
    // Tokens of the longest length.
    let mut caller = Client::connect(server.address());
    for number in 0..TOKENS {
        let name = format!("{number:0256}");
        let target = format!("/api/add-token?type=http&sessionid={name}");
        assert_eq!(caller.request("POST", &target, &[]).status(), 201);
    }
    let full = caller.request("POST", "/api/add-token?type=http&sessionid=one-more", &[]);
    full.assert_problem(503, &["full"]);
    // Streams whose buffers are full.
    assert_eq!(server.figure("tollgate_buffers_left_bytes"), BUFFERS as u64);
    let media = media(1, 2 << 20);
    let mut sources: Vec<Source> = (0..STREAMS)
        .map(|number| Source::open(server.address(), &format!("/stream/{number:0256}")))
        .collect();
    for source in &mut sources {
        source.send(&media);
    }
    until("all streams have all of it", || {
        let streams = server.streams();
        streams
            .iter()
            .all(|stream| stream["bytes_received"] == media.len())
            .then_some(())
    });
    assert!(server.figure("tollgate_buffers_left_bytes") < (64 << 10));
    // Heads that are almost whole, and callers who ask and ask and do not read.
    let mut others = Vec::new();
    while others.len() < CONNECTIONS - STREAMS - 2 {
        let mut client = Client::connect(server.address());
        if others.len() % 2 == 0 {
            let line = format!("X-Filler: {}", "x".repeat(HEAD_BYTES - 200));
            client.send(format!("GET /stream/x HTTP/1.1\r\nHost: x\r\n{line}"));
        } else {
            let request = "GET /api/list-tokens HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
            client.send(request.repeat(60));
        }
        others.push(client);
    }
    let resident = until("all have been read", || {
        let text = server.request("GET", "/metrics").text();
        let connections = text
            .lines()
            .find_map(|line| line.strip_prefix("tollgate_connections "))?;
        (connections.parse::<usize>().ok()? > CONNECTIONS - 2).then(|| resident_kib(server.pid()))
    });
    println!("resident {resident} KiB, ceiling {} KiB", CEILING >> 10);
    assert!(resident as usize <= CEILING >> 10, "{resident} KiB");
    // And it is filled: a ceiling that nobody comes near would say nothing.
    assert!(resident as usize * 8 >= CEILING >> 10, "{resident} KiB");
    assert_eq!(server.request("GET", "/healthz").status(), 200);
}

/// A unit that goes on and on is held back for the viewers of a stream that may be held; so is what
/// a source sends that is to go on with one, before it shows where.
#[cfg(feature = "hold")]
#[test]
fn what_is_held_back_for_held_streams_is_one_more_buffer_each() {
    let server = Server::start(&[&format!("--buffer={BUFFER}"), "--hold=60"]);
    let head = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";
    let size = (BUFFER / 2 - 100) as u32;
    let tag_head = [&[9], &size.to_be_bytes()[1..], &[0; 7]].concat();
    let unfinished = vec![7; size as usize - 1];
    let sources: Vec<Source> = (0..STREAMS)
        .map(|number| {
            let mut source = Source::open(server.address(), &format!("/stream/{number}"));
            source.send(head);
            source.send(&tag_head);
            source.send(&unfinished);
            source
        })
        .collect();
    let resident = until("all of it is held", || {
        let resident = resident_kib(server.pid()) as usize;
        (resident << 10 >= STREAMS * unfinished.len()).then_some(resident)
    });
    assert!(resident << 10 <= (8 << 20) + STREAMS * BUFFER);
    drop(sources);
}
