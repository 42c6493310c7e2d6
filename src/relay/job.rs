//! Jobs that the shell's threads do for the core, so that the loop never waits.

use std::net::SocketAddr;

use crate::gate::Entry;

/// Maximal number of addresses of a name.
pub const ADDRESSES_MAX: usize = 32;

/// Id of a job, by which its result finds the waiting call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct JobId(pub u64);

/// A job for a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// Find the addresses of these names, each with the port that belongs to it.
    Resolve(Vec<(String, u16)>),
    /// Append these changes to the token file, on disk: all of them or none.
    Append(Entry),
}

/// The result of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// For each name its addresses, or an error.
    Resolved(Vec<Result<Vec<SocketAddr>, String>>),
    /// Whether the changes are on disk. After an error the file is as before.
    Appended(Result<(), String>),
    /// The token file could not be shortened after a write. No change is lost, and later
    /// changes are appended as before.
    NotCompacted(String),
}
