//! Each example of a proxy, run as it stands: whom it keeps from the API, and what works through it.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::caches::{nginx_cache, varnish};
use super::devtools::Browser;
use super::proxies::{await_proxy, nginx};
use super::support::encoder::{Encoder, Kind};
use super::support::playlist::Playlist;
use super::support::server::Server;
use super::support::{free_address, until};
use super::tools::*;

const NAME: &str = "relay.example";
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");

/// A proxy that runs an example, and the servers that it calls.
pub struct Front {
    _program: Background,
    pub servers: Vec<Server>,
    /// Its address, with the path below which it has the server.
    pub base: String,
    /// The port of its address.
    port: u16,
}

/// A child that ends with the test.
struct Curl(Child);

impl Drop for Curl {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What curl got.
#[derive(Debug)]
struct Got {
    status: u16,
    text: String,
}

impl Got {
    #[track_caller]
    fn is(&self, status: u16) -> &Got {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }
}

impl Front {
    fn curl(&self, arguments: &[&str], path: &str) -> Command {
        let mut command = Command::new("curl");
        command.args(["-sk", "--path-as-is"]).args(arguments);
        command.arg(format!("{}{path}", self.base));
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn ask(&self, method: &str, path: &str, fields: &[&str]) -> Got {
        let fields = fields.iter().flat_map(|field| ["-H", field]);
        let mut arguments: Vec<&str> = ["-m", "20", "-w", "\n%{http_code}"].to_vec();
        match method {
            "HEAD" => arguments.push("-I"),
            _ => arguments.extend(["-X", method]),
        }
        arguments.extend(fields);
        let output = self.curl(&arguments, path).output();
        let output = output.expect("curl is installed").stdout;
        let text = String::from_utf8_lossy(&output).into_owned();
        let (text, status) = text.rsplit_once('\n').expect("a status");
        Got {
            status: status.parse().expect("a number"),
            text: text.to_owned(),
        }
    }

    /// Publishes nine seconds of MPEG-TS at once, and goes on faster than its clock.
    fn publish(&self, path: &str) -> Curl {
        let arguments = ["-T", "-", "-H", "Content-Type: video/mp2t", "-H", "Expect:"];
        let mut command = self.curl(&arguments, path);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().expect("curl is installed");
        let mut encoder = Encoder::new(Kind::Ts);
        let mut input = child.stdin.take().expect("its input");
        input.write_all(&encoder.run(9.0)).expect("curl takes it");
        std::thread::spawn(move || {
            while input.write_all(&encoder.run(0.4)).is_ok() {
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        Curl(child)
    }

    /// Watches until the first packet has come, and stays.
    fn watch(&self, path: &str) -> Curl {
        let mut command = self.curl(&["-N", "-m", "60"], path);
        let child = command.stdout(Stdio::piped()).spawn();
        let mut curl = Curl(child.expect("curl is installed"));
        let mut packet = [0; 188];
        let output = curl.0.stdout.as_mut().expect("its output");
        output.read_exact(&mut packet).expect(path);
        assert_eq!(packet[0], 0x47, "{path}");
        curl
    }

    /// Gets a playlist and the newest segment, whose path is returned.
    fn play_hls(&self, path: &str) -> String {
        let list = until("it is listed", || {
            let list = self.ask("GET", &format!("{path}/index.m3u8"), &[]);
            (list.status == 200).then_some(list)
        });
        let segments = Playlist::read(&list.text).segments;
        let segment = format!("{path}/{}", segments.last().expect("a segment").name);
        self.ask("GET", &segment, &[]).is(200);
        segment
    }
}

/// The self-signed certificate of this test, with its key.
fn certificate() -> String {
    let folder = folder(&format!("fronts-{}", std::process::id()));
    let path = |name: &str| folder.join(name).display().to_string();
    let (key, certificate, both) = (path("key.pem"), path("crt.pem"), path("both.pem"));
    if !folder.join("both.pem").exists() {
        let make = format!(
            "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN={NAME} -keyout {key} -out {certificate} && cat {certificate} {key} >{both}"
        );
        assert!(run("sh", &["-c", &make]).status.success(), "{make}");
    }
    both
}

/// The example in a `server` of nginx, below a path.
pub fn nginx_front(path: &str, has_tls: bool) -> Front {
    let server = Server::gated(&[
        "--forwarded-from=127.0.0.2",
        &format!("--hostname={NAME}"),
        "--hls-segment=1",
    ]);
    let example = std::fs::read_to_string(format!("{EXAMPLES}/nginx.conf")).expect("an example");
    let (usual, own) = (
        "http://127.0.0.1:8000",
        format!("http://{}", server.address()),
    );
    assert!(example.contains(usual) && example.contains("location / {"));
    let mut location = example.replace(usual, &own);
    if !path.is_empty() {
        location = location.replace("location / {", &format!("location {path}/ {{"));
        location = location.replace(&own, &format!("{own}/"));
    }
    let certificate = has_tls.then(certificate);
    let (program, address) = nginx(&location, certificate.as_deref());
    let scheme = if has_tls { "https" } else { "http" };
    Front {
        _program: program,
        servers: vec![server],
        base: format!("{scheme}://{address}{path}"),
        port: address.port(),
    }
}

/// HAProxy with an example, and what that takes from the environment.
fn haproxy(example: &str, names: &[&str], servers: Vec<Server>) -> Front {
    let address = free_address();
    let mut command = Command::new("haproxy");
    command
        .args(["-db", "-f", &format!("{EXAMPLES}/{example}")])
        .env("FRONT", address.to_string())
        .env("CERTIFICATE", certificate())
        .stdout(Stdio::null());
    for (name, server) in names.iter().zip(&servers) {
        command.env(name, server.address().to_string());
    }
    let scheme = if example == "tls.cfg" {
        "https"
    } else {
        "http"
    };
    let front = Front {
        _program: await_proxy(Background::of(command), address),
        servers,
        base: format!("{scheme}://{address}"),
        port: address.port(),
    };
    until("the servers are found well", || {
        let asked = (0..16).map(|it| front.ask("GET", &format!("/stream/{it}"), &[]).status);
        asked.into_iter().all(|it| it == 403).then_some(())
    });
    front
}

fn servers(count: usize, options: &[&str]) -> Vec<Server> {
    let hostname = format!("--hostname={NAME}");
    let usual = [
        &["--proxy-protocol=127.0.0.2", &hostname, "--hls-segment=1"],
        options,
    ]
    .concat();
    (0..count).map(|_| Server::gated(&usual)).collect()
}

fn four_relays() -> Front {
    let mut all = servers(3, &[]);
    let peers = all
        .iter()
        .map(|it| format!("--peer=http://{}", it.address()));
    let peers: Vec<String> = peers.collect();
    let peers: Vec<&str> = peers.iter().map(String::as_str).collect();
    all.splice(0..0, servers(1, &peers));
    haproxy(
        "haproxy.cfg",
        &["RELAY_1", "RELAY_2", "RELAY_3", "RELAY_4"],
        all,
    )
}

fn origin_and_edges() -> Front {
    let mut all = servers(1, &[]);
    let origin = format!("--origin=http://{}", all[0].address());
    all.extend(servers(2, &[&origin, "--origin-tokens", "--hold=60"]));
    haproxy("edges.cfg", &["ORIGIN", "EDGE_1", "EDGE_2"], all)
}

/// What is for the operator only, in each spelling.
const OPERATORS: [&str; 7] = [
    "/api/list-tokens",
    "/api/events",
    "/metrics",
    "/list-tokens",
    "/%61pi/list-tokens",
    "/list%2Dstreams",
    "/",
];

/// Pages of other sites and other hosts get nothing that is for the operator.
fn keeps_strangers_out(front: &Front) {
    for path in OPERATORS {
        for host in ["rebound.example", "rebound.example:80", "127.0.0.1.example"] {
            let got = front.ask("GET", path, &[&format!("Host: {host}")]);
            assert_eq!(got.status, 403, "{path} {host}: {}", got.text);
        }
        let other = front.curl(&["--interface", "127.0.0.3", "-w", "\n%{http_code}"], path);
        let output = { other }.output().expect("curl is installed").stdout;
        let text = String::from_utf8_lossy(&output).into_owned();
        let status = if path == "/" { "404" } else { "403" };
        assert!(text.ends_with(&format!("\n{status}")), "{path}: {text}");
    }
    let add = "/api/add-token?type=http&sessionid=stranger";
    for origin in [
        "http://rebound.example",
        "null",
        "https://relay.example.com",
    ] {
        front
            .ask("POST", add, &[&format!("Origin: {origin}")])
            .is(403);
        let both = [
            format!("Origin: {origin}"),
            "Host: rebound.example".to_owned(),
        ];
        front
            .ask("POST", add, &both.each_ref().map(String::as_str))
            .is(403);
        front.ask("GET", "/api/list-tokens", &[&both[0]]).is(403);
    }
    assert_eq!(
        front.ask("GET", "/api/list-tokens", &[]).is(200).text,
        "[]\n"
    );
}

/// The operator's page is there, and what it asks for is done.
fn serves_the_operator(front: &Front) {
    let page = front.ask("GET", "/", &[]);
    assert!(page.is(200).text.contains("Tokens"), "{}", page.text);
    let scheme = front.base.split_once("://").expect("a scheme").0;
    for host in [
        format!("127.0.0.1:{}", front.port),
        format!("localhost:{}", front.port),
        NAME.to_owned(),
    ] {
        let fields = [
            format!("Host: {host}"),
            format!("Origin: {scheme}://{host}"),
        ];
        let fields = fields.each_ref().map(String::as_str);
        front.ask("GET", "/api/list-streams", &fields).is(200);
        let add = "/api/add-token?type=http&sessionid=page";
        assert!(
            matches!(front.ask("POST", add, &fields).status, 200 | 201),
            "{host}"
        );
        front
            .ask("DELETE", "/api/revoke-token?sessionid=page", &fields)
            .is(200);
    }
}

/// A session and its keys: streams, pages, playlists, limits and blocks.
fn serves_keys(front: &Front, session: &str, counts_here: bool) {
    let call = |method, call: &str| front.ask(method, &format!("/api/{call}"), &[]);
    let rights = [
        "direction=in",
        "direction=out",
        "direction=out&max-viewers=1",
    ];
    let keys = [0, 1, 2].map(|number| {
        let key = format!("{session}~{number}");
        let terms = format!("for={session}&{}", rights[number]);
        call(
            "POST",
            &format!("add-token?type=http&sessionid={key}&{terms}"),
        )
        .is(201);
        key
    });
    let [source, viewer, limited] = keys.each_ref().map(|key| format!("/stream/{key}"));
    let _source = front.publish(&source);
    until("it runs", || {
        let streams = call("GET", "list-streams").text;
        streams.contains("\"bytes_received\":").then_some(())
    });
    let _watching = [&viewer, &limited].map(|path| front.watch(path));
    if counts_here {
        front.ask("GET", &limited, &[]).is(503);
    }
    let [of_source, of_viewer, _] = keys.each_ref().map(|key| format!("/watch/{key}"));
    let page = front.ask("GET", &of_viewer, &[]);
    assert!(page.is(200).text.contains("<video"), "{}", page.text);
    front.ask("GET", &of_source, &[]).is(403);
    front.ask("GET", "/watch/nobody", &[]).is(403);
    front.play_hls(&viewer);
    let by_query = format!("/stream/index.m3u8?sessionid={}", keys[1]);
    front.ask("GET", &by_query, &[]).is(307);

    call(
        "DELETE",
        &format!("abort-stream?sessionid={session}&block=600"),
    )
    .is(200);
    if counts_here {
        front.ask("GET", &viewer, &[]).is(429);
        front.ask("GET", &of_viewer, &[]).is(429);
    }
    front.ask("PUT", &source, &["Content-Length: 0"]).is(429);
    call("DELETE", &format!("revoke-token?sessionid={}", keys[1])).is(200);
    // An edge asks the origin once for each stream.
    if counts_here {
        front.ask("HEAD", &viewer, &[]).is(403);
    }
}

#[test]
#[ignore = "needs nginx, haproxy, curl and openssl"]
fn each_example_keeps_the_api_from_strangers_and_serves_everybody_else() {
    type Start = fn() -> Front;
    let rows: [(&str, Start, bool); 6] = [
        ("nginx.conf", || nginx_front("", false), true),
        (
            "nginx.conf below /live/",
            || nginx_front("/live", false),
            true,
        ),
        ("nginx.conf with TLS", || nginx_front("", true), true),
        (
            "tls.cfg",
            || haproxy("tls.cfg", &["RELAY"], servers(1, &[])),
            true,
        ),
        ("haproxy.cfg", four_relays, true),
        ("edges.cfg", origin_and_edges, false),
    ];
    for (name, start, counts_here) in rows {
        println!("{name}");
        let front = start();
        keeps_strangers_out(&front);
        serves_the_operator(&front);
        for session in ["room%3A1", "show"] {
            serves_keys(&front, session, counts_here);
        }
    }
}

/// A key that another server would have is refused before it exists.
#[test]
#[ignore = "needs haproxy and curl"]
fn four_relays_have_each_session_and_its_keys_together() {
    let front = four_relays();
    for number in 0..8 {
        serves_keys(&front, &format!("s{number}"), true);
    }
    for (key, session) in [("w4tch", "show"), ("show~a", "shows"), ("a", "~a")] {
        let add = format!("/api/add-token?type=http&sessionid={key}&for={session}");
        let got = front.ask("POST", &add, &[]);
        assert!(got.is(409).text.contains("first ~"), "{}", got.text);
    }
    for server in &front.servers {
        assert!(
            server
                .tokens()
                .iter()
                .all(|row| row["sessionid"] != "w4tch")
        );
    }
}

/// The browser gets the page and the media over TLS.
#[test]
#[ignore = "needs Chromium, nginx, haproxy, openssl and ffmpeg"]
fn the_watch_page_plays_behind_tls() {
    for front in [
        nginx_front("", true),
        haproxy("tls.cfg", &["RELAY"], servers(1, &[])),
    ] {
        let server = &front.servers[0];
        server.admit("tv");
        let url = format!("http://{}/stream/tv", server.address());
        let _encoder = publish(&url, H264, &["-c:a", "aac", "-f", "mpegts"]);
        let radio = front.ask("GET", "/stream/tv/listen.m3u", &[]);
        let address = format!("\n{}/stream/tv\n", front.base);
        assert!(radio.is(200).text.ends_with(&address), "{radio:?}");
        let page = format!("{}/watch/tv", front.base);
        let mut browser = Browser::open(&format!("tls-{}", front.port), &page);
        browser.await_true("document.body?.dataset.state == 'playing' && isSecureContext");
        let begun = browser.evaluate("media.currentTime");
        browser.await_true(&format!("media.currentTime > {begun} + 2"));
        let media = format!("{}/stream/tv/live.mp4", front.base);
        assert_eq!(browser.evaluate("media.dataset.url"), media);
    }
}

/// Players get playlists and segments, once for all names of the cache. Nothing else goes through.
#[test]
#[ignore = "needs nginx, Varnish and curl"]
fn the_caches_serve_playlists_and_nothing_else() {
    for (name, start) in [
        ("nginx", nginx_cache as fn(&Server) -> _),
        ("varnish", varnish),
    ] {
        println!("{name}");
        let server = Server::gated(&["--hls-segment=1"]);
        server.admit("room%3A1");
        server.add_token("sessionid=w4tch&for=room%3A1&direction=out");
        let (program, address) = start(&server);
        let front = Front {
            _program: program,
            servers: vec![server],
            base: format!("http://{address}"),
            port: address.port(),
        };
        let server = &front.servers[0];
        let direct = Front {
            _program: Background::start("true", &[]),
            servers: Vec::new(),
            base: format!("http://{}", server.address()),
            port: 0,
        };
        let _source = direct.publish("/stream/room%3A1");
        front.play_hls("/stream/room%3A1");
        let segment = front.play_hls("/stream/w4tch");
        let asked = server.figure("tollgate_segments_total");
        for host in ["a.example", "b.example", "rebound.example"] {
            front
                .ask("GET", &segment, &[&format!("Host: {host}")])
                .is(200);
        }
        assert_eq!(server.figure("tollgate_segments_total"), asked, "{name}");
        let others = [
            "/stream/room%3A1",
            "/watch/room%3A1",
            "/stream/../api/list-tokens",
        ];
        for path in OPERATORS.iter().chain(&others) {
            for host in [NAME, "rebound.example", "127.0.0.1"] {
                let got = front.ask("GET", path, &[&format!("Host: {host}")]);
                assert_eq!(got.status, 404, "{path}: {}", got.text);
            }
        }
        for method in ["POST", "PUT", "DELETE"] {
            for path in ["/api/add-token?type=http&sessionid=a", "/stream/room%3A1/x"] {
                let got = front.ask(method, path, &[]);
                assert!(
                    matches!(got.status, 403..=405),
                    "{method} {path} {}",
                    got.status
                );
            }
        }
        assert_eq!(server.tokens().len(), 2);
    }
}
