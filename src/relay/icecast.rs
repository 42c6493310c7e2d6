//! Publishing as Icecast's clients do it (`--icecast`): `SOURCE` or PUT to a mount point, the
//! sessionid as the password, and a body that ends with the connection. Titles come in requests of
//! their own.
//!
//! Off by default: behind a proxy that does not know such a body, its bytes could be taken for
//! another client's request.

mod panels;

use super::api::Outcome;
use super::parameters::parse_session;
use crate::gate::SessionId;
use crate::http::credentials::basic_password;
use crate::http::{Head, Method, Refusal, Status};
pub(super) use panels::list;

/// Returns whether a request is made as Icecast's clients make it. libshout first sends a PUT to a mount
/// point without its password, and waits for 401.
pub(super) fn is_source(head: &Head) -> bool {
    let is_mount = |first: &Vec<u8>| first != b"stream" && first != b"api";
    match head.method {
        Method::Source => true,
        Method::Put if head.fields.authorization.is_some() => password(head).is_some(),
        Method::Put => head.target.segments.first().is_some_and(is_mount),
        _ => false,
    }
}

/// Returns whether a client waits for the server's answer before it sends a body without framing. Only
/// of such a client does the server know that a body follows.
pub(super) fn waits_for_continue(head: &Head) -> bool {
    head.method == Method::Source || head.expects_continue
}

/// Returns the session that a request publishes: its password is the session id. Below `/stream/` the
/// path must have the same session id.
pub(super) fn session(head: &Head) -> Result<SessionId, Refusal> {
    let password = password(head).ok_or_else(no_password)?;
    let session = parse_session(&password)?;
    match head.target.segments.as_slice() {
        [first, named, ..] if first == b"stream" && *named != password => Err(Refusal::new(
            Status::Forbidden,
            "the password is not the sessionid that the path names",
        )),
        _ => Ok(session),
    }
}

/// Returns the answer to the update of a title, as Icecast writes it.
pub(super) fn title_answer(is_set: bool) -> Outcome {
    let (status, message, set) = match is_set {
        true => (Status::Ok, "Metadata update successful", 1),
        false => (Status::NotFound, "Source does not exist", 0),
    };
    let text = format!(
        "<?xml version=\"1.0\"?><iceresponse><message>{message}</message><return>{set}</return></iceresponse>"
    );
    Outcome::Text(status, "text/xml", "no-store", text.into())
}

pub(super) fn no_password() -> Refusal {
    let detail = "an Icecast source needs Basic credentials with the sessionid as the password";
    Refusal::new(Status::Unauthorized, detail)
}

pub(super) fn password(head: &Head) -> Option<Vec<u8>> {
    basic_password(head.fields.authorization.as_deref()?)
}
