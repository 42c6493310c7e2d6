//! Proxies in front: who a client is, for the checks, the limits, the logs and the lists.

use crate::support;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::support::client::Client;
use crate::support::response::Response;
use crate::support::server::{Server, command};

const ADD: &str = "/api/add-token?type=http&sessionid=a";
/// As by a proxy that passes on the Host of its clients, here in the target.
const LIST: &str = "http://127.0.0.1:9/api/list-tokens";

/// What a proxy puts before a connection, in version 2.
fn binary_header(client: SocketAddr) -> Vec<u8> {
    let SocketAddr::V4(client) = client else {
        panic!("an IPv4 address");
    };
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    header.extend(client.ip().octets());
    header.extend([127, 0, 0, 1]);
    header.extend(client.port().to_be_bytes());
    header.extend([0, 80]);
    header
}

fn line(client: &str) -> String {
    format!("PROXY TCP4 {client} 127.0.0.1 4711 80\r\n")
}

/// A request on a connection that begins with something.
fn request_behind(
    server: &Server,
    start: &[u8],
    method: &str,
    target: &str,
    fields: &[&str],
) -> Response {
    let mut client = Client::connect(server.address());
    client.send(start);
    client.request(method, target, fields)
}

#[test]
fn the_address_in_a_proxy_header_is_the_clients() {
    let server = Server::start(&[
        "--token-server=192.0.2.0/24",
        "--proxy-protocol=127.0.0.1",
        "--access-log=-",
    ]);
    let from = |client: &str, method: &str, target: &str| {
        request_behind(&server, line(client).as_bytes(), method, target, &[])
    };
    from("198.51.100.7", "POST", ADD).assert_problem(403, &["subnet of --token-server"]);
    assert_eq!(from("192.0.2.7", "POST", ADD).status(), 201);
    let binary = binary_header("192.0.2.9:4711".parse().expect("an address"));
    let answer = request_behind(&server, &binary, "GET", "/api/list-tokens", &[]);
    assert_eq!(answer.json().as_array().map(Vec::len), Some(1));
    // A source, and what the list says of it.
    let mut source = Client::connect(server.address());
    source.send(line("203.0.113.5"));
    source.send_head("PUT", "/stream/a", &["Transfer-Encoding: chunked"]);
    source.send("5\r\nhello\r\n");
    let streams = support::until("the stream runs", || {
        let streams = from("192.0.2.7", "GET", "/api/list-streams").json();
        (streams.as_array()?.len() == 1).then_some(streams)
    });
    assert_eq!(streams[0]["source"]["address"], "203.0.113.5:4711");
    // A health check behind the proxy carries no client address.
    for own in [&b"PROXY UNKNOWN\r\n"[..], b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"] {
        assert_eq!(
            request_behind(&server, own, "GET", "/healthz", &[]).status(),
            200
        );
        let answer = request_behind(&server, own, "GET", "/api/list-tokens", &[]);
        answer.assert_problem(403, &["subnet of --token-server"]);
    }
}

#[test]
fn a_proxy_header_is_due_from_proxies_and_from_nobody_else() {
    let server = Server::gated(&["--proxy-protocol=127.0.0.2"]);
    let header = line("192.0.2.7");
    request_behind(&server, header.as_bytes(), "GET", "/healthz", &[])
        .assert_problem(400, &["request line"]);
    let binary = binary_header("192.0.2.9:4711".parse().expect("an address"));
    request_behind(&server, &binary, "GET", "/healthz", &[]).assert_problem(400, &[]);
    let server = Server::start(&[
        "--token-server=192.0.2.0/24",
        "--proxy-protocol=127.0.0.0/8",
    ]);
    request_behind(&server, b"", "GET", "/healthz", &[])
        .assert_problem(400, &["must begin with a PROXY protocol header"]);
    // In pieces, and with the request at once.
    let mut client = Client::connect(server.address());
    for piece in line("192.0.2.7").as_bytes() {
        client.send([*piece]);
    }
    assert_eq!(client.request("POST", ADD, &[]).status(), 201);
    // What follows is plain HTTP.
    assert_eq!(client.request("GET", "/api/list-tokens", &[]).status(), 200);
    client.send(line("192.0.2.7") + "\r\n");
    client.response("GET").assert_problem(400, &[]);
}

#[test]
fn fields_of_requests_are_believed_from_proxies_only() {
    let server = Server::start(&[
        "--token-server=192.0.2.0/24",
        "--forwarded-from=127.0.0.0/8",
    ]);
    let mut client = Client::connect(server.address());
    let mut asked = |fields: &[&str]| client.request("GET", LIST, fields).status();
    // One connection, which the proxy uses for everybody.
    assert_eq!(asked(&[]), 403);
    assert_eq!(asked(&["X-Forwarded-For: 192.0.2.7"]), 200);
    assert_eq!(asked(&["X-Forwarded-For: 198.51.100.7"]), 403);
    assert_eq!(asked(&["X-Forwarded-For: 192.0.2.7, 198.51.100.7"]), 403);
    assert_eq!(asked(&["X-Forwarded-For: 192.0.2.7, 127.0.0.9"]), 200);
    // Somebody in front of the client shows that the client is a proxy, which no option names.
    for list in [
        "X-Forwarded-For: 198.51.100.7, 192.0.2.7, 127.0.0.9",
        "X-Forwarded-For: 192.0.2.7, 192.0.2.7",
        "Forwarded: for=198.51.100.7, for=192.0.2.7",
    ] {
        assert_eq!(asked(&[list]), 403, "{list}");
    }
    assert_eq!(
        asked(&["Forwarded: for=\"192.0.2.7:4711\";proto=https"]),
        200
    );
    assert_eq!(
        asked(&["Forwarded: for=192.0.2.7", "Forwarded: for=198.51.100.7"]),
        403
    );
    assert_eq!(asked(&[]), 403);
    // The page that the proxy brought to a browser by TLS may call.
    let page = "Origin: https://127.0.0.1:9";
    assert_eq!(asked(&["X-Forwarded-For: 192.0.2.7", page]), 200);
    assert_eq!(
        asked(&["X-Forwarded-For: 192.0.2.7", "Origin: https://elsewhere"]),
        403
    );
    let refused = |fields: &[&str]| Client::connect(server.address()).request("GET", LIST, fields);
    refused(&["X-Forwarded-For: 192.0.2.7", "Forwarded: for=192.0.2.7"])
        .assert_problem(400, &["both Forwarded and X-Forwarded-For"]);
    refused(&["X-Forwarded-For: unknown"]).assert_problem(400, &["'unknown' in X-Forwarded-For"]);
    let server = Server::start(&["--token-server=192.0.2.0/24", "--forwarded-from=127.0.0.2"]);
    let answer =
        Client::connect(server.address()).request("GET", LIST, &["X-Forwarded-For: 192.0.2.7"]);
    answer.assert_problem(403, &["subnet of --token-server"]);
}

/// The API is open to the hosts of all these proxies. What names them alone comes from anybody.
#[test]
fn who_is_named_by_the_addresses_of_proxies_alone_is_nobody() {
    let nobody = "does not name the client";
    let server = Server::start(&[
        "--token-server=127.0.0.0/8",
        "--forwarded-from=127.0.0.1",
        "--forwarded-from=127.0.0.2",
        "--proxy-protocol=127.0.0.3",
    ]);
    let call =
        |start: &str, field: &str| request_behind(&server, start.as_bytes(), "GET", LIST, &[field]);
    for list in [
        "127.0.0.1",
        "127.0.0.2, 127.0.0.1",
        "127.0.0.3",
        "127.0.0.3, 127.0.0.1",
    ] {
        call("", &format!("X-Forwarded-For: {list}")).assert_problem(403, &[nobody]);
        let list = list.replace("127.", "for=127.");
        call("", &format!("Forwarded: {list}")).assert_problem(403, &[nobody]);
    }
    let mapped = "X-Forwarded-For: ::ffff:127.0.0.2";
    call("", mapped).assert_problem(403, &[nobody]);
    let own = "X-Forwarded-For: 127.0.0.9, 127.0.0.3, 127.0.0.1";
    assert_eq!(call("", own).status(), 200);

    let server = Server::start(&[
        "--token-server=127.0.0.0/8",
        "--proxy-protocol=127.0.0.1",
        "--proxy-protocol=127.0.0.3",
        "--forwarded-from=127.0.0.2",
    ]);
    let call = |client: &str, field: &str| {
        let start = line(client);
        request_behind(&server, start.as_bytes(), "GET", LIST, &[field])
    };
    let field = "X-Forwarded-For: 127.0.0.9";
    for proxy in ["127.0.0.1", "127.0.0.3"] {
        call(proxy, field).assert_problem(403, &[nobody]);
    }
    // That proxy names its client in a field.
    assert_eq!(call("127.0.0.2", field).status(), 200);
    call("127.0.0.2", "X-Forwarded-For: 127.0.0.3").assert_problem(403, &[nobody]);
    assert_eq!(call("127.0.0.9", "X: y").status(), 200);
}

/// The proxy's host may call the API, but it is not configured as a proxy: all its clients would
/// have the proxy's address.
#[test]
fn what_a_forgotten_proxy_brings_has_no_rights_of_its_host() {
    let options = ["--metrics-from=127.0.0.1", "--publish-from=127.0.0.1"];
    let server = Server::gated(&options);
    server.admit("demo");
    for field in [
        "X-Forwarded-For: 198.51.100.7",
        "X-Forwarded-For:",
        "Forwarded: for=198.51.100.7",
        "X-Real-IP: 198.51.100.7",
        "x-forwarded-proto: https",
        "Via: 1.1 cache.example",
        "Via:",
        "Via: 1.1 tollgate-peer, 1.1 cache.example",
        "CDN-Loop: cdn.example",
        "X-Varnish: 32770",
    ] {
        for (method, target) in [
            ("GET", "/api/list-tokens"),
            ("POST", ADD),
            ("GET", "/api/events"),
            ("GET", "/list-tokens"),
            ("GET", "/%61pi/list-tokens"),
            ("GET", "/metrics"),
            ("GET", "/"),
            ("PUT", "/stream/demo"),
        ] {
            if target == "/" && !cfg!(feature = "page") {
                continue;
            }
            let answer = request_behind(&server, b"", method, target, &[field]);
            answer.assert_problem(403, &["--forwarded-from"]);
        }
        let watched = request_behind(&server, b"", "GET", "/stream/demo", &[field]);
        assert_eq!(watched.status(), 404);
    }
    assert_eq!(server.tokens().len(), 1);
    // One that names clients in its header may write fields, too.
    let server = Server::start(&["--token-server=127.0.0.9", "--proxy-protocol=127.0.0.1"]);
    let start = line("127.0.0.9");
    let field = ["X-Forwarded-For: 127.0.0.9"];
    let answer = request_behind(&server, start.as_bytes(), "GET", LIST, &field);
    assert_eq!(answer.status(), 200);
}

#[test]
fn a_socket_in_the_file_system_is_of_this_host() {
    let folder = std::env::temp_dir().join(format!("tollgate-unix-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("socket");
    let place = format!("--listen=unix:{}", path.display());
    let ask = |request: &str| {
        let mut client = UnixStream::connect(&path).expect("it listens");
        client.write_all(request.as_bytes()).expect("written");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("read");
        answer
    };
    let call = "GET /api/list-streams HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let server = Server::gated(&[&place, "--listen=127.0.0.1:0"]);
    assert!(ask(call).starts_with("HTTP/1.1 200 "), "{}", ask(call));
    // Somebody listens there.
    let second = command(&[&place]).output().expect("it runs");
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains(&path.display().to_string()), "{said}");
    assert!(ask(call).starts_with("HTTP/1.1 200 "));
    // Killed, it leaves the socket, which is in nobody's way; told to end, it takes it along.
    server.signal("KILL");
    server.forget();
    assert!(path.exists());
    let mut server = Server::start(&[
        &place,
        "--listen=127.0.0.1:0",
        "--proxy-protocol=127.0.0.1",
        "--token-server=127.0.0.1",
        "--token-server=198.51.100.7",
    ]);
    for (client, status) in [
        ("192.0.2.7", 403),
        ("198.51.100.7", 200),
        // The proxy's own address, by which it names nobody.
        ("127.0.0.1", 403),
    ] {
        let answer = ask(&format!("{}{call}", line(client)));
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
    }
    server.signal("TERM");
    assert!(server.exit_status().success());
    assert!(!path.exists());
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// Connects from a path of its own that fills the address, so that there is no room for its end:
/// `std` binds no such one.
fn connect_from(path: &str, server: &Path) -> UnixStream {
    let address = |path: &str| {
        // SAFETY: an address is plain data, for which all zeros are a value.
        let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        for (place, byte) in address.sun_path.iter_mut().zip(path.bytes()) {
            *place = byte as libc::c_char;
        }
        address
    };
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: it takes three numbers.
    let descriptor = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0) };
    assert!(descriptor >= 0);
    // SAFETY: the call above opened it for nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let (own, servers) = (address(path), address(&server.display().to_string()));
    // SAFETY: both are live addresses, and `length` is the size of each.
    let (bound, connected) = unsafe {
        (
            libc::bind(descriptor, (&raw const own).cast(), length),
            libc::connect(descriptor, (&raw const servers).cast(), length),
        )
    };
    assert_eq!((bound, connected), (0, 0), "{path}");
    UnixStream::from(socket)
}

#[test]
fn a_client_whose_own_path_has_no_end_is_served() {
    let folder = std::env::temp_dir().join(format!("tollgate-108-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("socket");
    let server = Server::gated(&[
        &format!("--listen=unix:{}", path.display()),
        "--listen=127.0.0.1:0",
    ]);
    let long = format!("{:x<108}", folder.join("client").display());
    let mut client = connect_from(&long, &path);
    let call = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    client.write_all(call.as_bytes()).expect("written");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("read");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    drop(server);
    std::fs::remove_dir_all(&folder).expect("removed");
}
