//! The lives that `src/lib.rs` tells: through which functions a byte, a token, a datagram goes.
//!
//! ```text
//! //! # The life of a byte
//! //!
//! //! - `relay::Relay::received` is handed what the shell has read;
//! //! - `relay::source::Relay::read_media` has it unframed:
//! //! - `http::body::Body::read` …
//! //!
//! //! It waits in the buffer until a viewer can be written to.
//! //!
//! //! - `relay::Relay::output` …
//! ```
//!
//! Each item of the list begins with a function: its module, its type if it has one, its name. Each
//! must exist, and must be called, by name, by one that stands before it in the same list. Words
//! between two lists say how it comes from the one to the other.

use crate::items::Function;
use crate::sources::{Source, sources};
use crate::tokens::stands;

/// A step of a life: a function, and where it stands.
type Step<'a> = (&'a Source, &'a Function);

#[test]
fn lives_are_told_as_they_are() {
    let sources = sources();
    let lib = sources.iter().find(|source| source.path == "lib.rs");
    let text = &lib.expect("src/lib.rs").text;
    for line in text.lines() {
        if let Some(whose) = line.strip_prefix("//! # The life of a ") {
            follow(text, whose, &sources).unwrap_or_else(|fault| panic!("src/lib.rs: {fault}"));
        }
    }
}

/// Follows the life of `whose`, as `text` tells it. `Ok(false)`: `text` does not tell it.
fn follow(text: &str, whose: &str, sources: &[Source]) -> Result<bool, String> {
    let heading = format!("//! # The life of a {whose}");
    let mut lines = text.lines().skip_while(|line| *line != heading);
    if lines.next().is_none() {
        return Ok(false);
    }
    let mut list: Vec<Step> = Vec::new();
    let mut last: Option<Step> = None;
    for line in lines.map_while(|line| line.strip_prefix("//!")) {
        if line.starts_with(" # ") {
            break;
        }
        let Some(item) = line.strip_prefix(" - ") else {
            // Empty lines and the further lines of an item say nothing.
            if !line.is_empty() && !line.starts_with("  ") {
                list.clear();
            }
            continue;
        };
        let path = item.split('`').nth(1);
        let path = path.ok_or_else(|| format!("'{item}' does not begin with a function in `…`"))?;
        let step = function(path, sources)?;
        let callers = list.iter().rev();
        let caller = callers.copied().find(|caller| calls(*caller, step));
        if caller.is_none() && !list.is_empty() {
            return Err(format!(
                "`{path}` is not called by a function before it in the list"
            ));
        }
        last = Some(step);
        list.push(step);
    }
    if last.is_none() {
        return Err(format!("the life of a {whose} has no list of functions"));
    }
    Ok(true)
}

/// The function with this path: modules, perhaps a type, a name.
fn function<'a>(path: &str, sources: &'a [Source]) -> Result<Step<'a>, String> {
    let mut modules: Vec<&str> = path.split("::").collect();
    let name = modules.pop().unwrap_or_default();
    let is_type = |name: &mut &str| name.starts_with(|first: char| first.is_uppercase());
    let owner = modules.pop_if(is_type);
    let source = sources.iter().find(|source| source.modules() == modules);
    let source = source.ok_or_else(|| format!("`{path}`: there is no such module"))?;
    let mut functions = source.functions.iter();
    let function = functions.find(|item| item.name == name && item.owner.as_deref() == owner);
    let function = function.ok_or_else(|| format!("`{path}` is not in src/{}", source.path))?;
    Ok((source, function))
}

fn calls(caller: Step, step: Step) -> bool {
    let body = caller.0.body(caller.1);
    (0..body.len()).any(|at| stands(body, at, &[&step.1.name, "("]))
}

#[test]
fn a_life_is_followed() {
    let source = |path: &str, text: &str| Source::new(path, text.to_owned());
    let sources = vec![
        source("a/mod.rs", "impl A { fn b() { c(); e() } fn f() {} }"),
        source("a/c.rs", "fn c() { c::d(x) }"),
        source("a/d.rs", "fn d() {} fn e() {}"),
    ];
    let told = |steps: &str| {
        let text = format!("//! A.\n//! # The life of a byte\n//!\n{steps}//! # B\n//! - c\n");
        follow(&text, "byte", &sources)
    };
    let steps =
        "//! - `a::A::b` and\n//!   on\n//! - `a::c::c`\n//! - `a::d::d`\n//! - `a::d::e`\n";
    assert_eq!(
        told(&format!("{steps}//!\n//! Then.\n//! - `a::A::f`\n")),
        Ok(true)
    );
    assert!(
        told(&format!("{steps}//! - `a::A::f`\n"))
            .unwrap_err()
            .contains("not called")
    );
    assert!(
        told("//! - `a::A::c`\n")
            .unwrap_err()
            .contains("not in src/a/mod.rs")
    );
    assert!(
        told("//! - `a::x::c`\n")
            .unwrap_err()
            .contains("no such module")
    );
    assert!(
        told("//! - a::A::b\n")
            .unwrap_err()
            .contains("does not begin")
    );
    assert!(told("//! Words.\n").unwrap_err().contains("no list"));
    assert_eq!(follow("//! A.\n", "byte", &sources), Ok(false));
}
