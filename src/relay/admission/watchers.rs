//! Viewers: decides whether one more may watch, and which viewers count towards `max-viewers`.

use std::net::IpAddr;

use super::refusals::{
    for_source_only, full, no_token, no_token_of_origin, not_running, token_is_over,
};
use super::{AccessRequest, Gate, SessionState};
use crate::gate::{Denied, SessionId};
use crate::http::{Refusal, Status};

/// How much an answer may reveal of a session whose viewers only an origin knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::relay) enum Look {
    /// It asks for the stream. The server asks the origin if the session does not run here.
    Asks,
    /// Its answer shows whether the stream runs, and no origin is asked.
    Tells,
    /// Its answer leads to the stream, and is the same for every session.
    Leads,
}

impl Gate<'_> {
    /// Decides whether a viewer with this session id and address may follow a session. The session
    /// need not run, and its stream need not fit HTTP.
    pub fn see(
        &self,
        from: Option<IpAddr>,
        name: &SessionId,
        session: &SessionId,
        session_state: &SessionState,
        look: Look,
    ) -> Result<(), Refusal> {
        let token = self
            .tokens
            .map_or(Ok(()), |tokens| tokens.watch(name, self.time));
        match token {
            // Without tokens, the origin alone decides.
            Ok(()) if self.tokens.is_none() && session_state.runs && session_state.is_forbidden => {
                check_origin(session_state, look)?;
            }
            Ok(()) => {}
            Err(Denied::Over) => return Err(token_is_over()),
            // The origin is asked about the session, and knows nothing of a key to it here.
            Err(Denied::Direction) if name != session => return Err(for_source_only()),
            Err(_) if self.settings.asks_origin => check_origin(session_state, look)?,
            Err(Denied::NoToken) => return Err(no_token()),
            Err(Denied::Direction) => return Err(for_source_only()),
        }
        self.check_block(session)?;
        self.check_open()?;
        self.check_barred(from, name)
    }

    /// Returns whether a viewer with this session id may watch a source of this server, and not only
    /// an origin's. Once a token has expired, only new viewers are refused.
    pub fn may_stay(&self, name: &SessionId) -> bool {
        let token = self.tokens.map(|tokens| tokens.watch(name, self.time));
        !matches!(token, Some(Err(Denied::NoToken | Denied::Direction)))
    }

    /// Decides whether one more viewer with this session id may watch, before the answer depends on
    /// whether the session runs.
    pub fn watch(
        &self,
        access_request: &AccessRequest,
        name: &SessionId,
        session_state: &SessionState,
        look: Look,
    ) -> Result<(), Refusal> {
        let from = access_request.from.map(|from| from.ip());
        let session = self.check_watch(from, name, session_state, look)?;
        self.check_viewers(name, session, session_state, false)
    }

    /// Checks the limits on viewers. `counts_already`: the client is one of the counted viewers.
    pub(super) fn check_viewers(
        &self,
        name: &SessionId,
        session: &SessionId,
        session_state: &SessionState,
        counts_already: bool,
    ) -> Result<(), Refusal> {
        let is_full = |token, viewers: usize| {
            let others = viewers.saturating_sub(usize::from(counts_already));
            self.viewers_max(token).is_some_and(|most| others >= most)
        };
        // The session's own token limits all of its viewers, also with a key.
        if is_full(session, session_state.viewers) {
            return Err(full(
                "this session has reached the max-viewers of its token",
            ));
        }
        if name != session && is_full(name, session_state.viewers_by_name) {
            return Err(full(
                "this sessionid has reached the max-viewers of its token",
            ));
        }
        Ok(())
    }

    /// Checks the rules for viewers at all entry points. Returns the session that the session id
    /// opens.
    pub(super) fn check_watch<'a>(
        &'a self,
        from: Option<IpAddr>,
        name: &'a SessionId,
        session_state: &SessionState,
        look: Look,
    ) -> Result<&'a SessionId, Refusal> {
        let session = self.opened_by(name);
        self.see(from, name, session, session_state, look)?;
        match &session_state.http_fault {
            Some(fault) => Err(Refusal::new(Status::NotAcceptable, fault.clone())),
            None => Ok(session),
        }
    }

    /// Returns the maximal number of viewers that the token of this session id allows.
    fn viewers_max(&self, name: &SessionId) -> Option<usize> {
        let grant = self.tokens?.grant(name)?;
        grant.terms.viewers_max.map(|most| most as usize)
    }

    /// Returns whether the viewers with this session id are counted.
    pub(super) fn counts_viewers(&self, name: &SessionId, session: &SessionId) -> bool {
        [name, session]
            .into_iter()
            .any(|token| self.viewers_max(token).is_some())
    }

    /// Decides whether a client may watch by HLS. An HLS player has no connection between two
    /// requests. So if viewers are limited, its address counts for a while after each request.
    pub fn watch_in_segments<'a>(
        &'a self,
        from: Option<IpAddr>,
        name: &'a SessionId,
        session_state: &SessionState,
        look: Look,
    ) -> Result<&'a SessionId, Refusal> {
        let session = self.check_watch(from, name, session_state, look)?;
        match session_state.hls_address {
            _ if !self.counts_viewers(name, session) => {}
            Some(true) => {}
            Some(false) => self.check_viewers(name, session, session_state, false)?,
            None => {
                return Err(Refusal::busy(
                    "as many addresses watch by HLS as can be counted, where tokens say how many may watch (max-viewers); without HLS \
                 the stream is at /stream/SESSIONID",
                ));
            }
        }
        Ok(session)
    }
}

/// Decides about a client that only the origin could admit. The client may not watch where the
/// session has a source here, nor where the origin has refused and its last stream is held. The
/// answer to [`Look::Asks`] shows whether such a stream runs here. The other answers do not.
fn check_origin(session_state: &SessionState, look: Look) -> Result<(), Refusal> {
    let is_origins = session_state.is_fetched && !session_state.is_forbidden;
    match look {
        _ if session_state.runs && is_origins => Ok(()),
        Look::Leads => Ok(()),
        Look::Tells => Err(not_running()),
        Look::Asks if session_state.runs => Err(no_token_of_origin()),
        Look::Asks => Ok(()),
    }
}
