//! The rules of the house, held against the sources read as text: which module may import which,
//! what only the shell may know, where `unsafe` stands, and that `src/lib.rs` and the docs name what
//! is there.
#![cfg(feature = "default")]

mod events;
mod features;
mod graph;
mod items;
mod life;
mod paths;
mod rules;
mod sources;
mod tokens;
