//! Sources that follow each other, as players see them.

use std::path::Path;

use super::support::corpus;
use super::tools::*;
use tollgate::format::Finding;
use tollgate::format::splice::Splicer;

/// The small real files whose times are moved on.
const MEDIA: &[(&str, &[&str])] = &[
    ("vp8.webm", &["vp8", "vorbis"]),
    ("vp9.webm", &["vp9", "opus"]),
    ("h264.mkv", &["h264", "aac"]),
    ("h264.mp4", &["h264", "aac"]),
    ("h264.flv", &["h264", "aac"]),
];

/// What viewers get of a file that breaks off twice, and then comes whole.
fn spliced(file: &[u8]) -> Vec<u8> {
    let (mut splicer, mut out) = (Splicer::new(1 << 20), Vec::new());
    for source in [
        &file[..file.len() * 2 / 5],
        &file[..file.len() * 7 / 10],
        file,
    ] {
        splicer
            .feed(source, &mut out)
            .expect("the same tracks again");
        let (format, header) = corpus::had(&out);
        if source.len() < file.len() {
            assert!(splicer.break_off(format, header));
        }
    }
    splicer.finish(&mut out);
    out
}

/// When the packets of a stream are decoded, in seconds; in order where the container says only
/// when they are shown.
fn times(path: &str, stream: &str) -> Vec<f64> {
    let packets = [
        "-v",
        "error",
        "-select_streams",
        stream,
        "-show_entries",
        "packet=dts_time,pts_time",
        "-of",
        "json",
        path,
    ];
    let packets = run("ffprobe", &packets);
    assert!(packets.stderr.is_empty(), "{path}: {packets:?}");
    let packets: serde_json::Value = serde_json::from_slice(&packets.stdout).expect("JSON");
    let packets = packets["packets"].as_array().expect("packets");
    let is_matroska = path.ends_with(".mkv");
    let field = if is_matroska { "pts_time" } else { "dts_time" };
    let time = |packet: &serde_json::Value| packet[field].as_str()?.parse().ok();
    let times: Option<Vec<f64>> = packets.iter().map(time).collect();
    let mut times = times.expect("each packet has a time");
    if is_matroska {
        times.sort_by(f64::total_cmp);
    }
    times
}

/// Picture and sound of a file that breaks off and comes again go on without a gap.
fn assert_goes_on(file: &Path, recording: &Path) {
    let path = |path: &Path| path.to_str().expect("a path in UTF-8").to_owned();
    for stream in ["v:0", "a:0"] {
        let (alone, times) = (times(&path(file), stream), times(&path(recording), stream));
        assert!(
            times.len() > alone.len() * 13 / 10,
            "{file:?} {stream}: {} of {}",
            times.len(),
            alone.len()
        );
        let steps = |times: &[f64]| -> Vec<f64> {
            let pairs = times.windows(2);
            pairs.map(|pair| pair[1] - pair[0]).collect()
        };
        let usual = steps(&alone).into_iter().fold(0.0, f64::max);
        for step in steps(&times) {
            assert!(
                step > 0.0 && step < usual + 0.15,
                "{file:?} {stream}: a step of {step} s, {usual} s in the file"
            );
        }
    }
}

#[test]
#[ignore = "needs ffmpeg"]
fn sources_that_follow_each_other_are_one_stream_to_a_player() {
    let media = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/media");
    let folder = folder("splices");
    for (name, tracks) in MEDIA {
        let path = folder.join(name);
        std::fs::write(&path, spliced(&corpus::file(name))).expect("written");
        super::decoding::assert_decodes(&path, tracks, true);
        assert_goes_on(&media.join(name), &path);
    }
}

/// Words that stay on the screen longer than there is picture do not keep the next source's picture
/// waiting.
#[test]
#[ignore = "needs ffmpeg"]
fn subtitles_do_not_say_where_the_next_source_begins() {
    let media = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/media/h264.mkv");
    let folder = folder("subtitles");
    let words = folder.join("words.srt");
    let text = "1\n00:00:00,100 --> 00:00:30,000\nWords\n";
    std::fs::write(&words, text).expect("written");
    let fragments = ["-movflags", "frag_keyframe+empty_moov+default_base_moof"];
    let ways: [(&str, &str, &[&str]); 2] = [
        ("words.mkv", "srt", &[]),
        ("words.mp4", "mov_text", &fragments),
    ];
    for (name, codec, options) in ways {
        let (file, recording) = (folder.join(name), folder.join(format!("spliced-{name}")));
        let [media, words, to] = [&media, &words, &file].map(|path| path.to_str().expect("UTF-8"));
        let mux = [
            "-v", "error", "-y", "-i", media, "-i", words, "-c", "copy", "-c:s", codec,
        ];
        assert!(
            run("ffmpeg", &[&mux, options, &[to]].concat())
                .status
                .success()
        );
        let bytes = std::fs::read(&file).expect("written by ffmpeg");
        std::fs::write(&recording, spliced(&bytes)).expect("written");
        assert_goes_on(&file, &recording);
    }
}

/// Returns two seconds of a source whose pictures begin `delay` later than its sound.
fn encode(path: &Path, delay: &str) -> Vec<u8> {
    let media = [
        &["-v", "error", "-y", "-itsoffset", delay, "-f", "lavfi"][..],
        &["-i", "testsrc2=size=320x180:rate=25:duration=2"],
        &["-f", "lavfi", "-i", "sine=frequency=440:duration=2"],
        &[
            "-c:v", "libx264", "-threads", "1", "-g", "25", "-b:v", "600k",
        ],
        &["-c:a", "aac", path.to_str().expect("a path in UTF-8")],
    ];
    assert!(run("ffmpeg", &media.concat()).status.success());
    std::fs::read(path).expect("written by ffmpeg")
}

/// A source may break off anywhere. A decoder would use a partial unit and report an error.
#[test]
#[ignore = "needs ffmpeg"]
fn a_picture_that_came_in_part_is_not_decoded() {
    let folder = folder("breaks");
    let transport = encode(&folder.join("whole.ts"), "0");
    let flv = encode(&folder.join("whole.flv"), "0.6");
    let first_key = corpus::findings(&flv).into_iter().find_map(|finding| {
        let Finding::Join(start) = finding else {
            return None;
        };
        Some(start.offset as usize)
    });
    let first_key = first_key.expect("a key frame");
    assert!(first_key > 2_000, "{first_key}");
    for (name, file, end) in [
        ("ts", &transport, transport.len()),
        ("flv", &flv, first_key),
    ] {
        let path = folder.join(format!("broken.{name}"));
        for cut in (400..end).step_by(end / 20) {
            let (mut splicer, mut out) = (Splicer::new(1 << 20), Vec::new());
            splicer.feed(&file[..cut], &mut out).expect("the first");
            let (format, header) = corpus::had(&out);
            assert!(splicer.break_off(format, header), "{name}, cut at {cut}");
            splicer.feed(file, &mut out).expect("the same tracks again");
            splicer.finish(&mut out);
            std::fs::write(&path, &out).expect("written");
            super::decoding::assert_decodes(&path, &["h264", "aac"], true);
        }
    }
}
