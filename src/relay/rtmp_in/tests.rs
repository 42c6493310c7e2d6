use crate::relay::stage::Stage;
use crate::relay::{Action, ConnectionId, Outgoing, write_next};
use crate::rtmp::sample::{asking, command, handshake, message};

fn publisher(stage: &mut Stage) -> ConnectionId {
    let peer = "192.0.2.7:4000".parse().expect("an address");
    stage.relay.accepted_rtmp(peer, stage.now).expect("room")
}

/// It sends commands, and media in small windows, and reads nothing.
#[test]
fn a_publisher_that_reads_nothing_is_owed_little_and_ends() {
    let mut stage = Stage::new(&["--rtmp=127.0.0.1:1935"]);
    let id = publisher(&mut stage);
    let window = message((2, 5, 0), &1_u32.to_be_bytes(), 128);
    let mut send = |bytes: &[u8]| {
        stage.relay.received(id, bytes, stage.now);
        write_next(&mut stage.relay, stage.now, |_, _| Outgoing::Part(0));
        stage.relay.output(id, stage.now).bytes()
    };
    send(&[handshake(), window, asking("demo")].concat());
    let picture = message((6, 9, 0), &[7; 65_536], 128);
    for _ in 0..200 {
        let owed = send(&picture);
        assert!(owed <= 4096 + 16, "{owed} bytes after acknowledgements");
    }
    for number in 4..200 {
        let owed = send(&command("FCPublish", f64::from(number), Some("demo")));
        assert!(
            owed <= 4096 + 32 * 150,
            "{owed} bytes after {number} commands"
        );
    }
    while let Some(due) = stage.relay.next_deadline() {
        stage.now = stage.now.max(due);
        stage.relay.expire(stage.now);
    }
    let mut actions = std::iter::from_fn(|| stage.relay.next_action());
    assert!(actions.any(|action| matches!(action, Action::Close(closed) if closed == id)));
    assert_eq!(stage.relay.streams.running(), 0);
}

/// The times of a publisher go out as they are, modulo 2^32. The next publisher's continue 40 ms
/// after the last of them, also where they have jumped.
#[test]
fn times_that_jump_or_wrap_are_those_of_the_flv_and_the_next_source_follows_them() {
    const AHEAD: u32 = 60_000_000;
    for (case, times, next) in [
        ("wrapped", [u32::MAX - 79, u32::MAX - 39, 0, 40], 80),
        ("ahead", [0, 40, AHEAD, AHEAD + 40], AHEAD + 80),
        ("back", [AHEAD, AHEAD + 40, 0, 40], 80),
    ] {
        let mut stage = Stage::new(&["--rtmp=127.0.0.1:1935", "--hold=60", "--wait=60"]);
        let viewer = stage.viewer("demo");
        let mut publish = |times: &[u32]| {
            let id = publisher(&mut stage);
            stage.send(id, &[handshake(), asking("demo")].concat());
            // Key pictures of Sorenson's codec. The next is a delta from the time before it.
            stage.send(id, &message((6, 9, times[0]), &[0x12; 50], 128));
            for pair in times.windows(2) {
                let delta = pair[1].wrapping_sub(pair[0]).to_be_bytes();
                let head = [0x46, 0xff, 0xff, 0xff, 0, 0, 50, 9];
                stage.send(id, &[&head[..], &delta, &[0x12; 50]].concat());
            }
            stage.lose(id);
        };
        publish(&times);
        publish(&[7_000, 7_040]);
        let (flv, _) = stage.media(viewer);
        let tags = flv[13..].chunks(11 + 50 + 4);
        let times_out = tags.map(|tag| u32::from_be_bytes([tag[7], tag[4], tag[5], tag[6]]));
        let expected = [&times[..], &[next, next + 40]].concat();
        assert_eq!(times_out.collect::<Vec<u32>>(), expected, "{case}");
    }
}

/// The messages have one byte, and a header of one byte. A tag of FLV is eight times as long.
#[test]
fn the_bit_rate_of_a_publisher_counts_its_tags() {
    let mut stage = Stage::new(&["--rtmp=127.0.0.1:1935", "--token-server=10.0.0.0/8"]);
    let add = "POST /api/add-token?type=http&sessionid=demo&max-bitrate=80K";
    let call = stage.client(&format!("{add} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    stage.assert_status(call, 201);
    let id = publisher(&mut stage);
    stage.send(id, &[handshake(), asking("demo")].concat());
    stage.send(id, &message((4, 8, 0), &[0xaf], 128));
    let viewer = stage.viewer("demo");
    stage.send(id, &[0xc4, 0xaf].repeat(20_000));
    let bytes = stage.media(viewer).0.len();
    assert!((9_000..11_000).contains(&bytes), "{bytes} in one moment");
}

/// From its first byte to its request, a client has one time. What drips does not begin it anew.
#[test]
fn a_handshake_that_drips_ends_like_one_that_stops() {
    let mut stage = Stage::new(&["--rtmp=127.0.0.1:1935", "--head-time=10"]);
    let id = publisher(&mut stage);
    let mut sent = 0;
    for byte in handshake() {
        if stage.closed.contains(&id) {
            break;
        }
        stage.send(id, &[byte]);
        stage.wait_seconds(1);
        sent += 1;
    }
    assert!(sent <= 11, "{sent} bytes in as many seconds");
}

/// A message that is longer than the buffer comes to viewers, early and late, as a tag of a PUT does.
#[test]
fn a_message_longer_than_the_buffer_is_as_a_tag_of_a_put() {
    let pictures = [(0, 50), (40, 600 << 10), (80, 50), (120, 50)].map(|(at, length)| {
        let mut picture = vec![0x22; length];
        picture[0] = if at == 40 { 0x22 } else { 0x12 };
        (at, picture)
    });
    let seen = |is_rtmp: bool| {
        let mut stage = Stage::new(&["--rtmp=127.0.0.1:1935", "--buffer=256K", "--wait=60"]);
        let early = stage.viewer("demo");
        let source = match is_rtmp {
            true => publisher(&mut stage),
            false => stage.client("PUT /stream/demo HTTP/1.0\r\nContent-Length: 9999999\r\n\r\n"),
        };
        let head = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";
        let begin = match is_rtmp {
            true => [handshake(), asking("demo")].concat(),
            false => head.to_vec(),
        };
        stage.send_media(source, &begin);
        let mut late = Vec::new();
        for (at, picture) in &pictures {
            let size = picture.len() as u32;
            let length = size.to_be_bytes();
            let tag = [
                &[9],
                &length[1..],
                &[0, 0, *at as u8, 0, 0, 0, 0],
                &picture[..],
            ];
            let footer = (size + 11).to_be_bytes();
            let bytes = match is_rtmp {
                true => message((6, 9, *at), picture, 128),
                false => [&tag.concat()[..], &footer].concat(),
            };
            stage.send_media(source, &bytes);
            late.push(stage.viewer("demo"));
        }
        stage.lose(source);
        let viewers = [vec![early], late].concat();
        viewers
            .into_iter()
            .map(|viewer| stage.media(viewer))
            .collect::<Vec<_>>()
    };
    let (by_rtmp, by_put) = (seen(true), seen(false));
    for (number, (rtmp, put)) in by_rtmp.iter().zip(&by_put).enumerate() {
        assert!(put.0.len() > 13, "viewer {number}: {} bytes", put.0.len());
        assert!(
            rtmp == put,
            "viewer {number}: {} bytes, {} by PUT",
            rtmp.0.len(),
            put.0.len()
        );
    }
}
