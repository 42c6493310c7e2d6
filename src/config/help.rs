//! `--help`, and the rows for other pages about options.

use super::arguments::variable;
use super::options::GROUPS;
use super::row::{Fallback, Row};

/// Column of the text behind an option in `--help`, from 0.
const WORDS_COLUMN: usize = 28;

/// Returns the text of `--help`: one line per option, at most 80 columns.
pub fn help() -> String {
    let mut text = String::from(
        "Usage: tollgate [OPTIONS], defaults in parentheses; those with + may be repeated\n\
         A relay of live streams. In: HTTP, RTMP, RTP, UDP. Out: HTTP, HLS, RTP, UDP.\n",
    );
    for group in GROUPS {
        text += &format!("{}:\n", group.title);
        for row in group.rows {
            let mark = if row.is_repeatable() { '+' } else { ' ' };
            let usage = format!("{mark} {}", row.usage());
            text += &format!(
                "{usage:WORDS_COLUMN$}{}{}\n",
                row.help,
                default_in_parentheses(row)
            );
        }
    }
    text += "SIZE: bytes, or with K, M, G (of 1024). TIME: seconds, or with ms, s, m, h.\n";
    let example = variable("listen");
    text += &format!("Each is a variable too, such as {example}=A,B. An option overrides it.\n");
    text += "SIGTERM, SIGINT: end; a second one ends at once. SIGHUP: reopen the access log.\n";
    text
}

/// An option, for `docs/options.md`, the manual page and shell completions.
pub struct Listed {
    /// Name without the two dashes.
    pub name: &'static str,
    /// As it is typed: `--name` or `--name=PLACEHOLDER`.
    pub usage: String,
    /// Its heading in `--help`.
    pub heading: &'static str,
    /// Whether it can be given several times.
    pub is_repeatable: bool,
    /// Whether it can be given by a variable as well.
    pub has_variable: bool,
    /// One line without a full stop.
    pub help: &'static str,
    /// Further sentences; may be empty.
    pub more: &'static str,
    /// The default in a word; may be empty.
    pub default: &'static str,
}

/// Returns all options in the order of `--help`.
pub fn listed() -> impl Iterator<Item = Listed> {
    let rows = GROUPS
        .into_iter()
        .flat_map(|group| group.rows.iter().map(move |row| (group.title, row)));
    rows.map(|(heading, row)| Listed {
        name: row.name,
        usage: row.usage(),
        heading,
        is_repeatable: row.is_repeatable(),
        has_variable: row.has_variable(),
        help: row.help,
        more: row.more,
        default: shown_default(row),
    })
}

fn shown_default(row: &Row) -> &'static str {
    match row.fallback {
        Fallback::None => "",
        Fallback::Unset(text) | Fallback::Value(text) | Fallback::Computed(text, _) => text,
    }
}

fn default_in_parentheses(row: &Row) -> String {
    let default = shown_default(row);
    if default.is_empty() {
        String::new()
    } else {
        format!(" ({default})")
    }
}
