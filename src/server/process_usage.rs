//! This process' use of CPU and memory, from the kernel.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use super::sys;
use crate::relay::Process;
use crate::time::Instant;

/// Figures are at most this old.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// Reads the figures.
pub(super) struct ProcessUsage {
    /// `None`: this system has no such file.
    memory: Option<File>,
    page_bytes: u64,
    next_sample: Instant,
}

impl ProcessUsage {
    /// Returns a reader that has read nothing yet.
    pub fn new() -> ProcessUsage {
        ProcessUsage {
            memory: File::open("/proc/self/statm").ok(),
            page_bytes: sys::process::page_bytes(),
            next_sample: Instant::START,
        }
    }

    /// Returns the figures, if the last ones are old.
    pub fn sample(&mut self, now: Instant) -> Option<Process> {
        if now < self.next_sample {
            return None;
        }
        self.next_sample = now + SAMPLE_EVERY;
        let pages = self.pages();
        let bytes = |index: usize| Some(pages?[index] * self.page_bytes);
        Some(Process {
            cpu: sys::process::cpu_time(),
            virtual_bytes: bytes(0),
            resident_bytes: bytes(1),
        })
    }

    /// Returns the virtual and the resident pages (proc_pid_statm(5)).
    fn pages(&self) -> Option<[u64; 2]> {
        let mut text = [0; 128];
        let length = self.memory.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..length)?).ok()?;
        let mut words = text.split_ascii_whitespace();
        let mut next = || words.next()?.parse().ok();
        Some([next()?, next()?])
    }
}
