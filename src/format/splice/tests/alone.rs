//! One source: when its bytes go out.

use super::*;
use crate::format::mpegts::PACKET_BYTES;

/// Returns how many bytes have gone out after each byte. Larger pieces give the same output.
fn gone_out(bytes: &[u8]) -> Vec<usize> {
    let (mut splicer, mut out) = (Splicer::new(10_000), Vec::new());
    let each = bytes.iter().map(|byte| {
        assert!(splicer.feed(&[*byte], &mut out).is_ok());
        out.len()
    });
    let each: Vec<usize> = each.collect();
    assert!(bytes.starts_with(&out));
    for end in (0..bytes.len()).step_by(bytes.len() / 20 + 1) {
        let (mut splicer, mut out) = begun(&bytes[..end], 10_000);
        assert_eq!(out.len(), if end == 0 { 0 } else { each[end - 1] }, "{end}");
        assert!(splicer.feed(&bytes[end..], &mut out).is_ok());
        assert_eq!(Some(&out.len()), each.last(), "{end}");
    }
    splicer.finish(&mut out);
    assert_eq!(out, bytes);
    each
}

/// Bytes that can only be a row of frames are not held. Once they are one, whole frames go out.
#[test]
fn sound_that_begins_within_a_frame_goes_out_at_once() {
    // Frames of MPEG audio, of 417 bytes.
    let frames = [&[0xff, 0xfb, 0x90, 0][..], &[7; 413]].concat().repeat(8);
    let each = gone_out(&[&vec![0; 1_000][..], &frames].concat());
    for (index, gone) in each.into_iter().enumerate() {
        let come = index + 1;
        let expected = match come {
            // It may be MPEG-TS.
            0..=816 => 0,
            // The sixth head makes it clear.
            817..3_091 => come,
            // A head has six bytes. Five of them had gone out.
            3_091..3_502 => 3_090,
            _ => 1_000 + (come - 1_000) / 417 * 417,
        };
        assert_eq!(gone, expected, "{come}");
    }
}

/// An unknown format goes out once that is clear, and from then on as it comes.
#[test]
fn an_unknown_format_passes() {
    let each = gone_out(b"Just some text, which is no container.");
    let expected = (1..=38).map(|come| if come < 16 { 0 } else { come });
    assert_eq!(each, expected.collect::<Vec<_>>());
    let (mut splicer, out) = begun(b"Just some text, which", 1_000);
    assert_eq!(out.len(), 21);
    assert!(matches!(splicer.phase, SplicePhase::Through));
    splicer.finish(&mut Vec::new());
}

/// Pages are whole. Bytes between pages do not wait, unless they may begin one.
#[test]
fn pages_of_ogg_go_out_whole() {
    let page = |lacing: &[u8]| {
        let head = [&b"OggS\0\0"[..], &[7; 20], &[lacing.len() as u8], lacing].concat();
        let media: usize = lacing.iter().map(|lacing| usize::from(*lacing)).sum();
        [head, vec![9; media]].concat()
    };
    let (empty, short, long) = (page(&[]), page(&[5]), page(&[255, 255, 3]));
    assert_eq!((empty.len(), short.len(), long.len()), (27, 33, 543));
    // Bytes that have come, and bytes that have gone out.
    let between = b"junk OgOggX";
    let bytes = [&short[..], &empty, between, &long, &short].concat();
    let steps = [
        (0, 0),
        (33, 33),
        (60, 60),
        (61, 61),
        (65, 65),
        // "Og" may begin a page until the next byte, and so may the next ones.
        (66, 65),
        (67, 65),
        (68, 67),
        (69, 67),
        (70, 67),
        (71, 71),
        (614, 614),
        (647, 647),
    ];
    let each = gone_out(&bytes);
    let before = |come: usize| steps.iter().rfind(|step| step.0 <= come).expect("a step");
    for (index, gone) in each.into_iter().enumerate() {
        let (_, expected) = *before(index + 1);
        let expected = match index + 1 {
            come @ 61..=65 => come,
            _ => expected,
        };
        assert_eq!(gone, expected, "{}", index + 1);
    }
}

/// Until the stream ends: then the waiting packets go out, too.
#[test]
fn whole_pictures_of_mpeg_ts_go_out() {
    let file = include_bytes!("../../../../tests/media/h264.ts");
    let cut = 100 * PACKET_BYTES;
    let (mut splicer, mut out) = begun(&file[..cut + 100], 100_000);
    let waits = cut - out.len();
    assert!(waits > 0 && waits.is_multiple_of(PACKET_BYTES), "{waits}");
    splicer.finish(&mut out);
    assert!(out == file[..cut]);
}
