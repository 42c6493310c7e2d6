//! Whom this server asks: an origin for a stream, until its answer's head is here, and a peer for
//! its part of a list.

use std::net::SocketAddr;

use super::source::Source;
use super::{Clients, Event, Phase, Step};
use crate::http::{self, Answer, AnswerReader, Framing, Refusal};
use crate::moment::Moment;
use crate::relay::desk::Desk;
use crate::relay::fetch::Fault;
use crate::relay::lists::{Share, Telling, Told};
use crate::relay::{ConnectionId, LiveId, PullId};

/// An origin's head, as large as any server's.
const ANSWER_LIMITS: http::Limits = http::Limits {
    head_bytes_max: 16 * 1024,
    head_fields_max: 128,
    takes_old_sources: false,
};

/// An origin whose answer has not come.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Asking {
    /// What is asked for.
    pub pull: PullId,
    #[cfg_attr(feature = "handover", serde(skip))]
    reader: AnswerReader,
    /// So long it may take.
    pub until: Moment,
    /// What it is if the connection ends now.
    pub fault: Fault,
}

impl Asking {
    /// What is asked is all with the origin.
    pub fn is_sent(&mut self) {
        self.fault = Fault::Broken("it hung up without an answer");
    }

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
        until: Moment,
        desk: &mut Desk,
    ) -> Option<ConnectionId> {
        let asking = Asking {
            pull,
            reader: AnswerReader::default(),
            until,
            fault: Fault::Broken("it cannot be reached"),
        };
        self.call(call, Phase::Asking(asking), desk)
    }

    /// Asks a peer for its part of a list.
    pub fn ask_peer(
        &mut self,
        call: (SocketAddr, &str),
        telling: Telling,
        desk: &mut Desk,
    ) -> Option<ConnectionId> {
        self.call(call, Phase::Telling(telling), desk)
    }

    /// A peer has told this.
    pub(super) fn take_told(
        &mut self,
        id: ConnectionId,
        (share, told): (Share, Told),
        desk: &mut Desk,
    ) -> Step<'static> {
        match told {
            Told::More => return Step::Stop,
            Told::On => return Step::On,
            Told::All(_) | Told::Nothing => self.close(id, desk),
        }
        match told {
            Told::All(rows) => Step::Came(Event::Told(share, rows)),
            Told::More | Told::On | Told::Nothing => Step::Stop,
        }
    }

    /// What an origin has answered.
    pub(super) fn take_answer(
        &mut self,
        id: ConnectionId,
        answer: Result<Option<(Answer, usize)>, Refusal>,
        input: &mut &[u8],
        desk: &mut Desk,
    ) -> Step<'static> {
        let answer = match answer {
            Ok(None) => return Step::Stop,
            Ok(Some((answer, bytes))) => {
                *input = &input[bytes..];
                answer
            }
            Err(_) => {
                let fault = Fault::Broken("its answer is malformed");
                self.give_up_asking(id, fault, desk);
                return Step::On;
            }
        };
        let asked = self.connections.get_mut(id);
        let asked = asked.map(|asked| (asked.peer, &mut asked.phase));
        match (answer.status, asked) {
            (100 | 102..=199, Some((_, Phase::Asking(asking)))) => {
                asking.reader = AnswerReader::default();
            }
            (200, Some((peer, Phase::Asking(asking)))) => {
                let pull = asking.pull;
                return Step::Came(Event::Found { pull, peer, answer });
            }
            (status, _) => self.give_up_asking(id, Fault::of_status(status), desk),
        }
        Step::On
    }

    /// An origin does not do.
    pub fn give_up_asking(&mut self, id: ConnectionId, fault: Fault, desk: &mut Desk) {
        if let Some(connection) = self.connections.get_mut(id)
            && let Phase::Asking(asking) = &mut connection.phase
        {
            asking.fault = fault;
        }
        self.close(id, desk);
    }

    /// What an origin sends from now on is this stream's media.
    pub fn receive(&mut self, id: ConnectionId, live: LiveId, framing: Framing, desk: &Desk) {
        let source = Source::new(live, (framing, None), desk.now());
        self.enter(id, Phase::Source(source));
    }
}
