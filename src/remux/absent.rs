//! Replaces `remux` in a program without that feature. Streams exist in their own container only,
//! and no other container has a name.

use crate::format::Format;
#[cfg(feature = "handover")]
use crate::handover::HandoverError;

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

pub const TRACKS_BYTES_MAX: usize = 0;

/// Nothing is known of any track.
#[derive(Clone, serde::Serialize)]
pub enum TrackInfo {}

pub fn tracks<'a>(_: Format, _: &[u8], _: impl FnMut() -> &'a [u8]) -> (Vec<TrackInfo>, bool) {
    (Vec::new(), false)
}

pub struct MediaError(pub &'static str);

/// There is none.
pub enum Remuxer {}

impl Remuxer {
    pub fn reads(_: Format) -> bool {
        false
    }

    pub fn new(_: Format, _: Target, _: usize) -> Option<Remuxer> {
        None
    }

    pub const fn memory_bytes_max(_: usize) -> usize {
        0
    }

    no_value! {
        fn feed(&mut self, _: &[u8], _: &mut usize, _: &mut Vec<u8>) -> Result<(), MediaError>;
        fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), MediaError>;
        fn shift(&self) -> Option<i64>;
        fn carries_any(&self) -> bool;
        fn carries_nothing(&self) -> bool;
        fn left_out(&self) -> &[String];
    }
}

/// There is none.
#[cfg(feature = "handover")]
#[derive(serde::Serialize, serde::Deserialize)]
pub enum RemuxerState {}

#[cfg(feature = "handover")]
impl Remuxer {
    pub fn state(&self) -> RemuxerState {
        match *self {}
    }

    pub fn resume(
        &mut self,
        state: RemuxerState,
        _shifts: Option<(i64, Option<i64>)>,
        _header: Vec<u8>,
    ) -> Result<(), HandoverError> {
        match state {}
    }
}
