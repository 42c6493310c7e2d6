//! In the place of `page` in a program that is built without it: there is no page.

use crate::http::Refusal;
use crate::random::Random;

/// A page that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Document<'a> {
    Operator,
    Watch,
    Refused(&'a Refusal),
}

/// A page. There is none.
pub(super) enum Page {}

impl Page {
    pub const IS_HERE: bool = false;

    pub fn draw(_: Document<'_>, _: &str, _: &mut Random) -> Option<Page> {
        None
    }

    no_value! {
        fn policy(&self) -> &str;
        fn body(&self) -> [&[u8]; 8];
    }
}
