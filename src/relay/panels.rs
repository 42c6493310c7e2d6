//! The lists that panels of radio stations read from Icecast: the streams in JSON and in XML, and the
//! listeners of one stream in XML. A mount point is a session id.

use std::fmt::Write;

use serde_json::Value;

use crate::gate::SessionId;
use crate::http::{Refusal, Target};
use crate::relay::admission::no_stream;
use crate::relay::api::{About, Outcome, stream_url};
use crate::relay::parameters::{decoded, parse_session};
use crate::relay::streams::Row;
use crate::relay::viewers::Known;
use crate::time::UnixTime;

/// Returns the session that a request names as `/ID`, or by its path, if it names one.
pub(super) fn mount(target: &Target) -> Result<Option<SessionId>, Refusal> {
    let mut parameters = target.parameters();
    let Some(mount) = parameters.find(|parameter| parameter.name == "mount") else {
        return Ok(None);
    };
    let mount = decoded("mount", mount.value)?;
    let names = [&b"/stream/"[..], b"/"].map(|front| mount.strip_prefix(front));
    parse_session(names.into_iter().flatten().next().unwrap_or(&mount)).map(Some)
}

/// Writes a list.
pub(super) fn list(about: &About, known: &Known<'_>) -> Result<Outcome, Refusal> {
    let rows = known.streams.rows((0, 0), known.ctx).map(|(_, row)| row);
    let runs = |row: &Row<'_>| row.figures().is_some();
    let is_meant = |row: &Row<'_>| about.session.as_ref().is_none_or(|it| row.is_of(it));
    let mut rows = rows.filter(|row| is_meant(row) && runs(row)).peekable();
    if &*about.file == "status-json.xsl" {
        let sources = rows.map(|row| source(&about.address, &row).collect());
        let mut sources: Vec<Value> = sources.collect();
        let source = match sources.len() {
            0 | 1 => sources.pop(),
            _ => Some(sources.into()),
        };
        let stats: Value = source
            .map(|source| ("source", source))
            .into_iter()
            .collect();
        let text = format!("{{\"icestats\":{stats}}}");
        return Ok(Outcome::text("application/json", text));
    }
    let are_listeners = &*about.file == "listclients";
    if are_listeners {
        rows.peek().ok_or_else(no_stream)?;
    }
    let mut xml = String::from("<?xml version=\"1.0\"?>\n<icestats>");
    for row in rows {
        let mount = escaped(row.sessionid.as_str());
        let _ = write!(xml, "<source mount=\"/{mount}\">");
        match are_listeners {
            true => push_listeners(&mut xml, row.sessionid, known),
            false => push_fields(&mut xml, source(&about.address, &row)),
        }
        xml.push_str("</source>");
    }
    xml.push_str("</icestats>\n");
    Ok(Outcome::text("text/xml; charset=utf-8", xml))
}

/// Returns the fields of a stream. What is not known is null or empty.
fn source(origin: &str, row: &Row<'_>) -> impl Iterator<Item = (&'static str, Value)> {
    let started = UnixTime {
        unix_seconds: row.started_at,
    };
    let fields: [(&str, Value); 9] = [
        ("bitrate", row.station.bitrate.into()),
        ("genre", row.station.genre.as_str().into()),
        ("listener_peak", row.viewers_peak.into()),
        ("listeners", row.viewers.into()),
        ("listenurl", stream_url(origin, row.sessionid).into()),
        ("server_name", row.station.name.as_str().into()),
        ("server_type", row.content_type.into()),
        (
            "stream_start_iso8601",
            started.to_string().replace('Z', "+0000").into(),
        ),
        ("title", row.title.as_str().into()),
    ];
    let is_known = |(_, value): &(&str, Value)| !value.is_null() && *value != "";
    fields.into_iter().filter(is_known)
}

/// Appends the listeners of a session.
fn push_listeners(xml: &mut String, session: &SessionId, known: &Known<'_>) {
    let now = known.ctx.calendar.at(known.ctx.now()).unix_seconds;
    let viewers = known.rows((0, 0), Some(session));
    let viewers = viewers.filter(|(_, viewer)| viewer.state == "watching");
    let viewers: Vec<_> = viewers.collect();
    push_fields(xml, [("Listeners", viewers.len().into())]);
    for (_, viewer) in viewers {
        let address = viewer.address.map(|address| address.ip().to_string());
        let connected = now.saturating_sub(viewer.since.unwrap_or(now));
        let fields: [(&str, Value); 4] = [
            ("IP", address.unwrap_or_default().into()),
            ("UserAgent", "".into()),
            ("Connected", connected.into()),
            ("ID", viewer.id.to_string().into()),
        ];
        xml.push_str("<listener>");
        push_fields(xml, fields);
        xml.push_str("</listener>");
    }
}

/// Appends each field as an element.
fn push_fields(xml: &mut String, fields: impl IntoIterator<Item = (&'static str, Value)>) {
    for (name, value) in fields {
        let value = value.as_str().map_or_else(|| value.to_string(), escaped);
        let _ = write!(xml, "<{name}>{value}</{name}>");
    }
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
