//! A slab with typed ids that have a generation.
//!
//! A look-up with the id of a removed entry finds nothing. So late poll events, timers and queue
//! entries need not be removed with their entry.

#[cfg(feature = "handover")]
mod handover;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use slab::Slab;

/// Identifies an entry of a [`Slots<T>`], and no later entry in the same place.
pub struct Id<T> {
    index: u32,
    generation: u32,
    kind: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    fn new(index: usize, generation: u32) -> Id<T> {
        Id {
            index: index as u32,
            generation,
            kind: PhantomData,
        }
    }

    /// Returns the id as a number, for the kernel's event queue.
    pub fn to_u64(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// Returns the id that [`Id::to_u64`] has converted. An id that was never issued finds nothing.
    pub fn from_u64(number: u64) -> Id<T> {
        Id {
            index: number as u32,
            generation: (number >> 32) as u32,
            kind: PhantomData,
        }
    }

    /// Returns the index in the slab, which is below the largest number of entries so far.
    pub fn index(self) -> usize {
        self.index as usize
    }
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Id<T> {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Id<T>) -> bool {
        self.to_u64() == other.to_u64()
    }
}

impl<T> Eq for Id<T> {}

impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Id<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Id<T>) -> Ordering {
        self.to_u64().cmp(&other.to_u64())
    }
}

impl<T> Hash for Id<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to_u64().hash(state);
    }
}

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.index, self.generation)
    }
}

/// Entries by [`Id`]. Holds at most `u32::MAX` entries; the limits of the parts are far lower.
pub struct Slots<T> {
    entries: Slab<(u32, T)>,
    next_generation: u32,
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots {
            entries: Slab::new(),
            next_generation: 0,
        }
    }
}

impl<T> Slots<T> {
    /// Stores an entry. Returns its id.
    pub fn insert(&mut self, entry: T) -> Id<T> {
        let generation = self.next_generation;
        // Wraps after 2^32 entries. An id would have to be exactly that old to find a wrong entry.
        self.next_generation = generation.wrapping_add(1);
        Id::new(self.entries.insert((generation, entry)), generation)
    }

    /// Removes the entry, if it is there.
    pub fn remove(&mut self, id: Id<T>) -> Option<T> {
        self.get(id)?;
        let removed = self.entries.try_remove(id.index());
        if self.entries.is_empty() {
            // Frees the memory when the last entry is gone. Generations keep later ids distinct.
            self.entries = Slab::new();
        }
        removed.map(|(_, entry)| entry)
    }

    /// Returns the entry of this id, if it is there.
    pub fn get(&self, id: Id<T>) -> Option<&T> {
        match self.entries.get(id.index()) {
            Some((generation, entry)) if *generation == id.generation => Some(entry),
            _ => None,
        }
    }

    /// Returns the entry of this id, if it is there.
    pub fn get_mut(&mut self, id: Id<T>) -> Option<&mut T> {
        match self.entries.get_mut(id.index()) {
            Some((generation, entry)) if *generation == id.generation => Some(entry),
            _ => None,
        }
    }

    /// Returns the id of the entry at this index, if there is one.
    pub fn id_at(&self, index: usize) -> Option<Id<T>> {
        let (generation, _) = self.entries.get(index)?;
        Some(Id::new(index, *generation))
    }

    /// Returns all entries, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Id<T>, &T)> {
        let entries = self.entries.iter();
        entries.map(|(index, (generation, entry))| (Id::new(index, *generation), entry))
    }

    /// Returns all entries from this index on, in order of their indexes. Looks at every place.
    pub fn iter_from(&self, index: usize) -> impl Iterator<Item = (Id<T>, &T)> {
        let places = index..self.entries.capacity();
        places.filter_map(|index| {
            let id = self.id_at(index)?;
            Some((id, self.get(id)?))
        })
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_id_finds_nothing_where_another_entry_lives_now() {
        let mut slots = Slots::default();
        let first = slots.insert("first");
        assert_eq!(slots.remove(first), Some("first"));
        let second = slots.insert("second");
        assert_eq!(second.index(), first.index());
        assert_eq!(slots.get(first), None);
        assert_eq!(slots.get_mut(first), None);
        assert_eq!(slots.remove(first), None);
        let same = Id::from_u64(second.to_u64());
        assert_eq!(slots.get(same), Some(&"second"));
        assert_eq!(slots.get_mut(same), Some(&mut "second"));
    }

    #[test]
    fn ids_are_ordered_and_told_apart_by_their_numbers() {
        let numbers = [1 << 32 | 7, 7, 2 << 32, 0, u64::MAX];
        let mut ids: Vec<Id<u8>> = numbers.map(Id::from_u64).into();
        ids.sort();
        let sorted: Vec<u64> = ids.iter().map(|id| id.to_u64()).collect();
        assert_eq!(sorted, [0, 7, 1 << 32 | 7, 2 << 32, u64::MAX]);
        assert!(ids.is_sorted_by(|one, other| one < other));
        let hash = |id: &Id<u8>| {
            let mut hasher = std::hash::DefaultHasher::new();
            id.hash(&mut hasher);
            hasher.finish()
        };
        let mut hashes: Vec<u64> = ids.iter().map(hash).collect();
        hashes.dedup();
        assert_eq!(hashes.len(), numbers.len());
        assert_eq!(hash(&ids[1]), hash(&Id::from_u64(7)));
    }
}
