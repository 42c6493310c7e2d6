//! What the core holds is at most the sum that operators are told, and its streams and tokens are
//! counted.

use std::time::Duration;

use super::hall::Hall;
use super::meter;

const HOST: [u8; 4] = [192, 0, 2, 1];
const OPERATOR: [u8; 4] = [10, 9, 0, 1];

/// The allocator's count is at most the sum, and the count of streams and tokens is a part of it.
/// Tables may be counted as twice as large as they are.
#[track_caller]
pub fn assert_bounded(hall: &Hall, before: usize, what: &str) {
    let held = meter::memory_bytes() - before;
    assert!(held <= hall.memory_bytes_max, "{what}: {held}");
    let rows = hall.relay.memory_bytes();
    assert!(rows[1].1 <= hall.tokens_bytes_max, "{what}: {rows:?}");
    let counted: usize = rows.iter().map(|(_, bytes)| bytes).sum();
    assert!(
        counted <= 2 * held + (64 << 10),
        "{what}: {held} of {counted}: {rows:?}"
    );
}

#[test]
fn everything_that_is_held_is_bounded() {
    let before = meter::memory_bytes();
    let mut hall = Hall::new(&[
        "--token-server=10.9.0.0/16",
        "--hold=60",
        "--wait=60",
        "--buffer=256K",
    ]);
    hall.relay.set_rtp(([10, 9, 0, 1], 5004).into());
    assert_bounded(&hall, before, "nobody");
    let operator = hall.connect(OPERATOR, usize::MAX, b"");
    for number in 0..2_000 {
        let call = format!(
            "POST /api/add-token?type=http,rtp-udp&sessionid=session-{number}&udp-clients=10.1.0.1:{},10.1.0.2:9000 HTTP/1.1\r\nHost: 10.9.0.1\r\n\r\n",
            1_000 + number
        );
        hall.send(operator, call.as_bytes());
        hall.turn(Duration::ZERO);
    }
    while hall.unread(operator) > 0 {
        hall.turn(Duration::ZERO);
    }
    assert_bounded(&hall, before, "tokens");
    let head = "X-Filler: ".to_owned() + &"x".repeat(9_000);
    for _ in 0..50 {
        let request = format!("GET /stream/session-1 HTTP/1.1\r\nHost: h\r\n{head}");
        hall.connect(HOST, usize::MAX, request.as_bytes());
        hall.connect(
            HOST,
            0,
            b"GET /nowhere HTTP/1.1\r\nHost: h\r\n\r\n"
                .repeat(90)
                .as_slice(),
        );
        hall.connect(
            HOST,
            usize::MAX,
            b"GET /stream/session-9 HTTP/1.1\r\nHost: h\r\n\r\n",
        );
    }
    hall.turns(20, Duration::from_millis(1));
    assert_bounded(&hall, before, "clients");
    let media = include_bytes!("../media/h264.ts");
    let mut sources = Vec::new();
    for number in 0..20 {
        let put = format!(
            "PUT /stream/session-{number} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        sources.push(hall.connect(HOST, usize::MAX, put.as_bytes()));
        for takes in [0, 500, usize::MAX] {
            let get = format!("GET /stream/session-{number} HTTP/1.1\r\nHost: h\r\n\r\n");
            hall.connect(HOST, takes, get.as_bytes());
        }
    }
    for _ in 0..10 {
        for source in &sources {
            let chunk = [format!("{:x}\r\n", media.len()).as_bytes(), media, b"\r\n"].concat();
            hall.send(*source, &chunk);
        }
        hall.turns(5, Duration::from_millis(5));
    }
    assert_bounded(&hall, before, "streams");
    for source in sources {
        hall.leave(source);
    }
    hall.turns(5, Duration::from_millis(5));
    assert_bounded(&hall, before, "held streams");
    hall.leave_all();
    hall.turns(5, Duration::from_millis(5));
    assert_bounded(&hall, before, "tokens again");
}
