//! Containers in arbitrary bytes: the findings may not depend on how the bytes are cut, and always
//! make sense.

#[path = "../support/transport.rs"]
#[allow(dead_code, reason = "a checksum is all that is needed of it")]
pub mod transport;

use tollgate::format::{Finding, HEADER_BYTES_MAX, Scanner};
use transport::checksum;

/// A finding, and the header if it is one.
pub type Found = (Finding, Option<Vec<u8>>);

/// What a scan of these bytes finds when they come in pieces of such sizes.
pub fn scan(bytes: &[u8], pieces: impl Iterator<Item = usize>) -> Vec<Found> {
    let mut scanner = Scanner::default();
    let mut findings = Vec::new();
    let mut header = Vec::new();
    let mut rest = bytes;
    for piece in pieces {
        let (now, later) = rest.split_at(piece.clamp(1, rest.len().max(1)).min(rest.len()));
        scanner.feed(now, &mut |finding, lent| match finding {
            Finding::Header => {
                header = lent.to_vec();
                findings.push((finding, Some(header.clone())));
            }
            Finding::Unknown => {
                header.clear();
                findings.push((finding, None));
            }
            _ => findings.push((finding, None)),
        });
        assert!(
            scanner.header().to_vec() == header,
            "another header is lent than the one that was told"
        );
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    findings
}

/// The first two bytes say how the rest is cut.
pub fn container(data: &[u8]) {
    let Some(([first, second], bytes)) = data.split_first_chunk::<2>() else {
        return;
    };
    let whole = scan(bytes, std::iter::once(bytes.len()));
    assert_eq!(whole, scan(bytes, std::iter::repeat(1)), "byte by byte");
    let (first, second) = (usize::from(*first) + 1, usize::from(*second) * 7 + 1);
    assert_eq!(
        whole,
        scan(bytes, [first, second].into_iter().cycle()),
        "in pieces of {first} and {second}"
    );
    check(&whole, bytes.len() as u64);
}

/// The same after a container's magic, so that the container's scanner gets the bytes.
fn behind(magic: &[u8], data: &[u8]) {
    if let Some((cuts, rest)) = data.split_first_chunk::<2>() {
        container(&[&cuts[..], magic, rest].concat());
    }
}

pub fn matroska(data: &[u8]) {
    // An EBML head that says webm, and a Segment of unknown size.
    behind(
        b"\x1a\x45\xdf\xa3\x87\x42\x82\x84webm\x18\x53\x80\x67\xff",
        data,
    );
}

pub fn ogg(data: &[u8]) {
    behind(b"OggS\0", data);
}

pub fn mp4(data: &[u8]) {
    behind(b"\0\0\0\x0cftypisom", data);
}

pub fn flv(data: &[u8]) {
    behind(b"FLV\x01\x05\0\0\0\x09\0\0\0\0", data);
}

pub fn mp3(data: &[u8]) {
    behind(b"ID3\x04\0\0\0\0\0\0", data);
}

pub fn aac(data: &[u8]) {
    behind(&[0xff, 0xf1, 0x50, 0x80, 0x00, 0xff, 0xfc].repeat(3), data);
}

/// Sync bytes stand where a transport stream has them, and checksums after what may be a table:
/// chance would not find them.
pub fn mpegts(data: &[u8]) {
    let mut data = data.to_vec();
    for packet in data.get_mut(2..).unwrap_or_default().chunks_mut(188) {
        packet[0] = 0x47;
        // Without an adaptation field, from the packet's first byte on, and whole.
        let Some([_, _, _, 0x10..=0x1f, 0, _, high, low, ..]) = packet.get(..8) else {
            continue;
        };
        let end = 8 + (usize::from(high & 0x0f) << 8 | usize::from(*low));
        if let Some(section) = packet.get_mut(5..end)
            && let Some(length) = section.len().checked_sub(4)
        {
            let sum = checksum(&section[..length]);
            section[length..].copy_from_slice(&sum);
        }
    }
    container(&data);
}

fn check(findings: &[Found], bytes: u64) {
    let (mut join, mut unit, mut time, mut is_over) = (None, None, None, false);
    for (index, (finding, header)) in findings.iter().enumerate() {
        assert!(!is_over, "something is found after it was let go");
        match finding {
            Finding::Format(_) => assert!(index < 2, "the format comes first"),
            Finding::Unknown => is_over = true,
            Finding::Header => {
                assert!(
                    header
                        .as_ref()
                        .is_some_and(|header| header.len() <= HEADER_BYTES_MAX)
                );
                (join, unit) = (None, None);
            }
            Finding::Join(start) => {
                assert!(
                    join.is_none_or(|before| start.offset > before) && start.offset < bytes,
                    "{findings:?}"
                );
                join = Some(start.offset);
            }
            Finding::Unit(start) | Finding::Entry(start) => {
                assert!(unit.is_none_or(|before| start.offset > before) && start.offset < bytes);
                unit = Some(start.offset);
            }
            Finding::Time(offset, _) => {
                assert!(time.is_none_or(|before| *offset > before) && *offset < bytes);
                time = Some(*offset);
            }
            Finding::Lasts(ticks) => {
                let before = index.checked_sub(1).and_then(|before| findings.get(before));
                assert!(matches!(before, Some((Finding::Time(..), _))) && *ticks > 0);
            }
            Finding::Split(offset) => {
                assert!(join.is_none_or(|before| *offset > before) && *offset < bytes);
                let next = findings.get(index + 1).map(|(next, _)| *next);
                assert!(matches!(next, Some(Finding::Join(start)) if start.offset == *offset));
            }
            Finding::Break(offset) => {
                assert!(time.is_none_or(|before| *offset > before) && *offset < bytes);
            }
        }
    }
}
