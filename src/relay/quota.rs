//! Limits the bit rate of one source, by its token's `max-bitrate`.

use std::time::Duration;

use crate::time::Instant;
use crate::token_bucket::{Rate, TokenBucket};

/// Limits of the bit rate of a stream's source, in bits per second. The lower one counts. A source
/// keeps a limit when its token is revoked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct SourceLimits {
    /// Limit of the key that admitted the source.
    pub by_key: Option<u64>,
    /// Limit of the session's own token.
    pub by_session: Option<u64>,
}

impl SourceLimits {
    /// Returns the limit that counts, in bits per second.
    pub fn lower(self) -> Option<u64> {
        [self.by_key, self.by_session].into_iter().flatten().min()
    }

    /// Returns the rate in bytes per second.
    fn bytes_per_second(self) -> u64 {
        (self.lower().unwrap_or(u64::MAX) / 8).max(1)
    }
}

/// The bit rate of a stream's source, and how much of it is left. The stream keeps it until it loses
/// the source.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Quota {
    /// The limits of its source.
    pub limits: SourceLimits,
    /// The session's bucket, which holds one second's worth.
    pub bucket: TokenBucket,
    /// Datagrams that were dropped.
    refused: u64,
    /// Time at which the source is read again. `None`: it is being read.
    pub paused_until: Option<Instant>,
    /// The source was not read for a while since the last [`Quota::take_paused`].
    has_paused: bool,
    /// The log has said that the source is too fast.
    has_logged: bool,
}

/// Time before its bucket is full at which a source is read again. The bucket then has a tenth of a
/// second's worth: reading every few bytes would cost too much.
const READ_AGAIN_BEFORE_FULL: Duration = Duration::from_millis(900);

impl Quota {
    /// Lets a source that has just come draw from the session's bucket.
    pub fn new(limits: SourceLimits, bucket: TokenBucket) -> Quota {
        Quota {
            limits,
            bucket,
            refused: 0,
            paused_until: None,
            has_paused: false,
            has_logged: false,
        }
    }

    fn rate(&self) -> Rate {
        Rate::per_second(self.limits.bytes_per_second())
    }

    /// Counts bytes that have come.
    pub fn draw(&mut self, bytes: usize, now: Instant) {
        self.bucket.take(bytes as u64, self.rate(), now);
    }

    /// Stops reading the source if its bucket is empty. Returns whether it is not read now.
    pub fn pause_if_empty(&mut self, now: Instant) -> bool {
        if self.bucket.tokens(self.rate(), now) == 0 {
            let fill_time = self.bucket.fill_time(now);
            self.paused_until = Some(now + fill_time.saturating_sub(READ_AGAIN_BEFORE_FULL));
            self.has_paused = true;
        }
        self.paused_until.is_some()
    }

    /// Returns whether the source is not read now, or was not for a while since the last call.
    pub fn take_paused(&mut self) -> bool {
        std::mem::take(&mut self.has_paused) || self.paused_until.is_some()
    }

    /// Returns how many bytes may be read.
    pub fn bytes_left(&self, now: Instant) -> usize {
        let tokens = match self.paused_until {
            Some(_) => 0,
            None => self.bucket.tokens(self.rate(), now).max(1),
        };
        usize::try_from(tokens).unwrap_or(usize::MAX)
    }

    /// Counts a datagram. Returns whether it is admitted: it is if the bucket is not empty, also if
    /// the datagram has more bytes than the bucket.
    pub fn admits(&mut self, bytes: usize, now: Instant) -> bool {
        let is_admitted = self.bucket.try_take(bytes as u64, self.rate(), now);
        self.refused = self.refused.saturating_add(u64::from(!is_admitted));
        is_admitted
    }

    /// Returns how many datagrams were dropped.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns the rate in bits per second at the first call, and then `None`.
    pub fn take_report(&mut self) -> Option<u64> {
        let has_logged = std::mem::replace(&mut self.has_logged, true);
        (!has_logged).then(|| self.limits.bytes_per_second().saturating_mul(8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(bits_per_second: u64) -> SourceLimits {
        SourceLimits {
            by_key: None,
            by_session: Some(bits_per_second),
        }
    }

    /// However much is there, and however it comes: a second's worth at once, and then the rate.
    #[test]
    fn what_is_read_keeps_to_the_rate() {
        for piece in [1_000, 60_000, usize::MAX] {
            let mut now = Instant::START;
            let mut quota = Quota::new(limit(800_000), TokenBucket::default());
            let (mut bytes, mut reads) = (0, 0);
            while now.since_start() < Duration::from_secs(10) {
                let read = quota.bytes_left(now).min(piece);
                if read > 0 {
                    quota.draw(read, now);
                    (bytes, reads) = (bytes + read, reads + 1);
                }
                if quota.pause_if_empty(now) {
                    let paused_until = quota.paused_until.expect("it is not read");
                    assert!(paused_until > now, "it would be asked again and again");
                    assert_eq!(quota.bytes_left(now), 0);
                    now = paused_until;
                    quota.paused_until = None;
                }
                assert!(bytes as f64 <= 100_000.0 * (now.since_start().as_secs_f64() + 1.01));
            }
            assert!(bytes >= 1_000_000, "{bytes} in ten seconds");
            assert!(reads <= 110 + bytes / piece.min(bytes), "{reads} reads");
            assert!(quota.take_paused() && !quota.take_paused());
        }
    }

    #[test]
    fn datagrams_beyond_the_rate_are_counted_and_the_rate_is_reported_once() {
        let at = |milliseconds| Instant::after_start(Duration::from_millis(milliseconds));
        // No rate is lower: such a source would never end.
        assert_eq!(
            Quota::new(limit(7), TokenBucket::default()).take_report(),
            Some(8)
        );
        let mut quota = Quota::new(limit(8_000), TokenBucket::default());
        for (milliseconds, bytes, is_admitted, refused) in [
            (0, 999, true, 0),
            (0, 600, true, 0),
            (0, 1, false, 1),
            (599, 1, false, 2),
            (600, 1, true, 2),
            (600, 1, false, 3),
        ] {
            let seen = quota.admits(bytes, at(milliseconds));
            assert_eq!(seen, is_admitted, "{milliseconds} {bytes}");
            assert_eq!(quota.refused(), refused);
        }
        quota.limits = limit(16_000);
        assert_eq!(
            (quota.take_report(), quota.take_report()),
            (Some(16_000), None)
        );
    }
}
