//! The operator's page: one document, compiled in, that calls the API. It gets nothing from
//! elsewhere, and the browser sees to that.

use crate::random::Random;

/// The page and the policy under which it is shown.
pub(super) struct Page {
    /// HTML in UTF-8.
    pub html: String,
    /// `Content-Security-Policy`: nothing runs in it but its own script and style, which carry a
    /// number drawn for this answer.
    pub policy: String,
}

const HTML: &str = include_str!("page.html");

impl Page {
    /// The page for one answer.
    pub fn new(random: &mut Random) -> Page {
        let nonce = format!("{:016x}{:016x}", random.draw(), random.draw());
        let html = HTML
            .replacen("<style>", &format!("<style nonce=\"{nonce}\">"), 1)
            .replacen("<script>", &format!("<script nonce=\"{nonce}\">"), 1);
        let policy = format!(
            "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; media-src 'self'; \
             img-src 'self' data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
        );
        Page { html, policy }
    }
}
