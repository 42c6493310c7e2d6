//! The hand-over between two cores: the old process's core sends its state to the core of the new
//! process, and no client notices.
//!
//! ```text
//!   the old one, which serves                       the new one
//!   Copying::begin      once, when a successor comes
//!   Copying::next       ── pieces ────────────────▶ Successor::take       again and again
//!   (it stops)
//!   is_quiet?           until no change is being written to the disk
//!   Copying::list, next ── the newest pieces ─────▶ Successor::take       until there is none
//!   hand_over           ── records ───────────────▶ Successor::receive    as they are made
//!                                                   Successor::take_over  a Relay and its time
//!                       ◀─ it has everything ──────
//!   let_go, and on until the other clients have left  (it serves)
//! ```
//!
//! Pieces are the bytes of streams, and bytes that a client or a source can make large. Each piece
//! has an offset. If it does not follow the piece before it, it replaces the earlier bytes.
//!
//! Writing the state changes nothing. So the old process can continue after [`hand_over`] if the new
//! one does not take over. Between [`hand_over`] and [`let_go`] it must not pass input to its core.
//!
//! The new core uses the same ids. Its clock continues that of the old one: the new shell's clock
//! begins with the time that [`Successor::take_over`] returns. The shell must look at each received
//! connection once, as at a new one: for bytes to read ([`Relay::received`]) and for room to write
//! ([`Relay::unblocked`]). It also makes the calls of a start: [`Relay::set_rtp`],
//! [`Relay::set_own_addresses`], and the hour.
//!
//! Connections that [`hand_over`] does not return stay with the old process until it has served
//! them: calls that wait for other relays' lists, and for a change that is being written to the disk
//! (none if the core [`is_quiet`]). Connections by RTMP are closed by [`let_go`]. Their sources are
//! lost for the new process, and publish there again.

use std::collections::HashMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::clients::{Clients, ClientsState, Concern};
use super::context::Context;
use super::fetch::{Fetch, PullsState};
use super::grants::Grants;
use super::lists::{Lists, PendingCallState, pending_call};
use super::old_options::OldOptions;
use super::rtp_in::RtpIn;
use super::streams::{StreamSource, Streams, StreamsState};
use super::viewer_id::ListedId;
use super::{CONNECTIONS_BEYOND_MAX, ConnectionId, Limits, Relay, Settings, StreamId};
use crate::copied::{COPIED_MIN, Copied, Copies};
pub use crate::copied::{CopiedPart, CopyName};
use crate::gate::SessionId;
use crate::handover::{HandoverError, Line, Reader, Writer, must};
use crate::time::Instant;
use crate::token_bucket::TokenBucket;

/// Largest copy in bytes, beside a stream's buffer. Heads, pipelined requests and answers are
/// smaller, and what a splicer holds is no longer than the buffer.
const COPY_BYTES_MAX: usize = 16 * 1024 * 1024;

fn copied(relay: &mut Relay, (id, part): CopyName) -> Option<&mut Copied> {
    let client = ConnectionId::from_u64(id);
    match part {
        CopiedPart::Input | CopiedPart::Output => relay.clients.copied(client, part),
        CopiedPart::UnitTail => {
            let (viewer_key, _) = relay.clients.viewer(client)?;
            relay.streams.own_bytes(viewer_key)
        }
        _ => relay.streams.copied(StreamId::from_u64(id), part),
    }
}

fn copy_names(relay: &Relay) -> Vec<CopyName> {
    let names = |id: u64, parts: &'static [CopiedPart]| parts.iter().map(move |part| (id, *part));
    let clients = connections(relay).flat_map(|id| names(id.to_u64(), &CopiedPart::OF_CLIENT));
    let streams = relay.streams.media();
    let streams = streams.flat_map(|(id, _)| names(id.to_u64(), &CopiedPart::OF_STREAM));
    clients.chain(streams).collect()
}

fn bytes_left(relay: &mut Relay, name: CopyName) -> usize {
    copied(relay, name).map_or(0, |copied| copied.bytes_left())
}

/// A piece that is copied while the old process serves.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// Bytes of a stream, and their offset.
    Media(StreamId, u64, &'a [u8]),
    /// The stream is no more.
    Gone(StreamId),
    /// Bytes that a client or a source has made large, and their offset.
    Copy(CopyName, usize, &'a [u8]),
}

/// What a successor has of the bytes that are copied while this process serves.
#[derive(Default)]
pub struct Copying {
    /// How far each stream has been copied.
    streams: HashMap<StreamId, u64>,
    /// The stream of the newest piece.
    newest: Option<StreamId>,
    /// Names of bytes that clients or sources have made large. They may have been copied since.
    large: Vec<CopyName>,
}

impl Copying {
    /// Begins: the successor has nothing yet.
    pub fn begin(relay: &mut Relay) -> Copying {
        for name in copy_names(relay) {
            if let Some(bytes) = copied(relay, name) {
                bytes.forget();
            }
        }
        let mut copying = Copying::default();
        copying.list(relay);
        copying
    }

    /// Lists again what clients and sources have made large.
    pub fn list(&mut self, relay: &mut Relay) {
        self.large = copy_names(relay);
        self.large.retain(|name| bytes_left(relay, *name) > 0);
    }

    /// Returns how many bytes are left to copy.
    pub fn left(&self, relay: &mut Relay) -> u64 {
        let large = self.large.iter();
        let large: usize = large.map(|name| bytes_left(relay, *name)).sum();
        let streams = relay.streams.media();
        let media = streams.map(|(id, range)| range.end - self.end_of(id).max(range.start));
        media.sum::<u64>() + large as u64
    }

    fn end_of(&self, id: StreamId) -> u64 {
        self.streams.get(&id).copied().unwrap_or(0)
    }

    /// Returns the next piece, of at most `bytes_max` bytes. Streams take turns, so a fast source does
    /// not keep others from being copied. The successor frees the memory of streams that are no more
    /// before it gets more media.
    pub fn next<'a>(&mut self, relay: &'a mut Relay, bytes_max: usize) -> Option<Piece<'a>> {
        // Few bytes are sent with all else.
        let mut is_small = |name: &mut CopyName| bytes_left(relay, *name) < COPIED_MIN;
        while self.large.pop_if(&mut is_small).is_some() {}
        if let Some(name) = self.large.last() {
            let (from, bytes) = copied(relay, *name)?.next(bytes_max)?;
            return Some(Piece::Copy(*name, from, bytes));
        }
        let streams = &relay.streams;
        if let Some(gone) = self.streams.keys().find(|id| !streams.has(**id)).copied() {
            self.streams.remove(&gone);
            return Some(Piece::Gone(gone));
        }
        let behind = streams
            .media()
            .skip_while(|(id, _)| Some(*id) != self.newest);
        for (id, range) in behind.skip(1).chain(streams.media()) {
            let from = self.end_of(id).max(range.start);
            let bytes = streams.media_bytes(id, from);
            if !bytes.is_empty() || !self.streams.contains_key(&id) {
                let bytes = &bytes[..bytes.len().min(bytes_max)];
                self.streams.insert(id, from + bytes.len() as u64);
                self.newest = Some(id);
                return Some(Piece::Media(id, from, bytes));
            }
        }
        None
    }
}

/// Returns whether no change is being written to the disk.
pub fn is_quiet(relay: &Relay) -> bool {
    relay.grants.is_quiet()
}

/// Passes all streams the rest of their splicers' output, before this process stops.
pub fn settle(relay: &mut Relay, now: Instant) {
    relay.ctx.set_now(now);
    while relay.streams.pass_spliced(&mut relay.ctx) {}
    relay.dispatch_events();
}

/// Writes the state, except the bytes of streams. `out` takes it in pieces. Returns the connections that
/// the successor gets. The shell must have carried out all actions ([`Relay::next_action`]).
pub fn hand_over(relay: &mut Relay, now: Instant, out: &mut dyn FnMut(&[u8])) -> Vec<ConnectionId> {
    relay.ctx.set_now(now);
    let mut writer = Writer::new(out);
    relay.ctx.hand_over(&mut writer);
    let ids = Ids {
        connections: relay.clients.next_id(),
        streams: relay.streams.next_ids(),
        pulls: relay.fetch.next_id(),
        buckets: relay.streams.buckets.state(),
        numbers: relay.streams.numbers.state(),
    };
    writer.put("ids", 0, &ids);
    relay.grants.hand_over(&mut writer);
    relay.streams.hand_over(&mut writer);
    relay.fetch.hand_over(&mut writer);
    relay.lists.hand_over(&mut writer);
    let is_job_sent = |job_id| relay.lists.resolves(job_id);
    let going = relay.clients.hand_over(is_job_sent, &mut writer);
    writer.finish();
    going
}

/// Returns the ids of all connections.
pub fn connections(relay: &Relay) -> impl Iterator<Item = ConnectionId> {
    relay.clients.ids()
}

/// Ends the hand-over: a successor has these connections and all streams. This process answers only the
/// open requests of the connections that stay. The shell closes its descriptor of each other one
/// ([`super::Action`]), without a shutdown of the connection.
pub fn let_go(relay: &mut Relay, going: &[ConnectionId]) {
    let ctx = &mut relay.ctx;
    // The successor has the tokens and the streams. A connection that stays gets its answer, and no further
    // request is read: its changes would be lost.
    (ctx.is_closing, ctx.is_replaced) = (true, true);
    relay.clients.let_go(going, ctx);
    relay.streams.let_go(ctx);
    relay.clients.close_rtmp(ctx);
    relay.fetch.let_go(ctx);
    relay.rtp_in.let_go();
}

/// What later ids and numbers continue from.
#[derive(Serialize, Deserialize)]
struct Ids {
    connections: u32,
    streams: (u32, u64),
    pulls: (u32, u64),
    /// What sessions without a source have drawn by `max-bitrate`.
    buckets: Vec<(SessionId, TokenBucket)>,
    /// How far the segment numbers that a session has used are ahead of their clock.
    numbers: Vec<(SessionId, TokenBucket)>,
}

/// The received part of the state of a server that this one is to replace.
pub struct Successor {
    reader: Reader,
    state: RelayState,
}

/// The received state, line by line.
struct RelayState {
    ctx: Context,
    /// Options of the other server.
    old: OldOptions,
    ids: Option<Ids>,
    grants: Grants,
    copies: Copies,
    clients: ClientsState,
    streams: StreamsState,
    fetch: Fetch,
    pulls: PullsState,
    pending_calls: Vec<PendingCallState>,
    /// This server has a token file.
    is_kept: bool,
}

impl Limits {
    /// Returns the largest number of connections at once, with those beyond `--connections`.
    pub fn places_max(&self) -> usize {
        self.connections_max + CONNECTIONS_BEYOND_MAX
    }

    /// Returns the longest line of a hand-over, in bytes. The longest one is a stream's. A byte of
    /// text takes at most two, and a number with its name at most six times its own bytes.
    fn state_line_bytes_max(&self) -> usize {
        let beside = self.stream.memory_beside_buffer_max() + 4 * 1024 * 1024;
        self.stream
            .buffer_bytes
            .saturating_add(beside)
            .saturating_mul(6)
    }
}

impl Successor {
    /// Begins to receive a state. `is_kept`: this server has a token file.
    pub fn new(settings: Settings, is_kept: bool) -> Successor {
        let streams = StreamsState::new(&settings.limits);
        let line_bytes_max = settings.limits.state_line_bytes_max();
        let mut ctx = Context::new(settings);
        let state = RelayState {
            grants: Grants::new(ctx.settings()),
            fetch: Fetch::new(&mut ctx),
            pulls: PullsState::default(),
            pending_calls: Vec::new(),
            ctx,
            old: OldOptions::default(),
            ids: None,
            copies: Copies::new(),
            clients: ClientsState::default(),
            streams,
            is_kept,
        };
        Successor {
            reader: Reader::new(line_bytes_max),
            state,
        }
    }

    /// Takes a piece. Its bytes continue the received ones, or replace them.
    pub fn take(&mut self, piece: Piece<'_>) -> Result<(), HandoverError> {
        let limits = &self.state.ctx.settings().limits;
        let (streams, copies) = (&mut self.state.streams, &mut self.state.copies);
        match piece {
            Piece::Media(stream, from, bytes) => {
                streams.receive_media((stream, from), bytes, limits)
            }
            Piece::Gone(stream) => {
                streams.forget_media(stream);
                for part in CopiedPart::OF_STREAM {
                    copies.remove(&(stream.to_u64(), part));
                }
                Ok(())
            }
            Piece::Copy(name, from, bytes) => {
                let copies_max = CopiedPart::OF_CLIENT.len() * limits.places_max()
                    + CopiedPart::OF_STREAM.len() * limits.streams_at_once_max();
                let bytes_max = COPY_BYTES_MAX.saturating_add(limits.stream.buffer_bytes);
                let copy = copies.entry(name).or_default();
                must(from <= copy.len(), || {
                    format!("{name:?}: a part of the copied bytes is missing")
                })?;
                copy.truncate(from);
                copy.extend_from_slice(bytes);
                let is_fit = copy.len() <= bytes_max && copies.len() <= copies_max;
                must(is_fit, || {
                    format!("{name:?}: more was copied than is kept here")
                })
            }
        }
    }

    /// Takes a piece of the records.
    pub fn receive(&mut self, records: &[u8]) -> Result<(), HandoverError> {
        self.reader
            .receive(records, |line| self.state.receive(line))
    }

    /// Returns the core and the time at which it continues. An error: the state is incomplete or impossible.
    pub fn take_over(self) -> Result<(Relay, Instant), HandoverError> {
        self.reader.finish()?;
        let now = self.state.ctx.now();
        Ok((self.state.relay()?, now))
    }
}

impl RelayState {
    fn receive(&mut self, line: Line<'_>) -> Result<(), HandoverError> {
        match line.name {
            "context" => self.ctx.receive(line).map(|old| self.old = old),
            "counts" => self.ctx.receive_counts(line),
            "events" => line.read().map(|events| self.ctx.events = events),
            "ids" => line.read().map(|ids| self.ids = Some(ids)),
            "grants" => self.grants.receive(line, self.is_kept, &self.ctx),
            "token" | "tokens" => self.grants.receive_token(line),
            "blocks" | "barred" => self.grants.receive_blocks(line, &self.ctx),
            "pull" => self.pulls.receive(line),
            "origins" if self.old.had_other_origins(self.ctx.settings()) => Ok(()),
            "origins" => self.fetch.receive(line),
            "errand" => {
                let call = pending_call(line, &self.ctx);
                call.map(|call| self.pending_calls.push(call))
            }
            "stream" => self.streams.receive(line, &mut self.copies),
            "viewer" => self.streams.receive_viewer(line, &mut self.copies),
            "header" => self.streams.receive_header(line),
            "remuxer" => self.streams.receive_remuxer(line),
            "hls-addresses" => self.clients.receive_addresses(line),
            "connection" => self.clients.receive(line, &mut self.copies, &self.ctx),
            name => Err(HandoverError(format!(
                "'{name:.32}' is nothing that is known here"
            ))),
        }
    }

    /// Returns the core, if all parts agree.
    fn relay(mut self) -> Result<Relay, HandoverError> {
        let ids = self.ids.ok_or_else(|| HandoverError("no ids".to_owned()))?;
        let clients = Clients::take_over(self.clients, ids.connections, &mut self.ctx)?;
        let (mut streams, invalid) = Streams::take_over(self.streams, ids.streams, &mut self.ctx)?;
        streams.buckets.take_over(ids.buckets, self.ctx.now());
        streams.numbers.take_over(ids.numbers, self.ctx.now());
        // The predecessor may not have written the time.
        self.grants.owe_time(&mut self.ctx);
        let has_other_origins = self.old.had_other_origins(self.ctx.settings());
        self.fetch
            .take_over(self.pulls, ids.pulls, has_other_origins, &mut self.ctx)?;
        let mut relay = Relay {
            clients,
            streams,
            grants: self.grants,
            fetch: self.fetch,
            lists: Lists::default(),
            rtp_in: RtpIn::default(),
            ctx: self.ctx,
        };
        for (id, reply, add) in self.pending_calls {
            let ctx = &mut relay.ctx;
            let job_id = relay.lists.resolve(id, reply, add, ctx);
            relay.clients.await_job(id, job_id, ctx);
        }
        let sources: Vec<(StreamId, StreamSource)> = relay.streams.sources().collect();
        for (id, source) in sources {
            match source {
                StreamSource::Rtp(address) => relay.rtp_in.set_source(address, id),
                // Its connection stays behind.
                StreamSource::Http(_) if relay.streams.is_by_rtmp(id) => {
                    let (reason, ctx) = ("the connection broke", &mut relay.ctx);
                    relay.streams.source_lost(id, source, reason, ctx);
                }
                _ => {}
            }
            relay.limit_source(id);
        }
        relay.dispatch_events();
        agree(&mut relay)?;
        relay.streams.end_invalid(invalid, &mut relay.ctx);
        relay.dispatch_events();
        relay.readmit(&self.old);
        Ok(relay)
    }
}

/// Checks that the parts agree on clients, streams, pulls and calls. Each client must be known to the part
/// that it names. The numbers must be equal, so no part knows a client that is not there.
fn agree(relay: &mut Relay) -> Result<(), HandoverError> {
    let (mut viewers, mut sources, mut origin_requests, mut calls) = (0, 0, 0, 0);
    for (id, concern) in relay.clients.concerns() {
        let is_so = match concern {
            Concern::Source(stream) => {
                sources += 1;
                relay.streams.has_as_source(stream, StreamSource::Http(id))
            }
            Concern::OriginRequest(pull) => {
                origin_requests += 1;
                relay.fetch.is_requested_by(pull, id)
            }
            Concern::PendingCall(job_id) => {
                calls += 1;
                relay.lists.resolves(job_id)
            }
            Concern::Viewer {
                viewer_key,
                is_blocked,
            } => {
                viewers += 1;
                if is_blocked {
                    relay.streams.set_blocked(viewer_key);
                }
                relay.streams.viewer_at(viewer_key, &relay.ctx) == Some(id)
            }
        };
        must(is_so, || format!("{id:?} is in a place that is another's"))?;
    }
    for (pull, stream) in relay.fetch.running() {
        let its = relay.streams.source_of(stream).map(|(_, pull)| pull);
        must(its == Some(Some(pull)), || {
            format!("pull {pull:?} is another's")
        })?;
    }
    let all_sources = relay.streams.sources();
    let by_http = all_sources.filter(|(_, source)| source.connection().is_some());
    let known = (
        relay.streams.viewers_in_all(),
        by_http.count(),
        relay.fetch.origin_requests(),
        relay.lists.resolving(),
    );
    must((viewers, sources, origin_requests, calls) == known, || {
        "a viewer, a source, an origin or a call is not there".to_owned()
    })
}

impl<'de> Deserialize<'de> for ListedId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ListedId, D::Error> {
        let text = String::deserialize(deserializer)?;
        ListedId::of_text(&text).ok_or_else(|| Error::custom("no viewer's id"))
    }
}

#[cfg(test)]
mod tests;
