//! The operator's page: one document, compiled in, that calls the API. It gets nothing from
//! elsewhere, and the browser sees to that.

use crate::random::Random;

/// The page's number for one answer, and the policy under which it is shown.
pub(super) struct Page {
    /// The attribute that its script and its style carry.
    nonce: String,
    policy: String,
}

/// HTML in UTF-8.
const HTML: &str = include_str!("page/page.html");
/// Where in it the nonces go.
const IN_STYLE: usize = behind(b"<style");
const IN_SCRIPT: usize = behind(b"<script");

/// Where the page goes on behind the first of these tags. (Without one it does not compile.)
const fn behind(tag: &[u8]) -> usize {
    let html = HTML.as_bytes();
    let (mut end, mut same) = (0, 0);
    while same < tag.len() {
        same = match html[end] {
            // It stands nowhere else in a tag.
            b'<' => 1,
            byte if same > 0 && byte == tag[same] => same + 1,
            _ => 0,
        };
        end += 1;
    }
    end
}

impl Page {
    /// Whether there is one in this program.
    pub const IS_HERE: bool = true;

    /// The page for one answer; `None` where there is none.
    pub fn draw(random: &mut Random) -> Option<Page> {
        let nonce = format!("{:016x}{:016x}", random.draw(), random.draw());
        let policy = format!(
            "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; media-src 'self'; \
             img-src 'self' data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
        );
        let nonce = format!(" nonce=\"{nonce}\"");
        Some(Page { nonce, policy })
    }

    /// `Content-Security-Policy`: nothing runs in it but its own script and style, which carry a
    /// number drawn for this answer.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The document, as it lies there, and the nonces in their places.
    pub fn body(&self) -> [&[u8]; 5] {
        let (begin, rest) = HTML.as_bytes().split_at(IN_STYLE);
        let (style, script) = rest.split_at(IN_SCRIPT - IN_STYLE);
        let nonce = self.nonce.as_bytes();
        [begin, nonce, style, nonce, script]
    }
}
