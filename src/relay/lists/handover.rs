//! Calls that wait for names go to another process, where these are looked up again. Those that
//! wait for the lists of other relays stay.

use super::Lists;
use crate::handover::{HandoverError, Line, Writer};
use crate::http::Reply;
use crate::relay::api::AddToken;
use crate::relay::context::Context;
use crate::relay::{ConnectionId, JobId};

impl Lists {
    /// Returns whether a call waits for this job to resolve names.
    pub fn resolves(&self, job_id: JobId) -> bool {
        self.pending_calls.contains_key(&job_id)
    }

    /// Returns how many calls wait for names.
    pub fn resolving(&self) -> usize {
        self.pending_calls.len()
    }

    /// Writes each call that waits for names.
    pub fn hand_over(&self, writer: &mut Writer<'_>) {
        for (JobId(number), pending_call) in &self.pending_calls {
            let (reply, add) = (&pending_call.reply, &pending_call.add);
            let state = (pending_call.connection, reply.fields, reply, add);
            writer.put("errand", *number, &state);
        }
    }
}

/// A received call that waits for names: its connection, the form of its answer, and the token to
/// add.
pub type PendingCallState = (ConnectionId, Reply, AddToken);

/// Receives a call that waits for names.
pub fn pending_call(line: Line<'_>, ctx: &Context) -> Result<PendingCallState, HandoverError> {
    type Sent = (ConnectionId, Vec<(String, String)>, Reply, AddToken);
    let (connection, fields, reply, add): Sent = line.read()?;
    let fields = ctx.settings().fields_like(&fields);
    let reply = Reply { fields, ..reply };
    Ok((connection, reply, add))
}
