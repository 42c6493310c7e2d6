//! The operator's log on stderr, and the access log: lines out of the loop, which must never wait for whoever reads them.
//!
//! A pipe is written to only when it takes a whole line at once; lines that nobody takes are counted, and left out. A file takes what
//! it is given: that is the kernel's memory, and the disk follows later.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use super::sys;
use crate::config::AccessLog as Place;

/// What a pipe that says that it takes bytes takes at least (POSIX, `PIPE_BUF`): lines are cut there.
const LINE_BYTES_MAX: usize = 4096;

/// Writes a line, if that needs no wait; says whether.
fn write_line(out: &mut (impl Write + AsFd), line: &str) -> bool {
    if !sys::takes_bytes(out.as_fd()) {
        return false;
    }
    let mut bytes = line.as_bytes().to_vec();
    bytes.truncate(LINE_BYTES_MAX - 1);
    bytes.push(b'\n');
    // Where nobody reads any more there is nobody to tell.
    let _ = out.write_all(&bytes);
    true
}

/// The operator's log.
#[derive(Default)]
pub(super) struct Console {
    left_out: u64,
}

impl Console {
    /// Writes one line to stderr; first how many were left out before, of both logs.
    pub fn tell(&mut self, line: &str) {
        let mut out = io::stderr();
        if self.left_out > 0 {
            let notice = format!("level=warn event=lines-not-read count={}", self.left_out);
            if write_line(&mut out, &notice) {
                self.left_out = 0;
            }
        }
        if !write_line(&mut out, line) {
            self.left_out += 1;
        }
    }

    /// A line of the access log was left out.
    pub fn count_left_out(&mut self) {
        self.left_out += 1;
    }
}

/// The access log. Files are appended to, so that a line is one write, and whoever moves the lines away may empty the file.
pub(super) enum AccessLog {
    Stdout,
    File(File),
}

impl AccessLog {
    pub fn open(place: &Place) -> io::Result<AccessLog> {
        match place {
            Place::Stdout => Ok(AccessLog::Stdout),
            Place::File(path) => OpenOptions::new()
                .create(true)
                .append(true)
                .mode(0o640)
                .open(path)
                .map(AccessLog::File),
        }
    }

    /// Writes one line; says whether it could be written.
    pub fn tell(&mut self, line: &str) -> bool {
        match self {
            AccessLog::Stdout => write_line(&mut io::stdout(), line),
            AccessLog::File(file) => file.write_all(format!("{line}\n").as_bytes()).is_ok(),
        }
    }
}
