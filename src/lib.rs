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
//! post        what is on its way to a stream's UDP clients, and what each has got
//! stream      one live stream: bounded buffer, viewers' cursors, figures
//! events      what has happened, as text that is kept once for all who follow it
//! hls         where a stream's segments begin and end, and the list of them
//! remux       the same pictures and sound in another container
//! rtp         RTP and RTCP packets, order, MPEG-TS over RTP or UDP alone, pacing, corrections
//! format      containers: where headers end, where decoding can begin
//! http        HTTP/1.x over bytes: heads, targets, framing, responses
//! gate        tokens, the udp-clients list, groups, subnets
//! json        a list of objects, as another relay tells it
//! proxy_header   what a proxy says of whose connection it is
//! handover    what one process tells another that takes its place, as text
//! gather, held, random, slots, time, token_bucket   what all of them are made of
//! ```
//!
//! Within `relay` the state stands in parts (clients, streams, RTP that comes in, what is fetched,
//! what is granted, calls that wait), each with methods of its own. Parts do not call each other:
//! they return and they say, and [`relay`] routes what comes in and hears what was said.
//!
//! # The life of a byte
//!
//! - `relay::Relay::received` is handed what the shell has read of a source,
//! - `relay::Relay::read` asks piece by piece what comes of it:
//! - `relay::clients::reading::Clients::read_on` knows in which phase its connection is, and
//!   unframes it;
//! - `relay::streams::stream::Streams::append` is given the media,
//! - `relay::streams::stream::Streams::take_media` joins sources that follow each other,
//! - `relay::streams::stream::Streams::pass_on` to all who want it, in whichever container,
//! - `relay::streams::stream::Streams::give` to those of one stream:
//! - `stream::StreamBuffer::append` copies it, the only copy there is,
//! - `stream::buffer::Buffer::fill` into a block.
//!
//! It waits in the buffer until a viewer can be written to.
//!
//! - `relay::Relay::output` is asked for what a client is to get,
//! - `relay::streams::viewer::Streams::lend` frames
//! - `stream::StreamBuffer::lend` what lies from the viewer's cursor on, where it lies.
//!
//! # The life of a datagram
//!
//! - `relay::Relay::datagram` is handed what the shell has received,
//! - `relay::requests::Relay::take_datagram` asks
//! - `relay::rtp_in::RtpIn::sort` whose it is, by its address or the group it was sent to;
//! - `relay::streams::rtp::Streams::take_packet` has it forwarded as it came
//! - `post::Post::forward` to the stream's UDP clients,
//! - `rtp::reorder::Reorder::insert` put in its place,
//! - `relay::streams::stream::Streams::append` and its media goes the way of a byte.
//!
//! # The life of a hand-over
//!
//! - `relay::handover::hand_over` has each part tell what it knows, and who goes:
//! - `relay::clients::handover::Clients::hand_over` each connection, its phase and what it is owed,
//! - `relay::streams::handover::Streams::hand_over` each stream, and its viewers' places;
//! - `handover::Writer::put` makes a line of each.
//!
//! The bytes of streams have been told before, while they ran.
//!
//! - `relay::handover::media_bytes` lends them
//! - `relay::streams::handover::Streams::media_bytes` where they lie.
//!
//! In the other process they are put into a buffer, and wait for what is to be known of them.
//!
//! - `relay::handover::Successor::hear` finds the lines, as they come,
//! - `relay::handover::Told::hear` has each read by its part.
//!
//! When all have come,
//!
//! - `relay::handover::Successor::take_over` has it so,
//! - `relay::handover::Told::relay` makes a server of them:
//! - `relay::clients::handover::Clients::take_over` and
//! - `relay::streams::handover::Streams::take_over` put everybody where they were,
//! - `relay::streams::handover::Streams::seat` each stream,
//! - `stream::handover::StreamBuffer::become_whole` with its bytes and viewers;
//! - `relay::handover::agree` compares what the parts know of each other.
//!
//! # The life of a token
//!
//! - `relay::requests::Relay::call` is what a request has come to,
//! - `relay::requests::Relay::change` has it done:
//! - `relay::grants::Grants::change` makes the change now, or when it is on disk;
//! - `relay::grants::Grants::carry_out` changes
//! - `gate::tokens::Tokens::carry_out` the table, and says whose.
//!
//! Both put events into the queue of `relay::context`. The queue is emptied before the next input.
//!
//! - `relay::dispatch::Relay::dispatch` hands each event to the parts that it concerns:
//! - `relay::dispatch::Relay::tokens_changed` adjusts the streams of the session,
//! - `relay::requests::Relay::refresh_clients` sets the addresses that they go out to,
//! - `relay::rtp_in::RtpIn::forget_candidates` drops waiting sources that have no token now.
//!
//! It stands in the table until somebody comes.
//!
//! - `relay::admission::Gate::publish` is asked by every way in,
//! - `relay::admission::Gate::check_token_in` whether there is one.
#![deny(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types
    )
)]

pub mod config;
pub mod events;
pub mod format;
pub mod gate;
pub mod gather;
#[cfg(feature = "handover")]
pub mod handover;
pub mod held;
#[cfg_attr(not(feature = "hls"), path = "hls/absent.rs")]
pub mod hls;
pub mod http;
pub mod json;
pub mod post;
pub mod proxy_header;
pub mod random;
pub mod relay;
#[cfg_attr(not(feature = "remux"), path = "remux/absent.rs")]
pub mod remux;
pub mod rtp;
#[allow(clippy::disallowed_methods, reason = "the shell")]
pub mod server;
pub mod slots;
pub mod stream;
pub mod time;
pub mod token_bucket;
