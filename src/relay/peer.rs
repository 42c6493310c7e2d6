//! Who a client is: the address that the subnet checks, the limits, the logs and the lists go by, and how many connections each has.
//!
//! It is the address that connected, unless that is a proxy's which is known for one: such a connection begins with a PROXY protocol
//! header, or each of its requests says in a field whose it is. Nobody else is believed.

use std::net::{IpAddr, SocketAddr};

use super::connection::{Beyond, Connection, Phase};
use super::route::is_in;
use super::{CONNECTIONS_BEYOND_MAX, ConnectionId, Relay};
use crate::http::{Forwarded, HeadReader, Refusal, Reply, Status, Version};
use crate::moment::Moment;
use crate::proxy_header;

impl Relay {
    /// A client has connected. `None`: there is no place even to refuse it in words; it is to be closed.
    pub fn accepted(&mut self, peer: SocketAddr, now: Moment) -> Option<ConnectionId> {
        let peer = canonical(peer);
        let is_proxy = is_in(&self.settings.proxies, peer.ip());
        let is_forwarder = is_in(&self.settings.forwarders, peer.ip());
        if self.is_closing || !(is_proxy || is_forwarder || self.has_place_for(peer.ip())) {
            return None;
        }
        let limits = &self.settings.limits;
        if self.connections.len() >= limits.connections_max + CONNECTIONS_BEYOND_MAX {
            return None;
        }
        let is_beyond = self.connections.len() >= limits.connections_max;
        let mut connection = Connection::new(peer, is_beyond.then_some(Beyond::All), now);
        if is_proxy {
            connection.phase = Phase::Introduction;
        } else if is_forwarder {
            connection.forwarder = Some(Box::new(peer));
        }
        self.counts.connections += 1;
        let id = self.connections.insert(connection);
        if !is_proxy && !is_forwarder {
            self.count(id);
        }
        self.rearm(id);
        Some(id)
    }

    /// Half of what lies beyond the limit is kept for those who may call the API: strangers cannot keep the operator out.
    fn has_place_for(&self, host: IpAddr) -> bool {
        let connections_max = self.settings.limits.connections_max;
        self.connections.len() < connections_max + CONNECTIONS_BEYOND_MAX / 2
            || is_in(&self.settings.token_servers, host)
    }

    /// Reads a PROXY protocol header. Says whether the connection can be read on.
    pub(super) fn read_introduction(
        &mut self,
        id: ConnectionId,
        input: &mut &[u8],
        now: Moment,
    ) -> bool {
        let date = self.date(now);
        let Some(connection) = self.connections.get_mut(id) else {
            return false;
        };
        match proxy_header::read(input) {
            Ok(None) => false,
            Ok(Some(header)) => {
                *input = &input[header.bytes..];
                connection.phase = Phase::Head(HeadReader::default());
                connection.progress = now;
                if let Some(client) = header.client {
                    connection.peer = canonical(client);
                    connection.is_proxied = true;
                }
                let peer = connection.peer;
                if is_in(&self.settings.forwarders, peer.ip()) {
                    connection.forwarder = Some(Box::new(peer));
                    return true;
                }
                self.count(id);
                let has_place = self.has_place_for(peer.ip());
                if !has_place {
                    self.close(id);
                }
                has_place
            }
            Err(detail) => {
                let reply = Reply {
                    version: Version::Http11,
                    keep_alive: false,
                    head_only: false,
                    date,
                    fields: &[],
                };
                self.note_unread_request(id, date);
                let refusal = Refusal::framing(Status::BadRequest, detail);
                self.refuse(id, &refusal, reply, now);
                true
            }
        }
    }

    /// A request has come: if it is by way of a proxy that says so in a field, it is somebody else's than the one before, perhaps.
    pub(super) fn introduce(
        &mut self,
        id: ConnectionId,
        forwarded: &Forwarded,
    ) -> Result<(), Refusal> {
        let forwarders = &self.settings.forwarders;
        let Some(connection) = self.connections.get_mut(id) else {
            return Ok(());
        };
        let Some(forwarder) = &connection.forwarder else {
            return Ok(());
        };
        let client = forwarded.client(|address| is_in(forwarders, address))?;
        let peer = client.unwrap_or(**forwarder);
        let before = std::mem::replace(&mut connection.peer, peer);
        connection.is_proxied |= client.is_some();
        if std::mem::replace(&mut connection.is_counted, false) {
            self.uncount(before.ip());
        }
        self.count(id);
        Ok(())
    }

    /// Counts a connection for the host whose it is, now that it is known.
    fn count(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let host = connection.peer.ip();
        let count = self.hosts.entry(host).or_insert(0);
        if connection.is_beyond_limit != Some(Beyond::All) {
            let is_beyond = *count >= self.settings.limits.connections_per_host_max;
            connection.is_beyond_limit = is_beyond.then_some(Beyond::Host);
        }
        *count += 1;
        connection.is_counted = true;
    }

    pub(super) fn uncount(&mut self, host: IpAddr) {
        if let Some(count) = self.hosts.get_mut(&host) {
            *count -= 1;
            if *count == 0 {
                self.hosts.remove(&host);
            }
        }
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
