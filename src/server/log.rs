//! The log on stderr, and the access log. The loop never waits for a reader of them.
//!
//! Each has a thread, since a pipe without a reader, a stopped terminal and a hanging disk block
//! their writers. Lines that wait are bounded in bytes. A line that does not fit is dropped and
//! counted.

mod line;

use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Stderr, Stdout, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use mio::Waker;

use super::clock::since_1970;
use super::sandbox::{Sandbox, ThreadRole};
use crate::config::AccessLog as AccessLogTarget;
use crate::time::UnixTime;

/// Largest size of lines that wait.
const WAITING_BYTES_MAX: usize = 512 * 1024;
/// Memory of a waiting line besides its bytes.
const LINE_OVERHEAD_BYTES: usize = 64;
/// A pipe takes this size as one piece (POSIX, `PIPE_BUF`), so that lines of several writers do not
/// mix. Longer lines are cut.
const PIECE_BYTES_MAX: usize = 4096;
/// Time for the remaining lines at the end.
const LAST_LINES_TIME: Duration = Duration::from_secs(1);

/// Lines that wait for their thread.
struct Lines {
    /// `None`: no line will follow.
    tasks: Option<Sender<Task>>,
    reports: Receiver<Report>,
    /// Bytes of lines whose report has not come; at most [`WAITING_BYTES_MAX`].
    waiting_bytes: usize,
}

enum Task {
    Write(Vec<u8>),
    Reopen,
}

/// Messages from the thread.
enum Report {
    /// This many waiting bytes are written.
    Written(usize),
    /// This many bytes and lines could not be written.
    Lost(usize, u64, io::Error),
    NotReopened(io::Error),
}

/// The destination of lines.
enum Sink {
    Stderr(Stderr),
    Stdout(Stdout),
    File(File, PathBuf),
}

impl Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Sink::Stderr(stderr) => stderr.write_all(bytes),
            Sink::Stdout(stdout) => stdout.write_all(bytes).and_then(|()| stdout.flush()),
            Sink::File(file, _) => file.write_all(bytes),
        }
    }

    /// Opens the path again. If that fails, the old file stays open.
    fn reopen(&mut self) -> io::Result<()> {
        if let Sink::File(file, path) = self {
            *file = open(path)?;
        }
        Ok(())
    }
}

/// Opens a file to append to, so that another program may truncate it. Opens a FIFO for reading as
/// well: then opening does not wait for a reader, and readers may come and go.
fn open(path: &Path) -> io::Result<File> {
    let is_fifo = fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
    OpenOptions::new()
        .create(true)
        .append(true)
        .read(is_fifo)
        .mode(0o640)
        .open(path)
}

impl Lines {
    /// Starts the thread. `waker` wakes the loop for each report.
    fn start(sink: Sink, waker: Option<&'static Waker>, sandbox: Sandbox) -> io::Result<Lines> {
        let (tasks, to_do) = channel();
        let (report, reports) = channel();
        let (name, role) = match &sink {
            Sink::Stderr(_) => ("console", ThreadRole::Console),
            Sink::Stdout(_) => ("access log", ThreadRole::AccessLog(None)),
            Sink::File(_, path) => ("access log", ThreadRole::AccessLog(Some(path.clone()))),
        };
        sandbox.spawn(name, role, move || work(&to_do, sink, &report, waker))?;
        Ok(Lines {
            tasks: Some(tasks),
            reports,
            waiting_bytes: 0,
        })
    }

    /// Queues a line. Returns `false` if there is no space for it.
    fn push(&mut self, line: &str) -> bool {
        let kept = line.len().min(PIECE_BYTES_MAX - 1);
        let bytes = kept + 1 + LINE_OVERHEAD_BYTES;
        if self.waiting_bytes + bytes > WAITING_BYTES_MAX {
            return false;
        }
        let mut line_bytes = Vec::with_capacity(kept + 1);
        line_bytes.extend_from_slice(&line.as_bytes()[..kept]);
        line_bytes.push(b'\n');
        let is_ordered = self.order(Task::Write(line_bytes));
        self.waiting_bytes += if is_ordered { bytes } else { 0 };
        is_ordered
    }

    fn order(&self, task: Task) -> bool {
        let tasks = self.tasks.as_ref();
        tasks.is_some_and(|tasks| tasks.send(task).is_ok())
    }

    fn next_report(&mut self) -> Option<Report> {
        let report = self.reports.try_recv().ok()?;
        match &report {
            Report::Written(bytes) | Report::Lost(bytes, ..) => self.waiting_bytes -= bytes,
            Report::NotReopened(_) => {}
        }
        Some(report)
    }
}

/// The last lines say why a server ended, so the server waits for them, for a limited time.
impl Drop for Lines {
    fn drop(&mut self) {
        self.tasks = None;
        let end = Instant::now() + LAST_LINES_TIME;
        let left = || end.saturating_duration_since(Instant::now());
        // The thread closes the channel when it has written all lines.
        while self.reports.recv_timeout(left()).is_ok() {}
    }
}

/// Runs the thread, which writes waiting lines in as few pieces as possible.
fn work(
    tasks: &Receiver<Task>,
    mut sink: Sink,
    reports: &Sender<Report>,
    waker: Option<&'static Waker>,
) {
    let mut piece = Vec::with_capacity(PIECE_BYTES_MAX);
    let mut next = tasks.recv().ok();
    while let Some(task) = next.take() {
        let mut lines = 0;
        let report = match task {
            Task::Reopen => sink.reopen().err().map(Report::NotReopened),
            Task::Write(first) => {
                piece.clear();
                piece.extend_from_slice(&first);
                lines += 1;
                for task in tasks.try_iter() {
                    match task {
                        Task::Write(line) if piece.len() + line.len() <= PIECE_BYTES_MAX => {
                            piece.extend_from_slice(&line);
                            lines += 1;
                        }
                        other => {
                            next = Some(other);
                            break;
                        }
                    }
                }
                let bytes = piece.len() + lines * LINE_OVERHEAD_BYTES;
                Some(match sink.write(&piece) {
                    Ok(()) => Report::Written(bytes),
                    Err(error) => Report::Lost(bytes, lines as u64, error),
                })
            }
        };
        if let Some(report) = report {
            // Sending fails only if the loop is gone.
            let _ = reports.send(report);
            let _ = waker.map(Waker::wake);
        }
        next = next.or_else(|| tasks.recv().ok());
    }
}

/// The log on stderr.
pub(super) struct Console {
    lines: Lines,
    /// Whether lines begin with the time.
    has_times: bool,
    /// Whether lines are JSON.
    is_json: bool,
    left_out: u64,
}

impl Console {
    /// Starts the thread that writes to stderr.
    pub fn start(is_json: bool, sandbox: Sandbox) -> io::Result<Console> {
        Ok(Console {
            lines: Lines::start(Sink::Stderr(io::stderr()), None, sandbox)?,
            has_times: !is_of_journal(),
            is_json,
            left_out: 0,
        })
    }

    /// Writes a line to stderr, with the time if it is an event. If lines were dropped before, says
    /// how many.
    pub fn write_line(&mut self, line: &str) {
        // Without a reader, reports have no use.
        while self.lines.next_report().is_some() {}
        if self.left_out > 0 {
            let notice = format!("level=warn event=lines-not-read count={}", self.left_out);
            if self.lines.push(&self.made(&notice)) {
                self.left_out = 0;
            }
        }
        if !self.lines.push(&self.made(line)) {
            self.left_out += 1;
        }
    }

    /// Returns the line in its final form.
    fn made<'a>(&self, line: &'a str) -> Cow<'a, str> {
        let unix_seconds = since_1970().as_secs();
        let time = self.has_times.then_some(UnixTime { unix_seconds });
        match time {
            _ if self.is_json => line::as_json(line, time, PIECE_BYTES_MAX - 1).into(),
            Some(time) if line.starts_with("level=") => format!("time={time} {line}").into(),
            Some(_) | None => line.into(),
        }
    }
}

/// Returns whether stderr is systemd's journal, which adds the time itself. `$JOURNAL_STREAM` has
/// its device and inode (systemd.exec(5)).
fn is_of_journal() -> bool {
    let said = std::env::var("JOURNAL_STREAM").ok();
    let stderr = fs::metadata("/proc/self/fd/2").ok();
    let found = stderr.map(|stderr| format!("{}:{}", stderr.dev(), stderr.ino()));
    said.is_some() && said == found
}

/// The access log.
pub(super) struct AccessLog {
    lines: Lines,
    /// Lines that were dropped since the last report of this.
    left_out: u64,
}

impl AccessLog {
    /// Opens the log, and starts its thread. `waker` wakes the loop when [`AccessLog::news`] may
    /// return something.
    pub fn start(
        target: &AccessLogTarget,
        waker: &'static Waker,
        sandbox: Sandbox,
    ) -> io::Result<AccessLog> {
        let sink = match target {
            AccessLogTarget::Stdout => Sink::Stdout(io::stdout()),
            AccessLogTarget::File(path) => Sink::File(open(path)?, path.clone()),
        };
        Ok(AccessLog {
            lines: Lines::start(sink, Some(waker), sandbox)?,
            left_out: 0,
        })
    }

    /// Writes a line. Returns a log line if lines begin to be dropped.
    pub fn write_line(&mut self, line: &str) -> Option<String> {
        if self.lines.push(line) {
            return None;
        }
        self.leave_out(1, "its reader does not read them")
    }

    /// Opens the file again, which another program may have moved.
    pub fn reopen(&self) {
        // If the thread is gone, there is nothing to open.
        let _ = self.lines.order(Task::Reopen);
    }

    /// Returns the next log line about the work of the thread.
    pub fn news(&mut self) -> Option<String> {
        while let Some(report) = self.lines.next_report() {
            let news = match report {
                Report::Written(_) => self.caught_up(),
                Report::Lost(_, lines, error) => self.leave_out(lines, &error.to_string()),
                Report::NotReopened(error) => Some(format!(
                    "level=error event=access-log-not-reopened detail=\"{error}; lines still go to the old file\""
                )),
            };
            if news.is_some() {
                return news;
            }
        }
        None
    }

    /// Counts dropped lines. Returns a log line for the first of them.
    fn leave_out(&mut self, lines: u64, why: &str) -> Option<String> {
        let is_first = self.left_out == 0;
        self.left_out += lines;
        is_first.then(|| {
            format!("level=error event=access-log-not-written detail=\"{why}; lines are dropped\"")
        })
    }

    fn caught_up(&mut self) -> Option<String> {
        let is_over = self.left_out > 0 && self.lines.waiting_bytes == 0;
        is_over.then(|| {
            let left_out = std::mem::take(&mut self.left_out);
            format!("level=warn event=access-log-written-again left_out={left_out}")
        })
    }
}
