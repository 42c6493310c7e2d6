//! What the table of options says to people: `--help`, and to whoever writes more about it.

use super::arguments::variable;
use super::options::GROUPS;
use super::row::{Fallback, Row};

/// Where the words behind an option begin in `--help`, in columns from 0.
const WORDS_COLUMN: usize = 28;

/// The text of `--help`: a line an option, at most 80 columns.
pub fn help() -> String {
    let mut text = String::from(
        "Usage: tollgate [OPTIONS], defaults in parentheses; those with + may be repeated\n\
         A streaming proxy with a gate: media in and out over HTTP and RTP-UDP.\n",
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
    text += &format!("Each is a variable too, such as {example}=A,B; an option wins over it.\n");
    text += "SIGTERM, SIGINT: end, the second time at once. SIGHUP: open the access log anew.\n";
    text
}

/// An option, for whoever writes about it: `docs/options.md`, the manual page, shells' completions.
pub struct Listed {
    /// Without the two dashes.
    pub name: &'static str,
    /// As it is typed: `--name` or `--name=PLACEHOLDER`.
    pub usage: String,
    /// The heading under which it stands.
    pub heading: &'static str,
    /// May be given several times.
    pub is_repeatable: bool,
    /// May be given by a variable as well.
    pub has_variable: bool,
    /// A line, without its full stop.
    pub help: &'static str,
    /// Sentences, or nothing.
    pub more: &'static str,
    /// What holds without it, in a word, or nothing.
    pub default: &'static str,
}

/// All of them, in the order of their headings.
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
