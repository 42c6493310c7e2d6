//! `max-bitrate`: how fast a session's sources may send, by HTTP or in datagrams.
//!
//! A session has one [`TokenBucket`], from which its sources draw one after another: bodies,
//! datagrams, what an origin sends, and sources that take over. A source over HTTP or from an
//! origin is not read while the bucket is empty. Datagrams cannot wait: the server drops and counts
//! those beyond the rate, whole, as a full network does. Each source is reported once.

use super::{Stream, StreamSource, Streams};
use crate::relay::StreamId;
use crate::relay::context::Context;
use crate::relay::counts::Count;
use crate::relay::event::Event;
use crate::relay::quota::Quota;
use crate::relay::server_event::ServerEvent;
use crate::time::Instant;

/// Sessions whose last source has gone and left a bucket that is not full: at most 0.8 MiB. A
/// bucket beyond them counts as full.
pub(super) const BUCKETS_MAX: usize = 2048;

impl Streams {
    /// Sets how fast a stream's source may be, in bits a second. A source that has just come draws
    /// from the bucket that the session's last one left.
    pub fn limit_source(&mut self, id: StreamId, most: u64, ctx: &mut Context) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        match &mut stream.quota {
            Some(quota) => quota.set_rate(most),
            None => {
                let bucket = self.buckets.remove(&stream.session);
                stream.quota = Some(Quota::new(most, bucket));
            }
        }
        stream.rest_if_empty(ctx);
        stream.rearm(id, ctx);
    }

    /// Returns the bit rate that a stream's source may have, in bits per second.
    pub fn source_limit(&self, id: StreamId) -> Option<u64> {
        let quota = self.streams.get(id)?.quota.as_ref()?;
        Some(quota.bits_per_second())
    }

    /// Counts bytes of a body that is a stream's source.
    pub fn draw(&mut self, id: StreamId, bytes: usize, ctx: &mut Context) {
        if let Some(stream) = self.streams.get_mut(id)
            && let Some(quota) = &mut stream.quota
        {
            quota.draw(bytes, ctx.now());
            stream.rest_if_empty(ctx);
            if stream.rests_until().is_some() {
                stream.rearm(id, ctx);
            }
        }
    }

    /// Returns whether a stream's source is not read now, or was not since this was last asked.
    pub fn take_slowed(&mut self, id: StreamId) -> bool {
        let Some(stream) = self.streams.get_mut(id) else {
            return false;
        };
        let has_rested = stream.quota.as_mut().is_some_and(Quota::take_rested);
        stream.is_paused || has_rested
    }

    /// Returns whether a stream's source has to wait for its bucket.
    pub fn rests(&self, id: StreamId) -> bool {
        let stream = self.streams.get(id);
        stream.is_some_and(|stream| stream.rests_until().is_some())
    }

    /// Reads a source again that has waited for its bucket.
    pub(super) fn end_rest_of_source(&mut self, id: StreamId, ctx: &mut Context) {
        if let Some(stream) = self.streams.get_mut(id)
            && let Some(quota) = &mut stream.quota
        {
            quota.rests_until = None;
            if let StreamSource::Http(connection) = stream.source {
                ctx.notify(Event::ResumeSource(connection));
            }
        }
    }
}

impl Stream {
    /// Returns until when its source is not read, if that is so.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        self.quota.as_ref()?.rests_until
    }

    /// Stops reading a source over HTTP if its bucket is empty.
    fn rest_if_empty(&mut self, ctx: &mut Context) {
        if let StreamSource::Http(_) = self.source
            && let Some(quota) = &mut self.quota
            && quota.rest_if_empty(ctx.now())
        {
            self.report_excess("waits", ctx);
        }
    }

    /// Returns whether a datagram of its source is not too much.
    pub(super) fn admits(&mut self, bytes: usize, ctx: &mut Context) -> bool {
        let quota = self.quota.as_mut();
        let is_admitted = quota.is_none_or(|quota| quota.admits(bytes, ctx.now()));
        if !is_admitted {
            ctx.count(Count::TooFast, 1);
            self.report_excess("dropped", ctx);
        }
        is_admitted
    }

    /// Reports once what happens to the bytes beyond its source's rate.
    fn report_excess(&mut self, what: &'static str, ctx: &mut Context) {
        let Some(most) = self.quota.as_mut().and_then(Quota::take_report) else {
            return;
        };
        let source = self.source_address;
        let event = ServerEvent::SourceTooFast {
            id: self.id(ctx.run),
            source,
            what,
            max_bitrate: most,
        };
        ctx.emit(&self.session, &event);
    }
}
