//! The texts of refusals.

use std::time::Duration;

use crate::http::{Refusal, Status};
use crate::relay::RETRY_AFTER_SECONDS;

/// 403.
pub fn forbidden(detail: impl Into<String>) -> Refusal {
    Refusal::new(Status::Forbidden, detail)
}

/// 503, and when to come again.
pub fn busy(detail: impl Into<String>) -> Refusal {
    Refusal::busy(Status::ServiceUnavailable, detail, RETRY_AFTER_SECONDS)
}

/// 503 for a viewer where the token's limit of viewers is reached.
pub fn full(detail: &'static str) -> Refusal {
    busy(detail).because("full")
}

/// 429, and when to come again.
pub fn kept_out(detail: &'static str, left: Duration) -> Refusal {
    let seconds = u32::try_from(left.as_secs()).unwrap_or(u32::MAX);
    Refusal::busy(Status::TooManyRequests, detail, seconds.saturating_add(1)).because("paused")
}

/// 429: the viewer was disconnected by the operator and comes back too early.
pub fn barred(left: Duration) -> Refusal {
    kept_out(
        "this viewer was ended by the operator and is kept out for a while",
        left,
    )
}

/// 403: the operator has disconnected the waiting client.
pub fn kicked() -> Refusal {
    forbidden("this viewer was ended by the operator")
}

/// 404: there is no such viewer.
pub fn no_viewer() -> Refusal {
    Refusal::new(
        Status::NotFound,
        "id: no viewer of this server has this id, or not any more; of a peer's viewers the peer must be asked",
    )
}

/// 404 for a session that has no stream, where that may be known.
pub fn not_running() -> Refusal {
    Refusal::new(Status::NotFound, "this session is not running now")
}

/// 403: there is no token. The text is the same whether the session exists or not.
pub fn no_token() -> Refusal {
    forbidden("this sessionid has no http token; the token server adds one with add-token")
}

/// 403 for who had one.
pub fn token_is_over() -> Refusal {
    forbidden(
        "the token of this sessionid is over; the token server may give it more time with add-token",
    )
    .because("expired")
}

/// 403: there is no token, where the origin decides. The text is the same whether the origin was
/// asked or not.
pub fn no_token_of_origin() -> Refusal {
    forbidden(
        "this sessionid has no http token; the origin says who may watch, and its token server adds one",
    )
}

/// The answer to every call where there is no token table.
pub fn tokens_are_off() -> Refusal {
    forbidden(
        "tokens are off, and with them the API; start tollgate with --token-server=ADDR/MASK to turn them on for the hosts of that subnet",
    )
}

/// 404: there is no such path.
pub fn not_found() -> Refusal {
    Refusal::new(
        Status::NotFound,
        "nothing has this path; streams are at /stream/SESSIONID, the API is below /api/",
    )
}

/// 403 for a source whose token is for viewers.
pub fn for_watching_only() -> Refusal {
    forbidden(
        "the token of this sessionid is for watching only; one for a source has direction=in or both",
    )
}

/// 403 for a viewer whose token is for a source.
pub fn for_source_only() -> Refusal {
    forbidden(
        "the token of this sessionid is for a source only; one for viewers has direction=out or both",
    )
}

/// 403: a configured proxy did not name the client.
pub fn of_nobody() -> Refusal {
    forbidden(
        "the proxy in front does not say whose request this is; it must write Forwarded or X-Forwarded-For, or name the client in \
         its PROXY protocol header",
    )
}

/// 403: the request came through a proxy that is not configured.
pub fn of_stranger_proxy() -> Refusal {
    forbidden(
        "a proxy brings this request, as a field such as Via, Forwarded, X-Forwarded-For or X-Real-IP shows, and this server has been told of none there, so that \
         all who come by it would have its rights; --forwarded-from=ADDR names it, and then the client's own address counts",
    )
}

/// 403 for a call under a name that is not the server's.
pub fn from_other_host() -> Refusal {
    forbidden(
        "the API answers under addresses, localhost, the machine's own name and those that --hostname=NAME gives; this Host is \
         none of them. A proxy in front must pass on the client's Host",
    )
}

/// 403 for a call whose proxy has replaced the name that the browser asked for.
pub fn of_proxys_host() -> Refusal {
    forbidden(
        "the proxy in front replaces the client's Host by the address at which it calls this server, so that nobody knows whether \
         another site's page calls; the proxy must pass on the client's Host (nginx: proxy_set_header Host $http_host)",
    )
}

/// 403 for a source from where none may be.
pub fn from_elsewhere() -> Refusal {
    forbidden("streams are taken from certain subnets only, and this host is in none of them")
}
