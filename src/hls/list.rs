//! The playlist of a stream that runs (RFC 8216 section 4).

use std::collections::vec_deque;
use std::fmt::Write;

use super::segment::{MAP_EXTENSION, Name, Segment};
use crate::format::MediaTime;
use crate::stamp::Stamp;

/// The media type of a playlist.
pub const MEDIA_TYPE: &str = "application/vnd.apple.mpegurl";

/// What stands in one.
pub(super) struct Content<'a> {
    /// In their order.
    pub segments: vec_deque::Iter<'a, Segment>,
    /// Stands in their names.
    pub tag: u32,
    /// Of the segments' names.
    pub extension: &'static str,
    /// How long a segment is at the most, in seconds.
    pub target: u32,
    /// No more come.
    pub is_over: bool,
}

/// With every tag before each of the segments that it may have, and the longest numbers.
pub(super) const BYTES_MAX: usize = 256 + super::LISTED_MAX * 256;

/// Writes it.
pub(super) fn write(content: &Content<'_>) -> String {
    let name = |number, extension| Name {
        tag: content.tag,
        number,
        extension,
    };
    let segments = || content.segments.clone();
    let first = segments().next();
    // EXT-X-MAP needs version 6 (section 7).
    let version = if first.is_some_and(|first| first.map.is_some()) {
        6
    } else {
        3
    };
    let mut list = format!(
        "#EXTM3U\n#EXT-X-VERSION:{version}\n#EXT-X-TARGETDURATION:{}\n",
        content.target
    );
    if let Some(first) = first {
        // The mark of the first segment stands in the list still.
        let discontinuities = first.discontinuities - u64::from(first.is_discontinuous);
        let _ = write!(
            list,
            "#EXT-X-MEDIA-SEQUENCE:{}\n#EXT-X-DISCONTINUITY-SEQUENCE:{discontinuities}\n",
            first.number
        );
    }
    if segments().all(|segment| segment.is_independent) {
        list.push_str("#EXT-X-INDEPENDENT-SEGMENTS\n");
    }
    let mut map = None;
    for segment in segments() {
        if segment.is_discontinuous {
            list.push_str("#EXT-X-DISCONTINUITY\n");
        }
        let needed = segment.map.as_ref().map(|map| map.number);
        if let Some(number) = needed.filter(|_| map != needed) {
            let map_name = name(number, MAP_EXTENSION);
            let _ = writeln!(list, "#EXT-X-MAP:URI=\"{map_name}\"");
            map = needed;
        }
        push_segment(&mut list, segment, &name(segment.number, content.extension));
    }
    if content.is_over {
        list.push_str("#EXT-X-ENDLIST\n");
    }
    list
}

fn push_segment(list: &mut String, segment: &Segment, name: &Name) {
    let began = Stamp {
        unix_seconds: segment.began.as_secs(),
    };
    let began = began.to_string();
    let began = began.trim_end_matches('Z');
    let seconds = f64::from(segment.ticks) / f64::from(MediaTime::TICKS_PER_SECOND);
    let _ = write!(
        list,
        "#EXT-X-PROGRAM-DATE-TIME:{began}.{:03}Z\n#EXTINF:{seconds:.5},\n{name}\n",
        segment.began.subsec_millis(),
    );
}
