//! Tollgate: a streaming relay with a gate.
//!
//! Media comes in over HTTP and goes out live, to any number of viewers; with a token server, to
//! those only who hold a token. Data runs downwards in this picture, imports too; nothing below
//! knows what is above.
//!
//! ```text
//! main        arguments in, exit status out
//! server      THE SHELL: sockets, clock, signals, and nothing else
//! config      the table of options, which are written into the core's settings
//! relay       THE CORE: the whole server without a socket or a clock
//! stream      one live stream: bounded buffer, viewers' cursors, figures
//! rtp         RTP and RTCP packets, order, MPEG-TS over RTP, pacing
//! format      containers: where headers end, where decoding can begin
//! http        HTTP/1.x over bytes: heads, targets, framing, responses
//! gate        tokens, the udp-clients list, subnets
//! json        a list of objects, as another relay tells it
//! proxy_header   what a proxy says of whose connection it is
//! gather, held, moment, random, slots     what all of them are made of
//! ```
//!
//! The life of a byte: [`server`] reads it; [`relay`] asks [`http`] to unframe it; [`stream`]
//! copies it into the stream's buffer, the only copy there is, and asks [`format`] whether decoding
//! can begin here; each viewer's cursor passes over it; `relay` lends it out, framed, and `server`
//! writes it.
#![deny(unsafe_code)]

pub mod config;
pub mod format;
pub mod gate;
pub mod gather;
pub mod held;
pub mod http;
pub mod json;
pub mod moment;
pub mod proxy_header;
pub mod random;
pub mod relay;
pub mod rtp;
pub mod server;
pub mod slots;
pub mod stream;
