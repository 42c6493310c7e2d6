//! Resolves names. A few threads do it, since it blocks; each has one name at a time.
//!
//! A hanging resolver can block a thread for minutes. So each call has a deadline; names that no
//! thread has taken by then are dropped. Calls take turns, and a call gets a thread only if more
//! threads are free than it has. So a call whose names all hang leaves half of the threads to
//! others. All threads start with the server, since later the sandbox would give them too few
//! rights.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, Sender, channel};

use mio::Waker;

use super::sandbox::{Sandbox, ThreadRole};
use crate::relay::{ADDRESSES_MAX, Done, JobId, RESOLVE_TIME};
use crate::time::Instant;

/// Largest number of names at a time.
const THREADS_MAX: usize = 8;
/// Largest number of calls that wait.
const CALLS_MAX: usize = 64;
const NAMES_BYTES_MAX: usize = 1024 * 1024;

/// A name and its port.
type Name = (String, u16);
/// The addresses of a name, or the error.
type Addresses = Result<Vec<SocketAddr>, String>;

/// All look-ups.
pub(super) struct LookUps {
    /// At least one, at most [`THREADS_MAX`].
    threads: Vec<Thread>,
    /// Calls without an answer. The first one gets the next thread.
    calls: VecDeque<Call>,
    results: Receiver<LookUpResult>,
}

struct Thread {
    tasks: Sender<Task>,
    is_free: bool,
}

/// A name to resolve: its call, its index in the call, and the name.
type Task = (JobId, usize, Name);

/// Names that are resolved together.
struct Call {
    job_id: JobId,
    until: Instant,
    /// Names that no thread has taken yet, the first one last.
    left: Vec<Name>,
    answers: Vec<Option<Addresses>>,
    /// Number of names without a result.
    missing: usize,
    /// Number of threads that resolve its names.
    threads: usize,
    /// Its memory; that of all calls is at most [`NAMES_BYTES_MAX`].
    memory_bytes: usize,
}

/// A result: the thread's number, the call, the index of the name, and the addresses.
struct LookUpResult {
    thread: usize,
    job_id: JobId,
    name: usize,
    addresses: Addresses,
}

impl LookUps {
    /// Starts the threads. Each ends when the result is dropped and its name is done.
    pub fn start(waker: &'static Waker, sandbox: Sandbox) -> io::Result<LookUps> {
        LookUps::with(resolve, waker, sandbox)
    }

    fn with(
        resolve: fn(&Name) -> Addresses,
        waker: &'static Waker,
        sandbox: Sandbox,
    ) -> io::Result<LookUps> {
        let (found, results) = channel();
        let mut threads = Vec::with_capacity(THREADS_MAX);
        for number in 0..THREADS_MAX {
            let (tasks, to_do) = channel();
            let found = found.clone();
            let work = move || work(&to_do, (number, &found), resolve, waker);
            match sandbox.spawn(&format!("names {number}"), ThreadRole::Names, work) {
                // The system allows no more threads, and fewer will do.
                Err(_) if number > 0 => break,
                started => started?,
            }
            threads.push(Thread {
                tasks,
                is_free: true,
            });
        }
        Ok(LookUps {
            threads,
            calls: VecDeque::new(),
            results,
        })
    }

    /// Begins to resolve names. Returns `false` if too many wait.
    #[must_use]
    pub fn ask(&mut self, job_id: JobId, mut names: Vec<Name>, now: Instant) -> bool {
        let texts = names.iter().map(|(name, _)| name.capacity());
        let each = size_of::<Name>() + size_of::<Option<Addresses>>();
        let memory_bytes = texts.sum::<usize>() + names.capacity() * each;
        if self.calls.len() >= CALLS_MAX || self.memory_bytes() + memory_bytes > NAMES_BYTES_MAX {
            return false;
        }
        let answers: Vec<_> = names.iter().map(|_| None).collect();
        names.reverse();
        self.calls.push_front(Call {
            job_id,
            until: now + RESOLVE_TIME,
            left: names,
            missing: answers.len(),
            answers,
            threads: 0,
            memory_bytes,
        });
        self.hand_out();
        true
    }

    /// Returns the memory of all calls.
    fn memory_bytes(&self) -> usize {
        self.calls.iter().map(|call| call.memory_bytes).sum()
    }

    /// Passes names to threads, while a call may have one.
    fn hand_out(&mut self) {
        let mut passed_over = 0;
        while passed_over < self.calls.len() {
            let free = self.threads.iter().filter(|thread| thread.is_free).count();
            let Some(mut call) = self.calls.pop_front() else {
                return;
            };
            let is_given = call.threads < free && self.give(&mut call);
            passed_over = if is_given { 0 } else { passed_over + 1 };
            self.calls.push_back(call);
        }
    }

    /// Passes the call's next name to a thread. Returns `false` if there is none of either.
    fn give(&mut self, call: &mut Call) -> bool {
        if call.left.is_empty() {
            return false;
        }
        let Some(thread) = self.threads.iter_mut().find(|thread| thread.is_free) else {
            return false;
        };
        let index = call.answers.len() - call.left.len();
        let Some(name) = call.left.pop() else {
            return false;
        };
        thread.is_free = false;
        call.threads += 1;
        thread.tasks.send((call.job_id, index, name)).is_ok()
    }

    /// Returns a call that has all results, or whose deadline is over.
    pub fn next_result(&mut self, now: Instant) -> Option<(JobId, Done)> {
        while let Ok(found) = self.results.try_recv() {
            self.note(found);
        }
        let is_done = |call: &Call| call.missing == 0 || call.until <= now;
        let index = self.calls.iter().position(is_done)?;
        let call = self.calls.remove(index)?;
        let late = || Err(format!("no answer within {} s", RESOLVE_TIME.as_secs()));
        let answers = call.answers.into_iter();
        let answers = answers.map(|answer| answer.unwrap_or_else(late)).collect();
        Some((call.job_id, Done::Resolved(answers)))
    }

    /// Handles a result, unless its call is over. Its thread is free again.
    fn note(&mut self, found: LookUpResult) {
        if let Some(thread) = self.threads.get_mut(found.thread) {
            thread.is_free = true;
        }
        let mut calls = self.calls.iter_mut();
        if let Some(call) = calls.find(|call| call.job_id == found.job_id) {
            call.threads -= 1;
            if let Some(answer) = call.answers.get_mut(found.name) {
                let addresses = found.addresses.as_ref().map_or(0, Vec::capacity);
                call.memory_bytes += addresses * size_of::<SocketAddr>();
                call.missing -= 1;
                *answer = Some(found.addresses);
            }
        }
        self.hand_out();
    }

    /// Returns the next deadline of a call.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.calls.iter().map(|call| call.until).min()
    }
}

/// Runs a thread, which resolves one name after another.
fn work(
    to_do: &Receiver<Task>,
    (number, found): (usize, &Sender<LookUpResult>),
    resolve: fn(&Name) -> Addresses,
    waker: &Waker,
) {
    while let Ok((job_id, name, sought)) = to_do.recv() {
        // Sending fails only if the loop is gone.
        let _ = found.send(LookUpResult {
            thread: number,
            job_id,
            name,
            addresses: resolve(&sought),
        });
        let _ = waker.wake();
    }
}

fn resolve((name, port): &Name) -> Addresses {
    match (name.as_str(), *port).to_socket_addrs() {
        // One more than allowed, so that the core sees that there are too many.
        Ok(addresses) => Ok(addresses.take(ADDRESSES_MAX + 1).collect()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SandboxMode;
    use mio::{Events, Poll, Token};
    use std::thread;
    use std::time::Duration;

    /// A resolver that answers for some names, and hangs for others.
    fn play(&(ref name, port): &Name) -> Addresses {
        while name.starts_with("hangs") {
            thread::park();
        }
        match name.as_str() {
            "unknown" => Err("no such name".to_owned()),
            _ => Ok(vec![SocketAddr::from(([10, 0, 0, 1], port))]),
        }
    }

    struct Stage {
        poll: Poll,
        look_ups: LookUps,
        now: Instant,
    }

    impl Stage {
        fn new() -> Stage {
            let poll = Poll::new().expect("a poll");
            let waker = Waker::new(poll.registry(), Token(0)).expect("a waker");
            let sandbox = Sandbox::new(SandboxMode::Off).expect("none");
            let look_ups =
                LookUps::with(play, Box::leak(Box::new(waker)), sandbox).expect("threads");
            Stage {
                poll,
                look_ups,
                now: Instant::START,
            }
        }

        fn ask(&mut self, job_id: u64, names: &[&str]) -> bool {
            let names = names.iter().map(|name| ((*name).to_owned(), 7)).collect();
            self.look_ups.ask(JobId(job_id), names, self.now)
        }

        /// Waits like the loop, without a clock.
        #[track_caller]
        fn next(&mut self) -> (u64, Vec<Addresses>) {
            loop {
                match self.look_ups.next_result(self.now) {
                    Some((job_id, Done::Resolved(answers))) => return (job_id.0, answers),
                    Some(other) => panic!("{other:?}"),
                    None => {}
                }
                let mut events = Events::with_capacity(8);
                let time = Some(Duration::from_secs(30));
                match self.poll.poll(&mut events, time) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                    polled => polled.expect("it waits"),
                }
                assert!(!events.is_empty(), "nothing is found any more");
            }
        }
    }

    impl Stage {
        /// Waits until the first name of each call has a result, and no call is complete.
        fn await_first_names(&mut self) {
            let is_missing = |call: &Call| call.answers[0].is_none();
            while self.look_ups.calls.iter().any(is_missing) {
                assert!(self.look_ups.next_result(self.now).is_none());
                thread::yield_now();
            }
        }
    }

    fn good() -> Addresses {
        Ok(vec![SocketAddr::from(([10, 0, 0, 1], 7))])
    }

    #[test]
    fn each_name_has_its_answer_in_its_place() {
        let mut stage = Stage::new();
        let names: Vec<String> = (0..256).map(|number| format!("name-{number}")).collect();
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        names[3] = "unknown";
        assert!(stage.ask(1, &names));
        let (job_id, answers) = stage.next();
        assert_eq!((job_id, answers.len()), (1, 256));
        assert_eq!(answers[3], Err("no such name".to_owned()));
        assert!(answers.iter().filter(|answer| **answer == good()).count() == 255);
        assert_eq!(stage.look_ups.memory_bytes(), 0);
        assert_eq!(stage.look_ups.next_deadline(), None);
    }

    /// One by one, 256 names that hang would take twenty minutes.
    #[test]
    fn names_that_hang_hold_up_nobody_and_have_one_deadline() {
        let mut stage = Stage::new();
        let mut hanging = vec!["hangs"; 256];
        hanging[0] = "good";
        assert!(stage.ask(1, &hanging));
        assert!(stage.ask(2, &hanging));
        for job_id in 3..20 {
            assert!(stage.ask(job_id, &["good", "unknown"]));
            let (answered, answers) = stage.next();
            assert_eq!(answered, job_id);
            assert_eq!(answers, [good(), Err("no such name".to_owned())]);
        }
        stage.await_first_names();
        let due = stage.look_ups.next_deadline().expect("a deadline");
        assert_eq!(due, Instant::START + RESOLVE_TIME);
        stage.now = due;
        for job_id in [1, 2] {
            let (answered, answers) = stage.next();
            assert_eq!(answered, job_id);
            assert_eq!(answers[0], good());
            let late = "no answer within 5 s";
            assert!(
                answers[1..]
                    .iter()
                    .all(|answer| answer == &Err(late.to_owned()))
            );
        }
        assert_eq!(stage.look_ups.memory_bytes(), 0);
        assert!(stage.look_ups.threads.len() <= THREADS_MAX);
        // Their threads still hang.
        assert!(stage.ask(20, &["good"]));
        assert_eq!(stage.next(), (20, vec![good()]));
    }

    #[test]
    fn waiting_names_are_bounded_in_number_and_bytes() {
        let mut stage = Stage::new();
        let asked = (0..1000).take_while(|job_id| stage.ask(*job_id, &["hangs"]));
        assert_eq!(asked.count(), CALLS_MAX);
        let mut stage = Stage::new();
        let long = format!("hangs{}", "x".repeat(240));
        let names = vec![long.as_str(); 256];
        let asked = (0..1000).take_while(|job_id| stage.ask(*job_id, &names));
        assert!((8..CALLS_MAX).contains(&asked.count()));
        assert!(stage.look_ups.memory_bytes() <= NAMES_BYTES_MAX);
        stage.now = Instant::START + RESOLVE_TIME;
        while stage.look_ups.next_result(stage.now).is_some() {}
        assert_eq!(stage.look_ups.memory_bytes(), 0);
    }
}
