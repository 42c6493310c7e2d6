use super::sample::{asking, command, connect, handshake, message};
use super::*;
use std::collections::VecDeque;

/// A publisher, with the results so far.
struct Stage {
    publisher: Publisher,
    rest: Vec<u8>,
    media: Vec<u8>,
    answers: Vec<u8>,
    requests: Vec<Result<Vec<u8>, &'static str>>,
    end: Option<Result<(), &'static str>>,
}

impl Stage {
    fn new() -> Stage {
        Stage {
            publisher: Publisher::new(8000).expect("it is built in"),
            rest: Vec::new(),
            media: Vec::new(),
            answers: Vec::new(),
            requests: Vec::new(),
            end: None,
        }
    }

    /// A publisher that is admitted.
    fn admitted() -> Stage {
        let mut stage = Stage::new();
        stage.send(&handshake());
        stage.send(&asking("s"));
        assert_eq!(stage.requests.len(), 1);
        stage.answers.clear();
        stage
    }

    /// Sends bytes. Each request is admitted.
    fn send(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let rest = std::mem::take(&mut self.rest);
        let mut input = &rest[..];
        while self.end.is_none() {
            let mut media = Vec::new();
            let found = self.publisher.read(&mut input, &mut media);
            self.media.append(&mut media);
            match found {
                Ok(Event::More) => break,
                Ok(Event::Media) => {}
                Ok(Event::Publish(name)) => {
                    self.publisher.admit();
                    self.requests.push(name);
                }
                Ok(Event::End) => self.end = Some(Ok(())),
                Err(fault) => self.end = Some(Err(fault)),
            }
            let collected = self.publisher.chunks.sum(Vec::len);
            assert!(collected + self.publisher.waiting.len() <= COLLECTED_BYTES_MAX + 15);
        }
        self.answers.extend(self.publisher.take_answers(false));
        self.rest = input.to_vec();
        assert!(
            self.end.is_some() || self.rest.len() <= 18,
            "{}",
            self.rest.len()
        );
    }

    fn fault(&self) -> &'static str {
        match self.end {
            Some(Err(reason)) => reason,
            _ => "",
        }
    }

    /// The tags so far: type, time and body.
    fn tags(&self) -> Vec<(u8, u32, Vec<u8>)> {
        let mut tags = Vec::new();
        let mut rest = self.media.get(13..).unwrap_or_default();
        while let Some((head, after)) = rest.split_first_chunk::<11>() {
            let [kind, l0, l1, l2, t0, t1, t2, t3, ..] = *head;
            let length = u32::from_be_bytes([0, l0, l1, l2]) as usize;
            let Some((body, end)) = after.split_at_checked(length) else {
                break;
            };
            let body = body.to_vec();
            let Some((end, after)) = end.split_first_chunk::<4>() else {
                break;
            };
            assert_eq!(u32::from_be_bytes(*end), length as u32 + 11);
            tags.push((kind, u32::from_be_bytes([t3, t0, t1, t2]), body));
            rest = after;
        }
        tags
    }
}

const RECORDINGS: [(&str, &[u8], &[u8]); 3] = [
    (
        "ffmpeg",
        include_bytes!("../../tests/rtmp/ffmpeg.rtmp"),
        include_bytes!("../../tests/rtmp/ffmpeg.flv"),
    ),
    (
        "GStreamer's rtmp2sink",
        include_bytes!("../../tests/rtmp/rtmp2sink.rtmp"),
        include_bytes!("../../tests/rtmp/rtmp2sink.flv"),
    ),
    (
        "librtmp",
        include_bytes!("../../tests/rtmp/rtmpsink.rtmp"),
        include_bytes!("../../tests/rtmp/rtmpsink.flv"),
    ),
];

#[test]
fn recordings_give_the_flv_of_their_publisher() {
    for (publisher, sent, flv) in RECORDINGS {
        let mut stage = Stage::new();
        stage.send(sent);
        assert_eq!(stage.end, Some(Ok(())), "{publisher}");
        assert_eq!(stage.requests, [Ok(b"demo".to_vec())], "{publisher}");
        assert!(stage.media == flv, "{publisher}");
        let mut bytewise = Stage::new();
        sent.iter().for_each(|byte| bytewise.send(&[*byte]));
        assert!(bytewise.media == flv, "{publisher}");
        assert_eq!(bytewise.end, Some(Ok(())), "{publisher}");
    }
}

/// OBS sends sound and pictures on one chunk stream. This recording ends within a message.
#[test]
fn a_recording_of_obs_may_be_split_anywhere() {
    let sent = include_bytes!("../../tests/rtmp/obs.rtmp");
    let mut whole = Stage::new();
    whole.send(sent);
    assert_eq!((whole.requests.len(), whole.end.is_none()), (1, true));
    let tags = whole.tags();
    let kinds = |kind| tags.iter().filter(|tag| tag.0 == kind).count();
    assert!(kinds(8) > 5 && kinds(9) > 5 && kinds(18) == 1);
    for at in 0..sent.len() {
        let mut stage = Stage::new();
        stage.send(&sent[..at]);
        stage.send(&sent[at..]);
        assert!(stage.media == whole.media, "at {at}");
    }
}

#[test]
fn recordings_may_be_split_anywhere() {
    for (publisher, sent, flv) in RECORDINGS {
        let mut whole = Stage::new();
        whole.send(sent);
        for at in 0..sent.len() {
            let mut stage = Stage::new();
            stage.send(&sent[..at]);
            stage.send(&sent[at..]);
            assert!(stage.media == flv, "{publisher} at {at}");
            assert!(stage.answers == whole.answers, "{publisher} at {at}");
            assert_eq!(stage.end, Some(Ok(())), "{publisher} at {at}");
        }
    }
}

/// Each recording's sound and pictures again, in pairs whose chunks alternate.
#[test]
fn recordings_may_interleave_their_messages() {
    for (publisher, sent, flv) in RECORDINGS {
        let mut whole = Stage::new();
        whole.send(sent);
        let mut stage = Stage::admitted();
        let tags = whole.tags();
        let mut rest = &tags[..];
        while let Some((tag, after)) = rest.split_first() {
            let other = after.first().filter(|other| tag.0 != 18 && other.0 != 18);
            let pair = [Some(tag), other].into_iter().flatten();
            rest = &rest[pair.clone().count()..];
            let mut pair = [4, 6]
                .into_iter()
                .zip(pair)
                .map(|(id, (kind, time, body))| {
                    let bytes = message((id, *kind, *time), body, 128);
                    let (first, rest) = bytes.split_at(bytes.len().min(12 + 128));
                    let chunks = std::iter::once(first).chain(rest.chunks(1 + 128));
                    chunks.map(<[u8]>::to_vec).collect::<VecDeque<_>>()
                });
            let mut pair = [pair.next(), pair.next()].map(Option::unwrap_or_default);
            while pair.iter().any(|chunks| !chunks.is_empty()) {
                let chunks = pair.iter_mut().filter_map(VecDeque::pop_front);
                chunks.for_each(|chunk| stage.send(&chunk));
            }
        }
        assert!(stage.tags() == whole.tags(), "{publisher}");
        assert!(stage.media == flv, "{publisher}");
    }
}

/// All three forms of a chunk stream's number. The message that began first goes out first.
#[test]
fn interleaved_messages_become_whole_tags() {
    let basic = |form: u8, id: u32| match id {
        ..64 => vec![form << 6 | id as u8],
        64..320 => vec![form << 6, (id - 64) as u8],
        _ => {
            let [low, high, ..] = (id - 64).to_le_bytes();
            vec![form << 6 | 1, low, high]
        }
    };
    for (one, other) in [(4, 6), (6, 70), (70, 400), (400, 65_599)] {
        let bodies = [vec![1; 300], vec![2; 300]];
        let head = |id, kind| {
            let head = [0, 0, 40, 0, 1, 44, kind, 1, 0, 0, 0];
            [&basic(0, id)[..], &head].concat()
        };
        let bytes = [
            head(one, 9),
            bodies[0][..128].to_vec(),
            head(other, 8),
            bodies[1][..128].to_vec(),
            basic(3, one),
            bodies[0][128..256].to_vec(),
            basic(3, other),
            bodies[1][128..256].to_vec(),
            basic(3, other),
            bodies[1][256..].to_vec(),
            basic(3, one),
            bodies[0][256..].to_vec(),
        ]
        .concat();
        for at in 0..bytes.len() {
            let mut stage = Stage::admitted();
            stage.send(&bytes[..at]);
            stage.send(&bytes[at..]);
            let [first, second] = bodies.clone();
            assert_eq!(
                stage.tags(),
                [(9, 40, first), (8, 40, second)],
                "{one} {other}"
            );
        }
    }
}

/// Some publishers repeat a time of 32 bits in front of each chunk, and some do not.
#[test]
fn times_have_32_bits_and_wrap() {
    for time in [0xff_fffe, 0xff_ffff, 0x100_0000, u32::MAX] {
        for repeats in [true, false] {
            let body: Vec<u8> = (0..300).map(|number| number as u8).collect();
            let mut bytes = message((4, 9, time), &body, 128);
            if !repeats && time >= 0xff_ffff {
                // Behind the basic header, the header, the time and the chunk.
                bytes.drain(145..149);
                bytes.drain(274..278);
            }
            // Then 40 ms later.
            bytes.extend_from_slice(&[0x44, 0, 0, 40, 0, 0, 1, 9, 7]);
            // And 40 ms more, by a header without fields.
            bytes.extend_from_slice(&[0xc4, 8]);
            for at in 0..bytes.len() {
                let mut stage = Stage::admitted();
                stage.send(&bytes[..at]);
                stage.send(&bytes[at..]);
                let later = time.wrapping_add(40);
                let expected = [
                    (9, time, body.clone()),
                    (9, later, vec![7]),
                    (9, later.wrapping_add(40), vec![8]),
                ];
                assert_eq!(stage.tags(), expected, "{time} {repeats} {at}");
            }
        }
    }
}

/// librtmp begins a chunk stream so. Its time is a delta from 0, also if it has 32 bits.
#[test]
fn a_chunk_stream_may_begin_with_a_header_of_type_1() {
    let mut stage = Stage::admitted();
    stage.send(&[0x44, 0, 0, 40, 0, 0, 1, 9, b'a']);
    stage.send(&[0x44, 0xff, 0xff, 0xff, 0, 0, 1, 9, 1, 0, 0, 0, b'b']);
    stage.send(&[0x84, 0, 0, 2, b'c']);
    let expected = [(40, b"a"), (0x0100_0028, b"b"), (0x0100_002a, b"c")];
    assert_eq!(
        stage.tags(),
        expected.map(|(time, body)| (9, time, body.to_vec()))
    );
}

/// OBS goes back in time by adding nearly 2^32, and the delta of a header of type 0 is its time.
#[test]
fn deltas_are_added_modulo_2_to_the_32() {
    let mut stage = Stage::admitted();
    stage.send(&message((4, 9, 100), b"a", 128));
    stage.send(&[0x84, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xf6, b'b']);
    stage.send(&message((4, 9, 50), b"c", 128));
    stage.send(&[0xc4, b'd']);
    let times: Vec<u32> = stage.tags().iter().map(|tag| tag.1).collect();
    assert_eq!(times, [100, 90, 50, 100]);
}

#[test]
fn a_chunk_size_holds_from_the_next_chunk_on() {
    let set = |bytes: u32| message((2, 1, 0), &bytes.to_be_bytes(), 128);
    for size in [128, 129, 4096, 65_536, 0x7fff_ffff, u32::MAX] {
        let body: Vec<u8> = (0..70_000).map(|number| number as u8).collect();
        let mut stage = Stage::admitted();
        stage.send(&set(size));
        stage.send(&message((6, 9, 0), &body, size as usize));
        assert!(stage.tags() == [(9, 0, body)], "{size}");
    }
    // Between two chunks of a message.
    let mut stage = Stage::admitted();
    let bytes = message((6, 9, 0), &[5; 400], 128);
    stage.send(&bytes[..140]);
    stage.send(&set(300));
    stage.send(&[&[0xc6][..], &[5; 272]].concat());
    assert_eq!(stage.tags(), [(9, 0, vec![5; 400])]);
    for size in [0, 1, 127] {
        let mut stage = Stage::admitted();
        stage.send(&set(size));
        assert_eq!(stage.fault(), "its chunk size is less than 128 bytes");
    }
}

/// The first message goes out before it is whole.
#[test]
fn media_passes_as_it_comes() {
    let mut stage = Stage::admitted();
    let bytes = message((6, 9, 0), &[5; 400], 128);
    stage.send(&bytes[..12 + 100]);
    assert_eq!(stage.media.len(), 13 + 11 + 100);
    assert!(
        stage
            .media
            .starts_with(b"FLV\x01\x05\0\0\0\x09\0\0\0\0\x09\0\x01\x90")
    );
}

/// The longest message goes out while it comes, and is kept nowhere.
#[test]
fn a_message_of_16_mib_passes() {
    let body = vec![7; 0xff_ffff];
    let bytes = message((6, 9, 0), &body, 4096);
    let mut stage = Stage::admitted();
    stage.send(&message((2, 1, 0), &4096_u32.to_be_bytes(), 128));
    for piece in bytes.chunks(300_000) {
        stage.send(piece);
        assert!(stage.publisher.memory_bytes() < size_of::<Publisher>() + 4 * 1024);
    }
    assert!(stage.tags() == [(9, 0, body)]);
}

/// Of each type that a publisher sends.
#[test]
fn empty_messages_are_ignored() {
    for kind in [1, 2, 3, 4, 5, 6, 8, 9, 15, 17, 18, 20] {
        for mut stage in [Stage::new(), Stage::admitted()] {
            if stage.requests.is_empty() {
                stage.send(&handshake());
            }
            stage.send(&[message((5, kind, 0), b"", 128), vec![0xc5, 0xc5]].concat());
            assert_eq!((stage.end, stage.media.len()), (None, 0), "{kind}");
        }
    }
}

/// Flash's other encoding: a byte in front.
#[test]
fn a_command_may_come_as_amf3() {
    let mut body = vec![0];
    body.extend_from_slice(&connect("live", "rtmp://h/live")[12..]);
    let mut stage = Stage::new();
    stage.send(&handshake());
    stage.send(&message((3, 17, 0), &body, 128));
    stage.send(&command("publish", 2.0, Some("s")));
    assert_eq!(stage.requests, [Ok(b"s".to_vec())]);
}

#[test]
fn a_broken_rule_ends_the_connection() {
    let open = &message((6, 9, 0), &[5; 400], 128)[..140];
    let chunk_streams: Vec<u8> = (3..12)
        .flat_map(|id| message((id, 8, 0), b"x", 128))
        .collect();
    let collected: Vec<u8> = (0..8)
        .flat_map(|_| message((4, 8, 0), &[0; 40_000], 128))
        .collect();
    let cases: [(Vec<u8>, &str); 13] = [
        (
            [open, &[0x06, 0]].concat(),
            "a message begins within another one of its chunk stream",
        ),
        (
            [open, &[0x46, 0]].concat(),
            "a message begins within another one of its chunk stream",
        ),
        (
            [open, &[0x86, 0]].concat(),
            "a message begins within another one of its chunk stream",
        ),
        (
            vec![0x8a, 0, 0, 0],
            "a chunk stream begins with a header of type 2 or 3",
        ),
        (
            vec![0xca],
            "a chunk stream begins with a header of type 2 or 3",
        ),
        (chunk_streams, "it has more than 8 chunk streams"),
        (
            [open, &collected].concat(),
            "more than 256 KiB of its messages are not whole",
        ),
        (
            message((5, 22, 0), b"x", 128),
            "a message is of no type that a publisher sends; its encoder must write FLV",
        ),
        (
            message((5, 255, 0), b"x", 128),
            "a message is of no type that a publisher sends; its encoder must write FLV",
        ),
        (
            message((5, 20, 0), b"x", 128),
            "a command has no name or no transaction id",
        ),
        (
            message((5, 20, 0), &[0; 9000], 128),
            "a command is longer than 8 KiB",
        ),
        (
            command("publish", 9.0, Some("other")),
            "it asks for a second stream; a connection has one",
        ),
        (
            [open, &message((2, 2, 0), &[0, 0, 0, 6], 128)].concat(),
            "it aborts a message of which a part has gone out",
        ),
    ];
    for (bytes, reason) in cases {
        for at in [0, bytes.len() / 2, bytes.len() - 1] {
            let mut stage = Stage::admitted();
            stage.send(&bytes[..at]);
            stage.send(&bytes[at..]);
            assert_eq!(stage.fault(), reason);
        }
    }
    // 32 commands, three of which were there before.
    let mut stage = Stage::admitted();
    (0..29).for_each(|_| stage.send(&command("x", 9.0, None)));
    assert_eq!(stage.fault(), "");
    stage.send(&command("x", 9.0, None));
    assert_eq!(stage.fault(), "it has sent more than 32 commands");
}

#[test]
fn a_first_byte_that_is_not_rtmps_is_not_answered() {
    for (bytes, reason) in [
        (
            &b"\x16\x03\x01"[..],
            "it speaks TLS; for rtmps, put a proxy with TLS in front",
        ),
        (
            b"GET / HTTP/1.1",
            "it speaks HTTP; send that to the port of --listen",
        ),
        (b"\x06", "it does not speak RTMP"),
    ] {
        let mut stage = Stage::new();
        stage.send(bytes);
        assert_eq!((stage.fault(), stage.answers.len()), (reason, 0));
    }
}

#[test]
fn the_handshake_is_answered_as_it_comes() {
    let bytes = handshake();
    let mut stage = Stage::new();
    stage.send(&bytes[..1]);
    assert_eq!(stage.answers, [&[3][..], &[0; 1536]].concat());
    stage.send(&bytes[1..1000]);
    stage.send(&bytes[1000..]);
    assert_eq!(stage.answers[1537..], bytes[1..1537]);
}

#[test]
fn a_name_is_the_key_without_a_query_or_the_last_part_of_the_app() {
    let cases = [
        ("live", "demo", Ok("demo")),
        ("live?token=x", "demo?user=a&pass=b", Ok("demo")),
        ("live", "a%2Fb%3f", Ok("a/b?")),
        ("live", "mp4:demo.mp4", Ok("mp4:demo.mp4")),
        ("live/demo", "", Ok("demo")),
        ("live/demo/?x", "?y", Ok("demo")),
        ("demo", "", Ok("demo")),
        (
            "",
            "",
            Err("there is no stream key; it is the sessionid, as in rtmp://HOST/live/SESSIONID"),
        ),
        (
            "live",
            "a/b",
            Err("the stream key has a '/'; a sessionid with one is written with %2F"),
        ),
        (
            "live",
            "a%2",
            Err("two hexadecimal digits do not follow a '%' of the stream key"),
        ),
    ];
    for (app, key, name) in cases {
        let mut stage = Stage::new();
        stage.send(&handshake());
        stage.send(&connect(app, "rtmp://h/live"));
        stage.send(&command("publish", 2.0, Some(key)));
        let name = name.map(|name| name.as_bytes().to_vec());
        assert_eq!(stage.requests, [name], "{app} {key}");
    }
}

#[test]
fn a_player_is_told_where_the_stream_is_watched() {
    for (url, host) in [
        ("rtmp://a.example/live", "a.example"),
        ("rtmp://user:word@a.example:1935/live?x", "a.example"),
        ("rtmp://[2001:db8::1]:1935/live", "[2001:db8::1]"),
        ("rtmp://[2001:db8::1]/live", "[2001:db8::1]"),
        ("junk", ""),
    ] {
        let mut stage = Stage::new();
        stage.send(&handshake());
        stage.send(&connect("live", url));
        stage.send(&command("play", 2.0, Some("demo")));
        let told = String::from_utf8_lossy(&stage.answers).into_owned();
        let watched_at = format!("http://{host}:8000/stream/demo");
        assert!(
            told.contains("NetStream.Play.Failed") && told.contains(&watched_at),
            "{told}"
        );
        assert_eq!(
            stage.fault(),
            "it asks to play; streams are watched over HTTP"
        );
    }
}

/// Publishers wait for different answers, in different orders.
#[test]
fn each_command_with_an_id_is_answered() {
    let mut stage = Stage::new();
    stage.send(&handshake());
    stage.answers.clear();
    stage.send(&connect("live", "rtmp://h/live"));
    assert!(
        stage
            .answers
            .starts_with(&[2, 0, 0, 0, 0, 0, 4, 5, 0, 0, 0, 0, 0, 0x26, 0x25, 0xa0])
    );
    for (name, id, answers) in [
        ("releaseStream", 2.0, 1),
        ("FCPublish", 3.0, 2),
        ("FCPublish", 0.0, 1),
        ("createStream", 4.0, 1),
        ("_checkbw", 5.0, 1),
        ("getStreamLength", 0.0, 0),
        ("_result", 6.0, 0),
        // Before it publishes there is nothing to end.
        ("deleteStream", 7.0, 1),
    ] {
        stage.answers.clear();
        stage.send(&command(name, id, Some("demo")));
        let heads = stage.answers.windows(4).filter(|it| *it == [3, 0, 0, 0]);
        assert_eq!(heads.count(), answers, "{name}");
    }
    let of_create = {
        stage.answers.clear();
        stage.send(&command("createStream", 8.0, None));
        stage.answers.clone()
    };
    assert!(
        of_create.ends_with(&[0, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0]),
        "stream 1"
    );
}

#[test]
fn the_stream_is_complete_by_any_of_three_commands() {
    for name in ["FCUnpublish", "deleteStream", "closeStream"] {
        let mut stage = Stage::admitted();
        stage.send(&message((4, 9, 0), b"x", 128));
        stage.send(&[command(name, 0.0, None), command(name, 0.0, None)].concat());
        assert_eq!(stage.end, Some(Ok(())), "{name}");
        assert_eq!(stage.tags().len(), 1);
    }
}

/// What has gone out is no whole tag, and whole messages wait after it.
#[test]
fn an_end_within_a_message_is_a_fault() {
    let mut stage = Stage::admitted();
    let picture = message((4, 9, 0), &[7; 300], 128);
    stage.send(&[&picture[..12 + 128], &message((5, 8, 0), b"x", 128)].concat());
    stage.send(&command("deleteStream", 0.0, None));
    assert_eq!(stage.fault(), "it ends within a message");
}

#[test]
fn data_messages_are_scripts_of_flv_or_ignored() {
    let set = b"\x02\0\x0d@setDataFrame";
    let metadata = b"\x02\0\x0aonMetaData\x05";
    type Case<'a> = (u8, Vec<u8>, Option<&'a [u8]>);
    let cases: [Case<'_>; 8] = [
        (18, metadata.to_vec(), Some(metadata)),
        (18, [&set[..], metadata].concat(), Some(metadata)),
        (15, [&[0], &set[..], metadata].concat(), Some(metadata)),
        (
            18,
            b"\x02\0\x0aonTextData".to_vec(),
            Some(b"\x02\0\x0aonTextData"),
        ),
        (18, b"\x02\0\x0f@clearDataFrame".to_vec(), None),
        (18, b"\x02\0\xffonMeta".to_vec(), None),
        (18, set.to_vec(), None),
        (18, Vec::new(), None),
    ];
    for (kind, message_bytes, script) in cases {
        let mut stage = Stage::admitted();
        stage.send(&message((4, kind, 7), &message_bytes, 128));
        let expected: Vec<_> = script
            .map(|script| (18, 7, script.to_vec()))
            .into_iter()
            .collect();
        assert_eq!(stage.tags(), expected);
    }
    // Empty messages are none, and nothing is taken before the publisher is admitted.
    let mut stage = Stage::admitted();
    stage.send(&message((4, 9, 7), b"", 128));
    assert_eq!(stage.media, b"");
    let mut stage = Stage::new();
    stage.send(&handshake());
    stage.send(&message((4, 9, 7), &[7; 300], 128));
    stage.send(&asking("s"));
    assert_eq!((stage.media.len(), stage.requests.len()), (0, 1));
}

#[test]
fn the_head_of_the_file_names_what_the_metadata_names() {
    for (names, flags) in [
        (&["videocodecid", "audiocodecid"][..], 5),
        (&["videocodecid"], 1),
        (&["audiocodecid"], 4),
        (&[], 5),
    ] {
        let mut body = b"\x02\0\x0aonMetaData\x03".to_vec();
        for name in names {
            body.extend_from_slice(&(name.len() as u16).to_be_bytes());
            body.extend_from_slice(name.as_bytes());
            body.extend_from_slice(&[0; 9]);
        }
        let mut stage = Stage::admitted();
        stage.send(&message((4, 18, 0), &body, 128));
        assert_eq!(stage.media[4], flags, "{names:?}");
    }
}

/// Counted modulo 2^32, with the handshake, at the window's distance.
#[test]
fn received_bytes_are_acknowledged() {
    let acks = |stage: &Stage| stage.answers.len() / 16;
    let mut stage = Stage::admitted();
    stage.publisher.received = u32::MAX - 2_000_000;
    stage.publisher.acknowledged = stage.publisher.received;
    stage.send(&message((4, 9, 0), &vec![0; 2_400_000], 128));
    assert_eq!(acks(&stage), 0);
    stage.send(&message((4, 9, 0), &vec![0; 200_000], 128));
    assert_eq!(acks(&stage), 1);
    let received = stage.publisher.received;
    assert!(received < 1_000_000, "it has wrapped");
    assert_eq!(stage.answers[..12], [2, 0, 0, 0, 0, 0, 4, 3, 0, 0, 0, 0]);
    assert_eq!(stage.answers[12..], received.to_be_bytes());
    // A peer's window of less than 64 KiB counts as that.
    for (window, acked) in [(1_u32, 1), (65_536, 1), (200_000, 0)] {
        let mut stage = Stage::admitted();
        stage.send(&message((2, 5, 0), &window.to_be_bytes(), 128));
        stage.publisher.acknowledged = stage.publisher.received;
        stage.send(&message((4, 9, 0), &[0; 65_400], 128));
        stage.send(&message((4, 9, 0), &[0; 200], 128));
        assert_eq!(acks(&stage), acked, "{window}");
    }
    let mut stage = Stage::admitted();
    stage.publisher.acknowledged = stage.publisher.received.wrapping_sub(WINDOW_BYTES);
    assert_eq!(
        stage.publisher.take_answers(true),
        b"",
        "earlier answers wait"
    );
}

/// Nothing is allocated by a length that is only announced.
#[test]
fn memory_follows_the_received_bytes() {
    let few = size_of::<Publisher>() + 4 * 1024;
    let mut stage = Stage::admitted();
    for id in 3..10 {
        let announced = [id, 0, 0, 0, 0xff, 0xff, 0xff, 9, 1, 0, 0, 0];
        stage.send(&announced);
        stage.send(&[7; 128]);
    }
    assert!(
        stage.publisher.memory_bytes() < few + 7 * 256,
        "{}",
        stage.publisher.memory_bytes()
    );
    let mut most = 0;
    while stage.end.is_none() {
        for id in 4..10 {
            stage.send(&[&[0xc0 | id][..], &[7; 128]].concat());
        }
        most = most.max(stage.publisher.memory_bytes());
    }
    assert_eq!(
        stage.fault(),
        "more than 256 KiB of its messages are not whole"
    );
    assert!(most <= few + 2 * COLLECTED_BYTES_MAX, "{most}");
    // Before it is admitted, only commands are collected, and one at a time.
    let mut stage = Stage::new();
    stage.send(&handshake());
    for id in 3..11 {
        stage.send(&[id, 0, 0, 0, 0, 0x20, 0, 20, 0, 0, 0, 0]);
        stage.send(&[7; 128]);
    }
    while stage.end.is_none() {
        for id in 3..11 {
            stage.send(&[&[0xc0 | id][..], &[7; 128]].concat());
        }
        assert!(stage.publisher.memory_bytes() < few + 2 * COMMAND_BYTES_MAX as usize);
    }
    assert_eq!(
        stage.fault(),
        "more than 8 KiB of its commands are not whole"
    );
    let mut stage = Stage::new();
    stage.send(&handshake());
    stage.send(&message((4, 18, 0), &[7; 200_000], 128));
    stage.send(&message((5, 9, 0), &[7; 200_000], 128));
    assert!(stage.publisher.memory_bytes() < few);
}

#[test]
fn values_are_skipped_without_recursion_and_counts_are_not_believed() {
    let skip = |bytes: &[u8]| {
        let mut values = amf::Values(bytes);
        values.skip(amf::DEPTH_MAX).map(|()| values.0.len())
    };
    let nested = |depth: usize| {
        let open = [3, 0, 1, b'a'].repeat(depth);
        [&open[..], &[5], &[0, 0, 9].repeat(depth)].concat()
    };
    let cases: [(Vec<u8>, Option<usize>); 14] = [
        (vec![0, 0, 0, 0, 0, 0, 0, 0, 0], Some(0)),
        (vec![1, 1, 9], Some(1)),
        (vec![2, 0, 1, b'x'], Some(0)),
        (vec![2, 0, 2, b'x'], None),
        (vec![12, 0, 0, 0, 1, b'x'], Some(0)),
        (vec![12, 255, 255, 255, 255, b'x'], None),
        (vec![11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], Some(0)),
        (vec![8, 255, 255, 255, 255, 0, 0, 9], Some(0)),
        (vec![10, 0, 0, 0, 2, 5, 6], Some(0)),
        (vec![10, 255, 255, 255, 255, 5, 6], None),
        (vec![10, 0, 0, 0, 1, 10, 0, 0, 0, 0], Some(0)),
        (vec![13], None),
        (nested(8), Some(0)),
        (nested(9), None),
    ];
    for (bytes, left) in cases {
        assert_eq!(skip(&bytes), left, "{bytes:?}");
        for cut in 0..bytes.len() - left.unwrap_or(0) {
            assert_eq!(skip(&bytes[..cut]), None);
        }
    }
}

/// An aborted message leaves nothing, and another one may begin.
#[test]
fn a_message_that_has_not_gone_out_may_be_aborted() {
    let mut stage = Stage::admitted();
    stage.send(&message((6, 9, 0), &[5; 200], 128)[..12 + 128]);
    stage.send(&message((4, 8, 0), &[6; 200], 128)[..12 + 128]);
    stage.send(&message((2, 2, 0), &[0, 0, 0, 4], 128));
    stage.send(&message((4, 8, 0), b"x", 128));
    stage.send(&[&[0xc6][..], &[5; 72]].concat());
    assert_eq!(stage.tags(), [(9, 0, vec![5; 200]), (8, 0, b"x".to_vec())]);
}

/// Every first byte of a header, with long and short rests of the header, in each state
/// of the chunk stream that it may be of.
#[test]
fn every_head_is_read_or_refused_however_it_is_cut() {
    let states = [
        Vec::new(),
        message((4, 9, 0), &[5; 300], 128)[..140].to_vec(),
        message((4, 9, u32::MAX), &[5; 300], 128)[..144].to_vec(),
        message((4, 9, u32::MAX), &[5; 100], 128),
        message((4, 8, 0xff_ffff), &[5; 300], 128)[..144].to_vec(),
    ];
    for state in &states {
        for first in 0..=u8::MAX {
            for after in [0, 1, 9, 0x7f, 0xff] {
                let bytes = [&[first][..], &[after; 20]].concat();
                let mut whole = Stage::admitted();
                whole.send(&[&state[..], &bytes].concat());
                let mut bytewise = Stage::admitted();
                bytewise.send(state);
                bytes.iter().for_each(|byte| bytewise.send(&[*byte]));
                assert!(whole.media == bytewise.media, "{first} {after}");
                assert_eq!(whole.end, bytewise.end, "{first} {after}");
                assert_eq!(whole.rest, bytewise.rest, "{first} {after}");
            }
        }
    }
}
