//! Whom each stream goes out to, for who asks: HTTP viewers and UDP clients.

use std::net::SocketAddr;

use super::{Stream, Streams};
use crate::gate::{SessionId, Transport};
use crate::post::ClientFigures;
use crate::relay::ConnectionId;
use crate::relay::viewer_id::Mark;
use crate::stream::Seen;
use crate::time::Instant;

/// Somebody whom a stream goes out to.
pub struct Watcher<'a> {
    /// Of this session.
    pub session: &'a SessionId,
    /// The stream's serial number.
    pub stream: u64,
    /// How it goes out.
    pub outlet: Outlet,
}

/// How a stream goes out to somebody.
pub enum Outlet {
    /// Over HTTP.
    Http(Seen<ConnectionId>),
    /// In datagrams.
    Udp {
        /// Where they go,
        to: SocketAddr,
        /// what they are,
        transport: Transport,
        /// and how many.
        figures: ClientFigures,
    },
}

/// A stream's UDP clients stand behind all places of its viewers, and together: their order may
/// change.
const UDP_CLIENTS: u64 = u64::MAX;

impl Streams {
    /// Whom they go out to, from behind this mark on, each with its own; of one session alone, if
    /// that is named.
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
        let clients = self.rtp_out.post.figures().filter(move |_| !is_over);
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
