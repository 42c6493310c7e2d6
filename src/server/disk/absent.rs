//! In the place of `disk` in a program that is built without `token-file`: nothing is kept on it.

use mio::Waker;

use crate::config::Config;
use crate::gate::{Entry, Limits, Tokens};
use crate::relay::{Done, Ticket};
use crate::stamp::Stamp;

/// What there is none of.
pub(super) enum Disk {}

impl Disk {
    pub fn open(
        _: &Config,
        _: Limits,
        _: Stamp,
        _: &'static Waker,
    ) -> Result<Option<(Disk, Tokens, u64)>, String> {
        Ok(None)
    }

    pub fn append(&mut self, _: Ticket, _: &Entry) -> bool {
        match *self {}
    }

    pub fn next_result(&mut self) -> Option<(Ticket, Done)> {
        match *self {}
    }

    pub fn held_bytes(&self) -> usize {
        match *self {}
    }
}
