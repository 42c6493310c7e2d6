//! What the allocations of the standard collections hold, in bytes: by what they have room for, not
//! by what is in them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Bytes that a hash table takes. Where much comes and goes std tells less than it has, down to a
/// half.
pub fn hash_map_bytes<K, V>(map: &HashMap<K, V>) -> usize {
    table_bytes::<(K, V)>(map.capacity())
}

/// Bytes that a tree takes at the most.
pub fn tree_map_bytes<K, V>(map: &BTreeMap<K, V>) -> usize {
    tree_bytes::<(K, V)>(map.len())
}

/// The same for one without values.
pub fn tree_set_bytes<K>(set: &BTreeSet<K>) -> usize {
    tree_bytes::<K>(set.len())
}

/// A tree tells no capacity: its nodes have eleven places, of which five are used at least.
fn tree_bytes<Entry>(entries: usize) -> usize {
    const NODE_BYTES: usize = 16 + 12 * size_of::<usize>();
    entries.div_ceil(5) * (11 * size_of::<Entry>() + NODE_BYTES)
}

/// A hash table that says this of its capacity. It has a power of two of places, of which seven
/// eighths are used, a byte of its own for each, and sixteen behind them. (One that has shrunk a
/// lot by removals may hold more: it does not tell.)
pub fn table_bytes<Entry>(capacity: usize) -> usize {
    if capacity == 0 {
        return 0;
    }
    let places = (capacity.saturating_mul(8) / 7).next_power_of_two().max(4);
    places * (size_of::<Entry>() + 1) + 16
}

/// A string that may not be there.
pub fn string_bytes(string: Option<&String>) -> usize {
    string.map_or(0, String::capacity)
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
