//! The token table: the tokens of each session, and its UDP clients.
//!
//! The event loop owns the table; nothing here waits, resolves names or sends. A session's tuples
//! are found with the standard `HashMap`, whose hash key is random for each process. This protects
//! session ids from guesses by timing: the entry that a guess is compared with does not depend on
//! how many bytes of the guess are right.
//!
//! Four views share the tuples: by session, in order of addition, by the address of senders, and by
//! expiry. [`Tokens::check`] checks that they agree.
//!
//! An expired tuple stays until its place is needed, so that its refusal can say that it has
//! expired. Callers pass the time, which must never be before [`Tokens::time`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::net::SocketAddr;
use std::ops::Bound;
use std::rc::Rc;

use super::grant::{Denied, Direction, Grant, GrantChange};
use super::limits::{Full, Limits, MATRICES_MAX};
use super::record::{Entry, Record};
use super::session_id::SessionId;
use super::transport::{FecMatrix, Transport};
use super::tuple::{ADDRESSES_MAX, Kind, RtpTuple, Tuple, canonical};
use super::udp_clients::UdpClient;
use crate::memory::{hash_map_bytes, tree_map_bytes};
use crate::time::UnixTime;

/// A destination of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Destination {
    /// Address of a host or a group.
    pub address: SocketAddr,
    /// The form of the stream.
    pub transport: Transport,
}

/// The tuples of one session; at least one.
#[derive(Debug, Default)]
struct Session {
    http: Option<Rc<Tuple>>,
    /// In ascending order of serials.
    rtp: Vec<Rc<Tuple>>,
    /// All destinations, if a caller has asked for them since `rtp` changed.
    destinations: Option<Rc<[Destination]>>,
}

impl Session {
    fn in_order(&self) -> impl Iterator<Item = &Rc<Tuple>> {
        let serial = self.http.as_ref().map_or(0, |tuple| tuple.serial);
        let earlier = self.rtp.partition_point(|tuple| tuple.serial < serial);
        let (before, after) = self.rtp.split_at(earlier);
        before.iter().chain(&self.http).chain(after)
    }

    /// Returns the memory of the list of destinations in bytes, with the two counters of its `Rc`.
    fn destinations_bytes(&self) -> usize {
        let list = self.destinations.as_deref();
        list.map_or(0, |list| size_of_val(list) + 2 * size_of::<usize>())
    }
}

/// The changes for an addition to a session.
#[derive(Debug, Default)]
pub struct Addition {
    /// The changes, in their order. Empty: the table has all tuples already.
    pub records: Vec<Record>,
    /// Number of new tuples. A changed `http` tuple counts.
    pub new: usize,
}

/// Changes that are tried out, to be taken back.
#[derive(Debug)]
struct Trial {
    /// `serial_next` at the beginning of the trial.
    serial_next: u64,
    /// For each change, the serial of the tuple and the tuple before the change.
    before: Vec<(u64, Option<Rc<Tuple>>)>,
}

/// The token table.
#[derive(Debug, Default)]
pub struct Tokens {
    limits: Limits,
    sessions: HashMap<SessionId, Session>,
    in_order: BTreeMap<u64, Rc<Tuple>>,
    /// For each address, its tuples in ascending order of serials. No list is empty.
    inbound: HashMap<SocketAddr, Vec<Rc<Tuple>>>,
    /// Expiry and serial of each `http` tuple that expires.
    expiries: BTreeMap<(UnixTime, u64), ()>,
    /// The latest time that a caller has passed. An earlier time now means that a clock was set
    /// back.
    time: UnixTime,
    /// The next serial, above all serials in the table.
    serial_next: u64,
    /// Memory of the tuples and of the lists of destinations, in bytes.
    tuples_bytes: usize,
    /// Number of keys of each session.
    keys: HashMap<SessionId, usize>,
    /// Changes since [`Tokens::begin_trial`].
    trial: Option<Trial>,
}

impl Tokens {
    /// Returns an empty table.
    pub fn new(limits: Limits) -> Tokens {
        Tokens {
            limits,
            serial_next: 1,
            ..Tokens::default()
        }
    }

    /// Returns the largest allocated memory in bytes: of the tuples and the views.
    pub fn memory_bytes(&self) -> usize {
        self.tuples_bytes
            + hash_map_bytes(&self.sessions)
            + tree_map_bytes(&self.in_order)
            + hash_map_bytes(&self.inbound)
            + tree_map_bytes(&self.expiries)
            + hash_map_bytes(&self.keys)
    }

    /// Sets the latest time.
    pub fn set_time(&mut self, time: UnixTime) {
        self.time = self.time.max(time);
    }

    /// Returns the latest time.
    pub fn time(&self) -> UnixTime {
        self.time
    }

    /// Returns the table with other limits. If it has too many tuples, tuples that have expired at
    /// the latest time are removed first. Tuples that limit keys stay.
    pub fn with_limits(mut self, limits: Limits) -> Result<Tokens, Full> {
        let Limits {
            tokens_max,
            udp_clients_per_session_max,
        } = limits;
        let clients = self.sessions.values().map(|known| known.rtp.len());
        if clients.max().unwrap_or(0) > udp_clients_per_session_max {
            return Err(Full::UdpClients {
                udp_clients_per_session_max,
            });
        }
        self.limits = limits;
        for record in self.to_forget(self.time) {
            self.carry_out(&record);
        }
        if self.len() > tokens_max {
            return Err(Full::Tokens { tokens_max });
        }
        Ok(self)
    }

    /// Returns the number of tuples.
    pub fn len(&self) -> usize {
        self.in_order.len()
    }

    /// Returns whether the table has no tuple.
    pub fn is_empty(&self) -> bool {
        self.in_order.is_empty()
    }

    /// Begins a trial: [`Tokens::end_trial`] takes all further changes back.
    pub fn begin_trial(&mut self) {
        self.trial = Some(Trial {
            serial_next: self.serial_next,
            before: Vec::new(),
        });
    }

    /// Takes all changes of the trial back.
    pub fn end_trial(&mut self) {
        self.take_back(0);
        if let Some(trial) = self.trial.take() {
            self.serial_next = trial.serial_next;
        }
    }

    /// Takes back the changes of a trial, except the first `kept` changes of tuples.
    fn take_back(&mut self, kept: usize) {
        let Some(mut trial) = self.trial.take() else {
            return;
        };
        for (serial, before) in trial.before.drain(kept..).rev() {
            match before {
                Some(tuple) => self.put_tuple(tuple),
                None => drop(self.remove(serial)),
            }
        }
        self.trial = Some(trial);
    }

    /// Tries an addition to a session within a trial, all or nothing. Returns its changes. The
    /// caller must not refuse the addition afterwards: it stays in the trial. A UDP client that the
    /// session already has is not new; it gets the transport and addresses of this call. The work
    /// grows with the tuples of the session and of the call.
    pub fn try_add(
        &mut self,
        session: &SessionId,
        http: Option<GrantChange>,
        rtp: Vec<RtpTuple>,
        now: UnixTime,
    ) -> Result<Addition, Full> {
        let known = self.grant(session);
        let alive = known.filter(|known| !known.is_over(now));
        let http = http.map(|change| Grant::changed(alive, change));
        let http = http.filter(|grant| Some(grant) != known);
        let (rtp, new_clients) = self.changed_clients(session, rtp);
        if http.is_none() && rtp.is_empty() {
            return Ok(Addition::default());
        }
        let new = new_clients + usize::from(http.is_some());
        let kept = self.trial.as_ref().map_or(0, |trial| trial.before.len());
        let mut records = vec![Record::Set {
            session: session.clone(),
            http,
            rtp,
        }];
        records
            .iter()
            .for_each(|record| drop(self.carry_out(record)));
        let room = self.to_forget(now);
        room.iter().for_each(|record| drop(self.carry_out(record)));
        if let Err(full) = self.check_limits(session) {
            self.take_back(kept);
            return Err(full);
        }
        records.extend(room);
        Ok(Addition { records, new })
    }

    /// Makes changes that were written together.
    pub fn replay(&mut self, entry: &Entry) {
        if let Some(time) = entry.time {
            self.set_time(time);
        }
        for record in &entry.records {
            self.carry_out(record);
        }
    }

    /// Makes a change. Returns the tuples that it removes, in order of addition.
    pub fn carry_out(&mut self, record: &Record) -> Vec<Rc<Tuple>> {
        match record {
            Record::Set { session, http, rtp } => {
                self.set(session, http.clone(), rtp);
                Vec::new()
            }
            Record::Forget { session } => {
                let known = self.sessions.get(session);
                let http = known.and_then(|known| known.http.as_ref());
                let serial = http.map(|tuple| tuple.serial);
                let removed = serial.and_then(|serial| self.remove(serial));
                removed.into_iter().collect()
            }
            Record::Revoke { session } => self.revoke(session),
            Record::Join { session, grant } => {
                let known = self.grant(session);
                // The token allows what either of the two allows.
                let direction = match known {
                    Some(known) if known.direction != grant.direction => Direction::Both,
                    _ => grant.direction,
                };
                let terms = grant.terms.clone();
                let change = GrantChange::from(Grant { direction, terms });
                self.set(session, Some(Grant::changed(known, change)), &[]);
                Vec::new()
            }
        }
    }

    /// Removes all tuples of the session. Returns them in order of addition.
    pub fn revoke(&mut self, session: &SessionId) -> Vec<Rc<Tuple>> {
        let serials = self
            .of(session)
            .map(|tuple| tuple.serial)
            .collect::<Vec<_>>();
        // From the last to the first, so that lists need not move entries.
        let removed = serials
            .iter()
            .rev()
            .filter_map(|serial| self.remove(*serial));
        let mut tuples = removed.collect::<Vec<_>>();
        tuples.reverse();
        shrink(&mut self.sessions);
        shrink(&mut self.inbound);
        shrink(&mut self.keys);
        tuples
    }

    /// Removes addresses of UDP clients that do not pass. Returns the number of clients that have
    /// no address left. Looks at every tuple.
    pub fn retain_addresses(
        &mut self,
        mut passes: impl FnMut(SocketAddr, Transport) -> bool,
    ) -> usize {
        let mut changed = Vec::new();
        for tuple in self.in_order.values() {
            let Some(rtp) = tuple.rtp() else { continue };
            let mut left = rtp.clone();
            left.addresses
                .retain(|address| passes(*address, rtp.transport));
            if left != *rtp {
                changed.push((tuple.serial, tuple.session.clone(), left));
            }
        }
        let emptied = changed.iter().filter(|(.., rtp)| rtp.addresses.is_empty());
        let count = emptied.count();
        for (serial, session, rtp) in changed {
            self.put(serial, &session, Kind::Rtp(rtp));
        }
        count
    }

    /// Returns the grant of the session id's `http` tuple.
    pub fn grant(&self, session: &SessionId) -> Option<&Grant> {
        self.sessions.get(session)?.http.as_ref()?.http()
    }

    /// Returns the session that a session id opens: the one that it is a key to, or its own. A key
    /// to a key does not count.
    pub fn opened_by<'a>(&'a self, name: &'a SessionId) -> &'a SessionId {
        let opens = |grant: &'a Grant| grant.terms.opens.as_ref();
        self.grant(name).and_then(opens).unwrap_or(name)
    }

    /// Returns whether the session has keys.
    pub fn has_keys(&self, session: &SessionId) -> bool {
        self.keys.contains_key(session)
    }

    /// Checks whether a client with this session id may be the source of the session that it opens.
    pub fn publish(&self, name: &SessionId, now: UnixTime) -> Result<(), Denied> {
        self.ask(name, now, Direction::In)
    }

    /// Checks whether a client with this session id may watch the session that it opens.
    pub fn watch(&self, name: &SessionId, now: UnixTime) -> Result<(), Denied> {
        self.ask(name, now, Direction::Out)
    }

    fn ask(&self, name: &SessionId, now: UnixTime, wanted: Direction) -> Result<(), Denied> {
        match self.grant(name) {
            None => Err(Denied::NoToken),
            Some(grant) if grant.is_over(now) => Err(Denied::Over),
            Some(grant) if !grant.direction.allows(wanted) => Err(Denied::Direction),
            Some(_) => Ok(()),
        }
    }

    /// Returns the next time after `now` at which an `http` tuple expires.
    pub fn next_expiry(&self, now: UnixTime) -> Option<UnixTime> {
        let later = (Bound::Excluded((now, u64::MAX)), Bound::Unbounded);
        self.expiries
            .range(later)
            .next()
            .map(|((expiry, _), ())| *expiry)
    }

    /// Returns the session ids whose `http` tuples expired after `since`, up to `now`.
    pub fn expired_since(
        &self,
        since: UnixTime,
        now: UnixTime,
    ) -> impl Iterator<Item = &SessionId> {
        let meanwhile = (since, u64::MAX)..=(now.max(since), u64::MAX);
        let serials = self
            .expiries
            .range(meanwhile)
            .map(|((_, serial), ())| serial);
        serials.filter_map(|serial| Some(&self.in_order.get(serial)?.session))
    }

    /// Checks whether a session id can be a key, or a session with tuples, as an addition asks for.
    /// It cannot be both. The error names the parameter that is wrong.
    pub fn check_key(
        &self,
        name: &SessionId,
        http: Option<&GrantChange>,
        has_rtp: bool,
    ) -> Result<(), &'static str> {
        let asked = http.and_then(|change| change.terms.opens.as_ref());
        let known = self
            .grant(name)
            .and_then(|grant| grant.terms.opens.as_ref());
        let is_session = self.sessions.contains_key(name) || self.has_keys(name);
        match asked {
            _ if has_rtp && (asked.is_some() || known.is_some()) => Err(
                "sessionid: it is a key, and keys are for HTTP; UDP clients are added to the session",
            ),
            Some(session) if session == name => {
                Err("for: a sessionid is no key to itself; name another session")
            }
            Some(session) if self.opened_by(session) != session => {
                Err("for: that is a key itself; name the session that it is for")
            }
            Some(_) if known.is_none() && is_session => Err(
                "sessionid: it has tokens of its own, or keys, and cannot become a key; take another, or revoke them",
            ),
            _ if known.is_some() && known != asked => Err(
                "sessionid: it is a key to another session; say so with for, or revoke it first",
            ),
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the session's tuples in order of addition.
    pub fn of(&self, session: &SessionId) -> impl Iterator<Item = &Tuple> {
        let tuples = self.sessions.get(session).into_iter();
        tuples.flat_map(Session::in_order).map(Rc::as_ref)
    }

    /// Returns all tuples with a serial above `serial`, in order of addition. A list that is
    /// written in pieces continues with the last serial it has written, from 0 on.
    pub fn after(&self, serial: u64) -> impl Iterator<Item = &Tuple> {
        let range = (Bound::Excluded(serial), Bound::Unbounded);
        self.in_order.range(range).map(|(_, tuple)| tuple.as_ref())
    }

    /// Returns the sessions that have a UDP client with this address, with its transport, in order
    /// of addition. A session comes twice if two of its clients have the address. The cost does not
    /// depend on the size of the table.
    pub fn sessions_from(
        &self,
        address: SocketAddr,
    ) -> impl Iterator<Item = (&SessionId, Transport)> {
        let tuples = self.inbound.get(&canonical(address)).into_iter();
        let tuples = tuples.flatten();
        tuples.filter_map(|tuple| Some((&tuple.session, tuple.rtp()?.transport)))
    }

    /// Returns the session's UDP clients and the serials of their tuples, in order of addition.
    pub fn udp_destinations(&self, session: &SessionId) -> impl Iterator<Item = (u64, &RtpTuple)> {
        let session = self.sessions.get(session).into_iter();
        session
            .flat_map(|session| &session.rtp)
            .filter_map(|tuple| Some((tuple.serial, tuple.rtp()?)))
    }

    /// Returns the session's destinations: for each UDP client its first address that passes,
    /// without repeats, in order of addition. The list is cached until the session's tuples change,
    /// so `passes` must always give the same answers.
    pub fn destinations(
        &mut self,
        session: &SessionId,
        passes: impl Fn(SocketAddr, Transport) -> bool,
    ) -> Rc<[Destination]> {
        let Some(known) = self.sessions.get_mut(session) else {
            return Rc::default();
        };
        if let Some(list) = &known.destinations {
            return list.clone();
        }
        // Two names can resolve to one host.
        let mut seen = HashSet::new();
        let clients = known.rtp.iter().filter_map(|tuple| tuple.rtp());
        let destinations = clients.filter_map(|rtp| {
            let mut addresses = rtp.addresses.iter();
            let address = addresses.find(|one| passes(**one, rtp.transport))?;
            Some(Destination {
                address: *address,
                transport: rtp.transport,
            })
        });
        let list: Rc<[Destination]> = destinations
            .filter(|one| seen.insert(one.address))
            .collect();
        known.destinations = Some(list.clone());
        self.tuples_bytes += known.destinations_bytes();
        list
    }

    /// Returns the given clients that are new or changed, without repeats, and the number of new
    /// ones.
    fn changed_clients(&self, session: &SessionId, given: Vec<RtpTuple>) -> (Vec<RtpTuple>, usize) {
        let known: HashMap<&UdpClient, &RtpTuple> = self
            .udp_destinations(session)
            .map(|(_, known)| (&known.client, known))
            .collect();
        let mut seen = HashSet::with_capacity(given.len());
        let mut new = 0;
        let mut changed = Vec::with_capacity(given.len());
        for mut tuple in given {
            if !seen.insert(tuple.client.clone()) {
                continue;
            }
            tuple.addresses.truncate(ADDRESSES_MAX);
            match known.get(&tuple.client) {
                None => new += 1,
                Some(same) if **same == tuple => continue,
                // The first spelling stays.
                Some(first) => tuple.client = first.client.clone(),
            }
            changed.push(tuple);
        }
        (changed, new)
    }

    fn check_limits(&self, session: &SessionId) -> Result<(), Full> {
        let Limits {
            tokens_max,
            udp_clients_per_session_max,
        } = self.limits;
        let clients = || self.udp_destinations(session).map(|(_, rtp)| rtp);
        if clients().count() > udp_clients_per_session_max {
            return Err(Full::UdpClients {
                udp_clients_per_session_max,
            });
        }
        let matrices = clients().filter_map(|rtp| rtp.transport.matrix());
        if matrices.collect::<HashSet<FecMatrix>>().len() > MATRICES_MAX {
            return Err(Full::Matrices);
        }
        if self.len() > tokens_max {
            return Err(Full::Tokens { tokens_max });
        }
        Ok(())
    }

    fn set(&mut self, session: &SessionId, http: Option<Grant>, rtp: &[RtpTuple]) {
        let mut serial_next = self.serial_next;
        let mut draw = || {
            serial_next += 1;
            serial_next - 1
        };
        let known = self.sessions.get(session);
        let known_http = known.and_then(|known| known.http.as_ref());
        let http = http.map(|grant| {
            let serial = known_http.map(|tuple| tuple.serial);
            (serial.unwrap_or_else(&mut draw), Kind::Http(grant))
        });
        let clients = self.udp_destinations(session);
        let mut serials: HashMap<&UdpClient, u64> = clients
            .map(|(serial, known)| (&known.client, serial))
            .collect();
        let rtp = rtp.iter().map(|tuple| {
            let serial = serials.entry(&tuple.client).or_insert_with(&mut draw);
            (*serial, Kind::Rtp(tuple.clone()))
        });
        for (serial, kind) in http.into_iter().chain(rtp).collect::<Vec<_>>() {
            self.put(serial, session, kind);
        }
    }

    fn put(&mut self, serial: u64, session: &SessionId, kind: Kind) {
        self.put_tuple(Rc::new(Tuple {
            serial,
            session: session.clone(),
            kind,
        }));
    }

    /// Puts a tuple into all views. Replaces the tuple with the same serial.
    fn put_tuple(&mut self, tuple: Rc<Tuple>) {
        let serial = tuple.serial;
        self.serial_next = self.serial_next.max(serial.saturating_add(1));
        self.tuples_bytes += tuple.memory_bytes();
        let replaced = self.in_order.insert(serial, tuple.clone());
        if let Some(replaced) = &replaced {
            self.remove_from_views(replaced);
        }
        if let Some(trial) = &mut self.trial {
            trial.before.push((serial, replaced));
        }
        self.count_key(&tuple, true);
        if let Some(expiry) = tuple.http().and_then(Grant::expiry) {
            self.expiries.insert((expiry, serial), ());
        }
        for address in tuple.inbound() {
            put_by_serial(self.inbound.entry(address).or_default(), tuple.clone());
        }
        let known = self.sessions.entry(tuple.session.clone()).or_default();
        match tuple.kind {
            Kind::Http(_) => known.http = Some(tuple),
            Kind::Rtp(_) => {
                self.tuples_bytes -= known.destinations_bytes();
                known.destinations = None;
                put_by_serial(&mut known.rtp, tuple);
            }
        }
    }

    /// Removes a tuple from all views, and its session if that has no other tuple.
    fn remove(&mut self, serial: u64) -> Option<Rc<Tuple>> {
        let tuple = self.in_order.remove(&serial)?;
        self.remove_from_views(&tuple);
        if let Some(known) = self.sessions.get_mut(&tuple.session) {
            match tuple.kind {
                Kind::Http(_) => known.http = None,
                Kind::Rtp(_) => {
                    self.tuples_bytes -= known.destinations_bytes();
                    known.destinations = None;
                    let place = known.rtp.binary_search_by_key(&serial, |rtp| rtp.serial);
                    place
                        .into_iter()
                        .for_each(|place| drop(known.rtp.remove(place)));
                }
            }
            if known.http.is_none() && known.rtp.is_empty() {
                self.tuples_bytes -= known.destinations_bytes();
                self.sessions.remove(&tuple.session);
            }
        }
        if let Some(trial) = &mut self.trial {
            trial.before.push((serial, Some(tuple.clone())));
        }
        Some(tuple)
    }

    /// Removes a tuple from everything but the order and its session.
    fn remove_from_views(&mut self, tuple: &Tuple) {
        self.tuples_bytes -= tuple.memory_bytes();
        self.count_key(tuple, false);
        if let Some(expiry) = tuple.http().and_then(Grant::expiry) {
            self.expiries.remove(&(expiry, tuple.serial));
        }
        for address in tuple.inbound() {
            let Some(tuples) = self.inbound.get_mut(&address) else {
                continue;
            };
            if let Ok(place) = tuples.binary_search_by_key(&tuple.serial, |other| other.serial) {
                tuples.remove(place);
            }
            if tuples.is_empty() {
                self.inbound.remove(&address);
            }
        }
    }
}

/// Inserts in order of serials. Replaces a tuple with the same serial.
fn put_by_serial(tuples: &mut Vec<Rc<Tuple>>, tuple: Rc<Tuple>) {
    match tuples.binary_search_by_key(&tuple.serial, |other| other.serial) {
        Ok(place) => tuples[place] = tuple,
        Err(place) => tuples.insert(place, tuple),
    }
}

/// Shrinks a table of which little is used. Tables of std never shrink by themselves.
fn shrink<K: Eq + Hash, V>(table: &mut HashMap<K, V>) {
    if 8 * table.len() < table.capacity() {
        table.shrink_to(2 * table.len());
    }
}

mod check;
#[cfg(feature = "handover")]
mod handover;
mod room;
#[cfg(test)]
mod tests;
