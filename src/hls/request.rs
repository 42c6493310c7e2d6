//! Requests below a stream's address: for its playlist, or for an object that the playlist names.

use super::segment::numbers_of_part;
use crate::http::{Parameter, Refusal, Status, Target};

/// A request for a playlist, a segment, a part or a map.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum HlsRequest {
    /// The playlist, at once, or when it has the segment or part of this blocking reload.
    List(Option<BlockingReload>),
    /// The segment, part or map of this name.
    Named(Box<str>),
}

/// A blocking playlist reload: the request waits until the playlist has this segment or part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct BlockingReload {
    /// Media sequence number of the segment.
    pub number: u64,
    /// Index of a part of the segment, from 0. `None` stands for the whole segment.
    pub part: Option<u64>,
}

/// A position in a playlist: the position that a request waits for, or the one that the playlist
/// has reached. A request is answered when its position is below the reached one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlaylistPosition {
    number: u64,
    part: u64,
}

impl PlaylistPosition {
    /// No playlist exists yet.
    pub const NOTHING: PlaylistPosition = PlaylistPosition::to(0, 0);
    /// Position of viewers who wait for the stream itself. No segment answers them.
    pub const STREAM: PlaylistPosition = PlaylistPosition::to(u64::MAX, u64::MAX - 1);
    /// Every request is answered.
    pub const ALL: PlaylistPosition = PlaylistPosition::to(u64::MAX, u64::MAX);

    /// The segments before `number` are complete, and `part` parts of segment `number`.
    pub(super) const fn to(number: u64, part: u64) -> PlaylistPosition {
        PlaylistPosition { number, part }
    }
}

/// Longest name in bytes.
const NAME_BYTES_MAX: usize = 64;
/// Delivery directives of a player (draft-pantos-hls-rfc8216bis section 6.2.5): the segment and the
/// part that the playlist must have. `_HLS_skip` is accepted and ignored: the playlist does not
/// offer to leave segments out.
const NUMBER: &str = "_HLS_msn";
const PART: &str = "_HLS_part";
const SKIP: &str = "_HLS_skip";

impl HlsRequest {
    /// Name of a playlist.
    pub const LIST: &str = "index.m3u8";

    /// Parses the last part of a path. Returns `None` if it can be no name of this module.
    pub fn of(file: &[u8], target: &Target) -> Option<Result<HlsRequest, Refusal>> {
        let name = std::str::from_utf8(file).ok()?;
        if name == HlsRequest::LIST {
            return Some(HlsRequest::list(target));
        }
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        let is_name = name.len() <= NAME_BYTES_MAX
            && name.bytes().all(is_of_name)
            && name.contains('-')
            && name.contains('.');
        let has_none = target.parameters().next().is_none();
        is_name.then(|| match has_none {
            true => Ok(HlsRequest::Named(name.into())),
            false => Err(wrong("a segment has no parameters")),
        })
    }

    fn list(target: &Target) -> Result<HlsRequest, Refusal> {
        let (mut number, mut part, mut skips) = (None, None, false);
        for Parameter { name, value } in target.parameters() {
            let place = match name {
                NUMBER => &mut number,
                PART => &mut part,
                SKIP if !skips && matches!(value, "YES" | "v2") => {
                    skips = true;
                    continue;
                }
                _ => return Err(wrong(PARAMETERS)),
            };
            // Each list has one address: a number has no sign and no leading zeros.
            let parsed = value.parse::<u64>().ok();
            let parsed = parsed.filter(|parsed| parsed.to_string() == value);
            if parsed.is_none() || place.is_some() {
                return Err(wrong(PARAMETERS));
            }
            *place = parsed;
        }
        match number {
            None if part.is_some() || skips => Err(wrong("_HLS_part and _HLS_skip need _HLS_msn")),
            None => Ok(HlsRequest::List(None)),
            Some(number) => Ok(HlsRequest::List(Some(BlockingReload { number, part }))),
        }
    }

    /// Returns whether the target is the one address of this object. A cache must not keep answers
    /// under other spellings, because anybody can make up many of them.
    pub fn is_addressed_by(&self, target: &Target) -> bool {
        target.is_plain && target.query == self.query()
    }

    /// Returns the query of the object's address, if it has one. The address never has `_HLS_skip`.
    pub fn query(&self) -> Option<String> {
        let HlsRequest::List(Some(BlockingReload { number, part })) = self else {
            return None;
        };
        let part = part.map_or(String::new(), |part| format!("&{PART}={part}"));
        Some(format!("{NUMBER}={number}{part}"))
    }

    /// Returns the position of the playlist at which the object exists.
    pub fn playlist_position(&self) -> PlaylistPosition {
        match self {
            HlsRequest::List(None) => PlaylistPosition::NOTHING,
            // Below the position of viewers who wait for the stream itself.
            HlsRequest::List(Some(BlockingReload { number, part })) => {
                PlaylistPosition::to((*number).min(u64::MAX - 1), part.unwrap_or(u64::MAX))
            }
            // Only parts are waited for. All else exists from the beginning.
            HlsRequest::Named(name) => {
                let (number, part) = numbers_of_part(name).unwrap_or_default();
                PlaylistPosition::to(number, part)
            }
        }
    }

    /// Returns whether it is the playlist. A session that does not run yet has a playlist to wait
    /// for, and no segments.
    pub fn is_list(&self) -> bool {
        matches!(self, HlsRequest::List(_))
    }
}

const PARAMETERS: &str = "a playlist's parameters are _HLS_msn and _HLS_part, numbers without zeros in front, and \
     _HLS_skip, YES or v2; each once";

pub(super) fn wrong(detail: &str) -> Refusal {
    Refusal::new(Status::BadRequest, detail)
}
