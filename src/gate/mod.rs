//! The gate: tokens and what they allow.
//!
//! Contents: session ids ([`session_id`]), the `udp-clients` list of a request ([`udp_clients`],
//! with [`host`]s), the form in which a UDP client gets a stream ([`Transport`]), multicast groups
//! ([`Join`]), the token table ([`tokens`]), its terms ([`grant`]), its changes ([`record`]) and
//! their text on disk (`journal`), and subnets ([`subnet`]). This is plain data: it uses no socket,
//! clock, file or HTTP. Names are resolved elsewhere.

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
#[cfg(test)]
pub(crate) use session_id::session;
pub use session_id::{Digest, SessionId};
pub use subnet::{Subnet, network_of, shared_network};
pub use tokens::{Addition, Destination, Tokens};
pub use transport::{FecMatrix, Transport};
pub use tuple::{ADDRESSES_MAX, Detailed, RtpTuple, Tuple, canonical};
pub use udp_clients::UdpClient;
