//! Chromium: it plays a stream that it joins late, runs none that is a page, and shows the
//! operator's page.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Command;

use super::devtools::Browser;
use super::support::client::Client;
use super::support::server::Server;
use super::support::streaming::Source;
use super::support::until;
use super::tools::*;

const VIDEO: &str = "document.querySelector('video')";

/// A stream opened by itself: the browser makes a page of its own around it, in which, since it is
/// in a sandbox, the user starts it.
fn watch(name: &str, url: &str) -> Browser {
    let mut browser = Browser::open(name, url);
    browser.await_true(&format!("({VIDEO}?.readyState ?? 0) >= 2"));
    browser.press_space();
    browser
}

#[test]
#[ignore = "needs Chromium and ffmpeg"]
fn a_video_joins_late_and_plays_on() {
    let server = Server::gated(&[]);
    server.admit("tv");
    let url = format!("http://{}/stream/tv", server.address());
    let _encoder = publish(&url, VP8, &["-f", "webm"]);
    await_media(&server, "tv", 150_000);
    let mut browser = watch("video", &url);
    browser.await_true(&format!(
        "{VIDEO}?.videoWidth == 160 && {VIDEO}.currentTime > 0"
    ));
    browser.evaluate(&format!("window.begun = {VIDEO}.currentTime; true"));
    browser.await_true(&format!("{VIDEO}.currentTime >= window.begun + 10"));
    assert_eq!(
        browser.evaluate(&format!(
            "{VIDEO}.error === null && !{VIDEO}.paused && !{VIDEO}.ended"
        )),
        true
    );
}

#[test]
#[ignore = "needs Chromium and ffmpeg"]
fn a_video_plays_through_when_its_source_is_killed_and_comes_back() {
    let server = Server::gated(&["--hold=60"]);
    let fragments = &[H264, &["-c:a", "aac"]].concat();
    let pieces = ["-movflags", "frag_keyframe+empty_moov+default_base_moof"];
    let ways: [(&str, &[&str], &[&str]); 2] = [
        ("webm", VP8, &["-f", "webm"]),
        ("mp4", fragments, &[&["-f", "mp4"], &pieces[..]].concat()),
    ];
    for (session, codecs, output) in ways {
        server.admit(session);
        let url = format!("http://{}/stream/{session}", server.address());
        let encoder = publish(&url, codecs, output);
        await_media(&server, session, 30_000);
        let mut browser = watch(&format!("hold-{session}"), &url);
        browser.await_true(&format!("({VIDEO}?.currentTime ?? 0) > 2"));
        drop(encoder);
        until("the stream is held", || {
            server.stream(session)?["held"].as_bool()?.then_some(())
        });
        browser.evaluate(&format!("window.held = {VIDEO}.currentTime; true"));
        let _encoder = publish(&url, codecs, output);
        // Far more than the browser had kept of the first.
        browser.await_true(&format!("{VIDEO}.currentTime >= window.held + 10"));
        let plays = format!("{VIDEO}.error === null && !{VIDEO}.paused && !{VIDEO}.ended");
        assert_eq!(browser.evaluate(&plays), true, "{session}");
        let stream = server.stream(session).expect("it runs");
        assert_eq!(stream["viewers"], 1, "{session}: it is the same viewer");
    }
}

#[test]
#[ignore = "needs Chromium and ffmpeg"]
fn sound_opened_by_itself_plays() {
    let server = Server::gated(&[]);
    for (session, codec, format) in [
        ("mp3", "libmp3lame", "mp3"),
        ("ogg", "libvorbis", "ogg"),
        ("aac", "aac", "adts"),
    ] {
        server.admit(session);
        let url = format!("http://{}/stream/{session}", server.address());
        let output = ["-vn", "-c:a", codec, "-f", format];
        let _encoder = publish(&url, &[], &output);
        await_media(&server, session, 10_000);
        let mut browser = watch(session, &url);
        browser.await_true(&format!("{VIDEO}.currentTime > 2"));
    }
}

const SCRIPTS: &str = "<!doctype html><title>as it was</title>\
    <body onload=\"document.title = 'onload'\"><script>document.title = 'script'</script>\
    <img src=/image onerror=\"document.title = 'onerror'\">\
    <svg><script>document.title = 'svg'</script></svg>\
    <iframe srcdoc=\"<script>parent.document.title = 'frame'</script>\"></iframe>";

/// The title of the page when it is served with these fields and the browser has loaded it.
fn title_under(browser: &mut Browser, fields: &str) -> String {
    let site = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = site.local_addr().expect("its address");
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n{fields}\r\n{SCRIPTS}",
        SCRIPTS.len()
    );
    std::thread::spawn(move || {
        for client in site.incoming().flatten() {
            let answer = answer.clone();
            // A browser opens connections that it does not use.
            std::thread::spawn(move || {
                let mut client = BufReader::new(client);
                let mut line = String::new();
                while client.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
                    line.clear();
                }
                let _ = client.get_mut().write_all(answer.as_bytes());
            });
        }
    });
    assert_eq!(browser.go(&format!("http://{address}/")), None);
    browser.await_true("document.readyState == 'complete'");
    let title = browser.evaluate("document.title");
    title.as_str().expect("a title").to_owned()
}

#[test]
#[ignore = "needs Chromium"]
fn a_stream_that_is_a_page_runs_nothing() {
    let server = Server::gated(&[]);
    server.admit("page");
    let html = ["Content-Type: text/html"];
    let mut source = Source::open_with(server.address(), "PUT", "/stream/page", &html);
    source.send(SCRIPTS.as_bytes());
    let mut browser = Browser::open("scripts", "about:blank");

    // If a browser did take it for a page.
    let head = server.request("HEAD", "/stream/page").head;
    let policy = head.field("Content-Security-Policy").expect("a policy");
    let policy = format!("Content-Security-Policy: {policy}\r\n");
    assert_eq!(title_under(&mut browser, &policy), "as it was");
    assert_eq!(title_under(&mut browser, ""), "onload", "they would run");

    // It takes it for a file. (It may close the tab then: nothing can be asked of it any more.)
    let url = format!("http://{}/stream/page", server.address());
    assert_eq!(browser.go(&url).as_deref(), Some("net::ERR_ABORTED"));
}

#[test]
#[ignore = "needs Chromium and ffmpeg"]
fn the_page_adds_a_token_shows_the_stream_plays_and_aborts_it() {
    let server = Server::gated(&[]);
    let mut browser = Browser::open("page", &format!("http://{}/", server.address()));
    browser.await_true("document.querySelector('#add-form')?.checkVisibility() ?? false");
    browser.evaluate(
        "document.querySelector('#add-id').value = 'tv'; document.querySelector('#add-button').click(); true",
    );
    browser.await_true("document.querySelectorAll('#token-list li').length == 1");
    assert_eq!(server.tokens().len(), 1);

    let url = format!("http://{}/stream/tv", server.address());
    let _encoder = publish(&url, VP8, &["-f", "webm"]);
    browser.await_true("document.querySelectorAll('#stream-table .abort').length == 1");
    browser.evaluate("document.querySelector('#stream-table .watch').click(); true");
    browser.await_true(&format!("({VIDEO}?.currentTime ?? 0) > 1"));

    browser.evaluate("document.querySelector('#stream-table .abort').click(); true");
    browser.await_true("document.querySelector('#ask').open");
    assert!(server.stream("tv").is_some(), "it asks first");
    browser.evaluate("document.querySelector('#ask-yes').click(); true");
    browser.await_true("document.querySelectorAll('#stream-table .abort').length == 0");
    assert!(server.stream("tv").is_none());
}

/// An encoder often sends its head some time before its first byte. Who opens the player in
/// between sees the stream as soon as the server knows its format.
#[test]
#[ignore = "needs Chromium and ffmpeg"]
fn a_player_opened_before_the_format_is_known_plays_later() {
    let server = Server::gated(&[]);
    server.admit("tv");
    let mut source = Source::open(server.address(), "/stream/tv");
    let mut browser = Browser::open("early", &format!("http://{}/", server.address()));
    browser.await_true("document.querySelectorAll('#stream-table .abort').length == 1");
    browser.evaluate("document.querySelector('#stream-table .watch').click(); true");
    browser.await_true(
        "document.querySelector('.player p')?.textContent.includes('knows its format')",
    );

    let (mut film, output) = std::io::pipe().expect("a pipe");
    let mut encoder = Command::new("ffmpeg");
    encoder.args([&["-v", "error"], PICTURE, SOUND, VP8, &["-f", "webm", "-"]].concat());
    encoder.stdout(output);
    let _encoder = Background::of(encoder);
    std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(bytes @ 1..) = film.read(&mut piece) {
            if !source.try_send(&piece[..bytes]) {
                return;
            }
        }
    });
    browser.await_true(&format!("({VIDEO}?.currentTime ?? 0) > 1"));
}

/// A stream whose source is gone and whose rest goes out stands beside one that runs.
#[test]
#[ignore = "needs Chromium"]
fn the_page_goes_on_while_a_stream_drains() {
    const ROWS: &str = "document.querySelectorAll('#stream-table .abort').length";
    let server = Server::gated(&["--source-idle-time=60", "--body-rate=0"]);
    server.admit("plain");
    server.admit("drain");
    let mut plain = Source::open(server.address(), "/stream/plain");
    plain.send(b"hello");
    let mut browser = Browser::open("drain", &format!("http://{}/", server.address()));
    browser.await_true(&format!("{ROWS} == 1"));
    // It reads nothing: what the sockets do not hold stays with the server.
    let mut stalled = Client::connect(server.address());
    let mut drain = Source::open(server.address(), "/stream/drain");
    stalled.send_head("GET", "/stream/drain", &[]);
    server.await_viewers("drain", 1);
    drain.send(&vec![0x47; 7 << 20]);
    assert_eq!(drain.finish().status(), 200);
    until("the rest goes out", || {
        (!server.draining("drain").is_empty()).then_some(())
    });
    browser.await_true(&format!("{ROWS} == 2"));
    let plain_shows = "[...document.querySelectorAll('#stream-table .source')].some((place) => place.textContent.startsWith('HTTP 127.0.0.1:'))";
    let drain_shows = "[...document.querySelectorAll('#stream-table .source')].some((place) => place.textContent.startsWith('gone'))";
    browser.await_true(&format!("{plain_shows} && {drain_shows}"));
    browser.await_true("document.querySelector('#state').className == 'live'");
    assert_eq!(
        browser.evaluate("document.querySelector('#stream-table').hidden"),
        false
    );
    // The answers after it are shown, too.
    plain.send(&[7; 4096]);
    browser.await_true(
        "[...document.querySelectorAll('#stream-table .received')].some((place) => place.textContent.startsWith('4.1'))",
    );
    browser.evaluate("[...document.querySelectorAll('#stream-table .abort')].at(-1).click(); true");
    browser.await_true("document.querySelector('#ask').open");
    browser.await_true(
        "document.querySelector('#ask-text').textContent.startsWith('Its source is gone')",
    );
    browser.evaluate("document.querySelector('#ask-yes').click(); true");
    browser.await_true(&format!("{ROWS} == 1"));
    assert!(server.draining("drain").is_empty());
}
