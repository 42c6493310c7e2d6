//! Tests of a stream and its viewers through its public functions.

mod falling;
#[cfg(feature = "handover")]
mod handover;
mod memory;

use super::*;

fn stream(bytes_max: usize) -> StreamBuffer<u8> {
    let limits = Limits {
        buffer_bytes: bytes_max,
        join_back_bytes: 0,
        join_back_time: Duration::ZERO,
    };
    StreamBuffer::new(limits, None, Instant::after_start(Duration::ZERO))
}

/// Text: its format is known to be unknown at once.
fn media(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| b'a' + (at % 23) as u8).collect()
}

#[test]
fn bytes_that_came_with_the_head_are_kept_for_waiting_viewers_though_the_pool_is_empty() {
    let now = Instant::after_start(Duration::ZERO);
    let mut pool = Pool::new(0);
    let mut stream = stream(64 * 1024);
    let viewer = stream.join(1, now);
    let read_at_once = 16 * 1024;
    stream.append(&media(read_at_once), &mut pool, now);
    assert_eq!(stream.supply(viewer, 0), Supply::Bytes(read_at_once));
    // The source waits until the viewer has been served.
    assert_eq!(stream.wanted_bytes(&pool), 0);
    assert!(stream.next_ready().is_some());
    stream.advance(viewer, read_at_once);
    stream.end_turn(viewer, Outcome::Open);
    assert!(stream.wanted_bytes(&pool) > 0);
    assert_eq!(stream.figures().skips, 0);
}

/// Bytes are kept back, then let out, while viewers join and are served at any time. The buffer
/// holds a few pieces only.
#[test]
fn viewers_lose_none_of_the_bytes_that_were_kept_back() {
    for seed in 0..200_u64 {
        let now = Instant::after_start(Duration::ZERO);
        let mut pool = Pool::new(1 << 20);
        let mut stream = stream(64 * 1024);
        let mut chance = crate::random::Random::new(u128::from(seed));
        let mut chance = |below: u64| chance.draw() % below;
        // For each viewer, the offset of its next byte.
        let mut viewers = std::collections::BTreeMap::new();
        for round in 0..300_u64 {
            match chance(8) {
                0..3 if stream.wanted_bytes(&pool) > 0 => {
                    let bytes = chance(stream.wanted_bytes(&pool) as u64) as usize + 1;
                    stream.append_without_wake(&media(bytes.min(20_000)), &mut pool, now);
                    if stream.unseen_bytes() >= 16 * 1024 {
                        stream.wake();
                    }
                }
                3 => stream.wake(),
                4 if viewers.len() < 9 => {
                    let id = stream.join(round as u8, now);
                    let cursor = stream.cursor(id).expect("no lead");
                    viewers.insert(id.index(), (id, cursor));
                }
                _ => {
                    if let Some((id, _)) = stream.next_ready() {
                        let (_, next) = viewers.get_mut(&id.index()).expect("it has joined");
                        assert_eq!(stream.cursor(id), Some(*next), "{seed} {round}");
                        if let Supply::Bytes(bytes) = stream.supply(id, 0) {
                            let bytes = bytes.min(chance(20_000) as usize + 1);
                            stream.advance(id, bytes);
                            *next += bytes as u64;
                        }
                        stream.end_turn(id, Outcome::Open);
                    }
                }
            }
            stream.check();
        }
        stream.wake();
        while let Some((id, _)) = stream.next_ready() {
            if let Supply::Bytes(bytes) = stream.supply(id, 0) {
                stream.advance(id, bytes);
            }
            stream.end_turn(id, Outcome::Open);
        }
        for (id, _) in viewers.values() {
            assert_eq!(stream.supply(*id, 0), Supply::UpToDate, "{seed}");
        }
        assert_eq!(stream.figures().skips, 0, "{seed}");
    }
}

/// Seeds 90005471 and 1302412 of the simulation: the second read of a turn overwrote the first byte,
/// and so did the third where the pool was empty.
#[test]
fn a_viewer_that_waited_for_the_format_loses_nothing_before_its_first_write() {
    for pool_bytes in [0, 1 << 20] {
        check_viewer_that_waited_for_the_format(Pool::new(pool_bytes));
    }
}

fn check_viewer_that_waited_for_the_format(mut pool: Pool) {
    let now = Instant::after_start(Duration::ZERO);
    let mut stream = stream(64 * 1024);
    // Sound could begin anywhere in these bytes, so the format is undecided for 12 KiB.
    let binary: Vec<u8> = (0..1 << 17)
        .map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    stream.append(&binary[..9_070], &mut pool, now);
    stream.append(&binary[9_070..9_077], &mut pool, now);
    let mut sent = 9_077;
    assert_eq!(stream.detected(), Detected::Undecided);
    let viewer = stream.join(1, now);
    let mut given = 0;
    for _ in 0..3 {
        while stream.wanted_bytes(&pool) > 0 && sent < 100_000 {
            let read = stream.wanted_bytes(&pool).min(30_000);
            stream.append(&binary[sent..sent + read], &mut pool, now);
            sent += read;
        }
        while stream.next_ready().is_some() {
            if let Supply::Bytes(bytes) = stream.supply(viewer, 0) {
                stream.advance(viewer, bytes);
                given += bytes;
            }
            stream.end_turn(viewer, Outcome::Open);
        }
    }
    assert_eq!(stream.detected(), Detected::Unknown);
    assert_eq!(given, sent);
    assert_eq!(stream.figures().skips, 0);
}

#[test]
fn only_the_unsent_part_of_a_rest_is_kept() {
    let mut lead = viewer::ViewerLead::new(None, media(100_000));
    assert_eq!(lead.advance(99_000), 99_000);
    assert_eq!(lead.parts()[0], &media(100_000)[99_000..]);
    assert!(lead.memory_bytes() <= 2 * 1_000, "{}", lead.memory_bytes());
    assert_eq!(lead.advance(2_000), 1_000);
    assert_eq!((lead.bytes_left(), lead.memory_bytes()), (0, 0));
}

#[test]
fn a_viewer_that_reads_nothing_falls_out_and_continues_with_the_newest_piece() {
    let now = Instant::after_start(Duration::ZERO);
    let mut pool = Pool::new(1 << 20);
    let mut stream = stream(64 * 1024);
    let viewer = stream.join(1, now);
    let piece = media(8 * 1024);
    for _ in 0..4 {
        stream.append(&piece, &mut pool, now);
    }
    assert!(stream.next_ready().is_some());
    stream.end_turn(viewer, Outcome::Blocked);
    assert_eq!(stream.supply(viewer, 0), Supply::Bytes(4 * piece.len()));
    for _ in 0..16 {
        stream.append(&piece, &mut pool, now);
    }
    assert_eq!(stream.supply(viewer, 0), Supply::Bytes(piece.len()));
    assert_eq!(stream.figures().skips, 1);
    assert!(stream.pool_bytes() <= 64 * 1024);
}

/// FLV with new metadata each time, and a key frame.
fn metadata_and_key_frame(round: u8) -> Vec<u8> {
    let tag = |kind: u8, body: &[u8]| {
        let length = (body.len() as u32).to_be_bytes();
        let head = [kind, length[1], length[2], length[3], 0, 0, 0, 0, 0, 0, 0];
        [&head, body, &[0; 4]].concat()
    };
    let metadata = [&b"\x02\0\x0aonMetaData"[..], &[round; 1_000]].concat();
    [tag(18, &metadata), tag(9, &[0x17, 1, 0, 0, 0, round])].concat()
}

#[test]
fn who_stalls_within_a_header_that_was_replaced_twice_is_cut_and_who_has_nothing_of_it_gets_the_new_one()
 {
    // A viewer of one fragment that waits for its end is promised bytes after the header.
    let fragment = 101;
    let now = Instant::after_start(Duration::ZERO);
    let mut pool = Pool::new(1 << 20);
    let mut stream = stream(64 * 1024);
    stream.append(b"FLV\x01\x05\0\0\0\x09\0\0\0\0", &mut pool, now);
    stream.append(&metadata_and_key_frame(0), &mut pool, now);
    let patient = stream.join(100, now);
    let bounded = stream.join(fragment, now);
    stream.bound(bounded);
    let mut cut = Vec::new();
    for round in 1..10 {
        stream.append(&metadata_and_key_frame(round), &mut pool, now);
        cut.extend(std::iter::from_fn(|| stream.take_cut()));
        stream.check();
        let viewer = stream.join(round, now);
        stream.advance(viewer, 3);
        stream.end_turn(viewer, Outcome::Blocked);
    }
    assert_eq!(cut, [fragment, 1, 2, 3, 4, 5, 6]);
    assert!(matches!(stream.supply(patient, 0), Supply::Bytes(_)));
    assert_eq!(stream.supply(bounded, 0), Supply::Ended(End::Lost));
    let mut gather = Gather::default();
    stream.lend(patient, 0..usize::MAX, &mut gather, 0);
    assert_eq!(gather.slices()[0][..], stream.header().to_vec()[..]);
}

#[test]
fn a_stream_uses_the_blocks_of_an_ended_one() {
    let (now, bytes_max) = (Instant::START, 1 << 20);
    let mut pool = Pool::new(bytes_max);
    let begin = |media: &[u8], pool: &mut Pool| {
        let mut stream = stream(64 * 1024);
        stream.append(media, pool, now);
        stream
    };
    let mut first = begin(b"x", &mut pool);
    let place = first.slice(0, 1).as_ptr();
    assert_eq!(first.filled_bytes(), 1);
    first.release(&mut pool);
    assert_eq!(pool.bytes_left, bytes_max as isize);
    let second = begin(b"y", &mut pool);
    assert_eq!(second.slice(0, 1), b"y");
    assert_eq!(second.slice(0, 1).as_ptr(), place);
    assert!(pool.memory_bytes() < 1_000, "it is in use");
    // Of many streams that end at once, the pool keeps a few blocks when the others are taken.
    let large = media(64 * 1024);
    let mut streams: Vec<_> = (0..9).map(|_| begin(&large, &mut pool)).collect();
    for stream in &mut streams {
        stream.release(&mut pool);
    }
    while !pool.take_spare(64 * 1024).is_empty() {}
    assert!(pool.memory_bytes() <= 5 * 4096, "{}", pool.memory_bytes());
}

/// The scanner finds only after a long element that decoding can begin at its first byte. That byte
/// may have left the buffer.
#[test]
fn nobody_begins_before_the_oldest_byte() {
    const MP4: &[u8] = include_bytes!("../../tests/media/h264.mp4");
    const MATROSKA: &[u8] = include_bytes!("../../tests/media/h264.mkv");
    let place = |media: &[u8], mark: &[u8]| {
        let found = media.windows(mark.len()).position(|there| there == mark);
        found.expect("it is there")
    };
    const EMPTY: usize = 400_000;
    // A box of another kind precedes the first fragment.
    let fragment = place(MP4, b"moof") - 4;
    let empty_box = [&(EMPTY as u32).to_be_bytes()[..], b"styp", &[0; EMPTY - 8]].concat();
    // A Void precedes a Cluster's first block.
    let cluster = place(MATROSKA, &[0x1f, 0x43, 0xb6, 0x75]);
    let block = cluster + place(&MATROSKA[cluster..], &[0xa3]);
    let timestamp = cluster + place(&MATROSKA[cluster..block], &[0xe7]);
    let cluster_head = [
        0x1f, 0x43, 0xb6, 0x75, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    ];
    let void = [
        &[0xec, 0x10][..],
        &(EMPTY as u32).to_be_bytes()[1..],
        &[0; EMPTY],
    ]
    .concat();
    for (before, empty, after) in [
        (MP4[..fragment].to_vec(), empty_box, &MP4[fragment..]),
        (
            [
                &MATROSKA[..cluster],
                &cluster_head,
                &MATROSKA[timestamp..block],
            ]
            .concat(),
            void,
            &MATROSKA[block..],
        ),
    ] {
        let now = Instant::after_start(Duration::ZERO);
        let mut pool = Pool::new(1 << 20);
        let mut stream = stream(256 * 1024);
        let media = [&before[..], &empty, after].concat();
        let mut has_begun_late = false;
        for piece in media.chunks(99) {
            stream.append(piece, &mut pool, now);
            let viewer = stream.join(1, now);
            while let Supply::Bytes(bytes) = stream.supply(viewer, 0) {
                let mut gather = Gather::default();
                let lent = stream.lend(viewer, 0..bytes, &mut gather, 0);
                assert!(lent > 0, "{bytes} bytes, and none of them is there");
                has_begun_late |= stream.buffer.oldest > 0;
                stream.advance(viewer, lent);
            }
            stream.leave(viewer);
            stream.check();
        }
        assert!(has_begun_late);
    }
}
