//! What must hold of the streams, whatever happened to them.

use super::cast::Shadow;
use super::rtp::RtpInput;
use super::{Feed, Live, Streams};
use crate::relay::LiveId;
use crate::relay::desk::Desk;

/// What a stream's datagrams hold at the most, without its clients' addresses: what came early
/// (0.65 MiB), what is on its way, and what corrections are made of (0.25 MiB).
const RTP_BYTES_MAX: usize = 1536 * 1024;

impl Streams {
    /// What must hold between two inputs. Says how many deadlines are armed.
    pub fn check(&self, desk: &Desk) -> usize {
        assert!(self.said.is_empty(), "nobody has heard what has happened");
        assert_eq!(
            self.order.len(),
            self.lives.len(),
            "the order of the streams disagrees with their table"
        );
        let listed = self.lives.len() - self.shadows().count();
        for (session, id) in &self.running {
            let live = self.lives.get(*id);
            let live = live.expect("a running session has its stream");
            assert!(live.session == *session, "a session names another's stream");
            assert!(live.stream.end().is_none(), "a running stream has ended");
            assert!(
                !live.is_held() || self.is_seen(*id),
                "a stream is held for nobody"
            );
        }
        assert!(
            listed == self.running.len() + self.draining.check(),
            "a stream neither runs nor drains"
        );
        assert!(
            listed <= desk.settings().limits.streams_max,
            "there are more streams than may be"
        );
        self.check_shadows(desk);
        let mut held_bytes = 0;
        for (id, live) in self.lives.iter() {
            self.check_live(id, live, desk);
            held_bytes += live.stream.pool_bytes() as isize;
        }
        assert_eq!(
            self.pool.bytes_left + held_bytes,
            desk.settings().limits.buffers_bytes_max as isize,
            "the bytes of all buffers are counted wrong"
        );
        let armed = self.lives.iter().filter(|(_, live)| live.armed.is_armed());
        armed.count()
    }

    fn check_shadows(&self, desk: &Desk) {
        let count = self.shadows().count();
        assert!(
            count <= desk.settings().limits.shadows_max(),
            "there are more shadows than may be"
        );
        for (id, live) in self.shadows() {
            assert!(
                self.shadows_of(self.original_of(id)).contains(&Some(id)),
                "a shadow has outlived its stream"
            );
            assert!(
                live.source == Feed::Gone || live.is_wanted(),
                "a shadow is made for nobody"
            );
            let original = self.lives.get(self.original_of(id));
            let original = original.expect("a shadow's stream");
            let shadow = live.shadow.as_ref();
            if let Some(cursor) = shadow.and_then(Shadow::behind) {
                let kept = original.stream.filled_bytes() as u64;
                let newest = original.stream.newest();
                assert!(
                    cursor <= newest && cursor + kept >= newest,
                    "what a shadow has yet to read is overwritten"
                );
                assert!(self.behind.contains(&id), "a shadow will never catch up");
            } else {
                assert!(
                    original.stream.end().is_none() || live.stream.end().is_some(),
                    "a shadow goes on when its stream has ended"
                );
            }
        }
    }

    fn check_live(&self, id: LiveId, live: &Live, desk: &Desk) {
        live.stream.check();
        let of_input = live.input.as_deref().map_or(0, RtpInput::held_bytes);
        let of_clients = live.rtp_out.post.own_clients_bytes();
        assert!(
            of_input + live.rtp_out.held_bytes() <= RTP_BYTES_MAX + of_clients,
            "a stream's RTP holds too much"
        );
        let its = Some(self.original_of(id));
        let may_rest = live.source != Feed::Gone || self.draining.resting(&live.session) == its;
        assert!(
            may_rest || live.rtp_out.is_over(live.stream.newest()),
            "a stream has a rest for UDP clients, and another of its session came after it"
        );
        assert!(
            live.armed.is_armed() || self.deadline(live, desk).is_none(),
            "nobody will look after a stream"
        );
    }
}
