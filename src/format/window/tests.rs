use super::*;

/// Room that stays when nothing is held.
const KEPT: usize = 64 * 1024;

/// Reads records: a length, and that many bytes. The walker sees records of even length whole, and
/// passes the others unseen. Zero is no record.
#[derive(Default)]
struct Records {
    /// Offset of each record, and the bytes that the walker saw.
    read: Vec<(u64, Vec<u8>)>,
}

impl Walker<()> for Records {
    fn step(&mut self, seen: &[u8], at: u64, _: &mut ()) -> Result<u64, Unread> {
        let length = usize::from(seen[0]);
        if length == 0 {
            return Err(Unsupported.into());
        }
        let wanted = if length.is_multiple_of(2) { length } else { 1 };
        let record = seen.get(..wanted).ok_or(Unread::Needs(wanted))?;
        self.read.push((at, record.to_vec()));
        Ok(length as u64)
    }
}

/// Returns a record of this many bytes, all with its number.
fn record(length: u8, number: u8) -> Vec<u8> {
    let mut record = vec![number; usize::from(length)];
    record[0] = length;
    record
}

fn records() -> Vec<Vec<u8>> {
    let lengths = [1, 2, 200, 3, 250, 254, 9, 100, 255, 4, 4, 251, 2, 1, 128];
    let numbered = lengths.into_iter().zip(0..);
    numbered
        .map(|(length, number)| record(length, number))
        .collect()
}

fn walk(
    window: &mut Window,
    walker: &mut Records,
    bytes: &[u8],
    at: u64,
) -> Result<(), Unsupported> {
    window.walk(walker, bytes, at, &mut ())
}

#[test]
fn the_walker_sees_each_record_once_however_the_bytes_are_cut() {
    let records = records();
    let bytes = records.concat();
    let mut expected = Vec::new();
    let mut at = 7000;
    for record in &records {
        let seen = if record.len().is_multiple_of(2) {
            record.len()
        } else {
            1
        };
        expected.push((at, record[..seen].to_vec()));
        at += record.len() as u64;
    }
    for piece in 1..=bytes.len() {
        let (mut window, mut walker) = (Window::default(), Records::default());
        for (index, part) in bytes.chunks(piece).enumerate() {
            let at = 7000 + (index * piece) as u64;
            assert_eq!(walk(&mut window, &mut walker, part, at), Ok(()));
            #[cfg(feature = "handover")]
            assert!(window.is_valid(at + part.len() as u64, 254));
        }
        assert!(walker.read == expected, "in pieces of {piece}");
        assert!(
            window.pending.is_empty() && window.skip == 0,
            "all of it was passed"
        );
    }
    // No bytes change nothing.
    let (mut window, mut walker) = (Window::default(), Records::default());
    assert_eq!(walk(&mut window, &mut walker, &[], 0), Ok(()));
    assert!(walker.read.is_empty());
}

/// Gives the results of a list, one after the other.
struct Asks(Vec<Result<u64, Unread>>, Vec<(u64, usize)>);

impl Walker<()> for Asks {
    fn step(&mut self, seen: &[u8], at: u64, _: &mut ()) -> Result<u64, Unread> {
        self.1.push((at, seen.len()));
        if self.0.is_empty() {
            return Err(Unsupported.into());
        }
        self.0.remove(0)
    }
}

#[test]
fn the_window_holds_no_more_than_the_walker_wants() {
    let mut asks = Asks(
        vec![
            Err(Unread::Needs(6000)),
            Ok(1),
            Ok(4998),
            // More than it saw, though it asks for less.
            Err(Unread::Needs(1)),
            Ok(20_000),
            Err(Unread::Needs(70_000)),
            Ok(70_001),
        ],
        Vec::new(),
    );
    let mut window = Window::default();
    let mut at = 0;
    let mut feed = |bytes: usize| {
        let result = window.walk(&mut asks, &vec![5; bytes], at, &mut ());
        at += bytes as u64;
        let (pending, passed, room) = (
            window.pending.len(),
            window.passed,
            window.pending.capacity(),
        );
        assert!(room >= pending && (result.is_err() || room <= 4 * 70_000));
        (asks.1.len(), pending - passed, room)
    };
    // Looks, pending bytes, and room.
    assert_eq!(feed(10), (1, 10, 10));
    assert_eq!(feed(20), (1, 30, 40));
    assert_eq!(feed(5_969), (1, 5_999, 5_999));
    // The walker sees the last byte, passes it in steps, and wants one more.
    assert_eq!(feed(1), (4, 1_001, 6_000));
    assert_eq!(feed(1), (5, 0, 6_000));
    // Bytes that are passed unseen are never held.
    assert_eq!(feed(18_997), (5, 0, 6_000));
    assert_eq!(feed(2), (6, 1, 6_000));
    assert_eq!(feed(69_998), (6, 69_999, 69_999));
    // This much room is not kept.
    assert_eq!(feed(1), (7, 0, 0));
    assert_eq!(feed(1), (7, 0, 0));
    assert_eq!(feed(1), (8, 0, 0));
    assert_eq!(
        asks.1,
        [
            (0, 10),
            (0, 6_000),
            (1, 5_999),
            (4_999, 1_001),
            (4_999, 1_002),
            (24_999, 1),
            (24_999, 70_000),
            (95_000, 1),
        ]
    );
}

/// Room after each piece, and bytes that were moved to the front.
#[test]
fn passed_bytes_are_dropped_when_they_are_many_and_the_others_few() {
    // Held, passed at once, left, and passed bytes that are still there.
    for (pending, passed, left, kept) in [
        (100, 10, 90, 10),
        (100, 100, 0, 0),
        (8_192, 4_095, 4_097, 4_095),
        (8_192, 4_096, 4_096, 0),
        (8_193, 4_096, 4_097, 4_096),
        (8_193, 4_097, 4_096, 0),
        (9_000, 4_500, 4_500, 0),
        (9_001, 4_500, 4_501, 4_500),
        (KEPT, KEPT, 0, 0),
    ] {
        let mut window = Window {
            pending: vec![1; pending].into(),
            ..Window::default()
        };
        window.pass_pending(passed as u64);
        let counts = (
            window.pending.len() - window.passed,
            window.passed,
            window.skip,
        );
        assert_eq!(counts, (left, kept, 0), "{passed} of {pending}");
        assert!(window.pending.capacity() >= pending, "the room stays");
        // And more than there is.
        window.pass_pending(left as u64 + 7);
        assert_eq!(
            (window.pending.len(), window.passed, window.skip),
            (0, 0, 7)
        );
        assert!(window.pending.capacity() >= pending, "the room stays");
    }
    let mut window = Window {
        pending: vec![1; KEPT + 1].into(),
        ..Window::default()
    };
    window.pass_pending(1);
    assert!(window.pending.capacity() > KEPT, "there is something left");
    window.pass_pending(KEPT as u64);
    assert_eq!((window.pending.capacity(), window.passed), (0, 0));
}

#[test]
fn room_grows_fourfold_up_to_the_wanted_length() {
    let mut bytes = Vec::new();
    for (length, additional, most, room) in [
        (0, 0, 9, 0),
        (0, 5, 1_000, 5),
        (5, 0, 1_000, 5),
        (5, 1, 1_000, 20),
        (20, 1, 1_000, 80),
        (70, 10, 1_000, 80),
        (80, 1, 100, 100),
        (100, 1, 100, 101),
        (101, 900, 2_000, 1_001),
    ] {
        bytes.resize(length, 0u8);
        grow(&mut bytes, additional, most);
        assert_eq!(
            bytes.capacity(),
            room,
            "{length} and {additional} of {most}"
        );
    }
}

/// Another walker can continue with the bytes that one walker has not passed.
#[cfg(feature = "hold")]
#[test]
fn the_rest_has_all_bytes_that_no_walker_has_passed() {
    let stream = [&record(200, 1)[..], &record(4, 2), &[0, 7, 8, 9]].concat();
    for cut in 0..stream.len() {
        let (mut window, mut walker) = (Window::default(), Records::default());
        let (first, second) = stream.split_at(cut);
        let (mut last, mut fed) = (first, cut);
        let mut result = walk(&mut window, &mut walker, first, 0);
        if result.is_ok() {
            (last, fed) = (second, stream.len());
            result = walk(&mut window, &mut walker, second, cut as u64);
        }
        assert_eq!(result, Err(Unsupported), "cut at {cut}");
        assert_eq!(window.take_unread(last), stream[204..fed], "cut at {cut}");
        assert_eq!(
            (window.pending.capacity(), window.skip, window.wanted),
            (0, 0, 0)
        );
    }
    // Held bytes, without a walker that gave up: nothing of the last input.
    let (mut window, mut walker) = (Window::default(), Records::default());
    let bytes = [&record(2, 1)[..], &record(200, 2)[..50]].concat();
    assert_eq!(walk(&mut window, &mut walker, &bytes, 0), Ok(()));
    assert_eq!(window.take_unread(&bytes), record(200, 2)[..50]);
}

#[cfg(feature = "handover")]
#[test]
fn a_handed_over_window_that_cannot_be_is_refused() {
    let fits = |pending: usize, passed: usize, wanted: usize, offset: u64| {
        let window = Window {
            pending: vec![0; pending].into(),
            passed,
            wanted,
            ..Window::default()
        };
        window.is_valid(offset, 100)
    };
    assert!(fits(0, 0, 0, 0) && fits(50, 50, 0, 0) && fits(200, 150, 100, 50));
    assert!(!fits(50, 51, 0, 100), "more was passed than there is");
    assert!(!fits(200, 150, 100, 49), "more is left than has come");
    assert!(!fits(201, 150, 100, 100), "more is held than can be");
    assert!(
        !fits(200, 150, 101, 100),
        "more is wanted than is looked at"
    );
}

/// The walker sees bytes where they arrived as soon as it has passed the bytes that were held.
#[test]
fn only_bytes_of_earlier_input_are_held() {
    let steps = [10, 1, 1, 1, 600].map(Ok);
    let mut asks = Asks([&[Err(Unread::Needs(20))], &steps[..]].concat(), Vec::new());
    let mut window = Window::default();
    let mut feed = |bytes: usize, at| window.walk(&mut asks, &vec![5; bytes], at, &mut ());
    assert_eq!((feed(12, 0), feed(601, 12)), (Ok(()), Ok(())));
    assert_eq!(
        asks.1,
        [(0, 12), (0, 20), (10, 10), (11, 9), (12, 601), (13, 600)]
    );
}

/// The last byte of a record causes the work of all.
#[test]
fn held_bytes_are_work_when_the_last_one_has_come() {
    let mut window = Window::default();
    let record = record(200, 1);
    let walk = |window: &mut Window, bytes: &[u8], offset| {
        let read = window.walk(&mut Records::default(), bytes, offset, &mut ());
        assert!(read.is_ok());
        window.take_pending_work()
    };
    assert_eq!(walk(&mut window, &record, 0), 0);
    assert_eq!(walk(&mut window, &record[..199], 200), 0);
    assert_eq!(walk(&mut window, &record[199..], 399), 100);
}
