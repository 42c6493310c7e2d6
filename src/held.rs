//! What the allocations of std's tables really hold, by their capacities.

use std::collections::{BTreeMap, HashMap};

/// Bytes that a hash table takes: a power of two of places, of which seven of eight are used, each
/// with a byte of its own. Where much comes and goes std tells less than it has, down to a half.
pub fn hash_map_bytes<K, V>(map: &HashMap<K, V>) -> usize {
    match map.capacity() {
        0 => 0,
        capacity => {
            (capacity + capacity.div_ceil(7)).next_power_of_two() * (size_of::<(K, V)>() + 1)
        }
    }
}

/// Bytes that a tree takes at the most, which tells no capacity: its nodes have eleven places, of
/// which five are used at least.
pub fn tree_map_bytes<K, V>(map: &BTreeMap<K, V>) -> usize {
    const NODE_BYTES: usize = 16 + 12 * size_of::<usize>();
    map.len().div_ceil(5) * (11 * size_of::<(K, V)>() + NODE_BYTES)
}
