//! What a container hands over as one of a track's packets, made into units of the medium.

use super::medium::{Codec, Fault, ReaderEvent, Shape, Sink, Time};
use super::nal::Pictures;
use super::sample_queue::{SampleQueue, Times};
use super::{sound, vpx};
use crate::format::Unsupported;

/// What a walker says is said to, and why it lets go.
pub(super) struct Handler<'a> {
    /// Takes what is said.
    pub sink: &'a mut Sink<'a>,
    /// The newest reason to let go.
    pub fault: Fault,
}

impl<'a> Handler<'a> {
    /// For the bytes that are shown next.
    pub fn new(sink: &'a mut Sink<'_>) -> Handler<'a> {
        Handler {
            sink,
            fault: Fault("the container is not understood"),
        }
    }

    /// It cannot go on, for this reason.
    pub fn let_go(&mut self, why: &'static str) -> Unsupported {
        self.fault = Fault(why);
        Unsupported
    }

    /// The same, where something else has found the reason.
    pub fn check<T>(&mut self, result: Result<T, Fault>) -> Result<T, Unsupported> {
        result.map_err(|Fault(why)| self.let_go(why))
    }

    /// A track is left out; its codec's name may be anything.
    pub fn leave_out(&mut self, number: u64, codec: &[u8]) -> Result<(), Unsupported> {
        let name = codec.get(..NAME_BYTES_MAX).unwrap_or(codec);
        let is_printable = name
            .iter()
            .all(|byte| byte.is_ascii_graphic() || *byte == b' ');
        let name = str::from_utf8(name).ok().filter(|_| is_printable);
        let codec = name.unwrap_or("unknown");
        let said = (self.sink)(ReaderEvent::LeftOut { number, codec });
        self.check(said)
    }
}

/// Of a codec that is told, no more.
const NAME_BYTES_MAX: usize = 48;

/// What becomes of one track's packets.
pub(super) struct Packets {
    codec: Codec,
    pictures: Option<Pictures>,
    /// The container has said with what it is set up.
    is_configured: bool,
}

/// A packet, and what its container says of it.
#[derive(Clone, Copy)]
pub(super) struct Packet<'a> {
    /// As the container has them.
    pub times: Times,
    /// Decoding can begin with it.
    pub is_join: bool,
    /// All of it.
    pub bytes: &'a [u8],
}

impl Packets {
    /// Nothing is known of it but its codec.
    pub fn new(codec: Codec) -> Packets {
        Packets {
            codec,
            pictures: Pictures::new(codec),
            is_configured: false,
        }
    }

    /// Takes the setup that the container keeps, in the form of ISO BMFF, and what it says of the
    /// shape, which the setup may know better.
    pub fn configure(
        &mut self,
        roll: &mut SampleQueue,
        index: usize,
        setup: &[u8],
        told: Shape,
    ) -> Result<(), Fault> {
        self.is_configured = true;
        let shape = match self.codec {
            Codec::Aac => {
                sound::aac(setup).ok_or(Fault("the configuration of AAC is not whole"))?
            }
            Codec::Opus => sound::opus(setup).ok_or(Fault("the setup of Opus is not whole"))?,
            Codec::Ac3 | Codec::Eac3 => sound::dolby(self.codec, setup, told).unwrap_or(told),
            _ => told,
        };
        let Some(pictures) = &mut self.pictures else {
            return roll.set_up(index, setup, shape);
        };
        let setup = pictures.configure(setup)?;
        let shape = match pictures.shape() {
            Shape::Pictures { width: 0, .. } => told,
            own => own,
        };
        roll.set_up(index, &setup, shape)
    }

    /// What its parameter sets say, of pictures that have some.
    pub fn pictures(&self) -> Option<&Pictures> {
        self.pictures.as_ref()
    }

    /// Says the units of a packet. `room` is for what cannot be lent as it came.
    pub fn say(
        &mut self,
        roll: &mut SampleQueue,
        index: usize,
        packet: Packet<'_>,
        room: &mut Vec<u8>,
        sink: &mut Sink<'_>,
    ) -> Result<(), Fault> {
        let Packet {
            times,
            is_join,
            bytes,
        } = packet;
        match self.codec {
            Codec::H264 | Codec::H265 => {
                if let Some(pictures) = &mut self.pictures {
                    let unit = pictures.unit(bytes, room)?;
                    if let Some(setup) = pictures.new_setup() {
                        roll.set_up(index, &setup, pictures.shape())?;
                    }
                    roll.say(index, times, is_join, unit, sink)?;
                }
            }
            Codec::Vp8 | Codec::Vp9 => {
                let read = match self.codec {
                    Codec::Vp8 => vpx::vp8,
                    _ => vpx::vp9,
                };
                if !self.is_configured
                    && is_join
                    && let Some((setup, shape)) = read(bytes)
                {
                    roll.set_up(index, &setup, shape)?;
                }
                roll.say(index, times, is_join, bytes, sink)?;
            }
            // A temporal delimiter is told by the container.
            Codec::Av1 => {
                let unit = bytes.strip_prefix(&[0x12, 0]).unwrap_or(bytes);
                roll.say(index, times, is_join, unit, sink)?;
            }
            Codec::Aac | Codec::Opus => roll.say(index, times, true, bytes, sink)?,
            Codec::MpegAudio | Codec::Ac3 | Codec::Eac3 => {
                return self.say_frames(roll, index, times.present, bytes, sink);
            }
        }
        Ok(())
    }

    /// Frames that say themselves what they are, one behind the other.
    fn say_frames(
        &mut self,
        roll: &mut SampleQueue,
        index: usize,
        time: Time,
        bytes: &[u8],
        sink: &mut Sink<'_>,
    ) -> Result<(), Fault> {
        let (mut rest, mut time) = (bytes, time);
        while let Some(head) = sound::head(self.codec, rest) {
            let Some((mut length, mut behind)) = cut(rest, head.length) else {
                break;
            };
            while let Some(part) = sound::head(self.codec, behind).filter(|part| part.is_part) {
                let Some((_, others)) = cut(behind, part.length) else {
                    break;
                };
                length += part.length;
                behind = others;
            }
            if !self.is_configured {
                roll.set_up(index, head.setup.as_slice(), head.shape)?;
            }
            let times = Times {
                decode: time,
                present: time,
            };
            roll.say(index, times, true, &rest[..length], sink)?;
            rest = behind;
            time = head.after(time).unwrap_or(time);
        }
        Ok(())
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        self.pictures.as_ref().map_or(0, Pictures::held_bytes)
    }
}

/// So many bytes, and those behind them.
fn cut(bytes: &[u8], length: usize) -> Option<(usize, &[u8])> {
    bytes.get(length..).map(|behind| (length, behind))
}
