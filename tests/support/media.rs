//! Bytes to stream: of no known container, and each telling where it belongs.

/// One record of [`media`].
pub const RECORD_BYTES: usize = 16;

/// `bytes` of made-up media in records of 16 bytes, `SSS.NNNNNNNNNNN\n`: the number of the stream
/// and of the record. It is counted in its digits, since nothing waits for a test that takes
/// seconds to make some, and others share its machine.
pub fn media(stream: u16, bytes: usize) -> Vec<u8> {
    let mut media = Vec::with_capacity(bytes + RECORD_BYTES);
    let mut record = format!("{:03x}.{:011x}\n", stream & 0xfff, 0).into_bytes();
    while media.len() < bytes {
        media.extend_from_slice(&record);
        for digit in record[4..15].iter_mut().rev() {
            *digit = match *digit {
                b'9' => b'a',
                b'f' => b'0',
                other => other + 1,
            };
            if *digit != b'0' {
                break;
            }
        }
    }
    media.truncate(bytes);
    media
}

/// Where in `whole` a piece of it begins that starts at any byte and holds at least one whole
/// record.
pub fn offset_of(whole: &[u8], piece: &[u8]) -> Option<usize> {
    let line_end = piece.iter().position(|&byte| byte == b'\n')?;
    let record = piece.get(line_end + 1..line_end + RECORD_BYTES)?;
    let number = std::str::from_utf8(record.get(4..15)?).ok()?;
    let number = usize::from_str_radix(number, 16).ok()?;
    let offset = (number * RECORD_BYTES).checked_sub(line_end + 1)?;
    whole
        .get(offset..)?
        .starts_with(&piece[..line_end + 1])
        .then_some(offset)
}

/// Checks that `received` is `whole` with parts left out. Returns the offsets of `received` at which
/// parts are missing.
pub fn gaps(whole: &[u8], received: &[u8]) -> Vec<usize> {
    let mut gaps = Vec::new();
    let mut offset = 0;
    let mut rest = received;
    while !rest.is_empty() {
        let same = whole[offset..]
            .iter()
            .zip(rest)
            .take_while(|(sent, got)| sent == got)
            .count();
        offset += same;
        rest = &rest[same..];
        if rest.is_empty() {
            break;
        }
        // The first bytes after the gap may equal the missing ones, so the search begins one
        // record earlier.
        gaps.push(received.len() - rest.len());
        let next = (0..RECORD_BYTES.min(received.len() - rest.len() + 1)).find_map(|back| {
            let start = received.len() - rest.len() - back;
            let found = offset_of(whole, &received[start..])?;
            (found + back > offset).then_some(found + back)
        });
        offset =
            next.expect("after a gap the stream goes on with bytes that its source sent later");
    }
    gaps
}

/// MPEG-TS: a PAT, a PMT with one video track, and that track's packets, as many as asked for.
pub fn transport_stream(packets: usize) -> Vec<u8> {
    let pat = [
        0x00, 0x00, 0xb0, 0x0d, 0x00, 0x01, 0xc1, 0x00, 0x00, 0x00, 0x01, 0xf0, 0x00, 0x2a, 0xb1,
        0x04, 0xb2,
    ];
    let pmt = [
        0x00, 0x02, 0xb0, 0x12, 0x00, 0x01, 0xc1, 0x00, 0x00, 0xe1, 0x00, 0xf0, 0x00, 0x1b, 0xe1,
        0x00, 0xf0, 0x00, 0x15, 0xbd, 0x4d, 0x56,
    ];
    let mut stream = Vec::new();
    stream.extend_from_slice(&packet(0x0000, true, 0, &pat));
    stream.extend_from_slice(&packet(0x1000, true, 0, &pmt));
    for number in 2..packets {
        stream.extend_from_slice(&packet(0x0100, false, number as u8 & 15, &[]));
    }
    stream
}

fn packet(pid: u16, begins: bool, counter: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![
        0x47,
        (u8::from(begins) << 6) | (pid >> 8) as u8,
        pid as u8,
        0x10 | counter,
    ];
    packet.extend_from_slice(payload);
    packet.resize(188, 0xff);
    packet
}

/// The beginning of a WebM file: an EBML head with `DocType` `webm`, and a Segment of unknown size.
pub fn webm_head() -> Vec<u8> {
    let mut head = vec![0x1a, 0x45, 0xdf, 0xa3, 0x9f];
    head.extend_from_slice(&[0x42, 0x86, 0x81, 1, 0x42, 0xf7, 0x81, 1]);
    head.extend_from_slice(&[0x42, 0xf2, 0x81, 4, 0x42, 0xf3, 0x81, 8]);
    head.extend_from_slice(&[0x42, 0x82, 0x84, b'w', b'e', b'b', b'm']);
    head.extend_from_slice(&[0x42, 0x87, 0x81, 4, 0x42, 0x85, 0x81, 2]);
    head.extend_from_slice(&[
        0x18, 0x53, 0x80, 0x67, 0x01, 255, 255, 255, 255, 255, 255, 255,
    ]);
    head
}
