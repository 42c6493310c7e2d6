use super::*;
use crate::relay::stage::Stage;
use crate::relay::stage::ask;

const API: &str = "--token-server=10.0.0.0/8";
const ICECAST: &str = "--icecast";

fn answer(options: &[&str], line: &str, fields: &str) -> (u16, String) {
    let mut stage = Stage::new(options);
    let id = ask(&mut stage, line, fields);
    let text = stage.text(id);
    let status = text.get(9..12).and_then(|status| status.parse().ok());
    (status.unwrap_or_default(), text)
}

/// The answer of each path without tokens or streams, to a client that may ask.
#[test]
fn each_path_has_its_methods() {
    const READING: &str = "GET, HEAD, OPTIONS";
    const STREAM: &str = "GET, HEAD, PUT, POST, OPTIONS";
    for (path, allow, get) in [
        ("/stream/a", STREAM, 404),
        ("/stream?sessionid=a", STREAM, 404),
        ("/stream/a/index.m3u8", READING, 404),
        ("/stream/a/live.ts", READING, 404),
        ("/watch/a", READING, 200),
        ("/watch?sessionid=a", READING, 200),
        ("/", READING, 200),
        ("/metrics", READING, 200),
        ("/healthz", READING, 200),
        ("/api/openapi.json", READING, 200),
        ("/api/list-streams", READING, 200),
        ("/list-streams", READING, 200),
        ("/api/list-tokens", READING, 200),
        ("/api/list-viewers", READING, 200),
        ("/api/events", READING, 200),
    ] {
        let options = &[API];
        let (status, text) = answer(options, &format!("OPTIONS {path}"), "");
        assert_eq!(status, 204, "{path}: {text}");
        assert!(
            text.contains(&format!("Allow: {allow}\r\n")),
            "{path}: {text}"
        );
        for method in ["DELETE", "PATCH", "SOURCE"] {
            let (status, text) = answer(options, &format!("{method} {path}"), "");
            assert_eq!(status, 405, "{method} {path}");
            assert!(
                text.contains(&format!("Allow: {allow}\r\n")),
                "{path}: {text}"
            );
        }
        for method in ["PUT", "POST"] {
            let (status, _) = answer(options, &format!("{method} {path}"), "");
            let expected = if allow == STREAM { 403 } else { 405 };
            assert_eq!(status, expected, "{method} {path}");
        }
        for method in ["GET", "HEAD"] {
            let options: &[&str] = if get == 404 { &[] } else { options };
            let (status, _) = answer(options, &format!("{method} {path}"), "");
            // A watch page needs a token, as its stream does.
            let expected = if path.starts_with("/watch") { 403 } else { get };
            assert_eq!(status, expected, "{method} {path}");
        }
    }
    for (line, expected) in [
        ("OPTIONS *", 204),
        ("GET *", 400),
        ("GET /none", 404),
        ("OPTIONS /none", 404),
        ("GET /stream/a/none", 404),
        ("GET /stream/a/b/c", 404),
        ("GET /api", 403),
        ("GET /api/none", 404),
        ("GET /healthz?a=1", 400),
        ("GET /stream/a?b=1", 400),
        ("GET /stream", 400),
        ("GET /stream/", 400),
        ("GET /watch", 400),
        ("GET /watch/a", 200),
        ("GET /watch/a?b=1", 400),
    ] {
        assert_eq!(answer(&[], line, "").0, expected, "{line}");
    }
    assert_eq!(answer(&[API], "GET /metrics?a=1", "").0, 400);
}

/// A playlist with the session in its query is at another path, for a viewer that may watch.
#[test]
fn a_playlist_by_query_leads_to_the_one_by_path() {
    for (options, line, status, location) in [
        (
            &[][..],
            "GET /stream/index.m3u8?sessionid=a",
            308,
            "a/index.m3u8",
        ),
        (
            &[],
            "HEAD /stream/index.m3u8?sessionid=a",
            308,
            "a/index.m3u8",
        ),
        (
            &[],
            "GET /stream/index.m3u8?sessionid=a%2Fb",
            308,
            "a%2Fb/index.m3u8",
        ),
        (&[API], "GET /stream/index.m3u8?sessionid=a", 403, ""),
        (&[], "GET /stream/index.m3u8?sessionid=", 400, ""),
        (&[], "GET /stream/index.m3u8?sessionid=a&nothing=1", 400, ""),
        // By another spelling of its path it is had: proxies change that.
        (&[], "GET /stream/%61/index.m3u8", 404, ""),
        // No path can lead there.
        (&[], "GET /stream/index.m3u8?sessionid=%2e%2e", 404, ""),
        (
            &[],
            "GET /stream/index.m3u8?sessionid=...",
            308,
            ".../index.m3u8",
        ),
        // So many parameters it may have, and no more.
        (
            &[],
            "GET /stream/index.m3u8?_HLS_part=2&_HLS_skip=YES&sessionid=a&_HLS_msn=1",
            308,
            "a/index.m3u8?_HLS_msn=1&_HLS_part=2",
        ),
        (
            &[],
            "GET /stream/index.m3u8?sessionid=a&_HLS_msn=1&_HLS_part=2&_HLS_skip=YES&_HLS_skip=YES",
            400,
            "",
        ),
        // A session may be called so.
        (&[], "GET /stream/index.m3u8", 404, ""),
        (&[], "GET /stream/none.m3u8?sessionid=a", 400, ""),
        (
            &["--hls=off"],
            "GET /stream/index.m3u8?sessionid=a",
            400,
            "",
        ),
    ] {
        let (seen, text) = answer(options, line, "");
        let place = text
            .lines()
            .find_map(|line| line.strip_prefix("Location: "));
        let is_moved = (300..400).contains(&seen);
        assert_eq!(is_moved, status == 308, "{line}: {text}");
        assert!(is_moved || seen == status, "{line}: {text}");
        assert_eq!(place.unwrap_or_default(), location, "{line}");
    }
}

/// A stranger gets 404 for the operator's page with any method. At other paths the method is
/// checked first.
#[test]
fn a_stranger_is_told_of_no_page() {
    const FAR: &str = "--token-server=10.99.0.0/16";
    for (line, status) in [
        ("GET /", 404),
        ("DELETE /", 404),
        ("OPTIONS /", 404),
        ("GET /metrics", 403),
        ("DELETE /metrics", 405),
        ("OPTIONS /metrics", 204),
    ] {
        assert_eq!(answer(&[FAR], line, "").0, status, "{line}");
    }
}

/// A playlist may come later. A segment's name does not exist before it is in a playlist.
#[test]
fn what_has_no_name_yet_is_not_waited_for() {
    for (line, status) in [
        ("GET /stream/a", 0),
        ("GET /stream/a/index.m3u8", 0),
        ("GET /stream/a/live.ts", 0),
        ("GET /stream/a/0-1.ts", 404),
    ] {
        assert_eq!(answer(&["--wait=5"], line, "").0, status, "{line}");
    }
}

/// What comes as Icecast's clients come is taken where that is admitted, and nowhere else.
#[test]
fn icecasts_sources_are_taken_where_they_are_admitted() {
    // The passwords are `a` and `b`; the last says nothing.
    let (of_a, of_b) = (
        "Authorization: Basic OmE=\r\n",
        "Authorization: Basic OmI=\r\n",
    );
    let waits = format!("{of_a}Expect: 100-continue\r\n");
    let long = format!("{of_a}Content-Length: 9\r\n");
    let through_a_proxy = format!("{of_a}X-Forwarded-For: 192.0.2.1\r\n");
    let long_through_it = format!("{through_a_proxy}Content-Length: 9\r\n");
    for (options, line, fields, status) in [
        (&[ICECAST][..], "SOURCE /mount", of_a, 200),
        (&[ICECAST], "SOURCE /mount", &through_a_proxy, 411),
        (&[ICECAST], "PUT /mount", &long_through_it, 0),
        (&[ICECAST], "SOURCE /stream/a", of_a, 200),
        (&[ICECAST], "SOURCE /stream/b", of_a, 403),
        (&[ICECAST], "SOURCE /stream?sessionid=b", of_a, 403),
        (&[ICECAST], "SOURCE /stream?sessionid=a", of_a, 200),
        (&[ICECAST], "SOURCE /stream/b", of_b, 200),
        (&[ICECAST], "SOURCE /mount", "", 401),
        (&[ICECAST], "PUT /mount", &waits, 100),
        (&[ICECAST], "PUT /mount", of_a, 411),
        (&[ICECAST], "PUT /mount", &long, 0),
        (&[ICECAST], "PUT /mount", "", 401),
        (&[ICECAST], "POST /mount", &long, 404),
        (&[ICECAST, API], "SOURCE /mount", of_a, 403),
        (&[], "SOURCE /mount", of_a, 404),
        (&[], "SOURCE /stream/a", of_a, 405),
    ] {
        let mut stage = Stage::new(options);
        let id = ask(&mut stage, line, fields);
        let text = stage.text(id);
        let seen = text
            .get(9..12)
            .and_then(|status| status.parse::<u16>().ok());
        assert_eq!(seen.unwrap_or_default(), status, "{line} {fields}: {text}");
        let runs = |name: &str| {
            let name = SessionId::parse(name.as_bytes()).expect("a good sessionid");
            stage.relay.streams.runs(&name)
        };
        let expected = if fields == of_b { "b" } else { "a" };
        assert_eq!(runs(expected), status < 300, "{line} {fields}");
    }
}

/// The session that a refused source would publish, for readers of events.
#[test]
fn who_would_be_a_source_is_known_by_path_query_or_password() {
    let of_a = "Authorization: Basic OmE=\r\n";
    for (options, line, fields, expected) in [
        (&[][..], "PUT /stream/s", "", Some("s")),
        (&[], "POST /stream/s", "", Some("s")),
        (&[], "PUT /stream?sessionid=s", "", Some("s")),
        (&[], "PUT /stream?sessionid=s&x=1", "", None),
        (&[], "GET /stream/s", "", None),
        (&[], "PUT /stream/s/x", "", None),
        (&[], "PUT /other/s", "", None),
        (&[], "PUT /other/s", of_a, None),
        (&[], "PUT /stream/s", of_a, Some("s")),
        (&[ICECAST], "SOURCE /mount", of_a, Some("a")),
        (&[ICECAST], "PUT /mount", of_a, Some("a")),
        (&[ICECAST], "SOURCE /mount", "", None),
        (&[ICECAST], "PUT /stream/s", "", Some("s")),
    ] {
        let text = format!("{line} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
        let stage = Stage::new(options);
        let settings = stage.relay.ctx.settings();
        let head = crate::http::HeadReader::default().read(text.as_bytes(), &settings.limits.http);
        let (head, _) = head.expect("a good head").expect("all of it");
        let seen = published(&head, settings);
        let seen = seen.as_ref().map(SessionId::as_str);
        assert_eq!(seen, expected, "{line} {fields}");
    }
}

/// A connection beyond a limit learns nothing about streams.
#[test]
fn beyond_the_limit_there_are_no_streams() {
    for (line, fields, status) in [
        ("GET /stream/a", "", 503),
        ("GET /stream/a/index.m3u8", "", 503),
        ("GET /stream/index.m3u8?sessionid=a", "", 503),
        ("PUT /stream/a", "Content-Length: 9\r\n", 503),
        ("GET /watch/a", "", 503),
        ("GET /none", "", 503),
        ("GET /api/events", "", 503),
        ("GET /api/list-streams", "", 200),
        ("GET /healthz", "", 200),
        ("OPTIONS /stream/a", "", 204),
    ] {
        let mut stage = Stage::new(&["--connections=1", "--token-server=10.0.0.0/8"]);
        stage.client("");
        let id = ask(&mut stage, line, fields);
        stage.assert_status(id, status);
    }
}

/// A token could be revoked between the head and the end of a body. So what a token admits takes no
/// body.
#[test]
fn what_a_token_admits_is_not_decided_before_a_body_has_come() {
    let of_a = "Authorization: Basic OmE=\r\n";
    let title = "/admin/metadata?mode=updinfo&song=x";
    for (line, fields) in [
        ("GET /stream/a", ""),
        ("HEAD /stream/a", ""),
        ("GET /stream/a/live.ts", ""),
        ("GET /stream/a/index.m3u8", ""),
        ("GET /stream/a/now.json", ""),
        ("GET /stream/a/listen.m3u", ""),
        ("GET /watch/a", ""),
        (&format!("GET {title}"), of_a),
        ("GET /admin.cgi?mode=updinfo&song=x&pass=a", ""),
    ] {
        let mut stage = Stage::new(&[API, ICECAST]);
        let add = "POST /api/add-token?type=http&sessionid=a";
        ask(&mut stage, add, "");
        let head = "Content-Length: 999\r\nContent-Type: audio/mpeg\r\n";
        let source = ask(&mut stage, "PUT /stream/a", head);
        stage.send(source, "media");
        for (length, is_taken) in [("5", false), ("0", true)] {
            let id = ask(
                &mut stage,
                line,
                &format!("{fields}Content-Length: {length}\r\n"),
            );
            let is_bad = stage.text(id).starts_with("HTTP/1.1 400 ");
            assert_eq!(is_bad, !is_taken, "{line} {length}: {}", stage.text(id));
        }
    }
}
