//! A client by RTMP. Before it is admitted it is a [`Publisher`] and no source. Then it is a
//! source, whose messages are read as the body of a PUT is.

use super::connection::Lingering;
use super::source::Source;
use super::{ClientEvent, Clients, Phase, Step};
use crate::http::{Refusal, Status};
use crate::relay::admission::Caller;
use crate::relay::context::Context;
use crate::relay::{ConnectionId, Level, StreamId};
use crate::rtmp::{Event, Fault};

/// While this many bytes wait for its socket, a client gets no acknowledgements.
const WAITING_BYTES_MAX: usize = 4 * 1024;

impl Clients {
    /// Reads on before the client is admitted.
    pub(super) fn read_rtmp(
        &mut self,
        id: ConnectionId,
        input: &mut &[u8],
        ctx: &mut Context,
    ) -> Step<'static> {
        let connection = self.connections.get_mut(id);
        let Some((Phase::Rtmp(publisher), peer)) =
            connection.map(|connection| (&mut connection.phase, connection.peer))
        else {
            return Step::Stop;
        };
        let read = publisher.read(input, &mut Vec::new());
        self.reading.count(publisher.take_cost());
        match read {
            Ok(Event::Request(request)) => return Step::Came(ClientEvent::Rtmp(request)),
            Ok(Event::More | Event::Media | Event::End) => {}
            Err(Fault(reason)) => {
                // Scanners come to every port.
                let is_other = !publisher.has_begun();
                if !(is_other && std::mem::replace(&mut self.has_told_of_others, true)) {
                    let line = format_args!("event=rtmp-failed source={peer} detail=\"{reason}\"");
                    ctx.log(Level::Warn, line);
                }
                self.push_answers(id);
                self.close(id, ctx);
            }
        }
        Step::Stop
    }

    /// Queues what a client by RTMP is answered.
    pub fn push_answers(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id).filter(|it| it.is_rtmp) else {
            return;
        };
        let publisher = match &mut connection.phase {
            Phase::Rtmp(publisher) => Some(&mut **publisher),
            Phase::Source(source) => source.publisher_mut(),
            _ => None,
        };
        let is_full = connection.output.rest().len() >= WAITING_BYTES_MAX;
        let answers = publisher.map(|publisher| publisher.take_answers(is_full));
        if let Some(answers) = answers.filter(|answers| !answers.is_empty()) {
            connection.output.push(&answers);
            self.queue(id);
        }
    }

    /// Returns whose connection it is, for the gate.
    pub fn caller(&self, id: ConnectionId) -> Option<Caller> {
        Some(self.connections.get(id)?.caller())
    }

    /// Returns whether a connection came to the port for RTMP.
    pub fn is_rtmp(&self, id: ConnectionId) -> bool {
        self.connections
            .get(id)
            .is_some_and(|connection| connection.is_rtmp)
    }

    /// Returns the connections that came to the port for RTMP.
    #[cfg(feature = "handover")]
    pub fn all_rtmp(&self) -> Vec<ConnectionId> {
        let all = self.connections.iter();
        all.filter(|(_, connection)| connection.is_rtmp)
            .map(|(id, _)| id)
            .collect()
    }

    /// Makes an admitted publisher the source of this stream.
    pub fn publish_rtmp(&mut self, id: ConnectionId, stream: StreamId, ctx: &mut Context) {
        if let Some(connection) = self.connections.get_mut(id) {
            let unread = Phase::AwaitingJournal;
            connection.phase = match std::mem::replace(&mut connection.phase, unread) {
                Phase::Rtmp(mut publisher) => {
                    publisher.admit();
                    connection.progress = ctx.now();
                    Phase::Source(Source::by_rtmp(stream, publisher, ctx.now()))
                }
                other => other,
            };
        }
        self.rearm(id, ctx);
    }

    /// Refuses a client, in words and with this code.
    pub fn refuse_rtmp(
        &mut self,
        id: ConnectionId,
        code: &str,
        refusal: &Refusal,
        ctx: &mut Context,
    ) {
        if let Some(connection) = self.connections.get_mut(id)
            && let Phase::Rtmp(publisher) = &mut connection.phase
        {
            publisher.refuse(code, &refusal.detail);
        }
        self.push_answers(id);
        ctx.counts.refused(refusal.status);
        self.end_rtmp_access(id, refusal.status, ctx);
        self.linger(id, ctx);
        self.queue(id);
    }

    /// Lets go of a source whose stream is complete. The client closes the connection: some report
    /// an error if the server is faster.
    pub(super) fn complete_rtmp(&mut self, id: ConnectionId, ctx: &mut Context) {
        self.end_rtmp_access(id, Status::Ok, ctx);
        if let Some(connection) = self.connections.get_mut(id) {
            connection.phase = Phase::Lingering(Lingering::new(true, ctx.now()));
        }
        self.rearm(id, ctx);
    }

    fn end_rtmp_access(&mut self, id: ConnectionId, status: Status, ctx: &mut Context) {
        self.leave(id);
        let connection = self.connections.get_mut(id);
        if let Some(mut entry) = connection.and_then(|connection| connection.access.take()) {
            entry.status = Some(status);
            self.end_access(&entry, ctx);
        }
    }
}
