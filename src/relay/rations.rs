//! Limits how many events clients may cause. Clients of one session that come and go all the time
//! do not push the events that an operator relies on out of `/api/events`.
//!
//! Each session has a [`TokenBucket`](crate::token_bucket::TokenBucket) for its viewers and one for
//! its streams, and so has each host. A viewer or a stream that comes while the bucket is empty is
//! not reported, neither now nor later: readers see all of its events or none. The lists have it all
//! the same.
//!
//! Bounds: [`NAMES_MAX`] buckets of sessions and as many of hosts, and a number for each viewer and
//! each stream that is not reported.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::server_event::ServerEvent;
use super::viewer_id::{ListedId, PublicStreamId};
use crate::gate::{SessionId, network_of};
use crate::time::Instant;
use crate::token_bucket::{Rate, TokenBuckets};

/// What has several events, of which readers see all or none.
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

/// Which bucket of a session or a host an event draws from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Viewers,
    Streams,
    /// Refused sources. Sessions have no such bucket.
    Refusals,
}

/// What clients may cause still.
#[derive(Default)]
pub(super) struct Rations {
    sessions: TokenBuckets<(Kind, SessionId), NAMES_MAX>,
    hosts: TokenBuckets<(Kind, IpAddr), NAMES_MAX>,
    /// A hand-over tells these.
    pub unreported: BTreeSet<Subject>,
}

/// Sessions, and hosts, whose buckets are not full.
const NAMES_MAX: usize = 2048;
/// Events of a session's new viewers. A full burst, with the other events of these viewers, takes
/// less than half of what [`crate::events`] keeps.
const VIEWERS: Rate = Rate {
    per_second: 16,
    burst: 1024,
};
/// Streams of a session that begin, or lose their source.
const STREAMS: Rate = Rate {
    per_second: 16,
    burst: 256,
};
/// Viewers of a host that come, or streams that begin or lose their source. It may be a proxy that
/// does not name its clients.
const OF_HOST: Rate = Rate {
    per_second: 64,
    burst: 1024,
};
/// Refused sources of a host. Refused sources retry at once, and anybody may be one.
const REFUSALS: Rate = Rate {
    per_second: 1,
    burst: 16,
};

impl Rations {
    /// Returns whether an event of a session is reported.
    pub fn admit(&mut self, session: &SessionId, what: &ServerEvent<'_>, now: Instant) -> bool {
        let by = (session, what.host());
        match what {
            ServerEvent::ViewerComes { id, .. } => {
                viewer(*id).is_none_or(|viewer| self.begin(viewer, by, now))
            }
            ServerEvent::ViewerCut { id, .. } => self.reports_viewer(*id),
            ServerEvent::ViewerGoes { id, .. } => {
                viewer(*id).is_none_or(|viewer| !self.unreported.remove(&viewer))
            }
            ServerEvent::StreamBegins { id, .. } => self.begin(Subject::Stream(id.serial), by, now),
            ServerEvent::StreamHeld { id, .. } => {
                self.reports_stream(*id) && self.begin(Subject::Hold(id.serial), by, now)
            }
            ServerEvent::StreamGoesOn { id, .. } => {
                let is_held_known = !self.unreported.remove(&Subject::Hold(id.serial));
                is_held_known && self.reports_stream(*id)
            }
            ServerEvent::SourceTooFast { id, .. } | ServerEvent::StreamTitle { id, .. } => {
                self.reports_stream(*id) && self.take(Kind::Streams, by, now)
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
        self.take_of_host(Kind::Refusals, address, now)
    }

    /// Returns whether readers know of a viewer.
    pub fn reports_viewer(&self, id: ListedId) -> bool {
        viewer(id).is_none_or(|viewer| !self.unreported.contains(&viewer))
    }

    /// Returns whether readers know of a stream.
    pub fn reports_stream(&self, id: PublicStreamId) -> bool {
        !self.unreported.contains(&Subject::Stream(id.serial))
    }

    fn begin(&mut self, subject: Subject, by: (&SessionId, Option<IpAddr>), now: Instant) -> bool {
        let kind = match subject {
            Subject::Viewer(_) => Kind::Viewers,
            Subject::Stream(_) | Subject::Hold(_) => Kind::Streams,
        };
        let is_reported = self.take(kind, by, now);
        if !is_reported {
            self.unreported.insert(subject);
        }
        is_reported
    }

    fn take(&mut self, kind: Kind, by: (&SessionId, Option<IpAddr>), now: Instant) -> bool {
        let (session, host) = by;
        let rate = match kind {
            Kind::Viewers => VIEWERS,
            _ => STREAMS,
        };
        let name = (kind, session.clone());
        let mut bucket = self.sessions.remove(&name);
        let has_some = bucket.try_take(1, rate, now);
        // Where more sessions are busy than there are places, each is reported: nobody has as many
        // tokens but the operator.
        let has_place = self.sessions.insert(name, bucket, now);
        // A session whose bucket is empty takes nothing from the bucket of its host.
        (has_some || !has_place) && host.is_none_or(|host| self.take_of_host(kind, host, now))
    }

    fn take_of_host(&mut self, kind: Kind, host: IpAddr, now: Instant) -> bool {
        let rate = match kind {
            Kind::Refusals => REFUSALS,
            _ => OF_HOST,
        };
        let name = (kind, network_of(host));
        let mut bucket = self.hosts.remove(&name);
        let has_some = bucket.try_take(1, rate, now);
        // A stranger may have any number of addresses, so a refusal needs a place in the table. Viewers
        // and streams need none: strangers could have taken all places.
        let has_place = self.hosts.insert(name, bucket, now);
        has_some && (has_place || kind != Kind::Refusals)
    }
}

fn viewer(id: ListedId) -> Option<Subject> {
    match id {
        ListedId::Connection { connection, .. } => Some(Subject::Viewer(connection)),
        ListedId::Client { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use std::time::Duration;

    fn session(name: &str) -> SessionId {
        SessionId::parse(name.as_bytes()).expect("a good sessionid")
    }

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
        let mut rations = Rations::default();
        let (busy, other) = (session("busy"), session("other"));
        let mut reported = 0;
        for number in 0..100_000 {
            let now = Instant::after_start(Duration::from_micros(100 * number));
            let has_come = rations.admit(&busy, &comes(number), now);
            let id = ListedId::Connection {
                run: 1,
                connection: number,
            };
            assert_eq!(rations.reports_viewer(id), has_come);
            assert_eq!(rations.admit(&busy, &goes(number), now), has_come);
            reported += u64::from(has_come);
            if number % 1_000 == 0 {
                let viewer = 1_000_000 + number;
                assert!(rations.admit(&other, &comes(viewer), now));
                assert!(rations.admit(&other, &goes(viewer), now));
                assert!(rations.admit(&busy, &ServerEvent::TokenOver {}, now));
            }
        }
        assert!((1_100..=1_024 + 16 * 10).contains(&reported), "{reported}");
        assert!(rations.unreported.is_empty());
    }

    #[test]
    fn streams_that_begin_and_end_all_the_time_are_reported_whole_or_not() {
        let mut rations = Rations::default();
        let name = session("s");
        let source = SocketAddr::from(([10, 0, 0, 1], 7));
        let mut reported = 0;
        for serial in 0..1_000 {
            let id = PublicStreamId { run: 1, serial };
            let now = Instant::START;
            let reason = "";
            let mut admit = |what| rations.admit(&name, &what, now);
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
        assert!((80..=256).contains(&reported), "{reported}");
        assert!(rations.unreported.is_empty());
    }

    #[test]
    fn a_host_that_is_refused_all_the_time_leaves_room_for_the_others() {
        let mut rations = Rations::default();
        let host = |last: u8| IpAddr::from([10, 0, 0, last]);
        let admitted = (0..1_000).filter(|_| rations.admit_refusal(host(1), Instant::START));
        assert_eq!(admitted.count(), 16);
        assert!(rations.admit_refusal(host(2), Instant::START));
    }

    #[test]
    fn a_session_that_is_reported_no_more_takes_nothing_of_its_hosts_others() {
        let mut rations = Rations::default();
        let host = SocketAddr::from(([10, 0, 0, 1], 7));
        let comes = |connection| ServerEvent::ViewerComes {
            id: ListedId::Connection { run: 1, connection },
            key: None,
            address: Some(host),
        };
        for number in 0..40_000 {
            let now = Instant::after_start(Duration::from_millis(number));
            rations.admit(&session("busy"), &comes(number), now);
            if number % 1_000 == 0 {
                let other = comes(100_000 + number);
                assert!(rations.admit(&session("other"), &other, now), "{number}");
            }
        }
    }

    #[test]
    fn strangers_with_many_addresses_hide_no_stream() {
        let mut rations = Rations::default();
        let hosts = 0..2 * NAMES_MAX as u32;
        let addresses = hosts.map(|host| IpAddr::from((0x0a00_0000 + host).to_be_bytes()));
        for address in addresses {
            while rations.admit_refusal(address, Instant::START) {}
        }
        let id = PublicStreamId { run: 1, serial: 1 };
        let source = SocketAddr::from(([192, 0, 2, 7], 7));
        let begins = ServerEvent::StreamBegins { id, source };
        assert!(rations.admit(&session("s"), &begins, Instant::START));
    }
}
