//! Puts MPEG-TS into RTP (RFC 2250 section 2): seven packets per datagram, aligned to sync bytes
//! however the stream is cut.

use super::PAYLOAD_TYPE_MPEG_TS;
use super::packet::{HEADER_BYTES, Packet};
use crate::format::mpegts::{Aligner, PACKET_BYTES, SYNC_BYTE};

/// TS packets in a datagram: as many as an Ethernet frame has space for.
const PACKETS_PER_DATAGRAM: usize = 7;
/// Bytes of the stream in a full datagram.
pub const PAYLOAD_BYTES: usize = PACKETS_PER_DATAGRAM * PACKET_BYTES;
/// Size of each datagram, except the last one of a stream or before a pause.
pub const DATAGRAM_BYTES: usize = HEADER_BYTES + PAYLOAD_BYTES;

/// A packet that receivers drop (ISO/IEC 13818-1 section 2.4.3.3, PID 0x1fff).
const NULL_PACKET: [u8; PACKET_BYTES] = {
    let mut packet = [0xff; PACKET_BYTES];
    (packet[0], packet[1], packet[3]) = (SYNC_BYTE, 0x1f, 0x10);
    packet
};

/// Returns the payloads of datagrams of [`DATAGRAM_BYTES`]; the last one may be shorter.
pub fn without_headers(datagrams: &[u8]) -> Vec<u8> {
    let mut payloads = Vec::with_capacity(datagrams.len());
    for datagram in datagrams.chunks(DATAGRAM_BYTES) {
        payloads.extend_from_slice(datagram.get(HEADER_BYTES..).unwrap_or(&[]));
    }
    payloads
}

/// Makes the datagrams of one stream, one after the other. Each has [`DATAGRAM_BYTES`]; the last
/// one may be shorter.
#[derive(Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Packetiser {
    ssrc: u32,
    sequence_number: u16,
    aligner: Aligner,
    /// Packets that do not fill a datagram yet: at most [`PAYLOAD_BYTES`].
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    waiting: Vec<u8>,
    /// Time of the first packet that waits.
    timestamp: u32,
}

impl Packetiser {
    /// Returns a packetiser with its synchronisation source, and a first sequence number that
    /// nobody can guess.
    pub fn new(ssrc: u32, first_sequence_number: u16) -> Packetiser {
        Packetiser {
            ssrc,
            sequence_number: first_sequence_number,
            aligner: Aligner::default(),
            waiting: Vec::with_capacity(PAYLOAD_BYTES),
            timestamp: 0,
        }
    }

    /// Returns the work since the last call, beyond 1 for each byte.
    pub fn take_work(&mut self) -> usize {
        self.aligner.take_work()
    }

    /// Adds bytes of the stream at `timestamp` (90 kHz). Appends full datagrams.
    pub fn push(&mut self, bytes: &[u8], timestamp: u32, datagrams: &mut Vec<u8>) {
        // A part of a packet that the aligner holds makes at most one more datagram.
        let most = (self.waiting.len() + bytes.len()).div_ceil(PAYLOAD_BYTES);
        datagrams.reserve_exact(most * DATAGRAM_BYTES);
        let mut aligner = std::mem::take(&mut self.aligner);
        aligner.feed(bytes, |_, packet| {
            if self.waiting.is_empty() {
                self.timestamp = timestamp;
            }
            self.waiting.extend_from_slice(packet.bytes);
            if self.waiting.len() >= PAYLOAD_BYTES {
                self.emit(datagrams);
            }
        });
        self.aligner = aligner;
    }

    /// Drops an incomplete packet, because the next bytes do not continue it.
    pub fn skip(&mut self) {
        self.aligner = Aligner::default();
    }

    /// Appends a datagram of the waiting packets, because no more will arrive soon. If all
    /// datagrams must have one size, null packets fill it; otherwise no datagram may follow it.
    pub fn flush(&mut self, is_padded: bool, datagrams: &mut Vec<u8>) {
        if !self.waiting.is_empty() {
            while is_padded && self.waiting.len() < PAYLOAD_BYTES {
                self.waiting.extend_from_slice(&NULL_PACKET);
            }
            self.emit(datagrams);
        }
    }

    /// Returns whether packets wait for a full datagram.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn emit(&mut self, datagrams: &mut Vec<u8>) {
        let number = self.sequence_number;
        let header = Packet::header(PAYLOAD_TYPE_MPEG_TS, number, self.timestamp, self.ssrc);
        datagrams.extend_from_slice(&header);
        datagrams.append(&mut self.waiting);
        self.sequence_number = number.wrapping_add(1);
    }

    /// Returns whether a state from another process is valid.
    #[cfg(feature = "handover")]
    pub fn is_valid(&self) -> bool {
        self.aligner.is_valid() && self.waiting.len() < PAYLOAD_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_do_not_depend_on_how_the_bytes_are_cut() {
        let mut stream = vec![1, 2, 3];
        for number in 0..30u8 {
            let mut packet = [number; PACKET_BYTES];
            packet[0] = SYNC_BYTE;
            stream.extend(packet);
        }
        let make = |piece: usize| {
            let mut packetiser = Packetiser::new(9, 65_534);
            let mut batch = Vec::new();
            for bytes in stream.chunks(piece) {
                packetiser.push(bytes, 5, &mut batch);
            }
            packetiser.flush(false, &mut batch);
            batch
        };
        let whole = make(stream.len());
        assert_eq!(
            whole.len(),
            4 * DATAGRAM_BYTES + HEADER_BYTES + 2 * PACKET_BYTES
        );
        let numbers = whole
            .chunks(DATAGRAM_BYTES)
            .map(|datagram| Packet::parse(datagram).expect("good RTP"));
        let numbers: Vec<u16> = numbers.map(|packet| packet.sequence_number).collect();
        assert_eq!(numbers, [65_534, 65_535, 0, 1, 2]);
        for piece in 1..500 {
            assert_eq!(make(piece), whole, "in pieces of {piece}");
        }
    }

    /// A batch counts by its capacity.
    #[test]
    fn the_datagrams_of_a_piece_are_allocated_at_once() {
        let mut packet = [0; PACKET_BYTES];
        packet[0] = SYNC_BYTE;
        let stream = packet.repeat(7 * 45);
        for piece in [1, 100, 1_300, 1_316, 1_317, 2_700, 20_000, stream.len()] {
            let mut packetiser = Packetiser::new(9, 0);
            for bytes in stream.chunks(piece) {
                let mut batch = Vec::new();
                packetiser.push(bytes, 5, &mut batch);
                assert!(batch.capacity() <= batch.len() + DATAGRAM_BYTES, "{piece}");
            }
        }
    }

    /// States at the limits are valid, and states beyond them are not.
    #[cfg(feature = "handover")]
    #[test]
    fn a_state_from_another_process_is_checked_at_its_limits() {
        for (waiting, fits) in [
            (0, true),
            (PACKET_BYTES, true),
            (6 * PACKET_BYTES, true),
            (7 * PACKET_BYTES, false),
            (8 * PACKET_BYTES, false),
        ] {
            let mut packetiser = Packetiser::new(9, 1);
            packetiser.waiting = vec![1; waiting];
            assert_eq!(packetiser.is_valid(), fits, "{waiting}");
            // In step, with no bytes kept.
            let told = r#"{"pending":"","shape":null,"in_step":true}"#;
            packetiser.aligner = serde_json::from_str(told).expect("an aligner");
            assert!(!packetiser.is_valid(), "{waiting}");
        }
    }

    /// If bytes are missing in between, two halves make no packet.
    #[test]
    fn half_a_packet_before_a_gap_is_dropped() {
        let mut packetiser = Packetiser::new(9, 1);
        let mut batch = Vec::new();
        let media: Vec<u8> = (0..40_u8)
            .flat_map(|number| {
                let mut packet = [number; PACKET_BYTES];
                packet[0] = SYNC_BYTE;
                packet
            })
            .collect();
        packetiser.push(&media[..10 * PACKET_BYTES + 50], 5, &mut batch);
        packetiser.skip();
        packetiser.push(&media[20 * PACKET_BYTES + 90..], 5, &mut batch);
        packetiser.flush(false, &mut batch);
        let payloads = without_headers(&batch);
        let whole: Vec<u8> = (0..10).chain(21..40).collect();
        let numbers = payloads.chunks(PACKET_BYTES).map(|packet| packet[1]);
        assert!(numbers.eq(whole));
        for packet in payloads.chunks(PACKET_BYTES) {
            assert!(packet[2..].iter().all(|byte| *byte == packet[1]));
        }
    }

    #[test]
    fn null_packets_fill_a_short_datagram() {
        let mut packetiser = Packetiser::new(9, 1);
        let mut batch = Vec::new();
        let media = [[SYNC_BYTE; PACKET_BYTES]; 9].concat();
        packetiser.push(&media, 5, &mut batch);
        packetiser.flush(true, &mut batch);
        assert_eq!(batch.len(), 2 * DATAGRAM_BYTES);
        let payloads = without_headers(&batch);
        let (filled, padding) = payloads.split_at(media.len());
        assert!(filled == media && padding == NULL_PACKET.repeat(5));
    }
}
