//! Routes requests that Icecast's clients make: sources, updates of titles, and lists.

use super::{RequestContext, Route};
use crate::clean_text::Title;
use crate::http::{Framing, Method, Refusal, Status};
use crate::relay::admission::{EntryPoint, SessionState};
use crate::relay::api::{About, Call};
use crate::relay::icecast::{is_source, no_password, password, session, waits_for_continue};
use crate::relay::parameters::{bad, decoded, parse_session};

/// Methods that libshout finds by `OPTIONS *`. With POST it would send titles as forms.
const METHODS: &str = "GET, HEAD, PUT, SOURCE, OPTIONS";
/// Maximal number of parameters of a request that are looked at.
const PARAMETERS_MAX: usize = 16;

impl RequestContext<'_> {
    /// Routes a request that Icecast's clients make. `None`: it is none of theirs.
    pub(super) fn route_of_icecast(&self, segments: &[&[u8]]) -> Option<Result<Route, Refusal>> {
        Some(match segments {
            [] if self.head.method == Method::Options => self.options(METHODS),
            _ if is_source(self.head) => self.publish_by_password(),
            [b"admin", b"metadata"] | [b"admin.cgi"] => self.title_update(),
            [file @ b"status-json.xsl"] | [b"admin", file @ (b"stats" | b"listclients")] => {
                self.panel(file)
            }
            _ => return None,
        })
    }

    fn publish_by_password(&self) -> Result<Route, Refusal> {
        let access_request = self.access_request(EntryPoint::Icecast);
        self.gate.enter(&access_request)?;
        let credential = session(self.head)?;
        let named = self.parameter("sessionid")?;
        if named.is_some_and(|named| named != credential.as_str().as_bytes()) {
            return Err(Refusal::new(
                Status::Forbidden,
                "the password is not the sessionid that the query names",
            ));
        }
        let session = self.gate.opened_by(&credential).clone();
        let framing = match self.head.framing_of_media() {
            Framing::UntilClose if !waits_for_continue(self.head) => Framing::None,
            framing => framing,
        };
        if framing == Framing::UntilClose
            && (access_request.is_proxied || access_request.is_forwarded)
        {
            return Err(Refusal::framing(
                Status::LengthRequired,
                "this source came through a proxy, and its body has no length; let it connect to this server directly",
            ));
        }
        let session_state = (self.session_state)(&session, &credential);
        self.gate
            .publish(&access_request, &credential, framing, &session_state)?;
        Ok(Route::Publish {
            admission: self
                .gate
                .admission(credential, &session, EntryPoint::Icecast),
            session,
            content_type: self.head.fields.content_type.clone(),
            framing,
        })
    }

    /// Routes the update of a title. Sources of SHOUTcast give the session id as `pass`, others as the
    /// password.
    fn title_update(&self) -> Result<Route, Refusal> {
        self.route_reading(EntryPoint::Icecast, |access_request| {
            let password = password(self.head).or(self.parameter("pass")?);
            let credential = parse_session(&password.ok_or_else(no_password)?)?;
            let mode = self.parameter("mode")?.unwrap_or_default();
            if mode != b"updinfo" {
                return Err(bad("the parameter 'mode' is wrong; give mode=updinfo"));
            }
            let title = self.title()?;
            // The title is of the source that the session has, so that is no conflict.
            let session_state = SessionState {
                has_room: true,
                ..SessionState::default()
            };
            let framing = Framing::UntilClose;
            self.gate
                .publish(&access_request, &credential, framing, &session_state)?;
            Ok(Route::Call(Call::SetTitle {
                session: self.gate.opened_by(&credential).clone(),
                title,
                is_icecast: true,
            }))
        })
    }

    /// Returns the title that the parameters name.
    fn title(&self) -> Result<Title, Refusal> {
        let song = self.parameter("song")?;
        let parts = [self.parameter("artist")?, self.parameter("title")?];
        if song.is_none() && parts == [None, None] {
            return Err(bad("a title is missing: give song, or artist and title"));
        }
        let song = song.filter(|song| !song.is_empty());
        let texts = song.map_or(parts, |song| [Some(song), None]);
        let texts = texts.into_iter().flatten().filter(|text| !text.is_empty());
        let title = texts.collect::<Vec<_>>().join(&b" - "[..]);
        let charset = self.parameter("charset")?;
        let charset = charset.as_deref().map(String::from_utf8_lossy);
        Ok(Title::decode(&title, charset.as_deref()))
    }

    /// Routes a request for a list. A mount point is `/ID`, or the stream's path.
    fn panel(&self, file: &[u8]) -> Result<Route, Refusal> {
        self.route_reading(EntryPoint::Call, |_| {
            let mount = self.parameter("mount")?;
            if file == b"listclients" && mount.is_none() {
                return Err(bad("the parameter 'mount' is missing: /ID"));
            }
            let session = mount.map(|mount| {
                let name = mount.strip_prefix(b"/stream/");
                let name = name.or(mount.strip_prefix(b"/"));
                parse_session(name.unwrap_or(&mount))
            });
            Ok(Route::Call(Call::Panel(About {
                file: String::from_utf8_lossy(file).into(),
                session: session.transpose()?,
                address: self.origin().into(),
            })))
        })
    }

    /// Returns the value of a parameter. A `+` is a blank, as for Icecast.
    fn parameter(&self, name: &str) -> Result<Option<Vec<u8>>, Refusal> {
        let mut parameters = self.head.target.parameters().take(PARAMETERS_MAX);
        let found = parameters.find(|parameter| parameter.name == name);
        let value = found.map(|it| decoded(name, &it.value.replace('+', " ")));
        value.transpose()
    }
}
