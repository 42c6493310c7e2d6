//! A peer that is asked for its part of a list.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use super::{Clients, Event, Phase, Step};
use crate::http::{self, AnswerReader, Body, Part};
use crate::json;
use crate::moment::Moment;
use crate::relay::ConnectionId;
use crate::relay::desk::Desk;
use crate::relay::errand::Ticket;

/// So long a peer may take.
const PEER_TIME: Duration = Duration::from_secs(2);
/// A peer's list may be so long: some 300,000 tokens.
const PEER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The heads of peers.
const HEAD_LIMITS: http::Limits = http::Limits {
    head_bytes_max: 16 * 1024,
    head_fields_max: 64,
};

/// A peer that is being asked.
pub(super) struct Telling {
    pub gathering: Ticket,
    pub peer: usize,
    pub until: Moment,
    reader: AnswerReader,
    /// Its head has come.
    body: Option<Body>,
    rows: json::Rows,
    bytes: usize,
}

/// What has come of a peer's list.
pub(super) enum Tale {
    /// Nothing more for now.
    Waits,
    GoesOn,
    /// It is whole: its rows, if they are rows.
    Whole(Option<VecDeque<Vec<u8>>>),
    /// It cannot be used.
    Broken,
}

impl Telling {
    /// Reads on in what a peer tells.
    pub fn read(&mut self, input: &mut &[u8]) -> Tale {
        let Some(body) = &mut self.body else {
            return self.read_head(input);
        };
        match body.read(input) {
            Ok(Part::More) => Tale::Waits,
            Ok(Part::Content(content)) if self.take(content) => Tale::GoesOn,
            Ok(Part::End) => Tale::Whole(std::mem::take(&mut self.rows).finish()),
            Ok(Part::Content(_)) | Err(_) => Tale::Broken,
        }
    }

    fn read_head(&mut self, input: &mut &[u8]) -> Tale {
        match self.reader.read(input, &HEAD_LIMITS) {
            Ok(None) => Tale::Waits,
            Ok(Some((answer, length))) if answer.status == 200 => {
                *input = &input[length..];
                self.body = Some(Body::new(answer.framing));
                Tale::GoesOn
            }
            Ok(Some(_)) | Err(_) => Tale::Broken,
        }
    }

    /// Takes more of a list. Says whether it is one, and not too long.
    fn take(&mut self, content: &[u8]) -> bool {
        self.bytes += content.len();
        self.bytes <= PEER_BYTES_MAX && self.rows.read(content)
    }

    /// Bytes that are allocated for it: as much as has come of its list.
    pub fn held_bytes(&self) -> usize {
        self.rows.held_bytes()
    }
}

impl Clients {
    /// Asks a peer, for a list of the whole.
    pub fn ask_peer(
        &mut self,
        (gathering, peer): (Ticket, usize),
        to: SocketAddr,
        request: &str,
        desk: &mut Desk,
    ) -> ConnectionId {
        let telling = Telling {
            gathering,
            peer,
            until: desk.now + PEER_TIME,
            reader: AnswerReader::default(),
            body: None,
            rows: json::Rows::default(),
            bytes: 0,
        };
        self.call(to, Phase::Telling(telling), request, desk)
    }

    /// A peer has told this.
    pub(super) fn take_tale(
        &mut self,
        id: ConnectionId,
        (gathering, peer): (Ticket, usize),
        tale: Tale,
        desk: &mut Desk,
    ) -> Step<'static> {
        match tale {
            Tale::Waits => Step::Stop,
            Tale::GoesOn => Step::On,
            Tale::Broken => {
                self.close(id, desk);
                Step::Stop
            }
            Tale::Whole(rows) => {
                self.close(id, desk);
                Step::Came(Event::Told {
                    gathering,
                    peer,
                    rows,
                })
            }
        }
    }
}
