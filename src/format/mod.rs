//! Finds where a stream can be joined: where its header ends, where decoding can begin, and where
//! units begin.
//!
//! A [`Scanner`] reads a stream's bytes in pieces of any size and reports [`Finding`]s one by one.
//! The findings do not depend on how the bytes are cut. The scanner never changes, copies or delays
//! the bytes. When it does not understand the container, it reports [`Finding::Unknown`], and the
//! stream continues as one of unknown format. Nothing here ends a stream.
//!
//! The scanner owns the stream's header, in parts of bounded size. It lends the header with each
//! finding, and between findings (see [`Header`]). The lent header fits all points reported since
//! the last [`Finding::Header`]. A finding copies nothing, so a source that changes its header often
//! causes no extra work.
//!
//! A scanner holds at most [`MEMORY_BYTES_MAX`]. If a source needs more, the scanner reports
//! [`Finding::Unknown`].

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

#[cfg(feature = "handover")]
use crate::copied::{Copied, CopiedPart};
use crate::time::MediaTime;
use detect::Beginning;
use flv::Flv;
use frames::Sound;
pub use header::{HEADER_BYTES_MAX, Header};
use matroska::Matroska;
use mp4::Mp4;
use mpegts::MpegTs;
use ogg::Ogg;
use window::{Unread, Window};

/// Place where a viewer can begin: the prelude, then the stream's bytes from this offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Start {
    /// Offset of the unit's first byte, counted from the stream's first byte.
    pub offset: u64,
    /// Bytes that the container needs in front. Usually there are none, and a hand-over has thousands
    /// of starts.
    #[cfg_attr(
        feature = "handover",
        serde(default, skip_serializing_if = "Prelude::is_empty")
    )]
    pub prelude: Prelude,
    /// Continuity counter of the video's next packet, 0 to 15. Only MPEG-TS has it, and only where
    /// parameter sets are sent in front ([`Header::at`]).
    #[cfg_attr(
        feature = "handover",
        serde(default, skip_serializing_if = "Option::is_none")
    )]
    pub counter: Option<u8>,
}

impl Start {
    /// Returns a start that needs no prelude.
    pub fn at(offset: u64) -> Start {
        Start {
            offset,
            prelude: Prelude::default(),
            counter: None,
        }
    }
}

/// A few bytes that a viewer gets before a start. For Matroska: the head of a Cluster and its time
/// stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prelude {
    /// Number of bytes in use.
    length: u8,
    /// The bytes, and zeros.
    bytes: [u8; Prelude::BYTES_MAX],
}

impl Prelude {
    /// Longest prelude.
    pub const BYTES_MAX: usize = 31;

    /// Copies the bytes. `None` if they are too long.
    pub fn new(bytes: &[u8]) -> Option<Prelude> {
        let mut prelude = Prelude {
            length: bytes.len() as u8,
            ..Prelude::default()
        };
        prelude.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(prelude)
    }

    #[cfg(feature = "handover")]
    fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length).min(Prelude::BYTES_MAX)]
    }
}

/// A hand-over sends thousands of preludes, most of them empty: as text they are short.
#[cfg(feature = "handover")]
impl serde::Serialize for Prelude {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        crate::handover::bytes::serialize(&self.as_slice(), serializer)
    }
}

#[cfg(feature = "handover")]
impl<'de> serde::Deserialize<'de> for Prelude {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Prelude, D::Error> {
        let bytes: Vec<u8> = crate::handover::bytes::deserialize(deserializer)?;
        Prelude::new(&bytes).ok_or_else(|| serde::de::Error::custom("a prelude that is too long"))
    }
}

/// Containers that viewers can join.
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
    /// Returns the name that `list-streams` shows.
    pub fn name(self) -> &'static str {
        self.names().0
    }

    /// Returns the media type.
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

/// One thing that a scanner found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Format of the stream. It is the first finding. An ID3 tag at the beginning counts as MP3.
    /// The frames after the tag may show another format; then this is reported a second time.
    Format(Format),
    /// The format is unknown, or the container is not understood any more. Earlier points do not
    /// count, and there are no more findings.
    Unknown,
    /// A header is complete: the first one, or one that replaces it. Earlier points do not count any
    /// more.
    Header,
    /// Decode time of the picture or sound at this offset. MPEG-TS, MP4 and bare sound have times.
    /// The time of a point precedes the point.
    Time(u64, MediaTime),
    /// Duration of the MP4 fragment of the newest time, in ticks of [`MediaTime`]: more than 0.
    Lasts(u64),
    /// The media so far ends before this offset. Another header begins there.
    Break(u64),
    /// Decoding can begin at this offset, but PES packets of other elementary streams are
    /// incomplete there. Only MPEG-TS has this. It precedes the point.
    Split(u64),
    /// Decoding can begin here. Offsets ascend. The offset may lie before bytes that the scanner
    /// has already read. No distance between two join points is guaranteed. Scanners of containers
    /// in which every unit of sound is a join point leave out most of them.
    Join(Start),
    /// A unit begins here. A viewer can be cut off before it, or continue at it after a gap.
    /// Offsets ascend. Scanners leave out units that are nearer than [`UNIT_SPACING`] to the last
    /// one, except that Matroska reports each Cluster. The buffer leaves out those, too.
    Unit(Start),
    /// A viewer can continue here after a gap, but cannot be cut off here: this is within an
    /// element, for instance a Matroska Cluster, whose length the viewer already has. Entries have
    /// the spacing of units.
    Entry(Start),
}

/// Smallest distance between two reported units. Only Matroska's Clusters may be nearer.
pub const UNIT_SPACING: u64 = 4096;

/// Smallest distance between two reported join points of sound, where each unit is one.
const SOUND_SPACING: u64 = 1024;

/// Returns whether an offset is at least `spacing` bytes after the last one.
fn is_spaced(last: Option<u64>, at: u64, spacing: u64) -> bool {
    last.is_none_or(|last| at.saturating_sub(last) >= spacing)
}

/// Receives findings one by one, each with the header in force.
pub type Findings<'a> = dyn FnMut(Finding, Header<'_>) + 'a;

/// Maximal number of bytes that a scanner holds: the header in force, the next header, one element
/// that is read whole, and the scanner itself. Each of the first three has at most
/// [`HEADER_BYTES_MAX`].
pub const MEMORY_BYTES_MAX: usize = 3 * HEADER_BYTES_MAX + 64 * 1024;

/// Maximal number of bytes that a scanner skips in search of an element that it knows. Then it
/// reports [`Finding::Unknown`].
const SEARCH_BYTES_MAX: u64 = 1024 * 1024;

/// Work of a search for a format in one byte: the number of bytes that take as long to copy.
const SEARCH_WORK: usize = 32;

/// The container is not understood, or not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported;

/// Scanner of one stream.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Scanner {
    state: ScannerState,
    window: Window,
    /// Offset of the next byte.
    offset: u64,
    /// Number of bytes that were searched for a format since [`Scanner::take_work`].
    #[cfg_attr(feature = "handover", serde(skip))]
    searched: usize,
}

#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum ScannerState {
    /// The bytes so far do not show the format. They are at most [`detect::BYTES_MAX`].
    Undecided(Beginning),
    /// The format is known.
    Known(Container),
    /// The format is unknown, or the scanner has given up.
    Unknown,
}

#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum Container {
    Matroska(Box<Matroska>),
    MpegTs(Box<MpegTs>),
    Mp4(Box<Mp4>),
    Flv(Box<Flv>),
    Ogg(Box<Ogg>),
    Sound(Box<Sound>),
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

    /// Returns the header. It is empty until the container has read a whole one: a new container
    /// gets all bytes of the stream before [`Scanner::header`] can ask it.
    fn header(&self) -> Header<'_> {
        match self {
            Container::MpegTs(scanner) => scanner.header(),
            Container::Matroska(walker) => walker.header.lend(),
            Container::Mp4(walker) => walker.header.lend(),
            Container::Flv(walker) => walker.header(),
            Container::Ogg(walker) => walker.header.lend(),
            Container::Sound(_) => Header::NONE,
        }
    }

    #[cfg(feature = "handover")]
    fn is_valid(&self, offset: u64) -> bool {
        match self {
            Container::Matroska(walker) => walker.is_valid(offset),
            Container::MpegTs(scanner) => scanner.is_valid(offset),
            Container::Mp4(walker) => walker.is_valid(offset),
            Container::Flv(walker) => walker.is_valid(),
            Container::Ogg(walker) => walker.is_valid(),
            Container::Sound(_) => true,
        }
    }
}

impl Default for Scanner {
    fn default() -> Scanner {
        Scanner {
            state: ScannerState::Undecided(Beginning::default()),
            window: Window::default(),
            offset: 0,
            searched: 0,
        }
    }
}

impl Scanner {
    /// Reads the stream's next bytes and reports what they show.
    pub fn feed(&mut self, bytes: &[u8], findings: &mut Findings<'_>) {
        let offset = self.offset;
        self.offset += bytes.len() as u64;
        match &mut self.state {
            ScannerState::Unknown => {}
            ScannerState::Known(container) => {
                let fed = container.feed(&mut self.window, bytes, offset, findings);
                if fed == Err(Unsupported) {
                    self.give_up(findings);
                }
            }
            ScannerState::Undecided(beginning) => {
                for (index, byte) in bytes.iter().enumerate() {
                    self.searched += 1;
                    match beginning.take(*byte) {
                        Err(Unread::Needs(_)) => {}
                        Err(Unread::Other(Unsupported)) => return self.give_up(findings),
                        Ok(format) => {
                            let pending = std::mem::take(beginning);
                            let rest = &bytes[index + 1..];
                            return self.begin(format, &pending.bytes, rest, findings);
                        }
                    }
                }
            }
        }
    }

    /// Returns the work since the last call, as the number of bytes that take as long to copy.
    pub fn take_work(&mut self) -> usize {
        let of_container = match &mut self.state {
            ScannerState::Known(Container::MpegTs(scanner)) => scanner.take_work(),
            ScannerState::Known(_) | ScannerState::Undecided(_) | ScannerState::Unknown => 0,
        };
        let of_search = SEARCH_WORK * std::mem::take(&mut self.searched);
        self.window.take_work() + self.window.take_pending_work() + of_container + of_search
    }

    /// Returns the newest header. It fits all points that were reported since.
    pub fn header(&self) -> Header<'_> {
        match &self.state {
            ScannerState::Known(container) => container.header(),
            ScannerState::Undecided(_) | ScannerState::Unknown => Header::NONE,
        }
    }

    /// Returns whether only viewers who have the first byte can use the next bytes. This is so for
    /// MP4 whose positions count from the first byte.
    pub fn needs_first_byte(&self) -> bool {
        matches!(&self.state, ScannerState::Known(Container::Mp4(mp4)) if mp4.is_absolute)
    }

    /// Returns whether the bytes so far may be the beginning of a container.
    pub fn may_be_magic(&self) -> bool {
        match &self.state {
            ScannerState::Undecided(beginning) => detect::may_be_magic(&beginning.bytes),
            ScannerState::Known(_) | ScannerState::Unknown => false,
        }
    }

    /// Returns whether the stream can only be bare sound, or of unknown format. Its first bytes can
    /// then go out before the format is known.
    pub fn may_be_sound_only(&self) -> bool {
        matches!(&self.state, ScannerState::Undecided(beginning) if beginning.may_be_sound_only())
    }

    fn begin(&mut self, format: Format, pending: &[u8], rest: &[u8], findings: &mut Findings<'_>) {
        findings(Finding::Format(format), Header::NONE);
        let mut container = match format {
            Format::WebM | Format::Matroska => Container::Matroska(Box::default()),
            Format::MpegTs => Container::MpegTs(Box::default()),
            Format::Ogg => Container::Ogg(Box::default()),
            Format::Mp3 | Format::Aac => Container::Sound(Box::new(Sound::new(format))),
            Format::Mp4 => Container::Mp4(Box::default()),
            Format::Flv => Container::Flv(Box::default()),
        };
        let window = &mut self.window;
        // The scanner held the whole stream until here.
        let fed = container.feed(window, pending, 0, findings);
        let rest_offset = pending.len() as u64;
        match fed.and_then(|()| container.feed(window, rest, rest_offset, findings)) {
            Ok(()) => self.state = ScannerState::Known(container),
            Err(Unsupported) => self.give_up(findings),
        }
    }

    fn give_up(&mut self, findings: &mut Findings<'_>) {
        self.state = ScannerState::Unknown;
        self.window = Window::default();
        findings(Finding::Unknown, Header::NONE);
    }

    /// Returns the bytes that it holds of this kind.
    #[cfg(feature = "handover")]
    pub(crate) fn copied(&mut self, part: CopiedPart) -> Option<&mut Copied> {
        if part == CopiedPart::Scanned {
            return Some(&mut self.window.pending);
        }
        let ScannerState::Known(container) = &mut self.state else {
            return None;
        };
        match container {
            Container::Matroska(walker) => walker.header.copied(part),
            Container::Mp4(walker) => walker.header.copied(part),
            Container::Ogg(walker) => walker.header.copied(part),
            Container::Flv(walker) => walker.copied(part),
            Container::MpegTs(_) | Container::Sound(_) => None,
        }
    }

    /// Returns whether a handed-over state is possible, for bytes up to this offset: all offsets in
    /// it lie within them.
    #[cfg(feature = "handover")]
    pub(crate) fn is_valid(&self, offset: u64) -> bool {
        let state_fits = match &self.state {
            ScannerState::Undecided(beginning) => beginning.is_valid(offset),
            ScannerState::Known(container) => container.is_valid(offset),
            ScannerState::Unknown => true,
        };
        state_fits && self.offset == offset && self.window.is_valid(offset, HEADER_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests;
