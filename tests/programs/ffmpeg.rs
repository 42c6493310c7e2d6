//! ffmpeg: publishing by POST, and watching. That it publishes by PUT, and what it makes of joins,
//! is in `joining`.

use super::support::server::Server;
use super::tools::*;

#[test]
#[ignore = "needs ffmpeg"]
fn ffmpeg_publishes_by_post_and_another_watches() {
    let server = Server::gated(&[]);
    server.admit("demo");
    let url = format!("http://{}/stream/demo", server.address());
    let _encoder = encode_to(&["-f", "flv", &url]);
    await_media(&server, "demo", 60_000);
    let path = folder("ffmpeg").join("watched.flv");
    let output = path.to_str().expect("a path in UTF-8");
    let watched = run(
        "ffmpeg",
        &[
            "-v", "error", "-y", "-i", &url, "-t", "2", "-c", "copy", output,
        ],
    );
    assert!(
        watched.status.success() && watched.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&watched.stderr)
    );
    assert_plays(&path, &["h264", "aac"], true);
}
