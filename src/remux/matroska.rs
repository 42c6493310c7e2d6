//! WebM and Matroska (RFC 9559). A frame of a block is a packet.
//!
//! A block has only a presentation time. The decode time is derived from it ([`order`]).

mod order;
mod setup;

use super::medium::{Codec, MediaError, ReaderEvent, Result, SECOND, Sink, Track, Unit, in_range};
use super::nal::take;
use super::packets::{Packets, leave_out};
use super::sound;
use super::track_timeline::TrackTimeline;
use crate::format::ebml::{self, Head};
use crate::format::matroska::{
    BLOCK, BLOCK_GROUP, CLUSTER, EBML, INFO, KEY_FRAME, LACING, Level, REFERENCE_BLOCK, SEGMENT,
    SIMPLE_BLOCK, TIMESTAMP, TRACK_ENTRY, TRACKS, USUAL_TIMESTAMP_SCALE, timestamp_scale,
};
use crate::format::window::{StepResult, Unread, Walker, whole};
use order::DecodeOrder;
use setup::Setup;

/// Reader of WebM and Matroska.
#[derive(Default)]
pub(super) struct Matroska {
    unit_bytes_max: usize,
    level: Level,
    pub(super) timeline: TrackTimeline,
    /// Tracks that are carried.
    tracks: Vec<CarriedTrack>,
    /// Whether Tracks has come.
    has_tracks: bool,
    /// Nanoseconds in a tick.
    scale: u64,
    /// Time of the Cluster, in ticks.
    cluster_time: Option<i64>,
    /// Offset after the Cluster, if it has a size.
    cluster_end: Option<u64>,
    /// Buffer for a frame with the bytes that its track strips.
    whole_frame: Vec<u8>,
    /// Buffer for units that cannot be lent as they came.
    scratch: Vec<u8>,
}

/// A track that is carried. It has the same index in the timeline.
struct CarriedTrack {
    number: u64,
    packets: Packets,
    /// Decode order of its pictures.
    order: DecodeOrder,
    /// Duration of a frame in nanoseconds, if the track says it.
    frame: Option<i64>,
    /// Nanoseconds by which its times are late.
    delay: i64,
    /// Bytes that the track strips from each frame.
    front: Vec<u8>,
}

const TRACKS_BYTES_MAX: usize = 256 * 1024;
const TIMESTAMP_BYTES_MAX: usize = 32;
/// Bytes around the frames of a block, in its group.
const BLOCK_HEAD_BYTES: usize = 1024;

impl Walker<Sink<'_>, MediaError> for Matroska {
    fn step(&mut self, seen: &[u8], at: u64, sink: &mut Sink<'_>) -> StepResult<MediaError> {
        const BAD_HEAD: MediaError = MediaError("an element of Matroska has an invalid head");
        let head = ebml::head(seen).map_err(|unread| unread.because(BAD_HEAD))?;
        if self.level == Level::Cluster && head.is_outer() {
            self.level = Level::Segment;
        }
        match (self.level, head.id) {
            (Level::Top | Level::Segment, SEGMENT) => {
                self.level = Level::Segment;
                Ok(head.bytes() as u64)
            }
            (Level::Segment, CLUSTER) if self.has_tracks => {
                self.cluster_time = None;
                let behind = |size| at.checked_add(head.bytes() as u64)?.checked_add(size);
                self.cluster_end = head.size.and_then(behind);
                self.level = Level::Cluster;
                Ok(head.bytes() as u64)
            }
            (Level::Segment, CLUSTER) => {
                Err(MediaError("Matroska has no Tracks before its first Cluster").into())
            }
            (Level::Segment, INFO | TRACKS) => self.whole(head, seen, TRACKS_BYTES_MAX, sink),
            (Level::Cluster, TIMESTAMP) => self.whole(head, seen, TIMESTAMP_BYTES_MAX, sink),
            (Level::Cluster, SIMPLE_BLOCK | BLOCK_GROUP) => {
                // The number of the track comes first. It shows whether the block is wanted at all.
                let needed = head.bytes() + head.size.unwrap_or(0).min(8) as usize;
                let front = seen
                    .get(head.bytes()..needed)
                    .ok_or(Unread::Needs(needed))?;
                if head.id == SIMPLE_BLOCK && self.carried(front).is_none() {
                    return Ok(length(head)?);
                }
                let bytes = self.whole(head, seen, self.unit_bytes_max + BLOCK_HEAD_BYTES, sink)?;
                // Muxers send a cluster of known size when it is complete.
                if self.cluster_end == at.checked_add(bytes) {
                    sink(ReaderEvent::PieceEnds)?;
                }
                Ok(bytes)
            }
            (_, EBML) => {
                self.level = Level::Top;
                self.has_tracks = false;
                Ok(length(head)?)
            }
            (_, _) => Ok(length(head)?),
        }
    }
}

impl Matroska {
    pub(super) fn new(unit_bytes_max: usize) -> Matroska {
        Matroska {
            unit_bytes_max,
            scale: USUAL_TIMESTAMP_SCALE,
            ..Matroska::default()
        }
    }

    /// Reads an element that must be whole. It has at most `bytes_max` bytes.
    fn whole(
        &mut self,
        head: Head,
        seen: &[u8],
        bytes_max: usize,
        sink: &mut Sink<'_>,
    ) -> StepResult<MediaError> {
        const TOO_LONG: MediaError =
            MediaError("an element of Matroska is longer than what may be held");
        let length = head.length().map_err(|_| TOO_LONG)?;
        let element = whole(seen, length, bytes_max).map_err(|unread| unread.because(TOO_LONG))?;
        let body = &element[head.bytes()..];
        match head.id {
            INFO => self.scale = timestamp_scale(body).clamp(1, SECOND as u64),
            TRACKS => self.begin(body, sink)?,
            TIMESTAMP => self.cluster_time = i64::try_from(ebml::unsigned(body)).ok(),
            SIMPLE_BLOCK => self.block(body, None, sink)?,
            _ => {
                let is_alone = ebml::find(body, REFERENCE_BLOCK).is_none();
                if let Some(block) = ebml::find(body, BLOCK) {
                    self.block(block, Some(is_alone), sink)?;
                }
            }
        }
        Ok(length)
    }

    /// Returns the index of the track that a block names, and the length of the number.
    fn carried(&self, block: &[u8]) -> Option<(usize, usize)> {
        let (number, bytes) = ebml::number_at_front(block)?;
        let mut tracks = self.tracks.iter();
        let place = tracks.position(|track| track.number == number)?;
        Some((place, bytes))
    }

    /// Reads the content of Tracks.
    fn begin(&mut self, tracks: &[u8], sink: &mut Sink<'_>) -> Result {
        self.timeline.clear();
        self.tracks.clear();
        let clock = (SECOND as u64 / self.scale.max(1)).max(1) as u32;
        for (_, entry) in ebml::elements(tracks).filter(|(id, _)| *id == TRACK_ENTRY) {
            let setup = Setup::read(entry);
            if setup.lacks_private() {
                let reason = [setup.codec_id, b" without its CodecPrivate"].concat();
                leave_out(setup.number, &reason, sink)?;
                continue;
            }
            let index = setup.codec.and_then(|codec| {
                self.timeline.add(Track {
                    number: setup.number,
                    codec,
                    clock,
                    setup: None,
                    shape: setup.shape,
                })
            });
            let Some((index, codec)) = index.zip(setup.codec) else {
                leave_out(setup.number, setup.codec_id, sink)?;
                continue;
            };
            let mut packets = Packets::new(codec);
            if let Some(record) = setup.record()? {
                packets.configure(&mut self.timeline, index, &record, setup.shape)?;
            }
            self.tracks.push(CarriedTrack {
                number: setup.number,
                packets,
                order: DecodeOrder::default(),
                frame: setup.frame,
                delay: setup.delay,
                front: setup.front.to_vec(),
            });
        }
        self.has_tracks = true;
        self.timeline.emit_tracks(sink)
    }

    /// Returns the presentation time of a block, `relative` ticks after its Cluster.
    fn time(&self, relative: i16) -> Result<i64> {
        let cluster_time = self
            .cluster_time
            .ok_or(MediaError("a Cluster of Matroska does not say its time"))?;
        let ticks = i128::from(cluster_time) + i128::from(relative);
        let time = i64::try_from(ticks * i128::from(self.scale)).ok();
        time.and_then(in_range)
            .ok_or(MediaError("a time of Matroska is out of range"))
    }

    /// Reads a whole block. Without `is_key`, its flags say whether decoding can begin with it.
    fn block(&mut self, block: &[u8], is_key: Option<bool>, sink: &mut Sink<'_>) -> Result {
        let Some((index, number_bytes)) = self.carried(block) else {
            return Ok(());
        };
        let Some([t0, t1, flags, rest @ ..]) = block.get(number_bytes..) else {
            return Err(MediaError("a block of Matroska is not whole"));
        };
        let mut time = self.time(i16::from_be_bytes([*t0, *t1]))?;
        let Some(track) = self.tracks.get_mut(index) else {
            return Ok(());
        };
        let whole = &mut self.whole_frame;
        frames(rest, flags & LACING, |frame| {
            let present = time - track.delay;
            let mut bytes = frame;
            if !track.front.is_empty() {
                whole.clear();
                whole.reserve_exact(track.front.len() + frame.len());
                whole.extend_from_slice(&track.front);
                whole.extend_from_slice(frame);
                bytes = whole;
            }
            let packet = Unit {
                track: index,
                decode: track.decode(present),
                present,
                is_join: is_key.unwrap_or(flags & KEY_FRAME != 0),
                bytes,
            };
            let scratch = &mut self.scratch;
            track
                .packets
                .emit(&mut self.timeline, packet, scratch, sink)?;
            time = track.after(time, frame);
            Ok(())
        })
    }
}

/// Returns the length of the whole element.
fn length(head: Head) -> Result<u64> {
    let length = head.length();
    length.map_err(|_| MediaError("an element of Matroska has no size where it needs one"))
}

impl CarriedTrack {
    /// Returns the decode time of the next frame.
    fn decode(&mut self, present: i64) -> i64 {
        match &self.packets.pictures {
            Some(pictures) => {
                let reorder = pictures.sequence.reorder;
                self.order.decode(present, reorder, self.frame)
            }
            None => present,
        }
    }

    /// Returns the time after a frame, where the next one in the block begins.
    fn after(&self, time: i64, frame: &[u8]) -> i64 {
        let codec = self.packets.codec;
        let own = match codec {
            Codec::Opus => sound::opus_lasts(frame),
            Codec::MpegAudio | Codec::Ac3 | Codec::Eac3 => {
                sound::head(codec, frame).and_then(|head| head.lasts())
            }
            Codec::H264 | Codec::H265 | Codec::Av1 | Codec::Vp8 | Codec::Vp9 | Codec::Aac => None,
        };
        let lasts = own.or(self.frame).unwrap_or(0);
        in_range(time.saturating_add(lasts)).unwrap_or(time)
    }
}

/// Passes each frame with bytes in a block to `frame`. The first error ends it.
fn frames(body: &[u8], lacing: u8, mut frame: impl FnMut(&[u8]) -> Result) -> Result {
    const ERROR: MediaError = MediaError("the frames of a block of Matroska are not whole");
    let mut rest = body;
    if lacing != 0 {
        let more = usize::from(take(&mut rest, 1).ok_or(ERROR)?[0]);
        let mut sizes = [0usize; 255];
        let sizes = &mut sizes[..more];
        match lacing {
            0x02 => xiph_sizes(sizes, &mut rest),
            0x04 => {
                sizes.fill(rest.len() / (more + 1));
                rest.len().is_multiple_of(more + 1).then_some(())
            }
            _ => ebml_sizes(sizes, &mut rest),
        }
        .ok_or(ERROR)?;
        for size in sizes.iter().filter(|size| **size > 0) {
            frame(take(&mut rest, *size).ok_or(ERROR)?)?;
        }
    }
    match rest {
        [] => Ok(()),
        rest => frame(rest),
    }
}

/// Reads all sizes but the last. Each is a sum of bytes, of which the last is below 255.
fn xiph_sizes(sizes: &mut [usize], rest: &mut &[u8]) -> Option<()> {
    for size in sizes {
        loop {
            let byte = *take(rest, 1)?.first()?;
            *size += usize::from(byte);
            if byte < 255 {
                break;
            }
        }
    }
    Some(())
}

/// Reads all sizes but the last: the first one, and then differences around the middle of their
/// range.
fn ebml_sizes(sizes: &mut [usize], rest: &mut &[u8]) -> Option<()> {
    let mut last = None;
    for size in sizes {
        let (value, bytes) = ebml::number_at_front(rest)?;
        take(rest, bytes)?;
        let value = i64::try_from(value).ok()?;
        let middle = (1i64 << (7 * bytes - 1)) - 1;
        // Sizes and differences are below 2^56, so the sum is within an i64.
        let own = last.map_or(value, |last: i64| last + value - middle);
        last = Some(own);
        *size = usize::try_from(own)
            .ok()
            .filter(|size| *size <= rest.len())?;
    }
    Some(())
}
