//! The calls of the API, and their parameters (`docs/api.md`).
//!
//! [`Call::parse`] checks all parameters of a query before any of them takes effect.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;

use super::page::Page;
use super::parameters::{Parameters, bad};
use super::terms;
use super::viewer_id::ListedId;
use crate::clean_text::Title;
use crate::events::EventId;
use crate::gate::{self, FecMatrix, GrantChange, RtpTuple, SessionId, Transport, UdpClient};
use crate::http::{Refusal, Status, Target, percent_decoded, percent_encoded, quoted};
use crate::time::UnixTime;

/// A call of the API, or another request that is answered at once.
#[derive(Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Call {
    AddToken(AddToken),
    RevokeToken {
        session: SessionId,
        /// The session's stream ends in the same turn.
        aborts: bool,
    },
    List(Rows),
    /// The same, with the rows of all peers.
    Collect(Rows),
    AbortStream {
        session: SessionId,
        /// Afterwards nobody is admitted to the session for this time.
        block: Option<Duration>,
    },
    KickViewer {
        id: ListedId,
        /// Afterwards its address is not admitted with its session id for this time.
        block: Option<Duration>,
    },
    /// The events after `last`, which is the newest event that the reader has. Of one session if
    /// `of` is given.
    Follow {
        of: Option<SessionId>,
        last: Option<EventId>,
    },
    /// The operator's page.
    Page,
    /// The page on which a browser plays a stream. With a refusal, the page shows the refusal, or
    /// waits.
    #[cfg_attr(feature = "handover", serde(skip))]
    WatchPage(Option<Box<Refusal>>),
    /// A redirect to this relative address.
    Moved(Box<str>),
    /// Sets the title of what a session plays, or removes it.
    SetTitle {
        session: SessionId,
        title: Title,
        /// The answer is in the XML of Icecast.
        is_icecast: bool,
    },
    /// What a session plays, for pages and players.
    About(About),
    /// One of Icecast's lists.
    #[cfg_attr(not(feature = "icecast"), allow(dead_code))]
    Panel(About),
    /// The metrics.
    Metrics,
    /// The description of the API for programs (OpenAPI).
    Description,
    /// The health check.
    Health,
    /// OPTIONS: the methods of a path.
    #[cfg_attr(feature = "handover", serde(skip))]
    Options {
        #[cfg_attr(feature = "handover", serde(skip))]
        allow: &'static str,
    },
}

/// Tokens to add to a session.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct AddToken {
    /// The session.
    pub session: SessionId,
    /// Change to the HTTP token. `None` if the call names nothing for HTTP.
    pub http: Option<GrantChange>,
    /// UDP clients, as sources or as receivers.
    pub clients: Vec<UdpClient>,
    /// Transport of all these UDP clients.
    transport: Transport,
}

impl AddToken {
    /// Returns the tuple of one of its UDP clients, with these addresses.
    pub fn tuple(&self, client: &UdpClient, addresses: Vec<SocketAddr>) -> RtpTuple {
        RtpTuple {
            client: client.clone(),
            transport: self.transport,
            addresses,
        }
    }
}

/// Table to list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Rows {
    Tokens,
    /// Tokens, with all their fields.
    Details,
    Streams,
    /// Streams, with their histories.
    Histories,
    /// Viewers. Of one session, if a session is given.
    Viewers(Option<SessionId>),
}

impl Rows {
    /// Returns whether they are rows of the token table, which a server that was replaced keeps.
    pub fn are_of_tokens(&self) -> bool {
        matches!(self, Rows::Tokens | Rows::Details)
    }
}

/// A request for the titles and addresses of sessions.
#[derive(Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct About {
    /// Name of the requested file, which says how the answer is written.
    pub file: Box<str>,
    /// The session. `None`: all of them.
    pub session: Option<SessionId>,
    /// By which address the client reaches the stream, or the server if it asks for a list.
    pub address: Box<str>,
}

/// Calls, by name below `/api/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    AddToken,
    RevokeToken,
    ListTokens,
    ListStreams,
    ListViewers,
    AbortStream,
    KickViewer,
    SetTitle,
    Events,
}

/// The answer to a call.
pub(super) enum Outcome {
    Json(Status, Vec<u8>),
    Options(&'static str),
    /// A redirect to this address.
    Moved(Box<str>),
    /// A page. With a refusal, the page shows the refusal.
    Page(Page, Option<Box<Refusal>>),
    /// A body that is not in JSON, or that may be kept: its media type, `Cache-Control`, and text.
    Text(Status, &'static str, &'static str, Cow<'static, str>),
}

impl Outcome {
    /// Makes an answer of a struct of strings and numbers, which cannot fail to serialise.
    pub fn json(status: Status, body: &impl Serialize) -> Outcome {
        Outcome::Json(status, serde_json::to_vec(body).unwrap_or_default())
    }

    /// Makes a text of this media type, which nobody keeps.
    pub fn text(content_type: &'static str, text: impl Into<Cow<'static, str>>) -> Outcome {
        Outcome::Text(Status::Ok, content_type, "no-store", text.into())
    }
}

/// Answer to `kick-viewer`.
#[derive(Serialize)]
pub(super) struct Kicked {
    /// Id of the viewer.
    pub id: ListedId,
    /// Session that it watched.
    pub sessionid: SessionId,
}

/// Answer to `abort-stream`.
#[derive(Serialize)]
pub(super) struct Aborted<'a> {
    /// The session.
    pub sessionid: &'a SessionId,
    /// Number of disconnected viewers.
    pub viewers: usize,
}

/// Returns the address of the stream with this name. `origin`: the server's scheme and authority.
pub(super) fn stream_url(origin: &str, name: &SessionId) -> String {
    match name.as_str() {
        // No path can name these.
        name @ ("." | "..") => format!("{origin}/stream?sessionid={name}"),
        name => format!("{origin}/stream/{}", percent_encoded(name)),
    }
}

impl Name {
    /// Parses the part of a path after `/api/`, percent-decoded. `None`: there is no such call.
    pub fn parse(name: &[u8]) -> Option<Name> {
        match name {
            b"add-token" => Some(Name::AddToken),
            b"revoke-token" => Some(Name::RevokeToken),
            b"list-tokens" => Some(Name::ListTokens),
            b"list-streams" => Some(Name::ListStreams),
            b"list-viewers" => Some(Name::ListViewers),
            b"abort-stream" => Some(Name::AbortStream),
            b"kick-viewer" => Some(Name::KickViewer),
            b"set-title" => Some(Name::SetTitle),
            b"events" => Some(Name::Events),
            _ => None,
        }
    }

    /// Returns the methods that the call allows.
    pub fn allow(self) -> &'static str {
        match self {
            Name::AddToken | Name::SetTitle => "POST, OPTIONS",
            Name::RevokeToken | Name::AbortStream | Name::KickViewer => "DELETE, OPTIONS",
            Name::ListTokens | Name::ListStreams | Name::ListViewers | Name::Events => {
                "GET, HEAD, OPTIONS"
            }
        }
    }
}

impl Call {
    /// Parses a request to this call. A 400 names the bad parameter and its value.
    pub fn parse(
        name: Name,
        target: &Target,
        (udp_clients_max, now): (usize, UnixTime),
    ) -> Result<Call, Refusal> {
        match name {
            Name::AddToken => parse_add_token(target, udp_clients_max, now).map(Call::AddToken),
            Name::RevokeToken => {
                let parameters = Parameters::read(target, &["sessionid", "abort"])?;
                let aborts = parameters.flag("abort")?;
                Ok(Call::RevokeToken {
                    session: parameters.session()?,
                    aborts,
                })
            }
            Name::AbortStream => {
                let parameters = Parameters::read(target, &["sessionid", "block"])?;
                let block = parameters.seconds("block")?;
                Ok(Call::AbortStream {
                    session: parameters.session()?,
                    block,
                })
            }
            Name::ListTokens => {
                let has_details = Parameters::read(target, &["details"])?.flag("details")?;
                Ok(Call::List(match has_details {
                    true => Rows::Details,
                    false => Rows::Tokens,
                }))
            }
            Name::ListStreams => {
                let has_history = Parameters::read(target, &["history"])?.flag("history")?;
                Ok(Call::List(match has_history {
                    true => Rows::Histories,
                    false => Rows::Streams,
                }))
            }
            Name::ListViewers => {
                let of = Parameters::read(target, &["sessionid"])?.session_if_given()?;
                Ok(Call::List(Rows::Viewers(of)))
            }
            Name::Events => {
                let of = Parameters::read(target, &["sessionid"])?.session_if_given()?;
                // The head has the id of the last event.
                Ok(Call::Follow { of, last: None })
            }
            Name::SetTitle => {
                let parameters = Parameters::read(target, &["sessionid", "title"])?;
                let session = parameters.session()?;
                let missing = "the parameter 'title' is missing; an empty one removes the title";
                let title = parameters.decoded("title")?.ok_or_else(|| bad(missing))?;
                Ok(Call::SetTitle {
                    session,
                    title: Title::decode(&title, None),
                    is_icecast: false,
                })
            }
            Name::KickViewer => {
                let parameters = Parameters::read(target, &["id", "block"])?;
                let block = parameters.seconds("block")?;
                let id = parameters.viewer_id()?;
                Ok(Call::KickViewer { id, block })
            }
        }
    }
}

fn parse_add_token(
    target: &Target,
    udp_clients_max: usize,
    now: UnixTime,
) -> Result<AddToken, Refusal> {
    let known = [&["type", "sessionid", "udp-clients", "fec"], terms::NAMES].concat();
    let parameters = Parameters::read(target, &known)?;
    let types = Types::parse(parameters.raw("type"))?;
    let session = parameters.session()?;
    let clients = match (parameters.raw("udp-clients"), types.transport) {
        (Some(raw), Some(_)) => gate::udp_clients::parse(raw, udp_clients_max).map_err(bad)?,
        (None, None) => Vec::new(),
        (Some(_), None) => {
            return Err(bad(
                "udp-clients needs rtp-udp or udp in type, such as type=http,rtp-udp",
            ));
        }
        (None, Some(_)) => {
            return Err(bad(
                "type names UDP clients, but the parameter 'udp-clients' is missing; give udp-clients=HOST:PORT,…",
            ));
        }
    };
    let transport = match (parse_matrix(parameters.raw("fec"))?, types.transport) {
        (None, transport) => transport.unwrap_or(Transport::Rtp(None)),
        (Some(matrix), Some(Transport::Rtp(_))) => Transport::Rtp(Some(matrix)),
        (Some(_), Some(Transport::Bare) | None) => {
            return Err(bad("fec needs rtp-udp in type"));
        }
    };
    let fits = |client: &&UdpClient| transport.ports(client.port.get()).is_none();
    if let Some(client) = clients.iter().find(fits) {
        return Err(bad(format!(
            "udp-clients: '{client}': fec also uses the ports 2 and 4 above; give a port up to 65531"
        )));
    }
    Ok(AddToken {
        session,
        http: terms::read(&parameters, types.http, now)?,
        clients,
        transport,
    })
}

fn parse_matrix(raw: Option<&str>) -> Result<Option<FecMatrix>, Refusal> {
    let read = |raw| {
        FecMatrix::parse(raw).ok_or_else(|| {
            bad(format!(
                "fec: '{}' is no matrix; give COLUMNSxROWS, such as 5x10, each from 4 to 20 and at most 100 packets together",
                quoted(raw, 64)
            ))
        })
    };
    raw.map(read).transpose()
}

/// Token types that a call names.
#[derive(Default)]
struct Types {
    http: bool,
    /// Transport of the UDP clients, if the call names any.
    transport: Option<Transport>,
}

impl Types {
    fn parse(raw: Option<&str>) -> Result<Types, Refusal> {
        const RIGHT: &str =
            "http, rtp-udp or udp, or http with one of the others, such as http,rtp-udp";
        let raw =
            raw.ok_or_else(|| bad(format!("the parameter 'type' is missing; give {RIGHT}")))?;
        let mut types = Types::default();
        for entry in raw.split(',') {
            let transport = match percent_decoded(entry).as_deref() {
                Some(b"http") => None,
                Some(b"rtp-udp") => Some(Transport::Rtp(None)),
                Some(b"udp") => Some(Transport::Bare),
                _ => {
                    return Err(bad(format!(
                        "type: '{}' is wrong; give {RIGHT}",
                        quoted(entry, 64)
                    )));
                }
            };
            let is_repeated = match transport {
                None => std::mem::replace(&mut types.http, true),
                Some(_) => types.transport == transport,
            };
            if is_repeated {
                return Err(bad(format!(
                    "type: '{}' comes more than once",
                    quoted(entry, 64)
                )));
            }
            if transport.is_some() && types.transport.is_some() {
                return Err(bad(
                    "type: a UDP client gets rtp-udp or udp; make one call for each",
                ));
            }
            types.transport = types.transport.or(transport);
        }
        Ok(types)
    }
}

/// OpenAPI 3.1.
pub(super) const DESCRIPTION: &str = include_str!("openapi.json");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::parameters::tests::target;

    const NOW: UnixTime = UnixTime { unix_seconds: 1000 };

    fn call(name: Name, query: &str) -> Result<Call, String> {
        let call = Call::parse(name, &target(query), (8, NOW));
        call.map_err(|refusal| refusal.detail)
    }

    fn add(query: &str) -> Result<AddToken, String> {
        match call(Name::AddToken, &format!("sessionid=s&{query}"))? {
            Call::AddToken(add) => Ok(add),
            other => panic!("{query}: {other:?}"),
        }
    }

    #[test]
    fn clients_get_rtp_with_or_without_corrections_or_the_stream_alone() {
        let matrix = |text| Transport::Rtp(FecMatrix::parse(text));
        for (query, transport, has_http) in [
            ("type=http", Transport::Rtp(None), true),
            (
                "type=rtp-udp&udp-clients=10.1.0.1:5004",
                Transport::Rtp(None),
                false,
            ),
            (
                "type=rtp-udp&udp-clients=10.1.0.1:5004&fec=5x10",
                matrix("5x10"),
                false,
            ),
            (
                "type=rtp%2Dudp,http&udp-clients=10.1.0.1:65531&fec=4x4",
                matrix("4x4"),
                true,
            ),
            ("type=udp&udp-clients=10.1.0.1:5004", Transport::Bare, false),
            (
                "type=http,udp&udp-clients=10.1.0.1:65535",
                Transport::Bare,
                true,
            ),
        ] {
            let add = add(query).expect(query);
            assert_eq!(add.transport, transport, "{query}");
            assert_eq!(add.http.is_some(), has_http, "{query}");
            for client in &add.clients {
                let addresses = vec![client.address().expect("an address")];
                assert_eq!(add.tuple(client, addresses).transport, transport);
            }
        }
        const CLIENT: &str = "udp-clients=10.1.0.1:5004";
        for (query, words) in [
            (CLIENT.to_owned(), "the parameter 'type' is missing"),
            (format!("type=rtp&{CLIENT}"), "'rtp' is wrong"),
            (format!("type=,udp&{CLIENT}"), "'' is wrong"),
            (
                format!("type=udp,udp&{CLIENT}"),
                "'udp' comes more than once",
            ),
            ("type=http,http".to_owned(), "'http' comes more than once"),
            (
                format!("type=udp,rtp-udp&{CLIENT}"),
                "a UDP client gets rtp-udp or udp",
            ),
            (
                format!("type=http&{CLIENT}"),
                "udp-clients needs rtp-udp or udp",
            ),
            ("type=udp".to_owned(), "'udp-clients' is missing"),
            (
                format!("type=rtp-udp&{CLIENT}&fec=3x4"),
                "fec: '3x4' is no matrix",
            ),
            (
                format!("type=udp&{CLIENT}&fec=5x10"),
                "fec needs rtp-udp in type",
            ),
            ("type=http&fec=5x10".to_owned(), "fec needs rtp-udp in type"),
            (
                "type=rtp-udp&udp-clients=10.1.0.1:65532&fec=5x10".to_owned(),
                "fec also uses the ports",
            ),
        ] {
            let refusal = add(&query).expect_err(&query);
            assert!(refusal.contains(words), "{query}: {refusal}");
        }
    }

    #[test]
    fn a_call_says_what_is_done_and_to_whom() {
        let session = SessionId::parse(b"s").expect("a good sessionid");
        let id = ListedId::of_text("00000007-1a").expect("an id");
        let minute = Some(Duration::from_secs(60));
        for (name, query, expected) in [
            (
                Name::RevokeToken,
                "sessionid=s&abort=1",
                format!(
                    "{:?}",
                    Call::RevokeToken {
                        session: session.clone(),
                        aborts: true
                    }
                ),
            ),
            (
                Name::RevokeToken,
                "sessionid=s",
                format!(
                    "{:?}",
                    Call::RevokeToken {
                        session: session.clone(),
                        aborts: false
                    }
                ),
            ),
            (
                Name::AbortStream,
                "sessionid=s&block=60",
                format!(
                    "{:?}",
                    Call::AbortStream {
                        session: session.clone(),
                        block: minute
                    }
                ),
            ),
            (
                Name::KickViewer,
                "id=00000007-1a&block=60",
                format!("{:?}", Call::KickViewer { id, block: minute }),
            ),
            (
                Name::ListTokens,
                "",
                format!("{:?}", Call::List(Rows::Tokens)),
            ),
            (
                Name::ListTokens,
                "details=1",
                format!("{:?}", Call::List(Rows::Details)),
            ),
            (
                Name::ListStreams,
                "",
                format!("{:?}", Call::List(Rows::Streams)),
            ),
            (
                Name::ListViewers,
                "sessionid=s",
                format!("{:?}", Call::List(Rows::Viewers(Some(session.clone())))),
            ),
            (
                Name::Events,
                "sessionid=s",
                format!(
                    "{:?}",
                    Call::Follow {
                        of: Some(session.clone()),
                        last: None
                    }
                ),
            ),
        ] {
            let seen = call(name, query).map(|call| format!("{call:?}"));
            assert_eq!(seen, Ok(expected), "{name:?} {query}");
            assert!(call(name, &format!("{query}&x=1")).is_err(), "{name:?}");
        }
        for (name, query) in [
            (Name::RevokeToken, "abort=1"),
            (Name::AbortStream, ""),
            (Name::KickViewer, "block=60"),
            (Name::AddToken, "type=http"),
        ] {
            assert!(call(name, query).is_err(), "{name:?}");
        }
    }
}
