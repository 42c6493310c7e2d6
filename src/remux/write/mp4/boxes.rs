//! Writes boxes (ISO/IEC 14496-12 section 4.2) front to back.

/// Writes a box. `content` appends its content.
pub(super) fn boxed(out: &mut Vec<u8>, kind: &[u8; 4], content: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(kind);
    content(out);
    close(out, at);
}

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

/// Writes the length of the box that begins at `at`. No box here has 4 GiB.
pub(super) fn close(out: &mut [u8], at: usize) {
    let length = u32::try_from(out.len() - at).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *place = length.to_be_bytes();
    }
}
