use super::super::super::mpegts::PACKET_BYTES;
use super::super::super::window::Window;
use super::super::Splicer;
use super::*;

fn cut(cutter: &mut PacketCutter, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Unsupported> {
    Window::default().walk(cutter, bytes, 0, out)
}

/// A packet with this payload after stuffing.
fn packet(pid: u16, begins: bool, payload: &[u8]) -> Vec<u8> {
    let [high, low] = pid.to_be_bytes();
    let mut packet = vec![0x47, u8::from(begins) << 6 | high, low, 0x10];
    let stuffing = PACKET_BYTES - 4 - payload.len();
    if stuffing > 0 {
        packet[3] = 0x30;
        packet.push(stuffing as u8 - 1);
        packet.extend(std::iter::repeat_n(0, (stuffing - 1).min(1)));
        packet.extend(std::iter::repeat_n(0xff, stuffing.saturating_sub(2)));
    }
    packet.extend_from_slice(payload);
    packet
}

/// The first packet of a PES packet: its length, and its time in ticks of 90 kHz.
fn begin(pid: u16, length: u16, ticks: u32, media_bytes: usize) -> Vec<u8> {
    let [high, low] = length.to_be_bytes();
    let mut bytes = vec![0, 0, 1, 0xe0, high, low, 0x80, 0x80, 5];
    bytes.extend([0x21 | (ticks >> 29) as u8 & 0x0e, (ticks >> 22) as u8]);
    bytes.extend([
        (ticks >> 14) as u8 | 1,
        (ticks >> 7) as u8,
        (ticks << 1) as u8 | 1,
    ]);
    bytes.extend(std::iter::repeat_n(7, media_bytes));
    packet(pid, true, &bytes)
}

const ONE: u16 = 0x101;
const TWO: u16 = 0x102;
const THREE: u16 = 0x103;

/// Returns how many packets have gone out after each of these, however they are cut.
fn gone_out(bytes_max: usize, packets: &[Vec<u8>]) -> Vec<usize> {
    let (mut cutter, mut out) = (PacketCutter::new(bytes_max), Vec::new());
    // This many prove the shape. None of them belongs to a PES packet.
    let before = vec![packet(0x1fff, false, &[]); 8].concat();
    assert!(cut(&mut cutter, &before, &mut out).is_ok());
    assert_eq!(out, before);
    let mut all = before;
    let each = packets.iter().map(|packet| {
        assert!(cut(&mut cutter, packet, &mut out).is_ok());
        all.extend_from_slice(packet);
        assert!(all.starts_with(&out));
        assert!(cutter.waiting.bytes.len() <= bytes_max);
        assert_eq!(out.len() + cutter.waiting.bytes.len(), all.len());
        out.len() / PACKET_BYTES - 8
    });
    let each = each.collect();
    cutter.release(&mut out);
    assert_eq!(out, all);
    each
}

#[test]
fn a_pes_packet_goes_out_when_it_is_whole() {
    let more = |pid: u16, bytes: usize| packet(pid, false, &vec![7; bytes]);
    let mut damaged = begin(ONE, 0, 0, 9);
    damaged[1] |= 0x80;
    for (what, packets, expected) in [
        (
            "by its length: 8 bytes of its head, and 29 of media",
            vec![
                begin(ONE, 37, 0, 9),
                more(ONE, 19),
                more(ONE, 1),
                more(ONE, 5),
            ],
            vec![0, 0, 3, 4],
        ),
        (
            "one whose first packet has all of it waits for nothing",
            vec![
                begin(ONE, 17, 0, 9),
                begin(ONE, 17, 0, 9),
                begin(ONE, 16, 0, 9),
            ],
            vec![1, 2, 3],
        ),
        (
            "without a length, when the next begins",
            vec![
                begin(ONE, 0, 0, 9),
                more(ONE, 9),
                begin(ONE, 0, 900, 9),
                more(ONE, 1),
            ],
            vec![0, 0, 2, 2],
        ),
        (
            "also one longer than 255 bytes",
            vec![begin(ONE, 0x100, 0, 165), more(ONE, 82), more(ONE, 1)],
            vec![0, 0, 3],
        ),
        (
            "behind one that waits all do",
            vec![
                begin(ONE, 0, 0, 9),
                begin(TWO, 17, 0, 9),
                begin(THREE, 37, 0, 9),
                begin(ONE, 0, 900, 9),
                more(THREE, 20),
                begin(ONE, 0, 1_800, 9),
            ],
            vec![0, 0, 0, 2, 3, 5],
        ),
        (
            "what begins with no PES packet is none",
            vec![
                packet(ONE, true, &[0, 0, 2, 0xe0, 0, 0, 0, 0, 0]),
                packet(ONE, true, &[0; 5]),
            ],
            vec![1, 2],
        ),
        (
            "what is damaged says nothing",
            vec![damaged.clone(), begin(TWO, 0, 0, 9), damaged, more(TWO, 9)],
            vec![1, 1, 1, 1],
        ),
    ] {
        assert_eq!(gone_out(100_000, &packets), expected, "{what}");
    }
}

/// Half a second of another stream.
#[test]
fn a_pes_packet_that_does_not_continue_is_not_held() {
    let more = |pid: u16| packet(pid, false, &[7; 9]);
    let sound = |pid: u16, ticks: u32| begin(pid, 17, ticks, 9);
    for (what, packets, expected) in [
        (
            "less than that",
            vec![begin(ONE, 0, 0, 9), sound(TWO, 9), sound(TWO, 45_008)],
            vec![0, 0, 0],
        ),
        (
            "that",
            vec![begin(ONE, 0, 0, 9), sound(TWO, 9), sound(TWO, 45_009)],
            vec![0, 0, 3],
        ),
        (
            "a clock that goes back",
            vec![begin(ONE, 0, 0, 9), sound(TWO, 9_000), sound(TWO, 8_999)],
            vec![0, 0, 3],
        ),
        (
            "it has gone on meanwhile",
            vec![
                begin(ONE, 0, 0, 9),
                sound(TWO, 9),
                more(ONE),
                sound(TWO, 45_009),
            ],
            vec![0, 0, 0, 0],
        ),
        (
            "another clock says nothing",
            vec![
                begin(ONE, 0, 0, 9),
                sound(TWO, 9),
                sound(THREE, 90_000),
                sound(TWO, 99),
            ],
            vec![0, 0, 0, 0],
        ),
    ] {
        assert_eq!(gone_out(100_000, &packets), expected, "{what}");
    }
}

#[test]
fn the_packets_that_wait_are_bounded() {
    // The maximal number of streams at once. A further one is not held.
    let mut packets: Vec<_> = (0..33).map(|pid| begin(0x200 + pid, 0, 0, 9)).collect();
    packets.extend((0..32).map(|pid| begin(0x200 + pid, 6, 0, 9)));
    let mut expected = vec![0; 33];
    expected.extend(1..=31);
    // Nothing waits after the last of them.
    expected.push(65);
    assert_eq!(gone_out(100_000, &packets), expected);
    // Bytes: with one packet more, nothing waits.
    let more = packet(ONE, false, &[7; 9]);
    let packets = [vec![begin(ONE, 0, 0, 9)], vec![more; 4]].concat();
    assert_eq!(gone_out(3 * PACKET_BYTES, &packets), [0, 0, 0, 4, 5]);
    assert_eq!(gone_out(3 * PACKET_BYTES + 187, &packets), [0, 0, 0, 4, 5]);
}

/// What waits goes out in one turn, which scans it. Tables cost most. Packets that fill up cost nothing.
#[test]
fn what_waits_costs_little_when_it_goes_out() {
    let (table, null) = (packet(0, true, &[0, 1, 2]), packet(0x1fff, false, &[]));
    let picture = packet(ONE, false, &[7; 184]);
    for (what, most) in [(&table, 1_025), (&picture, 5_576), (&null, 5_576)] {
        let (mut cutter, mut out) = (PacketCutter::new(8 << 20), Vec::new());
        assert!(cut(&mut cutter, &null.repeat(8), &mut out).is_ok());
        assert!(cut(&mut cutter, &begin(ONE, 0, 0, 9), &mut out).is_ok());
        let before = out.len();
        let more = (0..6_000).take_while(|_| {
            assert!(cut(&mut cutter, what, &mut out).is_ok());
            out.len() == before
        });
        assert_eq!(more.count(), most);
        assert_eq!(out.len(), before + (most + 2) * PACKET_BYTES);
    }
}

/// Too many bytes in a row between packets.
#[test]
fn a_stream_without_packets_fails() {
    let packets = vec![packet(0x1fff, false, &[]); 8].concat();
    let (mut cutter, mut out) = (PacketCutter::new(1_000), Vec::new());
    assert!(cut(&mut cutter, &packets, &mut out).is_ok());
    assert!(cut(&mut cutter, &begin(ONE, 0, 0, 9), &mut out).is_ok());
    assert_eq!(out, packets);
    assert!(cut(&mut cutter, &vec![1; 60_000], &mut out).is_ok());
    assert!(cut(&mut cutter, &packets, &mut out).is_ok());
    assert!(cut(&mut cutter, &vec![1; 60_000], &mut out).is_ok());
    let before = out.len();
    assert!(cut(&mut cutter, &vec![1; 6_000], &mut out).is_err());
    assert!(out.len() >= before && cutter.waiting.bytes.is_empty());
}

/// Bytes in a row, to the byte. Packets end the row, once 377 bytes prove them.
#[test]
fn bytes_between_packets_are_counted() {
    let null = packet(0x1fff, false, &[]);
    let (mut cutter, mut out) = (PacketCutter::new(1_000), Vec::new());
    for _ in 0..500 {
        assert!(cut(&mut cutter, &null, &mut out).is_ok());
    }
    assert!(out == null.repeat(500));
    for pieces in [&[65_159][..], &[65_158, 1], &[1, 30_000, 35_158]] {
        for piece in pieces {
            assert!(
                cut(&mut cutter, &vec![1; *piece], &mut out).is_ok(),
                "{piece}"
            );
        }
        assert!(cut(&mut cutter, &null.repeat(8), &mut out).is_ok());
    }
    assert!(out == null.repeat(524));
    assert!(cut(&mut cutter, &vec![1; 65_536], &mut out).is_ok());
    assert!(cut(&mut cutter, &[1], &mut out).is_err());
}

/// A stream has long rows of other bytes. The verdict and the output do not depend on how the stream
/// is cut. The bytes after a row that is too long go out as they come.
#[test]
fn rows_of_other_bytes_count_alike_however_they_are_cut() {
    let null = packet(0x1fff, false, &[]);
    let zeros = |count| vec![0; count];
    let begin = [&null.repeat(20)[..], &zeros(40_000), &null.repeat(7)].concat();
    let fine = [&begin[..], &zeros(40_000), &null.repeat(30)].concat();
    let broken = [&begin[..], &zeros(65_537), &null.repeat(30)].concat();
    for (bytes, can_continue) in [(fine, true), (broken, false)] {
        for piece in [1_316, 20_000, 65_536, usize::MAX] {
            let (mut splicer, mut out) = (Splicer::new(1_000), Vec::new());
            for bytes in bytes.chunks(piece) {
                assert_eq!(splicer.feed(bytes, &mut out), Ok(()));
            }
            let packets = out
                .windows(PACKET_BYTES)
                .filter(|bytes| **bytes == null[..]);
            assert_eq!(packets.count(), 57, "{piece}");
            let continues = splicer.break_off(None, Vec::new());
            assert_eq!(continues, can_continue, "{piece}");
        }
    }
}

#[test]
fn the_next_source_must_have_packets_of_the_same_shape() {
    let plain = vec![packet(0x1fff, false, &[]); 8];
    let mut cutter = PacketCutter::new(1_000);
    // Without a known shape any source fits.
    assert!(cutter.are_like(&plain.concat()) && cutter.are_like(&[]));
    let mut out = Vec::new();
    assert!(cut(&mut cutter, &plain.concat(), &mut out).is_ok());
    assert!(cut(&mut cutter, &begin(ONE, 0, 0, 9), &mut out).is_ok());
    cutter.seam();
    assert!(cutter.waiting.bytes.is_empty() && cutter.waiting.bytes_max == 1_000);
    let stamped: Vec<_> = plain
        .iter()
        .map(|packet| [&[0; 4][..], packet].concat())
        .collect();
    for _ in 0..2 {
        assert!(cutter.are_like(&plain.concat()) && cutter.are_like(&[]));
        assert!(!cutter.are_like(&stamped.concat()));
        // A source that breaks off before its first packet changes nothing.
        cutter.seam();
    }
}

#[cfg(feature = "handover")]
#[test]
fn a_handed_over_cutter_that_cannot_be_is_refused() {
    let cutter = |bytes: usize, begins: &[usize]| {
        let mut cutter = PacketCutter::new(100);
        cutter.waiting.bytes = vec![7; bytes].into();
        cutter
            .waiting
            .open
            .extend(begins.iter().map(|begin| OpenPes {
                pid: ONE,
                begin: *begin,
                bytes_left: None,
                since: None,
                others_before: 0,
            }));
        cutter
    };
    assert!(cutter(100, &[0, 50, 100]).is_valid(100));
    assert!(cutter(100, &[0; 32]).is_valid(100));
    for wrong in [cutter(101, &[]), cutter(100, &[0; 33])] {
        assert!(!wrong.is_valid(100));
    }
}
