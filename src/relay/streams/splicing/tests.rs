//! A long unit goes out in pieces, over several turns.
#![cfg(feature = "default")]

use super::{STEP_BYTES, UNIT_PART};
use crate::relay::ConnectionId;
use crate::relay::stage::Stage;

const FLV_HEAD: &[u8] = b"FLV\x01\x01\0\0\0\x09\0\0\0\0";
const UNIT_BYTES: usize = 20 * STEP_BYTES;
const PUT: &str = "PUT /stream/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";

/// A tag with a key frame of a codec that needs no header.
fn tag(milliseconds: u32, media_bytes: usize) -> Vec<u8> {
    let [_, size @ ..] = (media_bytes as u32).to_be_bytes();
    let [high, time @ ..] = milliseconds.to_be_bytes();
    let end = ((11 + media_bytes) as u32).to_be_bytes();
    let head = [&[9][..], &size, &time, &[high, 0, 0, 0]].concat();
    [head, vec![0x12; media_bytes], end.to_vec()].concat()
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// A source that has sent all of a long tag but its last byte, a viewer, and what the source has
/// sent.
fn before_the_last_byte() -> (Stage, ConnectionId, ConnectionId, Vec<u8>) {
    let mut stage = Stage::new(&["--hold=60", "--takeover"]);
    let source = stage.client(PUT);
    let begin = [FLV_HEAD, &tag(0, 40)].concat();
    stage.send(source, &chunk(&begin));
    let viewer = stage.viewer("a");
    let long = tag(80, UNIT_BYTES);
    assert!(
        UNIT_PART * long.len() < 8 << 20,
        "it fits into a default buffer"
    );
    for piece in long[..long.len() - 1].chunks(60_000) {
        stage.send(source, &chunk(piece));
    }
    let media = [begin, long].concat();
    assert!(media.starts_with(&stage.media(viewer).0));
    assert!(stage.media(viewer).0.len() < 200);
    (stage, source, viewer, media)
}

fn newest(stage: &Stage) -> u64 {
    let mut streams = stage.relay.streams.media();
    streams.next().expect("a stream").1.end
}

#[test]
fn a_long_unit_goes_out_in_pieces_and_its_source_waits() {
    let (mut stage, source, viewer, mut media) = before_the_last_byte();
    // The end of the body comes with the last byte.
    let last = [&chunk(&media[media.len() - 1..])[..], b"0\r\n\r\n"].concat();
    stage.relay.received(source, &last, stage.now);
    let mut turns = 0;
    while newest(&stage) < media.len() as u64 {
        assert_eq!(stage.relay.bytes_wanted(source), 0);
        let before = newest(&stage);
        let cost = stage.relay.do_deferred_work(stage.now).expect("more");
        assert!(cost <= 3 * STEP_BYTES, "{cost}");
        assert!(newest(&stage) - before <= STEP_BYTES as u64);
        turns += 1;
    }
    assert!(turns >= UNIT_BYTES / STEP_BYTES - 1, "{turns}");
    stage.settle();
    assert!(stage.media(viewer) == (std::mem::take(&mut media), true));
    stage.assert_status(source, 200);
}

/// Viewers get whole units: another source must not continue within one.
#[test]
fn all_of_a_unit_goes_out_before_another_source_continues() {
    for takes_over in [false, true] {
        let (mut stage, source, viewer, mut media) = before_the_last_byte();
        let last = chunk(&media[media.len() - 1..]);
        stage.relay.received(source, &last, stage.now);
        assert!(newest(&stage) < media.len() as u64);
        if !takes_over {
            stage.relay.lost(source, stage.now);
            assert_eq!(newest(&stage), media.len() as u64);
        }
        let other = stage.client(PUT);
        let more = [tag(0, 40), tag(40, 40)].concat();
        stage.send(other, &chunk(&[FLV_HEAD, &more].concat()));
        stage.send(other, "0\r\n\r\n");
        let (got, is_complete) = stage.media(viewer);
        assert!(is_complete && got.starts_with(&media));
        // Its tags have other times.
        media.extend_from_slice(&more);
        assert_eq!(got.len(), media.len());
    }
}

#[cfg(feature = "handover")]
#[test]
fn all_of_a_long_unit_goes_over() {
    let (mut stage, source, viewer, media) = before_the_last_byte();
    stage
        .relay
        .received(source, &chunk(&media[media.len() - 1..]), stage.now);
    stage.change_hands(&["--hold=60", "--takeover"]);
    stage.send(source, "0\r\n\r\n");
    assert!(stage.media(viewer) == (media, true));
}

/// `--buffer` is smaller there: the unit passes as it comes, and nobody is cut.
#[cfg(feature = "handover")]
#[test]
fn a_part_of_a_unit_that_is_too_long_for_the_new_options_goes_over() {
    let (mut stage, source, viewer, media) = before_the_last_byte();
    stage.change_hands(&["--hold=60", "--takeover", "--buffer=2M"]);
    stage.send(source, &chunk(&media[media.len() - 1..]));
    stage.send(source, "0\r\n\r\n");
    let (got, is_complete) = stage.media(viewer);
    assert!(is_complete);
    // The viewer may skip. Most of the unit comes in one piece.
    assert!(
        got.len() > media.len() / 2,
        "{} of {}",
        got.len(),
        media.len()
    );
}
