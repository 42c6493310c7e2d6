//! Calls that wait for what never comes: names that do not resolve, changes that are never written.

use std::time::Duration;

use tollgate::gate::Tokens;

use super::hall::Hall;
use super::meter;

const OPERATOR: [u8; 4] = [10, 9, 0, 1];
/// What `docs/security.md` states for a connection: its head, and its answers.
const CONNECTION_BYTES_MAX: usize = (16 << 10) + (80 << 10);

/// So many clients, and a token file.
fn hall_with_file(connections: usize) -> Hall {
    let connections = format!("--connections={connections}");
    let mut hall = Hall::new(&["--token-server=10.9.0.0/16", &connections]);
    hall.relay.set_rtp("[::]:5004".parse().unwrap());
    let tokens = Tokens::new(hall.relay.token_limits());
    hall.relay.restore(tokens, hall.now);
    hall
}

/// What fifty connections hold, and what `docs/security.md` states for changes that wait.
fn assert_waiting_is_bounded(before: usize) {
    let held = meter::memory_bytes() - before;
    let stated = (8 << 20) + 50 * (96 << 10);
    assert!(held <= stated, "{held} bytes");
}

/// Every place is taken by calls with names in them, none of which ever resolves.
#[test]
fn name_look_ups_that_hang_hold_what_their_connections_may() {
    let mut hall = Hall::new(&["--token-server=10.9.0.0/16", "--connections=200"]);
    hall.relay.set_rtp(([10, 9, 0, 1], 5004).into());
    let before = meter::memory_bytes();
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
    let left = meter::memory_bytes() - before;
    // The tables keep their places.
    assert!(left <= 200 << 10, "{left} bytes are left");
}

/// The disk never answers.
#[test]
fn changes_that_are_never_written_hold_what_their_connections_may() {
    let mut hall = hall_with_file(200);
    let before = meter::memory_bytes();
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

/// Changes outlive who asked for them; so there are not many.
#[test]
fn changes_that_wait_for_the_disk_are_bounded() {
    let mut hall = hall_with_file(50);
    let before = meter::memory_bytes();
    let clients: Vec<String> = (0..256).map(|n| format!("[2001:db8::{n:x}]:5")).collect();
    let clients = clients.join(",");
    for number in 0..1100 {
        let call = format!(
            "POST /api/add-token?type=rtp-udp&sessionid={number:0256}&udp-clients={clients} HTTP/1.1\r\nHost: 10.9.0.1\r\n\r\n"
        );
        let id = hall.connect(OPERATOR, usize::MAX, call.as_bytes());
        hall.turn(Duration::ZERO);
        assert!(hall.is_connected(id), "{number}");
        hall.leave(id);
    }
    assert_waiting_is_bounded(before);
}

/// With names that have 32 addresses each.
#[test]
fn changes_with_names_that_wait_for_the_disk_are_bounded() {
    let mut hall = hall_with_file(50);
    let before = meter::memory_bytes();
    let clients: Vec<String> = (0..256).map(|n| format!("a{n:x}:5")).collect();
    let clients = clients.join(",");
    for number in 0..300 {
        let call = format!(
            "POST /api/add-token?type=rtp-udp&sessionid={number:0256}&udp-clients={clients} HTTP/1.1\r\nHost: 10.9.0.1\r\n\r\n"
        );
        let id = hall.connect(OPERATOR, usize::MAX, call.as_bytes());
        hall.turn(Duration::ZERO);
        for (job_id, job) in std::mem::take(&mut hall.jobs) {
            match job {
                tollgate::relay::Job::Resolve(names) => {
                    meter::counted(|| drop(names));
                    let (relay, now) = (&mut hall.relay, hall.now);
                    meter::counted(|| {
                        let one = || Ok((0..32u8).map(|n| ([11, 0, 0, n + 1], 5).into()).collect());
                        let results = (0..256).map(|_| one()).collect();
                        relay.job_finished(job_id, tollgate::relay::Done::Resolved(results), now)
                    });
                }
                other => println!(
                    "a write: {}",
                    matches!(other, tollgate::relay::Job::Append(_))
                ),
            }
        }
        hall.turn(Duration::ZERO);
        hall.leave(id);
    }
    assert_waiting_is_bounded(before);
}
