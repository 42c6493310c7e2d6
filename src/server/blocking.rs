//! The one thread for what must block: name look-ups, and the token file.
//!
//! It owns nothing of the server. Jobs go to it as messages, their results come back as messages, and a waker tells the loop. A write
//! goes before all look-ups that wait: names that do not resolve can take minutes, and a revocation must not.

use std::collections::VecDeque;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use mio::{Poll, Token, Waker};

use super::token_file::TokenFile;
use crate::relay::{Done, Job, Ticket};

/// Look-ups that may wait: as many as there can be connections waiting for them would be too many.
const LOOK_UPS_MAX: usize = 64;
/// And one write, since the core asks for the next when the one before is done.
const JOBS_MAX: usize = LOOK_UPS_MAX + 1;

/// The loop's end of the two channels.
pub(super) struct Helper {
    jobs: SyncSender<(Ticket, Job)>,
    results: Receiver<(Ticket, Done)>,
    /// Those whose results have not come; at most [`LOOK_UPS_MAX`].
    look_ups: usize,
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
        Ok(Helper {
            jobs,
            results,
            look_ups: 0,
        })
    }

    /// Hands a job over. `false`: too many wait already.
    #[must_use]
    pub fn ask(&mut self, ticket: Ticket, job: Job) -> bool {
        let is_look_up = matches!(job, Job::Resolve(_));
        if is_look_up && self.look_ups >= LOOK_UPS_MAX {
            return false;
        }
        match self.jobs.try_send((ticket, job)) {
            Ok(()) => {
                self.look_ups += usize::from(is_look_up);
                true
            }
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }

    /// A result that has come.
    pub fn next_result(&mut self) -> Option<(Ticket, Done)> {
        let (ticket, done) = self.results.try_recv().ok()?;
        if let Done::Resolved(_) = done {
            self.look_ups -= 1;
        }
        Some((ticket, done))
    }
}

fn work(
    jobs: &Receiver<(Ticket, Job)>,
    done: &SyncSender<(Ticket, Done)>,
    waker: &Waker,
    mut token_file: Option<&mut TokenFile>,
) {
    let tell = |ticket, result| {
        let is_heard = done.send((ticket, result)).is_ok();
        // It fails only when the loop is gone.
        let _ = waker.wake();
        is_heard
    };
    let mut waiting = VecDeque::new();
    while let Ok(first) = jobs.recv() {
        waiting.push_back(first);
        waiting.extend(jobs.try_iter());
        while let Some((ticket, job)) = take_next(&mut waiting) {
            if !tell(ticket, perform(&job, token_file.as_deref_mut())) {
                return;
            }
            // Whoever asked for the write has been told; the next one waits.
            if let (Job::Append(_), Some(token_file)) = (&job, &mut token_file)
                && let Err(error) = token_file.compact_if_grown()
                && !tell(ticket, Done::NotCompacted(error))
            {
                return;
            }
            waiting.extend(jobs.try_iter());
        }
    }
}

/// Takes the write, if there is one, else what has waited longest.
fn take_next(waiting: &mut VecDeque<(Ticket, Job)>) -> Option<(Ticket, Job)> {
    let write = waiting
        .iter()
        .position(|(_, job)| matches!(job, Job::Append(_)));
    waiting.remove(write.unwrap_or(0))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_goes_before_look_ups() {
        let mut waiting = VecDeque::from([
            (Ticket(1), Job::Resolve(Vec::new())),
            (Ticket(2), Job::Resolve(Vec::new())),
            (Ticket(3), Job::Append(Vec::new())),
        ]);
        let order = std::iter::from_fn(|| take_next(&mut waiting)).map(|(ticket, _)| ticket.0);
        assert_eq!(order.collect::<Vec<_>>(), [3, 1, 2]);
    }
}
