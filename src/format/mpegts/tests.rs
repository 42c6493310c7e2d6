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

/// A map of one H.264 stream.
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
    // A packet counts only if another one follows.
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
fn a_program_that_the_pat_no_longer_names_leaves_the_header() {
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

const TABLES: u64 = 2 * PACKET_BYTES as u64;

/// A map of these streams: type and PID.
fn map(pid: u16, number: u16, streams: &[(u8, u16)]) -> Vec<u8> {
    let mut body = vec![0xff, 0xff, 0xf0, 0];
    for (kind, stream) in streams {
        let [high, low] = (stream | 0xe000).to_be_bytes();
        body.extend([*kind, high, low, 0xf0, 0]);
    }
    packet(pid, 2, number, &body)
}

/// Tables of one program.
fn tables(streams: &[(u8, u16)]) -> Vec<u8> {
    [pat(&[(1, 0x100)]), map(0x100, 1, streams)].concat()
}

/// A packet with this payload, after an adaptation field with these flags.
fn carrying(pid: u16, begins: bool, flags: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = pid.to_be_bytes();
    let field = 183 - payload.len();
    let mut packet = vec![
        SYNC_BYTE,
        u8::from(begins) << 6 | high,
        low,
        0x30,
        field as u8,
    ];
    packet.push(flags);
    packet.resize(5 + field, 0xff);
    packet.extend_from_slice(payload);
    packet
}

/// Head of a PES packet that is decoded and shown at this time.
fn pes_head(bytes: u16, ticks: u64) -> Vec<u8> {
    let [high, low] = bytes.to_be_bytes();
    let mut head = vec![0, 0, 1, 0xe0, high, low, 0x80, 0x80, 5];
    head.push(0x21 | (ticks >> 29) as u8 & 0x0e);
    head.extend([(ticks >> 22) as u8, (ticks >> 14) as u8 | 1]);
    head.extend([(ticks >> 7) as u8, (ticks << 1) as u8 | 1]);
    head
}

const RANDOM_ACCESS: u8 = 0x40;
const KEY: &[u8] = &[0, 0, 1, 0x65];
const NO_KEY: &[u8] = &[0, 0, 1, 0x41, 0x9a];
/// The first slice has type 7, after macroblock 0.
const INTRA: &[u8] = &[0, 0, 1, 0x41, 0x88];

/// A PES packet that begins in this packet and does not say its length.
fn begins(pid: u16, flags: u8, ticks: u64, coded: &[u8]) -> Vec<u8> {
    carrying(pid, true, flags, &[&pes_head(0, ticks), coded].concat())
}

fn scan(bytes: &[u8]) -> (Vec<Finding>, Result<(), Unsupported>) {
    let (mut scanner, mut findings) = (MpegTs::default(), Vec::new());
    let result = scanner.feed(bytes, 0, &mut |finding, _| findings.push(finding));
    (findings, result)
}

/// Returns the findings after the tables, by the numbers of the packets. Units are left out.
fn behind_tables(streams: &[(u8, u16)], packets: &[Vec<u8>]) -> Vec<Finding> {
    let place = |at: u64| {
        assert_eq!((at - TABLES) % 188, 0);
        (at - TABLES) / 188
    };
    let (mut findings, result) = scan(&[tables(streams), packets.concat()].concat());
    findings.retain(|finding| !matches!(finding, Finding::Unit(_)));
    assert_eq!((findings[0], result), (Finding::Header, Ok(())));
    let found = findings[1..].iter().map(|finding| match finding {
        Finding::Time(at, time) => Finding::Time(place(*at), *time),
        Finding::Join(start) => Finding::Join(Start::at(place(start.offset))),
        Finding::Split(at) => Finding::Split(place(*at)),
        Finding::Break(at) => Finding::Break(place(*at)),
        other => *other,
    });
    found.collect()
}

fn time(at: u64, ticks: u64) -> Finding {
    Finding::Time(at, MediaTime::from_ticks(ticks))
}

fn join(at: u64) -> Finding {
    Finding::Join(Start::at(at))
}

const VIDEO: u16 = 0x101;
const SOUND: u16 = 0x102;
const OTHER_SOUND: u16 = 0x103;
const BOTH: &[(u8, u16)] = &[(0x1b, VIDEO), (0x0f, SOUND), (0x0f, OTHER_SOUND)];

#[test]
fn pictures_that_can_be_decoded_are_joins() {
    let mut damaged = begins(VIDEO, RANDOM_ACCESS, 8, KEY);
    damaged[1] |= 0x80;
    let mut scrambled = begins(VIDEO, 0, 9, KEY);
    scrambled[3] |= 0x40;
    let mut scrambled_access = begins(VIDEO, RANDOM_ACCESS, 10, KEY);
    scrambled_access[3] |= 0x40;
    let rest = |coded: &[u8]| carrying(VIDEO, false, 0, coded);
    let random_later = carrying(VIDEO, false, RANDOM_ACCESS, &[1; 9]);
    for (packets, found) in [
        // As long as no packet has the flag, the pictures tell.
        (
            vec![
                begins(VIDEO, 0, 1, KEY),
                begins(VIDEO, 0, 2, NO_KEY),
                begins(VIDEO, 0, 3, KEY),
                begins(0x1ff, 0, 4, KEY),
            ],
            vec![time(0, 1), join(0), time(1, 2), time(2, 3), join(2)],
        ),
        // The flag counts where decoding can begin, and not in front of a P picture.
        (
            vec![
                begins(VIDEO, RANDOM_ACCESS, 1, NO_KEY),
                begins(VIDEO, 0, 2, KEY),
                begins(VIDEO, RANDOM_ACCESS, 3, INTRA),
                begins(VIDEO, 0, 4, INTRA),
                begins(VIDEO, RANDOM_ACCESS, 5, &[]),
                begins(VIDEO, 0, 6, INTRA),
            ],
            vec![
                time(0, 1),
                time(1, 2),
                join(1),
                time(2, 3),
                join(2),
                time(3, 4),
                time(4, 5),
                time(5, 6),
                join(5),
            ],
        ),
        // Several packets are needed to tell.
        (
            vec![
                begins(VIDEO, 0, 1, &KEY[..2]),
                begins(0x1ff, 0, 2, KEY),
                rest(&KEY[2..3]),
                rest(&KEY[3..]),
                rest(KEY),
                begins(VIDEO, 0, 5, NO_KEY),
                rest(KEY),
            ],
            vec![time(0, 1), join(0), time(5, 5)],
        ),
        // The next picture begins before it is clear.
        (
            vec![
                begins(VIDEO, 0, 1, &KEY[..3]),
                begins(VIDEO, RANDOM_ACCESS, 2, &KEY[..3]),
                rest(&KEY[3..]),
            ],
            vec![time(0, 1), time(1, 2), join(1)],
        ),
        (
            vec![
                rest(KEY),
                random_later,
                damaged,
                scrambled,
                scrambled_access,
            ],
            vec![time(3, 9), time(4, 10), join(4)],
        ),
    ] {
        assert_eq!(behind_tables(&[(0x1b, VIDEO)], &packets), found);
    }
}

#[test]
fn sound_decides_after_four_seconds_without_video() {
    let video = |ticks| begins(VIDEO, RANDOM_ACCESS, ticks, KEY);
    let sound = |ticks| begins(SOUND, 0, ticks, &[7]);
    let timeless = carrying(SOUND, true, 0, &[0, 0, 1, 0xc0, 0, 0, 0x80, 0, 0]);
    let data = begins(0x1ff, 0, 900_000, &[7]);
    let rest = carrying(SOUND, false, 0, &pes_head(0, 900_000));
    for (packets, found) in [
        (vec![sound(7), sound(360_006)], vec![]),
        (
            vec![sound(7), data, rest, timeless.clone(), timeless],
            vec![],
        ),
        (
            vec![sound(7), sound(360_007)],
            vec![time(1, 360_007), join(1)],
        ),
        // The clock runs back, and the time counts from there.
        (vec![sound(9_000), sound(8_000), sound(367_999)], vec![]),
        (
            vec![sound(9_000), sound(8_000), sound(368_000)],
            vec![time(2, 368_000), join(2)],
        ),
        // Any sound counts.
        (
            vec![sound(0), begins(OTHER_SOUND, 0, 360_000, &[7])],
            vec![time(1, 360_000), join(1)],
        ),
        // Once video comes, it decides. Once it was given up, sound decides until it comes.
        (
            vec![video(1), sound(0), sound(400_000)],
            vec![time(0, 1), join(0)],
        ),
        (
            vec![sound(0), sound(400_000), video(3), sound(800_000)],
            vec![time(1, 400_000), join(1), time(2, 3), join(2)],
        ),
    ] {
        assert_eq!(behind_tables(BOTH, &packets), found);
    }
}

#[test]
fn without_video_spaced_sound_is_a_join() {
    let sound = |ticks| begins(SOUND, 0, ticks, &[7]);
    let rest = carrying(SOUND, false, 0, &pes_head(0, 5));
    let mut packets: Vec<_> = (0..8).map(sound).collect();
    packets[0] = rest.clone();
    // Six packets are more than 1,024 bytes.
    let found = [time(1, 1), join(1), time(7, 7), join(7)];
    assert_eq!(behind_tables(&[(0x0f, SOUND)], &packets), found);
    assert_eq!(behind_tables(&[(0x05, SOUND)], &packets), found);
    // Subtitles do not decide where there is sound.
    let words = [(0x05, SOUND), (0x0f, OTHER_SOUND)];
    assert_eq!(behind_tables(&words, &packets), []);
    // At exactly this distance.
    let bytes = |between: usize| {
        let begin = [tables(&[(0x0f, SOUND)]), sound(1), rest.repeat(4)].concat();
        [begin, vec![0; between], sound(2), rest.repeat(3)].concat()
    };
    for (between, count) in [(1024 - 5 * 188 - 1, 1), (1024 - 5 * 188, 2)] {
        let (findings, _) = scan(&bytes(between));
        let joins = findings
            .iter()
            .filter(|found| matches!(found, Finding::Join(_)));
        assert_eq!(joins.count(), count, "{between} bytes between");
    }
}

#[test]
fn units_stand_4096_bytes_apart() {
    let filler = packet(0x1ff, 0xff, 0, &[]);
    let units = |bytes: &[u8]| {
        let found = scan(bytes)
            .0
            .into_iter()
            .filter_map(|finding| match finding {
                Finding::Unit(start) => Some(start.offset),
                _ => None,
            });
        found.collect::<Vec<_>>()
    };
    assert_eq!(units(&filler.repeat(50)), [0, 22 * 188, 44 * 188]);
    for (between, second) in [(147, 4095 + 188), (148, 4096)] {
        let bytes = [filler.repeat(21), vec![0; between], filler.repeat(4)].concat();
        assert_eq!(units(&bytes), [0, second]);
    }
    // They begin again after a header.
    let with_tables = [filler.repeat(3), tables(BOTH), filler.repeat(9)].concat();
    assert_eq!(units(&with_tables), [0, 4 * 188]);
}

#[test]
fn a_join_splits_the_open_pes_packets_of_other_streams() {
    let sound = |pid, bytes: u16| {
        let head = pes_head(bytes - 6, 5);
        carrying(pid, true, 0, &[head, vec![7; 100]].concat())
    };
    let rest = |pid| carrying(pid, false, 0, &[7; 100]);
    let video = |flags, coded| begins(VIDEO, flags, 1, coded);
    let at_last = video(0, &KEY[..3]);
    let key_rest = carrying(VIDEO, false, 0, &KEY[3..]);
    for (packets, found) in [
        (
            vec![sound(SOUND, 300), video(RANDOM_ACCESS, KEY)],
            vec![time(1, 1), Finding::Split(1), join(1)],
        ),
        // It is whole, has not begun, or belongs to the video.
        (
            vec![
                sound(SOUND, 114),
                video(RANDOM_ACCESS, KEY),
                video(RANDOM_ACCESS, KEY),
            ],
            vec![time(1, 1), join(1), time(2, 1), join(2)],
        ),
        (
            vec![sound(SOUND, 300), rest(SOUND), rest(SOUND), video(0, KEY)],
            vec![time(3, 1), join(3)],
        ),
        // A PES packet that begins before the picture is clear changes nothing.
        (
            vec![
                video(0, NO_KEY),
                sound(SOUND, 300),
                at_last.clone(),
                sound(OTHER_SOUND, 300),
                key_rest.clone(),
            ],
            vec![time(0, 1), time(2, 1), Finding::Split(2), join(2)],
        ),
        (
            vec![
                at_last,
                sound(SOUND, 300),
                sound(OTHER_SOUND, 300),
                key_rest,
            ],
            vec![time(0, 1), join(0)],
        ),
    ] {
        assert_eq!(behind_tables(BOTH, &packets), found);
    }
    // Where sound decides, other sound may be open.
    let only_sound = [(0x0f, SOUND), (0x0f, OTHER_SOUND)];
    let mut packets = vec![sound(SOUND, 800); 6];
    packets[1..].fill(rest(SOUND));
    packets.push(sound(OTHER_SOUND, 300));
    assert_eq!(
        behind_tables(&only_sound, &packets),
        [time(0, 5), join(0), time(6, 5), Finding::Split(6), join(6)]
    );
}

#[test]
fn another_map_makes_another_header() {
    let video = begins(VIDEO, RANDOM_ACCESS, 1, KEY);
    let sound = |ticks| begins(SOUND, 0, ticks, &[7]);
    let same_video = map(0x100, 1, &[(0x1b, VIDEO), (0x0f, SOUND)]);
    let other_video = map(0x100, 1, &[(0x1b, 0x110), (0x0f, SOUND)]);
    let none = map(0x100, 1, &[]);
    let (new, joined) = (
        |at| [Finding::Break(at), Finding::Header],
        [time(0, 1), join(0)],
    );
    // The same video still decides.
    let packets = [video.clone(), same_video.clone(), sound(0), sound(400_000)];
    assert_eq!(
        behind_tables(BOTH, &packets),
        [&joined[..], &new(1)].concat()
    );
    // Another video is awaited again.
    let packets = [video.clone(), other_video, sound(0), sound(400_000)];
    let last = [time(3, 400_000), join(3)];
    assert_eq!(
        behind_tables(BOTH, &packets),
        [&joined[..], &new(1), &last].concat()
    );
    // The search of a picture ends, and no PES packet is open any more.
    let rest = carrying(VIDEO, false, 0, &KEY[3..]);
    let packets = [begins(VIDEO, 0, 1, &KEY[..3]), same_video.clone(), rest];
    assert_eq!(
        behind_tables(BOTH, &packets),
        [&[time(0, 1)][..], &new(1)].concat()
    );
    let open = carrying(SOUND, true, 0, &pes_head(300, 5));
    let packets = [open, same_video.clone(), video.clone()];
    let last = [time(2, 1), join(2)];
    assert_eq!(behind_tables(BOTH, &packets), [&new(1)[..], &last].concat());
    // The map names nothing, and then something.
    let packets = [none, video.clone(), same_video, video];
    let last = [Finding::Header, time(3, 1), join(3)];
    assert_eq!(behind_tables(BOTH, &packets), [&new(0)[..], &last].concat());
}

#[test]
fn the_decode_time_counts_or_else_the_presentation_time() {
    let show = [0x21, 0, 1, 0, 1];
    for (flags, times, ticks) in [
        (0x80, [0x21, 0, 1, 0, 3], Some(1)),
        (0x80, [0x2f, 0xff, 0xff, 0xff, 0xff], Some((1 << 33) - 1)),
        (0x80, [0xf1, 0, 1, 0, 1], Some(0)),
        (0x80, [0x21, 0, 1, 2, 1], Some(1 << 8)),
        (0x80, [0x21, 0, 3, 0, 1], Some(1 << 15)),
        (0x80, [0x21, 0, 0x80, 0, 0], Some(1 << 21)),
        (0x80, [0x21, 1, 0, 0, 0], Some(1 << 22)),
        (0x80, [0x21, 0x80, 0, 0, 0], Some(1 << 29)),
        (0x80, [0x22, 0, 0, 0, 0], Some(1 << 30)),
        (0x80, [0x28, 0, 0, 0, 0], Some(1 << 32)),
        (0xbf, [0x21, 0, 1, 0, 5], Some(2)),
        (0x00, [0x21, 0, 1, 0, 5], None),
        (0x40, [0x21, 0, 1, 0, 5], None),
        (0x3f, [0x21, 0, 1, 0, 5], None),
    ] {
        let pes = [&[0, 0, 1, 0xe0, 0, 0, 0x80, flags, 5][..], &times].concat();
        let told = decoding_time(&pes).map(MediaTime::ticks);
        assert_eq!(told, ticks, "{flags:x} {times:x?}");
        assert_eq!(decoding_time(&pes[..13]), None);
        // The decode time follows the presentation time, and counts.
        if flags & 0x80 != 0 {
            let mut pes = [&pes[..9], &show, &times].concat();
            pes[7] |= 0x40;
            let told = decoding_time(&pes).map(MediaTime::ticks);
            assert_eq!(told, ticks, "{flags:x} {times:x?}");
            assert_eq!(decoding_time(&pes[..18]), None);
            assert_eq!(decoding_time(&pes[..12]), None);
        }
    }
    for (at, byte) in [(0, 1), (1, 1), (2, 0)] {
        let mut pes = pes_head(0, 7);
        assert_eq!(decoding_time(&pes).map(MediaTime::ticks), Some(7));
        pes[at] = byte;
        assert_eq!(decoding_time(&pes), None);
    }
}

#[test]
fn a_stream_without_packets_is_given_up() {
    let packets = packet(0x1ff, 0xff, 0, &[]).repeat(4);
    let longest = 64 * 1024;
    // Packets come again after this many bytes.
    for (between, result) in [(longest, Ok(())), (longest + 1, Err(Unsupported))] {
        let stream = [&packets[..], &vec![0; between], &packets].concat();
        assert_eq!(scan(&stream).1, result, "{between} bytes between");
    }
    // No packets have come for this many bytes.
    let mut scanner = MpegTs::default();
    assert_eq!(scanner.feed(&packets, 9, &mut |_, _| {}), Ok(()));
    let after = 9 + packets.len() as u64;
    let feed = |scanner: &mut MpegTs, at: usize, length: usize| {
        scanner.feed(&vec![0; length], after + at as u64, &mut |_, _| {})
    };
    assert_eq!(feed(&mut scanner, 0, 2 * longest - 9), Ok(()));
    assert_eq!(feed(&mut scanner, 2 * longest - 9, 9), Ok(()));
    assert_eq!(feed(&mut scanner, 2 * longest, 1), Err(Unsupported));
}

#[test]
fn tables_that_are_damaged_or_not_in_force_do_not_count() {
    let first = tables(&[(0x1b, VIDEO)]);
    let changed = |number: usize, change: &dyn Fn(&mut [u8])| {
        let mut tables = first.clone();
        change(&mut tables[number * PACKET_BYTES..][..PACKET_BYTES]);
        tables
    };
    let checked = |packet: &mut [u8]| {
        let end = 8 + usize::from(packet[7]) - 4;
        let sum = psi::checksum(&packet[5..end]).to_be_bytes();
        packet[end..end + 4].copy_from_slice(&sum);
    };
    assert_eq!(headers(&first).len(), 1);
    for number in [0, 1] {
        // Any byte of the section. The bytes after it are stuffing.
        let length = 3 + usize::from(first[number * PACKET_BYTES + 7]);
        for at in 5..5 + length {
            let damaged = changed(number, &|packet: &mut [u8]| packet[at] ^= 0x01);
            assert_eq!(headers(&damaged).len(), 0, "byte {at} of table {number}");
        }
        let next = changed(number, &|packet: &mut [u8]| {
            packet[10] &= !1;
            checked(packet);
        });
        assert_eq!(headers(&next).len(), 0, "not in force yet");
        let other = changed(number, &|packet: &mut [u8]| {
            packet[5] = 0x42;
            checked(packet);
        });
        assert_eq!(headers(&other).len(), 0, "another table");
    }
    for pmt in [
        map(0x100, 2, &[(0x1b, VIDEO)]),
        map(0x104, 1, &[(0x1b, VIDEO)]),
        map(0x100, 1, &[]),
    ] {
        assert_eq!(headers(&[pat(&[(1, 0x100)]), pmt].concat()).len(), 0);
    }
}

#[test]
fn a_program_keeps_its_map_while_the_pat_names_it() {
    let (one, two) = (pmt(0x100, 1, 0x101), pmt(0x200, 2, 0x102));
    let (both, turned) = (
        pat(&[(1, 0x100), (2, 0x200)]),
        pat(&[(2, 0x200), (1, 0x100)]),
    );
    let stream = [&both[..], &one, &two, &turned, &both, &turned].concat();
    let in_order = [&both[..], &one, &two].concat();
    let in_turn = [&turned[..], &two, &one].concat();
    let told = headers(&stream);
    assert_eq!(
        told[1..],
        [in_order.clone(), in_turn.clone(), in_order.clone(), in_turn]
    );
    // A new program takes the place of one that the PAT no longer names, and of no other.
    let other = pat(&[(3, 0x300), (2, 0x200)]);
    let told = headers(&[&in_order[..], &other].concat());
    assert_eq!(told[2..], [[&other[..], &two].concat()]);
    // Another PID, or another number on the same PID, is another program.
    let moved = pat(&[(1, 0x300)]);
    let renamed = pat(&[(3, 0x100)]);
    for other in [&moved, &renamed] {
        let told = headers(&[&in_order[..], other, &one].concat());
        assert_eq!(told[2..], [Vec::<u8>::new()], "nothing is known any more");
    }
    // Another PAT ends a map that has begun, since its PID may now be another's.
    let [begin, end] = long_map(0x100, 1);
    let named = pat(&[(1, 0x100)]);
    for (between, told) in [(&[][..], 1), (&named[..], 1), (&both[..], 0)] {
        let stream = [&named[..], &begin, between, &end].concat();
        assert_eq!(headers(&stream).len(), told);
    }
}

/// A map in two packets.
fn long_map(pid: u16, number: u16) -> [Vec<u8>; 2] {
    let streams: Vec<u8> = (1..=40)
        .flat_map(|low| [0x0f, 0xe1, low, 0xf0, 0])
        .collect();
    let length = streams.len() as u16 + 4 + 9;
    let mut section = vec![2, 0xb0 | (length >> 8) as u8, length as u8];
    section.extend(number.to_be_bytes());
    section.extend([0xc1, 0, 0, 0xff, 0xff, 0xf0, 0]);
    section.extend(streams);
    section.extend(psi::checksum(&section).to_be_bytes());
    section.resize(183 + 184, 0xff);
    let [high, low] = pid.to_be_bytes();
    [
        [&[SYNC_BYTE, 0x40 | high, low, 0x10, 0], &section[..183]].concat(),
        [&[SYNC_BYTE, high, low, 0x10], &section[183..]].concat(),
    ]
}

#[test]
fn tables_are_repeated_with_the_newest_counters() {
    let counted = |packet: &[u8], counter: u8| {
        let mut packet = packet.to_vec();
        packet[3] = packet[3] & 0xf0 | counter;
        packet
    };
    let (pat, [first, second]) = (pat(&[(1, 0x100)]), long_map(0x100, 1));
    let told = |counters: [u8; 3]| {
        [
            counted(&pat, counters[0]),
            counted(&first, counters[1]),
            counted(&second, counters[2]),
        ]
        .concat()
    };
    let mut scanner = MpegTs::default();
    let header = |scanner: &MpegTs| scanner.header().to_vec();
    for counters in [[3, 15, 0], [4, 1, 2], [15, 9, 10]] {
        assert_eq!(scanner.feed(&told(counters), 0, &mut |_, _| {}), Ok(()));
        let repetition = scanner.header().tables(None).expect("tables");
        assert_eq!((repetition.programs, repetition.is_plain), (1, true));
        assert_eq!(repetition.packets, told(counters));
        // The header is as it came first.
        assert_eq!(header(&scanner), told([3, 15, 0]));
    }
    // Packets of recorders and receivers cannot be sent again.
    for (before, after) in [(4, 0), (0, 16)] {
        let whole = |packet: &Vec<u8>| [&vec![0; before], &packet[..], &vec![0; after]].concat();
        let wrapped = [whole(&pat), whole(&first), whole(&second)].concat();
        let mut scanner = MpegTs::default();
        assert_eq!(scanner.feed(&wrapped.repeat(2), 0, &mut |_, _| {}), Ok(()));
        assert_eq!(header(&scanner), wrapped);
        let repetition = scanner.header().tables(None).expect("tables");
        assert!(!repetition.is_plain);
        // Nor can they if each table has one packet.
        let small = [whole(&pat), whole(&pmt(0x100, 1, 0x101))].concat();
        let mut scanner = MpegTs::default();
        assert_eq!(scanner.feed(&small.repeat(3), 0, &mut |_, _| {}), Ok(()));
        let repetition = scanner.header().tables(None).expect("tables");
        assert!(!repetition.is_plain);
    }
}

#[test]
fn programs_and_their_maps_are_bounded() {
    let programs: Vec<(u16, u16)> = (1..=40).map(|number| (number, 0x100 + number)).collect();
    let twice: Vec<_> = programs[..2].iter().chain(&programs).copied().collect();
    let maps: Vec<_> = programs
        .iter()
        .map(|(number, pid)| pmt(*pid, *number, 0x200))
        .collect();
    let stream = [pat(&twice[..42]), maps.concat()].concat();
    let told = headers(&stream);
    // One for each map. There are 32.
    assert_eq!(told.len(), 32);
    let header = [pat(&twice[..42]), maps[..32].concat()].concat();
    assert!(told[31] == header, "those that are named first");
    let mut scanner = MpegTs::default();
    assert_eq!(scanner.feed(&stream, 0, &mut |_, _| {}), Ok(()));
    let held = scanner.tables.memory_bytes();
    let section = 13 + 9 + 4;
    let least = header.len() + 32 * section + 32 * (188 + section);
    assert!(
        (least..=128 * 1024).contains(&held),
        "{held} of {least} bytes"
    );
    assert_eq!(
        scanner.header().tables(None).map(|tables| tables.programs),
        Some(32)
    );

    // Maps of the greatest length.
    let mut scanner = MpegTs::default();
    let mut feed = |bytes: &[u8]| {
        scanner
            .feed(bytes, 0, &mut |_, _| {})
            .map(|()| scanner.tables.memory_bytes())
    };
    assert!(feed(&pat(&programs[..32]).repeat(3)).is_ok());
    let mut fed = 0;
    let ended = programs[..32].iter().find(|(number, pid)| {
        let [high, low] = pid.to_be_bytes();
        let mut section = vec![2, 0xbf, 0xf0];
        section.extend(number.to_be_bytes());
        section.extend([0xc1, 0, 0, 0xff, 0xff, 0xf0, 0]);
        section.resize(3 + 0xff0 - 4, 0xff);
        section.extend(psi::checksum(&section).to_be_bytes());
        section.resize(183 + 22 * 184, 0xff);
        let first = [&[SYNC_BYTE, 0x40 | high, low, 0x10, 0], &section[..183]].concat();
        let rest = section[183..].chunks(184);
        let rest = rest.map(|part| [&[SYNC_BYTE, high, low, 0x10], part].concat());
        std::iter::once(first).chain(rest).any(|packet| {
            fed += packet.len();
            let held = feed(&packet);
            assert!(held.is_ok_and(|held| held <= 129 * 1024) || held.is_err());
            held.is_err()
        })
    });
    // The scanner holds the packets and the section of each map, while it comes and afterwards.
    assert!(
        ended.is_some() && (20_000..128 * 1024 / 2).contains(&fed),
        "{fed} bytes"
    );
}

const SETS: &[u8] = &[
    0, 0, 0, 1, 0x67, 100, 0, 30, 0x80, 7, 0, 0, 0, 1, 0x68, 0x80, 7,
];

/// A PES packet of parameter sets after the tables, for starts with this counter.
fn sets(coded: &[u8], counter: u8) -> Vec<u8> {
    let [high, low] = (coded.len() as u16 + 3).to_be_bytes();
    let pes = [&[0, 0, 1, 0xe0, high, low, 0x80, 0, 0], coded].concat();
    let mut packet = carrying(VIDEO, true, 0, &pes);
    packet[3] |= counter.wrapping_sub(1) & 0x0f;
    packet
}

/// Returns the header at each join point, after the tables.
fn headers_at_joins(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    headers_of(0x1b, packets)
}

/// The same for video of this stream type.
fn headers_of(video: u8, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut scanner = MpegTs::default();
    let tables = tables(&[(video, VIDEO)]);
    let bytes = [tables.clone(), packets.concat()].concat();
    let mut headers = Vec::new();
    let fed = scanner.feed(&bytes, 0, &mut |finding, header| {
        if let Finding::Join(start) = finding {
            let of_viewer = header.at(start.counter);
            let repeated = header.tables(start.counter).expect("tables").packets;
            assert_eq!(of_viewer[..tables.len()], tables);
            assert_eq!(repeated[tables.len()..], of_viewer[tables.len()..]);
            headers.push(of_viewer[tables.len()..].to_vec());
        }
    });
    assert_eq!(fed, Ok(()));
    #[cfg(feature = "handover")]
    assert!(scanner.is_valid(bytes.len() as u64));
    headers
}

#[test]
fn a_start_at_a_key_picture_without_parameter_sets_gets_the_newest_ones() {
    let picture = |counter: u8, flags, coded: &[&[u8]]| {
        let mut packet = begins(VIDEO, flags, 1, &coded.concat());
        packet[3] |= counter;
        packet
    };
    // A packet is missing within a set.
    let mut torn = vec![
        picture(1, 0, &[SETS, KEY]),
        picture(2, 0, &[&SETS[..7]]),
        carrying(VIDEO, false, 0, &[SETS, KEY].concat()[7..]),
    ];
    torn[2][3] |= 4;
    torn.push(picture(5, 0, &[KEY]));
    let other_sets = [SETS, &[9]].concat();
    let more_sets = [SETS, &[0, 0, 0, 1, 0x68, 0x40, 5]].concat();
    for (packets, headers) in [
        // Each picture brings its own.
        (
            vec![picture(0, 0, &[SETS, KEY]), picture(1, 0, &[SETS, KEY])],
            vec![vec![], vec![]],
        ),
        // The later ones do not, with the flag or without.
        (
            vec![
                picture(0, 0, &[SETS, KEY]),
                picture(1, 0, &[NO_KEY]),
                picture(2, 0, &[KEY]),
                picture(3, RANDOM_ACCESS, &[INTRA]),
                picture(0, 0, &[SETS, KEY]),
            ],
            vec![vec![], sets(SETS, 2), sets(SETS, 3), sets(SETS, 0)],
        ),
        // They were in front of the picture, in a PES packet of their own.
        (
            vec![picture(4, 0, &[SETS]), picture(5, 0, &[KEY])],
            vec![sets(SETS, 5)],
        ),
        // A picture in between brings others, or one more.
        (
            vec![
                picture(0, 0, &[SETS, KEY]),
                picture(1, 0, &[KEY]),
                picture(2, 0, &[&other_sets, NO_KEY]),
                picture(3, 0, &[KEY]),
                picture(4, 0, &[&more_sets[SETS.len()..], NO_KEY]),
                picture(5, 0, &[KEY]),
            ],
            vec![
                vec![],
                sets(SETS, 1),
                sets(&other_sets, 3),
                sets(&[&other_sets[..], &more_sets[SETS.len()..]].concat(), 5),
            ],
        ),
        (torn, vec![vec![], sets(SETS, 2), sets(SETS, 5)]),
        // No sets have come.
        (vec![picture(0, 0, &[KEY])], vec![vec![]]),
    ] {
        assert_eq!(headers_at_joins(&packets), headers);
    }
}

/// An encoder of MPEG-2 may send the header of the sequence once. It may end with zeros.
#[test]
fn a_start_at_a_picture_of_mpeg_2_without_a_sequence_header_gets_the_newest_one() {
    const SEQUENCE: &[u8] = &[0, 0, 1, 0xb3, 0x14, 0, 0xb4, 0x13, 0, 0x62, 0xe0, 0];
    const EXTENSION: &[u8] = &[0, 0, 1, 0xb5, 0x14, 0x8a, 0, 1, 0, 0];
    const GROUP: &[u8] = &[0, 0, 1, 0xb8, 0, 8, 0, 0x40];
    const KEY: &[u8] = &[0, 0, 1, 0, 0, 0x0f, 0xff, 0xf8, 0, 0, 1, 1, 7];
    const NO_KEY: &[u8] = &[0, 0, 1, 0, 0, 0x57, 0xff, 0xf8, 0, 0, 1, 1, 7];
    let picture = |counter: u8, flags, coded: &[&[u8]]| {
        let mut packet = begins(VIDEO, flags, 1, &coded.concat());
        packet[3] |= counter;
        packet
    };
    for flags in [0, RANDOM_ACCESS] {
        let packets = [
            picture(0, flags, &[SEQUENCE, EXTENSION, GROUP, KEY]),
            picture(1, 0, &[NO_KEY]),
            picture(2, flags, &[GROUP, KEY]),
            picture(3, flags, &[NO_KEY]),
            picture(4, flags, &[SEQUENCE, EXTENSION, GROUP, KEY]),
        ];
        let both = [&[0], SEQUENCE, &[0], EXTENSION].concat();
        let headers = [vec![], sets(&both, 2), sets(&both, 4)];
        assert_eq!(headers_of(2, &packets), headers, "{flags:#x}");
    }
}

#[test]
fn parameter_sets_that_are_too_long_are_not_kept() {
    let long = |bytes: usize| {
        let sps = [&[0, 0, 1, 0x67, 100, 0, 30, 0x80][..], &[7; 160]].concat();
        let mut packets = vec![begins(VIDEO, 0, 1, &sps)];
        packets.extend((0..bytes / 160).map(|_| carrying(VIDEO, false, 0, &[7; 160])));
        packets.push(carrying(VIDEO, false, 0, KEY));
        packets.push(begins(VIDEO, 0, 2, KEY));
        let counted = packets.iter_mut().enumerate();
        counted.for_each(|(index, packet)| packet[3] |= index as u8 & 0x0f);
        headers_at_joins(&packets).pop().expect("a join")
    };
    assert_eq!(long(640).len(), 5 * 188);
    assert!(long(960).is_empty() && long(8_000).is_empty());
}
