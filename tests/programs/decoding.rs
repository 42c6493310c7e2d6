//! What a player makes of each join point, and of what a viewer got who stalled: ffmpeg decodes it
//! without a complaint.

use std::path::Path;
use std::time::Duration;

use super::support::corpus;
use super::tools::*;
use tollgate::format::Finding;
use tollgate::gather::Gather;
use tollgate::stream::{End, Limits, Outcome, Pool, StreamBuffer, Supply};
use tollgate::time::Instant;

/// The small real files: their tracks, and whether there is a picture.
const MEDIA: &[(&str, &[&str], bool)] = &[
    ("vp8.webm", &["vp8", "vorbis"], true),
    ("vp9.webm", &["vp9", "opus"], true),
    ("h264.mkv", &["h264", "aac"], true),
    ("h264.ts", &["h264", "aac"], true),
    ("h264.mp4", &["h264", "aac"], true),
    ("h264.flv", &["h264", "aac"], true),
    ("theora.ogg", &["theora", "vorbis"], true),
    ("opus.ogg", &["opus"], false),
    ("sound.mp3", &["mp3"], false),
    ("sound.aac", &["aac"], false),
];

/// What a viewer would get who begins at each join point of a real file: header, prelude, and the
/// bytes from there.
fn joins_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut joins = Vec::new();
    corpus::scan(bytes, |finding, header| match finding {
        Finding::Join(start) => {
            let from = usize::try_from(start.offset).expect("a small file");
            joins.push([&header.to_vec(), start.prelude.as_slice(), &bytes[from..]].concat());
        }
        Finding::Header
        | Finding::Format(_)
        | Finding::Unit(_)
        | Finding::Entry(_)
        | Finding::Time(..)
        | Finding::Lasts(_)
        | Finding::Split(_)
        | Finding::Break(_) => {}
        Finding::Unknown => panic!("the format was let go"),
    });
    joins
}

#[test]
#[ignore = "needs ffmpeg"]
fn every_join_point_of_every_container_decodes() {
    let folder = folder("cuts");
    for (name, tracks, has_video) in MEDIA {
        let bytes = corpus::file(name);
        let joins = joins_of(&bytes);
        assert!(joins.len() >= 2, "{name} has {} join points", joins.len());
        for (number, cut) in joins.iter().enumerate().take(12) {
            let path = folder.join(format!("{number}-{name}"));
            std::fs::write(&path, cut).expect("written");
            assert_decodes(&path, tracks, *has_video);
        }
    }
}

pub fn assert_decodes(path: &Path, tracks: &[&str], has_video: bool) {
    assert_tracks(path, tracks, has_video);
    let path = path.to_str().expect("a path in UTF-8");
    let decoded = run(
        "ffmpeg",
        &[
            "-v",
            "error",
            "-i",
            path,
            "-fps_mode",
            "passthrough",
            "-f",
            "null",
            "-",
        ],
    );
    let complaints = String::from_utf8_lossy(&decoded.stderr).into_owned();
    // At a gap in time a picture may come out together with one that was held back. The warning is
    // about the output, not about decoding.
    let of_decoding = |line: &&str| !line.contains("non monotonically increasing dts to muxer");
    let complaints: String = complaints.lines().filter(of_decoding).collect();
    // The first frame of MP3 may need bits of the one before (the reservoir).
    let is_expected = complaints.is_empty() || path.ends_with(".mp3");
    assert!(
        decoded.status.success() && is_expected,
        "{path}: {complaints}"
    );
}

/// Returns the bytes of a viewer that reads some bytes, stalls until much of the file has passed,
/// and reads again, several times.
fn stalled(bytes: &[u8], buffer_bytes: usize) -> (Vec<u8>, u64) {
    let limits = Limits {
        buffer_bytes,
        join_back_bytes: 0,
        join_back_time: Duration::ZERO,
    };
    let (mut pool, now) = (Pool::new(1 << 30), Instant::START);
    let mut stream: StreamBuffer<()> = StreamBuffer::new(limits, None, now);
    let viewer = stream.join((), now);
    let mut got = Vec::new();
    let mut take = |stream: &mut StreamBuffer<()>, bytes_max: usize| {
        let mut left = bytes_max;
        while let (Supply::Bytes(_), 1..) = (stream.supply(viewer, 0), left) {
            let mut gather = Gather::default();
            let lent = stream.lend(viewer, 0..left, &mut gather, 0);
            gather
                .slices()
                .iter()
                .for_each(|slice| got.extend_from_slice(slice));
            stream.advance(viewer, lent);
            left -= lent;
        }
        let outcome = if left == 0 {
            Outcome::Blocked
        } else {
            Outcome::Open
        };
        stream.end_turn(viewer, outcome);
    };
    for (number, piece) in bytes.chunks(buffer_bytes / 12 + 1).enumerate() {
        stream.append(piece, &mut pool, now);
        stream.check();
        assert_eq!(stream.take_cut(), None, "a unit could not be kept");
        match number % 24 {
            // It keeps up,
            0..=5 => take(&mut stream, usize::MAX),
            // takes a part,
            6 => take(&mut stream, 333),
            // and stalls.
            _ => {}
        }
    }
    stream.finish(End::Complete);
    take(&mut stream, usize::MAX);
    (got, stream.figures().skips)
}

#[test]
#[ignore = "needs ffmpeg"]
fn a_viewer_that_stalls_and_comes_back_decodes() {
    let folder = folder("stalls");
    // The small Opus file has no more than two pages, and many of it would be a chain of streams
    // with one serial number.
    for (name, tracks, has_video) in MEDIA.iter().filter(|(name, ..)| *name != "opus.ogg") {
        let bytes = corpus::file(name);
        // Sound is small: many times over it is longer than the smallest buffer that can be asked
        // for.
        let bytes = bytes.repeat(if *has_video { 1 } else { 40 });
        // Half of a file of less than three seconds: a whole group of pictures fits, as it should.
        let (got, skips) = stalled(&bytes, bytes.len() / 2);
        assert!(
            skips > 0 && got.len() < bytes.len() + 2000,
            "{name}: nothing was skipped"
        );
        let path = folder.join(name);
        std::fs::write(&path, &got).expect("written");
        assert_decodes(&path, tracks, *has_video);
    }
}
