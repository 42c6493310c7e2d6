//! GStreamer: as a source and as a viewer, over HTTP and RTP.

use super::support::server::Server;
use super::support::until;
use super::tools::*;

/// A live picture with a key frame every second, as MPEG-TS.
const ENCODER: &str = "videotestsrc is-live=true ! video/x-raw,width=160,height=120,framerate=25/1 ! \
                       x264enc tune=zerolatency key-int-max=25 ! mpegtsmux alignment=7";

fn pipeline(text: &str) -> Background {
    let arguments: Vec<&str> = ["-q"].into_iter().chain(text.split_whitespace()).collect();
    Background::start("gst-launch-1.0", &arguments)
}

/// Ends by itself.
fn run_pipeline(text: &str) {
    let arguments: Vec<&str> = ["-q"].into_iter().chain(text.split_whitespace()).collect();
    let output = run("gst-launch-1.0", &arguments);
    assert!(
        output.status.success(),
        "{text}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
#[ignore = "needs GStreamer and ffmpeg"]
fn gstreamer_publishes_and_watches_over_http() {
    let server = Server::gated(&[]);
    server.admit("gst");
    let url = format!("http://{}/stream/gst", server.address());
    let _source = pipeline(&format!(
        "{ENCODER} ! curlhttpsink use-content-length=false location={url}"
    ));
    await_media(&server, "gst", 60_000);
    let path = folder("gstreamer").join("http.ts");
    run_pipeline(&format!(
        "souphttpsrc is-live=true num-buffers=60 location={url} ! filesink location={}",
        path.display()
    ));
    assert_plays(&path, &["h264"], true);
}

#[test]
#[ignore = "needs GStreamer and ffmpeg"]
fn gstreamer_sends_and_receives_rtp() {
    let server = Server::gated(&["--rtp=127.0.0.1:0"]);
    let rtp = server.rtp.expect("it says where RTP is").port();
    let (source, client) = (free_udp_port(), free_udp_port());
    let target = format!(
        "/api/add-token?type=rtp-udp&sessionid=gst&udp-clients=127.0.0.1:{source},127.0.0.1:{client}"
    );
    assert_eq!(server.request("POST", &target).status(), 201);
    let path = folder("gstreamer").join("rtp.ts");
    let _ = std::fs::remove_file(&path);
    let receiver = pipeline(&format!(
        "udpsrc address=127.0.0.1 port={client} \
         caps=application/x-rtp,media=video,clock-rate=90000,encoding-name=MP2T,payload=33 ! \
         rtpmp2tdepay ! filesink buffer-mode=unbuffered location={}",
        path.display()
    ));
    let _source = pipeline(&format!(
        "{ENCODER} ! rtpmp2tpay ! udpsink host=127.0.0.1 port={rtp} bind-address=127.0.0.1 bind-port={source}"
    ));
    until("enough has been received", || {
        let length = std::fs::metadata(&path).ok()?.len();
        (length > 200_000).then_some(())
    });
    drop(receiver);
    assert_tracks(&path, &["h264"], false);
}
