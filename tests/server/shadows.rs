//! Remuxed streams through the real binary: their bytes, access to them, when they are made, and
//! how they end with the source.

use crate::door;

use crate::door::Said;
use crate::support::analyser::analyse;
use crate::support::response::End;
use crate::support::server::Server;
use crate::support::streaming::{Source, Viewer};
use crate::support::{corpus, datagrams, until};
use tollgate::format::Format;

const SOURCES: [(&str, Format); 5] = [
    ("h264.flv", Format::Flv),
    ("h264.mkv", Format::Matroska),
    ("h264.mp4", Format::Mp4),
    ("h264.ts", Format::MpegTs),
    ("vp9.webm", Format::WebM),
];
const TARGETS: [(&str, Format, &str); 2] = [
    ("live.ts", Format::MpegTs, "video/mp2t"),
    ("live.mp4", Format::Mp4, "video/mp4"),
];
/// So much of a file shows what it is, and no second key frame.
const BEGINNING: usize = 4_000;

/// A server with a source that has sent a file's first bytes.
fn begun(options: &[&str], file: &[u8]) -> (Server, Source) {
    let server = Server::gated(options);
    server.admit("demo");
    let mut source = Source::open(server.address(), "/stream/demo");
    source.send(&file[..file.len().min(BEGINNING)]);
    until("the bytes are there", || {
        let received = server.stream("demo")?["bytes_received"].as_u64()?;
        (received > 0).then_some(())
    });
    (server, source)
}

/// The units of each track, by their bytes.
fn units(format: Format, bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let (said, fault) = door::read(format, 1 << 20, bytes, std::iter::once(usize::MAX));
    assert_eq!(fault, None);
    let mut units: Vec<Vec<Vec<u8>>> = Vec::new();
    for said in said {
        if let Said::Unit { track, bytes, .. } = said {
            units.resize(units.len().max(track + 1), Vec::new());
            units[track].push(bytes);
        }
    }
    units
}

#[test]
fn every_source_is_had_in_every_container() {
    for (name, format) in SOURCES {
        let file = corpus::file(name);
        for (path, target, media_type) in TARGETS {
            if (name, path) == ("vp9.webm", "live.ts") {
                continue;
            }
            let server = Server::gated(&[]);
            server.admit("demo");
            let mut source = Source::open(server.address(), "/stream/demo");
            // It comes before the first byte: what the stream is shows later.
            let target_path = format!("/stream/demo/{path}");
            let mut viewer = Viewer::ask(server.address(), &target_path);
            server.await_figure("tollgate_blocked_playlists", 1);
            source.send(&file[..BEGINNING]);
            server.await_viewers("demo", 1);
            file[BEGINNING..]
                .chunks(7_000)
                .for_each(|piece| source.send(piece));
            assert_eq!(source.finish().status(), 200);
            assert_eq!(viewer.head().field("Content-Type"), Some(media_type));
            let (body, end) = viewer.read_to_end();
            assert_eq!(end, End::Complete, "{name} as {path}");
            if format == target {
                // As it is, from where it has shown what that is.
                let tail = &body[body.len() - 10_000..];
                assert!(file.ends_with(tail), "{name} is what it is");
                continue;
            }
            let (had, whole) = (units(target, &body), units(format, &file));
            let counts = |units: &[Vec<Vec<u8>>]| units.iter().map(Vec::len).collect::<Vec<_>>();
            assert_eq!(counts(&had), counts(&whole), "{name} as {path}");
            if target == Format::MpegTs {
                let found = analyse(&body);
                assert!(found.errors.is_empty(), "{name}: {:#?}", found.errors);
            } else {
                assert!(had == whole, "{name} as {path}: the media is another");
            }
            server.await_figure("tollgate_remuxed", 0);
            assert!(server.streams().is_empty());
        }
    }
}

#[test]
fn a_shadow_lasts_as_long_as_somebody_wants_it() {
    let file = corpus::file("h264.flv");
    let (server, mut source) = begun(&[], &file);
    let remuxed = || server.stream("demo").expect("a stream")["remuxed"].clone();
    assert_eq!(remuxed(), serde_json::json!([]));
    let buffers = server.figure("tollgate_held_bytes{part=\"streams\"}");
    let head = server.request("HEAD", "/stream/demo/live.ts");
    assert_eq!(head.status(), 200);
    assert_eq!(head.head.field("Content-Type"), Some("video/mp2t"));
    assert_eq!(server.figure("tollgate_remuxed_total"), 0);
    let watch = |path: &str| Viewer::ask(server.address(), &format!("/stream/demo/{path}"));
    let (mut first, mut second) = (watch("live.ts"), watch("live.ts"));
    server.await_viewers("demo", 2);
    assert_eq!(server.figure("tollgate_remuxed_total"), 1);
    let mut third = watch("live.mp4");
    server.await_viewers("demo", 3);
    source.send(&file[BEGINNING..]);
    for viewer in [&mut first, &mut second] {
        assert_eq!(viewer.read(188)[0], 0x47);
    }
    assert_eq!(&third.read(8)[4..], b"ftyp");
    let mut both = remuxed().as_array().expect("an array").clone();
    both.sort_by_key(|name| name.to_string());
    assert_eq!(both, ["mp4", "mpegts"]);
    assert!(server.figure("tollgate_held_bytes{part=\"streams\"}") > buffers);
    drop(first);
    server.await_viewers("demo", 2);
    assert_eq!(server.figure("tollgate_remuxed"), 2);
    drop((second, third));
    server.await_figure("tollgate_remuxed", 0);
    assert_eq!(remuxed(), serde_json::json!([]));
    let now = server.figure("tollgate_held_bytes{part=\"streams\"}");
    // What is kept for the next: a few blocks and places.
    assert!(now < buffers + 1_000_000, "{now} of {buffers}");
    assert_eq!(source.finish().status(), 200);
    server.await_end_of_stream("demo");
}

#[test]
fn who_cannot_have_it_is_told_why() {
    let ogg = corpus::file("opus.ogg");
    let (server, _source) = begun(&[], &ogg);
    let ts = |server: &Server| server.request("GET", "/stream/demo/live.ts");
    ts(&server).assert_problem(406, &["it is ogg", "H.264"]);
    server.admit("silent");
    for (target, status) in [("demo", 406), ("other", 403), ("silent", 404)] {
        for file in ["live.mp4", "poster.mp4"] {
            let response = server.request("GET", &format!("/stream/{target}/{file}"));
            assert_eq!(response.status(), status, "{target}/{file}");
        }
    }
    let with_parameter = server.request("GET", "/stream/demo/live.ts?x=1");
    assert_eq!(with_parameter.status(), 400);
    let post = server.request("POST", "/stream/demo/live.ts");
    assert_eq!(
        (post.status(), post.head.allowed()),
        (405, vec!["GET", "HEAD", "OPTIONS"])
    );
    let options = server.request("OPTIONS", "/stream/demo/live.mp4");
    assert_eq!(options.head.allowed(), ["GET", "HEAD", "OPTIONS"]);

    let vp8 = corpus::file("vp8.webm");
    let (server, mut source) = begun(&[], &vp8);
    source.send(&vp8[BEGINNING..]);
    let told = until("its tracks are known", || {
        let told = ts(&server);
        (told.status() != 503).then_some(told)
    });
    told.assert_problem(406, &["track 1: MPEG-TS cannot carry VP8"]);
    assert_eq!(server.figure("tollgate_remuxed"), 0);

    let flv = corpus::file("h264.flv");
    let (server, _source) = begun(&["--buffer=1M", "--buffers=1M"], &flv);
    ts(&server).assert_problem(503, &["--buffers"]);
    let (server, _source) = begun(&["--remux=off"], &flv);
    assert_eq!(ts(&server).status(), 404);
}

/// Its client is a viewer only while it gets the picture.
#[test]
fn a_poster_is_one_key_frame_in_a_body_of_known_length() {
    for (name, format) in SOURCES {
        let file = corpus::file(name);
        let server = Server::gated(&[]);
        server.admit("demo");
        let mut source = Source::open(server.address(), "/stream/demo");
        let mut early = Viewer::ask(server.address(), "/stream/demo/poster.mp4");
        server.await_figure("tollgate_blocked_playlists", 1);
        let viewers = server.request("GET", "/api/list-viewers").json();
        assert_eq!(viewers[0]["way"], "poster", "{name}");
        // An early client gets the newest key frame that is there when it is served.
        let mut sent = 0;
        for piece in file.chunks(700) {
            source.send(piece);
            sent += piece.len() as u64;
            until("the piece is there", || {
                let received = server.stream("demo")?["bytes_received"].as_u64()?;
                (received == sent).then_some(())
            });
        }
        let (body, end) = early.read_to_end();
        assert_eq!(end, End::Complete, "{name}");
        let pictures = &units(format, &file)[0];
        assert_eq!(units(Format::Mp4, &body)[0][0], pictures[0], "{name}");
        let poster = server.request("GET", "/stream/demo/poster.mp4");
        assert_eq!(poster.status(), 200, "{name}");
        assert_eq!(poster.head.field("Content-Type"), Some("video/mp4"));
        let length = poster.body.len().to_string();
        assert_eq!(poster.head.field("Content-Length"), Some(&*length));
        let had = &units(Format::Mp4, &poster.body)[0];
        let place = pictures.iter().position(|picture| *picture == had[0]);
        assert!(place > Some(0), "{name}: the newest one, not the first");
        // A source's own fragments go out as they are.
        assert!(had.len() == 1 || format == Format::Mp4, "{name}");
        server.await_viewers("demo", 0);
        server.await_figure("tollgate_remuxed", 0);
    }
}

#[test]
fn an_abort_ends_a_stream_and_its_shadows() {
    let file = corpus::file("h264.mkv");
    let (server, mut source) = begun(&[], &file);
    let mut ts = Viewer::ask(server.address(), "/stream/demo/live.ts");
    let mut own = Viewer::ask(server.address(), "/stream/demo");
    server.await_viewers("demo", 2);
    source.send(&file[BEGINNING..]);
    ts.read(188);
    own.read(188);
    let aborted = server.request("DELETE", "/api/abort-stream?sessionid=demo");
    assert_eq!(aborted.json()["viewers"], 2);
    assert_ne!(ts.read_to_end().1, End::Complete);
    assert_ne!(own.read_to_end().1, End::Complete);
    server.await_figure("tollgate_remuxed", 0);
    assert!(server.streams().is_empty());
}

#[test]
fn a_shadow_goes_on_over_a_seam() {
    for name in ["h264.flv", "h264.ts", "h264.mkv"] {
        let file = corpus::file(name);
        let (server, mut source) = begun(&["--hold=30"], &file);
        let path = if name == "h264.ts" {
            "live.mp4"
        } else {
            "live.ts"
        };
        let mut viewer = Viewer::ask(server.address(), &format!("/stream/demo/{path}"));
        server.await_viewers("demo", 1);
        source.send(&file[BEGINNING..file.len() / 2]);
        drop(source);
        server.await_line(&["event=stream-held"]);
        let mut source = Source::open(server.address(), "/stream/demo");
        source.send(&file);
        assert_eq!(source.finish().status(), 200);
        let (body, end) = viewer.read_to_end();
        assert_eq!(end, End::Complete, "{name}");
        let target = if path == "live.ts" {
            Format::MpegTs
        } else {
            Format::Mp4
        };
        let pictures = units(target, &body)[0].len();
        assert!(pictures > 60, "{name}: {pictures} pictures of both sources");
        if target == Format::MpegTs {
            let found = analyse(&body);
            assert!(found.errors.is_empty(), "{name}: {:#?}", found.errors);
        }
        assert_eq!(server.figure("tollgate_remuxed_total"), 1);
    }
}

#[test]
fn a_source_that_breaks_the_rules_loses_its_shadow_alone() {
    let file = corpus::file("h264.flv");
    let half = file.len() / 2;
    let broken = [&file[..half], &[0xff; 9_000], &file[half..]].concat();
    let (server, mut source) = begun(&[], &broken);
    let mut own = Viewer::ask(server.address(), "/stream/demo");
    server.await_viewers("demo", 1);
    let mut ts = Viewer::ask(server.address(), "/stream/demo/live.ts");
    server.await_viewers("demo", 2);
    source.send(&broken[BEGINNING..]);
    assert_ne!(ts.read_to_end().1, End::Complete);
    server.await_line(&["event=remux-fails", "to=mpegts"]);
    let again = server.request("GET", "/stream/demo/live.ts");
    again.assert_problem(406, &["cannot be remuxed to mpegts"]);
    assert_eq!(source.finish().status(), 200);
    own.assert_rest(&broken);
}

#[test]
fn udp_clients_get_what_is_not_mpeg_ts() {
    for name in ["h264.flv", "h264.mkv", "h264.mp4"] {
        let file = corpus::file(name);
        let receiver = datagrams::client();
        let port = receiver.local_addr().expect("its address").port();
        let server = Server::gated(&["--rtp=127.0.0.1:0"]);
        let token =
            format!("/api/add-token?type=http,rtp-udp&sessionid=demo&udp-clients=127.0.0.1:{port}");
        assert_eq!(server.request("POST", &token).status(), 201);
        let mut source = Source::open(server.address(), "/stream/demo");
        source.send(&file[..BEGINNING]);
        until("it is sent in another container", || {
            let row = server.stream("demo")?;
            (row["remuxed"] == serde_json::json!(["mpegts"])).then_some(())
        });
        let row = server.stream("demo").expect("a stream");
        assert_eq!(row["rtp"], serde_json::Value::Null, "{name}");
        assert_eq!(
            (&row["udp_clients"], &row["viewers"]),
            (&1.into(), &0.into())
        );
        source.send(&file[BEGINNING..]);
        let mut media = Vec::new();
        while media.len() < 30_000 {
            let datagram = datagrams::receive(&receiver);
            assert_eq!((datagram[0], datagram[1] & 0x7f), (0x80, 33));
            media.extend_from_slice(&datagram[12..]);
        }
        let pictures = units(Format::MpegTs, &media)[0].len();
        assert!(pictures > 5, "{name}: {pictures} pictures");
        let revoked = server.request("DELETE", "/api/revoke-token?sessionid=demo");
        assert_eq!(revoked.status(), 200);
        server.await_figure("tollgate_remuxed", 0);
        drop(source);
    }
}
