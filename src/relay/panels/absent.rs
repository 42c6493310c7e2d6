//! In the place of `panels` in a program that is built without `icecast`: there are no such lists.

use super::admission::not_found;
use super::api::{About, Outcome};
use super::viewers::Known;
use crate::gate::SessionId;
use crate::http::{Refusal, Target};

pub(super) fn mount(_: &Target) -> Result<Option<SessionId>, Refusal> {
    Err(not_found())
}

pub(super) fn list(_: &About, _: &Known<'_>) -> Result<Outcome, Refusal> {
    Err(not_found())
}
