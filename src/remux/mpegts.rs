//! MPEG-TS (ISO/IEC 13818-1). The reader reads the first program with a known codec. It cuts the
//! streams into access units by their content, since PES packets may begin anywhere in them.

mod map;
mod pes;
mod pictures;
mod sound;

use super::medium::{Codec, MediaError, ReaderEvent, Result, Sink, Track, nanoseconds};
use super::track_timeline::{START_MAX, TrackTimeline};
use crate::format::Unsupported;
use crate::format::mpegts::psi::{self, Assembler};
use crate::format::mpegts::{Aligner, OUT_OF_STEP_BYTES_MAX, Packet};
use map::MapEntry;
use pes::{Head, Mark, PayloadRest};
use pictures::PictureStream;
use sound::SoundStream;

/// Reader of MPEG-TS.
#[derive(Default)]
pub(super) struct MpegTs {
    unit_bytes_max: usize,
    pub(super) aligner: Aligner,
    /// Puts the sections of the PAT together.
    association: Assembler,
    /// Programs that the newest PAT names, at most [`PROGRAMS_MAX`]: PID and map.
    programs: Vec<(u16, Assembler)>,
    /// Map in force.
    map: Vec<u8>,
    /// PID of the map in force.
    map_pid: Option<u16>,
    /// Programs of which nothing can be carried, by their index.
    fruitless: u16,
    /// Number of scrambled packets. `None` once a clear one has come.
    scrambled: Option<u16>,
    timeline: TrackTimeline,
    streams: Vec<Stream>,
    /// Tracks that were announced last: see [`ReaderEvent::Announced`].
    announced: u16,
    /// First time of the streams in this map.
    began: Option<i64>,
    clock: pes::ProgramClock,
    /// Offset after the last whole packet.
    in_step_until: u64,
    /// Buffer for units that cannot be lent as they came.
    scratch: Vec<u8>,
    /// Setups of pictures that another reader knew, each with its PID. They count until the map names
    /// the PID.
    pub(super) setups_before: Vec<(u64, Vec<u8>)>,
}

/// An elementary stream that is carried. It has the same index in the timeline.
struct Stream {
    pid: u16,
    codec: Codec,
    /// Continuity counter of the newest packet.
    counter: Option<u8>,
    /// Head of the current PES packet.
    head: Head,
    content: StreamContent,
}

enum StreamContent {
    Pictures(Box<PictureStream>),
    Sound(Box<SoundStream>),
}

/// Where a stream's units go.
struct UnitOutput<'a, 'b> {
    timeline: &'a mut TrackTimeline,
    /// Index of the track.
    index: usize,
    /// Buffer for units that cannot be lent as they came.
    scratch: &'a mut Vec<u8>,
    sink: &'a mut Sink<'b>,
}

const PROGRAMS_MAX: usize = 16;
/// After this many scrambled packets (0.4 MB) and no clear one, the stream is left out. A receiver
/// may need a moment until it descrambles.
const SCRAMBLED_MAX: u16 = 2048;

impl MpegTs {
    pub(super) fn new(unit_bytes_max: usize) -> MpegTs {
        MpegTs {
            unit_bytes_max,
            scrambled: Some(0),
            ..MpegTs::default()
        }
    }

    /// Reads the next bytes. `offset` is that of the first.
    pub(super) fn feed(&mut self, bytes: &[u8], offset: u64, sink: &mut Sink<'_>) -> Result {
        const ERROR: MediaError = MediaError("the packets of MPEG-TS have stopped");
        let mut aligner = std::mem::take(&mut self.aligner);
        let mut fed = Ok(());
        aligner.feed(bytes, |at, packet| {
            let at = offset.saturating_add_signed(at);
            if at.saturating_sub(self.in_step_until) > OUT_OF_STEP_BYTES_MAX {
                fed = fed.and(Err(ERROR));
            }
            self.in_step_until = at + packet.whole.len() as u64;
            if fed.is_ok() {
                fed = self.packet(packet, sink);
            }
        });
        self.aligner = aligner;
        let after = offset + bytes.len() as u64;
        if after.saturating_sub(self.in_step_until) > 2 * OUT_OF_STEP_BYTES_MAX {
            fed = fed.and(Err(ERROR));
        }
        fed
    }

    /// Returns how far the current times of the stream are moved, in nanoseconds.
    pub(super) fn shift(&self) -> i64 {
        self.timeline.shift.saturating_add(self.clock.shift())
    }

    /// Passes on the units that only a following unit would have shown to be whole.
    pub(super) fn finish(&mut self, sink: &mut Sink<'_>) -> Result {
        let mut finished = Ok(());
        for (index, stream) in self.streams.iter_mut().enumerate() {
            let mut output = UnitOutput {
                timeline: &mut self.timeline,
                index,
                scratch: &mut self.scratch,
                sink,
            };
            finished = finished.and(match &mut stream.content {
                StreamContent::Pictures(pictures) => pictures.finish(&mut output),
                StreamContent::Sound(sound) => sound.finish(&mut output),
            });
        }
        finished
    }

    fn packet(&mut self, packet: Packet<'_>, sink: &mut Sink<'_>) -> Result {
        if packet.is_damaged() {
            return Ok(());
        }
        let pid = packet.pid();
        if pid == 0 {
            return self.associate(packet);
        }
        if let Some(index) = self.streams.iter().position(|stream| stream.pid == pid) {
            return self.elementary(index, packet, sink);
        }
        let Some(program) = self.programs.iter().position(|(map, _)| *map == pid) else {
            return Ok(());
        };
        if self.map_pid.is_some_and(|counts| counts != pid) {
            return Ok(());
        }
        let mut assembler = std::mem::take(&mut self.programs[program].1);
        let mut changed = Ok(());
        let fed = assembler.feed(packet, |section| {
            if changed.is_ok() {
                changed = self.take_map(pid, section.bytes, sink);
            }
        });
        if let Some(program) = self.programs.get_mut(program) {
            program.1 = assembler;
        }
        changed.and(fed.map_err(of_table))
    }

    /// Reads a packet of the PAT.
    fn associate(&mut self, packet: Packet<'_>) -> Result {
        let programs = &mut self.programs;
        let fed = self.association.feed(packet, |section| {
            let Some(body) = psi::body(section.bytes, 0) else {
                return;
            };
            let maps = || {
                psi::program_maps(body)
                    .map(|(_, pid)| pid)
                    .take(PROGRAMS_MAX)
            };
            let is_known = maps().eq(programs.iter().map(|(pid, _)| *pid));
            if !is_known && psi::is_undamaged(section.bytes) {
                *programs = maps().map(|pid| (pid, Assembler::default())).collect();
                self.fruitless = 0;
            }
        });
        let counts = |map: &u16| self.programs.iter().any(|(pid, _)| pid == map);
        self.map_pid = self.map_pid.filter(counts);
        fed.map_err(of_table)
    }

    /// Reads a section of a program's map.
    fn take_map(&mut self, pid: u16, section: &[u8], sink: &mut Sink<'_>) -> Result {
        let Some(body) = psi::body(section, 2) else {
            return Ok(());
        };
        let is_same = self.map_pid == Some(pid) && self.map == section;
        if is_same || !psi::is_undamaged(section) {
            return Ok(());
        }
        let named = || psi::elementary_streams(body).map(MapEntry::read);
        if self.map_pid.is_none() && named().all(|named| named.codec.is_none()) {
            // Another program may have something.
            let place = self.programs.iter().position(|(map, _)| *map == pid);
            self.fruitless |= place.map_or(0, |place| 1 << place);
            if self.fruitless.count_ones() as usize == self.programs.len() {
                named().try_for_each(|named| leave_out(&named, sink))?;
            }
            return Ok(());
        }
        self.map_pid = Some(pid);
        self.map.clear();
        self.map.extend_from_slice(section);
        let (had_tracks, mut had) = (self.timeline.clear(), std::mem::take(&mut self.streams));
        self.began = None;
        if std::mem::take(&mut self.announced) != 0 {
            sink(ReaderEvent::Announced(0))?;
        }
        for named in named() {
            if !self.carry(&named, &had_tracks, &mut had) {
                leave_out(&named, sink)?;
            }
        }
        self.timeline.emit_tracks(sink)
    }

    /// Adds an elementary stream of the program map, if its codec can be remuxed. Returns whether
    /// it was added. An elementary stream of the previous map continues.
    fn carry(&mut self, named: &MapEntry<'_>, had_tracks: &[Track], had: &mut Vec<Stream>) -> bool {
        let is_new = self.streams.iter().all(|stream| stream.pid != named.pid);
        let Some(codec) = named.codec.filter(|_| is_new) else {
            return false;
        };
        let known = had
            .iter()
            .position(|stream| (stream.pid, stream.codec) == (named.pid, codec));
        let number = u64::from(named.pid);
        let before = had_tracks
            .iter()
            .find(|track| known.is_some() && track.number == number);
        let setup = named.setup();
        let mut track = match before {
            Some(track) => track.clone(),
            None => Track {
                number,
                codec,
                clock: pes::TICKS_PER_SECOND,
                shape: setup
                    .as_deref()
                    .and_then(super::sound::opus)
                    .unwrap_or(codec.unknown_shape()),
                setup,
            },
        };
        let mut stream = match known {
            Some(place) => had.swap_remove(place),
            None => Stream::new(named.pid, codec),
        };
        let place = self
            .setups_before
            .iter()
            .position(|(pid, _)| *pid == number);
        let before = place.map(|place| self.setups_before.swap_remove(place));
        if let (StreamContent::Pictures(pictures), Some((_, setup))) = (&mut stream.content, before)
        {
            pictures.resume(&setup, &mut track);
        }
        let is_added = self.timeline.add(track).is_some();
        if is_added {
            self.streams.push(stream);
        }
        is_added
    }

    /// Reads a packet of a stream that is carried.
    fn elementary(&mut self, index: usize, packet: Packet<'_>, sink: &mut Sink<'_>) -> Result {
        let mut payload = packet.payload();
        if payload.is_empty() {
            return Ok(());
        }
        self.scrambled = match packet.is_scrambled() {
            true => self.scrambled.map(|packets| packets.saturating_add(1)),
            false => None,
        };
        if self.scrambled == Some(SCRAMBLED_MAX) {
            for stream in &self.streams {
                sink(ReaderEvent::LeftOut {
                    number: u64::from(stream.pid),
                    codec: "scrambled content",
                })?;
            }
        }
        let Some(stream) = self.streams.get_mut(index) else {
            return Ok(());
        };
        if !stream.follows(packet) {
            return Ok(());
        }
        if packet.unit_starts() {
            stream.head.begin(packet.is_random_access());
        }
        let PayloadRest::Content(mark) = stream.head.take(&mut payload, &mut self.clock)? else {
            return Ok(());
        };
        let mut output = UnitOutput {
            timeline: &mut self.timeline,
            index,
            scratch: &mut self.scratch,
            sink,
        };
        match &mut stream.content {
            StreamContent::Pictures(pictures) => pictures.take(mark, payload, &mut output)?,
            StreamContent::Sound(sound) => sound.take(mark, payload, &mut output)?,
        }
        if let Some(Mark {
            times: Some(times), ..
        }) = mark
        {
            self.announce(times.decode, sink)?;
        }
        let pending = self.streams.iter().map(|stream| match &stream.content {
            StreamContent::Pictures(pictures) => pictures.bytes.capacity(),
            StreamContent::Sound(sound) => sound.bytes.capacity(),
        });
        if pending.sum::<usize>() > self.unit_bytes_max {
            return Err(MediaError(
                "access units of MPEG-TS are longer than what may be held",
            ));
        }
        Ok(())
    }

    /// Announces pictures that come without parameter sets: the source is taken within a group.
    fn announce(&mut self, time: i64, sink: &mut Sink<'_>) -> Result {
        let elapsed = time.saturating_sub(*self.began.get_or_insert(time));
        let brings_pictures = |stream: &Stream| {
            matches!(stream.content, StreamContent::Pictures(_)) && stream.counter.is_some()
        };
        let streams = self.streams.iter().enumerate();
        let announced = streams
            .filter(|(index, stream)| brings_pictures(stream) && self.timeline.is_new(*index))
            .filter(|_| (0..START_MAX).contains(&elapsed))
            .fold(0, |announced, (index, _)| announced | 1 << index);
        match std::mem::replace(&mut self.announced, announced) == announced {
            true => Ok(()),
            false => sink(ReaderEvent::Announced(announced)),
        }
    }
}

fn leave_out(named: &MapEntry<'_>, sink: &mut Sink<'_>) -> Result {
    sink(ReaderEvent::LeftOut {
        number: u64::from(named.pid),
        codec: &format!("stream type 0x{:02x}", named.stream_type),
    })
}

fn of_table(_: Unsupported) -> MediaError {
    MediaError("a table of MPEG-TS is spread over more packets than any real one")
}

impl Stream {
    fn new(pid: u16, codec: Codec) -> Stream {
        let content = match PictureStream::new(codec) {
            Some(pictures) => StreamContent::Pictures(Box::new(pictures)),
            None => StreamContent::Sound(Box::new(SoundStream::new(codec))),
        };
        Stream {
            pid,
            codec,
            counter: None,
            head: Head::default(),
            content,
        }
    }

    /// Returns whether a packet is to be read: the next one, or one after a gap.
    fn follows(&mut self, packet: Packet<'_>) -> bool {
        let counter = self.counter.replace(packet.counter());
        let is_jump = packet.is_discontinuous();
        if counter == Some(packet.counter()) && !is_jump {
            // The packet came twice.
            return false;
        }
        let follows = counter.is_none_or(|counter| (counter + 1) & 0x0f == packet.counter());
        if packet.is_scrambled() || (!follows && !is_jump) {
            self.lose();
        }
        !packet.is_scrambled()
    }

    /// Packets are missing.
    fn lose(&mut self) {
        self.head.lose();
        match &mut self.content {
            StreamContent::Pictures(pictures) => pictures.lose(),
            StreamContent::Sound(sound) => sound.lose(),
        }
    }
}

/// Converts a time of the unwrapped clock of MPEG-TS to nanoseconds.
fn time(ticks: i64) -> Result<i64> {
    nanoseconds(ticks, pes::TICKS_PER_SECOND).ok_or(MediaError("a time of MPEG-TS is out of range"))
}
