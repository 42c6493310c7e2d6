//! Requests: reads the head, and the payload of a call, and writes the answer.

use super::access_log::AccessEntry;
use super::list_response::ListResponse;
use super::{ClientEvent, Clients, Phase, Step};
use crate::http::{
    self, Body, Framing, Head, HeadReader, Method, Part, Refusal, Reply, Status, Version,
};
use crate::relay::JobId;
use crate::relay::admission::AccessRequest;
use crate::relay::api::{Call, Name, Outcome, Rows};
use crate::relay::context::Context;
use crate::relay::page::{Document, Page};
use crate::relay::settings::Fields;
use crate::relay::{Action, ConnectionId, Settings};

/// Maximal size of a call's payload, which is ignored. Larger ones are refused.
const PAYLOAD_BYTES_MAX: usize = 64 * 1024;

/// The field that calls the paths without `/api` deprecated since 2026-01-01 (RFC 9745).
pub(super) const DEPRECATION: (&str, &str) = ("Deprecation", "@1767225600");

/// Goes to a client that waits for it before it sends a body.
pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// Goes to a client that asks by `SOURCE` and waits for this before it sends its media.
pub(super) const GO_ON: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";

/// A call whose payload has not all arrived.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Payload {
    call: Box<Call>,
    pub(super) reply: Reply,
    pub body: Body,
    bytes: usize,
}

impl Clients {
    /// Reads a head. Refuses a bad one.
    pub(super) fn read_head(
        &mut self,
        id: ConnectionId,
        input: &mut &[u8],
        ctx: &mut Context,
    ) -> Step<'static> {
        let Some(connection) = self.connections.get_mut(id) else {
            return Step::Stop;
        };
        let Phase::Head(reader) = &mut connection.phase else {
            return Step::Stop;
        };
        // The time of a request counts from its first byte, however slowly the others come.
        if !reader.has_begun() {
            connection.progress = ctx.now();
        }
        let head = match reader.read(input, &ctx.settings().limits.http) {
            Ok(None) => return Step::Stop,
            Ok(Some((head, bytes))) => {
                *input = &input[bytes..];
                head
            }
            Err(refusal) => return self.refuse_unread(id, &refusal, ctx),
        };
        *reader = HeadReader::default();
        let introduced = self.introduce(id, &head.fields.forwarded, ctx);
        self.note(id, |host, date| AccessEntry::new(host, date, &head), ctx);
        let Some(connection) = self.connections.get(id) else {
            return Step::Stop;
        };
        let caller = connection.caller();
        let wants_titles = head.fields.icy.wants_titles;
        let reply = Reply {
            version: head.version,
            keep_alive: head.keep_alive && !ctx.is_closing && caller.beyond.is_none(),
            head_only: head.method == Method::Head,
            no_store: false,
            wants_titles: ctx.settings().admits_icecast.then_some(wants_titles),
            wants_page: is_for_person(&head),
            date: ctx.date(),
            fields: fields_for(&head, ctx.settings()),
        };
        match introduced {
            Ok(()) => Step::Event(ClientEvent::Request {
                head: Box::new(head),
                caller,
                reply,
            }),
            Err(refusal) => {
                self.refuse_request(id, &head, &refusal, reply, ctx);
                Step::On
            }
        }
    }

    /// Refuses a client whose input cannot be read as a request.
    pub(super) fn refuse_unread(
        &mut self,
        id: ConnectionId,
        refusal: &Refusal,
        ctx: &mut Context,
    ) -> Step<'static> {
        self.note(id, AccessEntry::unread, ctx);
        self.refuse(id, refusal, ctx.unread_reply(), ctx);
        Step::On
    }

    /// Reads the payload of a call before the call is carried out. It must not be read as a request.
    pub fn await_payload(
        &mut self,
        id: ConnectionId,
        call: Call,
        head: &Head,
        reply: Reply,
        ctx: &mut Context,
    ) {
        if let Framing::Length(length) = head.framing
            && length > PAYLOAD_BYTES_MAX as u64
        {
            return self.refuse(id, &payload_too_large(), reply.closing(), ctx);
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

    /// Reads the payload of a call.
    pub(super) fn read_payload(
        &mut self,
        id: ConnectionId,
        input: &mut &[u8],
        ctx: &mut Context,
    ) -> Step<'static> {
        let Some(connection) = self.connections.get_mut(id) else {
            return Step::Stop;
        };
        let Phase::Payload(payload) = &mut connection.phase else {
            return Step::Stop;
        };
        let refusal = match payload.body.read(input) {
            Ok(Part::More) => return Step::Stop,
            Ok(Part::Content(content)) => {
                payload.bytes += content.len();
                if payload.bytes <= PAYLOAD_BYTES_MAX {
                    return Step::On;
                }
                payload_too_large()
            }
            Ok(Part::End) => {
                return match std::mem::take(&mut connection.phase) {
                    Phase::Payload(Payload { call, reply, .. }) => {
                        Step::Event(ClientEvent::Call { call: *call, reply })
                    }
                    _ => Step::On,
                };
            }
            Err(refusal) => refusal,
        };
        let reply = payload.reply.closing();
        self.refuse(id, &refusal, reply, ctx);
        Step::On
    }

    /// Sets the phase, and queues the first bytes of an answer that goes on in it.
    pub(super) fn begin(&mut self, id: ConnectionId, phase: Phase, first: &[u8]) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.output.push(first);
            connection.phase = phase;
        }
        self.queue(id);
    }

    /// Keeps what admission has read of this request until it is answered.
    pub fn keep_access_request(&mut self, id: ConnectionId, access_request: Option<AccessRequest>) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.access_request = access_request.map(Box::new);
        }
    }

    /// Queues a whole response, or the rest of one whose head, with the status, is out already.
    pub fn respond(
        &mut self,
        id: ConnectionId,
        status: Option<Status>,
        bytes: Vec<u8>,
        keep_alive: bool,
        ctx: &mut Context,
    ) {
        self.leave(id);
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let answer_bytes = bytes.len();
        self.reading.count(answer_bytes);
        connection.output.push_whole(bytes);
        connection.access_request = None;
        connection.phase = Phase::default();
        if let Some(mut entry) = connection.access.take() {
            if status.is_some() {
                entry.status = status;
                entry.bytes = answer_bytes as u64;
            }
            ctx.act(Action::LogAccess(entry.line()));
        }
        if !keep_alive {
            self.linger(id, ctx);
        }
        self.queue(id);
    }

    /// Answers a call.
    pub fn answer_call(
        &mut self,
        id: ConnectionId,
        result: Result<Outcome, Refusal>,
        reply: Reply,
        ctx: &mut Context,
    ) {
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(refusal) => return self.refuse(id, &refusal, reply, ctx),
        };
        const NO_STORE: (&str, &str) = ("Cache-Control", "no-store");
        let retry_after;
        let (status, media_type, fields, body) = match &outcome {
            Outcome::Json(status, body) => {
                let body = vec![body.as_slice(), b"\n"];
                (*status, "application/json", vec![NO_STORE], body)
            }
            Outcome::Page(page, refusal) => {
                let mut status = Status::Ok;
                let mut fields = vec![
                    NO_STORE,
                    ("Content-Security-Policy", page.policy()),
                    ("Referrer-Policy", "no-referrer"),
                ];
                // The page itself tells the viewer that it may not see the stream.
                if let Some(refusal) = refusal {
                    ctx.counts.refused(refusal.status);
                    status = refusal.status;
                    if let Some(seconds) = refusal.retry_after_seconds {
                        retry_after = seconds.to_string();
                        fields.push(("Retry-After", &retry_after));
                    }
                }
                (
                    status,
                    "text/html; charset=utf-8",
                    fields,
                    page.body().to_vec(),
                )
            }
            Outcome::Text(status, media_type, caching, text) => {
                let caching = if reply.no_store { NO_STORE.1 } else { caching };
                let fields = vec![(NO_STORE.0, caching)];
                (*status, *media_type, fields, vec![text.as_bytes()])
            }
            Outcome::Moved(address) => {
                let fields = vec![("Location", &**address), NO_STORE];
                (Status::TemporaryRedirect, "text/plain", fields, vec![])
            }
            Outcome::Options(allow) => {
                let mut fields = vec![("Allow", *allow)];
                // A page of another site learns what it may send if it may read the answer.
                if reply.fields.iter().any(|(name, _)| *name == ALLOW_ORIGIN) {
                    let allowed = reply.wants_titles.map_or("*", |_| "*, Icy-MetaData");
                    fields.push(("Access-Control-Allow-Methods", *allow));
                    fields.push(("Access-Control-Allow-Headers", allowed));
                }
                (Status::NoContent, "", fields, vec![])
            }
        };
        let bytes = http::whole(status, &reply, media_type, &fields, &body);
        self.respond(id, Some(status), bytes, reply.keep_alive, ctx);
    }

    /// Begins the answer to a call for a list. `collecting`: the list with the rows of other relays.
    /// `missing`: the names of the relays that did not answer.
    pub fn list(
        &mut self,
        id: ConnectionId,
        rows: Rows,
        collecting: Option<JobId>,
        missing: &str,
        reply: Reply,
        ctx: &mut Context,
    ) {
        if ctx.is_replaced && !rows.are_of_tokens() {
            let detail = "another process has taken over this server, with its streams; ask again";
            return self.refuse(id, &Refusal::busy(detail), reply, ctx);
        }
        let reply = reply.close_unless(reply.version == Version::Http11);
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
            return self.respond(id, Some(Status::Ok), head.finish(), reply.keep_alive, ctx);
        }
        let head = head.finish();
        self.note_status(id, Status::Ok);
        self.note_bytes(id, head.len());
        let list = ListResponse::new(rows, collecting, reply);
        self.begin(id, Phase::ListResponse(Box::new(list)), &head);
    }

    /// Answers with an error. Closes the connection afterwards if the reply or the refusal says so.
    pub fn refuse(&mut self, id: ConnectionId, refusal: &Refusal, reply: Reply, ctx: &mut Context) {
        if reply.wants_page
            && !refusal.ends_connection
            && let Some(page) = Page::draw(
                Document::Refused(refusal),
                &ctx.settings.public_url,
                &mut ctx.random,
            )
        {
            let outcome = Outcome::Page(page, Some(Box::new(refusal.clone())));
            return self.answer_call(id, Ok(outcome), reply, ctx);
        }
        ctx.counts.refused(refusal.status);
        let reply = reply.close_unless(!refusal.ends_connection);
        let bytes = http::refused(refusal, &reply);
        self.respond(id, Some(refusal.status), bytes, reply.keep_alive, ctx);
    }

    /// Answers a request with an error. Closes the connection if a body follows, which is not read.
    pub fn refuse_request(
        &mut self,
        id: ConnectionId,
        head: &Head,
        refusal: &Refusal,
        reply: Reply,
        ctx: &mut Context,
    ) {
        self.refuse(id, refusal, reply.close_unless(!head.has_payload()), ctx);
    }

    /// Lets a call wait for this job.
    pub fn await_job(&mut self, id: ConnectionId, job_id: JobId, ctx: &mut Context) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.phase = Phase::PendingCall(job_id);
            connection.progress = ctx.now();
        }
        self.rearm(id, ctx);
    }

    /// Lets a call wait until its change is on disk.
    pub fn await_disk(&mut self, id: ConnectionId) {
        self.enter(id, Phase::AwaitingJournal);
    }
}

/// The field that tells a browser which site's pages may read an answer.
const ALLOW_ORIGIN: &str = "Access-Control-Allow-Origin";

/// Returns whether a person opened an address in a browser. Programs and players do not ask for
/// HTML. Under `/api` the answers are for programs only.
fn is_for_person(head: &Head) -> bool {
    let first = head.target.segments.first();
    head.fields.accepts_html
        && matches!(head.method, Method::Get | Method::Head)
        && first.is_none_or(|it| it != b"api")
}

/// Returns the fields that all answers to requests for this path have.
fn fields_for(head: &Head, settings: &Settings) -> Fields {
    let segments = head.target.segments.as_slice();
    // This path is from before there was `/api`.
    if matches!(segments, [name] if Name::parse(name).is_some()) {
        return &[DEPRECATION];
    }
    let is_stream = segments.first().is_some_and(|first| first == b"stream");
    if !is_stream {
        return &[];
    }
    let of_page = head
        .fields
        .origin
        .as_deref()
        .map(|origin| settings.cors(origin));
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
        "the body of a call may have at most {PAYLOAD_BYTES_MAX} bytes; send none, since parameters go in the query"
    );
    Refusal::framing(Status::ContentTooLarge, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::stage::Stage;
    use crate::stream::Outcome as Turn;

    const API: &str = "--token-server=10.0.0.0/24";

    /// A call may have a payload up to a limit. The server ignores it, however it is cut.
    #[test]
    fn a_payload_is_read_up_to_its_bound() {
        let chunks = |sizes: &[usize]| -> String {
            let chunk = |bytes: &usize| format!("{bytes:x}\r\n{}\r\n", "x".repeat(*bytes));
            let all: String = sizes.iter().map(chunk).collect();
            format!("Transfer-Encoding: chunked\r\n\r\n{all}0\r\n\r\n")
        };
        let length = |bytes: usize, sent: usize| {
            format!("Content-Length: {bytes}\r\n\r\n{}", "x".repeat(sent))
        };
        const MOST: usize = PAYLOAD_BYTES_MAX;
        for (payload, status) in [
            (length(1, 1), 200),
            (length(MOST, MOST), 200),
            // It is not waited for.
            (length(MOST + 1, 0), 413),
            (chunks(&[1]), 200),
            (chunks(&[MOST]), 200),
            (chunks(&[MOST / 2, MOST / 2]), 200),
            (chunks(&[MOST + 1]), 413),
            (chunks(&[MOST / 2, MOST / 2, 1]), 413),
            (chunks(&[1, MOST]), 413),
        ] {
            let mut stage = Stage::new(&[API]);
            let head = "GET /api/openapi.json HTTP/1.1\r\nHost: localhost\r\n";
            let id = stage.client(&format!("{head}{payload}"));
            stage.assert_status(id, status);
            let text = stage.text(id);
            assert_eq!(text.contains("Connection: close"), status == 413, "{text}");
        }
        // It is asked for where the client waits for that.
        let mut stage = Stage::new(&[API]);
        let head =
            "GET /healthz HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n";
        let id = stage.client(head);
        assert_eq!(stage.text(id).as_bytes(), CONTINUE);
        stage.send(id, "x");
        assert!(stage.text(id)[CONTINUE.len()..].starts_with("HTTP/1.1 200 "));
    }

    /// What becomes of a connection after an answer: it can be used on where nothing speaks
    /// against it.
    #[test]
    fn a_connection_is_used_on_where_that_can_be() {
        let get = |path: &str, more: &str| {
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n")
        };
        let old = |path: &str, more: &str| {
            format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n{more}\r\n")
        };
        let list = "/api/list-tokens";
        for (request, status, is_used_on) in [
            (get("/healthz", ""), 200, true),
            (get("/healthz", "Connection: close\r\n"), 200, false),
            (old("/healthz", ""), 200, false),
            (old("/healthz", "Connection: keep-alive\r\n"), 200, true),
            (get(list, ""), 200, true),
            (get(list, "Connection: close\r\n"), 200, false),
            (old(list, "Connection: keep-alive\r\n"), 200, false),
            (get("/none", ""), 404, true),
            (get("/none", "Connection: close\r\n"), 404, false),
            (get("/none", "Content-Length: 0\r\n"), 404, true),
            (get("/none", "Content-Length: 5\r\n"), 404, false),
            (get("/none", "Transfer-Encoding: chunked\r\n"), 404, false),
            // Its framing is lost.
            (get("/healthz", "Content-Length: x\r\n"), 400, false),
            (
                "PUT /stream/none HTTP/1.1\r\nHost: localhost\r\n\r\n".into(),
                403,
                false,
            ),
        ] {
            let mut stage = Stage::new(&[API]);
            let id = stage.client(&request);
            (0..8).for_each(|_| stage.settle());
            stage.assert_status(id, status);
            let text = stage.text(id);
            assert_eq!(
                !text.contains("Connection: close\r\n"),
                is_used_on,
                "{request} {text}"
            );
            stage.send(id, &get("/healthz", ""));
            let answers = if is_used_on { 2 } else { 1 };
            assert_eq!(
                stage.text(id).matches("HTTP/1.1 ").count(),
                answers,
                "{request}"
            );
        }
    }

    /// Beyond the limit, and while the server ends, an answer is the last one.
    #[test]
    fn an_answer_is_the_last_one_where_there_is_no_place_for_another() {
        let health = "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n";
        let is_last = |stage: &Stage, id| stage.text(id).contains("Connection: close\r\n");
        let mut stage = Stage::new(&["--connections=10"]);
        let within: Vec<ConnectionId> = (0..10).map(|_| stage.client(health)).collect();
        assert!(within.iter().all(|id| !is_last(&stage, *id)));
        let beyond = stage.client(health);
        stage.assert_status(beyond, 200);
        assert!(is_last(&stage, beyond));
        stage.relay.served(within[0], Turn::Blocked, stage.now);
        stage.send(within[0], health);
        stage.relay.shut_down(stage.now);
        stage.send(within[0], health);
        stage.relay.unblocked(within[0]);
        stage.settle();
        assert_eq!(stage.text(within[0]).matches("HTTP/1.1 200").count(), 3);
        assert_eq!(
            stage.text(within[0]).matches("Connection: close").count(),
            1
        );
    }

    /// Old paths are marked as deprecated. Pages of configured sites may read streams, and caches
    /// learn that.
    #[test]
    fn answers_say_what_their_path_and_their_page_ask_for() {
        let (one, other) = ("--cors=http://a.example", "--cors=http://b.example");
        let origin = "Origin: http://a.example\r\n";
        let stranger = "Origin: http://c.example\r\n";
        let allows = "Access-Control-Allow-Origin: http://a.example\r\n";
        let varies = "Vary: Origin\r\n";
        let methods = "Access-Control-Allow-Methods: ";
        let deprecated = "Deprecation: @1767225600\r\n";
        let cases: [(&[&str], &str, &str, &[&str]); 21] = [
            (&[], "GET /list-tokens", "", &[deprecated]),
            (&[one], "GET /list-tokens", origin, &[deprecated]),
            (&[one], "GET /api/list-tokens", origin, &[]),
            (&[one], "GET /healthz", origin, &[]),
            (&[one], "GET /none", origin, &[]),
            (&[one], "OPTIONS *", origin, &[]),
            (&[], "GET /stream/s", origin, &[]),
            (&[one], "GET /stream/s", origin, &[allows]),
            (&[one], "GET /stream/s", "", &[allows]),
            (&[one], "GET /stream/s", stranger, &[allows]),
            (&[one], "HEAD /stream/s", origin, &[allows]),
            (&[one], "OPTIONS /stream/s", origin, &[allows, methods]),
            (&[one], "OPTIONS /stream/s", stranger, &[]),
            (&[one], "OPTIONS /stream/s", "", &[]),
            (&[one], "DELETE /stream/s", origin, &[]),
            (&[one], "PUT /stream/s", origin, &[]),
            (&[one, other], "GET /stream/s", origin, &[allows]),
            (&[one, other], "GET /stream/s", "", &[varies]),
            (&[one, other], "GET /stream/s", stranger, &[varies]),
            (
                &[one, other],
                "OPTIONS /stream/s",
                origin,
                &[allows, methods],
            ),
            (&[one, other], "OPTIONS /stream/s", stranger, &[]),
        ];
        for (options, asked, field, said) in cases {
            let mut stage = Stage::new(options);
            let id = stage.client(&format!("{asked} HTTP/1.1\r\nHost: h\r\n{field}\r\n"));
            let text = stage.text(id);
            assert!(text.starts_with("HTTP/1.1 "), "{text}");
            for words in [allows, varies, methods, deprecated] {
                // Where a site is allowed it varies by that, too.
                let is_free = words == varies && said.contains(&allows);
                let is_said = text.contains(words);
                assert!(
                    is_free || is_said == said.contains(&words),
                    "{asked} {field} {text}"
                );
            }
        }
    }

    /// A change is on its way to the disk. Requests after it wait for its answer.
    #[test]
    fn a_change_is_answered_when_it_is_on_disk_and_nothing_before_it() {
        use crate::relay::Done;

        for (done, status) in [(Ok(()), 201), (Err("full".to_owned()), 507)] {
            let mut stage = Stage::new(&[API]);
            let tokens = crate::gate::Tokens::new(stage.relay.token_limits());
            stage.relay.restore(tokens, stage.now);
            let ask = |line: &str| format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let add = ask("POST /api/add-token?type=http&sessionid=s");
            let id = stage.client(&format!("{add}{}", ask("GET /healthz")));
            assert_eq!(stage.text(id), "");
            assert_eq!(
                stage.relay.bytes_wanted(id),
                4_096 - ask("GET /healthz").len()
            );
            let (job_id, _) = stage.jobs.remove(0);
            stage
                .relay
                .job_finished(job_id, Done::Appended(done), stage.now);
            stage.settle();
            stage.assert_status(id, status);
            assert_eq!(stage.text(id).matches("HTTP/1.1 ").count(), 2);
            assert!(stage.text(id).ends_with("{\"status\":\"ok\"}\n"));
        }
    }
}
