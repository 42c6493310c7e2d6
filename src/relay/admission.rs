//! Admission: which client may do what. All entry points ask here, and no other code decides. UDP
//! clients do not ask: tokens name them, and add-token decides about them (`grants`).
//!
//! A request for access is an [`AccessRequest`]: the [`EntryPoint`], the address, the credential. A
//! credential is the session id in the request: a session's own, or a key. A session is what the
//! credential opens. The questions have a fixed order: [`Gate::enter`] (subnet, site, Host) before
//! the parameters are read, then [`Gate::publish`], [`Gate::admit_viewer`] or [`Gate::change`]
//! (token, block, shutdown, length, conflict, room). A new rule gets a variant of `Rule` in
//! `tests.rs`, which tries it at every entry point.
//!
//! Unknown means untrusted. A client behind a proxy that does not name it is anonymous, and an
//! entry point without a rule of its own refuses. Admission changes nothing.

use std::net::{IpAddr, SocketAddr};

use super::Settings;
use super::api::Name;
use super::lists::is_of_proxy;
use super::quota::SourceLimits;
use crate::gate::{Blocks, Denied, SessionId, Subnet, Tokens, Transport, network_of};
use crate::http::{Framing, Head, Method, RETRY_AFTER_SECONDS, Refusal, Status};
use crate::time::{Instant, UnixTime};

pub(super) use connections::{AddressFrom, Beyond, Others};
use record::ClientRole;
pub(super) use record::{Admission, BlockedViewer};
use refusals::{blocked_for, forbidden, no_token, not_running, token_is_over};
pub(super) use refusals::{kicked, no_stream, no_viewer, not_found, tokens_are_off};
pub(super) use watchers::Disclosure;

/// Entry point through which a client comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum EntryPoint {
    /// A source's PUT.
    Put,
    /// A source's POST.
    Post,
    /// A source as Icecast's clients are.
    Icecast,
    /// A source by RTMP.
    Rtmp,
    /// A source that sends RTP from its own address.
    Rtp,
    /// A source that sends MPEG-TS without RTP from its own address.
    Bare,
    /// A source that sends RTP to a multicast group.
    Group,
    /// A source that sends MPEG-TS without RTP to a multicast group.
    BareGroup,
    /// An origin's response, which becomes the source.
    Pull,
    /// A viewer over HTTP.
    Viewer,
    /// A viewer of a remuxed stream.
    Remuxed,
    /// A request for an HLS playlist or segment.
    Hls,
    /// A call of the API.
    Call,
    /// A reader of `/api/events`.
    Events,
    /// A request for `/metrics`.
    Metrics,
    /// The operator's page.
    Page,
    /// The page on which a browser plays a stream.
    WatchPage,
    /// A health check.
    Health,
    /// OPTIONS: the methods of a path.
    Options,
}

/// Entry points with the same rules.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RuleSet {
    /// A source's request.
    Publish,
    /// A source's datagrams.
    Datagrams,
    Pull,
    Watch,
    Call,
    Page,
    /// Needs no right.
    Open,
}

impl EntryPoint {
    fn rule_set(self) -> RuleSet {
        match self {
            EntryPoint::Put | EntryPoint::Post | EntryPoint::Icecast | EntryPoint::Rtmp => {
                RuleSet::Publish
            }
            EntryPoint::Rtp | EntryPoint::Bare | EntryPoint::Group | EntryPoint::BareGroup => {
                RuleSet::Datagrams
            }
            EntryPoint::Pull => RuleSet::Pull,
            EntryPoint::Viewer | EntryPoint::Remuxed | EntryPoint::Hls | EntryPoint::WatchPage => {
                RuleSet::Watch
            }
            EntryPoint::Call | EntryPoint::Events | EntryPoint::Metrics => RuleSet::Call,
            EntryPoint::Page => RuleSet::Page,
            EntryPoint::Health | EntryPoint::Options => RuleSet::Open,
        }
    }
}

/// Client that sent a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    /// Address of the client. It is a proxy's address if `is_named` is false.
    pub peer: SocketAddr,
    /// Whether the client's address is known. It is not if a proxy does not name the client.
    pub is_named: bool,
    /// A configured proxy passed the request on. The client may have used TLS.
    pub is_proxied: bool,
    /// Limit that its connection exceeds.
    pub beyond: Option<Beyond>,
}

/// What admission knows of a client and of its request. A request that may last is kept until it is
/// answered, so that a successor can decide about it again. The successor learns the client from
/// the connection.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct AccessRequest {
    /// Entry point.
    pub entry_point: EntryPoint,
    /// Address of the client. `None`: a proxy does not name the client.
    #[cfg_attr(feature = "handover", serde(skip))]
    pub from: Option<SocketAddr>,
    /// Multicast group that a token must name. `None`: the token must name `from`.
    #[cfg_attr(feature = "handover", serde(skip))]
    pub to: Option<SocketAddr>,
    /// A configured proxy passed the request on. The client may have used TLS.
    #[cfg_attr(feature = "handover", serde(skip))]
    pub is_proxied: bool,
    /// Host and port that the request is for.
    pub host: String,
    /// `Origin`
    pub origin: Option<String>,
    /// `Sec-Fetch-Site`
    pub site: Option<String>,
    /// The request has a field that proxies write. The client may have written it itself.
    pub is_forwarded: bool,
    /// A field names somebody else in front of the client. So the client is a proxy itself.
    pub names_another: bool,
}

/// State of a session and of the client that asks about it, and whether the limits leave room.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionState {
    /// The session has a stream. The stream may be held: it then waits for a source.
    pub runs: bool,
    /// The session has a source now.
    pub has_source: bool,
    /// An origin's stream is its source, or the server is asking for one.
    pub is_fetched: bool,
    /// The origin that was asked last has refused the session.
    pub is_forbidden: bool,
    /// `--streams` leaves room for its stream. This is also true if it has one.
    pub has_room: bool,
    /// The limits leave room for one more pull. Only [`Gate::wait`] needs this.
    pub has_room_for_pull: bool,
    /// Number of its viewers over HTTP, waiting ones included, and of counted HLS addresses. 0
    /// while tokens are off. HLS addresses count only where a token has `max-viewers`.
    pub viewers: usize,
    /// Number of viewers by the session id of this request.
    pub viewers_by_credential: usize,
    /// Whether this client's address is already a counted HLS address. `false`: it is not, and one
    /// more can be counted. `None`: it is not, and no more can be counted.
    pub hls_address: Option<bool>,
    /// Why its stream cannot go out over HTTP. `None`: it can.
    pub http_fault: Option<String>,
}

/// Decides about access during one input, by the tokens, the blocks and the settings.
pub(super) struct Gate<'a> {
    pub settings: &'a Settings,
    pub tokens: Option<&'a Tokens>,
    pub blocks: &'a Blocks<SessionId>,
    /// Blocked viewers.
    pub blocked_viewers: &'a Blocks<BlockedViewer>,
    /// The server is shutting down.
    pub is_closing: bool,
    /// The time of the input.
    pub now: Instant,
    /// The same time by the calendar.
    pub time: UnixTime,
}

impl AccessRequest {
    /// Creates the access request of an HTTP request.
    pub fn of(entry_point: EntryPoint, caller: Caller, head: &Head) -> AccessRequest {
        let Head { host, fields, .. } = head;
        let request = AccessRequest {
            host: host.clone(),
            origin: fields.origin.clone(),
            site: fields.site.clone(),
            is_forwarded: fields.forwarded.is_there() || is_of_proxy(fields.via.as_deref()),
            names_another: fields.forwarded.names_another(caller.peer.ip()),
            ..AccessRequest::without_request(entry_point, caller.peer)
        };
        request.by(caller)
    }

    /// Creates the access request of a source without an HTTP request: datagrams, or an origin.
    pub fn without_request(entry_point: EntryPoint, from: SocketAddr) -> AccessRequest {
        AccessRequest {
            entry_point,
            from: Some(from),
            to: None,
            is_proxied: false,
            host: String::new(),
            origin: None,
            site: None,
            is_forwarded: false,
            names_another: false,
        }
    }

    /// Sets the client that sends the request.
    pub fn by(self, caller: Caller) -> AccessRequest {
        AccessRequest {
            from: caller.is_named.then_some(caller.peer),
            is_proxied: caller.is_proxied,
            ..self
        }
    }
}

impl Gate<'_> {
    /// Refuses a request on a connection beyond a limit, unless its answer needs no place.
    pub fn check_connection_limits(
        &self,
        entry_point: EntryPoint,
        beyond: Option<Beyond>,
    ) -> Result<(), Refusal> {
        let (status, detail) = match (entry_point, beyond) {
            (_, None) => return Ok(()),
            (
                EntryPoint::Call
                | EntryPoint::Metrics
                | EntryPoint::Page
                | EntryPoint::Health
                | EntryPoint::Options,
                _,
            ) => return Ok(()),
            (_, Some(Beyond::All)) => (
                Status::ServiceUnavailable,
                "the server has reached its limit of connections (--connections); try again later, or raise it",
            ),
            (_, Some(Beyond::Host)) => (
                Status::TooManyRequests,
                "this address has reached its limit of connections (--connections-per-host); close one, or raise the limit",
            ),
        };
        Err(Refusal::new(status, detail).retry_after(RETRY_AFTER_SECONDS))
    }

    // ---- Subnet, site and Host: before anything else is read ------------------------------------

    /// Checks the rules of an entry point that need no parameters: subnet, site and Host.
    pub fn enter(&self, access_request: &AccessRequest) -> Result<(), Refusal> {
        match access_request.entry_point.rule_set() {
            RuleSet::Publish => {
                check_named(access_request)?;
                self.check_source(access_request)?;
                self.check_publishing_page(access_request)
            }
            RuleSet::Datagrams => self.check_source(access_request),
            // The operator has named it.
            RuleSet::Pull => Ok(()),
            RuleSet::Watch => check_named(access_request),
            RuleSet::Call => {
                let may_read = access_request.entry_point == EntryPoint::Metrics
                    && self.is_from(access_request, &self.settings.metrics_from);
                if !may_read {
                    self.check_caller(access_request)?;
                }
                check_no_stranger_proxy(access_request)?;
                self.check_host(access_request)?;
                self.check_calling_page(access_request)
            }
            // While tokens are off, the page is for everyone. Otherwise other hosts than the API's
            // get 404.
            RuleSet::Page if self.tokens.is_none() => check_named(access_request),
            RuleSet::Page => {
                self.check_caller(access_request).map_err(|_| {
                    let mut refusal = not_found();
                    refusal.detail += &self.missed_by(access_request);
                    refusal
                })?;
                check_no_stranger_proxy(access_request)?;
                self.check_host(access_request)?;
                // Links may lead to this page. It gets its data by calls, and cannot be framed.
                match access_request.origin {
                    Some(_) => self.check_calling_page(access_request),
                    None => Ok(()),
                }
            }
            RuleSet::Open => Ok(()),
        }
    }

    fn is_from(&self, access_request: &AccessRequest, subnets: &[Subnet]) -> bool {
        let from = access_request.from;
        from.is_some_and(|from| self.settings.names(subnets, from.ip()))
    }

    fn check_caller(&self, access_request: &AccessRequest) -> Result<(), Refusal> {
        let is_for_metrics = access_request.entry_point == EntryPoint::Metrics;
        if self.tokens.is_none() {
            let from = access_request.from;
            return match is_for_metrics {
                true => Err(forbidden(
                    "only the hosts of --metrics-from may read /metrics; add --metrics-from=ADDR/MASK",
                )),
                // [`Gate::check_call_without_tokens`] decides about the call.
                false if from.is_some_and(|from| from.ip().to_canonical().is_loopback()) => Ok(()),
                false => Err(tokens_are_off()),
            };
        }
        if self.is_from(access_request, &self.settings.token_servers) {
            return Ok(());
        }
        let may = match is_for_metrics {
            true => "and of --metrics-from may read /metrics",
            false => "may call the API",
        };
        Err(forbidden(format!(
            "only hosts in the subnet of --token-server {may}{}",
            self.missed_by(access_request)
        )))
    }

    /// Refuses calls that change something, and those about tokens, while tokens are off. The host
    /// that runs an open relay may see its streams and their viewers.
    pub fn check_call_without_tokens(&self, call: Name) -> Result<(), Refusal> {
        let is_reading = matches!(call, Name::ListStreams | Name::ListViewers | Name::Events);
        match self.tokens.is_some() || is_reading {
            true => Ok(()),
            false => Err(tokens_are_off()),
        }
    }

    /// Returns the address of a caller that `--token-server` does not name. A program of this host
    /// also gets the value of the option.
    fn missed_by(&self, access_request: &AccessRequest) -> String {
        let Some(from) = access_request.from.map(|from| from.ip()) else {
            return "; the proxy in front does not name the client".to_owned();
        };
        // Other hosts do not learn the subnets. A client behind a proxy may be any host.
        if !from.is_loopback() || access_request.is_forwarded || access_request.is_proxied {
            return format!("; your address is {from}");
        }
        let subnets = self.settings.token_servers.iter().map(Subnet::to_string);
        let subnets = subnets.collect::<Vec<_>>().join(", ");
        format!(
            "; your address is {from}, and --token-server={subnets} does not contain it; add --token-server={from}"
        )
    }

    fn check_source(&self, access_request: &AccessRequest) -> Result<(), Refusal> {
        let subnets = &self.settings.publish_from;
        if subnets.is_empty() {
            return Ok(());
        }
        match self.is_from(access_request, subnets) {
            true => check_no_stranger_proxy(access_request),
            false => Err(forbidden(
                "only hosts in the subnets of --publish-from may publish, and this host is in none of them",
            )),
        }
    }

    /// Refuses a Host that is not the server's: a stranger can point any name here (DNS rebinding).
    /// Also refuses a proxy that replaces the client's Host by a listening address, since the
    /// client's Host is then unknown.
    fn check_host(&self, access_request: &AccessRequest) -> Result<(), Refusal> {
        if access_request.is_proxied
            && access_request.is_forwarded
            && self.is_listener(&access_request.host)
        {
            return Err(forbidden(
                "the proxy in front replaces the client's Host with this server's address, so this server cannot tell whether a page of another site calls; the proxy must pass on the client's Host (nginx: proxy_set_header Host $http_host)",
            ));
        }
        match self.is_own_host(&access_request.host) {
            true => Ok(()),
            false => Err(forbidden(
                "the API answers only under addresses, localhost, the machine's own name and the names of --hostname=NAME, and the Host of this request is none of them. A proxy in front must pass on the client's Host",
            )),
        }
    }

    /// Returns whether a browser with this Host may connect to this server directly, and not to a
    /// proxy.
    fn is_listener(&self, host: &str) -> bool {
        let (name, port) = split_host(host);
        let Some(port) = port.map_or(Some(80), |port| port.parse().ok()) else {
            return false;
        };
        let address = name.parse().ok().map(|it: IpAddr| it.to_canonical());
        let mut listeners = self.settings.listeners.iter();
        listeners.any(|own| {
            let ip = own.ip().to_canonical();
            let takes_loopback = ip.is_loopback() || ip.is_unspecified();
            let is_its = match address {
                // The server does not know all of its addresses, such as addresses that NAT
                // translates.
                Some(address) => address == ip || ip.is_unspecified(),
                None => takes_loopback && name.eq_ignore_ascii_case("localhost"),
            };
            is_its && own.port() == port
        })
    }

    /// Refuses calls of the API by pages of other sites.
    fn check_calling_page(&self, access_request: &AccessRequest) -> Result<(), Refusal> {
        if self.is_of_own_page(access_request) {
            return Ok(());
        }
        Err(forbidden(
            "pages of other sites may not call the API, and the Origin of this one is another site; if it is this server's own page, the proxy in front must pass on the client's Host",
        ))
    }

    /// Refuses pages of other sites that publish from a browser in an admitted subnet, unless the
    /// operator has named the site.
    fn check_publishing_page(&self, access_request: &AccessRequest) -> Result<(), Refusal> {
        let is_named = |origin: &str| {
            let mut sites = self.settings.cors.iter();
            sites.any(|(site, _)| site.eq_ignore_ascii_case(origin))
        };
        let origin = access_request.origin.as_deref();
        if self.is_of_own_page(access_request) || origin.is_some_and(is_named) {
            return Ok(());
        }
        Err(forbidden(
            "the Origin is another site's, whose pages may not publish here; --cors=ORIGIN would let them. Where it is this server's own, \
             --hostname=NAME must give its name, and a proxy in front must pass on the client's Host",
        ))
    }

    /// Returns whether no web page sent the request, or a page of this server under one of its
    /// names. A proxy may have served that page over TLS, which this server cannot see. A browser
    /// that sends no Origin may send `Sec-Fetch-Site`.
    fn is_of_own_page(&self, access_request: &AccessRequest) -> bool {
        let Some(origin) = &access_request.origin else {
            let site = access_request.site.as_deref();
            return matches!(site, None | Some("same-origin" | "none"));
        };
        let Some((scheme, authority)) = origin.split_once("://") else {
            return false;
        };
        let is_scheme = scheme.eq_ignore_ascii_case("http")
            || (access_request.is_proxied && scheme.eq_ignore_ascii_case("https"));
        is_scheme
            && authority.eq_ignore_ascii_case(&access_request.host)
            && self.is_own_host(&access_request.host)
    }

    /// Returns whether a Host is an address, `localhost` or one of the server's names. DNS cannot
    /// change where an address or `localhost` leads, and a name of `--hostname` belongs to the
    /// operator's zone. The machine's own name may be short. A stranger that answers the operator's
    /// DNS queries can lead it to a page of its own first, and then to this server.
    fn is_own_host(&self, host: &str) -> bool {
        let (name, _) = split_host(host);
        let mut names = self.settings.hostnames.iter();
        name.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || (!name.is_empty() && names.any(|own| own.eq_ignore_ascii_case(name)))
    }

    // ---- Token, block, length, conflict, room: of a session -------------------------------------

    /// Returns the session that a session id opens.
    pub fn opened_by<'a>(&'a self, credential: &'a SessionId) -> &'a SessionId {
        self.tokens
            .map_or(credential, |tokens| tokens.opened_by(credential))
    }

    /// Decides whether an admitted client may be the source of the session that its session id
    /// opens. `framing`: how its body ends. `session_state`: the state of the session.
    pub fn publish(
        &self,
        access_request: &AccessRequest,
        credential: &SessionId,
        framing: Framing,
        session_state: &SessionState,
    ) -> Result<(), Refusal> {
        let is_request = access_request.entry_point.rule_set() == RuleSet::Publish;
        self.check_token_in(access_request, credential)?;
        self.check_block(match is_request {
            true => self.opened_by(credential),
            false => credential,
        })?;
        self.check_open()?;
        if is_request && framing == Framing::None {
            return Err(Refusal::framing(
                Status::LengthRequired,
                "a stream's body is chunked or has a Content-Length; this request has neither",
            ));
        }
        // Only a request can replace a source.
        if session_state.has_source && !(is_request && self.settings.takes_over) {
            return Err(Refusal::new(
                Status::Conflict,
                "this session already has a source; end that one with abort-stream, or start the server with --takeover, so that a new source replaces it",
            ));
        }
        if !session_state.has_room {
            let streams_max = self.settings.limits.streams_max;
            return Err(Refusal::busy(format!(
                "{streams_max} streams run, which is the limit (--streams={streams_max}); end one, or raise it"
            )));
        }
        Ok(())
    }

    fn check_token_in(
        &self,
        access_request: &AccessRequest,
        credential: &SessionId,
    ) -> Result<(), Refusal> {
        let is_there = match (access_request.entry_point.rule_set(), self.tokens) {
            (RuleSet::Publish, None) => true,
            (RuleSet::Publish, Some(tokens)) => {
                return tokens.publish(credential, self.time).map_err(|shut| match shut {
                    Denied::NoToken => no_token(),
                    Denied::Over => token_is_over(),
                    Denied::Direction => forbidden(
                        "the token of this sessionid is for watching only; to publish, it needs direction=in or both",
                    ),
                });
            }
            (RuleSet::Datagrams, Some(tokens)) => {
                let named = access_request.to.or(access_request.from);
                let mut sessions = named
                    .into_iter()
                    .flat_map(|from| tokens.sessions_from(from));
                let is_bare = matches!(
                    access_request.entry_point,
                    EntryPoint::Bare | EntryPoint::BareGroup
                );
                let takes = |transport| (transport == Transport::Bare) == is_bare;
                sessions.any(|(its, transport)| its == credential && takes(transport))
            }
            // A pull is made for viewers that may watch.
            (RuleSet::Pull, _) => true,
            (RuleSet::Datagrams, None)
            | (RuleSet::Watch | RuleSet::Call | RuleSet::Page | RuleSet::Open, _) => false,
        };
        if is_there { Ok(()) } else { Err(no_token()) }
    }

    /// Returns the record of a client that was admitted this way. `None` without tokens: then no
    /// client is recorded, and no viewer is counted, since only tokens limit viewers.
    pub fn admission(
        &self,
        credential: SessionId,
        session: &SessionId,
        entry_point: EntryPoint,
    ) -> Option<Admission> {
        let tokens = self.tokens?;
        let role = match (entry_point.rule_set(), entry_point) {
            (RuleSet::Publish, _) => ClientRole::Uncounted,
            (RuleSet::Watch, EntryPoint::Hls) if self.counts_viewers(&credential, session) => {
                ClientRole::CountedHls
            }
            (RuleSet::Watch, EntryPoint::Hls) => ClientRole::Uncounted,
            (RuleSet::Watch, EntryPoint::WatchPage) => return None,
            (RuleSet::Watch, _) => ClientRole::Viewer,
            (
                RuleSet::Datagrams | RuleSet::Pull | RuleSet::Call | RuleSet::Page | RuleSet::Open,
                _,
            ) => {
                return None;
            }
        };
        let ends = tokens.grant(&credential).and_then(|grant| grant.terms.ends);
        Some(Admission {
            credential,
            session: session.clone(),
            role,
            ends,
        })
    }

    /// Returns the limits of a source that was admitted by `credential`. `kept`: its limits until
    /// now, which it keeps where the token is gone. A token of the same session id that opens
    /// another session is not its token.
    pub fn source_limits(
        &self,
        credential: &SessionId,
        session: &SessionId,
        kept: SourceLimits,
    ) -> SourceLimits {
        let limit_of = |credential: &SessionId| {
            let tokens = self.tokens?;
            let grant = tokens.grant(credential)?;
            let opens_it = tokens.opened_by(credential) == session;
            opens_it.then_some(grant.terms.bits_per_second_max)
        };
        SourceLimits {
            by_key: match credential == session {
                true => None,
                false => limit_of(credential).unwrap_or(kept.by_key),
            },
            by_session: limit_of(session).unwrap_or(kept.by_session),
        }
    }

    /// Decides whether a viewer may wait for a session that does not run. If there are origins, the
    /// server asks them meanwhile.
    pub fn wait(&self, method: Method, session_state: &SessionState) -> Result<(), Refusal> {
        let has_origins = !self.settings.origins.is_empty();
        let is_waited = has_origins || !self.settings.limits.wait_time.is_zero();
        if session_state.runs {
            return Ok(());
        }
        if method != Method::Get || !is_waited {
            return Err(not_running());
        }
        let is_begun = !has_origins || session_state.is_fetched;
        if is_begun || (session_state.has_room && session_state.has_room_for_pull) {
            return Ok(());
        }
        Err(Refusal::busy(
            "the session does not run here, and there is no room to fetch it; try again later",
        ))
    }

    /// Refuses everybody while an abort blocks the session.
    fn check_block(&self, session: &SessionId) -> Result<(), Refusal> {
        match self.blocks.left(session, self.now) {
            None => Ok(()),
            Some(left) => Err(blocked_for(
                "the operator has blocked this session for a while",
                left,
            )),
        }
    }

    /// Refuses a viewer while `kick-viewer` blocks its address.
    fn check_viewer_block(
        &self,
        from: Option<IpAddr>,
        credential: &SessionId,
    ) -> Result<(), Refusal> {
        let from = from.map(|from| (credential.clone(), network_of(from)));
        let left = from.and_then(|whom| self.blocked_viewers.left(&whom, self.now));
        match left {
            None => Ok(()),
            Some(left) => Err(blocked_for(
                "the operator has disconnected this viewer and blocks its address for a while",
                left,
            )),
        }
    }

    /// Refuses new work during the shutdown, such as changes of the token table and readers of
    /// events. Requests that only look are answered until the end.
    pub fn check_open(&self) -> Result<(), Refusal> {
        match self.is_closing {
            false => Ok(()),
            true => Err(Refusal::busy(
                "the server is shutting down and admits no new clients",
            )),
        }
    }
}

/// Splits an authority into a name or an address without brackets, and a port if there is one.
fn split_host(host: &str) -> (&str, Option<&str>) {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !host.ends_with(']') => {
            (name, Some(port).filter(|it| !it.is_empty()))
        }
        _ => (host, None),
    };
    let inner = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    (inner.unwrap_or(name), port)
}

fn is_in(subnets: &[Subnet], address: IpAddr) -> bool {
    subnets.iter().any(|subnet| subnet.contains(address))
}

/// Refuses clients without an address, because limits, logs and lists need one.
fn check_named(access_request: &AccessRequest) -> Result<(), Refusal> {
    match access_request.from {
        Some(_) => Ok(()),
        None => Err(forbidden(
            "the proxy in front does not name the client; it must write Forwarded or X-Forwarded-For, or name the client in \
             its PROXY protocol header",
        )),
    }
}

/// Refuses a request that an unknown proxy has passed on: a host that no option names as a proxy
/// has written fields of proxies. All clients of that host share its address. A named proxy writes
/// such fields, too, but then they name only the client.
fn check_no_stranger_proxy(access_request: &AccessRequest) -> Result<(), Refusal> {
    let is_strangers = match access_request.is_proxied {
        true => access_request.names_another,
        false => access_request.is_forwarded,
    };
    match is_strangers {
        false => Ok(()),
        true => Err(forbidden(
            "this request has a field such as Via, Forwarded, X-Forwarded-For or X-Real-IP, so it came through a proxy, and no option names that proxy. All its clients would have its rights. Name it with --forwarded-from=ADDR: then the client's own address counts",
        )),
    }
}

mod connections;
mod late;
mod record;
mod refusals;
#[cfg(test)]
mod tests;
mod watchers;
