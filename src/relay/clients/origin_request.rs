//! Whom this server asks: an origin for a stream, until its answer's head is here, and a peer for
//! its part of a list.

use std::net::SocketAddr;

use super::source::Source;
use super::{ClientEvent, Clients, Phase, Step};
use crate::http::{self, Answer, AnswerReader, Framing, Refusal};
use crate::relay::context::Context;
use crate::relay::event::Event;
use crate::relay::lists::{PeerRequest, Share, Told};
use crate::relay::origin_error::OriginError;
use crate::relay::{ConnectionId, PullId, StreamId};
use crate::time::Instant;

/// An origin's head, as large as any server's.
const ANSWER_LIMITS: http::Limits = http::Limits {
    head_bytes_max: 16 * 1024,
    head_fields_max: 128,
    takes_old_sources: false,
};

/// An origin whose answer has not come.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct OriginRequest {
    /// What is asked for.
    pub pull: PullId,
    #[cfg_attr(feature = "handover", serde(skip))]
    reader: AnswerReader,
    /// So long it may take.
    pub until: Instant,
    /// What it is if the connection ends now.
    pub fault: OriginError,
}

impl OriginRequest {
    /// The next head of an answer, and its length.
    pub fn read(&mut self, input: &[u8]) -> Result<Option<(Answer, usize)>, Refusal> {
        self.reader.read(input, &ANSWER_LIMITS)
    }
}

impl Clients {
    /// Asks an origin for a pull's stream; it has until then to answer.
    pub fn ask_origin(
        &mut self,
        pull: PullId,
        call: (SocketAddr, &str),
        until: Instant,
        ctx: &mut Context,
    ) -> Option<ConnectionId> {
        let asking = OriginRequest {
            pull,
            reader: AnswerReader::default(),
            until,
            fault: OriginError::Broken("it cannot be reached"),
        };
        self.call(call, Phase::OriginRequest(asking), ctx)
    }

    /// Asks a peer for its part of a list.
    pub fn ask_peer(
        &mut self,
        call: (SocketAddr, &str),
        telling: PeerRequest,
        ctx: &mut Context,
    ) -> Option<ConnectionId> {
        self.call(call, Phase::PeerRequest(Box::new(telling)), ctx)
    }

    /// A peer has told this.
    pub(super) fn take_told(
        &mut self,
        id: ConnectionId,
        (share, told): (Share, Told),
        ctx: &mut Context,
    ) -> Step<'static> {
        match told {
            Told::More => Step::Stop,
            Told::On => Step::On,
            Told::All(rows) => {
                ctx.notify(Event::PeerAnswered(share, rows));
                self.close(id, ctx);
                Step::Stop
            }
            Told::Nothing => {
                self.close(id, ctx);
                Step::Stop
            }
        }
    }

    /// What an origin has answered.
    pub(super) fn take_answer(
        &mut self,
        id: ConnectionId,
        answer: Result<Option<(Answer, usize)>, Refusal>,
        input: &mut &[u8],
        ctx: &mut Context,
    ) -> Step<'static> {
        let answer = match answer {
            Ok(None) => return Step::Stop,
            Ok(Some((answer, bytes))) => {
                *input = &input[bytes..];
                answer
            }
            Err(_) => {
                let fault = OriginError::Broken("its answer is malformed");
                self.give_up_asking(id, fault, ctx);
                return Step::On;
            }
        };
        let asked = self.connections.get_mut(id);
        let asked = asked.map(|asked| (asked.peer, &mut asked.phase));
        match (answer.status, asked) {
            (100 | 102..=199, Some((_, Phase::OriginRequest(asking)))) => {
                asking.reader = AnswerReader::default();
            }
            (200, Some((peer, Phase::OriginRequest(asking)))) => {
                let pull = asking.pull;
                return Step::Came(ClientEvent::Found { pull, peer, answer });
            }
            (status, _) => self.give_up_asking(id, OriginError::of_status(status), ctx),
        }
        Step::On
    }

    /// An origin does not do.
    pub fn give_up_asking(&mut self, id: ConnectionId, fault: OriginError, ctx: &mut Context) {
        if let Some(connection) = self.connections.get_mut(id)
            && let Phase::OriginRequest(asking) = &mut connection.phase
        {
            asking.fault = fault;
        }
        self.close(id, ctx);
    }

    /// What an origin sends from now on is this stream's media.
    pub fn receive(&mut self, id: ConnectionId, stream: StreamId, framing: Framing, ctx: &Context) {
        let source = Source::new(stream, framing, None, ctx.now());
        self.enter(id, Phase::Source(source));
    }
}
