//! What this process takes of the machine, as the kernel counts it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use super::sys;
use crate::relay::Process;
use crate::time::Instant;

/// Whoever asks for the figures gets them no older than this.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where it is looked up.
pub(super) struct Own {
    /// `None`: there is none here.
    memory: Option<File>,
    page_bytes: u64,
    look_at: Instant,
}

impl Own {
    /// Not looked yet.
    pub fn new() -> Own {
        Own {
            memory: File::open("/proc/self/statm").ok(),
            page_bytes: sys::process::page_bytes(),
            look_at: Instant::START,
        }
    }

    /// The figures, if those before are old.
    pub fn look(&mut self, now: Instant) -> Option<Process> {
        if now < self.look_at {
            return None;
        }
        self.look_at = now + LOOK_EVERY;
        let pages = self.pages();
        let bytes = |index: usize| Some(pages?[index] * self.page_bytes);
        Some(Process {
            cpu: sys::process::cpu_time(),
            virtual_bytes: bytes(0),
            resident_bytes: bytes(1),
        })
    }

    /// Those that it may use, and those that are in memory (proc_pid_statm(5)).
    fn pages(&self) -> Option<[u64; 2]> {
        let mut text = [0; 128];
        let length = self.memory.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..length)?).ok()?;
        let mut words = text.split_ascii_whitespace();
        let mut next = || words.next()?.parse().ok();
        Some([next()?, next()?])
    }
}
