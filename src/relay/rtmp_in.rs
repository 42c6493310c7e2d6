//! Sources by RTMP (`--rtmp`). The gate decides about them as about a PUT. Their stream is the same as
//! that of a PUT with the same FLV.

use super::admission::{AccessRequest, Admission, Caller, EntryPoint};
use super::parameters::parse_session;
use super::streams::SourceInfo;
use super::{ConnectionId, Relay};
use crate::format::Format;
use crate::gate::SessionId;
use crate::http::{Framing, Refusal, Status};

impl Relay {
    /// Admits or refuses a client that asks to publish a stream.
    pub(super) fn publish_rtmp(
        &mut self,
        id: ConnectionId,
        name: Result<Vec<u8>, &'static str>,
        caller: Caller,
    ) {
        self.clients.remove_expired_hls(&self.ctx);
        let text = name.as_deref().unwrap_or_default();
        self.clients.note_rtmp(id, text, &self.ctx);
        let name = name.map_err(|detail| Refusal::new(Status::BadRequest, detail));
        let name = name.and_then(|name| parse_session(&name));
        match self.admit_rtmp(caller, name.clone()) {
            Ok((admission, session)) => {
                let media_type = Format::Flv.media_type().to_owned();
                let whose = (admission, &session);
                let stream = self.begin_source((id, caller.peer), whose, Some(media_type));
                let agent = self.clients.admit_rtmp(id, stream, &self.ctx);
                let info = SourceInfo {
                    agent: agent.unwrap_or_default(),
                    is_by_rtmp: true,
                    ..SourceInfo::default()
                };
                self.streams.set_source_info(stream, info);
                self.admit_waiting(&session);
            }
            Err(refusal) => {
                if let Ok(name) = name {
                    let of = self.grants.gate(&self.ctx).opened_by(&name).clone();
                    self.ctx.emit_refusal((&name, &of), caller.peer, &refusal);
                }
                self.clients.refuse_rtmp(id, &refusal, &mut self.ctx);
            }
        }
    }

    /// Asks the gate about a publisher, in the order of a PUT.
    fn admit_rtmp(
        &self,
        caller: Caller,
        name: Result<SessionId, Refusal>,
    ) -> Result<(Option<Admission>, SessionId), Refusal> {
        let entry_point = EntryPoint::Rtmp;
        let gate = self.grants.gate(&self.ctx);
        gate.check_connection_limits(entry_point, caller.beyond)?;
        let access_request = AccessRequest::without_request(entry_point, caller.peer).by(caller);
        gate.enter(&access_request)?;
        let name = name?;
        let session = gate.opened_by(&name).clone();
        let session_state = self.session_state_for(&session, &name, Some(caller.peer.ip()));
        gate.publish(&access_request, &name, Framing::UntilClose, &session_state)?;
        Ok((gate.admission(name, &session, entry_point), session))
    }
}

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;
