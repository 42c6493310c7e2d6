//! The events of `/api/events`, as text: numbered events of a `text/event-stream` (WHATWG HTML
//! section 9.2), kept once for all readers.
//!
//! ```text
//!     first                                                 next
//!   …│ event │ event │ event │ event │ … │ event │ event │ event │
//!                ▲ slow reader                    ▲ readers that keep up
//!   A reader in front of the first event has missed some, and gets a snapshot.
//! ```
//!
//! A reader is the number of its next event. It is always between two events: the rest of an event
//! that its socket took partly is copied for it ([`Events::advance`]).
//!
//! Bounds: [`BYTES_MAX`] of text and [`UNITS_MAX`] events, each with a session id. Nothing is kept
//! before the first reader comes. The cost of an event does not depend on the number of readers.

#[cfg(feature = "handover")]
mod handover;

use std::collections::VecDeque;

use crate::gate::SessionId;
use crate::gather::Gather;

/// The newest events.
#[derive(Default)]
pub struct Events {
    bytes: VecDeque<u8>,
    units: VecDeque<Unit>,
    /// The number of the first unit.
    pub first: u64,
    /// Offset of the first byte, counted from the first byte of all events.
    begin: u64,
    /// Whether a reader has ever come.
    pub is_kept: bool,
    /// Whether an event has been added since [`Events::take_new`].
    is_new: bool,
    scratch: Vec<u8>,
}

struct Unit {
    /// Offset of its end.
    end: u64,
    /// Session that it is about.
    of: Option<SessionId>,
}

/// Maximal number of bytes of text that are kept.
pub const BYTES_MAX: usize = 1024 * 1024;
/// Maximal number of events that are kept.
pub const UNITS_MAX: usize = 16 * 1024;
/// Maximal number of events that are looked at in one turn, for a reader that gets few of them. It
/// continues there in its next turn.
const EXAMINED_MAX: usize = 1024;
/// Bytes that are lent at once.
const LENT_BYTES_MAX: usize = 64 * 1024;

/// Id of an event: the run of the server, and the number of the event in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct EventId {
    /// Random number of the run.
    pub run: u32,
    /// Number from 1. 0 is in front of the first event.
    pub number: u64,
}

impl EventId {
    /// Id of no event.
    pub const UNKNOWN: EventId = EventId {
        run: 0,
        number: u64::MAX,
    };

    /// Parses a printed id. `None` for other text.
    pub fn of_text(text: &str) -> Option<EventId> {
        let (run, number) = text.split_once('-')?;
        let is_hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_good = run.len() == 8
            && run.bytes().all(is_hexadecimal)
            && number.bytes().all(|byte| byte.is_ascii_digit())
            && !number.is_empty()
            && (number == "0" || !number.starts_with('0'));
        let number = is_good.then(|| number.parse().ok())??;
        let run = u32::from_str_radix(run, 16).ok()?;
        Some(EventId { run, number })
    }
}

impl std::fmt::Display for EventId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:08x}-{}", self.run, self.number)
    }
}

impl Events {
    /// Keeps events from now on, since a reader has come.
    pub fn keep(&mut self) {
        if !std::mem::replace(&mut self.is_kept, true) {
            self.first = 1;
        }
    }

    /// Returns the number of the next event.
    pub fn next(&self) -> u64 {
        self.first + self.units.len() as u64
    }

    /// Returns whether an event has been added since the last call.
    pub fn take_new(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    /// Adds an event. `write` appends its text, with the number of the event. Drops the oldest
    /// events if there is no room.
    pub fn push(&mut self, of: Option<SessionId>, write: impl FnOnce(&mut Vec<u8>, u64)) {
        if !self.is_kept {
            return;
        }
        let mut text = std::mem::take(&mut self.scratch);
        text.clear();
        write(&mut text, self.next());
        if text.len() <= BYTES_MAX {
            while self.bytes.len() + text.len() > BYTES_MAX || self.units.len() >= UNITS_MAX {
                self.drop_first();
            }
            self.reserve(text.len());
            self.bytes.extend(&text);
            let end = self.begin + self.bytes.len() as u64;
            self.units.push_back(Unit { end, of });
            self.is_new = true;
        }
        self.scratch = text;
    }

    /// Reserves room for more text. The room doubles, up to the bound.
    fn reserve(&mut self, bytes: usize) {
        let needed = self.bytes.len() + bytes;
        if needed > self.bytes.capacity() {
            let room = (2 * needed).clamp(4096, BYTES_MAX).max(needed);
            self.bytes.reserve_exact(room - self.bytes.len());
        }
    }

    fn drop_first(&mut self) {
        if let Some(unit) = self.units.pop_front() {
            let bytes = (unit.end - self.begin) as usize;
            self.bytes.drain(..bytes);
            self.begin = unit.end;
            self.first += 1;
        }
    }

    /// Returns the next events from a number on that are about `of`, or all: each with its number,
    /// and the offsets of its begin and its end.
    fn units_from<'a>(
        &'a self,
        from: u64,
        of: Option<&'a SessionId>,
    ) -> impl Iterator<Item = (u64, u64, u64)> + 'a {
        let skipped = usize::try_from(from.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let before = skipped.checked_sub(1).and_then(|last| self.units.get(last));
        let mut begin = before.map_or(self.begin, |unit| unit.end);
        let examined = self.units.iter().skip(skipped).take(EXAMINED_MAX);
        let numbered = (from.max(self.first)..).zip(examined);
        let placed = numbered.map(move |(number, unit)| {
            let began = std::mem::replace(&mut begin, unit.end);
            (number, unit, began)
        });
        let is_for = move |unit: &Unit| of.is_none() || unit.of.as_ref() == of;
        let those = placed.filter(move |(_, unit, _)| is_for(unit));
        those.map(|(number, unit, began)| (number, began, unit.end))
    }

    /// Lends the text that a reader gets next: the events that are about `of`, or all.
    pub fn lend<'a>(&'a self, from: u64, of: Option<&SessionId>, gather: &mut Gather<'a>) {
        let mut bytes_left = LENT_BYTES_MAX;
        let mut lent: Option<(u64, u64)> = None;
        for (_, begin, end) in self.units_from(from, of) {
            match &mut lent {
                // Adjacent events are lent as one range.
                Some(range) if range.1 == begin => range.1 = end,
                Some(range) => {
                    if !self.push_range(*range, gather) {
                        return;
                    }
                    *range = (begin, end);
                }
                None => lent = Some((begin, end)),
            }
            bytes_left = bytes_left.saturating_sub((end - begin) as usize);
            if bytes_left == 0 {
                break;
            }
        }
        if let Some(range) = lent {
            self.push_range(range, gather);
        }
    }

    /// Lends a range. Returns whether all of it was lent.
    fn push_range<'a>(&'a self, (begin, end): (u64, u64), gather: &mut Gather<'a>) -> bool {
        let (from, to) = ((begin - self.begin) as usize, (end - self.begin) as usize);
        let (front, back) = self.bytes.as_slices();
        let in_front = &front[from.min(front.len())..to.min(front.len())];
        let (from, to) = (
            from.saturating_sub(front.len()),
            to.saturating_sub(front.len()),
        );
        gather.push(in_front) && gather.push(&back[from..to])
    }

    /// Notes that `bytes` of the lent text were sent. Returns the reader's next event, and the rest
    /// of the event that was sent partly.
    pub fn advance(&self, from: u64, of: Option<&SessionId>, bytes: usize) -> (u64, Vec<u8>) {
        let (mut from, mut left) = (from, bytes as u64);
        for (number, begin, end) in self.units_from(from, of) {
            if left == 0 {
                return (from, Vec::new());
            }
            from = number + 1;
            let length = end - begin;
            if left < length {
                let begin = (begin + left - self.begin) as usize;
                let end = (end - self.begin) as usize;
                return (from, self.bytes.range(begin..end).copied().collect());
            }
            left -= length;
        }
        // The reader has had all of its events.
        (from, Vec::new())
    }

    /// Skips events that are not about `of`, up to a number of them. Returns the reader's next
    /// event.
    pub fn skip(&self, from: u64, of: Option<&SessionId>) -> u64 {
        let mut units = self.units_from(from, of);
        let examined = (from.max(self.first) + EXAMINED_MAX as u64).min(self.next());
        units.next().map_or(examined, |(number, ..)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::session;

    fn push(events: &mut Events, of: &str, text: &str) {
        events.push(Some(session(of)), |unit, number| {
            unit.extend_from_slice(format!("{number}:{text};").as_bytes());
        });
    }

    /// Returns what a reader gets that takes `bytes_max` at a time.
    fn read(events: &Events, from: &mut u64, of: Option<&SessionId>, bytes_max: usize) -> String {
        let mut got = Vec::new();
        loop {
            *from = events.skip(*from, of);
            let mut gather = Gather::default();
            events.lend(*from, of, &mut gather);
            if gather.bytes() == 0 {
                return String::from_utf8(got).expect("text");
            }
            let lent: Vec<u8> = gather
                .slices()
                .iter()
                .flat_map(|slice| slice.to_vec())
                .collect();
            let taken = &lent[..lent.len().min(bytes_max)];
            got.extend_from_slice(taken);
            let (next, rest) = events.advance(*from, of, taken.len());
            got.extend(rest);
            *from = next;
        }
    }

    #[test]
    fn nothing_is_kept_before_the_first_reader() {
        let mut events = Events::default();
        push(&mut events, "a", "x");
        assert_eq!((events.bytes.len(), events.next()), (0, 0));
        events.keep();
        push(&mut events, "a", "y");
        assert!(events.take_new() && !events.take_new());
        assert_eq!(read(&events, &mut 1, None, 100), "1:y;");
    }

    #[test]
    fn a_reader_gets_its_events_in_order_however_little_it_takes() {
        let (a, b) = (session("a"), session("b"));
        for bytes_max in [400, 100_000] {
            let mut events = Events::default();
            events.keep();
            let mut expected = [String::new(), String::new(), String::new()];
            let mut from = [1; 3];
            let mut got = [String::new(), String::new(), String::new()];
            for number in 1..=30_000_u64 {
                let (name, which) = if number % 3 == 0 { ("a", 1) } else { ("b", 2) };
                push(&mut events, name, &"x".repeat(number as usize % 90));
                let unit = format!("{number}:{};", "x".repeat(number as usize % 90));
                expected[0].push_str(&unit);
                expected[which].push_str(&unit);
                if number % 400 == 0 {
                    for (at, of) in [None, Some(&a), Some(&b)].into_iter().enumerate() {
                        got[at].push_str(&read(&events, &mut from[at], of, bytes_max));
                    }
                }
                assert!(events.bytes.len() <= BYTES_MAX && events.units.len() <= UNITS_MAX);
            }
            assert!(events.first > 1, "it is longer than is kept");
            assert!(got == expected, "{bytes_max} at once");
        }
    }

    #[test]
    fn a_slow_reader_is_in_front_of_the_first_event() {
        let mut events = Events::default();
        events.keep();
        for _ in 0..2 * UNITS_MAX {
            push(&mut events, "a", "x");
        }
        assert_eq!(events.next(), 2 * UNITS_MAX as u64 + 1);
        assert_eq!(events.first, UNITS_MAX as u64 + 1);
        // A reader skips events for others a few at a time.
        let (mut at, mut turns) = (events.first, 0);
        while at < events.next() {
            let next = events.skip(at, Some(&session("b")));
            assert!(next > at && next - at <= EXAMINED_MAX as u64);
            (at, turns) = (next, turns + 1);
        }
        assert_eq!(turns, UNITS_MAX / EXAMINED_MAX);
    }

    #[test]
    fn only_ids_in_the_printed_form_are_read() {
        for good in ["00000000-0", "00000000-1", "ffffffff-18446744073709551615"] {
            assert_eq!(EventId::of_text(good).expect(good).to_string(), good);
        }
        for bad in [
            "",
            "1",
            "00000000-",
            "00000000-01",
            "0000000-1",
            "0000000G-1",
            "00000000-18446744073709551616",
            "00000000-+1",
        ] {
            assert_eq!(EventId::of_text(bad), None, "{bad}");
        }
    }

    /// Of what another process tells the newest is kept, within the same bounds.
    #[cfg(feature = "handover")]
    #[test]
    fn handed_over_events_have_the_same_bounds() {
        for (units, bytes, kept) in [
            (UNITS_MAX, 9, UNITS_MAX),
            (UNITS_MAX + 1, 9, UNITS_MAX),
            (16, BYTES_MAX / 16, 16),
            (17, BYTES_MAX / 16, 16),
            (1, BYTES_MAX + 1, 0),
        ] {
            let units = vec![("s", "x".repeat(bytes)); units];
            let told = serde_json::json!({ "first": 7, "is_kept": true, "units": units });
            let events: Events = serde_json::from_value(told).expect("as it is told");
            assert_eq!(events.units.len(), kept, "{}", units.len());
            assert!(events.bytes.len() <= BYTES_MAX);
        }
    }
}
