//! Turns the packets of a container into units of the medium.

use super::medium::{Codec, MediaError, ReaderEvent, Result, Shape, Sink, Unit};
use super::nal::Pictures;
use super::track_timeline::TrackTimeline;
use super::{sound, vpx};

/// Reports a track that is left out. The name of its codec may be any bytes.
pub(super) fn leave_out(number: u64, codec: &[u8], sink: &mut Sink<'_>) -> Result {
    let name = codec.get(..NAME_BYTES_MAX).unwrap_or(codec);
    let is_printable = name
        .iter()
        .all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    let name = str::from_utf8(name).ok().filter(|_| is_printable);
    let codec = name.unwrap_or("unknown");
    sink(ReaderEvent::LeftOut { number, codec })
}

/// Longest name of a codec that is reported.
const NAME_BYTES_MAX: usize = 48;

/// Turns the packets of one track into units.
pub(super) struct Packets {
    pub codec: Codec,
    /// Parameter sets of H.264 and H.265.
    pub pictures: Option<Pictures>,
    /// Whether the container has given the codec's setup.
    is_configured: bool,
}

impl Packets {
    /// Returns the state of a track of which only the codec is known.
    pub fn new(codec: Codec) -> Packets {
        Packets {
            codec,
            pictures: Pictures::new(codec),
            is_configured: false,
        }
    }

    /// Takes the setup in the container, in the form of ISO BMFF, and the shape in the container.
    /// The setup may know a better shape.
    pub fn configure(
        &mut self,
        timeline: &mut TrackTimeline,
        index: usize,
        setup: &[u8],
        container_shape: Shape,
    ) -> Result {
        self.is_configured = true;
        let shape = match self.codec {
            Codec::Aac => {
                sound::aac(setup).ok_or(MediaError("the configuration of AAC is not whole"))?
            }
            Codec::Opus => {
                sound::opus(setup).ok_or(MediaError("the setup of Opus is not whole"))?
            }
            Codec::Ac3 | Codec::Eac3 => {
                sound::dolby(self.codec, setup, container_shape).unwrap_or(container_shape)
            }
            _ => container_shape,
        };
        let Some(pictures) = &mut self.pictures else {
            return timeline.set_up(index, setup, shape);
        };
        let setup = pictures.configure(setup)?;
        let shape = match pictures.shape() {
            Shape::Pictures { width: 0, .. } => container_shape,
            own => own,
        };
        timeline.set_up(index, &setup, shape)
    }

    /// Emits the units of a packet: several for MP3 and AC-3, else one. The packet has the
    /// container's times and bytes. `scratch` is for bytes that cannot be lent as they came.
    pub fn emit(
        &mut self,
        timeline: &mut TrackTimeline,
        packet: Unit<'_>,
        scratch: &mut Vec<u8>,
        sink: &mut Sink<'_>,
    ) -> Result {
        let bytes = packet.bytes;
        match self.codec {
            Codec::H264 | Codec::H265 => {
                let Some(pictures) = &mut self.pictures else {
                    return Ok(());
                };
                let bytes = pictures.unit(bytes, scratch)?;
                if let Some(setup) = pictures.new_setup() {
                    timeline.set_up(packet.track, &setup, pictures.shape())?;
                }
                timeline.emit(Unit { bytes, ..packet }, sink)
            }
            Codec::Vp8 | Codec::Vp9 => {
                let read = match self.codec {
                    Codec::Vp8 => vpx::vp8,
                    _ => vpx::vp9,
                };
                if !self.is_configured
                    && packet.is_join
                    && let Some((setup, shape)) = read(bytes)
                {
                    timeline.set_up(packet.track, &setup, shape)?;
                }
                timeline.emit(packet, sink)
            }
            // The container marks where pictures begin, so its packets need no temporal delimiter.
            Codec::Av1 => {
                let bytes = bytes.strip_prefix(&[0x12, 0]).unwrap_or(bytes);
                timeline.emit(Unit { bytes, ..packet }, sink)
            }
            Codec::Aac | Codec::Opus => {
                let is_join = true;
                timeline.emit(Unit { is_join, ..packet }, sink)
            }
            Codec::MpegAudio | Codec::Ac3 | Codec::Eac3 => self.emit_frames(timeline, packet, sink),
        }
    }

    /// Passes on frames that say their own format, one after another.
    fn emit_frames(
        &mut self,
        timeline: &mut TrackTimeline,
        packet: Unit<'_>,
        sink: &mut Sink<'_>,
    ) -> Result {
        let (mut rest, mut time) = (packet.bytes, packet.present);
        while let Some(head) = sound::head(self.codec, rest) {
            let mut length = head.length;
            let Some(mut after) = rest.get(length..) else {
                break;
            };
            while let Some(part) = sound::head(self.codec, after).filter(|part| part.is_part) {
                let Some(others) = after.get(part.length..) else {
                    break;
                };
                length += part.length;
                after = others;
            }
            if !self.is_configured {
                timeline.set_up(packet.track, head.setup.as_slice(), head.shape)?;
            }
            let unit = Unit {
                decode: time,
                present: time,
                is_join: true,
                bytes: &rest[..length],
                ..packet
            };
            timeline.emit(unit, sink)?;
            rest = after;
            time = time.saturating_add(head.lasts().unwrap_or(0));
        }
        Ok(())
    }
}
