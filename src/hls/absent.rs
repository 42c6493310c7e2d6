//! Stands for `hls` in a program that is built without it: no stream is cut into segments, and no
//! address belongs to a segment.

#[path = "object.rs"]
mod object;

use std::time::Duration;

use crate::clean_text::TitleChange;
use crate::format::{Finding, Header};
use crate::http::{Refusal, Target};
use crate::time::Instant;
pub use object::{Content, HlsResponse, Object};

pub const LIST_TYPE: &str = "";

#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Plan {
    pub segment: Duration,
    pub buffer_bytes: u64,
    pub tag: u32,
    pub started: Duration,
    pub began: Instant,
    pub number_min: u64,
}

impl Plan {
    pub fn number_at(&self, _: Instant) -> u64 {
        0
    }

    pub fn seconds_until(&self, _: u64, _: Instant) -> u64 {
        0
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum HlsRequest {}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlaylistPosition(bool);

impl PlaylistPosition {
    pub const STREAM: PlaylistPosition = PlaylistPosition(false);
    pub const ALL: PlaylistPosition = PlaylistPosition(true);
}

impl HlsRequest {
    pub const LIST: &str = "";

    pub fn of(_: &[u8], _: &Target) -> Option<Result<HlsRequest, Refusal>> {
        None
    }

    no_value! {
        fn is_list(&self) -> bool;
        fn playlist_position(&self) -> PlaylistPosition;
        fn is_addressed_by(&self, _: &Target) -> bool;
        fn query(&self) -> Option<String>;
    }
}

#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum Cutter {}

impl Cutter {
    pub const MEMORY_BYTES_MAX: usize = 0;

    pub fn of(_: Plan) -> Option<Box<Cutter>> {
        None
    }

    no_value! {
        #[cfg(feature = "handover")]
        fn fit(&mut self, _: u64, _: u64) -> Result<(), crate::handover::HandoverError>;
        fn take(&mut self, _: Finding, _: Header<'_>, _: Instant);
        fn refuse(&mut self, _: &'static str);
        fn seam(&mut self, _: u64);
        fn finish(&mut self, _: u64, _: bool);
        fn forget_before(&mut self, _: u64);
        fn find(&mut self, _: &HlsRequest, _: bool, _: &[TitleChange]) -> Option<HlsResponse>;
        fn reached(&self) -> PlaylistPosition;
        fn next_number(&self) -> u64;
        fn watch_time(&self) -> Duration;
        fn take_grown(&mut self) -> bool;
        fn cuts_in_groups(&self) -> u64;
        fn longest_fragment(&self) -> u64;
        fn target(&self) -> Duration;
        fn check(&self);
    }
}
