//! `packaging/completions`: what shells know of the options.

use tollgate::config::{Row, options, parse};

/// What an option's value can be completed from.
enum Value {
    /// It takes none.
    None,
    File,
    /// One of these.
    OneOf(&'static str),
    /// Only its writer knows.
    Other,
}

fn value(option: &Row) -> Value {
    match option.usage().split_once('=') {
        None => Value::None,
        Some((_, "PATH")) => Value::File,
        Some((_, "on/off")) => Value::OneOf("on off"),
        Some((_, "on/log/off")) => Value::OneOf("on log off"),
        Some((_, "LEVEL")) => Value::OneOf("error warn info debug"),
        Some((_, "FORMAT")) => Value::OneOf("text json"),
        Some(_) => Value::Other,
    }
}

/// The names of those whose value is such.
fn names(is_wanted: fn(Value) -> bool) -> String {
    let options = options().filter(|option| is_wanted(value(option)));
    let names: Vec<String> = options.map(|option| format!("--{}", option.name)).collect();
    names.join(" | ")
}

/// Each word that is offered is taken.
#[test]
fn what_completions_offer_is_right() {
    for option in options() {
        if let Value::OneOf(words) = value(option) {
            for word in words.split(' ') {
                let argument = format!("--{}={word}", option.name);
                let parsed = parse([&argument], []);
                assert!(parsed.is_ok(), "{argument}: {parsed:?}");
            }
        }
    }
}

pub fn bash() -> String {
    let words: Vec<String> = options()
        .map(|option| match value(option) {
            Value::None => format!("--{}", option.name),
            _ => format!("--{}=", option.name),
        })
        .collect();
    let words = words.join(" ");
    let files = names(|value| matches!(value, Value::File));
    let mut one_of = String::new();
    for option in options() {
        if let Value::OneOf(words) = value(option) {
            one_of += &format!(
                "    --{}) mapfile -t COMPREPLY < <(compgen -W '{words}' -- \"$word\") ;;\n",
                option.name
            );
        }
    }
    format!(
        r#"# Made of the table of options by tests/readme.
_tollgate() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} option=
  if [[ $word == = ]]; then
    option=${{COMP_WORDS[COMP_CWORD - 1]}} word=
  elif [[ ${{COMP_WORDS[COMP_CWORD - 1]}} == = ]]; then
    option=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  COMPREPLY=()
  case $option in
    '') mapfile -t COMPREPLY < <(compgen -W '{words}' -- "$word") ;;
    {files}) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
{one_of}  esac
  if [[ ${{COMPREPLY[0]-}} == *= ]]; then compopt -o nospace; fi
}}
complete -F _tollgate tollgate
"#
    )
}

pub fn zsh() -> String {
    let mut text = String::from(
        "#compdef tollgate\n# Made of the table of options by tests/readme.\n_arguments -s",
    );
    for option in options() {
        let repeated = if option.is_repeatable() { "*" } else { "" };
        let help = quoted(option.help);
        let help = help
            .replace('[', "\\[")
            .replace(']', "\\]")
            .replace(':', "\\:");
        let (equals, rest) = match (value(option), option.usage().split_once('=')) {
            (Value::File, Some((_, what))) => ("=", format!(":{what}:_files")),
            (Value::OneOf(words), Some((_, what))) => ("=", format!(":{what}:({words})")),
            (_, Some((_, what))) => ("=", format!(":{}: ", what.replace(':', "\\:"))),
            (_, None) => ("", String::new()),
        };
        text += &format!(" \\\n  '{repeated}--{}{equals}[{help}]{rest}'", option.name);
    }
    text + "\n"
}

pub fn fish() -> String {
    let mut text =
        String::from("# Made of the table of options by tests/readme.\ncomplete -c tollgate -f\n");
    for option in options() {
        let value = match value(option) {
            Value::None => String::new(),
            Value::File => " -r -F".to_owned(),
            Value::OneOf(words) => format!(" -x -a '{words}'"),
            Value::Other => " -x".to_owned(),
        };
        let help = option.help.replace('\\', "\\\\").replace('\'', "\\'");
        text += &format!(
            "complete -c tollgate -l {}{value} -d '{help}'\n",
            option.name
        );
    }
    text
}

/// Within single quotes, as sh reads them.
fn quoted(text: &str) -> String {
    text.replace('\'', "'\\''")
}
