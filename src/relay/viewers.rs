//! The rows of list-viewers.
//!
//! A viewer over HTTP is a connection, and so is a client that waits for a session or for a
//! playlist. An HLS player is listed while it gets a segment, and while it waits for a playlist,
//! but not between two requests.

use super::ConnectionId;
use super::admission::{BlockedViewer, no_viewer};
use super::clients::{Clients, PIECE_ROWS, WaitFor};
use super::context::Context;
use super::streams::{Streams, ViewerRow};
use super::viewer_id::{ListedId, Mark};
use crate::gate::{SessionId, network_of};
use crate::http::{Refusal, Status};

/// Marks of the waiting clients, after all streams: for a session, and for a playlist.
const WAITING: u64 = u64::MAX - 1;
const BLOCKED: u64 = u64::MAX;

/// The parts whose rows the lists have.
pub struct ListParts<'a> {
    /// The streams.
    pub streams: &'a Streams,
    /// The connections of the viewers.
    clients: &'a Clients,
    /// The context, for the time.
    pub ctx: &'a Context,
}

impl<'a> ListParts<'a> {
    /// Borrows the parts.
    pub fn new(streams: &'a Streams, clients: &'a Clients, ctx: &'a Context) -> ListParts<'a> {
        ListParts {
            streams,
            clients,
            ctx,
        }
    }

    /// Returns the rows after this mark, each with its mark. `of` selects one session. UDP clients of
    /// a stream share a mark. Rows of one mark are adjacent.
    pub fn rows(
        &self,
        after: Mark,
        of: Option<&SessionId>,
    ) -> impl Iterator<Item = (Mark, ViewerRow)> {
        let watchers = self.streams.watchers(after, of, self.ctx);
        let watchers = watchers.map(|(mark, row)| (mark, self.with_peer(row)));
        let waiting = self.waiting(WaitFor::Session, WAITING, after, of);
        let for_progress = self.waiting(WaitFor::Progress, BLOCKED, after, of);
        watchers.chain(waiting).chain(for_progress)
    }

    /// Returns the next rows: more than fit into a piece of a list, if there are as many.
    pub fn piece(&self, after: Mark, of: Option<&SessionId>) -> Vec<(Mark, ViewerRow)> {
        let mut rows: Vec<(Mark, ViewerRow)> = Vec::new();
        for row in self.rows(after, of) {
            let is_enough = rows.len() > PIECE_ROWS;
            if is_enough && rows.last().is_some_and(|last| last.0 != row.0) {
                break;
            }
            rows.push(row);
        }
        rows
    }

    /// Returns the connection of a viewer or waiting client, its session, and the key for blocking
    /// it.
    pub fn find(&self, id: ListedId) -> Result<(ConnectionId, SessionId, BlockedViewer), Refusal> {
        let run = self.ctx.run;
        let connection = match id {
            ListedId::Connection {
                run: its,
                connection,
            } if its == run => connection,
            ListedId::Client { run: its, .. } if its == run => {
                return Err(Refusal::new(
                    Status::Conflict,
                    "id: this is a UDP client; revoke its tuple instead",
                ));
            }
            ListedId::Connection { .. } | ListedId::Client { .. } => return Err(no_viewer()),
        };
        let id = ConnectionId::from_u64(connection);
        let watched = self.clients.viewer(id).map(|((stream, _), _)| stream);
        let watched = watched.and_then(|stream| self.streams.session(stream));
        let session = watched.or_else(|| self.clients.waits_for(id).cloned());
        let peer = self.clients.peer(id);
        let (session, peer) = session.zip(peer).ok_or_else(no_viewer)?;
        let credential = self.clients.admitted_by(id).unwrap_or(&session).clone();
        Ok((id, session, (credential, network_of(peer.ip()))))
    }

    /// Adds the address and key of the connection that the row is of, if it is of one.
    fn with_peer(&self, row: ViewerRow) -> ViewerRow {
        let ListedId::Connection { connection, .. } = row.id else {
            return row;
        };
        let id = ConnectionId::from_u64(connection);
        ViewerRow {
            key: self.clients.admitted_by(id).map(SessionId::digest),
            address: self.clients.peer(id),
            ..row
        }
    }

    /// Returns the rows of the waiting clients in this queue. `first`: first number of their marks.
    fn waiting(
        &self,
        wait_for: WaitFor,
        first: u64,
        after: Mark,
        of: Option<&SessionId>,
    ) -> impl Iterator<Item = (Mark, ViewerRow)> {
        let from = match after.0 == first {
            true => after.1.saturating_add(1),
            false => 0,
        };
        let is_over = after.0 > first;
        let those = self
            .clients
            .waiting
            .from(wait_for, ConnectionId::from_u64(from));
        let those =
            those.filter(move |(_, session)| !is_over && of.is_none_or(|of| *session == of));
        those.filter_map(move |(id, session)| {
            let (way, since) = self.clients.waits(id)?;
            let row = ViewerRow {
                state: "waiting",
                ..ViewerRow::of_connection(id, session, way, since, self.ctx)
            };
            Some(((first, id.to_u64()), self.with_peer(row)))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::gate::session;
    use crate::relay::Relay;
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

    /// A viewer's next address is in the same network.
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
        assert!(call(&mut stage, &kick).starts_with("HTTP/1.1 200"));
        for (peer, status) in [
            ("[2001:db8:0:1::7]:9", 429),
            ("[2001:db8:0:1:9:9:9:9]:9", 429),
            ("[2001:db8:0:2::7]:9", 200),
        ] {
            let next = watch(&mut stage, peer);
            stage.assert_status(next, status);
        }
    }

    const API: &str = "--token-server=10.0.0.0/8";

    /// A server that more may come to than a piece of a list has rows.
    fn large(options: &[&str]) -> Stage {
        let mut stage = Stage::new(options);
        let mut settings = stage.relay.ctx.settings().clone();
        settings.limits.connections_max = 1000;
        settings.limits.connections_per_host_max = 1000;
        stage.relay = Relay::new(settings);
        stage
    }

    fn call(stage: &mut Stage, line: &str) -> String {
        let id = connect(stage, "10.0.0.1:1", line);
        // Each piece of a list has a turn of its own.
        (0..16).for_each(|_| stage.settle());
        let text = stage.text(id);
        stage.lose(id);
        text
    }

    #[cfg(feature = "default")]
    fn rows(stage: &mut Stage, line: &str) -> Vec<serde_json::Value> {
        let id = connect(stage, "10.0.0.1:1", line);
        (0..16).for_each(|_| stage.settle());
        let (text, is_whole) = stage.content(id);
        stage.lose(id);
        assert!(is_whole, "{text}");
        serde_json::from_str(&text).expect("rows")
    }

    fn watch(stage: &mut Stage, number: usize, path: &str) -> ConnectionId {
        let peer = format!("10.2.{}.{}:9", number / 200, 1 + number % 200);
        connect(stage, &peer, &format!("GET {path}"))
    }

    fn publish(stage: &mut Stage, name: &str, content_type: &str) -> ConnectionId {
        let line = format!("PUT /stream/{name}");
        stage.client(&format!(
            "{line} HTTP/1.1\r\nHost: h\r\nContent-Type: {content_type}\r\nContent-Length: 999999\r\n\r\n"
        ))
    }

    fn grant(stage: &mut Stage, name: &str) {
        let line = format!("POST /api/add-token?type=http&sessionid={name}");
        assert!(call(stage, &line).starts_with("HTTP/1.1 201"));
    }

    /// Waiting clients are listed with what they wait for, and by session.
    #[cfg(feature = "default")]
    #[test]
    fn who_waits_is_listed_with_what_for() {
        let mut stage = Stage::new(&[API, "--wait=60"]);
        for name in ["a", "b", "runs"] {
            grant(&mut stage, name);
        }
        publish(&mut stage, "runs", "video/x");
        let of_a = watch(&mut stage, 0, "/stream/a");
        watch(&mut stage, 1, "/stream/b");
        watch(&mut stage, 2, "/stream/b/index.m3u8");
        watch(&mut stage, 3, "/stream/runs");
        for (query, expected) in [
            (
                "",
                &[
                    ("runs", "http", "watching"),
                    ("a", "http", "waiting"),
                    ("b", "http", "waiting"),
                    ("b", "hls", "waiting"),
                ][..],
            ),
            ("?sessionid=a", &[("a", "http", "waiting")]),
            (
                "?sessionid=b",
                &[("b", "http", "waiting"), ("b", "hls", "waiting")],
            ),
            ("?sessionid=runs", &[("runs", "http", "watching")]),
            ("?sessionid=c", &[]),
        ] {
            let rows = rows(&mut stage, &format!("GET /api/list-viewers{query}"));
            let text = |row: &serde_json::Value, name: &str| {
                row[name].as_str().unwrap_or_default().to_owned()
            };
            let seen: Vec<_> = rows
                .iter()
                .map(|row| {
                    let of = text(row, "sessionid");
                    (of, text(row, "way"), text(row, "state"))
                })
                .collect();
            let expected: Vec<_> = expected
                .iter()
                .map(|(of, way, state)| ((*of).to_owned(), (*way).to_owned(), (*state).to_owned()))
                .collect();
            assert_eq!(seen, expected, "{query}");
            for row in rows {
                assert!(
                    row["address"].is_string() && row["since"].is_number(),
                    "{row}"
                );
                assert_eq!(row["bytes"].is_number(), row["state"] == "watching");
            }
        }
        let id = rows(&mut stage, "GET /api/list-viewers?sessionid=a")[0]["id"].clone();
        let kick = format!("DELETE /api/kick-viewer?id={}", id.as_str().expect("an id"));
        assert!(call(&mut stage, &kick).starts_with("HTTP/1.1 200"));
        assert!(
            stage.text(of_a).starts_with("HTTP/1.1 403"),
            "it is told so"
        );
        assert!(rows(&mut stage, "GET /api/list-viewers?sessionid=a").is_empty());
    }

    /// However many wait, and however many pieces that makes.
    #[cfg(feature = "default")]
    #[test]
    fn each_who_waits_is_listed_once() {
        let mut stage = large(&["--wait=60", API]);
        grant(&mut stage, "a");
        grant(&mut stage, "b");
        for number in 0..2 * PIECE_ROWS + 9 {
            let path = ["/stream/a", "/stream/b/index.m3u8"][number % 2];
            watch(&mut stage, number, path);
        }
        for (query, count) in [
            ("", 2 * PIECE_ROWS + 9),
            ("?sessionid=a", PIECE_ROWS + 5),
            ("?sessionid=b", PIECE_ROWS + 4),
        ] {
            let rows = rows(&mut stage, &format!("GET /api/list-viewers{query}"));
            let ids: std::collections::BTreeSet<_> =
                rows.iter().map(|row| row["id"].to_string()).collect();
            assert_eq!((rows.len(), ids.len()), (count, count), "{query}");
        }
    }

    /// A stream's UDP clients have one mark: a piece has all of them or none. Events report only
    /// viewers whose coming and going is known.
    #[test]
    fn a_piece_has_all_of_a_streams_udp_clients() {
        let mut stage = large(&[API]);
        stage.relay.set_rtp(SocketAddr::from(([10, 9, 0, 1], 5004)));
        let clients: Vec<String> = (1..=60).map(|port| format!("10.1.0.1:{port}")).collect();
        let line = format!(
            "POST /api/add-token?sessionid=a&type=http,udp&udp-clients={}",
            clients.join(",")
        );
        assert!(call(&mut stage, &line).starts_with("HTTP/1.1 201"));
        grant(&mut stage, "b");
        for name in ["a", "b"] {
            let source = publish(&mut stage, name, "video/mp2t");
            let mut packet = [0xff_u8; 188];
            packet[..4].copy_from_slice(&[0x47, 0x1f, 0xff, 0x10]);
            stage.send(source, &packet.repeat(7));
        }
        let own = PIECE_ROWS - 20;
        for number in 0..own {
            watch(&mut stage, number, "/stream/a");
        }
        for number in own..own + 2 * PIECE_ROWS {
            watch(&mut stage, number, "/stream/b");
        }
        let relay = &stage.relay;
        let parts = ListParts::new(&relay.streams, &relay.clients, &relay.ctx);
        let first = parts.piece((0, 0), None);
        assert_eq!(first.len(), own + clients.len());
        let is_udp = |row: &ViewerRow| row.way == "udp";
        assert_eq!(first.iter().filter(|(_, row)| is_udp(row)).count(), 60);
        for (_, row) in &first {
            assert_eq!(row.is_reported(), !is_udp(row));
            assert_eq!(row.datagrams_sent.is_some(), is_udp(row));
            assert_eq!(row.bytes.is_some(), !is_udp(row));
            assert_eq!(row.datagrams_dropped.is_some(), is_udp(row));
            let of_http = [
                row.behind_bytes.is_some(),
                row.behind_ms.is_some(),
                row.skips.is_some(),
                row.since.is_some(),
            ];
            assert_eq!(of_http, [!is_udp(row); 4]);
            let host = row.address.expect("an address").ip().to_string();
            assert!(host.starts_with(if is_udp(row) { "10.1." } else { "10.2." }));
        }
        let after = first.last().expect("rows").0;
        let second = parts.piece(after, None);
        assert_eq!(
            second.len(),
            PIECE_ROWS + 1,
            "one more says that there are more"
        );
        assert!(second.iter().all(|(_, row)| row.sessionid == session("b")));
        let third = parts.piece(second.last().expect("rows").0, None);
        assert_eq!(third.len(), PIECE_ROWS - 1);
        assert_eq!(parts.piece((0, 0), Some(&session("a"))).len(), first.len());
    }

    /// An id of another run is not found. A UDP client cannot be disconnected by its id.
    #[test]
    fn a_viewer_is_found_by_the_id_that_this_run_gave_it() {
        let mut stage = Stage::new(&[]);
        publish(&mut stage, "s", "video/x");
        let viewer = watch(&mut stage, 0, "/stream/s");
        let other = watch(&mut stage, 1, "/healthz");
        let relay = &stage.relay;
        let parts = ListParts::new(&relay.streams, &relay.clients, &relay.ctx);
        let run = relay.ctx.run;
        let of = |run, connection: ConnectionId| ListedId::Connection {
            run,
            connection: connection.to_u64(),
        };
        let to = SocketAddr::from(([10, 1, 0, 1], 5004));
        let client = |run| ListedId::Client { run, stream: 1, to };
        for (id, status) in [
            (of(run, viewer), None),
            (of(run.wrapping_add(1), viewer), Some(Status::NotFound)),
            (of(run, other), Some(Status::NotFound)),
            (client(run), Some(Status::Conflict)),
            (client(run.wrapping_add(1)), Some(Status::NotFound)),
        ] {
            let found = parts.find(id);
            let refused = found.as_ref().err().map(|refusal| refusal.status);
            assert_eq!(refused, status, "{id}");
            if let Ok((connection, session, (name, _))) = found {
                assert_eq!(connection, viewer);
                assert_eq!((session.as_str(), name.as_str()), ("s", "s"));
            }
        }
    }
}
