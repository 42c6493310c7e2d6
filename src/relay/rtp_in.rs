//! UDP, the way in: who a datagram is from, and whose stream it is. (The way out is
//! [`super::streams`].)
//!
//! Every datagram is checked against the tuples, which name who sends it, or the group that it is
//! sent to. What no token names, is neither RTP nor the MPEG-TS that a token is for, or is a second
//! source is dropped and counted, never answered. (Contract, *RTP-UDP*; RFC 3550, RFC 5761.)
//!
//! Bounds. A datagram costs a look-up by its address, and another if a token names that. A source
//! holds what came early (0.7 MiB, [`Reorder`]), all others together 0.75 MiB ([`Candidates`]), and
//! each address that is a source an entry here.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::LiveId;
use super::admission::{Claim, Way};
use super::counts::Count;
use super::desk::Desk;
use super::grants::SESSIONS_TRIED_MAX;
use super::timers::{Armed, Owner};
use crate::gate::{Carriage, Join, Tokens, Tuple};
use crate::held::hash_map_bytes;
use crate::moment::Moment;
use crate::rtp::{self, Bare, Candidates, Control, Packet};

/// Which socket a datagram came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpPort {
    /// The RTP socket, where RTCP may come too (RFC 5761).
    Rtp,
    /// The one above it, for RTCP only.
    Rtcp,
    /// That of a group: the one with this number in [`Settings::joins`](super::Settings::joins).
    Group(usize),
}

/// Everything about RTP that belongs to no single stream.
#[derive(Default)]
pub(super) struct RtpIn {
    /// Where the RTP socket is bound, if there is one.
    bound: Option<SocketAddr>,
    /// Whether an address is this machine's, as the shell finds out.
    is_own: Option<fn(IpAddr) -> bool>,
    /// The streams whose source is what a token names: an address, or a group.
    sources: HashMap<SocketAddr, LiveId>,
    /// First packets that wait for their second.
    candidates: Candidates<Sender>,
    /// For when the oldest of these is given up.
    armed: Armed,
}

/// Who a datagram is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sender {
    /// What a token has to name: its address, or the group that it is sent to.
    pub named: SocketAddr,
    /// Its address.
    pub from: SocketAddr,
}

/// What is known of a stream's source that sends datagrams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// `None`: it sends no RTP.
    pub ssrc: Option<u32>,
    /// Its address.
    pub from: SocketAddr,
    /// When its newest datagram came.
    pub heard: Moment,
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

impl Sender {
    /// By which way it comes in, with RTP or without.
    pub fn claim(&self, is_bare: bool) -> Claim<'static> {
        let way = match is_bare {
            _ if self.named != self.from => Way::Group,
            true => Way::Bare,
            false => Way::Rtp,
        };
        Claim {
            to: Some(self.named),
            ..Claim::without_request(way, self.from)
        }
    }
}

impl Known {
    /// Whether it is the source's own: RTP by its SSRC, and both by where they come from.
    fn sent(&self, sender: Sender, packet: Option<&Packet<'_>>) -> bool {
        self.from == sender.from && self.ssrc == packet.map(|packet| packet.ssrc)
    }
}

/// Who may become a source, with this datagram.
pub(super) struct Newcomer<'a> {
    /// From where, and by which SSRC.
    pub sender: Sender,
    /// The stream of its address whose source is silent.
    pub silent: Option<LiveId>,
    /// `None`: it sends no RTP.
    pub packet: Option<Packet<'a>>,
}

/// What a datagram is, as far as it is for anybody.
pub(super) enum Came<'a> {
    /// A packet of this stream's source.
    Media(LiveId, Packet<'a>),
    /// MPEG-TS of this stream's source, which sends no RTP.
    Bare(LiveId),
    /// What this stream's source says beside its media.
    Control(LiveId, Control),
    /// A packet of nobody's stream yet; or of an address whose stream has a source that is silent.
    Newcomer(Newcomer<'a>),
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

    /// Finds out whose a datagram is: the source's of a stream, of which `known` tells, or a
    /// newcomer's.
    pub fn sort<'a>(
        &self,
        (from, port): (SocketAddr, UdpPort),
        bytes: &'a [u8],
        tokens: Option<&Tokens>,
        known: impl FnOnce(LiveId) -> Option<Known>,
        desk: &mut Desk,
    ) -> Came<'a> {
        let came = self
            .sender(from, port, &desk.settings().joins)
            .ok_or(Count::Stranger)
            .and_then(|sender| self.whose((sender, port), bytes, tokens, known, desk.now()));
        came.unwrap_or_else(|dropped| {
            desk.count(dropped, 1);
            Came::Nothing
        })
    }

    /// Who a datagram is from that has come to this socket; `None` if it counts for nobody's.
    fn sender(&self, from: SocketAddr, port: UdpPort, joins: &[Join]) -> Option<Sender> {
        let UdpPort::Group(number) = port else {
            let is_host = !from.ip().is_multicast();
            return is_host.then_some(Sender { named: from, from });
        };
        let (join, bound) = (joins.get(number)?, self.bound?);
        let is_other = join.source.is_some_and(|source| source != from.ip());
        // What this server sends to the group itself comes back.
        let is_own = from.port() == bound.port() && self.is_here(bound.ip(), from.ip());
        let named = SocketAddr::new(join.group, bound.port());
        (!is_other && !is_own).then_some(Sender { named, from })
    }

    /// The same of a sender; or as what it is dropped.
    fn whose<'a>(
        &self,
        (sender, port): (Sender, UdpPort),
        bytes: &'a [u8],
        tokens: Option<&Tokens>,
        known: impl FnOnce(LiveId) -> Option<Known>,
        now: Moment,
    ) -> Result<Came<'a>, Count> {
        let running = self.sources.get(&sender.named).copied();
        let source = running.and_then(|id| Some((id, known(id)?)));
        let is_bare = source.is_some_and(|(_, known)| known.ssrc.is_none());
        if port == UdpPort::Rtcp || (rtp::is_control(bytes) && !is_bare) {
            return self.whose_control(sender, bytes);
        }
        // Without tokens there is no RTP.
        let Some(tokens) = tokens else {
            return Ok(Came::Nothing);
        };
        let may_be_bare = may_be_bare(tokens, sender.named).ok_or(Count::Stranger)?;
        let packet = Packet::parse(bytes).ok().filter(|_| !is_bare);
        let begins = || may_be_bare && Bare::begins_with(bytes);
        match (source, packet) {
            (Some((id, its)), packet) if its.sent(sender, packet.as_ref()) => {
                Ok(packet.map_or(Came::Bare(id), |packet| Came::Media(id, packet)))
            }
            (_, None) if !begins() => Err(Count::Malformed),
            (Some((_, its)), _) if now.since(its.heard) < SILENT_AFTER => Err(Count::SecondSource),
            // Its next packets would be those of another source.
            _ if self.candidates.has_just_begun(sender, now) => Err(Count::Refused),
            (_, packet) => Ok(Came::Newcomer(Newcomer {
                sender,
                silent: running,
                packet,
            })),
        }
    }

    /// RTCP comes from the source's port, or as RFC 3550 has it, from the one above.
    fn whose_control<'a>(&self, sender: Sender, bytes: &[u8]) -> Result<Came<'a>, Count> {
        let named = sender.named;
        let below = SocketAddr::new(named.ip(), named.port().saturating_sub(1));
        let addresses = [named, below];
        let mut live = addresses
            .iter()
            .filter_map(|address| self.sources.get(address));
        let live = live.next().ok_or(Count::Stranger)?;
        let control = Control::parse(bytes).map_err(|_| Count::Malformed)?;
        Ok(Came::Control(*live, control))
    }

    /// A datagram of who may become a source: MPEG-TS without RTP makes it one, and of RTP the
    /// second in sequence. Then the first is returned, if it was kept.
    pub fn hear(
        &mut self,
        newcomer: &Newcomer<'_>,
        bytes: &[u8],
        desk: &mut Desk,
    ) -> Option<Box<[u8]>> {
        let (sender, now) = (newcomer.sender, desk.now());
        let first = match &newcomer.packet {
            Some(packet) => self.candidates.hear(sender, packet, bytes, now),
            None => {
                self.candidates.begin(sender, now);
                Some(Box::default())
            }
        };
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
            desk.arm(&mut self.armed, Owner::Candidates, deadline);
        }
    }

    /// The oldest first packet may have waited for long enough.
    pub fn candidates_due(&mut self, desk: &mut Desk) {
        let now = desk.now();
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
        let clients = removed.iter().filter_map(|tuple| tuple.rtp());
        let addresses = clients.flat_map(|rtp| &rtp.addresses);
        let gone: HashSet<SocketAddr> = addresses
            .map(|address| SocketAddr::new(address.ip().to_canonical(), address.port()))
            .collect();
        self.candidates
            .forget(|sender| gone.contains(&sender.named));
    }

    /// Why a UDP client cannot be one, if it cannot.
    pub fn destination_fault(
        &self,
        address: SocketAddr,
        carriage: Carriage,
    ) -> Option<&'static str> {
        let Some(bound) = self.bound else {
            return Some("there is no RTP here, so it would get nothing; see --rtp");
        };
        let mut ports = carriage.ports(address.port()).into_iter().flatten();
        let is_own_port = ports.any(|port| port == bound.port());
        if is_own_port && self.is_here(bound.ip(), address.ip()) {
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

/// Whether a token that names this address is for MPEG-TS without RTP; `None` if none names it.
fn may_be_bare(tokens: &Tokens, named: SocketAddr) -> Option<bool> {
    let sessions = tokens.sessions_from(named).take(SESSIONS_TRIED_MAX);
    sessions
        .map(|(_, carriage)| carriage == Carriage::Bare)
        .reduce(|one, other| one || other)
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
