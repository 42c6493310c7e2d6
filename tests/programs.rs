//! Programs that people use, unmodified. They have to be installed, so these tests run where they are asked for:
//! `cargo test --test programs -- --ignored` (CI does).

mod support;

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use support::server::Server;
use support::until;
use tollgate::format::{Finding, Scanner};
use tollgate::gather::Gather;
use tollgate::moment::Moment;
use tollgate::stream::{End, Limits, Outcome, Pool, Stream, Supply};

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn run(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    output.unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// A program in the background, ended with the test.
struct Background(Child);

impl Background {
    fn start(program: &str, arguments: &[&str]) -> Background {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Background(
            command
                .spawn()
                .unwrap_or_else(|error| panic!("{program}: {error}")),
        )
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const PICTURE: &[&str] = &["-re", "-f", "lavfi", "-i", "testsrc=size=160x120:rate=25"];
const SOUND: &[&str] = &["-re", "-f", "lavfi", "-i", "sine=frequency=440"];
const H264: &[&str] = &[
    "-c:v",
    "libx264",
    "-preset",
    "ultrafast",
    "-tune",
    "zerolatency",
    "-g",
    "25",
    "-pix_fmt",
    "yuv420p",
];

/// An encoder that publishes live: sound and picture, with a key frame every second.
fn publish(url: &str, codecs: &[&str], output: &[&str]) -> Background {
    let arguments = [
        &["-v", "error"],
        PICTURE,
        SOUND,
        codecs,
        output,
        &["-method", "PUT", url],
    ]
    .concat();
    Background::start("ffmpeg", &arguments)
}

/// What a viewer who joins now gets within some seconds.
fn record(url: &str, path: &Path) {
    let output = path.to_str().expect("a path in UTF-8");
    run("curl", &["-s", "-m", "3", "-o", output, url]);
}

/// All tracks are there, and the first video packet is a key frame.
fn assert_tracks(path: &Path, tracks: &[&str], has_video: bool) {
    let path = path.to_str().expect("a path in UTF-8");
    let streams = run(
        "ffprobe",
        &[
            "-v",
            "error",
            "-show_entries",
            "stream=codec_name",
            "-of",
            "csv=p=0",
            path,
        ],
    );
    let streams = String::from_utf8_lossy(&streams.stdout).into_owned();
    for track in tracks {
        assert!(
            streams.contains(track),
            "{path}: {track} is not among the tracks: {streams}"
        );
    }
    if has_video {
        let packets = [
            "-v",
            "error",
            "-select_streams",
            "v:0",
            "-show_entries",
            "packet=flags",
            "-of",
            "csv=p=0",
            path,
        ];
        let packets = run("ffprobe", &packets);
        assert!(
            packets.stdout.starts_with(b"K"),
            "{path}: the first picture is no key frame"
        );
    }
}

/// A recording plays: the first second of it without a complaint. It ends in the middle of something.
fn assert_plays(path: &Path, tracks: &[&str], has_video: bool) {
    assert_tracks(path, tracks, has_video);
    let path = path.to_str().expect("a path in UTF-8");
    let decoded = run(
        "ffmpeg",
        &[
            "-v", "error", "-xerror", "-i", path, "-t", "1", "-f", "null", "-",
        ],
    );
    let complaints = String::from_utf8_lossy(&decoded.stderr).into_owned();
    assert!(
        decoded.status.success() && complaints.is_empty(),
        "{path}: {complaints}"
    );
}

fn bytes_received(server: &Server, session: &str) -> u64 {
    let stream = server.stream(session).expect("it runs");
    stream["bytes_received"].as_u64().expect("a number")
}

/// A viewer that was there for three seconds has seen no more than these and one group of pictures, which is a second.
fn assert_begins_near(path: &Path) {
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
    let times: Vec<f64> = times
        .lines()
        .filter_map(|line| line.trim_end_matches(',').parse().ok())
        .collect();
    let (first, last) = times
        .iter()
        .fold((f64::MAX, f64::MIN), |(first, last), time| {
            (first.min(*time), last.max(*time))
        });
    assert!(
        last - first < 3.0 + 1.0 + 0.7,
        "{path}: it began {:.1} s before its end",
        last - first
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
    // Ten viewers, who come at ten moments.
    let recordings: Vec<_> = (0..10)
        .map(|moment| {
            let path = folder.join(format!("{name}-{moment}"));
            let viewer = std::thread::spawn({
                let (url, path) = (url.clone(), path.clone());
                move || record(&url, &path)
            });
            let bytes = bytes_received(&server, name);
            until("a little more of it has come", || {
                (bytes_received(&server, name) > bytes + 9_000).then_some(())
            });
            (viewer, path)
        })
        .collect();
    for (viewer, path) in recordings {
        viewer.join().expect("the viewer is done");
        assert_plays(&path, tracks, true);
        assert_begins_near(&path);
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

/// A player finds all tracks in what goes out by RTP.
#[test]
#[ignore = "needs ffmpeg"]
fn ffprobe_finds_all_tracks_of_rtp() {
    let server = Server::gated(&["--rtp=127.0.0.1:0"]);
    let port = UdpSocket::bind("127.0.0.1:0")
        .and_then(|socket| socket.local_addr())
        .expect("a free port")
        .port();
    let target =
        format!("/api/add-token?type=http,rtp-udp&sessionid=tv&udp-clients=127.0.0.1:{port}");
    assert_eq!(server.request("POST", &target).status(), 201);
    let url = format!("http://{}/stream/tv", server.address());
    let _encoder = publish(&url, &[H264, &["-c:a", "aac"]].concat(), &["-f", "mpegts"]);
    let rtp = format!("rtp://127.0.0.1:{port}");
    let probe = [
        "-v",
        "quiet",
        "-analyzeduration",
        "5000000",
        "-show_entries",
        "stream=codec_name",
        "-of",
        "csv=p=0",
        &rtp,
    ];
    let streams = run("ffprobe", &probe);
    let streams = String::from_utf8_lossy(&streams.stdout).into_owned();
    assert!(
        streams.contains("h264") && streams.contains("aac"),
        "{streams}"
    );
}

/// An encoder that sends RTP is watched over HTTP.
#[test]
#[ignore = "needs ffmpeg and curl"]
fn rtp_from_ffmpeg_is_watched_over_http() {
    let server = Server::gated(&["--rtp=127.0.0.1:0"]);
    let rtp = server.rtp.expect("it says where RTP is");
    let port = UdpSocket::bind("127.0.0.1:0")
        .and_then(|socket| socket.local_addr())
        .expect("a free port")
        .port();
    let target =
        format!("/api/add-token?type=http,rtp-udp&sessionid=cam&udp-clients=127.0.0.1:{port}");
    assert_eq!(server.request("POST", &target).status(), 201);
    let to = format!("rtp://{rtp}?localport={port}");
    let arguments = [
        &["-v", "error"],
        PICTURE,
        SOUND,
        H264,
        &["-c:a", "aac", "-f", "rtp_mpegts", &to],
    ]
    .concat();
    let _encoder = Background::start("ffmpeg", &arguments);
    until("the stream runs for a while", || {
        let stream = server.stream("cam")?;
        stream["bytes_received"]
            .as_u64()
            .is_some_and(|bytes| bytes > 60_000)
            .then_some(())
    });
    let path = folder("rtp").join("cam.ts");
    record(&format!("http://{}/stream/cam", server.address()), &path);
    assert_plays(&path, &["h264", "aac"], true);
}

/// `curl -T -` reads its refusal, whatever it was about to send.
#[test]
#[ignore = "needs curl"]
fn curl_reads_why_it_is_refused() {
    let server = Server::gated(&[]);
    let url = format!("http://{}/stream/demo", server.address());
    let script = format!("head -c 3000000 /dev/zero | curl -s -T - -w ' %{{http_code}}' {url}");
    let refused = run("sh", &["-c", &script]);
    let answer = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(
        refused.status.success() && answer.contains("no http token") && answer.ends_with(" 403"),
        "{answer}"
    );
    let script =
        format!("head -c 3000000 /dev/zero | curl -s -H 'Expect:' -T - -w ' %{{http_code}}' {url}");
    let refused = run("sh", &["-c", &script]);
    let answer = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(
        answer.contains("no http token") && answer.ends_with(" 403"),
        "{answer}"
    );
}

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

/// What a viewer would get who begins at each join point of a real file: header, prelude, and the bytes from there.
fn joins_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut findings = Vec::new();
    Scanner::new().feed(bytes, &mut findings);
    let mut header = Vec::new();
    let mut joins = Vec::new();
    for finding in findings {
        match finding {
            Finding::Header(new) => header = new,
            Finding::Join(start) => {
                let from = usize::try_from(start.offset).expect("a small file");
                joins.push([&header, start.prelude.as_slice(), &bytes[from..]].concat());
            }
            Finding::Format(_) | Finding::Unit(_) | Finding::Entry(_) => {}
            Finding::Unknown => panic!("the format was let go"),
        }
    }
    joins
}

#[test]
#[ignore = "needs ffmpeg"]
fn every_join_point_of_every_container_decodes() {
    let media = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/media");
    let folder = folder("cuts");
    for (name, tracks, has_video) in MEDIA {
        let bytes = std::fs::read(media.join(name)).expect("a file of the corpus");
        let joins = joins_of(&bytes);
        assert!(joins.len() >= 2, "{name} has {} join points", joins.len());
        for (number, cut) in joins.iter().enumerate().take(12) {
            let path = folder.join(format!("{number}-{name}"));
            std::fs::write(&path, cut).expect("written");
            assert_decodes(&path, tracks, *has_video);
        }
    }
}

fn assert_decodes(path: &Path, tracks: &[&str], has_video: bool) {
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
    // Over a gap in time a picture may come out beside one that was held back; that is said of the output, not of what was decoded.
    let of_decoding = |line: &&str| !line.contains("non monotonically increasing dts to muxer");
    let complaints: String = complaints.lines().filter(of_decoding).collect();
    // The first frame of MP3 may need bits of the one before (the reservoir).
    let is_expected = complaints.is_empty() || path.ends_with(".mp3");
    assert!(
        decoded.status.success() && is_expected,
        "{path}: {complaints}"
    );
}

/// What a viewer gets of a file who takes some bytes, stalls until much of it has gone by, and comes back, again and again.
fn stalled(bytes: &[u8], buffer_bytes: usize) -> (Vec<u8>, u64) {
    let limits = Limits {
        buffer_bytes,
        join_back_bytes: 0,
        join_back_time: Duration::ZERO,
    };
    let (mut pool, now) = (
        Pool {
            bytes_left: 1 << 30,
        },
        Moment::START,
    );
    let mut stream: Stream<()> = Stream::new(limits, None, now);
    let viewer = stream.join((), now);
    let mut got = Vec::new();
    let mut take = |stream: &mut Stream<()>, bytes_max: usize| {
        let mut left = bytes_max;
        while let (Supply::Bytes(_), 1..) = (stream.supply(viewer, 0), left) {
            let mut gather = Gather::default();
            let lent = stream.lend(viewer, left, &mut gather, 0);
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
        stream.settle(viewer, outcome);
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
    let media = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/media");
    let folder = folder("stalls");
    // The small Opus file has no more than two pages, and many of it would be a chain of streams with one serial number.
    for (name, tracks, has_video) in MEDIA.iter().filter(|(name, ..)| *name != "opus.ogg") {
        let bytes = std::fs::read(media.join(name)).expect("a file of the corpus");
        // Sound is small: many times over it is longer than the smallest buffer that can be asked for.
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
