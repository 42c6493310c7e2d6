//! Sources that cost as much as they can: of each container what may be large, comes often, or
//! changes.

#[path = "../support/made.rs"]
#[allow(dead_code, reason = "some of it is used")]
pub mod made;
#[path = "../support/transport.rs"]
#[allow(
    dead_code,
    reason = "only packets are made with it here, and checksums"
)]
mod transport;

use made::mp4_box;
use transport::{checksum, packet};

/// A name for each, and its bytes.
pub fn all() -> Vec<(&'static str, Vec<u8>)> {
    let mut all = mpegts();
    all.extend(flv());
    all.extend(matroska());
    all.extend(ogg());
    all.extend(mp4());
    all.extend(sound());
    all
}

/// So many bytes of each, or somewhat more.
const BYTES: usize = 1 << 19;

/// Rounds, each of which knows its number, until there is enough.
pub fn fill(mut bytes: Vec<u8>, mut round: impl FnMut(usize, &mut Vec<u8>)) -> Vec<u8> {
    let mut number = 0;
    while bytes.len() < BYTES {
        round(number, &mut bytes);
        number += 1;
    }
    bytes
}

fn mpegts() -> Vec<(&'static str, Vec<u8>)> {
    let both = [ts_pat(1, 32), ts_pat(33, 32)].concat();
    let large =
        |number: u16, version: usize| ts_packets(0x100 + number, &ts_pmt(number, version, 198));
    let large_maps = (1..=32)
        .flat_map(|number| large(number, 0))
        .collect::<Vec<_>>();
    vec![
        (
            "TS, sections that come one byte a packet",
            fill(ts_pat(1, 32), |round, out| {
                let number = (round % 32) as u16 + 1;
                for (index, byte) in ts_pmt(number, round / 32, 198).iter().enumerate() {
                    let payload = if index == 0 {
                        vec![0, *byte]
                    } else {
                        vec![*byte]
                    };
                    out.extend(packet(0x100 + number, index == 0, &payload));
                }
            }),
        ),
        (
            "TS, a map that changes behind large ones",
            fill(
                [ts_pat(1, 32), large_maps.clone()].concat(),
                |round, out| {
                    out.extend(ts_packets(0x101, &ts_pmt(1, round, 1)));
                },
            ),
        ),
        (
            "TS, large maps that change",
            fill(ts_pat(1, 32), |round, out| {
                out.extend(large((round % 32) as u16 + 1, round / 32));
            }),
        ),
        (
            "TS, key frames behind each map",
            fill([ts_pat(1, 32), large_maps].concat(), |round, out| {
                out.extend(ts_packets(0x101, &ts_pmt(1, round, 1)));
                out.extend(ts_key_frame(0x500));
            }),
        ),
        (
            "TS, small maps that change, many a packet",
            fill(ts_pat_on(0x101, 32), |round, out| {
                let maps = (0..11).flat_map(|map| ts_pmt((map + round % 22) as u16 + 1, round, 0));
                out.extend(ts_packets(0x101, &maps.collect::<Vec<_>>()));
            }),
        ),
        (
            "TS, programs that come and go",
            fill(Vec::new(), |round, out| {
                let first = (round % 2 * 32) as u16 + 1;
                out.extend_from_slice(&both[round % 2 * 188..][..188]);
                for number in first..first + 32 {
                    out.extend(ts_packets(0x100 + number, &ts_pmt(number, round, 1)));
                }
            }),
        ),
        (
            "TS, maps of programs that come and go, many a packet",
            fill(Vec::new(), |round, out| {
                out.extend(ts_pat_from((round % 2 * 32) as u16 + 1, 0x101, 32));
                let maps = (0..11).flat_map(|map| ts_pmt((map + round % 2 * 32) as u16 + 1, 0, 0));
                out.extend(ts_packets(0x101, &maps.collect::<Vec<_>>()));
            }),
        ),
        (
            "TS, maps that name other streams each time",
            fill(ts_pat_on(0x101, 1), |round, out| {
                let maps = (round * 40..).take(40).flat_map(|map| ts_pmt_anew(map, 16));
                out.extend(ts_packets(0x101, &maps.collect::<Vec<_>>()));
            }),
        ),
        (
            "TS, maps of one stream that is another each time",
            fill(ts_pat_on(0x101, 1), |round, out| {
                let maps = (round * 40..).take(40).flat_map(|map| ts_pmt_anew(map, 1));
                out.extend(ts_packets(0x101, &maps.collect::<Vec<_>>()));
            }),
        ),
        (
            "TS that is out of step at each packet",
            fill(ts_pat(1, 1).repeat(3), |_, out| {
                out.extend([0x47; 376]);
                out.extend([0; 188]);
                out.extend(ts_pat(1, 1).repeat(3));
            }),
        ),
    ]
}

/// Sections as few packets as they need.
fn ts_packets(pid: u16, sections: &[u8]) -> Vec<u8> {
    let payload = [&[0], sections].concat();
    let packets = payload.chunks(184).enumerate();
    packets
        .flat_map(|(index, part)| packet(pid, index == 0, part))
        .collect()
}

fn ts_section(table: u8, extension: u16, version: usize, body: &[u8]) -> Vec<u8> {
    let length = body.len() as u16 + 9;
    let mut section = vec![table, 0xb0 | (length >> 8) as u8, length as u8];
    section.extend(extension.to_be_bytes());
    section.extend([0xc1 | (version as u8 & 31) << 1, 0, 0]);
    section.extend_from_slice(body);
    section.extend(checksum(&section));
    section
}

fn ts_pat(first: u16, programs: u16) -> Vec<u8> {
    let entries = (first..first + programs)
        .flat_map(|number| [number.to_be_bytes(), (0xe100 + number).to_be_bytes()].concat());
    ts_packets(
        0,
        &ts_section(0, 1, first.into(), &entries.collect::<Vec<_>>()),
    )
}

/// All of one PID.
fn ts_pat_on(pid: u16, programs: u16) -> Vec<u8> {
    ts_pat_from(1, pid, programs)
}

fn ts_pat_from(first: u16, pid: u16, programs: u16) -> Vec<u8> {
    let entries = (first..first + programs)
        .flat_map(|number| [number.to_be_bytes(), (0xe000 | pid).to_be_bytes()].concat());
    ts_packets(
        0,
        &ts_section(0, 1, first.into(), &entries.collect::<Vec<_>>()),
    )
}

/// Returns tables with `count` streams. The first is video with PID 0x500.
fn ts_pmt(number: u16, version: usize, streams: usize) -> Vec<u8> {
    let streams = [0x1b, 0xe5, 0, 0xf0, 0].repeat(streams);
    let body = [&[0xe0, version as u8, 0xf0, 0], &streams[..]].concat();
    ts_section(2, number, version, &body)
}

/// Returns a map of `count` streams. The map before it has none of them.
fn ts_pmt_anew(number: usize, count: u8) -> Vec<u8> {
    let of = |stream| [0x1b, 0xe2 + (number % 16) as u8, stream, 0xf0, 0];
    let streams: Vec<u8> = (0..count).flat_map(of).collect();
    let body = [&[0xe0, number as u8, 0xf0, 0], &streams[..]].concat();
    ts_section(2, 1, number, &body)
}

fn ts_key_frame(pid: u16) -> Vec<u8> {
    let mut packet = packet(pid, true, &[0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0]);
    packet[5] = 0x40;
    packet
}

const FLV_HEAD: &[u8] = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";

fn flv() -> Vec<(&'static str, Vec<u8>)> {
    let metadata = |bytes: usize, round: usize| {
        let mut body = vec![0; bytes];
        let length = body.len().min(8);
        body[..length].copy_from_slice(&round.to_be_bytes()[8 - length..]);
        flv_tag(18, &[b"\x02\0\x0aonMetaData", &body[..]].concat())
    };
    let large = [
        FLV_HEAD,
        &metadata(100_000, 0),
        &flv_tag(9, &[&[0x17, 0][..], &[1; 30_000]].concat()),
        &flv_tag(8, &[&[0xaf, 0][..], &[1; 30_000]].concat()),
    ]
    .concat();
    let key_frame = flv_tag(9, &[0x17, 1, 0, 0, 0, 1]);
    vec![
        (
            "FLV, small metadata and key frames behind large tags",
            fill(large, |round, out| {
                out.extend(metadata(8, round));
                out.extend_from_slice(&key_frame);
            }),
        ),
        (
            "FLV, large metadata that changes",
            fill(FLV_HEAD.to_vec(), |round, out| {
                out.extend(metadata(100_000 + round % 2 * 1000, round));
                out.extend_from_slice(&key_frame);
            }),
        ),
        (
            "FLV, metadata that grows",
            fill(FLV_HEAD.to_vec(), |round, out| {
                out.extend(metadata(8 + round, round));
                out.extend_from_slice(&key_frame);
            }),
        ),
        (
            "FLV, sequence headers that change with each tag",
            fill(FLV_HEAD.to_vec(), |round, out| {
                out.extend(flv_tag(9, &[0x17, 0, 0, 0, 0, round as u8]));
                out.extend(flv_tag(8, &[0xaf, 0, round as u8]));
                out.extend_from_slice(&key_frame);
            }),
        ),
        (
            "FLV, empty tags",
            fill(FLV_HEAD.to_vec(), |round, out| {
                out.extend(flv_tag((round % 32) as u8, &[]));
            }),
        ),
    ]
}

/// A tag at the beginning of time.
pub fn flv_tag(kind: u8, body: &[u8]) -> Vec<u8> {
    made::tag(kind, 0, body)
}

const EBML: &[u8] = b"\x1a\x45\xdf\xa3\x87\x42\x82\x84webm";
const SEGMENT: &[u8] = b"\x18\x53\x80\x67\xff";

fn matroska() -> Vec<(&'static str, Vec<u8>)> {
    let beginning =
        |tracks: &[u8]| [EBML, SEGMENT, &element(&[0x16, 0x54, 0xae, 0x6b], tracks)].concat();
    let track = |number: u8| element(&[0xae], &[0xd7, 0x81, number, 0x83, 0x81, 1 + number % 2]);
    let tracks = (1..60).flat_map(track).collect::<Vec<_>>();
    let block = |track: u8| [0xa3, 0x84, 0x80 | track, 0, 0, 0x80];
    let cluster = |time: usize| {
        [
            &b"\x1f\x43\xb6\x75\xff\xe7\x84"[..],
            &(time as u32).to_be_bytes(),
        ]
        .concat()
    };
    let key_frames = [cluster(1), block(1).to_vec()].concat();
    vec![
        (
            "Matroska, heads of segments",
            fill(EBML.to_vec(), |_, out| out.extend_from_slice(SEGMENT)),
        ),
        (
            "Matroska, small elements of a header",
            fill([EBML, SEGMENT].concat(), |round, out| {
                out.extend([0x42 + (round % 2) as u8, 0x86, 0x80]);
            }),
        ),
        (
            "Matroska that begins again, and again",
            fill(Vec::new(), |_, out| {
                out.extend(beginning(&tracks));
                out.extend_from_slice(&key_frames);
            }),
        ),
        (
            "Matroska that begins again with large headers",
            fill(Vec::new(), |_, out| {
                out.extend(beginning(&element(
                    &[0xae],
                    &element(&[0x63, 0xa2], &[7; 200_000]),
                )));
                out.extend_from_slice(&key_frames);
            }),
        ),
        (
            "Matroska, tracks of empty elements",
            fill(Vec::new(), |_, out| {
                out.extend(beginning(&element(&[0xae], &[0xd7, 0x80].repeat(60_000))));
                out.extend_from_slice(&key_frames);
            }),
        ),
        (
            "Matroska, a cluster for each block",
            fill(beginning(&tracks), |round, out| {
                out.extend(cluster(round * 1000 % 100_000));
                out.extend(block((round % 60) as u8));
            }),
        ),
        (
            "Matroska, blocks of many tracks",
            fill([beginning(&tracks), cluster(0)].concat(), |round, out| {
                out.extend(block((round % 60) as u8));
            }),
        ),
        (
            "Matroska, key frames only",
            fill([beginning(&track(1)), cluster(0)].concat(), |_, out| {
                out.extend(block(1));
            }),
        ),
    ]
}

/// With its size in eight bytes.
fn element(id: &[u8], body: &[u8]) -> Vec<u8> {
    let size = (body.len() as u64 | 1 << 56).to_be_bytes();
    [id, &size, body].concat()
}

fn ogg() -> Vec<(&'static str, Vec<u8>)> {
    let head = |serial: u32| ogg_page(serial, 2, 0, b"OpusHead\x01\x02");
    vec![
        (
            "Ogg, chained links with large headers",
            fill(Vec::new(), |round, out| {
                out.extend(head(round as u32));
                out.extend(ogg_page(round as u32, 0, 0, &[b'x'; 60_000]));
                out.extend(ogg_page(round as u32, 0, 960, b"sound"));
            }),
        ),
        (
            "Ogg, links of one page",
            fill(Vec::new(), |round, out| {
                out.extend(head(round as u32));
                out.extend(ogg_page(round as u32, 0, 0, b"OpusTags"));
                out.extend(ogg_page(round as u32, 0, 960, b"sound"));
            }),
        ),
        (
            "Ogg, streams that only begin",
            fill(Vec::new(), |round, out| {
                out.extend(head(round as u32 % 16));
            }),
        ),
        (
            "Ogg, small pages",
            fill(
                [head(1), ogg_page(1, 0, 0, b"OpusTags")].concat(),
                |_, out| {
                    out.extend(ogg_page(1, 0, 960, b"s"));
                },
            ),
        ),
        (
            "Ogg, what looks like pages",
            fill(
                [head(1), ogg_page(1, 0, 0, b"OpusTags")].concat(),
                |_, out| {
                    out.extend_from_slice(b"OggS\0");
                },
            ),
        ),
    ]
}

fn ogg_page(serial: u32, flags: u8, granule: u64, packet: &[u8]) -> Vec<u8> {
    let lacing = [
        vec![255; packet.len() / 255],
        vec![(packet.len() % 255) as u8],
    ]
    .concat();
    let mut page = [
        b"OggS\0",
        &[flags][..],
        &granule.to_le_bytes(),
        &serial.to_le_bytes(),
    ]
    .concat();
    page.extend([0; 8]);
    page.push(lacing.len() as u8);
    [page, lacing, packet.to_vec()].concat()
}

fn mp4() -> Vec<(&'static str, Vec<u8>)> {
    let beginning = |tracks: u32, extends: u32| {
        let extends = (1..=extends).flat_map(mp4_trex).collect::<Vec<_>>();
        let tracks = (1..=tracks).flat_map(mp4_trak).collect::<Vec<_>>();
        let moov = [tracks, mp4_box(b"mvex", &extends)].concat();
        [mp4_box(b"ftyp", b"isom\0\0\0\0"), mp4_box(b"moov", &moov)].concat()
    };
    let traf = |track: u32, rest: &[u8]| {
        let tfhd = mp4_box(b"tfhd", &[&[0, 2, 0, 0], &track.to_be_bytes()[..]].concat());
        let tfdt = mp4_box(b"tfdt", &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let trun = mp4_box(b"trun", &[0, 0, 0, 0, 0, 0, 0, 1]);
        mp4_box(b"traf", &[&tfhd, &tfdt, &trun, rest].concat())
    };
    let fragment = |trafs: &[u8]| {
        let mfhd = mp4_box(b"mfhd", &[0; 8]);
        [
            mp4_box(b"moof", &[&mfhd, trafs].concat()),
            mp4_box(b"mdat", b"media"),
        ]
        .concat()
    };
    let many = (0..4_000).flat_map(|_| traf(1, &[])).collect::<Vec<_>>();
    let empty = traf(1, &mp4_box(b"free", &[]).repeat(20_000));
    vec![
        (
            "MP4, many trex and many traf",
            fill(beginning(1, 7_000), |_, out| {
                out.extend(fragment(&many));
            }),
        ),
        (
            "MP4, many tracks and many trex",
            fill(Vec::new(), |_, out| {
                out.extend(beginning(60, 5_000));
                out.extend(fragment(&traf(1, &[])));
            }),
        ),
        (
            "MP4 that begins again, and again",
            fill(Vec::new(), |_, out| {
                out.extend(beginning(1, 1));
                out.extend(fragment(&traf(1, &[])));
            }),
        ),
        (
            "MP4, small fragments",
            fill(beginning(1, 1), |_, out| {
                out.extend(fragment(&traf(1, &[])));
            }),
        ),
        (
            "MP4, fragments of empty boxes",
            fill(beginning(1, 1), |_, out| {
                out.extend(fragment(&empty));
            }),
        ),
        (
            "MP4, a header of empty boxes",
            fill(mp4_box(b"ftyp", b"isom\0\0\0\0"), |_, out| {
                out.extend(mp4_box(b"free", &[]));
            }),
        ),
    ]
}

fn mp4_trex(track: u32) -> Vec<u8> {
    mp4_box(
        b"trex",
        &[&[0; 4], &track.to_be_bytes()[..], &[0; 16]].concat(),
    )
}

fn mp4_trak(track: u32) -> Vec<u8> {
    let tkhd = mp4_box(
        b"tkhd",
        &[&[0; 12], &track.to_be_bytes()[..], &[0; 68]].concat(),
    );
    let mdhd = mp4_box(
        b"mdhd",
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 232, 0, 0, 0, 0],
    );
    let hdlr = mp4_box(b"hdlr", b"\0\0\0\0\0\0\0\0vide\0\0\0\0");
    let entry = mp4_box(
        b"avc1",
        &[&[0; 78], &mp4_box(b"free", &[]).repeat(100)[..]].concat(),
    );
    let stsd = mp4_box(b"stsd", &[&[0; 8], &entry[..]].concat());
    let minf = mp4_box(b"minf", &mp4_box(b"stbl", &stsd));
    mp4_box(
        b"trak",
        &[tkhd, mp4_box(b"mdia", &[mdhd, hdlr, minf].concat())].concat(),
    )
}

fn sound() -> Vec<(&'static str, Vec<u8>)> {
    let tag = b"ID3\x04\0\0\0\0\0\0";
    let adts = [0xff, 0xf1, 0x50, 0x80, 0x00, 0xff, 0xfc];
    vec![
        (
            "sound, empty tags",
            fill(Vec::new(), |_, out| out.extend_from_slice(tag)),
        ),
        (
            "sound, the smallest frames",
            fill(Vec::new(), |_, out| out.extend(adts)),
        ),
        (
            "sound, frames and tags",
            fill(adts.repeat(3), |_, out| {
                out.extend(adts);
                out.extend_from_slice(tag);
            }),
        ),
        (
            "sound that is lost and found again",
            fill(adts.repeat(3), |_, out| {
                out.extend([0xff; 100]);
                out.extend(adts.repeat(2));
            }),
        ),
        (
            "sound, heads of long frames in a search for frames",
            fill(adts.repeat(3), |_, out| {
                out.extend([0xff, 0xf1, 0x50, 0x80, 0xfa, 0x7f, 0xfc, 0]);
            }),
        ),
        (
            "text",
            fill(Vec::new(), |_, out| {
                out.extend_from_slice(b"no container\n")
            }),
        ),
    ]
}
