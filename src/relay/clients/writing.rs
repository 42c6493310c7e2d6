//! Writing: decides which connection is written to next, and lends its output. A connection's own
//! output (heads, answers) comes before the media of its stream or the next piece of its list.

use std::net::SocketAddr;

use super::connection::Connection;
use super::{Clients, Phase};
use crate::gate::SessionId;
use crate::gather::Gather;
use crate::http::{Refusal, Status};
use crate::relay::ConnectionId;
use crate::relay::context::Context;
use crate::relay::server_event::ServerEvent;
use crate::relay::streams::{ViewerKey, ViewerResponse};
use crate::relay::timers::Owner;
use crate::relay::viewer_id::ListedId;
use crate::stream::{End, Outcome};

/// Writes to other connections between two pieces of a list. A piece takes as long as several
/// writes.
const WRITES_PER_PIECE: usize = 32;

impl Clients {
    /// Queues a connection that has output of its own.
    pub(super) fn queue(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id)
            && !connection.is_queued
        {
            connection.is_queued = true;
            match connection.phase {
                Phase::ListResponse(_) | Phase::EventReader(_) => self.listing.push_back(id),
                _ => self.queue.push_back(id),
            }
        }
    }

    /// Returns whether a connection is queued.
    pub fn has_writes(&self) -> bool {
        !self.queue.is_empty() || !self.listing.is_empty()
    }

    /// Returns the next connection with output of its own. If there is none, asks `others`.
    pub fn next_write(
        &mut self,
        others: impl FnOnce() -> Option<ConnectionId>,
    ) -> Option<ConnectionId> {
        if self.writes_since_piece >= WRITES_PER_PIECE
            && let Some(id) = self.next_list()
        {
            return Some(id);
        }
        if let Some(id) = self.next_queued().or_else(others) {
            self.writes_since_piece = self.writes_since_piece.saturating_add(1);
            return Some(id);
        }
        // After a piece the turn ends if no other client has output. The next turn may know one that
        // has.
        if self.writes_since_piece == 0 {
            self.writes_since_piece = 1;
            return None;
        }
        self.next_list()
    }

    fn next_queued(&mut self) -> Option<ConnectionId> {
        while let Some(id) = self.queue.pop_front() {
            if self.leaves_queue(id) {
                return Some(id);
            }
        }
        None
    }

    fn next_list(&mut self) -> Option<ConnectionId> {
        while let Some(id) = self.listing.pop_front() {
            if self.leaves_queue(id) {
                self.writes_since_piece = 0;
                return Some(id);
            }
        }
        None
    }

    /// Records that a connection left its queue. Returns whether its socket takes bytes.
    fn leaves_queue(&mut self, id: ConnectionId) -> bool {
        self.connections.get_mut(id).is_some_and(|connection| {
            connection.is_queued = false;
            !connection.is_blocked
        })
    }

    /// Queues a client whose socket takes bytes again.
    pub fn unblocked(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id)
            && connection.is_blocked
        {
            connection.is_blocked = false;
            self.queue(id);
        }
    }

    /// Returns a client's viewer, if it is one.
    pub fn viewer_response(&mut self, id: ConnectionId) -> Option<&mut ViewerResponse> {
        match self.phase_mut(id)? {
            Phase::Viewer(response) => Some(response),
            _ => None,
        }
    }

    /// Adds the head of a viewer's response to its output.
    pub fn push_head(&mut self, id: ConnectionId, head: &[u8]) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.output.push(head);
        }
        self.note_status(id, Status::Ok);
    }

    /// Lends a client's own output. Returns its viewer, if media of a stream follows.
    pub fn lend<'a>(
        &'a self,
        id: ConnectionId,
        gather: &mut Gather<'a>,
    ) -> Option<&'a ViewerResponse> {
        let connection = self.connections.get(id)?;
        let has_room = gather.push(connection.output.unsent());
        if let Phase::Viewer(response) = &connection.phase
            && has_room
        {
            Some(response)
        } else {
            None
        }
    }

    /// Records that `bytes` were written to a client. Returns its viewer, and how many of the bytes
    /// were a stream's media.
    pub fn sent(
        &mut self,
        id: ConnectionId,
        bytes: usize,
        ctx: &mut Context,
    ) -> Option<(ViewerKey, usize)> {
        let connection = self.connections.get_mut(id)?;
        connection.taken = ctx.now();
        let of_output = connection.output.advance(bytes);
        let of_stream = bytes - of_output;
        if let Phase::EventReader(reader) = &mut connection.phase {
            let rest = reader.advance(of_stream, ctx);
            connection.output.push(&rest);
            self.note_bytes(id, of_stream + rest.len());
            return None;
        }
        let Phase::Viewer(response) = &mut connection.phase else {
            self.after_output(id, ctx);
            return None;
        };
        if of_stream == 0 {
            return None;
        }
        let media_bytes = response.sent(of_stream);
        if let Some(entry) = &mut connection.access {
            entry.bytes += media_bytes as u64;
        }
        Some((response.key(), media_bytes))
    }

    /// Ends a client's turn, after which its socket takes more or is full. Returns its viewer and
    /// the outcome for that, if it is one.
    pub fn served(
        &mut self,
        id: ConnectionId,
        outcome: Outcome,
        ctx: &mut Context,
    ) -> Option<(ViewerKey, Outcome)> {
        let connection = self.connections.get_mut(id)?;
        let of_viewer = match &connection.phase {
            Phase::Viewer(response) => Some((response.key(), response.outcome(outcome))),
            _ => None,
        };
        if outcome == Outcome::Blocked && !connection.is_blocked {
            connection.is_blocked = true;
            connection.taken = ctx.now();
            self.rearm(id, ctx);
        } else if outcome == Outcome::Open && connection.has_output(ctx) {
            self.queue(id);
        }
        of_viewer
    }

    /// Makes a client a viewer.
    pub fn watch(&mut self, id: ConnectionId, response: ViewerResponse) {
        self.enter(id, Phase::Viewer(response));
    }

    /// Makes a client a viewer of a whole stream, and reports that.
    pub fn begin_watching(
        &mut self,
        id: ConnectionId,
        response: ViewerResponse,
        session: &SessionId,
        ctx: &mut Context,
    ) {
        self.watch(id, response);
        if let Some(connection) = self.connections.get_mut(id) {
            // The deadline of its request would stay for long.
            ctx.disarm(&mut connection.armed, Owner::Connection(id));
        }
        self.rearm(id, ctx);
        let what = ServerEvent::ViewerComes {
            id: ListedId::of_connection(ctx.run, id),
            key: self.admitted_by(id).map(SessionId::digest),
            address: self.peer(id),
        };
        ctx.emit(session, &what);
    }

    /// Returns the stream that a client watches, and the client's address.
    pub fn viewer(&self, id: ConnectionId) -> Option<(ViewerKey, SocketAddr)> {
        let connection = self.connections.get(id)?;
        match &connection.phase {
            Phase::Viewer(response) => Some((response.key(), connection.peer)),
            _ => None,
        }
    }

    /// Ends a viewer's response: with the end of the stream, or with a refusal instead of the
    /// stream.
    pub fn end_viewer(&mut self, id: ConnectionId, end: Result<End, Refusal>, ctx: &mut Context) {
        let key = self.admitted_by(id).map(SessionId::digest);
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let Phase::Viewer(response) = &connection.phase else {
            return;
        };
        if let Some(event) = connection.phase.closed(id, key, connection.peer) {
            ctx.notify(event);
        }
        match end {
            Err(refusal) => {
                let reply = response.reply;
                self.refuse(id, &refusal, reply, ctx);
            }
            Ok(end) => {
                let (last, keep_alive) = response.last(end);
                let keep_alive = keep_alive && !ctx.is_closing;
                self.respond(id, None, last.to_vec(), keep_alive, ctx);
                // The end of a segment has no bytes, so no write follows.
                self.after_output(id, ctx);
            }
        }
    }
}

impl Connection {
    /// Returns whether the connection has output of its own now, or will have it as soon as its
    /// socket takes bytes.
    fn has_output(&self, ctx: &Context) -> bool {
        let has_more = match &self.phase {
            Phase::ListResponse(_) => true,
            Phase::EventReader(reader) => reader.has_more(ctx),
            _ => false,
        };
        has_more || !self.output.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::stage::Stage;
    use crate::relay::{Action, Outgoing};

    const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n";

    fn with_tokens(number: usize) -> Stage {
        let mut stage = Stage::new(&["--token-server=10.0.0.0/24", "--connections=400"]);
        let caller = stage.client("");
        for token in 0..number {
            let line = format!("POST /api/add-token?type=http&sessionid={token}");
            let request = format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            stage.relay.received(caller, request.as_bytes(), stage.now);
            while stage.write_next() {}
        }
        stage.lose(caller);
        stage
    }

    /// Other connections come before a piece of a list, but a limited number of them.
    #[test]
    fn a_piece_of_a_list_is_written_behind_so_many_others() {
        let mut stage = with_tokens(600);
        let reader = stage.client("");
        let others: Vec<ConnectionId> = (0..90).map(|_| stage.client("")).collect();
        let list = b"GET /api/list-tokens HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stage.relay.received(reader, list, stage.now);
        for id in &others {
            stage.relay.received(*id, HEALTH.as_bytes(), stage.now);
        }
        let mut order = Vec::new();
        let mut write = |id, output: &Gather<'_>| {
            order.push(id);
            Outgoing::Whole(output.bytes())
        };
        while crate::relay::write_next(&mut stage.relay, stage.now, &mut write).is_some() {}
        let places: Vec<usize> = order
            .iter()
            .enumerate()
            .filter_map(|(place, id)| (*id == reader).then_some(place))
            .collect();
        // Its head, for which others have gone before, and pieces: the last when nobody else is
        // left.
        assert_eq!(places, [0, 33, 66, 93]);
        let answered: Vec<ConnectionId> = order.into_iter().filter(|id| *id != reader).collect();
        assert_eq!(answered, others, "in the order in which they asked");
    }

    /// Without other connections, each piece has a turn of its own.
    #[test]
    fn behind_a_piece_of_a_list_the_turn_is_over() {
        let mut stage = with_tokens(600);
        let reader = stage.client("");
        let list = b"GET /api/list-tokens HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stage.relay.received(reader, list, stage.now);
        let mut pieces = 0;
        loop {
            assert!(stage.relay.has_writes() && stage.write_next());
            pieces += 1;
            if stage.text(reader).ends_with("]\n\r\n0\r\n\r\n") {
                break;
            }
            assert!(!stage.write_next(), "the turn is over");
        }
        // The first is its head.
        assert_eq!(pieces, 1 + 600_usize.div_ceil(128));
        for token in 0..600 {
            let row = format!("{{\"sessionid\":\"{token}\",");
            assert_eq!(stage.text(reader).matches(&row).count(), 1, "{token}");
        }
    }

    /// A connection that takes nothing is not called again before it does.
    #[test]
    fn who_takes_nothing_has_no_turn() {
        let mut stage = Stage::new(&[]);
        let (blocked, other) = (stage.client(""), stage.client(""));
        assert!(!stage.relay.has_writes());
        stage.relay.served(blocked, Outcome::Blocked, stage.now);
        for id in [blocked, other] {
            stage.relay.received(id, HEALTH.as_bytes(), stage.now);
        }
        assert!(stage.relay.has_writes());
        assert_eq!(stage.relay.next_write(), Some(other));
        stage.relay.served(other, Outcome::Open, stage.now);
        assert_eq!(
            stage.relay.next_write(),
            Some(other),
            "it has not been written to"
        );
        stage.relay.served(other, Outcome::Blocked, stage.now);
        assert_eq!(stage.relay.next_write(), None);
        assert!(!stage.relay.has_writes());
        for id in [other, blocked] {
            stage.relay.unblocked(id);
            stage.relay.unblocked(id);
            assert_eq!(stage.relay.next_write(), Some(id));
            assert_eq!(stage.relay.next_write(), None, "it stands there once");
            stage.relay.served(id, Outcome::Blocked, stage.now);
        }
        // A connection that takes bytes all the time is not queued when it reports so.
        stage.relay.unblocked(other);
        stage.settle();
        stage.relay.unblocked(other);
        assert!(!stage.relay.has_writes());
    }

    /// Written bytes of a stream are reported without framing.
    #[test]
    fn what_is_written_is_the_connections_own_first_and_a_streams_then() {
        let mut stage = Stage::new(&["--close-delimited"]);
        let source =
            stage.client("PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 99\r\n\r\n");
        let viewer = stage.client("");
        let watch = b"GET /stream/s HTTP/1.1\r\nHost: h\r\n\r\n";
        stage.relay.received(viewer, watch, stage.now);
        stage.relay.received(source, b"media", stage.now);
        let bytes = stage.relay.output(viewer, stage.now).bytes();
        let clients = &mut stage.relay.clients;
        let of_own = clients
            .connections
            .get(viewer)
            .expect("it is there")
            .output
            .unsent()
            .len();
        assert_eq!(bytes, of_own + 5);
        for (written, media) in [(of_own - 1, None), (1, None), (2, Some(2)), (3, Some(3))] {
            let sent = clients.sent(viewer, written, &mut stage.relay.ctx);
            assert_eq!(sent.map(|(_, bytes)| bytes), media, "{written}");
        }
        let place = clients.viewer(viewer).map(|(place, _)| place);
        assert!(place.is_some());
        assert!(clients.viewer(source).is_none(), "it watches nothing");
        let served = clients.served(viewer, Outcome::Open, &mut stage.relay.ctx);
        assert_eq!(served, place.map(|place| (place, Outcome::Open)));
        assert!(
            clients
                .served(source, Outcome::Open, &mut stage.relay.ctx)
                .is_none()
        );
    }

    /// A viewer that has all of a stream may ask for another, unless the server ends.
    #[test]
    fn behind_a_stream_its_viewer_may_ask_on_unless_the_server_ends() {
        for is_closing in [false, true] {
            let mut stage = Stage::new(&[]);
            let source =
                stage.client("PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n");
            let viewer = stage.viewer("s");
            stage.relay.served(viewer, Outcome::Blocked, stage.now);
            stage.send(source, "media");
            if is_closing {
                stage.relay.shut_down(stage.now);
            }
            stage.relay.unblocked(viewer);
            while stage.write_next() {}
            let acts: Vec<Action> = std::iter::from_fn(|| stage.relay.next_action()).collect();
            assert_eq!(stage.content(viewer), ("media".to_owned(), true));
            let is_over = acts.contains(&Action::ShutdownWrite(viewer));
            assert_eq!(is_over, is_closing, "{acts:?}");
            stage.send(viewer, HEALTH);
            let answers = stage.text(viewer).matches("HTTP/1.1 200 OK").count();
            assert_eq!(answers, if is_closing { 1 } else { 2 });
        }
    }
}
