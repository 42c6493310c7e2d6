//! Samples of a fragment, and its `moof` and `mdat` (ISO/IEC 14496-12 section 8.8).

use super::boxes::{full, numbers, put};
use crate::format::mp4::boxed;

/// Sample that waits until its fragment is whole. Its times are ticks of its track.
#[derive(Debug)]
pub(super) struct Sample {
    /// Decode time in ticks.
    pub decode: i64,
    /// Ticks from decoding to presentation.
    pub offset: u32,
    /// Whether decoding can begin with it.
    pub is_join: bool,
    /// Bytes as they came.
    pub bytes: Box<[u8]>,
}

/// A track's part of a fragment.
#[derive(Debug)]
pub(super) struct Run<'a> {
    /// Number of the track, from 1 on.
    pub number: u32,
    /// Whether it has pictures.
    pub is_video: bool,
    /// Samples in the order of their decode times.
    pub samples: &'a [Sample],
    /// Decode time of the sample after the last one.
    pub end: i64,
}

/// Flags of a sample at which decoding can begin: it depends on no other.
const SYNC: u32 = 0x0200_0000;
/// Flags of another sample: it depends on others, and is no sync sample.
const NOT_SYNC: u32 = 0x0101_0000;
/// Flags of `tfhd`: it has sample flags, and offsets count from the `moof`.
const HEAD_FLAGS: u32 = 0x02_0020;
/// Flags of `trun`: it has a data offset, and entries have durations and sizes.
const RUN_FLAGS: u32 = 0x301;
/// Flags of `trun` for pictures: entries also have flags and composition offsets.
const PICTURE_FLAGS: u32 = 0xc00;

/// Writes a fragment of all runs that have samples.
pub(super) fn write(sequence_number: u32, runs: &[Run<'_>], out: &mut Vec<u8>) {
    let begin = out.len();
    // Positions of the data offsets.
    let mut places = Vec::with_capacity(runs.len());
    boxed(out, b"moof", |out| {
        numbers(out, b"mfhd", &[sequence_number]);
        for run in runs {
            boxed(out, b"traf", |out| places.push(write_run(run, out)));
        }
    });
    boxed(out, b"mdat", |out| {
        for (run, place) in runs.iter().zip(places) {
            let offset = (out.len() - begin) as u32;
            if let Some(place) = out.get_mut(place..).and_then(|rest| rest.first_chunk_mut()) {
                *place = offset.to_be_bytes();
            }
            for sample in run.samples {
                out.extend_from_slice(&sample.bytes);
            }
        }
    });
}

/// Writes the content of a `traf`. Returns the position of its data offset.
fn write_run(run: &Run<'_>, out: &mut Vec<u8>) -> usize {
    let usual = if run.is_video { NOT_SYNC } else { SYNC };
    full(out, b"tfhd", (0, HEAD_FLAGS), |out| {
        put(out, &[run.number, usual])
    });
    let begin = run
        .samples
        .first()
        .map_or(0, |sample| sample.decode.max(0) as u64);
    full(out, b"tfdt", (1, 0), |out| {
        out.extend_from_slice(&begin.to_be_bytes())
    });
    let flags = RUN_FLAGS | if run.is_video { PICTURE_FLAGS } else { 0 };
    let mut place = 0;
    full(out, b"trun", (1, flags), |out| {
        put(out, &[run.samples.len() as u32]);
        place = out.len();
        put(out, &[0]);
        let ends = run.samples.iter().skip(1).map(|sample| sample.decode);
        for (sample, end) in run.samples.iter().zip(ends.chain([run.end])) {
            let duration = u32::try_from(end - sample.decode).unwrap_or(0);
            put(out, &[duration, sample.bytes.len() as u32]);
            if run.is_video {
                let flags = if sample.is_join { SYNC } else { NOT_SYNC };
                put(out, &[flags, sample.offset]);
            }
        }
    });
    place
}
