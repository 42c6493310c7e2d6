//! Errands: what the shell's threads do for the core. The loop never waits.

use std::net::SocketAddr;

use crate::gate::Entry;

/// Addresses that a name may have.
pub const ADDRESSES_MAX: usize = 32;

/// Names an errand, so that its result finds who waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct JobId(pub u64);

/// What a thread is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// Find the addresses of these names, each with the port that belongs to it.
    Resolve(Vec<(String, u16)>),
    /// Put these changes behind what the token file holds, on disk, all of them or none.
    Append(Entry),
}

/// What it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// For each name its addresses, or why there are none.
    Resolved(Vec<Result<Vec<SocketAddr>, String>>),
    /// It is on disk, or why not; then the file is as it was.
    Appended(Result<(), String>),
    /// After a write: the token file should have become shorter, and why it has not. Nothing is
    /// lost, and the next writes are tried.
    NotCompacted(String),
}
