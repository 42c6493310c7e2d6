//! Replaces `disk` without the feature `token-file`: no token is kept on disk.
#![cfg_attr(
    not(feature = "handover"),
    allow(dead_code, reason = "a successor alone asks how the file is")
)]

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use mio::Waker;

use super::sandbox::Sandbox;
use crate::gate::{Entry, Limits, Tokens};
use crate::relay::{Done, JobId};
use crate::time::UnixTime;

/// Has no value.
pub(super) enum Disk {}

/// Has no value.
pub(super) enum TokenFile {}

impl Disk {
    pub fn start(token_file: TokenFile, _: (&'static Waker, Sandbox)) -> io::Result<Disk> {
        match token_file {}
    }

    no_value! {
        fn share(&mut self);
        fn shared(&self) -> Option<&TokenFile>;
        fn append(&mut self, _: JobId, _: &Entry) -> bool;
        fn next_result(&mut self) -> Option<(JobId, Done)>;
    }
}

impl TokenFile {
    pub fn open(_: &Path, _: Limits, _: UnixTime) -> Result<(TokenFile, Tokens, u64), String> {
        Err("this program is built without token-file".to_owned())
    }

    pub fn parts(&self) -> ([BorrowedFd<'_>; 2], ()) {
        match *self {}
    }

    pub fn of_parts(_: &Path, _: [OwnedFd; 2], (): ()) -> Result<TokenFile, String> {
        Err("this program is built without token-file".to_owned())
    }
}
