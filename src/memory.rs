//! Memory of the standard collections in bytes: that of their capacity, not of their entries.

use std::collections::{BTreeMap, HashMap};

/// Returns the memory of a hash map. It has a power of two of places, of which seven eighths are used,
/// one more byte for each, and sixteen at the end. After many removals the capacity that std reports
/// can be half of the real one.
pub fn hash_map_bytes<K, V>(map: &HashMap<K, V>) -> usize {
    if map.capacity() == 0 {
        return 0;
    }
    let places = map.capacity().saturating_mul(8) / 7;
    places.next_power_of_two().max(4) * (size_of::<(K, V)>() + 1) + 16
}

/// Returns the largest memory of a tree map. Nodes have eleven places, and at least five of them are
/// used.
pub fn tree_map_bytes<K, V>(map: &BTreeMap<K, V>) -> usize {
    const NODE_BYTES: usize = 16 + 12 * size_of::<usize>();
    map.len().div_ceil(5) * (11 * size_of::<(K, V)>() + NODE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn a_table_holds_its_places() {
        let mut table = HashMap::new();
        assert_eq!(hash_map_bytes(&table), 0);
        for number in 0..1000u64 {
            table.insert(number, number);
            let bytes = hash_map_bytes(&table);
            assert!(bytes >= table.len() * 17 && bytes <= 160 + table.len() * 17 * 3);
        }
        // 2,048 places.
        assert_eq!(hash_map_bytes(&table), 2048 * 17 + 16);
    }
}
