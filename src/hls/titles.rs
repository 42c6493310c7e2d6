//! The titles of a stream, as date ranges of a playlist.

use std::collections::VecDeque;
use std::fmt::Write;
use std::num::NonZeroU32;
use std::ops::Range;
use std::time::Duration;

use crate::clean_text::Title;
#[cfg(feature = "handover")]
use crate::handover::are_spans;
use crate::time::UnixTime;

/// The newest titles of a stream, at most [`TITLES_MAX`].
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Titles(VecDeque<Entry>);

/// A title, or the end of one.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Entry {
    /// Number of the title within its stream.
    serial: NonZeroU32,
    /// Unix time at which it began.
    began: Duration,
    title: Option<Title>,
}

/// Most titles that are kept, older ones leave the list.
const TITLES_MAX: usize = 8;
/// Bytes of a tag without its title.
const TAG_BYTES: usize = 192;
/// Longest title in bytes.
const TITLE_BYTES_MAX: usize = 512;

impl Titles {
    /// Most allocated bytes.
    pub const HELD_BYTES_MAX: usize =
        2 * TITLES_MAX * size_of::<Entry>() + TITLES_MAX * TITLE_BYTES_MAX;
    /// Most bytes of the tags in a playlist.
    pub const TAGS_BYTES_MAX: usize = TITLES_MAX * (TAG_BYTES + TITLE_BYTES_MAX);

    /// Begins a title, or ends the one before. `began`: Unix time.
    pub fn begin(&mut self, (serial, title): (NonZeroU32, Option<Title>), began: Duration) {
        if self.0.len() == TITLES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Entry {
            serial,
            began,
            title,
        });
    }

    /// Returns the allocated bytes.
    pub fn held_bytes(&self) -> usize {
        let titles = self.0.iter().filter_map(|entry| entry.title.as_ref());
        self.0.capacity() * size_of::<Entry>() + titles.map(Title::held_bytes).sum::<usize>()
    }

    /// Appends a tag for each title within the time of the list. The title that holds when the list
    /// begins has a tag that begins there.
    pub fn write(&self, list: &mut String, times: Range<Duration>) {
        for (index, entry) in self.0.iter().enumerate() {
            let next = self.0.get(index + 1).map(|next| next.began);
            let is_over = next.is_some_and(|next| next <= times.start);
            if is_over || entry.began >= times.end {
                continue;
            }
            if let Some(title) = &entry.title {
                let _ = write!(
                    list,
                    "#EXT-X-DATERANGE:ID=\"title-{}\",CLASS=\"com.tollgate.title\",START-DATE=\"{}\"",
                    entry.serial,
                    date(entry.began.max(times.start)),
                );
                if let Some(next) = next.filter(|next| *next < times.end) {
                    let _ = write!(list, ",END-DATE=\"{}\"", date(next));
                }
                let _ = writeln!(list, ",X-TITLE=\"{}\"", title.quoted_string());
            }
        }
    }

    /// Returns whether received titles are valid.
    #[cfg(feature = "handover")]
    pub fn fit(&self) -> bool {
        self.0.len() <= TITLES_MAX && self.0.iter().all(|entry| are_spans([entry.began]))
    }
}

/// Returns a time since 1970 as a date with milliseconds.
pub(super) fn date(since_1970: Duration) -> String {
    let seconds = UnixTime {
        unix_seconds: since_1970.as_secs(),
    };
    let seconds = seconds.to_string();
    let seconds = seconds.trim_end_matches('Z');
    format!("{seconds}.{:03}Z", since_1970.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A title that began before the list has a tag that begins with the list. An ended one, and one
    /// that comes later, have none.
    #[test]
    fn a_list_has_the_titles_within_its_time() {
        let mut titles = Titles::default();
        for (serial, began, title) in [
            (2, 10, Some("a")),
            (3, 20, Some("b\"'\n#EXT")),
            (4, 30, None),
            (5, 40, Some("c")),
        ] {
            titles.0.push_back(Entry {
                serial: NonZeroU32::new(serial).expect("a number"),
                began: Duration::from_secs(began),
                title: title.and_then(Title::new),
            });
        }
        let tag = |serial: u32, start: &str, rest: &str| {
            format!(
                "#EXT-X-DATERANGE:ID=\"title-{serial}\",CLASS=\"com.tollgate.title\",START-DATE=\"1970-01-01T00:00:{start}.000Z\"{rest}\n"
            )
        };
        let end = |seconds: u32| format!(",END-DATE=\"1970-01-01T00:00:{seconds}.000Z\"");
        for (times, expected) in [
            (0..10, String::new()),
            (0..11, tag(2, "10", ",X-TITLE=\"a\"")),
            (15..20, tag(2, "15", ",X-TITLE=\"a\"")),
            (20..30, tag(3, "20", ",X-TITLE=\"b'' #EXT\"")),
            (
                25..35,
                tag(3, "25", &format!("{},X-TITLE=\"b'' #EXT\"", end(30))),
            ),
            (30..40, String::new()),
            (35..50, tag(5, "40", ",X-TITLE=\"c\"")),
            (45..50, tag(5, "45", ",X-TITLE=\"c\"")),
        ] {
            let mut list = String::new();
            let range = Duration::from_secs(times.start)..Duration::from_secs(times.end);
            titles.write(&mut list, range);
            assert_eq!(list, expected, "{times:?}");
        }
    }
}
