//! Many viewers on one thread, each checked byte by byte against what its source sends.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::PATIENCE;
use super::client::Client;
use super::response::{Body, End, Head};

/// Viewers that read at the same time.
#[derive(Default)]
pub struct Crowd {
    members: Vec<Member>,
}

struct Member {
    stream: TcpStream,
    expected: Arc<Vec<u8>>,
    offset: usize,
    phase: Phase,
}

enum Phase {
    Head(Vec<u8>),
    Body(Body),
    Ended(End),
}

impl Crowd {
    /// Adds a viewer that must get exactly `expected`.
    #[track_caller]
    pub fn join(&mut self, address: SocketAddr, target: &str, expected: &Arc<Vec<u8>>) {
        let mut client = Client::connect(address);
        client.send_head("GET", target, &[]);
        let stream = client.into_stream();
        stream
            .set_nonblocking(true)
            .expect("a socket that does not block");
        let expected = Arc::clone(expected);
        self.members.push(Member {
            stream,
            expected,
            offset: 0,
            phase: Phase::Head(Vec::new()),
        });
    }

    /// Reads until every viewer's stream has ended, and checks that each got every byte and a clean
    /// end.
    #[track_caller]
    pub fn assert_exact(&mut self) {
        let mut buffer = vec![0; 256 * 1024];
        let mut last_arrival = Instant::now();
        while self.members.iter().any(|member| !member.has_ended()) {
            let mut arrived = false;
            for member in self.members.iter_mut().filter(|member| !member.has_ended()) {
                arrived |= member.take(&mut buffer);
            }
            if arrived {
                last_arrival = Instant::now();
            } else {
                assert!(
                    last_arrival.elapsed() < PATIENCE,
                    "the viewers get nothing more, and no end"
                );
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        for (number, member) in self.members.iter().enumerate() {
            assert!(
                matches!(member.phase, Phase::Ended(End::Complete)),
                "viewer {number} lost its stream"
            );
            assert_eq!(
                member.offset,
                member.expected.len(),
                "viewer {number} did not get all"
            );
        }
    }
}

impl Member {
    fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }

    /// Reads once; says whether anything came.
    fn take(&mut self, buffer: &mut [u8]) -> bool {
        match self.stream.read(buffer) {
            Ok(length) if length > 0 => self.check(&buffer[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            // Closed or reset.
            Ok(_) | Err(_) => self.phase = Phase::Ended(End::CutShort),
        }
        true
    }

    fn check(&mut self, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        if let Phase::Head(head) = &mut self.phase {
            head.append(&mut bytes);
            let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") else {
                return;
            };
            bytes = head.split_off(end + 4);
            let head = Head::parse(head);
            assert_eq!(head.status, 200);
            self.phase = Phase::Body(Body::new("GET", &head));
        }
        let Phase::Body(body) = &mut self.phase else {
            return;
        };
        let mut content = Vec::new();
        body.read(&bytes, &mut content);
        let expected = self.expected.get(self.offset..self.offset + content.len());
        assert!(
            expected == Some(&content),
            "a viewer's bytes differ from the source's within {} of byte {}",
            content.len(),
            self.offset
        );
        self.offset += content.len();
        if body.is_complete() {
            self.phase = Phase::Ended(End::Complete);
        }
    }
}
