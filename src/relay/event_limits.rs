//! Limits how many events clients may cause. Clients of one session that come and go all the time
//! do not push the events that an operator relies on out of `/api/events`.
//!
//! Each session has a [`TokenBucket`](crate::token_bucket::TokenBucket) for its viewers and others for
//! its streams, and each host has one. A host takes at most half of a session's bytes. The buckets
//! hold bytes of text, since `/api/events` keeps a number of bytes. A viewer or a stream that comes
//! while a bucket is empty is not reported, neither now nor later: readers see all of its events or
//! none. The lists show it all the same.
//!
//! Bounds: [`NAMES_MAX`] buckets in each of four tables, and a number for each viewer and each stream
//! that is not reported. An event whose bucket has no place is not reported.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::server_event::ServerEvent;
use super::viewer_id::{ListedId, PublicStreamId};
use crate::gate::{SessionId, network_of};
use crate::time::Instant;
use crate::token_bucket::{Rate, TokenBuckets};

/// A viewer, a stream or a hold. Readers see all of its events or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Subject {
    /// A viewer, by its connection.
    Viewer(u64),
    /// A stream, by its number.
    Stream(u64),
    /// The time for which this stream waits for a source.
    Hold(u64),
}

/// The buckets of a session. An event draws from one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Viewers,
    Streams,
    /// Titles, and sources that are too fast. A source that comes and goes all the time takes nothing
    /// of these.
    Changes,
}

/// How many more events clients may cause.
#[derive(Default)]
pub(super) struct EventLimits {
    sessions: TokenBuckets<(Kind, SessionId), NAMES_MAX>,
    /// Buckets of each host of a session. They have half of the session's bytes.
    shares: TokenBuckets<(Kind, SessionId, IpAddr), NAMES_MAX>,
    /// Buckets of hosts whose viewers and sources were admitted.
    hosts: TokenBuckets<IpAddr, NAMES_MAX>,
    /// Buckets of hosts whose sources were refused. Strangers may take all places of this table.
    refused: TokenBuckets<IpAddr, NAMES_MAX>,
    /// Viewers, streams and holds that are not reported. A hand-over sends them.
    pub unreported: BTreeSet<Subject>,
}

/// Maximal number of buckets of a table. Full ones are not stored.
const NAMES_MAX: usize = 2048;
/// Bytes that an event counts beside its session id and its title.
const EVENT_BYTES: usize = 256;
/// Rate of a session's viewers: half of what [`crate::events`] keeps.
const VIEWERS: Rate = Rate {
    per_second: 8 * 1024,
    burst: 512 * 1024,
};
/// Rate of a session's streams, and that of its titles.
const STREAMS: Rate = Rate {
    per_second: 12 * 1024,
    burst: 256 * 1024,
};
/// Rate of a host's viewers and streams. The host may be a proxy that does not name its clients.
const OF_HOST: Rate = Rate {
    per_second: 32 * 1024,
    burst: 512 * 1024,
};
/// Rate of a host's refused sources. They retry at once, and anybody may be one.
const REFUSALS: Rate = Rate {
    per_second: 1,
    burst: 16,
};

impl EventLimits {
    /// Returns whether an event of a session is reported.
    pub fn admit(&mut self, session: &SessionId, what: &ServerEvent<'_>, now: Instant) -> bool {
        match what {
            ServerEvent::ViewerComes { id, .. } => {
                viewer(*id).is_none_or(|viewer| self.begin(viewer, session, what, now))
            }
            ServerEvent::ViewerCut { id, .. } => self.reports_viewer(*id),
            ServerEvent::ViewerGoes { id, .. } => {
                viewer(*id).is_none_or(|viewer| !self.unreported.remove(&viewer))
            }
            ServerEvent::StreamBegins { id, .. } => {
                self.begin(Subject::Stream(id.serial), session, what, now)
            }
            ServerEvent::StreamHeld { id, .. } => {
                self.reports_stream(*id) && self.begin(Subject::Hold(id.serial), session, what, now)
            }
            ServerEvent::StreamGoesOn { id, .. } => {
                let is_held_known = !self.unreported.remove(&Subject::Hold(id.serial));
                is_held_known && self.reports_stream(*id)
            }
            ServerEvent::SourceTooFast { id, .. } | ServerEvent::StreamTitle { id, .. } => {
                self.reports_stream(*id) && self.take(1, session, what, now)
            }
            ServerEvent::StreamEnds { id, .. } => {
                self.unreported.remove(&Subject::Hold(id.serial));
                self.reports_stream(*id)
            }
            ServerEvent::StreamOver { id } => !self.unreported.remove(&Subject::Stream(id.serial)),
            ServerEvent::TokenAdded { .. }
            | ServerEvent::TokenRevoked { .. }
            | ServerEvent::TokenForgotten {}
            | ServerEvent::TokenOver {}
            | ServerEvent::TokensOver { .. }
            | ServerEvent::PublisherRefused { .. } => true,
        }
    }

    /// Returns whether a source that is refused is reported, as far as its host is concerned.
    pub fn admit_refusal(&mut self, address: IpAddr, now: Instant) -> bool {
        self.refused.try_take(network_of(address), 1, REFUSALS, now)
    }

    /// Returns whether readers know of a viewer.
    pub fn reports_viewer(&self, id: ListedId) -> bool {
        viewer(id).is_none_or(|viewer| !self.unreported.contains(&viewer))
    }

    /// Returns whether readers know of a stream.
    pub fn reports_stream(&self, id: PublicStreamId) -> bool {
        !self.unreported.contains(&Subject::Stream(id.serial))
    }

    fn begin(
        &mut self,
        subject: Subject,
        session: &SessionId,
        what: &ServerEvent<'_>,
        now: Instant,
    ) -> bool {
        let events = match subject {
            Subject::Hold(_) => 2,
            Subject::Viewer(_) | Subject::Stream(_) => 3,
        };
        let is_reported = self.take(events, session, what, now);
        if !is_reported {
            self.unreported.insert(subject);
        }
        is_reported
    }

    /// Takes the bytes of an event and of the events that follow from it. `events`: their number.
    fn take(
        &mut self,
        events: usize,
        session: &SessionId,
        what: &ServerEvent<'_>,
        now: Instant,
    ) -> bool {
        let (kind, rate, title) = match what {
            ServerEvent::ViewerComes { .. } => (Kind::Viewers, VIEWERS, ""),
            ServerEvent::StreamTitle { title, .. } => (Kind::Changes, STREAMS, title.as_str()),
            ServerEvent::SourceTooFast { .. } => (Kind::Changes, STREAMS, ""),
            _ => (Kind::Streams, STREAMS, ""),
        };
        let bytes =
            (events * (EVENT_BYTES + text_bytes(session.as_str()) + text_bytes(title))) as u64;
        // An empty bucket ends this, so the buckets after it, which more clients share, lose nothing.
        let host_has_some = what.host().map(network_of).is_none_or(|host| {
            let half = Rate {
                per_second: rate.per_second / 2,
                burst: rate.burst / 2,
            };
            let share = (kind, session.clone(), host);
            self.shares.try_take(share, bytes, half, now)
                && self.hosts.try_take(host, bytes, OF_HOST, now)
        });
        let name = (kind, session.clone());
        host_has_some && self.sessions.try_take(name, bytes, rate, now)
    }

    /// Records that a snapshot has shown this stream waiting for a source. So readers hear when it goes on.
    pub fn report_hold(&mut self, stream: u64) {
        self.unreported.remove(&Subject::Hold(stream));
    }
}

/// Returns the length of a text in JSON. Session ids and titles have no control characters.
fn text_bytes(text: &str) -> usize {
    let escaped = text.bytes().filter(|byte| b"\"\\".contains(byte));
    text.len() + escaped.count()
}

fn viewer(id: ListedId) -> Option<Subject> {
    match id {
        ListedId::Connection { connection, .. } => Some(Subject::Viewer(connection)),
        ListedId::Client { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::server_event::write_unit;
    use super::*;
    use crate::clean_text::Title;
    use crate::events::{BYTES_MAX, EventId};
    use crate::gate::session;
    use crate::time::UnixTime;
    use std::net::SocketAddr;
    use std::time::Duration;

    fn comes(connection: u64) -> ServerEvent<'static> {
        ServerEvent::ViewerComes {
            id: ListedId::Connection { run: 1, connection },
            key: None,
            address: None,
        }
    }

    fn goes(connection: u64) -> ServerEvent<'static> {
        ServerEvent::ViewerGoes {
            id: ListedId::Connection { run: 1, connection },
            key: None,
            address: SocketAddr::from(([10, 0, 0, 1], 7)),
            bytes: 0,
            skips: 0,
        }
    }

    /// Readers see a viewer come and go, or neither, and other sessions' viewers as ever.
    #[test]
    fn viewers_that_come_and_go_all_the_time_are_reported_at_a_bounded_rate() {
        let mut limits = EventLimits::default();
        let (busy, other) = (session("busy"), session("other"));
        let mut reported = 0;
        for number in 0..100_000 {
            let now = Instant::after_start(Duration::from_micros(100 * number));
            let has_come = limits.admit(&busy, &comes(number), now);
            let id = ListedId::Connection {
                run: 1,
                connection: number,
            };
            assert_eq!(limits.reports_viewer(id), has_come);
            assert_eq!(limits.admit(&busy, &goes(number), now), has_come);
            reported += u64::from(has_come);
            if number % 1_000 == 0 {
                let viewer = 1_000_000 + number;
                assert!(limits.admit(&other, &comes(viewer), now));
                assert!(limits.admit(&other, &goes(viewer), now));
                assert!(limits.admit(&busy, &ServerEvent::TokenOver {}, now));
            }
        }
        assert!((700..=682 + 11 * 10).contains(&reported), "{reported}");
        assert!(limits.unreported.is_empty());
    }

    #[test]
    fn streams_that_begin_and_end_all_the_time_are_reported_whole_or_not() {
        let mut limits = EventLimits::default();
        let name = session("s");
        let source = SocketAddr::from(([10, 0, 0, 1], 7));
        let mut reported = 0;
        for serial in 0..1_000 {
            let id = PublicStreamId { run: 1, serial };
            let now = Instant::START;
            let reason = "";
            let mut admit = |what| limits.admit(&name, &what, now);
            let has_begun = admit(ServerEvent::StreamBegins { id, source });
            let is_held = admit(ServerEvent::StreamHeld {
                id,
                reason,
                viewers: 1,
                source,
            });
            assert_eq!(admit(ServerEvent::StreamGoesOn { id, source }), is_held);
            admit(ServerEvent::StreamHeld {
                id,
                reason,
                viewers: 1,
                source,
            });
            let has_ended = admit(ServerEvent::StreamEnds {
                id,
                source,
                reason,
                bytes_received: 0,
                bytes_sent: 0,
                skips: 0,
            });
            assert_eq!(has_ended, has_begun);
            assert_eq!(admit(ServerEvent::StreamOver { id }), has_begun);
            reported += u64::from(has_begun);
        }
        assert!((60..=256).contains(&reported), "{reported}");
        assert!(limits.unreported.is_empty());
    }

    #[test]
    fn a_host_that_is_refused_all_the_time_leaves_room_for_the_others() {
        let mut limits = EventLimits::default();
        let host = |last: u8| IpAddr::from([10, 0, 0, last]);
        let admitted = (0..1_000).filter(|_| limits.admit_refusal(host(1), Instant::START));
        assert_eq!(admitted.count(), 16);
        assert!(limits.admit_refusal(host(2), Instant::START));
    }

    #[test]
    fn a_session_that_is_reported_no_more_takes_nothing_of_its_hosts_others() {
        let mut limits = EventLimits::default();
        let host = SocketAddr::from(([10, 0, 0, 1], 7));
        let comes = |connection| ServerEvent::ViewerComes {
            id: ListedId::Connection { run: 1, connection },
            key: None,
            address: Some(host),
        };
        for number in 0..40_000 {
            let now = Instant::after_start(Duration::from_millis(number));
            limits.admit(&session("busy"), &comes(number), now);
            if number % 1_000 == 0 {
                let other = comes(100_000 + number);
                assert!(limits.admit(&session("other"), &other, now), "{number}");
            }
        }
    }

    /// Also with long session ids, and with viewers and streams at the same time.
    #[test]
    fn a_host_causes_at_most_half_of_the_text_that_is_kept() {
        let host = SocketAddr::from(([10, 0, 0, 1], 7));
        for rest in [String::new(), "x".repeat(250), "\"".repeat(250)] {
            let mut limits = EventLimits::default();
            let mut text = Vec::new();
            for number in 0..10_000 {
                // Sessions have buckets of their own.
                let session = session(&format!("{number}{rest}"));
                let id = PublicStreamId {
                    run: u32::MAX,
                    serial: u64::MAX - number,
                };
                let begins = ServerEvent::StreamBegins { id, source: host };
                let ends = ServerEvent::StreamEnds {
                    id,
                    source: host,
                    reason: "the source sent nothing for longer than --source-idle-time",
                    bytes_received: u64::MAX,
                    bytes_sent: u64::MAX,
                    skips: u64::MAX,
                };
                let viewer = ListedId::Connection {
                    run: u32::MAX,
                    connection: u64::MAX - number,
                };
                let comes = ServerEvent::ViewerComes {
                    id: viewer,
                    key: Some(session.digest()),
                    address: Some(host),
                };
                let cut = ServerEvent::ViewerCut {
                    id: viewer,
                    address: host,
                    reason: "it took nothing for longer than --viewer-stall-time",
                    behind_bytes: u64::MAX,
                    behind_ms: u64::MAX,
                };
                let goes = ServerEvent::ViewerGoes {
                    id: viewer,
                    key: Some(session.digest()),
                    address: host,
                    bytes: u64::MAX,
                    skips: u32::MAX,
                };
                let over = ServerEvent::StreamOver { id };
                for event in [begins, ends, over, comes, cut, goes] {
                    if limits.admit(&session, &event, Instant::START) {
                        let id = EventId {
                            run: u32::MAX,
                            number: u64::MAX,
                        };
                        write_unit(&mut text, (id, UnixTime::default()), Some(&session), &event);
                    }
                }
            }
            assert!(
                (BYTES_MAX / 4..=BYTES_MAX / 2 + 4096).contains(&text.len()),
                "{}",
                text.len()
            );
        }
    }

    #[test]
    fn an_event_without_a_place_is_not_reported() {
        let mut limits = EventLimits::default();
        for number in 0..NAMES_MAX {
            assert!(limits.admit(
                &session(&number.to_string()),
                &comes(number as u64),
                Instant::START
            ));
        }
        assert!(!limits.admit(&session("another"), &comes(99_999), Instant::START));
        let later = Instant::after_start(Duration::from_secs(1));
        assert!(limits.admit(&session("another"), &comes(100_000), later));
    }

    #[test]
    fn a_host_hides_no_viewers_of_other_hosts_of_its_session() {
        let mut limits = EventLimits::default();
        let comes = |connection, host: u8| ServerEvent::ViewerComes {
            id: ListedId::Connection { run: 1, connection },
            key: None,
            address: Some(SocketAddr::from(([10, 0, 0, host], 7))),
        };
        for number in 0..20_000 {
            let now = Instant::after_start(Duration::from_millis(number));
            limits.admit(&session("show"), &comes(number, 1), now);
            if number % 500 == 0 {
                let other = comes(100_000 + number, (number / 500) as u8 + 2);
                assert!(limits.admit(&session("show"), &other, now), "{number}");
            }
        }
    }

    /// A source breaks and comes back so often that not all of that is reported.
    #[test]
    fn a_stream_that_a_snapshot_shows_held_goes_on_for_its_readers() {
        let (mut limits, name) = (EventLimits::default(), session("s"));
        let id = PublicStreamId { run: 1, serial: 1 };
        let source = SocketAddr::from(([10, 0, 0, 1], 7));
        let held = || ServerEvent::StreamHeld {
            id,
            reason: "",
            viewers: 1,
            source,
        };
        let goes_on = || ServerEvent::StreamGoesOn { id, source };
        while limits.admit(&name, &held(), Instant::START) {
            assert!(limits.admit(&name, &goes_on(), Instant::START));
        }
        assert!(!limits.admit(&name, &goes_on(), Instant::START));
        assert!(!limits.admit(&name, &held(), Instant::START));
        limits.report_hold(1);
        assert!(limits.admit(&name, &goes_on(), Instant::START));
        // Its title is reported all the same.
        let title = Title::new("a song");
        let title = ServerEvent::StreamTitle { id, title: &title };
        assert!(limits.admit(&name, &title, Instant::START));
    }

    #[test]
    fn strangers_with_many_addresses_hide_no_stream() {
        let mut limits = EventLimits::default();
        let hosts = 0..2 * NAMES_MAX as u32;
        let addresses = hosts.map(|host| IpAddr::from((0x0a00_0000 + host).to_be_bytes()));
        for address in addresses {
            while limits.admit_refusal(address, Instant::START) {}
        }
        let id = PublicStreamId { run: 1, serial: 1 };
        let source = SocketAddr::from(([192, 0, 2, 7], 7));
        let begins = ServerEvent::StreamBegins { id, source };
        assert!(limits.admit(&session("s"), &begins, Instant::START));
    }
}
