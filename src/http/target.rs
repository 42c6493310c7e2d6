//! Request targets (RFC 9112 section 3.2): a path and a query. The parameters of a query are split
//! before they are decoded.

use super::grammar::is_authority;
use super::refusal::{Refusal, quoted};
use super::status::Status;
use crate::percent::{encoded, percent_decoded};

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The decoded segments of the path, at most [`Target::SEGMENTS_MAX`]: `/stream/a%2Fb` has
    /// `stream` and `a/b`. `*` has none.
    pub segments: Vec<Vec<u8>>,
    /// Whether the path has the spelling that [`percent_encoded`](crate::percent::percent_encoded)
    /// writes. Only responses to this spelling may be cached, so that a cache has one entry.
    pub is_plain: bool,
    /// The query without its question mark, still encoded.
    pub query: Option<String>,
}

/// Maximal number of parameters of a query. An empty one costs as much to skip as several bytes.
const PARAMETERS_MAX: usize = 256;

/// A parameter of a query, still percent-encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// Text in front of the first `=`.
    pub name: &'a str,
    /// Text after the first `=`.
    pub value: &'a str,
}

impl Target {
    /// No path of this server has more segments, so further ones are not kept.
    pub const SEGMENTS_MAX: usize = 5;

    /// Parses a target in origin, absolute or asterisk form. Returns the authority of the absolute
    /// form, too.
    pub(super) fn parse(written: &str) -> Result<(Target, Option<String>), Refusal> {
        let bad = |what: &str| {
            Refusal::framing(
                Status::BadRequest,
                format!("the target '{}' {what}", quoted(written, 128)),
            )
        };
        // Allows the bytes of RFC 3986, and `[ ] | { } ^ "` and similar ones that some clients do
        // not encode. None of them is a delimiter here.
        let is_allowed = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
        if !written.bytes().all(is_allowed) {
            return Err(bad("holds a character that must be percent-encoded"));
        }
        if written == "*" {
            let target = Target {
                segments: Vec::new(),
                is_plain: true,
                query: None,
            };
            return Ok((target, None));
        }
        let (authority, rest) = match written.get(..7) {
            Some(scheme) if scheme.eq_ignore_ascii_case("http://") => {
                let after_scheme = &written[7..];
                let end = after_scheme.find(['/', '?']).unwrap_or(after_scheme.len());
                let (authority, rest) = after_scheme.split_at(end);
                if authority.is_empty() || !is_authority(authority) {
                    return Err(bad("names no host"));
                }
                (Some(authority.to_owned()), rest)
            }
            _ => (None, written),
        };
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (rest, None),
        };
        let separators = query.iter().flat_map(|query| query.bytes());
        if separators.filter(|byte| *byte == b'&').count() >= PARAMETERS_MAX {
            let most = format!("has more parameters than the {PARAMETERS_MAX} that it may have");
            return Err(bad(&most));
        }
        let path = if path.is_empty() && authority.is_some() {
            "/"
        } else {
            path
        };
        let Some(path) = path.strip_prefix('/') else {
            return Err(bad("is neither a path, nor http://HOST/PATH, nor *"));
        };
        if !is_percent_encoded(path) {
            return Err(bad("has a % that two hexadecimal digits do not follow"));
        }
        let written = || path.split('/').take(Target::SEGMENTS_MAX);
        let segments: Vec<_> = written().filter_map(percent_decoded).collect();
        let is_plain = |(bytes, written): (&Vec<u8>, &str)| encoded(bytes).eq(written.bytes());
        let target = Target {
            is_plain: segments.iter().zip(written()).all(is_plain),
            segments,
            query,
        };
        Ok((target, authority))
    }

    /// Returns the parameters in the order of the query. A `+` is a plus.
    pub fn parameters(&self) -> impl Iterator<Item = Parameter<'_>> {
        self.query
            .as_deref()
            .unwrap_or("")
            .split('&')
            .filter(|piece| !piece.is_empty())
            .map(|piece| {
                let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
                Parameter { name, value }
            })
    }
}

/// Returns whether two hexadecimal digits follow each `%`.
fn is_percent_encoded(text: &str) -> bool {
    let digits_follow = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit))
    };
    text.split('%').skip(1).all(digits_follow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::percent::percent_encoded;

    #[test]
    fn a_path_has_one_spelling_that_is_plain() {
        let is_plain = |written: &str| {
            let (target, _) = Target::parse(written).expect("a target");
            target.is_plain
        };
        for plain in [
            "/",
            "/stream/demo/index.m3u8?",
            "/stream/a-._~9Z",
            "/stream/a%2Fb%C3%A4%25",
            "http://h/stream/a",
            "*",
        ] {
            assert!(is_plain(plain), "{plain}");
        }
        for other in [
            "/stream/%61",
            "/stream/a%2fb",
            "/stream/a%2Fb%7E",
            "/stream/a@b",
            "/stream/a/index%2Em3u8",
            "/1/2/3/4/%37",
        ] {
            assert!(!is_plain(other), "{other}");
        }
        for session in ["", "a", "ä/%", "\u{7f}~!"] {
            assert!(is_plain(&format!("/{}", percent_encoded(session))));
        }
    }

    type Parts<'a> = (&'a [&'a str], Option<&'a str>, Option<&'a str>);

    #[test]
    fn a_target_is_a_path_and_a_query_behind_whichever_authority() {
        let cases: &[(&str, Parts<'_>)] = &[
            ("*", (&[], None, None)),
            ("/", (&[""], None, None)),
            ("//", (&["", ""], None, None)),
            (
                "/stream/a%2Fb?x=%41",
                (&["stream", "a/b"], Some("x=%41"), None),
            ),
            ("/a?", (&["a"], Some(""), None)),
            ("/a?b?c", (&["a"], Some("b?c"), None)),
            ("/a+b[]|{}^\"<>@:", (&["a+b[]|{}^\"<>@:"], None, None)),
            ("/1/2/3/4/5/6", (&["1", "2", "3", "4", "5"], None, None)),
            ("http://h", (&[""], None, Some("h"))),
            ("http://h?q", (&[""], Some("q"), Some("h"))),
            ("HTTP://H:80/a/b?q", (&["a", "b"], Some("q"), Some("H:80"))),
            ("http://[::1]:1/", (&[""], None, Some("[::1]:1"))),
        ];
        for (written, (segments, query, authority)) in cases {
            let (target, found) = Target::parse(written).expect(written);
            let segments: Vec<&[u8]> = segments.iter().map(|segment| segment.as_bytes()).collect();
            assert_eq!(target.segments, segments, "{written}");
            assert_eq!(target.query.as_deref(), *query, "{written}");
            assert_eq!(found.as_deref(), *authority, "{written}");
        }
    }

    #[test]
    fn wrong_targets_are_refused_with_the_reason() {
        for (written, why) in [
            ("/a#b", "must be percent-encoded"),
            ("/é", "must be percent-encoded"),
            ("/a\u{7f}", "must be percent-encoded"),
            ("/a b", "must be percent-encoded"),
            ("http://", "names no host"),
            ("http:///a", "names no host"),
            ("http://?a", "names no host"),
            ("http://u@h/", "names no host"),
            ("http://h:x/", "names no host"),
            ("a/b", "neither a path"),
            ("*/", "neither a path"),
            ("?a", "neither a path"),
            ("https://h/", "neither a path"),
            ("h:80", "neither a path"),
            ("/%", "two hexadecimal digits"),
            ("/%4", "two hexadecimal digits"),
            ("/a/%4x", "two hexadecimal digits"),
            ("/%x4", "two hexadecimal digits"),
            ("/%%41", "two hexadecimal digits"),
        ] {
            let refusal = Target::parse(written).expect_err(written);
            assert!(
                refusal.detail.ends_with(why) || refusal.detail.contains(why),
                "{written}"
            );
            assert!(refusal.ends_connection);
        }
    }

    #[test]
    fn parameters_are_taken_apart_before_they_are_decoded() {
        let (target, _) = Target::parse("/?a=1&&b&=c&d=e=f&g=%26%3D+&").expect("a target");
        let found: Vec<(&str, &str)> = target
            .parameters()
            .map(|parameter| (parameter.name, parameter.value))
            .collect();
        let expected = [
            ("a", "1"),
            ("b", ""),
            ("", "c"),
            ("d", "e=f"),
            ("g", "%26%3D+"),
        ];
        assert_eq!(found, expected);
        let (target, _) = Target::parse("/").expect("a target");
        assert_eq!(target.parameters().count(), 0);
        let most = format!("/?{}", "&".repeat(255));
        assert!(Target::parse(&most).is_ok());
        let refusal = Target::parse(&format!("{most}&")).expect_err("one more");
        assert!(refusal.detail.contains("the 256 that it may have"));
    }
}
