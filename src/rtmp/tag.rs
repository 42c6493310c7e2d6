//! Messages as FLV tags (Adobe Flash Video File Format 10.1, annex E).

use super::amf::Values;
use crate::format::flv::TAG_HEAD_BYTES;

/// Name of a message that sets the stream's metadata (AMF0 string). FLV has what follows it.
const SET_DATA_FRAME: &[u8] = b"\x02\0\x0d@setDataFrame";
/// Beginning of the names of scripts that a file has, too: `onMetaData`, `onTextData`, cue points.
const ON: &[u8] = b"on";

/// Writer of an FLV file. Waits with the file's head for the first tag, which may be the metadata
/// that say what the file has.
#[derive(Default)]
pub struct FlvWriter {
    has_begun: bool,
}

impl FlvWriter {
    /// Begins a tag: its type, the length of its body, and its time in milliseconds. `body`: the part
    /// of the body that is known. The file's head comes in front of the first tag. Its flags say what
    /// the metadata in the body announce: pictures, sound, or both if they say neither.
    pub fn begin(&mut self, (kind, length, time): (u8, u32, u32), body: &[u8], out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            let has = |name: &[u8]| body.windows(name.len()).any(|there| there == name);
            let flags = match (has(b"\0\x0cvideocodecid"), has(b"\0\x0caudiocodecid")) {
                (true, false) => 1,
                (false, true) => 4,
                _ => 5,
            };
            out.extend_from_slice(&[b'F', b'L', b'V', 1, flags, 0, 0, 0, 9, 0, 0, 0, 0]);
        }
        let ([_, l0, l1, l2], [high, t0, t1, t2]) = (length.to_be_bytes(), time.to_be_bytes());
        out.extend_from_slice(&[kind, l0, l1, l2, t0, t1, t2, high, 0, 0, 0]);
    }

    /// Ends a tag whose body had `length` bytes.
    pub fn end(length: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&(TAG_HEAD_BYTES as u32 + length).to_be_bytes());
    }
}

/// Returns the body of the script tag that a data message is. `None`: FLV has nothing like it.
pub fn script(message: &[u8]) -> Option<&[u8]> {
    let script = message.strip_prefix(SET_DATA_FRAME).unwrap_or(message);
    let name = Values(script).string()?;
    name.starts_with(ON).then_some(script)
}
