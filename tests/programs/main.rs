//! Programs that people use, unmodified. They have to be installed, so these tests run where they
//! are asked for: `cargo test --test programs -- --ignored` (CI does).
#![cfg(feature = "default")]

#[path = "../support/mod.rs"]
mod support;

mod browser_hls;
mod chromium;
mod curl;
mod decoding;
mod devtools;
mod ffmpeg;
mod gstreamer;
mod hls;
mod icecast;
mod joining;
mod remux;
mod rtp;
mod splicing;
mod tools;
mod vlc;
