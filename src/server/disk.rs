//! The thread for the token file (`--token-file`). What is written there is all that it does: a
//! revocation waits for nothing but the disk.

mod token_file;

use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use mio::Waker;

use crate::config::Config;
use crate::gate::{Entry, Limits, Tokens, journal};
use crate::relay::{Done, Ticket};
use crate::stamp::Stamp;
use token_file::TokenFile;

/// The loop's end of the two channels.
pub(super) struct Disk {
    /// Room for one: the core asks for the next write when the one before is done.
    lines: SyncSender<(Ticket, Vec<u8>)>,
    results: Receiver<(Ticket, Done)>,
    /// What is being written.
    held_bytes: usize,
}

impl Disk {
    /// Opens the token file, if there is to be one, and starts the thread that has it from now on;
    /// with the table that was in it, and how many bytes of a change that nobody was told of had to
    /// be dropped. Errors are sentences.
    pub fn open(
        config: &Config,
        limits: Limits,
        now: Stamp,
        waker: &'static Waker,
    ) -> Result<Option<(Disk, Tokens, u64)>, String> {
        let Some(path) = &config.token_file else {
            return Ok(None);
        };
        let (token_file, tokens, torn_bytes) = TokenFile::open(path, limits, now)?;
        let disk = Disk::start(token_file, waker);
        let disk = disk.map_err(|error| format!("cannot start the disk's thread: {error}"))?;
        Ok(Some((disk, tokens, torn_bytes)))
    }

    /// The thread ends when this is dropped.
    fn start(token_file: TokenFile, waker: &'static Waker) -> io::Result<Disk> {
        let (lines, to_write) = sync_channel(1);
        let (done, results) = channel();
        thread::Builder::new()
            .name("disk".to_owned())
            .spawn(move || work(&to_write, token_file, &done, waker))?;
        Ok(Disk {
            lines,
            results,
            held_bytes: 0,
        })
    }

    /// Has changes written, as a line. `false`: one waits already.
    #[must_use]
    pub fn append(&mut self, ticket: Ticket, entry: &Entry) -> bool {
        let line = journal::encode(&entry.records, entry.time);
        let bytes = line.capacity();
        let is_taken = self.lines.try_send((ticket, line)).is_ok();
        self.held_bytes += if is_taken { bytes } else { 0 };
        is_taken
    }

    /// A result that has come.
    pub fn next_result(&mut self) -> Option<(Ticket, Done)> {
        let result = self.results.try_recv().ok()?;
        if let Done::Appended(_) = result.1 {
            self.held_bytes = 0;
        }
        Some(result)
    }

    /// The bytes of the line that is being written.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }
}

fn work(
    lines: &Receiver<(Ticket, Vec<u8>)>,
    mut token_file: TokenFile,
    done: &Sender<(Ticket, Done)>,
    waker: &Waker,
) {
    let tell = |ticket, result| {
        // Either fails only when the loop is gone.
        let _ = done.send((ticket, result));
        let _ = waker.wake();
    };
    while let Ok((ticket, line)) = lines.recv() {
        tell(ticket, Done::Appended(token_file.append(&line)));
        // Whoever asked for the write has been told; the next one waits.
        if let Err(error) = token_file.compact_if_grown() {
            tell(ticket, Done::NotCompacted(error));
        }
    }
}
