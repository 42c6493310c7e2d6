//! Late viewers of live streams, in every container.

use std::path::Path;

use super::support::server::Server;
use super::support::until;
use super::tools::*;

fn bytes_received(server: &Server, session: &str) -> u64 {
    let stream = server.stream(session).expect("it runs");
    stream["bytes_received"].as_u64().expect("a number")
}

/// The times of the pictures in a recording, in seconds.
fn picture_times(path: &Path) -> Vec<f64> {
    let path = path.to_str().expect("a path in UTF-8");
    let times = [
        "-v",
        "error",
        "-select_streams",
        "v:0",
        "-show_entries",
        "packet=pts_time",
        "-of",
        "csv=p=0",
        path,
    ];
    let times = String::from_utf8_lossy(&run("ffprobe", &times).stdout).into_owned();
    let times = times.lines();
    times
        .filter_map(|line| line.trim_end_matches(',').parse().ok())
        .collect()
}

/// A viewer begins no more than one group of pictures, which is a second, before the newest picture
/// that another had got when it came; however many come while it watches.
fn assert_begins_near(path: &Path, before: &Path) {
    let first = picture_times(path).into_iter().reduce(f64::min);
    let newest = picture_times(before).into_iter().reduce(f64::max);
    let (first, newest) = (first.expect("a picture"), newest.expect("a picture"));
    assert!(
        first > newest - 1.0 - 0.7,
        "{path:?}: it began at {first:.1} s, when there were {newest:.1} s"
    );
}

/// Late viewers of each container, several one after the other.
fn assert_joins(name: &str, codecs: &[&str], output: &[&str], tracks: &[&str], format: &str) {
    let server = Server::gated(&[]);
    server.admit(name);
    let url = format!("http://{}/stream/{name}", server.address());
    let _encoder = publish(&url, codecs, output);
    let folder = folder("joins");
    until("two seconds of it have come", || {
        let stream = server.stream(name)?;
        let is_long = stream["bytes_received"]
            .as_u64()
            .is_some_and(|bytes| bytes > 60_000);
        is_long.then_some(())
    });
    assert_eq!(server.stream(name).expect("it runs")["format"], format);
    // One viewer at the live edge, and ten that join at ten times.
    let newest = folder.join(format!("{name}-newest"));
    let _ = std::fs::remove_file(&newest);
    let output = newest.to_str().expect("a path in UTF-8");
    let _first = Background::start("curl", &["-s", "-N", "-o", output, &url]);
    until("the first has some of it", || {
        (std::fs::metadata(&newest).ok()?.len() > 60_000).then_some(())
    });
    let recordings: Vec<_> = (0..10)
        .map(|moment| {
            let path = folder.join(format!("{name}-{moment}"));
            let before = folder.join(format!("{name}-{moment}-before"));
            std::fs::copy(&newest, &before).expect("a copy");
            let viewer = std::thread::spawn({
                let (url, path) = (url.clone(), path.clone());
                move || record(&url, &path)
            });
            let bytes = bytes_received(&server, name);
            until("a little more of it has come", || {
                (bytes_received(&server, name) > bytes + 9_000).then_some(())
            });
            (viewer, path, before)
        })
        .collect();
    for (viewer, path, before) in recordings {
        viewer.join().expect("the viewer is done");
        assert_plays(&path, tracks, true);
        assert_begins_near(&path, &before);
    }
}

#[test]
#[ignore = "needs ffmpeg and curl"]
fn late_viewers_of_mpeg_ts_get_a_picture() {
    assert_joins(
        "ts",
        &[H264, &["-c:a", "aac"]].concat(),
        &["-f", "mpegts"],
        &["h264", "aac"],
        "mpegts",
    );
}

#[test]
#[ignore = "needs ffmpeg and curl"]
fn late_viewers_of_webm_get_a_picture() {
    let vp8 = [
        "-c:v",
        "libvpx",
        "-deadline",
        "realtime",
        "-cpu-used",
        "8",
        "-g",
        "25",
        "-b:v",
        "300k",
        "-c:a",
        "libvorbis",
    ];
    assert_joins(
        "vp8",
        &vp8,
        &["-f", "webm", "-live", "1"],
        &["vp8", "vorbis"],
        "webm",
    );
    let vp9 = [
        "-c:v",
        "libvpx-vp9",
        "-deadline",
        "realtime",
        "-cpu-used",
        "8",
        "-g",
        "25",
        "-b:v",
        "300k",
        "-c:a",
        "libopus",
    ];
    assert_joins(
        "vp9",
        &vp9,
        &["-f", "webm", "-live", "1"],
        &["vp9", "opus"],
        "webm",
    );
}

#[test]
#[ignore = "needs ffmpeg and curl"]
fn late_viewers_of_matroska_get_a_picture() {
    assert_joins(
        "mkv",
        &[H264, &["-c:a", "aac"]].concat(),
        &["-f", "matroska", "-live", "1"],
        &["h264", "aac"],
        "matroska",
    );
}

#[test]
#[ignore = "needs ffmpeg and curl"]
fn late_viewers_of_fragmented_mp4_get_a_picture() {
    let output = [
        "-f",
        "mp4",
        "-movflags",
        "frag_keyframe+empty_moov+default_base_moof",
    ];
    assert_joins(
        "mp4",
        &[H264, &["-c:a", "aac"]].concat(),
        &output,
        &["h264", "aac"],
        "mp4",
    );
}

#[test]
#[ignore = "needs ffmpeg and curl"]
fn late_viewers_of_flv_get_a_picture() {
    assert_joins(
        "flv",
        &[H264, &["-c:a", "aac"]].concat(),
        &["-f", "flv"],
        &["h264", "aac"],
        "flv",
    );
}

#[test]
#[ignore = "needs ffmpeg and curl"]
fn late_viewers_of_ogg_get_a_picture() {
    let codecs = [
        "-c:v",
        "libtheora",
        "-g",
        "25",
        "-b:v",
        "300k",
        "-c:a",
        "libvorbis",
    ];
    assert_joins(
        "ogg",
        &codecs,
        &["-f", "ogg", "-page_duration", "200000"],
        &["theora", "vorbis"],
        "ogg",
    );
}

/// Late listeners of sound alone.
fn assert_sound_joins(name: &str, codec: &str, output: &str, track: &str) {
    let server = Server::gated(&[]);
    server.admit(name);
    let url = format!("http://{}/stream/{name}", server.address());
    let _encoder = publish(
        &url,
        &["-map", "1:a", "-c:a", codec, "-b:a", "128k"],
        &["-f", output],
    );
    let folder = folder("joins");
    until("it runs for a second", || {
        let is_long = server.stream(name)?["bytes_received"]
            .as_u64()
            .is_some_and(|bytes| bytes > 10_000);
        is_long.then_some(())
    });
    for moment in 0..3 {
        let path = folder.join(format!("{name}-{moment}"));
        record(&url, &path);
        assert_tracks(&path, &[track], false);
        let file = path.to_str().expect("a path in UTF-8");
        let decoded = run(
            "ffmpeg",
            &["-v", "error", "-i", file, "-t", "1", "-f", "null", "-"],
        );
        let complaints = String::from_utf8_lossy(&decoded.stderr).into_owned();
        // The first frame of MP3 may need bits of the one before (the reservoir).
        assert!(
            decoded.status.success() && (complaints.is_empty() || name == "mp3"),
            "{file}: {complaints}"
        );
    }
}

#[test]
#[ignore = "needs ffmpeg and curl"]
fn late_listeners_get_sound() {
    assert_sound_joins("mp3", "libmp3lame", "mp3", "mp3");
    assert_sound_joins("aac", "aac", "adts", "aac");
    assert_sound_joins("opus", "libopus", "ogg", "opus");
}
