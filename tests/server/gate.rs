//! Ways around the gate: a rebound host name, a page in somebody else's browser, a proxy that does
//! not name its client, and a stream that poses as a page.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::support::client::{Client, request};
use crate::support::response::{Head, Response};
use crate::support::server::Server;
use crate::support::streaming::{Source, Viewer};
use crate::support::until;

/// A request with these fields and no others.
fn bare(server: &Server, method: &str, target: &str, version: &str, fields: &[&str]) -> Response {
    let mut client = Client::connect(server.address());
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    client.send(format!("{method} {target} HTTP/{version}\r\n{fields}\r\n"));
    client.response(method)
}

#[track_caller]
fn assert_no_document(head: &Head, media_type: &str) {
    assert_eq!(head.field("Content-Type"), Some(media_type));
    // The whole of it: any word more (`allow-scripts`, a `script-src`) would let something run.
    assert_eq!(
        head.field("Content-Security-Policy"),
        Some("sandbox allow-same-origin; default-src 'none'; media-src 'self'")
    );
    assert_eq!(head.field("X-Content-Type-Options"), Some("nosniff"));
}

const PAGE: &[u8] = b"<!doctype html><script>fetch('/api/list-tokens')</script>";
const DOCUMENTS: &[&str] = &[
    "text/html",
    "TEXT/HTML; charset=utf-8",
    "application/xhtml+xml",
    "image/svg+xml",
    "video/svg+xml",
    "video/x+xml",
    "text/xml",
    "text/plain",
    "application/pdf",
    "multipart/x-mixed-replace; boundary=x",
];

#[test]
fn a_stream_goes_out_as_no_document_whatever_its_source_says() {
    let server = Server::gated(&["--icecast"]);
    server.admit("demo");
    let credentials = "Authorization: Basic c291cmNlOmRlbW8=";
    for (given, sent) in [
        ("video/webm; codecs=\"vp8\"", "video/webm; codecs=\"vp8\""),
        (
            "application/vnd.apple.mpegurl",
            "application/vnd.apple.mpegurl",
        ),
    ]
    .into_iter()
    .chain(
        DOCUMENTS
            .iter()
            .map(|given| (*given, "application/octet-stream")),
    ) {
        let field = format!("Content-Type: {given}");
        for (method, fields) in [("PUT", vec![&*field]), ("PUT", vec![&*field, credentials])] {
            let mut source = Source::open_with(server.address(), method, "/stream/demo", &fields);
            source.send(PAGE);
            let mut viewer = Viewer::ask(server.address(), "/stream/demo");
            assert_no_document(&viewer.head(), sent);
            assert_no_document(&server.request("HEAD", "/stream/demo").head, sent);
            let listed = server.stream("demo").expect("it runs");
            assert_eq!(listed["content_type"], sent, "{given}");
            assert_eq!(source.finish().status(), 200);
            server.await_end_of_stream("demo");
        }
    }
}

#[test]
fn a_stream_goes_out_as_no_document_whatever_its_origin_says() {
    let origin = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = origin.local_addr().expect("its address");
    let edge = Server::start(&[&format!("--origin=http://{address}")]);
    for (number, given) in DOCUMENTS.iter().enumerate() {
        let mut viewer = Viewer::ask(edge.address(), &format!("/stream/{number}"));
        let (mut asked, _) = origin.accept().expect("it asks");
        let _ = asked.read(&mut [0; 4096]).expect("a request");
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Type: {given}\r\n\r\n");
        asked.write_all(answer.as_bytes()).expect("taken");
        asked.write_all(PAGE).expect("taken");
        assert_no_document(&viewer.head(), "application/octet-stream");
    }
}

#[test]
fn the_api_answers_under_names_of_its_own_only() {
    let server = Server::gated(&[]);
    let named = Server::gated(&["--hostname=gate.example"]);
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let own = format!("Host: {}:8000", own.trim());
    let targets = [
        "/api/list-tokens",
        "/list-tokens",
        "/metrics",
        "/api/openapi.json",
        "/",
    ];
    for target in targets {
        let ask = |server: &Server, host: &str| bare(server, "GET", target, "1.1", &[host]);
        for host in [
            "Host: rebound.example",
            "Host: rebound.example:8000",
            "Host: localhost.rebound.example",
            "Host: 127.0.0.1.rebound.example",
            "Host: 127.1",
            "Host: 0x7f000001",
            "Host: localhost.",
            "Host:",
        ] {
            println!("{target} {host}");
            ask(&server, host).assert_problem(403, &["--hostname"]);
            ask(&named, host).assert_problem(403, &["--hostname"]);
        }
        // Nothing is said of a name: that is none.
        bare(&server, "GET", target, "1.0", &[]).assert_problem(403, &["--hostname"]);
        for host in [
            "Host: 192.0.2.1",
            "Host: [::1]:8000",
            "Host: LocalHost",
            own.as_str(),
        ] {
            println!("{target} {host}");
            assert_eq!(ask(&server, host).status(), 200);
            assert_eq!(ask(&named, host).status(), 200);
        }
        assert_eq!(ask(&named, "Host: Gate.Example:1").status(), 200);
        ask(&server, "Host: gate.example").assert_problem(403, &["--hostname"]);
    }
    let health = bare(
        &server,
        "GET",
        "/healthz",
        "1.1",
        &["Host: rebound.example"],
    );
    assert_eq!(health.status(), 200);
    let target = "/api/add-token?type=http&sessionid=a";
    bare(&server, "POST", target, "1.1", &["Host: rebound.example"]).assert_problem(403, &[]);
    assert_eq!(server.tokens().len(), 0);
}

/// Sends the request of a browser for such a page, and returns the answer.
fn publish(server: &Server, method: &str, fields: &[&str]) -> u16 {
    let length = [
        "Content-Type: text/plain",
        "Content-Length: 0",
        "Connection: close",
    ];
    let response = bare(
        server,
        method,
        "/stream/demo",
        "1.1",
        &[fields, &length].concat(),
    );
    response.status()
}

#[test]
fn pages_of_other_sites_publish_nothing() {
    let server = Server::start(&["--publish-from=127.0.0.1", "--icecast"]);
    let named = Server::start(&["--cors=http://site.example"]);
    let open = Server::start(&["--cors=*"]);
    let own_host = &*format!("Host: {}", server.address());
    let own_origin = &*format!("Origin: http://{}", server.address());
    let credentials = "Authorization: Basic c291cmNlOmRlbW8=";
    for method in ["POST", "PUT", "SOURCE"] {
        for fields in [
            &[own_host, "Origin: http://site.example"][..],
            &[own_host, "Origin: null"],
            &[own_host, "Origin: http://127.0.0.1:1"],
            &["Host: rebound.example", "Origin: http://rebound.example"],
            &[own_host, "Sec-Fetch-Site: cross-site"],
            &[own_host, "Sec-Fetch-Site: same-site"],
            &["Host: h", "Sec-Fetch-Site: none", "Sec-Fetch-Site: none"],
        ] {
            println!("{method} {fields:?}");
            assert_eq!(
                publish(&server, method, &[fields, &[credentials]].concat()),
                403
            );
        }
        let admitted = [
            &[own_host, own_origin][..],
            &["Host: h", "Sec-Fetch-Site: same-origin"],
            &["Host: h"],
        ];
        for fields in admitted {
            println!("{method} {fields:?}");
            assert_eq!(
                publish(&server, method, &[fields, &[credentials]].concat()),
                200
            );
        }
    }
    let site = [
        "Host: h",
        "Origin: http://site.example",
        "Sec-Fetch-Site: cross-site",
    ];
    assert_eq!(publish(&named, "POST", &site), 200);
    assert_eq!(
        publish(&named, "POST", &["Host: h", "Origin: http://other.example"]),
        403
    );
    assert_eq!(
        publish(&open, "POST", &site),
        403,
        "any site's page may watch, and no more"
    );
    assert_eq!(open.request("GET", "/stream/demo").status(), 404);
}

#[test]
fn no_page_of_another_site_is_told_what_the_api_knows() {
    let server = Server::gated(&[]);
    for target in ["/api/list-tokens", "/metrics", "/api/openapi.json"] {
        for site in ["cross-site", "same-site", "SAME-ORIGIN", ""] {
            let field = format!("Sec-Fetch-Site: {site}");
            request(server.address(), "GET", target, &[&field]).assert_problem(403, &["Origin"]);
        }
        let answer = request(
            server.address(),
            "GET",
            target,
            &["Sec-Fetch-Site: same-origin"],
        );
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.head.field("X-Content-Type-Options"), Some("nosniff"));
    }
    // A link may lead to the page.
    let linked = request(
        server.address(),
        "GET",
        "/",
        &["Sec-Fetch-Site: cross-site"],
    );
    assert_eq!(linked.status(), 200);
}

/// A browser's preflight gets the same decision as the page's own request.
#[test]
fn a_browser_that_asks_first_is_told_whose_pages_may() {
    let ask = |server: &Server, target: &str, origin: &str| {
        let origin = format!("Origin: {origin}");
        let fields = [&*origin, "Access-Control-Request-Method: GET"];
        let answer = request(server.address(), "OPTIONS", target, &fields);
        assert_eq!(answer.status(), 204);
        let field = |name: &str| answer.head.field(name).map(str::to_owned);
        let names = ["Origin", "Methods", "Headers"];
        names.map(|name| field(&format!("Access-Control-Allow-{name}")))
    };
    let methods = "GET, HEAD, PUT, POST, OPTIONS";
    let named = Server::start(&["--cors=http://site.example"]);
    let open = Server::start(&["--cors=*"]);
    let told = |origin: &str| [origin, methods, "*"].map(|value| Some(value.to_owned()));
    let site = "http://site.example";
    assert_eq!(ask(&named, "/stream/demo", site), told(site));
    assert_eq!(ask(&open, "/stream/demo", site), told("*"));
    for (server, target, origin) in [
        (&named, "/stream/demo", "http://other.example"),
        (&named, "/api/list-tokens", site),
        (&open, "/api/list-tokens", site),
        (&open, "/metrics", site),
    ] {
        assert_eq!(ask(server, target, origin), [None, None, None], "{target}");
    }
}

/// A cache gives one answer to all who ask for an address: it has to be good for the pages of every
/// site, or to say that it is not the same for all.
#[test]
fn what_a_cache_keeps_is_good_for_the_pages_of_every_site() {
    let site = "http://site.example";
    let one = Server::start(&["--cors=http://site.example"]);
    let any = Server::start(&["--cors=http://site.example", "--cors=*"]);
    let two = Server::start(&["--cors=http://site.example", "--cors=http://else.example"]);
    let none = Server::start(&[]);
    let told = |server: &Server, method: &str, origin: Option<&str>| {
        let field = origin.map(|origin| format!("Origin: {origin}"));
        let fields: Vec<&str> = field.iter().map(String::as_str).collect();
        let answer = request(server.address(), method, "/stream/demo", &fields);
        ["Access-Control-Allow-Origin", "Vary"]
            .map(|name| answer.head.field(name).map(str::to_owned))
    };
    let text = |text: &str| Some(text.to_owned());
    for method in ["GET", "HEAD"] {
        for origin in [None, Some(site), Some("http://other.example")] {
            println!("{method} {origin:?}");
            assert_eq!(told(&one, method, origin), [text(site), None]);
            assert_eq!(told(&any, method, origin), [text("*"), None]);
            assert_eq!(told(&none, method, origin), [None, None]);
            let own = origin.filter(|origin| *origin == site).and_then(text);
            assert_eq!(told(&two, method, origin), [own, text("Origin")]);
        }
    }
}

#[test]
fn who_comes_by_a_proxy_that_names_nobody_is_nobody() {
    let server = Server::start(&[
        "--token-server=127.0.0.0/8",
        "--forwarded-from=127.0.0.1",
        "--publish-from=127.0.0.0/8",
    ]);
    server_for_nobody(&server, "");
    let field = ["X-Forwarded-For: 127.0.0.9"];
    // A proxy that passes on the Host of its clients.
    let add = "http://127.0.0.1:9/api/add-token?type=http&sessionid=demo";
    assert_eq!(request(server.address(), "POST", add, &field).status(), 201);
    let server = Server::gated(&["--proxy-protocol=127.0.0.1", "--publish-from=127.0.0.0/8"]);
    server_for_nobody(&server, "PROXY UNKNOWN\r\n");
}

fn server_for_nobody(server: &Server, beginning: &str) {
    let ask = |method: &str, target: &str, fields: &[&str]| {
        let mut client = Client::connect(server.address());
        client.send(beginning);
        client.request(method, target, fields)
    };
    let says = ["the proxy in front does not name"];
    ask("GET", "/api/list-tokens", &[]).assert_problem(403, &says);
    ask("POST", "/api/add-token?type=http&sessionid=demo", &[]).assert_problem(403, &says);
    ask("GET", "/metrics", &[]).assert_problem(403, &says);
    ask("GET", "/", &[]).assert_problem(404, &[]);
    ask("PUT", "/stream/demo", &["Content-Length: 0"]).assert_problem(403, &says);
    ask("GET", "/stream/demo", &[]).assert_problem(403, &says);
    // Proxies ask this for themselves.
    assert_eq!(ask("GET", "/healthz", &[]).status(), 200);
    assert_eq!(ask("GET", "/nowhere", &[]).status(), 404);
}

/// Strangers behind the operator's own proxy take every connection: some send nothing, others send
/// requests.
#[test]
fn strangers_behind_a_proxy_do_not_keep_the_operator_out() {
    for (option, is_field) in [
        ("--forwarded-from=127.0.0.1", true),
        ("--proxy-protocol=127.0.0.1", false),
    ] {
        let server = Server::start(&["--token-server=192.0.2.7", option, "--connections=2"]);
        let connect = |client: &str, asks: bool| {
            let mut connection = Client::connect(server.address());
            if !is_field && asks {
                connection.try_send(format!("PROXY TCP4 {client} 127.0.0.1 4711 80\r\n"));
            }
            let field = match is_field {
                true => format!("X-Forwarded-For: {client}\r\n"),
                false => String::new(),
            };
            if asks {
                let target = "/api/list-tokens";
                connection.try_send(format!(
                    "GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n{field}\r\n"
                ));
            }
            connection
        };
        let mut strangers = Vec::new();
        for round in 0..6 {
            for number in 0..40 {
                strangers.push(connect("198.51.100.7", number % 2 == round % 2));
            }
            let mut operator = connect("192.0.2.7", true);
            let response = operator.response("GET");
            assert_eq!(response.status(), 200, "{option}: {}", response.text());
        }
        until("the server still answers", || {
            (connect("192.0.2.7", true).response("GET").status() == 200).then_some(())
        });
    }
}
