//! Every entry point with every rule, through the core: the answer when everything is right but for
//! one rule.
//!
//! A new entry point or rule has no cell, and then this does not compile.
#![cfg(feature = "default")]

mod asked;
mod places;

use std::net::SocketAddr;
use std::time::Duration;

use super::EntryPoint;
use crate::gate::{Direction, Grant, RtpTuple, Terms, Tokens, Transport, session, udp_clients};
use crate::relay::stage::Stage;
use crate::relay::{ConnectionId, UdpPort};
use crate::rtmp;
use crate::time::UnixTime;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// From the token server's subnet.
    Subnet,
    /// From where `--publish-from` says.
    PublishFrom,
    /// A proxy says whose it is.
    Name,
    /// It is somebody else than a proxy.
    NameOfClient,
    /// No proxy brings it of which the operator has said nothing.
    StrangerProxy,
    /// The page of no other site, by `Origin`.
    Origin,
    /// The same, by `Sec-Fetch-Site`.
    Site,
    /// Under a name of the server's own.
    Host,
    /// A token of the session.
    Token,
    /// One of the right direction.
    Direction,
    /// One that is not over.
    Time,
    /// A key that is for what it is used for.
    Key,
    /// No more viewers by a token than it says.
    Viewers,
    /// The operator has not blocked this viewer.
    BlockedViewer,
    /// No abort that blocks the session.
    Block,
    /// One source a session.
    Source,
    /// The same with `--takeover`.
    Takeover,
    /// In reach of `--rtp-to`.
    RtpTo,
    /// A group as a UDP client is named by that.
    Group,
    /// At the port at which `--join` listens to the group.
    Listened,
    /// From the one host that `--join` names.
    Sender,
    /// As a token says: in RTP, or without.
    Transport,
    /// At most one source a second begins by what a token names.
    ListStart,
    /// No loop of relays, and no call through an unknown proxy.
    Via,
    /// `--streams`
    Streams,
    /// `--connections`
    Connections,
    /// `--connections-per-host`
    PerHost,
    /// Not once the server has been told to end.
    Shutdown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Admitted,
    /// In words, with this status.
    Refused(u16),
    /// Without a word.
    Dropped,
}

/// What the rule does at this entry point to a client that breaks it.
#[derive(Clone, Copy, Debug)]
enum Cell {
    Refused(u16),
    Dropped,
    /// It is not asked, because …
    DoesNotApply(&'static str),
}

use Cell::{DoesNotApply, Dropped, Refused};
use EntryPoint::{
    Bare, BareGroup, Call, Events, Group, Health, Hls, Icecast, Metrics, Options, Page, Post, Pull,
    Put, Remuxed, Rtmp, Rtp, Viewer, WatchPage,
};

const FOR_ANYONE: &str = "it tells nothing that is kept from anyone";
const NO_REQUEST: &str = "there is no request, and no browser that could be made to send it";
const NAMED: &str = "the operator has named the origin";
const NO_SESSION: &str = "it is about no session";
const NO_STREAM: &str = "it begins no stream";
const AT_ONCE: &str = "it is answered at once, and takes no place";

fn cell(entry_point: EntryPoint, rule: Rule) -> Cell {
    match rule {
        Rule::Subnet => match entry_point {
            Call | Events | Metrics => Refused(403),
            // For others there is none.
            Page => Refused(404),
            Put | Post | Icecast | Rtmp | Rtp | Bare | Group | BareGroup => {
                DoesNotApply("for sources there is --publish-from")
            }
            Pull => DoesNotApply(NAMED),
            Viewer | Remuxed | Hls | WatchPage => DoesNotApply("the token says who may watch"),
            Health | Options => DoesNotApply(FOR_ANYONE),
        },
        Rule::PublishFrom => match entry_point {
            Put | Post | Icecast | Rtmp => Refused(403),
            Rtp | Bare | Group | BareGroup => Dropped,
            Pull => DoesNotApply(NAMED),
            Viewer | Remuxed | Hls | WatchPage | Call | Events | Metrics | Page | Health
            | Options => DoesNotApply(NO_STREAM),
        },
        Rule::Name | Rule::NameOfClient => match entry_point {
            Put | Post | Icecast | Rtmp | Viewer | Remuxed | Hls | WatchPage | Call | Events
            | Metrics => Refused(403),
            Page => Refused(404),
            Rtp | Bare | Group | BareGroup | Pull => {
                DoesNotApply("no proxy of requests is in between")
            }
            Health | Options => DoesNotApply("proxies ask it for themselves"),
        },
        Rule::StrangerProxy => match entry_point {
            Put | Post | Icecast | Call | Events | Metrics | Page => Refused(403),
            Rtmp | Rtp | Bare | Group | BareGroup | Pull => DoesNotApply(NO_REQUEST),
            Viewer | Remuxed | Hls | WatchPage => DoesNotApply("no address lets it in"),
            Health | Options => DoesNotApply(FOR_ANYONE),
        },
        Rule::Origin => match entry_point {
            Put | Post | Icecast | Call | Events | Metrics | Page => Refused(403),
            Rtmp | Rtp | Bare | Group | BareGroup | Pull => DoesNotApply(NO_REQUEST),
            Viewer | Remuxed | Hls | WatchPage => {
                DoesNotApply("pages may show what they may not read; reading needs --cors")
            }
            Health | Options => DoesNotApply(FOR_ANYONE),
        },
        Rule::Site => match entry_point {
            Put | Post | Icecast | Call | Events | Metrics => Refused(403),
            Rtmp | Rtp | Bare | Group | BareGroup | Pull => DoesNotApply(NO_REQUEST),
            Viewer | Remuxed | Hls | WatchPage => {
                DoesNotApply("pages may show what they may not read; reading needs --cors")
            }
            Page => DoesNotApply("a link may lead to it; it stands in no frame"),
            Health | Options => DoesNotApply(FOR_ANYONE),
        },
        Rule::Host => match entry_point {
            Call | Events | Metrics | Page => Refused(403),
            Put | Post | Icecast => DoesNotApply("a rebound name's page is refused by its Origin"),
            Viewer | Remuxed | Hls | WatchPage => DoesNotApply("the token says who may watch"),
            Rtmp | Rtp | Bare | Group | BareGroup | Pull => DoesNotApply(NO_REQUEST),
            Health | Options => DoesNotApply(FOR_ANYONE),
        },
        Rule::Token => match entry_point {
            Put | Post | Icecast | Rtmp | Viewer | Remuxed | Hls | WatchPage => Refused(403),
            Rtp | Bare | Group | BareGroup => Dropped,
            Pull => DoesNotApply("its viewers are asked, again when it begins"),
            Call | Events | Metrics | Page | Health | Options => DoesNotApply(NO_SESSION),
        },
        Rule::Direction => match entry_point {
            Put | Post | Icecast | Rtmp | Viewer | Remuxed | Hls | WatchPage => Refused(403),
            Rtp | Bare | Group | BareGroup => DoesNotApply("tuples of UDP clients have none"),
            Pull => DoesNotApply("its viewers are asked, again when it begins"),
            Call | Events | Metrics | Page | Health | Options => DoesNotApply(NO_SESSION),
        },
        Rule::Time => match entry_point {
            Put | Post | Icecast | Rtmp | Viewer | Remuxed | Hls | WatchPage => Refused(403),
            Rtp | Bare | Group | BareGroup => DoesNotApply("tuples of UDP clients have none"),
            Pull => DoesNotApply("its viewers are asked, again when it begins"),
            Call | Events | Metrics | Page | Health | Options => DoesNotApply(NO_SESSION),
        },
        Rule::Key => match entry_point {
            Put | Post | Icecast | Rtmp | Viewer | Remuxed | Hls | WatchPage => Refused(403),
            // A key has no UDP clients.
            Rtp | Bare | Group | BareGroup => Dropped,
            Pull => DoesNotApply("its viewers are asked, again when it begins"),
            // What is to have UDP clients is a key.
            Call => Refused(409),
            Events | Metrics | Page | Health | Options => DoesNotApply(NO_SESSION),
        },
        Rule::Viewers => match entry_point {
            Viewer | Remuxed | Hls => Refused(503),
            WatchPage => DoesNotApply("its stream is asked for apart"),
            Put | Post | Icecast | Rtmp | Rtp | Bare | Group | BareGroup => {
                DoesNotApply("a session has one source")
            }
            Pull => DoesNotApply("its viewers are asked"),
            Call | Events | Metrics | Page | Health | Options => DoesNotApply(NO_SESSION),
        },
        Rule::BlockedViewer => match entry_point {
            Viewer | Remuxed | Hls | WatchPage => Refused(429),
            Put | Post | Icecast | Rtmp | Rtp | Bare | Group | BareGroup => {
                DoesNotApply("it is about viewers")
            }
            Pull => DoesNotApply("its viewers are asked"),
            Call | Events | Metrics | Page | Health | Options => DoesNotApply(NO_SESSION),
        },
        Rule::Block => match entry_point {
            Put | Post | Icecast | Rtmp | Viewer | Remuxed | Hls | WatchPage => Refused(429),
            Rtp | Bare | Group | BareGroup => Dropped,
            // The answer to the viewers of the pull.
            Pull => Refused(503),
            Call | Events | Metrics | Page | Health | Options => DoesNotApply(NO_SESSION),
        },
        Rule::Source => match entry_point {
            Put | Post | Icecast | Rtmp => Refused(409),
            Rtp | Bare | Group | BareGroup | Pull => Dropped,
            Viewer | Remuxed | Hls | WatchPage | Call | Events | Metrics | Page | Health
            | Options => DoesNotApply(NO_STREAM),
        },
        Rule::Takeover => match entry_point {
            Put | Post | Icecast | Rtmp => DoesNotApply("it takes the other's place"),
            Rtp | Bare | Group | BareGroup | Pull => Dropped,
            Viewer | Remuxed | Hls | WatchPage | Call | Events | Metrics | Page | Health
            | Options => DoesNotApply(NO_STREAM),
        },
        Rule::RtpTo => match entry_point {
            Call => Refused(403),
            Rtp | Bare | Group | BareGroup => DoesNotApply("nothing is sent to a source"),
            Put | Post | Icecast | Rtmp | Pull | Viewer | Remuxed | Hls => {
                DoesNotApply("it names no UDP client")
            }
            Events | WatchPage | Metrics | Page | Health | Options => {
                DoesNotApply("it names no UDP client")
            }
        },
        Rule::Group => match entry_point {
            Call => Refused(403),
            _ => DoesNotApply("it names no UDP client"),
        },
        Rule::Listened => match entry_point {
            Call => Refused(400),
            _ => DoesNotApply("it names no UDP client"),
        },
        Rule::Transport => match entry_point {
            Rtp | Bare | Group | BareGroup => Dropped,
            _ => DoesNotApply("it comes in no datagrams"),
        },
        Rule::ListStart => match entry_point {
            Rtp | Bare | Group | BareGroup => Dropped,
            _ => DoesNotApply("it comes in no datagrams"),
        },
        Rule::Sender => match entry_point {
            Group | BareGroup => Dropped,
            _ => DoesNotApply("it is sent to no group"),
        },
        Rule::Via => match entry_point {
            // Of the pull, the answer to its viewers.
            Viewer | Remuxed | Hls | Pull => Refused(508),
            Rtp | Bare | Group | BareGroup => DoesNotApply(NO_REQUEST),
            Put | Post | Rtmp => DoesNotApply("it comes from a source, not from a relay"),
            // A proxy may pass none of its body on.
            Icecast => Refused(411),
            Call | Events | Metrics | Page => Refused(403),
            WatchPage | Health | Options => DoesNotApply("nothing is fetched for it"),
        },
        Rule::Streams => match entry_point {
            Put | Post | Icecast | Rtmp | Pull => Refused(503),
            Rtp | Bare | Group | BareGroup => Dropped,
            Viewer | Remuxed | Hls | WatchPage | Call | Events | Metrics | Page | Health
            | Options => DoesNotApply(NO_STREAM),
        },
        Rule::Connections => match entry_point {
            Put | Post | Icecast | Rtmp | Viewer | Remuxed | Hls | WatchPage | Pull | Events => {
                Refused(503)
            }
            Rtp | Bare | Group | BareGroup => DoesNotApply("it has no connection"),
            Call | Metrics | Page | Health | Options => DoesNotApply(AT_ONCE),
        },
        Rule::PerHost => match entry_point {
            Put | Post | Icecast | Rtmp | Viewer | Remuxed | Hls | WatchPage | Events => {
                Refused(429)
            }
            Rtp | Bare | Group | BareGroup => DoesNotApply("it has no connection"),
            Pull => DoesNotApply(NAMED),
            Call | Metrics | Page | Health | Options => DoesNotApply(AT_ONCE),
        },
        Rule::Shutdown => match entry_point {
            // The call changes the table.
            Put | Post | Icecast | Viewer | Remuxed | Hls | WatchPage | Call | Events => {
                Refused(503)
            }
            Rtmp | Rtp | Bare | Group | BareGroup | Pull => Dropped,
            Metrics | Page | Health | Options => DoesNotApply("who is in may look until the end"),
        },
    }
}

fn ways() -> Vec<EntryPoint> {
    let next = |entry_point: &EntryPoint| match entry_point {
        Put => Some(Post),
        Post => Some(Icecast),
        Icecast => Some(Rtmp),
        Rtmp => Some(Rtp),
        Rtp => Some(Bare),
        Bare => Some(Group),
        Group => Some(BareGroup),
        BareGroup => Some(Pull),
        Pull => Some(Viewer),
        Viewer => Some(Remuxed),
        Remuxed => Some(Hls),
        Hls => Some(Call),
        Call => Some(Events),
        Events => Some(Metrics),
        Metrics => Some(Page),
        Page => Some(WatchPage),
        WatchPage => Some(Health),
        Health => Some(Options),
        Options => None,
    };
    std::iter::successors(Some(Put), next).collect()
}

fn rules() -> Vec<Rule> {
    let next = |rule: &Rule| match rule {
        Rule::Subnet => Some(Rule::PublishFrom),
        Rule::PublishFrom => Some(Rule::Name),
        Rule::Name => Some(Rule::NameOfClient),
        Rule::NameOfClient => Some(Rule::StrangerProxy),
        Rule::StrangerProxy => Some(Rule::Origin),
        Rule::Origin => Some(Rule::Site),
        Rule::Site => Some(Rule::Host),
        Rule::Host => Some(Rule::Token),
        Rule::Token => Some(Rule::Direction),
        Rule::Direction => Some(Rule::Time),
        Rule::Time => Some(Rule::Key),
        Rule::Key => Some(Rule::Viewers),
        Rule::Viewers => Some(Rule::BlockedViewer),
        Rule::BlockedViewer => Some(Rule::Block),
        Rule::Block => Some(Rule::Source),
        Rule::Source => Some(Rule::Takeover),
        Rule::Takeover => Some(Rule::RtpTo),
        Rule::RtpTo => Some(Rule::Group),
        Rule::Group => Some(Rule::Listened),
        Rule::Listened => Some(Rule::Sender),
        Rule::Sender => Some(Rule::Transport),
        Rule::Transport => Some(Rule::ListStart),
        Rule::ListStart => Some(Rule::Via),
        Rule::Via => Some(Rule::Streams),
        Rule::Streams => Some(Rule::Connections),
        Rule::Connections => Some(Rule::PerHost),
        Rule::PerHost => Some(Rule::Shutdown),
        Rule::Shutdown => None,
    };
    std::iter::successors(Some(Rule::Subnet), next).collect()
}

const CLIENT: &str = "10.0.0.1:6000";
const CLIENTS_OTHER_PORT: &str = "10.0.0.1:6001";
/// A group that the server listens to.
const GROUP: &str = "239.1.2.3:5004";
/// More relays than there may be.
const LOOP: &str = "Via: 1.1 a, 1.1 b, 1.1 c, 1.1 d, 1.1 e, 1.1 f, 1.1 g, 1.1 h, 1.1 i, 1.1 j, 1.1 k, \
                    1.1 l, 1.1 m, 1.1 n, 1.1 o, 1.1 p, 1.1 q\r\n";
const PULLS_VIEWER: &str = "10.0.0.7:7000";
/// Somebody for whom every subnet is right.
const OTHER: &str = "10.99.0.9:9000";

fn connect(stage: &mut Stage, peer: &str, text: &str) -> Option<ConnectionId> {
    let peer: SocketAddr = peer.parse().expect("an address");
    let id = stage.relay.accepted(peer, stage.now)?;
    stage.send(id, text);
    Some(id)
}

/// A publisher by RTMP that has asked for nothing.
fn connect_rtmp(stage: &mut Stage) -> Option<ConnectionId> {
    let peer = CLIENT.parse().expect("an address");
    let id = stage.relay.accepted_rtmp(peer, stage.now)?;
    stage.send(id, &rtmp::sample::handshake());
    Some(id)
}

/// Whatever becomes of it.
#[test]
#[cfg(feature = "rtmp")]
fn all_that_a_publisher_by_rtmp_sends_draws_from_its_rate() {
    let mut stage = Stage::new(&["--token-server=10.0.0.0/8", "--rtmp=127.0.0.1:1935"]);
    let call = "POST /api/add-token?type=http&sessionid=demo&max-bitrate=8000000";
    stage.client(&format!("{call} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let peer = CLIENT.parse().expect("an address");
    let id = stage.relay.accepted_rtmp(peer, stage.now).expect("room");
    let sent = include_bytes!("../../../tests/rtmp/ffmpeg.rtmp");
    stage.send(id, &sent[..sent.len() - 94]);
    assert_eq!(stage.relay.streams.running(), 1);
    assert!(stage.relay.bytes_wanted(id) > 0);
    // A data message whose name nobody knows.
    let body = [&b"\x02\0\x60"[..], &[b'x'; 97]].concat();
    let ignored = [&[4, 0, 0, 0, 0, 0, 100, 18, 1, 0, 0, 0][..], &body].concat();
    for _ in 0..20 {
        stage.send(id, &ignored.repeat(1_000));
    }
    assert_eq!(stage.relay.bytes_wanted(id), 0);
}

/// Somebody whose answer is not written yet.
fn unanswered(stage: &mut Stage) -> ConnectionId {
    let peer = CLIENT.parse().expect("an address");
    let id = stage.relay.accepted(peer, stage.now).expect("a place");
    let request = b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n";
    stage.relay.received(id, request, stage.now);
    id
}

fn allow(stage: &mut Stage, entry_point: EntryPoint, name: &str, http: Option<Direction>) {
    let (client, transport) = match entry_point {
        Group => (GROUP, Transport::Rtp(None)),
        BareGroup => (GROUP, Transport::Bare),
        Bare => (CLIENT, Transport::Bare),
        _ => (CLIENT, Transport::Rtp(None)),
    };
    let clients = udp_clients::parse(client, 1).expect("a UDP client");
    let client = clients.into_iter().next().expect("one");
    let addresses = client.address().into_iter().collect();
    let tuple = RtpTuple {
        client,
        transport,
        addresses,
    };
    let rtp = if name == "a" { vec![tuple] } else { Vec::new() };
    let tokens = stage.relay.grants.table().expect("a table");
    tokens
        .add(&session(name), http.map(Grant::from), rtp)
        .expect("room");
}

fn grant(tokens: &mut Tokens, direction: Direction, terms: Terms) {
    let grant = Grant { direction, terms };
    let added = tokens.add(&session("a"), Some(grant), Vec::new());
    assert_eq!(added, Ok(1));
}

fn other_source(stage: &mut Stage, name: &str) {
    let put = format!(
        "PUT /stream/{name} HTTP/1.1\r\nHost: h\r\nContent-Type: video/x\r\nContent-Length: 9\r\n\r\nx"
    );
    connect(stage, OTHER, &put).expect("a place");
    assert!(stage.relay.streams.runs(&session(name)), "it runs");
}

/// Its sound is long enough for a playlist.
fn source_of(stage: &mut Stage, media: &[u8]) {
    let put = "PUT /stream/a HTTP/1.1\r\nHost: h\r\nContent-Length: 999999\r\n\r\n";
    let id = connect(stage, OTHER, put).expect("a place");
    stage.send(id, media);
}

fn options(entry_point: EntryPoint, broken: Option<Rule>) -> Vec<&'static str> {
    let mut options = vec!["--icecast"];
    options.push(match broken {
        Some(Rule::Subnet) => "--token-server=10.99.0.0/16",
        _ => "--token-server=10.0.0.0/8",
    });
    options.push(match broken {
        Some(Rule::Sender) => "--join=239.1.2.3@10.0.0.9",
        _ => "--join=239.1.2.3@10.0.0.1",
    });
    let fetches = entry_point == Pull || broken == Some(Rule::Via);
    options.extend(fetches.then_some("--origin=http://10.1.0.1:8000"));
    options.extend_from_slice(match broken {
        Some(Rule::PublishFrom) => &["--publish-from=10.99.0.0/16"],
        Some(Rule::Name) => &["--forwarded-from=10.0.0.1"],
        Some(Rule::NameOfClient) => &["--forwarded-from=10.0.0.1", "--proxy-protocol=10.0.0.8"],
        Some(Rule::StrangerProxy) => &["--publish-from=10.0.0.0/8"],
        Some(Rule::Takeover) => &["--takeover"],
        Some(Rule::RtpTo) => &["--rtp-to=10.99.0.0/16"],
        Some(Rule::Streams) => &["--streams=1"],
        Some(Rule::Connections) => &["--connections=1"],
        Some(Rule::PerHost) => &["--connections-per-host=1"],
        _ => &[],
    });
    options
}

/// Prepares the server.
fn prepare(stage: &mut Stage, entry_point: EntryPoint, broken: Option<Rule>) {
    allow(stage, entry_point, "a", Some(Direction::Both));
    allow(stage, entry_point, "other", Some(Direction::Both));
    if entry_point == Viewer {
        other_source(stage, "a");
    }
    if entry_point == Remuxed {
        source_of(stage, include_bytes!("../../../tests/media/h264.flv"));
    }
    if entry_point == Hls {
        let mut frame = vec![0xff, 0xfb, 0x90, 0x64];
        frame.resize(417, 0);
        source_of(stage, &frame.repeat(300));
    }
    match broken {
        Some(Rule::Connections) if !matches!(entry_point, Viewer | Remuxed | Hls | Pull) => {
            connect(stage, OTHER, "").expect("a place");
        }
        Some(Rule::PerHost) => drop(connect(stage, CLIENT, "").expect("a place")),
        Some(Rule::Streams) if !matches!(entry_point, Viewer | Remuxed | Hls) => {
            other_source(stage, "other")
        }
        _ => {}
    }
}

/// Changes that take effect for the next client.
fn change(stage: &mut Stage, entry_point: EntryPoint, broken: Option<Rule>) {
    let tokens = stage.relay.grants.table().expect("a table");
    match broken {
        Some(Rule::Token) => drop(tokens.revoke(&session("a"))),
        Some(Rule::Direction) => {
            tokens.revoke(&session("a"));
            let wrong = match entry_point {
                Viewer | Remuxed | Hls | WatchPage | Pull => Direction::In,
                _ => Direction::Out,
            };
            allow(stage, entry_point, "a", Some(wrong));
        }
        Some(Rule::Time) => {
            let terms = Terms {
                expires: Some(UnixTime::default()),
                ..Terms::default()
            };
            grant(tokens, Direction::Both, terms);
        }
        Some(Rule::Key) => {
            tokens.revoke(&session("a"));
            let wrong = match entry_point {
                Viewer | Remuxed | Hls | WatchPage => Direction::In,
                _ => Direction::Out,
            };
            let terms = Terms {
                opens: Some(session("other")),
                ..Terms::default()
            };
            grant(tokens, wrong, terms);
        }
        Some(Rule::Viewers) => {
            let terms = Terms {
                viewers_max: Some(0),
                ..Terms::default()
            };
            grant(tokens, Direction::Both, terms);
        }
        Some(Rule::Block) => {
            let (grants, ctx) = (&mut stage.relay.grants, &stage.relay.ctx);
            let blocked = grants.block(&session("a"), Duration::from_secs(60), ctx);
            blocked.expect("room");
        }
        Some(Rule::BlockedViewer) => {
            let (grants, ctx) = (&mut stage.relay.grants, &stage.relay.ctx);
            let client: SocketAddr = CLIENT.parse().expect("an address");
            let whom = (session("a"), client.ip());
            let barred = grants.block_viewer(&whom, Duration::from_secs(60), ctx);
            barred.expect("room");
        }
        Some(Rule::Source | Rule::Takeover) if !matches!(entry_point, Viewer | Remuxed | Hls) => {
            other_source(stage, "a")
        }
        Some(Rule::Transport) => {
            tokens.revoke(&session("a"));
            let other = match entry_point {
                Rtp => Bare,
                Bare => Rtp,
                Group => BareGroup,
                BareGroup => Group,
                entry_point => entry_point,
            };
            allow(stage, other, "a", Some(Direction::Both));
        }
        Some(Rule::ListStart) => {
            let before = match entry_point {
                Rtp | Bare => CLIENT,
                Group | BareGroup => CLIENTS_OTHER_PORT,
                _ => return,
            };
            send_datagrams(stage, entry_point, before);
            assert!(is_by(stage, before), "it began");
            stage.relay.end_session(&session("a"));
            stage.relay.dispatch_events();
            stage.settle();
        }
        Some(Rule::Shutdown) => stage.relay.shut_down(stage.now),
        _ => {}
    }
}

fn request(entry_point: EntryPoint, broken: Option<Rule>) -> String {
    let (line, fields) = match entry_point {
        Put => (
            "PUT /stream/a",
            "Content-Length: 9\r\nExpect: 100-continue\r\n",
        ),
        Post => (
            "POST /stream/a",
            "Content-Length: 9\r\nExpect: 100-continue\r\n",
        ),
        // The password is `a`.
        Icecast => ("SOURCE /mount", "Authorization: Basic OmE=\r\n"),
        Viewer | Rtmp | Rtp | Bare | Group | BareGroup | Pull => ("GET /stream/a", ""),
        Remuxed => ("GET /stream/a/live.ts", ""),
        Hls => ("GET /stream/a/index.m3u8", ""),
        Call if broken == Some(Rule::Listened) => (
            "POST /api/add-token?type=rtp-udp&sessionid=a&udp-clients=239.1.2.3:6000",
            "",
        ),
        Call if broken == Some(Rule::Group) => (
            "POST /api/add-token?type=rtp-udp&sessionid=a&udp-clients=239.9.9.9:6000",
            "",
        ),
        Call => (
            "POST /api/add-token?type=rtp-udp&sessionid=a&udp-clients=10.0.0.2:6000",
            "",
        ),
        Events => ("GET /api/events", ""),
        Metrics => ("GET /metrics", ""),
        Page => ("GET /", ""),
        WatchPage => ("GET /watch/a", ""),
        Health => ("GET /healthz", ""),
        Options => ("OPTIONS /stream/a", ""),
    };
    let host = match broken {
        Some(Rule::Host) => "rebound.example",
        _ => "10.9.0.1",
    };
    let field = match broken {
        Some(Rule::Origin) => "Origin: http://elsewhere.example\r\n",
        Some(Rule::Site) => "Sec-Fetch-Site: cross-site\r\n",
        Some(Rule::NameOfClient) => "X-Forwarded-For: 10.0.0.8, 10.0.0.1\r\n",
        Some(Rule::StrangerProxy) => "X-Forwarded-For: 10.0.0.8\r\n",
        Some(Rule::Via) => LOOP,
        _ => "",
    };
    format!("{line} HTTP/1.1\r\nHost: {host}\r\n{field}{fields}\r\n")
}

fn outcome(stage: &Stage, id: ConnectionId) -> Outcome {
    let text = stage.text(id);
    let last = text.rsplit_once("HTTP/1.1 ");
    let status = last.and_then(|(_, answer)| answer.get(..3));
    match status.and_then(|status| status.parse().ok()) {
        Some(status @ 400..) => Outcome::Refused(status),
        Some(_) => Outcome::Admitted,
        None => Outcome::Dropped,
    }
}

fn is_by(stage: &Stage, peer: &str) -> bool {
    let mut rows = stage.relay.streams.rows((0, 0), &stage.relay.ctx);
    rows.any(|(_, row)| {
        let row = serde_json::to_value(&row).expect("a row");
        row["sessionid"] == "a" && row["source"]["address"] == peer
    })
}

/// Sends datagrams that begin a stream.
fn send_datagrams(stage: &mut Stage, entry_point: EntryPoint, from: &str) {
    let from = from.parse().expect("an address");
    let port = match entry_point {
        Group | BareGroup => UdpPort::Group(0),
        _ => UdpPort::Rtp,
    };
    let is_bare = matches!(entry_point, Bare | BareGroup);
    for number in 0..2 {
        let mut packet = vec![0x80, 33, 0, number, 0, 0, 0, 0, 1, 2, 3, 4];
        packet.resize(12 + 188, 0x47);
        let datagram = &packet[if is_bare { 12 } else { 0 }..];
        stage.relay.datagram(from, port, datagram, stage.now);
        stage.settle();
    }
}

fn attempt(entry_point: EntryPoint, broken: Option<Rule>) -> Outcome {
    let mut stage = Stage::new(&options(entry_point, broken));
    stage.relay.set_rtp(SocketAddr::from(([10, 9, 0, 1], 5004)));
    prepare(&mut stage, entry_point, broken);
    match entry_point {
        Rtp | Bare | Group | BareGroup => {
            change(&mut stage, entry_point, broken);
            send_datagrams(&mut stage, entry_point, CLIENT);
            match is_by(&stage, CLIENT) {
                true => Outcome::Admitted,
                false => Outcome::Dropped,
            }
        }
        Pull => {
            let viewer =
                connect(&mut stage, PULLS_VIEWER, &request(entry_point, None)).expect("a place");
            if stage.calls.is_empty() {
                return outcome(&stage, viewer);
            }
            let (origin, ..) = stage.call();
            change(&mut stage, entry_point, broken);
            let field = if broken == Some(Rule::Via) { LOOP } else { "" };
            stage.send(
                origin,
                &format!("HTTP/1.1 200 OK\r\n{field}Content-Type: video/x\r\n\r\nx"),
            );
            match is_by(&stage, "10.1.0.1:8000") {
                true => Outcome::Admitted,
                false if is_by(&stage, OTHER) => Outcome::Dropped,
                false => outcome(&stage, viewer),
            }
        }
        Rtmp => {
            let early = (broken == Some(Rule::Shutdown)).then(|| connect_rtmp(&mut stage));
            change(&mut stage, entry_point, broken);
            let Some(id) = early.unwrap_or_else(|| connect_rtmp(&mut stage)) else {
                return Outcome::Dropped;
            };
            stage.send(id, &rtmp::sample::asking("a"));
            let text = String::from_utf8_lossy(&stage.written[&id]).into_owned();
            let mut refusals = stage.relay.ctx.counts.refusals.keys();
            match refusals.next() {
                Some(status) if text.contains("NetStream.Publish.Denied") => {
                    Outcome::Refused(status.code())
                }
                Some(status) if text.contains("NetStream.Publish.BadName") => {
                    Outcome::Refused(status.code())
                }
                _ if text.contains("NetStream.Publish.Start") && is_by(&stage, CLIENT) => {
                    Outcome::Admitted
                }
                _ => Outcome::Dropped,
            }
        }
        _ => {
            let early = (broken == Some(Rule::Shutdown)).then(|| unanswered(&mut stage));
            change(&mut stage, entry_point, broken);
            let text = request(entry_point, broken);
            if let Some(id) = early {
                stage.send(id, &text);
            }
            match early.or_else(|| connect(&mut stage, CLIENT, &text)) {
                Some(id) => outcome(&stage, id),
                None => Outcome::Dropped,
            }
        }
    }
}

#[test]
fn every_way_in_keeps_every_rule() {
    let mut wrong = Vec::new();
    for entry_point in ways() {
        assert_eq!(
            attempt(entry_point, None),
            Outcome::Admitted,
            "{entry_point:?}"
        );
        for rule in rules() {
            let expected = match cell(entry_point, rule) {
                Refused(status) => Outcome::Refused(status),
                Dropped => Outcome::Dropped,
                DoesNotApply(reason) => {
                    assert!(!reason.is_empty());
                    Outcome::Admitted
                }
            };
            let seen = attempt(entry_point, Some(rule));
            if seen != expected {
                wrong.push(format!(
                    "{entry_point:?} × {rule:?}: {seen:?}, not {expected:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
