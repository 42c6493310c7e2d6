//! `--wait`: viewers who come before their session runs.

use crate::support::client::Client;
use crate::support::media::media;
use crate::support::server::Server;
use crate::support::streaming::{Source, Viewer};
use crate::support::until;

fn await_waiting(server: &Server, count: u64) {
    server.await_figure("tollgate_waiting_viewers", count);
}

#[test]
fn early_viewers_get_the_stream_from_its_first_byte() {
    let server = Server::gated(&["--wait=60"]);
    server.admit("demo");
    let mut viewers = [(); 3].map(|()| Viewer::ask(server.address(), "/stream/demo"));
    await_waiting(&server, 3);
    let media = media(1, 100_000);
    let mut source = Source::open(server.address(), "/stream/demo");
    source.send(&media);
    assert_eq!(source.finish().status(), 200);
    for viewer in &mut viewers {
        viewer.assert_rest(&media);
    }
    await_waiting(&server, 0);
}

#[test]
fn a_session_that_does_not_begin_is_not_found_in_the_end() {
    let server = Server::gated(&["--wait=0.2"]);
    server.admit("demo");
    let mut client = Client::connect(server.address());
    let refused = client.request("GET", "/stream/demo", &[]);
    refused.assert_problem(404, &["does not run"]);
    client.assert_usable();
}

#[test]
fn who_may_not_watch_does_not_wait_and_a_head_is_answered_at_once() {
    let server = Server::gated(&["--wait=3600"]);
    server.admit("demo");
    assert_eq!(server.request("GET", "/stream/other").status(), 403);
    assert_eq!(server.request("HEAD", "/stream/demo").status(), 404);
}

/// A server, and a viewer that waits.
fn with_a_waiting_viewer() -> (Server, Client) {
    let server = Server::gated(&["--wait=60"]);
    server.admit("demo");
    let mut viewer = Client::connect(server.address());
    viewer.send_head("GET", "/stream/demo", &[]);
    await_waiting(&server, 1);
    (server, viewer)
}

#[test]
fn a_token_that_is_revoked_meanwhile_ends_the_wait_badly() {
    let (server, mut viewer) = with_a_waiting_viewer();
    server.request("DELETE", "/api/revoke-token?sessionid=demo");
    server.request(
        "POST",
        "/api/add-token?type=http&sessionid=demo&direction=in",
    );
    let _source = Source::open(server.address(), "/stream/demo");
    viewer.response("GET").assert_problem(403, &["token"]);
}

#[test]
fn a_revocation_that_aborts_ends_the_wait_at_once() {
    let (server, mut viewer) = with_a_waiting_viewer();
    server.request("DELETE", "/api/revoke-token?sessionid=demo&abort=true");
    viewer.response("GET").assert_problem(403, &["token"]);
}

#[test]
fn nothing_is_held_for_those_who_give_up() {
    let server = Server::gated(&["--wait=60"]);
    server.admit("demo");
    let viewers = [(); 20].map(|()| Viewer::ask(server.address(), "/stream/demo"));
    await_waiting(&server, 20);
    drop(viewers);
    await_waiting(&server, 0);
}

/// Requests that are sent ahead, more of them than are read, keep nobody's place.
#[test]
fn who_is_gone_is_not_held_for_what_it_sent_ahead() {
    let server = Server::gated(&["--wait=60"]);
    server.admit("early");
    server.admit("runs");
    let _source = Source::open(server.address(), "/stream/runs");
    // Always by the same connection: that of a request before may still be counted.
    let mut caller = Client::connect(server.address());
    let mut await_connections = |count: usize| {
        let line = format!("tollgate_connections {count}");
        until(&line, || {
            let metrics = caller.request("GET", "/metrics", &[]).text();
            metrics.lines().find(|each| *each == line).map(|_| ())
        });
    };
    // The source's and the caller's.
    await_connections(2);
    for target in ["/stream/early", "/stream/runs", "/api/events"] {
        let mut client = Client::connect(server.address());
        client.send_head("GET", target, &[]);
        client.send("GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n".repeat(500));
        await_connections(3);
        drop(client);
        await_connections(2);
    }
}
