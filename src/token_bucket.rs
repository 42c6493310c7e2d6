//! Token buckets: a limit per second, and a limit on bursts.
//!
//! A bucket stores the time at which it is full again, and needs no timer. Callers pass the rate,
//! so that a bucket can serve several rates.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use crate::time::Instant;

/// Speed at which a bucket fills, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Tokens added each second.
    pub per_second: u64,
    /// Tokens that a full bucket holds.
    pub burst: u64,
}

impl Rate {
    /// Returns the rate at which one second's worth may come at once.
    pub const fn per_second(per_second: u64) -> Rate {
        Rate {
            per_second,
            burst: per_second,
        }
    }

    /// Returns how long it takes until `tokens` have come, rounded down.
    fn time_of(self, tokens: u64) -> Duration {
        let nanoseconds = u128::from(tokens) * NANOSECONDS / u128::from(self.per_second.max(1));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

const NANOSECONDS: u128 = 1_000_000_000;

/// A bucket of tokens. A new one is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "handover", serde(transparent))]
pub struct TokenBucket {
    full_at: Instant,
}

impl TokenBucket {
    /// Returns how long the bucket takes to be full.
    pub fn fill_time(&self, now: Instant) -> Duration {
        self.full_at.since(now)
    }

    /// Returns how many tokens are in the bucket.
    pub fn tokens(&self, rate: Rate, now: Instant) -> u64 {
        let fill_time = self.fill_time(now).as_nanos();
        let missing = fill_time.saturating_mul(u128::from(rate.per_second));
        let missing = u64::try_from(missing.div_ceil(NANOSECONDS)).unwrap_or(u64::MAX);
        rate.burst.saturating_sub(missing)
    }

    /// Takes tokens. The bucket may go into debt.
    pub fn take(&mut self, tokens: u64, rate: Rate, now: Instant) {
        self.full_at = self.full_at.max(now) + rate.time_of(tokens);
    }

    /// Takes tokens if the bucket is not empty; it may go into debt. Returns whether it took them.
    pub fn try_take(&mut self, tokens: u64, rate: Rate, now: Instant) -> bool {
        let has_some = self.tokens(rate, now) > 0;
        if has_some {
            self.take(tokens, rate, now);
        }
        has_some
    }
}

/// Token buckets by name, all full at the beginning. A full bucket is removed when its place is
/// needed.
pub struct TokenBuckets<Name, const NAMES_MAX: usize>(HashMap<Name, TokenBucket>);

impl<Name, const NAMES_MAX: usize> Default for TokenBuckets<Name, NAMES_MAX> {
    fn default() -> Self {
        TokenBuckets(HashMap::new())
    }
}

impl<Name: Eq + Hash, const NAMES_MAX: usize> TokenBuckets<Name, NAMES_MAX> {
    /// Returns whether the bucket of this name has a token, and a place.
    pub fn has_token(&self, name: &Name, rate: Rate, now: Instant) -> bool {
        let is_full = |bucket: &TokenBucket| bucket.fill_time(now).is_zero();
        let has_room = self.0.len() < NAMES_MAX || self.0.values().any(is_full);
        has_room && self.get(name).tokens(rate, now) > 0
    }

    /// Returns the bucket of this name, or a full one if there is none.
    pub fn get(&self, name: &Name) -> TokenBucket {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Removes and returns the bucket of this name. Returns a full bucket if there is none.
    pub fn remove(&mut self, name: &Name) -> TokenBucket {
        self.0.remove(name).unwrap_or_default()
    }

    /// Stores a bucket until it is full. Returns whether there was space.
    pub fn insert(&mut self, name: Name, bucket: TokenBucket, now: Instant) -> bool {
        if bucket.fill_time(now).is_zero() {
            return true;
        }
        if self.0.len() >= NAMES_MAX {
            self.0.retain(|_, bucket| !bucket.fill_time(now).is_zero());
            self.0.shrink_to(2 * self.0.len());
        }
        let has_room = self.0.len() < NAMES_MAX;
        if has_room {
            self.0.insert(name, bucket);
        }
        has_room
    }

    /// Takes tokens from the bucket of this name, which may go into debt. Returns whether there was
    /// space for the bucket.
    pub fn take(&mut self, name: Name, tokens: u64, rate: Rate, now: Instant) -> bool {
        let mut bucket = self.remove(&name);
        bucket.take(tokens, rate, now);
        self.insert(name, bucket, now)
    }

    /// Takes tokens from the bucket of this name if it is not empty. Returns whether it took them,
    /// and had space for the bucket.
    pub fn try_take(&mut self, name: Name, tokens: u64, rate: Rate, now: Instant) -> bool {
        let mut bucket = self.remove(&name);
        let has_some = bucket.try_take(tokens, rate, now);
        self.insert(name, bucket, now) && has_some
    }

    /// Returns the stored buckets, each with its name.
    #[cfg(any(test, feature = "handover"))]
    pub fn state(&self) -> Vec<(Name, TokenBucket)>
    where
        Name: Clone,
    {
        let buckets = self.0.iter();
        buckets
            .map(|(name, bucket)| (name.clone(), *bucket))
            .collect()
    }

    /// Stores the buckets that another process had.
    #[cfg(feature = "handover")]
    pub fn take_over(&mut self, buckets: Vec<(Name, TokenBucket)>, now: Instant) {
        for (name, bucket) in buckets {
            self.insert(name, bucket, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at_milliseconds as at;

    #[test]
    fn a_bucket_gives_its_burst_at_once_and_its_rate_from_then_on() {
        for (per_second, burst) in [(1, 1), (3, 3), (16, 16), (32, 1_000), (1_000_000, 7)] {
            let rate = Rate { per_second, burst };
            let mut bucket = TokenBucket::default();
            let mut taken = 0;
            for millisecond in 0..=20_000 {
                let now = at(5_000 + millisecond);
                for _ in 0..10 {
                    taken += u64::from(bucket.try_take(1, rate, now));
                }
                if millisecond == 0 {
                    assert_eq!(taken, burst.min(10), "{rate:?}");
                }
            }
            let most = burst + 20 * per_second;
            assert!(taken <= most, "{rate:?}: {taken}");
            assert!(
                taken >= (most - 1).min(20_000 * burst.min(10)),
                "{rate:?}: {taken}"
            );
        }
    }

    #[test]
    fn tokens_taken_on_debt_are_missing_later() {
        let rate = Rate::per_second(1_000);
        let mut bucket = TokenBucket::default();
        for (milliseconds, taken, fill_time, left) in [
            (5_000, 0, 0, 1_000),
            (5_000, 250, 250, 750),
            (5_000, 250, 500, 500),
            (5_100, 0, 400, 600),
            (5_100, 900, 1_300, 0),
            (6_100, 0, 300, 700),
            (9_000, 0, 0, 1_000),
            (9_000, 1_000, 1_000, 0),
        ] {
            let now = at(milliseconds);
            bucket.take(taken, rate, now);
            assert_eq!(bucket.fill_time(now), Duration::from_millis(fill_time));
            assert_eq!(bucket.tokens(rate, now), left, "{milliseconds} {taken}");
            assert_eq!({ bucket }.try_take(1, rate, now), left > 0);
        }
        bucket.take(u64::MAX, Rate::per_second(0), at(9_000));
        assert_eq!(bucket.tokens(Rate::per_second(u64::MAX), at(9_000)), 0);
    }

    #[test]
    fn a_bucket_is_kept_until_it_is_full() {
        let mut buckets = TokenBuckets::<_, 100>::default();
        let rate = Rate::per_second(1);
        let mut bucket = TokenBucket::default();
        assert!(buckets.insert(0, bucket, at(0)));
        assert_eq!(buckets.state().len(), 0, "it is full");
        bucket.take(1, rate, at(0));
        for name in 0..200 {
            let has_room = buckets.insert(name, bucket, at(0));
            assert_eq!(has_room, name < 100, "{name}");
        }
        assert_eq!(buckets.remove(&7), bucket);
        assert_eq!(buckets.remove(&7), TokenBucket::default());
        // Buckets that are full now make room.
        bucket.take(9, rate, at(1_000));
        assert!((200..300).all(|name| buckets.insert(name, bucket, at(1_000))));
        assert_eq!(buckets.state().len(), 100);
        for (name, seconds, has_token) in [(1, 2, false), (200, 2, false), (1, 10, true)] {
            let now = at(1_000 * seconds);
            assert_eq!(buckets.has_token(&name, rate, now), has_token, "{name}");
        }
        buckets.remove(&201);
        assert!(buckets.has_token(&1, rate, at(2_000)));
        assert!(!buckets.has_token(&200, rate, at(2_000)));
    }
}
