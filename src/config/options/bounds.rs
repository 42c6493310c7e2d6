//! Options that limit clients: their number, their times, and the memory for them.

use super::{GIB, KIB, MANY, MOMENT, put};
use crate::config::row::{Row, count, one, size, time};
use crate::config::values::{self, HOUR};

pub(super) const LIMITS: &[Row] = &[
    one("connections", "N", |c, text| {
        put(
            &mut c.connections_max,
            values::count(text, 1..=MANY).map(Some),
        )
    })
    .unset("by file limit")
    .help("most clients at a time")
    .more(
        "Above it a new client gets 503 with `Retry-After`. Some connections are reserved for \
             the API's hosts.",
    ),
    one("connections-per-host", "N", |c, text| {
        put(
            &mut c.connections_per_host_max,
            values::count(text, 1..=MANY).map(Some),
        )
    })
    .unset("all")
    .help("most clients at a time of one address")
    .more(
        "Above it a new client from that address gets 429. If many come at once, most get no \
             answer. A network of 64 bits (IPv6) has at most 16 times as many. Link-local \
             addresses and translated IPv4 (64:ff9b::/96) count one by one.",
    ),
    count("streams", 1..=MANY, |c| &mut c.core.limits.streams_max)
        .default("1000")
        .help("most streams at a time")
        .more("Above it a source gets 503."),
    count("tokens", 1..=MANY, |c| &mut c.core.limits.tokens.tokens_max)
        .default("100000")
        .help("most tuples in the token table")
        .more("Above it add-token gets 503 and adds nothing."),
    count("udp-clients", 1..=65_536, |c| {
        &mut c.core.limits.tokens.udp_clients_per_session_max
    })
    .default("256")
    .help("most UDP clients of a session")
    .more(
        "Above it add-token gets 503 and adds nothing. If a single call names more, it gets \
             400.",
    ),
    size("head-bytes", KIB..=KIB * KIB, |c| {
        &mut c.core.limits.http.head_bytes_max
    })
    .default("16K")
    .help("largest head of a request")
    .more("A longer target gets 414, a longer head 431."),
    count("head-headers", 8..=1024, |c| {
        &mut c.core.limits.http.head_fields_max
    })
    .default("64")
    .help("most fields of a request's head")
    .more("A head with more gets 431."),
    one("log-lines", "N", |c, text| {
        put(
            &mut c.core.limits.log.lines_per_second_max,
            values::count(text, 1..=1_000_000).map(|lines| lines as u32),
        )
    })
    .default("100")
    .help("most log lines per second")
    .more(
        "Errors, warnings and other lines each have this limit. One host can cause half of them, and \
               all hosts together three quarters. The server counts the lines that it leaves out, \
               and logs their number.",
    ),
];

pub(super) const TIMES: &[Row] = &[
    time("head-time", MOMENT..=HOUR, |c| &mut c.core.limits.head_time)
        .default("10")
        .help("longest time for a request's head")
        .more("After it, the client gets 408 and the connection closes."),
    time("source-idle-time", MOMENT..=HOUR, |c| {
        &mut c.core.limits.source_idle_time
    })
    .default("15")
    .help("end a source that sends nothing")
    .more(
        "Its viewers are disconnected without a clean end of the body, unless `--hold` keeps \
             them.",
    ),
    one("body-rate", "N", |c, text| {
        put(
            &mut c.core.limits.body_bytes_per_second_min,
            values::count(text, 0..=1_000_000_000).map(|bytes| bytes as u64),
        )
    })
    .default("100")
    .help("slowest source, in bytes per second; 0: any")
    .more(
        "A source below it ends, like one that sends nothing. The rate is the average over \
             `--source-idle-time`.",
    ),
    time("viewer-stall-time", MOMENT..=HOUR, |c| {
        &mut c.core.limits.viewer_stall_time
    })
    .default("30")
    .help("disconnect a viewer that reads nothing")
    .more("A viewer that is merely slow stays connected, and skips."),
    time("keep-alive-time", MOMENT..=HOUR, |c| {
        &mut c.core.limits.keep_alive_time
    })
    .default("30")
    .help("close an idle connection"),
    time("wait", 0.0..=HOUR, |c| &mut c.core.limits.wait_time)
        .default("0")
        .help("how long a viewer waits for its stream")
        .more(
            "If the viewer may watch and the source is not there yet, the request waits. After \
             this time, the viewer gets 404.",
        ),
    time("bundle", 0.0..=1.0, |c| &mut c.core.limits.bundle_time)
        .default("20ms")
        .help("longest wait of small pieces; 0: none")
        .more(
            "Small pieces of a stream wait for each other, which saves processor time. The wait \
             is 16 µs for each viewer, up to this time, and up to five times this time for sound \
             alone. 16 KiB go out at once. See `docs/operating.md`.",
        ),
    #[cfg(feature = "hls")]
    time("hls-segment", 1.0..=60.0, |c| {
        &mut c.core.limits.hls_segment_time
    })
    .default("2")
    .help("shortest segment of HLS")
    .more(
        "A segment ends at the first key frame after this time. Players begin three segments \
             behind live.",
    ),
    #[cfg(feature = "hold")]
    time("hold", 0.0..=HOUR, |c| &mut c.core.limits.hold_time)
        .default("0")
        .help("keep viewers after their source breaks")
        .more(
            "If the source comes back within this time, its viewers continue at its first join \
             point. See `docs/hold.md`.",
        ),
    time("origin-time", MOMENT..=HOUR, |c| {
        &mut c.core.limits.origin_time
    })
    .default("10")
    .help("longest time for an origin to answer")
    .more(
        "This includes the look-up of its name and the connection. Then the server asks the \
             next origin. When none is left, viewers get 504.",
    ),
    time("origin-idle", 0.0..=HOUR, |c| {
        &mut c.core.limits.origin_idle_time
    })
    .default("10")
    .help("end a pull after its last viewer left")
    .more("UDP clients do not count as viewers here."),
];

pub(super) const BUFFERS: &[Row] = &[
    size("buffer", 64 * KIB..=64 * GIB, |c| {
        &mut c.core.limits.stream.buffer_bytes
    })
    .default("8M")
    .help("media that a stream keeps for its viewers")
    .more(
        "A whole group of pictures should fit. A viewer that falls out of it skips to the \
             newest join point. The memory is allocated as the buffer fills.",
    ),
    size("buffers", 64 * KIB..=KIB * GIB, |c| {
        &mut c.core.limits.buffers_bytes_max
    })
    .default("1G")
    .help("media that all streams keep together")
    .more(
        "Above it each stream keeps less than `--buffer`, but at least 16 KiB. Must be at \
             least `--buffer`.",
    ),
    one("join-back-bytes", "SIZE", |c, text| {
        put(
            &mut c.core.limits.stream.join_back_bytes,
            values::size(text, 0..=64 * GIB).map(|bytes| bytes as u64),
        )
    })
    .default("0")
    .help("viewers start at least this far back")
    .more(
        "They start at the join point before that, so that a player's buffer fills at once. \
             At most `--buffer`.",
    ),
    time("join-back-time", 0.0..=HOUR, |c| {
        &mut c.core.limits.stream.join_back_time
    })
    .default("0")
    .help("viewers start at least this long ago")
    .more("They start at the join point before that, at most as far back as the buffer reaches."),
];
