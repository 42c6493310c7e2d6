//! Streams in other containers than their own, as players take them.

use super::hls::{list_url, publish_for, words};
use super::support::server::Server;
use super::support::until;
use super::tools::*;

const H264_AAC: &[&str] = &["-c:v", "libx264", "-c:a", "aac"];

/// What goes in, and with what it is made.
const SOURCES: [(&str, &[&str], &[&str]); 5] = [
    ("flv", H264_AAC, &["-f", "flv"]),
    ("matroska", H264_AAC, &["-f", "matroska"]),
    (
        "mp4",
        H264_AAC,
        &[
            "-f",
            "mp4",
            "-movflags",
            "empty_moov+default_base_moof+frag_keyframe",
        ],
    ),
    ("mpegts", H264_AAC, &["-f", "mpegts"]),
    (
        "webm",
        &[
            "-c:v",
            "libvpx-vp9",
            "-deadline",
            "realtime",
            "-cpu-used",
            "8",
            "-c:a",
            "libopus",
        ],
        &["-f", "webm"],
    ),
];

/// The codecs that ffprobe finds, and how many pictures; it may say nothing.
fn probe(file: &str) -> (Vec<String>, usize) {
    let asked = "stream=codec_name,nb_read_packets";
    let arguments = [
        "-v",
        "warning",
        "-count_packets",
        "-show_entries",
        asked,
        "-of",
        "csv=p=0",
        file,
    ];
    let output = run("ffprobe", &arguments);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && words.is_empty(),
        "{file}: {words}"
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut rows: Vec<(String, usize)> = Vec::new();
    for line in text.lines() {
        let mut cells = line.trim_matches(',').split(',');
        let (Some(codec), Some(count)) = (cells.next(), cells.next()) else {
            continue;
        };
        let row = (codec.to_owned(), count.parse().expect("a number"));
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let names = rows.iter().map(|row| row.0.clone()).collect();
    (names, rows[0].1)
}

#[test]
#[ignore = "needs ffmpeg and ffprobe"]
fn each_source_decodes_in_each_container() {
    for (name, codecs, output) in SOURCES {
        for path in ["live.ts", "live.mp4"] {
            if (name, path) == ("webm", "live.ts") {
                continue;
            }
            let server = Server::start(&["--wait=20"]);
            let url = format!("http://{}/stream/demo/{path}", server.address());
            let file = folder("shadows").join(format!("{name}-{path}"));
            let file = file.to_str().expect("a path");
            let mut viewer = Background::start("curl", &["-sf", "-o", file, &url]);
            let mut source = publish_for(&server, "demo", "4", codecs, output);
            assert!(source.ends_well(), "{name}");
            assert!(viewer.ends_well(), "{name} as {path}");
            let (found, pictures) = probe(file);
            assert_eq!(found.len(), 2, "{name} as {path}: {found:?}");
            assert!(
                (95..=101).contains(&pictures),
                "{name} as {path}: {pictures}"
            );
            let played = run(
                "ffmpeg",
                &["-v", "warning", "-xerror", "-i", file, "-f", "null", "-"],
            );
            let words = String::from_utf8_lossy(&played.stderr).into_owned();
            assert!(
                played.status.success() && words.is_empty(),
                "{name} as {path}: {words}"
            );
        }
    }
}

#[test]
#[ignore = "needs ffmpeg"]
fn flv_and_matroska_are_had_as_hls() {
    for (name, codecs, output) in SOURCES {
        if !["flv", "matroska", "webm"].contains(&name) {
            continue;
        }
        let server = Server::start(&[]);
        let _source = publish_for(&server, "demo", "16", codecs, output);
        // A head alone is no reason to make it: the list is asked for until it is there.
        until("there is a playlist", || {
            let list = server.request("GET", "/stream/demo/index.m3u8");
            (list.status() == 200).then_some(())
        });
        let url = list_url(&server, "demo");
        let played = run(
            "ffmpeg",
            &[
                "-v", "warning", "-xerror", "-t", "6", "-i", &url, "-f", "null", "-",
            ],
        );
        let words = words(&played.stderr);
        assert!(
            played.status.success() && words.is_empty(),
            "{name}: {words}"
        );
    }
}

#[test]
#[ignore = "needs ffmpeg and GStreamer"]
fn flv_goes_out_by_rtp() {
    let server = Server::start(&["--token-server=127.0.0.1", "--rtp=127.0.0.1:0"]);
    let port = free_udp_port();
    let target =
        format!("/api/add-token?type=http,rtp-udp&sessionid=demo&udp-clients=127.0.0.1:{port}");
    assert_eq!(server.request("POST", &target).status(), 201);
    let _source = publish_for(&server, "demo", "20", H264_AAC, &["-f", "flv"]);
    let pipeline = format!(
        "udpsrc address=127.0.0.1 port={port} caps=application/x-rtp,media=video,clock-rate=90000,encoding-name=MP2T \
         ! rtpmp2tdepay ! tsdemux ! h264parse ! avdec_h264 ! fakesink num-buffers=50"
    );
    let arguments: Vec<&str> = ["-q"].into_iter().chain(pipeline.split(' ')).collect();
    let played = run(
        "timeout",
        &[&["30", "gst-launch-1.0"][..], &arguments].concat(),
    );
    let words = String::from_utf8_lossy(&played.stderr).into_owned();
    assert!(played.status.success(), "{words}");
}

#[test]
#[ignore = "needs ffmpeg, ffprobe and curl"]
fn a_poster_decodes_as_one_picture() {
    for (name, codecs, output) in SOURCES.into_iter().filter(|(name, ..)| *name != "mp4") {
        let server = Server::start(&[]);
        let _source = publish_for(&server, "demo", "20", codecs, output);
        await_media(&server, "demo", 100_000);
        let url = format!("http://{}/stream/demo/poster.mp4", server.address());
        let file = folder("posters").join(name);
        let file = file.to_str().expect("a path");
        assert!(run("curl", &["-sf", "-o", file, &url]).status.success());
        let shown = ["-v", "warning", "-count_frames", "-select_streams", "v"];
        let fields = ["-show_entries", "stream=nb_read_frames", "-of", "csv=p=0"];
        let output = run("ffprobe", &[&shown[..], &fields, &[file]].concat());
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(words, "", "{name}");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout).trim(),
            "1",
            "{name}"
        );
    }
}
