//! Memory of the standard collections in bytes: that of their capacity, not of their entries.

use std::collections::{BTreeMap, HashMap};

/// Returns the memory of a hash map. After many removals the capacity that std reports can be half
/// of the real one.
pub fn hash_map_bytes<K, V>(map: &HashMap<K, V>) -> usize {
    table_bytes::<(K, V)>(map.capacity())
}

/// Returns the largest memory of a tree map. Nodes have eleven places, and at least five of them are
/// used.
pub fn tree_map_bytes<K, V>(map: &BTreeMap<K, V>) -> usize {
    const NODE_BYTES: usize = 16 + 12 * size_of::<usize>();
    map.len().div_ceil(5) * (11 * size_of::<(K, V)>() + NODE_BYTES)
}

/// Returns the memory of a hash table with this capacity. It has a power of two of places, of which
/// seven eighths are used, one more byte for each, and sixteen at the end. A table from which much
/// was removed can be larger.
fn table_bytes<Entry>(capacity: usize) -> usize {
    if capacity == 0 {
        return 0;
    }
    let places = (capacity.saturating_mul(8) / 7).next_power_of_two().max(4);
    places * (size_of::<Entry>() + 1) + 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn a_table_holds_its_places() {
        assert_eq!(
            table_bytes::<(u64, u64)>(HashMap::<u64, u64>::new().capacity()),
            0
        );
        let mut table = HashMap::new();
        for number in 0..1000u64 {
            table.insert(number, number);
            let bytes = table_bytes::<(u64, u64)>(table.capacity());
            assert!(bytes >= table.len() * 17 && bytes <= 160 + table.len() * 17 * 3);
        }
        // 2,048 places.
        assert_eq!(table_bytes::<(u64, u64)>(table.capacity()), 2048 * 17 + 16);
    }
}
