//! Batches, clients and the memory of both.

use super::*;

fn udp_out() -> UdpOut {
    udp_out_to(&[("rtp", 1)])
}

fn udp_out_to(clients: &[(&str, u8)]) -> UdpOut {
    let mut udp_out = UdpOut::default();
    set_clients(
        &mut udp_out,
        clients
            .iter()
            .map(|(kind, host)| client(kind, *host))
            .collect(),
    );
    udp_out
}

fn set_clients(udp_out: &mut UdpOut, clients: Rc<[Destination]>) {
    udp_out.set_clients(clients, None, || 7);
}

fn client(kind: &str, host: u8) -> Destination {
    let transport = match kind {
        "rtp" => Transport::Rtp(None),
        "udp" => Transport::Bare,
        matrix => Transport::Rtp(FecMatrix::parse(matrix)),
    };
    Destination {
        address: address(host),
        transport,
    }
}

fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([10, 2, 0, host], 6000))
}

/// Returns RTP datagrams of seven packets each.
fn datagrams(count: u8) -> Vec<u8> {
    let each = (0..count).map(|number| {
        let header = rtp::Packet::header(33, number.into(), 0, 9);
        [&header[..], &[number; rtp::PAYLOAD_BYTES]].concat()
    });
    each.collect::<Vec<_>>().concat()
}

/// Sends all batches. Returns each datagram with its destination.
fn sent(udp_out: &mut UdpOut) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut all = Vec::new();
    while udp_out.next_clients() {
        let batch = udp_out.batch().expect("a batch");
        for to in batch.to {
            let datagrams = batch.bytes.chunks(batch.datagram_bytes);
            all.extend(datagrams.map(|datagram| (*to, datagram.to_vec())));
        }
    }
    all
}

/// While nothing is sent, memory is bounded for datagrams of any sizes, and datagrams that do not
/// fit are counted.
/// Returns the bytes of the waiting datagrams.
fn memory_bytes(udp_out: &UdpOut) -> usize {
    let batches = udp_out.batches.iter();
    let indexes = udp_out.batches.capacity() * size_of::<DatagramBatch>();
    indexes + batches.map(|batch| batch.bytes.capacity()).sum::<usize>()
}

#[test]
fn memory_of_waiting_datagrams_is_bounded() {
    for sizes in [
        &[12][..],
        &[12, 13],
        &[1_328],
        &[1_328, 1_327],
        &[9_000],
        &[65_000],
    ] {
        let mut udp_out = udp_out();
        let mut refused = 0;
        for number in 0..100_000 {
            let datagram = vec![7; sizes[number % sizes.len()]];
            refused += u64::from(!udp_out.forward(&datagram, None));
        }
        let memory_bytes = memory_bytes(&udp_out);
        let memory_bytes_max = WAITING_BYTES_MAX + BATCH_BYTES_MAX.max(sizes[0]);
        assert!(
            memory_bytes <= memory_bytes_max,
            "{sizes:?}: {memory_bytes}"
        );
        assert!(
            memory_bytes > WAITING_BYTES_MAX / 3,
            "{sizes:?}: {memory_bytes}"
        );
        assert!(refused > 0, "{sizes:?}");
        while udp_out.next_clients() {}
        assert!(
            udp_out.is_empty() && udp_out.waiting_bytes == 0,
            "{sizes:?}"
        );
        let (_, figures) = udp_out.figures().next().expect("a client");
        assert_eq!(
            (figures.sent, figures.dropped),
            (100_000 - refused, refused)
        );
    }
}

#[test]
fn datagrams_of_one_size_go_out_together_as_they_came() {
    let mut udp_out = udp_out();
    let whole: Vec<Vec<u8>> = (0..100).map(|number| vec![number; 1_328]).collect();
    for datagram in &whole {
        assert!(udp_out.forward(datagram, None));
    }
    assert!(udp_out.batches.len() < 5);
    let got = sent(&mut udp_out);
    assert!(got.into_iter().map(|(_, datagram)| datagram).eq(whole));
}

/// The list is shared with the token table, and the source gets nothing. If the list changes during
/// a batch, no client gets the batch twice.
#[test]
fn clients_are_shared_and_the_source_gets_nothing() {
    let mut udp_out = UdpOut::default();
    let list: Rc<[Destination]> = (1..=4).map(|host| client("rtp", host)).collect();
    udp_out.set_clients(list.clone(), Some(address(3)), || 7);
    assert!(Rc::ptr_eq(&udp_out.clients, &list));
    assert_eq!(udp_out.client_count(), 3);
    // More clients than one call serves. Two of them leave while the batch is being sent.
    let list: Vec<Destination> = (1..=AT_ONCE_MAX as u8 + 3)
        .map(|host| client("rtp", host))
        .collect();
    set_clients(&mut udp_out, list.clone().into());
    assert!(udp_out.forward(b"one", None) && udp_out.next_clients());
    let first: Vec<SocketAddr> = list[..AT_ONCE_MAX].iter().map(|one| one.address).collect();
    assert_eq!(udp_out.batch().map(|batch| batch.to), Some(&first[..]));
    let changed = [200, 1, 66].into_iter().map(|host| client("rtp", host));
    set_clients(&mut udp_out, changed.collect());
    // The counts are for clients whose indexes have changed.
    udp_out.not_taken(&[1; AT_ONCE_MAX]);
    assert!(udp_out.next_clients());
    let next = [address(200), address(66)];
    assert_eq!(udp_out.batch().map(|batch| batch.to), Some(&next[..]));
    udp_out.not_taken(&[0, 1]);
    assert!(!udp_out.next_clients());
    let figures = udp_out
        .figures()
        .map(|(client, figures)| (client.address, figures.sent, figures.dropped));
    let expected = [
        (address(1), 1, 0),
        (address(200), 1, 0),
        (address(66), 0, 1),
    ];
    assert!(figures.eq(expected));
    udp_out.set_clients([client("rtp", 6)].into(), Some(address(6)), || 7);
    assert!(
        udp_out.forward(b"two", None) && udp_out.is_empty(),
        "nobody is there"
    );
}

/// Each client gets the form that it asked for: RTP, MPEG-TS without RTP, or RTP with FEC of its
/// own matrix.
#[test]
fn each_client_gets_the_form_that_it_asked_for() {
    let clients = [("rtp", 1), ("udp", 2), ("5x4", 3), ("4x4", 4), ("5x4", 5)];
    let media = datagrams(40);
    for is_forwarded in [false, true] {
        let mut udp_out = udp_out_to(&clients);
        if is_forwarded {
            for datagram in media.chunks(DATAGRAM_BYTES) {
                assert!(udp_out.forward(datagram, Some(&datagram[12..])));
            }
        } else {
            udp_out.send(media.clone());
        }
        let all = sent(&mut udp_out);
        let to = |host: u8, above: u16| -> Vec<u8> {
            let mut to = address(host);
            to.set_port(6000 + above);
            let mine = all.iter().filter(|(sent_to, _)| *sent_to == to);
            mine.flat_map(|(_, datagram)| datagram.clone()).collect()
        };
        for (kind, host) in clients {
            let corrections = match kind {
                // The columns of the previous matrix, one per row, and the rows.
                "5x4" => (6, 8),
                "4x4" => (7, 10),
                _ => (0, 0),
            };
            let expected = match kind {
                "udp" => rtp::without_headers(&media),
                _ => media.clone(),
            };
            assert!(to(host, 0) == expected, "{kind}");
            let made = (to(host, 2).len() / 1344, to(host, 4).len() / 1344);
            assert_eq!(made, corrections, "{kind}");
        }
        let counted: u64 = udp_out.figures().map(|(_, figures)| figures.sent).sum();
        assert_eq!(counted, all.len() as u64);
    }
}

#[test]
fn corrections_end_when_their_last_client_leaves() {
    let mut udp_out = udp_out_to(&[("rtp", 1), ("5x4", 3)]);
    assert!(udp_out.has_corrections());
    set_clients(&mut udp_out, [client("rtp", 1), client("udp", 2)].into());
    assert!(!udp_out.has_corrections());
    udp_out.send(datagrams(3));
    assert_eq!(sent(&mut udp_out).len(), 6);
}

/// Sent batches make room for as many bytes, and no more.
#[test]
fn sent_batches_make_room_for_as_many_bytes() {
    let mut udp_out = udp_out();
    let fill = |udp_out: &mut UdpOut| {
        let datagrams = std::iter::repeat_with(|| udp_out.forward(&[7; 1_328], None));
        datagrams.take_while(|fits| *fits).count()
    };
    let at_first = fill(&mut udp_out);
    assert!((300..400).contains(&at_first), "{at_first}");
    for _ in 0..20 {
        // The previous batch is sent, and this one is being sent.
        assert!(udp_out.next_clients());
        let more = fill(&mut udp_out);
        assert!(more <= BATCH_BYTES_MAX / 1_328, "{more}");
        assert!(memory_bytes(&udp_out) <= WAITING_BYTES_MAX + 2 * BATCH_BYTES_MAX);
    }
    // Up to the last byte of the limit.
    let room = WAITING_BYTES_MAX - 2 * size_of::<DatagramBatch>();
    for (bytes, fits) in [(room, true), (room + 1, false)] {
        let mut udp_out = self::udp_out();
        assert_eq!(udp_out.forward(&vec![7; bytes], None), fits, "{bytes}");
    }
}

/// A batch that is being sent does not change. Any other batch of the same kind may grow.
#[test]
fn datagrams_that_arrive_while_a_batch_is_sent_go_into_the_next_one() {
    let clients: Vec<(&str, u8)> = (1..=70).map(|host| ("rtp", host)).collect();
    let mut udp_out = udp_out_to(&clients);
    for byte in [0; 3] {
        assert!(udp_out.forward(&[byte; 100], None));
    }
    assert_eq!(udp_out.batches.len(), 1);
    assert!(udp_out.next_clients());
    for byte in [1; 3] {
        assert!(udp_out.forward(&[byte; 100], None));
    }
    assert_eq!(udp_out.batches.len(), 2);
    let first = udp_out
        .batch()
        .map(|batch| (batch.to.len(), batch.bytes.to_vec()));
    assert_eq!(first, Some((AT_ONCE_MAX, vec![0; 300])));
    // The six clients that are left get this batch, and all clients the next one.
    assert_eq!(sent(&mut udp_out).len(), 6 * 3 + 70 * 3);
    assert!(udp_out.figures().all(|(_, figures)| figures.sent == 6));
}

/// A batch doubles up to the size of one call, and its capacity is at most twice its length.
#[test]
fn a_batch_grows_in_few_steps_up_to_its_limit() {
    for bytes in [12, 188, 1_316, 1_328] {
        let mut udp_out = udp_out();
        let (mut steps, mut capacity) = (0, 0);
        while udp_out.batches.len() < 2 {
            assert!(udp_out.forward(&vec![7; bytes], None));
            let batch = &udp_out.batches[0].bytes;
            let capacity_max = (2 * batch.len()).min(BATCH_BYTES_MAX);
            assert!(batch.len() <= BATCH_BYTES_MAX, "{bytes}");
            assert!(batch.capacity() <= capacity_max, "{bytes}");
            steps += usize::from(batch.capacity() != capacity);
            capacity = batch.capacity();
        }
        assert!(
            udp_out.batches[0].bytes.len() > BATCH_BYTES_MAX - bytes,
            "{bytes}"
        );
        assert!(steps <= 14, "{bytes}: {steps}");
    }
}

/// The source gets nothing, so nothing that would be for it is dropped.
#[test]
fn a_source_among_the_clients_loses_nothing() {
    let mut udp_out = udp_out();
    let clients: Rc<[Destination]> = [client("rtp", 1), client("rtp", 2)].into();
    udp_out.set_clients(clients.clone(), Some(address(2)), || 7);
    assert!(!udp_out.forward(&vec![7; WAITING_BYTES_MAX], None));
    udp_out.set_clients(clients, None, || 7);
    let dropped: Vec<u64> = udp_out
        .figures()
        .map(|(_, figures)| figures.dropped)
        .collect();
    assert_eq!(dropped, [1, 0]);
}

#[test]
fn the_source_is_told_where_it_is_a_client() {
    let mut udp_out = udp_out();
    assert_eq!(udp_out.source(), None);
    let clients: Rc<[Destination]> = [client("rtp", 1), client("rtp", 2)].into();
    for (source, is_client) in [
        (Some(address(2)), true),
        (Some(address(3)), false),
        (None, false),
    ] {
        udp_out.set_clients(clients.clone(), source, || 7);
        assert_eq!(udp_out.source(), source.filter(|_| is_client));
        assert_eq!(udp_out.client_count(), 2 - usize::from(is_client));
    }
}

/// Counted bytes stay when no client is left.
#[test]
fn bytes_are_counted_for_each_who_gets_them() {
    let mut udp_out = udp_out_to(&[("rtp", 1), ("udp", 2), ("rtp", 3)]);
    let datagram = &datagrams(1)[..];
    for _ in 0..5 {
        assert!(udp_out.forward(datagram, Some(&datagram[12..])));
    }
    let all = sent(&mut udp_out);
    let bytes: usize = all.iter().map(|(_, datagram)| datagram.len()).sum();
    assert_eq!(bytes, 5 * (2 * 1_328 + 1_316));
    assert_eq!(udp_out.bytes_sent(), bytes as u64);
    udp_out.clear();
    assert_eq!(
        (udp_out.bytes_sent(), udp_out.client_count()),
        (bytes as u64, 0)
    );
    assert!(udp_out.forward(datagram, None) && udp_out.is_empty());
}

/// Datagrams without payload are not sent to MPEG-TS clients. If one of both forms does not fit,
/// the call says so.
#[test]
fn mpegts_alone_is_of_payloads_and_has_its_own_room() {
    let mut udp_out = udp_out_to(&[("rtp", 1), ("udp", 2)]);
    assert!(udp_out.forward(&[0x80; 12], Some(&[])));
    let to = |udp_out: &mut UdpOut| -> Vec<SocketAddr> {
        let all = sent(udp_out).into_iter();
        all.map(|(to, _)| to).collect()
    };
    assert_eq!(to(&mut udp_out), [address(1)]);
    // The first datagram fits in both forms, the second in one.
    for (room, fits) in [(2 * 3_000, true), (3_000, false), (100, false)] {
        let taken = WAITING_BYTES_MAX - room - 6 * size_of::<DatagramBatch>();
        assert!(udp_out.forward(&vec![1; taken], None));
        assert_eq!(
            udp_out.forward(&[2; 2_012], Some(&[2; 2_000])),
            fits,
            "{room}"
        );
        while udp_out.next_clients() {}
    }
    let dropped: Vec<u64> = udp_out
        .figures()
        .map(|(_, figures)| figures.dropped)
        .collect();
    assert_eq!(dropped, [1, 2]);
}

/// Only media packets are protected, not RTCP. At the end of the stream the remaining FEC packets
/// are sent.
#[test]
fn only_media_is_protected() {
    let mut udp_out = udp_out_to(&[("5x4", 1)]);
    let media = datagrams(20);
    for datagram in media.chunks(DATAGRAM_BYTES) {
        assert!(udp_out.forward(datagram, None));
    }
    assert_eq!(sent(&mut udp_out).len(), 20);
    for datagram in media.chunks(DATAGRAM_BYTES) {
        assert!(udp_out.forward(datagram, Some(&datagram[12..])));
    }
    // Four rows, and the first of five columns.
    assert_eq!(sent(&mut udp_out).len(), 20 + 4 + 1);
    udp_out.finish();
    let last = sent(&mut udp_out);
    assert_eq!(last.len(), 4);
    let columns = SocketAddr::from(([10, 2, 0, 1], 6002));
    assert!(last.iter().all(|(to, _)| *to == columns));
    udp_out.finish();
    assert!(udp_out.is_empty());
}

/// Matrices beyond the limit have no FEC packets.
#[test]
fn matrices_are_bounded() {
    let matrices = ["4x4", "5x4", "6x4", "7x4", "8x4", "9x4"];
    let mut udp_out = udp_out_to(&matrices.map(|matrix| (matrix, 1)));
    assert_eq!(udp_out.corrections.len(), MATRICES_MAX);
    for datagram in datagrams(4).chunks(DATAGRAM_BYTES) {
        assert!(udp_out.forward(datagram, Some(&datagram[12..])));
    }
    let mut rows = sent(&mut udp_out);
    rows.retain(|(to, _)| to.port() == 6004);
    // Four packets are a row of the first matrix only.
    assert_eq!(rows.len(), 1);
}

/// States at the limits are valid, and states beyond them are not.
#[cfg(feature = "handover")]
#[test]
fn a_state_from_another_process_is_checked_at_its_limits() {
    type Told = fn(&mut UdpOut);
    fn batches(udp_out: &mut UdpOut, count: usize, bytes: usize, datagram_bytes: usize) {
        let batch = || DatagramBatch {
            kind: Content::Rtp,
            bytes: vec![1; bytes],
            datagram_bytes,
        };
        udp_out.batches = std::iter::repeat_with(batch).take(count).collect();
    }
    fn matrices(udp_out: &mut UdpOut, count: usize) {
        let matrix = FecMatrix::parse("5x4").expect("a matrix");
        let each = || (matrix, Fec::new(5, 4, 1));
        udp_out.corrections = std::iter::repeat_with(each).take(count).collect();
    }
    // Makes a generator whose matrix is complete, which cannot be.
    fn unfit_matrix(udp_out: &mut UdpOut) {
        let mut told = serde_json::to_value(Fec::new(5, 4, 1)).expect("JSON");
        told["index"] = 20.into();
        matrices(udp_out, 1);
        udp_out.corrections[0].1 = serde_json::from_value(told).expect("corrections");
    }
    const LARGEST: usize = 2 * WAITING_BYTES_MAX - 2 * size_of::<DatagramBatch>();
    let told: [(Told, bool); 15] = [
        (|_| {}, true),
        (|udp_out| udp_out.figures.truncate(2), false),
        (
            |udp_out| udp_out.figures.push(ClientFigures::default()),
            false,
        ),
        (|udp_out| batches(udp_out, 1, 1, 1), true),
        (|udp_out| batches(udp_out, 1, 1, 0), false),
        (|udp_out| batches(udp_out, 1, 0, 1), false),
        (|udp_out| batches(udp_out, 1, 0, 0), false),
        (
            |udp_out| batches(udp_out, 3, WAITING_BYTES_MAX / 2, 100),
            true,
        ),
        (|udp_out| batches(udp_out, 1, LARGEST, 100), true),
        (|udp_out| batches(udp_out, 1, LARGEST + 1, 100), false),
        (
            |udp_out| batches(udp_out, 4, WAITING_BYTES_MAX / 2, 100),
            false,
        ),
        (|udp_out| matrices(udp_out, MATRICES_MAX), true),
        (|udp_out| matrices(udp_out, MATRICES_MAX + 1), false),
        (unfit_matrix, false),
        (|udp_out| udp_out.has_bare = true, true),
    ];
    let clients: Rc<[Destination]> = [client("rtp", 1), client("5x4", 2), client("rtp", 3)].into();
    for (index, (tell, fits)) in told.into_iter().enumerate() {
        let mut udp_out = UdpOut::default();
        udp_out.set_clients(clients.clone(), Some(address(3)), || 7);
        tell(&mut udp_out);
        assert_eq!(udp_out.restore().is_ok(), fits, "{index}");
        let batches = udp_out.batches.iter().map(DatagramBatch::memory_bytes);
        assert_eq!(udp_out.waiting_bytes, batches.sum::<usize>(), "{index}");
    }
}
