//! Streams in another container, as programs see them that read it.

use std::path::{Path, PathBuf};

use super::devtools::Browser;
use super::spliced::spliced;
use super::support::corpus;
use super::tools::*;
use tollgate::format::Format;
use tollgate::remux::{Remuxer, Target};

/// Each file and its container.
const FILES: &[(&str, Format)] = &[
    ("h264.flv", Format::Flv),
    ("h264.mkv", Format::Matroska),
    ("h264.mp4", Format::Mp4),
    ("h264.ts", Format::MpegTs),
];

/// What comes of a file that comes so many times.
fn remuxed(name: &str, format: Format, to: Target, times: usize) -> Vec<u8> {
    let mut remuxer = Remuxer::new(format, to, 1 << 20).expect("it can be read");
    let mut out = Vec::new();
    let stream = spliced((format, &corpus::file(name)), times);
    let fed = remuxer.feed(&stream, &mut out);
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
