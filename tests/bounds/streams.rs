//! Streams that begin and end, beside viewers of every slowness.

use std::time::Duration;

use super::hall::Hall;
use super::meter;

const HOST: [u8; 4] = [192, 0, 2, 1];
/// What the README states for one stream beside its buffer.
const STREAM_BYTES_MAX: usize = 1 << 20;
const CONNECTION_BYTES_MAX: usize = (16 << 10) + (80 << 10);

/// Streams that are over hold what viewers have not taken. They are streams still.
#[test]
fn streams_that_have_ended_are_bounded_too() {
    let mut hall = Hall::new(&["--streams=4", "--buffer=1M", "--buffers=64M"]);
    let before = meter::held();
    let body = vec![0x55; 1 << 20];
    for _ in 0..40 {
        let head = format!(
            "PUT /stream/one HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let source = hall.connect(HOST, usize::MAX, head.as_bytes());
        hall.turn(Duration::ZERO);
        // It takes its head, and no more.
        hall.connect(HOST, 300, b"GET /stream/one HTTP/1.1\r\nHost: h\r\n\r\n");
        hall.turn(Duration::ZERO);
        hall.send(source, &body);
        for _ in 0..40 {
            hall.turn(Duration::ZERO);
        }
        hall.leave(source);
    }
    let held = meter::take_peak() - before;
    let most = 4 * ((1 << 20) + STREAM_BYTES_MAX) + 80 * CONNECTION_BYTES_MAX;
    assert!(held <= most, "{held} bytes, stated {most}");
    hall.leave_all();
    hall.turn(Duration::ZERO);
}
