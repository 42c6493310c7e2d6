//! Sources by RTMP (`--rtmp`). The gate decides about them as about a PUT, and what they send is
//! the stream that a PUT of the same FLV would be.

use super::admission::{AccessRequest, Caller, EntryPoint};
use super::parameters::parse_session;
use super::pass::Admission;
use super::streams::StreamSource;
use super::{ConnectionId, Relay, StreamId};
use crate::format::Format;
use crate::gate::SessionId;
use crate::http::{Framing, Refusal, Status, percent_encoded};
use crate::rtmp::Request;

const DENIED: &str = "NetStream.Publish.Denied";
const BAD_NAME: &str = "NetStream.Publish.BadName";
const PLAY_FAILED: &str = "NetStream.Play.Failed";

impl Relay {
    /// Admits or refuses a client that asks for a stream.
    pub(super) fn request_rtmp(&mut self, id: ConnectionId, request: Request) {
        self.clients.clear_seats(&self.ctx);
        let Some(caller) = self.clients.caller(id) else {
            return;
        };
        let name = match request {
            Request::Publish { name } => name,
            Request::Play { name, host } => {
                let refusal = Refusal::new(Status::NotFound, self.http_address(&name, &host));
                return self
                    .clients
                    .refuse_rtmp(id, PLAY_FAILED, &refusal, &mut self.ctx);
            }
        };
        self.clients
            .note_rtmp(id, name.as_deref().unwrap_or_default(), &self.ctx);
        let name = name.map_err(|detail| Refusal::new(Status::BadRequest, detail));
        let name = name.and_then(|name| parse_session(&name));
        match self.admit_rtmp(caller, name.clone()) {
            Ok((admission, session)) => {
                let media_type = Format::Flv.media_type().to_owned();
                let whose = (admission, &session);
                let stream = self.begin_source((id, caller.peer), whose, Some(media_type));
                self.clients.publish_rtmp(id, stream, &mut self.ctx);
                self.admit_waiting(&session);
            }
            Err(refusal) => {
                if let Ok(name) = name {
                    let of = self.grants.gate(&self.ctx).opened_by(&name).clone();
                    self.ctx.emit_refusal((&name, &of), caller.peer, &refusal);
                }
                let code = match refusal.status {
                    Status::BadRequest | Status::Conflict => BAD_NAME,
                    _ => DENIED,
                };
                self.clients.refuse_rtmp(id, code, &refusal, &mut self.ctx);
            }
        }
    }

    /// Asks the gate about a publisher, in the order of a PUT.
    fn admit_rtmp(
        &self,
        caller: Caller,
        name: Result<SessionId, Refusal>,
    ) -> Result<(Option<Admission>, SessionId), Refusal> {
        let way = EntryPoint::Rtmp;
        let gate = self.grants.gate(&self.ctx);
        gate.place(way, caller.beyond)?;
        let access_request = AccessRequest {
            from: caller.is_named.then_some(caller.peer),
            is_proxied: caller.is_proxied,
            ..AccessRequest::without_request(way, caller.peer)
        };
        gate.enter(&access_request)?;
        let name = name?;
        let session = gate.opened_by(&name).clone();
        let whom = (&name, Some(caller.peer.ip()));
        let session_state = self.session_state(&session);
        let session_state = self.clients.session_state(&session, whom, session_state);
        gate.publish(&access_request, &name, Framing::UntilClose, &session_state)?;
        Ok((gate.admission(name, &session, way), session))
    }

    /// Returns where a stream is watched, for a client that asks to play it.
    fn http_address(&self, name: &[u8], host: &str) -> String {
        let listeners = &self.ctx.settings().listeners;
        let port = listeners.first().map_or(80, |listener| listener.port());
        let name = percent_encoded(&String::from_utf8_lossy(name));
        format!("http://{host}:{port}/stream/{name}")
    }

    /// Notes by which protocol a stream's source came.
    pub(super) fn note_protocol(&mut self, id: StreamId, source: StreamSource) {
        let is_by_rtmp = matches!(source, StreamSource::Http(it) if self.clients.is_rtmp(it));
        self.streams.set_is_by_rtmp(id, is_by_rtmp);
    }
}
