//! Media types that a stream may have: types that a browser plays or saves, and none that it opens
//! as a document.
//!
//! Sources and origins name any type. It reaches viewers on this server's own web origin, beside
//! the API.

use super::grammar::{elements, is_token_byte, parameter};

/// Longer types have nothing that players use.
const BYTES_MAX: usize = 256;

/// Allowed besides `audio/…` and `video/…`, which need no row: Ogg, playlists, and generic types.
const OTHERS: &[&str] = &[
    "application/ogg",
    "application/octet-stream",
    "application/vnd.apple.mpegurl",
    "application/x-mpegurl",
];

/// Parts of a subtype that make it a document. Browsers open every `…+xml` as one, also of audio
/// and video.
const OF_DOCUMENTS: &[&str] = &["xml", "html", "svg", "script"];

/// Returns the type for a stream that its source calls `given`, without parameters if they are
/// malformed. `None`: use the type that the bytes show.
pub fn stream_type(given: &str) -> Option<String> {
    let given = given.trim_matches([' ', '\t']);
    let (essence, parameters) = match given.find(';') {
        Some(at) => given.split_at(at),
        None => (given, ""),
    };
    let essence = essence.trim_end_matches([' ', '\t']);
    let lower = essence.to_ascii_lowercase();
    let (kind, subtype) = lower.split_once('/')?;
    let is_media = matches!(kind, "audio" | "video")
        && !subtype.is_empty()
        && subtype.bytes().all(is_token_byte)
        && !OF_DOCUMENTS.iter().any(|part| subtype.contains(part));
    if essence.len() > BYTES_MAX || !(is_media || OTHERS.contains(&lower.as_str())) {
        return None;
    }
    let is_whole = given.len() <= BYTES_MAX && are_parameters(parameters);
    Some(if is_whole { given } else { essence }.to_owned())
}

/// Returns whether an `Accept` field (RFC 9110 section 12.5.1) has `text/html` with a weight above 0.
pub(super) fn accepts_html(accept: &str) -> bool {
    elements(accept, ',').any(|range| {
        let mut parts = elements(range, ';');
        let is_html = parts
            .next()
            .is_some_and(|it| it.eq_ignore_ascii_case("text/html"));
        let mut parameters = parts.filter_map(parameter);
        is_html
            && !parameters
                .any(|(name, value)| name.eq_ignore_ascii_case("q") && value.parse() == Ok(0.0))
    })
}

/// Returns whether the text is `; NAME=VALUE`, repeated (RFC 9110 section 5.6.6), with values that
/// need no escapes.
fn are_parameters(text: &str) -> bool {
    let is_plain = |value: &str| value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    text.is_empty()
        || elements(text, ';').skip(1).all(|pair| {
            !pair.contains('\\') && parameter(pair).is_some_and(|(_, value)| is_plain(&value))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_names_html_in_its_list() {
        for (accept, is_html) in [
            ("text/html,application/xhtml+xml,*/*;q=0.8", true),
            ("TEXT/HTML", true),
            ("application/json, text/html ; q=0.5", true),
            ("*/*", false),
            ("text/htmlx", false),
            ("application/json, text/html;q=0", false),
            ("application/json, text/html; Q=0.000", false),
            ("application/json;x=\"text/html\"", false),
            ("application/json;x=\",text/html\"", false),
        ] {
            assert_eq!(accepts_html(accept), is_html, "{accept}");
        }
    }

    #[test]
    fn what_is_played_goes_out_as_it_was_given() {
        for good in [
            "video/webm",
            "Video/WebM",
            "audio/aacp",
            "video/x-made-up",
            "video/vnd.dlna.mpeg-tts",
            "application/ogg",
            "application/octet-stream",
            "application/vnd.apple.mpegurl",
            "application/x-mpegURL",
            "audio/mpegurl",
            "video/mp4; codecs=\"avc1.42E01E, mp4a.40.2\"",
            "audio/ogg;codecs=opus ; rate=48000",
        ] {
            assert_eq!(stream_type(good).as_deref(), Some(good));
        }
        let longest = format!("video/{}", "x".repeat(BYTES_MAX - 6));
        assert_eq!(stream_type(&longest), Some(longest.clone()));
        assert_eq!(stream_type(" video/mp2t\t").as_deref(), Some("video/mp2t"));
    }

    #[test]
    fn parameters_that_are_malformed_are_left_out() {
        let long = format!("video/webm; x={}", "y".repeat(BYTES_MAX));
        for given in [
            "video/webm;",
            "video/webm; codecs",
            "video/webm; =x",
            "video/webm; codecs=\"vp8",
            "video/webm; codecs=\"a\\\"b\"",
            "video/webm; codecs=\"a\\b\"",
            "video/webm; codecs=\"é\"",
            "video/webm; codecs=\"\t\"",
            "video/webm; codecs=",
            "video/webm; codecs=; rate=1",
            "video/webm; codecs=vp8, text/html",
            "video/webm ;a=b c=d",
            "video/webm; charset=\u{fffd}",
            &long,
        ] {
            assert_eq!(stream_type(given).as_deref(), Some("video/webm"), "{given}");
        }
    }

    #[test]
    fn nothing_goes_out_as_a_document() {
        let long = format!("video/{}", "x".repeat(BYTES_MAX - 5));
        for given in [
            "",
            "video",
            "video/",
            "/webm",
            "text/html",
            "TEXT/HTML; charset=utf-8",
            "text/plain",
            "text/xml",
            "application/xhtml+xml",
            "application/xml",
            "application/pdf",
            "application/json",
            "application/javascript",
            "application/dash+xml",
            "application/x-www-form-urlencoded",
            "image/svg+xml",
            "image/png",
            "video/svg+xml",
            "video/x+xml",
            "audio/X+XML",
            "video/html",
            "audio/xhtml",
            "video/x-javascript",
            "video/webm,text/html",
            "video/a b",
            "video/we\u{fffd}bm",
            "multipart/x-mixed-replace; boundary=x",
            &long,
        ] {
            assert_eq!(stream_type(given), None, "{given}");
        }
    }
}
