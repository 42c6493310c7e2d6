//! In the place of `panels` in a program that is built without `icecast`: there are no such lists.

use super::admission::not_found;
use super::api::Panel;
use super::viewers::Known;
use crate::http::{Refusal, Target};

impl Panel {
    pub fn of(_: &[u8], _: &Target, _: String) -> Result<Panel, Refusal> {
        Err(not_found())
    }

    pub fn text(&self, _: &Known<'_>) -> Result<(&'static str, String), Refusal> {
        Err(not_found())
    }
}
