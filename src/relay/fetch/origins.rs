//! The origins: other relays, from which this server fetches streams that do not run here.
//!
//! This part keeps the addresses of each origin, or that they are being looked up; pulls share a
//! look-up. It also keeps this server's name in `Via` (RFC 9110 section 7.6.3). Requests and
//! answers carry the names of all relays that they came through. A request or an answer with this
//! server's own name is a loop, and is refused.

use std::net::SocketAddr;
use std::time::Duration;

use crate::gate::SessionId;
use crate::http::{Refusal, Status, elements, percent_encoded};
use crate::relay::JobId;
use crate::relay::settings::OriginUrl;
use crate::time::Instant;

/// All origins, in the order in which they are asked.
pub struct Origins {
    pub list: Vec<OriginServer>,
    /// How this server is called in `Via`: no other has this name.
    pub pseudonym: String,
}

/// An origin, and its addresses if it has a name.
pub struct OriginServer {
    pub url: OriginUrl,
    addresses: Vec<SocketAddr>,
    /// Then its addresses are looked up again.
    known_until: Instant,
    /// The look-up under way.
    pub lookup: Option<JobId>,
}

/// How long a look-up's result is used: pulls that come in a row share it, and a change in the DNS
/// is seen soon.
const KNOWN_TIME: Duration = Duration::from_secs(5);
/// Addresses of an origin that are tried.
const ADDRESSES_MAX: usize = 8;
/// Relays that a stream may come through, and how long their list may be.
const HOPS_MAX: usize = 16;
const VIA_BYTES_MAX: usize = 2048;

impl OriginServer {
    /// Returns whether its addresses are known. During a look-up they are not.
    pub fn is_known(&self, now: Instant) -> bool {
        self.url.address().is_some() || (self.lookup.is_none() && now < self.known_until)
    }
}

impl Origins {
    /// Creates the origins. The server's name contains `number`, which nobody can foresee.
    pub fn new(urls: &[OriginUrl], number: u64) -> Origins {
        let server = |url: &OriginUrl| OriginServer {
            url: url.clone(),
            addresses: Vec::new(),
            known_until: Instant::START,
            lookup: None,
        };
        Origins {
            list: urls.iter().map(server).collect(),
            pseudonym: match urls {
                [] => String::new(),
                _ => format!("tollgate-{number:016x}"),
            },
        }
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns the addresses of each, and until when they are known.
    #[cfg(feature = "handover")]
    pub fn addresses(&self) -> impl Iterator<Item = (&[SocketAddr], Instant)> {
        let list = self.list.iter();
        list.map(|server| (server.addresses.as_slice(), server.known_until))
    }

    /// Takes over what a predecessor knew: its name, and the addresses of the origins in the same
    /// places.
    #[cfg(feature = "handover")]
    pub fn become_as(&mut self, pseudonym: String, known: Vec<(Vec<SocketAddr>, Instant)>) {
        if self.pseudonym.len() == pseudonym.len() {
            self.pseudonym = pseudonym;
        }
        for (server, (mut addresses, until)) in self.list.iter_mut().zip(known) {
            addresses.truncate(ADDRESSES_MAX);
            (server.addresses, server.known_until) = (addresses, until);
        }
    }

    /// Ends a look-up, with its result. Returns the origin, if the look-up was for one.
    pub fn look_up_ended(
        &mut self,
        job_id: JobId,
        addresses: Vec<SocketAddr>,
        now: Instant,
    ) -> Option<usize> {
        let origin = self
            .list
            .iter()
            .position(|server| server.lookup == Some(job_id))?;
        let server = &mut self.list[origin];
        server.lookup = None;
        if !addresses.is_empty() {
            server.known_until = now + KNOWN_TIME;
        }
        server.addresses = addresses;
        server.addresses.truncate(ADDRESSES_MAX);
        Some(origin)
    }

    /// Returns one of an origin's addresses.
    pub fn address(&self, origin: usize, address: usize) -> Option<SocketAddr> {
        let server = self.list.get(origin)?;
        match server.url.address() {
            Some(only) => (address == 0).then_some(only),
            None => server.addresses.get(address).copied(),
        }
    }

    /// Returns the request for a session's stream. `via`: relays that the viewers' requests came
    /// through. The session id is in the query, since a proxy may resolve `..` in a path.
    pub fn request(&self, origin: usize, session: &SessionId, via: Option<&str>) -> Option<String> {
        let OriginUrl { host, port, path } = &self.list.get(origin)?.url;
        Some(format!(
            "GET {path}/stream?sessionid={} HTTP/1.1\r\nHost: {host}:{port}\r\nVia: {}\r\nUser-Agent: tollgate/{}\r\nConnection: close\r\n\r\n",
            percent_encoded(session.as_str()),
            self.via(via),
            env!("CARGO_PKG_VERSION"),
        ))
    }

    /// Returns `Via` of what this server passes on.
    pub fn via(&self, came_through: Option<&str>) -> String {
        match came_through {
            None => format!("1.1 {}", self.pseudonym),
            Some(before) => format!("{before}, 1.1 {}", self.pseudonym),
        }
    }

    /// Refuses a message that came through `via` if it must not be passed on. 508 is from RFC 5842;
    /// RFC 9110 has no status of its own for a loop.
    pub fn check_via(&self, via: Option<&str>) -> Result<(), Refusal> {
        let Some(via) = via.filter(|_| !self.is_empty()) else {
            return Ok(());
        };
        let mut names = elements(via, ',').filter_map(|hop| hop.split_ascii_whitespace().nth(1));
        let detail = if names.any(|name| name == self.pseudonym) {
            "the request comes from this server itself: its origins form a loop"
        } else if via.len() > VIA_BYTES_MAX || elements(via, ',').count() > HOPS_MAX {
            "the request came through too many relays; Via may name at most 16"
        } else {
            return Ok(());
        };
        Err(Refusal::new(Status::LoopDetected, detail))
    }
}

/// Returns the relays that both lists have, in the order of the first.
pub fn common(one: Option<String>, other: Option<&str>) -> Option<String> {
    let (one, other) = (one?, other?);
    if one == other {
        return Some(one);
    }
    let others: Vec<&str> = elements(other, ',').collect();
    let mut both: Vec<&str> = elements(&one, ',').collect();
    both.retain(|hop| others.contains(hop));
    (!both.is_empty()).then(|| both.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::stage;
    use crate::time::at_seconds as at;

    const NAMES: [&str; 3] = [
        "--origin=http://one.example:8001",
        "--origin=http://10.1.0.2:8002/second",
        "--origin=http://three.example:8003/a/b",
    ];

    fn origins(options: &[&str]) -> Origins {
        Origins::new(&stage::settings(options).origins, 0xabc)
    }

    fn job_id(number: u64) -> JobId {
        JobId(number)
    }

    fn addresses(hosts: std::ops::Range<u8>) -> Vec<SocketAddr> {
        let hosts = hosts.map(|host| SocketAddr::from(([10, 7, 0, host], 80)));
        hosts.collect()
    }

    /// Where an origin is, in a word.
    fn where_is(origins: &Origins, origin: usize, now: Instant) -> String {
        match origins.list.get(origin) {
            None => "this path takes none".to_owned(),
            Some(server) if server.is_known(now) => "known".to_owned(),
            Some(server) if server.lookup.is_some() => "sought".to_owned(),
            Some(server) => format!("{}:{}", server.url.host.as_str(), server.url.port),
        }
    }

    /// Five seconds it is known where one is; then, or where nothing was found, it is asked for
    /// again. A look-up is one origin's, and an address needs none.
    #[test]
    fn what_was_looked_up_is_known_for_a_while() {
        let mut origins = origins(&NAMES);
        assert_eq!((origins.len(), origins.is_empty()), (3, false));
        let places = |origins: &Origins, now| [0, 1, 2, 3].map(|it| where_is(origins, it, now));
        let (one, three, none) = (
            "one.example:8001",
            "three.example:8003",
            "this path takes none",
        );
        assert_eq!(places(&origins, at(0)), [one, "known", three, none]);
        origins.list[0].lookup = Some(job_id(7));
        origins.list[2].lookup = Some(job_id(8));
        assert_eq!(places(&origins, at(0)), ["sought", "known", "sought", none]);
        assert_eq!(
            origins.look_up_ended(job_id(9), addresses(1..3), at(1)),
            None
        );
        assert_eq!(
            origins.look_up_ended(job_id(8), addresses(1..3), at(1)),
            Some(2)
        );
        assert_eq!(
            origins.look_up_ended(job_id(8), addresses(1..3), at(1)),
            None
        );
        let later = |milliseconds| at(1) + Duration::from_millis(milliseconds);
        for (now, third) in [(0, "known"), (4_999, "known"), (5_000, three)] {
            let expected = ["sought", "known", third, none];
            assert_eq!(places(&origins, later(now)), expected, "{now}");
        }
        // Of a look-up that brought nothing nothing is known.
        assert_eq!(origins.look_up_ended(job_id(7), Vec::new(), at(2)), Some(0));
        assert_eq!(places(&origins, at(2)), [one, "known", "known", none]);
        let second = "10.1.0.2:8002".parse().expect("an address");
        for (origin, address, expected) in [
            (0, 0, None),
            (1, 0, Some(second)),
            (1, 1, None),
            (2, 0, Some(addresses(1..2)[0])),
            (2, 1, Some(addresses(2..3)[0])),
            (2, 2, None),
            (3, 0, None),
        ] {
            assert_eq!(origins.address(origin, address), expected);
        }
    }

    /// However many a name has, eight are kept.
    #[test]
    fn of_a_names_addresses_eight_are_tried() {
        let mut origins = origins(&NAMES);
        origins.list[0].lookup = Some(job_id(1));
        origins.look_up_ended(job_id(1), addresses(0..20), at(0));
        let kept = (0..20).filter_map(|place| origins.address(0, place));
        assert_eq!(kept.collect::<Vec<_>>(), addresses(0..8));
    }

    /// 16 relays in 2,048 bytes, and never this one.
    #[test]
    fn what_came_through_too_many_relays_is_passed_on_to_no_origin() {
        let origins = origins(&NAMES);
        let hops = |count: usize| vec!["1.1 x"; count].join(", ");
        let long = |bytes: usize| "x".repeat(bytes);
        let own = origins.via(None);
        for (via, is_passed) in [
            (hops(1), true),
            (hops(16), true),
            (hops(17), false),
            (hops(40), false),
            (long(2_048), true),
            (long(2_049), false),
            (long(9_000), false),
            (own.clone(), false),
            (format!("1.1 a, {own}, 1.1 b"), false),
            ("1.1 tollgate-0000000000000abd".to_owned(), true),
        ] {
            let checked = origins.check_via(Some(&via));
            assert_eq!(checked.is_ok(), is_passed, "{via}");
        }
        assert!(origins.check_via(None).is_ok());
        // A server without origins makes no loop.
        let alone = self::origins(&[]);
        assert_eq!((alone.len(), alone.is_empty()), (0, true));
        assert!(alone.check_via(Some(&hops(40))).is_ok());
    }

    #[test]
    fn an_origin_is_asked_at_its_own_path_and_through_whom_it_came() {
        let origins = origins(&NAMES);
        let session = SessionId::parse(b"a b/c").expect("a name");
        for (origin, path, host) in [
            (0, "", "one.example:8001"),
            (1, "/second", "10.1.0.2:8002"),
            (2, "/a/b", "three.example:8003"),
        ] {
            for (via, passed) in [
                (None, "1.1 tollgate-0000000000000abc"),
                (Some("1.0 b"), "1.0 b, 1.1 tollgate-0000000000000abc"),
            ] {
                assert_eq!(origins.via(via), passed);
                let asked = origins.request(origin, &session, via).expect("there is it");
                let begins = format!(
                    "GET {path}/stream?sessionid=a%20b%2Fc HTTP/1.1\r\nHost: {host}\r\nVia: {passed}\r\n"
                );
                assert!(asked.starts_with(&begins), "{asked}");
                assert!(asked.ends_with("\r\nConnection: close\r\n\r\n"), "{asked}");
            }
        }
        assert_eq!(origins.request(3, &session, None), None);
    }

    #[test]
    fn what_two_came_through_in_common_is_what_stands_in_both() {
        for (one, other, both) in [
            (None, None, None),
            (Some("1.1 a"), None, None),
            (None, Some("1.1 a"), None),
            (Some("1.1 a"), Some("1.1 a"), Some("1.1 a")),
            // As it is written, where all of it is the same.
            (
                Some("1.1 a,1.1 b"),
                Some("1.1 a,1.1 b"),
                Some("1.1 a,1.1 b"),
            ),
            (Some("1.1 a,1.1 b"), Some("1.1 b"), Some("1.1 b")),
            (Some("1.1 b"), Some("1.1 a , 1.1 b"), Some("1.1 b")),
            (
                Some("1.1 c, 1.1 a ,1.1 b"),
                Some("1.1 b, 1.1 c"),
                Some("1.1 c, 1.1 b"),
            ),
            (Some("1.1 a"), Some("1.1 b"), None),
        ] {
            let found = common(one.map(str::to_owned), other);
            assert_eq!(found.as_deref(), both, "{one:?}, {other:?}");
        }
    }

    /// The successor is called the same, or a loop through it would be seen by nobody; but by no
    /// name that could not be its own.
    #[cfg(feature = "handover")]
    #[test]
    fn a_successor_knows_where_the_origins_are_and_goes_by_the_same_name() {
        let mut old = origins(&NAMES);
        old.list[0].lookup = Some(job_id(1));
        old.look_up_ended(job_id(1), addresses(0..4), at(3));
        let known = |origins: &Origins| -> Vec<(Vec<SocketAddr>, Instant)> {
            let known = origins.addresses();
            known.map(|(it, until)| (it.to_vec(), until)).collect()
        };
        let told = known(&old);
        let none = (Vec::new(), at(0));
        assert_eq!(told, [(addresses(0..4), at(8)), none.clone(), none]);
        assert_eq!(&old.pseudonym, "tollgate-0000000000000abc");
        let urls = stage::settings(&NAMES).origins;
        for (name, is_taken) in [("tollgate-0123456789abcdef", true), ("x", false)] {
            let mut new = Origins::new(&urls, 5);
            let own = new.pseudonym.to_owned();
            new.become_as(name.to_owned(), told.clone());
            assert_eq!(&new.pseudonym, if is_taken { name } else { &own });
            assert_eq!(known(&new), told);
            assert_eq!(where_is(&new, 0, at(7)), "known");
            assert_eq!(where_is(&new, 0, at(8)), "one.example:8001");
        }
        // Only as many addresses as are tried are kept.
        let mut new = Origins::new(&urls, 5);
        new.become_as(String::new(), vec![(addresses(0..90), at(8)); 9]);
        assert_eq!(known(&new), vec![(addresses(0..8), at(8)); 3]);
    }
}
