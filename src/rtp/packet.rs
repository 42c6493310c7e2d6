//! RTP and RTCP packets (RFC 3550 sections 5.1, 6.4 and 6.6; RFC 5761 to tell them apart).
//!
//! Every length is checked before it is used.

/// Length of the fixed part of an RTP header.
pub const HEADER_BYTES: usize = 12;

/// An RTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// 0 to 127.
    pub payload_type: u8,
    /// One more than the previous packet's.
    pub sequence_number: u16,
    /// Time of the payload's first byte.
    pub timestamp: u32,
    /// Synchronisation source.
    pub ssrc: u32,
    /// The payload without padding.
    pub payload: &'a [u8],
}

/// Returns whether a datagram is RTCP, by its second byte (RFC 5761 section 4).
pub fn is_control(datagram: &[u8]) -> bool {
    matches!(datagram.get(1), Some(192..=223))
}

impl<'a> Packet<'a> {
    /// Parses a datagram. `None` if it is no RTP.
    pub fn parse(datagram: &'a [u8]) -> Option<Packet<'a>> {
        let (header, rest) = datagram.split_first_chunk::<HEADER_BYTES>()?;
        let [first, second, s0, s1, t0, t1, t2, t3, r0, r1, r2, r3] = *header;
        if first >> 6 != 2 || is_control(datagram) {
            return None;
        }
        let contributing = usize::from(first & 0x0f) * 4;
        let mut payload = rest.get(contributing..)?;
        if first & 0x10 != 0 {
            let ([_, _, w0, w1], after) = payload.split_first_chunk::<4>()?;
            let words = usize::from(u16::from_be_bytes([*w0, *w1]));
            payload = after.get(words * 4..)?;
        }
        if first & 0x20 != 0 {
            let padding = usize::from(*payload.last()?);
            let length = payload.len().checked_sub(padding).filter(|_| padding > 0);
            payload = payload.get(..length?)?;
        }
        Some(Packet {
            payload_type: second & 0x7f,
            sequence_number: u16::from_be_bytes([s0, s1]),
            timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
            ssrc: u32::from_be_bytes([r0, r1, r2, r3]),
            payload,
        })
    }

    /// Returns the header of a packet without marker, padding, extension and contributing sources.
    pub fn header(
        payload_type: u8,
        sequence_number: u16,
        timestamp: u32,
        ssrc: u32,
    ) -> [u8; HEADER_BYTES] {
        let [s0, s1] = sequence_number.to_be_bytes();
        let [t0, t1, t2, t3] = timestamp.to_be_bytes();
        let [r0, r1, r2, r3] = ssrc.to_be_bytes();
        let kind = payload_type & 0x7f;
        [0x80, kind, s0, s1, t0, t1, t2, t3, r0, r1, r2, r3]
    }
}

/// The contents of a compound RTCP packet that this server uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Synchronisation source of the first report.
    pub ssrc: u32,
    /// Whether this source leaves.
    pub says_bye: bool,
}

const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
const BYE: u8 = 203;

impl Control {
    /// Parses a datagram. `None` if it is no RTCP: an error in any part makes all of it invalid
    /// (RFC 3550 appendix A.2). A lone BYE is accepted, since many senders leave with one.
    pub fn parse(datagram: &[u8]) -> Option<Control> {
        let mut rest = datagram;
        let (mut first_source, mut says_bye) = (None, false);
        while !rest.is_empty() {
            let ([first, kind, w0, w1], body) = rest.split_first_chunk::<4>()?;
            let body_bytes = usize::from(u16::from_be_bytes([*w0, *w1])) * 4;
            let (body, after) = body.split_at_checked(body_bytes)?;
            if first >> 6 != 2
                || (first_source.is_none()
                    && !matches!(*kind, SENDER_REPORT | RECEIVER_REPORT | BYE))
            {
                return None;
            }
            let sources = usize::from(first & 0x1f);
            let (words, _) = body.as_chunks::<4>();
            let named = words.iter().map(|word| u32::from_be_bytes(*word));
            let ssrc = first_source.or_else(|| named.clone().next())?;
            first_source = Some(ssrc);
            says_bye |= *kind == BYE && named.take(sources).any(|named| named == ssrc);
            rest = after;
        }
        let ssrc = first_source?;
        Some(Control { ssrc, says_bye })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_header_parses_to_the_same() {
        let mut datagram = Packet::header(33, 65_535, 0xdead_beef, 7).to_vec();
        datagram.extend_from_slice(b"payload");
        let packet = Packet::parse(&datagram).expect("good RTP");
        assert_eq!(
            (
                packet.payload_type,
                packet.sequence_number,
                packet.timestamp,
                packet.ssrc
            ),
            (33, 65_535, 0xdead_beef, 7)
        );
        assert_eq!(packet.payload, b"payload");
    }

    #[test]
    fn contributing_sources_extension_and_padding_are_left_out() {
        let mut datagram = Packet::header(96, 1, 2, 3).to_vec();
        datagram[0] |= 0x20 | 0x10 | 2;
        datagram.extend_from_slice(&[0; 8]);
        datagram.extend_from_slice(&[0xbe, 0xde, 0, 1, 9, 9, 9, 9]);
        datagram.extend_from_slice(&[b'a', b'b', 0, 0, 3]);
        assert_eq!(
            Packet::parse(&datagram).map(|packet| packet.payload),
            Some(&b"ab"[..])
        );
        for length in 0..datagram.len() {
            let cut = Packet::parse(&datagram[..length]);
            assert!(
                cut.is_none_or(|packet| packet.payload.len() < 2),
                "{length}"
            );
        }
    }

    #[test]
    fn datagrams_that_are_not_rtp_are_malformed() {
        let good = Packet::header(33, 1, 2, 3);
        for version in [0x00, 0x40, 0xc0] {
            let mut bad = good;
            bad[0] = version;
            assert_eq!(Packet::parse(&bad), None);
        }
        let mut padded = good.to_vec();
        padded[0] |= 0x20;
        assert_eq!(Packet::parse(&padded), None);
        padded.push(0);
        assert_eq!(Packet::parse(&padded), None);
        padded[12] = 2;
        assert_eq!(Packet::parse(&padded), None);
    }

    #[test]
    fn a_bye_counts_for_its_own_source_only() {
        let report = [0x80, 201, 0, 1, 0, 0, 0, 7];
        let bye = |ssrc: u8| [0x81, 203, 0, 1, 0, 0, 0, ssrc];
        let read = |parts: &[&[u8]]| Control::parse(&parts.concat());
        assert_eq!(
            read(&[&report, &bye(7)]),
            Some(Control {
                ssrc: 7,
                says_bye: true
            })
        );
        assert_eq!(
            read(&[&report, &bye(8)]),
            Some(Control {
                ssrc: 7,
                says_bye: false
            })
        );
        assert_eq!(
            read(&[&bye(9)]),
            Some(Control {
                ssrc: 9,
                says_bye: true
            })
        );
        // The reason for leaving follows the list of sources, and names none.
        for (sources, says_bye) in [(0, false), (1, false), (2, true), (31, true)] {
            for padding in [0, 0x20] {
                let mut bye = [0x80, 203, 0, 2, 0, 0, 0, 8, 0, 0, 0, 7];
                bye[0] |= sources | padding;
                let control = read(&[&report, &bye]).expect("good RTCP");
                assert_eq!(control.says_bye, says_bye, "{sources} sources");
            }
        }
        assert_eq!(read(&[&report, &bye(7)[..7]]), None);
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[&[0x80, 204, 0, 1, 0, 0, 0, 7]]), None);
    }
}
