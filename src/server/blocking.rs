//! The one thread for what must block: name look-ups, and the token file.
//!
//! It owns nothing of the server. Jobs go to it as messages, their results come back as messages, and a waker tells the loop.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use mio::{Poll, Token, Waker};

use super::token_file::TokenFile;
use crate::relay::{Done, Job, Ticket};

/// Jobs that may wait: as many as there can be connections waiting for them would be too many.
const JOBS_MAX: usize = 64;

/// The loop's end of the two channels.
pub(super) struct Helper {
    jobs: SyncSender<(Ticket, Job)>,
    results: Receiver<(Ticket, Done)>,
}

impl Helper {
    /// Starts the thread, which has the token file from now on. It ends when this is dropped and its last job is done.
    pub fn start(
        poll: &Poll,
        token: Token,
        mut token_file: Option<TokenFile>,
    ) -> std::io::Result<Helper> {
        let waker = Waker::new(poll.registry(), token)?;
        let (jobs, to_do) = sync_channel(JOBS_MAX);
        let (done, results) = sync_channel(JOBS_MAX);
        thread::Builder::new()
            .name("helper".to_owned())
            .spawn(move || work(&to_do, &done, &waker, token_file.as_mut()))?;
        Ok(Helper { jobs, results })
    }

    /// Hands a job over. `false`: too many wait already.
    #[must_use]
    pub fn ask(&self, ticket: Ticket, job: Job) -> bool {
        match self.jobs.try_send((ticket, job)) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }

    /// A result that has come.
    pub fn next_result(&self) -> Option<(Ticket, Done)> {
        self.results.try_recv().ok()
    }
}

fn work(
    jobs: &Receiver<(Ticket, Job)>,
    done: &SyncSender<(Ticket, Done)>,
    waker: &Waker,
    mut token_file: Option<&mut TokenFile>,
) {
    while let Ok((ticket, job)) = jobs.recv() {
        let result = perform(&job, token_file.as_deref_mut());
        if done.send((ticket, result)).is_err() {
            return;
        }
        // It fails only when the loop is gone.
        let _ = waker.wake();
        if let Some(token_file) = &mut token_file {
            token_file.compact_if_grown();
        }
    }
}

fn perform(job: &Job, token_file: Option<&mut TokenFile>) -> Done {
    match job {
        Job::Append(line) => Done::Appended(match token_file {
            Some(token_file) => token_file.append(line),
            None => Err("there is none".to_owned()),
        }),
        Job::Resolve(names) => Done::Resolved(
            names
                .iter()
                .map(|(name, port)| resolve(name, *port))
                .collect(),
        ),
    }
}

fn resolve(name: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    match (name, port).to_socket_addrs() {
        Ok(addresses) => Ok(addresses.collect()),
        Err(error) => Err(error.to_string()),
    }
}
