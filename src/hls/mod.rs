//! HTTP Live Streaming (RFC 8216; draft-pantos-hls-rfc8216bis) out of a stream's own bytes.
//!
//! A segment is a range of the stream's bytes with a few bytes in front, its *lead*. A playlist is
//! a list of such ranges. So this module stores offsets and times, and no media:
//!
//! ```text
//!   stream   …│ join      │ join      │ join      │ join   newest
//!             └─ segment ─┴─ segment ─┴─ segment ─┴─ the one that fills
//!   list        #EXTINF     #EXTINF     #EXTINF      (not before it is whole)
//! ```
//!
//! [`Cutter`] takes the scanner's findings and decides where segments begin and end. [`lead`] makes
//! the bytes that a player needs in front of a segment. [`list`] writes the playlist. [`HlsRequest`]
//! is a parsed request, and [`HlsResponse`] its answer. No part knows connections or a clock.

mod cutter;
mod lead;
mod list;
mod object;
mod parts;
mod plan;
mod point;
mod request;
mod response;
mod segment;

pub use cutter::Cutter;
pub use lead::LEAD_BYTES_MAX;
pub use list::MEDIA_TYPE as LIST_TYPE;
pub use object::{Content, HlsResponse, Object};
pub use plan::Plan;
pub use request::{BlockingReload, HlsRequest, PlaylistPosition};

/// Least number of segments in the playlist of a running stream: players begin at the third from
/// the end.
pub const LISTED_MIN: usize = 3;
/// Largest number of segments in a playlist.
pub const LISTED_MAX: usize = 30;

/// Why there is no playlist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlaylist {
    /// The stream cannot be cut into segments, for this reason.
    Unfit(&'static str),
    /// Fewer than [`LISTED_MIN`] segments are complete.
    TooFew,
    /// The buffer is too small for [`LISTED_MIN`] segments and the bytes that come meanwhile.
    TooLarge,
}
