//! HTTP Live Streaming (RFC 8216; draft-pantos-hls-rfc8216bis) out of a stream's own bytes.
//!
//! A segment is a range of the stream's bytes with a few bytes in front, its *lead*; a playlist is
//! a list of such ranges. So nothing is kept here but places and times:
//!
//! ```text
//!   stream   …│ join      │ join      │ join      │ join   newest
//!             └─ segment ─┴─ segment ─┴─ segment ─┴─ the one that fills
//!   list        #EXTINF     #EXTINF     #EXTINF      (not before it is whole)
//! ```
//!
//! [`Cutter`] hears what the scanner finds and says where segments begin and end; [`lead`] has what
//! a player needs in front of one, [`list`] writes the playlist, [`HlsRequest`] is what a request asks
//! for and [`HlsResponse`] what becomes of it. Never knows the media itself, connections, or a clock.

mod cutter;
mod lead;
mod list;
mod parts;
mod plan;
mod point;
mod request;
mod response;
mod segment;

pub use cutter::Cutter;
pub use lead::LEAD_BYTES_MAX;
pub use list::MEDIA_TYPE as LIST_TYPE;
pub use plan::Plan;
pub use request::{BlockingReload, HlsRequest, PlaylistPosition};
pub use response::{Content, HlsResponse, Object};

/// A playlist has at least so many segments, unless the stream is over: players begin at the third
/// from the end.
pub const LISTED_MIN: usize = 3;
/// It has so many at the most.
pub const LISTED_MAX: usize = 30;

/// Why there is no playlist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlaylist {
    /// The stream cannot be cut into segments at all, for this reason.
    Unfit(&'static str),
    /// Fewer than [`LISTED_MIN`] segments are whole.
    TooFew,
    /// So many do not fit into the buffer, with what comes meanwhile.
    TooLarge,
}
