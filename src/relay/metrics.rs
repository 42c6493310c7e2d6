//! Figures for whoever watches over the server, in Prometheus's text format. No label holds a
//! sessionid.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use super::Relay;
use super::outlet::ClientFigures;
use crate::http::Status;
use crate::stream::Figures;

/// What has been counted since the start, of all streams together.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub connections: u64,
    pub streams: u64,
    /// What streams that are over had counted.
    pub past: Figures,
    pub past_udp_bytes: u64,
    pub refusals: BTreeMap<Status, u64>,
    /// Writes to the token file.
    pub token_writes: u64,
    pub token_writes_failed: u64,
    /// Viewers that were cut, by why.
    pub cuts: BTreeMap<&'static str, u64>,
    /// What waits for the shell's threads, in bytes.
    pub threads_bytes: usize,
    turns: Turns,
}

/// File descriptors.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files {
    /// Those that are not clients'.
    pub own: u64,
    pub max: u64,
}

/// How long the turns of the loop took.
#[derive(Debug, Default)]
struct Turns {
    /// Turns of at most [`BOUNDS`] each, and longer ones.
    buckets: [u64; BOUNDS.len() + 1],
    microseconds: u64,
}

/// Upper bounds of the buckets, in microseconds.
const BOUNDS: [u64; 9] = [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 250_000];

/// The media type of the text format.
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Relay {
    /// A turn of the loop took so long, from the end of its wait on.
    pub fn turn_took(&mut self, time: Duration) {
        let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|bound| *bound < microseconds);
        self.desk.counts.turns.buckets[bucket] += 1;
        self.desk.counts.turns.microseconds = self
            .desk
            .counts
            .turns
            .microseconds
            .saturating_add(microseconds);
    }

    /// What waits for the shell's threads holds so many bytes: names, lines for the disk and the
    /// logs.
    pub fn threads_hold(&mut self, bytes: usize) {
        self.desk.counts.threads_bytes = bytes;
    }

    /// How many file descriptors there are, from the shell, which opens them.
    pub fn set_files(&mut self, files: Files) {
        self.desk.files = files;
    }

    /// The figures as text.
    pub(super) fn metrics(&self) -> String {
        let mut all = self.desk.counts.past;
        let mut udp_bytes = self.desk.counts.past_udp_bytes;
        let (mut viewers, mut udp_clients, mut held) = (0, 0, 0);
        for (_, live) in self.streams.lives.iter() {
            let Figures {
                bytes_received,
                bytes_sent,
                skips,
            } = live.stream.figures();
            all.bytes_received += bytes_received;
            all.bytes_sent += bytes_sent;
            all.skips += skips;
            udp_bytes += live.outlet.bytes_sent();
            viewers += live.stream.viewer_count() as u64;
            udp_clients += live.outlet.client_count() as u64;
            held += u64::from(live.has_waiting_viewers());
        }
        let udp = self.rtp_in.figures;
        let mut text = Text(String::with_capacity(4096));
        text.family("tollgate_build_info", "gauge", "The version that runs.");
        text.row(
            "tollgate_build_info",
            &format!("{{version=\"{}\"}}", env!("CARGO_PKG_VERSION")),
            1,
        );
        text.one(
            "tollgate_streams",
            "gauge",
            "Streams that run.",
            self.streams.running.len() as u64,
        );
        text.one(
            "tollgate_held_streams",
            "gauge",
            "Those of them whose viewers wait for a source.",
            held,
        );
        text.one(
            "tollgate_draining_streams",
            "gauge",
            "Streams without a source whose rest still goes out.",
            self.streams.draining.len() as u64,
        );
        text.one("tollgate_viewers", "gauge", "HTTP viewers.", viewers);
        text.one(
            "tollgate_waiting_viewers",
            "gauge",
            "HTTP viewers whose session does not run yet.",
            self.clients.waiting.len() as u64,
        );
        text.one(
            "tollgate_pulls",
            "gauge",
            "Sessions that are fetched, or being fetched, from an origin.",
            self.fetch.pulls.len() as u64,
        );
        text.one(
            "tollgate_pull_failures_total",
            "counter",
            "Times that no origin had the stream.",
            self.fetch.pulls.failures,
        );
        text.one(
            "tollgate_udp_clients",
            "gauge",
            "UDP clients of streams that run.",
            udp_clients,
        );
        text.one(
            "process_open_fds",
            "gauge",
            "File descriptors in use.",
            self.desk.files.own + self.clients.connections.len() as u64,
        );
        text.one(
            "process_max_fds",
            "gauge",
            "File descriptors that it may use.",
            self.desk.files.max,
        );
        text.one(
            "tollgate_connections",
            "gauge",
            "HTTP connections.",
            self.clients.connections.len() as u64,
        );
        text.one(
            "tollgate_deadlines",
            "gauge",
            "Deadlines of connections and streams that are armed.",
            self.desk.timers.len() as u64,
        );
        text.one(
            "tollgate_tokens",
            "gauge",
            "Tuples in the token table.",
            self.grants
                .tokens
                .as_ref()
                .map_or(0, |tokens| tokens.len() as u64),
        );
        text.family(
            "tollgate_held_bytes",
            "gauge",
            "Bytes that are allocated, by the part that holds them.",
        );
        for (part, bytes) in self.held_bytes() {
            text.row(
                "tollgate_held_bytes",
                &format!("{{part=\"{part}\"}}"),
                bytes as u64,
            );
        }
        text.one(
            "tollgate_connections_total",
            "counter",
            "HTTP connections accepted.",
            self.desk.counts.connections,
        );
        text.one(
            "tollgate_streams_total",
            "counter",
            "Streams that began.",
            self.desk.counts.streams,
        );
        text.one(
            "tollgate_received_bytes_total",
            "counter",
            "Media bytes from sources.",
            all.bytes_received,
        );
        text.one(
            "tollgate_sent_bytes_total",
            "counter",
            "Media bytes to HTTP viewers.",
            all.bytes_sent,
        );
        text.one(
            "tollgate_udp_sent_bytes_total",
            "counter",
            "Bytes of datagrams to UDP clients.",
            udp_bytes,
        );
        text.one(
            "tollgate_skips_total",
            "counter",
            "Times that a viewer fell out of a stream's buffer.",
            all.skips,
        );
        text.one(
            "tollgate_datagrams_received_total",
            "counter",
            "RTP packets taken from sources.",
            udp.received,
        );
        text.one(
            "tollgate_datagrams_sent_total",
            "counter",
            "Datagrams handed to the kernel.",
            udp.sent,
        );
        text.family(
            "tollgate_datagrams_dropped_total",
            "counter",
            "Datagrams dropped, by why.",
        );
        for (reason, count) in [
            ("stranger", udp.dropped_stranger),
            ("malformed", udp.dropped_malformed),
            ("outside", udp.dropped_outside),
            ("second_source", udp.dropped_second_source),
            ("refused", udp.dropped_refused),
            ("out_of_sequence", udp.dropped_out_of_sequence),
            ("unsent", udp.dropped_unsent),
        ] {
            text.row(
                "tollgate_datagrams_dropped_total",
                &format!("{{reason=\"{reason}\"}}"),
                count,
            );
        }
        text.family(
            "tollgate_rtp_disorder_total",
            "counter",
            "Packets of MPEG-TS over RTP: late are those that came too late or twice, lost those that were not waited for any longer.",
        );
        for (kind, count) in [("late", udp.disorder.late), ("lost", udp.disorder.lost)] {
            text.row(
                "tollgate_rtp_disorder_total",
                &format!("{{kind=\"{kind}\"}}"),
                count,
            );
        }
        text.family(
            "tollgate_refusals_total",
            "counter",
            "Requests refused, by status.",
        );
        for (status, count) in &self.desk.counts.refusals {
            text.row(
                "tollgate_refusals_total",
                &format!("{{status=\"{}\"}}", status.code()),
                *count,
            );
        }
        text.family(
            "tollgate_cuts_total",
            "counter",
            "Viewers that were cut, by why.",
        );
        for (reason, count) in &self.desk.counts.cuts {
            text.row(
                "tollgate_cuts_total",
                &format!("{{reason=\"{reason}\"}}"),
                *count,
            );
        }
        text.family(
            "tollgate_token_file_writes_total",
            "counter",
            "Writes to the token file, each with all changes that waited for it.",
        );
        for (result, count) in [
            ("written", self.desk.counts.token_writes),
            ("failed", self.desk.counts.token_writes_failed),
        ] {
            text.row(
                "tollgate_token_file_writes_total",
                &format!("{{result=\"{result}\"}}"),
                count,
            );
        }
        self.write_udp_clients(&mut text);
        self.desk.counts.turns.write(&mut text);
        text.0
    }

    /// What UDP clients have got, by their addresses: of [`UDP_CLIENTS_SHOWN_MAX`] of them, those
    /// of the streams that began first.
    fn write_udp_clients(&self, text: &mut Text) {
        let streams = self.streams.order.values();
        let lives = streams.filter_map(|id| self.streams.lives.get(*id));
        let mut clients: BTreeMap<SocketAddr, ClientFigures> = BTreeMap::new();
        for (address, figures) in lives.flat_map(|live| live.outlet.figures()) {
            if clients.len() >= UDP_CLIENTS_SHOWN_MAX {
                break;
            }
            // It may be one of several streams.
            let sum = clients.entry(address).or_default();
            sum.sent += figures.sent;
            sum.dropped += figures.dropped;
        }
        text.family(
            "tollgate_udp_client_datagrams",
            "gauge",
            "Datagrams to a UDP client of streams that run, by what became of them; of 256 clients at the most.",
        );
        for (address, figures) in clients {
            for (state, count) in [("sent", figures.sent), ("dropped", figures.dropped)] {
                text.row(
                    "tollgate_udp_client_datagrams",
                    &format!("{{client=\"{address}\",state=\"{state}\"}}"),
                    count,
                );
            }
        }
    }
}

/// Rows are not for thousands of clients.
const UDP_CLIENTS_SHOWN_MAX: usize = 256;

impl Turns {
    fn write(&self, text: &mut Text) {
        text.family(
            "tollgate_turn_seconds",
            "histogram",
            "How long a turn of the loop took.",
        );
        let mut count = 0;
        for (bucket, turns) in self.buckets.iter().enumerate() {
            count += turns;
            let bound = BOUNDS.get(bucket).map_or_else(
                || "+Inf".to_owned(),
                |bound| (*bound as f64 / 1e6).to_string(),
            );
            text.row(
                "tollgate_turn_seconds_bucket",
                &format!("{{le=\"{bound}\"}}"),
                count,
            );
        }
        let _ = writeln!(
            text.0,
            "tollgate_turn_seconds_sum {}",
            self.microseconds as f64 / 1e6
        );
        text.row("tollgate_turn_seconds_count", "", count);
    }
}

struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn row(&mut self, name: &str, labels: &str, value: u64) {
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.family(name, kind, help);
        self.row(name, "", value);
    }
}
