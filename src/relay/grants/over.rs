//! Tokens that are over: who is told, and what the disk keeps of it.
//!
//! What is over is known without this: whoever asks is told so by the time that it is. But a clock
//! that is set back while the server is down would open it again; so how late it has been is
//! written whenever a token is over.

use super::{Fault, Grants};
use crate::gate::SessionId;
use crate::relay::Level;
use crate::relay::desk::Desk;
use crate::relay::happening::Happening;
use crate::relay::timers::Owner;
use crate::stamp::Stamp;

/// As many as are over at once have a line of the log of their own.
const LINES_MAX: usize = 16;

/// What has happened to a sessionid's tokens, in the log and to whoever follows the events.
pub(super) fn tell(desk: &mut Desk, (name, of): (&SessionId, &SessionId), what: &Happening<'_>) {
    let (event, digest) = (what.name(), name.digest());
    match (name == of, what.tuples()) {
        (true, None) => desk.log_change(format_args!("event={event} session={digest}")),
        (true, Some(tuples)) => {
            desk.log_change(format_args!(
                "event={event} session={digest} tuples={tuples}"
            ));
        }
        (false, _) => {
            let opened = of.digest();
            desk.log_change(format_args!("event={event} session={digest} for={opened}"));
        }
    }
    desk.tell_about((Some(name), Some(of)), what);
}

impl Grants {
    /// Wakes the table when the next token will be over.
    pub fn rearm(&mut self, desk: &mut Desk) {
        let tokens = self.tokens.as_ref();
        if let Some(shuts) = tokens.and_then(|tokens| tokens.next_shut(self.told)) {
            let deadline = desk.moment_of(shuts);
            desk.arm(&mut self.armed, Owner::Tokens, deadline);
        }
    }

    /// At the start. What was over before is not said again, but it is written that it is: that may
    /// not have come to the disk.
    pub(super) fn take_over(&mut self, fault: Fault<'_>, desk: &mut Desk) {
        self.told = desk.date().0;
        let is_any_over = self.tokens.as_ref().is_some_and(|tokens| {
            let mut over = tokens.shut_since(Stamp::default(), self.told);
            over.next().is_some()
        });
        if is_any_over {
            self.write_time(fault, desk);
        }
        self.rearm(desk);
    }

    /// A token may be over.
    pub fn due(&mut self, fault: Fault<'_>, desk: &mut Desk) {
        self.armed.fired();
        let now = desk.date().0;
        let mut count = 0;
        if let Some(tokens) = &mut self.tokens {
            for session in tokens.shut_since(self.told, now) {
                count += 1;
                if count <= LINES_MAX {
                    let of = tokens.opened_by(session);
                    tell(desk, (session, of), &Happening::TokenOver {});
                }
            }
            tokens.tell_time(now);
        }
        if count > LINES_MAX {
            let what = Happening::TokensOver {
                count: count - LINES_MAX,
            };
            desk.tell_about((None, None), &what);
            let event = format_args!("event=tokens-over count={}", count - LINES_MAX);
            desk.log(Level::Info, event);
        }
        self.told = now;
        if count > 0 {
            self.write_time(fault, desk);
        }
        self.rearm(desk);
    }
}
