//! A name server that takes questions and never answers, and who does not wait for it.

use std::fs;
use std::io::{ErrorKind, Read};
use std::net::UdpSocket;

use super::support::client::Client;
use super::support::server::{LOOPBACK, Server};
use super::{call, fresh, option};

/// Of this host alone, and in nobody's use.
const NAME_SERVER: &str = "127.0.0.99";

#[test]
#[ignore = "needs root, to give the server a name server of its own"]
fn a_revocation_waits_for_no_name() {
    let path = fresh("names");
    let _silent = UdpSocket::bind((NAME_SERVER, 53)).expect("the port of name servers");
    let resolvers = path.with_extension("resolv.conf");
    fs::write(&resolvers, format!("nameserver {NAME_SERVER}\n")).expect("a file");
    let in_place = format!("mount --bind {} /etc/resolv.conf", resolvers.display());
    let script = format!("exec unshare -m sh -c '{in_place}; exec \"$0\" \"$@\"' \"$0\" \"$@\"");
    let options = [LOOPBACK, "--rtp=127.0.0.1:0", &option(&path)];
    let server = Server::start_after(&script, &options);
    server.admit("gone");
    let names: Vec<String> = (0..256).map(|n| format!("h{n}.example.org:6000")).collect();
    let target = format!(
        "/api/add-token?type=rtp-udp&sessionid=named&udp-clients={}",
        names.join(",")
    );
    let mut waiting = Client::connect(server.address());
    waiting.send_head("POST", &target, &[]);
    // Another client's names, a plain token and a revocation are all answered before.
    let local = "/api/add-token?type=rtp-udp&sessionid=local&udp-clients=localhost:6000";
    call(&server, "POST", local, 201);
    call(&server, "POST", "/api/add-token?type=http&sessionid=b", 201);
    call(&server, "DELETE", "/api/revoke-token?sessionid=gone", 200);
    let mut stream = waiting.into_stream();
    stream.set_nonblocking(true).expect("an option");
    let error = stream.read(&mut [0]).expect_err("it waits still");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    stream.set_nonblocking(false).expect("an option");
    let mut answer = [0; 1024];
    let bytes = stream.read(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer[..bytes]);
    let says = ["HTTP/1.1 400 ", "h0.example.org:6000", "within 5 s"];
    assert!(says.iter().all(|words| answer.contains(words)), "{answer}");
}
