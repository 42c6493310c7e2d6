//! The lists that panels of radio stations read from Icecast: the streams in JSON and in XML, and the
//! listeners of one stream in XML. A mount point is a session id.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::http::Refusal;
use crate::relay::admission::no_stream;
use crate::relay::api::{About, Outcome, stream_url};
use crate::relay::streams::Row;
use crate::relay::viewers::ListParts;
use crate::time::UnixTime;

/// Writes a list.
pub(in crate::relay) fn list(about: &About, parts: &ListParts<'_>) -> Result<Outcome, Refusal> {
    let rows = parts.streams.rows((0, 0), parts.ctx).map(|(_, row)| row);
    let session = about.session.as_ref();
    let is_meant = |row: &Row<'_>| session.is_none_or(|it| row.sessionid == it);
    let runs = |row: &Row<'_>| row.figures().is_some();
    let mut rows = rows.filter(|row| is_meant(row) && runs(row)).peekable();
    if &*about.file == "status-json.xsl" {
        let mut sources: Vec<Value> = rows.map(|row| source(&about.address, &row)).collect();
        let stats = match sources.len() {
            0 => json!({}),
            1 => json!({"source": sources.pop()}),
            _ => json!({"source": sources}),
        };
        let text = json!({"icestats": stats}).to_string();
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
            true => push_listeners(&mut xml, &row, parts),
            false => push_fields(&mut xml, &source(&about.address, &row)),
        }
        xml.push_str("</source>");
    }
    xml.push_str("</icestats>\n");
    Ok(Outcome::text("text/xml; charset=utf-8", xml))
}

/// Returns a stream's fields. A field without a value is left out.
fn source(origin: &str, row: &Row<'_>) -> Value {
    let started = UnixTime {
        unix_seconds: row.started_at,
    };
    let [name, genre, .., bitrate] = row.station;
    let mut fields = json!({
        "bitrate": bitrate.as_str().parse::<u32>().ok(),
        "genre": genre,
        "listener_peak": row.viewers_peak,
        "listeners": row.viewers,
        "listenurl": stream_url(origin, row.sessionid),
        "server_name": name,
        "server_type": row.content_type,
        "stream_start_iso8601": started.to_string().replace('Z', "+0000"),
        "title": row.title,
    });
    if let Some(fields) = fields.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    fields
}

/// Appends the listeners of a stream.
fn push_listeners(xml: &mut String, row: &Row<'_>, parts: &ListParts<'_>) {
    let now = parts.ctx.calendar.at(parts.ctx.now()).unix_seconds;
    let rows = parts.rows((0, 0), Some(row.sessionid));
    let viewers = rows.filter(|(_, viewer)| viewer.state == "watching");
    let viewers: Vec<_> = viewers.map(|(_, viewer)| viewer).collect();
    push_fields(xml, &json!({"Listeners": viewers.len()}));
    for viewer in viewers {
        let fields = json!({
            "IP": viewer.address.map(|address| address.ip()),
            "UserAgent": "",
            "Connected": now.saturating_sub(viewer.since.unwrap_or(now)),
            "ID": viewer.id,
        });
        xml.push_str("<listener>");
        push_fields(xml, &fields);
        xml.push_str("</listener>");
    }
}

/// Appends each field as an element.
fn push_fields(xml: &mut String, fields: &Value) {
    for (name, value) in fields.as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), escaped);
        let _ = write!(xml, "<{name}>{value}</{name}>");
    }
}

/// Returns a text for an element or an attribute in double quotes. XML does not have two characters
/// that a session id may have.
fn escaped(text: &str) -> String {
    let text = text.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;
