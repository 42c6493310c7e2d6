//! The clients go to another process, each with all that is known of it; lists and counts of them
//! are made again there.
//!
//! Who is answered by what this process alone has stays with it: peers' lists that are collected,
//! and changes that are on their way to its disk.

use super::connection::Connection;
use super::request::DEPRECATION;
use super::{Clients, Fate, Phase, Room};
use crate::handover::{Line, Unfit, Writer, must};
use crate::http::{HeadReader, Reply};
use crate::relay::desk::Desk;
use crate::relay::settings::{Fields, VARIES};
use crate::relay::streams::Place;
use crate::relay::{CONNECTIONS_BEYOND_MAX, ConnectionId, LiveId, PullId, Settings, Ticket};
use crate::slots::Slots;

/// Clients that were told, one after the other.
#[derive(Default)]
pub struct ToldClients(Vec<(ConnectionId, Connection)>);

/// Whom else a client concerns.
pub enum Concern {
    /// It is this stream's source.
    Source(LiveId),
    /// It asks for this pull's stream.
    Asking(PullId),
    /// It waits for what has this ticket.
    Errand(Ticket),
    /// It watches so; its socket may take nothing for now.
    Viewer { place: Place, is_blocked: bool },
}

impl Clients {
    /// Tells of each that can go; returns those. The others stay: so does who waits for a ticket
    /// that is none of those that are told.
    pub fn hand_over(
        &mut self,
        is_told: impl Fn(Ticket) -> bool,
        writer: &mut Writer<'_>,
    ) -> Vec<ConnectionId> {
        let ids: Vec<ConnectionId> = self.connections.iter().map(|(id, _)| id).collect();
        let goes = |id: &ConnectionId| {
            let connection = self.connections.get_mut(*id);
            let told = |connection: &mut Connection| {
                if connection
                    .phase
                    .ticket()
                    .is_some_and(|ticket| !is_told(ticket))
                {
                    return false;
                }
                let reply = connection.phase.reply_mut();
                let fields = reply.map_or(&[][..], |reply| reply.fields);
                writer.put("connection", id.to_u64(), &(fields, &*connection))
            };
            connection.is_some_and(told)
        };
        ids.into_iter().filter(goes).collect()
    }

    /// Those that there are.
    pub fn ids(&self) -> impl Iterator<Item = ConnectionId> {
        self.connections.iter().map(|(id, _)| id)
    }

    /// What ids count on from.
    pub fn next_id(&self) -> u32 {
        self.connections.next()
    }

    /// Clients who have gone to another process: nobody hears of it, and their sockets stay open.
    pub fn let_go(&mut self, ids: &[ConnectionId], desk: &mut Desk) {
        for id in ids {
            let connection = self.connections.get_mut(*id);
            let phase = connection.map(|connection| {
                connection.access = None;
                std::mem::replace(&mut connection.phase, Phase::Recording)
            });
            if let Some(Phase::Waiting(waiting)) = phase {
                self.waiting.leave(&waiting.session, *id);
                self.blocked.leave(&waiting.session, *id);
            }
            self.close(*id, desk);
        }
    }

    /// Those who were told are this server's from now on.
    pub fn take_over(
        ToldClients(told): ToldClients,
        next_id: u32,
        desk: &mut Desk,
    ) -> Result<Clients, Unfit> {
        let limits = &desk.settings().limits;
        let places_max = limits.connections_max + CONNECTIONS_BEYOND_MAX;
        let mut clients = Clients {
            connections: Slots::of(told, next_id, places_max)?,
            ..Clients::new()
        };
        let ids: Vec<ConnectionId> = clients.connections.iter().map(|(id, _)| id).collect();
        for id in ids {
            clients.take_in(id, desk)?;
        }
        Ok(clients)
    }

    /// A client that was told has its place in all lists that are kept of them.
    fn take_in(&mut self, id: ConnectionId, desk: &mut Desk) -> Result<(), Unfit> {
        let connection = self.connections.get_mut(id);
        let connection = connection.ok_or_else(|| Unfit(format!("{id:?} is gone")))?;
        let output = &connection.output;
        must(output.sent <= output.bytes.len(), || {
            format!("{id:?}: more has been sent than there is")
        })?;
        must(connection.phase.fits(), || {
            format!("{id:?}: its body, or what it is sent, is in no state that can be")
        })?;
        connection.progress = connection.progress.min(desk.now());
        connection.taken = connection.taken.min(desk.now());
        connection.read_again(desk);
        if connection.is_counted {
            self.hosts.enter(connection.peer.ip());
        }
        if connection.is_beyond_limit.is_some() && !connection.is_counted {
            self.unplaced.push_back(id);
        }
        if let Some(pass) = &connection.pass {
            self.inside.enter(pass, id);
        }
        let has_read_all = connection.input.is_empty();
        match &connection.phase {
            Phase::Waiting(waiting) => match (waiting.fate, waiting.room) {
                (Fate::Open, Room::Session) => self.waiting.enter(waiting.what(), id, None),
                (Fate::Open, Room::List) => self.blocked.enter(waiting.what(), id, None),
                (Fate::Called | Fate::TurnedAway(_), _) => self.wait_ahead(id),
            },
            Phase::Following(_) => drop(self.readers.insert(id)),
            Phase::Head(_) | Phase::Asking(_) if !has_read_all => self.wait_ahead(id),
            Phase::Introduction
            | Phase::Head(_)
            | Phase::Payload(_)
            | Phase::Source(_)
            | Phase::Viewer(_)
            | Phase::Listing(_)
            | Phase::Errand(_)
            | Phase::Asking(_)
            | Phase::Telling(_)
            | Phase::Recording
            | Phase::Lingering(_) => {}
        }
        self.queue(id);
        self.rearm(id, desk);
        Ok(())
    }

    /// Whom else each of them concerns.
    pub fn concerns(&self) -> impl Iterator<Item = (ConnectionId, Concern)> {
        let each = self.connections.iter();
        each.filter_map(|(id, connection)| match &connection.phase {
            Phase::Source(source) => Some((id, Concern::Source(source.live))),
            Phase::Viewer(viewing) => Some((
                id,
                Concern::Viewer {
                    place: viewing.place(),
                    is_blocked: connection.is_blocked,
                },
            )),
            Phase::Asking(asking) => Some((id, Concern::Asking(asking.pull))),
            Phase::Errand(ticket) => Some((id, Concern::Errand(*ticket))),
            _ => None,
        })
    }

    /// Whether this client asks for this pull's stream.
    pub fn asks_for(&self, id: ConnectionId, pull: PullId) -> bool {
        let connection = self.connections.get(id);
        connection.is_some_and(
            |connection| matches!(&connection.phase, Phase::Asking(asking) if asking.pull == pull),
        )
    }

    /// Whether this client is the source of this stream.
    pub fn is_source_of(&self, id: ConnectionId, live: LiveId) -> bool {
        let connection = self.connections.get(id);
        connection.is_some_and(
            |connection| matches!(&connection.phase, Phase::Source(source) if source.live == live),
        )
    }
}

impl Connection {
    /// What it has sent is looked at again, as far as it was before: it is no count that is
    /// believed.
    fn read_again(&mut self, desk: &Desk) {
        let now = desk.now();
        match &mut self.phase {
            Phase::Head(reader) => {
                let mut again = HeadReader::default();
                let limits = &desk.settings().limits.http;
                let is_part = matches!(again.read(&self.input, limits), Ok(None));
                *reader = if is_part {
                    again
                } else {
                    HeadReader::default()
                };
            }
            Phase::Asking(asking) => asking.read_again(&self.input),
            Phase::Source(source) => source.fit(now),
            Phase::Following(following) => following.fit(desk),
            _ => {}
        }
    }
}

impl ToldClients {
    /// One of them.
    pub fn hear(&mut self, line: Line<'_>, desk: &Desk) -> Result<(), Unfit> {
        let (fields, mut connection): (Vec<(String, String)>, Connection) = line.read()?;
        if let Some(reply) = connection.phase.reply_mut() {
            reply.fields = desk.settings().fields_like(&fields);
        }
        self.0
            .push((ConnectionId::from_u64(line.number), connection));
        Ok(())
    }
}

impl Settings {
    /// What answers to a request carry, among what they may by these settings.
    pub fn fields_like(&self, told: &[(String, String)]) -> Fields {
        let known = self.cors.iter().map(|(_, fields)| *fields);
        let told = told
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let same = |fields: &Fields| fields.iter().copied().eq(told.clone());
        known
            .chain([VARIES, DEPRECATED])
            .find(same)
            .unwrap_or_default()
    }
}

const DEPRECATED: Fields = &[DEPRECATION];

impl Phase {
    /// Whether what was told of bodies, and of how they are framed, can be.
    fn fits(&self) -> bool {
        match self {
            Phase::Payload(payload) => payload.fits(),
            Phase::Source(source) => source.fits(),
            Phase::Viewer(viewing) => viewing.fits(),
            Phase::Introduction
            | Phase::Head(_)
            | Phase::Waiting(_)
            | Phase::Listing(_)
            | Phase::Following(_)
            | Phase::Errand(_)
            | Phase::Asking(_)
            | Phase::Telling(_)
            | Phase::Recording
            | Phase::Lingering(_) => true,
        }
    }

    /// How what is asked is answered, if it is not yet.
    fn reply_mut(&mut self) -> Option<&mut Reply> {
        match self {
            Phase::Payload(payload) => Some(&mut payload.reply),
            Phase::Source(source) => source.reply.as_mut(),
            Phase::Viewer(viewing) => Some(viewing.reply_mut()),
            Phase::Waiting(waiting) => Some(&mut waiting.reply),
            Phase::Listing(listing) => Some(&mut listing.reply),
            Phase::Introduction
            | Phase::Head(_)
            | Phase::Following(_)
            | Phase::Errand(_)
            | Phase::Asking(_)
            | Phase::Telling(_)
            | Phase::Recording
            | Phase::Lingering(_) => None,
        }
    }
}
