//! In the place of `remux` in a program that is built without it: no stream is had in another
//! container than its own, and there is no name for one.

use crate::format::Format;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Target;

impl Target {
    pub const ALL: [Target; 0] = [];

    pub fn named(_: &[u8]) -> Option<Target> {
        None
    }

    pub fn format(self) -> Format {
        Format::MpegTs
    }
}

pub struct Fault(pub &'static str);

#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Remuxer;

impl Remuxer {
    pub fn reads(_: Format) -> bool {
        false
    }

    pub fn new(_: Format, _: Target, _: usize) -> Option<Remuxer> {
        None
    }

    pub fn feed(&mut self, _: &[u8], _: &mut usize, _: &mut Vec<u8>) -> Result<(), Fault> {
        Ok(())
    }

    pub fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), Fault> {
        Ok(())
    }

    #[cfg(feature = "handover")]
    pub fn fits(&self, _: usize) -> bool {
        true
    }

    pub fn carries_any(&self) -> bool {
        false
    }

    pub fn carries_nothing(&self) -> bool {
        true
    }

    pub fn left_out(&self) -> &[String] {
        &[]
    }

    pub fn held_bytes(&self) -> usize {
        0
    }

    pub const fn held_bytes_max(_: usize) -> usize {
        0
    }
}
