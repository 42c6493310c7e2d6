//! A playlist with one entry, for players of radio.

use crate::gate::SessionId;
use crate::http::percent_encoded;

/// A playlist with one entry: the stream.
#[derive(Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Playlist {
    /// Whether it is written as PLS, else as M3U.
    pub is_pls: bool,
    /// Session of the stream.
    pub session: SessionId,
    /// Address of the stream.
    pub url: Box<str>,
}

impl Playlist {
    /// Writes the playlist, with the station's name as its title. Returns its media type and text.
    pub fn text(&self, name: &str) -> (&'static str, String) {
        let url = &self.url;
        match self.is_pls {
            true => (
                "audio/x-scpls",
                format!(
                    "[playlist]\nNumberOfEntries=1\nFile1={url}\nTitle1={name}\nLength1=-1\nVersion=2\n"
                ),
            ),
            false => (
                "audio/x-mpegurl",
                format!("#EXTM3U\n#EXTINF:-1,{name}\n{url}\n"),
            ),
        }
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
