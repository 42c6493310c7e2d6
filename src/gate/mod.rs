//! The gate: who may stream, who may watch, and where datagrams may go.
//!
//! Plain data and functions: the session's name ([`session_id`]), the `udp-clients` list of a
//! request ([`udp_clients`], whose hosts are [`host`]s) and how they get a stream ([`Transport`]),
//! the groups that are listened to ([`Join`]), the table of tokens ([`tokens`]), what they grant
//! ([`grant`]), the subnets that callers are measured against ([`subnet`]), and the changes of the
//! table ([`record`]), with the bytes that outlive it (`journal`). Nothing here knows a socket, a
//! clock, a file or HTTP; names are resolved elsewhere and come back as addresses.

mod blocks;
pub mod grant;
pub mod host;
mod join;
#[cfg(feature = "token-file")]
pub mod journal;
pub mod limits;
pub mod quoted;
pub mod record;
pub mod session_id;
pub mod subnet;
pub mod tokens;
mod transport;
pub mod tuple;
pub mod udp_clients;

pub use blocks::{BLOCKS_MAX, Blocks};
pub use grant::{Denied, Direction, Grant, GrantChange, Note, Terms};
pub use host::{Host, HostName};
pub use join::{InterfaceName, Join};
pub use limits::{Limits, MATRICES_MAX};
pub use quoted::Quoted;
pub use record::{Entry, Record, clients_bytes};
pub use session_id::{Digest, SessionId};
pub use subnet::{Subnet, network_of};
pub use tokens::{Addition, Destination, Tokens};
pub use transport::{FecMatrix, Transport};
pub use tuple::{ADDRESSES_MAX, Detailed, RtpTuple, Tuple};
pub use udp_clients::UdpClient;
