//! Finds what a stream carries: reads its header and the beginning of what is buffered.

use std::borrow::Cow;

use serde::Serialize;

use super::medium::SECOND;
use super::remuxer::spend;
use super::{Codec, Reader, ReaderEvent, Shape, TRACKS_MAX, Track, Unit};
use crate::format::Format;

/// Maximal number of bytes that are read: a large key frame and some pictures. A longer unit ends
/// the search.
const BYTES_MAX: usize = 512 * 1024;
/// Maximal number of bytes that are held while a stream is read.
pub const TRACKS_BYTES_MAX: usize = Reader::memory_bytes_max(BYTES_MAX);
/// Maximal work, as of [`ReaderEvent::work`]. Small units and elements cost more than their bytes.
const WORK_MAX: usize = 4 * BYTES_MAX;
/// Pictures by which the frame rate is known.
const PICTURES: u32 = 12;
/// Longest name of a codec in letters, if the container names it.
const NAME_MAX: usize = 32;

/// Codecs of Ogg, by the mark in the header of their stream.
const OGG: [(&[u8], &str); 4] = [
    (b"\x80theora", "theora"),
    (b"\x01vorbis", "vorbis"),
    (b"OpusHead", "opus"),
    (b"\x7fFLAC", "flac"),
];

/// Codecs that are not remuxed, by the name that their container has for them.
const LEFT_OUT: [(&str, &str); 7] = [
    ("A_VORBIS", "vorbis"),
    ("A_FLAC", "flac"),
    ("V_THEORA", "theora"),
    ("V_MPEG1", "mpeg1"),
    ("V_MPEG2", "mpeg2"),
    ("stream type 0x01", "mpeg1"),
    ("stream type 0x02", "mpeg2"),
];

/// A track. `None`: the field does not apply, or is not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TrackInfo {
    /// Name of the codec. One that is not remuxed has its container's name.
    pub codec: Cow<'static, str>,
    /// Width of the picture in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<u16>,
    /// Height of the picture in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height: Option<u16>,
    /// Pictures a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame_rate: Option<f64>,
    /// Samples a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_rate: Option<u32>,
    /// Channels of sound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channels: Option<u8>,
}

/// What was found so far.
#[derive(Default)]
struct Findings {
    tracks: Vec<Track>,
    left_out: Vec<(u64, String)>,
    pictures: u32,
    /// Decode times of the first and of the newest picture.
    first: i64,
    newest: i64,
}

/// Returns the tracks, and whether more bytes could show more. `next` returns the bytes after the
/// header, piece by piece. An empty piece is the end.
pub fn tracks<'a>(
    format: Format,
    header: &[u8],
    mut next: impl FnMut() -> &'a [u8],
) -> (Vec<TrackInfo>, bool) {
    let Some(mut reader) = Reader::new(format, BYTES_MAX) else {
        return (tracks_of_header(format, header), false);
    };
    let mut findings = Findings::default();
    let (mut bytes_left, mut work_left) = (BYTES_MAX, WORK_MAX);
    let mut piece = header;
    loop {
        let fed = reader.feed(piece, &mut |event| {
            spend(&mut work_left, event.work())?;
            findings.take(event);
            Ok(())
        });
        let fed = fed.and_then(|()| spend(&mut work_left, reader.take_work()));
        bytes_left = bytes_left.saturating_sub(piece.len());
        if fed.is_err() || bytes_left == 0 || findings.is_complete() {
            return (findings.rows(), false);
        }
        piece = next();
        if piece.is_empty() {
            return (findings.rows(), true);
        }
    }
}

/// Returns the tracks of a format that has no reader.
fn tracks_of_header(format: Format, header: &[u8]) -> Vec<TrackInfo> {
    let track = |codec| TrackInfo {
        codec: Cow::Borrowed(codec),
        ..TrackInfo::default()
    };
    match format {
        Format::Mp3 | Format::Aac => vec![track(format.name())],
        _ => {
            let has = |mark: &[u8]| header.windows(mark.len()).any(|bytes| bytes == mark);
            let known = OGG.iter().filter(|(mark, _)| has(mark));
            known.map(|(_, codec)| track(codec)).collect()
        }
    }
}

impl Findings {
    fn take(&mut self, event: ReaderEvent<'_>) {
        match event {
            ReaderEvent::Tracks(tracks) => self.tracks = tracks.to_vec(),
            ReaderEvent::Unit(unit) if self.is_picture(&unit) => {
                if self.pictures == 0 {
                    self.first = unit.decode;
                }
                self.newest = unit.decode;
                self.pictures += 1;
            }
            // MPEG-TS repeats its map, and with it these tracks.
            ReaderEvent::LeftOut { number, codec }
                if self.left_out.len() < TRACKS_MAX
                    && self.left_out.iter().all(|(known, _)| *known != number) =>
            {
                let known = LEFT_OUT.iter().find(|(name, _)| *name == codec);
                let codec = known.map_or(codec, |(_, codec)| codec);
                let codec = codec.chars().take(NAME_MAX).collect();
                self.left_out.push((number, codec));
            }
            ReaderEvent::Unit(_)
            | ReaderEvent::Announced(_)
            | ReaderEvent::PieceEnds
            | ReaderEvent::LeftOut { .. } => {}
        }
    }

    /// Returns whether a unit is of the first track of pictures.
    fn is_picture(&self, unit: &Unit<'_>) -> bool {
        let mut tracks = self.tracks.iter();
        tracks.position(|track| track.codec.is_video()) == Some(unit.track)
    }

    fn is_complete(&self) -> bool {
        let has_pictures = self.tracks.iter().any(|track| track.codec.is_video());
        let are_known = self.tracks.iter().all(Track::is_known) && !self.tracks.is_empty();
        are_known && (self.pictures >= PICTURES || !has_pictures)
    }

    fn rows(&self) -> Vec<TrackInfo> {
        let is_left_out = |track: &&Track| {
            let mut left_out = self.left_out.iter();
            left_out.any(|(number, _)| *number == track.number)
        };
        let tracks = self.tracks.iter().filter(|track| !is_left_out(track));
        let left_out = self.left_out.iter().map(|(_, codec)| TrackInfo {
            codec: Cow::Owned(codec.clone()),
            ..TrackInfo::default()
        });
        tracks
            .map(|track| self.row(track))
            .chain(left_out)
            .collect()
    }

    fn row(&self, track: &Track) -> TrackInfo {
        let codec = Cow::Borrowed(name(track.codec));
        match track.shape {
            Shape::Pictures { width, height } => TrackInfo {
                codec,
                width: Some(width).filter(|width| *width > 0),
                height: Some(height).filter(|height| *height > 0),
                frame_rate: self.frame_rate(),
                ..TrackInfo::default()
            },
            Shape::Sound { rate, channels } => TrackInfo {
                codec,
                sample_rate: Some(rate).filter(|rate| *rate > 0),
                channels: Some(channels).filter(|channels| *channels > 0),
                ..TrackInfo::default()
            },
        }
    }

    /// Returns the pictures a second, to a hundredth.
    fn frame_rate(&self) -> Option<f64> {
        let time = self.newest - self.first;
        let intervals = self.pictures.checked_sub(1).filter(|_| time > 0)?;
        let rate = f64::from(intervals) * SECOND as f64 / time as f64;
        Some((rate * 100.0).round() / 100.0)
    }
}

fn name(codec: Codec) -> &'static str {
    match codec {
        Codec::H264 => "h264",
        Codec::H265 => "h265",
        Codec::Av1 => "av1",
        Codec::Vp8 => "vp8",
        Codec::Vp9 => "vp9",
        Codec::Aac => "aac",
        Codec::MpegAudio => "mp3",
        Codec::Ac3 => "ac3",
        Codec::Eac3 => "eac3",
        Codec::Opus => "opus",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! media {
        ($name:literal) => {
            &include_bytes!(concat!("../../tests/media/", $name))[..]
        };
    }

    /// Returns the rows in words.
    fn described(format: Format, file: &[u8]) -> String {
        let mut pieces = file.chunks(1000);
        let (rows, _) = tracks(format, &[], || pieces.next().unwrap_or_default());
        let words = rows.iter().map(|row| {
            let size = row.width.zip(row.height);
            let size = size.map(|(width, height)| format!("{width}x{height}"));
            let rate = row.frame_rate.map(|rate| rate.to_string());
            let sound = row.sample_rate.map(|rate| rate.to_string());
            let channels = row.channels.map(|channels| channels.to_string());
            let fields = [size, rate, sound, channels].into_iter().flatten();
            let all = std::iter::once(row.codec.to_string()).chain(fields);
            all.collect::<Vec<_>>().join(" ")
        });
        words.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn each_container_shows_its_tracks() {
        let avc = "h264 128x96 25, aac 44100 1";
        for (format, file, expected) in [
            (Format::MpegTs, media!("h264.ts"), avc),
            (Format::Flv, media!("h264.flv"), avc),
            (Format::Matroska, media!("h264.mkv"), avc),
            (Format::Mp4, media!("h264.mp4"), avc),
            (
                Format::MpegTs,
                media!("h265.ts"),
                "h265 64x48 12, ac3 48000 1",
            ),
            (Format::Mp4, media!("av1.mp4"), "av1 64x48 12, opus 48000 1"),
            (
                Format::WebM,
                media!("vp9.webm"),
                "vp9 128x96 25, opus 48000 1",
            ),
            (Format::WebM, media!("vp8.webm"), "vp8 128x96 25, vorbis"),
            (Format::Mp3, media!("sound.mp3"), "mp3"),
            (Format::Aac, media!("sound.aac"), "aac"),
        ] {
            assert_eq!(described(format, file), expected, "{format:?}");
        }
        let (rows, may_show_more) = tracks(Format::Ogg, media!("theora.ogg"), || &[]);
        let codecs: Vec<_> = rows.iter().map(|row| row.codec.as_ref()).collect();
        assert_eq!((codecs, may_show_more), (vec!["theora", "vorbis"], false));
    }

    /// MPEG-TS repeats its map, and with it the tracks that are left out.
    #[test]
    fn a_track_that_is_left_out_is_listed_once() {
        let mut findings = Findings::default();
        for (number, codec) in [(256, "stream type 0x02"), (257, "A_ODD"), (256, "again")] {
            findings.take(ReaderEvent::LeftOut { number, codec });
        }
        let listed = [(256, "mpeg2".to_owned()), (257, "A_ODD".to_owned())];
        assert_eq!(findings.left_out, listed);
    }

    /// The search ends when all is known, when bytes cannot be read, and after a bounded number of
    /// bytes.
    #[test]
    fn the_search_ends() {
        let file = media!("h264.ts");
        for (packets, count, expected) in [
            (file, 4, true),
            (file, 100_000, false),
            (&[0x47; 188][..], 100_000, false),
        ] {
            let mut pieces = packets.chunks(188).cycle().take(count);
            let mut bytes = 0;
            let (_, may_show_more) = tracks(Format::MpegTs, &[], || {
                let piece = pieces.next().unwrap_or_default();
                bytes += piece.len();
                piece
            });
            assert_eq!(may_show_more, expected);
            assert!(bytes <= BYTES_MAX + 188, "{bytes}");
        }
    }
}
