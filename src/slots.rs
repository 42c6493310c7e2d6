//! The slab of the server, with ids that are typed and carry a generation.
//!
//! An id outlives its entry harmlessly: whoever comes with a stale one finds nothing. So a late
//! event of the poll, a timer or a queue entry never needs to be searched for when its owner goes.

#[cfg(feature = "handover")]
mod handover;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use slab::Slab;

/// Names an entry of a [`Slots<T>`], and none that comes after it in the same place.
pub struct Id<T> {
    index: u32,
    generation: u32,
    kind: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    /// The id as one number, for the kernel's event queue to carry.
    pub fn to_u64(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The id that [`Id::to_u64`] gave. Any number makes an id; one that was never given out names
    /// nothing.
    pub fn from_u64(number: u64) -> Id<T> {
        Id {
            index: number as u32,
            generation: (number >> 32) as u32,
            kind: PhantomData,
        }
    }

    /// The place in the slab: below the largest number of entries that there ever were at once.
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

/// Entries that are found by their [`Id`]. Holds at most `u32::MAX` of them; the limits of the
/// parts keep it far below.
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
    /// Keeps `entry`, and says under which id.
    pub fn insert(&mut self, entry: T) -> Id<T> {
        let generation = self.next_generation;
        // Wraps after four thousand million entries; a stale id would have to be exactly that old
        // to be mistaken.
        self.next_generation = generation.wrapping_add(1);
        let index = self.entries.insert((generation, entry));
        Id {
            index: index as u32,
            generation,
            kind: PhantomData,
        }
    }

    /// Bytes that the slab takes: room for as many entries as there ever were at once. What they
    /// own is not counted.
    pub fn held_bytes(&self) -> usize {
        // An empty place holds a number, which is the least that any takes.
        self.entries.capacity() * size_of::<Option<(u32, T)>>().max(2 * size_of::<usize>())
    }

    /// Takes the entry out, if it is still there.
    pub fn remove(&mut self, id: Id<T>) -> Option<T> {
        self.get(id)?;
        let removed = self.entries.try_remove(id.index());
        if self.entries.is_empty() {
            // What many held is not kept for nobody. Ids stay unlike, by their generations.
            self.entries = Slab::new();
        }
        removed.map(|(_, entry)| entry)
    }

    /// The entry of this id, if it is still there.
    pub fn get(&self, id: Id<T>) -> Option<&T> {
        match self.entries.get(id.index()) {
            Some((generation, entry)) if *generation == id.generation => Some(entry),
            _ => None,
        }
    }

    /// The entry of this id, if it is still there.
    pub fn get_mut(&mut self, id: Id<T>) -> Option<&mut T> {
        match self.entries.get_mut(id.index()) {
            Some((generation, entry)) if *generation == id.generation => Some(entry),
            _ => None,
        }
    }

    /// The id of the entry at this place, if there is one.
    pub fn id_at(&self, index: usize) -> Option<Id<T>> {
        let (generation, _) = self.entries.get(index)?;
        Some(Id {
            index: index as u32,
            generation: *generation,
            kind: PhantomData,
        })
    }

    /// Every entry, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = (Id<T>, &T)> {
        self.entries.iter().map(|(index, (generation, entry))| {
            let id = Id {
                index: index as u32,
                generation: *generation,
                kind: PhantomData,
            };
            (id, entry)
        })
    }

    /// Every entry from this place on, in the order of the places. Looks at each place there is.
    pub fn iter_from(&self, index: usize) -> impl Iterator<Item = (Id<T>, &T)> {
        let places = index..self.entries.capacity();
        places.filter_map(|index| {
            let id = self.id_at(index)?;
            Some((id, self.get(id)?))
        })
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
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

    /// Each place is as large as an entry with its generation, or a number, and what tells which.
    #[test]
    fn what_the_places_take_is_counted() {
        fn of<T: Copy>(entry: T, place_bytes: usize) {
            let mut slots = Slots::default();
            assert!(slots.is_empty() && slots.held_bytes() == 0);
            let ids = [(); 64].map(|()| slots.insert(entry));
            assert!(!slots.is_empty());
            assert_eq!(slots.held_bytes(), ids.len() * place_bytes);
            slots.remove(ids[0]);
            assert_eq!(slots.held_bytes(), ids.len() * place_bytes);
            for id in ids {
                slots.remove(id);
            }
            assert!(slots.is_empty() && slots.held_bytes() == 0);
        }
        let word = size_of::<usize>();
        of(1_u8, 2 * word);
        of([1_u64; 4], 48);
    }
}
