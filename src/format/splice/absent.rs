//! Replaces `splice` in a program without the feature `hold`. A source's bytes pass as they come,
//! and no other source continues the stream.

use super::Format;

#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Splicer;

pub struct Incompatible(pub Vec<u8>);

impl Splicer {
    pub fn new(_: usize) -> Splicer {
        Splicer
    }

    pub fn limit_units(&mut self, _: usize) {}

    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Incompatible> {
        out.extend_from_slice(bytes);
        Ok(())
    }

    pub fn finish(&mut self, _: &mut Vec<u8>) {}

    pub fn break_off(&mut self, _: Option<Format>, _: Vec<u8>) -> bool {
        false
    }

    #[cfg(feature = "handover")]
    pub fn copied(&mut self, _: crate::copied::CopiedPart) -> Option<&mut crate::copied::Copied> {
        None
    }

    #[cfg(feature = "handover")]
    pub fn restore(&mut self, _: usize) -> bool {
        true
    }

    pub fn is_between_sources(&self) -> bool {
        false
    }

    pub fn take_work(&mut self) -> usize {
        0
    }

    pub fn memory_bytes_max(_: usize) -> usize {
        0
    }
}
