//! Objects that have an address, as a program without `hls` knows them, too.

use std::rc::Rc;
use std::time::Duration;

use crate::http::Refusal;

/// The answer to a request for a playlist or a segment.
#[derive(Debug)]
pub enum HlsResponse {
    /// The object.
    Object(Object),
    /// The object may exist within this time.
    NotYet(Duration),
    /// The stream is over and never had a playlist, so its session counts as one that does not run.
    Over,
    /// The request is refused.
    Refused(Refusal),
}

/// An object with an address. It is the same for every client.
#[derive(Debug)]
pub struct Object {
    /// Media type.
    pub media_type: &'static str,
    /// Seconds for which a cache may serve it. `None`: no cache may keep it.
    pub seconds: Option<u64>,
    /// Whether the object never changes.
    pub is_immutable: bool,
    /// The bytes to send.
    pub content: Content,
}

/// The bytes of an object.
#[derive(Debug)]
pub enum Content {
    /// These bytes.
    Bytes(Rc<[u8]>),
    /// A range of the stream's bytes after a lead.
    Range {
        /// Bytes in front of the range.
        lead: Rc<Vec<u8>>,
        /// Offset of the first byte.
        from: u64,
        /// Offset after the last byte.
        to: u64,
    },
}

impl Content {
    /// Returns the number of bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Range { lead, from, to } => lead.len() as u64 + to.saturating_sub(*from),
        }
    }
}
