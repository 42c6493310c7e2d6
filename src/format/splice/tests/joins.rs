//! Sources that follow each other: which source can continue which one, from where, and what
//! viewers get.

use super::*;
use crate::format::matroska::{
    CLUSTER, CLUSTER_HEAD, EBML, SIMPLE_BLOCK, TIMESTAMP, TRACK_ENTRY, TRACKS,
};
use crate::format::mpegts::PACKET_BYTES;

const UNIT: usize = 1 << 20;

const FILES: [(&str, &[u8]); 8] = [
    ("webm", include_bytes!("../../../../tests/media/vp8.webm")),
    ("mkv", include_bytes!("../../../../tests/media/h264.mkv")),
    ("mp4", include_bytes!("../../../../tests/media/h264.mp4")),
    ("flv", include_bytes!("../../../../tests/media/h264.flv")),
    ("ts", include_bytes!("../../../../tests/media/h264.ts")),
    ("ogg", include_bytes!("../../../../tests/media/opus.ogg")),
    ("mp3", include_bytes!("../../../../tests/media/sound.mp3")),
    ("aac", include_bytes!("../../../../tests/media/sound.aac")),
];

fn file(name: &str) -> &'static [u8] {
    let mut files = FILES.into_iter();
    files.find(|file| file.0 == name).expect("a file").1
}

/// Returns the format and the header of the viewers' bytes.
fn had(bytes: &[u8]) -> (Option<Format>, Vec<u8>) {
    let (mut format, mut last) = (None, Vec::new());
    Scanner::default().feed(bytes, &mut |finding, header| match finding {
        Finding::Format(told) => format = Some(told),
        Finding::Header => last = header.to_vec(),
        _ => {}
    });
    (format, last)
}

/// Returns the offset of the first join point.
fn first_join(bytes: &[u8]) -> usize {
    let mut first = None;
    Scanner::default().feed(bytes, &mut |finding, _| {
        if let Finding::Join(start) = finding {
            first.get_or_insert(start.offset as usize);
        }
    });
    first.expect("a point")
}

/// A splicer whose source broke off after these bytes, and its output.
fn broken_off(bytes: &[u8]) -> (Splicer, Vec<u8>) {
    let (mut splicer, out) = begun(bytes, UNIT);
    let (format, header) = had(&out);
    assert!(splicer.break_off(format, header), "it can be gone on with");
    (splicer, out)
}

/// Returns the viewers' bytes of the second source, in pieces of this size.
fn followed(first: &[u8], second: &[u8], piece: usize) -> Result<Vec<u8>, Incompatible> {
    let (mut splicer, _) = broken_off(first);
    let mut after = Vec::new();
    for bytes in second.chunks(piece) {
        splicer.feed(bytes, &mut after)?;
    }
    splicer.finish(&mut after);
    Ok(after)
}

/// An element of Matroska.
fn element(id: u32, body: &[u8]) -> Vec<u8> {
    let id = id.to_be_bytes();
    let first = id.iter().position(|byte| *byte != 0).expect("no such id");
    let size = (body.len() as u32 | 0x1000_0000).to_be_bytes();
    [&id[first..], &size, body].concat()
}

/// The header of a WebM with one sound track.
fn webm_head(codec: &[u8]) -> Vec<u8> {
    let fields = [
        element(0xd7, &[1]),
        element(0x83, &[2]),
        element(0x86, codec),
    ];
    let tracks = element(TRACKS, &element(TRACK_ENTRY, &fields.concat()));
    let head = element(EBML, &element(0x4282, b"webm"));
    [&head[..], &[0x18, 0x53, 0x80, 0x67, 0xff], &tracks].concat()
}

fn block(media: &[u8]) -> Vec<u8> {
    element(SIMPLE_BLOCK, &[&[0x81, 0, 0, 0x80], media].concat())
}

/// A Cluster with a block, filled up to this length.
fn cluster(time: u16, media: u8, bytes: usize) -> Vec<u8> {
    let time = element(TIMESTAMP, &time.to_be_bytes());
    let void = element(0xec, &vec![0; bytes - 30]);
    let cluster = element(CLUSTER, &[time, block(&[media]), void].concat());
    assert_eq!(cluster.len(), bytes);
    cluster
}

/// A block in a Cluster of its own, as it goes out.
fn written(time: u64, media: u8) -> Vec<u8> {
    let time = [&[0xe7, 0x88][..], &time.to_be_bytes()].concat();
    [&CLUSTER_HEAD[..], &time, &block(&[media])].concat()
}

/// Where a source's own header cannot be sent in the middle, there must be a header to compare it
/// with.
#[test]
fn a_source_with_a_known_header_can_be_continued() {
    for (name, bytes) in FILES {
        let needs_header = ["webm", "mkv", "mp4", "ogg"].contains(&name);
        let (format, header) = had(bytes);
        let (mut splicer, mut alone) = begun(bytes, UNIT);
        splicer.finish(&mut alone);
        let (before, after) = bytes.split_at(bytes.len() / 2);
        for (header, can_be) in [(header, true), (Vec::new(), !needs_header)] {
            let (mut splicer, mut out) = begun(before, UNIT);
            assert_eq!(splicer.break_off(format, header), can_be, "{name}");
            assert_eq!(splicer.is_between_sources(), can_be, "{name}");
            if !can_be {
                // The stream continues as if nobody had asked.
                assert!(splicer.feed(after, &mut out).is_ok());
                splicer.finish(&mut out);
                assert!(out == alone, "{name}");
            }
        }
    }
    // A beginning that has not shown its format, and an unknown format.
    for unknown in [&b"FL"[..], b"Just some text, which is no container"] {
        let (mut splicer, _) = begun(unknown, UNIT);
        assert!(!splicer.break_off(Some(Format::Flv), FLV_HEAD.to_vec()));
    }
}

/// Viewers have a part of a unit that is too long to be held. No source can follow it.
#[test]
fn no_source_continues_in_the_middle_of_a_unit() {
    // Sixteen bytes of a tag show its codec, and 64 of a block.
    let tag = [FLV_HEAD, &tag(9, 0, &[0x12; 300])].concat();
    let webm_head = webm_head(b"A_OPUS");
    let content = [element(TIMESTAMP, &[0]), block(&[7; 300])].concat();
    let block_at = webm_head.len() + 8 + 6;
    let block = [webm_head, element(CLUSTER, &content)].concat();
    for (format, bytes, part) in [
        (Format::Flv, &tag, 13 + 16),
        (Format::WebM, &block, block_at + 64),
    ] {
        for end in 50..=bytes.len() {
            let (mut splicer, _) = begun(&bytes[..end], 100);
            let can_be = splicer.break_off(Some(format), had(bytes).1);
            let is_within = (part..bytes.len()).contains(&end);
            assert_eq!(can_be, !is_within, "{format:?}, {end} of {}", bytes.len());
        }
    }
    let mp4 = file("mp4");
    for (end, can_be) in [(12_000, false), (mp4.len(), true)] {
        let (mut splicer, out) = begun(&mp4[..end], 5_000);
        assert_eq!(out.len(), end);
        assert_eq!(splicer.break_off(Some(Format::Mp4), had(mp4).1), can_be);
    }
}

#[test]
fn only_the_same_tracks_of_the_same_container_continue() {
    for (name, first) in FILES {
        for (other, second) in FILES {
            let followed = followed(first, second, usize::MAX);
            match followed {
                Ok(_) => assert!(name == other, "{other} goes on with {name}"),
                Err(Incompatible(bytes)) => {
                    assert!(name != other, "{other} does not go on with {name}");
                    assert!(bytes == second, "all of it begins another stream");
                }
            }
        }
    }
    // The same container with other content: another byte in a decoder's setup, or another codec in
    // each picture.
    let changed = |name: &str, mark: &[u8], after: usize| {
        let mut bytes = file(name).to_vec();
        let at = bytes.windows(mark.len()).position(|bytes| bytes == mark);
        bytes[at.expect("its setup") + after] ^= 1;
        (file(name).to_vec(), bytes)
    };
    let pictures = |first: u8| [FLV_HEAD, &tag(9, 0, &[first; 40])].concat();
    for (what, (first, second)) in [
        ("mp4", changed("mp4", b"avcC", 6)),
        ("mkv", changed("mkv", &[0x63, 0xa2], 12)),
        ("flv", changed("flv", &[0x17, 0, 0, 0, 0, 1], 8)),
        ("flv without a setup", (pictures(0x12), pictures(0x14))),
    ] {
        let unlike = followed(&first, &second, usize::MAX);
        assert!(unlike == Err(Incompatible(second)), "{what}");
    }
}

/// Its own header where players take another one in the middle, the missing parts where they take
/// only those, and otherwise nothing.
#[test]
fn a_source_begins_with_the_headers_that_viewers_lack() {
    // Ogg begins again with its header, after whole pages.
    let ogg = file("ogg");
    let pages: Vec<usize> = (0..ogg.len())
        .filter(|at| ogg[*at..].starts_with(b"OggS"))
        .chain([ogg.len()])
        .collect();
    for end in [pages[3], pages[4] - 1, ogg.len() - 1, ogg.len()] {
        let (_, out) = broken_off(&ogg[..end]);
        let last = pages.iter().rfind(|page| **page <= end);
        assert!(out == ogg[..*last.expect("a page")], "{end}");
        assert!(followed(&ogg[..end], ogg, 100) == Ok(ogg.to_vec()), "{end}");
    }
    // So does MPEG-TS, with its tables.
    let after = followed(file("ts"), file("ts"), usize::MAX).expect("the same tracks");
    assert_eq!((after[1] & 0x1f, after[2]), (0, 0), "the PAT");
    assert_eq!(had(&after).1.len(), had(file("ts")).1.len());
    // Viewers of FLV get the sequence headers that they lack.
    let (setup, key) = ([0x17, 0, 0, 0, 0, 1, 2, 3], [0x17, 1, 0, 0, 0, 9]);
    let first = [FLV_HEAD, &tag(18, 0, &[2; 20])].concat();
    let second = [
        FLV_HEAD,
        &tag(9, 700, &setup),
        &tag(9, 700, &key),
        &tag(9, 740, &key),
    ]
    .concat();
    let sent = [tag(9, 0, &setup), tag(9, 0, &key), tag(9, 40, &key)].concat();
    assert_eq!(followed(&first, &second, 7), Ok(sent));
    // Of the same source they lack none.
    let again = [tag(9, 780, &key), tag(9, 820, &key)].concat();
    assert_eq!(followed(&second, &second, 7), Ok(again));
    // Of sound frames only, and of WebM blocks only.
    for piece in [1, usize::MAX] {
        for sound in [file("mp3"), file("aac")] {
            let frames = sound[first_join(sound)..].to_vec();
            assert!(followed(sound, sound, piece) == Ok(frames));
        }
        let source = |time| [webm_head(b"A_OPUS"), cluster(time, 7, 40)].concat();
        let after = followed(&source(0), &source(900), piece);
        assert_eq!(after, Ok(written(20, 7)));
    }
}

/// The first join point counts, with its header. The rest of the same piece does not matter.
#[test]
fn a_source_continues_at_its_first_join_point() {
    let head = webm_head(b"A_OPUS");
    let first = [&head[..], &cluster(0, 1, 40)].concat();
    let second = [&head[..], &cluster(900, 2, 40), &cluster(950, 3, 40)].concat();
    for piece in [1, 7, usize::MAX] {
        let expected = [written(20, 2), written(70, 3)].concat();
        assert_eq!(followed(&first, &second, piece), Ok(expected), "{piece}");
    }
    // A later error does not make a point count less.
    let (mut splicer, _) = broken_off(&first);
    let mut out = Vec::new();
    let told = splicer.feed(&[&second[..], &[0; 20]].concat(), &mut out);
    assert_eq!(told, Err(Incompatible(vec![0; 20])));
    assert_eq!(out, [written(20, 2), written(70, 3)].concat());
    // Nor does another header after it.
    let other = webm_head(b"A_VORBIS");
    let (mut splicer, _) = broken_off(&first);
    let mut out = Vec::new();
    let rest = [&other[..], &cluster(0, 4, 40)].concat();
    let told = splicer.feed(&[&second[..], &rest].concat(), &mut out);
    assert_eq!(told, Err(Incompatible(rest)));
    assert_eq!(out, [written(20, 2), written(70, 3)].concat());
}

/// Codecs without a sequence header count up to the join point. Whether later ones have come depends
/// on how the source is cut.
#[test]
fn a_codec_behind_the_join_point_does_not_matter() {
    let first = [FLV_HEAD, &tag(8, 0, &[0x2f; 40]), &tag(9, 0, &[0x12; 40])].concat();
    let key = tag(9, 0, &[0x12; 40]);
    let other_sound = tag(8, 0, &[0x2e; 40]);
    for piece in [1, 7, usize::MAX] {
        let after = [FLV_HEAD, &key, &other_sound].concat();
        let bytes = followed(&first, &after, piece).expect("it continues");
        assert_eq!(bytes.len(), key.len() + other_sound.len(), "{piece}");
        let before = [FLV_HEAD, &other_sound, &key].concat();
        let unlike = followed(&first, &before, piece);
        assert!(unlike.is_err(), "{piece}");
    }
    // All letters of a codec count, though fewer bytes show a key frame.
    let named = |codec: &[u8; 4]| [FLV_HEAD, &tag(9, 0, &[b"\x91", &codec[..]].concat())].concat();
    for piece in [1, 7, usize::MAX] {
        assert!(followed(&named(b"vp08"), &named(b"vp08"), piece).is_ok());
        assert!(
            followed(&named(b"vp08"), &named(b"vp09"), piece).is_err(),
            "{piece}"
        );
    }
}

/// As soon as it is clear: sixteen bytes of text are text.
#[test]
fn an_unknown_format_does_not_continue_a_stream() {
    let (mut splicer, _) = broken_off(&flv(0, 3));
    let (text, mut out) = (b"Just some text, which", Vec::new());
    for byte in &text[..15] {
        assert_eq!(splicer.feed(&[*byte], &mut out), Ok(()));
    }
    assert!(splicer.is_between_sources());
    let told = splicer.feed(&text[15..], &mut out);
    assert_eq!(told, Err(Incompatible(text.to_vec())));
    assert!(out.is_empty() && !splicer.is_between_sources());
    // From here on its bytes pass.
    assert_eq!(splicer.feed(b" more", &mut out), Ok(()));
    assert_eq!(out, b" more");
}

/// A later source that begins again is a new one, unless it has run long enough. So the search for
/// its join point costs no more than the bytes before.
#[test]
fn a_later_source_begins_again_after_a_while() {
    let head = webm_head(b"A_OPUS");
    let first = [&head[..], &cluster(0, 1, 40)].concat();
    for (ran, rest, goes_on) in [
        (65_535, 200, false),
        (65_536, 200, true),
        (65_536, 65_536, true),
        (65_536, 65_537, false),
        (69_999, 70_000, false),
        (70_000, 70_000, true),
    ] {
        let second = [&head[..], &cluster(900, 2, ran)].concat();
        let third = [&head[..], &cluster(300, 3, rest - head.len())].concat();
        for is_together in [true, false] {
            let (mut splicer, mut out) = broken_off(&first);
            let told = if is_together {
                splicer.feed(&[&second[..], &third].concat(), &mut out)
            } else {
                assert_eq!(splicer.feed(&second, &mut out), Ok(()));
                splicer.feed(&third, &mut out)
            };
            let expected = [&head[..], &written(0, 1), &written(20, 2)].concat();
            if goes_on {
                assert!(told.is_ok(), "{ran} and {rest}");
                assert!(out == [expected, written(40, 3)].concat());
            } else {
                assert!(told == Err(Incompatible(third.clone())), "{ran} and {rest}");
                assert!(out == expected);
            }
        }
    }
}

/// Nothing of a first source is left out, understood or not. No source can follow such a one.
#[test]
fn a_first_source_that_fails_passes_as_it_comes() {
    let head = webm_head(b"A_OPUS");
    let bytes = [&head[..], &cluster(0, 1, 40), &[0; 20], b"and more"].concat();
    for piece in [1, 30, usize::MAX] {
        let (mut splicer, mut out) = (Splicer::new(UNIT), Vec::new());
        for bytes in bytes.chunks(piece) {
            assert_eq!(splicer.feed(bytes, &mut out), Ok(()));
        }
        let after = [&[0; 20][..], b"and more"].concat();
        assert_eq!(out, [&head[..], &written(0, 1), &after].concat());
        assert!(!splicer.break_off(Some(Format::WebM), head.clone()));
        assert!(matches!(splicer.phase, SplicePhase::Through));
    }
}

/// The unit at the end of a later source that is cut off does not go out. Sound does: no frame
/// follows that would make it audible.
#[test]
fn the_end_of_a_later_source() {
    for (name, bytes) in FILES {
        let whole = followed(bytes, bytes, usize::MAX).expect("the same tracks");
        // An index follows the last fragment of MP4.
        let index = bytes.windows(4).position(|four| four == b"mfra");
        let cut = index.map_or(bytes.len(), |index| index - 4) - 3;
        let after = followed(bytes, &bytes[..cut], usize::MAX).expect("the same tracks");
        assert!(whole.starts_with(&after), "{name}");
        match name {
            "mp3" | "aac" => assert!(after == bytes[first_join(bytes)..cut], "{name}"),
            "ts" => assert_eq!(after.len() + PACKET_BYTES, whole.len()),
            _ => assert!(after.len() + 3 < whole.len(), "{name}"),
        }
    }
}
