use super::super::window::Window;
use super::*;

const BEGIN: u8 = 0x02;
const END: u8 = 0x04;

/// A page of whole packets. Its checksum is left zero.
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

/// A finding, and the header if it is one.
type Found = (Finding, Option<Vec<u8>>);

/// What a scanner finds, however the bytes are cut.
fn scan(bytes: &[u8]) -> (Vec<Found>, Result<(), LetGo>) {
    let pieces = |size: usize| {
        let (mut window, mut ogg) = (Window::default(), Ogg::default());
        let (mut findings, mut offset) = (Vec::new(), 0);
        for piece in bytes.chunks(size) {
            let mut found = |finding, header: Header<'_>| {
                let header = (finding == Finding::Header).then(|| header.to_vec());
                findings.push((finding, header));
            };
            let found: &mut Findings<'_> = &mut found;
            if window.walk(&mut ogg, piece, offset, found) == Err(LetGo) {
                return (findings, Err(LetGo));
            }
            offset += piece.len() as u64;
        }
        (findings, Ok(()))
    };
    let whole = pieces(bytes.len().max(1));
    for size in [1, 2, 3, 27, 100, 1000, 65_536] {
        assert!(pieces(size) == whole, "pieces of {size}");
    }
    whole
}

/// The pages one after another, and where each begins.
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
    // Wherever on a page it begins, if it does.
    let keys = [9, 10, 12, 14].map(|page| begins[page]);
    assert_eq!(joins(&findings), keys);
}

#[test]
fn pages_that_begin_packets_are_joins_where_there_is_sound_only() {
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
    // The rest of a packet is no one's: who begins there drops it.
    let joined = [2, 4, 6, 8].map(|page| begins[page]);
    assert_eq!(joins(&findings), joined);
}

#[test]
fn units_stand_some_way_apart() {
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
fn lost_pages_are_passed_over() {
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
fn what_is_not_understood_is_let_go() {
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
        assert_eq!(scan(&bytes), (Vec::new(), Err(LetGo)));
    }
    let lost = [
        opus(7).concat(),
        page(7, 0, 960, &[b"sound"]),
        vec![0; SEARCH_BYTES_MAX as usize + 100],
    ]
    .concat();
    let nothing: &mut Findings<'_> = &mut |_, _| {};
    let walked = Window::default().walk(&mut Ogg::default(), &lost, 0, nothing);
    assert_eq!(walked, Err(LetGo));
}

#[test]
fn any_bytes_are_scanned_alike_however_cut() {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
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
