//! What a session tells about itself besides its media: what it plays, and a playlist with one entry
//! for players of radio.

use serde::Serialize;

use super::parameters::bad;
use crate::clean_text::Title;
use crate::gate::SessionId;
use crate::http::{Refusal, percent_encoded};

/// A playlist with one entry: the stream.
#[derive(Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Playlist {
    /// Whether it is written as PLS, else as M3U.
    is_pls: bool,
    /// Session of the stream.
    pub session: SessionId,
    /// Address of the stream.
    pub url: Box<str>,
}

impl Playlist {
    /// Makes the playlist with this file name, for a client that asks by the name `name` and reached
    /// the server at this authority.
    pub fn new(
        file: &[u8],
        (name, session): (SessionId, SessionId),
        (is_https, host): (bool, &str),
    ) -> Result<Playlist, Refusal> {
        if host.is_empty() {
            return Err(bad("no Host; the address in the playlist needs one"));
        }
        let scheme = if is_https { "https" } else { "http" };
        let path = match name.as_str() {
            // No path can name these.
            name @ ("." | "..") => format!("stream?sessionid={name}"),
            name => format!("stream/{}", percent_encoded(name)),
        };
        Ok(Playlist {
            is_pls: file.ends_with(b".pls"),
            session,
            url: format!("{scheme}://{host}/{path}").into(),
        })
    }

    /// Writes the playlist, with the station's name as its title. Returns its media type and text.
    pub fn text(&self, name: Option<&str>) -> (&'static str, String) {
        let url = &self.url;
        match (self.is_pls, name) {
            (true, name) => {
                let title = name.map_or(String::new(), |name| format!("Title1={name}\n"));
                let text = format!(
                    "[playlist]\nNumberOfEntries=1\nFile1={url}\n{title}Length1=-1\nVersion=2\n"
                );
                ("audio/x-scpls", text)
            }
            (false, name) => {
                let title = name.map_or(String::new(), |name| format!("#EXTINF:-1,{name}\n"));
                ("audio/x-mpegurl", format!("#EXTM3U\n{title}{url}\n"))
            }
        }
    }
}

/// What a session plays.
#[derive(Serialize)]
struct NowPlaying<'a> {
    name: Option<&'a str>,
    title: Option<&'a Title>,
}

/// Writes what a session plays, as JSON.
pub(super) fn now_playing(title: Option<&Title>, name: Option<&str>) -> String {
    // A struct of strings has no way to fail.
    serde_json::to_string(&NowPlaying { name, title }).unwrap_or_default()
}
