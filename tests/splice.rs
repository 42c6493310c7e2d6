//! Sources that follow each other: what comes of real files is the same however it is cut, sound wherever the first breaks off, and said to
//! be another stream where it is one.

use tollgate::format::splice::{Splicer, Unlike};
use tollgate::format::{Finding, Format};

#[path = "support/corpus.rs"]
mod corpus;
#[path = "doors/splice.rs"]
#[allow(dead_code, reason = "the door itself is for fuzzing")]
mod door;

use corpus::{file, findings};

/// Each file of `tests/media`, and whether a later source's header is left out.
const MEDIA: [(&str, bool); 10] = [
    ("vp8.webm", true),
    ("vp9.webm", true),
    ("h264.mkv", true),
    ("h264.mp4", true),
    ("h264.flv", true),
    ("h264.ts", false),
    ("theora.ogg", false),
    ("opus.ogg", false),
    ("sound.mp3", false),
    ("sound.aac", false),
];

/// The format and the header that a viewer has had.
fn had(bytes: &[u8]) -> (Option<Format>, Vec<u8>) {
    let (mut format, mut header) = (None, Vec::new());
    for finding in findings(bytes) {
        match finding {
            Finding::Format(told) => format = Some(told),
            Finding::Header(told) => header = told,
            Finding::Unknown => return (None, Vec::new()),
            Finding::Join(_) | Finding::Unit(_) | Finding::Entry(_) => {}
        }
    }
    (format, header)
}

/// What viewers get of a source that breaks off, and of one that follows. `None` if nobody can go on with the first.
fn spliced(first: &[u8], second: &[u8]) -> Option<Result<Vec<u8>, Unlike>> {
    let mut splicer = Splicer::new(1 << 20);
    let mut out = Vec::new();
    splicer
        .feed(first, &mut out)
        .expect("the first source is like itself");
    let (format, header) = had(&out);
    if !splicer.break_off(format?, &header) {
        return None;
    }
    if let Err(unlike) = splicer.feed(second, &mut out) {
        return Some(Err(unlike));
    }
    splicer.finish(&mut out);
    Some(Ok(out))
}

#[test]
fn what_goes_out_is_the_same_however_it_comes_in() {
    for (name, _) in MEDIA {
        let file = file(name);
        let whole = door::splice(&file, file.len() / 2, [usize::MAX].into_iter());
        assert!(whole.1.is_none(), "{name}");
        assert!(whole.0.len() > file.len(), "{name}");
        for pieces in [vec![1], vec![7, 400], vec![189, 3]] {
            let cut = door::splice(&file, file.len() / 2, pieces.iter().copied().cycle());
            assert!(cut == whole, "{name}, in pieces of {pieces:?}");
        }
    }
}

#[test]
fn one_source_alone_loses_nothing() {
    for (name, _) in MEDIA {
        let file = file(name);
        let (mut splicer, mut out) = (Splicer::new(1 << 20), Vec::new());
        splicer.feed(&file, &mut out).expect("like itself");
        splicer.finish(&mut out);
        // Clusters are written anew.
        if name.ends_with(".webm") || name.ends_with(".mkv") {
            let joins = |bytes: &[u8]| {
                let joins = findings(bytes).into_iter();
                joins
                    .filter(|finding| matches!(finding, Finding::Join(_)))
                    .count()
            };
            assert_eq!(joins(&out), joins(&file), "{name}");
            assert!(out.len() + 500 > file.len(), "{name}");
        } else {
            assert!(out == file, "{name}");
        }
    }
}

#[test]
fn a_source_goes_on_wherever_the_one_before_broke_off() {
    for (name, leaves_header_out) in MEDIA {
        let file = file(name);
        let mut went_on = 0;
        for cut in (0..file.len()).step_by(89) {
            let Some(spliced) = spliced(&file[..cut], &file) else {
                continue;
            };
            let out = spliced.unwrap_or_else(|_| panic!("{name}, cut at {cut}: said to be unlike"));
            went_on += 1;
            let findings = findings(&out);
            let headers = findings
                .iter()
                .filter(|finding| matches!(finding, Finding::Header(_)));
            let headers = headers.count();
            if leaves_header_out {
                assert_eq!(headers, 1, "{name}, cut at {cut}");
            }
            assert!(
                !findings.contains(&Finding::Unknown),
                "{name}, cut at {cut}"
            );
        }
        assert!(
            went_on > file.len() / 89 / 2,
            "{name}: {went_on} times only"
        );
    }
}

#[test]
fn other_tracks_and_other_containers_are_another_stream() {
    for (name, _) in MEDIA {
        for (other, _) in MEDIA {
            let (file, next) = (file(name), file(other));
            let is_alike = name == other
                || (name, other) == ("theora.ogg", "opus.ogg")
                || (name, other) == ("opus.ogg", "theora.ogg");
            match spliced(&file, &next) {
                Some(Ok(_)) => assert!(is_alike, "{other} goes on with {name}"),
                Some(Err(Unlike(bytes))) => {
                    assert!(!is_alike, "{other} does not go on with {name}");
                    assert!(
                        bytes == next,
                        "another stream begins with all of the source"
                    );
                }
                None => panic!("nothing goes on with {name}"),
            }
        }
    }
}

#[test]
fn the_same_tracks_with_another_setup_are_another_stream() {
    // A byte of what the decoder is set up with.
    for (name, mark, behind) in [
        ("h264.mp4", &b"avcC"[..], 6),
        ("h264.flv", &[0x17, 0, 0, 0, 0, 1][..], 8),
        ("h264.mkv", &[0x63, 0xa2][..], 12),
    ] {
        let file = file(name);
        let mut other = file.clone();
        let at = file.windows(mark.len()).position(|bytes| bytes == mark);
        other[at.expect("its setup") + behind] ^= 1;
        assert!(matches!(spliced(&file, &other), Some(Err(_))), "{name}");
    }
}

#[test]
fn nothing_goes_on_with_what_is_not_known() {
    let text = b"Just some text, which is no container at all. ".repeat(50);
    let (mut splicer, mut out) = (Splicer::new(1 << 20), Vec::new());
    splicer.feed(&text, &mut out).expect("like itself");
    assert!(out == text);
    assert!(!splicer.break_off(Format::Mp3, b""));
}

#[test]
fn what_is_held_is_bounded() {
    // A unit that is longer: the stream goes out as it comes, and nobody can go on with it.
    let whole = file("h264.mp4");
    let (mut splicer, mut out) = (Splicer::new(5_000), Vec::new());
    splicer.feed(&whole, &mut out).expect("like itself");
    assert!(out == whole);
    assert!(!splicer.break_off(Format::Mp4, &had(&whole).1));
    // A source that never comes to a join point.
    let transport = file("h264.ts");
    let (mut splicer, mut out) = (Splicer::new(5_000), Vec::new());
    splicer.feed(&transport, &mut out).expect("like itself");
    assert!(splicer.break_off(Format::MpegTs, &had(&transport).1));
    let packet = [&[0x47, 0x1f, 0xff, 0x10][..], &[0xff; 184]].concat();
    let mut fed = 0;
    let unlike = loop {
        fed += packet.len();
        if let Err(unlike) = splicer.feed(&packet, &mut out) {
            break unlike;
        }
    };
    assert!(fed > 5_000 && fed < 5_400);
    assert_eq!(unlike.0.len(), fed);
}
