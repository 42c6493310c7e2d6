//! The memory that each part uses, and its maximum: bytes that are really allocated, capacities and
//! not lengths.

use super::{CONNECTIONS_BEYOND_MAX, SEATS_MAX, Settings};
use crate::events;
use crate::format::splice::Splicer;

/// Bytes of each part, by its name.
pub type HeldBytes = [(&'static str, usize); 9];

/// For each connection, besides its head: its entries in tables, and its answers.
const CONNECTION_BYTES: usize = 84 * 1024;
/// For a UDP client in the answer to add-token, which names all of its session's.
const ANSWERED_CLIENT_BYTES: usize = 640;
/// For each stream, besides `--buffers`.
pub(super) const GRANTED_BYTES: usize = 192 * 1024;
/// For each stream with RTP: packets that came early, datagrams on their way, what corrections are
/// made of.
pub(super) const RTP_BYTES: usize = 1536 * 1024;
/// For each source by RTMP: messages that are not whole, and their tags.
const RTMP_BYTES: usize = 576 * 1024;
/// For each UDP client of a stream.
pub(super) const UDP_CLIENT_BYTES: usize = 64;
/// For each address that watches by HLS where a token says how many may: a name of 256 bytes.
const SEAT_BYTES: usize = 768;
/// First packets that wait for their second.
const FIRST_PACKETS_BYTES: usize = 768 * 1024;
/// For each token: a name of 250 bytes with sixteen addresses.
const TOKEN_BYTES: usize = 5 * 1024;
/// Changes that wait for the disk, blocks, and what each part has for itself.
const OTHER_BYTES: usize = 2 * 1024 * 1024;
/// Events: the text, the positions in it, and session ids. The shortest event about a session id is
/// as long as the longest session id.
const EVENTS_BYTES: usize = events::BYTES_MAX * 5 / 2 + events::UNITS_MAX * 32 + 64 * 1024;
/// For each peer: eight lists.
const PEER_BYTES: usize = 8 * 16 * 1024 * 1024;

impl Settings {
    /// Returns the maximal memory of each part, whatever clients send. This is the sum of
    /// `docs/security.md`, without the program itself.
    pub(super) fn held_bytes_max(&self) -> HeldBytes {
        let limits = &self.limits;
        let connections = limits.connections_max + CONNECTIONS_BEYOND_MAX;
        let udp_clients = limits.tokens.udp_clients_per_session_max;
        let head_bytes = limits.http.head_bytes_max.max(16 * 1024);
        let each_client = head_bytes + CONNECTION_BYTES + udp_clients * ANSWERED_CLIENT_BYTES;
        let splicer = Splicer::held_bytes_max(limits.stream.buffer_bytes / 2);
        let each_stream = limits.stream.held_beside_buffer_max()
            + GRANTED_BYTES
            + RTP_BYTES
            + udp_clients * UDP_CLIENT_BYTES
            + if limits.hold_time.is_zero() {
                0
            } else {
                splicer
            };
        let all_remuxed = match self.remuxes {
            true => limits.remuxed_held_bytes_max(),
            false => 0,
        };
        let rtmp = match self.takes_rtmp {
            true => limits.streams_max * RTMP_BYTES,
            false => 0,
        };
        let peers = self.peers.len() * PEER_BYTES;
        [
            (
                "clients",
                connections * each_client + rtmp + peers + SEATS_MAX * SEAT_BYTES + OTHER_BYTES,
            ),
            (
                "streams",
                limits.buffers_bytes_max
                    + limits.streams_max * each_stream
                    + all_remuxed
                    + OTHER_BYTES,
            ),
            ("rtp", FIRST_PACKETS_BYTES + limits.streams_max * 1024),
            ("origins", limits.streams_max * 8 * 1024 + OTHER_BYTES),
            (
                "tokens",
                limits.tokens.tokens_max * TOKEN_BYTES + OTHER_BYTES,
            ),
            ("lists", connections * head_bytes + peers + OTHER_BYTES),
            (
                "desk",
                connections * 1024 + limits.streams_max * 1024 + OTHER_BYTES,
            ),
            ("events", EVENTS_BYTES),
            ("threads", OTHER_BYTES + 1024 * 1024),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::relay::stage;

    const KIB: usize = 1024;
    const MIB: usize = 1024 * 1024;

    /// The table of docs/security.md: what each part may hold where nothing may come in, and by how
    /// much more each bound that is raised makes it.
    #[test]
    fn each_bound_allows_as_much_as_the_operator_is_told() {
        type Raise = fn(&mut Settings);
        type More<'a> = &'a [(&'a str, usize)];
        let mut settings = Settings::default();
        let parts = |settings: &Settings| settings.held_bytes_max();
        let beyond = CONNECTIONS_BEYOND_MAX;
        let mut expected = [
            ("clients", beyond * 100 * KIB + 8 * MIB),
            ("streams", 2 * MIB),
            ("rtp", 768 * KIB),
            ("origins", 2 * MIB),
            ("tokens", 2 * MIB),
            ("lists", beyond * 16 * KIB + 2 * MIB),
            ("desk", beyond * KIB + 2 * MIB),
            // 3.1 MiB.
            ("events", 3 * MIB + 64 * KIB),
            ("threads", 3 * MIB),
        ];
        assert_eq!(parts(&settings), expected, "nothing");
        let connections = beyond + 10;
        // These are counted by those whose they are.
        let limits = stage::settings(&["--buffer=1M"]).limits.stream;
        let (beside, splicer) = (
            limits.held_beside_buffer_max(),
            Splicer::held_bytes_max(512 * KIB),
        );
        let all: [(&str, Raise, More<'_>); 10] = [
            (
                "10 connections",
                |it| it.limits.connections_max = 10,
                &[
                    ("clients", 10 * 100 * KIB),
                    ("lists", 10 * 16 * KIB),
                    ("desk", 10 * KIB),
                ],
            ),
            (
                "heads of 20 KiB",
                |it| it.limits.http.head_bytes_max = 20 * KIB,
                &[
                    ("clients", connections * 4 * KIB),
                    ("lists", connections * 4 * KIB),
                ],
            ),
            (
                "5 UDP clients for each session",
                |it| it.limits.tokens.udp_clients_per_session_max = 5,
                &[("clients", connections * 5 * 640)],
            ),
            (
                "a buffer of 1 MiB",
                |it| it.limits.stream = stage::settings(&["--buffer=1M"]).limits.stream,
                &[],
            ),
            (
                "3 streams",
                |it| it.limits.streams_max = 3,
                &[
                    ("streams", 3 * (beside + 192 * KIB + 1536 * KIB + 5 * 64)),
                    ("rtp", 3 * KIB),
                    ("origins", 3 * 8 * KIB),
                    ("desk", 3 * KIB),
                ],
            ),
            (
                "streams are held",
                |it| it.limits.hold_time = Duration::from_secs(1),
                &[("streams", 3 * splicer)],
            ),
            (
                "buffers of 8 MiB",
                |it| it.limits.buffers_bytes_max = 8 * MIB,
                &[("streams", 8 * MIB)],
            ),
            (
                "7 tokens",
                |it| it.limits.tokens.tokens_max = 7,
                &[("tokens", 7 * 5 * KIB)],
            ),
            (
                "2 peers",
                |it| {
                    let options = ["--peer=http://10.1.0.1:80", "--peer=http://10.1.0.2:80"];
                    it.peers = stage::settings(&options).peers;
                },
                &[("clients", 2 * 128 * MIB), ("lists", 2 * 128 * MIB)],
            ),
            ("other containers", |it| it.remuxes = true, &[]),
        ];
        for (what, raise, more) in all {
            raise(&mut settings);
            for (part, bytes) in more {
                let place = expected.iter().position(|(name, _)| name == part);
                expected[place.expect("a part")].1 += bytes;
            }
            if settings.remuxes {
                expected[1].1 += settings.limits.remuxed_held_bytes_max();
            }
            assert_eq!(parts(&settings), expected, "{what}");
        }
    }
}
