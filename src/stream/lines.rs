//! Two lines in which viewers stand: those who have everything, and those for whom there is
//! something to send.
//!
//! A viewer is a bit, at its place in the slab. When bytes arrive, all who wait become ready with
//! one operation for every 64 of them, and a viewer leaves its line from anywhere. So the work of a
//! turn grows with those that are served, not with those that are connected. Viewers are served in
//! the order of their places, one round after the other.

/// The two lines.
#[derive(Default)]
pub(super) struct Lines {
    waiting: Vec<u64>,
    ready: Vec<u64>,
    ready_count: usize,
    /// Where the round goes on: no bit of it that is still to be served lies before.
    round: usize,
}

const BITS: usize = u64::BITS as usize;

impl Lines {
    /// The viewer at this place has everything that there is.
    pub fn wait(&mut self, place: usize) {
        self.leave(place);
        self.waiting[place / BITS] |= 1 << (place % BITS);
    }

    /// The viewer at this place has something to be sent, and its socket takes it.
    pub fn be_ready(&mut self, place: usize) {
        self.leave(place);
        self.ready[place / BITS] |= 1 << (place % BITS);
        self.ready_count += 1;
    }

    /// The viewer at this place stands in no line.
    pub fn leave(&mut self, place: usize) {
        let (word, bit) = (place / BITS, 1 << (place % BITS));
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

    /// Bytes that its allocations take: a bit in either for each place there ever was.
    pub fn held_bytes(&self) -> usize {
        (self.waiting.capacity() + self.ready.capacity()) * size_of::<u64>()
    }

    /// All who wait become ready.
    pub fn wake_all(&mut self) {
        for (ready, waiting) in self.ready.iter_mut().zip(&mut self.waiting) {
            self.ready_count += waiting.count_ones() as usize;
            *ready |= std::mem::take(waiting);
        }
    }

    /// Whether anybody is ready.
    pub fn has_ready(&self) -> bool {
        self.ready_count > 0
    }

    /// Whose turn it is: leaves the line with this.
    pub fn next(&mut self) -> Option<usize> {
        if self.ready_count == 0 {
            self.round = 0;
            return None;
        }
        let next = self.first_from(self.round).or_else(|| self.first_from(0));
        if let Some(place) = next {
            self.leave(place);
            self.round = place + 1;
        }
        next
    }

    /// The places of those who are ready. For rare paths and for tests.
    pub fn ready(&self) -> impl Iterator<Item = usize> {
        let words = self.ready.iter().enumerate();
        words.flat_map(|(word, bits)| {
            (0..BITS)
                .filter(move |bit| bits >> bit & 1 == 1)
                .map(move |bit| word * BITS + bit)
        })
    }

    fn first_from(&self, place: usize) -> Option<usize> {
        let first = place / BITS;
        // Of the first word, only what lies at the place or behind it.
        let mut mask = u64::MAX << (place % BITS);
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
        let mut lines = Lines::default();
        for place in [0, 3, 63, 64, 200] {
            lines.wait(place);
        }
        assert_eq!(lines.next(), None);
        lines.leave(63);
        lines.wake_all();
        assert_eq!(lines.ready().collect::<Vec<_>>(), [0, 3, 64, 200]);
        assert_eq!(lines.next(), Some(0));
        assert_eq!(lines.next(), Some(3));
        // More bytes come in the middle of the round: those who have been served come again after
        // the others.
        lines.wait(0);
        lines.wait(3);
        lines.wake_all();
        lines.leave(200);
        assert_eq!(
            [lines.next(), lines.next(), lines.next(), lines.next()],
            [Some(64), Some(0), Some(3), None]
        );
        lines.be_ready(7);
        lines.be_ready(7);
        assert!(lines.has_ready());
        assert_eq!([lines.next(), lines.next()], [Some(7), None]);
        assert!(!lines.has_ready());
    }
}
