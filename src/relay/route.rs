//! Which request asks for what: the checks, in their order.
//!
//! The order is fixed (contract, *Points made exact*): framing, path, method, subnet and Origin,
//! parameters, token, length, conflict. Who may do what is answered by [`super::admission`];
//! nothing is changed here.

use super::Relay;
use super::admission::{Caller, Claim, Standing, Way, not_found};
use super::api::{self, Call, Name};
use super::desk::Desk;
use super::grants::Grants;
use super::icecast;
use super::lists::is_of_peer;
use crate::gate::SessionId;
use crate::http::{Framing, Head, Method, Refusal, Status};

/// What a request that passed its checks asks for.
pub(super) enum Wish {
    Call(Call),
    Publish {
        /// The sessionid by which its client comes in, and the session that it opens.
        key: SessionId,
        session: SessionId,
        content_type: Option<String>,
        /// How its body ends.
        framing: Framing,
    },
    Watch {
        /// The same.
        key: SessionId,
        session: SessionId,
    },
}

/// A request, and whose it is.
#[derive(Clone, Copy)]
struct Asked<'a> {
    caller: Caller,
    head: &'a Head,
    /// How what follows the head ends.
    framing: Framing,
}

impl<'a> Asked<'a> {
    fn claim(&self, way: Way) -> Claim<'a> {
        Claim::of(way, self.caller, self.head)
    }
}

const LOOK_METHODS: &str = "GET, HEAD, OPTIONS";
const STREAM_METHODS: &str = "GET, HEAD, PUT, POST, OPTIONS";

impl Grants {
    fn route_options(
        &self,
        asked: Asked<'_>,
        allow: &'static str,
        desk: &Desk,
    ) -> Result<Wish, Refusal> {
        self.gate(desk).enter(&asked.claim(Way::Options))?;
        Ok(Wish::Call(Call::Options { allow }))
    }

    fn route_call(&self, asked: Asked<'_>, name: Name, desk: &Desk) -> Result<Wish, Refusal> {
        let head = asked.head;
        if head.method == Method::Options {
            return self.route_options(asked, name.allow(), desk);
        }
        if !name.knows(head.method) {
            return Err(Refusal::method(name.allow()));
        }
        self.gate(desk).enter(&asked.claim(Way::Call))?;
        let call = Call::parse(
            name,
            &head.target,
            (
                desk.settings.limits.tokens.udp_clients_per_session_max,
                desk.date().0,
            ),
        )?;
        let is_of_all = !desk.settings.peers.is_empty() && !is_of_peer(head.via.as_deref());
        Ok(Wish::Call(match call {
            Call::List(rows) if is_of_all => Call::Gather(rows),
            call => call,
        }))
    }

    /// What is only looked at.
    fn route_look(
        &self,
        asked: Asked<'_>,
        way: Way,
        call: Call,
        desk: &Desk,
    ) -> Result<Wish, Refusal> {
        // Whether there is a page at all depends on who asks.
        if way == Way::Page {
            self.gate(desk).enter(&asked.claim(way))?;
        }
        match asked.head.method {
            Method::Options => return self.route_options(asked, LOOK_METHODS, desk),
            Method::Get | Method::Head => {}
            Method::Put | Method::Post | Method::Delete | Method::Source | Method::Other => {
                return Err(Refusal::method(LOOK_METHODS));
            }
        }
        self.gate(desk).enter(&asked.claim(way))?;
        api::no_parameters(&asked.head.target)?;
        Ok(Wish::Call(call))
    }
}

impl Relay {
    /// Checks a request and says what it asks for.
    pub(super) fn route(
        &self,
        caller: Caller,
        head: &Head,
        framing: Framing,
    ) -> Result<Wish, Refusal> {
        let wish = self.route_path(Asked {
            caller,
            head,
            framing,
        });
        // Beyond a limit there are no streams, and nothing is told of them.
        let way = match &wish {
            Ok(Wish::Call(_)) => Way::Call,
            Ok(Wish::Publish { .. }) => Way::Put,
            Ok(Wish::Watch { .. }) | Err(_) => Way::Viewer,
        };
        self.grants.gate(&self.desk).place(way, caller.beyond)?;
        wish
    }

    fn route_path(&self, asked: Asked<'_>) -> Result<Wish, Refusal> {
        let head = asked.head;
        let segments: Vec<&[u8]> = head.target.segments.iter().map(Vec::as_slice).collect();
        match segments.as_slice() {
            _ if self.desk.settings.admits_icecast && icecast::is_source(head) => {
                self.route_icecast(asked)
            }
            [] if head.method == Method::Options => {
                self.grants.route_options(asked, STREAM_METHODS, &self.desk)
            }
            [] => Err(Refusal::framing(
                Status::BadRequest,
                "the target '*' is for OPTIONS only",
            )),
            [b"stream"] => self.route_stream(asked, None),
            [b"stream", session] => self.route_stream(asked, Some(session)),
            [b""] => self
                .grants
                .route_look(asked, Way::Page, Call::Page, &self.desk),
            [b"metrics"] => self
                .grants
                .route_look(asked, Way::Figures, Call::Metrics, &self.desk),
            [b"api", b"openapi.json"] => {
                self.grants
                    .route_look(asked, Way::Figures, Call::Description, &self.desk)
            }
            [b"healthz"] => self
                .grants
                .route_look(asked, Way::Health, Call::Health, &self.desk),
            [b"api", name] | [name] => match Name::parse(name) {
                Some(name) => self.grants.route_call(asked, name, &self.desk),
                None => Err(not_found()),
            },
            _ => Err(not_found()),
        }
    }

    fn route_stream(&self, asked: Asked<'_>, segment: Option<&[u8]>) -> Result<Wish, Refusal> {
        let head = asked.head;
        let way = match head.method {
            Method::Put => Way::Put,
            Method::Post => Way::Post,
            Method::Get | Method::Head => Way::Viewer,
            Method::Options => return self.grants.route_options(asked, STREAM_METHODS, &self.desk),
            Method::Delete | Method::Source | Method::Other => {
                return Err(Refusal::method(STREAM_METHODS));
            }
        };
        let (gate, claim) = (self.grants.gate(&self.desk), asked.claim(way));
        gate.enter(&claim)?;
        let key = match segment {
            Some(bytes) => {
                api::no_parameters(&head.target)?;
                api::parse_session(bytes)?
            }
            None => api::only_session(&head.target)?,
        };
        let session = gate.opened_by(&key).clone();
        let standing = Standing {
            viewers_by_name: self.clients.viewers_by(&key),
            ..self.standing(&session)
        };
        if way == Way::Viewer {
            self.fetch.check_via(head.via.as_deref())?;
            gate.watch(&key, &standing)?;
            gate.wait(head.method, &standing)?;
            return Ok(Wish::Watch { key, session });
        }
        gate.publish(&claim, &key, head.framing, &standing)?;
        Ok(Wish::Publish {
            key,
            session,
            content_type: head.content_type.clone(),
            framing: head.framing,
        })
    }

    fn route_icecast(&self, asked: Asked<'_>) -> Result<Wish, Refusal> {
        let (gate, claim) = (self.grants.gate(&self.desk), asked.claim(Way::Icecast));
        gate.enter(&claim)?;
        let key = icecast::session(asked.head)?;
        let session = gate.opened_by(&key).clone();
        let framing = match asked.framing {
            Framing::UntilClose if !icecast::waits_for_leave(asked.head) => Framing::None,
            framing => framing,
        };
        gate.publish(&claim, &key, framing, &self.standing(&session))?;
        Ok(Wish::Publish {
            key,
            session,
            content_type: asked.head.content_type.clone(),
            framing,
        })
    }
}
