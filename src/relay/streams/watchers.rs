//! The viewers and UDP clients of each stream, for list-viewers and the like.

use std::net::SocketAddr;

use super::{Stream, Streams};
use crate::gate::{SessionId, Transport};
use crate::relay::ConnectionId;
use crate::relay::viewer_id::Mark;
use crate::stream::Seen;
use crate::time::Instant;
use crate::udp_out::ClientFigures;

/// A viewer or UDP client of a stream.
pub struct Watcher<'a> {
    /// Session of the stream.
    pub session: &'a SessionId,
    /// Serial number of the stream.
    pub stream: u64,
    /// Where the stream goes.
    pub outlet: Outlet,
}

/// Where a stream goes.
pub enum Outlet {
    /// An HTTP viewer.
    Http(Seen<ConnectionId>),
    /// A UDP client.
    Udp {
        /// Address of the client.
        to: SocketAddr,
        /// What its datagrams carry.
        transport: Transport,
        /// How many it was sent.
        figures: ClientFigures,
    },
}

/// Mark of a stream's UDP clients, after the marks of all its viewers. The clients share one mark,
/// as their order may change.
const UDP_CLIENTS: u64 = u64::MAX;

impl Streams {
    /// Returns viewers and UDP clients after this mark, each with its own mark. `of` selects one
    /// session.
    pub fn watchers(
        &self,
        (serial, place): Mark,
        of: Option<&SessionId>,
        now: Instant,
    ) -> impl Iterator<Item = (Mark, Watcher<'_>)> {
        let streams = self.order.range(serial..);
        let streams =
            streams.filter_map(|(serial, stream)| Some((*serial, self.streams.get(*stream)?)));
        let those = streams.filter(move |(_, stream)| of.is_none_or(|of| stream.session == *of));
        those.flat_map(move |(its, stream)| {
            let from = match its == serial {
                true => place.saturating_add(1),
                false => 0,
            };
            stream.watchers(its, from, place == UDP_CLIENTS && its == serial, now)
        })
    }
}

impl Stream {
    fn watchers(
        &self,
        serial: u64,
        from: u64,
        is_over: bool,
        now: Instant,
    ) -> impl Iterator<Item = (Mark, Watcher<'_>)> {
        let watcher = move |outlet| Watcher {
            session: &self.session,
            stream: self.listed_serial(),
            outlet,
        };
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let viewers = self.buffer.seen_from(from, now);
        let viewers =
            viewers.map(move |seen| ((serial, seen.place as u64), watcher(Outlet::Http(seen))));
        let clients = self.rtp_out.udp_out.figures().filter(move |_| !is_over);
        let clients = clients.map(move |(client, figures)| {
            let outlet = Outlet::Udp {
                to: client.address,
                transport: client.transport,
                figures,
            };
            ((serial, UDP_CLIENTS), watcher(outlet))
        });
        viewers.chain(clients)
    }
}
