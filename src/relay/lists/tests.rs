use super::*;
use crate::http::Target;
use crate::relay::api::{Call, Name};
use crate::relay::stage::Stage;
use crate::relay::stage::address as at;
use crate::relay::{Done, Job};
use crate::time::UnixTime;

const API: &str = "--token-server=10.0.0.0/8";
const PEER: &str = "--peer=http://10.2.0.1:8000";
const OTHER_PEER: &str = "--peer=http://10.2.0.2:8000/below";

fn add(clients: &str) -> AddToken {
    let target = Target {
        segments: Vec::new(),
        is_plain: true,
        query: Some(format!("type=rtp-udp&sessionid=s&udp-clients={clients}")),
    };
    match Call::parse(Name::AddToken, &target, (64, UnixTime::default())) {
        Ok(Call::AddToken(add)) => add,
        other => panic!("{other:?}"),
    }
}

/// For each name its addresses, in the order in which the names stand.
#[test]
fn names_get_their_addresses_or_say_which_has_none() {
    let found = |addresses: &[&str]| Ok(addresses.iter().map(|text| at(text)).collect());
    let many = |number: u16| {
        Ok((0..number)
            .map(|port| SocketAddr::from(([10, 0, 0, 1], port)))
            .collect())
    };
    let none = || Err("no such name".to_owned());
    let tuples = |clients: &str, results| {
        let tuples = with_addresses(&add(clients), results);
        let addresses = tuples.map(|tuples| {
            let each = tuples.into_iter().map(|tuple| tuple.addresses);
            each.collect::<Vec<_>>()
        });
        addresses.map_err(|refusal| (refusal.status.code(), refusal.detail))
    };
    let (first, second) = ("10.0.0.1:5004", "10.0.0.2:6004");
    let seen = tuples(
        "a.example:5004,10.0.0.9:7,b.example:6004",
        vec![found(&[first]), found(&[second, first])],
    );
    let expected = vec![
        vec![at(first)],
        vec![at("10.0.0.9:7")],
        vec![at(second), at(first)],
    ];
    assert_eq!(seen, Ok(expected));
    let most = crate::gate::ADDRESSES_MAX as u16;
    for number in [1, most, most + 1, ADDRESSES_MAX as u16] {
        let seen = tuples("a.example:5004", vec![many(number)]).map(|tuples| tuples[0].len());
        assert_eq!(seen, Ok(usize::from(number.min(most))), "{number}");
    }
    for (result, words) in [
        (none(), "the name does not resolve (no such name)"),
        (many(0), "the name has no address"),
        (many(33), "the name has more than 32 addresses"),
        (found(&["0.0.0.0:5004"]), "udp-clients: 'a.example:5004': "),
        (
            found(&[first, "255.255.255.255:5004"]),
            "udp-clients: 'a.example:5004': ",
        ),
    ] {
        let (status, detail) = tuples("a.example:5004", vec![result]).expect_err(words);
        assert_eq!(status, 400);
        assert!(detail.contains(words), "{detail}");
    }
    let (_, detail) = tuples("a.example:5004", vec![]).expect_err("no answer");
    assert!(detail.contains("no answer"), "{detail}");
    assert_eq!(
        without_names(&add("10.0.0.1:1,10.0.0.2:2")).map(|tuples| tuples.len()),
        Some(2)
    );
    assert!(without_names(&add("10.0.0.1:1,a.example:2")).is_none());
}

fn call(stage: &mut Stage, line: &str) -> ConnectionId {
    let request = format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let id = stage.client(&request);
    // Each piece of a list has a turn of its own.
    (0..8).for_each(|_| stage.settle());
    id
}

/// A call that waits for names is answered by their result, whatever that is.
#[test]
fn a_call_with_names_is_answered_when_they_have_been_looked_up() {
    const LINE: &str =
        "POST /api/add-token?type=rtp-udp&sessionid=s&udp-clients=10.0.0.9:7,a.example:5004";
    for (found, status) in [
        (Some(Ok(vec![at("10.0.0.1:5004")])), 201),
        (Some(Err("no such name".to_owned())), 400),
        (None, 503),
    ] {
        let mut stage = Stage::new(&[API]);
        stage.relay.set_rtp(at("10.9.0.1:5004"));
        let id = call(&mut stage, LINE);
        assert_eq!(stage.text(id), "", "it waits");
        let (job_id, job) = stage.jobs.pop().expect("a look-up");
        assert_eq!(job, Job::Resolve(vec![("a.example".to_owned(), 5004)]));
        let lists = &stage.relay.lists;
        #[cfg(feature = "handover")]
        assert!(lists.resolves(job_id) && !lists.resolves(JobId(job_id.0 + 1)));
        assert!(!lists.is_empty());
        match found {
            Some(found) => stage
                .relay
                .job_finished(job_id, Done::Resolved(vec![found]), stage.now),
            None => stage.relay.job_refused(job_id, stage.now),
        }
        stage.settle();
        stage.assert_status(id, status);
        stage.assert_nothing_left();
    }
    // Nobody is left who would hear of it.
    let mut stage = Stage::new(&[API]);
    stage.relay.set_rtp(at("10.9.0.1:5004"));
    let id = call(&mut stage, LINE);
    stage.lose(id);
    stage.assert_nothing_left();
}

fn answer(stage: &mut Stage, peer: usize, text: &str) {
    let (id, _) = stage.calls[peer];
    stage.relay.unblocked(id);
    stage.settle();
    stage.send(id, text);
    (0..8).for_each(|_| stage.settle());
}

fn told(list: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{list}",
        list.len()
    )
}

/// No call waits, and no peer is asked for one.
#[track_caller]
fn assert_none_wait(stage: &Stage) {
    let lists = &stage.relay.lists;
    assert!(lists.collected_lists.is_empty() && lists.pending_calls.is_empty());
    assert_eq!(
        (
            lists.collected_lists.capacity(),
            lists.pending_calls.capacity()
        ),
        (0, 0)
    );
    assert_eq!(stage.calls, []);
}

#[test]
fn peers_are_asked_for_the_list_that_is_asked_for() {
    for (line, asked) in [
        ("GET /api/list-tokens", "GET /api/list-tokens HTTP/1.1"),
        (
            "GET /api/list-tokens?details=1",
            "GET /api/list-tokens?details=1 HTTP/1.1",
        ),
        ("GET /api/list-streams", "GET /api/list-streams HTTP/1.1"),
        ("GET /api/list-viewers", "GET /api/list-viewers HTTP/1.1"),
        (
            "GET /api/list-viewers?sessionid=a%20b",
            "GET /api/list-viewers?sessionid=a%20b HTTP/1.1",
        ),
    ] {
        let mut stage = Stage::new(&[API, PEER]);
        let id = call(&mut stage, line);
        assert_eq!(stage.text(id), "", "{line}: it waits");
        let (peer, address, request) = stage.call();
        assert_eq!(address, at("10.2.0.1:8000"));
        let head = format!("{asked}\r\nHost: 10.2.0.1:8000\r\nVia: 1.1 tollgate-peer\r\n");
        assert!(request.starts_with(&head), "{request}");
        stage.send(peer, &told("[{\"sessionid\":\"theirs\"}]"));
        (0..8).for_each(|_| stage.settle());
        stage.assert_status(id, 200);
        assert!(
            stage.text(id).contains("{\"sessionid\":\"theirs\"}"),
            "{line}"
        );
        assert_none_wait(&stage);
    }
    let mut stage = Stage::new(&[API, OTHER_PEER]);
    call(&mut stage, "GET /api/list-streams");
    assert!(
        stage
            .call()
            .2
            .starts_with("GET /below/api/list-streams HTTP/1.1\r\n")
    );
}

/// A peer is not asked on behalf of a peer, or two that are each other's would ask for ever.
#[test]
fn a_peer_is_given_the_rows_of_this_server_alone() {
    let mut stage = Stage::new(&[API, PEER]);
    let via = "Via: 1.0 proxy, 1.1 tollgate-peer\r\n";
    let request = format!("GET /api/list-streams HTTP/1.1\r\nHost: localhost\r\n{via}\r\n");
    let id = stage.client(&request);
    (0..8).for_each(|_| stage.settle());
    stage.assert_status(id, 200);
    assert_eq!(stage.calls, []);
}

/// What a peer has not told in full is left out, and it is named.
#[test]
fn a_peer_that_tells_no_list_is_missing() {
    for (first, is_there) in [
        (told("[{\"a\":1}]"), true),
        (told("[]"), true),
        (told("[{\"a\":1}"), false),
        (told("{}"), false),
        (
            "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n[]".to_owned(),
            false,
        ),
        ("nonsense\r\n\r\n".to_owned(), false),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n".to_owned(),
            false,
        ),
    ] {
        let mut stage = Stage::new(&[API, PEER, OTHER_PEER]);
        let id = call(&mut stage, "GET /api/list-tokens");
        assert_eq!(stage.calls.len(), 2);
        answer(&mut stage, 0, &first);
        assert_eq!(stage.text(id), "", "{first}: the other is waited for");
        let second = stage.calls.len() - 1;
        answer(&mut stage, second, &told("[{\"b\":2}]"));
        stage.assert_status(id, 200);
        let text = stage.text(id);
        assert_eq!(text.contains("10.2.0.1:8000"), !is_there, "{text}");
        assert!(
            text.contains("{\"b\":2}") && !text.contains("10.2.0.2:8000"),
            "{text}"
        );
        assert_eq!(
            text.contains("{\"a\":1}"),
            first == told("[{\"a\":1}]"),
            "{text}"
        );
        assert_none_wait(&stage);
    }
}

#[test]
fn a_peer_is_waited_for_two_seconds() {
    let mut stage = Stage::new(&[API, PEER, OTHER_PEER]);
    let id = call(&mut stage, "GET /api/list-tokens");
    answer(&mut stage, 0, &told("[{\"a\":1}]"));
    stage.wait(std::time::Duration::from_millis(1999));
    assert_eq!(stage.text(id), "");
    stage.wait(std::time::Duration::from_millis(1));
    (0..8).for_each(|_| stage.settle());
    stage.assert_status(id, 200);
    let text = stage.text(id);
    assert!(
        text.contains("10.2.0.2:8000") && text.contains("{\"a\":1}"),
        "{text}"
    );
    assert_none_wait(&stage);
}

/// The server does not wait for peers when a client wants no body, or has left.
#[test]
fn nothing_is_kept_for_who_reads_nothing() {
    let mut stage = Stage::new(&[API, PEER]);
    let id = call(&mut stage, "HEAD /api/list-tokens");
    answer(&mut stage, 0, &told("[{\"a\":1}]"));
    stage.assert_status(id, 200);
    assert!(stage.text(id).ends_with("\r\n\r\n"));
    assert_none_wait(&stage);
    let id = call(&mut stage, "GET /api/list-tokens");
    assert_eq!(stage.calls.len(), 1);
    stage.lose(id);
    assert_none_wait(&stage);
}

/// From when the peers are asked until all that they told is written.
#[test]
fn so_many_lists_of_the_whole_are_put_together_at_once() {
    let mut stage = Stage::new(&[API, PEER]);
    let ids: Vec<_> = (0..9)
        .map(|_| call(&mut stage, "GET /api/list-tokens"))
        .collect();
    assert_eq!(stage.calls.len(), 8);
    for id in &ids[..8] {
        assert_eq!(stage.text(*id), "");
    }
    stage.assert_status(ids[8], 503);
    answer(&mut stage, 0, &told("[]"));
    call(&mut stage, "GET /api/list-tokens");
    assert_eq!(stage.calls.len(), 8, "there is room again");
}
