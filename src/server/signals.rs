//! Signals, as events of the loop: which there are, and what each is for.
//!
//! They are blocked, so none interrupts anything, and wait in a descriptor (signalfd(2)) until they
//! are read. SIGHUP is among them so that a terminal that closes ends nothing. Those that other
//! programs take for a wish, and this one has no use for, are ignored; SIGKILL and SIGQUIT stay
//! what they are.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};

use super::sys;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// SIGTERM, SIGINT: end; a second one, at once.
    End,
    /// SIGHUP: open the access log anew.
    ReopenLog,
}

/// Where signals wait.
pub(super) struct Signals(File);

impl Signals {
    /// From now on signals wait here. To be called before there is another thread.
    pub fn take() -> io::Result<Signals> {
        // Nobody has a reason to send the first two; a write beyond the limit on the size of files,
        // or to a terminal from its background, is an error for whoever writes, and streams go on.
        sys::process::ignore_signals(&[libc::SIGUSR1, libc::SIGUSR2, libc::SIGXFSZ, libc::SIGTTOU]);
        let descriptor =
            sys::process::signal_descriptor(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP])?;
        Ok(Signals(File::from(descriptor)))
    }

    /// To be waited at.
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// What the next signal asks for; `None`: none waits.
    pub fn next(&mut self) -> Option<Wish> {
        let mut record = [0; size_of::<libc::signalfd_siginfo>()];
        loop {
            // Records come whole. Each begins with the signal's number.
            self.0.read_exact(&mut record).ok()?;
            let number = u32::from_ne_bytes(*record.first_chunk()?);
            match i32::try_from(number) {
                Ok(libc::SIGTERM | libc::SIGINT) => return Some(Wish::End),
                Ok(libc::SIGHUP) => return Some(Wish::ReopenLog),
                Ok(_) | Err(_) => {}
            }
        }
    }
}
