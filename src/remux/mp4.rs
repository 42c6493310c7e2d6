//! Fragmented MP4 (ISO/IEC 14496-12). A sample is a packet.
//!
//! The reader keeps the head of a fragment, which is bounded. It reads the samples where they are
//! in the `mdat`, in their order there. It does no work for a sample before the sample has come. So
//! announcing many samples costs nothing.

mod runs;
mod setup;

use std::ops::Range;

use super::medium::{MediaError, ReaderEvent, Result, Sink, Track, Unit, nanoseconds};
use super::packets::{Packets, leave_out};
use super::track_timeline::TrackTimeline;
use crate::format::mp4::{
    BoxHead, MOOF_BYTES_MAX, box_head, child, children, number, number_after_times,
};
use crate::format::window::{StepResult, Walker, whole};
use runs::Run;
use setup::Setup;

/// Reader of fragmented MP4.
#[derive(Default)]
pub(super) struct Mp4 {
    unit_bytes_max: usize,
    pub(super) timeline: TrackTimeline,
    /// Tracks of `moov`, carried or not: at most [`TRACKS_MAX`].
    tracks: Vec<CarriedTrack>,
    /// Whether a `moov` has come.
    has_moov: bool,
    fragment: Fragment,
    round: Round,
    /// End of the current `mdat`.
    mdat_end: Option<u64>,
    /// Buffer for units that cannot be lent as they came.
    scratch: Vec<u8>,
}

/// Tracks that follow each other in fragments, until one comes again. Bit N is the track at index N
/// of the timeline.
#[derive(Default)]
struct Round {
    /// Tracks of the previous round. At first they are all tracks of `moov`.
    expected: u16,
    /// Tracks that the `moof`s of this round name.
    named: u16,
    /// Tracks whose samples have come.
    done: u16,
    /// Tracks of the newest announcement.
    announced: u16,
}

/// A track of `moov`.
struct CarriedTrack {
    number: u32,
    ticks_per_second: u32,
    /// Defaults where a fragment says nothing.
    usual: SampleDefaults,
    /// Ticks by which its edit list moves its samples.
    shift: i64,
    /// Maximal number of ticks from presentation to decoding of a sample. The real decode times are
    /// earlier by this.
    ahead: i64,
    /// Time of the next fragment, if the fragment does not say it.
    next: i64,
    /// Index in the timeline, and the state of its packets. `None` if the track is left out.
    packets: Option<(usize, Packets)>,
}

/// Defaults for duration, size and flags of a sample.
#[derive(Clone, Copy, Default)]
struct SampleDefaults {
    /// Duration in ticks.
    duration: u32,
    /// Size in bytes.
    size: u32,
    flags: u32,
}

/// Samples of a fragment that are to come.
#[derive(Default)]
struct Fragment {
    /// Content of the `moof`.
    content: Vec<u8>,
    /// Runs, by the position of their first sample. From `next` on they have samples that are to
    /// come.
    runs: Vec<Run>,
    /// Index of the run with the next sample.
    next: usize,
}

/// A sample.
struct Sample {
    /// Index of the track among the tracks of `moov`.
    track: usize,
    /// Offsets of its bytes, counted from the stream's first byte.
    place: Range<u64>,
    /// Decode time in ticks.
    decode: i64,
    /// Presentation time in ticks.
    present: i64,
    /// Whether decoding can begin with it.
    is_join: bool,
}

/// Maximal number of tracks of a live stream.
const TRACKS_MAX: usize = 64;
const MOOV_BYTES_MAX: usize = 256 * 1024;

impl Walker<Sink<'_>, MediaError> for Mp4 {
    fn step(&mut self, seen: &[u8], at: u64, sink: &mut Sink<'_>) -> StepResult<MediaError> {
        if let Some(end) = self.mdat_end {
            if at < end {
                return self.sample(seen, at, end, sink);
            }
            self.mdat_end = None;
            self.round.done = self.round.named;
            self.announce(sink)?;
        }
        const NO_HEAD: MediaError = MediaError("a box of MP4 has no length, or less than a head");
        let head = box_head(seen).map_err(|unread| unread.because(NO_HEAD))?;
        let end = at
            .checked_add(head.length)
            .ok_or(MediaError("a box of MP4 has an impossible length"))?;
        match &head.kind {
            b"moov" => self.whole(&head, seen, at, MOOV_BYTES_MAX, sink),
            b"mdat" | b"moof" if !self.has_moov => {
                Err(MediaError("MP4 has no moov before its samples").into())
            }
            b"moof" => self.whole(&head, seen, at, MOOF_BYTES_MAX, sink),
            b"mdat" => {
                self.mdat_end = Some(end);
                Ok(head.bytes as u64)
            }
            _ => Ok(head.length),
        }
    }
}

impl Mp4 {
    pub(super) fn new(unit_bytes_max: usize) -> Mp4 {
        Mp4 {
            unit_bytes_max,
            ..Mp4::default()
        }
    }

    /// Reads a box that must be whole. It has at most `bytes_max` bytes.
    fn whole(
        &mut self,
        head: &BoxHead,
        seen: &[u8],
        at: u64,
        bytes_max: usize,
        sink: &mut Sink<'_>,
    ) -> StepResult<MediaError> {
        const TOO_LONG: MediaError = MediaError("a moov or moof is longer than 256 KiB");
        let whole = whole(seen, head.length, bytes_max);
        let content = &whole.map_err(|unread| unread.because(TOO_LONG))?[head.bytes..];
        if &head.kind == b"moov" {
            self.begin(content, sink)?;
        } else {
            self.fragment.begin(content, at, &mut self.tracks)?;
            let runs = self.fragment.runs.iter();
            let places = runs.filter_map(|run| self.tracks.get(run.track)?.packets.as_ref());
            let named = places.fold(0, |named, (place, _)| named | 1 << place);
            self.round.begin(named);
            self.announce(sink)?;
        }
        Ok(head.length)
    }

    /// Reads a `moov`.
    fn begin(&mut self, moov: &[u8], sink: &mut Sink<'_>) -> Result {
        let extends = child(moov, b"mvex")
            .ok_or(MediaError("MP4 is not fragmented: its moov has no mvex"))?;
        self.timeline.clear();
        self.tracks.clear();
        self.fragment = Fragment::default();
        let seconds = child(moov, b"mvhd").and_then(number_after_times);
        for trak in children(moov, b"trak") {
            let setup = Setup::read(trak, seconds.unwrap_or_default())
                .ok_or(MediaError("a track of MP4 does not say what it is"))?;
            if self.tracks.len() >= TRACKS_MAX {
                return Err(MediaError("MP4 has more than 64 tracks"));
            }
            let packets = self.carry(&setup, sink)?;
            self.tracks.push(CarriedTrack {
                number: setup.number,
                ticks_per_second: setup.ticks_per_second,
                usual: SampleDefaults::default(),
                shift: setup.shift,
                ahead: 0,
                next: 0,
                packets,
            });
        }
        self.extend(extends);
        self.has_moov = true;
        self.timeline.emit_tracks(sink)?;
        let places = self
            .tracks
            .iter()
            .filter_map(|track| track.packets.as_ref());
        self.round = Round {
            expected: places.fold(0, |all, (place, _)| all | 1 << place),
            ..Round::default()
        };
        self.announce(sink)
    }

    /// Announces the tracks whose samples come before others continue.
    fn announce(&mut self, sink: &mut Sink<'_>) -> Result {
        let round = &mut self.round;
        let announced = (round.expected | round.named) & !round.done;
        if std::mem::replace(&mut round.announced, announced) == announced {
            return Ok(());
        }
        sink(ReaderEvent::Announced(announced))
    }

    /// Reads the defaults of each track.
    fn extend(&mut self, extends: &[u8]) {
        for trex in children(extends, b"trex") {
            let fields = [4, 12, 16, 20].map(|at| number(trex, at));
            let [Some(track), Some(duration), Some(size), Some(flags)] = fields else {
                continue;
            };
            let mut tracks = self.tracks.iter_mut();
            if let Some(carried) = tracks.find(|carried| carried.number == track) {
                carried.usual = SampleDefaults {
                    duration,
                    size,
                    flags,
                };
            }
        }
    }

    fn carry(
        &mut self,
        setup: &Setup<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<Option<(usize, Packets)>> {
        let track = setup.codec.and_then(|codec| {
            self.timeline.add(Track {
                number: u64::from(setup.number),
                codec,
                clock: setup.ticks_per_second,
                setup: None,
                shape: setup.shape,
            })
        });
        let Some((index, codec)) = track.zip(setup.codec) else {
            leave_out(u64::from(setup.number), &setup.kind, sink)?;
            return Ok(None);
        };
        let mut packets = Packets::new(codec);
        if let Some(record) = setup.record {
            packets.configure(&mut self.timeline, index, record, setup.shape)?;
        }
        Ok(Some((index, packets)))
    }

    /// Reads the next sample of the current `mdat`, if there is one.
    fn sample(
        &mut self,
        seen: &[u8],
        at: u64,
        end: u64,
        sink: &mut Sink<'_>,
    ) -> StepResult<MediaError> {
        let Some(run) = self.fragment.runs.get(self.fragment.next) else {
            return Ok(end - at);
        };
        let sample = run.sample(&self.fragment.content);
        let sample = sample.ok_or(MediaError("a run of MP4 is not whole"))?;
        if sample.place.start < at {
            return Err(
                MediaError("samples of MP4 overlap, or begin before their fragment").into(),
            );
        }
        if sample.place.start > at {
            return Ok(sample.place.start.min(end) - at);
        }
        let bytes = sample.place.end - at;
        if bytes == 0 || sample.place.end > end {
            return Err(MediaError("a sample of MP4 is empty, or continues after the mdat").into());
        }
        let Some(track) = self.tracks.get_mut(sample.track) else {
            return Ok(end - at);
        };
        let times = track.times(&sample);
        let Some((index, packets)) = &mut track.packets else {
            self.fragment.step();
            return Ok(bytes);
        };
        const TOO_LONG: MediaError = MediaError("a sample of MP4 is longer than what may be held");
        let content = whole(seen, bytes, self.unit_bytes_max);
        let content = content.map_err(|unread| unread.because(TOO_LONG))?;
        let (decode, present) = times.ok_or(MediaError("a time of MP4 is out of range"))?;
        let packet = Unit {
            track: *index,
            decode,
            present,
            is_join: sample.is_join,
            bytes: content,
        };
        self.fragment.step();
        packets.emit(&mut self.timeline, packet, &mut self.scratch, sink)?;
        Ok(bytes)
    }
}

impl Round {
    /// Begins a `moof` with these tracks. Samples that are missing from the previous `moof` stay
    /// missing.
    fn begin(&mut self, tracks: u16) {
        self.done = self.named;
        if self.named & tracks != 0 {
            *self = Round {
                expected: self.named,
                announced: self.announced,
                ..Round::default()
            };
        }
        self.named |= tracks;
    }
}

impl CarriedTrack {
    /// Returns the decode time and the presentation time of a sample.
    fn times(&self, sample: &Sample) -> Option<(i64, i64)> {
        let time = |ticks: i64| nanoseconds(ticks.checked_add(self.shift)?, self.ticks_per_second);
        let decode = time(sample.decode.saturating_sub(self.ahead))?;
        Some((decode, time(sample.present)?))
    }
}

impl Fragment {
    /// Takes a `moof` at this offset. Missing samples of the previous one stay missing.
    fn begin(&mut self, moof: &[u8], at: u64, tracks: &mut [CarriedTrack]) -> Result {
        self.content.clear();
        self.content.reserve_exact(moof.len());
        self.content.extend_from_slice(moof);
        self.next = 0;
        self.runs.clear();
        runs::read(moof, at, tracks, &mut self.runs)?;
        self.runs.sort_by_key(|run| run.at);
        Ok(())
    }

    /// Continues after the current sample.
    fn step(&mut self) {
        if let Some(run) = self.runs.get_mut(self.next)
            && run.step(&self.content)
        {
            self.next += 1;
        }
    }
}
