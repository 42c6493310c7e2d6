//! What a container's bytes tell about joining: where its headers end, where decoding can begin,
//! where its units begin.
//!
//! A [`Scanner`] is fed a stream's bytes as they arrive, in any splits, and tells [`Finding`]s one
//! by one. It never changes, copies or delays the bytes. What it does not understand makes it let
//! go, and the stream goes on as one of unknown format: nothing here ends a stream. The same bytes
//! give the same findings however they are cut.
//!
//! It owns the stream's header, in bounded parts, and lends it with each finding and at any time
//! between (see [`Header`]): what is lent fits the points that were told since the last
//! [`Finding::Header`]. A finding owns nothing, so that what a byte costs does not depend on what
//! it makes of the header.
//!
//! All that a scanner holds is at most [`HELD_BYTES_MAX`]. A source that needs more is let go.

mod detect;
pub(crate) mod ebml;
pub(crate) mod flv;
pub(crate) mod frames;
mod header;
pub(crate) mod matroska;
pub(crate) mod mp4;
pub mod mpegts;
mod ogg;
#[cfg_attr(not(feature = "hold"), path = "splice/absent.rs")]
pub mod splice;
pub(crate) mod window;

use crate::time::MediaTime;
use detect::{Beginning, Detection};
use flv::Flv;
use frames::Walk;
pub use header::{HEADER_BYTES_MAX, Header};
use matroska::Matroska;
use mp4::Mp4;
use mpegts::MpegTs;
use ogg::Ogg;
use window::Window;

/// Bytes from a unit's first byte on; a viewer that begins there is first sent the prelude.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Start {
    /// From the stream's first byte.
    pub offset: u64,
    /// What the container needs in front. Usually nothing.
    pub prelude: Prelude,
    /// Of MPEG-TS: the continuity counter of the next packet of the video, 0 to 15, where its
    /// parameter sets go in front ([`Header::at`]).
    pub counter: Option<u8>,
}

impl Start {
    /// A start that needs nothing in front.
    pub fn at(offset: u64) -> Start {
        Start {
            offset,
            prelude: Prelude::default(),
            counter: None,
        }
    }
}

#[cfg(feature = "handover")]
impl Start {
    /// Whether its fields are within their bounds.
    pub(crate) fn fits(&self) -> bool {
        self.prelude.fits() && self.counter.is_none_or(|counter| counter < 16)
    }
}

/// A few bytes of a start's own: for Matroska, a cluster's head and its time stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Prelude {
    length: u8,
    bytes: [u8; Prelude::BYTES_MAX],
}

impl Prelude {
    /// More never fits.
    pub const BYTES_MAX: usize = 31;

    /// `None` if it does not fit.
    pub fn new(bytes: &[u8]) -> Option<Prelude> {
        let mut prelude = Prelude {
            length: bytes.len() as u8,
            ..Prelude::default()
        };
        prelude.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(prelude)
    }

    /// Whether what was told of it can be.
    #[cfg(feature = "handover")]
    pub(crate) fn fits(&self) -> bool {
        usize::from(self.length) <= Prelude::BYTES_MAX
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// The containers that can be joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum Format {
    /// WebM
    WebM,
    /// Matroska
    Matroska,
    /// MPEG transport stream
    MpegTs,
    /// Ogg
    Ogg,
    /// fragmented MP4
    Mp4,
    /// FLV
    Flv,
    /// MPEG audio
    Mp3,
    /// AAC in ADTS
    Aac,
}

impl Format {
    /// As list-streams names it.
    pub fn name(self) -> &'static str {
        self.names().0
    }

    /// Its media type.
    pub fn media_type(self) -> &'static str {
        self.names().1
    }

    fn names(self) -> (&'static str, &'static str) {
        match self {
            Format::WebM => ("webm", "video/webm"),
            Format::Matroska => ("matroska", "video/x-matroska"),
            Format::MpegTs => ("mpegts", "video/mp2t"),
            Format::Ogg => ("ogg", "application/ogg"),
            Format::Mp4 => ("mp4", "video/mp4"),
            Format::Flv => ("flv", "video/x-flv"),
            Format::Mp3 => ("mp3", "audio/mpeg"),
            Format::Aac => ("aac", "audio/aac"),
        }
    }
}

/// What a scan found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// What the first bytes show: comes first. A tag that stands in front of sound is taken for
    /// MP3; what follows may correct it once.
    Format(Format),
    /// Nothing known, or not any more: no point counts, and nothing more is found.
    Unknown,
    /// What a late viewer gets first has changed. No earlier point counts any more.
    Header,
    /// What begins at this offset, a picture or some sound, is to be decoded at this time. Told of
    /// MPEG-TS, MP4 and sound that is a row of frames; of a point before the point itself is.
    Time(u64, MediaTime),
    /// The fragment of MP4 whose time was told last says that it lasts this many ticks of
    /// [`MediaTime`], more than none.
    Lasts(u64),
    /// The media that came so far ends before this offset: another header begins there.
    Break(u64),
    /// Where decoding can begin, what began before is not whole: PES packets of other streams of
    /// MPEG-TS go on behind it. Told before the point itself.
    Split(u64),
    /// Decoding can begin here. Offsets ascend; one may lie before bytes that were fed already.
    Join(Start),
    /// A unit begins here: a viewer may be cut off before it, or go on at it after a gap. Offsets
    /// ascend, [`UNIT_SPACING`] apart at least.
    Unit(Start),
    /// A viewer may go on here after a gap, but not be cut off: the container has no way to say
    /// that the rest of what this is in does not come. Spaced like units.
    Entry(Start),
}

/// Units need not be reported closer together than this.
pub const UNIT_SPACING: u64 = 4096;

/// What takes findings as they are told, each with the header that holds then.
pub type Findings<'a> = dyn FnMut(Finding, Header<'_>) + 'a;

/// What one scanner holds at the very most: the header that was told and the next one as it comes,
/// of which each is at most [`HEADER_BYTES_MAX`]; what must be seen whole, which is not longer
/// either; and the scanner itself.
pub const HELD_BYTES_MAX: usize = 3 * HEADER_BYTES_MAX + 64 * 1024;

/// Bytes without a known thing among them: after so many the container is let go.
const SEARCH_BYTES_MAX: u64 = 1024 * 1024;

/// The container is not understood (any more).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported;

/// Scans one stream.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Scanner {
    state: State,
    window: Window,
    /// The offset of the next byte.
    offset: u64,
}

#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum State {
    /// Too few bytes to tell; these are they: at most [`detect::BYTES_MAX`].
    Undecided(Beginning),
    Known(Container),
    Unknown,
}

#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum Container {
    Matroska(Box<Matroska>),
    MpegTs(Box<MpegTs>),
    Mp4(Box<Mp4>),
    Flv(Box<Flv>),
    Ogg(Box<Ogg>),
    Sound(Box<Walk>),
}

impl Container {
    fn feed(
        &mut self,
        window: &mut Window,
        bytes: &[u8],
        offset: u64,
        findings: &mut Findings<'_>,
    ) -> Result<(), Unsupported> {
        match self {
            Container::MpegTs(scanner) => scanner.feed(bytes, offset, findings),
            Container::Matroska(walker) => window.walk(&mut **walker, bytes, offset, findings),
            Container::Mp4(walker) => window.walk(&mut **walker, bytes, offset, findings),
            Container::Flv(walker) => window.walk(&mut **walker, bytes, offset, findings),
            Container::Ogg(walker) => window.walk(&mut **walker, bytes, offset, findings),
            Container::Sound(walker) => window.walk(&mut **walker, bytes, offset, findings),
        }
    }
}

impl Container {
    fn header(&self) -> Header<'_> {
        match self {
            Container::MpegTs(scanner) => scanner.header(),
            Container::Matroska(walker) => walker.header(),
            Container::Mp4(walker) => walker.header(),
            Container::Flv(walker) => walker.header(),
            Container::Ogg(walker) => walker.header(),
            Container::Sound(_) => Header::NONE,
        }
    }

    fn held_bytes(&self) -> usize {
        match self {
            Container::MpegTs(scanner) => size_of::<MpegTs>() + scanner.held_bytes(),
            Container::Matroska(walker) => size_of::<Matroska>() + walker.held_bytes(),
            Container::Mp4(walker) => size_of::<Mp4>() + walker.held_bytes(),
            Container::Flv(walker) => size_of::<Flv>() + walker.held_bytes(),
            Container::Ogg(walker) => size_of::<Ogg>() + walker.held_bytes(),
            Container::Sound(_) => size_of::<Walk>(),
        }
    }
}

impl Default for Scanner {
    fn default() -> Scanner {
        Scanner {
            state: State::Undecided(Beginning::default()),
            window: Window::default(),
            offset: 0,
        }
    }
}

impl Scanner {
    /// A scanner before the stream's first byte.
    pub fn new() -> Scanner {
        Scanner::default()
    }

    /// Takes the stream's next bytes, and tells what they show.
    pub fn feed(&mut self, bytes: &[u8], findings: &mut Findings<'_>) {
        let offset = self.offset;
        self.offset += bytes.len() as u64;
        match &mut self.state {
            State::Unknown => {}
            State::Known(container) => {
                if container
                    .feed(&mut self.window, bytes, offset, findings)
                    .is_err()
                {
                    self.let_go(findings);
                }
            }
            State::Undecided(beginning) => {
                for (index, byte) in bytes.iter().enumerate() {
                    match beginning.take(*byte) {
                        Detection::More => {}
                        Detection::Unknown => return self.let_go(findings),
                        Detection::Known(format) => {
                            let held = std::mem::take(beginning);
                            let rest = &bytes[index + 1..];
                            return self.begin(format, held.bytes(), rest, findings);
                        }
                    }
                }
            }
        }
    }

    /// The header that was told last, which fits all points that were told since.
    pub fn header(&self) -> Header<'_> {
        match &self.state {
            State::Known(container) => container.header(),
            State::Undecided(_) | State::Unknown => Header::NONE,
        }
    }

    /// Whether what comes now is of use only to whoever has the stream from its first byte on: of
    /// MP4 whose positions count from there.
    pub fn needs_first_byte(&self) -> bool {
        match &self.state {
            State::Known(Container::Mp4(walker)) => walker.needs_first_byte(),
            State::Known(_) | State::Undecided(_) | State::Unknown => false,
        }
    }

    /// Bytes that its allocations take: [`HELD_BYTES_MAX`] at the most.
    pub fn held_bytes(&self) -> usize {
        self.window.held_bytes()
            + match &self.state {
                State::Undecided(beginning) => beginning.held_bytes(),
                State::Known(container) => container.held_bytes(),
                State::Unknown => 0,
            }
    }

    /// Whether what has arrived may still turn out to be a container's beginning.
    pub fn may_be_magic(&self) -> bool {
        match &self.state {
            State::Undecided(beginning) => detect::may_be_magic(beginning.bytes()),
            State::Known(_) | State::Unknown => false,
        }
    }

    /// Whether what has arrived can go out whatever it turns out to be.
    pub fn may_be_sound_only(&self) -> bool {
        match &self.state {
            State::Undecided(beginning) => beginning.may_be_sound_only(),
            State::Known(_) | State::Unknown => false,
        }
    }

    fn begin(&mut self, format: Format, held: &[u8], rest: &[u8], findings: &mut Findings<'_>) {
        findings(Finding::Format(format), Header::NONE);
        let mut container = match format {
            Format::WebM | Format::Matroska => Container::Matroska(Box::default()),
            Format::MpegTs => Container::MpegTs(Box::default()),
            Format::Ogg => Container::Ogg(Box::default()),
            Format::Mp3 | Format::Aac => Container::Sound(Box::new(Walk::new(format))),
            Format::Mp4 => Container::Mp4(Box::default()),
            Format::Flv => Container::Flv(Box::default()),
        };
        let window = &mut self.window;
        // All of the stream was held until here.
        let fed = container.feed(window, held, 0, findings);
        let rest_offset = held.len() as u64;
        match fed.and_then(|()| container.feed(window, rest, rest_offset, findings)) {
            Ok(()) => self.state = State::Known(container),
            Err(Unsupported) => self.let_go(findings),
        }
    }

    fn let_go(&mut self, findings: &mut Findings<'_>) {
        self.state = State::Unknown;
        self.window = Window::default();
        findings(Finding::Unknown, Header::NONE);
    }
}

#[cfg(feature = "handover")]
impl Scanner {
    /// Whether what was told of it can be, of bytes up to this offset: all places that it tells
    /// lie within them.
    pub(crate) fn fits(&self, offset: u64) -> bool {
        let state_fits = match &self.state {
            State::Undecided(beginning) => beginning.fits(offset),
            State::Known(container) => container.fits(offset),
            State::Unknown => true,
        };
        state_fits
            && self.offset == offset
            && self.window.fits(offset, HEADER_BYTES_MAX)
            && self.held_bytes() <= HELD_BYTES_MAX
    }
}

#[cfg(feature = "handover")]
impl Container {
    fn fits(&self, offset: u64) -> bool {
        match self {
            Container::Matroska(walker) => walker.fits(offset),
            Container::MpegTs(scanner) => scanner.fits(offset),
            Container::Mp4(walker) => walker.fits(offset),
            Container::Flv(walker) => walker.fits(offset),
            Container::Ogg(walker) => walker.fits(),
            Container::Sound(walker) => walker.fits(),
        }
    }
}

#[cfg(test)]
mod tests;
