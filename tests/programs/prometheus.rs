//! `examples/` for Prometheus and Grafana: what they ask for is there.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::Value;

use super::support::client::request;
use super::support::server::Server;
use super::support::streaming::{Source, Viewer};
use super::support::{free_address, until};
use super::tools::{Background, folder, run};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
const RULES: &str = "prometheus-rules.yml";

fn example(name: &str) -> String {
    std::fs::read_to_string(format!("{EXAMPLES}/{name}")).expect("an example")
}

/// Prometheus, which scrapes a server every second, waits a second for the answer, and raises an
/// alert if none comes.
struct Prometheus {
    _program: Background,
    address: SocketAddr,
}

impl Prometheus {
    fn of(server: &Server) -> Prometheus {
        let address = free_address();
        let place = folder_of(address);
        let mut text = example("prometheus.yml");
        for (usual, own) in [
            ("127.0.0.1:8000", server.address().to_string()),
            (": 15s", ": 1s".to_owned()),
        ] {
            assert!(text.contains(usual), "no {usual}");
            text = text.replace(usual, &own);
        }
        std::fs::write(place.join("prometheus.yml"), text).expect("a file");
        std::fs::write(place.join(RULES), example(RULES)).expect("a file");
        let program = Background::start(
            "prometheus",
            &[
                &format!("--config.file={}/prometheus.yml", place.display()),
                &format!("--storage.tsdb.path={}/data", place.display()),
                &format!("--web.listen-address={address}"),
            ],
        );
        until("Prometheus listens", || {
            std::net::TcpStream::connect(address).ok()
        });
        until("Prometheus is ready", || {
            let ready = request(address, "GET", "/-/ready", &[]);
            (ready.status() == 200).then_some(())
        });
        Prometheus {
            _program: program,
            address,
        }
    }

    fn get(&self, target: &str) -> Value {
        let answer = request(self.address, "GET", target, &[]);
        assert_eq!(answer.status(), 200, "{target}: {}", answer.text());
        answer.json()["data"].take()
    }

    /// How many rows the answer to `query` has, which must be one that it understands.
    fn rows(&self, query: &str) -> usize {
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let data = self.get(&format!("/api/v1/query?query={escaped}"));
        data["result"].as_array().expect("rows").len()
    }

    fn await_rows(&self, query: &str) {
        until(query, || (self.rows(query) > 0).then_some(()));
    }
}

fn folder_of(address: SocketAddr) -> PathBuf {
    folder(&format!(
        "prometheus-{}-{}",
        std::process::id(),
        address.port()
    ))
}

/// Words that begin like a metric's name, each with its labels.
fn selectors(text: &str) -> BTreeSet<String> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let begins = ["tollgate_", "process_"].map(|start| text.match_indices(start));
    let names = begins.into_iter().flatten().map(|(at, _)| {
        let rest = &text[at..];
        let end = rest
            .find(|letter| !is_of_name(letter))
            .unwrap_or(rest.len());
        let labels = rest[end..]
            .strip_prefix('{')
            .and_then(|rest| rest.find('}'));
        rest[..end + labels.map_or(0, |length| length + 2)].to_owned()
    });
    names.collect()
}

/// What the panels ask for, with Grafana's own words replaced as it does.
fn panels() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&example("grafana-dashboard.json")).expect("JSON");
    let mut ids = BTreeSet::new();
    let mut covered = BTreeSet::new();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        let title = &panel["title"];
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{title}");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|name| {
            panel["gridPos"][name]
                .as_u64()
                .unwrap_or_else(|| panic!("{title}: {name}"))
        });
        assert!(x + w <= 24, "{title}");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(covered.insert(cell), "{title} lies on another");
        }
        let mut names = BTreeSet::new();
        for target in panel["targets"].as_array().expect("targets") {
            assert!(
                names.insert(target["refId"].as_str().expect("a name")),
                "{title}"
            );
            queries.push(as_grafana_asks(&target["expr"]));
        }
    }
    assert!(queries.len() > 20);
    queries
}

fn as_grafana_asks(query: &Value) -> String {
    let query = query.as_str().expect("a query");
    let asked = query
        .replace("$__rate_interval", "1m")
        .replace("$instance", ".*");
    assert!(!asked.contains('$'), "{query}");
    asked
}

#[test]
#[ignore = "needs promtool"]
fn promtool_takes_the_rules_and_each_tells_of_the_relay_in_trouble() {
    for (command, file) in [
        (["check", "config"], "prometheus.yml"),
        (["check", "rules"], RULES),
        (["test", "rules"], "prometheus-rules.test.yml"),
    ] {
        let file = format!("{EXAMPLES}/{file}");
        let output = run("promtool", &[command[0], command[1], &file]);
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{command:?}: {told}");
    }
    let tested = example("prometheus-rules.test.yml");
    for line in example(RULES).lines() {
        if let Some((_, name)) = line.split_once("- alert: ") {
            assert!(
                tested.contains(&format!("\"{name}\"")),
                "{name} has no test"
            );
        }
    }
}

/// Names, units, types and labels are as Prometheus has them.
#[test]
#[ignore = "needs promtool"]
fn promtool_finds_nothing_wrong_with_the_figures() {
    let server = Server::gated(&["--rtp=127.0.0.1:0"]);
    let noted = "/api/add-token?type=http&sessionid=demo&note=a%5C%22b%20c";
    assert_eq!(server.request("POST", noted).status(), 201);
    let mut source = Source::open(server.address(), "/stream/demo");
    source.send(b"media");
    let place = folder_of(server.address()).join("metrics");
    std::fs::write(&place, server.request("GET", "/metrics").text()).expect("a file");
    let check = format!("promtool check metrics < '{}'", place.display());
    let output = run("sh", &["-c", &check]);
    let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && told.is_empty(), "{told}");
}

#[test]
#[ignore = "needs Prometheus"]
fn what_alerts_and_panels_ask_for_is_there() {
    let server = Server::gated(&["--streams=1"]);
    let metrics = server.request("GET", "/metrics").text();
    for file in ["grafana-dashboard.json", RULES, "prometheus-rules.test.yml"] {
        for selector in selectors(&example(file)) {
            let name = selector.split('{').next().unwrap_or_default();
            let family = name.trim_end_matches("_bucket");
            assert!(
                metrics.contains(&format!("# TYPE {family} ")),
                "{file}: {name}"
            );
        }
    }
    // Something of each kind happens: of what never did some figures have no row.
    server.admit("demo");
    server.admit("another");
    let mut source = Source::open(server.address(), "/stream/demo");
    let mut viewer = Viewer::ask(server.address(), "/stream/demo");
    server.await_viewers("demo", 1);
    source.send(b"media");
    assert_eq!(viewer.read(5), b"media");
    let id = server.request("GET", "/api/list-viewers").json()[0]["id"].take();
    let kick = format!("/api/kick-viewer?id={}", id.as_str().expect("an id"));
    assert_eq!(server.request("DELETE", &kick).status(), 200);
    viewer.assert_lost(b"");
    let mut refused = super::support::client::Client::connect(server.address());
    refused.send_head("PUT", "/stream/another", &["Content-Length: 1"]);
    assert_eq!(refused.response("PUT").status(), 503);

    let prometheus = Prometheus::of(&server);
    prometheus.await_rows("rate(tollgate_cuts_total[1m])");
    for query in panels() {
        assert!(prometheus.rows(&query) > 0, "no row for {query}");
    }
    for query in [
        "tollgate_stream_viewers{session!=\"\"}",
        "rate(tollgate_stream_sent_bytes_total[1m])",
        "time() - process_start_time_seconds < 3600",
        "rate(process_cpu_seconds_total[1m])",
        "process_resident_memory_bytes > 1e6",
        "process_open_fds / process_max_fds",
        "tollgate_refusals_total{status=\"507\"} == 0",
        "tollgate_cuts_total{reason=\"stalled\"} == 0",
    ] {
        prometheus.await_rows(query);
    }
    let rules = until("all rules have been evaluated", || {
        let mut data = prometheus.get("/api/v1/rules");
        let rules = data["groups"][0]["rules"].take();
        let rules = rules.as_array().expect("rules").clone();
        rules
            .iter()
            .all(|rule| rule["health"] == "ok")
            .then_some(rules)
    });
    for rule in &rules {
        let query = rule["query"].as_str().expect("a query");
        for selector in selectors(query) {
            assert!(
                prometheus.rows(&selector) > 0,
                "{}: no {selector}",
                rule["name"]
            );
        }
    }
    // A healthy relay raises no alert, a missing one does. The duration of turns depends on the other
    // tests on this machine, so it is left out.
    assert_eq!(
        prometheus.rows("ALERTS{alertname!=\"TollgateLoopSlow\"}"),
        0
    );
    drop((source, server));
    prometheus.await_rows("ALERTS{alertname=\"TollgateDown\",severity=\"page\"}");
    let dashboard: Value = serde_json::from_str(&example("grafana-dashboard.json")).expect("JSON");
    let marks = as_grafana_asks(&dashboard["annotations"]["list"][0]["expr"]);
    let marks = marks.replace("firing", "pending");
    assert!(prometheus.rows(&marks) > 0, "{marks}");
}
