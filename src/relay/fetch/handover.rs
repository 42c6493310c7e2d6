//! Hands pulls over. The successor looks up names again that are being looked up, in a round that begins
//! at once.

use std::net::SocketAddr;

use super::pull::{Pull, Pulls, Stage};
use super::{Fetch, WITHOUT_STREAM_MAX};
use crate::gate::SessionId;
use crate::handover::{HandoverError, Line, Writer, must};
use crate::relay::context::Context;
use crate::relay::{ConnectionId, PullId, StreamId};
use crate::slots::Slots;
use crate::time::Instant;

/// Received pulls, in their order.
#[derive(Default)]
pub struct PullsState(Vec<(PullId, Pull)>);

impl Fetch {
    /// Writes the state of each pull and of the origins.
    pub fn hand_over(&self, writer: &mut Writer<'_>) {
        for (id, pull) in self.pulls.entries.iter() {
            writer.put("pull", id.to_u64(), pull);
        }
        let known: Vec<_> = self.origins.addresses().collect();
        writer.put("origins", 0, &(&self.origins.pseudonym, known));
    }

    /// Returns the sessions that are fetched.
    pub fn sessions(&self) -> Vec<SessionId> {
        let pulls = self.pulls.entries.iter();
        pulls.map(|(_, pull)| pull.session.clone()).collect()
    }

    /// Removes all pulls, which the successor has.
    pub fn let_go(&mut self, ctx: &mut Context) {
        let ids: Vec<PullId> = self.pulls.entries.iter().map(|(id, _)| id).collect();
        for id in ids {
            self.remove(id, ctx);
        }
    }

    /// Returns the generation of the next id, and the number of rounds without a stream.
    pub fn next_id(&self) -> (u32, u64) {
        (self.pulls.entries.next(), self.pulls.failures)
    }

    /// Receives the addresses of the origins.
    pub fn receive(&mut self, line: Line<'_>) -> Result<(), HandoverError> {
        let (pseudonym, known): (String, Vec<(Vec<SocketAddr>, Instant)>) = line.read()?;
        self.origins.become_as(pseudonym, known);
        Ok(())
    }

    /// Takes over the predecessor's pulls. With `has_other_origins` the caller
    /// drops them: they count the origins of the other server.
    pub fn take_over(
        &mut self,
        PullsState(received): PullsState,
        (next, failures): (u32, u64),
        has_other_origins: bool,
        ctx: &mut Context,
    ) -> Result<(), HandoverError> {
        let places_max = 2 * (WITHOUT_STREAM_MAX + ctx.settings().limits.streams_max);
        let origins = self.origins.len();
        let mut pulls = Pulls {
            failures,
            ..Pulls::default()
        };
        for (id, pull) in &received {
            let has_one = pulls.by_session.insert(pull.session.clone(), *id).is_some();
            let has_origin = match pull.stage {
                Stage::Asking { attempt, .. } => has_other_origins || attempt.origin < origins,
                Stage::Running { .. } | Stage::Resolving { .. } | Stage::Pausing { .. } => true,
                Stage::Calling(_) | Stage::Failed => false,
            };
            must(!has_one && has_origin, || {
                format!("pull {id:?} has another's place")
            })?;
            pulls.running += usize::from(pull.stage.is_running());
        }
        pulls.entries = Slots::of(received, next, places_max)?;
        self.pulls = pulls;
        let ids: Vec<PullId> = self.pulls.entries.iter().map(|(id, _)| id).collect();
        for id in ids {
            if let Some(pull) = self.pulls.entries.get_mut(id)
                && let Stage::Resolving { .. } = pull.stage
            {
                pull.stage = Stage::Pausing { until: ctx.now() };
            }
            self.rearm(id, ctx);
        }
        Ok(())
    }

    /// Returns the number of pulls with a request at an origin.
    pub fn origin_requests(&self) -> usize {
        let pulls = self.pulls.entries.iter();
        pulls
            .filter(|(_, pull)| matches!(pull.stage, Stage::Asking { .. }))
            .count()
    }

    /// Returns the pulls whose streams run.
    pub fn running(&self) -> impl Iterator<Item = (PullId, StreamId)> {
        let pulls = self.pulls.entries.iter();
        pulls.filter_map(|(id, pull)| match pull.stage {
            Stage::Running { stream, .. } => Some((id, stream)),
            _ => None,
        })
    }

    /// Returns whether this connection requests a pull's stream from an origin.
    pub fn is_requested_by(&self, id: PullId, by: ConnectionId) -> bool {
        let pull = self.pulls.entries.get(id);
        pull.is_some_and(
            |pull| matches!(pull.stage, Stage::Asking { connection, .. } if connection == by),
        )
    }
}

impl PullsState {
    /// Receives a pull.
    pub fn receive(&mut self, line: Line<'_>) -> Result<(), HandoverError> {
        self.0.push((PullId::from_u64(line.number), line.read()?));
        Ok(())
    }
}

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;
