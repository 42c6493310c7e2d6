//! Splicing: what viewers get of a stream whose source may break off, so that another source can go
//! on with it.
//!
//! ```text
//!   first source ─→ Opening ─→ Running ── it breaks ─→ Joining ── decoding can begin ─→ Running …
//!                      └─→ Through (unknown: nothing can go on with it)  └─→ Unlike (other tracks)
//! ```
//!
//! Viewers get whole units only: PES packets of MPEG-TS, Ogg pages, Matroska blocks, FLV tags, MP4
//! fragments, frames of MPEG audio and ADTS. So what they have had is sound wherever the source
//! breaks off. The next source goes on at its first join point: MPEG-TS and Ogg with its own
//! header first (MPEG-TS with marks where counters and clock jump), MPEG audio and ADTS as it
//! comes; of the others the header must describe the same tracks, is left out but for what viewers
//! lack of it, and the times are moved on, so that a player sees one stream.
//!
//! A state machine over bytes. It copies each byte once, and holds a unit, or what comes before a
//! join point: both are bounded, and so is all that it holds ([`Splicer::held_bytes_max`]).

mod flv;
mod frames;
mod matroska;
mod mp4;
mod packets;
mod seam;
mod timeline;
mod told;

use super::ogg::Page;
use super::window::{Look, Step, Walker, Window, grow};
use super::{
    Finding, Format, HEADER_BYTES_MAX, HELD_BYTES_MAX, Scanner, Start, Unsupported, detect,
};
use frames::Frames;
use packets::Packets;

/// Cuts one stream's sources into units, and joins them.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Splicer {
    unit_bytes_max: usize,
    stage: Stage,
}

/// A later source that begins again is taken for another one if it has run for so many bytes.
const BEGINNINGS_APART: u64 = 64 * 1024;

/// A source that does not go on with what viewers have had. These are its bytes: another stream
/// begins with them.
#[derive(Debug, PartialEq, Eq)]
pub struct Incompatible(pub Vec<u8>);

#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum Stage {
    /// Too few of the first source's bytes have come to tell what it is.
    Opening(Opening),
    Running(Running),
    /// A source broke off; the next has not come yet, or not to where it goes on.
    Joining(Box<Joining>),
    /// Bytes as they come.
    Through,
}

#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Opening {
    scanner: Scanner,
    /// All of it.
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    bytes: Vec<u8>,
    /// So many of them viewers have: they are the beginning of sound, or of nothing known.
    gone_out: usize,
}

#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Running {
    cutter: Cutter,
    /// As its first bytes show.
    format: Format,
    window: Window,
    /// Of the next byte, from where the window was new.
    offset: u64,
    /// What viewers had of the sources before, if it is not the first.
    had: Option<OutputLayout>,
}

/// What viewers have: a later source must be like it.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct OutputLayout {
    format: Format,
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    header: Vec<u8>,
}

#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Joining {
    cutter: Cutter,
    had: OutputLayout,
    /// What the source shows, of which these are the bytes.
    scanner: Scanner,
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    bytes: Vec<u8>,
    shown: Option<Format>,
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    shown_header: Vec<u8>,
}

/// What cuts a container.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum Cutter {
    Frames(Frames),
    Packets(Packets),
    Pages(Pages),
    Blocks(Box<matroska::Blocks>),
    Tags(Box<flv::Tags>),
    Fragments(Box<mp4::Fragments>),
}

impl Splicer {
    /// Before the first source. A unit longer than `unit_bytes_max` goes out as it comes, and
    /// nobody can go on with the stream in the middle of it; a source that shows no join point
    /// within so many bytes is none that goes on.
    pub fn new(unit_bytes_max: usize) -> Splicer {
        Splicer {
            unit_bytes_max,
            stage: Stage::Opening(Opening::default()),
        }
    }

    /// Takes the source's next bytes, and puts what viewers get behind `out`.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Incompatible> {
        match &mut self.stage {
            Stage::Through => out.extend_from_slice(bytes),
            Stage::Running(_) => return self.cut(bytes, out),
            Stage::Opening(opening) => {
                let Some((format, rest)) = opening.tell(bytes, out) else {
                    return Ok(());
                };
                let opening = std::mem::take(opening);
                let Some(format) = format else {
                    self.stage = Stage::Through;
                    out.extend_from_slice(&opening.bytes[opening.gone_out..]);
                    out.extend_from_slice(rest);
                    return Ok(());
                };
                let cutter = Cutter::new(format, self.unit_bytes_max, opening.gone_out);
                self.stage = Stage::Running(Running::new(cutter, format, None));
                self.cut(&opening.bytes, out)?;
                return self.feed(rest, out);
            }
            Stage::Joining(joining) => {
                grow(&mut joining.bytes, bytes.len(), self.unit_bytes_max);
                joining.bytes.extend_from_slice(bytes);
                let verdict = joining.look(bytes);
                let is_too_long = joining.bytes.len() > self.unit_bytes_max;
                match verdict {
                    Ok(Some(join)) => return self.go_on(join, out),
                    Ok(None) if !is_too_long => {}
                    Ok(None) | Err(Unsupported) => return Err(self.begin_anew()),
                }
            }
        }
        Ok(())
    }

    /// The source is over, and none follows: what was held back goes out.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        match std::mem::replace(&mut self.stage, Stage::Through) {
            Stage::Opening(opening) => {
                out.extend_from_slice(&opening.bytes[opening.gone_out..]);
            }
            Stage::Running(running) => running.finish(out),
            Stage::Joining(_) | Stage::Through => {}
        }
    }

    /// The source broke off. What viewers have had is of this format, if it shows that already,
    /// with this header. Says whether another source can go on with it; then the next bytes are
    /// that one's.
    pub fn break_off(&mut self, format: Option<Format>, header: Vec<u8>) -> bool {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Through) {
            Stage::Running(running) if running.cutter.can_go_on(&header) => {
                let format = format.unwrap_or(running.format);
                let had = OutputLayout { format, header };
                Stage::Joining(Box::new(Joining::new(running.cutter, had)))
            }
            Stage::Joining(joining) => {
                let Joining { cutter, had, .. } = *joining;
                Stage::Joining(Box::new(Joining::new(cutter, had)))
            }
            other => other,
        };
        self.is_joining()
    }

    /// Bytes that its allocations take, [`Splicer::held_bytes_max`] at the most.
    pub fn held_bytes(&self) -> usize {
        match &self.stage {
            Stage::Opening(opening) => opening.scanner.held_bytes() + opening.bytes.capacity(),
            Stage::Running(running) => {
                let had = running.had.as_ref().map_or(0, |had| had.header.capacity());
                running.cutter.held_bytes() + running.window.held_bytes() + had
            }
            Stage::Joining(joining) => {
                size_of::<Joining>()
                    + joining.cutter.held_bytes()
                    + joining.had.header.capacity()
                    + joining.scanner.held_bytes()
                    + joining.bytes.capacity()
                    + joining.shown_header.capacity()
            }
            Stage::Through => 0,
        }
    }

    /// What a splicer holds at the very most: a unit, or as much before a join point; the header
    /// that viewers had and that of the source that is to go on; what looks for its join point; an
    /// Ogg page, clocks, and what was passed.
    pub const fn held_bytes_max(unit_bytes_max: usize) -> usize {
        unit_bytes_max + 2 * HEADER_BYTES_MAX + HELD_BYTES_MAX + 128 * 1024
    }

    /// Whether what comes is looked through for where it goes on: viewers get nothing of it yet.
    pub fn is_joining(&self) -> bool {
        matches!(self.stage, Stage::Joining(_))
    }

    fn cut(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Incompatible> {
        let Stage::Running(running) = &mut self.stage else {
            return Ok(());
        };
        let Err(Unsupported) = running.cut(bytes, out) else {
            return Ok(());
        };
        let mut rest = running.window.take_rest(bytes);
        // Looking for where it begins again costs as much as is left: not for fewer bytes than
        // that.
        let passed = running.offset - rest.len() as u64;
        let is_new = passed < BEGINNINGS_APART.max(rest.len() as u64);
        let Stage::Running(running) = std::mem::replace(&mut self.stage, Stage::Through) else {
            return Ok(());
        };
        match running.had {
            None => {
                out.append(&mut rest);
                Ok(())
            }
            Some(_) if is_new => Err(Incompatible(rest)),
            // It may have begun again: as if it were another one.
            Some(had) => {
                self.stage = Stage::Joining(Box::new(Joining::new(running.cutter, had)));
                self.feed(&rest, out)
            }
        }
    }

    fn go_on(&mut self, join: Start, out: &mut Vec<u8>) -> Result<(), Incompatible> {
        let Stage::Joining(joining) = std::mem::replace(&mut self.stage, Stage::Through) else {
            return Ok(());
        };
        let mut bytes = joining.bytes;
        let from = usize::try_from(join.offset).unwrap_or(usize::MAX);
        let from = from.min(bytes.len());
        let (had, has) = (&joining.had.header, &joining.shown_header);
        let mut front = joining.cutter.introduction(had, has, &bytes[from..]);
        front.extend_from_slice(join.prelude.as_slice());
        bytes.splice(..from, front);
        let format = joining.had.format;
        self.stage = Stage::Running(Running::new(joining.cutter, format, Some(joining.had)));
        self.cut(&bytes, out)
    }

    fn begin_anew(&mut self) -> Incompatible {
        match std::mem::replace(&mut self.stage, Stage::Through) {
            Stage::Joining(joining) => Incompatible(joining.bytes),
            Stage::Opening(_) | Stage::Running(_) | Stage::Through => Incompatible(Vec::new()),
        }
    }
}

impl Opening {
    /// What the source is, once that is clear (`Some(None)` if nothing known), and what follows of
    /// these bytes. Byte by byte, so that it does not depend on how they come what has gone out.
    fn tell<'a>(
        &mut self,
        bytes: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Option<(Option<Format>, &'a [u8])> {
        for (index, byte) in bytes.iter().enumerate() {
            if self.scanner.may_be_sound_only() {
                self.pass(out);
            }
            grow(&mut self.bytes, 1, detect::BYTES_MAX);
            self.bytes.push(*byte);
            let mut told = None;
            self.scanner.feed(&[*byte], &mut |finding, _| {
                told.get_or_insert(match finding {
                    Finding::Format(format) => Some(format),
                    _ => None,
                });
            });
            if let Some(told) = told {
                return Some((told, &bytes[index + 1..]));
            }
        }
        if self.scanner.may_be_sound_only() {
            self.pass(out);
        }
        None
    }

    fn pass(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes[self.gone_out..]);
        self.gone_out = self.bytes.len();
    }
}

impl Running {
    fn new(cutter: Cutter, format: Format, had: Option<OutputLayout>) -> Running {
        Running {
            cutter,
            format,
            window: Window::default(),
            offset: 0,
            had,
        }
    }

    fn cut(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Unsupported> {
        let (window, offset) = (&mut self.window, self.offset);
        self.offset += bytes.len() as u64;
        match &mut self.cutter {
            Cutter::Frames(frames) => window.walk(frames, bytes, offset, out),
            Cutter::Packets(packets) => packets.cut(bytes, out),
            Cutter::Pages(pages) => window.walk(pages, bytes, offset, out),
            Cutter::Blocks(blocks) => window.walk(&mut **blocks, bytes, offset, out),
            Cutter::Tags(tags) => window.walk(&mut **tags, bytes, offset, out),
            Cutter::Fragments(cutter) => window.walk(&mut **cutter, bytes, offset, out),
        }
    }

    /// No more comes. Of a later source only whole units go out, but for sound in frames: decoders
    /// find these by their heads, and drop what is cut short.
    fn finish(mut self, out: &mut Vec<u8>) {
        match &mut self.cutter {
            Cutter::Packets(packets) => packets.release(out),
            Cutter::Frames(frames) => frames.release(&self.window.take_rest(&[]), out),
            _ if self.had.is_none() => out.append(&mut self.window.take_rest(&[])),
            Cutter::Pages(_) | Cutter::Blocks(_) | Cutter::Tags(_) | Cutter::Fragments(_) => {}
        }
    }
}

impl Joining {
    fn new(mut cutter: Cutter, had: OutputLayout) -> Joining {
        cutter.seam();
        Joining {
            cutter,
            had,
            scanner: Scanner::new(),
            bytes: Vec::new(),
            shown: None,
            shown_header: Vec::new(),
        }
    }

    /// Where the source goes on, once it shows that.
    fn look(&mut self, bytes: &[u8]) -> Result<Option<Start>, Unsupported> {
        let mut join = None;
        let mut is_over = false;
        self.scanner
            .feed(bytes, &mut |finding, header| match finding {
                _ if join.is_some() || is_over => {}
                Finding::Format(format) => self.shown = Some(format),
                Finding::Unknown => is_over = true,
                Finding::Join(start) => {
                    // Only now: before its first point a source may change its header as often as
                    // it likes.
                    self.shown_header = header.at(start.counter);
                    join = Some(start);
                }
                Finding::Header
                | Finding::Unit(_)
                | Finding::Entry(_)
                | Finding::Time(..)
                | Finding::Lasts(_)
                | Finding::Split(_)
                | Finding::Break(_) => {}
            });
        if is_over || (join.is_some() && !self.is_alike()) {
            return Err(Unsupported);
        }
        Ok(join)
    }

    fn is_alike(&self) -> bool {
        let (had, has) = (&self.had.header, &self.shown_header);
        self.shown == Some(self.had.format)
            && match &self.cutter {
                Cutter::Frames(_) | Cutter::Pages(_) => true,
                Cutter::Packets(packets) => packets.are_like(has),
                Cutter::Blocks(_) => matroska::are_alike(had, has),
                Cutter::Tags(tags) => flv::are_alike(had, has) && tags.is_like(&self.bytes),
                Cutter::Fragments(_) => mp4::are_alike(had, has),
            }
    }
}

impl Cutter {
    /// Of a source of which so many bytes have gone out.
    fn new(format: Format, unit_bytes_max: usize, gone_out: usize) -> Cutter {
        match format {
            Format::Mp3 | Format::Aac => Cutter::Frames(Frames::new(gone_out)),
            Format::MpegTs => Cutter::Packets(Packets::new(unit_bytes_max)),
            Format::Ogg => Cutter::Pages(Pages),
            Format::WebM | Format::Matroska => {
                Cutter::Blocks(Box::new(matroska::Blocks::new(unit_bytes_max)))
            }
            Format::Flv => Cutter::Tags(Box::new(flv::Tags::new(unit_bytes_max))),
            Format::Mp4 => Cutter::Fragments(Box::new(mp4::Fragments::new(unit_bytes_max))),
        }
    }

    /// What a source is let in with that goes on with these bytes: its own header, or what of that
    /// viewers have not had.
    fn introduction(&self, had: &[u8], has: &[u8], bytes: &[u8]) -> Vec<u8> {
        match self {
            Cutter::Packets(_) | Cutter::Pages(_) => has.to_vec(),
            Cutter::Tags(_) => flv::introduction(had, has, bytes),
            Cutter::Frames(_) | Cutter::Blocks(_) | Cutter::Fragments(_) => Vec::new(),
        }
    }

    /// Whether there is what a next source is compared with: this is the header that viewers have.
    fn can_go_on(&self, header: &[u8]) -> bool {
        match self {
            Cutter::Frames(_) | Cutter::Packets(_) => true,
            // Behind a part of its headers no reader takes other ones.
            Cutter::Pages(_) => !header.is_empty(),
            Cutter::Blocks(blocks) => !header.is_empty() && !blocks.is_within_unit(),
            Cutter::Fragments(fragments) => !header.is_empty() && !fragments.is_within_unit(),
            // What viewers lack of a header can be sent at any tag.
            Cutter::Tags(tags) => !tags.is_within_unit(),
        }
    }

    fn held_bytes(&self) -> usize {
        match self {
            Cutter::Frames(_) | Cutter::Pages(_) => 0,
            Cutter::Packets(packets) => packets.held_bytes(),
            Cutter::Blocks(blocks) => size_of::<matroska::Blocks>() + blocks.held_bytes(),
            Cutter::Tags(tags) => size_of::<flv::Tags>() + tags.held_bytes(),
            Cutter::Fragments(cutter) => size_of::<mp4::Fragments>() + cutter.held_bytes(),
        }
    }

    fn seam(&mut self) {
        match self {
            Cutter::Frames(frames) => *frames = Frames::new(0),
            Cutter::Pages(_) => {}
            Cutter::Packets(packets) => packets.seam(),
            Cutter::Blocks(blocks) => blocks.seam(),
            Cutter::Tags(tags) => tags.seam(),
            Cutter::Fragments(fragments) => fragments.seam(),
        }
    }
}

/// Bytes of a unit that is too long to be held go out as they come.
fn copy(bytes_left: &mut u64, seen: &[u8], out: &mut Vec<u8>) -> Step {
    let length = (*bytes_left).min(seen.len() as u64);
    *bytes_left -= length;
    out.extend_from_slice(&seen[..length as usize]);
    Step::Pass(length)
}

/// Cuts Ogg into pages. What stands between pages passes as it comes.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Pages;

impl Walker<Vec<u8>> for Pages {
    fn look(&mut self, seen: &[u8], _at: u64, out: &mut Vec<u8>) -> Result<Step, Unsupported> {
        let length = match Page::read(seen) {
            Look::Found(page) => page.length(),
            Look::Needs(length) => return Ok(Step::Hold(length)),
            Look::Nothing => 1,
        };
        let Some(page) = seen.get(..length) else {
            return Ok(Step::Hold(length));
        };
        out.extend_from_slice(page);
        Ok(Step::Pass(length as u64))
    }
}

#[cfg(test)]
mod tests;
