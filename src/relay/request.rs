//! What becomes of a request: its head is read, its wish is granted or refused, the answer goes
//! out.

use super::clients::Clients;
use super::desk::Desk;
use super::grants::Grants;

use super::api::{Answer, Call, Name, Rows};
use super::connection::{Payload, Phase};
use super::icecast;
use super::listing::Listing;
use super::route::Wish;
use super::settings::Fields;
use super::{ConnectionId, Relay, Ticket};
use crate::http::{
    self, Body, Framing, Head, HeadReader, Method, Part, Refusal, Reply, Status, Version,
};

/// A payload that means nothing is read up to here; beyond it the call is refused.
const PAYLOAD_BYTES_MAX: usize = 64 * 1024;

/// RFC 9745: since when the paths without `/api` are deprecated. They always were, here:
/// 2026-01-01.
const DEPRECATION: (&str, &str) = ("Deprecation", "@1767225600");

impl Clients {
    /// Queues a whole response, or the rest of one whose head, with the status, is out already.
    pub(super) fn respond(
        &mut self,
        id: ConnectionId,
        status: Option<Status>,
        bytes: Vec<u8>,
        keep_alive: bool,
        desk: &mut Desk,
    ) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let answer_bytes = bytes.len();
        self.reading.count(answer_bytes);
        connection.output.push_whole(bytes);
        let access = connection.access.take();
        connection.phase = Phase::Head(HeadReader::default());
        if let Some(mut entry) = access {
            if status.is_some() {
                entry.status = status;
                entry.bytes = answer_bytes as u64;
            }
            self.end_access(&entry, desk);
        }
        if !keep_alive {
            self.linger(id, desk);
        }
        self.queue(id);
    }

    /// A list, with what other relays have told of it and the names of those that did not.
    pub(super) fn list(
        &mut self,
        id: ConnectionId,
        rows: Rows,
        (gathering, missing): (Option<Ticket>, &str),
        reply: Reply,
        desk: &mut Desk,
    ) {
        let reply = Reply {
            keep_alive: reply.keep_alive && reply.version == Version::Http11,
            ..reply
        };
        let head = http::ResponseHead::new(Status::Ok, &reply)
            .field("Content-Type", "application/json")
            .field("X-Content-Type-Options", "nosniff")
            .field("Cache-Control", "no-store");
        let head = match missing {
            "" => head,
            missing => head.field("Tollgate-Missing", missing),
        };
        let head = match reply.version {
            Version::Http11 => head.field("Transfer-Encoding", "chunked"),
            Version::Http10 => head,
        };
        if reply.head_only {
            return self.respond(id, Some(Status::Ok), head.finish(), reply.keep_alive, desk);
        }
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let head = head.finish();
        connection.output.push(&head);
        if let Some(entry) = &mut connection.access {
            entry.status = Some(Status::Ok);
            entry.bytes = head.len() as u64;
        }
        connection.phase = Phase::Listing(Listing::new(rows, gathering, reply));
        self.queue(id);
    }
}

impl Grants {
    /// What every answer to a request carries because of its path.
    fn fields_for(&self, head: &Head, desk: &Desk) -> Fields {
        if is_deprecated(head) {
            return &[DEPRECATION];
        }
        let is_stream = head
            .target
            .segments
            .first()
            .is_some_and(|first| first == b"stream");
        let watches = matches!(head.method, Method::Get | Method::Head);
        match head.origin.as_deref() {
            Some(origin) if is_stream && watches => self.gate(desk).cors(origin),
            _ => &[],
        }
    }
}

impl Clients {
    /// The payload of a call means nothing, and must not be taken for a request.
    fn await_payload(
        &mut self,
        id: ConnectionId,
        call: Call,
        head: &Head,
        reply: Reply,
        desk: &mut Desk,
    ) {
        if let Framing::Length(length) = head.framing
            && length > PAYLOAD_BYTES_MAX as u64
        {
            return self.refuse(id, &payload_too_large(), reply.closing(), desk);
        }
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if head.expects_continue {
            connection.output.push(CONTINUE);
        }
        connection.phase = Phase::Payload(Payload {
            call: Box::new(call),
            reply,
            body: Body::new(head.framing),
            bytes: 0,
        });
        self.queue(id);
    }

    /// An error reaches the client; the connection can be used on only where `reply` says so.
    pub(super) fn refuse(
        &mut self,
        id: ConnectionId,
        refusal: &Refusal,
        reply: Reply,
        desk: &mut Desk,
    ) {
        *desk.counts.refusals.entry(refusal.status).or_insert(0) += 1;
        let keep_alive = reply.keep_alive && !refusal.ends_connection;
        let bytes = http::refused(
            refusal,
            &Reply {
                keep_alive,
                ..reply
            },
        );
        self.respond(id, Some(refusal.status), bytes, keep_alive, desk);
    }
}

impl Relay {
    /// Reads on in a head. Says whether the connection can be read on.
    pub(super) fn read_head(&mut self, id: ConnectionId, input: &mut &[u8]) -> bool {
        let limits = self.desk.settings.limits.http;
        let _date = self.desk.date();
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return false;
        };
        let Phase::Head(reader) = &mut connection.phase else {
            return false;
        };
        match reader.read(input, &limits) {
            Ok(None) => false,
            Ok(Some((head, length))) => {
                *input = &input[length..];
                connection.phase = Phase::Head(HeadReader::default());
                self.request(id, head);
                true
            }
            Err(refusal) => {
                let reply = self.desk.unread_reply();
                self.clients.note_unread_request(id, &mut self.desk);
                self.clients.refuse(id, &refusal, reply, &mut self.desk);
                true
            }
        }
    }

    fn request(&mut self, id: ConnectionId, head: Head) {
        let introduced = self.introduce(id, &head.forwarded);
        self.clients.note_request(id, &head, &mut self.desk);
        let is_beyond_limit = self
            .clients
            .connections
            .get(id)
            .is_some_and(|connection| connection.is_beyond_limit.is_some());
        let reply = Reply {
            version: head.version,
            keep_alive: head.keep_alive && !self.desk.is_closing && !is_beyond_limit,
            head_only: head.method == Method::Head,
            date: self.desk.date(),
            fields: self.grants.fields_for(&head, &self.desk),
        };
        let framing = icecast::framing(&head);
        let has_payload = !matches!(framing, Framing::None | Framing::Length(0));
        match introduced.and_then(|()| self.route(id, &head, framing)) {
            Err(refusal) => {
                let reply = Reply {
                    keep_alive: reply.keep_alive && !has_payload && !refusal.ends_connection,
                    ..reply
                };
                self.clients.refuse(id, &refusal, reply, &mut self.desk);
            }
            Ok(Wish::Publish {
                session,
                content_type,
                framing,
            }) => self.publish(id, session, content_type, (&head, framing), reply),
            Ok(Wish::Watch { session }) if !has_payload => {
                self.watch(id, session, head.via.as_deref(), reply)
            }
            Ok(Wish::Watch { .. }) => {
                let refusal = Refusal::framing(
                    Status::BadRequest,
                    "a GET with a body; the body has no meaning here and must go",
                );
                self.clients
                    .refuse(id, &refusal, reply.closing(), &mut self.desk);
            }
            Ok(Wish::Call(call)) if has_payload => {
                self.clients
                    .await_payload(id, call, &head, reply, &mut self.desk)
            }
            Ok(Wish::Call(call)) => self.call(id, call, reply),
        }
    }

    /// Reads on in a call's payload. Says whether the connection can be read on.
    pub(super) fn read_payload(&mut self, id: ConnectionId, input: &mut &[u8]) -> bool {
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return false;
        };
        let Phase::Payload(payload) = &mut connection.phase else {
            return false;
        };
        let reply = payload.reply;
        match payload.body.read(input) {
            Ok(Part::More) => false,
            Ok(Part::Content(content)) => {
                payload.bytes += content.len();
                if payload.bytes > PAYLOAD_BYTES_MAX {
                    self.clients
                        .refuse(id, &payload_too_large(), reply.closing(), &mut self.desk);
                }
                true
            }
            Ok(Part::End) => {
                let phase =
                    std::mem::replace(&mut connection.phase, Phase::Head(HeadReader::default()));
                if let Phase::Payload(payload) = phase {
                    self.call(id, *payload.call, reply);
                }
                true
            }
            Err(refusal) => {
                self.clients
                    .refuse(id, &refusal, reply.closing(), &mut self.desk);
                true
            }
        }
    }

    /// What came of a call reaches its client.
    pub(super) fn give(&mut self, id: ConnectionId, result: Result<Answer, Refusal>, reply: Reply) {
        const NO_STORE: (&str, &str) = ("Cache-Control", "no-store");
        let (status, bytes) = match result {
            Err(refusal) => return self.clients.refuse(id, &refusal, reply, &mut self.desk),
            Ok(Answer::List(rows)) => {
                let desk = &mut self.desk;
                return self.clients.list(id, rows, (None, ""), reply, desk);
            }
            Ok(Answer::Json(status, body)) => {
                let json = "application/json";
                (
                    status,
                    http::whole(status, &reply, json, &[NO_STORE], &[&body]),
                )
            }
            Ok(Answer::Page(page)) => {
                let fields = [
                    NO_STORE,
                    ("Content-Security-Policy", &page.policy),
                    ("Referrer-Policy", "no-referrer"),
                ];
                let html = "text/html; charset=utf-8";
                let bytes = http::whole(Status::Ok, &reply, html, &fields, &page.body());
                (Status::Ok, bytes)
            }
            Ok(Answer::Text(content_type, text)) => {
                let text = [text.as_bytes()];
                let bytes = http::whole(Status::Ok, &reply, content_type, &[NO_STORE], &text);
                (Status::Ok, bytes)
            }
            Ok(Answer::Options(allow)) => {
                let fields = [("Allow", allow)];
                let bytes = http::whole(Status::NoContent, &reply, "", &fields, &[]);
                (Status::NoContent, bytes)
            }
        };
        let keep_alive = reply.keep_alive;
        self.clients
            .respond(id, Some(status), bytes, keep_alive, &mut self.desk);
    }

    /// The next piece of a listing goes into the output, once that is empty.
    pub(super) fn prepare_listing(&mut self, id: ConnectionId) {
        let now = self.desk.now;
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return;
        };
        let Phase::Listing(listing) = &mut connection.phase else {
            return;
        };
        if !connection.output.is_empty() {
            return;
        }
        let (after, gathering) = (listing.after, listing.gathering);
        let block = || self.lists.next_block(gathering?);
        let (piece, is_last) = match listing.rows {
            Rows::Tokens => listing.piece(
                self.grants
                    .tokens()
                    .into_iter()
                    .flat_map(|tokens| tokens.after(after))
                    .map(|tuple| (tuple.serial(), tuple)),
                block,
            ),
            Rows::Streams => listing.piece(
                self.streams
                    .order
                    .range(after + 1..)
                    .filter_map(|(serial, live)| Some((*serial, self.streams.lives.get(*live)?)))
                    .map(|(serial, live)| (serial, live.row(now))),
                block,
            ),
        };
        let reply = listing.reply;
        if let Some(entry) = &mut connection.access {
            entry.bytes += piece.len() as u64;
        }
        match reply.version {
            Version::Http10 => connection.output.push(&piece),
            Version::Http11 => {
                connection
                    .output
                    .push(format!("{:x}\r\n", piece.len()).as_bytes());
                connection.output.push(&piece);
                connection.output.push(b"\r\n");
            }
        }
        if is_last {
            let end: &[u8] = if reply.version == Version::Http11 {
                http::LAST_CHUNK
            } else {
                b""
            };
            self.clients
                .respond(id, None, end.to_vec(), reply.keep_alive, &mut self.desk);
        }
    }
}

pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Whether a request is for one of the paths from before there was `/api`.
fn is_deprecated(head: &Head) -> bool {
    matches!(head.target.segments.as_slice(), [name] if Name::parse(name).is_some())
}

fn payload_too_large() -> Refusal {
    let detail = format!(
        "a call's payload means nothing, and no more than {PAYLOAD_BYTES_MAX} bytes of it are read"
    );
    Refusal::framing(Status::ContentTooLarge, detail)
}
