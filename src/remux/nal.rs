//! NAL units of H.264 and H.265, and the parameter sets among them (ISO/IEC 14496-15: `avcC` and
//! `hvcC`).

use std::io::BufRead;

use super::bits::Bits;
use super::medium::{Codec, MediaError, Result, Shape};
use super::sequence::{self, HIGH_PROFILES, Sequence};
use super::track_timeline::SETUP_BYTES_MAX;
use crate::format::mpegts::may_begin;

/// State of a track of pictures. Its units may come with lengths or with start codes.
#[derive(Debug, Default)]
pub(super) struct Pictures {
    pub is_h265: bool,
    /// Bytes of the lengths in front of NAL units, as they come: 1 to 4. `None` if start codes are in
    /// front of them.
    length_bytes: Option<usize>,
    /// Parameter sets in force, in the order in which they first came.
    sets: Vec<Set>,
    /// Newest sequence parameter set.
    pub sequence: Sequence,
    /// Whether the sets have changed since the setup was made.
    has_changed: bool,
    /// Whether a unit or a setup has come.
    has_begun: bool,
    /// What parameter sets cost: at most [`SPENT_MAX`]. Each byte of a unit takes 1 off.
    spent: usize,
}

/// Content of a unit with start codes.
#[derive(Default)]
pub(super) struct UnitContent {
    /// Whether it has a key picture.
    pub is_key: bool,
    /// Whether it has parameter sets.
    pub has_sets: bool,
    /// Whether decoding can begin with it if its encoder says so.
    pub may_begin: bool,
}

/// A parameter set.
#[derive(Debug)]
struct Set {
    /// NAL unit type.
    kind: u8,
    /// Number of the set within its type.
    number: u32,
    /// Content, if it is a sequence parameter set.
    sequence: Option<Sequence>,
    /// The NAL unit.
    nal: Vec<u8>,
}

/// What a NAL unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NalKind {
    /// Access unit delimiter.
    Delimiter,
    /// Parameter set: VPS, SPS or PPS. It applies to all following units.
    Set,
    /// Part of a picture that can be decoded by itself.
    Key,
    /// Part of another picture.
    Picture,
    /// Comes before a picture.
    Before,
    /// Comes after a picture.
    Behind,
}

/// Maximal number of parameter sets. Each new one is compared with all of them.
const SETS_MAX: usize = 64;
/// Cost of a set that is compared.
const SET_COST: usize = 16;
/// Cost of a set that differs from the one in force.
const CHANGE_COST: usize = 256;
/// The most that the sets of a unit can cost, however many ordinary units came before. All of them
/// are taken in one turn.
const SPENT_MAX: usize = 64 * 1024;
/// Length of the short form of a start code.
pub(super) const START_BYTES: usize = 3;
/// Length in front of each NAL unit of the medium.
const LENGTH_BYTES: usize = 4;
/// Maximal number of NAL units of a picture, empty ones included. Each costs a look.
const NALS_MAX: usize = 4096;
const TOO_MANY_NALS: MediaError = MediaError("a picture has more than 4096 NAL units");

impl Pictures {
    /// Returns the state without parameter sets. `None` for another codec.
    pub fn new(codec: Codec) -> Option<Pictures> {
        let is_h265 = match codec {
            Codec::H264 => false,
            Codec::H265 => true,
            _ => return None,
        };
        Some(Pictures {
            is_h265,
            length_bytes: Some(LENGTH_BYTES),
            ..Pictures::default()
        })
    }

    /// Counts the bytes of a unit or a setup before its parameter sets are taken.
    pub fn count(&mut self, bytes: usize) {
        self.has_begun = true;
        self.spent = self.spent.saturating_sub(bytes);
    }

    /// Takes an `avcC` or `hvcC`, or parameter sets after start codes, and returns them in the form
    /// of the medium.
    pub fn configure(&mut self, record: &[u8]) -> Result<Vec<u8>> {
        const ERROR: MediaError = MediaError("the configuration of H.264 or H.265 is not whole");
        if record.len() > SETUP_BYTES_MAX {
            return Err(MediaError("a codec's setup is longer than 4096 bytes"));
        }
        if is_annex_b(record) {
            self.length_bytes = None;
            self.sets.clear();
            self.write(record, &mut Vec::new())?;
            self.has_changed = true;
            return self.new_setup().ok_or(ERROR);
        }
        let at = if self.is_h265 { 21 } else { 4 };
        let mut setup = record.to_vec();
        let sizes = setup.get_mut(at).filter(|_| record[0] == 1).ok_or(ERROR)?;
        self.length_bytes = Some(usize::from(*sizes & 3) + 1);
        self.count(record.len());
        *sizes |= 3;
        self.sets.clear();
        for (_, nal) in nals_of_setup(record, self.is_h265).ok_or(ERROR)? {
            self.take_set(nal)?;
        }
        self.has_changed = false;
        Ok(setup)
    }

    /// Returns the type of a NAL unit. `None` if the unit is empty.
    fn nal_type(&self, nal: &[u8]) -> Option<u8> {
        let first = *nal.first()?;
        Some(match self.is_h265 {
            true => first >> 1 & 0x3f,
            false => first & 0x1f,
        })
    }

    /// Returns what a NAL unit is, by its first bytes. `None` if it is empty.
    pub fn kind(&self, nal: &[u8]) -> Option<NalKind> {
        let nal_type = self.nal_type(nal)?;
        Some(if self.is_h265 {
            match nal_type {
                35 => NalKind::Delimiter,
                32..=34 => NalKind::Set,
                16..=23 => NalKind::Key,
                0..=31 => NalKind::Picture,
                36..=38 | 40 | 45..=47 | 56..=63 => NalKind::Behind,
                _ => NalKind::Before,
            }
        } else {
            match nal_type {
                9 => NalKind::Delimiter,
                7 | 8 => NalKind::Set,
                5 => NalKind::Key,
                1..=4 => NalKind::Picture,
                6 | 14..=18 => NalKind::Before,
                _ => NalKind::Behind,
            }
        })
    }

    /// Returns the size of the pictures.
    pub fn shape(&self) -> Shape {
        Shape::Pictures {
            width: self.sequence.width,
            height: self.sequence.height,
        }
    }

    /// Returns the setup, if parameter sets in the stream have changed it and it is complete.
    pub fn new_setup(&mut self) -> Option<Vec<u8>> {
        if !self.has_changed {
            return None;
        }
        let setup = match self.is_h265 {
            true => self.hvcc(),
            false => self.avcc(),
        };
        self.has_changed = setup.is_none();
        setup
    }

    /// Turns a unit into the form of the medium. Mostly it has that form already. If not, it is
    /// written into `scratch`.
    pub fn unit<'a>(&mut self, unit: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        // Without a setup the first unit shows it.
        if !self.has_begun && is_annex_b(unit) {
            self.length_bytes = None;
        }
        let Some(length_bytes) = self.length_bytes else {
            self.write(unit, scratch)?;
            return Ok(scratch);
        };
        self.count(unit.len());
        let mut rest = unit;
        // As long as nothing is left out except at the front.
        let (mut front, mut is_plain) = (0, length_bytes == LENGTH_BYTES);
        let (mut length, mut nals) = (0, 0);
        while !rest.is_empty() {
            let at = unit.len() - rest.len();
            let nal = next(length_bytes, &mut rest)?;
            length += LENGTH_BYTES + nal.len();
            nals += 1;
            if nals > NALS_MAX {
                return Err(TOO_MANY_NALS);
            }
            match self.kind(nal) {
                None | Some(NalKind::Delimiter) if at == front => front = unit.len() - rest.len(),
                None | Some(NalKind::Delimiter) => is_plain = false,
                Some(NalKind::Set) => self.take_set(nal)?,
                Some(NalKind::Key | NalKind::Picture | NalKind::Before | NalKind::Behind) => {}
            }
        }
        if is_plain {
            return Ok(&unit[front..]);
        }
        scratch.clear();
        scratch.reserve_exact(length);
        rest = unit;
        while !rest.is_empty() {
            let nal = next(length_bytes, &mut rest)?;
            if !matches!(self.kind(nal), None | Some(NalKind::Delimiter)) {
                push(nal, scratch);
            }
        }
        Ok(scratch)
    }

    /// Writes a unit with start codes into `scratch` in the form of the medium, and takes its
    /// parameter sets.
    pub fn write(&mut self, unit: &[u8], scratch: &mut Vec<u8>) -> Result<UnitContent> {
        let mut content = UnitContent::default();
        self.count(unit.len());
        scratch.clear();
        scratch.reserve_exact(unit.len());
        for (index, nal) in nals(unit).enumerate() {
            if index == NALS_MAX {
                return Err(TOO_MANY_NALS);
            }
            content.may_begin |= may_begin(self.is_h265, nal);
            match self.kind(nal) {
                None | Some(NalKind::Delimiter) => continue,
                Some(NalKind::Set) => {
                    self.take_set(nal)?;
                    content.has_sets = true;
                }
                Some(NalKind::Key) => content.is_key = true,
                Some(NalKind::Picture | NalKind::Before | NalKind::Behind) => {}
            }
            if scratch.len() + nal.len() + LENGTH_BYTES > scratch.capacity() {
                scratch.reserve_exact(nal.len() + NALS_MAX * LENGTH_BYTES);
            }
            push(nal, scratch);
        }
        Ok(content)
    }

    /// Takes a parameter set. It may differ from the one in force.
    pub fn take_set(&mut self, nal: &[u8]) -> Result {
        self.spend(SET_COST)?;
        // A set that repeats is not parsed again.
        if let Some(known) = self.sets.iter().find(|set| set.nal == nal) {
            self.sequence = known.sequence.unwrap_or(self.sequence);
            return Ok(());
        }
        let Some(set) = self.parse_set(nal) else {
            return Ok(());
        };
        self.spend(CHANGE_COST)?;
        self.sequence = set.sequence.unwrap_or(self.sequence);
        let mut sets = self.sets.iter_mut();
        match sets.find(|known| (known.kind, known.number) == (set.kind, set.number)) {
            Some(known) => *known = set,
            None => self.sets.push(set),
        }
        self.has_changed = true;
        if self.sets.len() > SETS_MAX {
            return Err(MediaError("H.264 or H.265 has more than 64 parameter sets"));
        }
        let bytes = self.sets.iter().map(|set| set.nal.len() + 2);
        if bytes.sum::<usize>() > SETUP_BYTES_MAX - 128 {
            return Err(MediaError("parameter sets are longer than 4 KiB together"));
        }
        Ok(())
    }

    fn spend(&mut self, cost: usize) -> Result {
        self.spent += cost;
        if self.spent > SPENT_MAX {
            return Err(MediaError("parameter sets take the place of pictures"));
        }
        Ok(())
    }

    /// Returns the parameter set, if it is understood.
    fn parse_set(&self, nal: &[u8]) -> Option<Set> {
        let kind = self.nal_type(nal)?;
        let sequence = match (self.is_h265, kind) {
            (true, 33) => Some(sequence::h265(nal)?),
            (false, 7) => Some(sequence::h264(nal)?),
            _ => None,
        };
        let number = match (self.is_h265, kind) {
            (true, 32) => u32::from(nal.get(2)? >> 4),
            (true, 34) => Bits::escaped(nal.get(2..)?).golomb()?,
            (false, 8) => Bits::escaped(nal.get(1..)?).golomb()?,
            _ => sequence?.number,
        };
        Some(Set {
            kind,
            number,
            sequence,
            nal: nal.to_vec(),
        })
    }

    fn of_kind(&self, kind: u8) -> impl Iterator<Item = &[u8]> + Clone {
        let sets = self.sets.iter().filter(move |set| set.kind == kind);
        sets.map(|set| set.nal.as_slice())
    }

    fn avcc(&self) -> Option<Vec<u8>> {
        let (sequences, pictures) = (self.of_kind(7), self.of_kind(8));
        pictures.clone().next()?;
        let [profile, compatibility, level] = *sequences.clone().next()?.get(1..)?.first_chunk()?;
        let mut record = vec![1, profile, compatibility, level, 0xff];
        record.push(0xe0 | sequences.clone().count().min(31) as u8);
        for nal in sequences.take(31) {
            push_short(nal, &mut record);
        }
        record.push(pictures.clone().count().min(255) as u8);
        for nal in pictures.take(255) {
            push_short(nal, &mut record);
        }
        if HIGH_PROFILES.contains(&u32::from(profile)) {
            let it = &self.sequence;
            record.push(0xfc | it.chroma);
            record.extend([0xf8 | it.luma_depth, 0xf8 | it.chroma_depth, 0]);
        }
        Some(record)
    }

    fn hvcc(&self) -> Option<Vec<u8>> {
        let first = self.of_kind(33).next()?;
        self.of_kind(34).next()?;
        let it = &self.sequence;
        // The profile of the set, without the bytes that protect it from looking like a start code.
        let mut bits = Bits::escaped(first.get(3..)?);
        let mut record = vec![1];
        for _ in 0..12 {
            record.push(bits.number(8)? as u8);
        }
        record.extend_from_slice(&[0xf0, 0, 0xfc, 0xfc | it.chroma]);
        record.extend_from_slice(&[0xf8 | it.luma_depth, 0xf8 | it.chroma_depth, 0, 0]);
        record.push(it.layers << 3 | u8::from(it.are_nested) << 2 | 3);
        record.push(3);
        for kind in 32..=34 {
            let nals = self.of_kind(kind);
            record.push(kind);
            record.extend_from_slice(&(nals.clone().count() as u16).to_be_bytes());
            nals.for_each(|nal| push_short(nal, &mut record));
        }
        Some(record)
    }
}

/// Returns the NAL units of an `avcC` or `hvcC`, each with the type that its list has in an `hvcC`.
/// `None` if the setup is not whole.
pub(super) fn nals_of_setup(setup: &[u8], is_h265: bool) -> Option<Vec<(u8, &[u8])>> {
    let mut nals = Vec::new();
    let mut rest = setup.get(if is_h265 { 22 } else { 5 }..)?;
    let lists = if is_h265 { take(&mut rest, 1)?[0] } else { 2 };
    for list in 0..lists {
        let (kind, units) = if is_h265 {
            let head = take(&mut rest, 3)?;
            (head[0] & 0x3f, u16::from_be_bytes([head[1], head[2]]))
        } else {
            let mask = if list == 0 { 0x1f } else { 0xff };
            (0, u16::from(take(&mut rest, 1)?[0] & mask))
        };
        for _ in 0..units {
            let length = take(&mut rest, 2)?;
            let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
            nals.push((kind, take(&mut rest, length)?));
        }
    }
    Some(nals)
}

/// Removes the next NAL unit from `rest`, after its length.
fn next<'a>(length_bytes: usize, rest: &mut &'a [u8]) -> Result<&'a [u8]> {
    const ERROR: MediaError = MediaError("a NAL unit is longer than the picture it belongs to");
    let length = take(rest, length_bytes).ok_or(ERROR)?.iter();
    let length = length.fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    take(rest, length).ok_or(ERROR)
}

/// Returns the position of the next start code, from `from` on.
pub(super) fn start(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += match *bytes.get(at..at + START_BYTES)? {
            [0, 0, 1] => return Some(at),
            [0, 0, 0] => 1,
            [0, 0, _] => 3,
            [0, _, _] => 2,
            // Coded pictures have few zeros. This search looks at several bytes at once.
            _ => (&mut &bytes[at..]).skip_until(0).ok()? - 1,
        };
    }
}

/// Returns the NAL units after start codes, without the padding after them.
fn nals(unit: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = start(unit, 0);
    std::iter::from_fn(move || {
        let from = at? + START_BYTES;
        at = start(unit, from);
        let nal = &unit[from..at.unwrap_or(unit.len())];
        let zeros = nal.iter().rev().take_while(|byte| **byte == 0).count();
        Some(&nal[..nal.len() - zeros])
    })
}

/// Returns whether NAL units have start codes. Read as a length, a start code means a unit of 1
/// byte, and no unit begins with one.
fn is_annex_b(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0, 0, 0, 1]) || bytes.starts_with(&[0, 0, 1])
}

/// Writes a NAL unit in the form of the medium.
pub(super) fn push(nal: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(nal.len() as u32).to_be_bytes());
    out.extend_from_slice(nal);
}

fn push_short(nal: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(nal.len() as u16).to_be_bytes());
    out.extend_from_slice(nal);
}

/// Returns the first `bytes` bytes, and removes them from `rest`.
pub(super) fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(bytes)?;
    *rest = after;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each string of six bytes of which some are 0 or 1: the first three in a row that are a start
    /// code.
    #[test]
    fn a_start_code_is_found_wherever_it_begins() {
        for number in 0..4_u32.pow(6) {
            let bytes: Vec<u8> = (0..6).map(|at| (number >> (2 * at) & 3) as u8).collect();
            for from in 0..8 {
                let after = bytes.get(from..).unwrap_or_default();
                let found = after.windows(3).position(|three| three == [0, 0, 1]);
                assert_eq!(start(&bytes, from), found.map(|at| from + at), "{bytes:?}");
            }
        }
    }

    fn unit(nals: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
        let mut unit = Vec::new();
        nals.for_each(|nal| push(&nal, &mut unit));
        unit
    }

    /// Matroska of some browsers' recorders has no CodecPrivate, or parameter sets in it.
    #[test]
    fn units_with_start_codes_have_the_form_of_the_medium() {
        const SEQUENCE: &[u8] = &[
            0x67, 0x42, 0xc0, 0x0b, 0xda, 0x0a, 0x11, 0xf9, 0x70, 0x11, 0, 0, 3, 0, 1, 0, 0, 3, 0,
            0x32, 0x0f, 0x14, 0x2a, 0xa0,
        ];
        const PICTURE: &[u8] = &[0x68, 0xce, 0x0f, 0xc8];
        let sets = [&[0, 0, 0, 1], SEQUENCE, &[0, 0, 1], PICTURE].concat();
        let key = [&sets[..], &[0, 0, 0, 1, 0x65, 0x88, 0x84]].concat();
        let other = [
            0, 0, 1, 9, 0xf0, 0, 0, 0, 1, 0x41, 0x9a, 0, 0, 0, 1, 0x41, 0x77,
        ];
        for is_configured in [false, true] {
            let mut pictures = Pictures::new(Codec::H264).expect("pictures");
            let mut scratch = Vec::new();
            let setup = match is_configured {
                true => pictures.configure(&sets).ok(),
                false => None,
            };
            let first = [SEQUENCE, PICTURE, &[0x65, 0x88, 0x84]].map(<[u8]>::to_vec);
            let written = pictures.unit(&key, &mut scratch).map(<[u8]>::to_vec);
            assert_eq!(written, Ok(unit(first.into_iter())));
            let setup = setup.or_else(|| pictures.new_setup()).expect("a setup");
            assert_eq!(setup[..9], [1, 0x42, 0xc0, 0x0b, 0xff, 0xe1, 0, 24, 0x67]);
            assert_eq!(
                pictures.shape(),
                Shape::Pictures {
                    width: 160,
                    height: 120
                }
            );
            let slices = [vec![0x41, 0x9a], vec![0x41, 0x77]];
            let written = pictures.unit(&other, &mut scratch).map(<[u8]>::to_vec);
            assert_eq!(written, Ok(unit(slices.into_iter())));
        }
    }

    /// Each set is compared with all others, so there are few among the bytes of pictures.
    /// Each costs a look, and the last byte of a picture causes them all.
    #[test]
    fn a_picture_has_few_nal_units() {
        for (nals, is_sound) in [(NALS_MAX, true), (NALS_MAX + 1, false)] {
            for nal in [vec![], vec![9, 0xf0], vec![0x65, 1]] {
                let mut pictures = Pictures::new(Codec::H264).expect("pictures");
                pictures.count(1);
                let nals = std::iter::repeat_n(nal.clone(), nals);
                let done = pictures
                    .unit(&unit(nals.clone()), &mut Vec::new())
                    .map(|_| ());
                assert_eq!(done.is_ok(), is_sound, "{nal:?}");
                let coded: Vec<u8> = nals
                    .flat_map(|nal| [&[0, 0, 1], &nal[..]].concat())
                    .collect();
                let done = pictures.write(&coded, &mut Vec::new());
                assert_eq!(done.is_ok(), is_sound, "{nal:?}");
            }
        }
    }

    #[test]
    fn pictures_of_parameter_sets_are_an_error() {
        let set = |number: u32| vec![0x68, 0xc0 | (number as u8 % 2)];
        let slice = || vec![0x65; 60];
        for repeats in [false, true] {
            let sets = (0..100_000).map(|number| set(if repeats { 0 } else { number }));
            let mut pictures = Pictures::new(Codec::H264).expect("pictures");
            let fed = pictures.unit(&unit(sets), &mut Vec::new()).map(|_| ());
            assert!(fed.is_err());
        }
        let mut pictures = Pictures::new(Codec::H264).expect("pictures");
        for _ in 0..100_000 {
            let unit = unit([set(0), slice()].into_iter());
            assert!(pictures.unit(&unit, &mut Vec::new()).is_ok());
        }
    }
}
