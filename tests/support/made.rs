//! Parts of containers, byte by byte.

/// A tag of FLV, with the size that follows it.
pub fn tag(kind: u8, milliseconds: u32, body: &[u8]) -> Vec<u8> {
    let [_, size @ ..] = (body.len() as u32).to_be_bytes();
    let [high, time @ ..] = milliseconds.to_be_bytes();
    let whole = (body.len() as u32 + 11).to_be_bytes();
    [&[kind], &size[..], &time, &[high, 0, 0, 0], body, &whole].concat()
}

/// A head of FLV that promises picture and sound.
pub const FLV_HEAD: &[u8] = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";
/// What decoders of AAC and of H.264 need first, as bodies of tags.
pub const SOUND_SETUP: &[u8] = &[0xaf, 0, 0x12, 0x10];
pub const VIDEO_SETUP: &[u8] = &[0x17, 0, 0, 0, 0, 1, 0x42, 0, 0x1e];

/// A box of MP4.
pub fn mp4_box(kind: &[u8], content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32 + 8).to_be_bytes(), kind, content].concat()
}
