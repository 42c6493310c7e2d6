//! The pages: the operator's page, which calls the API; the page for watching a session; and the page
//! for refused viewers. The files of each are joined to one document when the program is built. A
//! page loads nothing from elsewhere, and the browser enforces that.

use crate::http::{Refusal, Status};
use crate::random::Random;

/// A page that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Document<'a> {
    /// The operator's page, for hosts that may call the API.
    Operator,
    /// The page for watching a session. It finds the session in its own address.
    Watch,
    /// The page for a viewer that gets this refusal. It costs little, and is for anyone.
    Refused(&'a Refusal),
}

/// A page for one answer, and the policy under which it is shown.
pub(super) struct Page {
    html: &'static Html,
    /// The start tag of its style, with the nonce of this answer.
    style_tag: String,
    /// Text in front of `script`: the words of a refusal, if there is one, and the start tag of the
    /// script.
    inserted: String,
    policy: String,
}

/// A document's files, cut where one goes into another. The HTML names its style sheets and its
/// scripts as files, so a browser also shows it from the folder of the sources.
struct Html {
    head: &'static str,
    style: &'static str,
    body: &'static str,
    script: &'static str,
    rest: &'static str,
}

const STYLE_LINKS: &str = "<link rel=\"stylesheet\" href=\"../common.css\">\n<link rel=\"stylesheet\" href=\"style.css\">\n";

/// Joins files of the folder `page`.
macro_rules! files {
    ($($file:literal),*) => { concat!($(include_str!(concat!("page/", $file))),*) };
}

static OPERATOR: Html = Html::new(
    files!("operator/index.html"),
    files!("common.css", "operator/style.css"),
    files!(
        "common.js",
        "operator/common.js",
        "operator/player.js",
        "operator/streams.js",
        "operator/share.js",
        "operator/tokens.js",
        "operator/updates.js"
    ),
    "</script>\n</body>",
);
static WATCH: Html = Html::new(
    files!("watch/index.html"),
    files!("common.css", "watch/style.css"),
    files!("common.js", "player.js", "watch/watch.js"),
    "</script>\n</body>",
);
static REFUSED: Html = Html::new(
    files!("refused/index.html"),
    files!("common.css", "refused/style.css"),
    files!("refused/refused.js"),
    "</script>\n<a",
);

impl Html {
    /// Cuts a document at its links to style sheets, and at the tags of its scripts, which `script`
    /// replaces. `end`: the end of the last tag, and what follows.
    const fn new(html: &'static str, style: &'static str, script: &'static str, end: &str) -> Html {
        let (head, linked) = html.split_at(find(html, STYLE_LINKS));
        let (_, below) = linked.split_at(STYLE_LINKS.len());
        let (body, scripts) = below.split_at(find(below, "<script"));
        let (_, rest) = scripts.split_at(find(scripts, end));
        Html {
            head,
            style,
            body,
            script,
            rest,
        }
    }
}

/// Returns where `mark` begins in a document. Without it the program does not compile.
const fn find(html: &str, mark: &str) -> usize {
    let (html, mark) = (html.as_bytes(), mark.as_bytes());
    let (mut start, mut same) = (0, 0);
    while same < mark.len() {
        if html[start + same] == mark[same] {
            same += 1;
        } else {
            start += 1;
            same = 0;
        }
    }
    start
}

impl Page {
    /// Whether this program has the pages.
    pub const IS_HERE: bool = true;

    /// Makes a page for one answer. `None`: this program has no pages, or none for such a refusal.
    /// `public_url`: the base of its links, if it is known.
    pub fn draw(document: Document<'_>, public_url: &str, random: &mut Random) -> Option<Page> {
        let nonce = format!("{:016x}{:016x}", random.draw(), random.draw());
        let (html, words) = match document {
            Document::Operator => (&OPERATOR, String::new()),
            Document::Watch => (&WATCH, String::new()),
            Document::Refused(refusal) => (&REFUSED, words(refusal)?),
        };
        let inserted =
            format!("{words}<script nonce=\"{nonce}\">\nconst PUBLIC_URL = \"{public_url}\";\n");
        let policy = format!(
            "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; \
             media-src 'self' blob:; img-src 'self' data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
        );
        Some(Page {
            html,
            style_tag: format!("<style nonce=\"{nonce}\">\n"),
            inserted,
            policy,
        })
    }

    /// Returns `Content-Security-Policy`: only the page's own script and style work. They carry a
    /// number drawn for this answer.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// Returns the document in pieces: its files, the tags with the nonces, and the words.
    pub fn body(&self) -> [&[u8]; 8] {
        let html = self.html;
        [
            html.head,
            &self.style_tag,
            html.style,
            "</style>\n",
            html.body,
            &self.inserted,
            html.script,
            html.rest,
        ]
        .map(str::as_bytes)
    }
}

/// What the script of the page does, once a minute.
const AGAIN: &str = "This page tries again by itself.";

/// Returns the text for a refused viewer, as HTML. `None`: no viewer gets such a refusal.
fn words(refusal: &Refusal) -> Option<String> {
    let (title, text) = match refusal.reason {
        Some("expired") => (
            "This link has expired",
            "Ask for a new one where you got it.",
        ),
        Some("full") => ("All places are taken", AGAIN),
        Some("paused") => ("Paused by the operator", AGAIN),
        _ if refusal.retry_after_seconds.is_some() => ("The stream cannot be reached now", AGAIN),
        None if refusal.status == Status::NotFound => (
            "There is nothing here",
            "The address may be mistyped, or the stream does not run now.",
        ),
        None if refusal.status == Status::NotAcceptable => (
            "This stream is not for browsers",
            "Another player may play it.",
        ),
        None if matches!(
            refusal.status,
            Status::BadGateway | Status::GatewayTimeout | Status::LoopDetected
        ) =>
        {
            ("The stream cannot be reached now", AGAIN)
        }
        _ if matches!(
            refusal.status,
            Status::BadRequest
                | Status::Forbidden
                | Status::TooManyRequests
                | Status::ServiceUnavailable
        ) =>
        {
            (
                "This link does not work",
                "It may be mistyped or withdrawn. Ask for a new one where you got it.",
            )
        }
        _ => return None,
    };
    // An operator may have asked for the operator's page, or followed an old address.
    let open = match refusal.status {
        Status::NotFound => " open",
        _ => "",
    };
    let detail = refusal.detail.replace('&', "&amp;").replace('<', "&lt;");
    Some(format!(
        "<h1>{title}</h1>\n<p>{text}</p>\n<details{open}><summary>For the operator</summary><small>The server says: {detail}</small></details>\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The document is complete and unchanged. Its scripts run by the nonce drawn for it, and by no
    /// other.
    #[test]
    fn a_page_runs_by_a_number_that_was_drawn_for_it() {
        let mut random = Random::new(7);
        let mut seen = Vec::new();
        for (document, files) in [
            (Document::Operator, &OPERATOR),
            (Document::Watch, &WATCH),
            (Document::Operator, &OPERATOR),
        ] {
            let page = Page::draw(document, "https://live.example/", &mut random).expect("a page");
            let html = String::from_utf8(page.body().concat()).expect("UTF-8");
            let nonce = page.policy().split("'nonce-").nth(1).expect("a nonce");
            let nonce = nonce.split('\'').next().expect("its end");
            assert!(nonce.len() >= 32, "{nonce}");
            assert!(html.contains("const PUBLIC_URL = \"https://live.example/\";"));
            let attribute = format!(" nonce=\"{nonce}\"");
            assert_eq!(html.matches(&attribute).count(), 2);
            for tag in ["<style", "<script"] {
                assert!(html.contains(&format!("{tag}{attribute}")), "{tag}");
            }
            // Scripts write tags as text, so only the markup counts.
            for markup in [files.head, files.body, files.rest] {
                assert!(!markup.contains("href=\"style.css\"") && !markup.contains("src=\""));
            }
            for file in [files.head, files.style, files.body, files.script] {
                assert!(!file.is_empty() && html.contains(file));
            }
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
        let refusal = Refusal::new(Status::Forbidden, "no <script> & no <b>");
        let mut random = Random::new(7);
        let document = Document::Refused(&refusal);
        let page = Page::draw(document, "", &mut random).expect("a page");
        let html = String::from_utf8(page.body().concat()).expect("UTF-8");
        let shown = "<small>The server says: no &lt;script> &amp; no &lt;b>";
        assert!(html.contains(shown), "{html}");
        assert_eq!(html.matches("<script").count(), 1, "its own: {html}");
        assert!(page.policy().contains("default-src 'none'"));
        assert!(page.policy().contains("script-src 'nonce-"));
    }
}
