//! The last hour of each stream: its bit rate and its viewers, every ten seconds.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;

use super::Streams;
use crate::relay::StreamId;
use crate::relay::context::Context;
use crate::time::Instant;

const SAMPLE_TIME: Duration = Duration::from_secs(10);
/// An hour.
const SAMPLES_MAX: usize = 360;

/// The samples of a stream. While its source is silent there are none.
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct History {
    pub samples: VecDeque<Sample>,
    /// When the newest sample was taken, and how many bytes had come.
    newest: Option<(Instant, u64)>,
}

/// The ten seconds or more before `time`.
#[derive(Serialize)]
#[cfg_attr(feature = "handover", derive(serde::Deserialize))]
pub(super) struct Sample {
    /// Unix time in seconds.
    time: u32,
    /// Bits a second from the source.
    bitrate: u32,
    viewers: u32,
}

impl History {
    /// Returns whether a sample is due.
    pub fn is_due(&self, now: Instant) -> bool {
        self.newest
            .is_none_or(|(at, _)| now.since(at) >= SAMPLE_TIME)
    }

    /// Takes a sample. The first call only notes where the history begins.
    fn take(&mut self, (now, unix_seconds): (Instant, u64), bytes: u64, viewers: usize) {
        let before = self.newest.replace((now, bytes));
        let Some((at, bytes_before)) = before else {
            return;
        };
        if self.samples.len() >= SAMPLES_MAX {
            self.samples.pop_front();
        }
        let bits = bytes.saturating_sub(bytes_before).saturating_mul(8);
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        self.samples.push_back(Sample {
            time: small(unix_seconds),
            bitrate: small(bits / now.since(at).as_secs().max(1)),
            viewers: small(viewers as u64),
        });
    }

    /// Returns whether a received history is within its bounds.
    #[cfg(feature = "handover")]
    pub fn is_valid(&self) -> bool {
        self.samples.len() <= SAMPLES_MAX
    }
}

impl Streams {
    /// Takes a sample of a stream that is not remuxed. Viewers of its remuxed streams count.
    pub(super) fn take_sample(&mut self, id: StreamId, ctx: &Context) {
        let viewers = self.viewers_in_all_containers(id);
        let now = (ctx.now(), ctx.date().unix_seconds);
        if let Some(stream) = self.streams.get_mut(id) {
            let bytes = stream.buffer.figures().bytes_received;
            stream.history.take(now, bytes, viewers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An hour is kept, and the rate is that of the time since the sample before.
    #[test]
    fn an_hour_is_kept() {
        let mut history = History::default();
        let at = |seconds| Instant::after_start(Duration::from_secs(seconds));
        assert!(history.is_due(at(0)));
        history.take((at(0), 1_000), 500, 0);
        assert!(history.samples.is_empty());
        for (seconds, is_due) in [(9, false), (10, true), (25, true)] {
            assert_eq!(history.is_due(at(seconds)), is_due, "{seconds}");
        }
        for number in 1..=500 {
            history.take((at(20 * number), 1_000), 500 + 2_500 * number, 7);
        }
        assert_eq!(history.samples.len(), SAMPLES_MAX);
        let newest = history.samples.back().expect("a sample");
        assert_eq!((newest.bitrate, newest.viewers), (1_000, 7));
        assert!(history.samples.capacity() <= 2 * SAMPLES_MAX);
    }
}
