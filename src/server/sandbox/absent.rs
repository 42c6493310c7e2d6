//! In the place of `sandbox` in a program that is built without it: threads may do what the process
//! may.
#![allow(dead_code, reason = "nobody asks what a thread needs")]

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread;

use crate::config::{Config, SandboxMode};

/// What there is none of.
#[derive(Clone, Copy)]
pub(super) struct Sandbox {}

/// Which nobody has to know.
pub(super) enum ThreadRole {
    Loop(LoopNeeds),
    Console,
    AccessLog(Option<PathBuf>),
    Disk(PathBuf),
    Names,
}

/// Nor this.
pub(super) struct LoopNeeds {}

impl LoopNeeds {
    pub fn of(_: &Config) -> LoopNeeds {
        LoopNeeds {}
    }
}

impl Sandbox {
    pub fn new(_: SandboxMode) -> io::Result<Sandbox> {
        Ok(Sandbox {})
    }

    pub fn spawn(
        self,
        name: &str,
        _: ThreadRole,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let (sender, begun) = channel();
        let begin = move || {
            // This is the thread's first allocation. For one, the C library opens a file for a
            // moment, and open files are counted when all threads have begun.
            let _ = sender.send(());
            work();
        };
        thread::Builder::new().name(name.to_owned()).spawn(begin)?;
        begun.recv().map_err(io::Error::other)
    }

    pub fn enter(self, _: &ThreadRole) -> io::Result<()> {
        Ok(())
    }

    pub fn report(self) -> Option<String> {
        None
    }
}
