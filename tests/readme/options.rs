//! `docs/options.md`: for each heading a table, then the further sentences of each option.

use tollgate::config::{GROUPS, Group, Row};

pub fn sections() -> String {
    GROUPS.each_ref().map(section).join("\n")
}

fn section(group: &Group) -> String {
    let heading = group.title;
    let rows: String = group.rows.iter().map(row).collect();
    let options = group.rows.iter();
    let details = options.filter(|option| !option.more.is_empty());
    let details: String = details.map(detail).collect();
    format!("### {heading}\n\n| option | meaning | default |\n|---|---|---|\n{rows}\n{details}")
}

fn row(option: &Row) -> String {
    let repeatable = if option.is_repeatable() {
        " (repeatable)"
    } else {
        ""
    };
    let default = match option.default_word() {
        "" => String::new(),
        default => format!("`{default}`"),
    };
    let (usage, help) = (option.usage(), option.help);
    format!("| `{usage}`{repeatable} | {help} | {default} |\n")
}

/// A page that the sentences name is a link.
fn detail(option: &Row) -> String {
    let mut pieces = option.more.split("`docs/");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (page, rest) = piece.split_once(".md`").expect("a page");
        text += &format!("[{page}]({page}.md){rest}");
    }
    format!("- **`--{}`:** {text}\n", option.name)
}
