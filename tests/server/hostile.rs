//! Faults and attacks: connected clients are not hurt, memory does not grow, the loop does not spin,
//! and resources come back.

use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::support::client::Client;
use crate::support::media::media;
use crate::support::needs::lacks_ipv6;
use crate::support::process::{cpu_ticks, descriptors, resident_kib};
use crate::support::response::{Body, End};
use crate::support::server::{LOOPBACK, Server};
use crate::support::streaming::{Source, Viewer};
use crate::support::until;

const PIECE_BYTES: usize = 16 * 1024;

/// A stream with one viewer, who checks every byte.
struct Steady {
    source: Source,
    viewer: Viewer,
    media: Vec<u8>,
    sent: usize,
}

impl Steady {
    #[track_caller]
    fn begin(server: &Server) -> Steady {
        let media = media(1, 32 << 20);
        server.admit("steady");
        let source = Source::open(server.address(), "/stream/steady");
        let viewer = Viewer::ask(server.address(), "/stream/steady");
        server.await_viewers("steady", 1);
        Steady {
            source,
            viewer,
            media,
            sent: 0,
        }
    }

    /// Streams the next piece, and checks that it arrives.
    #[track_caller]
    fn go_on(&mut self) {
        let piece = &self.media[self.sent..self.sent + PIECE_BYTES];
        self.source.send(piece);
        assert!(
            self.viewer.read(PIECE_BYTES) == piece,
            "the viewer's bytes differ behind byte {}",
            self.sent
        );
        self.sent += PIECE_BYTES;
    }

    #[track_caller]
    fn end_well(mut self) {
        self.go_on();
        assert_eq!(self.source.finish().json()["bytes_received"], self.sent);
        self.viewer.assert_rest(b"");
    }
}

/// Checks that the server sleeps while there is nothing that it could do. Takes a second, since
/// that is what it measures.
#[track_caller]
fn assert_sleeps(server: &Server) {
    let before = cpu_ticks(server.pid());
    thread::sleep(Duration::from_secs(1));
    let used = cpu_ticks(server.pid()) - before;
    assert!(used < 25, "{used} % of a core are used for nothing");
}

#[test]
fn five_hundred_slow_lorises_touch_no_viewer_and_are_cut() {
    let server = Server::gated(&[
        "--connections=2000",
        "--connections-per-host=2000",
        "--head-time=3",
    ]);
    let mut steady = Steady::begin(&server);
    let mut lorises: Vec<Client> = (0..500)
        .map(|_| Client::connect(server.address()))
        .collect();
    for loris in &mut lorises {
        loris.send("GET /stream/steady HTTP/1.1\r\nX: ");
    }
    for turn in 0..500 {
        steady.go_on();
        // Some may have been cut by now.
        lorises[turn].try_send("x");
        lorises[(turn * 7) % 500].try_send("x");
    }
    for loris in &mut lorises {
        let last_words = String::from_utf8(loris.rest()).expect("ASCII");
        assert!(
            last_words.is_empty() || last_words.starts_with("HTTP/1.1 408 "),
            "{last_words}"
        );
    }
    steady.end_well();
}

#[test]
fn a_source_that_is_reset_in_mid_chunk_is_lost_and_touches_no_other() {
    let server = Server::gated(&[]);
    let mut steady = Steady::begin(&server);
    server.admit("reset");
    for _ in 0..20 {
        let mut source = Client::connect(server.address());
        source.send_head(
            "PUT",
            "/stream/reset",
            &["Transfer-Encoding: chunked", "Expect: 100-continue"],
        );
        until("the stream runs", || server.stream("reset"));
        let mut viewer = Viewer::ask(server.address(), "/stream/reset");
        server.await_viewers("reset", 1);
        source.send("100\r\nabc");
        assert_eq!(viewer.read(3), b"abc");
        // `100 Continue` lies unread: closing resets.
        source.reset();
        viewer.assert_lost(b"");
        server.await_end_of_stream("reset");
        steady.go_on();
    }
    steady.end_well();
}

#[test]
fn viewers_reset_by_the_thousand_leave_nothing_behind() {
    let server = Server::gated(&["--connections=2000", "--connections-per-host=2000"]);
    let mut steady = Steady::begin(&server);
    let mut round = || {
        let viewers: Vec<Viewer> = (0..100)
            .map(|_| Viewer::ask(server.address(), "/stream/steady"))
            .collect();
        server.await_viewers("steady", 101);
        steady.go_on();
        for viewer in viewers {
            viewer.into_client().reset();
        }
        server.await_viewers("steady", 1);
    };
    round();
    let (open_before, resident_before) = (settled_descriptors(&server), resident_kib(server.pid()));
    (0..10).for_each(|_| round());
    let resident = resident_kib(server.pid());
    assert!(
        resident < resident_before + 1024,
        "{resident_before} KiB have become {resident} KiB"
    );
    until("the descriptors are given back", || {
        (descriptors(server.pid()) <= open_before).then_some(())
    });
    steady.end_well();
}

/// The number of descriptors once no connection of an earlier request is left among them.
fn settled_descriptors(server: &Server) -> usize {
    let mut last = usize::MAX;
    until("descriptors are given back", || {
        let now = descriptors(server.pid());
        let is_settled = now >= last;
        last = now;
        is_settled.then_some(now)
    })
}

#[test]
fn viewers_that_leave_without_reading_hold_nothing() {
    let server = Server::gated(&["--buffer=256K"]);
    let mut steady = Steady::begin(&server);
    for _ in 0..50 {
        let absent: Vec<Viewer> = (0..4)
            .map(|_| Viewer::ask(server.address(), "/stream/steady"))
            .collect();
        steady.go_on();
        drop(absent);
    }
    server.await_viewers("steady", 1);
    steady.end_well();
}

/// The limit is lowered under the running server: what it counted on is not there.
#[test]
fn out_of_descriptors_it_pauses_and_sleeps_and_recovers_by_itself() {
    let server = Server::gated(&["--connections=2000", "--connections-per-host=2000"]);
    let mut steady = Steady::begin(&server);
    let open = settled_descriptors(&server);
    let limit = format!("--nofile={0}:{0}", open + 5);
    let lowered = Command::new("prlimit")
        .args(["--pid", &server.pid().to_string(), &limit])
        .status();
    assert!(lowered.expect("prlimit runs (util-linux)").success());
    let crowd: Vec<Client> = (0..50).map(|_| Client::connect(server.address())).collect();
    until("all descriptors are used", || {
        (descriptors(server.pid()) >= open + 5).then_some(())
    });
    assert_sleeps(&server);
    for _ in 0..20 {
        steady.go_on();
    }
    drop(crowd);
    assert_eq!(server.streams().len(), 1);
    Client::connect(server.address()).assert_usable();
    until("the descriptors are given back", || {
        (descriptors(server.pid()) <= open + 1).then_some(())
    });
    steady.end_well();
}

#[test]
fn with_few_descriptors_it_serves_few_and_refuses_the_rest() {
    let server = Server::start_with_descriptors(96, &[LOOPBACK]);
    let mut steady = Steady::begin(&server);
    let open = settled_descriptors(&server);
    let crowd: Vec<Client> = (0..200)
        .map(|_| Client::connect(server.address()))
        .collect();
    steady.go_on();
    assert_sleeps(&server);
    for _ in 0..20 {
        steady.go_on();
    }
    drop(crowd);
    until("there is room again", || {
        let mut client = Client::connect(server.address());
        client.try_send("GET /nowhere HTTP/1.1\r\nHost: h\r\n\r\n");
        client.answers()
    });
    until("the descriptors are given back", || {
        (descriptors(server.pid()) <= open + 1).then_some(())
    });
    steady.end_well();
}

#[test]
fn twenty_thousand_refused_requests_leave_no_memory_behind() {
    let server = Server::gated(&["--connections-per-host=2000"]);
    let refuse = |numbers: std::ops::Range<usize>| {
        let mut client = Client::connect(server.address());
        for number in numbers {
            client.send_head(
                "GET",
                &format!("/stream/a-session-of-its-own-{number}"),
                &[],
            );
            client.send_head(
                "POST",
                &format!("/api/add-token?type=none&sessionid={number}"),
                &[],
            );
            client.send_head(
                "DELETE",
                &format!("/api/revoke-token?sessionid={number}"),
                &[],
            );
            client.send_head("GET", &format!("/nowhere-{number}"), &[]);
            for status in [403, 400, 404, 404] {
                client.response("GET").assert_problem(status, &[]);
            }
            if number % 10 == 0 {
                let mut malformed = Client::connect(server.address());
                malformed.send("GET / HTTP/1.1\r\nHost: h\r\nX\r\n\r\n");
                malformed.response("GET").assert_problem(400, &[]);
            }
        }
    };
    refuse(0..1000);
    let before = resident_kib(server.pid());
    refuse(1000..6000);
    let after = resident_kib(server.pid());
    assert!(
        after < before + 1024,
        "{before} KiB have become {after} KiB"
    );
    assert_eq!(server.tokens().len() + server.streams().len(), 0);
}

#[test]
fn the_api_is_reached_when_viewers_have_filled_the_connections() {
    let options = [
        "--connections=12",
        "--connections-per-host=1000",
        "--listen=127.0.0.1:0",
    ];
    let server = Server::gated(&options);
    server.admit("demo");
    let mut source = Source::open(server.address(), "/stream/demo");
    source.send(b"first");
    let mut inside = Vec::new();
    let mut refused = 0;
    while refused < 3 {
        let mut client = Client::connect_as_stranger(server.address());
        client.send_head("GET", "/stream/demo", &[]);
        let head = client.head();
        if head.status == 200 {
            inside.push((client, Body::new("GET", &head)));
        } else {
            assert_eq!(head.status, 503);
            refused += 1;
        }
        assert!(inside.len() < 12, "more than may are inside");
    }
    let aborted = server.request("DELETE", "/api/abort-stream?sessionid=demo");
    assert_eq!(aborted.json()["viewers"], inside.len());
    for (mut client, mut body) in inside {
        let end = client.read_body(&mut body, &mut Vec::new(), |_| false);
        assert_eq!(end, End::CutShort);
    }
}

/// A client with many silent connections takes no connection of another client, not even before
/// they count as silent.
#[test]
fn a_silent_host_beyond_its_limit_keeps_nobody_out() {
    if lacks_ipv6() {
        return;
    }
    let options = [
        "--connections=60",
        "--connections-per-host=4",
        "--listen=127.0.0.1:0",
        "--listen=[::1]:0",
    ];
    let server = Server::start(&options);
    let mut strangers: Vec<Client> = (0..200)
        .map(|_| Client::connect(server.listeners[1]))
        .collect();
    // Those before it have their places, or none, when the last one is turned away.
    let last = strangers.last_mut().expect("the last one").rest();
    assert!(last.is_empty());
    let mut other = Client::connect(server.listeners[0]);
    let answer = other.request("GET", "/stream/demo", &[]);
    answer.assert_problem(404, &["does not run"]);
    drop(strangers);
}

/// What is kept back for the API's hosts is not for others to sit on, not even without a word.
#[test]
fn the_api_is_reached_when_silent_strangers_take_all_that_they_can() {
    let options = [
        "--connections=12",
        "--connections-per-host=1000",
        "--listen=127.0.0.1:0",
    ];
    let server = Server::gated(&options);
    let strangers: Vec<Client> = (0..200)
        .map(|_| Client::connect_as_stranger(server.address()))
        .collect();
    for _ in 0..3 {
        assert_eq!(server.tokens().len(), 0);
    }
    drop(strangers);
}

#[test]
fn noise_does_no_harm() {
    let server = Server::gated(&["--connections-per-host=2000"]);
    let mut steady = Steady::begin(&server);
    // A fixed sequence (a linear congruential generator), so that a failure happens again.
    let mut state: u64 = 0x5eed;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    let beginnings: [&[u8]; 4] = [
        b"",
        b"GET ",
        b"PUT /stream/noise HTTP/1.1\r\n",
        b"\x16\x03\x01",
    ];
    for turn in 0..400 {
        let mut noise = beginnings[turn % 4].to_vec();
        noise.extend((0..300).map(|_| random()));
        let mut client = Client::connect(server.address());
        client.try_send(&noise);
        if turn % 2 == 0 {
            client.finish_sending();
            let answer = String::from_utf8_lossy(&client.rest()).into_owned();
            assert!(
                answer.is_empty()
                    || answer.starts_with("HTTP/1.1 4")
                    || answer.starts_with("HTTP/1.1 5"),
                "{answer}"
            );
        }
        if turn % 20 == 0 {
            steady.go_on();
        }
    }
    steady.end_well();
}
