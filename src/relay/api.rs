//! The API: which calls there are, what their parameters may be, and what they do (contract, *The
//! API*).
//!
//! [`Call::parse`] turns a query into a value that is right by construction; nothing is done before
//! all of it has been checked.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;

use super::page::Page;
use super::parameters::{Parameters, bad, no_parameters};
use super::terms;
use super::viewer_id::ListedId;
use crate::events::EventId;
use crate::gate::{self, Carriage, Grant, Matrix, RtpTuple, SessionId, UdpClient};
use crate::http::{Method, Refusal, Status, Target, percent_decoded, quoted};
use crate::stamp::Stamp;

/// A call of the API, or another request that is answered at once.
#[derive(Debug)]
pub(super) enum Call {
    AddToken(AddToken),
    RevokeToken {
        session: SessionId,
        /// Its stream ends in the same turn.
        aborts: bool,
    },
    List(Rows),
    /// What the peers have, too.
    Collect(Rows),
    AbortStream {
        session: SessionId,
        /// For so long nobody is admitted to the session afterwards.
        block: Option<Duration>,
    },
    KickViewer {
        id: ListedId,
        /// For so long nobody comes in from its address by its sessionid.
        block: Option<Duration>,
    },
    /// What happens, from behind an event on that was the last that somebody had.
    Follow {
        of: Option<SessionId>,
        last: Option<EventId>,
    },
    /// The operator's page.
    Page,
    /// The page on which a session is watched, or why who asks gets it not.
    WatchPage(Option<Box<Refusal>>),
    /// What is asked for has this address, as seen from the one that was asked for.
    Moved(Box<str>),
    /// The figures.
    Metrics,
    /// What this API is, for programs.
    Description,
    /// Whether the server runs.
    Health,
    /// The methods that a path knows.
    Options {
        allow: &'static str,
    },
}

/// What is to be added to a session.
#[derive(Clone, Debug)]
pub(super) struct AddToken {
    /// Whose it will be.
    pub session: SessionId,
    /// What may be done over HTTP; `None` if nothing is named that concerns it.
    pub http: Option<Grant>,
    /// Where datagrams come from or go to.
    pub clients: Vec<UdpClient>,
    /// Of all of these.
    carriage: Carriage,
}

impl AddToken {
    /// One of its clients, with these addresses.
    pub fn tuple(&self, client: &UdpClient, addresses: Vec<SocketAddr>) -> RtpTuple {
        RtpTuple {
            client: client.clone(),
            carriage: self.carriage,
            addresses,
        }
    }
}

impl Call {
    /// Bytes that it takes, itself included.
    pub fn held_bytes(&self) -> usize {
        let clients = match self {
            Call::AddToken(add) => add.clients.as_slice(),
            _ => &[],
        };
        let each = clients
            .iter()
            .map(|client| size_of::<UdpClient>() + client.held_bytes());
        let grant = match self {
            Call::AddToken(add) => add.http.as_ref().map_or(0, Grant::held_bytes),
            Call::WatchPage(Some(refusal)) => size_of::<Refusal>() + refusal.detail.capacity(),
            Call::Moved(address) => address.len(),
            _ => 0,
        };
        size_of::<Call>() + grant + each.sum::<usize>()
    }
}

/// Which table is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    Tokens,
    /// The same, with all that is known of each.
    Details,
    Streams,
    /// Who watches; of one session, if that is named.
    Viewers(Option<SessionId>),
}

/// The calls by their names below `/api/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    AddToken,
    RevokeToken,
    ListTokens,
    ListStreams,
    ListViewers,
    AbortStream,
    KickViewer,
    Events,
}

/// The answer to a call: a status and a JSON body, or what else is to happen.
pub(super) enum Outcome {
    Json(Status, Vec<u8>),
    /// It is done, and there is nothing to say of it.
    Done,
    List(Rows),
    Options(&'static str),
    /// It is had at this address.
    Moved(Box<str>),
    /// A page, and how who asks is refused what it would show.
    Page(Page, Option<Box<Refusal>>),
    /// A media type and a body of it.
    Text(&'static str, Cow<'static, str>),
}

/// What an abort has done.
#[derive(Serialize)]
pub(super) struct Aborted<'a> {
    /// Of this session.
    pub sessionid: &'a SessionId,
    /// So many were disconnected.
    pub viewers: usize,
}

impl Name {
    /// `name` is what follows `/api/`, percent-decoded. `None`: there is no such call.
    pub fn parse(name: &[u8]) -> Option<Name> {
        match name {
            b"add-token" => Some(Name::AddToken),
            b"revoke-token" => Some(Name::RevokeToken),
            b"list-tokens" => Some(Name::ListTokens),
            b"list-streams" => Some(Name::ListStreams),
            b"list-viewers" => Some(Name::ListViewers),
            b"abort-stream" => Some(Name::AbortStream),
            b"kick-viewer" => Some(Name::KickViewer),
            b"events" => Some(Name::Events),
            _ => None,
        }
    }

    /// The methods that the call answers to.
    pub fn allow(self) -> &'static str {
        match self {
            Name::AddToken => "POST, OPTIONS",
            Name::RevokeToken | Name::AbortStream | Name::KickViewer => "DELETE, OPTIONS",
            Name::ListTokens | Name::ListStreams | Name::ListViewers | Name::Events => {
                "GET, HEAD, OPTIONS"
            }
        }
    }

    /// Whether the call can be asked with this method; for all other methods the answer is 405.
    pub fn knows(self, method: Method) -> bool {
        match self {
            Name::AddToken => method == Method::Post,
            Name::RevokeToken | Name::AbortStream | Name::KickViewer => method == Method::Delete,
            Name::ListTokens | Name::ListStreams | Name::ListViewers | Name::Events => {
                matches!(method, Method::Get | Method::Head)
            }
        }
    }
}

impl Call {
    /// What a request to this call asks for; 400 names the parameter and the entry at fault.
    pub fn parse(
        name: Name,
        target: &Target,
        (udp_clients_max, now): (usize, Stamp),
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
            Name::ListStreams => no_parameters(target).map(|()| Call::List(Rows::Streams)),
            Name::ListViewers => {
                let of = Parameters::read(target, &["sessionid"])?.session_if_given()?;
                Ok(Call::List(Rows::Viewers(of)))
            }
            Name::Events => {
                let of = Parameters::read(target, &["sessionid"])?.session_if_given()?;
                // The head says what was had last.
                Ok(Call::Follow { of, last: None })
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
    now: Stamp,
) -> Result<AddToken, Refusal> {
    let known = [&["type", "sessionid", "udp-clients", "fec"], terms::NAMES].concat();
    let parameters = Parameters::read(target, &known)?;
    let types = Types::parse(parameters.raw("type"))?;
    let session = parameters.session()?;
    let clients = match (parameters.raw("udp-clients"), types.carriage) {
        (Some(raw), Some(_)) => gate::udp_clients::parse(raw, udp_clients_max)
            .map_err(|error| bad(error.to_string()))?,
        (None, None) => Vec::new(),
        (Some(_), None) => {
            return Err(bad(
                "udp-clients is given, but type says neither rtp-udp nor udp",
            ));
        }
        (None, Some(_)) => {
            return Err(bad(
                "type says that there are UDP clients, but the parameter 'udp-clients' (HOST:PORT,…) is missing",
            ));
        }
    };
    let carriage = match (parse_matrix(parameters.raw("fec"))?, types.carriage) {
        (None, carriage) => carriage.unwrap_or(Carriage::Rtp(None)),
        (Some(matrix), Some(Carriage::Rtp(_))) => Carriage::Rtp(Some(matrix)),
        (Some(_), Some(Carriage::Bare) | None) => {
            return Err(bad("fec is given, but type does not say rtp-udp"));
        }
    };
    let fits = |client: &&UdpClient| carriage.ports(client.port.get()).is_none();
    if let Some(client) = clients.iter().find(fits) {
        return Err(bad(format!(
            "udp-clients: '{client}': with fec two ports above it are needed, the highest 4 above; give one up to 65531"
        )));
    }
    Ok(AddToken {
        session,
        http: terms::read(&parameters, types.http, now)?,
        clients,
        carriage,
    })
}

fn parse_matrix(raw: Option<&str>) -> Result<Option<Matrix>, Refusal> {
    let read = |raw| {
        Matrix::parse(raw).ok_or_else(|| {
            bad(format!(
                "fec: '{}' is no matrix; give COLUMNSxROWS, such as 5x10, each from 4 to 20 and at most 100 packets together",
                quoted(raw, 64)
            ))
        })
    };
    raw.map(read).transpose()
}

/// What is asked for.
#[derive(Default)]
struct Types {
    http: bool,
    /// Of UDP clients.
    carriage: Option<Carriage>,
}

impl Types {
    fn parse(raw: Option<&str>) -> Result<Types, Refusal> {
        const RIGHT: &str =
            "http, rtp-udp or udp, or http and one of the others with a comma between";
        let raw =
            raw.ok_or_else(|| bad(format!("the parameter 'type' is missing; it is {RIGHT}")))?;
        let mut types = Types::default();
        for entry in raw.split(',') {
            let carriage = match percent_decoded(entry).as_deref() {
                Some(b"http") => None,
                Some(b"rtp-udp") => Some(Carriage::Rtp(None)),
                Some(b"udp") => Some(Carriage::Bare),
                _ => {
                    return Err(bad(format!(
                        "type: '{}' is not a type; it is {RIGHT}",
                        quoted(entry, 64)
                    )));
                }
            };
            let (is_repeated, is_other) = match carriage {
                None => (std::mem::replace(&mut types.http, true), false),
                Some(_) => {
                    let other = std::mem::replace(&mut types.carriage, carriage);
                    (other == carriage, other.is_some())
                }
            };
            if is_repeated {
                return Err(bad(format!(
                    "type: '{}' comes more than once",
                    quoted(entry, 64)
                )));
            }
            if is_other {
                return Err(bad(
                    "type: a client gets rtp-udp or udp; give those of each in a call of their own",
                ));
            }
        }
        Ok(types)
    }
}

/// OpenAPI 3.1.
pub(super) const DESCRIPTION: &str = include_str!("openapi.json");
