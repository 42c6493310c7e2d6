//! FLV (Adobe Flash Video File Format 10.1, annex E; Enhanced RTMP for newer codecs). A tag is a
//! packet.

use super::medium::{Codec, MediaError, Result, SECOND, Shape, Sink, Track, Unit};
use super::packets::{Packets, leave_out};
use super::sound;
use super::track_timeline::TrackTimeline;
use crate::format::flv::{
    AUDIO, HEAD_BYTES, PREVIOUS_SIZE_BYTES, SCRIPT, TAG_HEAD_BYTES, TagHead, VIDEO,
};
use crate::format::window::{StepResult, Unread, Walker};

/// Reader of FLV.
#[derive(Default)]
pub(super) struct Flv {
    unit_bytes_max: usize,
    /// Whether the head of the file has come.
    has_head: bool,
    pub(super) timeline: TrackTimeline,
    /// Track of pictures, once it has begun: its index, and the state of its packets.
    pictures: Option<(usize, Packets)>,
    /// Track of sound, once it has begun: its index, and the state of its packets.
    sound: Option<(usize, Packets)>,
    /// Whether it was reported that sound, and pictures, are left out.
    has_left_out: [bool; 2],
    /// Size of the pictures in the metadata.
    size: Option<(u16, u16)>,
    /// Buffer for units that cannot be lent as they came.
    scratch: Vec<u8>,
}

/// Content of a tag.
enum TagContent<'a> {
    /// Setup in the form of ISO BMFF.
    Setup(Codec, &'a [u8]),
    /// Setup of Opus in the form of Ogg.
    OpusHead(&'a [u8]),
    /// Packet, and the milliseconds from its decode time to its presentation time.
    Packet(Codec, i32, &'a [u8]),
    /// Content of another codec with this name.
    Unknown(&'a [u8]),
    /// The tag has no media.
    Nothing,
}

const TICKS_PER_SECOND: u32 = 1000;
/// Flags of the head.
const HAS_AUDIO: u8 = 4;
const HAS_VIDEO: u8 = 1;
/// Longest metadata that is searched for a size.
const METADATA_BYTES_MAX: usize = 16 * 1024;

impl Walker<Sink<'_>, MediaError> for Flv {
    fn step(&mut self, seen: &[u8], _at: u64, sink: &mut Sink<'_>) -> StepResult<MediaError> {
        if !self.has_head {
            return self.head(seen, sink);
        }
        let head = TagHead::read(seen).ok_or(Unread::Needs(TAG_HEAD_BYTES))?;
        let end = TAG_HEAD_BYTES + head.size;
        let whole = (end + PREVIOUS_SIZE_BYTES) as u64;
        let kind = head.kind & 0x1f;
        if !matches!(kind, AUDIO | VIDEO | SCRIPT) {
            return Err(MediaError("an FLV tag is neither sound nor pictures nor a script").into());
        }
        if head.kind & 0x20 != 0 || (kind == SCRIPT && end > METADATA_BYTES_MAX) {
            return Ok(whole);
        }
        if end > self.unit_bytes_max {
            return Err(MediaError("an FLV tag is longer than what may be held").into());
        }
        let body = seen.get(TAG_HEAD_BYTES..end).ok_or(Unread::Needs(end))?;
        match kind {
            SCRIPT => self.size = size(body).or(self.size),
            _ => self.tag(kind, head.time.into(), body, sink)?,
        }
        Ok(whole)
    }
}

impl Flv {
    pub(super) fn new(unit_bytes_max: usize) -> Flv {
        Flv {
            unit_bytes_max,
            ..Flv::default()
        }
    }

    fn head(&mut self, seen: &[u8], sink: &mut Sink<'_>) -> StepResult<MediaError> {
        let head = seen
            .first_chunk::<HEAD_BYTES>()
            .ok_or(Unread::Needs(HEAD_BYTES))?;
        self.has_head = true;
        let [b'F', b'L', b'V', _, flags, 0, 0, 0, 9, ..] = *head else {
            return Err(MediaError("FLV does not begin with its head of 9 bytes").into());
        };
        // The reader waits for tracks that the head promises. The first tag shows the codec; until
        // then it is the usual one.
        if flags & HAS_VIDEO != 0 {
            begin(&mut self.pictures, &mut self.timeline, VIDEO, Codec::H264);
        }
        if flags & HAS_AUDIO != 0 {
            begin(&mut self.sound, &mut self.timeline, AUDIO, Codec::Aac);
        }
        self.timeline.emit_tracks(sink)?;
        Ok(HEAD_BYTES as u64)
    }

    fn tag(&mut self, kind: u8, time: i64, body: &[u8], sink: &mut Sink<'_>) -> Result {
        let is_video = kind == VIDEO;
        let (content, own) = match is_video {
            true => (video(body), &mut self.pictures),
            false => (audio(body), &mut self.sound),
        };
        // The milliseconds from the tag's time to the presentation time.
        let (codec, ahead) = match content {
            TagContent::Nothing => return Ok(()),
            TagContent::Unknown(name) => {
                if !std::mem::replace(&mut self.has_left_out[usize::from(is_video)], true) {
                    leave_out(u64::from(kind), name, sink)?;
                }
                return Ok(());
            }
            TagContent::Setup(codec, _) => (codec, 0),
            TagContent::OpusHead(_) => (Codec::Opus, 0),
            TagContent::Packet(codec, ahead, _) => (codec, ahead),
        };
        let timeline = &mut self.timeline;
        if own
            .as_ref()
            .is_none_or(|(_, packets)| packets.codec != codec)
        {
            begin(own, timeline, kind, codec);
        }
        // A time of FLV is below 50 days, so the product does not overflow.
        let tick = SECOND / i64::from(TICKS_PER_SECOND);
        let (decode, present) = (tick * time, tick * (time + i64::from(ahead)));
        let Some((track, packets)) = own else {
            return Ok(());
        };
        let track = *track;
        let (width, height) = self.size.unwrap_or_default();
        let shape = Shape::Pictures { width, height };
        match content {
            TagContent::Setup(_, setup) => packets.configure(timeline, track, setup, shape),
            TagContent::OpusHead(head) => {
                let setup = sound::opus_setup(head);
                let setup = setup.ok_or(MediaError("the head of Opus is not whole"))?;
                packets.configure(timeline, track, &setup, shape)
            }
            TagContent::Packet(_, _, bytes) => {
                let packet = Unit {
                    track,
                    decode,
                    present,
                    is_join: !is_video || body.first().is_some_and(|first| first >> 4 & 7 == 1),
                    bytes,
                };
                packets.emit(timeline, packet, &mut self.scratch, sink)
            }
            TagContent::Unknown(_) | TagContent::Nothing => Ok(()),
        }
    }
}

/// Begins a track of pictures or of sound. It replaces the one before.
fn begin(own: &mut Option<(usize, Packets)>, timeline: &mut TrackTimeline, kind: u8, codec: Codec) {
    let track = Track {
        number: u64::from(kind),
        codec,
        clock: TICKS_PER_SECOND,
        setup: None,
        shape: codec.unknown_shape(),
    };
    let index = match own {
        Some((index, _)) => timeline.replace(*index, track),
        None => timeline.add(track),
    };
    *own = index.map(|index| (index, Packets::new(codec)));
}

fn video(body: &[u8]) -> TagContent<'_> {
    let [first, packet_type, rest @ ..] = body else {
        return TagContent::Nothing;
    };
    if first & 0x80 != 0 {
        return enhanced_video(first & 0x0f, &body[1..]);
    }
    let codec = match first & 0x0f {
        7 => Codec::H264,
        12 => Codec::H265,
        2 => return TagContent::Unknown(b"H.263"),
        4 | 5 => return TagContent::Unknown(b"VP6"),
        _ => return TagContent::Unknown(b"unknown"),
    };
    match packet_type {
        0 => {
            let setup = rest.get(3..);
            setup.map_or(TagContent::Nothing, |setup| TagContent::Setup(codec, setup))
        }
        1 => packet(codec, rest),
        _ => TagContent::Nothing,
    }
}

/// Enhanced RTMP: the packet type is where the codec was.
fn enhanced_video(packet_type: u8, body: &[u8]) -> TagContent<'_> {
    let Some((name, rest)) = body.split_first_chunk::<4>() else {
        return TagContent::Nothing;
    };
    let codec = match name {
        b"avc1" => Codec::H264,
        b"hvc1" => Codec::H265,
        b"av01" => Codec::Av1,
        b"vp08" => Codec::Vp8,
        b"vp09" => Codec::Vp9,
        _ => return TagContent::Unknown(name),
    };
    let has_offset = matches!(codec, Codec::H264 | Codec::H265);
    match packet_type {
        // Frames say the same, and more.
        0 if matches!(codec, Codec::Vp8 | Codec::Vp9) => TagContent::Nothing,
        0 => TagContent::Setup(codec, rest),
        1 if has_offset => packet(codec, rest),
        1 | 3 => TagContent::Packet(codec, 0, rest),
        2 | 4 => TagContent::Nothing,
        _ => TagContent::Unknown(name),
    }
}

/// Reads a packet after its offset in milliseconds.
fn packet(codec: Codec, body: &[u8]) -> TagContent<'_> {
    let Some(([c0, c1, c2], bytes)) = body.split_first_chunk::<3>() else {
        return TagContent::Nothing;
    };
    let offset = i32::from_be_bytes([*c0, *c1, *c2, 0]) >> 8;
    TagContent::Packet(codec, offset, bytes)
}

fn audio(body: &[u8]) -> TagContent<'_> {
    let Some((first, rest)) = body.split_first() else {
        return TagContent::Nothing;
    };
    match first >> 4 {
        2 | 14 => TagContent::Packet(Codec::MpegAudio, 0, rest),
        10 => match rest {
            // Some encoders send one without content.
            [0] => TagContent::Nothing,
            [0, config @ ..] => TagContent::Setup(Codec::Aac, config),
            [1, bytes @ ..] => TagContent::Packet(Codec::Aac, 0, bytes),
            _ => TagContent::Nothing,
        },
        9 => enhanced_audio(first & 0x0f, rest),
        0 | 3 => TagContent::Unknown(b"PCM"),
        1 => TagContent::Unknown(b"ADPCM"),
        4..=6 => TagContent::Unknown(b"Nellymoser"),
        11 => TagContent::Unknown(b"Speex"),
        _ => TagContent::Unknown(b"unknown"),
    }
}

fn enhanced_audio(packet_type: u8, body: &[u8]) -> TagContent<'_> {
    let Some((name, rest)) = body.split_first_chunk::<4>() else {
        return TagContent::Nothing;
    };
    let codec = match name {
        b"mp4a" => Codec::Aac,
        b".mp3" => Codec::MpegAudio,
        b"ac-3" => Codec::Ac3,
        b"ec-3" => Codec::Eac3,
        b"Opus" => Codec::Opus,
        _ => return TagContent::Unknown(name),
    };
    match (packet_type, codec) {
        (0, Codec::Aac) => TagContent::Setup(codec, rest),
        (0, Codec::Opus) => TagContent::OpusHead(rest),
        (1, _) => TagContent::Packet(codec, 0, rest),
        (0 | 2 | 4, _) => TagContent::Nothing,
        _ => TagContent::Unknown(name),
    }
}

/// Returns the size in metadata: two numbers with names of AMF.
fn size(metadata: &[u8]) -> Option<(u16, u16)> {
    let number = |name: &[u8]| {
        let mut places = metadata.windows(name.len());
        let at = places.position(|place| place == name)? + name.len();
        let number = metadata.get(at..)?.first_chunk::<8>()?;
        let number = f64::from_be_bytes(*number);
        (1.0..=65_535.0).contains(&number).then_some(number as u16)
    };
    Some((number(b"\0\x05width\0")?, number(b"\0\x06height\0")?))
}
