//! Segments and playlists out of streams of each container, in memory: what a player may count on
//! holds for hours, and every byte of a segment is a byte of the source but for the lead.
#![cfg(feature = "hls")]

#[path = "bounds/counting.rs"]
#[allow(dead_code, reason = "only what is held is looked at")]
mod counting;
#[path = "support/encoder.rs"]
mod encoder;
#[path = "support/playlist.rs"]
mod playlist;
#[path = "support/transport.rs"]
mod transport;

use std::time::Duration;

use encoder::{Encoder, KINDS, Kind, Splits};
use playlist::{Checker, Playlist};
use tollgate::format::{MEMORY_BYTES_MAX, Scanner};
use tollgate::gather::Gather;
use tollgate::hls::{BlockingReload, Content, Cutter, HlsRequest, HlsResponse, NoPlaylist, Plan};
use tollgate::stream::{End, Limits, Outcome, Pool, StreamBuffer, Supply, ViewerId};
use tollgate::time::Instant;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// A stream of which all bytes are known.
struct Rig {
    scanner: Scanner,
    cutter: Box<Cutter>,
    source: Vec<u8>,
    buffer_bytes: u64,
    seconds: f64,
}

fn plan(buffer_bytes: u64) -> Plan {
    Plan {
        segment: Duration::from_secs(2),
        buffer_bytes,
        tag: 0x5eed,
        started: Duration::from_secs(1_763_776_800),
        began: Instant::START,
        number_min: 0,
    }
}

impl Rig {
    fn new(buffer_bytes: u64) -> Rig {
        Rig {
            scanner: Scanner::default(),
            cutter: Cutter::of(plan(buffer_bytes)).expect("it is cut"),
            source: Vec::new(),
            buffer_bytes,
            seconds: 0.0,
        }
    }

    fn feed(&mut self, bytes: &[u8], seconds: f64) {
        self.seconds += seconds;
        let now = Instant::after_start(Duration::from_secs_f64(self.seconds));
        let cutter = &mut self.cutter;
        self.scanner.feed(bytes, &mut |finding, header| {
            cutter.take(finding, header, now)
        });
        self.source.extend_from_slice(bytes);
        cutter.forget_before((self.source.len() as u64).saturating_sub(self.buffer_bytes));
        cutter.check();
    }

    fn list(&mut self) -> Result<String, NoPlaylist> {
        let list = self.cutter.list(&[])?;
        Ok(String::from_utf8(list.to_vec()).unwrap())
    }

    fn playlist(&mut self) -> Playlist {
        Playlist::read(&self.list().unwrap())
    }

    /// A segment or a map.
    fn fetch(&mut self, name: &str) -> Option<Vec<u8>> {
        match self
            .cutter
            .find(&HlsRequest::Named(name.into()), false, &[])?
        {
            HlsResponse::Object(object) => Some(match object.content {
                Content::Bytes(bytes) => bytes.to_vec(),
                Content::Range { lead, from, to } => {
                    [&lead[..], &self.source[from as usize..to as usize]].concat()
                }
            }),
            HlsResponse::NotYet(_) | HlsResponse::Over | HlsResponse::Refused(_) => None,
        }
    }

    /// Runs an encoder for `seconds`, and checks the list every second.
    fn watch(&mut self, encoder: &mut Encoder, seconds: f64, checker: &mut Checker) {
        let mut left = seconds;
        while left > 0.0 {
            let bytes = encoder.run(1.0);
            self.feed(&bytes, 1.0);
            left -= 1.0;
            if let Ok(list) = self.list() {
                let now = self.seconds;
                checker.check(&list, now, |name| self.fetch(name));
            }
        }
    }
}

/// Enough for about a minute of any of them.
const BUFFER_BYTES: u64 = 1 << 20;

#[test]
fn an_hour_of_each_container_is_what_a_player_may_count_on() {
    for kind in KINDS {
        let (mut rig, mut checker) = (Rig::new(BUFFER_BYTES), Checker::default());
        let mut encoder = Encoder::new(kind);
        rig.watch(&mut encoder, 3600.0, &mut checker);
        assert!(
            (1740..=1800).contains(&checker.segments),
            "{kind:?}: {}",
            checker.segments
        );
        assert_eq!(
            (checker.discontinuities, rig.cutter.cuts_in_groups()),
            (0, 0)
        );
        let list = rig.playlist();
        assert_eq!((list.target, list.is_independent), (2, true), "{kind:?}");
        assert_eq!(checker.parts > 7_000, kind == Kind::Mp4, "{kind:?}");
    }
}

/// What is behind the lead of one segment goes on in the next.
#[test]
fn segments_are_the_sources_bytes_without_a_gap() {
    for kind in KINDS {
        let mut rig = Rig::new(BUFFER_BYTES);
        let mut encoder = Encoder::new(kind);
        rig.feed(&encoder.run(31.0), 31.0);
        rig.cutter.finish(rig.source.len() as u64, true);
        let list = rig.playlist();
        assert!(list.is_over && list.segments.len() >= 15);
        let lead_bytes = match kind {
            Kind::Ts => 376,
            Kind::Mp4 => 0,
            Kind::Mp3 | Kind::Aac => 73,
        };
        let media = list
            .segments
            .iter()
            .flat_map(|entry| rig.fetch(&entry.name).unwrap().split_off(lead_bytes));
        let media: Vec<u8> = media.collect();
        let header_bytes = encoder.header().len();
        assert!(media == rig.source[header_bytes..], "{kind:?}");
        let seconds = list.seconds();
        assert!((seconds - 31.0).abs() < 0.1, "{kind:?}: {seconds}");
    }
}

#[test]
fn lists_are_the_same_however_the_bytes_come() {
    for kind in KINDS {
        let bytes = Encoder::new(kind).run(9.0);
        let list = |piece: usize| {
            let mut rig = Rig::new(BUFFER_BYTES);
            bytes.chunks(piece).for_each(|piece| rig.feed(piece, 0.0));
            rig.list().unwrap()
        };
        for piece in [1, 7, 188, 4096] {
            assert_eq!(
                list(piece),
                list(bytes.len()),
                "{kind:?} in pieces of {piece}"
            );
        }
    }
}

#[test]
fn a_clock_that_begins_again_after_26_hours_makes_no_seam() {
    for kind in [Kind::Ts, Kind::Mp4] {
        let (mut rig, mut checker) = (Rig::new(BUFFER_BYTES), Checker::default());
        let mut encoder = Encoder::new(kind);
        encoder.jump(f64::from(2.0_f32.powi(33)) / 90_000.0 - 20.5);
        rig.watch(&mut encoder, 60.0, &mut checker);
        assert_eq!(
            (checker.discontinuities, checker.segments),
            (0, 29),
            "{kind:?}"
        );
    }
}

/// Dates of a file or of an encoder that held back its beginning: each segment's date moves on by
/// less than its duration, until dates are true again. After a long pause they are true at once.
/// The checker fails if dates fall.
#[test]
fn dates_never_fall_however_far_ahead_a_source_sends() {
    for (segment, ahead) in [(2, 12.0), (2, 60.0), (6, 30.0), (6, 90.0)] {
        let (mut rig, mut checker) = (Rig::new(BUFFER_BYTES), Checker::default());
        let cut = Plan {
            segment: Duration::from_secs(segment),
            ..plan(BUFFER_BYTES)
        };
        rig.cutter = Cutter::of(cut).expect("it is cut");
        let mut encoder = Encoder::new(Kind::Ts);
        rig.feed(&encoder.run(ahead), 0.0);
        let lag = |rig: &mut Rig| {
            let began = Duration::from_secs_f64(rig.seconds) + plan(0).started;
            let of_day = began.as_secs_f64() % 86_400.0;
            let newest = rig.playlist().segments.pop().expect("a segment");
            of_day - newest.date
        };
        rig.watch(&mut encoder, 20.0, &mut checker);
        assert!(lag(&mut rig) > -(7.0 * segment as f64), "{segment} {ahead}");
        rig.watch(&mut encoder, 400.0, &mut checker);
        // The newest that is whole has begun one ago, or just now two.
        let range = segment as f64 - 0.5..2.0 * segment as f64 + 0.5;
        let late = lag(&mut rig);
        assert!(range.contains(&late), "{segment} {ahead}: {late}");
        assert_eq!(checker.discontinuities, 0);
        // It stands still for half a minute.
        rig.seconds += 30.0;
        rig.feed(&encoder.run(3.0 * segment as f64), 3.0 * segment as f64);
        let late = lag(&mut rig);
        assert!(
            late < 3.0 * segment as f64 + 0.5,
            "{segment} {ahead}: {late}"
        );
    }
}

#[test]
fn where_times_jump_the_next_segment_says_so() {
    for (to, seams) in [(5.0, 1), (90_000.0, 1), (42.0, 1), (40.5, 0)] {
        let (mut rig, mut checker) = (Rig::new(BUFFER_BYTES), Checker::default());
        let mut encoder = Encoder::new(Kind::Ts);
        rig.watch(&mut encoder, 40.0, &mut checker);
        encoder.jump(to);
        rig.watch(&mut encoder, 40.0, &mut checker);
        assert_eq!(
            checker.discontinuities,
            if to == 42.0 { 0 } else { seams },
            "to {to}"
        );
    }
}

/// The map names another stream, or the table names no program any more, within a group or where one
/// begins; the key picture has the first tables again.
#[test]
fn where_the_tables_change_the_next_segment_says_so() {
    let more = transport::tables(&[(0x1b, 0x101, &[]), (0x0f, 0x102, &[]), (0x05, 0x103, &[])]);
    let none = transport::table(0, 0, &[]);
    for (tables, seconds) in [(&more, 41.0), (&more, 40.0), (&none, 41.0), (&none, 40.96)] {
        let (mut rig, mut checker) = (Rig::new(BUFFER_BYTES), Checker::default());
        let mut encoder = Encoder::new(Kind::Ts);
        rig.watch(&mut encoder, seconds, &mut checker);
        rig.feed(tables, 0.0);
        rig.watch(&mut encoder, 40.0, &mut checker);
        assert_eq!(checker.discontinuities, 1, "at {seconds}");
        assert_eq!(rig.cutter.cuts_in_groups(), 0);
    }
}

#[test]
fn where_a_segment_was_overwritten_before_it_was_whole_the_next_says_so() {
    let mut rig = Rig::new(BUFFER_BYTES);
    let mut encoder = Encoder::new(Kind::Ts);
    rig.feed(&encoder.run(20.5), 20.5);
    let before = rig.playlist();
    // Twenty pictures of this size are larger than the buffer.
    encoder.unit_bytes = 60_000;
    rig.feed(&encoder.run(1.0), 1.0);
    encoder.unit_bytes = 150;
    rig.feed(&encoder.run(9.0), 9.0);
    let count = |list: &Playlist| list.segments[0].discontinuities;
    assert_eq!(count(&rig.playlist()), count(&before) + 1);
}

#[test]
fn the_first_three_segments_raise_the_target() {
    let mut rig = Rig::new(BUFFER_BYTES);
    let mut encoder = Encoder::new(Kind::Ts);
    for group in [2.0, 5.0, 3.0, 2.0, 2.0] {
        // It counts from the group's key picture on.
        encoder.group = group;
        let bytes = encoder.run(group);
        rig.feed(&bytes, group);
    }
    assert_eq!(rig.cutter.cuts_in_groups(), 0);
    assert_eq!(rig.playlist().target, 5);
}

#[test]
fn a_group_longer_than_the_target_ends_at_a_picture() {
    let (mut rig, mut checker) = (Rig::new(BUFFER_BYTES), Checker::default());
    let mut encoder = Encoder::new(Kind::Ts);
    rig.watch(&mut encoder, 20.0, &mut checker);
    encoder.group = 9.0;
    rig.watch(&mut encoder, 60.0, &mut checker);
    let list = rig.playlist();
    assert_eq!(list.target, 2);
    assert!(!list.is_independent);
    assert!(rig.cutter.cuts_in_groups() > 10);
    assert_eq!(checker.discontinuities, 0);
}

/// How many of the segments that are listed begin within a PES packet of sound, of how many.
fn split(rig: &mut Rig) -> (usize, usize) {
    let list = rig.playlist();
    let mut is_split = |name: &str| {
        let bytes = rig.fetch(name).expect("it is there");
        let is_sound = |packet: &&[u8]| packet[1] & 0x1f == 1 && packet[2] == 2;
        let sound = bytes.chunks(188).find(is_sound).expect("it has sound");
        sound[1] & 0x40 == 0
    };
    let names: Vec<String> = list
        .segments
        .iter()
        .map(|entry| entry.name.clone())
        .collect();
    (
        names.iter().filter(|name| is_split(name)).count(),
        names.len(),
    )
}

/// If sound is interleaved with pictures, segments begin at join points where no sound unit is open,
/// or else at any join point.
#[test]
fn segments_begin_where_nothing_is_open_if_the_source_allows_it() {
    let cases: [(f64, Splits, bool); 5] = [
        (2.0, |_| false, true),
        (1.0, |group| group % 2 == 1, true),
        (0.5, |group| group % 4 != 1, true),
        (1.0, |group| group % 7 != 1, false),
        (2.0, |_| true, false),
    ];
    for (group, splits, allows) in cases {
        let (mut rig, mut checker) = (Rig::new(BUFFER_BYTES), Checker::default());
        let mut encoder = Encoder::new(Kind::Ts);
        (encoder.group, encoder.splits) = (group, splits);
        rig.watch(&mut encoder, 60.0, &mut checker);
        let (split, listed) = split(&mut rig);
        assert_eq!(
            split == 0,
            allows,
            "groups of {group} s: {split} of {listed}"
        );
        assert_eq!(
            (checker.discontinuities, rig.cutter.cuts_in_groups()),
            (0, 0)
        );
        let list = rig.playlist();
        assert!(list.is_independent && list.target == 2);
        let shortest = list
            .segments
            .iter()
            .map(|entry| entry.seconds)
            .fold(9.0, f64::min);
        assert!(shortest >= 0.49, "{shortest}");
    }
}

/// The first two join points settle the target, not the option.
#[test]
fn parts_are_whole_fragments_as_long_as_the_first_ones_allow() {
    // How long a fragment is, and a part then.
    for (unit, target) in [
        (0.04, Some(0.5252)),
        (0.2, Some(0.606)),
        (0.5, Some(0.505)),
        (1.0, Some(1.01)),
        (2.0, None),
    ] {
        let (mut rig, mut checker) = (Rig::new(BUFFER_BYTES), Checker::default());
        let mut encoder = Encoder::new(Kind::Mp4);
        encoder.fragment_seconds = unit;
        rig.watch(&mut encoder, 60.0, &mut checker);
        assert_eq!(rig.playlist().part_target, target, "fragments of {unit} s");
        assert_eq!(checker.parts > 0, target.is_some());
    }
}

/// Apple wants each part to have 85 % of the target, but for the last of a segment and those in
/// which decoding can begin: the checker looks at each.
#[test]
fn parts_of_fragments_of_different_lengths_are_long_enough() {
    // How far key pictures are apart, how long fragments are between them, and a part then.
    let cases: [(f64, &[f64], f64); 7] = [
        (
            2.0,
            &[0.28, 0.28, 0.28, 0.28, 0.28, 0.28, 0.28, 0.04],
            0.5656,
        ),
        (1.0, &[0.28, 0.28, 0.28, 0.16], 0.84706),
        // With a hundredth more, as encoders round, four parts in a hundred would be too short.
        (2.08, &[0.28, 0.28, 0.24, 0.24], 0.56470),
        (2.08, &[0.28, 0.24, 0.24, 0.28], 0.5252),
        (1.12, &[0.24, 0.32, 0.24, 0.32], 0.5656),
        (2.0, &[0.2, 0.04, 0.4, 0.36, 0.2, 0.04, 0.4, 0.36], 1.01),
        (1.0, &[0.04, 0.36, 0.2, 0.4], 0.606),
    ];
    for (group, fragments, target) in cases {
        let (mut rig, mut checker) = (Rig::new(BUFFER_BYTES), Checker::default());
        let mut encoder = Encoder::new(Kind::Mp4);
        (encoder.group, encoder.fragments) = (group, fragments);
        rig.watch(&mut encoder, 60.0, &mut checker);
        assert_eq!(rig.playlist().part_target, Some(target), "{fragments:?}");
        assert!(checker.parts > 50 && checker.discontinuities == 0);
    }
}

/// Segments of a second have parts, too.
#[test]
fn short_segments_have_short_parts() {
    for (fragments, target) in [
        (&[0.28, 0.28, 0.28, 0.16][..], 0.2828),
        (&[0.2], 0.404),
        (&[0.04], 0.2828),
    ] {
        let (mut rig, mut checker) = (Rig::new(BUFFER_BYTES), Checker::default());
        rig.cutter = Cutter::of(Plan {
            segment: Duration::from_secs(1),
            ..plan(BUFFER_BYTES)
        })
        .expect("it is cut");
        let mut encoder = Encoder::new(Kind::Mp4);
        (encoder.group, encoder.fragments) = (1.0, fragments);
        rig.watch(&mut encoder, 30.0, &mut checker);
        assert_eq!(rig.playlist().part_target, Some(target), "{fragments:?}");
        assert!(checker.parts > 50);
    }
}

/// What comes after the length of parts is settled may be cut otherwise: a fragment that is longer
/// than the one before it is in the next part.
#[test]
fn a_key_picture_that_comes_out_of_turn_ends_no_parts() {
    let (mut rig, mut checker) = (Rig::new(BUFFER_BYTES), Checker::default());
    let mut encoder = Encoder::new(Kind::Mp4);
    encoder.fragments = &[0.28, 0.28, 0.28, 0.28, 0.28, 0.28, 0.28, 0.04];
    rig.watch(&mut encoder, 20.0, &mut checker);
    let target = rig.playlist().part_target;
    for cut in 1..9 {
        encoder.group = 0.28 * f64::from(cut % 7) + 0.04;
        encoder.fragments = [
            &[0.04][..],
            &[0.28, 0.04],
            &[0.28, 0.28, 0.04],
            &[0.28, 0.28, 0.28, 0.04],
            &[0.28, 0.28, 0.28, 0.28, 0.04],
            &[0.28, 0.28, 0.28, 0.28, 0.28, 0.04],
            &[0.28, 0.28, 0.28, 0.28, 0.28, 0.28, 0.04],
        ][cut as usize % 7];
        let bytes = encoder.run(encoder.group);
        rig.feed(&bytes, encoder.group);
        assert_eq!(rig.playlist().part_target, target, "after {cut}");
    }
}

#[test]
fn there_are_no_parts_any_more_when_a_fragment_does_not_go_into_one() {
    let (mut rig, mut checker) = (Rig::new(BUFFER_BYTES), Checker::default());
    let mut encoder = Encoder::new(Kind::Mp4);
    rig.watch(&mut encoder, 20.0, &mut checker);
    assert!(rig.playlist().part_target.is_some());
    encoder.fragment_seconds = 1.0;
    rig.watch(&mut encoder, 20.0, &mut checker);
    let list = rig.playlist();
    assert!(list.part_target.is_none() && list.hint.is_none());
    assert_eq!(checker.discontinuities, 0);
}

/// If the open segment is overwritten, its parts are gone, and the next segment has other names.
#[test]
fn parts_of_what_is_overwritten_are_gone() {
    let mut rig = Rig::new(40_000);
    let mut encoder = Encoder::new(Kind::Mp4);
    rig.feed(&encoder.run(9.2), 9.2);
    let hint = rig.playlist().hint.unwrap();
    let earlier = hint.replace(".2.", ".1.");
    assert!(rig.fetch(&earlier).is_some());
    encoder.unit_bytes = 30_000;
    for _ in 0..20 {
        rig.feed(&encoder.run(0.5), 0.5);
    }
    assert!(rig.fetch(&earlier).is_none() && rig.fetch(&hint).is_none());
    encoder.unit_bytes = 150;
    rig.feed(&encoder.run(9.0), 9.0);
    let list = rig.playlist();
    assert!(list.part_target.is_none() && list.hint.is_none());
}

/// The next part is waited for, and so is the list that has it.
#[test]
fn what_comes_next_is_waited_for_and_nothing_else() {
    let mut rig = Rig::new(BUFFER_BYTES);
    let mut encoder = Encoder::new(Kind::Mp4);
    rig.feed(&encoder.run(9.2), 9.2);
    let list = rig.playlist();
    let newest = list.segments[list.segments.len() - 1].number;
    let parts = list.parts[&(newest + 1)].len() as u64;
    assert_eq!(parts, 2);
    let hint = list.hint.unwrap();
    let mut find = |wanted: HlsRequest| match rig.cutter.find(&wanted, true, &[]) {
        None => "nothing",
        Some(HlsResponse::Object(_)) => "an object",
        Some(HlsResponse::NotYet(_)) => "not yet",
        Some(HlsResponse::Over) => "over",
        Some(HlsResponse::Refused(_)) => "refused",
    };
    let named = |name: &str| HlsRequest::Named(name.into());
    assert_eq!(find(named(&hint)), "not yet");
    assert_eq!(find(named(&hint.replace(".2.", ".1."))), "an object");
    assert_eq!(find(named(&hint.replace(".2.", ".3."))), "nothing");
    let cases = [
        (newest, None, "an object"),
        (newest, Some(3), "an object"),
        (newest, Some(30), "an object"),
        (newest + 1, None, "not yet"),
        (newest + 1, Some(1), "an object"),
        (newest + 1, Some(2), "not yet"),
        (newest + 1, Some(99), "refused"),
        (newest + 2, Some(0), "not yet"),
        (newest + 3, Some(0), "refused"),
    ];
    for (number, part, found) in cases {
        let ahead = Some(BlockingReload { number, part });
        assert_eq!(find(HlsRequest::List(ahead)), found, "{ahead:?}");
    }
}

#[test]
fn the_target_goes_by_the_first_group_of_pictures() {
    for (group, target) in [
        (0.5, 2),
        (1.0, 2),
        (1.5, 3),
        (2.0, 2),
        (4.0, 4),
        (9.0, 9),
        (60.0, 10),
    ] {
        let (mut rig, mut checker) = (Rig::new(4 << 20), Checker::default());
        let mut encoder = Encoder::new(Kind::Ts);
        encoder.group = group;
        rig.watch(&mut encoder, 130.0, &mut checker);
        assert_eq!(rig.playlist().target, target, "groups of {group} s");
        assert_eq!(rig.cutter.cuts_in_groups() > 0, group > 10.0);
    }
}

/// As `-movflags frag_keyframe` of ffmpeg makes them.
fn fragments_of(encoder: &mut Encoder, seconds: f64) {
    (encoder.fragment_seconds, encoder.group) = (seconds, seconds);
}

#[test]
fn the_target_holds_for_fragments_of_any_length_and_their_durations_are_true() {
    for (seconds, target) in [
        (0.6, 2),
        (4.0, 4),
        (9.6, 10),
        (12.0, 12),
        (25.0, 25),
        (59.0, 59),
    ] {
        let mut rig = Rig::new(BUFFER_BYTES);
        let mut encoder = Encoder::new(Kind::Mp4);
        fragments_of(&mut encoder, seconds);
        for _ in 0..24 {
            rig.feed(&encoder.unit(), seconds);
        }
        let list = rig.playlist();
        assert_eq!(list.target, target, "fragments of {seconds} s");
        let fragments = (2.0 / seconds).ceil();
        for segment in &list.segments {
            assert!((segment.seconds - fragments * seconds).abs() < 0.001);
            assert!(!segment.is_discontinuous);
        }
    }
}

#[test]
fn a_fragment_longer_than_the_target_raises_it_before_the_first_list_and_is_left_out_later() {
    let (mut rig, mut checker) = (Rig::new(BUFFER_BYTES), Checker::default());
    let mut encoder = Encoder::new(Kind::Mp4);
    for seconds in [2.0, 12.0, 4.0] {
        fragments_of(&mut encoder, seconds);
        rig.feed(&encoder.unit(), seconds);
    }
    fragments_of(&mut encoder, 2.0);
    rig.watch(&mut encoder, 20.0, &mut checker);
    let seconds = |list: &Playlist| -> Vec<f64> {
        list.segments
            .iter()
            .map(|segment| segment.seconds)
            .collect()
    };
    let list = rig.playlist();
    assert_eq!(
        (list.target, &seconds(&list)[..3]),
        (12, &[2.0, 12.0, 4.0][..])
    );
    fragments_of(&mut encoder, 25.0);
    let fragment = encoder.unit();
    rig.feed(&fragment, 25.0);
    fragments_of(&mut encoder, 2.0);
    rig.watch(&mut encoder, 20.0, &mut checker);
    let list = rig.playlist();
    assert!(seconds(&list).iter().all(|seconds| *seconds <= 12.0));
    assert_eq!((list.target, checker.discontinuities), (12, 1));
    assert_eq!(rig.cutter.cuts_in_groups(), 1);
    for entry in &list.segments {
        let bytes = rig.fetch(&entry.name).expect("it is there");
        assert!(!bytes.windows(fragment.len()).any(|bytes| bytes == fragment));
    }
}

/// As x264 makes them without a fixed distance of key frames: at most 250 pictures.
#[test]
fn fragments_of_varying_lengths_have_a_target_for_the_longest_group() {
    for (first, later, target) in [
        ([3.0, 4.2, 2.5, 3.4], 10.0, 10),
        ([1.0, 4.0, 4.0, 4.0], 4.0, 5),
        // Two at the distance that the encoder allows.
        ([2.4, 1.2, 2.4, 1.4], 2.4, 4),
        ([2.0, 1.0, 0.6, 1.4], 2.0, 3),
    ] {
        let (mut rig, mut checker) = (Rig::new(BUFFER_BYTES), Checker::default());
        let mut encoder = Encoder::new(Kind::Mp4);
        for seconds in first.into_iter().chain([2.0, 2.0]) {
            fragments_of(&mut encoder, seconds);
            rig.feed(&encoder.unit(), seconds);
        }
        assert_eq!(rig.playlist().target, target, "fragments of {first:?} s");
        fragments_of(&mut encoder, later);
        rig.watch(&mut encoder, 40.0, &mut checker);
        assert_eq!(rig.playlist().target, target);
        assert_eq!(
            (rig.cutter.cuts_in_groups(), checker.discontinuities),
            (0, 0)
        );
    }
}

#[test]
fn another_header_of_mp4_has_its_own_map_and_the_same_again_has_not() {
    let (mut rig, mut checker) = (Rig::new(BUFFER_BYTES), Checker::default());
    let mut encoder = Encoder::new(Kind::Mp4);
    rig.watch(&mut encoder, 20.0, &mut checker);
    let same = encoder.header();
    rig.feed(&same, 0.0);
    rig.watch(&mut encoder, 20.0, &mut checker);
    assert_eq!(checker.discontinuities, 0);
    encoder.width = 7;
    let other = encoder.header();
    rig.feed(&other, 0.0);
    rig.watch(&mut encoder, 20.0, &mut checker);
    assert_eq!(checker.discontinuities, 1);
    let list = rig.playlist();
    let last = list.segments[list.segments.len() - 1].map.clone().unwrap();
    assert_ne!(list.segments[0].map.as_ref(), Some(&last));
    assert_eq!(rig.fetch(&last).unwrap(), other);
    // No segment has a header in it.
    for entry in &list.segments {
        let bytes = rig.fetch(&entry.name).unwrap();
        assert!(!bytes.windows(4).any(|bytes| bytes == b"moov"));
    }
}

/// Nothing follows from which the length of the last fragment could be told.
#[test]
fn the_last_fragment_before_another_header_or_the_end_lasts_as_long_as_its_samples() {
    for seconds in [0.4, 2.0, 6.0] {
        let mut rig = Rig::new(BUFFER_BYTES);
        let mut encoder = Encoder::new(Kind::Mp4);
        (encoder.fragment_seconds, encoder.group) = (seconds, seconds);
        let first = encoder.unit();
        rig.feed(&first, 0.0);
        encoder.width = 7;
        let second = [encoder.header(), encoder.unit()].concat();
        rig.feed(&second, 0.0);
        rig.cutter.finish(rig.source.len() as u64, true);
        let list = rig.playlist();
        let lasts = list.segments.iter().map(|segment| segment.seconds);
        assert_eq!(lasts.collect::<Vec<_>>(), [seconds, seconds]);
    }
}

#[test]
fn a_source_that_changes_its_header_all_the_time_holds_little() {
    let before = counting::memory_bytes();
    let mut rig = Rig::new(64 << 20);
    let mut encoder = Encoder::new(Kind::Mp4);
    for width in 0..100 {
        encoder.width = width;
        let header = [
            encoder.header(),
            encoder::mp4_box(b"free", &[width; 60_000]),
        ]
        .concat();
        rig.feed(&header, 0.0);
        let media = encoder.run(4.0);
        rig.feed(&media, 4.0);
    }
    let held = (counting::memory_bytes() - before) as usize - rig.source.capacity();
    assert!(held < Cutter::MEMORY_BYTES_MAX + MEMORY_BYTES_MAX, "{held}");
}

#[test]
fn another_source_makes_a_seam_but_for_mp4_which_is_moved_on() {
    for kind in KINDS {
        let (mut rig, mut checker) = (Rig::new(BUFFER_BYTES), Checker::default());
        let mut encoder = Encoder::new(kind);
        rig.watch(&mut encoder, 31.0, &mut checker);
        rig.cutter.seam(rig.source.len() as u64);
        if kind != Kind::Mp4 {
            encoder.jump(encoder.time + 1.5);
        }
        rig.watch(&mut encoder, 30.0, &mut checker);
        let seams = usize::from(kind != Kind::Mp4);
        assert_eq!(checker.discontinuities, seams, "{kind:?}");
    }
}

/// A segment that left the list does not come back: neither at the stream's end, when there is room,
/// nor when a long segment has gone.
#[test]
fn a_list_begins_with_no_lower_number_again() {
    for is_complete in [true, false] {
        let (mut rig, mut checker) = (Rig::new(BUFFER_BYTES), Checker::default());
        let mut encoder = Encoder::new(Kind::Ts);
        encoder.unit_bytes = 1_000;
        rig.watch(&mut encoder, 60.0, &mut checker);
        encoder.unit_bytes = 700;
        rig.watch(&mut encoder, 30.0, &mut checker);
        rig.cutter.finish(rig.source.len() as u64, is_complete);
        let (list, now) = (rig.list().unwrap(), rig.seconds);
        checker.check(&list, now, |name| rig.fetch(name));
    }
}

#[test]
fn of_a_stream_that_was_lost_what_may_be_torn_off_is_not_listed() {
    let mut rig = Rig::new(BUFFER_BYTES);
    let mut encoder = Encoder::new(Kind::Ts);
    let bytes = encoder.run(21.0);
    rig.feed(&bytes[..bytes.len() - 188], 21.0);
    rig.cutter.finish(rig.source.len() as u64, false);
    let list = rig.playlist();
    assert!(!list.is_over);
    assert!((list.seconds() - 20.96).abs() < 0.001, "{}", list.seconds());
}

#[test]
fn what_cannot_be_listed_says_why() {
    let mut rig = Rig::new(BUFFER_BYTES);
    let mut encoder = Encoder::new(Kind::Ts);
    assert_eq!(rig.list(), Err(NoPlaylist::TooFew));
    rig.feed(&encoder.run(4.5), 4.5);
    assert_eq!(rig.list(), Err(NoPlaylist::TooFew));
    rig.feed(&encoder.run(2.0), 2.0);
    assert_eq!(rig.playlist().segments.len(), 3);
    // Ten seconds of four megabits fit into no mebibyte.
    encoder.unit_bytes = 20_000;
    rig.feed(&encoder.run(10.0), 10.0);
    assert_eq!(rig.list(), Err(NoPlaylist::TooLarge));

    let unfit = |bytes: &[u8]| {
        let mut rig = Rig::new(BUFFER_BYTES);
        rig.feed(bytes, 9.0);
        let found = rig.list();
        assert!(matches!(found, Err(NoPlaylist::Unfit(_))), "{found:?}");
    };
    for name in ["vp8.webm", "h264.mkv", "theora.ogg", "h264.flv"] {
        unfit(&std::fs::read(format!("tests/media/{name}")).unwrap());
    }
    let mut untimed = Encoder::new(Kind::Mp4);
    untimed.has_times = false;
    unfit(&untimed.run(9.0));
    // A receiver's packets, with 16 bytes after each.
    let packets = Encoder::new(Kind::Ts).run(9.0);
    let packets = packets
        .chunks(188)
        .flat_map(|packet| [packet, &[0; 16]].concat());
    unfit(&packets.collect::<Vec<u8>>());
}

/// A stream that begins later, here or in another server, has higher numbers, however fast the one
/// before came.
#[test]
fn what_comes_faster_than_it_plays_has_no_numbers_ahead_of_time() {
    let mut rig = Rig::new(16 << 20);
    let mut encoder = Encoder::new(Kind::Ts);
    for _ in 0..120 {
        rig.feed(&encoder.run(60.0), 1.0);
    }
    let mut list = rig.playlist();
    let seams = list.segments.iter().filter(|entry| entry.is_discontinuous);
    assert!(seams.count() > 1, "some were left out");
    let newest = list.segments.pop().unwrap();
    let later = Plan {
        began: Instant::after_start(Duration::from_secs_f64(rig.seconds + 8.0)),
        ..plan(1 << 20)
    };
    let mut later = Rig {
        cutter: Cutter::of(later).expect("it is cut"),
        ..Rig::new(1 << 20)
    };
    later.feed(&Encoder::new(Kind::Ts).run(9.0), rig.seconds + 20.0);
    assert!(later.playlist().segments[0].number > newest.number);
}

#[test]
fn the_tables_in_front_repeat_those_that_came_last() {
    let mut bytes = Encoder::new(Kind::Ts).run(9.0);
    // Each table's packets are counted.
    let mut counts = [0_u8; 2];
    for packet in bytes.chunks_mut(188) {
        let table = match [packet[1] & 0x1f, packet[2]] {
            [0, 0] => 0,
            [1, 0] => 1,
            _ => continue,
        };
        packet[3] |= counts[table];
        counts[table] += 1;
    }
    let mut rig = Rig::new(BUFFER_BYTES);
    rig.feed(&bytes, 9.0);
    for (index, entry) in rig.playlist().segments.iter().enumerate() {
        let segment = rig.fetch(&entry.name).unwrap();
        let of_lead = [segment[3], segment[188 + 3]].map(|byte| usize::from(byte & 0x0f));
        assert_eq!(of_lead, [index, index]);
    }
}

/// Each segment decodes by itself: the sets of the first key picture come after the tables and
/// before the picture.
#[test]
fn segments_begin_with_the_parameter_sets_that_their_key_picture_lacks() {
    const SETS: &[u8] = &[
        0, 0, 0, 1, 0x67, 100, 0, 30, 0x80, 7, 0, 0, 0, 1, 0x68, 0x80, 7,
    ];
    let mut rig = Rig::new(BUFFER_BYTES);
    let mut encoder = Encoder::new(Kind::Ts);
    let mut bytes = encoder.header();
    bytes.extend(transport::pes(
        0x101,
        0.0,
        &[SETS, &[0, 0, 0, 1, 0x65, 0x88]].concat(),
    ));
    encoder.jump(2.0);
    bytes.extend(encoder.run(9.0));
    rig.feed(&bytes, 11.0);
    let mut with_sets = 0;
    for entry in rig.playlist().segments {
        let segment = rig.fetch(&entry.name).expect("it is there");
        let sets = &segment[2 * 188..3 * 188];
        // The counter of the key picture is 0.
        with_sets += usize::from(sets.ends_with(SETS) && sets[..4] == [0x47, 0x41, 1, 0x3f]);
    }
    assert_eq!(with_sets, 4);
}

#[test]
fn what_is_scrambled_is_said_to_be() {
    let mut bytes = Encoder::new(Kind::Ts).run(9.0);
    for packet in bytes.chunks_mut(188) {
        if packet[2] == 1 {
            packet[3] = 0xb0;
            packet[4..6].copy_from_slice(&[9, 0x40]);
        }
    }
    let mut rig = Rig::new(BUFFER_BYTES);
    rig.feed(&bytes, 9.0);
    let reason = "its packets are scrambled, so their times cannot be read";
    assert_eq!(rig.list(), Err(NoPlaylist::Unfit(reason)));
}

/// Returns a stream with a buffer of `buffer_bytes`.
fn stream(buffer_bytes: usize) -> (StreamBuffer<u8>, Pool) {
    let limits = Limits {
        buffer_bytes,
        ..Limits::default()
    };
    let mut stream = StreamBuffer::new(limits, None, Instant::START);
    stream.cut_into_segments(plan(0));
    (stream, Pool::new(1 << 30))
}

/// Takes at most `bytes_max` of the bytes that a viewer is lent.
fn take(stream: &mut StreamBuffer<u8>, viewer: ViewerId<u8>, bytes_max: usize) -> Vec<u8> {
    let mut gather = Gather::default();
    let lent = stream.lend(viewer, 0..bytes_max, &mut gather, 0);
    let bytes: Vec<u8> = gather
        .slices()
        .iter()
        .flat_map(|slice| slice.to_vec())
        .collect();
    assert_eq!(bytes.len(), lent);
    stream.advance(viewer, lent);
    stream.end_turn(viewer, Outcome::Open);
    stream.check();
    bytes
}

#[test]
fn who_asks_for_a_segment_is_lent_it_and_no_byte_more() {
    for kind in KINDS {
        let (mut stream, mut pool) = stream(1 << 20);
        let source = Encoder::new(kind).run(20.0);
        stream.append(&source, &mut pool, Instant::START);
        let cutter = stream.segments().unwrap();
        let list = String::from_utf8(cutter.list(&[]).unwrap().to_vec()).unwrap();
        for entry in Playlist::read(&list).segments {
            let segment = stream
                .segments()
                .unwrap()
                .segment(&entry.name)
                .unwrap()
                .clone();
            let range = (segment.from, segment.to);
            let viewer = stream.join_range(1, range, segment.lead.clone(), Instant::START);
            assert_eq!(
                stream.supply(viewer, 0),
                Supply::Bytes(segment.lead.len() + (segment.to - segment.from) as usize)
            );
            let mut got = Vec::new();
            while matches!(stream.supply(viewer, 0), Supply::Bytes(_)) {
                got.extend(take(&mut stream, viewer, 10_000));
            }
            let own = &source[segment.from as usize..segment.to as usize];
            assert!(got == [&segment.lead[..], own].concat(), "{kind:?}");
            assert_eq!(stream.supply(viewer, 0), Supply::Ended(End::Complete));
            stream.leave(viewer);
        }
    }
}

#[test]
fn who_is_overtaken_within_a_segment_is_cut_and_gets_nothing_else() {
    let (mut stream, mut pool) = stream(256 << 10);
    let mut encoder = Encoder::new(Kind::Ts);
    stream.append(&encoder.run(6.5), &mut pool, Instant::START);
    let list = stream.segments().unwrap().list(&[]).unwrap().to_vec();
    let list = Playlist::read(&String::from_utf8(list).unwrap());
    let name = &list.segments[0].name;
    let segment = stream.segments().unwrap().segment(name).unwrap().clone();
    let viewer = stream.join_range(
        7,
        (segment.from, segment.to),
        segment.lead.clone(),
        Instant::START,
    );
    assert_eq!(take(&mut stream, viewer, 1_000).len(), 1_000);
    // The viewer has not even read the lead.
    let range = (segment.from, segment.to);
    let other = stream.join_range(8, range, segment.lead.clone(), Instant::START);
    let mut cuts = Vec::new();
    for _ in 0..40 {
        stream.append(&encoder.run(1.0), &mut pool, Instant::START);
        cuts.extend(std::iter::from_fn(|| stream.take_cut()));
        stream.check();
    }
    cuts.sort();
    assert_eq!(cuts, [7, 8]);
    assert!(take(&mut stream, viewer, 1_000).is_empty());
    stream.leave(other);
    stream.check();
    assert_eq!(stream.figures().skips, 0);
    assert!(stream.segments().unwrap().segment(name).is_none());
    stream.leave(viewer);
}
