//! The thread for the token file (`--token-file`). What is written there is all that it does: a
//! revocation waits for nothing but the disk.
#![cfg_attr(
    not(feature = "handover"),
    allow(dead_code, reason = "a successor alone asks how the file is")
)]

mod token_file;

use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use mio::Waker;

use super::sandbox::{Role, Sandbox};
use crate::config::Config;
use crate::gate::{Entry, Limits, Tokens, journal};
use crate::relay::{Done, JobId};
use crate::time::UnixTime;
pub(super) use token_file::TokenFile;

/// The loop's end of the two channels.
pub(super) struct Disk {
    /// Room for two: the core asks for the next write when the one before is done, and the file is
    /// asked for once at a time.
    orders: SyncSender<Order>,
    results: Receiver<Told>,
    /// What is being written.
    held_bytes: usize,
    /// The file as it is, if that was asked for and nothing has been written since.
    shared: Option<TokenFile>,
    /// That was asked for, and has not been answered.
    is_asked: bool,
}

/// What the thread is to do.
enum Order {
    /// Write this line.
    Append(JobId, Vec<u8>),
    /// Tell how the file is, when all before is done.
    Share,
}

/// What it has to tell.
enum Told {
    Done(JobId, Done),
    Shared(Option<TokenFile>),
}

impl Disk {
    /// Opens the token file, if there is to be one, and starts the thread that has it from now on;
    /// with the table that was in it, and how many bytes of a change that nobody was told of had to
    /// be dropped. Errors are sentences.
    pub fn open(
        config: &Config,
        limits: Limits,
        now: UnixTime,
        threads: (&'static Waker, Sandbox),
    ) -> Result<Option<(Disk, Tokens, u64)>, String> {
        let Some(path) = &config.token_file else {
            return Ok(None);
        };
        let (token_file, tokens, torn_bytes) = TokenFile::open(path, limits, now)?;
        let disk = Disk::start(token_file, threads);
        let disk = disk.map_err(|error| format!("cannot start the disk's thread: {error}"))?;
        Ok(Some((disk, tokens, torn_bytes)))
    }

    /// The thread ends when this is dropped.
    pub fn start(
        token_file: TokenFile,
        (waker, sandbox): (&'static Waker, Sandbox),
    ) -> io::Result<Disk> {
        let (orders, to_do) = sync_channel(2);
        let (told, results) = channel();
        let role = Role::Disk(token_file.folder().to_owned());
        sandbox.spawn("disk", role, move || work(&to_do, token_file, &told, waker))?;
        Ok(Disk {
            orders,
            results,
            held_bytes: 0,
            shared: None,
            is_asked: false,
        })
    }

    /// Asks for the file as it is when all that was ordered before is done.
    pub fn share(&mut self) {
        self.is_asked = self.is_asked || self.orders.try_send(Order::Share).is_ok();
    }

    /// The file as it is, for another process, if that was asked for and nothing has been written
    /// since.
    pub fn shared(&self) -> Option<&TokenFile> {
        self.shared.as_ref()
    }

    /// Has changes written, as a line. `false`: one waits already.
    #[must_use]
    pub fn append(&mut self, ticket: JobId, entry: &Entry) -> bool {
        let line = journal::encode(&entry.records, entry.time);
        let bytes = line.capacity();
        self.shared = None;
        let is_taken = self.orders.try_send(Order::Append(ticket, line)).is_ok();
        self.held_bytes += if is_taken { bytes } else { 0 };
        is_taken
    }

    /// A result that has come.
    pub fn next_result(&mut self) -> Option<(JobId, Done)> {
        loop {
            match self.results.try_recv().ok()? {
                Told::Done(ticket, done) => {
                    if let Done::Appended(_) = done {
                        self.held_bytes = 0;
                    }
                    return Some((ticket, done));
                }
                // What has been ordered meanwhile makes it another.
                Told::Shared(file) => {
                    self.is_asked = false;
                    self.shared = file.filter(|_| self.held_bytes == 0);
                }
            }
        }
    }

    /// The bytes of the line that is being written.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }
}

fn work(orders: &Receiver<Order>, mut token_file: TokenFile, told: &Sender<Told>, waker: &Waker) {
    let tell = |news| {
        // Either fails only when the loop is gone.
        let _ = told.send(news);
        let _ = waker.wake();
    };
    while let Ok(order) = orders.recv() {
        match order {
            Order::Append(ticket, line) => {
                tell(Told::Done(ticket, Done::Appended(token_file.append(&line))));
                // Whoever asked for the write has been told; the next one waits.
                if let Err(error) = token_file.compact_if_grown() {
                    tell(Told::Done(ticket, Done::NotCompacted(error)));
                }
            }
            // Without descriptors there is none: it is asked for again.
            Order::Share => tell(Told::Shared(token_file.share().ok())),
        }
    }
}
