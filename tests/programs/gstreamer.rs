//! GStreamer: as a source and as a viewer, over HTTP and RTP.

use super::support::datagrams::{clients_in_a_row, transport};
use super::support::server::Server;
use super::support::streaming::Source;
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

/// Chooses the datagrams to lose.
type Losses = fn(usize) -> bool;

/// L of the matrix in use; D is twice that.
const COLUMNS: usize = 5;
const DATAGRAMS: usize = 600;

/// Loses `percent` of the datagrams, the same ones each time. It never loses the four corners of a
/// rectangle, which FEC cannot repair. The last corrections come with the matrix after theirs.
fn is_lost(number: usize, percent: u32) -> bool {
    let mixed = (number as u32 + 10).wrapping_mul(0x9e37_79b9);
    let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca6b);
    number + 4 * COLUMNS * COLUMNS < DATAGRAMS && (mixed ^ mixed >> 13) % 100 < percent
}

/// What the server sends goes on to a decoder by way of this test, which loses some of it: what
/// comes out is the stream, in every byte.
#[test]
#[ignore = "needs GStreamer"]
fn gstreamer_makes_again_what_is_lost() {
    let losses: [(&str, Losses); 4] = [
        ("1 %", |number| is_lost(number, 1)),
        ("5 %", |number| is_lost(number, 5)),
        ("10 %", |number| is_lost(number, 10)),
        ("bursts of L", |number| {
            (7..7 + COLUMNS).contains(&(number % (4 * COLUMNS * COLUMNS))) && is_lost(number, 100)
        }),
    ];
    for (name, losses) in losses {
        let (received, whole, lost) = through_losses(losses);
        assert!(lost >= 8, "{name}: {lost} lost");
        assert!(
            received == whole,
            "{name}: {} bytes came, not {}, of which {lost} datagrams were lost",
            received.len(),
            whole.len()
        );
    }
}

/// What a decoder has got, what it should have, and how many datagrams were lost.
fn through_losses(losses: Losses) -> (Vec<u8>, Vec<u8>, usize) {
    let server = Server::gated(&["--rtp=127.0.0.1:0"]);
    let sockets = clients_in_a_row();
    for socket in &sockets {
        socket.set_nonblocking(true).expect("an option");
    }
    let to = sockets[0].local_addr().expect("its address");
    let target = format!("/api/add-token?type=http,rtp-udp&fec=5x10&sessionid=tv&udp-clients={to}");
    assert_eq!(server.request("POST", &target).status(), 201);
    let path = folder("gstreamer").join("fec.ts");
    let _ = std::fs::remove_file(&path);
    let ports: Vec<u16> = (0..3).map(|_| free_udp_port()).collect();
    let [media, columns, rows] = ports[..] else {
        panic!("three ports");
    };
    // Nothing but what this test loses is lost, however late the decoder is.
    let from = "udpsrc address=127.0.0.1 buffer-size=4000000";
    let caps = "caps=application/x-rtp,media=video,clock-rate=90000,encoding-name=MP2T";
    let _decoder = pipeline(&format!(
        "rtpst2022-1-fecdec name=fec size-time=3000000000 \
         {from} port={columns} {caps},payload=96 ! fec.fec_0 \
         {from} port={rows} {caps},payload=96 ! fec.fec_1 \
         {from} port={media} {caps},payload=33 ! fec.sink \
         fec.src ! rtpjitterbuffer latency=2000 ! rtpmp2tdepay ! \
         filesink buffer-mode=unbuffered location={}",
        path.display()
    ));
    for port in [media, columns, rows] {
        until("the decoder listens", || {
            std::net::UdpSocket::bind(("127.0.0.1", port)).err()
        });
    }
    let each = (0..DATAGRAMS).map(|number| transport(number as u8, Some(number as f64 * 0.005)));
    let whole = each.collect::<Vec<_>>().concat();
    let mut source = Source::open(server.address(), "/stream/tv");
    source.send(&whole);
    let (mut came, mut lost) = (0, 0);
    until("all has come through", || {
        for (socket, port) in sockets.iter().zip([media, columns, rows]) {
            let mut datagram = [0; 2048];
            while let Ok(bytes) = socket.recv(&mut datagram) {
                if port == media {
                    came += 1;
                    if losses(came - 1) {
                        lost += 1;
                        continue;
                    }
                }
                let to = ("127.0.0.1", port);
                socket.send_to(&datagram[..bytes], to).expect("sent");
            }
        }
        (came == DATAGRAMS).then_some(())
    });
    let all = whole.len() as u64;
    until("the decoder has written all", || {
        (std::fs::metadata(&path).ok()?.len() >= all).then_some(())
    });
    (std::fs::read(&path).expect("it is written"), whole, lost)
}
