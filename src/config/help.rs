//! What the table of options says to people: `--help`, and the README's list.

use super::arguments::variable;
use super::options::options;
use super::row::{Fallback, Group, Row, Takes};

/// Where the words behind an option begin in `--help`, in columns from 0.
const WORDS_COLUMN: usize = 28;

/// The text of `--help`: a line an option, at most 80 columns.
pub fn help() -> String {
    let mut text = String::from(
        "Usage: tollgate [OPTIONS], whose defaults stand in parentheses\n\
         A streaming proxy with a gate: media in and out over HTTP and RTP-UDP.\n",
    );
    for group in Group::ALL {
        text += &format!("{}:\n", group.title());
        for row in rows(group) {
            let mark = if is_repeatable(row) { '+' } else { ' ' };
            let usage = format!("{mark} {}", row.usage());
            text += &format!(
                "{usage:WORDS_COLUMN$}{}{}\n",
                row.help,
                default_in_parentheses(row)
            );
        }
    }
    text += "+ may be repeated. SIZE: bytes, or with K, M, G. TIME: seconds, or with s, m, h.\n";
    let example = variable("listen");
    text += &format!("Each is a variable too, such as {example}=A,B; an option wins over it.\n");
    text += "SIGTERM, SIGINT: end, the second time at once. SIGHUP: open the access log anew.\n";
    text
}

/// The README's list of options, in Markdown: a table for each group.
pub fn readme_table() -> String {
    let mut text = String::new();
    for group in Group::ALL {
        let title = group.title();
        text += &format!("\n**{title}**\n\n| option | meaning | default |\n|---|---|---|\n");
        for row in rows(group) {
            let repeated = if is_repeatable(row) {
                " (repeatable)"
            } else {
                ""
            };
            let more = if row.more.is_empty() {
                String::new()
            } else {
                format!(". {}", row.more)
            };
            let default = shown_default(row);
            let default = if default.is_empty() {
                String::new()
            } else {
                format!("`{default}`")
            };
            text += &format!(
                "| `{}`{repeated} | {}{more} | {default} |\n",
                row.usage(),
                row.help
            );
        }
    }
    text.trim_start().to_owned()
}

fn rows(group: Group) -> impl Iterator<Item = &'static Row> {
    options().filter(move |row| row.group == group)
}

fn is_repeatable(row: &Row) -> bool {
    matches!(row.takes, Takes::Many(..))
}

fn shown_default(row: &Row) -> &'static str {
    match row.fallback {
        Fallback::None => "",
        Fallback::Shown(text) | Fallback::Value(text) | Fallback::Made(text, _) => text,
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
