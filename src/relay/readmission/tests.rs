use std::time::Duration;

use std::net::SocketAddr;

use crate::relay::ConnectionId;
use crate::relay::UdpPort;
use crate::relay::stage::Stage;

const API: &str = "--token-server=10.0.0.0/24";
const PUT: &str = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc";
const OF_PAGE: &str = "POST /stream/s HTTP/1.1\r\nHost: h\r\nOrigin: http://a.example\r\nContent-Length: 9\r\n\r\nabc";
const ICECAST: &str = "SOURCE /m HTTP/1.0\r\nAuthorization: Basic c291cmNlOnM=\r\n\r\nabc";
const PUT_WITH_BASIC: &str = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nAuthorization: Basic c291cmNlOnM=\r\nContent-Length: 9\r\n\r\nabc";
const EVENTS: &str = "GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
const EVENTS_BY_NAME: &str = "GET /api/events HTTP/1.1\r\nHost: relay.example\r\n\r\n";
const HALF_A_CALL: &str =
    "GET /api/list-tokens HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab";
const HALF_A_CALL_OF_HEALTH: &str =
    "GET /healthz HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab";
const LOOKED_UP: &str = "POST /api/add-token?type=rtp-udp&sessionid=u&udp-clients=a.example:5004 \
                         HTTP/1.1\r\nHost: localhost\r\n\r\n";
const WAITS: &str = "GET /stream/s HTTP/1.1\r\nHost: h\r\n\r\n";
const WAITS_FOR_TS: &str = "GET /stream/s/live.ts HTTP/1.1\r\nHost: h\r\n\r\n";
const WAITS_FOR_HLS: &str = "GET /stream/s/index.m3u8 HTTP/1.1\r\nHost: h\r\n\r\n";
const INTRODUCED: &str = "PROXY TCP4 192.0.2.7 10.0.0.1 1 80\r\n";
const FORWARDED: &str = "GET /stream/s HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n";
const BY_TWO: &str =
    "GET /stream/s HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.7, 10.6.0.1\r\n\r\n";
const BY_BOTH: &str = "PROXY TCP4 10.6.0.1 10.0.0.1 1 80\r\n\
                       GET /stream/s HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n";

const WAIT: &str = "--wait=60";
const HEADER: &str = "--proxy-protocol=10.5.0.1";
const FIELD: &str = "--forwarded-from=10.5.0.1";
const OTHER_FIELD: &str = "--forwarded-from=10.6.0.1";

/// A client that sends this from there, under these options; and the options of successors, with
/// whether the client stays.
type Case = (
    &'static [&'static str],
    [u8; 4],
    &'static str,
    &'static [(&'static [&'static str], bool)],
);

const HOST: [u8; 4] = [10, 0, 0, 1];
const PROXY: [u8; 4] = [10, 5, 0, 1];

/// Each option that restricts clients, narrowed and as it was.
const CASES: &[Case] = &[
    (
        &["--publish-from=10.0.0.0/8"],
        HOST,
        PUT,
        &[
            (&["--publish-from=192.0.2.0/24"], false),
            (&["--publish-from=10.0.0.0/24"], true),
            (&[], true),
        ],
    ),
    (
        &["--cors=http://a.example"],
        HOST,
        OF_PAGE,
        &[
            (&["--cors=http://b.example"], false),
            (&[], false),
            (
                &["--cors=http://b.example", "--cors=http://a.example"],
                true,
            ),
        ],
    ),
    (&["--cors=http://a.example"], HOST, PUT, &[(&[], true)]),
    (
        &["--icecast"],
        HOST,
        ICECAST,
        &[(&[], false), (&["--icecast"], true)],
    ),
    (&[], HOST, PUT_WITH_BASIC, &[(&[], true)]),
    (
        &[API],
        HOST,
        EVENTS,
        &[
            (&["--token-server=10.9.0.0/24"], false),
            (&["--token-server=10.0.0.0/8"], true),
        ],
    ),
    (
        &[API, "--hostname=relay.example"],
        HOST,
        EVENTS_BY_NAME,
        &[(&[API], false), (&[API, "--hostname=relay.example"], true)],
    ),
    (
        &[API],
        HOST,
        HALF_A_CALL,
        &[(&["--token-server=10.9.0.0/24"], false), (&[API], true)],
    ),
    (
        &[API],
        HOST,
        HALF_A_CALL_OF_HEALTH,
        &[(&["--token-server=10.9.0.0/24"], true)],
    ),
    (
        &[API],
        HOST,
        LOOKED_UP,
        &[(&["--token-server=10.9.0.0/24"], false), (&[API], true)],
    ),
    (
        &[HEADER],
        PROXY,
        INTRODUCED,
        &[
            (&[], false),
            (&[FIELD], false),
            (&["--proxy-protocol=10.5.0.0/24"], true),
            (&[HEADER, "--forwarded-from=192.0.2.7"], false),
        ],
    ),
    // It has said nothing yet, and so it says whose it is.
    (&[HEADER], PROXY, "", &[(&[], false), (&[HEADER], true)]),
    (
        &[FIELD, WAIT],
        PROXY,
        FORWARDED,
        &[
            (&[WAIT], false),
            (&[HEADER, WAIT], false),
            (&[FIELD, WAIT], true),
            (&[FIELD, WAIT, "--proxy-protocol=192.0.2.0/24"], false),
        ],
    ),
    (
        &[FIELD, OTHER_FIELD, WAIT],
        PROXY,
        BY_TWO,
        &[(&[FIELD, WAIT], false), (&[OTHER_FIELD, FIELD, WAIT], true)],
    ),
    (
        &[HEADER, OTHER_FIELD, WAIT],
        PROXY,
        BY_BOTH,
        &[
            (&[HEADER, WAIT], false),
            (&[OTHER_FIELD, WAIT], false),
            (&[HEADER, OTHER_FIELD, WAIT], true),
        ],
    ),
    (
        &[WAIT],
        HOST,
        WAITS,
        &[
            (&[WAIT, "--proxy-protocol=10.0.0.0/24"], false),
            (&[WAIT, "--forwarded-from=10.0.0.0/24"], false),
            (
                &[
                    WAIT,
                    FIELD,
                    "--connections-per-host=1",
                    "--remux=off",
                    "--hls=off",
                ],
                true,
            ),
        ],
    ),
    (
        &[WAIT],
        HOST,
        WAITS_FOR_TS,
        &[
            (&[WAIT, "--remux=off"], false),
            (&[WAIT, "--hls=off"], true),
        ],
    ),
    (
        &[WAIT],
        HOST,
        WAITS_FOR_HLS,
        &[
            (&[WAIT, "--hls=off"], false),
            (&[WAIT, "--remux=off"], true),
        ],
    ),
];

fn come(stage: &mut Stage, from: [u8; 4], sent: &str) -> ConnectionId {
    let peer = SocketAddr::from((from, 4711));
    let id = stage.relay.accepted(peer, stage.now).expect("room");
    stage.send(id, sent);
    (0..8).for_each(|_| stage.settle());
    id
}

/// Whether it is there, and has not been refused.
fn stays(stage: &Stage, id: ConnectionId) -> bool {
    stage.relay.clients.has(id) && !stage.text(id).contains("HTTP/1.1 403")
}

fn with_rtp(options: &[&str]) -> Stage {
    let mut stage = Stage::new(options);
    stage
        .relay
        .set_rtp("10.9.0.1:5004".parse().expect("an address"));
    stage
}

#[test]
fn who_would_not_be_admitted_by_the_new_options_is_ended() {
    for (before, from, sent, after) in CASES {
        for (options, is_kept) in *after {
            let mut stage = with_rtp(before);
            let id = come(&mut stage, *from, sent);
            assert!(stays(&stage, id), "{before:?}: {}", stage.text(id));
            stage.change_hands(before);
            assert!(stays(&stage, id), "{before:?} as before: {sent}");
            stage.change_hands(options);
            assert_eq!(
                stays(&stage, id),
                *is_kept,
                "{before:?}, then {options:?}: {sent}"
            );
        }
    }
}

/// Why, too; and nobody else is asked twice.
#[test]
fn the_log_says_who_is_ended_and_why() {
    let mut stage = Stage::new(&[API]);
    let reader = come(&mut stage, HOST, EVENTS);
    let idle = come(&mut stage, HOST, "");
    let taken = stage
        .hand_over()
        .taken_over(&["--token-server=10.9.0.0/24"]);
    stage.relay = taken.expect("it fits");
    let actions: Vec<_> = std::iter::from_fn(|| stage.relay.next_action()).collect();
    let told: Vec<_> = actions.iter().map(|action| format!("{action:?}")).collect();
    let lines: Vec<_> = told
        .iter()
        .filter(|line| line.contains("not-readmitted"))
        .collect();
    assert_eq!(lines.len(), 1, "{told:?}");
    assert!(lines[0].contains("peer=10.0.0.1") && lines[0].contains("may call the API"));
    assert!(!stage.relay.clients.has(reader) && stage.relay.clients.has(idle));
}

/// A viewer gets no more of what its origin alone let it see.
#[test]
fn whom_the_origin_let_in_watches_as_long_as_the_origin_is_asked() {
    let origin = "--origin=http://10.1.0.1:8000";
    let other = "--origin=http://10.1.0.2:8000";
    let asked = [API, origin, "--origin-tokens"];
    for (after, is_kept) in [
        (&asked[..], true),
        (&[API, origin], false),
        (&[API, other, origin, "--origin-tokens"], false),
        (&[API, other, "--origin-tokens"], false),
        (&[API], false),
    ] {
        let mut stage = Stage::new(&asked);
        let viewer = stage.viewer("f");
        let source = stage.answer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nmed");
        stage.assert_status(viewer, 200);
        stage.change_hands(&asked);
        assert!(stays(&stage, viewer) && stays(&stage, source));
        stage.change_hands(after);
        assert_eq!(stays(&stage, viewer), is_kept, "{after:?}");
        if is_kept {
            stage.send(source, "ia end");
            assert_eq!(stage.content(viewer), ("media end".to_owned(), true));
        }
    }
}

#[test]
fn a_viewer_stays_when_its_token_has_expired_and_the_origin_is_no_longer_asked() {
    let origin = "--origin=http://10.1.0.1:8000";
    let mut stage = Stage::new(&[API, origin, "--origin-tokens"]);
    let call = "POST /api/add-token?type=http&sessionid=s&expires=5";
    let id = stage.client(&format!("{call} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    stage.assert_status(id, 201);
    stage.client("PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nmed");
    let viewer = stage.viewer("s");
    stage.assert_status(viewer, 200);
    stage.wait(Duration::from_secs(7));
    let late = stage.viewer("s");
    stage.assert_status(late, 403);
    stage.change_hands(&[API, origin]);
    assert!(stays(&stage, viewer));
}

/// A call that asks an origin is given up with that origin, and its viewer waits for the others.
#[test]
fn an_origin_that_is_named_no_more_is_asked_no_more() {
    let mut stage = Stage::new(&[
        "--origin=http://10.1.0.1:8000",
        "--origin=http://10.1.0.2:8000",
    ]);
    stage.viewer("f");
    stage.answer("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    let (asked, _, _) = stage.call();
    stage.change_hands(&["--origin=http://10.1.0.1:8000"]);
    assert!(!stage.relay.clients.has(asked));
}

/// Where datagrams go to, and where they come from.
#[test]
fn udp_clients_outside_the_new_subnets_get_and_send_nothing() {
    let add = "POST /api/add-token?type=http,rtp-udp&sessionid=s&udp-clients=10.7.0.1:9,10.8.0.1:9 \
               HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let clients = |stage: &mut Stage| {
        let mut to: Vec<String> = Vec::new();
        while let Some(datagrams) = stage.relay.next_datagrams(stage.now, &[]) {
            to.extend(datagrams.to.iter().map(ToString::to_string));
        }
        to.sort();
        to.dedup();
        to
    };
    let rtp = |number: u16| {
        let [high, low] = number.to_be_bytes();
        let mut packet = vec![0x80, 33, high, low, 0, 0, 0, 0, 1, 2, 3, 4];
        packet.extend([[0x47, 1, 0, 0x10].as_slice(), &[0xff; 184]].concat());
        packet
    };
    for (option, is_there) in [
        ("--rtp-to=10.0.0.0/8", true),
        ("--rtp-to=10.8.0.0/16", false),
        ("--publish-from=10.8.0.0/16", false),
    ] {
        let mut stage = with_rtp(&[API]);
        let call = stage.client(add);
        stage.assert_status(call, 201);
        let from: SocketAddr = "10.7.0.1:9".parse().expect("an address");
        for number in 1..4 {
            stage
                .relay
                .datagram(from, UdpPort::Rtp, &rtp(number), stage.now);
        }
        stage.settle();
        assert_eq!(stage.relay.streams.running(), 1);
        stage.change_hands(&[API, option]);
        stage
            .relay
            .set_rtp("10.9.0.1:5004".parse().expect("an address"));
        assert_eq!(
            stage.relay.streams.running(),
            usize::from(is_there),
            "{option}"
        );
        let source = stage.client(&PUT.replace("Content-Length: 9", "Content-Length: 9999"));
        if !is_there && !option.starts_with("--publish-from") {
            let packet = [[0x47, 1, 0, 0x10].as_slice(), &[0xff; 184]].concat();
            stage.send(source, &packet.repeat(21));
            assert_eq!(clients(&mut stage), ["10.8.0.1:9"]);
        }
    }
}

/// Its UDP clients can get nothing any more. So nothing waits for them, and a call cannot reach them.
#[test]
fn a_stream_goes_on_when_its_udp_clients_are_not_served_any_more() {
    let add = "POST /api/add-token?type=http,rtp-udp&sessionid=s&udp-clients=10.7.0.1:9 \
               HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let ts = include_bytes!("../../../tests/media/h264.ts");
    let flv = include_bytes!("../../../tests/media/h264.flv");
    for (media, options, has_rtp, is_served) in [
        (&ts[..], &[API, "--buffer=1M"][..], true, true),
        (ts, &[API, "--buffer=1M"], false, false),
        (flv, &[API, "--buffer=1M"], true, true),
        (flv, &[API, "--buffer=1M"], false, false),
        (flv, &[API, "--buffer=1M", "--remux=off"], true, false),
        (flv, &[API, "--buffer=1M", "--remux=off"], false, false),
    ] {
        let case = format!("{} bytes, {options:?}, RTP {has_rtp}", media.len());
        let mut stage = with_rtp(&[API, "--buffer=1M"]);
        // Sends media, and counts the datagrams of the following seconds.
        let datagrams = |stage: &mut Stage, source, media: &[u8]| {
            let pieces = media.chunks(media.len().div_ceil(8).max(1));
            let each = pieces.map(|piece| {
                stage.send_media(source, piece);
                stage.wait_seconds(1);
                let next = |stage: &mut Stage| stage.relay.next_datagrams(stage.now, &[]).is_some();
                (0..10_000).take_while(|_| next(stage)).count()
            });
            each.sum::<usize>()
        };
        let call = stage.client(add);
        stage.assert_status(call, 201);
        let source = stage.client(&PUT.replace(
            "Content-Length: 9\r\n\r\nabc",
            "Content-Length: 99999999\r\n\r\n",
        ));
        let (front, rest) = media.split_at(media.len() / 2);
        assert!(datagrams(&mut stage, source, front) > 0, "{case}");
        stage.change_hands(options);
        match has_rtp {
            true => stage
                .relay
                .set_rtp("10.9.0.1:5004".parse().expect("an address")),
            false => stage.relay.remove_udp_clients(),
        }
        stage.settle();
        let sent = datagrams(&mut stage, source, rest);
        assert_eq!(sent > 0, is_served, "{case}");
        stage.client("DELETE /api/revoke-token?sessionid=s HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(datagrams(&mut stage, source, &[0; 3 << 19]), 0, "{case}");
        assert!(stage.relay.bytes_wanted(source) > 0, "{case}");
    }
}

/// Remuxing is off in one process, and on again in the next: the UDP clients get media again, though
/// somebody had asked for a playlist a moment before.
#[test]
fn remuxing_that_was_off_for_one_process_begins_again() {
    let flv = include_bytes!("../../../tests/media/h264.flv");
    let options = [API, "--buffer=1M", "--hls=on"];
    let mut stage = with_rtp(&options);
    let add = "POST /api/add-token?type=http,rtp-udp&sessionid=s&udp-clients=10.7.0.1:9 \
               HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let call = stage.client(add);
    stage.assert_status(call, 201);
    let source = stage.client(&PUT.replace(
        "Content-Length: 9\r\n\r\nabc",
        "Content-Length: 99999999\r\n\r\n",
    ));
    let (front, rest) = flv.split_at(flv.len() / 2);
    stage.send_media(source, front);
    stage.client("GET /stream/s/index.m3u8 HTTP/1.1\r\nHost: h\r\n\r\n");
    let rtp = "10.9.0.1:5004".parse().expect("an address");
    for options in [&[&options[..], &["--remux=off"]].concat()[..], &options] {
        stage.change_hands(options);
        stage.relay.set_rtp(rtp);
        stage.settle();
    }
    let mut datagrams = 0;
    for piece in rest.chunks(2_000) {
        stage.send_media(source, piece);
        stage.wait(std::time::Duration::from_millis(500));
        let next = |stage: &mut Stage| stage.relay.next_datagrams(stage.now, &[]).is_some();
        datagrams += (0..10_000).take_while(|_| next(&mut stage)).count();
    }
    assert!(datagrams > 0, "there are none");
}
