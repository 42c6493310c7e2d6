use super::super::window::Window;
use super::*;
use crate::random::Random;

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
    // Full of bytes that look like heads.
    tag.extend(mpeg_frame().into_iter().cycle().take(size));
    tag
}

/// Returns whether a stream begins with frames.
fn detect(bytes: &[u8]) -> Result<SoundCodec, Unread> {
    row(bytes, None, PROOF_FRAMES).map(|frame| frame.codec())
}

/// Returns the findings, which do not depend on how the bytes are cut.
fn scan(bytes: &[u8], new: fn() -> Sound) -> (Vec<Finding>, Result<(), Unsupported>) {
    let pieces = |size: usize| {
        let (mut window, mut walk) = (Window::default(), new());
        let (mut findings, mut offset) = (Vec::new(), 0);
        for piece in bytes.chunks(size) {
            let mut found = |finding, _: Header<'_>| findings.push(finding);
            let found: &mut Findings<'_> = &mut found;
            if window.walk(&mut walk, piece, offset, found) == Err(Unsupported) {
                return (findings, Err(Unsupported));
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

fn mp3() -> Sound {
    Sound::new(Format::Mp3)
}

fn aac() -> Sound {
    Sound::new(Format::Aac)
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
fn frame_heads_are_joins_and_units_with_spacing() {
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
fn tags_are_skipped_by_their_length() {
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
fn the_frames_after_a_tag_correct_the_format() {
    let (findings, _) = scan(&[tag(300), adts_frame(1500).repeat(3)].concat(), mp3);
    assert_eq!(findings.first(), Some(&Finding::Format(Format::Aac)));
    assert_eq!(joins(&findings), [310, 1810, 3310]);
}

#[test]
fn a_frame_of_statistics_is_not_a_join() {
    for (at, mark) in [(36, b"Xing"), (36, b"Info"), (36, b"VBRI")] {
        let mut statistics = mpeg_frame();
        statistics[at..at + 4].copy_from_slice(mark);
        let (findings, _) = scan(&[statistics, mpeg_frame().repeat(3)].concat(), mp3);
        assert_eq!(joins(&findings), [417]);
        assert_eq!(units(&findings), [417]);
    }
}

#[test]
fn lost_sync_is_found_again_at_two_frames_in_a_row() {
    let damaged = [
        mpeg_frame().repeat(3),
        vec![0; 700],
        mpeg_frame()[..50].to_vec(),
        mpeg_frame().repeat(3),
    ]
    .concat();
    assert_eq!(joins(&scan(&damaged, mp3).0), [0, 3 * 417 + 750]);
    // The cut frame's length leads into the next frame. The walk is in step again at the one after
    // that.
    let damaged = [
        adts_frame(1100).repeat(2),
        adts_frame(1100)[..900].to_vec(),
        adts_frame(1200).repeat(3),
    ]
    .concat();
    assert_eq!(joins(&scan(&damaged, aac).0), [0, 1100, 2200, 4300, 5500]);
}

#[test]
fn another_rate_counts_after_two_frames() {
    // 48 kHz: 384 bytes.
    let other = filled(&[0xFF, 0xFB, 0x94, 0x00], 384);
    let (findings, _) = scan(&[mpeg_frame().repeat(3), other.repeat(4)].concat(), mp3);
    assert_eq!(joins(&findings), [0, 3 * 417, 3 * 417 + 3 * 384]);
}

#[test]
fn a_stream_without_frames_in_a_row_is_given_up() {
    let bytes: Vec<u8> = [tag(20), vec![0xFF; SEARCH_BYTES_MAX as usize + 100]].concat();
    let mut findings = Vec::new();
    for mut walk in [mp3(), aac()] {
        let mut found = |finding, _: Header<'_>| findings.push(finding);
        let found: &mut Findings<'_> = &mut found;
        let walked = Window::default().walk(&mut walk, &bytes, 0, found);
        assert_eq!(walked, Err(Unsupported));
    }
    assert_eq!(findings, []);
}

#[test]
fn three_frames_prove_the_codec() {
    let frames = mpeg_frame().repeat(3);
    for length in 0..frames.len() {
        let told = detect(&frames[..length]);
        if length < 2 * 417 + HEAD_BYTES {
            assert!(matches!(told, Err(Unread::Needs(needed)) if needed > length));
        } else {
            assert_eq!(told, Ok(SoundCodec::Mpeg));
        }
    }
    let frames = adts_frame(700).repeat(3);
    assert_eq!(detect(&frames[..1400]), Err(Unread::Needs(1401)));
    assert_eq!(detect(&frames), Ok(SoundCodec::Adts));
    assert_eq!(
        detect(&[mpeg_frame(), mpeg_frame(), vec![0]].concat()),
        Err(Unsupported.into())
    );
    assert_eq!(detect(b"\0"), Err(Unsupported.into()));
}

#[test]
fn a_head_says_the_length_of_its_frame() {
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
            Ok(SoundCodec::Mpeg),
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
        assert_eq!(
            detect(&filled(&refused, 6)),
            Err(Unsupported.into()),
            "{refused:x?}"
        );
    }
    assert_eq!(detect(&adts_frame(6)), Err(Unsupported.into()));
    assert_eq!(
        detect(&filled(&[0xFF, 0xF1, 0x74, 0x80, 0x20, 0x00], 6)),
        Err(Unsupported.into())
    );
}

#[test]
fn any_bytes_give_the_same_findings_however_they_are_cut() {
    let mut random = Random::new(1);
    let mut next = || random.draw();
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
                    .all(|pair| pair[1] - pair[0] >= SOUND_SPACING)
            );
            assert!(
                units(&findings)
                    .windows(2)
                    .all(|pair| pair[1] - pair[0] >= UNIT_SPACING)
            );
        }
    }
}

/// For each version and layer: the length and the duration of its frames.
#[test]
fn a_head_tells_its_frames_length_and_time() {
    for (head, length, samples) in [
        ([0xFF, 0xFB, 0x90, 0x00], 417, (1152, 44_100)),
        ([0xFF, 0xFB, 0x92, 0x01], 418, (1152, 44_100)),
        ([0xFF, 0xFD, 0xA4, 0x00], 576, (1152, 48_000)),
        ([0xFF, 0xFF, 0x48, 0x00], 192, (384, 32_000)),
        ([0xFF, 0xFF, 0x4A, 0x03], 196, (384, 32_000)),
        ([0xFF, 0xF3, 0x80, 0x00], 208, (576, 22_050)),
        ([0xFF, 0xF5, 0x84, 0x00], 384, (1152, 24_000)),
        ([0xFF, 0xF7, 0x88, 0x00], 384, (384, 16_000)),
        ([0xFF, 0xE3, 0x88, 0x00], 576, (576, 8_000)),
    ] {
        let frame = Frame::read(&filled(&head, 16), 0).expect("a frame");
        assert_eq!((frame.length(), frame.samples()), (length, samples));
    }
    for bad in [
        [0xFF, 0xEB, 0x90, 0x00],
        [0xFF, 0xFB, 0x00, 0x00],
        [0xFF, 0xFB, 0xF0, 0x00],
        [0xFF, 0xFB, 0x9C, 0x00],
        [0xFF, 0xFB, 0x90, 0x02],
        [0xFF, 0xDB, 0x90, 0x00],
        [0xFE, 0xFB, 0x90, 0x00],
    ] {
        let read = Frame::read(&filled(&bad, 16), 0);
        assert_eq!(read.err(), Some(Unsupported.into()), "{bad:x?}");
    }
}

#[test]
fn a_head_of_adts_tells_its_frames_length_and_time() {
    for length in [7, 255, 2047, 2048, 8191] {
        let frame = Frame::read(&adts_frame(length), 0).expect("a frame");
        assert_eq!((frame.length(), frame.samples()), (length, (1024, 44_100)));
    }
    assert!(Frame::read(&adts_frame(6), 0).is_err());
    for (index, rate) in [(0, 96_000), (3, 48_000), (11, 8_000), (12, 7_350)] {
        // Profile, a private bit and channels are in the same byte.
        let mut frame = adts_frame(64);
        frame[2] = 0x43 | index << 2;
        let frame = Frame::read(&frame, 0).expect("a frame");
        assert_eq!(frame.samples(), (1024, rate));
    }
    let mut frame = adts_frame(64);
    frame[2] = 13 << 2;
    assert!(Frame::read(&frame, 0).is_err());
}

/// A look asks for exactly as many bytes as it needs.
#[test]
fn a_head_that_is_cut_off_asks_for_the_bytes_it_needs() {
    let frame = mpeg_frame();
    for (bytes, at, needs) in [
        (&frame[..0], 0, 1),
        (&frame[..1], 0, 2),
        (&frame[..2], 0, LENGTH_BYTES),
        (&frame[..3], 0, HEAD_BYTES),
        (&[0, 0, 0, 0xFF], 3, 3 + 2),
        (&[0, 0, 0xFF, 0xFB], 2, 2 + LENGTH_BYTES),
    ] {
        let read = Frame::read(bytes, at);
        assert_eq!(read.err(), Some(Unread::Needs(needs)), "{bytes:x?} at {at}");
    }
    // The third byte shows that no frame has such a rate.
    let read = Frame::read(&[0xFF, 0xFB, 0xFF], 0);
    assert_eq!(read.err(), Some(Unsupported.into()));
}

#[test]
fn a_tag_tells_its_length() {
    for (head, read) in [
        (&b"ID3\x04\0\0\0\0\x02\x2C"[..], Ok(310)),
        (b"ID3\x04\0\x10\0\0\x02\x2C", Ok(320)),
        (b"ID3\x04\0\xEF\0\0\x02\x2C", Ok(310)),
        (b"ID3\x04\0\0\x01\x01\x01\x01", Ok(2_113_675)),
        (b"ID3\xFF\0\0\0\0\x02\x2C", Err(Unsupported.into())),
        (b"ID3\x04\xFF\0\0\0\x02\x2C", Err(Unsupported.into())),
        (b"ID3\x04\0\0\0\0\x80\x2C", Err(Unsupported.into())),
        (b"ID4\x04\0\0\0\0\x02\x2C", Err(Unsupported.into())),
        (b"", Err(Unread::Needs(1))),
        (b"ID", Err(Unread::Needs(3))),
        (b"ID3", Err(Unread::Needs(TAG_HEAD_BYTES))),
        (b"ID3\x04\0\0\0\0\x02", Err(Unread::Needs(TAG_HEAD_BYTES))),
    ] {
        assert_eq!(super::tag(head), read, "{head:x?}");
    }
}

/// In ticks of 90 kHz, by the samples before. Each rate counts its own.
#[test]
fn the_time_of_a_frame_counts_the_samples_before_it() {
    let times = |bytes: &[u8], new: fn() -> Sound| {
        let found = scan(bytes, new)
            .0
            .into_iter()
            .filter_map(|finding| match finding {
                Finding::Time(at, time) => Some((at, time.ticks())),
                _ => None,
            });
        found.collect::<Vec<_>>()
    };
    // 3,456 samples at 44.1 kHz, and as many at 48.
    let other = filled(&[0xFF, 0xFB, 0x94, 0x00], 384);
    let bytes = [mpeg_frame().repeat(3), other.repeat(4)].concat();
    assert_eq!(times(&bytes, mp3), [(0, 0), (1251, 7_053), (2403, 13_533)]);
    let bytes = adts_frame(1100).repeat(5);
    let expected = [
        (0, 0),
        (1100, 2_089),
        (2200, 4_179),
        (3300, 6_269),
        (4400, 8_359),
    ];
    assert_eq!(times(&bytes, aac), expected);
}

/// A frame of another rate does not belong to the row.
#[test]
fn frames_in_a_row_are_alike() {
    // 48 kHz: 384 bytes. Then other layers, versions and codecs.
    for other in [
        filled(&[0xFF, 0xFB, 0x94, 0x00], 384),
        filled(&[0xFF, 0xFD, 0xA4, 0x00], 576),
        filled(&[0xFF, 0xF3, 0x80, 0x00], 208),
        adts_frame(300),
    ] {
        let three = [mpeg_frame(), mpeg_frame(), other.clone()].concat();
        assert_eq!(
            detect(&three),
            Err(Unsupported.into()),
            "{:x?}",
            &other[..4]
        );
        let bytes = [&mpeg_frame().repeat(3)[..], &other, &mpeg_frame().repeat(4)].concat();
        let after = (3 * 417 + other.len()) as u64;
        assert_eq!(joins(&scan(&bytes, mp3).0), [0, after, after + 3 * 417]);
    }
}

/// A search passes the positions at which a reader of heads finds none, and no other, wherever the
/// bytes end.
#[test]
fn a_search_and_a_reader_agree() {
    let mut random = Random::new(3);
    let often = [0xff, 0xff, 0xfb, 0xf1, 0xe2, 0x90, 0x50, 0x80, 0x00, 0x0c];
    let mut heads = 0;
    for _ in 0..20_000 {
        let byte = |random: &mut Random| match random.draw() as usize % 12 {
            index @ 0..10 => often[index],
            _ => random.draw() as u8,
        };
        let bytes: Vec<u8> = (0..12).map(|_| byte(&mut random)).collect();
        let found = next_head(&bytes, 0);
        for at in 0..found {
            let frame = Frame::read(&bytes, at);
            assert!(matches!(frame, Err(Unread::Other(_))), "{bytes:x?} {at}");
        }
        if found + HEAD_BYTES > bytes.len() {
            let frame = Frame::read(&bytes, found);
            assert!(matches!(frame, Err(Unread::Needs(_))), "{bytes:x?} {found}");
        }
        heads += usize::from(found < bytes.len());
    }
    assert!(heads > 5_000, "{heads}");
}
