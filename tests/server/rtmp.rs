//! `--rtmp`: sources by RTMP. What a publisher sends is a recording of ffmpeg.

use std::io::Write;
use std::net::TcpStream;

use crate::support::client::Client;
use crate::support::events::Follower;
use crate::support::server::Server;
use crate::support::streaming::{Source, Viewer};
use crate::support::until;

const SENT: &[u8] = include_bytes!("../rtmp/ffmpeg.rtmp");
const FLV: &[u8] = include_bytes!("../rtmp/ffmpeg.flv");
/// Bytes of the recording in front of its last command, which ends the stream.
const MEDIA_END: usize = SENT.len() - 100;

fn server(options: &[&str]) -> Server {
    let server = Server::gated(&[&["--rtmp=127.0.0.1:0", "--wait=60"], options].concat());
    server.admit("demo");
    server
}

fn publisher(server: &Server) -> Client {
    Client::connect(server.rtmp.expect("it listens for RTMP"))
}

/// What a publisher of another stream sends. The name has 4 bytes.
fn named(name: &str) -> Vec<u8> {
    // To the end of a message.
    let mut bytes = SENT[..MEDIA_END + 6].to_vec();
    while let Some(at) = bytes.windows(4).position(|it| it == b"demo") {
        bytes[at..at + 4].copy_from_slice(name.as_bytes());
    }
    bytes
}

/// Asks to publish, in a command of its own.
fn asking_again(name: &str) -> Vec<u8> {
    let body = b"\x02\0\x07publish\0\x40\0\0\0\0\0\0\0\x05\x02\0\x04";
    let head = [3, 0, 0, 0, 0, 0, (body.len() + 4) as u8, 20, 1, 0, 0, 0];
    [&head[..], body, name.as_bytes()].concat()
}

/// Reads the answers to the end of the connection.
fn told(publisher: &mut Client) -> String {
    String::from_utf8_lossy(&publisher.rest()).into_owned()
}

#[test]
fn a_stream_by_rtmp_is_the_flv_that_a_put_would_be() {
    let server = server(&[]);
    let mut viewer = Viewer::ask(server.address(), "/stream/demo");
    let mut publisher = publisher(&server);
    publisher.send(&SENT[..MEDIA_END]);
    let row = until("it runs", || server.stream("demo"));
    assert_eq!(row["source"]["protocol"], "rtmp");
    assert_eq!(
        row["source"]["user_agent"],
        "FMLE/3.0 (compatible; Lavf59.27.100)"
    );
    assert_eq!(row["content_type"], "video/x-flv");
    assert_eq!(row["format"], "flv");
    publisher.send(&SENT[MEDIA_END..]);
    viewer.assert_rest(FLV);
    server.await_line(&["stream-ends", "the source is complete"]);
    let told = told(&mut publisher);
    assert!(told.contains("NetStream.Publish.Start"), "{told}");
}

/// What ends without a command broke: with `--hold` its viewers wait for the next source.
#[test]
fn a_publisher_that_breaks_off_may_come_back() {
    let server = server(&["--hold=60"]);
    let mut viewer = Viewer::ask(server.address(), "/stream/demo");
    let mut first = publisher(&server);
    first.send(&SENT[..MEDIA_END]);
    let begin = viewer.read(2_000);
    assert!(FLV.starts_with(&begin));
    first.reset();
    until("it is held", || {
        server.stream("demo").filter(|row| row["held"] == true)
    });
    let mut second = publisher(&server);
    second.send(SENT);
    server.await_line(&["stream-goes-on"]);
    server.await_end_of_stream("demo");
    let (rest, _) = viewer.read_to_end();
    assert!(begin.len() + rest.len() > FLV.len(), "of both sources");
}

#[test]
fn a_publisher_that_is_refused_is_told_why() {
    let server = server(&[]);
    let mut follower = Follower::ask(server.address(), "", "");
    follower.until("snapshot-end");
    server.add_token("sessionid=outs&direction=out");
    for (name, code, words) in [
        ("none", "Denied", "has no http token"),
        ("outs", "Denied", "is for watching only"),
        ("a/bc", "BadName", "has a '/'"),
        ("a%xy", "BadName", "do not follow a '%'"),
    ] {
        let mut publisher = publisher(&server);
        publisher.send(named(name));
        let told = told(&mut publisher);
        assert!(
            told.contains(&format!("NetStream.Publish.{code}")),
            "{told}"
        );
        assert!(told.contains(words), "{told}");
        assert!(
            !told.contains("NetStream.Publish.Start\0\0\x09") && server.stream("demo").is_none()
        );
    }
    let refused = follower.until("publisher-refused").pop().expect("it came");
    assert_eq!(refused.data["status"], 403);
    // Somebody else publishes.
    let mut first = publisher(&server);
    first.send(&SENT[..MEDIA_END]);
    until("it runs", || server.stream("demo"));
    let mut second = publisher(&server);
    second.send(&SENT[..MEDIA_END]);
    let told = told(&mut second);
    assert!(told.contains("NetStream.Publish.BadName"), "{told}");
    // A block answers the publisher that comes back.
    server.request("DELETE", "/api/abort-stream?sessionid=demo&block=60");
    first.rest();
    let mut again = publisher(&server);
    again.send(&SENT[..MEDIA_END]);
    let told = self::told(&mut again);
    assert!(told.contains("NetStream.Publish.Denied"), "{told}");
    assert!(told.contains("has blocked this session"), "{told}");
}

/// The server refuses a wrong key by RTMP as it does by PUT. The words are the same for each fault of
/// the key. Each guess costs a connection and counts as a refusal. Both ways share one ration of lines.
#[test]
fn keys_that_are_guessed_are_refused_as_those_of_a_put() {
    const GUESSES: usize = 20;
    let server = server(&["--log-lines=1000"]);
    server.add_token("sessionid=outs&direction=out");
    server.add_token("sessionid=keyy&for=demo&direction=in");
    server.request("DELETE", "/api/abort-stream?sessionid=demo&block=600");
    server.add_token("sessionid=gone");
    server.request("DELETE", "/api/revoke-token?sessionid=gone");
    let refusals = || {
        let metrics = server.request("GET", "/metrics").text();
        let all = metrics
            .lines()
            .filter(|line| line.starts_with("tollgate_refusals_total{"));
        let counts = all.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        counts.sum::<u64>()
    };
    for name in ["none", "outs", "keyy", "gone"] {
        let before = refusals();
        let put = Client::connect(server.address()).request("PUT", &format!("/stream/{name}"), &[]);
        let detail = put.text();
        let detail = detail.split("\"detail\":\"").nth(1).expect("words");
        let detail = detail.split('"').next().expect("words");
        let by_put = refusals() - before;
        assert_eq!(by_put, 1, "{name}");
        // A second guess follows in the same write.
        let mut publisher = publisher(&server);
        publisher.send([&named(name)[..], &asking_again("demo")].concat());
        let told = told(&mut publisher);
        assert_eq!(
            told.matches("NetStream.Publish.Denied").count(),
            1,
            "{told}"
        );
        assert!(told.contains(detail), "{detail}: {told}");
        assert_eq!(refusals() - before - by_put, by_put, "{name}");
    }
    let lines = || {
        let lines = server.stderr();
        let refused = lines
            .iter()
            .filter(|line| line.contains("publisher-refused"));
        refused.count()
    };
    for number in 0..GUESSES {
        let mut publisher = publisher(&server);
        publisher.send(named(&format!("n{number:03}")));
        publisher.rest();
    }
    until("the host's ration is used up", || {
        (lines() >= 16).then_some(())
    });
    for number in 0..GUESSES {
        server.request("PUT", &format!("/stream/p{number:03}"));
    }
    assert!(lines() < 8 + 2 * GUESSES, "{}", lines());
}

/// Publishers that have not said a name count for the limit of their host, which holds for PUT, too.
#[test]
fn an_unfinished_handshake_counts_for_its_host() {
    let server = server(&["--connections-per-host=3"]);
    let mut waiting: Vec<Client> = (0..3).map(|_| publisher(&server)).collect();
    for client in &mut waiting {
        client.send(&SENT[..100]);
        until("the handshake is answered", || client.answers());
    }
    let mut publisher = publisher(&server);
    publisher.send(&SENT[..MEDIA_END]);
    publisher.finish_sending();
    let told = told(&mut publisher);
    assert!(told.contains("NetStream.Publish.Denied"), "{told}");
    assert!(told.contains("--connections-per-host"), "{told}");
    assert!(server.stream("demo").is_none());
}

#[test]
fn a_revoked_token_ends_its_publisher() {
    let server = server(&[]);
    let mut publisher = publisher(&server);
    publisher.send(&SENT[..MEDIA_END]);
    until("it runs", || server.stream("demo"));
    server.request("DELETE", "/api/revoke-token?sessionid=demo&abort=1");
    publisher.rest();
    assert!(server.stream("demo").is_none());
}

#[test]
fn a_publisher_that_asks_to_play_is_told_where_the_stream_is() {
    let server = server(&[]);
    let mut publisher = publisher(&server);
    // To the end of a message.
    publisher.send(&SENT[..MEDIA_END + 6]);
    until("it runs", || server.stream("demo"));
    let play = b"\x02\0\x04play\0\0\0\0\0\0\0\0\0\x05\x02\0\x04demo";
    let head = [3, 0, 0, 0, 0, 0, play.len() as u8, 20, 1, 0, 0, 0];
    publisher.send([&head[..], play].concat());
    let told = told(&mut publisher);
    assert!(told.contains("NetStream.Play.Failed"), "{told}");
    server.await_line(&["stream-ends"]);
}

/// Clients that break the rules do not push other lines out of the log.
#[test]
fn a_host_has_few_lines_about_its_broken_connections() {
    let server = server(&[]);
    for _ in 0..40 {
        let mut client = publisher(&server);
        client.send(
            [
                &SENT[..1 + 1536 + 1536],
                &[2, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0, 0, 0, 0, 1],
            ]
            .concat(),
        );
        client.rest();
    }
    server.await_line(&["rtmp-failed", "chunk"]);
    let lines = server.stderr();
    let told = lines.iter().filter(|line| line.contains("rtmp-failed"));
    assert!(told.count() < 40);
}

/// A publisher beyond its bit rate is read later. It may have closed its connection by then.
#[test]
fn the_end_counts_of_a_publisher_that_waits_for_its_bit_rate() {
    let server = server(&[]);
    server.add_token("sessionid=demo&max-bitrate=40000");
    let mut viewer = Viewer::ask(server.address(), "/stream/demo");
    let mut publisher = publisher(&server);
    publisher.send(SENT);
    publisher.finish_sending();
    viewer.assert_rest(FLV);
    server.await_line(&["stream-ends", "the source is complete"]);
}

#[test]
fn a_source_may_take_over_from_a_publisher() {
    let server = server(&["--takeover", "--hold=60"]);
    let _viewer = Viewer::ask(server.address(), "/stream/demo");
    let protocol = || Some(server.stream("demo")?["source"]["protocol"].clone());
    let is_by = |name: &str| until(name, || protocol().filter(|it| it == name));
    let mut first = publisher(&server);
    first.send(&SENT[..MEDIA_END]);
    is_by("rtmp");
    let mut put = Source::open(server.address(), "/stream/demo");
    first.rest();
    put.send(FLV);
    is_by("http");
    let mut second = publisher(&server);
    second.send(&SENT[..MEDIA_END]);
    is_by("rtmp");
}

#[test]
fn what_is_not_rtmp_is_closed_and_the_log_says_what_to_do() {
    let server = server(&[]);
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x16\x03\x01\x02"] {
        let mut client = publisher(&server);
        client.send(bytes);
        assert_eq!(client.rest(), b"");
    }
    server.await_line(&["rtmp-failed", "send that to the port of --listen"]);
    let lines = server.stderr();
    let told = lines.iter().filter(|line| line.contains("rtmp-failed"));
    assert_eq!(told.count(), 1);
}

/// From the first byte to the request for a stream, a client has the time of a head.
#[test]
fn a_slow_handshake_ends() {
    let server = server(&["--head-time=1"]);
    let mut client = publisher(&server);
    client.send(&SENT[..2_000]);
    let told = client.rest();
    assert_eq!(told.len(), 1 + 1536 + 1536);
}

#[test]
fn a_proxy_names_the_publisher() {
    let server = Server::start(&["--rtmp=127.0.0.1:0", "--proxy-protocol=127.0.0.1"]);
    let mut stream = TcpStream::connect(server.rtmp.expect("RTMP")).expect("a connection");
    let header = b"PROXY TCP4 192.0.2.7 192.0.2.1 4000 1935\r\n";
    stream
        .write_all(&[header, &SENT[..MEDIA_END]].concat())
        .expect("it is taken");
    let log = server.await_line(&["stream-begins"]);
    assert!(log.contains("source=192.0.2.7:4000"), "{log}");
}
