//! The hand-over of segments: no told value makes them panic, or hold more than they may.

use serde_json::{Value, json};

use super::*;
use crate::format::Scanner;
use crate::hls::BlockingReload;
use crate::hls::parts::Part;

/// A cutter as another process tells it, with two segments and an open one. Its newest byte is at
/// 900.
fn told() -> Value {
    let plan = Plan {
        segment: Duration::from_secs(2),
        ..Plan::default()
    };
    let point = |offset: u64| json!({"offset": offset, "time": 90 * offset, "counter": null});
    let segment = |number: u64| {
        json!({
            "number": number, "from": 100 * number, "to": 100 * number + 100, "lead": [],
            "map": null, "ticks": 90_000, "began": {"secs": 9, "nanos": 0},
            "is_discontinuous": false, "discontinuities": 0, "is_independent": true, "parts": [],
        })
    };
    let mut told = serde_json::to_value(Cutter::of(plan)).expect("JSON");
    told["kind"] = json!(["Mp4"]);
    told["segments"] = json!([segment(5), segment(6)]);
    told["number"] = 7.into();
    told["newest"] = point(800);
    told["open_segment"] = json!({
        "start": point(700), "began": {"secs": 9, "nanos": 0}, "lead": [],
        "is_discontinuous": false, "is_independent": true, "join": null, "whole": null,
    });
    told["parts"]["length"] = json!({"Of": 45_000});
    told["parts"]["open"] = json!({"start": point(700), "is_independent": true, "join": null});
    told
}

/// The same, with another value at this place.
fn but(mut told: Value, place: &str, value: Value) -> Value {
    *told.pointer_mut(place).unwrap_or_else(|| panic!("{place}")) = value;
    told
}

fn taken(told: Value) -> Option<Cutter> {
    let mut cutter: Cutter = serde_json::from_value(told).expect("as it is told");
    cutter.fit(900, 64 * 1024).ok().map(|()| cutter)
}

#[test]
fn a_handed_over_cutter_is_checked_at_its_limits() {
    const SPAN_MAX: u64 = 1 << 36;
    assert!(taken(told()).is_some());
    let span = |nanos: u32| json!({"secs": SPAN_MAX, "nanos": nanos});
    for (place, can_be, cannot) in [
        // Numbers follow each other.
        ("/segments/0/number", json!(5), json!(6)),
        ("/segments/1/number", json!(6), json!(u64::MAX)),
        ("/number", json!(7), json!(8)),
        // Places ascend.
        ("/segments/0/from", json!(600), json!(601)),
        ("/segments/0/to", json!(500), json!(499)),
        ("/segments/1/from", json!(700), json!(599)),
        ("/segments/1/to", json!(600), json!(701)),
        ("/open_segment/start/offset", json!(900), json!(901)),
        // Times can be added.
        ("/plan/started", span(0), span(1)),
        ("/segments/1/began", span(0), span(1)),
        ("/open_segment/began", span(0), span(1)),
    ] {
        assert!(taken(but(told(), place, can_be)).is_some(), "{place}");
        assert!(taken(but(told(), place, cannot)).is_none(), "{place}");
    }
    let closed = but(told(), "/open_segment", Value::Null);
    for (to, fits) in [(900, true), (901, false)] {
        let told = but(closed.clone(), "/segments/1/to", json!(to));
        assert_eq!(taken(told).is_some(), fits, "{to}");
    }
}

/// No list is longer than all may be together.
#[test]
fn a_handed_over_cutter_takes_no_more_memory_than_allowed() {
    let had = taken(told()).expect("it fits").lists_bytes();
    let room = Cutter::MEMORY_BYTES_MAX - had;
    let part = json!({"from": 0, "to": 1, "ticks": 1, "is_independent": true});
    let many =
        |item: &Value, size: usize, more: usize| json!(vec![item.clone(); room / size + more]);
    for (place, item, size) in [
        ("/segments/0/lead", json!(7), 1),
        ("/open_segment/lead", json!(7), 1),
        ("/segments/0/parts", part.clone(), size_of::<Part>()),
        ("/parts/whole", part, size_of::<Part>()),
        ("/parts/early", json!(7), 4),
    ] {
        assert!(
            taken(but(told(), place, many(&item, size, 0))).is_some(),
            "{place}"
        );
        assert!(
            taken(but(told(), place, many(&item, size, 1))).is_none(),
            "{place}"
        );
    }
    // A map counts once, however many segments have it.
    let map = |number: u64, bytes: usize| json!({"number": number, "bytes": "\0".repeat(bytes)});
    let other = map(6, room / 2);
    for (maps, fits) in [
        (vec![map(5, room); 3], true),
        (vec![map(5, room + 1); 3], false),
        (vec![map(5, room / 2), other.clone()], true),
        (vec![map(5, room / 2), other, map(7, 9)], false),
    ] {
        let places = ["/segments/0/map", "/segments/1/map", "/map"];
        let told = places
            .into_iter()
            .zip(maps)
            .fold(told(), |told, (place, map)| but(told, place, map));
        assert_eq!(taken(told).is_some(), fits);
    }
    // So many segments, each of no byte.
    let most = 2 + room / size_of::<Segment>();
    for (count, fits) in [(most, true), (most + 1, false)] {
        let segments = (0..count).map(|number| {
            let segment = but(told(), "/segments/0/number", json!(number))["segments"][0].take();
            let segment = but(segment, "/from", json!(700));
            but(segment, "/to", json!(700))
        });
        let segments = json!(segments.collect::<Vec<_>>());
        let told = but(but(told(), "/segments", segments), "/number", json!(count));
        assert_eq!(taken(told).is_some(), fits, "{count}");
    }
}

/// All other numbers are only compared, or stay within their type.
#[test]
fn no_handed_over_number_makes_a_cutter_panic() {
    let point = |offset: u64| json!({"offset": offset, "time": u64::MAX, "counter": 255});
    let part = json!({"from": u64::MAX, "to": 0, "ticks": u32::MAX, "is_independent": false});
    for (place, value) in [
        ("/number", json!(7)),
        ("/plan/segment", json!({"secs": u64::MAX, "nanos": 0})),
        ("/plan/segment", json!({"secs": 0, "nanos": 0})),
        ("/plan/began", json!(u64::MAX)),
        ("/plan/number_min", json!(u64::MAX)),
        ("/newest", point(0)),
        ("/newest", point(u64::MAX)),
        ("/split", json!(u64::MAX)),
        ("/gap", json!(i64::MAX)),
        ("/gap", json!(i64::MIN)),
        ("/target", json!(0)),
        ("/target", json!(u32::MAX)),
        ("/discontinuities", json!(u64::MAX)),
        ("/cuts_in_groups", json!(u64::MAX)),
        ("/listed_from", json!(u64::MAX)),
        ("/open_segment/join", point(u64::MAX)),
        ("/open_segment/whole", point(0)),
        ("/open_segment/is_discontinuous", json!(true)),
        ("/segments/0/parts", json!([part])),
        ("/segments/1/ticks", json!(u32::MAX)),
        ("/segments/1/discontinuities", json!(u64::MAX)),
        ("/parts/whole", json!(vec![part; 40])),
        ("/parts/open/start", point(u64::MAX)),
        ("/parts/newest", point(u64::MAX)),
        ("/parts/length", json!({"Of": 1})),
        ("/parts/length", json!({"Of": u32::MAX})),
        ("/parts/length", json!("Unknown")),
        ("/parts/early", json!(vec![u32::MAX; 200])),
    ] {
        // A list that is asked for meanwhile changes some of the numbers.
        for (is_complete, is_asked) in [(true, true), (true, false), (false, true), (false, false)]
        {
            let mut cutter = taken(but(told(), place, value.clone())).expect(place);
            let scanner = Scanner::default();
            let list = |cutter: &mut Cutter| {
                let _ = cutter.list(&[]);
                let names = cutter.segments.iter().map(|segment| segment.number);
                for number in names.collect::<Vec<_>>() {
                    let _ = cutter.part(&format!("00000000-{number}.0.m4s"));
                    let ahead = BlockingReload {
                        number,
                        part: Some(u64::MAX),
                    };
                    let _ = cutter.is_awaited(ahead);
                }
                let _ = (
                    cutter.reached(),
                    cutter.newest_listed(),
                    cutter.watch_time(),
                );
            };
            for (step, offset) in [900, 950, 1_000, 1_050].into_iter().enumerate() {
                let time = MediaTime::from_ticks(72_000 + 180_000 * step as u64);
                let now = Instant::after_start(Duration::from_secs(2 * step as u64));
                for finding in [
                    Finding::Time(offset, time),
                    Finding::Join(Start::at(offset)),
                ] {
                    cutter.take(finding, scanner.header(), now);
                    if is_asked {
                        list(&mut cutter);
                    }
                }
            }
            cutter.finish(1_100, is_complete);
            list(&mut cutter);
            cutter.check();
        }
    }
}
