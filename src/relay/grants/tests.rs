use super::*;
use crate::gate::UdpClient;
use crate::gate::journal::{self, Replay};
use crate::gate::session as id;
use crate::gate::udp_clients;
use crate::random::Random;
use crate::relay::admission::EntryPoint;
use crate::relay::stage::Stage;
use crate::relay::stage::address as at;
use crate::relay::{Action, Done, Job, JobId};

const API: &str = "--token-server=10.0.0.0/8";

fn client(text: &str) -> UdpClient {
    let clients = udp_clients::parse(text, 1).expect("a UDP client");
    clients.into_iter().next().expect("one")
}

fn tuple(text: &str, transport: Transport) -> RtpTuple {
    let client = client(text);
    RtpTuple {
        addresses: client.address().into_iter().collect(),
        client,
        transport,
    }
}

fn http(opens: Option<&str>) -> Option<gate::Grant> {
    let terms = gate::Terms {
        opens: opens.map(id),
        ..gate::Terms::default()
    };
    let direction = gate::Direction::Both;
    Some(gate::Grant { direction, terms })
}

fn addition(name: &str, http: Option<gate::Grant>, rtp: Vec<RtpTuple>) -> Change {
    let (session, http) = (id(name), http.map(GrantChange::from));
    Change::Addition { session, http, rtp }
}

fn plain(name: &str) -> Change {
    addition(name, http(None), Vec::new())
}

/// The grants of a server, what they say and what they have the shell do.
struct Table {
    stage: Stage,
    caller: ReplyTo,
}

impl Table {
    fn new(options: &[&str]) -> Table {
        let mut stage = Stage::new(options);
        // Port 9 is the server's own at any address.
        stage.relay.set_rtp(SocketAddr::from(([0_u16; 8], 9)));
        stage.relay.set_own_addresses(|_| true);
        let caller = (stage.client(""), stage.relay.ctx.unread_reply());
        Table { stage, caller }
    }

    /// What is changed is written first.
    fn with_file(options: &[&str]) -> Table {
        let mut table = Table::new(options);
        let tokens = table.tokens();
        table.restore(tokens);
        table
    }

    fn tokens(&self) -> Tokens {
        Tokens::new(self.stage.relay.token_limits())
    }

    fn restore(&mut self, tokens: Tokens) {
        let relay = &mut self.stage.relay;
        relay.grants.restore(tokens, &mut relay.ctx);
    }

    fn grants(&mut self) -> &mut Grants {
        &mut self.stage.relay.grants
    }

    /// The status of a change, or 0 if it waits for the disk.
    fn change(&mut self, change: Change) -> u16 {
        let relay = &mut self.stage.relay;
        let done = relay.grants.change(self.caller, change, &mut relay.ctx);
        match done {
            Ok(Some((status, _))) => status.code(),
            Ok(None) => 0,
            Err(refusal) => refusal.status.code(),
        }
    }

    /// What is to be written, and the lines of the log.
    fn acts(&mut self) -> (Vec<(JobId, gate::Entry)>, Vec<String>) {
        let (mut writes, mut lines) = (Vec::new(), Vec::new());
        while let Some(action) = self.stage.relay.ctx.actions.pop_front() {
            match action {
                Action::Run(job_id, Job::Append(entry)) => writes.push((job_id, entry)),
                Action::Log(line) => lines.push(line),
                _ => {}
            }
        }
        (writes, lines)
    }

    /// The one write that is under way, and how many changes it has.
    #[track_caller]
    fn write(&mut self) -> (JobId, usize) {
        let (writes, _) = self.acts();
        let [(job_id, entry)] = writes.as_slice() else {
            panic!("one write: {writes:?}");
        };
        (*job_id, entry.records.len())
    }

    fn appended(&mut self, job_id: JobId, result: &Result<(), String>) {
        let relay = &mut self.stage.relay;
        relay.grants.appended(job_id, result, &mut relay.ctx);
    }

    /// What has been said, and the statuses of the answers among it.
    fn said(&mut self) -> (Vec<String>, Vec<u16>) {
        let (mut words, mut answers) = (Vec::new(), Vec::new());
        while let Some(event) = self.stage.relay.ctx.queue.pop_front() {
            match event {
                Event::TokensChanged(name) => words.push(format!("changed {}", name.as_str())),
                Event::TokensRemoved(tuples) => words.push(format!("removed {}", tuples.len())),
                Event::TermsChanged {
                    credential: name,
                    ends,
                    ..
                } => {
                    words.push(format!("ends {} {ends:?}", name.as_str()));
                }
                Event::EndSession(name) => words.push(format!("aborted {}", name.as_str())),
                Event::DisconnectKey(name) => words.push(format!("key aborted {}", name.as_str())),
                Event::Answer { answer, .. } => answers.push(match answer {
                    Ok((status, _)) => status.code(),
                    Err(refusal) => refusal.status.code(),
                }),
                other => panic!("{other:?} is no event of the tokens"),
            }
        }
        (words, answers)
    }

    fn has(&mut self, name: &str) -> bool {
        let tokens = self.grants().tokens().expect("tokens");
        tokens.of(&id(name)).next().is_some()
    }
}

fn revocation(name: &str, aborts: bool) -> Change {
    let session = id(name);
    Change::Revocation {
        session,
        aborts,
        is_inside: false,
    }
}

#[test]
fn an_address_is_a_clients_in_the_carriage_of_its_tuple() {
    let mut table = Table::new(&[API]);
    let (rtp, bare) = (Transport::Rtp(None), Transport::Bare);
    let mut named = tuple("relay.example:5004", rtp);
    named.addresses = vec![at("10.0.0.8:5004"), at("[::ffff:10.0.0.9]:5004")];
    let tuples = vec![
        tuple("10.0.0.1:5004", rtp),
        tuple("10.0.0.2:5004", bare),
        named,
    ];
    assert_eq!(table.change(addition("a", None, tuples)), 201);
    for (name, address, is_bare, expected) in [
        ("a", "10.0.0.1:5004", false, true),
        ("a", "10.0.0.1:5004", true, false),
        ("a", "10.0.0.1:5005", false, false),
        ("a", "10.0.0.2:5004", true, true),
        ("a", "10.0.0.2:5004", false, false),
        ("a", "10.0.0.3:5004", false, false),
        ("a", "10.0.0.8:5004", false, true),
        ("a", "10.0.0.9:5004", false, true),
        ("b", "10.0.0.1:5004", false, false),
    ] {
        let seen = table.grants().is_client(&id(name), at(address), is_bare);
        assert_eq!(seen, expected, "{name} {address} {is_bare}");
    }
}

/// A sender of datagrams becomes the source of the first session that it may send and that has
/// none.
#[test]
fn datagrams_begin_the_first_session_that_has_no_source() {
    let mut table = Table::new(&[API, "--publish-from=10.0.0.0/24"]);
    let (rtp, bare) = (Transport::Rtp(None), Transport::Bare);
    for (name, transport) in [("a", rtp), ("b", bare), ("c", rtp)] {
        let tuples = vec![tuple("10.0.0.1:5004", transport)];
        assert_eq!(table.change(addition(name, None, tuples)), 201);
    }
    let relay = &table.stage.relay;
    let (here, outside) = ("10.0.0.1:5004", "192.0.2.1:5004");
    let stranger = "10.0.0.9:5004";
    for (from, to, is_bare, its, taken, has_room, expected) in [
        (here, Some(here), false, None, &[][..], true, Ok("a")),
        (here, Some(here), true, None, &[], true, Ok("b")),
        (here, Some(here), false, None, &["a"], true, Ok("c")),
        (
            here,
            Some(here),
            true,
            None,
            &["b"],
            true,
            Err("SecondSource"),
        ),
        (
            here,
            Some(here),
            false,
            None,
            &["a", "c"],
            true,
            Err("SecondSource"),
        ),
        (here, Some(here), false, Some("a"), &["a"], true, Ok("a")),
        (here, Some(here), false, None, &[], false, Err("Refused")),
        (
            here,
            Some(stranger),
            false,
            None,
            &[],
            true,
            Err("SecondSource"),
        ),
        (here, None, false, None, &[], true, Err("Stranger")),
        (outside, Some(here), false, None, &[], true, Err("Outside")),
    ] {
        let entry_point = if is_bare {
            EntryPoint::Bare
        } else {
            EntryPoint::Rtp
        };
        let access_request = AccessRequest {
            to: to.map(at),
            ..AccessRequest::without_request(entry_point, at(from))
        };
        let has_source = |name: &SessionId| taken.contains(&name.as_str());
        let session_state = |name: &SessionId| SessionState {
            has_room,
            has_source: has_source(name),
            ..SessionState::default()
        };
        let how = (&access_request, is_bare);
        let (grants, ctx) = (&relay.grants, &relay.ctx);
        let seen = grants.session_for(how, its.map(id), has_source, session_state, ctx);
        let seen = seen.map_err(|count| format!("{count:?}"));
        let expected = expected.map(id).map_err(str::to_owned);
        assert_eq!(seen, expected, "{from} {to:?} {is_bare} {its:?} {taken:?}");
    }
}

/// A key has no stream: to block its name would keep nobody out. What runs by that name began
/// before it was one.
#[test]
fn a_key_is_blocked_only_where_a_stream_has_its_name() {
    let mut table = Table::new(&[API]);
    assert_eq!(
        table.change(addition("key", http(Some("a")), Vec::new())),
        201
    );
    for (name, has_stream, expected) in [
        ("a", false, Ok(())),
        ("a", true, Ok(())),
        ("key", true, Ok(())),
        ("key", false, Err(409)),
    ] {
        for block in [None, Some(Duration::from_secs(60))] {
            let relay = &mut table.stage.relay;
            let whom = (&id(name), has_stream);
            let seen = relay.grants.begin_abort(whom, block, &relay.ctx);
            let seen = seen.map_err(|refusal| refusal.status.code());
            assert_eq!(seen, expected, "{name} {has_stream} {block:?}");
        }
    }
    let relay = &table.stage.relay;
    let left = relay.grants.blocks.left(&id("a"), relay.ctx.now());
    assert_eq!(left, Some(Duration::from_secs(60)));
}

#[test]
fn as_many_are_kept_out_as_may_be_and_none_makes_room() {
    let mut table = Table::new(&[API]);
    let relay = &mut table.stage.relay;
    let minute = Duration::from_secs(60);
    let from = at("10.0.0.1:1").ip();
    for number in 0..=BLOCKS_MAX {
        let name = id(&number.to_string());
        let blocked = relay.grants.block(&name, minute, &relay.ctx);
        let barred = relay
            .grants
            .block_viewer(&(name.clone(), from), minute, &relay.ctx);
        assert_eq!(blocked.is_ok(), number < BLOCKS_MAX, "{number}");
        assert_eq!(barred.is_ok(), number < BLOCKS_MAX, "{number}");
        for refusal in [blocked.err(), barred.err()].into_iter().flatten() {
            assert_eq!(refusal.status, Status::ServiceUnavailable);
            assert_eq!(
                refusal.retry_after_seconds,
                Some(crate::http::RETRY_AFTER_SECONDS)
            );
        }
        let now = relay.ctx.now();
        let left = relay.grants.blocks.left(&name, now);
        assert_eq!(left, (number < BLOCKS_MAX).then_some(minute));
        let left = relay.grants.blocked_viewers.left(&(name, from), now);
        assert_eq!(left, (number < BLOCKS_MAX).then_some(minute));
    }
}

/// The tokens of the session id have expired, and were removed. Another change may be on its way to the
/// disk.
#[test]
fn an_abort_disconnects_clients_whose_token_is_gone() {
    for mut table in [Table::new(&[API]), Table::with_file(&[API])] {
        let is_kept = table.grants().pending.is_some();
        for (other, aborts, is_inside, status) in [
            ("a", true, true, 200),
            ("b", true, false, 404),
            ("c", false, true, 404),
        ] {
            table.change(plain(other));
            drop(table.said());
            let decided = table.change(Change::Revocation {
                session: id("gone"),
                aborts,
                is_inside,
            });
            if is_kept {
                assert_eq!(decided, 0, "it waits");
                let (job_id, _) = table.write();
                table.appended(job_id, &Ok(()));
            } else {
                assert_eq!(decided, status);
            }
            let (words, statuses) = table.said();
            let aborted = words.iter().any(|words| words == "key aborted gone");
            assert_eq!(aborted, status == 200, "{words:?}");
            if is_kept {
                assert_eq!(statuses, [201, status]);
            }
        }
    }
}

/// Whom a change concerns is said: nobody else is looked for.
#[test]
fn a_change_says_whom_it_concerns_and_answers_with_what_is_there() {
    let mut table = Table::new(&[API]);
    let rtp = || vec![tuple("10.0.0.1:5004", Transport::Rtp(None))];
    let key = || addition("key", http(Some("a")), Vec::new());
    for (change, status, said) in [
        (plain("a"), 201, &["changed a", "ends a None"][..]),
        (plain("a"), 200, &["changed a", "ends a None"]),
        (
            addition("a", None, rtp()),
            201,
            &["changed a", "ends a None"],
        ),
        (key(), 201, &["changed key", "ends key None"]),
        (addition("key", None, rtp()), 409, &[]),
        (addition("other", http(Some("key")), Vec::new()), 409, &[]),
        (revocation("none", true), 404, &[]),
        (
            revocation("key", true),
            200,
            &["removed 1", "changed key", "key aborted key"],
        ),
        (key(), 201, &["changed key", "ends key None"]),
        (revocation("key", false), 200, &["removed 1", "changed key"]),
        (
            revocation("a", true),
            200,
            &["removed 2", "changed a", "aborted a", "key aborted a"],
        ),
        (revocation("a", true), 404, &[]),
    ] {
        let what = format!("{change:?}");
        assert_eq!(table.change(change), status, "{what}");
        assert_eq!(table.said().0, said, "{what}");
    }
    let body = |table: &mut Table, change| {
        let relay = &mut table.stage.relay;
        let (caller, ctx) = (table.caller, &mut relay.ctx);
        let done = relay.grants.change(caller, change, ctx);
        let (_, body) = done.expect("it can be done").expect("at once");
        String::from_utf8(body).expect("JSON")
    };
    let added = body(&mut table, addition("b", None, rtp()));
    let expected =
        r#"{"sessionid":"b","tokens":[{"sessionid":"b","host":"10.0.0.1","port":5004}]}"#;
    assert_eq!(added, expected);
    let revoked = body(&mut table, revocation("b", false));
    assert_eq!(revoked, r#"{"sessionid":"b","revoked":1}"#);
}

/// A client may have many addresses: the first that can be reached is sent to, and all have to be
/// where clients may be.
#[test]
fn a_client_is_refused_whose_addresses_cannot_be_reached() {
    let mut table = Table::new(&[API, "--rtp-to=10.0.0.0/8"]);
    for (addresses, expected) in [
        (&["10.0.0.1:1"][..], 201),
        (&["10.0.0.1:9"], 400),
        (&["10.0.0.1:9", "10.0.0.2:1"], 201),
        (&["10.0.0.1:1", "10.0.0.2:9"], 201),
        (&["10.0.0.1:9", "10.0.0.2:9"], 400),
        (&["10.0.0.1:1", "192.0.2.1:1"], 403),
        (&["192.0.2.1:1"], 403),
    ] {
        let mut client = tuple("relay.example:5004", Transport::Rtp(None));
        client.addresses = addresses.iter().map(|text| at(text)).collect();
        let relay = &mut table.stage.relay;
        let (change, ctx) = (addition("a", None, vec![client]), &mut relay.ctx);
        let done = relay.grants.change(table.caller, change, ctx);
        let status = match done {
            Ok(done) => done.expect("at once").0,
            Err(refusal) => refusal.status,
        };
        assert_eq!(status.code(), expected, "{addresses:?}");
        table.change(revocation("a", false));
    }
}

// ---- The token file

/// Clients that a token admitted keep its terms when it is revoked, also if the change of the terms
/// and the revocation are written together.
#[test]
fn terms_hold_that_were_changed_just_before_the_token_was_revoked() {
    let add = "POST /api/add-token?type=http";
    let put = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 999999\r\n\r\nx";
    for is_written in [false, true] {
        let mut table = match is_written {
            true => Table::with_file(&[API, "--body-rate=0"]),
            false => Table::new(&[API, "--body-rate=0"]),
        };
        let call = |table: &mut Table, line: &str| {
            table
                .stage
                .client(&format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        };
        // Ends the write that is under way.
        let write = |table: &mut Table| match table.stage.jobs.pop() {
            Some((job_id, Job::Append(entry))) => {
                let (relay, now) = (&mut table.stage.relay, table.stage.now);
                relay.job_finished(job_id, Done::Appended(Ok(())), now);
                table.stage.settle();
                entry.records.len()
            }
            _ => 0,
        };
        for token in ["s", "k&for=s&direction=out"] {
            call(&mut table, &format!("{add}&sessionid={token}"));
            write(&mut table);
        }
        table.stage.client(put);
        let viewer = table.stage.viewer("k");
        table.stage.assert_status(viewer, 200);
        // The first change is on its way to the disk while the others come.
        for line in [
            &format!("{add}&sessionid=other"),
            &format!("{add}&sessionid=k&for=s&direction=out&ends=1"),
            &format!("{add}&sessionid=s&max-bitrate=800000"),
            "DELETE /api/revoke-token?sessionid=k",
            "DELETE /api/revoke-token?sessionid=s",
        ] {
            call(&mut table, line);
        }
        write(&mut table);
        assert_eq!(write(&mut table), if is_written { 4 } else { 0 });
        let streams = &table.stage.relay.streams;
        let (stream, _) = streams.running_source(&id("s")).expect("it runs");
        assert_eq!(streams.source_limits(stream).lower(), Some(800_000));
        table.stage.wait(Duration::from_secs(2));
        let is_gone = table.stage.closed.contains(&viewer);
        assert!(is_gone, "its access has ended: {is_written}");
    }
}

#[test]
fn a_change_is_made_when_it_is_on_disk() {
    let mut table = Table::with_file(&[API]);
    assert_eq!(table.change(plain("a")), 0);
    let (job_id, records) = table.write();
    assert_eq!(
        (records, table.has("a"), table.said().1),
        (1, false, vec![])
    );
    table.appended(JobId(job_id.0 + 1), &Ok(()));
    assert!(!table.has("a"), "that was another's");
    table.appended(job_id, &Ok(()));
    assert_eq!((table.has("a"), table.said().1), (true, vec![201]));
    // What changes nothing is not written, and answered at once.
    assert_eq!(table.change(plain("a")), 0);
    assert_eq!((table.acts().0, table.said().1), (vec![], vec![200]));
    // What cannot be written is not done.
    assert_eq!(table.change(revocation("a", false)), 0);
    let (job_id, _) = table.write();
    table.appended(job_id, &Err("full".to_owned()));
    assert_eq!((table.has("a"), table.said().1), (true, vec![507]));
    let (_, lines) = table.acts();
    let line = "level=error event=token-file-not-written detail=\"full; add-token and revoke-token answer 507 until it can be written\"";
    assert_eq!(lines, [line]);
    let counts = &table.stage.relay.ctx.counts;
    let of = [Count::TokenWrites, Count::TokenWritesFailed].map(|what| counts.of(what));
    assert_eq!(of, [1, 1]);
    let relay = &mut table.stage.relay;
    relay.grants.not_compacted("full", &mut relay.ctx);
    let (_, lines) = table.acts();
    let line = "level=warn event=token-file-not-compacted detail=\"full; the file keeps growing\"";
    assert_eq!(lines, [line]);
}

/// Even changes of one session: each is judged by what those before it make.
#[test]
fn what_waits_for_a_write_is_written_together() {
    let mut table = Table::with_file(&[API]);
    let changes = [
        plain("a"),
        plain("b"),
        plain("c"),
        revocation("b", false),
        revocation("b", false),
        plain("b"),
        plain("b"),
        revocation("c", false),
    ];
    for change in changes {
        assert_eq!(table.change(change), 0);
    }
    let mut batches = Vec::new();
    for _ in 0..2 {
        let (job_id, records) = table.write();
        batches.push(records);
        table.appended(job_id, &Ok(()));
        batches.push(table.said().1.len());
    }
    assert_eq!(batches, [1, 1, 5, 7]);
    assert_eq!(table.acts().0, [], "nothing is left");
    assert!(table.has("a") && table.has("b") && !table.has("c"));
}

/// What was judged by changes that cannot be written was judged by nothing.
#[test]
fn all_changes_of_a_write_that_fails_are_refused_for_that() {
    let mut table = Table::with_file(&[API]);
    for change in [
        plain("a"),
        plain("b"),
        revocation("b", false),
        revocation("b", false),
    ] {
        assert_eq!(table.change(change), 0);
    }
    let (job_id, _) = table.write();
    table.appended(job_id, &Ok(()));
    assert_eq!(table.said().1, [201]);
    let (job_id, _) = table.write();
    table.appended(job_id, &Err("full".to_owned()));
    assert_eq!(table.said().1, [507, 507, 507]);
    assert!(!table.has("b"));
}

/// A key of a key, a session that is a key, two halves of what may be in a session: each is asked
/// for by two calls that the table as it is would allow.
#[test]
fn calls_that_exclude_each_other_are_not_both_granted_by_one_write() {
    let client = |port: u16| tuple(&format!("10.0.0.2:{port}"), Transport::Rtp(None));
    let key = |name, of| addition(name, http(Some(of)), Vec::new());
    let fec = |port, matrix: &str| {
        let transport = Transport::parse(matrix).expect("a matrix");
        addition(
            "s",
            None,
            vec![tuple(&format!("10.0.0.2:{port}"), transport)],
        )
    };
    for (before, changes, expected) in [
        (vec![], vec![key("k", "s"), key("s", "t")], vec![201, 409]),
        (vec![], vec![key("s", "t"), key("k", "s")], vec![201, 409]),
        (vec![], vec![key("k", "s"), plain("k")], vec![201, 409]),
        (vec![], vec![plain("k"), key("k", "s")], vec![201, 409]),
        (
            vec![],
            vec![key("k", "s"), addition("k", None, vec![client(1)])],
            vec![201, 409],
        ),
        (
            vec![key("k", "s")],
            vec![revocation("k", false), key("s", "t"), key("k", "s")],
            vec![200, 201, 409],
        ),
        (
            vec![addition("s", None, vec![client(1)])],
            vec![
                addition("s", None, vec![client(2)]),
                addition("s", None, vec![client(3)]),
            ],
            vec![201, 503],
        ),
        (
            vec![plain("a"), plain("b"), plain("c")],
            vec![revocation("c", false), plain("d"), plain("e"), plain("f")],
            vec![200, 201, 201, 503],
        ),
        (
            vec![fec(100, "4x4")],
            vec![fec(200, "5x5"), fec(200, "6x6")],
            vec![201, 200],
        ),
    ] {
        let mut table = Table::with_file(&[API, "--tokens=5", "--udp-clients=2"]);
        for change in before {
            table.change(change);
            let (job_id, _) = table.write();
            table.appended(job_id, &Ok(()));
        }
        // What is asked for while this is written is written together.
        table.change(plain("first"));
        let (job_id, _) = table.write();
        for change in &changes {
            assert_eq!(table.change(change.clone()), 0);
        }
        table.said();
        table.appended(job_id, &Ok(()));
        table.said();
        let (job_id, _) = table.write();
        table.appended(job_id, &Ok(()));
        assert_eq!(table.said().1, expected, "{changes:?}");
    }
}

/// The changes of one write are decided together: each leaves no room for what the others take.
#[test]
fn changes_that_are_written_together_do_not_take_the_same_room() {
    let mut table = Table::with_file(&[API, "--tokens=3"]);
    for name in ["a", "b", "c", "d"] {
        assert_eq!(table.change(plain(name)), 0);
    }
    let (job_id, records) = table.write();
    assert_eq!(records, 1);
    table.appended(job_id, &Ok(()));
    let (job_id, records) = table.write();
    assert_eq!((records, table.said().1), (2, vec![201]));
    table.appended(job_id, &Ok(()));
    assert_eq!(table.said().1, [201, 201, 503]);
}

/// A server with a token file, and the bytes of the file.
struct Kept {
    table: Table,
    random: Random,
    journal: Vec<u8>,
}

impl Kept {
    fn new(seed: u64) -> Kept {
        Kept {
            table: Table::with_file(&[API, "--tokens=3", "--udp-clients=2"]),
            random: Random::new(seed.into()),
            journal: journal::HEADER.to_vec(),
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.draw() % bound
    }

    fn now(&self) -> UnixTime {
        self.table.stage.relay.ctx.date()
    }

    fn draw_change(&mut self) -> Change {
        let names = ["a", "b", "c", "d"];
        let name = |kept: &mut Kept| id(names[kept.below(4) as usize]);
        let session = name(self);
        if self.below(5) == 0 {
            let aborts = false;
            return Change::Revocation {
                session,
                aborts,
                is_inside: false,
            };
        }
        let direction = [
            None,
            Some(gate::Direction::In),
            Some(gate::Direction::Out),
            Some(gate::Direction::Both),
        ][self.below(4) as usize];
        let soon = self.now().after(Duration::from_secs(1 + self.below(4)));
        let terms = gate::Terms {
            opens: (self.below(3) == 0).then(|| name(self)),
            expires: (self.below(2) == 0).then_some(soon),
            ends: (self.below(6) == 0).then_some(soon),
            viewers_max: (self.below(4) == 0).then_some(3),
            bits_per_second_max: None,
            note: (self.below(4) == 0)
                .then(|| gate::Note::parse("desk"))
                .flatten(),
        };
        let ports = ["10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3"];
        let clients = ports.into_iter().filter(|_| self.below(8) == 0);
        let rtp = clients
            .map(|port| tuple(port, Transport::Rtp(None)))
            .collect();
        let http = (self.below(6) > 0).then_some(GrantChange { direction, terms });
        Change::Addition { session, http, rtp }
    }

    /// Lets time pass, and tells the table.
    fn wait(&mut self) {
        let seconds = Duration::from_secs(self.below(3));
        let relay = &mut self.table.stage.relay;
        relay.ctx.set_now(relay.ctx.now() + seconds);
        relay.grants.due(&mut relay.ctx);
    }

    /// The disk has what it was given, or has no room for it.
    fn write(&mut self) {
        let (writes, _) = self.table.acts();
        for (job_id, entry) in writes {
            let result = match self.below(8) {
                0 => Err("full".to_owned()),
                _ => Ok(()),
            };
            if result.is_ok() {
                let line = journal::encode(&entry.records, entry.time);
                self.journal.extend_from_slice(&line);
            }
            self.table.appended(job_id, &result);
        }
        self.table.said();
    }

    /// The table after a restart.
    fn restored(&self, file: &[u8]) -> Tokens {
        let mut tokens = Tokens::new(gate::Limits::NONE);
        let mut replay = Replay::default();
        let mut input = file;
        while let Some(entry) = replay.read(&mut input).expect("a good journal") {
            tokens.replay(&entry);
        }
        assert_eq!(replay.finish().expect("whole").torn_bytes, 0);
        let limits = self.table.stage.relay.token_limits();
        tokens.with_limits(limits).expect("it fits")
    }
}

/// All that a table answers, tuple by tuple, and what the gate asks it.
fn answers(tokens: &Tokens, now: UnixTime) -> Vec<String> {
    let tuples = tokens.after(0);
    let tuples = tuples.map(|tuple| format!("{} {:?}", tuple.session.as_str(), tuple.kind));
    let asked = ["a", "b", "c", "d"].into_iter().flat_map(|name| {
        let name = id(name);
        let times = [0, 1, 2, 5].map(|seconds| now.after(Duration::from_secs(seconds)));
        times.map(|time| {
            let may = (tokens.publish(&name, time), tokens.watch(&name, time));
            let opens = (tokens.opened_by(&name), tokens.has_keys(&name));
            format!("{may:?} {opens:?} {:?}", tokens.next_expiry(time))
        })
    });
    let found = ["10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3"].map(|address| {
        let sessions = tokens.sessions_from(at(address));
        format!("{:?}", sessions.collect::<Vec<_>>())
    });
    tuples.chain(asked).chain(found).collect()
}

/// Whatever is added, revoked, over, forgotten or not written, whenever the server ends, and
/// whether its file was compacted: it knows the same when it starts again.
#[test]
fn a_table_after_a_restart_gives_the_same_answers() {
    let mut forgotten = 0;
    for seed in 1..=16 {
        let mut kept = Kept::new(seed);
        for step in 0..100 {
            match kept.below(8) {
                0 => kept.wait(),
                1..=3 => kept.write(),
                _ => {
                    let change = kept.draw_change();
                    kept.table.change(change);
                }
            }
            let now = kept.now();
            let tokens = kept.table.grants().tokens().expect("a table");
            let expected = answers(tokens, now);
            let restored = kept.restored(&kept.journal);
            assert_eq!(
                answers(&restored, now),
                expected,
                "seed {seed}, step {step}"
            );
            assert!(restored.time() <= now);
            let compacted = kept.restored(&journal::compact(&restored));
            assert_eq!(
                answers(&compacted, now),
                expected,
                "seed {seed}, step {step}"
            );
            assert_eq!(compacted.time(), restored.time());
        }
        let text = String::from_utf8_lossy(&kept.journal).into_owned();
        forgotten += text.matches("{\"forget\":").count();
    }
    assert!(forgotten > 20, "tokens have made room: {forgotten}");
}

#[test]
fn a_write_has_a_bounded_number_of_tuples() {
    let mut table = Table::with_file(&[API, "--tokens=20000", "--udp-clients=64"]);
    let clients = |session: usize| {
        let each = (1..=64).map(|port| {
            let mut tuple = tuple(&format!("10.0.{session}.1:{port}"), Transport::Rtp(None));
            tuple.addresses = Vec::new();
            tuple
        });
        each.collect::<Vec<_>>()
    };
    assert_eq!(table.change(plain("first")), 0);
    for session in 0..66 {
        let change = addition(&session.to_string(), None, clients(session));
        assert_eq!(table.change(change), 0, "{session}");
    }
    let mut batches = Vec::new();
    for _ in 0..3 {
        let (job_id, records) = table.write();
        batches.push(records);
        table.appended(job_id, &Ok(()));
    }
    assert_eq!(batches, [1, 4096 / 64, 2]);
}

#[test]
fn so_many_changes_wait_for_the_disk_and_no_more() {
    let mut table = Table::with_file(&[API, "--tokens=20000"]);
    assert_eq!(table.change(plain("first")), 0);
    let (job_id, _) = table.write();
    for number in 0..=1024 {
        let status = table.change(plain(&number.to_string()));
        assert_eq!(status, if number < 1024 { 0 } else { 503 }, "{number}");
    }
    table.appended(job_id, &Ok(()));
    assert_eq!(table.write().1, 1024);
    assert_eq!(table.change(plain("last")), 0, "there is room again");
}

/// The same for large ones, in bytes.
#[test]
fn changes_that_wait_for_the_disk_hold_a_bounded_number_of_bytes() {
    let mut table = Table::with_file(&[API, "--tokens=20000", "--udp-clients=100"]);
    assert_eq!(table.change(plain("first")), 0);
    let host = format!("{}.example", "x".repeat(60));
    let clients = |session: usize| {
        let each = (1..=100).map(|port| {
            let client = client(&format!("{host}:{port}"));
            let addresses = vec![at(&format!("10.0.0.1:{}", session + 1))];
            let transport = Transport::Rtp(None);
            RtpTuple {
                client,
                transport,
                addresses,
            }
        });
        each.collect::<Vec<_>>()
    };
    let mut taken = 0;
    while table.change(addition(&taken.to_string(), None, clients(taken))) == 0 {
        taken += 1;
    }
    // Of each there are a hundred names of 68 bytes, twice, with an address and a port.
    let bytes = 2 * 100 * (68 + size_of::<RtpTuple>() + size_of::<SocketAddr>());
    assert!(taken * bytes <= (1 << 20) + bytes, "{taken}");
    assert!((taken + 1) * bytes * 2 >= 1 << 20, "{taken}");
    let held = table
        .grants()
        .pending
        .as_ref()
        .map_or(0, PendingChanges::memory_bytes);
    assert!(
        held >= taken * bytes && held < (1 << 20) + 2 * bytes,
        "{held}"
    );
}

#[test]
fn a_disk_with_too_much_to_do_changes_nothing() {
    let mut table = Table::with_file(&[API]);
    assert_eq!(table.change(plain("a")), 0);
    assert_eq!(table.change(plain("b")), 0);
    let (job_id, _) = table.write();
    let not_appended = |table: &mut Table, job_id| {
        let relay = &mut table.stage.relay;
        relay.grants.not_appended(job_id, &mut relay.ctx)
    };
    assert!(!not_appended(&mut table, JobId(job_id.0 + 9)), "another's");
    assert!(table.said().1.is_empty());
    assert!(not_appended(&mut table, job_id));
    assert_eq!((table.said().1, table.has("a")), (vec![503], false));
    let (job_id, records) = table.write();
    assert_eq!(records, 1, "who has waited has a turn");
    table.appended(job_id, &Ok(()));
    assert_eq!((table.said().1, table.has("b")), (vec![201], true));
    assert!(!not_appended(&mut table, job_id), "it is over");
}

/// Or a token that has expired is valid again after a restart with a clock that is set back.
#[test]
fn a_time_that_could_not_be_written_is_written_later() {
    for is_refused in [false, true] {
        let mut table = Table::with_file(&[API]);
        let grants = table.grants().table().expect("a table");
        assert_eq!(grants.add(&id("a"), over_at(10), Vec::new()), Ok(1));
        let relay = &mut table.stage.relay;
        relay.grants.rearm(&mut relay.ctx);
        // The client's own deadlines come between.
        let next = |table: &mut Table| {
            while let Some(due) = table.stage.relay.next_deadline() {
                table.stage.relay.expire(due);
                if let Some(write) = table.acts().0.pop() {
                    return Some(write);
                }
            }
            None
        };
        let (job_id, entry) = next(&mut table).expect("the time is written");
        assert!(entry.records.is_empty() && entry.time.is_some());
        if is_refused {
            let relay = &mut table.stage.relay;
            assert!(relay.grants.not_appended(job_id, &mut relay.ctx));
        } else {
            table.appended(job_id, &Err("full".to_owned()));
        }
        assert!(table.acts().0.is_empty(), "not at once");
        let (job_id, entry) = next(&mut table).expect("the time is written");
        assert!(entry.records.is_empty() && entry.time.is_some());
        table.appended(job_id, &Ok(()));
        assert!(next(&mut table).is_none(), "it is on disk");
    }
}

/// Or the answer would be that there is nothing to revoke, and the token would come into being after it.
#[test]
fn a_revocation_waits_for_additions_before_it() {
    let mut table = Table::with_file(&[API]);
    assert_eq!(table.change(plain("a")), 0);
    assert_eq!(table.change(revocation("a", true)), 0);
    for status in [201, 200] {
        let (job_id, _) = table.write();
        table.appended(job_id, &Ok(()));
        assert_eq!(table.said().1, [status]);
    }
    assert!(!table.has("a"));
}

#[cfg(feature = "handover")]
#[test]
fn the_disk_is_quiet_when_nothing_is_on_its_way() {
    assert!(Table::new(&[API]).grants().is_quiet(), "there is no file");
    let mut table = Table::with_file(&[API]);
    assert!(table.grants().is_quiet());
    assert_eq!(table.change(plain("a")), 0);
    assert!(!table.grants().is_quiet(), "it is written");
    let (job_id, _) = table.write();
    assert_eq!(table.change(plain("b")), 0);
    assert!(!table.grants().is_quiet());
    table.appended(job_id, &Ok(()));
    let (job_id, _) = table.write();
    table.appended(job_id, &Ok(()));
    assert!(table.grants().is_quiet());
}

// ---- Time

fn over_at(seconds: u64) -> Option<gate::Grant> {
    let mut grant = http(None)?;
    grant.terms.expires = Some(UnixTime {
        unix_seconds: seconds,
    });
    Some(grant)
}

/// What a clock that is set back would open again is not opened: the file knows how late it was.
#[test]
fn the_later_of_the_files_clock_and_the_hosts_counts() {
    for (seconds, warns) in [
        (0, false),
        (59, false),
        (60, false),
        (61, true),
        (9999, true),
    ] {
        let mut table = Table::new(&[API]);
        let mut tokens = table.tokens();
        let time = UnixTime {
            unix_seconds: seconds,
        };
        tokens.set_time(time);
        table.restore(tokens);
        let (writes, lines) = table.acts();
        let has_warned = lines.iter().any(|line| line.contains("event=clock-behind"));
        assert_eq!((has_warned, lines.len()), (warns, usize::from(warns)));
        assert_eq!(table.stage.relay.ctx.date(), time, "{seconds}");
        assert_eq!(writes, [], "nothing is over");
    }
}

#[test]
fn clients_of_the_file_that_may_not_be_there_now_are_silent() {
    let (near, far) = ("10.0.0.1:5004", "192.0.2.1:5004");
    let faulty = "10.0.0.9:9";
    for (clients, silenced) in [
        (&[near][..], 0),
        (&[near, far], 1),
        (&[far, faulty], 2),
        (&[faulty], 1),
    ] {
        let mut table = Table::new(&[API, "--rtp-to=10.0.0.0/8"]);
        let mut tokens = table.tokens();
        let tuples = clients.iter().map(|text| tuple(text, Transport::Rtp(None)));
        let added = tokens.add(&id("a"), None, tuples.collect());
        assert_eq!(added, Ok(clients.len()));
        let relay = &mut table.stage.relay;
        relay.grants.restore(tokens, &mut relay.ctx);
        let (_, lines) = table.acts();
        let line = format!("level=warn event=token-file-clients-silenced count={silenced} ");
        let told = lines.iter().filter(|told| told.starts_with(&line)).count();
        assert_eq!((told, lines.len()), (usize::from(silenced > 0), told));
        for client in clients {
            let is_client = table.grants().is_client(&id("a"), at(client), false);
            assert_eq!(is_client, *client == near, "{client}");
        }
        let listed = table
            .grants()
            .tokens()
            .expect("tokens")
            .of(&id("a"))
            .count();
        assert_eq!(listed, clients.len(), "they stay listed");
    }
}

/// How late it is goes to the disk where a token is over, or a clock that was set back while the
/// server was down would open it again.
#[test]
fn what_was_over_at_the_start_is_written_and_not_said() {
    for (expires, is_written) in [(1, true), (50, true), (51, false)] {
        let mut table = Table::new(&[API]);
        let mut tokens = table.tokens();
        tokens.set_time(UnixTime { unix_seconds: 50 });
        let added = tokens.add(&id("a"), over_at(expires), Vec::new());
        assert_eq!(added, Ok(1));
        table.restore(tokens);
        let (writes, lines) = table.acts();
        assert_eq!(lines, Vec::<String>::new());
        let times: Vec<_> = writes.iter().map(|(_, entry)| entry.time).collect();
        let time = Some(UnixTime { unix_seconds: 50 });
        assert_eq!(
            times,
            Vec::from_iter(is_written.then_some(time)),
            "{expires}"
        );
        let is_armed = table.stage.relay.next_deadline().is_some();
        assert!(is_written || is_armed, "it is known when it will be over");
    }
}

/// Each of a few has a line; of many it is said how many more there are.
#[test]
fn tokens_that_are_over_at_once_are_told_of_in_bounds() {
    for (tokens, more) in [(1, None), (16, None), (17, Some(1)), (40, Some(24))] {
        let mut table = Table::with_file(&[API]);
        for number in 0..tokens {
            let grants = table.grants().table().expect("a table");
            let name = id(&number.to_string());
            assert_eq!(grants.add(&name, over_at(10), Vec::new()), Ok(1));
        }
        let follow = "GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let reader = table.stage.client(follow);
        let relay = &mut table.stage.relay;
        relay.grants.rearm(&mut relay.ctx);
        let due = relay.next_deadline().expect("it is known when");
        assert_eq!(relay.ctx.calendar.at(due), UnixTime { unix_seconds: 10 });
        relay.expire(due);
        let (writes, lines) = table.acts();
        let told = lines
            .iter()
            .filter(|line| line.contains("event=token-over "));
        assert_eq!(told.count(), tokens.min(16), "{tokens}");
        let of_more: Vec<_> = lines
            .iter()
            .filter(|line| line.contains("tokens-over"))
            .collect();
        let line = more.map(|more| format!("level=info event=tokens-over count={more}"));
        assert_eq!(of_more, Vec::from_iter(&line), "{tokens}");
        let time = Some(UnixTime { unix_seconds: 10 });
        assert!(matches!(writes.as_slice(), [(_, entry)] if entry.time == time));
        // Nothing is reported twice, and without an expired token nothing is written.
        let relay = &mut table.stage.relay;
        relay.grants.due(&mut relay.ctx);
        assert_eq!(table.acts(), (vec![], vec![]));
        (0..8).for_each(|_| table.stage.settle());
        let told = table.stage.text(reader);
        let count = more.map(|more| format!("\"count\":{more}"));
        let has_count = count.map_or(!told.contains("tokens-over"), |count| told.contains(&count));
        assert!(has_count, "{tokens}: {told}");
    }
}

/// A line names the session, and of a key what it opens; never a sessionid itself.
#[test]
fn a_line_about_a_token_names_digests() {
    let mut table = Table::new(&[API]);
    let (own, key) = (id("session").digest(), id("the-key").digest());
    for (change, line) in [
        (
            plain("session"),
            format!("event=token-added session={own} tuples=1"),
        ),
        (
            addition("the-key", http(Some("session")), Vec::new()),
            format!("event=token-added session={key} for={own}"),
        ),
        (
            revocation("the-key", false),
            format!("event=token-revoked session={key} for={own}"),
        ),
        (
            revocation("session", false),
            format!("event=token-revoked session={own} tuples=1"),
        ),
    ] {
        table.change(change);
        let (_, lines) = table.acts();
        assert_eq!(lines, [format!("level=info {line}")]);
        if table.has("session") && !line.contains(" for=") {
            table.change(plain("session"));
            assert_eq!(table.acts().1, Vec::<String>::new(), "nothing is new");
        }
    }
}

/// Changes on their way count with their requests and their records.
#[test]
fn changes_on_their_way_are_counted_in_bytes() {
    let mut table = Table::with_file(&[API]);
    let change = |number: usize| plain(&format!("{}{number}", "x".repeat(240)));
    let (mut records, each) = (0, size_of::<(ReplyTo, Change, Result<Addition, Refusal>)>());
    for number in 0..5 {
        records += change(number).memory_bytes();
        assert_eq!(table.change(change(number)), 0);
    }
    let pending = table.grants().pending.as_ref().expect("a file");
    // One is written, and four wait; a list grows to four places first.
    let held = pending.memory_bytes();
    assert!(held >= 2 * records + 5 * each, "{held}");
    assert!(held <= 2 * records + 12 * each, "{held}");
}

#[test]
fn nothing_is_due_before_a_token_is_over() {
    let mut table = Table::with_file(&[API]);
    let grants = table.grants().table().expect("a table");
    assert_eq!(grants.add(&id("a"), over_at(10), Vec::new()), Ok(1));
    let relay = &mut table.stage.relay;
    relay.grants.due(&mut relay.ctx);
    assert_eq!(table.acts(), (vec![], vec![]), "it is not over yet");
    assert_eq!(table.grants().check(), 1, "and is waited for");
}

#[cfg(feature = "handover")]
#[test]
fn who_is_kept_out_is_so_in_another_process() {
    use crate::handover::{Reader, Writer};

    let mut table = Table::new(&[API]);
    let (minute, from) = (Duration::from_secs(60), at("10.0.0.1:1").ip());
    let relay = &mut table.stage.relay;
    assert!(relay.grants.block(&id("a"), minute, &relay.ctx).is_ok());
    let whom = (id("b"), from);
    assert!(relay.grants.block_viewer(&whom, minute, &relay.ctx).is_ok());
    let mut told = Vec::new();
    let mut out = |piece: &[u8]| told.extend_from_slice(piece);
    let mut writer = Writer::new(&mut out);
    relay.grants.hand_over(&mut writer);
    writer.finish();
    let mut other = Table::new(&[API]);
    let relay = &mut other.stage.relay;
    let heard = Reader::new(1 << 20).receive(&told, |line| match line.name {
        "grants" => relay.grants.receive(line, false, &relay.ctx),
        "blocks" | "barred" => relay.grants.receive_blocks(line, &relay.ctx),
        _ => relay.grants.receive_token(line),
    });
    assert!(heard.is_ok(), "it fits");
    let now = relay.ctx.now();
    assert_eq!(relay.grants.blocks.left(&id("a"), now), Some(minute));
    assert_eq!(relay.grants.blocks.left(&id("b"), now), None);
    assert_eq!(relay.grants.blocked_viewers.left(&whom, now), Some(minute));
}

/// A sender is a source as long as a token of its session names it. Other tokens of the session do
/// not matter.
#[test]
fn a_source_whose_tuple_goes_is_none() {
    let mut stage = Stage::new(&[API]);
    stage.relay.set_rtp(at("10.9.0.1:5004"));
    let call = |stage: &mut Stage, line: &str, status: u16| {
        let id = stage.client(&format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        stage.assert_status(id, status);
    };
    let client = "POST /api/add-token?sessionid=a&type=rtp-udp&udp-clients=";
    call(&mut stage, &format!("{client}10.0.0.2:5004"), 201);
    for number in 0..2 {
        let mut packet = vec![0x80, 33, 0, number, 0, 0, 0, 0, 1, 2, 3, 4];
        packet.resize(12 + 188, 0x47);
        let port = crate::relay::UdpPort::Rtp;
        let from = at("10.0.0.2:5004");
        stage.relay.datagram(from, port, &packet, stage.now);
        stage.settle();
    }
    assert!(stage.relay.streams.runs(&id("a")));
    call(&mut stage, &format!("{client}10.0.0.3:5004"), 201);
    assert!(stage.relay.streams.runs(&id("a")), "it is named still");
    call(&mut stage, "DELETE /api/revoke-token?sessionid=a", 200);
    assert!(!stage.relay.streams.runs(&id("a")));
}

/// Otherwise a kill and a clock that is set back would revive the token.
#[cfg(feature = "handover")]
#[test]
fn a_successor_writes_the_time_that_its_predecessor_could_not_write() {
    let mut stage = Table::with_file(&[API]).stage;
    let write = |stage: &mut Stage, result: Result<(), String>| {
        let Some((job_id, Job::Append(entry))) = stage.jobs.pop() else {
            panic!("a write");
        };
        assert!(stage.jobs.is_empty());
        stage
            .relay
            .job_finished(job_id, Done::Appended(result), stage.now);
        stage.settle();
        (entry.records.len(), entry.time.is_some())
    };
    let add = "POST /api/add-token?type=http&sessionid=a&expires=5";
    stage.client(&format!("{add} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    assert_eq!(write(&mut stage, Ok(())), (1, false));
    stage.wait_seconds(6);
    assert_eq!(write(&mut stage, Err("full".to_owned())), (0, true));
    stage.change_hands(&[API, "--token-file=/tokens"]);
    stage.wait_seconds(29);
    assert!(stage.jobs.is_empty());
    stage.wait_seconds(2);
    assert_eq!(write(&mut stage, Ok(())), (0, true));
    stage.wait_seconds(60);
    assert!(stage.jobs.is_empty());
}
