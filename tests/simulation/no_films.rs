//! In the place of `films` where streams are had in no other container than their own.

use tollgate::remux::Target;

use super::chance::Chance;
use super::knowledge::Knowledge;
use crate::response::End;

pub fn content(_: usize, _: &mut Chance) -> Vec<u8> {
    unreachable!("nobody makes films")
}

pub struct Given<'a> {
    pub session: usize,
    pub to: Target,
    pub content: &'a [u8],
    pub end: End,
    pub is_prompt: bool,
    pub is_segment: bool,
}

impl Given<'_> {
    pub fn check(&self, _: &mut Knowledge) {
        let Given { content, end, .. } = self;
        let told = (self.session, self.to, self.is_prompt, self.is_segment);
        panic!("a film: {told:?} {end:?}, {} bytes", content.len());
    }
}
