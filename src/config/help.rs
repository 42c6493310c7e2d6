//! `--help`.

use super::arguments::variable;
use super::options::GROUPS;

/// Column of the text after an option in `--help`, from 0.
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
            let default = match row.default_word() {
                "" => String::new(),
                word => format!(" ({word})"),
            };
            text += &format!("{usage:WORDS_COLUMN$}{}{default}\n", row.help);
        }
    }
    text += "SIZE: bytes, or with K, M, G (of 1024). TIME: seconds, or with ms, s, m, h.\n";
    let example = variable("listen");
    text += &format!("Each is a variable too, such as {example}=A,B. An option overrides it.\n");
    text += "SIGTERM, SIGINT: end; a second one ends at once. SIGHUP: reopen the access log.\n";
    text
}
