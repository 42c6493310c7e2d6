//! The two queues of viewers: waiting viewers have every byte, ready viewers have bytes to get. A
//! viewer also waits while the head of its response cannot be written yet.
//!
//! Each queue is a bit set. A viewer's bit has the viewer's index in the slab. When bytes arrive,
//! one operation makes 64 waiting viewers ready. A viewer can leave a queue at any position. So the
//! work of a turn grows with the viewers that are served, not with those that are connected. Ready
//! viewers are served in the order of their indices, round after round.

/// The queues of waiting and of ready viewers.
#[derive(Default)]
pub(super) struct ViewerQueues {
    waiting: Vec<u64>,
    ready: Vec<u64>,
    ready_count: usize,
    /// Index at which the current round continues. All ready viewers before it were served.
    round: usize,
}

const BITS: usize = u64::BITS as usize;

impl ViewerQueues {
    /// Queues the viewer at `index` as waiting.
    pub fn wait(&mut self, index: usize) {
        self.leave(index);
        self.waiting[index / BITS] |= 1 << (index % BITS);
    }

    /// Queues the viewer at `index` as ready.
    pub fn be_ready(&mut self, index: usize) {
        self.leave(index);
        self.ready[index / BITS] |= 1 << (index % BITS);
        self.ready_count += 1;
    }

    /// Removes the viewer at `index` from both queues.
    pub fn leave(&mut self, index: usize) {
        let (word, bit) = (index / BITS, 1 << (index % BITS));
        if word >= self.waiting.len() {
            self.waiting.resize(word + 1, 0);
            self.ready.resize(word + 1, 0);
        }
        self.waiting[word] &= !bit;
        if self.ready[word] & bit != 0 {
            self.ready[word] &= !bit;
            self.ready_count -= 1;
        }
    }

    /// Makes all waiting viewers ready.
    pub fn wake_all(&mut self) {
        for (ready, waiting) in self.ready.iter_mut().zip(&mut self.waiting) {
            self.ready_count += waiting.count_ones() as usize;
            *ready |= std::mem::take(waiting);
        }
    }

    /// Returns whether a viewer is ready.
    pub fn has_ready(&self) -> bool {
        self.ready_count > 0
    }

    /// Removes the next ready viewer from its queue, and returns its index.
    pub fn next(&mut self) -> Option<usize> {
        if self.ready_count == 0 {
            self.round = 0;
            return None;
        }
        let next = self.first_from(self.round).or_else(|| self.first_from(0));
        if let Some(index) = next {
            self.leave(index);
            self.round = index + 1;
        }
        next
    }

    /// Returns the indexes of all ready viewers. Only rare paths and tests call it.
    pub fn ready(&self) -> impl Iterator<Item = usize> {
        ViewerQueues::indexes(&self.ready)
    }

    /// Returns the indexes of all waiting viewers, for checks.
    pub fn waiting(&self) -> impl Iterator<Item = usize> {
        ViewerQueues::indexes(&self.waiting)
    }

    fn indexes(words: &[u64]) -> impl Iterator<Item = usize> {
        let words = words.iter().enumerate();
        words.flat_map(|(word, bits)| {
            (0..BITS)
                .filter(move |bit| bits >> bit & 1 == 1)
                .map(move |bit| word * BITS + bit)
        })
    }

    fn first_from(&self, index: usize) -> Option<usize> {
        let first = index / BITS;
        // The first word counts from the bit of `index` on.
        let mut mask = u64::MAX << (index % BITS);
        for (word, bits) in self.ready.iter().enumerate().skip(first) {
            let bits = bits & mask;
            if bits != 0 {
                return Some(word * BITS + bits.trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn viewers_are_served_in_rounds_and_leave_from_anywhere() {
        let mut queues = ViewerQueues::default();
        for place in [0, 3, 63, 64, 200] {
            queues.wait(place);
        }
        assert_eq!(queues.next(), None);
        queues.leave(63);
        queues.wake_all();
        assert_eq!(queues.ready().collect::<Vec<_>>(), [0, 3, 64, 200]);
        assert_eq!(queues.next(), Some(0));
        assert_eq!(queues.next(), Some(3));
        // More bytes come in the middle of the round: served viewers come again after
        // the others.
        queues.wait(0);
        queues.wait(3);
        queues.wake_all();
        queues.leave(200);
        assert_eq!(
            [queues.next(), queues.next(), queues.next(), queues.next()],
            [Some(64), Some(0), Some(3), None]
        );
        queues.be_ready(7);
        queues.be_ready(7);
        assert!(queues.has_ready());
        assert_eq!([queues.next(), queues.next()], [Some(7), None]);
        assert!(!queues.has_ready());
    }
}
