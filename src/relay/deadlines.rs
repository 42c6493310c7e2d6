//! Deadlines of connections: what has to be done about each, when, and what is said of it then.
//!
//! Each phase has one deadline at the most, derived from what the connection did last; see [`super::timers`] for why putting it
//! off costs nothing.

use super::connection::{Connection, Phase};
use super::live::{Cut, Origin};
use super::pull::Fault;
use super::timers::Owner;
use super::{ConnectionId, ERRAND_TIME, Relay};
use crate::http::{Refusal, Reply, Status, Version};
use crate::moment::Moment;

impl Relay {
    /// When something has to be done about this connection, if nothing happens before, and what is said of it then.
    fn connection_deadline(&self, connection: &Connection) -> Option<(Moment, &'static str)> {
        let limits = &self.settings.limits;
        if let Phase::Asking(asking) = &connection.phase {
            return Some((asking.until, "its origin did not answer in time"));
        }
        if let Phase::Telling(telling) = &connection.phase {
            return Some((telling.until, "it did not tell in time"));
        }
        if connection.is_blocked && !connection.output_is_over() {
            return Some((
                connection.progress + limits.viewer_stall_time,
                "took nothing for too long",
            ));
        }
        match &connection.phase {
            Phase::Head(reader) if reader.has_begun() => Some((
                connection.progress + limits.head_time,
                "its request took too long",
            )),
            Phase::Head(_) if connection.output.is_empty() => Some((
                connection.progress + limits.keep_alive_time,
                "no request came",
            )),
            Phase::Introduction | Phase::Payload(_) => Some((
                connection.progress + limits.head_time,
                "its request took too long",
            )),
            Phase::Source(source) => self.source_deadline(connection, source),
            // Its last answer is on its way still.
            Phase::Lingering(_) if !connection.output_is_over() => None,
            Phase::Lingering(lingering) => Some((lingering.until, "is done")),
            Phase::Waiting(waiting) => Some((waiting.until, "its session did not begin")),
            Phase::Awaiting(_) => Some((
                connection.progress + ERRAND_TIME,
                "its errand took too long",
            )),
            Phase::Head(_)
            | Phase::Viewer(_)
            | Phase::Listing(_)
            | Phase::Asking(_)
            | Phase::Telling(_)
            | Phase::Recording => None,
        }
    }

    pub(super) fn rearm(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let deadline = self.connection_deadline(connection);
        if let (Some((deadline, _)), Some(connection)) = (deadline, self.connections.get_mut(id)) {
            self.timers
                .arm(&mut connection.armed, Owner::Connection(id), deadline);
        }
    }

    pub(super) fn connection_due(&mut self, id: ConnectionId, now: Moment) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.armed.fired();
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        match self.connection_deadline(connection) {
            Some((deadline, reason)) if deadline <= now => self.time_out(id, reason, now),
            Some(_) => self.rearm(id),
            None => {}
        }
    }

    /// A deadline that was not put off has come.
    fn time_out(&mut self, id: ConnectionId, reason: &'static str, now: Moment) {
        let date = self.date(now);
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let reply = Reply {
            version: Version::Http11,
            keep_alive: false,
            head_only: false,
            date,
            fields: &[],
        };
        match &connection.phase {
            Phase::Head(reader) if reader.has_begun() => self.refuse(
                id,
                &Refusal::new(Status::RequestTimeout, reason),
                reply,
                now,
            ),
            Phase::Payload(_) => self.refuse(
                id,
                &Refusal::new(Status::RequestTimeout, reason),
                reply,
                now,
            ),
            Phase::Source(source) => {
                let (live, reply) = (source.live, source.reply);
                if self.source_is_at_fault(id, reason, now) {
                    self.source_lost(live, Origin::Http(id), reason, now);
                    let refusal = Refusal::new(Status::RequestTimeout, reason);
                    self.dismiss_source(id, &refusal, reply, now);
                } else {
                    self.rearm(id);
                }
            }
            Phase::Viewer(_) => self.cut_viewer(id, Cut::Stalled, now),
            Phase::Waiting(_) => self.end_wait(id, now),
            Phase::Asking(_) => self.give_up_asking(id, Fault::TimedOut, now),
            Phase::Awaiting(ticket) => {
                let ticket = *ticket;
                self.errand_timed_out(ticket, now);
            }
            Phase::Introduction
            | Phase::Head(_)
            | Phase::Telling(_)
            | Phase::Listing(_)
            | Phase::Recording
            | Phase::Lingering(_) => self.close(id, now),
        }
    }
}
