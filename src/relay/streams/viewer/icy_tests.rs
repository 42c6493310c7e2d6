//! Titles within a viewer's media.

use super::*;
use crate::relay::stage::Stage;

const MP3: &[u8] = include_bytes!("../../../../tests/media/sound.mp3");
const AAC: &[u8] = include_bytes!("../../../../tests/media/sound.aac");
const SOURCE: &str = "SOURCE /s HTTP/1.0\r\nAuthorization: Basic OnM=\r\nIce-Name: One\r\nIce-Genre: Jazz\r\nIce-Url: http://one.example\r\nIce-Description: It's one\r\nIce-Audio-Info: bitrate=96\r\n";
const OPTIONS: [&str; 4] = [
    "--icecast",
    "--hold=1m",
    "--takeover",
    "--token-server=10.0.0.0/24",
];

fn stage(options: &[&str]) -> Stage {
    let options = [&OPTIONS[..], options].concat();
    let mut stage = Stage::new(&options);
    let call = "POST /api/add-token?type=http&sessionid=s&direction=both";
    stage.client(&format!("{call} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    stage
}

fn publish(stage: &mut Stage, media_type: &str) -> ConnectionId {
    stage.client(&format!("{SOURCE}Content-Type: {media_type}\r\n\r\n"))
}

fn set(stage: &mut Stage, title: &str) {
    stage.wait_seconds(1);
    let line = format!("POST /api/set-title?sessionid=s&title={title}");
    let id = stage.client(&format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    stage.assert_status(id, 200);
}

fn listen(stage: &mut Stage, version: &str, fields: &str) -> ConnectionId {
    stage.client(&format!(
        "GET /stream/s HTTP/{version}\r\nHost: h\r\n{fields}\r\n"
    ))
}

/// What has come to a listener: the head, and the body without its chunks.
fn response(stage: &Stage, id: ConnectionId) -> (String, Vec<u8>) {
    let bytes = &stage.written[&id];
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .expect("a head")
        + 4;
    let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
    let body = match head.contains("Transfer-Encoding: chunked") {
        true => stage.media(id).0,
        false => bytes[end..].to_vec(),
    };
    (head, body)
}

/// Takes a body apart: the media, and the titles with the media bytes in front of each.
fn split(mut body: &[u8]) -> (Vec<u8>, Vec<(usize, String)>) {
    let (mut media, mut titles) = (Vec::new(), Vec::new());
    while body.len() > usize::from(INTERVAL) {
        let (before, rest) = body.split_at(INTERVAL.into());
        media.extend_from_slice(before);
        let length = 16 * usize::from(rest[0]);
        let Some(block) = rest.get(1..1 + length) else {
            return (media, titles);
        };
        if length > 0 {
            let text = String::from_utf8(block.to_vec()).expect("UTF-8");
            let text = text.trim_end_matches('\0');
            assert!(block.len() < text.len() + 16, "{text:?}");
            let title = text.strip_prefix("StreamTitle='").expect("a title");
            titles.push((
                media.len(),
                title.strip_suffix("';").expect("its end").to_owned(),
            ));
        }
        body = &rest[1 + length..];
    }
    media.extend_from_slice(body);
    (media, titles)
}

/// Sources declare their media in many ways.
#[test]
fn a_listener_that_waits_gets_titles_whatever_the_source_declares() {
    for (media_type, media, has_titles) in [
        ("Audio/MPEG; charset=utf-8", MP3, true),
        ("audio/x-aac", AAC, true),
        ("audio/mpeg", &b"OggS is no frame of MP3"[..], false),
    ] {
        let mut stage = stage(&["--wait=60"]);
        let listener = listen(&mut stage, "1.1", "Icy-MetaData: 1\r\n");
        let source = publish(&mut stage, media_type);
        let (begin, rest) = media.split_at(2);
        stage.send(source, begin);
        stage.send(source, &rest.repeat(20_000 / rest.len() + 1));
        let (head, _) = response(&stage, listener);
        assert_eq!(head.contains("icy-metaint: 16000"), has_titles, "{head}");
    }
}

/// Without rests, the server would ask for this listener's output again and again.
#[test]
fn a_listener_without_a_head_rests_until_the_format_is_known() {
    let mut stage = Stage::new(&["--icecast"]);
    let line = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Type: audio/mpeg\r\n";
    let source = stage.client(&format!("{line}Content-Length: 99999\r\n\r\n"));
    let (begin, rest) = MP3.split_at(1);
    stage.relay.received(source, begin, stage.now);
    let listener = stage.client("");
    let watch = b"GET /stream/s HTTP/1.1\r\nHost: h\r\nIcy-MetaData: 1\r\n\r\n";
    stage.relay.received(listener, watch, stage.now);
    assert!((0..9).any(|_| !stage.write_next()), "it has turns forever");
    stage.relay.check();
    assert_eq!(stage.written[&listener], b"");
    stage.relay.received(source, rest, stage.now);
    stage.settle();
    let (head, body) = response(&stage, listener);
    assert!(head.contains("icy-metaint: 16000"), "{head}");
    assert!(body.starts_with(&MP3[..1_000]));
}

/// Media bytes between two blocks.
const INTERVAL: u16 = 16_000;

/// Repeats whole frames, so that a stream is long enough for several blocks.
fn long(media: &[u8]) -> Vec<u8> {
    media.repeat(100_000 / media.len() + 1)
}

/// Listeners with `Icy-MetaData: 1` get titles every 16,000 bytes in each framing. Others get the
/// stream.
#[test]
fn titles_stand_every_16_000_bytes() {
    for (media, media_type) in [(MP3, "audio/mpeg"), (AAC, "audio/aac"), (MP3, "audio/x")] {
        let media = long(media);
        for (options, version) in [
            (&[][..], "1.1"),
            (&[], "1.0"),
            (&["--close-delimited"], "1.1"),
        ] {
            let mut stage = stage(options);
            let source = publish(&mut stage, media_type);
            stage.send_media(source, &media[..2_000]);
            set(&mut stage, "a%27b");
            let asks = "icy-metadata: 1\r\n";
            let with = listen(&mut stage, version, asks);
            let without = listen(&mut stage, version, "");
            stage.send_media(source, &media[2_000..50_000]);
            set(&mut stage, "c");
            stage.send_media(source, &media[50_000..]);
            let (head, body) = response(&stage, with);
            let fields = "icy-name: One\r\nicy-genre: Jazz\r\nicy-url: http://one.example\r\nicy-description: It's one\r\nicy-br: 96\r\n";
            let asked = format!("Vary: Icy-MetaData\r\nicy-metaint: 16000\r\n{fields}");
            assert!(head.contains(&asked), "{head}");
            let (of_with, titles) = split(&body);
            let (head, of_without) = response(&stage, without);
            let unasked = format!("Vary: Icy-MetaData\r\n{fields}");
            assert!(head.contains(&unasked), "{head}");
            assert!(of_with == of_without && media.ends_with(&of_with));
            let behind = media.len() - of_with.len();
            let next = (50_000 - behind).div_ceil(16_000) * 16_000;
            let expected = [(16_000, "a’b".to_owned()), (next, "c".to_owned())];
            assert_eq!(titles, expected, "{options:?} {version}");
            stage.relay.check();
        }
    }
}

/// Without `--icecast`, for other media and for other values of the field, there are no titles.
#[test]
fn titles_are_sent_only_where_they_are_known() {
    for (options, fields, media_type) in [
        (&[][..], "Icy-MetaData: 1\r\n", "audio/mpeg"),
        (&["--icecast"], "Icy-MetaData: 0\r\n", "audio/mpeg"),
        (&["--icecast"], "Icy-MetaData: yes\r\n", "audio/mpeg"),
        (&["--icecast"], "Icy-MetaData: 1\r\n", "video/webm"),
    ] {
        let mut stage = Stage::new(options);
        let put = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 999999\r\n";
        let source = stage.client(&format!("{put}Content-Type: {media_type}\r\n\r\n"));
        let text = "x".repeat(40_000);
        let media = if media_type == "video/webm" {
            text.as_bytes()
        } else {
            &long(MP3)[..40_000]
        };
        let viewer = listen(&mut stage, "1.1", fields);
        stage.send_media(source, media);
        let (head, body) = response(&stage, viewer);
        assert!(!head.contains("icy-"), "{options:?} {fields}: {head}");
        assert_eq!(body, media, "{options:?} {fields}");
    }
}

/// HEAD gets the head that GET gets.
#[test]
fn the_head_alone_has_the_fields() {
    let mut stage = stage(&[]);
    let source = publish(&mut stage, "audio/mpeg");
    stage.send_media(source, MP3);
    let [get, head] = ["GET", "HEAD"].map(|method| {
        let line = format!("{method} /stream/s HTTP/1.1\r\nHost: h\r\nIcy-MetaData: 1\r\n\r\n");
        stage.client(&line)
    });
    assert_eq!(response(&stage, get).0, stage.text(head));
}

/// A socket may stop at any byte. The media and the places of titles stay the same, also after a
/// hand-over.
#[test]
fn a_listener_goes_on_where_its_socket_stopped() {
    let media = long(MP3);
    for options in [&[][..], &["--close-delimited"]] {
        // The first block with text is 33 bytes long, and its framing 6 more.
        let stops = (15_990..16_060).chain([0, 1, 500, 20_000, 32_030, 32_040, 32_050, 32_060]);
        for stop in stops {
            for hands_over in [false, true] {
                let mut stage = stage(options);
                let source = publish(&mut stage, "audio/mpeg");
                stage.send_media(source, &media[..100]);
                set(&mut stage, "the%20first%20title");
                let listener = listen(&mut stage, "1.1", "Icy-MetaData: 1\r\n");
                let head = response(&stage, listener).0.len();
                stage.relay.received(source, &media[100..40_000], stage.now);
                stage.write_part(listener, stop);
                let before = stage.written[&listener].len() - head;
                assert!(before <= stop + 200);
                stage
                    .relay
                    .served(listener, crate::stream::Outcome::Blocked, stage.now);
                let line =
                    "POST /api/set-title?sessionid=s&title=two HTTP/1.1\r\nHost: localhost\r\n\r\n";
                stage.wait_seconds(1);
                let peer = std::net::SocketAddr::from(([10, 0, 0, 1], 9));
                let caller = stage.relay.accepted(peer, stage.now).expect("room");
                stage.relay.received(caller, line.as_bytes(), stage.now);
                stage.write_part(listener, 0);
                #[cfg(feature = "handover")]
                if hands_over {
                    let options = [&OPTIONS[..], options].concat();
                    stage.relay = stage.hand_over().taken_over(&options).expect("it fits");
                }
                stage.relay.check();
                stage.relay.unblocked(listener);
                stage.settle();
                stage.send_media(source, &media[40_000..]);
                let (_, body) = response(&stage, listener);
                let (got, titles) = split(&body);
                let case = format!("{options:?} {stop} {hands_over} {titles:?}");
                let from = media.len() - got.len();
                assert!(media.ends_with(&got) && from <= 100, "{case}");
                let all: Vec<&str> = titles.iter().map(|(_, title)| title.as_str()).collect();
                assert!(
                    matches!(*all, ["the first title", "two"] | ["two"]),
                    "{case}"
                );
                assert!(titles[0].0 == 16_000, "{case}");
            }
        }
    }
}

/// The counting goes on over a break of the source, and over a source that takes over.
#[test]
fn the_counting_goes_on_with_another_source() {
    let media = long(MP3);
    for takes_over in [false, true] {
        let mut stage = stage(&[]);
        let source = publish(&mut stage, "audio/mpeg");
        let listeners = ["Icy-MetaData: 1\r\n", ""].map(|fields| listen(&mut stage, "1.1", fields));
        stage.send_media(source, &media[..50_000]);
        set(&mut stage, "a");
        if !takes_over {
            stage.lose(source);
        }
        let next = publish(&mut stage, "audio/mpeg");
        stage.send_media(next, &media);
        set(&mut stage, "b");
        stage.send_media(next, &media);
        let [with, without] = listeners.map(|listener| response(&stage, listener).1);
        let (media, titles) = split(&with);
        assert!(media == without && media.len() > 200_000, "{}", media.len());
        let names: Vec<&str> = titles.iter().map(|(_, title)| title.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
    }
}

/// A listener that falls out of the buffer skips media, and the counting goes on.
#[test]
fn the_counting_goes_on_over_a_skip() {
    let media = long(AAC).repeat(16);
    let mut stage = stage(&["--buffer=64K"]);
    let source = publish(&mut stage, "audio/aac");
    let listener = listen(&mut stage, "1.1", "Icy-MetaData: 1\r\n");
    for (number, piece) in media.chunks(8_000).enumerate() {
        stage.relay.received(source, piece, stage.now);
        // Its socket takes a few bytes, and later all.
        stage.write_part(listener, 3_001);
        if number % 60 == 59 {
            stage.relay.unblocked(listener);
            stage.settle();
        }
        stage.relay.check();
    }
    stage.relay.unblocked(listener);
    stage.settle();
    let (_, body) = response(&stage, listener);
    let (got, titles) = split(&body);
    assert!(titles.is_empty() && got.len() < media.len());
    // Each frame is whole: skips are between two frames.
    let mut at = 0;
    while at + 7 <= got.len() {
        assert_eq!((got[at], got[at + 1] & 0xf6), (0xff, 0xf0), "at {at}");
        let length = (usize::from(got[at + 3] & 3) << 11)
            | usize::from(got[at + 4]) << 3
            | usize::from(got[at + 5]) >> 5;
        assert!(length > 7, "at {at}");
        at += length;
    }
}

/// A listener's position takes 8 bytes, and the longest title fits a block.
#[test]
fn a_position_takes_8_bytes() {
    assert_eq!(size_of::<IcyPosition>(), 8);
    let mut stage = stage(&[]);
    let source = publish(&mut stage, "audio/mpeg");
    let listener = listen(&mut stage, "1.1", "Icy-MetaData: 1\r\n");
    set(&mut stage, &"%27".repeat(513));
    stage.send_media(source, &long(MP3));
    let (_, titles) = split(&response(&stage, listener).1);
    assert_eq!(titles, [(16_000, "’".repeat(512))]);
}
