//! What clients send ahead, and how long they may keep a place with it.

use std::time::Duration;

use tollgate::stream::Outcome;

use super::{hall::Hall, meter};

const HOST: [u8; 4] = [192, 0, 2, 1];
const CONNECTION_BYTES_MAX: usize = (16 << 10) + (80 << 10);

#[test]
fn a_body_does_not_bring_in_more_requests_than_a_head_may_be_long() {
    let mut hall = Hall::new(&[
        "--streams=8",
        "--buffers=1M",
        "--buffer=1M",
        "--body-rate=0",
    ]);
    let stream = hall.connect(
        HOST,
        usize::MAX,
        b"PUT /stream/live HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nmedia\r\n",
    );
    hall.turn(Duration::ZERO);
    let before = meter::memory_bytes();
    let mut clients = Vec::new();
    for _ in 0..100 {
        let id = hall.connect(
            HOST,
            usize::MAX,
            b"PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n",
        );
        hall.turn(Duration::ZERO);
        let rest = [
            b"mediaGET /stream/live HTTP/1.1\r\nHost: h\r\n\r\n".to_vec(),
            vec![b'x'; 300_000],
        ];
        hall.send(id, &rest.concat());
        for _ in 0..4 {
            hall.turn(Duration::ZERO);
        }
        clients.push(id);
    }
    // An hour passes; they are viewers all the time.
    for _ in 0..360 {
        hall.send(stream, b"5\r\nmedia\r\n");
        hall.turn(Duration::from_secs(10));
    }
    let held = meter::memory_bytes() - before;
    assert!(held <= 100 * CONNECTION_BYTES_MAX, "{held} bytes");
}

#[test]
fn a_head_holds_what_a_head_may() {
    let mut hall = Hall::new(&["--head-bytes=1M", "--connections=60"]);
    let before = meter::memory_bytes();
    let mut ids = Vec::new();
    for _ in 0..50 {
        let start = [
            &b"GET /stream/x HTTP/1.1\r\nHost: h\r\nX: "[..],
            &vec![b'x'; 1_040_000],
        ]
        .concat();
        ids.push(hall.connect(HOST, usize::MAX, &start));
    }
    hall.turn(Duration::ZERO);
    for id in &ids {
        hall.send(*id, b"x");
    }
    hall.turn(Duration::ZERO);
    let held = meter::memory_bytes() - before;
    let stated = 50 * ((1 << 20) + (80 << 10));
    assert!(held <= stated, "{held} bytes");
}

#[test]
fn a_silent_source_is_lost_though_it_reads_slowly() {
    let mut hall = Hall::new(&["--source-idle-time=15", "--viewer-stall-time=30"]);
    let asked = "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n".repeat(20);
    let put = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n";
    let source = hall.connect(HOST, 0, format!("{asked}{put}").as_bytes());
    for _ in 0..40 {
        hall.turn(Duration::ZERO);
    }
    assert_eq!(hall.running, 1);
    let mut seconds = 0;
    while hall.running == 1 && seconds < 20_000 {
        hall.turn(Duration::from_secs(1));
        seconds += 1;
        if seconds % 25 == 0 {
            // It takes a byte.
            let (relay, now) = (&mut hall.relay, hall.now);
            relay.unblocked(source);
            while let Some(id) = relay.next_write() {
                let bytes = relay.output(id, now).bytes().min(1);
                relay.sent(id, bytes, now);
                relay.served(id, Outcome::Blocked, now);
            }
        }
    }
    assert!(seconds <= 60, "{seconds} s");
}
