//! Clients by RTMP that make the server keep as much as they can, before they are admitted and
//! after.

use std::time::Duration;

use super::hall::Hall;
use super::meter;

const HOST: [u8; 4] = [192, 0, 2, 1];
/// Before it is admitted: its place, and a command of 8 KiB.
const STRANGER_BYTES_MAX: usize = 24 << 10;
/// Once it is admitted: messages that are interleaved, beside the stream.
const SOURCE_BYTES_MAX: usize = 576 << 10;
/// The buffer in which a source's messages are put together.
const BUFFER_BYTES_MAX: usize = 192 << 10;
const RECORDING: &[u8] = include_bytes!("../rtmp/ffmpeg.rtmp");
const HANDSHAKE_BYTES: usize = 1 + 2 * 1536;

fn handshake() -> &'static [u8] {
    &RECORDING[..HANDSHAKE_BYTES]
}

/// Asks to publish.
const ASKING: &[u8] = b"\x03\0\0\0\0\0\x23\x14\0\0\0\0\x02\0\x07connect\0\x3f\xf0\0\0\0\0\0\0\x03\0\x03app\x02\0\x04live\0\0\x09\
\x03\0\0\0\0\0\x18\x14\0\0\0\0\x02\0\x07publish\0\x40\0\0\0\0\0\0\0\x05\x02\0\x01s";

/// A message of 16 MiB is announced, and one chunk of it comes.
fn announced(chunk_stream: u8, kind: u8, length: [u8; 3]) -> Vec<u8> {
    let [high, middle, low] = length;
    let head = [chunk_stream, 0, 0, 0, high, middle, low, kind, 1, 0, 0, 0];
    [&head[..], &[7; 128]].concat()
}

#[test]
fn who_is_not_admitted_keeps_little() {
    let commands: Vec<u8> = (3..11)
        .flat_map(|it| announced(it, 20, [0, 0x20, 0]))
        .collect();
    let media: Vec<u8> = (3..11).flat_map(|it| announced(it, 9, [255; 3])).collect();
    // All but the last chunk of each command.
    let more = |it: u8| [&[0xc0 | it][..], &[7; 128]].concat().repeat(62);
    let one: Vec<u8> = [&commands[..140], &more(3)].concat();
    let more: Vec<u8> = (3..11).flat_map(more).collect();
    for rest in [&[], &media[..], &one, &[commands, more].concat()] {
        let mut hall = Hall::new(&["--rtmp=127.0.0.1:1935", "--connections=100"]);
        let before = meter::memory_bytes();
        let clients = 90;
        for _ in 0..clients {
            hall.connect_rtmp(HOST, &[handshake(), rest].concat());
        }
        hall.turns(4, Duration::from_millis(1));
        let each = (meter::memory_bytes() - before) / clients;
        assert!(each <= STRANGER_BYTES_MAX, "{each} bytes each");
        hall.turns(10, Duration::from_secs(30));
        let left = meter::memory_bytes().saturating_sub(before);
        assert!(left < 64 << 10, "{left} bytes are left");
    }
}

#[test]
fn who_interleaves_messages_keeps_what_the_operator_is_told() {
    let options = [
        "--rtmp=127.0.0.1:1935",
        "--buffer=256K",
        "--buffers=1M",
        "--body-rate=0",
    ];
    let mut hall = Hall::new(&options);
    let source = hall.connect_rtmp(HOST, &[handshake(), ASKING].concat());
    hall.turns(4, Duration::from_millis(1));
    assert_eq!(hall.running, 1);
    let before = meter::memory_bytes();
    meter::take_peak();
    for id in 4..8 {
        hall.send(source, &announced(id, 9, [255; 3]));
    }
    let mut most = 0;
    while hall.is_connected(source) {
        for id in 5..8 {
            hall.send(source, &[&[0xc0 | id][..], &[7; 128]].concat().repeat(20));
        }
        hall.turn(Duration::from_millis(1));
        most = most.max(meter::memory_bytes().saturating_sub(before));
    }
    assert!(most > 256 << 10 && most <= SOURCE_BYTES_MAX, "{most}");
    hall.turns(10, Duration::from_secs(30));
    // The buffer for media that is no slice of the input stays.
    let left = meter::memory_bytes().saturating_sub(before);
    assert!(left <= BUFFER_BYTES_MAX, "{left} bytes are left");
}
