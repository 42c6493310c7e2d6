//! What is asked for below a stream's address: its playlist, or what that names.

use crate::http::{Parameter, Refusal, Status, Target};

/// What is wanted of a stream's segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The playlist, when it has the segment of this number, if one is named.
    List { number: Option<u64> },
    /// What has this name: a segment, or a map.
    Named(Box<str>),
}

const LIST: &str = "index.m3u8";
/// Names are shorter.
const NAME_BYTES_MAX: usize = 64;
/// Directives of a player (draft-pantos-hls-rfc8216bis section 6.2.5). Those of what a list here
/// does not offer are none of a player's that has read it, and ask for nothing.
const BLOCK: &str = "_HLS_msn";
const OTHER_DIRECTIVES: [&str; 2] = ["_HLS_part", "_HLS_skip"];

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

    fn list(target: &Target) -> Result<Wanted, Refusal> {
        let mut number = None;
        let mut has_others = false;
        for Parameter { name, value } in target.parameters() {
            if OTHER_DIRECTIVES.contains(&name) {
                has_others = true;
                continue;
            }
            let digits = value.bytes().all(|byte| byte.is_ascii_digit());
            let value = value.parse().ok().filter(|_| digits);
            if name != BLOCK || number.is_some() || value.is_none() {
                return Err(wrong(
                    "a playlist's one parameter is _HLS_msn, a number of digits",
                ));
            }
            number = value;
        }
        match (number, has_others) {
            (None, true) => Err(wrong("_HLS_part and _HLS_skip go with _HLS_msn only")),
            (number, _) => Ok(Wanted::List { number }),
        }
    }

    /// Whether it is the playlist. It is the same for every session; what it names is not, and of
    /// one that does not run yet nothing has a name.
    pub fn is_list(&self) -> bool {
        matches!(self, Wanted::List { .. })
    }
}

pub(super) fn wrong(detail: &str) -> Refusal {
    Refusal::new(Status::BadRequest, detail)
}
