//! HLS in Chromium: by its own player, and by hls.js, a library for pages. That is fetched from
//! npm's registry when it is needed.

use std::time::Duration;

use super::devtools::Browser;
use super::hls::{STREAMS, await_list, await_segments, list_url, publish_for};
use super::support::server::Server;
use super::support::until;
use super::tools::*;

const VIDEO: &str = "document.querySelector('video')";
const PLAYER: &str = "document.body.innerHTML = '<video autoplay muted></video>'";
/// Those with pictures.
const BOTH: [usize; 2] = [0, 1];

/// A page on which the browser's own player plays this.
fn native(name: &str, url: &str) -> Browser {
    let mut browser = Browser::open(name, "about:blank");
    browser.evaluate(&format!("{PLAYER}; {VIDEO}.src = '{url}'; true"));
    browser
}

/// A page on which hls.js plays. It records fatal errors.
fn scripted(name: &str, url: &str) -> Browser {
    let mut browser = Browser::open(name, "about:blank");
    let library = from_npm("hls.js", "1.7.4", "dist/hls.min.js");
    browser.evaluate(&format!("{library}; true"));
    browser.evaluate(&format!(
        "{PLAYER}; window.faults = []; window.hls = new Hls();
         hls.on(Hls.Events.ERROR, (_, data) => {{ if (data.fatal) faults.push(data.details); }});
         hls.loadSource('{url}'); hls.attachMedia({VIDEO}); true"
    ));
    browser
}

/// Waits until it has played `seconds` from here.
fn plays_on(browser: &mut Browser, seconds: u32) {
    browser.await_true(&format!("{VIDEO}.videoWidth == 160"));
    is_heard(browser, seconds);
}

/// The same, without pictures.
fn is_heard(browser: &mut Browser, seconds: u32) {
    browser.await_true(&format!("{VIDEO}.currentTime > 0"));
    browser.evaluate(&format!("window.begun = {VIDEO}.currentTime; true"));
    browser.await_true(&format!("{VIDEO}.currentTime >= begun + {seconds}"));
    let is_well = format!("{VIDEO}.error === null && (window.faults ?? []).length == 0");
    assert_eq!(browser.evaluate(&is_well), true);
}

fn joins_late(open: fn(&str, &str) -> Browser, name: &str) {
    let server = Server::start(&["--hls-segment=1", "--cors=*"]);
    let encoders = BOTH.map(|index| {
        let (session, codecs, output) = STREAMS[index];
        publish_for(&server, session, "120", codecs, output)
    });
    for index in BOTH {
        let session = STREAMS[index].0;
        await_segments(&server, session, 8);
        let mut browser = open(&format!("{name}-{session}"), &list_url(&server, session));
        plays_on(&mut browser, 8);
    }
    drop(encoders);
}

#[test]
#[ignore = "needs Chromium and ffmpeg"]
fn chromiums_own_player_joins_late_and_plays_on() {
    joins_late(native, "native");
}

#[test]
#[ignore = "needs Chromium, npm and ffmpeg"]
fn hls_js_joins_late_and_plays_on() {
    joins_late(scripted, "scripted");
}

/// Sound alone joins late and plays on, and every second of it is there.
fn joins_sound(index: usize, open: fn(&str, &str) -> Browser, name: &str) {
    let server = Server::start(&["--hls-segment=1", "--cors=*"]);
    let (session, codecs, output) = STREAMS[index];
    let _encoder = publish_for(&server, session, "120", codecs, output);
    await_segments(&server, session, 8);
    let mut browser = open(&format!("{name}-{session}"), &list_url(&server, session));
    is_heard(&mut browser, 8);
    let buffered = format!("{VIDEO}.buffered.length");
    assert_eq!(browser.evaluate(&buffered), 1, "there is no gap in it");
    let decoded = format!("{VIDEO}.webkitAudioDecodedByteCount > 1000");
    assert_eq!(browser.evaluate(&decoded), true);
}

#[test]
#[ignore = "needs Chromium, npm and ffmpeg"]
fn hls_js_plays_mp3() {
    joins_sound(2, scripted, "sound");
}

#[test]
#[ignore = "needs Chromium, npm and ffmpeg"]
fn hls_js_plays_aac() {
    joins_sound(3, scripted, "sound");
}

#[test]
#[ignore = "needs Chromium and ffmpeg"]
fn chromiums_own_player_plays_aac() {
    joins_sound(3, native, "alone");
}

/// What the source's end makes of its stream: held, it goes on after a seam; else another begins,
/// with names and numbers of its own.
fn plays_past(held: &str, name: &str) {
    let server = Server::start(&["--hls-segment=1", "--cors=*", held]);
    for index in BOTH {
        let (session, codecs, output) = STREAMS[index];
        let first = publish_for(&server, session, "120", codecs, output);
        await_segments(&server, session, 6);
        let url = list_url(&server, session);
        let mut browser = scripted(&format!("{name}-{session}"), &url);
        plays_on(&mut browser, 2);
        drop(first);
        let _second = publish_for(&server, session, "120", codecs, output);
        // More than it played of the first stream.
        plays_on(&mut browser, 15);
    }
}

#[test]
#[ignore = "needs Chromium, npm and ffmpeg"]
fn hls_js_plays_past_a_seam() {
    plays_past("--hold=30", "seam");
}

#[test]
#[ignore = "needs Chromium, npm and ffmpeg"]
fn hls_js_plays_past_a_source_that_begins_anew() {
    plays_past("--hold=0", "anew");
}

/// Fragments of a quarter of a second make parts. hls.js takes them, ffmpeg takes whole segments.
#[test]
#[ignore = "needs Chromium, npm and ffmpeg"]
fn hls_js_plays_parts_and_ffmpeg_does_without() {
    let server = Server::start(&["--cors=*"]);
    let output = [
        "-tune",
        "zerolatency",
        "-frag_duration",
        "250000",
        "-flush_packets",
        "1",
    ];
    let (_, codecs, fragments) = STREAMS[1];
    let output = [&output, fragments].concat();
    let _encoder = publish_for(&server, "parts", "120", codecs, &output);
    await_segments(&server, "parts", 4);
    let list = server.request("GET", "/stream/parts/index.m3u8").text();
    assert!(list.contains("#EXT-X-PART:"), "{list}");
    let url = list_url(&server, "parts");
    let played = run(
        "ffmpeg",
        &[
            "-v", "error", "-xerror", "-i", &url, "-t", "4", "-f", "null", "-",
        ],
    );
    let said = String::from_utf8_lossy(&played.stderr).into_owned();
    assert!(played.status.success() && said.is_empty(), "{said}");
    let mut browser = scripted("parts", &url);
    plays_on(&mut browser, 10);
    let part = "performance.getEntriesByType('resource').some((entry) => /\\.\\d+\\.m4s$/.test(entry.name))";
    assert_eq!(browser.evaluate(part), true, "it takes parts");
}

/// A playlist that is opened by itself is a page of the browser, in a sandbox: the user starts it.
/// On a busy machine Chromium sometimes has all media (`readyState` 4) and does not start, with any
/// server. The user loads the page again then.
#[test]
#[ignore = "needs Chromium and ffmpeg"]
fn chromium_opens_a_playlist_by_itself() {
    let server = Server::start(&["--hls-segment=1"]);
    let (session, codecs, output) = STREAMS[0];
    let _encoder = publish_for(&server, session, "120", codecs, output);
    await_list(&server, session);
    let goes = (0..5).any(|attempt| {
        let name = format!("hls-alone-{attempt}");
        let mut browser = Browser::open(&name, &list_url(&server, session));
        browser.await_true(&format!("({VIDEO}?.readyState ?? 0) >= 2"));
        until("it is started", || {
            browser.press_space();
            (browser.evaluate(&format!("!{VIDEO}.paused")) == true).then_some(())
        });
        let goes =
            browser.is_true_within(Duration::from_secs(8), &format!("{VIDEO}.currentTime > 0"));
        if goes {
            plays_on(&mut browser, 3);
        }
        goes
    });
    assert!(goes, "it stands still, however often it is opened");
}
