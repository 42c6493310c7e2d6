//! MPEG-TS (ISO/IEC 13818-1).

mod packet;

pub use packet::{Aligner, PACKET_BYTES, Packet, SYNC_BYTE};
