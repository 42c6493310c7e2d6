//! Streams that have lost their source and still go out: to viewers that lag, and to UDP clients at
//! the pace of the stream's clock.
//!
//! They are listed, aborted and revoked like streams that run. Both count for `--streams`; of one
//! session at most [`PER_SESSION_MAX`] drain. A publisher always gets in: if there is no place for
//! its stream, the oldest draining stream is cut off, of its own session if there is one.
//!
//! The output to UDP clients ends after the time that its bytes are worth ([`drain_time`]), or when
//! the session's next source arrives. So of one session only the stream that ended last still has
//! output for UDP clients. The others have viewers only.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::Streams;
use crate::gate::SessionId;
use crate::relay::context::Context;
use crate::relay::event::Event;
use crate::relay::{ConnectionId, Level, StreamId};
use crate::stream::End;

/// The streams that drain, by serial number.
#[derive(Default)]
pub(super) struct Draining {
    all: BTreeMap<u64, StreamId>,
    /// The same streams by session. No inner map is empty.
    by_session: HashMap<SessionId, BTreeMap<u64, StreamId>>,
}

/// Streams of one session that drain, at most. Viewers that are this many uploads behind have lost
/// touch, and a session with endless uploads must not become expensive.
const PER_SESSION_MAX: usize = 16;
/// The lowest assumed rate in bytes a second: speech in MPEG-TS is faster.
const DRAIN_BYTES_PER_SECOND_MIN: u64 = 4_000;
/// Shortest time for the rest of a stream, even of a few packets.
const DRAIN_TIME_MIN: Duration = Duration::from_secs(60);

/// Returns how long these bytes are sent to UDP clients at most, however slow their clock is.
pub(super) fn drain_time(bytes: u64) -> Duration {
    DRAIN_TIME_MIN + Duration::from_secs(bytes / DRAIN_BYTES_PER_SECOND_MIN)
}

impl Draining {
    /// Adds a stream that has lost its source.
    pub fn enter(&mut self, session: &SessionId, serial: u64, id: StreamId) {
        self.all.insert(serial, id);
        let of_session = self.by_session.entry(session.clone()).or_default();
        of_session.insert(serial, id);
    }

    /// Removes a stream.
    pub fn leave(&mut self, session: &SessionId, serial: u64) {
        self.all.remove(&serial);
        if let Some(of_session) = self.by_session.get_mut(session) {
            of_session.remove(&serial);
            if of_session.is_empty() {
                self.by_session.remove(session);
            }
        }
    }

    /// Returns a session's streams, the oldest first.
    pub fn of(&self, session: &SessionId) -> impl Iterator<Item = StreamId> {
        let of_session = self.by_session.get(session).into_iter();
        of_session.flat_map(BTreeMap::values).copied()
    }

    /// Returns the session's stream that may have output for UDP clients: the one that ended last.
    pub fn draining_to_udp(&self, session: &SessionId) -> Option<StreamId> {
        let (_, id) = self.by_session.get(session)?.last_key_value()?;
        Some(*id)
    }

    /// Returns how many of the session's streams must go before another one may be added.
    fn too_many_of(&self, session: &SessionId) -> usize {
        let of_session = self.by_session.get(session).map_or(0, BTreeMap::len);
        (of_session + 1).saturating_sub(PER_SESSION_MAX)
    }

    /// Returns the streams to cut off for one of this session: its own first, then others, each the
    /// oldest first.
    fn first_for(&self, session: &SessionId, count: usize) -> Vec<StreamId> {
        let of_session = self.by_session.get(session);
        let is_others = |serial: &u64| of_session.is_none_or(|its| !its.contains_key(serial));
        let others = self.all.iter().filter(|(serial, _)| is_others(serial));
        let in_order = self.of(session).chain(others.map(|(_, id)| *id));
        in_order.take(count).collect()
    }

    /// Returns how many streams drain.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Checks the invariants. Returns how many streams drain.
    pub fn check(&self) -> usize {
        let of_sessions = self.by_session.values().map(BTreeMap::len);
        assert_eq!(of_sessions.sum::<usize>(), self.all.len());
        assert!(self.by_session.values().all(|tree| !tree.is_empty()));
        self.all.len()
    }
}

impl Streams {
    /// Cuts off draining streams until there is a place for a stream of this session.
    pub(super) fn make_room_for_stream(&mut self, session: &SessionId, ctx: &mut Context) {
        // The streams are removed when this input's events have been handled.
        let too_many = (self.streams.len() - self.all_remuxed().count() + 1)
            .saturating_sub(ctx.settings().limits.streams_max);
        let too_many = too_many.max(self.draining.too_many_of(session));
        for id in self.draining.first_for(session, too_many) {
            self.cut_off(id, "another stream takes its place", ctx);
        }
    }

    /// Ends one remuxed stream of an ended stream, as memory for remuxing `original` is missing. It
    /// takes one of the same session, or of a session that has more of them than this one would
    /// have. The client that found no memory may ask again.
    pub(super) fn make_room_for_remuxed(&mut self, original: StreamId, ctx: &mut Context) {
        let Some(session) = &self.session(original) else {
            return;
        };
        let mut counts: HashMap<&SessionId, usize> = HashMap::new();
        for (_, stream) in self.all_remuxed() {
            *counts.entry(&stream.session).or_default() += 1;
        }
        let count = |session: &SessionId| counts.get(session).copied().unwrap_or(0);
        let in_order = self.draining.first_for(session, usize::MAX);
        let remuxed = in_order.into_iter().find_map(|id| {
            let its = &self.streams.get(id)?.session;
            let may_go = its == session || count(its) > count(session) + 1;
            self.all_remuxed_of(id).find(|_| may_go)
        });
        if let Some(remuxed) = remuxed {
            self.cut_off_one(remuxed, "another stream takes its place", ctx);
        }
    }

    /// Ends the output of a draining stream. Returns how many viewers it had.
    pub(super) fn cut_off(&mut self, id: StreamId, reason: &str, ctx: &mut Context) -> usize {
        let all = self.all_remuxed_of(id).chain([id]);
        all.map(|id| self.cut_off_one(id, reason, ctx)).sum()
    }

    fn cut_off_one(&mut self, id: StreamId, reason: &str, ctx: &mut Context) -> usize {
        if self.is_catching_up(id) {
            // A stream that is behind has not ended yet.
            self.end_one_remuxed(id, End::Lost, ctx);
        }
        let Some(stream) = self.streams.get_mut(id) else {
            return 0;
        };
        let viewers: Vec<ConnectionId> = stream.buffer.connections().collect();
        stream.watched_until = None;
        let (digest, count) = (stream.session.digest(), viewers.len());
        let line = format_args!(
            "event=stream-cut-off session={digest} reason=\"{reason}\" viewers={count}"
        );
        ctx.log(Level::Info, stream.caused_by(), line);
        self.end_drain(id, ctx);
        for viewer in viewers {
            ctx.notify(Event::Close(viewer));
        }
        count
    }

    /// Ends the output of a stream to its UDP clients.
    pub(super) fn end_drain(&mut self, id: StreamId, ctx: &mut Context) {
        // The original goes last: it stays until its remuxed streams are gone.
        for id in self.all_remuxed_of(id).chain([id]) {
            if let Some(stream) = self.streams.get_mut(id) {
                stream.rtp_out.clear();
            }
            self.forget_if_over(id, ctx);
        }
    }

    /// Ends the output to UDP clients that has taken longer than [`drain_time`].
    pub(super) fn drain_timed_out(&mut self, id: StreamId, ctx: &mut Context) {
        if let Some(stream) = self.streams.get(id) {
            let digest = stream.session.digest();
            let detail = "the clock of the stream is too slow for its bytes";
            let line = format_args!("event=rtp-rest-ends session={digest} detail=\"{detail}\"");
            ctx.log(Level::Warn, stream.caused_by(), line);
        }
        self.end_drain(id, ctx);
    }
}

#[cfg(test)]
mod tests;
