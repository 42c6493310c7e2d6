//! curl, which publishes with `-T`.

use super::support::server::Server;
use super::support::until;
use super::tools::*;

/// `curl -T -` reads its refusal before it has sent its body.
#[test]
#[ignore = "needs curl"]
fn curl_reads_why_it_is_refused() {
    let server = Server::gated(&[]);
    let url = format!("http://{}/stream/demo", server.address());
    let script = format!("head -c 3000000 /dev/zero | curl -s -T - -w ' %{{http_code}}' {url}");
    let refused = run("sh", &["-c", &script]);
    let answer = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(
        refused.status.success() && answer.contains("no http token") && answer.ends_with(" 403"),
        "{answer}"
    );
    let script =
        format!("head -c 3000000 /dev/zero | curl -s -H 'Expect:' -T - -w ' %{{http_code}}' {url}");
    let refused = run("sh", &["-c", &script]);
    let answer = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(
        answer.contains("no http token") && answer.ends_with(" 403"),
        "{answer}"
    );
}

/// `-T FILE`, `-T -` and POST, each watched by another curl from the first byte.
#[test]
#[ignore = "needs curl"]
fn curl_publishes_and_watches() {
    let server = Server::gated(&["--wait=60"]);
    server.admit("demo");
    let url = format!("http://{}/stream/demo", server.address());
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/media/h264.ts");
    let watched = folder("curl").join("watched.ts");
    let watched_path = watched.to_str().expect("a path in UTF-8");
    for publish in [
        format!("curl -s -T {file} {url}"),
        format!("curl -s -T - {url} < {file}"),
        format!("curl -s --data-binary @{file} {url}"),
    ] {
        let mut viewer = Background::start("curl", &["-s", "-f", "-o", watched_path, &url]);
        await_waiting(&server);
        let published = run("sh", &["-c", &publish]);
        let answer = String::from_utf8_lossy(&published.stdout).into_owned();
        assert!(
            answer.contains("\"bytes_received\":36096"),
            "{publish}: {answer}"
        );
        assert!(viewer.ends_well(), "{publish}");
        let (sent, got) = (std::fs::read(file), std::fs::read(&watched));
        assert!(
            sent.expect("the file") == got.expect("what came"),
            "{publish}"
        );
    }
}

fn await_waiting(server: &Server) {
    until("the viewer waits", || {
        let text = server.request("GET", "/metrics").text();
        text.contains("\ntollgate_waiting_viewers 1\n")
            .then_some(())
    });
}
