//! What a key frame of VP9 says of its stream, for containers that do not ("VP9 Bitstream &
//! Decoding Process Specification", section 6.2).

use super::bits::Bits;
use super::medium::Shape;

/// The most samples of a picture, by level.
const LEVELS: [(u32, u8); 9] = [
    (36_864, 10),
    (73_728, 11),
    (122_880, 20),
    (245_760, 21),
    (552_960, 30),
    (983_040, 31),
    (2_228_224, 40),
    (8_912_896, 50),
    (u32::MAX, 60),
];

/// The content of `vpcC`, and the size of the pictures; `None` if it is no key frame.
pub(super) fn setup(frame: &[u8]) -> Option<(Vec<u8>, Shape)> {
    let mut bits = Bits::plain(frame);
    let marker = bits.number(2)?;
    let profile = (bits.bit()? | bits.bit()? << 1) as u8;
    if marker != 2 || (profile == 3 && bits.flag()?) {
        return None;
    }
    let (shows_other, is_not_key) = (bits.flag()?, bits.flag()?);
    bits.skip(2)?;
    if shows_other || is_not_key || bits.number(24)? != 0x49_8342 {
        return None;
    }
    let depth = match profile {
        0 | 1 => 8,
        _ if bits.flag()? => 12,
        _ => 10,
    };
    let is_rgb = bits.number(3)? == 7;
    let is_full = is_rgb || bits.flag()?;
    let has_fields = profile & 1 == 1;
    let (halves_width, halves_height) = match (is_rgb, has_fields) {
        (true, _) => (false, false),
        (false, true) => (bits.flag()?, bits.flag()?),
        (false, false) => (true, true),
    };
    bits.skip(u32::from(has_fields))?;
    let (width, height) = (bits.number(16)? + 1, bits.number(16)? + 1);
    let samples = width.saturating_mul(height);
    let level = LEVELS.iter().find(|(most, _)| samples <= *most)?.1;
    // 4:2:0 with samples at the left, 4:2:2, 4:4:4.
    let chroma = match (halves_width, halves_height) {
        (true, true) => 0,
        (true, false) => 2,
        _ => 3,
    };
    let form = depth << 4 | chroma << 1 | u8::from(is_full);
    let shape = Shape::Pictures {
        width: u16::try_from(width).ok()?,
        height: u16::try_from(height).ok()?,
    };
    // Colours: not told.
    Some((vec![1, 0, 0, 0, profile, level, form, 2, 2, 2, 0, 0], shape))
}
