//! Sources that make remuxing as expensive as they can: its memory is counted, its allocations for
//! each byte are bounded, and the stream itself continues.

use std::time::Duration;

use tollgate::format::{Finding, Scanner};
use tollgate::remux::{Remuxer, Target};

use super::counted::assert_bounded;
use super::hall::Hall;
use super::media::{
    self,
    made::{mp4_box, tag},
};
use super::meter;

const HOST: [u8; 4] = [192, 0, 2, 1];
const FLV: &[u8] = include_bytes!("../media/h264.flv");
const MP4: &[u8] = include_bytes!("../media/h264.mp4");
const MKV: &[u8] = include_bytes!("../media/h264.mkv");
const TS: &[u8] = include_bytes!("../media/h264.ts");
/// Over its life, in both containers, with playlists, for a byte that comes.
const ALLOCATED_PER_BYTE: u64 = 16;
const ALLOCATED_ONCE: u64 = 3 << 20;

fn fill(bytes: Vec<u8>, mut round: impl FnMut(u32, &mut Vec<u8>)) -> Vec<u8> {
    media::fill(bytes, |number, out| round(number as u32, out))
}

/// Returns the bytes in front of the first picture, with the setup of the pictures.
fn flv_head() -> (Vec<u8>, Vec<u8>) {
    let (mut head, mut setup) = (FLV[..13].to_vec(), Vec::new());
    let mut rest = &FLV[13..];
    loop {
        let length = u32::from_be_bytes([0, rest[1], rest[2], rest[3]]) as usize;
        let (tag, behind) = rest.split_at(length + 15);
        match (tag[0], tag[12]) {
            (9, 1) => return (head, setup),
            (9, _) => setup = tag[11..11 + length].to_vec(),
            _ => {}
        }
        if tag[0] != 8 || tag[12] == 0 {
            head.extend_from_slice(tag);
        }
        rest = behind;
    }
}

fn flv() -> Vec<(&'static str, Vec<u8>)> {
    let (head, setup) = flv_head();
    let picture = [0x17, 1, 0, 0, 0, 0, 0, 0, 1, 0x65];
    let sound = [0xaf, 1, 0x21];
    let mut other = setup.clone();
    // Another level.
    other[8] ^= 1;
    vec![
        (
            "FLV, pictures of a byte",
            fill(head.clone(), |at, out| {
                out.extend(tag(9, at, &picture));
            }),
        ),
        (
            "FLV, sound of a byte",
            fill(head.clone(), |at, out| out.extend(tag(8, at, &sound))),
        ),
        (
            "FLV, setups that change",
            fill(head.clone(), |at, out| {
                out.extend(tag(9, at, if at % 2 == 0 { &setup } else { &other }));
                out.extend(tag(9, at, &picture));
            }),
        ),
        (
            "FLV, times that jump",
            fill(head, |at, out| {
                out.extend(tag(9, at % 2 * 0xff_ffff, &picture));
                out.extend(tag(8, at % 3 * 0x7fff_ffff, &sound));
            }),
        ),
    ]
}

/// Returns a fragment of the first track with runs of `count` samples of `bytes` bytes.
fn fragment(runs: usize, samples: u32, bytes: u32, time: u64, media: usize) -> Vec<u8> {
    // The default base is the moof; a default length.
    let tfhd = [&[0, 2, 0, 0x10, 0, 0, 0, 1], &bytes.to_be_bytes()[..]].concat();
    let tfdt = [&[1, 0, 0, 0], &time.to_be_bytes()[..]].concat();
    let trun = mp4_box(b"trun", &[&[0; 4], &samples.to_be_bytes()[..]].concat());
    let traf = [
        mp4_box(b"tfhd", &tfhd),
        mp4_box(b"tfdt", &tfdt),
        trun.repeat(runs),
    ];
    let moof = [mp4_box(b"mfhd", &[0; 8]), mp4_box(b"traf", &traf.concat())];
    [
        mp4_box(b"moof", &moof.concat()),
        mp4_box(b"mdat", &vec![0x65; media]),
    ]
    .concat()
}

fn before(file: &[u8], mark: &[u8]) -> Vec<u8> {
    let at = file.windows(mark.len()).position(|bytes| bytes == mark);
    file[..at.expect("it is there")].to_vec()
}

fn mp4() -> Vec<(&'static str, Vec<u8>)> {
    let mut head = before(MP4, b"moof");
    head.truncate(head.len() - 4);
    let of = |make: &dyn Fn(u32) -> Vec<u8>| fill(head.clone(), |at, out| out.extend(make(at)));
    vec![
        (
            "MP4, samples without a byte",
            of(&|at| fragment(1, u32::MAX, 0, u64::from(at), 9)),
        ),
        (
            "MP4, many runs of all samples there can be",
            of(&|at| fragment(900, u32::MAX, 0, u64::from(at), 9)),
        ),
        (
            "MP4, samples of a byte",
            of(&|at| fragment(1, 200_000, 1, u64::from(at), 200_000)),
        ),
        (
            "MP4, longer samples than there are bytes",
            of(&|at| fragment(1, 9, u32::MAX, u64::from(at), 9)),
        ),
        (
            "MP4, times that run back",
            of(&|at| fragment(1, 2, 5, u64::MAX - u64::from(at) * 90_000, 10)),
        ),
    ]
}

fn matroska() -> Vec<(&'static str, Vec<u8>)> {
    const CLUSTER: [u8; 4] = [0x1f, 0x43, 0xb6, 0x75];
    let head = before(MKV, &CLUSTER);
    let cluster = |content: &[u8]| {
        let length = (content.len() as u32 | 0x1000_0000).to_be_bytes();
        [&CLUSTER[..], &length, content].concat()
    };
    // Track 1, at no time, laced as EBML does.
    let laced = |frames: u8, sizes: &[u8]| {
        let body = [&[0x81, 0, 0, 0x86, frames - 1], sizes].concat();
        let length = (body.len() as u16 | 0x4000).to_be_bytes();
        [&[0xa3], &length[..], &body].concat()
    };
    let time = |at: u32| [&[0xe7, 0x84][..], &at.to_be_bytes()].concat();
    // No two fragments have the same length.
    let empty = [&[0x80][..], &[0xbf; 253]].concat();
    // The first has three bytes, the others none more.
    let small = [&[0x83][..], &[0xbf; 253], &[0x65; 765]].concat();
    vec![
        (
            "Matroska, laced frames without a byte",
            fill(head.clone(), |at, out| {
                out.extend(cluster(&[time(at), laced(255, &empty)].concat()));
            }),
        ),
        (
            "Matroska, laced frames of three bytes",
            fill(head.clone(), |at, out| {
                out.extend(cluster(&[time(at), laced(255, &small)].concat()));
            }),
        ),
        (
            "Matroska, times that run back",
            fill(head, |at, out| {
                let block = [0xa3, 0x86, 0x81, 0, 0, 0x80, 0x65, 1];
                out.extend(cluster(
                    &[&time(u32::MAX - at * 5_000)[..], &block].concat(),
                ));
            }),
        ),
    ]
}

fn mpegts() -> Vec<(&'static str, Vec<u8>)> {
    let tables: Vec<u8> = TS.chunks(188).take(3).flatten().copied().collect();
    let packet = |at: u32, pid: u16, payload: &[u8]| {
        let [high, low] = pid.to_be_bytes();
        let mut packet = vec![0x47, 0x40 | high, low, 0x10 | (at % 16) as u8];
        packet.extend_from_slice(payload);
        packet.resize(188, 0xff);
        packet
    };
    let pes = |stream: u8, at: u32| {
        let time = [
            0x21 | (at >> 29) as u8 & 0xe,
            (at >> 22) as u8,
            (at >> 14) as u8 | 1,
        ];
        let time = [&time[..], &[(at >> 7) as u8, (at << 1) as u8 | 1]].concat();
        [&[0, 0, 1, stream, 0, 0, 0x80, 0x80, 5], &time[..]].concat()
    };
    let adts = [0xff, 0xf1, 0x50, 0x80, 0x00, 0xff, 0xfc];
    let all = |kind: u8| {
        let tables = tables.clone();
        fill(tables, |at, out| {
            let sound = [pes(0xc0, at * 90), adts.repeat(24)].concat();
            let picture = [pes(0xe0, at * 90), [0, 0, 1, 0x65].repeat(42)].concat();
            if kind != 1 {
                out.extend(packet(at, 0x101, &sound));
            }
            if kind != 0 {
                out.extend(packet(at, 0x100, &picture));
            }
        })
    };
    vec![
        ("TS, sound without a byte", all(0)),
        ("TS, pictures of units of a byte", all(1)),
        ("TS, both", all(2)),
    ]
}

fn sources() -> Vec<(&'static str, Vec<u8>)> {
    let mut sources = flv();
    sources.extend(mp4());
    sources.extend(matroska());
    sources.extend(mpegts());
    let others = ["TS", "MP4", "FLV", "Matroska", "WebM"];
    let is_container = |name: &str| others.iter().any(|other| name.starts_with(other));
    sources.extend(
        media::all()
            .into_iter()
            .filter(|(name, _)| is_container(name)),
    );
    sources
}

#[test]
fn who_publishes_what_costs_most_holds_what_is_counted() {
    for (name, source) in sources() {
        for piece in [100_000, 1_999] {
            let began = meter::memory_bytes();
            let mut hall = Hall::new(&["--buffer=1M", "--buffers=8M"]);
            let put = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n";
            let publisher = hall.connect(HOST, usize::MAX, put.as_bytes());
            let (before, mut sent) = (meter::allocated(), 0);
            for (number, bytes) in source.chunks(piece).enumerate() {
                if [0, 1, 9].contains(&number) {
                    for (file, takes) in [
                        ("live.ts", usize::MAX),
                        ("live.mp4", usize::MAX),
                        ("live.ts", 500),
                        ("index.m3u8", usize::MAX),
                    ] {
                        let get = format!("GET /stream/s/{file} HTTP/1.1\r\nHost: h\r\n\r\n");
                        hall.connect([192, 0, 2, 2], takes, get.as_bytes());
                    }
                }
                hall.send(publisher, bytes);
                sent += bytes.len();
                hall.turns(2, Duration::from_millis(5));
                if number % 16 < 2 {
                    assert_bounded(&hall, began, name);
                }
                // Beyond what a shadow takes of it the stream's own viewers have it all.
                assert!(hall.is_connected(publisher), "{name}: the stream is gone");
            }
            while hall.unread(publisher) > 0 {
                hall.turn(Duration::from_millis(5));
            }
            let cost = meter::allocated() - before;
            assert!(
                cost <= ALLOCATED_PER_BYTE * sent as u64 + ALLOCATED_ONCE,
                "{name} by {piece}: {sent} bytes cost {cost}"
            );
            hall.leave_all();
            hall.turns(3, Duration::from_millis(5));
        }
    }
}

/// Once, for a remuxer: what changes of tracks may take beyond the media, and its buffers.
const REMUXER_ALLOCATED_ONCE: u64 = 1 << 20;
const REMUXER_ALLOCATED_PER_BYTE: u64 = 8;

#[test]
fn a_remuxer_allocates_at_most_eight_bytes_for_a_byte() {
    for (name, source) in sources() {
        let mut format = None;
        Scanner::default().feed(&source, &mut |finding, _| {
            if let Finding::Format(known) = finding {
                format = Some(known);
            }
        });
        let Some(format) = format else { continue };
        for to in Target::ALL {
            let mut remuxer = Remuxer::new(format, to, 256 << 10).expect("a container");
            let (mut out, mut read, mut saved) = (Vec::with_capacity(4 << 20), 0, 256 << 10);
            let before = meter::allocated();
            for piece in source.chunks(16 << 10) {
                out.clear();
                let mut work_left = saved + 32 * piece.len();
                let fed = meter::counted(|| remuxer.feed(piece, &mut work_left, &mut out));
                saved = work_left.min(256 << 10);
                read += piece.len() as u64;
                if fed.is_err() {
                    break;
                }
            }
            let cost = meter::allocated() - before;
            assert!(
                cost <= REMUXER_ALLOCATED_PER_BYTE * read + REMUXER_ALLOCATED_ONCE,
                "{name} to {to:?}: {read} bytes cost {cost}"
            );
        }
    }
}
