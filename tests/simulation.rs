//! The whole core in a world that a seed decides: sources, viewers, callers, strangers and other
//! relays on wires that split, block and break, and a clock that creeps and jumps.
//!
//! The same seed makes the same run. `SIMULATION_SEED=n` runs one seed, `SIMULATION_SEEDS=n` so
//! many of them (from `SIMULATION_FROM` on), `SIMULATION_STEPS=n` sets for how many turns clients
//! go on coming. In each third world other cores take over, behind two turns of a hundred;
//! `SIMULATION_HANDOVER=n` has them do so in all, behind so many of a hundred.

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
    pub mod wire;
    pub mod world;
}

use std::panic::{AssertUnwindSafe, catch_unwind};

use simulation::knowledge::Tally;
use simulation::world::World;

const SEEDS: u64 = 15;
/// And as many more as it takes until all of these have gone out, up to so many.
const SEEDS_MAX: u64 = 60;
/// What goes out by UDP in some of so many worlds.
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

#[test]
fn the_core_keeps_its_promises_in_any_world() {
    let steps = variable("SIMULATION_STEPS").map_or(STEPS, |steps| steps as usize);
    let seeds = match variable("SIMULATION_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let from = variable("SIMULATION_FROM").unwrap_or(1);
            from..from + variable("SIMULATION_SEEDS").unwrap_or(SEEDS_MAX)
        }
    };
    let mut failed = Vec::new();
    let mut tally = Tally::new();
    let is_told = variable("SIMULATION_SEEDS").is_some();
    for seed in seeds.clone() {
        let has_all = DATAGRAMS.iter().all(|what| tally.contains_key(*what));
        if !is_told && has_all && seed >= seeds.start + SEEDS {
            break;
        }
        let run = catch_unwind(AssertUnwindSafe(|| {
            let mut world = World::new(seed);
            world.run(steps);
            world.tally().clone()
        }));
        match run {
            Ok(of_seed) => {
                for (what, count) in of_seed {
                    *tally.entry(what).or_default() += count;
                }
            }
            Err(_) => {
                eprintln!("SIMULATION_SEED={seed} SIMULATION_STEPS={steps} failed");
                failed.push(seed);
            }
        }
    }
    println!("{tally:#?}");
    assert!(failed.is_empty(), "these seeds failed: {failed:?}");
    for what in DATAGRAMS {
        let is_enough = failed.is_empty() && variable("SIMULATION_SEED").is_none();
        assert!(
            !is_enough || tally.contains_key(what),
            "no {what} in any world"
        );
    }
}
