//! Expired tokens: their events, and the time on disk.
//!
//! The gate refuses an expired token by the present time. But a clock that is set back while the
//! server is down would make it valid again. So the time is written to the disk whenever a token
//! expires.

use std::time::Duration;

use super::Grants;
use crate::relay::context::Context;
use crate::relay::server_event::ServerEvent;
use crate::relay::timers::Owner;
use crate::time::UnixTime;

/// Tokens that expire at the same time and have an event each. The others share one.
const LINES_MAX: usize = 16;

/// A time that could not be written is written again after this long.
const WRITE_AGAIN_AFTER: Duration = Duration::from_secs(30);

impl Grants {
    /// Sets the deadline for the next token that expires, or for a time that is not on disk.
    pub fn rearm(&mut self, ctx: &mut Context) {
        let tokens = self.tokens.as_ref();
        let expiry = tokens.and_then(|tokens| tokens.next_expiry(self.reported));
        let expiry = expiry.map(|expiry| ctx.calendar.instant_of(expiry));
        let owed = self.owes_time().then(|| ctx.now() + WRITE_AGAIN_AFTER);
        if let Some(deadline) = expiry.into_iter().chain(owed).min() {
            ctx.arm(&mut self.armed, Owner::Tokens, deadline);
        }
    }

    /// Begins with the table of a token file. Tokens that have expired before are not reported
    /// again. The time is written, since it may not be on disk.
    pub(super) fn take_over(&mut self, ctx: &mut Context) {
        self.reported = ctx.date();
        let is_any_over = self.tokens.as_ref().is_some_and(|tokens| {
            let mut over = tokens.expired_since(UnixTime::default(), self.reported);
            over.next().is_some()
        });
        if is_any_over {
            self.write_time(ctx);
        }
        self.rearm(ctx);
    }

    /// Reports the tokens that have expired.
    pub fn due(&mut self, ctx: &mut Context) {
        self.armed.fired();
        let now = ctx.date();
        let mut count = 0;
        if let Some(tokens) = &mut self.tokens {
            for session in tokens.expired_since(self.reported, now) {
                count += 1;
                if count <= LINES_MAX {
                    let of = tokens.opened_by(session);
                    ctx.emit_about(Some((session, of)), &ServerEvent::TokenOver {});
                }
            }
            tokens.set_time(now);
        }
        if count > LINES_MAX {
            let what = ServerEvent::TokensOver {
                count: count - LINES_MAX,
            };
            ctx.emit_about(None, &what);
        }
        self.reported = now;
        if count > 0 || self.owes_time() {
            self.write_time(ctx);
        }
        self.rearm(ctx);
    }
}
