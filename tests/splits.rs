//! The core answers the same bytes in the same way, wherever they are split. Here each piece is
//! really read alone: over a socket the kernel may join them.

#[path = "support/vectors.rs"]
#[allow(dead_code)]
mod vectors;

use tollgate::config::{self, Command};
use tollgate::gather::Gather;
use tollgate::relay::{Action, ConnectionId, Outgoing, Relay, write_next};
use tollgate::time::Instant;
use vectors::VECTORS;

/// Longer vectors, such as heads beyond a limit, are only tried byte by byte.
const SPLIT_BYTES_MAX: usize = 400;
const BEHIND: &[u8] = b"GET /behind HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// What a client gets for these pieces, and whether its connection is closed.
#[derive(Default, PartialEq, Debug)]
struct Answers {
    text: String,
    is_closed: bool,
}

impl Answers {
    fn to<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Answers {
        let Ok(Command::Run(config)) = config::parse([""; 0], []) else {
            panic!("no options are needed");
        };
        let mut relay = Relay::new(config.settings(1_000, 0, 7));
        let peer = ([192, 0, 2, 1], 1_000).into();
        let id = relay.accepted(peer, Instant::START).expect("a place");
        let mut answers = Answers::default();
        for piece in pieces {
            let mut rest = piece;
            while !rest.is_empty() && !answers.is_closed {
                let wanted = relay.bytes_wanted(id).min(rest.len());
                assert!(wanted > 0, "it reads on");
                relay.received(id, &rest[..wanted], Instant::START);
                rest = &rest[wanted..];
                answers.take(&mut relay, id);
            }
        }
        if !answers.is_closed {
            relay.input_ended(id, false, Instant::START);
            answers.take(&mut relay, id);
        }
        answers
    }

    fn take(&mut self, relay: &mut Relay, id: ConnectionId) {
        while relay.do_deferred_work(Instant::START).is_some() {}
        let mut write = |_, gather: &Gather<'_>| {
            for slice in gather.slices() {
                self.text += &String::from_utf8_lossy(slice);
            }
            Outgoing::Whole(gather.bytes())
        };
        while write_next(relay, Instant::START, &mut write).is_some() {}
        while let Some(action) = relay.next_action() {
            self.is_closed |= action == Action::Close(id);
        }
    }
}

#[test]
fn a_vector_has_the_same_answers_wherever_it_is_split() {
    let mut splits = 0;
    for vector in VECTORS {
        let bytes = vector.bytes();
        let whole = Answers::to([&bytes[..], BEHIND].into_iter());
        assert!(whole.text.starts_with("HTTP/1.1 ") && whole.is_closed);
        let one_by_one = Answers::to(bytes.chunks(1).chain([BEHIND]));
        assert_eq!(one_by_one, whole, "{}, byte by byte", vector.name);
        if bytes.len() > SPLIT_BYTES_MAX {
            continue;
        }
        for place in 1..bytes.len() {
            let (before, after) = bytes.split_at(place);
            let split = Answers::to([before, after, BEHIND].into_iter());
            assert_eq!(split, whole, "{}, split at {place}", vector.name);
            splits += 1;
        }
    }
    assert!(splits > 9_000, "{splits} splits only");
}
