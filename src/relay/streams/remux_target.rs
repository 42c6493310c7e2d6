//! What makes a stream the shadow of another, and what that knows of it.

use crate::relay::held::{GRANTED_BYTES, RTP_BYTES, UDP_CLIENT_BYTES};
use crate::relay::{Limits, StreamId};
#[cfg(feature = "handover")]
use crate::remux::RemuxerState;
use crate::remux::{Fault, Remuxer, Target};

/// What makes a stream the shadow of another.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct RemuxedStream {
    /// Whose shadow it is,
    pub original: StreamId,
    /// that one's serial number,
    pub serial: u64,
    /// and in which container.
    pub target: Target,
    /// `None`: nothing more comes of it.
    #[cfg_attr(feature = "handover", serde(skip))]
    remuxer: Option<Box<Remuxer>>,
    /// The work that it may make beside what each byte that goes in allows.
    #[cfg_attr(feature = "handover", serde(skip))]
    allowance: usize,
    /// The offset in its original of what it has yet to read; `None`: it is given what comes.
    behind: Option<u64>,
}

/// What an original knows of its shadow in one container.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct RemuxTarget {
    /// The container.
    pub target: Target,
    /// Its shadow.
    pub stream: Option<StreamId>,
    /// Why there is none of this source.
    pub fault: Option<Box<str>>,
}

/// Fed at once: so much may come out of little.
pub(super) const PIECE_BYTES: usize = 16 * 1024;
/// Read at one go of what a shadow has yet to read: a block at least, or what comes next might be
/// overwritten; and so much that few goes are needed for a `--buffer`.
pub(super) const GO_BYTES: usize = 64 * 1024;
/// The work after which no further piece is read at one go. A go of ordinary bytes makes less.
pub(super) const GO_WORK: usize = 4 * GO_BYTES;
/// Beside each byte that comes so many of those are read. One at least, or what has yet to be read
/// would be overwritten.
pub(super) const READ_PER_BYTE: usize = 2;
/// A part of `--buffer` that a unit may have.
const UNIT_PART: usize = 4;
/// The work that each byte of a source may make ([`crate::remux::ReaderEvent::work`]). An ordinary source
/// makes 1 to 4; frames of 10 bytes make 27.
const WORK_PER_BYTE: usize = 32;
/// The work that a source may save up. What it makes at once is held in memory.
const WORK_SAVED_MAX: usize = 256 * 1024;
/// What mostly comes out for a byte at the most.
pub(super) const LARGER: usize = 4;
/// Tracks that are named to who cannot have them.
const LINES_MAX: usize = 4;

impl Limits {
    /// The longest unit that is taken into another container.
    pub fn remuxed_unit_bytes_max(&self) -> usize {
        self.stream.buffer_bytes / UNIT_PART
    }

    /// How many shadows there may be at once: each takes a whole buffer, and together, if they are
    /// more than one, they leave half of the bytes to streams as they are, or whoever may watch
    /// many sessions takes from everybody what those keep.
    pub fn shadows_max(&self) -> usize {
        let buffers = self.buffers_bytes_max / self.stream.buffer_bytes.max(1);
        (buffers / 2).max(1)
    }

    /// What all of them hold at the most, beside what `--buffers` bounds.
    pub fn shadows_held_bytes_max(&self) -> usize {
        let remuxer = Remuxer::held_bytes_max(self.remuxed_unit_bytes_max());
        let udp_clients = self.tokens.udp_clients_per_session_max * UDP_CLIENT_BYTES;
        let rtp = RTP_BYTES + udp_clients;
        let each = self.stream.held_beside_buffer_max() + GRANTED_BYTES + rtp + remuxer;
        self.shadows_max() * each
    }
}

/// What was done with a piece of a source.
pub(super) struct Fed {
    /// In bytes that are only passed on.
    pub work: usize,
    /// A fault ends the shadow.
    pub result: Result<(), Fault>,
}

impl RemuxedStream {
    /// Of this stream, from its first byte on.
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
            behind: None,
        }
    }

    /// It has yet to read what its original keeps from this offset on.
    pub fn is_behind_from(&mut self, offset: u64) {
        self.behind = Some(offset);
    }

    /// The offset of what it has yet to read; `None`: it has caught up, or needs nothing more.
    pub fn behind(&self) -> Option<u64> {
        self.behind.filter(|_| self.remuxer.is_some())
    }

    /// It has read all that there was: from now on it is given what comes.
    pub fn keep_up(&mut self) {
        self.behind = None;
    }

    /// By so much less of its original's source is read at once than it could keep: small units are
    /// larger in some containers, and beside what comes it reads what it has yet to.
    pub fn part_wanted(&self) -> usize {
        match self.behind() {
            Some(_) => LARGER * (1 + READ_PER_BYTE),
            None => LARGER,
        }
    }

    /// Takes what its original keeps of what it has yet to read.
    pub fn read_on(&mut self, kept: &[u8], out: &mut Vec<u8>) -> Fed {
        if kept.is_empty() {
            self.remuxer = None;
            let result = Err(Fault("what it has yet to read is kept no more"));
            return Fed { work: 0, result };
        }
        self.behind = self.behind.map(|offset| offset + kept.len() as u64);
        self.feed(kept, out)
    }

    /// Returns the state of its remuxer for another process.
    #[cfg(feature = "handover")]
    pub fn state(&self) -> Option<RemuxerState> {
        self.remuxer.as_deref().map(Remuxer::state)
    }

    /// Returns the offset in the original up to which it has read, if the newest byte there is at
    /// `newest`.
    #[cfg(feature = "handover")]
    pub fn cursor(&self, newest: u64) -> u64 {
        self.behind.unwrap_or(newest)
    }

    /// Goes on with this remuxer, which reads the original from this offset on.
    #[cfg(feature = "handover")]
    pub fn resume(&mut self, remuxer: Remuxer, offset: u64) {
        *self = RemuxedStream {
            behind: Some(offset),
            ..RemuxedStream::new((self.original, self.serial), self.target, remuxer)
        };
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        let remuxer = self.remuxer.as_deref();
        remuxer.map_or(0, |remuxer| size_of::<Remuxer>() + remuxer.held_bytes())
    }

    /// Takes the original's next bytes and appends what comes of them.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Fed {
        let (mut work, mut result) = (0, Ok(()));
        if let Some(remuxer) = &mut self.remuxer {
            let (allowed, before) = (bytes.len() * WORK_PER_BYTE, out.len());
            let allowed = self.allowance.min(WORK_SAVED_MAX) + allowed;
            let mut left = allowed;
            result = remuxer.feed(bytes, &mut left, out);
            work = bytes.len() + (allowed - left) + (out.len() - before);
            self.allowance = left.min(WORK_SAVED_MAX);
        }
        if result.is_err() {
            // It is said once.
            self.remuxer = None;
        }
        Fed { work, result }
    }

    /// Whether a track is known that can be carried.
    pub fn carries_any(&self) -> bool {
        self.remuxer.as_deref().is_some_and(Remuxer::carries_any)
    }

    /// Why nothing will come of it, as far as is known.
    pub fn emptiness(&self) -> Option<String> {
        let remuxer = self.remuxer.as_deref()?;
        let lines = remuxer.left_out().iter().take(LINES_MAX);
        let lines: Vec<&str> = lines.map(String::as_str).collect();
        remuxer.carries_nothing().then(|| lines.join(", "))
    }

    /// Nothing more is fed: appends what has waited, and lets the remuxer go.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if let Some(mut remuxer) = self.remuxer.take() {
            // What a fault leaves is whole.
            let _ = remuxer.finish(out);
        }
    }
}

impl RemuxTarget {
    /// Bytes that it takes.
    pub fn held_bytes(&self) -> usize {
        size_of::<RemuxTarget>() + self.fault.as_ref().map_or(0, |fault| fault.len())
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

    fn shadow(format: Format, target: Target) -> RemuxedStream {
        let remuxer = Remuxer::new(format, target, UNIT_MAX).expect("it is read");
        RemuxedStream::new((StreamId::from_u64(1), 1), target, remuxer)
    }

    fn ts_output() -> Target {
        let mut targets = Target::ALL.into_iter();
        let target = targets.find(|target| target.format() == Format::MpegTs);
        target.expect("there is this one")
    }

    #[test]
    fn shadows_are_as_many_as_half_of_the_buffers_and_each_holds_so_much() {
        let few = limits(&["--buffer=1M", "--buffers=8M"]);
        let many = limits(&["--buffer=1M", "--buffers=17M"]);
        assert_eq!((few.shadows_max(), many.shadows_max()), (4, 8));
        let one = limits(&["--buffer=1M", "--buffers=1M"]);
        assert_eq!(one.shadows_max(), 1);
        assert_eq!(one.remuxed_unit_bytes_max(), 256 * 1024);
        let each = one.shadows_held_bytes_max();
        assert_eq!(few.shadows_held_bytes_max(), 4 * each);
        assert_eq!(many.shadows_held_bytes_max(), 8 * each);
        // Whoever may have no UDP client, has all the rest.
        let mut alone = one;
        alone.tokens.udp_clients_per_session_max = 0;
        let clients = one.tokens.udp_clients_per_session_max * UDP_CLIENT_BYTES;
        assert!(clients > 0);
        let mut rest = each - clients;
        assert_eq!(alone.shadows_held_bytes_max(), rest);
        let remuxer = Remuxer::held_bytes_max(256 * 1024);
        let beside = one.stream.held_beside_buffer_max();
        for part in [RTP_BYTES, GRANTED_BYTES, remuxer, beside] {
            assert!(part > 0);
            rest = rest.checked_sub(part).expect("a part of it");
        }
        assert_eq!(rest, 0);
    }

    /// While it is behind it reads two bytes more beside each that comes.
    #[test]
    fn a_shadow_that_is_behind_wants_a_third_of_what_one_wants_that_keeps_up() {
        let mut shadow = shadow(Format::Flv, ts_output());
        assert_eq!(shadow.part_wanted(), LARGER);
        shadow.is_behind_from(7);
        assert_eq!(shadow.behind(), Some(7));
        assert_eq!(shadow.part_wanted(), 3 * LARGER);
        shadow.keep_up();
        assert_eq!((shadow.behind(), shadow.part_wanted()), (None, LARGER));
    }

    /// What other streams have made before does not count.
    #[test]
    fn what_comes_of_a_source_is_measured_by_what_goes_in() {
        let mut shadow = shadow(Format::Flv, ts_output());
        let mut out = vec![0; 4 << 20];
        let fed = shadow.feed(&FILE[..9_000], &mut out);
        fed.result.expect("it is sound");
        shadow.allowance = 0;
        let mut tail = FILE[9_000..].to_vec();
        tail.truncate(20_000);
        let fed = shadow.feed(&tail, &mut out);
        fed.result.expect("it is sound");
        assert!(fed.work > 2 * tail.len());
        assert!((1..=WORK_SAVED_MAX).contains(&shadow.allowance));
        let remuxer = shadow.remuxer.as_ref().expect("it goes on");
        let beside = remuxer.held_bytes();
        assert!(beside > 1);
        assert_eq!(shadow.held_bytes(), size_of::<Remuxer>() + beside);
        shadow.finish(&mut out);
        assert_eq!(shadow.held_bytes(), 0);
        assert!(shadow.feed(FILE, &mut out).result.is_ok(), "it takes all");
    }

    #[test]
    fn a_shadow_of_which_nothing_comes_says_why() {
        let webm = include_bytes!("../../../tests/media/vp8.webm");
        for (format, media, is_empty) in
            [(Format::Flv, FILE, false), (Format::WebM, &webm[..], true)]
        {
            let mut shadow = shadow(format, ts_output());
            let mut out = Vec::new();
            for piece in media.chunks(PIECE_BYTES) {
                let fed = shadow.feed(piece, &mut out);
                fed.result.expect("it is sound");
            }
            let why = shadow.emptiness();
            assert_eq!(why.is_some(), is_empty, "{why:?}");
            assert!(why.is_none_or(|why| why.contains("VP8")));
        }
    }

    /// Or what comes next might overwrite what has yet to be read.
    #[test]
    fn a_go_is_of_a_block_at_least() {
        let limits = limits(&["--buffer=64M"]);
        let mut pool = crate::stream::Pool::new(limits.buffers_bytes_max);
        let now = crate::time::Instant::START;
        let mut buffer = crate::stream::StreamBuffer::<u8>::new(limits.stream, None, now);
        buffer.append(&vec![7; 500_000], &mut pool, now);
        let block = buffer.slice(0, usize::MAX).len();
        assert!((1..=GO_BYTES).contains(&block), "{block}");
    }
}
