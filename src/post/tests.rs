//! What waits to be sent, by the bytes that it holds, and who gets what.

use super::*;

fn post() -> Post {
    post_to(&[("rtp", 1)])
}

fn post_to(clients: &[(&str, u8)]) -> Post {
    let mut post = Post::default();
    set_clients(
        &mut post,
        clients
            .iter()
            .map(|(kind, host)| client(kind, *host))
            .collect(),
    );
    post
}

fn set_clients(post: &mut Post, clients: Rc<[Destination]>) {
    post.set_clients(clients, None, || 7);
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

/// RTP of seven packets each.
fn datagrams(count: u8) -> Vec<u8> {
    let each = (0..count).map(|number| {
        let header = rtp::Packet::header(33, number.into(), 0, 9);
        [&header[..], &[number; rtp::PAYLOAD_BYTES]].concat()
    });
    each.collect::<Vec<_>>().concat()
}

/// All that goes out: each datagram, and where to.
fn sent(post: &mut Post) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut all = Vec::new();
    while post.next_clients() {
        let (to, bytes, datagram_bytes) = post.letter().expect("a letter");
        for to in to {
            let datagrams = bytes.chunks(datagram_bytes);
            all.extend(datagrams.map(|datagram| (*to, datagram.to_vec())));
        }
    }
    all
}

/// Datagrams of any size, of one size or of many in turn, while nobody sends: bounded, and those
/// that do not fit are told.
#[test]
fn what_is_on_its_way_is_bounded_in_bytes_that_are_held() {
    for sizes in [
        &[12][..],
        &[12, 13],
        &[1_328],
        &[1_328, 1_327],
        &[9_000],
        &[65_000],
    ] {
        let mut post = post();
        let mut refused = 0;
        for number in 0..100_000 {
            let datagram = vec![7; sizes[number % sizes.len()]];
            refused += u64::from(!post.forward(&datagram, None));
        }
        let held_bytes = post.held_bytes() - post.own_clients_bytes();
        let held_bytes_max = POST_BYTES_MAX + LETTER_BYTES_MAX.max(sizes[0]);
        assert!(held_bytes <= held_bytes_max, "{sizes:?}: {held_bytes}");
        assert!(held_bytes > POST_BYTES_MAX / 3, "{sizes:?}: {held_bytes}");
        assert!(refused > 0, "{sizes:?}");
        while post.next_clients() {}
        assert!(post.is_empty() && post.letters_bytes == 0, "{sizes:?}");
        let (_, figures) = post.figures().next().expect("a client");
        assert_eq!(
            (figures.sent, figures.dropped),
            (100_000 - refused, refused)
        );
    }
}

#[test]
fn datagrams_of_one_size_go_out_together_as_they_came() {
    let mut post = post();
    let whole: Vec<Vec<u8>> = (0..100).map(|number| vec![number; 1_328]).collect();
    for datagram in &whole {
        assert!(post.forward(datagram, None));
    }
    assert!(post.letters.len() < 5);
    let got = sent(&mut post);
    assert!(got.into_iter().map(|(_, datagram)| datagram).eq(whole));
}

/// The list is the tokens' own, and who is to get nothing is passed over; one that changes within a
/// letter gets nobody anything twice.
#[test]
fn clients_are_lent_and_the_source_is_passed_over() {
    let mut post = Post::default();
    let list: Rc<[Destination]> = (1..=4).map(|host| client("rtp", host)).collect();
    post.set_clients(list.clone(), Some(address(3)), || 7);
    assert!(Rc::ptr_eq(&post.clients, &list));
    assert_eq!(post.client_count(), 3);
    assert_eq!(post.held_bytes(), 4 * size_of::<ClientFigures>());
    // More than go at once, and two of them leave while the letter is on its way.
    let list: Vec<Destination> = (1..=AT_ONCE_MAX as u8 + 3)
        .map(|host| client("rtp", host))
        .collect();
    set_clients(&mut post, list.clone().into());
    assert!(post.forward(b"one", None) && post.next_clients());
    let first: Vec<SocketAddr> = list[..AT_ONCE_MAX].iter().map(|one| one.address).collect();
    assert_eq!(post.letter().map(|(to, ..)| to), Some(&first[..]));
    let changed = [200, 1, 66].into_iter().map(|host| client("rtp", host));
    set_clients(&mut post, changed.collect());
    assert!(post.own_clients_bytes() > 3 * size_of::<ClientFigures>());
    // It is of clients that stand elsewhere now.
    post.not_taken(&[1; AT_ONCE_MAX]);
    assert!(post.next_clients());
    let next = [address(200), address(66)];
    assert_eq!(post.letter().map(|(to, ..)| to), Some(&next[..]));
    post.not_taken(&[0, 1]);
    assert!(!post.next_clients());
    let figures = post
        .figures()
        .map(|(client, figures)| (client.address, figures.sent, figures.dropped));
    let expected = [
        (address(1), 1, 0),
        (address(200), 1, 0),
        (address(66), 0, 1),
    ];
    assert!(figures.eq(expected));
    post.set_clients([client("rtp", 6)].into(), Some(address(6)), || 7);
    assert!(
        post.forward(b"two", None) && post.is_empty(),
        "nobody is there"
    );
}

/// Each gets what it asked for, whether it is made here or comes from a source: RTP, MPEG-TS alone,
/// or RTP with the corrections of its own matrix.
#[test]
fn everyone_gets_what_it_asked_for() {
    let clients = [("rtp", 1), ("udp", 2), ("5x4", 3), ("4x4", 4), ("5x4", 5)];
    let media = datagrams(40);
    for is_forwarded in [false, true] {
        let mut post = post_to(&clients);
        if is_forwarded {
            for datagram in media.chunks(DATAGRAM_BYTES) {
                assert!(post.forward(datagram, Some(&datagram[12..])));
            }
        } else {
            post.send(media.clone());
        }
        let all = sent(&mut post);
        let to = |host: u8, above: u16| -> Vec<u8> {
            let mut to = address(host);
            to.set_port(6000 + above);
            let mine = all.iter().filter(|(sent_to, _)| *sent_to == to);
            mine.flat_map(|(_, datagram)| datagram.clone()).collect()
        };
        for (kind, host) in clients {
            let corrections = match kind {
                // As many columns as the matrix before had, one a row; and as many rows.
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
        let counted: u64 = post.figures().map(|(_, figures)| figures.sent).sum();
        assert_eq!(counted, all.len() as u64);
        assert!(post.held_bytes() < 500 << 10);
    }
}

#[test]
fn who_leaves_takes_its_corrections_along() {
    let mut post = post_to(&[("rtp", 1), ("5x4", 3)]);
    assert!(post.has_corrections());
    set_clients(&mut post, [client("rtp", 1), client("udp", 2)].into());
    assert!(!post.has_corrections());
    post.send(datagrams(3));
    assert_eq!(sent(&mut post).len(), 6);
}

/// Room is made by what has gone out, and by no more: with letters on their way and new ones behind
/// them the bound holds.
#[test]
fn what_has_gone_out_makes_room_for_as_much() {
    let mut post = post();
    let fill = |post: &mut Post| {
        let datagrams = std::iter::repeat_with(|| post.forward(&[7; 1_328], None));
        datagrams.take_while(|fits| *fits).count()
    };
    let at_first = fill(&mut post);
    assert!((300..400).contains(&at_first), "{at_first}");
    for _ in 0..20 {
        // The letter before has gone, and this one is on its way.
        assert!(post.next_clients());
        let more = fill(&mut post);
        assert!(more <= LETTER_BYTES_MAX / 1_328, "{more}");
        assert!(post.held_bytes() <= POST_BYTES_MAX + 2 * LETTER_BYTES_MAX);
    }
    // Up to the last byte of the bound.
    let room = POST_BYTES_MAX - 2 * size_of::<DatagramBatch>();
    for (bytes, fits) in [(room, true), (room + 1, false)] {
        let mut post = self::post();
        assert_eq!(post.forward(&vec![7; bytes], None), fits, "{bytes}");
    }
}

/// A letter that is being sent stays as it is; any other of the same kind takes more.
#[test]
fn what_comes_while_a_letter_is_sent_goes_into_the_next() {
    let clients: Vec<(&str, u8)> = (1..=70).map(|host| ("rtp", host)).collect();
    let mut post = post_to(&clients);
    for byte in [0; 3] {
        assert!(post.forward(&[byte; 100], None));
    }
    assert_eq!(post.letters.len(), 1);
    assert!(post.next_clients());
    for byte in [1; 3] {
        assert!(post.forward(&[byte; 100], None));
    }
    assert_eq!(post.letters.len(), 2);
    let first = post
        .letter()
        .map(|(to, bytes, _)| (to.len(), bytes.to_vec()));
    assert_eq!(first, Some((AT_ONCE_MAX, vec![0; 300])));
    // The six who are left get that, and all of them the next.
    assert_eq!(sent(&mut post).len(), 6 * 3 + 70 * 3);
    assert!(post.figures().all(|(_, figures)| figures.sent == 6));
}

/// A letter grows by doubling up to what the kernel takes in one call, and holds no more than twice
/// what is in it.
#[test]
fn a_letter_grows_in_few_steps_and_not_too_far() {
    for bytes in [12, 188, 1_316, 1_328] {
        let mut post = post();
        let (mut steps, mut capacity) = (0, 0);
        while post.letters.len() < 2 {
            assert!(post.forward(&vec![7; bytes], None));
            let letter = &post.letters[0].bytes;
            let capacity_max = (2 * letter.len()).min(LETTER_BYTES_MAX);
            assert!(letter.len() <= LETTER_BYTES_MAX, "{bytes}");
            assert!(letter.capacity() <= capacity_max, "{bytes}");
            steps += usize::from(letter.capacity() != capacity);
            capacity = letter.capacity();
        }
        assert!(
            post.letters[0].bytes.len() > LETTER_BYTES_MAX - bytes,
            "{bytes}"
        );
        assert!(steps <= 14, "{bytes}: {steps}");
    }
}

/// What each holds: corrections by their matrices, and the places of those who are sent to.
#[test]
fn what_it_holds_is_told() {
    let matrices = ["4x4", "5x4", "5x10", "20x5"];
    let plain: Vec<(&str, u8)> = (1..=70).map(|host| ("rtp", host)).collect();
    let mut corrected = plain.clone();
    for (client, matrix) in corrected.iter_mut().zip(matrices) {
        client.0 = matrix;
    }
    let (mut plain, corrected) = (post_to(&plain), post_to(&corrected));
    let made = matrices.map(|matrix| FecMatrix::parse(matrix).expect("a matrix"));
    let of_fec = made.map(|made| Fec::new(made.columns(), made.rows(), 0).held_bytes());
    let more = corrected.held_bytes() - plain.held_bytes();
    assert!(more >= of_fec.iter().sum::<usize>() + 4 * size_of::<(FecMatrix, Fec)>());
    assert!(plain.forward(&[7; 100], None));
    let before = plain.held_bytes();
    assert!(plain.next_clients());
    let places = AT_ONCE_MAX * (size_of::<SocketAddr>() + size_of::<usize>());
    assert_eq!(plain.held_bytes(), before + places);
}

#[test]
fn the_source_is_told_where_it_is_a_client() {
    let mut post = post();
    assert_eq!(post.source(), None);
    let clients: Rc<[Destination]> = [client("rtp", 1), client("rtp", 2)].into();
    for (source, is_client) in [
        (Some(address(2)), true),
        (Some(address(3)), false),
        (None, false),
    ] {
        post.set_clients(clients.clone(), source, || 7);
        assert_eq!(post.source(), source.filter(|_| is_client));
        assert_eq!(post.client_count(), 2 - usize::from(is_client));
    }
}

/// What was sent stays counted when nobody gets anything any more.
#[test]
fn bytes_are_counted_for_each_who_gets_them() {
    let mut post = post_to(&[("rtp", 1), ("udp", 2), ("rtp", 3)]);
    let datagram = &datagrams(1)[..];
    for _ in 0..5 {
        assert!(post.forward(datagram, Some(&datagram[12..])));
    }
    let all = sent(&mut post);
    let bytes: usize = all.iter().map(|(_, datagram)| datagram.len()).sum();
    assert_eq!(bytes, 5 * (2 * 1_328 + 1_316));
    assert_eq!(post.bytes_sent(), bytes as u64);
    post.clear();
    assert_eq!((post.bytes_sent(), post.client_count()), (bytes as u64, 0));
    assert!(post.forward(datagram, None) && post.is_empty());
}

/// What has no payload is nothing to those who get MPEG-TS alone; and where one of both finds no
/// room, that is said.
#[test]
fn mpegts_alone_is_of_payloads_and_has_its_own_room() {
    let mut post = post_to(&[("rtp", 1), ("udp", 2)]);
    assert!(post.forward(&[0x80; 12], Some(&[])));
    let to = |post: &mut Post| -> Vec<SocketAddr> {
        let all = sent(post).into_iter();
        all.map(|(to, _)| to).collect()
    };
    assert_eq!(to(&mut post), [address(1)]);
    // There is room for the first of both, and not for the other.
    for (room, fits) in [(2 * 3_000, true), (3_000, false), (100, false)] {
        let taken = POST_BYTES_MAX - room - 6 * size_of::<DatagramBatch>();
        assert!(post.forward(&vec![1; taken], None));
        assert_eq!(post.forward(&[2; 2_012], Some(&[2; 2_000])), fits, "{room}");
        while post.next_clients() {}
    }
    let dropped: Vec<u64> = post.figures().map(|(_, figures)| figures.dropped).collect();
    assert_eq!(dropped, [1, 2]);
}

/// Only media is corrected, and all of it: what its source says beside it is not, and when nothing
/// more comes, the corrections that wait go out.
#[test]
fn what_is_corrected_is_media() {
    let mut post = post_to(&[("5x4", 1)]);
    let media = datagrams(20);
    for datagram in media.chunks(DATAGRAM_BYTES) {
        assert!(post.forward(datagram, None));
    }
    assert_eq!(sent(&mut post).len(), 20);
    for datagram in media.chunks(DATAGRAM_BYTES) {
        assert!(post.forward(datagram, Some(&datagram[12..])));
    }
    // Four rows, and the first of five columns.
    assert_eq!(sent(&mut post).len(), 20 + 4 + 1);
    post.finish();
    let last = sent(&mut post);
    assert_eq!(last.len(), 4);
    let columns = SocketAddr::from(([10, 2, 0, 1], 6002));
    assert!(last.iter().all(|(to, _)| *to == columns));
    post.finish();
    assert!(post.is_empty());
}

/// Of more matrices than there may be no corrections are made.
#[test]
fn matrices_are_bounded() {
    let matrices = ["4x4", "5x4", "6x4", "7x4", "8x4", "9x4"];
    let mut post = post_to(&matrices.map(|matrix| (matrix, 1)));
    assert_eq!(post.corrections.len(), MATRICES_MAX);
    for datagram in datagrams(4).chunks(DATAGRAM_BYTES) {
        assert!(post.forward(datagram, Some(&datagram[12..])));
    }
    let mut rows = sent(&mut post);
    rows.retain(|(to, _)| to.port() == 6004);
    // Four packets are a row of the first alone.
    assert_eq!(rows.len(), 1);
}

/// What another process tells is taken at its bounds, and not behind one of them.
#[cfg(feature = "handover")]
#[test]
fn what_is_told_of_it_has_its_bounds() {
    use crate::handover::COUNT_MAX;
    type Told = fn(&mut Post);
    fn letters(post: &mut Post, count: usize, bytes: usize, datagram_bytes: usize) {
        let letter = || DatagramBatch {
            kind: Kind::Rtp,
            bytes: vec![1; bytes],
            datagram_bytes,
        };
        post.letters = std::iter::repeat_with(letter).take(count).collect();
    }
    fn matrices(post: &mut Post, count: usize) {
        let matrix = FecMatrix::parse("5x4").expect("a matrix");
        let each = || (matrix, Fec::new(5, 4, 1));
        post.corrections = std::iter::repeat_with(each).take(count).collect();
    }
    // All of a matrix has come, which is none any more.
    fn unfit_matrix(post: &mut Post) {
        let mut told = serde_json::to_value(Fec::new(5, 4, 1)).expect("JSON");
        told["place"] = 20.into();
        matrices(post, 1);
        post.corrections[0].1 = serde_json::from_value(told).expect("corrections");
    }
    const LARGEST: usize = 2 * POST_BYTES_MAX - 2 * size_of::<DatagramBatch>();
    let told: [(Told, bool); 26] = [
        (|_| {}, true),
        (|post| post.bytes_sent = COUNT_MAX, true),
        (|post| post.bytes_sent = COUNT_MAX + 1, false),
        (|post| post.figures[2].sent = COUNT_MAX, true),
        (|post| post.figures[2].sent = COUNT_MAX + 1, false),
        (|post| post.figures[0].dropped = COUNT_MAX + 1, false),
        (|post| post.figures.truncate(2), false),
        (|post| post.figures.push(ClientFigures::default()), false),
        (|post| post.next_place = 3, true),
        (|post| post.next_place = 4, false),
        (|post| post.client_count = 3, false),
        (|post| post.client_count = 1, false),
        (|post| post.source = None, false),
        (|post| (post.source, post.client_count) = (None, 3), true),
        (|post| letters(post, 1, 1, 1), true),
        (|post| letters(post, 1, 1, 0), false),
        (|post| letters(post, 1, 0, 1), false),
        (|post| letters(post, 1, 0, 0), false),
        (|post| letters(post, 3, POST_BYTES_MAX / 2, 100), true),
        (|post| letters(post, 1, LARGEST, 100), true),
        (|post| letters(post, 1, LARGEST + 1, 100), false),
        (|post| letters(post, 4, POST_BYTES_MAX / 2, 100), false),
        (|post| matrices(post, MATRICES_MAX), true),
        (|post| matrices(post, MATRICES_MAX + 1), false),
        (unfit_matrix, false),
        (|post| post.has_bare = true, true),
    ];
    let clients: Rc<[Destination]> = [client("rtp", 1), client("5x4", 2), client("rtp", 3)].into();
    for (index, (tell, fits)) in told.into_iter().enumerate() {
        let mut post = Post::default();
        post.set_clients(clients.clone(), Some(address(3)), || 7);
        tell(&mut post);
        assert_eq!(post.fit().is_ok(), fits, "{index}");
        let letters = post.letters.iter().map(DatagramBatch::held_bytes);
        assert_eq!(post.letters_bytes, letters.sum::<usize>(), "{index}");
    }
}
