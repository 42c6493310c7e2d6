//! RTP, RTCP and transport streams in arbitrary bytes.

use std::time::Duration;

use tollgate::rtp::{
    Bare, Control, DATAGRAM_BYTES, Fec, Pacing, Packet, Packetiser, Reorder, Sequence,
};
use tollgate::time::Instant;

/// A parsed packet is within the datagram, and a written packet parses to the same.
pub fn packet(data: &[u8]) {
    let _ = Control::parse(data);
    if let Some(packet) = Packet::parse(data) {
        assert!(packet.payload.len() + 12 <= data.len());
        let header = Packet::header(
            packet.payload_type,
            packet.sequence_number,
            packet.timestamp,
            packet.ssrc,
        );
        let written = [&header[..], packet.payload].concat();
        // The one thing that a header cannot say again: a marker that makes it look like RTCP.
        assert_eq!(Packet::parse(&written), Some(packet));
    }
    // FEC packets are bounded in size and in number.
    let mut fec = Fec::new(4, 4, 1);
    let mut made = 0;
    for datagram in data.chunks(90) {
        fec.protect(datagram, |_, packet| {
            assert!((28..=90 + 16).contains(&packet.len()));
            made += 1;
        });
    }
    assert!(made <= data.len() / 90 / 2 + 2);
    // For sequence numbers in any order, the output ascends.
    let (mut sequence, mut reorder) = (Sequence::new(0), Reorder::default());
    let (mut last, mut now) = (None, Instant::START);
    for bytes in data.chunks_exact(3) {
        now = now + Duration::from_millis(u64::from(bytes[2]));
        let Some(number) = sequence.extend(u16::from_be_bytes([bytes[0], bytes[1]])) else {
            continue;
        };
        let payload = number.to_be_bytes();
        let at_once = reorder.insert(number, &payload, now).map(<[u8]>::to_vec);
        for handed_on in at_once
            .into_iter()
            .chain(std::iter::from_fn(|| reorder.next(now)))
        {
            assert!(
                last.as_ref().is_none_or(|last| handed_on > *last),
                "not in order"
            );
            last = Some(handed_on);
        }
    }
}

/// The datagrams do not depend on the pieces, and are due within the received media.
pub fn packetiser(data: &[u8]) {
    let Some((&piece, bytes)) = data.split_first() else {
        return;
    };
    let make = |piece: usize| {
        let (mut packetiser, mut batch) = (Packetiser::new(1, 2), Vec::new());
        for bytes in bytes.chunks(piece) {
            packetiser.push(bytes, 3, &mut batch);
        }
        packetiser.flush(false, &mut batch);
        batch
    };
    let whole = make(bytes.len().max(1));
    assert_eq!(whole, make(1));
    assert_eq!(whole, make(usize::from(piece) + 1));
    for datagram in whole.chunks(DATAGRAM_BYTES) {
        let packet = Packet::parse(datagram).expect("RTP");
        assert!(
            packet.payload.len().is_multiple_of(188)
                && packet.payload.chunks(188).all(|packet| packet[0] == 0x47)
        );
    }
    let (mut bare, mut packets) = (Bare::default(), Vec::new());
    for datagram in bytes.chunks(usize::from(piece) * 8 + 1) {
        if Bare::begins_with(datagram) {
            assert!(datagram.contains(&0x47));
        }
        bare.feed(datagram, &mut packets);
    }
    assert!(packets.len() <= bytes.len() && packets.len().is_multiple_of(188));
    assert!(packets.chunks(188).all(|packet| packet[0] == 0x47));
    let (mut pacing, mut arrived, mut due, mut now) = (Pacing::new(0), 0, 0, Instant::START);
    for bytes in bytes.chunks(usize::from(piece) * 8 + 1) {
        pacing.feed(bytes, now);
        arrived += bytes.len() as u64;
        let next = pacing.due(now);
        assert!((due..=arrived).contains(&next), "{due} {next} {arrived}");
        due = next;
        assert!(pacing.deadline(now).is_none_or(|deadline| deadline > now));
        now = now + Duration::from_millis(u64::from(bytes[0]) * 10);
    }
    pacing.finish();
    for _ in 0..10_000 {
        due = pacing.due(now);
        match pacing.deadline(now) {
            Some(deadline) => now = deadline + Duration::from_millis(500),
            None => break,
        }
    }
    assert_eq!(due, arrived, "something is never due");
}
