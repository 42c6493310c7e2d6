//! Which request may do what: the checks, in their order.
//!
//! The order is fixed (contract, *Points made exact*): framing, path, method, subnet and Origin, parameters, token, length, conflict.
//! Nothing is changed here.

use std::net::IpAddr;

use super::api::{self, Call, Name};
use super::connection::Beyond;
use super::icecast;
use super::peers;
use super::{ConnectionId, Relay};
use crate::gate::{SessionId, Subnet};
use crate::http::{Framing, Head, Method, Refusal, Status};
use crate::moment::Moment;

/// What a request that passed its checks asks for.
pub(super) enum Wish {
    Call(Call),
    Publish {
        session: SessionId,
        content_type: Option<String>,
        /// How its body ends.
        framing: Framing,
    },
    Watch {
        session: SessionId,
    },
}

const LOOK_METHODS: &str = "GET, HEAD, OPTIONS";
const STREAM_METHODS: &str = "GET, HEAD, PUT, POST, OPTIONS";

impl Relay {
    /// Checks a request and says what it asks for.
    pub(super) fn route(
        &self,
        id: ConnectionId,
        head: &Head,
        now: Moment,
    ) -> Result<Wish, Refusal> {
        let segments: Vec<&[u8]> = head.target.segments.iter().map(Vec::as_slice).collect();
        let wish = match segments.as_slice() {
            _ if self.settings.admits_icecast && icecast::is_source(head) => {
                self.route_icecast(id, head, now)
            }
            [] if head.method == Method::Options => Ok(Wish::Call(Call::Options {
                allow: STREAM_METHODS,
            })),
            [] => Err(Refusal::framing(
                Status::BadRequest,
                "the target '*' is for OPTIONS only",
            )),
            [b"stream"] => self.route_stream(id, head, None, now),
            [b"stream", session] => self.route_stream(id, head, Some(session), now),
            [b""] => self.route_page(id, head),
            [b"metrics"] => self.route_figures(id, head, Call::Metrics),
            [b"api", b"openapi.json"] => self.route_figures(id, head, Call::Description),
            [b"healthz"] => self.route_figures(id, head, Call::Health),
            [b"api", name] | [name] => match Name::parse(name) {
                Some(name) => self.route_call(id, head, name),
                None => Err(not_found()),
            },
            _ => Err(not_found()),
        };
        let beyond = self
            .connections
            .get(id)
            .and_then(|connection| connection.is_beyond_limit);
        match (wish, beyond) {
            (Ok(Wish::Call(call)), _) => Ok(Wish::Call(call)),
            (_, Some(beyond)) => Err(beyond_limit(beyond)),
            (wish, None) => wish,
        }
    }

    fn route_call(&self, id: ConnectionId, head: &Head, name: Name) -> Result<Wish, Refusal> {
        if head.method == Method::Options {
            return Ok(Wish::Call(Call::Options {
                allow: name.allow(),
            }));
        }
        if !name.knows(head.method) {
            return Err(Refusal::method(name.allow()));
        }
        self.check_caller(id, head)?;
        let call = Call::parse(
            name,
            &head.target,
            self.settings.limits.tokens.udp_clients_per_session_max,
        )?;
        let is_of_all = !self.settings.peers.is_empty() && !peers::is_of_peer(head.via.as_deref());
        Ok(Wish::Call(match call {
            Call::List(rows) if is_of_all => Call::Gather(rows),
            call => call,
        }))
    }

    /// The page is for those who may call the API, and for everyone where nothing is kept from anyone; for others there is none.
    fn route_page(&self, id: ConnectionId, head: &Head) -> Result<Wish, Refusal> {
        if self.tokens.is_some() {
            self.check_caller(id, head).map_err(|_| not_found())?;
        }
        self.route_figures(id, head, Call::Page)
    }

    /// What is only looked at: figures and description by the API's hosts, the state by anyone.
    fn route_figures(&self, id: ConnectionId, head: &Head, call: Call) -> Result<Wish, Refusal> {
        match head.method {
            Method::Options => {
                return Ok(Wish::Call(Call::Options {
                    allow: LOOK_METHODS,
                }));
            }
            Method::Get | Method::Head => {}
            Method::Put | Method::Post | Method::Delete | Method::Source | Method::Other => {
                return Err(Refusal::method(LOOK_METHODS));
            }
        }
        if matches!(call, Call::Metrics | Call::Description) {
            self.check_caller(id, head)?;
        }
        api::no_parameters(&head.target)?;
        Ok(Wish::Call(call))
    }

    /// Only the hosts of the token subnet call the API, and no browser on behalf of another site.
    fn check_caller(&self, id: ConnectionId, head: &Head) -> Result<(), Refusal> {
        if self.tokens.is_none() {
            return Err(api::framework_is_off());
        }
        let client = self.connections.get(id);
        let is_proxied = client.is_some_and(|client| client.is_proxied);
        if !client.is_some_and(|client| is_in(&self.settings.token_servers, client.peer.ip())) {
            return Err(Refusal::new(
                Status::Forbidden,
                "only the hosts of the token server's subnet may call the API",
            ));
        }
        let is_known = is_own_name(&head.host, &self.settings.hostnames);
        if !self.settings.hostnames.is_empty() && !is_known {
            return Err(Refusal::new(
                Status::Forbidden,
                "the API answers under its own names and addresses only; see --hostname",
            ));
        }
        match &head.origin {
            Some(origin) if !(is_known && is_origin_of(origin, &head.host, is_proxied)) => {
                Err(Refusal::new(
                    Status::Forbidden,
                    "the Origin is another site's; the API is not for its pages",
                ))
            }
            _ => Ok(()),
        }
    }

    fn route_stream(
        &self,
        id: ConnectionId,
        head: &Head,
        segment: Option<&[u8]>,
        now: Moment,
    ) -> Result<Wish, Refusal> {
        if head.method == Method::Options {
            return Ok(Wish::Call(Call::Options {
                allow: STREAM_METHODS,
            }));
        }
        let publishes = match head.method {
            Method::Put | Method::Post => true,
            Method::Get | Method::Head => false,
            Method::Delete | Method::Options | Method::Source | Method::Other => {
                return Err(Refusal::method(STREAM_METHODS));
            }
        };
        if publishes {
            self.check_publisher(id)?;
        }
        let session = match segment {
            Some(bytes) => {
                api::no_parameters(&head.target)?;
                api::parse_session(bytes)?
            }
            None => api::only_session(&head.target)?,
        };
        if !publishes {
            self.origins.check_via(head.via.as_deref())?;
            self.check_watch(&session, now)?;
            if !self.running.contains_key(&session) {
                self.check_wait(head.method, &session)?;
            }
            return Ok(Wish::Watch { session });
        }
        self.check_publish(&session, head.framing, now)?;
        let content_type = head
            .content_type
            .clone()
            .filter(|given| !is_form_type(given));
        Ok(Wish::Publish {
            session,
            content_type,
            framing: head.framing,
        })
    }

    fn route_icecast(&self, id: ConnectionId, head: &Head, now: Moment) -> Result<Wish, Refusal> {
        self.check_publisher(id)?;
        let session = icecast::session(head)?;
        let framing = icecast::framing(head);
        self.check_publish(&session, framing, now)?;
        Ok(Wish::Publish {
            session,
            content_type: head.content_type.clone(),
            framing,
        })
    }

    fn check_publisher(&self, id: ConnectionId) -> Result<(), Refusal> {
        let peer = self
            .connections
            .get(id)
            .map(|connection| connection.peer.ip());
        let subnets = &self.settings.publish_from;
        if subnets.is_empty() || peer.is_some_and(|peer| is_in(subnets, peer)) {
            return Ok(());
        }
        Err(Refusal::new(
            Status::Forbidden,
            "streams are taken from certain subnets only, and this host is in none of them",
        ))
    }
}

fn not_found() -> Refusal {
    Refusal::new(
        Status::NotFound,
        "nothing has this path; streams are at /stream/SESSIONID, the API is below /api/",
    )
}

fn beyond_limit(beyond: Beyond) -> Refusal {
    let (status, detail) = match beyond {
        Beyond::All => (
            Status::ServiceUnavailable,
            "the server has as many connections as it may",
        ),
        Beyond::Host => (
            Status::TooManyRequests,
            "this host has as many connections as it may",
        ),
    };
    Refusal::busy(status, detail, api::RETRY_AFTER_SECONDS)
}

/// What curl says of any body by itself does not say what the body is.
fn is_form_type(given: &str) -> bool {
    let essence = given
        .split(';')
        .next()
        .unwrap_or("")
        .trim_matches([' ', '\t']);
    essence.is_empty() || essence.eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

/// Whether a Host is an address, `localhost` or one of the configured names: no name that somebody else's DNS can point here.
fn is_own_name(host: &str, names: &[String]) -> bool {
    let name = match host.rfind(':') {
        Some(colon) if !host.ends_with(']') => &host[..colon],
        _ => host,
    };
    let address = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(name);
    address.parse::<IpAddr>().is_ok()
        || (names.is_empty() && name.eq_ignore_ascii_case("localhost"))
        || names.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Whether a page of this server's sent a request. A proxy may have brought it to the browser by TLS, of which nothing is known here.
fn is_origin_of(origin: &str, host: &str, is_proxied: bool) -> bool {
    match origin.split_once("://") {
        Some((scheme, authority)) => {
            let is_scheme = scheme.eq_ignore_ascii_case("http")
                || (is_proxied && scheme.eq_ignore_ascii_case("https"));
            is_scheme && authority.eq_ignore_ascii_case(host)
        }
        None => false,
    }
}

/// Whether an address is in one of the subnets.
pub(super) fn is_in(subnets: &[Subnet], address: IpAddr) -> bool {
    subnets.iter().any(|subnet| subnet.contains(address))
}
