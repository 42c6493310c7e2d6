//! The house, read from its sources as text: rules that hold everywhere (`rules.rs`), and figures
//! that do not get worse (`figures.rs` says how each is counted, `limits.rs` how high it may be).
//! This prints the figures, each with its limit:
//!
//! ```text
//! cargo test --test house -- --nocapture figures
//! ```
//!
//! To see what is counted in one of them, give it a lower limit: the failure names it.
#![cfg(feature = "default")]

mod calls;
mod events;
mod features;
mod figures;
mod graph;
mod items;
mod life;
mod limits;
mod paths;
mod rules;
mod sources;
mod tokens;

use figures::{Count, House};
use limits::FIGURES;

/// Of what is counted, so many are named when a figure is above its limit.
const NAMED_MAX: usize = 100;

#[test]
fn figures_stand_at_their_limits() {
    let house = House::read();
    let mut faults = String::new();
    println!("{:50} {:>6} {:>6}", "figure", "today", "limit");
    for figure in FIGURES {
        let count = (figure.count)(&house);
        let (today, limit) = (count.number(), figure.limit);
        println!("{:50} {:>6} {:>6}", figure.name, said(today), said(limit));
        if today > limit {
            faults += &format!("\n{}: {}", figure.name, verdict(today, limit));
        }
        if today > limit
            && let Count::These(these) = count
        {
            faults += &named(&these);
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

fn said(number: Option<usize>) -> String {
    number.map_or_else(|| "none".to_owned(), |number| number.to_string())
}

fn named(these: &[String]) -> String {
    let first = these.iter().take(NAMED_MAX);
    let mut lines: String = first.map(|one| format!("\n    {one}")).collect();
    if these.len() > NAMED_MAX {
        lines += &format!("\n    and {} more", these.len() - NAMED_MAX);
    }
    lines
}

/// What is to be done about a figure that is not at its limit.
fn verdict(today: Option<usize>, limit: Option<usize>) -> String {
    match (today, limit) {
        (Some(today), Some(limit)) if today > limit => {
            format!("{today} are more than the limit, which is {limit}")
        }
        (Some(_), Some(_)) => String::new(),
        (Some(today), None) => format!("set the limit in tests/house/limits.rs to {today}"),
        (None, _) => "what it counts in is gone or has another name: mend the figure".to_owned(),
    }
}
