//! Streams that begin and end, beside viewers of every slowness.

use std::time::Duration;

use super::hall::Hall;
use super::meter;

const HOST: [u8; 4] = [192, 0, 2, 1];
/// What `docs/security.md` states for one stream beside its buffer.
const STREAM_BYTES_MAX: usize = 1 << 20;
const CONNECTION_BYTES_MAX: usize = (16 << 10) + (80 << 10);

/// Streams that are over hold what viewers have not taken. They are streams still.
#[test]
fn streams_that_have_ended_are_bounded_too() {
    let mut hall = Hall::new(&["--streams=4", "--buffer=1M", "--buffers=64M"]);
    let before = meter::memory_bytes();
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

/// The sum for operators has a term for the reader that finds tracks.
#[test]
#[cfg(feature = "remux")]
fn a_search_for_tracks_is_bounded() {
    let mut hall = Hall::new(&["--buffer=4M"]);
    let head = b"PUT /stream/one HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999\r\n\r\n";
    let source = hall.connect(HOST, usize::MAX, head);
    let tag = |body: &[u8]| {
        let length = (body.len() as u32).to_be_bytes();
        let whole = (body.len() as u32 + 11).to_be_bytes();
        [&[9][..], &length[1..], &[0; 7], body, &whole].concat()
    };
    let picture = [&b"\x17\x01\0\0\0\0\x06\xdd\xd0\x65"[..], &vec![7; 449_999]].concat();
    let setup = b"\x17\0\0\0\0\x01\x42\0\x1e\xff\xe1\0\x04\x67\x42\0\x1e\x01\0\x02\x68\xce";
    let header = b"FLV\x01\x01\0\0\0\x09\0\0\0\0";
    let media = [&header[..], &tag(setup), &tag(&picture)].concat();
    hall.send(source, &media);
    hall.turns(40, Duration::from_millis(1));
    let before = meter::memory_bytes();
    meter::take_peak();
    let call = b"GET /api/list-streams HTTP/1.1\r\nHost: localhost\r\n\r\n";
    hall.connect([127, 0, 0, 1], usize::MAX, call);
    hall.turns(2, Duration::ZERO);
    let more = meter::take_peak() - before;
    let connection = CONNECTION_BYTES_MAX;
    assert!(more > 400_000, "the picture is read: {more}");
    assert!(
        more <= tollgate::remux::TRACKS_BYTES_MAX + connection,
        "{more}"
    );
    hall.leave_all();
    hall.turn(Duration::ZERO);
}

/// The sum for operators has a term for what `list-streams?history=1` shows. After an hour it does
/// not grow.
#[test]
fn an_hour_of_history_is_bounded() {
    const STREAMS: usize = 20;
    let mut hall = Hall::new(&["--body-rate=0"]);
    let put = |number| {
        format!("PUT /stream/{number} HTTP/1.1\r\nHost: h\r\nContent-Length: 99999\r\n\r\n")
    };
    let publish = |number| hall.connect(HOST, usize::MAX, put(number).as_bytes());
    let sources: Vec<_> = (0..STREAMS).map(publish).collect();
    let mut run = |samples: usize| {
        for _ in 0..samples {
            for source in &sources {
                hall.send(*source, b"x");
            }
            hall.turn(Duration::from_secs(10));
        }
        meter::memory_bytes()
    };
    let before = run(2);
    let hour = run(400);
    let each = (hour - before) / STREAMS;
    assert!((360 * 12..=12 << 10).contains(&each), "{each}");
    assert!(run(400) <= hour);
    hall.leave_all();
    hall.turn(Duration::ZERO);
}

/// What a call does to a session does not grow with its streams that drain: they have nothing for
/// UDP clients.
#[test]
fn streams_that_drain_make_a_change_of_their_session_no_dearer() {
    let mut hall = Hall::new(&["--token-server=10.9.0.0/16"]);
    hall.relay.set_rtp(([10, 9, 0, 1], 5004).into());
    let operator = hall.connect([10, 9, 0, 1], usize::MAX, b"");
    let add = |hall: &mut Hall, first: usize| {
        let clients = (first..first + 50).map(|number| format!("10.1.0.1:{number}"));
        let clients = clients.collect::<Vec<_>>().join(",");
        let call = format!(
            "POST /api/add-token?type=http,rtp-udp&sessionid=s&udp-clients={clients} HTTP/1.1\r\nHost: 10.9.0.1\r\n\r\n"
        );
        let before = meter::allocated();
        hall.send(operator, call.as_bytes());
        hall.turn(Duration::ZERO);
        meter::allocated() - before
    };
    let put = |hall: &mut Hall| {
        let head = b"PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n";
        let source = hall.connect(HOST, usize::MAX, head);
        hall.turn(Duration::ZERO);
        hall.connect(HOST, 0, b"GET /stream/s HTTP/1.1\r\nHost: h\r\n\r\n");
        hall.turn(Duration::ZERO);
        hall.send(source, b"xyz");
        hall.turns(2, Duration::ZERO);
        hall.leave(source);
    };
    add(&mut hall, 1_000);
    let before = add(&mut hall, 1_050);
    for _ in 0..15 {
        put(&mut hall);
    }
    let after = add(&mut hall, 1_100);
    // More clients are a longer list.
    assert!(after < 2 * before, "{before}, {after}");
    hall.leave_all();
    hall.turn(Duration::ZERO);
}

/// A listener that gets titles takes at most 8 bytes more than one that does not: its place between
/// two titles.
#[test]
fn a_listener_with_titles_takes_at_most_8_bytes_more() {
    const LISTENERS: usize = 500;
    let media = include_bytes!("../media/sound.mp3").repeat(4);
    let held = [0, 1].map(|asks| {
        let mut hall = Hall::new(&["--icecast", "--connections=2000"]);
        let head = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Type: audio/mpeg\r\nContent-Length: 9999999\r\n\r\n";
        let source = hall.connect([192, 0, 2, 1], usize::MAX, head.as_bytes());
        hall.send(source, &media);
        hall.turns(4, Duration::from_secs(1));
        let before = meter::memory_bytes();
        let listen =
            format!("GET /stream/s HTTP/1.1\r\nHost: h\r\nIcy-MetaData: {asks}\r\n\r\n");
        for number in 0..LISTENERS {
            let host = [10, 1, 0, number as u8];
            hall.connect(host, 50_000, listen.as_bytes());
        }
        let title = "GET /admin/metadata?mode=updinfo&mount=/s&song=One HTTP/1.1\r\nHost: h\r\nAuthorization: Basic czpz\r\nConnection: close\r\n\r\n";
        let station = hall.connect([192, 0, 2, 1], usize::MAX, title.as_bytes());
        hall.turns(4, Duration::from_secs(1));
        hall.send(source, &media);
        hall.turns(8, Duration::from_secs(1));
        assert!(!hall.is_connected(station), "the title is set");
        meter::memory_bytes() - before
    });
    let [without, with] = held;
    assert!(
        with <= without + 8 * LISTENERS,
        "{with} bytes with titles, {without} without"
    );
}
