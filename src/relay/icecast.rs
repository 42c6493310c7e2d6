//! Publishing as Icecast's clients do it (`--icecast`): `SOURCE` or PUT to a mount point, the
//! sessionid as the password, and a body that ends with the connection. Titles come in requests of
//! their own.
//!
//! Off by default: behind a proxy that does not know such a body, its bytes could be taken for
//! another client's request.

use super::api::Outcome;
use super::parameters::{bad, decoded, parse_session};
use crate::clean_text::Title;
use crate::gate::SessionId;
use crate::http::credentials::basic_password;
use crate::http::{Head, Method, Refusal, Status, quoted};

/// To a client that asks by `SOURCE` and waits for this before it sends its media.
pub(super) const GO_ON: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";

/// Whether a request is made as Icecast's clients make it.
pub(super) fn is_source(head: &Head) -> bool {
    match head.method {
        Method::Source => true,
        Method::Put => password(head).is_some(),
        _ => false,
    }
}

/// Whether a client waits for leave before it sends a body without framing. Of no other is it known
/// that it means to send one.
pub(super) fn waits_for_leave(head: &Head) -> bool {
    head.method == Method::Source || head.expects_continue
}

/// The session that a request publishes: its password names it. Below `/stream/` the path must say
/// the same.
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

/// Most parameters of a request that updates a title. More are not looked at.
const PARAMETERS_MAX: usize = 16;

/// Returns the session id and the title of a request that updates a title. Sources of SHOUTcast give
/// the session id as `pass`, others as the password. A `+` is a blank, as for Icecast.
pub(super) fn title_update(head: &Head) -> Result<(SessionId, Title), Refusal> {
    let value = |name: &str| {
        let mut parameters = head.target.parameters().take(PARAMETERS_MAX);
        let parameter = parameters.find(|parameter| parameter.name == name);
        parameter
            .map(|parameter| decoded(name, &parameter.value.replace('+', " ")))
            .transpose()
    };
    let password = password(head).or(value("pass")?);
    let session = parse_session(&password.ok_or_else(no_password)?)?;
    let mode = value("mode")?.unwrap_or_default();
    if mode != b"updinfo" {
        let mode = String::from_utf8_lossy(&mode);
        let mode = quoted(&mode, 64);
        return Err(bad(format!("mode: '{mode}' is wrong; give updinfo")));
    }
    let (song, parts) = (value("song")?, [value("artist")?, value("title")?]);
    let texts = match song {
        Some(song) if !song.is_empty() || parts == [None, None] => [Some(song), None],
        _ => parts,
    };
    if texts == [None, None] {
        return Err(bad("a title is missing: give song, or artist and title"));
    }
    let texts = texts.into_iter().flatten().filter(|text| !text.is_empty());
    let title = texts.collect::<Vec<_>>().join(&b" - "[..]);
    let charset = value("charset")?;
    let charset = charset.as_deref().map(String::from_utf8_lossy);
    Ok((session, Title::decode(&title, charset.as_deref())))
}

/// Returns the answer to the update of a title: Icecast's.
pub(super) fn title_answer(is_set: bool) -> Outcome {
    let (status, message) = match is_set {
        true => (Status::Ok, "Metadata update successful"),
        false => (Status::NotFound, "Source does not exist"),
    };
    let set = u8::from(is_set);
    let text = format!(
        "<?xml version=\"1.0\"?><iceresponse><message>{message}</message><return>{set}</return></iceresponse>"
    );
    Outcome::Text(status, "text/xml", "no-store", text.into())
}

fn no_password() -> Refusal {
    let detail = "an Icecast source needs Basic credentials with the sessionid as the password";
    Refusal::new(Status::Unauthorized, detail)
}

fn password(head: &Head) -> Option<Vec<u8>> {
    basic_password(head.fields.authorization.as_deref()?)
}
