//! The RTP socket of this server, and whether it can send to a UDP client.

use std::net::{IpAddr, SocketAddr};

use super::Settings;
use crate::gate::Transport;

/// What the shell has found about the RTP socket.
#[derive(Default)]
pub(super) struct RtpSocket {
    /// Its address. `None`: there is none.
    pub bound: Option<SocketAddr>,
    /// Whether there is a socket for RTCP at the port above.
    pub has_rtcp: bool,
    /// Returns whether an address is this machine's.
    pub is_own: Option<fn(SocketAddr) -> bool>,
    /// Joined groups to which `--rtp-to` allows no datagrams.
    listened: Vec<IpAddr>,
}

/// Refusal of a UDP client at the server's own address.
const OWN_ADDRESS: &str = "this is the server's own RTP address, or its RTCP address, one port above; give the client's address";

impl RtpSocket {
    /// Sets the address of the socket.
    pub fn set_bound(&mut self, bound: SocketAddr, settings: &Settings) {
        self.bound = Some(bound);
        let groups = settings.joins.iter().map(|join| join.group);
        self.listened = groups
            .filter(|group| !settings.may_receive(*group))
            .collect();
    }

    /// Returns why the server cannot send to this UDP client, if it cannot.
    pub fn destination_fault(
        &self,
        address: SocketAddr,
        transport: Transport,
    ) -> Option<&'static str> {
        let Some(bound) = self.bound else {
            return Some(
                "RTP is off here, so it would get nothing; start the server with --rtp=[::]:5004",
            );
        };
        let mut ports = transport.ports(address.port()).into_iter().flatten();
        let rtcp = bound.port().checked_add(1).filter(|_| self.has_rtcp);
        let is_own_port = ports.any(|port| port == bound.port() || Some(port) == rtcp);
        let is_listened = || self.listened.contains(&address.ip().to_canonical());
        if !is_reachable(bound, address.ip()) {
            Some(
                "the RTP socket has the other IP version and cannot reach it; start the server with --rtp=[::]:5004",
            )
        } else if is_own_port && self.is_here(bound.ip(), address) {
            Some(OWN_ADDRESS)
        } else if address.port() != bound.port() && is_listened() {
            Some(
                "--rtp-to does not allow sending to this group, and to receive it, give the port of --rtp",
            )
        } else {
            None
        }
    }

    /// Returns whether datagrams to an address arrive at a socket of this machine that is bound
    /// there.
    pub fn is_here(&self, bound: IpAddr, address: SocketAddr) -> bool {
        let (bound, ip) = (bound.to_canonical(), address.ip().to_canonical());
        let is_own = || self.is_own.is_some_and(|is_own| is_own(address));
        ip == bound || (bound.is_unspecified() && (ip.is_loopback() || is_own()))
    }
}

/// Returns whether a socket with this address can send to the other: both need the same IP version,
/// unless the socket takes both.
fn is_reachable(bound: SocketAddr, address: IpAddr) -> bool {
    match (bound.ip(), address.to_canonical()) {
        (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) => true,
        (IpAddr::V6(bound), IpAddr::V4(_)) => bound.is_unspecified(),
        (IpAddr::V4(_), IpAddr::V6(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::stage::Stage;
    use crate::relay::stage::address;

    /// Adds a token with this client. Returns the status and the answer.
    fn add(stage: &mut Stage, client: &str) -> (u16, String) {
        let call = stage.client(&format!(
            "POST /api/add-token?type=rtp-udp&sessionid=a&udp-clients={client} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        ));
        let text = stage.text(call);
        let status = text
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        (status.expect("a status"), text)
    }

    /// Where no datagram would arrive, nobody is a client.
    #[test]
    fn who_cannot_be_reached_or_would_be_heard_is_no_client() {
        let none =
            "RTP is off here, so it would get nothing; start the server with --rtp=[::]:5004";
        let version = "the RTP socket has the other IP version and cannot reach it; start the server with --rtp=[::]:5004";
        let own = OWN_ADDRESS;
        let group = "--rtp-to does not allow sending to this group, and to receive it, give the port of --rtp";
        for (bound, client, fault) in [
            (None, "10.2.0.1:6000", Some(none)),
            (Some("0.0.0.0:5004"), "10.2.0.1:6000", None),
            (Some("0.0.0.0:5004"), "[2001:db8::1]:6000", Some(version)),
            (Some("0.0.0.0:5004"), "[::ffff:10.2.0.1]:6000", None),
            (Some("[::]:5004"), "10.2.0.1:6000", None),
            (Some("[::]:5004"), "[2001:db8::1]:6000", None),
            (Some("[2001:db8::9]:5004"), "[2001:db8::1]:6000", None),
            (Some("[2001:db8::9]:5004"), "10.2.0.1:6000", Some(version)),
            (Some("10.9.0.1:5004"), "10.9.0.1:5004", Some(own)),
            (Some("10.9.0.1:5004"), "10.9.0.1:5005", None),
            (Some("10.9.0.1:5004"), "127.0.0.1:5004", None),
            (Some("0.0.0.0:5004"), "127.0.0.1:5004", Some(own)),
            (Some("0.0.0.0:5004"), "127.0.0.1:5006", None),
            (Some("0.0.0.0:5004"), "10.2.0.1:5004", None),
            (Some("0.0.0.0:5004"), "239.1.2.3:5004", None),
            (Some("0.0.0.0:5004"), "239.1.2.3:6000", Some(group)),
            (Some("0.0.0.0:5004"), "239.1.2.4:6000", None),
        ] {
            let mut stage = Stage::new(&["--token-server=10.0.0.0/8", "--join=239.1.2.3"]);
            if let Some(bound) = bound {
                stage.relay.set_rtp(address(bound));
            }
            let socket = &stage.relay.ctx.rtp_socket;
            for transport in [Transport::Bare, Transport::Rtp(None)] {
                let found = socket.destination_fault(address(client), transport);
                assert_eq!(found, fault, "{bound:?} {client}");
            }
        }
    }

    /// What is sent there would come back, and be taken for a source's.
    #[test]
    fn no_address_of_this_machine_is_a_client_at_the_servers_udp_ports() {
        let own = OWN_ADDRESS;
        for (bound, client, is_refused) in [
            ("0.0.0.0:5004", "10.9.0.7:5004", true),
            ("0.0.0.0:5004", "127.0.0.1:5004", true),
            ("0.0.0.0:5004", "10.9.0.7:5005", true),
            ("0.0.0.0:5004", "10.9.0.8:5005", false),
            ("0.0.0.0:5004", "10.9.0.7:5006", false),
            ("[::]:5004", "127.0.0.1:5005", true),
            ("10.9.0.7:5004", "10.9.0.7:5005", true),
            ("10.9.0.6:5004", "10.9.0.7:5005", false),
            ("0.0.0.0:5004", "10.9.0.8:5004", false),
            ("[::]:5004", "10.9.0.7:5004", true),
            ("[::]:5004", "[::ffff:10.9.0.7]:5004", true),
            ("[::]:5004", "[::1]:5004", true),
            ("10.9.0.7:5004", "10.9.0.7:5004", true),
            // Another program's socket.
            ("10.9.0.6:5004", "10.9.0.7:5004", false),
        ] {
            let mut stage = Stage::new(&["--token-server=10.0.0.0/8"]);
            stage.relay.set_rtp(bound.parse().expect("an address"));
            let is_own =
                |address: SocketAddr| address.ip().to_canonical() == IpAddr::from([10, 9, 0, 7]);
            stage.relay.set_own_addresses(is_own);
            stage.relay.set_has_rtcp();
            let (status, text) = add(&mut stage, client);
            assert_eq!(status, if is_refused { 400 } else { 201 }, "{client}");
            assert_eq!(text.contains(own), is_refused, "{client}");
        }
        // Where another program has the port above, that is no address of the server's.
        let mut stage = Stage::new(&["--token-server=10.0.0.0/8"]);
        stage.relay.set_rtp(address("0.0.0.0:5004"));
        assert_eq!(add(&mut stage, "127.0.0.1:5005").0, 201);
        assert_eq!(add(&mut stage, "127.0.0.1:5004").0, 400);
    }
}
