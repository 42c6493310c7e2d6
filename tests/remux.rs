//! Real files read for their units: the same wherever their bytes are cut.

use tollgate::format::Format;

#[path = "support/corpus.rs"]
#[allow(dead_code, reason = "it reads the files only")]
mod corpus;
#[path = "doors/remux.rs"]
#[allow(dead_code, reason = "the doors themselves are for fuzzing")]
mod door;

use door::{Said, read};

const UNIT_BYTES_MAX: usize = 1 << 20;

/// Each file of `tests/media` that can be read, and how many units of its tracks it has.
const MEDIA: [(&str, Format, &[usize]); 5] = [
    ("h264.ts", Format::MpegTs, &[60, 105]),
    ("h264.flv", Format::Flv, &[60, 105]),
    ("h264.mp4", Format::Mp4, &[60, 105]),
    ("h264.mkv", Format::Matroska, &[60, 105]),
    ("vp9.webm", Format::WebM, &[60, 121]),
];

#[test]
fn each_container_is_read_to_its_end() {
    for (name, format, units) in MEDIA {
        let file = corpus::file(name);
        let (said, fault) = read(format, UNIT_BYTES_MAX, &file, std::iter::once(usize::MAX));
        assert_eq!(fault, None, "{name}");
        door::check(&said, file.len(), UNIT_BYTES_MAX);
        let of_track = |wanted: usize| {
            let is_wanted =
                |said: &&Said| matches!(said, Said::Unit { track, .. } if *track == wanted);
            said.iter().filter(is_wanted).count()
        };
        let counts: Vec<usize> = (0..units.len()).map(of_track).collect();
        assert_eq!(counts, units, "{name}");
    }
}

/// In two at every byte, of what the headers and the first units are in; and in small pieces.
#[test]
fn the_units_are_the_same_wherever_the_bytes_are_cut() {
    for (name, format, _) in MEDIA {
        let file = corpus::file(name);
        let read = |bytes: &[u8], pieces: &[usize]| {
            read(
                format,
                UNIT_BYTES_MAX,
                bytes,
                pieces.iter().copied().cycle(),
            )
        };
        let whole = read(&file, &[usize::MAX]);
        for pieces in [&[1][..], &[7, 400], &[189, 3]] {
            assert!(
                read(&file, pieces) == whole,
                "{name}, in pieces of {pieces:?}"
            );
        }
        let short = &file[..file.len().min(6_000)];
        let whole = read(short, &[usize::MAX]);
        for cut in 1..short.len() {
            assert!(
                read(short, &[cut, usize::MAX]) == whole,
                "{name}, cut at {cut}"
            );
        }
    }
}
