//! Collects the values of the metrics, and selects the streams that have metrics of their own.

use std::collections::BTreeMap;

use super::MemoryBytes;
use super::clients::{Clients, WaitFor};
use super::context::Context;
use super::fetch::Fetch;
use super::grants::Grants;
use super::metrics::{MetricValues, OfStream, STREAMS_SHOWN_MAX, labels_of};
use super::streams::Streams;
use crate::gate::{Note, Tokens};

/// The parts that have the values.
type Parts<'a> = (&'a Streams, &'a Clients, &'a Fetch, &'a Grants);

/// Collects the values.
pub(super) fn collect<'a>(
    (streams, clients, fetch, grants): Parts<'_>,
    memory: MemoryBytes,
    ctx: &'a Context,
) -> MetricValues<'a> {
    MetricValues {
        counts: &ctx.counts,
        streams: streams.sums(ctx),
        each: each(streams, grants, ctx),
        started_unix_seconds: ctx.settings().started_unix_seconds,
        udp_clients: streams.udp_clients(),
        connections: clients.len(),
        waiting: clients.waiting.len(WaitFor::Session),
        blocked: clients.waiting.len(WaitFor::Progress),
        pulls: fetch.len(),
        pull_failures: fetch.pulls.failures,
        deadlines: ctx.timers.len(),
        tokens: grants.tokens().map_or(0, Tokens::len),
        memory,
    }
}

/// Returns the figures of the running streams that began first.
fn each(streams: &Streams, grants: &Grants, ctx: &Context) -> BTreeMap<String, OfStream> {
    let mut each: BTreeMap<String, OfStream> = BTreeMap::new();
    let rows = streams.rows((0, 0), ctx);
    let running = rows.filter_map(|(_, row)| row.figures());
    for (session, figures) in running.take(STREAMS_SHOWN_MAX) {
        let grant = grants.tokens().and_then(|tokens| tokens.grant(session));
        let note = grant.and_then(|grant| grant.terms.note.as_ref());
        let word = note.map_or("", Note::first_word);
        // Labels are short, so two sessions may have the same.
        each.entry(labels_of(session.digest(), word))
            .or_default()
            .add(figures);
    }
    each
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::SessionId;
    use crate::relay::stage::Stage;

    /// A running stream has metrics with its label, and the first word of its note.
    #[test]
    fn streams_that_run_have_rows_of_their_own() {
        let mut stage = Stage::new(&["--token-server=10.0.0.0/8"]);
        let call = |stage: &mut Stage, line: &str| {
            let id = stage.client(&format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            stage.text(id)
        };
        let mut sources = Vec::new();
        for (name, note) in [("a", "&note=studio%20one"), ("b", ""), ("c", "")] {
            let line = format!("POST /api/add-token?type=http&sessionid={name}{note}");
            assert!(call(&mut stage, &line).starts_with("HTTP/1.1 201"));
            let put = format!(
                "PUT /stream/{name} HTTP/1.1\r\nHost: h\r\nContent-Type: video/x\r\nContent-Length: 99\r\n\r\nabcd"
            );
            sources.push(stage.client(&put));
        }
        for _ in 0..2 {
            stage.viewer("a");
        }
        stage.lose(sources[2]);
        let label = |name: &str| {
            let session = SessionId::parse(name.as_bytes()).expect("a good sessionid");
            session.digest()
        };
        let each = each(&stage.relay.streams, &stage.relay.grants, &stage.relay.ctx);
        let mut rows: Vec<_> = each
            .iter()
            .map(|(labels, one)| (labels.clone(), one.viewers, one.figures.bytes_received))
            .collect();
        rows.sort_by_key(|row| row.1);
        let expected = [
            (format!("{{session=\"{}\"}}", label("b")), 0, 4),
            (
                format!("{{session=\"{}\",note=\"studio\"}}", label("a")),
                2,
                4,
            ),
        ];
        assert_eq!(rows, expected);
        let text = call(&mut stage, "GET /metrics");
        for (labels, viewers, _) in expected {
            let line = format!("tollgate_stream_viewers{labels} {viewers}\n");
            assert!(text.contains(&line), "{line} {text}");
        }
    }

    /// A limited number of streams has metrics of their own: the ones that began first.
    #[test]
    fn a_hundred_streams_are_shown() {
        let mut stage = Stage::new(&["--streams=200"]);
        let mut settings = stage.relay.ctx.settings().clone();
        settings.limits.connections_max = 1000;
        settings.limits.connections_per_host_max = 1000;
        stage.relay = crate::relay::Relay::new(settings);
        for number in 0..STREAMS_SHOWN_MAX + 3 {
            stage.client(&format!("PUT /stream/{number} HTTP/1.1\r\nHost: h\r\nContent-Type: video/x\r\nContent-Length: 9\r\n\r\n"));
        }
        let each = each(&stage.relay.streams, &stage.relay.grants, &stage.relay.ctx);
        assert_eq!(each.len(), STREAMS_SHOWN_MAX);
        let last = SessionId::parse(b"102").expect("a good sessionid");
        assert!(!each.contains_key(&labels_of(last.digest(), "")));
    }
}
