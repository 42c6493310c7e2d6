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

use super::{Feed, Live, Said, Streams};
use crate::format::splice::Splicer;
use crate::gate::SessionId;
use crate::relay::desk::Desk;
use crate::relay::happening::Happening;
use crate::relay::{Level, LiveId};
use crate::stream::{End, Told};

/// The longest unit that is held until it is whole is such a part of the buffer. As much is read at
/// once: what goes out in one go then drives no viewer out of the buffer.
pub(super) const UNIT_PART: usize = 2;

impl Streams {
    /// What cuts and joins a new stream's sources, where streams are held at all.
    pub(super) fn new_splicer(&self, desk: &Desk) -> Option<Box<Splicer>> {
        let limits = &desk.settings().limits;
        let unit_bytes_max = limits.stream.buffer_bytes / UNIT_PART;
        (!limits.hold_time.is_zero()).then(|| Box::new(Splicer::new(unit_bytes_max)))
    }

    /// Whether the session has a source, and not only viewers who wait for one.
    pub fn has_source(&self, session: &SessionId) -> bool {
        self.running.contains_key(session) && self.held(session).is_none()
    }

    /// The session's stream, if that waits for a source.
    pub fn held(&self, session: &SessionId) -> Option<LiveId> {
        let id = *self.running.get(session)?;
        let live = self.lives.get(id)?;
        live.is_held().then_some(id)
    }

    /// Lets a stream that has lost its source wait for another. Says whether it does.
    pub fn hold(&mut self, id: LiveId, reason: &'static str, desk: &mut Desk) -> bool {
        let now = desk.now();
        let until = now + desk.settings().limits.hold_time;
        let is_watched = self.is_seen(id);
        let Some(live) = self.lives.get_mut(id) else {
            return false;
        };
        let format = match live.stream.told() {
            Told::Known(format) => Some(format),
            Told::Undecided => None,
            Told::Unknown => return false,
        };
        let Some(splicer) = &mut live.splicer else {
            return false;
        };
        if !is_watched
            || desk.is_closing()
            || !splicer.break_off(format, live.stream.header().to_vec())
        {
            return false;
        }
        let source = std::mem::replace(&mut live.source, Feed::Held { until });
        let pull = live.pull.take();
        let digest = live.session.digest();
        let viewers = live.stream.viewer_count();
        desk.log(
            Level::Info,
            format_args!(
                "event=stream-held session={digest} reason=\"{reason}\" viewers={viewers}"
            ),
        );
        let id_told = live.id(desk.run());
        desk.tell(
            &live.session,
            &Happening::StreamHeld {
                id: id_told,
                reason,
            },
        );
        self.keep_bucket(id, now);
        self.say(Said::SourceLeft { source, id });
        if let Some(pull) = pull {
            self.say(Said::PullOver {
                pull,
                end: End::Lost,
                has_viewers: true,
            });
        }
        self.rearm(id, desk);
        true
    }

    /// Another source has come for a stream that waits for one.
    pub(super) fn go_on(
        &mut self,
        id: LiveId,
        content_type: Option<String>,
        source: Feed,
        source_address: SocketAddr,
        desk: &mut Desk,
    ) {
        let Some(live) = self.lives.get_mut(id) else {
            return;
        };
        live.source = source;
        live.source_address = source_address;
        live.source_type = content_type;
        live.is_paused = false;
        live.stream.begin_seam();
        (live.input, live.bare, live.via) = (None, None, None);
        let digest = live.session.digest();
        desk.log(
            Level::Info,
            format_args!("event=stream-goes-on session={digest} source={source_address}"),
        );
        let what = Happening::StreamGoesOn {
            id: live.id(desk.run()),
            source: source_address,
        };
        desk.tell(&live.session, &what);
        self.forgive(id);
    }

    /// The source that came for a stream is not like the one before: its viewers are let go, and
    /// the source has a stream of its own, which begins anew.
    pub(super) fn begin_anew(&mut self, old: LiveId, desk: &mut Desk) -> Option<LiveId> {
        let now = desk.now();
        let live = self.lives.get_mut(old)?;
        let source = std::mem::replace(&mut live.source, Feed::Held { until: now });
        let (pull, via) = (live.pull.take(), live.via.take());
        let (input, bare) = (live.input.take(), live.bare.take());
        let quota = live.quota.take();
        let (session, address) = (live.session.clone(), live.source_address);
        let content_type = live.source_type.take();
        self.end_stream(old, End::Lost, "its next source has other tracks", desk);
        let id = self.begin_live(session, content_type, source, address, desk);
        let live = self.lives.get_mut(id)?;
        (live.pull, live.via) = (pull, via);
        (live.input, live.bare, live.quota) = (input, bare, quota);
        Some(id)
    }

    /// Somebody has left a stream: nobody may be left for whom it waits.
    pub(super) fn tend_held(&mut self, id: LiveId, desk: &mut Desk) {
        if self.lives.get(id).is_some_and(Live::is_held) && !self.is_seen(id) {
            self.end_stream(id, End::Lost, "nobody waits for its source", desk);
        }
    }
}

#[cfg(test)]
mod tests;
