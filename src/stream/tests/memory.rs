//! The memory of a stream.

use std::rc::Rc;

use super::falling::{HEAD, Stage};
use super::*;

/// The bound of a stream is the sum of the bounds of its parts.
#[test]
fn the_bound_is_the_sum_of_the_parts() {
    for buffer_bytes in [64 * 1024, 8 << 20] {
        let limits = Limits {
            buffer_bytes,
            ..Limits::default()
        };
        let beside = [
            buffer_bytes,
            Points::memory_bytes_max(buffer_bytes),
            Versions::MEMORY_BYTES_MAX,
            size_of::<Cutter>(),
            Cutter::MEMORY_BYTES_MAX,
            format::MEMORY_BYTES_MAX,
        ];
        assert_eq!(
            limits.memory_beside_buffer_max(),
            beside.iter().sum::<usize>()
        );
    }
}

/// A version of the header lives while a viewer is being sent it. Only living versions count
/// against the bound of replaced versions.
#[test]
fn unused_versions_leave_room_for_others() {
    let mut versions = Versions::default();
    let mut taken = Vec::new();
    // Whether a viewer is being sent it when it is replaced, and which one is freed then.
    for (serial, is_taken, leaves, goes) in [
        (0, true, None, None),
        (1, false, None, None),
        (2, true, None, None),
        // No viewer needs the second version any more: there is room for another.
        (3, true, Some(2), None),
        (4, false, None, None),
        (5, true, None, Some(0)),
        (6, true, None, Some(3)),
        (7, false, None, None),
    ] {
        if let Some(leaves) = leaves {
            taken[leaves] = None;
        }
        let version = Rc::new(vec![serial; 1_000]);
        versions.current = Rc::downgrade(&version);
        taken.push((is_taken).then_some(version));
        let gone = versions.replace();
        assert_eq!(gone.map(|gone| gone[0]), goes, "{serial}");
        if let Some(goes) = goes {
            taken[usize::from(goes)] = None;
        }
    }
}

/// Viewers that are sent the header at the same time share one copy.
#[test]
fn a_header_is_copied_once_for_all() {
    let mut stage = Stage::new();
    stage.send_groups(1);
    let header = stage.stream.scanner.header();
    let first = stage.stream.versions.current(header, None);
    let second = stage.stream.versions.current(header, None);
    assert!(Rc::ptr_eq(&first, &second) && *first == HEAD);
}
