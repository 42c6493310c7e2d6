//! Invariants of a stream.

use super::StreamBuffer;
use super::viewer::Position;

impl<C: Copy> StreamBuffer<C> {
    /// Checks the invariants that hold between any two calls. Tests and the simulation call it after
    /// every step.
    pub fn check(&self) {
        let mut unit_tail_bytes = 0;
        for (id, viewer) in self.viewers.iter() {
            if let Position::At(cursor) = viewer.position {
                assert!(
                    self.buffer.oldest <= cursor && cursor <= self.buffer.newest,
                    "a cursor outside of the buffer"
                );
            } else {
                if viewer.position
                    == (Position::Fallen {
                        holds_unit_tail: true,
                    })
                {
                    unit_tail_bytes += viewer.lead.memory_bytes();
                }
                assert!(
                    viewer.index_key.is_none(),
                    "a fallen viewer is in the index of lagging viewers"
                );
            }
            if let Some(key) = viewer.index_key {
                assert!(
                    self.overwrite_index.contains(&(key, id)),
                    "a viewer lags without being in the index"
                );
            }
        }
        let seen = self.unseen_from.unwrap_or(self.buffer.newest);
        let waiting = self.viewer_queues.waiting();
        for viewer in waiting.filter_map(|place| self.viewers.get(self.viewers.id_at(place)?)) {
            assert!(
                viewer.index_key.is_some()
                    || !matches!(viewer.position, Position::At(cursor) if cursor < seen),
                "a viewer waits that has bytes to get, and is not in the index"
            );
        }
        let ready = self.viewer_queues.ready();
        for viewer in ready.filter_map(|place| self.viewers.get(self.viewers.id_at(place)?)) {
            let is_in_index = viewer.index_key.is_some();
            assert!(
                is_in_index
                    || !matches!(viewer.position, Position::At(cursor) if cursor < self.unindexed_cursor_min),
                "a viewer is ready whose bytes are overwritten unnoticed"
            );
        }
        if let Some(cutter) = &self.cutter {
            cutter.check();
        }
        assert_eq!(
            unit_tail_bytes, self.unit_tail_bytes,
            "the rests of units are counted wrong"
        );
        assert!(
            self.unit_tail_bytes <= self.buffer.bytes_max(),
            "the rests of units pass their bound"
        );
        assert!(
            self.overwrite_index
                .iter()
                .all(|(_, id)| self.viewers.get(*id).is_some()),
            "the index outlives a viewer"
        );
        assert!(
            self.buffer.pool_bytes() <= self.buffer.bytes_max(),
            "the buffer passes its bound"
        );
    }
}
