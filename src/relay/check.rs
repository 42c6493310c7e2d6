//! What must hold of the whole core, whatever happened to it.

use std::net::SocketAddr;

use super::Relay;
use super::connection::Phase;
use super::udp::RtpInput;

/// What a stream's RTP holds at the most, without its clients' addresses: what came early (0.65
/// MiB), and what is on its way.
const RTP_BYTES_MAX: usize = 1280 * 1024;
/// What first packets hold at the most.
const CANDIDATES_BYTES_MAX: usize = 768 * 1024;
/// What an entry in the tables of sources and of streams that drain takes at the most.
const ENTRY_BYTES_MAX: usize = 512;

impl Relay {
    /// What must hold between any two calls. Tests and simulations ask after every step.
    pub fn check(&self) {
        let counted: usize = self.hosts.values().sum();
        let clients = self.connections.iter();
        assert_eq!(
            counted,
            clients
                .filter(|(_, connection)| connection.is_counted)
                .count(),
            "connections by host are counted wrong"
        );
        let waiting = self.connections.iter();
        assert_eq!(
            waiting
                .filter(|(_, connection)| matches!(connection.phase, Phase::Waiting(_)))
                .count(),
            self.waiting.len(),
            "somebody waits who is gone, or the other way round"
        );
        assert_eq!(
            self.order.len(),
            self.lives.len(),
            "the order of the streams disagrees with their table"
        );
        for (id, connection) in self.connections.iter() {
            match &connection.phase {
                Phase::Viewer(viewer) => assert!(
                    self.lives.get(viewer.live).is_some(),
                    "a viewer outlives its stream: {id:?}"
                ),
                Phase::Source(source) => assert!(
                    self.lives.get(source.live).is_some(),
                    "a source outlives its stream: {id:?}"
                ),
                Phase::Waiting(waiting) => assert!(
                    !self.running.contains_key(&waiting.session),
                    "somebody waits for what runs: {id:?}"
                ),
                Phase::Telling(telling) => assert!(
                    self.gatherings.contains_key(&telling.gathering),
                    "a peer tells nobody: {id:?}"
                ),
                Phase::Introduction
                | Phase::Head(_)
                | Phase::Payload(_)
                | Phase::Listing(_)
                | Phase::Awaiting(_)
                | Phase::Asking(_)
                | Phase::Recording
                | Phase::Lingering(_) => {}
            }
        }
        for (session, id) in &self.running {
            let live = self
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
        let draining = self.draining.check();
        assert!(
            self.lives.len() == self.running.len() + draining,
            "a stream neither runs nor drains"
        );
        assert!(
            self.lives.len() <= self.desk.settings.limits.streams_max,
            "there are more streams than may be"
        );
        let streams_max = self.desk.settings.limits.streams_max;
        assert!(
            self.udp.held_bytes() <= CANDIDATES_BYTES_MAX + streams_max * ENTRY_BYTES_MAX,
            "RTP that belongs to no stream holds too much"
        );
        assert!(
            self.draining.held_bytes() <= (streams_max + 1) * ENTRY_BYTES_MAX,
            "the table of streams that drain holds too much"
        );
        let mut held_bytes = 0;
        for (_, live) in self.lives.iter() {
            live.stream.check();
            let of_input = live.input.as_deref().map_or(0, RtpInput::held_bytes);
            let of_clients = live.outlet.clients.capacity() * size_of::<SocketAddr>();
            assert!(
                of_input + live.outlet.held_bytes() <= RTP_BYTES_MAX + of_clients,
                "a stream's RTP holds too much"
            );
            held_bytes += live.stream.pool_bytes() as isize;
        }
        let bytes_max = self.desk.settings.limits.buffers_bytes_max as isize;
        assert_eq!(
            self.pool.bytes_left + held_bytes,
            bytes_max,
            "the bytes of all buffers are counted wrong"
        );
        let armed = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.armed.is_armed())
            .count()
            + self
                .lives
                .iter()
                .filter(|(_, live)| live.armed.is_armed())
                .count()
            + self.pulls.check(|session, live, pull| {
                let is_its = self
                    .lives
                    .get(live)
                    .is_some_and(|live| live.pull == Some(pull));
                is_its && self.running.get(session) == Some(&live)
            });
        let armed = armed + usize::from(self.udp.armed.is_armed());
        assert_eq!(armed, self.desk.timers.len(), "a timer outlives its owner");
        if let Some(tokens) = &self.tokens {
            tokens.check();
        }
    }
}
