//! What a client or an operator can see, through the real program over real sockets: a file a
//! subject. All are one crate, which is built once, and none waits until the last of another file
//! is over.

#[cfg(feature = "remux")]
#[allow(dead_code, reason = "the doors themselves are for fuzzing")]
#[path = "../doors/remux.rs"]
mod door;
#[path = "../support/mod.rs"]
mod support;

mod access_log;
mod admission;
mod api;
mod callers;
mod ceiling;
mod command_line;
mod demo;
mod draining;
mod events;
mod framing;
#[cfg(feature = "default")]
mod gate;
#[cfg(feature = "hls")]
mod hls_http;
#[cfg(feature = "default")]
mod hold;
mod hostile;
#[cfg(feature = "icecast")]
mod icecast;
mod keys;
mod limits;
#[cfg(feature = "page")]
mod many;
mod metrics;
mod no_joins;
mod origin;
#[cfg(feature = "page")]
mod page;
mod peers;
mod proxies;
mod quota;
#[cfg(feature = "default")]
mod rtmp;
mod rtp;
#[cfg(feature = "hls")]
mod seats;
#[cfg(feature = "default")]
mod shadows;
mod streaming;
mod systemd;
mod udp;
mod viewers;
mod waiting;
