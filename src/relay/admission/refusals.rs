//! The texts of refusals.

use std::time::Duration;

use crate::http::{Refusal, Status};

/// Returns 403.
pub fn forbidden(detail: impl Into<String>) -> Refusal {
    Refusal::new(Status::Forbidden, detail)
}

/// Returns 503 for a viewer if the token's limit of viewers is reached.
pub fn full(detail: &'static str) -> Refusal {
    Refusal::busy(detail).because("full")
}

/// Returns 429, with the time after which to try again.
pub fn blocked_for(detail: &'static str, left: Duration) -> Refusal {
    let seconds = u32::try_from(left.as_secs()).unwrap_or(u32::MAX);
    let refusal = Refusal::new(Status::TooManyRequests, detail).because("paused");
    refusal.retry_after(seconds.saturating_add(1))
}

/// Returns 403 for a waiting client that the operator has disconnected.
pub fn kicked() -> Refusal {
    forbidden("the operator has disconnected this viewer")
}

/// Returns 404 for the id of a viewer that is not there.
pub fn no_viewer() -> Refusal {
    Refusal::new(
        Status::NotFound,
        "id: this server has no viewer with this id; list-viewers shows the ids. For a viewer of a peer, call the peer",
    )
}

/// Returns 404 for a call about the stream of a session that has none.
pub fn no_stream() -> Refusal {
    let detail = "sessionid: this session has no running stream";
    Refusal::new(Status::NotFound, detail)
}

/// Returns 404 for a session without a stream, if the client may know that.
pub fn not_running() -> Refusal {
    Refusal::new(Status::NotFound, "this session does not run now")
}

/// Returns 403 without a token. The text is the same whether the session exists or not.
pub fn no_token() -> Refusal {
    forbidden("this sessionid has no http token; a host of --token-server adds one with add-token")
}

/// Returns 403 for a token that has expired.
pub fn token_is_over() -> Refusal {
    forbidden(
        "the token of this sessionid has expired; a host of --token-server may add it again with add-token",
    )
    .because("expired")
}

/// Returns 403 without a token if the origin decides. The text is the same whether the origin was
/// asked or not.
pub fn no_token_of_origin() -> Refusal {
    forbidden(
        "this sessionid has no http token; the origin admits its viewers, so add the token there",
    )
}

/// Returns 403 for a call while there is no token table.
pub fn tokens_are_off() -> Refusal {
    forbidden(
        "the API needs tokens, which are off; start tollgate with --token-server=ADDR/MASK, such as 127.0.0.1/32",
    )
}

/// Returns 404 for an unknown path.
pub fn not_found() -> Refusal {
    Refusal::new(
        Status::NotFound,
        "this path does not exist; streams are at /stream/SESSIONID, the API is below /api/",
    )
}

/// Returns 403 for a viewer whose token is for a source.
pub fn for_source_only() -> Refusal {
    forbidden(
        "the token of this sessionid is for publishing only; to watch, it needs direction=out or both",
    )
}
