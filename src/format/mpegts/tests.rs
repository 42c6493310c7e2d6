use super::*;

/// A packet that carries one whole section of a table.
fn packet(pid: u16, table: u8, extension: u16, body: &[u8]) -> Vec<u8> {
    let length = body.len() as u16 + 9;
    let mut packet = vec![SYNC_BYTE, 0x40 | (pid >> 8) as u8, pid as u8, 0x10, 0];
    packet.extend([table, 0xb0 | (length >> 8) as u8, length as u8]);
    packet.extend(extension.to_be_bytes());
    packet.extend([0xc1, 0, 0]);
    packet.extend_from_slice(body);
    packet.extend(psi::checksum(&packet[5..]).to_be_bytes());
    packet.resize(PACKET_BYTES, 0xff);
    packet
}

fn pat(programs: &[(u16, u16)]) -> Vec<u8> {
    let entries = programs
        .iter()
        .flat_map(|(number, pid)| [number.to_be_bytes(), (pid | 0xe000).to_be_bytes()].concat());
    packet(0, 0, 1, &entries.collect::<Vec<_>>())
}

/// One stream of H.264.
fn pmt(pid: u16, number: u16, stream: u16) -> Vec<u8> {
    let [high, low] = (stream | 0xe000).to_be_bytes();
    packet(
        pid,
        2,
        number,
        &[high, low, 0xf0, 0, 0x1b, high, low, 0xf0, 0],
    )
}

fn headers(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut scanner, mut headers) = (MpegTs::default(), Vec::new());
    // Behind a packet the next one has to stand, or it is none.
    let filler = packet(0x1fff, 0xff, 0, &[]);
    let bytes = [bytes, &filler[..], &[SYNC_BYTE; 1]].concat();
    let fed = scanner.feed(&bytes, 0, &mut |finding, header| {
        headers.extend((finding == Finding::Header).then(|| header.to_vec()));
    });
    assert_eq!(fed, Ok(()));
    headers
}

#[test]
fn two_programs_may_have_their_maps_on_one_pid() {
    let tables = [
        pat(&[(1, 0x100), (2, 0x100)]),
        pmt(0x100, 1, 0x101),
        pmt(0x100, 2, 0x102),
    ]
    .concat();
    let headers = headers(&tables.repeat(20));
    assert_eq!(headers.len(), 2, "one for each map that came first");
    assert_eq!(headers[1], tables);
}

#[test]
fn a_program_that_is_not_named_any_more_is_in_no_header() {
    let both = [
        pat(&[(1, 0x100), (2, 0x100)]),
        pmt(0x100, 1, 0x101),
        pmt(0x100, 2, 0x102),
    ]
    .concat();
    let one = [pat(&[(2, 0x100)]), pmt(0x100, 2, 0x102)].concat();
    let headers = headers(&[both, one.clone(), one.clone()].concat());
    assert_eq!(headers.len(), 3);
    assert_eq!(headers[2], one);
}
