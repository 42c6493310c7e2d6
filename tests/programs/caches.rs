//! HLS through the caches of `examples/nginx-hls.conf` and `examples/varnish-hls.vcl`: many viewers
//! are one client of the origin, and a revoked viewer gets nothing more.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::support::client::{Client, request};
use super::support::encoder::{Encoder, Kind};
use super::support::playlist::Playlist;
use super::support::response::{End, Response};
use super::support::server::Server;
use super::support::streaming::Source;
use super::support::{free_address, until};
use super::tools::*;

const LIST: &str = "/stream/demo/index.m3u8";
const VIEWERS: usize = 60;

/// A cache before a server.
struct Cache {
    _program: Background,
    address: SocketAddr,
}

/// Starts a cache before this server. Returns its address.
type Start = fn(&Server) -> (Background, SocketAddr);

/// Returns an example with this test's addresses and paths.
fn written(example: &str, name: &str, own: &[(&str, String)]) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let mut text = std::fs::read_to_string(format!("{folder}/{example}")).expect("an example");
    for (usual, own) in own {
        assert!(text.contains(usual), "{example} has no {usual}");
        text = text.replace(usual, own);
    }
    let path = folder_of(name).join(example);
    std::fs::write(&path, text).expect("a file");
    path
}

/// A folder of a cache's own, with nothing in it.
fn folder_of(name: &str) -> PathBuf {
    let (id, thread) = (std::process::id(), std::thread::current().id());
    folder(&format!("cache-{name}-{id}-{thread:?}"))
}

pub fn nginx_cache(server: &Server) -> (Background, SocketAddr) {
    let address = free_address();
    let place = folder_of("nginx");
    let at = |name: &str| format!("{}/{name}", place.display());
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = temporary.map(|name| format!("{name}_temp_path {};", at(name)));
    let own = [
        ("127.0.0.1:8000", server.address().to_string()),
        ("listen 80", format!("listen {address}")),
        ("/var/cache/nginx/hls", at("hls")),
        (
            "http {",
            format!("http {{ access_log off; {}", temporary.join(" ")),
        ),
    ];
    let path = written("nginx-hls.conf", "nginx", &own);
    let log = at("error.log");
    let globals = format!("daemon off; user root; pid {}; error_log {log};", at("pid"));
    let path = path.to_str().expect("a path in UTF-8").to_owned();
    start("nginx", &["-c", &path, "-e", &log, "-g", &globals], address)
}

pub fn varnish(server: &Server) -> (Background, SocketAddr) {
    let address = free_address();
    let port = server.address().port().to_string();
    let path = written(
        "varnish-hls.vcl",
        "varnish",
        &[("8000\"", format!("{port}\""))],
    );
    let path = path.to_str().expect("a path in UTF-8").to_owned();
    let place = folder_of("varnish").join("n");
    let place = place.to_str().expect("a path in UTF-8").to_owned();
    let listen = address.to_string();
    let arguments = [
        "-F",
        "-j",
        "none",
        "-a",
        &listen,
        "-s",
        "malloc,64m",
        "-n",
        &place,
        "-f",
        &path,
    ];
    start("varnishd", &arguments, address)
}

fn start(program: &str, arguments: &[&str], address: SocketAddr) -> (Background, SocketAddr) {
    let program = Background::start(program, arguments);
    until("the cache answers", || {
        std::net::TcpStream::connect(address).ok()
    });
    (program, address)
}

impl Cache {
    fn before(server: &Server, start: Start) -> Cache {
        let (program, address) = start(server);
        Cache {
            _program: program,
            address,
        }
    }

    fn get(&self, target: &str) -> Response {
        request(self.address, "GET", target, &[])
    }

    /// Many ask for the same at once; all get it.
    fn get_by_many(&self, target: &str) -> Vec<Response> {
        let mut clients: Vec<Client> = (0..VIEWERS)
            .map(|_| Client::connect(self.address))
            .collect();
        for client in &mut clients {
            client.send_head("GET", target, &[]);
        }
        clients
            .iter_mut()
            .map(|client| client.response("GET"))
            .collect()
    }
}

/// A server with a source, a cache before it, and the playlist from the cache.
fn listed(start: Start) -> (Server, Encoder, Source, Cache, String) {
    let server = Server::gated(&["--hls-segment=1"]);
    server.admit("demo");
    let mut encoder = Encoder::new(Kind::Ts);
    encoder.group = 1.0;
    let mut source = Source::open(server.address(), "/stream/demo");
    source.send(&encoder.run(4.5));
    let cache = Cache::before(&server, start);
    let text = until("it is listed", || {
        let list = cache.get(LIST);
        (list.status() == 200).then(|| list.text())
    });
    (server, encoder, source, cache, text)
}

fn many_are_one(start: Start) {
    let (server, mut encoder, mut source, cache, text) = listed(start);
    let mut newest = Playlist::read(&text)
        .segments
        .pop()
        .expect("a segment")
        .number;
    let lists_before = server.figure("tollgate_playlists_total");
    let segments_before = server.figure("tollgate_segments_total");
    for round in 1..=5 {
        // All ask for the list that does not exist yet, and wait as one.
        newest += 1;
        let ahead = format!("{LIST}?_HLS_msn={newest}");
        let mut clients: Vec<Client> = (0..VIEWERS)
            .map(|_| Client::connect(cache.address))
            .collect();
        for client in &mut clients {
            client.send_head("GET", &ahead, &[]);
        }
        until("the origin is asked", || {
            (server.figure("tollgate_blocked_playlists") > 0).then_some(())
        });
        assert_eq!(server.figure("tollgate_blocked_playlists"), 1);
        source.send(&encoder.run(1.0));
        let lists = clients.iter_mut().map(|client| client.response("GET"));
        let lists: Vec<String> = lists.map(|list| list.text()).collect();
        assert!(lists.iter().all(|list| *list == lists[0]));
        let segment = Playlist::read(&lists[0]).segments.pop().expect("a segment");
        assert_eq!(segment.number, newest);
        let target = format!("/stream/demo/{}", segment.name);
        let segments = cache.get_by_many(&target);
        let own = server.request("GET", &target);
        for segment in &segments {
            assert_eq!((segment.status(), segment.end), (200, End::Complete));
            assert!(segment.body == own.body);
            assert_eq!(
                segment.head.field("Cache-Control"),
                Some("public, max-age=60, immutable")
            );
        }
        // One for all of them, and the test's own.
        let lists = server.figure("tollgate_playlists_total") - lists_before;
        let segments = server.figure("tollgate_segments_total") - segments_before;
        assert_eq!((lists, segments), (round, 2 * round));
    }
}

fn what_ends_ends(start: Start) {
    let (server, mut encoder, mut source, cache, text) = listed(start);
    let segments = Playlist::read(&text).segments;
    let [.., other, newest] = segments.as_slice() else {
        panic!("{text}");
    };
    let target = |name: &str| format!("/stream/demo/{name}");
    // What is not there yet is not kept as such.
    let next = newest.number + 1;
    let coming = target(
        &newest
            .name
            .replace(&newest.number.to_string(), &next.to_string()),
    );
    assert_eq!(cache.get(&coming).status(), 404);
    source.send(&encoder.run(1.0));
    until("it has come", || {
        (cache.get(&coming).status() == 200).then_some(())
    });

    assert_eq!(cache.get(&target(&newest.name)).status(), 200);
    server.request("DELETE", "/api/revoke-token?sessionid=demo");
    let ahead = format!("{LIST}?_HLS_msn={}", next + 1);
    cache.get(&ahead).assert_problem(403, &["token"]);
    cache
        .get(&target(&other.name))
        .assert_problem(403, &["token"]);
    until("the playlist ends", || {
        (cache.get(LIST).status() == 403).then_some(())
    });
    // For a minute, by the headers.
    assert_eq!(cache.get(&target(&newest.name)).status(), 200);
}

#[test]
#[ignore = "needs nginx"]
fn for_the_origin_many_behind_nginx_are_one() {
    many_are_one(nginx_cache);
}

/// What the cache does not keep nobody waits for: it has others wait half a second each.
#[test]
#[ignore = "needs nginx"]
fn another_spelling_goes_by_the_cache_of_nginx() {
    let server = Server::gated(&["--hls-segment=1"]);
    server.admit("a%40b");
    let mut encoder = Encoder::new(Kind::Ts);
    encoder.group = 1.0;
    let mut source = Source::open(server.address(), "/stream/a%40b");
    source.send(&encoder.run(9.0));
    let cache = Cache::before(&server, nginx_cache);
    let list = until("it is listed", || {
        let response = cache.get("/stream/a@b/index.m3u8");
        let is_listed = response.status() == 200;
        is_listed.then(|| Playlist::read(&response.text()))
    });
    let newest = list.segments.last().expect("a segment").number;
    let ahead = format!("/stream/a@b/index.m3u8?_HLS_msn={}", newest + 2);
    let mut clients = [(); 3].map(|()| Client::connect(cache.address));
    for client in &mut clients {
        client.send_head("GET", &ahead, &[]);
    }
    server.await_figure("tollgate_blocked_playlists", 3);
    source.send(&encoder.run(3.0));
    for client in &mut clients {
        let list = client.response("GET");
        assert_eq!(list.status(), 200);
        assert_eq!(list.head.field("Cache-Control"), Some("no-store"));
    }
}

#[test]
#[ignore = "needs nginx"]
fn what_is_revoked_ends_behind_nginx() {
    what_ends_ends(nginx_cache);
}

#[test]
#[ignore = "needs Varnish"]
fn for_the_origin_many_behind_varnish_are_one() {
    many_are_one(varnish);
}

#[test]
#[ignore = "needs Varnish"]
fn what_is_revoked_ends_behind_varnish() {
    what_ends_ends(varnish);
}
