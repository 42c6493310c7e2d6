//! Players with playlists in a simulated server, mostly after the stream has ended.
#![cfg(feature = "hls")]

use crate::gate::SessionId;
use crate::relay::ConnectionId;
use crate::relay::clients::WaitFor;
use crate::relay::counts::Count;
use crate::relay::stage::Stage;
use crate::relay::stage::request;

/// The head of a source with a longer body than any of these tests sends.
const PUT: &str = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 9000000\r\n\r\n";

fn session() -> SessionId {
    SessionId::parse(b"s").expect("a name")
}

/// Returns AAC in ADTS of this length and a little: frames of 1,024 samples at 48 kHz.
fn aac(seconds: usize) -> Vec<u8> {
    let frame = [
        &[0xff, 0xf1, 0x4c, 0x80, 0x20, 0x1f, 0xfc][..],
        &[0x11; 249],
    ]
    .concat();
    frame.repeat(seconds * 47)
}

/// Returns the same in FLV.
fn flv(seconds: u32) -> Vec<u8> {
    let mut out = b"FLV\x01\x04\0\0\0\x09\0\0\0\0".to_vec();
    let mut tag = |milliseconds: u32, body: &[u8]| {
        out.push(8);
        out.extend(&(body.len() as u32).to_be_bytes()[1..]);
        out.extend(&milliseconds.to_be_bytes()[1..]);
        out.extend([0; 4]);
        out.extend(body);
        out.extend((body.len() as u32 + 11).to_be_bytes());
    };
    tag(0, &[0xaf, 0, 0x11, 0x90]);
    for frame in 0..seconds * 47 {
        tag(frame * 64 / 3, &[&[0xaf, 1][..], &[0x11; 249]].concat());
    }
    out
}

fn list(stage: &mut Stage) -> String {
    let id = request(stage, "GET /stream/s/index.m3u8");
    let text = stage.text(id);
    stage.lose(id);
    text
}

/// Returns the number of a playlist's first segment.
fn number(text: &str) -> u64 {
    let (_, first) = text.split_once("MEDIA-SEQUENCE:").expect("a number");
    first
        .lines()
        .next()
        .expect("a line")
        .parse()
        .expect("a number")
}

/// The target duration is two seconds.
#[test]
fn an_ended_stream_is_kept_for_six_target_durations() {
    let mut stage = Stage::new(&[]);
    let media = aac(9);
    let (first, last) = media.split_at(media.len() - 256);
    let head = format!(
        "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n",
        media.len()
    );
    let source = stage.client(&head);
    stage.send(source, first);
    stage.wait_seconds(9);
    assert!(list(&mut stage).starts_with("HTTP/1.1 200"));
    stage.wait_seconds(3);
    stage.send(source, last);
    for _ in 0..8 {
        assert!(list(&mut stage).contains("#EXT-X-ENDLIST"));
        stage.wait_seconds(1);
    }
    stage.wait_seconds(2);
    assert!(list(&mut stage).starts_with("HTTP/1.1 404"));
    stage.lose(source);
    stage.assert_nothing_left();
}

/// Requests that wait for a later segment are not examined.
#[test]
fn a_segment_wakes_only_the_requests_that_wait_for_it() {
    let mut stage = Stage::new(&[]);
    let source = stage.client(PUT);
    stage.send(source, &aac(9));
    let text = list(&mut stage);
    let name = text.lines().last().expect("a name");
    let number = name.split(['-', '.']).nth(1).expect("a number");
    let newest: u64 = number.parse().expect("a number");
    let wait = |stage: &mut Stage, number: u64| {
        request(
            stage,
            &format!("GET /stream/s/index.m3u8?_HLS_msn={number}"),
        )
    };
    let later: Vec<_> = (0..50).map(|_| wait(&mut stage, newest + 2)).collect();
    let next = wait(&mut stage, newest + 1);
    for (waiting, answered) in [(50, 1), (0, 51)] {
        stage.relay.received(source, &aac(2), stage.now);
        stage.relay.check();
        assert_eq!(stage.relay.clients.waiting.len(WaitFor::Progress), waiting);
        stage.settle();
        let each = later.iter().chain([&next]);
        let is_answered = |id: &&ConnectionId| stage.text(**id).starts_with("HTTP/1.1 200");
        assert_eq!(each.filter(is_answered).count(), answered);
    }
    stage.lose(source);
    assert_eq!(stage.relay.clients.waiting.len(WaitFor::Progress), 0);
}

/// The highest possible number is too far ahead, like any other such number.
#[test]
fn a_request_for_a_playlist_too_far_ahead_is_refused_when_the_session_begins() {
    let mut stage = Stage::new(&["--wait=30"]);
    let numbers = [u64::MAX, u64::MAX - 1, 1 << 40];
    let waiting = numbers.map(|number| {
        let line = format!("GET /stream/s/index.m3u8?_HLS_msn={number}");
        request(&mut stage, &line)
    });
    assert!(waiting.iter().all(|id| stage.text(*id).is_empty()));
    let source = stage.client(PUT);
    stage.send(source, &aac(9));
    for id in waiting {
        let text = stage.text(id);
        assert!(text.starts_with("HTTP/1.1 400"), "{text}");
    }
    stage.lose(source);
}

/// A cache keeps the responses to the addresses that players use. Each object has one address.
#[test]
fn only_playlists_at_the_addresses_of_players_are_cached() {
    let mut stage = Stage::new(&[]);
    let source = stage.client(PUT);
    for _ in 0..8 {
        stage.send(source, &aac(9));
        stage.wait_seconds(9);
    }
    let text = list(&mut stage);
    let first = number(&text);
    let newest = first + text.matches("#EXTINF").count() as u64 - 1;
    for (number, said) in [
        (first.to_string(), "max-age=12"),
        // Another spelling of the same address.
        (format!("{first}&"), "no-store\r"),
        // The first part of the newest segment may be hinted at, and not exist yet.
        (format!("{newest}&_HLS_part=0"), "max-age=12"),
        (format!("{newest}&_HLS_part=1"), "no-store\r"),
        (format!("{}&_HLS_part=0", newest - 1), "no-store\r"),
        ((first - 1).to_string(), "no-store\r"),
        ("0".to_owned(), "no-store\r"),
        (format!("0{first}"), "HTTP/1.1 400"),
        (format!("+{first}"), "HTTP/1.1 400"),
    ] {
        let line = format!("GET /stream/s/index.m3u8?_HLS_msn={number}");
        let id = request(&mut stage, &line);
        assert!(stage.text(id).contains(said), "{line}: {}", stage.text(id));
    }
    stage.lose(source);
}

/// The origin would not be asked whether its viewers may still watch.
#[test]
fn an_ended_stream_is_closed_where_the_origin_admits_viewers() {
    for (tokens, is_given) in [("--body-rate=0", true), ("--origin-tokens", false)] {
        let mut stage = Stage::new(&["--origin=http://127.0.0.1:9000", tokens]);
        let viewer = request(&mut stage, "GET /stream/s/index.m3u8");
        let media = aac(9);
        let length = media.len();
        let origin = stage.answer(&format!(
            "HTTP/1.1 200 OK\r\nContent-Type: audio/aac\r\nContent-Length: {length}\r\n\r\n"
        ));
        stage.send(origin, &media[..length - 256]);
        assert!(
            stage.text(viewer).contains("#EXTINF"),
            "{}",
            stage.text(viewer)
        );
        let name = stage
            .text(viewer)
            .lines()
            .last()
            .expect("a name")
            .to_owned();
        let fetch = |stage: &mut Stage| {
            let id = request(stage, &format!("GET /stream/s/{name}"));
            stage.text(id).starts_with("HTTP/1.1 200")
        };
        assert!(fetch(&mut stage));
        stage.send(origin, &media[length - 256..]);
        assert_eq!(list(&mut stage).contains("#EXT-X-ENDLIST"), is_given);
        assert_eq!(fetch(&mut stage), is_given);
    }
}

/// No other event removes this stream: it has neither a source nor viewers.
#[cfg(feature = "hold")]
#[test]
fn a_held_stream_that_is_watched_by_playlist_ends_when_its_time_is_over() {
    let mut stage = Stage::new(&["--hold=3"]);
    let source = stage.client(PUT);
    stage.send(source, &aac(9));
    stage.wait_seconds(9);
    assert!(list(&mut stage).starts_with("HTTP/1.1 200"));
    stage.lose(source);
    stage.wait_seconds(4);
    assert!(list(&mut stage).starts_with("HTTP/1.1 200"));
    stage.wait_seconds(12);
    assert!(list(&mut stage).starts_with("HTTP/1.1 404"));
    stage.assert_nothing_left();
}

/// Returns a response's head without the date, and the body.
fn parted(text: &str) -> (String, &str) {
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let head = head.lines().filter(|line| !line.starts_with("Date:"));
    (head.collect::<Vec<_>>().join("\n"), body)
}

/// This holds for playlists and segments. Each request is counted by its kind.
#[test]
fn head_gets_the_same_head_as_get() {
    let mut stage = Stage::new(&[]);
    let source = stage.client(PUT);
    stage.send(source, &aac(9));
    let text = list(&mut stage);
    let segment = text.lines().last().expect("a name").to_owned();
    let lists = Count::Playlists;
    for (name, what, other, kind, caching) in [
        (
            "index.m3u8",
            lists,
            Count::Segments,
            "mpegurl",
            "max-age=1\n",
        ),
        (&segment, Count::Segments, lists, "audio/aac", "immutable\n"),
    ] {
        let count = |stage: &Stage, what| stage.relay.ctx.counts.of(what);
        let before = (count(&stage, what), count(&stage, other));
        let [got, head] = ["GET", "HEAD"].map(|method| {
            let id = request(&mut stage, &format!("{method} /stream/s/{name}"));
            assert!(!stage.closed.contains(&id));
            stage.text(id)
        });
        let (of_get, body) = parted(&got);
        let (of_head, nothing) = parted(&head);
        assert_eq!((of_get.as_str(), nothing), (of_head.as_str(), ""), "{name}");
        assert!(of_get.starts_with("HTTP/1.1 200 "), "{of_get}");
        let length = of_get.split("Content-Length: ").nth(1).expect("a length");
        let length: usize = length
            .lines()
            .next()
            .expect("a line")
            .parse()
            .expect("a number");
        // The body of a segment is not text.
        assert!(length > 50 && !body.is_empty(), "{of_get}");
        assert!(
            of_get.contains(kind) && of_get.contains(caching),
            "{of_get}"
        );
        assert!(
            of_get.contains("X-Content-Type-Options: nosniff"),
            "{of_get}"
        );
        assert!(
            of_get.contains("Content-Security-Policy: sandbox"),
            "{of_get}"
        );
        let after = (count(&stage, what), count(&stage, other));
        assert_eq!(after, (before.0 + 2, before.1), "{name}");
    }
    stage.lose(source);
}

/// Every player gets the whole segment, and may send another request on the connection.
#[test]
fn a_segment_has_its_declared_length_and_another_may_follow() {
    let mut stage = Stage::new(&[]);
    let source = stage.client(PUT);
    let media = aac(9);
    stage.send(source, &media);
    let text = list(&mut stage);
    let names: Vec<&str> = text.lines().filter(|it| it.ends_with(".aac")).collect();
    assert!(names.len() > 1, "{text}");
    let player = request(&mut stage, "GET /stream/s/index.m3u8");
    let (mut all, mut place) = (Vec::new(), stage.written[&player].len());
    for name in names {
        stage.send(
            player,
            &format!("GET /stream/s/{name} HTTP/1.1\r\nHost: h\r\n\r\n"),
        );
        let got = &stage.written[&player][place..];
        let head = got.windows(4).position(|four| four == b"\r\n\r\n");
        let (head, body) = got.split_at(head.expect("a head") + 4);
        let head = String::from_utf8_lossy(head);
        assert!(
            head.contains(&format!("Content-Length: {}\r\n", body.len())),
            "{head}"
        );
        let of_segment = media.windows(256).any(|part| body.ends_with(part));
        assert!(of_segment, "{name}");
        all.extend_from_slice(body);
        place = stage.written[&player].len();
    }
    assert!(all.len() > media.len() / 2 && !stage.closed.contains(&player));
    // A segment with another name does not exist.
    stage.send(
        player,
        "GET /stream/s/none-1.aac HTTP/1.1\r\nHost: h\r\n\r\n",
    );
    let text = String::from_utf8_lossy(&stage.written[&player][place..]).into_owned();
    assert!(text.starts_with("HTTP/1.1 404 "), "{text}");
    assert!(
        text.contains("no segment of the session has this name"),
        "{text}"
    );
    stage.lose(source);
}

/// HEAD does not wait. A request that waited too long is answered.
#[test]
fn a_request_for_a_playlist_that_does_not_grow_waits_for_a_while() {
    let mut stage = Stage::new(&[]);
    let source = stage.client(PUT);
    // This is too short for a segment.
    stage.send(source, &aac(1));
    let before = stage.relay.ctx.counts.of(Count::Playlists);
    let head = request(&mut stage, "HEAD /stream/s/index.m3u8");
    assert!(
        stage.text(head).starts_with("HTTP/1.1 503 "),
        "{}",
        stage.text(head)
    );
    let waits = request(&mut stage, "GET /stream/s/index.m3u8");
    assert_eq!(stage.text(waits), "");
    // A request that waits is counted when it is answered.
    assert_eq!(stage.relay.ctx.counts.of(Count::Playlists), before + 1);
    stage.wait_seconds(1);
    assert_eq!(stage.text(waits), "");
    stage.wait_seconds(30);
    assert!(
        stage.text(waits).starts_with("HTTP/1.1 503 "),
        "{}",
        stage.text(waits)
    );
    assert_eq!(stage.relay.ctx.counts.of(Count::Playlists), before + 2);
    stage.lose(source);
}

/// A stream whose playlist was requested drains. Without that it is removed at once.
#[test]
fn a_stream_whose_playlist_was_requested_outlives_its_source() {
    for (asks, lasts) in [
        (None, false),
        (Some("index.m3u8"), true),
        (Some("segment"), true),
    ] {
        let mut stage = Stage::new(&[]);
        let source = stage.client(PUT);
        stage.send(source, &aac(9));
        // This request no longer makes the stream count as watched.
        let text = list(&mut stage);
        let segment = text.lines().last().expect("a name").to_owned();
        stage.wait_seconds(13);
        assert!(!stage.relay.streams.is_watched(&session()));
        if let Some(asks) = asks {
            let name = if asks == "segment" { &segment } else { asks };
            request(&mut stage, &format!("GET /stream/s/{name}"));
        }
        assert_eq!(
            stage.relay.streams.is_watched(&session()),
            lasts,
            "{asks:?}"
        );
        stage.lose(source);
        assert_eq!(
            stage.relay.streams.draining.len(),
            usize::from(lasts),
            "{asks:?}"
        );
        stage.wait_seconds(13);
        stage.assert_nothing_left();
    }
}

/// A player that continues with the session's next stream finds higher segment numbers, also where
/// no stream is left that knows the earlier numbers.
#[cfg(feature = "default")]
#[test]
fn the_next_stream_of_a_session_continues_the_segment_numbers() {
    let options = ["--token-server=10.0.0.0/24"];
    let add = "POST /api/add-token?sessionid=s&type=http";
    let abort = "DELETE /api/abort-stream?sessionid=s";
    for media in [aac(27), flv(27)] {
        for (ends, hands) in [("source", false), (abort, false), (abort, true)] {
            let mut stage = Stage::new(&options);
            let added = request(&mut stage, add);
            stage.assert_status(added, 201);
            let play = |stage: &mut Stage| {
                let source = stage.client(PUT);
                let (first, rest) = media.split_at(4_000);
                stage.send(source, first);
                // A remuxed stream begins with its first client.
                list(stage);
                stage.send(source, rest);
                (source, list(stage))
            };
            let (source, text) = play(&mut stage);
            let unused = number(&text) + text.matches("#EXTINF").count() as u64;
            match ends {
                "source" => stage.lose(source),
                abort => {
                    let id = request(&mut stage, abort);
                    stage.assert_status(id, 200);
                    assert_eq!(stage.relay.streams.len(), 0);
                }
            }
            stage.lose(source);
            if hands {
                stage.change_hands(&options);
            }
            let (source, text) = play(&mut stage);
            assert!(!text.contains("ENDLIST"), "{text}");
            assert!(
                number(&text) >= unused,
                "{ends}: {} after {unused}",
                number(&text)
            );
            stage.lose(source);
        }
    }
}
