//! The door to what another process tells: records, and bytes of streams.

use std::net::SocketAddr;
use std::time::Duration;

use tollgate::config::Config;
use tollgate::gather::Gather;
use tollgate::relay::handover::Successor;
use tollgate::relay::{ConnectionId, LiveId, Outgoing, Relay, write_next};

/// Of one stream no more is made up.
const MEDIA_BYTES_MAX: usize = 256 * 1024;
const PIECE: [u8; 4096] = [0x47; 4096];

/// `media <stream> <from> <bytes>` in so many lines, an empty one, and what a core has told. It is
/// refused, or there is a core that keeps what it promises, whatever comes next.
pub fn records(data: &[u8]) {
    let mut config = Config::default();
    let subnet = "10.9.0.0/16".parse().expect("a subnet");
    config.core.token_servers = vec![subnet];
    config.core.limits.stream.buffer_bytes = 128 * 1024;
    config.core.limits.buffers_bytes_max = 1024 * 1024;
    let mut successor = Successor::new(config.settings(100, 1_800_000_000, 7));
    let mut rest = data;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let (line, behind) = rest.split_at(end);
        rest = &behind[1..];
        let Some((live, from, bytes)) = media(line) else {
            break;
        };
        if tell_media(&mut successor, LiveId::from_u64(live), from, bytes).is_none() {
            return;
        }
    }
    if let Ok((relay, _)) = successor.take_over(rest, false) {
        go_on(relay);
    }
}

fn media(line: &[u8]) -> Option<(u64, u64, usize)> {
    let line = std::str::from_utf8(line).ok()?.strip_prefix("media ")?;
    let mut numbers = line.split(' ').map(|number| number.parse::<u64>().ok());
    let (live, from, bytes) = (numbers.next()??, numbers.next()??, numbers.next()??);
    Some((live, from, usize::try_from(bytes).ok()?))
}

fn tell_media(successor: &mut Successor, live: LiveId, from: u64, bytes: usize) -> Option<()> {
    let mut left = bytes.min(MEDIA_BYTES_MAX);
    let mut at = from;
    while left > 0 {
        let piece = &PIECE[..left.min(PIECE.len())];
        successor.media(live, at, piece).ok()?;
        (at, left) = (at + piece.len() as u64, left - piece.len());
    }
    Some(())
}

/// Everybody sends something, gets something, and leaves.
fn go_on(mut relay: Relay) {
    relay.check();
    let mut now = relay.next_deadline().unwrap_or_default();
    let mut ids: Vec<ConnectionId> = (0..16).map(ConnectionId::from_u64).collect();
    let newcomer = relay.accepted(SocketAddr::from(([10, 9, 0, 1], 9)), now);
    ids.extend(newcomer);
    for round in 0..4 {
        for id in &ids {
            relay.unblocked(*id);
            let wanted = relay.appetite(*id).min(PIECE.len());
            if wanted > 0 {
                relay.received(*id, &PIECE[..wanted], now);
            }
            relay.check();
        }
        for _ in 0..64 {
            let write = |id, gather: &Gather<'_>| {
                ids.push(id);
                Outgoing::Whole(gather.bytes())
            };
            if write_next(&mut relay, now, write).is_none() {
                break;
            }
            relay.check();
        }
        while relay.next_datagrams(now, &[]).is_some() && round > 0 {}
        while relay.next_action().is_some() {}
        now = now + Duration::from_secs(round);
        relay.expire(now);
        relay.check();
        ids.sort();
        ids.dedup();
        ids.truncate(64);
    }
    for id in ids {
        relay.lost(id, now);
        relay.check();
    }
}
