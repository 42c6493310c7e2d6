//! The invariants of the pulls, for tests and simulations.

use super::{Pulls, Stage};
use crate::gate::SessionId;
use crate::relay::{PullId, StreamId};

impl Pulls {
    /// Checks what must hold between two inputs. Returns how many timers are armed. `is_live`:
    /// whether this stream is the running one of this session, and this pull's.
    pub fn check(&self, is_live: impl Fn(&SessionId, StreamId, PullId) -> bool) -> usize {
        assert_eq!(self.by_session.len(), self.entries.len());
        let mut running = 0;
        let mut armed = 0;
        for (id, pull) in self.entries.iter() {
            assert_eq!(self.of(&pull.session), Some(id), "a pull is not found");
            armed += usize::from(pull.armed.is_armed());
            match pull.stage {
                Stage::Running { stream, .. } => {
                    running += 1;
                    assert!(
                        is_live(&pull.session, stream, id),
                        "a pull outlives its stream: {id:?}"
                    );
                }
                Stage::Calling(_) | Stage::Failed => panic!("nobody moves it on: {id:?}"),
                Stage::Resolving { .. } | Stage::Asking { .. } | Stage::Pausing { .. } => {}
            }
            assert!(
                pull.has_run || pull.unwatched_since.is_none(),
                "a pull without a stream has no viewer: {id:?}"
            );
        }
        assert_eq!(running, self.running, "pulls that run are counted wrong");
        armed
    }
}
