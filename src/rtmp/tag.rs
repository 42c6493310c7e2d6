//! Messages as FLV tags (Adobe Flash Video File Format 10.1, annex E).

use super::amf::Values;
use crate::format::flv::{PREVIOUS_SIZE_BYTES, SCRIPT, TAG_HEAD_BYTES};

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
    /// Begins a tag whose body has `length` bytes.
    pub fn begin(&mut self, (kind, length, time): (u8, u32, u32), out: &mut Vec<u8>) {
        self.begin_file(&[], out);
        let [_, length @ ..] = length.to_be_bytes();
        let [high, time @ ..] = time.to_be_bytes();
        out.push(kind);
        out.extend_from_slice(&length);
        out.extend_from_slice(&time);
        out.extend_from_slice(&[high, 0, 0, 0]);
    }

    /// Ends a tag whose body had `length` bytes.
    pub fn end(length: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&(TAG_HEAD_BYTES as u32 + length).to_be_bytes());
    }

    /// Writes a tag. `time`: in milliseconds.
    pub fn tag(&mut self, kind: u8, time: u32, body: &[u8], out: &mut Vec<u8>) {
        if kind == SCRIPT {
            self.begin_file(body, out);
        }
        // A message has at most 24 bits of length.
        let length = body.len() as u32;
        self.begin((kind, length, time), out);
        out.extend_from_slice(body);
        FlvWriter::end(length, out);
    }

    /// Writes the head of the file, unless it is written. It names what `metadata` describe; sound
    /// and pictures if they say nothing of that.
    fn begin_file(&mut self, metadata: &[u8], out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        let has = |name: &[u8]| metadata.windows(name.len()).any(|there| there == name);
        let flags = match (has(b"\0\x0cvideocodecid"), has(b"\0\x0caudiocodecid")) {
            (true, false) => 1,
            (false, true) => 4,
            _ => 5,
        };
        out.extend_from_slice(b"FLV\x01");
        out.extend_from_slice(&[flags, 0, 0, 0, 9]);
        out.extend_from_slice(&[0; PREVIOUS_SIZE_BYTES]);
    }
}

/// Returns the body of the script tag that a data message is. `None`: FLV has nothing like it.
pub fn script(message: &[u8]) -> Option<&[u8]> {
    match message.strip_prefix(SET_DATA_FRAME) {
        Some(script) => Some(script).filter(|script| !script.is_empty()),
        None => {
            let name = Values(message).string()?;
            name.starts_with(ON).then_some(message)
        }
    }
}
