//! Fill level of a decoder's buffer for sound (ISO/IEC 13818-1 section 2.4.2.3). The writer needs
//! it so that sound of a high bit rate does not arrive too early.

use std::collections::VecDeque;

/// PES packets of a stream that have been sent and are not decoded yet.
#[derive(Debug, Default)]
pub(super) struct SoundBuffer {
    /// Decode time of each PES packet's end, in nanoseconds, and its length. Times ascend.
    packets: VecDeque<(i64, usize)>,
}

/// Maximal number of packets. In 100 ms there are few. Beyond this number the newest ones count as
/// one.
const PACKETS_MAX: usize = 64;

impl SoundBuffer {
    /// Returns the time at which `bytes` more fit into a buffer of this size. `None`: they fit into
    /// an empty one.
    pub fn room_at(&self, bytes: usize, size: usize) -> Option<i64> {
        let mut left = size.saturating_sub(bytes);
        let newest_first = self.packets.iter().rev();
        let mut too_much = newest_first.skip_while(|(_, bytes)| {
            let fits = *bytes <= left;
            left = left.saturating_sub(*bytes);
            fits
        });
        too_much.next().map(|(decoded, _)| *decoded)
    }

    /// Adds a PES packet that is sent at `now` and decoded at `decoded`.
    pub fn put(&mut self, decoded: i64, bytes: usize, now: i64) {
        let is_over = |(decoded, _): &(i64, usize)| *decoded <= now;
        while self.packets.front().is_some_and(is_over) {
            self.packets.pop_front();
        }
        let is_full = self.packets.len() >= PACKETS_MAX;
        match self.packets.back_mut().filter(|_| is_full) {
            Some((newest, all)) => {
                (*newest, *all) = ((*newest).max(decoded), all.saturating_add(bytes));
            }
            None => self.packets.push_back((decoded, bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_when_enough_has_been_decoded() {
        let mut sound_buffer = SoundBuffer::default();
        assert_eq!(sound_buffer.room_at(3_584, 3_584), None);
        for decoded in [10, 20, 30] {
            sound_buffer.put(decoded, 1_000, 0);
        }
        assert_eq!(sound_buffer.room_at(584, 3_584), None);
        assert_eq!(sound_buffer.room_at(585, 3_584), Some(10));
        assert_eq!(sound_buffer.room_at(2_585, 3_584), Some(30));
        assert_eq!(sound_buffer.room_at(9_999, 3_584), Some(30));
        sound_buffer.put(40, 1_000, 20);
        assert_eq!(sound_buffer.room_at(1_585, 3_584), Some(30));
    }

    #[test]
    fn a_flood_of_small_packets_is_merged() {
        let mut sound_buffer = SoundBuffer::default();
        for decoded in 0..10_000 {
            sound_buffer.put(decoded, 9, -1);
        }
        assert!(sound_buffer.packets.capacity() <= 2 * PACKETS_MAX);
        assert_eq!(sound_buffer.room_at(3_000, 3_584), Some(9_999));
    }
}
