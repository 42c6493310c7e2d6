//! `max-viewers` and HLS: an address counts as one viewer for a while.

use crate::support;
use crate::support::client::request;
use crate::support::encoder::{Encoder, Kind};
use crate::support::response::Response;
use crate::support::server::Server;
use crate::support::streaming::Source;

/// A proxy on this host says from where somebody asks.
const PROXIED: &[&str] = &["--forwarded-from=127.0.0.1"];

fn add(server: &Server, query: &str) {
    // A proxy that passes on the Host of its clients.
    let target = format!("http://127.0.0.1:9/api/add-token?type=http&{query}");
    let response = request(
        server.address(),
        "POST",
        &target,
        &["X-Forwarded-For: 127.0.0.9"],
    );
    assert_eq!(response.status(), 201, "{}", response.text());
}

fn get(server: &Server, from: &str, target: &str) -> Response {
    let field = format!("X-Forwarded-For: {from}");
    request(server.address(), "GET", target, &[&field])
}

fn start(options: &[&str]) -> (Server, Source) {
    let own = ["--token-server=127.0.0.0/8"];
    let server = Server::start(&[&own, PROXIED, options].concat());
    add(&server, "sessionid=send&for=show&direction=in");
    add(
        &server,
        "sessionid=one&for=show&direction=out&max-viewers=2",
    );
    add(&server, "sessionid=two&for=show&direction=out");
    let field = ["X-Forwarded-For: 127.0.0.9"];
    let mut source = Source::open_with(server.address(), "PUT", "/stream/send", &field);
    source.send(&Encoder::new(Kind::Ts).run(11.0));
    support::until("there is a playlist", || {
        let list = get(&server, "192.0.2.99", "/stream/two/index.m3u8");
        (list.status() == 200 && list.text().matches("#EXTINF").count() > 2).then_some(())
    });
    (server, source)
}

#[test]
fn so_many_addresses_watch_by_a_key() {
    let (server, _source) = start(&[]);
    let list = "/stream/one/index.m3u8";
    let first = get(&server, "192.0.2.1", list);
    assert_eq!(first.status(), 200, "{}", first.text());
    let text = first.text();
    let segment = text
        .lines()
        .find(|line| !line.starts_with('#'))
        .expect("a segment");
    let segment = format!("/stream/one/{segment}");
    // It counts as one viewer for any number and kind of requests.
    for target in [list, &segment, list, &segment] {
        assert_eq!(get(&server, "192.0.2.1", target).status(), 200, "{target}");
    }
    assert_eq!(get(&server, "192.0.2.2", list).status(), 200);
    for target in [list, &segment] {
        let third = get(&server, "192.0.2.3", target);
        third.assert_problem(503, &["max-viewers"]);
        assert!(third.head.field("Retry-After").is_some());
    }
    // A counted address stays, and an HTTP viewer finds the limit reached.
    assert_eq!(get(&server, "192.0.2.1", &segment).status(), 200);
    get(&server, "192.0.2.3", "/stream/one").assert_problem(503, &["max-viewers"]);
    // By a key that nobody counts anybody may.
    for last in 0..20 {
        let other = get(
            &server,
            &format!("192.0.2.{last}"),
            "/stream/two/index.m3u8",
        );
        assert_eq!(other.status(), 200);
    }
}
