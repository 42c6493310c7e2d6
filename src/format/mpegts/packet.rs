//! MPEG-TS packets (ISO/IEC 13818-1 section 2.4.3): a view over 188 bytes whose getters cannot
//! fail, and what cuts a stream into them.

/// The size of a packet.
pub const PACKET_BYTES: usize = 188;
/// What each begins with.
pub const SYNC_BYTE: u8 = 0x47;

/// One packet. Its first byte is the sync byte.
#[derive(Clone, Copy)]
pub struct Packet<'a> {
    bytes: &'a [u8; PACKET_BYTES],
}

impl<'a> Packet<'a> {
    /// `None` if it does not begin with the sync byte.
    pub fn new(bytes: &'a [u8; PACKET_BYTES]) -> Option<Packet<'a>> {
        (bytes[0] == SYNC_BYTE).then_some(Packet { bytes })
    }

    /// All of it.
    pub fn bytes(&self) -> &'a [u8; PACKET_BYTES] {
        self.bytes
    }

    /// A receiver has found an error in it that it could not correct: any bit may be wrong.
    pub fn is_damaged(&self) -> bool {
        self.bytes[1] & 0x80 != 0
    }

    /// The packet identifier: 0 to 0x1fff.
    pub fn pid(&self) -> u16 {
        u16::from(self.bytes[1] & 0x1f) << 8 | u16::from(self.bytes[2])
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

/// Cuts bytes that arrive in any pieces into packets; finds the phase by three sync bytes in a row,
/// and finds it again when it is lost.
///
/// Holds at most what three packets need. The packets are the same however the bytes are cut.
#[derive(Clone, Debug, Default)]
pub struct Aligner {
    /// Bytes that are not yet a packet: fewer than one packet while in step, fewer than
    /// [`SEARCH_BYTES`] otherwise.
    held: Vec<u8>,
    in_step: bool,
}

/// Three sync bytes in a row lie within so many bytes.
const SEARCH_BYTES: usize = 2 * PACKET_BYTES + 1;

impl Aligner {
    /// Takes the next bytes and hands on each packet that is whole, with how many bytes of the
    /// input (or of what came before, if negative) lie before its first one.
    pub fn feed(&mut self, bytes: &[u8], mut packet: impl FnMut(i64, Packet<'_>)) {
        let mut rest = bytes;
        // Where `held` begins, or `rest` if that is empty, counted from the first byte of `bytes`.
        let mut at = -(self.held.len() as i64);
        loop {
            if !self.held.is_empty() || !self.in_step {
                let wanted = if self.in_step {
                    PACKET_BYTES
                } else {
                    SEARCH_BYTES
                };
                let taken = wanted.saturating_sub(self.held.len()).min(rest.len());
                self.held.extend_from_slice(&rest[..taken]);
                rest = &rest[taken..];
                if self.held.len() < wanted {
                    return;
                }
            }
            if !self.in_step {
                let step = self.search();
                at += step as i64;
                continue;
            }
            if let Some((first, _)) = self.held.split_first_chunk::<PACKET_BYTES>() {
                match Packet::new(first) {
                    None => self.in_step = false,
                    Some(view) => {
                        packet(at, view);
                        at += PACKET_BYTES as i64;
                        self.held.drain(..PACKET_BYTES);
                    }
                }
                continue;
            }
            if !self.held.is_empty() {
                continue;
            }
            let Some((first, behind)) = rest.split_first_chunk::<PACKET_BYTES>() else {
                self.held.extend_from_slice(rest);
                return;
            };
            match Packet::new(first) {
                None => self.in_step = false,
                Some(view) => {
                    packet(at, view);
                    at += PACKET_BYTES as i64;
                    rest = behind;
                }
            }
        }
    }

    /// Drops bytes from the front of a full search window until it may begin a packet, and says how
    /// many.
    fn search(&mut self) -> usize {
        let is_phase = |at: usize| {
            let mut sync = (at..self.held.len())
                .step_by(PACKET_BYTES)
                .map(|at| self.held[at]);
            sync.all(|byte| byte == SYNC_BYTE)
        };
        if is_phase(0) {
            self.in_step = true;
            return 0;
        }
        let step = (1..self.held.len())
            .find(|at| is_phase(*at))
            .unwrap_or(self.held.len());
        self.held.drain(..step);
        step
    }

    /// Bytes that its allocations take: what three packets need, at the most doubled.
    pub fn held_bytes(&self) -> usize {
        self.held.capacity()
    }

    /// The bytes that are left when nothing more comes: whole packets cannot be among them unless
    /// the phase was never found.
    pub fn is_in_step(&self) -> bool {
        self.in_step
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

    fn align(stream: &[u8], piece: usize) -> Vec<(i64, u8)> {
        let mut aligner = Aligner::default();
        let mut found = Vec::new();
        for (index, bytes) in stream.chunks(piece).enumerate() {
            let before = (index * piece) as i64;
            aligner.feed(bytes, |at, packet| {
                found.push((before + at, packet.bytes()[2]))
            });
        }
        found
    }

    #[test]
    fn packets_are_found_and_found_again_however_the_bytes_are_cut() {
        let mut stream = vec![SYNC_BYTE, 1, 2, SYNC_BYTE, 9];
        for number in 0..4 {
            stream.extend(packet(number));
        }
        stream.extend([7; 300]);
        for number in 4..9 {
            stream.extend(packet(number));
        }
        let whole = align(&stream, stream.len());
        let expected = [
            (5, 0),
            (193, 1),
            (381, 2),
            (569, 3),
            (1057, 4),
            (1245, 5),
            (1433, 6),
            (1621, 7),
            (1809, 8),
        ];
        assert_eq!(whole, expected);
        for piece in 1..600 {
            assert_eq!(align(&stream, piece), whole, "in pieces of {piece}");
        }
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
