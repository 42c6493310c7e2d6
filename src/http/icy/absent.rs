//! In the place of `icy` in a program that is built without `icecast`: no field of a head describes
//! a station, and no listener gets titles within the media.

use std::num::NonZeroU32;

use super::response::ResponseHead;
use crate::clean_text::{StationText, Title};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IcyFields {
    pub wants_titles: bool,
    pub station: Station,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "handover", serde(default))]
pub struct Station {
    pub name: StationText,
}

#[derive(Clone, Copy)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct IcyPosition;

impl IcyFields {
    pub fn take(&mut self, _: &str, _: &[u8]) -> bool {
        false
    }
}

impl Station {
    pub fn describe(&self, head: ResponseHead, _: bool) -> ResponseHead {
        head
    }
}

impl IcyPosition {
    pub fn begin(_: bool) -> IcyPosition {
        IcyPosition
    }

    pub fn take_block(&mut self, _: (NonZeroU32, &Title), _: bool) -> Option<Vec<u8>> {
        None
    }

    pub fn content_bytes(self, media_bytes: usize, _: NonZeroU32) -> usize {
        media_bytes
    }

    pub fn media(self, content_bytes: usize) -> (usize, usize) {
        (content_bytes, 0)
    }

    pub fn sent(&mut self, content_bytes: usize) -> usize {
        content_bytes
    }
}
