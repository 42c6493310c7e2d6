//! Lists of several relays as one.

use crate::support;
use std::io::{Read, Write};
use std::net::TcpListener;

use crate::support::response::Response;
use crate::support::server::Server;
use crate::support::streaming::Source;
use serde_json::Value;

fn peer_of(server: &Server) -> String {
    format!("--peer=http://{}", server.address())
}

fn names(response: &Response) -> Vec<String> {
    let rows = response.json();
    let rows = rows.as_array().expect("an array").iter();
    rows.map(|row| row["sessionid"].as_str().expect("a sessionid").to_owned())
        .collect()
}

fn missing(response: &Response) -> Option<&str> {
    response.head.field("Tollgate-Missing")
}

#[test]
fn lists_are_of_all_peers_and_say_who_is_missing() {
    let others = [Server::gated(&[]), Server::gated(&[]), Server::gated(&[])];
    let peers: Vec<String> = others.iter().map(peer_of).collect();
    let peers: Vec<&str> = peers.iter().map(String::as_str).collect();
    let server = Server::gated(&peers);
    let list = |what: &str| server.request("GET", &format!("/api/list-{what}"));
    assert_eq!(list("tokens").json(), Value::Array(Vec::new()));
    server.admit("own");
    others[0].admit("first");
    for number in 0..2000 {
        others[2].admit(&format!("third-{number}"));
    }
    let tokens = list("tokens");
    assert_eq!(missing(&tokens), None);
    let mut expected = vec!["own".to_owned(), "first".to_owned()];
    expected.extend((0..2000).map(|number| format!("third-{number}")));
    assert_eq!(names(&tokens), expected);
    let _source = Source::open(others[0].address(), "/stream/first");
    assert_eq!(names(&list("streams")), ["first"]);
    // Without a row of its own, and with rows of one other only.
    assert_eq!(
        others[1].request("GET", "/api/list-tokens").json(),
        Value::Array(Vec::new())
    );
    // One is gone.
    let [first, second, third] = others;
    let gone = third.address();
    third.signal("KILL");
    third.forget();
    let tokens = list("tokens");
    assert_eq!(names(&tokens), ["own", "first"]);
    assert_eq!(missing(&tokens), Some(gone.to_string().as_str()));
    drop((first, second));
}

#[test]
fn peers_of_each_other_do_not_ask_for_ever() {
    let address = support::free_address();
    let other = Server::gated(&[&format!("--peer=http://{address}")]);
    let server = Server::gated(&[&format!("--listen={address}"), &peer_of(&other)]);
    server.admit("a");
    other.admit("b");
    assert_eq!(
        names(&server.request("GET", "/api/list-tokens")),
        ["a", "b"]
    );
    assert_eq!(names(&other.request("GET", "/api/list-tokens")), ["b", "a"]);
}

#[test]
fn peers_that_do_not_tell_are_left_out() {
    let answers: [&[u8]; 5] = [
        b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"a\":[1]}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n[{\"sessionid\":\"x\"}",
        b"nonsense\r\n\r\n",
        // It says nothing, and is not waited for for ever.
        b"",
    ];
    let listeners = answers.map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let addresses = listeners
        .each_ref()
        .map(|listener| listener.local_addr().expect("an address"));
    let options: Vec<String> = addresses
        .iter()
        .map(|address| format!("--peer=http://{address}"))
        .collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let server = Server::gated(&options);
    server.admit("own");
    std::thread::scope(|scope| {
        for (listener, answer) in listeners.iter().zip(answers) {
            scope.spawn(move || {
                let (mut connection, _) = listener.accept().expect("it is asked");
                let mut asked = [0; 4096];
                let _ = connection.read(&mut asked);
                let _ = connection.write_all(answer);
                if answer.is_empty() {
                    // Until it is given up.
                    assert_eq!(connection.read(&mut asked).ok(), Some(0));
                }
            });
        }
        let tokens = server.request("GET", "/api/list-tokens");
        assert_eq!(names(&tokens), ["own"]);
        let expected = addresses.map(|address| address.to_string()).join(", ");
        assert_eq!(missing(&tokens), Some(expected.as_str()));
    });
}
