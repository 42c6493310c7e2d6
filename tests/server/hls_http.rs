//! HLS through the real binary: playlists and segments over HTTP, access to them, caching, and the
//! end of the source or of the token.

use crate::support::client::{Client, request};
use crate::support::encoder::{Encoder, KINDS, Kind};
use crate::support::playlist::{Checker, Playlist};
use crate::support::response::{End, Response};
use crate::support::server::Server;
use crate::support::streaming::Source;
use crate::support::{corpus, until};
use serde_json::{Value, json};

const LIST: &str = "/stream/demo/index.m3u8";

/// Starts a source, and sends `seconds` of media.
fn source_of(server: &Server, encoder: &mut Encoder, seconds: f64) -> (Source, Vec<u8>) {
    server.admit("demo");
    let mut source = Source::open(server.address(), "/stream/demo");
    let media = encoder.run(seconds);
    source.send(&media);
    (source, media)
}

fn list(server: &Server) -> Playlist {
    let response = server.request("GET", LIST);
    assert_eq!(response.status(), 200, "{}", response.text());
    Playlist::read(&response.text())
}

fn await_segments(server: &Server, count: usize) -> Playlist {
    until("so many segments are listed", || {
        let list = list(server);
        (list.segments.len() >= count).then_some(list)
    })
}

fn fetch(server: &Server, name: &str) -> Response {
    server.request("GET", &format!("/stream/demo/{name}"))
}

#[test]
fn every_container_goes_out_in_segments() {
    let types = ["video/mp2t", "video/mp4", "audio/mpeg", "audio/aac"];
    for (kind, media_type) in KINDS.into_iter().zip(types) {
        let server = Server::gated(&[]);
        let (_source, media) = source_of(&server, &mut Encoder::new(kind), 11.0);
        let list = await_segments(&server, 5);
        let mut checker = Checker::default();
        let text = server.request("GET", LIST).text();
        checker.check(&text, 0.0, |name| {
            (!is_hint(&server, name)).then(|| fetch(&server, name).body)
        });
        for entry in &list.segments {
            let response = fetch(&server, &entry.name);
            assert_eq!((response.status(), response.end), (200, End::Complete));
            assert_eq!(response.head.field("Content-Type"), Some(media_type));
            let caching = response.head.field("Cache-Control").expect("caching");
            assert_eq!(caching, "public, max-age=60, immutable");
            let lead = match kind {
                Kind::Ts => 376,
                Kind::Mp4 => 0,
                Kind::Mp3 | Kind::Aac => 73,
            };
            let own = &response.body[lead..];
            assert!(media.windows(own.len()).any(|part| part == own), "{kind:?}");
            let target = format!("/stream/demo/{}", entry.name);
            let head = server.request("HEAD", &target);
            let length = response.body.len().to_string();
            assert_eq!(head.head.field("Content-Length"), Some(length.as_str()));
            assert!(head.body.is_empty());
        }
    }
}

#[test]
fn a_playlist_says_what_it_is_and_a_connection_serves_many_requests() {
    let server = Server::gated(&["--cors=http://elsewhere.example"]);
    let (_source, _) = source_of(&server, &mut Encoder::new(Kind::Ts), 9.0);
    let list = await_segments(&server, 4);
    let mut client = Client::connect(server.address());
    let from = "Origin: http://elsewhere.example";
    for _ in 0..3 {
        let response = client.request("GET", LIST, &[from]);
        let field = |name| response.head.field(name);
        assert_eq!(field("Content-Type"), Some("application/vnd.apple.mpegurl"));
        assert_eq!(field("Cache-Control"), Some("public, max-age=1"));
        assert_eq!(
            field("Access-Control-Allow-Origin"),
            Some("http://elsewhere.example")
        );
        for entry in &list.segments {
            let target = format!("/stream/demo/{}", entry.name);
            let segment = client.request("GET", &target, &[from]);
            assert_eq!(segment.end, End::Complete);
            let allowed = segment.head.field("Access-Control-Allow-Origin");
            assert_eq!(allowed, Some("http://elsewhere.example"));
        }
        assert_eq!(client.request("HEAD", LIST, &[]).status(), 200);
    }
    // Asked for ahead, on one connection.
    let targets = list
        .segments
        .iter()
        .map(|entry| format!("/stream/demo/{}", entry.name));
    let targets: Vec<String> = targets.collect();
    for target in &targets {
        client.send_head("GET", target, &[]);
    }
    for target in &targets {
        let response = client.response("GET");
        assert!(response.body == server.request("GET", target).body);
    }
    client.assert_usable();
    assert_eq!(
        server.request("OPTIONS", LIST).head.allowed(),
        ["GET", "HEAD", "OPTIONS"]
    );
    assert_eq!(server.request("PUT", LIST).status(), 405);
    assert_eq!(server.figure("tollgate_viewers"), 0);
    assert!(server.figure("tollgate_segments_total") > 12);
}

#[test]
fn what_is_not_there_is_refused_with_its_reason() {
    let server = Server::gated(&["--buffer=128k"]);
    assert_eq!(server.request("GET", LIST).status(), 403);
    server.admit("demo");
    server
        .request("GET", LIST)
        .assert_problem(404, &["does not run"]);
    let mut encoder = Encoder::new(Kind::Ts);
    let (mut source, _) = source_of_admitted(&server, &mut encoder, 7.0);
    await_segments(&server, 3);
    let missing = fetch(&server, "0000abcd-12.ts");
    missing.assert_problem(404, &["no segment"]);
    assert_eq!(missing.head.field("Cache-Control"), Some("no-store"));
    fetch(&server, "else").assert_problem(404, &["this path does not exist"]);
    let bad = [
        "?_HLS_msn=",
        "?_HLS_msn=x",
        "?_HLS_msn=%2B1",
        "?_HLS_msn=1&_HLS_msn=1",
        "?_HLS_msn=01",
        "?_HLS_msn=1&_HLS_part=00",
        "?_HLS_msn=1&_HLS_skip=NO",
        "?_HLS_msn=1&_HLS_skip=YES&_HLS_skip=YES",
        "?_HLS_part=0",
        "?else=1",
        "?_HLS_msn=99999999999999999999",
        "?_HLS_msn=9999999999",
    ];
    for query in bad {
        let response = server.request("GET", &format!("{LIST}{query}"));
        response.assert_problem(400, &["_HLS_msn"]);
    }
    // More than the buffer holds three segments of.
    encoder.unit_bytes = 3_000;
    source.send(&encoder.run(10.0));
    until("they do not fit", || {
        let response = server.request("GET", LIST);
        (response.status() == 503)
            .then(|| response.assert_problem(503, &["--buffer ", "--buffers"]))
    });

    server.admit("ogg");
    let mut source = Source::open(server.address(), "/stream/ogg");
    source.send(&corpus::file("theora.ogg"));
    until("it is told", || {
        let response = server.request("GET", "/stream/ogg/index.m3u8");
        (response.status() == 406)
            .then(|| response.assert_problem(406, &["MPEG-TS", "FLV", "Matroska"]))
    });
    let off = Server::start(&["--hls=off"]);
    off.request("GET", LIST)
        .assert_problem(404, &["this path does not exist"]);
}

fn source_of_admitted(server: &Server, encoder: &mut Encoder, seconds: f64) -> (Source, Vec<u8>) {
    let mut source = Source::open(server.address(), "/stream/demo");
    let media = encoder.run(seconds);
    source.send(&media);
    (source, media)
}

#[test]
fn who_comes_early_waits_for_three_segments_and_who_asks_ahead_for_the_next() {
    let server = Server::gated(&[]);
    let mut encoder = Encoder::new(Kind::Mp4);
    let (mut source, _) = source_of(&server, &mut encoder, 1.0);
    let mut early = [(); 3].map(|()| Client::connect(server.address()));
    for client in &mut early {
        client.send_head("GET", LIST, &[]);
    }
    server.await_figure("tollgate_blocked_playlists", 3);
    // Who only looks does not wait.
    assert_eq!(server.request("HEAD", LIST).status(), 503);
    source.send(&encoder.run(6.0));
    let mut last = 0;
    for client in &mut early {
        let response = client.response("GET");
        let list = Playlist::read(&response.text());
        assert_eq!(list.segments.len(), 3);
        last = list.segments[2].number;
    }
    let ahead = format!("{LIST}?_HLS_msn={}", last + 1);
    for client in &mut early {
        client.send_head("GET", &ahead, &[]);
    }
    server.await_figure("tollgate_blocked_playlists", 3);
    source.send(&encoder.run(2.5));
    for client in &mut early {
        let response = client.response("GET");
        assert_eq!(
            response.head.field("Cache-Control"),
            Some("public, max-age=12")
        );
        let list = Playlist::read(&response.text());
        assert_eq!(
            list.segments.last().map(|entry| entry.number),
            Some(last + 1)
        );
    }
    // What is there is given at once; nothing is held for who gives up.
    let there = server.request("GET", &ahead);
    assert_eq!(there.status(), 200);
    for client in &mut early {
        client.send_head("GET", &format!("{LIST}?_HLS_msn={}", last + 2), &[]);
    }
    server.await_figure("tollgate_blocked_playlists", 3);
    drop(early);
    server.await_figure("tollgate_blocked_playlists", 0);
}

/// A cache keeps an answer for each address, and anybody can make up spellings.
#[test]
fn a_playlist_and_a_segment_have_one_address_each() {
    let server = Server::start(&["--hls-segment=1"]);
    let mut source = Source::open(server.address(), "/stream/a%2Cb");
    source.send(&Encoder::new(Kind::Ts).run(9.0));
    let plain = "/stream/a%2Cb/index.m3u8";
    let list = until("it is listed", || {
        let response = server.request("GET", plain);
        (response.status() == 200).then(|| Playlist::read(&response.text()))
    });
    let last = list.segments.last().expect("a segment");
    let ahead = format!("?_HLS_msn={}", last.number);
    let part = format!("{ahead}&_HLS_part=0");
    let number = last.number;
    let answered = |target: &str| {
        let response = server.request("GET", target);
        assert_eq!(response.status(), 200, "{target}");
        let caching = response.head.field("Cache-Control").expect("one");
        (caching.to_owned(), response.body)
    };
    for (other, query) in [
        ("/stream/a,b/index.m3u8", ""),
        ("/stream/a%2cb/index.m3u8", ""),
        ("/stream/%61%2Cb/index.m3u8", ""),
        ("/stream/a%2Cb/index%2Em3u8", ""),
        ("/stream/a%2Cb/index.m3u8?", ""),
        ("/stream/a%2Cb/index.m3u8?&&", ""),
        (&format!("{plain}{ahead}&"), &ahead),
        (&format!("{plain}?&_HLS_msn={number}"), &ahead),
        // A shorter list may be asked for; it is not offered, and so it is the whole one.
        (&format!("{plain}{ahead}&_HLS_skip=YES"), &ahead),
        (&format!("{plain}{ahead}&_HLS_skip=v2"), &ahead),
        (&format!("{plain}?_HLS_part=0&_HLS_msn={number}"), &part),
    ] {
        let (caching, body) = answered(other);
        assert_eq!(caching, "no-store", "{other}");
        assert_eq!(body, answered(&format!("{plain}{query}")).1, "{other}");
    }
    // Segments that left the list and parts that do not exist must not be cached, either: there are
    // many numbers.
    let (first, last) = (list.segments[0].number, last.number);
    for (query, is_kept) in [
        (String::new(), true),
        (format!("?_HLS_msn={first}"), true),
        (ahead.clone(), true),
        (format!("{ahead}&_HLS_part=1"), false),
        (format!("?_HLS_msn={first}&_HLS_part=0"), false),
        (format!("?_HLS_msn={}", first - 1), false),
        ("?_HLS_msn=0".to_owned(), false),
        (format!("?_HLS_msn={last}&_HLS_part=3"), false),
    ] {
        let (caching, _) = answered(&format!("{plain}{query}"));
        let is_public = caching.starts_with("public, max-age=");
        assert_eq!(is_public, is_kept, "{query}: {caching}");
    }
    let name = &list.segments.last().expect("a segment").name;
    let segment = format!("/stream/a%2Cb/{name}");
    let (caching, bytes) = answered(&segment);
    assert_eq!(caching, "public, max-age=60, immutable");
    let encoded = name.replace('-', "%2D");
    for other in [
        format!("{segment}?"),
        format!("/stream/a,b/{name}"),
        format!("/stream/a%2Cb/{encoded}"),
    ] {
        assert_eq!(answered(&other), ("no-store".to_owned(), bytes.clone()));
    }
    let wrong = server.request("GET", &format!("{segment}?else=1"));
    wrong.assert_problem(400, &["parameters"]);
}

/// Names are this server's own: nothing of a request's is written into an answer's head.
#[test]
fn no_name_brings_a_line_into_an_answer() {
    let server = Server::start(&[]);
    let line = "%0d%0aSet-Cookie:x=1%0d%0a%0d%0aHTTP/1.1";
    for target in [
        format!("/stream/zz/a-b.{line}"),
        format!("/stream/zz/a-b.{line}?"),
        format!("/stream/a-b.{line}/index.m3u8?&"),
        format!("/stream/a-b.{line}/a-b.ts"),
        format!("/stream/index.m3u8?sessionid=a-b.{line}"),
        format!("/stream/index.m3u8{line}?sessionid=a"),
        format!("/stream/a/index.m3u8?_HLS_msn=1{line}"),
        format!("/stream?sessionid={line}"),
        format!("/watch/{line}"),
        format!("/{line}"),
        format!("http://h{line}/stream/zz/a-b.ts"),
    ] {
        let response = server.request("GET", &target);
        assert_eq!(response.head.field("Set-Cookie"), None, "{target}");
        let location = response.head.field("Location").unwrap_or_default();
        assert!(
            location.is_empty() || location.contains("%0D%0A"),
            "{location}"
        );
    }
}

/// What it names stands beside the address in whose path the sessionid is: that is where it is.
#[test]
fn a_playlist_whose_session_the_query_names_is_told_where_it_is() {
    let server = Server::gated(&["--hls-segment=1"]);
    let by_query = "/stream/index.m3u8?sessionid=d%2Fe%20mo";
    let refused = server.request("GET", by_query);
    refused.assert_problem(403, &["token"]);
    server.admit("d%2Fe%20mo");
    let mut source = Source::open(server.address(), "/stream/d%2Fe%20mo");
    source.send(&Encoder::new(Kind::Ts).run(9.0));
    let ahead = format!("{by_query}&_HLS_msn=5");
    for (target, query) in [(by_query, ""), (&ahead, "?_HLS_msn=5")] {
        for method in ["GET", "HEAD"] {
            let moved = server.request(method, target);
            assert_eq!((moved.status(), moved.body.len()), (307, 0));
            let address = format!("d%2Fe%20mo/index.m3u8{query}");
            assert_eq!(moved.head.field("Location"), Some(address.as_str()));
            assert_eq!(moved.head.field("Cache-Control"), Some("no-store"));
        }
    }
    let list = until("it is listed", || {
        let response = server.request("GET", "/stream/d%2Fe%20mo/index.m3u8");
        (response.status() == 200).then(|| Playlist::read(&response.text()))
    });
    let segment = format!("/stream/d%2Fe%20mo/{}", list.segments[0].name);
    assert_eq!(server.request("GET", &segment).status(), 200);
    server.request("DELETE", "/api/revoke-token?sessionid=d%2Fe%20mo");
    server
        .request("GET", by_query)
        .assert_problem(403, &["token"]);
    server
        .request("GET", &segment)
        .assert_problem(403, &["token"]);
}

#[test]
fn a_token_that_is_revoked_ends_hls_with_the_next_request() {
    let server = Server::gated(&[]);
    let mut encoder = Encoder::new(Kind::Ts);
    let (mut source, _) = source_of(&server, &mut encoder, 9.0);
    let list = await_segments(&server, 4);
    let last = list.segments[3].number;
    let mut waiting = Client::connect(server.address());
    waiting.send_head("GET", &format!("{LIST}?_HLS_msn={}", last + 1), &[]);
    server.await_figure("tollgate_blocked_playlists", 1);
    server.request("DELETE", "/api/revoke-token?sessionid=demo");
    server.request("GET", LIST).assert_problem(403, &["token"]);
    fetch(&server, &list.segments[3].name).assert_problem(403, &["token"]);
    source.send(&encoder.run(4.0));
    waiting.response("GET").assert_problem(403, &["token"]);
}

/// A viewer that waited is checked again when its wait ends: its address may be blocked by then,
/// or the limit of viewers lowered.
#[test]
fn who_waits_for_a_list_is_let_in_anew_when_it_is_there() {
    let server = Server::start(&["--token-server=127.0.0.0/8", "--forwarded-from=127.0.0.1"]);
    let own = |method: &str, target: &str| {
        request(
            server.address(),
            method,
            // A proxy that passes on the Host of its clients.
            &format!("http://127.0.0.1:9{target}"),
            &["X-Forwarded-For: 127.0.0.9"],
        )
    };
    let status = |call: &str| own("POST", &format!("/api/add-token?type=http&{call}")).status();
    assert_eq!(status("sessionid=demo&direction=in"), 201);
    for key in ["kicked", "counted", "free", "moved"] {
        let call = format!("sessionid={key}&for=demo&direction=out");
        assert_eq!(status(&call), 201);
    }
    let mut encoder = Encoder::new(Kind::Ts);
    let field = ["X-Forwarded-For: 127.0.0.9"];
    let mut source = Source::open_with(server.address(), "PUT", "/stream/demo", &field);
    source.send(&encoder.run(1.0));
    let wait = |key: &str, host: u8| {
        let mut client = Client::connect(server.address());
        let from = format!("X-Forwarded-For: 192.0.2.{host}");
        client.send_head("GET", &format!("/stream/{key}/index.m3u8"), &[&from]);
        client
    };
    let rows = || {
        let rows = own("GET", "/api/list-viewers").json();
        rows.as_array().expect("an array").clone()
    };
    let mut waiting = Vec::new();
    for (key, host) in [
        ("kicked", 1),
        ("kicked", 1),
        ("kicked", 2),
        ("counted", 3),
        ("counted", 4),
        ("free", 5),
        ("moved", 6),
    ] {
        waiting.push(wait(key, host));
        until("it waits", || (rows().len() == waiting.len()).then_some(()));
    }
    // One of two that are behind an address is ended, and the address kept out.
    let id = rows()[0]["id"].as_str().expect("an id").to_owned();
    let kick = format!("/api/kick-viewer?id={id}&block=60");
    assert_eq!(own("DELETE", &kick).status(), 200);
    // And that one may watch by a key is said now.
    assert_eq!(
        own("DELETE", "/api/revoke-token?sessionid=counted").status(),
        200
    );
    assert_eq!(
        status("sessionid=counted&for=demo&direction=out&max-viewers=1"),
        201
    );
    // And a key is to another session now.
    let revoke = "/api/revoke-token?sessionid=moved";
    assert_eq!(own("DELETE", revoke).status(), 200);
    assert_eq!(status("sessionid=moved&for=other&direction=out"), 201);
    source.send(&encoder.run(8.0));
    let mut answers = waiting.iter_mut().map(|client| client.response("GET"));
    let mut next = || answers.next().expect("an answer");
    next().assert_problem(403, &["the operator has disconnected"]);
    next().assert_problem(429, &["blocks its address"]);
    assert_eq!(next().status(), 200);
    let mut counted = [next(), next()];
    counted.sort_by_key(Response::status);
    assert_eq!(counted[0].status(), 200);
    counted[1].assert_problem(503, &["max-viewers"]);
    assert_eq!(next().status(), 200);
    next().assert_problem(403, &["token"]);
    // The admitted viewer counts.
    let list = request(
        server.address(),
        "GET",
        "/stream/counted/index.m3u8",
        &["X-Forwarded-For: 192.0.2.9"],
    );
    list.assert_problem(503, &["max-viewers"]);
}

#[test]
fn a_stream_that_is_complete_is_there_to_its_end() {
    let server = Server::gated(&[]);
    let mut encoder = Encoder::new(Kind::Aac);
    let (source, media) = source_of(&server, &mut encoder, 9.0);
    let last = await_segments(&server, 4).segments[3].number;
    let mut waiting = Client::connect(server.address());
    waiting.send_head("GET", &format!("{LIST}?_HLS_msn={}", last + 1), &[]);
    server.await_figure("tollgate_blocked_playlists", 1);
    assert_eq!(source.finish().status(), 200);
    let answer = waiting.response("GET").text();
    let list = Playlist::read(&answer);
    assert!(list.is_over, "{answer}");
    let own = list
        .segments
        .iter()
        .flat_map(|entry| fetch(&server, &entry.name).body.split_off(73));
    assert!(own.collect::<Vec<u8>>() == media);
    // Another stream of the session has other names, and higher numbers.
    let old = list.segments[0].clone();
    let mut source = Source::open(server.address(), "/stream/demo");
    source.send(&Encoder::new(Kind::Aac).run(9.0));
    let new = await_segments(&server, 4);
    assert!(!new.is_over && new.segments[0].name != old.name);
    assert!(new.segments[0].number >= old.number);
    assert_eq!(fetch(&server, &old.name).status(), 200);
    // An abort ends all of it.
    server.request("DELETE", "/api/abort-stream?sessionid=demo");
    server
        .request("GET", LIST)
        .assert_problem(404, &["does not run"]);
    assert_eq!(fetch(&server, &old.name).status(), 404);
}

#[test]
fn a_list_wakes_an_origin_as_a_viewer_does_and_keeps_it_awake() {
    let origin = Server::gated(&[]);
    let edge = Server::gated(&[
        &format!("--origin=http://{}", origin.address()),
        "--origin-idle=0.05",
    ]);
    edge.admit("demo");
    let mut encoder = Encoder::new(Kind::Ts);
    let (mut source, _) = source_of(&origin, &mut encoder, 1.0);
    let mut client = Client::connect(edge.address());
    client.send_head("GET", LIST, &[]);
    edge.await_figure("tollgate_blocked_playlists", 1);
    source.send(&encoder.run(7.0));
    let list = Playlist::read(&client.response("GET").text());
    assert!(list.segments.len() >= 3);
    for entry in &list.segments {
        let response = fetch(&edge, &entry.name);
        assert_eq!(response.status(), 200);
        assert!(response.head.field("Via").is_some());
    }
    assert_eq!(edge.figure("tollgate_pulls"), 1);
}

#[cfg(feature = "hold")]
#[test]
fn a_held_stream_goes_on_behind_a_seam() {
    let server = Server::gated(&["--hold=60"]);
    for (kind, seams) in [
        (Kind::Ts, 1),
        (Kind::Mp4, 0),
        (Kind::Mp3, 1),
        (Kind::Aac, 1),
    ] {
        let mut encoder = Encoder::new(kind);
        let session = format!("{kind:?}");
        server.admit(&session);
        let target = format!("/stream/{session}");
        let mut source = Source::open(server.address(), &target);
        source.send(&encoder.run(9.0));
        let list = || {
            let response = server.request("GET", &format!("{target}/index.m3u8"));
            (response.status() == 200).then(|| Playlist::read(&response.text()))
        };
        until("it is listed", || {
            list().filter(|list| list.segments.len() >= 4)
        });
        drop(source);
        until("it is held", || {
            server.stream(&session)?["held"].as_bool()?.then_some(())
        });
        let mut source = Source::open(server.address(), &target);
        source.send(&Encoder::new(kind).run(9.0));
        let list = until("it goes on", || {
            list().filter(|list| list.segments.len() >= 8)
        });
        let marked = list.segments.iter().filter(|entry| entry.is_discontinuous);
        assert_eq!(marked.count(), seams, "{kind:?}");
        let mut checker = Checker::default();
        let text = server
            .request("GET", &format!("{target}/index.m3u8"))
            .text();
        checker.check(&text, 0.0, |name| {
            let target = format!("{target}/{name}");
            let is_there = server.request("HEAD", &target).status() == 200;
            is_there.then(|| server.request("GET", &target).body)
        });
    }
}

#[test]
fn a_group_longer_than_a_segment_is_told_of_once() {
    for (kind, segments, says) in [
        (Kind::Ts, 15, "HLS segments end between key frames"),
        (
            Kind::Mp4,
            6,
            "a fragment of MP4 lasts 12 s, and an HLS segment at most 2 s",
        ),
    ] {
        let server = Server::gated(&[]);
        let mut encoder = Encoder::new(kind);
        let (mut source, _) = source_of(&server, &mut encoder, 9.0);
        await_segments(&server, 3);
        encoder.group = 12.0;
        if kind == Kind::Mp4 {
            encoder.fragment_seconds = 12.0;
        }
        source.send(&encoder.run(40.0));
        encoder.group = 2.0;
        encoder.fragment_seconds = 0.5;
        source.send(&encoder.run(9.0));
        await_segments(&server, segments);
        let told = server.await_line(&["event=group-longer-than-segment", says]);
        let lines = server.stderr();
        assert_eq!(lines.iter().filter(|line| **line == told).count(), 1);
    }
}

#[test]
fn parts_are_there_before_their_segment_and_the_next_is_waited_for() {
    let server = Server::gated(&[]);
    let mut encoder = Encoder::new(Kind::Mp4);
    let (mut source, _) = source_of(&server, &mut encoder, 9.1);
    let listed = until("it has parts", || {
        let list = list(&server);
        list.hint.is_some().then_some(list)
    });
    let newest = listed.segments.last().expect("a segment").number;
    let hint = listed.hint.expect("a hint");
    let index = listed.parts.get(&(newest + 1)).map_or(0, Vec::len);
    // A player asks for each part, and for the one after the last; a cache is to keep no more.
    let parts = listed.parts[&newest].len();
    assert!(parts > 1, "{parts}");
    for part in 0..parts + 3 {
        let list = fetch(
            &server,
            &format!("index.m3u8?_HLS_msn={newest}&_HLS_part={part}"),
        );
        let caching = list.head.field("Cache-Control").expect("one");
        let is_kept = caching == "public, max-age=12";
        assert_eq!(
            (list.status(), is_kept),
            (200, part <= parts),
            "{part}: {caching}"
        );
    }
    let mut waiting = [(); 3].map(|()| Client::connect(server.address()));
    for client in &mut waiting {
        client.send_head("GET", &format!("/stream/demo/{hint}"), &[]);
    }
    let mut ahead = Client::connect(server.address());
    let part = format!("?_HLS_msn={}&_HLS_part={index}", newest + 1);
    ahead.send_head("GET", &format!("{LIST}{part}"), &[]);
    server.await_figure("tollgate_blocked_playlists", 4);
    // A plain request does not wait, nor does one for a number that is too far ahead.
    let target = format!("/stream/demo/{hint}");
    assert_eq!(server.request("HEAD", &target).status(), 404);
    let later = hint.replace(&format!(".{index}."), &format!(".{}.", index + 1));
    assert_eq!(fetch(&server, &later).status(), 404);
    source.send(&encoder.run(1.0));
    for client in &mut waiting {
        let part = client.response("GET");
        assert_eq!((part.status(), part.end), (200, End::Complete));
        assert_eq!(part.head.field("Content-Type"), Some("video/mp4"));
        let caching = part.head.field("Cache-Control");
        assert_eq!(caching, Some("public, max-age=60, immutable"));
        assert!(part.body == fetch(&server, &hint).body);
    }
    let response = ahead.response("GET");
    assert_eq!(
        response.head.field("Cache-Control"),
        Some("public, max-age=12")
    );
    let longer = Playlist::read(&response.text());
    assert_eq!(longer.parts[&(newest + 1)][index].name, hint);
    let mut checker = Checker::default();
    checker.check(&server.request("GET", LIST).text(), 0.0, |name| {
        (!is_hint(&server, name)).then(|| fetch(&server, name).body)
    });
    // The last of all is one, too; and nobody waits for what does not come.
    let hint = Playlist::read(&server.request("GET", LIST).text()).hint;
    let target = format!("/stream/demo/{}", hint.expect("a hint"));
    for client in &mut waiting {
        client.send_head("GET", &target, &[]);
    }
    server.await_figure("tollgate_blocked_playlists", 3);
    source.finish();
    for client in &mut waiting {
        let last = client.response("GET");
        assert_eq!((last.status(), last.end), (200, End::Complete));
        assert!(media_ends_with(&server, &last.body));
    }
    server.request("DELETE", "/api/abort-stream?sessionid=demo");
    let mut source = Source::open(server.address(), "/stream/demo");
    source.send(&Encoder::new(Kind::Mp4).run(9.1));
    let hint = until("another has parts", || list(&server).hint);
    let target = format!("/stream/demo/{hint}");
    for client in &mut waiting {
        client.send_head("GET", &target, &[]);
    }
    server.await_figure("tollgate_blocked_playlists", 3);
    server.request("DELETE", "/api/abort-stream?sessionid=demo");
    for client in &mut waiting {
        client
            .response("GET")
            .assert_problem(404, &["does not run"]);
    }
}

/// Whether the last segment ends with this.
fn media_ends_with(server: &Server, bytes: &[u8]) -> bool {
    let last = list(server).segments.pop().expect("a segment");
    fetch(server, &last.name).body.ends_with(bytes)
}

/// Whether it is not there yet.
fn is_hint(server: &Server, name: &str) -> bool {
    server
        .request("HEAD", &format!("/stream/demo/{name}"))
        .status()
        == 404
}

fn viewers(server: &Server) -> Vec<Value> {
    let rows = server.request("GET", "/api/list-viewers").json();
    rows.as_array().expect("an array").clone()
}

fn await_viewer(server: &Server) -> Value {
    until("somebody is listed", || viewers(server).pop())
}

/// A player of HLS is nobody between two requests: it is there while it waits for a list, and while
/// a segment is on its way to it.
#[test]
fn players_of_segments_are_listed_while_they_are_answered() {
    let server = Server::gated(&["--buffer=32M", "--buffers=64M"]);
    server.admit("demo");
    let mut source = Source::open(server.address(), "/stream/demo");
    let mut encoder = Encoder::new(Kind::Ts);
    source.send(&encoder.run(1.0));
    let mut client = Client::connect(server.address());
    client.send_head("GET", LIST, &[]);
    let parked = await_viewer(&server);
    assert_eq!(
        (&parked["state"], &parked["way"]),
        (&json!("waiting"), &json!("hls"))
    );
    source.send(&encoder.run(7.0));
    let list = Playlist::read(&client.response("GET").text());
    assert_eq!(viewers(&server), [Value::Null; 0]);
    let name = &list.segments[0].name;
    let segment = client.request("GET", &format!("/stream/demo/{name}"), &[]);
    assert_eq!(segment.status(), 200);
    assert_eq!(viewers(&server), [Value::Null; 0]);
    // A request whose stream ends while it waits gets an answer, and its connection stays open.
    let ahead = list.segments.last().expect("a segment").number + 1;
    client.send_head("GET", &format!("{LIST}?_HLS_msn={ahead}"), &[]);
    let parked = await_viewer(&server);
    let id = parked["id"].as_str().expect("an id");
    let kick = format!("/api/kick-viewer?id={id}");
    assert_eq!(server.request("DELETE", &kick).status(), 200);
    client
        .response("GET")
        .assert_problem(403, &["the operator has disconnected"]);
    client.assert_usable();
}
