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

/// Sends a vector piece by piece, then another request. Returns the faults of the answers.
fn try_vector<'a>(
    server: &Server,
    vector: &Vector,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> Result<(), String> {
    let mut client = Client::connect(server.address());
    for piece in pieces {
        // Whoever is refused early may see its connection closed while it is still sending.
        client.try_send(piece);
    }
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

/// Tries a vector, and records failures.
fn note<'a>(
    failures: &mut Vec<String>,
    server: &Server,
    vector: &Vector,
    pieces: impl Iterator<Item = &'a [u8]>,
) {
    println!("{}", vector.name);
    if let Err(wrong) = try_vector(server, vector, pieces) {
        failures.push(format!("{}: {wrong}", vector.name));
    }
}

#[test]
fn every_vector_has_its_outcome() {
    const { assert!(VECTORS.len() >= 80) };
    let server = Server::start(&[]);
    let mut failures = Vec::new();
    for vector in VECTORS {
        let bytes = vector.bytes();
        note(&mut failures, &server, vector, std::iter::once(&bytes[..]));
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn every_vector_has_the_same_outcome_byte_by_byte() {
    let server = Server::start(&["--connections-per-host=10000"]);
    let mut failures = Vec::new();
    for vector in VECTORS {
        let bytes = vector.bytes();
        note(&mut failures, &server, vector, bytes.chunks(1));
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn a_vector_has_the_same_outcome_wherever_it_is_split() {
    let server = Server::start(&["--connections-per-host=10000"]);
    let mut failures = Vec::new();
    let mut splits = 0;
    for vector in VECTORS.iter().filter(|vector| vector.is_split) {
        let bytes = vector.bytes();
        for split in 1..bytes.len() {
            let (before, after) = bytes.split_at(split);
            note(&mut failures, &server, vector, [before, after].into_iter());
            splits += 1;
        }
    }
    assert!(splits > 500, "{splits} splits only");
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
