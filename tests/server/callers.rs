//! Callers of the API: which may call it, and that a refused call changes nothing.

use crate::support::client::{Client, request};
use crate::support::needs::lacks_ipv6;
use crate::support::server::{LOOPBACK, Server};
use crate::support::streaming::{Source, Viewer};
use serde_json::{Value, json};

#[test]
fn checks_come_in_their_order() {
    let inside = Server::gated(&[]);
    let outside = Server::start(&["--token-server=10.0.0.0/8"]);
    let refused = |server: &Server, request: &str, status: u16| {
        let mut client = Client::connect(server.address());
        client.send(request);
        let response = client.response("GET");
        assert_eq!(
            response.status(),
            status,
            "{request:?}: {}",
            response.text()
        );
    };
    let both = "Content-Length: 1\r\nTransfer-Encoding: gzip\r\n\r\n";
    refused(
        &inside,
        &format!("GET /nowhere HTTP/2.0\r\nHost: h\r\n{both}"),
        400,
    );
    refused(
        &inside,
        "GET /nowhere HTTP/2.0\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n",
        501,
    );
    refused(&inside, "PATCH /nowhere HTTP/2.0\r\nHost: h\r\n\r\n", 505);
    refused(&inside, "PATCH /nowhere HTTP/1.1\r\nHost: h\r\n\r\n", 404);
    refused(
        &inside,
        "PATCH /stream/%00 HTTP/1.1\r\nHost: h\r\n\r\n",
        405,
    );
    refused(
        &outside,
        "PATCH /api/add-token?typo=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        405,
    );
    refused(
        &outside,
        "POST /api/add-token?typo=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        403,
    );
    let stranger = "Origin: http://elsewhere.example\r\n\r\n";
    refused(
        &inside,
        &format!("POST /api/add-token?typo=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n{stranger}"),
        403,
    );
    refused(
        &inside,
        "POST /api/add-token?typo=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        400,
    );
    refused(&inside, "PUT /stream/%00 HTTP/1.1\r\nHost: h\r\n\r\n", 400);
    refused(&inside, "PUT /stream/a HTTP/1.1\r\nHost: h\r\n\r\n", 403);
    inside.admit("a");
    refused(&inside, "PUT /stream/a HTTP/1.1\r\nHost: h\r\n\r\n", 411);
    let _source = Source::open(inside.address(), "/stream/a");
    refused(&inside, "PUT /stream/a HTTP/1.1\r\nHost: h\r\n\r\n", 411);
    refused(
        &inside,
        "PUT /stream/a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n",
        409,
    );
}

#[test]
fn other_paths_are_404_and_other_methods_405_with_those_that_are_right() {
    let server = Server::gated(&[]);
    for target in [
        "/nowhere",
        "/api/add-tokens",
        "/api/list-tokens/x",
        "/api/api/list-tokens",
    ] {
        println!("{target}");
        server.request("GET", target).assert_problem(404, &[]);
    }
    for target in ["/api", "/api/", "/api/openapi.json"] {
        let calls = &server.request("GET", target).json()["paths"];
        assert!(calls["/api/add-token"].is_object(), "{target}");
    }
    let allowed: &[(&str, &[&str])] = &[
        ("/api/add-token", &["OPTIONS", "POST"]),
        ("/api/revoke-token", &["DELETE", "OPTIONS"]),
        ("/api/abort-stream", &["DELETE", "OPTIONS"]),
        ("/api/list-tokens", &["GET", "HEAD", "OPTIONS"]),
        ("/api/list-streams", &["GET", "HEAD", "OPTIONS"]),
        ("/list-streams", &["GET", "HEAD", "OPTIONS"]),
        ("/stream/demo", &["GET", "HEAD", "OPTIONS", "POST", "PUT"]),
        ("/stream", &["GET", "HEAD", "OPTIONS", "POST", "PUT"]),
    ];
    for (target, methods) in allowed {
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "BREW"] {
            if methods.contains(&method) {
                continue;
            }
            let response = server.request(method, target);
            println!("{method} {target}");
            response.assert_problem(405, &[]);
            assert_eq!(response.head.allowed(), *methods, "{method} {target}");
        }
        let options = server.request("OPTIONS", target);
        assert!(
            matches!(options.status(), 200 | 204),
            "{target}: {}",
            options.status()
        );
        assert_eq!(options.head.allowed(), *methods, "OPTIONS {target}");
    }
}

#[test]
fn without_a_token_server_every_call_says_how_to_turn_the_gate_on() {
    let server = Server::start(&[]);
    for (method, target) in [
        ("POST", "/api/add-token?type=http&sessionid=a"),
        ("DELETE", "/api/revoke-token?sessionid=a"),
        ("GET", "/api/list-tokens"),
        ("DELETE", "/api/abort-stream?sessionid=a"),
        ("DELETE", "/api/kick-viewer?id=00000001-2"),
        ("POST", "/api/set-title?sessionid=a&title=t"),
        ("GET", "/list-tokens"),
    ] {
        server
            .request(method, target)
            .assert_problem(403, &["needs tokens, which are off", "--token-server"]);
    }
}

/// The host that runs an open relay sees its streams and viewers. Other hosts, other sites' pages
/// and requests through a proxy do not.
#[test]
fn an_open_relay_shows_its_streams_to_its_own_host() {
    let server = Server::start(&["--forwarded-from=127.0.0.2"]);
    let mut source = Source::open(server.address(), "/stream/tv");
    source.send(b"hello");
    let mut viewer = Viewer::ask(server.address(), "/stream/tv");
    viewer.head();
    for (target, rows) in [("/api/list-streams", 1), ("/api/list-viewers", 1)] {
        let shown = server.request("GET", target);
        assert_eq!(shown.status(), 200, "{target}");
        let shown = shown.json();
        assert_eq!(shown.as_array().map(Vec::len), Some(rows), "{target}");
        for fields in [
            &["Via: 1.1 proxy"][..],
            &["X-Forwarded-For: 127.0.0.1"],
            &["Origin: http://other.example"],
            &["Sec-Fetch-Site: cross-site"],
        ] {
            let refused = request(server.address(), "GET", target, fields);
            assert_eq!(refused.status(), 403, "{fields:?} {target}");
        }
    }
    let mut rebound = Client::connect(server.address());
    rebound.send("GET /api/list-streams HTTP/1.1\r\nHost: rebound.example\r\n\r\n");
    assert_eq!(rebound.response("GET").status(), 403);
}

#[test]
fn callers_outside_the_subnet_grant_and_revoke_nothing() {
    if lacks_ipv6() {
        return;
    }
    let server = Server::start(&[
        LOOPBACK,
        "--forwarded-from=::1",
        "--listen=127.0.0.1:0",
        "--listen=[::1]:0",
    ]);
    server.admit("mine");
    let outside = server.listeners[1];
    let elsewhere = Server::start(&["--token-server=10.0.0.0/8"]);
    for (method, target) in [
        ("POST", "/api/add-token?type=http&sessionid=theirs"),
        ("DELETE", "/api/revoke-token?sessionid=mine"),
        ("GET", "/api/list-tokens"),
        ("GET", "/api/list-streams"),
        ("DELETE", "/api/abort-stream?sessionid=mine"),
        ("POST", "/add-token?type=http&sessionid=theirs"),
    ] {
        for client in ["192.0.2.7", "127.0.0.1, 192.0.2.7"] {
            let field = format!("X-Forwarded-For: {client}");
            request(outside, method, target, &[&field])
                .assert_problem(403, &["only hosts in the subnet of --token-server"]);
        }
        // This host is in no such subnet, and no proxy of the server's. Who comes through a proxy here
        // is not told the subnets.
        for (fields, is_told) in [(&["X-Forwarded-For: 10.0.0.1"][..], false), (&[], true)] {
            let refused = request(elsewhere.address(), method, target, fields);
            refused.assert_problem(403, &["your address is 127.0.0.1"]);
            let text = refused.text();
            assert_eq!(
                text.contains("add --token-server=127.0.0.1"),
                is_told,
                "{text}"
            );
        }
    }
    assert_eq!(
        server.tokens(),
        [json!({"sessionid": "mine", "host": null, "port": null})]
    );
}

/// Browsers take `localhost` for ::1 first. The other addresses of this host stay others, and a
/// proxy's address never stands for its clients.
#[test]
fn the_two_loopback_addresses_are_one_host() {
    if lacks_ipv6() {
        return;
    }
    let listeners = [
        "--listen=127.0.0.1:0",
        "--listen=[::1]:0",
        "--listen=[::]:0",
    ];
    let port = |server: &Server| server.listeners[2].port();
    for (options, statuses) in [
        (&["--token-server=127.0.0.1/32"][..], [200, 200, 200]),
        (&["--token-server=::1"], [200, 200, 200]),
        (&["--token-server=127.0.0.0/8"], [200, 200, 200]),
        (&["--token-server=127.0.0.2"], [403, 403, 403]),
        (&["--token-server=10.0.0.0/8"], [403, 403, 403]),
        (
            &["--token-server=127.0.0.1", "--forwarded-from=127.0.0.1"],
            [403, 403, 403],
        ),
        (
            &["--token-server=127.0.0.1", "--forwarded-from=::1"],
            [200, 403, 200],
        ),
        (
            &["--token-server=::1", "--forwarded-from=127.0.0.1"],
            [403, 200, 403],
        ),
    ] {
        let server = Server::start(&[options, &listeners].concat());
        let mapped = std::net::SocketAddr::from(([127, 0, 0, 1], port(&server)));
        let addresses = [server.listeners[0], server.listeners[1], mapped];
        for (address, status) in addresses.into_iter().zip(statuses) {
            let answer = request(address, "GET", "/api/list-tokens", &[]);
            assert_eq!(
                answer.status(),
                status,
                "{options:?} {address}: {}",
                answer.text()
            );
        }
    }
}

#[test]
fn pages_of_other_sites_do_not_reach_the_api() {
    let server = Server::gated(&[]);
    let port = server.address().port();
    let call = |host: &str, origin: &str| {
        let mut client = Client::connect(server.address());
        client.send(format!(
            "POST /api/add-token?type=http&sessionid=a HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\n\r\n"
        ));
        client.response("POST")
    };
    let own = format!("127.0.0.1:{port}");
    let local = format!("localhost:{port}");
    let rebound = format!("rebound.example:{port}");
    for (host, origin) in [
        (&own, "http://elsewhere.example".to_owned()),
        (&own, "null".to_owned()),
        (&own, String::new()),
        (&own, format!("https://{own}")),
        (&own, format!("http://{local}")),
        (&own, "http://127.0.0.1:1".to_owned()),
        (&own, format!("http://{own}.elsewhere.example")),
        (&own, format!("http://{own}, http://elsewhere.example")),
    ] {
        println!("{host} {origin}");
        call(host, &origin).assert_problem(403, &["Origin"]);
    }
    // A name that was made to point here is not the server's, even where Host agrees.
    call(&rebound, &format!("http://{rebound}")).assert_problem(403, &["Host", "--hostname"]);
    assert_eq!(server.tokens(), [] as [Value; 0]);
    assert_eq!(call(&own, &format!("http://{own}")).status(), 201);
    assert_eq!(call(&local, &format!("http://{local}")).status(), 200);
}

#[test]
fn a_payload_is_ignored_up_to_64_kib_and_never_taken_for_a_request() {
    let server = Server::gated(&[]);
    let smuggled = "DELETE /api/revoke-token?sessionid=a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    let mut payload = smuggled.repeat(65_536 / smuggled.len() + 1);
    payload.truncate(65_536);
    let mut client = Client::connect(server.address());
    for framing in ["Content-Length: 65536", "Transfer-Encoding: chunked"] {
        client.send_head("POST", "/api/add-token?type=http&sessionid=a", &[framing]);
        match framing.starts_with("Transfer") {
            true => client.send(format!("10000\r\n{payload}\r\n0\r\n\r\n")),
            false => client.send(&payload),
        }
        let response = client.response("POST");
        assert!(
            matches!(response.status(), 200 | 201),
            "{framing}: {}",
            response.text()
        );
        client.assert_usable();
    }
    assert_eq!(server.tokens().len(), 1);
}
