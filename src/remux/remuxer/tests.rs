//! What a hostile source can do to what is made of it: nothing.

use super::super::medium::{Codec, Shape, Time, Unit};
use super::super::write::{OUT_ONCE, OUT_PER_BYTE, OUT_PER_UNIT};
use super::*;
use crate::random::Random;

const UNIT_BYTES_MAX: usize = 64 * 1024;
const AVC: &[u8] = &[
    1, 0x42, 0xc0, 0x1e, 0xff, 0xe1, 0, 4, 0x67, 0x42, 0xc0, 0x1e, 1, 0, 3, 0x68, 0xce, 0x3c,
];

fn track(number: u64, codec: Codec, setup: &[u8]) -> Track {
    Track {
        number,
        codec,
        clock: 1000,
        setup: Some(setup.into()),
        shape: if codec.is_video() {
            Shape::Pictures {
                width: 320,
                height: 240,
            }
        } else {
            Shape::Sound {
                rate: 48_000,
                channels: 2,
            }
        },
    }
}

fn tracks() -> Vec<Track> {
    vec![
        track(1, Codec::H264, AVC),
        track(2, Codec::Aac, &[0x11, 0x90]),
        track(3, Codec::Opus, &[0, 2, 1, 56, 0, 0, 0xbb, 0x80, 0, 0, 0]),
        track(4, Codec::MpegAudio, &[]),
        track(5, Codec::Vp9, &[0; 12]),
        track(6, Codec::Ac3, &[0x10, 0x3d, 0x40]),
    ]
}

/// Feeds units, and checks after each what is held and what went out.
fn feed(to: Target, tracks: &[Track], units: impl Iterator<Item = (usize, i64, i64, bool, usize)>) {
    let (mut making, mut out) = (Making::new(to, UNIT_BYTES_MAX), Vec::new());
    making.hear(Heard::Tracks(tracks), &mut out);
    let (mut bytes, mut count, mut written) = (0, 0, 0);
    let payload = vec![0; UNIT_BYTES_MAX];
    for (track, decode, later, is_join, length) in units {
        let Some(decode) = Time::from_nanoseconds(decode) else {
            continue;
        };
        let present = Time::from_nanoseconds(decode.nanoseconds().saturating_add(later));
        let unit = Unit {
            track,
            decode,
            present: present.unwrap_or(decode),
            is_join,
            bytes: &payload[..length],
        };
        making.hear(Heard::Unit(unit), &mut out);
        assert_eq!(making.fault, None);
        (bytes, count) = (bytes + length, count + 1);
        written += out.len();
        out.clear();
        assert!(
            written <= OUT_ONCE + bytes * OUT_PER_BYTE + count * OUT_PER_UNIT,
            "{to:?}: {written} bytes out of {count} units of {bytes}"
        );
        assert!(making.held_bytes() <= 4 * UNIT_BYTES_MAX + 2 * 1024 * 1024);
    }
    making.drain(&mut out);
    making.finish(&mut out);
    assert_eq!(making.fault, None);
}

#[test]
fn times_that_make_no_sense_do_no_harm() {
    const HOUR: i64 = 3600 * Time::SECOND;
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut times = [0i64; 6];
        let units = (0..2_000).map(|_| {
            let track = (random.draw() % 6) as usize;
            let step = match random.draw() % 8 {
                0 => HOUR * ((random.draw() % 100) as i64 - 50),
                1 => i64::MAX / 8,
                2 => -i64::MAX / 8,
                3 => 0,
                _ => (random.draw() % 100) as i64 * 1_000_000,
            };
            times[track] = times[track].saturating_add(step);
            let later = (random.draw() % 3) as i64 * (random.draw() % 20) as i64 * Time::SECOND;
            let length = 1 + (random.draw() % (if seed % 2 == 0 { 8 } else { 4000 })) as usize;
            (
                track,
                times[track],
                later,
                random.draw().is_multiple_of(2),
                length,
            )
        });
        let units: Vec<_> = units.collect();
        for to in Target::ALL {
            feed(to, &tracks(), units.iter().copied());
        }
    }
}

#[test]
fn many_units_at_once_are_no_flood() {
    for to in Target::ALL {
        for is_join in [false, true] {
            feed(to, &tracks(), (0..50_000).map(|_| (0, 0, 0, is_join, 5)));
        }
        // One track runs on while the others say nothing.
        let seconds = (0..20_000).map(|at| (0, at * Time::SECOND, 0, true, 5));
        feed(to, &tracks(), seconds);
    }
}

#[test]
fn tracks_that_change_with_each_unit_end_it() {
    let (mut making, mut out) = (Making::new(Target::Mp4, UNIT_BYTES_MAX), Vec::new());
    for number in 0..10_000u16 {
        let setup = [AVC, &number.to_be_bytes(), &[0; 2000]].concat();
        making.hear(Heard::Tracks(&[track(1, Codec::H264, &setup)]), &mut out);
        let unit = Unit {
            track: 0,
            decode: Time::default(),
            present: Time::default(),
            is_join: true,
            bytes: &[0; 5],
        };
        making.hear(Heard::Unit(unit), &mut out);
    }
    assert!(making.fault.is_some());
    assert!(out.len() <= OUT_ONCE + 10_000 * (OUT_PER_UNIT + 5 * OUT_PER_BYTE));
}
