//! Unix time in seconds, and its text forms: RFC 3339, HTTP's `Date`, and that of access logs.
//!
//! Only RFC 3339 is parsed. A leap second counts as the second after it.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use super::Instant;

/// A second of the calendar, in UTC. `Display` writes RFC 3339.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct UnixTime {
    /// Seconds since 1970 began.
    pub unix_seconds: u64,
}

/// Date and time of day in UTC, by the Gregorian calendar.
struct DateTime {
    /// At least 1970.
    year: u64,
    /// 1 to 12.
    month: u64,
    /// 1 to 31.
    day: u64,
    /// 0 to 23.
    hour: u64,
    /// 0 to 59.
    minute: u64,
    /// 0 to 59.
    second: u64,
}

/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: u64 = 719_468;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
/// 1970-01-01 was a Thursday.
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

impl UnixTime {
    /// The last second of the year 9999, the last year that RFC 3339 can write.
    pub const MAX: UnixTime = UnixTime {
        unix_seconds: 253_402_300_799,
    };

    /// Parses RFC 3339, such as `2026-11-22T02:03:04Z`, with any offset. Rounds a fraction of a
    /// second up. Returns `None` for other text, for days that do not exist, and before 1970.
    pub fn parse(text: &str) -> Option<UnixTime> {
        let number = |from: usize, to: usize| digits(text.get(from..to)?);
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let mark = |at: usize| text.as_bytes().get(at).copied();
        let is_good = [4, 7, 13, 16].map(mark) == [b'-', b'-', b':', b':'].map(Some)
            && matches!(mark(10), Some(b'T' | b't' | b' '))
            && (1..=12).contains(&month)
            && (1..=days_of(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second <= 60;
        if !is_good {
            return None;
        }
        let (is_more, offset) = fraction(text.get(19..)?)?;
        let local = days_since_1970(year, month, day)? * 86_400
            + hour * 3_600
            + minute * 60
            + second
            + u64::from(is_more);
        let unix_seconds = local.checked_add_signed(offset_seconds(offset)?)?;
        Some(UnixTime { unix_seconds })
    }

    /// Returns the first whole second that lies at least `time` later.
    pub fn after(self, time: Duration) -> UnixTime {
        let part = u64::from(time.subsec_nanos() > 0);
        let whole = time.as_secs().saturating_add(part);
        let unix_seconds = self.unix_seconds.saturating_add(whole);
        UnixTime { unix_seconds }
    }

    /// Returns HTTP's form (RFC 9110 section 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`.
    pub fn http_form(self) -> String {
        let weekday = WEEKDAYS[(self.unix_seconds / 86_400 % 7) as usize];
        let date = self.date_time();
        let (day, month, year) = (date.day, MONTHS[date.month as usize - 1], date.year);
        let (hour, minute, second) = (date.hour, date.minute, date.second);
        format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT")
    }

    /// Returns the form of the combined log format: `06/Nov/1994:08:49:37 +0000`.
    pub fn log_form(self) -> String {
        let date = self.date_time();
        let (day, month, year) = (date.day, MONTHS[date.month as usize - 1], date.year);
        let (hour, minute, second) = (date.hour, date.minute, date.second);
        format!("{day:02}/{month}/{year}:{hour:02}:{minute:02}:{second:02} +0000")
    }

    /// Counts in eras of 400 years that begin on the first of March.
    fn date_time(self) -> DateTime {
        let second_of_day = self.unix_seconds % 86_400;
        let since_march_0000 = self.unix_seconds / 86_400 + DAYS_TO_1970;
        let era = since_march_0000 / 146_097;
        let day_of_era = since_march_0000 % 146_097;
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = (month_from_march + 2) % 12 + 1;
        DateTime {
            year: era * 400 + year_of_era + u64::from(month < 3),
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            hour: second_of_day / 3_600,
            minute: second_of_day / 60 % 60,
            second: second_of_day % 60,
        }
    }
}

fn digits(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// Splits off a fraction of a second. Returns whether it is more than zero, and the rest.
fn fraction(text: &str) -> Option<(bool, &str)> {
    let Some(rest) = text.strip_prefix('.') else {
        return Some((false, text));
    };
    let end = rest.find(|character: char| !character.is_ascii_digit())?;
    let (digits, rest) = rest.split_at(end);
    (end > 0).then(|| (digits.bytes().any(|digit| digit != b'0'), rest))
}

/// Returns the seconds to add to local time for an offset from UTC.
fn offset_seconds(offset: &str) -> Option<i64> {
    if offset.eq_ignore_ascii_case("Z") {
        return Some(0);
    }
    let sign = match offset.as_bytes().first()? {
        b'+' => -1,
        b'-' => 1,
        _ => return None,
    };
    let (hour, minute) = offset.get(1..)?.split_once(':')?;
    let is_good = hour.len() == 2 && minute.len() == 2;
    let (hour, minute) = (digits(hour)?, digits(minute)?);
    if !is_good || hour >= 24 || minute >= 60 {
        return None;
    }
    let seconds = i64::try_from(hour * 3_600 + minute * 60).ok()?;
    Some(sign * seconds)
}

fn days_of(year: u64, month: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    // Years begin in March.
    let year = year.checked_sub(u64::from(month < 3))?;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + day_of_year;
    days.checked_sub(DAYS_TO_1970)
}

impl Display for UnixTime {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let date = self.date_time();
        let (year, month, day) = (date.year, date.month, date.day);
        let (hour, minute, second) = (date.hour, date.minute, date.second);
        write!(
            formatter,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
        )
    }
}

/// The clock of the calendar, which never goes back.
#[derive(Clone, Copy, Debug)]
pub struct Calendar {
    /// Time from 1970-01-01 to the start of the server, by the latest clock reading.
    pub start: Duration,
}

/// Two readings of clocks that run together differ by less than this.
const DRIFT_MAX: Duration = Duration::from_millis(100);

impl Calendar {
    /// Returns the calendar of a server that started at `start` after 1970-01-01.
    pub fn new(start: Duration) -> Calendar {
        Calendar { start }
    }

    /// Returns the calendar's second at `now`.
    pub fn at(&self, now: Instant) -> UnixTime {
        let unix_seconds = self.start.saturating_add(now.since_start()).as_secs();
        UnixTime { unix_seconds }
    }

    /// Returns the instant at which `time` begins; the server's start if `time` lies before it.
    pub fn instant_of(&self, time: UnixTime) -> Instant {
        let since_1970 = Duration::from_secs(time.unix_seconds);
        Instant::after_start(since_1970.saturating_sub(self.start))
    }

    /// Takes over the reading of another clock, if it is ahead of this one by more than `DRIFT_MAX`.
    /// Returns whether it is. A clock that was set back is not followed: a token that has ended
    /// would be valid again.
    pub fn advance(&mut self, since_1970: Duration, now: Instant) -> bool {
        let start = since_1970.saturating_sub(now.since_start());
        let is_ahead = start > self.start.saturating_add(DRIFT_MAX);
        if is_ahead {
            self.start = start;
        }
        is_ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_times_parse_to_the_same() {
        for (unix_seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (784_111_777, "1994-11-06T08:49:37Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            let stamp = UnixTime { unix_seconds };
            assert_eq!(stamp.to_string(), text);
            assert_eq!(UnixTime::parse(text), Some(stamp));
        }
        let mut unix_seconds = 1;
        while unix_seconds < 253_402_300_799 {
            let stamp = UnixTime { unix_seconds };
            assert_eq!(UnixTime::parse(&stamp.to_string()), Some(stamp));
            unix_seconds += 86_400 * 13 + 12_347;
        }
    }

    #[test]
    fn the_forms_of_http_and_of_access_logs_name_the_same_second() {
        for (unix_seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        ] {
            assert_eq!(UnixTime { unix_seconds }.http_form(), text);
        }
        let unix_seconds = 784_111_777;
        let time = UnixTime { unix_seconds };
        assert_eq!(time.log_form(), "06/Nov/1994:08:49:37 +0000");
    }

    #[test]
    fn offsets_and_fractions_count() {
        let unix = |text| UnixTime::parse(text).map(|stamp| stamp.unix_seconds);
        assert_eq!(unix("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(
            unix("1969-12-31T23:30:00-00:30"),
            None,
            "its day lies before 1970"
        );
        assert_eq!(unix("1970-01-01T23:30:00-00:30"), Some(86_400));
        assert_eq!(unix("1970-01-01t00:00:00.000z"), Some(0));
        assert_eq!(unix("1970-01-01 00:00:00.001Z"), Some(1));
        assert_eq!(unix("2016-12-31T23:59:60Z"), unix("2017-01-01T00:00:00Z"));
        for bad in [
            "",
            "1970-01-01",
            "1970-01-01T00:00:00",
            "1970-01-01T00:00Z",
            "1970-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "1900-01-01T00:00:00Z",
            "1970-01-00T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:60:00Z",
            "1970-01-01T00:00:61Z",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:00+1:00",
            "1970-01-01T00:00:00+01",
            "+970-01-01T00:00:00Z",
            "1970/01/01T00:00:00Z",
            "197é-01-01T00:00:00Z",
            "1970-01-01T00:00:00Zx",
            "1970-01-01T00:00:00+24:00",
            "1970-01-01T00:00:00+00:01",
        ] {
            assert_eq!(unix(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_clock_is_followed_forwards_and_never_backwards() {
        let seconds = Duration::from_secs;
        let mut calendar = Calendar::new(seconds(1_000));
        let now = Instant::after_start(seconds(10));
        let unix = |calendar: Calendar, now| calendar.at(now).unix_seconds;
        assert_eq!(unix(calendar, now), 1_010);
        for behind in [0, 1, 500, 1_009, 1_010] {
            assert!(!calendar.advance(seconds(behind), now));
        }
        assert_eq!(unix(calendar, now), 1_010);
        assert!(calendar.advance(seconds(5_000), now));
        assert_eq!(unix(calendar, now), 5_000);
        assert!(!calendar.advance(seconds(1_010), now), "set back again");
        assert_eq!(unix(calendar, now + seconds(1)), 5_001);
        let instant = calendar.instant_of(UnixTime {
            unix_seconds: 5_003,
        });
        assert_eq!(instant, now + seconds(3));
        assert_eq!(unix(calendar, instant), 5_003);
        assert_eq!(calendar.instant_of(UnixTime::default()), Instant::START);
    }

    #[test]
    fn a_time_is_never_cut_short() {
        let stamp = UnixTime { unix_seconds: 7 };
        assert_eq!(stamp.after(Duration::from_millis(1_001)).unix_seconds, 9);
        assert_eq!(stamp.after(Duration::MAX).unix_seconds, u64::MAX);
    }
}
