//! Ids of viewers and streams in the API, and positions in lists.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::str::FromStr;

use serde::Serialize;

use super::ConnectionId;

/// A position in a list. Rows after it have greater ones.
pub type Mark = (u64, u64);

/// Id of a viewer in this run of the server. Another run does not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedId {
    /// A connection. It may watch several streams one after the other.
    Connection { run: u32, connection: u64 },
    /// A UDP client of a stream.
    Client {
        run: u32,
        stream: u64,
        to: SocketAddr,
    },
}

impl ListedId {
    /// Returns the id of a connection in this run of the server.
    pub fn of_connection(run: u32, connection: ConnectionId) -> ListedId {
        ListedId::Connection {
            run,
            connection: connection.to_u64(),
        }
    }

    /// Parses what [`ListedId`] prints.
    pub fn of_text(text: &str) -> Option<ListedId> {
        let (run, rest) = text.split_once('-')?;
        let run = u32::from_str_radix(run, 16).ok()?;
        let id = match rest.strip_prefix('u') {
            None => ListedId::Connection {
                run,
                connection: u64::from_str_radix(rest, 16).ok()?,
            },
            Some(client) => {
                let (stream, to) = client.split_once('-')?;
                ListedId::Client {
                    run,
                    stream: u64::from_str_radix(stream, 16).ok()?,
                    to: SocketAddr::from_str(to).ok()?,
                }
            }
        };
        // An id has one spelling: without signs, capitals, or superfluous zeros.
        (id.to_string() == text).then_some(id)
    }
}

/// Id of a stream in this run of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicStreamId {
    /// The run of the server.
    pub run: u32,
    /// The number of the stream in that run.
    pub serial: u64,
}

impl Display for PublicStreamId {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:08x}-s{:x}", self.run, self.serial)
    }
}

impl Serialize for PublicStreamId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Display for ListedId {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            ListedId::Connection { run, connection } => {
                write!(formatter, "{run:08x}-{connection:x}")
            }
            ListedId::Client { run, stream, to } => write!(formatter, "{run:08x}-u{stream:x}-{to}"),
        }
    }
}

impl Serialize for ListedId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_printed_and_no_other_way() {
        for good in [
            "00000007-1a",
            "ffffffff-0",
            "0000000a-u1-192.0.2.1:5004",
            "0000000a-u1f-[2001:db8::1]:9",
        ] {
            assert_eq!(ListedId::of_text(good).expect(good).to_string(), good);
            #[cfg(feature = "handover")]
            assert!(serde_json::from_value::<ListedId>(good.into()).is_ok());
        }
        for bad in [
            "",
            "-",
            "7-1",
            "00000007-",
            "00000007-01",
            "0000000A-1",
            "00000007-g",
            "00000007-u1",
            "00000007-u1-x",
            "00000007-1ffffffffffffffff",
            "00000007-u1-192.0.2.1:05004",
            "+0000007-1",
            "00000007-+1",
            "100000007-1",
            "00000007-u+1-192.0.2.1:5004",
        ] {
            assert_eq!(ListedId::of_text(bad), None, "{bad}");
            #[cfg(feature = "handover")]
            assert!(serde_json::from_value::<ListedId>(bad.into()).is_err());
        }
    }

    #[test]
    fn a_streams_id_is_no_viewers() {
        let id = PublicStreamId {
            run: 10,
            serial: 26,
        };
        assert_eq!(id.to_string(), "0000000a-s1a");
        assert_eq!(ListedId::of_text(&id.to_string()), None);
    }
}
