//! Signals as events of the loop.
//!
//! They are blocked, so they interrupt nothing, and are read from a descriptor (signalfd(2)).
//! SIGHUP is included, so that closing a terminal does not end the server. Signals that have no
//! meaning here are ignored. SIGKILL and SIGQUIT keep their effect.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};

use super::sys;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalAction {
    /// SIGTERM, SIGINT: end; a second one, at once.
    End,
    /// SIGHUP: open the access log anew.
    ReopenLog,
}

/// The descriptor of the signals.
pub(super) struct Signals(File);

impl Signals {
    /// Blocks the signals, and reads them from a descriptor. Call it before any other thread
    /// starts.
    pub fn take() -> io::Result<Signals> {
        // SIGUSR1 and SIGUSR2 have no use here. A write beyond the file size limit, or to a
        // terminal from its background, fails in its own thread, and streams continue.
        sys::process::ignore_signals(&[libc::SIGUSR1, libc::SIGUSR2, libc::SIGXFSZ, libc::SIGTTOU]);
        let descriptor =
            sys::process::signal_descriptor(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP])?;
        Ok(Signals(File::from(descriptor)))
    }

    /// Returns the descriptor for poll.
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Returns the request of the next signal; `None` if none waits.
    pub fn next(&mut self) -> Option<SignalAction> {
        let mut record = [0; size_of::<libc::signalfd_siginfo>()];
        loop {
            // Reading returns complete records, which begin with the signal's number.
            self.0.read_exact(&mut record).ok()?;
            let number = u32::from_ne_bytes(*record.first_chunk()?);
            match i32::try_from(number) {
                Ok(libc::SIGTERM | libc::SIGINT) => return Some(SignalAction::End),
                Ok(libc::SIGHUP) => return Some(SignalAction::ReopenLog),
                Ok(_) | Err(_) => {}
            }
        }
    }
}
