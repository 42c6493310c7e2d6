//! `examples/control.py` and `examples/webhook.py`, called by somebody who integrates them.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::support::client::{Client, request};
use super::support::response::Response;
use super::support::server::Server;
use super::support::streaming::{Source, Viewer};
use super::support::{free_address, until};
use super::tools::{Background, folder};

const SECRET: &str = "Authorization: Bearer of the test";

/// The control server of a relay.
struct Control {
    _program: Background,
    address: SocketAddr,
    told: PathBuf,
}

impl Control {
    fn of(relay: SocketAddr) -> Control {
        let place = folder(&format!("control-{}-{}", std::process::id(), relay.port()));
        let (told, errors) = (place.join("told"), place.join("errors"));
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/control.py"));
        command
            .args([&format!("http://{relay}"), "0"])
            .env("CONTROL_SECRET", "of the test")
            // Nobody is there: it has to go past it.
            .env("http_proxy", "http://127.0.0.1:9")
            .stdout(File::create(&told).expect("a file"))
            .stderr(File::create(&errors).expect("a file"));
        let program = Background::of(command);
        let address = until("it listens", || {
            let text = read(&errors);
            let address = text.split_once("listening control http://")?.1;
            address.split_once('\n')?.0.parse().ok()
        });
        let control = Control {
            _program: program,
            address,
            told,
        };
        control.await_event("snapshot-end", |_| true);
        control
    }

    fn ask(&self, method: &str, target: &str) -> Response {
        request(self.address, method, target, &[SECRET])
    }

    /// Where a new key to the session watches.
    fn key(&self, session: &str) -> String {
        let answer = self.ask("POST", &format!("/keys?session={session}"));
        assert_eq!(answer.status(), 201, "{}", answer.text());
        let answer = answer.json();
        assert_eq!(answer["seconds"], 3600);
        answer["path"].as_str().expect("a path").to_owned()
    }

    /// The first event of that name that is the one, as it was printed.
    fn await_event(&self, name: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        until(name, || {
            let text = read(&self.told);
            let whole = text
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'));
            let mut events = whole
                .filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
                .map(|data| serde_json::from_str(data).expect("JSON"));
            events.find(|data| is_it(data))
        })
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a file of UTF-8")
}

fn publisher(server: &Server) -> Source {
    let key = "/api/add-token?type=http&sessionid=s3nd&for=the%20show%20%2B&direction=in";
    assert_eq!(server.request("POST", key).status(), 201);
    Source::open(server.address(), "/stream/s3nd")
}

#[test]
#[ignore = "needs python3"]
fn who_was_given_a_key_watches_is_told_of_and_is_kicked() {
    let server = Server::gated(&[]);
    let mut source = publisher(&server);
    let control = Control::of(server.address());
    let mut viewer = Viewer::ask(server.address(), &control.key("the%20show%20%2B"));
    let mut other = Viewer::ask(server.address(), &control.key("the%20show%20%2B"));
    let comes = control.await_event("viewer-comes", |_| true);
    assert_eq!(comes["sessionid"], "the show +");
    server.await_viewers("the show +", 2);
    source.send(b"first");
    assert_eq!(
        (viewer.read(5), other.read(5)),
        (b"first".to_vec(), b"first".to_vec())
    );
    let id = comes["id"].as_str().expect("an id").to_owned();
    assert_eq!(
        control.ask("DELETE", &format!("/viewers?id={id}")).status(),
        204
    );
    viewer.assert_lost(b"");
    let cut = control.await_event("viewer-cut", |_| true);
    assert_eq!(
        (&cut["id"], &cut["reason"]),
        (&comes["id"], &"kicked".into())
    );
    control.await_event("viewer-goes", |data| data["id"] == comes["id"]);
    assert_eq!(
        control.ask("DELETE", &format!("/viewers?id={id}")).status(),
        404
    );
    source.finish();
    other.assert_rest(b"");
    // Keys are secrets, and are good for watching, for an hour.
    let told = read(&control.told);
    let tokens = server.request("GET", "/api/list-tokens?details=1").json();
    let tokens = tokens.as_array().expect("tokens");
    assert_eq!(tokens.len(), 3);
    for token in &tokens[1..] {
        let key = token["sessionid"].as_str().expect("a key");
        assert!(key.len() >= 22 && !told.contains(key));
        assert_eq!(token["direction"], "out");
        let left =
            token["ends"].as_u64().expect("seconds") - comes["time"].as_u64().expect("seconds");
        assert!((3500..=3700).contains(&left), "{left}");
        let target = format!("/stream/{key}");
        server
            .request("PUT", &target)
            .assert_problem(403, &["watching"]);
    }
}

#[test]
#[ignore = "needs python3"]
fn who_does_not_name_the_secret_gets_nothing() {
    let server = Server::gated(&[]);
    let control = Control::of(server.address());
    for fields in [
        &[][..],
        &["Authorization: Bearer"],
        &["Authorization: Bearer of the tes"],
        &["Authorization: Bearer of the test\u{e9}"],
        &["Authorization: Basic of the test"],
    ] {
        let answer = request(control.address, "POST", "/keys?session=show", fields);
        answer.assert_problem(401, &[]);
        let answer = request(control.address, "DELETE", "/viewers?id=0-0", fields);
        answer.assert_problem(401, &[]);
    }
    // What is not one of its calls to the letter does nothing.
    for (method, target) in [
        ("POST", "/keys"),
        ("POST", "/keys?session=a&session=b"),
        ("POST", "/keys?session=a&direction=in"),
        ("POST", "/keys?session=%ff"),
        ("POST", "/keys?session=caf\u{e9}"),
        ("POST", "/keys?Session=a"),
        ("POST", "/viewers?id=0-0"),
        ("DELETE", "/keys?session=a"),
    ] {
        control
            .ask(method, target)
            .assert_problem(400, &["POST /keys?session="]);
    }
    // What the relay refuses, it refuses in the relay's words.
    let none = control.ask("POST", "/keys?session=");
    none.assert_problem(400, &["for", "empty"]);
    assert_eq!(server.tokens().len(), 0);
    control.key("show");
    assert_eq!(server.tokens().len(), 1);
    // Who says nothing, or says it a byte at a time, holds up nobody: one by one they would take
    // longer than there is patience.
    let mut slow: Vec<Client> = (0..20).map(|_| Client::connect(control.address)).collect();
    for client in &mut slow {
        client.send("POST /keys?session=show HTTP/1.1\r\nHost:");
    }
    control.key("show");
    drop(slow);
    drop(server);
    control
        .ask("POST", "/keys?session=show")
        .assert_problem(502, &["the relay"]);
}

#[test]
#[ignore = "needs python3"]
fn keys_and_what_is_told_outlast_a_restart_of_the_relay() {
    let place = folder(&format!("control-tokens-{}", std::process::id()));
    let file = format!("--token-file={}/tokens", place.display());
    let _ = std::fs::remove_file(place.join("tokens"));
    let address = free_address();
    let listen = format!("--listen={address}");
    let mut server = Server::gated(&[&listen, &file]);
    let control = Control::of(address);
    let path = control.key("the%20show%20%2B");
    server.signal("TERM");
    assert!(server.exit_status().success());
    let server = Server::gated(&[&listen, &file]);
    let source = publisher(&server);
    control.await_event("stream", |_| true);
    let _viewer = Viewer::ask(address, &path);
    control.await_event("viewer-comes", |data| data["sessionid"] == "the show +");
    drop(source);
}

#[test]
#[ignore = "needs python3"]
fn the_webhook_example_posts_the_events_that_it_is_given() {
    let hook = TcpListener::bind("127.0.0.1:0").expect("a port");
    hook.set_nonblocking(true).expect("an option");
    let server = Server::gated(&[]);
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/webhook.py"));
    let address = hook.local_addr().expect("an address");
    command.args([
        &format!("http://{}", server.address()),
        &format!("http://{address}/hook"),
        "snapshot-end",
        "stream-begins",
    ]);
    let _program = Background::of(command);
    let next = || {
        let (connection, _) = until("the webhook is called", || hook.accept().ok());
        let mut request = BufReader::new(&connection);
        let mut length = 0;
        loop {
            let mut line = String::new();
            request.read_line(&mut line).expect("a line");
            let field = line.split_once(": ");
            if let Some(("Content-Length", value)) = field {
                length = value.trim().parse().expect("a number");
            } else if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        request.read_exact(&mut body).expect("a body");
        (&connection)
            .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
            .expect("an answer");
        serde_json::from_slice::<Value>(&body).expect("JSON")
    };
    assert_eq!(next()["event"], "snapshot-end");
    let _source = publisher(&server);
    let begins = next();
    assert_eq!(begins["event"], "stream-begins");
    assert_eq!(begins["data"]["sessionid"], "the show +");
}
