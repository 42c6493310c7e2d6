//! What is known of a stream's segments goes to another process as it is: their numbers and names
//! are those that players have.

use std::rc::Rc;

use super::{Cutter, KEPT_MAX, MAP_BYTES_MAX, MAPS_MAX};
use crate::handover::{Unfit, must};
use crate::hls::LEAD_BYTES_MAX;
use crate::hls::parts::PARTS_MAX;

/// What the format is; or that nothing of it can be cut.
pub(super) mod kind {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::hls::cutter::NO_CONTAINER_OF_HLS;
    use crate::hls::segment::Kind;

    type Known = Option<Result<Kind, &'static str>>;

    pub fn serialize<S: Serializer>(kind: &Known, serializer: S) -> Result<S::Ok, S::Error> {
        kind.map(|kind| [kind.ok()]).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Known, D::Error> {
        let kind = Option::<[Option<Kind>; 1]>::deserialize(deserializer)?;
        Ok(kind.map(|[kind]| kind.ok_or(NO_CONTAINER_OF_HLS)))
    }
}

impl Cutter {
    /// Of a stream whose newest byte is this one, and of which so many are kept: what segments
    /// share is held once again.
    pub fn fit(&mut self, newest: u64, buffer_bytes: u64) -> Result<(), Unfit> {
        self.plan.buffer_bytes = buffer_bytes;
        let mut before = 0;
        let mut maps: Vec<Rc<_>> = Vec::new();
        let kept = self.segments.iter_mut().map(|segment| &mut segment.map);
        for map in kept.chain([&mut self.map]).flatten() {
            match maps.iter().find(|known| *known == map) {
                Some(known) => *map = Rc::clone(known),
                None => maps.push(Rc::clone(map)),
            }
        }
        let maps_fit =
            maps.len() <= MAPS_MAX + 1 && maps.iter().all(|map| map.bytes.len() <= MAP_BYTES_MAX);
        let segments_fit = self.segments.iter().all(|segment| {
            let is_behind = before <= segment.from && segment.from < segment.to;
            before = segment.to;
            is_behind && segment.lead.len() <= LEAD_BYTES_MAX && segment.parts.len() <= PARTS_MAX
        });
        let numbers = self.segments.iter().zip(self.segments.iter().skip(1));
        let follow = numbers
            .into_iter()
            .all(|(one, next)| one.number.checked_add(1) == Some(next.number));
        let filling_fits = self.filling.as_ref().is_none_or(|filling| {
            filling.lead.len() <= LEAD_BYTES_MAX && filling.start.offset <= newest
        });
        let is_fit = maps_fit
            && segments_fit
            && follow
            && filling_fits
            && before <= newest
            && self.segments.len() <= KEPT_MAX;
        must(is_fit, || "its segments are none of its bytes".to_owned())
    }
}
