//! Held streams whose next source is incompatible, in and out of order: a session has one stream,
//! and an ended stream leaves nothing allocated.

use std::net::SocketAddr;
use std::time::Duration;

use super::hall::Hall;
use super::media::flv_tag;
use super::meter;

const OPERATOR: [u8; 4] = [10, 9, 0, 1];
/// Tables keep their places, and a few blocks wait for the next stream.
const TABLES_BYTES: usize = (16 << 10) + 4 * (64 << 10);

fn packet(sequence: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x80, 33];
    packet.extend(sequence.to_be_bytes());
    packet.extend([0; 4]);
    packet.extend(7u32.to_be_bytes());
    packet.extend(payload);
    packet
}

/// A source's beginning: how its video is set up, and three key frames of these bytes.
fn flv(frame: &[u8]) -> Vec<u8> {
    let mut flv = b"FLV\x01\x05\0\0\0\x09\0\0\0\0".to_vec();
    flv.extend(flv_tag(9, &[0x17, 0, 0, 0, 0, 1, 2, 3]));
    for _ in 0..3 {
        flv.extend(flv_tag(9, &[&[0x17, 1, 0, 0, 0], frame].concat()));
    }
    flv
}

/// The stream is over, nothing of it is kept, and nobody is waited for.
fn assert_over(hall: &mut Hall) {
    let held = hall.relay.memory_bytes()[0];
    assert!(held.1 <= TABLES_BYTES, "the stream goes on: {held:?}");
    assert_eq!(hall.relay.next_deadline(), None, "somebody is waited for");
}

/// FLV is held; RTP comes, which is to be unlike; what shows that comes early, and waits for what
/// is missing.
fn hall(options: &[&str], next: u16) -> (Hall, SocketAddr) {
    let mut hall = Hall::new(&[&["--token-server=10.9.0.0/16", "--hold=60"], options].concat());
    hall.relay.set_rtp("[::]:5004".parse().unwrap());
    let rtp: SocketAddr = ([10, 1, 0, 1], 5000).into();
    let call = format!(
        "POST /api/add-token?type=http,rtp-udp&sessionid=s&udp-clients={rtp} HTTP/1.1\r\nHost: 10.9.0.1\r\n\r\n"
    );
    hall.connect(OPERATOR, usize::MAX, call.as_bytes());
    hall.turn(Duration::ZERO);
    let source = hall.connect(
        OPERATOR,
        usize::MAX,
        b"PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n",
    );
    hall.turn(Duration::ZERO);
    hall.send(source, &flv(&[9; 100]));
    hall.turn(Duration::ZERO);
    hall.connect(
        OPERATOR,
        usize::MAX,
        b"GET /stream/s HTTP/1.1\r\nHost: h\r\n\r\n",
    );
    hall.turn(Duration::ZERO);
    hall.leave(source);
    hall.turn(Duration::ZERO);
    assert_eq!(hall.running, 1, "held");
    // Bytes of an undecided format first, then bytes out of order that are clearly not FLV.
    hall.datagram(rtp, &packet(1, b""));
    hall.datagram(rtp, &packet(2, b""));
    hall.turn(Duration::ZERO);
    hall.datagram(rtp, &packet(next, &[0xee; 1000]));
    hall.turn(Duration::from_millis(1));
    (hall, rtp)
}

#[test]
fn a_takeover_leaves_one_stream_of_a_session() {
    let (mut hall, rtp) = hall(&["--takeover"], 4);
    hall.connect(
        OPERATOR,
        usize::MAX,
        b"PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\nxxxxxxxxxxxxxx",
    );
    hall.turn(Duration::ZERO);
    hall.datagram(rtp, &packet(5, &[0xee; 1000]));
    hall.turn(Duration::ZERO);
    assert_eq!(hall.running, 1);
}

#[test]
fn abort_with_a_block_ends_the_stream() {
    let (mut hall, rtp) = hall(&[], 4);
    hall.connect(
        OPERATOR,
        usize::MAX,
        b"DELETE /api/abort-stream?sessionid=s&block=3600 HTTP/1.1\r\nHost: 10.9.0.1\r\n\r\n",
    );
    hall.turn(Duration::ZERO);
    for number in 5..60u16 {
        hall.datagram(rtp, &packet(number, &[0xee; 1000]));
        hall.turn(Duration::from_secs(10));
    }
    assert_over(&mut hall);
}

/// The same on and on, with one token that names several addresses.
#[test]
fn streams_beyond_their_limit() {
    let before = meter::memory_bytes();
    let mut hall = Hall::new(&[
        "--token-server=10.9.0.0/16",
        "--hold=60",
        "--takeover",
        "--streams=2",
        "--buffer=1M",
        "--buffers=4M",
        "--viewer-stall-time=3600",
    ]);
    hall.relay.set_rtp("[::]:5004".parse().unwrap());
    let address = |n: u8| -> SocketAddr { ([10, 1, 0, n], 5000).into() };
    let clients: Vec<String> = (1..=20).map(|n| address(n).to_string()).collect();
    let call = format!(
        "POST /api/add-token?type=http,rtp-udp&sessionid=s&udp-clients={} HTTP/1.1\r\nHost: 10.9.0.1\r\n\r\n",
        clients.join(",")
    );
    hall.connect(OPERATOR, usize::MAX, call.as_bytes());
    hall.turn(Duration::ZERO);
    for n in 1..=20 {
        let put = b"PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n";
        let source = hall.connect(OPERATOR, usize::MAX, put);
        hall.turn(Duration::ZERO);
        hall.send(source, &flv(&[9, 9]));
        hall.turn(Duration::ZERO);
        hall.connect(
            OPERATOR,
            usize::MAX,
            b"GET /stream/s HTTP/1.1\r\nHost: h\r\n\r\n",
        );
        hall.turn(Duration::ZERO);
        hall.leave(source);
        hall.turn(Duration::ZERO);
        let rtp = address(n);
        hall.datagram(rtp, &packet(1, b""));
        hall.datagram(rtp, &packet(2, b""));
        hall.turn(Duration::ZERO);
        hall.datagram(rtp, &packet(4, &[0xee; 1000]));
        let last = hall.connect(OPERATOR, usize::MAX, put);
        hall.turn(Duration::ZERO);
        hall.leave(last);
        hall.turn(Duration::ZERO);
        for n in 1..=n {
            for sequence in 5..400u16 {
                hall.datagram(address(n), &packet(sequence, &[0xee; 1300]));
            }
        }
        hall.turn(Duration::from_millis(100));
    }
    let held = meter::memory_bytes() - before;
    let stated = (4 << 20) + 2 * ((1 << 20) + (2560 << 10) + (1 << 20) + (1280 << 10));
    hall.connect(
        OPERATOR,
        usize::MAX,
        b"DELETE /api/abort-stream?sessionid=s&block=3600 HTTP/1.1\r\nHost: 10.9.0.1\r\n\r\n",
    );
    hall.turn(Duration::ZERO);
    hall.connect(
        OPERATOR,
        usize::MAX,
        b"DELETE /api/revoke-token?sessionid=s&abort=true HTTP/1.1\r\nHost: 10.9.0.1\r\n\r\n",
    );
    hall.turn(Duration::ZERO);
    hall.leave_all();
    for _ in 0..360 {
        hall.turn(Duration::from_secs(10));
    }
    let left = hall.relay.memory_bytes()[0].1;
    assert!(left <= TABLES_BYTES, "{left} bytes are left");
    // Beside streams, a core of some clients holds less than a megabyte.
    assert!(held <= stated + (1 << 20), "{held} bytes, stated {stated}");
    hall.relay.check();
}

/// A goodbye arrives before early packets are put in order.
#[test]
fn goodbye_ends_the_stream() {
    let (mut hall, rtp) = hall(&[], 4);
    let mut bye = vec![0x81, 203, 0, 1];
    bye.extend(7u32.to_be_bytes());
    hall.datagram(rtp, &bye);
    for _ in 0..360 {
        hall.turn(Duration::from_secs(10));
    }
    assert_over(&mut hall);
}

#[test]
fn an_rtp_source_that_falls_silent_is_lost() {
    let (mut hall, rtp) = hall(&[], 3);
    for number in 4..20u16 {
        hall.datagram(rtp, &packet(number, &[0xee; 1000]));
        hall.turn(Duration::from_millis(10));
    }
    for _ in 0..360 {
        hall.turn(Duration::from_secs(10));
    }
    assert_over(&mut hall);
}
