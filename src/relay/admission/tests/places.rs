//! Whose a connection is, whether there is a place for it, and whose pages may watch.

use super::asked::address;
use crate::relay::CONNECTIONS_BEYOND_MAX;
use crate::relay::admission::{AddressFrom, Beyond, Others};
use crate::relay::settings::VARIES;
use crate::relay::stage::settings;

#[test]
fn a_connection_tells_whose_it_is_as_the_operator_has_said_of_its_host() {
    let settings = settings(&[
        "--proxy-protocol=10.1.0.0/16",
        "--forwarded-from=10.2.0.0/16",
    ]);
    for (host, door, is_forwarder, is_proxy) in [
        ("10.1.0.1", AddressFrom::ProxyHeader, false, true),
        ("10.2.0.1", AddressFrom::Request, true, true),
        ("10.3.0.1", AddressFrom::Connection, false, false),
        ("::ffff:10.1.0.1", AddressFrom::ProxyHeader, false, true),
    ] {
        let host = address(host);
        assert_eq!(settings.address_from(host), door, "{host}");
        assert_eq!(settings.is_forwarder(host), is_forwarder, "{host}");
        assert_eq!(settings.is_proxy(host), is_proxy, "{host}");
    }
}

/// Half of the places beyond the limit are for the API's hosts, and for unknown clients.
#[test]
fn beyond_the_limit_there_is_a_place_for_the_apis_hosts_longest() {
    let settings = settings(&["--token-server=10.1.0.0/16", "--connections=20"]);
    let most = settings.limits.connections_max;
    assert_eq!(most, 20);
    for (host, beyond) in [
        (Some("10.2.0.1"), CONNECTIONS_BEYOND_MAX / 2),
        (Some("10.1.0.1"), CONNECTIONS_BEYOND_MAX),
        (None, CONNECTIONS_BEYOND_MAX),
    ] {
        let host = host.map(address);
        for (connections, has_room_for_connection) in [
            (0, true),
            (most, true),
            (most + beyond - 1, true),
            (most + beyond, false),
            (most + beyond + 1, false),
        ] {
            let seen = settings.has_room_for_connection(connections, host);
            assert_eq!(seen, has_room_for_connection, "{host:?} {connections}");
        }
    }
    assert!(settings.is_operators(address("10.1.0.1")));
    assert!(!settings.is_operators(address("10.2.0.1")));
}

/// A host has its limit, eight more connections get a refusal, and its network counts as sixteen
/// hosts.
#[test]
fn a_host_and_its_network_have_their_limits() {
    let settings = settings(&["--token-server=10.1.0.0/16", "--connections-per-host=5"]);
    let (stranger, operators) = (address("10.2.0.1"), address("10.1.0.1"));
    for (of_host, of_network, is_beyond, is_crowd) in [
        (0, 0, false, false),
        (4, 79, false, false),
        (5, 0, true, false),
        (0, 80, true, false),
        (12, 87, true, false),
        (13, 0, true, true),
        (0, 88, true, true),
    ] {
        let others = Others {
            of_host,
            of_network,
        };
        let beyond = is_beyond.then_some(Beyond::Host);
        assert_eq!(settings.beyond(others), beyond, "{others:?}");
        assert_eq!(settings.is_crowd(stranger, others), is_crowd, "{others:?}");
        assert!(!settings.is_crowd(operators, others), "{others:?}");
    }
}

#[test]
fn pages_watch_whose_site_is_named() {
    let (one, other) = ("--cors=http://a.example", "--cors=http://b.example");
    let any = "--cors=*";
    let allowed = |options: &[&str], origin: &str| {
        let settings = settings(options);
        let fields = settings.cors(origin);
        let allows = |field: &&(&str, &str)| field.0 == "Access-Control-Allow-Origin";
        fields.iter().find(allows).map(|field| field.1.to_owned())
    };
    for (options, origin, expected) in [
        (&[][..], "http://a.example", None),
        (&[one], "http://a.example", Some("http://a.example")),
        (&[one], "HTTP://A.example", Some("http://a.example")),
        (&[one], "http://b.example", None),
        (&[one, other], "http://b.example", Some("http://b.example")),
        (&[one, any], "http://a.example", Some("*")),
        (&[one, any], "http://c.example", Some("*")),
    ] {
        let expected = expected.map(str::to_owned);
        assert_eq!(allowed(options, origin), expected, "{options:?} {origin}");
    }
    // What a cache gives to the pages of every origin says whose they may be, or that it varies.
    assert_eq!(settings(&[]).cors_of_any(), &[]);
    assert_eq!(settings(&[one, other]).cors_of_any(), VARIES);
    for (options, origin) in [
        (&[one][..], "http://a.example"),
        (&[any], "http://c.example"),
        (&[one, any], "http://c.example"),
    ] {
        let settings = settings(options);
        assert!(!settings.cors_of_any().is_empty(), "{options:?}");
        assert_eq!(settings.cors_of_any(), settings.cors(origin), "{options:?}");
    }
}
