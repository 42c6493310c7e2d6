//! The operator's page: for whom it is, and under which policy.
#![cfg(feature = "page")]

mod support;

use support::client::request;
use support::server::Server;

#[test]
fn the_page_is_for_the_hosts_of_the_api() {
    let server = Server::gated(&["--listen=127.0.0.1:0", "--listen=[::1]:0"]);
    let page = server.request("GET", "/");
    assert_eq!(page.status(), 200);
    assert_eq!(
        page.head.field("content-type"),
        Some("text/html; charset=utf-8")
    );
    request(server.listeners[1], "GET", "/", &[]).assert_problem(404, &["nothing"]);
    let open = Server::start(&[]);
    assert_eq!(open.request("GET", "/").status(), 200);
}

/// Nothing runs in it but its own script and style, each of which carries the number of this
/// answer's policy.
#[test]
fn the_page_runs_under_a_strict_policy() {
    let server = Server::start(&[]);
    let (first, second) = (server.request("GET", "/"), server.request("GET", "/"));
    let policy = |page: &support::response::Response| {
        page.head
            .field("content-security-policy")
            .expect("a policy")
            .to_owned()
    };
    assert!(policy(&first).starts_with("default-src 'none';") && policy(&first) != policy(&second));
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
    for outside in ["src=\"http", "href=\"http", "@import", "style=\""] {
        assert!(!text.contains(outside), "{outside}");
    }
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
