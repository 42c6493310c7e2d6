//! Viewers: decides whether one more may watch, and which viewers count towards `max-viewers`.

use std::net::IpAddr;

use super::refusals::full;
use super::{AccessRequest, Gate, SessionState};
use crate::gate::SessionId;
use crate::http::{Refusal, Status};

impl Gate<'_> {
    /// Decides whether one more viewer with this session id may watch, before the answer depends on
    /// whether the session runs.
    pub fn watch(
        &self,
        access_request: &AccessRequest<'_>,
        name: &SessionId,
        session_state: &SessionState,
    ) -> Result<(), Refusal> {
        let from = access_request.from.map(|from| from.ip());
        let session = self.come_to_watch(from, name, session_state)?;
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
    pub(super) fn come_to_watch<'a>(
        &'a self,
        from: Option<IpAddr>,
        name: &'a SessionId,
        session_state: &SessionState,
    ) -> Result<&'a SessionId, Refusal> {
        let session = self.opened_by(name);
        self.see(from, name, session, session_state)?;
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
    ) -> Result<&'a SessionId, Refusal> {
        let session = self.come_to_watch(from, name, session_state)?;
        match session_state.seat {
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
