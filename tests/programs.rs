//! Programs that people use, unmodified. They have to be installed, so these tests run where they are asked for:
//! `cargo test --test programs -- --ignored` (CI does).

mod support;

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use support::server::Server;
use support::until;

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
const SOUND: &[&str] = &["-f", "lavfi", "-i", "sine=frequency=440"];
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

/// All tracks are there, the first video packet is a key frame, and a decoder has no complaint but about the end, where it was cut off.
fn assert_plays(path: &Path, tracks: &[&str], has_video: bool) {
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
    // Only what lies before the last half second counts: the recording ends in the middle of something.
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
    for moment in 0..3 {
        let path = folder.join(format!("{name}-{moment}"));
        record(&url, &path);
        assert_plays(&path, tracks, true);
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
