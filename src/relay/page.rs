//! The pages: the operator's, which calls the API, the one on which a session is watched, and what
//! is shown in its place to who may not. Each is one document, compiled in. It gets nothing from
//! elsewhere, and the browser sees to that.

use crate::random::Random;

/// Which page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Document<'a> {
    /// For who may call the API.
    Operator,
    /// For who may watch a session; it finds in its own address which.
    Watch,
    /// For who may not, which these words of the server's say: it costs little, and is for anyone.
    Refused(&'a str),
}

/// A page's number for one answer, and the policy under which it is shown.
pub(super) struct Page {
    html: &'static Html,
    /// The attribute that its script and its style carry.
    nonce: String,
    /// What stands in it for who has no script: why there is no more.
    words: Option<String>,
    policy: String,
}

/// A document in UTF-8, and where in it the nonces go, or in the place of the second the words.
struct Html {
    text: &'static str,
    in_style: usize,
    second: usize,
}

static OPERATOR: Html = Html::new(include_str!("page/operator.html"), "<script");
static WATCH: Html = Html::new(include_str!("page/watch.html"), "<script");
static REFUSED: Html = Html::new(
    include_str!("page/refused.html"),
    "<small>The server says: ",
);

impl Html {
    const fn new(text: &'static str, second: &str) -> Html {
        Html {
            text,
            in_style: behind(text, b"<style"),
            second: behind(text, second.as_bytes()),
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
    pub fn draw(document: Document<'_>, random: &mut Random) -> Option<Page> {
        let (html, words) = match document {
            Document::Operator => (&OPERATOR, None),
            Document::Watch => (&WATCH, None),
            Document::Refused(words) => (&REFUSED, Some(escaped(words))),
        };
        let nonce = format!("{:016x}{:016x}", random.draw(), random.draw());
        let of_script = match words {
            None => format!(
                "script-src 'nonce-{nonce}'; connect-src 'self'; media-src 'self'; img-src 'self' data:; "
            ),
            Some(_) => String::new(),
        };
        let policy = format!(
            "default-src 'none'; style-src 'nonce-{nonce}'; {of_script}form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
        );
        Some(Page {
            html,
            nonce: format!(" nonce=\"{nonce}\""),
            words,
            policy,
        })
    }

    /// `Content-Security-Policy`: nothing runs in it but its own script and style, which carry a
    /// number drawn for this answer.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The document, as it lies there, and the nonces and words in their places.
    pub fn body(&self) -> [&[u8]; 5] {
        let html = self.html;
        let (begin, rest) = html.text.as_bytes().split_at(html.in_style);
        let (style, rest) = rest.split_at(html.second - html.in_style);
        let nonce = self.nonce.as_str();
        let second = self.words.as_deref().unwrap_or(nonce);
        [begin, nonce.as_bytes(), style, second.as_bytes(), rest]
    }
}

/// Words as they stand in a document.
fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing of the document is lost or changed; what stands in it runs by the number that was
    /// drawn for it, and by no other.
    #[test]
    fn a_page_runs_by_a_number_that_was_drawn_for_it() {
        let mut random = Random::new(7);
        let mut seen = Vec::new();
        for (document, text) in [
            (Document::Operator, OPERATOR.text),
            (Document::Watch, WATCH.text),
            (Document::Operator, OPERATOR.text),
        ] {
            let page = Page::draw(document, &mut random).expect("a page");
            let html = String::from_utf8(page.body().concat()).expect("UTF-8");
            let nonce = page.policy().split("'nonce-").nth(1).expect("a nonce");
            let nonce = nonce.split('\'').next().expect("its end");
            assert!(nonce.len() >= 32, "{nonce}");
            let attribute = format!(" nonce=\"{nonce}\"");
            assert_eq!(html.matches(&attribute).count(), 2);
            for tag in ["<style", "<script"] {
                assert!(html.contains(&format!("{tag}{attribute}")), "{tag}");
            }
            assert_eq!(html.replace(&attribute, ""), text);
            for allowed in [
                "default-src 'none'",
                "style-src 'nonce-",
                "script-src 'nonce-",
            ] {
                assert!(page.policy().contains(allowed), "{}", page.policy());
            }
            assert!(!seen.contains(&nonce.to_owned()), "it was drawn before");
            seen.push(nonce.to_owned());
        }
    }

    /// The words may be about what a client has sent: they are text, and no script runs.
    #[test]
    fn a_refusal_stands_in_its_page_as_text() {
        let words = "no <script> & no <b>";
        let page = Page::draw(Document::Refused(words), &mut Random::new(7)).expect("a page");
        let html = String::from_utf8(page.body().concat()).expect("UTF-8");
        let shown = "<small>The server says: no &lt;script> &amp; no &lt;b>";
        assert!(html.contains(shown), "{html}");
        assert!(!page.policy().contains("script-src"), "{}", page.policy());
        assert!(page.policy().contains("default-src 'none'"));
        assert_eq!(html.matches(" nonce=\"").count(), 1, "of its style");
    }
}
