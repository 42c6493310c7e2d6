//! What the server holds: bytes that are really allocated, capacities and not lengths. Each part
//! counts its own; here they stand side by side, and beside what they may hold at the most.

use super::{CONNECTIONS_BEYOND_MAX, SEATS_MAX, Settings};
use crate::events;
use crate::format::splice::Splicer;

/// Bytes of each part, by its name.
pub type HeldBytes = [(&'static str, usize); 9];

/// For each connection, besides its head: its places in the tables, and its answers.
const CONNECTION_BYTES: usize = 84 * 1024;
/// For a UDP client in the answer to add-token, which names all of its session's.
const ANSWERED_CLIENT_BYTES: usize = 640;
/// For each stream, whatever `--buffers` says.
pub(super) const GRANTED_BYTES: usize = 192 * 1024;
/// For each stream with RTP: packets that came early, datagrams on their way, what corrections are
/// made of.
pub(super) const RTP_BYTES: usize = 1536 * 1024;
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
/// What has happened: text, the places in it, and whom it is about. The shortest that tells of a
/// sessionid is as long as the longest of those.
const EVENTS_BYTES: usize = events::BYTES_MAX * 5 / 2 + events::UNITS_MAX * 32 + 64 * 1024;
/// For each peer: eight lists.
const PEER_BYTES: usize = 8 * 16 * 1024 * 1024;

impl Settings {
    /// What each part may hold at the most, whatever comes in: the sum of `docs/security.md`,
    /// without the program itself.
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
        let shadows = match self.remuxes {
            true => limits.shadows_held_bytes_max(),
            false => 0,
        };
        let peers = self.peers.len() * PEER_BYTES;
        [
            (
                "clients",
                connections * each_client + peers + SEATS_MAX * SEAT_BYTES + OTHER_BYTES,
            ),
            (
                "streams",
                limits.buffers_bytes_max + limits.streams_max * each_stream + shadows + OTHER_BYTES,
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
