//! In the place of `icy` in a program that is built without `icecast`: no field of a head describes
//! a station, and no listener gets titles within the media.

use std::num::NonZeroU32;

use super::response::ResponseHead;
use crate::clean_text::{STATION_TEXTS, StationText, Title};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IcyFields {
    pub wants_titles: bool,
    pub station: [StationText; STATION_TEXTS],
}

#[derive(Clone, Copy)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum IcyPosition {}

impl IcyFields {
    pub fn take(&mut self, _: &str, _: &[u8]) -> Option<()> {
        None
    }
}

pub fn describe(_: &[StationText; STATION_TEXTS], head: ResponseHead, _: bool) -> ResponseHead {
    head
}

impl IcyPosition {
    pub fn begin() -> Option<IcyPosition> {
        None
    }

    no_value! {
        fn take_block(&mut self, _: (NonZeroU32, &Title), _: bool) -> Option<Vec<u8>>;
        fn content_bytes(self, _: usize, _: NonZeroU32) -> usize;
        fn media(self, _: usize) -> (usize, usize);
        fn sent(&mut self, _: usize) -> usize;
    }
}
