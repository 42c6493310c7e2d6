//! How many tuples there may be, and what is said where there are too many.

use std::fmt::{self, Display, Formatter};

/// So many different matrices there are among the UDP clients of a session: each costs as much as
/// a client or two.
pub const MATRICES_MAX: usize = 4;

/// How many tuples there may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Tuples in the whole table: `--tokens`.
    pub tokens_max: usize,
    /// UDP clients of one session: `--udp-clients`.
    pub udp_clients_per_session_max: usize,
}

impl Limits {
    /// Of a table that somebody else's limits have bounded.
    pub const NONE: Limits = Limits {
        tokens_max: usize::MAX,
        udp_clients_per_session_max: usize::MAX,
    };
}

/// Why tuples were not added: none of them was.
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
                 those that it has"
            ),
        }
    }
}

impl std::error::Error for Full {}
