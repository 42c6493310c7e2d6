//! Behind proxies: a source that is aborted gets this server's answer and its reason, and not the
//! proxy's own 502; and below a path that the proxy takes away all is where it is expected.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::support::client::request;
use super::support::encoder::{Encoder, Kind};
use super::support::needs::lacks;
use super::support::playlist::Playlist;
use super::support::server::Server;
use super::support::streaming::{Source, Viewer};
use super::support::{free_address, until};
use super::tools::*;

/// Often enough to meet each order in which the two sides can be seen to end.
const TIMES: usize = 20;

fn written(name: &str, text: &str) -> PathBuf {
    let folder = folder(&format!("proxy-{name}-{}", std::process::id()));
    let path = folder.join("configuration");
    let text = text.replace("FOLDER", &folder.display().to_string());
    std::fs::write(&path, text).expect("a file");
    path
}

pub fn await_proxy(program: Background, address: SocketAddr) -> Background {
    until("the proxy answers", || {
        std::net::TcpStream::connect(address).ok()
    });
    program
}

/// nginx, with this location of its own; tests have one each. `certificate`: a file with the
/// certificate of its TLS, and the key.
pub fn nginx(location: &str, certificate: Option<&str>) -> (Background, SocketAddr) {
    let tls = certificate.map_or(String::new(), |file| {
        format!(" ssl; ssl_certificate {file}; ssl_certificate_key {file}")
    });
    let address = free_address();
    let text = format!(
        "daemon off; user root; pid FOLDER/pid; error_log FOLDER/log; events {{}}
         http {{
           access_log off; client_body_temp_path FOLDER/a; proxy_temp_path FOLDER/b;
           fastcgi_temp_path FOLDER/c; uwsgi_temp_path FOLDER/d; scgi_temp_path FOLDER/e;
           server {{ listen {address}{tls}; {location} }}
         }}"
    );
    let path = written(&format!("nginx-{}", address.port()), &text);
    let path = path.to_str().expect("a path in UTF-8");
    let log = format!("{path}.log");
    let program = Background::start("nginx", &["-c", path, "-e", &log]);
    (await_proxy(program, address), address)
}

/// Sources behind the proxy are aborted, some of them while they send.
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
        answer.assert_problem(403, &["has ended this stream"]);
    }
}

#[test]
#[ignore = "needs nginx"]
fn nginx_passes_the_answer_to_an_aborted_source_on() {
    let server = Server::gated(&[]);
    let (_nginx, address) = nginx(
        &format!(
            "location / {{
           proxy_pass http://{}; proxy_http_version 1.1;
           proxy_request_buffering off; proxy_buffering off; client_max_body_size 0;
         }}",
            server.address()
        ),
        None,
    );
    sources_are_told_why(&server, address);
}

/// Streams pass in both directions without delay, and no client is taken for this host.
#[test]
#[ignore = "needs nginx and curl"]
fn nginx_as_the_example_has_it_says_whose_a_request_is() {
    let server = Server::gated(&["--forwarded-from=127.0.0.2"]);
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/nginx.conf");
    let example = std::fs::read_to_string(example).expect("an example");
    let usual = "http://127.0.0.1:8000";
    assert!(example.contains(usual));
    let (_nginx, proxy) = nginx(
        &example.replace(usual, &format!("http://{}", server.address())),
        None,
    );
    let asked = |from: &str, path: &str| {
        let url = format!("http://{proxy}{path}");
        let code = ["-s", "-o", "/dev/null", "-w", "%{http_code}"];
        let output = run("curl", &[&code[..], &["--interface", from, &url]].concat());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for path in ["/api/list-tokens", "/api/events", "/metrics"] {
        assert_eq!(asked("127.0.0.3", path), "403", "{path}");
    }
    assert_eq!(asked("127.0.0.3", "/"), "404");
    assert_eq!(asked("127.0.0.1", "/api/list-tokens"), "200");
    assert_eq!(asked("127.0.0.3", "/healthz"), "200");
    assert_eq!(server.request("GET", "/api/list-tokens").status(), 200);
    server.admit("live");
    let mut source = Source::open(proxy, "/stream/live");
    source.send(&[0x47; 3_000_000]);
    await_media(&server, "live", 3_000_000);
    let mut viewer = Viewer::ask(proxy, "/stream/live");
    server.await_viewers("live", 1);
    source.send(&[0x48; 5000]);
    let got = viewer.read(5000);
    assert!(got.iter().all(|byte| matches!(byte, 0x47 | 0x48)));
}

/// nginx as it is without `proxy_set_header Host`, and a server that listens on all addresses.
/// Whatever name a browser calls, the server gets its own address.
#[test]
#[ignore = "needs nginx"]
fn nginx_that_replaces_the_host_brings_no_calls_whichever_address_it_calls() {
    let probe = std::net::UdpSocket::bind("0.0.0.0:0").expect("a port");
    let own = probe
        .connect("192.0.2.1:9")
        .and_then(|()| probe.local_addr());
    let own = own.map(|own| own.ip()).ok();
    let own = own.filter(|own| !own.is_unspecified() && !own.is_loopback());
    if lacks("network", own.is_some()) {
        return;
    }
    let own = own.expect("it has one");
    for address in [own.to_string(), "127.0.0.1".to_owned()] {
        let proxy = format!("--forwarded-from={address}");
        // The client is an operator's: only the Host is in its way.
        let options = ["--token-server=192.0.2.7", "--listen=0.0.0.0:0", &proxy];
        let server = Server::start(&options);
        let port = server.address().port();
        let location = format!(
            "location / {{
               proxy_pass http://{address}:{port}; proxy_bind {address};
               proxy_set_header X-Forwarded-For 192.0.2.7;
             }}"
        );
        let (_nginx, front) = nginx(&location, None);
        for path in ["/api/list-tokens", "/api/events", "/metrics"] {
            let answer = request(front, "GET", path, &[]);
            answer.assert_problem(403, &["proxy_set_header Host"]);
        }
    }
}

/// Such a location decodes paths before it asks.
#[test]
#[ignore = "needs nginx"]
fn below_a_path_of_nginx_a_stream_of_any_name_plays() {
    let server = Server::start(&["--hls-segment=1"]);
    let own = server.address();
    let (_nginx, proxy) = nginx(
        &format!("location /live/ {{ proxy_pass http://{own}/; proxy_buffering off; }}"),
        None,
    );
    let media = Encoder::new(Kind::Ts).run(9.0);
    for name in [
        "demo",
        "room%3A1",
        "a%2Cb%40c%5B%7C%5D%20%25",
        "%C3%A4%26%3D%2B",
    ] {
        let mut source = Source::open(own, &format!("/stream/{name}"));
        source.send(&media);
        let below = format!("/live/stream/{name}");
        let list = until("it is listed", || {
            let list = request(proxy, "GET", &format!("{below}/index.m3u8"), &[]);
            assert!(
                matches!(list.status(), 200 | 503),
                "{name}: {}",
                list.text()
            );
            (list.status() == 200).then(|| Playlist::read(&list.text()))
        });
        let segment = &list.segments[0].name;
        let target = format!("{below}/{segment}");
        let segment = request(proxy, "GET", &target, &[]);
        assert_eq!(segment.status(), 200, "{name}");
        assert!(!segment.body.is_empty());
    }
}

/// HAProxy in front of a server that knows it as 127.0.0.2.
pub fn haproxy(server: &Server) -> (Background, SocketAddr) {
    let address = free_address();
    let path = written(
        &format!("haproxy-{}", address.port()),
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
    let program = Background::start("haproxy", &["-db", "-f", path]);
    (await_proxy(program, address), address)
}

#[test]
#[ignore = "needs haproxy"]
fn haproxy_passes_the_answer_to_an_aborted_source_on() {
    let server = Server::gated(&["--proxy-protocol=127.0.0.2"]);
    let (_haproxy, address) = haproxy(&server);
    sources_are_told_why(&server, address);
}
