//! RTP-UDP through the real binary: who gets datagrams, whose are taken, and that nothing is ever
//! sent to anybody else.

use crate::support;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::support::datagrams::{
    PACKET_BYTES, admit, assert_silent, client, datagram, receive, start, transport,
};
use crate::support::server::Server;
use crate::support::streaming::{Source, Viewer, chunk};
use crate::support::until;
use tollgate::rtp::Packet;

#[test]
fn a_body_goes_out_to_each_client_whole_and_in_order() {
    let (server, _) = start();
    let clients = [client(), client(), client()];
    admit(&server, "tv", &[&clients[0], &clients[1], &clients[2]]);
    let media: Vec<u8> = (0..40)
        .flat_map(|number| transport(number, Some(f64::from(number) * 0.02)))
        .collect();
    let mut source = Source::open(server.address(), "/stream/tv");
    // Cut where nothing begins, and begun within a packet.
    source.send(&media[100..5_000]);
    media[5_000..]
        .chunks(777)
        .for_each(|piece| source.send(piece));
    assert_eq!(source.finish().status(), 200);
    let expected = &media[PACKET_BYTES..];
    for client in &clients {
        let mut got = Vec::new();
        let mut next = None;
        while got.len() < expected.len() {
            let datagram = receive(client);
            let packet = Packet::parse(&datagram).expect("RTP");
            assert_eq!(packet.payload_type, 33);
            assert!(
                next.is_none_or(|next| next == packet.sequence_number),
                "a datagram is missing"
            );
            assert!(
                packet.payload.len() == 7 * PACKET_BYTES
                    || got.len() + packet.payload.len() == expected.len()
            );
            next = Some(packet.sequence_number.wrapping_add(1));
            got.extend_from_slice(packet.payload);
        }
        assert!(got == expected, "the packets differ");
    }
}

#[test]
fn a_file_that_is_put_at_once_goes_out_at_the_pace_of_its_clock() {
    let (server, _) = start();
    let client = client();
    admit(&server, "file", &[&client]);
    let media: Vec<u8> = (0..50)
        .flat_map(|number| transport(number, Some(f64::from(number) * 0.04)))
        .collect();
    let mut source = Source::open(server.address(), "/stream/file");
    let began = Instant::now();
    source.send(&media);
    assert_eq!(source.finish().status(), 200);
    for _ in 0..50 {
        receive(&client);
    }
    // Two seconds of media: a burst would be over in no time, and only a lower bound, of a time
    // that begins before the first can go out, cannot fail on a slow machine.
    assert!(
        began.elapsed() > Duration::from_millis(1_700),
        "it went out in {:?}",
        began.elapsed()
    );
}

#[test]
fn rtp_comes_in_from_a_client_and_goes_to_the_others_and_to_viewers() {
    let (server, rtp) = start();
    let (camera, first, second) = (client(), client(), client());
    admit(&server, "cam", &[&camera, &first, &second]);
    let sent: Vec<Vec<u8>> = (0..20)
        .map(|number| {
            datagram(
                33,
                65_530u16.wrapping_add(number),
                7,
                &transport(number as u8, None),
            )
        })
        .collect();
    camera.send_to(&sent[0], rtp).expect("sent");
    camera.send_to(&sent[1], rtp).expect("sent");
    until("two packets in sequence begin a stream", || {
        server.stream("cam")
    });
    let mut viewer = Viewer::ask(server.address(), "/stream/cam");
    server.await_viewers("cam", 1);
    for datagram in &sent[2..] {
        camera.send_to(datagram, rtp).expect("sent");
    }
    for client in [&first, &second] {
        let got: Vec<Vec<u8>> = (0..20).map(|_| receive(client)).collect();
        assert!(got == sent, "what goes out is not what came in");
    }
    let stream = server.stream("cam").expect("it runs");
    assert_eq!(stream["source"]["protocol"], "rtp-udp");
    assert_eq!(
        stream["source"]["address"],
        camera.local_addr().expect("its address").to_string()
    );
    assert_eq!(
        (&stream["udp_clients"], &stream["content_type"]),
        (&2.into(), &"video/mp2t".into())
    );
    assert_eq!(viewer.head().field("content-type"), Some("video/mp2t"));
    let live: Vec<u8> = (2..20).flat_map(|number| transport(number, None)).collect();
    let mut got = viewer.read(live.len());
    // It may have been there before the first two had been unwrapped.
    if !live.ends_with(&got) {
        got = got.split_off(PACKET_BYTES * 14);
    }
    assert!(live.starts_with(&got) || live.ends_with(&got));
    let goodbye = [0x80, 201, 0, 1, 0, 0, 0, 7, 0x81, 203, 0, 1, 0, 0, 0, 7];
    camera.send_to(&goodbye, rtp).expect("sent");
    server.await_end_of_stream("cam");
    assert_silent(&camera, &server);
}

#[test]
fn disorder_loss_and_repetition_are_mended_for_viewers() {
    let (server, rtp) = start();
    let camera = client();
    admit(&server, "cam", &[&camera]);
    let packet = |number: u16| datagram(33, number, 7, &transport(number as u8, None));
    for number in [1, 2] {
        camera.send_to(&packet(number), rtp).expect("sent");
    }
    until("it runs", || server.stream("cam"));
    let mut viewer = Viewer::ask(server.address(), "/stream/cam");
    server.await_viewers("cam", 1);
    // 6 never comes; the rest comes twice, late or early, and none so late that it is waited for no
    // longer.
    server.all_at_once(|| {
        for number in [4, 3, 3, 5, 7, 9, 8, 4] {
            camera.send_to(&packet(number), rtp).expect("sent");
        }
    });
    let expected: Vec<u8> = [3, 4, 5, 7, 8, 9]
        .into_iter()
        .flat_map(|number| transport(number, None))
        .collect();
    let mut got = viewer.read(expected.len());
    while !expected.ends_with(&got[got.len() - PACKET_BYTES..]) {
        got.extend(viewer.read(PACKET_BYTES));
    }
    assert!(
        got.ends_with(&expected),
        "the viewer's packets are not in order"
    );
    let disorder = || server.stream("cam").expect("it runs")["source"]["packets"].clone();
    assert_eq!(disorder(), serde_json::json!({"late": 2, "lost": 1}));
    let text = server.request("GET", "/metrics").text();
    for row in ["{kind=\"late\"} 2\n", "{kind=\"lost\"} 1\n"] {
        assert!(
            text.contains(&format!("tollgate_rtp_disorder_total{row}")),
            "{text}"
        );
    }
}

#[test]
fn revoking_stops_datagrams_and_adding_starts_them() {
    let (server, _) = start();
    let (first, second) = (client(), client());
    admit(&server, "tv", &[&first]);
    let mut source = Source::open(server.address(), "/stream/tv");
    source.send(&transport(0, None));
    source.send(&transport(1, None));
    receive(&first);
    admit(&server, "tv", &[&second]);
    source.send(&transport(2, None));
    receive(&second);
    assert_eq!(
        server
            .request("DELETE", "/api/revoke-token?sessionid=tv")
            .status(),
        200
    );
    for socket in [&first, &second] {
        socket.set_nonblocking(true).expect("an option");
        while socket.recv_from(&mut [0; 2048]).is_ok() {}
        socket.set_nonblocking(false).expect("an option");
    }
    source.send(&transport(3, None));
    until("it has arrived", || {
        let stream = server.stream("tv").expect("it runs");
        (stream["bytes_received"] == 4 * 7 * PACKET_BYTES && stream["udp_clients"] == 0)
            .then_some(())
    });
    assert_silent(&first, &server);
    assert_silent(&second, &server);
}

/// Whoever sends from the source's address must know its SSRC; another counts for nothing while it
/// sends.
#[test]
fn another_ssrc_does_not_end_a_stream() {
    let (server, rtp) = start();
    let (camera, player) = (client(), client());
    admit(&server, "cam", &[&camera, &player]);
    let mut sent = Vec::new();
    for number in 0..20 {
        let own = datagram(33, number, 7, &transport(number as u8, None));
        // The others come while it has just been heard.
        server.all_at_once(|| {
            camera.send_to(&own, rtp).expect("sent");
            for other in [number, number + 1].into_iter().filter(|_| number > 0) {
                let spoofed = datagram(33, other, 8, &transport(99, None));
                camera.send_to(&spoofed, rtp).expect("sent");
            }
        });
        sent.push(own);
        if number == 0 {
            continue;
        }
        let came = receive(&player) == sent[usize::from(number) - 1];
        assert!(came, "what goes out is not what came in");
    }
    assert!(receive(&player) == sent[19]);
    let goodbye = [0x81, 203, 0, 1, 0, 0, 0, 7];
    camera.send_to(&goodbye, rtp).expect("sent");
    server.await_end_of_stream("cam");
    server.await_line(&["stream-begins"]);
    let begun = server.stderr();
    let begun = begun.iter().filter(|line| line.contains("stream-begins"));
    assert_eq!(begun.count(), 1);
    // It said that it leaves: another counts, when a second has passed since it began.
    let mut numbers = 0..;
    until("the other runs", || {
        let other = datagram(33, numbers.next()?, 8, &transport(1, None));
        camera.send_to(&other, rtp).expect("sent");
        server.stream("cam")
    });
}

#[test]
fn publish_from_holds_for_rtp() {
    let server = Server::gated(&["--rtp=127.0.0.1:0", "--publish-from=127.0.0.2"]);
    let rtp = server.rtp.expect("it says where RTP is");
    let (outside, player) = (client(), client());
    let inside = UdpSocket::bind("127.0.0.2:0").expect("a free port");
    admit(&server, "cam", &[&outside, &inside, &player]);
    for number in 0..4 {
        let packet = datagram(33, number, 7, &transport(0, None));
        outside.send_to(&packet, rtp).expect("sent");
    }
    let text = until("they have been dropped", || {
        let text = server.request("GET", "/metrics").text();
        text.contains("{reason=\"outside\"} 4\n").then_some(text)
    });
    assert!(text.contains("tollgate_streams_total 0\n"), "{text}");
    for number in 0..2 {
        let packet = datagram(33, number, 7, &transport(0, None));
        inside.send_to(&packet, rtp).expect("sent");
        // It may receive all the same.
        assert_eq!(
            receive(if number == 0 { continue } else { &outside }),
            datagram(33, 0, 7, &transport(0, None))
        );
    }
    assert!(server.stream("cam").is_some());
}

#[test]
fn a_host_under_two_names_gets_everything_once() {
    let (server, _) = start();
    let player = client();
    let port = player.local_addr().expect("its address").port();
    let target = format!(
        "/api/add-token?type=http,rtp-udp&sessionid=tv&udp-clients=127.0.0.1:{port},localhost:{port}"
    );
    assert_eq!(server.request("POST", &target).status(), 201);
    let mut source = Source::open(server.address(), "/stream/tv");
    source.send(&[transport(0, None), transport(1, None)].concat());
    let stream = until("it is known", || {
        let stream = server.stream("tv")?;
        (stream["format"] == "mpegts").then_some(stream)
    });
    assert_eq!(stream["udp_clients"], 1);
    let numbers = [receive(&player), receive(&player)]
        .map(|datagram| Packet::parse(&datagram).expect("RTP").sequence_number);
    assert_eq!(numbers[0].wrapping_add(1), numbers[1]);
    assert_silent(&player, &server);
}

#[test]
fn revoking_a_source_ends_its_stream_at_once() {
    let (server, rtp) = start();
    let camera = client();
    admit(&server, "cam", &[&camera]);
    for number in 0..2 {
        camera
            .send_to(&datagram(33, number, 7, &transport(0, None)), rtp)
            .expect("sent");
    }
    until("it runs", || server.stream("cam"));
    let mut viewer = Viewer::ask(server.address(), "/stream/cam");
    server.await_viewers("cam", 1);
    assert_eq!(
        server
            .request("DELETE", "/api/revoke-token?sessionid=cam")
            .status(),
        200
    );
    assert!(server.stream("cam").is_none());
    viewer.head();
    let (_, end) = viewer.read_to_end();
    assert_eq!(end, support::response::End::CutShort);
}

/// No datagram of any sender gets an answer: the server cannot be turned on somebody else.
#[test]
fn nobody_is_ever_answered() {
    let (server, rtp) = start();
    let (stranger, named) = (client(), client());
    admit(&server, "cam", &[&named]);
    let good = datagram(33, 5, 7, &transport(0, None));
    let mut kinds: Vec<Vec<u8>> = (0..good.len().min(64))
        .map(|length| good[..length].to_vec())
        .collect();
    for bit in 0..128 {
        let mut flipped = good.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        kinds.push(flipped);
    }
    kinds.extend((0..=255).map(|byte| vec![byte; 60]));
    kinds.push([0x81, 203, 0, 1, 0, 0, 0, 7].to_vec());
    kinds.push(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".to_vec());
    // The server has judged each before the next, so none is lost in a full buffer.
    for (index, kind) in kinds.iter().enumerate() {
        stranger.send_to(kind, rtp).expect("sent");
        until("the stranger's datagram is dropped", || {
            (dropped(&server, "stranger") == index as u64 + 1).then_some(())
        });
    }
    for kind in &kinds {
        named.send_to(kind, rtp).expect("sent");
        dropped(&server, "malformed");
    }
    assert!(dropped(&server, "malformed") > 0, "the named one was heard");
    // The last one is judged before the call that these make is answered.
    assert_silent(&stranger, &server);
    assert_silent(&named, &server);
}

/// How many datagrams were dropped for this reason.
fn dropped(server: &Server, reason: &str) -> u64 {
    let text = server.request("GET", "/metrics").text();
    let name = format!("tollgate_datagrams_dropped_total{{reason=\"{reason}\"}} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&name));
    value.and_then(|value| value.parse().ok()).expect("the row")
}

#[test]
fn a_client_that_cannot_be_one_is_refused() {
    let (server, rtp) = start();
    for (client, what) in [
        (rtp.to_string(), "own"),
        ("[::1]:5004".to_owned(), "IP version"),
        ("no.such.name.invalid:5004".to_owned(), "resolve"),
    ] {
        let target = format!("/api/add-token?type=rtp-udp&sessionid=s&udp-clients={client}");
        server
            .request("POST", &target)
            .assert_problem(400, &[what, &client]);
    }
    assert!(server.tokens().is_empty());
    // Where there is no RTP, nobody can.
    let without = Server::gated(&["--rtp=off"]);
    let target = "/api/add-token?type=http,rtp-udp&sessionid=s&udp-clients=127.0.0.1:5004";
    let refused = without.request("POST", target);
    refused.assert_problem(400, &["127.0.0.1:5004", "RTP is off here", "--rtp"]);
    assert!(without.tokens().is_empty());
    let named = server.request(
        "POST",
        "/api/add-token?type=rtp-udp&sessionid=s&udp-clients=localhost:5004",
    );
    assert_eq!(named.status(), 201);
    assert_eq!(named.json()["tokens"][0]["host"], "localhost");
}

/// A live source that is late sends several chunks at once, each with a clock reference that has
/// passed already.
#[test]
fn chunks_that_come_late_and_together_stop_nothing() {
    let (server, _) = start();
    let socket = client();
    admit(&server, "late", &[&socket]);
    let mut source = Source::open(server.address(), "/stream/late");
    source.send(&transport(0, Some(0.0)));
    source.send(&transport(1, Some(0.04)));
    let _ = receive(&socket);
    // So late that its next references have passed, and not so late that its clock is set anew.
    std::thread::sleep(Duration::from_millis(150));
    let mut source = source.into_client();
    let chunks: Vec<u8> = (2..60_u8)
        .flat_map(|counter| {
            chunk(&transport(counter, Some(0.04 + f64::from(counter) * 0.002)).repeat(7))
        })
        .collect();
    source.send(chunks);
    assert_eq!(server.request("GET", "/healthz").status(), 200);
    let _ = receive(&socket);
}

/// What the server sent there would come back to it, and be taken for a source's.
#[test]
fn the_servers_own_address_is_no_client_whichever_of_the_machines_it_is() {
    // Nothing is sent: the kernel only says by which address it would go.
    let own = UdpSocket::bind("0.0.0.0:0").expect("a free port");
    let outside = own.connect("198.51.100.1:9").and(own.local_addr()).ok();
    let server = Server::gated(&["--rtp=0.0.0.0:0"]);
    let port = server.rtp.expect("it says where RTP is").port();
    let add = |host: &str, port: u16| {
        let client = format!("udp-clients={host}:{port}");
        server.request(
            "POST",
            &format!("/api/add-token?type=rtp-udp&sessionid=s&{client}"),
        )
    };
    let hosts = outside.map(|outside| outside.ip().to_string());
    for host in hosts.into_iter().chain(["127.0.0.1".to_owned()]) {
        add(&host, port).assert_problem(400, &["the server's own RTP address"]);
        assert!(add(&host, port ^ 2).status() < 300);
    }
    assert_eq!(add("198.51.100.1", port).status(), 201);
}

#[test]
fn the_servers_own_rtcp_address_is_no_client() {
    // Another program may have the port above the first of them.
    let is_refused = (0..5).any(|_| {
        let (server, rtp) = start();
        let above = format!("udp-clients=127.0.0.1:{}", rtp.port() + 1);
        let target = format!("/api/add-token?type=rtp-udp&sessionid=s&{above}");
        server.request("POST", &target).status() == 400
    });
    assert!(is_refused);
}
