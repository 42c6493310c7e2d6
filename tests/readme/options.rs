//! `docs/options.md`: a table for each heading, in Markdown.

use tollgate::config::{Listed, listed};

pub fn table() -> String {
    let mut text = String::new();
    let mut heading = "";
    for option in listed() {
        if option.heading != heading {
            heading = option.heading;
            text += &format!("\n**{heading}**\n\n| option | meaning | default |\n|---|---|---|\n");
        }
        text += &row(&option);
    }
    text.trim_start().to_owned()
}

fn row(option: &Listed) -> String {
    let repeatable = if option.is_repeatable {
        " (repeatable)"
    } else {
        ""
    };
    let more = match option.more {
        "" => String::new(),
        more => format!(". {more}"),
    };
    let default = match option.default {
        "" => String::new(),
        default => format!("`{default}`"),
    };
    let (usage, help) = (&option.usage, option.help);
    format!("| `{usage}`{repeatable} | {help}{more} | {default} |\n")
}
