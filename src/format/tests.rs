use super::window::{Walker, Window};
use super::*;

/// A finding, and the header if the finding is one.
pub(super) type Found = (Finding, Option<Vec<u8>>);

/// Findings of a walker, and whether it gave up.
pub(super) type Scanned = (Vec<Found>, Result<(), Unsupported>);

/// Returns a walker's findings, which are the same in pieces of these sizes as in one piece.
/// `check` runs after each piece, with the bytes so far.
pub(super) fn scan_in<W: for<'a> Walker<Findings<'a>>>(
    bytes: &[u8],
    sizes: &[usize],
    begin: fn() -> W,
    check: impl Fn(&W, u64),
) -> Scanned {
    let pieces = |size: usize| {
        let (mut window, mut walker) = (Window::default(), begin());
        let (mut findings, mut offset) = (Vec::new(), 0);
        for piece in bytes.chunks(size) {
            let mut found = |finding, header: Header<'_>| {
                let header = (finding == Finding::Header).then(|| header.to_vec());
                findings.push((finding, header));
            };
            let found: &mut Findings<'_> = &mut found;
            if window.walk(&mut walker, piece, offset, found) == Err(Unsupported) {
                return (findings, Err(Unsupported));
            }
            offset += piece.len() as u64;
            check(&walker, offset);
        }
        (findings, Ok(()))
    };
    let whole = pieces(bytes.len().max(1));
    for &size in sizes {
        assert!(pieces(size) == whole, "in pieces of {size}");
    }
    whole
}

/// A transport stream: a PAT that names one program, whose map has not come.
fn transport() -> Vec<u8> {
    let mut packet = vec![mpegts::SYNC_BYTE, 0x40, 0, 0x10, 0];
    packet.extend([0, 0xb0, 13, 0, 1, 0xc1, 0, 0, 0, 1, 0xe1, 0]);
    let sum = mpegts::checksum(&packet[5..]);
    packet.extend(sum.to_be_bytes());
    packet.resize(188, 0xff);
    packet.repeat(5)
}

fn ogg_page(flags: u8, packet: &[u8]) -> Vec<u8> {
    let head = [&b"OggS\0"[..], &[flags], &[0; 20], &[1, packet.len() as u8]].concat();
    [&head, packet].concat()
}

/// A tag of FLV, with the size after it.
pub(super) fn flv_tag(kind: u8, milliseconds: u32, body: &[u8]) -> Vec<u8> {
    let [_, size @ ..] = (body.len() as u32).to_be_bytes();
    let [high, time @ ..] = milliseconds.to_be_bytes();
    let whole = (body.len() as u32 + 11).to_be_bytes();
    [&[kind], &size[..], &time, &[high, 0, 0, 0], body, &whole].concat()
}

/// A box of MP4 with this content.
pub(super) fn mp4_box(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
    [
        &(content.len() as u32 + 8).to_be_bytes(),
        &kind[..],
        content,
    ]
    .concat()
}

/// Numbers of 32 bits.
pub(super) fn words(numbers: &[u32]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_be_bytes())
        .collect()
}

/// A file with one fragment, whose positions are of this kind.
fn mp4(flags: u8) -> Vec<u8> {
    let tfhd = mp4_box(
        b"tfhd",
        &[0, 0, 0, flags, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
    );
    [
        mp4_box(b"ftyp", b"isom"),
        mp4_box(b"moov", &mp4_box(b"mvex", &[])),
        mp4_box(b"moof", &mp4_box(b"traf", &tfhd)),
    ]
    .concat()
}

/// The beginning of a stream of each format, and the length of its header.
fn beginnings() -> [(Format, Vec<u8>, usize); 8] {
    let ebml = |name: &[u8]| {
        let name_bytes = 0x80 | name.len() as u8;
        let head = [
            0x1a,
            0x45,
            0xdf,
            0xa3,
            name_bytes + 3,
            0x42,
            0x82,
            name_bytes,
        ];
        let cluster = [0x1f, 0x43, 0xb6, 0x75, 0xff, 0xa3, 0x85, 0x81, 0, 0, 0, 9];
        [&head[..], name, &[0x18, 0x53, 0x80, 0x67, 0xff], &cluster].concat()
    };
    let opus = [ogg_page(2, b"OpusHead\x01"), ogg_page(0, b"OpusTags")].concat();
    let ogg = [&opus[..], &ogg_page(0, b"sound")].concat();
    let sound = [&[0x12][..], &[0x22; 20]].concat();
    let flv = [
        &b"FLV\x01\x01\0\0\0\x09\0\0\0\0\x09\0\0\x15\0\0\0\0\0\0\0"[..],
        &sound,
        &[0; 4],
    ]
    .concat();
    let mp3 = [&[0xff, 0xfb, 0x90, 0][..], &[0; 413]].concat().repeat(4);
    let aac = [0xff, 0xf1, 0x50, 0x80, 0x01, 0x1f, 0xfc, 9].repeat(4);
    let header = mp4(0).len() - 40;
    [
        (Format::WebM, ebml(b"webm"), 17),
        (Format::Matroska, ebml(b"matroska"), 21),
        (Format::MpegTs, transport(), 0),
        (Format::Ogg, ogg, opus.len()),
        (Format::Mp4, mp4(0), header),
        (Format::Flv, flv, 13),
        (Format::Mp3, mp3, 0),
        (Format::Aac, aac, 0),
    ]
}

/// A scanner that has read these bytes, and the format that it reported.
fn fed(bytes: &[u8]) -> (Scanner, Option<Format>) {
    let (mut scanner, mut told) = (Scanner::default(), None);
    scanner.feed(bytes, &mut |finding, _| match finding {
        Finding::Format(format) => told = Some(format),
        Finding::Unknown => told = None,
        _ => {}
    });
    (scanner, told)
}

#[test]
fn each_format_has_its_header() {
    for (format, bytes, header) in beginnings() {
        let (scanner, told) = fed(&bytes);
        assert_eq!(told, Some(format));
        assert_eq!(scanner.header().length(), header, "{format:?}");
        assert!(
            !scanner.needs_first_byte() && !scanner.may_be_magic(),
            "{format:?}"
        );
        assert!(!scanner.may_be_sound_only(), "{format:?}");
    }
    let (scanner, told) = fed(&mp4(1));
    assert_eq!(
        (told, scanner.needs_first_byte()),
        (Some(Format::Mp4), true)
    );
}

#[test]
fn formats_have_the_names_of_the_interface() {
    for (format, name, media_type) in [
        (Format::WebM, "webm", "video/webm"),
        (Format::Matroska, "matroska", "video/x-matroska"),
        (Format::MpegTs, "mpegts", "video/mp2t"),
        (Format::Ogg, "ogg", "application/ogg"),
        (Format::Mp4, "mp4", "video/mp4"),
        (Format::Flv, "flv", "video/x-flv"),
        (Format::Mp3, "mp3", "audio/mpeg"),
        (Format::Aac, "aac", "audio/aac"),
    ] {
        assert_eq!((format.name(), format.media_type()), (name, media_type));
    }
}

#[test]
fn a_beginning_is_held_until_its_format_is_known() {
    let (scanner, told) = fed(b"");
    assert!(told.is_none() && scanner.may_be_magic() && !scanner.may_be_sound_only());
    let (scanner, _) = fed(b"Ogg");
    assert!(scanner.may_be_magic());
    let (scanner, _) = fed(&[7; 900]);
    assert!(!scanner.may_be_magic() && scanner.may_be_sound_only());
    assert!(scanner.header().length() == 0);
    // Text is an unknown format, and the scanner holds nothing of it.
    let (scanner, _) = fed(&[b'x'; 900]);
    assert!(!scanner.may_be_magic() && !scanner.may_be_sound_only());
    assert!(matches!(scanner.state, ScannerState::Unknown));
    // Nor does it hold a stream that it gave up.
    let (scanner, told) = fed(&[&mp4(0)[..], &[0; 8]].concat());
    assert_eq!((told, scanner.header().length()), (None, 0));
}

#[test]
fn a_prelude_has_at_most_31_bytes() {
    for length in [0, 1, 30, 31] {
        let bytes: Vec<u8> = (0..length).collect();
        let prelude = Prelude::new(&bytes).expect("it fits");
        assert_eq!(prelude.as_slice(), bytes);
    }
    assert_eq!(Prelude::new(&[0; 32]), None);
    assert_eq!(Start::at(9).offset, 9);
    assert!(Start::at(9).prelude.as_slice().is_empty());
}

/// A scanner or splicer from a hand-over, with another value in one place.
#[cfg(feature = "handover")]
pub(super) fn told_otherwise<T>(state: &T, place: &str, value: serde_json::Value) -> T
where
    T: serde::Serialize + serde::de::DeserializeOwned,
{
    let mut told = serde_json::to_value(state).expect("it is told");
    let (object, field) = place.rsplit_once('/').expect("a path");
    match told.pointer_mut(object) {
        Some(serde_json::Value::Object(fields)) => drop(fields.insert(field.into(), value)),
        _ => *told.pointer_mut(place).unwrap_or_else(|| panic!("{place}")) = value,
    }
    serde_json::from_value(told).expect("as it is told")
}

#[cfg(feature = "handover")]
#[test]
fn a_handed_over_scanner_that_cannot_be_is_refused() {
    use serde_json::json;
    let zeros = |bytes: usize| json!("\0".repeat(bytes));
    let program = {
        let (scanner, _) = fed(&transport());
        let told = serde_json::to_value(&scanner).expect("it is told");
        told.pointer("/state/Known/MpegTs/tables/programs/0")
            .expect("a program")
            .clone()
    };
    for (format, bytes, _) in beginnings() {
        let (scanner, _) = fed(&bytes);
        let at = bytes.len() as u64;
        assert!(scanner.is_valid(at), "{format:?}");
        assert!(!scanner.is_valid(at + 1), "{format:?}");
        // A place, and two values, of which the first can be.
        let ahead = |name| vec![(name, json!(at), json!(at + 1))];
        let (name, mut values) = match format {
            Format::WebM | Format::Matroska => ("Matroska", ahead("group/start")),
            Format::MpegTs => ("MpegTs", Vec::new()),
            Format::Mp4 => ("Mp4", ahead("fragment_start")),
            Format::Flv => ("Flv", Vec::new()),
            Format::Ogg => ("Ogg", Vec::new()),
            Format::Mp3 | Format::Aac => ("Sound", Vec::new()),
        };
        if format == Format::MpegTs {
            let search = |at| {
                json!({
                    "codec": "H264", "begin": at, "counter": 0, "last": 0, "may_continue": false,
                    "is_marked": false, "may_begin": false, "unit": [0, 0, 0], "unit_bytes": 0,
                    "is_join": null,
                })
            };
            let many = |count| json!(vec![program.clone(); count]);
            let set = |bytes| json!([{"name": [7, 0], "nal": vec![0; bytes]}]);
            values.extend([
                ("header_sets", zeros(1_224), zeros(1_225)),
                ("sets/kept", set(1_020), set(1_021)),
                ("sets/coming", json!(vec![0; 1_025]), json!(vec![0; 1_026])),
                ("search", search(at), search(at + 1)),
                ("aligner/pending", zeros(816), zeros(817)),
                ("tables/named", json!(1), json!(2)),
                ("tables/programs", many(64), many(65)),
                ("tables/pat/section", zeros(100_000), zeros(128 * 1024)),
            ]);
        }
        for (place, can_be, cannot) in values {
            let place = format!("/state/Known/{name}/{place}");
            assert!(
                told_otherwise(&scanner, &place, can_be).is_valid(at),
                "{place}"
            );
            assert!(
                !told_otherwise(&scanner, &place, cannot).is_valid(at),
                "{place}"
            );
        }
        for (place, can_be, cannot) in [
            (
                "/window/wanted",
                json!(HEADER_BYTES_MAX),
                json!(HEADER_BYTES_MAX + 1),
            ),
            ("/offset", json!(at), json!(at - 1)),
            ("/window/pending/rest", zeros(10), zeros(bytes.len() + 1)),
        ] {
            assert!(
                told_otherwise(&scanner, place, can_be).is_valid(at),
                "{place}"
            );
            assert!(
                !told_otherwise(&scanner, place, cannot).is_valid(at),
                "{place}"
            );
        }
    }
    // A beginning, and all together.
    let (scanner, _) = fed(b"Ogg");
    assert!(scanner.is_valid(3));
    let (scanner, _) = fed(&[b'x'; 900]);
    assert!(scanner.is_valid(900));
    let (flv, _) = fed(&beginnings()[5].1);
    let tag = |bytes: usize| {
        let bytes = json!({ "copied": 0, "rest": "0".repeat(bytes) });
        json!({ "current": bytes, "next": bytes, "has_changed": false })
    };
    let tags = |bytes: usize| json!([tag(bytes), tag(bytes), tag(bytes)]);
    let flv = told_otherwise(&flv, "/state/Known/Flv/tags/kept", tags(128 * 1024));
    let at = flv.offset;
    assert!(flv.is_valid(at), "each as long as it may be");
}

/// A walker looks at few of the bytes between pages and between frames.
#[test]
fn a_search_looks_only_where_something_may_begin() {
    for (front, junk) in [
        (
            [
                ogg_page(2, b"OpusHead\x01\x02"),
                ogg_page(0, b"OpusTags"),
                ogg_page(0, b"s"),
            ]
            .concat(),
            b'O',
        ),
        (
            [
                0xff, 0xf1, 0x50, 0x80, 0x01, 0xff, 0xfc, 0, 0, 0, 0, 0, 0, 0, 0,
            ]
            .repeat(9),
            0xff,
        ),
    ] {
        let mut scanner = Scanner::default();
        scanner.feed(&front, &mut |_, _| {});
        scanner.take_work();
        scanner.feed(&[junk; 64 * 1024], &mut |_, _| {});
        let work = scanner.take_work();
        assert!(work <= 5 * 64 * 1024, "{work} for {junk:x}");
    }
}
