//! MPEG-TS in UDP without RTP, which has no sequence numbers and no source identifier. Finds the
//! sync bytes, so that complete packets come out, whatever datagrams contain or lose.

use crate::format::mpegts::{Aligner, PACKET_BYTES, SYNC_BYTE};

/// Reads the datagrams of one source.
#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Bare {
    aligner: Aligner,
}

/// Number of sync bytes in a row that prove a transport stream, if a datagram does not consist of
/// packets only.
const PROOF: usize = 3;

impl Bare {
    /// Returns whether a datagram looks like a transport stream. Either it consists of whole
    /// packets. Or, from one of its first 188 bytes on, every 188th byte is a sync byte, and these
    /// are at least [`PROOF`].
    pub fn begins_with(datagram: &[u8]) -> bool {
        let is_in_step = |phase: usize| {
            let mut sync = datagram.iter().skip(phase).step_by(PACKET_BYTES);
            sync.all(|byte| *byte == SYNC_BYTE)
        };
        let is_whole = !datagram.is_empty() && datagram.len().is_multiple_of(PACKET_BYTES);
        let last = datagram.len().saturating_sub((PROOF - 1) * PACKET_BYTES);
        (is_whole && is_in_step(0)) || (0..last.min(PACKET_BYTES)).any(is_in_step)
    }

    /// Reads the next datagram. Appends complete packets to `packets`.
    pub fn feed(&mut self, datagram: &[u8], packets: &mut Vec<u8>) {
        self.aligner.feed(datagram, |_, packet| {
            packets.extend_from_slice(packet.bytes)
        });
    }

    /// Returns whether a state from another process is valid.
    #[cfg(feature = "handover")]
    pub fn is_valid(&self) -> bool {
        self.aligner.is_valid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(packets: u8) -> Vec<u8> {
        let each = (0..packets).map(|number| {
            let mut packet = [number; PACKET_BYTES];
            packet[0] = SYNC_BYTE;
            packet
        });
        each.collect::<Vec<_>>().concat()
    }

    #[test]
    fn sync_bytes_identify_a_transport_stream() {
        let stream = stream(9);
        for good in [
            &stream[..188],
            &stream[..7 * 188],
            &stream[100..100 + 1472],
            &stream[187..3 * 188 + 1],
        ] {
            assert!(Bare::begins_with(good), "{} bytes", good.len());
        }
        let mut damaged = stream[..7 * 188].to_vec();
        damaged[3 * 188] = 0;
        let rtp = [&[0x80; 12][..], &stream[..2 * 188]].concat();
        for bad in [
            &[][..],
            &[SYNC_BYTE],
            &stream[1..188],
            &stream[1..300],
            &damaged,
            &rtp,
        ] {
            assert!(!Bare::begins_with(bad), "{} bytes", bad.len());
        }
    }

    /// However the stream is cut, complete packets come out. A loss costs no more packets than
    /// necessary.
    #[test]
    fn packets_come_out_whole_and_in_step() {
        let stream = stream(100);
        for piece in [188, 7 * 188, 1472, 1000, 64] {
            let (mut bare, mut whole) = (Bare::default(), Vec::new());
            for datagram in stream.chunks(piece) {
                bare.feed(datagram, &mut whole);
            }
            assert!(whole == stream, "in pieces of {piece}");
            let (mut bare, mut packets) = (Bare::default(), Vec::new());
            for (number, datagram) in stream.chunks(piece).enumerate() {
                if number != 5 {
                    bare.feed(datagram, &mut packets);
                }
            }
            assert!(packets.len().is_multiple_of(PACKET_BYTES));
            let lost = stream.len() - packets.len();
            assert!(
                (1..piece + 3 * PACKET_BYTES).contains(&lost),
                "{piece}: {lost}"
            );
        }
    }

    #[cfg(feature = "handover")]
    #[test]
    fn a_handed_over_aligner_is_checked() {
        assert!(Bare::default().is_valid());
        // In step, with no bytes kept.
        let told = r#"{"pending":"","shape":null,"in_step":true}"#;
        let aligner = serde_json::from_str(told).expect("an aligner");
        assert!(!Bare { aligner }.is_valid());
    }
}
