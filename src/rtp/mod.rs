//! RTP over UDP (RFC 3550): packets and their order, MPEG-TS in RTP (RFC 2250) and its pacing, FEC
//! (SMPTE 2022-1), and MPEG-TS in UDP without RTP.
//!
//! State machines over bytes. Callers pass the time. Nothing here uses sockets or tokens. Each file
//! states the memory that it can use.

mod bare;
mod candidates;
mod fec;
mod pacing;
mod packet;
mod packetiser;
mod reorder;
mod sequence;

pub use bare::Bare;
pub use candidates::{Candidates, Sender};
pub use fec::{Fec, Side};
pub use pacing::Pacing;
pub use packet::{Control, Packet, is_control};
pub use packetiser::{DATAGRAM_BYTES, PAYLOAD_BYTES, Packetiser, without_headers};
pub use reorder::{Disorder, Reorder};
pub use sequence::Sequence;

/// MPEG-TS (RFC 3551 section 6).
pub const PAYLOAD_TYPE_MPEG_TS: u8 = 33;
