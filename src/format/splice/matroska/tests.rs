use super::super::super::matroska::TIMESTAMP_SCALE;
use super::super::super::window::Window;
use super::*;
use crate::format::splice::tests::cut;

/// An element with a size of two bytes.
fn element(id: u32, body: &[u8]) -> Vec<u8> {
    let id = id.to_be_bytes();
    let first = id.iter().position(|byte| *byte != 0).expect("no such id");
    let size = (body.len() as u16 | 0x4000).to_be_bytes();
    [&id[first..], &size, body].concat()
}

fn simple_block(track: u8, relative: i16, media: &[u8]) -> Vec<u8> {
    let [t0, t1] = relative.to_be_bytes();
    element(
        SIMPLE_BLOCK,
        &[&[0x80 | track, t0, t1, 0x80], media].concat(),
    )
}

/// A group. With more than one frame its block is laced.
fn group(relative: i16, frames: u8, duration: u16) -> Vec<u8> {
    let [t0, t1] = relative.to_be_bytes();
    let block = element(
        BLOCK,
        &[0x81, t0, t1, if frames > 1 { 2 } else { 0 }, frames - 1, 7],
    );
    let duration = element(BLOCK_DURATION, &duration.to_be_bytes());
    element(BLOCK_GROUP, &[block, duration].concat())
}

fn cluster(time: u32, content: &[Vec<u8>]) -> Vec<u8> {
    let time = element(TIMESTAMP, &time.to_be_bytes());
    element(CLUSTER, &[time, content.concat()].concat())
}

/// A Cluster as it goes out.
fn written(time: u64, content: &[Vec<u8>]) -> Vec<u8> {
    let time = [&[0xe7, 0x88][..], &time.to_be_bytes()].concat();
    [CLUSTER_HEAD.to_vec(), time, content.concat()].concat()
}

fn info(scale: u32) -> Vec<u8> {
    element(INFO, &element(TIMESTAMP_SCALE, &scale.to_be_bytes()))
}

/// A cutter after a block of track 1 at 0, in ticks of a millisecond. The next block goes to 20.
fn begun(unit_bytes_max: usize) -> BlockCutter {
    let mut blocks = BlockCutter::new(unit_bytes_max);
    let bytes = [
        element(SEGMENT, &[]),
        cluster(0, &[simple_block(1, 0, &[7])]),
    ]
    .concat();
    assert!(cut(&mut blocks, &bytes, usize::MAX).is_some());
    blocks
}

const VOID: u32 = 0xec;

#[test]
fn positions_are_left_out_and_blocks_continue_where_the_previous_source_ended() {
    let ebml = element(EBML, &[1, 2, 3]);
    let tracks = element(TRACKS, &[0xec, 0x80]);
    let first_blocks = [simple_block(1, 0, &[1; 9]), group(40, 1, 40)];
    let crc = element(0xbf, &[1, 2, 3, 4]);
    let first = [
        ebml.clone(),
        element(SEGMENT, &[])[..4].to_vec(),
        vec![0x20, 1, 2],
        element(SEEK_HEAD, &[5; 9]),
        info(1_000_000),
        tracks.clone(),
        element(VOID, &[0; 3]),
        cluster(100, &[crc.clone(), first_blocks.concat(), crc.clone()]),
        element(CUES, &[6; 7]),
        element(0x1254_c367, b"tags"),
    ];
    let second = [
        element(VOID, &[0; 3]),
        info(2_000_000),
        cluster(
            5_000,
            &[crc, simple_block(1, 0, &[2; 5]), group(-20, 1, 20)],
        ),
        element(CUES, &[6; 7]),
        tracks.clone(),
        cluster(5_040, &[simple_block(1, 0, &[3; 5])]),
    ];
    let expected = [
        ebml.clone(),
        element(SEGMENT, &[])[..4].to_vec(),
        vec![0x3f, 0xff, 0xff],
        info(1_000_000),
        tracks,
        element(VOID, &[0; 3]),
        written(100, &first_blocks),
        element(0x1254_c367, b"tags"),
        // Blocks of the first source up to 180 are not shown again.
        written(180, &[simple_block(1, 0, &[2; 5])]),
        written(220, &[simple_block(1, 0, &[3; 5])]),
    ];
    for piece in [1, usize::MAX] {
        let mut blocks = BlockCutter::new(1000);
        let mut out = cut(&mut blocks, &first.concat(), piece).expect("the first");
        blocks.seam();
        out.extend(cut(&mut blocks, &second.concat(), piece).expect("the second"));
        assert_eq!(out, expected.concat());
        assert!(blocks.block_bytes_left == 0);
        // Another stream after it does not continue it.
        for begins in [&ebml, &element(SEGMENT, &[])] {
            assert!(cut(&mut blocks, begins, piece).is_none());
        }
    }
}

/// A Cluster that began before the stream, and a clock that begins again far from the written
/// Cluster.
#[test]
fn clusters_begin_so_that_their_blocks_can_say_their_times() {
    let mut blocks = begun(1000);
    blocks.seam();
    let early = cluster(1_000, &[simple_block(1, 500, &[2])]);
    let out = cut(&mut blocks, &early, usize::MAX);
    assert_eq!(out, Some(written(0, &[simple_block(1, 20, &[2])])));
    let mut blocks = begun(1000);
    blocks.seam();
    let jumping = [0, 32_767, -5_000, 0].map(|relative| simple_block(1, relative, &[3]));
    let out = cut(&mut blocks, &cluster(50_000, &jumping), usize::MAX);
    let expected = [
        written(
            20,
            &[simple_block(1, 0, &[3]), simple_block(1, 32_767, &[3])],
        ),
        written(
            32_807,
            &[simple_block(1, 0, &[3]), simple_block(1, 5_000, &[3])],
        ),
    ];
    assert_eq!(out, Some(expected.concat()));
}

#[test]
fn how_long_a_block_lasts() {
    // In any unit of time, a block counts at most a tenth of a second if the next one is later. A
    // block of several frames counts that much more.
    for (scale, block, end) in [
        (1_000_000, group(0, 1, 40), 40),
        (1_000_000, group(0, 1, 100), 100),
        (1_000_000, group(0, 1, 101), 100),
        (1_000_000, group(0, 4, 500), 400),
        (1_000_000, simple_block(1, 0, &[7]), 20),
        (100_000, group(0, 1, 5_000), 1_000),
        (100_000, simple_block(1, 0, &[7]), 200),
        (2_000_000_000, group(0, 1, 9), 1),
    ] {
        let mut blocks = BlockCutter::new(1000);
        let first = [element(SEGMENT, &[]), info(scale), cluster(0, &[block])];
        assert!(cut(&mut blocks, &first.concat(), usize::MAX).is_some());
        blocks.seam();
        let next = cut(
            &mut blocks,
            &cluster(77, &[simple_block(1, 0, &[8])]),
            usize::MAX,
        );
        assert_eq!(
            next,
            Some(written(end, &[simple_block(1, 0, &[8])])),
            "{scale}"
        );
    }
    let mut blocks = BlockCutter::new(1000);
    let timeless = [element(SEGMENT, &[]), info(0)].concat();
    assert!(cut(&mut blocks, &timeless, usize::MAX).is_none());
}

/// A block of at most the length of a unit is held until it is whole. Of a longer one viewers have
/// a part.
#[test]
fn a_block_longer_than_a_unit_passes_as_it_comes() {
    for (unit_bytes_max, length, first_out) in [
        (100, 100, 100),
        (100, 101, 64),
        (64, 65, 64),
        (63, 65, 63),
        (40, 90, 40),
    ] {
        let block = simple_block(2, 5, &vec![9; length - 7]);
        assert_eq!(block.len(), length);
        let mut blocks = begun(unit_bytes_max);
        let head = &cluster(30, std::slice::from_ref(&block))[..6 + 7];
        let (mut window, mut out) = (Window::default(), Vec::new());
        assert!(window.walk(&mut blocks, head, 0, &mut out).is_ok() && out.is_empty());
        for (at, byte) in block.iter().enumerate() {
            let come = at + 1;
            let walked = window.walk(&mut blocks, &[*byte], at as u64 + 13, &mut out);
            assert!(walked.is_ok());
            let gone = written(30, &[block[..come].to_vec()]);
            let gone = if come < first_out { Vec::new() } else { gone };
            assert_eq!(out, gone, "{come} of {length}");
            let is_part = !gone.is_empty() && come < length;
            assert_eq!(blocks.block_bytes_left > 0, is_part, "{come} of {length}");
        }
    }
    // A block from before the seam is left out, all of it.
    let mut blocks = begun(100);
    blocks.seam();
    let content = [
        simple_block(1, 500, &[1]),
        simple_block(1, 0, &[2; 300]),
        simple_block(1, 520, &[3]),
    ];
    let expected = [simple_block(1, 20, &[1]), simple_block(1, 40, &[3])];
    let out = cut(&mut blocks, &cluster(1_000, &content), usize::MAX);
    assert_eq!(out, Some(written(0, &expected)));
}

#[test]
fn elements_that_cannot_be_cut_fail() {
    let is_let_go = |content: &[Vec<u8>]| {
        let mut blocks = BlockCutter::new(100);
        cut(&mut blocks, &content.concat(), usize::MAX).is_none()
    };
    let segment = element(SEGMENT, &[]);
    // An element of the header may have the length of a header, however short units are.
    for (bytes, is_too_long) in [(0x3_fff8_u32, false), (0x3_fff9, true)] {
        let head = [TRACKS.to_be_bytes(), (bytes | 0x1000_0000).to_be_bytes()];
        let tracks = [head.concat(), vec![0; bytes as usize]].concat();
        assert_eq!(is_let_go(&[segment.clone(), tracks]), is_too_long);
    }
    // A block without a time, without a track, and without its head; an element of unknown size.
    let block = simple_block(1, 0, &[7]);
    let no_track = element(SIMPLE_BLOCK, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    assert!(is_let_go(&[segment.clone(), element(CLUSTER, &block)]));
    assert!(!is_let_go(&[segment.clone(), cluster(0, &[block])]));
    assert!(is_let_go(&[segment.clone(), cluster(0, &[no_track])]));
    assert!(is_let_go(&[
        segment.clone(),
        cluster(0, &[element(SIMPLE_BLOCK, &[0x81])])
    ]));
    assert!(is_let_go(&[
        segment.clone(),
        element(TIMESTAMP, &[]),
        vec![0xa3, 0xff]
    ]));
    let time = |first: u8| element(CLUSTER, &element(TIMESTAMP, &[first, 0, 0, 0, 0, 0, 0, 0]));
    assert!(!is_let_go(&[segment.clone(), time(0x7f)]));
    assert!(is_let_go(&[segment, time(0x80)]));
}

/// Viewers get nothing of a block that fails.
#[test]
fn nothing_goes_out_of_a_block_that_fails() {
    let mut blocks = BlockCutter::new(100);
    let bytes = [
        element(SEGMENT, &[]),
        cluster(0, &[simple_block(1, 0, &[7])]),
    ]
    .concat();
    let (mut window, mut out) = (Window::default(), Vec::new());
    assert!(window.walk(&mut blocks, &bytes, 0, &mut out).is_ok());
    let before = out.clone();
    // The part of a group that has come ends before the block's time.
    let reference = element(0xfb, &[1; 52]);
    let block = element(BLOCK, &[&[0x81, 0, 9, 0][..], &[7; 90]].concat());
    let bytes = cluster(5, &[element(BLOCK_GROUP, &[reference, block].concat())]);
    assert!(window.walk(&mut blocks, &bytes, 0, &mut out).is_err());
    assert_eq!(out, before);
    // The track is new and far behind the others. No Cluster could say its time.
    let mut blocks = begun(100);
    blocks.seam();
    let ahead = cluster(50_000, &[simple_block(1, 0, &[7])]);
    let bytes = [ahead, cluster(0, &[simple_block(2, 0, &[7])])].concat();
    let (mut window, mut out) = (Window::default(), Vec::new());
    assert!(window.walk(&mut blocks, &bytes, 0, &mut out).is_err());
    assert_eq!(out, written(20, &[simple_block(1, 0, &[7])]));
}

/// A first source that begins again has a new clock, too.
#[test]
fn a_stream_that_begins_anew_forgets_the_one_before() {
    let mut blocks = BlockCutter::new(100);
    let stream = |time| {
        let content = cluster(time, &[simple_block(1, 0, &[7])]);
        [element(EBML, &[1]), element(SEGMENT, &[]), content].concat()
    };
    assert!(cut(&mut blocks, &stream(5_000), usize::MAX).is_some());
    let again = cut(&mut blocks, &stream(0), usize::MAX).expect("one that begins anew");
    assert!(again.ends_with(&written(0, &[simple_block(1, 0, &[7])])));
    blocks.seam();
    let next = cut(
        &mut blocks,
        &cluster(9, &[simple_block(1, 0, &[8])]),
        usize::MAX,
    );
    assert_eq!(next, Some(written(20, &[simple_block(1, 0, &[8])])));
}

/// Track, time, position of the time, frames.
type Told = Option<(u64, i16, usize, i64)>;

#[test]
fn the_head_of_a_block_has_track_time_and_frames() {
    let cases: [(&[u8], Told); 12] = [
        (&[0x81, 0x01, 0x02, 0x80, 3], Some((1, 0x102, 3, 1))),
        (&[0x81, 0xff, 0xfe, 0x00], Some((1, -2, 3, 1))),
        (&[0x40, 0x85, 0, 9, 0, 3], Some((0x85, 9, 4, 1))),
        (
            &[0x01, 0, 0, 0, 0, 0, 1, 2, 0, 9, 0],
            Some((0x102, 9, 10, 1)),
        ),
        (&[0x00, 0x80, 0, 0, 0, 0, 0, 1, 2, 0, 9, 0], None),
        (&[0xff, 0, 9, 0], None),
        // Laced in any way, with the number of frames after the first.
        (&[0x81, 0, 9, 0x02, 3], Some((1, 9, 3, 4))),
        (&[0x81, 0, 9, 0x84, 0], Some((1, 9, 3, 1))),
        (&[0x81, 0, 9, 0x06, 255], Some((1, 9, 3, 256))),
        (&[0x81, 0, 9, 0x06], Some((1, 9, 3, 1))),
        (&[0x81, 0, 9], None),
        (&[], None),
    ];
    for (body, expected) in cases {
        let element = [&[0xa3, 0x80], body].concat();
        let place = BlockHead::of_block(&element, 2);
        let told = place.map(|place| {
            assert_eq!(place.duration, None);
            (
                place.track,
                place.relative_time,
                place.time_at,
                place.frames,
            )
        });
        assert_eq!(told, expected, "{body:x?}");
    }
    assert!(BlockHead::of_block(&[0xa3], 2).is_none());
}

/// A scan of it costs much, and all of it would go out at once.
#[test]
fn a_group_of_thousands_of_elements_is_left_out() {
    let empty = |count: usize| [0xec, 0x80].repeat(count);
    let block = group(0, 1, 40)[3..].to_vec();
    for (elements, goes_out) in [(4_093, true), (4_094, false), (8_000, false)] {
        let content = [&block[..], &empty(elements)].concat();
        let group = element(BLOCK_GROUP, &content);
        let mut blocks = begun(100_000);
        let bytes = cluster(1_000, &[group.clone(), simple_block(1, 40, b"next")]);
        let out = cut(&mut blocks, &bytes, 1_000).expect("it goes on");
        assert_eq!(out.len() > group.len(), goes_out, "{elements}");
        assert!(out.ends_with(b"next"));
    }
}

#[test]
fn a_group_has_a_duration_before_or_after_its_block() {
    let block = element(BLOCK, &[0x81, 0, 9, 0, 7, 7]);
    let lasts = element(BLOCK_DURATION, &[1, 0]);
    let reference = element(0xfb, &[5]);
    for (content, duration, time_at) in [
        (vec![block.clone()], None, 7),
        (vec![block.clone(), lasts.clone()], Some(256), 7),
        (
            vec![lasts.clone(), reference, block.clone()],
            Some(256),
            7 + 5 + 4,
        ),
        (
            vec![block, element(BLOCK_DURATION, &[0x80, 0, 0, 0, 0, 0, 0, 0])],
            None,
            7,
        ),
    ] {
        let group = element(BLOCK_GROUP, &content.concat());
        let place = BlockHead::of_group(&group, 3).expect("a block");
        assert_eq!((place.duration, place.time_at), (duration, time_at));
        assert_eq!((place.track, place.relative_time), (1, 9));
    }
    assert!(BlockHead::of_group(&element(BLOCK_GROUP, &lasts), 3).is_none());
    assert!(BlockHead::of_group(&[0xa0, 0x80], 2).is_none());
}

#[test]
fn headers_are_alike_if_they_set_decoders_up_alike() {
    let track = |fields: &[(u32, &[u8])]| {
        let fields = fields.iter().flat_map(|(id, body)| element(*id, body));
        element(TRACK_ENTRY, &fields.collect::<Vec<u8>>())
    };
    let header = |info: Vec<u8>, tracks: &[Vec<u8>]| {
        let body = [info, element(TRACKS, &tracks.concat())].concat();
        [element(EBML, &[1, 2]), element(SEGMENT, &body)].concat()
    };
    let usual: [(u32, &[u8]); 4] = [(0xd7, &[1]), (0x83, &[1]), (0x86, b"V_VP8"), (0xe0, &[9])];
    let one = header(info(1_000_000), &[track(&usual)]);
    let with = |id: u32| {
        header(
            info(1_000_000),
            &[track(&[&usual[..], &[(id, &b"x"[..])]].concat())],
        )
    };
    // A missing field has its default, and names decide nothing.
    for alike in [
        one.clone(),
        header(Vec::new(), &[track(&usual)]),
        header(info(1_000_000), &[element(VOID, &[0]), track(&usual)]),
        with(0x536e),
        with(0x22_b59c),
    ] {
        assert!(
            are_alike(&one, &alike) && are_alike(&alike, &one),
            "{alike:x?}"
        );
    }
    let mut others = DECISIVE.map(with).to_vec();
    others.extend([
        header(info(500_000), &[track(&usual)]),
        header(info(1_000_000), &[track(&usual), track(&[])]),
        header(info(1_000_000), &[track(&usual[..2]), track(&usual[2..])]),
        header(info(1_000_000), &[]),
        [element(EBML, &[1, 2]), element(SEGMENT, &info(1_000_000))].concat(),
        [element(EBML, &[1, 2]), element(CLUSTER, &one[14..])].concat(),
        element(EBML, &[1, 2]),
        Vec::new(),
    ]);
    for other in others {
        assert!(
            !are_alike(&one, &other) && !are_alike(&other, &one),
            "{other:x?}"
        );
    }
}
