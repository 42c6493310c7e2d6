//! MPEG-TS, packet by packet (ISO/IEC 13818-1).

/// What stands after these bytes of a table, bit by bit (annex A).
pub fn checksum(bytes: &[u8]) -> [u8; 4] {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte) << 24;
        for _ in 0..8 {
            sum = sum << 1 ^ if sum >> 31 == 1 { 0x04c1_1db7 } else { 0 };
        }
    }
    sum.to_be_bytes()
}

/// A packet with as much payload, after stuffing.
pub fn packet(pid: u16, begins: bool, payload: &[u8]) -> Vec<u8> {
    let [high, low] = pid.to_be_bytes();
    let mut packet = vec![0x47, u8::from(begins) << 6 | high, low, 0x10];
    let stuffing = 184 - payload.len();
    if stuffing > 0 {
        packet[3] = 0x30;
        packet.push(stuffing as u8 - 1);
        packet.extend(std::iter::repeat_n(0, (stuffing - 1).min(1)));
        packet.extend(std::iter::repeat_n(0xff, stuffing.saturating_sub(2)));
    }
    packet.extend_from_slice(payload);
    packet
}

/// A table of one section in one packet.
pub fn table(pid: u16, id: u8, body: &[u8]) -> Vec<u8> {
    let mut section = vec![id, 0xb0, body.len() as u8 + 9, 0, 1, 0xc1, 0, 0];
    section.extend_from_slice(body);
    section.extend(checksum(&section));
    packet(pid, true, &[&[0][..], &section].concat())
}

/// Where the map of the one program is.
pub const MAP: u16 = 0x100;

/// The table that names it, and the map, which names these streams: type, PID and descriptors.
pub fn tables(streams: &[(u8, u16, &[u8])]) -> Vec<u8> {
    let mut map = vec![0xe1, 0xff, 0xf0, 0];
    for (kind, pid, descriptors) in streams {
        let [high, low] = (pid | 0xe000).to_be_bytes();
        map.extend([*kind, high, low, 0xf0, descriptors.len() as u8]);
        map.extend_from_slice(descriptors);
    }
    [table(0, 0, &[0, 1, 0xe1, 0]), table(MAP, 2, &map)].concat()
}

/// The packets of a PES packet that is shown at this time, in seconds. As usual, that of video does
/// not say how long it is.
pub fn pes(pid: u16, seconds: f64, media: &[u8]) -> Vec<u8> {
    let time = (seconds * 90_000.0) as u64;
    let id = if pid % 2 == 1 { 0xe0 } else { 0xc0 };
    let mut bytes = vec![0, 0, 1, id, 0, 0, 0x80, 0x80, 5];
    bytes.push(0x21 | (time >> 29) as u8 & 0x0e);
    bytes.extend([(time >> 22) as u8, (time >> 14) as u8 | 1]);
    bytes.extend([(time >> 7) as u8, (time << 1) as u8 | 1]);
    bytes.extend_from_slice(media);
    if id != 0xe0 {
        let length = (bytes.len() - 6) as u16;
        bytes[4..6].copy_from_slice(&length.to_be_bytes());
    }
    let parts = bytes.chunks(184).enumerate();
    parts
        .flat_map(|(index, part)| packet(pid, index == 0, part))
        .collect()
}
