//! Who follows the events over a socket.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use super::picture::Unit;

/// A connection on which events come.
pub struct Follower {
    lines: BufReader<TcpStream>,
    pub head: String,
}

impl Follower {
    /// Asks with this query, and these lines in the head.
    #[track_caller]
    pub fn ask(address: SocketAddr, query: &str, fields: &str) -> Follower {
        let mut stream = TcpStream::connect(address).expect("the server accepts");
        stream
            .set_read_timeout(Some(super::PATIENCE))
            .expect("a read time-out");
        let request = format!("GET /api/events{query} HTTP/1.1\r\nHost: {address}\r\n{fields}\r\n");
        stream.write_all(request.as_bytes()).expect("it is taken");
        let mut follower = Follower {
            lines: BufReader::new(stream),
            head: String::new(),
        };
        while !follower.head.ends_with("\r\n\r\n") {
            let read = follower.lines.read_line(&mut follower.head);
            assert_ne!(read.expect("a head"), 0, "{}", follower.head);
        }
        follower
    }

    /// The next unit, which is no comment; `None`: the server has ended it.
    #[track_caller]
    pub fn next(&mut self) -> Option<Unit> {
        let mut block = String::new();
        loop {
            if self.lines.read_line(&mut block).expect("a line in time") == 0 {
                return None;
            }
            if block.ends_with("\n\n") {
                match Unit::parse(&block) {
                    Some(unit) => return Some(unit),
                    None => block.clear(),
                }
            }
        }
    }

    /// All up to the first unit of this name, that included.
    #[track_caller]
    pub fn until(&mut self, event: &str) -> Vec<Unit> {
        let mut units = Vec::new();
        loop {
            units.push(self.next().expect("it goes on"));
            if units.last().is_some_and(|unit| unit.event == event) {
                return units;
            }
        }
    }
}
