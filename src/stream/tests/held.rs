//! The memory accounting of a stream.

use std::rc::Rc;

use super::falling::{HEAD, Stage, picture};
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
            Points::held_bytes_max(buffer_bytes),
            Versions::HELD_BYTES_MAX,
            size_of::<Cutter>(),
            Cutter::HELD_BYTES_MAX,
            format::HELD_BYTES_MAX,
        ];
        assert_eq!(
            limits.held_beside_buffer_max(),
            beside.iter().sum::<usize>()
        );
        let of_buffer = limits.held_bytes_max() - limits.held_beside_buffer_max();
        assert!((buffer_bytes..buffer_bytes + buffer_bytes / 16).contains(&of_buffer));
    }
}

/// Each part that media allocate is counted while it is allocated.
#[test]
fn allocations_for_media_are_counted() {
    let mut stage = Stage::new();
    let grown = |stage: &Stage, before: usize| stage.stream.media_bytes() - before;
    // A block, and its entry in the list.
    let before = stage.stream.media_bytes();
    assert!(before >= 4_096 && stage.stream.held_bytes() >= before);
    stage.send(&picture(false, 4_096));
    assert!(grown(&stage, before) >= 4_096);
    // A copy of the header, while a viewer is being sent it.
    let metadata = [
        &[18, 0, 1, 13 + 100, 0, 0, 0, 0, 0, 0, 0][..],
        b"\x02\0\x0aonMetaData",
    ]
    .concat();
    let before = stage.stream.media_bytes();
    stage.send(&[&metadata[..], &[7; 356], &[0; 4]].concat());
    assert!(grown(&stage, before) >= 384, "what reads it keeps it");
    stage.send(&picture(true, 100));
    let before = stage.stream.media_bytes();
    let viewer = stage.stream.join(1, Instant::START);
    let header_bytes = HEAD.len() + 384;
    assert!((header_bytes..header_bytes + 256).contains(&grown(&stage, before)));
    stage.take(viewer, 1_000);
    // Its entry is left, the copy is freed.
    assert!(grown(&stage, before) < 128);
    // The rest of a unit, for a viewer.
    stage.send(&picture(false, 10_000));
    stage.take_all(viewer);
    stage.send(&picture(false, 10_000));
    stage.take(viewer, 5_000);
    stage.stream.settle(viewer, Outcome::Blocked);
    stage.send_groups(3);
    let before = stage.stream.media_bytes();
    stage.stream.supply(viewer, 0);
    assert_eq!(stage.take(viewer, 5_000).len(), 5_000);
    assert_eq!(before - stage.stream.media_bytes(), 5_000);
    // The sum counts each part once.
    let parts = [
        stage.stream.buffer.held_bytes(),
        stage.stream.rest_bytes,
        stage.stream.points.held_bytes(),
        stage.stream.versions.held_bytes(),
        stage.stream.scanner.held_bytes(),
    ];
    assert_eq!(stage.stream.media_bytes(), parts.iter().sum::<usize>());
    assert!(parts[2..].iter().all(|part| *part > 0), "{parts:?}");
}

/// Each viewer costs a slot, and a lagging one an entry in the index. A segment's prefix is counted
/// for each viewer.
#[test]
fn allocations_for_viewers_are_counted() {
    let mut stage = Stage::new();
    stage.send(&picture(false, 10_000));
    let places = |stage: &Stage| stage.stream.held_bytes() - stage.stream.media_bytes();
    assert!(places(&stage) < 500, "{}", places(&stage));
    let mut viewers = Vec::new();
    for number in 0..200_u8 {
        viewers.push(stage.stream.join(number, Instant::START));
        let count = viewers.len();
        let each = size_of::<Viewer<u8>>() + Lead::PLACE_BYTES + Prelude::BYTES_MAX;
        let index = size_of::<(u64, ViewerId<u8>)>();
        let lines = 2 * count.div_ceil(64) * size_of::<u64>();
        let least = count * (each + index) + lines;
        // Tables double, and nodes are at least half full. The first allocation has some room.
        let most = 2 * count * each + 4 * count * index + 2_000;
        assert!(
            (least..most).contains(&places(&stage)),
            "{count}: {}",
            places(&stage)
        );
    }
    // A viewer that does not lag any more is not in the index.
    let before = places(&stage);
    for viewer in &viewers {
        stage.take_all(*viewer);
        stage.stream.settle(*viewer, Outcome::Open);
    }
    let freed = before - places(&stage);
    assert!(freed >= 200 * size_of::<(u64, ViewerId<u8>)>(), "{freed}");
    // There is a slot for one more viewer, and a prefix that viewers share.
    stage.stream.leave(viewers[0]);
    let before = places(&stage);
    let lead = Rc::new(vec![7; 10_000]);
    let viewer = stage.stream.join_range(1, (0, 100), lead, Instant::START);
    let more = places(&stage) - before;
    assert!((10_000..11_000).contains(&more), "{more}");
    stage.take(viewer, 10_000);
    assert!(places(&stage) < before + 1_000);
    // The sum counts each part once. The index takes one node, and one for each five entries.
    for (lagging, nodes) in [
        (0, 1),
        (1, 1),
        (4, 1),
        (5, 2),
        (9, 2),
        (10, 3),
        (13, 3),
        (200, 41),
    ] {
        let mut stage = Stage::new();
        stage.send(&picture(false, 10_000));
        for number in 0..lagging {
            stage.stream.join(number, Instant::START);
        }
        let newest = stage.stream.newest();
        let lead = Rc::new(vec![7; 1_000]);
        let viewer = stage
            .stream
            .join_range(1, (newest, newest), lead, Instant::START);
        stage.stream.stop_lagging(viewer);
        let node = 12 * (size_of::<(u64, ViewerId<u8>)>() + size_of::<usize>());
        let parts = [
            stage.stream.viewers.held_bytes(),
            (usize::from(lagging) + 1) * (Lead::PLACE_BYTES + Prelude::BYTES_MAX),
            stage.stream.shared_bytes,
            stage.stream.lines.held_bytes(),
            nodes * node,
        ];
        assert_eq!(places(&stage), parts.iter().sum::<usize>(), "{lagging}");
        assert!(stage.stream.shared_bytes > 1_000);
    }
    // Viewers to disconnect are kept until they are taken.
    let mut stream = StreamBuffer::<u64>::new(Limits::default(), None, Instant::START);
    let before = stream.held_bytes();
    stream.cut = Vec::with_capacity(500);
    assert_eq!(stream.held_bytes(), before + 500 * size_of::<u64>());
}

/// A shared prefix counts its bytes, the list's head and two counters.
#[test]
fn a_shared_prefix_is_counted_whole() {
    let lead = Lead::of_start(Some(Rc::new(vec![7; 100])), &[]);
    let viewer = Viewer::<u8> {
        connection: 1,
        position: Position::At(0),
        end: 10,
        lead,
        lag_key: None,
        header_seen: 0,
        since: Instant::START,
        bytes_sent: 0,
        skips: 0,
    };
    let least = 100 + size_of::<Vec<u8>>() + 2 * size_of::<usize>();
    assert!((least..least + 64).contains(&viewer.shared_bytes()));
}

/// The two queues take a bit for each viewer of the largest crowd.
#[test]
fn queues_take_two_bits_for_each_viewer() {
    let mut lines = Lines::default();
    assert_eq!(lines.held_bytes(), 0);
    lines.wait(6_399);
    let held_bytes = lines.held_bytes();
    assert!((2 * 800..=4 * 800).contains(&held_bytes), "{held_bytes}");
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
        let alive = taken.iter().flatten().count();
        // Two counters and the list's head besides the bytes.
        let least = alive * (1_000 + 5 * size_of::<usize>());
        let held_bytes = versions.held_bytes();
        assert!(
            (least..least + 300).contains(&held_bytes),
            "{serial}: {held_bytes}"
        );
        assert!(held_bytes <= Versions::HELD_BYTES_MAX);
    }
    // The list itself, without living versions.
    taken.clear();
    let list_bytes = versions.replaced.capacity() * size_of::<usize>();
    let known = (versions.replaced.len() + 1) * 5 * size_of::<usize>();
    assert_eq!(versions.held_bytes(), known + list_bytes);
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
