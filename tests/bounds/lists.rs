//! Lists of the whole, whose peers tell much, and whose callers read as slowly as they like.

use std::time::Duration;

use super::hall::Hall;
use super::meter;

const OPERATOR: [u8; 4] = [10, 9, 0, 1];
const CALL: &[u8] = b"GET /api/list-tokens HTTP/1.1\r\nHost: 10.9.0.1\r\n\r\n";
/// What `docs/security.md` states for a connection: its head, and its answers.
const CONNECTION_BYTES_MAX: usize = (16 << 10) + (80 << 10);
/// And of them at a time for each peer.
const LISTS_MAX: usize = 8;

fn hall() -> Hall {
    let subnet = "--token-server=10.9.0.0/16";
    Hall::new(&[subnet, "--peer=http://10.8.0.1:80", "--connections=40"])
}

/// Returns a peer's answer with `count` rows.
fn answer(rows: usize) -> Vec<u8> {
    let row = format!("{{\"x\":\"{}\"}}", "y".repeat(1000));
    let list = format!("[{}]", vec![row; rows].join(","));
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", list.len());
    (head + &list).into_bytes()
}

/// Sends this whole answer to each connection to a peer.
fn tell(hall: &mut Hall, answer: &[u8]) {
    for (peer, _) in std::mem::take(&mut hall.calls) {
        hall.send(peer, answer);
        while hall.unread(peer) > 0 {
            hall.turn(Duration::ZERO);
        }
    }
}

/// Complete lists count until they are read.
#[test]
fn lists_of_the_whole_that_nobody_reads_are_bounded() {
    let mut hall = hall();
    let before = meter::memory_bytes();
    let answer = answer(1000);
    let mut callers = Vec::new();
    for _ in 0..30 {
        callers.push(hall.connect(OPERATOR, 1, CALL));
        hall.turn(Duration::ZERO);
        tell(&mut hall, &answer);
        hall.turns(10, Duration::ZERO);
    }
    let held = meter::take_peak() - before;
    let stated = callers.len() * CONNECTION_BYTES_MAX + LISTS_MAX * answer.len();
    assert!(held <= stated, "{held} of {stated} bytes");
    for id in callers {
        hall.leave(id);
    }
    hall.turn(Duration::ZERO);
    let left = meter::memory_bytes() - before;
    assert!(left <= 64 << 10, "{left} bytes are left");
}

/// What is written is not held any longer, and makes room for others.
#[test]
fn a_list_of_the_whole_is_freed_as_it_is_read() {
    let mut hall = hall();
    let before = meter::memory_bytes();
    let answer = answer(2000);
    let caller = hall.connect(OPERATOR, 32 << 10, CALL);
    hall.turn(Duration::ZERO);
    tell(&mut hall, &answer);
    let mut held = meter::memory_bytes() - before;
    assert!(held >= answer.len() * 9 / 10, "{held} bytes");
    let mut turns = 0;
    while held > 256 << 10 {
        hall.turns(8, Duration::ZERO);
        let now = meter::memory_bytes() - before;
        assert!(now < held, "{now} bytes after {held}");
        held = now;
        turns += 8;
    }
    assert!(turns >= 40, "{turns}");
    hall.turns(100, Duration::ZERO);
    assert!(hall.is_connected(caller));
    for _ in 0..2 * LISTS_MAX {
        hall.send(caller, CALL);
        hall.turn(Duration::ZERO);
        assert_eq!(hall.calls.len(), 1, "there is room");
        tell(&mut hall, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]");
        hall.turns(2, Duration::ZERO);
    }
}

/// A list is checked while it arrives: a fault shows at once.
#[test]
fn a_peers_list_is_looked_at_as_it_comes() {
    for (begins, is_list) in [("[{}", true), ("[{},1", false), ("{", false)] {
        let mut hall = hall();
        hall.connect(OPERATOR, usize::MAX, CALL);
        hall.turn(Duration::ZERO);
        let (peer, _) = hall.calls[0];
        let told = format!("HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n{begins}");
        hall.send(peer, told.as_bytes());
        hall.turn(Duration::ZERO);
        assert_eq!(hall.is_connected(peer), is_list, "{begins}");
    }
}
