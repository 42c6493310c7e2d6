//! MPEG-TS packets (ISO/IEC 13818-1 section 2.4.3): a view of 188 bytes whose getters cannot fail.

/// Length of a packet.
pub const PACKET_BYTES: usize = 188;
/// First byte of each packet.
pub const SYNC_BYTE: u8 = 0x47;

/// Returns the head of a packet. `control` has the bits of its adaptation field and payload, and its
/// counter.
pub(crate) fn packet_head(pid: u16, begins_unit: bool, control: u8) -> [u8; 4] {
    let [high, low] = pid.to_be_bytes();
    [SYNC_BYTE, u8::from(begins_unit) << 6 | high, low, control]
}

/// One packet. Its first byte is the sync byte.
#[derive(Clone, Copy)]
pub struct Packet<'a> {
    /// The 188 bytes of the packet.
    pub bytes: &'a [u8; PACKET_BYTES],
    /// The packet with the bytes of its recorder.
    pub whole: &'a [u8],
    /// Bytes of `whole` in front of the packet.
    before: usize,
}

impl<'a> Packet<'a> {
    /// Returns the packet in `whole`, after this many bytes of a recorder. `None` if there is none.
    pub fn within(whole: &'a [u8], before: usize) -> Option<Packet<'a>> {
        let bytes = whole.get(before..)?.first_chunk::<PACKET_BYTES>()?;
        (bytes[0] == SYNC_BYTE).then_some(Packet {
            bytes,
            whole,
            before,
        })
    }

    /// Returns the bytes that the recorder has put in front, and those after the packet.
    pub fn around(&self) -> (&'a [u8], &'a [u8]) {
        let (before, rest) = self.whole.split_at(self.before);
        (before, rest.get(PACKET_BYTES..).unwrap_or(&[]))
    }

    /// Returns whether a receiver has marked an error that it could not correct. Then any bit may
    /// be wrong.
    pub fn is_damaged(&self) -> bool {
        self.bytes[1] & 0x80 != 0
    }

    /// Returns the packet identifier: 0 to 0x1fff.
    pub fn pid(&self) -> u16 {
        u16::from_be_bytes([self.bytes[1] & 0x1f, self.bytes[2]])
    }

    /// Returns the continuity counter: 0 to 15. It counts the packets of a PID that have a payload.
    pub fn counter(&self) -> u8 {
        self.bytes[3] & 0x0f
    }

    /// Returns whether a section or a PES packet begins in the packet.
    pub fn unit_starts(&self) -> bool {
        self.bytes[1] & 0x40 != 0
    }

    /// Returns whether the payload is scrambled.
    pub fn is_scrambled(&self) -> bool {
        self.bytes[3] & 0xc0 != 0
    }

    /// Returns the adaptation field after its length byte. It is empty if there is none.
    fn adaptation(&self) -> &'a [u8] {
        if self.bytes[3] & 0x20 == 0 {
            return &[];
        }
        let length = usize::from(self.bytes[4]);
        self.bytes.get(5..5 + length).unwrap_or(&[])
    }

    /// Returns whether the packet has an adaptation field with flags.
    pub fn has_flags(&self) -> bool {
        !self.adaptation().is_empty()
    }

    /// Returns the counter of the previous packet of the PID, if no packet is missing (section
    /// 2.4.3.3). Packets without a payload are not counted.
    pub fn counter_before(&self) -> u8 {
        let own = self.bytes[3] & 0x0f;
        let has_payload = self.bytes[3] & 0x10 != 0;
        own.wrapping_sub(u8::from(has_payload)) & 0x0f
    }

    fn has_flag(&self, flag: u8) -> bool {
        self.adaptation()
            .first()
            .is_some_and(|flags| flags & flag != 0)
    }

    /// Returns whether the clock or the counter jumps here on purpose.
    pub fn is_discontinuous(&self) -> bool {
        self.has_flag(0x80)
    }

    /// Returns whether decoding can begin at the unit that starts here.
    pub fn is_random_access(&self) -> bool {
        self.has_flag(0x40)
    }

    /// Returns the program clock reference in ticks of 27 MHz, below 2^33 · 300.
    pub fn clock_reference(&self) -> Option<u64> {
        let [flags, a, b, c, d, e, f, ..] = *self.adaptation() else {
            return None;
        };
        if flags & 0x10 == 0 {
            return None;
        }
        // 33 bits, six reserved ones, and nine.
        let base = u64::from_be_bytes([0, 0, 0, a, b, c, d, e]) >> 7;
        let extension = u64::from(u16::from_be_bytes([e & 1, f]));
        Some(base * 300 + extension.min(299))
    }

    /// Returns the part of the section or PES packet in this packet.
    pub fn payload(&self) -> &'a [u8] {
        let start = match self.bytes[3] >> 4 & 3 {
            1 => 4,
            3 => 5 + usize::from(self.bytes[4]),
            _ => PACKET_BYTES,
        };
        self.bytes.get(start..).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u8) -> [u8; PACKET_BYTES] {
        let mut bytes = [number; PACKET_BYTES];
        bytes[..4].copy_from_slice(&[SYNC_BYTE, 0x01, number, 0x10]);
        bytes
    }

    /// A packet that begins with this head and is stuffed.
    fn headed(head: &[u8]) -> [u8; PACKET_BYTES] {
        let mut bytes = [0xff; PACKET_BYTES];
        bytes[0] = SYNC_BYTE;
        bytes[1..=head.len()].copy_from_slice(head);
        bytes
    }

    /// Damaged, begins a unit, PID, scrambled, counter.
    #[test]
    fn each_field_of_the_head_has_its_own_bits() {
        for (head, fields) in [
            ([0x00, 0x00, 0x00], (false, false, 0, false, 0)),
            ([0x80, 0x00, 0x00], (true, false, 0, false, 0)),
            ([0x40, 0x00, 0x00], (false, true, 0, false, 0)),
            // The priority has no getter.
            ([0x20, 0x00, 0x00], (false, false, 0, false, 0)),
            ([0x10, 0x00, 0x00], (false, false, 0x1000, false, 0)),
            ([0x01, 0x80, 0x00], (false, false, 0x180, false, 0)),
            ([0x1f, 0xff, 0x00], (false, false, 0x1fff, false, 0)),
            ([0x7f, 0xff, 0x3f], (false, true, 0x1fff, false, 15)),
            ([0x00, 0x00, 0x80], (false, false, 0, true, 0)),
            ([0x00, 0x00, 0x40], (false, false, 0, true, 0)),
            ([0x00, 0x00, 0x38], (false, false, 0, false, 8)),
            ([0xbf, 0x01, 0xf1], (true, false, 0x1f01, true, 1)),
            ([0xff, 0xff, 0xff], (true, true, 0x1fff, true, 15)),
        ] {
            let bytes = headed(&head);
            let view = Packet::within(&bytes, 0).expect("a sync byte");
            let (damaged, starts) = (view.is_damaged(), view.unit_starts());
            let told = (
                damaged,
                starts,
                view.pid(),
                view.is_scrambled(),
                view.counter(),
            );
            assert_eq!(told, fields, "{head:x?}");
        }
        let mut bytes = headed(&[0, 0, 0]);
        bytes[0] = 0x46;
        assert!(Packet::within(&bytes, 0).is_none());
    }

    /// Packets without a payload are not counted.
    #[test]
    fn the_counter_before_is_one_less_where_there_is_a_payload() {
        for (byte, before) in [
            (0x10, 15),
            (0x11, 0),
            (0x1f, 14),
            (0x20, 0),
            (0x25, 5),
            (0x2f, 15),
            (0x30, 15),
            (0xf8, 7),
        ] {
            let bytes = headed(&[0, 0, byte, 0]);
            let view = Packet::within(&bytes, 0).expect("a sync byte");
            assert_eq!(view.counter_before(), before, "{byte:x}");
        }
    }

    /// The control bits and the field's length, then the number of bytes of flags and of payload.
    #[test]
    fn an_adaptation_field_ends_where_the_payload_begins() {
        for (control, length, has_flags, payload) in [
            (0x00, 7, false, 0),
            (0x10, 7, false, 184),
            (0x20, 0, false, 0),
            (0x20, 183, true, 0),
            (0x20, 184, false, 0),
            (0x30, 0, false, 183),
            (0x30, 1, true, 182),
            (0x30, 182, true, 1),
            (0x30, 183, true, 0),
            (0x30, 184, false, 0),
            (0x30, 255, false, 0),
        ] {
            let bytes = headed(&[0, 0, control, length]);
            let view = Packet::within(&bytes, 0).expect("a sync byte");
            let told = (view.has_flags(), view.payload().len());
            assert_eq!(told, (has_flags, payload), "{control:x} {length}");
            assert!(bytes.ends_with(view.payload()));
            // If there are flags, all are set.
            assert_eq!(view.is_discontinuous(), has_flags);
            assert_eq!(view.is_random_access(), has_flags);
        }
        for (flags, discontinuous, random) in [
            (0x00, false, false),
            (0x80, true, false),
            (0x40, false, true),
            (0x3f, false, false),
        ] {
            let bytes = headed(&[0, 0, 0x30, 1, flags]);
            let view = Packet::within(&bytes, 0).expect("a sync byte");
            assert_eq!(view.is_discontinuous(), discontinuous, "{flags:x}");
            assert_eq!(view.is_random_access(), random, "{flags:x}");
        }
    }

    /// 33 bits of 90 kHz, six reserved ones, and nine of 27 MHz.
    #[test]
    fn each_bit_of_the_clock_reference_counts() {
        for (length, flags, clock, ticks) in [
            (7, 0x10, [0, 0, 0, 0, 0, 0], Some(0)),
            (7, 0x10, [0, 0, 0, 0, 0x7e, 0], Some(0)),
            (7, 0x10, [0, 0, 0, 0, 0x80, 0], Some(300)),
            (7, 0x10, [0, 0, 0, 1, 0, 0], Some(2 * 300)),
            (7, 0x10, [0, 0, 1, 0, 0, 0], Some((2 << 8) * 300)),
            (7, 0x10, [0, 1, 0, 0, 0, 0], Some((2 << 16) * 300)),
            (7, 0x10, [1, 0, 0, 0, 0, 0], Some((2 << 24) * 300)),
            (7, 0x10, [0x80, 0, 0, 0, 0, 5], Some((1 << 32) * 300 + 5)),
            (7, 0x10, [0, 0, 0, 0, 1, 0x2b], Some(299)),
            // An extension of 300 or more gives no other time.
            (7, 0x10, [0, 0, 0, 0, 1, 0x2c], Some(299)),
            (7, 0xef, [1, 1, 1, 1, 1, 1], None),
            (6, 0x10, [1, 1, 1, 1, 1, 1], None),
            (0, 0x10, [1, 1, 1, 1, 1, 1], None),
        ] {
            let bytes = headed(&[&[0, 0, 0x30, length, flags][..], &clock].concat());
            let view = Packet::within(&bytes, 0).expect("a sync byte");
            assert_eq!(
                view.clock_reference(),
                ticks,
                "{length} {flags:x} {clock:x?}"
            );
        }
    }

    #[test]
    fn bytes_of_a_recorder_are_kept_apart() {
        let whole = [&[1, 2, 3, 4][..], &packet(9), &[5, 6]].concat();
        let view = Packet::within(&whole, 4).expect("a packet");
        assert_eq!(view.whole, whole);
        assert_eq!(view.bytes, &packet(9));
        assert_eq!(view.around(), (&[1, 2, 3, 4][..], &[5, 6][..]));
        for (bytes, before) in [
            (&whole[..], 3),
            (&whole, 5),
            (&whole, 7),
            (&whole, 500),
            (&whole[..191], 4),
        ] {
            assert!(Packet::within(bytes, before).is_none(), "behind {before}");
        }
        assert!(Packet::within(&whole[..192], 4).is_some());
    }

    #[test]
    fn the_clock_reference_is_read() {
        let mut bytes = packet(1);
        bytes[3] = 0x30;
        bytes[4..12].copy_from_slice(&[7, 0x50, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        let view = Packet::within(&bytes, 0).expect("a sync byte");
        assert_eq!(view.clock_reference(), Some(((1 << 33) - 1) * 300 + 299));
        assert!(view.is_random_access() && !view.is_discontinuous());
        assert_eq!(view.payload().len(), PACKET_BYTES - 12);
        bytes[4] = 255;
        assert_eq!(
            Packet::within(&bytes, 0).map(|view| (view.clock_reference(), view.payload().len())),
            Some((None, 0))
        );
    }
}
