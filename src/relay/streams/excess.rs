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
use crate::relay::quota::{Quota, SourceLimits};
use crate::relay::server_event::ServerEvent;
use crate::time::Instant;

/// Sessions whose last source has gone and left a bucket that is not full: at most 0.8 MiB. A
/// bucket beyond them counts as full.
pub(super) const BUCKETS_MAX: usize = 2048;

impl Streams {
    /// Sets the bit-rate limits of a stream's source. Without a limit, this removes its quota and
    /// ends a pause of the source. The first quota of a stream continues the bucket of the
    /// session's previous source.
    pub fn limit_source(&mut self, id: StreamId, limits: SourceLimits, ctx: &mut Context) {
        if limits.lower().is_none() {
            self.end_source_pause(id, ctx);
            return self.remove_quota(id, ctx);
        }
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        match &mut stream.quota {
            Some(quota) => quota.limits = limits,
            None => {
                let bucket = self.buckets.remove(&stream.session);
                stream.quota = Some(Quota::new(limits, bucket));
            }
        }
        stream.pause_if_empty(ctx);
        stream.rearm(id, ctx);
    }

    /// Removes the quota of a stream's source. The bucket stays for the session's next source.
    pub(super) fn remove_quota(&mut self, id: StreamId, ctx: &Context) {
        if let Some(stream) = self.streams.get_mut(id)
            && let Some(quota) = stream.quota.take()
        {
            let session = stream.session.clone();
            self.buckets.insert(session, quota.bucket, ctx.now());
        }
    }

    /// Returns the limits of a stream's source.
    pub fn source_limits(&self, id: StreamId) -> SourceLimits {
        let quota = self.streams.get(id).and_then(|it| it.quota.as_ref());
        quota.map(|quota| quota.limits).unwrap_or_default()
    }

    /// Counts bytes of a body that is a stream's source.
    pub fn draw(&mut self, id: StreamId, bytes: usize, ctx: &mut Context) {
        if let Some(stream) = self.streams.get_mut(id)
            && let Some(quota) = &mut stream.quota
        {
            quota.draw(bytes, ctx.now());
            stream.pause_if_empty(ctx);
            if stream.paused_until().is_some() {
                stream.rearm(id, ctx);
            }
        }
    }

    /// Returns whether a stream's source is not read now, or was not since this was last asked.
    pub fn take_slowed(&mut self, id: StreamId) -> bool {
        let Some(stream) = self.streams.get_mut(id) else {
            return false;
        };
        let has_paused = stream.quota.as_mut().is_some_and(Quota::take_paused);
        stream.is_paused || has_paused
    }

    /// Returns whether a stream's source has to wait: for its bucket, or for its splicer.
    pub fn must_pause_source(&self, id: StreamId) -> bool {
        let stream = self.streams.get(id);
        stream.is_some_and(|stream| stream.paused_until().is_some() || !stream.spliced.is_empty())
    }

    /// Reads a source again that has waited for its bucket.
    pub(super) fn end_source_pause(&mut self, id: StreamId, ctx: &mut Context) {
        if let Some(stream) = self.streams.get_mut(id)
            && let Some(quota) = &mut stream.quota
        {
            quota.paused_until = None;
            if let StreamSource::Http(connection) = stream.source {
                ctx.notify(Event::ResumeSource(connection));
            }
        }
    }
}

impl Stream {
    /// Returns until when its source is not read, if that is so.
    pub(super) fn paused_until(&self) -> Option<Instant> {
        self.quota.as_ref()?.paused_until
    }

    /// Stops reading a source over HTTP if its bucket is empty.
    fn pause_if_empty(&mut self, ctx: &mut Context) {
        if let StreamSource::Http(_) = self.source
            && let Some(quota) = &mut self.quota
            && quota.pause_if_empty(ctx.now())
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
