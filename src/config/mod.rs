//! The options: what the server can be told at its start, and the [`Config`] that comes of it.
//!
//! All about an option stands in its row of the table in `options`; what is written there is what
//! the command line, the environment, `--help` and the README's list know. Each part of the server
//! is filled from the fields of its own; nothing here opens, binds or resolves.

mod arguments;
mod help;
mod options;
mod row;
#[cfg(test)]
mod tests;
mod values;

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use crate::gate::{Host, HostName, Subnet};

pub use arguments::{BadArgument, parse};
pub use help::{help, readme_table};

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Run(Config),
    /// Say that the options are good, and exit.
    Check(Config),
    Help,
    Version,
}

/// All options. [`Config::default`] is what an empty command line means; each field's meaning and
/// range stand at its option.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// At least one.
    pub listen: Vec<Listen>,
    pub rtp: Option<Bind>,
    pub gate: GateConfig,
    pub limits: LimitsConfig,
    pub times: TimesConfig,
    pub buffers: BuffersConfig,
    pub operation: OperationConfig,
}

/// Where clients are waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    Tcp(Bind),
    /// A socket in the file system, for a proxy on this host.
    Unix(PathBuf),
}

/// Where a socket is to be bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind {
    pub address: SocketAddr,
    /// Where instead, on a machine without IPv6. Only a default has it: what was asked for is bound
    /// or fails.
    pub without_ipv6: Option<SocketAddr>,
}

/// Who may do what.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GateConfig {
    /// Empty: the token framework is off.
    pub token_servers: Vec<Subnet>,
    /// Empty: the API answers to any name.
    pub hostnames: Vec<HostName>,
    /// Empty: from anywhere.
    pub publish_from: Vec<Subnet>,
    /// Empty: to anywhere.
    pub rtp_to: Vec<Subnet>,
    /// Empty: no connection begins with a PROXY protocol header.
    pub proxies: Vec<Subnet>,
    /// Empty: nobody is believed what it says in a request of whose it is.
    pub forwarders: Vec<Subnet>,
    /// Where the tokens are kept; only with a token server.
    pub token_file: Option<PathBuf>,
}

/// How many, and how large.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimitsConfig {
    /// `None`: what the limit on open files leaves room for.
    pub connections_max: Option<usize>,
    /// `None`: as many as there may be in all.
    pub connections_per_host_max: Option<usize>,
    pub streams_max: usize,
    pub tokens_max: usize,
    pub udp_clients_per_session_max: usize,
    pub head_bytes_max: usize,
    pub head_headers_max: usize,
    pub log_lines_per_second_max: usize,
}

/// How long.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimesConfig {
    pub head_time_max: Duration,
    pub source_idle_time_max: Duration,
    /// Bytes a second, averaged over `source_idle_time_max`; 0 asks for nothing.
    pub body_rate_min: usize,
    pub viewer_stall_time_max: Duration,
    pub keep_alive_time_max: Duration,
    /// For a session to begin.
    pub wait_time: Duration,
    /// For another source to come when one broke.
    pub hold_time: Duration,
    /// For an origin to be found, connected to and heard.
    pub origin_time_max: Duration,
    /// For which a pull outlives its last viewer.
    pub origin_idle_time: Duration,
}

/// What a stream keeps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BuffersConfig {
    pub stream_bytes_max: usize,
    /// All streams together; not below `stream_bytes_max`.
    pub total_bytes_max: usize,
    /// How far behind the live edge a viewer may join; not above `stream_bytes_max`.
    pub join_back_bytes: usize,
    pub join_back_time: Duration,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperationConfig {
    pub log: LogLevel,
    pub access_log: Option<AccessLog>,
    pub close_delimited: bool,
    pub cors: Vec<CorsOrigin>,
    pub takeover: bool,
    pub icecast: bool,
    /// Empty: streams come from this server's own sources only.
    pub origins: Vec<OriginUrl>,
    /// Relays whose lists are this one's, too; each has an address.
    pub peers: Vec<OriginUrl>,
    /// Whether a viewer may have what comes from an origin is the origin's to say; only with an
    /// origin.
    pub origin_tokens: bool,
}

/// Another relay, from which streams are fetched: `http://HOST:PORT/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginUrl {
    pub host: Host,
    pub port: NonZeroU16,
    /// What stands before `/stream/…`: empty, or beginning with a slash and not ending with one.
    pub path: String,
}

impl OriginUrl {
    /// Where it is, unless its name must be looked up.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.host {
            Host::Address { address, .. } => Some(SocketAddr::new(*address, self.port.get())),
            Host::Name(_) => None,
        }
    }
}

impl Display for OriginUrl {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "http://{}:{}{}", self.host, self.port, self.path)
    }
}

/// Where requests are logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessLog {
    Stdout,
    File(PathBuf),
}

impl Display for AccessLog {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            AccessLog::Stdout => formatter.write_str("stdout"),
            AccessLog::File(path) => write!(formatter, "'{}'", path.display()),
        }
    }
}

/// From this level up lines are logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
}

/// Whose pages may read streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorsOrigin {
    Any,
    /// As browsers send it: scheme, host and perhaps port, in lower case.
    Site(String),
}
