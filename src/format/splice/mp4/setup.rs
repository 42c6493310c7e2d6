//! What a header of fragmented MP4 sets decoders up with: by that two are compared.

use super::super::super::mp4::{TrackBox, boxes, child, children, descriptor};

/// A track's sample descriptions: whole ones.
#[derive(Clone, Copy)]
pub(super) struct Samples<'a> {
    handler: &'a [u8],
    entries: &'a [u8],
}

/// One of them, without the bit rates that a multiplexer happened to measure.
struct Sample<'a> {
    kind: [u8; 4],
    /// Sizes, rates, channels.
    fields: &'a [u8],
    rest: &'a [u8],
}

/// What stands in a box of one.
#[derive(PartialEq, Eq)]
enum Setup<'a> {
    Whole(&'a [u8]),
    /// Of an `esds` (ISO/IEC 14496-1): the kind of object, and what its decoder is told.
    Decoder(u8, &'a [u8]),
}

impl<'a> Samples<'a> {
    /// Returns the descriptions of a track. `None` if one of them is cut off.
    pub fn read(track: &TrackBox<'a>) -> Option<Samples<'a>> {
        let samples = Samples {
            handler: track.handler,
            entries: track.descriptions,
        };
        let mut each = samples.each();
        each.all(|sample| sample.is_some()).then_some(samples)
    }

    fn each(self) -> impl Iterator<Item = Option<Sample<'a>>> {
        let handler = self.handler;
        boxes(self.entries).map(move |(kind, entry)| {
            let fields_bytes = match handler {
                b"vide" => 78,
                b"soun" => 28,
                _ => entry.len(),
            };
            let (fields, rest) = entry.split_at_checked(fields_bytes)?;
            Some(Sample { kind, fields, rest })
        })
    }
}

impl PartialEq for Samples<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.each().eq(other.each())
    }
}

impl Eq for Samples<'_> {}

impl<'a> Sample<'a> {
    fn setups(&self) -> impl Iterator<Item = ([u8; 4], Setup<'a>)> {
        let boxes = boxes(self.rest).filter(|(kind, _)| kind != b"btrt");
        boxes.map(|(kind, content)| (kind, Setup::read(kind, content)))
    }
}

impl PartialEq for Sample<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, self.fields) == (other.kind, other.fields) && self.setups().eq(other.setups())
    }
}

impl Setup<'_> {
    fn read(kind: [u8; 4], content: &[u8]) -> Setup<'_> {
        let decoder = (&kind == b"esds").then(|| decoder(content)).flatten();
        decoder.map_or(Setup::Whole(content), |(object, told)| {
            Setup::Decoder(object, told)
        })
    }
}

/// An elementary stream's descriptor holds its decoder's, and that holds what the decoder is told.
fn decoder(esds: &[u8]) -> Option<(u8, &[u8])> {
    let stream = descriptor(esds.get(4..)?, 3)?;
    // Behind its number and its flags; whatever the flags announce stands where it is not looked
    // for.
    let config = descriptor(stream.get(3..).filter(|_| stream.get(2) == Some(&0))?, 4)?;
    // Behind the kind, the size of a buffer and two bit rates.
    let told = descriptor(config.get(13..)?, 5)?;
    Some((*config.first()?, told))
}

/// Whether two headers, as late viewers get them, set decoders up alike: each track with its clock
/// and its description, and what is said of samples where fragments say nothing.
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
fn tracks(moov: &[u8]) -> impl Iterator<Item = Option<(u32, u32, &[u8], Samples<'_>)>> {
    children(moov, b"trak").map(|trak| {
        let track = TrackBox::read(trak)?;
        let samples = Samples::read(&track)?;
        Some((track.number, track.ticks_per_second, track.handler, samples))
    })
}
