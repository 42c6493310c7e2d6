//! Counters over all streams, for the metrics.

#[cfg(feature = "handover")]
mod handover;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::http::Status;

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    /// Accepted.
    Connections,
    /// That began.
    Streams,
    /// Media of streams that are over, from their sources,
    BytesReceived,
    /// to viewers,
    BytesSent,
    /// and to UDP clients.
    UdpBytesSent,
    /// Times that a viewer of one of these fell out of the buffer.
    Skips,
    /// Requests for HLS playlists,
    Playlists,
    /// Streams that were made into another container.
    Remuxed,
    /// and for what they name.
    Segments,
    /// Writes to the token file.
    TokenWrites,
    TokenWritesFailed,
    /// Datagrams taken from sources.
    Datagrams,
    /// Sent to clients.
    DatagramsSent,
    /// Dropped, from a host that no token names.
    Stranger,
    /// Neither RTP nor RTCP.
    Malformed,
    /// From a host that may not be a source (`--publish-from`).
    Outside,
    /// Of another SSRC than the source's, or from a host whose sessions all have another source.
    SecondSource,
    /// Of a source for which there is no room, whose session is blocked, or whose address has been
    /// the source of another stream within the last second.
    Refused,
    /// Not in sequence with what its source sends.
    OutOfSequence,
    /// Beyond the rate that its session's token allows.
    TooFast,
    /// Too much waited to be sent, or the kernel took no more.
    Unsent,
    /// Packets of a source's MPEG-TS that came too late, or twice.
    Late,
    /// Those that were not waited for any longer.
    Lost,
}

/// What has been counted since the start.
#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Counts {
    #[cfg_attr(feature = "handover", serde(with = "handover::numbers"))]
    numbers: [u64; Count::Lost as usize + 1],
    /// Requests, by status.
    refusals: BTreeMap<Status, u64>,
    /// Viewers that were cut, by why.
    #[cfg_attr(feature = "handover", serde(skip))]
    cuts: BTreeMap<&'static str, u64>,
    /// What waits for the shell's threads, in bytes.
    #[cfg_attr(feature = "handover", serde(skip))]
    threads_bytes: usize,
    #[cfg_attr(feature = "handover", serde(skip))]
    files: Files,
    #[cfg_attr(feature = "handover", serde(skip))]
    process: Process,
    /// Processor time of this process and of those whose place it took.
    cpu: Duration,
    /// Of those alone.
    #[cfg_attr(feature = "handover", serde(skip))]
    cpu_before: Duration,
    turns: Turns,
}

/// What the process takes of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process {
    /// Since its start, for itself and in the kernel.
    pub cpu: Duration,
    /// What it may use; `None`: that is not known here.
    pub virtual_bytes: Option<u64>,
    /// What of it is in memory.
    pub resident_bytes: Option<u64>,
}

/// File descriptors.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files {
    /// Those that are not clients'.
    pub own: u64,
    /// As many as there may be.
    pub max: u64,
}

/// How long the turns of the loop took.
#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Turns {
    /// Turns of at most [`BOUNDS`] each, and longer ones.
    #[cfg_attr(feature = "handover", serde(with = "handover::numbers"))]
    buckets: [u64; BOUNDS.len() + 1],
    microseconds: u64,
}

/// Upper bounds of the buckets, in microseconds.
const BOUNDS: [u64; 9] = [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 250_000];

/// What the shell counts, who alone sees it.
impl Counts {
    /// A turn of the loop took so long, from the end of its wait on.
    pub fn turn_took(&mut self, time: Duration) {
        let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|bound| *bound < microseconds);
        self.turns.buckets[bucket] += 1;
        self.turns.microseconds = self.turns.microseconds.saturating_add(microseconds);
    }

    /// Sets the memory of jobs and lines that wait for the shell's threads, in bytes.
    pub fn threads_hold(&mut self, bytes: usize) {
        self.threads_bytes = bytes;
    }

    /// What the process takes, as the kernel says.
    pub fn set_process(&mut self, process: Process) {
        self.cpu = process.cpu.saturating_add(self.cpu_before);
        self.process = process;
    }

    /// How many file descriptors there are: the shell opens them.
    pub fn set_files(&mut self, files: Files) {
        self.files = files;
    }
}

impl Counts {
    /// So many more.
    pub(super) fn add(&mut self, what: Count, number: u64) {
        self.numbers[what as usize] += number;
    }

    /// How often viewers fell out of the buffers of streams that are over.
    pub fn skips(&self) -> u64 {
        self.of(Count::Skips)
    }

    /// So many.
    pub(super) fn of(&self, what: Count) -> u64 {
        self.numbers[what as usize]
    }

    /// A request was refused.
    pub(super) fn refused(&mut self, status: Status) {
        *self.refusals.entry(status).or_insert(0) += 1;
    }

    /// Viewers may be cut for these reasons: none has been yet.
    pub(super) fn know_cuts(&mut self, reasons: impl IntoIterator<Item = &'static str>) {
        self.cuts
            .extend(reasons.into_iter().map(|reason| (reason, 0)));
    }

    /// A viewer was cut for this reason.
    pub(super) fn cut(&mut self, reason: &'static str) {
        *self.cuts.entry(reason).or_insert(0) += 1;
    }

    /// Requests that were refused, by status.
    pub(super) fn refusals(&self) -> &BTreeMap<Status, u64> {
        &self.refusals
    }

    /// Viewers that were cut, by why.
    pub(super) fn cuts(&self) -> &BTreeMap<&'static str, u64> {
        &self.cuts
    }

    /// Bytes that wait for the shell's threads.
    pub(super) fn threads_bytes(&self) -> usize {
        self.threads_bytes
    }

    /// What is known of file descriptors.
    pub(super) fn files(&self) -> Files {
        self.files
    }

    /// Processor time of this process and of those whose place it took.
    pub(super) fn cpu(&self) -> Duration {
        self.cpu
    }

    /// What the process takes.
    pub(super) fn process(&self) -> Process {
        self.process
    }

    /// How long the turns of the loop took.
    pub(super) fn turns(&self) -> &Turns {
        &self.turns
    }
}

impl Turns {
    /// Returns the rows of the histogram: the bound in microseconds, and the number of values up to
    /// it. `None`: no bound.
    pub fn rows(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let mut count = 0;
        let bounds = BOUNDS.into_iter().map(Some).chain([None]);
        bounds.zip(self.buckets).map(move |(bound, turns)| {
            count += turns;
            (bound, count)
        })
    }

    /// What they took together.
    pub fn microseconds(&self) -> u64 {
        self.microseconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A turn lies in the first bucket whose bound it does not exceed; a row counts all up to it.
    #[test]
    fn turns_are_counted_up_to_each_bound() {
        let mut counts = Counts::default();
        let mut sum = 0;
        for microseconds in [0, 99, 100, 101, 250, 251, 250_000, 250_001, 9_000_000] {
            counts.turn_took(Duration::from_micros(microseconds));
            sum += microseconds;
        }
        let rows: Vec<_> = counts.turns().rows().collect();
        let expected = [
            (Some(100), 3),
            (Some(250), 5),
            (Some(500), 6),
            (Some(1_000), 6),
            (Some(2_500), 6),
            (Some(5_000), 6),
            (Some(10_000), 6),
            (Some(50_000), 6),
            (Some(250_000), 7),
            (None, 9),
        ];
        assert_eq!(rows, expected);
        assert_eq!(counts.turns().microseconds(), sum);
    }

    #[test]
    fn each_thing_is_counted_for_itself() {
        let mut counts = Counts::default();
        counts.add(Count::Skips, 2);
        counts.add(Count::Skips, 3);
        counts.add(Count::Lost, 7);
        assert_eq!((counts.skips(), counts.of(Count::Lost)), (5, 7));
        assert_eq!(counts.of(Count::Late), 0);
        for status in [Status::NotFound, Status::Conflict, Status::NotFound] {
            counts.refused(status);
        }
        let refusals: Vec<_> = counts.refusals().iter().collect();
        assert!(refusals.contains(&(&Status::NotFound, &2)) && refusals.len() == 2);
        counts.know_cuts(["slow", "kicked"]);
        counts.cut("slow");
        counts.cut("slow");
        counts.cut("other");
        let cuts: Vec<_> = counts
            .cuts()
            .iter()
            .map(|(why, number)| (*why, *number))
            .collect();
        assert_eq!(cuts, [("kicked", 0), ("other", 1), ("slow", 2)]);
        counts.threads_hold(17);
        counts.set_files(Files { own: 3, max: 9 });
        let cpu = Duration::from_secs(4);
        counts.set_process(Process {
            cpu,
            ..Process::default()
        });
        assert_eq!((counts.files().own, counts.files().max), (3, 9));
        assert_eq!((counts.threads_bytes(), counts.cpu()), (17, cpu));
    }
}
