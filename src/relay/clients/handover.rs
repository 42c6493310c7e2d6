//! Hands clients over to another process, each with its state. The successor makes its lists and
//! counters again from them.
//!
//! A client stays with this process if only this process can answer it: a client that waits for
//! peers' lists, or for a change that is being written to the disk. So does a client of RTMP.

use super::admissions::hls_address_time;
use super::connection::Connection;
use super::viewer_counts::HlsAddress;

use super::request::DEPRECATION;
use super::{Clients, Phase, WaitFor, WaitOutcome};
use crate::copied::{Copied, CopiedPart, Copies};
use crate::gate::SessionId;
use crate::handover::{HandoverError, Line, Writer, must};
use crate::http::{HeadReader, Reply, is_of_another_machine};
use crate::relay::admission::{AccessRequest, AddressFrom, EntryPoint};
use crate::relay::context::Context;
use crate::relay::old_options::OldOptions;
use crate::relay::settings::{Fields, VARIES};
use crate::relay::streams::ViewerKey;
use crate::relay::{ConnectionId, JobId, PullId, Settings, StreamId};
use crate::slots::Slots;
use crate::time::Instant;

/// Received clients, in their order.
#[derive(Default)]
pub struct ClientsState {
    connections: Vec<(ConnectionId, Connection)>,
    /// Addresses that count as viewers by HLS, each with its session and the end of its time.
    addresses: Vec<((HlsAddress, SessionId), Instant)>,
}

/// What another part knows of a client.
pub enum Concern {
    /// The client is this stream's source.
    Source(StreamId),
    /// The connection requests this pull's stream from an origin.
    OriginRequest(PullId),
    /// The client waits for this job.
    PendingCall(JobId),
    /// The client is this viewer.
    Viewer {
        viewer_key: ViewerKey,
        /// Its socket takes nothing for now.
        is_blocked: bool,
    },
}

/// What a client does, as far as admission asks about it.
pub enum Activity {
    /// No request of the client is open.
    Idle,
    /// The client is a source, or waits for the answer of a call, or reads it.
    Asks(AccessRequest),
    /// The client watches this stream or one of its segments, or waits for a stream.
    Watches(AccessRequest, Option<StreamId>),
}

impl Clients {
    /// Returns what a client does; `None` for a connection that this server made.
    pub fn activity(&self, id: ConnectionId) -> Option<Activity> {
        let connection = self.connections.get(id)?;
        let request = |entry_point| connection.access_request_at(entry_point);
        Some(match &connection.phase {
            Phase::Opening | Phase::Head(_) | Phase::Lingering(_) => Activity::Idle,
            Phase::Source(source) if source.reply.is_some() => {
                Activity::Asks(request(EntryPoint::Put))
            }
            Phase::EventReader(_) => Activity::Asks(request(EntryPoint::Events)),
            Phase::Payload(_)
            | Phase::ListResponse(_)
            | Phase::PendingCall(_)
            | Phase::AwaitingJournal => Activity::Asks(request(EntryPoint::Call)),
            Phase::Viewer(response) => {
                Activity::Watches(request(EntryPoint::Viewer), Some(response.key().0))
            }
            Phase::Waiting(waiting) => Activity::Watches(request(waiting.view.entry_point()), None),
            Phase::Source(_) | Phase::OriginRequest(_) | Phase::PeerRequest(_) => return None,
        })
    }

    /// Returns whether these settings name the client of a connection in the same way as the predecessor.
    pub fn is_named_still(&self, id: ConnectionId, old: &OldOptions, settings: &Settings) -> bool {
        let Some(connection) = self.connections.get(id) else {
            return false;
        };
        let peer = connection.peer;
        let is_idle = matches!(
            connection.phase,
            Phase::Opening | Phase::Head(_) | Phase::Lingering(_)
        );
        let forwarder = connection.forwarder.as_deref();
        let by_same_means = match (connection.introducer.as_deref(), forwarder) {
            (Some(proxy), forwarder) => {
                settings.address_from(proxy.ip()) == AddressFrom::ProxyHeader
                    && forwarder.is_none_or(|proxy| settings.is_forwarder(proxy.ip()))
            }
            (None, Some(proxy)) => settings.address_from(proxy.ip()) == AddressFrom::Request,
            (None, None) if connection.is_named => {
                settings.address_from(peer.ip()) == AddressFrom::Connection
            }
            (None, None) => settings.address_from(peer.ip()) == AddressFrom::ProxyHeader,
        };
        let is_a_proxy = connection.is_named && settings.is_proxy(peer.ip());
        // A connection does not keep the proxies that a request came through. The next request names them.
        let is_by_others = forwarder.is_some() && !is_idle && old.had_other_proxies(settings);
        let introducer = connection.introducer.as_deref();
        let by_proxy = forwarder.or(introducer).filter(|_| connection.is_named);
        let is_elsewhere = by_proxy.is_some_and(|proxy| is_of_another_machine(peer, *proxy))
            || forwarder
                .zip(introducer)
                .is_some_and(|(client, proxy)| is_of_another_machine(*client, *proxy));
        by_same_means && !is_a_proxy && !is_by_others && !is_elsewhere
    }

    /// Writes the state of each client that can go, and returns these clients. The others stay, such
    /// as a client that waits for a job that is not handed over.
    pub fn hand_over(
        &mut self,
        is_job_sent: impl Fn(JobId) -> bool,
        writer: &mut Writer<'_>,
    ) -> Vec<ConnectionId> {
        let addresses: Vec<_> = self.admissions.viewers.hls().collect();
        writer.put("hls-addresses", 0, &addresses);
        let ids: Vec<ConnectionId> = self.connections.iter().map(|(id, _)| id).collect();
        let goes = |id: &ConnectionId| {
            let connection = self.connections.get_mut(*id);
            let send = |connection: &mut Connection| {
                let job_id = connection.phase.job_id();
                if connection.is_rtmp || job_id.is_some_and(|job_id| !is_job_sent(job_id)) {
                    return false;
                }
                connection.is_within_head =
                    matches!(&connection.phase, Phase::Head(reader) if reader.has_begun());
                let reply = connection.phase.reply_mut();
                let fields = reply.map_or(&[][..], |reply| reply.fields);
                let nothing = Copied::default();
                let input = connection.input.as_deref().unwrap_or(&nothing);
                let state = (fields, input, &*connection);
                writer.put("connection", id.to_u64(), &state)
            };
            connection.is_some_and(send)
        };
        ids.into_iter().filter(goes).collect()
    }

    /// Returns the bytes of a client of this kind.
    pub fn copied(&mut self, id: ConnectionId, part: CopiedPart) -> Option<&mut Copied> {
        let connection = self.connections.get_mut(id)?;
        match part {
            CopiedPart::Input => connection.input.as_deref_mut(),
            CopiedPart::Output => Some(&mut connection.output.0.as_mut()?.bytes),
            _ => None,
        }
    }

    /// Returns the ids of all connections.
    pub fn ids(&self) -> impl Iterator<Item = ConnectionId> {
        self.connections.iter().map(|(id, _)| id)
    }

    /// Returns the generation of the next id.
    pub fn next_id(&self) -> u32 {
        self.connections.next()
    }

    /// Removes the clients that the successor has. No event reports this, and their sockets stay open.
    pub fn let_go(&mut self, ids: &[ConnectionId], ctx: &mut Context) {
        for id in ids {
            let connection = self.connections.get_mut(*id);
            let phase = connection.map(|connection| {
                connection.access = None;
                std::mem::replace(&mut connection.phase, Phase::AwaitingJournal)
            });
            if let Some(Phase::Waiting(waiting)) = phase {
                self.waiting.leave(waiting.wait_for, *id);
            }
            self.close(*id, ctx);
        }
    }

    /// Takes over the received clients.
    pub fn take_over(
        received: ClientsState,
        next_id: u32,
        ctx: &mut Context,
    ) -> Result<Clients, HandoverError> {
        let places_max = ctx.settings().limits.places_max();
        let mut clients = Clients {
            connections: Slots::of(received.connections, next_id, places_max)?,
            ..Clients::new()
        };
        for ((address, session), until) in received.addresses {
            let until = until.min(ctx.now() + hls_address_time(ctx));
            clients
                .admissions
                .viewers
                .count_hls(address, session, until);
        }
        let ids: Vec<ConnectionId> = clients.connections.iter().map(|(id, _)| id).collect();
        for id in ids {
            clients.take_in(id, ctx)?;
        }
        Ok(clients)
    }

    /// Adds a received client to all lists of clients.
    fn take_in(&mut self, id: ConnectionId, ctx: &mut Context) -> Result<(), HandoverError> {
        let Some(connection) = self.connections.get_mut(id) else {
            return Ok(());
        };
        let output = connection.output.0.as_ref();
        let is_possible = output.is_none_or(|output| output.sent <= output.bytes.len());
        must(is_possible, || {
            format!("{id:?}: more has been sent than there is")
        })?;
        connection.progress = connection.progress.min(ctx.now());
        connection.taken = connection.taken.min(ctx.now());
        connection.fit(ctx);
        if connection.is_counted {
            self.hosts.enter(connection.peer.ip());
        }
        if connection.is_beyond_limit.is_some() && !connection.is_counted {
            self.unidentified.push_back(id);
        }
        if let Some(admission) = &connection.admission {
            self.admissions.enter(admission, id);
        }
        let has_read_all = connection.input().is_empty();
        match &connection.phase {
            Phase::Waiting(waiting) => match waiting.outcome {
                WaitOutcome::Open => self
                    .waiting
                    .enter(waiting.wait_for, waiting.what(), id, None),
                WaitOutcome::Called | WaitOutcome::TurnedAway(_) => {
                    self.waiting.enter(WaitFor::Turn, waiting.what(), id, None);
                    self.queue_pipelined(id);
                }
            },
            Phase::EventReader(_) => drop(self.readers.insert(id)),
            Phase::Head(_) | Phase::OriginRequest(_) if !has_read_all => self.queue_pipelined(id),
            Phase::Opening
            | Phase::Head(_)
            | Phase::Payload(_)
            | Phase::Source(_)
            | Phase::Viewer(_)
            | Phase::ListResponse(_)
            | Phase::PendingCall(_)
            | Phase::OriginRequest(_)
            | Phase::PeerRequest(_)
            | Phase::AwaitingJournal
            | Phase::Lingering(_) => {}
        }
        self.queue(id);
        self.rearm(id, ctx);
        Ok(())
    }

    /// Returns the clients that other parts know.
    pub fn concerns(&self) -> impl Iterator<Item = (ConnectionId, Concern)> {
        let each = self.connections.iter();
        each.filter_map(|(id, connection)| match &connection.phase {
            Phase::Source(source) => Some((id, Concern::Source(source.stream))),
            Phase::Viewer(response) => Some((
                id,
                Concern::Viewer {
                    viewer_key: response.key(),
                    is_blocked: connection.is_blocked,
                },
            )),
            Phase::OriginRequest(origin_request) => {
                Some((id, Concern::OriginRequest(origin_request.pull)))
            }
            Phase::PendingCall(job_id) => Some((id, Concern::PendingCall(*job_id))),
            _ => None,
        })
    }
}

impl Connection {
    /// Returns the access request of the client: the kept one, or else one for `localhost` at this
    /// entry point.
    fn access_request_at(&self, entry_point: EntryPoint) -> AccessRequest {
        let caller = self.caller();
        let kept = self.access_request.as_deref().cloned();
        let request = kept.unwrap_or_else(|| AccessRequest {
            host: "localhost".to_owned(),
            names_another: true,
            ..AccessRequest::without_request(entry_point, caller.peer)
        });
        request.by(caller)
    }

    /// Corrects times that another process sent. Its unread input is read again in its turn.
    fn fit(&mut self, ctx: &Context) {
        let now = ctx.now();
        match &mut self.phase {
            Phase::Head(reader) if self.is_within_head => *reader = HeadReader::begun(),
            Phase::Source(source) => source.fit(now),
            Phase::EventReader(reader) => reader.fit(ctx),
            _ => {}
        }
    }
}

impl ClientsState {
    /// Receives the addresses that count as viewers by HLS.
    pub fn receive_addresses(&mut self, line: Line<'_>) -> Result<(), HandoverError> {
        self.addresses = line.read()?;
        Ok(())
    }

    /// Receives a connection. Adds the bytes of it that were copied before.
    pub fn receive(
        &mut self,
        line: Line<'_>,
        copies: &mut Copies,
        ctx: &Context,
    ) -> Result<(), HandoverError> {
        type Line = (Vec<(String, String)>, Copied, Connection);
        let (fields, mut input, mut connection): Line = line.read()?;
        let id = ConnectionId::from_u64(line.number);
        input.complete(copies.remove(&(line.number, CopiedPart::Input)))?;
        let output = copies.remove(&(line.number, CopiedPart::Output));
        if let Some(waiting) = &mut connection.output.0 {
            waiting.bytes.complete(output)?;
        }
        connection.input = (!input.is_empty()).then(|| Box::new(input));
        if let Some(reply) = connection.phase.reply_mut() {
            reply.fields = ctx.settings().fields_like(&fields);
        }
        self.connections.push((id, connection));
        Ok(())
    }
}

impl Settings {
    /// Returns the answer fields of these settings that are the same as the received ones, or none.
    pub fn fields_like(&self, received: &[(String, String)]) -> Fields {
        let known = self.cors.iter().map(|(_, fields)| *fields);
        let received = received
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let same = |fields: &Fields| fields.iter().copied().eq(received.clone());
        known
            .chain([VARIES, DEPRECATED])
            .find(same)
            .unwrap_or_default()
    }
}

const DEPRECATED: Fields = &[DEPRECATION];

impl Phase {
    /// Returns the form of the answer, if the answer has not begun.
    fn reply_mut(&mut self) -> Option<&mut Reply> {
        match self {
            Phase::Payload(payload) => Some(&mut payload.reply),
            Phase::Source(source) => source.reply.as_mut(),
            Phase::Viewer(response) => Some(&mut response.reply),
            Phase::Waiting(waiting) => Some(&mut waiting.reply),
            Phase::ListResponse(response) => Some(&mut response.reply),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Command};
    use crate::relay::CONNECTIONS_BEYOND_MAX;
    use crate::relay::clients::tests::connection;
    use crate::relay::handover::{self, Piece, Successor};
    use crate::relay::stage::Stage;
    use crate::stream::Outcome;
    use crate::time::Instant;

    const API: &str = "--token-server=10.0.0.0/24";
    const ORIGIN: &str = "--origin=http://10.1.0.1:8000";
    const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n";

    fn settings(options: &[&str]) -> Settings {
        match config::parse(options, []) {
            Ok(Command::Run(config)) => config.settings(100, 7, 8),
            other => panic!("{options:?}: {other:?}"),
        }
    }

    /// The state of a server, and the clients that go.
    fn told(stage: &mut Stage) -> (String, Vec<ConnectionId>) {
        while stage.relay.next_action().is_some() {}
        let mut records = Vec::new();
        let mut out = |piece: &[u8]| records.extend_from_slice(piece);
        let going = handover::hand_over(&mut stage.relay, stage.now, &mut out);
        (String::from_utf8(records).expect("text"), going)
    }

    /// Another server has heard this, and goes on; or why it does not.
    fn taken(stage: &mut Stage, options: &[&str], records: &str) -> Result<(), String> {
        let mut successor = Successor::new(settings(options), false);
        for (stream, range) in stage.relay.streams.media() {
            let bytes = stage.relay.streams.media_bytes(stream, range.start);
            let piece = Piece::Media(stream, range.start, bytes);
            successor.take(piece).expect("it fits");
        }
        let heard = successor.receive(records.as_bytes());
        let (relay, now) = heard
            .and_then(|()| successor.take_over())
            .map_err(|HandoverError(why)| why)?;
        assert_eq!(now, stage.now);
        stage.relay = relay;
        stage.relay.check();
        Ok(())
    }

    /// Another server continues with the clients that go.
    #[track_caller]
    fn hand_over(stage: &mut Stage, options: &[&str]) -> Vec<ConnectionId> {
        let (records, going) = told(stage);
        assert_eq!(taken(stage, options, &records), Ok(()));
        going
    }

    /// The line of a connection, or of something else.
    fn line<'a>(records: &'a str, name: &str, number: u64) -> &'a str {
        let front = format!("{name} {number} ");
        let mut lines = records.lines();
        let found = lines.find_map(|line| line.strip_prefix(&front));
        found.unwrap_or_else(|| panic!("no {front}in {records}"))
    }

    fn api(line: &str) -> String {
        format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n")
    }

    /// A client in any phase does not notice the hand-over.
    #[test]
    fn each_client_goes_on_where_it_was() {
        let options = [API, "--wait=60", "--head-time=9", "--cors=http://a.example"];
        let mut stage = Stage::new(&options);
        stage
            .relay
            .set_rtp("10.9.0.1:5004".parse().expect("an address"));
        for name in ["s", "w"] {
            stage.client(&api(&format!(
                "POST /api/add-token?type=http&sessionid={name}"
            )));
        }
        let half = stage.client("GET /healthz HT");
        let payload = stage.client(
            &api("GET /api/list-streams").replace("\r\n\r\n", "\r\nContent-Length: 5\r\n\r\nab"),
        );
        let source = stage.client(
            "PUT /stream/s HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
        );
        let viewer = stage.viewer("s");
        let waiter =
            stage.client("GET /stream/w HTTP/1.1\r\nHost: h\r\nOrigin: http://a.example\r\n\r\n");
        let reader = stage.client(&api("GET /api/events?sessionid=s"));
        (0..8).for_each(|_| stage.settle());
        let names = "POST /api/add-token?type=rtp-udp&sessionid=u&udp-clients=a.example:5004";
        let pending_call = stage.client(&api(names));
        let blocked = stage.client("");
        stage.relay.served(blocked, Outcome::Blocked, stage.now);
        stage.send(blocked, &HEALTH.repeat(3));
        let had = stage.text(reader).len();
        stage.jobs.clear();
        stage.now = stage.now + std::time::Duration::from_secs(4);
        let going = hand_over(&mut stage, &options);
        for id in [
            half,
            payload,
            source,
            viewer,
            waiter,
            reader,
            pending_call,
            blocked,
        ] {
            assert!(going.contains(&id) && stage.relay.clients.has(id), "{id:?}");
        }
        stage
            .relay
            .set_rtp("10.9.0.1:5004".parse().expect("an address"));
        stage.settle();
        stage.send(half, "TP/1.1\r\nHost: h\r\n\r\n");
        stage.assert_status(half, 200);
        stage.send(payload, "cde");
        (0..8).for_each(|_| stage.settle());
        stage.assert_status(payload, 200);
        stage.send(source, "c\r\n0\r\n\r\n");
        assert!(
            stage.text(source).contains("\"bytes_received\":3"),
            "{}",
            stage.text(source)
        );
        assert_eq!(stage.content(viewer), ("abc".to_owned(), true));
        let other =
            stage.client("PUT /stream/w HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nde");
        stage.assert_status(other, 200);
        assert_eq!(stage.content(waiter), ("de".to_owned(), true));
        let allows = "Access-Control-Allow-Origin: http://a.example\r\n";
        assert!(
            stage.text(waiter).contains(allows),
            "{}",
            stage.text(waiter)
        );
        (0..8).for_each(|_| stage.settle());
        assert!(stage.text(reader)[had..].contains("event: stream-ends"));
        assert!(!stage.text(reader)[had..].contains("event: missed"));
        let (job_id, _) = stage.jobs.remove(0);
        let found = vec![Ok(vec!["10.0.0.9:5004".parse().expect("an address")])];
        stage
            .relay
            .job_finished(job_id, crate::relay::Done::Resolved(found), stage.now);
        stage.settle();
        stage.assert_status(pending_call, 201);
        stage.relay.unblocked(blocked);
        stage.settle();
        assert_eq!(stage.text(blocked).matches("HTTP/1.1 200").count(), 3);
    }

    /// What was sent ahead and is not read is read there, and a request's time goes on.
    #[test]
    fn what_was_sent_ahead_is_read_on() {
        let options = ["--head-time=9", "--keep-alive-time=60"];
        let mut stage = Stage::new(&options);
        let [many, half, none] = [(); 3].map(|()| stage.client(""));
        stage
            .relay
            .received(many, HEALTH.repeat(9).as_bytes(), stage.now);
        stage
            .relay
            .received(half, format!("{HEALTH}GET /").as_bytes(), stage.now);
        while stage.write_next() {}
        assert_eq!(stage.text(many).matches("HTTP/1.1 200").count(), 2);
        stage.now = stage.now + std::time::Duration::from_secs(4);
        hand_over(&mut stage, &options);
        let ahead = std::iter::from_fn(|| stage.relay.clients.next_pipelined());
        assert_eq!(ahead.map(|(id, _)| id).collect::<Vec<_>>(), [many, half]);
        for id in [many, half] {
            stage.relay.clients.queue_pipelined(id);
        }
        stage.settle();
        assert_eq!(stage.text(many).matches("HTTP/1.1 200").count(), 9);
        stage.wait_seconds(4);
        assert_eq!(stage.text(half).matches("HTTP/1.1").count(), 1);
        stage.wait_seconds(1);
        assert!(stage.text(half).contains("HTTP/1.1 408 "));
        assert!(!stage.closed.contains(&none));
    }

    /// While it takes none of its answers, of which there are many, the time of its next request
    /// does not run.
    #[test]
    fn who_takes_no_answers_is_not_hurried_to_ask_on() {
        let options = ["--head-time=9", "--viewer-stall-time=100"];
        let mut alone = Stage::new(&[]);
        let id = alone.client(HEALTH);
        let answers = (16 * 1024_usize).div_ceil(alone.text(id).len());
        let mut stage = Stage::new(&options);
        let id = stage.client("");
        stage.relay.served(id, Outcome::Blocked, stage.now);
        stage.send(id, &format!("{}GET /", HEALTH.repeat(answers)));
        hand_over(&mut stage, &options);
        stage.settle();
        stage.wait_seconds(50);
        stage.relay.unblocked(id);
        stage.settle();
        let text = stage.text(id);
        assert_eq!(text.matches("HTTP/1.1 200").count(), answers);
        assert!(!text.contains("HTTP/1.1 408"));
        stage.wait_seconds(9);
        assert!(stage.text(id).contains("HTTP/1.1 408"));
    }

    /// An origin's answer, too, and what it is if nothing more comes.
    #[test]
    fn an_origin_is_asked_on() {
        let options = [ORIGIN];
        for cut in [0, 9, 40] {
            let mut stage = Stage::new(&options);
            let viewer = stage.viewer("s");
            let (origin, _, _) = stage.call();
            let answer =
                "HTTP/1.1 200 OK\r\nContent-Type: video/x\r\nContent-Length: 5\r\n\r\nmedia";
            stage.send(origin, &answer[..cut]);
            let going = hand_over(&mut stage, &options);
            assert!(going.contains(&origin) && going.contains(&viewer));
            stage.settle();
            stage.send(origin, &answer[cut..]);
            stage.assert_status(viewer, 200);
            assert_eq!(stage.content(viewer), ("media".to_owned(), true), "{cut}");
        }
    }

    /// A client that only this process can answer stays.
    #[test]
    fn who_waits_for_what_is_not_told_stays() {
        let options = [API, "--peer=http://10.2.0.1:8000"];
        let mut stage = Stage::new(&options);
        stage
            .relay
            .set_rtp("10.9.0.1:5004".parse().expect("an address"));
        let names = "POST /api/add-token?type=rtp-udp&sessionid=u&udp-clients=a.example:5004";
        let (goes, stays) = (
            stage.client(&api(names)),
            stage.client(&api("GET /api/list-tokens")),
        );
        let peer = stage.calls[0].0;
        let (_, going) = told(&mut stage);
        let seen = [goes, stays, peer].map(|id| going.contains(&id));
        assert_eq!(seen, [true, false, false]);
        // Those who have gone are nobody's any more, and nobody hears that they left.
        handover::let_go(&mut stage.relay, &going);
        assert_eq!(Vec::from_iter(stage.relay.clients.ids()), [stays, peer]);
    }

    /// A line is left out, or is about somebody else.
    fn changed(records: &str, from: &str, to: Option<&str>) -> String {
        let mut lines: Vec<&str> = records.lines().collect();
        let end = lines.pop().expect("an end");
        let place = lines
            .iter()
            .position(|line| *line == from)
            .expect("the line");
        match to {
            Some(to) => lines[place] = to,
            None => drop(lines.remove(place)),
        }
        let count: Vec<&str> = end.split(' ').collect();
        let number: usize = count[1].parse().expect("a number");
        let left_out = usize::from(to.is_none());
        format!("{}\nend {} null\n", lines.join("\n"), number - left_out)
    }

    /// What a client is and what others know of it must agree.
    #[test]
    fn a_client_in_a_place_that_is_not_its_own_is_refused() {
        let options = [API, ORIGIN, "--origin-tokens"];
        let mut stage = Stage::new(&options);
        stage
            .relay
            .set_rtp("10.9.0.1:5004".parse().expect("an address"));
        stage.client(&api("POST /api/add-token?type=http&sessionid=s"));
        let source = stage.client("PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n");
        let viewer = stage.viewer("s");
        stage.viewer("f");
        let (origin, _, _) = stage.call();
        let names = "POST /api/add-token?type=rtp-udp&sessionid=u&udp-clients=a.example:5004";
        let pending_call = stage.client(&api(names));
        let (idle, more) = (stage.client(""), stage.client(""));
        let (records, _) = told(&mut stage);
        let of = |id: ConnectionId| line(&records, "connection", id.to_u64()).to_owned();
        let full = |id: ConnectionId, value: &str| format!("connection {} {value}", id.to_u64());
        let job_id = {
            let line = records
                .lines()
                .find(|line| line.starts_with("errand "))
                .expect("an errand");
            line.to_owned()
        };
        // Another client is in that slot.
        for whose in [source, origin, viewer] {
            let told = changed(
                &records,
                &full(idle, &of(idle)),
                Some(&full(idle, &of(whose))),
            );
            assert!(
                taken(&mut stage, &options, &told).is_err(),
                "{whose:?} twice"
            );
            let told = changed(
                &records,
                &full(whose, &of(whose)),
                Some(&full(whose, &of(more))),
            );
            assert!(
                taken(&mut stage, &options, &told).is_err(),
                "{whose:?} is not there"
            );
        }
        let told = changed(&records, &job_id, None);
        let refused = taken(&mut stage, &options, &told);
        assert!(refused.is_err(), "{pending_call:?} waits for nothing");
        let [of, to] = [pending_call, more].map(|id| format!("[{},", id.to_u64()));
        let told = changed(&records, &job_id, Some(&job_id.replacen(&of, &to, 1)));
        assert!(taken(&mut stage, &options, &told).is_err(), "another waits");
        assert_eq!(taken(&mut stage, &options, &records), Ok(()));
    }

    /// A body, or what it is answered with, that cannot be is refused in words.
    #[test]
    fn a_client_in_no_state_that_can_be_is_refused() {
        let mut stage = Stage::new(&[API]);
        stage.client(&api("POST /api/add-token?type=http&sessionid=s"));
        stage.client("PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc");
        stage.client(&api("GET /healthz").replace("\r\n\r\n", "\r\nContent-Length: 7\r\n\r\n"));
        let blocked = stage.client("");
        stage.relay.served(blocked, Outcome::Blocked, stage.now);
        stage.send(blocked, HEALTH);
        let (records, _) = told(&mut stage);
        for (from, to, words) in [
            ("\"left\":6", "\"left\":0", "expected a nonzero u64"),
            ("\"left\":7", "\"left\":0", "expected a nonzero u64"),
            (
                "\"sent\":0",
                "\"sent\":99999",
                "more has been sent than there is",
            ),
        ] {
            assert!(records.contains(from), "{from}: {records}");
            let told = records.replace(from, to);
            let why = taken(&mut stage, &[API], &told).expect_err(words);
            assert!(why.contains(words), "{why}");
        }
        assert_eq!(taken(&mut stage, &[API], &records), Ok(()));
    }

    /// An id never names a later client, in either process.
    #[test]
    fn ids_count_on() {
        let mut stage = Stage::new(&[]);
        let gone: Vec<ConnectionId> = (0..6).map(|_| stage.client("")).collect();
        let stays = stage.client("");
        gone.iter().for_each(|id| stage.lose(*id));
        hand_over(&mut stage, &[]);
        for _ in 0..9 {
            let new = stage.client("");
            assert!(new > stays && gone.iter().all(|id| new > *id), "{new:?}");
        }
        assert!(stage.relay.clients.has(stays));
    }

    /// Over which time its rate is judged is that of its source here.
    #[test]
    fn a_source_that_was_told_is_let_go_if_it_is_too_slow() {
        let options = ["--source-idle-time=9", "--body-rate=1000"];
        let mut stage = Stage::new(&options);
        let source =
            stage.client("PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 99\r\n\r\n");
        let (records, _) = told(&mut stage);
        let began = "\"window_began\":0}";
        assert!(records.contains(began), "{records}");
        let ahead = records.replace(began, "\"window_began\":5000000000000}");
        assert_eq!(taken(&mut stage, &options, &ahead), Ok(()));
        for _ in 0..3 {
            stage.send(source, "x");
            assert_eq!(stage.text(source), "");
            stage.wait_seconds(3);
        }
        assert!(
            stage
                .text(source)
                .contains("the source was slower than --body-rate")
        );
    }

    /// As many as may be here at once, beyond the limit, too.
    #[test]
    fn no_more_clients_are_taken_than_there_is_room_for() {
        let most = 10 + CONNECTIONS_BEYOND_MAX;
        for (clients, fits) in [(most, true), (most + 1, false)] {
            let mut stage = Stage::new(&["--connections=100"]);
            for _ in 0..clients {
                stage.client("");
            }
            let (records, _) = told(&mut stage);
            let taken = taken(&mut stage, &["--connections=10"], &records);
            assert_eq!(taken.is_ok(), fits, "{clients}");
        }
    }

    /// Connections beyond the limit whose client is unknown are closed first, also after a
    /// hand-over.
    #[test]
    fn who_is_nobody_yet_goes_when_another_needs_the_place() {
        let options = [
            "--connections=10",
            "--proxy-protocol=10.5.0.1",
            "--token-server=10.0.0.1",
        ];
        let mut stage = Stage::new(&options);
        let peer = |number: u16| std::net::SocketAddr::from(([10, 5, 0, 1], number));
        let mut ids = Vec::new();
        for number in 0..10 + CONNECTIONS_BEYOND_MAX as u16 {
            ids.push(stage.relay.accepted(peer(number), stage.now).expect("room"));
        }
        stage.send(ids[10], "PROXY TCP4 10.0.0.1 192.0.2.1 1 80\r\n");
        hand_over(&mut stage, &options);
        stage.settle();
        for (number, gone) in [(100, ids[11]), (101, ids[12])] {
            assert!(stage.relay.accepted(peer(number), stage.now).is_some());
            stage.settle();
            assert!(stage.closed.contains(&gone), "{number}: {:?}", stage.closed);
        }
        assert_eq!(stage.closed.len(), 2);
    }

    /// No received time is in the future.
    #[test]
    fn what_was_told_of_times_is_fitted_into_this_time() {
        let mut stage = Stage::new(&[API, "--source-idle-time=9", "--body-rate=0"]);
        stage.client(&api("POST /api/add-token?type=http&sessionid=s"));
        let source =
            stage.client("PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc");
        let reader = stage.client(&api("GET /api/events"));
        (0..8).for_each(|_| stage.settle());
        let (records, _) = told(&mut stage);
        let times = ["progress", "taken", "window_began", "last_output"].map(|time| {
            let ahead = format!("\"{time}\":5000000000000");
            (format!("\"{time}\":0"), ahead)
        });
        let ahead = |line: &str| {
            let replaced =
                |line: String, (zero, ahead): &(String, String)| line.replace(zero, ahead);
            times.iter().fold(line.to_owned(), replaced)
        };
        let mut told: Vec<String> = Vec::new();
        for line in records.lines() {
            let is_client = line.starts_with("connection ");
            let next = format!("\"next\":{}", stage.relay.ctx.events.next());
            told.push(match is_client {
                true => ahead(line).replace(&next, "\"next\":99999"),
                false => line.to_owned(),
            });
        }
        let records = format!("{}\n", told.join("\n"));
        for (_, ahead) in &times {
            assert!(records.contains(ahead), "{ahead}: {records}");
        }
        assert!(records.contains("\"next\":99999"), "{records}");
        assert_eq!(
            taken(
                &mut stage,
                &[API, "--source-idle-time=9", "--body-rate=0"],
                &records
            ),
            Ok(())
        );
        for id in [source, reader] {
            let connection = connection(&stage, id);
            assert_eq!(
                (connection.progress, connection.taken),
                (Instant::START, Instant::START)
            );
        }
        let had = stage.text(reader).len();
        stage.wait_seconds(9);
        stage.assert_status(source, 408);
        (0..8).for_each(|_| stage.settle());
        assert!(
            stage.text(reader)[had..].contains("event: stream-ends"),
            "{}",
            stage.text(reader)
        );
        let had = stage.text(reader).len();
        stage.wait_seconds(15);
        assert_eq!(&stage.text(reader)[had..], ": nothing has happened\n\n");
    }

    /// What an answer carries because of its path is found among what these settings have.
    #[test]
    fn what_answers_carry_is_what_these_settings_say_of_it() {
        let settings = settings(&["--cors=http://a.example", "--cors=http://b.example"]);
        let pairs = |fields: Fields| -> Vec<(String, String)> {
            let owned = fields
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            owned.collect()
        };
        let (a, b) = (
            settings.cors("http://a.example"),
            settings.cors("http://b.example"),
        );
        assert!(!a.is_empty() && a != b);
        for fields in [a, b, VARIES, DEPRECATED, &[]] {
            assert_eq!(settings.fields_like(&pairs(fields)), fields);
        }
        for other in [&[("X", "y")], &[("Vary", "other")]] {
            assert_eq!(settings.fields_like(&pairs(other)), &[]);
        }
    }
}
