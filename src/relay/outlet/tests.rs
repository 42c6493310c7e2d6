//! What waits to be sent, by the bytes that it holds.

use super::*;

fn outlet() -> Outlet {
    Outlet {
        clients: vec![SocketAddr::from(([10, 2, 0, 1], 6000))],
        ..Outlet::default()
    }
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
