//! What sessions play, in the forms that pages, players of radio and panels read.

use super::api::Outcome;
use super::clients::LOOK_COST;
use super::requests::no_stream;
use super::viewers::Known;
use super::{Relay, icecast, panels};
use crate::clean_text::Title;
use crate::gate::SessionId;
use crate::http::{Refusal, Status, percent_encoded};

/// A request for what is played.
#[derive(Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct About {
    /// Name of the requested file, which says how the answer is written.
    pub file: Box<str>,
    /// The session. `None`: all of them.
    pub session: Option<SessionId>,
    /// By which address the client reaches the stream, or the server if it asks for a list.
    pub address: Box<str>,
}

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

    /// Answers what is played.
    pub(super) fn about(&mut self, about: &About) -> Result<Outcome, Refusal> {
        let session = about.session.as_ref();
        let now = session.and_then(|session| self.streams.now_playing(session));
        let name = now.map_or("", |(_, name)| name.as_str());
        let url = &about.address;
        Ok(match &*about.file {
            "now.json" => {
                let (title, name) = now.ok_or_else(no_stream)?;
                let now = serde_json::json!({"name": name, "title": title}).to_string();
                // Pages ask for it all the time.
                Outcome::Text(Status::Ok, "application/json", "max-age=5", now.into())
            }
            "listen.m3u" => Outcome::text(
                "audio/x-mpegurl",
                format!("#EXTM3U\n#EXTINF:-1,{name}\n{url}\n"),
            ),
            "listen.pls" => Outcome::text(
                "audio/x-scpls",
                format!(
                    "[playlist]\nNumberOfEntries=1\nFile1={url}\nTitle1={name}\nLength1=-1\nVersion=2\n"
                ),
            ),
            _ => {
                let looks = self.clients.len() + self.streams.len();
                self.clients.count_cost(looks * LOOK_COST);
                panels::list(about, &Known::new(&self.streams, &self.clients, &self.ctx))?
            }
        })
    }
}

/// Returns the address of the stream with this name. `origin`: the server's scheme and authority.
pub(super) fn stream_url(origin: &str, name: &SessionId) -> String {
    match name.as_str() {
        // No path can name these.
        name @ ("." | "..") => format!("{origin}/stream?sessionid={name}"),
        name => format!("{origin}/stream/{}", percent_encoded(name)),
    }
}
