//! HLS as players take it: to the end, without a word.

use super::support::server::Server;
use super::support::until;
use super::tools::*;

/// Each container, and what the encoder makes it with.
pub const STREAMS: [(&str, &[&str], &[&str]); 4] = [
    ("ts", &["-c:v", "libx264", "-c:a", "aac"], &["-f", "mpegts"]),
    (
        "mp4",
        &["-c:v", "libx264", "-c:a", "aac"],
        &[
            "-f",
            "mp4",
            "-movflags",
            "empty_moov+default_base_moof+frag_keyframe",
        ],
    ),
    ("mp3", &["-vn", "-c:a", "libmp3lame"], &["-f", "mp3"]),
    ("aac", &["-vn", "-c:a", "aac"], &["-f", "adts"]),
];

/// Starts an encoder that publishes `seconds` live, with a key frame every second.
pub fn publish_for(
    server: &Server,
    session: &str,
    seconds: &str,
    codecs: &[&str],
    output: &[&str],
) -> Background {
    let url = format!("http://{}/stream/{session}", server.address());
    let is_sound = codecs.contains(&"-vn");
    let picture = ["-preset", "ultrafast", "-g", "25", "-pix_fmt", "yuv420p"];
    let of_picture: &[&str] = if is_sound { &[] } else { &picture };
    let arguments: Vec<&str> = [
        &["-v", "error"][..],
        PICTURE,
        SOUND,
        codecs,
        of_picture,
        &["-t", seconds][..],
        output,
        &["-method", "PUT", &url],
    ]
    .concat();
    Background::start("ffmpeg", &arguments)
}

pub fn list_url(server: &Server, session: &str) -> String {
    format!("http://{}/stream/{session}/index.m3u8", server.address())
}

pub fn await_list(server: &Server, session: &str) {
    until("there is a playlist", || {
        let target = format!("/stream/{session}/index.m3u8");
        (server.request("HEAD", &target).status() == 200).then_some(())
    });
}

/// Waits until a playlist has `count` segments.
pub fn await_segments(server: &Server, session: &str, count: usize) {
    until("so many segments are listed", || {
        let list = server.request("GET", &format!("/stream/{session}/index.m3u8"));
        (list.text().matches("#EXTINF").count() >= count).then_some(())
    });
}

/// What ffmpeg's newest report of its progress says of this.
fn progress(stdout: &[u8], name: &str) -> f64 {
    let text = String::from_utf8_lossy(stdout).into_owned();
    let mut lines = text.lines().rev();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    value.expect(name).trim().parse().expect("a number")
}

/// Plays a playlist to its end; says how many seconds that were. Not a word may be said.
fn play(url: &str) -> f64 {
    let played = run(
        "ffmpeg",
        &[
            "-v",
            "warning",
            "-xerror",
            "-progress",
            "-",
            "-i",
            url,
            "-f",
            "null",
            "-",
        ],
    );
    let said = words(&played.stderr);
    assert!(played.status.success() && said.is_empty(), "{url}: {said}");
    progress(&played.stdout, "out_time_us") / 1e6
}

/// What ffmpeg has said of a playlist.
pub fn words(stderr: &[u8]) -> String {
    let said = String::from_utf8_lossy(stderr).into_owned();
    // The player fetches the map again with each new list, from any server.
    let is_of_player = |line: &&str| {
        line.contains("duplicated MOOV")
            || line.contains("Last message repeated")
            || line.is_empty()
    };
    said.lines().filter(|line| !is_of_player(line)).collect()
}

#[test]
#[ignore = "needs ffmpeg"]
fn ffmpeg_plays_every_container_to_the_end_without_a_word() {
    let server = Server::start(&["--hls-segment=1"]);
    let encoders =
        STREAMS.map(|(name, codecs, output)| publish_for(&server, name, "12", codecs, output));
    let players = STREAMS.map(|(name, ..)| {
        await_list(&server, name);
        let url = list_url(&server, name);
        std::thread::spawn(move || play(&url))
    });
    for ((name, ..), player) in STREAMS.iter().zip(players) {
        let seconds = player.join().expect(name);
        assert!(seconds > 8.5, "{name}: {seconds} s");
    }
    drop(encoders);
}

#[test]
#[ignore = "needs ffmpeg"]
fn ffmpeg_joins_late_and_plays_past_a_seam_and_a_stream_that_begins_anew() {
    let server = Server::start(&["--hls-segment=1", "--hold=30"]);
    let (_, codecs, output) = STREAMS[0];
    let first = publish_for(&server, "seam", "60", codecs, output);
    await_list(&server, "seam");
    let target = "/stream/seam/index.m3u8";
    let listed = |words: &str| {
        let list = server.request("GET", target).text();
        list.contains(words).then_some(())
    };
    // Long after a new player would begin after the first segment.
    await_segments(&server, "seam", 8);
    let url = list_url(&server, "seam");
    let player = std::thread::spawn(move || play_past_seams(&url));
    drop(first);
    let second = publish_for(&server, "seam", "12", codecs, output);
    until("there is a seam", || listed("#EXT-X-DISCONTINUITY\n"));
    until("it is over", || listed("#EXT-X-ENDLIST"));
    drop(second);
    let frames = player.join().expect("it plays");
    assert!(frames > 250, "{frames} pictures");
}

/// How many pictures are shown of a list. What a decoder says at a seam is its own.
fn play_past_seams(url: &str) -> u64 {
    let arguments = [
        "-v",
        "error",
        "-progress",
        "-",
        "-i",
        url,
        "-f",
        "null",
        "-",
    ];
    let played = run("ffmpeg", &arguments);
    assert!(played.status.success());
    progress(&played.stdout, "frame") as u64
}

#[test]
#[ignore = "needs GStreamer and ffmpeg"]
fn gstreamer_plays_every_container_to_the_end_without_a_word() {
    let server = Server::start(&["--hls-segment=1"]);
    let encoders =
        STREAMS.map(|(name, codecs, output)| publish_for(&server, name, "10", codecs, output));
    let players = STREAMS.map(|(name, ..)| {
        await_list(&server, name);
        let url = list_url(&server, name);
        std::thread::spawn(move || {
            let uri = format!("uri={url}");
            let sinks = [
                "audio-sink=fakesink sync=true",
                "video-sink=fakesink sync=true",
            ];
            run(
                "timeout",
                &[
                    "60",
                    "gst-launch-1.0",
                    "-q",
                    "playbin",
                    &uri,
                    sinks[0],
                    sinks[1],
                ],
            )
        })
    });
    for ((name, ..), player) in STREAMS.iter().zip(players) {
        let output = player.join().expect(name);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.is_empty(), "{name}: {said}");
    }
    drop(encoders);
}

/// An encoder of MPEG-TS that publishes live, with more of its options.
fn publish_ts(server: &Server, session: &str, options: &[&str]) -> Background {
    let url = format!("http://{}/stream/{session}", server.address());
    let codecs = [
        "-c:v",
        "libx264",
        "-preset",
        "ultrafast",
        "-pix_fmt",
        "yuv420p",
    ];
    let output = ["-c:a", "aac", "-f", "mpegts", "-method", "PUT", &url];
    let arguments = [&["-v", "error"], PICTURE, SOUND, &codecs, options, &output].concat();
    Background::start("ffmpeg", &arguments)
}

/// Key frames a second apart settle the target; then they come every four.
#[test]
#[ignore = "needs ffmpeg"]
fn ffmpeg_plays_groups_longer_than_the_target() {
    let server = Server::start(&["--hls-segment=1"]);
    let keys = [
        "-g",
        "999",
        "-force_key_frames",
        "0,1,2,3,4,8,12",
        "-t",
        "14",
    ];
    let _encoder = publish_ts(&server, "long", &keys);
    await_list(&server, "long");
    let url = list_url(&server, "long");
    let player = std::thread::spawn(move || play(&url));
    server.await_line(&["event=group-longer-than-segment"]);
    let list = server.request("GET", "/stream/long/index.m3u8").text();
    assert!(list.contains("#EXT-X-TARGETDURATION:1\n"), "{list}");
    let seconds = player.join().expect("it plays");
    assert!(seconds > 11.0, "{seconds} s");
}

/// The clock of 33 bits begins again six seconds after the stream does.
#[test]
#[ignore = "needs ffmpeg"]
fn ffmpeg_plays_past_a_clock_that_begins_again() {
    let server = Server::start(&["--hls-segment=1"]);
    let late = ["-g", "25", "-output_ts_offset", "95437", "-t", "14"];
    let _encoder = publish_ts(&server, "wrap", &late);
    await_list(&server, "wrap");
    let seconds = play(&list_url(&server, "wrap"));
    assert!((11.0..15.0).contains(&seconds), "{seconds} s");
    let list = server.request("GET", "/stream/wrap/index.m3u8").text();
    assert!(!list.contains("#EXT-X-DISCONTINUITY\n"), "{list}");
}
