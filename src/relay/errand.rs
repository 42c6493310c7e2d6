//! Errands: what the shell's threads do for the core, and who waits for it. The loop never waits.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::api::{AddToken, Answer, RETRY_AFTER_SECONDS};
use super::connection::Phase;
use super::lists::Lists;
use super::{Action, ConnectionId, Relay};
use crate::gate::{RtpTuple, UdpClient, udp_clients};
use crate::http::{HeadReader, Refusal, Reply, Status, quoted};
use crate::moment::Moment;

/// Addresses that a name may have.
pub const ADDRESSES_MAX: usize = 32;

/// Names an errand, so that its result finds who waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// What a thread is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// Find the addresses of these names, each with the port that belongs to it.
    Resolve(Vec<(String, u16)>),
    /// Put this behind what the token file holds, on disk.
    Append(Vec<u8>),
}

/// What it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// For each name its addresses, or why there are none.
    Resolved(Vec<Result<Vec<SocketAddr>, String>>),
    /// It is on disk, or why not; then the file is as it was.
    Appended(Result<(), String>),
    /// After a write: the token file should have become shorter, and why it has not. Nothing is
    /// lost, and the next writes are tried.
    NotCompacted(String),
}

/// A call that waits for an errand.
pub(super) struct Errand {
    connection: ConnectionId,
    reply: Reply,
    add: AddToken,
}

impl Errand {
    /// What it holds in memory besides itself, in bytes.
    pub fn held_bytes(&self) -> usize {
        let clients = &self.add.clients;
        let hosts: usize = clients.iter().map(UdpClient::held_bytes).sum();
        self.add.session.held_bytes() + clients.capacity() * size_of::<UdpClient>() + hosts
    }
}

impl Lists {
    pub(super) fn take_errand(&mut self, ticket: Ticket) -> Option<Errand> {
        let errand = self.errands.remove(&ticket);
        if self.errands.is_empty() {
            self.errands = HashMap::new();
        }
        errand
    }
}

impl Relay {
    /// An add-token whose clients have names: its answer waits until they have addresses.
    pub(super) fn resolve(&mut self, id: ConnectionId, add: AddToken, reply: Reply) {
        let now = self.desk.now;
        let names = add
            .clients
            .iter()
            .filter(|client| client.address().is_none());
        let names = names
            .map(|client| (client.host.as_str().to_owned(), client.port.get()))
            .collect();
        let ticket = self.desk.draw_ticket();
        let Some(connection) = self.clients.connections.get_mut(id) else {
            return;
        };
        connection.phase = Phase::Awaiting(ticket);
        connection.progress = now;
        self.lists.errands.insert(
            ticket,
            Errand {
                connection: id,
                reply,
                add,
            },
        );
        self.desk
            .actions
            .push_back(Action::Help(ticket, Job::Resolve(names)));
        self.clients.rearm(id, &mut self.desk);
    }

    /// An errand is done.
    pub fn helped(&mut self, ticket: Ticket, done: Done, now: Moment) {
        self.desk.now = now;
        match done {
            Done::Resolved(results) => {
                if !self.origin_resolved(ticket, &results) {
                    self.resolved(ticket, results);
                }
            }
            Done::Appended(result) => self.appended(ticket, result),
            Done::NotCompacted(error) => self.not_compacted(&error),
        }
        self.settle();
    }

    fn resolved(&mut self, ticket: Ticket, results: Vec<Result<Vec<SocketAddr>, String>>) {
        let Some(errand) = self.lists.take_errand(ticket) else {
            return;
        };
        let Errand {
            connection,
            reply,
            add,
        } = errand;
        let result =
            with_addresses(&add, results).and_then(|clients| self.change(add.into_change(clients)));
        self.finish_errand(connection, reply, result);
    }

    /// Too much is to be done already.
    pub fn not_helped(&mut self, ticket: Ticket, now: Moment) {
        self.desk.now = now;
        let is_anothers = self.not_appended(ticket) || self.origin_resolved(ticket, &[]);
        if !is_anothers && let Some(errand) = self.lists.take_errand(ticket) {
            let refusal = Refusal::busy(
                Status::ServiceUnavailable,
                "too many names are being resolved",
                RETRY_AFTER_SECONDS,
            );
            self.finish_errand(errand.connection, errand.reply, Err(refusal));
        }
        self.settle();
    }

    /// An errand has taken too long; whatever comes of it is not wanted any more.
    pub(super) fn errand_timed_out(&mut self, ticket: Ticket) {
        let Some(errand) = self.lists.take_errand(ticket) else {
            return;
        };
        let refusal = Refusal::new(
            Status::BadRequest,
            "udp-clients: a name did not resolve in time; names must resolve within 5 s",
        );
        self.finish_errand(errand.connection, errand.reply, Err(refusal));
    }

    fn finish_errand(&mut self, id: ConnectionId, reply: Reply, result: Result<Answer, Refusal>) {
        if let Some(connection) = self.clients.connections.get_mut(id) {
            connection.phase = Phase::Head(HeadReader::default());
            self.give(id, result, reply);
        }
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
        let mut addresses = addresses;
        // So many count; where one looks up more, it is told.
        addresses.truncate(crate::gate::ADDRESSES_MAX);
        addresses.shrink_to_fit();
        if addresses.len() > ADDRESSES_MAX {
            return Err(bad(format!(
                "the name has more than {ADDRESSES_MAX} addresses; give them one by one"
            )));
        }
        for address in &addresses {
            udp_clients::check_destination(address.ip()).map_err(|fault| bad(fault.to_string()))?;
        }
        tuples.push(RtpTuple {
            client: client.clone(),
            carriage: add.carriage,
            addresses,
        });
    }
    Ok(tuples)
}

/// Without names nothing has to be found out.
pub(super) fn without_names(add: &AddToken) -> Option<Vec<RtpTuple>> {
    let known = |client: &crate::gate::UdpClient| {
        Some(RtpTuple {
            client: client.clone(),
            carriage: add.carriage,
            addresses: vec![client.address()?],
        })
    };
    add.clients.iter().map(known).collect()
}
