//! Programs that people use, unmodified. They have to be installed, so these tests run where they
//! are asked for: `cargo test --test programs -- --ignored` (CI does).
#![cfg(feature = "default")]

#[path = "../support/spliced.rs"]
mod spliced;
#[path = "../support/mod.rs"]
mod support;

mod browser_hls;
mod caches;
mod chromium;
mod control;
mod curl;
mod decoding;
mod delay;
mod devtools;
mod docs;
mod ffmpeg;
mod firefox;
mod fronts;
mod gstreamer;
mod hls;
mod icecast;
mod joining;
mod operator;
mod prometheus;
mod proxies;
mod radio;
mod remux;
mod remuxing;
mod rtmp;
mod rtp;
mod shadows;
mod splicing;
mod tools;
mod udp;
mod vlc;
mod watch;
