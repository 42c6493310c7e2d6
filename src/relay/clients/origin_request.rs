//! Connections that this server makes: to an origin for a stream, until the head of its answer has
//! come, and to a peer for its part of a list.

use std::net::SocketAddr;

use super::source::Source;
use super::{ClientEvent, Clients, Phase, Step};
use crate::http::{self, AnswerReader, Framing};
use crate::relay::context::Context;
use crate::relay::lists::PeerRequest;
use crate::relay::origin_error::OriginError;
use crate::relay::{ConnectionId, PullId, StreamId};
use crate::time::Instant;

/// Limits on the head of an origin's answer.
const ANSWER_LIMITS: http::Limits = http::Limits {
    head_bytes_max: 16 * 1024,
    head_fields_max: 128,
    takes_old_sources: false,
};

/// A request to an origin whose answer has not come.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct OriginRequest {
    /// The pull that needs the stream.
    pub pull: PullId,
    #[cfg_attr(feature = "handover", serde(skip))]
    reader: AnswerReader,
    /// Deadline of the answer.
    pub until: Instant,
    /// The error if the connection ends now.
    pub fault: OriginError,
}

impl Clients {
    /// Asks an origin for the stream of a pull. It has to answer until `until`.
    pub fn ask_origin(
        &mut self,
        pull: PullId,
        call: (SocketAddr, &str),
        until: Instant,
        ctx: &mut Context,
    ) -> Option<ConnectionId> {
        let request = OriginRequest {
            pull,
            reader: AnswerReader::default(),
            until,
            fault: OriginError::Broken("it cannot be reached"),
        };
        self.call(call, Phase::OriginRequest(request), ctx)
    }

    /// Asks a peer for its part of a list.
    pub fn ask_peer(
        &mut self,
        call: (SocketAddr, &str),
        request: PeerRequest,
        ctx: &mut Context,
    ) -> Option<ConnectionId> {
        self.call(call, Phase::PeerRequest(Box::new(request)), ctx)
    }

    /// Reads the head of an origin's answer.
    pub(super) fn read_answer(
        &mut self,
        id: ConnectionId,
        input: &mut &[u8],
        ctx: &mut Context,
    ) -> Step<'static> {
        let Some(connection) = self.connections.get_mut(id) else {
            return Step::Stop;
        };
        let Phase::OriginRequest(request) = &mut connection.phase else {
            return Step::Stop;
        };
        let error = match request.reader.read(input, &ANSWER_LIMITS) {
            Ok(None) => return Step::Stop,
            Ok(Some((answer, bytes))) => {
                *input = &input[bytes..];
                match answer.status {
                    100 | 102..=199 => {
                        request.reader = AnswerReader::default();
                        return Step::On;
                    }
                    200 => {
                        return Step::Event(ClientEvent::OriginAnswered {
                            pull: request.pull,
                            peer: connection.peer,
                            answer,
                        });
                    }
                    status => OriginError::of_status(status),
                }
            }
            Err(_) => OriginError::Broken("its answer is malformed"),
        };
        self.give_up_origin(id, error, ctx);
        Step::On
    }

    /// Closes the connection to an origin, because of this error.
    pub fn give_up_origin(&mut self, id: ConnectionId, fault: OriginError, ctx: &mut Context) {
        if let Some(Phase::OriginRequest(request)) = self.phase_mut(id) {
            request.fault = fault;
        }
        self.close(id, ctx);
    }

    /// Makes an origin the source of this stream.
    pub fn receive(&mut self, id: ConnectionId, stream: StreamId, framing: Framing, ctx: &Context) {
        let source = Source::new(stream, framing, None, ctx.now());
        self.enter(id, Phase::Source(source));
    }
}
