//! Looking up names, which blocks whoever does it: a few threads, each with one name at a time.
//!
//! A resolver that hangs keeps a thread for as long as it likes. So each call has a deadline, after
//! which it is answered whatever has come; the names that no thread has taken by then are
//! forgotten. Calls take turns, and none takes a thread unless more are left free than it has: one
//! call whose names all hang leaves half of the threads to the others. All threads are started at
//! the start: later nobody here could start one that may do what they may.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, Sender, channel};

use mio::Waker;

use super::sandbox::{Role, Sandbox};
use crate::relay::{ADDRESSES_MAX, Done, ERRAND_TIME, JobId};
use crate::time::Instant;

/// Names that are looked up at a time.
const THREADS_MAX: usize = 8;
/// Calls that may wait, and what their names may hold together.
const CALLS_MAX: usize = 64;
const HELD_BYTES_MAX: usize = 1024 * 1024;

/// A name, and the port that belongs to it.
type Name = (String, u16);
/// Its addresses, or why there are none.
type Addresses = Result<Vec<SocketAddr>, String>;

/// All look-ups.
pub(super) struct LookUps {
    /// At least one, at most [`THREADS_MAX`].
    threads: Vec<Thread>,
    /// Those that are not answered, in the order in which they are next given a thread.
    calls: VecDeque<Call>,
    results: Receiver<Found>,
    /// Of all calls; at most [`HELD_BYTES_MAX`].
    held_bytes: usize,
}

struct Thread {
    tasks: Sender<Task>,
    is_free: bool,
}

/// A name that a thread is to look up, and which of its call's names it is.
type Task = (JobId, usize, Name);

/// Names that are looked up together.
struct Call {
    ticket: JobId,
    until: Instant,
    /// Those that no thread has been given, from the last to the first.
    left: Vec<Name>,
    answers: Vec<Option<Addresses>>,
    /// How many of them have not come.
    missing: usize,
    /// How many threads have a name of it.
    threads: usize,
    held_bytes: usize,
}

/// What a thread has found: its own number, and for which name of which call.
struct Found {
    thread: usize,
    ticket: JobId,
    name: usize,
    addresses: Addresses,
}

impl LookUps {
    /// Starts the threads. Each ends when this is dropped and the name that it has is found, or
    /// not.
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
            match sandbox.spawn(&format!("names {number}"), Role::Names, work) {
                // The system has no more threads: those that there are will do.
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
            held_bytes: 0,
        })
    }

    /// Has names looked up. `false`: too many wait already.
    #[must_use]
    pub fn ask(&mut self, ticket: JobId, mut names: Vec<Name>, now: Instant) -> bool {
        let texts = names.iter().map(|(name, _)| name.capacity());
        let each = size_of::<Name>() + size_of::<Option<Addresses>>();
        let held_bytes = texts.sum::<usize>() + names.capacity() * each;
        if self.calls.len() >= CALLS_MAX || self.held_bytes + held_bytes > HELD_BYTES_MAX {
            return false;
        }
        self.held_bytes += held_bytes;
        let answers: Vec<_> = names.iter().map(|_| None).collect();
        names.reverse();
        self.calls.push_front(Call {
            ticket,
            until: now + ERRAND_TIME,
            left: names,
            missing: answers.len(),
            answers,
            threads: 0,
            held_bytes,
        });
        self.hand_out();
        true
    }

    /// Gives names to threads, as long as there is one that a call may have.
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

    /// Gives a call's next name to a thread; says whether there were both.
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
        thread.tasks.send((call.ticket, index, name)).is_ok()
    }

    /// A call that is answered: all of it is found, or its time is over.
    pub fn next_result(&mut self, now: Instant) -> Option<(JobId, Done)> {
        while let Ok(found) = self.results.try_recv() {
            self.note(found);
        }
        let is_done = |call: &Call| call.missing == 0 || call.until <= now;
        let index = self.calls.iter().position(is_done)?;
        let call = self.calls.remove(index)?;
        self.held_bytes -= call.held_bytes;
        let late = || Err(format!("no answer within {} s", ERRAND_TIME.as_secs()));
        let answers = call.answers.into_iter();
        let answers = answers.map(|answer| answer.unwrap_or_else(late)).collect();
        Some((call.ticket, Done::Resolved(answers)))
    }

    /// A thread is free again. What it found counts if it is waited for still.
    fn note(&mut self, found: Found) {
        if let Some(thread) = self.threads.get_mut(found.thread) {
            thread.is_free = true;
        }
        let mut calls = self.calls.iter_mut();
        if let Some(call) = calls.find(|call| call.ticket == found.ticket) {
            call.threads -= 1;
            if let Some(answer) = call.answers.get_mut(found.name) {
                let addresses = found.addresses.as_ref().map_or(0, Vec::capacity);
                let bytes = addresses * size_of::<SocketAddr>();
                call.held_bytes += bytes;
                self.held_bytes += bytes;
                call.missing -= 1;
                *answer = Some(found.addresses);
            }
        }
        self.hand_out();
    }

    /// When [`LookUps::next_result`] has one at the latest.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.calls.iter().map(|call| call.until).min()
    }

    /// The bytes of the names that wait.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }
}

/// What a thread does.
fn work(
    to_do: &Receiver<Task>,
    (number, found): (usize, &Sender<Found>),
    resolve: fn(&Name) -> Addresses,
    waker: &Waker,
) {
    while let Ok((ticket, name, sought)) = to_do.recv() {
        // Either fails only when the loop is gone.
        let _ = found.send(Found {
            thread: number,
            ticket,
            name,
            addresses: resolve(&sought),
        });
        let _ = waker.wake();
    }
}

fn resolve((name, port): &Name) -> Addresses {
    match (name.as_str(), *port).to_socket_addrs() {
        // One more than may be, so that the core sees that there are too many.
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

    /// A resolver whose server answers for some names and never for others.
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

        fn ask(&mut self, ticket: u64, names: &[&str]) -> bool {
            let names = names.iter().map(|name| ((*name).to_owned(), 7)).collect();
            self.look_ups.ask(JobId(ticket), names, self.now)
        }

        /// Waits as the loop does, but for the clock.
        #[track_caller]
        fn next(&mut self) -> (u64, Vec<Addresses>) {
            loop {
                match self.look_ups.next_result(self.now) {
                    Some((ticket, Done::Resolved(answers))) => return (ticket.0, answers),
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
        /// Waits until the first name of each call is found, and no call is answered.
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
        let (ticket, answers) = stage.next();
        assert_eq!((ticket, answers.len()), (1, 256));
        assert_eq!(answers[3], Err("no such name".to_owned()));
        assert!(answers.iter().filter(|answer| **answer == good()).count() == 255);
        assert_eq!(stage.look_ups.held_bytes(), 0);
        assert_eq!(stage.look_ups.next_deadline(), None);
    }

    /// One after another, 256 names that hang would take twenty minutes.
    #[test]
    fn names_that_hang_hold_up_nobody_and_have_one_deadline() {
        let mut stage = Stage::new();
        let mut hanging = vec!["hangs"; 256];
        hanging[0] = "good";
        assert!(stage.ask(1, &hanging));
        assert!(stage.ask(2, &hanging));
        for ticket in 3..20 {
            assert!(stage.ask(ticket, &["good", "unknown"]));
            let (answered, answers) = stage.next();
            assert_eq!(answered, ticket);
            assert_eq!(answers, [good(), Err("no such name".to_owned())]);
        }
        stage.await_first_names();
        let due = stage.look_ups.next_deadline().expect("a deadline");
        assert_eq!(due, Instant::START + ERRAND_TIME);
        stage.now = due;
        for ticket in [1, 2] {
            let (answered, answers) = stage.next();
            assert_eq!(answered, ticket);
            assert_eq!(answers[0], good());
            let late = "no answer within 5 s";
            assert!(
                answers[1..]
                    .iter()
                    .all(|answer| answer == &Err(late.to_owned()))
            );
        }
        assert_eq!(stage.look_ups.held_bytes(), 0);
        assert!(stage.look_ups.threads.len() <= THREADS_MAX);
        // Their threads hang still.
        assert!(stage.ask(20, &["good"]));
        assert_eq!(stage.next(), (20, vec![good()]));
    }

    #[test]
    fn what_waits_is_bounded_in_number_and_in_bytes() {
        let mut stage = Stage::new();
        let asked = (0..1000).take_while(|ticket| stage.ask(*ticket, &["hangs"]));
        assert_eq!(asked.count(), CALLS_MAX);
        let mut stage = Stage::new();
        let long = format!("hangs{}", "x".repeat(240));
        let names = vec![long.as_str(); 256];
        let asked = (0..1000).take_while(|ticket| stage.ask(*ticket, &names));
        assert!((8..CALLS_MAX).contains(&asked.count()));
        assert!(stage.look_ups.held_bytes() <= HELD_BYTES_MAX);
        stage.now = Instant::START + ERRAND_TIME;
        while stage.look_ups.next_result(stage.now).is_some() {}
        assert_eq!(stage.look_ups.held_bytes(), 0);
    }
}
