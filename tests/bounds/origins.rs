//! Origins that lie: heads without end, interim answers without end, bodies of every kind.

use std::time::Duration;

use super::hall::Hall;
use super::meter;

const HOST: [u8; 4] = [192, 0, 2, 1];
const CONNECTION_BYTES_MAX: usize = (16 << 10) + (80 << 10);

/// Whatever an origin says before its stream, it holds what a connection may.
#[test]
fn an_origin_that_never_comes_to_the_point_holds_what_a_connection_may() {
    let answers: [(&str, Vec<u8>); 4] = [
        (
            "interim answers",
            b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n".repeat(20_000),
        ),
        (
            "a head without end",
            [b"HTTP/1.1 200 OK\r\n".to_vec(), b"A: b\r\n".repeat(50_000)].concat(),
        ),
        (
            "a line without end",
            [b"HTTP/1.1 200 ".to_vec(), vec![b'x'; 500_000]].concat(),
        ),
        ("nothing that is a head", vec![0x47; 500_000]),
    ];
    for (what, answer) in answers {
        let mut hall = Hall::new(&["--origin=http://192.0.2.9:80", "--origin-time=5"]);
        let before = meter::memory_bytes();
        for number in 0..20 {
            let get = format!("GET /stream/{number} HTTP/1.1\r\nHost: h\r\n\r\n");
            hall.connect(HOST, usize::MAX, get.as_bytes());
        }
        hall.turn(Duration::ZERO);
        let calls = std::mem::take(&mut hall.calls);
        assert_eq!(calls.len(), 20);
        for (id, _) in &calls {
            hall.send(*id, &answer);
        }
        for _ in 0..60 {
            hall.turn(Duration::from_millis(200));
        }
        let held = meter::take_peak() - before;
        assert!(held <= 40 * CONNECTION_BYTES_MAX, "{what}: {held} bytes");
        hall.leave_all();
        hall.turn(Duration::from_secs(60));
        hall.turn(Duration::from_secs(60));
        let left = meter::memory_bytes() - before;
        assert!(left <= 64 << 10, "{what}: {left} bytes are left");
    }
}
