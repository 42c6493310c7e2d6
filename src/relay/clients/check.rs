//! The invariants of all clients, for tests and simulations.

use std::collections::BTreeSet;

use super::admissions::Admissions;
use super::{Clients, Connection, Phase, WaitFor, WaitOutcome};
use crate::gate::SessionId;
use crate::relay::admission::Admission;
use crate::relay::context::Context;
use crate::relay::{ConnectionId, JobId, StreamId};

/// What other parts know, for checking the phases.
pub(in crate::relay) struct OtherParts<'a> {
    /// Whether this stream exists.
    pub has_stream: &'a dyn Fn(StreamId) -> bool,
    /// Whether this session runs.
    pub runs: &'a dyn Fn(&SessionId) -> bool,
    /// Whether this list is waited for or written.
    pub has_collecting: &'a dyn Fn(JobId) -> bool,
}

impl OtherParts<'_> {
    fn check(&self, id: ConnectionId, connection: &Connection) {
        match &connection.phase {
            Phase::Viewer(response) => {
                let (stream, _) = response.key();
                assert!(
                    (self.has_stream)(stream),
                    "a viewer outlives its stream: {id:?}"
                )
            }
            Phase::Source(source) => assert!(
                (self.has_stream)(source.stream),
                "a source outlives its stream: {id:?}"
            ),
            Phase::Waiting(waiting) if waiting.outcome != WaitOutcome::Open => {
                assert!(
                    connection.is_pipelined,
                    "somebody is called in vain: {id:?}"
                )
            }
            Phase::Waiting(waiting) => assert!(
                waiting.wait_for == WaitFor::Progress || !(self.runs)(&waiting.session),
                "somebody waits for what runs: {id:?}"
            ),
            Phase::PeerRequest(request) => assert!(
                (self.has_collecting)(request.share().0),
                "a peer tells nobody: {id:?}"
            ),
            _ => {}
        }
    }
}

impl Clients {
    /// Checks what must hold. Returns the number of deadlines.
    pub fn check(&self, others: &OtherParts<'_>, ctx: &Context) -> usize {
        let all = || self.connections.iter().map(|(_, connection)| connection);
        assert_eq!(
            self.hosts.count(),
            all().filter(|connection| connection.is_counted).count(),
            "connections by host are counted wrong"
        );
        let waits = |phase: &Phase| matches!(phase, Phase::Waiting(_));
        let queues = [WaitFor::Session, WaitFor::Progress, WaitFor::Turn];
        assert_eq!(
            all().filter(|connection| waits(&connection.phase)).count(),
            queues.iter().map(|it| self.waiting.len(*it)).sum::<usize>(),
            "waiting connections are counted wrong"
        );
        for (id, connection) in self.connections.iter() {
            others.check(id, connection);
            if let Some((deadline, _)) = connection.deadline(ctx) {
                let is_looked_after = connection.armed.is_armed_by(deadline.max(ctx.now()));
                assert!(
                    is_looked_after,
                    "nobody will look after {id:?} at {deadline:?}"
                );
            }
        }
        let follows = |connection: &&Connection| matches!(connection.phase, Phase::EventReader(_));
        assert_eq!(
            all().filter(follows).count(),
            self.readers.len(),
            "a reader is gone, or is not known"
        );
        let passes = self.connections.iter();
        self.admissions
            .check(passes.filter_map(|(id, each)| Some((id, each.admission.as_deref()?))));
        all()
            .filter(|connection| connection.armed.is_armed())
            .count()
    }
}

impl Admissions {
    /// Panics unless the entries agree with the connections' records.
    pub fn check<'a>(&self, admissions: impl Iterator<Item = (ConnectionId, &'a Admission)>) {
        let admissions: Vec<_> = admissions.collect();
        self.viewers
            .check(admissions.iter().map(|(_, admission)| *admission));
        for (id, admission) in &admissions {
            let ids = self.by_credential.get(&admission.credential);
            let is_there = ids.is_some_and(|ids| ids.contains(id));
            assert!(is_there, "{id:?} is not inside");
        }
        let count: usize = self.by_credential.values().map(BTreeSet::len).sum();
        assert_eq!(
            admissions.len(),
            count,
            "a name has a connection that has no admission"
        );
        let mut all = self.by_credential.values();
        assert!(all.all(|ids| !ids.is_empty()), "a name without connections");
    }
}
