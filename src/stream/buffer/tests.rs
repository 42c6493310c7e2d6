//! Tests of the buffer and its pool.

use std::time::Duration;

use super::*;
#[cfg(feature = "handover")]
use crate::handover::COUNT_MAX;

/// A buffer of 16 blocks of 4 KiB. Five of them are granted: 16 KiB, and the one that is being
/// filled.
const BYTES_MAX: usize = 64 * 1024;
const BLOCK: usize = 4096;

fn at(seconds: usize) -> Instant {
    Instant::after_start(Duration::from_secs(seconds as u64))
}

/// Adds and fills blocks, one a second, until the oldest would have to go. Returns their number.
fn fill(buffer: &mut Buffer, pool: &mut Pool) -> usize {
    let mut blocks = 0;
    while buffer.oldest_after_recycling(pool).is_none() {
        buffer.grow(pool, at(blocks));
        assert_eq!(buffer.fill(&[blocks as u8; 2 * BLOCK]), BLOCK);
        blocks += 1;
    }
    blocks
}

/// A buffer takes the granted blocks in any case, further blocks while the pool has some, and never
/// more than its own bound. `kept_bytes` and `keepable_bytes` are right for what follows.
#[test]
fn a_buffer_takes_blocks_while_there_are_some() {
    for (pool_blocks, is_reserved, blocks) in [
        (0, false, 5),
        (4, false, 5),
        (5, false, 5),
        (7, false, 7),
        (15, false, 15),
        (16, false, 16),
        (100, false, 16),
        (15, true, 15),
        (16, true, 16),
        (17, true, 16),
    ] {
        let what = (pool_blocks, is_reserved);
        // The pool has a little less than another block left.
        let mut pool = Pool::new(pool_blocks * BLOCK + BLOCK - 1);
        let mut buffer = Buffer::new(BYTES_MAX);
        let has_room = is_reserved && buffer.reserve(&mut pool);
        assert_eq!(has_room, is_reserved && pool_blocks >= 16, "{what:?}");
        let reserved_bytes = if has_room { BYTES_MAX } else { 0 };
        assert_eq!(buffer.pool_bytes(), reserved_bytes);
        assert_eq!(buffer.kept_bytes(), 4 * BLOCK);
        assert_eq!(
            buffer.keepable_bytes(&pool),
            (blocks - 1) * BLOCK,
            "{what:?}"
        );
        assert_eq!(fill(&mut buffer, &mut pool), blocks, "{what:?}");
        assert_eq!(
            buffer.keepable_bytes(&pool),
            (blocks - 1) * BLOCK,
            "{what:?}"
        );
        assert_eq!(buffer.kept_bytes(), (blocks - 1) * BLOCK, "{what:?}");
        assert_eq!(buffer.pool_bytes(), blocks * BLOCK);
        assert_eq!(buffer.oldest_after_recycling(&pool), Some(BLOCK as u64));
        let (oldest, newest) = (buffer.oldest, buffer.newest);
        assert_eq!((oldest, newest), (0, (blocks * BLOCK) as u64));
        // A buffer that is released before it took all its blocks returns everything to the pool.
        let mut other = Buffer::new(BYTES_MAX);
        let left = pool.bytes_left;
        pool.bytes_left = BYTES_MAX as isize;
        assert!(other.reserve(&mut pool));
        other.grow(&mut pool, at(0));
        other.release(&mut pool);
        assert_eq!(
            (other.pool_bytes(), pool.bytes_left),
            (0, BYTES_MAX as isize)
        );
        pool.bytes_left = left;
        buffer.recycle(at(99));
        assert_eq!(buffer.fill(b"new"), 3);
        assert_eq!(buffer.oldest, BLOCK as u64);
        assert_eq!(buffer.slice(newest, 9), b"new");
        assert!(buffer.slice(0, 9).is_empty());
        buffer.release(&mut pool);
        assert_eq!(buffer.oldest, newest + 3);
        assert_eq!(pool.bytes_left, (pool_blocks * BLOCK + BLOCK - 1) as isize);
    }
}

/// `keepable_bytes` counts a buffer's own blocks and the blocks that are left in the pool.
#[test]
fn the_pools_rest_can_be_kept_too() {
    let mut pool = Pool::new(9 * BLOCK);
    let mut buffer = Buffer::new(BYTES_MAX);
    for blocks in 0..6 {
        assert_eq!(buffer.keepable_bytes(&pool), 8 * BLOCK, "{blocks}");
        buffer.grow(&mut pool, at(0));
        buffer.fill(&[1; BLOCK]);
    }
    // Another buffer takes two of the blocks that are left.
    pool.bytes_left -= 2 * BLOCK as isize;
    assert_eq!(buffer.keepable_bytes(&pool), 6 * BLOCK);
}

#[test]
fn bytes_between_oldest_and_newest_can_be_read() {
    let mut pool = Pool::new(1 << 20);
    let mut buffer = Buffer::new(BYTES_MAX);
    fill(&mut buffer, &mut pool);
    for _ in 0..3 {
        buffer.recycle(at(20));
        buffer.fill(&[77; BLOCK]);
    }
    let (oldest, newest) = (buffer.oldest, buffer.newest);
    assert_eq!((oldest, newest), (3 * BLOCK as u64, 19 * BLOCK as u64));
    let mut all = Vec::new();
    buffer.copy_to(&mut all, oldest, newest);
    assert_eq!(all.len(), BYTES_MAX);
    for (from, to) in [
        (0, 1),
        (0, 5_000),
        (4_095, 4_097),
        (100, 50_000),
        (65_000, 65_536),
    ] {
        let mut copied = b"before".to_vec();
        buffer.copy_to(&mut copied, oldest + from, oldest + to);
        let expected = &all[from as usize..to as usize];
        assert!(
            copied[..6] == *b"before" && copied[6..] == *expected,
            "{from} to {to}"
        );
        let slice = buffer.slice(oldest + from, (to - from) as usize);
        assert!(
            !slice.is_empty() && expected.starts_with(slice),
            "{from} to {to}"
        );
    }
    // An offset outside of the buffer has no bytes.
    let mut none = Vec::new();
    buffer.copy_to(&mut none, newest, newest + 10);
    buffer.copy_to(&mut none, oldest - 1, newest);
    buffer.copy_to(&mut none, oldest + 5, oldest + 5);
    buffer.copy_to(&mut none, oldest + 5, oldest);
    assert!(none.is_empty());
    // The fourth block is the oldest now. The last three have the times of their second use.
    for (offset, arrived) in [
        (oldest - 1, None),
        (oldest, Some(3)),
        (oldest + 4_096, Some(4)),
        (newest - 3 * 4_096 - 1, Some(15)),
        (newest - 3 * 4_096, Some(20)),
        (newest - 1, Some(20)),
        (newest, None),
    ] {
        assert_eq!(buffer.arrived(offset), arrived.map(at), "{offset}");
    }
}

/// Each block is lent in a place of its own, up to the wanted bytes and the free places.
#[test]
fn bytes_are_lent_while_places_are_free() {
    let mut pool = Pool::new(1 << 20);
    let mut buffer = Buffer::new(BYTES_MAX);
    fill(&mut buffer, &mut pool);
    for (from, bytes_max, kept, lent, places) in [
        (0, 0, 0, 0, 0),
        (0, 100, 0, 100, 1),
        (4_000, 96, 0, 96, 1),
        (4_000, 97, 0, 97, 2),
        (0, usize::MAX, 9, 3 * BLOCK, 3),
        (4_000, usize::MAX, 9, 96 + 2 * BLOCK, 3),
        (0, usize::MAX, 12, 0, 0),
        (0, usize::MAX, 0, 12 * BLOCK, 12),
        (65_000, usize::MAX, 0, 536, 1),
        (65_536, usize::MAX, 0, 0, 0),
    ] {
        let mut gather = Gather::default();
        let places_before = gather.places_left();
        let got = buffer.lend(from, bytes_max, &mut gather, kept);
        assert_eq!(got, lent, "{from}, {bytes_max}, {kept}");
        assert_eq!(places_before - gather.places_left(), places, "{from}");
    }
}

/// A full buffer counts its allocations, and its bound is close to them.
#[test]
fn its_memory_is_counted_and_bounded() {
    for bytes_max in [1, 8 * 1024, BYTES_MAX, 1 << 20, 17 << 16, 33 << 16] {
        let mut pool = Pool::new(usize::MAX);
        let mut buffer = Buffer::new(bytes_max);
        let most = buffer.bytes_max() + 2 * (buffer.blocks_max + 4) * size_of::<Block>();
        let mut blocks = 0;
        while buffer.oldest_after_recycling(&pool).is_none() {
            buffer.grow(&mut pool, at(0));
            buffer.fill(&[1; 64 << 10]);
            blocks += 1;
        }
        assert_eq!(buffer.newest, buffer.bytes_max() as u64);
        let memory_bytes = buffer.memory_bytes();
        let least = buffer.bytes_max() + blocks * size_of::<Block>();
        assert!(
            (least..=most).contains(&memory_bytes),
            "{bytes_max}: {memory_bytes} of {most}"
        );
        assert!(most <= buffer.bytes_max() + 3 * (blocks + 4) * size_of::<Block>());
    }
}

/// The pool keeps some blocks of an ended stream. A new stream takes only blocks of its own size.
#[test]
fn the_pool_keeps_a_few_blocks_for_the_next_stream() {
    let mut pool = Pool::new(1 << 20);
    assert_eq!(pool.memory_bytes(), 0);
    let mut large = Buffer::new(1 << 20);
    large.grow(&mut pool, at(0));
    large.release(&mut pool);
    assert!((64 << 10..65 << 10).contains(&pool.memory_bytes()));
    let mut small = Buffer::new(BYTES_MAX);
    small.grow(&mut pool, at(0));
    assert!(small.memory_bytes() < 2 * BLOCK, "{}", small.memory_bytes());
    fill(&mut small, &mut pool);
    small.release(&mut pool);
    // The others are freed a few at a time.
    let mut left = BYTES_MAX / BLOCK;
    while left > FREE_BLOCKS_KEPT {
        let taken = pool.take_spare(3 * BLOCK + 1).len();
        assert_eq!(taken, 3.min(left - FREE_BLOCKS_KEPT));
        left -= taken;
    }
    assert!(pool.take_spare(BLOCK).is_empty());
    let memory_bytes = pool.memory_bytes();
    let list_bytes = FREE_BLOCKS_KEPT * size_of::<Vec<u8>>();
    let expected = FREE_BLOCKS_KEPT * BLOCK + list_bytes;
    assert!(
        (expected..=expected + 3 * list_bytes).contains(&memory_bytes),
        "{memory_bytes}"
    );
    // The same blocks are used again.
    small.grow(&mut pool, at(0));
    assert_eq!(pool.memory_bytes(), memory_bytes - BLOCK);
    assert_eq!(pool.bytes_left, (1 << 20) - BLOCK as isize);
}

/// A received buffer has the same bytes at the same offsets with the same arrival times, and the same
/// reserved blocks of the pool.
#[cfg(feature = "handover")]
#[test]
fn a_buffer_that_is_told_of_goes_on() {
    let mut pool = Pool::new(8 * BLOCK);
    let mut told = Buffer::new(BYTES_MAX);
    fill(&mut told, &mut pool);
    for second in [8, 9] {
        told.recycle(at(second));
        told.fill(&[second as u8; BLOCK]);
    }
    let (oldest, newest) = (told.oldest, told.newest);
    let mut bytes = Vec::new();
    told.copy_to(&mut bytes, oldest, newest);
    // It begins wherever it likes, and more may have come before.
    for earlier in [0, 1, 1_000, 4_096, 9_000] {
        let mut pool = Pool::new(1 << 20);
        let mut buffer = Buffer::new(BYTES_MAX);
        // Bytes that came before, and are overwritten since.
        buffer.receive(7, b"too old", &mut pool).expect("bytes");
        let more = [&vec![3; earlier][..], &bytes].concat();
        let mut from = oldest + 9_000 - earlier as u64;
        (told.oldest, told.newest) = (oldest + 9_000, newest + 9_000);
        for piece in more.chunks(1_300) {
            buffer.receive(from, piece, &mut pool).expect("bytes");
            from += piece.len() as u64;
        }
        let held_before = buffer.pool_bytes();
        buffer.become_as(&told, &mut pool).expect("the same bytes");
        // Blocks without needed bytes are returned.
        assert!(told.oldest - buffer.oldest < BLOCK as u64, "{earlier}");
        assert_eq!(buffer.pool_bytes() + earlier / BLOCK * BLOCK, held_before);
        assert_eq!(pool.bytes_left, (1 << 20) - buffer.pool_bytes() as isize);
        let mut got = Vec::new();
        buffer.copy_to(&mut got, told.oldest, told.newest);
        assert!(got == bytes, "{earlier}");
        for place in 0..8 {
            // A block of one is a part of two of the other: the earlier time holds.
            let arrived = buffer.arrived(told.oldest + place * BLOCK as u64);
            let expected = at(place as usize + 2);
            assert!(
                arrived.is_some_and(|arrived| arrived <= expected),
                "{place}"
            );
            assert!(earlier % BLOCK > 0 || arrived == Some(expected), "{place}");
        }
    }
}

/// A state that does not match the received bytes is refused, and reserved blocks come from the pool.
#[cfg(feature = "handover")]
#[test]
fn what_is_told_of_a_buffer_is_of_its_bytes() {
    for (oldest, newest, fits) in [
        (100, 300, true),
        (150, 300, true),
        (300, 300, true),
        (99, 300, false),
        (100, 299, false),
        (100, 301, false),
        (99, 301, false),
    ] {
        let mut pool = Pool::new(1 << 20);
        let mut buffer = Buffer::new(BYTES_MAX);
        buffer.receive(100, &[1; 200], &mut pool).expect("bytes");
        let mut told = Buffer::new(BYTES_MAX);
        (told.oldest, told.newest) = (oldest, newest);
        assert_eq!(
            buffer.become_as(&told, &mut pool).is_ok(),
            fits,
            "{oldest} to {newest}"
        );
    }
    for (told_blocks, blocks) in [(0, 1), (3, 4), (15, 16), (16, 16), (1_000, 16)] {
        let mut pool = Pool::new(1 << 20);
        let mut buffer = Buffer::new(BYTES_MAX);
        buffer.receive(0, b"x", &mut pool).expect("a byte");
        let mut told = Buffer::new(BYTES_MAX);
        (told.newest, told.blocks_reserved) = (1, told_blocks);
        buffer.become_as(&told, &mut pool).expect("the same byte");
        assert_eq!(buffer.pool_bytes(), blocks * BLOCK, "{told_blocks}");
        assert_eq!(pool.bytes_left, (1 << 20) - (blocks * BLOCK) as isize);
    }
    let mut buffer = Buffer::new(BYTES_MAX);
    let mut pool = Pool::new(1 << 20);
    assert_eq!(buffer.granted_bytes(), 5 * BLOCK);
    for (from, fits) in [
        (COUNT_MAX - 2, true),
        (COUNT_MAX - 1, false),
        (u64::MAX, false),
    ] {
        assert_eq!(
            buffer.receive(from, b"xy", &mut pool).is_ok(),
            fits,
            "{from}"
        );
    }
    // It takes no more than it holds, however much comes.
    buffer
        .receive(0, &vec![1; 3 * BYTES_MAX], &mut pool)
        .expect("bytes");
    assert_eq!(
        (buffer.oldest, buffer.pool_bytes()),
        (2 * BYTES_MAX as u64, BYTES_MAX)
    );
}
