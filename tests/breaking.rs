//! A source may break off at any byte: viewers have got whole units, so another source can continue.

#![cfg(feature = "hold")]

use tollgate::format::Finding;
use tollgate::format::splice::Splicer;

#[path = "support/corpus.rs"]
#[allow(dead_code, reason = "some of it is used")]
mod corpus;
#[path = "bounds/counting.rs"]
#[allow(dead_code, reason = "only what is held is looked at")]
mod counting;
#[path = "support/made.rs"]
#[allow(dead_code, reason = "some of it is used")]
mod made;
#[path = "support/transport.rs"]
mod transport;

use made::{FLV_HEAD, SOUND_SETUP, VIDEO_SETUP, tag};
use transport::{packet, pes, tables};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const VIDEO: u16 = 0x101;
const SOUND: u16 = 0x102;
const PACKET_BYTES: usize = 188;

fn pid(packet: &[u8]) -> u16 {
    u16::from(packet[1] & 0x1f) << 8 | u16::from(packet[2])
}

/// The packets of each PES packet, by their places, and whether it says how long it is.
fn pes_packets(stream: &[u8]) -> Vec<(Vec<usize>, bool)> {
    let mut all: Vec<(u16, Vec<usize>, bool)> = Vec::new();
    for (place, packet) in stream.chunks(PACKET_BYTES).enumerate() {
        let payload = match packet[3] & 0x30 {
            0x10 => &packet[4..],
            0x30 => packet.get(5 + usize::from(packet[4])..).unwrap_or(&[]),
            _ => &[],
        };
        if packet[1] & 0x40 != 0 && payload.starts_with(&[0, 0, 1]) {
            let has_length = payload[4..6] != [0, 0];
            all.push((pid(packet), vec![place], has_length));
        } else if let Some((_, places, _)) =
            all.iter_mut().rev().find(|(of, ..)| *of == pid(packet))
        {
            places.push(place);
        }
    }
    all.into_iter()
        .map(|(_, places, has_length)| (places, has_length))
        .collect()
}

/// A picture and the sound beside it come at once, as hardware multiplexes them: a packet of the
/// one and a packet of the other, and between them what belongs to neither.
fn interleaved() -> Vec<u8> {
    let tables = tables(&[(0x1b, VIDEO, &[]), (0x0f, SOUND, &[])]);
    let mut stream = tables.clone();
    let key = [
        0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x67, 0x42, 0, 0, 1, 0x65, 0x88,
    ];
    let other = [0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x41, 0x9a, 7];
    for number in 0..12 {
        let seconds = f64::from(number) / 25.0;
        let begin = if number % 6 == 0 { &key[..] } else { &other };
        let picture = [begin, &vec![0x55; 300 + 170 * number as usize]].concat();
        let picture = pes(VIDEO, seconds, &picture);
        let sound = pes(SOUND, seconds, &vec![0x66; 900 - 60 * number as usize]);
        let mut pictures = picture.chunks(PACKET_BYTES);
        let mut sounds = sound.chunks(PACKET_BYTES);
        loop {
            let pair = [pictures.next(), sounds.next()];
            if pair == [None, None] {
                break;
            }
            pair.into_iter()
                .flatten()
                .for_each(|packet| stream.extend(packet));
            stream.extend(packet(0x1fff, false, &[]));
        }
        if number % 4 == 3 {
            stream.extend(&tables);
        }
    }
    stream
}

#[test]
fn of_mpeg_ts_viewers_have_whole_pes_packets_at_every_byte() {
    for stream in [interleaved(), corpus::file("h264.ts")] {
        let all = pes_packets(&stream);
        let (mut splicer, mut out) = (Splicer::new(1 << 20), Vec::new());
        let mut pending_most = 0;
        for (at, byte) in stream.iter().enumerate() {
            splicer.feed(&[*byte], &mut out).expect("like itself");
            let (come, gone) = ((at + 1) / PACKET_BYTES, out.len() / PACKET_BYTES);
            if (at + 1) % PACKET_BYTES != 0 || come < 3 {
                continue;
            }
            assert!(stream.starts_with(&out) && out.len().is_multiple_of(PACKET_BYTES));
            let is_out = |place: &usize| *place < gone;
            for (places, _) in &all {
                let has_part = places.iter().any(is_out) && !places.iter().all(is_out);
                assert!(!has_part, "a part of {places:?} is out, {gone} of {come}");
            }
            // What is held begins with one that may not be whole yet.
            pending_most = pending_most.max(come - gone);
            let first = all.iter().find(|(places, _)| places[0] == gone);
            let is_open = first.is_some_and(|(places, has_length)| {
                let is_shown = *has_length && places.last().is_some_and(|last| *last < come);
                let next = all
                    .iter()
                    .map(|(places, _)| places[0])
                    .find(|next| *next > gone && same_stream(&stream, gone, *next));
                !is_shown && next.is_none_or(|next| next >= come)
            });
            assert!(come == gone || is_open, "{gone} of {come} are out");
        }
        assert!(pending_most > 5, "at most {pending_most} packets were held");
        splicer.finish(&mut out);
        assert!(out == stream, "one source alone loses nothing");
    }
}

fn same_stream(stream: &[u8], one: usize, other: usize) -> bool {
    let at = |place: usize| pid(&stream[place * PACKET_BYTES..]);
    at(one) == at(other)
}

/// Without the marks that a seam has put in: a flag, or a packet for it alone.
fn unmarked(stream: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    for packet in stream.chunks(PACKET_BYTES) {
        let mut packet = packet.to_vec();
        let is_marked = packet[3] & 0x20 != 0 && packet[4] > 0 && packet[5] & 0x80 != 0;
        if is_marked && packet[3] & 0x10 == 0 {
            continue;
        }
        packet[5] ^= if is_marked { 0x80 } else { 0 };
        plain.extend(packet);
    }
    plain
}

/// And of what follows: wherever it broke, the next source's tables come after a whole PES packet.
#[test]
fn a_source_goes_on_behind_a_whole_pes_packet() {
    let stream = interleaved();
    for cut in (2_000..stream.len()).step_by(61) {
        let (mut splicer, mut out) = (Splicer::new(1 << 20), Vec::new());
        splicer.feed(&stream[..cut], &mut out).expect("the first");
        let (format, header) = corpus::had(&out);
        assert!(splicer.break_off(format, header));
        let seam = out.len() / PACKET_BYTES;
        splicer.feed(&stream, &mut out).expect("the same");
        splicer.finish(&mut out);
        let out = unmarked(&out);
        assert!(out.ends_with(&stream[2 * PACKET_BYTES..]));
        for (places, _) in pes_packets(&out) {
            let crosses = places[0] < seam && places.iter().any(|place| *place >= seam);
            assert!(!crosses, "cut at {cut}: {places:?} goes on behind {seam}");
        }
    }
}

/// A camera that is covered, a packet that was lost: the rest does not come, and the others go on.
#[test]
fn what_never_ends_is_not_waited_for() {
    let tables = tables(&[(0x1b, VIDEO, &[]), (0x0f, SOUND, &[])]);
    let sound = |number: u32| pes(SOUND, f64::from(number) / 20.0, &[0x66; 500]);
    let picture = pes(VIDEO, 0.0, &[0x55; 3_000]);
    // A part of the sound, of which its length says that it is not all.
    let part = pes(0x104, 0.0, &[0x77; 3_000])[..8 * PACKET_BYTES].to_vec();
    for open in [picture, part] {
        let (mut splicer, mut out) = (Splicer::new(1 << 20), Vec::new());
        splicer.feed(&tables, &mut out).expect("like itself");
        splicer.feed(&open, &mut out).expect("like itself");
        let before = out.len();
        let mut fed = tables.len() + open.len();
        for number in 0..40 {
            let sound = sound(number);
            fed += sound.len();
            splicer.feed(&sound, &mut out).expect("like itself");
            if number < 10 {
                assert_eq!(out.len(), before, "{number}");
            } else {
                // A clock of 20 a second: after half of one.
                assert_eq!(out.len(), fed, "{number}");
            }
        }
    }
    // Nor is more kept than may be.
    let picture = pes(VIDEO, 0.0, &[0x55; 90_000]);
    let source = [tables, picture].concat();
    let before = counting::memory_bytes();
    let (mut splicer, mut out) = (Splicer::new(20_000), Vec::new());
    splicer.feed(&source, &mut out).expect("like itself");
    assert!(out.len() > 60_000);
    let held = (counting::memory_bytes() - before) as usize - out.capacity();
    assert!(held <= Splicer::memory_bytes_max(20_000), "{held}");
}

/// As encoders write it whose camera is slower than their microphone.
fn sound_first(clock: u32) -> Vec<u8> {
    let mut bytes = [FLV_HEAD, &tag(8, clock, SOUND_SETUP)].concat();
    for number in 0..10 {
        bytes.extend(tag(8, clock + number * 20, &[0xaf, 1, 7, 7, 7]));
    }
    bytes.extend(tag(9, clock + 200, VIDEO_SETUP));
    for number in 10..14 {
        bytes.extend(tag(8, clock + number * 20, &[0xaf, 1, 7, 7, 7]));
    }
    for number in 0..20 {
        let kind = if number % 5 == 0 { 0x17 } else { 0x27 };
        let time = clock + 280 + number * 40;
        bytes.extend(tag(9, time, &[kind, 1, 0, 0, 0, 5, 5]));
        bytes.extend(tag(8, time, &[0xaf, 1, 7, 7, 7]));
    }
    bytes
}

/// The type, the time and the body of each tag.
fn tags(bytes: &[u8]) -> Vec<(u8, u32, Vec<u8>)> {
    let mut rest = bytes.strip_prefix(FLV_HEAD).expect("a head");
    let mut tags = Vec::new();
    while let Some((head, behind)) = rest.split_first_chunk::<11>() {
        let size = u32::from_be_bytes([0, head[1], head[2], head[3]]) as usize;
        let time = u32::from_be_bytes([head[7], head[4], head[5], head[6]]);
        tags.push((head[0], time, behind[..size].to_vec()));
        rest = &behind[size + 4..];
    }
    assert!(rest.is_empty(), "a part of a tag");
    tags
}

#[test]
fn flv_that_broke_before_its_first_key_frame_is_gone_on_with() {
    let (first, second) = (sound_first(0), sound_first(3_600_000));
    let first_key = corpus::findings(&first);
    let first_key = first_key.iter().find_map(|finding| match finding {
        Finding::Join(start) => Some(start.offset as usize),
        _ => None,
    });
    for cut in FLV_HEAD.len()..first_key.expect("a key frame") {
        let (mut splicer, mut out) = (Splicer::new(1 << 20), Vec::new());
        splicer.feed(&first[..cut], &mut out).expect("the first");
        let (format, header) = corpus::had(&out);
        assert!(splicer.break_off(format, header), "cut at {cut}");
        splicer.feed(&second, &mut out).expect("the same tracks");
        let tags = tags(&out);
        // The picture's setup is in front of the picture, and the sound's setup in front of that.
        let place = |wanted: &[u8]| tags.iter().position(|(.., body)| body.starts_with(wanted));
        let key = place(&[0x17, 1]).expect("a key frame");
        assert!(place(VIDEO_SETUP).is_some_and(|setup| setup < key));
        let behind_seam = tags[key..].iter().position(|(kind, ..)| *kind == 8);
        let sound = key + behind_seam.expect("sound");
        assert!(place(SOUND_SETUP).is_some_and(|setup| setup < sound));
        // The second's clock is an hour ahead.
        let times: Vec<_> = tags.iter().map(|(_, time, _)| *time).collect();
        assert!(times.is_sorted(), "cut at {cut}: {times:?}");
        assert!(times.last().is_some_and(|last| *last < 1_200));
        let joins = corpus::findings(&out).into_iter();
        let joins = joins.filter(|finding| matches!(finding, Finding::Join(_)));
        assert_eq!(joins.count(), 4, "cut at {cut}");
    }
    // Another setup of what viewers have had is another stream.
    let other = [
        FLV_HEAD,
        &tag(8, 0, &[0xaf, 0, 0x11, 0x90]),
        &second[13 + 19..],
    ]
    .concat();
    let (mut splicer, mut out) = (Splicer::new(1 << 20), Vec::new());
    splicer.feed(&first[..100], &mut out).expect("the first");
    let (format, header) = corpus::had(&out);
    assert!(splicer.break_off(format, header));
    assert!(splicer.feed(&other, &mut out).is_err());
}

/// A partial frame in front of the next source's first frame would be audible.
#[test]
fn of_sound_viewers_have_whole_frames_at_every_byte() {
    for (name, mark) in [("sound.mp3", 0xfb), ("sound.aac", 0xf1)] {
        let file = corpus::file(name);
        let first = file.windows(2).position(|two| two == [0xff, mark]);
        let (mut splicer, mut out) = (Splicer::new(1 << 20), Vec::new());
        let mut steps = 0;
        for byte in &file {
            let before = out.len();
            splicer.feed(&[*byte], &mut out).expect("like itself");
            assert!(file.starts_with(&out));
            let is_frame = out.len() > before && out.len() < file.len();
            if is_frame && out.len() > first.expect("a frame") {
                assert_eq!(file[out.len()], 0xff, "{name}: {} are out", out.len());
                steps += 1;
            }
        }
        assert!(steps > 50, "{name}: {steps}");
        splicer.finish(&mut out);
        assert!(out == file, "one source alone loses nothing");
    }
}

/// What goes out before it is clear that it is sound is not sent again, nor is more of it held back
/// than of what follows, however it comes.
#[test]
fn sound_that_is_told_late_goes_out_alike_however_it_comes() {
    let file = corpus::file("sound.aac");
    for from in (0..400).step_by(13) {
        let source = [&vec![0; from % 5 * 300][..], &file[from..]].concat();
        for cut in (900..4_000).step_by(97) {
            let spliced = |piece: usize| {
                let (mut splicer, mut out) = (Splicer::new(1 << 20), Vec::new());
                for bytes in source[..cut].chunks(piece) {
                    splicer.feed(bytes, &mut out).expect("the first");
                }
                let before = out.len();
                let (format, header) = corpus::had(&out);
                if splicer.break_off(format, header) {
                    splicer.feed(&file, &mut out).expect("the same");
                } else {
                    assert!(before == cut, "it goes out as it comes");
                }
                splicer.finish(&mut out);
                (before, out)
            };
            let whole = spliced(usize::MAX);
            assert!(source.starts_with(&whole.1[..whole.0]));
            for piece in [1, 250] {
                let (_, out) = spliced(piece);
                assert!(out == whole.1, "from {from}, cut at {cut}, by {piece}");
            }
        }
    }
}
