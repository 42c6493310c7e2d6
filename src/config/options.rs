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

/// Returns all addresses of IPv6 and IPv4; without IPv6, all of IPv4.
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
pub const GROUPS: [Group; 6] = [
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
pub fn options() -> impl Iterator<Item = &'static Row> + Clone {
    GROUPS.into_iter().flat_map(|group| group.rows)
}

const MAIN: &[Row] = &[
    many("token-server", "ADDR/MASK", |c, text| {
        push(&mut c.core.token_servers, text.parse())
    })
    .unset("off")
    .help("require tokens; this subnet may call the API")
    .more(
        "A host of this subnet adds a token for each session. Without this option anyone may \
             publish and watch, there is neither RTP nor UDP, and the API only lists streams and \
             viewers, for this host. An ADDR without MASK is one host; 127.0.0.1 and ::1 are the \
             same host. MASK is a prefix length (`10.0.0.0/8`, `fd00::/8`) or a dotted mask \
             (`10.0.0.0/255.0.0.0`).",
    ),
    many("listen", "ADDR:PORT", |c, text| {
        push(&mut c.listen, values::listen(text))
    })
    .computed("[::]:8000", |c| {
        c.listen = vec![Listen::Tcp(everywhere(HTTP_PORT))]
    })
    .help("listen for HTTP here")
    .more(
        "The default takes IPv4 and IPv6 on every interface; without IPv6 it is \
             `0.0.0.0:8000`. Port 0 picks a free port. `unix:PATH` is a socket in the file \
             system, for a proxy on this host. Its clients count as 127.0.0.1, so the permissions \
             of its folder decide about access.",
    ),
    one("rtp", "ADDR:PORT", |c, text| {
        put(&mut c.rtp, values::rtp(text))
    })
    .computed("[::]:5004", |c| c.rtp = Some(everywhere(RTP_PORT)))
    .help("send and receive RTP here, or off")
    .more(
        "The server opens this port only with `--token-server`, since RTP and UDP need \
             tokens. Without IPv6 the default is `0.0.0.0:5004`.",
    ),
    #[cfg(feature = "rtmp")]
    one("rtmp", "ADDR:PORT", |c, text| {
        put(&mut c.rtmp, values::rtmp(text))
    })
    .unset("off")
    .help("take sources by RTMP here")
    .more(
        "The usual port is 1935. OBS and ffmpeg send to `rtmp://HOST/live/SESSIONID`. Viewers \
             get the stream over HTTP and HLS, not by RTMP. For `rtmps`, put a proxy with TLS in \
             front.",
    ),
    many("join", "GROUP[@SRC][%NIC]", |c, text| {
        push(&mut c.core.joins, values::join(text))
    })
    .unset("none")
    .help("receive this multicast group")
    .more(
        "Its datagrams arrive at the port of `--rtp`. They are the source of the session \
             whose token names the group. NIC is the network interface. With SRC, only datagrams \
             of that host count (source-specific multicast, IGMPv3 and MLDv2). Needs \
             `--token-server`.",
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
        "With 1, datagrams stay in the network of this host. Each router lowers the TTL by \
             one, and drops a datagram whose TTL is 0. NIC is the network interface. Without it, \
             the routing table decides.",
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
        "34 (AF41) is usual for video. Routers that are set up for it forward marked \
             datagrams first.",
    ),
    command("check", OtherCommand::Check)
        .help("check the options, and exit")
        .more("Exit status 0 or 2."),
    command("health", OtherCommand::Health)
        .help("check that the server here runs, and exit")
        .more(
            "For the health check of a container. It connects to the first `--listen`, so give \
             that option as the server has it. Exit status 0 or 1.",
        ),
    command("help", OtherCommand::Help).help("print this, and exit"),
    #[cfg(feature = "handover")]
    one("handover", "unix:PATH", |c, text| {
        put(&mut c.handover, values::unix(text).map(Some))
    })
    .unset("off")
    .help("take over from the server at this path")
    .more(
        "Sockets, streams, tokens, requests and responses move to this server, and the old \
             server exits. Only publishers by RTMP have to connect again. Then this server waits \
             at the path for its own successor. Both servers must run as the same user. \
             `docs/handover.md` names the options that may differ.",
    ),
    command("version", OtherCommand::Version).help("print the version, and exit"),
];

const GATE: &[Row] = &[
    #[cfg(feature = "token-file")]
    one("token-file", "PATH", |c, text| {
        put(&mut c.token_file, values::path(text).map(Some))
    })
    .unset("none")
    .help("keep the tokens in this file")
    .more(
        "Tokens then survive a restart and a crash. add-token and revoke-token answer when \
             the change is on disk, and 507 if the file cannot be written. Needs \
             `--token-server`.",
    ),
    many("hostname", "NAME", |c, text| {
        push(&mut c.core.hostnames, values::hostname(text))
    })
    .unset("off")
    .help("answer API calls under this name, too")
    .more(
        "A proxy that passes on its public name needs this option. Addresses, `localhost` and \
             the name of this machine always work. With any other Host, the API, the page and the \
             metrics answer 403. This stops websites whose name points at this server (DNS \
             rebinding). See `docs/proxies.md`.",
    ),
    one("public-url", "URL", |c, text| {
        put(&mut c.core.public_url, values::public_url(text))
    })
    .unset("none")
    .help("address of this server in the pages' links")
    .more(
        "Such as `https://live.example` or `https://example.org/live`. Links, QR codes, \
             playlists for radios and addresses for players begin with it. Without it, they begin \
             with the address by which the client reached the server. It opens nothing: a proxy's name also needs \
             `--hostname`.",
    ),
    subnets("publish-from", |c| &mut c.core.publish_from)
        .unset("off")
        .help("take streams from this subnet only")
        .more(
            "PUT and POST from other addresses get 403, and their RTP is dropped. With \
             `--token-server`, sources need a token as well.",
        ),
    subnets("metrics-from", |c| &mut c.core.metrics_from)
        .unset("off")
        .help("let hosts in this subnet read `/metrics`")
        .more(
            "It gives access to nothing else, and also works without `--token-server`. Hosts that \
             may call the API can always read `/metrics`. Name each proxy on this host with \
             `--forwarded-from` or `--proxy-protocol`. Otherwise its clients count as this host, \
             except for requests with a field that `--forwarded-from` reads.",
        ),
    subnets("rtp-to", |c| &mut c.core.rtp_to)
        .unset("off")
        .help("allow UDP clients in this subnet only")
        .more(
            "add-token answers 403 for any other client, so nobody can direct a stream at a \
             stranger. Sending to a multicast group needs this option, with a subnet that \
             contains the group. Names are resolved before the check. A token may always name a \
             group of `--join`, at the port of `--rtp`, as its source.",
        ),
    subnets("proxy-protocol", |c| &mut c.core.proxies)
        .unset("off")
        .help("read client addresses from PROXY headers")
        .more(
            "Name the proxy's address. Its connections must then begin with a PROXY protocol \
             header, version 1 or 2. All checks, limits and logs use the address in it. From any \
             other address such a header is a bad request. See `docs/proxies.md`.",
        ),
    subnets("forwarded-from", |c| &mut c.core.forwarders)
        .unset("off")
        .help("read client addresses from HTTP fields")
        .more(
            "Name the address of a proxy that speaks only HTTP. Its `Forwarded` and \
             `X-Forwarded-For` are read from the right, up to the first address that belongs to \
             no proxy. From any other address the server ignores them, but such a request loses \
             the rights of the address that it comes from: the API, `/metrics`, `--publish-from`.",
        ),
];

const OPERATION: &[Row] = &[
    one("log", "LEVEL", |c, text| {
        put(&mut c.core.limits.log.level, values::log_level(text))
    })
    .default("info")
    .help("error, warn, info or debug")
    .more(
        "One line per event on stderr. A line begins with the time, except in the journal of \
             systemd.",
    ),
    one("log-format", "FORMAT", |c, text| {
        put(&mut c.logs_json, values::log_format(text))
    })
    .default("text")
    .help("format of log lines: text or json")
    .more(
        "Text is `key=value`. JSON is one object per line, with the same keys. Lines that are \
             no events, such as the listening address, have only a `message`.",
    ),
    one("access-log", "PATH", |c, text| {
        put(&mut c.access_log, values::access_log(text).map(Some))
    })
    .unset("off")
    .help("append a line per request; - is stdout")
    .more(
        "The format is the combined log format. The line of a publisher or viewer is written \
             when it leaves. Session ids appear as digests. SIGHUP opens the file again. The path \
             may be a FIFO: the server drops lines that its reader does not take, and the log \
             counts them.",
    ),
    flag("close-delimited", |c| c.core.is_close_delimited = true)
        .unset("off")
        .help("end bodies by closing, not in chunks")
        .more(
            "For radio receivers that cannot read chunks. A viewer then cannot tell a lost source \
             from the end of the stream.",
        ),
    many("cors", "ORIGIN", |c, text| {
        push(&mut c.cors, values::cors_origin(text))
    })
    .unset("none")
    .help("let pages of this site watch; * is any site")
    .more(
        "Such as `https://example.org`. It applies to GET of streams, never to the API. A \
             site that is named may also publish by POST. With `*`, no other site may publish.",
    ),
    #[cfg(feature = "sandbox")]
    one("sandbox", "on/log/off", |c, text| {
        put(&mut c.sandbox, values::sandbox(text))
    })
    .default("on")
    .help("give up system calls that are not needed")
    .more(
        "Once the server runs, each thread gives up the system calls, files, TCP ports and \
             other processes that it does not need. A log line says what this kernel supports \
             (seccomp, Landlock). `log` refuses nothing: the audit log of the kernel lists the \
             calls that `on` would refuse. See `docs/sandbox.md`.",
    ),
    #[cfg(feature = "hls")]
    one("hls", "on/off", |c, text| {
        put(&mut c.core.serves_hls, values::switch(text))
    })
    .default("on")
    .help("serve streams as HLS, too")
    .more(
        "At `/stream/ID/index.m3u8`, for MPEG-TS, fragmented MP4, MP3 and AAC, and with \
             `--remux` for FLV and Matroska. Viewers need the same rights as for the stream.",
    ),
    #[cfg(feature = "remux")]
    one("remux", "on/off", |c, text| {
        put(&mut c.core.remuxes, values::switch(text))
    })
    .default("on")
    .help("serve streams in other containers, too")
    .more(
        "At `/stream/ID/live.ts` and `/stream/ID/live.mp4`, while a client asks for it, from \
             FLV, Matroska, fragmented MP4 and MPEG-TS. `/stream/ID/poster.mp4` is the newest key \
             frame. Each container takes one more `--buffer`.",
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
             credentials. The body ends with the connection. A source that comes through a proxy gets \
             411, since a proxy could take such a body for the request of another client. `SOURCE` \
             may also be ICE/1.0 with lines that end with LF alone.",
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
        "`http://ADDR:PORT`. `list-tokens`, `list-streams` and `list-viewers` then also have \
             the rows of all peers. The token subnet of each peer must include this host. The \
             field `Tollgate-Missing` names each peer that does not answer within 2 s, and each \
             whose list is above 16 MiB or has a row above 2 MiB.",
    ),
    many("origin", "URL", |c, text| {
        push(&mut c.core.origins, values::origin(text))
    })
    .unset("none")
    .help("fetch streams from the relay at URL")
    .more(
        "`http://HOST:PORT` or `http://HOST:PORT/PATH`. The first viewer of a session that \
             does not run here starts a pull, which all its viewers share. With several origins, \
             the first one that has the stream is used. See `docs/edges.md`.",
    ),
    flag("origin-tokens", |c| c.core.asks_origin = true)
        .unset("off")
        .help("let the origin admit viewers")
        .more(
            "Needs `--origin`. Without this option, a server with `--token-server` asks for a token of its own. The \
             answer of the origin holds for a session until its pull ends.",
        ),
];
