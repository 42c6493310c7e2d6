//! Writes boxes (ISO/IEC 14496-12 section 4.2) front to back.

use crate::format::mp4::boxed;

/// Writes a box with a version, and with flags of 24 bits.
pub(super) fn full(
    out: &mut Vec<u8>,
    kind: &[u8; 4],
    (version, flags): (u8, u32),
    content: impl FnOnce(&mut Vec<u8>),
) {
    boxed(out, kind, |out| {
        out.extend_from_slice(&(u32::from(version) << 24 | flags).to_be_bytes());
        content(out);
    });
}

/// Writes a box of numbers with version 0 and no flags.
pub(super) fn numbers(out: &mut Vec<u8>, kind: &[u8; 4], numbers: &[u32]) {
    full(out, kind, (0, 0), |out| put(out, numbers));
}

/// Writes numbers of 32 bits.
pub(super) fn put(out: &mut Vec<u8>, numbers: &[u32]) {
    out.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
}
