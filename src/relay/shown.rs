//! What the figures tell, and which streams have rows of their own in them.

use std::collections::BTreeMap;

use super::clients::Clients;
use super::desk::Desk;
use super::fetch::Fetch;
use super::grants::Grants;
use super::held::HeldBytes;
use super::metrics::{OfStream, STREAMS_SHOWN_MAX, Seen, labels_of};
use super::streams::Streams;
use crate::gate::{Note, Tokens};

/// Where what is told is known.
type Parts<'a> = (&'a Streams, &'a Clients, &'a Fetch, &'a Grants);

/// All of it.
pub(super) fn seen<'a>(
    (streams, clients, fetch, grants): Parts<'_>,
    held: HeldBytes,
    desk: &'a Desk,
) -> Seen<'a> {
    Seen {
        counts: desk.counts(),
        streams: streams.sums(desk),
        each: each(streams, grants, desk),
        started_unix_seconds: desk.settings().started_unix_seconds,
        udp_clients: streams.udp_clients(),
        connections: clients.len(),
        waiting: clients.waiting().len(),
        blocked: clients.blocked().len(),
        pulls: fetch.len(),
        pull_failures: fetch.failures(),
        deadlines: desk.timers().len(),
        tokens: grants.tokens().map_or(0, Tokens::len),
        held,
    }
}

/// What the figures say of the streams that began first, of those that run.
fn each(streams: &Streams, grants: &Grants, desk: &Desk) -> BTreeMap<String, OfStream> {
    let mut each: BTreeMap<String, OfStream> = BTreeMap::new();
    let rows = streams.rows((0, 0), desk);
    let running = rows.filter_map(|(_, row)| row.figures());
    for (session, figures) in running.take(STREAMS_SHOWN_MAX) {
        let grant = grants.tokens().and_then(|tokens| tokens.grant(session));
        let note = grant.and_then(|grant| grant.terms.note.as_ref());
        let word = note.map_or("", Note::first_word);
        // Labels are short: two sessions may have the same.
        each.entry(labels_of(session.digest(), word))
            .or_default()
            .add(figures);
    }
    each
}
