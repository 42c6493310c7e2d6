use super::super::tests::flv_tag as tag;
#[cfg(feature = "handover")]
use super::super::tests::told_otherwise;
use super::*;

mod alone;
mod joins;

const FLV_HEAD: &[u8] = b"FLV\x01\x01\0\0\0\x09\0\0\0\0";

/// Returns the bytes that go out, in pieces of this size. `None` if the cutter fails.
pub(super) fn cut<W: Walker<Vec<u8>>>(
    cutter: &mut W,
    bytes: &[u8],
    piece: usize,
) -> Option<Vec<u8>> {
    let (mut window, mut out, mut at) = (Window::default(), Vec::new(), 0);
    for bytes in bytes.chunks(piece) {
        window.walk(cutter, bytes, at, &mut out).ok()?;
        at += bytes.len() as u64;
    }
    Some(out)
}

/// Key frames of a codec without a sequence header.
fn flv(clock: u32, count: u32) -> Vec<u8> {
    let tags = (0..count).flat_map(|number| tag(9, clock + number * 40, &[0x12; 40]));
    FLV_HEAD.iter().copied().chain(tags).collect()
}

/// A splicer that has read these bytes, and its output.
fn begun(bytes: &[u8], unit_bytes_max: usize) -> (Splicer, Vec<u8>) {
    let (mut splicer, mut out) = (Splicer::new(unit_bytes_max), Vec::new());
    assert!(splicer.feed(bytes, &mut out).is_ok());
    (splicer, out)
}

#[test]
fn a_splicer_tells_whether_it_waits_for_a_source() {
    let first = flv(0, 3);
    let (mut splicer, mut out) = begun(&first, 1_000);
    assert!(out == first && !splicer.is_between_sources());
    assert!(splicer.break_off(Some(Format::Flv), FLV_HEAD.to_vec()));
    assert!(splicer.is_between_sources());
    // A source that breaks off before its join point leaves nothing.
    assert!(splicer.feed(&flv(7_000, 1)[..20], &mut out).is_ok());
    assert!(splicer.is_between_sources() && out == first);
    assert!(splicer.break_off(None, Vec::new()) && splicer.is_between_sources());
    assert!(splicer.feed(&flv(7_000, 3), &mut out).is_ok());
    assert!(!splicer.is_between_sources());
    let after = flv(120, 3);
    assert_eq!(out, [&first[..], &after[13..]].concat());
    // The end of a later source's last unit is left out. Bytes that pass are not held.
    assert!(
        splicer
            .feed(&tag(9, 7_120, &[0x12; 40])[..30], &mut out)
            .is_ok()
    );
    splicer.finish(&mut out);
    assert_eq!(out.len(), first.len() + after.len() - 13);
    assert!(matches!(splicer.phase, SplicePhase::Through));
    assert!(!splicer.break_off(Some(Format::Flv), FLV_HEAD.to_vec()));
}

/// All of the first source goes out, as far as it has come.
#[test]
fn the_end_of_a_first_source_goes_out() {
    let whole = flv(0, 3);
    for end in [3, 13, 20, 70, whole.len() - 1, whole.len()] {
        let (mut splicer, mut out) = begun(&whole[..end], 1_000);
        splicer.finish(&mut out);
        assert_eq!(out, whole[..end]);
    }
}

#[test]
fn a_source_without_a_join_point_is_incompatible_after_a_unit() {
    for (length, is_let_go) in [(100, false), (101, true)] {
        let first = flv(0, 3);
        let (mut splicer, mut out) = begun(&first, 100);
        assert!(splicer.break_off(Some(Format::Flv), FLV_HEAD.to_vec()));
        // A script that is long.
        let source = [FLV_HEAD, &tag(18, 0, &[2; 300])].concat();
        let told = splicer.feed(&source[..length], &mut out);
        let expected = if is_let_go {
            Err(Incompatible(source[..length].to_vec()))
        } else {
            Ok(())
        };
        assert_eq!(told, expected);
        assert!(out == first && splicer.is_between_sources() != is_let_go);
    }
}

/// What does not fit is read again at once. Small elements make that slow.
#[test]
fn a_source_of_tiny_units_is_incompatible_after_little_work() {
    let (mut splicer, mut out) = begun(&flv(0, 3), 16 << 20);
    assert!(splicer.break_off(Some(Format::Flv), FLV_HEAD.to_vec()));
    let source = [FLV_HEAD, &tag(18, 0, &[]).repeat(100_000)].concat();
    let mut fed = source
        .chunks(4096)
        .map(|piece| splicer.feed(piece, &mut out));
    let told = fed.find_map(Result::err).expect("it has no join point");
    assert!(told.0.len() < 1024 * 1024, "{}", told.0.len());
    assert!(splicer.take_work() >= JOINING_WORK_MAX);
}

/// At most: a unit, two headers, the scanner, and some more.
#[test]
fn the_memory_bound_follows_from_the_length_of_a_unit() {
    let none = Splicer::memory_bytes_max(0);
    assert_eq!(Splicer::memory_bytes_max(1_000), none + 1_000);
    assert_eq!(none, 2 * HEADER_BYTES_MAX + MEMORY_BYTES_MAX + 131_072);
}

/// Bytes of a unit that is too long.
#[test]
fn a_long_unit_passes_up_to_its_end() {
    for (left, expected, after) in [(3, 3, 0), (5, 5, 0), (9, 5, 4)] {
        let (mut bytes_left, mut out) = (left, Vec::new());
        let passed = copy(&mut bytes_left, &[1, 2, 3, 4, 5], &mut out);
        assert_eq!(passed, expected);
        assert_eq!((bytes_left, out.len() as u64), (after, expected));
    }
}

#[cfg(feature = "handover")]
#[test]
fn a_handed_over_splicer_that_cannot_be_is_refused() {
    use serde_json::json;
    let zeros = |bytes: usize| json!("\0".repeat(bytes));
    let check = |splicer: &Splicer, places: &[(&str, serde_json::Value, serde_json::Value)]| {
        assert!(splicer.is_valid(1_000));
        for (place, can_be, cannot) in places {
            assert!(
                told_otherwise(splicer, place, can_be.clone()).is_valid(1_000),
                "{place}"
            );
            assert!(
                !told_otherwise(splicer, place, cannot.clone()).is_valid(1_000),
                "{place}"
            );
        }
    };
    let (opening, _) = begun(b"FL", 1_000);
    let gone = ("/phase/Opening/bytes_sent", json!(2), json!(3));
    check(&opening, &[gone]);
    // Its scanner has read as many bytes as there are.
    assert!(!told_otherwise(&opening, "/phase/Opening/bytes", json!("FLV")).is_valid(1_000));
    let (mut splicer, mut out) = begun(&flv(0, 3), 1_000);
    let offset = (u64::MAX / 4, u64::MAX / 4 + 1);
    let seen = HEADER_BYTES_MAX + 64;
    check(
        &splicer,
        &[
            ("/phase/Running/offset", json!(offset.0), json!(offset.1)),
            ("/phase/Running/window/wanted", json!(seen), json!(seen + 1)),
        ],
    );
    // A unit may be longer than a header.
    let unit = HEADER_BYTES_MAX + 500;
    for (wanted, fits) in [(unit + 64, true), (unit + 65, false)] {
        let told = told_otherwise(&splicer, "/phase/Running/window/wanted", json!(wanted));
        assert_eq!(told.is_valid(unit), fits);
    }
    assert!(splicer.break_off(Some(Format::Flv), FLV_HEAD.to_vec()));
    let header = (zeros(HEADER_BYTES_MAX), zeros(HEADER_BYTES_MAX + 1));
    check(
        &splicer,
        &[
            (
                "/phase/AwaitingJoinPoint/output/header/rest",
                header.0.clone(),
                header.1.clone(),
            ),
            (
                "/phase/AwaitingJoinPoint/bytes/rest",
                zeros(1_000),
                zeros(1_001),
            ),
        ],
    );
    assert!(splicer.feed(FLV_HEAD, &mut out).is_ok());
    assert!(splicer.is_valid(1_000));
    assert!(splicer.feed(&flv(0, 3)[13..], &mut out).is_ok());
    let had = "/phase/Running/output/header/rest";
    check(&splicer, &[(had, header.0, header.1)]);
}

/// The limit that counts when a source begins, or joins, is the one of that time. So it does not depend
/// on how the source is cut.
#[test]
fn the_limit_of_now_counts_from_a_sources_first_byte() {
    let source = [&flv(0, 2)[..], &tag(9, 80, &[0x12; 900])].concat();
    for piece in [1, 100, usize::MAX] {
        let (mut splicer, mut out) = (Splicer::new(2_000), Vec::new());
        for _ in 0..2 {
            for piece in source[..source.len() - 5].chunks(piece) {
                splicer.limit_units(800);
                splicer.feed(piece, &mut out).expect("it fits");
            }
            // A unit that is too long to be held passes as it comes.
            assert!(
                !splicer.break_off(Some(Format::Flv), FLV_HEAD.to_vec()),
                "{piece}"
            );
            splicer.limit_units(2_000);
            splicer
                .feed(&source[source.len() - 5..], &mut out)
                .expect("it fits");
            assert!(splicer.break_off(Some(Format::Flv), FLV_HEAD.to_vec()));
        }
    }
}

/// `--buffer` may be smaller in another process.
#[cfg(feature = "handover")]
#[test]
fn a_handed_over_splicer_has_the_limit_of_the_new_options() {
    for format in [Format::MpegTs, Format::WebM, Format::Flv, Format::Mp4] {
        let mut splicer = Splicer::new(1_000);
        let cutter = UnitCutter::new(format, 1_000, 0);
        splicer.phase = SplicePhase::Running(Running::new(cutter, format, None));
        assert!(splicer.restore(999), "{format:?}");
        let SplicePhase::Running(Running { cutter, .. }) = &mut splicer.phase else {
            panic!("{format:?} runs");
        };
        let is_changed = cutter.limit_units(999);
        assert!(!is_changed && splicer.unit_bytes_max == 999, "{format:?}");
    }
    let (mut splicer, _) = begun(&flv(0, 3), 1_000);
    assert!(splicer.break_off(Some(Format::Flv), FLV_HEAD.to_vec()));
    assert!(splicer.restore(999));
    let SplicePhase::AwaitingJoinPoint(joining) = &mut splicer.phase else {
        panic!("it waits");
    };
    assert!(!joining.cutter.limit_units(999) && splicer.unit_bytes_max == 999);
}

/// What a cutter holds beside units has its bounds, too.
#[cfg(feature = "handover")]
#[test]
fn a_handed_over_cutter_that_cannot_be_is_refused() {
    use serde_json::json;
    let tracks = |count| {
        let track = json!({
            "number": 1, "newest": 0, "frames": 0, "gap": null, "end": 0, "seam": 0,
            "has_gone_on": true,
        });
        json!(vec![track; count])
    };
    let zeros = |bytes: usize| json!("\0".repeat(bytes));
    let (most, more) = (tracks(64), tracks(65));
    let moof = crate::format::mp4::MOOF_BYTES_MAX;
    for (format, place, can_be, cannot) in [
        (
            Format::MpegTs,
            "Packets/aligner/pending",
            zeros(816),
            zeros(817),
        ),
        (
            Format::Mp4,
            "Fragments/box_bytes_max",
            json!(moof),
            json!(moof + 1),
        ),
        (
            Format::Mp4,
            "Fragments/timeline/tracks",
            most.clone(),
            more.clone(),
        ),
        (
            Format::WebM,
            "Blocks/timeline/tracks",
            most.clone(),
            more.clone(),
        ),
        (Format::Flv, "Tags/timeline/tracks", most, more),
    ] {
        let mut splicer = Splicer::new(1_000);
        let cutter = UnitCutter::new(format, 1_000, 0);
        splicer.phase = SplicePhase::Running(Running::new(cutter, format, None));
        let place = format!("/phase/Running/cutter/{place}");
        assert!(
            told_otherwise(&splicer, &place, can_be).is_valid(1_000),
            "{place}"
        );
        assert!(
            !told_otherwise(&splicer, &place, cannot).is_valid(1_000),
            "{place}"
        );
    }
    // The bytes of a source that has not begun. Its scanner has read them.
    let (opening, _) = begun(b"FL", 1_000);
    for (bytes, fits) in [(detect::BYTES_MAX, true), (detect::BYTES_MAX + 1, false)] {
        let values = [
            ("bytes", zeros(bytes)),
            ("scanner/offset", json!(bytes)),
            ("scanner/state", json!("Unknown")),
        ];
        let told = values.into_iter().fold(
            told_otherwise(&opening, "/unit_bytes_max", json!(1_000)),
            |told, (place, value)| told_otherwise(&told, &format!("/phase/Opening/{place}"), value),
        );
        assert_eq!(told.is_valid(1_000), fits, "{bytes}");
    }
}

/// The search for a format is work, also of a source that has shown its format.
#[test]
fn the_search_for_a_format_is_work() {
    let (mut splicer, _) = begun(&[0; 100], 1_000);
    assert_eq!((splicer.take_work(), splicer.take_work()), (100 * 32, 0));
    let (mut splicer, _) = begun(FLV_HEAD, 1_000);
    // Four bytes show it. Then the head is passed, whole.
    let held = FLV_HEAD.len() / 2;
    assert_eq!(splicer.take_work(), 4 * 32 + 32 + held);
}
