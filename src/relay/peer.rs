//! Who a client is: the address that the subnet checks, the limits, the logs and the lists go by,
//! and how many connections each has.
//!
//! It is the address that connected, unless that is a proxy's which is known for one: such a
//! connection begins with a PROXY protocol header, or each of its requests says in a field whose it
//! is. Nobody else is believed, and where a proxy does not say whose it is, it is nobody's: not the
//! proxy's own.

use std::net::{IpAddr, SocketAddr};

use super::admission::Door;
use super::clients::Clients;
use super::connection::{Beyond, Connection, Phase};
use super::counts::Count;
use super::{CONNECTIONS_BEYOND_MAX, ConnectionId, Relay};
use crate::http::{Forwarded, HeadReader, Refusal, Status};
use crate::moment::Moment;
use crate::proxy_header;

impl Clients {
    /// A connection of a proxy's came beyond the limit: it has its place until somebody may need it
    /// more.
    fn note_unplaced(&mut self, id: ConnectionId) {
        let connections = &self.connections;
        self.unplaced.retain(|id| connections.get(*id).is_some());
        if self.unplaced.len() >= CONNECTIONS_BEYOND_MAX {
            self.unplaced.pop_front();
        }
        self.unplaced.push_back(id);
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

impl Relay {
    /// A client has connected. `None`: there is no place even to refuse it in words; it is to be
    /// closed.
    pub fn accepted(&mut self, peer: SocketAddr, now: Moment) -> Option<ConnectionId> {
        self.desk.now = now;
        let peer = canonical(peer);
        let gate = self.grants.gate(&self.desk);
        let door = gate.door(peer.ip());
        let is_anyones = door != Door::Own;
        let host = (!is_anyones).then_some(peer.ip());
        let may_take_place = is_anyones || gate.is_operators(peer.ip());
        let has_place = gate.has_place(self.clients.connections.len(), host);
        if self.desk.is_closing || !(has_place || (may_take_place && self.make_place())) {
            return None;
        }
        let is_beyond = self.clients.connections.len() >= self.desk.settings.limits.connections_max;
        let mut connection = Connection::new(peer, is_beyond.then_some(Beyond::All), now);
        connection.is_named = !is_anyones;
        match door {
            Door::Own => {}
            Door::Header => connection.phase = Phase::Introduction,
            Door::Field => connection.forwarder = Some(Box::new(peer)),
        }
        self.desk.counts.add(Count::Connections, 1);
        let id = self.clients.connections.insert(connection);
        if is_anyones && is_beyond {
            self.clients.note_unplaced(id);
        }
        self.count(id);
        self.clients.rearm(id, &mut self.desk);
        Some(id)
    }

    /// Takes a place beyond the limit from who has had one for longest, behind a proxy, and is not
    /// known to be of the API's hosts. Else strangers, who come by the same proxy as the operator,
    /// would keep the operator out. Says whether there was one.
    fn make_place(&mut self) -> bool {
        while let Some(id) = self.clients.unplaced.pop_front() {
            let Some(connection) = self.clients.connections.get(id) else {
                continue;
            };
            let host = connection.peer.ip();
            if !(connection.is_named && self.grants.gate(&self.desk).is_operators(host)) {
                self.clients.close(id, &mut self.desk);
                return true;
            }
        }
        false
    }

    /// Reads a PROXY protocol header. Says whether the connection can be read on.
    pub(super) fn read_introduction(&mut self, id: ConnectionId, input: &mut &[u8]) -> bool {
        let now = self.desk.now;
        let _date = self.desk.date();
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return false;
        };
        match proxy_header::read(input) {
            Ok(None) => false,
            Ok(Some(header)) => {
                *input = &input[header.bytes..];
                connection.phase = Phase::Head(HeadReader::default());
                connection.progress = now;
                let Some(client) = header.client else {
                    return true;
                };
                connection.peer = canonical(client);
                connection.is_proxied = true;
                let peer = connection.peer;
                let gate = self.grants.gate(&self.desk);
                let is_forwarder = gate.is_forwarder(peer.ip());
                // A proxy that another one introduces is nobody, as one that speaks for itself.
                let is_nobody = gate.is_proxy(peer.ip());
                connection.forwarder = is_forwarder.then(|| Box::new(peer));
                connection.is_named = !is_nobody;
                if is_nobody {
                    return true;
                }
                self.count(id);
                let others = self.clients.connections.len().saturating_sub(1);
                let has_place = self
                    .grants
                    .gate(&self.desk)
                    .has_place(others, Some(peer.ip()));
                if !has_place {
                    self.clients.close(id, &mut self.desk);
                }
                has_place
            }
            Err(detail) => {
                let reply = self.desk.unread_reply();
                self.clients.note_unread_request(id, &mut self.desk);
                let refusal = Refusal::framing(Status::BadRequest, detail);
                self.clients.refuse(id, &refusal, reply, &mut self.desk);
                true
            }
        }
    }

    /// A request has come: if it is by way of a proxy that says so in a field, it is somebody
    /// else's than the one before, perhaps.
    pub(super) fn introduce(
        &mut self,
        id: ConnectionId,
        forwarded: &Forwarded,
    ) -> Result<(), Refusal> {
        let gate = self.grants.gate(&self.desk);
        let forwarder = self.clients.connections.get(id);
        let Some(forwarder) = forwarder.and_then(|connection| connection.forwarder.as_deref())
        else {
            return Ok(());
        };
        let forwarder = *forwarder;
        let client = forwarded.client(|address| gate.is_proxy(address));
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return Ok(());
        };
        let named = client.as_ref().ok().copied().flatten();
        let before = std::mem::replace(&mut connection.peer, named.unwrap_or(forwarder));
        connection.is_proxied |= named.is_some();
        connection.is_named = named.is_some();
        if std::mem::replace(&mut connection.is_counted, false) {
            self.clients.uncount(before.ip());
        }
        self.count(id);
        client.map(drop)
    }

    /// Counts a connection for the host whose it is, once that is known.
    fn count(&mut self, id: ConnectionId) {
        let Some(connection) = self.clients.connections.get(id) else {
            return;
        };
        let host = connection.is_named.then_some(connection.peer.ip());
        let of_host = host.and_then(|host| self.clients.hosts.get(&host)).copied();
        let beyond = self.grants.gate(&self.desk).beyond(of_host.unwrap_or(0));
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return;
        };
        if connection.is_beyond_limit != Some(Beyond::All) {
            connection.is_beyond_limit = beyond.filter(|_| host.is_some());
        }
        if let Some(host) = host {
            connection.is_counted = true;
            *self.clients.hosts.entry(host).or_insert(0) += 1;
        }
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
