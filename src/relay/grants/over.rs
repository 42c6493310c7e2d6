//! Tokens that are over: who is told, and what the disk keeps of it.
//!
//! What is over is known without this: whoever asks is told so by the time that it is. But a clock
//! that is set back while the server is down would open it again; so how late it has been is
//! written whenever a token is over.

use super::{Fault, Grants};
use crate::relay::context::Context;
use crate::relay::server_event::ServerEvent;
use crate::relay::timers::Owner;
use crate::time::UnixTime;

/// As many as are over at once have a line of the log of their own.
const LINES_MAX: usize = 16;

impl Grants {
    /// Wakes the table when the next token will be over.
    pub fn rearm(&mut self, ctx: &mut Context) {
        let tokens = self.tokens.as_ref();
        if let Some(shuts) = tokens.and_then(|tokens| tokens.next_shut(self.told)) {
            let deadline = ctx.instant_of(shuts);
            ctx.arm(&mut self.armed, Owner::Tokens, deadline);
        }
    }

    /// At the start. What was over before is not said again, but it is written that it is: that may
    /// not have come to the disk.
    pub(super) fn take_over(&mut self, fault: Fault<'_>, ctx: &mut Context) {
        self.told = ctx.date();
        let is_any_over = self.tokens.as_ref().is_some_and(|tokens| {
            let mut over = tokens.shut_since(UnixTime::default(), self.told);
            over.next().is_some()
        });
        if is_any_over {
            self.write_time(fault, ctx);
        }
        self.rearm(ctx);
    }

    /// A token may be over.
    pub fn due(&mut self, fault: Fault<'_>, ctx: &mut Context) {
        self.armed.fired();
        let now = ctx.date();
        let mut count = 0;
        if let Some(tokens) = &mut self.tokens {
            for session in tokens.shut_since(self.told, now) {
                count += 1;
                if count <= LINES_MAX {
                    let of = tokens.opened_by(session);
                    ctx.emit_about(Some((session, of)), &ServerEvent::TokenOver {});
                }
            }
            tokens.tell_time(now);
        }
        if count > LINES_MAX {
            let what = ServerEvent::TokensOver {
                count: count - LINES_MAX,
            };
            ctx.emit_about(None, &what);
        }
        self.told = now;
        if count > 0 {
            self.write_time(fault, ctx);
        }
        self.rearm(ctx);
    }
}
