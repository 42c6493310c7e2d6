//! A successor gets the kept events with their numbers.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Events;
use crate::gate::SessionId;

#[derive(Serialize, Deserialize)]
struct EventsState {
    first: u64,
    is_kept: bool,
    units: Vec<(Option<SessionId>, String)>,
}

impl Serialize for Events {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut begin = self.begin;
        let units = self.units.iter().map(|unit| {
            let (from, to) = (begin - self.begin, unit.end - self.begin);
            begin = unit.end;
            let bytes = self.bytes.range(from as usize..to as usize);
            let text: Vec<u8> = bytes.copied().collect();
            (unit.of.clone(), String::from_utf8_lossy(&text).into_owned())
        });
        let state = EventsState {
            first: self.first,
            is_kept: self.is_kept,
            units: units.collect(),
        };
        state.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Events {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Events, D::Error> {
        let state = EventsState::deserialize(deserializer)?;
        let mut events = Events {
            first: state.first.min(u64::MAX / 2),
            is_kept: state.is_kept,
            ..Events::default()
        };
        for (of, text) in state.units {
            events.push(of, |unit, _| unit.extend_from_slice(text.as_bytes()));
        }
        Ok(events)
    }
}
