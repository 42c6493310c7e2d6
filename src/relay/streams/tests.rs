//! All streams, in a simulated server: their figures and rows, rate limits and cut-offs.

use std::net::SocketAddr;

use serde_json::Value;

use super::{CutReason, Cuts, StreamSource, UDP_CLIENTS_SHOWN_MAX};
use crate::format::mpegts::{PACKET_BYTES, SYNC_BYTE};
use crate::gate::SessionId;
use crate::gate::session as name;
use crate::relay::counts::Count;
use crate::relay::stage::Stage;
use crate::relay::stage::request;
use crate::relay::viewer_id::Mark;
use crate::relay::{ConnectionId, PullId, StreamId};
use crate::rtp::Packet;
use crate::stream::Outcome;

const CLIENT: &str = "10.2.0.1:6000";
const CAMERA: &str = "10.2.0.2:6000";

fn stage(options: &[&str]) -> Stage {
    let mut stage = Stage::new(&[&["--token-server=10.0.0.0/24"], options].concat());
    stage.relay.set_rtp(SocketAddr::from(([10, 0, 0, 9], 5004)));
    stage
}

fn add(stage: &mut Stage, query: &str) {
    let id = request(stage, &format!("POST /api/add-token?{query}"));
    stage.assert_status(id, 201);
}

fn put(stage: &mut Stage, session: &str, media: &[u8]) -> ConnectionId {
    let head = format!(
        "PUT /stream/{session} HTTP/1.1\r\nHost: h\r\nContent-Type: audio/x\r\nContent-Length: 99999999\r\n\r\n"
    );
    let source = stage.client(&head);
    stage.send_media(source, media);
    source
}

/// Returns MPEG-TS packets whose clock stands still.
pub(super) fn packets(count: usize) -> Vec<u8> {
    let mut packet = [0xff; PACKET_BYTES];
    packet[..12].copy_from_slice(&[SYNC_BYTE, 1, 0, 0x30, 7, 0x10, 0, 0, 0, 0, 0x7e, 0]);
    packet.repeat(count)
}

/// Sends every datagram that is due. `not_taken` gives the counts that the kernel refused. Returns
/// how many datagrams were sent.
fn post(stage: &mut Stage, not_taken: impl Fn(usize) -> Vec<usize>) -> usize {
    let (mut sent, mut counts) = (0, Vec::new());
    while let Some(datagrams) = stage.relay.next_datagrams(stage.now, &counts) {
        sent += datagrams.count();
        counts = not_taken(datagrams.to.len());
    }
    stage.settle();
    sent
}

fn rows(stage: &Stage, after: Mark) -> Vec<(Mark, Value)> {
    let rows = stage.relay.streams.rows(after, &stage.relay.ctx);
    let rows = rows.map(|(mark, row)| (mark, serde_json::to_value(&row).expect("a row")));
    rows.collect()
}

fn only_live(stage: &Stage) -> StreamId {
    stage
        .relay
        .streams
        .streams
        .iter()
        .next()
        .expect("a stream")
        .0
}

/// The rate is 100,000 bytes a second, with a second's worth at once: 76 datagrams of 1,328 bytes.
/// Each source is reported once.
#[test]
fn datagrams_beyond_a_tokens_rate_are_dropped_counted_and_reported_once() {
    for kind in ["rtp-udp", "udp"] {
        let mut stage = stage(&[]);
        let query = format!("type=http,{kind}&sessionid=s&udp-clients={CAMERA}&max-bitrate=800000");
        add(&mut stage, &query);
        let events = request(&mut stage, "GET /api/events");
        let mut number = 0;
        let mut send = |stage: &mut Stage, count: u16| {
            for _ in 0..count {
                let header = Packet::header(33, number, 0, 7);
                number += 1;
                let rtp = [&header[..], &packets(7)].concat();
                let datagram = if kind == "udp" { packets(7) } else { rtp };
                stage.arrive(CAMERA, &datagram);
            }
        };
        send(&mut stage, 70);
        let count = |stage: &Stage, what| stage.relay.ctx.counts.of(what);
        assert_eq!(count(&stage, Count::TooFast), 0, "{kind}");
        assert_eq!(rows(&stage, (0, 0))[0].1["source"]["too_fast"], 0);
        send(&mut stage, 100);
        let refused = count(&stage, Count::TooFast);
        assert!((92..=96).contains(&refused), "{kind}: {refused}");
        let row = &rows(&stage, (0, 0))[0].1;
        assert_eq!(row["source"]["too_fast"], refused, "{kind}");
        assert_eq!(row["source"]["protocol"], kind);
        stage.wait_seconds(1);
        send(&mut stage, 100);
        assert!(count(&stage, Count::TooFast) > refused, "{kind}");
        let text = stage.text(events);
        assert_eq!(text.matches("source-too-fast").count(), 1, "{text}");
        let told = text.split("source-too-fast").nth(1).expect("what it is");
        assert!(told.contains("\"what\":\"dropped\""), "{told}");
        assert!(told.contains("\"max_bitrate\":800000"), "{told}");
    }
}

#[test]
fn a_source_over_http_beyond_its_tokens_rate_is_reported_once() {
    let mut stage = stage(&[]);
    add(&mut stage, "type=http&sessionid=s&max-bitrate=800000");
    let events = request(&mut stage, "GET /api/events");
    let source = put(&mut stage, "s", &[7; 300_000]);
    stage.wait_seconds(3);
    stage.send_media(source, &[7; 300_000]);
    let text = stage.text(events);
    assert_eq!(text.matches("source-too-fast").count(), 1, "{text}");
    assert!(text.contains("\"what\":\"waits\""), "{text}");
}

/// Sends a body, in the pieces that the server wants to read.
fn send_wanted(stage: &mut Stage, source: ConnectionId, mut media: &[u8]) {
    loop {
        let wanted = stage.relay.bytes_wanted(source).min(media.len());
        if wanted == 0 {
            return stage.settle();
        }
        stage.relay.received(source, &media[..wanted], stage.now);
        media = &media[wanted..];
    }
}

/// Ten seconds at 100,000 bytes a second: a source that reconnects ten times a second gets no more
/// than one that stays.
#[test]
fn all_sources_of_a_session_share_its_rate() {
    let file = include_bytes!("../../../tests/media/h264.ts").repeat(2);
    let body = |media: &[u8]| {
        let bytes = media.len();
        let head = format!("PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: {bytes}\r\n\r\n");
        [head.as_bytes(), media].concat()
    };
    let ways = [
        "bodies", "ahead", "keys", "hold", "takeover", "clients", "handover",
    ];
    let is_here = |way: &&str| cfg!(feature = "hold") || *way != "hold";
    for way in ways.into_iter().filter(is_here) {
        let options: &[&str] = match way {
            "hold" => &["--hold=60"],
            "takeover" => &["--takeover"],
            _ => &[],
        };
        let mut stage = stage(options);
        let cameras: Vec<String> = (0..16)
            .map(|port| format!("10.2.0.3:{}", 6000 + 2 * port))
            .collect();
        let cameras = cameras.join(",");
        add(
            &mut stage,
            &format!("type=http,rtp-udp&sessionid=s&udp-clients={cameras}&max-bitrate=800000"),
        );
        for key in 0..10 {
            add(
                &mut stage,
                &format!("type=http&sessionid=k{key}&for=s&direction=in&max-bitrate=8M"),
            );
        }
        stage.viewer("s");
        let ahead = stage.client("");
        // Bodies that arrive together with their heads.
        let mut requests = body(&file[..1_000]).repeat(2_000);
        for step in 0..100_u16 {
            let media = &file[..60_000];
            match way {
                "ahead" => loop {
                    let wanted = stage
                        .relay
                        .bytes_wanted(ahead)
                        .min(requests.len())
                        .min(4_096);
                    let sent: Vec<u8> = requests.drain(..wanted).collect();
                    if wanted > 0 {
                        stage.relay.received(ahead, &sent, stage.now);
                    }
                    let is_read = stage.relay.do_deferred_work(stage.now).is_some();
                    stage.settle();
                    if wanted == 0 && !is_read {
                        break;
                    }
                },
                "clients" => {
                    let from = format!("10.2.0.3:{}", 6000 + 2 * (step % 16));
                    for number in 0..40 {
                        let header = Packet::header(33, number, 0, u32::from(step));
                        stage.arrive(&from, &[&header[..], &packets(7)].concat());
                    }
                    let ssrc = u32::from(step).to_be_bytes();
                    stage.arrive(&from, &[&[0x81, 203, 0, 1][..], &ssrc].concat());
                }
                _ => {
                    let name = match way {
                        "keys" => format!("k{}", step % 10),
                        _ => "s".to_owned(),
                    };
                    let bytes = media.len() + usize::from(way != "bodies");
                    let head = format!(
                        "PUT /stream/{name} HTTP/1.1\r\nHost: h\r\nContent-Length: {bytes}\r\n\r\n"
                    );
                    let source = stage.client(&head);
                    send_wanted(&mut stage, source, media);
                    if way != "takeover" {
                        stage.lose(source);
                    }
                }
            }
            #[cfg(feature = "handover")]
            if way == "handover" {
                stage.change_hands(&["--token-server=10.0.0.0/24"]);
            }
            stage.wait(std::time::Duration::from_millis(100));
        }
        let sums = stage.relay.streams.sums(&stage.relay.ctx);
        let received = sums.figures.bytes_received;
        assert!(
            (900_000..=1_110_000).contains(&received),
            "{way}: {received}"
        );
    }
}

/// The lower limit of the key and the session counts. Each stays when its token is revoked, until
/// that session id gets another token.
#[test]
fn a_source_keeps_the_limits_of_revoked_tokens_until_there_are_new_ones() {
    let limit = |stage: &Stage| {
        let id = only_live(stage);
        stage.relay.streams.source_limits(id).lower()
    };
    let add = "POST /api/add-token?type=http";
    let key = format!("{add}&sessionid=k&for=s&direction=in");
    let calls = [
        (format!("{add}&sessionid=s&max-bitrate=1M"), Some(1 << 20)),
        (format!("{key}&max-bitrate=4M"), Some(1 << 20)),
        (format!("{add}&sessionid=s&max-bitrate=8M"), Some(4 << 20)),
        (format!("{key}&max-bitrate=2M"), Some(2 << 20)),
        ("DELETE /api/revoke-token?sessionid=k".into(), Some(2 << 20)),
        (format!("{add}&sessionid=s&max-bitrate=1M"), Some(1 << 20)),
        (format!("{add}&sessionid=s&max-bitrate=8M"), Some(2 << 20)),
        // A token of another session is not the source's.
        (
            format!("{add}&sessionid=k&for=t&direction=in"),
            Some(2 << 20),
        ),
        ("DELETE /api/revoke-token?sessionid=k".into(), Some(2 << 20)),
        (format!("{key}&max-bitrate=9M"), Some(8 << 20)),
        ("DELETE /api/revoke-token?sessionid=s".into(), Some(8 << 20)),
        (format!("{key}&max-bitrate=4M"), Some(4 << 20)),
    ];
    for changes_hands in [false, cfg!(feature = "handover")] {
        let mut stage = stage(&[]);
        request(&mut stage, &key);
        put(&mut stage, "k", &[7; 1_000]);
        assert_eq!(limit(&stage), None);
        for (line, expected) in &calls {
            let call = request(&mut stage, line);
            assert!(stage.text(call).starts_with("HTTP/1.1 20"), "{line}");
            #[cfg(feature = "handover")]
            if changes_hands {
                stage.change_hands(&["--token-server=10.0.0.0/24"]);
            }
            assert_eq!(limit(&stage), *expected, "{line} {changes_hands}");
        }
        // New tokens without a limit, of both session ids.
        request(&mut stage, "DELETE /api/revoke-token?sessionid=k");
        request(&mut stage, &key);
        assert_eq!(limit(&stage), Some(8 << 20), "the session's");
        request(&mut stage, &format!("{add}&sessionid=s"));
        assert_eq!(limit(&stage), None);
    }
}

/// A limit that a token gets later also holds for the source that the session has.
#[test]
fn a_new_limit_slows_the_source_that_runs() {
    let mut stage = stage(&[]);
    add(&mut stage, "type=http&sessionid=s");
    let source = put(&mut stage, "s", &[7; 300_000]);
    let call = request(
        &mut stage,
        "POST /api/add-token?type=http&sessionid=s&max-bitrate=800000",
    );
    stage.assert_status(call, 201);
    for _ in 0..100 {
        send_wanted(&mut stage, source, &[7; 60_000]);
        stage.wait(std::time::Duration::from_millis(100));
    }
    let sums = stage.relay.streams.sums(&stage.relay.ctx);
    let received = sums.figures.bytes_received - 300_000;
    assert!((1_000_000..=1_110_000).contains(&received), "{received}");
}

/// Only RTP with MPEG-TS goes out over HTTP.
#[test]
fn http_viewers_of_rtp_that_is_not_mpeg_ts_are_refused_with_the_reason() {
    for (payload_type, is_refused) in [(33, false), (96, true)] {
        let mut stage = stage(&[]);
        add(
            &mut stage,
            &format!("type=http,rtp-udp&sessionid=s&udp-clients={CAMERA}"),
        );
        for number in 0..3 {
            let header = Packet::header(payload_type, number, 0, 7);
            stage.arrive(CAMERA, &[&header[..], &packets(7)].concat());
        }
        let viewer = stage.viewer("s");
        let says = stage.text(viewer).contains("RTP payload type 96");
        assert_eq!(says, is_refused, "{}", stage.text(viewer));
    }
}

/// The time of silence runs from the source's last datagram.
#[test]
fn a_source_of_datagrams_is_lost_after_its_idle_time_and_not_before() {
    for kind in ["rtp-udp", "udp"] {
        let mut stage = stage(&["--source-idle-time=5"]);
        add(
            &mut stage,
            &format!("type={kind}&sessionid=s&udp-clients={CAMERA}"),
        );
        for number in 0..4 {
            let header = Packet::header(33, number, 0, 7);
            let head: &[u8] = if kind == "udp" { &[] } else { &header };
            stage.arrive(CAMERA, &[head, &packets(7)].concat());
            stage.wait_seconds(if number == 0 { 1 } else { 4 });
            assert!(number == 0 || stage.relay.streams.running() == 1, "{kind}");
        }
        stage.wait_seconds(1);
        assert_eq!(stage.relay.streams.running(), 0, "{kind}");
    }
}

/// Each reason counts under its name in the API, and sums have the same form.
#[test]
fn a_cut_counts_under_its_name() {
    let value = |cuts: &Cuts| serde_json::to_value(cuts).expect("figures");
    let mut sum = Cuts::default();
    for (more, cut) in CutReason::ALL.into_iter().enumerate() {
        let mut cuts = Cuts::default();
        for _ in 0..2 + more {
            cuts.count(cut);
        }
        for other in CutReason::ALL {
            let count = if other == cut { 2 + more } else { 0 };
            assert_eq!(value(&cuts)[other.name()], count, "{}", other.name());
        }
        sum.add(cuts);
        sum.add(cuts);
    }
    assert_eq!(
        value(&sum),
        serde_json::json!({"stalled": 4, "lost_unit": 6, "token": 8, "kicked": 10})
    );
}

/// No event says that a client of one segment comes, is cut or goes. It counts.
#[cfg(feature = "remux")]
#[test]
fn only_of_viewers_that_came_is_told_that_they_are_cut() {
    const MP4: &[u8] = include_bytes!("../../../tests/media/h264.mp4");
    let mut stage = stage(&[]);
    add(&mut stage, "type=http&sessionid=s");
    let reader = request(&mut stage, "GET /api/events");
    // The first fragment is not whole, so the poster waits.
    put(&mut stage, "s", &MP4[..2_000]);
    for path in ["s", "s/poster.mp4"] {
        stage.viewer(path);
    }
    request(
        &mut stage,
        "DELETE /api/revoke-token?sessionid=s&abort=true",
    );
    stage.wait_seconds(1);
    let text = stage.text(reader);
    for event in ["viewer-comes", "viewer-cut", "viewer-goes"] {
        let told = text.matches(&format!("event: {event}\n")).count();
        assert_eq!(told, 1, "{event}: {text}");
    }
    let cuts = &stage.relay.ctx.counts.cuts;
    assert!(cuts.rows().contains(&("token", 2)), "{:?}", cuts.rows());
}

/// A list that starts at a mark has the rows after the mark.
#[test]
fn lists_continue_after_their_marks() {
    let mut stage = stage(&[]);
    for session in ["s", "t", "u"] {
        let query = format!("type=http,udp&sessionid={session}&udp-clients={CLIENT},{CAMERA}");
        add(&mut stage, &query);
        put(&mut stage, session, &packets(20));
        for _ in 0..3 {
            stage.viewer(session);
        }
    }
    let all = rows(&stage, (0, 0));
    let names: Vec<&Value> = all.iter().map(|(_, row)| &row["sessionid"]).collect();
    assert_eq!(names, ["s", "t", "u"]);
    for (place, (mark, _)) in all.iter().enumerate() {
        assert_eq!(rows(&stage, *mark), all[place + 1..]);
    }
    let streams = &stage.relay.streams;
    let list = |after: Mark, of: Option<&SessionId>| -> Vec<(Mark, String)> {
        let watchers = streams.watchers(after, of, &stage.relay.ctx);
        let watchers = watchers.map(|(mark, its)| (mark, its.sessionid.as_str().to_owned()));
        watchers.collect()
    };
    let all = list((0, 0), None);
    assert_eq!(all.len(), 3 * (3 + 2));
    assert!(all.is_sorted());
    for (mark, session) in &all {
        // The UDP clients of a stream share a mark.
        let behind = all.iter().filter(|(other, _)| other > mark);
        assert_eq!(list(*mark, None), behind.cloned().collect::<Vec<_>>());
        let of = SessionId::parse(session.as_bytes()).expect("a name");
        let its = all.iter().filter(|(_, its)| its == session);
        assert_eq!(list((0, 0), Some(&of)), its.cloned().collect::<Vec<_>>());
    }
}

/// One address may be a client of several sessions. The figures have a bounded number of rows.
#[test]
fn udp_client_figures_are_sums_by_address_and_bounded() {
    let figures = |sessions: u16| {
        let mut stage = stage(&[]);
        for session in 0..sessions {
            let own = (0..15).map(|port| format!("10.3.0.1:{}", 6000 + 16 * session + port));
            let own: Vec<String> = own.collect();
            let query = format!("&udp-clients={CLIENT},{}", own.join(","));
            add(
                &mut stage,
                &format!("type=http,udp&sessionid=s{session}{query}"),
            );
            put(&mut stage, &format!("s{session}"), &packets(70));
        }
        stage.wait_seconds(1);
        let sent = post(&mut stage, |clients| vec![1; clients]);
        (stage.relay.streams.udp_clients(), sent, stage)
    };
    let (clients, sent, stage) = figures(3);
    let shared = clients[&CLIENT.parse().expect("an address")];
    let own = clients[&"10.3.0.1:6000".parse().expect("an address")];
    assert!(own.sent > 0 && own.dropped > 0, "{own:?}");
    assert_eq!(
        (shared.sent, shared.dropped),
        (3 * own.sent, 3 * own.dropped)
    );
    assert_eq!(clients.len(), 3 * 15 + 1);
    let total: u64 = clients.values().map(|each| each.sent + each.dropped).sum();
    assert_eq!(total, sent as u64);
    let sums = stage.relay.streams.sums(&stage.relay.ctx);
    assert_eq!((sums.running, sums.udp_clients), (3, 48));
    assert!(sums.udp_bytes >= total, "{}", sums.udp_bytes);
    assert_eq!(figures(20).0.len(), UDP_CLIENTS_SHOWN_MAX);
}

/// Sums add the figures of streams that run to the counts of ended streams.
#[test]
fn sums_cover_running_and_ended_streams() {
    let mut stage = stage(&[]);
    let sums = |stage: &Stage| stage.relay.streams.sums(&stage.relay.ctx);
    add(&mut stage, "type=http&sessionid=s");
    add(&mut stage, "type=http&sessionid=t");
    let (mut received, mut sent) = (0, 0);
    for round in 1..4_usize {
        let mut sources = Vec::new();
        for (session, bytes) in [("s", 1_000), ("t", 300 * round)] {
            let source = put(&mut stage, session, &[]);
            let viewers: Vec<_> = (0..round + 1).map(|_| stage.viewer(session)).collect();
            stage.send_media(source, &vec![7; bytes]);
            received += bytes as u64;
            sent += (bytes * viewers.len()) as u64;
            sources.push(source);
        }
        let now = sums(&stage);
        assert_eq!((now.running, now.viewers), (2, 2 * (round + 1)));
        assert_eq!((now.draining, now.held, now.all_remuxed), (0, 0, 0));
        assert_eq!(now.figures.bytes_received, received);
        assert_eq!(now.figures.bytes_sent, sent);
        assert_eq!(now.udp_bytes, 0);
        sources.into_iter().for_each(|source| stage.lose(source));
        let now = sums(&stage);
        assert_eq!((now.running, now.draining, now.viewers), (0, 0, 0));
        assert_eq!(now.figures.bytes_received, received);
        assert_eq!(now.figures.bytes_sent, sent);
    }
}

#[test]
fn skips_are_counted_in_sums_and_rows() {
    let mut stage = stage(&["--buffer=64K"]);
    add(&mut stage, "type=http&sessionid=s");
    let source = put(&mut stage, "s", &[7; 100]);
    let slow: Vec<_> = (0..3).map(|_| stage.viewer("s")).collect();
    for id in &slow {
        let (id, now) = (*id, stage.now);
        stage.relay.served(id, Outcome::Blocked, now);
    }
    for _ in 0..10 {
        stage.send_media(source, &[7; 30_000]);
    }
    slow.iter().for_each(|id| stage.relay.unblocked(*id));
    stage.settle();
    let sums = stage.relay.streams.sums(&stage.relay.ctx);
    assert!(sums.figures.skips >= 3, "{}", sums.figures.skips);
    let row = &rows(&stage, (0, 0))[0].1;
    assert_eq!(row["skips"], sums.figures.skips);
    stage.lose(source);
    let after = stage.relay.streams.sums(&stage.relay.ctx);
    assert_eq!(after.figures.skips, sums.figures.skips);
}

/// A session that is watched in two containers is one stream, with the viewers of both.
#[cfg(feature = "remux")]
#[test]
fn the_figures_of_a_remuxed_stream_belong_to_its_original() {
    const FILE: &[u8] = include_bytes!("../../../tests/media/h264.flv");
    let mut stage = stage(&[]);
    add(
        &mut stage,
        &format!("type=http,udp&sessionid=s&udp-clients={CLIENT},{CAMERA}"),
    );
    let source = put(&mut stage, "s", &FILE[..FILE.len() / 2]);
    let plain: Vec<_> = (0..2).map(|_| stage.viewer("s")).collect();
    let made: Vec<_> = (0..3).map(|_| stage.viewer("s/live.ts")).collect();
    stage.settle();
    stage.send_media(source, &FILE[FILE.len() / 2..]);
    stage.wait_seconds(1);
    post(&mut stage, |_| Vec::new());
    let streams = &stage.relay.streams;
    let all = rows(&stage, (0, 0));
    assert_eq!(all.len(), 1, "a shadow has no row");
    let row = &all[0].1;
    assert_eq!(row["viewers"], 5);
    assert_eq!(row["udp_clients"], 2);
    assert_eq!(row["udp"].as_array().map(Vec::len), Some(2));
    assert_eq!(row["remuxed"].as_array().map(Vec::len), Some(1));
    let sums = streams.sums(&stage.relay.ctx);
    assert_eq!((sums.running, sums.all_remuxed, sums.viewers), (1, 1, 5));
    assert_eq!(sums.udp_clients, 2);
    assert!(sums.udp_bytes > 0);
    assert_eq!(row["bytes_sent"], sums.figures.bytes_sent + sums.udp_bytes);
    let bytes = |ids: &[ConnectionId]| -> usize {
        let media = ids.iter().map(|id| stage.media(*id).0.len());
        media.sum()
    };
    let to_viewers = bytes(&plain) + bytes(&made);
    assert_eq!(sums.figures.bytes_sent, to_viewers as u64);
    let held: Vec<usize> = streams
        .streams
        .iter()
        .map(|(_, it)| it.buffer.memory_bytes())
        .collect();
    assert_eq!(row["held_bytes"], held.iter().sum::<usize>());
    // A viewer of the remuxed stream is disconnected: it counts for the original.
    let id = made[0];
    let list = request(&mut stage, "GET /api/list-viewers?sessionid=s");
    (0..4).for_each(|_| stage.settle());
    let text = stage.text(list);
    for line in text.split("\"id\":\"").skip(1) {
        let name = line.split('"').next().expect("an id");
        request(&mut stage, &format!("DELETE /api/kick-viewer?id={name}"));
    }
    stage.settle();
    assert!(stage.closed.contains(&id));
    assert_eq!(rows(&stage, (0, 0))[0].1["cuts"]["kicked"], 5);
}

/// The count covers draining streams, and every container.
#[cfg(feature = "remux")]
#[test]
fn an_abort_counts_the_viewers_of_all_containers() {
    const FILE: &[u8] = include_bytes!("../../../tests/media/h264.flv");
    for drains in [false, true] {
        let mut stage = stage(&[]);
        add(&mut stage, "type=http&sessionid=s");
        let source = put(&mut stage, "s", FILE);
        let mut viewers: Vec<_> = (0..2).map(|_| stage.viewer("s")).collect();
        viewers.extend((0..3).map(|_| stage.viewer("s/live.ts")));
        stage.settle();
        for id in &viewers {
            let (id, now) = (*id, stage.now);
            stage.relay.served(id, Outcome::Blocked, now);
        }
        stage.send_media(source, &FILE[13..]);
        if drains {
            stage.lose(source);
            assert_eq!(stage.relay.streams.running(), 0);
        }
        let abort = request(&mut stage, "DELETE /api/abort-stream?sessionid=s");
        let text = stage.text(abort);
        assert!(text.contains("\"viewers\":5"), "{drains}: {text}");
        assert_eq!(stage.relay.streams.len(), 0);
    }
}

/// A remuxed stream does not count for `--streams`: of three places, one is left for a third
/// stream.
#[cfg(feature = "remux")]
#[test]
fn a_draining_stream_is_cut_off_for_a_stream_and_not_for_a_remuxed_one() {
    const FILE: &[u8] = include_bytes!("../../../tests/media/h264.flv");
    for (places, left) in [("--streams=2", 0), ("--streams=3", 1)] {
        let mut stage = Stage::new(&[places]);
        let source = put(&mut stage, "drains", &[7; 1000]);
        let viewer = stage.viewer("drains");
        let now = stage.now;
        stage.relay.served(viewer, Outcome::Blocked, now);
        stage.send_media(source, &[7; 1000]);
        stage.lose(source);
        put(&mut stage, "s", FILE);
        stage.viewer("s/live.ts");
        stage.settle();
        assert_eq!(stage.relay.streams.all_remuxed().count(), 1);
        assert_eq!(stage.relay.streams.draining.len(), 1);
        put(&mut stage, "t", &[7; 1000]);
        assert_eq!(stage.relay.streams.draining.len(), left, "{places}");
        assert_eq!(stage.closed.contains(&viewer), left == 0, "{places}");
    }
}

/// UDP clients get the new source at once, and nothing more of the one before.
#[test]
fn a_new_source_ends_the_rest_of_the_one_before() {
    let mut stage = stage(&[]);
    add(
        &mut stage,
        &format!("type=http,udp&sessionid=s&udp-clients={CLIENT}"),
    );
    let source = put(&mut stage, "s", &packets(5_000));
    stage.lose(source);
    assert_eq!(stage.relay.streams.draining.len(), 1, "it has a rest");
    put(&mut stage, "s", &packets(20));
    assert_eq!(stage.relay.streams.draining.len(), 0);
    assert_eq!(stage.relay.streams.len(), 1);
}

/// With eight viewers or more a chunk is copied once. Every viewer gets the same bytes either way.
#[test]
fn many_viewers_are_lent_a_chunk_in_one_piece_and_few_in_three() {
    for (viewers, bytes, is_one) in [
        (1, 1_000, false),
        (7, 1_000, false),
        (8, 1_000, true),
        (9, 1_000, true),
        (8, 64 * 1024, true),
    ] {
        let mut stage = Stage::new(&["--buffer=4M"]);
        let source = put(&mut stage, "s", b"x");
        let ids: Vec<_> = (0..viewers).map(|_| stage.viewer("s")).collect();
        let begun = stage.media(ids[0]).0;
        let media: Vec<u8> = (0..bytes).map(|number| (number % 251) as u8).collect();
        stage.relay.received(source, &media, stage.now);
        for place in 0..viewers {
            let id = stage.relay.next_write().expect("each is due");
            let output = stage.relay.output(id, stage.now);
            let (length, pieces) = (output.bytes(), output.slices().len());
            let lent: Vec<u8> = output.slices().iter().flat_map(|it| it.to_vec()).collect();
            assert_eq!(pieces == 1, is_one, "{viewers} of {bytes}");
            // The second viewer is written a part first, and continues from there.
            let now = stage.now;
            let part = if place == 1 { length / 2 } else { length };
            let written = stage.written.entry(id).or_default();
            written.extend_from_slice(&lent[..part]);
            stage.relay.sent(id, part, now);
            stage.relay.served(id, Outcome::Open, now);
        }
        stage.settle();
        for id in ids {
            let (got, _) = stage.media(id);
            assert!(got.ends_with(&media), "{viewers} of {bytes}");
            assert_eq!(got.len(), begun.len() + media.len());
        }
        stage.lose(source);
    }
}

/// A counter that was handed over ends at the largest number.
#[cfg(feature = "handover")]
#[test]
fn cut_counts_from_a_hand_over_do_not_overflow() {
    for cut in CutReason::ALL {
        let mut told = serde_json::to_value(Cuts::default()).expect("figures");
        told[cut.name()] = u64::MAX.into();
        let mut cuts: Cuts = serde_json::from_value(told).expect("figures");
        cuts.count(cut);
        cuts.add(cuts);
        assert!(cuts.rows().contains(&(cut.name(), u64::MAX)));
    }
}

/// A pull owns an origin's stream until the origin is gone. The viewers then wait for the next
/// source, of this session only.
#[test]
fn a_fetched_stream_belongs_to_its_pull() {
    let hold = if cfg!(feature = "hold") { 5 } else { 0 };
    for is_fetched in [false, true] {
        let option = format!("--hold={hold}");
        let mut stage = stage(&[option.as_str()][..usize::from(hold > 0)]);
        add(&mut stage, "type=http&sessionid=s");
        put(&mut stage, "s", &packets(20));
        stage.viewer("s");
        let id = only_live(&stage);
        let (streams, ctx) = (&mut stage.relay.streams, &mut stage.relay.ctx);
        let (source, none) = streams.source_of(id).expect("it is there");
        assert_eq!(none, None);
        let StreamSource::Http(connection) = source else {
            panic!("{source:?}");
        };
        let [own, other] = [1, 2].map(PullId::from_u64);
        assert_eq!(streams.fetched_from(id, own), None);
        if is_fetched {
            streams.set_pull(id, own, "1.1 here".to_owned());
            assert_eq!(streams.source_of(id), Some((source, Some(own))));
            assert_eq!(streams.fetched_from(id, own), Some(connection));
            assert_eq!(streams.fetched_from(id, other), None);
        }
        let of_none = StreamId::from_u64(77);
        assert_eq!(streams.source_of(of_none), None);
        assert_eq!(
            streams.held_of_origin(&name("s")),
            None,
            "it has its source"
        );
        let stream = streams.streams.get(id).expect("it is there");
        assert_eq!(stream.via.as_deref(), is_fetched.then_some("1.1 here"));
        streams.source_lost(id, source, "it broke", ctx);
        assert_eq!(streams.fetched_from(id, own), None, "not any more");
        let held = (hold > 0 && is_fetched).then_some(id);
        assert_eq!(streams.held_of_origin(&name("s")), held);
        assert_eq!(streams.held_of_origin(&name("t")), None);
    }
}

/// A stream is found by its id, by its session and in the figures.
#[test]
fn a_stream_is_found_until_it_is_removed() {
    let mut stage = stage(&[]);
    add(&mut stage, "type=http&sessionid=s");
    let of_none = StreamId::from_u64(77);
    let seen = |stage: &Stage, id: StreamId| {
        let (streams, s) = (&stage.relay.streams, name("s"));
        let running = streams.running_source(&s).map(|(id, _)| id);
        assert_eq!(streams.runs(&s), running.is_some());
        assert_eq!(streams.has(id), streams.session(id) == Some(name("s")));
        assert!(!streams.runs(&name("t")) && !streams.is_watched(&name("t")));
        let counts = (streams.len(), streams.running());
        (counts, streams.has(id), running, streams.is_watched(&s))
    };
    assert_eq!(seen(&stage, of_none), ((0, 0), false, None, false));
    let source = put(&mut stage, "s", &[7; 1_000]);
    let id = only_live(&stage);
    assert_eq!(seen(&stage, id), ((1, 1), true, Some(id), false));
    assert_eq!(seen(&stage, of_none), ((1, 1), false, Some(id), false));
    let viewer = stage.viewer("s");
    assert_eq!(seen(&stage, id), ((1, 1), true, Some(id), true));
    stage.relay.served(viewer, Outcome::Blocked, stage.now);
    stage.send_media(source, &[7; 1_000]);
    stage.lose(source);
    assert_eq!(seen(&stage, id), ((1, 0), true, None, false), "it drains");
    let figures = |stage: &Stage| {
        let (streams, ctx) = (&stage.relay.streams, &stage.relay.ctx);
        let mut rows = streams.rows((0, 0), ctx);
        let (_, row) = rows.next().expect("a row");
        assert!(*row.sessionid == name("s") && *row.sessionid != name("t"));
        row.figures().map(|(session, of)| {
            assert_eq!(*session, name("s"));
            (of.viewers, of.udp_clients, of.figures.bytes_received)
        })
    };
    assert_eq!(figures(&stage), None);
    assert_eq!(rows(&stage, (0, 0))[0].1["source"], Value::Null);
    stage.lose(viewer);
    assert_eq!(seen(&stage, id), ((0, 0), false, None, false));
    let source = put(&mut stage, "s", &[7; 1_000]);
    stage.viewer("s");
    stage.viewer("s");
    assert_eq!(figures(&stage), Some((2, 0, 1_000)));
    let row = &rows(&stage, (0, 0))[0].1;
    assert_eq!(row["source"]["protocol"], "http");
    assert_eq!(row["content_type"], "audio/x");
    stage.lose(source);
}

/// The event loop asks this before it waits.
#[test]
fn writes_are_pending_until_they_are_out() {
    let mut stage = stage(&[]);
    add(
        &mut stage,
        &format!("type=http,udp&sessionid=s&udp-clients={CLIENT}"),
    );
    let writes = |stage: &Stage| stage.relay.streams.has_writes();
    assert!(!writes(&stage));
    let source = put(&mut stage, "s", &packets(20));
    while stage.relay.next_datagrams(stage.now, &[]).is_some() {}
    stage.viewer("s");
    assert!(!writes(&stage), "all is out");
    stage.relay.received(source, &packets(70), stage.now);
    assert!(writes(&stage));
    while stage.write_next() {}
    stage.relay.received(source, &packets(70), stage.now);
    while stage.write_next() {}
    stage.wait_seconds(1);
    assert!(writes(&stage), "its UDP client has not got it");
    while stage.relay.next_datagrams(stage.now, &[]).is_some() {}
    assert!(!writes(&stage));
    stage.lose(source);
}

/// Datagrams on their way go first: until they are out, the stream asks for no timer.
#[test]
fn a_stream_asks_for_a_timer_only_when_it_can_act() {
    let mut stage = stage(&[]);
    add(
        &mut stage,
        &format!("type=http,udp&sessionid=s&udp-clients={CLIENT}"),
    );
    let deadline = |stage: &Stage| {
        let streams = &stage.relay.streams;
        let (_, stream) = streams.streams.iter().next().expect("a stream");
        stream.deadline(&stage.relay.ctx)
    };
    let head = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n";
    let source = stage.client(head);
    // This little may be any format, although some of it would be due.
    stage.relay.received(source, &packets(1)[..100], stage.now);
    assert_eq!(deadline(&stage), None);
    let mut was_on_its_way = 0;
    for _ in 0..40 {
        stage.relay.received(source, &packets(7), stage.now);
        let (_, stream) = stage.relay.streams.streams.iter().next().expect("one");
        if !stream.rtp_out.is_empty() {
            was_on_its_way += 1;
            assert_eq!(deadline(&stage), None, "it waits for nobody's time");
            while stage.relay.next_datagrams(stage.now, &[]).is_some() {}
        }
        assert!(deadline(&stage).is_none_or(|at| at > stage.now));
        stage.wait(std::time::Duration::from_millis(30));
    }
    assert!(was_on_its_way > 3, "{was_on_its_way}");
    stage.lose(source);
}

/// Sums separate draining streams from running ones, and keep the datagrams of ended streams.
#[test]
fn sums_count_draining_streams_and_datagrams_of_ended_ones() {
    let mut stage = stage(&[]);
    for session in ["s", "t"] {
        let query = format!("type=http,udp&sessionid={session}&udp-clients={CLIENT}");
        add(&mut stage, &query);
    }
    let sums = |stage: &Stage| stage.relay.streams.sums(&stage.relay.ctx);
    let mut before = 0;
    for round in 0..3 {
        let sources = ["s", "t"].map(|session| put(&mut stage, session, &packets(70)));
        stage.wait_seconds(1);
        assert!(post(&mut stage, |_| Vec::new()) > 0, "{round}");
        let viewers = ["s", "t"].map(|session| stage.viewer(session));
        let running = sums(&stage);
        assert_eq!((running.running, running.draining), (2, 0));
        assert!(running.udp_bytes > before, "{round}");
        if round == 0 {
            // A row covers every output of a stream that runs.
            let rows = rows(&stage, (0, 0));
            let sent = rows.iter().map(|(_, row)| row["bytes_sent"].as_u64());
            let sent: u64 = sent.map(|bytes| bytes.expect("a number")).sum();
            assert_eq!(sent, running.figures.bytes_sent + running.udp_bytes);
            assert!(running.figures.bytes_sent > 0);
        }
        for id in viewers {
            stage.relay.served(id, Outcome::Blocked, stage.now);
        }
        sources.into_iter().for_each(|id| stage.lose(id));
        post(&mut stage, |_| Vec::new());
        let draining = sums(&stage);
        assert_eq!((draining.running, draining.draining), (0, 2), "{round}");
        viewers.into_iter().for_each(|id| stage.lose(id));
        stage.wait_seconds(60);
        post(&mut stage, |_| Vec::new());
        let over = sums(&stage);
        assert_eq!((over.running, over.draining), (0, 0), "{round}");
        assert!(over.udp_bytes >= draining.udp_bytes, "{round}");
        before = over.udp_bytes;
    }
}

/// A search for tracks reads up to half a megabyte. There is one in a piece of a list.
#[cfg(feature = "remux")]
#[test]
fn a_piece_of_a_list_searches_one_stream_for_tracks() {
    let tag = [
        &[18, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0][..],
        &[7; 1024],
        &[0, 0, 4, 11],
    ]
    .concat();
    let media = [&b"FLV\x01\x05\0\0\0\x09\0\0\0\0"[..], &tag.repeat(100)].concat();
    // What is known is not searched again.
    for path in ["/api/list-streams", "/api/events"] {
        let mut stage = stage(&["--buffer=1M"]);
        for name in ["a", "b", "c", "d"] {
            add(&mut stage, &format!("type=http&sessionid={name}"));
            put(&mut stage, name, &media);
        }
        for expected in [1, 4] {
            let reader = stage.client("");
            let call = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            stage.relay.received(reader, call.as_bytes(), stage.now);
            let (mut rows, mut most) = (0, 0);
            for _ in 0..100 {
                stage.write_next();
                let now = stage.text(reader).matches("\"tracks\"").count();
                (rows, most) = (now, most.max(now - rows));
            }
            assert_eq!((rows, most), (4, expected), "{path}");
        }
    }
}
