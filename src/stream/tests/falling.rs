//! Viewers of FLV: where they begin, what they get when they fall out of the buffer, and where they
//! continue.

use super::*;

/// The file's head. Tags follow at 13.
pub const HEAD: &[u8] = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";

/// Returns a video tag of `bytes` bytes with its trailing length: a key frame or another picture.
pub fn picture(is_key: bool, bytes: usize) -> Vec<u8> {
    let length = (bytes as u32 - 15).to_be_bytes();
    let first = if is_key { 0x17 } else { 0x27 };
    let head = [9, length[1], length[2], length[3], 0, 0, 0, 0, 0, 0, 0];
    let mut tag = [&head[..], &[first, 1, 0, 0, 0]].concat();
    tag.extend((0..bytes - 20).map(|at| (at * 31 + bytes) as u8));
    tag.extend([0; 4]);
    tag
}

/// A stream with its pool and all media that it was sent.
pub struct Stage {
    pub stream: StreamBuffer<u8>,
    pub pool: Pool,
    pub all: Vec<u8>,
}

impl Stage {
    /// Creates a stream of 16 blocks of 4 KiB, and sends it the head of FLV.
    pub fn new() -> Stage {
        let mut stage = Stage {
            stream: stream(64 * 1024),
            pool: Pool::new(1 << 20),
            all: Vec::new(),
        };
        stage.send(HEAD);
        stage
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.count(bytes.len(), Instant::START);
        self.stream.append(bytes, &mut self.pool, Instant::START);
        self.all.extend_from_slice(bytes);
        self.stream.check();
    }

    /// Sends a key frame and other pictures, of 10,000 bytes each.
    pub fn send_groups(&mut self, groups: usize) {
        for number in 0..groups * 5 {
            self.send(&picture(number % 5 == 0, 10_000));
        }
    }

    /// Returns the viewer's next bytes, at most `bytes_max`.
    pub fn take(&mut self, id: ViewerId<u8>, bytes_max: usize) -> Vec<u8> {
        self.stream.supply(id, 0);
        let mut gather = Gather::default();
        let lent = self.stream.lend(id, 0..bytes_max, &mut gather, 0);
        let slices = gather.slices();
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        assert_eq!(bytes.len(), lent);
        self.stream.advance(id, lent);
        self.stream.check();
        bytes
    }

    /// Returns all bytes that the viewer can be sent now.
    pub fn take_all(&mut self, id: ViewerId<u8>) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let bytes = self.take(id, usize::MAX);
            if bytes.is_empty() {
                return all;
            }
            all.extend(bytes);
        }
    }

    pub fn figures(&self, id: ViewerId<u8>) -> ViewerFigures<u8> {
        self.stream
            .viewer_figures(id, Instant::START)
            .expect("it is there")
    }
}

/// Returns the part of `all` from this byte on.
fn is_rest_of(all: &[u8], from: usize, got: &[u8]) -> bool {
    all[from..] == *got
}

/// A viewer that falls out within a unit gets the rest of the unit, and then a key frame. It gets
/// no header, because it read the header with the stream.
#[test]
fn a_viewer_that_falls_out_within_a_unit_gets_its_rest() {
    let mut stage = Stage::new();
    let viewer = stage.stream.join(1, Instant::START);
    stage.send(&picture(false, 10_000));
    stage.send(&picture(false, 10_000));
    let got = stage.take(viewer, 15_000);
    assert!(got == stage.all[..15_000]);
    assert_eq!(stage.stream.cursor(viewer), Some(15_000));
    stage.stream.end_turn(viewer, Outcome::Blocked);
    stage.send_groups(4);
    let newest_key = stage.all.len() - 50_000;
    assert_eq!(
        stage.stream.supply(viewer, 0),
        Supply::Bytes(20_013 - 15_000)
    );
    assert_eq!(
        (stage.stream.cursor(viewer), stage.stream.figures().skips),
        (None, 1)
    );
    assert_eq!(stage.figures(viewer).skips, 1);
    // The viewer takes a part of the rest first. Nothing else comes in the middle of the rest.
    assert!(stage.take(viewer, 3_000) == stage.all[15_000..18_000]);
    assert_eq!(stage.stream.supply(viewer, 0), Supply::Bytes(2_013));
    assert!(stage.take(viewer, 2_013) == stage.all[18_000..20_013]);
    assert_eq!(stage.stream.supply(viewer, 0), Supply::Bytes(50_000));
    assert_eq!(stage.stream.cursor(viewer), Some(newest_key as u64));
    let got = stage.take_all(viewer);
    assert!(is_rest_of(&stage.all, newest_key, &got));
    assert_eq!(stage.stream.supply(viewer, 0), Supply::UpToDate);
    let sent = 15_000 + 5_013 + 50_000;
    assert_eq!(
        (
            stage.figures(viewer).bytes_sent,
            stage.stream.figures().bytes_sent
        ),
        (sent, sent)
    );
    assert_eq!(stage.stream.take_cut(), None);
}

/// A viewer that leaves with the rest of a unit frees it.
#[test]
fn a_viewer_that_leaves_within_a_rest_frees_it() {
    let mut stage = Stage::new();
    let viewers: Vec<_> = (0..3)
        .map(|number| stage.stream.join(number, Instant::START))
        .collect();
    stage.send(&picture(false, 10_000));
    for viewer in &viewers {
        stage.take(*viewer, 5_000);
        stage.stream.end_turn(*viewer, Outcome::Blocked);
    }
    stage.send_groups(3);
    assert_eq!(stage.stream.unit_tail_bytes, 3 * 5_013);
    assert_eq!(stage.stream.viewer_count(), 3);
    for (left, viewer) in viewers.into_iter().enumerate() {
        stage.stream.leave(viewer);
        stage.stream.check();
        assert_eq!(stage.stream.unit_tail_bytes, (2 - left) * 5_013);
    }
    assert_eq!(stage.stream.viewer_count(), 0);
    assert_eq!(stage.stream.pool_bytes(), 64 * 1024);
}

/// The rests of units take at most the size of the buffer. Further viewers are disconnected.
#[test]
fn rests_are_bounded_and_further_viewers_are_disconnected() {
    let mut stage = Stage::new();
    let viewers: Vec<_> = (0..10)
        .map(|number| stage.stream.join(number, Instant::START))
        .collect();
    stage.send(&picture(false, 20_000));
    for viewer in viewers {
        stage.take(viewer, 4_000);
        stage.stream.end_turn(viewer, Outcome::Blocked);
    }
    stage.send_groups(3);
    // Four rests of 16,013 bytes fit into 65,536 bytes.
    assert_eq!(stage.stream.unit_tail_bytes, 4 * 16_013);
    let cut: Vec<u8> = std::iter::from_fn(|| stage.stream.take_cut()).collect();
    assert_eq!(cut.len(), 6);
}

/// A rest that fills the bound to the last byte is kept.
#[test]
fn a_rest_may_fill_the_bound() {
    for (left, is_kept) in [(9_000, true), (8_999, false), (0, false)] {
        let mut stage = Stage::new();
        let viewer = stage.stream.join(1, Instant::START);
        let unit = picture(false, 10_000);
        stage.send(&unit);
        stage.take(viewer, 1_013);
        stage.stream.end_turn(viewer, Outcome::Blocked);
        // Other viewers hold the rest of the bound.
        stage.stream.unit_tail_bytes = 64 * 1024 - left;
        for _ in 0..7 {
            stage.stream.append(&unit, &mut stage.pool, Instant::START);
        }
        assert_eq!(stage.stream.take_cut(), (!is_kept).then_some(1), "{left}");
        let kept = if is_kept { 9_000 } else { 0 };
        assert_eq!(
            stage.stream.unit_tail_bytes,
            64 * 1024 - left + kept,
            "{left}"
        );
    }
}

/// A viewer that was sent nothing begins again with the header. A viewer that was sent a part of
/// the head gets the rest of the head first.
#[test]
fn a_viewer_that_was_sent_nothing_begins_with_the_header() {
    for had in [0, 5, 13, 14] {
        let mut stage = Stage::new();
        let viewer = stage.stream.join(1, Instant::START);
        stage.take(viewer, had);
        stage.send(&picture(false, 10_000));
        stage.take(viewer, had.saturating_sub(13));
        stage.stream.end_turn(viewer, Outcome::Blocked);
        stage.send_groups(4);
        let newest_key = stage.all.len() - 50_000;
        let got = stage.take_all(viewer);
        let rest = match had {
            // The whole header.
            0 => 0..13,
            5 => 5..13,
            13 => 0..0,
            _ => 14..10_013,
        };
        assert!(got[..rest.len()] == stage.all[rest.clone()], "{had}");
        assert!(
            is_rest_of(&stage.all, newest_key, &got[rest.len()..]),
            "{had}"
        );
        assert_eq!(stage.figures(viewer).skips, 1);
    }
}

/// A late viewer got the header, and does not get it again. A viewer with a part of the header gets
/// the rest. A viewer without any of it gets the whole header, once.
#[test]
fn a_viewer_that_falls_out_within_the_header_gets_it_once() {
    for had in [0, 5, 13, 13 + 10_000, 13 + 10_007] {
        let mut stage = Stage::new();
        stage.send_groups(1);
        let viewer = stage.stream.join(1, Instant::START);
        assert_eq!(stage.stream.cursor(viewer), None);
        assert_eq!(stage.stream.supply(viewer, 0), Supply::Bytes(13 + 50_000));
        let mut got = stage.take(viewer, had);
        stage.stream.end_turn(viewer, Outcome::Blocked);
        stage.send_groups(4);
        got.extend(stage.take_all(viewer));
        let newest_key = stage.all.len() - 50_000;
        let before = if had > 13 {
            (had - 13usize).next_multiple_of(10_000)
        } else {
            0
        };
        assert!(got[..13] == *HEAD, "{had}");
        assert!(got[13..13 + before] == stage.all[13..13 + before], "{had}");
        assert!(
            is_rest_of(&stage.all, newest_key, &got[13 + before..]),
            "{had}"
        );
        assert_eq!(stage.stream.take_cut(), None);
    }
}

/// A turn in which nothing was sent does not count: the header is still chosen again.
#[test]
fn an_empty_turn_does_not_begin_a_header() {
    let mut stage = Stage::new();
    stage.send_groups(1);
    let viewer = stage.stream.join(1, Instant::START);
    stage.stream.advance(viewer, 0);
    stage.stream.end_turn(viewer, Outcome::Blocked);
    let metadata = [
        &[18, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0][..],
        b"\x02\0\x0aonMetaData",
    ]
    .concat();
    stage.send(&[&metadata[..], &[7; 87], &[0; 4]].concat());
    stage.send_groups(4);
    let got = stage.take_all(viewer);
    assert!(got.starts_with(&[HEAD, &metadata].concat()));
    assert_eq!(stage.stream.take_cut(), None);
}

/// A viewer that has all bytes that are about to be overwritten keeps its cursor, to the byte. So
/// does a viewer in the index that has caught up since.
#[test]
fn a_viewer_ahead_of_the_overwritten_bytes_keeps_its_cursor() {
    for (had, falls) in [
        (4_095, true),
        (4_096, false),
        (4_097, false),
        (30_000, false),
    ] {
        let mut stage = Stage::new();
        let viewer = stage.stream.join(1, Instant::START);
        stage.send(&picture(false, 65_536 - 13));
        assert_eq!(stage.stream.filled_bytes(), 65_536);
        // The viewer lags from the first byte on.
        stage.stream.end_turn(viewer, Outcome::Blocked);
        stage.take(viewer, had);
        stage.stream.end_turn(viewer, Outcome::Open);
        stage.send(&picture(false, 4_096));
        assert_eq!(stage.stream.figures().skips, u64::from(falls), "{had}");
        let cursor = (!falls).then_some(had as u64);
        assert_eq!(stage.stream.cursor(viewer), cursor, "{had}");
        let got = stage.take_all(viewer);
        assert!(falls || is_rest_of(&stage.all, had, &got));
    }
}

/// More bytes come than the buffer holds, and no viewer has a turn: ready viewers fall out, too.
#[test]
fn a_ready_viewer_without_a_turn_falls_out() {
    let mut stage = Stage::new();
    let early = stage.stream.join(1, Instant::START);
    stage.take_all(early);
    stage.stream.next_ready();
    stage.stream.end_turn(early, Outcome::Open);
    assert!(!stage.stream.has_ready());
    stage.send(&picture(false, 9_000));
    assert!(stage.stream.has_ready());
    // This viewer joins at the first byte, and is not served.
    let late = stage.stream.join(2, Instant::START);
    assert_eq!(stage.stream.cursor(late), Some(0));
    stage.send(&picture(false, 9_000));
    for sent in 0..12 {
        let skips = stage.stream.figures().skips;
        assert!(skips == 0 || sent > 5, "{sent}");
        stage.send(&picture(sent == 11, 9_000));
    }
    assert_eq!(stage.stream.figures().skips, 2);
    let served: Vec<_> = std::iter::from_fn(|| stage.stream.next_ready()).collect();
    let mut served: Vec<u8> = served
        .into_iter()
        .map(|(_, connection)| connection)
        .collect();
    served.sort();
    assert_eq!(served, [1, 2]);
    // One viewer was between two units and had the header, the other was sent nothing.
    assert_eq!(stage.stream.supply(early, 0), Supply::Bytes(9_000));
    assert_eq!(stage.stream.supply(late, 0), Supply::Bytes(13 + 9_000));
}

/// A viewer that joins while all others are up to date is found when its bytes are overwritten.
#[test]
fn a_viewer_that_joins_when_nobody_lags_falls_out_too() {
    let mut stage = Stage::new();
    stage.send(&picture(false, 9_000));
    stage.send(&picture(false, 9_000));
    let viewer = stage.stream.join(1, Instant::START);
    assert_eq!(stage.stream.cursor(viewer), Some(0));
    while stage.all.len() < 70_000 {
        stage.send(&picture(false, 9_000));
    }
    assert_eq!(stage.figures(viewer).skips, 1);
}

/// No rest is kept of an unknown format. A viewer that falls out continues with the newest piece.
#[test]
fn no_rest_is_kept_of_an_unknown_format() {
    let mut pool = Pool::new(1 << 20);
    let mut stream = stream(64 * 1024);
    let viewer = stream.join(1, Instant::START);
    stream.append(&media(8 * 1024), &mut pool, Instant::START);
    stream.advance(viewer, 100);
    stream.end_turn(viewer, Outcome::Blocked);
    for _ in 0..20 {
        stream.append(&media(8 * 1024), &mut pool, Instant::START);
        stream.check();
    }
    assert_eq!((stream.take_cut(), stream.unit_tail_bytes), (None, 0));
    assert_eq!(stream.supply(viewer, 0), Supply::Bytes(8 * 1024));
}

/// In an ended stream a viewer continues early enough to get the promised bytes: at a join point
/// that is far enough back, or else at a unit.
#[test]
fn promised_bytes_are_there_when_the_stream_has_ended() {
    // Key frames are 70,000 and 20,000 bytes before the end. Unit boundaries are 40 bytes in front
    // of them.
    let tail = |from_key: &[usize]| -> Vec<u8> {
        let tags = from_key
            .iter()
            .map(|bytes| picture(*bytes % 2 == 1, *bytes));
        tags.collect::<Vec<_>>().concat()
    };
    for (owed, has_ended, back) in [
        (0, false, 20_001),
        (0, true, 20_001),
        (20_000, true, 20_001),
        (20_001, true, 20_001),
        // No join point is far enough back, but a unit is.
        (20_002, true, 20_041),
        (20_041, true, 20_041),
        (20_042, true, 30_041),
        // More bytes will come.
        (20_042, false, 20_001),
    ] {
        let mut stage = Stage::new();
        let viewer = stage.stream.join(1, Instant::START);
        stage.send(&picture(false, 10_000));
        stage.stream.end_turn(viewer, Outcome::Blocked);
        for _ in 0..5 {
            stage.send(&picture(false, 10_000));
        }
        stage.send(&tail(&[10_000, 10_000, 40, 10_001, 10_000]));
        assert_eq!(stage.stream.joins(), 1);
        assert_eq!(stage.figures(viewer).skips, 1);
        if has_ended {
            stage.stream.finish(End::Complete);
        }
        stage.stream.supply(viewer, owed);
        assert_eq!(
            stage.figures(viewer).behind_bytes,
            back,
            "{owed}, {has_ended}"
        );
        let got = stage.take_all(viewer);
        let end = if has_ended {
            Supply::Ended(End::Complete)
        } else {
            Supply::UpToDate
        };
        assert_eq!(stage.stream.supply(viewer, 0), end);
        let from = stage.all.len() - back as usize;
        assert!(
            is_rest_of(&stage.all, from, &got[13..]),
            "{owed}, {has_ended}"
        );
    }
}

/// A viewer that fell out waits for the next join point.
#[test]
fn a_viewer_that_fell_out_waits_for_a_join_point() {
    let mut stage = Stage::new();
    let viewer = stage.stream.join(1, Instant::START);
    stage.send(&picture(false, 20_000));
    stage.take(viewer, 10_000);
    stage.stream.end_turn(viewer, Outcome::Blocked);
    stage.send(&picture(false, 5_000));
    // A unit that is larger than the buffer.
    let large = picture(false, 200_000);
    stage.send(&large[..150_000]);
    assert!(stage.take(viewer, 20_000) == stage.all[10_000..20_013]);
    assert_eq!(stage.stream.supply(viewer, 0), Supply::UpToDate);
    assert_eq!(
        (
            stage.stream.cursor(viewer),
            stage.figures(viewer).behind_bytes > 60_000
        ),
        (None, true)
    );
    stage.stream.end_turn(viewer, Outcome::Open);
    stage.send(&large[150_000..]);
    stage.send(&picture(true, 7_000));
    assert_eq!(stage.stream.supply(viewer, 0), Supply::Bytes(7_000));
}

/// A new viewer begins at the first byte while the stream is short and has no join point. Otherwise
/// it begins with the header at the newest join point, or at the newest unit.
#[test]
fn where_a_viewer_begins() {
    // Bytes of pictures, whether the last one is a key frame, and how far back the viewer begins
    // (`None`: at the first byte).
    for (pictures, has_key, back) in [
        (&[][..], false, None),
        (&[5_000][..], false, None),
        (&[5_000, 7_000], true, Some(7_000)),
        (&[500_000, 500_000, 48_563], false, None),
        (&[500_000, 500_000, 48_564], false, Some(48_564)),
        (&[500_000, 500_000, 400_000], true, Some(400_000)),
    ] {
        let mut stage = Stage::new();
        stage.stream = stream(4 << 20);
        stage.pool = Pool::new(8 << 20);
        stage.all.clear();
        stage.send(HEAD);
        for (index, bytes) in pictures.iter().enumerate() {
            stage.send(&picture(has_key && index + 1 == pictures.len(), *bytes));
        }
        let viewer = stage.stream.join(1, Instant::START);
        let from = back.map_or(0, |back: usize| stage.all.len() - back);
        let lead = if back.is_some() { HEAD } else { b"" };
        let (opening, offset) = stage.stream.opening(Instant::START);
        assert!(opening == lead && offset == from as u64, "{pictures:?}");
        let got = stage.take_all(viewer);
        assert!(got.starts_with(lead), "{pictures:?}");
        assert!(
            is_rest_of(&stage.all, from, &got[lead.len()..]),
            "{pictures:?}"
        );
    }
    // While the format is undecided, a viewer begins at the first byte. In the smallest buffer it
    // begins at none.
    for (bytes, begins) in [
        (5, 0),
        (4_096, 0),
        (8_192, 0),
        (8_193, 8_193),
        (11_000, 11_000),
    ] {
        let mut stream = stream(1);
        let mut pool = Pool::new(1 << 20);
        stream.append(&vec![0; bytes], &mut pool, Instant::START);
        assert_eq!(stream.detected(), Detected::Undecided);
        let viewer = stream.join(1, Instant::START);
        assert_eq!(stream.cursor(viewer), Some(begins), "{bytes}");
        stream.check();
    }
    // MPEG-TS without tables yet: the viewer begins at the first byte.
    let mut stream = stream(4 << 20);
    let mut pool = Pool::new(8 << 20);
    let mut packet = [0xff; 188];
    packet[..4].copy_from_slice(&[0x47, 0x1f, 0xff, 0x10]);
    stream.append(&packet.repeat(10_000), &mut pool, Instant::START);
    assert!(matches!(stream.detected(), Detected::Known(Format::MpegTs)));
    let viewer = stream.join(1, Instant::START);
    assert_eq!(stream.cursor(viewer), Some(0));
}

/// A viewer's distance is given in bytes and in the time since its next byte arrived. A viewer that
/// fell out is behind by the whole buffer.
#[test]
fn how_far_behind_a_viewer_is() {
    let at = |second| Instant::after_start(Duration::from_secs(second));
    let mut pool = Pool::new(1 << 20);
    let mut stream = stream(64 * 1024);
    let viewer = stream.join(1, at(0));
    for second in 0..16 {
        stream.append(&media(4_096), &mut pool, at(second));
    }
    for (sent, bytes, seconds) in [
        (0, 65_536, 20),
        (1, 65_535, 20),
        (4_095, 61_440, 19),
        (4_096 * 13 + 4_095, 4_097, 6),
        (1, 4_096, 5),
        (4_095, 1, 5),
        (1, 0, 0),
    ] {
        stream.advance(viewer, sent);
        let behind = stream.lag_of(viewer, at(20));
        // The time is that of the block with the viewer's next byte.
        assert_eq!(behind, (bytes, Duration::from_secs(seconds)), "{bytes}");
    }
    // A viewer that has all of a block that is not full is not behind, either.
    stream.append(&media(10), &mut pool, at(18));
    stream.advance(viewer, 10);
    assert_eq!(stream.lag_of(viewer, at(20)), (0, Duration::ZERO));
    let other = stream.join_range(2, (0, 100), Vec::new().into(), at(20));
    stream.append(&media(4_086), &mut pool, at(21));
    stream.append(&media(4_096), &mut pool, at(21));
    let seen = stream.viewer_figures(other, at(30)).expect("it is there");
    assert_eq!((seen.behind_bytes, seen.behind_ms), (65_536, 28_000));
}

/// A viewer of a segment gets the prefix and the segment, and no more. If the bytes are
/// overwritten, it is disconnected.
#[test]
fn a_viewer_of_a_segment_gets_that_and_no_more() {
    let mut stage = Stage::new();
    stage.send_groups(1);
    let lead: std::rc::Rc<Vec<u8>> = vec![7; 100].into();
    let range = (10_013, 20_013);
    let viewer = stage
        .stream
        .join_range(1, range, lead.clone(), Instant::START);
    let other = stage
        .stream
        .join_range(2, range, lead.clone(), Instant::START);
    let third = stage
        .stream
        .join_range(3, range, lead.clone(), Instant::START);
    assert_eq!(stage.figures(viewer).extent, Extent::Segment);
    stage.stream.check();
    // The prefix outlives the segment. It is counted for each viewer.
    assert_eq!(stage.stream.supply(viewer, 0), Supply::Bytes(10_100));
    let mut got = stage.take(viewer, 60);
    got.extend(stage.take_all(viewer));
    assert!(got[..100] == lead[..] && got[100..] == stage.all[10_013..20_013]);
    assert_eq!(stage.stream.supply(viewer, 0), Supply::Ended(End::Complete));
    for gone in [viewer, third] {
        stage.stream.leave(gone);
        stage.stream.check();
    }
    stage.stream.end_turn(other, Outcome::Blocked);
    stage.send_groups(2);
    assert_eq!(stage.stream.supply(other, 0), Supply::Ended(End::Lost));
    assert_eq!(
        (stage.stream.take_cut(), stage.stream.take_cut()),
        (Some(2), None)
    );
    // A viewer that began with the bytes that were there.
    let oldest = stage.stream.newest() - stage.stream.filled_bytes() as u64;
    let late = stage
        .stream
        .join_range(4, (0, oldest + 10), lead, Instant::START);
    assert_eq!(stage.stream.supply(late, 0), Supply::Bytes(110));
}

/// Each warning is given once.
#[test]
fn each_warning_is_given_once() {
    let notices = |stage: &mut Stage| -> Vec<Notice> {
        std::iter::from_fn(|| stage.stream.take_notice())
            .take(9)
            .collect()
    };
    // As many bytes as the buffer keeps, and one more.
    let mut stage = Stage::new();
    stage.send(&picture(false, 65_536 - 13 - 100));
    stage.send(&picture(false, 100));
    let reason = "nothing has come at which decoding can begin";
    assert_eq!(stage.stream.no_joins_reason(), Some(reason));
    assert_eq!(notices(&mut stage), []);
    stage.send(&picture(false, 100));
    assert_eq!(notices(&mut stage), [Notice::NoJoin]);
    stage.send(&picture(false, 100));
    assert_eq!((notices(&mut stage), stage.stream.joins()), (vec![], 0));
    // Join points came, and are overwritten.
    let mut stage = Stage::new();
    stage.send_groups(2);
    assert_eq!(notices(&mut stage), []);
    assert_eq!(
        (stage.stream.joins(), stage.stream.no_joins_reason()),
        (1, None)
    );
    stage.send(&picture(true, 100_000));
    assert_eq!(notices(&mut stage), [Notice::LargeGroup]);
    let reason = "its group of pictures is larger than the buffer";
    assert_eq!(stage.stream.no_joins_reason(), Some(reason));
    stage.send_groups(1);
    stage.send(&picture(true, 100_000));
    assert_eq!(notices(&mut stage), []);
    // The stream does not continue as FLV: its metadata are larger than the reader's bound.
    stage.send(
        &[
            &[18, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0][..],
            b"\x02\0\x0aonMetaData",
        ]
        .concat(),
    );
    assert_eq!(notices(&mut stage), [Notice::LetGo(Format::Flv)]);
    let reason = "not a format that can be joined";
    assert_eq!(stage.stream.no_joins_reason(), Some(reason));
    assert_eq!(stage.stream.media_type(), Some(Format::Flv.media_type()));
    stage.send(&[0; 100]);
    assert_eq!(notices(&mut stage), []);
    // Text shows no format, so there is no warning.
    let mut stage = Stage::new();
    stage.stream = stream(64 * 1024);
    let reason = "too few bytes to tell the format";
    assert_eq!(stage.stream.no_joins_reason(), Some(reason));
    for _ in 0..20 {
        stage.send(&media(8 * 1024));
    }
    assert_eq!((notices(&mut stage), stage.stream.joins()), (vec![], 0));
}

/// MP4 whose fragments have positions from the file's first byte gives a warning.
#[test]
fn positions_from_the_first_byte_give_a_warning() {
    let of = |kind: &[u8], content: &[u8]| -> Vec<u8> {
        let length = (content.len() as u32 + 8).to_be_bytes();
        [&length, kind, content].concat()
    };
    let moov = of(b"moov", &of(b"mvex", &[]));
    let fragment = |is_absolute: bool| -> Vec<u8> {
        let offset: &[u8] = if is_absolute { &[0; 8] } else { &[] };
        let flags = [0, 0, 0, u8::from(is_absolute), 0, 0, 0, 1];
        let tfhd = of(b"tfhd", &[&flags, offset].concat());
        let run = of(b"trun", &[0, 0, 0, 0, 0, 0, 0, 1]);
        let traf = of(b"traf", &[tfhd, run].concat());
        [of(b"moof", &traf), of(b"mdat", &[7; 5_000])].concat()
    };
    let head = [of(b"ftyp", b"isom\0\0\0\0iso6"), moov].concat();
    let mut stage = Stage::new();
    stage.stream = stream(64 * 1024);
    stage.send(&[&head[..], &fragment(false)].concat());
    assert_eq!(
        (stage.stream.take_notice(), stage.stream.joins()),
        (None, 1)
    );
    assert_eq!(stage.stream.no_joins_reason(), None);
    stage.stream = stream(64 * 1024);
    stage.send(&[&head[..], &fragment(true)].concat());
    let reason = stage.stream.no_joins_reason().unwrap_or_default();
    assert!(reason.contains("default_base_moof"), "{reason}");
    assert_eq!(stage.stream.take_notice(), Some(Notice::NeedsFirstByte));
    assert_eq!(stage.stream.take_notice(), None);
    for _ in 0..40 {
        stage.send(&fragment(true));
        assert_eq!(stage.stream.take_notice(), None);
    }
}

/// The bit rate counts all bytes of the source, also those that no viewer can use.
#[test]
fn the_bit_rate_counts_all_bytes_of_the_source() {
    let mut stream = stream(64 * 1024);
    stream.count(1_000, Instant::after_start(Duration::from_secs(1)));
    stream.count(500, Instant::after_start(Duration::from_secs(2)));
    let now = Instant::after_start(Duration::from_secs(4));
    assert_eq!(stream.bit_rate(now), 1_500 * 8 / 4);
    assert_eq!(stream.figures().bytes_received, 1_500);
}

/// A slow server reads no more from a source than its viewers can be sent. It is slow when ready
/// viewers have half of the buffer to get.
#[test]
fn a_source_waits_for_viewers_whose_sockets_are_open() {
    let half = 15 * 4_096 / 2;
    for (behind, wanted) in [(half - 1, half), (half, 0), (half + 1, 0)] {
        let mut pool = Pool::new(1 << 20);
        let mut stream = stream(64 * 1024);
        let viewer = stream.join(1, Instant::START);
        stream.append(&media(40_000), &mut pool, Instant::START);
        stream.next_ready();
        stream.advance(viewer, 40_000);
        stream.end_turn(viewer, Outcome::Open);
        assert_eq!(stream.wanted_bytes(&pool), half);
        stream.append(&media(behind), &mut pool, Instant::START);
        assert_eq!(stream.wanted_bytes(&pool), wanted, "{behind}");
        // The source does not wait for a blocked viewer.
        stream.next_ready();
        stream.end_turn(viewer, Outcome::Blocked);
        assert_eq!(stream.wanted_bytes(&pool), half, "{behind}");
    }
}
