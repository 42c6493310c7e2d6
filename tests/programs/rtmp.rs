//! Publishers by RTMP, with `--rtmp`: ffmpeg, and GStreamer's two sinks.

use super::support::server::Server;
use super::support::streaming::Viewer;
use super::support::until;
use super::tools::*;

fn server(options: &[&str]) -> Server {
    let server = Server::gated(&[&["--rtmp=127.0.0.1:0", "--wait=60"], options].concat());
    server.admit("demo");
    server
}

fn url(server: &Server, name: &str) -> String {
    let address = server.rtmp.expect("it listens for RTMP");
    format!("rtmp://{address}/live/{name}")
}

#[test]
#[ignore = "needs ffmpeg"]
fn ffmpeg_publishes_tag_for_tag_what_it_would_write() {
    let server = server(&[]);
    for media in ["tests/media/h264.flv", "tests/media/h264.mp4"] {
        let copy = ["-v", "error", "-i", media, "-c", "copy", "-f", "flv"];
        let mut viewer = Viewer::ask(server.address(), "/stream/demo");
        run("ffmpeg", &[&copy[..], &[&url(&server, "demo")]].concat());
        let written = run("ffmpeg", &[&copy[..], &["-"]].concat()).stdout;
        assert!(written.len() > 10_000, "{media}");
        viewer.assert_rest(&written);
        server.await_end_of_stream("demo");
    }
}

#[test]
#[ignore = "needs GStreamer"]
fn gstreamer_publishes_by_both_of_its_sinks() {
    let server = server(&[]);
    for sink in ["rtmp2sink", "rtmpsink"] {
        let pipeline = format!(
            "flvmux name=m streamable=true ! {sink} location={} \
             videotestsrc num-buffers=50 ! video/x-raw,width=64,height=48,framerate=25/1 ! \
             x264enc key-int-max=6 tune=zerolatency ! h264parse ! m. \
             audiotestsrc num-buffers=80 ! audioconvert ! lamemp3enc ! mpegaudioparse ! m.",
            url(&server, "demo")
        );
        let mut viewer = Viewer::ask(server.address(), "/stream/demo");
        let arguments: Vec<&str> = std::iter::once("-q")
            .chain(pipeline.split_whitespace())
            .collect();
        let launched = run("gst-launch-1.0", &arguments);
        assert!(launched.status.success(), "{sink}: {launched:?}");
        let (flv, _) = viewer.read_to_end();
        server.await_end_of_stream("demo");
        let path = folder("rtmp").join("gstreamer.flv");
        std::fs::write(&path, flv).expect("a file");
        assert_plays(&path, &["h264", "mp3"], true);
    }
}

#[test]
#[ignore = "needs ffmpeg and GStreamer"]
fn publishers_show_why_they_are_refused() {
    let server = server(&[]);
    let to = url(&server, "none");
    let media = "tests/media/h264.flv";
    let arguments = ["-v", "error", "-i", media, "-c", "copy", "-f", "flv", &to];
    let refused = run("ffmpeg", &arguments);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        said.contains("Server error: this sessionid has no http token"),
        "{said}"
    );
    let location = format!("location={to}");
    let arguments = [
        "-q",
        "audiotestsrc",
        "!",
        "lamemp3enc",
        "!",
        "mpegaudioparse",
        "!",
        "flvmux",
        "streamable=true",
        "!",
        "rtmp2sink",
        &location,
    ];
    let refused = run("gst-launch-1.0", &arguments);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("publish denied"), "{said}");
}

/// The second encoder goes on where the first was killed, for a viewer of each kind.
#[test]
#[ignore = "needs ffmpeg, ffprobe and curl"]
fn viewers_stay_when_an_encoder_is_killed() {
    let server = server(&["--hold=60", "--hls=on", "--remux=on"]);
    let encode = |more: &[&str]| {
        let codecs = [
            "-c:v", "libx264", "-g", "25", "-pix_fmt", "yuv420p", "-c:a", "aac",
        ];
        let to = url(&server, "demo");
        let output = ["-f", "flv", &to];
        let arguments = [&["-v", "error"], PICTURE, SOUND, &codecs, more, &output].concat();
        Background::start("ffmpeg", &arguments)
    };
    let first = encode(&[]);
    await_media(&server, "demo", 100_000);
    let folder = folder("rtmp");
    let paths = ["demo", "demo/live.mp4", "demo/live.ts"].map(|path| {
        let file = folder.join(path.replace('/', "-"));
        let url = format!("http://{}/stream/{path}", server.address());
        let output = file.to_str().expect("UTF-8").to_owned();
        let curl = Background::start("curl", &["-s", "-o", &output, &url]);
        (file, curl)
    });
    server.await_viewers("demo", 3);
    let list = format!("http://{}/stream/demo/index.m3u8", server.address());
    let probed = run(
        "ffprobe",
        &["-v", "error", "-show_entries", "stream=codec_name", &list],
    );
    let said = String::from_utf8_lossy(&probed.stdout).into_owned();
    assert!(said.contains("h264") && said.contains("aac"), "{said}");
    drop(first);
    until("it is held", || {
        server.stream("demo").filter(|row| row["held"] == true)
    });
    let mut second = encode(&["-t", "3"]);
    server.await_line(&["stream-goes-on"]);
    server.await_end_of_stream("demo");
    assert!(second.ends_well());
    for (file, mut curl) in paths {
        assert!(curl.ends_well());
        assert_plays(&file, &["h264", "aac"], true);
    }
}
