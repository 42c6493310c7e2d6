//! The options: what the server can be told at its start, and the [`Config`] that comes of it.
//!
//! All about an option stands in its row of the table in `options`; what is written there is what
//! the command line, the environment, `--help` and `docs/options.md` know. It is written where the
//! core reads it, into its [`Settings`]; nothing here opens, binds or resolves.

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

pub use arguments::{BadArgument, parse};
pub use features::{FEATURES, Feature, compiled_in};
pub use help::{Listed, help, listed};

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Run(Config),
    /// Say that the options are good, and exit.
    Check(Config),
    /// Ask the server that runs with these options whether it does.
    Health(Config),
    Help,
    Version,
}

/// All options. [`Config::default`] is what an empty command line means; each field's meaning and
/// range stand at its option.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// At least one.
    pub listen: Vec<Listen>,
    /// `None`: there is no RTP. Without a token server there is none either.
    pub rtp: Option<Bind>,
    /// How datagrams leave.
    pub outgoing: Outgoing,
    /// Where the tokens are kept; only with a token server.
    pub token_file: Option<PathBuf>,
    /// Where another server may take over from this one, and this one from another.
    pub handover: Option<PathBuf>,
    /// What becomes of what no thread needs.
    pub sandbox: SandboxMode,
    /// `None`: requests are not logged.
    pub access_log: Option<AccessLog>,
    /// The lines of the log are JSON.
    pub logs_json: bool,
    /// Whose pages may watch.
    pub cors: Vec<CorsOrigin>,
    /// `None`: what the limit on open files leaves room for.
    pub connections_max: Option<usize>,
    /// `None`: as many as there may be in all.
    pub connections_per_host_max: Option<usize>,
    /// All that is the core's, as far as options say it: [`Config::settings`] adds the rest.
    pub core: Settings,
}

impl Config {
    /// What the core is told on a machine that has descriptors for `connections_room` clients, at
    /// a time in Unix seconds; with a key that nobody outside can guess.
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

    /// What answers tell browsers: where several sites are named, also that they are not told the
    /// same.
    fn cors_fields(&self) -> Vec<(String, Fields)> {
        let has_several = self.cors.len() > 1;
        let of_origin = |origin: &CorsOrigin| match origin {
            CorsOrigin::Any => ("*".to_owned(), &[("Access-Control-Allow-Origin", "*")][..]),
            CorsOrigin::Site(site) => {
                // As many as there are options, for as long as the server runs.
                let value: &'static str = Box::leak(site.clone().into_boxed_str());
                let mut fields = vec![("Access-Control-Allow-Origin", value)];
                if has_several {
                    fields.extend_from_slice(VARIES);
                }
                (site.clone(), &*Box::leak(fields.into_boxed_slice()))
            }
        };
        self.cors.iter().map(of_origin).collect()
    }
}

/// How datagrams leave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outgoing {
    /// From 1 on: those to groups pass so many routers less one.
    pub hops: u8,
    /// By which those to groups leave; `None`: by that which the routes say.
    pub interface: Option<InterfaceName>,
    /// From 0 to 63.
    pub dscp: u8,
}

/// What becomes of system calls, files, ports and processes that no thread needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxMode {
    /// They are refused.
    On,
    /// They are not, and the kernel's audit log tells of the calls.
    Log,
    Off,
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
    /// Port 0: any that is free.
    pub address: SocketAddr,
    /// Where instead, on a machine without IPv6. Only a default has it: what was asked for is bound
    /// or fails.
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

/// Whose pages may read streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorsOrigin {
    Any,
    /// As browsers send it: scheme, host and perhaps port, in lower case.
    Site(String),
}
