//! Heads of PES packets (ISO/IEC 13818-1 section 2.4.3.6), and their times.

use super::super::medium::Result;
use super::super::medium::nanoseconds;
use super::time;
use crate::format::mpegts::time_stamp;
use crate::time::MediaTime;

pub(super) const TICKS_PER_SECOND: u32 = MediaTime::TICKS_PER_SECOND;
/// Bytes up to the length of the rest of the head.
const FIXED_BYTES: usize = 9;
/// Maximal number of marks of a stream. A PES packet in which no unit begins leaves a mark that
/// nothing takes.
const MARKS_MAX: usize = 32;

/// Clock of a program. The packets carry 33 bits of it.
#[derive(Default)]
pub(super) struct ProgramClock {
    /// Newest time, and the same without wrapping.
    newest: Option<(MediaTime, i64)>,
}

impl ProgramClock {
    /// Returns how much the wraps of the clock add to the newest time, in nanoseconds.
    pub fn shift(&self) -> i64 {
        let ticks = self
            .newest
            .map_or(0, |(time, ticks)| ticks - time.ticks() as i64);
        nanoseconds(ticks, TICKS_PER_SECOND).unwrap_or(0)
    }

    fn ticks(&mut self, time: u64) -> i64 {
        let time = MediaTime::from_ticks(time);
        let ticks = match self.newest {
            None => time.ticks() as i64,
            Some((newest, ticks)) => ticks.saturating_add(time.since(newest)),
        };
        self.newest = Some((time, ticks));
        ticks
    }
}

/// Times of a unit, as its source has them, in nanoseconds.
#[derive(Clone, Copy)]
pub(super) struct Times {
    /// Time by which the unit must have come.
    pub decode: i64,
    /// Time at which the unit is shown or heard.
    pub present: i64,
}

/// What a PES packet says about the unit that begins in it.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    /// Times. `None` if the packet has none.
    pub times: Option<Times>,
    /// Whether the packet says that decoding can begin with the unit.
    pub is_random_access: bool,
}

/// Marks, by the position of their PES packets in a stream's bytes.
#[derive(Default)]
pub(super) struct Marks(Vec<(usize, Mark)>);

impl Marks {
    /// Adds a mark at this position. Positions ascend. With too many marks the oldest is dropped.
    pub fn put(&mut self, at: usize, mark: Mark) {
        if self.0.len() >= MARKS_MAX {
            self.0.remove(0);
        }
        self.0.push((at, mark));
    }

    /// Removes and returns the newest mark that is not after this position. Earlier ones are
    /// dropped.
    pub fn take(&mut self, at: usize) -> Option<Mark> {
        let after = self.0.partition_point(|(state, _)| *state <= at);
        let mark = self.0[..after].last().map(|(_, mark)| *mark);
        self.0.drain(..after);
        mark
    }

    /// Returns whether there is a mark that is not after this position.
    pub fn has(&self, at: usize) -> bool {
        self.0.first().is_some_and(|(state, _)| *state <= at)
    }

    /// Removes bytes from the front.
    pub fn pass(&mut self, bytes: usize) {
        for (state, _) in &mut self.0 {
            *state = state.saturating_sub(bytes);
        }
    }

    /// Drops all marks.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Head of a stream's PES packet as it comes.
#[derive(Default)]
pub(super) struct Head {
    /// Bytes of the head: at most 264. Seldom more than one packet of 184 bytes is needed.
    bytes: Vec<u8>,
    state: HeadState,
    /// Whether the packet has the random-access indicator.
    is_random_access: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum HeadState {
    /// Nothing counts before the next PES packet.
    #[default]
    Outside,
    /// The head is not whole yet.
    Head,
    /// The head is whole.
    Content,
}

/// What follows when the bytes of a head have been taken from a payload.
pub(super) enum PayloadRest {
    /// No content follows in this payload.
    Nothing,
    /// Content follows. The mark comes with the first content of a PES packet.
    Content(Option<Mark>),
}

impl Head {
    /// Begins another PES packet.
    pub fn begin(&mut self, is_random_access: bool) {
        self.bytes.clear();
        self.state = HeadState::Head;
        self.is_random_access = is_random_access;
    }

    /// Packets are missing.
    pub fn lose(&mut self) {
        self.state = HeadState::Outside;
    }

    /// Takes the bytes of the head from the payload.
    pub fn take(&mut self, payload: &mut &[u8], clock: &mut ProgramClock) -> Result<PayloadRest> {
        match self.state {
            HeadState::Outside => return Ok(PayloadRest::Nothing),
            HeadState::Content => return Ok(PayloadRest::Content(None)),
            HeadState::Head => {}
        }
        let wanted = |bytes: &[u8]| match bytes.get(FIXED_BYTES - 1) {
            Some(rest) => FIXED_BYTES + usize::from(*rest),
            None => FIXED_BYTES,
        };
        while self.bytes.len() < wanted(&self.bytes) {
            let missing = wanted(&self.bytes) - self.bytes.len();
            let (taken, after) = payload.split_at(missing.min(payload.len()));
            if taken.is_empty() {
                return Ok(PayloadRest::Nothing);
            }
            self.bytes.extend_from_slice(taken);
            *payload = after;
        }
        let Some(mark) = self.read(clock)? else {
            self.state = HeadState::Outside;
            return Ok(PayloadRest::Nothing);
        };
        self.state = HeadState::Content;
        Ok(PayloadRest::Content(Some(mark)))
    }

    /// Reads a whole head. `None` if it is not one of media.
    fn read(&self, clock: &mut ProgramClock) -> Result<Option<Mark>> {
        let [0, 0, 1, _, _, _, flags, said, _, rest @ ..] = self.bytes.as_slice() else {
            return Ok(None);
        };
        if flags & 0xc0 != 0x80 {
            return Ok(None);
        }
        let present = time_stamp(rest).filter(|_| said & 0x80 != 0);
        let decode = rest.get(5..).and_then(time_stamp);
        let decode = decode.filter(|_| said & 0x40 != 0).or(present);
        let times = match present.zip(decode) {
            None => None,
            Some((present, decode)) => {
                let ahead = MediaTime::from_ticks(present).since(MediaTime::from_ticks(decode));
                let decode = clock.ticks(decode);
                Some(Times {
                    decode: time(decode)?,
                    present: time(decode.saturating_add(ahead))?,
                })
            }
        };
        Ok(Some(Mark {
            times,
            is_random_access: self.is_random_access,
        }))
    }
}
