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
pub(in crate::relay) enum Disclosure {
    /// It asks for the stream. The server asks the origin if the session does not run here.
    Full,
    /// Its answer shows whether the stream runs, and no origin is asked.
    RunningOnly,
    /// Its answer leads to the stream, and is the same for every session.
    Nothing,
}

impl Gate<'_> {
    /// Decides whether a viewer with this session id and address may follow a session. The session
    /// need not run, and its stream need not fit HTTP.
    pub fn check_token_and_blocks(
        &self,
        from: Option<IpAddr>,
        credential: &SessionId,
        session: &SessionId,
        session_state: &SessionState,
        disclosure: Disclosure,
    ) -> Result<(), Refusal> {
        let token = self
            .tokens
            .map_or(Ok(()), |tokens| tokens.watch(credential, self.time));
        match token {
            // Without tokens, the origin alone decides.
            Ok(()) if self.tokens.is_none() && session_state.runs && session_state.is_forbidden => {
                check_origin(session_state, disclosure)?;
            }
            Ok(()) => {}
            Err(Denied::Over) => return Err(token_is_over()),
            // The origin is asked about the session, and knows nothing of a key to it here.
            Err(Denied::Direction) if credential != session => return Err(for_source_only()),
            Err(_) if self.settings.asks_origin => check_origin(session_state, disclosure)?,
            Err(Denied::NoToken) => return Err(no_token()),
            Err(Denied::Direction) => return Err(for_source_only()),
        }
        self.check_block(session)?;
        self.check_open()?;
        self.check_viewer_block(from, credential)
    }

    /// Returns whether a viewer with this session id may watch a source of this server, and not only
    /// an origin's. Once a token has expired, only new viewers are refused.
    pub fn has_watch_token(&self, credential: &SessionId) -> bool {
        let token = self
            .tokens
            .map(|tokens| tokens.watch(credential, self.time));
        !matches!(token, Some(Err(Denied::NoToken | Denied::Direction)))
    }

    /// Decides whether one more viewer with this session id may watch, before the answer depends on
    /// whether the session runs.
    pub fn admit_viewer(
        &self,
        access_request: &AccessRequest,
        credential: &SessionId,
        session_state: &SessionState,
        disclosure: Disclosure,
    ) -> Result<(), Refusal> {
        let from = access_request.from.map(|from| from.ip());
        let session = self.check_viewer(from, credential, session_state, disclosure)?;
        self.check_viewer_limits(credential, session, session_state, false)
    }

    /// Checks the limits on viewers. `counts_already`: the client is one of the counted viewers.
    pub(super) fn check_viewer_limits(
        &self,
        credential: &SessionId,
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
        if credential != session && is_full(credential, session_state.viewers_by_credential) {
            return Err(full(
                "this sessionid has reached the max-viewers of its token",
            ));
        }
        Ok(())
    }

    /// Checks the rules for viewers at all entry points. Returns the session that the session id
    /// opens.
    pub(super) fn check_viewer<'a>(
        &'a self,
        from: Option<IpAddr>,
        credential: &'a SessionId,
        session_state: &SessionState,
        disclosure: Disclosure,
    ) -> Result<&'a SessionId, Refusal> {
        let session = self.opened_by(credential);
        self.check_token_and_blocks(from, credential, session, session_state, disclosure)?;
        match &session_state.http_fault {
            Some(fault) => Err(Refusal::new(Status::NotAcceptable, fault.clone())),
            None => Ok(session),
        }
    }

    /// Returns the maximal number of viewers that the token of this session id allows.
    fn viewers_max(&self, credential: &SessionId) -> Option<usize> {
        let grant = self.tokens?.grant(credential)?;
        grant.terms.viewers_max.map(|most| most as usize)
    }

    /// Returns whether the viewers with this session id are counted.
    pub(super) fn counts_viewers(&self, credential: &SessionId, session: &SessionId) -> bool {
        [credential, session]
            .into_iter()
            .any(|token| self.viewers_max(token).is_some())
    }

    /// Decides whether a client may watch by HLS. An HLS player has no connection between two
    /// requests. So if viewers are limited, its address counts for a while after each request.
    pub fn admit_hls<'a>(
        &'a self,
        from: Option<IpAddr>,
        credential: &'a SessionId,
        session_state: &SessionState,
        disclosure: Disclosure,
    ) -> Result<&'a SessionId, Refusal> {
        let session = self.check_viewer(from, credential, session_state, disclosure)?;
        match session_state.hls_address {
            _ if !self.counts_viewers(credential, session) => {}
            Some(true) => {}
            Some(false) => self.check_viewer_limits(credential, session, session_state, false)?,
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
/// answer to [`Disclosure::Full`] shows whether such a stream runs here. The other answers do not.
fn check_origin(session_state: &SessionState, disclosure: Disclosure) -> Result<(), Refusal> {
    let is_origins = session_state.is_fetched && !session_state.is_forbidden;
    match disclosure {
        _ if session_state.runs && is_origins => Ok(()),
        Disclosure::Nothing => Ok(()),
        Disclosure::RunningOnly => Err(not_running()),
        Disclosure::Full if session_state.runs => Err(no_token_of_origin()),
        Disclosure::Full => Ok(()),
    }
}
