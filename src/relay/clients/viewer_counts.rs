//! Number of viewers by session id, which is a session's own or a key.
//!
//! A viewer over HTTP is a connection, and counts while it is open. An HLS player has no connection
//! between two requests. If a token limits the number of viewers, the address of an HLS player
//! counts for a while after each request. So it counts once, however many requests it makes.
//! Players behind one address count as one.
//!
//! Bounds: [`HLS_ADDRESSES_MAX`] addresses, and a count for each session id with viewers. Another
//! address of a session counts only while there is room for more addresses than the session has. So
//! a session leaves room to others.

mod check;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::iter;
use std::net::IpAddr;

use super::hosts::take;
use crate::gate::{SessionId, network_of};
use crate::relay::HLS_ADDRESSES_MAX;
use crate::relay::admission::Admission;
use crate::time::Instant;

/// Maximal number of expired addresses that are removed at once. The others count until the next
/// time.
const REMOVED_MAX: usize = 256;

/// An address that counts as a viewer: a session id, and an address or IPv6 network.
pub(super) type HlsAddress = (SessionId, IpAddr);

struct Counted {
    /// Session that the session id opens.
    session: SessionId,
    until: Instant,
}

/// Viewers by session id.
#[derive(Default)]
pub(super) struct ViewerCounts {
    /// Number of viewers by the session id that admitted them and by their session. Each viewer also
    /// counts by its session's own session id.
    counts: HashMap<(SessionId, SessionId), usize>,
    hls: BTreeMap<HlsAddress, Counted>,
    /// Number of HLS addresses of each session.
    hls_by_session: HashMap<SessionId, usize>,
    /// The same addresses, by the time at which they expire.
    due: BTreeSet<(Instant, HlsAddress)>,
}

impl ViewerCounts {
    /// Returns the number of clients that watch a session, or wait for it, with a session id. For the
    /// session's own session id, returns the number of all its viewers.
    pub fn of(&self, credential: &SessionId, session: &SessionId) -> usize {
        let credentials = (credential.clone(), session.clone());
        self.counts.get(&credentials).copied().unwrap_or(0)
    }

    /// Counts an admitted viewer. Ignores clients that are no viewers.
    pub fn enter(&mut self, admission: &Admission) {
        if admission.is_viewer() {
            self.add(&admission.credential, &admission.session);
        }
    }

    /// Removes a viewer from the counts.
    pub fn leave(&mut self, admission: &Admission) {
        if admission.is_viewer() {
            self.take(&admission.credential, &admission.session);
        }
    }

    /// Returns whether the address counts as a viewer of the session by this sessionid. A
    /// sessionid that opened another session before does not count.
    pub fn has_hls(&self, credential: &SessionId, session: &SessionId, address: IpAddr) -> bool {
        let counted = self.hls.get(&(credential.clone(), network_of(address)));
        counted.is_some_and(|counted| counted.session == *session)
    }

    /// Returns whether one more HLS address of this session can be counted.
    pub fn has_room_for_hls(&self, session: &SessionId) -> bool {
        let its = self.hls_by_session.get(session).copied().unwrap_or(0);
        its < HLS_ADDRESSES_MAX.saturating_sub(self.hls.len())
    }

    /// Returns the HLS addresses, each with its session and the time at which it expires.
    #[cfg(feature = "handover")]
    pub fn hls(&self) -> impl Iterator<Item = ((&HlsAddress, &SessionId), Instant)> {
        let hls = self.hls.iter();
        hls.map(|(address, counted)| ((address, &counted.session), counted.until))
    }

    /// Counts an HLS address until `until`. Does nothing if there is no room for another one. The caller
    /// asks [`ViewerCounts::has_room_for_hls`] before it admits one more address of a session.
    pub fn count_hls(&mut self, address: HlsAddress, session: SessionId, until: Instant) {
        if let Some(counted) = self.hls.get_mut(&address)
            && counted.session == session
        {
            let was = std::mem::replace(&mut counted.until, until);
            self.due.remove(&(was, address.clone()));
        } else {
            self.remove_hls(&address);
            if self.hls.len() >= HLS_ADDRESSES_MAX {
                return;
            }
            self.add(&address.0, &session);
            *self.hls_by_session.entry(session.clone()).or_insert(0) += 1;
            let counted = Counted { session, until };
            self.hls.insert(address.clone(), counted);
        }
        self.due.insert((until, address));
    }

    fn remove_hls(&mut self, address: &HlsAddress) {
        if let Some(Counted { session, until }) = self.hls.remove(address) {
            self.due.remove(&(until, address.clone()));
            self.take(&address.0, &session);
            take(&mut self.hls_by_session, &session);
        }
    }

    /// Removes expired HLS addresses.
    pub fn remove_expired(&mut self, now: Instant) {
        let over = self.due.iter().take_while(|(until, _)| *until <= now);
        for _ in 0..over.take(REMOVED_MAX).count() {
            if let Some((_, address)) = self.due.pop_first() {
                self.remove_hls(&address);
            }
        }
    }

    fn add(&mut self, credential: &SessionId, session: &SessionId) {
        for credential in credentials(credential, session) {
            let credentials = (credential.clone(), session.clone());
            *self.counts.entry(credentials).or_insert(0) += 1;
        }
    }

    fn take(&mut self, credential: &SessionId, session: &SessionId) {
        for credential in credentials(credential, session) {
            take(&mut self.counts, &(credential.clone(), session.clone()));
        }
    }
}

/// Returns the session ids by which a viewer counts: the session's own one, and a key.
fn credentials<'a>(
    credential: &'a SessionId,
    session: &'a SessionId,
) -> impl Iterator<Item = &'a SessionId> {
    let key = Some(credential).filter(|credential| *credential != session);
    iter::once(session).chain(key)
}

#[cfg(test)]
#[cfg(feature = "hls")]
mod tests {
    use super::*;
    use crate::relay::stage::Stage;
    use std::time::Duration;

    /// Returns the status of the answer to a host that asks for a playlist.
    fn ask(stage: &mut Stage, host: u32, name: &str) -> u16 {
        ask_from(stage, host.to_be_bytes().into(), "GET", name)
    }

    fn ask_from(stage: &mut Stage, host: IpAddr, method: &str, name: &str) -> u16 {
        let peer = (host, 1_000).into();
        let id = stage.relay.accepted(peer, stage.now).expect("room");
        stage.send(
            id,
            &format!("{method} /stream/{name}/index.m3u8 HTTP/1.0\r\n\r\n"),
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

    /// Nine seconds of AAC in ADTS, which are enough for a playlist.
    fn publish(stage: &mut Stage, name: &str) {
        let frame = [
            &[0xff, 0xf1, 0x4c, 0x80, 0x20, 0x1f, 0xfc][..],
            &[0x11; 249],
        ];
        let media = frame.concat().repeat(9 * 47);
        let head =
            format!("PUT /stream/{name} HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999\r\n\r\n");
        let source = stage.client(&head);
        stage.send(source, &media);
    }

    #[test]
    fn an_address_counts_until_its_player_has_not_asked_for_a_while() {
        let mut stage = stage(&["sessionid=a&max-viewers=1"]);
        publish(&mut stage, "a");
        assert_eq!(ask(&mut stage, 1, "a"), 200);
        assert_eq!(ask(&mut stage, 2, "a"), 503);
        for _ in 0..10 {
            stage.now = stage.now + Duration::from_secs(20);
            assert_eq!(ask(&mut stage, 1, "a"), 200, "it asks again and again");
            assert_eq!(ask(&mut stage, 2, "a"), 503);
        }
        stage.now = stage.now + Duration::from_secs(60);
        assert_eq!(ask(&mut stage, 2, "a"), 200);
        assert_eq!(ask(&mut stage, 1, "a"), 503);
        stage.now = stage.now + Duration::from_secs(60);
        assert_eq!(ask(&mut stage, 3, "none"), 403);
        let counts = &stage.relay.clients.admissions.viewers;
        assert!(counts.hls.is_empty() && counts.hls_by_session.is_empty());
    }

    #[test]
    fn a_request_that_gets_nothing_is_not_counted() {
        let mut stage = stage(&["sessionid=a&max-viewers=1", "sessionid=b&max-viewers=1"]);
        publish(&mut stage, "b");
        let host = |last: u8| IpAddr::from([10, 1, 0, last]);
        for last in 0..9 {
            assert_eq!(ask_from(&mut stage, host(last), "GET", "a"), 404);
            assert_eq!(ask_from(&mut stage, host(last), "HEAD", "a"), 404);
            assert_eq!(ask_from(&mut stage, host(last), "HEAD", "b"), 200);
            assert_eq!(ask_from(&mut stage, host(last), "GET", "b/no"), 404);
        }
        assert!(stage.relay.clients.admissions.viewers.hls.is_empty());
        assert_eq!(ask_from(&mut stage, host(10), "GET", "b"), 200);
        assert_eq!(ask_from(&mut stage, host(11), "GET", "b"), 503);
    }

    #[test]
    fn a_key_that_opens_another_session_counts_its_viewers_there() {
        let mut stage = stage(&[
            "sessionid=a&max-viewers=1",
            "sessionid=b&max-viewers=1",
            "sessionid=k&for=a&direction=out",
        ]);
        publish(&mut stage, "a");
        publish(&mut stage, "b");
        assert_eq!(ask(&mut stage, 1, "k"), 200);
        assert_eq!(ask(&mut stage, 2, "b"), 200);
        for (call, status) in [
            ("DELETE /api/revoke-token?sessionid=k", 200),
            (
                "POST /api/add-token?type=http&sessionid=k&for=b&direction=out",
                201,
            ),
        ] {
            let id = stage.client(&format!("{call} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            stage.assert_status(id, status);
        }
        assert_eq!(ask(&mut stage, 1, "k"), 503, "b has as many as it may");
        stage.now = stage.now + Duration::from_secs(30);
        assert_eq!(ask(&mut stage, 3, "a"), 503, "a has its viewer still");
        let b = SessionId::parse(b"b").expect("a sessionid");
        let k = SessionId::parse(b"k").expect("a sessionid");
        let counts = &mut stage.relay.clients.admissions.viewers;
        let until = stage.now + Duration::from_secs(9);
        counts.count_hls((k, [0, 0, 0, 1].into()), b.clone(), until);
        assert_eq!((counts.of(&b, &b), counts.hls.len()), (2, 2));
        counts.check([].into_iter());
        assert_eq!(ask(&mut stage, 3, "a"), 200, "its viewer watches b now");
    }

    /// A viewer with a key cannot take all the room, however many addresses it has.
    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let mut stage = stage(&["sessionid=a&max-viewers=2"]);
        publish(&mut stage, "a");
        let host = |text: &str| text.parse::<IpAddr>().expect("an address");
        for own in ["2001:db8::1", "2001:db8::2", "2001:db8::ffff:0:0:1"] {
            assert_eq!(ask_from(&mut stage, host(own), "GET", "a"), 200);
        }
        assert_eq!(
            ask_from(&mut stage, host("2001:db8:0:1::1"), "GET", "a"),
            200
        );
        assert_eq!(
            ask_from(&mut stage, host("2001:db8:0:2::1"), "GET", "a"),
            503
        );
    }

    /// However many addresses a key's viewers have: half of the room, and always an address for a
    /// session that has none.
    #[test]
    fn one_session_leaves_room_to_the_others() {
        let mut stage = stage(&[
            "sessionid=a&max-viewers=1000000",
            "sessionid=key&for=a&direction=out",
            "sessionid=b&max-viewers=1000000",
        ]);
        publish(&mut stage, "a");
        publish(&mut stage, "b");
        let mut counted = 0;
        for host in 0..5_000 {
            let status = ask(&mut stage, 0x0a02_0000 + host, "key");
            assert_eq!(
                status == 200,
                counted < HLS_ADDRESSES_MAX / 2,
                "{status} {counted}"
            );
            counted += usize::from(status == 200);
        }
        assert_eq!(ask(&mut stage, 1, "a"), 503);
        for host in 0..1_000 {
            assert_eq!(ask(&mut stage, host, "b"), 200, "{host}");
        }
        // Whoever counts already goes on.
        assert_eq!(ask(&mut stage, 0x0a02_0000, "key"), 200);
    }

    /// A hand-over sends them in another order. Whether there is room for one more depends on the order.
    #[cfg(feature = "handover")]
    #[test]
    fn addresses_that_count_still_count_after_a_hand_over() {
        let session = |name: &str| SessionId::parse(name.as_bytes()).expect("a sessionid");
        let until = Instant::after_start(Duration::from_secs(60));
        let (mut before, mut after) = (ViewerCounts::default(), ViewerCounts::default());
        for (name, hosts) in [("z", 4_000_u32), ("a", 2_000)] {
            for host in 0..hosts {
                assert!(before.has_room_for_hls(&session(name)));
                let address = (session(name), host.to_be_bytes().into());
                before.count_hls(address, session(name), until);
            }
        }
        for ((address, session), until) in before.hls() {
            after.count_hls(address.clone(), session.clone(), until);
        }
        assert_eq!(
            [session("z"), session("a")].map(|it| after.of(&it, &it)),
            [4_000, 2_000]
        );
    }

    #[test]
    fn the_number_of_addresses_is_limited() {
        let session = |name: &str| SessionId::parse(name.as_bytes()).expect("a sessionid");
        let (name, opened) = (session(&"n".repeat(256)), session("s"));
        let mut counts = ViewerCounts::default();
        let at = |second| Instant::after_start(Duration::from_secs(second));
        for host in 0..HLS_ADDRESSES_MAX as u32 + 9 {
            // Each request has read its sessionid anew.
            let name = session(name.as_str());
            let address = (name, host.to_be_bytes().into());
            counts.count_hls(address, session("s"), at(u64::from(host)));
        }
        counts.check([].into_iter());
        assert!(!counts.has_room_for_hls(&opened));
        assert_eq!(counts.of(&name, &opened), HLS_ADDRESSES_MAX);
        assert_eq!(counts.of(&opened, &opened), HLS_ADDRESSES_MAX);
        // They are cleared a few at a time.
        counts.remove_expired(at(9_999));
        let left = HLS_ADDRESSES_MAX - REMOVED_MAX;
        assert_eq!(counts.of(&name, &opened), left);
        for _ in 0..HLS_ADDRESSES_MAX / REMOVED_MAX {
            counts.remove_expired(at(9_999));
        }
        assert_eq!(counts.of(&name, &opened), 0);
        counts.check([].into_iter());
    }
}
