//! Lists, parameters, tokens and authorities, which occur in several parts of a message.

/// Splits a list (RFC 9110 section 5.6.1) at each `separator` that is outside quoted strings and
/// comments. Removes blanks around each element. An empty list has one empty element.
pub fn elements(list: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut nesting = Nesting::default();
    list.split(move |next| nesting.is_outside(next) && next == separator)
        .map(|element| element.trim_matches([' ', '\t']))
}

/// Returns whether every quoted string and comment of a line ends in it. Only such lines can be
/// joined to a list.
pub(super) fn is_balanced(line: &str) -> bool {
    let mut nesting = Nesting::default();
    line.chars().for_each(|next| {
        nesting.is_outside(next);
    });
    !nesting.in_quotes && nesting.comments == 0
}

/// Tracks quoted strings and comments (RFC 9110 sections 5.6.4 and 5.6.5). Comments can be nested.
#[derive(Default)]
struct Nesting {
    in_quotes: bool,
    comments: usize,
    is_escaped: bool,
}

impl Nesting {
    /// Takes the next character. Returns whether it is outside quoted strings and comments.
    fn is_outside(&mut self, next: char) -> bool {
        let is_outside = !self.in_quotes && self.comments == 0;
        if std::mem::take(&mut self.is_escaped) {
            return false;
        }
        match next {
            '\\' => self.is_escaped = !is_outside,
            '"' if self.comments == 0 => self.in_quotes = !self.in_quotes,
            '(' if !self.in_quotes => self.comments += 1,
            ')' if !self.in_quotes => self.comments = self.comments.saturating_sub(1),
            _ => {}
        }
        is_outside
    }
}

/// Reads `NAME=VALUE` (RFC 9110 section 5.6.6). The value is a token or a quoted string, of which
/// the text without quotes and escapes is returned.
pub(super) fn parameter(text: &str) -> Option<(&str, String)> {
    let is_token = |text: &str| !text.is_empty() && text.bytes().all(is_token_byte);
    let (name, value) = text.split_once('=')?;
    let value = match value.strip_prefix('"') {
        Some(rest) => unquoted(rest.strip_suffix('"')?),
        None => is_token(value).then(|| value.to_owned()),
    };
    value.filter(|_| is_token(name)).map(|value| (name, value))
}

fn unquoted(inner: &str) -> Option<String> {
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner.chars();
    while let Some(next) = rest.next() {
        text.push(match next {
            '"' => return None,
            '\\' => rest.next()?,
            _ => next,
        });
    }
    Some(text)
}

/// Checks `HOST[:PORT]` (RFC 3986) only as far as no byte of it can have another meaning.
pub(super) fn is_authority(text: &str) -> bool {
    if text.is_empty() {
        return true; // a target without an authority has an empty Host (RFC 9112 section 3.2)
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if address.parse::<std::net::Ipv6Addr>().is_ok() => ("v6", port),
            _ => return false,
        },
        None => text
            .find(':')
            .map_or((text, ""), |colon| text.split_at(colon)),
    };
    let host_is_good = !host.is_empty()
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=".contains(&byte));
    let port_is_good = match port.strip_prefix(':') {
        None => port.is_empty(),
        Some(digits) => digits.len() <= 5 && digits.bytes().all(|byte| byte.is_ascii_digit()),
    };
    host_is_good && port_is_good
}

/// Returns whether a byte may be part of a token (RFC 9110 section 5.6.2).
pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns every text of at most `length_max` characters that have a meaning in lists.
#[cfg(test)]
pub(super) fn texts(length_max: usize) -> Vec<String> {
    let mut texts = vec![String::new()];
    let mut start = 0;
    for _ in 0..length_max {
        let end = texts.len();
        for index in start..end {
            let longer = "\"\\,;=()a "
                .chars()
                .map(|next| format!("{}{next}", texts[index]));
            texts.extend(longer.collect::<Vec<_>>());
        }
        start = end;
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the length of the quoted string or comment at the start of `text`; `None` if there
    /// is none, or if it has no end.
    fn length_of_nested(text: &str) -> Option<usize> {
        let is_comment = text.starts_with('(');
        let mut at = 1;
        loop {
            at += match text[at..].chars().next()? {
                '"' if !is_comment => return Some(at + 1),
                ')' if is_comment => return Some(at + 1),
                '(' if is_comment => length_of_nested(&text[at..])?,
                '\\' => 1 + text[at + 1..].chars().next()?.len_utf8(),
                next => next.len_utf8(),
            };
        }
    }

    /// The grammar of RFC 9110 by recursion, to compare with the state machine.
    fn elements_by_recursion(text: &str) -> Option<Vec<&str>> {
        let (mut all, mut start, mut at) = (Vec::new(), 0, 0);
        while let Some(next) = text[at..].chars().next() {
            at += match next {
                '"' | '(' => length_of_nested(&text[at..])?,
                ',' => {
                    all.push(text[start..at].trim_matches(' '));
                    start = at + 1;
                    1
                }
                next => next.len_utf8(),
            };
        }
        all.push(text[start..].trim_matches(' '));
        Some(all)
    }

    #[test]
    fn a_list_is_split_outside_quoted_strings_and_comments_only() {
        for text in texts(5) {
            let expected = elements_by_recursion(&text);
            assert_eq!(is_balanced(&text), expected.is_some(), "{text}");
            let found: Vec<&str> = elements(&text, ',').collect();
            if let Some(expected) = expected {
                assert_eq!(found, expected, "{text}");
            }
            // No text is lost, also where a quoted string does not end.
            let blanks = |text: &str| text.replace([' ', ','], "");
            assert_eq!(blanks(&found.concat()), blanks(&text));
        }
    }

    #[test]
    fn lists_that_are_balanced_can_be_joined() {
        let balanced: Vec<String> = texts(4).into_iter().filter(|it| is_balanced(it)).collect();
        for first in balanced.iter().step_by(7) {
            for second in balanced.iter().step_by(11) {
                let joined = format!("{first},{second}");
                let found: Vec<&str> = elements(&joined, ',').collect();
                let each = elements(first, ',').chain(elements(second, ','));
                assert_eq!(found, each.collect::<Vec<_>>(), "{joined}");
            }
        }
    }

    #[test]
    fn a_parameter_is_a_name_and_a_token_or_a_quoted_string() {
        for (text, name, value) in [
            ("a=b", "a", "b"),
            ("A=\"\"", "A", ""),
            ("a=\"b, c; d=(\"", "a", "b, c; d=("),
            (r#"a="\"\\\,""#, "a", r#""\,"#),
            ("a=\"é\"", "a", "é"),
        ] {
            assert_eq!(parameter(text), Some((name, value.to_owned())), "{text}");
        }
        for bad in [
            "",
            "a",
            "=b",
            "a=",
            "a =b",
            "a= b",
            "a=b c",
            "a=[",
            "a=\"",
            "a=\"b",
            "a=\"b\"c",
            "a=b\"",
            "a=\"b\\\"",
            "a=\"b\"\"",
            "\"a\"=b",
            "a=é",
        ] {
            assert_eq!(parameter(bad), None, "{bad}");
        }
        // A quoted string can hold any text.
        for text in texts(4) {
            let escaped = text.replace('\\', r"\\").replace('"', r#"\""#);
            let pair = format!("x=\"{escaped}\"");
            assert_eq!(parameter(&pair), Some(("x", text)), "{pair}");
        }
    }

    #[test]
    fn an_authority_is_a_host_and_perhaps_a_port() {
        for good in [
            "",
            "h",
            "h:",
            "h:0",
            "h:65535",
            "192.0.2.7:80",
            "a-b.c_d~%41!$&'()*+;=",
            "[::1]",
            "[::1]:",
            "[2001:db8::7]:8080",
        ] {
            assert!(is_authority(good), "{good}");
        }
        for bad in [
            ":80",
            "h:123456",
            "h:8a",
            "h:+1",
            "h: 80",
            "h:80:81",
            "::1",
            "a b",
            " h",
            "h\t",
            "a/b",
            "a\\b",
            "a,b",
            "a@b",
            "a?b",
            "a#b",
            "a\"b",
            "<a>",
            "é",
            "a[::1]",
            "[::1",
            "[::1]80",
            "[::1]:8a",
            "[::1]:123456",
            "[::1]]",
            "[]",
            "[h]",
            "[192.0.2.7]",
            "[fe80::1%eth0]",
        ] {
            assert!(!is_authority(bad), "{bad}");
        }
    }

    #[test]
    fn a_token_has_no_delimiters() {
        let delimiters = b"\"(),/:;<=>?@[\\]{}";
        for byte in 0..=u8::MAX {
            let is_of_token = byte.is_ascii_graphic() && !delimiters.contains(&byte);
            assert_eq!(is_token_byte(byte), is_of_token, "{byte:#x}");
        }
    }
}
