//! Forward error correction (FEC) for RTP (SMPTE 2022-1, header of RFC 2733): extra packets from
//! which a receiver repairs losses.
//!
//! ```text
//!    0   1   2   3   4 ─→ row packet           A matrix has L columns and D rows. Each sum repairs
//!    5   6   7   8   9 ─→ row packet           one loss: a row's sum a single one, the sums of
//!   10  11  12  13  14 ─→ row packet           all columns together a burst of L.
//!    ↓   ↓   ↓   ↓   ↓
//!   column packets, spread over the next matrix
//! ```
//!
//! A sum is the exclusive or of its packets. Their sequence numbers must be consecutive; a gap
//! begins a new matrix and drops the sums.
//!
//! Memory: a sum for each column, one for the row, and a column packet for each column, of at most
//! [`PACKET_BYTES_MAX`] each: at most 41 of them, 61 KiB.

use std::collections::VecDeque;

use super::packet::{HEADER_BYTES, Packet};

/// The two kinds of FEC packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum Side {
    Columns,
    Rows,
}

/// Makes the FEC packets of a stream.
#[derive(Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Fec {
    /// L, the number of columns.
    width: u8,
    height: u8,
    /// Sequence number of the next packet; `None`: any packet may begin a matrix.
    next: Option<u16>,
    /// Packets of this matrix so far: `index < width * height`.
    index: usize,
    row: Sum,
    /// The sum of each column.
    columns: Vec<Sum>,
    /// Column packets of the previous matrix: at most one for each column. They are sent one by
    /// one.
    waiting: VecDeque<Vec<u8>>,
    column_number: u16,
    row_number: u16,
}

/// The exclusive or of packets.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Sum {
    /// Sequence number of its first packet.
    base: u16,
    /// Sum of the header fields: padding, extension and contributors; marker and payload type; time
    /// stamps; lengths after the fixed header.
    fields: [u8; 8],
    /// Sum of the bytes after the fixed header. As long as the longest packet.
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    payload: Vec<u8>,
}

/// Payload type of FEC packets. It is dynamic, but receivers know no other.
const PAYLOAD_TYPE: u8 = 96;
/// Longer packets are not protected: networks fragment them, and their sums would be longer still.
const PACKET_BYTES_MAX: usize = 1472;

impl Fec {
    /// Returns a generator for matrices of at least one column and row. FEC packets begin with
    /// sequence numbers from `random`, which nobody can guess.
    pub fn new(columns: u8, rows: u8, random: u32) -> Fec {
        Fec {
            width: columns,
            height: rows,
            next: None,
            index: 0,
            row: Sum::default(),
            columns: vec![Sum::default(); usize::from(columns)],
            waiting: VecDeque::new(),
            column_number: random as u16,
            row_number: (random >> 16) as u16,
        }
    }

    /// Returns whether a state from another process is valid.
    #[cfg(feature = "handover")]
    pub fn is_valid(&self) -> bool {
        let (width, height) = (usize::from(self.width), usize::from(self.height));
        let sums = self.columns.iter().chain([&self.row]);
        self.index < width * height
            && self.columns.len() == width
            && self.waiting.len() <= width
            && sums
                .map(|sum| &sum.payload)
                .chain(&self.waiting)
                .all(|bytes| bytes.len() <= 2 * PACKET_BYTES_MAX)
    }

    /// Adds a packet that is sent. Passes FEC packets that follow it to `hand_on`.
    pub fn protect(&mut self, packet: &[u8], mut hand_on: impl FnMut(Side, &[u8])) {
        let Some(header) = packet.first_chunk::<HEADER_BYTES>() else {
            return;
        };
        let number = u16::from_be_bytes([header[2], header[3]]);
        let is_next = self.next.is_none_or(|next| next == number);
        if packet.len() > PACKET_BYTES_MAX || !is_next {
            (self.next, self.index) = (None, 0);
        }
        if packet.len() > PACKET_BYTES_MAX {
            return;
        }
        self.next = Some(number.wrapping_add(1));
        let (width, height) = (usize::from(self.width), usize::from(self.height));
        let (row, column) = (self.index / width, self.index % width);
        self.row.add(packet, header, column == 0);
        if let Some(sum) = self.columns.get_mut(column) {
            sum.add(packet, header, row == 0);
        }
        self.index += 1;
        if column + 1 == width {
            let row = &self.row;
            let packet = row.packet(Side::Rows, 1, self.width, self.row_number, header);
            hand_on(Side::Rows, &packet);
            self.row_number = self.row_number.wrapping_add(1);
        }
        if self.index == width * height {
            self.finish_matrix(header);
        }
        if self.index.is_multiple_of(height)
            && let Some(packet) = self.waiting.pop_front()
        {
            hand_on(Side::Columns, &packet);
        }
    }

    /// Passes the remaining FEC packets to `hand_on`, at the end of the stream.
    pub fn finish(&mut self, mut hand_on: impl FnMut(&[u8])) {
        for packet in self.waiting.drain(..) {
            hand_on(&packet);
        }
    }

    fn finish_matrix(&mut self, header: &[u8; HEADER_BYTES]) {
        self.index = 0;
        self.waiting.clear();
        let (width, height) = (self.width, self.height);
        for column in &self.columns {
            let packet = column.packet(Side::Columns, width, height, self.column_number, header);
            self.column_number = self.column_number.wrapping_add(1);
            self.waiting.push_back(packet);
        }
    }
}

impl Sum {
    /// Adds a packet to the sum. `is_first` begins a new sum.
    fn add(&mut self, packet: &[u8], header: &[u8; HEADER_BYTES], is_first: bool) {
        if is_first {
            self.base = u16::from_be_bytes([header[2], header[3]]);
            self.fields = [0; 8];
            self.payload.clear();
        }
        let payload = &packet[HEADER_BYTES..];
        let [high, low] = (payload.len() as u16).to_be_bytes();
        let [flags, kind, _, _, t0, t1, t2, t3, ..] = *header;
        let fields = [flags & 0x3f, kind, t0, t1, t2, t3, high, low];
        for (sum, field) in self.fields.iter_mut().zip(fields) {
            *sum ^= field;
        }
        let length = self.payload.len().max(payload.len());
        self.payload
            .reserve_exact(length.saturating_sub(self.payload.len()));
        self.payload.resize(length, 0);
        for (sum, byte) in self.payload.iter_mut().zip(payload) {
            *sum ^= byte;
        }
    }

    /// Returns the FEC packet, with the time of the packet with this header. `offset`: distance
    /// between two packets of the sum. `count`: their number.
    fn packet(
        &self,
        side: Side,
        offset: u8,
        count: u8,
        number: u16,
        header: &[u8; HEADER_BYTES],
    ) -> Vec<u8> {
        let [flags, kind, a, b, c, d, high, low] = self.fields;
        let [base_high, base_low] = self.base.to_be_bytes();
        let direction = match side {
            Side::Columns => 0,
            Side::Rows => 0x40,
        };
        let timestamp = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        // Receivers know the source by the port.
        let mut rtp = Packet::header(PAYLOAD_TYPE, number, timestamp, 0);
        rtp[0] |= flags;
        rtp[1] |= kind & 0x80;
        let fec = [
            [base_high, base_low, high, low],
            [0x80 | kind & 0x7f, 0, 0, 0],
            [a, b, c, d],
            [direction, offset, count, 0],
        ];
        [&rtp[..], fec.as_flattened(), &self.payload].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Packets by sequence number.
    type Packets = BTreeMap<u16, Vec<u8>>;

    /// RTP as sources send it: some packets have a marker, another length, or an extension.
    fn media(first: u16, count: usize, is_even: bool) -> Vec<Vec<u8>> {
        let packets = (0..count).map(|index| {
            let number = first.wrapping_add(index as u16);
            let mut packet = Packet::header(33, number, index as u32 * 977, 0xfeed).to_vec();
            let bytes = if is_even { 1316 } else { 188 * (1 + index % 7) };
            packet.extend((0..bytes).map(|byte| (byte * 7 + index * 13) as u8));
            if !is_even && index % 3 == 0 {
                packet[0] |= 0x10;
                packet[1] |= 0x80;
                packet[12..16].copy_from_slice(&[0, 0, 0, 2]);
            }
            packet
        });
        packets.collect()
    }

    fn protect(fec: &mut Fec, media: &[Vec<u8>]) -> Vec<(Side, Vec<u8>)> {
        let mut made = Vec::new();
        for packet in media {
            fec.protect(packet, |side, packet| made.push((side, packet.to_vec())));
        }
        made
    }

    /// Repairs losses like a receiver (RFC 2733 section 8): a lost packet is the exclusive or of
    /// the sum and the other packets.
    fn mend(received: &mut Packets, corrections: &[(Side, Vec<u8>)], ssrc: u32) {
        loop {
            let mended = corrections.iter().find_map(|(_, fec)| {
                let base = u16::from_be_bytes([fec[12], fec[13]]);
                let (offset, count) = (u16::from(fec[25]), u16::from(fec[26]));
                let of = (0..count).map(|index| base.wrapping_add(index * offset));
                let (there, missing): (Vec<u16>, Vec<u16>) =
                    of.partition(|number| received.contains_key(number));
                let [missing] = missing[..] else { return None };
                let mut length = u16::from_be_bytes([fec[14], fec[15]]);
                let mut head = [
                    fec[0],
                    fec[1] & 0x80 | fec[16] & 0x7f,
                    fec[20],
                    fec[21],
                    fec[22],
                    fec[23],
                ];
                let mut body = fec[28..].to_vec();
                for number in there {
                    let packet = &received[&number];
                    length ^= packet.len() as u16 - 12;
                    for (sum, at) in head.iter_mut().zip([0, 1, 4, 5, 6, 7]) {
                        *sum ^= packet[at];
                    }
                    body.iter_mut()
                        .zip(&packet[12..])
                        .for_each(|(sum, byte)| *sum ^= byte);
                }
                body.truncate(usize::from(length));
                let [first, second, a, b, c, d] = head;
                let [high, low] = missing.to_be_bytes();
                let mut packet = vec![0x80 | first & 0x3f, second, high, low, a, b, c, d];
                packet.extend(ssrc.to_be_bytes());
                packet.extend(body);
                Some((missing, packet))
            });
            let Some((number, packet)) = mended else {
                return;
            };
            received.insert(number, packet);
        }
    }

    /// Bursts of L, and scattered losses: every packet is repaired in every byte, also when
    /// sequence numbers wrap.
    #[test]
    fn lost_packets_are_repaired() {
        for (columns, rows, is_even) in
            [(5, 10, true), (4, 4, false), (20, 5, true), (7, 14, false)]
        {
            let (width, size) = (
                usize::from(columns),
                usize::from(columns) * usize::from(rows),
            );
            let media = media(65_500, 4 * size, is_even);
            let corrections = protect(&mut Fec::new(columns, rows, 7), &media);
            for start in 0..size {
                let lost = |index: usize| {
                    let burst = (size + start..size + start + width).contains(&index);
                    let single = index.is_multiple_of(size) && index < 2 * size;
                    burst || (single && start >= width)
                };
                let whole: Packets = media
                    .iter()
                    .map(|packet| (u16::from_be_bytes([packet[2], packet[3]]), packet.clone()))
                    .collect();
                let arrives = |(index, packet): (usize, &Vec<u8>)| {
                    (!lost(index))
                        .then(|| (u16::from_be_bytes([packet[2], packet[3]]), packet.clone()))
                };
                let mut received: Packets = media.iter().enumerate().filter_map(arrives).collect();
                assert!(received.len() < whole.len());
                mend(&mut received, &corrections, 0xfeed);
                assert!(received == whole, "{columns}x{rows}, a burst at {start}");
            }
        }
    }

    #[test]
    fn fec_packets_have_their_own_numbers_and_make_no_burst() {
        let mut fec = Fec::new(5, 10, 0xffff_fffe);
        let mut numbers = [Vec::new(), Vec::new()];
        for packet in media(3, 200, true) {
            let mut at_once = 0;
            fec.protect(&packet, |side, packet| {
                assert_eq!(packet.len(), 1316 + 28);
                let read = Packet::parse(packet).expect("RTP");
                assert_eq!((read.payload_type, read.ssrc), (96, 0));
                numbers[usize::from(side == Side::Rows)].push(read.sequence_number);
                at_once += 1;
            });
            assert!(at_once <= 2, "{at_once} at once");
        }
        let [columns, rows] = numbers;
        assert_eq!((columns.len(), rows.len()), (3 * 5 + 1, 40));
        for (numbers, first) in [(columns, 0xfffe_u16), (rows, 0xffff)] {
            let expected = (0..numbers.len()).map(|index| first.wrapping_add(index as u16));
            assert!(numbers.iter().copied().eq(expected));
        }
    }

    /// The last matrix has all of its FEC packets.
    #[test]
    fn waiting_packets_go_out_at_the_end() {
        for columns in [5, 20] {
            let mut fec = Fec::new(columns, 5, 1);
            let media = media(7, usize::from(columns) * 5, true);
            let before = protect(&mut fec, &media);
            let mut corrections = before.clone();
            fec.finish(|packet| corrections.push((Side::Columns, packet.to_vec())));
            assert_eq!(corrections.len(), usize::from(columns) + 5);
            assert_eq!(corrections.len(), before.len() + usize::from(columns) - 1);
            let whole: Packets = media
                .iter()
                .map(|packet| (u16::from_be_bytes([packet[2], packet[3]]), packet.clone()))
                .collect();
            let mut received = whole.clone();
            received.retain(|number, _| *number >= 7 + u16::from(columns));
            mend(&mut received, &corrections, 0xfeed);
            assert!(received == whole);
            fec.finish(|_| panic!("it went out"));
        }
    }

    /// After a gap a new matrix begins, and its FEC packets fit its packets.
    #[test]
    fn a_gap_begins_a_new_matrix() {
        let media = media(100, 200, true);
        let (before, after) = (&media[..37], &media[40..]);
        let mut fec = Fec::new(5, 10, 1);
        let mut corrections = protect(&mut fec, before);
        corrections.extend(protect(&mut fec, after));
        for (side, packet) in &corrections {
            let base = u16::from_be_bytes([packet[12], packet[13]]);
            let last = base + u16::from(packet[25]) * (u16::from(packet[26]) - 1);
            assert!(last < 137 || base >= 140, "{side:?} over the gap");
        }
        let mut received: Packets = after
            .iter()
            .map(|packet| (u16::from_be_bytes([packet[2], packet[3]]), packet.clone()))
            .collect();
        let lost = received.remove(&141).expect("it was there");
        mend(&mut received, &corrections, 0xfeed);
        assert!(received[&141] == lost);
    }

    fn memory_bytes(fec: &Fec) -> usize {
        let sums = fec.columns.iter().chain([&fec.row]);
        let payloads = sums.map(|sum| sum.payload.capacity());
        payloads
            .chain(fec.waiting.iter().map(Vec::capacity))
            .sum::<usize>()
    }

    #[test]
    fn memory_is_bounded_for_any_input() {
        let mut fec = Fec::new(20, 5, 1);
        for index in 0..1000_u16 {
            let mut packet = Packet::header(33, index, 0, 9).to_vec();
            packet.resize([12, 200, 1472, 1473, 60_000][usize::from(index / 7 % 5)], 1);
            fec.protect(&packet, |_, packet| {
                assert!(packet.len() <= PACKET_BYTES_MAX + 16)
            });
            fec.protect(&packet[..5], |_, _| panic!("no packet"));
            assert!(memory_bytes(&fec) <= 64 << 10, "{}", memory_bytes(&fec));
        }
        // A matrix of the longest packets has all of its sums, and all column packets but one wait.
        let mut fec = Fec::new(20, 5, 1);
        for index in 0..100 {
            let mut packet = Packet::header(33, index, 0, 9).to_vec();
            packet.resize(PACKET_BYTES_MAX, 1);
            fec.protect(&packet, |_, _| {});
        }
        let payload_bytes = PACKET_BYTES_MAX - HEADER_BYTES;
        let (sums, waiting) = (21 * payload_bytes, 19 * (payload_bytes + 28));
        assert!(
            memory_bytes(&fec) >= sums + waiting,
            "{}",
            memory_bytes(&fec)
        );
    }

    /// The longest packet that a network carries whole is protected, and a longer one is not.
    #[test]
    fn packets_too_large_for_a_network_are_not_protected() {
        for (bytes, rows) in [(PACKET_BYTES_MAX, 1), (PACKET_BYTES_MAX + 1, 0)] {
            let packets = (0..4).map(|number| {
                let mut packet = Packet::header(33, number, 0, 9).to_vec();
                packet.resize(bytes, 1);
                packet
            });
            let made = protect(&mut Fec::new(4, 4, 1), &packets.collect::<Vec<_>>());
            assert_eq!(made.len(), rows, "{bytes} bytes");
        }
    }

    /// States at the limits are valid, and states beyond them are not.
    #[cfg(feature = "handover")]
    #[test]
    fn a_state_from_another_process_is_checked_at_its_limits() {
        type Told = fn(&mut Fec);
        const LONGEST: usize = 2 * PACKET_BYTES_MAX;
        let told: [(Told, bool); 9] = [
            (|_| {}, true),
            (|fec| fec.index = 4 * 5 - 1, true),
            (|fec| fec.index = 4 * 5, false),
            (|fec| fec.columns.truncate(3), false),
            (|fec| fec.waiting = vec![vec![0; LONGEST]; 4].into(), true),
            (|fec| fec.waiting = vec![vec![]; 5].into(), false),
            (|fec| fec.waiting = vec![vec![0; LONGEST + 1]].into(), false),
            (|fec| fec.row.payload = vec![0; LONGEST + 1], false),
            (|fec| fec.columns[3].payload = vec![0; LONGEST + 1], false),
        ];
        for (index, (tell, fits)) in told.into_iter().enumerate() {
            let mut fec = Fec::new(4, 5, 1);
            tell(&mut fec);
            assert_eq!(fec.is_valid(), fits, "{index}");
        }
    }
}
