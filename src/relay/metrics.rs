//! Metrics, in Prometheus's text format. No label holds a session id.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;

use super::MemoryBytes;
use super::counts::{Count, Counts, Turns};
use crate::gate::Digest;
use crate::http::Status;
use crate::stream::Figures;
use crate::udp_out::ClientFigures;

/// The media type of the text format.
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The values of all metrics.
pub(super) struct MetricValues<'a> {
    /// Counters since the start.
    pub counts: &'a Counts,
    /// Sums over all streams.
    pub streams: Sums,
    /// Some of the running streams, by their labels.
    pub each: BTreeMap<String, OfStream>,
    /// Start of the process.
    pub started_unix_seconds: u64,
    /// Datagrams to some of the UDP clients.
    pub udp_clients: BTreeMap<SocketAddr, ClientFigures>,
    /// Open connections, of clients and to other relays.
    pub connections: usize,
    /// Viewers that wait for a session to begin.
    pub waiting: usize,
    /// Clients that wait for a playlist to have a segment.
    pub blocked: usize,
    /// Sessions that are fetched from an origin, or will be.
    pub pulls: usize,
    /// Times that no origin had the stream, since the start.
    pub pull_failures: u64,
    /// Armed deadlines.
    pub deadlines: usize,
    /// Tuples in the token table.
    pub tokens: usize,
    /// Memory of streams and of the token table.
    pub memory: MemoryBytes,
}

/// Sums over all streams.
#[derive(Clone, Copy, Default)]
pub(super) struct Sums {
    /// Streams that have a source, or wait for one.
    pub running: usize,
    /// Running streams whose viewers wait for a source.
    pub held: usize,
    /// Ended streams whose rest still goes out.
    pub draining: usize,
    /// Streams that are made of others, in another container.
    pub all_remuxed: usize,
    /// Clients that get a stream over HTTP.
    pub viewers: usize,
    /// Addresses that get a stream by UDP.
    pub udp_clients: usize,
    /// Bytes of `--buffers` that are left.
    pub buffers_left: usize,
    /// Totals, with those of streams that have ended.
    pub figures: Figures,
    /// Bytes of datagrams to UDP clients.
    pub udp_bytes: u64,
}

/// Figures of one running stream.
#[derive(Clone, Copy, Default)]
pub(super) struct OfStream {
    /// Clients that get it over HTTP.
    pub viewers: u64,
    /// Addresses that get it by UDP.
    pub udp_clients: u64,
    /// Bits per second of its source, over the last seconds.
    pub bitrate: u64,
    /// Totals since it began.
    pub figures: Figures,
}

impl OfStream {
    /// Adds the figures of another stream.
    pub fn add(&mut self, other: OfStream) {
        self.viewers += other.viewers;
        self.udp_clients += other.udp_clients;
        self.bitrate += other.bitrate;
        self.figures += other.figures;
    }
}

/// Streams with metrics of their own: the ones that began first.
pub(super) const STREAMS_SHOWN_MAX: usize = 100;

/// Returns samples: each has its labels, and a number.
type Samples = fn(&MetricValues<'_>) -> Vec<(String, u64)>;

/// The families of samples: kind, name, help, and the function that makes the samples.
#[rustfmt::skip]
const FAMILIES: &[(&str, &str, &str, Samples)] = &[
    ("gauge", "tollgate_build_info", "The version that runs.", |_| labelled("version", [(env!("CARGO_PKG_VERSION"), 1)])),
    ("gauge", "tollgate_streams", "Streams that run.", |values| one(values.streams.running)),
    ("gauge", "tollgate_held_streams", "Running streams whose viewers wait for a source.", |values| one(values.streams.held)),
    ("gauge", "tollgate_draining_streams", "Ended streams whose rest still goes out.", |values| one(values.streams.draining)),
    ("gauge", "tollgate_viewers", "HTTP viewers.", |values| one(values.streams.viewers)),
    ("gauge", "tollgate_waiting_viewers", "HTTP viewers whose session does not run yet.", |values| one(values.waiting)),
    ("gauge", "tollgate_blocked_playlists", "Requests for HLS playlists that wait for a segment.", |values| one(values.blocked)),
    ("counter", "tollgate_playlists_total", "HLS playlists asked for.", |values| count(values.counts.of(Count::Playlists))),
    ("counter", "tollgate_segments_total", "HLS segments and their headers asked for.", |values| count(values.counts.of(Count::Segments))),
    ("gauge", "tollgate_remuxed", "Remuxed streams, which are made from other streams.", |values| one(values.streams.all_remuxed)),
    ("counter", "tollgate_remuxed_total", "Remuxed streams that began.", |values| count(values.counts.of(Count::Remuxed))),
    ("gauge", "tollgate_pulls", "Sessions that are fetched, or being fetched, from an origin.", |values| one(values.pulls)),
    ("counter", "tollgate_pull_failures_total", "Times that no origin had the stream.", |values| count(values.pull_failures)),
    ("gauge", "tollgate_udp_clients", "UDP clients of streams that run.", |values| one(values.streams.udp_clients)),
    ("gauge", "tollgate_udp_client_datagrams", "Datagrams to a UDP client of a running stream, by outcome; at most 256 clients have rows.", of_udp_clients),
    ("gauge", "tollgate_streams_not_shown", "Running streams without rows of their own; the 100 oldest have rows.", |values| one(values.streams.running.saturating_sub(STREAMS_SHOWN_MAX))),
    ("gauge", "tollgate_stream_viewers", "HTTP viewers of a stream; only the 100 oldest streams have rows.", |values| values.of_each(|one| one.viewers)),
    ("gauge", "tollgate_stream_udp_clients", "UDP clients of a stream.", |values| values.of_each(|one| one.udp_clients)),
    ("gauge", "tollgate_stream_bytes_per_second", "Bytes per second from a stream's source, over the last seconds.", |values| values.of_each(|one| one.bitrate / 8)),
    ("counter", "tollgate_stream_received_bytes_total", "Media bytes from a stream's sources.", |values| values.of_each(|one| one.figures.bytes_received)),
    ("counter", "tollgate_stream_sent_bytes_total", "Bytes of a stream to HTTP viewers and UDP clients.", |values| values.of_each(|one| one.figures.bytes_sent)),
    ("counter", "tollgate_stream_skips_total", "Times that a viewer fell out of a stream's buffer.", |values| values.of_each(|one| one.figures.skips)),
    ("gauge", "process_start_time_seconds", "Start of the process, in seconds since 1970.", |values| count(values.started_unix_seconds)),
    ("gauge", "process_resident_memory_bytes", "Memory of the process that is in use.", |values| count(values.counts.process.resident_bytes)),
    ("gauge", "process_virtual_memory_bytes", "Memory that the process may use.", |values| count(values.counts.process.virtual_bytes)),
    ("gauge", "process_open_fds", "File descriptors in use.", |values| count(values.counts.files.own + values.connections as u64)),
    ("gauge", "process_max_fds", "File descriptors that it may use.", |values| count(values.counts.files.max)),
    ("gauge", "tollgate_buffers_left_bytes", "Bytes that streams may still take of --buffers; below 64 KiB, each stream keeps less than --buffer.", |values| one(values.streams.buffers_left)),
    ("gauge", "tollgate_connections", "HTTP connections.", |values| one(values.connections)),
    ("gauge", "tollgate_deadlines", "Deadlines of connections and streams that are armed.", |values| one(values.deadlines)),
    ("gauge", "tollgate_tokens", "Tuples in the token table.", |values| one(values.tokens)),
    ("gauge", "tollgate_held_bytes", "Bytes that are allocated, by the part that holds them.", |values| labelled("part", values.memory.map(|(part, bytes)| (part, bytes as u64)))),
    ("counter", "tollgate_connections_total", "HTTP connections accepted.", |values| count(values.counts.of(Count::Connections))),
    ("counter", "tollgate_streams_total", "Streams that began.", |values| count(values.counts.of(Count::Streams))),
    ("counter", "tollgate_received_bytes_total", "Media bytes from sources.", |values| count(values.streams.figures.bytes_received)),
    ("counter", "tollgate_sent_bytes_total", "Media bytes to HTTP viewers.", |values| count(values.streams.figures.bytes_sent)),
    ("counter", "tollgate_udp_sent_bytes_total", "Bytes of datagrams to UDP clients.", |values| count(values.streams.udp_bytes)),
    ("counter", "tollgate_skips_total", "Times that a viewer fell out of a stream's buffer.", |values| count(values.streams.figures.skips)),
    ("counter", "tollgate_datagrams_received_total", "RTP packets taken from sources.", |values| count(values.counts.of(Count::Datagrams))),
    ("counter", "tollgate_datagrams_sent_total", "Datagrams handed to the kernel.", |values| count(values.counts.of(Count::DatagramsSent))),
    ("counter", "tollgate_datagrams_dropped_total", "Datagrams dropped, by reason.", dropped),
    ("counter", "tollgate_rtp_disorder_total", "Packets of MPEG-TS over RTP. Late: they came too late or twice. Lost: the server no longer waits for them.", |values| {
        labelled("kind", [("late", values.counts.of(Count::Late)), ("lost", values.counts.of(Count::Lost))])
    }),
    ("counter", "tollgate_refusals_total", "Requests refused, by status.", |values| {
        let refused = |status: Status| values.counts.refusals.get(&status).copied().unwrap_or(0);
        labelled("status", Status::refusals().map(|status| (status.code(), refused(status))))
    }),
    ("counter", "tollgate_cuts_total", "Viewers that the server disconnected, by reason.", |values| {
        labelled("reason", values.counts.cuts.rows())
    }),
    ("counter", "tollgate_token_file_writes_total", "Writes to the token file, each with all changes that waited for it.", |values| {
        labelled("result", [("written", values.counts.of(Count::TokenWrites)), ("failed", values.counts.of(Count::TokenWritesFailed))])
    }),
];

/// Returns one sample without a label, if the number is known.
fn count(number: impl Into<Option<u64>>) -> Vec<(String, u64)> {
    Vec::from_iter(number.into().map(|number| (String::new(), number)))
}

/// Returns one sample without a label.
fn one(number: usize) -> Vec<(String, u64)> {
    count(number as u64)
}

/// Returns a sample for each value of a label.
fn labelled(
    label: &str,
    samples: impl IntoIterator<Item = (impl std::fmt::Display, u64)>,
) -> Vec<(String, u64)> {
    let samples = samples.into_iter();
    let samples = samples.map(|(value, count)| (format!("{{{label}=\"{value}\"}}"), count));
    samples.collect()
}

/// Returns the datagrams of UDP clients by address. An address is no secret of a session.
fn of_udp_clients(values: &MetricValues<'_>) -> Vec<(String, u64)> {
    let clients = values.udp_clients.iter();
    let samples = clients.flat_map(|(client, figures)| {
        [("sent", figures.sent), ("dropped", figures.dropped)].map(|(state, count)| {
            let labels = format!("{{client=\"{client}\",state=\"{state}\"}}");
            (labels, count)
        })
    });
    samples.collect()
}

fn dropped(values: &MetricValues<'_>) -> Vec<(String, u64)> {
    let counts = values.counts;
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

/// Returns the labels of a session's rows: its digest, and the first word of its token's note.
pub(super) fn labels_of(session: Digest, word: &str) -> String {
    let word = word.replace('\\', "\\\\").replace('"', "\\\"");
    match word.is_empty() {
        true => format!("{{session=\"{session}\"}}"),
        false => format!("{{session=\"{session}\",note=\"{word}\"}}"),
    }
}

impl MetricValues<'_> {
    fn of_each(&self, number: fn(&OfStream) -> u64) -> Vec<(String, u64)> {
        let each = self.each.iter();
        each.map(|(labels, one)| (labels.clone(), number(one)))
            .collect()
    }

    /// Returns the metrics as text.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(4096);
        for (kind, name, help, samples) in FAMILIES {
            head(&mut text, name, kind, help);
            for (labels, number) in samples(self) {
                // Writing into a string does not fail.
                let _ = writeln!(text, "{name}{labels} {number}");
            }
        }
        write_turns(&mut text, &self.counts.turns);
        let help = "Processor time of this process and of its predecessors.";
        head(&mut text, "process_cpu_seconds_total", "counter", help);
        let seconds = self.counts.cpu.as_secs_f64();
        let _ = writeln!(text, "process_cpu_seconds_total {seconds}");
        text
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn write_turns(text: &mut String, turns: &Turns) {
    let name = "tollgate_turn_seconds";
    head(text, name, "histogram", "Duration of a turn of the loop.");
    let mut all = 0;
    for (bound, count) in turns.rows() {
        let seconds = bound.map(|bound| (bound as f64 / 1e6).to_string());
        let bound = seconds.as_deref().unwrap_or("+Inf");
        let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {count}");
        all = count;
    }
    let seconds = turns.microseconds as f64 / 1e6;
    let _ = writeln!(text, "{name}_sum {seconds}\n{name}_count {all}");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::gate::SessionId;
    use crate::relay::counts::{Files, Process};
    use crate::relay::cut_reason::CutReason;

    fn figures(number: u64) -> Figures {
        Figures {
            bytes_received: number + 1,
            bytes_sent: number + 2,
            skips: number + 3,
        }
    }

    fn of_stream(number: u64) -> OfStream {
        OfStream {
            viewers: number + 4,
            udp_clients: number + 5,
            bitrate: 8 * (number + 6),
            figures: figures(number),
        }
    }

    fn text(counts: &Counts) -> String {
        let client = ("10.0.0.9:5004", 71, 72);
        let client_figures = ClientFigures {
            sent: client.1,
            dropped: client.2,
        };
        let at = client.0.parse().expect("an address");
        let values = MetricValues {
            counts,
            streams: Sums {
                running: 101,
                held: 12,
                draining: 13,
                all_remuxed: 14,
                viewers: 15,
                udp_clients: 16,
                buffers_left: 18,
                figures: figures(20),
                udp_bytes: 17,
            },
            each: BTreeMap::from([
                ("{session=\"a\"}".to_owned(), of_stream(100)),
                ("{session=\"b\"}".to_owned(), of_stream(200)),
            ]),
            started_unix_seconds: 31,
            udp_clients: BTreeMap::from([(at, client_figures)]),
            connections: 32,
            waiting: 33,
            blocked: 34,
            pulls: 35,
            pull_failures: 36,
            deadlines: 37,
            tokens: 38,
            memory: [("streams", 42), ("tokens", 45)],
        };
        values.text()
    }

    /// Each figure stands under its own name, and each name says what it is.
    #[test]
    fn each_figure_has_its_name() {
        let mut counts = Counts::default();
        for (number, what) in [
            Count::Connections,
            Count::Streams,
            Count::Playlists,
            Count::Remuxed,
            Count::Segments,
            Count::TokenWrites,
            Count::TokenWritesFailed,
            Count::Datagrams,
            Count::DatagramsSent,
            Count::Stranger,
            Count::Malformed,
            Count::Outside,
            Count::SecondSource,
            Count::Refused,
            Count::OutOfSequence,
            Count::TooFast,
            Count::Unsent,
            Count::Late,
            Count::Lost,
        ]
        .into_iter()
        .enumerate()
        {
            counts.add(what, 1000 + number as u64);
        }
        counts.cuts.count(CutReason::Stalled);
        counts.refused(Status::NotFound);
        counts.files = Files { own: 8, max: 99 };
        counts.set_process(Process {
            cpu: Duration::from_millis(1500),
            virtual_bytes: None,
            resident_bytes: Some(4096),
        });
        counts.turn_took(Duration::from_micros(90));
        counts.turn_took(Duration::from_micros(240));
        counts.turn_took(Duration::from_millis(700));
        let text = text(&counts);
        for line in [
            "tollgate_streams 101",
            "tollgate_held_streams 12",
            "tollgate_draining_streams 13",
            "tollgate_remuxed 14",
            "tollgate_viewers 15",
            "tollgate_udp_clients 16",
            "tollgate_udp_sent_bytes_total 17",
            "tollgate_buffers_left_bytes 18",
            "tollgate_received_bytes_total 21",
            "tollgate_sent_bytes_total 22",
            "tollgate_skips_total 23",
            "tollgate_streams_not_shown 1",
            "tollgate_stream_viewers{session=\"a\"} 104",
            "tollgate_stream_viewers{session=\"b\"} 204",
            "tollgate_stream_udp_clients{session=\"a\"} 105",
            "tollgate_stream_bytes_per_second{session=\"a\"} 106",
            "tollgate_stream_received_bytes_total{session=\"a\"} 101",
            "tollgate_stream_sent_bytes_total{session=\"a\"} 102",
            "tollgate_stream_skips_total{session=\"b\"} 203",
            "process_start_time_seconds 31",
            "process_resident_memory_bytes 4096",
            "process_open_fds 40",
            "process_max_fds 99",
            "process_cpu_seconds_total 1.5",
            "tollgate_connections 32",
            "tollgate_waiting_viewers 33",
            "tollgate_blocked_playlists 34",
            "tollgate_pulls 35",
            "tollgate_pull_failures_total 36",
            "tollgate_deadlines 37",
            "tollgate_tokens 38",
            "tollgate_held_bytes{part=\"streams\"} 42",
            "tollgate_held_bytes{part=\"tokens\"} 45",
            "tollgate_udp_client_datagrams{client=\"10.0.0.9:5004\",state=\"sent\"} 71",
            "tollgate_udp_client_datagrams{client=\"10.0.0.9:5004\",state=\"dropped\"} 72",
            "tollgate_connections_total 1000",
            "tollgate_streams_total 1001",
            "tollgate_playlists_total 1002",
            "tollgate_remuxed_total 1003",
            "tollgate_segments_total 1004",
            "tollgate_token_file_writes_total{result=\"written\"} 1005",
            "tollgate_token_file_writes_total{result=\"failed\"} 1006",
            "tollgate_datagrams_received_total 1007",
            "tollgate_datagrams_sent_total 1008",
            "tollgate_datagrams_dropped_total{reason=\"stranger\"} 1009",
            "tollgate_datagrams_dropped_total{reason=\"malformed\"} 1010",
            "tollgate_datagrams_dropped_total{reason=\"outside\"} 1011",
            "tollgate_datagrams_dropped_total{reason=\"second_source\"} 1012",
            "tollgate_datagrams_dropped_total{reason=\"refused\"} 1013",
            "tollgate_datagrams_dropped_total{reason=\"out_of_sequence\"} 1014",
            "tollgate_datagrams_dropped_total{reason=\"too_fast\"} 1015",
            "tollgate_datagrams_dropped_total{reason=\"unsent\"} 1016",
            "tollgate_rtp_disorder_total{kind=\"late\"} 1017",
            "tollgate_rtp_disorder_total{kind=\"lost\"} 1018",
            "tollgate_refusals_total{status=\"404\"} 1",
            "tollgate_refusals_total{status=\"403\"} 0",
            "tollgate_cuts_total{reason=\"stalled\"} 1",
            "tollgate_cuts_total{reason=\"kicked\"} 0",
            "tollgate_turn_seconds_bucket{le=\"0.0001\"} 1",
            "tollgate_turn_seconds_bucket{le=\"0.00025\"} 2",
            "tollgate_turn_seconds_bucket{le=\"0.25\"} 2",
            "tollgate_turn_seconds_bucket{le=\"+Inf\"} 3",
            "tollgate_turn_seconds_sum 0.70033",
            "tollgate_turn_seconds_count 3",
            "# HELP tollgate_turn_seconds Duration of a turn of the loop.",
            "# TYPE tollgate_turn_seconds histogram",
            "# TYPE tollgate_streams gauge",
            "# TYPE tollgate_streams_total counter",
            "# HELP tollgate_streams_total Streams that began.",
            "# TYPE process_cpu_seconds_total counter",
        ] {
            assert!(text.lines().any(|its| its == line), "{line}\n{text}");
        }
        // What is not known is left out.
        assert!(!text.contains("\nprocess_virtual_memory_bytes"));
        let version = format!(
            "tollgate_build_info{{version=\"{}\"}} 1",
            env!("CARGO_PKG_VERSION")
        );
        assert!(text.contains(&version), "{text}");
    }

    /// Whoever reads them takes a line that is none for the end of them.
    #[test]
    fn each_line_is_a_sample_of_the_family_before_it_or_says_what_that_is() {
        let text = text(&Counts::default());
        let mut family = "";
        for line in text.lines() {
            if let Some(said) = line.strip_prefix("# HELP ") {
                let (name, words) = said.split_once(' ').expect("words");
                assert!(words.ends_with('.'), "{line}");
                family = name;
            } else if let Some(said) = line.strip_prefix("# TYPE ") {
                let (name, kind) = said.split_once(' ').expect("a kind");
                assert_eq!(name, family);
                assert!(["gauge", "counter", "histogram"].contains(&kind), "{line}");
            } else {
                let (name, number) = line.rsplit_once(' ').expect("a number");
                assert!(number.parse::<f64>().is_ok(), "{line}");
                assert!(name.starts_with(family), "{line}");
            }
        }
        assert_eq!(text.matches("# HELP ").count(), FAMILIES.len() + 2);
        assert!(text.ends_with('\n'));
    }

    /// Labels are short: two sessions may have the same, and then one row.
    #[test]
    fn two_streams_of_one_label_are_summed() {
        let mut sum = of_stream(100);
        sum.add(of_stream(1000));
        assert_eq!((sum.viewers, sum.udp_clients), (1108, 1110));
        assert_eq!(sum.bitrate, 8 * 1112);
        let Figures {
            bytes_received,
            bytes_sent,
            skips,
        } = sum.figures;
        assert_eq!((bytes_received, bytes_sent, skips), (1102, 1104, 1106));
        // Another process may have told any number.
        sum.figures.bytes_sent = u64::MAX;
        sum.add(of_stream(1000));
        assert_eq!(sum.figures.bytes_sent, u64::MAX);
    }

    /// A note is the operator's text, and may contain characters that the format reserves.
    #[test]
    fn labels_name_a_session_and_what_its_note_begins_with() {
        let session = SessionId::parse(b"s").expect("a good sessionid");
        let digest = session.digest();
        for (word, note) in [
            ("", ""),
            ("studio", ",note=\"studio\""),
            ("a\"b", ",note=\"a\\\"b\""),
            ("a\\b", ",note=\"a\\\\b\""),
        ] {
            let labels = format!("{{session=\"{digest}\"{note}}}");
            assert_eq!(labels_of(digest, word), labels);
        }
    }
}
