//! Streams in another container, as programs see them that read it.

use std::path::{Path, PathBuf};

use super::devtools::Browser;
use super::spliced::spliced;
use super::support::corpus;
use super::tools::*;
use tollgate::format::Format;
use tollgate::remux::{Codec, Reader, ReaderEvent, Remuxer, Target, Track};

/// Each file and its container.
const FILES: &[(&str, Format)] = &[
    ("h264.flv", Format::Flv),
    ("h264.mkv", Format::Matroska),
    ("h264.mp4", Format::Mp4),
    ("h264.ts", Format::MpegTs),
];

/// Returns the output for a file that is sent `times` times.
fn remuxed(name: &str, format: Format, to: Target, times: usize) -> Vec<u8> {
    let mut remuxer = Remuxer::new(format, to, 1 << 20).expect("it can be read");
    let mut out = Vec::new();
    let stream = spliced((format, &corpus::file(name)), times);
    let fed = remuxer.feed(&stream, &mut (1 << 40), &mut out);
    fed.expect("it is understood");
    remuxer.finish(&mut out).expect("it is understood");
    out
}

fn recorded(name: &str, format: Format, to: Target, times: usize) -> PathBuf {
    let path = folder("remuxing").join(format!("{name}-{times}.{}", to.format().name()));
    std::fs::write(&path, remuxed(name, format, to, times)).expect("a file");
    path
}

/// A sum of each packet's bytes, without what containers put around them in ways of their own.
fn sums(path: &Path, stream: &str, filter: &str) -> Vec<String> {
    let path = path.to_str().expect("a path in UTF-8");
    let arguments = [
        "-v", "error", "-i", path, "-map", stream, "-c", "copy", "-bsf", filter, "-f", "framemd5",
        "-",
    ];
    let output = run("ffmpeg", &arguments);
    assert!(output.stderr.is_empty(), "{path}: {output:?}");
    let lines = String::from_utf8(output.stdout).expect("text");
    let lines = lines.lines().filter(|line| !line.starts_with('#'));
    let sum = |line: &str| line.split(',').nth(5).map(|sum| sum.trim().to_owned());
    lines.filter_map(sum).collect()
}

#[test]
#[ignore = "needs ffmpeg"]
fn packet_by_packet_the_bytes_are_the_same() {
    let media = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/media");
    // Delimiters and parameter sets stand where the container wants them.
    let picture = "h264_mp4toannexb,filter_units=remove_types=7|8|9";
    for (name, format) in FILES {
        for to in Target::ALL {
            let path = recorded(name, *format, to, 1);
            for (stream, filter) in [("0:v", picture), ("0:a", "aac_adtstoasc")] {
                let source = sums(&media.join(name), stream, filter);
                assert!(source.len() > 50);
                assert_eq!(source, sums(&path, stream, filter), "{name} to {to:?}");
            }
        }
    }
}

#[test]
#[ignore = "needs ffmpeg"]
fn it_decodes_without_a_word_over_seams() {
    for (name, format) in FILES {
        for to in Target::ALL {
            let path = recorded(name, *format, to, 3);
            let path = path.to_str().expect("a path in UTF-8");
            let decoded = run("ffmpeg", &["-v", "warning", "-i", path, "-f", "null", "-"]);
            let words = String::from_utf8_lossy(&decoded.stderr);
            assert!(words.is_empty(), "{path}: {words}");
        }
    }
}

#[test]
#[ignore = "needs GStreamer"]
fn gstreamer_decodes_it() {
    for (name, format) in FILES {
        for (to, demuxer) in [(Target::MpegTs, "tsdemux"), (Target::Mp4, "qtdemux")] {
            let path = recorded(name, *format, to, 3);
            let pipeline = format!(
                "filesrc location={} ! {demuxer} name=d d. ! queue ! h264parse ! avdec_h264 ! fakesink \
                 d. ! queue ! aacparse ! avdec_aac ! fakesink",
                path.display()
            );
            let arguments: Vec<&str> = ["-q"]
                .into_iter()
                .chain(pipeline.split_whitespace())
                .collect();
            let played = run("gst-launch-1.0", &arguments);
            let words = String::from_utf8_lossy(&played.stderr);
            assert!(
                played.status.success() && words.is_empty(),
                "{name} to {to:?}: {words}"
            );
        }
    }
}

const PLAY: &str = r#"
    window.play = async (type, text) => {
        const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
        const video = document.createElement('video');
        window.video = video;
        video.muted = true;
        document.body.append(video);
        const source = new MediaSource();
        video.src = URL.createObjectURL(source);
        await new Promise(open => source.addEventListener('sourceopen', open, {once: true}));
        const buffer = source.addSourceBuffer(type);
        for (let at = 0; at < bytes.length; at += 5000) {
            buffer.appendBuffer(bytes.slice(at, at + 5000));
            await new Promise((done, failed) => {
                buffer.onupdateend = done;
                buffer.onerror = failed;
            });
        }
        source.endOfStream();
        video.currentTime = video.buffered.start(0);
        video.playbackRate = 4;
        await video.play();
        return video.buffered.length;
    }; true
"#;

/// What the page takes the bytes for.
fn media_type(media: &[u8]) -> String {
    let behind = |kind: &[u8; 4]| {
        media
            .windows(4)
            .position(|four| four == kind)
            .map(|at| at + 4)
    };
    if let Some(at) = behind(b"avcC") {
        let [profile, compatible, level] = [media[at + 1], media[at + 2], media[at + 3]];
        format!("video/mp4; codecs=\"avc1.{profile:02x}{compatible:02x}{level:02x},mp4a.40.2\"")
    } else {
        "video/mp4; codecs=\"vp09.00.10.08,opus\"".to_owned()
    }
}

#[test]
#[ignore = "needs Chromium and base64"]
fn chromium_plays_fragments_without_a_gap() {
    let files = FILES.iter().chain(&[("vp9.webm", Format::WebM)]);
    for (name, format) in files {
        let path = recorded(name, *format, Target::Mp4, 1);
        let media = std::fs::read(&path).expect("a file");
        let text = run("base64", &["-w0", path.to_str().expect("a path in UTF-8")]).stdout;
        let text = String::from_utf8(text).expect("text");
        let mut browser = Browser::open(&format!("remux-{name}"), "about:blank");
        browser.await_true("document.readyState == 'complete'");
        browser.evaluate(PLAY);
        let ranges = browser.evaluate(&format!("play('{}', '{text}')", media_type(&media)));
        assert_eq!(ranges, 1, "{name}: there are gaps");
        browser.await_true("video.ended");
        let dropped = browser.evaluate(
            "video.error === null && video.videoWidth > 0 && video.duration > 2 \
             && video.getVideoPlaybackQuality().totalVideoFrames > 0",
        );
        assert_eq!(dropped, true, "{name}");
    }
}

/// A second reader of fragmented MP4, by others than ffmpeg's.
const MP4BOX: &str = "mp4box@2.4.1";

#[test]
#[ignore = "needs npm and node"]
fn mp4box_js_reads_the_same_samples() {
    let folder = folder("mp4box.js");
    let library = folder.join("package/dist/mp4box.all.mjs");
    if !library.exists() {
        let place = folder.display();
        let fetch =
            format!("cd '{place}' && npm pack --silent {MP4BOX} && tar xzf mp4box-*.tgz package");
        assert!(run("sh", &["-c", &fetch]).status.success());
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/mp4box.mjs");
    let names = [&script, &library].map(|path| path.to_str().expect("a path in UTF-8"));
    for (name, format) in FILES {
        let path = recorded(name, *format, Target::Mp4, 1);
        let read = run(
            "node",
            &[names[0], names[1], path.to_str().expect("a path in UTF-8")],
        );
        assert!(read.status.success(), "{name}: {read:?}");
        let text = String::from_utf8(read.stdout).expect("text");
        let mut samples: Vec<Vec<String>> = vec![Vec::new(); 2];
        for line in text.lines() {
            let (track, sample) = line.split_once(' ').expect("a sample");
            let track: usize = track.parse().expect("a number");
            samples[track - 1].push(sample.to_owned());
        }
        assert_eq!(samples, own_samples(&path), "{name}");
    }
}

/// The same as it is read here.
fn own_samples(path: &Path) -> Vec<Vec<String>> {
    let (mut samples, mut tracks) = (vec![Vec::new(); 2], Vec::<Track>::new());
    let mut reader = Reader::new(Format::Mp4, 1 << 20).expect("a reader");
    let fed = reader.feed(&std::fs::read(path).expect("a file"), &mut |heard| {
        match heard {
            ReaderEvent::Tracks(told) => tracks = told.to_vec(),
            ReaderEvent::Unit(unit) => {
                let track = &tracks[unit.track];
                let setup = track.setup.as_deref().unwrap_or_default();
                let codec = match track.codec {
                    Codec::H264 => {
                        format!("avc1.{:02x}{:02x}{:02x}", setup[1], setup[2], setup[3])
                    }
                    _ => format!("mp4a.40.{}", setup[0] >> 3),
                };
                let clock = track.clock;
                let ticks = |time: i64| {
                    let doubled = 2 * i128::from(time) * i128::from(clock);
                    (doubled + 1_000_000_000).div_euclid(2_000_000_000)
                };
                samples[unit.track].push(format!(
                    "{codec} {clock} {} {} {} {}",
                    ticks(unit.decode),
                    ticks(unit.present),
                    u8::from(unit.is_join),
                    unit.bytes.len()
                ));
            }
            ReaderEvent::Announced(_) | ReaderEvent::PieceEnds | ReaderEvent::LeftOut { .. } => {}
        }
        Ok(())
    });
    fed.expect("it is understood");
    samples
}
