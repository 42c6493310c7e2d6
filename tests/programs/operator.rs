//! The operator's page in Chromium: it follows what happens, shows sixty streams on a phone, who
//! watches and what tokens grant; it is used by keyboard, and axe-core, which is fetched from npm's
//! registry when it is needed, finds nothing wrong with it.
//!
//! With `PICTURES=FOLDER` pictures of it are left there.

use super::devtools::Browser;
use super::fronts::nginx_front;
use super::support::server::Server;
use super::support::streaming::{Source, Viewer};
use super::support::until;
use super::tools::*;

const WIDTHS: [u32; 2] = [390, 1280];
const ROWS: &str = "document.querySelectorAll('#stream-table .abort').length";
/// What the page would put into the clipboard.
const CLIPBOARD: &str = "navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }; true";

fn open(server: &Server, name: &str) -> Browser {
    let mut browser = Browser::open(name, &format!("http://{}/", server.address()));
    browser.await_true("typeof isTold === 'function' && isTold()");
    browser
}

fn click(browser: &mut Browser, selector: &str) {
    browser.await_true(&format!("document.querySelector('{selector}') !== null"));
    browser.evaluate(&format!(
        "document.querySelector('{selector}').click(); true"
    ));
}

fn await_text(browser: &mut Browser, selector: &str, text: &str) {
    browser.await_true(&format!(
        "[...document.querySelectorAll('{selector}')].some((node) => node.textContent.includes('{text}'))"
    ));
}

/// Nothing is wrong with the page as it is, at each width, in light and in dark.
fn assert_sound(browser: &mut Browser, state: &str) {
    for width in WIDTHS {
        for is_dark in [false, true] {
            browser.look_as(width, is_dark);
            let name = format!("{state}-{width}-{}", if is_dark { "dark" } else { "light" });
            picture(browser, &name);
            // Colours that fade would be found half-way.
            browser.await_true("document.getAnimations().every((it) => it.effect.getTiming().iterations === Infinity)");
            let found = browser.evaluate(
                "axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })
                 .then(({ violations }) => violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 200) + ' ' + node.failureSummary).slice(0, 3).join(' | ')}`))",
            );
            assert_eq!(found, serde_json::json!([]), "{name}");
            let overflow =
                "document.documentElement.scrollWidth - document.documentElement.clientWidth";
            assert_eq!(
                browser.evaluate(overflow),
                0,
                "{name}: it is wider than the screen"
            );
        }
    }
}

fn picture(browser: &mut Browser, name: &str) {
    if let Ok(folder) = std::env::var("PICTURES") {
        let text = format!("{folder}/{name}.base64");
        std::fs::write(&text, browser.picture()).expect("a file");
        let decode = format!("base64 -d '{text}' > '{folder}/{name}.png' && rm '{text}'");
        assert!(run("sh", &["-c", &decode]).status.success());
    }
}

#[test]
#[ignore = "needs Chromium and npm"]
fn axe_finds_nothing_wrong_with_no_three_and_sixty_streams() {
    let server = Server::gated(&["--source-idle-time=3600", "--body-rate=0"]);
    let mut browser = open(&server, "axe");
    let axe = from_npm("axe-core", "4.14.1", "axe.min.js");
    browser.evaluate(&format!("{axe}; true"));
    assert_sound(&mut browser, "none");
    for query in [
        "sessionid=a-long-sessionid-of-a-desk&note=desk%203%2C%20the%20blue%20one&max-bitrate=8M",
        "sessionid=keyed&direction=in&expires=3600",
        "sessionid=a-key-to-watch-by&for=keyed&direction=out&ends=7200&max-viewers=5",
        "sessionid=third",
    ] {
        server.add_token(query);
    }
    let names = ["a-long-sessionid-of-a-desk", "keyed", "third"];
    let mut sources: Vec<Source> = names.map(|name| source(&server, name)).into();
    let mut viewer = Viewer::ask(server.address(), "/stream/a-key-to-watch-by");
    viewer.head();
    browser.await_true(&format!("{ROWS} == 3"));
    await_text(&mut browser, "#token-list .chip", "key to");
    await_text(&mut browser, "#token-list .note", "desk 3, the blue one");
    click(&mut browser, "#add-terms summary");
    browser.evaluate("[...document.querySelectorAll('button.viewers')].find((button) => button.textContent == '1').click(); true");
    await_text(&mut browser, ".who li", "127.0.0.1:");
    assert_sound(&mut browser, "three");
    browser.evaluate("document.querySelector('.who button').click(); true");
    assert_sound(&mut browser, "kick");
    click(&mut browser, "#ask-no");
    for number in 0..57 {
        let name = format!("session-{number}-of-many");
        server.add_token(&format!("sessionid={name}"));
        sources.push(source(&server, &name));
    }
    browser.await_true(&format!("{ROWS} == 60"));
    browser.await_true("document.querySelector('#stream-compact').ariaPressed == 'true'");
    assert_sound(&mut browser, "sixty");
    browser.look_as(390, false);
    let height = browser.evaluate("document.querySelector('#stream-table').clientHeight");
    let height = height.as_u64().expect("a height");
    assert!(height < 60 * 60, "{height} px of streams");
}

fn source(server: &Server, name: &str) -> Source {
    let mut source = Source::open(server.address(), &format!("/stream/{name}"));
    source.send(&[7; 4096]);
    source
}

/// The viewers' page and the page for refused viewers, in each of their states.
#[test]
#[ignore = "needs Chromium, ffmpeg and npm"]
fn axe_finds_nothing_wrong_with_what_viewers_see() {
    let server = Server::gated(&["--hls=off", "--remux=off"]);
    for name in ["waiting", "playing", "unplayable"] {
        server.add_token(&format!("sessionid={name}"));
    }
    let url = |name: &str| format!("http://{}/stream/{name}", server.address());
    let _webm = publish(
        &url("playing"),
        &["-c:v", "libvpx", "-g", "25", "-an"],
        &["-f", "webm"],
    );
    let _ts = publish(&url("unplayable"), H264, &["-c:a", "aac", "-f", "mpegts"]);
    await_media(&server, "playing", 8_000);
    await_media(&server, "unplayable", 30_000);
    let axe = from_npm("axe-core", "4.14.1", "axe.min.js");
    for state in ["refused", "waiting", "playing", "unplayable"] {
        let page = format!("http://{}/watch/{state}", server.address());
        let mut browser = Browser::open(&format!("axe-{state}"), &page);
        browser.await_true(&format!("document.body?.dataset.state == '{state}'"));
        browser.evaluate(&format!("{axe}; true"));
        assert_sound(&mut browser, &format!("watch-{state}"));
        if state == "playing" {
            let title = "A%20talk".repeat(20);
            let set = format!("/api/set-title?sessionid=playing&title={title}");
            assert_eq!(server.request("POST", &set).status(), 200);
            await_text(&mut browser, "#now", "A talk");
            assert_sound(&mut browser, "watch-title");
            for width in WIDTHS {
                browser.look_as(width, false);
                for part in ["chip", "form"] {
                    let height = browser.evaluate(&format!("$('{part}').clientHeight"));
                    assert!(height.as_u64().expect("a height") < 40, "#{part}: {height}");
                }
            }
        }
        if state == "unplayable" {
            // Nothing changes its state by itself any more.
            browser.evaluate("turn += 1, stop(), clearTimeout(timer), look = () => {}, true");
            for state in [
                "busy", "full", "halted", "ended", "lost", "expired", "ready", "paused", "late",
            ] {
                browser.evaluate(&format!("show('{state}', '', 'it is so'), true"));
                assert_sound(&mut browser, &format!("watch-{state}"));
            }
        }
    }
    server.add_token("sessionid=short&ends=1");
    until("the token ends", || {
        (server.request("HEAD", "/watch/short").status() == 403).then_some(())
    });
    let other = Server::start(&["--token-server=192.0.2.0/24"]);
    for (name, page) in [
        (
            "refused-expired",
            format!("http://{}/watch/short", server.address()),
        ),
        ("refused-operator", format!("http://{}/", other.address())),
    ] {
        let mut browser = Browser::open(name, &page);
        browser.await_true("document.querySelector('h1') !== null");
        browser.evaluate(&format!("{axe}; true"));
        assert_sound(&mut browser, name);
    }
}

/// Streams are told apart by the notes of their tokens. Only session ids that open something are
/// masked, and one button shows all of them.
#[test]
#[ignore = "needs Chromium"]
fn thirty_streams_are_told_apart() {
    let server = Server::gated(&["--source-idle-time=3600", "--body-rate=0"]);
    let mut sources = Vec::new();
    for number in 0..30 {
        let key = format!("secret-key-{number}");
        server.add_token(&format!(
            "sessionid={key}&for=room-{number}&direction=in&note=studio%20{number}%20on%20the%20north%20side%20of%20the%20hall%2C%20second%20floor"
        ));
        sources.push(source(&server, &key));
    }
    let mut browser = open(&server, "thirty");
    browser.await_true(&format!("{ROWS} == 30"));
    let each = |of: &str, holds: &str| {
        format!("[...document.querySelectorAll('{of}')].every((node) => {holds})")
    };
    browser.await_true(&each(
        "tbody .names",
        "/^studio [0-9]+ on the north/.test(node.textContent)",
    ));
    browser.await_true(&each(
        "tbody th bdi",
        "/^room-[0-9]+$/.test(node.textContent)",
    ));
    browser.await_true(&each("#token-list bdi", "node.textContent.includes('…')"));
    click(&mut browser, "#show-names");
    browser.await_true(&each(
        "#token-list bdi",
        "/^secret-key-[0-9]+$/.test(node.textContent)",
    ));
    browser.evaluate("const filter = document.querySelector('#stream-filter'); filter.value = 'studio 17'; filter.oninput(); true");
    await_text(&mut browser, "#stream-matches", "1 of 30");
    browser.evaluate("filter.value = ''; filter.oninput(); true");
    browser.look_as(1280, false);
    for uptime in ["59 min 59 s", "100 d 23 h"] {
        let fits = format!(
            "const cell = $('stream-table').querySelector('.uptime'); cell.textContent = '{uptime}';
             cell.offsetHeight < 30 && cell.parentNode.scrollWidth <= cell.parentNode.clientWidth"
        );
        assert_eq!(browser.evaluate(&format!("{{ {fits} }}")), true, "{uptime}");
    }
    browser.look_as(390, false);
    let heights = "Math.max(...[...document.querySelectorAll('#stream-table tbody')].map((row) => row.clientHeight))";
    let height = browser.evaluate(heights).as_u64().expect("a height");
    assert!(height < 60, "a row has {height} px");
}

/// The page of an edge does not know the origin's tokens: each session id may be one.
#[test]
#[ignore = "needs Chromium"]
fn an_edge_masks_the_session_ids_of_its_origin() {
    let origin = Server::gated(&[]);
    origin.add_token("sessionid=correct-horse-battery");
    let _source = source(&origin, "correct-horse-battery");
    let option = format!("--origin=http://{}", origin.address());
    let edge = Server::gated(&[&option, "--origin-tokens"]);
    let mut viewer = Viewer::ask(edge.address(), "/stream/correct-horse-battery");
    viewer.head();
    let mut browser = open(&edge, "edge");
    browser.await_true(&format!("{ROWS} == 1"));
    let name = "document.querySelector('tbody th bdi').textContent";
    assert_eq!(browser.evaluate(name), "corr…ry");
    click(&mut browser, "#show-names");
    assert_eq!(browser.evaluate(name), "correct-horse-battery");
}

/// The page says what a stream carries and which encoder sends it. Its curves are those of the
/// server, so they are there when the page is loaded anew.
#[test]
#[ignore = "needs Chromium and ffmpeg"]
fn a_stream_is_described_and_its_curve_survives_a_reload() {
    let server = Server::gated(&[]);
    server.admit("tv");
    let url = format!("http://{}/stream/tv", server.address());
    let _encoder = publish(&url, H264, &["-c:a", "aac", "-f", "mpegts"]);
    until("a sample has been taken", || {
        let rows = server.request("GET", "/api/list-streams?history=1").json();
        (rows[0]["history"].as_array()?.len() >= 2).then_some(())
    });
    let row = server.stream("tv").expect("it runs");
    assert!(row.get("history").is_none());
    assert_eq!(row["tracks"][0]["codec"], "h264");
    assert_eq!(row["tracks"][0]["frame_rate"], 25.0);
    assert_eq!(row["tracks"][1]["codec"], "aac");
    let agent = row["source"]["user_agent"].as_str().expect("a name");
    assert!(agent.starts_with("Lavf/"), "{agent}");
    let mut browser = open(&server, "described");
    await_text(&mut browser, ".type", "/s key frame every ");
    await_text(&mut browser, ".source", agent);
    let points =
        "document.querySelector('.rate path + path').getAttribute('d').match(/L/g)?.length >= 2";
    browser.await_true(points);
    browser.evaluate("[...document.querySelectorAll('button.viewers')][0].click(); true");
    await_text(&mut browser, ".crowd p", "Viewers, last ");
}

/// The host of an open relay sees its streams. It has no tokens and cannot end anything.
#[test]
#[ignore = "needs Chromium and npm"]
fn an_open_relay_shows_its_streams_to_its_own_host() {
    let server = Server::start(&[]);
    let first = source(&server, "tv");
    let mut browser = open(&server, "open-relay");
    browser.await_true(&format!("{ROWS} == 1"));
    await_text(&mut browser, "#state", "open relay");
    await_text(&mut browser, "#closed-title", "anyone may publish");
    browser.await_true(
        "['#tokens', '.abort'].every((it) => document.querySelector(it).offsetParent === null)",
    );
    let axe = from_npm("axe-core", "4.14.1", "axe.min.js");
    browser.evaluate(&format!("{axe}; true"));
    assert_sound(&mut browser, "open-relay");
    let other = source(&server, "second");
    browser.await_true(&format!("{ROWS} == 2"));
    drop(other);
    browser.await_true(&format!("{ROWS} == 1"));
    drop(first);
    browser.await_true(&format!("{ROWS} == 0"));
    let shown = browser.evaluate("document.querySelector('main').innerText");
    let shown = shown.as_str().expect("text");
    assert!(shown.contains("A test picture"), "{shown}");
    assert!(!shown.contains("HTTP token"), "{shown}");
    assert_eq!(shown.matches("ffmpeg").count(), 2, "{shown}");
}

/// What has happened elsewhere is there without being asked for: the list of tokens is asked for
/// once in ten minutes otherwise.
#[test]
#[ignore = "needs Chromium"]
fn the_page_shows_what_happens_elsewhere() {
    let server = Server::gated(&[]);
    let mut browser = open(&server, "elsewhere");
    browser.await_true("document.querySelector('#token-count').textContent == '0'");
    server.add_token("sessionid=tv");
    browser.await_true("document.querySelectorAll('#token-list li').length == 1");
    let source = source(&server, "tv");
    browser.await_true(&format!("{ROWS} == 1"));
    await_text(&mut browser, "#token-list .live", "live");
    // It has no length.
    assert_eq!(server.request("PUT", "/stream/tv").status(), 411);
    await_text(&mut browser, "tbody .refused", "1 source refused lately: ");
    browser.evaluate("document.querySelector('#refusal-list li').time -= 3600; askStreams(); true");
    browser.await_true("document.querySelector('tbody .refused').textContent == ''");
    drop(source);
    browser.await_true(&format!("{ROWS} == 0"));
    let revoked = server.request("DELETE", "/api/revoke-token?sessionid=tv");
    assert_eq!(revoked.status(), 200);
    browser.await_true("document.querySelectorAll('#token-list li').length == 0");
}

/// The link that is copied is one by which the session can be watched.
#[test]
#[ignore = "needs Chromium"]
fn links_are_copied_with_the_key_that_is_for_watching() {
    let server = Server::gated(&[]);
    let mut browser = open(&server, "links");
    browser.evaluate(CLIPBOARD);
    server.add_token("sessionid=send&for=show&direction=in");
    let _source = source(&server, "send");
    browser.await_true(&format!("{ROWS} == 1"));
    click(&mut browser, "button.watch");
    await_text(&mut browser, ".player p", "No token lets anybody watch");
    server.add_token("sessionid=w4tch&for=show&direction=out");
    await_text(&mut browser, "#token-list .chip", "watch only");
    await_text(&mut browser, ".player p", "ffplay, mpv or VLC may");
    let copies_link = "window.copied = ''; document.querySelector('#share-links button').click(); document.querySelector('#share').close(); true";
    click(&mut browser, ".player button[aria-label^=Share]");
    browser.evaluate(copies_link);
    let link = format!("http://{}/watch/w4tch", server.address());
    browser.await_true(&format!("window.copied == '{link}'"));
    click(&mut browser, "#token-list .link[aria-label^=Share]");
    browser.evaluate(copies_link);
    browser.await_true(&format!("window.copied == '{link}'"));
    browser.evaluate("[...document.querySelectorAll('#token-list .link')].find((button) => button.textContent == 'Copy address').click(); true");
    let address = format!("http://{}/stream/send", server.address());
    browser.await_true(&format!("window.copied == '{address}'"));
    // Neither the session's own id nor a key that may publish is copied from the player.
    server.add_token("sessionid=show&direction=both");
    await_text(&mut browser, "#token-list", "show");
    click(&mut browser, "button.watch");
    click(&mut browser, "button.watch");
    let copy = "[...document.querySelectorAll('.player button')].find((it) => it.textContent == 'Copy address')";
    browser.await_true(&format!("Boolean({copy})"));
    browser.evaluate(&format!("{copy}.click(); true"));
    let address = format!("http://{}/stream/w4tch", server.address());
    browser.await_true(&format!("window.copied == '{address}'"));
    server.request("DELETE", "/api/revoke-token?sessionid=w4tch");
    browser.await_true("document.querySelectorAll('#token-list > *').length == 2");
    click(&mut browser, "button.watch");
    click(&mut browser, "button.watch");
    browser.await_true("document.querySelector('.player button[aria-label^=Share]') != null");
    browser.await_true(&format!("{copy} === undefined"));
}

/// A sessionid that may publish is not given away: a key is made that may watch, for a time and for
/// a number of viewers.
#[test]
#[ignore = "needs Chromium and npm"]
fn share_makes_a_key_that_cannot_publish() {
    let server = Server::gated(&[]);
    let mut browser = open(&server, "share");
    browser.evaluate(CLIPBOARD);
    let axe = from_npm("axe-core", "4.14.1", "axe.min.js");
    browser.evaluate(&format!("{axe}; true"));
    server.add_token("sessionid=desk");
    click(&mut browser, "#token-list .link");
    browser.await_true("document.querySelector('#share').open");
    browser.evaluate("document.querySelector('#share-viewers').value = '5'; true");
    assert_sound(&mut browser, "share-form");
    click(&mut browser, "#share .primary");
    browser.await_true("document.querySelectorAll('#share-links code').length == 4");
    assert_sound(&mut browser, "share-links");
    browser.evaluate("document.querySelector('#share-links button').click(); true");
    let base = format!("http://{}/watch/", server.address());
    browser.await_true(&format!("window.copied.startsWith('{base}')"));
    let copied = browser.evaluate("window.copied");
    let key = copied.as_str().expect("a link").replace(&base, "");
    assert!(key.len() >= 20, "{key}");
    let tokens = server.request("GET", "/api/list-tokens?details=1").json();
    let tokens = tokens.as_array().expect("rows");
    let made = tokens
        .iter()
        .find(|token| token["sessionid"] == key.as_str());
    let made = made.expect("the key");
    assert_eq!(made["for"], "desk");
    assert_eq!(made["direction"], "out");
    assert_eq!(made["max_viewers"], 5);
    assert!(made["expires"].is_u64(), "{made}");
    browser.evaluate("const base = document.querySelector('#share-base'); base.value = 'https://tv.example/live'; base.oninput(); true");
    let code = browser.evaluate("document.querySelector('#share-links code').textContent");
    assert_eq!(code, format!("https://tv.example/live/watch/{key}"));
    let has_code = "document.querySelector('#share-code').checkVisibility()";
    assert_eq!(browser.evaluate(has_code), true);
    browser.evaluate("const long = document.querySelector('#share-base'); long.value += '/of/a/station'.repeat(9); long.oninput(); true");
    await_text(&mut browser, "#share-long", "too long for a QR code");
    assert_eq!(browser.evaluate(has_code), false);
    assert_eq!(
        server.request("HEAD", &format!("/watch/{key}")).status(),
        200
    );
    click(&mut browser, "#share-close");
    server.add_token("sessionid=short&for=desk&direction=out&ends=1");
    until("the key ends", || {
        (server.request("HEAD", "/watch/short").status() == 403).then_some(())
    });
    await_text(
        &mut browser,
        "#token-list li:last-child .chip",
        "over since",
    );
    click(&mut browser, "#token-list li:last-child .link");
    browser.await_true("document.querySelector('#share').open");
    assert_eq!(
        browser.evaluate("document.querySelector('#share-form').hidden"),
        false,
        "nobody can watch with a key that has ended"
    );
}

/// While the page does not know the tokens, any session id may also publish.
#[test]
#[ignore = "needs Chromium"]
fn nothing_is_given_away_before_the_tokens_are_known() {
    let server = Server::gated(&[]);
    server.admit("desk");
    let _source = source(&server, "desk");
    let mut browser = Browser::open("unknown", "about:blank");
    browser.prepare(
        "const real = fetch; window.fetch = (url, options) => (url.includes('list-tokens') ? Promise.reject() : real(url, options));",
    );
    browser.go(&format!("http://{}/", server.address()));
    browser.await_true(&format!("{ROWS} == 1"));
    click(&mut browser, "button.watch");
    click(&mut browser, ".player button[aria-label^=Share]");
    browser.await_true("document.querySelector('#share').open");
    let makes_key = "!document.querySelector('#share-form').hidden && document.querySelector('#share-result').hidden";
    assert_eq!(browser.evaluate(makes_key), true);
}

/// A link may be shared before the stream begins.
#[test]
#[ignore = "needs Chromium and ffmpeg"]
fn what_is_embedded_follows_the_format() {
    let server = Server::gated(&[]);
    server.add_token("sessionid=send&for=show&direction=in");
    server.add_token("sessionid=w4tch&for=show&direction=out");
    let mut browser = open(&server, "embedded");
    click(&mut browser, "#token-list .link[aria-label^=Share]");
    let source = |path: &str| {
        format!(
            "document.querySelectorAll('#share-links code')[3].textContent.includes('/w4tch{path}\"')"
        )
    };
    browser.await_true(&source("/live.mp4"));
    let url = format!("http://{}/stream/send", server.address());
    let webm = ["-c:v", "libvpx", "-deadline", "realtime", "-an"];
    let _encoder = publish(&url, &webm, &["-f", "webm"]);
    browser.await_true(&source(""));
}

/// Every link that is given away begins with --public-url, on both pages.
#[test]
#[ignore = "needs Chromium"]
fn links_begin_with_the_public_address() {
    let base = "https://example.org/live/";
    let server = Server::gated(&["--public-url=https://example.org/live"]);
    let mut browser = open(&server, "public-url");
    browser.evaluate(CLIPBOARD);
    server.add_token("sessionid=desk&direction=out");
    server.add_token("sessionid=send&for=desk&direction=in");
    click(&mut browser, "#token-list .link");
    browser.await_true("document.querySelector('#share').open");
    let links = browser.evaluate(
        "[...document.querySelectorAll('#share-links code')].map((code) => code.textContent)",
    );
    let links = links.as_array().expect("links");
    assert_eq!(links.len(), 4);
    for link in links {
        let link = link.as_str().expect("text");
        assert!(link.contains(base), "{link}");
    }
    let warning = "document.querySelector('#share-local').hidden";
    assert_eq!(browser.evaluate(warning), true);
    browser.evaluate("document.querySelectorAll('#token-list .link')[1].click(); true");
    browser.await_true(&format!("window.copied === '{base}stream/send'"));
    drop(browser);
    let page = format!("http://{}/watch/desk", server.address());
    let mut browser = Browser::open("public-url-watch", &page);
    for field in ["address", "hls", "command"] {
        browser.await_true(&format!(
            "document.querySelector('#{field}')?.value.includes('{base}stream/desk')"
        ));
    }
}

/// Times have units, and the form says what it makes before it does.
#[test]
#[ignore = "needs Chromium"]
fn the_form_says_what_key_it_makes() {
    let server = Server::gated(&[]);
    let mut browser = open(&server, "form");
    browser.await_true("document.querySelector('#token-count').textContent == '0'");
    browser.evaluate(
        "document.querySelector('#add-id').value = 'w4tch'; document.querySelector('#add-for').value = 'show';
         document.querySelector('#add-expires').value = '2'; document.querySelector('#add-viewers').value = '9';
         document.querySelector('[name=add-direction][value=out]').click(); true",
    );
    let says = "With this id viewers can watch session show, at most 9 at a time. It lets people in for 2 h.";
    await_text(&mut browser, "#add-sentence", says);
    click(&mut browser, "#add-button");
    await_text(&mut browser, "#event-list li", "token added");
    let tokens = server.request("GET", "/api/list-tokens?details=1").json();
    let (made, now) = (&tokens[0], std::time::SystemTime::now());
    let now = now.duration_since(std::time::UNIX_EPOCH).expect("a time");
    let left = made["expires"].as_u64().expect("a time") - now.as_secs();
    assert!((3_600..=9_000).contains(&left), "{made}");
    assert_eq!(made["direction"], "out");
    assert_eq!(made["for"], "show");
}

/// A page whose server is gone says so, and works again when the server is back.
#[test]
#[ignore = "needs Chromium"]
fn a_lost_connection_is_said_and_comes_back() {
    let server = Server::gated(&[]);
    let address = server.address();
    let mut browser = open(&server, "lost");
    drop(server);
    await_text(&mut browser, "#state", "connection lost");
    await_text(&mut browser, "#failing", "tries again by itself");
    let server = Server::gated(&[&format!("--listen={address}")]);
    server.add_token("sessionid=back");
    browser.await_true("document.querySelector('#state').textContent == 'live'");
    await_text(&mut browser, "#token-list .sid", "ba…");
    // Another server is an open relay, and the next one has tokens again.
    drop(server);
    let server = Server::start(&[&format!("--listen={address}")]);
    browser.await_true("document.querySelector('#state').textContent == 'open relay'");
    drop(server);
    let server = Server::gated(&[&format!("--listen={address}")]);
    server.add_token("sessionid=again");
    browser.await_true("document.querySelector('#state').textContent == 'live'");
    await_text(&mut browser, "#token-list .sid", "ag…");
}

#[test]
#[ignore = "needs Chromium and ffmpeg"]
fn what_a_browser_does_not_play_is_played_as_mp4_and_an_end_is_no_fault() {
    let server = Server::gated(&[]);
    server.admit("tv");
    let url = format!("http://{}/stream/tv", server.address());
    let _encoder = publish(&url, H264, &["-c:a", "aac", "-f", "mpegts"]);
    await_media(&server, "tv", 60_000);
    let mut browser = open(&server, "as-mp4");
    click(&mut browser, "button.watch");
    browser.await_true("(document.querySelector('video')?.currentTime ?? 0) > 1");
    browser.await_true("document.querySelector('video').src.endsWith('/stream/tv/live.mp4')");
    await_text(&mut browser, ".player p", "MPEG-TS, as MP4");
    // It is aborted, and everybody kept out for a minute.
    click(&mut browser, "button.abort");
    browser.await_true("document.querySelector('#ask').open");
    browser.evaluate("document.querySelector('#ask-block').value = '60'; document.querySelector('#ask-yes').click(); true");
    await_text(&mut browser, ".player p", "The stream has ended");
    browser.await_true("document.querySelector('.player .trouble') === null");
    assert!(server.stream("tv").is_none());
    let again = server.request("GET", "/stream/tv");
    again.assert_problem(429, &["blocked"]);
}

#[test]
#[ignore = "needs Chromium"]
fn who_watches_is_listed_and_kicked() {
    let server = Server::gated(&[]);
    server.admit("tv");
    let _source = source(&server, "tv");
    let mut viewers = [(); 2].map(|()| Viewer::ask(server.address(), "/stream/tv"));
    server.await_viewers("tv", 2);
    let mut browser = open(&server, "kick");
    await_text(&mut browser, "button.viewers", "2");
    click(&mut browser, "button.viewers");
    browser.await_true("document.querySelectorAll('.who li').length == 2");
    click(&mut browser, ".who button");
    browser.await_true("document.querySelector('#ask').open");
    click(&mut browser, "#ask-yes");
    browser.await_true("document.querySelectorAll('.who li').length == 1");
    server.await_viewers("tv", 1);
    viewers[0].head();
    until("one is cut", || {
        (server.stream("tv")?["cuts"]["kicked"] == 1).then_some(())
    });
}

/// By Tab, Enter and Escape alone; and focus is never lost to the top of the page.
#[test]
#[ignore = "needs Chromium"]
fn the_page_is_used_by_keyboard() {
    let server = Server::gated(&[]);
    server.admit("tv");
    let _source = source(&server, "tv");
    let mut browser = open(&server, "keyboard");
    browser.await_true(&format!("{ROWS} == 1"));
    let mut reached = Vec::new();
    for _ in 0..40 {
        browser.press("Tab", 9, "");
        let focused = browser.evaluate("document.activeElement.className + ' ' + (document.activeElement.ariaLabel || document.activeElement.textContent).slice(0, 30)");
        let ring = browser.evaluate("document.activeElement === document.body || getComputedStyle(document.activeElement).outlineStyle != 'none'");
        assert_eq!(ring, true, "{focused} shows no focus");
        reached.push(focused.as_str().expect("words").to_owned());
        if reached.iter().any(|name| name.starts_with("abort")) {
            break;
        }
    }
    assert!(
        reached.iter().any(|name| name.starts_with("watch")),
        "{reached:?}"
    );
    assert!(
        reached.iter().any(|name| name.starts_with("viewers")),
        "{reached:?}"
    );
    browser.press("Enter", 13, "\r");
    browser.await_true("document.querySelector('#ask').open && document.querySelector('#ask').contains(document.activeElement)");
    browser.press("Escape", 27, "");
    browser.await_true(
        "!document.querySelector('#ask').open && document.activeElement.className == 'abort'",
    );
    browser.press("Enter", 13, "\r");
    browser.await_true("document.querySelector('#ask').open");
    for _ in 0..6 {
        if browser.evaluate("document.activeElement.id") == "ask-yes" {
            break;
        }
        browser.press("Tab", 9, "");
    }
    browser.press("Enter", 13, "\r");
    browser.await_true(&format!(
        "{ROWS} == 0 && document.activeElement.id == 'streams-title'"
    ));
}

/// The page calls the API beside itself, not at the top of the site.
#[test]
#[ignore = "needs Chromium and nginx"]
fn below_a_path_of_nginx_the_page_follows_events_and_adds_tokens() {
    let front = nginx_front("/live", false);
    let mut browser = Browser::open("below", &format!("{}/", front.base));
    browser.await_true("typeof isTold === 'function' && isTold()");
    browser.evaluate("document.querySelector('#add-id').value = 'desk'; true");
    click(&mut browser, "#add-button");
    until("the token is there", || {
        (front.servers[0].tokens().len() == 1).then_some(())
    });
    let addresses = browser.evaluate("[streamUrl('desk'), watchUrl('desk')].join(' ')");
    let base = &front.base;
    assert_eq!(addresses, format!("{base}/stream/desk {base}/watch/desk"));
    let links = browser
        .evaluate("[...document.querySelectorAll('footer a')].map((it) => it.href).join(' ')");
    assert_eq!(links, format!("{base}/metrics {base}/api/openapi.json"));
}
