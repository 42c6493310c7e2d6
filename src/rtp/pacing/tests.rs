//! Pacing of streams that arrive in many ways.

use super::*;
use crate::format::mpegts::{PACKET_BYTES, SYNC_BYTE};
use crate::time::at_milliseconds as at;

/// Returns a packet with a clock reference.
fn reference(pid: u8, ticks: u64) -> [u8; PACKET_BYTES] {
    let mut packet = filler(pid);
    let (base, extension) = (ticks % TICKS_WRAP / 300, ticks % 300);
    packet[3] = 0x30;
    packet[4..6].copy_from_slice(&[7, 0x10]);
    packet[6..10].copy_from_slice(&((base >> 1) as u32).to_be_bytes());
    packet[10] = (base as u8 & 1) << 7 | 0x7e | (extension >> 8) as u8;
    packet[11] = extension as u8;
    packet
}

/// Returns a packet without a clock reference.
fn filler(pid: u8) -> [u8; PACKET_BYTES] {
    let mut packet = [0xff; PACKET_BYTES];
    packet[..4].copy_from_slice(&[SYNC_BYTE, 1, pid, 0x10]);
    packet
}

/// Returns a packet without a clock reference, which announces a jump.
fn announcement(pid: u8) -> [u8; PACKET_BYTES] {
    let mut packet = filler(pid);
    packet[3..6].copy_from_slice(&[0x30, 1, 0x80]);
    packet
}

/// Returns a packet with a clock reference, and further packets.
fn group(pid: u8, milliseconds: u64, packets: usize) -> Vec<u8> {
    let mut bytes = reference(pid, milliseconds * 27_000).to_vec();
    bytes.extend(filler(pid).repeat(packets - 1));
    bytes
}

/// Returns packets of which every tenth has a reference, `interval` milliseconds after the previous
/// one.
fn stream(references: u64, interval: u64, first_ticks: u64) -> Vec<u8> {
    let groups = (0..references).map(|number| {
        let ticks = first_ticks + number * interval * 27_000;
        [&reference(0, ticks)[..], &filler(0).repeat(9)].concat()
    });
    groups.collect::<Vec<_>>().concat()
}

/// Sends a stream that has arrived at once. Returns when it was complete, and the size of the
/// largest group.
fn let_out(bytes: &[u8]) -> (u64, u64) {
    let mut pacing = Pacing::new(0);
    pacing.feed(bytes, at(5));
    pacing.finish();
    let (mut now, mut sent, mut largest) = (at(5), 0, 0);
    while sent < bytes.len() as u64 {
        let due = pacing.due(now);
        assert!(due >= sent && due <= bytes.len() as u64);
        largest = largest.max(due - sent);
        sent = due;
        if let Some(deadline) = pacing.deadline(now) {
            assert!(deadline > now, "a deadline that does not move on");
            now = deadline;
        }
    }
    assert!(pacing.is_over());
    (now.since(at(5)).as_millis() as u64, largest)
}

#[test]
fn a_body_that_arrives_at_once_is_sent_at_its_pace_in_small_groups() {
    for first_ticks in [0, 12_345, TICKS_WRAP - 27_000_000] {
        let bytes = stream(100, 40, first_ticks);
        let (milliseconds, largest) = let_out(&bytes);
        assert!((3_990..=4_010).contains(&milliseconds), "{milliseconds} ms");
        assert!(
            largest <= 3 * PACKET_BYTES as u64,
            "{largest} bytes at once"
        );
    }
}

#[test]
fn a_jump_of_the_clock_holds_nothing_back() {
    let mut bytes = stream(25, 40, 0);
    bytes.extend(stream(25, 40, 27_000_000 * 3600));
    bytes.extend(stream(25, 40, 27_000_000));
    let (milliseconds, _) = let_out(&bytes);
    assert!((2_800..=3_000).contains(&milliseconds), "{milliseconds} ms");
}

#[test]
fn a_live_stream_is_not_delayed() {
    let bytes = stream(50, 40, 777);
    let mut pacing = Pacing::new(0);
    for (number, piece) in bytes.chunks(PACKET_BYTES * 5).enumerate() {
        // Early and late in turns.
        let jitter = [0, 7, 3, 12][number % 4];
        let now = at(1_000 + number as u64 * 20 + jitter);
        pacing.feed(piece, now);
        let arrived = (number + 1) * PACKET_BYTES * 5;
        let held = arrived as u64 - pacing.due(now + Duration::from_millis(20));
        assert!(
            held <= 10 * PACKET_BYTES as u64,
            "{held} bytes are held back at {number}"
        );
    }
}

#[test]
fn a_paused_source_makes_no_burst() {
    let bytes = stream(50, 40, 0);
    let (before, behind) = bytes.split_at(PACKET_BYTES * 100);
    let mut pacing = Pacing::new(0);
    pacing.feed(before, at(0));
    assert_eq!(pacing.due(at(400)), before.len() as u64);
    pacing.feed(behind, at(3_000));
    let due = pacing.due(at(3_000));
    assert!(
        due <= (before.len() + PACKET_BYTES * 10) as u64,
        "{due} of {}",
        bytes.len()
    );
    assert!(pacing.due(at(3_000 + 1_600)) >= (bytes.len() - PACKET_BYTES * 10) as u64);
}

#[test]
fn without_a_clock_bytes_are_due_when_they_arrive() {
    let mut pacing = Pacing::new(100);
    pacing.feed(&[0; 50_000], at(0));
    assert_eq!(pacing.due(at(0)), 50_100);
    assert_eq!(pacing.deadline(at(0)), None);
    let bytes = stream(10, 40, 0);
    pacing.feed(&bytes, at(1));
    for second in 1..4 {
        pacing.feed(&[0xff; 1000], at(second * 1_100));
        pacing.due(at(second * 1_100));
    }
    assert_eq!(pacing.due(at(4_000)), 50_100 + bytes.len() as u64 + 3_000);
}

/// Returns the packets of `stream`, with references under another PID.
fn under(pid: u8, mut bytes: Vec<u8>) -> Vec<u8> {
    for packet in bytes.chunks_mut(PACKET_BYTES) {
        packet[2] = pid;
    }
    bytes
}

#[test]
fn a_clock_continues_when_it_moves_to_another_pid() {
    let mut bytes = stream(50, 40, 0);
    bytes.extend(under(1, stream(150, 40, 27_000_000 * 77)));
    let (milliseconds, _) = let_out(&bytes);
    // Without the references that prove the move.
    assert!((7_300..=8_000).contains(&milliseconds), "{milliseconds} ms");
}

#[test]
fn a_second_clock_in_the_stream_does_not_count() {
    let mine = stream(100, 40, 0);
    let other = under(1, stream(100, 40, 27_000_000 * 500));
    let packets = mine.chunks(PACKET_BYTES).zip(other.chunks(PACKET_BYTES));
    let bytes: Vec<u8> = packets.flat_map(|(one, two)| [one, two].concat()).collect();
    let (milliseconds, _) = let_out(&bytes);
    assert!((3_990..=4_010).contains(&milliseconds), "{milliseconds} ms");
}

/// A key frame of 150 kB that arrives at once, on time or late, is spread over an interval.
#[test]
fn a_live_key_frame_is_no_burst() {
    for late in [0, 30, 150] {
        let mut pacing = Pacing::new(0);
        let quiet = stream(25, 40, 0);
        for (number, piece) in quiet.chunks(PACKET_BYTES * 10).enumerate() {
            pacing.feed(piece, at(number as u64 * 40));
            pacing.due(at(number as u64 * 40 + 39));
        }
        let mut key_frame = stream(1, 40, 27_000 * 40 * 25);
        key_frame.extend(
            [[SYNC_BYTE, 1, 0, 0x10].as_slice(), &[0xff; 184]]
                .concat()
                .repeat(790),
        );
        let mut now = at(1_000 + late);
        pacing.feed(&key_frame, now);
        let (mut sent, mut largest, begun) = (pacing.due, 0, now);
        while sent < (quiet.len() + key_frame.len()) as u64 {
            let due = pacing.due(now);
            largest = largest.max(due - sent);
            sent = due;
            now = pacing.deadline(now).unwrap_or(now + GROUP);
        }
        assert!(
            largest < key_frame.len() as u64 / 3,
            "{largest} bytes at once, {late} ms late"
        );
        assert!(
            now.since(begun) < Duration::from_millis(100),
            "{late} ms late"
        );
    }
}

/// For two hours of clocks that differ by 100 parts in a million, the delay stays below a fifth of
/// a second, though references are up to 30 ms late on the network.
#[test]
fn a_faster_or_slower_clock_is_followed() {
    for parts in [-100_i64, 0, 100] {
        let mut pacing = Pacing::new(0);
        let (mut longest, mut last) = (0, 0);
        for number in 0..180_000_u64 {
            let mut bytes = stream(1, 0, number * 40 * 27_000 % TICKS_WRAP);
            bytes.truncate(PACKET_BYTES);
            let microseconds = number as i64 * 40_000;
            let arrives = microseconds - microseconds / 1_000_000 * parts;
            let jitter = number * 7_919 % 30_000;
            let arrives = Duration::from_micros(1_000_000 + arrives as u64 + jitter);
            pacing.feed(&bytes, Instant::after_start(arrives));
            // Until the earliest time of the next one.
            for later in [0, 3, 6, 9] {
                let now = Instant::after_start(arrives + Duration::from_millis(later));
                let held = pacing.arrived - pacing.due(now);
                let milliseconds = held * 40 / PACKET_BYTES as u64;
                longest = longest.max(milliseconds);
            }
            last = pacing.due;
        }
        assert!(longest < 200, "{longest} ms are held back at {parts} ppm");
        assert!(pacing.arrived - last < 5 * PACKET_BYTES as u64);
    }
}

/// Returns the bytes of this many packets.
const fn packets(count: u64) -> u64 {
    count * PACKET_BYTES as u64
}

/// Every reference is due at its time, however many bytes lie between two of them.
#[test]
fn every_reference_is_due_at_its_time() {
    let mut bytes = Vec::new();
    let mut offsets = Vec::new();
    for number in 0..100_usize {
        offsets.push(bytes.len() as u64);
        bytes.extend(group(0, number as u64 * 40, 1 + number * 7 % 20));
    }
    let mut pacing = Pacing::new(1_000);
    pacing.feed(&bytes, at(3));
    // Bytes after the last reference are due with it.
    for (number, offset) in offsets[..99].iter().enumerate() {
        let time = 3 + number as u64 * 40;
        if number > 0 {
            let due = pacing.due(at(time - 1));
            assert!(due < 1_000 + offset, "{number}: {due}");
        }
        assert_eq!(pacing.due(at(time)), 1_000 + offset, "{number}");
    }
}

/// If very many references wait, every second one is dropped, and the pace stays.
#[test]
fn references_that_wait_are_bounded() {
    let each = (0..10_000).map(|number| reference(0, number * 27_000));
    let bytes = each.collect::<Vec<_>>().concat();
    let mut pacing = Pacing::new(0);
    for piece in bytes.chunks(10 * PACKET_BYTES) {
        pacing.feed(piece, at(0));
        assert!(pacing.marks.len() <= MARKS_MAX);
        let marks_bytes = pacing.marks.len() * size_of::<Mark>();
        assert!((marks_bytes..100 << 10).contains(&(pacing.marks.capacity() * size_of::<Mark>())));
    }
    assert!(pacing.marks.len() >= MARKS_MAX / 2);
    for milliseconds in [0, 1, 100, 2_500, 5_001, 9_990] {
        let due = pacing.due(at(milliseconds));
        let expected = packets(milliseconds);
        assert!((expected..=expected + packets(8)).contains(&due), "{due}");
    }
}

/// An announced jump takes no time, though it looks like an interval.
#[test]
fn an_announced_jump_takes_no_time() {
    let announced = |packet: [u8; PACKET_BYTES]| {
        let mut packet = packet;
        packet[5] |= 0x80;
        packet
    };
    let plain = reference(0, 900 * 27_000);
    for (before, splice, is_jump) in [
        (filler(0), plain, false),
        (announcement(0), plain, true),
        (announcement(1), plain, false),
        (filler(0), announced(plain), true),
        (announcement(0), announced(plain), true),
    ] {
        let mut bytes = stream(3, 100, 0);
        bytes.extend(before);
        bytes.extend(splice);
        bytes.extend(filler(0).repeat(9));
        bytes.extend(stream(2, 100, 1_000 * 27_000));
        let (milliseconds, _) = let_out(&bytes);
        // The references are 200, 700 and 200 ms apart, and packets follow the last one.
        let expected = if is_jump { 500 } else { 1_200 };
        assert!(
            (expected - 20..=expected + 10).contains(&milliseconds),
            "{milliseconds} ms"
        );
    }
}

/// A clock under another PID counts after half a second of its own time. No time passes for the
/// bytes before that.
#[test]
fn a_clock_that_has_moved_jumps() {
    let mut bytes = stream(3, 100, 0);
    bytes.extend(under(1, stream(11, 100, 250 * 27_000)));
    let (milliseconds, _) = let_out(&bytes);
    // From 0 to 200 ms, then from 750 to 1,250 ms, and the packets after the last reference.
    assert!((780..=810).contains(&milliseconds), "{milliseconds} ms");
}

#[test]
fn another_clock_counts_after_half_a_second() {
    for first in [0, 12_345, TICKS_WRAP - 10, TICKS_WRAP / 2] {
        let mut pacing = Pacing::new(0);
        let heard = [
            (1, 0, false),
            (1, 27_000, false),
            // A third PID, at any time.
            (2, MOVED_TICKS, false),
            (2, 2 * MOVED_TICKS, false),
            (1, MOVED_TICKS - 1, false),
            (1, MOVED_TICKS, true),
            (1, MOVED_TICKS + 1, true),
        ];
        for (pid, ticks, has_moved) in heard {
            let moved = pacing.measure_other_clock(pid, (first + ticks) % TICKS_WRAP);
            assert_eq!(moved, has_moved, "{pid} at {ticks} from {first}");
        }
    }
}

/// A reference that is early waits for its time, however little waits.
#[test]
fn a_reference_that_comes_early_does_not_move_the_clock() {
    let mut pacing = Pacing::new(0);
    pacing.feed(&group(0, 0, 10), at(0));
    pacing.due(at(0));
    for number in 1..20 {
        let time = number * 40;
        pacing.feed(&group(0, time, 10), at(time - 12));
        // All bytes up to the first reference are due at once, since no interval is known.
        assert!(number == 1 || pacing.due(at(time - 1)) < packets(10 * number));
        // With the next bytes, for 12 of 40 ms.
        assert_eq!(pacing.due(at(time)), packets(10 * number + 3));
    }
}

/// A reference that is late by up to 200 ms catches up. A later one sets a new pace from now on.
#[test]
fn a_source_that_is_too_late_does_not_catch_up() {
    for (late, catches_up) in [
        (0, true),
        (199, true),
        (200, true),
        (201, false),
        (900, false),
    ] {
        let mut pacing = Pacing::new(0);
        pacing.feed(&group(0, 0, 10), at(0));
        pacing.due(at(0));
        let now = 40 + late;
        pacing.feed(&group(0, 40, 10), at(now));
        pacing.feed(&group(0, 80, 10), at(now));
        let due = pacing.due(at(now.max(80)));
        assert_eq!(due >= packets(20), catches_up, "{late} ms late");
        assert!(catches_up || due == packets(10), "{late} ms late");
        assert!(pacing.due(at(now + 40)) >= packets(20));
    }
}

/// A clock is gone after a second, or 4 MiB, without a reference. Then nothing waits until there is
/// another clock.
#[test]
fn a_silent_clock_is_forgotten() {
    for (milliseconds, bytes, is_paced) in [
        (0, 1, true),
        (1_000, 1, true),
        (1_001, 1, false),
        (5_000, 1, false),
        (0, SILENCE_BYTES_MAX - packets(3), true),
        (0, SILENCE_BYTES_MAX - packets(3) + 1, false),
        (0, 2 * SILENCE_BYTES_MAX, false),
    ] {
        let mut pacing = Pacing::new(0);
        pacing.feed(&group(0, 0, 3), at(0));
        pacing.due(at(0));
        let now = at(milliseconds);
        let silent = filler(0).repeat(bytes as usize / PACKET_BYTES + 1);
        pacing.feed(&silent[..bytes as usize], now);
        let what = (milliseconds, bytes);
        assert_eq!(pacing.group_time().is_some(), is_paced, "{what:?}");
        if is_paced {
            continue;
        }
        assert_eq!(pacing.due(now), packets(3) + bytes, "{what:?}");
        assert_eq!(pacing.deadline(now), None, "{what:?}");
        // Any PID, at any time.
        pacing.feed(&silent[bytes as usize..], now);
        pacing.feed(&group(1, 7_000_000, 10), now);
        assert!(pacing.group_time().is_some(), "{what:?}");
        assert!(pacing.deadline(now).is_some(), "{what:?}");
    }
    // A clock is not silent while references wait.
    let mut pacing = Pacing::new(0);
    pacing.feed(&stream(10, 100, 0), at(0));
    pacing.feed(&filler(0).repeat(30_000), at(2_000));
    assert!(pacing.group_time().is_some());
}

/// Behind the last reference more bytes are due every 10 ms, until none are left.
#[test]
fn bytes_behind_the_last_reference_are_spread_and_then_all_due() {
    let mut pacing = Pacing::new(0);
    pacing.feed(&group(0, 0, 10), at(0));
    pacing.feed(&group(0, 40, 10), at(40));
    for (now, due, next) in [
        (40, 10, Some(50)),
        (60, 15, Some(70)),
        (80, 20, None),
        (99, 20, None),
    ] {
        assert_eq!(pacing.due(at(now)), packets(due), "{now}");
        assert_eq!(pacing.deadline(at(now)), next.map(at), "{now}");
        assert!(!pacing.is_over());
    }
}

#[test]
fn pacing_is_over_when_the_stream_has_ended_and_all_of_it_is_due() {
    let mut pacing = Pacing::new(0);
    assert!(!pacing.is_over());
    pacing.feed(&stream(3, 40, 0), at(0));
    assert!(!pacing.is_over());
    pacing.finish();
    for (now, is_over) in [(0, false), (119, false), (120, true)] {
        pacing.due(at(now));
        assert_eq!(pacing.is_over(), is_over, "{now}");
    }
}

/// The clock is sped up by the earliness of the latest reference in ten seconds, up to a limit.
/// Earlier references do not count.
#[test]
fn the_latest_reference_measures_the_drift() {
    for (ahead, haste) in [
        ([50_000, 60_000, 55_000], 100),
        ([60_000, 50_000, 55_000], 100),
        ([60_000, 55_000, 50_000], 100),
        ([-50_000, 0, 700], -100),
        ([499, 600, 700], 0),
        ([1_000_000; 3], 200),
        ([-1_000_000; 3], -200),
    ] {
        let mut drift = Drift::default();
        for second in [0, 9, 10] {
            drift.note(-90_000, at(second * 1_000));
        }
        assert_eq!(drift.haste, -180);
        // The previous measurement has ended, and does not count.
        for (second, ahead) in [11, 20, 21].into_iter().zip(ahead) {
            assert_eq!(drift.haste, -180, "{second}");
            drift.note(ahead, at(second * 1_000));
        }
        assert_eq!(drift.haste, haste, "{ahead:?}");
    }
}

#[test]
fn haste_moves_the_due_times() {
    let zero = Zero {
        time: Duration::from_secs(1),
        moment: at(5_000),
    };
    for (time, now, until) in [
        (1_500, 5_200, 300_000),
        (1_500, 5_500, 0),
        (1_500, 5_700, -200_000),
        (1_000, 5_000, 0),
        // Too early to count.
        (300, 5_100, -100_000),
    ] {
        let until_then = zero.until(Duration::from_millis(time), at(now));
        assert_eq!(until_then, until, "{time} at {now}");
    }
    for (haste, until) in [(100, 999_800), (0, 1_000_000), (-100, 1_000_200)] {
        let mut zero = zero;
        zero.hasten(Duration::from_secs(2), haste);
        let until_then = zero.until(Duration::from_secs(4), at(7_000));
        assert_eq!(until_then, until, "{haste}");
    }
}

/// States at the limits are valid, and states beyond them are not.
#[cfg(feature = "handover")]
#[test]
fn a_state_from_another_process_is_checked_at_its_limits() {
    type Told = fn(&mut Pacing);
    const LONGEST: Duration = Duration::from_secs(1 << 36);
    const TOO_LONG: Duration = Duration::from_secs((1 << 36) + 1);
    fn mark(offset: u64, milliseconds: u64) -> Mark {
        Mark {
            offset,
            time: Duration::from_millis(milliseconds),
        }
    }
    fn unfit_aligner() -> Aligner {
        // In step, with no bytes kept.
        let told = r#"{"pending":"","shape":null,"in_step":true}"#;
        serde_json::from_str(told).expect("an aligner")
    }
    fn zero(time: Duration) -> Option<Zero> {
        let moment = at(0);
        Some(Zero { time, moment })
    }
    let told: [(Told, bool); 12] = [
        (|_| {}, true),
        (|pacing| pacing.aligner = unfit_aligner(), false),
        (
            |pacing| pacing.marks = vec![mark(5, 5); MARKS_MAX + 1].into(),
            true,
        ),
        (
            |pacing| pacing.marks = vec![mark(5, 5); MARKS_MAX + 2].into(),
            false,
        ),
        // Times that can be added to others.
        (|pacing| pacing.newest_time = LONGEST, true),
        (|pacing| pacing.newest_time = TOO_LONG, false),
        (|pacing| pacing.zero = zero(LONGEST), true),
        (|pacing| pacing.zero = zero(TOO_LONG), false),
        (
            |pacing| pacing.marks = [mark(5, (1 << 36) * 1_000 + 1)].into(),
            false,
        ),
        (
            |pacing| pacing.passed = Some(mark(5, (1 << 36) * 1_000 + 1)),
            false,
        ),
        (|pacing| pacing.arrived = 200, true),
        (|pacing| pacing.arrived = 201, false),
    ];
    for (index, (tell, fits)) in told.into_iter().enumerate() {
        let mut pacing = Pacing::new(100);
        tell(&mut pacing);
        assert_eq!(pacing.is_valid(200), fits, "{index}");
    }
}
