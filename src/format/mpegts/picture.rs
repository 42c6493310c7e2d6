//! Whether a picture can be decoded by itself, for encoders that do not say so: a look at the
//! beginning of its PES packet.
//!
//! (H.264: ISO/IEC 14496-10 table 7-1; HEVC: ISO/IEC 23008-2 table 7-1; MPEG-2 video: ISO/IEC
//! 13818-2 section 6.2.)

/// The video codings that matter to where decoding can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Codec {
    Mpeg12,
    H264,
    Hevc,
    /// Only the random-access indicator tells.
    Other,
}

impl Codec {
    /// `None` if a stream of this type is no video.
    pub fn of_stream_type(kind: u8) -> Option<Codec> {
        match kind {
            0x01 | 0x02 => Some(Codec::Mpeg12),
            0x1b => Some(Codec::H264),
            0x24 => Some(Codec::Hevc),
            0x10 | 0x20 | 0x21 | 0x33 | 0x42 | 0xd1 | 0xd2 | 0xea => Some(Codec::Other),
            _ => None,
        }
    }

    /// What a unit says of the picture that is looked for, by the byte that names its kind; nothing
    /// if another must. Behind a picture's rest the next one begins with a delimiter or a parameter
    /// set.
    fn look(self, unit: u8, may_be_rest: bool) -> Option<Look> {
        match self {
            Codec::Mpeg12 => match unit {
                0xb3 => Some(Look::Key),
                // Slices
                0x01..=0xaf if may_be_rest => None,
                _ => Some(Look::Other),
            },
            // Messages may stand in front; a parameter set stands in front of a key picture.
            Codec::H264 => match unit & 0x1f {
                5 | 7 => Some(Look::Key),
                1..=4 if !may_be_rest => Some(Look::Other),
                _ => None,
            },
            Codec::Hevc => match unit >> 1 & 0x3f {
                16..=21 | 32 => Some(Look::Key),
                0..=15 if !may_be_rest => Some(Look::Other),
                _ => None,
            },
            Codec::Other => Some(Look::Other),
        }
    }

    /// Whether a picture begins with this unit.
    fn is_delimiter(self, unit: u8) -> bool {
        match self {
            Codec::Mpeg12 => matches!(unit, 0x00 | 0xb3 | 0xb8),
            Codec::H264 => unit & 0x1f == 9,
            Codec::Hevc => unit >> 1 & 0x3f == 35,
            Codec::Other => false,
        }
    }
}

/// What is told of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Look {
    Key,
    Other,
}

/// Looks through a PES packet for the first picture that begins in it, over as many packets as it
/// takes: messages in front of it may be long, and a PES packet may begin within a picture, whose
/// rest is no one's.
#[derive(Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Search {
    codec: Codec,
    /// Where the PES packet begins.
    begin: u64,
    /// The bytes looked at last, the newest lowest.
    last: u32,
    may_be_rest: bool,
    verdict: Option<Look>,
}

impl Search {
    /// With the first packet's payload, which is at this offset.
    pub fn begin(codec: Codec, begin: u64, pes: &[u8]) -> Search {
        let coded = elementary(pes);
        let may_be_rest = !coded.is_some_and(|coded| {
            let zeros = coded.iter().take_while(|byte| **byte == 0).count();
            zeros >= 2 && coded.get(zeros) == Some(&1)
        });
        let mut search = Search {
            codec,
            begin,
            last: u32::MAX,
            may_be_rest,
            // Without a head it says nothing.
            verdict: coded.is_none().then_some(Look::Other),
        };
        search.feed(coded.unwrap_or_default());
        search
    }

    /// What follows of the PES packet.
    pub fn feed(&mut self, coded: &[u8]) {
        for byte in coded {
            if self.verdict.is_some() {
                return;
            }
            self.last = self.last << 8 | u32::from(*byte);
            if self.last >> 8 == 1 {
                self.verdict = self.codec.look(*byte, self.may_be_rest);
                self.may_be_rest &= !self.codec.is_delimiter(*byte);
            }
        }
    }

    /// What the picture is, once that is clear, and where it may be begun.
    pub fn verdict(&self) -> Option<(Look, u64)> {
        self.verdict.map(|look| (look, self.begin))
    }
}

/// What lies behind the head of a PES packet (ISO/IEC 13818-1 section 2.4.3.6).
fn elementary(pes: &[u8]) -> Option<&[u8]> {
    match pes {
        [
            0,
            0,
            1,
            0xe0..=0xef | 0xfd,
            _,
            _,
            _,
            _,
            head_bytes,
            rest @ ..,
        ] => rest.get(usize::from(*head_bytes)..),
        _ => None,
    }
}

#[cfg(feature = "handover")]
impl Search {
    /// Where the PES packet begins.
    pub fn begins_at(&self) -> u64 {
        self.begin
    }
}
