//! Running the programs, and looking at what they recorded.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

pub use super::support::free_udp_port;
use super::support::server::Server;
use super::support::until;

/// A folder of this test's own.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// A file of a package, which is fetched from npm's registry if it is not there yet.
pub fn from_npm(package: &str, version: &str, file: &str) -> String {
    let folder = folder(&format!("{package}-{version}"));
    let path = folder.join("package").join(file);
    if !path.exists() {
        let folder = folder.to_str().expect("a path in UTF-8");
        let fetch = format!(
            "cd '{folder}' && npm pack --silent {package}@{version} && tar xzf {package}-*.tgz package/{file}"
        );
        let fetched = run("sh", &["-c", &fetch]);
        let said = String::from_utf8_lossy(&fetched.stderr).into_owned();
        assert!(fetched.status.success(), "{said}");
    }
    std::fs::read_to_string(path).expect("the library")
}

pub fn run(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    output.unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// A program in the background, ended with the test.
pub struct Background(Child);

impl Background {
    pub fn start(program: &str, arguments: &[&str]) -> Background {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Background::of(command)
    }

    /// Of a command that says where its output goes.
    pub fn of(mut command: Command) -> Background {
        let child = command.stdin(Stdio::null()).spawn();
        Background(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }
}

impl Background {
    /// Waits until it ends by itself, and says whether it was content.
    pub fn ends_well(&mut self) -> bool {
        self.0.wait().expect("a child of this process").success()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub const PICTURE: &[&str] = &["-re", "-f", "lavfi", "-i", "testsrc=size=160x120:rate=25"];
pub const SOUND: &[&str] = &["-re", "-f", "lavfi", "-i", "sine=frequency=440"];
pub const H264: &[&str] = &[
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

pub const VP8: &[&str] = &[
    "-c:v",
    "libvpx",
    "-deadline",
    "realtime",
    "-b:v",
    "300k",
    "-g",
    "25",
    "-c:a",
    "libvorbis",
];

/// An encoder that publishes live: sound and picture, with a key frame every second.
pub fn publish(url: &str, codecs: &[&str], output: &[&str]) -> Background {
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

/// The same with another output than HTTP by PUT.
pub fn encode_to(output: &[&str]) -> Background {
    let arguments = [
        &["-v", "error"],
        PICTURE,
        SOUND,
        H264,
        &["-c:a", "aac"],
        output,
    ]
    .concat();
    Background::start("ffmpeg", &arguments)
}

/// What a viewer who joins now gets within some seconds.
pub fn record(url: &str, path: &Path) {
    let output = path.to_str().expect("a path in UTF-8");
    run("curl", &["-s", "-m", "3", "-o", output, url]);
}

/// All tracks are there, and the first video packet is a key frame.
pub fn assert_tracks(path: &Path, tracks: &[&str], has_video: bool) {
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

/// A recording plays: the first second of it without a complaint. It ends in the middle of
/// something.
pub fn assert_plays(path: &Path, tracks: &[&str], has_video: bool) {
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

/// Waits until `bytes` of a stream have come.
pub fn await_media(server: &Server, session: &str, bytes: u64) {
    until("the stream runs for a while", || {
        let stream = server.stream(session)?;
        (stream["bytes_received"].as_u64()? >= bytes).then_some(())
    });
}
