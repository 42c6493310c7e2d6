//! VLC as a viewer, over HTTP and RTP.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::support::server::Server;
use super::support::until;
use super::tools::*;
use super::udp;

/// Lets VLC play some seconds of `url`. It does not run as root. Returns what it says, and its folder.
pub fn play(name: &str, options: &str, url: &str) -> (String, PathBuf) {
    let home = std::env::temp_dir().join(format!("tollgate-vlc-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&home).expect("a folder");
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o777)).expect("its owner");
    let script = format!(
        "vlc=; [ \"$(id -u)\" = 0 ] && vlc='setpriv --reuid=65534 --clear-groups'; \
         export HOME={home}; cd; \
         exec $vlc timeout 60 cvlc --intf=dummy --run-time=4 {options} '{url}' vlc://quit 2>&1",
        home = home.display(),
    );
    let output = run("sh", &["-c", &script]).stdout;
    (String::from_utf8_lossy(&output).into_owned(), home)
}

/// What VLC makes of some seconds of `url`, written by it as MPEG-TS.
fn watch(name: &str, url: &str) -> PathBuf {
    let options = "--miface=lo --sout='#standard{access=file,mux=ts,dst=watched.ts}'";
    play(name, options, url).1.join("watched.ts")
}

#[test]
#[ignore = "needs VLC and ffmpeg"]
fn vlc_watches_over_http_and_rtp() {
    let server = Server::gated(&["--rtp=127.0.0.1:0"]);
    let port = free_udp_port();
    let target =
        format!("/api/add-token?type=http,rtp-udp&sessionid=tv&udp-clients=127.0.0.1:{port}");
    assert_eq!(server.request("POST", &target).status(), 201);
    let url = format!("http://{}/stream/tv", server.address());
    let _encoder = publish(&url, &[H264, &["-c:a", "aac"]].concat(), &["-f", "mpegts"]);
    await_media(&server, "tv", 60_000);
    for (name, url) in [("http", url), ("rtp", format!("rtp://127.0.0.1:{port}"))] {
        let path = watch(name, &url);
        assert_tracks(&path, &["h264", "aac"], false);
        let _ = std::fs::remove_dir_all(path.parent().expect("its folder"));
    }
}

/// MPEG-TS without RTP, to a host and to a group, and RTP to a group.
#[test]
#[ignore = "needs VLC and ffmpeg"]
fn vlc_watches_udp_and_groups() {
    let server = udp::serve();
    let ports = [(); 3].map(|()| free_udp_port());
    let ways = [
        ("udp", "http,udp", "127.0.0.1", "udp://@"),
        ("group", "udp", "239.7.7.3", "udp://@239.7.7.3"),
        ("rtp-group", "rtp-udp", "239.7.7.4", "rtp://@239.7.7.4"),
    ];
    for ((_, types, host, _), port) in ways.iter().zip(ports) {
        udp::admit_at(&server, types, &format!("{host}:{port}"));
    }
    let _encoder = udp::encode(&server);
    for ((name, _, _, url), port) in ways.iter().zip(ports) {
        let path = watch(name, &format!("{url}:{port}"));
        assert_tracks(&path, &["h264", "aac"], false);
        let _ = std::fs::remove_dir_all(path.parent().expect("its folder"));
    }
}

/// A session: its encoding, its container, and its tracks.
type Way = (
    &'static str,
    &'static [&'static str],
    Vec<&'static str>,
    &'static [&'static str],
);

#[test]
#[ignore = "needs VLC and ffmpeg"]
fn vlc_watches_hls() {
    let server = Server::start(&["--hls-segment=1"]);
    let fragments = "frag_keyframe+empty_moov+default_base_moof";
    let sound = |codec, format| vec!["-vn", "-c:a", codec, "-f", format];
    let ways: [Way; 4] = [
        (
            "ts",
            H264,
            vec!["-c:a", "aac", "-f", "mpegts"],
            &["h264", "aac"],
        ),
        (
            "mp4",
            H264,
            vec!["-c:a", "aac", "-f", "mp4", "-movflags", fragments],
            &["h264", "aac"],
        ),
        ("mp3", &[], sound("libmp3lame", "mp3"), &["mp3"]),
        ("aac", &[], sound("aac", "adts"), &["aac"]),
    ];
    for (session, codecs, output, tracks) in ways {
        let url = format!("http://{}/stream/{session}", server.address());
        let _encoder = publish(&url, codecs, &output);
        let list = format!("/stream/{session}/index.m3u8");
        until("there is a playlist", || {
            (server.request("HEAD", &list).status() == 200).then_some(())
        });
        let path = watch(session, &format!("{url}/index.m3u8"));
        assert_plays(&path, tracks, false);
        let _ = std::fs::remove_dir_all(path.parent().expect("its folder"));
    }
}
