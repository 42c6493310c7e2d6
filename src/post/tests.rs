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
    let carriage = match kind {
        "rtp" => Carriage::Rtp(None),
        "udp" => Carriage::Bare,
        matrix => Carriage::Rtp(Matrix::parse(matrix)),
    };
    Destination {
        address: address(host),
        carriage,
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
