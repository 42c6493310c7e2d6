//! Fragments of MP4 (ISO/IEC 14496-12 section 8.8): the header of a track's part (`tfhd`), its decode
//! time (`tfdt`) and its runs of samples (`trun`). Nothing is copied; a field is read when it is
//! asked for.

use super::{child, number};

/// Header of a track's part of a fragment (`tfhd`).
#[derive(Clone, Copy)]
pub(crate) struct TrackFragment<'a> {
    /// Number of the track.
    pub track: u32,
    /// Flags of the box. Some say which optional fields it has.
    flags: u32,
    /// Content of the box.
    content: &'a [u8],
}

impl<'a> TrackFragment<'a> {
    /// Optional field of 8 bytes: the position from which data is counted, in the file.
    pub const BASE_OFFSET: u32 = 0x1;
    /// Optional field: the usual duration of a sample.
    pub const DURATION: u32 = 0x8;
    /// Optional field: the usual size of a sample.
    #[cfg(feature = "remux")]
    pub const SIZE: u32 = 0x10;
    /// Optional field: the usual flags of a sample.
    pub const FLAGS: u32 = 0x20;
    /// Flag without a field: data is counted from the beginning of the `moof`.
    #[cfg(feature = "remux")]
    pub const BASE_IS_MOOF: u32 = 0x2_0000;

    /// Reads the header of a `traf`.
    pub fn read(traf: &[u8]) -> Option<TrackFragment<'_>> {
        let content = child(traf, b"tfhd")?;
        Some(TrackFragment {
            track: number(content, 4)?,
            flags: number(content, 0)? & 0xff_ffff,
            content,
        })
    }

    /// Returns whether a flag is set.
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Returns an optional field of 4 bytes, or `usual` if the header does not have it. `None` if
    /// the header is cut off.
    pub fn field_or(&self, flag: u32, usual: Option<u32>) -> Option<u32> {
        if !self.has(flag) {
            return usual;
        }
        let base_bytes = if self.has(Self::BASE_OFFSET) { 8 } else { 0 };
        let before = self.flags & (flag - 1) & 0x1a;
        let at = 8 + base_bytes + 4 * before.count_ones() as usize;
        number(self.content, at)
    }

    /// Returns the position from which data is counted. The header must have it.
    #[cfg(feature = "remux")]
    pub fn base_offset(&self) -> Option<u64> {
        let bytes = self.content.get(8..)?.first_chunk()?;
        Some(u64::from_be_bytes(*bytes))
    }
}

/// Returns the decode time of a track's first sample, in ticks, from the content of a `tfdt`.
pub(crate) fn decode_time(tfdt: &[u8]) -> Option<u64> {
    match tfdt.first()? {
        1 => Some(u64::from_be_bytes(*tfdt.get(4..)?.first_chunk()?)),
        _ => number(tfdt, 4).map(u64::from),
    }
}

/// Run of samples (`trun`): optional fields, then an entry for each sample.
#[derive(Clone, Copy)]
pub(crate) struct SampleRun<'a> {
    /// Flags of the box. They say which optional fields the run and its entries have.
    pub flags: u32,
    /// Content of the box.
    content: &'a [u8],
}

impl<'a> SampleRun<'a> {
    /// Optional field of the run: where the data begins.
    pub const DATA_OFFSET: u32 = 0x1;
    /// Optional field of the run: the flags of the first sample.
    pub const FIRST_FLAGS: u32 = 0x4;
    /// Optional field of an entry.
    pub const DURATION: u32 = 0x100;
    /// Optional field of an entry.
    #[cfg(feature = "remux")]
    pub const SIZE: u32 = 0x200;
    /// Optional field of an entry.
    pub const FLAGS: u32 = 0x400;
    /// Optional field of an entry: composition offset.
    #[cfg(feature = "remux")]
    pub const OFFSET: u32 = 0x800;
    /// All optional fields of an entry.
    const ENTRY: u32 = 0xf00;

    /// Reads the content of a `trun`.
    pub fn read(content: &[u8]) -> Option<SampleRun<'_>> {
        let flags = number(content, 0)? & 0xff_ffff;
        Some(SampleRun { flags, content })
    }

    /// Returns how many samples the run has.
    pub fn samples(&self) -> Option<u32> {
        number(self.content, 4)
    }

    /// Returns whether a flag is set.
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Returns where the data begins, counted from the base. The run must have it.
    #[cfg(feature = "remux")]
    pub fn data_offset(&self) -> Option<i32> {
        number(self.content, 8).map(|offset| offset as i32)
    }

    /// Returns the flags of the first sample. The run must have them.
    pub fn first_flags(&self) -> Option<u32> {
        number(self.content, self.entries_at() - 4)
    }

    /// Returns where the first entry begins in the content.
    pub fn entries_at(&self) -> usize {
        let fields = self.flags & (Self::DATA_OFFSET | Self::FIRST_FLAGS);
        8 + 4 * fields.count_ones() as usize
    }

    /// Returns how many bytes precede a field in an entry of a run with these flags.
    pub fn bytes_before(flags: u32, field: u32) -> usize {
        4 * (flags & (field - 1) & Self::ENTRY).count_ones() as usize
    }

    /// Returns how many bytes an entry has in a run with these flags.
    pub fn entry_bytes(flags: u32) -> usize {
        4 * (flags & Self::ENTRY).count_ones() as usize
    }
}

/// Returns the duration of a run of samples, in ticks, from the content of a `trun`. Samples last
/// for `usual` where their entries have no duration.
pub(crate) fn duration_of(trun: &[u8], usual: u32) -> Option<u64> {
    let run = SampleRun::read(trun)?;
    let samples = run.samples()?;
    if !run.has(SampleRun::DURATION) {
        return Some(u64::from(samples) * u64::from(usual));
    }
    let entries = trun.get(run.entries_at()..)?;
    let entries = entries.chunks_exact(SampleRun::entry_bytes(run.flags));
    let durations = entries
        .take(samples as usize)
        .filter_map(|entry| number(entry, 0));
    Some(durations.map(u64::from).sum())
}
