//! UDP without RTP and multicast groups, from and to programs; and how even the clock of what
//! leaves is.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use super::support::datagrams::{PACKET_BYTES, admit_as, client, receive};
use super::support::server::Server;
use super::support::until;
use super::tools::*;

const SETTINGS: [&str; 3] = [
    "--rtp=127.0.0.1:0",
    "--rtp-to=127.0.0.0/8",
    "--rtp-to=239.7.7.0/24",
];

/// A server that sends to this group on the loopback interface, and takes nothing from there.
pub fn serve() -> Server {
    Server::gated(&[&SETTINGS[..], &["--multicast=1%lo"]].concat())
}

pub fn admit_at(server: &Server, types: &str, client: &str) {
    let target = format!("/api/add-token?type={types}&sessionid=tv&udp-clients={client}");
    assert_eq!(server.request("POST", &target).status(), 201);
}

pub fn encode(server: &Server) -> Background {
    let url = format!("http://{}/stream/tv", server.address());
    let encoder = publish(&url, &[H264, &["-c:a", "aac"]].concat(), &["-f", "mpegts"]);
    await_media(server, "tv", 60_000);
    encoder
}

/// A player finds all tracks in MPEG-TS without RTP that goes to a host, in that of a group, and in
/// RTP of a group.
#[test]
#[ignore = "needs ffmpeg"]
fn ffprobe_finds_all_tracks_of_udp_and_of_groups() {
    let server = serve();
    let ports = [(); 3].map(|()| free_udp_port());
    let ways = [
        (
            "http,udp",
            format!("127.0.0.1:{}", ports[0]),
            format!("udp://127.0.0.1:{}", ports[0]),
        ),
        (
            "udp",
            format!("239.7.7.1:{}", ports[1]),
            format!("udp://239.7.7.1:{}?localaddr=127.0.0.1", ports[1]),
        ),
        (
            "rtp-udp",
            format!("239.7.7.2:{}", ports[2]),
            format!("rtp://239.7.7.2:{}?localaddr=127.0.0.1", ports[2]),
        ),
    ];
    for (types, client, _) in &ways {
        admit_at(&server, types, client);
    }
    let _encoder = encode(&server);
    for (_, _, url) in &ways {
        let arguments = [
            "-v",
            "error",
            "-analyzeduration",
            "5000000",
            "-show_entries",
            "stream=codec_name",
            "-of",
            "csv=p=0",
            url,
        ];
        let output = run("ffprobe", &arguments);
        let streams = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            streams.contains("h264") && streams.contains("aac"),
            "{url}: {streams}"
        );
    }
}

/// An encoder that sends MPEG-TS in UDP is watched over HTTP, from its host's address.
#[test]
#[ignore = "needs ffmpeg and curl"]
fn udp_from_ffmpeg_is_watched_over_http() {
    let server = serve();
    let to = server.rtp.expect("it says where RTP is");
    let port = free_udp_port();
    admit_at(&server, "http,udp", &format!("127.0.0.1:{port}"));
    let url = format!("udp://{to}?localport={port}&pkt_size=1316");
    let _encoder = encode_to(&["-f", "mpegts", &url]);
    await_media(&server, "tv", 60_000);
    let path = folder("udp").join("tv.ts");
    record(&format!("http://{}/stream/tv", server.address()), &path);
    assert_plays(&path, &["h264", "aac"], true);
}

/// What a receiver's analyser finds: how far the clock in the stream is from when its packets came,
/// and how often its counters jump.
struct Analysis {
    /// Each clock reference: when it came, and what it says.
    references: Vec<(Duration, Duration)>,
    jumps: usize,
    packets: usize,
}

fn analyse(socket: &UdpSocket, header_bytes: usize, time: Duration) -> Analysis {
    let mut analysis = Analysis {
        references: Vec::new(),
        jumps: 0,
        packets: 0,
    };
    let mut counters = [None; 8192];
    let begun = Instant::now();
    while begun.elapsed() < time {
        let datagram = receive(socket);
        let at = begun.elapsed();
        for packet in datagram[header_bytes..].chunks_exact(PACKET_BYTES) {
            assert_eq!(packet[0], 0x47, "out of step");
            analysis.packets += 1;
            let pid = usize::from(packet[1] & 0x1f) << 8 | usize::from(packet[2]);
            let (has_field, has_payload) = (packet[3] & 0x20 != 0, packet[3] & 0x10 != 0);
            let counter = packet[3] & 0xf;
            if has_payload && pid != 0x1fff {
                let before = counters[pid].replace(counter);
                let is_next = before.is_none_or(|before: u8| (before + 1) % 16 == counter);
                analysis.jumps += usize::from(!is_next);
            }
            if has_field && packet[4] >= 7 && packet[5] & 0x10 != 0 {
                let base = u64::from_be_bytes([
                    0, 0, 0, packet[6], packet[7], packet[8], packet[9], packet[10],
                ]) >> 7;
                let extension = u64::from(packet[10] & 1) << 8 | u64::from(packet[11]);
                let clock = Duration::from_nanos((base * 300 + extension) * 1000 / 27);
                analysis.references.push((at, clock));
            }
        }
    }
    analysis
}

impl Analysis {
    /// How late each reference came, after the one that came earliest by its clock: the middle
    /// one, that of 99 in 100, and the latest; in milliseconds.
    fn jitter(&self) -> (f64, f64, f64) {
        let offset = |(at, clock): &(Duration, Duration)| at.as_secs_f64() - clock.as_secs_f64();
        let mut offsets: Vec<f64> = self.references.iter().map(offset).collect();
        offsets.sort_by(f64::total_cmp);
        let of = |share: f64| {
            let place = ((offsets.len() - 1) as f64 * share) as usize;
            (offsets[place] - offsets[0]) * 1000.0
        };
        (of(0.5), of(0.99), of(1.0))
    }
}

/// What leaves is whole and in order, RTP and MPEG-TS alone, of a source in real time and of one
/// that comes at once. How even its clock is is printed: it depends on the machine, too.
#[test]
#[ignore = "needs ffmpeg; prints how even the clock of what leaves is (--nocapture)"]
fn the_clock_of_what_leaves() {
    let path = folder("udp").join("clock.ts");
    let output = path.to_str().expect("a path in UTF-8");
    let picture = ["-f", "lavfi", "-i", "testsrc=size=640x360:rate=25"];
    let sound = ["-f", "lavfi", "-i", "sine=frequency=440"];
    let file = [
        &["-v", "error", "-y"][..],
        &picture,
        &sound,
        H264,
        &[
            "-c:a", "aac", "-t", "20", "-b:v", "4M", "-f", "mpegts", output,
        ],
    ];
    assert!(run("ffmpeg", &file.concat()).status.success());
    for (what, is_live) in [("a file at once", false), ("a live source", true)] {
        let server = serve();
        let (rtp, bare) = (client(), client());
        admit_as(&server, "tv", "http,rtp-udp", &[&rtp]);
        admit_as(&server, "tv", "udp", &[&bare]);
        let url = format!("http://{}/stream/tv", server.address());
        let _source = match is_live {
            false => Background::start("curl", &["-s", "-T", output, &url]),
            true => {
                let copy = [
                    "-v", "error", "-re", "-i", output, "-c", "copy", "-f", "mpegts",
                ];
                let to = ["-flush_packets", "1", "-method", "PUT", &url];
                Background::start("ffmpeg", &[&copy[..], &to].concat())
            }
        };
        until("it goes out", || {
            // The file may have come in whole by now: its stream drains, and has no source.
            let streams = server.streams();
            let stream = streams.iter().find(|stream| stream["sessionid"] == "tv")?;
            (stream["udp"][0]["sent"].as_u64()? > 0).then_some(())
        });
        let time = Duration::from_secs(8);
        let analyser = std::thread::spawn(move || analyse(&rtp, 12, time));
        let found = [
            ("RTP", analyser),
            (
                "MPEG-TS alone",
                std::thread::spawn(move || analyse(&bare, 0, time)),
            ),
        ];
        for (way, analyser) in found {
            let analysis = analyser.join().expect("it reads on");
            assert_eq!(analysis.jumps, 0, "packets are missing");
            let (middle, most, latest) = analysis.jitter();
            println!(
                "{what}, {way}: {} packets, {} clock references; late by {middle:.1} ms, 99 of 100 by {most:.1}, the latest by {latest:.1}",
                analysis.packets,
                analysis.references.len()
            );
        }
    }
}
