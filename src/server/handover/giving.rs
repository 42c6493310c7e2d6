//! The predecessor's side: streams are copied while they go on, then all else while nothing does.

use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use serde::Serialize;

use super::wire::{self, FRAME_BYTES_MAX, Inbox, Kind, TAKEN};
use super::{Greeting, Passed};
use crate::moment::Moment;
use crate::relay::{ConnectionId, LiveId, Relay};
use crate::server::{HEIR, Server, sys};

/// A server that is to take over from this one.
pub struct Heir {
    socket: UnixStream,
    /// The number of its process.
    process: u32,
    stage: Stage,
    /// How far each stream has been copied to it.
    copied: HashMap<LiveId, u64>,
    /// What has not gone out yet of a frame.
    rest: Vec<u8>,
}

enum Stage {
    /// Streams are copied while they go on.
    Copying,
    /// No call is begun any more, so that none is under way: no longer than until then.
    Quieting(Moment),
}

/// What is copied in a turn.
const COPIED_PER_TURN_MAX: usize = 256 * 1024;
/// With so little left to copy, the rest can be copied while nobody is served.
const LEFT_MAX: u64 = 4 * 1024 * 1024;
/// How long calls that are under way may take. What takes longer is cut off.
const QUIET_TIME: Duration = Duration::from_secs(2);
/// How long nobody is served at the very most. What would take longer comes to nothing.
const STILL_TIME: Duration = Duration::from_secs(1);
