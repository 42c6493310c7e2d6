//! curl, which publishes with `-T`.

use super::support::server::Server;
use super::support::until;
use super::tools::*;

/// `curl -T -` reads its refusal, whatever it was about to send.
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

/// What the README has in its block of this section, run as it is printed: but with the program
/// that is tested, at a free port, and a film of the tests.
fn run_as_printed(section: &str) -> String {
    let readme = include_str!("../../README.md");
    let (_, behind) = readme.split_once(section).expect("the section");
    let (_, block) = behind.split_once("```sh\n").expect("its block");
    let (block, _) = block.split_once("```").expect("its end");
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a port")
        .port();
    let commands = block
        .replace(
            "cargo run --release --",
            concat!(env!("CARGO_BIN_EXE_tollgate"), " --rtp=off"),
        )
        .replace(
            "--log-format",
            &format!("--listen=127.0.0.1:{port} --log-format"),
        )
        .replace(":8000", &format!(":{port}"))
        .replace(
            "clip.ts",
            concat!(env!("CARGO_MANIFEST_DIR"), "/tests/media/h264.ts"),
        );
    // Whoever types them waits until the server listens.
    let wait = format!(
        "for i in $(seq 100); do curl -s -o /dev/null 127.0.0.1:{port}/healthz && break; sleep 0.1; done"
    );
    let (first, rest) = commands.split_once('\n').expect("more than one command");
    let folder = folder("printed");
    let script = format!(
        "cd {}\n{first}\nserver=$!\n{wait}\n{rest}\nkill $server",
        folder.display()
    );
    let out = run("bash", &["-c", &script]);
    String::from_utf8_lossy(&out.stdout).into_owned()
}

#[test]
#[ignore = "needs curl and bash"]
fn the_readmes_label_leads_from_a_list_to_the_log() {
    let out = run_as_printed("### One label for a session");
    for words in [
        "\"bytes_received\":36096",
        "\"event\":\"stream-begins\"",
        "\"event\":\"stream-ends\"",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
    assert!(!out.contains("tollgate.log:"), "{out}");
}

#[test]
#[ignore = "needs curl and bash"]
fn the_readmes_refusals_say_why() {
    let out = run_as_printed("### Why somebody is refused");
    for words in [
        "this is ::1, and --token-server says 127.0.0.1/32",
        "no http token",
        "Access-Control-Allow-Origin: https://site.example",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
}
