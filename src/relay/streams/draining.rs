//! Streams that have lost their source and still go out: to viewers who have not taken all of it,
//! and at its own pace to UDP clients.
//!
//! They are listed, aborted and revoked as those that run. With these they have `--streams` places
//! together, and [`PER_SESSION_MAX`] of a session. Who publishes gets in all the same: for a stream
//! that begins when there is no place left, one that drains is cut, of its own session the one that
//! began first, else of all. What goes to UDP clients ends with the time that its bytes are worth
//! ([`rest_time`]), or when another source comes for the session: so of a session only the stream
//! that ended last has a rest for them, the others have viewers.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::Streams;
use crate::gate::SessionId;
use crate::held::{hash_map_bytes, tree_map_bytes};
use crate::relay::context::Context;
use crate::relay::event::Event;
use crate::relay::{ConnectionId, Level, StreamId};
use crate::stream::End;

/// Streams that drain, by the serials that they have as streams.
#[derive(Default)]
pub(super) struct Draining {
    all: BTreeMap<u64, StreamId>,
    /// The same; no tree is empty.
    by_session: HashMap<SessionId, BTreeMap<u64, StreamId>>,
}

/// Streams of one session that drain at the most: viewers who are as many uploads behind have lost
/// touch, and who uploads without end must not make what is done for the session dear.
const PER_SESSION_MAX: usize = 16;
/// The slowest rest, in bytes a second: a telephone's sound in MPEG-TS is faster.
const REST_BYTES_PER_SECOND_MIN: u64 = 4_000;
/// For a rest of a few packets.
const REST_TIME_MIN: Duration = Duration::from_secs(60);

/// How long so many bytes are sent at the most, however slow the clock in them is.
pub(super) fn rest_time(bytes: u64) -> Duration {
    REST_TIME_MIN + Duration::from_secs(bytes / REST_BYTES_PER_SECOND_MIN)
}

impl Draining {
    /// A stream's source is gone, and what is left of it is sent.
    pub fn enter(&mut self, session: &SessionId, serial: u64, id: StreamId) {
        self.all.insert(serial, id);
        let of_session = self.by_session.entry(session.clone()).or_default();
        of_session.insert(serial, id);
    }

    /// It has been sent, or given up.
    pub fn leave(&mut self, session: &SessionId, serial: u64) {
        self.all.remove(&serial);
        if let Some(of_session) = self.by_session.get_mut(session) {
            of_session.remove(&serial);
            if of_session.is_empty() {
                self.by_session.remove(session);
            }
        }
    }

    /// Those of a session, in the order in which they began.
    pub fn of(&self, session: &SessionId) -> impl Iterator<Item = StreamId> {
        let of_session = self.by_session.get(session).into_iter();
        of_session.flat_map(BTreeMap::values).copied()
    }

    /// The one of a session that may have a rest for UDP clients: it ended last.
    pub fn resting(&self, session: &SessionId) -> Option<StreamId> {
        let (_, id) = self.by_session.get(session)?.last_key_value()?;
        Some(*id)
    }

    /// How many of a session there are beyond those that may stay when another of its begins.
    fn too_many_of(&self, session: &SessionId) -> usize {
        let of_session = self.by_session.get(session).map_or(0, BTreeMap::len);
        (of_session + 1).saturating_sub(PER_SESSION_MAX)
    }

    /// Those that make room for streams of this session: its own first, each in the order in which
    /// they began.
    fn first_for(&self, session: &SessionId, count: usize) -> Vec<StreamId> {
        let of_session = self.by_session.get(session);
        let is_others = |serial: &u64| of_session.is_none_or(|its| !its.contains_key(serial));
        let others = self.all.iter().filter(|(serial, _)| is_others(serial));
        let in_order = self.of(session).chain(others.map(|(_, id)| *id));
        in_order.take(count).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        let of_sessions = self.by_session.values().map(tree_map_bytes);
        of_sessions.sum::<usize>() + tree_map_bytes(&self.all) + hash_map_bytes(&self.by_session)
    }

    /// What must hold; and how many there are.
    pub fn check(&self) -> usize {
        let of_sessions = self.by_session.values().map(BTreeMap::len);
        assert_eq!(of_sessions.sum::<usize>(), self.all.len());
        assert!(self.by_session.values().all(|tree| !tree.is_empty()));
        self.all.len()
    }
}

impl Streams {
    /// A stream of this session is about to begin: it has a place.
    pub(super) fn make_room_for_stream(&mut self, session: &SessionId, ctx: &mut Context) {
        // They are gone when this input is settled.
        let too_many = (self.streams.len() - self.shadows().count() + 1)
            .saturating_sub(ctx.settings().limits.streams_max);
        let too_many = too_many.max(self.draining.too_many_of(session));
        for id in self.draining.first_for(session, too_many) {
            self.cut_off(id, "another stream takes its place", ctx);
        }
    }

    /// A client could not have a stream of this session in another container. What is left of an
    /// ended stream makes room for the next client, if it is the same session's, or that of a
    /// session with more such streams than this one would have.
    pub(super) fn make_room_for_shadow(&mut self, session: &SessionId, ctx: &mut Context) {
        let mut counts: HashMap<&SessionId, usize> = HashMap::new();
        for (_, stream) in self.shadows() {
            *counts.entry(&stream.session).or_default() += 1;
        }
        let count = |session: &SessionId| counts.get(session).copied().unwrap_or(0);
        let in_order = self.draining.first_for(session, usize::MAX);
        let shadow = in_order.into_iter().find_map(|id| {
            let its = &self.streams.get(id)?.session;
            let may_go = its == session || count(its) > count(session) + 1;
            self.shadows_of(id).into_iter().flatten().find(|_| may_go)
        });
        if let Some(shadow) = shadow {
            self.cut_off_one(shadow, "another stream takes its place", ctx);
        }
    }

    /// Nothing more of a stream that drains is sent to anybody. Says how many viewers it had.
    pub(super) fn cut_off(&mut self, id: StreamId, reason: &str, ctx: &mut Context) -> usize {
        let of_shadows = self.shadows_of(id).into_iter().flatten();
        let of_shadows = of_shadows.map(|shadow| self.cut_off_one(shadow, reason, ctx));
        of_shadows.sum::<usize>() + self.cut_off_one(id, reason, ctx)
    }

    fn cut_off_one(&mut self, id: StreamId, reason: &str, ctx: &mut Context) -> usize {
        if self.is_behind(id) {
            // It has not ended yet.
            self.end_shadow(id, End::Lost, ctx);
        }
        let Some(stream) = self.streams.get_mut(id) else {
            return 0;
        };
        let viewers: Vec<ConnectionId> = stream.buffer.connections().collect();
        stream.attended_until = None;
        let (digest, count) = (stream.session.digest(), viewers.len());
        ctx.log(
            Level::Info,
            format_args!(
                "event=stream-cut-off session={digest} reason=\"{reason}\" viewers={count}"
            ),
        );
        self.end_rest(id, ctx);
        for viewer in viewers {
            ctx.notify(Event::Close(viewer));
        }
        count
    }

    /// What is left of a stream for its UDP clients is not sent any more.
    pub(super) fn end_rest(&mut self, id: StreamId, ctx: &mut Context) {
        // Its original is the last to be forgotten.
        for shadow in self.shadows_of(id).into_iter().flatten() {
            self.end_own_rest(shadow, ctx);
        }
        self.end_own_rest(id, ctx);
    }

    fn end_own_rest(&mut self, id: StreamId, ctx: &mut Context) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.rtp_out.clear();
        }
        self.forget_if_over(id, ctx);
    }

    /// What is left for its UDP clients has taken longer than it may.
    pub(super) fn rest_timed_out(&mut self, id: StreamId, ctx: &mut Context) {
        let digest = self.streams.get(id).map(|stream| stream.session.digest());
        if let Some(digest) = digest {
            let detail = "its clock is slower than its bytes may be sent";
            ctx.log(
                Level::Warn,
                format_args!("event=rtp-rest-ends session={digest} detail=\"{detail}\""),
            );
        }
        self.end_rest(id, ctx);
    }

    /// Another source has come for the session: its UDP clients get that, and not what is left of
    /// the one before.
    pub(super) fn end_rest_of(&mut self, session: &SessionId, ctx: &mut Context) {
        if let Some(id) = self.draining.resting(session) {
            self.end_rest(id, ctx);
        }
    }
}

#[cfg(test)]
mod tests;
