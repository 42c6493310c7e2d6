//! Who is inside by which sessionid: sources, viewers, and who waits to be one. With its token they
//! are ended, and no others; and there may be so many by it.
//!
//! Where there are no tokens nobody is in this book.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Duration;

use super::heads::Heads;
use super::{Clients, Phase};
use crate::gate::SessionId;
use crate::held::hash_map_bytes;
use crate::http::{Refusal, Status};
use crate::relay::admission::Standing;
use crate::relay::desk::Desk;
use crate::relay::pass::Pass;
use crate::relay::{ConnectionId, LiveId};
use crate::stamp::Stamp;

/// Who is inside by one sessionid.
#[derive(Default)]
struct Party {
    ids: BTreeSet<ConnectionId>,
}

/// Who is inside by each.
#[derive(Default)]
pub(super) struct Inside {
    parties: HashMap<SessionId, Party>,
    /// How many they are together.
    count: usize,
    /// How many of them watch, and who does so by HLS.
    heads: Heads,
}

/// Who was expelled.
pub enum Expelled {
    /// A viewer, who is to be cut.
    Viewer,
    /// This stream's source, who has been told.
    Source(LiveId),
}

/// How long whoever has asked for a playlist or a segment is taken to watch. Players ask at least
/// once a segment, which may be longer than is wished.
fn seat_time(desk: &Desk) -> Duration {
    Duration::from_secs(30) + 3 * desk.settings().limits.hls_segment_time
}

/// A place in a tree of ids, at the most: of eleven, five are used.
const PLACE_BYTES: usize = 3 * size_of::<ConnectionId>() + 16;

impl Inside {
    pub(super) fn enter(&mut self, pass: &Pass, id: ConnectionId) {
        let party = self.parties.entry(pass.name().clone()).or_default();
        party.ids.insert(id);
        self.heads.enter(pass);
        self.count += 1;
    }

    fn leave(&mut self, pass: &Pass, id: ConnectionId) {
        if let Some(party) = self.parties.get_mut(pass.name()) {
            party.ids.remove(&id);
            self.heads.leave(pass);
            self.count -= 1;
            if party.ids.is_empty() {
                self.parties.remove(pass.name());
            }
        }
        if self.parties.is_empty() {
            self.parties = HashMap::new();
        }
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        let node_bytes = 11 * PLACE_BYTES;
        hash_map_bytes(&self.parties)
            + self.parties.len() * node_bytes
            + self.count * PLACE_BYTES
            + self.heads.held_bytes()
    }

    /// Panics unless it agrees with what the connections say.
    pub fn check<'a>(&self, passes: impl Iterator<Item = (ConnectionId, &'a Pass)>) {
        let passes: Vec<_> = passes.collect();
        self.heads.check(passes.iter().map(|(_, pass)| *pass));
        let mut count = 0;
        for (id, pass) in passes {
            let party = self.parties.get(pass.name());
            assert!(
                party.is_some_and(|party| party.ids.contains(&id)),
                "{id:?} is not inside"
            );
            count += 1;
        }
        assert_eq!(count, self.count, "somebody is inside who is gone");
        let mut parties = self.parties.values();
        assert!(
            parties.all(|party| !party.ids.is_empty()),
            "a party of nobody"
        );
    }
}

impl Clients {
    /// A client has been admitted, and where there are tokens by one.
    pub fn admit(&mut self, id: ConnectionId, pass: Option<Pass>, desk: &mut Desk) {
        self.leave(id);
        if let Some(connection) = self.connections.get_mut(id)
            && let Some(pass) = pass
        {
            if pass.is_sitter() {
                let address = connection.peer.ip();
                let until = desk.now() + seat_time(desk);
                self.inside.heads.sit(&pass, address, until);
            }
            self.inside.enter(&pass, id);
            connection.pass = Some(pass);
        }
        self.rearm(id, desk);
    }

    /// It is not inside any more.
    pub(super) fn leave(&mut self, id: ConnectionId) {
        let connection = self.connections.get_mut(id);
        if let Some(pass) = connection.and_then(|connection| connection.pass.take()) {
            self.inside.leave(&pass, id);
        }
    }

    /// By which sessionid a client is inside.
    pub fn came_by(&self, id: ConnectionId) -> Option<&SessionId> {
        Some(self.connections.get(id)?.pass.as_ref()?.name())
    }

    /// How many watch by a sessionid, or wait to; by a session's own, all who watch that.
    pub fn viewers_by(&self, name: &SessionId) -> usize {
        self.inside.heads.of(name)
    }

    /// What runs of a session, for who asks by this sessionid from there: by HLS it does not count
    /// anew if it has a seat.
    pub fn standing(
        &self,
        (name, from): (&SessionId, Option<IpAddr>),
        standing: Standing,
    ) -> Standing {
        let heads = &self.inside.heads;
        let has_seat = from.is_some_and(|from| heads.has_seat(name, from));
        Standing {
            viewers_by_name: self.viewers_by(name),
            seat: (has_seat || heads.has_free()).then_some(has_seat),
            ..standing
        }
    }

    /// Those who have not asked for a playlist or a segment for long watch no more.
    pub fn clear_seats(&mut self, desk: &Desk) {
        self.inside.heads.clear(desk.now());
    }

    /// A sessionid's token ends then, for all who are inside by it.
    pub fn end_at(&mut self, name: &SessionId, ends: Option<Stamp>, desk: &mut Desk) {
        for id in self.all_by(name) {
            let connection = self.connections.get_mut(id);
            let pass = connection.and_then(|connection| connection.pass.as_mut());
            if pass.is_some_and(|pass| pass.end_at(ends)) {
                self.rearm(id, desk);
            }
        }
    }

    /// It is later than was thought: tokens that end do so earlier.
    pub fn rearm_inside(&mut self, desk: &mut Desk) {
        let parties = self.inside.parties.values();
        let ids: Vec<ConnectionId> = parties.flat_map(|party| &party.ids).copied().collect();
        for id in ids {
            self.rearm(id, desk);
        }
    }

    /// All who are inside by a sessionid.
    pub fn all_by(&self, name: &SessionId) -> Vec<ConnectionId> {
        let party = self.inside.parties.get(name).into_iter();
        party.flat_map(|party| &party.ids).copied().collect()
    }

    /// A client is inside no longer, for its token is over or was revoked, as `reason` says. Says
    /// what is left to be done about it.
    pub fn expel(
        &mut self,
        id: ConnectionId,
        reason: &'static str,
        desk: &mut Desk,
    ) -> Option<Expelled> {
        match &self.connections.get(id)?.phase {
            Phase::Viewer(_) => Some(Expelled::Viewer),
            Phase::Source(source) => {
                let live = source.live;
                let refusal = Refusal::new(Status::Forbidden, reason);
                self.lose_source(id, &refusal, reason, desk)?;
                Some(Expelled::Source(live))
            }
            // It is asked about again in its turn, and refused.
            Phase::Waiting(_) => {
                self.call_one(id);
                None
            }
            Phase::Introduction
            | Phase::Head(_)
            | Phase::Payload(_)
            | Phase::Listing(_)
            | Phase::Following(_)
            | Phase::Errand(_)
            | Phase::Asking(_)
            | Phase::Telling(_)
            | Phase::Recording
            | Phase::Lingering(_) => None,
        }
    }
}
