//! Sources that cost as much as they can, in by PUT, by RTP and from an origin, beside viewers of
//! every slowness: what a byte of theirs allocates over its life, and that nothing of it stays.

use std::time::Duration;

use super::hall::Hall;
use super::{media, meter};

const HOST: [u8; 4] = [192, 0, 2, 1];
const OPERATOR: [u8; 4] = [10, 9, 0, 1];
/// Over its life.
const ALLOCATED_PER_BYTE: u64 = 8;
/// Once: a stream's first blocks and tables, its connections, and what late viewers are given
/// first.
const ALLOCATED_ONCE: u64 = 3 << 20;
/// Tables and the buffer for spliced bytes stay allocated.
const LEFT_BYTES_MAX: usize = 860 << 10;

/// By which way a source comes in.
#[derive(Clone, Copy, Debug)]
enum Door {
    Put,
    Rtp,
    Pull,
}

#[test]
fn a_byte_of_any_source_costs_little_by_any_door() {
    for (name, source) in media::all() {
        for door in [Door::Put, Door::Rtp, Door::Pull] {
            for hold in ["--hold=0", "--hold=30"] {
                run(name, &source, door, hold);
            }
        }
    }
}

fn run(name: &str, source: &[u8], door: Door, hold: &str) {
    let common = ["--buffer=256K", "--buffers=1M", "--body-rate=0", hold];
    let gate = match door {
        Door::Put | Door::Rtp => "--token-server=10.9.0.0/16",
        Door::Pull => "--origin=http://192.0.2.9:80",
    };
    let mut hall = Hall::new(&[&common[..], &[gate]].concat());
    hall.relay.set_rtp(([10, 9, 0, 1], 5004).into());
    let operator = hall.connect(
        OPERATOR,
        usize::MAX,
        b"POST /api/add-token?type=http,rtp-udp&sessionid=s&udp-clients=10.1.0.1:5000,10.1.0.2:5000 HTTP/1.1\r\nHost: 10.9.0.1\r\n\r\n",
    );
    hall.turn(Duration::ZERO);
    hall.leave(operator);
    let before = (meter::allocated(), meter::memory_bytes());
    let get = b"GET /stream/s HTTP/1.1\r\nHost: h\r\n\r\n";
    let from = match door {
        Door::Put => {
            let put = b"PUT /stream/s HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
            Some(hall.connect(HOST, usize::MAX, put))
        }
        Door::Pull => {
            hall.connect(HOST, usize::MAX, get);
            hall.turn(Duration::ZERO);
            let (origin, _) = hall.calls.remove(0);
            hall.send(
                origin,
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            );
            Some(origin)
        }
        Door::Rtp => None,
    };
    hall.turn(Duration::ZERO);
    for (number, piece) in source.chunks(16 * 1024).enumerate() {
        match from {
            Some(from) => {
                let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
                hall.send(from, &chunk);
            }
            None => {
                for (index, payload) in piece.chunks(1316).enumerate() {
                    let mut packet = vec![0x80, 33];
                    packet.extend(((number * 13 + index) as u16).to_be_bytes());
                    packet.extend([0; 4]);
                    packet.extend(7u32.to_be_bytes());
                    packet.extend(payload);
                    hall.datagram(([10, 1, 0, 1], 5000).into(), &packet);
                }
            }
        }
        // They come early and late; one reads all, one slowly, one nothing.
        if number == 2 || number == 20 {
            for takes in [usize::MAX, 700, 0] {
                hall.connect(HOST, takes, get);
            }
        }
        hall.turn(Duration::from_millis(20));
    }
    hall.turns(20, Duration::from_millis(50));
    let allocated = meter::allocated() - before.0;
    let most = source.len() as u64 * ALLOCATED_PER_BYTE + ALLOCATED_ONCE;
    assert!(
        allocated <= most,
        "{name} by {door:?} with {hold}: {} bytes, {allocated} allocated",
        source.len()
    );
    hall.leave_all();
    hall.turns(10, Duration::from_secs(30));
    let left = meter::memory_bytes().saturating_sub(before.1);
    assert!(
        left <= LEFT_BYTES_MAX,
        "{name} by {door:?} with {hold}: {left} bytes are left"
    );
}
