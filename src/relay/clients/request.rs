//! A request: its head is read, and the payload of a call; its answer goes out.

use super::listing::Listing;
use super::{Clients, Event, Phase, Step};
use crate::http::{
    self, Body, Framing, Head, HeadReader, Method, Part, Refusal, Reply, Status, Version,
};
use crate::relay::Ticket;
use crate::relay::api::{Call, Name, Outcome, Rows};
use crate::relay::desk::Desk;
use crate::relay::page::Page;
use crate::relay::settings::Fields;
use crate::relay::{ConnectionId, Settings};

/// A payload that means nothing is read up to here; beyond it the call is refused.
const PAYLOAD_BYTES_MAX: usize = 64 * 1024;

/// RFC 9745: since when the paths without `/api` are deprecated. They always were, here:
/// 2026-01-01.
pub(super) const DEPRECATION: (&str, &str) = ("Deprecation", "@1767225600");

/// To a client that waits for it before it sends a body.
pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A call whose payload has not all arrived.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Payload {
    call: Box<Call>,
    pub(super) reply: Reply,
    body: Body,
    bytes: usize,
}

impl Payload {
    /// Whether what was told of it can be.
    #[cfg(feature = "handover")]
    pub fn fits(&self) -> bool {
        self.body.fits()
    }

    /// Reads on in it. Says whether it is whole; `None`: there is no more for now.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<Option<bool>, Refusal> {
        match self.body.read(input)? {
            Part::More => Ok(None),
            Part::End => Ok(Some(true)),
            Part::Content(content) => {
                self.bytes += content.len();
                match self.bytes > PAYLOAD_BYTES_MAX {
                    true => Err(payload_too_large()),
                    false => Ok(Some(false)),
                }
            }
        }
    }

    /// Bytes that are allocated for it.
    pub fn held_bytes(&self) -> usize {
        self.call.held_bytes()
    }
}

impl Clients {
    /// A head has been read, or not yet, or it cannot be.
    pub(super) fn take_head(
        &mut self,
        id: ConnectionId,
        head: Result<Option<(Head, usize)>, Refusal>,
        input: &mut &[u8],
        desk: &mut Desk,
    ) -> Step<'static> {
        match head {
            Ok(None) => Step::Stop,
            Ok(Some((head, bytes))) => {
                *input = &input[bytes..];
                self.listen(id);
                let introduced = self.introduce(id, &head.forwarded, desk);
                self.note_request(id, &head, desk);
                self.ask(id, head, introduced, desk)
            }
            Err(refusal) => self.refuse_unread(id, &refusal, desk),
        }
    }

    /// What is asked for is asked for in somebody's name, if that is known.
    fn ask(
        &mut self,
        id: ConnectionId,
        head: Head,
        introduced: Result<(), Refusal>,
        desk: &mut Desk,
    ) -> Step<'static> {
        let Some(connection) = self.connections.get(id) else {
            return Step::Stop;
        };
        let caller = connection.caller();
        let reply = Reply {
            version: head.version,
            keep_alive: head.keep_alive && !desk.is_closing() && caller.beyond.is_none(),
            head_only: head.method == Method::Head,
            no_store: false,
            date: desk.date(),
            fields: fields_for(&head, desk.settings()),
        };
        match introduced {
            Ok(()) => Step::Came(Event::Asked {
                head: Box::new(head),
                caller,
                reply,
            }),
            Err(refusal) => {
                self.refuse_request(id, &head, &refusal, reply, desk);
                Step::On
            }
        }
    }

    /// What a client sends cannot be read as a request.
    pub(super) fn refuse_unread(
        &mut self,
        id: ConnectionId,
        refusal: &Refusal,
        desk: &mut Desk,
    ) -> Step<'static> {
        self.note_unread_request(id, desk);
        self.refuse(id, refusal, desk.unread_reply(), desk);
        Step::On
    }

    /// The payload of a call means nothing, and must not be taken for a request.
    pub fn await_payload(
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
        let payload = Payload {
            call: Box::new(call),
            reply,
            body: Body::new(head.framing),
            bytes: 0,
        };
        let first = match head.expects_continue {
            true => CONTINUE,
            false => b"",
        };
        self.begin(id, Phase::Payload(payload), first);
    }

    /// More of a call's payload has come, or it cannot be read.
    pub(super) fn take_payload(
        &mut self,
        id: ConnectionId,
        is_whole: Result<Option<bool>, Refusal>,
        desk: &mut Desk,
    ) -> Step<'static> {
        let Some(connection) = self.connections.get_mut(id) else {
            return Step::Stop;
        };
        let phase = match is_whole {
            Ok(None) => return Step::Stop,
            Ok(Some(false)) => return Step::On,
            Ok(Some(true)) | Err(_) => {
                std::mem::replace(&mut connection.phase, Phase::Head(HeadReader::default()))
            }
        };
        match (phase, is_whole) {
            (Phase::Payload(Payload { call, reply, .. }), Ok(_)) => {
                return Step::Came(Event::Called { call: *call, reply });
            }
            (Phase::Payload(Payload { reply, .. }), Err(refusal)) => {
                self.refuse(id, &refusal, reply.closing(), desk);
            }
            (phase, _) => connection.phase = phase,
        }
        Step::On
    }

    /// What goes out first of an answer that is not whole, and what becomes of the connection.
    pub(super) fn begin(&mut self, id: ConnectionId, phase: Phase, first: &[u8]) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.output.push(first);
            connection.phase = phase;
        }
        self.queue(id);
    }

    /// Queues a whole response, or the rest of one whose head, with the status, is out already.
    pub fn respond(
        &mut self,
        id: ConnectionId,
        status: Option<Status>,
        bytes: Vec<u8>,
        keep_alive: bool,
        desk: &mut Desk,
    ) {
        self.leave(id);
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let answer_bytes = bytes.len();
        self.reading.count(answer_bytes);
        connection.output.push_whole(bytes);
        connection.phase = Phase::Head(HeadReader::default());
        if let Some(mut entry) = connection.access.take() {
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

    /// What came of a call reaches its client.
    pub fn give(
        &mut self,
        id: ConnectionId,
        result: Result<Outcome, Refusal>,
        reply: Reply,
        desk: &mut Desk,
    ) {
        const NO_STORE: (&str, &str) = ("Cache-Control", "no-store");
        let (status, bytes) = match result {
            Err(refusal) => return self.refuse(id, &refusal, reply, desk),
            Ok(Outcome::List(rows)) => return self.list(id, rows, (None, ""), reply, desk),
            Ok(Outcome::Json(status, body)) => {
                let json = "application/json";
                (
                    status,
                    http::whole(status, &reply, json, &[NO_STORE], &[&body]),
                )
            }
            Ok(Outcome::Done) => {
                let status = Status::NoContent;
                (status, http::whole(status, &reply, "", &[NO_STORE], &[]))
            }
            Ok(Outcome::Page(page, None)) => (Status::Ok, shown(&page, Status::Ok, &reply, &[])),
            // Who may not see what it shows is told so by it.
            Ok(Outcome::Page(page, Some(refusal))) => {
                desk.count_refusal(refusal.status);
                let seconds = refusal
                    .retry_after_seconds
                    .map(|seconds| seconds.to_string());
                let retry_after = seconds.as_deref().map(|seconds| ("Retry-After", seconds));
                let bytes = shown(&page, refusal.status, &reply, retry_after.as_slice());
                (refusal.status, bytes)
            }
            Ok(Outcome::Text(content_type, text)) => {
                let text = [text.as_bytes()];
                let bytes = http::whole(Status::Ok, &reply, content_type, &[NO_STORE], &text);
                (Status::Ok, bytes)
            }
            Ok(Outcome::Moved(address)) => {
                let status = Status::TemporaryRedirect;
                let fields = [("Location", &*address), NO_STORE];
                (
                    status,
                    http::whole(status, &reply, "text/plain", &fields, &[]),
                )
            }
            Ok(Outcome::Options(allow)) => {
                let fields = [
                    ("Allow", allow),
                    ("Access-Control-Allow-Methods", allow),
                    ("Access-Control-Allow-Headers", "*"),
                ];
                // What a page of another site may send is said where it may read the answer.
                let is_for_page = reply.fields.iter().any(|(name, _)| *name == ALLOW_ORIGIN);
                let fields = if is_for_page {
                    &fields[..]
                } else {
                    &fields[..1]
                };
                let bytes = http::whole(Status::NoContent, &reply, "", fields, &[]);
                (Status::NoContent, bytes)
            }
        };
        let keep_alive = reply.keep_alive;
        self.respond(id, Some(status), bytes, keep_alive, desk);
    }

    /// A list, with what other relays have told of it and the names of those that did not.
    pub fn list(
        &mut self,
        id: ConnectionId,
        rows: Rows,
        (collecting, missing): (Option<Ticket>, &str),
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
        let head = head.finish();
        if let Some(connection) = self.connections.get_mut(id)
            && let Some(entry) = &mut connection.access
        {
            entry.status = Some(Status::Ok);
            entry.bytes = head.len() as u64;
        }
        self.begin(
            id,
            Phase::Listing(Listing::new(rows, collecting, reply)),
            &head,
        );
    }

    /// An error reaches the client; the connection can be used on only where `reply` says so.
    pub fn refuse(&mut self, id: ConnectionId, refusal: &Refusal, reply: Reply, desk: &mut Desk) {
        desk.count_refusal(refusal.status);
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

    /// The same for a request: what follows its head is not read.
    pub fn refuse_request(
        &mut self,
        id: ConnectionId,
        head: &Head,
        refusal: &Refusal,
        reply: Reply,
        desk: &mut Desk,
    ) {
        let has_payload = !matches!(head.framing_of_media(), Framing::None | Framing::Length(0));
        let reply = Reply {
            keep_alive: reply.keep_alive && !has_payload,
            ..reply
        };
        self.refuse(id, refusal, reply, desk);
    }

    /// Its answer depends on what has this ticket.
    pub fn await_ticket(&mut self, id: ConnectionId, ticket: Ticket, desk: &mut Desk) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.phase = Phase::Errand(ticket);
            connection.progress = desk.now();
        }
        self.rearm(id, desk);
    }

    /// Its change is on its way to the disk.
    pub fn await_disk(&mut self, id: ConnectionId) {
        self.enter(id, Phase::Recording);
    }
}

/// What tells a browser which site's pages may read an answer.
const ALLOW_ORIGIN: &str = "Access-Control-Allow-Origin";

/// A page as it goes out.
fn shown(page: &Page, status: Status, reply: &Reply, more: &[(&str, &str)]) -> Vec<u8> {
    let fields = [
        ("Cache-Control", "no-store"),
        ("Content-Security-Policy", page.policy()),
        ("Referrer-Policy", "no-referrer"),
    ];
    let fields = [&fields, more].concat();
    let html = "text/html; charset=utf-8";
    http::whole(status, reply, html, &fields, &page.body())
}

/// What every answer to a request carries because of its path.
fn fields_for(head: &Head, settings: &Settings) -> Fields {
    let segments = head.target.segments.as_slice();
    // One of the paths from before there was `/api`.
    if matches!(segments, [name] if Name::parse(name).is_some()) {
        return &[DEPRECATION];
    }
    let is_stream = segments.first().is_some_and(|first| first == b"stream");
    if !is_stream {
        return &[];
    }
    let of_page = head.origin.as_deref().map(|origin| settings.cors(origin));
    match head.method {
        Method::Get | Method::Head => match of_page {
            Some(fields) if !fields.is_empty() => fields,
            Some(_) | None => settings.cors_of_any(),
        },
        // A browser asks whether its page may, before the page's own request.
        Method::Options => of_page.unwrap_or_default(),
        Method::Put | Method::Post | Method::Delete | Method::Source | Method::Other => &[],
    }
}

fn payload_too_large() -> Refusal {
    let detail = format!(
        "a call's payload means nothing, and no more than {PAYLOAD_BYTES_MAX} bytes of it are read"
    );
    Refusal::framing(Status::ContentTooLarge, detail)
}
