//! In the place of `handover` in a program that is built without it: nobody takes over from
//! anybody.

use std::io;
use std::os::unix::net::UnixListener;

use mio::Registry;

use super::Server;
use super::bound::Bound;
use super::disk::TokenFile;
use super::tcp::Sockets;
use crate::config::Config;
use crate::relay::{Relay, Settings};
use crate::time::Instant;

/// What there is none of.
pub struct Handover {}

/// Nor of this.
pub enum Predecessor {}

impl Handover {
    pub fn start(
        _: &Config,
        _: &Settings,
        _: &Registry,
    ) -> Result<(Handover, Option<Predecessor>), String> {
        Ok((Handover {}, None))
    }

    pub fn go_on(&mut self, _: &Config, _: Option<UnixListener>, _: &Registry) -> io::Result<()> {
        Ok(())
    }

    pub fn has_more(&self) -> bool {
        false
    }

    pub fn next_deadline(&self, _: Instant) -> Option<Instant> {
        None
    }

    pub fn note(&mut self, _: bool) {}
}

impl Server {
    pub(super) fn hand_over(&mut self, _: Instant) {}
}

impl Predecessor {
    no_value! {
        fn relay(&mut self) -> Result<(Relay, std::time::Instant), String>;
        fn bound(&mut self) -> Bound;
        fn token_file(&mut self) -> Option<TokenFile>;
        fn sockets(&mut self) -> Sockets;
        fn taken(self) -> Result<(), String>;
    }
}
