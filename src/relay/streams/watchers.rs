//! The viewers and UDP clients of each stream, for list-viewers and the like.

use std::net::SocketAddr;

use serde::Serialize;

use super::{Stream, Streams};
use crate::gate::{Digest, SessionId, Transport};
use crate::relay::ConnectionId;
use crate::relay::context::Context;
use crate::relay::viewer_id::{ListedId, Mark};
use crate::stream::{Extent, ViewerFigures};
use crate::time::Instant;

/// A row of list-viewers. A null field does not apply, or is not known.
#[derive(Serialize)]
pub struct ViewerRow {
    /// The viewer's id.
    pub id: ListedId,
    /// Session that it watches or waits for.
    pub sessionid: SessionId,
    pub session: Digest,
    /// Digest of the session id that admitted it.
    pub key: Option<Digest>,
    /// Its address.
    pub address: Option<SocketAddr>,
    pub way: &'static str,
    /// Whether it watches or waits.
    pub state: &'static str,
    pub since: Option<u64>,
    pub bytes: Option<u64>,
    pub behind_bytes: Option<u64>,
    pub behind_ms: Option<u64>,
    pub skips: Option<u32>,
    pub datagrams_sent: Option<u64>,
    pub datagrams_dropped: Option<u64>,
}

/// Mark of a stream's UDP clients, after the marks of all its viewers. The clients share one mark,
/// as their order may change.
const UDP_CLIENTS: u64 = u64::MAX;

impl ViewerRow {
    /// Makes the row of a connection without its address and key.
    pub fn of_connection(
        connection: ConnectionId,
        session: &SessionId,
        way: &'static str,
        since: Instant,
        ctx: &Context,
    ) -> ViewerRow {
        let id = ListedId::of_connection(ctx.run, connection);
        ViewerRow {
            since: Some(ctx.calendar.at(since).unix_seconds),
            ..ViewerRow::new(id, session, way)
        }
    }

    /// Returns whether `/api/events` reports this viewer. It does not report HLS players, which
    /// have no connection between two requests, nor UDP clients, which tokens name.
    pub fn is_reported(&self) -> bool {
        self.way == "http" && self.state == "watching"
    }

    fn of_figures(
        seen: &ViewerFigures<ConnectionId>,
        session: &SessionId,
        ctx: &Context,
    ) -> ViewerRow {
        let way = match seen.extent {
            Extent::Whole => "http",
            Extent::Segment => "hls",
            Extent::Fragment => "poster",
        };
        ViewerRow {
            bytes: Some(seen.bytes_sent),
            behind_bytes: Some(seen.behind_bytes),
            behind_ms: Some(seen.behind_ms),
            skips: Some(seen.skips),
            ..ViewerRow::of_connection(seen.connection, session, way, seen.since, ctx)
        }
    }

    fn new(id: ListedId, session: &SessionId, way: &'static str) -> ViewerRow {
        ViewerRow {
            id,
            sessionid: session.clone(),
            session: session.digest(),
            key: None,
            address: None,
            way,
            state: "watching",
            since: None,
            bytes: None,
            behind_bytes: None,
            behind_ms: None,
            skips: None,
            datagrams_sent: None,
            datagrams_dropped: None,
        }
    }
}

impl Streams {
    /// Returns the rows of viewers and UDP clients after this mark, each with its mark. UDP clients of a
    /// stream share a mark. `of` selects one session.
    pub fn watchers<'a>(
        &'a self,
        (serial, index): Mark,
        of: Option<&SessionId>,
        ctx: &'a Context,
    ) -> impl Iterator<Item = (Mark, ViewerRow)> {
        let streams = self.order.range(serial..);
        let streams =
            streams.filter_map(|(serial, stream)| Some((*serial, self.streams.get(*stream)?)));
        let those = streams.filter(move |(_, stream)| of.is_none_or(|of| stream.session == *of));
        those.flat_map(move |(its, stream)| {
            let from = match its == serial {
                true => index.saturating_add(1),
                false => 0,
            };
            stream.watchers(its, from, index == UDP_CLIENTS && its == serial, ctx)
        })
    }
}

impl Stream {
    fn watchers(
        &self,
        serial: u64,
        from: u64,
        is_over: bool,
        ctx: &Context,
    ) -> impl Iterator<Item = (Mark, ViewerRow)> {
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let viewers = self.buffer.figures_from(from, ctx.now()).map(move |seen| {
            let row = ViewerRow::of_figures(&seen, &self.session, ctx);
            ((serial, seen.index as u64), row)
        });
        let clients = self.rtp_out.udp_out.figures().filter(move |_| !is_over);
        let clients = clients.map(move |(client, figures)| {
            let id = ListedId::Client {
                run: ctx.run,
                stream: self.listed_serial(),
                to: client.address,
            };
            let way = match client.transport {
                Transport::Rtp(_) => "rtp-udp",
                Transport::Bare => "udp",
            };
            let row = ViewerRow {
                address: Some(client.address),
                datagrams_sent: Some(figures.sent),
                datagrams_dropped: Some(figures.dropped),
                ..ViewerRow::new(id, &self.session, way)
            };
            ((serial, UDP_CLIENTS), row)
        });
        viewers.chain(clients)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_tell_of_who_watches_over_http_alone() {
        let id = ListedId::of_text("00000007-1a").expect("an id");
        let session = SessionId::parse(b"s").expect("a good sessionid");
        for (way, state, is_reported) in [
            ("http", "watching", true),
            ("http", "waiting", false),
            ("hls", "watching", false),
            ("hls", "waiting", false),
            ("udp", "watching", false),
            ("rtp-udp", "watching", false),
        ] {
            let row = ViewerRow {
                state,
                ..ViewerRow::new(id, &session, way)
            };
            assert_eq!(row.is_reported(), is_reported, "{way} {state}");
        }
    }
}
