//! What a newcomer runs first.

use crate::support;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::support::client::request;
use crate::support::streaming::Viewer;
use crate::support::until;
use tollgate::format::{Finding, Format, Scanner};

/// Ended with the test.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_demo_streams_and_says_where() {
    let address = support::free_address();
    // As a newcomer starts it; cargo becomes the program that it runs.
    let mut demo = Demo(
        Command::new(env!("CARGO"))
            .args([
                "run",
                "--quiet",
                "--features",
                "demo",
                "--bin",
                "tollgate-demo",
                "--",
            ])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .arg(address.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the demo starts"),
    );
    let mut said = BufReader::new(demo.0.stdout.take().expect("stdout is piped")).lines();
    let line = said.next().expect("a line").expect("UTF-8");
    assert!(
        line.contains(&format!("http://{address}/watch/demo ")),
        "{line}"
    );
    assert_eq!(request(address, "GET", "/", &[]).status(), 200);

    // Its source connects as any other does.
    until("the stream runs", || {
        let head = request(address, "HEAD", "/stream/demo", &[]);
        (head.status() == 200).then_some(())
    });

    // Past its end the clip begins again, and goes on in time.
    let mut viewer = Viewer::ask(address, "/stream/demo");
    assert_eq!(viewer.head().field("content-type"), Some("video/webm"));
    let mut findings = Vec::new();
    Scanner::default().feed(&viewer.read(260_000), &mut |finding, _| {
        findings.push(finding);
    });
    assert_eq!(findings.first(), Some(&Finding::Format(Format::WebM)));
    let joins = findings
        .iter()
        .filter(|finding| matches!(finding, Finding::Join(_)));
    assert!(joins.count() >= 3, "{findings:?}");
    assert!(!findings.contains(&Finding::Unknown));
}
