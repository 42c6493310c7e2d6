//! What a stream's segments hold, and what must hold of them.

#[cfg(feature = "handover")]
use std::{collections::VecDeque, rc::Rc};

#[cfg(feature = "handover")]
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Cutter, KEPT_MAX, MAP_BYTES_MAX, MAPS_MAX, PARTS_KEPT};
use crate::hls::parts::{PARTS_MAX, Part};
use crate::hls::segment::{Map, Segment};
use crate::hls::{LEAD_BYTES_MAX, list};
#[cfg(feature = "handover")]
use crate::{
    format::Format,
    handover::{HandoverError, are_counts, are_spans, are_times, must},
    hls::{cutter::NO_CONTAINER_OF_HLS, segment::extension},
};

impl Cutter {
    /// Room for segments doubles as it is needed.
    pub const HELD_BYTES_MAX: usize = 2 * KEPT_MAX * size_of::<Segment>()
        + (KEPT_MAX + 1) * (LEAD_BYTES_MAX + LEAD_PLACE_BYTES)
        + KEPT_MAX * RC_BYTES
        + (PARTS_KEPT + 2) * PARTS_MAX * size_of::<Part>()
        + (MAPS_MAX + 1) * (MAP_BYTES_MAX + size_of::<Map>() + 2 * RC_BYTES)
        + list::BYTES_MAX
        + RC_BYTES;

    /// Checks a cutter that another process sent, for a stream with this newest byte and this buffer.
    /// Segments share their maps again afterwards.
    #[cfg(feature = "handover")]
    pub fn fit(&mut self, newest: u64, buffer_bytes: u64) -> Result<(), HandoverError> {
        self.plan.buffer_bytes = buffer_bytes;
        let mut before = None;
        for segment in &mut self.segments {
            segment.map = segment.map.take().or(before);
            before = segment.map.clone();
        }
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
        let is_fit = maps_fit
            && self.plan.fits()
            && self.parts.fits(newest)
            && self.numbers_fit()
            && self.places_fit(newest);
        must(is_fit, || "its segments are none of its bytes".to_owned())
    }

    /// Returns whether the received numbers and lengths are valid.
    #[cfg(feature = "handover")]
    fn numbers_fit(&self) -> bool {
        let next = self.segments.iter().skip(1).map(|segment| segment.number);
        let next = next.chain([self.number]);
        let mut follow = self.segments.iter().zip(next);
        let filling = self.filling.as_ref().map(|filling| filling.began);
        let mut began = self
            .segments
            .iter()
            .map(|segment| segment.began)
            .chain(filling);
        let counts = [
            self.number,
            self.discontinuities,
            self.listed_from,
            self.cuts_in_groups,
        ];
        are_counts(counts)
            && follow.all(|(segment, next)| segment.number.checked_add(1) == Some(next))
            && began.all(|began| are_spans([began]))
            && are_times([self.gap])
    }

    /// Returns whether the received offsets ascend up to `newest`.
    #[cfg(feature = "handover")]
    fn places_fit(&self, newest: u64) -> bool {
        let mut before = 0;
        let segments_fit = self.segments.iter().all(|segment| {
            let is_behind = before <= segment.from && segment.from < segment.to;
            before = segment.to;
            is_behind && segment.lead.len() <= LEAD_BYTES_MAX && segment.parts.len() <= PARTS_MAX
        });
        let filling = self.filling.as_ref();
        let points = filling.map(|filling| [Some(filling.start), filling.join, filling.whole]);
        let points = points.into_iter().flatten().chain([self.newest]);
        let mut places = points.flatten().map(|point| point.offset).chain(self.split);
        segments_fit
            && before <= newest
            && self.segments.len() <= KEPT_MAX
            && places.all(|place| place <= newest)
            && filling.is_none_or(|filling| {
                filling.lead.len() <= LEAD_BYTES_MAX && before <= filling.start.offset
            })
    }
}

/// The two counters of an `Rc`.
const RC_BYTES: usize = 2 * size_of::<usize>();
const LEAD_PLACE_BYTES: usize = size_of::<Vec<u8>>() + RC_BYTES;

/// What the format is; or why nothing of it can be cut.
#[cfg(feature = "handover")]
type Known = Option<Result<Format, &'static str>>;

/// To be told to another process.
#[cfg(feature = "handover")]
pub(super) fn tell_kind<S: Serializer>(kind: &Known, serializer: S) -> Result<S::Ok, S::Error> {
    kind.map(|kind| [kind.ok()]).serialize(serializer)
}

/// Tells the segments. One with the map of the segment before it is told without a map.
#[cfg(feature = "handover")]
pub(super) fn tell_segments<S: Serializer>(
    segments: &VecDeque<Segment>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut before = None;
    serializer.collect_seq(segments.iter().map(|segment| {
        let number = segment.map.as_ref().map(|map| map.number);
        let is_new = std::mem::replace(&mut before, number) != number;
        Segment {
            map: segment.map.clone().filter(|_| is_new),
            ..segment.clone()
        }
    }))
}

/// Reads the container from a hand-over.
#[cfg(feature = "handover")]
pub(super) fn kind_told<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Known, D::Error> {
    let kind = Option::<[Option<Format>; 1]>::deserialize(deserializer)?;
    let is_of_hls = |format: &Format| extension(*format).is_some();
    Ok(kind.map(|[kind]| kind.filter(is_of_hls).ok_or(NO_CONTAINER_OF_HLS)))
}

#[cfg(test)]
#[cfg(feature = "handover")]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_told_once_for_all_segments() {
        let mut cutter = Cutter {
            plan: crate::hls::plan::Plan {
                segment: std::time::Duration::from_secs(2),
                ..Default::default()
            },
            number: 6,
            ..Cutter::default()
        };
        for number in 0..6 {
            cutter.segments.push_back(Segment {
                number,
                from: 10 * number,
                to: 10 * number + 10,
                lead: Rc::default(),
                map: Some(Rc::new(Map {
                    number: number / 4,
                    bytes: Rc::from(format!("map {}", number / 4).as_bytes()),
                })),
                ticks: 1,
                began: std::time::Duration::ZERO,
                is_discontinuous: false,
                discontinuities: 0,
                is_independent: true,
                parts: Rc::default(),
            });
        }
        let text = serde_json::to_string(&cutter).expect("JSON");
        assert_eq!(text.matches("map 0").count(), 1, "{text}");
        assert_eq!(text.matches("map 1").count(), 1, "{text}");
        let mut told: Cutter = serde_json::from_str(&text).expect("a cutter");
        assert_eq!(told.fit(60, 1 << 20), Ok(()));
        let maps = |cutter: &Cutter| -> Vec<_> {
            let segments = cutter.segments.iter();
            segments.map(|segment| segment.map.clone()).collect()
        };
        assert_eq!(maps(&told), maps(&cutter));
    }
}
