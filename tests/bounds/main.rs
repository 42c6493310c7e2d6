//! Bounds: for any input the core's memory stays below the sum in `docs/security.md`. The bytes that
//! it allocates for each received byte and for each refused request stay below a constant.
//!
//! The core runs without sockets under a counting allocator, so all figures are exact and the same
//! in every run.
#![cfg(feature = "default")]

mod ahead;
mod anew;
mod calls;
mod counted;
mod counting;
mod datagrams;
mod hall;
mod lists;
mod media;
mod meter;
mod origins;
mod requests;
mod rtmp;
mod shadows;
mod sources;
mod streams;
mod sum;
