//! The hand-over of ids: entries keep their ids in the new process.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Id, Slots};
use crate::handover::{HandoverError, must};

impl<T> Serialize for Id<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.to_u64())
    }
}

impl<'de, T> Deserialize<'de> for Id<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Id<T>, D::Error> {
        Ok(Id::from_u64(u64::deserialize(deserializer)?))
    }
}

impl<T> Id<T> {
    /// Returns the generation, which earlier entries at this index did not have.
    pub fn generation(self) -> u32 {
        self.generation
    }
}

impl<T> Slots<T> {
    /// Builds slots of these entries with their ids. Refuses an index of at least `places_max`, and
    /// an index that comes twice. New ids continue from `next`.
    pub fn of(
        entries: Vec<(Id<T>, T)>,
        next: u32,
        places_max: usize,
    ) -> Result<Slots<T>, HandoverError> {
        let count = entries.len();
        if let Some((id, _)) = entries.iter().find(|(id, _)| id.index() >= places_max) {
            return Err(HandoverError(format!(
                "{id:?} lies beyond the {places_max} that may be here at once"
            )));
        }
        let slots = Slots {
            entries: entries
                .into_iter()
                .map(|(id, entry)| (id.index(), (id.generation, entry)))
                .collect(),
            next_generation: next,
        };
        must(slots.len() == count, || "two in one place".to_owned())?;
        Ok(slots)
    }

    /// Returns the next generation.
    pub fn next(&self) -> u32 {
        self.next_generation
    }
}
