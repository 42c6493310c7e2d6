//! What some tests cannot run without. Where this machine lacks it the test says so, and it fails
//! where the test has to run.

use std::env;
use std::io::{self, Write};
use std::thread;

/// Returns whether this machine lacks what the test of this thread needs, such as `ipv6`. Fails if
/// `TESTS_NEED` names it, as it does in CI: names of one word, with spaces between.
pub fn lacks(what: &str, is_here: bool) -> bool {
    assert!(!what.contains(' '), "TESTS_NEED cannot name '{what}'");
    if is_here {
        return false;
    }
    let needed = env::var("TESTS_NEED").unwrap_or_default();
    assert!(
        !needed.split_whitespace().any(|name| name == what),
        "TESTS_NEED has {what}, and this machine has not"
    );
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    // `eprintln!` would show it only if the test failed.
    let _ = writeln!(io::stderr(), "left out: {test} (there is no {what} here)");
    true
}

/// Returns whether the test of this thread cannot have the address `::1`, as [`lacks`] does.
pub fn lacks_ipv6() -> bool {
    lacks("ipv6", std::net::TcpListener::bind("[::1]:0").is_ok())
}
