//! In the place of `by_icecast` in a program that is built without `icecast`.

use super::{RequestContext, Route};
use crate::http::Refusal;

impl RequestContext<'_> {
    pub(super) fn route_of_icecast(&self, _: &[&[u8]]) -> Option<Result<Route, Refusal>> {
        None
    }
}
