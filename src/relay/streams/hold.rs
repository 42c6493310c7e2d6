//! Viewers that outlive their source: with `--hold` a stream whose source broke waits for another,
//! which goes on with it.
//!
//! ```text
//!   source lost ─→ Held ── a source, by whichever way ─→ it goes on at its first join point
//!                  ├─ nobody watches any more, or too long ─→ ended
//!                  └─ a source with other tracks ─→ ended; the source's stream begins anew
//! ```
//!
//! The session runs meanwhile: who comes to watch joins those who wait. [`crate::format::splice`]
//! makes one stream of the sources' bytes.

use std::net::SocketAddr;

use super::{Stream, StreamSource, Streams};
use crate::format::splice::Splicer;
use crate::gate::SessionId;
use crate::relay::context::Context;
use crate::relay::event::Event;
use crate::relay::server_event::ServerEvent;
use crate::relay::{Level, StreamId};
use crate::stream::{End, Told};

/// The longest unit that is held until it is whole is such a part of the buffer. As much is read at
/// once: what goes out in one go then drives no viewer out of the buffer.
pub(super) const UNIT_PART: usize = 2;

impl Streams {
    /// What cuts and joins a new stream's sources, where streams are held at all.
    pub(super) fn new_splicer(&self, ctx: &Context) -> Option<Box<Splicer>> {
        let limits = &ctx.settings().limits;
        let unit_bytes_max = limits.stream.buffer_bytes / UNIT_PART;
        (!limits.hold_time.is_zero()).then(|| Box::new(Splicer::new(unit_bytes_max)))
    }

    /// Whether the session has a source, and not only viewers who wait for one.
    pub fn has_source(&self, session: &SessionId) -> bool {
        self.running.contains_key(session) && self.held(session).is_none()
    }

    /// The session's stream, if that waits for a source.
    pub fn held(&self, session: &SessionId) -> Option<StreamId> {
        let id = *self.running.get(session)?;
        let stream = self.streams.get(id)?;
        stream.is_held().then_some(id)
    }

    /// Lets a stream that has lost its source wait for another. Says whether it does.
    pub fn hold(&mut self, id: StreamId, reason: &'static str, ctx: &mut Context) -> bool {
        let now = ctx.now();
        let until = now + ctx.settings().limits.hold_time;
        let is_watched = self.is_seen(id);
        let Some(stream) = self.streams.get_mut(id) else {
            return false;
        };
        let format = match stream.buffer.told() {
            Told::Known(format) => Some(format),
            Told::Undecided => None,
            Told::Unknown => return false,
        };
        let Some(splicer) = &mut stream.splicer else {
            return false;
        };
        if !is_watched
            || ctx.is_closing()
            || !splicer.break_off(format, stream.buffer.header().to_vec())
        {
            return false;
        }
        let source = std::mem::replace(&mut stream.source, StreamSource::Held { until });
        let pull = stream.pull.take();
        let digest = stream.session.digest();
        let viewers = stream.buffer.viewer_count();
        ctx.log(
            Level::Info,
            format_args!(
                "event=stream-held session={digest} reason=\"{reason}\" viewers={viewers}"
            ),
        );
        let id_told = stream.id(ctx.run());
        ctx.tell(
            &stream.session,
            &ServerEvent::StreamHeld {
                id: id_told,
                reason,
            },
        );
        self.keep_bucket(id, now);
        if let StreamSource::Rtp(address) = source {
            ctx.notify(Event::RtpSourceLeft { address, id });
        }
        if let Some(pull) = pull {
            ctx.notify(Event::PullEnded {
                pull,
                end: End::Lost,
                has_viewers: true,
            });
        }
        self.rearm(id, ctx);
        true
    }

    /// Another source has come for a stream that waits for one.
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
        stream.buffer.begin_seam();
        (stream.input, stream.bare, stream.via) = (None, None, None);
        let digest = stream.session.digest();
        ctx.log(
            Level::Info,
            format_args!("event=stream-goes-on session={digest} source={source_address}"),
        );
        let what = ServerEvent::StreamGoesOn {
            id: stream.id(ctx.run()),
            source: source_address,
        };
        ctx.tell(&stream.session, &what);
        self.forgive(id);
    }

    /// The source that came for a stream is not like the one before: its viewers are let go, and
    /// the source has a stream of its own, which begins anew.
    pub(super) fn begin_anew(&mut self, old: StreamId, ctx: &mut Context) -> Option<StreamId> {
        let now = ctx.now();
        let stream = self.streams.get_mut(old)?;
        let source = std::mem::replace(&mut stream.source, StreamSource::Held { until: now });
        let (pull, via) = (stream.pull.take(), stream.via.take());
        let (input, bare) = (stream.input.take(), stream.bare.take());
        let quota = stream.quota.take();
        let (session, address) = (stream.session.clone(), stream.source_address);
        let content_type = stream.source_type.take();
        self.end_stream(old, End::Lost, "its next source has other tracks", ctx);
        let id = self.begin_live(session, content_type, source, address, ctx);
        let stream = self.streams.get_mut(id)?;
        (stream.pull, stream.via) = (pull, via);
        (stream.input, stream.bare, stream.quota) = (input, bare, quota);
        Some(id)
    }

    /// Somebody has left a stream: nobody may be left for whom it waits.
    pub(super) fn tend_held(&mut self, id: StreamId, ctx: &mut Context) {
        if self.streams.get(id).is_some_and(Stream::is_held) && !self.is_seen(id) {
            self.end_stream(id, End::Lost, "nobody waits for its source", ctx);
        }
    }
}

#[cfg(test)]
mod tests;
