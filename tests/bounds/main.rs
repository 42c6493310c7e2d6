//! Bounds: whatever comes in, by whichever door, what the core holds stays below what
//! `docs/security.md` states, and what it allocates for a byte, or for a request that is refused,
//! below a constant.
//! The core runs without sockets, under an allocator that counts, so all of this is exact and the
//! same in every run.
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
mod shadows;
mod sources;
mod streams;
