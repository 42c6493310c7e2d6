//! The questions of admission, one at a time: on either side of each bound, and with each possible
//! answer.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::session;
use crate::gate::{Blocks, Direction, Grant, SessionId, Terms, Tokens};
use crate::http::{Framing, Method, Refusal};
use crate::relay::Settings;
use crate::relay::admission::{
    AccessRequest, Beyond, BlockedViewer, Disclosure, EntryPoint, Gate, SessionState,
};
use crate::relay::origin_error::OriginError;
use crate::relay::quota::SourceLimits;
use crate::relay::stage::settings;
use crate::time::{Instant, UnixTime};

const API: &str = "--token-server=10.0.0.0/8";
const NOON: UnixTime = UnixTime { unix_seconds: 1000 };

/// All that is asked, by a server with these options.
struct Table {
    settings: Settings,
    tokens: Option<Tokens>,
    blocks: Blocks<SessionId>,
    blocked_viewers: Blocks<BlockedViewer>,
    is_closing: bool,
}

impl Table {
    fn new(options: &[&str]) -> Table {
        let settings = settings(options);
        let has_tokens = !settings.token_servers.is_empty();
        Table {
            tokens: has_tokens.then(|| Tokens::new(settings.limits.tokens)),
            settings,
            blocks: Blocks::default(),
            blocked_viewers: Blocks::default(),
            is_closing: false,
        }
    }

    fn gate(&self) -> Gate<'_> {
        Gate {
            settings: &self.settings,
            tokens: self.tokens.as_ref(),
            blocks: &self.blocks,
            blocked_viewers: &self.blocked_viewers,
            is_closing: self.is_closing,
            now: Instant::START,
            time: NOON,
        }
    }

    fn grant(&mut self, name: &str, direction: Direction, terms: Terms) {
        let grant = Grant { direction, terms };
        let tokens = self.tokens.as_mut().expect("tokens");
        let added = tokens.add(&session(name), Some(grant), Vec::new());
        assert_eq!(added, Ok(1), "{name}");
    }
}

fn opens(name: &str) -> Terms {
    Terms {
        opens: Some(session(name)),
        ..Terms::default()
    }
}

/// From there, with nothing that says more.
fn access_request(entry_point: EntryPoint, from: &str) -> AccessRequest {
    AccessRequest::without_request(entry_point, from.parse().expect("an address"))
}

fn caller(entry_point: EntryPoint) -> AccessRequest {
    AccessRequest {
        host: "10.9.0.1:8000".to_owned(),
        ..access_request(entry_point, "10.0.0.1:6000")
    }
}

/// 0: nothing is refused.
fn status<T>(verdict: Result<T, Refusal>) -> u16 {
    verdict.map_or_else(|refusal| refusal.status.code(), |_| 0)
}

pub fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn the_api_is_for_pages_of_its_own_alone() {
    let table = Table::new(&[API, "--hostname=relay.example"]);
    let own = "10.9.0.1:8000";
    // Origin, Host, whether a proxy brings it, and whether it is one of the server's own pages.
    for (origin, host, is_proxied, is_own) in [
        ("http://10.9.0.1:8000", own, false, true),
        ("HTTP://10.9.0.1:8000", own, false, true),
        ("http://10.9.0.1:8000", own, true, true),
        ("https://10.9.0.1:8000", own, true, true),
        ("https://10.9.0.1:8000", own, false, false),
        ("ftp://10.9.0.1:8000", own, true, false),
        ("http://10.9.0.1:8001", own, false, false),
        ("http://Relay.example", "relay.example", false, true),
        ("http://rebound.example", "rebound.example", false, false),
        ("http://elsewhere.example", own, false, false),
        ("null", own, false, false),
        ("10.9.0.1:8000", own, false, false),
    ] {
        let access_request = AccessRequest {
            host: host.to_owned(),
            is_proxied,
            origin: Some(origin.to_owned()),
            ..caller(EntryPoint::Call)
        };
        let expected = if is_own { 0 } else { 403 };
        let what = (origin, host, is_proxied);
        assert_eq!(
            status(table.gate().enter(&access_request)),
            expected,
            "{what:?}"
        );
    }
    for (site, expected) in [
        (None, 0),
        (Some("none"), 0),
        (Some("same-origin"), 0),
        (Some("same-site"), 403),
        (Some("cross-site"), 403),
    ] {
        let access_request = AccessRequest {
            site: site.map(str::to_owned),
            ..caller(EntryPoint::Call)
        };
        assert_eq!(
            status(table.gate().enter(&access_request)),
            expected,
            "{site:?}"
        );
    }
}

#[test]
fn the_api_answers_under_addresses_and_names_of_its_own() {
    let table = Table::new(&[API, "--hostname=relay.example"]);
    for good in [
        "10.9.0.1",
        "10.9.0.1:8000",
        "[2001:db8::1]",
        "[2001:db8::1]:8000",
        "localhost",
        "LOCALHOST:8000",
        "relay.example",
        "Relay.Example:8000",
    ] {
        let access_request = AccessRequest {
            host: good.to_owned(),
            ..caller(EntryPoint::Call)
        };
        assert_eq!(status(table.gate().enter(&access_request)), 0, "{good}");
    }
    for bad in [
        "",
        ":8000",
        "rebound.example",
        "relay.example.org",
        "localhost.example:8000",
        "[localhost",
        "[2001:db8::1",
        "10.9.0.1:8000:1",
    ] {
        let access_request = AccessRequest {
            host: bad.to_owned(),
            ..caller(EntryPoint::Call)
        };
        assert_eq!(status(table.gate().enter(&access_request)), 403, "{bad}");
    }
}

/// Hosts that read the figures read nothing else, whether there are tokens or not.
#[test]
fn who_may_read_the_figures_may_do_no_more_by_that() {
    let figures = "--metrics-from=10.9.0.0/16";
    let api = "--token-server=10.1.0.0/16";
    for (options, from, ways) in [
        (&[figures][..], "10.9.0.7:1", [0, 403, 403]),
        (&[figures], "10.1.0.7:1", [403, 403, 403]),
        (&[figures, api], "10.9.0.7:1", [0, 403, 403]),
        (&[figures, api], "10.1.0.7:1", [0, 0, 0]),
        (&[figures, api], "10.2.0.7:1", [403, 403, 403]),
    ] {
        let table = Table::new(options);
        let asked =
            [EntryPoint::Metrics, EntryPoint::Call, EntryPoint::Events].map(|entry_point| {
                let access_request = AccessRequest {
                    host: "localhost".to_owned(),
                    ..access_request(entry_point, from)
                };
                status(table.gate().enter(&access_request))
            });
        assert_eq!(asked, ways, "{options:?} {from}");
    }
}

/// A refusal of the API says why.
#[test]
fn a_refusal_of_the_api_says_what_would_help() {
    let detail = |options: &[&str], entry_point, from: Option<&str>| {
        let table = Table::new(options);
        let access_request = AccessRequest {
            from: from.map(|from| from.parse().expect("an address")),
            ..caller(entry_point)
        };
        table
            .gate()
            .enter(&access_request)
            .expect_err("refused")
            .detail
    };
    let of_stranger = detail(&[API], EntryPoint::Call, Some("192.0.2.1:1"));
    let of_nobody = detail(&[API], EntryPoint::Call, None);
    let of_host = detail(&[API], EntryPoint::Call, Some("127.0.0.1:1"));
    let of_reader = detail(&[API], EntryPoint::Metrics, Some("192.0.2.1:1"));
    let without_tokens = detail(&[], EntryPoint::Call, Some("10.0.0.1:1"));
    let reader_without_tokens = detail(&[], EntryPoint::Metrics, Some("10.0.0.1:1"));
    let begins = "only hosts in the subnet of --token-server may call the API";
    assert_eq!(of_stranger, format!("{begins}; your address is 192.0.2.1"));
    assert_eq!(
        of_nobody,
        format!("{begins}; the proxy in front does not name the client")
    );
    let give = "your address is 127.0.0.1, and --token-server=10.0.0.0/8 does not contain it; add --token-server=127.0.0.1";
    assert_eq!(of_host, format!("{begins}; {give}"));
    assert!(of_reader.contains("--metrics-from"), "{of_reader}");
    let asks_for_option = without_tokens.contains("--token-server=ADDR/MASK");
    assert!(asks_for_option, "{without_tokens}");
    let asks_for_option = reader_without_tokens.contains("--metrics-from=ADDR/MASK");
    assert!(asks_for_option, "{reader_without_tokens}");
}

#[test]
fn the_page_is_for_everyone_without_tokens_and_for_the_apis_hosts_with_them() {
    let elsewhere = Some("http://elsewhere.example");
    let own = Some("http://10.9.0.1:8000");
    for (options, from, origin, host, expected) in [
        (&[][..], Some("192.0.2.1:1"), None, "any.example", 0),
        (&[], Some("192.0.2.1:1"), elsewhere, "any.example", 0),
        (&[], None, None, "any.example", 403),
        (&[API], Some("10.0.0.1:1"), None, "10.9.0.1:8000", 0),
        (&[API], Some("10.0.0.1:1"), own, "10.9.0.1:8000", 0),
        (&[API], Some("10.0.0.1:1"), elsewhere, "10.9.0.1:8000", 403),
        (&[API], Some("10.0.0.1:1"), None, "any.example", 403),
        (&[API], Some("192.0.2.1:1"), None, "10.9.0.1:8000", 404),
        (&[API], None, None, "10.9.0.1:8000", 404),
    ] {
        let access_request = AccessRequest {
            from: from.map(|from| from.parse().expect("an address")),
            origin: origin.map(str::to_owned),
            host: host.to_owned(),
            ..caller(EntryPoint::Page)
        };
        let seen = status(Table::new(options).gate().enter(&access_request));
        assert_eq!(seen, expected, "{options:?} {from:?} {origin:?} {host}");
    }
}

/// All clients of a proxy that is not configured have its address.
#[test]
fn an_address_lets_nobody_in_whom_a_strangers_proxy_brings() {
    let publish = "--publish-from=10.0.0.0/8";
    for (option, entry_point) in [
        (API, EntryPoint::Call),
        (API, EntryPoint::Metrics),
        (API, EntryPoint::Page),
        (publish, EntryPoint::Put),
    ] {
        let table = Table::new(&[option]);
        for (is_forwarded, is_proxied, expected) in [
            (false, false, 0),
            (false, true, 0),
            (true, true, 0),
            (true, false, 403),
        ] {
            let access_request = AccessRequest {
                is_forwarded,
                is_proxied,
                ..caller(entry_point)
            };
            let seen = status(table.gate().enter(&access_request));
            assert_eq!(
                seen, expected,
                "{entry_point:?} {is_forwarded} {is_proxied}"
            );
        }
    }
}

/// By default nginx and Apache send their upstream's address as Host. The name that the client
/// called is lost then.
#[test]
fn a_proxy_that_writes_the_servers_own_address_as_host_brings_no_calls() {
    for (listeners, host, expected) in [
        ("127.0.0.1:8000", "127.0.0.1:8000", 403),
        ("127.0.0.1:8000", "[::ffff:127.0.0.1]:8000", 403),
        ("127.0.0.1:8000", "LocalHost:8000", 403),
        ("127.0.0.1:8000", "127.0.0.1", 0),
        ("127.0.0.1:8000", "127.0.0.1:80", 0),
        ("127.0.0.1:8000", "127.0.0.1:80000", 0),
        ("127.0.0.1:8000", "127.0.0.2:8000", 0),
        ("127.0.0.1:8000", "10.9.0.1:8000", 0),
        ("127.0.0.1:8000", "relay.example:8000", 0),
        ("127.0.0.1:8000 10.9.0.1:8000", "10.9.0.1:8000", 403),
        ("10.9.0.1:8000", "localhost:8000", 0),
        ("127.0.0.1:80", "localhost", 403),
        ("127.0.0.1:80", "127.0.0.1:", 403),
        ("[::1]:8000", "[::1]:8000", 403),
        ("[::1]:8000", "[::1]", 0),
        ("0.0.0.0:8000", "127.0.0.1:8000", 403),
        ("[::]:8000", "[::1]:8000", 403),
        ("[::]:8000", "localhost:8000", 403),
        ("[::]:8000", "localhost:8080", 0),
        ("[::]:8000", "192.0.2.1:8000", 403),
        ("0.0.0.0:8000", "[2001:db8::1]:8000", 403),
        ("[::]:8000", "192.0.2.1:8080", 0),
        ("[::]:8000", "192.0.2.1", 0),
        ("", "127.0.0.1:8000", 0),
    ] {
        let mut table = Table::new(&[API, "--hostname=relay.example"]);
        let bound = |text: &str| text.parse().expect("an address");
        table.settings.listeners = listeners.split_whitespace().map(bound).collect();
        for entry_point in [
            EntryPoint::Call,
            EntryPoint::Events,
            EntryPoint::Metrics,
            EntryPoint::Page,
        ] {
            let enter = |is_forwarded, is_proxied| {
                let access_request = AccessRequest {
                    host: host.to_owned(),
                    is_forwarded,
                    is_proxied,
                    ..caller(entry_point)
                };
                status(table.gate().enter(&access_request))
            };
            let seen = enter(true, true);
            assert_eq!(seen, expected, "{entry_point:?} {listeners} {host}");
            // Without such a proxy the Host is the client's.
            assert_eq!((enter(false, false), enter(false, true)), (0, 0), "{host}");
        }
        let source = AccessRequest {
            host: host.to_owned(),
            is_forwarded: true,
            is_proxied: true,
            ..caller(EntryPoint::Put)
        };
        assert_eq!(status(table.gate().enter(&source)), 0, "{host}");
    }
}

#[test]
fn pages_publish_where_the_operator_has_named_their_site() {
    let table = Table::new(&["--cors=http://site.example"]);
    for entry_point in [EntryPoint::Put, EntryPoint::Post, EntryPoint::Icecast] {
        for (origin, expected) in [
            (None, 0),
            (Some("http://10.9.0.1:8000"), 0),
            (Some("http://site.example"), 0),
            (Some("http://SITE.example"), 0),
            (Some("https://site.example"), 403),
            (Some("http://elsewhere.example"), 403),
        ] {
            let access_request = AccessRequest {
                origin: origin.map(str::to_owned),
                ..caller(entry_point)
            };
            assert_eq!(
                status(table.gate().enter(&access_request)),
                expected,
                "{origin:?}"
            );
        }
    }
}

#[test]
fn who_is_beyond_a_limit_gets_what_is_answered_at_once_and_no_place() {
    let table = Table::new(&[]);
    let at_once = [
        EntryPoint::Call,
        EntryPoint::Metrics,
        EntryPoint::Page,
        EntryPoint::Health,
        EntryPoint::Options,
    ];
    for entry_point in super::ways() {
        let is_at_once = at_once.contains(&entry_point);
        for (beyond, expected) in [
            (None, 0),
            (Some(Beyond::All), if is_at_once { 0 } else { 503 }),
            (Some(Beyond::Host), if is_at_once { 0 } else { 429 }),
        ] {
            let seen = status(table.gate().check_connection_limits(entry_point, beyond));
            assert_eq!(seen, expected, "{entry_point:?} {beyond:?}");
        }
    }
}

/// The roles of admitted connections: a viewer counts while it is connected, an HLS player where
/// viewers are counted.
#[test]
fn who_is_inside_counts_as_it_came_in() {
    let mut table = Table::new(&[API]);
    let counted = |most| Terms {
        viewers_max: most,
        ..opens("a")
    };
    table.grant("a", Direction::Both, Terms::default());
    table.grant("key", Direction::Both, opens("a"));
    table.grant("counted", Direction::Both, counted(Some(3)));
    let (viewer, counted_hls) = ((true, false), (false, true));
    let neither = (false, false);
    for (entry_point, name, expected) in [
        (EntryPoint::Put, "a", Some(neither)),
        (EntryPoint::Post, "counted", Some(neither)),
        (EntryPoint::Icecast, "key", Some(neither)),
        (EntryPoint::Rtmp, "key", Some(neither)),
        (EntryPoint::Viewer, "a", Some(viewer)),
        (EntryPoint::Remuxed, "counted", Some(viewer)),
        (EntryPoint::Hls, "a", Some(neither)),
        (EntryPoint::Hls, "key", Some(neither)),
        (EntryPoint::Hls, "counted", Some(counted_hls)),
        (EntryPoint::Rtp, "a", None),
        (EntryPoint::Pull, "a", None),
        (EntryPoint::WatchPage, "a", None),
        (EntryPoint::Call, "a", None),
        (EntryPoint::Page, "a", None),
    ] {
        let admission = table
            .gate()
            .admission(session(name), &session("a"), entry_point);
        let seen = admission
            .as_ref()
            .map(|admission| (admission.is_viewer(), admission.is_counted_hls()));
        assert_eq!(seen, expected, "{entry_point:?} {name}");
        if let Some(admission) = admission {
            assert_eq!(
                (&admission.credential, &admission.session),
                (&session(name), &session("a"))
            );
        }
    }
    let without_tokens = Table::new(&[]);
    let admission = without_tokens
        .gate()
        .admission(session("a"), &session("a"), EntryPoint::Put);
    assert!(admission.is_none(), "nothing of it is to be remembered");
}

/// The slower of its token and the session's counts.
#[test]
fn a_source_is_as_slow_as_its_token_says_and_the_sessions() {
    let slow = |most, terms: Terms| Terms {
        bits_per_second_max: most,
        ..terms
    };
    for (of_key, of_session, expected) in [
        (None, None, None),
        (Some(9000), None, Some(9000)),
        (None, Some(8000), Some(8000)),
        (Some(9000), Some(8000), Some(8000)),
        (Some(7000), Some(8000), Some(7000)),
    ] {
        let mut table = Table::new(&[API]);
        table.grant("a", Direction::Both, slow(of_session, Terms::default()));
        table.grant("key", Direction::Both, slow(of_key, opens("a")));
        let kept = SourceLimits {
            by_key: Some(1000),
            by_session: Some(1001),
        };
        let gate = table.gate();
        let limits = gate.source_limits(&session("key"), &session("a"), kept);
        assert_eq!(limits.lower(), expected, "{of_key:?} {of_session:?}");
        let own = gate.source_limits(&session("a"), &session("a"), kept);
        assert_eq!(own.lower(), of_session);
        // No token of its name is its own: it keeps that limit, and that one alone.
        for gone in ["none", "other"] {
            let mut table = Table::new(&[API]);
            table.grant("a", Direction::Both, slow(of_session, Terms::default()));
            table.grant("other", Direction::Both, slow(Some(1), opens("b")));
            let gate = table.gate();
            let limits = gate.source_limits(&session(gone), &session("a"), kept);
            assert_eq!(limits.by_key, kept.by_key, "{gone}");
            assert_eq!(limits.by_session, of_session, "{gone}");
        }
        let mut table = Table::new(&[API]);
        table.grant("key", Direction::Both, slow(of_key, opens("a")));
        let gate = table.gate();
        let limits = gate.source_limits(&session("key"), &session("a"), kept);
        assert_eq!(limits.by_key, of_key);
        assert_eq!(limits.by_session, kept.by_session);
    }
}

/// What runs of a session as sources are asked about it.
#[test]
fn a_source_has_a_length_no_other_source_and_room() {
    let free = SessionState {
        has_room: true,
        ..SessionState::default()
    };
    let taken = SessionState {
        has_source: true,
        ..free.clone()
    };
    let (plain, takeover) = (Table::new(&[]), Table::new(&["--takeover"]));
    for (table, framing, session_state, expected) in [
        (&plain, Framing::Chunked, &free, 0),
        (&plain, Framing::UntilClose, &free, 0),
        (&plain, Framing::None, &free, 411),
        (&plain, Framing::Chunked, &taken, 409),
        (&takeover, Framing::Chunked, &taken, 0),
        (&takeover, Framing::None, &taken, 411),
        (&plain, Framing::Chunked, &SessionState::default(), 503),
    ] {
        for entry_point in [EntryPoint::Put, EntryPoint::Post, EntryPoint::Icecast] {
            let gate = table.gate();
            let seen = gate.publish(&caller(entry_point), &session("a"), framing, session_state);
            assert_eq!(
                status(seen),
                expected,
                "{entry_point:?} {framing:?} {session_state:?}"
            );
        }
    }
    // Without a request nothing waits for a length, and nobody can be told that it was replaced.
    for (table, session_state, expected) in [
        (&plain, &free, true),
        (&plain, &taken, false),
        (&takeover, &taken, false),
        (&plain, &SessionState::default(), false),
    ] {
        let access_request = access_request(EntryPoint::Pull, "10.1.0.1:8000");
        let (gate, framing) = (table.gate(), Framing::UntilClose);
        let verdict = gate.publish(&access_request, &session("a"), framing, session_state);
        assert_eq!(verdict.is_ok(), expected, "{session_state:?}");
    }
}

#[test]
fn a_viewer_waits_where_something_may_come_and_no_longer() {
    let (waits, origin) = ("--wait=5", "--origin=http://10.1.0.1:8000");
    let not_waiting = "--wait=0";
    let session_state = |runs, is_fetched, has_room, has_room_for_pull| SessionState {
        runs,
        is_fetched,
        has_room,
        has_room_for_pull,
        ..SessionState::default()
    };
    let (full, room) = (
        session_state(false, false, false, false),
        session_state(false, false, true, true),
    );
    for (options, method, session_state, expected) in [
        (&[not_waiting][..], Method::Get, &room, 404),
        (
            &[not_waiting],
            Method::Get,
            &session_state(true, false, false, false),
            0,
        ),
        (
            &[not_waiting],
            Method::Head,
            &session_state(true, false, false, false),
            0,
        ),
        (&[waits], Method::Get, &full, 0),
        (&[waits], Method::Head, &full, 404),
        (&[origin, not_waiting], Method::Get, &room, 0),
        (&[origin, not_waiting], Method::Head, &room, 404),
        (&[origin], Method::Get, &full, 503),
        (
            &[origin],
            Method::Get,
            &session_state(false, false, true, false),
            503,
        ),
        (
            &[origin],
            Method::Get,
            &session_state(false, false, false, true),
            503,
        ),
        (
            &[origin],
            Method::Get,
            &session_state(false, true, false, false),
            0,
        ),
    ] {
        let seen = status(Table::new(options).gate().wait(method, session_state));
        assert_eq!(seen, expected, "{options:?} {method:?} {session_state:?}");
    }
}

/// The number of viewers by a session's own id, and by each key to it.
#[test]
fn as_many_watch_as_each_token_says() {
    let most = |most, terms: Terms| Terms {
        viewers_max: Some(most),
        ..terms
    };
    let mut table = Table::new(&[API]);
    table.grant("a", Direction::Both, most(5, Terms::default()));
    table.grant("key", Direction::Both, most(2, opens("a")));
    table.grant("free", Direction::Both, opens("a"));
    for (name, viewers, viewers_by_credential, expected) in [
        ("a", 0, 0, 0),
        ("a", 4, 4, 0),
        ("a", 5, 0, 503),
        ("a", 4, 9, 0),
        ("key", 4, 1, 0),
        ("key", 4, 2, 503),
        ("key", 5, 1, 503),
        ("free", 4, 4, 0),
        ("free", 5, 0, 503),
    ] {
        let session_state = |hls_address| SessionState {
            viewers,
            viewers_by_credential,
            hls_address,
            runs: true,
            ..SessionState::default()
        };
        let (gate, name_id) = (table.gate(), session(name));
        let at = access_request(EntryPoint::Viewer, "10.0.0.1:1");
        let watch = gate.admit_viewer(&at, &name_id, &session_state(None), Disclosure::Full);
        assert_eq!(status(watch), expected, "{name} {viewers}");
        for (hls_address, expected) in [(Some(false), expected), (Some(true), 0), (None, 503)] {
            let seen = gate.admit_hls(
                None,
                &name_id,
                &session_state(hls_address),
                Disclosure::Full,
            );
            assert_eq!(status(seen), expected, "{name} {viewers} {hls_address:?}");
        }
    }
    // Where nobody counts them the limit on addresses does not matter.
    table.grant("b", Direction::Both, Terms::default());
    let (name, gate) = (session("b"), table.gate());
    let seen = gate.admit_hls(None, &name, &SessionState::default(), Disclosure::Full);
    assert_eq!(status(seen), 0);
}

#[test]
fn who_was_ended_is_kept_out_by_its_sessionid_and_from_its_address() {
    let mut table = Table::new(&[]);
    let until = Instant::START + Duration::from_millis(59_500);
    let whom = (session("a"), address("10.0.0.1"));
    assert!(table.blocked_viewers.add(&whom, until, Instant::START));
    let session_state = SessionState::default();
    for (name, from, expected) in [
        ("a", "10.0.0.1:1", 429),
        ("a", "10.0.0.1:2", 429),
        ("a", "10.0.0.2:1", 0),
        ("b", "10.0.0.1:1", 0),
    ] {
        let access_request = access_request(EntryPoint::Viewer, from);
        let seen = table.gate().admit_viewer(
            &access_request,
            &session(name),
            &session_state,
            Disclosure::Full,
        );
        assert_eq!(status(seen), expected, "{name} {from}");
    }
    let access_request = access_request(EntryPoint::Viewer, "10.0.0.1:1");
    let seen = table.gate().admit_viewer(
        &access_request,
        &session("a"),
        &session_state,
        Disclosure::Full,
    );
    let refusal = seen.expect_err("kept out");
    assert_eq!(refusal.retry_after_seconds, Some(60), "when it is over");
    // An address that would be somebody's is none.
    let (name, gate) = (session("a"), table.gate());
    assert_eq!(
        status(gate.admit_hls(None, &name, &session_state, Disclosure::Full)),
        0
    );
}

/// Whether the origin's word counts depends on whose stream it is that runs here.
#[test]
fn the_origin_says_who_may_watch_what_is_its_own() {
    let session_state = |runs, is_fetched, is_forbidden| SessionState {
        runs,
        is_fetched,
        is_forbidden,
        ..SessionState::default()
    };
    let origin = "--origin=http://10.1.0.1:8000";
    let mut local = Table::new(&[API, origin]);
    let mut asks = Table::new(&[API, origin, "--origin-tokens"]);
    for table in [&mut local, &mut asks] {
        table.grant("in", Direction::In, Terms::default());
        table.grant("out", Direction::Out, Terms::default());
        let over = Terms {
            expires: Some(UnixTime::default()),
            ..Terms::default()
        };
        table.grant("over", Direction::Both, over);
    }
    // Nothing runs; it is fetched; it is fetched and forbidden since; a source of its own.
    let standings = [
        session_state(false, false, false),
        session_state(true, true, false),
        session_state(true, true, true),
        session_state(true, false, false),
        session_state(false, false, true),
    ];
    for (name, by_origin, here) in [
        ("none", [0, 0, 403, 403, 0], 403),
        ("in", [0, 0, 403, 403, 0], 403),
        ("out", [0; 5], 0),
        ("over", [403; 5], 403),
    ] {
        let name = session(name);
        for (session_state, expected) in standings.iter().zip(by_origin) {
            let seen = asks.gate().check_token_and_blocks(
                None,
                &name,
                &name,
                session_state,
                Disclosure::Full,
            );
            assert_eq!(status(seen), expected, "{name:?} {session_state:?}");
            for disclosure in [
                Disclosure::Full,
                Disclosure::RunningOnly,
                Disclosure::Nothing,
            ] {
                let seen = local.gate().check_token_and_blocks(
                    None,
                    &name,
                    &name,
                    session_state,
                    disclosure,
                );
                assert_eq!(status(seen), here, "{name:?} {session_state:?}");
            }
        }
    }
    // Without the origin's word, each session looks alike whose stream here is not the origin's.
    for (disclosure, expected) in [
        (Disclosure::RunningOnly, [404, 0, 404, 404, 404]),
        (Disclosure::Nothing, [0; 5]),
    ] {
        for name in ["none", "in"].map(session) {
            let seen = standings.each_ref().map(|session_state| {
                status(asks.gate().check_token_and_blocks(
                    None,
                    &name,
                    &name,
                    session_state,
                    disclosure,
                ))
            });
            assert_eq!(seen, expected, "{name:?} {disclosure:?}");
        }
    }
    // Without a table of its own.
    let open = Table::new(&[origin, "--origin-tokens"]);
    let seen = standings.each_ref().map(|session_state| {
        let name = session("none");
        status(open.gate().check_token_and_blocks(
            None,
            &name,
            &name,
            session_state,
            Disclosure::Full,
        ))
    });
    assert_eq!(seen, [0, 0, 403, 0, 0]);
    let words = |table: &Table, name: &str| {
        let own = session_state(true, false, false);
        let verdict = table.gate().check_token_and_blocks(
            None,
            &session(name),
            &session(name),
            &own,
            Disclosure::Full,
        );
        verdict.expect_err("refused").detail
    };
    assert!(words(&asks, "none").contains("the origin admits its viewers"));
    assert!(words(&asks, "in").contains("the origin admits its viewers"));
    assert!(words(&local, "none").contains("adds one with add-token"));
    assert!(words(&local, "in").contains("for publishing only"));
    for (name, of_asking) in [
        ("none", false),
        ("in", false),
        ("out", true),
        ("over", true),
    ] {
        assert_eq!(
            asks.gate().has_watch_token(&session(name)),
            of_asking,
            "{name}"
        );
    }
}

/// A client that has waited is checked anew, and then for the stream.
#[test]
fn who_has_waited_is_asked_again() {
    let mut table = Table::new(&[API]);
    table.grant("a", Direction::Both, Terms::default());
    table.grant("key", Direction::Both, opens("a"));
    let counted = Terms {
        viewers_max: Some(1),
        ..Terms::default()
    };
    table.grant("counted", Direction::Both, counted);
    let session_state = |runs, viewers| SessionState {
        runs,
        viewers,
        hls_address: Some(false),
        ..SessionState::default()
    };
    for (name, of, entry_point, session_state, expected) in [
        ("a", "a", EntryPoint::Viewer, session_state(true, 0), 0),
        ("a", "a", EntryPoint::Viewer, session_state(false, 0), 504),
        ("a", "a", EntryPoint::Remuxed, session_state(false, 0), 0),
        ("a", "a", EntryPoint::Hls, session_state(false, 0), 0),
        ("key", "a", EntryPoint::Viewer, session_state(true, 0), 0),
        ("key", "b", EntryPoint::Viewer, session_state(true, 0), 403),
        (
            "none",
            "none",
            EntryPoint::Viewer,
            session_state(true, 0),
            403,
        ),
        (
            "counted",
            "counted",
            EntryPoint::Viewer,
            session_state(true, 1),
            0,
        ),
        (
            "counted",
            "counted",
            EntryPoint::Viewer,
            session_state(true, 2),
            503,
        ),
        (
            "counted",
            "counted",
            EntryPoint::Hls,
            session_state(true, 9),
            503,
        ),
    ] {
        let (name, of) = (session(name), session(of));
        let gate = table.gate();
        let fault = || OriginError::TimedOut;
        let seen = gate.go_on_late((&name, &of), (entry_point, None), &session_state, fault);
        assert_eq!(status(seen), expected, "{name:?} {of:?} {entry_point:?}");
    }
}

#[test]
fn a_viewer_is_told_why_no_origin_has_the_session() {
    let origin = "--origin=http://10.1.0.1:8000";
    let own = Table::new(&[API, origin]);
    let open = Table::new(&[origin]);
    let asks = Table::new(&[API, origin, "--origin-tokens"]);
    for (fault, of_all) in [
        (OriginError::NotFound, [404, 404, 404]),
        (OriginError::Forbidden, [502, 403, 403]),
        (OriginError::Broken("it fell silent"), [502, 502, 502]),
        (OriginError::TimedOut, [504, 504, 504]),
        (OriginError::Busy, [503, 503, 503]),
        (OriginError::Loop, [508, 508, 508]),
    ] {
        for (table, expected) in [&own, &open, &asks].into_iter().zip(of_all) {
            let seen = table.gate().turned_away(fault);
            assert_eq!(seen.status.code(), expected, "{fault:?}");
        }
    }
}

/// During the shutdown, connected clients may look; nothing new begins.
#[test]
fn nothing_begins_once_the_server_is_told_to_end() {
    for (is_closing, expected) in [(false, 0), (true, 503)] {
        let table = Table {
            is_closing,
            ..Table::new(&[])
        };
        let gate = table.gate();
        assert_eq!(gate.time, NOON);
        assert_eq!(status(gate.check_open()), expected);
        let name = session("a");
        assert_eq!(
            status(gate.check_token_and_blocks(
                None,
                &name,
                &name,
                &SessionState::default(),
                Disclosure::Full
            )),
            expected
        );
    }
}

#[test]
fn an_abort_keeps_everybody_out_of_its_session_and_of_no_other() {
    let mut table = Table::new(&[API]);
    table.grant("a", Direction::Both, Terms::default());
    table.grant("b", Direction::Both, Terms::default());
    table.grant("key", Direction::Both, opens("a"));
    let until = Instant::START + Duration::from_secs(60);
    assert!(table.blocks.add(&session("a"), until, Instant::START));
    let session_state = SessionState {
        has_room: true,
        ..SessionState::default()
    };
    for (name, expected) in [("a", 429), ("key", 429), ("b", 0)] {
        let (gate, name) = (table.gate(), session(name));
        let watch = gate.admit_viewer(
            &access_request(EntryPoint::Viewer, "10.0.0.1:1"),
            &name,
            &session_state,
            Disclosure::Full,
        );
        assert_eq!(status(watch), expected, "{name:?}");
        let put = gate.publish(
            &caller(EntryPoint::Put),
            &name,
            Framing::Chunked,
            &session_state,
        );
        assert_eq!(status(put), expected, "{name:?}");
    }
}

/// A stream that cannot be sent over HTTP is refused to an admitted viewer. The page is not.
#[test]
fn a_stream_that_cannot_go_out_is_not_acceptable() {
    let table = Table::new(&[]);
    let name = session("a");
    let session_state = SessionState {
        http_fault: Some("it is of no kind".to_owned()),
        ..SessionState::default()
    };
    let gate = table.gate();
    assert_eq!(
        status(gate.check_token_and_blocks(None, &name, &name, &session_state, Disclosure::Full)),
        0
    );
    for (session_state, expected) in [(session_state, 406), (SessionState::default(), 0)] {
        let verdict = gate.check_viewer(None, &name, &session_state, Disclosure::Full);
        assert_eq!(status(verdict.map(drop)), expected);
    }
}

#[test]
fn tokens_name_clients_within_reach_and_groups_that_are_named() {
    let may = |options: &[&str], at: &str| {
        let at = SocketAddr::new(address(at), 5004);
        settings(options).may_be_named(at)
    };
    let (subnet, join) = ("--rtp-to=10.0.0.0/8", "--join=239.1.2.3");
    for (options, at, expected) in [
        (&[][..], "192.0.2.1", true),
        (&[], "239.1.2.3", false),
        (&[API, join], "239.1.2.3", true),
        (&[API, join], "::ffff:239.1.2.3", true),
        (&[API, join], "239.1.2.4", false),
        (&[subnet], "10.0.0.1", true),
        (&[subnet], "::ffff:10.0.0.1", true),
        (&[subnet], "192.0.2.1", false),
        (&["--rtp-to=239.0.0.0/8"], "239.1.2.4", true),
    ] {
        assert_eq!(may(options, at), expected, "{options:?} {at}");
    }
}
