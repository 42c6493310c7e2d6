//! What waits to be sent, by the bytes that it holds.

use super::*;

fn outlet() -> Outlet {
    let mut outlet = Outlet::default();
    outlet.set_clients([address(1)].into(), None);
    outlet
}

fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([10, 2, 0, host], 6000))
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
        let mut outlet = outlet();
        let mut refused = 0;
        for number in 0..100_000 {
            let datagram = vec![7; sizes[number % sizes.len()]];
            refused += usize::from(!outlet.forward(&datagram));
        }
        let held_bytes = outlet.held_bytes();
        let held_bytes_max = POST_BYTES_MAX + LETTER_BYTES_MAX.max(sizes[0]);
        assert!(held_bytes <= held_bytes_max, "{sizes:?}: {held_bytes}");
        assert!(held_bytes > POST_BYTES_MAX / 3, "{sizes:?}: {held_bytes}");
        assert!(refused > 0, "{sizes:?}");
        while outlet.next().is_some() {}
        assert!(outlet.is_empty() && outlet.post_bytes == 0, "{sizes:?}");
    }
}

#[test]
fn datagrams_of_one_size_go_out_together_as_they_came() {
    let mut outlet = outlet();
    let sent: Vec<Vec<u8>> = (0..100).map(|number| vec![number; 1_328]).collect();
    for datagram in &sent {
        assert!(outlet.forward(datagram));
    }
    let mut got = Vec::new();
    while outlet.next().is_some() {
        let (bytes, datagram_bytes) = outlet.letter().expect("a letter");
        got.extend(bytes.chunks(datagram_bytes).map(<[u8]>::to_vec));
    }
    assert!(got == sent);
}

/// The list is the tokens' own, and who is to get nothing is passed over; one that changes within a
/// letter gets nobody anything twice.
#[test]
fn clients_are_lent_and_the_source_is_passed_over() {
    let mut outlet = Outlet::default();
    let list: Rc<[SocketAddr]> = (1..=4).map(address).collect();
    outlet.set_clients(list.clone(), Some(address(3)));
    assert!(Rc::ptr_eq(&outlet.clients, &list));
    assert_eq!((outlet.client_count, outlet.held_bytes()), (3, 0));
    assert!(outlet.forward(b"one"));
    assert_eq!(outlet.next(), Some(address(1)));
    let changed: Rc<[SocketAddr]> = [5, 1, 4].into_iter().map(address).collect();
    outlet.set_clients(changed, None);
    assert!(outlet.own_clients_bytes() > 0);
    assert_eq!(outlet.next(), Some(address(5)));
    assert_eq!(outlet.next(), Some(address(4)));
    assert_eq!(outlet.next(), None);
    outlet.set_clients([address(6)].into(), Some(address(6)));
    assert!(
        outlet.forward(b"two") && outlet.is_empty(),
        "nobody is there"
    );
}
