//! How soon the viewers' page shows the first picture, and how far behind the encoder it plays: a
//! table of containers and codecs, in Chromium and in Firefox.
//!
//! The picture is a clock: sixteen bars, each a bit of the time in hundredths of a second. Run it
//! alone: `cargo test --test programs delay -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::devtools::Browser;
use super::firefox::Firefox;
use super::support::server::Server;
use super::tools::*;

/// Sixteen bars of 20 pixels. A bar of a Gray code is wrong by one step at most where the time
/// changes while a picture is drawn.
const CLOCK: &str = "color=black:size=320x64:rate=25,format=gray,\
    geq=lum='16+219*mod(floor(time(0)*100/pow(2,floor(X/20)))+floor(time(0)*100/pow(2,floor(X/20)+1)),2)'";

/// Defines `look()`: the page's time in ms, its state, how late the picture is in ms, the
/// position, and how much is buffered ahead.
const LOOK: &str = "(() => {
    const canvas = document.createElement('canvas'), pen = canvas.getContext('2d', { willReadFrequently: true });
    canvas.width = 320; canvas.height = 64;
    window.stalls = 0;
    const video = document.querySelector('video');
    video.addEventListener('waiting', () => { window.stalls += 1; });
    window.look = () => {
        let late = null;
        if (video.readyState >= 2 && video.videoWidth > 0) {
            pen.drawImage(video, 0, 0, 320, 64);
            const row = pen.getImageData(0, 32, 320, 1).data;
            let bit = Math.floor(Date.now() / 655360) % 2, time = 0;
            for (let bar = 15; bar >= 0; bar--) {
                bit ^= row[(bar * 20 + 10) * 4] > 127 ? 1 : 0;
                time = time * 2 + bit;
            }
            late = ((Math.floor(Date.now() / 10) - time) & 65535) * 10;
        }
        const ahead = video.buffered.length ? video.buffered.end(video.buffered.length - 1) - video.currentTime : 0;
        return [Math.round(performance.now()), document.body.dataset.state, late, video.currentTime, Math.round(ahead * 1000), window.stalls, video.playbackRate, video.readyState, video.src.startsWith('blob:')];
    };
    return true;
})()";

const VP8: &[&str] = &["-c:v", "libvpx"];
const VP9: &[&str] = &["-c:v", "libvpx-vp9"];
/// Options of both encoders.
const VPX: &[&str] = &[
    "-deadline",
    "realtime",
    "-cpu-used",
    "8",
    "-lag-in-frames",
    "0",
    "-b:v",
    "500k",
    "-g",
    "50",
];
const AVC: &[&str] = &[
    "-c:v",
    "libx264",
    "-preset",
    "ultrafast",
    "-tune",
    "zerolatency",
    "-g",
    "50",
    "-pix_fmt",
    "yuv420p",
];
const AAC: &[&str] = &["-c:a", "aac"];
const OPUS: &[&str] = &["-c:a", "libopus"];
const FRAGMENTS: &[&str] = &[
    "-f",
    "mp4",
    "-movflags",
    "frag_keyframe+empty_moov+default_base_moof",
];

/// What is published: its name, how picture and sound are encoded, and the container.
const ROWS: &[(&str, &[&[&str]])] = &[
    ("MPEG-TS H.264 AAC", &[AVC, AAC, &["-f", "mpegts"]]),
    ("FLV H.264 AAC", &[AVC, AAC, &["-f", "flv"]]),
    ("Matroska H.264 AAC", &[AVC, AAC, &["-f", "matroska"]]),
    (
        "Matroska H.264 AAC, clusters of 0.25 s",
        &[AVC, AAC, &["-cluster_time_limit", "250", "-f", "matroska"]],
    ),
    ("fMP4 H.264 AAC", &[AVC, AAC, FRAGMENTS]),
    (
        "fMP4 H.264 AAC, fragments of 0.25 s",
        &[AVC, AAC, FRAGMENTS, &["-frag_duration", "250000"]],
    ),
    ("WebM VP8 Opus", &[VP8, VPX, OPUS, &["-f", "webm"]]),
    ("WebM VP9 Opus", &[VP9, VPX, OPUS, &["-f", "webm"]]),
    (
        "WebM VP8 Opus, clusters of 0.25 s",
        &[
            VP8,
            VPX,
            OPUS,
            &["-cluster_time_limit", "250", "-f", "webm"],
        ],
    ),
    ("MPEG-TS AAC", &[&["-vn"], AAC, &["-f", "mpegts"]]),
    ("AAC", &[&["-vn"], AAC, &["-f", "adts"]]),
    ("MP3", &[&["-vn", "-c:a", "libmp3lame"], &["-f", "mp3"]]),
    (
        "Ogg Vorbis",
        &[
            &["-vn", "-c:a", "libvorbis", "-b:a", "192k", "-ac", "2"],
            &["-f", "ogg"],
        ],
    ),
];

/// One row for one browser: first picture, how late after some seconds and at the end, stalls.
fn measure(mut go: impl FnMut(Option<&str>, &str) -> Value, url: &str) -> String {
    go(Some(url), "true");
    go(None, LOOK);
    if std::env::var_os("PLAIN").is_some() {
        go(
            None,
            "setTimeout(() => { player?.stop(); player = null; play({ url: stream, form: '', seconds: 40 }); }, 500)",
        );
    }
    let begun = Instant::now();
    let mut first = None;
    let (mut early, mut last) = (Vec::new(), Vec::new());
    let mut seen = Value::Null;
    while begun.elapsed() < Duration::from_secs(20) {
        seen = go(None, "look()");
        if std::env::var_os("SERIES").is_some() {
            println!("{seen}");
        }
        if first.is_none() && seen[1] == "playing" && seen[3].as_f64() > Some(0.0) {
            first = seen[0].as_u64();
        }
        if let Some(late) = seen[2].as_u64() {
            match begun.elapsed().as_secs() {
                4..8 => early.push(late),
                15.. => last.push(late),
                _ => {}
            }
        }
        std::thread::sleep(Duration::from_millis(40));
    }
    let median = |mut list: Vec<u64>| {
        list.sort_unstable();
        list.get(list.len() / 2)
            .map_or("-".to_owned(), u64::to_string)
    };
    format!(
        "{} | {} | {} | {} | {} | {}, {}",
        first.map_or("-".to_owned(), |first| first.to_string()),
        median(early),
        median(last),
        seen[5],
        seen[4],
        seen[1].as_str().unwrap_or_default(),
        if seen[8] == true {
            "MediaSource"
        } else {
            "src"
        },
    )
}

#[test]
#[ignore = "needs Chromium, Firefox and ffmpeg"]
fn delay_of_each_container_and_codec() {
    let server = Server::gated(&[]);
    println!(
        "| source | browser | first picture, ms | behind after 5 s, ms | after 20 s, ms | stalls | ahead, ms | state, by |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let only = std::env::var("ROW").unwrap_or_default();
    for (number, (name, codecs)) in ROWS.iter().enumerate() {
        if !name.contains(&only) {
            continue;
        }
        let session = format!("row{number}");
        server.admit(&session);
        let url = format!("http://{}/stream/{session}", server.address());
        let mut arguments = vec!["-v", "error", "-re", "-f", "lavfi", "-i", CLOCK];
        arguments.extend(SOUND);
        arguments.extend(codecs.concat());
        arguments.extend(["-flush_packets", "1", "-method", "PUT", &url]);
        let _encoder = Background::start("ffmpeg", &arguments);
        await_media(&server, &session, 1);
        std::thread::sleep(Duration::from_secs(7));
        let page = format!("http://{}/watch/{session}", server.address());
        let (chromium, firefox) = std::thread::scope(|scope| {
            let chromium = scope.spawn(|| {
                let mut browser = Browser::open(&session, "about:blank");
                measure(
                    |to, what| {
                        if let Some(to) = to {
                            browser.go(to);
                            browser.await_true("document.readyState == 'complete' && Boolean(document.body?.dataset.state)");
                        }
                        browser.evaluate(what)
                    },
                    &page,
                )
            });
            let firefox = scope.spawn(|| {
                let mut browser = Firefox::open(&session);
                measure(
                    |to, what| {
                        if let Some(to) = to {
                            browser.go(to);
                        }
                        browser.evaluate(what)
                    },
                    &page,
                )
            });
            (
                chromium.join().expect("Chromium"),
                firefox.join().expect("Firefox"),
            )
        });
        println!("| {name} | Chromium | {chromium} |\n| {name} | Firefox | {firefox} |");
    }
}
