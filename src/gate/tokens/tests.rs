//! The table from outside, then against a plain list under random steps.

use super::*;
use crate::gate::udp_clients;

const LIMITS: Limits = Limits {
    tokens_max: 40,
    udp_clients_per_session_max: 6,
};

fn session(name: &str) -> SessionId {
    SessionId::parse(name.as_bytes()).expect("a good sessionid")
}

fn rtp(entry: &str, addresses: &[&str]) -> RtpTuple {
    let mut clients = udp_clients::parse(entry, 1).expect("a good entry");
    let parsed = addresses
        .iter()
        .map(|address| address.parse().expect("an address"));
    RtpTuple {
        client: clients.remove(0),
        carriage: Carriage::Rtp(None),
        addresses: parsed.collect(),
    }
}

/// A client whose host is the address itself.
fn literal(entry: &str) -> RtpTuple {
    rtp(entry, &[entry])
}

fn listed<'a>(tuples: impl Iterator<Item = &'a Tuple>) -> Vec<String> {
    tuples
        .map(|tuple| serde_json::to_string(tuple).expect("JSON"))
        .collect()
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
        tokens.add(&b, Some(Direction::Both), vec![literal("[::1]:5")]),
        Ok(2)
    );
    assert_eq!(
        tokens.add(&a, Some(Direction::Both), vec![literal("192.0.2.1:5")]),
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
    let second = tokens.after(0).nth(1).expect("five tuples").serial();
    assert_eq!(listed(tokens.after(second)), all[2..]);
    assert_eq!(tokens.udp_destinations(&a).count(), 2);
}

#[test]
fn what_is_there_already_is_not_new() {
    let a = session("a");
    let mut tokens = Tokens::new(LIMITS);
    let clients = || {
        vec![
            literal("192.0.2.1:5"),
            rtp("[::ffff:192.0.2.1]:5", &["192.0.2.1:5"]),
        ]
    };
    assert_eq!(tokens.add(&a, Some(Direction::Both), clients()), Ok(2));
    assert_eq!(tokens.add(&a, Some(Direction::Both), clients()), Ok(0));
    assert_eq!(tokens.add(&a, Some(Direction::In), Vec::new()), Ok(0));
    assert_eq!(tokens.len(), 2);
    tokens.check();
}

#[test]
fn directions_widen() {
    let a = session("a");
    let mut tokens = Tokens::new(LIMITS);
    assert!(!tokens.may_publish(&a) && !tokens.may_watch(&a));
    assert_eq!(
        tokens.add(&a, Some(Direction::In), vec![literal("192.0.2.1:5")]),
        Ok(2)
    );
    assert!(tokens.may_publish(&a) && !tokens.may_watch(&a));
    assert_eq!(tokens.add(&a, Some(Direction::Out), Vec::new()), Ok(1));
    assert!(tokens.may_publish(&a) && tokens.may_watch(&a));
    assert_eq!(tokens.len(), 2);
    assert!(
        tokens
            .of(&a)
            .next()
            .is_some_and(|first| first.rtp().is_none())
    );
    tokens.check();
    assert_eq!(
        tokens.add(&session("b"), Some(Direction::Out), Vec::new()),
        Ok(1)
    );
    assert!(!tokens.may_publish(&session("b")) && tokens.may_watch(&session("b")));
}

#[test]
fn udp_clients_alone_open_nothing_over_http() {
    let mut tokens = Tokens::new(LIMITS);
    assert_eq!(
        tokens.add(&session("a"), None, vec![literal("192.0.2.1:5")]),
        Ok(1)
    );
    assert!(!tokens.may_publish(&session("a")) && !tokens.may_watch(&session("a")));
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
    // Of what is sent to that group.
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
fn past_a_limit_nothing_is_added() {
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
    assert_eq!(tokens.add(&a, Some(Direction::Both), three), Err(clients));
    assert!(tokens.is_empty());
    let both = vec![client(1), client(2)];
    assert_eq!(tokens.add(&a, Some(Direction::In), both.clone()), Ok(3));
    assert_eq!(tokens.add(&a, None, vec![client(3)]), Err(clients));
    let full = Full::Tokens { tokens_max: 4 };
    assert_eq!(
        tokens.add(&b, Some(Direction::Both), vec![client(1)]),
        Err(full)
    );
    assert_eq!(tokens.len(), 3);
    assert_eq!(tokens.add(&b, Some(Direction::Both), Vec::new()), Ok(1));
    assert_eq!(tokens.add(&b, None, vec![client(1)]), Err(full));
    assert_eq!(
        tokens.add(&a, Some(Direction::Out), both),
        Ok(1),
        "no new tuple is needed"
    );
    tokens.check();
    assert!(full.to_string().contains("--tokens"));
    assert!(clients.to_string().contains("--udp-clients"));
}

#[test]
fn revoking_gives_the_tuples_back() {
    let a = session("a");
    let mut tokens = Tokens::new(LIMITS);
    assert!(tokens.revoke(&a).is_empty());
    let clients = vec![literal("192.0.2.1:5"), literal("192.0.2.2:5")];
    assert_eq!(tokens.add(&a, Some(Direction::Both), clients), Ok(3));
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

/// A generator of numbers that a seed decides (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// The same table, kept as a plain list.
#[derive(Default)]
struct Model(Vec<ModelRow>);

/// A session, and the UDP client if the tuple is about one.
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
        let before = model.0.len();
        model.0.retain(|row| row.0 != name);
        assert_eq!(tokens.revoke(&session(&name)).len(), before - model.0.len());
        return;
    }
    let http = [
        None,
        Some(Direction::In),
        Some(Direction::Out),
        Some(Direction::Both),
    ];
    let http = http[numbers.below(4)];
    let clients: Vec<RtpTuple> = (0..numbers.below(4))
        .map(|_| random_client(numbers))
        .collect();
    if tokens.add(&session(&name), http, clients.clone()).is_err() {
        return;
    }
    if http.is_some() && !model.0.contains(&(name.clone(), None)) {
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
                        tuple.session().as_str(),
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
fn addresses_that_do_not_pass_count_no_more_and_their_clients_stay() {
    let a = session("a");
    let mut tokens = Tokens::new(LIMITS);
    let clients = vec![
        literal("192.0.2.1:5"),
        rtp("player.example:7", &["192.0.2.7:7", "198.51.100.7:7"]),
        literal("198.51.100.1:5"),
    ];
    tokens
        .add(&a, Some(Direction::Both), clients)
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
fn a_table_takes_limits_that_it_keeps_to() {
    let filled = || {
        let mut tokens = Tokens::new(Limits::NONE);
        let clients = vec![literal("192.0.2.1:5"), literal("192.0.2.2:5")];
        tokens
            .add(&session("a"), Some(Direction::In), clients)
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
    let one_more = tokens.add(&session("b"), Some(Direction::In), Vec::new());
    assert_eq!(one_more, Err(Full::Tokens { tokens_max: 3 }));
    tokens.check();
}
