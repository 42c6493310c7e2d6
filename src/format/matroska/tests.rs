use super::super::tests::{Scanned, scan_in};
use super::super::window::Window;
use super::*;

/// An element with this identifier. Its size takes one byte or, if it is long, four.
fn element(id: u32, body: &[u8]) -> Vec<u8> {
    let size = match body.len() {
        length @ 0..0x7f => vec![0x80 | length as u8],
        length => (0x1000_0000 | length as u32).to_be_bytes().to_vec(),
    };
    [&begin(id)[..], &size, body].concat()
}

/// An identifier.
fn begin(id: u32) -> Vec<u8> {
    let bytes = id.to_be_bytes();
    bytes[id.leading_zeros() as usize / 8..].to_vec()
}

/// An element that does not say where it ends.
fn open(id: u32) -> Vec<u8> {
    [&begin(id)[..], &[0xff]].concat()
}

fn ebml_head(doc_type: &[u8]) -> Vec<u8> {
    element(
        EBML,
        &[element(0x4286, &[1]), element(0x4282, doc_type)].concat(),
    )
}

fn track(number: u8, kind: u8) -> Vec<u8> {
    element(
        TRACK_ENTRY,
        &[element(0xd7, &[number]), element(0x83, &[kind])].concat(),
    )
}

const SOUND: u8 = 1;
const VIDEO: u8 = 2;

fn tracks() -> Vec<u8> {
    element(TRACKS, &[track(SOUND, 2), track(VIDEO, 1)].concat())
}

/// An EBML head, an open Segment, and tracks of sound and of video.
fn header() -> Vec<u8> {
    [
        ebml_head(b"webm"),
        open(SEGMENT),
        element(0x1549_a966, &[7]),
        tracks(),
    ]
    .concat()
}

/// An open Cluster at this time.
fn cluster(time: u8) -> Vec<u8> {
    [open(CLUSTER), element(TIMESTAMP, &[time])].concat()
}

/// A block alone.
fn block(track: u8, flags: u8) -> Vec<u8> {
    element(SIMPLE_BLOCK, &[0x80 | track, 0, 0, flags, 0xdd])
}

/// A block in a group, with a reference or without.
fn group(track: u8, has_reference: bool) -> Vec<u8> {
    let reference = element(REFERENCE_BLOCK, &[0xfe]);
    let reference = if has_reference { reference } else { Vec::new() };
    element(
        BLOCK_GROUP,
        &[element(BLOCK, &[0x80 | track, 0, 0, 0, 0xdd]), reference].concat(),
    )
}

/// Bytes in front of a block in a Cluster of this time.
fn prelude(time: u8) -> Vec<u8> {
    [&CLUSTER_HEAD[..], &element(TIMESTAMP, &[time])].concat()
}

/// Returns the findings, in one piece and in small ones if the input is short.
fn scan(bytes: &[u8]) -> Scanned {
    let sizes = if bytes.len() < 9_000 {
        &[1, 13, 4096][..]
    } else {
        &[4096]
    };
    #[cfg(feature = "handover")]
    let check = |walker: &Matroska, offset| assert!(walker.is_valid(offset));
    #[cfg(not(feature = "handover"))]
    let check = |_: &Matroska, _| ();
    scan_in(bytes, sizes, Matroska::default, check)
}

/// Returns the findings after the header, by the numbers of the parts: J for a join, U for a unit,
/// E for an entry, each with its prelude; H for another header.
fn behind_header(parts: &[Vec<u8>]) -> Vec<(char, usize, Vec<u8>)> {
    let (findings, result) = scan(&[header(), parts.concat()].concat());
    assert_eq!(
        (result, &findings[0]),
        (Ok(()), &(Finding::Header, Some(header())))
    );
    let number = |start: &Start| {
        let (mut at, mut number) = (header().len() as u64, 0);
        while at < start.offset {
            at += parts[number].len() as u64;
            number += 1;
        }
        assert_eq!(at, start.offset, "where none of the parts begins");
        (number, start.prelude.as_slice().to_vec())
    };
    let found = findings[1..].iter().map(|(finding, _)| match finding {
        Finding::Join(start) => ('J', number(start).0, number(start).1),
        Finding::Unit(start) => ('U', number(start).0, number(start).1),
        Finding::Entry(start) => ('E', number(start).0, number(start).1),
        _ => ('H', 0, vec![]),
    });
    found.collect()
}

fn at(kind: char, part: usize) -> (char, usize, Vec<u8>) {
    (kind, part, Vec::new())
}

fn within(kind: char, part: usize, time: u8) -> (char, usize, Vec<u8>) {
    (kind, part, prelude(time))
}

#[test]
fn an_ebml_head_names_the_format() {
    let with = |id: u32, body: &[u8]| {
        let name = element(0x4282, b"webm");
        element(EBML, &[name, element(id, body)].concat())
    };
    let known = Ok(Format::WebM);
    let other = Err(Unread::Other(Unsupported));
    for (bytes, told) in [
        (ebml_head(b"webm"), known),
        (ebml_head(b"matroska"), Ok(Format::Matroska)),
        (ebml_head(b"webm\0\0"), known),
        (ebml_head(b"webmx"), other),
        (ebml_head(b""), other),
        (element(EBML, &[]), other),
        // Identifiers and sizes that are longer than the scanner reads.
        (with(0x42f2, &[4]), known),
        (with(0x42f2, &[5]), other),
        (with(0x42f2, &[3]), known),
        (with(0x42f3, &[8]), known),
        (with(0x42f3, &[9]), other),
        (with(0x42f3, &[1]), known),
        (with(0x4287, &[9]), known),
        // The later one counts.
        (with(0x4282, b"else"), other),
        // No EBML head, one without an end, and a malformed one.
        (element(SEGMENT, &element(0x4282, b"webm")), other),
        (open(EBML), other),
        (vec![0], other),
    ] {
        assert_eq!(doc_type(&bytes), told, "{bytes:x?}");
        assert_eq!(
            doc_type(&[&bytes[..], &[9; 9]].concat()),
            told,
            "{bytes:x?}"
        );
        for length in 0..bytes.len() {
            let read = doc_type(&bytes[..length]);
            assert!(
                matches!(read, Err(Unread::Needs(_))),
                "{length} of {bytes:x?}"
            );
        }
    }
    // The longest head, and one byte more.
    let long = |length: usize| with(VOID, &vec![0; length - 7 - 5]);
    for (length, told) in [(4_096, known), (4_097, other)] {
        let bytes = long(length);
        assert_eq!(bytes.len(), 4 + 4 + length);
        assert_eq!(doc_type(&bytes), told);
    }
    assert_eq!(doc_type(&long(4_097)[..8]), other, "known by its size");
}

#[test]
fn a_header_is_everything_before_the_first_cluster() {
    let skipped = [SEEK_HEAD, CUES, VOID, CRC_32].map(|id| element(id, &[1, 2]));
    let tags = element(0x1254_c367, &[3, 4]);
    // A sized Segment is sent as an open one: a late viewer does not get all of it.
    for (sized, told) in [
        (vec![0xaf], vec![0xff]),
        (vec![0x4f, 0xff], vec![0x7f, 0xff]),
        (
            vec![1, 0, 0, 0, 0, 0, 9, 0],
            vec![1, 255, 255, 255, 255, 255, 255, 255],
        ),
        (vec![0xff], vec![0xff]),
    ] {
        let segment = |size: &[u8]| [&begin(SEGMENT)[..], size].concat();
        let mut parts = vec![ebml_head(b"webm"), element(VOID, &[9]), segment(&sized)];
        parts.extend(skipped.clone());
        parts.extend([tags.clone(), tracks(), skipped[2].clone()]);
        let stream = [parts.concat(), cluster(1), block(VIDEO, 0x80)].concat();
        let (findings, result) = scan(&stream);
        let header = [ebml_head(b"webm"), segment(&told), tags.clone(), tracks()].concat();
        assert_eq!(
            (result, &findings[0]),
            (Ok(()), &(Finding::Header, Some(header)))
        );
        let start = Start::at(parts.concat().len() as u64);
        let points = [Finding::Unit(start), Finding::Join(start)].map(|found| (found, None));
        assert_eq!(findings[1..], points);
    }
    // Elements after Clusters do not belong to the header.
    let parts = [
        cluster(1),
        block(VIDEO, 0),
        tags,
        element(CUES, &[1]),
        cluster(2),
        block(VIDEO, 0x80),
    ];
    assert_eq!(behind_header(&parts), [at('U', 0), at('U', 4), at('J', 4)]);
}

#[test]
fn key_frames_of_the_video_track_are_joins() {
    let (key, other, sound) = (block(VIDEO, 0x80), block(VIDEO, 0x7f), block(SOUND, 0x80));
    for (parts, found) in [
        // The first picture of a Cluster. The join is at the Cluster, since the sound before the
        // picture is part of it.
        (
            vec![cluster(1), key.clone(), other.clone()],
            vec![at('U', 0), at('J', 0)],
        ),
        (
            vec![cluster(1), sound.clone(), key.clone()],
            vec![at('U', 0), at('J', 0)],
        ),
        // After another picture: the join is at the block, with the Cluster's head in front.
        (
            vec![
                cluster(5),
                other.clone(),
                sound.clone(),
                key.clone(),
                sound.clone(),
                key.clone(),
            ],
            vec![at('U', 0), within('J', 3, 5), within('J', 5, 5)],
        ),
        (
            vec![
                cluster(5),
                key.clone(),
                key.clone(),
                cluster(6),
                key.clone(),
            ],
            vec![
                at('U', 0),
                at('J', 0),
                within('J', 2, 5),
                at('U', 3),
                at('J', 3),
            ],
        ),
        // Without a Timestamp nobody can begin in the middle.
        (
            vec![
                open(CLUSTER),
                other.clone(),
                key.clone(),
                element(TIMESTAMP, &[9]),
                key.clone(),
            ],
            vec![at('U', 0), within('J', 4, 9)],
        ),
        (
            vec![
                open(CLUSTER),
                element(TIMESTAMP, &[]),
                other.clone(),
                key.clone(),
            ],
            vec![at('U', 0)],
        ),
        (
            vec![
                open(CLUSTER),
                element(TIMESTAMP, &[0; 9]),
                other.clone(),
                key.clone(),
            ],
            vec![at('U', 0)],
        ),
        // In groups: a block without a reference. The end of a group is clear with the next
        // element.
        (
            vec![
                cluster(5),
                group(VIDEO, true),
                group(VIDEO, false),
                group(SOUND, false),
                other.clone(),
            ],
            vec![at('U', 0), within('J', 2, 5)],
        ),
        (
            vec![
                cluster(5),
                group(SOUND, true),
                group(VIDEO, false),
                cluster(6),
            ],
            vec![at('U', 0), at('J', 0), at('H', 0)][..2].to_vec(),
        ),
        // Other elements that may be in Clusters.
        (
            vec![
                cluster(1),
                element(0xab, &[1]),
                element(VOID, &[0; 200]),
                key.clone(),
            ],
            vec![at('U', 0), at('J', 0)],
        ),
    ] {
        let told: Vec<_> = behind_header(&parts)
            .into_iter()
            .filter(|(kind, ..)| *kind != 'H')
            .collect();
        assert_eq!(told, found, "{parts:x?}");
    }
}

#[test]
fn track_numbers_may_have_any_length() {
    let with = |head: &[u8]| element(SIMPLE_BLOCK, &[head, &[0, 0, 0x80, 0xdd]].concat());
    for (head, is_video) in [
        (&[0x82][..], true),
        (&[0x83], false),
        (&[0x40, 2], true),
        (&[0x41, 2], false),
        (&[0x20, 0, 2], true),
        (&[1, 0, 0, 0, 0, 0, 0, 2], true),
        (&[1, 0, 0, 0, 0, 0, 1, 2], false),
    ] {
        let found = behind_header(&[cluster(1), with(head)]);
        assert_eq!(found.contains(&at('J', 0)), is_video, "{head:x?}");
    }
    let fed = |block: Vec<u8>| scan(&[header(), cluster(1), block].concat()).1;
    // No track, an unknown one, and blocks that end before their flags.
    for body in [
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80][..],
        &[0xff, 0, 0, 0x80],
        &[0x82, 0, 0],
        &[0x40, 2, 0, 0],
        &[0x82],
        &[1, 0, 0, 0, 0, 0, 0, 2, 0, 0],
    ] {
        assert_eq!(
            fed(element(SIMPLE_BLOCK, body)),
            Err(Unsupported),
            "{body:x?}"
        );
    }
    assert_eq!(fed(element(SIMPLE_BLOCK, &[0x82, 0, 0, 0x80])), Ok(()));
    assert_eq!(
        fed(element(SIMPLE_BLOCK, &[1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0])),
        Ok(())
    );
    assert_eq!(
        fed([&open(SIMPLE_BLOCK)[..], &[0x82, 0, 0, 0x80]].concat()),
        Err(Unsupported)
    );
    assert_eq!(fed(open(BLOCK_GROUP)), Err(Unsupported));
}

#[test]
fn without_video_clusters_and_spaced_blocks_are_joins() {
    let only_sound = [
        ebml_head(b"webm"),
        open(SEGMENT),
        element(TRACKS, &track(SOUND, 2)),
    ]
    .concat();
    let long = |bytes: usize| {
        element(
            SIMPLE_BLOCK,
            &[&[0x81, 0, 0, 0][..], &vec![0; bytes - 9]].concat(),
        )
    };
    let parts = [
        only_sound,
        cluster(1),
        long(4_088),
        long(1_000),
        long(4_096),
        long(200),
        cluster(2),
        long(200),
    ];
    let (findings, _) = scan(&parts.concat());
    let place = |number: usize| parts[..number].concat().len() as u64;
    let own = |number, time| Start {
        offset: place(number),
        prelude: Prelude::new(&prelude(time)).expect("it fits"),
        counter: None,
    };
    let points: Vec<_> = findings[1..].iter().map(|(finding, _)| *finding).collect();
    // The join of the first block is the Cluster. The second one has exactly this distance.
    assert_eq!(place(3) - place(1), 4_096);
    assert_eq!(
        points,
        [
            Finding::Unit(Start::at(place(1))),
            Finding::Join(Start::at(place(1))),
            Finding::Unit(own(3, 1)),
            Finding::Join(own(3, 1)),
            Finding::Unit(own(5, 1)),
            Finding::Join(own(5, 1)),
            Finding::Unit(Start::at(place(6))),
            Finding::Join(Start::at(place(6))),
        ]
    );
}

#[test]
fn a_cluster_of_known_size_may_be_entered_but_not_cut() {
    let filled = |bytes: usize| {
        element(
            SIMPLE_BLOCK,
            &[&[0x82, 0, 0, 0][..], &vec![0; bytes - 9]].concat(),
        )
    };
    let (small, key) = (block(VIDEO, 0), block(VIDEO, 0x80));
    let time = element(TIMESTAMP, &[3]);
    let inner = [&time[..], &filled(5_000), &small, &key].concat();
    let head = |length: usize| {
        [
            &begin(CLUSTER)[..],
            &(0x1000_0000 | length as u32).to_be_bytes(),
        ]
        .concat()
    };
    let parts = [
        [head(inner.len()), time.clone()].concat(),
        filled(5_000),
        small.clone(),
        key.clone(),
        // After its end the next element is in no Cluster.
        element(0x1254_c367, &[1]),
        cluster(4),
        key.clone(),
    ];
    let found = [
        at('U', 0),
        within('E', 2, 3),
        within('J', 3, 3),
        at('U', 5),
        at('J', 5),
    ];
    assert_eq!(behind_header(&parts), found);
    // A Cluster without a size can be cut, too.
    let parts = [
        [open(CLUSTER), time].concat(),
        filled(5_000),
        small.clone(),
        key.clone(),
    ];
    let found = [at('U', 0), within('U', 2, 3), within('J', 3, 3)];
    assert_eq!(behind_header(&parts), found);
    // Blocks after the end of a Cluster are in none. They are not reported.
    let ended = [[head(3), element(TIMESTAMP, &[3])].concat(), small, key];
    assert_eq!(behind_header(&ended), []);
}

#[test]
fn another_head_begins_another_stream() {
    let first = [cluster(1), block(VIDEO, 0x80), group(VIDEO, false)];
    let again = [
        ebml_head(b"matroska"),
        open(SEGMENT),
        element(TRACKS, &track(SOUND, 1)),
        cluster(2),
        block(VIDEO, 0x80),
        block(SOUND, 0x80),
    ];
    let stream = [header(), first.concat(), again.concat()].concat();
    let (findings, result) = scan(&stream);
    assert_eq!(result, Ok(()));
    let headers: Vec<_> = findings
        .iter()
        .filter_map(|(_, header)| header.clone())
        .collect();
    assert_eq!(headers, [header(), again[..3].concat()]);
    let place = (stream.len() - again[3..].concat().len()) as u64;
    assert_eq!(
        findings.last(),
        Some(&(Finding::Join(Start::at(place)), None))
    );
    // The old header is lent until the new one is whole.
    let mut walker = Matroska::default();
    let begun = [header(), first.concat(), again[..3].concat()].concat();
    let nothing: &mut Findings<'_> = &mut |_, _| {};
    assert_eq!(
        Window::default().walk(&mut walker, &begun, 0, nothing),
        Ok(())
    );
    assert_eq!(walker.header.lend().to_vec(), header());
    // A Segment without its own EBML head, and an element that belongs nowhere.
    for bad in [
        [header(), cluster(1), open(SEGMENT)].concat(),
        [ebml_head(b"webm"), tracks()].concat(),
        open(SEGMENT),
        cluster(1),
    ] {
        assert_eq!(scan(&bad).1, Err(Unsupported));
    }
    // A head that another one replaces.
    let stream = [ebml_head(b"matroska"), header(), cluster(1)].concat();
    assert_eq!(scan(&stream).0, [(Finding::Header, Some(header()))]);
}

#[test]
fn a_header_has_at_most_header_bytes_max() {
    let most = 256 * 1024;
    let rest = most - header().len();
    let filled = |bytes: usize| element(0x1254_c367, &vec![0; bytes - 8]);
    let stream = |bytes: usize| [header(), filled(bytes), cluster(1)].concat();
    let (findings, result) = scan(&stream(rest));
    assert_eq!((result, findings.len()), (Ok(()), 1));
    assert_eq!(scan(&stream(rest + 1)), (vec![], Err(Unsupported)));
    // Its size tells.
    let begun = stream(rest + 1)[..header().len() + 8].to_vec();
    assert_eq!(scan(&begun).1, Err(Unsupported));
    assert_eq!(
        scan(&[header(), open(0x1254_c367)].concat()).1,
        Err(Unsupported)
    );
    assert_eq!(scan(&[0x0f]).1, Err(Unsupported));
}

#[test]
fn the_first_track_of_video_is_found_by_its_kind() {
    let entry = |fields: &[Vec<u8>]| element(TRACK_ENTRY, &fields.concat());
    for (tracks, number) in [
        (vec![], None),
        (vec![track(1, 2)], None),
        (vec![track(1, 2), track(7, 1), track(8, 1)], Some(7)),
        (vec![element(0xbf, &track(1, 1)), track(2, 1)], Some(2)),
        (vec![entry(&[element(0x83, &[1])]), track(9, 1)], Some(9)),
        (vec![entry(&[element(0xd7, &[5])]), track(9, 1)], Some(9)),
        (
            vec![entry(&[element(0x83, &[1]), element(0xd7, &[1, 2])])],
            Some(0x102),
        ),
    ] {
        assert_eq!(video_track(&tracks.concat()), number);
    }
}

#[cfg(feature = "handover")]
#[test]
fn handed_over_offsets_that_lie_ahead_are_refused() {
    let change = |number: usize, at: u64| {
        let mut walker = Matroska::default();
        match number {
            0 => walker.cluster.start = at,
            _ => walker.group.start = at,
        }
        walker.is_valid(7)
    };
    for number in 0..2 {
        assert!(change(number, 7) && !change(number, 8), "{number}");
    }
    let mut walker = Matroska::default();
    let told = "0".repeat(1 + super::super::HEADER_BYTES_MAX);
    let header = serde_json::json!({
        "current": { "copied": 0, "rest": told },
        "next": { "copied": 0, "rest": "" },
    });
    walker.header = serde_json::from_value(header).expect("as it is told");
    assert!(!walker.is_valid(7));
}
