//! What is made of a source in another container, as its specification sees it.
#![cfg(feature = "default")]

#[path = "support/analyser.rs"]
mod analyser;
#[path = "support/corpus.rs"]
#[allow(dead_code)]
mod corpus;
#[path = "bounds/counting.rs"]
#[allow(dead_code, reason = "only what is held is looked at")]
mod counting;
#[path = "support/made.rs"]
#[allow(dead_code)]
mod made;
#[path = "support/spliced.rs"]
mod spliced;
#[path = "support/transport.rs"]
#[allow(dead_code)]
mod transport;

use analyser::analyse;
use spliced::spliced;
use tollgate::format::Format;
use tollgate::remux::{Reader, ReaderEvent, Remuxer, Target};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const UNIT_BYTES_MAX: usize = 1 << 20;
/// AAC of two channels, 48,000 samples a second, as a tag of FLV sets it up.
const SOUND_48: &[u8] = &[0xaf, 0, 0x11, 0x90];

/// Files of the corpus that have pictures and sound.
const FILES: &[(&str, Format)] = &[
    ("h264.flv", Format::Flv),
    ("h264.mkv", Format::Matroska),
    ("h264.mp4", Format::Mp4),
    ("h264.ts", Format::MpegTs),
];

fn files() -> impl Iterator<Item = (&'static str, Format, Vec<u8>)> {
    FILES
        .iter()
        .filter(|(_, format)| Remuxer::new(*format, Target::MpegTs, UNIT_BYTES_MAX).is_some())
        .map(|(name, format)| (*name, *format, corpus::file(name)))
}

/// Returns the output for a file that is sent `times` times, in pieces of these sizes.
fn remuxed(
    (format, file): (Format, &[u8]),
    to: Target,
    times: usize,
    mut pieces: impl Iterator<Item = usize>,
) -> Vec<u8> {
    let stream = spliced((format, file), times);
    let before = counting::memory_bytes();
    let mut remuxer = Remuxer::new(format, to, UNIT_BYTES_MAX).expect("it can be read");
    let mut out = Vec::new();
    let mut rest = &stream[..];
    while !rest.is_empty() {
        let piece = pieces.next().unwrap_or(rest.len()).clamp(1, rest.len());
        let (now, later) = rest.split_at(piece);
        remuxer
            .feed(now, &mut (1 << 40), &mut out)
            .expect("it is understood");
        let held = (counting::memory_bytes() - before) as usize - out.capacity();
        assert!(held <= Remuxer::memory_bytes_max(UNIT_BYTES_MAX), "{held}");
        rest = later;
    }
    remuxer.finish(&mut out).expect("it is understood");
    assert!(remuxer.left_out().is_empty(), "{:?}", remuxer.left_out());
    out
}

/// Packets of MPEG-TS, and whether each begins a picture that its encoder marks.
fn packets(file: &[u8]) -> impl Iterator<Item = (&[u8], bool)> {
    let is_marked =
        |packet: &[u8]| packet[1] & 0x40 != 0 && packet[3] & 0x20 != 0 && packet[5] & 0x40 != 0;
    file.chunks(188)
        .map(move |packet| (packet, packet[1..3] == [0x41, 0] && is_marked(packet)))
}

/// As a tuner finds it: sound is there at once, and the first picture that can be decoded later.
#[test]
fn a_source_within_a_group_has_one_header_with_its_video() {
    let file = corpus::file("h264.ts");
    let mut keys = 0;
    let late = packets(&file).filter(|(packet, is_key)| {
        keys += usize::from(*is_key);
        keys > 1 || packet[1] & 0x1f != 1 || packet[2] != 0
    });
    let late: Vec<u8> = late.flat_map(|(packet, _)| packet.to_vec()).collect();
    assert!(keys > 1 && late.len() < file.len());
    let made = remuxed((Format::MpegTs, &late), Target::Mp4, 1, std::iter::empty());
    let count = |name: &[u8; 4]| made.windows(4).filter(|bytes| bytes == name).count();
    assert_eq!((count(b"moov"), count(b"vide")), (1, 1));
}

/// The first parameter sets come eight seconds after the first sound.
#[test]
fn sound_waits_for_the_parameter_sets_of_pictures_that_come() {
    let file = corpus::file("h264.ts");
    let at = |nal: &[u8]| {
        let found = file.windows(4).position(|bytes| bytes == nal);
        found.expect("it is there")
    };
    let sets = &file[at(&[0, 0, 1, 0x67])..at(&[0, 0, 1, 0x06])];
    let key = [sets, &[0, 0, 1, 0x65, 0x88, 0x84, 7, 8, 9]].concat();
    let other = [0, 0, 1, 0x41, 0x9a, 7, 8, 9];
    let mut sound = vec![0xff, 0xf1, 0x4c, 0x80, 0x20, 0x1f, 0xfc];
    sound.resize(256, 0x55);
    let mut source = transport::tables(&[(0x1b, 0x101, &[][..]), (0x0f, 0x102, &[][..])]);
    for number in 0..300 {
        let is_key = number >= 200 && number % 50 == 0;
        let picture = if is_key { &key[..] } else { &other };
        let seconds = f64::from(number) * 0.04;
        source.extend(transport::pes(0x101, seconds, picture));
        source.extend(transport::pes(0x102, seconds, &sound));
    }
    let mut counters = [0; 0x200];
    for packet in source.chunks_mut(188) {
        let counter = &mut counters[usize::from(u16::from_be_bytes([packet[1] & 1, packet[2]]))];
        packet[3] |= *counter;
        *counter = (*counter + 1) % 16;
    }
    let from = (Format::MpegTs, &source[..]);
    let made = remuxed(from, Target::Mp4, 1, std::iter::empty());
    let count = |name: &[u8; 4]| made.windows(4).filter(|bytes| bytes == name).count();
    assert_eq!((count(b"moov"), count(b"avc1"), count(b"mp4a")), (1, 1, 1));
}

/// As a late viewer gets them: in a PES packet without times in front of the key picture.
#[test]
fn a_key_picture_behind_a_pes_packet_of_its_sets_is_carried() {
    let file = corpus::file("h264.ts");
    let at = |nal: &[u8]| {
        file.windows(4)
            .position(|bytes| bytes == nal)
            .expect("it is there")
    };
    let (sets, behind) = (at(&[0, 0, 1, 0x67]), at(&[0, 0, 1, 0x06]));
    let pes = [&[0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0, 0], &file[sets..behind]].concat();
    let first = 188
        * packets(&file)
            .position(|(_, is_key)| is_key)
            .expect("a key picture");
    let mut packet = transport::packet(0x100, true, &pes);
    packet[3] |= file[first + 3].wrapping_sub(1) & 0x0f;
    let file_behind = [&file[..first], &packet, &file[first..]].concat();
    let pictures = |file: &[u8]| {
        let mut times = Vec::new();
        let mut reader = Reader::new(Format::MpegTs, UNIT_BYTES_MAX).expect("it can be read");
        let mut hear = |heard: ReaderEvent<'_>| {
            if let ReaderEvent::Unit(unit) = heard {
                times.push((unit.track, unit.present, unit.is_join));
            }
            Ok(())
        };
        reader.feed(file, &mut hear).expect("it is understood");
        reader.finish(&mut hear).expect("it is understood");
        times
    };
    assert_eq!(pictures(&file_behind), pictures(&file));
}

/// Bytes that wait for a decoder of H.264 (ITU-T H.264 table A-1: MaxCPB, in units of 1,200 bits).
const PICTURES_OF_LEVEL_1: usize = 175 * 1_200 / 8;
const PICTURES_OF_LEVEL_4: usize = 25_000 * 1_200 / 8;

#[test]
fn an_hour_of_mpeg_ts_has_no_error() {
    for (name, format, file) in files() {
        let once = analyse(&remuxed(
            (format, &file),
            Target::MpegTs,
            1,
            std::iter::empty(),
        ));
        assert!(once.errors.is_empty(), "{name}: {:#?}", once.errors);
        let times = if name == "h264.flv" { 1_800 } else { 40 };
        let found = analyse(&remuxed(
            (format, &file),
            Target::MpegTs,
            times,
            std::iter::empty(),
        ));
        assert!(found.errors.is_empty(), "{name}: {:#?}", found.errors);
        println!(
            "{name}: {} packets, clock every {:.3} s, tables every {:.3} s, whole {:.3} s before it \
             is decoded, buffers of {:?} bytes behind {:.0?}",
            found.packets,
            found.clock_gap,
            found.tables_gap,
            found.margin,
            found.buffered,
            found.transport
        );
        assert!(found.clock_gap <= 0.1 && found.tables_gap <= 0.1 && found.margin >= 0.0);
        for (pid, units) in &found.units {
            // Of MPEG-TS the end of a last PES packet, of a picture or of a few frames of sound,
            // would show with the next one only.
            let whole = once.units[pid].len() * times;
            let lost = whole - units.len();
            let may_lose = if format == Format::MpegTs {
                6 * times
            } else {
                0
            };
            assert!(
                lost <= may_lose,
                "{name}: {pid:#x}: {lost} of {whole} are lost"
            );
            let seconds = (units[units.len() - 1].decode - units[0].decode) as f64 / 90e3;
            println!("  {pid:#x}: {} units in {seconds:.3} s", units.len());
        }
        // Sound of two channels: ISO/IEC 13818-1 section 2.4.2.6.
        let sound = found.buffered.iter().filter(|(pid, _)| **pid != 0x100);
        assert!(sound.clone().count() > 0 && sound.clone().all(|(_, bytes)| *bytes <= 3584));
        // Pictures of level 1, too: pictures larger than their level allows fit as well.
        assert!(found.buffered[&0x100] <= PICTURES_OF_LEVEL_1, "{name}");
        // But they arrive faster than its transport buffer empties.
        assert!(found.transport[&0x101] <= 512.0, "{name}");
    }
}

/// Returns `seconds` of FLV: 25 pictures a second of these sizes, a key picture every 50, the setup
/// of a file with level 4, and 48,000 samples of sound a second.
fn film(seconds: u32, key: usize, other: usize, sound: usize) -> Vec<u8> {
    let file = corpus::file("h264.flv");
    let (mut out, mut at, mut samples) = (file[..13].to_vec(), 13, [None, None]);
    while samples.contains(&None) {
        let length = u32::from_be_bytes([0, file[at + 1], file[at + 2], file[at + 3]]) as usize;
        let mut body = file[at + 11..at + 11 + length].to_vec();
        match (file[at], body[1]) {
            (9, 0) => {
                // In the box, and in the parameter set.
                (body[8], body[16]) = (40, 40);
                out.extend(made::tag(9, 0, &body));
            }
            (8, 0) => out.extend(made::tag(8, 0, SOUND_48)),
            (9, _) => {
                let is_other = body[0] != 0x17;
                samples[usize::from(is_other)] = Some(body);
            }
            _ => {}
        }
        at += length + 15;
    }
    let [Some(first), Some(next)] = samples else {
        return out;
    };
    let mut frames = 0;
    for picture in 0..25 * seconds {
        let (of_file, bytes) = match picture % 50 {
            0 => (&first, key),
            _ => (&next, other),
        };
        // What fills up is a NAL unit of its own.
        let filler = [
            &(bytes as u32).to_be_bytes()[..],
            &[12],
            &vec![0x55; bytes - 1],
        ]
        .concat();
        out.extend(made::tag(9, 40 * picture, &[of_file, &filler[..]].concat()));
        while frames * 64 / 3 <= 40 * picture {
            let frame = [&[0xaf, 1][..], &vec![0x21; sound]].concat();
            out.extend(made::tag(8, frames * 64 / 3, &frame));
            frames += 1;
        }
    }
    out
}

/// No buffer of a decoder overflows, for any interleaving of pictures and sound (ISO/IEC 13818-1
/// section 2.4.2.3). Bytes between two clock references arrive evenly.
#[test]
fn large_pictures_hurry_no_sound() {
    for (key, other, sound) in [
        (150_000, 30_000, 341),
        (150_000, 30_000, 512),
        (150_000, 60_000, 853),
        (20_000, 9_000, 341),
        (1_000, 200, 853),
        (9_000, 2_000, 1_450),
    ] {
        let media = film(20, key, other, sound);
        let found = analyse(&remuxed(
            (Format::Flv, &media),
            Target::MpegTs,
            1,
            std::iter::empty(),
        ));
        let of = format!("{key}, {other}, {sound}: {:#?}", found.errors);
        println!(
            "{key}, {other}, {sound}: {} packets, {:.3} s, buffers of {:?} bytes behind {:.0?}",
            found.packets, found.margin, found.buffered, found.transport
        );
        assert!(found.errors.is_empty() && found.margin >= 0.0, "{of}");
        assert!(found.buffered[&0x101] <= 3_584, "{of}");
        assert!(found.buffered[&0x100] <= PICTURES_OF_LEVEL_4, "{of}");
        assert!(
            found.transport.values().all(|bytes| *bytes <= 512.0),
            "{of}"
        );
    }
}

#[test]
fn however_it_is_cut_the_same_comes_out() {
    for (name, format, file) in files() {
        for to in Target::ALL {
            let whole = remuxed((format, &file), to, 2, std::iter::empty());
            assert!(!whole.is_empty());
            for pieces in [vec![1], vec![187, 3, 1009], vec![4096]] {
                let cut = remuxed((format, &file), to, 2, pieces.iter().copied().cycle());
                assert!(whole == cut, "{name} to {to:?} in pieces of {pieces:?}");
            }
        }
    }
}

/// How many pictures of a stream have been said.
struct Pictures {
    reader: Reader,
    count: usize,
    /// Of each, when it is decoded.
    decode: Vec<i64>,
}

impl Pictures {
    fn new(format: Format) -> Pictures {
        Pictures {
            reader: Reader::new(format, UNIT_BYTES_MAX).expect("it can be read"),
            count: 0,
            decode: Vec::new(),
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        let (count, decode) = (&mut self.count, &mut self.decode);
        let fed = self.reader.feed(bytes, &mut |heard| {
            if let ReaderEvent::Unit(unit) = heard
                && unit.track == 0
            {
                *count += 1;
                decode.push(unit.decode);
            }
            Ok(())
        });
        fed.expect("it is understood");
    }
}

/// Returns how many complete pictures have not gone out, and their duration. Pictures wait for sound
/// of their time, in Matroska for their decode time, and in MP4 for their fragment.
#[test]
fn little_waits() {
    for (name, format, file) in files() {
        for to in Target::ALL.into_iter().filter(|to| to.format() != format) {
            let mut remuxer = Remuxer::new(format, to, UNIT_BYTES_MAX).expect("it can be read");
            let (mut source, mut written) = (Pictures::new(format), Pictures::new(to.format()));
            let (mut out, mut had, mut begun) = (Vec::new(), 0, 0);
            let (mut most, mut longest, mut all, mut looks) = (0, 0, 0, 0);
            for piece in file.chunks(64) {
                source.feed(piece);
                remuxer
                    .feed(piece, &mut (1 << 40), &mut out)
                    .expect("it is understood");
                if to == Target::MpegTs {
                    // Each picture is written whole, and its end shows with the next one only.
                    let packets = out[had..].chunks(188);
                    let begins = |packet: &&[u8]| packet[1] & 0x5f == 0x41 && packet[2] == 0;
                    begun += packets.filter(begins).count();
                } else {
                    written.feed(&out[had..]);
                    begun = written.count;
                }
                had = out.len();
                let waiting = &source.decode[begun.min(source.count)..];
                let time = waiting.last().map_or(0, |last| last - waiting[0]);
                most = most.max(waiting.len());
                longest = longest.max(time);
                (all, looks) = (all + waiting.len(), looks + 1);
            }
            println!(
                "{name} to {to:?}: {most} pictures at the most wait, {:.1} on the average, of {} ms",
                all as f64 / looks as f64,
                longest / 1_000_000
            );
            assert!(begun > 40, "{name} to {to:?}: {begun}");
            let most_time = match (format, to) {
                // A picture, and one whose sound has yet to come.
                (Format::Flv | Format::Matroska, Target::MpegTs) => 40,
                // A fragment of half a second.
                (Format::Flv | Format::Matroska, Target::Mp4) => 520,
                // And one of the source's, or a PES packet of much sound, which come beside.
                (_, Target::MpegTs | Target::Mp4) => 960,
            };
            assert!(longest <= most_time * 1_000_000, "{name} to {to:?}");
        }
    }
}
