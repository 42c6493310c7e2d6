//! Publishers by RTMP, with `--rtmp`: ffmpeg, and GStreamer's two sinks.

use std::process::Command;

use super::devtools::Browser;
use super::proxies::await_proxy;
use super::support::server::Server;
use super::support::streaming::Viewer;
use super::support::{free_address, free_udp_port, until};
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

#[test]
#[ignore = "needs ffmpeg, openssl and haproxy"]
fn rtmps_comes_through_haproxy_as_the_example_has_it() {
    let server = server(&["--proxy-protocol=127.0.0.2"]);
    let folder = folder("rtmps");
    let [key, certificate, both] = ["key.pem", "certificate.pem", "both.pem"].map(|name| {
        let path = folder.join(name);
        path.to_str().expect("a path in UTF-8").to_owned()
    });
    let request = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout";
    let request: Vec<&str> = request
        .split(' ')
        .chain([&*key, "-out", &certificate])
        .collect();
    assert!(run("openssl", &request).status.success());
    let files = [&key, &certificate].map(|path| std::fs::read(path).expect("a file"));
    std::fs::write(&both, files.concat()).expect("a file");
    let front = free_address();
    let mut command = Command::new("haproxy");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/rtmps.cfg");
    command.args(["-db", "-f", example]);
    let relay = server.rtmp.expect("it listens for RTMP").to_string();
    let settings = [
        ("FRONT", front.to_string()),
        ("CERTIFICATE", both),
        ("RELAY", relay),
    ];
    command.envs(settings);
    let _proxy = await_proxy(Background::of(command), front);
    let media = "tests/media/h264.flv";
    let to = format!("rtmps://{front}/live/demo");
    let copy = ["-v", "error", "-i", media, "-c", "copy", "-f", "flv"];
    let mut viewer = Viewer::ask(server.address(), "/stream/demo");
    run("ffmpeg", &[&copy[..], &[&to]].concat());
    viewer.assert_rest(&run("ffmpeg", &[&copy[..], &["-"]].concat()).stdout);
    let begins = server.await_line(&["stream-begins"]);
    assert!(begins.contains("source=127.0.0.1:"), "{begins}");
}

#[test]
#[ignore = "needs ffmpeg"]
fn a_stream_by_rtmp_goes_out_by_rtp() {
    let server = server(&["--rtp=127.0.0.1:0", "--remux=on"]);
    let port = free_udp_port();
    let target =
        format!("/api/add-token?type=http,rtp-udp&sessionid=tv&udp-clients=127.0.0.1:{port}");
    assert_eq!(server.request("POST", &target).status(), 201);
    let _encoder = encode_to(&["-f", "flv", &url(&server, "tv")]);
    let rtp = format!("rtp://127.0.0.1:{port}");
    let probe = "-v quiet -analyzeduration 5000000 -show_entries stream=codec_name";
    let probe: Vec<&str> = probe.split(' ').chain([&*rtp]).collect();
    let found = run("ffprobe", &probe);
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    assert!(found.contains("h264") && found.contains("aac"), "{found}");
}

#[test]
#[ignore = "needs Chromium and ffmpeg"]
fn chromium_watches_a_stream_by_rtmp_on_the_page() {
    let server = server(&[]);
    let _encoder = encode_to(&["-f", "flv", &url(&server, "demo")]);
    let page = format!("http://{}/watch/demo", server.address());
    let mut browser = Browser::open("rtmp", &page);
    browser.await_true("document.body?.dataset.state == 'playing'");
    let source = browser.evaluate("document.querySelector('video').dataset.url");
    let is_remuxed = source
        .as_str()
        .is_some_and(|url| url.ends_with("/live.mp4"));
    assert!(is_remuxed, "{source}");
    browser.await_true("document.querySelector('video').currentTime > 3");
}
