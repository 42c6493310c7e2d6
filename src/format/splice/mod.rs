//! Splices the sources of a stream. When a source breaks off, another one can continue the stream.
//!
//! ```text
//!   first source ─→ Opening ─→ Running ── it breaks ─→ Joining ── decoding can begin ─→ Running …
//!                      └─→ Through (unknown format: no source can continue)  └─→ Incompatible (other tracks)
//! ```
//!
//! Viewers get whole units only: PES packets of MPEG-TS, Ogg pages, Matroska blocks, FLV tags, MP4
//! fragments, frames of MPEG audio and ADTS. So their bytes are valid wherever a source breaks off.
//! The next source continues at its first join point:
//!
//! - MPEG-TS and Ogg send their own header first. MPEG-TS also marks where counters and clock jump.
//! - MPEG audio and ADTS continue as they come.
//! - Headers of all other containers must describe the same tracks. The splicer leaves such a
//!   header out, except for the parts that viewers lack, and moves the times, so that a player sees
//!   one stream.
//!
//! The splicer is a state machine over bytes. It copies each byte once. It holds one unit, or the
//! bytes in front of a join point. Both are bounded, and so is its memory
//! ([`Splicer::memory_bytes_max`]).

mod flv;
mod frames;
mod handover;
mod matroska;
mod mp4;
mod packets;
mod seam;
mod timeline;

use super::ogg::{Page, next_page_at};
use super::window::{StepResult, Unread, Walker, Window, grow};
use super::{
    Finding, Format, HEADER_BYTES_MAX, MEMORY_BYTES_MAX, Scanner, Start, Unsupported, detect,
};
use crate::copied::Copied;
use frames::FrameCutter;
use packets::PacketCutter;

/// Cuts the sources of one stream into units, and joins them.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Splicer {
    /// Longest unit that ever waits until it is whole.
    unit_bytes_max: usize,
    /// Longest unit that waits now ([`Splicer::limit_units`]).
    #[cfg_attr(feature = "handover", serde(skip))]
    unit_limit: usize,
    phase: SplicePhase,
    /// Work of the walkers and scanners that are gone, since [`Splicer::take_work`].
    #[cfg_attr(feature = "handover", serde(skip))]
    work: usize,
}

/// Distance within a later source between two beginnings, for instance two headers. From this
/// distance on the splicer joins the source again at the second one. Below it the source is
/// incompatible.
const BEGINNINGS_APART: u64 = 64 * 1024;
/// Maximal work before a source's first join point, beyond 1 for each byte. If there is no join
/// point, another stream reads all bytes again in one turn. MPEG-TS of 300 kbit/s may take 40 s.
const JOINING_WORK_MAX: usize = 1024 * 1024;

/// Maximal number of bytes that go out at the end of a stream. They are scanned in one turn. Whole
/// units of MPEG-TS that wait have no more bytes than that.
const FINISH_BYTES_MAX: usize = packets::WAITING_BYTES_MAX;

/// The source cannot continue the stream. Another stream begins with these bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct Incompatible(pub Vec<u8>);

#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum SplicePhase {
    /// The first source has not shown its format yet.
    Opening(Opening),
    /// A source runs.
    Running(Running),
    /// The splicer waits for a join point. A source broke off, and the next one has not come or has
    /// not reached a join point. Or a later source has begun again: its bytes do not continue what
    /// came before, so the splicer treats it as another source.
    AwaitingJoinPoint(Box<JoinSearch>),
    /// Bytes pass as they come, for good.
    Through,
}

#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Opening {
    scanner: Scanner,
    /// All bytes of the source.
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    bytes: Vec<u8>,
    /// Number of bytes that viewers already have. They are the beginning of sound, or of an unknown
    /// format.
    bytes_sent: usize,
}

#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Running {
    cutter: UnitCutter,
    /// Format that the source's first bytes show.
    format: Format,
    window: Window,
    /// Offset of the next byte. The first source counts from its first byte. A later source counts
    /// from the bytes that the splicer adds in front of its join point.
    offset: u64,
    /// Layout of the earlier sources. `None` for the first source.
    output: Option<OutputLayout>,
}

/// Format and header that viewers have. A later source must fit them.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct OutputLayout {
    format: Format,
    header: Copied,
}

#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct JoinSearch {
    cutter: UnitCutter,
    /// Format and header that viewers have.
    output: OutputLayout,
    /// Scanner of the source. After a hand-over it reads the bytes again.
    #[cfg_attr(feature = "handover", serde(skip))]
    scanner: Scanner,
    /// Bytes of the source so far.
    bytes: Copied,
    /// Format that the source has shown.
    #[cfg_attr(feature = "handover", serde(skip))]
    format: Option<Format>,
    /// Work of the scanner so far.
    #[cfg_attr(feature = "handover", serde(skip))]
    work: usize,
}

/// Cuts a container into units.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum UnitCutter {
    Frames(FrameCutter),
    Packets(PacketCutter),
    Pages(PageCutter),
    Blocks(Box<matroska::BlockCutter>),
    Tags(Box<flv::TagCutter>),
    Fragments(Box<mp4::FragmentCutter>),
}

impl Splicer {
    /// Returns a splicer without a source. A unit longer than `unit_bytes_max` passes as it comes,
    /// and no source can continue in the middle of it. A source that shows no join point within
    /// this many bytes cannot continue the stream.
    pub fn new(unit_bytes_max: usize) -> Splicer {
        Splicer {
            unit_bytes_max,
            unit_limit: unit_bytes_max,
            phase: SplicePhase::Opening(Opening::default()),
            work: 0,
        }
    }

    /// Sets the length of the longest unit that waits from now on.
    pub fn limit_units(&mut self, bytes_max: usize) {
        self.unit_limit = bytes_max.min(self.unit_bytes_max);
        if let SplicePhase::Running(running) = &mut self.phase
            && running.cutter.limit_units(self.unit_limit)
        {
            running.window.walk_again(self.unit_limit);
        }
    }

    /// Reads the source's next bytes, and appends the viewers' bytes to `out`.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Incompatible> {
        match &mut self.phase {
            SplicePhase::Through => out.extend_from_slice(bytes),
            SplicePhase::Running(_) => return self.cut(bytes, out),
            SplicePhase::Opening(opening) => {
                let Some((format, rest)) = opening.detect(bytes, out) else {
                    return Ok(());
                };
                let mut opening = std::mem::take(opening);
                self.work += opening.scanner.take_work();
                let Some(format) = format else {
                    self.phase = SplicePhase::Through;
                    out.extend_from_slice(&opening.bytes[opening.bytes_sent..]);
                    out.extend_from_slice(rest);
                    return Ok(());
                };
                let cutter = UnitCutter::new(format, self.unit_limit, opening.bytes_sent);
                self.phase = SplicePhase::Running(Running::new(cutter, format, None));
                self.cut(&opening.bytes, out)?;
                return self.feed(rest, out);
            }
            SplicePhase::AwaitingJoinPoint(joining) => {
                grow(&mut joining.bytes.bytes, bytes.len(), self.unit_bytes_max);
                joining.bytes.bytes.extend_from_slice(bytes);
                let verdict = joining.find_join();
                let work = joining.scanner.take_work();
                self.work += work;
                joining.work += work;
                let bytes = joining.bytes.len();
                let is_too_long =
                    bytes > self.unit_bytes_max || joining.work > JOINING_WORK_MAX + bytes;
                match verdict {
                    Ok(Some((join, header))) => return self.continue_at(join, &header, out),
                    Ok(None) if !is_too_long => {}
                    Ok(None) | Err(Unsupported) => {
                        let bytes = std::mem::take(&mut joining.bytes.bytes);
                        self.phase = SplicePhase::Through;
                        return Err(Incompatible(bytes));
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends the stream: appends the bytes that wait, at most [`FINISH_BYTES_MAX`]. More
    /// would be the beginning of a unit that is not whole.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let out_before = out.len();
        match std::mem::replace(&mut self.phase, SplicePhase::Through) {
            SplicePhase::Opening(opening) => {
                out.extend_from_slice(&opening.bytes[opening.bytes_sent..]);
            }
            SplicePhase::Running(running) => running.finish(out),
            SplicePhase::AwaitingJoinPoint(_) | SplicePhase::Through => {}
        }
        out.truncate(out_before + FINISH_BYTES_MAX);
    }

    /// Ends the source. Viewers have had a stream of this format, if it is known, with this header.
    /// Returns whether another source can continue it. If so, the next bytes belong to that source.
    pub fn break_off(&mut self, format: Option<Format>, header: Vec<u8>) -> bool {
        self.phase = match std::mem::replace(&mut self.phase, SplicePhase::Through) {
            SplicePhase::Running(running) if running.cutter.can_continue(&header) => {
                let format = format.unwrap_or(running.format);
                let header = header.into();
                let output = OutputLayout { format, header };
                SplicePhase::AwaitingJoinPoint(Box::new(JoinSearch::new(running.cutter, output)))
            }
            SplicePhase::AwaitingJoinPoint(joining) => {
                let JoinSearch { cutter, output, .. } = *joining;
                SplicePhase::AwaitingJoinPoint(Box::new(JoinSearch::new(cutter, output)))
            }
            other => other,
        };
        self.is_between_sources()
    }

    /// Returns the work since the last call, as the number of bytes that take as long to copy.
    pub fn take_work(&mut self) -> usize {
        let work = match &mut self.phase {
            SplicePhase::Opening(opening) => opening.scanner.take_work(),
            SplicePhase::Running(running) => {
                if let UnitCutter::Packets(packets) = &mut running.cutter {
                    self.work += packets.aligner.take_work();
                }
                running.window.take_work() + running.window.take_pending_work()
            }
            SplicePhase::AwaitingJoinPoint(_) | SplicePhase::Through => 0,
        };
        work + std::mem::take(&mut self.work)
    }

    /// Returns the maximal number of bytes that a splicer holds: a unit, or as many bytes in front
    /// of a join point; the viewers' header and the next source's header; the scanner; an Ogg page,
    /// clocks, and passed bytes.
    pub const fn memory_bytes_max(unit_bytes_max: usize) -> usize {
        unit_bytes_max + 2 * HEADER_BYTES_MAX + MEMORY_BYTES_MAX + 128 * 1024
    }

    /// Returns whether the splicer waits for a join point. Viewers get nothing meanwhile.
    pub fn is_between_sources(&self) -> bool {
        matches!(self.phase, SplicePhase::AwaitingJoinPoint(_))
    }

    fn cut(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Incompatible> {
        let SplicePhase::Running(running) = &mut self.phase else {
            return Ok(());
        };
        let Err(Unsupported) = running.cut(bytes, out) else {
            return Ok(());
        };
        self.work += running.window.take_work();
        let mut rest = running.window.take_unread(bytes);
        // Searching for a join point costs as much as the rest is long. So it is not done for a
        // source that ran for fewer bytes.
        let passed = running.offset - rest.len() as u64;
        let is_new = passed < BEGINNINGS_APART.max(rest.len() as u64);
        let SplicePhase::Running(running) =
            std::mem::replace(&mut self.phase, SplicePhase::Through)
        else {
            return Ok(());
        };
        match running.output {
            None => {
                out.append(&mut rest);
                Ok(())
            }
            Some(_) if is_new => Err(Incompatible(rest)),
            // It may have begun again. The splicer treats it as another source.
            Some(output) => {
                self.phase = SplicePhase::AwaitingJoinPoint(Box::new(JoinSearch::new(
                    running.cutter,
                    output,
                )));
                self.feed(&rest, out)
            }
        }
    }

    /// Continues the viewers' stream at a join point of the new source. The header and the prelude
    /// come first, as far as viewers do not have them.
    fn continue_at(
        &mut self,
        join: Start,
        header: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Incompatible> {
        let SplicePhase::AwaitingJoinPoint(mut joining) =
            std::mem::replace(&mut self.phase, SplicePhase::Through)
        else {
            return Ok(());
        };
        self.work += joining.scanner.take_work();
        let mut bytes = joining.bytes.bytes;
        let from = usize::try_from(join.offset).unwrap_or(usize::MAX);
        let from = from.min(bytes.len());
        let old = &joining.output.header;
        let mut front = joining.cutter.missing_headers(old, header, &bytes[from..]);
        front.extend_from_slice(join.prelude.as_slice());
        bytes.splice(..from, front);
        joining.cutter.limit_units(self.unit_limit);
        let format = joining.output.format;
        self.phase =
            SplicePhase::Running(Running::new(joining.cutter, format, Some(joining.output)));
        self.cut(&bytes, out)
    }
}

impl Opening {
    /// Reads the source's first bytes. Returns `None` until the format is clear, and then the
    /// format (`None`: unknown) with the rest of the bytes. It works byte by byte, so that the
    /// bytes that have gone out do not depend on how the input is cut.
    fn detect<'a>(
        &mut self,
        bytes: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Option<(Option<Format>, &'a [u8])> {
        for (index, byte) in bytes.iter().enumerate() {
            grow(&mut self.bytes, 1, detect::BYTES_MAX);
            self.bytes.push(*byte);
            let mut format = None;
            self.scanner.feed(&[*byte], &mut |finding, _| {
                format.get_or_insert(match finding {
                    Finding::Format(format) => Some(format),
                    _ => None,
                });
            });
            if let Some(format) = format {
                return Some((format, &bytes[index + 1..]));
            }
            if self.scanner.may_be_sound_only() {
                self.pass(out);
            }
        }
        None
    }

    fn pass(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes[self.bytes_sent..]);
        self.bytes_sent = self.bytes.len();
    }
}

impl Running {
    fn new(cutter: UnitCutter, format: Format, output: Option<OutputLayout>) -> Running {
        Running {
            cutter,
            format,
            window: Window::default(),
            offset: 0,
            output,
        }
    }

    fn cut(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Unsupported> {
        let (window, offset) = (&mut self.window, self.offset);
        self.offset += bytes.len() as u64;
        match &mut self.cutter {
            UnitCutter::Frames(frames) => window.walk(frames, bytes, offset, out),
            UnitCutter::Packets(packets) => window.walk(packets, bytes, offset, out),
            UnitCutter::Pages(pages) => window.walk(pages, bytes, offset, out),
            UnitCutter::Blocks(blocks) => window.walk(&mut **blocks, bytes, offset, out),
            UnitCutter::Tags(tags) => window.walk(&mut **tags, bytes, offset, out),
            UnitCutter::Fragments(cutter) => window.walk(&mut **cutter, bytes, offset, out),
        }
    }

    /// Ends the stream. Of a later source only whole units go out. Sound is an exception: decoders
    /// find frames by their heads, and drop a part of one.
    fn finish(mut self, out: &mut Vec<u8>) {
        match &mut self.cutter {
            UnitCutter::Packets(packets) => packets.release(out),
            UnitCutter::Frames(frames) => frames.release(&self.window.take_unread(&[]), out),
            _ if self.output.is_none() => out.append(&mut self.window.take_unread(&[])),
            UnitCutter::Pages(_)
            | UnitCutter::Blocks(_)
            | UnitCutter::Tags(_)
            | UnitCutter::Fragments(_) => {}
        }
    }
}

impl JoinSearch {
    fn new(mut cutter: UnitCutter, output: OutputLayout) -> JoinSearch {
        cutter.seam();
        JoinSearch {
            cutter,
            output,
            scanner: Scanner::default(),
            bytes: Copied::default(),
            format: None,
            work: 0,
        }
    }

    /// Returns the source's first join point with the header there, once it shows one.
    fn find_join(&mut self) -> Result<Option<(Start, Vec<u8>)>, Unsupported> {
        let mut join = None;
        let mut is_over = false;
        let read = usize::try_from(self.scanner.offset).unwrap_or(usize::MAX);
        let unread = self.bytes.get(read..).unwrap_or_default();
        self.scanner
            .feed(unread, &mut |finding, header| match finding {
                _ if join.is_some() || is_over => {}
                Finding::Format(format) => self.format = Some(format),
                Finding::Unknown => is_over = true,
                Finding::Join(start) => {
                    // The header is copied here, and not when it comes: before its first join point
                    // a source may change it at will.
                    join = Some((start, header.at(start.counter)));
                }
                Finding::Header
                | Finding::Unit(_)
                | Finding::Entry(_)
                | Finding::Time(..)
                | Finding::Lasts(_)
                | Finding::Split(_)
                | Finding::Break(_) => {}
            });
        let is_alike = |(join, header): &(Start, Vec<u8>)| self.is_alike(join, header);
        if is_over || !join.as_ref().is_none_or(is_alike) {
            return Err(Unsupported);
        }
        Ok(join)
    }

    fn is_alike(&self, join: &Start, new: &[u8]) -> bool {
        let old = &self.output.header;
        self.format == Some(self.output.format)
            && match &self.cutter {
                UnitCutter::Frames(_) | UnitCutter::Pages(_) => true,
                UnitCutter::Packets(packets) => packets.are_like(new),
                UnitCutter::Blocks(_) => matroska::are_alike(old, new),
                UnitCutter::Tags(tags) => {
                    flv::are_alike(old, new) && tags.is_like(&self.bytes, join.offset)
                }
                UnitCutter::Fragments(_) => mp4::are_alike(old, new),
            }
    }
}

impl UnitCutter {
    /// Returns a cutter for a source of which `bytes_sent` bytes are with the viewers.
    fn new(format: Format, unit_bytes_max: usize, bytes_sent: usize) -> UnitCutter {
        match format {
            Format::Mp3 | Format::Aac => UnitCutter::Frames(FrameCutter { bytes_sent }),
            Format::MpegTs => UnitCutter::Packets(PacketCutter::new(unit_bytes_max)),
            Format::Ogg => UnitCutter::Pages(PageCutter),
            Format::WebM | Format::Matroska => {
                UnitCutter::Blocks(Box::new(matroska::BlockCutter::new(unit_bytes_max)))
            }
            Format::Flv => UnitCutter::Tags(Box::new(flv::TagCutter::new(unit_bytes_max))),
            Format::Mp4 => {
                UnitCutter::Fragments(Box::new(mp4::FragmentCutter::new(unit_bytes_max)))
            }
        }
    }

    /// Sets the length of the longest unit that waits. Returns whether it changes.
    fn limit_units(&mut self, bytes_max: usize) -> bool {
        let limit = match self {
            UnitCutter::Frames(_) | UnitCutter::Pages(_) => return false,
            UnitCutter::Packets(packets) => &mut packets.waiting.bytes_max,
            UnitCutter::Blocks(blocks) => &mut blocks.unit_bytes_max,
            UnitCutter::Tags(tags) => &mut tags.unit_bytes_max,
            UnitCutter::Fragments(fragments) => &mut fragments.unit_bytes_max,
        };
        std::mem::replace(limit, bytes_max) != bytes_max
    }

    /// Returns the bytes in front of a source that continues with `bytes`: its own header, the
    /// parts of it that viewers lack, or nothing.
    fn missing_headers(&self, old: &[u8], new: &[u8], bytes: &[u8]) -> Vec<u8> {
        match self {
            UnitCutter::Packets(_) | UnitCutter::Pages(_) => new.to_vec(),
            UnitCutter::Tags(_) => flv::missing_headers(old, new, bytes),
            UnitCutter::Frames(_) | UnitCutter::Blocks(_) | UnitCutter::Fragments(_) => Vec::new(),
        }
    }

    /// Returns whether a next source can be compared with this one. `header` is the header that
    /// viewers have.
    fn can_continue(&self, header: &[u8]) -> bool {
        match self {
            UnitCutter::Frames(_) | UnitCutter::Packets(_) => true,
            // After a part of a header no player takes another one.
            UnitCutter::Pages(_) => !header.is_empty(),
            UnitCutter::Blocks(blocks) => !header.is_empty() && blocks.block_bytes_left == 0,
            UnitCutter::Fragments(fragments) => {
                !header.is_empty() && fragments.mdat_bytes_left == 0
            }
            // Missing parts of a header can precede any tag.
            UnitCutter::Tags(tags) => tags.tag_bytes_left == 0,
        }
    }

    fn seam(&mut self) {
        match self {
            UnitCutter::Frames(frames) => *frames = FrameCutter { bytes_sent: 0 },
            UnitCutter::Pages(_) => {}
            UnitCutter::Packets(packets) => packets.seam(),
            UnitCutter::Blocks(blocks) => blocks.seam(),
            UnitCutter::Tags(tags) => tags.seam(),
            UnitCutter::Fragments(fragments) => fragments.seam(),
        }
    }
}

/// Passes bytes of a unit that is too long to wait.
fn copy(bytes_left: &mut u64, seen: &[u8], out: &mut Vec<u8>) -> u64 {
    let length = (*bytes_left).min(seen.len() as u64);
    *bytes_left -= length;
    out.extend_from_slice(&seen[..length as usize]);
    length
}

/// Cuts Ogg into pages. Bytes between pages pass as they come.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct PageCutter;

impl Walker<Vec<u8>> for PageCutter {
    fn step(&mut self, seen: &[u8], _at: u64, out: &mut Vec<u8>) -> StepResult {
        let length = match Page::read(seen) {
            Ok(page) => page.length(),
            Err(Unread::Needs(length)) => return Err(Unread::Needs(length)),
            Err(Unread::Other(Unsupported)) => next_page_at(seen),
        };
        let page = seen.get(..length).ok_or(Unread::Needs(length))?;
        out.extend_from_slice(page);
        Ok(length as u64)
    }
}

#[cfg(test)]
mod tests;
