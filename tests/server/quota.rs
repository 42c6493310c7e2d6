//! Sources above their token's bit rate: HTTP sources wait, and datagrams above the rate are dropped.
//! Both are reported once.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::datagrams::{admit_as, client, datagram, start, transport};
use crate::support::events::Follower;

use crate::support::server::Server;
use crate::support::streaming::{Source, Viewer};
use crate::support::until;

/// Returns the event of a source that is too fast. It comes once in a stream.
#[track_caller]
fn told_too_fast(follower: &mut Follower) -> Value {
    let mut told = follower.until("stream-ends");
    told.retain(|unit| unit.event == "source-too-fast");
    assert_eq!(told.len(), 1);
    told.remove(0).data
}

/// Sends `count` datagrams of `bytes` bytes at once. Returns the datagrams that the other client got.
fn flood(
    server: &Server,
    rtp: SocketAddr,
    (camera, player): (&UdpSocket, &UdpSocket),
    datagrams: impl Iterator<Item = Vec<u8>>,
) -> usize {
    let mut sent = 0;
    // No second passes between them, in which more would be allowed.
    server.all_at_once(|| {
        for bytes in datagrams {
            camera.send_to(&bytes, rtp).expect("sent");
            sent += 1;
        }
    });
    until("all have come", || {
        let stream = server.stream("cam")?;
        let dropped = stream["source"]["too_fast"].as_u64()?;
        let got = stream["udp"][0]["sent"].as_u64()?;
        (dropped + got >= sent).then_some(())
    });
    player.set_nonblocking(true).expect("an option");
    let mut bytes = [0; 2048];
    std::iter::from_fn(|| player.recv_from(&mut bytes).ok()).count()
}

/// The datagrams of one second go out. The rest are dropped whole, counted, and reported once.
#[test]
fn datagrams_that_are_too_much_are_dropped_and_counted() {
    type Made = fn(u8) -> Vec<u8>;
    let kinds: [(&str, Made); 2] = [
        ("rtp-udp", |number| {
            datagram(33, number.into(), 7, &transport(number, None))
        }),
        ("udp", |number| transport(number, None)),
    ];
    for (kind, made) in kinds {
        let (server, rtp) = start();
        let (camera, player) = (client(), client());
        // 20,000 bytes a second, of which each datagram takes more than 1,300.
        let types = format!("http,{kind}&max-bitrate=160000");
        admit_as(&server, "cam", &types, &[&camera, &player]);
        let mut follower = Follower::ask(server.address(), "?sessionid=cam", "");
        follower.until("snapshot-end");
        let out = flood(&server, rtp, (&camera, &player), (0..100).map(made));
        assert!((15..40).contains(&out), "{kind}: {out} have gone out");
        let stream = server.stream("cam").expect("it runs");
        let dropped = stream["source"]["too_fast"].as_u64().expect("a number");
        assert!((60..=85).contains(&dropped), "{kind}: {dropped}");
        let name = "tollgate_datagrams_dropped_total{reason=\"too_fast\"}";
        assert_eq!(server.figure(name), dropped);
        let told = follower.until("source-too-fast").pop().expect("a unit");
        assert_eq!(told.data["what"], "dropped");
        assert_eq!(told.data["max_bitrate"], 160_000);
        let words = [
            "event=source-too-fast",
            "what=dropped",
            "max_bitrate=160000",
        ];
        server.await_line(&words);
        let lines = server.stderr();
        let said = lines.iter().filter(|line| line.contains("source-too-fast"));
        assert_eq!(said.count(), 1, "{kind}");
    }
}

/// What a source says beside its media counts, too, or it would be a way around.
#[test]
fn control_packets_count() {
    let (server, rtp) = start();
    let (camera, player) = (client(), client());
    admit_as(
        &server,
        "cam",
        "http,rtp-udp&max-bitrate=160000",
        &[&camera, &player],
    );
    for number in 0..2 {
        let media = datagram(33, number, 7, &transport(number as u8, None));
        camera.send_to(&media, rtp).expect("sent");
    }
    // A sender report, and an APP packet that fills the rest.
    let mut report = vec![0x80, 200, 0, 6, 0, 0, 0, 7];
    report.resize(28, 0);
    let mut more = vec![0x80, 204, 0x01, 0x40, 0, 0, 0, 7];
    more.resize(4 * 0x141, b'x');
    let control = [report, more].concat();
    let out = flood(
        &server,
        rtp,
        (&camera, &player),
        (0..100).map(|_| control.clone()),
    );
    assert!(out < 40, "{out} have gone out");
}

/// A stream from an origin is read at most at the local token's rate. It waits, and loses nothing
/// while the origin still has the bytes.
#[test]
fn what_is_fetched_is_slowed_to_its_rate() {
    let origin = Server::gated(&[]);
    origin.admit("show");
    let edge = Server::gated(&[&format!("--origin=http://{}", origin.address())]);
    // 100,000 bytes a second, and as many at once to begin with; and so for a key.
    edge.add_token("sessionid=show&max-bitrate=800000");
    edge.add_token("sessionid=key&for=show&direction=out");
    let mut follower = Follower::ask(edge.address(), "", "");
    follower.until("snapshot-end");
    let mut source = Source::open(origin.address(), "/stream/show");
    source.send(b"begins");
    let mut viewer = Viewer::ask(edge.address(), "/stream/key");
    assert_eq!(viewer.read(6), b"begins");
    let media: Vec<u8> = (0..300_000u32).map(|at| (at / 7) as u8).collect();
    let began = Instant::now();
    source.send(&media);
    assert_eq!(source.finish().status(), 200);
    viewer.assert_rest(&media);
    let took = began.elapsed();
    assert!(
        took >= Duration::from_millis(1_900),
        "it took {took:?} for what lasts 2 s"
    );
    let told = told_too_fast(&mut follower);
    assert_eq!(told["what"], "waits");
    assert_eq!(told["max_bitrate"], 800_000);
    assert_eq!(told["source"], origin.address().to_string());
}
