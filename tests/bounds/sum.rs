//! The largest memory that clients can make the core use: the sum of `docs/security.md`.
//! `tests/bounds` compares it with the allocator's count.

use std::time::Duration;

use tollgate::config::{self, Command};
use tollgate::events;
use tollgate::format::splice::Splicer;
use tollgate::relay::{CONNECTIONS_BEYOND_MAX, HLS_ADDRESSES_MAX, Limits, Settings};
use tollgate::remux::{Remuxer, TRACKS_BYTES_MAX};

/// For each connection, besides its head: its entries in tables, and its answers.
const CONNECTION_BYTES: usize = 85 * 1024;
/// For a UDP client in the answer to add-token, which names all of its session's.
const ANSWERED_CLIENT_BYTES: usize = 640;
/// For each stream, besides `--buffers`.
const GRANTED_BYTES: usize = 192 * 1024;
/// For each stream: its titles, what its source says about its station, its tracks, and an hour of
/// its bit rate and viewers.
const ABOUT_BYTES: usize = 20 * 1024;
/// For each stream with RTP: packets that came early, datagrams on their way, what corrections are
/// made of.
const RTP_BYTES: usize = 1536 * 1024;
/// For each source by RTMP: messages that are not whole, and their tags.
const RTMP_BYTES: usize = 576 * 1024;
/// For each UDP client of a stream.
const UDP_CLIENT_BYTES: usize = 64;
/// For each address that watches by HLS where a token says how many may: a name of 256 bytes.
const SEAT_BYTES: usize = 768;
/// First packets that wait for their second.
const FIRST_PACKETS_BYTES: usize = 768 * 1024;
/// For each token: a name of 250 bytes with sixteen addresses.
const TOKEN_BYTES: usize = 5 * 1024;
/// The parts' own tables, changes that wait for the disk, blocks, messages to threads and logs.
const OTHER_BYTES: usize = 15 * 1024 * 1024;
/// Events: the text, the positions in it, and session ids. The shortest event about a session id has
/// at least as many bytes as the id.
const EVENTS_BYTES: usize = events::BYTES_MAX * 5 / 2 + events::UNITS_MAX * 32 + 64 * 1024;
/// For each peer: eight lists.
const PEER_BYTES: usize = 8 * 16 * 1024 * 1024;

/// Returns the largest memory of the core in bytes, for any input.
pub fn memory_bytes_max(settings: &Settings) -> usize {
    let limits = &settings.limits;
    let udp_clients = limits.tokens.udp_clients_per_session_max;
    let head_bytes = limits.http.head_bytes_max.max(16 * 1024);
    let each_client = head_bytes + CONNECTION_BYTES + udp_clients * ANSWERED_CLIENT_BYTES;
    let rtmp = usize::from(settings.takes_rtmp) * limits.streams_max * RTMP_BYTES;
    (limits.connections_max + CONNECTIONS_BEYOND_MAX) * each_client
        + rtmp
        + HLS_ADDRESSES_MAX * SEAT_BYTES
        + streams_bytes_max(settings)
        + FIRST_PACKETS_BYTES
        + tokens_bytes_max(limits)
        + EVENTS_BYTES
        + TRACKS_BYTES_MAX
        + settings.peers.len() * PEER_BYTES
        + OTHER_BYTES
}

/// Returns the largest memory of all streams in bytes.
pub fn streams_bytes_max(settings: &Settings) -> usize {
    let limits = &settings.limits;
    let udp_clients = limits.tokens.udp_clients_per_session_max;
    let splicer = match limits.hold_time.is_zero() {
        true => 0,
        false => Splicer::memory_bytes_max(limits.stream.buffer_bytes / 2),
    };
    let each = limits.stream.memory_beside_buffer_max()
        + GRANTED_BYTES
        + ABOUT_BYTES
        + RTP_BYTES
        + udp_clients * UDP_CLIENT_BYTES
        + splicer;
    let all_remuxed = match settings.remuxes {
        true => remuxed_bytes_max(limits),
        false => 0,
    };
    // A splicer's output is copied at once, a unit at a time.
    let spliced = match limits.hold_time.is_zero() {
        true => 0,
        false => limits.stream.buffer_bytes,
    };
    limits.buffers_bytes_max + limits.streams_max * each + all_remuxed + spliced
}

/// Returns the largest memory of all remuxed streams, beside `--buffers`.
fn remuxed_bytes_max(limits: &Limits) -> usize {
    let remuxer = Remuxer::memory_bytes_max(limits.remuxed_unit_bytes_max());
    let rtp = RTP_BYTES + limits.tokens.udp_clients_per_session_max * UDP_CLIENT_BYTES;
    let each = limits.stream.memory_beside_buffer_max() + GRANTED_BYTES + rtp + remuxer;
    limits.remuxed_max() * each
}

/// Returns the largest memory of the token table in bytes.
pub fn tokens_bytes_max(limits: &Limits) -> usize {
    limits.tokens.tokens_max * TOKEN_BYTES
}

fn configured(options: &[&str]) -> Settings {
    match config::parse(options, []) {
        Ok(Command::Run(config)) => config.settings(100, 0, 7),
        other => panic!("{options:?}: {other:?}"),
    }
}

const KIB: usize = 1024;
const MIB: usize = 1024 * 1024;

/// The table of docs/security.md: by how much more each bound that is raised makes the sum.
#[test]
fn each_bound_allows_as_much_as_the_operator_is_told() {
    type Raise = fn(&mut Settings);
    let mut settings = Settings::default();
    let mut expected = CONNECTIONS_BEYOND_MAX * 101 * KIB
        + 6 * MIB
        + 768 * KIB
        // Events: 3.1 MiB.
        + 3 * MIB
        + 64 * KIB
        + TRACKS_BYTES_MAX
        + 15 * MIB;
    assert_eq!(memory_bytes_max(&settings), expected, "nothing");
    let connections = CONNECTIONS_BEYOND_MAX + 10;
    // These are counted by those whose they are.
    let limits = configured(&["--buffer=1M"]).limits.stream;
    let beside = limits.memory_beside_buffer_max();
    let splicer = Splicer::memory_bytes_max(512 * KIB);
    let all: [(&str, Raise, usize); 10] = [
        (
            "10 connections",
            |it| it.limits.connections_max = 10,
            10 * 101 * KIB,
        ),
        (
            "heads of 20 KiB",
            |it| it.limits.http.head_bytes_max = 20 * KIB,
            connections * 4 * KIB,
        ),
        (
            "5 UDP clients for each session",
            |it| it.limits.tokens.udp_clients_per_session_max = 5,
            connections * 5 * 640,
        ),
        (
            "a buffer of 1 MiB",
            |it| it.limits.stream = configured(&["--buffer=1M"]).limits.stream,
            0,
        ),
        (
            "3 streams",
            |it| it.limits.streams_max = 3,
            3 * (beside + 192 * KIB + 20 * KIB + 1536 * KIB + 5 * 64),
        ),
        (
            "streams are held",
            |it| it.limits.hold_time = Duration::from_secs(1),
            3 * splicer + MIB,
        ),
        (
            "buffers of 8 MiB",
            |it| it.limits.buffers_bytes_max = 8 * MIB,
            8 * MIB,
        ),
        (
            "7 tokens",
            |it| it.limits.tokens.tokens_max = 7,
            7 * 5 * KIB,
        ),
        (
            "2 peers",
            |it| {
                let options = ["--peer=http://10.1.0.1:80", "--peer=http://10.1.0.2:80"];
                it.peers = configured(&options).peers;
            },
            2 * 128 * MIB,
        ),
        ("other containers", |it| it.remuxes = true, 0),
    ];
    for (what, raise, more) in all {
        raise(&mut settings);
        expected += more;
        if settings.remuxes {
            expected += remuxed_bytes_max(&settings.limits);
        }
        assert_eq!(memory_bytes_max(&settings), expected, "{what}");
    }
}
