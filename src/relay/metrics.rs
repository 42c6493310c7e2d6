//! Figures for whoever watches over the server, in Prometheus's text format. No label holds a
//! sessionid.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;

use super::counts::{Count, Counts, Turns};
use super::held::HeldBytes;
use crate::gate::Digest;
use crate::http::Status;
use crate::post::ClientFigures;
use crate::stream::Figures;

/// The media type of the text format.
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What there is now, and what has been counted.
pub(super) struct Seen<'a> {
    /// What has been counted since the start.
    pub counts: &'a Counts,
    /// Over all streams.
    pub streams: Sums,
    /// Some of those that run, by their labels.
    pub each: BTreeMap<String, OfStream>,
    /// When it all began.
    pub started_unix_seconds: u64,
    /// What some of the UDP clients have got.
    pub udp_clients: BTreeMap<SocketAddr, ClientFigures>,
    /// Those that are open, whoever opened them.
    pub connections: usize,
    /// Viewers who wait for a session to begin.
    pub waiting: usize,
    /// Who waits for a playlist to have a segment.
    pub blocked: usize,
    /// Sessions that are fetched from an origin, or will be.
    pub pulls: usize,
    /// Rounds of asking origins that brought nothing, since the start.
    pub pull_failures: u64,
    /// Deadlines that are armed.
    pub deadlines: usize,
    /// Tuples in the table.
    pub tokens: usize,
    /// Bytes that each part holds.
    pub held: HeldBytes,
}

/// The streams, all together.
#[derive(Clone, Copy, Default)]
pub(super) struct Sums {
    /// Streams that have a source, or wait for one.
    pub running: usize,
    /// Their viewers wait for a source.
    pub held: usize,
    /// Streams that are sent to their end.
    pub draining: usize,
    /// Streams that are made of others, in another container.
    pub shadows: usize,
    /// Clients who get a stream over HTTP.
    pub viewers: usize,
    /// Addresses that get a stream by UDP.
    pub udp_clients: usize,
    /// Bytes of `--buffers` that are left to them.
    pub buffers_left: usize,
    /// Of those that are over, too.
    pub figures: Figures,
    /// Payload bytes that they were sent.
    pub udp_bytes: u64,
}

/// One that runs.
#[derive(Clone, Copy, Default)]
pub(super) struct OfStream {
    /// Clients who get it over HTTP.
    pub viewers: u64,
    /// Addresses that get it by UDP.
    pub udp_clients: u64,
    /// Bits a second of its source's, lately.
    pub bitrate: u64,
    /// Since it began.
    pub figures: Figures,
}

impl OfStream {
    /// And those of another.
    pub fn add(&mut self, other: OfStream) {
        self.viewers += other.viewers;
        self.udp_clients += other.udp_clients;
        self.bitrate += other.bitrate;
        self.figures.bytes_received += other.figures.bytes_received;
        self.figures.bytes_sent += other.figures.bytes_sent;
        self.figures.skips += other.figures.skips;
    }
}

/// So many that run have rows of their own, those that began first.
pub(super) const STREAMS_SHOWN_MAX: usize = 100;

/// A family of samples: each has its labels, and a number.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: fn(&Seen<'_>) -> Vec<(String, u64)>,
}

#[rustfmt::skip]
const FAMILIES: &[Family] = &[
    gauge("tollgate_build_info", "The version that runs.", |_| labelled("version", [(env!("CARGO_PKG_VERSION"), 1)])),
    gauge("tollgate_streams", "Streams that run.", |seen| one(seen.streams.running)),
    gauge("tollgate_held_streams", "Those of them whose viewers wait for a source.", |seen| one(seen.streams.held)),
    gauge("tollgate_draining_streams", "Streams without a source whose rest still goes out.", |seen| one(seen.streams.draining)),
    gauge("tollgate_viewers", "HTTP viewers.", |seen| one(seen.streams.viewers)),
    gauge("tollgate_waiting_viewers", "HTTP viewers whose session does not run yet.", |seen| one(seen.waiting)),
    gauge("tollgate_blocked_playlists", "Requests for HLS playlists that wait for a segment.", |seen| one(seen.blocked)),
    counter("tollgate_playlists_total", "HLS playlists asked for.", |seen| count(seen.counts.of(Count::Playlists))),
    counter("tollgate_segments_total", "HLS segments and their headers asked for.", |seen| count(seen.counts.of(Count::Segments))),
    gauge("tollgate_remuxed", "Streams in another container, beside those that they are made of.", |seen| one(seen.streams.shadows)),
    counter("tollgate_remuxed_total", "Times that a stream was begun in another container.", |seen| count(seen.counts.of(Count::Remuxed))),
    gauge("tollgate_pulls", "Sessions that are fetched, or being fetched, from an origin.", |seen| one(seen.pulls)),
    counter("tollgate_pull_failures_total", "Times that no origin had the stream.", |seen| count(seen.pull_failures)),
    gauge("tollgate_udp_clients", "UDP clients of streams that run.", |seen| one(seen.streams.udp_clients)),
    gauge("tollgate_udp_client_datagrams", "Datagrams to a UDP client of streams that run, by what became of them; of 256 clients at the most.", of_udp_clients),
    gauge("tollgate_streams_not_shown", "Streams that run and have no rows of their own, where 100 have.", |seen| one(seen.streams.running.saturating_sub(STREAMS_SHOWN_MAX))),
    gauge("tollgate_stream_viewers", "HTTP viewers of a stream; of the 100 that began first, as the others of streams.", |seen| seen.of_each(|one| one.viewers)),
    gauge("tollgate_stream_udp_clients", "UDP clients of a stream.", |seen| seen.of_each(|one| one.udp_clients)),
    gauge("tollgate_stream_bytes_per_second", "What a stream's source sends, over its last seconds.", |seen| seen.of_each(|one| one.bitrate / 8)),
    counter("tollgate_stream_received_bytes_total", "Media bytes from a stream's sources.", |seen| seen.of_each(|one| one.figures.bytes_received)),
    counter("tollgate_stream_sent_bytes_total", "Bytes of a stream to HTTP viewers and UDP clients.", |seen| seen.of_each(|one| one.figures.bytes_sent)),
    counter("tollgate_stream_skips_total", "Times that a viewer fell out of a stream's buffer.", |seen| seen.of_each(|one| one.figures.skips)),
    gauge("process_start_time_seconds", "When it began, in seconds since 1970.", |seen| count(seen.started_unix_seconds)),
    gauge("process_resident_memory_bytes", "Memory of the process that is in use.", |seen| known(seen.counts.process().resident_bytes)),
    gauge("process_virtual_memory_bytes", "Memory that the process may use.", |seen| known(seen.counts.process().virtual_bytes)),
    gauge("process_open_fds", "File descriptors in use.", |seen| count(seen.counts.files().own + seen.connections as u64)),
    gauge("process_max_fds", "File descriptors that it may use.", |seen| count(seen.counts.files().max)),
    gauge("tollgate_buffers_left_bytes", "What streams may still take of --buffers: where less than a block of 64 KiB is left, they keep less than --buffer each.", |seen| one(seen.streams.buffers_left)),
    gauge("tollgate_connections", "HTTP connections.", |seen| one(seen.connections)),
    gauge("tollgate_deadlines", "Deadlines of connections and streams that are armed.", |seen| one(seen.deadlines)),
    gauge("tollgate_tokens", "Tuples in the token table.", |seen| one(seen.tokens)),
    gauge("tollgate_held_bytes", "Bytes that are allocated, by the part that holds them.", |seen| labelled("part", seen.held.map(|(part, bytes)| (part, bytes as u64)))),
    counter("tollgate_connections_total", "HTTP connections accepted.", |seen| count(seen.counts.of(Count::Connections))),
    counter("tollgate_streams_total", "Streams that began.", |seen| count(seen.counts.of(Count::Streams))),
    counter("tollgate_received_bytes_total", "Media bytes from sources.", |seen| count(seen.streams.figures.bytes_received)),
    counter("tollgate_sent_bytes_total", "Media bytes to HTTP viewers.", |seen| count(seen.streams.figures.bytes_sent)),
    counter("tollgate_udp_sent_bytes_total", "Bytes of datagrams to UDP clients.", |seen| count(seen.streams.udp_bytes)),
    counter("tollgate_skips_total", "Times that a viewer fell out of a stream's buffer.", |seen| count(seen.streams.figures.skips)),
    counter("tollgate_datagrams_received_total", "RTP packets taken from sources.", |seen| count(seen.counts.of(Count::Datagrams))),
    counter("tollgate_datagrams_sent_total", "Datagrams handed to the kernel.", |seen| count(seen.counts.of(Count::DatagramsSent))),
    counter("tollgate_datagrams_dropped_total", "Datagrams dropped, by why.", dropped),
    counter("tollgate_rtp_disorder_total", "Packets of MPEG-TS over RTP: late are those that came too late or twice, lost those that were not waited for any longer.", |seen| {
        labelled("kind", [("late", seen.counts.of(Count::Late)), ("lost", seen.counts.of(Count::Lost))])
    }),
    counter("tollgate_refusals_total", "Requests refused, by status.", |seen| {
        let so_many = |status: Status| seen.counts.refusals().get(&status).copied().unwrap_or(0);
        labelled("status", Status::REFUSALS.map(|status| (status.code(), so_many(status))))
    }),
    counter("tollgate_cuts_total", "Viewers that were cut, by why.", |seen| {
        labelled("reason", seen.counts.cuts().iter().map(|(reason, count)| (reason, *count)))
    }),
    counter("tollgate_token_file_writes_total", "Writes to the token file, each with all changes that waited for it.", |seen| {
        labelled("result", [("written", seen.counts.of(Count::TokenWrites)), ("failed", seen.counts.of(Count::TokenWritesFailed))])
    }),
];

type Samples = fn(&Seen<'_>) -> Vec<(String, u64)>;

const fn gauge(name: &'static str, help: &'static str, samples: Samples) -> Family {
    Family {
        name,
        kind: "gauge",
        help,
        samples,
    }
}

const fn counter(name: &'static str, help: &'static str, samples: Samples) -> Family {
    Family {
        name,
        kind: "counter",
        help,
        samples,
    }
}

/// One sample without a label.
fn count(number: u64) -> Vec<(String, u64)> {
    vec![(String::new(), number)]
}

/// The same, where it is known.
fn known(number: Option<u64>) -> Vec<(String, u64)> {
    number.map_or(Vec::new(), count)
}

fn one(number: usize) -> Vec<(String, u64)> {
    count(number as u64)
}

/// A sample for each value of a label.
fn labelled(
    label: &str,
    samples: impl IntoIterator<Item = (impl std::fmt::Display, u64)>,
) -> Vec<(String, u64)> {
    let samples = samples.into_iter();
    let samples = samples.map(|(value, count)| (format!("{{{label}=\"{value}\"}}"), count));
    samples.collect()
}

/// By their addresses, which are no secret of a session's.
fn of_udp_clients(seen: &Seen<'_>) -> Vec<(String, u64)> {
    let clients = seen.udp_clients.iter();
    let samples = clients.flat_map(|(client, figures)| {
        [("sent", figures.sent), ("dropped", figures.dropped)].map(|(state, count)| {
            let labels = format!("{{client=\"{client}\",state=\"{state}\"}}");
            (labels, count)
        })
    });
    samples.collect()
}

fn dropped(seen: &Seen<'_>) -> Vec<(String, u64)> {
    let counts = seen.counts;
    let samples = [
        ("stranger", counts.of(Count::Stranger)),
        ("malformed", counts.of(Count::Malformed)),
        ("outside", counts.of(Count::Outside)),
        ("second_source", counts.of(Count::SecondSource)),
        ("refused", counts.of(Count::Refused)),
        ("out_of_sequence", counts.of(Count::OutOfSequence)),
        ("too_fast", counts.of(Count::TooFast)),
        ("unsent", counts.of(Count::Unsent)),
    ];
    labelled("reason", samples)
}

/// The labels of a session's rows: its own, and what the note of its token begins with.
pub(super) fn labels_of(session: Digest, word: &str) -> String {
    let word = word.replace('\\', "\\\\").replace('"', "\\\"");
    match word.is_empty() {
        true => format!("{{session=\"{session}\"}}"),
        false => format!("{{session=\"{session}\",note=\"{word}\"}}"),
    }
}

impl Seen<'_> {
    fn of_each(&self, number: fn(&OfStream) -> u64) -> Vec<(String, u64)> {
        let each = self.each.iter();
        each.map(|(labels, one)| (labels.clone(), number(one)))
            .collect()
    }

    /// The figures as text.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(4096);
        for family in FAMILIES {
            head(&mut text, family.name, family.kind, family.help);
            for (labels, number) in (family.samples)(self) {
                // Writing into a string does not fail.
                let _ = writeln!(text, "{}{labels} {number}", family.name);
            }
        }
        write_turns(&mut text, self.counts.turns());
        let name = "process_cpu_seconds_total";
        head(
            &mut text,
            name,
            "counter",
            "Time that it has had of the processors.",
        );
        let seconds = self.counts.process().cpu.as_secs_f64();
        let _ = writeln!(text, "{name} {seconds}");
        text
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn write_turns(text: &mut String, turns: &Turns) {
    let name = "tollgate_turn_seconds";
    head(text, name, "histogram", "How long a turn of the loop took.");
    let mut all = 0;
    for (bound, count) in turns.rows() {
        let seconds = bound.map(|bound| (bound as f64 / 1e6).to_string());
        let bound = seconds.as_deref().unwrap_or("+Inf");
        let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {count}");
        all = count;
    }
    let seconds = turns.microseconds() as f64 / 1e6;
    let _ = writeln!(text, "{name}_sum {seconds}\n{name}_count {all}");
}
