//! Answers for clients that have waited for a session.

use std::net::IpAddr;

use super::Gate;
use super::refusals::{no_token, no_token_of_origin, not_running};
use crate::gate::SessionId;
use crate::http::{Refusal, Status};
use crate::relay::admission::{EntryPoint, Look, SessionState};
use crate::relay::origin_error::OriginError;

impl Gate<'_> {
    /// Decides about a viewer that has waited, by the same rules as when it came. `fault` says why
    /// no origin has the session.
    pub fn go_on_late(
        &self,
        (name, session): (&SessionId, &SessionId),
        (way, from): (EntryPoint, Option<IpAddr>),
        session_state: &SessionState,
        fault: impl FnOnce() -> OriginError,
    ) -> Result<(), Refusal> {
        let opened = match way {
            EntryPoint::Hls => self.watch_in_segments(from, name, session_state, Look::Asks)?,
            // A viewer that waits counts, and there may be fewer since it came.
            _ => {
                let opened = self.check_watch(from, name, session_state, Look::Asks)?;
                self.check_viewers(name, opened, session_state, true)?;
                opened
            }
        };
        if opened != session {
            return Err(no_token());
        }
        match session_state.runs || way != EntryPoint::Viewer {
            true => Ok(()),
            false => Err(self.turned_away(fault())),
        }
    }

    /// Returns the refusal for a viewer that may watch a session which no origin has.
    pub fn turned_away(&self, fault: OriginError) -> Refusal {
        let detail = format!(
            "the session does not run here, and no origin has it: {}",
            fault.detail()
        );
        let has_own_gate = self.tokens.is_some() && !self.settings.asks_origin;
        match fault {
            OriginError::NotFound => not_running(),
            OriginError::Forbidden if !has_own_gate => no_token_of_origin(),
            OriginError::Broken(_) | OriginError::Forbidden => {
                Refusal::new(Status::BadGateway, detail)
            }
            OriginError::TimedOut => Refusal::new(Status::GatewayTimeout, detail),
            OriginError::Busy => Refusal::busy(detail),
            OriginError::Loop => Refusal::new(Status::LoopDetected, detail),
        }
    }
}
