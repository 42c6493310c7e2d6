//! The page on which a session is watched, in Chromium and in Firefox: it plays by itself what
//! they can play, and says what it cannot; it waits, and comes back by itself.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::devtools::Browser;
use super::firefox::Firefox;
use super::support::server::Server;
use super::support::streaming::{Source, Viewer};
use super::support::{PATIENCE, until};
use super::tools::*;

/// A browser that shows a page.
trait Shows {
    fn go_to(&mut self, url: &str);

    /// What an expression gives in the page.
    fn look(&mut self, expression: &str) -> Value;

    #[track_caller]
    fn await_page(&mut self, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.look(&format!("[Boolean({expression}), {SEEN}]"));
            if seen[0] == true {
                return;
            }
            assert!(Instant::now() < deadline, "{expression}: {seen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// It is in this state.
    #[track_caller]
    fn await_state(&mut self, state: &str) {
        self.await_page(&format!("document.body.dataset.state == '{state}'"));
    }

    /// It plays what it has found by itself, without a sound, for several seconds.
    #[track_caller]
    fn await_playing(&mut self) {
        self.await_state("playing");
        let begun = self.look(&format!("{VIDEO}.currentTime"));
        self.await_page(&format!("{VIDEO}.currentTime > {begun} + 4"));
        self.await_state("playing");
        self.await_page(&format!(
            "{VIDEO}.muted && !{VIDEO}.paused && !{VIDEO}.error"
        ));
    }
}

const VIDEO: &str = "document.querySelector('video')";

/// What of a page says most about it.
const SEEN: &str = "document.body.dataset.state, document.body.innerText.slice(0, 300), \
                    [...document.querySelectorAll('video')].map((video) => [video.src, video.currentTime, video.error?.message, \
                    [...Array(video.buffered.length).keys()].map((n) => [video.buffered.start(n), video.buffered.end(n)])])";

impl Shows for Browser {
    fn go_to(&mut self, url: &str) {
        assert_eq!(self.go(url), None);
        self.await_true("document.readyState == 'complete' && location.href != 'about:blank'");
    }

    fn look(&mut self, expression: &str) -> Value {
        self.evaluate(expression)
    }
}

impl Shows for Firefox {
    fn go_to(&mut self, url: &str) {
        self.go(url);
    }

    fn look(&mut self, expression: &str) -> Value {
        self.evaluate(expression)
    }
}

const WEBM: &[&str] = &["-f", "webm"];
const FRAGMENTS: &[&str] = &[
    "-c:a",
    "aac",
    "-f",
    "mp4",
    "-movflags",
    "frag_keyframe+empty_moov+default_base_moof",
];
const TRANSPORT: &[&str] = &["-c:a", "aac", "-f", "mpegts"];
const FLV: &[&str] = &["-c:a", "aac", "-f", "flv"];

/// Sessions, each with the encoding and the container that is published.
const PLAYABLE: &[(&str, &[&str], &[&str])] = &[
    ("webm", VP8, WEBM),
    ("mp4", H264, FRAGMENTS),
    ("mp3", &[], &["-vn", "-c:a", "libmp3lame", "-f", "mp3"]),
    // Browsers want more bytes than a tone has, before they begin.
    (
        "ogg",
        VP8,
        &["-vn", "-b:a", "192k", "-ac", "2", "-f", "ogg"],
    ),
    ("aac", &[], &["-vn", "-c:a", "aac", "-f", "adts"]),
];

fn page(server: &Server, session: &str) -> String {
    format!("http://{}/watch/{session}", server.address())
}

fn stream(server: &Server, session: &str) -> String {
    format!("http://{}/stream/{session}", server.address())
}

fn plays_all(server: &Server, browser: &mut impl Shows) {
    for (session, codecs, output) in PLAYABLE {
        server.admit(session);
        let _encoder = publish(&stream(server, session), codecs, output);
        await_media(server, session, 8_000);
        browser.go_to(&page(server, session));
        browser.await_playing();
        assert_eq!(
            browser.look(&format!("{VIDEO}.dataset.url")),
            stream(server, session),
            "the body itself"
        );
    }
}

#[test]
#[ignore = "needs Chromium and ffmpeg"]
fn chromium_plays_by_itself_what_it_can() {
    let server = Server::gated(&[]);
    plays_all(&server, &mut Browser::open("watch", "about:blank"));
}

#[test]
#[ignore = "needs Firefox and ffmpeg"]
fn firefox_plays_by_itself_what_it_can() {
    let server = Server::gated(&[]);
    let mut browser = Firefox::open("watch");
    plays_all(&server, &mut browser);
    // Most clusters of this one have no key frame. Firefox would drop their pictures.
    server.admit("clusters");
    let codecs = [&VP8[..6], &["-g", "100", "-c:a", "libopus"]].concat();
    let output = [&["-cluster_time_limit", "250", "-flush_packets", "1"], WEBM].concat();
    let _encoder = publish(&stream(&server, "clusters"), &codecs, &output);
    await_media(&server, "clusters", 8_000);
    browser.go_to(&page(&server, "clusters"));
    browser.await_playing();
    browser.await_page(&format!("{VIDEO}.src.startsWith('blob:')"));
    let frames = browser.look(&format!(
        "{VIDEO}.getVideoPlaybackQuality().totalVideoFrames"
    ));
    assert!(frames.as_u64() > Some(50), "{frames} of a hundred");
}

/// The code of docs/remuxing.md, in a page without a policy of its own.
#[test]
#[ignore = "needs Chromium, Firefox and ffmpeg"]
fn an_embedded_stream_shows_its_poster_and_plays_by_a_click() {
    let docs = include_str!("../../docs/remuxing.md");
    let code = docs.split("```html\n").nth(1).expect("an example");
    let code = code.split("\n```").next().expect("its end");
    let server = Server::gated(&[]);
    server.admit("ID");
    let _encoder = publish(&stream(&server, "ID"), H264, FLV);
    await_media(&server, "ID", 30_000);
    let page = format!("http://{}/metrics", server.address());
    let mut chromium = Browser::open("embed", "about:blank");
    let mut firefox = Firefox::open("embed");
    let browsers: [&mut dyn Shows; 2] = [&mut chromium, &mut firefox];
    for browser in browsers {
        browser.go_to(&page);
        browser.look(&format!("document.body.innerHTML = `{code}`"));
        browser.await_page(&format!(
            "{VIDEO}.readyState >= 2 && {VIDEO}.videoWidth == 160 && {VIDEO}.paused"
        ));
        server.await_viewers("ID", 0);
        browser.look(&format!("{VIDEO}.click()"));
        browser.await_page(&format!(
            "{VIDEO}.src.endsWith('/live.mp4') && {VIDEO}.currentTime > 2"
        ));
        browser.go_to("about:blank#left");
    }
}

/// A waiting page plays the next stream, shows its end, and plays the one after. So does a page
/// whose source breaks off.
fn comes_back(server: &Server, browser: &mut impl Shows) {
    server.admit("tv");
    browser.go_to(&page(server, "tv"));
    browser.await_state("waiting");
    let url = stream(server, "tv");
    // Long enough for a page that polls and begins late on a busy machine.
    let short = [&["-t", "12"], WEBM].concat();
    let mut encoder = publish(&url, VP8, &short);
    browser.await_state("playing");
    assert!(encoder.ends_well());
    browser.await_state("ended");
    let encoder = publish(&url, VP8, WEBM);
    browser.await_playing();
    drop(encoder);
    browser.await_page("document.body.dataset.state != 'playing'");
    let _encoder = publish(&url, VP8, WEBM);
    browser.await_playing();
    assert_eq!(server.stream("tv").expect("it runs")["viewers"], 1);
}

#[test]
#[ignore = "needs Chromium and ffmpeg"]
fn chromium_comes_back_by_itself() {
    let server = Server::gated(&[]);
    comes_back(&server, &mut Browser::open("back", "about:blank"));
}

#[test]
#[ignore = "needs Firefox and ffmpeg"]
fn firefox_comes_back_by_itself() {
    let server = Server::gated(&[]);
    comes_back(&server, &mut Firefox::open("back"));
}

/// Its source is killed and comes back, and what it sends is remuxed for the browser: the page
/// plays on over the seam, by itself and without asking for it anew.
#[test]
#[ignore = "needs Chromium and ffmpeg"]
fn a_remuxed_stream_is_played_over_its_seam() {
    let server = Server::gated(&["--hold=60"]);
    let mut browser = Browser::open("over", "about:blank");
    for (session, container) in [("ts", TRANSPORT), ("flv", FLV)] {
        server.admit(session);
        let url = stream(&server, session);
        let encoder = publish(&url, H264, container);
        browser.go_to(&page(&server, session));
        browser.await_playing();
        let source = browser.look(&format!("{VIDEO}.dataset.url"));
        assert!(source.as_str().expect("an address").ends_with("/live.mp4"));
        // It is asked for anew if the page asks.
        browser.look(&format!(
            "{VIDEO}.onemptied = () => {{ window.isAnew = true; }}, true"
        ));
        drop(encoder);
        until("the stream is held", || {
            server.stream(session)?["held"].as_bool()?.then_some(())
        });
        let held = browser.look(&format!("{VIDEO}.currentTime"));
        browser.await_state("playing");
        let _encoder = publish(&url, H264, container);
        browser.await_page(&format!("{VIDEO}.currentTime > {held} + 12"));
        browser.await_page("document.body.dataset.state == 'playing' && !window.isAnew");
        browser.await_page(&format!(
            "document.body.className.indexOf('late') < 0 && !{VIDEO}.paused"
        ));
    }
}

/// A browser like an iPhone's has no MediaSource, and takes HLS. Chromium plays HLS, too.
#[test]
#[ignore = "needs Chromium and ffmpeg"]
fn without_media_source_a_stream_is_played_as_hls() {
    let server = Server::gated(&[]);
    let mut browser = Browser::open("iphone", "about:blank");
    browser.prepare(
        "delete window.MediaSource; HTMLMediaElement.prototype.webkitShowPlaybackTargetPicker = () => {};",
    );
    for (session, container) in [("ts", TRANSPORT), ("mp4", FRAGMENTS), ("flv", FLV)] {
        server.admit(session);
        let _encoder = publish(&stream(&server, session), H264, container);
        browser.go_to(&page(&server, session));
        browser.await_playing();
        let source = browser.look(&format!("{VIDEO}.src"));
        assert!(
            source
                .as_str()
                .expect("an address")
                .ends_with("/index.m3u8")
        );
    }
}

/// A page that gets nothing for a while plays a little faster afterwards, and not slower before that.
/// After a longer while it jumps. Either way it is back at the live edge, at its usual speed.
#[test]
#[ignore = "needs Chromium and ffmpeg"]
fn a_page_catches_up_after_a_stall() {
    let server = Server::gated(&[]);
    server.admit("ts");
    let _encoder = publish(&stream(&server, "ts"), H264, TRANSPORT);
    let mut browser = Browser::open("stall", "about:blank");
    browser.go_to(&page(&server, "ts"));
    browser.await_playing();
    browser.look(&format!(
        "window.seeks = 0, {VIDEO}.onseeking = () => {{ window.seeks += 1; }}, \
         {VIDEO}.onwaiting = () => {{ window.stalled ??= performance.now(); }}, \
         {VIDEO}.addEventListener('timeupdate', () => {{ window.wasSlower ||= {VIDEO}.playbackRate < 1; }}), \
         window.lasts = (ms) => performance.now() - window.stalled > ms, \
         window.ahead = () => {VIDEO}.buffered.end({VIDEO}.buffered.length - 1) - {VIDEO}.currentTime, true"
    ));
    let stall = |browser: &mut Browser, milliseconds: u32| {
        browser.look("window.stalled = undefined, true");
        server.signal("STOP");
        browser.await_page(&format!("window.lasts({milliseconds})"));
        browser.look("window.seeks = 0, window.wasSlower = false, true");
        server.signal("CONT");
    };
    let is_normal = format!("window.ahead() < 1.2 && {VIDEO}.playbackRate == 1");
    // After a short stall it plays faster. On a busy machine the stall may last longer, and it jumps.
    let is_faster = format!("{VIDEO}.playbackRate > 1");
    let has_caught_up = |browser: &mut Browser| {
        stall(browser, 1500);
        browser.await_page(&format!("{is_faster} || window.seeks > 0"));
        let by_speed = browser.look(&format!(
            "{is_faster} && window.seeks == 0 && !window.wasSlower"
        ));
        browser.await_page(&is_normal);
        by_speed == true
    };
    let mut tries = 0..5;
    assert!(tries.any(|_| has_caught_up(&mut browser)), "it jumps");
    stall(&mut browser, 5000);
    browser.await_page("window.seeks > 0");
    browser.await_page(&is_normal);
    browser.await_state("playing");
}

/// A page without access says so. With a new token it waits for the stream, until the token is
/// revoked.
#[test]
#[ignore = "needs Chromium"]
fn who_may_not_watch_is_told_so() {
    let server = Server::gated(&[]);
    let mut browser = Browser::open("refused", "about:blank");
    browser.go_to(&page(&server, "tv"));
    browser.await_state("refused");
    let says = "document.body.textContent.includes('no http token')";
    browser.await_page(says);
    server.admit("tv");
    browser.look("document.querySelector('#go').click()");
    browser.await_true("document.body?.dataset.state == 'waiting'");
    let revoked = server.request("DELETE", "/api/revoke-token?sessionid=tv");
    assert_eq!(revoked.status(), 200);
    browser.await_state("refused");
    browser.await_page(says);
}

/// MPEG-TS is no browser's: Chromium plays it as HLS; without that both say how else to watch.
#[test]
#[ignore = "needs Chromium, Firefox and ffmpeg"]
fn what_does_not_play_is_said_and_where_it_does() {
    let server = Server::gated(&["--hls=off", "--remux=off"]);
    server.admit("ts");
    let url = stream(&server, "ts");
    let _encoder = publish(&url, H264, TRANSPORT);
    await_media(&server, "ts", 30_000);
    let mut chromium = Browser::open("ts", "about:blank");
    let mut firefox = Firefox::open("ts");
    let browsers: [&mut dyn Shows; 2] = [&mut chromium, &mut firefox];
    for browser in browsers {
        browser.go_to(&page(&server, "ts"));
        browser.await_state("unplayable");
        let text = browser.look("document.querySelector('#text').textContent");
        assert!(text.as_str().expect("words").contains("MPEG-TS"), "{text}");
        browser.await_page("document.querySelector('#elsewhere').open");
        assert_eq!(
            browser.look("document.querySelector('#address').value"),
            url
        );
        let command = browser.look("document.querySelector('#command').value");
        assert_eq!(command, format!("ffplay \"{url}\""));
    }
    let ways = [
        (&["--remux=off"][..], TRANSPORT, "/index.m3u8", false),
        (&[], TRANSPORT, "/live.mp4", true),
        (&[], FLV, "/live.mp4", true),
    ];
    for (options, container, way, is_for_firefox) in ways {
        let server = Server::gated(options);
        server.admit("ts");
        let _encoder = publish(&stream(&server, "ts"), H264, container);
        let browsers: [(&mut dyn Shows, bool); 2] =
            [(&mut chromium, true), (&mut firefox, is_for_firefox)];
        for (browser, _) in browsers.into_iter().filter(|(_, is_for)| *is_for) {
            browser.go_to(&page(&server, "ts"));
            browser.await_playing();
            let source = browser.look(&format!("{VIDEO}.dataset.url"));
            assert!(source.as_str().expect("an address").ends_with(way));
        }
    }
}

/// A browser without a decoder for the picture names the codec and other players. It plays no
/// sound beside a black picture.
#[test]
#[ignore = "needs Chromium, Firefox and ffmpeg"]
fn a_picture_without_a_decoder_is_named() {
    const H265: &[&str] = &["-c:v", "libx265", "-preset", "ultrafast", "-g", "25"];
    const THEORA: &[&str] = &["-c:v", "libtheora", "-c:a", "libvorbis", "-f", "ogg"];
    const ENHANCED: &[&str] = &["-c:a", "aac", "-f", "matroska"];
    let server = Server::gated(&[]);
    let mut chromium = Browser::open("codecs", "about:blank");
    let mut firefox = Firefox::open("codecs");
    for (session, codec, codecs, output) in [
        ("ts", "H.265", H265, TRANSPORT),
        ("mkv", "H.265", H265, ENHANCED),
        ("mp4", "H.265", H265, FRAGMENTS),
        ("ogg", "Theora", THEORA, &[]),
    ] {
        server.admit(session);
        let _encoder = publish(&stream(&server, session), codecs, output);
        await_media(&server, session, 20_000);
        let browsers: [&mut dyn Shows; 2] = [&mut chromium, &mut firefox];
        for browser in browsers {
            browser.go_to(&page(&server, session));
            browser.await_page("!['starting', 'waiting'].includes(document.body.dataset.state)");
            // Firefox decodes H.265 where the system's libraries do.
            if codec == "H.265" && browser.look("document.body.dataset.state") == "playing" {
                browser.await_page(&format!(
                    "{VIDEO}.getVideoPlaybackQuality().totalVideoFrames > 0"
                ));
                continue;
            }
            browser.await_page(&format!(
                "document.querySelector('#title').textContent == 'This browser cannot show this picture ({codec})'"
            ));
            browser.await_state("unplayable");
            let links = "document.querySelector('#vlc').href.startsWith('blob:') && document.querySelector('#hls').value";
            assert_eq!(
                browser.look(links),
                format!("{}/index.m3u8", stream(&server, session))
            );
        }
    }
}

/// MPEG-2 is not remuxed: the page plays the sound alone, and says so.
#[test]
#[ignore = "needs Chromium and ffmpeg"]
fn a_picture_that_is_not_remuxed_is_missed() {
    let server = Server::gated(&[]);
    let mut browser = Browser::open("missed", "about:blank");
    for (session, codecs, form) in [
        (
            "mpeg2",
            &["-c:v", "mpeg2video"],
            "MPEG-TS, as MP4, without a picture",
        ),
        ("h264", &["-c:v", "libx264"], "MPEG-TS, as MP4"),
    ] {
        server.admit(session);
        let _encoder = publish(&stream(&server, session), codecs, TRANSPORT);
        browser.go_to(&page(&server, session));
        browser.await_playing();
        let shown = browser.look("document.querySelector('#form').textContent");
        assert_eq!(shown, form);
    }
}

/// A viewer reads why there is no picture, in words of its own.
#[test]
#[ignore = "needs Chromium"]
fn a_viewer_reads_why_there_is_no_picture() {
    let server = Server::gated(&[]);
    let mut browser = Browser::open("words", "about:blank");
    let title = |text: &str| {
        format!("document.querySelector('#title, h1:not(.unseen)').textContent == '{text}'")
    };
    browser.go_to(&page(&server, "tv"));
    browser.await_page(&title("This link does not work"));
    server.add_token("sessionid=tv");
    server.add_token("sessionid=one&for=tv&direction=out&max-viewers=1");
    server.add_token("sessionid=short&for=tv&direction=out&ends=1");
    browser.go_to(&page(&server, "one"));
    browser.await_page(&title("The stream has not started yet"));
    let mut source = Source::open(server.address(), "/stream/tv");
    source.send(b"hello");
    let mut viewer = Viewer::ask(server.address(), "/stream/one");
    viewer.head();
    browser.go_to(&page(&server, "one"));
    browser.await_page(&title("All places are taken"));
    until("the token ends", || {
        (server.request("HEAD", "/watch/short").status() == 403).then_some(())
    });
    browser.go_to(&page(&server, "short"));
    browser.await_page(&title("This link has expired"));
    let abort = server.request("DELETE", "/api/abort-stream?sessionid=tv&block=60");
    assert_eq!(abort.status(), 200);
    browser.go_to(&page(&server, "tv"));
    browser.await_page(&title("Paused by the operator"));
    drop(source);
}

/// What is in no path of a stream, and what a shell would take for something else.
#[test]
#[ignore = "needs Chromium"]
fn any_session_can_be_watched() {
    let server = Server::gated(&[]);
    let mut browser = Browser::open("names", "about:blank");
    for (written, path) in [
        ("/watch/a%2Fb", "/stream/a%2Fb"),
        ("/watch?sessionid=a/b", "/stream/a%2Fb"),
        ("/watch?sessionid=a+b", "/stream/a%2Bb"),
        ("/watch?sessionid=..", "/stream?sessionid=.."),
        ("/watch/$(x)'%22", "/stream/%24%28x%29%27%22"),
        ("/watch/%E2%98%83", "/stream/%E2%98%83"),
    ] {
        let name = path.trim_start_matches("/stream").trim_start_matches('/');
        let name = name.trim_start_matches("?sessionid=");
        server.request(
            "POST",
            &format!("/api/add-token?type=http&sessionid={name}"),
        );
        browser.go_to(&format!("http://{}{written}", server.address()));
        browser.await_state("waiting");
        let address = browser.look("document.querySelector('#address').value");
        assert_eq!(address, format!("http://{}{path}", server.address()));
        let target = path.replace("/stream", "/watch");
        assert_eq!(server.request("HEAD", &target).status(), 200);
    }
}

/// However long nothing comes, it asks some times a minute.
#[test]
#[ignore = "needs Chromium"]
fn it_does_not_ask_too_often() {
    let server = Server::gated(&[]);
    server.admit("tv");
    let mut browser = Browser::open("often", "about:blank");
    browser.go_to(&page(&server, "tv"));
    browser.await_page("performance.now() > 25e3");
    let asked = browser.look(
        "performance.getEntriesByType('resource').filter((entry) => entry.initiatorType == 'fetch').length",
    );
    let asked = asked.as_u64().expect("a number");
    assert!((2..=16).contains(&asked), "{asked} in 25 s");
}
