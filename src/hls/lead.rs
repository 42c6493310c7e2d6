//! The bytes in front of a segment that let a player begin with it: the tables of MPEG-TS, or the
//! time of MP3 and AAC, which have no times of their own. All other bytes are the stream's.

use crate::format::Header;
use crate::time::MediaTime;

/// Longest lead in bytes. The longest map of one program takes six packets.
pub const LEAD_BYTES_MAX: usize = 2 * 1024;

/// Owner identifier of the PRIV frame (RFC 8216 section 3.4).
const OWNER: &[u8] = b"com.apple.streaming.transportStreamTimestamp\0";

/// Returns the tables as the next repetition of those in the stream, and the parameter sets for a
/// start with this continuity counter.
///
/// # Errors
///
/// Returns why the stream has no such tables.
pub(super) fn of_tables(header: Header<'_>, counter: Option<u8>) -> Result<Vec<u8>, &'static str> {
    if header.length() > LEAD_BYTES_MAX {
        return Err("its tables are too long, or of several programs");
    }
    let tables = header.tables(counter).ok_or("it has no tables")?;
    if tables.programs != 1 {
        return Err("it has several programs, and HLS carries one");
    }
    if !tables.is_plain {
        return Err("its packets do not have 188 bytes");
    }
    let mut packets = tables.packets;
    if packets.len() > LEAD_BYTES_MAX {
        return of_tables(header, None);
    }
    packets.shrink_to_fit();
    Ok(packets)
}

const TAG_BYTES: usize = 10 + 10 + OWNER.len() + 8;

/// Returns a tag with the first frame's time: ID3v2.4 with one PRIV frame, 73 bytes.
pub(super) fn of_time(time: MediaTime) -> Vec<u8> {
    let frame_bytes = OWNER.len() as u8 + 8;
    let mut tag = Vec::with_capacity(TAG_BYTES);
    tag.extend_from_slice(b"ID3\x04\0\0\0\0\0");
    tag.push(10 + frame_bytes);
    tag.extend_from_slice(b"PRIV\0\0\0");
    tag.push(frame_bytes);
    tag.extend([0; 2]);
    tag.extend_from_slice(OWNER);
    tag.extend(time.ticks().to_be_bytes());
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_of_73_bytes_has_the_time() {
        let tag = of_time(MediaTime::from_ticks(0x1_2345_6789));
        assert_eq!((tag.len(), tag.capacity()), (73, TAG_BYTES));
        assert_eq!(tag[..10], *b"ID3\x04\0\0\0\0\0\x3f");
        assert_eq!(tag[10..20], *b"PRIV\0\0\0\x35\0\0");
        assert_eq!(tag[65..], [0, 0, 0, 1, 0x23, 0x45, 0x67, 0x89]);
    }
}
