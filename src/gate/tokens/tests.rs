//! The public functions of the table, then random steps compared with a plain list.

use super::*;
use crate::gate::session;
use crate::gate::{Terms, udp_clients};

impl Tokens {
    /// Adds tuples to a session, all or nothing. Returns the number of new ones.
    pub fn add(
        &mut self,
        session: &SessionId,
        http: Option<Grant>,
        rtp: Vec<RtpTuple>,
    ) -> Result<usize, Full> {
        self.begin_trial();
        let added = self.try_add(session, http.map(GrantChange::from), rtp, self.time);
        self.end_trial();
        let Addition { records, new } = added?;
        records
            .iter()
            .for_each(|record| drop(self.carry_out(record)));
        Ok(new)
    }
}

const LIMITS: Limits = Limits {
    tokens_max: 40,
    udp_clients_per_session_max: 6,
};

fn rtp(entry: &str, addresses: &[&str]) -> RtpTuple {
    let mut clients = udp_clients::parse(entry, 1).expect("a good entry");
    let parsed = addresses
        .iter()
        .map(|address| address.parse().expect("an address"));
    RtpTuple {
        client: clients.remove(0),
        transport: Transport::Rtp(None),
        addresses: parsed.collect(),
    }
}

/// Returns a client whose host is an address.
fn literal(entry: &str) -> RtpTuple {
    rtp(entry, &[entry])
}

fn listed<'a>(tuples: impl Iterator<Item = &'a Tuple>) -> Vec<String> {
    tuples
        .map(|tuple| serde_json::to_string(tuple).expect("JSON"))
        .collect()
}

fn may_publish(tokens: &Tokens, name: &SessionId) -> bool {
    tokens.publish(name, tokens.time()).is_ok()
}

fn may_watch(tokens: &Tokens, name: &SessionId) -> bool {
    tokens.watch(name, tokens.time()).is_ok()
}

fn at(unix_seconds: u64) -> UnixTime {
    UnixTime { unix_seconds }
}

fn grant(direction: Direction, terms: Terms) -> Option<Grant> {
    Some(Grant { direction, terms })
}

fn until(seconds: u64) -> Terms {
    Terms {
        expires: Some(at(seconds)),
        ..Terms::default()
    }
}

fn key_to(name: &str) -> Terms {
    Terms {
        opens: Some(session(name)),
        ..Terms::default()
    }
}

fn found(tokens: &Tokens, address: &str) -> Vec<String> {
    let address = address.parse().expect("an address");
    let sessions = tokens.sessions_from(address);
    sessions
        .map(|(session, _)| session.as_str().to_owned())
        .collect()
}

#[test]
fn tuples_are_listed_in_the_order_of_addition() {
    let (a, b) = (session("a"), session("b"));
    let mut tokens = Tokens::new(LIMITS);
    let name = rtp("Player.example.:7", &["192.0.2.7:7"]);
    assert_eq!(tokens.add(&a, None, vec![name]), Ok(1));
    assert_eq!(
        tokens.add(&b, Some(Direction::Both.into()), vec![literal("[::1]:5")]),
        Ok(2)
    );
    assert_eq!(
        tokens.add(
            &a,
            Some(Direction::Both.into()),
            vec![literal("192.0.2.1:5")]
        ),
        Ok(2)
    );
    tokens.check();
    let all = listed(tokens.after(0));
    assert_eq!(
        all,
        [
            r#"{"sessionid":"a","host":"Player.example.","port":7}"#,
            r#"{"sessionid":"b","host":null,"port":null}"#,
            r#"{"sessionid":"b","host":"::1","port":5}"#,
            r#"{"sessionid":"a","host":null,"port":null}"#,
            r#"{"sessionid":"a","host":"192.0.2.1","port":5}"#,
        ]
    );
    assert_eq!(listed(tokens.of(&a)), [&*all[0], &*all[3], &*all[4]]);
    assert_eq!(listed(tokens.of(&session("c"))), [""; 0]);
    let second = tokens.after(0).nth(1).expect("five tuples").serial;
    assert_eq!(listed(tokens.after(second)), all[2..]);
    assert_eq!(tokens.udp_destinations(&a).count(), 2);
}

#[test]
fn existing_clients_are_not_new() {
    let a = session("a");
    let mut tokens = Tokens::new(LIMITS);
    let clients = || {
        vec![
            literal("192.0.2.1:5"),
            rtp("[::ffff:192.0.2.1]:5", &["192.0.2.1:5"]),
        ]
    };
    assert_eq!(
        tokens.add(&a, Some(Direction::Both.into()), clients()),
        Ok(2)
    );
    assert_eq!(
        tokens.add(&a, Some(Direction::Both.into()), clients()),
        Ok(0)
    );
    assert_eq!(tokens.len(), 2);
    tokens.check();
}

#[test]
fn the_last_call_sets_the_direction_of_a_token() {
    let a = session("a");
    let mut tokens = Tokens::new(LIMITS);
    assert!(!may_publish(&tokens, &a) && !may_watch(&tokens, &a));
    assert_eq!(
        tokens.add(&a, Some(Direction::In.into()), vec![literal("192.0.2.1:5")]),
        Ok(2)
    );
    assert!(may_publish(&tokens, &a) && !may_watch(&tokens, &a));
    assert_eq!(
        tokens.add(&a, Some(Direction::Out.into()), Vec::new()),
        Ok(1)
    );
    assert!(!may_publish(&tokens, &a) && may_watch(&tokens, &a));
    assert_eq!(
        tokens.add(&a, Some(Direction::Both.into()), Vec::new()),
        Ok(1)
    );
    assert!(may_publish(&tokens, &a) && may_watch(&tokens, &a));
    assert_eq!(tokens.len(), 2);
    assert!(
        tokens
            .of(&a)
            .next()
            .is_some_and(|first| first.rtp().is_none())
    );
    tokens.check();
    assert_eq!(
        tokens.add(&session("b"), Some(Direction::Out.into()), Vec::new()),
        Ok(1)
    );
    assert!(!may_publish(&tokens, &session("b")) && may_watch(&tokens, &session("b")));
}

#[test]
fn udp_clients_alone_give_no_access_over_http() {
    let mut tokens = Tokens::new(LIMITS);
    assert_eq!(
        tokens.add(&session("a"), None, vec![literal("192.0.2.1:5")]),
        Ok(1)
    );
    assert!(!may_publish(&tokens, &session("a")) && !may_watch(&tokens, &session("a")));
}

#[test]
fn datagrams_find_their_sessions() {
    let (a, b) = (session("a"), session("b"));
    let mut tokens = Tokens::new(LIMITS);
    let name = rtp(
        "name:5",
        &["192.0.2.1:5", "[2001:db8::1]:5", "[::ffff:192.0.2.1]:5"],
    );
    let group = literal("239.0.0.1:5");
    assert_eq!(
        tokens.add(&b, None, vec![literal("192.0.2.1:5"), group]),
        Ok(2)
    );
    assert_eq!(tokens.add(&a, None, vec![name]), Ok(1));
    tokens.check();
    assert_eq!(found(&tokens, "192.0.2.1:5"), ["b", "a"]);
    assert_eq!(found(&tokens, "[::ffff:192.0.2.1]:5"), ["b", "a"]);
    assert_eq!(found(&tokens, "[2001:db8::1%3]:5"), ["a"]);
    assert_eq!(found(&tokens, "192.0.2.1:6"), [""; 0]);
    // For datagrams to that group.
    assert_eq!(found(&tokens, "239.0.0.1:5"), ["b"]);
    assert_eq!(tokens.revoke(&b).len(), 2);
    tokens.check();
    assert_eq!(found(&tokens, "192.0.2.1:5"), ["a"]);
}

#[test]
fn a_client_given_again_goes_by_its_new_addresses() {
    let a = session("a");
    let mut tokens = Tokens::new(LIMITS);
    assert_eq!(
        tokens.add(&a, None, vec![rtp("Name:5", &["192.0.2.1:5"])]),
        Ok(1)
    );
    assert_eq!(
        tokens.add(&a, None, vec![rtp("name.:5", &["192.0.2.2:5"])]),
        Ok(0)
    );
    tokens.check();
    assert_eq!(found(&tokens, "192.0.2.1:5"), [""; 0]);
    assert_eq!(found(&tokens, "192.0.2.2:5"), ["a"]);
    assert_eq!(
        listed(tokens.of(&a)),
        [r#"{"sessionid":"a","host":"Name","port":5}"#]
    );
}

#[test]
fn nothing_is_added_above_a_limit() {
    let limits = Limits {
        tokens_max: 4,
        udp_clients_per_session_max: 2,
    };
    let (a, b) = (session("a"), session("b"));
    let client = |port: u16| literal(&format!("192.0.2.1:{port}"));
    let clients = Full::UdpClients {
        udp_clients_per_session_max: 2,
    };
    let mut tokens = Tokens::new(limits);
    let three = vec![client(1), client(2), client(3)];
    assert_eq!(
        tokens.add(&a, Some(Direction::Both.into()), three),
        Err(clients)
    );
    assert!(tokens.is_empty());
    let both = vec![client(1), client(2)];
    assert_eq!(
        tokens.add(&a, Some(Direction::In.into()), both.clone()),
        Ok(3)
    );
    assert_eq!(tokens.add(&a, None, vec![client(3)]), Err(clients));
    let full = Full::Tokens { tokens_max: 4 };
    assert_eq!(
        tokens.add(&b, Some(Direction::Both.into()), vec![client(1)]),
        Err(full)
    );
    assert_eq!(tokens.len(), 3);
    assert_eq!(
        tokens.add(&b, Some(Direction::Both.into()), Vec::new()),
        Ok(1)
    );
    assert_eq!(tokens.add(&b, None, vec![client(1)]), Err(full));
    assert_eq!(
        tokens.add(&a, Some(Direction::Out.into()), both),
        Ok(1),
        "no new tuple is needed"
    );
    tokens.check();
    assert!(full.to_string().contains("--tokens"));
    assert!(clients.to_string().contains("--udp-clients"));
}

#[test]
fn revoking_returns_the_tuples() {
    let a = session("a");
    let mut tokens = Tokens::new(LIMITS);
    assert!(tokens.revoke(&a).is_empty());
    let clients = vec![literal("192.0.2.1:5"), literal("192.0.2.2:5")];
    assert_eq!(tokens.add(&a, Some(Direction::Both.into()), clients), Ok(3));
    let revoked = tokens.revoke(&a);
    let addresses: Vec<SocketAddr> = revoked
        .iter()
        .filter_map(|tuple| tuple.rtp())
        .flat_map(|rtp| rtp.addresses.clone())
        .collect();
    assert_eq!(revoked.len(), 3);
    assert_eq!(addresses.len(), 2);
    assert!(tokens.is_empty() && tokens.revoke(&a).is_empty());
    tokens.check();
}

/// Random numbers from a seed (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// The table as a plain list.
#[derive(Default)]
struct Model(Vec<ModelRow>);

/// A session, and the UDP client if the tuple has one.
type ModelRow = (String, Option<(String, Vec<SocketAddr>)>);

impl Model {
    fn found(&self, address: SocketAddr) -> Vec<String> {
        let has = |row: &&ModelRow| {
            row.1
                .as_ref()
                .is_some_and(|(_, addresses)| addresses.contains(&address))
        };
        self.0.iter().filter(has).map(|row| row.0.clone()).collect()
    }
}

fn random_client(numbers: &mut Numbers) -> RtpTuple {
    let address = |host: usize| format!("192.0.2.{host}:5");
    let (one, two) = (address(numbers.below(4)), address(numbers.below(4)));
    match numbers.below(3) {
        0 => literal(&one),
        1 => rtp(&format!("name{}:5", numbers.below(3)), &[&one]),
        _ => rtp(&format!("name{}:5", numbers.below(3)), &[&one, &two]),
    }
}

fn random_step(numbers: &mut Numbers, tokens: &mut Tokens, model: &mut Model) {
    let name = format!("s{}", numbers.below(12));
    if numbers.below(4) == 0 {
        tokens.set_time(at(tokens.time().unix_seconds + numbers.below(3) as u64));
    }
    if numbers.below(4) == 0 {
        let before = model.0.len();
        model.0.retain(|row| row.0 != name);
        assert_eq!(tokens.revoke(&session(&name)).len(), before - model.0.len());
        return;
    }
    let http = [
        None,
        Some(Direction::In.into()),
        Some(Direction::Out.into()),
        Some(Direction::Both.into()),
    ];
    let http = http[numbers.below(4)].clone().map(|known: Grant| Grant {
        terms: match numbers.below(3) {
            0 => until(tokens.time().unix_seconds + 1 + numbers.below(9) as u64),
            _ => Terms::default(),
        },
        ..known
    });
    let clients: Vec<RtpTuple> = (0..numbers.below(4))
        .map(|_| random_client(numbers))
        .collect();
    let (before, time) = (tokens.in_order.clone(), tokens.time());
    let added = tokens.add(&session(&name), http.clone(), clients.clone());
    for tuple in before
        .values()
        .filter(|tuple| !tokens.in_order.contains_key(&tuple.serial))
    {
        assert!(
            tuple.http().is_some_and(|grant| grant.is_over(time)),
            "forgotten, and not over"
        );
        model
            .0
            .retain(|row| *row != (tuple.session.as_str().to_owned(), None));
    }
    if added.is_err() {
        return;
    }
    // An expired tuple may have been removed to make room.
    let is_kept = tokens.grant(&session(&name)).is_some();
    if is_kept && !model.0.contains(&(name.clone(), None)) {
        model.0.push((name.clone(), None));
    }
    let mut given = HashSet::new();
    for RtpTuple {
        client, addresses, ..
    } in clients
    {
        let client = client.to_string();
        if !given.insert(client.clone()) {
            continue;
        }
        let same = |row: &&mut ModelRow| {
            row.0 == name && row.1.as_ref().is_some_and(|known| known.0 == client)
        };
        match model.0.iter_mut().find(same) {
            Some(row) => row.1 = Some((client, addresses)),
            None => model.0.push((name.clone(), Some((client, addresses)))),
        }
    }
}

#[test]
fn random_steps_keep_the_views_in_agreement() {
    for seed in 1..=20 {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let (mut tokens, mut model) = (Tokens::new(LIMITS), Model::default());
        for _ in 0..200 {
            random_step(&mut numbers, &mut tokens, &mut model);
            tokens.check();
            let rows: Vec<_> = tokens
                .after(0)
                .map(|tuple| {
                    (
                        tuple.session.as_str(),
                        tuple.rtp().map(|rtp| rtp.client.to_string()),
                    )
                })
                .collect();
            let expected = model
                .0
                .iter()
                .map(|(name, rtp)| (name.as_str(), rtp.as_ref().map(|rtp| rtp.0.clone())));
            assert!(rows.iter().cloned().eq(expected), "seed {seed}");
            for host in 0..4 {
                let address: SocketAddr = format!("192.0.2.{host}:5").parse().expect("an address");
                assert_eq!(
                    found(&tokens, &address.to_string()),
                    model.found(address),
                    "seed {seed}"
                );
            }
        }
    }
}

#[test]
fn addresses_that_do_not_pass_are_removed_and_their_clients_stay() {
    let a = session("a");
    let mut tokens = Tokens::new(LIMITS);
    let clients = vec![
        literal("192.0.2.1:5"),
        rtp("player.example:7", &["192.0.2.7:7", "198.51.100.7:7"]),
        literal("198.51.100.1:5"),
    ];
    tokens
        .add(&a, Some(Direction::Both.into()), clients)
        .expect("there is room");
    let before = listed(tokens.after(0));
    let passes = |address: SocketAddr, _| address.to_string().starts_with("198.");
    assert_eq!(tokens.retain_addresses(passes), 1);
    tokens.check();
    assert_eq!(listed(tokens.after(0)), before);
    assert!(found(&tokens, "192.0.2.1:5").is_empty());
    assert!(found(&tokens, "192.0.2.7:7").is_empty());
    assert_eq!(found(&tokens, "198.51.100.7:7"), ["a"]);
    assert_eq!(found(&tokens, "198.51.100.1:5"), ["a"]);
    assert_eq!(tokens.revoke(&a).len(), 4);
    tokens.check();
}

#[test]
fn a_table_takes_only_limits_that_it_keeps() {
    let filled = || {
        let mut tokens = Tokens::new(Limits::NONE);
        let clients = vec![literal("192.0.2.1:5"), literal("192.0.2.2:5")];
        tokens
            .add(&session("a"), Some(Direction::In.into()), clients)
            .expect("there is room");
        tokens
    };
    let limits = |tokens_max, udp_clients_per_session_max| Limits {
        tokens_max,
        udp_clients_per_session_max,
    };
    let full = |limits| filled().with_limits(limits).map(|_| ());
    assert_eq!(full(limits(2, 2)), Err(Full::Tokens { tokens_max: 2 }));
    let few = Full::UdpClients {
        udp_clients_per_session_max: 1,
    };
    assert_eq!(full(limits(3, 1)), Err(few));
    let mut tokens = filled().with_limits(limits(3, 2)).expect("it fits");
    let one_more = tokens.add(&session("b"), Some(Direction::In.into()), Vec::new());
    assert_eq!(one_more, Err(Full::Tokens { tokens_max: 3 }));
    tokens.check();
}

#[test]
fn a_key_opens_its_session_by_its_own_rights_and_is_revoked_by_itself() {
    let (show, watch, send) = (session("show"), session("watch-key"), session("send-key"));
    let mut tokens = Tokens::new(LIMITS);
    let added = tokens.add(&watch, grant(Direction::Out, key_to("show")), Vec::new());
    assert_eq!(added, Ok(1));
    let added = tokens.add(&send, grant(Direction::In, key_to("show")), Vec::new());
    assert_eq!(added, Ok(1));
    assert_eq!(tokens.opened_by(&watch), &show);
    assert_eq!(tokens.opened_by(&send), &show);
    assert_eq!(tokens.opened_by(&show), &show);
    assert_eq!(tokens.publish(&watch, at(0)), Err(Denied::Direction));
    assert_eq!(tokens.watch(&watch, at(0)), Ok(()));
    assert_eq!(tokens.publish(&send, at(0)), Ok(()));
    assert_eq!(tokens.watch(&send, at(0)), Err(Denied::Direction));
    assert_eq!(
        tokens.watch(&show, at(0)),
        Err(Denied::NoToken),
        "it is no key itself"
    );
    assert_eq!(tokens.revoke(&watch).len(), 1);
    assert_eq!(tokens.watch(&watch, at(0)), Err(Denied::NoToken));
    assert_eq!(tokens.publish(&send, at(0)), Ok(()));
    tokens.check();
}

#[test]
fn a_name_is_either_a_session_or_a_key() {
    let (show, key, own) = (session("show"), session("key"), session("own"));
    let mut tokens = Tokens::new(LIMITS);
    let to_show = grant(Direction::Out, key_to("show"));
    let plain = grant(Direction::Both, Terms::default());
    tokens.add(&key, to_show.clone(), Vec::new()).expect("room");
    tokens.add(&own, plain.clone(), Vec::new()).expect("room");
    let check = |name: &SessionId, http: &Option<Grant>, has_rtp| {
        let http = http.clone().map(GrantChange::from);
        tokens.check_key(name, http.as_ref(), has_rtp)
    };
    let to = |name| grant(Direction::Out, key_to(name));
    for (name, http, has_rtp, fault) in [
        (&key, &to_show, false, ""),
        (&show, &plain, true, ""),
        (&own, &plain, true, ""),
        (
            &show,
            &to_show,
            false,
            "for: a sessionid is no key to itself",
        ),
        (&own, &to_show, false, "sessionid: it has tokens of its own"),
        (&key, &plain, false, "sessionid: it is a key to another"),
        (&key, &None, true, "sessionid: it is a key, and"),
        (
            &session("new"),
            &to_show,
            true,
            "sessionid: it is a key, and",
        ),
        (&session("new"), &to("key"), false, "for: that is a key"),
        (
            &key,
            &to("elsewhere"),
            false,
            "sessionid: it is a key to another",
        ),
        // A key makes its target a session.
        (
            &show,
            &to("own"),
            false,
            "sessionid: it has tokens of its own",
        ),
    ] {
        let printed = check(name, http, has_rtp).err().unwrap_or_default();
        assert!(printed.starts_with(fault), "{fault}: {printed}");
        assert_eq!(printed.is_empty(), fault.is_empty(), "{printed}");
    }
}

#[test]
fn an_expired_token_stays_expired_until_it_is_added_again() {
    let a = session("a");
    let mut tokens = Tokens::new(LIMITS);
    let both = |seconds| grant(Direction::Both, until(seconds));
    assert_eq!(tokens.add(&a, both(10), Vec::new()), Ok(1));
    assert_eq!(tokens.watch(&a, at(9)), Ok(()));
    for second in [10, 11, 1_000_000] {
        assert_eq!(tokens.watch(&a, at(second)), Err(Denied::Over));
        assert_eq!(tokens.publish(&a, at(second)), Err(Denied::Over));
    }
    assert_eq!(tokens.next_expiry(at(9)), Some(at(10)));
    assert_eq!(tokens.next_expiry(at(10)), None);
    let shut = |since, now| tokens.expired_since(at(since), at(now)).count();
    assert_eq!(
        (shut(9, 10), shut(10, 10), shut(5, 9), shut(0, 99)),
        (1, 0, 0, 1)
    );
    tokens.set_time(at(50));
    tokens.set_time(at(20));
    assert_eq!(tokens.time(), at(50), "it never goes back");
    assert_eq!(tokens.watch(&a, at(50)), Err(Denied::Over));
    assert_eq!(tokens.add(&a, both(60), Vec::new()), Ok(1));
    assert_eq!(tokens.watch(&a, at(50)), Ok(()));
    tokens.check();
}

/// Keys up to the limit, repeatedly: expired keys make room, and valid ones never do.
#[test]
fn expired_tokens_make_room_for_valid_ones() {
    let limits = Limits {
        tokens_max: 4,
        udp_clients_per_session_max: 2,
    };
    let mut tokens = Tokens::new(limits);
    let named = |number: u64| session(&format!("key{number}"));
    for number in 0..100 {
        tokens.set_time(at(number));
        let added = tokens.add(
            &named(number),
            grant(Direction::Out, until(number + 4)),
            Vec::new(),
        );
        assert_eq!(added, Ok(1));
        let one_more = grant(Direction::Out, until(999));
        assert_eq!(
            tried(&mut tokens, "x", one_more, Vec::new()).is_err(),
            number >= 3,
            "{number}"
        );
        tokens.check();
    }
    for number in 96..100 {
        assert_eq!(tokens.watch(&named(number), at(99)), Ok(()));
    }
    // All keys have expired. One is renewed, and the others make room for three more, and no
    // further ones.
    tokens.set_time(at(103));
    let clients = vec![literal("192.0.2.1:5"), literal("192.0.2.2:5")];
    let both = grant(Direction::Both, Terms::default());
    let renewed = tokens.add(&named(97), grant(Direction::Out, until(200)), Vec::new());
    assert_eq!(renewed, Ok(1), "its own place");
    assert_eq!(tokens.add(&session("b"), both.clone(), clients), Ok(3));
    let one_more = tokens.add(&session("c"), both, Vec::new());
    assert_eq!(one_more, Err(Full::Tokens { tokens_max: 4 }));
    tokens.check();
    assert_eq!(tokens.watch(&named(97), at(103)), Ok(()));
    assert_eq!(tokens.len(), 4);
}

#[test]
fn a_table_that_is_empty_again_holds_nothing() {
    let mut tokens = Tokens::new(LIMITS);
    let empty = tokens.memory_bytes();
    let key = || grant(Direction::Out, key_to("show"));
    for name in ["a", "b", "c"] {
        let added = tokens.add(&session(name), key(), vec![literal("192.0.2.1:5")]);
        assert!(added.is_ok());
    }
    for name in ["a", "b", "c"] {
        assert!(tokens.memory_bytes() > empty);
        assert_eq!(tokens.revoke(&session(name)).len(), 2);
        tokens.check();
    }
    assert_eq!(tokens.memory_bytes(), empty);
}

/// When few of many sessions are left, the table is small again.
#[test]
fn a_table_shrinks_when_few_tuples_are_left() {
    let limits = Limits {
        tokens_max: 1000,
        ..LIMITS
    };
    let mut tokens = Tokens::new(limits);
    let names: Vec<_> = (0..500).map(|n| session(&n.to_string())).collect();
    let key = || grant(Direction::Out, key_to("show"));
    let clients = |n: usize| vec![literal(&format!("192.0.2.1:{}", 5000 + n))];
    let mut held = Vec::new();
    for (n, name) in names.iter().enumerate() {
        assert!(tokens.add(name, key(), clients(n)).is_ok());
        held.push(tokens.memory_bytes());
    }
    for (n, name) in names.iter().enumerate().rev() {
        // Twice the memory of this number for tuples, and four times for tables, of which half was
        // free before.
        assert!(tokens.memory_bytes() <= 4 * held[n], "{n}");
        tokens.revoke(name);
        tokens.check();
    }
}

#[test]
fn details_show_all_terms_of_a_token() {
    let mut tokens = Tokens::new(LIMITS);
    let terms = Terms {
        ends: Some(at(20)),
        viewers_max: Some(3),
        bits_per_second_max: Some(8_000_000),
        note: crate::gate::Note::parse("desk \"3\""),
        ..key_to("show")
    };
    let before = tokens.memory_bytes();
    tokens
        .add(&session("key"), grant(Direction::Out, terms), Vec::new())
        .expect("room");
    tokens
        .add(&session("show"), None, vec![literal("192.0.2.1:5")])
        .expect("room");
    assert!(tokens.memory_bytes() > before + "keyshowdesk3".len());
    tokens.check();
    let detailed: Vec<_> = tokens
        .after(0)
        .map(|tuple| serde_json::to_string(&crate::gate::Detailed(tuple)).expect("JSON"))
        .collect();
    assert_eq!(
        detailed,
        [
            "{\"sessionid\":\"key\",\"host\":null,\"port\":null,\"session\":\"0b925af5\",\
             \"direction\":\"out\",\"for\":\"show\",\"expires\":null,\"ends\":20,\
             \"max_viewers\":3,\"max_bitrate\":8000000,\"note\":\"desk \\\"3\\\"\"}",
            "{\"sessionid\":\"show\",\"host\":\"192.0.2.1\",\"port\":5,\"session\":\"a4527aa4\",\
             \"direction\":null,\"for\":null,\"expires\":null,\"ends\":null,\
             \"max_viewers\":null,\"max_bitrate\":null,\"note\":null}",
        ]
    );
    assert_eq!(
        listed(tokens.after(0))[0],
        r#"{"sessionid":"key","host":null,"port":null}"#
    );
}

/// Returns what an addition would do: changes, tuples and new tuples.
fn tried(
    tokens: &mut Tokens,
    name: &str,
    http: Option<Grant>,
    clients: Vec<RtpTuple>,
) -> Result<(usize, usize, usize), Full> {
    let (before, time) = (shown(tokens), tokens.time());
    tokens.begin_trial();
    let http = http.map(GrantChange::from);
    let added = tokens.try_add(&session(name), http, clients, time);
    tokens.check_views();
    tokens.end_trial();
    tokens.check();
    assert_eq!(shown(tokens), before, "nothing of a trial stays");
    let Addition { records, new } = added?;
    let tuples = records.iter().map(Record::tuples).sum();
    Ok((records.len(), tuples, new))
}

/// Returns all tuples and the next serial.
fn shown(tokens: &Tokens) -> (Vec<Tuple>, u64) {
    (tokens.after(0).cloned().collect(), tokens.serial_next)
}

#[test]
fn an_addition_without_a_change_is_empty() {
    let mut tokens = Tokens::new(LIMITS);
    let name = || rtp("Name:5", &["192.0.2.1:5"]);
    let both = || Some(Direction::Both.into());
    let clients = vec![name(), literal("192.0.2.2:5")];
    tokens
        .add(&session("a"), both(), clients)
        .expect("there is room");
    let mut plan = |http, clients| tried(&mut tokens, "a", http, clients);
    assert_eq!(
        plan(both(), vec![name(), literal("192.0.2.2:5")]),
        Ok((0, 0, 0))
    );
    assert_eq!(plan(None, Vec::new()), Ok((0, 0, 0)));
    assert_eq!(
        plan(None, vec![rtp("name.:5", &["192.0.2.1:5"])]),
        Ok((0, 0, 0))
    );
    assert_eq!(
        plan(None, vec![rtp("Name:5", &["192.0.2.3:5"])]),
        Ok((1, 1, 0))
    );
    assert_eq!(
        plan(grant(Direction::In, until(9)), Vec::new()),
        Ok((1, 1, 1))
    );
    let new = vec![
        literal("192.0.2.4:5"),
        literal("192.0.2.4:6"),
        literal("192.0.2.4:5"),
    ];
    assert_eq!(plan(None, new), Ok((1, 2, 2)));
}

#[test]
fn a_full_table_takes_changes_that_add_no_tuple() {
    let limits = Limits {
        tokens_max: 2,
        udp_clients_per_session_max: 2,
    };
    let mut tokens = Tokens::new(limits);
    let client = || vec![literal("192.0.2.1:5")];
    tokens
        .add(&session("a"), Some(Direction::In.into()), client())
        .expect("there is room");
    let out = || Some(Direction::Out.into());
    assert_eq!(tried(&mut tokens, "a", out(), client()), Ok((1, 1, 1)));
    let one_more = tried(&mut tokens, "a", None, vec![literal("192.0.2.2:5")]);
    assert_eq!(one_more, Err(Full::Tokens { tokens_max: 2 }));
}

/// Terms that a call leaves out stay, unless the token has expired.
#[test]
fn an_added_token_keeps_nothing_of_an_expired_one() {
    let terms = Terms {
        viewers_max: Some(3),
        note: crate::gate::Note::parse("desk 3"),
        ..until(10)
    };
    let silent = |terms| GrantChange {
        direction: None,
        terms,
    };
    let out = GrantChange {
        direction: Some(Direction::Out),
        terms: Terms::default(),
    };
    let later = until(99);
    for (now, change, direction, expected) in [
        (9, out.clone(), Direction::Out, terms.clone()),
        (10, out, Direction::Out, Terms::default()),
        (9, silent(Terms::default()), Direction::In, terms.clone()),
        (
            10,
            silent(Terms::default()),
            Direction::Both,
            Terms::default(),
        ),
        (
            9,
            silent(later.clone()),
            Direction::In,
            Terms {
                expires: Some(at(99)),
                ..terms.clone()
            },
        ),
        (10, silent(later.clone()), Direction::Both, later),
    ] {
        let mut tokens = Tokens::new(LIMITS);
        tokens
            .add(
                &session("a"),
                grant(Direction::In, terms.clone()),
                Vec::new(),
            )
            .expect("there is room");
        tokens.begin_trial();
        let added = tokens.try_add(&session("a"), Some(change), Vec::new(), at(now));
        added.expect("there is room");
        let expected = Grant {
            direction,
            terms: expected,
        };
        assert_eq!(tokens.grant(&session("a")), Some(&expected), "{now}");
    }
}

#[test]
fn a_session_has_few_different_matrices() {
    let with = |port: usize, transport: &str| RtpTuple {
        transport: Transport::parse(transport).expect("a good one"),
        ..literal(&format!("192.0.2.1:{port}"))
    };
    let matrices = ["4x4", "5x5", "6x6", "7x7", "8x8", "9x9"];
    let clients = |count: usize| -> Vec<RtpTuple> {
        let first = matrices.iter().take(count).enumerate();
        first
            .map(|(port, matrix)| with(10 + 10 * port, matrix))
            .collect()
    };
    let a = session("a");
    let mut tokens = Tokens::new(LIMITS);
    for count in [5, 6] {
        assert_eq!(tokens.add(&a, None, clients(count)), Err(Full::Matrices));
    }
    assert_eq!(
        tokens.add(&a, None, clients(MATRICES_MAX)),
        Ok(MATRICES_MAX)
    );
    assert_eq!(
        tokens.add(&a, None, vec![with(70, "8x8")]),
        Err(Full::Matrices)
    );
    // In the place of a matrix that is removed.
    assert_eq!(tokens.add(&a, None, vec![with(10, "8x8")]), Ok(0));
    assert_eq!(
        tokens.add(&a, None, vec![with(70, "4x4")]),
        Err(Full::Matrices)
    );
    assert_eq!(tokens.add(&a, None, vec![with(70, "rtp")]), Ok(1));
    assert_eq!(tokens.add(&a, None, vec![with(80, "5x5")]), Ok(1));
    tokens.check();
}

/// Tokens that expired first make room first. Tokens that limit keys go last, and only for keys of
/// their own session.
#[test]
fn limits_of_keys_make_room_last() {
    let filled = || {
        let mut tokens = Tokens::new(Limits::NONE);
        for (name, terms) in [
            (
                "show",
                Terms {
                    viewers_max: Some(3),
                    ..until(5)
                },
            ),
            (
                "other",
                Terms {
                    viewers_max: Some(3),
                    ..until(7)
                },
            ),
            ("late", until(9)),
            ("early", until(6)),
            ("key", key_to("show")),
            (
                "shut-key",
                Terms {
                    opens: Some(session("gone")),
                    ..until(8)
                },
            ),
        ] {
            tokens
                .add(&session(name), grant(Direction::Both, terms), Vec::new())
                .expect("there is room");
        }
        tokens.set_time(at(10));
        tokens
    };
    let limits = |tokens_max| Limits {
        tokens_max,
        ..Limits::NONE
    };
    let in_order = ["early", "other", "shut-key", "late", "show"];
    for gone in 0..in_order.len() {
        let kept = filled().with_limits(limits(6 - gone));
        let kept = kept.expect("the others are over");
        kept.check();
        for (place, name) in in_order.iter().enumerate() {
            let is_kept = kept.grant(&session(name)).is_some();
            assert_eq!(is_kept, place >= gone, "{name}");
        }
        assert_eq!(kept.len(), 6 - gone);
        assert!(!kept.is_empty());
    }
    let fits = filled().with_limits(limits(1)).is_ok();
    assert!(!fits, "the key is not over, and `show` limits it");
    // Tokens of other sessions have as much room as without them.
    let mut tokens = filled()
        .with_limits(limits(2))
        .expect("the others are over");
    let another = tokens.add(&session("x"), Some(Direction::In.into()), Vec::new());
    assert_eq!(another, Err(Full::Tokens { tokens_max: 2 }));
}

/// An expired token that limits UDP sources makes no room either.
#[test]
fn limits_of_udp_sources_make_room_last() {
    let mut tokens = Tokens::new(Limits::NONE);
    for (name, rate) in [("slow", Some(64_000)), ("plain", None)] {
        let terms = Terms {
            bits_per_second_max: rate,
            ..until(5)
        };
        let http = grant(Direction::Both, terms);
        let added = tokens.add(&session(name), http, vec![literal("192.0.2.1:70")]);
        assert_eq!(added, Ok(2));
    }
    tokens.set_time(at(10));
    let limits = Limits {
        tokens_max: 3,
        ..Limits::NONE
    };
    let kept = tokens.with_limits(limits).expect("one of them is over");
    kept.check();
    assert!(kept.grant(&session("slow")).is_some());
    assert!(kept.grant(&session("plain")).is_none());
}

/// A tuple counts with its texts, with two counters for shared ones, and with four places in each
/// list.
#[test]
fn memory_of_a_tuple_is_counted() {
    let shared = |text: &str| 2 * size_of::<usize>() + text.len();
    let list = 4 * size_of::<Rc<Tuple>>();
    let tuple = size_of::<Tuple>() + 2 * size_of::<usize>() + shared("demo");
    let note = Terms {
        note: crate::gate::Note::parse("desk 3"),
        ..Terms::default()
    };
    let both = Terms {
        note: note.note.clone(),
        ..key_to("show")
    };
    let http = |terms| (grant(Direction::Out, terms), Vec::new());
    let udp = |client| (None, vec![client]);
    let addresses = ["192.0.2.1:5", "192.0.2.2:5", "[2001:db8::1]:5"];
    for ((http, rtp), fields, lists) in [
        (http(Terms::default()), 0, 0),
        (http(until(9)), 0, 0),
        (http(note), "desk 3".len(), 0),
        (http(key_to("show")), shared("show"), 0),
        (http(both), shared("show") + "desk 3".len(), 0),
        (udp(rtp("p.example:5", &[])), "p.example".len(), 1),
        (
            udp(literal("192.0.2.1:5")),
            "192.0.2.1".len() + size_of::<SocketAddr>(),
            2,
        ),
        (
            udp(rtp("p.example:5", &addresses)),
            "p.example".len() + 3 * size_of::<SocketAddr>(),
            4,
        ),
    ] {
        let record = Record::Set {
            session: session("demo"),
            http: http.clone(),
            rtp: rtp.clone(),
        };
        let clients = rtp.len() * size_of::<RtpTuple>();
        assert_eq!(record.memory_bytes(), shared("demo") + fields + clients);
        let mut tokens = Tokens::new(LIMITS);
        tokens
            .add(&session("demo"), http, rtp)
            .expect("there is room");
        let counted: Vec<usize> = tokens.after(0).map(Tuple::memory_bytes).collect();
        assert_eq!(counted, [tuple + fields + lists * list], "{record:?}");
    }
    let revoke = Record::Revoke {
        session: session("demo"),
    };
    assert_eq!(revoke.memory_bytes(), shared("demo"));
}

/// All entries of the views count, at most a few times.
#[test]
fn memory_of_the_views_is_counted() {
    // About half of a hash map's capacity: a fuller one may grow when a tried entry is removed.
    const SESSIONS: usize = 60;
    let filled = |terms: &dyn Fn(usize) -> Terms, has_client: bool| {
        let mut tokens = Tokens::new(Limits::NONE);
        for number in 0..SESSIONS {
            let name = session(&format!("{number:03}"));
            let http = grant(Direction::Out, terms(number));
            let client = literal(&format!("192.0.2.{number}:5"));
            let clients = has_client.then_some(client).into_iter().collect();
            tokens.add(&name, http, clients).expect("there is room");
        }
        let tuples: usize = tokens.after(0).map(Tuple::memory_bytes).sum();
        tokens.memory_bytes() - tuples
    };
    let assert_counts = |more: usize, of: usize, what: &str| {
        let least = SESSIONS * of;
        assert!(
            (least..=9 * least).contains(&more),
            "{what}: {more} of {least}"
        );
    };
    let order = size_of::<(u64, Rc<Tuple>)>();
    let plain = filled(&|_| Terms::default(), false);
    let entry = size_of::<(SessionId, Session)>() + order;
    assert_counts(plain, entry, "sessions, and the order");
    let shut = filled(&|_| until(9), false) - plain;
    assert_counts(
        shut,
        size_of::<(UnixTime, u64)>(),
        "the order in which they are over",
    );
    let keys = filled(&|number| key_to(&format!("show{number}")), false) - plain;
    assert_counts(keys, size_of::<(SessionId, usize)>(), "keys");
    let clients = filled(&|_| Terms::default(), true) - plain;
    let entry = size_of::<(SocketAddr, Vec<Rc<Tuple>>)>() + order;
    assert_counts(clients, entry, "clients by address, and in the order");
    assert_eq!(Tokens::new(LIMITS).memory_bytes(), 0);
}

/// A list of destinations counts while it is cached.
#[test]
fn lists_of_destinations_are_counted() {
    let a = session("a");
    let mut tokens = Tokens::new(LIMITS);
    let clients = vec![literal("192.0.2.1:5"), literal("192.0.2.2:5")];
    tokens
        .add(&a, grant(Direction::Out, until(9)), clients)
        .expect("there is room");
    let before = tokens.memory_bytes();
    let list = tokens.destinations(&a, |_, _| true);
    assert_eq!(list.len(), 2);
    let bytes = 2 * size_of::<Destination>() + 2 * size_of::<usize>();
    assert_eq!(tokens.memory_bytes(), before + bytes);
    tokens.destinations(&a, |_, _| true);
    assert_eq!(tokens.memory_bytes(), before + bytes, "it is kept once");
    tokens.retain_addresses(|address, _| address.ip().to_string() != "192.0.2.1");
    tokens.check();
    // A session without clients has an empty list, which is removed with it.
    let b = session("b");
    tokens
        .add(&b, grant(Direction::Out, until(9)), Vec::new())
        .expect("there is room");
    assert_eq!(tokens.destinations(&b, |_, _| true).len(), 0);
    tokens.check();
    tokens.set_time(at(9));
    let few = Limits {
        tokens_max: 2,
        ..Limits::NONE
    };
    let tokens = tokens.with_limits(few).expect("both are over");
    tokens.check();
    assert_eq!(tokens.len(), 2);
}
