//! Tollgate: a streaming relay that checks tokens.
//!
//! A source publishes a stream over HTTP or RTP. Tollgate sends it live to any number of viewers.
//! With a token server, only clients with a token may publish and watch.
//!
//! A module uses only modules below it in this list:
//!
//! ```text
//! main        arguments in, exit status out
//! server      THE SHELL: sockets, clock, signals and threads
//! config      the table of options
//! relay       THE CORE: the whole server without sockets and clocks
//! udp_out     datagrams that wait to be sent to a stream's UDP clients
//! stream      one live stream: bounded buffer, viewers' cursors, counters
//! events      the text of events for `/api/events`, shared by all its readers
//! hls         HLS segments of a stream, and their playlist
//! remux       conversion to another container
//! rtmp        RTMP of a publisher: its messages as an FLV file
//! rtp         RTP and RTCP packets, their order, MPEG-TS over RTP or UDP, pacing, FEC
//! format      containers: the end of headers, and positions where decoding can begin
//! http        HTTP/1.x over bytes: heads, targets, framing, responses
//! gate        tokens, the udp-clients list, groups, subnets
//! json        splits a peer's JSON list into rows
//! proxy_header   the PROXY protocol
//! copied, slots, time   bytes, ids and times, which a hand-over sends
//! handover    the text that one process sends to its successor
//! clean_text, gather, memory, percent, random, token_bucket   used by many
//! ```
//!
//! The core ([`relay`]) has parts: clients, streams, received datagrams, pulls, tokens, lists. A
//! part has methods of its own and does not call another part. [`relay::Relay`] calls the parts for
//! each input. A part reports to others by an event in a queue, which `relay::dispatch` empties at
//! the end of the input.
//!
//! `CONTRIBUTING.md` has the steps for a new option and for a new container.
//!
//! Each list below is a path through the code. Every function in it is called by one above it in
//! the same list.
//!
//! # The life of a byte
//!
//! The server waits for sockets, and reads the ones that have input.
//!
//! - `relay::shell::Readers::read_in_turn` reads each client that has input, within the turn's
//!   share. It reads a client a second time if the first read did not empty its socket.
//! - `relay::shell::Readers::read_from_next` takes the next client in the list,
//! - `relay::shell::Readers::read_from` reads from its socket into a buffer,
//! - `relay::Relay::received` hands these bytes to the core.
//! - `relay::Relay::read` handles them piece by piece:
//! - `relay::clients::reading::Clients::read_on` removes the framing of a source's body,
//! - `relay::streams::stream::Streams::append` takes the media for the source's stream. With
//!   `--hold` the bytes take the splicer's way below. Without it,
//! - `relay::streams::stream::Streams::append_with_remuxed` passes the bytes to the stream and its
//!   remuxed streams,
//! - `relay::streams::stream::Streams::append_to_one` adds them to one stream.
//! - `stream::StreamBuffer::append_without_wake` finds join points and headers in them,
//! - `stream::StreamBuffer::add_block` takes a new block, or the oldest one. Viewers whose next
//!   byte was there skip (`stream::skips`).
//! - `stream::buffer::Buffer::fill` copies them into a block. Without `--hold`, this is the only
//!   copy of large pieces. Pieces under 1 KiB are copied together before (`Source::take`), and
//!   input that this turn does not handle is copied, too (`Clients::keep_input`).
//! - `relay::streams::stream::Streams::bundle` lets them out to the viewers, now or a little later.
//!
//! The splicer's way, with `--hold`:
//!
//! - `relay::streams::stream::Streams::append` takes the media for the source's stream,
//! - `relay::streams::splicing::Streams::splice` lends them to the stream's splicer,
//! - `format::splice::Splicer::feed` appends the units that are whole to its output, a copy. It
//!   also joins sources that follow each other.
//! - `format::splice::Splicer::cut` finds the units, by the cutter of the container.
//! - `relay::streams::stream::Streams::append_with_remuxed` gets the first piece of the output, as
//!   above.
//!
//! Later turns pass the rest of a long output.
//!
//! - `relay::shell::Readers::read_in_turn` does this after all reading.
//! - `relay::Relay::do_deferred_work` handles one stream and one client at a time,
//! - `relay::streams::splicing::Streams::pass_spliced` takes the next piece of a stream's output,
//! - `relay::streams::stream::Streams::append_with_remuxed` passes it on, as above.
//!
//! The bytes stay in the buffer until the viewers' sockets take them.
//!
//! - `relay::shell::write_next` writes to one client.
//! - `relay::Relay::next_write` selects that client,
//! - `relay::Relay::output` returns its output:
//! - `relay::requests::Relay::prepare` prepares the response head or the next chunk,
//! - `relay::streams::viewer::Streams::prepare` decides how long the chunk is.
//! - `relay::streams::shared_chunk::SharedChunk::build` copies a small chunk with its framing, if
//!   the stream has at least eight viewers. All viewers at this cursor share the copy.
//! - `relay::streams::viewer::Streams::lend` adds the chunk's framing to the output,
//! - `relay::streams::shared_chunk::SharedChunk::get` returns the shared copy of the chunk, if
//!   there is one.
//! - `stream::StreamBuffer::lend` otherwise adds the media from the viewer's cursor on, without a
//!   copy.
//! - `relay::Relay::sent` takes the number of bytes that the socket took,
//! - `relay::streams::viewer::Streams::took` moves the viewer's cursor.
//! - `relay::Relay::served` notes whether the socket takes more.
//!
//! # The life of a datagram
//!
//! - `relay::Relay::datagram` takes a datagram from the shell.
//! - `relay::requests::Relay::take_datagram` handles it by its kind:
//! - `relay::rtp_in::RtpIn::sort` finds the stream, by the sender's address or the group,
//! - `relay::streams::rtp::Streams::take_packet` forwards the packet and puts it in order,
//! - `udp_out::UdpOut::forward` queues a copy for the stream's UDP clients,
//! - `rtp::reorder::Reorder::insert` keeps a packet that came early,
//! - `relay::streams::stream::Streams::append` takes its media, as in the life of a byte.
//!
//! # The life of an API call
//!
//! - `relay::Relay::read` handles received bytes.
//! - `relay::clients::reading::Clients::read_on` reads by the phase of the connection,
//! - `relay::clients::request::Clients::read_head` reads a head, and makes the event of a request.
//! - `relay::requests::Relay::act` handles this event,
//! - `relay::requests::Relay::request` routes the request and acts on the route:
//! - `relay::route::RequestContext::route` returns the route, or a refusal,
//! - `relay::route::RequestContext::route_of_path` goes by the path,
//! - `relay::route::RequestContext::call` routes a call of the API,
//! - `relay::admission::Gate::enter` checks the subnet, the site and the Host field,
//! - `relay::api::Call::parse` parses the parameters.
//! - `relay::requests::Relay::call` carries out the call,
//! - `relay::clients::request::Clients::answer_call` makes the answer,
//! - `relay::clients::request::Clients::respond` adds it to the connection's output.
//!
//! A list is written piece by piece, in the client's turns.
//!
//! - `relay::requests::Relay::call` carries out the call,
//! - `relay::clients::request::Clients::list` writes the head of the answer. The connection's phase
//!   is then a `ListResponse`.
//!
//! Each turn of the client, as in the life of a byte, writes a piece.
//!
//! - `relay::requests::Relay::prepare` prepares the client's next output,
//! - `relay::clients::list_response::Clients::take_due_list` takes the list, if its last piece is
//!   written,
//! - `relay::pieces::write_piece` asks another part for the next rows:
//! - `relay::streams::row::Streams::rows` returns the streams, or
//! - `relay::viewers::ListParts::rows` returns the viewers, or
//! - `relay::grants::Grants::rows` returns the tokens.
//! - `relay::clients::list_response::ListResponse::piece` writes some rows as JSON,
//! - `relay::clients::list_response::Clients::push_piece` adds them to the connection's output.
//!
//! # The life of an HLS request
//!
//! - `relay::requests::Relay::request` routes the request, as for an API call:
//! - `relay::route::RequestContext::route` returns the route, or a refusal,
//! - `relay::route::RequestContext::route_of_path` goes by the path,
//! - `relay::route::RequestContext::stream_as` routes a playlist, a segment or a remuxed stream,
//! - `relay::admission::watchers::Gate::admit_hls` checks the token.
//! - `relay::dispatch::Relay::watch` answers the request, or lets it wait.
//! - `relay::streams::hls::Streams::play` selects the stream in a container that HLS can carry,
//! - `hls::response::Cutter::find` finds the playlist or the segment,
//! - `relay::streams::hls::Streams::respond_with` makes the answer: a playlist whole, a segment as
//!   a viewer with an end. This viewer's bytes go out as in the life of a byte.
//! - `relay::clients::wait_queue::Clients::wait_for` lets a request wait for a longer playlist.
//!
//! A waiting request is called when its playlist has grown, or when its time is over.
//!
//! - `relay::dispatch::Relay::dispatch_events` empties the queue of events,
//! - `relay::dispatch::Relay::dispatch` handles the event `PlaylistGrew`,
//! - `relay::clients::wait_queue::Clients::call_up_to` calls the clients that the playlist reaches,
//! - `relay::clients::wait_queue::Clients::call_one` notes the outcome of each one's wait,
//! - `relay::clients::reading::Clients::queue_pipelined` puts it into the list of pipelined input.
//!
//! They are answered a few in a turn.
//!
//! - `relay::Relay::do_deferred_work` takes the next client of that list,
//! - `relay::clients::reading::Clients::next_pipelined` ends its wait,
//! - `relay::requests::Relay::decide_waited` decides about it anew, and calls `watch` as above.
//!
//! # The life of a hand-over
//!
//! The bytes of streams are copied while the old process serves.
//!
//! - `relay::handover::Copying::next` returns the next piece to copy,
//! - `relay::streams::handover::Streams::media_bytes` returns a stream's bytes from its buffer.
//!
//! Then the old process stops, and sends its state.
//!
//! - `relay::handover::hand_over` writes the state of each part:
//! - `relay::clients::handover::Clients::hand_over` writes each connection with its phase,
//! - `relay::streams::handover::Streams::hand_over` writes each stream with its viewers' cursors.
//! - `handover::Writer::put` makes a line of each.
//!
//! The new process reads the lines while they come.
//!
//! - `relay::handover::Successor::receive` splits the received bytes into lines,
//! - `relay::handover::RelayState::receive` passes each line to its part.
//!
//! When all lines have come, the new process takes over.
//!
//! - `relay::handover::Successor::take_over` begins the take-over,
//! - `relay::handover::RelayState::relay` makes a core of the received state:
//! - `relay::clients::handover::Clients::take_over` adds the connections,
//! - `relay::streams::handover::Streams::take_over` adds the streams,
//! - `relay::streams::handover::Streams::adopt` adds one stream,
//! - `stream::handover::StreamBuffer::become_whole` gives it its bytes and viewers.
//! - `relay::handover::agree` compares the parts with each other.
//!
//! # The life of a token
//!
//! - `relay::requests::Relay::call` carries out a call that adds or revokes tokens:
//! - `relay::requests::Relay::change` makes the change, and lets the other parts adjust to it.
//! - `relay::grants::Grants::change` makes the change now, or when it is on disk,
//! - `relay::grants::Grants::carry_out` reports it and returns the answer,
//! - `gate::tokens::Tokens::carry_out` changes the table.
//!
//! The events of a change are handled before the next input.
//!
//! - `relay::dispatch::Relay::dispatch` hands each event to the parts that it concerns:
//! - `relay::dispatch::Relay::tokens_changed` adjusts the streams of the session,
//! - `relay::requests::Relay::refresh_clients` sets the stream's UDP clients,
//! - `relay::rtp_in::RtpIn::forget_candidates` drops waiting senders that have no token now.
//!
//! A client uses the token when it publishes or watches.
//!
//! - `relay::admission::Gate::publish` decides about a source at every entry point,
//! - `relay::admission::Gate::check_token_in` checks the token.
#![deny(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types
    )
)]

/// Defines methods of a type that has no value, for the twin of a part that is left out.
#[allow(unused_macros, reason = "with all features nothing is left out")]
macro_rules! no_value {
    ($($(#[$attribute:meta])* fn $name:ident $arguments:tt $(-> $result:ty)?;)*) => {
        $(no_value!(@ $(#[$attribute])* $name $arguments $(-> $result)?);)*
    };
    (@ $(#[$attribute:meta])* $name:ident (&mut $self:ident $($rest:tt)*) $(-> $result:ty)?) => {
        $(#[$attribute])*
        pub fn $name(&mut $self $($rest)*) $(-> $result)? { match *$self {} }
    };
    (@ $(#[$attribute:meta])* $name:ident (&$self:ident $($rest:tt)*) $(-> $result:ty)?) => {
        $(#[$attribute])*
        pub fn $name(&$self $($rest)*) $(-> $result)? { match *$self {} }
    };
    (@ $(#[$attribute:meta])* $name:ident ($self:ident $($rest:tt)*) $(-> $result:ty)?) => {
        $(#[$attribute])*
        pub fn $name($self $($rest)*) $(-> $result)? { match $self {} }
    };
}

pub mod clean_text;
pub mod config;
pub mod copied;
pub mod events;
pub mod format;
pub mod gate;
pub mod gather;
#[cfg(feature = "handover")]
pub mod handover;
#[cfg_attr(not(feature = "hls"), path = "hls/absent.rs")]
pub mod hls;
pub mod http;
pub mod json;
pub mod memory;
pub mod percent;
pub mod proxy_header;
pub mod random;
pub mod relay;
#[cfg_attr(not(feature = "remux"), path = "remux/absent.rs")]
pub mod remux;
#[cfg_attr(not(feature = "rtmp"), path = "rtmp/absent.rs")]
pub mod rtmp;
pub mod rtp;
#[allow(clippy::disallowed_methods, reason = "the shell")]
pub mod server;
pub mod slots;
pub mod stream;
pub mod time;
pub mod token_bucket;
pub mod udp_out;
