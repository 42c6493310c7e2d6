//! What a publisher says about its stream: its title, and its station.
//!
//! A title changes at most once a second. Of the titles that come within a second of a change, the
//! newest holds when that second is over.

use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::Duration;

use super::Streams;
use crate::clean_text::{
    Agent, STATION_TEXTS, StationText, TITLES_BYTES_MAX, TITLES_MAX, Title, TitleChange,
};
use crate::gate::SessionId;
use crate::relay::StreamId;
use crate::relay::context::Context;
use crate::relay::server_event::ServerEvent;
use crate::time::Instant;

/// Time between two changes of a title.
const CHANGE_TIME: Duration = Duration::from_secs(1);

/// What is known of a stream's programme.
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Programme {
    /// The newest titles, at most [`TITLES_MAX`] and [`TITLES_BYTES_MAX`]. The last one holds. An empty
    /// one ends the title before it.
    pub titles: Rc<Vec<TitleChange>>,
    /// The title that holds when the time since the last change is over.
    next: Option<Title>,
    pub source: SourceInfo,
}

/// What a source says about itself.
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct SourceInfo {
    /// What it says about its station; its name first.
    pub station: [StationText; STATION_TEXTS],
    /// Which program it is.
    pub agent: Agent,
    /// Whether it, or the last source, publishes over RTMP.
    pub is_by_rtmp: bool,
}

impl Programme {
    /// Returns the title that holds, with a number that no other title of the stream has. The number
    /// is 1 before the first title. No two titles begin within the same second.
    pub fn numbered_title(&self) -> (NonZeroU32, &Title) {
        const NONE: &Title = &Title::NONE;
        let last = self.titles.last();
        let second = last.map_or(0, |last| (last.began.as_secs() as u32).saturating_add(1));
        let title = last.map_or(NONE, |last| &last.title);
        (NonZeroU32::MIN.saturating_add(second), title)
    }

    /// Returns when the next title holds, if there is one.
    pub fn deadline(&self) -> Option<Instant> {
        self.next.as_ref()?;
        let last = self.titles.last();
        let next = last.map(|last| Instant::after_start(last.began) + CHANGE_TIME);
        Some(next.unwrap_or(Instant::START))
    }

    /// Lets the next title hold, if its time has come. Returns whether the title has changed.
    fn change(&mut self, now: Instant) -> bool {
        let is_due = self.deadline().is_some_and(|deadline| now >= deadline);
        let Some(title) = self.next.take_if(|_| is_due) else {
            return false;
        };
        let titles = Rc::make_mut(&mut self.titles);
        titles.reserve_exact(TITLES_MAX + 1 - titles.len());
        let began = now.since_start();
        titles.push(TitleChange { began, title });
        while !are_bounded(titles) {
            titles.remove(0);
        }
        true
    }

    /// Returns whether the programme that another process sent is within its bound.
    #[cfg(feature = "handover")]
    pub fn is_valid(&self) -> bool {
        are_bounded(&self.titles)
    }
}

/// Returns whether titles are few and short enough. The longest title alone is.
fn are_bounded(titles: &[TitleChange]) -> bool {
    let lengths = titles.iter().map(|change| change.title.as_str().len());
    titles.len() <= TITLES_MAX && lengths.sum::<usize>() <= TITLES_BYTES_MAX
}

impl Streams {
    /// Sets the title of the session's stream, or removes it. Returns the stream, or `None` if the
    /// session does not run.
    pub fn set_title(
        &mut self,
        session: &SessionId,
        title: Title,
        ctx: &mut Context,
    ) -> Option<StreamId> {
        let id = *self.running.get(session)?;
        let programme = &mut self.streams.get_mut(id)?.programme;
        let is_new = *programme.numbered_title().1 != title;
        programme.next = is_new.then_some(title);
        self.change_title(id, ctx);
        self.rearm(id, ctx);
        Some(id)
    }

    /// Sets what a stream's source says about itself.
    pub fn set_source_info(&mut self, id: StreamId, info: SourceInfo) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.programme.source = info;
        }
    }

    /// Lets a stream's next title hold, if its time has come.
    pub(super) fn change_title(&mut self, id: StreamId, ctx: &mut Context) {
        if let Some(stream) = self.streams.get_mut(id)
            && stream.programme.change(ctx.now())
        {
            let (id, title) = (stream.id(ctx.run), stream.programme.numbered_title().1);
            let what = ServerEvent::StreamTitle { id, title };
            ctx.emit(&stream.session, &what);
        }
    }

    /// Returns the title of what the session plays and the name of its station, if it runs.
    pub fn now_playing(&self, session: &SessionId) -> Option<(&Title, &StationText)> {
        let programme = &self.streams.get(*self.running.get(session)?)?.programme;
        let (_, title) = programme.numbered_title();
        Some((title, &programme.source.station[0]))
    }
}

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;
