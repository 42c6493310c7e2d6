//! Sources that send datagrams, from hosts and to groups, with and without RTP, strangers among them;
//! and the checks of the UDP output.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use tollgate::gate::{Join, SessionId};
use tollgate::relay::{Datagrams, UdpPort};
use tollgate::rtp::Packet;

use super::chance::Chance;

const PACKET_BYTES: usize = 188;
const NULL_PID: [u8; 2] = [0x1f, 0xff];

/// Index in [`SESSIONS`] of the sender's session. `None`: a stranger.
struct Sender {
    session: Option<usize>,
    from: SocketAddr,
    port: UdpPort,
    is_bare: bool,
    /// Its packets come in another order, and twice.
    is_disorderly: bool,
    ssrc: u32,
    sequence_number: u16,
    /// What has been sent and has not arrived.
    on_the_way: VecDeque<Vec<u8>>,
}

/// A session that datagrams come in for.
struct Session {
    name: &'static str,
    /// What its token names.
    source: &'static str,
    transport: &'static str,
}

/// Two of them name one group.
const SESSIONS: [Session; 5] = [
    Session {
        name: "udp-host",
        source: "10.0.5.1:6000",
        transport: "rtp-udp",
    },
    Session {
        name: "udp-bare",
        source: "10.0.5.2:6000",
        transport: "udp",
    },
    Session {
        name: "udp-both-1",
        source: "239.6.0.1:5004",
        transport: "rtp-udp",
    },
    Session {
        name: "udp-both-2",
        source: "239.6.0.1:5004",
        transport: "udp",
    },
    Session {
        name: "udp-one",
        source: "239.6.0.2:5004",
        transport: "udp",
    },
];

const RTP: UdpPort = UdpPort::Rtp;
const ONE: UdpPort = UdpPort::Group(0);
const OTHER: UdpPort = UdpPort::Group(1);

/// Whose source, from where, to which socket, and whether without RTP.
const SENDERS: [(Option<usize>, &str, UdpPort, bool); 14] = [
    (Some(0), "10.0.5.1:6000", RTP, false),
    (Some(1), "10.0.5.2:6000", RTP, true),
    (Some(2), "10.0.5.3:6000", ONE, false),
    (Some(2), "10.0.5.3:6001", ONE, false),
    (Some(3), "10.0.5.4:6000", ONE, true),
    (Some(4), "10.0.5.5:6000", OTHER, true),
    // From the wrong place, or this server itself.
    (None, "10.0.5.6:6000", OTHER, true),
    (None, "10.0.5.9:6000", RTP, false),
    (None, "10.0.5.9:6000", RTP, true),
    (None, "10.0.5.1:6001", RTP, false),
    (None, "10.0.5.2:6001", RTP, true),
    (None, "10.9.0.1:5004", ONE, false),
    (None, "10.9.0.1:5004", ONE, true),
    (None, "10.0.5.4:6000", OTHER, true),
];

/// The senders, and what may go out.
pub struct Senders {
    all: Vec<Sender>,
    /// Packets so far, of all.
    packets: u64,
    /// Number of the last in-order packet that a client got.
    last: BTreeMap<SocketAddr, u64>,
}

/// The groups that are listened to.
pub fn joins() -> Vec<Join> {
    let joins = ["239.6.0.1", "239.6.0.2@10.0.5.5"];
    joins.into_iter().filter_map(Join::parse).collect()
}

/// Where UDP clients may be: not in the groups that are listened to.
pub const RTP_TO: [&str; 3] = ["10.0.0.0/9", "10.200.0.0/16", "239.7.0.0/16"];

/// The calls that let sources and clients in: targets.
pub fn calls() -> Vec<String> {
    let calls = SESSIONS.iter().enumerate().flat_map(|(number, session)| {
        let Session {
            name,
            source,
            transport,
        } = session;
        [
            (*transport, format!("{source},239.7.0.{number}:7000"), ""),
            ("rtp-udp", format!("10.7.5.{number}:7000"), ""),
            ("rtp-udp", format!("10.7.5.{number}:7010"), "&fec=4x5"),
            (
                "udp",
                format!("10.7.5.{number}:7020,239.7.1.{number}:7000"),
                "",
            ),
        ]
        .map(|(kind, clients, more)| {
            format!("/api/add-token?type={kind}{more}&sessionid={name}&udp-clients={clients}")
        })
    });
    calls.collect()
}

/// A call about one of these sessions: its method, its target, and whether it adds.
pub fn any_call(chance: &mut Chance) -> (&'static str, String, bool) {
    let name = chance.pick(&SESSIONS).name;
    match chance.within(0..=3) {
        0 => (
            "DELETE",
            format!("/api/revoke-token?sessionid={name}&abort=true"),
            false,
        ),
        1 => (
            "DELETE",
            format!("/api/abort-stream?sessionid={name}"),
            false,
        ),
        _ => ("POST", chance.pick(&calls()).clone(), true),
    }
}

/// The session that has this digest in the log, if it is one of these.
pub fn named(digest: &str) -> Option<&'static str> {
    let its = |name: &str| {
        let session = SessionId::parse(name.as_bytes()).expect("a sessionid");
        session.digest().to_string()
    };
    let mut names = SESSIONS.iter().map(|session| session.name);
    names.find(|name| its(name) == digest)
}

/// Whether somebody may be the source of a session.
pub fn may_send(name: &str, from: SocketAddr) -> bool {
    let mut senders = SENDERS.iter();
    senders.any(|(session, address, ..)| {
        let its = session.map(|session| SESSIONS[session].name);
        its == Some(name) && address.parse() == Ok(from)
    })
}

impl Senders {
    pub fn new(chance: &mut Chance) -> Senders {
        let all = SENDERS.into_iter().enumerate();
        let all = all.map(|(number, (session, from, port, is_bare))| Sender {
            session,
            from: from.parse().expect("an address"),
            port,
            is_bare,
            is_disorderly: !is_bare && chance.percent(30),
            ssrc: number as u32 + 1,
            sequence_number: chance.draw() as u16,
            on_the_way: VecDeque::new(),
        });
        Senders {
            all: all.collect(),
            packets: 0,
            last: BTreeMap::new(),
        }
    }

    /// Some of them send something. What arrives: from where, to which socket, and what.
    pub fn send(&mut self, chance: &mut Chance) -> Vec<(SocketAddr, UdpPort, Vec<u8>)> {
        let mut arrived = Vec::new();
        for sender in &mut self.all {
            if !chance.percent(25) {
                continue;
            }
            for _ in 0..chance.magnitude(1..=12) {
                let datagram = sender.datagram(&mut self.packets, chance);
                sender.on_the_way.push_back(datagram);
            }
            if !sender.is_bare && chance.percent(3) {
                let ssrc = sender.ssrc.to_be_bytes();
                let bye = [&[0x81, 203, 0, 1][..], &ssrc].concat();
                sender.on_the_way.push_back(bye);
                sender.ssrc += 100;
            }
            let late = if sender.is_disorderly { 5 } else { 0 };
            while sender.on_the_way.len() > late {
                let place = chance.within(0..=sender.on_the_way.len() - 1).min(late);
                let datagram = sender.on_the_way.remove(place).expect("it is there");
                // Some are lost, some come twice.
                if !chance.percent(3) {
                    if sender.is_disorderly && chance.percent(3) {
                        arrived.push((sender.from, sender.port, datagram.clone()));
                    }
                    arrived.push((sender.from, sender.port, datagram));
                }
            }
        }
        arrived
    }

    /// What goes out goes to whom it is for, and is what that asked for. Says what it is, to be
    /// counted.
    pub fn check(&mut self, datagrams: &Datagrams<'_>) -> Vec<&'static str> {
        let Datagrams {
            to,
            bytes,
            datagram_bytes,
        } = *datagrams;
        assert!(!bytes.is_empty() && datagram_bytes > 0 && !to.is_empty());
        let whom = |to: &SocketAddr| {
            let SocketAddr::V4(to) = to else {
                panic!("{to} is no client");
            };
            let [a, b, c, number] = to.ip().octets();
            let whom = match ([a, b, c], to.port()) {
                ([10, 7, 5], 7000 | 7010) => "RTP to a host",
                ([10, 7, 5], 7012) => "corrections of columns",
                ([10, 7, 5], 7014) => "corrections of rows",
                ([10, 7, 5], 7020) => "MPEG-TS alone to a host",
                ([239, 7, 0], 7000) => match SESSIONS[usize::from(number)].transport {
                    "udp" => "MPEG-TS alone to a group",
                    _ => "RTP to a group",
                },
                ([239, 7, 1], 7000) => "MPEG-TS alone to a group",
                // Clients of other sessions.
                ([10, 7, 0..=2], _) => "to others",
                _ => panic!("{to} was named by nobody, or sends itself"),
            };
            (whom, usize::from(number))
        };
        for to in to {
            let (whom, session) = whom(to);
            for datagram in bytes.chunks(datagram_bytes) {
                match whom {
                    "MPEG-TS alone to a host" | "MPEG-TS alone to a group" => {
                        self.check_packets(*to, session, datagram);
                    }
                    // The corrections, and what sources say beside their media.
                    _ if datagram[0] >> 6 == 2 && datagram[1] & 0x7f != 33 => {}
                    // Of a film, as MPEG-TS.
                    "to others" => {
                        let packet = Packet::parse(datagram).expect("RTP");
                        let mut packets = packet.payload.chunks(PACKET_BYTES);
                        let is_packet = |it: &[u8]| it.len() == PACKET_BYTES && it[0] == 0x47;
                        assert!(packets.all(is_packet));
                    }
                    "RTP to a host" | "RTP to a group" => {
                        let packet = Packet::parse(datagram).expect("RTP");
                        self.check_packets(*to, session, packet.payload);
                    }
                    _ => panic!("{whom}: {datagram:?}"),
                }
            }
        }
        to.iter().map(|to| whom(to).0).collect()
    }

    /// Packets of this session, and in their order where they came in that.
    fn check_packets(&mut self, to: SocketAddr, session: usize, packets: &[u8]) {
        assert!(packets.len().is_multiple_of(PACKET_BYTES) && !packets.is_empty());
        for packet in packets.chunks(PACKET_BYTES) {
            assert_eq!(packet[0], 0x47);
            if packet[1..3] == NULL_PID {
                continue;
            }
            let number = u64::from_be_bytes(packet[180..].try_into().expect("eight"));
            assert_eq!(
                usize::from(packet[179]),
                session,
                "{to} gets another session"
            );
            // What two send in turn has no order, either: the first packet of one waits for its
            // second while the other sends.
            let of_session = |one: &&Sender| one.session == Some(session);
            let senders = self.all.iter().filter(of_session);
            if senders.clone().count() > 1 || senders.clone().any(|one| one.is_disorderly) {
                continue;
            }
            let last = self.last.insert(to, number);
            let is_later = last.is_none_or(|last| last < number);
            assert!(is_later, "{to} gets {number} behind {last:?}");
        }
    }
}

impl Sender {
    fn datagram(&mut self, packets: &mut u64, chance: &mut Chance) -> Vec<u8> {
        let count = if chance.percent(90) {
            7
        } else {
            chance.within(1..=7)
        };
        let mut media = Vec::new();
        for _ in 0..count {
            *packets += 1;
            // A stranger's are nobody's.
            let session = self.session.unwrap_or(99);
            media.extend(packet(*packets, session as u8));
        }
        if self.is_bare {
            return media;
        }
        self.sequence_number = self.sequence_number.wrapping_add(1);
        let ticks = (*packets * 90) as u32;
        let header = Packet::header(33, self.sequence_number, ticks, self.ssrc);
        [&header[..], &media].concat()
    }
}

/// A packet of about 1.5 Mbit/s, each seventh with a clock reference.
fn packet(number: u64, session: u8) -> [u8; PACKET_BYTES] {
    let mut packet = [session; PACKET_BYTES];
    let counter = number as u8 % 16;
    if number.is_multiple_of(7) {
        let [.., a, b, c, d] = (number * 90 / 2).to_be_bytes();
        packet[..12].copy_from_slice(&[0x47, 1, 0, 0x30 | counter, 7, 0x10, a, b, c, d, 0x7e, 0]);
    } else {
        packet[..4].copy_from_slice(&[0x47, 1, 0, 0x10 | counter]);
    }
    packet[179] = session;
    packet[180..].copy_from_slice(&number.to_be_bytes());
    packet
}
