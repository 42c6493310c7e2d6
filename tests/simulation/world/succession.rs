//! Other cores take over, at any step.

use tollgate::relay::ConnectionId;
use tollgate::relay::handover::{self, Copying, Successor};

use super::{PORT, World};
use crate::simulation::chance::Chance;

/// The next core, and the pieces that it has.
pub(super) type Next = (Copying, Successor);

/// Most bytes that are copied at once.
const PIECE_BYTES_MAX: usize = 100;
/// Steps of a turn after which another core may take over.
const STEPS_OF_A_TURN: usize = 4;

impl World {
    /// Another core may take this one's place within a turn. Not where worlds are compared: whose
    /// turn it is, of those who have something to get, is not told.
    pub(super) fn hand_over_within(&mut self) {
        if !self.is_compared {
            self.hand_over_perhaps();
        }
    }

    /// The same after a turn.
    pub(super) fn hand_over_behind(&mut self) {
        if self.is_compared {
            self.come_to_rest();
        }
        self.hand_over_perhaps();
    }

    /// Streams, and what clients can make large, are copied while the core runs. Returns the next
    /// core.
    fn copy(&mut self) -> Next {
        let next = self.succession.next.take();
        let (mut copying, mut successor) = next.unwrap_or_else(|| {
            let random_key = match self.is_compared {
                true => self.random_key,
                false => self.succession.chance.draw(),
            };
            let settings = self.config.settings(1000, 0, random_key.into());
            let successor = Successor::new(settings, self.is_kept);
            (Copying::begin(&mut self.relay), successor)
        });
        copying.list(&mut self.relay);
        while let Some(piece) = copying.next(&mut self.relay, PIECE_BYTES_MAX) {
            successor.take(piece).expect("it is in order");
        }
        (copying, successor)
    }

    fn hand_over_perhaps(&mut self) {
        if self.succession.percent > 0 {
            self.succession.next = Some(self.copy());
        }
        let succession = &mut self.succession;
        if self.ends_at.is_none()
            && succession.chance.within(1..=100 * STEPS_OF_A_TURN) <= succession.percent
        {
            self.hand_over();
        }
    }

    /// All that can be done at once is done.
    fn come_to_rest(&mut self) {
        for _ in 0..100 {
            while self.relay.do_deferred_work(self.now).is_some() {
                self.relay.check();
            }
            self.write();
            self.act();
            if !self.relay.has_deferred_work() && !self.relay.has_writes() {
                return;
            }
        }
    }

    /// How many bytes each client has not read.
    fn unread(&self) -> Vec<usize> {
        let clients = self.clients.iter();
        clients.map(|client| client.wire.unread()).collect()
    }

    fn hand_over(&mut self) {
        handover::settle(&mut self.relay, self.now);
        self.act();
        if !handover::is_quiet(&self.relay) || self.is_compared && !self.errands.is_empty() {
            return;
        }
        let (copying, mut successor) = self.copy();
        let mut records = Vec::new();
        let mut out = |piece: &[u8]| records.extend_from_slice(piece);
        let going = handover::hand_over(&mut self.relay, self.now, &mut out);
        let connected = self.clients.iter();
        let connected = connected.filter_map(|client| Some(client.socket.as_ref()?.id));
        let stay: Vec<ConnectionId> = connected.filter(|id| !going.contains(id)).collect();
        if self.is_compared && !stay.is_empty() {
            // It goes on as if nothing had been.
            self.succession.next = Some((copying, successor));
            return self.knowledge.count("not handed over after all");
        }
        let heard = successor.receive(&records);
        let taken = heard.and_then(|()| successor.take_over());
        let (mut relay, now) = taken.unwrap_or_else(|why| {
            panic!("{why}\n{}", String::from_utf8_lossy(&records));
        });
        assert_eq!(now, self.now);
        if self.has_rtp {
            relay.set_rtp(PORT);
        }
        relay.check();
        handover::let_go(&mut self.relay, &going);
        self.relay.check();
        assert!(
            self.relay.is_empty() || !stay.is_empty(),
            "who goes has gone"
        );
        self.relay = relay;
        self.knowledge.count("handed over");
        for id in stay {
            self.knowledge.count("stays");
            self.calls.retain(|(_, call, _)| *call != id);
            let client = self.client(id).expect("stays is who is known");
            (client.socket, client.has_stayed) = (None, true);
            client.wire.close_by_server(&mut Chance::new(id.to_u64()));
        }
        if self.is_compared {
            // Everybody has a turn, and nobody gets anything.
            let before = self.unread();
            self.come_to_rest();
            assert_eq!(
                self.unread(),
                before,
                "something is sent by handing over alone"
            );
            return;
        }
        for client in &mut self.clients {
            if let Some(socket) = &mut client.socket {
                socket.input.note(false, false);
                self.readers.push(socket.id, &mut socket.input);
            }
        }
    }
}
