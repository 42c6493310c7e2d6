//! Limits on tuples, and the error if a call exceeds them.

use std::fmt::{self, Display, Formatter};

/// Largest number of different FEC matrices among the UDP clients of a session. Each costs as much
/// as one or two clients.
pub const MATRICES_MAX: usize = 4;

/// Largest numbers of tuples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Tuples in the table: `--tokens`.
    pub tokens_max: usize,
    /// UDP clients of one session: `--udp-clients`.
    pub udp_clients_per_session_max: usize,
}

impl Limits {
    /// For a table whose size is limited elsewhere.
    pub const NONE: Limits = Limits {
        tokens_max: usize::MAX,
        udp_clients_per_session_max: usize::MAX,
    };
}

/// Reasons why no tuple of a call was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    Tokens { tokens_max: usize },
    UdpClients { udp_clients_per_session_max: usize },
    Matrices,
}

impl Display for Full {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Full::Tokens { tokens_max: max } => write!(
                formatter,
                "the table is full at {max} tokens; revoke some, or raise --tokens"
            ),
            Full::UdpClients {
                udp_clients_per_session_max: max,
            } => write!(
                formatter,
                "a session has at most {max} UDP clients; revoke some, or raise --udp-clients"
            ),
            Full::Matrices => write!(
                formatter,
                "the UDP clients of a session have at most {MATRICES_MAX} different matrices (fec); give one of \
                 these"
            ),
        }
    }
}

impl std::error::Error for Full {}
