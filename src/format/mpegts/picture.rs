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

#[cfg(test)]
mod tests {
    use super::*;

    const PES: [u8; 9] = [0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0];

    /// What a picture is taken for whose PES packet has this behind its head.
    fn look(codec: Codec, coded: &[u8]) -> Option<Look> {
        let whole = Search::begin(codec, 7, &[&PES, coded].concat());
        // It comes to the same if it goes on in further packets.
        for cut in 0..=coded.len() {
            let mut search = Search::begin(codec, 7, &[&PES, &coded[..cut]].concat());
            search.feed(&coded[cut..]);
            let is_same = search.verdict() == whole.verdict();
            // With fewer bytes it cannot be told whether a unit begins here.
            assert!(is_same || cut < 5, "{codec:?} {coded:x?} cut at {cut}");
        }
        whole.verdict().map(|(look, begin)| {
            assert_eq!(begin, 7);
            look
        })
    }

    /// Each unit that may stand in front of a picture; then behind the rest of one.
    #[test]
    fn a_unit_tells_whether_its_picture_is_a_key() {
        let (key, other) = (Some(Look::Key), Some(Look::Other));
        for unit in 0..=0xff {
            let mpeg = if unit == 0xb3 { key } else { other };
            let mpeg_rest = match unit {
                0x01..=0xaf => None,
                _ => mpeg,
            };
            let h264 = match unit % 32 {
                5 | 7 => key,
                1..=4 => other,
                _ => None,
            };
            let h264_rest = h264.filter(|look| *look == Look::Key);
            let hevc = match unit / 2 % 64 {
                16..=21 | 32 => key,
                0..=15 => other,
                _ => None,
            };
            let hevc_rest = hevc.filter(|look| *look == Look::Key);
            for (codec, first, rest) in [
                (Codec::Mpeg12, mpeg, mpeg_rest),
                (Codec::H264, h264, h264_rest),
                (Codec::Hevc, hevc, hevc_rest),
                (Codec::Other, other, other),
            ] {
                assert_eq!(look(codec, &[0, 0, 1, unit]), first, "{codec:?} {unit:#x}");
                assert_eq!(look(codec, &[0, 0, 0, 0, 1, unit]), first);
                assert_eq!(
                    look(codec, &[9, 0, 0, 1, unit]),
                    rest,
                    "{codec:?} {unit:#x}"
                );
                assert_eq!(look(codec, &[0, 1, unit]), None, "no start code");
                // What looks like the beginning of a start code is the rest of a picture too.
                assert_eq!(look(codec, &[0, 1, 0, 0, 1, unit]), rest);
                assert_eq!(look(codec, &[0, 0, 5, 0, 0, 1, unit]), rest);
            }
        }
    }

    /// Behind a delimiter what follows is the picture's own.
    #[test]
    fn the_rest_of_a_picture_ends_with_a_delimiter() {
        for (codec, picture, delimiters) in [
            (Codec::H264, 1, &[0x09, 0x29, 0xe9][..]),
            (Codec::Hevc, 2, &[0x46, 0x47, 0xc6]),
        ] {
            for delimiter in 0..=0xff {
                let seen = look(codec, &[0x55, 0, 0, 1, delimiter, 0, 0, 1, picture]);
                if look(codec, &[0x55, 0, 0, 1, delimiter]).is_some() {
                    continue;
                }
                let expected = delimiters_of(codec, delimiter).then_some(Look::Other);
                assert_eq!(seen, expected, "{codec:?} {delimiter:#x}");
            }
            for delimiter in delimiters {
                assert!(delimiters_of(codec, *delimiter));
            }
        }
        for unit in [0x00, 0xb3, 0xb8] {
            assert!(Codec::Mpeg12.is_delimiter(unit));
        }
        for unit in [0x01, 0xaf, 0xb2, 0xb5, 0xb7] {
            assert!(!Codec::Mpeg12.is_delimiter(unit));
        }
        assert!((0..=0xff).all(|unit| !Codec::Other.is_delimiter(unit)));
    }

    fn delimiters_of(codec: Codec, unit: u8) -> bool {
        match codec {
            Codec::H264 => unit % 32 == 9,
            Codec::Hevc => unit / 2 % 64 == 35,
            Codec::Mpeg12 | Codec::Other => false,
        }
    }

    #[test]
    fn what_has_no_head_of_video_says_nothing() {
        let key = [0, 0, 1, 0x65];
        for (at, byte, is_read) in [
            (0, 1, false),
            (1, 1, false),
            (2, 0, false),
            (2, 2, false),
            (3, 0xdf, false),
            (3, 0xe0, true),
            (3, 0xef, true),
            (3, 0xf0, false),
            (3, 0xfc, false),
            (3, 0xfd, true),
            (3, 0xfe, false),
            (4, 9, true),
            (7, 0xff, true),
            // So many bytes more are of the head.
            (8, 1, true),
            (8, 0, true),
            (8, 6, false),
        ] {
            let mut pes = [&PES[..], &[0][..usize::from(at == 8 && byte == 1)], &key].concat();
            pes[at] = byte;
            let search = Search::begin(Codec::H264, 3, &pes);
            let expected = if is_read { Look::Key } else { Look::Other };
            assert_eq!(search.verdict(), Some((expected, 3)), "{byte:#x} at {at}");
        }
        for length in 0..PES.len() {
            let search = Search::begin(Codec::H264, 3, &PES[..length]);
            assert_eq!(search.verdict(), Some((Look::Other, 3)), "{length} bytes");
        }
        let open = Search::begin(Codec::H264, 3, &PES);
        assert_eq!(open.verdict(), None);
        #[cfg(feature = "handover")]
        assert_eq!(open.begins_at(), 3);
    }
}
