//! The address of a client, for subnet checks, limits, logs and lists, and the number of connections
//! of each address.
//!
//! A client's address is usually the address that connected. Only configured proxies may name
//! another one: by a PROXY protocol header at the beginning of the connection, or by a field of each
//! request. If such a proxy names no client, the client is unknown. It does not have the proxy's
//! rights.

use std::net::SocketAddr;

use super::connection::Connection;
use super::{Clients, Phase, Step};
use crate::gate::canonical;
use crate::http::{Forwarded, Refusal, Status, is_of_another_machine};
use crate::proxy_header;
use crate::relay::admission::{AddressFrom, Beyond};
use crate::relay::context::Context;
use crate::relay::counts::Count;
use crate::relay::{CONNECTIONS_BEYOND_MAX, ConnectionId};

impl Clients {
    /// Notes a proxy's connection beyond the limit. It keeps its place until another client needs it
    /// more.
    fn note_unidentified(&mut self, id: ConnectionId) {
        let connections = &self.connections;
        self.unidentified
            .retain(|id| connections.get(*id).is_some());
        if self.unidentified.len() >= CONNECTIONS_BEYOND_MAX {
            self.unidentified.pop_front();
        }
        self.unidentified.push_back(id);
    }

    /// Adds the connection of a client. `None`: there is no place even to refuse it in words.
    pub fn accept(
        &mut self,
        peer: SocketAddr,
        is_rtmp: bool,
        ctx: &mut Context,
    ) -> Option<ConnectionId> {
        let peer = canonical(peer);
        let address_from = ctx.settings().address_from(peer.ip());
        let is_anyones = address_from != AddressFrom::Connection;
        let host = (!is_anyones).then_some(peer.ip());
        if host.is_some_and(|host| ctx.settings().is_crowd(host, self.hosts.of(host))) {
            return None;
        }
        let may_take_room = is_anyones || ctx.settings().is_operators(peer.ip());
        let has_room_for_connection = ctx
            .settings()
            .has_room_for_connection(self.connections.len(), host);
        if ctx.is_closing || !(has_room_for_connection || (may_take_room && self.make_room(ctx))) {
            return None;
        }
        let is_beyond = !self.has_room(ctx);
        let mut connection = Connection::new(peer, is_beyond.then_some(Beyond::All), ctx.now());
        connection.is_named = !is_anyones;
        connection.is_rtmp = is_rtmp;
        connection.begin(ctx);
        match address_from {
            AddressFrom::Connection => {}
            AddressFrom::ProxyHeader => {
                (connection.phase, connection.publisher) = (Phase::Opening, None);
            }
            AddressFrom::Request => connection.forwarder = Some(Box::new(peer)),
        }
        ctx.count(Count::Connections, 1);
        let id = self.connections.insert(connection);
        if is_anyones && is_beyond {
            self.note_unidentified(id);
        }
        self.count(id, ctx);
        self.rearm(id, ctx);
        Some(id)
    }

    /// Closes the oldest connection beyond the limit that came through a proxy and is not known to
    /// belong to the API's hosts. Otherwise strangers behind the operator's proxy could keep the
    /// operator out. Returns whether there was one.
    fn make_room(&mut self, ctx: &mut Context) -> bool {
        while let Some(id) = self.unidentified.pop_front() {
            let is_strangers = |connection: &Connection| {
                let host = connection.peer.ip();
                !(connection.is_named && ctx.settings().is_operators(host))
            };
            if self.connections.get(id).is_some_and(is_strangers) {
                self.close(id, ctx);
                return true;
            }
        }
        false
    }

    /// Reads a PROXY protocol header.
    pub(super) fn read_proxy_header(
        &mut self,
        id: ConnectionId,
        input: &mut &[u8],
        ctx: &mut Context,
    ) -> Step<'static> {
        match proxy_header::read(input) {
            Ok(None) => Step::Stop,
            Ok(Some(header)) => {
                *input = &input[header.bytes..];
                match self.name(id, header.client, ctx) {
                    true => Step::On,
                    false => {
                        self.close(id, ctx);
                        Step::Stop
                    }
                }
            }
            Err(detail) => {
                let refusal = Refusal::framing(Status::BadRequest, detail);
                self.refuse_unread(id, &refusal, ctx)
            }
        }
    }

    /// Sets the client that a PROXY protocol header names. Returns whether there is a place for it.
    fn name(&mut self, id: ConnectionId, client: Option<SocketAddr>, ctx: &Context) -> bool {
        let Some(connection) = self.connections.get_mut(id) else {
            return false;
        };
        connection.begin(ctx);
        connection.progress = ctx.now();
        let Some(client) = client else {
            return true;
        };
        let peer = canonical(client);
        // A proxy that another proxy names is no client.
        let is_elsewhere = is_of_another_machine(peer, connection.peer);
        let is_nobody = is_elsewhere || ctx.settings().is_proxy(peer.ip());
        let introducer = std::mem::replace(&mut connection.peer, peer);
        connection.introducer = Some(Box::new(introducer));
        connection.is_proxied = true;
        let is_forwarder = !is_elsewhere && ctx.settings().is_forwarder(peer.ip());
        connection.forwarder = is_forwarder.then(|| Box::new(peer));
        connection.is_named = !is_nobody;
        if is_nobody {
            return true;
        }
        if ctx.settings().is_crowd(peer.ip(), self.hosts.of(peer.ip())) {
            return false;
        }
        self.count(id, ctx);
        let others = self.connections.len().saturating_sub(1);
        ctx.settings()
            .has_room_for_connection(others, Some(peer.ip()))
    }

    /// Sets the client of a request, if the connection is that of a proxy which names the client in a
    /// field. Each request may have another client.
    pub(super) fn introduce(
        &mut self,
        id: ConnectionId,
        forwarded: &Forwarded,
        ctx: &Context,
    ) -> Result<(), Refusal> {
        let Some(connection) = self.connections.get_mut(id) else {
            return Ok(());
        };
        let Some(forwarder) = connection.forwarder.as_deref().copied() else {
            return Ok(());
        };
        let client = forwarded.client(forwarder, |address| ctx.settings().is_proxy(address));
        let named = client.as_ref().ok().copied().flatten();
        let before = std::mem::replace(&mut connection.peer, named.unwrap_or(forwarder));
        connection.is_proxied |= named.is_some();
        connection.is_named = named.is_some();
        if std::mem::replace(&mut connection.is_counted, false) {
            self.hosts.leave(before.ip());
        }
        self.count(id, ctx);
        client.map(drop)
    }

    /// Counts a connection for the host of its client, if that is known.
    fn count(&mut self, id: ConnectionId, ctx: &Context) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let host = connection.is_named.then_some(connection.peer.ip());
        let beyond = host.and_then(|host| ctx.settings().beyond(self.hosts.of(host)));
        if connection.is_beyond_limit != Some(Beyond::All) {
            connection.is_beyond_limit = beyond;
        }
        if let Some(host) = host {
            connection.is_counted = true;
            self.hosts.enter(host);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv6Addr, SocketAddr};

    use crate::relay::ConnectionId;
    use crate::relay::stage::Stage;

    const OPTIONS: &[&str] = &["--connections=90", "--connections-per-host=4"];

    /// Connects these hosts, which send nothing. Returns how many the server accepted before it
    /// served another client.
    fn let_in(stage: &mut Stage, hosts: impl Iterator<Item = IpAddr>) -> usize {
        let now = stage.now;
        let come = hosts.map(|host| stage.relay.accepted(SocketAddr::new(host, 1), now));
        let inside = come.flatten().count();
        stage.settle();
        let other = stage.viewer("s");
        stage.assert_status(other, 404);
        inside
    }

    /// A host that has too many connections and sends nothing does not block others.
    #[test]
    fn a_host_beyond_its_limit_takes_nobodys_place() {
        let mut stage = Stage::new(OPTIONS);
        let host = IpAddr::from([192, 0, 2, 66]);
        assert_eq!(let_in(&mut stage, (0..500).map(|_| host)), 4 + 8);
    }

    #[test]
    fn neither_does_one_whom_a_proxy_names() {
        let options = [OPTIONS, &["--proxy-protocol=127.0.0.1"]].concat();
        let mut stage = Stage::new(&options);
        let mut inside = 0;
        for port in 1..500 {
            let proxy = SocketAddr::from(([127, 0, 0, 1], port));
            let id = stage.relay.accepted(proxy, stage.now).expect("room");
            stage.send(id, "PROXY TCP4 192.0.2.66 192.0.2.1 1 80\r\n");
            inside += usize::from(!stage.closed.contains(&id));
        }
        assert_eq!(inside, 4 + 8);
        let other = stage.viewer("s");
        stage.assert_status(other, 404);
    }

    /// A network counts as a few hosts, however many addresses it uses.
    #[test]
    fn a_network_of_ipv6_is_not_as_many_hosts_as_it_has_addresses() {
        let of_network = |number: u128| {
            let network = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 0).to_bits();
            IpAddr::from(Ipv6Addr::from_bits(network + number))
        };
        let mut stage = Stage::new(OPTIONS);
        assert_eq!(let_in(&mut stage, (0..500).map(of_network)), 16 * 4 + 8);
        // Those who are on one link are not one.
        let on_link = |number: u16| IpAddr::from(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, number));
        let mut stage = Stage::new(OPTIONS);
        assert_eq!(let_in(&mut stage, (1..81).map(on_link)), 80);
    }

    const BEYOND: usize = crate::relay::CONNECTIONS_BEYOND_MAX;

    fn come(stage: &mut Stage, from: &str, number: usize) -> Option<ConnectionId> {
        let peer = SocketAddr::new(from.parse().expect("an address"), number as u16);
        let id = stage.relay.accepted(peer, stage.now);
        stage.settle();
        id
    }

    /// Connections by a proxy that say nothing do not keep out the next one, which may be the
    /// operator's: the one that has been there for longest goes.
    #[test]
    fn who_is_nobody_yet_goes_when_another_needs_the_place() {
        let options = [
            "--connections=10",
            "--proxy-protocol=10.5.0.1",
            "--token-server=10.0.0.1",
        ];
        let mut stage = Stage::new(&options);
        let mut ids: Vec<ConnectionId> = Vec::new();
        for number in 0..10 + BEYOND {
            ids.push(come(&mut stage, "10.5.0.1", number).expect("room"));
        }
        assert_eq!(stage.closed.len(), 0);
        // Whoever is gone by itself is not counted on.
        stage.lose(ids[11]);
        ids.push(come(&mut stage, "10.5.0.1", 100).expect("room"));
        assert_eq!(
            Vec::from_iter(&stage.closed),
            [&ids[11]],
            "there was a place"
        );
        let mut expected: Vec<ConnectionId> = vec![ids[11]];
        let beyond: Vec<ConnectionId> = ids[10..]
            .iter()
            .filter(|id| **id != ids[11])
            .copied()
            .collect();
        for (number, oldest) in beyond.into_iter().enumerate() {
            let from = if number % 2 == 0 {
                "10.5.0.1"
            } else {
                "10.0.0.1"
            };
            assert!(come(&mut stage, from, 200 + number).is_some(), "{number}");
            expected.push(oldest);
            let gone = stage.closed.iter().copied().collect::<Vec<_>>();
            expected.sort();
            assert_eq!(gone, expected, "{number}");
            stage.relay.check();
        }
        // Those within the limit have stayed, and nobody else takes a place.
        for id in &ids[..10] {
            assert!(stage.relay.clients.has(*id));
        }
        assert_eq!(come(&mut stage, "10.9.0.1", 1), None);
    }

    /// Known operators keep their places. Strangers named by a proxy lose theirs. Clients without a
    /// proxy lose none.
    #[test]
    fn of_those_beyond_the_limit_the_operators_stay() {
        let options = [
            "--connections=10",
            "--proxy-protocol=10.5.0.1",
            "--token-server=10.0.0.0/24",
        ];
        let mut stage = Stage::new(&options);
        let within: Vec<_> = (0..10)
            .map(|number| come(&mut stage, "10.9.0.1", number))
            .collect();
        let direct = come(&mut stage, "10.9.0.2", 1).expect("room");
        let operators = come(&mut stage, "10.5.0.1", 1).expect("room");
        stage.send(operators, "PROXY TCP4 10.0.0.7 192.0.2.1 1 80\r\n");
        let strangers = come(&mut stage, "10.5.0.1", 2).expect("room");
        stage.send(strangers, "PROXY TCP4 10.9.0.9 192.0.2.1 1 80\r\n");
        let nobodys = come(&mut stage, "10.5.0.1", 3).expect("room");
        for number in 14..10 + BEYOND {
            assert!(come(&mut stage, "10.0.0.8", number).is_some());
        }
        assert_eq!(stage.closed.len(), 0);
        for (gone, number) in [(strangers, 100), (nobodys, 101)] {
            assert!(come(&mut stage, "10.0.0.8", number).is_some());
            assert!(stage.closed.contains(&gone), "{number}");
        }
        assert_eq!(come(&mut stage, "10.0.0.8", 102), None, "nobody has to go");
        assert_eq!(come(&mut stage, "10.5.0.1", 103), None);
        assert_eq!(stage.closed.len(), 2);
        let stay = within.into_iter().flatten().chain([direct, operators]);
        stay.for_each(|id| assert!(stage.relay.clients.has(id)));
    }

    #[test]
    fn nobody_is_let_in_when_the_server_ends() {
        let mut stage = Stage::new(&[]);
        let waits = come(&mut stage, "10.0.0.1", 1).expect("room");
        stage.relay.shut_down(stage.now);
        assert_eq!(come(&mut stage, "10.0.0.1", 2), None);
        assert!(!stage.relay.clients.has(waits));
    }

    /// A connection beyond the limit stays beyond it when its client becomes known.
    #[test]
    fn who_came_beyond_the_limit_is_told_so_when_it_has_a_name() {
        let options = [
            "--connections=10",
            "--proxy-protocol=10.5.0.1",
            "--connections-per-host=5",
        ];
        let mut stage = Stage::new(&options);
        for number in 0..9 {
            come(&mut stage, &format!("10.9.0.{number}"), 1).expect("room");
        }
        let watch =
            "PROXY TCP4 192.0.2.66 192.0.2.1 1 80\r\nGET /stream/s HTTP/1.1\r\nHost: h\r\n\r\n";
        for (number, status) in [(1, 404), (2, 503)] {
            let id = come(&mut stage, "10.5.0.1", number).expect("room");
            stage.send(id, watch);
            stage.assert_status(id, status);
        }
    }

    /// A program on a remote proxy's machine has no rights of this machine, also if a proxy on this
    /// machine passes its request on.
    #[test]
    fn a_loopback_address_is_the_machines_whose_proxy_names_it() {
        let options = [
            "--forwarded-from=127.0.0.2",
            "--forwarded-from=10.5.0.1",
            "--proxy-protocol=10.5.0.2",
            "--token-server=127.0.0.1",
        ];
        let header = "PROXY TCP4 127.0.0.2 192.0.2.1 1 80\r\n";
        for (from, header, fields, status) in [
            ("127.0.0.2", "", "X-Forwarded-For: 127.0.0.1", 200),
            ("10.5.0.1", "", "X-Forwarded-For: 127.0.0.1", 403),
            ("127.0.0.2", "", "X-Forwarded-For: 127.0.0.1, 10.5.0.1", 403),
            ("127.0.0.2", "", "X-Forwarded-For: ::1, 10.5.0.1", 403),
            (
                "127.0.0.2",
                "",
                "Forwarded: for=127.0.0.1, for=10.5.0.1",
                403,
            ),
            ("10.5.0.1", "", "X-Forwarded-For: 127.0.0.1, 127.0.0.2", 403),
            ("10.5.0.2", header, "X-Forwarded-For: 127.0.0.1", 403),
        ] {
            let mut stage = Stage::new(&options);
            let id = come(&mut stage, from, 7).expect("room");
            let head = "GET /api/list-tokens HTTP/1.1\r\nHost: localhost";
            stage.send(id, &format!("{header}{head}\r\n{fields}\r\n\r\n"));
            stage.assert_status(id, status);
        }
    }

    /// Each request on a proxy's connection may come from another client. Without a forwarding
    /// field the client is unknown.
    #[test]
    fn each_request_through_a_proxy_belongs_to_the_client_that_it_names() {
        let options = ["--forwarded-from=10.5.0.1", "--connections-per-host=2"];
        let mut stage = Stage::new(&options);
        let id = come(&mut stage, "10.5.0.1", 7).expect("room");
        let proxy = SocketAddr::from(([10, 5, 0, 1], 7));
        let host = |text: &str| text.parse::<IpAddr>().expect("an address");
        for (field, peer, is_named, is_proxied, status) in [
            ("", "10.5.0.1", false, false, 403),
            (
                "X-Forwarded-For: 192.0.2.1\r\n",
                "192.0.2.1",
                true,
                true,
                404,
            ),
            (
                "X-Forwarded-For: 192.0.2.2\r\n",
                "192.0.2.2",
                true,
                true,
                404,
            ),
            ("", "10.5.0.1", false, true, 403),
            (
                "X-Forwarded-For: 10.5.0.1\r\n",
                "10.5.0.1",
                false,
                true,
                403,
            ),
            // The proxy's own machine is another one.
            (
                "X-Forwarded-For: 127.0.0.1\r\n",
                "10.5.0.1",
                false,
                true,
                403,
            ),
            (
                "X-Forwarded-For: nonsense\r\n",
                "10.5.0.1",
                false,
                true,
                400,
            ),
        ] {
            let had = stage.text(id).len();
            let head = "GET /stream/s HTTP/1.1\r\nHost: h\r\n";
            stage.send(id, &format!("{head}{field}\r\n"));
            let text = &stage.text(id)[had..];
            assert!(
                text.starts_with(&format!("HTTP/1.1 {status} ")),
                "{field}: {text}"
            );
            let Some(connection) = stage.relay.clients.connections.get(id) else {
                continue;
            };
            let caller = connection.caller();
            assert_eq!(caller.peer.ip(), host(peer), "{field}");
            assert_eq!(
                (caller.is_named, caller.is_proxied),
                (is_named, is_proxied),
                "{field}"
            );
            assert_eq!(
                stage.relay.clients.hosts.count(),
                usize::from(is_named),
                "{field}"
            );
            if !is_named {
                assert_eq!(caller.peer, proxy);
            }
        }
        stage.relay.check();
    }
}
