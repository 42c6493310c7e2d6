//! Entry points for arbitrary bytes, each with its invariants. Fuzz targets and the replay of their
//! corpora use the same ones.

mod events;
mod format;
mod gate;
mod handover;
mod hls;
mod hls_wanted;
mod http;
mod json;
mod remux;
mod remuxer;
mod rtmp;
mod rtp;
mod splice;

#[path = "../bounds/counting.rs"]
#[allow(dead_code, reason = "only the peak is looked at")]
mod counting;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// What a door holds at most: the limits of what it drives,
const MEMORY_BYTES_MAX: usize = 8 << 20;
/// and for each byte of its input what it keeps of the results.
const HELD_PER_BYTE: usize = 512;

/// A door: it panics where something that must hold does not.
pub type Door = fn(&[u8]);

/// Every door, by the name of its fuzz target.
pub const ALL: &[(&str, Door)] = &[
    ("http_request", http::request),
    ("answer", http::answer),
    ("proxy_header", gate::proxy_header),
    ("udp_clients", gate::udp_clients),
    ("journal", gate::journal),
    ("json", json::rows),
    ("events", events::units),
    ("subnet", gate::subnet),
    ("options", gate::options),
    ("container", format::container),
    ("matroska", format::matroska),
    ("mpegts", format::mpegts),
    ("ogg", format::ogg),
    ("mp4", format::mp4),
    ("flv", format::flv),
    ("mp3", format::mp3),
    ("aac", format::aac),
    ("splice", splice::sources),
    ("handover", handover::records),
    ("hls", hls::segments),
    ("hls_wanted", hls_wanted::address),
    ("remux_flv", remux::flv),
    ("remux_matroska", remux::matroska),
    ("remux_matroska_head", remux::matroska_head),
    ("remux_mp4", remux::mp4),
    ("remux_mp4_head", remux::mp4_head),
    ("remux_mpegts", remux::mpegts),
    ("remuxer", remuxer::sources),
    ("rtmp", rtmp::publisher),
    ("rtp_packet", rtp::packet),
    ("packetiser", rtp::packetiser),
];

/// Goes through the door of a fuzz target.
pub fn pass(name: &str, data: &[u8]) {
    let door = ALL.iter().find(|(door, _)| *door == name);
    let before = counting::begin_peak();
    door.expect("every target has a door").1(data);
    let most = (counting::peak() - before) as usize;
    let most_allowed = MEMORY_BYTES_MAX + HELD_PER_BYTE * data.len();
    assert!(most <= most_allowed, "{name} held {most} bytes");
}
