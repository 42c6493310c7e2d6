use super::super::tests::{Found, Scanned, scan_in};
use super::super::window::Window;
use super::*;
use crate::random::Random;

const BEGIN: u8 = 0x02;
const END: u8 = 0x04;

/// A page of whole packets. Its checksum is zero.
fn page(serial: u32, flags: u8, granule_position: i64, packets: &[&[u8]]) -> Vec<u8> {
    let lacing: Vec<u8> = packets
        .iter()
        .flat_map(|packet| {
            [
                vec![255; packet.len() / 255],
                vec![(packet.len() % 255) as u8],
            ]
            .concat()
        })
        .collect();
    let mut page = [
        CAPTURE.as_slice(),
        &[flags],
        &granule_position.to_le_bytes(),
        &serial.to_le_bytes(),
        &[0; 8],
    ]
    .concat();
    page.push(lacing.len() as u8);
    page.extend(lacing);
    page.extend(packets.concat());
    page
}

/// Returns the findings, which do not depend on how the bytes are cut.
fn scan(bytes: &[u8]) -> Scanned {
    let sizes = [1, 2, 3, 27, 100, 1000, 65_536];
    scan_in(bytes, &sizes, Ogg::default, |_, _| ())
}

/// Returns the pages one after another, and the offset of each.
fn lay_out(pages: &[Vec<u8>]) -> (Vec<u8>, Vec<u64>) {
    let begins = pages.iter().scan(0, |end, page| {
        Some(std::mem::replace(end, *end + page.len() as u64))
    });
    (pages.concat(), begins.collect())
}

fn joins(findings: &[Found]) -> Vec<u64> {
    findings
        .iter()
        .filter_map(|(finding, _)| {
            if let Finding::Join(start) = finding {
                Some(start.offset)
            } else {
                None
            }
        })
        .collect()
}

fn headers(findings: &[Found]) -> Vec<&[u8]> {
    let headers = findings.iter().filter_map(|(_, header)| header.as_deref());
    headers.collect()
}

fn opus(serial: u32) -> [Vec<u8>; 2] {
    [
        page(serial, BEGIN, 0, &[b"OpusHead\x01\x02"]),
        page(serial, 0, 0, &[b"OpusTags"]),
    ]
}

/// Headers of Theora (1), Vorbis (2) and Skeleton (3).
fn theora_and_vorbis() -> Vec<Vec<u8>> {
    vec![
        page(3, BEGIN, 0, &[b"fishead\0"]),
        page(1, BEGIN, 0, &[b"\x80theora"]),
        page(2, BEGIN, 0, &[b"\x01vorbis"]),
        page(3, 0, 0, &[b"fisbone\0"]),
        page(1, 0, 0, &[b"\x81theora", b"\x82theora"]),
        page(2, 0, 0, &[b"\x03vorbis"]),
        page(2, 0, 0, &[b"\x05vorbis"]),
        page(3, END, 0, &[b""]),
    ]
}

#[test]
fn key_frames_are_joins_where_there_is_video() {
    let mut pages = theora_and_vorbis();
    let header = pages.concat();
    let key_frame = [0x20; 600];
    pages.extend([
        page(2, 0, 10, &[b"sound"]),
        page(1, 0, 64, &[&key_frame]),
        page(1, 0, 65, &[b"\x60delta", &key_frame]),
        page(1, 1, 66, &[&key_frame]),
        page(1, 0, 67, &[b"", &key_frame]),
        page(2, 0, 20, &[b"sound"]),
        page(1, 0, -1, &[&key_frame]),
    ]);
    let (bytes, begins) = lay_out(&pages);
    let (findings, result) = scan(&bytes);
    assert_eq!(result, Ok(()));
    assert_eq!(headers(&findings), [header]);
    // At any position on a page.
    let keys = [9, 10, 12, 14].map(|page| begins[page]);
    assert_eq!(joins(&findings), keys);
}

#[test]
fn without_video_each_page_that_begins_a_packet_is_a_join() {
    let mut pages = opus(7).to_vec();
    pages.extend([
        page(7, 0, 960, &[b"sound"]),
        page(7, 1, 1920, &[b"sound"]),
        page(7, 0, -1, &[b"sound"]),
        page(8, 0, 960, &[b"of no stream"]),
        page(7, 1, 2400, &[b"the rest", b"sound"]),
        page(7, 1, 2640, &[b"the rest"]),
        page(7, END, 2880, &[b"sound"]),
    ]);
    let (bytes, begins) = lay_out(&pages);
    let (findings, _) = scan(&bytes);
    // A player that begins there drops the rest of a packet.
    let joined = [2, 4, 6, 8].map(|page| begins[page]);
    assert_eq!(joins(&findings), joined);
}

#[test]
fn units_have_a_spacing() {
    let pages = [opus(7).to_vec(), vec![page(7, 0, 960, &[&[1; 1500]]); 12]].concat();
    let (bytes, begins) = lay_out(&pages);
    let (findings, _) = scan(&bytes);
    let units: Vec<u64> = findings
        .iter()
        .filter_map(|(finding, _)| {
            if let Finding::Unit(start) = finding {
                Some(start.offset)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(units, [begins[2], begins[5], begins[8], begins[11]]);
}

#[test]
fn flac_counts_its_header_packets_or_ends_them_with_sound() {
    for count in [2, 0] {
        let begin = page(
            5,
            BEGIN,
            0,
            &[&[
                0x7F, b'F', b'L', b'A', b'C', 1, 0, 0, count, b'f', b'L', b'a', b'C',
            ]],
        );
        let pages = [
            begin,
            page(5, 0, 0, &[b"\x04comment"]),
            page(5, 0, 0, &[b"\x86picture"]),
            page(5, 0, 4608, &[b"\xFF\xF8sound"]),
        ];
        let (bytes, begins) = lay_out(&pages);
        let (findings, _) = scan(&bytes);
        assert_eq!(headers(&findings), [pages[..3].concat()]);
        assert_eq!(joins(&findings), [begins[3]]);
    }
}

#[test]
fn a_stream_that_begins_after_data_brings_new_headers() {
    let link = [opus(7).to_vec(), vec![page(7, END, 960, &[b"sound"])]].concat();
    let links = [link.clone(), link].concat();
    let (bytes, begins) = lay_out(&links);
    let (findings, _) = scan(&bytes);
    assert_eq!(headers(&findings), [opus(7).concat(), opus(7).concat()]);
    assert_eq!(joins(&findings), [begins[2], begins[5]]);
    let second = findings
        .iter()
        .rposition(|(finding, _)| *finding == Finding::Header);
    assert_eq!(joins(&findings[second.unwrap()..]), [begins[5]]);
}

#[test]
fn lost_pages_are_skipped() {
    let sound = page(7, 0, 960, &[&[1; 500]]);
    let damaged = [
        opus(7).concat(),
        sound.clone(),
        sound[100..].to_vec(),
        b"OggS\0 by chance OggS".to_vec(),
        sound.repeat(3),
    ]
    .concat();
    let begin = opus(7).concat().len() as u64;
    let length = sound.len() as u64;
    let after = begin + 2 * length - 100 + 20;
    assert_eq!(
        joins(&scan(&damaged).0),
        [begin, after, after + length, after + 2 * length]
    );
}

#[test]
fn a_stream_that_is_not_understood_is_given_up() {
    let many: Vec<u8> = (0..=STREAMS_MAX as u32)
        .flat_map(|serial| page(serial, BEGIN, 0, &[b"\x01vorbis"]))
        .collect();
    let long = [
        page(1, BEGIN, 0, &[b"\x01vorbis"]),
        page(1, 0, 0, &[&[1; 60_000]]).repeat(3),
    ]
    .concat();
    let endless = [
        page(1, BEGIN, 0, &[b"fishead\0"]),
        page(1, 0, 0, &[&[1; 60_000]]).repeat(20),
    ]
    .concat();
    let never = [
        page(1, BEGIN, 0, &[b"\x01vorbis"]),
        page(2, 0, 0, &[&[1; 60_000]]).repeat(20),
    ]
    .concat();
    let foreign = [
        page(1, BEGIN, 0, &[b"\x80kate"]),
        page(1, 0, 0, &[b"\x81kate"]),
    ]
    .concat();
    let video = page(1, BEGIN, 0, &[b"OVP80"]);
    let hole = [page(1, BEGIN, 0, &[b"\x01vorbis"]), b"hole".to_vec()].concat();
    assert_eq!(scan(&long).1, Ok(()));
    for bytes in [many, endless, never, foreign, video, hole] {
        assert_eq!(scan(&bytes), (Vec::new(), Err(Unsupported)));
    }
    let lost = [
        opus(7).concat(),
        page(7, 0, 960, &[b"sound"]),
        vec![0; SEARCH_BYTES_MAX as usize + 100],
    ]
    .concat();
    let nothing: &mut Findings<'_> = &mut |_, _| {};
    let walked = Window::default().walk(&mut Ogg::default(), &lost, 0, nothing);
    assert_eq!(walked, Err(Unsupported));
}

#[test]
fn any_bytes_give_the_same_findings_however_they_are_cut() {
    let mut random = Random::new(1);
    let mut next = || random.draw();
    for _ in 0..200 {
        let mut bytes = if next() % 2 == 0 {
            theora_and_vorbis().concat()
        } else {
            opus(1).concat()
        };
        while bytes.len() < 5000 {
            match next() % 8 {
                0 => bytes.extend(next().to_le_bytes()),
                1 => bytes.extend(CAPTURE),
                2 => bytes.truncate(bytes.len().saturating_sub((next() % 40) as usize).max(400)),
                3 => bytes.extend(opus(next() as u32 % 4).concat()),
                _ => bytes.extend(page(
                    next() as u32 % 3,
                    next() as u8 & 5,
                    next() as i64 % 3,
                    &[&vec![next() as u8; next() as usize % 700]],
                )),
            }
        }
        let (findings, _) = scan(&bytes);
        assert!(joins(&findings).is_sorted());
        assert!(
            headers(&findings)
                .iter()
                .all(|header| header.starts_with(CAPTURE))
        );
    }
}

/// The bytes of a head, and what they say: the length of the page, and whether it continues, begins
/// or ends a stream.
#[test]
fn a_page_head_has_a_length_and_flags() {
    let whole = page(0x0403_0201, 0, 7, &[&[1; 255], &[2; 10], b""]);
    let told = |bytes: &[u8]| {
        Page::read(bytes).map(|page| (page.length(), page.payload.len(), page.packets()))
    };
    assert_eq!(told(&whole), Ok((27 + 4 + 265, 265, 3)));
    for length in 0..whole.len() {
        let expected = match length {
            0..5 => Err(Unread::Needs(length + 1)),
            5..27 => Err(Unread::Needs(27)),
            27..31 => Err(Unread::Needs(31)),
            _ => Ok((296, length - 31, 3)),
        };
        assert_eq!(told(&whole[..length]), expected, "{length} bytes");
    }
    assert_eq!(told(&[&whole[..], b"Ogg"].concat()), Ok((296, 265, 3)));
    for at in 0..5 {
        let mut bad = whole.clone();
        bad[at] ^= 1;
        assert_eq!(told(&bad), Err(Unsupported.into()), "{at}");
        assert_eq!(told(&bad[..=at]), Err(Unsupported.into()), "{at}");
    }
    for (flags, expected) in [
        (0x00, (false, false, false)),
        (0x01, (true, false, false)),
        (0x02, (false, true, false)),
        (0x04, (false, false, true)),
        (0xf8, (false, false, false)),
        (0xff, (true, true, true)),
    ] {
        let bytes = page(1, flags, 0, &[]);
        let Ok(page) = Page::read(&bytes) else {
            panic!("a page");
        };
        let told = (
            page.is_continued(),
            page.begins_stream(),
            page.ends_stream(),
        );
        assert_eq!(told, expected, "{flags:x}");
    }
    let Ok(read) = Page::read(&whole) else {
        panic!("a page");
    };
    assert_eq!((read.serial, read.granule_position), (0x0403_0201, 7));
}

/// Positions of the first byte of each packet that begins on a page.
#[test]
fn a_packet_begins_where_the_previous_one_ends() {
    let long = [3; 300];
    for (flags, packets, begins, first, end) in [
        (
            0,
            &[&b"ab"[..], b"c", b"", b"d"][..],
            &[0, 2, 3][..],
            Some(b'a'),
            4,
        ),
        (1, &[b"ab", b"c", b"", b"d"], &[2, 3], None, 4),
        (0, &[&long, b"x"], &[0, 300], Some(3), 301),
        (1, &[&long, b"x"], &[300], None, 301),
        (0, &[b"", b"x"], &[0], None, 1),
        (0, &[b""], &[], None, 0),
        (1, &[b"x"], &[], None, 0),
        (0, &[], &[], None, 0),
    ] {
        let bytes = page(1, flags, 0, packets);
        let Ok(page) = Page::read(&bytes) else {
            panic!("a page");
        };
        assert_eq!(page.packet_begins().collect::<Vec<_>>(), begins);
        assert_eq!(page.first_bytes_end(), page.payload_from() + end);
        if flags == 1 || packets.first().is_none_or(|packet| !packet.is_empty()) {
            assert_eq!(page.first_byte(), first);
        }
    }
}

/// How many packets are headers, for each codec, with a page for each packet after the first.
#[test]
fn each_codec_has_its_headers() {
    for (first, count) in [
        (&b"\x80theora"[..], Ok(3)),
        (b"\x01vorbis", Ok(3)),
        (b"OpusHead", Ok(2)),
        (b"Speex   ", Ok(2)),
        (b"\x7fFLAC\x01\0\0\x01", Ok(2)),
        (b"\x7fFLAC\x01\0\0\x03", Ok(4)),
        (b"\x7fFLAC\x01\0\x01\0", Ok(257)),
        // Codecs that are neither sound nor video, or are not known.
        (b"\x81theora", Err(Unsupported)),
        (b"\x01vorbix", Err(Unsupported)),
        (b"OpusTags", Err(Unsupported)),
        (b"Speex", Err(Unsupported)),
        (b"\x7fFLAC", Err(Unsupported)),
        (b"OVP80", Err(Unsupported)),
        (b"BBCD", Err(Unsupported)),
        (b"\x01video", Err(Unsupported)),
    ] {
        let mut pages = vec![page(5, BEGIN, 0, &[first])];
        pages.extend((0..260).map(|_| page(5, 0, 9, &[b"\x02"])));
        let (findings, result) = scan(&pages.concat());
        assert_eq!(result, count.map(|_| ()), "{first:x?}");
        let told: Vec<Vec<u8>> = count.iter().map(|count| pages[..*count].concat()).collect();
        assert_eq!(headers(&findings), told, "{first:x?}");
    }
}

#[test]
fn unknown_streams_pass_beside_known_ones() {
    let [head, tags] = opus(7);
    let foreign = page(9, BEGIN, 0, &[b"\x80kate\0\0\0"]);
    let foreign_header = page(9, 0, 0, &[b"\x81kate"]);
    let foreign_data = page(9, 0, 5, &[b"words"]);
    let sound = page(7, 0, 960, &[b"sound"]);
    let unknown = page(4, 0, 0, &[b"?"]);
    let all = [
        &head,
        &foreign,
        &foreign_header,
        &unknown,
        &foreign_data,
        &tags,
        &sound,
    ]
    .map(Vec::clone);
    let (bytes, begins) = lay_out(&all);
    let (findings, result) = scan(&bytes);
    assert_eq!(result, Ok(()));
    // Its headers are the pages whose position is before all media.
    let header = [&head[..], &foreign, &foreign_header, &tags].concat();
    assert_eq!(headers(&findings), [header]);
    assert_eq!(joins(&findings), [begins[6]]);
    // A page of an unknown stream is no join, and neither is a page of no stream.
    let (bytes, begins) = lay_out(&[head, tags, foreign_data, sound].map(|page| page));
    let (findings, _) = scan(&bytes);
    assert_eq!(joins(&findings), [begins[3]]);
}

#[test]
fn bytes_between_headers_are_bounded() {
    let [head, tags] = opus(7);
    let between = |bytes: usize| {
        let full = page(9, 0, 0, &[&[1; 65_024][..65_024 - 1]]);
        let mut all = full.repeat(bytes / full.len());
        let rest = bytes - all.len();
        // A page of this length. Its lacing takes some bytes.
        let payload = (0..rest).rfind(|length| 28 + length + length / 255 <= rest);
        let payload = payload.expect("room for a page");
        all.extend(page(9, 0, 0, &[&vec![1; payload]]));
        assert_eq!(all.len(), bytes);
        let stream = [&head[..], &all, &tags, &page(7, 0, 9, &[b"sound"])].concat();
        scan(&stream).1
    };
    assert_eq!(between(256 * 1024), Ok(()));
    assert_eq!(between(256 * 1024 + 1), Err(Unsupported));
}

#[test]
fn a_search_ends_after_a_mebibyte() {
    let begin = [opus(7).concat(), page(7, 0, 960, &[b"sound"])].concat();
    let two = page(7, 0, 960, &[b"sound"]).repeat(2);
    for (between, result) in [(1024 * 1024, Ok(())), (1024 * 1024 + 1, Err(Unsupported))] {
        let stream = [&begin[..], &vec![0; between], &two].concat();
        let nothing: &mut Findings<'_> = &mut |_, _| {};
        let walked = Window::default().walk(&mut Ogg::default(), &stream, 0, nothing);
        assert_eq!(walked, result, "{between} bytes between");
    }
}

#[test]
fn sixteen_streams_are_known_beside_each_other() {
    let begins =
        |count: u32| (0..count).flat_map(|serial| page(serial, BEGIN, 0, &[b"\x01vorbis"]));
    let (mut window, mut ogg) = (Window::default(), Ogg::default());
    let nothing: &mut Findings<'_> = &mut |_, _| {};
    let bytes: Vec<u8> = begins(16).collect();
    assert_eq!(window.walk(&mut ogg, &bytes, 0, nothing), Ok(()));
    assert_eq!(ogg.streams.len(), 16);
    assert_eq!(scan(&begins(17).collect::<Vec<_>>()).1, Err(Unsupported));
    // A stream that begins again begins another link.
    let bytes = [bytes, page(3, BEGIN, 0, &[b"\x01vorbis"])].concat();
    assert_eq!(scan(&bytes).1, Ok(()));
}

#[cfg(feature = "handover")]
#[test]
fn a_handed_over_scanner_that_cannot_be_is_refused() {
    let fits = |streams: u32| {
        let stream = |serial| Stream {
            serial,
            codec: OggCodec::Sound,
            header_packets: 0,
        };
        let streams = (0..streams).map(stream).collect();
        Ogg {
            streams,
            ..Ogg::default()
        }
        .is_valid()
    };
    assert!(fits(0) && fits(16) && !fits(17));
    let told = "0".repeat(1 + HEADER_BYTES_MAX);
    let header = serde_json::json!({
        "current": { "copied": 0, "rest": told },
        "next": { "copied": 0, "rest": "" },
    });
    let header = serde_json::from_value(header).expect("as it is told");
    let ogg = Ogg {
        phase: Phase::Data,
        header,
        ..Ogg::default()
    };
    assert!(!ogg.is_valid());
    for (bytes, fits) in [(HEADER_BYTES_MAX, true), (HEADER_BYTES_MAX + 1, false)] {
        let rewriter = serde_json::json!({
            "serial": 1, "sequence": 1, "packet": "0".repeat(bytes), "is_flac": false,
            "field": "Rest", "at": 0, "count_at": 0, "left_out": 0, "skipped": 0,
        });
        let ogg = Ogg {
            rewriter: Some(serde_json::from_value(rewriter).expect("as it is told")),
            ..Ogg::default()
        };
        assert_eq!(ogg.is_valid(), fits, "{bytes}");
    }
}

/// With the head of a page, without its payload.
#[test]
fn a_page_of_sound_is_reported_as_soon_as_its_head_has_come() {
    let sound = page(2, 0, 960, &[&[1; 200], &[2; 200]]);
    let beside_video = theora_and_vorbis().concat();
    for (begin, serial) in [(opus(7).concat(), 7), (beside_video, 2)] {
        let mut sound = sound.clone();
        sound[14] = serial;
        let head = [&begin[..], &sound[..29]].concat();
        let (findings, _) = scan(&head);
        let units = findings
            .iter()
            .filter(|(found, _)| matches!(found, Finding::Unit(_)));
        assert_eq!(units.count(), 1, "{serial}");
        assert_eq!(joins(&findings).len(), usize::from(serial == 7));
        let (findings, _) = scan(&head[..head.len() - 1]);
        assert!(
            !findings
                .iter()
                .any(|(found, _)| matches!(found, Finding::Unit(_)))
        );
    }
}

/// Packets one after another on pages of at most this many segments, from the second page on.
fn pages_of(packets: &[&[u8]], segments_max: usize) -> Vec<u8> {
    let mut lacing = Vec::new();
    for packet in packets {
        lacing.resize(lacing.len() + packet.len() / 255, 255);
        lacing.push((packet.len() % 255) as u8);
    }
    let (mut pages, mut payload, mut is_continued) = (Vec::new(), &packets.concat()[..], false);
    for (number, lacing) in (1_u32..).zip(lacing.chunks(segments_max)) {
        let length = lacing.iter().map(|lacing| usize::from(*lacing)).sum();
        let mut head = page(7, u8::from(is_continued), 0, &[]);
        head[18..22].copy_from_slice(&number.to_le_bytes());
        head[26] = lacing.len() as u8;
        pages.extend([&head, lacing, &payload[..length]].concat());
        payload = &payload[length..];
        is_continued = lacing.last() == Some(&255);
    }
    pages
}

/// Packets of pages whose numbers and checksums are right, as far as they were rewritten.
fn packets_of(mut pages: &[u8]) -> Vec<Vec<u8>> {
    let (mut packets, mut packet, mut number) = (Vec::new(), Vec::new(), 0);
    while let Ok(page) = Page::read(pages) {
        assert_eq!(page.sequence, number);
        number += 1;
        let (bytes, behind) = pages.split_at(page.length());
        let sum = bytes.iter().enumerate().fold(0_u32, |sum, (at, byte)| {
            let byte = if (22..26).contains(&at) { 0 } else { *byte };
            (0..8).fold(sum ^ u32::from(byte) << 24, |sum, _| {
                sum << 1 ^ if sum >> 31 == 1 { 0x04c1_1db7 } else { 0 }
            })
        });
        assert!(page.begins_stream() || bytes[22..26] == sum.to_le_bytes());
        assert_eq!(page.is_continued(), !packet.is_empty());
        let mut payload = page.payload;
        for lacing in page.lacing {
            let (part, rest) = payload.split_at(usize::from(*lacing));
            packet.extend_from_slice(part);
            payload = rest;
            if *lacing < 255 {
                packets.push(std::mem::take(&mut packet));
            }
        }
        pages = behind;
    }
    assert!(pages.is_empty() && packet.is_empty());
    packets
}

fn comments(before: &[u8], comments: &[&[u8]], behind: &[u8]) -> Vec<u8> {
    let mut bytes = [before, b"\x06\0\0\0vendor"].concat();
    bytes.extend((comments.len() as u32).to_le_bytes());
    for comment in comments {
        bytes.extend((comment.len() as u32).to_le_bytes());
        bytes.extend(*comment);
    }
    [&bytes, behind].concat()
}

/// A FLAC block. Its head has its length.
fn block(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_be_bytes();
    [&[kind], &length[1..], body].concat()
}

#[test]
fn a_late_viewer_gets_long_headers_without_their_pictures() {
    let cover = [&b"METADATA_BLOCK_PICTURE="[..], &vec![b'A'; 300_000]].concat();
    let lyrics = vec![b'l'; 16 * 1024];
    let setup = [&b"\x05vorbis"[..], &vec![5; 70_000]].concat();
    let all: [&[u8]; 6] = [b"T=1", &cover, b"", &lyrics, &cover, b"A=2"];
    let kept: [&[u8]; 4] = [b"T=1", b"", &lyrics, b"A=2"];
    let flac = |comments_: &[&[u8]]| block(4, &comments(b"", comments_, b""));
    let vorbis = |comments_: &[&[u8]]| comments(b"\x03vorbis", comments_, b"\x01");
    let cases = [
        (
            &b"\x01vorbis"[..],
            vec![vorbis(&all), setup.clone()],
            vec![vorbis(&kept), setup],
        ),
        (
            b"OpusHead",
            vec![comments(b"OpusTags", &all, b"\0\0")],
            vec![comments(b"OpusTags", &kept, b"\0\0")],
        ),
        (b"\x7fFLAC\x01\0\0\x01", vec![flac(&all)], vec![flac(&kept)]),
        (
            b"\x7fFLAC\x01\0\0\x01",
            vec![block(0x86, &cover)],
            vec![block(0x81, b"")],
        ),
    ];
    for (first, came, expected) in cases {
        for segments_max in [17, 255] {
            let begin = page(7, BEGIN, 0, &[first]);
            let packets: Vec<&[u8]> = came.iter().map(Vec::as_slice).collect();
            let data = page(7, 0, 960, &[b"\xffsound"]);
            let bytes = [begin, pages_of(&packets, segments_max), data].concat();
            let (findings, result) = scan_in(&bytes, &[100, 65_536], Ogg::default, |_, _| ());
            assert_eq!(result, Ok(()), "{first:x?}");
            let headers = headers(&findings);
            let packets = packets_of(headers[0]);
            assert!(packets[1..] == expected, "{first:x?}");
            let end = bytes.len() as u64 - 34;
            assert_eq!(joins(&findings), [end], "{first:x?}");
        }
    }
}

#[test]
fn comments_that_are_cut_off_stay_only_where_none_is_left_out() {
    for (comment, expected) in [(16 * 1024, Ok(())), (300_000, Err(Unsupported))] {
        let whole = comments(b"OpusTags", &[&vec![b'A'; comment], b"A=2"], b"");
        for length in [10_000, comment, whole.len() - 1] {
            let packet = &whole[..length];
            let begin = page(7, BEGIN, 0, &[b"OpusHead"]);
            let bytes = [begin, pages_of(&[packet], 17)].concat();
            let (findings, result) = scan_in(&bytes, &[65_536], Ogg::default, |_, _| ());
            assert_eq!(result, expected, "{length} of {comment}");
            let packets = headers(&findings).first().map(|header| packets_of(header));
            let as_it_came = vec![b"OpusHead".to_vec(), packet.to_vec()];
            assert!(packets == expected.ok().map(|()| as_it_came));
        }
    }
}
