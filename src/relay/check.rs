//! What must hold of the whole core, whatever happened to it.

use super::Relay;
use super::clients::Known;
use super::live::Origin;
use super::udp::RtpInput;

/// What a stream's RTP holds at the most, without its clients' addresses: what came early (0.65
/// MiB), and what is on its way.
const RTP_BYTES_MAX: usize = 1280 * 1024;

impl Relay {
    /// What must hold between any two calls. Tests and simulations ask after every step.
    pub fn check(&self) {
        let armed = self.clients.check(&Known {
            has_stream: &|live| self.streams.lives.get(live).is_some(),
            runs: &|session| self.streams.running.contains_key(session),
            has_gathering: &|ticket| self.lists.has_gathering(ticket),
        });
        self.lists
            .check(|id, ticket| self.clients.awaits(id, ticket));
        assert_eq!(
            self.streams.order.len(),
            self.streams.lives.len(),
            "the order of the streams disagrees with their table"
        );
        for (session, id) in &self.streams.running {
            let live = self
                .streams
                .lives
                .get(*id)
                .expect("a running session has its stream");
            assert!(live.session == *session, "a session names another's stream");
            assert!(live.stream.end().is_none(), "a running stream has ended");
            assert!(
                !live.is_held() || live.stream.viewer_count() > 0,
                "a stream is held for nobody"
            );
        }
        let draining = self.streams.draining.check();
        assert!(
            self.streams.lives.len() == self.streams.running.len() + draining,
            "a stream neither runs nor drains"
        );
        assert!(
            self.streams.lives.len() <= self.desk.settings.limits.streams_max,
            "there are more streams than may be"
        );
        let most = self.desk.settings.held_bytes_max();
        for (held, most) in self.held_bytes().iter().zip(most) {
            assert!(held.1 <= most.1, "{held:?} is more than {most:?}");
        }
        let mut held_bytes = 0;
        for (id, live) in self.streams.lives.iter() {
            live.stream.check();
            let of_input = live.input.as_deref().map_or(0, RtpInput::held_bytes);
            let of_clients = live.outlet.own_clients_bytes();
            assert!(
                of_input + live.outlet.held_bytes() <= RTP_BYTES_MAX + of_clients,
                "a stream's RTP holds too much"
            );
            let may_rest = live.source != Origin::Gone
                || self.streams.draining.resting(&live.session) == Some(id);
            assert!(
                may_rest || live.outlet.is_over(live.stream.newest()),
                "a stream has a rest for UDP clients, and another of its session came after it"
            );
            held_bytes += live.stream.pool_bytes() as isize;
            assert!(
                live.armed.is_armed() || self.streams.live_deadline(live, &self.desk).is_none(),
                "nobody will look after a stream"
            );
        }
        let bytes_max = self.desk.settings.limits.buffers_bytes_max as isize;
        assert_eq!(
            self.streams.pool.bytes_left + held_bytes,
            bytes_max,
            "the bytes of all buffers are counted wrong"
        );
        let armed = armed
            + self
                .streams
                .lives
                .iter()
                .filter(|(_, live)| live.armed.is_armed())
                .count()
            + self.fetch.check(|session, live, pull| {
                let is_its = self
                    .streams
                    .lives
                    .get(live)
                    .is_some_and(|live| live.pull == Some(pull));
                is_its && self.streams.running.get(session) == Some(&live)
            });
        let single = [&self.rtp_in.armed, &self.desk.return_armed];
        let armed = armed + single.iter().filter(|armed| armed.is_armed()).count();
        assert_eq!(armed, self.desk.timers.len(), "a timer outlives its owner");
        if let Some(tokens) = self.grants.tokens() {
            tokens.check();
        }
    }
}
