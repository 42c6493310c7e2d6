//! The table of tokens: which session may be streamed and watched, and which UDP clients it has.
//!
//! The loop owns the one table; nothing here waits, resolves or sends. A session's tuples are found
//! by hashing its sessionid with a key that the process draws at its start (the standard
//! `HashMap`). That is the answer to guessing sessionids by timing: which entry a guess is compared
//! with, if with any, does not depend on how much of a sessionid it has right, so the comparison's
//! early exit tells nothing.
//!
//! Three views share the same tuples: by session, in the order of addition, and by the address that
//! datagrams come from. [`Tokens::check`] is the agreement between them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::ops::Bound;
use std::rc::Rc;

use super::carriage::{Carriage, Matrix};
use super::session_id::SessionId;
use super::tuple::{ADDRESSES_MAX, Direction, Kind, RtpTuple, Tuple, inbound_key};
use super::udp_clients::UdpClient;
use crate::held::{hash_map_bytes, tree_map_bytes};

/// So many different matrices there are among the UDP clients of a session: each costs as much as
/// a client or two.
pub const MATRICES_MAX: usize = 4;

/// How many tuples there may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Tuples in the whole table: `--tokens`.
    pub tokens_max: usize,
    /// UDP clients of one session: `--udp-clients`.
    pub udp_clients_per_session_max: usize,
}

impl Limits {
    /// Of a table that somebody else's limits have bounded.
    pub const NONE: Limits = Limits {
        tokens_max: usize::MAX,
        udp_clients_per_session_max: usize::MAX,
    };
}

/// Where datagrams go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// A host, or a group.
    pub address: SocketAddr,
    /// What they are.
    pub carriage: Carriage,
}

/// Why tuples were not added: none of them was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    Tokens { tokens_max: usize },
    UdpClients { udp_clients_per_session_max: usize },
    Matrices,
}

impl Display for Full {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Full::Tokens { tokens_max: max } => write!(
                formatter,
                "the table is full at {max} tokens; revoke some, or raise --tokens"
            ),
            Full::UdpClients {
                udp_clients_per_session_max: max,
            } => write!(
                formatter,
                "a session has at most {max} UDP clients; revoke some, or raise --udp-clients"
            ),
            Full::Matrices => write!(
                formatter,
                "the UDP clients of a session have at most {MATRICES_MAX} different matrices (fec); give one of \
                 those that it has"
            ),
        }
    }
}

impl std::error::Error for Full {}

/// The tuples of one session. At least one: an empty session is not kept.
#[derive(Debug, Default)]
struct Session {
    http: Option<Rc<Tuple>>,
    /// Serials ascend.
    rtp: Vec<Rc<Tuple>>,
    /// Where datagrams go, if that has been asked for since `rtp` changed.
    destinations: Option<Rc<[Destination]>>,
}

impl Session {
    fn in_order(&self) -> impl Iterator<Item = &Rc<Tuple>> {
        let serial = self.http.as_ref().map_or(0, |tuple| tuple.serial);
        let earlier = self.rtp.partition_point(|tuple| tuple.serial < serial);
        let (before, after) = self.rtp.split_at(earlier);
        before.iter().chain(&self.http).chain(after)
    }

    /// Bytes that the list of destinations takes, and its two counters.
    fn destinations_bytes(&self) -> usize {
        let list = self.destinations.as_deref();
        list.map_or(0, |list| size_of_val(list) + 2 * size_of::<usize>())
    }

    fn direction(&self) -> Option<Direction> {
        self.http.as_ref().and_then(|tuple| tuple.http())
    }
}

/// What adding to a session comes to.
#[derive(Debug)]
pub struct Addition {
    session: SessionId,
    steps: Vec<Step>,
}

impl Addition {
    /// Whether it leaves the table as it is.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// By how many tuples the table grows.
    pub fn tuples(&self) -> usize {
        self.steps.iter().filter(|step| step.adds_tuple()).count()
    }
}

/// One step of an addition, decided before anything is changed.
#[derive(Debug)]
enum Step {
    Add(Kind),
    /// In the place of the tuple with this serial.
    Replace(u64, Kind),
}

impl Step {
    fn adds_tuple(&self) -> bool {
        match self {
            Step::Add(_) => true,
            Step::Replace(..) => false,
        }
    }

    fn adds_client(&self) -> bool {
        match self {
            Step::Add(Kind::Rtp(_)) => true,
            Step::Add(Kind::Http(_)) | Step::Replace(..) => false,
        }
    }

    fn carriage(&self) -> Option<Carriage> {
        match self {
            Step::Add(Kind::Rtp(rtp)) | Step::Replace(_, Kind::Rtp(rtp)) => Some(rtp.carriage),
            Step::Add(Kind::Http(_)) | Step::Replace(_, Kind::Http(_)) => None,
        }
    }

    /// Whether the session may more than before, apart from the addresses of a client it has.
    fn is_new(&self) -> bool {
        match self {
            Step::Add(_) | Step::Replace(_, Kind::Http(_)) => true,
            Step::Replace(_, Kind::Rtp(_)) => false,
        }
    }
}

/// The table.
#[derive(Debug)]
pub struct Tokens {
    limits: Limits,
    sessions: HashMap<SessionId, Session>,
    in_order: BTreeMap<u64, Rc<Tuple>>,
    /// For each address the tuples that have it, serials ascending; no list is empty.
    inbound: HashMap<SocketAddr, Vec<Rc<Tuple>>>,
    /// Above every serial in the table.
    serial_next: u64,
    /// Bytes that the tuples take, and the lists of destinations.
    tuples_bytes: usize,
}

impl Tokens {
    /// An empty table.
    pub fn new(limits: Limits) -> Tokens {
        Tokens {
            limits,
            sessions: HashMap::new(),
            in_order: BTreeMap::new(),
            inbound: HashMap::new(),
            serial_next: 1,
            tuples_bytes: 0,
        }
    }

    /// Bytes that its allocations take at the most: the tuples, and the three views of them.
    pub fn held_bytes(&self) -> usize {
        self.tuples_bytes
            + hash_map_bytes(&self.sessions)
            + tree_map_bytes(&self.in_order)
            + hash_map_bytes(&self.inbound)
    }

    /// The same table, which is to keep to other limits from now on, if it does already.
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
        if self.len() > tokens_max {
            return Err(Full::Tokens { tokens_max });
        }
        self.limits = limits;
        Ok(self)
    }

    /// The number of tuples.
    pub fn len(&self) -> usize {
        self.in_order.len()
    }

    /// Whether there is no tuple.
    pub fn is_empty(&self) -> bool {
        self.in_order.is_empty()
    }

    /// Adds to the session's tuples, all or nothing, and tells how many were new. A direction that
    /// widens the session's `http` tuple counts as new. A UDP client that is there already is not
    /// new, but goes by the carriage and the addresses given now. Work grows with the session's
    /// tuples and the given ones.
    pub fn add(
        &mut self,
        session: &SessionId,
        http: Option<Direction>,
        rtp: Vec<RtpTuple>,
    ) -> Result<usize, Full> {
        let addition = self.plan(session, http, rtp, 0)?;
        Ok(self.carry_out(addition))
    }

    /// Decides an addition without making it, where `reserved` tuples of other sessions have been
    /// decided too. It may be carried out as long as nothing else has changed the session.
    pub fn plan(
        &self,
        session: &SessionId,
        http: Option<Direction>,
        rtp: Vec<RtpTuple>,
        reserved: usize,
    ) -> Result<Addition, Full> {
        let http = self.plan_http(session, http).into_iter();
        let steps: Vec<Step> = http.chain(self.plan_rtp(session, rtp)).collect();
        self.check_room(session, &steps, reserved)?;
        Ok(Addition {
            session: session.clone(),
            steps,
        })
    }

    /// Makes an addition, and tells how many tuples were new.
    pub fn carry_out(&mut self, addition: Addition) -> usize {
        let Addition { session, steps } = addition;
        let new = steps.iter().filter(|step| step.is_new()).count();
        for step in steps {
            match step {
                Step::Add(kind) => self.put(self.serial_next, &session, kind),
                Step::Replace(serial, kind) => self.put(serial, &session, kind),
            }
        }
        new
    }

    /// Removes all of the session's tuples and gives them back, in the order in which they were
    /// added.
    pub fn revoke(&mut self, session: &SessionId) -> Vec<Rc<Tuple>> {
        let Some(removed) = self.sessions.remove(session) else {
            return Vec::new();
        };
        self.tuples_bytes -= removed.destinations_bytes();
        let tuples: Vec<Rc<Tuple>> = removed.in_order().cloned().collect();
        for tuple in &tuples {
            self.in_order.remove(&tuple.serial);
            self.tuples_bytes -= tuple.held_bytes();
            self.remove_inbound(tuple);
        }
        tuples
    }

    /// Takes the addresses from UDP clients that do not pass, and tells how many clients have none
    /// any more. Looks at everything.
    pub fn retain_addresses(
        &mut self,
        mut passes: impl FnMut(SocketAddr, Carriage) -> bool,
    ) -> usize {
        let mut changed = Vec::new();
        for tuple in self.in_order.values() {
            let Some(rtp) = tuple.rtp() else { continue };
            let mut left = rtp.clone();
            left.addresses
                .retain(|address| passes(*address, rtp.carriage));
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

    /// Whether the session has an `http` tuple that lets a source in.
    pub fn may_publish(&self, session: &SessionId) -> bool {
        self.direction(session).is_some_and(Direction::allows_in)
    }

    /// Whether the session has an `http` tuple that lets viewers in.
    pub fn may_watch(&self, session: &SessionId) -> bool {
        self.direction(session).is_some_and(Direction::allows_out)
    }

    /// The session's tuples, in the order in which they were added.
    pub fn of(&self, session: &SessionId) -> impl Iterator<Item = &Tuple> {
        let tuples = self.sessions.get(session).into_iter();
        tuples.flat_map(Session::in_order).map(Rc::as_ref)
    }

    /// All tuples with a serial above `serial`, in the order in which they were added. A listing
    /// that is written in pieces goes on behind the last serial that it has written; 0 is the
    /// beginning.
    pub fn after(&self, serial: u64) -> impl Iterator<Item = &Tuple> {
        let range = (Bound::Excluded(serial), Bound::Unbounded);
        self.in_order.range(range).map(|(_, tuple)| tuple.as_ref())
    }

    /// The sessions one of whose UDP clients has this address, and how that gives a stream, in the
    /// order in which those were added. A session comes twice if two of its clients have the
    /// address. One look-up, however large the table is.
    pub fn sessions_from(
        &self,
        address: SocketAddr,
    ) -> impl Iterator<Item = (&SessionId, Carriage)> {
        let tuples = self.inbound.get(&inbound_key(address)).into_iter();
        let tuples = tuples.flatten();
        tuples.filter_map(|tuple| Some((&tuple.session, tuple.rtp()?.carriage)))
    }

    /// The session's UDP clients with the serials of their tuples, in the order in which they were
    /// added.
    pub fn udp_destinations(&self, session: &SessionId) -> impl Iterator<Item = (u64, &RtpTuple)> {
        let session = self.sessions.get(session).into_iter();
        session
            .flat_map(|session| &session.rtp)
            .filter_map(|tuple| Some((tuple.serial, tuple.rtp()?)))
    }

    /// Where the session's datagrams go: of each of its UDP clients the first address that passes,
    /// each once, in the order in which they were added. Made once for all who ask until its tuples
    /// change; so what passes must never change.
    pub fn destinations(
        &mut self,
        session: &SessionId,
        passes: impl Fn(SocketAddr, Carriage) -> bool,
    ) -> Rc<[Destination]> {
        let Some(known) = self.sessions.get_mut(session) else {
            return Rc::default();
        };
        if let Some(list) = &known.destinations {
            return list.clone();
        }
        // Two names may be one host's: it gets everything once.
        let mut seen = HashSet::new();
        let clients = known.rtp.iter().filter_map(|tuple| tuple.rtp());
        let destinations = clients.filter_map(|rtp| {
            let mut addresses = rtp.addresses.iter();
            let address = addresses.find(|one| passes(**one, rtp.carriage))?;
            Some(Destination {
                address: *address,
                carriage: rtp.carriage,
            })
        });
        let list: Rc<[Destination]> = destinations
            .filter(|one| seen.insert(one.address))
            .collect();
        known.destinations = Some(list.clone());
        self.tuples_bytes += known.destinations_bytes();
        list
    }

    fn direction(&self, session: &SessionId) -> Option<Direction> {
        self.sessions.get(session)?.direction()
    }

    fn plan_http(&self, session: &SessionId, http: Option<Direction>) -> Option<Step> {
        let asked = http?;
        let tuple = self
            .sessions
            .get(session)
            .and_then(|known| known.http.as_ref());
        let Some((tuple, known)) = tuple.and_then(|tuple| Some((tuple, tuple.http()?))) else {
            return Some(Step::Add(Kind::Http(asked)));
        };
        let widened = known.widened_by(asked);
        (widened != known).then_some(Step::Replace(tuple.serial, Kind::Http(widened)))
    }

    fn plan_rtp(&self, session: &SessionId, rtp: Vec<RtpTuple>) -> Vec<Step> {
        let known: HashMap<&UdpClient, (u64, &RtpTuple)> = self
            .udp_destinations(session)
            .map(|known| (&known.1.client, known))
            .collect();
        let mut given = HashSet::with_capacity(rtp.len());
        let mut steps = Vec::with_capacity(rtp.len());
        for mut tuple in rtp {
            if !given.insert(tuple.client.clone()) {
                continue;
            }
            tuple.addresses.truncate(ADDRESSES_MAX);
            match known.get(&tuple.client) {
                None => steps.push(Step::Add(Kind::Rtp(tuple))),
                Some((_, same)) if **same == tuple => {}
                Some((serial, first)) => {
                    // It stays listed as it was written first.
                    tuple.client = first.client.clone();
                    steps.push(Step::Replace(*serial, Kind::Rtp(tuple)));
                }
            }
        }
        steps
    }

    fn check_room(&self, session: &SessionId, steps: &[Step], reserved: usize) -> Result<(), Full> {
        let Limits {
            tokens_max,
            udp_clients_per_session_max,
        } = self.limits;
        let tuples = steps.iter().filter(|step| step.adds_tuple()).count();
        let clients = steps.iter().filter(|step| step.adds_client()).count();
        let clients_known = self
            .sessions
            .get(session)
            .map_or(0, |known| known.rtp.len());
        if clients > udp_clients_per_session_max.saturating_sub(clients_known) {
            return Err(Full::UdpClients {
                udp_clients_per_session_max,
            });
        }
        let known = self.udp_destinations(session).map(|(_, rtp)| rtp.carriage);
        let carriages = known.chain(steps.iter().filter_map(Step::carriage));
        let matrices: HashSet<Matrix> = carriages.filter_map(Carriage::matrix).collect();
        if matrices.len() > MATRICES_MAX {
            return Err(Full::Matrices);
        }
        if tuples > tokens_max.saturating_sub(self.len() + reserved) {
            return Err(Full::Tokens { tokens_max });
        }
        Ok(())
    }

    /// Puts a tuple into all three views, in the place of the one with its serial if there is one.
    fn put(&mut self, serial: u64, session: &SessionId, kind: Kind) {
        let tuple = Rc::new(Tuple {
            serial,
            session: session.clone(),
            kind,
        });
        self.serial_next = self.serial_next.max(serial.saturating_add(1));
        self.tuples_bytes += tuple.held_bytes();
        if let Some(replaced) = self.in_order.insert(serial, tuple.clone()) {
            self.tuples_bytes -= replaced.held_bytes();
            self.remove_inbound(&replaced);
        }
        for address in tuple.inbound() {
            put_by_serial(self.inbound.entry(address).or_default(), tuple.clone());
        }
        let known = self.sessions.entry(session.clone()).or_default();
        match tuple.kind {
            Kind::Http(_) => known.http = Some(tuple),
            Kind::Rtp(_) => {
                self.tuples_bytes -= known.destinations_bytes();
                known.destinations = None;
                put_by_serial(&mut known.rtp, tuple);
            }
        }
    }

    fn remove_inbound(&mut self, tuple: &Tuple) {
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

    /// Panics unless the three views agree and the limits hold. For tests and simulations: it looks
    /// at everything.
    pub fn check(&self) {
        self.check_sessions();
        self.check_inbound();
        let tuples = self.in_order.values().map(|tuple| tuple.held_bytes());
        let lists = self.sessions.values().map(Session::destinations_bytes);
        let bytes = tuples.chain(lists).sum::<usize>();
        assert_eq!(bytes, self.tuples_bytes, "tuples' bytes");
        assert!(self.len() <= self.limits.tokens_max, "too many tuples");
        for (serial, tuple) in &self.in_order {
            assert_eq!(*serial, tuple.serial, "a tuple in the wrong place");
            assert!(*serial < self.serial_next, "a serial will be given again");
        }
    }

    fn check_sessions(&self) {
        let mut tuples = 0;
        for (session, known) in &self.sessions {
            assert!(known.http.iter().all(|tuple| tuple.http().is_some()));
            assert!(known.rtp.iter().all(|tuple| tuple.rtp().is_some()));
            assert!(
                known
                    .in_order()
                    .is_sorted_by(|one, two| one.serial < two.serial)
            );
            for tuple in known.in_order() {
                assert_eq!(&tuple.session, session, "a tuple of another session");
                let same = self.in_order.get(&tuple.serial);
                assert!(
                    same.is_some_and(|same| Rc::ptr_eq(same, tuple)),
                    "not in the order"
                );
                tuples += 1;
            }
            let clients = self.udp_destinations(session).map(|(_, rtp)| &rtp.client);
            let distinct = clients.collect::<HashSet<_>>().len();
            assert_eq!(distinct, known.rtp.len(), "one client twice");
            assert!(
                distinct <= self.limits.udp_clients_per_session_max,
                "too many clients"
            );
            assert!(
                known.in_order().next().is_some(),
                "an empty session is kept"
            );
        }
        assert_eq!(tuples, self.len(), "tuples in no session");
    }

    fn check_inbound(&self) {
        let mut entries = 0;
        for (address, tuples) in &self.inbound {
            assert!(!tuples.is_empty(), "an empty list of an address");
            assert!(tuples.is_sorted_by(|one, two| one.serial < two.serial));
            for tuple in tuples {
                assert!(tuple.inbound().contains(address), "an address of no tuple");
                let same = self.in_order.get(&tuple.serial);
                assert!(
                    same.is_some_and(|same| Rc::ptr_eq(same, tuple)),
                    "a revoked tuple"
                );
            }
            entries += tuples.len();
        }
        let expected: usize = self
            .in_order
            .values()
            .map(|tuple| tuple.inbound().len())
            .sum();
        assert_eq!(entries, expected, "a tuple without its addresses");
    }
}

/// Keeps serials ascending; takes the place of a tuple with the same serial.
fn put_by_serial(tuples: &mut Vec<Rc<Tuple>>, tuple: Rc<Tuple>) {
    match tuples.binary_search_by_key(&tuple.serial, |other| other.serial) {
        Ok(place) => tuples[place] = tuple,
        Err(place) => tuples.insert(place, tuple),
    }
}

#[cfg(test)]
mod tests;
