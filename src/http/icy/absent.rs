//! In the place of `icy` in a program that is built without `icecast`: no field of a head describes
//! a station, and no listener gets titles within the media.

use crate::clean_text::CleanText;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IcyFields {}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Station {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum IcyMetadata {
    Off,
}

impl IcyFields {
    pub fn metadata(&self, _: bool) -> IcyMetadata {
        IcyMetadata::Off
    }

    pub fn station(&self, _: bool) -> Station {
        Station {}
    }

    pub fn take(&mut self, _: &str, _: &[u8]) -> bool {
        false
    }
}

impl Station {
    pub fn name(&self) -> Option<&CleanText<256>> {
        None
    }

    pub fn held_bytes(&self) -> usize {
        0
    }
}
