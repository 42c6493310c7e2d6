//! Dates as HTTP writes them (RFC 9110 section 5.6.7), and as access logs do.

use std::fmt;

use crate::stamp::{Civil, UnixTime};

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// A second of the calendar, in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct HttpDate(pub UnixTime);

impl HttpDate {
    /// `20/Nov/2026:22:24:18 +0000`, the form of the combined log format.
    pub fn log_form(self) -> String {
        let Civil {
            year,
            month,
            day,
            hour,
            minute,
            second,
        } = self.0.civil();
        let month = month_name(month);
        format!("{day:02}/{month}/{year}:{hour:02}:{minute:02}:{second:02} +0000")
    }
}

fn month_name(month: u64) -> &'static str {
    MONTHS[(month + 11) as usize % 12]
}

impl fmt::Display for HttpDate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Civil {
            year,
            month,
            day,
            hour,
            minute,
            second,
        } = self.0.civil();
        let month = month_name(month);
        let weekday = WEEKDAYS[(self.0.unix_seconds / 86_400 % 7) as usize];
        write!(
            formatter,
            "{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (unix_seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        ] {
            assert_eq!(HttpDate(UnixTime { unix_seconds }).to_string(), text);
        }
        let date = HttpDate(UnixTime {
            unix_seconds: 784_111_777,
        });
        assert_eq!(date.log_form(), "06/Nov/1994:08:49:37 +0000");
    }
}
