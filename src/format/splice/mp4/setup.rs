//! Compares headers of fragmented MP4 by what they tell decoders.

use super::super::super::mp4::{TrackBox, boxes, child, children, descriptor};

/// Sample descriptions of a track. All of them are whole.
#[derive(Clone, Copy)]
pub(super) struct Descriptions<'a> {
    handler: &'a [u8],
    entries: &'a [u8],
}

/// A sample description, without the bit rates that a multiplexer has measured.
struct Description<'a> {
    kind: [u8; 4],
    /// Sizes, rates and channels.
    fields: &'a [u8],
    rest: &'a [u8],
}

/// Content of a box in a sample description.
#[derive(PartialEq, Eq)]
enum BoxContent<'a> {
    Whole(&'a [u8]),
    /// Content of an `esds` (ISO/IEC 14496-1): the kind of object, and the decoder's configuration.
    Decoder(u8, &'a [u8]),
}

impl<'a> Descriptions<'a> {
    /// Returns the descriptions of a track. `None` if one of them is cut off.
    pub fn read(track: &TrackBox<'a>) -> Option<Descriptions<'a>> {
        let samples = Descriptions {
            handler: track.handler,
            entries: track.descriptions,
        };
        let mut each = samples.each();
        each.all(|sample| sample.is_some()).then_some(samples)
    }

    fn each(self) -> impl Iterator<Item = Option<Description<'a>>> {
        let handler = self.handler;
        boxes(self.entries).map(move |(kind, entry)| {
            let fields_bytes = match handler {
                b"vide" => 78,
                b"soun" => 28,
                _ => entry.len(),
            };
            let (fields, rest) = entry.split_at_checked(fields_bytes)?;
            Some(Description { kind, fields, rest })
        })
    }
}

impl PartialEq for Descriptions<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.each().eq(other.each())
    }
}

impl Eq for Descriptions<'_> {}

impl<'a> Description<'a> {
    fn setups(&self) -> impl Iterator<Item = ([u8; 4], BoxContent<'a>)> {
        let boxes = boxes(self.rest).filter(|(kind, _)| kind != b"btrt");
        boxes.map(|(kind, content)| (kind, BoxContent::read(kind, content)))
    }
}

impl PartialEq for Description<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, self.fields) == (other.kind, other.fields) && self.setups().eq(other.setups())
    }
}

impl BoxContent<'_> {
    fn read(kind: [u8; 4], content: &[u8]) -> BoxContent<'_> {
        let decoder = (&kind == b"esds").then(|| decoder(content)).flatten();
        decoder.map_or(BoxContent::Whole(content), |(object, specific)| {
            BoxContent::Decoder(object, specific)
        })
    }
}

/// Returns the kind of object and the decoder's configuration. An elementary stream descriptor
/// contains them in the descriptor of its decoder.
fn decoder(esds: &[u8]) -> Option<(u8, &[u8])> {
    let stream = descriptor(esds.get(4..)?, 3)?;
    // The descriptor follows a number and the flags. With flags other fields come first; they are
    // not read.
    let config = descriptor(stream.get(3..).filter(|_| stream.get(2) == Some(&0))?, 4)?;
    // It follows the kind, the size of a buffer and two bit rates.
    let specific = descriptor(config.get(13..)?, 5)?;
    Some((*config.first()?, specific))
}

/// Returns whether two headers set decoders up alike: by each track with its clock and its
/// descriptions, and by the defaults of its samples.
pub fn are_alike(one: &[u8], other: &[u8]) -> bool {
    let Some((one, other)) = child(one, b"moov").zip(child(other, b"moov")) else {
        return false;
    };
    let Some((mine, others)) = child(one, b"mvex").zip(child(other, b"mvex")) else {
        return false;
    };
    tracks(one).all(|track| track.is_some())
        && tracks(one).eq(tracks(other))
        && children(mine, b"trex").eq(children(others, b"trex"))
}

/// Returns what decoders need to know of each track: number, clock, kind and descriptions.
fn tracks(moov: &[u8]) -> impl Iterator<Item = Option<(u32, u32, &[u8], Descriptions<'_>)>> {
    children(moov, b"trak").map(|trak| {
        let track = TrackBox::read(trak)?;
        let samples = Descriptions::read(&track)?;
        Some((track.number, track.ticks_per_second, track.handler, samples))
    })
}
