//! The operator's page and the one on which a session is watched: for whom they are, and under
//! which policy.

use crate::support::client::request;
use crate::support::needs::lacks_ipv6;
use crate::support::response::Response;
use crate::support::server::Server;
use crate::support::streaming::{Source, Viewer};

#[test]
fn the_page_is_for_the_hosts_of_the_api() {
    if lacks_ipv6() {
        return;
    }
    let server = Server::gated(&["--listen=127.0.0.1:0", "--listen=[::1]:0"]);
    for address in &server.listeners {
        assert_eq!(request(*address, "GET", "/", &[]).status(), 200);
    }
    let page = server.request("GET", "/");
    assert_eq!(
        page.head.field("content-type"),
        Some("text/html; charset=utf-8")
    );
    let other = Server::start(&["--token-server=192.0.2.1"]);
    other
        .request("GET", "/")
        .assert_problem(404, &["this path does not exist"]);
    let browser = ["Accept: text/html,application/xhtml+xml,*/*;q=0.8"];
    let refused = request(other.address(), "GET", "/", &browser);
    assert_eq!(refused.status(), 404);
    assert_eq!(
        refused.head.field("content-type"),
        Some("text/html; charset=utf-8")
    );
    for words in ["your address is 127.0.0.1", "--token-server=127.0.0.1"] {
        assert!(refused.text().contains(words), "{words}");
    }
    let open = Server::start(&[]);
    assert_eq!(open.request("GET", "/").status(), 200);
}

/// A person who mistypes an address reads a page. Programs get a problem in JSON, and so does every
/// caller of the API.
#[test]
fn a_browser_gets_a_refusal_as_a_page() {
    let server = Server::gated(&[]);
    server.admit("idle");
    let browser = ["Accept: text/html,application/xhtml+xml,*/*;q=0.8"];
    for (path, status, words) in [
        ("/nothing/here", 404, "The address may be mistyped"),
        ("/stream/idle", 404, "the stream does not run now"),
        ("/stream/unknown", 403, "This link does not work"),
        ("/watch/", 400, "This link does not work"),
    ] {
        for method in ["GET", "HEAD"] {
            let refused = request(server.address(), method, path, &browser);
            assert_eq!(refused.status(), status, "{method} {path}");
            let kind = refused.head.field("content-type");
            assert_eq!(kind, Some("text/html; charset=utf-8"), "{method} {path}");
        }
        let page = request(server.address(), "GET", path, &browser).text();
        assert!(page.contains(words), "{path}: {page}");
        let problem = server.request("GET", path);
        problem.assert_problem(status, &[]);
    }
    server.add_token("sessionid=full&max-viewers=1");
    let mut source = Source::open(server.address(), "/stream/full");
    source.send(b"media");
    let mut first = Viewer::ask(server.address(), "/stream/full");
    first.head();
    for (path, status, title) in [
        ("/stream/full", 503, "All places are taken"),
        ("/stream/paused", 429, "Paused by the operator"),
    ] {
        if status == 429 {
            server.add_token("sessionid=paused");
            server.request("DELETE", "/api/abort-stream?sessionid=paused&block=60");
        }
        let refused = request(server.address(), "GET", path, &browser);
        assert_eq!(refused.status(), status, "{path}");
        assert!(refused.head.field("retry-after").is_some(), "{path}");
        let page = refused.text();
        assert!(page.contains(title), "{path}: {page}");
        server.request("GET", path).assert_problem(status, &[]);
    }
    for (method, path, status) in [
        ("GET", "/api/nothing", 404),
        ("PUT", "/stream/unknown", 403),
    ] {
        let fields = [browser[0], "Content-Length: 0"];
        request(server.address(), method, path, &fields).assert_problem(status, &[]);
    }
}

/// Also where the server decides late: after a wait, when the format is known, and by its limits.
#[test]
fn a_browser_gets_a_late_refusal_as_a_page() {
    let server = Server::start(&["--wait=1", "--connections-per-host=4"]);
    let mut source = Source::open(server.address(), "/stream/text");
    source.send(&b"no media at all ".repeat(2_000));
    let browser = ["Accept: text/html,application/xhtml+xml,*/*;q=0.8"];
    let refused = |path: &str, status: u16, words: &str| {
        let page = request(server.address(), "GET", path, &browser);
        assert_eq!(page.status(), status, "{path}");
        let kind = page.head.field("content-type");
        assert_eq!(kind, Some("text/html; charset=utf-8"), "{path}");
        let text = page.text();
        assert!(text.contains(words), "{path}: {text}");
        request(server.address(), "GET", path, &[]).assert_problem(status, &[]);
    };
    refused("/stream/text/live.mp4", 406, "not for browsers");
    refused("/stream/nobody", 404, "the stream does not run now");
    refused(
        "/stream/nobody/live.mp4",
        404,
        "the stream does not run now",
    );
    let viewers = [0; 3].map(|_| Viewer::ask(server.address(), "/stream/text"));
    refused("/stream/text", 429, "The stream cannot be reached now");
    drop(viewers);
}

fn policy(page: &Response) -> String {
    let field = page.head.field("content-security-policy");
    field.expect("a policy").to_owned()
}

/// Nothing runs in a page but its own script and style, each of which carries the number of this
/// answer's policy.
#[test]
fn the_pages_run_under_a_strict_policy() {
    let server = Server::start(&[]);
    for path in ["/", "/watch/tv"] {
        let (first, second) = (server.request("GET", path), server.request("GET", path));
        assert!(
            policy(&first).starts_with("default-src 'none';") && policy(&first) != policy(&second)
        );
        assert!(policy(&first).ends_with("frame-ancestors 'none'"));
        let nonce = policy(&first)
            .split("script-src 'nonce-")
            .nth(1)
            .and_then(|rest| rest.split('\'').next())
            .expect("a number")
            .to_owned();
        let text = first.text();
        assert!(
            text.contains(&format!("<script nonce=\"{nonce}\">"))
                && text.contains(&format!("<style nonce=\"{nonce}\">"))
        );
        assert_eq!(
            (
                text.matches("<script").count(),
                text.matches("<style").count()
            ),
            (1, 1)
        );
        for outside in [
            "src=\"http",
            "href=\"http",
            "@import",
            "style=\"",
            "onclick=\"",
        ] {
            assert!(!text.contains(outside), "{path}: {outside}");
        }
        for (name, value) in [
            ("content-type", "text/html; charset=utf-8"),
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
            ("x-content-type-options", "nosniff"),
        ] {
            assert_eq!(first.head.field(name), Some(value), "{path}: {name}");
        }
    }
}

/// The page is the same for a running and for a missing session. Without access it says no more
/// than the stream's own refusal.
#[test]
fn the_page_for_watching_has_the_status_that_its_stream_has() {
    let server = Server::gated(&[]);
    server.admit("waits");
    server.admit("runs");
    let mut source = Source::open(server.address(), "/stream/runs");
    source.send(b"hello");
    let added = server.request(
        "POST",
        "/api/add-token?type=http&sessionid=source&direction=in",
    );
    assert_eq!(added.status(), 201);
    let without_nonce = |page: &Response| {
        let text = page.text();
        let nonce = text
            .split("<style")
            .nth(1)
            .and_then(|rest| rest.split('>').next());
        text.replace(nonce.expect("a number"), "")
    };
    let page = without_nonce(&server.request("GET", "/watch/waits"));
    assert!(page.len() < 40 * 1024, "{} bytes", page.len());
    for name in ["waits", "runs", "source", "nobody"] {
        for path in [format!("/watch/{name}"), format!("/watch?sessionid={name}")] {
            let answer = server.request("GET", &path);
            let head = server.request("HEAD", &path);
            assert_eq!(head.status(), answer.status(), "{path}");
            assert_eq!(head.body, b"");
            if ["waits", "runs"].contains(&name) {
                assert_eq!(answer.status(), 200, "{path}");
                assert_eq!(without_nonce(&answer), page, "{path}");
                continue;
            }
            assert_eq!(answer.status(), 403, "{path}");
            let refused = server.request("GET", &format!("/stream/{name}"));
            assert_eq!(refused.status(), 403, "{path}");
            let refused = refused.text();
            let words = refused.split("\"detail\":\"").nth(1).expect("a detail");
            let words = words.trim_end_matches("\"}\n");
            assert!(answer.text().contains(words), "{path}: {words}");
            assert!(answer.body.len() < 4 * 1024, "it is a small one");
        }
    }
    let abort = server.request("DELETE", "/api/abort-stream?sessionid=runs&block=60");
    assert_eq!(abort.status(), 200);
    let blocked = server.request("GET", "/watch/runs");
    assert_eq!(blocked.status(), 429);
    assert_eq!(without_nonce(&blocked), page);
    assert!(blocked.head.field("retry-after").is_some());
}

/// Nothing of the API is for other hosts than the token server's; this is.
#[test]
fn the_page_for_watching_is_for_who_may_watch_from_wherever() {
    if lacks_ipv6() {
        return;
    }
    let server = Server::gated(&[
        "--forwarded-from=::1",
        "--listen=127.0.0.1:0",
        "--listen=[::1]:0",
    ]);
    server.admit("tv");
    let (proxy, other) = (server.listeners[1], "X-Forwarded-For: 192.0.2.7");
    assert_eq!(request(proxy, "GET", "/", &[other]).status(), 404);
    assert_eq!(request(proxy, "GET", "/watch/tv", &[other]).status(), 200);
    let elsewhere = [other, "Origin: http://elsewhere.example"];
    let answer = request(proxy, "GET", "/watch/tv", &elsewhere);
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.head.field("access-control-allow-origin"), None);
}

/// The source of a stream whose rest goes out is null: the page takes nothing of it unasked.
#[test]
fn the_page_takes_nothing_of_a_source_that_may_be_gone() {
    let page = Server::start(&[]).request("GET", "/").text();
    assert!(page.contains("source?.address"));
    for unasked in ["source.protocol", "source.address", "source.packets"] {
        assert!(!page.contains(unasked), "{unasked}");
    }
}
