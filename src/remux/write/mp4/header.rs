//! Writes `ftyp` and `moov` of fragmented MP4: the tracks without samples (ISO/IEC 14496-12,
//! 14496-14 and 14496-15; the Opus, AV1, VP8 and VP9 mappings; ETSI TS 102 366 annex F).

use super::boxes::{full, numbers, put};
use crate::format::mp4::boxed;
use crate::remux::medium::{Codec, Shape, Track};

/// Ticks a second for pictures.
const PICTURE_CLOCK: u32 = 90_000;
const OPUS_CLOCK: u32 = 48_000;
/// Sampling rate of sound that does not say it.
const USUAL_RATE: u32 = 48_000;
/// Highest sampling rate.
const RATE_MAX: u32 = 1_000_000;
/// Ticks a second of the movie. Only durations of 0 use them.
const MOVIE_CLOCK: u32 = 1_000;
/// 1.0 as 16.16.
const ONE: u32 = 0x1_0000;
const UNITY: [u32; 9] = [ONE, 0, 0, 0, ONE, 0, 0, 0, 0x4000_0000];
/// Undetermined, in three letters of five bits.
const LANGUAGE: u32 = 0x55c4_0000;
/// 72 dots an inch.
const RESOLUTION: u32 = 72 * ONE;

/// Returns the ticks a second of a track. Sound is counted in samples.
pub(super) fn clock_of(track: &Track) -> u32 {
    match (track.codec, track.shape) {
        (Codec::Opus, _) => OPUS_CLOCK,
        (_, Shape::Sound { rate: 0, .. }) => USUAL_RATE,
        (_, Shape::Sound { rate, .. }) => rate.min(RATE_MAX),
        (_, Shape::Pictures { .. }) => PICTURE_CLOCK,
    }
}

/// Writes both boxes for these tracks with their numbers.
pub(super) fn write<'a>(tracks: impl Iterator<Item = (u32, &'a Track)> + Clone, out: &mut Vec<u8>) {
    boxed(out, b"ftyp", |out| {
        out.extend_from_slice(b"iso6\0\0\x02\0iso6cmfcmp41");
    });
    boxed(out, b"moov", |out| {
        let last = tracks.clone().map(|(number, _)| number).max();
        full(out, b"mvhd", (0, 0), |out| {
            put(out, &[0, 0, MOVIE_CLOCK, 0, ONE, 0x0100_0000, 0, 0]);
            put(out, &UNITY);
            put(out, &[0; 6]);
            put(out, &[last.unwrap_or(0) + 1]);
        });
        for (number, track) in tracks.clone() {
            boxed(out, b"trak", |out| write_track(number, track, out));
        }
        boxed(out, b"mvex", |out| {
            for (number, _) in tracks {
                numbers(out, b"trex", &[number, 1, 0, 0, 0]);
            }
        });
    });
}

fn write_track(number: u32, track: &Track, out: &mut Vec<u8>) {
    let (width, height) = match track.shape {
        Shape::Pictures { width, height } => (u32::from(width), u32::from(height)),
        Shape::Sound { .. } => (0, 0),
    };
    let is_video = track.codec.is_video();
    // Enabled, in the movie and in its preview.
    full(out, b"tkhd", (0, 7), |out| {
        put(out, &[0, 0, number, 0, 0, 0, 0]);
        // Layer and group; volume.
        put(out, &[0, if is_video { 0 } else { 0x0100_0000 }]);
        put(out, &UNITY);
        put(out, &[width << 16, height << 16]);
    });
    boxed(out, b"mdia", |out| {
        numbers(out, b"mdhd", &[0, 0, clock_of(track), 0, LANGUAGE]);
        let handler = if is_video { b"vide" } else { b"soun" };
        full(out, b"hdlr", (0, 0), |out| {
            put(out, &[0, u32::from_be_bytes(*handler), 0, 0, 0]);
            out.push(0);
        });
        boxed(out, b"minf", |out| {
            if is_video {
                full(out, b"vmhd", (0, 1), |out| put(out, &[0, 0]));
            } else {
                numbers(out, b"smhd", &[0]);
            }
            boxed(out, b"dinf", |out| {
                full(out, b"dref", (0, 0), |out| {
                    put(out, &[1]);
                    // In this file.
                    full(out, b"url ", (0, 1), |_| {});
                });
            });
            boxed(out, b"stbl", |out| {
                full(out, b"stsd", (0, 0), |out| {
                    put(out, &[1]);
                    write_entry(track, out);
                });
                numbers(out, b"stts", &[0]);
                numbers(out, b"stsc", &[0]);
                numbers(out, b"stsz", &[0, 0]);
                numbers(out, b"stco", &[0]);
            });
        });
    });
}

/// Writes the sample entry.
fn write_entry(track: &Track, out: &mut Vec<u8>) {
    let setup = track.setup.as_deref().unwrap_or(&[]);
    let (entry, configuration): (&[u8; 4], &[u8; 4]) = match track.codec {
        Codec::H264 => (b"avc1", b"avcC"),
        Codec::H265 => (b"hvc1", b"hvcC"),
        Codec::Av1 => (b"av01", b"av1C"),
        Codec::Vp8 => (b"vp08", b"vpcC"),
        Codec::Vp9 => (b"vp09", b"vpcC"),
        Codec::Aac | Codec::MpegAudio => (b"mp4a", b"esds"),
        Codec::Ac3 => (b"ac-3", b"dac3"),
        Codec::Eac3 => (b"ec-3", b"dec3"),
        Codec::Opus => (b"Opus", b"dOps"),
    };
    boxed(out, entry, |out| {
        // Reserved; the first data reference.
        put(out, &[0, 1]);
        match track.shape {
            Shape::Pictures { width, height } => {
                put(out, &[0; 4]);
                put(out, &[u32::from(width) << 16 | u32::from(height)]);
                // One frame a sample, without a name, in 24 bits of colour.
                put(out, &[RESOLUTION, RESOLUTION, 0, ONE]);
                out.extend_from_slice(&[0; 30]);
                put(out, &[0x0018_ffff]);
            }
            Shape::Sound { rate, channels } => {
                let channels = match channels {
                    0 => 2,
                    channels => u32::from(channels),
                };
                put(out, &[0, 0, channels << 16 | 16, 0]);
                // If the rate does not fit, the clock shows it.
                let rate = match track.codec {
                    Codec::Opus => OPUS_CLOCK,
                    _ => rate,
                };
                put(out, &[u16::try_from(rate).map_or(0, u32::from) << 16]);
            }
        }
        match configuration {
            b"esds" => write_descriptors(track, setup, out),
            _ => boxed(out, configuration, |out| out.extend_from_slice(setup)),
        }
    });
}

/// Writes an `esds` (ISO/IEC 14496-1 section 7.2.6): one elementary stream of sound, and its
/// decoder.
fn write_descriptors(track: &Track, setup: &[u8], out: &mut Vec<u8>) {
    let object = match (track.codec, track.shape) {
        (Codec::Aac, _) => 0x40,
        (_, Shape::Sound { rate: 32_000.., .. }) => 0x6b,
        (_, Shape::Sound { .. } | Shape::Pictures { .. }) => 0x69,
    };
    let specific_bytes = match setup.len() {
        0 => 0,
        length => descriptor_bytes(length),
    };
    let decoder_bytes = 13 + specific_bytes;
    let stream_bytes = 3 + descriptor_bytes(decoder_bytes) + descriptor_bytes(1);
    full(out, b"esds", (0, 0), |out| {
        put_descriptor(3, stream_bytes, out);
        out.extend_from_slice(&[0, 0, 0]);
        put_descriptor(4, decoder_bytes, out);
        // Sound, without a promised buffer or rate.
        out.extend_from_slice(&[object, 0x15, 0, 0, 0]);
        put(out, &[0, 0]);
        if !setup.is_empty() {
            put_descriptor(5, setup.len(), out);
            out.extend_from_slice(setup);
        }
        put_descriptor(6, 1, out);
        out.push(2);
    });
}

/// Returns the length of a descriptor with its head, whose length field has four bytes.
fn descriptor_bytes(content: usize) -> usize {
    5 + content
}

fn put_descriptor(tag: u8, content: usize, out: &mut Vec<u8>) {
    let sevens = |shift: u32| (content >> shift & 0x7f) as u8;
    out.push(tag);
    out.extend([21, 14, 7].map(|shift| 0x80 | sevens(shift)));
    out.push(sevens(0));
}
