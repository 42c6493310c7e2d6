//! Writes the playlist of a running stream (RFC 8216 section 4).

use std::collections::vec_deque;
use std::fmt::Write;
use std::ops::Range;
use std::time::Duration;

use super::parts::PARTS_MAX;
use super::segment::{MAP_EXTENSION, Name, Segment};
use crate::clean_text::{TITLES_BYTES_MAX, TITLES_MAX, TitleChange};
use crate::time::{MediaTime, UnixTime};

/// Media type of a playlist.
pub const MEDIA_TYPE: &str = "application/vnd.apple.mpegurl";

/// The content of a playlist.
pub(super) struct Playlist<'a> {
    /// Segments, in their order.
    pub segments: vec_deque::Iter<'a, Segment>,
    /// Random part of the segments' names.
    pub tag: u32,
    /// File extension of the segments' names.
    pub extension: &'static str,
    /// Target duration: the longest segment, in seconds.
    pub target: u32,
    /// Longest part in ticks, if there are parts.
    pub parts: Option<i64>,
    /// The open segment. Only its parts are listed.
    pub open_segment: Segment,
    /// Whether the stream has ended.
    pub is_over: bool,
    /// The newest titles of the stream.
    pub titles: &'a [TitleChange],
    /// Unix time at which the server started.
    pub started: Duration,
}

/// Maximal number of bytes of a playlist: every tag in front of each segment, with the longest
/// numbers.
pub(super) const BYTES_MAX: usize = 512
    + super::LISTED_MAX * 256
    + (PARTS_LISTED + 1) * PARTS_MAX * 128
    + TITLES_MAX * 192
    + TITLES_BYTES_MAX;

/// Number of the newest segments whose parts are listed: players begin there (section 6.2.2).
const PARTS_LISTED: usize = 3;
/// A player stays at least this many parts before the end (section 4.4.3.8).
const PARTS_BACK: f64 = 3.0;

/// Writes the playlist.
pub(super) fn write(playlist: &Playlist<'_>) -> String {
    let segments = || playlist.segments.clone();
    let first = segments().next();
    // EXT-X-MAP needs version 6 (section 7).
    let version = if first.is_some_and(|first| first.map.is_some()) {
        6
    } else {
        3
    };
    let mut list = format!(
        "#EXTM3U\n#EXT-X-VERSION:{version}\n#EXT-X-TARGETDURATION:{}\n",
        playlist.target
    );
    push_control(&mut list, playlist);
    if let Some(first) = first {
        // The list still has the first segment's EXT-X-DISCONTINUITY.
        let discontinuities = first
            .discontinuities
            .saturating_sub(first.is_discontinuous.into());
        let _ = write!(
            list,
            "#EXT-X-MEDIA-SEQUENCE:{}\n#EXT-X-DISCONTINUITY-SEQUENCE:{discontinuities}\n",
            first.number
        );
    }
    if segments().all(|segment| segment.is_independent) {
        list.push_str("#EXT-X-INDEPENDENT-SEGMENTS\n");
    }
    if let (Some(first), Some(last)) = (first, segments().last()) {
        let end = last.began + last.duration();
        push_titles(&mut list, playlist, first.began..end);
    }
    let mut map = None;
    let without_parts = segments().len().saturating_sub(PARTS_LISTED);
    for (index, segment) in segments().enumerate() {
        let has_parts = playlist.parts.is_some() && index >= without_parts;
        push_head(&mut list, segment, &mut map, playlist);
        if has_parts {
            push_parts(&mut list, segment, playlist);
        }
        let _ = write!(
            list,
            "#EXTINF:{:.5},\n{}\n",
            seconds(segment.ticks.into()),
            name(playlist, segment.number, playlist.extension)
        );
    }
    if playlist.parts.is_some() {
        let open_segment = &playlist.open_segment;
        if !open_segment.parts.is_empty() {
            push_head(&mut list, open_segment, &mut map, playlist);
            push_parts(&mut list, open_segment, playlist);
        }
        let next = part_name(playlist, open_segment.number, open_segment.parts.len());
        let _ = writeln!(list, "#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"{next}\"");
    }
    if playlist.is_over {
        list.push_str("#EXT-X-ENDLIST\n");
    }
    list
}

fn name(playlist: &Playlist<'_>, number: u64, extension: &'static str) -> Name {
    Name {
        tag: playlist.tag,
        number,
        extension,
    }
}

fn part_name(playlist: &Playlist<'_>, number: u64, index: usize) -> String {
    let bare = name(playlist, number, "");
    format!("{bare}{index}.{}", playlist.extension)
}

fn seconds(ticks: i64) -> f64 {
    ticks as f64 / f64::from(MediaTime::TICKS_PER_SECOND)
}

/// Appends the server's control tags: it offers blocking reloads.
fn push_control(list: &mut String, playlist: &Playlist<'_>) {
    if playlist.is_over {
        return;
    }
    list.push_str("#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES");
    if let Some(ticks) = playlist.parts {
        let longest = seconds(ticks);
        let _ = write!(
            list,
            ",PART-HOLD-BACK={:.5}\n#EXT-X-PART-INF:PART-TARGET={longest:.5}",
            PARTS_BACK * longest
        );
    }
    list.push('\n');
}

/// Appends the tags in front of a segment, or in front of its first part.
fn push_head(list: &mut String, segment: &Segment, map: &mut Option<u64>, playlist: &Playlist<'_>) {
    if segment.is_discontinuous {
        list.push_str("#EXT-X-DISCONTINUITY\n");
    }
    let needed = segment.map.as_ref().map(|map| map.number);
    if let Some(number) = needed.filter(|_| *map != needed) {
        let map_name = name(playlist, number, MAP_EXTENSION);
        let _ = writeln!(list, "#EXT-X-MAP:URI=\"{map_name}\"");
        *map = needed;
    }
    let began = date(segment.began);
    let _ = writeln!(list, "#EXT-X-PROGRAM-DATE-TIME:{began}");
}

/// Appends the titles within the time of the list. The title that holds when the list begins begins
/// there.
fn push_titles(list: &mut String, playlist: &Playlist<'_>, times: Range<Duration>) {
    let began = |change: &TitleChange| playlist.started.saturating_add(change.began);
    let titles = playlist.titles;
    let before = titles.partition_point(|change| began(change) <= times.start);
    let titles = titles.iter().skip(before.saturating_sub(1));
    for change in titles.take_while(|change| began(change) < times.end) {
        let _ = writeln!(
            list,
            "#EXT-X-DATERANGE:ID=\"title-{}\",CLASS=\"com.tollgate.title\",START-DATE=\"{}\",END-ON-NEXT=YES,X-TITLE=\"{}\"",
            began(change).as_millis(),
            date(began(change).max(times.start)),
            change.title.hls()
        );
    }
}

/// Returns a time since 1970 as a date with milliseconds.
fn date(since_1970: Duration) -> String {
    let seconds = UnixTime {
        unix_seconds: since_1970.as_secs(),
    };
    let seconds = seconds.to_string();
    let seconds = seconds.trim_end_matches('Z');
    format!("{seconds}.{:03}Z", since_1970.subsec_millis())
}

fn push_parts(list: &mut String, segment: &Segment, playlist: &Playlist<'_>) {
    for (index, part) in segment.parts.iter().enumerate() {
        let name = part_name(playlist, segment.number, index);
        let independent = match part.is_independent {
            true => ",INDEPENDENT=YES",
            false => "",
        };
        let _ = writeln!(
            list,
            "#EXT-X-PART:DURATION={:.5},URI=\"{name}\"{independent}",
            seconds(part.ticks.into())
        );
    }
}
