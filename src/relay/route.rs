//! Routing: what a request asks for, with the checks in a fixed order.
//!
//! The order: framing, path, method, subnet and Origin, parameters, token, length, conflict.
//! [`super::admission`] decides about access. Routing changes nothing.

#[cfg_attr(not(feature = "icecast"), path = "route/by_icecast/absent.rs")]
mod by_icecast;

use super::admission::{
    AccessRequest, Admission, Caller, Disclosure, EntryPoint, Gate, SessionState, not_found,
};
use super::api::{About, Call, Name, stream_url};
use super::lists::is_of_peer;
use super::page::Page;
use super::parameters::{no_parameters, only_session, parse_session};
use super::view::View;
use super::{Settings, icecast};
use crate::events::EventId;
use crate::gate::SessionId;
use crate::hls::HlsRequest;
use crate::http::{Framing, Head, Method, Parameter, Refusal, Status, Target, percent_encoded};

/// A request that passed its checks.
pub(super) enum Route {
    Call(Call),
    Publish {
        /// Record of its admission. `None`: tokens are off.
        admission: Option<Admission>,
        session: SessionId,
        content_type: Option<String>,
        /// How its body ends.
        framing: Framing,
    },
    Watch {
        /// Record of the viewer. `None`: tokens are off.
        admission: Option<Admission>,
        session: SessionId,
        /// The part of the session.
        view: View,
    },
}

/// A request with all that routing needs.
pub(super) struct RequestContext<'a> {
    /// Client that sent it.
    pub caller: Caller,
    /// Its head.
    pub head: &'a Head,
    /// Decides about access.
    pub gate: Gate<'a>,
    /// Returns the state of a session for a request: the session, and the request's session id.
    pub session_state: &'a dyn Fn(&SessionId, &SessionId) -> SessionState,
    /// Refuses a request that may not be passed on to an origin.
    pub may_pass: &'a dyn Fn() -> Result<(), Refusal>,
}

/// Files below a stream with its title and its address.
const ABOUT_FILES: [&[u8]; 3] = [b"now.json", b"listen.m3u", b"listen.pls"];

/// Parameters of a playlist: `sessionid`, `_HLS_msn`, `_HLS_part` and `_HLS_skip`.
const LIST_PARAMETERS_MAX: usize = 4;
const READING_METHODS: &str = "GET, HEAD, OPTIONS";
const STREAM_METHODS: &str = "GET, HEAD, PUT, POST, OPTIONS";

impl<'a> RequestContext<'a> {
    /// Checks the request and returns its route.
    pub fn route(&self) -> Result<Route, Refusal> {
        let route = self.route_of_path();
        // Connections beyond a limit get no streams, and no information about any.
        let entry_point = route
            .as_ref()
            .map_or(EntryPoint::Viewer, |route| self.entry_point(route));
        self.gate
            .check_connection_limits(entry_point, self.caller.beyond)?;
        let route = route?;
        let is_by_token = match entry_point {
            EntryPoint::Viewer | EntryPoint::Remuxed | EntryPoint::Hls | EntryPoint::WatchPage => {
                true
            }
            EntryPoint::Icecast => matches!(route, Route::Call(_)),
            _ => false,
        };
        // The token could be revoked before all of the body has come.
        match is_by_token && self.head.has_payload() {
            true => Err(Refusal::framing(
                Status::BadRequest,
                "a body, which has no meaning here and must go",
            )),
            false => Ok(route),
        }
    }

    fn entry_point(&self, route: &Route) -> EntryPoint {
        match route {
            Route::Call(Call::Follow { .. }) => EntryPoint::Events,
            Route::Call(Call::WatchPage(_) | Call::About(_)) => EntryPoint::WatchPage,
            Route::Call(Call::SetTitle {
                is_icecast: true, ..
            }) => EntryPoint::Icecast,
            Route::Call(Call::Moved(_)) => EntryPoint::Hls,
            Route::Call(Call::Metrics) => EntryPoint::Metrics,
            Route::Call(Call::Page) => EntryPoint::Page,
            Route::Call(Call::Health) => EntryPoint::Health,
            Route::Call(Call::Options { .. }) => EntryPoint::Options,
            Route::Call(_) => EntryPoint::Call,
            Route::Publish { .. }
                if self.gate.settings.admits_icecast && icecast::is_source(self.head) =>
            {
                EntryPoint::Icecast
            }
            Route::Publish { .. } if self.head.method == Method::Post => EntryPoint::Post,
            Route::Publish { .. } => EntryPoint::Put,
            Route::Watch { view, .. } => view.entry_point(),
        }
    }

    /// Returns the access request to keep, if the request may last. A viewer's is not kept: a successor
    /// asks about its client alone.
    pub fn kept_request(&self, route: &Route) -> Option<AccessRequest> {
        match route {
            Route::Call(_) | Route::Publish { .. } => {
                Some(self.access_request(self.entry_point(route)))
            }
            Route::Watch { .. } => None,
        }
    }

    fn access_request(&self, entry_point: EntryPoint) -> AccessRequest {
        AccessRequest::of(entry_point, self.caller, self.head)
    }

    fn route_of_path(&self) -> Result<Route, Refusal> {
        let segments = &self.head.target.segments;
        let segments: Vec<&[u8]> = segments.iter().map(Vec::as_slice).collect();
        if self.gate.settings.admits_icecast
            && let Some(route) = self.route_of_icecast(&segments)
        {
            return route;
        }
        match segments.as_slice() {
            [] if self.head.method == Method::Options => self.options(STREAM_METHODS),
            [] => Err(Refusal::framing(
                Status::BadRequest,
                "the target '*' is for OPTIONS only",
            )),
            [b"stream"] => self.stream(None),
            [b"stream", file] if self.is_list_by_query(file) => self.list_by_query(file),
            [b"stream", session] => self.stream(Some(session)),
            [b"stream", session, file] if ABOUT_FILES.contains(file) => {
                self.about_stream(Some(session), file)
            }
            [b"stream", session, file] => self.stream_as(session, file),
            [b"watch"] if Page::IS_HERE => self.about_stream(None, b""),
            [b"watch", session] if Page::IS_HERE => self.about_stream(Some(session), b""),
            [b""] if Page::IS_HERE => self.reading_call(EntryPoint::Page, Call::Page),
            [b"metrics"] => self.reading_call(EntryPoint::Metrics, Call::Metrics),
            [b"api"] | [b"api", b"" | b"openapi.json"] => {
                self.reading_call(EntryPoint::Call, Call::Description)
            }
            [b"healthz"] => self.reading_call(EntryPoint::Health, Call::Health),
            [b"api", name] | [name] => match Name::parse(name) {
                Some(name) => self.call(name),
                None => Err(not_found()),
            },
            _ => Err(not_found()),
        }
    }

    fn options(&self, allow: &'static str) -> Result<Route, Refusal> {
        self.gate.enter(&self.access_request(EntryPoint::Options))?;
        Ok(Route::Call(Call::Options { allow }))
    }

    fn call(&self, name: Name) -> Result<Route, Refusal> {
        let head = self.head;
        let allow = name.allow();
        if head.method == Method::Options {
            return self.options(allow);
        }
        if !allow.split(", ").any(|method| method == head.method_token) {
            return Err(Refusal::method(allow));
        }
        let entry_point = match name {
            Name::Events => EntryPoint::Events,
            _ => EntryPoint::Call,
        };
        self.gate.enter(&self.access_request(entry_point))?;
        self.gate.check_call_without_tokens(name)?;
        let settings = self.gate.settings;
        let udp_clients_max = settings.limits.tokens.udp_clients_per_session_max;
        let limits = (udp_clients_max, self.gate.time);
        let call = Call::parse(name, &head.target, limits).map_err(|bad| {
            if head.has_payload() && head.target.query.is_none() {
                let detail = format!(
                    "{}; parameters go in the query, such as ?type=http&sessionid=ID, not in the body",
                    bad.detail
                );
                return Refusal { detail, ..bad };
            }
            bad
        })?;
        let is_of_all = !settings.peers.is_empty() && !is_of_peer(head.fields.via.as_deref());
        Ok(Route::Call(match call {
            Call::List(rows) if is_of_all => Call::Collect(rows),
            // An id of another server, or no id: the reader gets everything anew.
            Call::Follow { of, .. } => {
                self.gate.check_open()?;
                let last = head.fields.last_event_id.as_deref();
                let last = last.map(|last| EventId::of_text(last).unwrap_or(EventId::UNKNOWN));
                Call::Follow { of, last }
            }
            call => call,
        }))
    }

    /// Routes a request that only looks. GET and HEAD are routed by `route`.
    fn route_reading(
        &self,
        entry_point: EntryPoint,
        route: impl FnOnce(AccessRequest) -> Result<Route, Refusal>,
    ) -> Result<Route, Refusal> {
        match self.head.method {
            Method::Options => self.options(READING_METHODS),
            Method::Get | Method::Head => {
                let access_request = self.access_request(entry_point);
                self.gate.enter(&access_request)?;
                route(access_request)
            }
            Method::Put | Method::Post | Method::Delete | Method::Source | Method::Other => {
                Err(Refusal::method(READING_METHODS))
            }
        }
    }

    /// Routes a call that only looks and has no parameters.
    fn reading_call(&self, entry_point: EntryPoint, call: Call) -> Result<Route, Refusal> {
        // Only the operator's hosts learn whether there is a page.
        if entry_point == EntryPoint::Page {
            self.gate.enter(&self.access_request(entry_point))?;
        }
        self.route_reading(entry_point, |_| {
            no_parameters(&self.head.target)?;
            Ok(Route::Call(call))
        })
    }

    fn stream(&self, segment: Option<&[u8]>) -> Result<Route, Refusal> {
        let head = self.head;
        let entry_point = match head.method {
            Method::Put => EntryPoint::Put,
            Method::Post => EntryPoint::Post,
            Method::Get | Method::Head => EntryPoint::Viewer,
            Method::Options => return self.options(STREAM_METHODS),
            Method::Delete | Method::Source | Method::Other => {
                return Err(Refusal::method(STREAM_METHODS));
            }
        };
        let access_request = self.access_request(entry_point);
        self.gate.enter(&access_request)?;
        let credential = self.session_named(segment)?;
        let session = self.gate.opened_by(&credential).clone();
        let session_state = (self.session_state)(&session, &credential);
        if entry_point == EntryPoint::Viewer {
            (self.may_pass)()?;
            self.gate.admit_viewer(
                &access_request,
                &credential,
                &session_state,
                self.disclosure_to_viewer(&View::Whole),
            )?;
            self.gate.wait(head.method, &session_state)?;
            let admission = self.gate.admission(credential, &session, entry_point);
            return Ok(Route::Watch {
                admission,
                session,
                view: View::Whole,
            });
        }
        self.gate
            .publish(&access_request, &credential, head.framing, &session_state)?;
        Ok(Route::Publish {
            admission: self.gate.admission(credential, &session, entry_point),
            session,
            content_type: head.fields.content_type.clone(),
            framing: head.framing,
        })
    }

    /// Returns how a viewer's request finds out about the session. No origin is asked for a HEAD or
    /// a segment.
    fn disclosure_to_viewer(&self, view: &View) -> Disclosure {
        match self.head.method {
            Method::Head => Disclosure::RunningOnly,
            _ if !view.can_wait() => Disclosure::RunningOnly,
            _ => Disclosure::Full,
        }
    }

    /// Returns the session that this segment of the path names, or else the query.
    fn session_named(&self, segment: Option<&[u8]>) -> Result<SessionId, Refusal> {
        match segment {
            Some(bytes) => {
                no_parameters(&self.head.target)?;
                parse_session(bytes)
            }
            None => only_session(&self.head.target),
        }
    }

    /// Routes a request about a session, by the name of a file: its title, its playlist for players
    /// of radio, or the page for watching it. A viewer that is refused the stream gets the same
    /// status in a page: it is for a browser.
    fn about_stream(&self, segment: Option<&[u8]>, file: &[u8]) -> Result<Route, Refusal> {
        self.route_reading(EntryPoint::WatchPage, |access_request| {
            let credential = self.session_named(segment)?;
            let session = self.gate.opened_by(&credential).clone();
            let session_state = (self.session_state)(&session, &credential);
            let from = access_request.from.map(|from| from.ip());
            let check = |disclosure| {
                self.gate.check_token_and_blocks(
                    from,
                    &credential,
                    &session,
                    &session_state,
                    disclosure,
                )
            };
            let verdict = check(Disclosure::Nothing);
            if file.is_empty() {
                return Ok(Route::Call(Call::WatchPage(verdict.err().map(Box::new))));
            }
            verdict?;
            let may_reveal = check(Disclosure::RunningOnly).is_ok();
            Ok(Route::Call(Call::About(About {
                file: String::from_utf8_lossy(file).into(),
                session: may_reveal.then_some(session),
                address: stream_url(&self.origin(), &credential).into(),
            })))
        })
    }

    /// Returns the beginning of addresses: `--public-url`, or the scheme and authority by which the
    /// client reached the server. It is empty if the client does not name the server, so that
    /// addresses are relative.
    fn origin(&self) -> String {
        if let Some(url) = self.gate.settings.public_url.strip_suffix('/') {
            return url.into();
        }
        let is_https = self.caller.is_proxied && self.head.fields.forwarded.is_https();
        match (self.head.host.as_str(), is_https) {
            ("", _) => String::new(),
            (host, true) => format!("https://{host}"),
            (host, false) => format!("http://{host}"),
        }
    }

    /// Routes a playlist, a segment, or the stream in another container.
    fn stream_as(&self, session: &[u8], file: &[u8]) -> Result<Route, Refusal> {
        let view = View::of(file, &self.head.target, self.gate.settings);
        let (entry_point, view) = view.ok_or_else(not_found)?;
        self.route_reading(entry_point, |access_request| {
            let view = view?;
            let credential = parse_session(session)?;
            let session = self.gate.opened_by(&credential).clone();
            let session_state = (self.session_state)(&session, &credential);
            (self.may_pass)()?;
            let disclosure = self.disclosure_to_viewer(&view);
            match &view {
                View::Whole | View::In(_) | View::Poster => {
                    self.gate.admit_viewer(
                        &access_request,
                        &credential,
                        &session_state,
                        disclosure,
                    )?;
                }
                View::Part(_) => {
                    let from = access_request.from.map(|from| from.ip());
                    self.gate
                        .admit_hls(from, &credential, &session_state, disclosure)?;
                }
            }
            Ok(Route::Watch {
                admission: self.gate.admission(credential, &session, entry_point),
                session,
                view,
            })
        })
    }

    /// Returns whether the request is for a playlist whose session the query names.
    fn is_list_by_query(&self, file: &[u8]) -> bool {
        let mut parameters = self.head.target.parameters();
        let is_reading = matches!(self.head.method, Method::Get | Method::Head);
        let is_list = self.gate.settings.serves_hls && file == HlsRequest::LIST.as_bytes();
        is_reading && is_list && parameters.any(|parameter| parameter.name == "sessionid")
    }

    /// Redirects to the path with the session id, since a playlist names its files relative to it.
    fn list_by_query(&self, file: &[u8]) -> Result<Route, Refusal> {
        let access_request = self.access_request(EntryPoint::Hls);
        self.gate.enter(&access_request)?;
        let is_session = |parameter: &Parameter<'_>| parameter.name == "sessionid";
        let target = &self.head.target;
        // What is too much is refused before anything is made of it.
        if target.parameters().nth(LIST_PARAMETERS_MAX).is_some() {
            let detail = "a playlist has a sessionid, _HLS_msn, _HLS_part and _HLS_skip; each once";
            return Err(Refusal::new(Status::BadRequest, detail));
        }
        let of_query = |keep: &dyn Fn(&Parameter<'_>) -> bool| Target {
            segments: Vec::new(),
            is_plain: true,
            query: Some(joined(target.parameters().filter(keep))).filter(|query| !query.is_empty()),
        };
        let credential = only_session(&of_query(&is_session))?;
        let rest = of_query(&|parameter| !is_session(parameter));
        let wanted = HlsRequest::of(file, &rest).unwrap_or_else(|| Err(not_found()))?;
        let session = self.gate.opened_by(&credential);
        let session_state = (self.session_state)(session, &credential);
        (self.may_pass)()?;
        let from = access_request.from.map(|from| from.ip());
        self.gate.check_token_and_blocks(
            from,
            &credential,
            session,
            &session_state,
            Disclosure::Nothing,
        )?;
        if matches!(credential.as_str(), "." | "..") {
            let detail = format!(
                "no path can name '{}', and a playlist has one",
                credential.as_str()
            );
            return Err(Refusal::new(Status::NotFound, detail));
        }
        let folder = percent_encoded(credential.as_str());
        let query = wanted.query();
        let query = query.map_or(String::new(), |query| format!("?{query}"));
        let address = format!("{folder}/{}{query}", HlsRequest::LIST);
        Ok(Route::Call(Call::Moved(address.into())))
    }
}

/// Returns the parameters as a query.
fn joined<'a>(parameters: impl Iterator<Item = Parameter<'a>>) -> String {
    let each = parameters.map(|Parameter { name, value }| format!("{name}={value}"));
    each.collect::<Vec<_>>().join("&")
}

/// Returns the session that a request would publish, by its path, query or password.
pub(super) fn published(head: &Head, settings: &Settings) -> Option<SessionId> {
    if settings.admits_icecast && icecast::is_source(head) {
        return icecast::session(head).ok();
    }
    if !matches!(head.method, Method::Put | Method::Post) {
        return None;
    }
    let segments: Vec<&[u8]> = head.target.segments.iter().map(Vec::as_slice).collect();
    match segments.as_slice() {
        [b"stream"] => only_session(&head.target).ok(),
        [b"stream", session] => parse_session(session).ok(),
        _ => None,
    }
}

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;
