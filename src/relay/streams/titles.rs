//! What a publisher says about its stream: its title, and its station.
//!
//! A title changes at most once a second. Of the titles that come within a second of a change, the
//! newest holds when that second is over.

use std::num::NonZeroU32;
use std::time::Duration;

use super::Streams;
use crate::clean_text::{CleanText, Title};
use crate::gate::SessionId;
use crate::http::Station;
use crate::relay::StreamId;
use crate::relay::context::Context;
use crate::relay::server_event::ServerEvent;
use crate::time::Instant;

/// Time between two changes of a title.
const CHANGE_TIME: Duration = Duration::from_secs(1);

/// What is known of a stream's programme.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Programme {
    title: Option<Title>,
    /// Number of the title. It is 1 until the first one is set.
    serial: NonZeroU32,
    /// When the title changed last.
    changed: Option<Instant>,
    /// The title that holds when the time since the last change is over.
    next: Option<NextTitle>,
    /// What the source says about its station.
    pub station: Station,
    /// `User-Agent` of the source.
    #[cfg_attr(feature = "handover", serde(default))]
    pub agent: Option<Agent>,
}

/// A source's `User-Agent`.
pub(super) type Agent = CleanText<128>;

/// A title that does not hold yet. `None` removes the title.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct NextTitle {
    title: Option<Title>,
}

impl Default for Programme {
    fn default() -> Programme {
        Programme {
            title: None,
            serial: Programme::NO_TITLE,
            changed: None,
            next: None,
            station: Station::default(),
            agent: None,
        }
    }
}

impl Programme {
    /// Number of a title that is not set.
    pub const NO_TITLE: NonZeroU32 = NonZeroU32::MIN;

    /// Returns the title that holds.
    pub fn title(&self) -> Option<&Title> {
        self.title.as_ref()
    }

    /// Returns the number of the title that holds.
    pub fn serial(&self) -> NonZeroU32 {
        self.serial
    }

    /// Returns the name of the station.
    pub fn name(&self) -> Option<&str> {
        self.station.name().map(|name| name.as_str())
    }

    /// Returns when the next title holds, if there is one.
    pub fn deadline(&self) -> Option<Instant> {
        let changed = self.changed.filter(|_| self.next.is_some())?;
        Some(changed + CHANGE_TIME)
    }

    /// Takes a title. [`Programme::change`] makes it hold.
    fn offer(&mut self, title: Option<Title>) {
        self.next = (title != self.title).then_some(NextTitle { title });
    }

    /// Lets the next title hold, if its time has come. Returns whether the title has changed.
    fn change(&mut self, now: Instant) -> bool {
        let is_early = self.deadline().is_some_and(|deadline| now < deadline);
        let Some(NextTitle { title }) = self.next.take_if(|_| !is_early) else {
            return false;
        };
        self.title = title;
        self.serial = self.serial.saturating_add(1);
        self.changed = Some(now);
        true
    }

    /// Returns the bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        let next = self.next.as_ref().and_then(|next| next.title.as_ref());
        let titles = self.title.iter().chain(next);
        titles.map(Title::held_bytes).sum::<usize>()
            + self.station.held_bytes()
            + self.agent.as_ref().map_or(0, Agent::held_bytes)
    }
}

impl Streams {
    /// Sets the title of the session's stream. Returns the stream, or `None` if the session does not
    /// run.
    pub fn set_title(
        &mut self,
        session: &SessionId,
        title: Option<Title>,
        ctx: &mut Context,
    ) -> Option<StreamId> {
        let id = *self.running.get(session)?;
        self.streams.get_mut(id)?.programme.offer(title);
        self.change_title(id, ctx);
        self.rearm(id, ctx);
        Some(id)
    }

    /// Sets what a stream's source says about its station, and its `User-Agent`.
    pub fn set_publisher(&mut self, id: StreamId, station: Station, agent: Option<&str>) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.programme.station = station;
            stream.programme.agent = agent.and_then(Agent::new);
        }
    }

    /// Lets a stream's next title hold, if its time has come.
    pub(super) fn change_title(&mut self, id: StreamId, ctx: &mut Context) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        if stream.programme.change(ctx.now()) {
            let what = ServerEvent::StreamTitle {
                id: stream.id(ctx.run()),
                title: stream.programme.title(),
            };
            ctx.emit(&stream.session, &what);
            self.list_title(id, ctx.now());
        }
    }

    /// Adds a stream's title to its playlists of HLS.
    pub(super) fn list_title(&mut self, id: StreamId, now: Instant) {
        let Some(stream) = self.streams.get(id) else {
            return;
        };
        let title = stream.programme.title().cloned();
        let numbered = (stream.programme.serial(), title);
        for id in self.with_remuxed(id).collect::<Vec<_>>() {
            let buffer = self.streams.get_mut(id).map(|stream| &mut stream.buffer);
            if let Some(cutter) = buffer.and_then(|buffer| buffer.segments()) {
                cutter.begin_title(numbered.clone(), now);
            }
        }
    }

    /// Returns the programme of the session's stream, if the session runs.
    pub fn programme(&self, session: &SessionId) -> Option<(Option<&Title>, Option<&str>)> {
        let stream = self.streams.get(*self.running.get(session)?)?;
        Some((stream.programme.title(), stream.programme.name()))
    }
}

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;
