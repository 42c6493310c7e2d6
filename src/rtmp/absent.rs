//! In the place of `rtmp` in a program that is built without it: there is no publisher.

use crate::clean_text::Agent;

pub enum Event {
    More,
    Media,
    Publish(Result<Vec<u8>, &'static str>),
    End,
}

pub enum Publisher {}

impl Publisher {
    pub fn new(_: u16) -> Option<Publisher> {
        None
    }

    no_value! {
        fn read(&mut self, _: &mut &[u8], _: &mut Vec<u8>) -> Result<Event, &'static str>;
        fn admit(&mut self) -> Agent;
        fn refuse(&mut self, _: &str, _: &str);
        fn take_answers(&mut self, _: bool) -> Vec<u8>;
        fn has_begun(&self) -> bool;
    }
}
