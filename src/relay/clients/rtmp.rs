//! A client by RTMP. Before it is admitted it is a [`crate::rtmp::Publisher`] and no source. Then it
//! is a source, whose messages are read as the body of a PUT is.

use super::connection::Lingering;
use super::reading::PIECE_COST;
use super::source::Source;
use super::{ClientEvent, Clients, Phase, Step};
use crate::clean_text::Agent;
use crate::http::{Framing, Refusal, Status};
use crate::relay::context::Context;
use crate::relay::{ConnectionId, Level, StreamId};
use crate::rtmp::Event;

/// While this many bytes wait for its socket, a client gets no acknowledgements.
const WAITING_BYTES_MAX: usize = 4 * 1024;

impl Clients {
    /// Reads the next message of a publisher.
    pub(super) fn read_rtmp(
        &mut self,
        id: ConnectionId,
        input: &mut &[u8],
        ctx: &mut Context,
    ) -> Step<'_> {
        let Some(connection) = self.connections.get_mut(id) else {
            return Step::Stop;
        };
        let Some(publisher) = &mut connection.publisher else {
            return Step::Stop;
        };
        if let Phase::Source(_) = connection.phase {
            connection.progress = ctx.now();
        }
        self.pieces.clear();
        let before = input.len();
        let found = publisher.read(input, &mut self.pieces);
        // The tags may be longer than the messages.
        let longer = self.pieces.len().saturating_sub(before - input.len());
        self.reading.count(PIECE_COST + longer);
        match (found, &mut connection.phase) {
            (Ok(Event::More | Event::Media), Phase::Source(source)) if !self.pieces.is_empty() => {
                source.count(self.pieces.len());
                Step::Media(source.stream, &self.pieces)
            }
            (Ok(Event::More), _) => Step::Stop,
            (Ok(Event::End), Phase::Source(source)) => Step::Event(ClientEvent::Complete {
                stream: source.stream,
                is_sure: true,
            }),
            (Ok(Event::Media | Event::End), _) => Step::On,
            (Ok(Event::Publish(name)), _) => Step::Event(ClientEvent::Rtmp {
                name,
                caller: connection.caller(),
            }),
            (Err(reason), Phase::Source(_)) => {
                let refusal = Refusal::new(Status::BadRequest, reason);
                self.lose_source(id, &refusal, reason, ctx);
                Step::On
            }
            (Err(reason), _) => {
                // Scanners come to every port.
                let is_other = !publisher.has_begun();
                let source = connection.peer;
                let was_logged = is_other && std::mem::replace(&mut self.has_logged_others, true);
                if !was_logged && ctx.event_limits.admit_refusal(source.ip(), ctx.now()) {
                    let line =
                        format_args!("event=rtmp-failed source={source} detail=\"{reason}\"");
                    ctx.log(Level::Warn, Some(source.ip()), line);
                }
                self.push_answers(id);
                self.linger(id, ctx);
                Step::Stop
            }
        }
    }

    /// Queues the answers to a client by RTMP.
    pub fn push_answers(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id)
            && let Some(publisher) = &mut connection.publisher
        {
            let is_full = connection.output.unsent().len() >= WAITING_BYTES_MAX;
            let answers = publisher.take_answers(is_full);
            if !answers.is_empty() {
                connection.output.push(&answers);
                self.queue(id);
            }
        }
    }

    /// Closes all connections that came to the port for RTMP.
    #[cfg(feature = "handover")]
    pub fn close_rtmp(&mut self, ctx: &mut Context) {
        let all = self.connections.iter();
        let all = all.filter(|(_, connection)| connection.is_rtmp);
        let all: Vec<ConnectionId> = all.map(|(id, _)| id).collect();
        all.into_iter().for_each(|id| self.close(id, ctx));
    }

    /// Makes an admitted publisher the source of this stream. Returns which program it says it is.
    pub fn admit_rtmp(
        &mut self,
        id: ConnectionId,
        stream: StreamId,
        ctx: &Context,
    ) -> Option<Agent> {
        let connection = self.connections.get_mut(id)?;
        let agent = connection.publisher.as_mut()?.admit();
        connection.progress = ctx.now();
        let source = Source::new(stream, Framing::None, None, ctx.now());
        connection.phase = Phase::Source(source);
        Some(agent)
    }

    /// Refuses a client with a code and a text.
    pub fn refuse_rtmp(&mut self, id: ConnectionId, refusal: &Refusal, ctx: &mut Context) {
        if let Some(connection) = self.connections.get_mut(id)
            && let Some(publisher) = &mut connection.publisher
        {
            let code = match refusal.status {
                Status::BadRequest | Status::Conflict => "NetStream.Publish.BadName",
                _ => "NetStream.Publish.Denied",
            };
            publisher.refuse(code, &refusal.detail);
        }
        self.dismiss_rtmp(id, refusal.status, ctx);
    }

    /// Stops serving a client. It gets the answers that wait.
    pub(super) fn dismiss_rtmp(&mut self, id: ConnectionId, status: Status, ctx: &mut Context) {
        self.push_answers(id);
        self.leave(id);
        ctx.counts.refused(status);
        self.note_status(id, status);
        self.linger(id, ctx);
    }

    /// Stops serving a source whose stream is complete. The client closes the connection: GStreamer's
    /// `rtmp2sink` reports an error if the server is faster.
    pub(super) fn complete_rtmp(&mut self, id: ConnectionId, ctx: &mut Context) {
        self.push_answers(id);
        self.leave(id);
        self.note_status(id, Status::Ok);
        if let Some(connection) = self.connections.get_mut(id) {
            connection.publisher = None;
            connection.phase = Phase::Lingering(Lingering::new(true, ctx.now()));
        }
        self.rearm(id, ctx);
    }
}
