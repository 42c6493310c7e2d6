//! Pulls, from a viewer's request to their end, with the origin played by the test: no socket, and
//! a clock that it winds on.
#![cfg(feature = "default")]

mod steps;

use std::net::SocketAddr;
use std::time::Duration;

use crate::gate::SessionId;
use crate::random::Random;
use crate::relay::stage::Stage;
use crate::relay::{ConnectionId, Done, Job, UdpPort};

const ORIGIN: &str = "--origin=http://10.1.0.1:8000";
const OTHER: &str = "--origin=http://10.1.0.2:8000/second";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Type: video/x\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn all_viewers_of_a_session_share_one_pull() {
    let mut edge = Stage::new(&["--origin=http://10.1.0.1:8000/x"]);
    let first = edge.viewer("a%2Fb%C3%BC");
    let second = edge.viewer("a%2Fb%C3%BC");
    let (origin, address, asked) = edge.call();
    assert_eq!(address.to_string(), "10.1.0.1:8000");
    let via = &edge.relay.fetch.origins.via(None);
    assert!(
        asked.starts_with(
            "GET /x/stream?sessionid=a%2Fb%C3%BC HTTP/1.1\r\nHost: 10.1.0.1:8000\r\nVia: "
        ),
        "{asked}"
    );
    assert!(asked.contains(&format!("\r\nVia: {via}\r\n")), "{asked}");
    assert_eq!(edge.text(first), "");
    edge.send(origin, OK);
    edge.send(origin, "5\r\nhello\r\n");
    let third = edge.viewer("a%2Fb%C3%BC");
    edge.send(origin, "6\r\n world\r\n0\r\n\r\n");
    for (viewer, media) in [(first, "hello"), (second, "hello"), (third, " world")] {
        edge.assert_status(viewer, 200);
        let text = edge.text(viewer);
        assert!(text.contains("Content-Type: video/x\r\n"), "{text}");
        assert!(text.contains(&format!("Via: {via}\r\n")), "{text}");
        assert!(
            text.contains(media) && text.ends_with("\r\n0\r\n\r\n"),
            "{text}"
        );
    }
    assert!(edge.closed.contains(&origin));
    edge.assert_nothing_left();
}

/// The viewer waits for a copy or a playlist that the complete stream never has.
#[test]
fn a_stream_that_is_complete_at_once_is_fetched_once() {
    let short = [&[0x47, 0, 0, 0x10][..], &[0; 184]].concat().repeat(9);
    for path in ["live.mp4", "live.ts", "index.m3u8", "poster.mp4"] {
        for content in [&[][..], &short] {
            let mut edge = Stage::new(&[ORIGIN]);
            let viewer = edge.viewer(&format!("a/{path}"));
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: video/mp2t\r\nContent-Length: {}\r\n\r\n",
                content.len()
            );
            let (origin, _, _) = edge.call();
            edge.send(origin, &[head.as_bytes(), content].concat());
            (0..8).for_each(|_| edge.settle());
            assert_eq!(edge.calls, [], "{path}");
            edge.assert_status(viewer, 404);
            edge.assert_nothing_left();
        }
    }
}

/// However many streams begin and end here, an origin is asked a few times a second for the viewers
/// that wait.
#[test]
fn streams_that_end_at_once_do_not_drive_the_requests_to_an_origin() {
    for path in ["live.mp4", "index.m3u8"] {
        let mut edge = Stage::new(&[ORIGIN, "--wait=60"]);
        let viewer = edge.viewer(&format!("a/{path}"));
        edge.answer("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        let mut asked = 0;
        for _ in 0..500 {
            let source =
                edge.client("PUT /stream/a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
            edge.lose(source);
            edge.wait(Duration::from_millis(10));
            while !edge.calls.is_empty() {
                edge.answer("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
                asked += 1;
            }
        }
        assert!(asked <= 40, "{asked} times in five seconds: {path}");
        assert_eq!(edge.text(viewer), "", "{path}");
        edge.wait_seconds(10);
        assert_eq!(edge.calls.len(), 1, "it is asked still");
    }
}

/// The answer and the end of its stream may arrive together, before the viewers are called.
#[test]
fn a_stream_that_breaks_at_once_is_asked_for_again() {
    for path in ["live.mp4", "live.ts", "index.m3u8"] {
        let mut edge = Stage::new(&[ORIGIN, "--wait=20"]);
        let viewer = edge.viewer(&format!("a/{path}"));
        let (origin, _, _) = edge.call();
        let now = edge.now;
        edge.relay
            .received(origin, format!("{OK}3\r\nabc\r\n").as_bytes(), now);
        edge.relay.lost(origin, now);
        edge.settle();
        assert_eq!(edge.text(viewer), "", "{path}");
        edge.wait_seconds(2);
        assert_eq!(edge.calls.len(), 1, "{path}");
    }
}

/// Such viewers wait on, as without origins: for the stream of another source, or for the origin's.
#[test]
fn viewers_wait_on_when_a_stream_ends_before_its_format_is_known() {
    let media = include_bytes!("../../../tests/media/h264.ts");
    for path in ["live.mp4", "live.ts", "index.m3u8"] {
        let put = |length: usize| {
            format!("PUT /stream/a HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n")
        };
        // The stream of a source here.
        let mut edge = Stage::new(&[ORIGIN, "--wait=20"]);
        let source = edge.client(&put(1_000));
        let viewer = edge.viewer(&format!("a/{path}"));
        edge.lose(source);
        edge.settle();
        assert_eq!(edge.text(viewer), "", "{path}");
        edge.wait_seconds(1);
        assert_eq!(edge.calls.len(), 1, "the origin is asked: {path}");
        let next = edge.client(&put(10 * media.len()));
        edge.send_media(next, &media.repeat(9));
        edge.assert_status(viewer, 200);
        // The origin's stream breaks.
        let mut edge = Stage::new(&[ORIGIN, "--wait=20"]);
        let viewer = edge.viewer(&format!("a/{path}"));
        let (origin, _, _) = edge.call();
        edge.send(origin, &format!("{OK}3\r\nabc\r\n"));
        edge.lose(origin);
        edge.settle();
        assert_eq!(edge.text(viewer), "", "{path}");
        edge.wait_seconds(2);
        let (origin, _, _) = edge.call();
        edge.send(origin, OK);
        for piece in media.repeat(9).chunks(40_000) {
            edge.send(origin, &format!("{:x}\r\n", piece.len()));
            edge.send(origin, &[piece, b"\r\n"].concat());
        }
        edge.assert_status(viewer, 200);
    }
}

#[test]
fn an_answer_may_arrive_in_any_pieces() {
    let whole = format!("HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n{OK}5\r\nhello\r\n0\r\n\r\n");
    for cut in 0..whole.len() {
        let mut edge = Stage::new(&[ORIGIN]);
        let viewer = edge.viewer("a");
        let (origin, _, _) = edge.call();
        edge.send(origin, &whole[..cut]);
        edge.send(origin, &whole[cut..]);
        edge.assert_status(viewer, 200);
        assert_eq!(
            edge.content(viewer),
            ("hello".to_owned(), true),
            "cut at {cut}"
        );
        edge.assert_nothing_left();
    }
}

#[test]
fn every_framing_ends_as_it_should() {
    let mut edge = Stage::new(&[ORIGIN]);
    let viewer = edge.viewer("a");
    edge.answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    assert!(edge.text(viewer).ends_with("\r\n0\r\n\r\n"));
    let viewer = edge.viewer("a");
    let origin = edge.answer("HTTP/1.0 200 OK\r\n\r\nhello");
    edge.relay.input_ended(origin, false, edge.now);
    edge.settle();
    assert!(edge.text(viewer).ends_with("\r\n0\r\n\r\n"));
    edge.assert_nothing_left();
}

#[test]
fn a_viewer_is_told_why_it_gets_no_stream_and_nothing_is_left() {
    let answers = [
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 404),
        ("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", 403),
        ("HTTP/1.1 503 Service Unavailable\r\n\r\n", 503),
        ("HTTP/1.1 508 Loop Detected\r\n\r\n", 508),
        ("HTTP/1.1 504 Gateway Timeout\r\n\r\n", 504),
        ("HTTP/1.1 302 Found\r\nLocation: http://x/\r\n\r\n", 502),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", 502),
        ("HTTP/1.1 204 No Content\r\n\r\n", 502),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            502,
        ),
        ("SSH-2.0-x\r\n", 502),
        ("\0", 502),
    ];
    for (answer, status) in answers {
        let mut edge = Stage::new(&[ORIGIN]);
        let viewers = [edge.viewer("a"), edge.viewer("a")];
        let origin = edge.answer(answer);
        if !edge.closed.contains(&origin) {
            edge.lose(origin);
        }
        for viewer in viewers {
            edge.assert_status(viewer, status);
            assert!(
                !edge.closed.contains(&viewer),
                "the connection can be used on"
            );
        }
        edge.assert_nothing_left();
    }
}

#[test]
fn who_is_silent_or_away_is_not_waited_for_for_ever() {
    let mut edge = Stage::new(&[ORIGIN, "--origin-time=3"]);
    let viewer = edge.viewer("a");
    edge.wait_seconds(2);
    assert_eq!(edge.text(viewer), "");
    edge.wait_seconds(1);
    edge.assert_status(viewer, 504);
    edge.assert_nothing_left();
    let viewer = edge.viewer("a");
    let (origin, _, _) = edge.call();
    edge.send(origin, "HTTP/1.1 200 OK\r\n");
    edge.wait_seconds(3);
    edge.assert_status(viewer, 504);
    edge.assert_nothing_left();
    let viewer = edge.viewer("a");
    edge.lose(edge.calls[0].0);
    edge.assert_status(viewer, 502);
    assert!(edge.text(viewer).contains("it cannot be reached"));
    let viewer = edge.viewer("a");
    let (origin, _, _) = edge.call();
    edge.relay.input_ended(origin, false, edge.now);
    edge.settle();
    edge.assert_status(viewer, 502);
    assert!(edge.text(viewer).contains("it hung up without an answer"));
    edge.assert_nothing_left();
}

#[test]
fn of_several_refusals_the_one_that_tells_most_is_given() {
    let mut edge = Stage::new(&[ORIGIN, OTHER]);
    let viewer = edge.viewer("a");
    edge.lose(edge.calls[0].0);
    edge.answer("HTTP/1.1 404 Not Found\r\n\r\n");
    edge.assert_status(viewer, 502);
    let viewer = edge.viewer("a");
    edge.answer("HTTP/1.1 403 Forbidden\r\n\r\n");
    edge.assert_status(viewer, 403);
    edge.assert_nothing_left();
}

#[test]
fn a_name_is_looked_up_once_for_all_and_all_its_addresses_are_tried() {
    let mut edge = Stage::new(&["--origin=http://origin.example:8000"]);
    let viewers = [edge.viewer("a"), edge.viewer("b")];
    let jobs = std::mem::take(&mut edge.jobs);
    let [(job_id, Job::Resolve(names))] = jobs.as_slice() else {
        panic!("{jobs:?}");
    };
    assert_eq!(*names, [("origin.example".to_owned(), 8000)]);
    let addresses = ["10.1.0.1:8000", "10.1.0.2:8000"].map(|text| text.parse().expect("good"));
    let done = Done::Resolved(vec![Ok(addresses.to_vec())]);
    edge.relay.job_finished(*job_id, done, edge.now);
    edge.settle();
    assert_eq!(edge.calls.len(), 2);
    edge.lose(edge.calls[0].0);
    edge.lose(edge.calls[0].0);
    let called: Vec<SocketAddr> = edge.calls.iter().map(|(_, address)| *address).collect();
    assert_eq!(called, [addresses[1], addresses[1]]);
    edge.lose(edge.calls[0].0);
    edge.lose(edge.calls[0].0);
    for viewer in viewers {
        edge.assert_status(viewer, 502);
    }
    edge.viewer("a");
    assert_eq!(edge.jobs, [], "it is known still");
    edge.lose(edge.calls[0].0);
    edge.lose(edge.calls[0].0);
    edge.wait_seconds(5);
    edge.viewer("a");
    assert_eq!(edge.jobs.len(), 1, "it is looked up again");
}

#[test]
fn a_name_that_is_not_found_is_a_fault_like_others() {
    let mut edge = Stage::new(&["--origin=http://origin.example:8000", "--origin-time=1"]);
    let viewer = edge.viewer("a");
    let (job_id, _) = edge.jobs.remove(0);
    let done = Done::Resolved(vec![Err("no such name".to_owned())]);
    edge.relay.job_finished(job_id, done, edge.now);
    edge.settle();
    edge.assert_status(viewer, 502);
    let viewer = edge.viewer("a");
    let (job_id, _) = edge.jobs.remove(0);
    edge.relay.job_refused(job_id, edge.now);
    edge.settle();
    edge.assert_status(viewer, 502);
    let viewer = edge.viewer("a");
    edge.wait_seconds(1);
    edge.assert_status(viewer, 504);
    edge.assert_nothing_left();
}

#[test]
fn who_gives_up_leaves_nothing() {
    let mut edge = Stage::new(&[ORIGIN]);
    let viewers = [edge.viewer("a"), edge.viewer("a")];
    let (origin, _, _) = edge.call();
    edge.lose(viewers[0]);
    assert!(!edge.closed.contains(&origin), "the other waits still");
    edge.lose(viewers[1]);
    assert!(edge.closed.contains(&origin));
    edge.assert_nothing_left();
}

#[test]
fn a_pull_outlives_its_last_viewer_for_a_while() {
    let mut edge = Stage::new(&[ORIGIN, "--origin-idle=5", "--body-rate=0"]);
    let viewer = edge.viewer("a");
    let origin = edge.answer(OK);
    edge.send(origin, "1\r\nx\r\n");
    edge.wait_seconds(4);
    edge.send(origin, "1\r\nx\r\n");
    edge.lose(viewer);
    edge.wait_seconds(4);
    edge.send(origin, "1\r\nx\r\n");
    let again = edge.viewer("a");
    edge.assert_status(again, 200);
    edge.wait_seconds(8);
    assert!(!edge.closed.contains(&origin), "it is watched");
    edge.lose(again);
    edge.wait_seconds(5);
    assert!(edge.closed.contains(&origin));
    edge.assert_nothing_left();

    let viewer = edge.viewer("a");
    let origin = edge.answer(OK);
    edge.lose(viewer);
    edge.lose(origin);
    edge.assert_nothing_left();
}

#[test]
fn a_pull_that_breaks_is_left_alone_if_nobody_comes_back() {
    let mut edge = Stage::new(&[ORIGIN, "--origin-idle=1"]);
    let viewer = edge.viewer("a");
    let origin = edge.answer(OK);
    edge.lose(origin);
    edge.wait_seconds(1);
    assert!(edge.closed.contains(&viewer) || edge.text(viewer).contains(" 200 "));
    edge.assert_nothing_left();
}

#[test]
fn what_comes_back_to_the_server_itself_is_refused() {
    let mut edge = Stage::new(&[ORIGIN]);
    let via = edge.relay.fetch.origins.via(Some("1.1 before"));
    let ask = |via: &str| format!("GET /stream/a HTTP/1.1\r\nHost: h\r\nVia: {via}\r\n\r\n");
    let looped = edge.client(&ask(&format!("{via}, 1.1 after")));
    edge.assert_status(looped, 508);
    let far = edge.client(&ask(&["1.1 x"; 17].join(", ")));
    edge.assert_status(far, 508);
    edge.assert_nothing_left();
    let viewer = edge.client(&ask("1.1 before"));
    let (origin, _, asked) = edge.call();
    assert!(asked.contains(&format!("\r\nVia: {via}\r\n")), "{asked}");
    edge.send(origin, &format!("HTTP/1.1 200 OK\r\nVia: {via}\r\n\r\n"));
    edge.assert_status(viewer, 508);
    edge.assert_nothing_left();
}

/// A viewer's `Via` is what anybody may write. That of one must not decide for the others who wait
/// for the same pull.
#[test]
fn what_one_viewer_came_through_is_no_loop_of_the_others() {
    let ask = |via: &str| format!("GET /stream/a HTTP/1.1\r\nHost: h\r\nVia: {via}\r\n\r\n");
    let looped = "HTTP/1.1 508 Loop Detected\r\nContent-Length: 0\r\n\r\n";
    let long = ["1.1 x"; 16].join(", ");
    for evil in ["1.1 tollgate-0123456789abcdef", &long] {
        for (first, second) in [(evil, None), (evil, Some("1.0 honest"))] {
            let mut edge = Stage::new(&[ORIGIN]);
            let stranger = edge.client(&ask(first));
            let viewer = match second {
                Some(via) => edge.client(&ask(via)),
                None => edge.viewer("a"),
            };
            let (origin, _, asked) = edge.call();
            assert!(asked.contains(evil), "{asked}");
            edge.send(origin, looped);
            let (origin, _, asked) = edge.call();
            let own = format!("\r\nVia: {}\r\n", edge.relay.fetch.origins.via(None));
            assert!(asked.contains(&own), "{asked}");
            edge.send(origin, OK);
            edge.send(origin, "5\r\nhello\r\n0\r\n\r\n");
            for each in [stranger, viewer] {
                assert_eq!(edge.content(each), ("hello".to_owned(), true));
            }
            edge.assert_nothing_left();
        }
    }
    // What all have in common is a loop of the pull's, and it is not asked for again and again.
    let mut edge = Stage::new(&[ORIGIN]);
    let viewers =
        ["1.1 b, 1.1 a", "1.1 a,1.1 c", "1.1 c , 1.1 a"].map(|via| edge.client(&ask(via)));
    edge.answer(looped);
    let (origin, _, asked) = edge.call();
    assert!(asked.contains("Via: 1.1 a, 1.1 tollgate-"), "{asked}");
    edge.send(origin, looped);
    for viewer in viewers {
        edge.assert_status(viewer, 508);
    }
    edge.assert_nothing_left();
}

/// A pull that has run asks again for waiting or held viewers. The client that asked first does not
/// matter any more.
#[test]
fn a_pull_that_is_asked_again_comes_through_what_its_viewers_came_through() {
    let ask = |via: &str| format!("GET /stream/a HTTP/1.1\r\nHost: h\r\nVia: {via}\r\n\r\n");
    let looped = "HTTP/1.1 508 Loop Detected\r\nContent-Length: 0\r\n\r\n";
    let session = SessionId::parse(b"a").expect("a good sessionid");
    let evil = ["1.1 evil"; 16].join(", ");
    let opening = |edge: &Stage, via: Option<&str>| {
        format!("\r\nVia: {}\r\n", edge.relay.fetch.origins.via(via))
    };
    let ask_again = |edge: &mut Stage| {
        let due = edge.relay.next_deadline().expect("another round");
        edge.wait(due.since(edge.now));
        edge.call()
    };
    // Held: the first is gone, a second joined while it ran; or the first is there still.
    let frames = [&b"\xff\xfb\x90\x00"[..], &[0; 413]].concat().repeat(8);
    for first_leaves in [true, false] {
        let mut edge = Stage::new(&[ORIGIN, "--hold=60"]);
        let first = edge.client(&ask(&evil));
        let origin = edge.answer("HTTP/1.1 200 OK\r\n\r\n");
        edge.relay.received(origin, &frames, edge.now);
        edge.settle();
        let second = edge.viewer("a");
        if first_leaves {
            edge.lose(first);
        }
        edge.lose(origin);
        assert!(edge.relay.streams.held(&session).is_some());
        let (origin, _, asked) = ask_again(&mut edge);
        assert!(asked.contains(&opening(&edge, None)), "{asked}");
        edge.send(origin, "HTTP/1.1 200 OK\r\n\r\n");
        edge.relay.received(origin, &frames, edge.now);
        edge.settle();
        assert!(!edge.closed.contains(&second));
    }
    // No viewers are held: only viewers that return meanwhile count.
    let mut edge = Stage::new(&[ORIGIN]);
    edge.client(&ask(&evil));
    let origin = edge.answer(OK);
    edge.send(origin, "1\r\nx\r\n");
    edge.lose(origin);
    let back = edge.client(&ask("1.1 b"));
    let (origin, _, asked) = ask_again(&mut edge);
    assert!(asked.contains(&opening(&edge, Some("1.1 b"))), "{asked}");
    // A true loop: this server's name has come round with theirs.
    edge.send(origin, looped);
    edge.assert_status(back, 508);
    edge.assert_nothing_left();
}

/// Where the origin decides, a refusal does not reveal that the session has a source here.
#[test]
fn who_may_not_watch_is_told_the_same_by_this_server_and_by_its_origin() {
    let mut edge = Stage::new(&[
        "--token-server=10.0.0.0/8",
        "--origin-tokens",
        ORIGIN,
        "--icecast",
    ]);
    edge.client(
        "POST /api/add-token?type=http&direction=in&sessionid=a HTTP/1.1\r\nHost: localhost\r\n\r\n",
    );
    edge.client(
        "PUT /stream/a HTTP/1.1\r\nHost: h\r\nIce-Name: Secret\r\nContent-Length: 9\r\n\r\nx",
    );
    // Requests for which no origin is asked.
    for line in [
        "HEAD /stream/ID",
        "HEAD /stream?sessionid=ID",
        "HEAD /stream/ID/live.ts",
        "HEAD /stream/ID/live.mp4",
        "HEAD /stream/ID/index.m3u8",
        "HEAD /stream/ID/index.m3u8?_HLS_msn=1",
        "GET /stream/ID/stream1-0.ts",
        "GET /stream/index.m3u8?sessionid=ID",
        "HEAD /stream/index.m3u8?sessionid=ID",
        "GET /stream/ID/now.json",
        "GET /stream/ID/listen.m3u",
        "GET /stream/ID/listen.pls",
        "GET /watch/ID",
        "HEAD /watch?sessionid=ID",
        "OPTIONS /stream/ID",
    ] {
        let [here, elsewhere] = ["a", "b"].map(|session| {
            let line = line.replace("ID", session);
            let id = edge.client(&format!("{line} HTTP/1.1\r\nHost: h\r\n\r\n"));
            let text = edge.text(id);
            let head = text.split("nonce-").next().unwrap_or_default();
            let head = head.replace(&format!("/{session}"), "/ID");
            head.replace(&format!(" {session}/"), " ID/")
        });
        assert_eq!(here, elsewhere, "{line}");
        assert!(here.starts_with("HTTP/1.1 "), "{line}: {here}");
    }
    let here = edge.viewer("a");
    let elsewhere = edge.viewer("b");
    edge.answer("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    edge.assert_status(here, 403);
    assert_eq!(edge.text(here), edge.text(elsewhere));
}

/// Nothing that a request says is where it goes.
#[test]
fn whomever_a_request_names_the_origin_is_called() {
    let names = "192.0.2.66:1";
    for request in [
        format!("GET http://{names}/stream/s HTTP/1.1\r\nHost: {names}"),
        format!("GET /stream/s HTTP/1.1\r\nHost: {names}\r\nX-Forwarded-Host: {names}"),
        format!("GET /stream/http:%2F%2F{names}%2Fs HTTP/1.1\r\nHost: h"),
        format!("GET /stream?sessionid=http://{names}/s HTTP/1.1\r\nHost: h"),
        format!("GET /stream/s%23@{names} HTTP/1.1\r\nHost: h\r\nReferer: http://{names}/"),
    ] {
        let mut edge = Stage::new(&["--origin=http://10.1.0.1:8000"]);
        edge.client(&format!("{request}\r\n\r\n"));
        let (_, to, asked) = edge.call();
        assert_eq!(to.to_string(), "10.1.0.1:8000", "{request}");
        let host = asked.lines().filter(|line| line.starts_with("Host:"));
        assert!(host.eq(["Host: 10.1.0.1:8000"]), "{asked}");
        assert_eq!(edge.jobs, [], "nothing is looked up");
    }
}

/// In a path, these could be resolved as steps.
#[test]
fn sessions_that_look_like_steps_are_asked_for_by_name() {
    for session in ["..", ".", "a%2F..", "%2e%2e"] {
        let mut edge = Stage::new(&["--origin=http://10.1.0.1:8000/x"]);
        let target = format!("/stream?sessionid={session}");
        let viewer = edge.client(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        let (origin, _, asked) = edge.call();
        let written = session.replace("%2e", ".");
        let line = format!("GET /x/stream?sessionid={written} HTTP/1.1\r\n");
        assert!(asked.starts_with(&line), "{asked}");
        edge.send(origin, OK);
        edge.send(origin, "5\r\nhello\r\n0\r\n\r\n");
        assert_eq!(edge.content(viewer), ("hello".to_owned(), true));
    }
}

#[test]
fn the_origin_says_who_may_watch_where_it_is_asked() {
    let options = [ORIGIN, "--token-server=10.0.0.1", "--rtp=off"];
    let refusal = "HTTP/1.1 403 Forbidden\r\n\r\n";
    let mut edge = Stage::new(&options);
    let viewer = edge.viewer("a");
    edge.assert_status(viewer, 403);
    edge.assert_nothing_left();
    edge.client("POST /api/add-token?type=http&sessionid=a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let viewer = edge.viewer("a");
    edge.answer(refusal);
    edge.assert_status(viewer, 502);

    let mut edge = Stage::new(&[&options[..], &["--origin-tokens"]].concat());
    let viewer = edge.viewer("a");
    edge.answer(refusal);
    edge.assert_status(viewer, 403);
    let viewer = edge.viewer("a");
    edge.answer(OK);
    let second = edge.viewer("a");
    let put = "PUT /stream/b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n";
    let source = edge.client(put);
    edge.assert_status(source, 403);
    edge.assert_status(viewer, 200);
    edge.assert_status(second, 200);
    edge.client(
        "POST /api/add-token?type=http&sessionid=b&direction=in HTTP/1.1\r\nHost: localhost\r\n\r\n",
    );
    edge.client(put);
    let third = edge.viewer("b");
    edge.assert_status(third, 403);
}

/// The token is revoked, so only the origin would decide. If the viewer waited on, its deadline would
/// come again at once.
#[test]
fn a_waiting_viewer_is_refused_when_its_token_ends() {
    let wait = "--wait=5";
    let options = [ORIGIN, "--token-server=10.0.0.1", "--origin-tokens", wait];
    for path in [
        "a",
        "a/live.ts",
        "a/live.mp4",
        "a/poster.mp4",
        "a/index.m3u8",
    ] {
        for abort in ["", "&abort=true"] {
            let mut edge = Stage::new(&options);
            let add = "POST /api/add-token?type=http&sessionid=a&ends=2";
            edge.client(&format!("{add} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            let viewer = edge.viewer(path);
            edge.answer("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
            let revoke = format!("DELETE /api/revoke-token?sessionid=a{abort}");
            edge.client(&format!("{revoke} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            if abort.is_empty() {
                assert_eq!(edge.text(viewer), "", "{path}");
                edge.wait_seconds(3);
            }
            edge.assert_status(viewer, 403);
        }
    }
}

#[test]
fn a_source_of_this_server_goes_before_what_is_not_fetched_yet() {
    let put = "PUT /stream/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n";
    let mut edge = Stage::new(&[ORIGIN]);
    let viewer = edge.viewer("a");
    let (origin, _, _) = edge.call();
    edge.client(put);
    assert!(edge.closed.contains(&origin));
    assert_eq!(edge.relay.fetch.len(), 0);
    edge.assert_status(viewer, 200);

    let mut edge = Stage::new(&[ORIGIN]);
    edge.viewer("a");
    let origin = edge.answer(OK);
    let source = edge.client(put);
    edge.assert_status(source, 409);

    let mut edge = Stage::new(&[ORIGIN, "--takeover"]);
    edge.viewer("a");
    let running = edge.answer(OK);
    let source = edge.client(put);
    assert_eq!(edge.text(source), "");
    assert!(edge.closed.contains(&running) && !edge.closed.contains(&source));
    assert_eq!(edge.relay.fetch.len(), 0);
    let _ = origin;
}

#[test]
fn pulls_take_the_places_of_streams() {
    let mut edge = Stage::new(&[ORIGIN, "--streams=1"]);
    let first = edge.viewer("a");
    let second = edge.viewer("b");
    edge.assert_status(second, 503);
    let put = "PUT /stream/c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    let source = edge.client(put);
    edge.assert_status(source, 503);
    edge.answer("HTTP/1.1 404 Not Found\r\n\r\n");
    edge.assert_status(first, 404);
    edge.client(put);
    assert_eq!(edge.relay.streams.running(), 1);
}

#[test]
fn with_wait_a_session_that_no_origin_has_yet_is_asked_for_again() {
    let mut edge = Stage::new(&[ORIGIN, "--wait=60"]);
    let viewer = edge.viewer("a");
    let none = "HTTP/1.1 404 Not Found\r\n\r\n";
    edge.answer(none);
    edge.wait_seconds(8);
    edge.answer(none);
    assert_eq!(edge.text(viewer), "");
    edge.wait_seconds(8);
    let origin = edge.answer(OK);
    edge.send(origin, "1\r\nx\r\n");
    edge.assert_status(viewer, 200);
}

#[test]
fn an_abort_ends_a_pull_for_good() {
    let mut edge = Stage::new(&[ORIGIN, "--token-server=10.0.0.1", "--rtp=off"]);
    edge.client("POST /api/add-token?type=http&sessionid=a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let viewer = edge.viewer("a");
    let origin = edge.answer(OK);
    edge.client("DELETE /api/abort-stream?sessionid=a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(edge.closed.contains(&origin) && edge.closed.contains(&viewer));
    edge.assert_nothing_left();
}

#[test]
fn the_end_of_the_server_ends_pulls_cleanly() {
    let mut edge = Stage::new(&[ORIGIN]);
    let watching = edge.viewer("a");
    let origin = edge.answer(OK);
    edge.send(origin, "1\r\nx\r\n");
    let waiting = edge.viewer("b");
    edge.relay.shut_down(edge.now);
    edge.settle();
    assert!(edge.closed.contains(&origin) && edge.closed.contains(&waiting));
    assert!(edge.text(watching).ends_with("x\r\n0\r\n\r\n"));
    edge.assert_nothing_left();

    let mut edge = Stage::new(&[ORIGIN, "--origin-idle=600"]);
    edge.viewer("a");
    let origin = edge.answer(OK);
    edge.lose(origin);
    edge.relay.shut_down(edge.now);
    edge.settle();
    edge.wait_seconds(8);
    edge.assert_nothing_left();
}

#[test]
fn what_a_udp_client_sends_goes_before_what_is_not_fetched_now() {
    let mut edge = Stage::new(&[ORIGIN, "--token-server=10.0.0.1", "--origin-idle=600"]);
    edge.relay.set_rtp(SocketAddr::from(([10, 0, 0, 9], 5004)));
    edge.client("POST /api/add-token?type=http,rtp-udp&sessionid=a&udp-clients=10.2.0.1:6000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    edge.viewer("a");
    let origin = edge.answer(OK);
    edge.lose(origin);
    assert_eq!(edge.relay.fetch.len(), 1, "it would be asked for again");
    let viewer = edge.viewer("a");
    for number in [1, 2] {
        let packet = [0x80, 33, 0, number, 0, 0, 0, 0, 0, 0, 0, 1, 0x47];
        let from = SocketAddr::from(([10, 2, 0, 1], 6000));
        edge.relay.datagram(from, UdpPort::Rtp, &packet, edge.now);
        edge.settle();
    }
    edge.assert_status(viewer, 200);
    assert_eq!(edge.relay.fetch.len(), 0);
}

#[test]
fn udp_clients_get_what_is_fetched() {
    let mut edge = Stage::new(&[ORIGIN, "--token-server=10.0.0.1"]);
    edge.relay.set_rtp(SocketAddr::from(([10, 0, 0, 9], 5004)));
    edge.client("POST /api/add-token?type=http,rtp-udp&sessionid=a&udp-clients=10.2.0.1:6000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let viewer = edge.viewer("a");
    let packet = |number: u8| [0x80, 33, 0, number, 0, 0, 0, 0, 0, 0, 0, 1, 0x47];
    let from = SocketAddr::from(([10, 2, 0, 1], 6000));
    let origin = edge.answer(OK);
    for number in [1, 2] {
        edge.relay
            .datagram(from, UdpPort::Rtp, &packet(number), edge.now);
        edge.settle();
    }
    assert!(!edge.closed.contains(&origin), "the session has its source");
    let ts: Vec<u8> = (0..70_u8)
        .flat_map(|number| {
            let mut packet = vec![0xff; 188];
            packet[..4].copy_from_slice(&[0x47, 0x1f, 0xff, 0x10 | number & 15]);
            packet
        })
        .collect();
    let chunk = [format!("{:x}\r\n", ts.len()).as_bytes(), &ts, b"\r\n"].concat();
    edge.relay.received(origin, &chunk, edge.now);
    let mut sent = 0;
    for _ in 0..100 {
        edge.now = edge.now + Duration::from_millis(10);
        edge.relay.expire(edge.now);
        while let Some(datagrams) = edge.relay.next_datagrams(edge.now, &[]) {
            assert_eq!(datagrams.to, [from]);
            sent += datagrams.bytes.len();
        }
    }
    edge.settle();
    edge.assert_status(viewer, 200);
    assert!(sent > 0, "no datagram went out");
}

/// Viewers, origins, a source and the operator do what a seed decides. The core is checked after
/// each step, and in the end nothing is left.
#[test]
fn whatever_happens_nothing_is_left_of_it() {
    for seed in 0..200 {
        let mut chance = Random::new(seed);
        let mut draw = |below: u64| chance.draw() % below;
        let mut options = vec![ORIGIN, "--origin=http://origin.example:80", "--streams=3"];
        options.extend([
            "--origin-time=2",
            "--origin-idle=3",
            "--token-server=10.0.0.1",
        ]);
        options.extend((draw(2) == 0).then_some("--origin-tokens"));
        options.extend((draw(3) == 0).then_some("--wait=4"));
        options.extend((draw(2) == 0).then_some("--takeover"));
        let mut edge = Stage::new(&options);
        let mut everybody = Vec::new();
        let mut origins: Vec<ConnectionId> = Vec::new();
        for _ in 0..200 {
            let session = draw(4);
            let one_of = |draw: u64, ids: &[ConnectionId]| {
                let index = draw as usize % ids.len().max(1);
                ids.get(index).copied()
            };
            match draw(12) {
                0..=2 => everybody.push(edge.viewer(&session.to_string())),
                3 => {
                    let call = "POST /api/add-token?type=http&sessionid=";
                    edge.client(&format!(
                        "{call}{session} HTTP/1.1\r\nHost: localhost\r\n\r\n"
                    ));
                }
                4 => {
                    let put = "HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n";
                    everybody.push(edge.client(&format!("PUT /stream/{session} {put}")));
                }
                5 => {
                    let call = "DELETE /api/abort-stream?sessionid=";
                    edge.client(&format!(
                        "{call}{session} HTTP/1.1\r\nHost: localhost\r\n\r\n"
                    ));
                }
                6 if !edge.calls.is_empty() => {
                    let (id, _) = edge.calls.remove(0);
                    edge.relay.unblocked(id);
                    edge.settle();
                    origins.push(id);
                }
                6 | 7 if !edge.jobs.is_empty() => {
                    let (job_id, _) = edge.jobs.remove(0);
                    let address = SocketAddr::from(([10, 1, 0, 2], 80));
                    let result = match draw(3) {
                        0 => Err("no such name".to_owned()),
                        _ => Ok(vec![address, address]),
                    };
                    edge.relay
                        .job_finished(job_id, Done::Resolved(vec![result]), edge.now);
                    edge.settle();
                }
                7 | 8 => {
                    let answers = [
                        OK,
                        OK,
                        "HTTP/1.0 200 OK\r\n\r\nx",
                        "5\r\nhello\r\n",
                        "0\r\n\r\n",
                        "HTTP/1.1 404 Not Found\r\n\r\n",
                        "HTTP/1.1 403 Forbidden\r\n\r\n",
                        "HTTP/1.1 1",
                        "\n",
                    ];
                    let answer = answers[draw(answers.len() as u64) as usize];
                    if let Some(id) = one_of(draw(99), &origins) {
                        edge.send(id, answer);
                    }
                }
                9 => {
                    let who = [&everybody[..], &origins[..]].concat();
                    if let Some(id) = one_of(draw(99), &who) {
                        edge.lose(id);
                    }
                }
                10 => {
                    if let Some(id) = one_of(draw(99), &origins) {
                        edge.relay.input_ended(id, false, edge.now);
                        edge.settle();
                    }
                }
                _ => edge.wait(Duration::from_millis(draw(3000))),
            }
        }
        if draw(4) == 0 {
            edge.relay.shut_down(edge.now);
            edge.settle();
        }
        for id in everybody {
            edge.lose(id);
        }
        edge.wait_seconds(60);
        edge.assert_nothing_left();
    }
}
