//! Cuts H.264 and H.265 byte streams (annexes B of ISO/IEC 14496-10 and 23008-2) into access units.
//!
//! A unit ends where the next one begins: at a delimiter, at a parameter set or a message after a
//! picture, or at the first slice of a picture.

use super::super::medium::{Codec, Result, SECOND, Track, Unit};
use super::super::nal::{NalKind, Pictures, START_BYTES, start};
use super::UnitOutput;
use super::pes::{Mark, Marks, Times};

/// State of one stream.
#[derive(Default)]
pub(super) struct PictureStream {
    pictures: Pictures,
    /// Bytes from the beginning of the unit.
    pub bytes: Vec<u8>,
    /// No unseen start code begins before this position.
    searched: usize,
    marks: Marks,
    unit: State,
    /// Times of the newest unit.
    last: Option<Times>,
    /// Distance from one unit's decode time to the next one's.
    gap: i64,
}

/// State of the unit at the front.
#[derive(Default)]
enum State {
    /// Its beginning is not known.
    #[default]
    Searching,
    /// Its beginning is known.
    Within {
        mark: Option<Mark>,
        has_picture: bool,
    },
}

/// Bytes of a NAL unit that show where a picture begins.
const KIND_BYTES: usize = 3;
/// Distance where nothing better is known.
const USUAL_GAP: i64 = SECOND / 25;

impl PictureStream {
    /// Returns the state of a new stream. `None` for another codec.
    pub fn new(codec: Codec) -> Option<PictureStream> {
        Some(PictureStream {
            pictures: Pictures::new(codec)?,
            gap: USUAL_GAP,
            ..PictureStream::default()
        })
    }

    /// Sets up the stream and its track as another reader has. A wrong setup leaves the track as it
    /// is.
    pub fn resume(&mut self, setup: &[u8], track: &mut Track) {
        if let Ok(setup) = self.pictures.configure(setup) {
            (track.setup, track.shape) = (Some(setup.into()), self.pictures.shape());
        }
    }

    /// Drops the current unit, since packets are missing.
    pub fn lose(&mut self) {
        self.bytes.clear();
        self.searched = 0;
        self.marks.clear();
        self.unit = State::Searching;
    }

    /// Reads the next bytes of the stream. `mark` belongs to the PES packet that begins with them.
    pub fn take(
        &mut self,
        mark: Option<Mark>,
        bytes: &[u8],
        output: &mut UnitOutput<'_, '_>,
    ) -> Result {
        if let Some(mark) = mark {
            self.marks.put(self.bytes.len(), mark);
        }
        let needed = self.bytes.len() + bytes.len();
        if needed > self.bytes.capacity() {
            self.bytes.reserve_exact(bytes.len() + needed / 2);
        }
        self.bytes.extend_from_slice(bytes);
        while let Some(at) = start(&self.bytes, self.searched) {
            let nal = at + START_BYTES;
            let Some(kind_bytes) = self.bytes.get(nal..nal + KIND_BYTES) else {
                self.searched = at;
                return Ok(());
            };
            let kind = self.pictures.kind(kind_bytes);
            let is_picture = matches!(kind, Some(NalKind::Key | NalKind::Picture));
            let is_first =
                is_picture && kind_bytes[if self.pictures.is_h265 { 2 } else { 1 }] & 0x80 != 0;
            let is_front = matches!(
                kind,
                Some(NalKind::Delimiter | NalKind::Set | NalKind::Before)
            );
            self.searched = nal;
            if (is_first || is_front) && self.may_end(at) {
                self.emit(at, output)?;
                self.begin(at);
            }
            if let State::Within { mark, has_picture } = &mut self.unit {
                let is_timed = mark.is_some_and(|mark| mark.times.is_some());
                // Parameter sets in a PES packet of their own need not have times. Those of the
                // picture count.
                if is_picture && !*has_picture && !is_timed {
                    *mark = self.marks.take(at).or(*mark);
                }
                *has_picture |= is_picture;
            }
        }
        let seen = self.bytes.len().saturating_sub(START_BYTES - 1);
        self.searched = self.searched.max(seen);
        if let State::Searching = self.unit {
            self.pass(self.searched);
            self.searched = 0;
        }
        Ok(())
    }

    /// Returns whether another unit may begin there.
    fn may_end(&self, at: usize) -> bool {
        match self.unit {
            State::Searching => true,
            // The second field of a picture has no time of its own.
            State::Within { has_picture, .. } => {
                has_picture && (!self.pictures.sequence.has_fields || self.marks.has(at))
            }
        }
    }

    /// Begins a unit there.
    fn begin(&mut self, at: usize) {
        let mark = self.marks.take(at);
        self.pass(at);
        self.searched = START_BYTES;
        self.unit = State::Within {
            mark,
            has_picture: false,
        };
    }

    /// Removes bytes from the front.
    fn pass(&mut self, bytes: usize) {
        self.bytes.drain(..bytes);
        self.marks.pass(bytes);
    }

    /// Ends the stream: passes on the last unit.
    pub fn finish(&mut self, output: &mut UnitOutput<'_, '_>) -> Result {
        match self.unit {
            State::Within {
                has_picture: true, ..
            } => self.emit(self.bytes.len(), output),
            State::Within { .. } | State::Searching => Ok(()),
        }
    }

    /// Passes on the unit at the front, which has this length.
    fn emit(&mut self, length: usize, output: &mut UnitOutput<'_, '_>) -> Result {
        let State::Within { mark, .. } = self.unit else {
            return Ok(());
        };
        let unit = self.bytes.get(..length).unwrap_or_default();
        let scratch = &mut *output.scratch;
        let content = self.pictures.write(unit, scratch)?;
        let track = output.index;
        if let Some(setup) = self.pictures.new_setup() {
            output
                .timeline
                .set_up(track, &setup, self.pictures.shape())?;
        }
        let mark_times = mark.and_then(|mark| mark.times);
        let Some(times) = mark_times.or_else(|| self.guessed()) else {
            return Ok(());
        };
        self.note(times);
        let is_random_access = mark.is_some_and(|mark| mark.is_random_access);
        let is_marked = is_random_access || content.has_sets;
        let unit = Unit {
            track,
            decode: times.decode,
            present: times.present,
            is_join: content.is_key || (is_marked && content.may_begin),
            bytes: scratch,
        };
        output.timeline.emit(unit, output.sink)
    }

    fn note(&mut self, times: Times) {
        if let Some(last) = self.last.replace(times) {
            let gap = times.decode.saturating_sub(last.decode);
            if (1..=SECOND).contains(&gap) {
                self.gap = gap;
            }
        }
    }

    /// Returns times for a unit without any. The picture counts as one that is shown at once.
    fn guessed(&self) -> Option<Times> {
        let decode = self.last?.decode.saturating_add(self.gap);
        let present = decode;
        Some(Times { decode, present })
    }
}
