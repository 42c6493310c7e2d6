//! The options that bound what clients may take up: how many there are, how long they may take, and
//! how much is kept for them.

use super::{GIB, KIB, MANY, MOMENT, put};
use crate::config::row::{Fallback, Group, Row, Takes};
use crate::config::values::{self, HOUR};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "connections",
        takes: Takes::One("N", |config, text| {
            put(
                &mut config.connections_max,
                values::count(text, 1..=MANY).map(Some),
            )
        }),
        group: Group::Limits,
        fallback: Fallback::Shown("by file limit"),
        help: "clients at once",
        more: "Past it a newcomer gets 503 with `Retry-After`. Some are kept back for the API's \
               hosts.",
    },
    Row {
        name: "connections-per-host",
        takes: Takes::One("N", |config, text| {
            put(
                &mut config.connections_per_host_max,
                values::count(text, 1..=MANY).map(Some),
            )
        }),
        group: Group::Limits,
        fallback: Fallback::Shown("all"),
        help: "clients at once of one address",
        more: "Past it a newcomer from there gets 429, and of more than a few no answer. By IPv6 a \
               network of 64 bits has no more than 16 times as many.",
    },
    Row {
        name: "streams",
        takes: Takes::One("N", |config, text| {
            put(
                &mut config.core.limits.streams_max,
                values::count(text, 1..=MANY),
            )
        }),
        group: Group::Limits,
        fallback: Fallback::Value("1000"),
        help: "streams at once",
        more: "Past it a source gets 503.",
    },
    Row {
        name: "tokens",
        takes: Takes::One("N", |config, text| {
            put(
                &mut config.core.limits.tokens.tokens_max,
                values::count(text, 1..=MANY),
            )
        }),
        group: Group::Limits,
        fallback: Fallback::Value("100000"),
        help: "tuples in the token table",
        more: "Past it add-token gets 503 and adds nothing.",
    },
    Row {
        name: "udp-clients",
        takes: Takes::One("N", |config, text| {
            put(
                &mut config.core.limits.tokens.udp_clients_per_session_max,
                values::count(text, 1..=65_536),
            )
        }),
        group: Group::Limits,
        fallback: Fallback::Value("256"),
        help: "UDP clients of a session",
        more: "Past it add-token gets 503 and adds nothing; a longer `udp-clients` list gets 400.",
    },
    Row {
        name: "head-bytes",
        takes: Takes::One("SIZE", |config, text| {
            put(
                &mut config.core.limits.http.head_bytes_max,
                values::size(text, KIB..=KIB * KIB),
            )
        }),
        group: Group::Limits,
        fallback: Fallback::Value("16K"),
        help: "length of a request's head",
        more: "A longer target gets 414, a longer head 431.",
    },
    Row {
        name: "head-headers",
        takes: Takes::One("N", |config, text| {
            put(
                &mut config.core.limits.http.head_fields_max,
                values::count(text, 8..=1024),
            )
        }),
        group: Group::Limits,
        fallback: Fallback::Value("64"),
        help: "fields of a request's head",
        more: "More get 431.",
    },
    Row {
        name: "log-lines",
        takes: Takes::One("N", |config, text| {
            put(
                &mut config.core.limits.report.lines_per_second_max,
                values::count(text, 1..=1_000_000).map(|lines| lines as u32),
            )
        }),
        group: Group::Limits,
        fallback: Fallback::Value("100"),
        help: "log lines a second",
        more: "Of errors, of warnings and of all else: so many of each. What is left out is counted, \
               and the count logged.",
    },
    Row {
        name: "head-time",
        takes: Takes::One("TIME", |config, text| {
            put(
                &mut config.core.limits.head_time,
                values::time(text, MOMENT..=HOUR),
            )
        }),
        group: Group::Times,
        fallback: Fallback::Value("10"),
        help: "to send a request's head",
        more: "Then 408, and the connection is closed.",
    },
    Row {
        name: "source-idle-time",
        takes: Takes::One("TIME", |config, text| {
            put(
                &mut config.core.limits.source_idle_time,
                values::time(text, MOMENT..=HOUR),
            )
        }),
        group: Group::Times,
        fallback: Fallback::Value("15"),
        help: "a source that sends nothing is lost after",
        more: "Its viewers' connections are closed without a clean end.",
    },
    Row {
        name: "body-rate",
        takes: Takes::One("N", |config, text| {
            put(
                &mut config.core.limits.body_bytes_per_second_min,
                values::count(text, 0..=1_000_000_000).map(|bytes| bytes as u64),
            )
        }),
        group: Group::Times,
        fallback: Fallback::Value("100"),
        help: "slowest source, in bytes a second; 0: any",
        more: "Averaged over `--source-idle-time`. A source below it is lost, as one that sends \
               nothing.",
    },
    Row {
        name: "viewer-stall-time",
        takes: Takes::One("TIME", |config, text| {
            put(
                &mut config.core.limits.viewer_stall_time,
                values::time(text, MOMENT..=HOUR),
            )
        }),
        group: Group::Times,
        fallback: Fallback::Value("30"),
        help: "a viewer that takes nothing is cut after",
        more: "A slow viewer is not cut: it skips.",
    },
    Row {
        name: "keep-alive-time",
        takes: Takes::One("TIME", |config, text| {
            put(
                &mut config.core.limits.keep_alive_time,
                values::time(text, MOMENT..=HOUR),
            )
        }),
        group: Group::Times,
        fallback: Fallback::Value("30"),
        help: "an idle connection is closed after",
        more: "",
    },
    Row {
        name: "wait",
        takes: Takes::One("TIME", |config, text| {
            put(
                &mut config.core.limits.wait_time,
                values::time(text, 0.0..=HOUR),
            )
        }),
        group: Group::Times,
        fallback: Fallback::Value("0"),
        help: "a viewer who is early is kept waiting",
        more: "If its session may stream and does not yet. Then it gets its 404.",
    },
    #[cfg(feature = "hls")]
    Row {
        name: "hls-segment",
        takes: Takes::One("TIME", |config, text| {
            put(
                &mut config.core.limits.hls_segment_time,
                values::time(text, 1.0..=60.0),
            )
        }),
        group: Group::Times,
        fallback: Fallback::Value("2"),
        help: "a segment of HLS lasts at least",
        more: "It ends at the next key frame. Players begin three segments behind live.",
    },
    #[cfg(feature = "hold")]
    Row {
        name: "hold",
        takes: Takes::One("TIME", |config, text| {
            put(
                &mut config.core.limits.hold_time,
                values::time(text, 0.0..=HOUR),
            )
        }),
        group: Group::Times,
        fallback: Fallback::Value("0"),
        help: "viewers outlive a source that broke by",
        more: "A source that comes back meanwhile goes on at its first join point.",
    },
    Row {
        name: "origin-time",
        takes: Takes::One("TIME", |config, text| {
            put(
                &mut config.core.limits.origin_time,
                values::time(text, MOMENT..=HOUR),
            )
        }),
        group: Group::Times,
        fallback: Fallback::Value("10"),
        help: "for an origin to answer",
        more: "Found, connected to and heard; then the next one is asked. With none left viewers \
               get 504.",
    },
    Row {
        name: "origin-idle",
        takes: Takes::One("TIME", |config, text| {
            put(
                &mut config.core.limits.origin_idle_time,
                values::time(text, 0.0..=HOUR),
            )
        }),
        group: Group::Times,
        fallback: Fallback::Value("10"),
        help: "a pull without viewers is ended after",
        more: "UDP clients do not keep it.",
    },
    Row {
        name: "buffer",
        takes: Takes::One("SIZE", |config, text| {
            put(
                &mut config.core.limits.stream.buffer_bytes,
                values::size(text, 64 * KIB..=64 * GIB),
            )
        }),
        group: Group::Buffers,
        fallback: Fallback::Value("8M"),
        help: "what a stream keeps for its viewers",
        more: "A whole group of pictures should fit. A viewer that falls out of it skips to the \
               newest join point. Allocated as it fills.",
    },
    Row {
        name: "buffers",
        takes: Takes::One("SIZE", |config, text| {
            put(
                &mut config.core.limits.buffers_bytes_max,
                values::size(text, 64 * KIB..=KIB * GIB),
            )
        }),
        group: Group::Buffers,
        fallback: Fallback::Value("1G"),
        help: "what all streams keep together",
        more: "Past it a stream keeps less than `--buffer`, at least 128 KiB. Not below `--buffer`.",
    },
    Row {
        name: "join-back-bytes",
        takes: Takes::One("SIZE", |config, text| {
            put(
                &mut config.core.limits.stream.join_back_bytes,
                values::size(text, 0..=64 * GIB).map(|bytes| bytes as u64),
            )
        }),
        group: Group::Buffers,
        fallback: Fallback::Value("0"),
        help: "viewers begin at least so far back",
        more: "At the join point before that, so that a player's buffer fills at once. Not above \
               `--buffer`.",
    },
    Row {
        name: "join-back-time",
        takes: Takes::One("TIME", |config, text| {
            put(
                &mut config.core.limits.stream.join_back_time,
                values::time(text, 0.0..=HOUR),
            )
        }),
        group: Group::Buffers,
        fallback: Fallback::Value("0"),
        help: "viewers begin at least so long ago",
        more: "As far as the buffer reaches back.",
    },
];
