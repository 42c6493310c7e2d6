//! Many viewers: each gets every byte of its source, from the first to the clean end.

use std::sync::mpsc::{self, TryRecvError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::support::client::Client;
use crate::support::crowd::Crowd;
use crate::support::media::media;
use crate::support::server::Server;
use crate::support::streaming::Source;

/// A source's media comes in pieces of 4,096 bytes; at 4 Mbit/s, that is one every 8.192 ms.
const PIECE_BYTES: usize = 4096;
const PIECE_TIME: Duration = Duration::from_micros(8192);

/// Streams each media to its session at 4 Mbit/s, all from one thread.
fn publish(sources: Vec<(Source, Arc<Vec<u8>>)>) -> thread::JoinHandle<()> {
    let mut sources = sources;
    thread::spawn(move || {
        let longest = sources
            .iter()
            .map(|(_, media)| media.len())
            .max()
            .unwrap_or(0);
        for offset in (0..longest).step_by(PIECE_BYTES) {
            for (source, media) in &mut sources {
                source.send(&media[offset..media.len().min(offset + PIECE_BYTES)]);
            }
            // The pace of an encoder, since the stream is live.
            thread::sleep(PIECE_TIME);
        }
        for (source, media) in sources {
            let answer = source.finish();
            assert_eq!(answer.status(), 200);
            assert_eq!(answer.json()["bytes_received"], media.len());
        }
    })
}

#[track_caller]
fn assert_all_exact(sources: u16, viewers_each: usize, media_bytes: usize) {
    let server = Server::gated(&["--connections-per-host=1000"]);
    let mut crowd = Crowd::default();
    let mut published = Vec::new();
    for number in 0..sources {
        let session = format!("s{number}");
        let target = format!("/stream/{session}");
        server.admit(&session);
        let media = Arc::new(media(number, media_bytes));
        published.push((Source::open(server.address(), &target), Arc::clone(&media)));
        for _ in 0..viewers_each {
            crowd.join(server.address(), &target, &media);
        }
        server.await_viewers(&session, viewers_each);
    }
    let sources = publish(published);
    crowd.assert_exact();
    sources.join().expect("the sources are answered");
    let streams = server.streams();
    assert_eq!(streams.len(), 0, "{streams:?}");
}

#[test]
fn one_source_and_200_viewers() {
    assert_all_exact(1, 200, 2_000_000);
}

#[test]
fn twenty_sources_and_20_viewers_each() {
    assert_all_exact(20, 20, 1_000_000);
}

/// Ten operators look on, each with a page that asks for everything again and again.
#[test]
fn a_thousand_viewers_lose_nothing_while_ten_pages_are_open() {
    let server = Server::gated(&[]);
    server.admit("tv");
    let media = Arc::new(media(1, 400_000));
    let source = Source::open(server.address(), "/stream/tv");
    let mut crowd = Crowd::default();
    for _ in 0..1_000 {
        crowd.join(server.address(), "/stream/tv", &media);
    }
    server.await_viewers("tv", 1_000);
    let address = server.address();
    let (stop, stopped) = mpsc::channel::<()>();
    let stopped = Arc::new(Mutex::new(stopped));
    let pages: Vec<_> = (0..10)
        .map(|_| {
            let stopped = Arc::clone(&stopped);
            thread::spawn(move || {
                let mut page = Client::connect(address);
                let is_over = || {
                    let stopped = stopped.lock().expect("no page panics");
                    stopped.try_recv() == Err(TryRecvError::Disconnected)
                };
                while !is_over() {
                    for target in ["/", "/api/list-streams", "/api/list-tokens"] {
                        assert_eq!(page.request("GET", target, &[]).status(), 200);
                    }
                }
            })
        })
        .collect();
    let published = publish(vec![(source, media)]);
    crowd.assert_exact();
    published.join().expect("the source is answered");
    drop(stop);
    for page in pages {
        page.join().expect("a page");
    }
}
