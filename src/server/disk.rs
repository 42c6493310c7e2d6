//! The thread for the token file (`--token-file`). It does nothing else, so a revocation waits for
//! the disk only.
#![cfg_attr(
    not(feature = "handover"),
    allow(dead_code, reason = "a successor alone asks how the file is")
)]

mod token_file;

use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use mio::Waker;

use super::sandbox::{Sandbox, ThreadRole};
use crate::gate::{Entry, journal};
use crate::relay::{Done, JobId};
pub(super) use token_file::TokenFile;

/// The loop's ends of both channels.
pub(super) struct Disk {
    /// Space for two: the core writes one line at a time, and asks for the file once at a time.
    orders: SyncSender<Order>,
    results: Receiver<Message>,
    /// Whether a line is being written.
    is_writing: bool,
    /// The file for a successor, if it was asked for and nothing was written since.
    shared: Option<TokenFile>,
    /// Whether the file was asked for and has not come.
    is_asked: bool,
}

/// Orders to the thread.
enum Order {
    /// Write this line.
    Append(JobId, Vec<u8>),
    /// Send the file when all earlier orders are done.
    Share,
}

/// Messages from the thread.
enum Message {
    Done(JobId, Done),
    Shared(Option<TokenFile>),
}

impl Disk {
    /// Starts the thread, which ends when the result is dropped.
    pub fn start(
        token_file: TokenFile,
        (waker, sandbox): (&'static Waker, Sandbox),
    ) -> io::Result<Disk> {
        let (orders, to_do) = sync_channel(2);
        let (sender, results) = channel();
        let role = ThreadRole::Disk(token_file.folder().to_owned());
        sandbox.spawn("disk", role, move || {
            work(&to_do, token_file, &sender, waker)
        })?;
        Ok(Disk {
            orders,
            results,
            is_writing: false,
            shared: None,
            is_asked: false,
        })
    }

    /// Asks for the file, to come when all earlier orders are done.
    pub fn share(&mut self) {
        self.is_asked = self.is_asked || self.orders.try_send(Order::Share).is_ok();
    }

    /// Returns the file for a successor, if it has come and nothing was written since.
    pub fn shared(&self) -> Option<&TokenFile> {
        self.shared.as_ref()
    }

    /// Passes changes to the thread, which writes them as one line. Returns `false` if a line waits
    /// already.
    #[must_use]
    pub fn append(&mut self, job_id: JobId, entry: &Entry) -> bool {
        let line = journal::encode(&entry.records, entry.time);
        self.shared = None;
        let is_taken = self.orders.try_send(Order::Append(job_id, line)).is_ok();
        self.is_writing |= is_taken;
        is_taken
    }

    /// Returns the next result of the thread.
    pub fn next_result(&mut self) -> Option<(JobId, Done)> {
        loop {
            match self.results.try_recv().ok()? {
                Message::Done(job_id, done) => {
                    if let Done::Appended(_) = done {
                        self.is_writing = false;
                    }
                    return Some((job_id, done));
                }
                // Later orders change the file.
                Message::Shared(file) => {
                    self.is_asked = false;
                    self.shared = file.filter(|_| !self.is_writing);
                }
            }
        }
    }
}

fn work(
    orders: &Receiver<Order>,
    mut token_file: TokenFile,
    sender: &Sender<Message>,
    waker: &Waker,
) {
    let send = |news| {
        // Sending fails only if the loop is gone.
        let _ = sender.send(news);
        let _ = waker.wake();
    };
    while let Ok(order) = orders.recv() {
        match order {
            Order::Append(job_id, line) => {
                send(Message::Done(
                    job_id,
                    Done::Appended(token_file.append(&line)),
                ));
                // The caller already has its answer; the next line waits.
                if let Err(error) = token_file.compact_if_grown() {
                    send(Message::Done(job_id, Done::NotCompacted(error)));
                }
            }
            // Without file descriptors there is no copy, and the loop asks again.
            Order::Share => send(Message::Shared(token_file.share().ok())),
        }
    }
}
