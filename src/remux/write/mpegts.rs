//! Writes MPEG-TS (ISO/IEC 13818-1): one program, with a PES packet for each unit.
//!
//! PES packets are whole, one after another: none is open where the next one begins. A picture goes
//! out when it comes. Small frames of sound that come together share a PES packet. The tables come
//! before each join point and ten times a second. The parameter sets come before each join point,
//! unless the unit has its own. The clock is that of the first video track, or of the first track.
//!
//! Tables, clock and repeated parameter sets are limited by the length of the input. So jumping
//! times or a flood of key pictures cause no flood. The output is at most [`OUT_PER_BYTE`] times
//! the input, [`OUT_PER_UNIT`] for each unit, and [`ALLOWANCE_MAX`] once.

mod clock;
mod packets;
mod payload;
mod sound_buffer;
mod tables;

use super::super::medium::{MILLISECOND, MediaError, Result, Track};
#[cfg(feature = "handover")]
use super::RemuxerState;
use super::Writer;
use super::interleave::OwnedUnit;
use clock::{MARGIN, MultiplexClock, packet_time};
use packets::{Counter, PACKET_BYTES, PAYLOAD_BYTES, Sending, pes_head};
use payload::{Framing, Nal, StreamFormat};
use sound_buffer::SoundBuffer;
use tables::{Entry, Tables};

/// Maximal number of bytes of output for a byte of input.
pub const OUT_PER_BYTE: usize = 5;
/// Maximal number of bytes of output for each unit beside that: two packets that may be half empty,
/// and its part of tables and clock.
pub const OUT_PER_UNIT: usize = 3 * PACKET_BYTES + UNIT_ALLOWANCE;
/// Maximal number of bytes that are saved up for tables, clock and parameter sets.
pub const ALLOWANCE_MAX: usize = 16 * 1024;
/// Bytes that each unit adds to the allowance, however small it is.
const UNIT_ALLOWANCE: usize = 400;
/// Bytes that each byte of a unit adds to the allowance.
const BYTE_ALLOWANCE: usize = 3;

const FIRST_PID: u16 = 0x100;
/// Maximal number of bytes of frames that share a PES packet.
const GATHER_BYTES_MAX: usize = 1500;
/// Longest time of frames that share a PES packet.
const GATHER_TIME_MAX: i64 = 50 * MILLISECOND;
/// Longest frame of sound.
const SOUND_BYTES_MAX: usize = 32 * 1024;
/// Longest delay of sound beyond its usual arrival. AAC at the highest rate of two channels needs
/// it, and the following picture still arrives in time.
const LATER_MAX: i64 = MARGIN * 3 / 5;
/// Smallest distance of decode times: a tick of 90 kHz.
const TICK: i64 = 11_112;

/// Writer of MPEG-TS.
#[derive(Debug, Default)]
pub struct MpegTs {
    tables: Tables,
    /// Streams by the index of their tracks. `None` for a track that is left out or not known yet.
    streams: Vec<Option<Stream>>,
    /// State of the PIDs by the index of their tracks, earlier ones included.
    pid_states: Vec<PidState>,
    /// Stream whose PID carries the clock.
    leader: Option<usize>,
    clock: MultiplexClock,
    /// Bytes that may go out beside the media.
    allowance: usize,
    /// Head of the current PES packet, with the bytes in front of a picture.
    head: Vec<u8>,
}

/// An elementary stream.
#[derive(Debug)]
struct Stream {
    format: StreamFormat,
    pid: u16,
    /// Time of a packet in nanoseconds.
    packet_time: i64,
    is_video: bool,
    /// Sound that is gathered.
    gathered: Vec<u8>,
    /// Decode time of the first gathered frame.
    since: i64,
    /// Decode time of the newest gathered frame.
    until: i64,
    /// Decoder's buffer, for sound.
    sound_buffer: SoundBuffer,
}

/// State of a PID. It survives a change of the stream.
#[derive(Clone, Copy, Debug)]
struct PidState {
    /// Continuity counter of the next packet.
    counter: Counter,
    /// Decode time of the newest unit.
    newest: i64,
}

impl PidState {
    const NONE: PidState = PidState {
        counter: Counter(0),
        newest: i64::MIN,
    };

    /// Makes the decode time at least one tick later than the previous one.
    fn keep_order(&mut self, unit: &mut OwnedUnit) {
        unit.decode = unit.decode.max(self.newest.saturating_add(TICK));
        unit.present = unit.present.max(unit.decode);
        self.newest = unit.decode;
    }
}

impl Writer for MpegTs {
    /// Sets the tracks. No sound may be gathered.
    fn set_tracks(&mut self, tracks: &[Track], _out: &mut Vec<u8>) -> Result {
        let pids = self.pid_states.len().max(tracks.len());
        self.pid_states.resize(pids, PidState::NONE);
        self.streams.clear();
        for (index, track) in tracks.iter().enumerate() {
            let format = match track.is_known() {
                true => StreamFormat::of(track)?,
                false => None,
            };
            // There are few tracks.
            let pid = FIRST_PID + index as u16;
            let is_video = track.codec.is_video();
            self.streams
                .push(format.map(|format| Stream::new(format, pid, is_video)));
        }
        let mut known = self.streams.iter().enumerate();
        let video = known
            .clone()
            .find(|(_, stream)| stream.as_ref().is_some_and(|stream| stream.is_video));
        let first = || known.find(|(_, stream)| stream.is_some());
        self.leader = video.or_else(first).map(|(index, _)| index);
        let entries = self.streams.iter().flatten().map(Stream::entry).collect();
        if let Some(Some(leader)) = self.leader.map(|index| &self.streams[index])
            && self.tables.set(leader.pid, entries)
        {
            self.clock.tables = None;
        }
        Ok(())
    }

    /// Writes a unit, or gathers it.
    fn write(&mut self, mut unit: OwnedUnit, out: &mut Vec<u8>) -> Result {
        let Some(Some(stream)) = self.streams.get(unit.track) else {
            return Ok(());
        };
        let paid = unit.bytes.len().saturating_mul(BYTE_ALLOWANCE) + UNIT_ALLOWANCE;
        self.allowance = self.allowance.saturating_add(paid).min(ALLOWANCE_MAX);
        self.pid_states[unit.track].keep_order(&mut unit);
        match stream.format.framing {
            Framing::Nal { kind, .. } => {
                self.flush_gathered(out);
                self.write_picture(kind, unit, out);
            }
            Framing::Adts(_) | Framing::Whole | Framing::Opus => self.take_sound(&unit, out)?,
        }
        Ok(())
    }

    /// Writes the gathered sound, since nothing else comes at this time.
    fn flush_gathered(&mut self, out: &mut Vec<u8>) {
        for index in 0..self.streams.len() {
            self.write_gathered(index, out);
        }
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> Result {
        self.flush_gathered(out);
        Ok(())
    }

    fn left_out(&self, track: &Track) -> Option<&'static str> {
        payload::left_out(track)
    }

    /// Returns the decode time of the first gathered frame of sound.
    #[cfg(feature = "handover")]
    fn pending_from(&self, track: usize) -> Option<i64> {
        let stream = self.streams.get(track)?.as_ref()?;
        (!stream.gathered.is_empty()).then_some(stream.since)
    }

    #[cfg(feature = "handover")]
    fn state(&self) -> RemuxerState {
        let pid_states = self.pid_states.iter();
        RemuxerState {
            counters: pid_states.map(|state| state.counter.0).collect(),
            table_counters: self.tables.counters.map(|counter| counter.0),
            clock: self.clock.now,
            ..RemuxerState::default()
        }
    }

    #[cfg(feature = "handover")]
    fn resume(&mut self, state: &RemuxerState, _header: Vec<u8>) {
        self.clock.now = state.clock;
        self.tables.counters = state.table_counters.map(|number| Counter(number & 0x0f));
        let pid_states = state.counters.iter().map(|number| PidState {
            counter: Counter(number & 0x0f),
            ..PidState::NONE
        });
        self.pid_states = pid_states.collect();
    }
}

impl MpegTs {
    /// Returns a writer before the first track.
    pub fn new() -> MpegTs {
        MpegTs {
            tables: Tables::new(),
            allowance: ALLOWANCE_MAX,
            ..MpegTs::default()
        }
    }

    fn write_picture(&mut self, kind: Nal, mut unit: OwnedUnit, out: &mut Vec<u8>) {
        let (length, has_sets) = kind.put_start_codes(&mut unit.bytes);
        let Some(Some(stream)) = self.streams.get(unit.track) else {
            return;
        };
        let sets = match &stream.format.framing {
            Framing::Nal { sets, .. } if unit.is_join && !has_sets => &sets[..],
            Framing::Nal { .. } | Framing::Adts(_) | Framing::Whole | Framing::Opus => &[],
        };
        let sets = match sets.len() <= self.allowance {
            true => sets,
            false => &[],
        };
        self.allowance -= sets.len();
        let payload_bytes = kind.delimiter().len() + sets.len() + length;
        let mut head = std::mem::take(&mut self.head);
        head.clear();
        let times = (unit.decode, unit.present);
        pes_head(stream.format.stream_id, times, payload_bytes, &mut head);
        head.extend_from_slice(kind.delimiter());
        head.extend_from_slice(sets);
        let body = &unit.bytes[..length];
        self.send(unit.track, unit.decode, unit.is_join, &head, body, out);
        self.head = head;
    }

    fn take_sound(&mut self, unit: &OwnedUnit, out: &mut Vec<u8>) -> Result {
        let Some(Some(stream)) = self.streams.get(unit.track) else {
            return Ok(());
        };
        if unit.bytes.len() > SOUND_BYTES_MAX {
            return Err(MediaError("a frame of sound has more than 32,768 bytes"));
        }
        let bytes = stream.gathered.len() + unit.bytes.len();
        if bytes > GATHER_BYTES_MAX || unit.decode - stream.since > GATHER_TIME_MAX {
            self.write_gathered(unit.track, out);
        }
        let Some(Some(stream)) = self.streams.get_mut(unit.track) else {
            return Ok(());
        };
        if stream.gathered.is_empty() {
            stream.since = unit.decode;
        }
        stream.until = unit.decode;
        match stream.format.framing {
            Framing::Adts(head) => {
                let head = payload::adts_head_of(head, unit.bytes.len());
                stream.gathered.extend_from_slice(
                    &head.ok_or(MediaError("a frame of AAC has more than 8,184 bytes"))?,
                );
            }
            Framing::Opus => payload::opus_head(unit.bytes.len(), &mut stream.gathered),
            Framing::Whole | Framing::Nal { .. } => {}
        }
        stream.gathered.extend_from_slice(&unit.bytes);
        Ok(())
    }

    fn write_gathered(&mut self, index: usize, out: &mut Vec<u8>) {
        let Some(Some(stream)) = self.streams.get_mut(index) else {
            return;
        };
        if stream.gathered.is_empty() {
            return;
        }
        let mut gathered = std::mem::take(&mut stream.gathered);
        let since = stream.since;
        let stream_id = stream.format.stream_id;
        let mut head = std::mem::take(&mut self.head);
        head.clear();
        pes_head(stream_id, (since, since), gathered.len(), &mut head);
        let is_join = self.leader == Some(index);
        self.send(index, since, is_join, &head, &gathered, out);
        self.head = head;
        gathered.clear();
        if let Some(Some(stream)) = self.streams.get_mut(index) {
            stream.gathered = gathered;
        }
    }

    /// Writes a PES packet in two pieces, and in front of it the tables and the clock if they are due.
    fn send(
        &mut self,
        index: usize,
        decode: i64,
        is_join: bool,
        head: &[u8],
        body: &[u8],
        out: &mut Vec<u8>,
    ) {
        let is_leader = self.leader == Some(index);
        let bytes = head.len() + body.len();
        let Some(Some(stream)) = self.streams.get(index) else {
            return;
        };
        let usual = decode.saturating_sub(MARGIN);
        let begins = stream.room_at(usual, bytes);
        self.pass_time(begins, out);
        self.clock.begin_unit(is_leader);
        let Some(Some(stream)) = self.streams.get(index) else {
            return;
        };
        let table_packets = self.tables.bytes() / PACKET_BYTES;
        let packets = bytes / PAYLOAD_BYTES + 1 + table_packets;
        // Each unit arrives a little before it is decoded. Pictures arrive earlier, so that the
        // following sound has time.
        let spare = match stream.is_video {
            true => MARGIN / 4,
            false => MARGIN / 16,
        };
        let latest = decode.saturating_sub(spare);
        let room = latest.saturating_sub(self.clock.now).max(0) / packets as i64;
        let packet_time = stream.packet_time.min(room);
        let arrives_in = packet_time.saturating_mul(packets as i64);
        let is_picture = is_leader && stream.is_video && is_join;
        let wants_tables = is_picture || self.clock.wants_tables(is_leader, arrives_in);
        if wants_tables && self.write_tables(out) {
            self.clock.pass_tables(packet_time, table_packets);
        }
        // A unit that fills its buffer must not seem to come earlier.
        let is_tight = begins > usual;
        if is_tight && is_leader {
            self.clock.has_others = true;
        }
        if !is_leader && (is_tight || wants_tables || self.clock.needs_reference()) {
            self.write_reference(out);
        }
        let repeats_reference = self.streams.len() > 1;
        let Some(Some(stream)) = self.streams.get_mut(index) else {
            return;
        };
        if !is_leader {
            self.clock.has_others = true;
        }
        if !stream.is_video {
            let decoded = stream.until.max(decode);
            stream.sound_buffer.put(decoded, bytes, self.clock.now);
        }
        let sending = Sending {
            pid: stream.pid,
            counter: &mut self.pid_states[index].counter,
            has_reference: is_leader,
            repeats_reference,
            is_join,
            packet_time,
        };
        sending.write(&mut self.clock, head, body, out);
    }

    /// Moves the clock to the beginning of the next unit. In a gap it is repeated.
    fn pass_time(&mut self, target: i64, out: &mut Vec<u8>) {
        while let Some(next) = self.clock.next_due(target)
            && self.allowance >= PACKET_BYTES + self.tables.bytes()
        {
            self.clock.now = self.clock.now.max(next);
            if self.clock.needs_tables() {
                self.write_tables(out);
            }
            self.write_reference(out);
        }
        self.clock.now = self.clock.now.max(target);
    }

    /// Writes the tables. Returns whether there was room for them.
    fn write_tables(&mut self, out: &mut Vec<u8>) -> bool {
        let bytes = self.tables.bytes();
        let has_room = self.allowance >= bytes;
        if has_room {
            self.allowance -= bytes;
            self.tables.write(out);
            self.clock.tables = Some(self.clock.now);
        }
        has_room
    }

    fn write_reference(&mut self, out: &mut Vec<u8>) {
        if let Some(index) = self.leader
            && let Some(leader) = &self.streams[index]
            && self.allowance >= PACKET_BYTES
        {
            self.allowance -= PACKET_BYTES;
            let counter = self.pid_states[index].counter;
            packets::write_reference(leader.pid, counter, &mut self.clock, out);
        }
    }
}

impl Stream {
    fn new(format: StreamFormat, pid: u16, is_video: bool) -> Stream {
        Stream {
            packet_time: packet_time(format.bits),
            format,
            pid,
            is_video,
            gathered: Vec::new(),
            since: 0,
            until: 0,
            sound_buffer: SoundBuffer::default(),
        }
    }

    /// Returns the time at which a PES packet of this length begins to arrive. `usual` is the
    /// earliest. Sound waits until its buffer has room, but not too long.
    fn room_at(&self, usual: i64, bytes: usize) -> i64 {
        if self.is_video {
            return usual;
        }
        let size = self.format.sound_buffer_bytes();
        let room = self.sound_buffer.room_at(bytes, size);
        room.map_or(usual, |room| usual.max(room.min(usual + LATER_MAX)))
    }

    fn entry(&self) -> Entry {
        Entry {
            pid: self.pid,
            stream_type: self.format.stream_type,
            descriptors: self.format.descriptors.clone(),
        }
    }
}
