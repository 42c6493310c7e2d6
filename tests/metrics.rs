//! `GET /metrics` and `GET /healthz`: for whom, in which form, and whether the figures are right.

mod support;

use std::collections::{HashMap, HashSet};

use support::client::{Client, request};
use support::server::Server;
use support::streaming::{Source, Viewer};

/// The samples by their names, labels included, each of which comes once; every family has said its
/// help and its type before, once, and its samples stand together.
fn metrics(server: &Server) -> HashMap<String, f64> {
    let response = server.request("GET", "/metrics");
    assert_eq!(
        response.head.field("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let text = response.text();
    let (mut helped, mut family) = ("", "");
    let mut families = HashSet::new();
    let mut samples = HashMap::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            helped = help.split(' ').next().expect("a name");
            assert!(families.insert(helped.to_owned()), "{helped} comes twice");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a name and a type");
            assert_eq!(name, helped);
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            family = name;
        } else {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            let sample = name.split('{').next().expect("a name");
            let of_family = sample.strip_prefix(family).expect("it is of its family");
            let parts: &[&str] = match family {
                "tollgate_turn_seconds" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            assert!(parts.contains(&of_family), "{line} is not of {family}");
            let value = value.parse().expect("a number");
            assert_eq!(samples.insert(name.to_owned(), value), None, "{line}");
        }
    }
    samples
}

#[test]
fn the_figures_are_those_of_what_happened() {
    let server = Server::gated(&[]);
    server.admit("a-secret");
    let mut source = Source::open(server.address(), "/stream/a-secret");
    let mut viewer = Viewer::ask(server.address(), "/stream/a-secret");
    server.await_viewers("a-secret", 1);
    source.send(b"ten bytes.");
    viewer.read(10);
    server.request("GET", "/nowhere").assert_problem(404, &[]);
    let metrics = metrics(&server);
    for (name, value) in [
        ("tollgate_streams", 1.0),
        ("tollgate_viewers", 1.0),
        ("tollgate_tokens", 1.0),
        ("tollgate_skips_total", 0.0),
        ("tollgate_refusals_total{status=\"404\"}", 1.0),
    ] {
        assert_eq!(metrics.get(name), Some(&value), "{name}");
    }
    assert!(metrics.keys().all(|name| !name.contains("secret")));
    let turns = &metrics["tollgate_turn_seconds_count"];
    assert_eq!(&metrics["tollgate_turn_seconds_bucket{le=\"+Inf\"}"], turns);
}

/// As the kernel counts them, while nobody comes or goes.
#[test]
fn descriptors_are_counted() {
    let server = Server::gated(&[]);
    let mut asking = Client::connect(server.address());
    let _idle: Vec<Client> = (0..20).map(|_| Client::connect(server.address())).collect();
    let counted = |asking: &mut Client| {
        let text = asking.request("GET", "/metrics", &[]).text();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("process_open_fds "));
        line.expect("a line").parse::<usize>().expect("a number")
    };
    let open = || {
        std::fs::read_dir(format!("/proc/{}/fd", server.pid()))
            .expect("its descriptors")
            .count()
    };
    support::until("all are accepted and counted", || {
        (counted(&mut asking) >= 21 && counted(&mut asking) == open()).then_some(())
    });
}

#[test]
fn figures_are_for_the_apis_hosts_and_health_for_anyone() {
    let server = Server::gated(&["--listen=127.0.0.1:0", "--listen=[::1]:0"]);
    let stranger = server.listeners[1];
    request(stranger, "GET", "/metrics", &[]).assert_problem(403, &[]);
    assert_eq!(request(stranger, "GET", "/healthz", &[]).status(), 200);
}
