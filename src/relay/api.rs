//! The API: which calls there are, what their parameters may be, and what they do (contract, *The
//! API*).
//!
//! [`Call::parse`] turns a query into a value that is right by construction; nothing is done before
//! all of it has been checked.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

use super::page::Page;
use crate::gate::{self, Carriage, Direction, Matrix, RtpTuple, SessionId, UdpClient};
use crate::http::{Method, Parameter, Refusal, Status, Target, percent_decoded, quoted};

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
    Gather(Rows),
    AbortStream {
        session: SessionId,
        /// For so long nobody is admitted to the session afterwards.
        block: Option<Duration>,
    },
    /// The operator's page.
    Page,
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
    pub session: SessionId,
    pub http: Option<Direction>,
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
        size_of::<Call>() + each.sum::<usize>()
    }
}

/// Which table is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    Tokens,
    Streams,
}

/// The calls by their names below `/api/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    AddToken,
    RevokeToken,
    ListTokens,
    ListStreams,
    AbortStream,
}

/// The answer to a call: a status and a JSON body, or what else is to happen.
pub(super) enum Answer {
    Json(Status, Vec<u8>),
    List(Rows),
    Options(&'static str),
    Page(Page),
    /// A media type and a body of it.
    Text(&'static str, Cow<'static, str>),
}

impl Name {
    pub fn parse(name: &[u8]) -> Option<Name> {
        match name {
            b"add-token" => Some(Name::AddToken),
            b"revoke-token" => Some(Name::RevokeToken),
            b"list-tokens" => Some(Name::ListTokens),
            b"list-streams" => Some(Name::ListStreams),
            b"abort-stream" => Some(Name::AbortStream),
            _ => None,
        }
    }

    /// The methods that the call answers to.
    pub fn allow(self) -> &'static str {
        match self {
            Name::AddToken => "POST, OPTIONS",
            Name::RevokeToken | Name::AbortStream => "DELETE, OPTIONS",
            Name::ListTokens | Name::ListStreams => "GET, HEAD, OPTIONS",
        }
    }

    pub fn knows(self, method: Method) -> bool {
        match self {
            Name::AddToken => method == Method::Post,
            Name::RevokeToken | Name::AbortStream => method == Method::Delete,
            Name::ListTokens | Name::ListStreams => matches!(method, Method::Get | Method::Head),
        }
    }
}

/// The parameters of a query, each of which is known and comes once.
struct Parameters<'a> {
    given: Vec<Parameter<'a>>,
}

impl<'a> Parameters<'a> {
    fn read(target: &'a Target, known: &[&str]) -> Result<Parameters<'a>, Refusal> {
        let mut given: Vec<Parameter<'a>> = Vec::new();
        for parameter in target.parameters() {
            if !known.contains(&parameter.name) {
                return Err(bad(format!(
                    "the parameter '{}' is not known here; {}",
                    quoted(parameter.name, 64),
                    if known.is_empty() {
                        "there is none".to_owned()
                    } else {
                        format!("known are: {}", known.join(", "))
                    }
                )));
            }
            if given.iter().any(|earlier| earlier.name == parameter.name) {
                return Err(bad(format!(
                    "the parameter '{}' comes more than once",
                    parameter.name
                )));
            }
            given.push(parameter);
        }
        Ok(Parameters { given })
    }

    fn raw(&self, name: &str) -> Option<&'a str> {
        self.given
            .iter()
            .find(|parameter| parameter.name == name)
            .map(|parameter| parameter.value)
    }

    fn flag(&self, name: &str) -> Result<bool, Refusal> {
        match self.raw(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(bad(format!(
                "{name}: '{}' is neither true nor false",
                quoted(other, 64)
            ))),
        }
    }

    fn seconds(&self, name: &str) -> Result<Option<Duration>, Refusal> {
        let Some(raw) = self.raw(name) else {
            return Ok(None);
        };
        let seconds = if raw.bytes().all(|byte| byte.is_ascii_digit()) {
            raw.parse().ok()
        } else {
            None
        };
        match seconds {
            Some(seconds @ 1..=BLOCK_SECONDS_MAX) => Ok(Some(Duration::from_secs(seconds))),
            Some(_) | None => Err(bad(format!(
                "{name}: '{}' is not a number of seconds from 1 to {BLOCK_SECONDS_MAX}",
                quoted(raw, 64)
            ))),
        }
    }

    fn direction(&self) -> Result<Option<Direction>, Refusal> {
        match self.raw("direction") {
            None => Ok(None),
            Some("in") => Ok(Some(Direction::In)),
            Some("out") => Ok(Some(Direction::Out)),
            Some("both") => Ok(Some(Direction::Both)),
            Some(other) => Err(bad(format!(
                "direction: '{}' is none of in, out and both",
                quoted(other, 64)
            ))),
        }
    }

    fn matrix(&self) -> Result<Option<Matrix>, Refusal> {
        let read = |raw| {
            Matrix::parse(raw).ok_or_else(|| {
                bad(format!(
                    "fec: '{}' is no matrix; give COLUMNSxROWS, such as 5x10, each from 4 to 20 and at most 100 packets together",
                    quoted(raw, 64)
                ))
            })
        };
        self.raw("fec").map(read).transpose()
    }

    fn session(&self) -> Result<SessionId, Refusal> {
        let raw = self
            .raw("sessionid")
            .ok_or_else(|| bad("the parameter 'sessionid' is missing"))?;
        let bytes = percent_decoded(raw).ok_or_else(|| {
            bad("the parameter 'sessionid' has a % that two hexadecimal digits do not follow")
        })?;
        parse_session(&bytes)
    }
}

/// A sessionid out of its bytes, with a refusal that says what is wrong with them.
pub(super) fn parse_session(bytes: &[u8]) -> Result<SessionId, Refusal> {
    SessionId::parse(bytes).map_err(|error| bad(format!("sessionid: {error}")))
}

fn bad(detail: impl Into<String>) -> Refusal {
    Refusal::new(Status::BadRequest, detail)
}

/// The session that a query alone names, as `/stream?sessionid=…` does.
pub(super) fn only_session(target: &Target) -> Result<SessionId, Refusal> {
    Parameters::read(target, &["sessionid"])?.session()
}

/// Nothing may stand in the query.
pub(super) fn no_parameters(target: &Target) -> Result<(), Refusal> {
    Parameters::read(target, &[]).map(|_| ())
}

impl Call {
    /// What a request to this call asks for; 400 names the parameter and the entry at fault.
    pub fn parse(name: Name, target: &Target, udp_clients_max: usize) -> Result<Call, Refusal> {
        match name {
            Name::AddToken => parse_add_token(target, udp_clients_max).map(Call::AddToken),
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
            Name::ListTokens => no_parameters(target).map(|()| Call::List(Rows::Tokens)),
            Name::ListStreams => no_parameters(target).map(|()| Call::List(Rows::Streams)),
        }
    }
}

fn parse_add_token(target: &Target, udp_clients_max: usize) -> Result<AddToken, Refusal> {
    let known = ["type", "sessionid", "udp-clients", "direction", "fec"];
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
    let carriage = match (parameters.matrix()?, types.carriage) {
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
    let direction = parameters.direction()?;
    if direction.is_some() && !types.http {
        return Err(bad("direction is given, but type does not say http"));
    }
    Ok(AddToken {
        session,
        http: types.http.then_some(direction.unwrap_or(Direction::Both)),
        clients,
        carriage,
    })
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

/// The longest that a session can be blocked: a day.
const BLOCK_SECONDS_MAX: u64 = 86_400;
