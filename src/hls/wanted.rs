//! What is asked for below a stream's address: its playlist, or what that names.

use crate::http::{Parameter, Refusal, Status, Target};

/// What is wanted of a stream's segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The playlist, when it has this, if anything is named.
    List(Option<Ahead>),
    /// What has this name: a segment, a part of one, or a map.
    Named(Box<str>),
}

/// What a playlist is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The segment of this number,
    pub number: u64,
    /// or a part of it, counted from 0.
    pub part: Option<u64>,
}

const LIST: &str = "index.m3u8";
/// Names are shorter.
const NAME_BYTES_MAX: usize = 64;
/// Directives of a player (draft-pantos-hls-rfc8216bis section 6.2.5): the segment, or the part of
/// it, that the list is to have; and how much of it may be left out, which is offered to nobody.
const NUMBER: &str = "_HLS_msn";
const PART: &str = "_HLS_part";
const SKIP: &str = "_HLS_skip";

impl Wanted {
    /// What a path ends with; `None` if it can be none of them.
    pub fn of(file: &[u8], target: &Target) -> Option<Result<Wanted, Refusal>> {
        let name = std::str::from_utf8(file).ok()?;
        if name == LIST {
            return Some(Wanted::list(target));
        }
        let is_name = name.len() <= NAME_BYTES_MAX && name.contains('-') && name.contains('.');
        let has_none = target.parameters().next().is_none();
        is_name.then(|| match has_none {
            true => Ok(Wanted::Named(name.into())),
            false => Err(wrong("a segment has no parameters")),
        })
    }

    /// Whether a playlist has this name.
    pub fn is_list_named(file: &[u8]) -> bool {
        file == LIST.as_bytes()
    }

    fn list(target: &Target) -> Result<Wanted, Refusal> {
        let (mut number, mut part, mut skips) = (None, None, false);
        for Parameter { name, value } in target.parameters() {
            let digits = value.bytes().all(|byte| byte.is_ascii_digit());
            let value = value.parse::<u64>().ok().filter(|_| digits);
            let place = match name {
                NUMBER => &mut number,
                PART => &mut part,
                SKIP => {
                    skips = true;
                    continue;
                }
                _ => return Err(wrong(PARAMETERS)),
            };
            if value.is_none() || place.is_some() {
                return Err(wrong(PARAMETERS));
            }
            *place = value;
        }
        match number {
            None if part.is_some() || skips => {
                Err(wrong("_HLS_part and _HLS_skip go with _HLS_msn only"))
            }
            None => Ok(Wanted::List(None)),
            Some(number) => Ok(Wanted::List(Some(Ahead { number, part }))),
        }
    }

    /// Whether it is the playlist. It is the same for every session; what it names is not, and of
    /// one that does not run yet nothing has a name.
    pub fn is_list(&self) -> bool {
        matches!(self, Wanted::List(_))
    }
}

const PARAMETERS: &str =
    "a playlist's parameters are _HLS_msn and _HLS_part, numbers of digits, each once";

pub(super) fn wrong(detail: &str) -> Refusal {
    Refusal::new(Status::BadRequest, detail)
}
