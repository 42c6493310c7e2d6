//! A source that is aborted behind a proxy: what it gets is this server's answer and its reason,
//! and not the proxy's own 502.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::support::server::Server;
use super::support::streaming::Source;
use super::support::{free_address, until};
use super::tools::*;

/// Often enough to meet each order in which the two sides can be seen to end.
const TIMES: usize = 20;

fn written(name: &str, text: &str) -> PathBuf {
    let folder = folder(&format!("aborted-{name}-{}", std::process::id()));
    let path = folder.join("configuration");
    let text = text.replace("FOLDER", &folder.display().to_string());
    std::fs::write(&path, text).expect("a file");
    path
}

fn await_proxy(program: Background, address: SocketAddr) -> Background {
    until("the proxy answers", || {
        std::net::TcpStream::connect(address).ok()
    });
    program
}

/// Sources come by the proxy and are aborted, some of them while they send.
fn sources_are_told_why(server: &Server, proxy: SocketAddr) {
    for time in 0..TIMES {
        let name = format!("s{time}");
        server.admit(&name);
        let mut source = Source::open(proxy, &format!("/stream/{name}"));
        source.send(&[0x47; 5000]);
        await_media(server, &name, 5000);
        let aborted = server.request("DELETE", &format!("/api/abort-stream?sessionid={name}"));
        assert_eq!(aborted.status(), 200);
        if time % 2 == 1 {
            source.try_send(&[0x47; 50_000]);
        }
        let answer = source.into_client().response("PUT");
        answer.assert_problem(403, &["abort"]);
    }
}

#[test]
#[ignore = "needs nginx"]
fn nginx_passes_the_answer_to_an_aborted_source_on() {
    let server = Server::gated(&[]);
    let address = free_address();
    let path = written(
        "nginx",
        &format!(
            "daemon off; user root; pid FOLDER/pid; error_log FOLDER/log; events {{}}
             http {{
               access_log off; client_body_temp_path FOLDER/a; proxy_temp_path FOLDER/b;
               fastcgi_temp_path FOLDER/c; uwsgi_temp_path FOLDER/d; scgi_temp_path FOLDER/e;
               server {{
                 listen {address};
                 location / {{
                   proxy_pass http://{}; proxy_http_version 1.1;
                   proxy_request_buffering off; proxy_buffering off; client_max_body_size 0;
                 }}
               }}
             }}",
            server.address()
        ),
    );
    let path = path.to_str().expect("a path in UTF-8");
    let log = format!("{path}.log");
    let _nginx = await_proxy(
        Background::start("nginx", &["-c", path, "-e", &log]),
        address,
    );
    sources_are_told_why(&server, address);
}

#[test]
#[ignore = "needs haproxy"]
fn haproxy_passes_the_answer_to_an_aborted_source_on() {
    let server = Server::gated(&["--proxy-protocol=127.0.0.2"]);
    let address = free_address();
    let path = written(
        "haproxy",
        &format!(
            "defaults
    mode http
    timeout connect 5s
    timeout client 1m
    timeout server 1m
    option http-no-delay
frontend front
    bind {address}
    default_backend relay
backend relay
    source 127.0.0.2
    server one {} send-proxy-v2
",
            server.address()
        ),
    );
    let path = path.to_str().expect("a path in UTF-8");
    let _haproxy = await_proxy(Background::start("haproxy", &["-db", "-f", path]), address);
    sources_are_told_why(&server, address);
}
