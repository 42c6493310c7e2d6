//! Datagrams of every size, from hosts that a token names and from others.

use std::net::SocketAddr;
use std::time::Duration;

use super::hall::Hall;
use super::meter;

/// What `docs/security.md` states for RTP that is no stream's: first packets.
const FIRST_PACKETS_BYTES_MAX: usize = 1 << 20;
/// What it states for one stream beside its buffer.
const STREAM_BYTES_MAX: usize = 1 << 20;

const OPERATOR: [u8; 4] = [10, 9, 0, 1];
const OPTIONS: &[&str] = &[
    "--token-server=10.9.0.0/16",
    "--buffer=256K",
    "--buffers=1M",
];

/// A server with sessions that each have a UDP client: `10.1.X.Y:5000`.
fn hall(sessions: u16) -> Hall {
    let mut hall = Hall::new(OPTIONS);
    hall.relay.set_rtp(([10, 9, 0, 1], 5004).into());
    let operator = hall.connect(OPERATOR, usize::MAX, b"");
    for number in 0..sessions {
        let client = address(number);
        let call = format!(
            "POST /api/add-token?type=rtp-udp&sessionid=s{number}&udp-clients={client} HTTP/1.1\r\nHost: 10.9.0.1\r\n\r\n"
        );
        hall.send(operator, call.as_bytes());
        if number % 16 == 0 {
            hall.turn(Duration::ZERO);
        }
    }
    while hall.unread(operator) > 0 {
        hall.turn(Duration::ZERO);
    }
    hall.turn(Duration::ZERO);
    hall.leave(operator);
    hall
}

fn address(number: u16) -> SocketAddr {
    let [high, low] = number.to_be_bytes();
    ([10, 1, high, low], 5000).into()
}

/// Returns an RTP packet of `bytes` bytes.
fn packet(sequence: u16, ssrc: u32, bytes: usize) -> Vec<u8> {
    let mut packet = vec![0x80, 33];
    packet.extend(sequence.to_be_bytes());
    packet.extend([0; 4]);
    packet.extend(ssrc.to_be_bytes());
    packet.resize(bytes.max(packet.len()), 0x47);
    packet
}

/// Hosts that send one large packet each, and never the next, hold little, and not for long; nor do
/// they keep a new source out.
#[test]
fn first_packets_hold_little_and_keep_nobody_out() {
    let mut hall = hall(2_000);
    let before = meter::memory_bytes();
    for number in 0..1_999 {
        hall.datagram(address(number), &packet(1, 7, 65_000));
    }
    let held = meter::take_peak() - before;
    assert!(held <= FIRST_PACKETS_BYTES_MAX, "{held} bytes");
    for sequence in 1..=3 {
        hall.datagram(address(1_999), &packet(sequence, 7, 1_328));
    }
    assert_eq!(hall.running, 1, "a new source is kept out");
    hall.turn(Duration::from_secs(60));
    hall.turn(Duration::from_secs(60));
    hall.turn(Duration::from_secs(60));
    assert_eq!(hall.running, 0);
    let held = meter::memory_bytes() - before;
    assert!(
        held <= FIRST_PACKETS_BYTES_MAX / 16,
        "{held} bytes are left"
    );
}

/// A source with large packets, early, late, repeated and out of order, stays below the stated
/// bound.
#[test]
fn packets_that_come_early_are_bounded_in_bytes() {
    for bytes in [12, 200, 1_328, 9_000, 65_000] {
        let mut hall = hall(1);
        let before = meter::memory_bytes();
        hall.datagram(address(0), &packet(0, 7, bytes));
        hall.datagram(address(0), &packet(1, 7, bytes));
        assert_eq!(hall.running, 1, "{bytes} bytes");
        for round in 0..50u16 {
            // All but the first of each hundred, from the end.
            for sequence in (1..100).rev() {
                hall.datagram(address(0), &packet(round * 100 + 2 + sequence, 7, bytes));
            }
            hall.turn(Duration::from_millis(5));
        }
        let held = meter::take_peak() - before;
        let most = (256 << 10) + STREAM_BYTES_MAX;
        assert!(held <= most, "packets of {bytes} bytes: {held} bytes");
    }
}

/// A stranger's datagram costs nothing.
#[test]
fn a_strangers_datagram_allocates_nothing() {
    let mut hall = hall(10);
    let before = meter::allocated();
    for number in 0..1_000 {
        let stranger = ([192, 0, 2, 1], 5_000 + number).into();
        hall.datagram(stranger, &packet(number, 7, 1_328));
    }
    assert_eq!(meter::allocated(), before);
}

/// A stream that begins and ends allocates two numbers for each of its session's UDP clients, which
/// count what it gets, and the addresses of 64 to whom a letter goes at once, with their places.
/// The clients' list is lent.
#[test]
fn a_sources_streams_allocate_no_more_than_two_numbers_for_each_udp_client() {
    let mut costs = [1, 256].map(|clients: u16| {
        let mut hall = hall(0);
        let operator = hall.connect(OPERATOR, usize::MAX, b"");
        for number in 0..clients {
            let client = address(number);
            let call = format!(
                "POST /api/add-token?type=rtp-udp&sessionid=s&udp-clients={client} HTTP/1.1\r\nHost: 10.9.0.1\r\n\r\n"
            );
            hall.send(operator, call.as_bytes());
            hall.turn(Duration::ZERO);
        }
        while hall.unread(operator) > 0 {
            hall.turn(Duration::ZERO);
        }
        let mut before = 0;
        for round in 0..11 {
            if round == 1 {
                before = meter::allocated();
            }
            hall.datagram(address(0), &packet(1, round, 100));
            hall.datagram(address(0), &packet(2, round, 100));
            assert_eq!(hall.running, 1);
            let bye = [&[0x81, 203, 0, 1][..], &round.to_be_bytes()].concat();
            hall.datagram(address(0), &bye);
            hall.turn(Duration::from_secs(3));
            assert_eq!(hall.running, 0);
        }
        meter::allocated() - before
    });
    costs.sort();
    let [least, most] = costs;
    assert!(
        most - least < 10 * (1_000 + 256 * 16 + 64 * 40),
        "{costs:?}"
    );
}
