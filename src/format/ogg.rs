//! Ogg (RFC 3533): pages. The first ones carry the headers of each logical stream.
//!
//! The scanner keeps the header pages as they came, except for long comments ([`comments`]). Of all
//! other pages it reads only the head, and for Theora the first byte of each packet. It knows
//! Theora, Vorbis, Opus (RFC 7845), FLAC, Speex and Skeleton; other streams in the multiplex pass.
//! It does not check checksums.

mod comments;

use self::comments::Rewriter;
use super::header::{Elements, HEADER_BYTES_MAX};
use super::window::{StepResult, Unread, Walker};
use super::{Finding, Findings, SEARCH_BYTES_MAX, Start, UNIT_SPACING, Unsupported};

/// Length of a page head before the segment table.
const PAGE_HEAD_BYTES: usize = 27;

/// Capture pattern and version.
const CAPTURE: &[u8; 5] = b"OggS\0";

/// Maximal number of logical streams that may run side by side.
const STREAMS_MAX: usize = 16;

/// A page. Part of its payload may have yet to come.
#[derive(Clone, Copy)]
pub(super) struct Page<'a> {
    /// Header type flags.
    flags: u8,
    /// Position of the page in its stream.
    granule_position: i64,
    /// Number of its logical stream.
    serial: u32,
    /// Number of the page in its stream.
    sequence: u32,
    /// Segment table.
    lacing: &'a [u8],
    /// Length of the payload.
    payload_length: usize,
    /// Part of the payload that has come.
    payload: &'a [u8],
}

impl<'a> Page<'a> {
    /// Reads the page at the front of these bytes.
    pub fn read(bytes: &'a [u8]) -> Result<Page<'a>, Unread> {
        if !may_begin_page(bytes) {
            return Err(Unsupported.into());
        }
        let Some((head, rest)) = bytes.split_first_chunk::<PAGE_HEAD_BYTES>() else {
            let needed = if bytes.len() < CAPTURE.len() {
                bytes.len() + 1
            } else {
                PAGE_HEAD_BYTES
            };
            return Err(Unread::Needs(needed));
        };
        let segments = usize::from(head[PAGE_HEAD_BYTES - 1]);
        let Some((lacing, payload)) = rest.split_at_checked(segments) else {
            return Err(Unread::Needs(PAGE_HEAD_BYTES + segments));
        };
        // At most 255 times 255.
        let payload_length: u16 = lacing.iter().map(|lacing| u16::from(*lacing)).sum();
        let payload_length = usize::from(payload_length);
        let payload = payload.get(..payload_length).unwrap_or(payload);
        let [_, _, _, _, _, flags, fields @ ..] = head;
        let (numbers, _) = fields.as_chunks::<4>();
        let number = |index: usize| u32::from_le_bytes(numbers[index]);
        Ok(Page {
            flags: *flags,
            granule_position: (u64::from(number(1)) << 32 | u64::from(number(0))) as i64,
            serial: number(2),
            sequence: number(3),
            lacing,
            payload_length,
            payload,
        })
    }

    /// Returns the length of head and payload.
    pub fn length(&self) -> usize {
        self.payload_from() + self.payload_length
    }

    fn payload_from(&self) -> usize {
        PAGE_HEAD_BYTES + self.lacing.len()
    }

    /// Returns whether its first packet began on an earlier page.
    fn is_continued(&self) -> bool {
        self.flags & 0x01 != 0
    }

    fn begins_stream(&self) -> bool {
        self.flags & 0x02 != 0
    }

    fn ends_stream(&self) -> bool {
        self.flags & 0x04 != 0
    }

    /// Returns how many packets end on the page.
    fn packets(&self) -> u32 {
        self.lacing.iter().filter(|lacing| **lacing < 255).count() as u32
    }

    /// Returns the positions in the payload where packets with bytes begin. Bytes before the first
    /// one are the rest of a packet from the page before. A reader without that page drops them.
    fn packet_begins(&self) -> impl Iterator<Item = usize> {
        let mut offset = 0;
        let mut begins = !self.is_continued();
        self.lacing.iter().filter_map(move |lacing| {
            let begin = (begins && *lacing > 0).then_some(offset);
            begins = *lacing < 255;
            offset += usize::from(*lacing);
            begin
        })
    }

    /// Returns the first byte of the packet at the front. `None` if no packet begins there, or an
    /// empty one.
    fn first_byte(&self) -> Option<u8> {
        let begins_packet = self.packet_begins().next() == Some(0);
        self.payload.first().copied().filter(|_| begins_packet)
    }

    /// Returns how many bytes must be seen to know the first byte of each packet that begins on the
    /// page.
    fn first_bytes_end(&self) -> usize {
        let last = self.packet_begins().last();
        self.payload_from() + last.map_or(0, |last| last + 1)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum OggCodec {
    Theora,
    Flac,
    /// Vorbis, Opus or Speex
    Sound,
    Skeleton,
    /// An unknown codec. Its first pages count as headers while their position is 0. None of its
    /// pages is a join.
    Foreign,
}

impl OggCodec {
    /// Returns whether it is a known codec of sound or video.
    fn is_media(self) -> bool {
        match self {
            OggCodec::Theora | OggCodec::Flac | OggCodec::Sound => true,
            OggCodec::Skeleton | OggCodec::Foreign => false,
        }
    }
}

/// A logical stream.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Stream {
    serial: u32,
    codec: OggCodec,
    /// Header packets that have not ended. [`Stream::UNCOUNTED`] if something other than their
    /// number ends them.
    header_packets: u32,
}

impl Stream {
    const UNCOUNTED: u32 = u32::MAX;

    /// Reads the first page of a stream. A scanner gives up video of an unknown codec, since it
    /// could not report its joins.
    fn begin(page: &Page) -> Result<Stream, Unsupported> {
        let packet = page.payload;
        let (codec, header_packets) = match packet {
            [0x80, b't', b'h', b'e', b'o', b'r', b'a', ..] => (OggCodec::Theora, 3),
            [0x01, b'v', b'o', b'r', b'b', b'i', b's', ..] => (OggCodec::Sound, 3),
            [b'O', b'p', b'u', b's', b'H', b'e', b'a', b'd', ..] => (OggCodec::Sound, 2),
            [0x7F, b'F', b'L', b'A', b'C', _, _, 0, 0, ..] => (OggCodec::Flac, Stream::UNCOUNTED),
            [0x7F, b'F', b'L', b'A', b'C', _, _, high, low, ..] => (
                OggCodec::Flac,
                1 + u32::from(u16::from_be_bytes([*high, *low])),
            ),
            [b'S', b'p', b'e', b'e', b'x', b' ', b' ', b' ', ..] => (OggCodec::Sound, 2),
            [b'f', b'i', b's', b'h', b'e', b'a', b'd', 0, ..] => {
                (OggCodec::Skeleton, Stream::UNCOUNTED)
            }
            [b'O', b'V', b'P', b'8', b'0', ..]
            | [b'B', b'B', b'C', b'D', ..]
            | [0x01, b'v', b'i', b'd', b'e', b'o', ..] => {
                return Err(Unsupported);
            }
            _ => (OggCodec::Foreign, 0),
        };
        Ok(Stream {
            serial: page.serial,
            codec,
            header_packets,
        })
    }

    /// Counts the packets of a page of the stream's headers. Returns whether it is one.
    fn count_header(&mut self, page: &Page) -> bool {
        if self.codec == OggCodec::Flac && page.first_byte() == Some(0xFF) {
            self.header_packets = 0;
        }
        if self.header_packets == 0 {
            return self.codec == OggCodec::Foreign && page.granule_position == 0;
        }
        if self.header_packets != Stream::UNCOUNTED {
            self.header_packets = self.header_packets.saturating_sub(page.packets());
        }
        if self.codec == OggCodec::Skeleton && page.ends_stream() {
            self.header_packets = 0;
        }
        true
    }
}

/// Returns the position after the first byte where a page may begin, or the length if there is
/// none.
pub(super) fn next_page_at(bytes: &[u8]) -> usize {
    let mut after = 1..bytes.len();
    let next = after.find(|at| may_begin_page(&bytes[*at..]));
    next.unwrap_or(bytes.len())
}

fn may_begin_page(bytes: &[u8]) -> bool {
    let mut both = bytes.iter().zip(CAPTURE);
    both.all(|(byte, expected)| byte == expected)
}

/// What should be at the next byte.
#[derive(Clone, Copy)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum Expected {
    Page,
    /// Anything. This many bytes were searched in vain.
    Search(u64),
}

/// Part of the stream that the pages belong to.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum Phase {
    /// Headers, with this many bytes of other pages between them.
    Headers {
        between: usize,
    },
    Data,
}

/// Walker of Ogg, chained or not.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Ogg {
    /// What should be at the next byte.
    expected: Expected,
    phase: Phase,
    pub(super) header: Elements,
    /// Rewriter of long headers. It works for one stream at a time.
    rewriter: Option<Rewriter>,
    /// Logical streams: at most [`STREAMS_MAX`].
    streams: Vec<Stream>,
    /// No unit before this offset.
    unit_from: u64,
}

impl Default for Ogg {
    fn default() -> Ogg {
        Ogg {
            expected: Expected::Page,
            phase: Phase::Headers { between: 0 },
            header: Elements::default(),
            rewriter: None,
            streams: Vec::new(),
            unit_from: 0,
        }
    }
}

impl Walker<Findings<'_>> for Ogg {
    fn step(&mut self, bytes: &[u8], begin: u64, findings: &mut Findings<'_>) -> StepResult {
        let page = match Page::read(bytes) {
            Err(Unread::Other(Unsupported)) => return Ok(self.search_on(bytes)?),
            page => page?,
        };
        if let Expected::Search(_) = self.expected {
            match Page::read(bytes.get(page.length()..).unwrap_or_default()) {
                Ok(_) => self.expected = Expected::Page,
                Err(Unread::Needs(length)) => return Err(Unread::Needs(page.length() + length)),
                Err(Unread::Other(Unsupported)) => return Ok(self.search_on(bytes)?),
            }
        }
        let needed = match self.phase {
            Phase::Headers { .. } => page.length(),
            Phase::Data if page.begins_stream() => page.length(),
            Phase::Data if self.video() == Some(page.serial) => page.first_bytes_end(),
            Phase::Data => page.payload_from(),
        };
        let seen = bytes.get(..needed).ok_or(Unread::Needs(needed))?;
        self.enter(&page, seen, begin, findings)?;
        Ok(page.length() as u64)
    }
}

impl Ogg {
    /// Skips to the next place where a page may begin. A gap within the headers is an error.
    fn search_on(&mut self, bytes: &[u8]) -> Result<u64, Unsupported> {
        let searched = match (&self.phase, self.expected) {
            (Phase::Headers { .. }, _) => return Err(Unsupported),
            (Phase::Data, Expected::Page) => 0,
            (Phase::Data, Expected::Search(searched)) => searched,
        };
        if searched >= SEARCH_BYTES_MAX {
            return Err(Unsupported);
        }
        let passed = (next_page_at(bytes) as u64).min(SEARCH_BYTES_MAX - searched);
        self.expected = Expected::Search(searched + passed);
        Ok(passed)
    }

    /// Enters a page of which enough was seen.
    fn enter(
        &mut self,
        page: &Page,
        seen: &[u8],
        begin: u64,
        findings: &mut Findings<'_>,
    ) -> Result<(), Unsupported> {
        if page.begins_stream() {
            return self.begin_stream(page, seen);
        }
        let Phase::Headers { between } = &mut self.phase else {
            self.enter_data(page, begin, findings);
            return Ok(());
        };
        let stream = self
            .streams
            .iter_mut()
            .find(|stream| stream.serial == page.serial);
        let codec = stream.and_then(|stream| stream.count_header(page).then_some(stream.codec));
        let taken = codec.is_some();
        if let Some(codec) = codec {
            if self.rewriter.is_none() {
                self.rewriter = Rewriter::begin(page, codec);
            }
            let mut rewriter = self.rewriter.as_mut();
            match rewriter.take_if(|rewriter| rewriter.serial == page.serial) {
                Some(rewriter) => {
                    if !rewriter.page(page, &mut self.header)? {
                        self.rewriter = None;
                    }
                }
                None => self.header.append(seen)?,
            }
        } else {
            *between = between.saturating_add(seen.len());
        }
        if *between > HEADER_BYTES_MAX {
            return Err(Unsupported);
        }
        if self.streams.iter().any(|stream| stream.header_packets > 0) {
            return Ok(());
        }
        if !self.streams.iter().any(|stream| stream.codec.is_media()) {
            return Err(Unsupported);
        }
        self.phase = Phase::Data;
        self.rewriter = None;
        self.header.use_next();
        findings(Finding::Header, self.header.lend());
        if !taken {
            self.enter_data(page, begin, findings);
        }
        Ok(())
    }

    /// Begins a logical stream. All streams of a link begin before any other page of it. A stream
    /// that begins after data begins the next link of a chain.
    fn begin_stream(&mut self, page: &Page, seen: &[u8]) -> Result<(), Unsupported> {
        let is_of_link = matches!(self.phase, Phase::Headers { .. })
            && self
                .streams
                .iter()
                .all(|stream| stream.serial != page.serial);
        if !is_of_link {
            self.streams.clear();
            self.rewriter = None;
            self.header.begin();
        }
        if self.streams.len() == STREAMS_MAX {
            return Err(Unsupported);
        }
        let mut stream = Stream::begin(page)?;
        stream.count_header(page);
        self.streams.push(stream);
        self.header.append(seen)?;
        self.phase = Phase::Headers { between: 0 };
        Ok(())
    }

    fn enter_data(&mut self, page: &Page, begin: u64, findings: &mut Findings<'_>) {
        if self.is_join(page) {
            findings(Finding::Join(Start::at(begin)), self.header.lend());
        }
        if begin >= self.unit_from {
            self.unit_from = begin + UNIT_SPACING;
            findings(Finding::Unit(Start::at(begin)), self.header.lend());
        }
    }

    /// Returns the video stream, which decides about joins.
    fn video(&self) -> Option<u32> {
        let mut streams = self.streams.iter();
        let video = streams.find(|stream| stream.codec == OggCodec::Theora);
        video.map(|video| video.serial)
    }

    fn is_join(&self, page: &Page) -> bool {
        if let Some(video) = self.video() {
            // The two highest bits: no header, and a frame that needs no other.
            let is_key = |begin| page.payload.get(begin).is_some_and(|byte| byte & 0xC0 == 0);
            return video == page.serial && page.packet_begins().any(is_key);
        }
        let mut streams = self.streams.iter();
        let stream = streams.find(|stream| stream.serial == page.serial);
        stream.is_some_and(|stream| stream.codec.is_media())
            && page.packet_begins().next().is_some()
    }

    /// Returns whether a handed-over state is possible. Offsets are only compared.
    #[cfg(feature = "handover")]
    pub(super) fn is_valid(&self) -> bool {
        self.header.is_valid()
            && self.rewriter.as_ref().is_none_or(Rewriter::is_valid)
            && self.streams.len() <= STREAMS_MAX
    }
}

#[cfg(test)]
mod tests;
