//! Held streams: with `--hold`, a stream whose source broke keeps its viewers and waits for another
//! source.
//!
//! ```text
//!   source lost ─→ Held ─┬─ a source arrives ─→ it goes on at the source's first join point
//!                        ├─ the last viewer leaves, or the time is over ─→ ended
//!                        └─ the source has other tracks ─→ ended; the source begins a new stream
//! ```
//!
//! The session runs meanwhile: a new viewer waits with the others. [`crate::format::splice`] makes
//! one stream of the sources' bytes. It drops the unit within which a source breaks, and the bytes
//! before the next source's first join point. No viewer gets these, and they do not count as a skip.
//!
//! Nothing is appended to a held stream, so none of its viewers skips meanwhile. A remuxed stream that
//! has not caught up still grows, and a slow viewer of it may skip. A viewer that lags may also skip
//! when the next source's bytes overwrite its next byte, as in any stream (`stream::skips`).

use std::net::SocketAddr;

use super::stream::Stream;
use super::{SourceInfo, StreamSource, Streams};
use crate::gate::SessionId;
use crate::relay::StreamId;
use crate::relay::context::Context;
use crate::relay::event::Event;
use crate::relay::server_event::ServerEvent;
use crate::stream::{Detected, End};

impl Streams {
    /// Returns whether the session has a source. A held stream has none.
    pub fn has_source(&self, session: &SessionId) -> bool {
        self.running.contains_key(session) && self.held(session).is_none()
    }

    /// Returns the session's stream if it waits for a source.
    pub fn held(&self, session: &SessionId) -> Option<StreamId> {
        let id = *self.running.get(session)?;
        let stream = self.streams.get(id)?;
        stream.is_held().then_some(id)
    }

    /// Returns whether the viewers of a stream wait: for a source, or for a new source's first join point.
    pub fn is_between_sources(&self, id: StreamId) -> bool {
        let stream = self.streams.get(id);
        stream.is_some_and(Stream::is_between_sources)
    }

    /// Holds a stream that has lost its source. Returns whether it is held.
    pub fn hold(&mut self, id: StreamId, reason: &'static str, ctx: &mut Context) -> bool {
        self.pass_all_spliced(id, ctx);
        let until = ctx.now() + ctx.settings().limits.hold_time;
        let is_watched = self.is_watched_in_any_container(id);
        let viewers = self.viewers_in_all_containers(id);
        let Some(stream) = self.streams.get_mut(id) else {
            return false;
        };
        let format = match stream.buffer.detected() {
            Detected::Known(format) => Some(format),
            Detected::Undecided => None,
            Detected::Unknown => return false,
        };
        let Some(splicer) = &mut stream.splicer else {
            return false;
        };
        if !is_watched
            || ctx.is_closing
            || !splicer.break_off(format, stream.buffer.header().to_vec())
        {
            return false;
        }
        let source = std::mem::replace(&mut stream.source, StreamSource::Held { until });
        let (pull, session) = (stream.pull.take(), stream.session.clone());
        let what = ServerEvent::StreamHeld {
            id: stream.id(ctx.run),
            reason,
            viewers,
            source: stream.source_address,
        };
        ctx.emit(&stream.session, &what);
        self.detach(id, source, ctx);
        if let Some(pull) = pull {
            ctx.notify(Event::PullEnded {
                pull,
                session,
                end: End::Lost,
                has_viewers: true,
            });
        }
        self.rearm(id, ctx);
        true
    }

    /// Continues a held stream with another source.
    pub(super) fn go_on(
        &mut self,
        id: StreamId,
        content_type: Option<String>,
        source: StreamSource,
        source_address: SocketAddr,
        ctx: &mut Context,
    ) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        stream.source = source;
        stream.source_address = source_address;
        stream.source_type = content_type;
        stream.is_paused = false;
        stream.programme.source = SourceInfo::default();
        stream.buffer.begin_seam();
        (stream.input, stream.bare, stream.via) = (None, None, None);
        let what = ServerEvent::StreamGoesOn {
            id: stream.id(ctx.run),
            source: source_address,
        };
        ctx.emit(&stream.session, &what);
        self.clear_remux_errors(id);
    }

    /// Ends a stream whose next source has other tracks, and begins another stream with that
    /// source. Returns the new stream.
    pub(super) fn begin_anew(&mut self, old: StreamId, ctx: &mut Context) -> Option<StreamId> {
        let now = ctx.now();
        let stream = self.streams.get_mut(old)?;
        let source = std::mem::replace(&mut stream.source, StreamSource::Held { until: now });
        let (pull, via) = (stream.pull.take(), stream.via.take());
        let (input, bare) = (stream.input.take(), stream.bare.take());
        let quota = stream.quota.take();
        let info = std::mem::take(&mut stream.programme.source);
        let (session, address) = (stream.session.clone(), stream.source_address);
        let content_type = stream.source_type.take();
        self.end_stream(old, End::Lost, "the next source has other tracks", ctx);
        let id = self.begin_stream(session, content_type, source, address, ctx);
        let stream = self.streams.get_mut(id)?;
        (stream.pull, stream.via) = (pull, via);
        (stream.input, stream.bare, stream.quota) = (input, bare, quota);
        stream.programme.source = info;
        Some(id)
    }
}

#[cfg(test)]
mod tests;
