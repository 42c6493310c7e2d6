//! The pages: the operator's, which calls the API, and the one on which a session is watched. Each
//! is one document, compiled in. It gets nothing from elsewhere, and the browser sees to that.

use crate::random::Random;

/// Which page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Document {
    /// For who may call the API.
    Operator,
    /// For who may watch a session; it finds in its own address which.
    Watch,
}

/// A page's number for one answer, and the policy under which it is shown.
pub(super) struct Page {
    html: &'static Html,
    /// The attribute that its script and its style carry.
    nonce: String,
    policy: String,
}

/// A document in UTF-8, and where in it the nonces go.
struct Html {
    text: &'static str,
    in_style: usize,
    in_script: usize,
}

static OPERATOR: Html = Html::new(include_str!("page/operator.html"));
static WATCH: Html = Html::new(include_str!("page/watch.html"));

impl Html {
    const fn new(text: &'static str) -> Html {
        Html {
            text,
            in_style: behind(text, b"<style"),
            in_script: behind(text, b"<script"),
        }
    }
}

/// Where a page goes on behind the first of these tags. (Without one it does not compile.)
const fn behind(html: &str, tag: &[u8]) -> usize {
    let html = html.as_bytes();
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

    /// A page for one answer; `None` where there is none.
    pub fn draw(document: Document, random: &mut Random) -> Option<Page> {
        let nonce = format!("{:016x}{:016x}", random.draw(), random.draw());
        let policy = format!(
            "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; media-src 'self'; \
             img-src 'self' data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
        );
        let nonce = format!(" nonce=\"{nonce}\"");
        let html = match document {
            Document::Operator => &OPERATOR,
            Document::Watch => &WATCH,
        };
        Some(Page {
            html,
            nonce,
            policy,
        })
    }

    /// `Content-Security-Policy`: nothing runs in it but its own script and style, which carry a
    /// number drawn for this answer.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The document, as it lies there, and the nonces in their places.
    pub fn body(&self) -> [&[u8]; 5] {
        let html = self.html;
        let (begin, rest) = html.text.as_bytes().split_at(html.in_style);
        let (style, script) = rest.split_at(html.in_script - html.in_style);
        let nonce = self.nonce.as_bytes();
        [begin, nonce, style, nonce, script]
    }
}
