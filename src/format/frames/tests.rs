use super::super::window::Window;
use super::*;

/// MPEG 1 layer III at 128 kbit/s and 44.1 kHz.
fn mpeg_frame() -> Vec<u8> {
    filled(&[0xFF, 0xFB, 0x90, 0x00], 417)
}

fn adts_frame(length: usize) -> Vec<u8> {
    let [high, low] = (length as u16).to_be_bytes();
    filled(
        &[
            0xFF,
            0xF1,
            0x50,
            0x80 | high >> 3,
            high << 5 | low >> 3,
            low << 5 | 0x1F,
            0xFC,
        ],
        length,
    )
}

fn filled(head: &[u8], length: usize) -> Vec<u8> {
    let mut frame = head.to_vec();
    frame.resize(length, 0x55);
    frame
}

fn tag(size: usize) -> Vec<u8> {
    let digit = |shift: usize| (size >> shift & 0x7F) as u8;
    let mut tag = vec![
        b'I',
        b'D',
        b'3',
        4,
        0,
        0,
        digit(21),
        digit(14),
        digit(7),
        digit(0),
    ];
    // Full of what looks like heads.
    tag.extend(mpeg_frame().into_iter().cycle().take(size));
    tag
}

/// What a scanner finds, however the bytes are cut.
fn scan(bytes: &[u8], new: fn() -> Walk) -> (Vec<Finding>, Result<(), LetGo>) {
    let pieces = |size: usize| {
        let (mut window, mut walk) = (Window::default(), new());
        let (mut findings, mut offset) = (Vec::new(), 0);
        for piece in bytes.chunks(size) {
            let mut found = |finding, _: Header<'_>| findings.push(finding);
            let found: &mut Findings<'_> = &mut found;
            if window.walk(&mut walk, piece, offset, found) == Err(LetGo) {
                return (findings, Err(LetGo));
            }
            offset += piece.len() as u64;
        }
        (findings, Ok(()))
    };
    let whole = pieces(bytes.len().max(1));
    for size in [1, 2, 3, 5, 11, 416, 417, 1000, 4096] {
        assert!(pieces(size) == whole, "pieces of {size}");
    }
    whole
}

fn mp3() -> Walk {
    Walk::new(Format::Mp3)
}

fn aac() -> Walk {
    Walk::new(Format::Aac)
}

fn joins(findings: &[Finding]) -> Vec<u64> {
    findings
        .iter()
        .filter_map(|finding| {
            if let Finding::Join(start) = finding {
                Some(start.offset)
            } else {
                None
            }
        })
        .collect()
}

fn units(findings: &[Finding]) -> Vec<u64> {
    findings
        .iter()
        .filter_map(|finding| {
            if let Finding::Unit(start) = finding {
                Some(start.offset)
            } else {
                None
            }
        })
        .collect()
}

#[test]
fn frame_heads_are_joins_and_units_some_way_apart() {
    let (findings, result) = scan(&mpeg_frame().repeat(30), mp3);
    assert_eq!(result, Ok(()));
    assert_eq!(
        joins(&findings),
        (0..10).map(|index| index * 3 * 417).collect::<Vec<_>>()
    );
    assert_eq!(units(&findings), [0, 12 * 417, 24 * 417]);
    let (findings, _) = scan(&adts_frame(2000).repeat(4), aac);
    assert_eq!(joins(&findings), [0, 2000, 4000, 6000]);
    assert_eq!(units(&findings), [0, 6000]);
}

#[test]
fn tags_are_counted_not_searched() {
    let bytes = [
        tag(5000),
        tag(10),
        mpeg_frame().repeat(3),
        tag(3000),
        mpeg_frame().repeat(3),
    ]
    .concat();
    let (findings, _) = scan(&bytes, mp3);
    assert_eq!(joins(&findings), [5030, 5030 + 3 * 417 + 3010]);
}

#[test]
fn frames_behind_a_tag_correct_the_format() {
    let (findings, _) = scan(&[tag(300), adts_frame(1500).repeat(3)].concat(), mp3);
    assert_eq!(findings.first(), Some(&Finding::Format(Format::Aac)));
    assert_eq!(joins(&findings), [310, 1810, 3310]);
}

#[test]
fn statistics_are_no_place_to_join() {
    for (at, mark) in [(36, b"Xing"), (36, b"Info"), (36, b"VBRI")] {
        let mut statistics = mpeg_frame();
        statistics[at..at + 4].copy_from_slice(mark);
        let (findings, _) = scan(&[statistics, mpeg_frame().repeat(3)].concat(), mp3);
        assert_eq!(joins(&findings), [417]);
        assert_eq!(units(&findings), [417]);
    }
}

#[test]
fn lost_sync_is_found_where_two_frames_stand_in_a_row() {
    let damaged = [
        mpeg_frame().repeat(3),
        vec![0; 700],
        mpeg_frame()[..50].to_vec(),
        mpeg_frame().repeat(3),
    ]
    .concat();
    assert_eq!(joins(&scan(&damaged, mp3).0), [0, 3 * 417 + 750]);
    // The cut frame's length leads into the next one; the one after that is in step again.
    let damaged = [
        adts_frame(1100).repeat(2),
        adts_frame(1100)[..900].to_vec(),
        adts_frame(1200).repeat(3),
    ]
    .concat();
    assert_eq!(joins(&scan(&damaged, aac).0), [0, 1100, 2200, 4300, 5500]);
}

#[test]
fn another_rate_goes_on_after_two_frames() {
    // 48 kHz: 384 bytes.
    let other = filled(&[0xFF, 0xFB, 0x94, 0x00], 384);
    let (findings, _) = scan(&[mpeg_frame().repeat(3), other.repeat(4)].concat(), mp3);
    assert_eq!(joins(&findings), [0, 3 * 417, 3 * 417 + 3 * 384]);
}

#[test]
fn what_never_comes_into_step_is_let_go() {
    let bytes: Vec<u8> = [tag(20), vec![0xFF; SEARCH_BYTES_MAX as usize + 100]].concat();
    let mut findings = Vec::new();
    for mut walk in [mp3(), aac()] {
        let mut found = |finding, _: Header<'_>| findings.push(finding);
        let found: &mut Findings<'_> = &mut found;
        let walked = Window::default().walk(&mut walk, &bytes, 0, found);
        assert_eq!(walked, Err(LetGo));
    }
    assert_eq!(findings, []);
}

#[test]
fn three_frames_tell_the_codec() {
    let frames = mpeg_frame().repeat(3);
    for length in 0..frames.len() {
        let expected = if length < 2 * 417 + HEAD_BYTES {
            Chain::More
        } else {
            Chain::Yes(Codec::Mpeg)
        };
        assert_eq!(detect(&frames[..length]), expected);
    }
    let frames = adts_frame(700).repeat(3);
    assert_eq!(detect(&frames[..1400]), Chain::More);
    assert_eq!(detect(&frames), Chain::Yes(Codec::Adts));
    assert_eq!(
        detect(&[mpeg_frame(), mpeg_frame(), vec![0]].concat()),
        Chain::No
    );
    assert_eq!(detect(b"\0"), Chain::No);
}

#[test]
fn frames_are_as_long_as_their_heads_say() {
    for (head, length) in [
        ([0xFF, 0xFB, 0x92, 0x00], 418),
        ([0xFF, 0xFA, 0xE4, 0x00], 960),
        ([0xFF, 0xF3, 0x80, 0xC0], 208),
        ([0xFF, 0xE3, 0x18, 0xC4], 72),
        ([0xFF, 0xFD, 0xC0, 0x04], 835),
        ([0xFF, 0xF5, 0x84, 0x00], 384),
        ([0xFF, 0xFF, 0xE4, 0x00], 448),
        ([0xFF, 0xF7, 0x16, 0x00], 68),
    ] {
        assert_eq!(
            detect(&filled(&head, length).repeat(3)),
            Chain::Yes(Codec::Mpeg),
            "{head:x?}"
        );
    }
    for refused in [
        [0xFF, 0xFB, 0x00, 0x00],
        [0xFF, 0xFB, 0xF0, 0x00],
        [0xFF, 0xFB, 0x9C, 0x00],
        [0xFF, 0xEB, 0x90, 0x00],
        [0xFF, 0xFB, 0x90, 0x02],
    ] {
        assert_eq!(detect(&filled(&refused, 6)), Chain::No, "{refused:x?}");
    }
    assert_eq!(detect(&adts_frame(6)), Chain::No);
    assert_eq!(
        detect(&filled(&[0xFF, 0xF1, 0x74, 0x80, 0x20, 0x00], 6)),
        Chain::No
    );
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
    for _ in 0..60 {
        let mut bytes = Vec::new();
        while bytes.len() < 9000 {
            match next() % 6 {
                0 => bytes.extend(mpeg_frame()),
                1 => bytes.extend(adts_frame(7 + (next() % 1500) as usize)),
                2 => bytes.extend(tag((next() % 400) as usize)),
                3 => bytes.extend([0xFF, next() as u8, next() as u8, next() as u8]),
                4 => bytes.extend(next().to_le_bytes()),
                _ => bytes.truncate(bytes.len().saturating_sub((next() % 40) as usize)),
            }
        }
        for new in [mp3, aac] {
            let (findings, _) = scan(&bytes, new);
            assert!(
                joins(&findings)
                    .windows(2)
                    .all(|pair| pair[1] - pair[0] >= JOIN_SPACING)
            );
            assert!(
                units(&findings)
                    .windows(2)
                    .all(|pair| pair[1] - pair[0] >= UNIT_SPACING)
            );
        }
    }
}
