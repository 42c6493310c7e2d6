//! Heads of PES packets (ISO/IEC 13818-1 section 2.4.3.6), and the times that they tell.

use super::super::medium::Fault;
#[cfg(feature = "handover")]
use super::super::medium::Time;
use super::super::sample_queue::Times;
use super::time;
use crate::time::MediaTime;

pub(super) const TICKS_PER_SECOND: u32 = MediaTime::TICKS_PER_SECOND;
/// Up to the length of the rest of the head.
const FIXED_BYTES: usize = 9;
/// A PES packet in which nothing begins has a mark that nothing takes: so few are kept.
const MARKS_MAX: usize = 32;

/// The clock of a program, of which 33 bits come.
#[derive(Default)]
pub(super) struct Clock {
    /// The last time that came, and what that was without an end to the clock.
    newest: Option<(MediaTime, i64)>,
}

impl Clock {
    /// Returns what is added to the newest time that came because the clock has ended and begun
    /// again, in nanoseconds.
    #[cfg(feature = "handover")]
    pub fn shift(&self) -> i64 {
        let ticks = self
            .newest
            .map_or(0, |(told, ticks)| ticks - told.ticks() as i64);
        Time::of(ticks, TICKS_PER_SECOND).map_or(0, Time::nanoseconds)
    }

    fn ticks(&mut self, told: u64) -> i64 {
        let told = MediaTime::from_ticks(told);
        let ticks = match self.newest {
            None => told.ticks() as i64,
            Some((newest, ticks)) => ticks.saturating_add(told.since(newest)),
        };
        self.newest = Some((told, ticks));
        ticks
    }
}

/// What a PES packet says of the unit that begins in it.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    /// `None` if it says nothing.
    pub times: Option<Times>,
    /// Decoding can begin with it, as the packet says.
    pub is_random_access: bool,
}

/// Marks, by where in a stream's bytes their PES packets begin.
#[derive(Default)]
pub(super) struct Marks(Vec<(usize, Mark)>);

impl Marks {
    /// A PES packet begins there: places ascend. Of too many the oldest is forgotten.
    pub fn put(&mut self, at: usize, mark: Mark) {
        if self.0.len() >= MARKS_MAX {
            self.0.remove(0);
        }
        self.0.push((at, mark));
    }

    /// The newest that is not behind this place; those before it are void.
    pub fn take(&mut self, at: usize) -> Option<Mark> {
        let behind = self.0.partition_point(|(place, _)| *place <= at);
        let mark = self.0[..behind].last().map(|(_, mark)| *mark);
        self.0.drain(..behind);
        mark
    }

    /// Whether there is one that is not behind this place.
    pub fn has(&self, at: usize) -> bool {
        self.0.first().is_some_and(|(place, _)| *place <= at)
    }

    /// So many bytes are done with.
    pub fn pass(&mut self, bytes: usize) {
        for (place, _) in &mut self.0 {
            *place = place.saturating_sub(bytes);
        }
    }

    /// None holds any more.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Bytes that its one allocation takes.
    pub fn held_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(usize, Mark)>()
    }
}

/// The head of a stream's PES packet as it comes.
#[derive(Default)]
pub(super) struct Head {
    /// Seldom more than one packet of 184 bytes is needed: 264 bytes at the most.
    bytes: Vec<u8>,
    place: Place,
    is_random_access: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// Nothing counts before the next one begins.
    #[default]
    Outside,
    Head,
    Content,
}

impl Head {
    /// Another PES packet begins.
    pub fn begin(&mut self, is_random_access: bool) {
        self.bytes.clear();
        self.place = Place::Head;
        self.is_random_access = is_random_access;
    }

    /// Packets are missing.
    pub fn lose(&mut self) {
        self.place = Place::Outside;
    }

    /// Takes what belongs to the head off the payload; `None` if there is nothing behind it yet,
    /// and the mark with what comes first.
    pub fn take(
        &mut self,
        payload: &mut &[u8],
        clock: &mut Clock,
    ) -> Result<Option<Option<Mark>>, Fault> {
        match self.place {
            Place::Outside => return Ok(None),
            Place::Content => return Ok(Some(None)),
            Place::Head => {}
        }
        let wanted = |bytes: &[u8]| match bytes.get(FIXED_BYTES - 1) {
            Some(rest) => FIXED_BYTES + usize::from(*rest),
            None => FIXED_BYTES,
        };
        while self.bytes.len() < wanted(&self.bytes) {
            let missing = wanted(&self.bytes) - self.bytes.len();
            let (taken, behind) = payload.split_at(missing.min(payload.len()));
            if taken.is_empty() {
                return Ok(None);
            }
            self.bytes.extend_from_slice(taken);
            *payload = behind;
        }
        let read = self.read(clock)?;
        self.place = match read {
            None => Place::Outside,
            Some(_) => Place::Content,
        };
        Ok(read.map(Some))
    }

    /// A head that is whole; `None` if it is not one of media.
    fn read(&self, clock: &mut Clock) -> Result<Option<Mark>, Fault> {
        let [0, 0, 1, _, _, _, flags, said, _, rest @ ..] = self.bytes.as_slice() else {
            return Ok(None);
        };
        if flags & 0xc0 != 0x80 {
            return Ok(None);
        }
        let present = ticks(rest).filter(|_| said & 0x80 != 0);
        let decode = rest.get(5..).and_then(ticks);
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

    /// Bytes that its one allocation takes.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

/// A time of 33 bits in five bytes.
fn ticks(bytes: &[u8]) -> Option<u64> {
    let [a, b, c, d, e] = bytes.first_chunk::<5>()?;
    Some(
        u64::from(a >> 1 & 7) << 30
            | u64::from(*b) << 22
            | u64::from(c >> 1) << 15
            | u64::from(*d) << 7
            | u64::from(e >> 1),
    )
}
