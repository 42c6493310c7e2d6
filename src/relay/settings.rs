//! What the operator chose, as the core needs it: each part's bounds, filled from the options.

use std::time::Duration;

use super::{Level, Peer, ReportLimits};
use crate::config::{Config, CorsOrigin, LogLevel, OriginUrl};
use crate::gate::Subnet;
use crate::{gate, http, stream};

/// What the operator chose.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The subnets that may call the API. None: the token framework is off.
    pub token_servers: Vec<Subnet>,
    /// Proxies whose connections begin with a PROXY protocol header.
    pub proxies: Vec<Subnet>,
    /// Proxies that say in each request's fields whose it is.
    pub forwarders: Vec<Subnet>,
    /// Names under which the API may be called, besides addresses and `localhost`.
    pub hostnames: Vec<String>,
    /// Where sources may come from. None: from anywhere.
    pub publish_from: Vec<Subnet>,
    /// Where UDP clients may be. None: anywhere.
    pub rtp_to: Vec<Subnet>,
    /// Whose pages may watch: the origin (or `*`), and the fields that say so.
    pub cors: Vec<(String, Fields)>,
    /// Viewers' bodies end with the connection.
    pub is_close_delimited: bool,
    /// Sources may come as Icecast's do.
    pub admits_icecast: bool,
    /// Requests are logged.
    pub has_access_log: bool,
    /// A second source replaces the first.
    pub takes_over: bool,
    /// The relays from which streams are fetched that do not run here.
    pub origins: Vec<OriginUrl>,
    /// Relays whose lists are this one's, too.
    pub peers: Vec<Peer>,
    /// Who may watch what is fetched, they say.
    pub asks_origin: bool,
    /// The bounds.
    pub limits: Limits,
    /// The key of all that is drawn: names, nonces, source identifiers, first sequence numbers.
    pub random_key: u128,
    /// Seconds since 1970 at [`Moment::START`].
    pub started_unix_seconds: u64,
}

/// The bounds of the core; each part below it has its own.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections that are served at once. A few more are let in to be refused, or to call the
    /// API.
    pub connections_max: usize,
    /// Connections from one address.
    pub connections_per_host_max: usize,
    /// Streams that run at once.
    pub streams_max: usize,
    /// Bytes that the buffers of all streams may take together.
    pub buffers_bytes_max: usize,
    /// How long a request's head, or the payload of an API call, may take.
    pub head_time: Duration,
    /// How long a connection is kept between requests.
    pub keep_alive_time: Duration,
    /// How long a source may be silent.
    pub source_idle_time: Duration,
    /// Bytes a second that a source must reach, on the average over `source_idle_time`.
    pub body_bytes_per_second_min: u64,
    /// How long a viewer waits for a session that does not run yet.
    pub wait_time: Duration,
    /// How long an origin may take to be found, connected to and heard.
    pub origin_time: Duration,
    /// How long a pull outlives its last viewer.
    pub origin_idle_time: Duration,
    /// How long a stream that has lost its source waits for another.
    pub hold_time: Duration,
    /// How long a client may take nothing of what is sent to it.
    pub viewer_stall_time: Duration,
    /// Request heads.
    pub http: http::Limits,
    /// Each stream.
    pub stream: stream::Limits,
    /// The token table.
    pub tokens: gate::Limits,
    /// The log.
    pub report: ReportLimits,
}

impl Settings {
    /// The options of `config`, on a machine that has descriptors for `connections_room` clients,
    /// at a time in Unix seconds; with a key that nobody outside can guess.
    pub fn from_config(
        config: &Config,
        connections_room: usize,
        started_unix_seconds: u64,
        random_key: u128,
    ) -> Settings {
        let hostnames = config.gate.hostnames.iter();
        Settings {
            token_servers: config.gate.token_servers.clone(),
            proxies: config.gate.proxies.clone(),
            forwarders: config.gate.forwarders.clone(),
            hostnames: hostnames.map(|name| name.as_str().to_owned()).collect(),
            publish_from: config.gate.publish_from.clone(),
            rtp_to: config.gate.rtp_to.clone(),
            cors: config.operation.cors.iter().map(cors_fields).collect(),
            is_close_delimited: config.operation.close_delimited,
            admits_icecast: config.operation.icecast,
            has_access_log: config.operation.access_log.is_some(),
            takes_over: config.operation.takeover,
            origins: config.operation.origins.clone(),
            peers: config
                .operation
                .peers
                .iter()
                .filter_map(Peer::new)
                .collect(),
            asks_origin: config.operation.origin_tokens,
            limits: Limits::from_config(config, connections_room),
            random_key,
            started_unix_seconds,
        }
    }
}

/// Fields of a response head that are made once, at the start.
pub type Fields = &'static [(&'static str, &'static str)];

fn cors_fields(origin: &CorsOrigin) -> (String, Fields) {
    match origin {
        CorsOrigin::Any => ("*".to_owned(), &[("Access-Control-Allow-Origin", "*")]),
        CorsOrigin::Site(site) => {
            // As many as there are options, for as long as the server runs.
            let value: &'static str = Box::leak(site.clone().into_boxed_str());
            let fields = vec![("Access-Control-Allow-Origin", value), ("Vary", "Origin")];
            (site.clone(), Box::leak(fields.into_boxed_slice()))
        }
    }
}

impl Limits {
    fn from_config(config: &Config, connections_room: usize) -> Limits {
        let (limits, times, buffers) = (&config.limits, &config.times, &config.buffers);
        let connections_max = limits
            .connections_max
            .unwrap_or(usize::MAX)
            .min(connections_room);
        Limits {
            connections_max,
            connections_per_host_max: limits.connections_per_host_max.unwrap_or(connections_max),
            streams_max: limits.streams_max,
            buffers_bytes_max: buffers.total_bytes_max,
            head_time: times.head_time_max,
            keep_alive_time: times.keep_alive_time_max,
            source_idle_time: times.source_idle_time_max,
            body_bytes_per_second_min: times.body_rate_min as u64,
            wait_time: times.wait_time,
            origin_time: times.origin_time_max,
            origin_idle_time: times.origin_idle_time,
            hold_time: times.hold_time,
            viewer_stall_time: times.viewer_stall_time_max,
            http: http::Limits {
                head_bytes_max: limits.head_bytes_max,
                head_fields_max: limits.head_headers_max,
            },
            stream: stream::Limits {
                buffer_bytes: buffers.stream_bytes_max,
                join_back_bytes: buffers.join_back_bytes as u64,
                join_back_time: buffers.join_back_time,
            },
            tokens: gate::Limits {
                tokens_max: limits.tokens_max,
                udp_clients_per_session_max: limits.udp_clients_per_session_max,
            },
            report: ReportLimits {
                lines_per_second_max: u32::try_from(limits.log_lines_per_second_max)
                    .unwrap_or(u32::MAX),
                level: match config.operation.log {
                    LogLevel::Error => Level::Error,
                    LogLevel::Warn => Level::Warn,
                    LogLevel::Info => Level::Info,
                    LogLevel::Debug => Level::Debug,
                },
            },
        }
    }
}
