//! Calls that wait for what never comes: names that do not resolve, changes that are never written.

use std::time::Duration;

use tollgate::gate::Tokens;

use super::hall::Hall;
use super::meter;

const OPERATOR: [u8; 4] = [10, 9, 0, 1];
/// What the README states for a connection: its head, and its answers.
const CONNECTION_BYTES_MAX: usize = (16 << 10) + (80 << 10);

/// Every place is taken by calls with names in them, none of which ever resolves.
#[test]
fn name_look_ups_that_hang_hold_what_their_connections_may() {
    let mut hall = Hall::new(&["--token-server=10.9.0.0/16", "--connections=200"]);
    hall.relay.set_rtp(([10, 9, 0, 1], 5004).into());
    let before = meter::held();
    let names: Vec<String> = (0..200)
        .map(|n| format!("{:x<60}.example:5000", n))
        .collect();
    let call = format!(
        "POST /api/add-token?type=rtp-udp&sessionid=s&udp-clients={} HTTP/1.1\r\nHost: 10.9.0.1\r\n\r\n",
        names.join(",")
    );
    for _ in 0..20 {
        let clients: Vec<_> = (0..200)
            .map(|_| hall.connect(OPERATOR, usize::MAX, call.as_bytes()))
            .collect();
        hall.turn(Duration::ZERO);
        hall.jobs.clear();
        // They say more while they wait; that puts nothing off.
        for _ in 0..8 {
            for id in &clients {
                hall.send(*id, b"x");
            }
            hall.turn(Duration::from_secs(1));
        }
        for id in &clients {
            hall.leave(*id);
        }
    }
    let held = meter::take_peak() - before;
    assert!(held <= 200 * CONNECTION_BYTES_MAX, "{held} bytes");
    hall.turn(Duration::ZERO);
    let left = meter::held() - before;
    // The tables keep their places.
    assert!(left <= 200 << 10, "{left} bytes are left");
}

/// The disk never answers.
#[test]
fn changes_that_are_never_written_hold_what_their_connections_may() {
    let mut hall = Hall::new(&["--token-server=10.9.0.0/16", "--connections=200"]);
    let tokens = Tokens::new(hall.relay.token_limits());
    hall.relay.restore(tokens, hall.now);
    let before = meter::held();
    for round in 0..50 {
        let mut clients = Vec::new();
        for number in 0..200 {
            let name = format!("{round}-{number}-{}", "x".repeat(200));
            let call = format!(
                "POST /api/add-token?type=http&sessionid={name} HTTP/1.1\r\nHost: 10.9.0.1\r\n\r\n"
            );
            clients.push(hall.connect(OPERATOR, usize::MAX, call.as_bytes()));
        }
        hall.turn(Duration::ZERO);
        for id in clients {
            hall.leave(id);
        }
    }
    let held = meter::take_peak() - before;
    assert!(held <= 200 * CONNECTION_BYTES_MAX, "{held} bytes");
}
