//! The table of options. To remove an option, delete its row and its field. Options that limit
//! clients are in [`bounds`].

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::row::{Group, OtherCommand, Row, command, flag, many, one, subnets};
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

/// All addresses of IPv6 and IPv4; without IPv6, all of IPv4.
fn everywhere(port: u16) -> Bind {
    Bind {
        address: SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
        without_ipv6: Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))),
    }
}

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;
/// Upper limit for counts.
const MANY: usize = 10_000_000;
/// Shortest time after which a client is disconnected, in seconds.
const MOMENT: f64 = 0.01;

/// The headings, in the order of `--help` and `docs/options.md`.
pub(super) const GROUPS: [Group; 6] = [
    group("Main", MAIN),
    group("Access", GATE),
    group("Limits", bounds::LIMITS),
    group("Times", bounds::TIMES),
    group("Buffers", bounds::BUFFERS),
    group("Operation", OPERATION),
];

const fn group(title: &'static str, rows: &'static [Row]) -> Group {
    Group { title, rows }
}

/// Returns all options, in the order of `--help`.
pub(super) fn options() -> impl Iterator<Item = &'static Row> + Clone {
    GROUPS.into_iter().flat_map(|group| group.rows)
}

const MAIN: &[Row] = &[
    many("token-server", "ADDR/MASK", |c, text| {
        push(&mut c.core.token_servers, values::subnet(text))
    })
    .unset("off")
    .help("require tokens; this subnet may call the API")
    .more(
        "MASK is a prefix length (`10.0.0.0/8`, `fd00::/8`) or a dotted mask \
             (`10.0.0.0/255.0.0.0`). An ADDR without MASK is one host. \
             127.0.0.1 and ::1 are the same host. Without this option anyone may publish and watch, there is no RTP, and API calls get 403.",
    ),
    many("listen", "ADDR:PORT", |c, text| {
        push(&mut c.listen, values::listen(text))
    })
    .computed("[::]:8000", |c| {
        c.listen = vec![Listen::Tcp(everywhere(HTTP_PORT))]
    })
    .help("listen for HTTP here")
    .more(
        "Port 0 picks a free port. Without IPv6 the default is `0.0.0.0:8000`. `unix:PATH` \
             is a socket in the file system, for a proxy on this host. A client that connects \
             to it counts as 127.0.0.1, so the permissions of its folder decide about \
             access.",
    ),
    one("rtp", "ADDR:PORT", |c, text| {
        put(&mut c.rtp, values::rtp(text))
    })
    .computed("[::]:5004", |c| c.rtp = Some(everywhere(RTP_PORT)))
    .help("send and receive RTP here, or off")
    .more(
        "The port is bound only with `--token-server`, since RTP needs tokens. Without \
             IPv6 the default is `0.0.0.0:5004`.",
    ),
    #[cfg(feature = "rtmp")]
    one("rtmp", "ADDR:PORT", |c, text| {
        put(&mut c.rtmp, values::rtmp(text))
    })
    .unset("off")
    .help("take sources by RTMP here")
    .more(
        "OBS and ffmpeg send to `rtmp://HOST/live/SESSIONID`. The usual port is 1935. \
             Viewers get the stream over HTTP and HLS, not by RTMP. For `rtmps`, put a proxy \
             with TLS in front.",
    ),
    many("join", "GROUP[@SRC][%NIC]", |c, text| {
        push(&mut c.core.joins, values::join(text))
    })
    .unset("none")
    .help("receive this multicast group")
    .more(
        "Its datagrams arrive at the port of `--rtp`. They are the source of the session \
             whose token names the group. With SRC, only datagrams of that host count \
             (source-specific multicast, IGMPv3 and MLDv2). NIC is the network interface. \
             Needs `--token-server`.",
    ),
    one("multicast", "TTL[%NIC]", |c, text| {
        let (hops, interface) = values::multicast(text)?;
        c.outgoing.hops = hops;
        c.outgoing.interface = interface;
        Ok(())
    })
    .default("1")
    .help("TTL and interface of datagrams to groups")
    .more(
        "Each router lowers the TTL by one, and drops a datagram whose TTL is 0. With 1, \
             datagrams stay in the network of this host. Without NIC, the routing table \
             chooses the interface.",
    ),
    one("dscp", "N", |c, text| {
        put(
            &mut c.outgoing.dscp,
            values::count(text, 0..=63).map(|dscp| dscp as u8),
        )
    })
    .default("0")
    .help("mark datagrams with this DSCP")
    .more(
        "Routers that are set up for it forward marked datagrams first. 34 (AF41) is usual \
             for video.",
    ),
    command("check", OtherCommand::Check)
        .help("check the options, and exit")
        .more("Exit status 0 or 2."),
    command("health", OtherCommand::Health)
        .help("check that the server here runs, and exit")
        .more(
            "Connects to the first `--listen`, so give that option as the server has it. Exit \
             status 0 or 1: for the health check of a container.",
        ),
    command("help", OtherCommand::Help).help("print this, and exit"),
    #[cfg(feature = "handover")]
    one("handover", "unix:PATH", |c, text| {
        c.handover = Some(values::unix(text)?);
        Ok(())
    })
    .unset("off")
    .help("take over from the server at this path")
    .more(
        "Then this server waits at the path for its own successor. No client is disconnected: sockets, \
             streams, tokens, requests and responses move to the new server, and the old \
             server exits. Both servers must run as the same user, with the same options. See \
             `docs/handover.md`.",
    ),
    command("version", OtherCommand::Version).help("print the version, and exit"),
];

const GATE: &[Row] = &[
    #[cfg(feature = "token-file")]
    one("token-file", "PATH", |c, text| {
        c.token_file = Some(values::path(text)?);
        Ok(())
    })
    .unset("none")
    .help("keep the tokens in this file")
    .more(
        "Tokens survive a restart and a crash. add-token and revoke-token answer when the \
             change is on disk, and 507 if the file cannot be written. Needs `--token-server`.",
    ),
    many("hostname", "NAME", |c, text| {
        push(&mut c.core.hostnames, values::hostname(text))
    })
    .unset("off")
    .help("answer API calls under this name, too")
    .more(
        "Addresses, `localhost` and the name of this machine always work. With any other \
             Host, the API, the page and the metrics answer 403. This stops websites whose \
             name points at this server (DNS rebinding). A proxy must pass on the Host of the \
             client; nginx and Apache do so only if configured. See `docs/proxies.md`.",
    ),
    one("public-url", "URL", |c, text| {
        put(&mut c.core.public_url, values::public_url(text))
    })
    .unset("none")
    .help("address of this server in the pages' links")
    .more(
        "For links, QR codes and addresses of players, such as `https://live.example` or \
             `https://example.org/live`. Without it, links have the address by which the page \
             was reached. It opens nothing: a proxy's name also needs `--hostname`.",
    ),
    subnets("publish-from", |c| &mut c.core.publish_from)
        .unset("off")
        .help("take streams from this subnet only")
        .more(
            "Sources need a token as well. PUT and POST from other addresses get 403, and \
             their RTP is dropped.",
        ),
    subnets("metrics-from", |c| &mut c.core.metrics_from)
        .unset("off")
        .help("let hosts in this subnet read `/metrics`")
        .more(
            "Hosts that may call the API can always read it. This option also works without \
             `--token-server`, and gives access to nothing else. Name each proxy on this host \
             with `--forwarded-from` or `--proxy-protocol`. Otherwise its clients count as \
             this host, except for requests with a field that `--forwarded-from` reads.",
        ),
    subnets("rtp-to", |c| &mut c.core.rtp_to)
        .unset("off")
        .help("allow UDP clients in this subnet only")
        .more(
            "The check comes after names are resolved. add-token answers 403 for any other client, \
             so that nobody can direct the stream at a stranger. Sending to a multicast group \
             needs this option, with a subnet that contains the group. A token may always name \
             a group of `--join`, at the port of `--rtp`, as its source.",
        ),
    subnets("proxy-protocol", |c| &mut c.core.proxies)
        .unset("off")
        .help("read client addresses from PROXY headers")
        .more(
            "Connections from this subnet must begin with a PROXY protocol header, version 1 \
             or 2. All checks, limits and logs use the address in it. From any other address \
             such a header is a bad request. See `docs/proxies.md`.",
        ),
    subnets("forwarded-from", |c| &mut c.core.forwarders)
        .unset("off")
        .help("read client addresses from HTTP fields")
        .more(
            "For proxies that speak only HTTP. `Forwarded` and `X-Forwarded-For` from this \
             subnet are read from the right, up to the first address that belongs to no proxy. \
             From any other address they are ignored, but a request that has one loses the \
             rights of the address that it comes from: the API, `/metrics`, `--publish-from`.",
        ),
];

const OPERATION: &[Row] = &[
    one("log", "LEVEL", |c, text| {
        put(&mut c.core.limits.report.level, values::log_level(text))
    })
    .default("info")
    .help("error, warn, info or debug")
    .more(
        "One line per event on stderr. Lines begin with the time, except in the journal of \
             systemd.",
    ),
    one("log-format", "FORMAT", |c, text| {
        put(&mut c.logs_json, values::log_format(text))
    })
    .default("text")
    .help("format of log lines: text or json")
    .more(
        "Text is `key=value`. JSON is one object per line, with the same keys. Lines that \
             are no events, such as the listening address, have only a `message`.",
    ),
    one("access-log", "PATH", |c, text| {
        c.access_log = Some(values::access_log(text)?);
        Ok(())
    })
    .unset("off")
    .help("append a line per request; - is stdout")
    .more(
        "The format is the combined log format. The line of a stream is written when the \
             stream ends. \
             Session ids appear as digests. SIGHUP opens the file again. The path may be a \
             FIFO. Lines that its reader does not take are dropped, and the log counts them.",
    ),
    flag("close-delimited", |c| c.core.is_close_delimited = true)
        .unset("off")
        .help("end bodies by closing, not in chunks")
        .more(
            "For radio receivers that cannot read chunks. A viewer then cannot tell a lost \
             source from the end of the stream.",
        ),
    many("cors", "ORIGIN", |c, text| {
        push(&mut c.cors, values::cors_origin(text))
    })
    .unset("none")
    .help("let pages of this site watch; * is any site")
    .more(
        "Applies to GET of streams, never to the API. A site that is named, not `*`, may \
             also publish by POST; other sites may not.",
    ),
    #[cfg(feature = "sandbox")]
    one("sandbox", "on/log/off", |c, text| {
        put(&mut c.sandbox, values::sandbox(text))
    })
    .default("on")
    .help("give up system calls that are not needed")
    .more(
        "Once the server runs, each thread gives up the system calls, files, TCP ports and \
             other processes that it does not need. A log line says what this kernel \
             supports (seccomp, Landlock). `log` refuses nothing: the audit log \
             of the kernel lists the calls that `on` would refuse. See `docs/sandbox.md`.",
    ),
    #[cfg(feature = "hls")]
    one("hls", "on/off", |c, text| {
        put(&mut c.core.serves_hls, values::switch(text))
    })
    .default("on")
    .help("serve streams as HLS, too")
    .more(
        "At `/stream/ID/index.m3u8`, for MPEG-TS, fragmented MP4, MP3 and AAC. Viewers \
             need the same rights as for the stream.",
    ),
    #[cfg(feature = "remux")]
    one("remux", "on/off", |c, text| {
        put(&mut c.core.remuxes, values::switch(text))
    })
    .default("on")
    .help("serve streams in other containers, too")
    .more(
        "At `/stream/ID/live.ts` and `/stream/ID/live.mp4`, from FLV, Matroska, fragmented \
             MP4 and MPEG-TS, while a client asks for it. Each container takes one more \
             `--buffer`.",
    ),
    #[cfg(feature = "icecast")]
    flag("icecast", |c| {
        c.core.admits_icecast = true;
        c.core.limits.http.takes_old_sources = true;
    })
    .unset("off")
    .help("accept sources that speak Icecast")
    .more(
        "`SOURCE` or PUT to any mount point, with the session id as the password of Basic \
             credentials. The body ends with the connection. `SOURCE` may also be ICE/1.0 with \
             lines that end with LF alone. Do not use it behind a proxy, which could take such \
             a body for the request of another client.",
    ),
    flag("takeover", |c| c.core.takes_over = true)
        .unset("off")
        .help("a second source replaces the first")
        .more("Without this option the second source gets 409."),
    many("peer", "URL", |c, text| {
        push(&mut c.core.peers, values::peer(text))
    })
    .unset("none")
    .help("include the relay at URL in lists")
    .more(
        "`http://ADDR:PORT`. `list-tokens`, `list-streams` and `list-viewers` of this \
             server then also list the rows of all peers, which are asked at the same time. \
             The field `Tollgate-Missing` names each peer that does not answer within 2 s. The \
             token subnet of the peer must include this host.",
    ),
    many("origin", "URL", |c, text| {
        push(&mut c.core.origins, values::origin(text))
    })
    .unset("none")
    .help("fetch streams from the relay at URL")
    .more(
        "`http://HOST:PORT` or `http://HOST:PORT/PATH`. The first viewer of a session that \
             does not run here starts a pull, which all its viewers share. The first \
             origin that has the stream is used. See `docs/edges.md`.",
    ),
    flag("origin-tokens", |c| c.core.asks_origin = true)
        .unset("off")
        .help("let the origin admit viewers")
        .more(
            "Needs `--origin`. Without this option a viewer needs a token on this server. The \
             answer of the origin holds for a session until its pull ends.",
        ),
];
