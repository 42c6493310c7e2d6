//! The events of `/api/events`, and their lines in the log. The part in which something happens
//! reports it by `Context::emit`.

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

use super::Level;
use super::viewer_id::{ListedId, PublicStreamId};
use crate::clean_text::Title;
use crate::events::EventId;
use crate::gate::{Digest, SessionId};
use crate::time::UnixTime;

/// An event of the server.
#[derive(Serialize)]
#[serde(untagged)]
pub enum ServerEvent<'a> {
    /// A stream of a session begins.
    StreamBegins {
        id: PublicStreamId,
        source: SocketAddr,
    },
    /// A stream has lost its source; its viewers wait for another.
    StreamHeld {
        id: PublicStreamId,
        reason: &'static str,
        /// Number of viewers that wait, in all containers. Only the log has it.
        #[serde(skip)]
        viewers: usize,
        /// The source that it has lost. It is not written.
        #[serde(skip)]
        source: SocketAddr,
    },
    /// A held stream has another source.
    StreamGoesOn {
        id: PublicStreamId,
        source: SocketAddr,
    },
    /// The title of what a stream plays has changed.
    StreamTitle {
        id: PublicStreamId,
        title: &'a Title,
    },
    /// A stream has ended. Its viewers get what is buffered.
    StreamEnds {
        id: PublicStreamId,
        /// Its last source. It is not written.
        #[serde(skip)]
        source: SocketAddr,
        reason: &'static str,
        bytes_received: u64,
        bytes_sent: u64,
        skips: u64,
    },
    /// A stream has no viewers left and leaves the list.
    StreamOver { id: PublicStreamId },
    /// A source exceeds the bit rate of its token. The server slows it down, or drops the excess.
    SourceTooFast {
        id: PublicStreamId,
        source: SocketAddr,
        what: &'static str,
        max_bitrate: u64,
    },
    /// A viewer begins to watch over HTTP.
    ViewerComes {
        id: ListedId,
        key: Option<Digest>,
        address: Option<SocketAddr>,
    },
    /// The server disconnects a viewer for this reason.
    ViewerCut {
        id: ListedId,
        address: SocketAddr,
        reason: &'static str,
        behind_bytes: u64,
        behind_ms: u64,
    },
    /// A viewer has stopped watching.
    ViewerGoes {
        id: ListedId,
        key: Option<Digest>,
        address: SocketAddr,
        bytes: u64,
        skips: u32,
    },
    /// A session id has these tokens; `new` of them were added now.
    TokenAdded {
        #[serde(rename = "for")]
        opens: Option<&'a SessionId>,
        tuples: usize,
        new: usize,
    },
    /// All tokens of a session id were revoked.
    TokenRevoked { revoked: usize },
    /// Expired tokens were removed to make room for others.
    TokenForgotten {},
    /// A token has expired.
    TokenOver {},
    /// Further tokens expired at the same time.
    TokensOver { count: usize },
    /// A source was refused. `left_out`: refusals before this one that were not reported.
    PublisherRefused {
        address: SocketAddr,
        status: u16,
        detail: &'a str,
        left_out: u64,
    },
}

impl ServerEvent<'_> {
    /// Returns the number of tokens that the event is about, if it has one.
    pub fn tuples(&self) -> Option<usize> {
        match self {
            ServerEvent::TokenAdded { new, .. } => Some(*new),
            ServerEvent::TokenRevoked { revoked } => Some(*revoked),
            _ => None,
        }
    }

    /// Returns the host that has caused it. `None`: time or the operator, or it comes only with other
    /// events.
    pub fn host(&self) -> Option<IpAddr> {
        match self {
            ServerEvent::StreamBegins { source, .. }
            | ServerEvent::StreamHeld { source, .. }
            | ServerEvent::StreamGoesOn { source, .. }
            | ServerEvent::StreamEnds { source, .. }
            | ServerEvent::SourceTooFast { source, .. } => Some(source.ip()),
            ServerEvent::ViewerCut { address, .. }
            | ServerEvent::ViewerGoes { address, .. }
            | ServerEvent::PublisherRefused { address, .. } => Some(address.ip()),
            ServerEvent::ViewerComes { address, .. } => address.map(|address| address.ip()),
            _ => None,
        }
    }

    /// Returns its name, the same in the log and in `/api/events`.
    pub fn name(&self) -> &'static str {
        self.name_and_level().0
    }

    /// Returns its name, and the level of its line in the log; `None`: it has no line.
    fn name_and_level(&self) -> (&'static str, Option<Level>) {
        let (info, warn) = (Some(Level::Info), Some(Level::Warn));
        match self {
            ServerEvent::StreamBegins { .. } => ("stream-begins", info),
            ServerEvent::StreamHeld { .. } => ("stream-held", info),
            ServerEvent::StreamGoesOn { .. } => ("stream-goes-on", info),
            ServerEvent::StreamTitle { .. } => ("stream-title", None),
            ServerEvent::StreamEnds { .. } => ("stream-ends", info),
            ServerEvent::StreamOver { .. } => ("stream-over", None),
            ServerEvent::SourceTooFast { .. } => ("source-too-fast", warn),
            ServerEvent::ViewerComes { .. } => ("viewer-comes", None),
            ServerEvent::ViewerCut { .. } => ("viewer-cut", info),
            ServerEvent::ViewerGoes { .. } => ("viewer-goes", None),
            ServerEvent::TokenAdded { .. } => ("token-added", info),
            ServerEvent::TokenRevoked { .. } => ("token-revoked", info),
            ServerEvent::TokenForgotten {} => ("token-forgotten", info),
            ServerEvent::TokenOver {} => ("token-over", info),
            ServerEvent::TokensOver { .. } => ("tokens-over", info),
            ServerEvent::PublisherRefused { .. } => ("publisher-refused", warn),
        }
    }
}

/// The line of an event in the log, without its level.
pub struct LogLine<'a> {
    /// What happened.
    pub event: &'a ServerEvent<'a>,
    /// The session id that it is about, and the session that this id opens.
    pub about: Option<(&'a SessionId, &'a SessionId)>,
}

impl LogLine<'_> {
    /// Returns the level of the line. `None`: the log has no line for this event.
    pub fn level(&self) -> Option<Level> {
        self.event.name_and_level().1
    }

    /// Returns whether it is about one token. Calls of the API can cause any number of such lines.
    pub fn is_about_token(&self) -> bool {
        matches!(
            self.event,
            ServerEvent::TokenAdded { .. }
                | ServerEvent::TokenRevoked { .. }
                | ServerEvent::TokenForgotten {}
                | ServerEvent::TokenOver {}
        )
    }
}

impl Display for LogLine<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let ServerEvent::TokensOver { count } = self.event {
            return write!(f, "event=tokens-over count={count}");
        }
        let Some((credential, of)) = self.about else {
            return Ok(());
        };
        let session = credential.digest();
        match self.event {
            ServerEvent::StreamBegins { source, .. } => {
                write!(f, "event=stream-begins session={session} source={source}")
            }
            ServerEvent::StreamHeld {
                reason, viewers, ..
            } => write!(
                f,
                "event=stream-held session={session} reason=\"{reason}\" viewers={viewers}"
            ),
            ServerEvent::StreamGoesOn { source, .. } => {
                write!(f, "event=stream-goes-on session={session} source={source}")
            }
            ServerEvent::StreamEnds {
                reason,
                bytes_received,
                bytes_sent,
                skips,
                ..
            } => write!(
                f,
                "event=stream-ends session={session} reason=\"{reason}\" bytes_received={bytes_received} bytes_sent={bytes_sent} skips={skips}"
            ),
            ServerEvent::SourceTooFast {
                source,
                what,
                max_bitrate,
                ..
            } => write!(
                f,
                "event=source-too-fast session={session} source={source} what={what} max_bitrate={max_bitrate}"
            ),
            ServerEvent::ViewerCut {
                address,
                reason,
                behind_bytes,
                behind_ms,
                ..
            } => write!(
                f,
                "event=viewer-cut session={session} peer={address} reason={reason} behind_bytes={behind_bytes} behind_ms={behind_ms}"
            ),
            ServerEvent::PublisherRefused {
                address,
                status,
                detail,
                left_out,
            } => {
                // A bad request is refused in its own words, which may hold a secret.
                let detail = match status {
                    400 => "the request is bad; the answer says why",
                    _ => detail,
                };
                write!(
                    f,
                    "event=publisher-refused session={session} source={address} status={status} left_out={left_out} detail=\"{detail}\""
                )
            }
            token => {
                let event = token.name();
                write!(f, "event={event} session={session}")?;
                match token.tuples() {
                    _ if credential != of => write!(f, " for={}", of.digest()),
                    Some(tuples) => write!(f, " tuples={tuples}"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Fields that all events have.
#[derive(Serialize)]
struct EventFields<'a> {
    time: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sessionid: Option<&'a SessionId>,
    session: Option<Digest>,
    #[serde(flatten)]
    what: &'a ServerEvent<'a>,
}

impl<'a> EventFields<'a> {
    /// Returns the fields of an event about a session id. A refused source's session id may belong
    /// to another server, so only its digest is written.
    fn new(time: UnixTime, about: Option<&'a SessionId>, what: &'a ServerEvent<'a>) -> Self {
        let is_strangers = matches!(what, ServerEvent::PublisherRefused { .. });
        EventFields {
            time: time.unix_seconds,
            sessionid: about.filter(|_| !is_strangers),
            session: about.map(SessionId::digest),
            what,
        }
    }
}

/// Writes an event about a session id.
pub fn write_unit(
    text: &mut Vec<u8>,
    (id, time): (EventId, UnixTime),
    about: Option<&SessionId>,
    what: &ServerEvent<'_>,
) {
    begin_unit(text, what.name(), Some(&id.to_string()));
    end_unit(text, &EventFields::new(time, about, what));
}

/// Returns the snapshot's row of a refused source, with the fields of its event.
pub fn refusal_row(time: UnixTime, about: &SessionId, what: &ServerEvent<'_>) -> String {
    let mut text = Vec::new();
    begin_unit(&mut text, "refusal", None);
    end_unit(&mut text, &EventFields::new(time, Some(about), what));
    String::from_utf8(text).unwrap_or_default()
}

/// Begins an event. A client that comes back sends the last `id`. An empty `id` makes the client
/// forget the last one.
pub fn begin_unit(text: &mut Vec<u8>, name: &str, id: Option<&str>) {
    text.extend_from_slice(b"event: ");
    text.extend_from_slice(name.as_bytes());
    if let Some(id) = id {
        text.extend_from_slice(b"\nid: ");
        text.extend_from_slice(id.as_bytes());
    }
    text.extend_from_slice(b"\ndata: ");
}

/// Ends an event.
pub fn end_unit(text: &mut Vec<u8>, data: &impl Serialize) {
    // Structs of strings and numbers cannot fail to serialise, and their JSON has no line ends.
    let _ = serde_json::to_writer(&mut *text, data);
    text.extend_from_slice(b"\n\n");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// An event of each kind, and its number of tokens.
    fn all(refusal: &str) -> [(ServerEvent<'_>, Option<usize>); 16] {
        const NONE: &Title = &Title::NONE;
        let id = PublicStreamId { run: 1, serial: 2 };
        let viewer = ListedId::of_text("00000001-2").expect("an id");
        let address = SocketAddr::from(([10, 0, 0, 1], 7));
        [
            (
                ServerEvent::StreamBegins {
                    id,
                    source: address,
                },
                None,
            ),
            (
                ServerEvent::StreamHeld {
                    id,
                    reason: "why",
                    viewers: 1,
                    source: address,
                },
                None,
            ),
            (ServerEvent::StreamTitle { id, title: NONE }, None),
            (
                ServerEvent::StreamGoesOn {
                    id,
                    source: address,
                },
                None,
            ),
            (
                ServerEvent::StreamEnds {
                    id,
                    source: address,
                    reason: "why",
                    bytes_received: 3,
                    bytes_sent: 4,
                    skips: 5,
                },
                None,
            ),
            (ServerEvent::StreamOver { id }, None),
            (
                ServerEvent::SourceTooFast {
                    id,
                    source: address,
                    what: "waits",
                    max_bitrate: 6,
                },
                None,
            ),
            (
                ServerEvent::ViewerComes {
                    id: viewer,
                    key: None,
                    address: Some(address),
                },
                None,
            ),
            (
                ServerEvent::ViewerCut {
                    id: viewer,
                    address,
                    reason: "slow",
                    behind_bytes: 7,
                    behind_ms: 8,
                },
                None,
            ),
            (
                ServerEvent::ViewerGoes {
                    id: viewer,
                    key: None,
                    address,
                    bytes: 9,
                    skips: 10,
                },
                None,
            ),
            (
                ServerEvent::TokenAdded {
                    opens: None,
                    tuples: 11,
                    new: 12,
                },
                Some(12),
            ),
            (ServerEvent::TokenRevoked { revoked: 13 }, Some(13)),
            (ServerEvent::TokenForgotten {}, None),
            (ServerEvent::TokenOver {}, None),
            (ServerEvent::TokensOver { count: 14 }, None),
            (
                ServerEvent::PublisherRefused {
                    address,
                    status: 403,
                    detail: refusal,
                    left_out: 15,
                },
                None,
            ),
        ]
    }

    /// An event has a name, an id, and one line of JSON. It has a session id only if that belongs
    /// to this server.
    #[test]
    fn a_unit_is_one_event_about_a_sessionid() {
        let session = SessionId::parse(b"s").expect("a good sessionid");
        let at = (
            EventId { run: 10, number: 7 },
            UnixTime { unix_seconds: 1000 },
        );
        let mut names = BTreeSet::new();
        for (what, tuples) in all("two\nlines, and \"quotes\"") {
            assert_eq!(what.tuples(), tuples, "{}", what.name());
            assert!(names.insert(what.name()), "{} is another's", what.name());
            for about in [None, Some(&session)] {
                let mut text = Vec::new();
                write_unit(&mut text, at, about, &what);
                let text = String::from_utf8(text).expect("UTF-8");
                let head = format!("event: {}\nid: 0000000a-7\ndata: ", what.name());
                let data = text.strip_prefix(&head).expect("its head");
                let data = data.strip_suffix("\n\n").expect("its end");
                assert!(!data.contains('\n'), "{data}");
                let data: serde_json::Value = serde_json::from_str(data).expect("JSON");
                assert_eq!(data["time"], 1000);
                let is_strangers = what.name() == "publisher-refused";
                let has_name = about.is_some() && !is_strangers;
                assert_eq!(data.get("sessionid").is_some(), has_name, "{data}");
                assert_eq!(data["session"].is_null(), about.is_none(), "{data}");
            }
        }
    }
}
