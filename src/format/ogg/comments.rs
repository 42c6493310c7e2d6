//! Rewrites header packets without their pictures.
//!
//! A cover in the comments is longer than everything that viewers need for decoding. So if the
//! comments do not end on their first page, late viewers get them without the long ones.

use super::{CAPTURE, OggCodec, Page};
use crate::format::mpegts::psi::crc_32;
use crate::format::{HEADER_BYTES_MAX, Unsupported, header::Elements, window::grow};

/// Longest comment that is kept. Titles and lyrics are shorter; pictures are longer.
const COMMENT_BYTES_MAX: usize = 16 * 1024;

/// Maximal number of payload bytes of a page.
const PAGE_PAYLOAD_BYTES_MAX: usize = 255 * 255;

/// Part of the packet that is read.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum Field {
    /// Name of the encoder.
    Vendor,
    /// Number of comments.
    Count,
    /// Comments that have yet to come.
    Comments(u32),
    /// The rest. It stays as it is.
    #[default]
    Rest,
    /// A picture block of FLAC. Nothing of it stays.
    Picture,
}

/// Rewrites the packets from the page on which the comments begin to the next page at whose end a
/// packet ends.
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Rewriter {
    /// Number of the logical stream.
    pub serial: u32,
    /// Number of the next page that is written.
    sequence: u32,
    /// Bytes of the current packet that are kept.
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    packet: Vec<u8>,
    /// Whether packets are blocks of FLAC.
    is_flac: bool,
    field: Field,
    /// Position in the packet at which the field begins.
    at: u32,
    /// Position of the number of comments.
    count_at: u32,
    /// Number of comments that are left out.
    left_out: u32,
    /// Bytes of the newest left-out comment that have yet to come.
    skipped: u32,
}

impl Rewriter {
    /// Returns a rewriter if comments or a picture begin with this page and do not end on it.
    pub fn begin(page: &Page, codec: OggCodec) -> Option<Rewriter> {
        if page.is_continued() || page.packets() > 0 {
            return None;
        }
        let is_flac = codec == OggCodec::Flac;
        let (field, at) = match page.payload {
            [kind, ..] if is_flac && kind & 0x7F == 4 => (Field::Vendor, 4),
            [kind, ..] if is_flac && kind & 0x7F == 6 => (Field::Picture, 4),
            [0x03, b'v', b'o', b'r', b'b', b'i', b's', ..]
            | [0x81, b't', b'h', b'e', b'o', b'r', b'a', ..] => (Field::Vendor, 7),
            [b'O', b'p', b'u', b's', b'T', b'a', b'g', b's', ..] => (Field::Vendor, 8),
            _ => return None,
        };
        Some(Rewriter {
            serial: page.serial,
            sequence: page.sequence,
            is_flac,
            field,
            at,
            ..Rewriter::default()
        })
    }

    /// Reads a whole page, and writes the packets that end on it. Returns whether a packet
    /// continues on the next page.
    pub fn page(&mut self, page: &Page, header: &mut Elements) -> Result<bool, Unsupported> {
        let mut payload = page.payload;
        for segments in page.lacing.split_inclusive(|lacing| *lacing < 255) {
            let length = segments.iter().map(|lacing| usize::from(*lacing)).sum();
            let (part, rest) = payload.split_at_checked(length).ok_or(Unsupported)?;
            payload = rest;
            self.read(part, header.bytes_left())?;
            if segments.last().is_some_and(|lacing| *lacing < 255) {
                self.end_packet(header)?;
            }
        }
        Ok(page.lacing.last() == Some(&255))
    }

    /// Reads a part of the packet. Keeps at most `bytes_max` of the packet.
    fn read(&mut self, part: &[u8], bytes_max: usize) -> Result<(), Unsupported> {
        let skipped = part.len().min(self.skipped as usize);
        self.skipped -= skipped as u32;
        let part = part.get(skipped..).unwrap_or_default();
        if self.packet.len() + part.len() > bytes_max {
            return Err(Unsupported);
        }
        grow(&mut self.packet, part.len(), HEADER_BYTES_MAX);
        self.packet.extend_from_slice(part);
        while let Some(length) = self.number() {
            let at = self.at.saturating_add(4);
            match self.field {
                Field::Vendor => {
                    self.field = Field::Count;
                    self.at = at.saturating_add(length);
                }
                Field::Count => {
                    self.field = Field::Comments(length);
                    self.count_at = self.at;
                    self.at = at;
                }
                Field::Comments(0) | Field::Rest => break,
                Field::Comments(left) if length as usize > COMMENT_BYTES_MAX => {
                    let come = self.packet.len() - at as usize;
                    let out = come.min(length as usize);
                    self.packet.drain(self.at as usize..at as usize + out);
                    self.skipped = length - out as u32;
                    self.left_out = self.left_out.saturating_add(1);
                    self.field = Field::Comments(left - 1);
                }
                Field::Comments(left) => {
                    self.at = at.saturating_add(length);
                    self.field = Field::Comments(left - 1);
                }
                Field::Picture => {
                    self.packet.truncate(4);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the number at the field's position, if it has come.
    fn number(&self) -> Option<u32> {
        let number = self.packet.get(self.at as usize..)?.first_chunk()?;
        Some(u32::from_le_bytes(*number))
    }

    fn end_packet(&mut self, header: &mut Elements) -> Result<(), Unsupported> {
        let mut packet = std::mem::take(&mut self.packet);
        let field = std::mem::take(&mut self.field);
        match field {
            Field::Comments(0)
                if self.left_out > 0 && self.skipped == 0 && self.at as usize <= packet.len() =>
            {
                let count = packet.get_mut(self.count_at as usize..).unwrap_or_default();
                let count = count.first_chunk_mut().ok_or(Unsupported)?;
                *count = u32::from_le_bytes(*count)
                    .saturating_sub(self.left_out)
                    .to_le_bytes();
            }
            // Padding, so that there are as many blocks as the first page says.
            Field::Picture => {
                packet.truncate(4);
                *packet.first_mut().ok_or(Unsupported)? =
                    packet.first().ok_or(Unsupported)? & 0x80 | 1;
            }
            _ if self.left_out == 0 => return self.write(&packet, header),
            _ => return Err(Unsupported),
        }
        if self.is_flac {
            let length = packet.len().checked_sub(4).ok_or(Unsupported)? as u32;
            let [first, ..] = packet.first_chunk_mut::<4>().ok_or(Unsupported)?;
            let head = u32::from(*first) << 24 | length;
            *packet.first_chunk_mut().ok_or(Unsupported)? = head.to_be_bytes();
        }
        self.left_out = 0;
        self.write(&packet, header)
    }

    /// Writes a packet on pages of its own.
    fn write(&mut self, packet: &[u8], header: &mut Elements) -> Result<(), Unsupported> {
        let mut rest = packet;
        let mut is_continued = false;
        loop {
            let ends = rest.len() < PAGE_PAYLOAD_BYTES_MAX;
            let (payload, after) = rest.split_at(rest.len().min(PAGE_PAYLOAD_BYTES_MAX));
            let mut page = CAPTURE.to_vec();
            page.push(u8::from(is_continued));
            page.extend(if ends { 0_i64 } else { -1 }.to_le_bytes());
            page.extend(self.serial.to_le_bytes());
            page.extend(self.sequence.to_le_bytes());
            page.extend([0; 4]);
            let full = payload.len() / 255;
            page.push((full + usize::from(ends)) as u8);
            page.resize(page.len() + full, 255);
            if ends {
                page.push((payload.len() % 255) as u8);
            }
            page.extend(payload);
            // The field of the checksum is zero here.
            let checksum = crc_32(0, &page).to_le_bytes();
            page.iter_mut()
                .skip(22)
                .zip(checksum)
                .for_each(|(to, byte)| *to = byte);
            header.append(&page)?;
            self.sequence = self.sequence.wrapping_add(1);
            if ends {
                return Ok(());
            }
            (rest, is_continued) = (after, true);
        }
    }

    /// Returns whether a handed-over state is possible.
    #[cfg(feature = "handover")]
    pub fn is_valid(&self) -> bool {
        self.packet.len() <= HEADER_BYTES_MAX
    }
}
