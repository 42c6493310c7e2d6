//! What there is, for who follows the events: tokens, streams, and who watches them over HTTP. The
//! rows are those of the lists.

use super::ConnectionId;
use super::api::Rows;
use super::clients::{Clients, DueToReader, Snapshot};
use super::desk::Desk;
use super::grants::Grants;
use super::happening::{begin_unit, end_unit};
use super::streams::Streams;
use super::viewers::Known;
use crate::gate::{Detailed, SessionId, Tuple};

/// A piece ends after so much text, or when so many rows have been looked at.
const PIECE_BYTES: usize = 16 * 1024;
const LOOKS_MAX: usize = 1024;

/// A reader is told what is due to it.
pub(super) fn show(
    id: ConnectionId,
    due: DueToReader,
    (streams, clients, grants): (&Streams, &mut Clients, &Grants),
    desk: &Desk,
) {
    match due {
        DueToReader::Missed => clients.push_missed(id, desk),
        DueToReader::Snapshot(snapshot, of) => {
            let known = Known::new(streams, clients, desk);
            let piece = piece(snapshot, of.as_ref(), &known, grants);
            clients.push_snapshot(id, piece, desk);
        }
    }
}

/// The next piece, which may be empty, and what follows it; of one session alone, if that is named.
fn piece(
    (rows, after): Snapshot,
    of: Option<&SessionId>,
    known: &Known<'_>,
    grants: &Grants,
) -> (Vec<u8>, Option<Snapshot>) {
    let mut text = Vec::new();
    let mut mark = after;
    let mut looks = 0;
    let mut is_over = true;
    let mut is_full = |text: &Vec<u8>| {
        looks += 1;
        text.len() >= PIECE_BYTES || looks > LOOKS_MAX
    };
    let next = match rows {
        Rows::Details | Rows::Tokens => {
            for (its, tuple) in grants.rows(after) {
                if is_full(&text) {
                    is_over = false;
                    break;
                }
                if of.is_none_or(|of| is_about(tuple, of)) {
                    begin_unit(&mut text, "token", None);
                    end_unit(&mut text, &Detailed(tuple));
                }
                mark = its;
            }
            (Rows::Details, Some(Rows::Streams))
        }
        Rows::Streams => {
            for (its, row) in known.streams().rows(after, known.desk()) {
                if is_full(&text) {
                    is_over = false;
                    break;
                }
                if of.is_none_or(|of| row.is_of(of)) {
                    begin_unit(&mut text, "stream", None);
                    end_unit(&mut text, &row);
                }
                mark = its;
            }
            (Rows::Streams, Some(Rows::Viewers(None)))
        }
        Rows::Viewers(_) => {
            let viewers = known.piece(after, of);
            is_over = viewers.is_empty();
            for (its, row) in viewers {
                if row.is_told_of() {
                    begin_unit(&mut text, "viewer", None);
                    end_unit(&mut text, &row);
                }
                mark = its;
            }
            (Rows::Viewers(None), None)
        }
    };
    match (is_over, next) {
        (false, (same, _)) => (text, Some((same, mark))),
        (true, (_, other)) => (text, other.map(|rows| (rows, (0, 0)))),
    }
}

/// Whether a tuple is the session's, or a key to it.
fn is_about(tuple: &Tuple, of: &SessionId) -> bool {
    let opens = tuple.http().and_then(|grant| grant.terms.opens.as_ref());
    opens.unwrap_or(tuple.session()) == of
}
