//! `--origin`: from relay to relay, each a process of its own.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use crate::support::client::Client;
use crate::support::crowd::Crowd;
use crate::support::media::media;
use crate::support::response::Body;
use crate::support::server::Server;
use crate::support::streaming::{Source, Viewer};
use crate::support::{corpus, free_address, process, until};

/// A relay that fetches from the one that listens there.
fn edge_of(origin: SocketAddr, options: &[&str]) -> Server {
    let origin = format!("--origin=http://{origin}");
    Server::gated(&[&[origin.as_str()], options].concat())
}

/// A relay that listens there, perhaps where one has listened before.
fn start_at(address: SocketAddr, options: &[&str]) -> Server {
    let listen = format!("--listen={address}");
    Server::gated(&[&[listen.as_str()], options].concat())
}

#[test]
fn fifty_viewers_share_one_pull_and_get_every_byte() {
    let origin = Server::gated(&[]);
    let edge = edge_of(origin.address(), &[]);
    let far = edge_of(edge.address(), &[]);
    for server in [&origin, &edge, &far] {
        server.admit("demo");
    }
    let mut source = Source::open(origin.address(), "/stream/demo");
    let media = Arc::new(media(1, 300_000));
    let mut crowd = Crowd::default();
    for _ in 0..50 {
        crowd.join(edge.address(), "/stream/demo", &media);
    }
    crowd.join(far.address(), "/stream/demo", &media);
    edge.await_figure("tollgate_waiting_viewers", 51);
    origin.await_viewers("demo", 1);
    let (first, rest) = media.split_at(100);
    source.send(first);
    edge.await_viewers("demo", 51);
    source.send(rest);
    let stream = edge.stream("demo").expect("it runs");
    assert_eq!(stream["source"]["protocol"], "http");
    assert_eq!(stream["source"]["address"], origin.address().to_string());
    let seen = origin.stream("demo").expect("it runs");
    assert_eq!(seen["viewers"], 1);
    assert_eq!(source.finish().status(), 200);
    crowd.assert_exact();
    for server in [&edge, &far] {
        server.await_end_of_stream("demo");
        server.await_figure("tollgate_pulls", 0);
    }
}

/// What a viewer has got once the last byte that was sent is there.
fn received(mut viewer: Viewer, sent: &[u8]) -> Vec<u8> {
    let mut body = Body::new("GET", &viewer.head());
    let mut content = Vec::new();
    let tail = &sent[sent.len() - 64..];
    let mut client = viewer.into_client();
    client.read_body(&mut body, &mut content, |content| content.ends_with(tail));
    assert!(content.ends_with(tail), "the stream ended before");
    content
}

#[test]
fn late_viewers_of_an_edge_begin_as_late_viewers_of_its_origin() {
    let origin = Server::gated(&[]);
    let edge = edge_of(origin.address(), &[]);
    let names = [
        "vp8.webm",
        "vp9.webm",
        "h264.mkv",
        "h264.ts",
        "h264.mp4",
        "h264.flv",
        "theora.ogg",
        "opus.ogg",
        "sound.mp3",
        "sound.aac",
    ];
    for name in names {
        origin.admit(name);
        edge.admit(name);
        let file = corpus::file(name);
        let (half, most) = (&file[..file.len() / 2], &file[..file.len() / 10 * 9]);
        let target = format!("/stream/{name}");
        let ask = |server: &Server| Viewer::ask(server.address(), &target);
        let assert_same = |sent: &[u8]| {
            let (one, other) = (received(ask(&origin), sent), received(ask(&edge), sent));
            assert!(one == other, "{name}: {} and {}", one.len(), other.len());
            one.len()
        };
        let mut source = Source::open(origin.address(), &target);
        source.send(half);
        until("half of it has come", || {
            let stream = origin.stream(name)?;
            (stream["bytes_received"] == half.len()).then_some(())
        });
        // These come before anything has been fetched, and the next while the pull runs.
        let first = ask(&edge);
        assert_same(half);
        source.send(&most[half.len()..]);
        received(first, most);
        assert!(assert_same(most) < most.len(), "{name}: nobody was late");
        assert_eq!(source.finish().status(), 200);
    }
}

#[test]
fn an_origin_that_is_killed_and_comes_back_is_found_again() {
    let address = free_address();
    let origin = start_at(address, &[]);
    let edge = edge_of(address, &["--origin-idle=60"]);
    origin.admit("demo");
    edge.admit("demo");
    let before = media(1, 50_000);
    let mut source = Source::open(address, "/stream/demo");
    source.send(&before);
    let mut viewer = Viewer::ask(edge.address(), "/stream/demo");
    viewer.head();
    origin.signal("KILL");
    origin.forget();
    // Its viewers see an incomplete response, as with any lost source.
    viewer.assert_lost(&before);
    edge.await_end_of_stream("demo");
    assert_eq!(edge.figure("tollgate_pulls"), 1);
    let origin = start_at(address, &[]);
    origin.admit("demo");
    let mut source = Source::open(address, "/stream/demo");
    // The edge comes back by itself.
    origin.await_viewers("demo", 1);
    let after = media(2, 50_000);
    let mut viewer = Viewer::ask(edge.address(), "/stream/demo");
    edge.await_figure("tollgate_waiting_viewers", 1);
    source.send(&after);
    assert_eq!(source.finish().status(), 200);
    viewer.assert_rest(&after);
    edge.await_figure("tollgate_pulls", 0);
}

#[test]
fn two_relays_that_ask_each_other_refuse() {
    let place = free_address();
    let one = edge_of(place, &[]);
    let two = start_at(place, &[&format!("--origin=http://{}", one.address())]);
    one.admit("demo");
    two.admit("demo");
    for server in [&one, &two] {
        let refused = server.request("GET", "/stream/demo");
        refused.assert_problem(508, &["loop"]);
        server.await_figure("tollgate_pulls", 0);
    }
    // A source at one of them ends the loop.
    let mut source = Source::open(two.address(), "/stream/demo");
    let media = media(1, 10_000);
    let mut viewer = Viewer::ask(one.address(), "/stream/demo");
    two.await_viewers("demo", 1);
    source.send(&media);
    assert_eq!(source.finish().status(), 200);
    viewer.assert_rest(&media);
}

#[test]
fn what_an_origin_does_not_have_is_not_found_and_holds_nothing() {
    let origin = Server::start(&[]);
    let edge = Server::start(&[&format!("--origin=http://{}", origin.address())]);
    let mut client = Client::connect(edge.address());
    let not_found = client.request("GET", "/stream/demo", &[]);
    not_found.assert_problem(404, &["does not run"]);
    let before = process::descriptors(edge.pid());
    for number in 0..100 {
        let refused = client.request("GET", &format!("/stream/demo-{number}"), &[]);
        refused.assert_problem(404, &["does not run"]);
    }
    until("nothing is left of them", || {
        (process::descriptors(edge.pid()) <= before).then_some(())
    });
    client.assert_usable();
}

/// The origin has a token for the session. It is not asked about a key that may not watch.
#[test]
fn an_origin_lets_nobody_watch_by_a_key_of_the_edge_that_may_only_publish() {
    let origin = Server::gated(&[]);
    origin.admit("demo");
    let edge = edge_of(origin.address(), &["--origin-tokens"]);
    edge.add_token("sessionid=send&for=demo&direction=in");
    edge.add_token("sessionid=watch&for=demo&direction=out");
    let assert_refused = || {
        let refused = |target: &str| {
            let refused = edge.request("GET", target);
            refused.assert_problem(403, &["for publishing only"]);
        };
        refused("/stream/send");
        if cfg!(feature = "hls") {
            refused("/stream/send/index.m3u8");
        }
        if cfg!(feature = "page") {
            assert_eq!(edge.request("GET", "/watch/send").status(), 403);
        }
    };
    assert_refused();
    // By the origin's word, and by the edge's.
    let mut source = Source::open(origin.address(), "/stream/demo");
    let viewers = ["demo", "watch"].map(|name| {
        let target = format!("/stream/{name}");
        Viewer::ask(edge.address(), &target)
    });
    until("both wait", || {
        let rows = edge.request("GET", "/api/list-viewers").json();
        (rows.as_array()?.len() == 2).then_some(())
    });
    origin.await_viewers("demo", 1);
    source.send(b"begins");
    for mut viewer in viewers {
        assert_eq!(viewer.read(6), b"begins");
        assert_refused();
    }
}

#[test]
fn without_an_origin_that_answers_viewers_are_told() {
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = nobody.local_addr().expect("its address");
    let edge = edge_of(address, &["--origin-time=0.3"]);
    edge.admit("demo");
    let refused = edge.request("GET", "/stream/demo");
    refused.assert_problem(504, &["in time"]);
    drop(nobody);
    // A program that another test is just starting may hold it open for a while.
    let refused = until("nobody is there any more", || {
        let refused = edge.request("GET", "/stream/demo");
        refused.text().contains("reached").then_some(refused)
    });
    refused.assert_problem(502, &["reached"]);
    edge.await_line(&["event=pull-fails", "reached"]);
}

#[test]
fn the_next_origin_is_asked_and_names_are_looked_up() {
    let origin = Server::gated(&[]);
    let nobody = free_address();
    let port = origin.address().port();
    let named = format!("--origin=http://localhost:{port}/");
    let edge = edge_of(nobody, &[&named]);
    origin.admit("demo");
    edge.admit("demo");
    let mut source = Source::open(origin.address(), "/stream/demo");
    let mut viewer = Viewer::ask(edge.address(), "/stream/demo");
    origin.await_viewers("demo", 1);
    let media = media(1, 10_000);
    source.send(&media);
    assert_eq!(source.finish().status(), 200);
    viewer.assert_rest(&media);
}
