//! The figures and their limits. Each limit is the figure of today: whoever makes a figure better
//! writes it down here, and nobody makes one worse. Lines alone may grow with what is new, by so
//! many as the commit has a reason for.

use crate::figures::*;
use crate::life::changes_of_file;

/// What is counted, how, and how much of it there may be.
pub struct Figure {
    pub name: &'static str,
    pub count: fn(&House) -> Count,
    /// `None`: there is nothing in which to count.
    pub limit: Option<usize>,
}

#[rustfmt::skip]
pub const FIGURES: &[Figure] = &[
    figure(7, "fields of Relay", fields_of_relay),
    figure(60, "methods on Relay", methods_of_relay),
    figure(3, "files in which methods on Relay stand", files_of_relay),
    figure(0, "fields of a part of relay, seen outside of it", fields_seen_outside),
    figure(4, "functions in the largest circle of calls in relay", circle_of_calls),
    figure(101, "functions of relay that `append` can reach", |house| reach_of(house, "append")),
    figure(26, "functions of relay that `close` can reach", |house| reach_of(house, "close")),
    figure(693, "functions of relay that `received` can reach", |house| reach_of(house, "received")),
    figure(0, "files in a circle of imports in relay", |house| circle_in(house, "relay")),
    figure(0, "files in a circle of imports in http", |house| circle_in(house, "http")),
    figure(0, "files in circles of imports elsewhere", |house| circles_but_in(house, &["relay", "http"])),
    figure(0, "functions above 70 lines", long_functions),
    figure(33, "lines that 95 of 100 functions have at most", length_of_most_functions),
    figure(0, "files above 500 lines of code", long_files),
    figure(21, "`let Some(_) = _ else { return; }` in relay", silent_returns),
    figure(52, "`let Some(_) = _ else { return _ }` in relay, all", all_returns),
    figure(0, "`pub` items without docs", undocumented),
    figure(0, "lines with comments above 100 columns", wide_comments),
    figure(41_950, "lines of code", code_lines),
    figure(54_039, "lines with comments and empty ones", lines),
    Figure { limit: Some(8), name: "changes of file in the life of a byte", count: changes_of_file },
];

const fn figure(limit: usize, name: &'static str, count: fn(&House) -> Count) -> Figure {
    Figure {
        name,
        count,
        limit: Some(limit),
    }
}
