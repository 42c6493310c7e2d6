//! Sequence parameter sets: the size of the pictures, and how many pictures may be decoded ahead of
//! the one that is shown (H.264: ISO/IEC 14496-10 section 7.3.2.1; H.265: ISO/IEC 23008-2 section
//! 7.3.2.2).

use super::bits::Bits;

/// Content of a sequence parameter set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sequence {
    /// Number by which pictures name it.
    pub number: u32,
    /// Visible width in pixels.
    pub width: u16,
    /// Visible height in pixels.
    pub height: u16,
    /// Maximal number of pictures that precede another one in decoding and follow it in time: at
    /// most 16.
    pub reorder: u8,
    /// Chroma format, 0 to 3: none, 4:2:0, 4:2:2, 4:4:4.
    pub chroma: u8,
    /// Bits of a luma sample, less 8.
    pub luma_depth: u8,
    /// Bits of a chroma sample, less 8.
    pub chroma_depth: u8,
    /// Number of temporal layers (H.265).
    pub layers: u8,
    /// Whether a decoder can drop any layer from any picture on (H.265).
    pub are_nested: bool,
    /// Whether pictures may be fields (H.264).
    pub has_fields: bool,
}

/// Maximal number of pictures that wait for another one.
pub(super) const REORDER_MAX: usize = 16;

/// Profiles of H.264 whose sets describe the samples.
pub(super) const HIGH_PROFILES: [u32; 13] =
    [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135];

/// Reads a set of H.264, with the head of the NAL unit.
pub(super) fn h264(nal: &[u8]) -> Option<Sequence> {
    let mut bits = Bits::escaped(nal.get(1..)?);
    let (profile, constraints, level) = (bits.number(8)?, bits.number(8)?, bits.number(8)?);
    let mut sequence = Sequence {
        number: bits.golomb()?,
        chroma: 1,
        ..Sequence::default()
    };
    if HIGH_PROFILES.contains(&profile) {
        samples(&mut bits, &mut sequence)?;
    }
    bits.golomb()?;
    let order = bits.golomb()?;
    match order {
        0 => _ = bits.golomb()?,
        1 => cycle(&mut bits)?,
        _ => {}
    }
    bits.golomb()?;
    bits.skip(1)?;
    let wide = bits.golomb()?.checked_add(1)?;
    let high = bits.golomb()?.checked_add(1)?;
    sequence.has_fields = !bits.flag()?;
    let fields = 1 + u32::from(sequence.has_fields);
    bits.skip(1 + u32::from(sequence.has_fields))?;
    let high = high.checked_mul(fields)?;
    let coded = (wide.checked_mul(16)?, high.checked_mul(16)?);
    crop(&mut bits, &mut sequence, coded, fields)?;
    let is_intra_only = constraints & 0x10 != 0 && HIGH_PROFILES[..5].contains(&profile);
    let declared = match bits.flag()? {
        true => usability(&mut bits),
        false => None,
    };
    let usual = match profile == 66 || order == 2 || is_intra_only {
        true => 0,
        false => pictures_held(level, wide.checked_mul(high)?),
    };
    sequence.reorder = declared.unwrap_or(usual).min(REORDER_MAX as u32) as u8;
    Some(sequence)
}

/// Reads the description of the samples.
fn samples(bits: &mut Bits<'_>, sequence: &mut Sequence) -> Option<()> {
    sequence.chroma = chroma(bits)?;
    sequence.luma_depth = depth(bits)?;
    sequence.chroma_depth = depth(bits)?;
    bits.skip(1)?;
    if bits.flag()? {
        scaling_lists(bits, if sequence.chroma == 3 { 12 } else { 8 })?;
    }
    Some(())
}

/// Reads a fixed order of pictures.
fn cycle(bits: &mut Bits<'_>) -> Option<()> {
    bits.skip(1)?;
    bits.golomb()?;
    bits.golomb()?;
    let pictures = bits.golomb().filter(|pictures| *pictures <= 255)?;
    (0..pictures).try_for_each(|_| bits.golomb().map(|_| ()))
}

fn chroma(bits: &mut Bits<'_>) -> Option<u8> {
    let chroma = u8::try_from(bits.golomb()?).ok().filter(|it| *it < 4)?;
    // Whether 4:4:4 is coded in separate planes.
    bits.skip(u32::from(chroma == 3))?;
    Some(chroma)
}

fn depth(bits: &mut Bits<'_>) -> Option<u8> {
    u8::try_from(bits.golomb()?).ok().filter(|it| *it <= 8)
}

/// Reads how much is cropped, and sets the visible size. `fields` is 2 if frames may be coded as
/// fields: vertical cropping then counts pairs of lines. Else it is 1.
fn crop(
    bits: &mut Bits<'_>,
    sequence: &mut Sequence,
    (wide, high): (u32, u32),
    fields: u32,
) -> Option<()> {
    let (of_width, of_height) = match sequence.chroma {
        1 => (2, 2),
        2 => (2, 1),
        _ => (1, 1),
    };
    let [left, right, top, bottom] = window(bits)?;
    sequence.width = size(wide, left, right, of_width)?;
    sequence.height = size(high, top, bottom, of_height * fields)?;
    Some(())
}

/// Reads the four sides that are cropped, if any.
fn window(bits: &mut Bits<'_>) -> Option<[u32; 4]> {
    if !bits.flag()? {
        return Some([0; 4]);
    }
    let mut side = || bits.golomb();
    Some([side()?, side()?, side()?, side()?])
}

fn size(coded: u32, one: u32, other: u32, unit: u32) -> Option<u16> {
    let cut = one.checked_add(other)?.checked_mul(unit)?;
    u16::try_from(coded.checked_sub(cut)?).ok()
}

fn scaling_lists(bits: &mut Bits<'_>, lists: usize) -> Option<()> {
    for list in 0..lists {
        if !bits.flag()? {
            continue;
        }
        let (mut last, mut next) = (8, 8);
        for _ in 0..if list < 6 { 16 } else { 64 } {
            if next != 0 {
                next = (last + bits.signed_golomb()?).rem_euclid(256);
            }
            last = if next == 0 { last } else { next };
        }
    }
    Some(())
}

/// Returns how many pictures may be reordered, if the usability information of H.264 says it.
fn usability(bits: &mut Bits<'_>) -> Option<u32> {
    if bits.flag()? && bits.number(8)? == 255 {
        bits.skip(32)?;
    }
    if bits.flag()? {
        bits.skip(1)?;
    }
    if bits.flag()? {
        bits.skip(4)?;
        if bits.flag()? {
            bits.skip(24)?;
        }
    }
    if bits.flag()? {
        bits.golomb()?;
        bits.golomb()?;
    }
    if bits.flag()? {
        bits.skip(65)?;
    }
    let has_buffers = [buffer(bits)?, buffer(bits)?];
    bits.skip(u32::from(has_buffers.contains(&true)) + 1)?;
    if !bits.flag()? {
        return None;
    }
    bits.skip(1)?;
    for _ in 0..4 {
        bits.golomb()?;
    }
    bits.golomb()
}

/// Reads the description of a buffer, if there is one.
fn buffer(bits: &mut Bits<'_>) -> Option<bool> {
    let is_there = bits.flag()?;
    if is_there {
        let schedules = bits.golomb().filter(|schedules| *schedules < 32)? + 1;
        bits.skip(8)?;
        for _ in 0..schedules {
            bits.golomb()?;
            bits.golomb()?;
            bits.skip(1)?;
        }
        bits.skip(20)?;
    }
    Some(is_there)
}

/// Returns the maximal number of pictures that a decoder of this level holds (table A-1), if each
/// has this many macroblocks.
fn pictures_held(level: u32, macroblocks: u32) -> u32 {
    let macroblocks_max = match level {
        0..=10 => 396,
        11 => 900,
        12..=20 => 2376,
        21 => 4752,
        22..=30 => 8100,
        31 => 18_000,
        32 => 20_480,
        33..=41 => 32_768,
        42 => 34_816,
        43..=50 => 110_400,
        51..=52 => 184_320,
        _ => 696_320,
    };
    macroblocks_max / macroblocks.max(1)
}

/// Reads a set of H.265, with the head of the NAL unit.
pub(super) fn h265(nal: &[u8]) -> Option<Sequence> {
    let mut bits = Bits::escaped(nal.get(2..)?);
    bits.skip(4)?;
    let more_layers = bits.number(3)?;
    let mut sequence = Sequence {
        layers: more_layers as u8 + 1,
        are_nested: bits.flag()?,
        ..Sequence::default()
    };
    profile(&mut bits, more_layers)?;
    sequence.number = bits.golomb()?;
    sequence.chroma = chroma(&mut bits)?;
    let coded = (bits.golomb()?, bits.golomb()?);
    crop(&mut bits, &mut sequence, coded, 1)?;
    sequence.luma_depth = depth(&mut bits)?;
    sequence.chroma_depth = depth(&mut bits)?;
    bits.golomb()?;
    let first = if bits.flag()? { 0 } else { more_layers };
    let mut reorder = 0;
    for _ in first..=more_layers {
        bits.golomb()?;
        reorder = bits.golomb()?;
        bits.golomb()?;
    }
    sequence.reorder = reorder.min(REORDER_MAX as u32) as u8;
    Some(sequence)
}

/// Reads profile, tier and level, also for each layer below the highest.
fn profile(bits: &mut Bits<'_>, more_layers: u32) -> Option<()> {
    bits.skip(96)?;
    let mut below = 0;
    for layer in 0..8 {
        if layer < more_layers {
            below += 88 * bits.bit()? + 8 * bits.bit()?;
        } else if more_layers > 0 {
            bits.skip(2)?;
        }
    }
    bits.skip(below)
}
