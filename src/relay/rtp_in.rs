//! RTP-UDP, the way in: who a datagram is from, and whose stream it is. (The way out is
//! [`super::streams`].)
//!
//! Every datagram is checked against the tuples. What comes from no token's host, is not RTP, or is
//! a second source is dropped and counted, never answered. (Contract, *RTP-UDP*; RFC 3550, RFC
//! 5761.)
//!
//! Bounds. A datagram costs a look-up by its address, and another if a token names that. A source
//! holds what came early (0.7 MiB, [`Reorder`]), all others together 0.75 MiB ([`Candidates`]), and
//! each address that is a source an entry here.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::LiveId;
use super::counts::Count;
use super::desk::Desk;
use super::timers::{Armed, Owner};
use crate::gate::{Tokens, Tuple};
use crate::held::hash_map_bytes;
use crate::moment::Moment;
use crate::rtp::{self, Candidates, Control, Packet};

/// Which socket a datagram came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpPort {
    /// The RTP socket, where RTCP may come too (RFC 5761).
    Rtp,
    /// The one above it, for RTCP only.
    Rtcp,
}

/// Everything about RTP that belongs to no single stream.
#[derive(Default)]
pub(super) struct RtpIn {
    /// Where the RTP socket is bound, if there is one.
    bound: Option<SocketAddr>,
    /// Whether an address is this machine's, as the shell finds out.
    is_own: Option<fn(IpAddr) -> bool>,
    /// The streams whose source is an address.
    sources: HashMap<SocketAddr, LiveId>,
    /// First packets that wait for their second.
    candidates: Candidates,
    /// For when the oldest of these is given up.
    armed: Armed,
}

/// While a source has been heard within this, no other SSRC from its address counts: who spoofs
/// must guess it.
const SILENT_AFTER: Duration = Duration::from_secs(1);

impl RtpIn {
    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        self.candidates.held_bytes() + hash_map_bytes(&self.sources)
    }
}

/// What a datagram is, as far as it is for anybody.
pub(super) enum Came<'a> {
    /// A packet of this stream's source.
    Media(LiveId, Packet<'a>),
    /// What this stream's source says beside its media.
    Control(LiveId, Control),
    /// A packet of nobody's stream yet; or of an address whose stream has a source that is silent.
    Candidate(Option<LiveId>, Packet<'a>),
    /// It was dropped, and counted.
    Nothing,
}

impl RtpIn {
    /// The RTP socket is bound here.
    pub fn set_bound(&mut self, bound: SocketAddr) {
        self.bound = Some(bound);
    }

    /// Who knows whether an address is this machine's.
    pub fn set_own_addresses(&mut self, is_own: fn(IpAddr) -> bool) {
        self.is_own = Some(is_own);
    }

    /// Whether there is an RTP socket.
    pub fn is_bound(&self) -> bool {
        self.bound.is_some()
    }

    /// Finds out whose a datagram is: the source's of a stream, of which `known` has the SSRC and
    /// when it was last heard, or a candidate's.
    pub fn sort<'a>(
        &self,
        (from, port): (SocketAddr, UdpPort),
        bytes: &'a [u8],
        tokens: Option<&Tokens>,
        known: impl FnOnce(LiveId) -> Option<(u32, Moment)>,
        desk: &mut Desk,
    ) -> Came<'a> {
        if port == UdpPort::Rtcp || rtp::is_control(bytes) {
            return self.sort_control(from, bytes, desk);
        }
        // Without tokens there is no RTP.
        let Some(tokens) = tokens else {
            return Came::Nothing;
        };
        let dropped = if tokens.sessions_from(from).next().is_none() {
            Count::Stranger
        } else if let Ok(packet) = Packet::parse(bytes) {
            let running = self.sources.get(&from).copied();
            match running.and_then(|id| Some((id, known(id)?))) {
                Some((id, (ssrc, _))) if ssrc == packet.ssrc => return Came::Media(id, packet),
                Some((_, (_, heard))) if desk.now.since(heard) < SILENT_AFTER => {
                    Count::SecondSource
                }
                // Its next packets would be those of another source.
                Some(_) | None if self.candidates.has_just_begun(from, desk.now) => Count::Refused,
                Some(_) | None => return Came::Candidate(running, packet),
            }
        } else {
            Count::Malformed
        };
        desk.counts.add(dropped, 1);
        Came::Nothing
    }

    /// RTCP comes from the source's port, or as RFC 3550 has it, from the one above.
    fn sort_control<'a>(&self, from: SocketAddr, bytes: &[u8], desk: &mut Desk) -> Came<'a> {
        let below = SocketAddr::new(from.ip(), from.port().saturating_sub(1));
        let addresses = [from, below];
        let mut live = addresses
            .iter()
            .filter_map(|address| self.sources.get(address));
        let dropped = match (live.next(), Control::parse(bytes)) {
            (Some(live), Ok(control)) => return Came::Control(*live, control),
            (None, _) => Count::Stranger,
            (Some(_), Err(_)) => Count::Malformed,
        };
        desk.counts.add(dropped, 1);
        Came::Nothing
    }

    /// A packet of who may become a source: the second in sequence makes it one. Then the first is
    /// returned, if it was kept.
    pub fn hear(
        &mut self,
        from: SocketAddr,
        packet: &Packet<'_>,
        bytes: &[u8],
        desk: &mut Desk,
    ) -> Option<Box<[u8]>> {
        let first = self.candidates.hear(from, packet, bytes, desk.now);
        self.rearm_candidates(desk);
        first
    }

    /// This address is the source of this stream from now on.
    pub fn is_source(&mut self, address: SocketAddr, id: LiveId) {
        self.sources.insert(address, id);
    }

    /// What must hold between two inputs. Says how many deadlines are armed. `has` says whether
    /// there is a stream.
    pub fn check(&self, has: impl Fn(LiveId) -> bool) -> usize {
        let mut sources = self.sources.values();
        assert!(sources.all(|id| has(*id)), "a source outlives its stream");
        usize::from(self.armed.is_armed())
    }

    fn rearm_candidates(&mut self, desk: &mut Desk) {
        if let Some(deadline) = self.candidates.deadline() {
            desk.timers
                .arm(&mut self.armed, Owner::Candidates, deadline);
        }
    }

    /// The oldest first packet may have waited for long enough.
    pub fn candidates_due(&mut self, desk: &mut Desk) {
        let now = desk.now;
        self.armed.fired();
        self.candidates.expire(now);
        self.rearm_candidates(desk);
    }

    /// A stream's source is not an address any more.
    pub fn forget_rtp_source(&mut self, address: SocketAddr, id: LiveId) {
        if self.sources.get(&address) == Some(&id) {
            self.sources.remove(&address);
        }
    }

    /// First packets of hosts that lost their tokens are forgotten.
    pub fn forget_candidates(&mut self, removed: &[std::rc::Rc<Tuple>]) {
        for address in removed
            .iter()
            .filter_map(|tuple| tuple.rtp())
            .flat_map(|rtp| &rtp.addresses)
        {
            let from = SocketAddr::new(address.ip().to_canonical(), address.port());
            self.candidates.forget(from);
        }
    }

    /// Why a UDP client cannot be one, if it cannot.
    pub fn destination_fault(&self, address: SocketAddr) -> Option<&'static str> {
        let Some(bound) = self.bound else {
            return Some("there is no RTP here, so it would get nothing; see --rtp");
        };
        if address.port() == bound.port() && self.is_here(bound.ip(), address.ip()) {
            Some("that is this server's own RTP address")
        } else if !is_reachable(bound, address.ip()) {
            Some("the RTP socket is of the other IP version and cannot reach it; see --rtp")
        } else {
            None
        }
    }

    /// Whether what is sent to an address arrives at a socket of this machine that is bound there.
    fn is_here(&self, bound: IpAddr, address: IpAddr) -> bool {
        let (bound, address) = (bound.to_canonical(), address.to_canonical());
        let is_own = || self.is_own.is_some_and(|is_own| is_own(address));
        address == bound || (bound.is_unspecified() && (address.is_loopback() || is_own()))
    }
}

/// Whether a socket that is bound here can send there.
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

    /// What is sent there would come back, and be taken for a source's.
    #[test]
    fn no_address_of_this_machine_is_a_client_at_the_rtp_sockets_port() {
        let own = "that is this server's own RTP address";
        for (bound, client, is_refused) in [
            ("0.0.0.0:5004", "10.9.0.7:5004", true),
            ("0.0.0.0:5004", "127.0.0.1:5004", true),
            ("0.0.0.0:5004", "10.9.0.7:5005", false),
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
            let is_own = |address: IpAddr| address == IpAddr::from([10, 9, 0, 7]);
            stage.relay.set_own_addresses(is_own);
            let call = stage.client(&format!(
                "POST /api/add-token?type=rtp-udp&sessionid=a&udp-clients={client} HTTP/1.1\r\nHost: localhost\r\n\r\n"
            ));
            stage.assert_status(call, if is_refused { 400 } else { 201 });
            assert_eq!(stage.text(call).contains(own), is_refused, "{client}");
        }
    }
}
