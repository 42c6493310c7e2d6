//! The lists that panels of radio stations read from Icecast: the streams in JSON and in XML, and the
//! listeners of one stream in XML. A mount point is a session id.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::gate::SessionId;
use crate::http::{Refusal, Status, Target};
use crate::relay::api::{Panel, PanelList};
use crate::relay::parameters::{bad, decoded, parse_session};
use crate::relay::playlist::stream_url;
use crate::relay::streams::Row;
use crate::relay::viewers::Known;
use crate::time::UnixTime;

impl Panel {
    /// Reads a request for the list with this file name.
    pub fn of(file: &[u8], target: &Target, origin: String) -> Result<Panel, Refusal> {
        let list = match file {
            b"status-json.xsl" => PanelList::Status,
            b"stats" => PanelList::Stats,
            _ => PanelList::Listeners,
        };
        let mut parameters = target.parameters();
        let mount = match parameters.find(|parameter| parameter.name == "mount") {
            Some(mount) => {
                let mount = decoded("mount", mount.value)?;
                let name = [&b"/stream/"[..], b"/"].map(|front| mount.strip_prefix(front));
                Some(parse_session(
                    name.into_iter().flatten().next().unwrap_or(&mount),
                )?)
            }
            None if matches!(list, PanelList::Listeners) => {
                return Err(bad("the parameter 'mount' is missing: /ID"));
            }
            None => None,
        };
        let origin = origin.into();
        Ok(Panel {
            list,
            mount,
            origin,
        })
    }

    /// Writes the list. Returns its media type and text.
    pub fn text(&self, known: &Known<'_>) -> Result<(&'static str, String), Refusal> {
        let mount = self.mount.as_ref();
        let rows = known.streams.rows((0, 0), known.ctx);
        let rows = rows
            .map(|(_, row)| row)
            .filter(|row| row.figures().is_some());
        let mut rows = rows.filter(|row| mount.is_none_or(|mount| row.is_of(mount)));
        let mut text = String::new();
        match self.list {
            PanelList::Status => {
                let mut sources: Vec<Value> = rows.map(|row| self.source(&row).into()).collect();
                let source = match sources.len() {
                    0 | 1 => sources.pop(),
                    _ => Some(sources.into()),
                };
                let stats = source.map(|source| ("source".to_owned(), source));
                let stats: Map<String, Value> = stats.into_iter().collect();
                let text = format!("{{\"icestats\":{}}}", Value::from(stats));
                return Ok(("application/json", text));
            }
            PanelList::Stats => {
                for row in rows {
                    push_mount(&mut text, row.sessionid);
                    for (name, value) in self.source(&row) {
                        let value = value.as_str().map_or_else(|| value.to_string(), escaped);
                        let _ = write!(text, "<{name}>{value}</{name}>");
                    }
                    text.push_str("</source>");
                }
            }
            PanelList::Listeners => {
                let row = rows.next().ok_or_else(|| {
                    Refusal::new(
                        Status::NotFound,
                        "mount: this session has no running stream",
                    )
                })?;
                let now = known.ctx.calendar.at(known.ctx.now()).unix_seconds;
                let viewers = known.rows((0, 0), mount).map(|(_, viewer)| viewer);
                let viewers: Vec<_> = viewers
                    .filter(|viewer| viewer.state == "watching")
                    .collect();
                push_mount(&mut text, row.sessionid);
                let _ = write!(text, "<Listeners>{}</Listeners>", viewers.len());
                for viewer in viewers {
                    let address = viewer.address.map(|address| address.ip().to_string());
                    let _ = write!(
                        text,
                        "<listener><IP>{}</IP><UserAgent></UserAgent><Connected>{}</Connected><ID>{}</ID></listener>",
                        address.unwrap_or_default(),
                        now.saturating_sub(viewer.since.unwrap_or(now)),
                        viewer.id,
                    );
                }
                text.push_str("</source>");
            }
        }
        let text = format!("<?xml version=\"1.0\"?>\n<icestats>{text}</icestats>\n");
        Ok(("text/xml; charset=utf-8", text))
    }

    /// Returns the known fields of a stream, in Icecast's words.
    fn source(&self, row: &Row<'_>) -> Map<String, Value> {
        let started = UnixTime {
            unix_seconds: row.started_at,
        };
        let fields: [(&str, Value); 9] = [
            ("bitrate", row.station.bitrate.into()),
            ("genre", row.station.genre.as_str().into()),
            ("listener_peak", row.viewers_peak.into()),
            ("listeners", row.viewers.into()),
            ("listenurl", stream_url(&self.origin, row.sessionid).into()),
            ("server_name", row.station.name.as_str().into()),
            ("server_type", row.content_type.into()),
            (
                "stream_start_iso8601",
                started.to_string().replace('Z', "+0000").into(),
            ),
            ("title", row.title.as_str().into()),
        ];
        let known = fields
            .into_iter()
            .filter(|(_, value)| !value.is_null() && *value != "");
        known
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

/// Begins the element of a stream.
fn push_mount(xml: &mut String, session: &SessionId) {
    let _ = write!(xml, "<source mount=\"/{}\">", escaped(session.as_str()));
}

/// Returns a text for XML, in which two characters of a session id may not be.
fn escaped(text: &str) -> String {
    let text = text.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;
