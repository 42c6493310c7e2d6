//! Who watches by playlists, on the stage: how long a stream that has ended is there for them.
#![cfg(feature = "hls")]

use crate::relay::ConnectionId;
use crate::relay::stage::Stage;

/// AAC in ADTS of so many seconds and a bit: frames of 1,024 samples, 48,000 a second.
fn aac(seconds: usize) -> Vec<u8> {
    let frame = [
        &[0xff, 0xf1, 0x4c, 0x80, 0x20, 0x1f, 0xfc][..],
        &[0x11; 249],
    ]
    .concat();
    frame.repeat(seconds * 47)
}

fn request(stage: &mut Stage, line: &str) -> ConnectionId {
    stage.client(&format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
}

fn list(stage: &mut Stage) -> String {
    let id = request(stage, "GET /stream/s/index.m3u8");
    let text = stage.text(id);
    stage.lose(id);
    text
}

fn hear(stage: &mut Stage, id: ConnectionId, bytes: &[u8]) {
    stage.relay.received(id, bytes, stage.now);
    stage.settle();
}

/// The target is two seconds.
#[test]
fn a_stream_that_has_ended_is_there_for_six_targets_however_often_it_is_asked_for() {
    let mut stage = Stage::new(&[]);
    let media = aac(9);
    let (first, last) = media.split_at(media.len() - 256);
    let head = format!(
        "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n",
        media.len()
    );
    let source = stage.client(&head);
    hear(&mut stage, source, first);
    stage.wait_seconds(9);
    assert!(list(&mut stage).starts_with("HTTP/1.1 200"));
    stage.wait_seconds(3);
    hear(&mut stage, source, last);
    for _ in 0..8 {
        assert!(list(&mut stage).contains("#EXT-X-ENDLIST"));
        stage.wait_seconds(1);
    }
    stage.wait_seconds(2);
    assert!(list(&mut stage).starts_with("HTTP/1.1 404"));
    stage.lose(source);
    stage.assert_nothing_left();
}

/// However many wait for what comes later, they are not looked at.
#[test]
fn a_segment_calls_those_alone_who_wait_for_it() {
    let mut stage = Stage::new(&[]);
    let head = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n";
    let source = stage.client(head);
    hear(&mut stage, source, &aac(9));
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
        assert_eq!(stage.relay.clients.blocked().len(), waiting);
        stage.settle();
        let each = later.iter().chain([&next]);
        let is_answered = |id: &&ConnectionId| stage.text(**id).starts_with("HTTP/1.1 200");
        assert_eq!(each.filter(is_answered).count(), answered);
    }
    stage.lose(source);
    assert_eq!(stage.relay.clients.blocked().held_bytes(), 0);
}

/// The farthest number there is lies too far ahead, as any other that does.
#[test]
fn who_waits_for_a_session_and_a_list_without_end_is_told_when_it_begins() {
    let mut stage = Stage::new(&["--wait=30"]);
    let numbers = [u64::MAX, u64::MAX - 1, 1 << 40];
    let waiting = numbers.map(|number| {
        let line = format!("GET /stream/s/index.m3u8?_HLS_msn={number}");
        request(&mut stage, &line)
    });
    assert!(waiting.iter().all(|id| stage.text(*id).is_empty()));
    let head = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n";
    let source = stage.client(head);
    hear(&mut stage, source, &aac(9));
    for id in waiting {
        let text = stage.text(id);
        assert!(text.starts_with("HTTP/1.1 400"), "{text}");
    }
    stage.lose(source);
}

/// A cache keeps what players ask for, by one address each.
#[test]
fn a_list_is_kept_for_long_by_the_numbers_alone_that_players_ask_for() {
    let mut stage = Stage::new(&[]);
    let head = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 9000000\r\n\r\n";
    let source = stage.client(head);
    for _ in 0..8 {
        hear(&mut stage, source, &aac(9));
        stage.wait_seconds(9);
    }
    let text = list(&mut stage);
    let (_, first) = text.split_once("MEDIA-SEQUENCE:").expect("a number");
    let (first, _) = first.split_once('\n').expect("a line");
    let first: u64 = first.parse().expect("a number");
    for (number, said) in [
        (first.to_string(), "max-age=12"),
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

/// Nobody would ask it whether they still may.
#[test]
fn what_has_ended_is_not_given_out_where_the_origin_says_who_may_watch() {
    for (tokens, is_given) in [("--body-rate=0", true), ("--origin-tokens", false)] {
        let mut stage = Stage::new(&["--origin=http://127.0.0.1:9000", tokens]);
        let viewer = request(&mut stage, "GET /stream/s/index.m3u8");
        let media = aac(9);
        let length = media.len();
        let origin = stage.answer(&format!(
            "HTTP/1.1 200 OK\r\nContent-Type: audio/aac\r\nContent-Length: {length}\r\n\r\n"
        ));
        hear(&mut stage, origin, &media[..length - 256]);
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
        hear(&mut stage, origin, &media[length - 256..]);
        assert_eq!(list(&mut stage).contains("#EXT-X-ENDLIST"), is_given);
        assert_eq!(fetch(&mut stage), is_given);
    }
}

/// Nobody else would look after it: it has neither source nor viewers.
#[cfg(feature = "hold")]
#[test]
fn a_held_stream_that_somebody_watches_so_is_forgotten_when_its_time_is_over() {
    let mut stage = Stage::new(&["--hold=3"]);
    let head = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n";
    let source = stage.client(head);
    hear(&mut stage, source, &aac(9));
    stage.wait_seconds(9);
    assert!(list(&mut stage).starts_with("HTTP/1.1 200"));
    stage.lose(source);
    stage.wait_seconds(4);
    assert!(list(&mut stage).starts_with("HTTP/1.1 200"));
    stage.wait_seconds(12);
    assert!(list(&mut stage).starts_with("HTTP/1.1 404"));
    stage.assert_nothing_left();
}
