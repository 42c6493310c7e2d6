//! A remuxed stream's link to its original, and an original's list of its remuxed streams.

use std::collections::VecDeque;

use crate::relay::{Limits, StreamId};
#[cfg(feature = "handover")]
use crate::remux::RemuxerState;
use crate::remux::{MediaError, Remuxer, Target};

/// How a stream is remuxed from another.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct RemuxedStream {
    /// The stream whose bytes it reads.
    pub original: StreamId,
    /// Serial number of the original.
    pub serial: u64,
    /// Container into which it is remuxed.
    pub target: Target,
    /// `None`: it has ended, or failed.
    #[cfg_attr(feature = "handover", serde(skip))]
    remuxer: Option<Box<Remuxer>>,
    /// Cost that it may still cause, beside the cost that each new byte allows.
    #[cfg_attr(feature = "handover", serde(skip))]
    allowance: usize,
    /// Offset of the next byte that it reads from the original's buffer. `None`: it has caught up,
    /// and each new byte is fed to it.
    pub read_offset: Option<u64>,
    /// Offset in the original of the first byte that it has read.
    pub began: u64,
    /// The newest jumps of the source's clock, at most [`JUMPS_MAX`].
    jumps: VecDeque<ClockJump>,
}

/// A jump of a source's clock.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    not(feature = "handover"),
    expect(dead_code, reason = "only a hand-over reads it")
)]
struct ClockJump {
    /// Offset in the original of the piece that showed the jump. The first unit of the new clock may
    /// have begun in an earlier piece.
    at: u64,
    /// Nanoseconds by which the times before were moved.
    shift_before: i64,
}

/// An original's entry for one container.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct RemuxTarget {
    /// The container.
    pub target: Target,
    /// The remuxed stream, if it exists.
    pub stream: Option<StreamId>,
    /// Why this source cannot be remuxed.
    pub fault: Option<Box<str>>,
}

/// Bytes that a remuxer is fed at once: a few bytes can make much output.
pub(super) const PIECE_BYTES: usize = 16 * 1024;
/// Bytes that a remuxed stream reads at once while it is behind. At least one block, or its next
/// bytes could be overwritten; and large enough for a `--buffer` to take few steps.
pub(super) const STEP_BYTES: usize = 64 * 1024;
/// The cost after which no further piece is read in one step. Ordinary media cost less.
pub(super) const STEP_WORK: usize = 4 * STEP_BYTES;
/// Bytes that are read for each byte that arrives, while behind. At least one, or the unread bytes
/// would be overwritten.
pub(super) const READ_PER_BYTE: usize = 2;
/// A unit that is remuxed has at most this fraction of `--buffer`.
const REMUXED_UNIT_PART: usize = 4;
/// The cost that each byte of a source allows ([`crate::remux::ReaderEvent::work`]). An ordinary
/// source causes 1 to 4; frames of 10 bytes cause 27.
const WORK_PER_BYTE: usize = 32;
/// The allowance that a source may save up, at most. It bounds the memory for one piece's output.
const WORK_SAVED_MAX: usize = 256 * 1024;
/// Bytes of output for a byte of input, in most cases at most.
pub(super) const LARGER: usize = 4;
/// Maximal number of jumps of a clock that are kept for a remuxer of another process, which reads
/// over them again. If a clock jumps more often within a few key frames, the times after a
/// hand-over may be wrong.
const JUMPS_MAX: usize = 8;
/// Tracks that a refusal names, at most.
const LINES_MAX: usize = 4;

impl Limits {
    /// Returns the length of the longest unit that is remuxed.
    pub fn remuxed_unit_bytes_max(&self) -> usize {
        self.stream.buffer_bytes / REMUXED_UNIT_PART
    }

    /// Returns how many remuxed streams there may be at once. Each takes a whole buffer. Together
    /// they leave half of `--buffers` to the original streams, except that one is always allowed.
    /// Otherwise a viewer of many sessions could take the memory of all.
    pub fn remuxed_max(&self) -> usize {
        let buffers = self.buffers_bytes_max / self.stream.buffer_bytes.max(1);
        (buffers / 2).max(1)
    }
}

/// The result of feeding a remuxer.
pub struct Fed {
    /// Cost, in bytes that are only passed on.
    pub work: usize,
    /// An error ends the remuxed stream.
    pub result: Result<(), MediaError>,
}

impl RemuxedStream {
    /// Creates the link to this original.
    pub fn new(
        (original, serial): (StreamId, u64),
        target: Target,
        remuxer: Remuxer,
    ) -> RemuxedStream {
        RemuxedStream {
            original,
            serial,
            target,
            remuxer: Some(Box::new(remuxer)),
            allowance: WORK_SAVED_MAX,
            read_offset: None,
            began: 0,
            jumps: VecDeque::new(),
        }
    }

    /// Returns the offset in the original of the next byte that it reads. `None`: it gets bytes as they
    /// arrive, or its remuxer is gone.
    pub fn unread_from(&self) -> Option<u64> {
        self.read_offset.filter(|_| self.remuxer.is_some())
    }

    /// Returns how many bytes of the original's source may be read at once, if this stream's buffer
    /// has room for `room` bytes. Small units grow in some containers. A stream that is behind reads
    /// more than arrives, in the same turn, and no cost stops it.
    pub fn wanted_of(&self, room: usize) -> usize {
        match self.unread_from() {
            Some(_) => (room / LARGER / (1 + READ_PER_BYTE)).min(PIECE_BYTES),
            None => room / LARGER,
        }
    }

    /// Reads bytes from the original's buffer while it is behind.
    pub fn read_on(&mut self, kept: &[u8], out: &mut Vec<u8>) -> Fed {
        if kept.is_empty() {
            self.remuxer = None;
            let result = Err(MediaError("what it has yet to read is kept no more"));
            return Fed { work: 0, result };
        }
        let at = self.read_offset.unwrap_or(0);
        self.read_offset = self.read_offset.map(|offset| offset + kept.len() as u64);
        self.feed(at, kept, out)
    }

    /// Returns the state of its remuxer for another process.
    #[cfg(feature = "handover")]
    pub fn state(&self) -> Option<RemuxerState> {
        self.remuxer.as_deref().map(Remuxer::state)
    }

    /// Returns the offsets in the original from and up to which it has read, if the newest byte there
    /// is at `newest`.
    #[cfg(feature = "handover")]
    pub fn read(&self, newest: u64) -> (u64, u64) {
        (self.began, self.read_offset.unwrap_or(newest))
    }

    /// Returns the nanoseconds by which times at this offset in the original were moved. The times
    /// belong to one of two clocks: the older one is first. `None`: they were moved as times are now.
    #[cfg(feature = "handover")]
    pub fn shifts_at(&self, offset: u64) -> Option<(i64, Option<i64>)> {
        let mut next = self.jumps.iter().skip_while(|jump| jump.at < offset);
        let before = next.next()?.shift_before;
        Some((before, next.next().map(|jump| jump.shift_before)))
    }

    /// Goes on with this remuxer, which reads the original from this offset on. It finds the later jumps
    /// again.
    #[cfg(feature = "handover")]
    pub fn resume(&mut self, remuxer: Remuxer, offset: u64) {
        self.jumps.retain(|jump| jump.at < offset);
        self.jumps.truncate(JUMPS_MAX);
        *self = RemuxedStream {
            read_offset: Some(offset),
            began: self.began,
            jumps: std::mem::take(&mut self.jumps),
            ..RemuxedStream::new((self.original, self.serial), self.target, remuxer)
        };
    }

    /// Remuxes the original's next bytes, which are at this offset, and appends the output.
    pub fn feed(&mut self, at: u64, bytes: &[u8], out: &mut Vec<u8>) -> Fed {
        let (mut work, mut result) = (0, Ok(()));
        if let Some(remuxer) = &mut self.remuxer {
            let shift_before = remuxer.shift();
            let (allowed, before) = (bytes.len() * WORK_PER_BYTE, out.len());
            let allowed = self.allowance.min(WORK_SAVED_MAX) + allowed;
            let mut left = allowed;
            result = remuxer.feed(bytes, &mut left, out);
            // Each byte is looked for, and belongs to a unit.
            work = 2 * bytes.len() + (allowed - left) + (out.len() - before);
            self.allowance = left.min(WORK_SAVED_MAX);
            if let Some(shift_before) = shift_before
                && remuxer.shift() != Some(shift_before)
            {
                if self.jumps.len() >= JUMPS_MAX {
                    self.jumps.pop_front();
                }
                self.jumps.push_back(ClockJump { at, shift_before });
            }
        }
        if result.is_err() {
            // An error is reported once.
            self.remuxer = None;
        }
        Fed { work, result }
    }

    /// Returns whether a track is known that can be carried.
    pub fn carries_any(&self) -> bool {
        self.remuxer.as_deref().is_some_and(Remuxer::carries_any)
    }

    /// Returns why there will be no output, if that is known.
    pub fn emptiness(&self) -> Option<String> {
        let remuxer = self.remuxer.as_deref()?;
        let lines = remuxer.left_out().iter().take(LINES_MAX);
        let lines: Vec<&str> = lines.map(String::as_str).collect();
        remuxer.carries_nothing().then(|| lines.join(", "))
    }

    /// Appends the output for the bytes that the remuxer still holds, and drops the remuxer.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if let Some(mut remuxer) = self.remuxer.take() {
            // After an error, the output so far is still whole.
            let _ = remuxer.finish(out);
        }
    }
}

#[cfg(test)]
#[cfg(feature = "default")]
mod tests {
    use super::*;
    use crate::format::Format;
    use crate::relay::stage::Stage;

    const FILE: &[u8] = include_bytes!("../../../tests/media/h264.flv");
    const UNIT_MAX: usize = 64 * 1024;

    fn limits(options: &[&str]) -> Limits {
        let stage = Stage::new(options);
        stage.relay.ctx.settings().limits
    }

    fn remuxed(format: Format, target: Target) -> RemuxedStream {
        let remuxer = Remuxer::new(format, target, UNIT_MAX).expect("it is read");
        RemuxedStream::new((StreamId::from_u64(1), 1), target, remuxer)
    }

    fn ts_output() -> Target {
        let mut targets = Target::ALL.into_iter();
        let target = targets.find(|target| target.format() == Format::MpegTs);
        target.expect("there is this one")
    }

    #[test]
    fn remuxed_streams_use_half_of_the_buffers_at_most() {
        let few = limits(&["--buffer=1M", "--buffers=8M"]);
        let many = limits(&["--buffer=1M", "--buffers=17M"]);
        assert_eq!((few.remuxed_max(), many.remuxed_max()), (4, 8));
        let one = limits(&["--buffer=1M", "--buffers=1M"]);
        assert_eq!(one.remuxed_max(), 1);
        assert_eq!(one.remuxed_unit_bytes_max(), 256 * 1024);
    }

    /// A stream that is behind reads two bytes more for each one that arrives.
    #[test]
    fn a_remuxed_stream_that_is_behind_lets_a_third_be_read() {
        let mut remuxed = remuxed(Format::Flv, ts_output());
        assert_eq!(remuxed.wanted_of(12_000), 3000);
        remuxed.read_offset = Some(7);
        assert_eq!(remuxed.unread_from(), Some(7));
        assert_eq!(remuxed.wanted_of(12_000), 1000);
        assert_eq!(remuxed.wanted_of(1 << 20), PIECE_BYTES);
        remuxed.read_offset = None;
        assert_eq!(
            (remuxed.unread_from(), remuxed.wanted_of(1 << 20)),
            (None, 1 << 18)
        );
    }

    /// The length of the output buffer before the call does not count.
    #[test]
    fn the_cost_is_measured_by_the_new_bytes_alone() {
        let mut remuxed = remuxed(Format::Flv, ts_output());
        let mut out = vec![0; 4 << 20];
        let fed = remuxed.feed(0, &FILE[..9_000], &mut out);
        fed.result.expect("it is sound");
        remuxed.allowance = 0;
        let mut tail = FILE[9_000..].to_vec();
        tail.truncate(20_000);
        let fed = remuxed.feed(0, &tail, &mut out);
        fed.result.expect("it is sound");
        assert!(fed.work > 2 * tail.len());
        assert!((1..=WORK_SAVED_MAX).contains(&remuxed.allowance));
        assert!(remuxed.remuxer.is_some());
        remuxed.finish(&mut out);
        assert!(remuxed.remuxer.is_none());
        assert!(
            remuxed.feed(0, FILE, &mut out).result.is_ok(),
            "it takes all"
        );
    }

    #[test]
    fn a_remuxed_stream_without_output_says_why() {
        let webm = include_bytes!("../../../tests/media/vp8.webm");
        for (format, media, is_empty) in
            [(Format::Flv, FILE, false), (Format::WebM, &webm[..], true)]
        {
            let mut remuxed = remuxed(format, ts_output());
            let mut out = Vec::new();
            for piece in media.chunks(PIECE_BYTES) {
                let fed = remuxed.feed(0, piece, &mut out);
                fed.result.expect("it is sound");
            }
            let why = remuxed.emptiness();
            assert_eq!(why.is_some(), is_empty, "{why:?}");
            assert!(why.is_none_or(|why| why.contains("VP8")));
        }
    }

    /// Otherwise the bytes that it has yet to read could be overwritten.
    #[test]
    fn one_read_takes_at_least_a_block() {
        let limits = limits(&["--buffer=64M"]);
        let mut pool = crate::stream::Pool::new(limits.buffers_bytes_max);
        let now = crate::time::Instant::START;
        let mut buffer = crate::stream::StreamBuffer::<u8>::new(limits.stream, None, now);
        buffer.append(&vec![7; 500_000], &mut pool, now);
        let block = buffer.slice(0, usize::MAX).len();
        assert!((1..=STEP_BYTES).contains(&block), "{block}");
    }
}
