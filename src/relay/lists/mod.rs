//! Calls that wait: for names to be resolved, or for the lists of peers ([`peers`]).
//!
//! Each call has a job id, which its connection also stores. This part asks for connections to
//! peers, and reports finished lists, by events.

#[cfg(feature = "handover")]
mod handover;
mod peers;

use std::collections::HashMap;
use std::net::SocketAddr;

use super::api::AddToken;
use super::context::Context;
use super::{ADDRESSES_MAX, Action, ConnectionId, Job, JobId};
use crate::gate::{RtpTuple, UdpClient, udp_clients};
use crate::http::{Refusal, Reply, Status, quoted};
#[cfg(feature = "handover")]
pub(super) use handover::{PendingCallState, pending_call};
use peers::Collecting;
pub(super) use peers::{PeerProgress, PeerRequest, PeerRows, is_of_peer, is_of_proxy};

/// Calls that wait.
#[derive(Default)]
pub(super) struct Lists {
    /// Calls that wait for names.
    pending_calls: HashMap<JobId, PendingCall>,
    /// Calls that wait for lists of peers.
    collected_lists: HashMap<JobId, Collecting>,
}

/// A call that waits for the addresses of names.
struct PendingCall {
    connection: ConnectionId,
    reply: Reply,
    add: AddToken,
}

/// A call whose names are resolved: its client, its reply, and the tokens to add, or the refusal.
pub(super) type Resolved = (
    ConnectionId,
    Reply,
    Result<(AddToken, Vec<RtpTuple>), Refusal>,
);

/// For each name its addresses, or an error. A refusal: the names were not resolved.
pub(super) type LookUp = Result<Vec<Result<Vec<SocketAddr>, String>>, Refusal>;

impl Lists {
    /// Returns whether no call waits.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.pending_calls.is_empty() && self.collected_lists.is_empty()
    }

    /// Forgets a call whose client has left.
    pub fn forget(&mut self, job_id: JobId, ctx: &mut Context) {
        self.take_pending_call(job_id);
        self.drop_collecting(job_id, ctx);
    }

    /// Lets a call wait until the names of its clients are resolved.
    pub fn resolve(
        &mut self,
        connection: ConnectionId,
        reply: Reply,
        add: AddToken,
        ctx: &mut Context,
    ) -> JobId {
        let clients = add.clients.iter();
        let names = clients.filter(|client| client.address().is_none());
        let names = names
            .map(|client| (client.host.as_str().to_owned(), client.port.get()))
            .collect();
        let job_id = ctx.draw_job();
        let pending_call = PendingCall {
            connection,
            reply,
            add,
        };
        self.pending_calls.insert(job_id, pending_call);
        ctx.act(Action::Run(job_id, Job::Resolve(names)));
        job_id
    }

    /// Handles resolved names. `None`: no call waits for them.
    pub fn resolved(&mut self, job_id: JobId, look_up: LookUp) -> Option<Resolved> {
        let call = self.take_pending_call(job_id)?;
        let clients = look_up.and_then(|results| with_addresses(&call.add, results));
        let result = clients.map(|clients| (call.add, clients));
        Some((call.connection, call.reply, result))
    }

    fn take_pending_call(&mut self, job_id: JobId) -> Option<PendingCall> {
        let pending_call = self.pending_calls.remove(&job_id);
        if self.pending_calls.is_empty() {
            self.pending_calls = HashMap::new();
        }
        pending_call
    }
}

/// Returns the UDP clients of a call with their resolved addresses.
fn with_addresses(
    add: &AddToken,
    results: Vec<Result<Vec<SocketAddr>, String>>,
) -> Result<Vec<RtpTuple>, Refusal> {
    let mut results = results.into_iter();
    let mut tuples = Vec::with_capacity(add.clients.len());
    for client in &add.clients {
        let bad = |what: String| {
            let detail = format!("udp-clients: '{client}': {what}");
            Refusal::new(Status::BadRequest, detail)
        };
        let mut addresses = match client.address() {
            Some(address) => vec![address],
            None => results
                .next()
                .unwrap_or_else(|| Err("no answer".to_owned()))
                .map_err(|error| {
                    bad(format!(
                        "the name does not resolve ({}); give one that does, or an address",
                        quoted(&error, 128)
                    ))
                })?,
        };
        if addresses.is_empty() {
            return Err(bad("the name has no address".to_owned()));
        }
        if addresses.len() > ADDRESSES_MAX {
            return Err(bad(format!(
                "the name has more than {ADDRESSES_MAX} addresses; give them one by one"
            )));
        }
        // Only this number of addresses counts.
        addresses.truncate(crate::gate::ADDRESSES_MAX);
        addresses.shrink_to_fit();
        for address in &addresses {
            udp_clients::check_destination(address.ip()).map_err(|fault| bad(fault.to_owned()))?;
        }
        tuples.push(add.tuple(client, addresses));
    }
    Ok(tuples)
}

/// Returns the UDP clients of a call, if none has a name.
pub(super) fn without_names(add: &AddToken) -> Option<Vec<RtpTuple>> {
    let known = |client: &UdpClient| Some(add.tuple(client, vec![client.address()?]));
    add.clients.iter().map(known).collect()
}

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;
