//! Answers about what a session plays.

use super::api::Outcome;
use super::requests::no_stream;
use super::{Relay, icecast};
use crate::clean_text::Title;
use crate::gate::SessionId;
use crate::http::{Refusal, Status};

impl Relay {
    /// Sets or removes the title of what a session plays. The answer is the stream's row, or
    /// Icecast's.
    pub(super) fn set_title(
        &mut self,
        session: &SessionId,
        title: Title,
        is_icecast: bool,
    ) -> Result<Outcome, Refusal> {
        let set = self.streams.set_title(session, title, &mut self.ctx);
        if is_icecast {
            return Ok(icecast::title_answer(set.is_some()));
        }
        let row = self.streams.row_of(set.ok_or_else(no_stream)?, &self.ctx);
        Ok(Outcome::json(Status::Ok, &row))
    }

    /// Returns what a session plays.
    pub(super) fn now_playing(&self, session: &SessionId) -> Result<Outcome, Refusal> {
        let now = self.streams.now_playing(session).ok_or_else(no_stream)?;
        let now = serde_json::to_string(&now).unwrap_or_default();
        // Pages ask for it all the time.
        Ok(Outcome::Text {
            status: Status::Ok,
            content_type: "application/json",
            caching: "max-age=5",
            text: now.into(),
        })
    }
}
