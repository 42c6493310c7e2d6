//! The hand-over of a stream's segments, and checks of a received state.
#![cfg(feature = "handover")]

use std::collections::VecDeque;
use std::rc::Rc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Cutter, NO_CONTAINER_OF_HLS};
use crate::format::Format;
use crate::handover::{HandoverError, SPAN_MAX, must};
use crate::hls::segment::{Segment, extension};

impl Cutter {
    /// Checks a cutter that another process sent, for a stream with this newest byte and this buffer.
    /// Segments share their maps again afterwards.
    pub fn fit(&mut self, newest: u64, buffer_bytes: u64) -> Result<(), HandoverError> {
        self.plan.buffer_bytes = buffer_bytes;
        // Of segments with the same map only the first has it: see `write_segments`.
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
        let maps_bytes: usize = maps.iter().map(|map| map.bytes.len()).sum();
        let is_fit = maps_bytes + self.lists_bytes() <= Cutter::MEMORY_BYTES_MAX
            && self.times_fit()
            && self.numbers_fit()
            && self.places_fit(newest);
        must(is_fit, || "its segments are none of its bytes".to_owned())
    }

    /// Returns the bytes of the segments and of their leads and parts.
    pub(super) fn lists_bytes(&self) -> usize {
        let of_segments = self.segments.iter().map(|segment| {
            size_of::<Segment>() + segment.lead.len() + size_of_val(&*segment.parts)
        });
        let open_segment = self.open_segment.as_ref();
        let lead_bytes = open_segment.map_or(0, |open_segment| open_segment.lead.len());
        of_segments.sum::<usize>() + lead_bytes + self.parts.memory_bytes()
    }

    /// Returns whether the received times can be added.
    fn times_fit(&self) -> bool {
        let segments = self.segments.iter().map(|segment| segment.began);
        let open_segment = self
            .open_segment
            .iter()
            .map(|open_segment| open_segment.began);
        let mut times = segments.chain(open_segment).chain([self.plan.started]);
        times.all(|time| time <= SPAN_MAX)
    }

    /// Returns whether the segments' numbers ascend by one.
    fn numbers_fit(&self) -> bool {
        let next = self.segments.iter().skip(1).map(|segment| segment.number);
        let mut follow = self.segments.iter().zip(next.chain([self.number]));
        follow.all(|(segment, next)| segment.number.checked_add(1) == Some(next))
    }

    /// Returns whether the received offsets ascend up to `newest`.
    fn places_fit(&self, newest: u64) -> bool {
        let segments = self.segments.iter();
        let places = segments.flat_map(|segment| [segment.from, segment.to]);
        let open_segment = self
            .open_segment
            .iter()
            .map(|open_segment| open_segment.start.offset);
        places.chain(open_segment).chain([newest]).is_sorted()
    }
}

/// Container, or why the stream cannot be cut.
type Known = Option<Result<Format, &'static str>>;

/// Writes the container for another process.
pub(super) fn write_kind<S: Serializer>(kind: &Known, serializer: S) -> Result<S::Ok, S::Error> {
    kind.map(|kind| [kind.ok()]).serialize(serializer)
}

/// Writes the segments for another process. Of segments with the same map only the first has it.
pub(super) fn write_segments<S: Serializer>(
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
pub(super) fn read_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Known, D::Error> {
    let kind = Option::<[Option<Format>; 1]>::deserialize(deserializer)?;
    let is_of_hls = |format: &Format| extension(*format).is_some();
    Ok(kind.map(|[kind]| kind.filter(is_of_hls).ok_or(NO_CONTAINER_OF_HLS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hls::segment::Map;

    #[test]
    fn a_map_is_sent_once_for_all_segments() {
        let mut cutter = Cutter {
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
