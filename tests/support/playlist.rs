//! What a player may count on in a live playlist (RFC 8216 and Apple's authoring specification):
//! each list is looked at beside all that came before it, and all it names is fetched.

use std::collections::HashMap;

/// A list as it was read.
#[derive(Debug, Default)]
pub struct Playlist {
    pub target: u64,
    pub is_over: bool,
    pub is_independent: bool,
    pub segments: Vec<Entry>,
    /// Part target, and the hold-back from the end, in seconds.
    pub part_target: Option<f64>,
    pub hold_back: Option<f64>,
    /// The parts of segments that are listed with theirs, by the numbers of these.
    pub parts: HashMap<u64, Vec<Part>>,
    /// The part that comes next.
    pub hint: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub name: String,
    pub seconds: f64,
    pub is_independent: bool,
}

impl Part {
    fn read(value: &str) -> Part {
        let (value, is_independent) = match value.strip_suffix(",INDEPENDENT=YES") {
            Some(value) => (value, true),
            None => (value, false),
        };
        let value = value.strip_prefix("DURATION=").expect(value);
        let (seconds, name) = value.split_once(",URI=\"").expect(value);
        Part {
            name: name.strip_suffix('"').expect(value).to_owned(),
            seconds: seconds.parse().expect(value),
            is_independent,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub number: u64,
    pub name: String,
    pub seconds: f64,
    pub is_discontinuous: bool,
    /// How many segments of the stream were such, it included.
    pub discontinuities: u64,
    /// Within the day.
    pub date: f64,
    pub map: Option<String>,
}

impl Playlist {
    /// Fails on any unknown tag.
    pub fn read(text: &str) -> Playlist {
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("#EXTM3U"));
        let mut list = Playlist::default();
        let (mut number, mut discontinuities) = (None, None);
        let (mut seconds, mut date, mut map, mut is_discontinuous) = (None, None, None, false);
        for line in lines {
            let (tag, value) = line.split_once(':').unwrap_or((line, ""));
            let count = || value.parse::<u64>().expect(line);
            match tag {
                "#EXT-X-VERSION" => assert!((3..=9).contains(&count())),
                "#EXT-X-TARGETDURATION" => list.target = count(),
                "#EXT-X-MEDIA-SEQUENCE" => number = Some(count()),
                "#EXT-X-DISCONTINUITY-SEQUENCE" => discontinuities = Some(count()),
                "#EXT-X-SERVER-CONTROL" => {
                    let rest = value.strip_prefix("CAN-BLOCK-RELOAD=YES").expect(line);
                    let back = rest.strip_prefix(",PART-HOLD-BACK=");
                    list.hold_back = back.map(|back| back.parse().expect(line));
                }
                "#EXT-X-PART-INF" => {
                    let target = value.strip_prefix("PART-TARGET=").expect(line);
                    list.part_target = Some(target.parse().expect(line));
                }
                "#EXT-X-PART" => {
                    let number = number.expect("a number before the first part");
                    list.parts
                        .entry(number)
                        .or_default()
                        .push(Part::read(value));
                }
                "#EXT-X-PRELOAD-HINT" => {
                    let name = value
                        .strip_prefix("TYPE=PART,URI=\"")
                        .and_then(|name| name.strip_suffix('"'));
                    list.hint = Some(name.expect(line).to_owned());
                }
                "#EXT-X-INDEPENDENT-SEGMENTS" => list.is_independent = true,
                "#EXT-X-DISCONTINUITY" => is_discontinuous = true,
                "#EXT-X-MAP" => {
                    let name = value
                        .strip_prefix("URI=\"")
                        .and_then(|name| name.strip_suffix('"'));
                    map = Some(name.expect(line).to_owned());
                }
                "#EXT-X-PROGRAM-DATE-TIME" => date = Some(time_of_day(value)),
                "#EXTINF" => seconds = Some(value.strip_suffix(',').unwrap().parse().unwrap()),
                "#EXT-X-ENDLIST" => list.is_over = true,
                _ if line.starts_with('#') => panic!("{line}"),
                _ => {
                    let next = number.as_mut().expect("a number before the first segment");
                    let count = discontinuities.as_mut().expect("it stands in every list");
                    *count += u64::from(is_discontinuous);
                    list.segments.push(Entry {
                        number: *next,
                        name: line.to_owned(),
                        seconds: seconds.take().expect("a duration"),
                        is_discontinuous: std::mem::take(&mut is_discontinuous),
                        discontinuities: *count,
                        date: date.take().expect("a date"),
                        map: map.clone(),
                    });
                    *next += 1;
                }
            }
        }
        list
    }

    /// How long it is.
    pub fn seconds(&self) -> f64 {
        self.segments.iter().map(|segment| segment.seconds).sum()
    }
}

fn time_of_day(date: &str) -> f64 {
    let (_, time) = date
        .strip_suffix('Z')
        .expect(date)
        .split_once('T')
        .expect(date);
    let parts = time.split(':').map(|part| part.parse::<f64>().expect(date));
    parts.fold(0.0, |sum, part| sum * 60.0 + part)
}

/// All that was seen of one stream.
#[derive(Default)]
pub struct Checker {
    seen: HashMap<u64, Entry>,
    bytes: HashMap<String, Vec<u8>>,
    last: Option<Playlist>,
    longest: f64,
    /// Segments that left the list, and until when they can be fetched.
    owed: Vec<(String, f64)>,
    pub segments: usize,
    pub discontinuities: usize,
    /// Looks at one, as often as it was listed.
    pub parts: usize,
}

impl Checker {
    /// Looks at a list as it is at a time, in seconds, and fetches all that must be there.
    pub fn check(&mut self, text: &str, now: f64, mut fetch: impl FnMut(&str) -> Option<Vec<u8>>) {
        let list = Playlist::read(text);
        self.check_times(&list);
        self.check_parts(&list, &mut fetch);
        self.check_sequence(&list, now);
        for entry in &list.segments {
            let bytes = fetch(&entry.name).unwrap_or_else(|| panic!("{} is not there", entry.name));
            let map = entry.map.as_ref().map(|name| fetch(name).expect("its map"));
            check_content(&entry.name, &bytes, map.as_deref());
            let before = self
                .bytes
                .entry(entry.name.clone())
                .or_insert_with(|| bytes.clone());
            assert!(*before == bytes, "{} has changed", entry.name);
        }
        self.owed.retain(|(_, until)| *until > now);
        for (name, _) in &self.owed {
            assert!(fetch(name).is_some(), "{name} has gone too early");
            self.bytes.remove(name);
        }
        self.last = Some(list);
    }

    /// Checks that parts have allowed durations, and that they add up to their segment.
    fn check_parts(&mut self, list: &Playlist, fetch: &mut impl FnMut(&str) -> Option<Vec<u8>>) {
        let Some(target) = list.part_target else {
            assert!(list.parts.is_empty() && list.hint.is_none() && list.hold_back.is_none());
            return;
        };
        let last_target = self.last.as_ref().and_then(|last| last.part_target);
        assert!(last_target.is_none_or(|last| last == target));
        assert!(list.hold_back.is_some_and(|back| back >= 2.0 * target));
        let filling = list.segments.last().expect("a segment").number + 1;
        for (number, parts) in &list.parts {
            let last = parts.len() - usize::from(*number < filling);
            for (index, part) in parts.iter().enumerate() {
                let is_long = part.seconds >= 0.85 * target || part.is_independent;
                assert!(
                    part.seconds <= target && (is_long || index >= last),
                    "{list:?}"
                );
            }
            let bytes = parts.iter().map(|part| fetch(&part.name).expect("a part"));
            let bytes: Vec<u8> = bytes.flatten().collect();
            self.parts += parts.len();
            if let Some(entry) = list.segments.iter().find(|entry| entry.number == *number) {
                let seconds: f64 = parts.iter().map(|part| part.seconds).sum();
                assert!(
                    (seconds - entry.seconds).abs() < 0.001,
                    "{parts:?} {entry:?}"
                );
                assert!(fetch(&entry.name).expect("its segment") == bytes);
            } else {
                assert_eq!(*number, filling);
            }
        }
        let next = list.parts.get(&filling).map_or(0, Vec::len);
        let hint = list.hint.as_ref().expect("a hint");
        assert!(hint.contains(&format!("-{filling}.{next}.")), "{hint}");
        assert!(fetch(hint).is_none());
    }

    fn check_times(&mut self, list: &Playlist) {
        self.longest = self.longest.max(list.seconds());
        assert!(list.is_over || list.segments.len() >= 3, "{list:?}");
        for entry in &list.segments {
            assert!(
                entry.seconds > 0.0 && entry.seconds.round() <= list.target as f64,
                "{list:?}"
            );
        }
        for (before, entry) in list.segments.iter().zip(&list.segments[1..]) {
            let distance = (entry.date - before.date).rem_euclid(86_400.0);
            let is_near = (distance - before.seconds).abs() <= list.target as f64 + 0.002;
            assert!(is_near || entry.is_discontinuous, "{before:?} {entry:?}");
        }
    }

    fn check_sequence(&mut self, list: &Playlist, now: f64) {
        let first = list.segments.first().expect("a segment").number;
        if let Some(last) = &self.last {
            assert_eq!(list.target, last.target, "the target has changed");
            assert!(
                !last.is_over || list.segments == last.segments,
                "it was over"
            );
            let last_first = last.segments[0].number;
            assert!(first >= last_first, "the sequence has fallen");
            let last_newest = last.segments[last.segments.len() - 1].number;
            assert!(first <= last_newest + 1, "segments were never listed");
            for entry in last.segments.iter().filter(|entry| entry.number < first) {
                self.owed
                    .push((entry.name.clone(), now + entry.seconds + self.longest));
            }
        }
        for entry in &list.segments {
            if let Some(seen) = self.seen.get(&entry.number) {
                assert_eq!(seen, entry, "a segment has changed");
                continue;
            }
            assert!(self.seen.values().all(|seen| seen.name != entry.name) || self.segments > 200);
            self.seen.retain(|number, _| *number + 100 > entry.number);
            self.seen.insert(entry.number, entry.clone());
            self.segments += 1;
            self.discontinuities += usize::from(entry.is_discontinuous);
        }
    }
}

/// With what a segment must begin.
fn check_content(name: &str, bytes: &[u8], map: Option<&[u8]>) {
    let (_, extension) = name.split_once('.').expect("an extension");
    match extension {
        "ts" => {
            assert_eq!(bytes.len() % 188, 0);
            assert!(bytes.chunks(188).all(|packet| packet[0] == 0x47));
            let pid = |packet: &[u8]| u16::from(packet[1] & 0x1f) << 8 | u16::from(packet[2]);
            assert_eq!(pid(bytes), 0, "{name} does not begin with a PAT");
            assert_ne!(pid(&bytes[188..]), 0, "{name} has no PMT behind its PAT");
        }
        "m4s" => {
            let map = map.expect("a map");
            assert_eq!(&map[4..8], b"ftyp");
            assert!(matches!(
                &bytes[4..8],
                b"moof" | b"styp" | b"prft" | b"sidx" | b"emsg"
            ));
        }
        "mp3" | "aac" => {
            assert_eq!(&bytes[..3], b"ID3");
            let owner = b"com.apple.streaming.transportStreamTimestamp\0";
            assert_eq!(&bytes[20..20 + owner.len()], owner);
            assert_eq!(bytes[73], 0xff, "a frame behind the tag");
        }
        _ => panic!("{name}"),
    }
    assert_eq!(map.is_some(), extension == "m4s");
}
