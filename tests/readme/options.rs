//! `docs/options.md`: for each heading a table, then the further sentences of each option.

use tollgate::config::{Listed, listed};

pub fn sections() -> String {
    let options: Vec<Listed> = listed().collect();
    let sections = options.chunk_by(|one, next| one.heading == next.heading);
    sections.map(section).collect::<Vec<_>>().join("\n")
}

fn section(options: &[Listed]) -> String {
    let heading = options[0].heading;
    let rows: String = options.iter().map(row).collect();
    let details = options.iter().filter(|option| !option.more.is_empty());
    let details: String = details.map(detail).collect();
    format!("### {heading}\n\n| option | meaning | default |\n|---|---|---|\n{rows}\n{details}")
}

fn row(option: &Listed) -> String {
    let repeatable = if option.is_repeatable {
        " (repeatable)"
    } else {
        ""
    };
    let default = match option.default {
        "" => String::new(),
        default => format!("`{default}`"),
    };
    let (usage, help) = (&option.usage, option.help);
    format!("| `{usage}`{repeatable} | {help} | {default} |\n")
}

/// A page that the sentences name is a link.
fn detail(option: &Listed) -> String {
    let mut pieces = option.more.split("`docs/");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (page, rest) = piece.split_once(".md`").expect("a page");
        text += &format!("[{page}]({page}.md){rest}");
    }
    format!("- **`--{}`:** {text}\n", option.name)
}
