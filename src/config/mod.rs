//! The options, and the [`Config`] that they give.
//!
//! Each option is one row of the table in `options`. Command line, environment, `--help` and
//! `docs/options.md` are made from it. Values are stored where the core reads them, in its
//! [`Settings`]. Nothing here opens or binds sockets, or resolves names.

mod arguments;
mod features;
mod help;
mod options;
mod row;
#[cfg(test)]
mod tests;
mod values;

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::gate::InterfaceName;
use crate::relay::{Fields, Limits, Settings, VARIES};

pub use arguments::parse;
pub use features::{FEATURES, Feature, compiled_in};
pub use help::help;
pub use options::{GROUPS, options};
pub use row::{Group, Row};

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Run(Config),
    /// Check the options, and exit.
    Check(Config),
    /// Check that the server with these options runs.
    Health(Config),
    Help,
    Version,
}

/// The values of all options. [`Config::default`] is an empty command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Addresses for HTTP; at least one.
    pub listen: Vec<Listen>,
    /// Address for RTP; `None`: no RTP. RTP also needs a token server.
    pub rtp: Option<Bind>,
    /// Address for RTMP; `None`: no RTMP.
    pub rtmp: Option<Bind>,
    /// How datagrams are sent.
    pub outgoing: Outgoing,
    /// File for the tokens; it needs a token server.
    pub token_file: Option<PathBuf>,
    /// Path at which this server takes over from another one, and another one from this one.
    pub handover: Option<PathBuf>,
    /// What happens to system calls that no thread needs.
    pub sandbox: SandboxMode,
    /// Where requests are logged; `None`: nowhere.
    pub access_log: Option<AccessLog>,
    /// Whether log lines are JSON.
    pub logs_json: bool,
    /// Sites whose pages may watch.
    pub cors: Vec<CorsOrigin>,
    /// `None`: as many as the limit on open files allows.
    pub connections_max: Option<usize>,
    /// `None`: all connections.
    pub connections_per_host_max: Option<usize>,
    /// The core's settings, as far as they are options. [`Config::settings`] adds the rest.
    pub core: Settings,
}

impl Config {
    /// Returns the core's settings on a machine with file descriptors for `connections_room`
    /// clients. `random_key` must be secret.
    pub fn settings(
        &self,
        connections_room: usize,
        started_unix_seconds: u64,
        random_key: u128,
    ) -> Settings {
        let connections_max = self.connections_max.unwrap_or(usize::MAX);
        let connections_max = connections_max.min(connections_room);
        let per_host_max = self.connections_per_host_max.unwrap_or(connections_max);
        Settings {
            cors: self.cors_fields(),
            has_access_log: self.access_log.is_some(),
            takes_rtmp: self.rtmp.is_some(),
            limits: Limits {
                connections_max,
                connections_per_host_max: per_host_max,
                ..self.core.limits
            },
            random_key,
            started_unix_seconds,
            ..self.core.clone()
        }
    }

    /// Returns the CORS fields for each site. If there are several sites, also the field that keeps
    /// caches from mixing them.
    fn cors_fields(&self) -> Vec<(String, Fields)> {
        let has_several = self.cors.len() > 1;
        let of_origin = |origin: &CorsOrigin| {
            let site = match origin {
                CorsOrigin::Any => "*",
                CorsOrigin::Site(site) => site,
            };
            // One for each `--cors` option, for the whole run.
            let value: &'static str = Box::leak(site.to_owned().into_boxed_str());
            let mut fields = vec![("Access-Control-Allow-Origin", value)];
            if self.core.admits_icecast {
                fields.push(("Access-Control-Expose-Headers", ICY_FIELDS));
            }
            if has_several && *origin != CorsOrigin::Any {
                fields.extend_from_slice(VARIES);
            }
            (site.to_owned(), &*Box::leak(fields.into_boxed_slice()))
        };
        self.cors.iter().map(of_origin).collect()
    }
}

/// How datagrams are sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outgoing {
    /// TTL of datagrams to groups; at least 1.
    pub hops: u8,
    /// Interface of datagrams to groups; `None`: the routing table chooses.
    pub interface: Option<InterfaceName>,
    /// 0 to 63.
    pub dscp: u8,
}

/// What happens to system calls, files, ports and processes that no thread needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxMode {
    /// The kernel refuses them.
    On,
    /// The kernel allows them, and its audit log lists the calls.
    Log,
    Off,
}

/// Where the server accepts clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    Tcp(Bind),
    /// A socket in the file system, for a proxy on this host.
    Unix(PathBuf),
}

/// An address to bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind {
    /// Port 0: any free port.
    pub address: SocketAddr,
    /// Address to bind on a machine without IPv6. Only defaults have one: an address that the
    /// operator gives is bound, or is an error.
    pub without_ipv6: Option<SocketAddr>,
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

/// Fields of a stream with titles that pages of other sites may read.
const ICY_FIELDS: &str = "icy-metaint, icy-name, icy-genre, icy-url, icy-br, icy-description";

/// Sites whose pages may read streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorsOrigin {
    Any,
    /// As browsers send it: scheme, host and perhaps port, in lower case.
    Site(String),
}
