//! Counters over all streams, for the metrics.

#[cfg(feature = "handover")]
mod handover;

use std::collections::BTreeMap;
use std::time::Duration;

use super::cut_reason::Cuts;
use crate::http::Status;

/// One counter.
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    /// Accepted connections.
    Connections,
    /// Streams that began.
    Streams,
    /// Media bytes of removed streams, from their sources.
    BytesReceived,
    /// Media bytes of removed streams, to viewers.
    BytesSent,
    /// Media bytes of removed streams, to UDP clients.
    UdpBytesSent,
    /// How often viewers of removed streams fell out of the buffer.
    Skips,
    /// Requests for HLS playlists.
    Playlists,
    /// Remuxed streams that began.
    Remuxed,
    /// Requests for HLS segments, their parts and their headers.
    Segments,
    /// Writes to the token file.
    TokenWrites,
    TokenWritesFailed,
    /// Datagrams from sources.
    Datagrams,
    /// Datagrams to UDP clients.
    DatagramsSent,
    /// Dropped datagrams: no token names the sender. This and the next ones are reasons for drops.
    Stranger,
    /// Dropped: neither RTP nor RTCP, nor the MPEG-TS of its token.
    Malformed,
    /// Dropped: the host may not be a source (`--publish-from`).
    Outside,
    /// Dropped: its SSRC is not the source's, or all sessions of the host have another source.
    SecondSource,
    /// Dropped: there is no room for its source, its session is blocked, or its address became the
    /// source of another stream within the last second.
    Refused,
    /// Dropped: not in sequence with the source's packets.
    OutOfSequence,
    /// Dropped: above the bit rate that its session's token allows.
    TooFast,
    /// Datagrams to UDP clients that were dropped: too many waited, or the kernel took no more.
    Unsent,
    /// Packets of a source that came too late, or twice.
    Late,
    /// Packets of a source that did not come in time. If such a packet comes later, it is late, too.
    Lost,
}

/// Counters since the start.
#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Counts {
    #[cfg_attr(feature = "handover", serde(with = "handover::numbers"))]
    numbers: [u64; Count::Lost as usize + 1],
    /// Refused requests, by status.
    pub(super) refusals: BTreeMap<Status, u64>,
    /// Cut viewers, by reason.
    #[cfg_attr(feature = "handover", serde(skip))]
    pub(super) cuts: Cuts,
    #[cfg_attr(feature = "handover", serde(skip))]
    pub files: Files,
    #[cfg_attr(feature = "handover", serde(skip))]
    pub(super) process: Process,
    /// Processor time of this process and of its predecessors.
    pub(super) cpu: Duration,
    /// Processor time of its predecessors.
    #[cfg_attr(feature = "handover", serde(skip))]
    cpu_before: Duration,
    pub(super) turns: Turns,
}

/// Resources that the process uses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process {
    /// Processor time since its start, in user and kernel mode.
    pub cpu: Duration,
    /// Virtual memory. `None`: unknown on this system.
    pub virtual_bytes: Option<u64>,
    /// Resident memory. `None`: unknown on this system.
    pub resident_bytes: Option<u64>,
}

/// File descriptors.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files {
    /// File descriptors that do not belong to clients.
    pub own: u64,
    /// Limit on file descriptors.
    pub max: u64,
}

/// Durations of the turns of the loop.
#[derive(Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Turns {
    /// Number of turns by duration: one bucket for each of [`BOUNDS`], and one for longer turns.
    #[cfg_attr(feature = "handover", serde(with = "handover::numbers"))]
    buckets: [u64; BOUNDS.len() + 1],
    pub microseconds: u64,
}

/// Upper bounds of the buckets, in microseconds.
const BOUNDS: [u64; 9] = [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 250_000];

/// Counters that only the shell can measure.
impl Counts {
    /// Counts a turn of the loop. `time` runs from the end of its wait.
    pub fn turn_took(&mut self, time: Duration) {
        let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|bound| *bound < microseconds);
        let bucket = &mut self.turns.buckets[bucket];
        *bucket = bucket.saturating_add(1);
        self.turns.microseconds = self.turns.microseconds.saturating_add(microseconds);
    }

    /// Sets the resources that the process uses.
    pub fn set_process(&mut self, process: Process) {
        self.cpu = process.cpu.saturating_add(self.cpu_before);
        self.process = process;
    }
}

impl Counts {
    /// Adds `number` to a counter.
    pub(super) fn add(&mut self, what: Count, number: u64) {
        let sum = &mut self.numbers[what as usize];
        *sum = sum.saturating_add(number);
    }

    /// Returns how often viewers of removed streams fell out of the buffer.
    pub fn skips(&self) -> u64 {
        self.of(Count::Skips)
    }

    /// Returns the value of a counter.
    pub(super) fn of(&self, what: Count) -> u64 {
        self.numbers[what as usize]
    }

    /// Counts a refused request.
    pub(super) fn refused(&mut self, status: Status) {
        let count = self.refusals.entry(status).or_insert(0);
        *count = count.saturating_add(1);
    }
}

impl Turns {
    /// Returns the rows of the histogram: the bound in microseconds, and the number of values up to
    /// it. `None`: no bound.
    pub fn rows(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let mut count = 0;
        let bounds = BOUNDS.into_iter().map(Some).chain([None]);
        bounds.zip(self.buckets).map(move |(bound, turns)| {
            count = turns.saturating_add(count);
            (bound, count)
        })
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
        let rows: Vec<_> = counts.turns.rows().collect();
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
        assert_eq!(counts.turns.microseconds, sum);
    }

    #[test]
    fn each_thing_is_counted_for_itself() {
        let mut counts = Counts::default();
        counts.add(Count::Skips, 2);
        counts.add(Count::Skips, 3);
        counts.add(Count::Lost, 7);
        assert_eq!((counts.of(Count::Skips), counts.of(Count::Lost)), (5, 7));
        assert_eq!(counts.of(Count::Late), 0);
        for status in [Status::NotFound, Status::Conflict, Status::NotFound] {
            counts.refused(status);
        }
        let refusals: Vec<_> = counts.refusals.iter().collect();
        assert!(refusals.contains(&(&Status::NotFound, &2)) && refusals.len() == 2);
        counts.files = Files { own: 3, max: 9 };
        let cpu = Duration::from_secs(4);
        counts.set_process(Process {
            cpu,
            ..Process::default()
        });
        assert_eq!((counts.files.own, counts.files.max), (3, 9));
        assert_eq!(counts.cpu, cpu);
    }
}
