//! Where requests begin and end: no two readers of the same bytes may disagree about that, so what
//! is doubtful is refused.
//!
//! Behind every vector lies a request that its sender would like to see answered. It must not be,
//! unless the vector is a whole and proper request itself.

use crate::support::client::Client;
use crate::support::server::Server;
use crate::support::until;
use crate::support::vectors::{Outcome, VECTORS, Vector};

const BEHIND: &str = "GET /behind HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// Sends a vector, then another request. Returns the faults of the answers.
fn try_vector(server: &Server, vector: &Vector) -> Result<(), String> {
    let mut client = Client::connect(server.address());
    // Whoever is refused early may see its connection closed while it is still sending.
    client.try_send(vector.bytes());
    client.try_send(BEHIND);
    client.finish_sending();
    let response = client.response(vector.method());
    let (status, is_closing) = match vector.outcome {
        Outcome::Refused(status) | Outcome::Last(status) => (status, true),
        Outcome::Accepted(status) => (status, false),
    };
    if response.status() != status {
        return Err(format!(
            "not {status} but {}: {}",
            response.status(),
            response.text()
        ));
    }
    if status >= 400 {
        response.assert_problem(status, &[]);
    }
    if response.head.closes() != is_closing {
        return Err(format!("the connection is to be closed: {is_closing}"));
    }
    if !is_closing && client.response("GET").status() != 404 {
        return Err("the request behind it got another answer than its own".to_owned());
    }
    match client.rest() {
        rest if rest.is_empty() => Ok(()),
        rest => Err(format!(
            "one answer too many: {}",
            String::from_utf8_lossy(&rest)
        )),
    }
}

#[test]
fn every_vector_has_its_outcome() {
    const { assert!(VECTORS.len() >= 80) };
    let server = Server::start(&[]);
    let failures: Vec<String> = VECTORS
        .iter()
        .filter_map(|vector| {
            let wrong = try_vector(&server, vector).err()?;
            Some(format!("{}: {wrong}", vector.name))
        })
        .collect();
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn names_of_vectors_are_unique() {
    let mut names: Vec<&str> = VECTORS.iter().map(|vector| vector.name).collect();
    names.sort_unstable();
    names
        .windows(2)
        .for_each(|pair| assert_ne!(pair[0], pair[1]));
}

#[test]
fn a_client_that_leaves_anywhere_in_its_request_does_no_harm() {
    let server = Server::gated(&["--connections-per-host=10000"]);
    server.admit("early");
    let request = "PUT /stream/early HTTP/1.1\r\nHost: h\r\nContent-Type: video/webm\r\nTransfer-Encoding: chunked\r\n\r\n\
                   5;name=value\r\nhello\r\n6\r\n world\r\n0\r\nTrailer: t\r\n\r\n";
    for length in 0..request.len() {
        for says_so in [false, true] {
            let mut client = Client::connect(server.address());
            client.send(&request[..length]);
            if says_so {
                client.finish_sending();
                client.rest();
            }
        }
    }
    server.await_end_of_stream("early");
    let mut client = Client::connect(server.address());
    // Those who left without a word may be noticed one by one.
    let answer = until("the session is free", || {
        let mut client = Client::connect(server.address());
        client.send(request);
        let answer = client.response("PUT");
        (answer.status() != 409).then_some(answer)
    });
    assert_eq!(answer.json()["bytes_received"], 11);
    client.assert_usable();
}
