//! Dates as HTTP writes them (RFC 9110 section 5.6.7), and as access logs do.

use std::fmt;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// A second of the calendar, in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HttpDate {
    /// Seconds since 1970 began.
    pub unix_seconds: u64,
}

struct Civil {
    year: u64,
    /// From 1.
    month: u64,
    day: u64,
    weekday: &'static str,
    hour: u64,
    minute: u64,
    second: u64,
}

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
            ..
        } = self.civil();
        let month = name_of(month);
        format!("{day:02}/{month}/{year}:{hour:02}:{minute:02}:{second:02} +0000")
    }

    /// `2026-11-20T22:24:18`, of ISO 8601, without a zone.
    pub fn iso_form(self) -> String {
        let Civil {
            year,
            month,
            day,
            hour,
            minute,
            second,
            ..
        } = self.civil();
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
    }

    /// The Gregorian calendar, counted in eras of 400 years that begin on the first of March.
    fn civil(self) -> Civil {
        let days = self.unix_seconds / 86_400;
        let second_of_day = self.unix_seconds % 86_400;
        // 719,468 days lie between 0000-03-01 and 1970-01-01.
        let since_march_0000 = days + 719_468;
        let era = since_march_0000 / 146_097;
        let day_of_era = since_march_0000 % 146_097;
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = (month_from_march + 2) % 12;
        Civil {
            year: era * 400 + year_of_era + u64::from(month < 2),
            month: month + 1,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            weekday: WEEKDAYS[(days % 7) as usize],
            hour: second_of_day / 3_600,
            minute: second_of_day / 60 % 60,
            second: second_of_day % 60,
        }
    }
}

fn name_of(month: u64) -> &'static str {
    MONTHS[(month + 11) as usize % 12]
}

impl fmt::Display for HttpDate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Civil {
            year,
            month,
            day,
            weekday,
            hour,
            minute,
            second,
        } = self.civil();
        let month = name_of(month);
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
            assert_eq!(HttpDate { unix_seconds }.to_string(), text);
        }
        let date = HttpDate {
            unix_seconds: 784_111_777,
        };
        assert_eq!(date.log_form(), "06/Nov/1994:08:49:37 +0000");
        assert_eq!(date.iso_form(), "1994-11-06T08:49:37");
    }
}
