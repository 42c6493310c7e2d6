//! MPEG-TS packets (ISO/IEC 13818-1 section 2.4.3): a view over 188 bytes whose getters cannot
//! fail.

/// The size of a packet.
pub const PACKET_BYTES: usize = 188;
/// What each begins with.
pub const SYNC_BYTE: u8 = 0x47;

/// One packet. Its first byte is the sync byte.
#[derive(Clone, Copy)]
pub struct Packet<'a> {
    bytes: &'a [u8; PACKET_BYTES],
    whole: &'a [u8],
    /// So many bytes of it are in front.
    before: usize,
}

impl<'a> Packet<'a> {
    /// `None` if it does not begin with the sync byte.
    pub fn new(bytes: &'a [u8; PACKET_BYTES]) -> Option<Packet<'a>> {
        Packet::within(bytes, 0)
    }

    /// What a recorder keeps as one, in which the packet stands behind so many bytes. `None` if
    /// there is none.
    pub fn within(whole: &'a [u8], before: usize) -> Option<Packet<'a>> {
        let bytes = whole.get(before..)?.first_chunk::<PACKET_BYTES>()?;
        (bytes[0] == SYNC_BYTE).then_some(Packet {
            bytes,
            whole,
            before,
        })
    }

    /// The packet with what its recorder has put around it, as it came.
    pub fn whole(&self) -> &'a [u8] {
        self.whole
    }

    /// All of it.
    pub fn bytes(&self) -> &'a [u8; PACKET_BYTES] {
        self.bytes
    }

    /// What its recorder has put in front, and behind.
    pub fn around(&self) -> (&'a [u8], &'a [u8]) {
        let (before, rest) = self.whole.split_at(self.before);
        (before, rest.get(PACKET_BYTES..).unwrap_or(&[]))
    }

    /// A receiver has found an error in it that it could not correct: any bit may be wrong.
    pub fn is_damaged(&self) -> bool {
        self.bytes[1] & 0x80 != 0
    }

    /// The packet identifier: 0 to 0x1fff.
    pub fn pid(&self) -> u16 {
        u16::from(self.bytes[1] & 0x1f) << 8 | u16::from(self.bytes[2])
    }

    /// Counts the packets of a PID that have a payload: 0 to 15.
    pub fn counter(&self) -> u8 {
        self.bytes[3] & 0x0f
    }

    /// A section or a PES packet begins in it.
    pub fn unit_starts(&self) -> bool {
        self.bytes[1] & 0x40 != 0
    }

    /// Its payload cannot be read.
    pub fn is_scrambled(&self) -> bool {
        self.bytes[3] & 0xc0 != 0
    }

    /// The adaptation field behind its length byte; empty if there is none.
    fn adaptation(&self) -> &'a [u8] {
        if self.bytes[3] & 0x20 == 0 {
            return &[];
        }
        let length = usize::from(self.bytes[4]);
        self.bytes.get(5..5 + length).unwrap_or(&[])
    }

    /// Whether it has flags.
    pub fn has_flags(&self) -> bool {
        !self.adaptation().is_empty()
    }

    /// The counter of the packet before, of the same PID, if none is missing between (section
    /// 2.4.3.3): those without a payload are not counted.
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

    /// The clock or the counter jumps here on purpose.
    pub fn is_discontinuous(&self) -> bool {
        self.has_flag(0x80)
    }

    /// Decoding can begin at the unit that starts here.
    pub fn is_random_access(&self) -> bool {
        self.has_flag(0x40)
    }

    /// The program clock reference in ticks of 27 MHz, below 2^33 · 300.
    pub fn clock_reference(&self) -> Option<u64> {
        let [flags, a, b, c, d, e, f, ..] = *self.adaptation() else {
            return None;
        };
        if flags & 0x10 == 0 {
            return None;
        }
        let base = u64::from(a) << 25
            | u64::from(b) << 17
            | u64::from(c) << 9
            | u64::from(d) << 1
            | u64::from(e >> 7);
        let extension = u64::from(e & 1) << 8 | u64::from(f);
        Some(base * 300 + extension.min(299))
    }

    /// What it carries of its section or PES packet.
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

    #[test]
    fn the_clock_reference_is_read() {
        let mut bytes = packet(1);
        bytes[3] = 0x30;
        bytes[4..12].copy_from_slice(&[7, 0x50, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        let view = Packet::new(&bytes).expect("a sync byte");
        assert_eq!(view.clock_reference(), Some(((1 << 33) - 1) * 300 + 299));
        assert!(view.is_random_access() && !view.is_discontinuous());
        assert_eq!(view.payload().len(), PACKET_BYTES - 12);
        bytes[4] = 255;
        assert_eq!(
            Packet::new(&bytes).map(|view| (view.clock_reference(), view.payload().len())),
            Some((None, 0))
        );
    }
}
