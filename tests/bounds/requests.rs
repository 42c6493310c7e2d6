//! Requests of every kind, from clients who read as slowly as they like.

use std::time::Duration;

use super::hall::Hall;
use super::meter;

/// What `docs/security.md` states for a connection: its head, and its answers.
const CONNECTION_BYTES_MAX: usize = (16 << 10) + (80 << 10);
/// Bytes that a refused request may allocate, besides two copies of it. A page of words is the
/// largest answer.
const REFUSAL_ALLOCATED_MAX: u64 = 8 << 10;

const GATED: &[&str] = &["--token-server=10.9.0.0/16"];
const STRANGER: [u8; 4] = [192, 0, 2, 1];

/// Requests that are refused, or answered shortly, each in a way of its own.
fn requests() -> Vec<String> {
    let line = |line: &str| format!("{line} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    vec![
        line("GET /"),
        line("GET /nowhere"),
        line("GET /stream/none"),
        line("HEAD /stream/none"),
        line("GET /stream?sessionid=none"),
        line("GET /stream"),
        line("GET /watch/none"),
        line("GET /watch?sessionid=none"),
        line("DELETE /stream/none"),
        line("OPTIONS *"),
        line("GET /healthz"),
        line("GET /metrics"),
        line("GET /api/openapi.json"),
        line("GET /api/list-tokens"),
        line("POST /api/add-token?type=http&sessionid=x"),
        line("DELETE /revoke-token?sessionid=x"),
        line(&format!("GET /{}", "a/".repeat(2_000))),
        line(&format!("GET /stream?sessionid={}", "%41".repeat(250))),
        line(&format!("GET /api/list-streams?{}", "a=b&".repeat(900))),
        format!(
            "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n{}\r\n",
            "Via: 1.1 x\r\nX-Forwarded-For: 1.2.3.4\r\n".repeat(30)
        ),
        format!(
            "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: {0}\r\nReferer: {0}\r\nOrigin: {0}\r\n\r\n",
            "x".repeat(3_000)
        ),
    ]
}

/// A client that keeps sending requests and reads the answers slowly makes nothing grow.
#[test]
fn answers_that_are_read_slowly_are_not_kept_when_they_are_sent() {
    for takes in [1, 100, 1_460, 5_000, 60_000] {
        let mut hall = Hall::new(GATED);
        let before = hall.memory_bytes();
        let request = b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n";
        let clients: Vec<_> = (0..10)
            .map(|_| hall.connect(STRANGER, takes, b""))
            .collect();
        for _ in 0..300 {
            for id in &clients {
                if hall.unread(*id) < 64 << 10 {
                    hall.send(*id, &request.repeat(500));
                }
            }
            hall.turn(Duration::from_millis(1));
        }
        let held = meter::take_peak() - before;
        assert!(
            held <= clients.len() * CONNECTION_BYTES_MAX,
            "{takes} bytes a turn: {held} bytes for {} clients",
            clients.len()
        );
        hall.leave_all();
        hall.turn(Duration::ZERO);
    }
}

/// The cost of a request is bounded for every client.
#[test]
fn a_request_that_is_refused_allocates_little() {
    for request in requests() {
        let mut hall = Hall::new(GATED);
        let client = hall.connect(STRANGER, usize::MAX, b"");
        hall.turn(Duration::ZERO);
        let before = meter::allocated();
        const COUNT: u64 = 100;
        for _ in 0..COUNT {
            hall.send(client, request.as_bytes());
            hall.turn(Duration::ZERO);
        }
        assert!(hall.is_connected(client), "{request}");
        let each = (meter::allocated() - before) / COUNT;
        let of_head = request.len() as u64;
        assert!(
            each <= REFUSAL_ALLOCATED_MAX + 2 * of_head,
            "{each} bytes: {request}"
        );
    }
}

/// A page is what it always is, but for two numbers: it is put into the answer, once, and not made
/// anew.
#[test]
fn a_page_is_copied_once() {
    let mut hall = Hall::new(&[]);
    let client = hall.connect(STRANGER, usize::MAX, b"");
    hall.turn(Duration::ZERO);
    // Files that the pages share are beside the folders.
    for (path, folder, shared) in [
        ("/", "operator", &["common.css", "common.js"][..]),
        (
            "/watch/x",
            "watch",
            &["common.css", "common.js", "player.js"],
        ),
    ] {
        let pages = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/relay/page");
        let files = std::fs::read_dir(pages.join(folder)).expect("the page's files");
        let files = files.map(|file| file.expect("a file").path());
        let page = files
            .chain(shared.iter().map(|file| pages.join(file)))
            .map(|file| file.metadata().expect("a file").len())
            .sum::<u64>();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        for _ in 0..10 {
            let before = meter::allocated();
            hall.send(client, request.as_bytes());
            hall.turn(Duration::ZERO);
            let allocated = meter::allocated() - before;
            assert!(allocated >= page, "{allocated}: it is answered");
            assert!(allocated <= page + (8 << 10), "{allocated} of {page}");
        }
    }
}

/// A viewer that reads nothing is disconnected, even if it keeps sending.
#[test]
fn chatter_does_not_keep_a_stalled_viewer() {
    let mut hall = Hall::new(&["--viewer-stall-time=30", "--source-idle-time=3600"]);
    let head = "PUT /stream/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    let source = hall.connect(STRANGER, usize::MAX, head.as_bytes());
    hall.turn(Duration::ZERO);
    let viewer = hall.connect(STRANGER, 0, b"GET /stream/x HTTP/1.1\r\nHost: h\r\n\r\n");
    // It has asked for much, takes nothing of the first answer, and goes on asking.
    let asking = hall.connect(STRANGER, 0, b"GET /nowhere HTTP/1.1\r\nHost: h\r\n\r\n");
    hall.send(source, b"5\r\nmedia\r\n");
    for second in 0..31 {
        assert!(hall.is_connected(viewer), "cut after {second} s");
        assert!(hall.is_connected(asking), "cut after {second} s");
        hall.send(viewer, b"x");
        hall.send(asking, b"GET /nowhere HTTP/1.1\r\nHost: h\r\n\r\n");
        hall.turn(Duration::from_secs(1));
    }
    hall.turn(Duration::ZERO);
    assert!(!hall.is_connected(viewer));
    assert!(!hall.is_connected(asking));
    assert!(hall.is_connected(source));
}
