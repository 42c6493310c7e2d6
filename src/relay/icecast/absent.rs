//! In the place of `icecast` in a program that is built without it: no request is made as Icecast's
//! clients make it.

use super::admission::not_found;
use super::api::Outcome;
use crate::clean_text::Title;
use crate::gate::SessionId;
use crate::http::{Head, Refusal, Status};

pub(super) const GO_ON: &[u8] = b"";

pub(super) fn is_source(_: &Head) -> bool {
    false
}

pub(super) fn waits_for_leave(_: &Head) -> bool {
    false
}

pub(super) fn session(_: &Head) -> Result<SessionId, Refusal> {
    Err(not_found())
}

pub(super) fn title_update(_: &Head) -> Result<(SessionId, Title), Refusal> {
    Err(not_found())
}

pub(super) fn title_answer(_: bool) -> Outcome {
    Outcome::Json(Status::NotFound, Vec::new())
}
