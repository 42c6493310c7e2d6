//! The playlist of a stream, and the objects that it names.

use std::rc::Rc;
use std::time::Duration;

use super::Cutter;
use crate::clean_text::TitleChange;
use crate::hls::parts::Part;
use crate::hls::request::BlockingReload;
use crate::hls::segment::{Name, Segment, extension};
use crate::hls::{LISTED_MAX, LISTED_MIN, NoPlaylist, list};

impl Cutter {
    /// Returns the playlist. It is the same for all clients until the next segment is complete, or the
    /// next title holds. `titles`: the stream's newest ones.
    pub fn list(&mut self, titles: &[TitleChange]) -> Result<Rc<[u8]>, NoPlaylist> {
        let first = self.first_listed()?;
        if self.listed_from == 0 && !self.is_over() {
            self.allow_longer_fragments();
        }
        let number = self.segments.get(first).map(|segment| segment.number);
        self.listed_from = number.unwrap_or(self.listed_from);
        let beginnings = number.map(|number| (number, titles.last().map(|last| last.began)));
        // The list is valid while all of its segments are kept.
        if let Some((of, list)) = &self.list
            && Some(*of) == beginnings
        {
            return Ok(list.clone());
        }
        let written = list::write(&list::Playlist {
            segments: self.segments.range(first..),
            tag: self.plan.tag,
            extension: self.kind().and_then(extension).unwrap_or(""),
            target: self.target.unwrap_or(1),
            parts: self.parts.ticks_max().filter(|_| !self.is_over()),
            open_segment: self.open_segment_listed(),
            is_over: self.end == Some(true),
            titles,
            started: self.plan.started,
        });
        let list: Rc<[u8]> = written.into_bytes().into();
        self.list = beginnings.map(|beginnings| (beginnings, list.clone()));
        Ok(list)
    }

    /// Returns whether a player may ask for the list with this segment and part: the segment is in the
    /// list or will be, and the part is one of its parts or the one after the last.
    pub(in crate::hls) fn is_awaited(&self, reload: BlockingReload) -> bool {
        let BlockingReload { number, part } = reload;
        let segment = self.numbered(number);
        let parts = segment.map_or(&self.parts.whole[..], |segment| &segment.parts);
        // In a segment without parts, the list hinted at a part that did not come.
        let has_parts = !parts.is_empty() || number + 1 >= self.number;
        let is_part = |part| has_parts && part <= parts.len() as u64;
        number >= self.listed_from && part.is_none_or(is_part)
    }

    /// Returns the open segment, with its complete parts.
    fn open_segment_listed(&self) -> Segment {
        let open_segment = self.open_segment.as_ref();
        let is_discontinuous =
            open_segment.is_some_and(|open_segment| open_segment.is_discontinuous);
        let start = open_segment.map_or(0, |open_segment| open_segment.start.offset);
        Segment {
            number: self.number,
            from: start,
            to: start,
            lead: Rc::default(),
            map: self.map.clone(),
            ticks: 0,
            began: open_segment.map_or(Duration::ZERO, |open_segment| open_segment.began),
            is_discontinuous,
            discontinuities: self.discontinuities.saturating_add(is_discontinuous.into()),
            is_independent: true,
            parts: open_segment.map_or(Rc::default(), |_| self.parts.whole[..].into()),
        }
    }

    /// Finds a part by its name.
    pub(in crate::hls) fn part(&self, name: &str) -> Option<&Part> {
        let (number, index) = self.own_part(name)?;
        let parts = match self.numbered(number) {
            Some(segment) => &segment.parts[..],
            None => self.open_parts().filter(|_| number == self.number)?,
        };
        parts.get(index)
    }

    /// Returns whether this is the name of the next part, whose end is not known yet.
    pub(in crate::hls) fn is_next_part(&self, name: &str) -> bool {
        let next = self.open_parts().map(|parts| (self.number, parts.len()));
        next.is_some() && self.own_part(name) == next
    }

    /// Returns the number of a part's segment, and the index of the part.
    fn own_part(&self, name: &str) -> Option<(u64, usize)> {
        Name::part_in(name, self.plan.tag, extension(self.kind()?)?)
    }

    /// Returns the complete parts of the open segment, if the stream has parts.
    fn open_parts(&self) -> Option<&[Part]> {
        self.parts.ticks_max()?;
        self.open_segment.as_ref().map(|_| &self.parts.whole[..])
    }

    /// Returns the number of complete parts of the open segment, if the stream has parts.
    pub(in crate::hls) fn parts_whole(&self) -> Option<usize> {
        self.parts.ticks_max()?;
        Some(self.parts.whole.len())
    }

    /// Returns the number of the newest segment in the list.
    pub fn newest_listed(&self) -> Result<u64, NoPlaylist> {
        self.first_listed().map(|_| self.number - 1)
    }

    /// Returns the index of the list's first segment. The list has the segments in the newer half of
    /// the buffer, so players can fetch them for as long again.
    fn first_listed(&self) -> Result<usize, NoPlaylist> {
        if let Some(reason) = self.fault() {
            return Err(NoPlaylist::Unfit(reason));
        }
        let count = self.segments.len();
        let oldest = self.segments.front().map_or(0, |segment| segment.number);
        let listed = self.listed_from.saturating_sub(oldest) as usize;
        let listed = listed.min(count.saturating_sub(1));
        if self.end.is_some() && count > 0 {
            return Ok(count.saturating_sub(LISTED_MAX).max(listed));
        }
        if self.made() < LISTED_MIN as u64 {
            return Err(NoPlaylist::TooFew);
        }
        let Some(third) = count.checked_sub(LISTED_MIN) else {
            return Err(NoPlaylist::TooLarge);
        };
        let end = self.segments.back().map_or(0, |newest| newest.to);
        let lengths = self
            .segments
            .iter()
            .map(|segment| segment.to - segment.from);
        let longest = lengths.max().unwrap_or(0);
        // The buffer also holds the open segment. A segment that left the list must stay for the
        // duration of the list and its own (section 6.2.2). Some players get the list from a cache.
        let window = self.plan.buffer_bytes.saturating_sub(3 * longest) / 2;
        let is_old = |segment: &Segment| segment.from < end.saturating_sub(window);
        let in_window = self.segments.partition_point(is_old);
        let newest = count.saturating_sub(LISTED_MAX).max(listed);
        let first = in_window.max(newest).min(third);
        let needed = end - self.segments[first].from + longest;
        if first == third && needed > self.plan.buffer_bytes {
            return Err(NoPlaylist::TooLarge);
        }
        Ok(first)
    }
}
