//! The table of options: for each its name, what it takes and where that goes, its group, its
//! default, and what it says about itself. What bounds clients stands in [`bounds`]. There is no
//! other list of them: an option goes by deleting its row, and its field.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::row::{Asked, Fallback, Group, Row, Takes};
use super::values::{self, Read};
use super::{Bind, Listen};

mod bounds;

fn put<T>(place: &mut T, value: Read<T>) -> Read<()> {
    *place = value?;
    Ok(())
}

fn push<T>(list: &mut Vec<T>, value: Read<T>) -> Read<()> {
    list.push(value?);
    Ok(())
}

const HTTP_PORT: u16 = 8000;
const RTP_PORT: u16 = 5004;

/// All of IPv6 and, through it, of IPv4; where there is no IPv6, all of IPv4.
fn everywhere(port: u16) -> Bind {
    Bind {
        address: SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
        without_ipv6: Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))),
    }
}

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;
/// The most of anything that is counted.
const MANY: usize = 10_000_000;
/// The shortest time that cuts somebody, in seconds.
const MOMENT: f64 = 0.01;

/// All of them, whatever their order: `--help` and `docs/options.md` go by their groups.
pub(super) fn options() -> impl Iterator<Item = &'static Row> + Clone {
    ROWS.iter().chain(bounds::ROWS)
}

const ROWS: &[Row] = &[
    Row {
        name: "token-server",
        takes: Takes::Many("ADDR/MASK", |config, text| {
            push(&mut config.core.token_servers, values::subnet(text))
        }),
        group: Group::Main,
        fallback: Fallback::Shown("off"),
        help: "turn tokens on; this subnet may call the API",
        more: "MASK is a prefix length (`10.0.0.0/8`, `fd00::/8`) or a dotted mask \
               (`10.0.0.0/255.0.0.0`); a bare ADDR is that one host. Without it anyone may stream \
               and watch, there is no RTP, and API calls get 403.",
    },
    Row {
        name: "listen",
        takes: Takes::Many("ADDR:PORT", |config, text| {
            push(&mut config.listen, values::listen(text))
        }),
        group: Group::Main,
        fallback: Fallback::Made("[::]:8000", |config| {
            config.listen = vec![Listen::Tcp(everywhere(HTTP_PORT))]
        }),
        help: "listen for HTTP here",
        more: "Port 0 picks a free one. Without IPv6 the default is `0.0.0.0:8000`. `unix:PATH` is a \
               socket in the file system, for a proxy on this host: who connects to it counts as \
               127.0.0.1, so it is the folder's permissions that say who may.",
    },
    Row {
        name: "rtp",
        takes: Takes::One("ADDR:PORT", |config, text| {
            put(&mut config.rtp, values::rtp(text))
        }),
        group: Group::Main,
        fallback: Fallback::Made("[::]:5004", |config| {
            config.rtp = Some(everywhere(RTP_PORT))
        }),
        help: "send and receive RTP here, or off",
        more: "Bound only with `--token-server`, since RTP needs tokens. Without IPv6 the default \
               is `0.0.0.0:5004`.",
    },
    Row {
        name: "join",
        takes: Takes::Many("GROUP[@SRC][%NIC]", |config, text| {
            push(&mut config.core.joins, values::join(text))
        }),
        group: Group::Main,
        fallback: Fallback::Shown("none"),
        help: "take what is sent to this multicast group",
        more: "It comes to the port of `--rtp`, and is the source of the session whose token names \
               the group. With SRC only what that host sends counts (source-specific, IGMPv3 and \
               MLDv2); NIC is the interface. Needs `--token-server`.",
    },
    Row {
        name: "multicast",
        takes: Takes::One("TTL[%NIC]", |config, text| {
            let (hops, interface) = values::multicast(text)?;
            config.outgoing.hops = hops;
            config.outgoing.interface = interface;
            Ok(())
        }),
        group: Group::Main,
        fallback: Fallback::Value("1"),
        help: "how far, and by which interface, to groups",
        more: "Each router takes one off the TTL, and drops what has none left: with 1 datagrams \
               stay in the network that this host is in. Without NIC they leave by the interface \
               that the routes say.",
    },
    Row {
        name: "dscp",
        takes: Takes::One("N", |config, text| {
            put(
                &mut config.outgoing.dscp,
                values::count(text, 0..=63).map(|dscp| dscp as u8),
            )
        }),
        group: Group::Main,
        fallback: Fallback::Value("0"),
        help: "mark datagrams with this DSCP",
        more: "Routers that know it may let them go first; 34 (AF41) is usual for video.",
    },
    Row {
        name: "check",
        takes: Takes::Asked(Asked::Check),
        group: Group::Main,
        fallback: Fallback::None,
        help: "say whether the options are good, and exit",
        more: "Exit status 0 or 2.",
    },
    Row {
        name: "health",
        takes: Takes::Asked(Asked::Health),
        group: Group::Main,
        fallback: Fallback::None,
        help: "ask the server here if it runs, and exit",
        more: "By its first `--listen`, which has to be given as the server has it. Exit status 0 or 1: \
               for a container's health check.",
    },
    Row {
        name: "help",
        takes: Takes::Asked(Asked::Help),
        group: Group::Main,
        fallback: Fallback::None,
        help: "print this, and exit",
        more: "",
    },
    #[cfg(feature = "handover")]
    Row {
        name: "handover",
        takes: Takes::One("unix:PATH", |config, text| {
            config.handover = Some(values::unix(text)?);
            Ok(())
        }),
        group: Group::Main,
        fallback: Fallback::Shown("off"),
        help: "succeed the server here; wait for the next",
        more: "Whoever finds a server at this path takes over from it, and waits there for the \
               next. Nobody is cut: sockets, streams, tokens and all that is under way go over, and \
               the other one leaves. Both are of the same user, and have the same options. See \
               `docs/handover.md`.",
    },
    Row {
        name: "version",
        takes: Takes::Asked(Asked::Version),
        group: Group::Main,
        fallback: Fallback::None,
        help: "print the version, and exit",
        more: "",
    },
    #[cfg(feature = "token-file")]
    Row {
        name: "token-file",
        takes: Takes::One("PATH", |config, text| {
            config.token_file = Some(values::path(text)?);
            Ok(())
        }),
        group: Group::Gate,
        fallback: Fallback::Shown("none"),
        help: "keep the tokens in this file",
        more: "They survive a restart and a crash: add-token and revoke-token answer when it is on \
               disk, and 507 when it cannot be written. Needs `--token-server`.",
    },
    Row {
        name: "hostname",
        takes: Takes::Many("NAME", |config, text| {
            push(&mut config.core.hostnames, values::hostname(text))
        }),
        group: Group::Gate,
        fallback: Fallback::Shown("off"),
        help: "answer API calls under this name, too",
        more: "Addresses, `localhost` and the machine's own name always count. Against names that a \
               stranger has pointed at the server (DNS rebinding): any other Host gets 403 from the \
               API, the page and the figures. A proxy in front has to pass on the client's Host: \
               nginx and Apache do so only where they are configured to. See `docs/proxies.md`.",
    },
    Row {
        name: "publish-from",
        takes: Takes::Many("SUBNET", |config, text| {
            push(&mut config.core.publish_from, values::subnet(text))
        }),
        group: Group::Gate,
        fallback: Fallback::Shown("off"),
        help: "take streams from this subnet only",
        more: "On top of the token. PUT and POST from elsewhere get 403, and RTP is dropped.",
    },
    Row {
        name: "metrics-from",
        takes: Takes::Many("SUBNET", |config, text| {
            push(&mut config.core.metrics_from, values::subnet(text))
        }),
        group: Group::Gate,
        fallback: Fallback::Shown("off"),
        help: "let hosts in this subnet read `/metrics`",
        more: "Beside those that may call the API, and without `--token-server`, too. Nothing else of the \
               API opens to them. Where a proxy on this host is not named with `--forwarded-from` or \
               `--proxy-protocol`, whoever comes by it is this host, but for requests with one of the \
               fields of `--forwarded-from`.",
    },
    Row {
        name: "rtp-to",
        takes: Takes::Many("SUBNET", |config, text| {
            push(&mut config.core.rtp_to, values::subnet(text))
        }),
        group: Group::Gate,
        fallback: Fallback::Shown("off"),
        help: "allow UDP clients in this subnet only",
        more: "Checked after names are resolved: add-token answers 403 for any other client, so \
               that the relay cannot be turned on a stranger. A multicast group has to be in one: \
               without this option nothing goes to any. A token may name a group that `--join` \
               names all the same, at `--rtp`'s port, for what comes in.",
    },
    Row {
        name: "proxy-protocol",
        takes: Takes::Many("SUBNET", |config, text| {
            push(&mut config.core.proxies, values::subnet(text))
        }),
        group: Group::Gate,
        fallback: Fallback::Shown("off"),
        help: "proxies there say whose a connection is",
        more: "Connections from this subnet must begin with a PROXY protocol header, version 1 or 2, \
               and the address in it is the client's for all checks, limits and logs. From anywhere \
               else such a header is a bad request. See `docs/proxies.md`.",
    },
    Row {
        name: "forwarded-from",
        takes: Takes::Many("SUBNET", |config, text| {
            push(&mut config.core.forwarders, values::subnet(text))
        }),
        group: Group::Gate,
        fallback: Fallback::Shown("off"),
        help: "proxies there say whose a request is",
        more: "For proxies that speak only HTTP: `Forwarded` or `X-Forwarded-For` is believed from \
               this subnet, read from the right up to the first address that is no proxy's. From \
               anyone else the fields are ignored; but a request that has one does nothing that the \
               address which it comes from would allow: the API, `/metrics`, `--publish-from`.",
    },
    Row {
        name: "log",
        takes: Takes::One("LEVEL", |config, text| {
            put(
                &mut config.core.limits.report.level,
                values::log_level(text),
            )
        }),
        group: Group::Operation,
        fallback: Fallback::Value("info"),
        help: "error, warn, info or debug",
        more: "One line an event on stderr, with the time unless that is systemd's journal.",
    },
    Row {
        name: "log-format",
        takes: Takes::One("FORMAT", |config, text| {
            put(&mut config.logs_json, values::log_format(text))
        }),
        group: Group::Operation,
        fallback: Fallback::Value("text"),
        help: "how the log's lines are written: text or json",
        more: "`key=value`, or a JSON object of the same keys on each line; what is no event, such as \
               where it listens, is its `message`.",
    },
    Row {
        name: "access-log",
        takes: Takes::One("PATH", |config, text| {
            config.access_log = Some(values::access_log(text)?);
            Ok(())
        }),
        group: Group::Operation,
        fallback: Fallback::Shown("off"),
        help: "append a line a request here; - is stdout",
        more: "In the combined format; a stream's line comes when it ends. Sessionids appear as their \
               digests. SIGHUP opens it anew. It may be a FIFO; lines that nobody takes are left \
               out, and the log says how many.",
    },
    Row {
        name: "close-delimited",
        takes: Takes::Nothing(|config| config.core.is_close_delimited = true),
        group: Group::Operation,
        fallback: Fallback::Shown("off"),
        help: "end bodies by closing, not in chunks",
        more: "For radio receivers that cannot read chunks. A viewer can then not tell a lost \
               source from a complete one.",
    },
    Row {
        name: "cors",
        takes: Takes::Many("ORIGIN", |config, text| {
            push(&mut config.cors, values::cors_origin(text))
        }),
        group: Group::Operation,
        fallback: Fallback::Shown("none"),
        help: "let this site's pages watch; * is any",
        more: "For GET of streams, never for the API. A site that is named, not by *, may publish \
               by POST, too; other sites' pages may not.",
    },
    #[cfg(feature = "sandbox")]
    Row {
        name: "sandbox",
        takes: Takes::One("on/log/off", |config, text| {
            put(&mut config.sandbox, values::sandbox(text))
        }),
        group: Group::Operation,
        fallback: Fallback::Value("on"),
        help: "give up what no thread needs",
        more: "Once it runs, system calls, files, TCP ports and other processes are refused \
               to each thread as far as it has no use for them, and this kernel can \
               (seccomp, Landlock); a line says what was taken. `log` refuses nothing: the \
               kernel's audit log tells of the calls that `on` would refuse. See \
               `docs/sandbox.md`.",
    },
    #[cfg(feature = "hls")]
    Row {
        name: "hls",
        takes: Takes::One("on/off", |config, text| {
            put(&mut config.core.serves_hls, values::switch(text))
        }),
        group: Group::Operation,
        fallback: Fallback::Value("on"),
        help: "give streams out as HLS, too",
        more: "At `/stream/ID/index.m3u8`, for MPEG-TS, fragmented MP4, MP3 and AAC, to whoever may \
               watch.",
    },
    #[cfg(feature = "remux")]
    Row {
        name: "remux",
        takes: Takes::One("on/off", |config, text| {
            put(&mut config.core.remuxes, values::switch(text))
        }),
        group: Group::Operation,
        fallback: Fallback::Value("on"),
        help: "give streams out in other containers, too",
        more: "At `/stream/ID/live.ts` and `/stream/ID/live.mp4`, made of FLV, Matroska, fragmented \
               MP4 and MPEG-TS while somebody wants it. Each takes one more `--buffer`.",
    },
    #[cfg(feature = "icecast")]
    Row {
        name: "icecast",
        takes: Takes::Nothing(|config| {
            config.core.admits_icecast = true;
            config.core.limits.http.takes_old_sources = true;
        }),
        group: Group::Operation,
        fallback: Fallback::Shown("off"),
        help: "take sources as Icecast's clients send them",
        more: "`SOURCE` or PUT to any mount point, Basic credentials whose password is the sessionid, \
               and bodies that end with the connection; `SOURCE` in ICE/1.0, and with lines that \
               end with LF alone, too. Not behind a proxy: it could take such a \
               body for another client's request.",
    },
    Row {
        name: "takeover",
        takes: Takes::Nothing(|config| config.core.takes_over = true),
        group: Group::Operation,
        fallback: Fallback::Shown("off"),
        help: "a second source replaces the first",
        more: "Otherwise it gets 409.",
    },
    Row {
        name: "peer",
        takes: Takes::Many("URL", |config, text| {
            push(&mut config.core.peers, values::peer(text))
        }),
        group: Group::Operation,
        fallback: Fallback::Shown("none"),
        help: "list what the relay there has, too",
        more: "`http://ADDR:PORT`. `list-tokens`, `list-streams` and `list-viewers` of this server then \
               give the whole, asked of all peers at the same time. One that does not answer within 2 s is named in \
               the field `Tollgate-Missing`. This host must be in its token subnet.",
    },
    Row {
        name: "origin",
        takes: Takes::Many("URL", |config, text| {
            push(&mut config.core.origins, values::origin(text))
        }),
        group: Group::Operation,
        fallback: Fallback::Shown("none"),
        help: "fetch streams from the relay there",
        more: "`http://HOST:PORT` or `http://HOST:PORT/PATH`. A viewer of a session that does not \
               run here starts one pull, which all its viewers share. The first origin that has \
               the stream counts. See `docs/edges.md`.",
    },
    Row {
        name: "origin-tokens",
        takes: Takes::Nothing(|config| config.core.asks_origin = true),
        group: Group::Operation,
        fallback: Fallback::Shown("off"),
        help: "let the origin say who may watch",
        more: "Needs `--origin`. Otherwise a viewer needs a token here. What the origin said holds \
               for a session as long as its pull runs.",
    },
];
