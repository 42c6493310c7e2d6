//! A soak test: streams come and go, and memory, descriptors and deadlines return to their first
//! values.
//!
//! `SOAK_MINUTES=30 cargo test --release --test soak -- --ignored --nocapture` prints a table.

mod support;

use std::time::{Duration, Instant};

use support::client::Client;
use support::process::{descriptors, resident_kib};
use support::server::Server;
use support::streaming::{Source, Viewer};
use support::until;
use tollgate::random::Random;

const MEDIA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/media");
const FILES: [&str; 4] = ["h264.ts", "vp8.webm", "h264.flv", "sound.mp3"];

fn gauge(server: &Server, name: &str) -> u64 {
    let text = server.request("GET", "/metrics").text();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.expect("a gauge").parse().expect("a number")
}

/// What must end where it began.
#[derive(Clone, Copy, Debug)]
struct State {
    resident_kib: u64,
    descriptors: usize,
    deadlines: u64,
    streams: u64,
    tokens: u64,
}

impl State {
    fn of(server: &Server) -> State {
        State {
            resident_kib: resident_kib(server.pid()),
            // Whoever asked last may be on the way out.
            descriptors: (0..100)
                .map(|_| descriptors(server.pid()))
                .min()
                .expect("a number"),
            deadlines: gauge(server, "tollgate_deadlines"),
            streams: gauge(server, "tollgate_streams"),
            tokens: gauge(server, "tollgate_tokens"),
        }
    }

    fn print(&self, minute: f64, rounds: u64) {
        println!(
            "| {minute:.1} | {rounds} | {} | {} | {} | {} | {} |",
            self.resident_kib, self.descriptors, self.deadlines, self.streams, self.tokens
        );
    }
}

/// Twenty sessions with a few viewers each: most end well, some are reset, aborted, revoked, or
/// left hanging in a head.
fn round(server: &Server, random: &mut Random, media: &[Vec<u8>]) {
    let mut pick = |count: u64| random.draw() % count;
    let mut others = Vec::new();
    for number in 0..20 {
        let name = format!("soak-{number}-{}", pick(1_000_000));
        let target = format!("/stream/{name}");
        server.admit(&name);
        let mut source = Source::open(server.address(), &target);
        let viewers: Vec<Viewer> = (0..pick(5))
            .map(|_| Viewer::ask(server.address(), &target))
            .collect();
        let bytes = &media[pick(media.len() as u64) as usize];
        for piece in bytes.chunks(1 + pick(9_000) as usize) {
            source.send(piece);
        }
        match pick(5) {
            0 => {
                server.request("DELETE", &format!("/api/abort-stream?sessionid={name}"));
            }
            1 => drop(source),
            _ => {
                source.finish();
            }
        }
        if pick(3) == 0 {
            // These never read what they asked for.
            others.extend(viewers.into_iter().map(Viewer::into_client));
        }
        let mut strange = Client::connect(server.address());
        strange.send("GET /stream/x HTTP/1.1\r\nHo");
        others.push(strange);
        server.request("DELETE", &format!("/api/revoke-token?sessionid={name}"));
    }
}

#[test]
#[ignore = "takes as long as SOAK_MINUTES says"]
fn what_comes_and_goes_leaves_nothing() {
    let minutes = std::env::var("SOAK_MINUTES").map_or(1.0, |text| text.parse().expect("minutes"));
    let server = Server::gated(&["--viewer-stall-time=2", "--log-lines=1"]);
    let media: Vec<Vec<u8>> = FILES
        .iter()
        .map(|name| std::fs::read(format!("{MEDIA}/{name}")).expect("a file of the corpus"))
        .collect();
    let mut random = Random::new(1);
    let settled = || {
        // The asking connection and its deadline are always there.
        until("all are gone", || {
            // What is counted next is counted when they are.
            if gauge(&server, "tollgate_connections") > 1 {
                return None;
            }
            let state = State::of(&server);
            let is_empty = state.streams == 0 && state.tokens == 0 && state.deadlines <= 1;
            is_empty.then_some(state)
        })
    };
    println!(
        "| minute | rounds | resident KiB | descriptors | deadlines | streams | tokens |\n|---|---|---|---|---|---|---|"
    );
    // The first rounds fill tables and the allocator's caches, which stay.
    for _ in 0..20 {
        round(&server, &mut random, &media);
    }
    let begin = settled();
    begin.print(0.0, 20);
    let begun = Instant::now();
    let (mut rounds, mut next) = (20, Duration::from_secs(60));
    while begun.elapsed().as_secs_f64() < minutes * 60.0 {
        round(&server, &mut random, &media);
        rounds += 1;
        if begun.elapsed() >= next {
            next += Duration::from_secs(180);
            State::of(&server).print(begun.elapsed().as_secs_f64() / 60.0, rounds);
        }
    }
    let end = settled();
    end.print(begun.elapsed().as_secs_f64() / 60.0, rounds);
    assert!(end.descriptors <= begin.descriptors, "{begin:?} {end:?}");
    assert!(
        end.resident_kib <= begin.resident_kib + 2 * 1024,
        "{begin:?} {end:?}"
    );
}
