//! In the place of `icecast` in a program that is built without it: no request is made as Icecast's
//! clients make it.

use super::admission::not_found;
use super::api::{About, Outcome};
use super::viewers::ListParts;
use crate::gate::SessionId;
use crate::http::{Head, Refusal, Status};

pub(super) fn is_source(_: &Head) -> bool {
    false
}

pub(super) fn session(_: &Head) -> Result<SessionId, Refusal> {
    Err(not_found())
}

pub(super) fn title_answer(_: bool) -> Outcome {
    Outcome::Json(Status::NotFound, Vec::new())
}

pub(super) fn list(_: &About, _: &ListParts<'_>) -> Result<Outcome, Refusal> {
    Err(not_found())
}
