//! How many watch by each sessionid, be it a session's own or a key to it.
//!
//! Whoever watches over HTTP is a connection, and counts as long as that is there. A player of HLS
//! has none between two requests. Where a token says how many may watch, an address that asks has a
//! seat by the sessionid that it asks by, for a while after it has asked last. So it counts once
//! however many requests it makes; and so do all who are behind one address.
//!
//! Bounds: [`SEATS_MAX`] seats, and a count for each sessionid by which somebody watches.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use crate::gate::{SessionId, network_of};
use crate::held::{hash_map_bytes, tree_map_bytes, tree_set_bytes};
use crate::moment::Moment;
use crate::relay::SEATS_MAX;
use crate::relay::pass::Pass;

/// So many that are over are cleared at once: the others count until then.
const CLEARED_MAX: usize = 256;

/// Whose seat: by which sessionid, and from where.
type Sitter = (SessionId, IpAddr);

struct Seat {
    /// What its sessionid opens.
    session: SessionId,
    until: Moment,
}

/// Who watches, by sessionid.
#[derive(Default)]
pub(super) struct Heads {
    counts: HashMap<SessionId, usize>,
    seats: BTreeMap<Sitter, Seat>,
    /// The same seats, by when they are over.
    due: BTreeSet<(Moment, Sitter)>,
}

impl Heads {
    /// How many watch by a sessionid, or wait to; by a session's own, all who watch that.
    pub fn of(&self, name: &SessionId) -> usize {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// One more watches by this sessionid.
    pub fn enter(&mut self, pass: &Pass) {
        if pass.is_viewer() {
            self.add(pass.name(), pass.session());
        }
    }

    /// One less.
    pub fn leave(&mut self, pass: &Pass) {
        if pass.is_viewer() {
            self.take(pass.name(), pass.session());
        }
    }

    /// Whether whoever asks from there has a seat by this sessionid.
    pub fn has_seat(&self, name: &SessionId, address: IpAddr) -> bool {
        self.seats
            .contains_key(&(name.clone(), network_of(address)))
    }

    /// Whether there is a seat for one more.
    pub fn has_free(&self) -> bool {
        self.seats.len() < SEATS_MAX
    }

    /// Whoever has asked from there has a seat until then.
    pub fn sit(&mut self, pass: &Pass, address: IpAddr, until: Moment) {
        let sitter = (pass.name().clone(), network_of(address));
        if let Some(seat) = self.seats.get_mut(&sitter) {
            let was = std::mem::replace(&mut seat.until, until);
            self.due.remove(&(was, sitter.clone()));
        } else if self.has_free() {
            let session = pass.session().clone();
            self.add(pass.name(), &session);
            self.seats.insert(sitter.clone(), Seat { session, until });
        } else {
            return;
        }
        self.due.insert((until, sitter));
    }

    /// Seats whose time is over are free.
    pub fn clear(&mut self, now: Moment) {
        let over = self.due.iter().take_while(|(until, _)| *until <= now);
        for _ in 0..over.take(CLEARED_MAX).count() {
            if let Some((_, sitter)) = self.due.pop_first()
                && let Some(seat) = self.seats.remove(&sitter)
            {
                self.take(&sitter.0, &seat.session);
            }
        }
    }

    fn add(&mut self, name: &SessionId, session: &SessionId) {
        *self.counts.entry(name.clone()).or_insert(0) += 1;
        if name != session {
            *self.counts.entry(session.clone()).or_insert(0) += 1;
        }
    }

    fn take(&mut self, name: &SessionId, session: &SessionId) {
        self.take_one(name);
        if name != session {
            self.take_one(session);
        }
        if self.counts.is_empty() {
            self.counts = HashMap::new();
        }
    }

    fn take_one(&mut self, name: &SessionId) {
        if let Some(count) = self.counts.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(name);
            }
        }
    }

    /// Bytes that its allocations take, the texts of those who sit included.
    pub fn held_bytes(&self) -> usize {
        let names = self.seats.keys().map(|(name, _)| name.held_bytes());
        hash_map_bytes(&self.counts)
            + tree_map_bytes(&self.seats)
            + tree_set_bytes(&self.due)
            + names.sum::<usize>()
    }

    /// Panics unless it agrees with these viewers.
    pub fn check<'a>(&self, passes: impl Iterator<Item = &'a Pass>) {
        assert_eq!(self.seats.len(), self.due.len());
        assert!(self.seats.len() <= SEATS_MAX);
        let mut counts: HashMap<&SessionId, usize> = HashMap::new();
        let viewers = passes.filter(|pass| pass.is_viewer());
        let viewers = viewers.map(|pass| (pass.name(), pass.session()));
        let sitters = self
            .seats
            .iter()
            .map(|((name, _), seat)| (name, &seat.session));
        for (name, session) in viewers.chain(sitters) {
            *counts.entry(name).or_default() += 1;
            if name != session {
                *counts.entry(session).or_default() += 1;
            }
        }
        assert_eq!(
            counts.len(),
            self.counts.len(),
            "somebody counts who is gone"
        );
        for (name, count) in counts {
            assert_eq!(self.of(name), count, "{name:?}");
        }
    }
}

#[cfg(test)]
#[cfg(feature = "hls")]
mod tests {
    use super::*;
    use crate::relay::pass::Role;
    use crate::relay::stage::Stage;
    use std::time::Duration;

    /// What an address is told that asks by HLS for what does not run.
    fn ask(stage: &mut Stage, host: u32, name: &str) -> u16 {
        ask_from(stage, host.to_be_bytes().into(), name)
    }

    fn ask_from(stage: &mut Stage, host: IpAddr, name: &str) -> u16 {
        let peer = (host, 1_000).into();
        let id = stage.relay.accepted(peer, stage.now).expect("room");
        stage.send(
            id,
            &format!("HEAD /stream/{name}/index.m3u8 HTTP/1.0\r\n\r\n"),
        );
        stage.lose(id);
        let text = stage.text(id);
        let status = text
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        status.unwrap_or_else(|| panic!("{text}"))
    }

    fn stage(tokens: &[&str]) -> Stage {
        let mut stage = Stage::new(&["--token-server=10.0.0.0/24"]);
        for token in tokens {
            let call = format!(
                "POST /api/add-token?type=http&{token} HTTP/1.1\r\nHost: localhost\r\n\r\n"
            );
            let id = stage.client(&call);
            stage.assert_status(id, 201);
        }
        stage
    }

    #[test]
    fn a_seat_is_free_when_nobody_has_asked_for_a_while() {
        let mut stage = stage(&["sessionid=a&max-viewers=1"]);
        assert_eq!(ask(&mut stage, 1, "a"), 404);
        assert_eq!(ask(&mut stage, 2, "a"), 503);
        for _ in 0..10 {
            stage.now = stage.now + Duration::from_secs(20);
            assert_eq!(ask(&mut stage, 1, "a"), 404, "it asks again and again");
            assert_eq!(ask(&mut stage, 2, "a"), 503);
        }
        stage.now = stage.now + Duration::from_secs(60);
        assert_eq!(ask(&mut stage, 2, "a"), 404);
        assert_eq!(ask(&mut stage, 1, "a"), 503);
        stage.now = stage.now + Duration::from_secs(60);
        assert_eq!(ask(&mut stage, 3, "none"), 403);
        assert_eq!(stage.relay.clients.inside.held_bytes(), 0);
    }

    /// Or one who has a key would take all seats there are, and those of other sessions with them.
    #[test]
    fn a_network_of_ipv6_has_one_seat() {
        let mut stage = stage(&["sessionid=a&max-viewers=2"]);
        let host = |text: &str| text.parse::<IpAddr>().expect("an address");
        for own in ["2001:db8::1", "2001:db8::2", "2001:db8::ffff:0:0:1"] {
            assert_eq!(ask_from(&mut stage, host(own), "a"), 404);
        }
        assert_eq!(ask_from(&mut stage, host("2001:db8:0:1::1"), "a"), 404);
        assert_eq!(ask_from(&mut stage, host("2001:db8:0:2::1"), "a"), 503);
    }

    /// There are so many seats, whoever has them, and they take no more memory than is said.
    #[test]
    fn there_are_so_many_seats() {
        let session = |name: &str| SessionId::parse(name.as_bytes()).expect("a sessionid");
        let (name, opened) = (session(&"n".repeat(256)), session("s"));
        let mut heads = Heads::default();
        let at = |second| Moment::after_start(Duration::from_secs(second));
        for host in 0..SEATS_MAX as u32 + 9 {
            // Each request has read its sessionid anew.
            let name = session(name.as_str());
            let pass = Pass::new((name, opened.clone()), Role::Sitter, None, None);
            heads.sit(&pass, host.to_be_bytes().into(), at(u64::from(host)));
        }
        heads.check([].into_iter());
        assert!(!heads.has_free());
        assert_eq!((heads.of(&name), heads.of(&opened)), (SEATS_MAX, SEATS_MAX));
        let held = heads.held_bytes();
        assert!(held <= SEATS_MAX * 768, "{held}");
        let each = 256 + size_of::<(Sitter, Seat)>() + size_of::<(Moment, Sitter)>();
        assert!(held >= SEATS_MAX * each, "{held}");
        // They are cleared a few at a time.
        heads.clear(at(9_999));
        assert_eq!(heads.of(&name), SEATS_MAX - CLEARED_MAX);
        for _ in 0..SEATS_MAX / CLEARED_MAX {
            heads.clear(at(9_999));
        }
        assert_eq!((heads.of(&name), heads.held_bytes()), (0, 0));
        heads.check([].into_iter());
    }
}
