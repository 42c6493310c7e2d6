//! Who watches, as list-viewers says it.
//!
//! Whoever watches over HTTP is a connection, and so is who waits for a session, or for a playlist.
//! Between two requests a player of HLS is nobody: it is listed while a segment is on its way to
//! it, and while it waits for a playlist.

use std::net::SocketAddr;

use serde::Serialize;

use super::ConnectionId;
use super::admission::no_viewer;
use super::clients::{Clients, PIECE_ROWS, Room};
use super::desk::Desk;
use super::pass::Barred;
use super::streams::{Outlet, Streams, Watcher};
use super::viewer_id::{ListedId, Mark};
use crate::gate::{Carriage, Digest, SessionId, network_of};
use crate::http::{Refusal, Status};
use crate::moment::Moment;

/// Those who wait stand behind all streams: for a session, and for a playlist.
const WAITING: u64 = u64::MAX - 1;
const BLOCKED: u64 = u64::MAX;

/// A row of list-viewers. What is null does not apply, or is not known.
#[derive(Serialize)]
pub struct Row {
    id: ListedId,
    sessionid: SessionId,
    session: Digest,
    /// Of the sessionid by which it came.
    key: Option<Digest>,
    address: Option<SocketAddr>,
    way: &'static str,
    state: &'static str,
    since: Option<u64>,
    bytes: Option<u64>,
    behind_bytes: Option<u64>,
    behind_ms: Option<u64>,
    skips: Option<u32>,
    datagrams_sent: Option<u64>,
    datagrams_dropped: Option<u64>,
}

/// Where what is said of viewers is known.
pub struct Known<'a> {
    /// Whom they go out to,
    streams: &'a Streams,
    /// who that is,
    clients: &'a Clients,
    /// and when it is.
    desk: &'a Desk,
}

impl<'a> Known<'a> {
    /// Whom to ask.
    pub fn new(streams: &'a Streams, clients: &'a Clients, desk: &'a Desk) -> Known<'a> {
        Known {
            streams,
            clients,
            desk,
        }
    }

    /// The streams,
    pub fn streams(&self) -> &'a Streams {
        self.streams
    }

    /// and the desk.
    pub fn desk(&self) -> &'a Desk {
        self.desk
    }

    /// The rows of list-viewers from behind this mark on, each with its own; those of a session, if
    /// one is named. Rows of one mark stand together.
    fn rows(&self, after: Mark, of: Option<&SessionId>) -> impl Iterator<Item = (Mark, Row)> {
        let watchers = self.streams.watchers(after, of, self.desk.now());
        let watchers = watchers.map(|(mark, watcher)| (mark, self.row(watcher)));
        let waiting = self.waiting(Room::Session, WAITING, after, of);
        let blocked = self.waiting(Room::List, BLOCKED, after, of);
        watchers.chain(waiting).chain(blocked)
    }

    /// The same, more than a piece of a list, if there are so many.
    pub fn piece(&self, after: Mark, of: Option<&SessionId>) -> Vec<(Mark, Row)> {
        let mut rows: Vec<(Mark, Row)> = Vec::new();
        for row in self.rows(after, of) {
            let is_enough = rows.len() > PIECE_ROWS;
            if is_enough && rows.last().is_some_and(|last| last.0 != row.0) {
                break;
            }
            rows.push(row);
        }
        rows
    }

    /// The connection of a viewer, or of who waits to be one, its session, and how it is kept out.
    pub fn find(&self, id: ListedId) -> Result<(ConnectionId, SessionId, Barred), Refusal> {
        let run = self.desk.run();
        let connection = match id {
            ListedId::Connection {
                run: its,
                connection,
            } if its == run => connection,
            ListedId::Client { run: its, .. } if its == run => {
                return Err(Refusal::new(
                    Status::Conflict,
                    "id: a UDP client is there as long as a tuple names it; revoke that",
                ));
            }
            ListedId::Connection { .. } | ListedId::Client { .. } => return Err(no_viewer()),
        };
        let id = ConnectionId::from_u64(connection);
        let watched = self.clients.viewer(id).map(|((live, _), _)| live);
        let watched = watched.and_then(|live| self.streams.session(live));
        let session = watched.or_else(|| self.clients.waits_for(id).cloned());
        let peer = self.clients.peer(id);
        let (session, peer) = session.zip(peer).ok_or_else(no_viewer)?;
        let name = self.clients.came_by(id).unwrap_or(&session).clone();
        Ok((id, session, (name, network_of(peer.ip()))))
    }

    fn row(&self, watcher: Watcher<'_>) -> Row {
        let run = self.desk.run();
        match watcher.outlet {
            Outlet::Http(seen) => {
                let way = if seen.is_of_segment { "hls" } else { "http" };
                let row = self.of_connection(seen.connection, watcher.session, way, seen.since);
                Row {
                    bytes: Some(seen.bytes_sent),
                    behind_bytes: Some(seen.behind_bytes),
                    behind_ms: Some(u64::try_from(seen.behind.as_millis()).unwrap_or(u64::MAX)),
                    skips: Some(seen.skips),
                    ..row
                }
            }
            Outlet::Udp {
                to,
                carriage,
                figures,
            } => {
                let id = ListedId::Client {
                    run,
                    stream: watcher.stream,
                    to,
                };
                let way = match carriage {
                    Carriage::Rtp(_) => "rtp-udp",
                    Carriage::Bare => "udp",
                };
                Row {
                    address: Some(to),
                    datagrams_sent: Some(figures.sent),
                    datagrams_dropped: Some(figures.dropped),
                    ..Row::new(id, watcher.session, way)
                }
            }
        }
    }

    fn of_connection(
        &self,
        connection: ConnectionId,
        session: &SessionId,
        way: &'static str,
        since: Moment,
    ) -> Row {
        let id = ListedId::Connection {
            run: self.desk.run(),
            connection: connection.to_u64(),
        };
        let key = self.clients.came_by(connection).map(SessionId::digest);
        Row {
            key,
            address: self.clients.peer(connection),
            since: Some(self.desk.stamp_of(since).unix_seconds),
            ..Row::new(id, session, way)
        }
    }

    /// Those who wait in this room, whose rows have this for their marks' first.
    fn waiting(
        &self,
        room: Room,
        first: u64,
        after: Mark,
        of: Option<&SessionId>,
    ) -> impl Iterator<Item = (Mark, Row)> {
        let from = match after.0 == first {
            true => after.1.saturating_add(1),
            false => 0,
        };
        let is_over = after.0 > first;
        let those = self.clients.those_in(room, from);
        let those =
            those.filter(move |(_, session)| !is_over && of.is_none_or(|of| *session == of));
        those.filter_map(move |(id, session)| {
            let (wants_part, since) = self.clients.waits(id)?;
            let way = if wants_part { "hls" } else { "http" };
            let row = Row {
                state: "waiting",
                ..self.of_connection(id, session, way, since)
            };
            Some(((first, id.to_u64()), row))
        })
    }
}

impl Row {
    /// Whether events tell of it: of whom nothing is known between two requests they do not, nor of
    /// UDP clients, whom tokens name.
    pub fn is_told_of(&self) -> bool {
        self.way == "http" && self.state == "watching"
    }

    fn new(id: ListedId, session: &SessionId, way: &'static str) -> Row {
        Row {
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

#[cfg(test)]
mod tests {
    use crate::relay::ConnectionId;
    use crate::relay::stage::Stage;

    fn connect(stage: &mut Stage, peer: &str, request: &str) -> ConnectionId {
        let peer = peer.parse().expect("an address");
        let id = stage.relay.accepted(peer, stage.now).expect("room");
        stage.send(
            id,
            &format!("{request} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        );
        id
    }

    /// Its next address is in the same network.
    #[test]
    fn who_has_many_addresses_is_kept_out_by_all_of_them() {
        let mut stage = Stage::new(&["--token-server=10.0.0.0/24"]);
        let call = |stage: &mut Stage, line: &str| {
            let id = connect(stage, "10.0.0.1:1", line);
            // Each piece of a list has a turn of its own.
            (0..4).for_each(|_| stage.settle());
            stage.text(id)
        };
        call(&mut stage, "POST /api/add-token?type=http&sessionid=s");
        stage.client("PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Type: audio/x\r\nContent-Length: 9\r\n\r\nx");
        let watch = |stage: &mut Stage, peer: &str| connect(stage, peer, "GET /stream/s");
        let first = watch(&mut stage, "[2001:db8:0:1::7]:9");
        stage.assert_status(first, 200);
        let list = call(&mut stage, "GET /api/list-viewers");
        let id = list.split("\"id\":\"").nth(1).expect("a row");
        let id = id.split('"').next().expect("an id");
        let kick = format!("DELETE /api/kick-viewer?id={id}&block=60");
        assert!(call(&mut stage, &kick).starts_with("HTTP/1.1 204"));
        for (peer, status) in [
            ("[2001:db8:0:1::7]:9", 429),
            ("[2001:db8:0:1:9:9:9:9]:9", 429),
            ("[2001:db8:0:2::7]:9", 200),
        ] {
            let next = watch(&mut stage, peer);
            stage.assert_status(next, status);
        }
    }
}
