//! What a stream's segments hold, and what must hold of them.

use std::rc::Rc;

use super::{Cutter, KEPT_MAX, MAP_BYTES_MAX, MAPS_MAX, PARTS_KEPT};
use crate::hls::parts::{PARTS_MAX, Part};
use crate::hls::segment::{Map, Segment};
use crate::hls::{LEAD_BYTES_MAX, list};

impl Cutter {
    /// Bytes that its allocations take: [`Cutter::HELD_BYTES_MAX`] at the most.
    pub fn held_bytes(&self) -> usize {
        let leads = self.segments.iter().map(|segment| &segment.lead);
        let leads = leads.chain(self.filling.as_ref().map(|filling| &filling.lead));
        let mut maps = self.map.as_ref().map_or(0, map_bytes);
        let mut last = self.map.as_ref();
        for map in self
            .segments
            .iter()
            .rev()
            .filter_map(|segment| segment.map.as_ref())
        {
            if last.is_none_or(|last| !Rc::ptr_eq(last, map)) {
                maps += map_bytes(map);
            }
            last = Some(map);
        }
        let parts = self.segments.iter().map(|segment| &segment.parts);
        let parts = parts.map(|parts| parts.len() * size_of::<Part>() + RC_BYTES);
        self.segments.capacity() * size_of::<Segment>()
            + parts.sum::<usize>()
            + self.parts.held_bytes()
            + leads
                .map(|lead| lead.capacity() + LEAD_PLACE_BYTES)
                .sum::<usize>()
            + self
                .list
                .as_ref()
                .map_or(0, |(_, list)| list.len() + RC_BYTES)
            + maps
    }

    /// Room for segments doubles as it is needed.
    pub const HELD_BYTES_MAX: usize = 2 * KEPT_MAX * size_of::<Segment>()
        + (KEPT_MAX + 1) * (LEAD_BYTES_MAX + LEAD_PLACE_BYTES)
        + KEPT_MAX * RC_BYTES
        + (PARTS_KEPT + 2) * PARTS_MAX * size_of::<Part>()
        + (MAPS_MAX + 1) * (MAP_BYTES_MAX + size_of::<Map>() + 2 * RC_BYTES)
        + list::BYTES_MAX
        + RC_BYTES;

    /// What must hold between any two calls.
    pub fn check(&self) {
        assert!(self.held_bytes() <= Cutter::HELD_BYTES_MAX);
        assert!(self.segments.len() <= KEPT_MAX);
        let next = self.segments.iter().skip(1);
        for (segment, next) in self.segments.iter().zip(next) {
            assert!(segment.from < segment.to && segment.to <= next.from);
            assert_eq!(segment.number + 1, next.number);
        }
    }
}

/// The two counts of what is shared.
const RC_BYTES: usize = 2 * size_of::<usize>();
const LEAD_PLACE_BYTES: usize = size_of::<Vec<u8>>() + RC_BYTES;

fn map_bytes(map: &Rc<Map>) -> usize {
    map.bytes.len() + size_of::<Map>() + 2 * RC_BYTES
}
