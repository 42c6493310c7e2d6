//! `max-bitrate`: how fast a session's sources may send, by HTTP or in datagrams.
//!
//! A session has one [`TokenBucket`], from which its sources draw one after another: bodies,
//! datagrams, what an origin sends, and sources that take over. A source over HTTP or from an
//! origin is not read while the bucket is empty. Datagrams cannot wait: the server
//! drops and counts those beyond the rate, whole, as a full network does. Each source is reported
//! once.

use super::{Feed, Live, Said, Streams};
#[cfg(feature = "handover")]
use crate::gate::SessionId;
use crate::moment::Moment;
use crate::relay::counts::Count;
use crate::relay::desk::Desk;
use crate::relay::happening::Happening;
use crate::relay::quota::Quota;
use crate::relay::{Level, LiveId};
#[cfg(feature = "handover")]
use crate::token_bucket::TokenBucket;

/// Sessions whose last source has gone and left a bucket that is not full: 0.8 MiB at most. A
/// bucket beyond them counts as full.
pub(super) const BUCKETS_MAX: usize = 2048;

impl Streams {
    /// Sets how fast a stream's source may be, in bits a second. A source that has just come draws
    /// from the bucket that the session's last one left.
    pub fn limit_source(&mut self, id: LiveId, most: u64, desk: &mut Desk) {
        let Some(live) = self.lives.get_mut(id) else {
            return;
        };
        match &mut live.quota {
            Some(quota) => quota.set_rate(most),
            None => {
                let bucket = self.buckets.remove(&live.session);
                live.quota = Some(Quota::new(most, bucket));
            }
        }
        live.rest_if_empty(desk);
        self.rearm(id, desk);
    }

    /// A stream has lost its source: the session's next one draws from the same bucket.
    pub(super) fn keep_bucket(&mut self, id: LiveId, now: Moment) {
        if let Some(live) = self.lives.get_mut(id)
            && let Some(quota) = live.quota.take()
        {
            self.buckets
                .insert(live.session.clone(), quota.bucket(), now);
        }
    }

    /// Returns the buckets of sessions without a source.
    #[cfg(feature = "handover")]
    pub fn buckets(&self) -> Vec<(SessionId, TokenBucket)> {
        let buckets = self.buckets.iter();
        buckets
            .map(|(name, bucket)| (name.clone(), *bucket))
            .collect()
    }

    /// Takes over the buckets of sessions without a source.
    #[cfg(feature = "handover")]
    pub fn set_buckets(&mut self, buckets: Vec<(SessionId, TokenBucket)>, now: Moment) {
        for (name, bucket) in buckets {
            self.buckets.insert(name, bucket, now);
        }
    }

    /// Counts bytes of a body that is a stream's source.
    pub fn draw(&mut self, id: LiveId, bytes: usize, desk: &mut Desk) {
        if let Some(live) = self.lives.get_mut(id)
            && let Some(quota) = &mut live.quota
        {
            quota.draw(bytes, desk.now());
            live.rest_if_empty(desk);
            if live.rests_until().is_some() {
                self.rearm(id, desk);
            }
        }
    }

    /// Returns whether a stream's source is not read now, or was not since this was last asked.
    pub fn take_slowed(&mut self, id: LiveId) -> bool {
        let Some(live) = self.lives.get_mut(id) else {
            return false;
        };
        let has_rested = live.quota.as_mut().is_some_and(Quota::take_rested);
        live.is_paused || has_rested
    }

    /// Returns whether a stream's source has to wait for its bucket.
    pub fn rests(&self, id: LiveId) -> bool {
        let live = self.lives.get(id);
        live.is_some_and(|live| live.rests_until().is_some())
    }

    /// Reads a source again that has waited for its bucket.
    pub(super) fn end_rest_of_source(&mut self, id: LiveId) {
        if let Some(live) = self.lives.get_mut(id)
            && let Some(quota) = &mut live.quota
        {
            quota.end_rest();
            if let Feed::Http(connection) = live.source {
                self.say(Said::ReadAgain(connection));
            }
        }
    }
}

impl Live {
    /// Returns until when its source is not read, if that is so.
    pub(super) fn rests_until(&self) -> Option<Moment> {
        self.quota.as_ref().and_then(Quota::rests_until)
    }

    /// Returns how many bytes of its source may be read.
    pub(super) fn bytes_left(&self, now: Moment) -> usize {
        let quota = self.quota.as_ref();
        quota.map_or(usize::MAX, |quota| quota.bytes_left(now))
    }

    /// Stops reading a source over HTTP if its bucket is empty.
    fn rest_if_empty(&mut self, desk: &mut Desk) {
        if let Feed::Http(_) = self.source
            && let Some(quota) = &mut self.quota
            && quota.rest_if_empty(desk.now())
        {
            self.report_excess("waits", desk);
        }
    }

    /// Returns whether a datagram of its source is not too much.
    pub(super) fn admits(&mut self, bytes: usize, desk: &mut Desk) -> bool {
        let quota = self.quota.as_mut();
        let is_admitted = quota.is_none_or(|quota| quota.admits(bytes, desk.now()));
        if !is_admitted {
            desk.count(Count::TooFast, 1);
            self.report_excess("dropped", desk);
        }
        is_admitted
    }

    /// Reports once what happens to the bytes beyond its source's rate.
    fn report_excess(&mut self, what: &'static str, desk: &mut Desk) {
        let Some(most) = self.quota.as_mut().and_then(Quota::take_report) else {
            return;
        };
        let digest = self.session.digest();
        let source = self.source_address;
        desk.log(
            Level::Warn,
            format_args!(
                "event=source-too-fast session={digest} source={source} what={what} max_bitrate={most}"
            ),
        );
        let happening = Happening::SourceTooFast {
            id: self.id(desk.run()),
            source,
            what,
            max_bitrate: most,
        };
        desk.tell(&self.session, &happening);
    }
}
