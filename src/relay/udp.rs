//! RTP-UDP, the way in: who a datagram is from, and whose stream it is. (The way out is [`super::outlet`].)
//!
//! Every datagram is checked against the tuples. What comes from no token's host, is not RTP, or is a second source is
//! dropped and counted, never answered. (Contract, *RTP-UDP*; RFC 3550, RFC 5761.)

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use super::admission::{Claim, Way};
use super::live::Origin;
use super::{LiveId, Relay};
use crate::format::Format;
use crate::gate::{SessionId, Tuple};
use crate::moment::Moment;
use crate::rtp::{self, PAYLOAD_TYPE_MPEG_TS, Packet, Probation, Reorder, Sequence};
use crate::stream::End;

/// Which socket a datagram came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpPort {
    /// The RTP socket, where RTCP may come too (RFC 5761).
    Rtp,
    /// The one above it, for RTCP only.
    Rtcp,
}

/// Datagrams that came in, and why some were dropped.
#[derive(Clone, Copy, Debug, Default)]
pub struct UdpFigures {
    /// Taken from sources.
    pub received: u64,
    /// Sent to clients.
    pub sent: u64,
    /// From a host that no token names.
    pub dropped_stranger: u64,
    /// Neither RTP nor RTCP.
    pub dropped_malformed: u64,
    /// From a host whose sessions all have another source.
    pub dropped_second_source: u64,
    /// Not in sequence with what its source sends.
    pub dropped_out_of_sequence: u64,
    /// The kernel took no more.
    pub dropped_unsent: u64,
}

/// Everything about RTP that belongs to no single stream.
#[derive(Default)]
pub(super) struct Udp {
    /// Where the RTP socket is bound, if there is one.
    pub bound: Option<SocketAddr>,
    pub figures: UdpFigures,
    /// The streams whose source is an address.
    sources: HashMap<SocketAddr, LiveId>,
    /// First packets that wait for their second.
    candidates: HashMap<SocketAddr, Candidate>,
    /// Streams without a source whose rest still goes out.
    pub resting: HashMap<SessionId, LiveId>,
}

/// A first packet.
struct Candidate {
    probation: Probation,
    datagram: Vec<u8>,
}

/// First packets that are kept at once; where there are more, the others' sources begin a packet later.
const CANDIDATES_MAX: usize = 1024;

/// A stream's RTP source.
pub(super) struct RtpInput {
    pub ssrc: u32,
    sequence: Sequence,
    pub reorder: Reorder,
    pub payload_type: u8,
    pub heard: Moment,
}

impl Relay {
    /// The RTP socket is bound here: tokens may name UDP clients that it can reach.
    pub fn set_rtp(&mut self, bound: SocketAddr) {
        self.udp.bound = Some(bound);
    }

    /// A datagram has arrived.
    pub fn datagram(&mut self, from: SocketAddr, port: UdpPort, bytes: &[u8], now: Moment) {
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        if port == UdpPort::Rtcp || rtp::is_control(bytes) {
            return self.control(from, bytes, now);
        }
        let Some(tokens) = &self.tokens else { return };
        if tokens.sessions_from(from).next().is_none() {
            self.udp.figures.dropped_stranger += 1;
            return;
        }
        let Ok(packet) = Packet::parse(bytes) else {
            self.udp.figures.dropped_malformed += 1;
            return;
        };
        let running = self.udp.sources.get(&from).copied();
        let is_pinned = |live: LiveId| {
            self.lives
                .get(live)
                .and_then(|live| live.input.as_ref())
                .is_some_and(|input| input.ssrc == packet.ssrc)
        };
        match running {
            Some(live) if is_pinned(live) => self.media_datagram(live, &packet, bytes, now),
            Some(_) | None => self.candidate(from, running, &packet, bytes, now),
        }
    }

    /// A packet of nobody's stream yet: the second in sequence begins one.
    fn candidate(
        &mut self,
        from: SocketAddr,
        running: Option<LiveId>,
        packet: &Packet<'_>,
        bytes: &[u8],
        now: Moment,
    ) {
        let session = match running.and_then(|live| self.lives.get(live)) {
            Some(live) => Some(live.session.clone()),
            None => self.free_session_of(from),
        };
        let Some(session) = session else {
            self.udp.figures.dropped_second_source += 1;
            return;
        };
        let probation = Probation {
            ssrc: packet.ssrc,
            sequence_number: packet.sequence_number,
        };
        let before = self.udp.candidates.remove(&from);
        match before.filter(|before| {
            before
                .probation
                .is_followed_by(packet.ssrc, packet.sequence_number)
        }) {
            Some(first) => {
                if let Some(old) = running {
                    self.source_lost(old, Origin::Rtp(from), "its source has started anew", now);
                }
                self.begin_rtp(from, session, &first.datagram, now);
                self.datagram(from, UdpPort::Rtp, bytes, now);
            }
            None if self.udp.candidates.len() < CANDIDATES_MAX => {
                self.udp.figures.dropped_out_of_sequence += u64::from(running.is_some());
                self.udp.candidates.insert(
                    from,
                    Candidate {
                        probation,
                        datagram: bytes.to_vec(),
                    },
                );
            }
            None => self.udp.figures.dropped_out_of_sequence += 1,
        }
    }

    /// The first session with this UDP client that has no source.
    fn free_session_of(&self, from: SocketAddr) -> Option<SessionId> {
        let mut sessions = self.tokens.as_ref()?.sessions_from(from);
        sessions.find(|session| !self.has_source(session)).cloned()
    }

    fn begin_rtp(&mut self, from: SocketAddr, session: SessionId, first: &[u8], now: Moment) {
        let Ok(packet) = Packet::parse(first) else {
            return;
        };
        let claim = Claim::without_request(Way::Rtp, from);
        let standing = self.standing(&session);
        if !self.gate(now).may_publish(&claim, &session, &standing) {
            self.udp.figures.dropped_second_source += 1;
            return;
        }
        self.take_from_origins(&session, now);
        let given_type = (packet.payload_type == PAYLOAD_TYPE_MPEG_TS)
            .then(|| Format::MpegTs.media_type().to_owned());
        let id = self.begin_live(session.clone(), given_type, Origin::Rtp(from), from, now);
        let Some(live) = self.lives.get_mut(id) else {
            return;
        };
        live.input = Some(Box::new(RtpInput {
            ssrc: packet.ssrc,
            sequence: Sequence::new(packet.sequence_number),
            reorder: Reorder::default(),
            payload_type: packet.payload_type,
            heard: now,
        }));
        self.begin_input(id, from, now);
        self.admit_waiting(&session, now);
        self.media_datagram(id, &packet, first, now);
        self.rearm_live(id, now);
    }

    /// A stream's source is this address from now on. What comes as RTP goes out as it came.
    pub(super) fn begin_input(&mut self, id: LiveId, from: SocketAddr, now: Moment) {
        if let Some(live) = self.lives.get_mut(id) {
            live.outlet.transport = None;
        }
        self.udp.sources.insert(from, id);
        self.refresh_clients(id, now);
    }

    /// A packet of a stream's source.
    fn media_datagram(&mut self, id: LiveId, packet: &Packet<'_>, bytes: &[u8], now: Moment) {
        let Some(live) = self.lives.get_mut(id) else {
            return;
        };
        let Some(input) = &mut live.input else { return };
        let Some(number) = input.sequence.extend(packet.sequence_number) else {
            self.udp.figures.dropped_out_of_sequence += 1;
            return;
        };
        input.heard = now;
        self.udp.figures.received += 1;
        live.outlet.forward(bytes);
        if input.payload_type == PAYLOAD_TYPE_MPEG_TS {
            let at_once = input.reorder.insert(number, packet.payload, now);
            if let Some(payload) = at_once {
                self.append(id, payload, now);
            }
            self.drain_reorder(id, now);
        } else {
            live.stream.count(packet.payload.len(), now);
        }
        self.post(id);
    }

    /// What is in order now goes on.
    pub(super) fn drain_reorder(&mut self, id: LiveId, now: Moment) {
        while let Some(payload) = self
            .lives
            .get_mut(id)
            .and_then(|live| live.input.as_mut())
            .and_then(|input| input.reorder.next(now))
        {
            self.append(id, &payload, now);
        }
        if self
            .lives
            .get(id)
            .and_then(|live| live.input.as_ref())
            .is_some_and(|input| input.reorder.deadline().is_some())
        {
            self.rearm_live(id, now);
        }
    }

    /// RTCP: a source's farewell ends its stream, the rest of what it says goes on to the clients.
    fn control(&mut self, from: SocketAddr, bytes: &[u8], now: Moment) {
        let Ok(control) = rtp::Control::parse(bytes) else {
            self.udp.figures.dropped_malformed += 1;
            return;
        };
        // It comes from the source's port, or as RFC 3550 has it, from the one above.
        let below = SocketAddr::new(from.ip(), from.port().saturating_sub(1));
        let live = [from, below]
            .iter()
            .find_map(|address| self.udp.sources.get(address))
            .copied();
        let is_its = |live: &LiveId| {
            self.lives
                .get(*live)
                .and_then(|live| live.input.as_ref())
                .is_some_and(|input| input.ssrc == control.ssrc)
        };
        let Some(id) = live.filter(is_its) else {
            self.udp.figures.dropped_stranger += 1;
            return;
        };
        if let Some(live) = self.lives.get_mut(id) {
            live.outlet.forward(bytes);
        }
        self.post(id);
        if control.says_bye {
            self.end_live(id, End::Complete, "its source said goodbye", now);
        }
    }

    /// A stream's source is not an address any more.
    pub(super) fn forget_rtp_source(&mut self, address: SocketAddr, id: LiveId) {
        if self.udp.sources.get(&address) == Some(&id) {
            self.udp.sources.remove(&address);
        }
    }

    /// A session's tuples have changed: who is a client of its streams, and who may be its source.
    pub(super) fn tuples_changed(&mut self, session: &SessionId, now: Moment) {
        let running = self.running.get(session).copied();
        let resting = self.udp.resting.get(session).copied();
        for id in running.into_iter().chain(resting) {
            self.refresh_clients(id, now);
        }
        let source = running
            .and_then(|id| self.lives.get(id))
            .map(|live| live.source);
        if let (Some(id), Some(Origin::Rtp(address))) = (running, source) {
            let is_named = self
                .tokens
                .as_ref()
                .is_some_and(|tokens| tokens.sessions_from(address).any(|named| named == session));
            if !is_named {
                self.end_live(id, End::Lost, "its token was revoked", now);
            }
        }
    }

    /// First packets of hosts that lost their tokens are forgotten.
    pub(super) fn forget_candidates(&mut self, removed: &[std::rc::Rc<Tuple>]) {
        for address in removed
            .iter()
            .filter_map(|tuple| tuple.rtp())
            .flat_map(|rtp| &rtp.addresses)
        {
            self.udp.candidates.remove(&SocketAddr::new(
                address.ip().to_canonical(),
                address.port(),
            ));
        }
    }

    /// Why a UDP client cannot be one, if it cannot.
    pub(super) fn destination_fault(&self, address: SocketAddr) -> Option<&'static str> {
        let bound = self.udp.bound?;
        let is_here = address.ip() == bound.ip().to_canonical()
            || (bound.ip().is_unspecified() && address.ip().is_loopback());
        if address.port() == bound.port() && is_here {
            Some("that is this server's own RTP address")
        } else if !is_reachable(bound, address.ip()) {
            Some("the RTP socket is of the other IP version and cannot reach it; see --rtp")
        } else {
            None
        }
    }
}

/// Whether a socket that is bound here can send there.
pub(super) fn is_reachable(bound: SocketAddr, address: IpAddr) -> bool {
    match (bound.ip(), address.to_canonical()) {
        (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) => true,
        (IpAddr::V6(bound), IpAddr::V4(_)) => bound.is_unspecified(),
        (IpAddr::V4(_), IpAddr::V6(_)) => false,
    }
}
