//! Reads key frames of VP8 and VP9, for containers that do not describe the stream (RFC 6386,
//! section 9.1; "VP9 Bitstream & Decoding Process Specification", section 6.2; "VP Codec ISO Media
//! File Format Binding").

use super::bits::Bits;
use super::medium::Shape;

/// Maximal number of samples of a picture, by level.
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

/// Returns the content of `vpcC` and the size of the pictures. `None` if the frame of VP8 is no key
/// frame.
pub(super) fn vp8(frame: &[u8]) -> Option<(Vec<u8>, Shape)> {
    let (first, rest) = frame.split_first()?;
    let [_, _, 0x9d, 0x01, 0x2a, w0, w1, h0, h1, ..] = *rest else {
        return None;
    };
    if first & 1 != 0 {
        return None;
    }
    let side = |low, high| u32::from(u16::from_le_bytes([low, high]) & 0x3fff);
    record(first >> 1 & 3, 8 << 4, side(w0, w1), side(h0, h1))
}

/// Returns the same for a frame of VP9.
pub(super) fn vp9(frame: &[u8]) -> Option<(Vec<u8>, Shape)> {
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
    // 4:2:0 with samples at the left, 4:2:2, 4:4:4.
    let chroma = match (halves_width, halves_height) {
        (true, true) => 0,
        (true, false) => 2,
        _ => 3,
    };
    let form = depth << 4 | chroma << 1 | u8::from(is_full);
    record(profile, form, width, height)
}

/// Returns the content of `vpcC` and the shape. `form` is made of depth, chroma and range.
fn record(profile: u8, form: u8, width: u32, height: u32) -> Option<(Vec<u8>, Shape)> {
    let samples = width.saturating_mul(height);
    let level = LEVELS.iter().find(|(most, _)| samples <= *most)?.1;
    let shape = Shape::Pictures {
        width: u16::try_from(width).ok()?,
        height: u16::try_from(height).ok()?,
    };
    // Colours are unspecified.
    Some((vec![1, 0, 0, 0, profile, level, form, 2, 2, 2, 0, 0], shape))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_frame_of_vp8_has_a_size_and_a_profile() {
        let key = [0x50, 0x31, 0, 0x9d, 0x01, 0x2a, 0x40, 0x41, 0xf0, 0x80];
        let (setup, shape) = vp8(&key).expect("a key frame");
        assert_eq!(setup, [1, 0, 0, 0, 0, 20, 0x80, 2, 2, 2, 0, 0]);
        let (width, height) = (320, 240);
        assert_eq!(shape, Shape::Pictures { width, height });
        let mut other = key;
        other[0] |= 1;
        assert_eq!(vp8(&other), None);
        for cut in 0..key.len() {
            assert_eq!(vp8(&key[..cut]), None);
        }
    }
}
