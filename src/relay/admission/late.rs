//! Answers for clients that have waited for a session.

use std::net::IpAddr;

use super::Gate;
use super::refusals::{no_token, no_token_of_origin, not_running};
use crate::gate::SessionId;
use crate::http::{Refusal, Status};
use crate::relay::admission::{Disclosure, EntryPoint, SessionState};
use crate::relay::origin_error::OriginError;

impl Gate<'_> {
    /// Decides about a viewer that has waited, by the same rules as when it came. `fault` says why
    /// no origin has the session.
    pub fn go_on_late(
        &self,
        (credential, session): (&SessionId, &SessionId),
        (entry_point, from): (EntryPoint, Option<IpAddr>),
        session_state: &SessionState,
        fault: impl FnOnce() -> OriginError,
    ) -> Result<(), Refusal> {
        let opened = match entry_point {
            EntryPoint::Hls => self.admit_hls(from, credential, session_state, Disclosure::Full)?,
            // A viewer that waits counts, and there may be fewer since it came.
            _ => {
                let opened =
                    self.check_viewer(from, credential, session_state, Disclosure::Full)?;
                self.check_viewer_limits(credential, opened, session_state, true)?;
                opened
            }
        };
        if opened != session {
            return Err(no_token());
        }
        match session_state.runs || entry_point != EntryPoint::Viewer {
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
