//! Calls that wait: for names to be looked up, or for the peers to tell their lists ([`peers`]).
//!
//! Each waits under a ticket, which its client's connection has, too. Peers that are to be called,
//! and answers that have come, are said.

#[cfg(feature = "handover")]
mod handover;
mod peers;

use std::collections::HashMap;
use std::net::SocketAddr;

use super::api::AddToken;
use super::context::Context;
use super::{ADDRESSES_MAX, Action, ConnectionId, Job, JobId, RETRY_AFTER_SECONDS};
use crate::gate::{RtpTuple, UdpClient, udp_clients};
use crate::held::hash_map_bytes;
use crate::http::{Refusal, Reply, Status, quoted};
#[cfg(feature = "handover")]
pub(super) use handover::{PendingCallState, errand};
use peers::Collecting;
pub(super) use peers::{PeerRequest, Place as Share, Told, is_of_peer};

/// Calls that wait.
#[derive(Default)]
pub(super) struct Lists {
    /// For their names to be looked up.
    errands: HashMap<JobId, PendingCall>,
    /// For the lists of peers.
    collectings: HashMap<JobId, Collecting>,
}

/// A call that waits for the addresses of names.
struct PendingCall {
    connection: ConnectionId,
    reply: Reply,
    add: AddToken,
}

/// A call that waits no more: whose it is, how it is answered, and what is to be added to which
/// session, if it can be.
pub(super) type Resolved = (
    ConnectionId,
    Reply,
    Result<(AddToken, Vec<RtpTuple>), Refusal>,
);

/// What has come of looking up names.
pub(super) enum LookUp {
    /// For each of them its addresses, or why there are none.
    Done(Vec<Result<Vec<SocketAddr>, String>>),
    /// Too much is to be done already.
    Refused,
    /// It has taken too long; whatever comes of it is not wanted any more.
    TimedOut,
}

impl PendingCall {
    /// What it holds in memory besides itself, in bytes.
    fn held_bytes(&self) -> usize {
        let clients = &self.add.clients;
        let hosts: usize = clients.iter().map(UdpClient::held_bytes).sum();
        self.add.session.held_bytes() + clients.capacity() * size_of::<UdpClient>() + hosts
    }
}

impl Lists {
    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        let errands = self.errands.values().map(PendingCall::held_bytes);
        hash_map_bytes(&self.errands) + errands.sum::<usize>() + self.held_by_collectings()
    }

    /// Whoever waited under this ticket is gone.
    pub fn forget(&mut self, ticket: JobId, ctx: &mut Context) {
        self.take_errand(ticket);
        self.drop_collecting(ticket, ctx);
    }

    /// An add-token whose clients have names waits until they have addresses.
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
        let ticket = ctx.draw_ticket();
        let errand = PendingCall {
            connection,
            reply,
            add,
        };
        self.errands.insert(ticket, errand);
        ctx.act(Action::Help(ticket, Job::Resolve(names)));
        ticket
    }

    /// A look-up is over. `None`: nobody waits for it.
    pub fn resolved(&mut self, ticket: JobId, look_up: LookUp) -> Option<Resolved> {
        let PendingCall {
            connection,
            reply,
            add,
        } = self.take_errand(ticket)?;
        let result = match look_up {
            LookUp::Done(results) => with_addresses(&add, results),
            LookUp::Refused => Err(Refusal::busy(
                Status::ServiceUnavailable,
                "too many names are being resolved",
                RETRY_AFTER_SECONDS,
            )),
            LookUp::TimedOut => Err(Refusal::new(
                Status::BadRequest,
                "udp-clients: a name did not resolve in time; names must resolve within 5 s",
            )),
        };
        Some((connection, reply, result.map(|clients| (add, clients))))
    }

    fn take_errand(&mut self, ticket: JobId) -> Option<PendingCall> {
        let errand = self.errands.remove(&ticket);
        if self.errands.is_empty() {
            self.errands = HashMap::new();
        }
        errand
    }
}

/// The clients of an add-token with the addresses that were found for their names.
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
        let addresses = match client.address() {
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
        let mut addresses = addresses;
        // So many count.
        addresses.truncate(crate::gate::ADDRESSES_MAX);
        addresses.shrink_to_fit();
        for address in &addresses {
            udp_clients::check_destination(address.ip()).map_err(|fault| bad(fault.to_string()))?;
        }
        tuples.push(add.tuple(client, addresses));
    }
    Ok(tuples)
}

/// The clients of an add-token, if none has a name that must be looked up.
pub(super) fn without_names(add: &AddToken) -> Option<Vec<RtpTuple>> {
    let known = |client: &UdpClient| Some(add.tuple(client, vec![client.address()?]));
    add.clients.iter().map(known).collect()
}

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;
