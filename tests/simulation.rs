//! Runs the whole core in a world that a seed decides: sources, viewers, API callers, strangers and
//! other relays, wires that split, block and break, and a clock that creeps and jumps.
//!
//! The same seed makes the same run.
//!
//! - `SIMULATION_SEED=n` runs one seed.
//! - `SIMULATION_SEEDS=n` runs n seeds, from `SIMULATION_FROM` on.
//! - `SIMULATION_STEPS=n` is the number of turns in which new clients come.
//! - `SIMULATION_HANDOVER=n` hands over in n of 100 turns of every world. Without it every third
//!   world hands over in 2 of 100 turns.
//! - `SIMULATION_TWINS=n` runs every n-th seed twice, with and without hand-overs, and compares what
//!   clients receive.

#[path = "support/picture.rs"]
#[allow(dead_code)]
mod picture;
#[path = "support/playlist.rs"]
#[allow(dead_code)]
mod playlist;
#[path = "support/response.rs"]
#[allow(dead_code)]
mod response;

mod simulation {
    pub mod chance;
    pub mod client;
    #[cfg_attr(not(feature = "remux"), path = "no_films.rs")]
    pub mod films;
    pub mod followed;
    pub mod knowledge;
    pub mod media;
    pub mod relays;
    pub mod script;
    pub mod senders;
    pub mod twins;
    pub mod wire;
    pub mod world;
}

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use simulation::knowledge::Tally;
use simulation::world::World;

const SEEDS: u64 = 15;
/// Most further worlds that are run until each of these has occurred.
const SEEDS_MAX: u64 = 60;
/// UDP outputs that must occur in some of this many worlds.
const DATAGRAMS: [&str; 6] = [
    "RTP to a host",
    "RTP to a group",
    "MPEG-TS alone to a host",
    "MPEG-TS alone to a group",
    "corrections of columns",
    "corrections of rows",
];
const STEPS: usize = 300;

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number")),
    )
}

/// The seeds that are asked for, and for how many turns clients go on coming.
fn asked_for() -> (Range<u64>, usize) {
    let steps = variable("SIMULATION_STEPS").map_or(STEPS, |steps| steps as usize);
    let seeds = match variable("SIMULATION_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let from = variable("SIMULATION_FROM").unwrap_or(1);
            from..from + variable("SIMULATION_SEEDS").unwrap_or(SEEDS_MAX)
        }
    };
    (seeds, steps)
}

/// Runs every n-th of these seeds while more are needed. Returns the sum of their counters.
fn run_all(
    (seeds, each): (Range<u64>, u64),
    is_wanted: impl Fn(u64, &Tally) -> bool + Sync,
    run: impl Fn(u64) -> Tally + Sync,
) -> Tally {
    let next = AtomicU64::new(seeds.start.next_multiple_of(each));
    let outcome = Mutex::new((Vec::new(), Tally::new()));
    let is_wanted = |seed: u64| {
        let tally = &outcome.lock().expect("no world holds it").1;
        seeds.contains(&seed) && is_wanted(seed, tally)
    };
    let worlds = || loop {
        let seed = next.fetch_add(each, Relaxed);
        if !is_wanted(seed) {
            return;
        }
        let of_seed = catch_unwind(AssertUnwindSafe(|| run(seed)));
        let (failed, tally) = &mut *outcome.lock().expect("no world holds it");
        match of_seed {
            Ok(of_seed) => {
                for (what, count) in of_seed {
                    *tally.entry(what).or_default() += count;
                }
            }
            Err(_) => {
                eprintln!("SIMULATION_SEED={seed} failed");
                failed.push(seed);
            }
        }
    };
    // A world knows of no other: each core has one of its own.
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(worlds);
        }
    });
    let (mut failed, tally) = outcome.into_inner().expect("no world holds it");
    failed.sort_unstable();
    println!("{tally:#?}");
    assert!(failed.is_empty(), "these seeds failed: {failed:?}");
    tally
}

#[test]
fn the_core_keeps_its_promises_in_any_world() {
    let (seeds, steps) = asked_for();
    let is_told = variable("SIMULATION_SEEDS").is_some();
    let first = seeds.start;
    // Whether this seed is to be run, too.
    let is_wanted = |seed: u64, tally: &Tally| {
        let has_all = DATAGRAMS.iter().all(|what| tally.contains_key(*what));
        is_told || !has_all || seed < first + SEEDS
    };
    let tally = run_all((seeds, 1), is_wanted, |seed| {
        let mut world = World::new(seed);
        world.run(steps);
        world.tally().clone()
    });
    for what in DATAGRAMS {
        assert!(
            variable("SIMULATION_SEED").is_some() || tally.contains_key(what),
            "no {what} in any world"
        );
    }
}

/// Every n-th seed is run twice.
#[cfg(feature = "handover")]
const TWINS_EACH: u64 = 12;

#[cfg(feature = "handover")]
#[test]
fn clients_see_the_same_whether_another_core_takes_over_or_not() {
    let (seeds, steps) = asked_for();
    let is_one = variable("SIMULATION_SEED").is_some();
    let each = if is_one { 1 } else { TWINS_EACH };
    let each = variable("SIMULATION_TWINS").unwrap_or(each);
    let compare = |seed| simulation::twins::compare(seed, steps);
    let tally = run_all((seeds, each), |_, _| true, compare);
    assert!(
        is_one || tally.contains_key("handed over"),
        "none took over"
    );
}
