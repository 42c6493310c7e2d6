//! Received datagrams: the sender of each, and the stream that it belongs to. ([`super::streams`]
//! sends datagrams.)
//!
//! Each datagram is looked up in the tokens, by its sender's address or by the group that it was
//! sent to. It is dropped and counted if no token names it, if it is neither RTP nor the MPEG-TS of
//! its token, or if it comes from a second source. It gets no answer. (Contract, *RTP-UDP*; RFC
//! 3550, RFC 5761.)
//!
//! Bounds: a datagram costs a look-up by its address, and another if a token names that. A source
//! keeps early packets (0.7 MiB, [`Reorder`]), all other senders together 0.75 MiB ([`Candidates`], and
//! [`BEGINNINGS_MAX`] addresses), and each source's address has an entry here.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::time::Duration;

use super::StreamId;
use super::admission::{AccessRequest, EntryPoint};
use super::context::Context;
use super::counts::Count;
use super::grants::SESSIONS_TRIED_MAX;
use super::timers::{Armed, Owner};
use crate::gate::{Tokens, Transport, Tuple, canonical};
use crate::rtp::{self, Bare, Candidates, Control, Packet, Sender};
use crate::time::Instant;
use crate::token_bucket::{Rate, TokenBuckets};

/// Socket that received a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpPort {
    /// The RTP socket. It may receive RTCP, too (RFC 5761).
    Rtp,
    /// The RTCP socket, at the port above.
    Rtcp,
    /// The socket of a multicast group, by its index in
    /// [`Settings::joins`](super::Settings::joins).
    Group(usize),
}

/// State of RTP that no single stream owns.
#[derive(Default)]
pub(super) struct RtpIn {
    /// Streams with a source that sends datagrams, by the address or group that a token names.
    sources: HashMap<SocketAddr, StreamId>,
    /// First packets of senders. The second packet in sequence makes a sender the source.
    candidates: Candidates,
    /// Addresses at which a source began lately.
    beginnings: TokenBuckets<SocketAddr, BEGINNINGS_MAX>,
    /// Timer for the deadline of `candidates`.
    armed: Armed,
}

/// A stream's source that sends datagrams.
#[derive(Clone, Copy, Debug)]
pub(super) struct DatagramSource {
    /// SSRC of its packets. `None`: it sends no RTP.
    pub ssrc: Option<u32>,
    /// Its address.
    pub from: SocketAddr,
    /// Arrival time of its newest datagram.
    pub heard: Instant,
}

/// Time after its newest datagram at which a source counts as silent. Until then the server drops
/// packets with another SSRC from its address, so an attacker must guess the SSRC.
const SILENT_AFTER: Duration = Duration::from_secs(1);

/// Sources that begin by one address or group. Starting a stream costs more than a packet.
const BEGINNINGS: Rate = Rate::per_second(1);
/// Addresses at which a source began within the last second. If there are more, no source begins.
const BEGINNINGS_MAX: usize = 448;

impl Sender {
    /// Returns its access request. `is_bare`: it sends MPEG-TS without RTP.
    pub(super) fn access_request(&self, is_bare: bool) -> AccessRequest {
        let is_to_group = self.named != self.from;
        let entry_point = match (is_bare, is_to_group) {
            (true, true) => EntryPoint::BareGroup,
            (true, false) => EntryPoint::Bare,
            (false, true) => EntryPoint::Group,
            (false, false) => EntryPoint::Rtp,
        };
        AccessRequest {
            to: Some(self.named),
            ..AccessRequest::without_request(entry_point, self.from)
        }
    }
}

impl DatagramSource {
    /// Returns whether the source sent this datagram: the address agrees, and for RTP the SSRC.
    fn sent(&self, sender: Sender, packet: Option<&Packet<'_>>) -> bool {
        self.from == sender.from && self.ssrc == packet.map(|packet| packet.ssrc)
    }
}

/// A sender that may become a source by this datagram.
pub(super) struct Newcomer<'a> {
    /// The sender.
    pub sender: Sender,
    /// The stream of its address, if that stream's source is silent.
    pub silent: Option<StreamId>,
    /// The RTP packet. `None`: the datagram is MPEG-TS without RTP.
    pub packet: Option<Packet<'a>>,
}

/// What a datagram is.
pub(super) enum Datagram<'a> {
    /// A packet of this stream's source.
    Media(StreamId, Packet<'a>),
    /// MPEG-TS of this stream's source, which sends no RTP.
    Bare(StreamId),
    /// RTCP of this stream's source.
    Control(StreamId, Control),
    /// A datagram of a sender that may become a source.
    Newcomer(Newcomer<'a>),
    /// The datagram was dropped.
    Nothing,
}

impl RtpIn {
    /// Classifies a datagram, by its sender. Drops and counts a datagram that no stream takes.
    /// `known` returns the source of a stream.
    pub fn sort<'a>(
        &self,
        (from, port): (SocketAddr, UdpPort),
        bytes: &'a [u8],
        tokens: Option<&Tokens>,
        known: impl FnOnce(StreamId) -> Option<DatagramSource>,
        ctx: &mut Context,
    ) -> Datagram<'a> {
        let came = sender(from, port, ctx)
            .ok_or(Count::Stranger)
            .and_then(|sender| self.whose((sender, port), bytes, tokens, known, ctx.now()))
            .and_then(|came| match came {
                // To find out whether an address is the server's own takes system calls. Of a source, it
                // is known.
                Datagram::Newcomer(_) | Datagram::Control(..) if is_own(from, port, ctx) => {
                    Err(Count::Stranger)
                }
                _ => Ok(came),
            });
        came.unwrap_or_else(|dropped| {
            ctx.count(dropped, 1);
            Datagram::Nothing
        })
    }

    /// Classifies a datagram of this sender. An error is the counter for the dropped datagram.
    fn whose<'a>(
        &self,
        (sender, port): (Sender, UdpPort),
        bytes: &'a [u8],
        tokens: Option<&Tokens>,
        known: impl FnOnce(StreamId) -> Option<DatagramSource>,
        now: Instant,
    ) -> Result<Datagram<'a>, Count> {
        let running = self.sources.get(&sender.named).copied();
        let source = running.and_then(|id| Some((id, known(id)?)));
        let is_bare = source.is_some_and(|(_, known)| known.ssrc.is_none());
        if port == UdpPort::Rtcp || (rtp::is_control(bytes) && !is_bare) {
            return self.whose_control(sender, bytes);
        }
        // Without tokens there is no RTP.
        let Some(tokens) = tokens else {
            return Ok(Datagram::Nothing);
        };
        let may_be_bare = may_be_bare(tokens, sender.named).ok_or(Count::Stranger)?;
        let packet = Packet::parse(bytes);
        let begins = || may_be_bare && Bare::begins_with(bytes);
        match (source, packet) {
            // Whatever comes from a source without RTP is its media.
            (Some((id, its)), _) if is_bare && its.sent(sender, None) => Ok(Datagram::Bare(id)),
            (Some((id, its)), Some(packet)) if its.sent(sender, Some(&packet)) => {
                Ok(Datagram::Media(id, packet))
            }
            (_, None) if !begins() => Err(Count::Malformed),
            (Some((_, its)), _) if now.since(its.heard) < SILENT_AFTER => Err(Count::SecondSource),
            // Its next packets would belong to another source.
            _ if !self.beginnings.has_token(&sender.named, BEGINNINGS, now) => Err(Count::Refused),
            (_, packet) => Ok(Datagram::Newcomer(Newcomer {
                sender,
                silent: running,
                packet,
            })),
        }
    }

    /// Finds the stream of an RTCP datagram. It comes from the source's port, or from the port
    /// above (RFC 3550).
    fn whose_control<'a>(&self, sender: Sender, bytes: &[u8]) -> Result<Datagram<'a>, Count> {
        let named = sender.named;
        let below = SocketAddr::new(named.ip(), named.port().saturating_sub(1));
        let mut streams = [named, below].into_iter();
        let stream = streams.find_map(|address| self.sources.get(&address));
        let stream = stream.ok_or(Count::Stranger)?;
        let control = Control::parse(bytes).ok_or(Count::Malformed)?;
        Ok(Datagram::Control(*stream, control))
    }

    /// Takes a datagram of a sender that may become a source. With MPEG-TS without RTP it becomes
    /// one at once, with RTP at the second packet in sequence. Then returns its first datagram,
    /// which is empty if it was not kept. `None`: the sender is not a source yet.
    pub fn take(
        &mut self,
        newcomer: &Newcomer<'_>,
        bytes: &[u8],
        ctx: &mut Context,
    ) -> Option<Box<[u8]>> {
        let (sender, now) = (newcomer.sender, ctx.now());
        let first = match &newcomer.packet {
            Some(packet) => self.candidates.take(sender, packet, bytes, now),
            None => Some(Box::default()),
        };
        if first.is_some() {
            self.beginnings.take(sender.named, 1, BEGINNINGS, now);
        }
        self.rearm_candidates(ctx);
        first
    }

    /// Records the address or group of a stream's new source.
    pub fn set_source(&mut self, address: SocketAddr, id: StreamId) {
        self.sources.insert(address, id);
    }

    /// Forgets all sources, because a successor has them.
    #[cfg(feature = "handover")]
    pub fn let_go(&mut self) {
        self.sources = HashMap::new();
    }

    /// Checks what must hold between two inputs. Returns how many timers are armed. `has`: whether
    /// a stream exists.
    pub fn check(&self, has: impl Fn(StreamId) -> bool) -> usize {
        let mut sources = self.sources.values();
        assert!(sources.all(|id| has(*id)), "a source outlives its stream");
        usize::from(self.armed.is_armed())
    }

    /// Returns whether nobody has sent a first packet.
    #[cfg(test)]
    pub fn has_no_candidates(&self) -> bool {
        self.candidates.deadline().is_none()
    }

    fn rearm_candidates(&mut self, ctx: &mut Context) {
        if let Some(deadline) = self.candidates.deadline() {
            ctx.arm(&mut self.armed, Owner::Candidates, deadline);
        }
    }

    /// Drops first packets that have waited too long.
    pub fn candidates_due(&mut self, ctx: &mut Context) {
        self.armed.fired();
        self.candidates.expire(ctx.now());
        self.rearm_candidates(ctx);
    }

    /// Forgets the address or group of a stream's source, unless another stream has it by now.
    pub fn forget_rtp_source(&mut self, address: SocketAddr, id: StreamId) {
        if self.sources.get(&address) == Some(&id) {
            self.sources.remove(&address);
        }
    }

    /// Forgets the first packets of hosts that have lost their tokens.
    pub fn forget_candidates(&mut self, removed: &[std::rc::Rc<Tuple>]) {
        let clients = removed.iter().filter_map(|tuple| tuple.rtp());
        let addresses = clients.flat_map(|rtp| &rtp.addresses);
        let gone: HashSet<SocketAddr> = addresses.copied().map(canonical).collect();
        self.candidates
            .forget(|sender| gone.contains(&sender.named));
    }
}

/// Returns the sender of a datagram at this socket. `None`: it is a multicast address, or the
/// datagram is of a group, from a source that the join does not name. Tokens cannot name the zone
/// of an IPv6 address, so only [`is_own`] uses the zone.
fn sender(from: SocketAddr, port: UdpPort, ctx: &Context) -> Option<Sender> {
    let address = SocketAddr::new(from.ip(), from.port());
    let UdpPort::Group(number) = port else {
        let sender = Sender {
            named: address,
            from: address,
        };
        return (!address.ip().is_multicast()).then_some(sender);
    };
    let (join, bound) = (ctx.settings().joins.get(number)?, ctx.rtp_socket.bound?);
    let is_other = join.source.is_some_and(|source| source != from.ip());
    let sender = Sender {
        named: SocketAddr::new(join.group, bound.port()),
        from: address,
    };
    (!is_other).then_some(sender)
}

/// Returns whether this server sent a datagram to a group itself, which comes back.
fn is_own(from: SocketAddr, port: UdpPort, ctx: &Context) -> bool {
    let is_here =
        |bound: SocketAddr| from.port() == bound.port() && ctx.rtp_socket.is_here(bound.ip(), from);
    matches!(port, UdpPort::Group(_)) && ctx.rtp_socket.bound.is_some_and(is_here)
}

/// Returns whether a token that names this address is for MPEG-TS without RTP. `None` if no token
/// names it.
fn may_be_bare(tokens: &Tokens, named: SocketAddr) -> Option<bool> {
    let sessions = tokens.sessions_from(named).take(SESSIONS_TRIED_MAX);
    sessions
        .map(|(_, transport)| transport == Transport::Bare)
        .reduce(|one, other| one || other)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::relay::stage::Stage;
    use crate::relay::stage::address;

    const GROUP: &str = "239.1.2.3:5004";

    fn stage(options: &[&str]) -> Stage {
        let mut stage = Stage::new(&[&["--token-server=10.0.0.0/8"], options].concat());
        stage
            .relay
            .set_rtp("0.0.0.0:5004".parse().expect("an address"));
        stage
    }

    fn add(stage: &mut Stage, session: &str, kind: &str, client: &str, status: u16) {
        let call = stage.client(&format!(
            "POST /api/add-token?type={kind}&sessionid={session}&udp-clients={client} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        ));
        stage.assert_status(call, status);
    }

    fn arrive(stage: &mut Stage, from: &str, datagram: &[u8]) {
        let from = from.parse().expect("an address");
        let group = UdpPort::Group(0);
        stage.relay.datagram(from, group, datagram, stage.now);
        stage.settle();
    }

    /// Two packets in sequence, which make a source.
    fn arrive_rtp(stage: &mut Stage, from: &str) {
        for number in 0..2 {
            let packet = [
                &[0x80, 33, 0, number, 0, 0, 0, 0, 1, 2, 3, 4][..],
                &[0x47; 188],
            ];
            arrive(stage, from, &packet.concat());
        }
    }

    /// The sessions that run, and where their sources are.
    fn running(stage: &Stage) -> Vec<(String, String)> {
        let rows = stage.relay.streams.rows((0, 0), &stage.relay.ctx);
        let rows = rows.map(|(_, row)| serde_json::to_value(&row).expect("a row"));
        let source = |row: &serde_json::Value| row["source"]["address"].as_str().map(str::to_owned);
        let rows =
            rows.filter_map(|row| Some((row["sessionid"].as_str()?.to_owned(), source(&row)?)));
        rows.collect()
    }

    /// A group that a token names for RTP does not admit MPEG-TS without RTP.
    #[test]
    fn whoever_sends_no_rtp_takes_no_rtp_sessions_place_in_a_group_of_both() {
        let mut stage = stage(&["--join=239.1.2.3"]);
        add(&mut stage, "rtp", "rtp-udp", GROUP, 201);
        add(&mut stage, "bare", "udp", GROUP, 201);
        arrive_rtp(&mut stage, "10.0.0.1:6000");
        let rtp = [("rtp".to_owned(), "10.0.0.1:6000".to_owned())];
        assert_eq!(running(&stage), rtp);
        // Its source is silent, so a sender of RTP may replace it.
        stage.wait_seconds(3);
        arrive(&mut stage, "10.0.0.66:6000", &[0x47; 188]);
        assert_eq!(running(&stage), rtp);
        arrive_rtp(&mut stage, "10.0.0.2:6000");
        assert_eq!(running(&stage)[0].1, "10.0.0.2:6000");
    }

    /// This server's own datagrams are recognised by the zone of their address, too.
    #[test]
    fn a_link_local_group_does_not_hear_this_server() {
        let mut stage = Stage::new(&["--token-server=10.0.0.0/8", "--join=ff02::1234"]);
        stage
            .relay
            .set_rtp("[::]:5004".parse().expect("an address"));
        stage.relay.set_own_addresses(|address| match address {
            SocketAddr::V4(_) => false,
            SocketAddr::V6(it) => it.scope_id() == 3,
        });
        add(&mut stage, "tv", "udp", "[ff02::1234]:5004", 201);
        arrive(&mut stage, "[fe80::7%3]:5004", &[0x47; 188]);
        assert_eq!(running(&stage), []);
        // A neighbour has the same address on another link. A token names none with a zone.
        arrive(&mut stage, "[fe80::7%4]:5004", &[0x47; 188]);
        let its = ("tv".to_owned(), "[fe80::7]:5004".to_owned());
        assert_eq!(running(&stage), [its]);
    }

    /// Only a sender that could become a source costs the system calls of that question.
    #[test]
    fn whether_an_address_is_the_servers_own_is_asked_about_newcomers_only() {
        use std::cell::Cell;
        thread_local! { static ASKED: Cell<usize> = const { Cell::new(0) }; }
        let mut stage = stage(&["--join=239.1.2.3"]);
        stage.relay.set_own_addresses(|_| {
            ASKED.set(ASKED.get() + 1);
            false
        });
        let asked = |stage: &mut Stage, from: &str| {
            let before = ASKED.get();
            for _ in 0..9 {
                arrive(stage, from, &[0x47; 188]);
            }
            ASKED.get() - before
        };
        assert_eq!(asked(&mut stage, "10.0.0.1:5004"), 0, "no token names it");
        add(&mut stage, "tv", "udp", GROUP, 201);
        assert_eq!(asked(&mut stage, "10.0.0.1:5004"), 1, "it becomes a source");
        assert_eq!(running(&stage)[0].1, "10.0.0.1:5004");
        assert_eq!(asked(&mut stage, "10.0.0.1:5004"), 0, "it is known");
        assert_eq!(asked(&mut stage, "10.0.0.2:5004"), 0, "there is one");
    }

    /// To listen to a group is not to send to it.
    #[test]
    fn a_group_that_is_joined_is_no_destination() {
        let put = "PUT /stream/tv HTTP/1.1\r\nHost: h\r\nContent-Length: 999\r\n\r\n";
        for (options, at_other_ports, sent) in [
            (&["--join=239.1.2.3"][..], 400, 0),
            (&["--join=239.1.2.3", "--rtp-to=239.1.2.3"], 201, 2),
        ] {
            let mut stage = stage(options);
            add(&mut stage, "tv", "http,udp", GROUP, 201);
            add(&mut stage, "tv", "udp", "239.1.2.3:6000", at_other_ports);
            let source = stage.client(put);
            stage
                .relay
                .received(source, &[0x47; 188].repeat(3), stage.now);
            stage.settle();
            stage.wait_seconds(1);
            let now = stage.now;
            let next = || Some(stage.relay.next_datagrams(now, &[])?.to.len());
            assert_eq!(std::iter::from_fn(next).sum::<usize>(), sent);
        }
    }

    /// In a group, a host that sends from many ports is many senders, but not more than one source.
    #[test]
    fn sources_in_a_group_begin_a_second_apart_whoever_sends() {
        let mut stage = stage(&["--join=239.1.2.3"]);
        add(&mut stage, "tv", "rtp-udp", GROUP, 201);
        for port in 6000..6010 {
            let from = format!("10.0.0.1:{port}");
            arrive_rtp(&mut stage, &from);
            arrive(&mut stage, &from, &[0x81, 203, 0, 1, 1, 2, 3, 4]);
        }
        let text = stage.client("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(stage.text(text).contains("tollgate_streams_total 1\n"));
        stage.wait_seconds(1);
        arrive_rtp(&mut stage, "10.0.0.1:6011");
        assert_eq!(running(&stage)[0].1, "10.0.0.1:6011");
    }

    fn rtp(number: u16, ssrc: u32) -> Vec<u8> {
        [&Packet::header(33, number, 0, ssrc)[..], &[0x47; 188]].concat()
    }

    /// Describes what a datagram is taken for; for a dropped one, its counter.
    fn sorted(
        stage: &mut Stage,
        from: &str,
        port: UdpPort,
        bytes: &[u8],
        known: &Sources,
    ) -> String {
        let relay = &mut stage.relay;
        let of = |id: StreamId| {
            let its = known
                .iter()
                .find(|(number, _)| id == StreamId::from_u64(*number));
            its.map(|(_, known)| *known)
        };
        let all = [
            (Count::Stranger, "a stranger's"),
            (Count::Malformed, "malformed"),
            (Count::SecondSource, "a second source's"),
            (Count::Refused, "refused"),
        ];
        let before = all.map(|(count, _)| relay.ctx.counts.of(count));
        let from = (address(from), port);
        let tokens = relay.grants.tokens();
        let came = match relay.rtp_in.sort(from, bytes, tokens, of, &mut relay.ctx) {
            Datagram::Media(id, packet) => format!("media {} {}", id.to_u64(), packet.ssrc),
            Datagram::Bare(id) => format!("bare {}", id.to_u64()),
            Datagram::Control(id, control) => format!("control {} {}", id.to_u64(), control.ssrc),
            Datagram::Newcomer(it) => {
                let kind = if it.packet.is_some() { "rtp" } else { "bare" };
                let of = it
                    .silent
                    .map_or("nobody".to_owned(), |id| id.to_u64().to_string());
                format!("newcomer {kind} of {of} named {}", it.sender.named)
            }
            Datagram::Nothing => "nothing".to_owned(),
        };
        let counts = all.iter().zip(before);
        let dropped = counts.filter(|((count, _), before)| relay.ctx.counts.of(*count) != *before);
        let dropped: Vec<&str> = dropped.map(|((_, name), _)| *name).collect();
        match dropped[..] {
            [] => came,
            [name] if came == "nothing" => name.to_owned(),
            _ => format!("{came} and {dropped:?}"),
        }
    }

    type Sources = [(u64, DatagramSource)];

    /// Whose each datagram is: of a source that sends RTP, of one that does not, of a group of
    /// each, and of addresses that tokens name and that have no source.
    #[test]
    fn a_datagram_is_its_sources_or_a_newcomers_or_dropped() {
        let options = [
            "--join=239.1.2.3",
            "--join=239.1.2.4",
            "--join=232.1.1.1@10.5.0.1",
        ];
        let mut stage = stage(&options);
        let own = |address: SocketAddr| address.ip() == IpAddr::from([10, 9, 0, 7]);
        stage.relay.set_own_addresses(own);
        let (rtp_group, bare_group) = ("239.1.2.3:5004", "239.1.2.4:5004");
        for (kind, clients) in [
            (
                "rtp-udp",
                "10.2.0.1:6000,10.2.0.3:6000,10.2.0.5:6000,10.2.0.6:6000",
            ),
            ("udp", "10.2.0.2:6000,10.2.0.4:6000,10.2.0.5:6000"),
            ("rtp-udp", rtp_group),
            ("udp", bare_group),
            ("rtp-udp", "232.1.1.1:5004"),
        ] {
            for (number, client) in clients.split(',').enumerate() {
                let session = format!("s{number}{kind}{client}").replace([':', '.'], "-");
                add(&mut stage, &session, kind, client, 201);
            }
        }
        let heard = Instant::after_start(Duration::from_secs(10));
        let source = |ssrc, from: &str| DatagramSource {
            ssrc,
            from: address(from),
            heard,
        };
        let known = [
            (1, source(Some(7), "10.2.0.1:6000")),
            (2, source(None, "10.2.0.2:6000")),
            (3, source(Some(7), "10.4.0.1:6000")),
            (4, source(None, "10.4.0.2:6000")),
        ];
        for (id, named) in [
            (1, "10.2.0.1:6000"),
            (2, "10.2.0.2:6000"),
            (3, rtp_group),
            (4, bare_group),
            // It is gone.
            (5, "10.2.0.6:6000"),
        ] {
            stage
                .relay
                .rtp_in
                .set_source(address(named), StreamId::from_u64(id));
        }
        let transport = [0x47; 188].repeat(7);
        let garbage = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13];
        let bye = [0x81, 203, 0, 1, 0, 0, 0, 7];
        let (its, other) = (rtp(1, 7), rtp(1, 8));
        use UdpPort::{Group, Rtcp, Rtp};
        let cases: [(u64, &str, UdpPort, &[u8], &str); 45] = [
            (10_500, "10.2.0.1:6000", Rtp, &its, "media 1 7"),
            (90_000, "10.2.0.1:6000", Rtp, &its, "media 1 7"),
            (10_500, "10.2.0.1:6000", Rtp, &other, "a second source's"),
            (10_999, "10.2.0.1:6000", Rtp, &other, "a second source's"),
            (
                11_000,
                "10.2.0.1:6000",
                Rtp,
                &other,
                "newcomer rtp of 1 named 10.2.0.1:6000",
            ),
            (
                90_000,
                "10.2.0.1:6000",
                Rtp,
                &other,
                "newcomer rtp of 1 named 10.2.0.1:6000",
            ),
            (10_500, "10.2.0.1:6000", Rtp, &garbage, "malformed"),
            (90_000, "10.2.0.1:6000", Rtp, &garbage, "malformed"),
            // Nothing but RTP is for an address that is named for that.
            (90_000, "10.2.0.1:6000", Rtp, &transport, "malformed"),
            (10_500, "10.2.0.1:6000", Rtp, &bye, "control 1 7"),
            (10_500, "10.2.0.1:6000", Rtcp, &bye, "control 1 7"),
            (10_500, "10.2.0.1:6001", Rtcp, &bye, "control 1 7"),
            (10_500, "10.2.0.1:6001", Rtp, &bye, "control 1 7"),
            (10_500, "10.2.0.1:6002", Rtp, &bye, "a stranger's"),
            (10_500, "10.2.0.1:6000", Rtcp, &its, "malformed"),
            (10_500, "10.2.0.1:6001", Rtp, &its, "a stranger's"),
            (10_500, "10.2.0.3:6000", Rtcp, &bye, "a stranger's"),
            // Every datagram of a source without RTP is media.
            (10_500, "10.2.0.2:6000", Rtp, &transport, "bare 2"),
            (10_500, "10.2.0.2:6000", Rtp, &garbage, "bare 2"),
            (10_500, "10.2.0.2:6000", Rtp, &its, "bare 2"),
            (10_500, "10.2.0.2:6000", Rtp, &bye, "bare 2"),
            (10_500, "10.2.0.2:6000", Rtcp, &bye, "control 2 7"),
            // These addresses are no stream's source.
            (
                10_500,
                "10.2.0.3:6000",
                Rtp,
                &its,
                "newcomer rtp of nobody named 10.2.0.3:6000",
            ),
            (10_500, "10.2.0.3:6000", Rtp, &transport, "malformed"),
            (
                10_500,
                "10.2.0.4:6000",
                Rtp,
                &transport,
                "newcomer bare of nobody named 10.2.0.4:6000",
            ),
            (10_500, "10.2.0.4:6000", Rtp, &garbage, "malformed"),
            (
                10_500,
                "10.2.0.4:6000",
                Rtp,
                &its,
                "newcomer rtp of nobody named 10.2.0.4:6000",
            ),
            (
                10_500,
                "10.2.0.5:6000",
                Rtp,
                &transport,
                "newcomer bare of nobody named 10.2.0.5:6000",
            ),
            (
                10_500,
                "10.2.0.5:6000",
                Rtp,
                &its,
                "newcomer rtp of nobody named 10.2.0.5:6000",
            ),
            (
                10_500,
                "10.2.0.6:6000",
                Rtp,
                &its,
                "newcomer rtp of 5 named 10.2.0.6:6000",
            ),
            (10_500, "10.2.0.9:6000", Rtp, &its, "a stranger's"),
            (10_500, "10.2.0.9:6000", Rtp, &transport, "a stranger's"),
            (10_500, "239.1.2.3:5004", Rtp, &its, "a stranger's"),
            // In a group, a source is known by its SSRC and its address.
            (10_500, "10.4.0.1:6000", Group(0), &its, "media 3 7"),
            (10_500, "10.4.0.9:6000", Group(0), &its, "a second source's"),
            (
                10_500,
                "10.4.0.1:6000",
                Group(0),
                &other,
                "a second source's",
            ),
            (
                11_000,
                "10.4.0.9:6000",
                Group(0),
                &its,
                "newcomer rtp of 3 named 239.1.2.3:5004",
            ),
            (10_500, "10.4.0.2:6000", Group(1), &transport, "bare 4"),
            (
                10_500,
                "10.4.0.9:6000",
                Group(1),
                &transport,
                "a second source's",
            ),
            (
                11_000,
                "10.4.0.9:6000",
                Group(1),
                &transport,
                "newcomer bare of 4 named 239.1.2.4:5004",
            ),
            (
                10_500,
                "10.5.0.1:6000",
                Group(2),
                &its,
                "newcomer rtp of nobody named 232.1.1.1:5004",
            ),
            (10_500, "10.5.0.2:6000", Group(2), &its, "a stranger's"),
            (10_500, "10.5.0.1:6000", Group(3), &its, "a stranger's"),
            // What this server has sent there itself.
            (11_000, "10.9.0.7:5004", Group(0), &its, "a stranger's"),
            (
                11_000,
                "10.9.0.7:6004",
                Group(0),
                &its,
                "newcomer rtp of 3 named 239.1.2.3:5004",
            ),
        ];
        for (milliseconds, from, port, bytes, expected) in cases {
            let now = Instant::after_start(Duration::from_millis(milliseconds));
            stage.relay.ctx.set_now(now);
            let came = sorted(&mut stage, from, port, bytes, &known);
            assert_eq!(came, expected, "{milliseconds}: {from} {port:?} {bytes:?}");
        }
        // By this name one has begun: another may a second later.
        let began = Instant::after_start(Duration::from_secs(20));
        let rtp_in = &mut stage.relay.rtp_in;
        rtp_in
            .beginnings
            .take(address("10.2.0.3:6000"), 1, BEGINNINGS, began);
        let newcomer = "newcomer rtp of nobody named 10.2.0.3:6000";
        for (milliseconds, expected) in
            [(20_000, "refused"), (20_999, "refused"), (21_000, newcomer)]
        {
            let now = Instant::after_start(Duration::from_millis(milliseconds));
            stage.relay.ctx.set_now(now);
            let came = sorted(&mut stage, "10.2.0.3:6000", Rtp, &its, &known);
            assert_eq!(came, expected, "{milliseconds}");
        }
        // The source of another stream stays known when its first stream is forgotten.
        let named = address("10.2.0.1:6000");
        let rtp_in = &mut stage.relay.rtp_in;
        rtp_in.set_source(named, StreamId::from_u64(3));
        rtp_in.forget_rtp_source(named, StreamId::from_u64(1));
        assert_eq!(rtp_in.sources.get(&named), Some(&StreamId::from_u64(3)));
        rtp_in.forget_rtp_source(named, StreamId::from_u64(3));
        assert_eq!(rtp_in.sources.get(&named), None);
        assert!(!rtp_in.sources.is_empty(), "the others are where they were");
    }

    /// Where there are no tokens there is no RTP, and nothing of it counts.
    #[test]
    fn without_tokens_no_datagram_is_for_anybody() {
        let mut stage = Stage::new(&[]);
        assert!(stage.relay.ctx.rtp_socket.bound.is_none());
        stage.relay.set_rtp(address("0.0.0.0:5004"));
        assert!(stage.relay.ctx.rtp_socket.bound.is_some());
        for bytes in [&rtp(1, 7)[..], &[0x47; 188], b"x"] {
            assert_eq!(
                sorted(&mut stage, "10.2.0.1:6000", UdpPort::Rtp, bytes, &[]),
                "nothing"
            );
        }
    }

    /// Where a source sends to a group, a token has to name the group.
    #[test]
    fn a_sender_comes_in_by_its_own_way() {
        let (one, group) = (address("10.2.0.1:6000"), address(GROUP));
        for (named, is_bare, entry_point) in [
            (one, false, EntryPoint::Rtp),
            (one, true, EntryPoint::Bare),
            (group, false, EntryPoint::Group),
            (group, true, EntryPoint::BareGroup),
        ] {
            let sender = Sender { named, from: one };
            let access_request = sender.access_request(is_bare);
            assert_eq!(
                (
                    access_request.entry_point,
                    access_request.to,
                    access_request.from
                ),
                (entry_point, Some(named), Some(one))
            );
        }
    }

    /// A first packet waits for its second, unless it has lost its token meanwhile.
    #[test]
    fn the_first_packet_of_a_host_that_lost_its_token_is_forgotten() {
        for (revoked, streams) in [(None, 1), (Some("s"), 0), (Some("t"), 1)] {
            let mut stage = stage(&[]);
            let camera = "10.2.0.1:6000";
            let sent = |stage: &mut Stage, number| {
                let now = stage.now;
                let packet = rtp(number, 7);
                stage
                    .relay
                    .datagram(address(camera), UdpPort::Rtp, &packet, now);
                stage.settle();
            };
            add(&mut stage, "s", "rtp-udp", camera, 201);
            add(&mut stage, "t", "rtp-udp", "10.2.0.2:6000", 201);
            assert_eq!(stage.relay.rtp_in.check(|_| false), 0);
            sent(&mut stage, 1);
            assert_eq!(
                stage.relay.rtp_in.check(|_| false),
                1,
                "it waits for a while"
            );
            if let Some(session) = revoked {
                let call = stage.client(&format!(
                    "DELETE /api/revoke-token?sessionid={session} HTTP/1.1\r\nHost: localhost\r\n\r\n"
                ));
                stage.assert_status(call, 200);
                add(
                    &mut stage,
                    "s",
                    "rtp-udp",
                    camera,
                    if session == "s" { 201 } else { 200 },
                );
            }
            sent(&mut stage, 2);
            assert_eq!(stage.relay.streams.running(), streams, "{revoked:?}");
            // One that is kept is handed on with its second.
            let received = stage
                .relay
                .streams
                .sums(&stage.relay.ctx)
                .figures
                .bytes_received;
            assert_eq!(received, 2 * 188 * streams as u64);
            sent(&mut stage, 3);
            assert_eq!(stage.relay.streams.running(), 1);
        }
    }

    /// Its sources belong to the core that took over.
    #[cfg(feature = "handover")]
    #[test]
    fn who_has_gone_to_another_core_is_nobodys_source_here() {
        let mut stage = stage(&[]);
        let named = address("10.2.0.1:6000");
        stage.relay.rtp_in.set_source(named, StreamId::from_u64(1));
        stage.relay.rtp_in.let_go();
        assert_eq!(stage.relay.rtp_in.check(|_| false), 0);
    }
}
