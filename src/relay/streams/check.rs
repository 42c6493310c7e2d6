//! The invariants of all streams, for tests and fuzzing.

use super::remux_target::RemuxedStream;
use super::{StreamSource, Streams};
use crate::gate::SessionId;
use crate::relay::context::Context;
use crate::relay::{PullId, StreamId};

impl Streams {
    /// Checks the invariants that hold between two inputs. Returns how many timers are armed.
    pub fn check(&self, ctx: &Context) -> usize {
        assert_eq!(
            self.order.len(),
            self.streams.len(),
            "the order of the streams disagrees with their table"
        );
        let listed = self.streams.len() - self.all_remuxed().count();
        for (session, id) in &self.running {
            let stream = self.streams.get(*id);
            let stream = stream.expect("a running session has its stream");
            assert!(
                stream.session == *session,
                "a session names another's stream"
            );
            assert!(stream.buffer.end().is_none(), "a running stream has ended");
            assert!(
                !stream.is_held() || self.is_watched_in_any_container(*id),
                "a stream is held for nobody"
            );
        }
        assert!(
            listed == self.running.len() + self.draining.check(),
            "a stream neither runs nor drains"
        );
        assert!(
            listed <= ctx.settings().limits.streams_max,
            "there are more streams than may be"
        );
        self.check_remuxed(ctx);
        let (mut memory_bytes, mut armed) = (0, 0);
        for (id, stream) in self.streams.iter() {
            stream.buffer.check();
            let its = Some(self.original_of(id));
            let may_drain = stream.source != StreamSource::Gone
                || self.draining.draining_to_udp(&stream.session) == its;
            assert!(
                may_drain || stream.rtp_out.is_over(stream.buffer.newest()),
                "a stream has a rest for UDP clients, and another of its session came after it"
            );
            assert!(
                stream.armed.is_armed() || stream.deadline(ctx).is_none(),
                "nobody will look after a stream"
            );
            memory_bytes += stream.buffer.pool_bytes() as isize;
            armed += usize::from(stream.armed.is_armed());
        }
        assert_eq!(
            self.pool.bytes_left + memory_bytes,
            ctx.settings().limits.buffers_bytes_max as isize,
            "the bytes of all buffers are counted wrong"
        );
        armed
    }

    /// Returns whether this is the session's running stream, and this pull fetches it.
    pub fn is_pulls(&self, session: &SessionId, id: StreamId, pull: PullId) -> bool {
        let stream = self.streams.get(id);
        let is_its = stream.is_some_and(|stream| stream.pull == Some(pull));
        is_its && self.running.get(session) == Some(&id)
    }

    fn check_remuxed(&self, ctx: &Context) {
        let count = self.all_remuxed().count();
        assert!(
            count <= ctx.settings().limits.remuxed_max(),
            "there are too many remuxed streams"
        );
        for (id, stream) in self.all_remuxed() {
            assert!(
                self.all_remuxed_of(self.original_of(id))
                    .any(|its| its == id),
                "a remuxed stream has outlived its original"
            );
            assert!(
                stream.source == StreamSource::Gone || stream.is_wanted(),
                "a remuxed stream has no viewer"
            );
            let original = self.streams.get(self.original_of(id));
            let original = original.expect("a remuxed stream has its original");
            let remuxed = stream.remuxed.as_ref();
            if let Some(cursor) = remuxed.and_then(RemuxedStream::unread_from) {
                let kept = original.buffer.filled_bytes() as u64;
                let newest = original.buffer.newest();
                assert!(
                    cursor <= newest && cursor + kept >= newest,
                    "bytes are overwritten that a remuxed stream has yet to read"
                );
                assert!(
                    self.catching_up.contains(&id),
                    "a remuxed stream will never catch up"
                );
            } else {
                assert!(
                    original.buffer.end().is_none() || stream.buffer.end().is_some(),
                    "a remuxed stream runs on when its original has ended"
                );
            }
        }
    }
}
