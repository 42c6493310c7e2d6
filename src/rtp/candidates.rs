//! Senders of one packet: a second packet in sequence makes them a source (RFC 3550 appendix A.1).
//!
//! Anyone who can send from a token's address, or to a group, can fill this table, so it never
//! refuses a new sender. Each sender has one place, a new one replaces the oldest, and a place
//! expires after [`PROBATION_TIME`]. Many may send to one group: its senders have
//! [`CANDIDATES_OF_NAME_MAX`] places, and keep the datagram of one. Memory: at most
//! [`DATAGRAM_BYTES_MAX`] of datagrams and [`CANDIDATES_MAX`] places, 0.75 MiB. If the datagrams
//! are full, the sender still gets a place, and its stream begins with the second packet.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

use super::Packet;
use crate::time::Instant;

/// Sender of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sender {
    /// Address that a token must name: the sender's, or the group that received the datagram.
    pub named: SocketAddr,
    /// Its address.
    pub from: SocketAddr,
}

/// The first packets of senders, until their second packets arrive.
#[derive(Debug, Default)]
pub struct Candidates {
    by_sender: HashMap<Sender, Candidate>,
    /// The sender of each serial, in order of age.
    order: BTreeMap<u64, Sender>,
    /// The serials of each name.
    by_name: BTreeSet<(SocketAddr, u64)>,
    serial_next: u64,
    /// Bytes of all datagrams.
    datagram_bytes: usize,
}

#[derive(Debug)]
struct Candidate {
    /// Synchronisation source, and the sequence number of the packet that would follow.
    next: (u32, u16),
    /// Empty if there was no space for it.
    datagram: Box<[u8]>,
    arrived: Instant,
    serial: u64,
}

/// Longest time from a sender's first packet to its second.
const PROBATION_TIME: Duration = Duration::from_secs(2);
/// Largest number of senders that wait.
const CANDIDATES_MAX: usize = 768;
/// Largest number of senders of one name.
const CANDIDATES_OF_NAME_MAX: usize = 16;
/// Maximal number of bytes of the first datagrams that are kept, of all senders together.
const DATAGRAM_BYTES_MAX: usize = 256 * 1024;

impl Candidates {
    /// Handles a packet. If it follows the sender's first packet, returns that packet, which is
    /// empty if there was no space. Otherwise the packet becomes the first one.
    pub fn take(
        &mut self,
        from: Sender,
        packet: &Packet<'_>,
        datagram: &[u8],
        now: Instant,
    ) -> Option<Box<[u8]>> {
        self.expire(now);
        if let Some(before) = self.remove(from)
            && before.next == (packet.ssrc, packet.sequence_number)
        {
            return Some(before.datagram);
        }
        let has_room = self.datagram_bytes + datagram.len() <= DATAGRAM_BYTES_MAX;
        let next = (packet.ssrc, packet.sequence_number.wrapping_add(1));
        let is_first = self.serials_of(from).next().is_none();
        let kept = if has_room && is_first { datagram } else { &[] };
        self.put(from, next, kept, now);
        None
    }

    fn put(&mut self, from: Sender, next: (u32, u16), datagram: &[u8], now: Instant) {
        if let Some(oldest) = self.oldest_of_too_many(from) {
            self.remove(oldest);
        } else if self.by_sender.len() >= CANDIDATES_MAX {
            self.drop_oldest();
        }
        self.datagram_bytes += datagram.len();
        let serial = self.serial_next;
        self.serial_next += 1;
        self.order.insert(serial, from);
        self.by_name.insert((from.named, serial));
        let candidate = Candidate {
            next,
            datagram: datagram.into(),
            arrived: now,
            serial,
        };
        self.by_sender.insert(from, candidate);
    }

    /// Removes senders for which `is_gone` is true. Looks at every sender.
    pub fn forget(&mut self, is_gone: impl Fn(&Sender) -> bool) {
        let gone: Vec<Sender> = self.by_sender.keys().copied().filter(is_gone).collect();
        for from in gone {
            self.remove(from);
        }
    }

    fn remove(&mut self, from: Sender) -> Option<Candidate> {
        let candidate = self.by_sender.remove(&from)?;
        self.order.remove(&candidate.serial);
        self.by_name.remove(&(from.named, candidate.serial));
        self.datagram_bytes -= candidate.datagram.len();
        Some(candidate)
    }

    /// Returns the serials of the senders with this sender's name, the oldest first.
    fn serials_of(&self, from: Sender) -> impl Iterator<Item = u64> {
        let name = from.named;
        let its = self.by_name.range((name, 0)..=(name, u64::MAX));
        its.map(|(_, serial)| *serial)
    }

    /// Returns the oldest sender of this sender's name, if the name has all its places.
    fn oldest_of_too_many(&self, from: Sender) -> Option<Sender> {
        self.serials_of(from).nth(CANDIDATES_OF_NAME_MAX - 1)?;
        let oldest = self.serials_of(from).next()?;
        self.order.get(&oldest).copied()
    }

    fn drop_oldest(&mut self) {
        if let Some((_, &from)) = self.order.first_key_value() {
            self.remove(from);
        }
    }

    /// Removes expired senders, and frees the memory when none is left.
    pub fn expire(&mut self, now: Instant) {
        while self.deadline().is_some_and(|deadline| deadline <= now) {
            self.drop_oldest();
        }
        if self.by_sender.is_empty() {
            self.by_sender = HashMap::new();
        }
    }

    /// Returns when the oldest sender expires.
    pub fn deadline(&self) -> Option<Instant> {
        let (_, from) = self.order.first_key_value()?;
        Some(self.by_sender.get(from)?.arrived + PROBATION_TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at_milliseconds as at;

    fn from(number: usize) -> Sender {
        let [.., high, low] = number.to_be_bytes();
        let from = SocketAddr::from(([10, 0, high, low], 5004));
        Sender { named: from, from }
    }

    fn take(
        candidates: &mut Candidates,
        number: usize,
        sequence_number: u16,
        payload_bytes: usize,
        now: Instant,
    ) -> Option<usize> {
        let header = Packet::header(33, sequence_number, 0, 7);
        let datagram = [&header[..], &vec![1; payload_bytes]].concat();
        let packet = Packet::parse(&datagram).expect("good RTP");
        let first = candidates.take(from(number), &packet, &datagram, now);
        first.map(|first| first.len())
    }

    /// Any number of hosts may send to a group. They do not drive out the senders of other names.
    #[test]
    fn the_senders_to_one_group_have_few_places() {
        let mut candidates = Candidates::default();
        let named = from(1).named;
        assert_eq!(take(&mut candidates, 2, 1, 100, at(0)), None);
        let header = Packet::header(33, 1, 0, 7);
        let datagram = [&header[..], &[1; 60_000]].concat();
        let packet = Packet::parse(&datagram).expect("good RTP");
        for number in 10..5_000 {
            let Sender { from, .. } = from(number);
            let sender = Sender { named, from };
            let first = candidates.take(sender, &packet, &datagram, at(1));
            assert_eq!(first, None);
            assert!(candidates.by_sender.len() <= 1 + CANDIDATES_OF_NAME_MAX);
            assert_eq!(candidates.order.len(), candidates.by_name.len());
        }
        assert!(candidates.datagram_bytes < 2 * datagram.len());
        assert_eq!(take(&mut candidates, 2, 2, 100, at(2)), Some(112));
        candidates.expire(at(6_000));
        assert!(candidates.by_sender.is_empty() && candidates.datagram_bytes == 0);
    }

    #[test]
    fn two_packets_in_sequence_within_the_time_make_a_source() {
        let mut candidates = Candidates::default();
        assert_eq!(take(&mut candidates, 1, 5, 100, at(0)), None);
        assert_eq!(take(&mut candidates, 1, 7, 100, at(10)), None);
        assert_eq!(take(&mut candidates, 2, 8, 100, at(20)), None);
        assert_eq!(take(&mut candidates, 1, 8, 100, at(30)), Some(112));
        assert_eq!(candidates.deadline(), Some(at(2_020)));
        assert_eq!(take(&mut candidates, 2, 9, 100, at(2_020)), None);
        candidates.forget(|sender| *sender == from(2));
        assert_eq!(take(&mut candidates, 2, 10, 100, at(2_030)), None);
        assert!(take(&mut candidates, 2, 11, 100, at(2_040)).is_some());
        candidates.expire(at(6_000));
        assert!(candidates.by_sender.is_empty() && candidates.datagram_bytes == 0);
    }

    /// First packets are kept while there is space. Otherwise the stream begins with the second
    /// packet.
    #[test]
    fn first_packets_are_kept_while_there_is_room() {
        let mut candidates = Candidates::default();
        let datagram_bytes = DATAGRAM_BYTES_MAX / 4;
        for number in 0..5 {
            take(&mut candidates, number, 1, datagram_bytes - 12, at(0));
        }
        for number in 0..5 {
            let first = take(&mut candidates, number, 2, 100, at(0));
            let expected = if number < 4 { datagram_bytes } else { 0 };
            assert_eq!(first, Some(expected), "{number}");
        }
    }

    /// However many senders there are, and however large their packets, memory is bounded and a new
    /// sender is accepted.
    #[test]
    fn a_flood_takes_little_memory_and_excludes_no_sender() {
        let mut candidates = Candidates::default();
        for number in 0..10_000 {
            take(&mut candidates, number, 1, 65_000, at(number as u64 / 100));
            assert!(candidates.by_sender.len() <= CANDIDATES_MAX, "{number}");
        }
        assert_eq!(take(&mut candidates, 20_000, 1, 1_316, at(100)), None);
        for number in 0..CANDIDATES_MAX - 1 {
            take(&mut candidates, number, 3, 65_000, at(101));
        }
        assert!(take(&mut candidates, 20_000, 2, 1_316, at(102)).is_some());
        candidates.expire(at(10_000));
        assert!(candidates.by_sender.is_empty() && candidates.datagram_bytes == 0);
    }
}
