//! Deadlines of connections and of streams: what has to be done about each, when, and what is said
//! of it then.
//!
//! Each has one deadline at the most, derived from its phase and from what it did last; see
//! [`super::timers`] for why putting it off costs nothing.

use super::clients::Clients;
use super::connection::{Connection, Phase};
use super::desk::Desk;
use super::live::{Cut, Live, Origin};
use super::pull::Fault;
use super::source::SILENT;
use super::streams::Streams;
use super::timers::Owner;
use super::{ConnectionId, ERRAND_TIME, LiveId, Relay};
use crate::http::{Refusal, Status};
use crate::moment::Moment;
use crate::stream::End;

/// Of a client whose socket has taken none of what is sent to it.
const STALLED: &str = "took nothing for too long";

impl Clients {
    /// When something has to be done about this connection, if nothing happens before, and what is
    /// said of it then.
    fn connection_deadline(
        &self,
        connection: &Connection,
        desk: &Desk,
    ) -> Option<(Moment, &'static str)> {
        let stall_time = desk.settings.limits.viewer_stall_time;
        // Those that this server calls have a time for all of it.
        let is_call = matches!(connection.phase, Phase::Asking(_) | Phase::Telling(_));
        let stalls = connection.is_blocked && !connection.output_is_over() && !is_call;
        let stalled = stalls.then(|| (connection.taken + stall_time, STALLED));
        let of_phase = self.phase_deadline(connection, desk);
        let both = [stalled, of_phase].into_iter().flatten();
        both.min_by_key(|(deadline, _)| *deadline)
    }

    fn phase_deadline(
        &self,
        connection: &Connection,
        desk: &Desk,
    ) -> Option<(Moment, &'static str)> {
        let limits = &desk.settings.limits;
        match &connection.phase {
            // The rest of it is not read before it takes the answers that it has asked for.
            Phase::Head(_) if connection.output.is_full() => None,
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
            Phase::Source(source) => self.source_deadline(connection, source, desk),
            // Its last answer is on its way still.
            Phase::Lingering(_) if !connection.output_is_over() => None,
            Phase::Lingering(lingering) => Some((lingering.until, "is done")),
            Phase::Waiting(waiting) => Some((waiting.until, "its session did not begin")),
            Phase::Awaiting(_) => Some((
                connection.progress + ERRAND_TIME,
                "its errand took too long",
            )),
            Phase::Asking(asking) => Some((asking.until, "its origin did not answer in time")),
            Phase::Telling(telling) => Some((telling.until, "it did not tell in time")),
            Phase::Head(_) | Phase::Viewer(_) | Phase::Listing(_) | Phase::Recording => None,
        }
    }

    pub(super) fn rearm(&mut self, id: ConnectionId, desk: &mut Desk) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let deadline = self.connection_deadline(connection, desk);
        if let (Some((deadline, _)), Some(connection)) = (deadline, self.connections.get_mut(id)) {
            desk.timers
                .arm(&mut connection.armed, Owner::Connection(id), deadline);
        }
    }
}

impl Streams {
    /// When a stream has something to do, if nothing arrives.
    pub(super) fn live_deadline(&self, live: &Live, desk: &Desk) -> Option<Moment> {
        let now = desk.now;
        // While something is on its way nothing more is taken, however late it is: when that is
        // out, it goes on.
        let transport = live.outlet.transport.as_ref();
        let paced = transport
            .filter(|_| live.outlet.is_empty())
            .and_then(|transport| transport.deadline(now));
        let input = live.input.as_ref();
        let reordered = input.and_then(|input| input.reorder.deadline());
        let idle_time = desk.settings.limits.source_idle_time;
        let gone = match live.source {
            Origin::Awaited { until } => Some(until),
            Origin::Rtp(_) => live.heard().map(|heard| heard + idle_time),
            Origin::Http(_) | Origin::Gone => None,
        };
        let rest = live.outlet.rest_until;
        [paced, reordered, gone, rest].into_iter().flatten().min()
    }

    pub(super) fn rearm_live(&mut self, id: LiveId, desk: &mut Desk) {
        let Some(live) = self.lives.get(id) else {
            return;
        };
        if let (Some(deadline), Some(live)) =
            (self.live_deadline(live, desk), self.lives.get_mut(id))
        {
            desk.timers.arm(&mut live.armed, Owner::Live(id), deadline);
        }
    }
}

impl Relay {
    pub(super) fn connection_due(&mut self, id: ConnectionId) {
        let now = self.desk.now;
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return;
        };
        connection.armed.fired();
        let Some(connection) = self.clients.connections.get(id) else {
            return;
        };
        match self.clients.connection_deadline(connection, &self.desk) {
            Some((deadline, reason)) if deadline <= now => self.time_out(id, reason),
            Some(_) => self.clients.rearm(id, &mut self.desk),
            None => {}
        }
    }

    /// A deadline that was not put off has come.
    fn time_out(&mut self, id: ConnectionId, reason: &'static str) {
        let Some(connection) = self.clients.connections.get(id) else {
            return;
        };
        let reply = self.desk.unread_reply();
        match &connection.phase {
            Phase::Viewer(_) => self.cut_viewer(id, Cut::Stalled),
            Phase::Source(source) if reason == STALLED => {
                let live = source.live;
                self.source_lost(live, Origin::Http(id), reason);
                self.clients.close(id, &mut self.desk);
            }
            // What else there would be to say it would not take either.
            _ if reason == STALLED => self.clients.close(id, &mut self.desk),
            Phase::Head(reader) if reader.has_begun() => self.clients.refuse(
                id,
                &Refusal::new(Status::RequestTimeout, reason),
                reply,
                &mut self.desk,
            ),
            Phase::Payload(_) => self.clients.refuse(
                id,
                &Refusal::new(Status::RequestTimeout, reason),
                reply,
                &mut self.desk,
            ),
            Phase::Source(source) => {
                let (live, reply) = (source.live, source.reply);
                if self.source_is_at_fault(id, reason) {
                    self.source_lost(live, Origin::Http(id), reason);
                    let refusal = Refusal::new(Status::RequestTimeout, reason);
                    self.clients
                        .dismiss_source(id, &refusal, reply, &mut self.desk);
                } else {
                    self.clients.rearm(id, &mut self.desk);
                }
            }
            Phase::Waiting(_) => self.end_wait(id),
            Phase::Asking(_) => self
                .clients
                .give_up_asking(id, Fault::TimedOut, &mut self.desk),
            Phase::Awaiting(ticket) => {
                let ticket = *ticket;
                self.errand_timed_out(ticket);
            }
            Phase::Introduction
            | Phase::Head(_)
            | Phase::Telling(_)
            | Phase::Listing(_)
            | Phase::Recording
            | Phase::Lingering(_) => self.clients.close(id, &mut self.desk),
        }
    }

    /// A stream's deadline has come.
    pub(super) fn live_due(&mut self, id: LiveId) {
        let now = self.desk.now;
        let Some(live) = self.streams.lives.get_mut(id) else {
            return;
        };
        live.armed.fired();
        let source = live.source;
        let idle_time = self.desk.settings.limits.source_idle_time;
        let is_silent = live.heard().is_some_and(|heard| heard + idle_time <= now);
        match source {
            Origin::Rtp(_) if is_silent => return self.source_lost(id, source, SILENT),
            Origin::Awaited { until } if until <= now => {
                return self.end_live(id, End::Lost, "its source did not come back");
            }
            Origin::Rtp(_) | Origin::Awaited { .. } | Origin::Http(_) | Origin::Gone => {}
        }
        let rest_until = live.outlet.rest_until;
        if rest_until.is_some_and(|until| until <= now) {
            return self.streams.rest_timed_out(id, &mut self.desk);
        }
        if live.input.is_some() {
            self.drain_reorder(id);
        } else {
            self.streams.pump(id, &mut self.desk);
        }
        self.streams.rearm_live(id, &mut self.desk);
    }
}
