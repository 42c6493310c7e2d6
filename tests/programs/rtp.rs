//! RTP from and to programs.

use super::support::server::Server;
use super::tools::*;

/// A player finds all tracks in the RTP output.
#[test]
#[ignore = "needs ffmpeg"]
fn ffprobe_finds_all_tracks_of_rtp() {
    let server = Server::gated(&["--rtp=127.0.0.1:0"]);
    let port = free_udp_port();
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
    let port = free_udp_port();
    let target =
        format!("/api/add-token?type=http,rtp-udp&sessionid=cam&udp-clients=127.0.0.1:{port}");
    assert_eq!(server.request("POST", &target).status(), 201);
    let to = format!("rtp://{rtp}?localport={port}");
    let _encoder = encode_to(&["-f", "rtp_mpegts", &to]);
    await_media(&server, "cam", 60_000);
    let path = folder("rtp").join("cam.ts");
    record(&format!("http://{}/stream/cam", server.address()), &path);
    assert_plays(&path, &["h264", "aac"], true);
}
