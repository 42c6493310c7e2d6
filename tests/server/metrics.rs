//! `GET /metrics` and `GET /healthz`: for whom, in which form, and whether the figures are right.

use crate::support;
use std::collections::{HashMap, HashSet};

use crate::support::client::Client;
use crate::support::server::Server;
use crate::support::streaming::{Source, Viewer};

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

/// What may ever be counted is there from the start, so that its first rise is one.
#[test]
fn counters_are_there_from_the_start() {
    let server = Server::gated(&[]);
    let metrics = metrics(&server);
    for label in ["stalled", "lost_unit", "token", "kicked"] {
        let name = format!("tollgate_cuts_total{{reason=\"{label}\"}}");
        assert_eq!(metrics.get(&name), Some(&0.0), "{name}");
    }
    for status in [
        400, 401, 403, 404, 405, 406, 408, 409, 411, 413, 414, 417, 429, 431,
    ] {
        let name = format!("tollgate_refusals_total{{status=\"{status}\"}}");
        assert_eq!(metrics.get(&name), Some(&0.0), "{name}");
    }
    for status in [501, 502, 503, 504, 505, 507, 508] {
        let name = format!("tollgate_refusals_total{{status=\"{status}\"}}");
        assert_eq!(metrics.get(&name), Some(&0.0), "{name}");
    }
}

/// By the label that the log has, and the note's first word; of a hundred, and the others are
/// counted.
#[test]
fn streams_have_rows_of_their_own() {
    let server = Server::gated(&["--streams=200"]);
    let noted = "sessionid=noted&note=%20desk%5C%22%20three";
    let added = server.request("POST", &format!("/api/add-token?type=http&{noted}"));
    assert_eq!(added.status(), 201);
    let mut source = Source::open(server.address(), "/stream/noted");
    let mut viewer = Viewer::ask(server.address(), "/stream/noted");
    server.await_viewers("noted", 1);
    source.send(b"ten bytes.");
    viewer.read(10);
    let digest = server.stream("noted").expect("it runs")["session"].clone();
    let digest = digest.as_str().expect("a label");
    let now = metrics(&server);
    let labels = format!("{{session=\"{digest}\",note=\"desk\\\\\\\"\"}}");
    for (name, value) in [
        ("viewers", 1.0),
        ("udp_clients", 0.0),
        ("received_bytes_total", 10.0),
        ("sent_bytes_total", 10.0),
        ("skips_total", 0.0),
    ] {
        let name = format!("tollgate_stream_{name}{labels}");
        assert_eq!(now.get(&name), Some(&value), "{name}: {now:#?}");
    }
    assert_eq!(now["tollgate_streams_not_shown"], 0.0);
    let others: Vec<Source> = (0..120)
        .map(|number| {
            let name = format!("other{number}");
            server.admit(&name);
            Source::open(server.address(), &format!("/stream/{name}"))
        })
        .collect();
    let now = metrics(&server);
    let rows = now
        .keys()
        .filter(|name| name.starts_with("tollgate_stream_viewers{"));
    assert_eq!(rows.count(), 100);
    assert_eq!(now["tollgate_streams_not_shown"], 21.0);
    drop((source, others));
    server.await_end_of_stream("noted");
    assert!(!metrics(&server).contains_key(&format!("tollgate_stream_viewers{labels}")));
}

/// What Prometheus shows of every process.
#[test]
fn the_process_is_as_the_kernel_sees_it() {
    let server = Server::gated(&[]);
    let before = metrics(&server);
    let started = before["process_start_time_seconds"];
    let now = std::time::SystemTime::now();
    let now = now
        .duration_since(std::time::UNIX_EPOCH)
        .expect("a time")
        .as_secs_f64();
    assert!((started - now).abs() < 60.0, "{started}, and it is {now}");
    let resident = before["process_resident_memory_bytes"];
    assert!((1e6..1e9).contains(&resident), "{resident}");
    assert!(before["process_virtual_memory_bytes"] >= resident);
    let spent = before["process_cpu_seconds_total"];
    assert!((0.0..60.0).contains(&spent), "{spent}");
    // It asks for work until that shows: the kernel counts it somewhere.
    support::until("it has had some time", || {
        (metrics(&server)["process_cpu_seconds_total"] > spent).then_some(())
    });
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid()));
    let status = status.expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: f64 = line
        .and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok())
        .expect("a size");
    let resident = metrics(&server)["process_resident_memory_bytes"];
    assert!(
        (resident - kib * 1024.0).abs() < 4e6,
        "{resident}, and {kib} KiB"
    );
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
    let closed = Server::start(&["--token-server=192.0.2.1"]);
    closed.request("GET", "/metrics").assert_problem(403, &[]);
    assert_eq!(closed.request("GET", "/healthz").status(), 200);
}
