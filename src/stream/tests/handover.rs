//! The hand-over of a stream: the successor trusts no received value.

use std::rc::Rc;

use super::falling::{HEAD, Stage, picture};
use super::viewer::LeadBytes;
use super::*;
use crate::format::{Finding, HEADER_BYTES_MAX};
use crate::handover::HandoverError;

type Viewers = Vec<(ViewerId<u8>, Viewer<u8>)>;

/// What is known of the others of a stage's viewers: their places in `viewers`.
const REST: usize = 0;
const HEAD_ONLY: usize = 1;
const SEGMENT: usize = 2;
const PLAIN: usize = 3;

/// A stream with a viewer of each kind: one with the rest of a unit, one within the header, one of
/// a segment, and one that has begun.
fn stage() -> (Stage, Vec<ViewerId<u8>>) {
    let mut stage = Stage::new();
    let mut ids = vec![stage.stream.join(0, Instant::START)];
    stage.send(&picture(false, 10_000));
    stage.take(ids[REST], 5_000);
    stage.stream.end_turn(ids[REST], Outcome::Blocked);
    stage.send_groups(3);
    ids.push(stage.stream.join(1, Instant::START));
    let newest = stage.stream.newest();
    let range = (newest - 20_000, newest - 10_000);
    let lead = Rc::new(vec![7; 100]);
    ids.push(stage.stream.join_range(2, range, lead, Instant::START));
    ids.push(stage.stream.join(3, Instant::START));
    for (id, bytes) in ids[1..].iter().zip([5, 50, 2_000]) {
        stage.take(*id, bytes);
        stage.stream.end_turn(*id, Outcome::Blocked);
    }
    assert_eq!(stage.stream.take_cut(), None);
    (stage, ids)
}

/// Returns the stream in another process that received this state.
fn told(
    of: &Stage,
    limits: &Limits,
    tell: impl FnOnce(&mut StreamBuffer<u8>, &mut Viewers),
) -> Result<Stage, HandoverError> {
    fn again<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
        let text = serde_json::to_string(value).expect("JSON");
        serde_json::from_str(&text).expect("the same again")
    }
    let mut stream: StreamBuffer<u8> = again(&of.stream);
    let viewers = of.stream.viewers();
    let with_header = |(id, viewer): (ViewerId<u8>, &Viewer<u8>)| {
        let mut copy: Viewer<u8> = again(viewer);
        let header = viewer.header().map(|header| Rc::new(header.to_vec()));
        header
            .into_iter()
            .for_each(|header| copy.set_header(header));
        (id, copy)
    };
    let mut viewers: Viewers = viewers.map(with_header).collect();
    let mut pool = Pool::new(1 << 20);
    let mut received = Received::new(limits);
    let (mut at, newest) = (of.stream.oldest(), of.stream.newest());
    while at < newest {
        let slice = of.stream.slice(at, usize::MAX);
        received.take(at, slice, &mut pool)?;
        at += slice.len() as u64;
    }
    tell(&mut stream, &mut viewers);
    stream.become_whole(received, viewers, (limits, 100), &mut pool)?;
    stream.restore()?;
    stream.check();
    let all = of.all.clone();
    Ok(Stage { stream, pool, all })
}

/// Each viewer continues after its last byte, and later viewers can join.
#[test]
fn a_stream_goes_on_with_its_viewers() {
    let (mut first, ids) = stage();
    let mut second = told(&first, &first.stream.limits.clone(), |_, _| {}).expect("it fits");
    assert_eq!(second.stream.viewer_count(), 4);
    assert_eq!(second.stream.unit_tail_bytes, first.stream.unit_tail_bytes);
    assert_eq!(second.stream.granted_bytes(), 5 * 4_096);
    for blocked in [HEAD_ONLY, PLAIN] {
        second.stream.set_blocked(ids[blocked]);
    }
    // The others have a turn, in which each learns how it stands.
    let ready: Vec<u8> = std::iter::from_fn(|| second.stream.next_ready())
        .map(|(_, connection)| connection)
        .collect();
    assert_eq!(ready, [REST as u8, SEGMENT as u8]);
    for bytes in [10, 5_000, usize::MAX] {
        for id in &ids {
            let expected = first.take(*id, bytes);
            assert!(second.take(*id, bytes) == expected, "{id:?}, {bytes}");
            assert_eq!(second.stream.supply(*id, 0), first.stream.supply(*id, 0));
        }
    }
    let late = first.stream.join(9, Instant::START);
    assert_eq!(late, second.stream.join(9, Instant::START));
    for stage in [&mut first, &mut second] {
        stage.send(&picture(true, 9_000));
    }
    for id in ids.iter().chain([&late]) {
        assert!(second.take_all(*id) == first.take_all(*id), "{id:?}");
        assert_eq!(
            second.figures(*id).bytes_sent,
            first.figures(*id).bytes_sent
        );
    }
    let (first, second) = (first.stream.figures(), second.stream.figures());
    assert_eq!(
        (second.bytes_sent, second.skips),
        (first.bytes_sent, first.skips)
    );
}

/// Bytes are kept back for a viewer when another process takes over. Its source is not read on as if
/// the viewer had them.
#[test]
fn bytes_that_were_kept_back_are_not_overwritten_in_another_process() {
    let mut stage = Stage::new();
    let behind = stage.stream.join(0, Instant::START);
    let waits = stage.stream.join(1, Instant::START);
    stage.send(&picture(true, 30_000));
    let mut got = stage.take_all(waits);
    stage.stream.end_turn(waits, Outcome::Open);
    stage.take(behind, 1);
    stage.stream.end_turn(behind, Outcome::Open);
    let mut media = (0..20).flat_map(|_| picture(false, 5_000));
    let kept: Vec<u8> = media.by_ref().take(40_000).collect();
    stage
        .stream
        .append_without_wake(&kept, &mut stage.pool, Instant::START);
    stage.all.extend(kept);
    stage.stream.check();
    let mut second = told(&stage, &stage.stream.limits.clone(), |_, _| {}).expect("it fits");
    loop {
        let wanted = second.stream.wanted_bytes(&second.pool);
        let piece: Vec<u8> = media.by_ref().take(wanted).collect();
        if piece.is_empty() {
            break;
        }
        second.send(&piece);
    }
    got.extend(second.take_all(waits));
    assert!(got == second.all && second.figures(waits).skips == 0);
}

/// Received values are accepted up to their bounds, and not beyond.
#[test]
fn what_is_told_of_a_stream_has_its_bounds() {
    type Detected = fn(&mut StreamBuffer<u8>, &mut Viewers);
    fn join(offset: u64) -> Finding {
        Finding::Join(Start::at(offset))
    }
    fn rest(bytes: usize) -> viewer::ViewerLead {
        viewer::ViewerLead::new(None, vec![1; bytes])
    }
    let cases: [(Detected, bool); 40] = [
        (|_, _| {}, true),
        (
            |stream, _| stream.unindexed_cursor_min = stream.newest(),
            true,
        ),
        (
            |stream, _| stream.unindexed_cursor_min = stream.newest() + 1,
            false,
        ),
        (|stream, _| stream.newest_piece = stream.newest(), true),
        (|stream, _| stream.newest_piece = stream.newest() + 1, false),
        (|stream, _| stream.seam = stream.newest(), true),
        (|stream, _| stream.seam = stream.newest() + 1, false),
        (|stream, _| stream.scanner = Scanner::default(), false),
        // Places to begin: in their order, and in the buffer.
        (
            |stream, _| stream.points.take(join(stream.newest()), Instant::START),
            true,
        ),
        (
            |stream, _| {
                stream
                    .points
                    .take(join(stream.newest() + 1), Instant::START)
            },
            false,
        ),
        (
            |stream, _| stream.points.take(join(stream.oldest()), Instant::START),
            false,
        ),
        (
            |stream, _| {
                stream.points.joins.clear();
                stream.points.take(join(stream.oldest()), Instant::START);
            },
            true,
        ),
        (
            |stream, _| {
                stream.points.joins.clear();
                stream
                    .points
                    .take(join(stream.oldest() - 1), Instant::START);
            },
            false,
        ),
        (
            |stream, _| stream.points.units.push_back(stream.newest()),
            true,
        ),
        (
            |stream, _| stream.points.units.push_back(stream.newest() + 1),
            false,
        ),
        (
            |stream, _| stream.points.units.push_back(stream.oldest()),
            false,
        ),
        (
            |stream, _| stream.points.units.push_front(stream.oldest()),
            true,
        ),
        (
            |stream, _| stream.points.units.push_front(stream.oldest() - 1),
            false,
        ),
        (
            |stream, _| stream.points.newest_unit = Some(Start::at(stream.newest())),
            true,
        ),
        (
            |stream, _| stream.points.newest_unit = Some(Start::at(stream.newest() + 1)),
            false,
        ),
        // Viewers: in the buffer, or out of it.
        (
            |stream, viewers| viewers[PLAIN].1.position = Position::At(stream.newest()),
            true,
        ),
        (
            |stream, viewers| viewers[PLAIN].1.position = Position::At(stream.newest() + 1),
            false,
        ),
        (
            |stream, viewers| {
                let viewer = &mut viewers[PLAIN].1;
                (viewer.position, viewer.index_key) = (Position::At(stream.oldest()), None);
            },
            true,
        ),
        (
            |stream, viewers| {
                let viewer = &mut viewers[PLAIN].1;
                (viewer.position, viewer.index_key) = (Position::At(stream.oldest() - 1), None);
            },
            false,
        ),
        (
            |stream, viewers| viewers[PLAIN].1.end = stream.oldest(),
            false,
        ),
        (
            |_, viewers| {
                let Position::At(cursor) = viewers[PLAIN].1.position else {
                    panic!("it stands there");
                };
                (viewers[PLAIN].1.end, viewers[PLAIN].1.index_key) = (cursor, Some(cursor));
            },
            true,
        ),
        (
            |_, viewers| {
                let Position::At(cursor) = viewers[PLAIN].1.position else {
                    panic!("it stands there");
                };
                viewers[PLAIN].1.index_key = Some(cursor + 1);
            },
            false,
        ),
        (|_, viewers| viewers[REST].1.index_key = Some(0), false),
        (|_, viewers| viewers[REST].1.end = 5, false),
        (
            |_, viewers| {
                let viewer = &mut viewers[SEGMENT].1;
                viewer.position = Position::Fallen {
                    holds_unit_tail: false,
                };
                viewer.index_key = None;
            },
            true,
        ),
        (
            |_, viewers| {
                let viewer = &mut viewers[SEGMENT].1;
                viewer.position = Position::Fallen {
                    holds_unit_tail: false,
                };
                viewer.index_key = Some(0);
            },
            false,
        ),
        (
            |_, viewers| {
                let viewer = &mut viewers[SEGMENT].1;
                viewer.position = Position::Fallen {
                    holds_unit_tail: true,
                };
                viewer.index_key = None;
            },
            false,
        ),
        // The viewers' leads.
        (
            |_, viewers| front(viewers, HEAD_ONLY).sent = HEAD.len(),
            true,
        ),
        (
            |_, viewers| front(viewers, HEAD_ONLY).sent = HEAD.len() + 1,
            false,
        ),
        (|_, viewers| front(viewers, REST).sent = 5_013, true),
        (|_, viewers| front(viewers, REST).sent = 5_014, false),
        (|_, viewers| viewers[REST].1.lead = rest(64 * 1024), true),
        (
            |_, viewers| viewers[REST].1.lead = rest(64 * 1024 + 1),
            false,
        ),
        // Two in one place, and one where none may be.
        (|_, viewers| viewers[1].0 = viewers[0].0, false),
        (|stream, _| stream.limits = Limits::default(), true),
    ];
    let (stage, _) = stage();
    for (index, (tell, fits)) in cases.into_iter().enumerate() {
        let told = told(&stage, &stage.stream.limits.clone(), tell);
        assert_eq!(told.is_ok(), fits, "{index}: {:?}", told.err());
    }
}

fn front(viewers: &mut Viewers, place: usize) -> &mut LeadBytes {
    viewers[place].1.lead.0.as_deref_mut().expect("a lead")
}

/// Viewers within a header share it again. Replaced versions keep their bound.
#[test]
fn headers_are_shared_again() {
    let old = |number: u8| vec![number; 50];
    for (olds, fits) in [
        (&[][..], true),
        (&[1], true),
        (&[1, 1, 1, 1], true),
        (&[1, 2, 1, 2], true),
        (&[1, 2, 3], false),
    ] {
        let (mut stage, mut ids) = stage();
        ids.extend(
            olds.iter()
                .map(|number| stage.stream.join(10 + number, Instant::START)),
        );
        ids.push(stage.stream.join(4, Instant::START));
        let told = told(&stage, &stage.stream.limits.clone(), |_, viewers| {
            for (place, number) in olds.iter().enumerate() {
                front(viewers, 4 + place).header = Some(Rc::new(old(*number)));
            }
        });
        assert_eq!(told.is_ok(), fits, "{olds:?}: {:?}", told.as_ref().err());
        let Ok(mut told) = told else { continue };
        let header = |place: usize| {
            let viewer = told.stream.viewers.get(ids[place]).expect("a viewer");
            viewer
                .lead
                .0
                .as_deref()
                .and_then(|front| front.header.clone())
        };
        let current = [header(HEAD_ONLY), header(4 + olds.len())].map(|one| one.expect("a header"));
        assert!(Rc::ptr_eq(&current[0], &current[1]) && *current[0] == HEAD);
        for (place, number) in olds.iter().enumerate() {
            let one = header(4 + place).expect("a header");
            assert_eq!(*one, old(*number));
            let same = olds.iter().position(|other| other == number);
            let first = same.and_then(|same| header(4 + same)).expect("a header");
            assert!(Rc::ptr_eq(&first, &one));
        }
        // Of a segment it is its own.
        let of_segment = header(SEGMENT).expect("what stands in front");
        assert_eq!(*of_segment, [7; 100]);
        let late = told.stream.join(5, Instant::START);
        let viewer = told.stream.viewers.get(late).expect("a viewer");
        assert!(viewer.lead.holds(&current[0]));
    }
    // As long as a header may be.
    for (bytes, fits) in [(HEADER_BYTES_MAX, true), (HEADER_BYTES_MAX + 1, false)] {
        let (stage, _) = stage();
        let told = told(&stage, &stage.stream.limits.clone(), |_, viewers| {
            front(viewers, HEAD_ONLY).header = Some(Rc::new(vec![1; bytes]));
        });
        assert_eq!(told.is_ok(), fits, "{bytes}: {:?}", told.err());
    }
    // Each viewer of a segment has its own lead.
    let (mut stage, _) = stage();
    for number in 0..5 {
        let lead = Rc::new(vec![number; 30]);
        let newest = stage.stream.newest();
        stage
            .stream
            .join_range(number, (newest - 10, newest), lead, Instant::START);
    }
    let told = told(&stage, &stage.stream.limits.clone(), |_, _| {});
    assert!(told.is_ok());
}

/// The bytes of a stream that is not taken over are returned to the pool.
#[test]
fn what_is_not_wanted_goes_back_to_the_pool() {
    let (stage, _) = stage();
    let mut pool = Pool::new(1 << 20);
    let mut received = Received::new(&stage.stream.limits);
    let bytes = stage.stream.slice(stage.stream.oldest(), usize::MAX);
    received
        .take(stage.stream.oldest(), bytes, &mut pool)
        .expect("bytes");
    assert!(pool.bytes_left < 1 << 20);
    received.release(&mut pool);
    assert_eq!(pool.bytes_left, 1 << 20);
}

/// Segments are handed over, too. A long group gives one warning, and a seam between two sources
/// stays a seam.
#[cfg(feature = "hls")]
#[test]
fn what_is_cut_into_segments_goes_on() {
    let (mut stage, _) = stage();
    stage.stream.cut_into_segments(crate::hls::Plan {
        segment: Duration::from_secs(2),
        buffer_bytes: 1,
        tag: 7,
        started: Duration::from_secs(1_800_000_000),
        began: Instant::START,
        number_min: 0,
    });
    assert!(stage.stream.segments().is_some());
    let told = |stage: &Stage| serde_json::to_value(&stage.stream.cutter).expect("JSON");
    let at_first = told(&stage);
    // The buffer's size counts, not the one in the plan.
    assert_eq!(at_first["plan"]["buffer_bytes"], 64 * 1024);
    for (groups, is_long) in [(0, false), (1, true), (9, true)] {
        let mut cut = at_first.clone();
        cut["cuts_in_groups"] = groups.into();
        stage.stream.cutter = serde_json::from_value(cut).expect("a cutter");
        stage.stream.has_logged_long_group = false;
        let notice = is_long.then_some(Notice::LongGroup);
        assert_eq!(stage.stream.take_notice(), notice, "{groups}");
        assert_eq!(stage.stream.take_notice(), None, "{groups}");
    }
    let before = told(&stage);
    stage.stream.begin_seam();
    let behind = told(&stage);
    assert_eq!(
        (&before["is_broken"], &behind["is_broken"]),
        (&false.into(), &true.into())
    );
    for (number, fits) in [(0, true), (1, false)] {
        let told = self::told(&stage, &stage.stream.limits.clone(), |stream, _| {
            let mut cutter = serde_json::to_value(&stream.cutter).expect("JSON");
            cutter["plan"]["started"]["secs"] = (number + (1_u64 << 36)).into();
            stream.cutter = serde_json::from_value(cutter).expect("a cutter");
        });
        assert_eq!(told.is_ok(), fits, "{number}");
    }
    // A range that another process told may lie anywhere.
    let newest = stage.stream.newest();
    for range in [
        (newest + 9, newest + 5),
        (newest, newest - 9),
        (newest + 9, u64::MAX),
    ] {
        let viewer = stage
            .stream
            .join_range(9, range, Rc::default(), Instant::START);
        assert!(stage.take_all(viewer).is_empty(), "{range:?}");
        stage.stream.check();
    }
}

/// Each picture is a join point, and the sound comes up to a second after it: the units that wait lie
/// further back than some join points.
#[test]
fn a_remuxer_goes_back_for_join_points_and_for_some_time() {
    let head = b"FLV\x01\x01\0\0\0\x09\0\0\0\0";
    let key = [
        &[9, 0, 0x20, 0][..],
        &[0; 7],
        &[0x12; 0x2000],
        &[0, 0, 0x20, 11],
    ]
    .concat();
    let at = |frame: u64, apart: u64| Instant::after_start(Duration::from_millis(frame * apart));
    for (apart, frames_back) in [(40, 51), (400, 6), (900, 4), (3_000, 3)] {
        let (mut stream, mut pool) = (stream(2 << 20), Pool::new(1 << 22));
        stream.append(head, &mut pool, at(0, apart));
        for frame in 0..200 {
            stream.append(&key, &mut pool, at(frame, apart));
        }
        let newest = stream.newest();
        let (_, offset) = stream.opening_before((0, newest), at(200, apart));
        let back = (newest - offset).div_ceil(key.len() as u64);
        // Join points are at least 512 bytes apart.
        assert!(
            (frames_back..frames_back * 2 + 6).contains(&back),
            "{apart}: {back}"
        );
        // Not before it began.
        let began = newest - 2 * key.len() as u64;
        assert!(stream.opening_before((began, newest), at(200, apart)).1 >= began);
    }
}
