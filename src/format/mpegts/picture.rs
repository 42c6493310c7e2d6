//! Tells whether a picture can be decoded by itself, by the beginning of its PES packet. The
//! random-access indicator is not enough: some encoders never set it, and some always.
//!
//! (H.264: ISO/IEC 14496-10 table 7-1; HEVC: ISO/IEC 23008-2 table 7-1; MPEG-2 video: ISO/IEC
//! 13818-2 section 6.2.)

use super::sets::Sets;

/// Video codecs, as far as they differ in where decoding can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum PictureCodec {
    Mpeg12,
    H264,
    Hevc,
    /// Only the random-access indicator shows where decoding can begin.
    Other,
}

impl PictureCodec {
    /// Returns the codec of a stream type. `None` if it is not video.
    pub fn of_stream_type(kind: u8) -> Option<PictureCodec> {
        match kind {
            0x01 | 0x02 => Some(PictureCodec::Mpeg12),
            0x1b => Some(PictureCodec::H264),
            0x24 => Some(PictureCodec::Hevc),
            0x10 | 0x20 | 0x21 | 0x33 | 0x42 | 0xd1 | 0xd2 | 0xea => Some(PictureCodec::Other),
            _ => None,
        }
    }

    /// Returns how many bytes show what a unit is. `first` is its first byte.
    fn deciding_bytes(self, first: u8) -> usize {
        match self {
            PictureCodec::Mpeg12 if first == PICTURE => 3,
            PictureCodec::Mpeg12 if first == EXTENSION => 2,
            PictureCodec::H264 if matches!(first & 0x1f, 1 | 2 | 6) => 2,
            PictureCodec::Hevc if first >> 1 & 0x3f == 39 => 3,
            _ => 1,
        }
    }

    /// Returns what the first bytes of a NAL unit show about the picture.
    fn unit_kind(self, unit: &[u8], may_continue: bool) -> UnitKind {
        let first = unit.first().copied().unwrap_or(0);
        match self {
            PictureCodec::Mpeg12 => match unit {
                [SEQUENCE, ..] => UnitKind::SequenceHeader,
                [EXTENSION, second, ..] if matches!(second >> 4, 1 | 2) => UnitKind::Set,
                [GROUP, ..] => UnitKind::Group,
                [PICTURE, _, third, ..] if third >> 3 & 7 == INTRA => UnitKind::Intra,
                [PICTURE, ..] => UnitKind::Other,
                // Slices
                [0x01..=0xaf, ..] if !may_continue => UnitKind::Other,
                _ => UnitKind::Nothing,
            },
            PictureCodec::H264 | PictureCodec::Hevc => {
                let is_hevc = self == PictureCodec::Hevc;
                let kind = if is_hevc {
                    first >> 1 & 0x3f
                } else {
                    first & 0x1f
                };
                match (is_hevc, kind) {
                    (false, 5) | (true, 16..=21) => UnitKind::Key,
                    (false, 7) | (true, 32 | 33) => UnitKind::Sequence,
                    (false, 8) | (true, 34) => UnitKind::Set,
                    (false, 9) | (true, 35) => UnitKind::Begin,
                    (false, 6) | (true, 39) if may_begin(is_hevc, unit) => UnitKind::Recovery,
                    (false, 1..=4) | (true, 0..=15) if may_continue => UnitKind::Nothing,
                    // Not the first slice of its picture: it does not begin with macroblock 0. The
                    // picture began in the previous PES packet.
                    (false, 1 | 2) if unit.get(1).is_some_and(|byte| byte & 0x80 == 0) => {
                        UnitKind::Nothing
                    }
                    (false, 1..=4) | (true, 0..=15) if may_begin(is_hevc, unit) => UnitKind::Intra,
                    (false, 1..=4) | (true, 0..=15) => UnitKind::Other,
                    _ => UnitKind::Nothing,
                }
            }
            PictureCodec::Other => UnitKind::Other,
        }
    }

    /// Returns the type and the number of a parameter set. `None` for other NAL units.
    pub fn set_name(self, nal: &[u8]) -> Option<(u8, u32)> {
        let first = *nal.first()?;
        let kind = if self == PictureCodec::Hevc {
            first >> 1 & 0x3f
        } else {
            first & 0x1f
        };
        // Kind 19 is the header of a sequence, and kind 21 its extensions.
        let number = match (self, kind) {
            (PictureCodec::Mpeg12, _) => match (first, nal.get(1)? >> 4) {
                (SEQUENCE, _) => 0,
                (EXTENSION, number @ (1 | 2)) => number.into(),
                _ => return None,
            },
            (PictureCodec::H264, 7) => golomb(nal.get(4..)?)?,
            (PictureCodec::H264, 8) => golomb(nal.get(1..)?)?,
            (PictureCodec::Hevc, 32) => u32::from(nal.get(2)? >> 4),
            // Its number comes after much that is hard to read. There is hardly ever more than one.
            (PictureCodec::Hevc, 33) => 0,
            (PictureCodec::Hevc, 34) => golomb(nal.get(2..)?)?,
            _ => return None,
        };
        Some((kind, number))
    }
}

/// Start codes of MPEG-1 and MPEG-2 video, and the type of a picture that needs no other.
const PICTURE: u8 = 0;
const SEQUENCE: u8 = 0xb3;
const EXTENSION: u8 = 0xb5;
const GROUP: u8 = 0xb8;
const INTRA: u8 = 1;

/// Returns whether a NAL unit makes a marked picture a point at which decoding can begin: the first
/// slice of an I picture of H.264, or a recovery point.
pub(crate) fn may_begin(is_hevc: bool, nal: &[u8]) -> bool {
    match (is_hevc, nal) {
        (true, [first, _, payload, ..]) => first >> 1 & 0x3f == 39 && *payload == RECOVERY_POINT,
        (false, [first, second, ..]) => match first & 0x1f {
            6 => *second == RECOVERY_POINT,
            // Macroblock 0, then slice type 2 or 7, as Exp-Golomb codes.
            1 | 2 => second & 0xf0 == 0xb0 || *second == 0x88,
            _ => false,
        },
        _ => false,
    }
}

/// Payload type of the recovery point message (ISO/IEC 14496-10 section D.1, 23008-2 section
/// D.2.1).
const RECOVERY_POINT: u8 = 6;

/// Reads an Exp-Golomb code of at most 17 bits, which holds every number of a parameter set.
fn golomb(bytes: &[u8]) -> Option<u32> {
    let mut bits = [0; 4];
    bits.iter_mut()
        .zip(bytes)
        .for_each(|(bit, byte)| *bit = *byte);
    let bits = u32::from_be_bytes(bits);
    let zeros = bits.leading_zeros();
    (zeros <= 8).then(|| (bits >> (31 - 2 * zeros)) - 1)
}

/// Value of [`Search::unit_bytes`] for a unit of which no more must be seen.
const KIND_KNOWN: u8 = 3;

/// What a NAL unit shows about a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnitKind {
    /// The picture can be decoded by itself.
    Key,
    /// A parameter set that marks the picture.
    Sequence,
    /// The same, and decoding can begin with a picture of any type.
    SequenceHeader,
    /// A group of pictures begins: it marks the picture.
    Group,
    /// A parameter set that does not mark the picture.
    Set,
    /// The picture begins.
    Begin,
    /// Decoding can begin with the picture if a flag of the packet or a parameter set marks it.
    Recovery,
    /// The same, and the unit is the picture's first slice.
    Intra,
    /// The picture needs others.
    Other,
    /// The unit says nothing about the picture.
    Nothing,
}

/// Searches a PES packet for the first picture that begins in it. It takes as many packets as it
/// needs: messages in front may be long, and a PES packet may begin within a picture, whose rest
/// does not count. Encoders that set the random-access flag, or send parameter sets, with every
/// picture mark none. So a mark counts only where decoding can begin with the picture.
#[derive(Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Search {
    codec: PictureCodec,
    /// Offset of the PES packet.
    begin: u64,
    /// Continuity counter of its first packet.
    counter: u8,
    /// Newest bytes. The newest is the lowest.
    last: u32,
    /// Whether the next slice may belong to the picture before.
    may_continue: bool,
    /// Whether the encoder says that decoding can begin with the picture.
    pub is_marked: bool,
    /// Whether a recovery point has come.
    may_begin: bool,
    /// First bytes of the current unit.
    unit: [u8; 3],
    /// Number of those bytes. [`KIND_KNOWN`] once they have shown what the unit is.
    unit_bytes: u8,
    /// The verdict, once it is clear.
    is_join: Option<bool>,
}

impl Search {
    /// Begins a search with the first packet's payload, offset and counter. The picture is marked
    /// if the packet has the flag, or if the PES packet before had a mark and no picture.
    pub fn begin(
        codec: PictureCodec,
        begin: u64,
        counter: u8,
        pes: &[u8],
        is_marked: bool,
        sets: &mut Sets,
    ) -> Search {
        let coded = elementary(pes);
        let may_continue = !coded.is_some_and(|coded| {
            let zeros = coded.iter().take_while(|byte| **byte == 0).count();
            zeros >= 2 && coded.get(zeros) == Some(&1)
        });
        let mut search = Search {
            codec,
            begin,
            counter,
            last: u32::MAX,
            may_continue,
            is_marked,
            may_begin: false,
            unit: [0; 3],
            unit_bytes: KIND_KNOWN,
            // Without a head it says nothing.
            is_join: coded.is_none().then_some(is_marked),
        };
        sets.begin_picture(|nal| codec.set_name(nal));
        search.feed(coded.unwrap_or_default(), sets);
        search
    }

    /// Reads the next part of the PES packet.
    pub fn feed(&mut self, coded: &[u8], sets: &mut Sets) {
        for byte in coded {
            if self.is_join.is_some() {
                return;
            }
            sets.take(*byte);
            self.last = self.last << 8 | u32::from(*byte);
            if self.last & 0xff_ffff == 1 {
                sets.end(|nal| self.codec.set_name(nal), 3);
                self.unit_bytes = 0;
            } else if let Some(place) = self.unit.get_mut(usize::from(self.unit_bytes)) {
                *place = *byte;
                self.unit_bytes += 1;
                let unit = self.unit;
                let unit = &unit[..usize::from(self.unit_bytes)];
                if unit.len() == self.codec.deciding_bytes(unit[0]) {
                    self.unit_bytes = KIND_KNOWN;
                    self.note(self.codec.unit_kind(unit, self.may_continue), unit, sets);
                }
            }
        }
    }

    fn note(&mut self, kind: UnitKind, unit: &[u8], sets: &mut Sets) {
        match kind {
            UnitKind::Key => self.is_join = Some(true),
            UnitKind::Intra => self.is_join = Some(self.is_marked),
            UnitKind::Other => self.is_join = Some(self.is_marked && self.may_begin),
            UnitKind::Recovery => self.may_begin = true,
            UnitKind::Begin => self.may_continue = false,
            UnitKind::Group => (self.may_continue, self.is_marked) = (false, true),
            UnitKind::Sequence | UnitKind::SequenceHeader | UnitKind::Set => {
                self.may_continue = false;
                self.is_marked |= kind != UnitKind::Set;
                self.may_begin |= kind == UnitKind::SequenceHeader;
                sets.begin(unit);
            }
            UnitKind::Nothing => {}
        }
    }

    /// Returns the verdict once it is clear: whether decoding can begin with the picture, the
    /// offset, and the counter of the packet there.
    pub fn verdict(&self) -> Option<(bool, u64, u8)> {
        self.is_join
            .map(|is_join| (is_join, self.begin, self.counter))
    }

    /// Returns whether the state in a hand-over is possible for bytes up to this offset.
    #[cfg(feature = "handover")]
    pub fn is_valid(&self, offset: u64) -> bool {
        self.begin <= offset
    }
}

/// Returns the bytes after the head of a PES packet (ISO/IEC 13818-1 section 2.4.3.6).
fn elementary(pes: &[u8]) -> Option<&[u8]> {
    let (head, rest) = pes.split_first_chunk::<9>()?;
    let [0, 0, 1, stream_id, _, _, _, _, head_bytes] = *head else {
        return None;
    };
    let is_video = matches!(stream_id, 0xe0..=0xef | 0xfd);
    is_video.then(|| rest.get(usize::from(head_bytes)..))?
}

#[cfg(test)]
mod tests {
    use super::*;

    const PES: [u8; 9] = [0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0];

    fn begin(codec: PictureCodec, pes: &[u8], is_marked: bool) -> (Search, Sets) {
        let mut sets = Sets::default();
        let search = Search::begin(codec, 7, 3, pes, is_marked, &mut sets);
        (search, sets)
    }

    /// Returns whether decoding can begin with a picture whose PES packet has these bytes after its
    /// head.
    fn is_join(codec: PictureCodec, coded: &[u8], is_marked: bool) -> Option<bool> {
        let (whole, _) = begin(codec, &[&PES, coded].concat(), is_marked);
        // Further packets give the same result.
        for cut in 0..=coded.len() {
            let pes = [&PES, &coded[..cut]].concat();
            let (mut search, mut sets) = begin(codec, &pes, is_marked);
            search.feed(&coded[cut..], &mut sets);
            let is_same = search.verdict() == whole.verdict();
            // With fewer bytes it is not clear whether a unit begins here.
            assert!(is_same || cut < 5, "{codec:?} {coded:x?} cut at {cut}");
        }
        whole.verdict().map(|(is_join, begin, counter)| {
            assert_eq!((begin, counter), (7, 3));
            is_join
        })
    }

    /// Each unit that may be in front of a picture, then after the rest of one.
    #[test]
    fn a_unit_shows_whether_its_picture_is_a_key_picture() {
        for unit in 0..=0xff {
            let mpeg = matches!(unit, 0x01..=0xaf).then_some(false);
            let h264 = match unit % 32 {
                5 => Some(true),
                1..=4 => Some(false),
                _ => None,
            };
            let hevc = match unit / 2 % 64 {
                16..=21 => Some(true),
                0..=15 => Some(false),
                _ => None,
            };
            for (codec, first, rest) in [
                (PictureCodec::Mpeg12, mpeg, None),
                (PictureCodec::H264, h264, h264.filter(|is_join| *is_join)),
                (PictureCodec::Hevc, hevc, hevc.filter(|is_join| *is_join)),
                (PictureCodec::Other, Some(false), Some(false)),
            ] {
                let is_join =
                    |coded: &[u8]| is_join(codec, &[coded, &[unit, 0xe0]].concat(), false);
                assert_eq!(is_join(&[0, 0, 1]), first, "{codec:?} {unit:#x}");
                assert_eq!(is_join(&[0, 0, 0, 0, 1]), first);
                assert_eq!(is_join(&[9, 0, 0, 1]), rest, "{codec:?} {unit:#x}");
                assert_eq!(is_join(&[0, 1]), None, "no start code");
                // Bytes that look like the beginning of a start code are the rest of a picture,
                // too.
                assert_eq!(is_join(&[0, 1, 0, 0, 1]), rest);
                assert_eq!(is_join(&[0, 0, 5, 0, 0, 1]), rest);
            }
        }
    }

    /// NAL units after start codes.
    fn coded(units: &[&[u8]]) -> Vec<u8> {
        let each = units.iter().map(|unit| [&[0, 0, 1], *unit].concat());
        each.collect::<Vec<_>>().concat()
    }

    /// The flag or the sets may come with every picture. Slices of type I, IDR, IRAP and recovery
    /// points show where decoding can begin.
    #[test]
    fn a_mark_counts_where_decoding_can_begin() {
        const SPS: &[u8] = &[0x67, 100, 0, 30, 0x80, 7];
        const PPS: &[u8] = &[0x68, 0x80, 7];
        let [intra, all_intra, all_p, all_b] = [0xb0, 0x88, 0x9a, 0x9e].map(|byte| [0x41, byte, 7]);
        let recovery: &[u8] = &[6, 6, 1, 0x80];
        let timing: &[u8] = &[6, 1, 1, 6];
        let vps: &[u8] = &[0x40, 1, 0x0c];
        let (trail, cra, clean): (&[u8], &[u8], &[u8]) =
            (&[2, 1, 0x80], &[0x2a, 1], &[0x4e, 1, 6, 9]);
        let (sequence, group): (&[u8], &[u8]) = (&[0xb3, 0x16, 0], &[0xb8, 0, 8]);
        let coding: &[u8] = &[0xb5, 0x8f, 0xff];
        let (mpeg_i, mpeg_p): (&[u8], &[u8]) = (&[0, 0, 0x0f], &[0, 0, 0x57]);
        for (codec, units, plain, flagged) in [
            (PictureCodec::H264, vec![&intra[..]], false, true),
            (PictureCodec::H264, vec![&all_intra], false, true),
            (PictureCodec::H264, vec![&all_p], false, false),
            (PictureCodec::H264, vec![&all_b], false, false),
            (PictureCodec::H264, vec![SPS, PPS, &all_p], false, false),
            (PictureCodec::H264, vec![SPS, PPS, &all_intra], true, true),
            (PictureCodec::H264, vec![PPS, &all_intra], false, true),
            (PictureCodec::H264, vec![recovery, &all_p], false, true),
            (PictureCodec::H264, vec![SPS, recovery, &all_p], true, true),
            (PictureCodec::H264, vec![timing, &all_p], false, false),
            (
                PictureCodec::H264,
                vec![SPS, PPS, &[0x65, 0x88]],
                true,
                true,
            ),
            (PictureCodec::Hevc, vec![trail], false, false),
            (PictureCodec::Hevc, vec![vps, trail], false, false),
            (PictureCodec::Hevc, vec![clean, trail], false, true),
            (PictureCodec::Hevc, vec![vps, clean, trail], true, true),
            (PictureCodec::Hevc, vec![cra], true, true),
            (PictureCodec::Mpeg12, vec![group, mpeg_i], true, true),
            (PictureCodec::Mpeg12, vec![group, mpeg_p], false, false),
            (
                PictureCodec::Mpeg12,
                vec![sequence, coding, mpeg_i],
                true,
                true,
            ),
            (PictureCodec::Mpeg12, vec![sequence, mpeg_p], true, true),
            (PictureCodec::Mpeg12, vec![mpeg_i], false, true),
            (PictureCodec::Mpeg12, vec![mpeg_p], false, false),
        ] {
            let coded = coded(&units);
            assert_eq!(is_join(codec, &coded, false), Some(plain), "{units:x?}");
            assert_eq!(is_join(codec, &coded, true), Some(flagged), "{units:x?}");
        }
    }

    /// Apple's segmenter writes it where the rest of a picture begins with a slice.
    #[test]
    fn a_slice_that_does_not_begin_its_picture_belongs_to_the_one_before() {
        let (rest, partition): (&[u8], &[u8]) = (&[0x41, 0x30, 7], &[0x42, 0x7f, 7]);
        let (delimiter, key, other): (&[u8], &[u8], &[u8]) =
            (&[9, 0x10], &[0x65, 0x88], &[0x41, 0x9a, 7]);
        for (units, joins) in [
            (vec![rest, rest], None),
            (vec![rest, partition, delimiter, key], Some(true)),
            (vec![rest, delimiter, other, key], Some(false)),
            (vec![rest, key], Some(true)),
        ] {
            for is_marked in [false, true] {
                let seen = is_join(PictureCodec::H264, &coded(&units), is_marked);
                assert_eq!(seen, joins, "{units:x?}");
            }
        }
    }

    /// The bytes after a delimiter, or after parameter sets, belong to the next picture.
    #[test]
    fn the_rest_of_a_picture_ends_with_a_delimiter() {
        for (codec, picture, begins) in [
            (PictureCodec::H264, 0x41, [9, 7, 8].as_slice()),
            (PictureCodec::Hevc, 2, &[35, 32, 33, 34]),
        ] {
            for unit in 0..=0xff_u8 {
                let rest = [0x55, 0, 0, 1, unit, 9, 9];
                if is_join(codec, &rest, false).is_some() {
                    continue;
                }
                let kind = if codec == PictureCodec::H264 {
                    unit % 32
                } else {
                    unit / 2 % 64
                };
                let seen = is_join(
                    codec,
                    &[&rest[..], &[0, 0, 1, picture, 0xe0]].concat(),
                    false,
                );
                let expected = begins.contains(&kind).then_some(false);
                assert_eq!(seen, expected, "{codec:?} {unit:#x}");
            }
        }
    }

    #[test]
    fn a_pes_packet_without_a_head_of_video_says_nothing() {
        let key = [0, 0, 1, 0x65];
        let verdict = |pes: &[u8]| begin(PictureCodec::H264, pes, false).0.verdict();
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
            // This many more bytes belong to the head.
            (8, 1, true),
            (8, 0, true),
            (8, 6, false),
        ] {
            let mut pes = [&PES[..], &[0][..usize::from(at == 8 && byte == 1)], &key].concat();
            pes[at] = byte;
            assert_eq!(verdict(&pes), Some((is_read, 7, 3)), "{byte:#x} at {at}");
        }
        for length in 0..PES.len() {
            assert_eq!(
                verdict(&PES[..length]),
                Some((false, 7, 3)),
                "{length} bytes"
            );
        }
        assert_eq!(verdict(&PES), None);
        #[cfg(feature = "handover")]
        assert!(
            begin(PictureCodec::H264, &PES, false).0.is_valid(7)
                && !begin(PictureCodec::H264, &PES, false).0.is_valid(6)
        );
    }
}
