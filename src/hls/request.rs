//! What is asked for below a stream's address: its playlist, or what that names.

use crate::http::{Parameter, Refusal, Status, Target};

/// What is wanted of a stream's segments.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum HlsRequest {
    /// The playlist, when it has this, if anything is named.
    List(Option<BlockingReload>),
    /// What has this name: a segment, a part of one, or a map.
    Named(Box<str>),
}

/// What a playlist is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct BlockingReload {
    /// The segment of this number,
    pub number: u64,
    /// or a part of it, counted from 0.
    pub part: Option<u64>,
}

/// How far the playlist must have come for somebody to be answered, or how far it has: whoever
/// waits for less than that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlaylistPosition {
    number: u64,
    part: u64,
}

impl PlaylistPosition {
    /// Not so far that there is a list.
    pub const NOTHING: PlaylistPosition = PlaylistPosition::to(0, 0);
    /// Whoever waits for the stream itself is not answered by segments,
    pub const STREAM: PlaylistPosition = PlaylistPosition::to(u64::MAX, u64::MAX - 1);
    /// but when all are.
    pub const ALL: PlaylistPosition = PlaylistPosition::to(u64::MAX, u64::MAX);

    /// All segments before this one are there, and of it so many parts.
    pub(super) const fn to(number: u64, part: u64) -> PlaylistPosition {
        PlaylistPosition { number, part }
    }
}

/// Names are shorter.
const NAME_BYTES_MAX: usize = 64;
/// Directives of a player (draft-pantos-hls-rfc8216bis section 6.2.5): the segment, or the part of
/// it, that the list is to have; and how much of it may be left out, which is offered to nobody.
const NUMBER: &str = "_HLS_msn";
const PART: &str = "_HLS_part";
const SKIP: &str = "_HLS_skip";

impl HlsRequest {
    /// How a playlist is called.
    pub const LIST: &str = "index.m3u8";

    /// What a path ends with; `None` if it can be none of them.
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

    /// Whether a playlist has this name.
    pub fn is_list_named(file: &[u8]) -> bool {
        file == HlsRequest::LIST.as_bytes()
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
            // One list has one address: no signs, no zeros in front.
            let parsed = value.parse::<u64>().ok();
            let parsed = parsed.filter(|parsed| parsed.to_string() == value);
            if parsed.is_none() || place.is_some() {
                return Err(wrong(PARAMETERS));
            }
            *place = parsed;
        }
        match number {
            None if part.is_some() || skips => {
                Err(wrong("_HLS_part and _HLS_skip go with _HLS_msn only"))
            }
            None => Ok(HlsRequest::List(None)),
            Some(number) => Ok(HlsRequest::List(Some(BlockingReload { number, part }))),
        }
    }

    /// Whether it is asked for by the one address that it has. What comes by another spelling no
    /// cache is to keep: anybody can make up as many as they like.
    pub fn is_addressed_by(&self, target: &Target) -> bool {
        target.is_plain && target.query == self.query()
    }

    /// The query of its address, if it has one. Nothing is left out for anybody, so nothing of that
    /// stands there.
    pub fn query(&self) -> Option<String> {
        let HlsRequest::List(Some(BlockingReload { number, part })) = self else {
            return None;
        };
        let part = part.map_or(String::new(), |part| format!("&{PART}={part}"));
        Some(format!("{NUMBER}={number}{part}"))
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        match self {
            HlsRequest::List(_) => 0,
            HlsRequest::Named(name) => name.len(),
        }
    }

    /// How far the playlist must have come for it to be there.
    pub fn reach(&self) -> PlaylistPosition {
        match self {
            HlsRequest::List(None) => PlaylistPosition::NOTHING,
            // Below that of whoever waits for the stream itself.
            HlsRequest::List(Some(BlockingReload { number, part })) => {
                PlaylistPosition::to((*number).min(u64::MAX - 1), part.unwrap_or(u64::MAX))
            }
            // Nobody waits for what is not the name of a part.
            HlsRequest::Named(name) => part_named(name).unwrap_or(PlaylistPosition::NOTHING),
        }
    }

    /// Whether it is the playlist. It is the same for every session; what it names is not, and of
    /// one that does not run yet nothing has a name.
    pub fn is_list(&self) -> bool {
        matches!(self, HlsRequest::List(_))
    }
}

/// The part that has a name like `5eed1234-1763790000.3.m4s`.
fn part_named(name: &str) -> Option<PlaylistPosition> {
    let (_, numbers) = name.split_once('-')?;
    let (number, rest) = numbers.split_once('.')?;
    let (part, _) = rest.split_once('.')?;
    Some(PlaylistPosition::to(
        number.parse().ok()?,
        part.parse().ok()?,
    ))
}

const PARAMETERS: &str = "a playlist's parameters are _HLS_msn and _HLS_part, numbers without zeros in front, and \
     _HLS_skip, YES or v2; each once";

pub(super) fn wrong(detail: &str) -> Refusal {
    Refusal::new(Status::BadRequest, detail)
}
