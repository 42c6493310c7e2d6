//! `--sandbox`: each thread gives up the rights that it does not need before it starts its work. An
//! attacker inside the thread has no more rights than it.
//!
//! Two parts of the kernel do this, and no thread can undo it. seccomp(2) checks system calls
//! ([`program`]): a call that [`role`] does not list for the thread fails with EPERM. landlock(7)
//! refuses files, TCP ports and other processes. Both apply to a thread and to the threads it
//! starts. So each thread enters its sandbox first ([`Sandbox::spawn`]). The loop, which exists
//! before them, enters its own when everything is open ([`Sandbox::enter`]), and starts no thread
//! after that.
//!
//! Threads share memory. The sandbox limits their access to the machine, but does not separate them
//! from one another.

mod calls;
mod program;
mod role;
#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::thread;

use super::sys::confine::{self, Handled};
use crate::config::SandboxMode;
use calls::MACHINE;
use program::{LOGGED, REFUSED, assemble};
pub(super) use role::{LoopNeeds, ThreadRole};

/// The sandbox mode, and what this kernel supports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sandbox {
    mode: SandboxMode,
    /// Whether the kernel supports filters with the verdict of this mode.
    has_filters: bool,
    /// Version of Landlock; 0: none.
    landlock: u32,
}

impl Sandbox {
    /// Checks what this kernel supports. Call it before any other thread starts.
    pub fn new(mode: SandboxMode) -> io::Result<Sandbox> {
        let verdict = match mode {
            SandboxMode::Off => {
                return Ok(Sandbox {
                    mode,
                    has_filters: false,
                    landlock: 0,
                });
            }
            SandboxMode::Log => LOGGED,
            SandboxMode::On => REFUSED & libc::SECCOMP_RET_ACTION_FULL,
        };
        confine::gain_nothing()?;
        Ok(Sandbox {
            mode,
            has_filters: MACHINE.is_some() && confine::has_verdict(verdict),
            landlock: confine::landlock_version(),
        })
    }

    /// Starts a thread in its sandbox. Returns an error if it could not enter it.
    pub fn spawn(
        self,
        name: &str,
        role: ThreadRole,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let (sender, outcome) = sync_channel(1);
        let begin = move || {
            let entered = self.enter(&role);
            let is_in = entered.is_ok();
            // Sending fails only if the caller no longer waits.
            let _ = sender.send(entered);
            if is_in {
                work();
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(begin)?;
        let ended = |_| Err(io::Error::other("the thread has ended"));
        outcome.recv().unwrap_or_else(ended)
    }

    /// Limits this thread, and the threads it starts, to the needs of its role.
    pub fn enter(self, role: &ThreadRole) -> io::Result<()> {
        let wrong = |what: &str, error: io::Error| {
            io::Error::other(format!(
                "cannot give up {what}: {error}; --sandbox=off does without"
            ))
        };
        if self.landlock > 0 && self.mode == SandboxMode::On {
            give_up_folders(self.landlock, role).map_err(|error| wrong("files", error))?;
        }
        let refused = match self.mode {
            SandboxMode::On => REFUSED,
            SandboxMode::Log | SandboxMode::Off => LOGGED,
        };
        match MACHINE.filter(|_| self.has_filters) {
            Some(machine) => {
                let program = assemble(machine, &role.rules(), refused);
                confine::filter_calls(&program).map_err(|error| wrong("system calls", error))
            }
            None => Ok(()),
        }
    }

    /// Returns the log line about the sandbox; `None` if it is off.
    pub fn report(self) -> Option<String> {
        let calls = match (self.mode, self.has_filters) {
            (SandboxMode::Off, _) => return None,
            (SandboxMode::On, true) => "refused",
            (SandboxMode::Log, true) => "logged",
            (SandboxMode::On | SandboxMode::Log, false) => "open",
        };
        let handled = handled(self.landlock);
        let is_on = self.mode == SandboxMode::On;
        let wall = |has: u64| if is_on && has != 0 { "refused" } else { "open" };
        let walls = [handled.files, handled.ports, handled.scopes].map(wall);
        let is_whole = !is_on || (self.has_filters && walls.iter().all(|wall| *wall != "open"));
        let level = if is_whole { "info" } else { "warn" };
        let detail = match (is_whole, is_on) {
            (false, _) => "this kernel lacks the parts that are open",
            (true, true) => "each thread gave up the rights that it does not need",
            (true, false) => {
                "nothing is refused; the kernel's audit log has the calls that --sandbox=on would refuse"
            }
        };
        let [files, ports, processes] = walls;
        Some(format!(
            "level={level} event=sandbox calls={calls} files={files} ports={ports} processes={processes} landlock={} detail=\"{detail}\"",
            self.landlock
        ))
    }
}

/// Returns the accesses that this version of Landlock refuses unless a rule allows them: all that
/// it knows and this program uses.
fn handled(version: u32) -> Handled {
    let files: u64 = match version {
        0 => 0,
        1 => (1 << 13) - 1,
        2 => (1 << 14) - 1,
        3 | 4 => (1 << 15) - 1,
        _ => (1 << 16) - 1,
    };
    Handled {
        files,
        // Binding and connecting.
        ports: if version >= 4 { 0b11 } else { 0 },
        // Abstract sockets and signals.
        scopes: if version >= 6 { 0b11 } else { 0 },
    }
}

/// From linux/landlock.h, `LANDLOCK_ACCESS_NET_CONNECT_TCP`.
const CONNECT: u64 = 1 << 1;

fn give_up_folders(version: u32, role: &ThreadRole) -> io::Result<()> {
    let handled = handled(version);
    let rules = confine::ruleset(&handled)?;
    for allowed in role.folders() {
        let folder = match folder(&allowed.folder) {
            Err(error) if allowed.is_required => {
                let folder = allowed.folder.display();
                return Err(io::Error::other(format!("below '{folder}': {error}")));
            }
            Err(_) => continue,
            Ok(folder) => folder,
        };
        let accesses = allowed.accesses & handled.files;
        confine::allow_below(rules.as_fd(), folder.as_fd(), accesses)?;
    }
    if handled.ports != 0 {
        for port in role.ports() {
            confine::allow_port(rules.as_fd(), port, CONNECT)?;
        }
    }
    confine::enter(rules.as_fd())
}

/// Opens a folder by its path only, which is enough for rules.
fn folder(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
        .open(path)
}
