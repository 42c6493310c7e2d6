//! UDP, the way in: who a datagram is from, and whose stream it is. (The way out is
//! [`super::outlet`].)
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

use super::admission::{Claim, Standing, Way};
use super::clients::HEAD_COST;
use super::counts::Count;
use super::desk::Desk;
use super::live::Origin;
use super::timers::{Armed, Owner};
use super::{LiveId, Relay};
use crate::format::Format;
use crate::gate::{Carriage, Join, SessionId, Tuple};
use crate::held::hash_map_bytes;
use crate::http::Framing;
use crate::moment::Moment;
use crate::rtp::{
    self, Bare, Candidates, Disorder, PAYLOAD_TYPE_MPEG_TS, Packet, Reorder, Sequence,
};
use crate::stream::End;

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
    pub bound: Option<SocketAddr>,
    /// Whether an address is this machine's, as the shell finds out.
    is_own: Option<fn(IpAddr) -> bool>,
    /// The streams whose source is what a token names: an address, or a group.
    pub sources: HashMap<SocketAddr, LiveId>,
    /// First packets that wait for their second.
    candidates: Candidates<Sender>,
    /// For when the oldest of these is given up.
    pub armed: Armed,
}

/// Who a datagram is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Sender {
    /// What a token has to name: its address, or the group that it is sent to.
    named: SocketAddr,
    from: SocketAddr,
}

/// A stream's source that sends MPEG-TS without RTP.
pub(super) struct BareInput {
    bare: Bare,
    /// Nobody else's datagrams count: nothing in them says whose they are.
    from: SocketAddr,
    pub heard: Moment,
}

/// A stream's RTP source.
pub(super) struct RtpInput {
    pub ssrc: u32,
    from: SocketAddr,
    sequence: Sequence,
    pub reorder: Reorder,
    /// So much of the disorder is in the figures of all.
    disorder_told: Disorder,
    pub payload_type: u8,
    pub heard: Moment,
}

/// While a source has been heard within this, no other SSRC from its address counts: who spoofs
/// must guess it.
const SILENT_AFTER: Duration = Duration::from_secs(1);
/// A host:port may be named by every session there is; of so many a free one is sought.
const SESSIONS_TRIED_MAX: usize = 64;

impl RtpIn {
    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        self.candidates.held_bytes() + hash_map_bytes(&self.sources)
    }
}

impl Sender {
    fn is_of_group(&self) -> bool {
        self.named != self.from
    }

    /// By which way it comes in, with this or that.
    fn claim(&self, is_bare: bool) -> Claim<'static> {
        let way = match is_bare {
            _ if self.is_of_group() => Way::Group,
            true => Way::Bare,
            false => Way::Rtp,
        };
        Claim {
            to: Some(self.named),
            ..Claim::without_request(way, self.from)
        }
    }
}

impl BareInput {
    /// Bytes that it takes.
    pub fn held_bytes(&self) -> usize {
        size_of::<BareInput>() + self.bare.held_bytes()
    }
}

impl RtpInput {
    fn is_of(&self, sender: Sender, packet: &Packet<'_>) -> bool {
        self.ssrc == packet.ssrc && self.from == sender.from
    }

    /// Bytes that it takes.
    pub fn held_bytes(&self) -> usize {
        size_of::<RtpInput>() + self.reorder.held_bytes()
    }
}

impl RtpIn {
    fn rearm_candidates(&mut self, desk: &mut Desk) {
        if let Some(deadline) = self.candidates.deadline() {
            desk.timers
                .arm(&mut self.armed, Owner::Candidates, deadline);
        }
    }

    /// The oldest first packet may have waited for long enough.
    pub(super) fn candidates_due(&mut self, desk: &mut Desk) {
        let now = desk.now;
        self.armed.fired();
        self.candidates.expire(now);
        self.rearm_candidates(desk);
    }

    /// A stream's source is not an address any more.
    pub(super) fn forget_rtp_source(&mut self, address: SocketAddr, id: LiveId) {
        if self.sources.get(&address) == Some(&id) {
            self.sources.remove(&address);
        }
    }

    /// First packets of hosts that lost their tokens are forgotten.
    pub(super) fn forget_candidates(&mut self, removed: &[std::rc::Rc<Tuple>]) {
        let clients = removed.iter().filter_map(|tuple| tuple.rtp());
        let addresses = clients.flat_map(|rtp| &rtp.addresses);
        let gone: HashSet<SocketAddr> = addresses.map(canonical).collect();
        self.candidates
            .forget(|sender| gone.contains(&sender.named));
    }

    /// Who a datagram is from that has come to this socket; `None` if it counts for nobody's.
    fn sender(&self, from: SocketAddr, port: UdpPort, joins: &[Join]) -> Option<Sender> {
        let from = canonical(&from);
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

    /// Why a UDP client cannot be one, if it cannot.
    pub(super) fn destination_fault(
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

impl Relay {
    /// The RTP socket is bound here: tokens may name UDP clients that it can reach.
    pub fn set_rtp(&mut self, bound: SocketAddr) {
        self.rtp_in.bound = Some(bound);
    }

    /// Who knows whether an address is this machine's. It is asked for UDP clients at the RTP
    /// socket's port only: what went to one of these would come back as a source's.
    pub fn set_own_addresses(&mut self, is_own: fn(IpAddr) -> bool) {
        self.rtp_in.is_own = Some(is_own);
    }

    /// A datagram has arrived. Says what taking it has cost.
    pub fn datagram(
        &mut self,
        from: SocketAddr,
        port: UdpPort,
        bytes: &[u8],
        now: Moment,
    ) -> usize {
        self.desk.now = now;
        self.clients.begin_go(bytes.len());
        match self.rtp_in.sender(from, port, &self.desk.settings.joins) {
            Some(sender) if port == UdpPort::Rtcp || rtp::is_control(bytes) => {
                self.control(sender, bytes);
            }
            Some(sender) => self.sort_datagram(sender, bytes),
            None => self.desk.counts.add(Count::Stranger, 1),
        }
        self.settle();
        self.clients.cost_of_go()
    }

    /// Finds out whose it is.
    fn sort_datagram(&mut self, sender: Sender, bytes: &[u8]) {
        let now = self.desk.now;
        let Some(may_be_bare) = self.may_be_bare(sender.named) else {
            self.desk.counts.add(Count::Stranger, 1);
            return;
        };
        let running = self.rtp_in.sources.get(&sender.named).copied();
        let live = running.and_then(|id| Some((id, self.streams.lives.get(id)?)));
        if let Some((id, live)) = live
            && let Some(input) = &live.bare
        {
            return match input.from == sender.from {
                true => self.bare_datagram(id, bytes),
                false if now.since(input.heard) < SILENT_AFTER => {
                    self.desk.counts.add(Count::SecondSource, 1);
                }
                false => self.bare_candidate(sender, running, bytes),
            };
        }
        let Ok(packet) = Packet::parse(bytes) else {
            return match may_be_bare && Bare::begins_with(bytes) {
                true => self.bare_candidate(sender, running, bytes),
                false => self.desk.counts.add(Count::Malformed, 1),
            };
        };
        match live.and_then(|(id, live)| Some((id, live.input.as_ref()?))) {
            Some((id, input)) if input.is_of(sender, &packet) => {
                self.media_datagram(id, &packet, bytes);
            }
            Some((_, input)) if now.since(input.heard) < SILENT_AFTER => {
                self.desk.counts.add(Count::SecondSource, 1);
            }
            Some(_) | None => self.candidate(sender, running, (&packet, bytes)),
        }
    }

    /// Whether a token that names this address is for MPEG-TS without RTP; `None` if none names it.
    fn may_be_bare(&self, named: SocketAddr) -> Option<bool> {
        let sessions = self.grants.tokens()?.sessions_from(named);
        let carriages = sessions.take(SESSIONS_TRIED_MAX).map(|(_, its)| its);
        carriages
            .map(|its| its == Carriage::Bare)
            .reduce(|one, other| one || other)
    }

    /// A packet of nobody's stream yet: the second in sequence begins one.
    fn candidate(
        &mut self,
        sender: Sender,
        running: Option<LiveId>,
        (packet, bytes): (&Packet<'_>, &[u8]),
    ) {
        let Some(session) = self.session_to_begin(sender, running, false) else {
            return;
        };
        let now = self.desk.now;
        if let Some(first) = self.rtp_in.candidates.hear(sender, packet, bytes, now) {
            self.lose_silent(sender, running);
            self.begin_rtp(sender, session, packet);
            // It may not have been kept.
            if !first.is_empty() {
                self.sort_datagram(sender, &first);
            }
            self.sort_datagram(sender, bytes);
        }
        self.rtp_in.rearm_candidates(&mut self.desk);
    }

    /// A transport stream of nobody's yet: it begins with this datagram.
    fn bare_candidate(&mut self, sender: Sender, running: Option<LiveId>, bytes: &[u8]) {
        let Some(session) = self.session_to_begin(sender, running, true) else {
            return;
        };
        self.rtp_in.candidates.begin(sender, self.desk.now);
        self.lose_silent(sender, running);
        self.begin_bare(sender, session);
        self.sort_datagram(sender, bytes);
        self.rtp_in.rearm_candidates(&mut self.desk);
    }

    /// The session for which a sender may become the source, if it may; else it is counted why not.
    fn session_to_begin(
        &mut self,
        sender: Sender,
        running: Option<LiveId>,
        is_bare: bool,
    ) -> Option<SessionId> {
        if self.rtp_in.candidates.has_just_begun(sender, self.desk.now) {
            self.desk.counts.add(Count::Refused, 1);
            return None;
        }
        let session = match running.and_then(|live| self.streams.lives.get(live)) {
            Some(live) => Some(live.session.clone()),
            None => self.free_session_of(sender, is_bare),
        };
        let Some(session) = session else {
            self.desk.counts.add(Count::SecondSource, 1);
            return None;
        };
        let claim = sender.claim(is_bare);
        if self.grants.gate(&self.desk).enter(&claim).is_err() {
            self.desk.counts.add(Count::Outside, 1);
            return None;
        }
        // A source that is silent has lost its place to who comes from the same address.
        let standing = Standing {
            has_source: running.is_none() && self.streams.has_source(&session),
            ..self.standing(&session)
        };
        let verdict =
            self.grants
                .gate(&self.desk)
                .publish(&claim, &session, Framing::UntilClose, &standing);
        if verdict.is_err() {
            self.desk.counts.add(Count::Refused, 1);
            return None;
        }
        Some(session)
    }

    /// The first session with this UDP client that has no source.
    fn free_session_of(&self, sender: Sender, is_bare: bool) -> Option<SessionId> {
        let sessions = self.grants.tokens()?.sessions_from(sender.named);
        let mut tried = sessions.take(SESSIONS_TRIED_MAX);
        let free = tried.find(|(session, carriage)| {
            (*carriage == Carriage::Bare) == is_bare && !self.streams.has_source(session)
        });
        free.map(|(session, _)| session.clone())
    }

    /// Whoever sent from there before has been silent, and somebody else begins.
    fn lose_silent(&mut self, sender: Sender, running: Option<LiveId>) {
        if let Some(old) = running {
            let reason = "its source has started anew";
            self.source_lost(old, Origin::Rtp(sender.named), reason);
        }
    }

    /// A source has shown with its second packet that it is one.
    fn begin_rtp(&mut self, sender: Sender, session: SessionId, second: &Packet<'_>) {
        let given_type = (second.payload_type == PAYLOAD_TYPE_MPEG_TS)
            .then(|| Format::MpegTs.media_type().to_owned());
        let input = RtpInput {
            ssrc: second.ssrc,
            from: sender.from,
            sequence: Sequence::new(second.sequence_number),
            reorder: Reorder::default(),
            disorder_told: Disorder::default(),
            payload_type: second.payload_type,
            heard: self.desk.now,
        };
        let id = self.begin_datagrams(sender, session, given_type);
        if let Some(live) = self.streams.lives.get_mut(id) {
            live.input = Some(Box::new(input));
            // What comes as RTP goes out as it came.
            live.outlet.transport = None;
            self.streams.rearm_live(id, &mut self.desk);
        }
    }

    /// A source without RTP begins: it goes out as a body does.
    fn begin_bare(&mut self, sender: Sender, session: SessionId) {
        let given_type = Format::MpegTs.media_type().to_owned();
        let input = BareInput {
            bare: Bare::default(),
            from: sender.from,
            heard: self.desk.now,
        };
        let id = self.begin_datagrams(sender, session, Some(given_type));
        if let Some(live) = self.streams.lives.get_mut(id) {
            live.bare = Some(Box::new(input));
            self.refresh_clients(id);
            self.streams.rearm_live(id, &mut self.desk);
        }
    }

    fn begin_datagrams(
        &mut self,
        sender: Sender,
        session: SessionId,
        given_type: Option<String>,
    ) -> LiveId {
        self.clients.count_cost(HEAD_COST);
        self.take_from_origins(&session);
        let origin = Origin::Rtp(sender.named);
        let id = self.begin(session.clone(), given_type, origin, sender.from);
        self.rtp_in.sources.insert(sender.named, id);
        self.admit_waiting(&session);
        id
    }

    /// A datagram of a stream's source that sends no RTP.
    fn bare_datagram(&mut self, id: LiveId, bytes: &[u8]) {
        let now = self.desk.now;
        let live = self.streams.lives.get_mut(id);
        let Some(input) = live.and_then(|live| live.bare.as_mut()) else {
            return;
        };
        input.heard = now;
        let mut packets = Vec::with_capacity(bytes.len());
        input.bare.feed(bytes, &mut packets);
        self.desk.counts.add(Count::Datagrams, 1);
        if !packets.is_empty() {
            self.append(id, &packets);
        }
    }

    /// A packet of a stream's source.
    fn media_datagram(&mut self, id: LiveId, packet: &Packet<'_>, bytes: &[u8]) {
        let now = self.desk.now;
        let Some(live) = self.streams.lives.get_mut(id) else {
            return;
        };
        let Some(input) = &mut live.input else { return };
        let Some(number) = input.sequence.extend(packet.sequence_number) else {
            self.desk.counts.add(Count::OutOfSequence, 1);
            return;
        };
        input.heard = now;
        self.desk.counts.add(Count::Datagrams, 1);
        let transport = input.payload_type == PAYLOAD_TYPE_MPEG_TS;
        let transport = transport.then_some(packet.payload);
        let fits = live.outlet.forward(bytes, transport);
        self.desk.counts.add(Count::Unsent, u64::from(!fits));
        if input.payload_type == PAYLOAD_TYPE_MPEG_TS {
            let at_once = input.reorder.insert(number, packet.payload, now);
            if let Some(payload) = at_once {
                self.append(id, payload);
            }
            self.drain_reorder(id);
        } else {
            live.stream.count(packet.payload.len(), now);
        }
        self.streams.post(id);
    }

    /// What is in order now goes on.
    pub(super) fn drain_reorder(&mut self, id: LiveId) {
        let now = self.desk.now;
        while let Some(payload) = self
            .streams
            .lives
            .get_mut(id)
            .and_then(|live| live.input.as_mut())
            .and_then(|input| input.reorder.next(now))
        {
            self.append(id, &payload);
        }
        let live = self.streams.lives.get_mut(id);
        let Some(input) = live.and_then(|live| live.input.as_mut()) else {
            return;
        };
        let disorder = input.reorder.disorder();
        let told = std::mem::replace(&mut input.disorder_told, disorder);
        self.desk.counts.add(Count::Late, disorder.late - told.late);
        self.desk.counts.add(Count::Lost, disorder.lost - told.lost);
        if input.reorder.deadline().is_some() {
            self.streams.rearm_live(id, &mut self.desk);
        }
    }

    /// A stream's source is gone: what came early goes on, though something is missing before it.
    /// But nothing begins with it: what is unlike the stream is dropped.
    pub(super) fn finish_reorder(&mut self, id: LiveId) {
        let mut is_unlike = false;
        while let Some(payload) = self
            .streams
            .lives
            .get_mut(id)
            .and_then(|live| live.input.as_mut())
            .and_then(|input| input.reorder.finish())
        {
            is_unlike = is_unlike
                || self
                    .streams
                    .take_media(id, &payload, &mut self.desk)
                    .is_some();
        }
        self.drain_reorder(id);
    }

    /// RTCP: a source's farewell ends its stream, the rest of what it says goes on to the clients.
    fn control(&mut self, sender: Sender, bytes: &[u8]) {
        // It comes from the source's port, or as RFC 3550 has it, from the one above.
        let named = sender.named;
        let below = SocketAddr::new(named.ip(), named.port().saturating_sub(1));
        let live = [named, below]
            .iter()
            .find_map(|address| self.rtp_in.sources.get(address))
            .copied();
        let Some(id) = live else {
            self.desk.counts.add(Count::Stranger, 1);
            return;
        };
        let Ok(control) = rtp::Control::parse(bytes) else {
            self.desk.counts.add(Count::Malformed, 1);
            return;
        };
        let Some(live) = self.streams.lives.get_mut(id) else {
            return;
        };
        let is_its =
            |input: &RtpInput| input.ssrc == control.ssrc && input.from.ip() == sender.from.ip();
        if !live.input.as_deref().is_some_and(is_its) {
            self.desk.counts.add(Count::SecondSource, 1);
            return;
        }
        let fits = live.outlet.forward(bytes, None);
        self.desk.counts.add(Count::Unsent, u64::from(!fits));
        self.streams.post(id);
        if control.says_bye {
            self.clients.count_cost(HEAD_COST);
            self.end_live(id, End::Complete, "its source said goodbye");
        }
    }

    /// A session's tuples have changed: who is a client of its streams, and who may be its source.
    pub(super) fn tuples_changed(&mut self, session: &SessionId) {
        let running = self.streams.running.get(session).copied();
        let resting = self.streams.draining.resting(session);
        for id in running.into_iter().chain(resting) {
            self.refresh_clients(id);
        }
        let live = running.and_then(|id| self.streams.lives.get(id));
        let source = live.map(|live| (live.source, live.bare.is_some()));
        if let (Some(id), Some((Origin::Rtp(address), is_bare))) = (running, source)
            && !self.grants.is_client(session, address, is_bare)
        {
            self.end_live(id, End::Lost, "its token was revoked");
        }
    }
}

/// IPv4-mapped counts as IPv4; neither zone nor flow label is a token's to name.
pub(super) fn canonical(address: &SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
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
