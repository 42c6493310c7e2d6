//! Join points of real files: each container is recognised, has its header, and gives the same join
//! points for any split of its bytes.

use tollgate::format::Finding;

#[path = "support/corpus.rs"]
#[allow(dead_code, reason = "it reads the files only")]
mod corpus;
#[path = "doors/format.rs"]
#[allow(dead_code, reason = "the door itself is for fuzzing")]
mod door;

/// Each file of `tests/media` with its format, and whether it has a header.
const MEDIA: [(&str, &str, bool); 16] = [
    ("vp8.webm", "webm", true),
    ("vp9.webm", "webm", true),
    ("h264.mkv", "matroska", true),
    ("h264.ts", "mpegts", true),
    ("h264.mp4", "mp4", true),
    ("h264.flv", "flv", true),
    ("theora.ogg", "ogg", true),
    ("opus.ogg", "ogg", true),
    ("sound.mp3", "mp3", false),
    ("sound.aac", "aac", false),
    ("h265.ts", "mpegts", true),
    ("mpeg2.ts", "mpegts", true),
    ("h265.mkv", "matroska", true),
    ("h265.mp4", "mp4", true),
    ("av1.mp4", "mp4", true),
    ("vp9.mp4", "mp4", true),
];

#[test]
fn each_container_is_told_and_has_points() {
    for (name, format, has_header) in MEDIA {
        let findings = corpus::findings(&corpus::file(name));
        let told = findings.iter().find_map(|finding| match finding {
            Finding::Format(format) => Some(format.name()),
            _ => None,
        });
        assert_eq!(told, Some(format), "{name}");
        let headers = findings
            .iter()
            .filter(|finding| matches!(finding, Finding::Header))
            .count();
        assert_eq!(headers > 0, has_header, "{name}");
        let joins = findings
            .iter()
            .filter(|finding| matches!(finding, Finding::Join(_)))
            .count();
        assert!(joins >= 2, "{name} has {joins} join points");
        assert!(!findings.contains(&Finding::Unknown), "{name} was let go");
    }
}

/// Cut in two at every byte of what the headers and the first units are in.
#[test]
fn the_points_are_the_same_wherever_the_bytes_are_cut() {
    for (name, ..) in MEDIA {
        let bytes = corpus::file(name);
        let bytes = &bytes[..bytes.len().min(9_000)];
        let whole = door::scan(bytes, std::iter::once(usize::MAX));
        for cut in 1..bytes.len() {
            let pieces = [cut, usize::MAX].into_iter();
            assert_eq!(door::scan(bytes, pieces), whole, "{name}, cut at {cut}");
        }
    }
}

/// Where no packet says that decoding can begin at it, the pictures do.
#[test]
fn pictures_of_mpeg_ts_tell_where_decoding_can_begin() {
    for name in ["h264.ts", "h265.ts", "mpeg2.ts"] {
        let file = corpus::file(name);
        let mut silent = file.clone();
        for packet in silent.chunks_exact_mut(188) {
            // The random-access indicator of an adaptation field that is not empty.
            if packet[3] & 0x20 != 0 && packet[4] > 0 {
                packet[5] &= !0x40;
            }
        }
        assert!(silent != file, "{name} has some that do");
        let joins = |bytes: &[u8]| {
            let findings = corpus::findings(bytes);
            let joins = findings.iter();
            joins
                .filter(|finding| matches!(finding, Finding::Join(_)))
                .count()
        };
        assert_eq!(joins(&silent), joins(&file), "{name}");
    }
}

/// In ticks of 90 kHz: the first join and the last, and how many there are.
#[test]
fn each_join_has_the_time_that_its_container_says() {
    for (name, first, last, joins) in [
        ("h264.ts", 126_000, 306_000, 3),
        ("h264.mp4", 0, 180_000, 3),
        ("sound.mp3", 2_351, 213_942, 10),
        ("sound.aac", 0, 204_800, 10),
    ] {
        let (mut times, mut newest) = (Vec::new(), None);
        for finding in corpus::findings(&corpus::file(name)) {
            match finding {
                Finding::Time(offset, time) => newest = Some((offset, time)),
                Finding::Join(start) => {
                    let (offset, time) = newest.expect("a time");
                    assert_eq!(offset, start.offset, "{name}");
                    times.push(time.ticks());
                }
                _ => {}
            }
        }
        let found = (times[0], times[times.len() - 1], times.len());
        assert_eq!(found, (first, last, joins), "{name}");
    }
}
