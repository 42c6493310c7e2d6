//! UDP clients of every kind through the real binary: MPEG-TS alone, RTP with corrections, and what
//! each of them has got.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};

use crate::support::datagrams::{
    PACKET_BYTES, admit, admit_as, assert_silent, client, clients_in_a_row, datagram, receive,
    start, transport,
};
use crate::support::streaming::{Source, Viewer};
use crate::support::until;
use tollgate::rtp::Packet;

/// Returns a transport stream of `count` times seven packets.
fn media(count: u8) -> Vec<u8> {
    let each = (0..count).map(|number| transport(number, Some(f64::from(number) * 0.02)));
    each.collect::<Vec<_>>().concat()
}

#[test]
fn who_asks_for_it_gets_transport_packets_without_rtp() {
    let (server, _) = start();
    let (bare, rtp) = (client(), client());
    admit_as(&server, "tv", "http,udp", &[&bare]);
    admit_as(&server, "tv", "rtp-udp", &[&rtp]);
    let media = media(20);
    let mut source = Source::open(server.address(), "/stream/tv");
    // Begun within a packet.
    source.send(&media[100..]);
    assert_eq!(source.finish().status(), 200);
    let expected = &media[PACKET_BYTES..];
    for (client, header_bytes) in [(&bare, 0), (&rtp, 12)] {
        let mut got = Vec::new();
        while got.len() < expected.len() {
            let datagram = receive(client);
            let payload = &datagram[header_bytes..];
            let is_last = got.len() + payload.len() == expected.len();
            assert!(payload.len() == 7 * PACKET_BYTES || is_last);
            got.extend_from_slice(payload);
        }
        assert!(got == expected, "the packets differ");
    }
    assert_silent(&bare, &server);
}

#[test]
fn a_client_goes_by_what_it_was_given_last() {
    let (server, _) = start();
    let socket = client();
    admit(&server, "tv", &[&socket]);
    let target = format!(
        "/api/add-token?type=udp&sessionid=tv&udp-clients={}",
        socket.local_addr().expect("its address")
    );
    // It is not new.
    assert_eq!(server.request("POST", &target).status(), 200);
    assert_eq!(server.tokens().len(), 2);
    let mut source = Source::open(server.address(), "/stream/tv");
    source.send(&media(2));
    assert_eq!(receive(&socket)[..], media(1)[..]);
}

/// What a receiver makes of what it gets: each packet by its number.
fn packets(socket: &UdpSocket, count: usize) -> BTreeMap<u16, Vec<u8>> {
    let each = (0..count).map(|_| {
        let datagram = receive(socket);
        let packet = Packet::parse(&datagram).expect("RTP");
        (packet.sequence_number, datagram)
    });
    each.collect()
}

/// Row and column FEC go to the ports that receivers expect, and repair losses. All datagrams have
/// one size, also the last one.
#[test]
fn corrections_go_beside_rtp_to_who_asks_for_them() {
    let (server, _) = start();
    let [player, columns, rows] = clients_in_a_row();
    let other = client();
    admit_as(&server, "tv", "http,rtp-udp&fec=5x4", &[&player]);
    admit_as(&server, "tv", "rtp-udp", &[&other]);
    let whole = media(40);
    let mut source = Source::open(server.address(), "/stream/tv");
    source.send(&whole[..whole.len() - 3 * PACKET_BYTES]);
    assert_eq!(source.finish().status(), 200);
    let received = packets(&player, 40);
    assert!(received.values().all(|datagram| datagram.len() == 1328));
    // Numbers begin anywhere, and again at 0 after the highest.
    let is_last = |number: &u16| !received.contains_key(&number.wrapping_add(1));
    let (_, last) = received
        .iter()
        .find(|(number, _)| is_last(number))
        .expect("the last");
    let padding: Vec<&[u8]> = last[1328 - 3 * PACKET_BYTES..]
        .chunks(PACKET_BYTES)
        .collect();
    assert!(
        padding
            .iter()
            .all(|packet| packet.starts_with(&[0x47, 0x1f, 0xff, 0x10]))
    );
    // Of a row the exclusive or is nothing.
    for _ in 0..8 {
        let row = receive(&rows);
        let base = u16::from_be_bytes([row[12], row[13]]);
        assert_eq!((row.len(), row[24], row[25], row[26]), (1344, 0x40, 1, 5));
        let mut sum = row[28..].to_vec();
        for number in 0..5 {
            let packet = &received[&base.wrapping_add(number)];
            sum.iter_mut()
                .zip(&packet[12..])
                .for_each(|(sum, byte)| *sum ^= byte);
        }
        assert!(sum.iter().all(|byte| *byte == 0), "a row of {base}");
    }
    // The corrections of the last matrix come, too, although nothing follows it.
    for _ in 0..10 {
        let column = receive(&columns);
        assert_eq!(
            (column.len(), column[24], column[25], column[26]),
            (1344, 0, 5, 4)
        );
    }
    packets(&other, 40);
    assert_silent(&other, &server);
}

#[test]
fn what_each_client_has_got_is_told() {
    let (server, _) = start();
    let (one, two) = (client(), client());
    // Nothing can be sent there from an address of this host alone.
    let nowhere: SocketAddr = "198.51.100.1:9".parse().expect("an address");
    admit(&server, "tv", &[&one]);
    admit_as(&server, "tv", "udp", &[&two]);
    let target = format!("/api/add-token?type=udp&sessionid=tv&udp-clients={nowhere}");
    assert_eq!(server.request("POST", &target).status(), 201);
    let mut source = Source::open(server.address(), "/stream/tv");
    source.send(&media(20));
    for _ in 0..20 {
        receive(&one);
        receive(&two);
    }
    let count = |client: SocketAddr, of: &str| {
        let stream = server.stream("tv").expect("it runs");
        let rows = stream["udp"].as_array().expect("rows").clone();
        assert_eq!(rows.len(), 3);
        let row = rows
            .into_iter()
            .find(|row| row["address"] == client.to_string());
        row.expect("a row")[of].as_u64().expect("a number")
    };
    for socket in [&one, &two] {
        let client = socket.local_addr().expect("its address");
        assert_eq!((count(client, "sent"), count(client, "dropped")), (20, 0));
        let row =
            format!("tollgate_udp_client_datagrams{{client=\"{client}\",state=\"sent\"}} 20\n");
        let metrics = server.request("GET", "/metrics").text();
        assert!(metrics.contains(&row), "{metrics}");
    }
    until("all that was for nobody is dropped", || {
        (count(nowhere, "sent") == 0 && count(nowhere, "dropped") == 20).then_some(())
    });
}

/// MPEG-TS without RTP comes in from the address that a token for it names, is brought into step,
/// and goes on to everybody: in RTP, alone, and over HTTP.
#[test]
fn transport_packets_without_rtp_come_in() {
    let (server, to) = start();
    let (encoder, bare, rtp) = (client(), client(), client());
    admit_as(&server, "cam", "http,udp", &[&encoder, &bare]);
    admit_as(&server, "cam", "rtp-udp", &[&rtp]);
    let mut media = media(40);
    // As some encoders cut it, and begun within a packet.
    media.drain(..100);
    let datagrams: Vec<&[u8]> = media.chunks(1000).collect();
    encoder.send_to(datagrams[0], to).expect("sent");
    let stream = until("it runs", || server.stream("cam"));
    assert_eq!(stream["source"]["protocol"], "udp");
    let mut viewer = Viewer::ask(server.address(), "/stream/cam");
    server.await_viewers("cam", 1);
    for datagram in &datagrams[1..] {
        encoder.send_to(datagram, to).expect("sent");
    }
    let whole = &media[PACKET_BYTES - 100..];
    for (client, header_bytes) in [(&bare, 0), (&rtp, 12)] {
        let mut got = Vec::new();
        while got.len() < whole.len() - 7 * PACKET_BYTES {
            got.extend_from_slice(&receive(client)[header_bytes..]);
        }
        assert!(whole.starts_with(&got), "the packets differ");
    }
    assert_eq!(viewer.head().field("content-type"), Some("video/mp2t"));
    let got = viewer.read(20 * PACKET_BYTES);
    let begins = whole.windows(got.len()).any(|piece| piece == got);
    assert!(begins && got[0] == 0x47, "it is not in step");
    assert_silent(&encoder, &server);
}

/// A source without RTP is one by its address alone: nobody else is, and it sends no RTP.
#[test]
fn only_who_is_named_for_it_sends_transport_packets() {
    let (server, to) = start();
    let (encoder, other, stranger) = (client(), client(), client());
    admit_as(&server, "cam", "http,udp", &[&encoder]);
    admit(&server, "rtp", &[&other]);
    let packets = media(1);
    for socket in [&stranger, &other] {
        socket.send_to(&packets, to).expect("sent");
    }
    for number in 0..2 {
        let rtp = datagram(33, number, 7, &packets);
        encoder.send_to(&rtp, to).expect("sent");
    }
    let count = |reason: &str| {
        let text = server.request("GET", "/metrics").text();
        let row = format!("tollgate_datagrams_dropped_total{{reason=\"{reason}\"}} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&row));
        value.expect("a row").parse::<u64>().expect("a number")
    };
    until("they are dropped", || {
        let is_all = count("stranger") == 1 && count("malformed") == 1;
        (is_all && count("second_source") == 2).then_some(())
    });
    assert!(server.streams().is_empty());
    encoder.send_to(&packets, to).expect("sent");
    until("it runs", || server.stream("cam"));
    let revoke = "/api/revoke-token?sessionid=cam";
    assert_eq!(server.request("DELETE", revoke).status(), 200);
    server.await_end_of_stream("cam");
    for socket in [&encoder, &other, &stranger] {
        assert_silent(socket, &server);
    }
}

#[test]
fn what_cannot_be_asked_for_is_refused_in_words() {
    let (server, rtp) = start();
    let two_below = format!("127.0.0.1:{}", rtp.port() - 2);
    let add = |matrix: &str, client: &str| {
        let target = "/api/add-token?sessionid=s&type=rtp-udp";
        server.request(
            "POST",
            &format!("{target}&fec={matrix}&udp-clients={client}"),
        )
    };
    add("5x5", &two_below).assert_problem(400, &[&two_below, "own RTP address"]);
    for (port, rows) in [4, 5, 6, 7, 4].into_iter().enumerate() {
        let client = format!("127.0.0.1:{}", 6000 + port);
        assert_eq!(add(&format!("4x{rows}"), &client).status(), 201);
    }
    add("4x8", "127.0.0.1:6005").assert_problem(503, &["4 different matrices"]);
}
