//! What sessions play, in the forms that pages, players of radio and panels read.

use super::admission::no_stream;
use super::api::{About, Outcome};
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

    /// Answers a request for titles and addresses of sessions.
    pub(super) fn about(&self, about: &About) -> Result<Outcome, Refusal> {
        let session = about.session.as_ref();
        let now = session.and_then(|session| self.streams.now_playing(session));
        let name = now.map_or("", |(_, name)| name.as_str());
        let url = &about.address;
        Ok(match &*about.file {
            "now.json" => {
                let (title, name) = now.ok_or_else(no_stream)?;
                let now = format!("{}\n", serde_json::json!({"name": name, "title": title}));
                // Pages ask for it all the time.
                Outcome::Text(Status::Ok, "application/json", "max-age=5", now.into())
            }
            "listen.m3u" => Outcome::text(
                "audio/x-mpegurl",
                format!("#EXTM3U\n#EXTINF:-1,{name}\n{url}\n"),
            ),
            _ => Outcome::text(
                "audio/x-scpls",
                format!(
                    "[playlist]\nNumberOfEntries=1\nFile1={url}\nTitle1={name}\nLength1=-1\nVersion=2\n"
                ),
            ),
        })
    }
}
