//! Reads bits one after another, and the numbers that video codecs make of them.

/// Reader of a few bytes. Each method returns `None` at their end.
#[derive(Default)]
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    /// Position of the byte after `current`.
    at: usize,
    /// Byte that is read.
    current: u8,
    /// Bits of `current` that are to come.
    left: u8,
    /// Zero bytes that came last.
    zeros: u8,
    /// Whether a 3 after two zero bytes is skipped (ISO/IEC 14496-10 section 7.4.1).
    is_escaped: bool,
}

impl<'a> Bits<'a> {
    /// Returns a reader of plain bytes.
    pub fn plain(bytes: &'a [u8]) -> Bits<'a> {
        Bits {
            bytes,
            ..Bits::default()
        }
    }

    /// Returns a reader of a NAL unit.
    pub fn escaped(bytes: &'a [u8]) -> Bits<'a> {
        Bits {
            is_escaped: true,
            ..Bits::plain(bytes)
        }
    }

    /// Reads a bit: 0 or 1.
    pub fn bit(&mut self) -> Option<u32> {
        if self.left == 0 {
            let mut byte = *self.bytes.get(self.at)?;
            if self.is_escaped && self.zeros >= 2 && byte == 3 {
                self.at += 1;
                self.zeros = 0;
                byte = *self.bytes.get(self.at)?;
            }
            self.at += 1;
            self.zeros = match byte {
                0 => self.zeros.saturating_add(1),
                _ => 0,
            };
            (self.current, self.left) = (byte, 8);
        }
        self.left -= 1;
        Some(u32::from(self.current >> self.left & 1))
    }

    /// Reads a bit as a flag.
    pub fn flag(&mut self) -> Option<bool> {
        self.bit().map(|bit| bit == 1)
    }

    /// Reads a number of at most 32 bits.
    pub fn number(&mut self, bits: u32) -> Option<u32> {
        (0..bits).try_fold(0u32, |number, _| Some(number << 1 | self.bit()?))
    }

    /// Skips bits.
    pub fn skip(&mut self, bits: u32) -> Option<()> {
        (0..bits).try_for_each(|_| self.bit().map(|_| ()))
    }

    /// Reads an Exp-Golomb code, `ue(v)`: below 2^32 - 1.
    pub fn golomb(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while self.bit()? == 0 {
            zeros += 1;
            if zeros > 31 {
                return None;
            }
        }
        Some(((1u64 << zeros) - 1) as u32 + self.number(zeros)?)
    }

    /// Reads a signed Exp-Golomb code, `se(v)`.
    pub fn signed_golomb(&mut self) -> Option<i64> {
        let code = i64::from(self.golomb()?);
        Some(match code % 2 {
            0 => -code / 2,
            _ => code / 2 + 1,
        })
    }
}
