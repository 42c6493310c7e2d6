//! curl, which publishes with `-T`.

use super::support::server::Server;
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
