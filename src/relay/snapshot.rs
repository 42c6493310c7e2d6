//! The snapshot at the beginning of `/api/events`: tokens, streams, and viewers over HTTP. Its rows
//! are those of the lists.

use serde::Serialize;

use super::ConnectionId;
use super::api::Rows;
use super::clients::{Clients, Snapshot};
use super::context::Context;
use super::grants::Grants;
use super::server_event::{begin_unit, end_unit};
use super::streams::{Row, Streams};
use super::viewer_id::Mark;
use super::viewers::ListParts;
use crate::gate::{Detailed, SessionId, Tuple};

/// Bytes of text, and rows looked at, after which a piece ends.
const PIECE_BYTES: usize = 16 * 1024;
const EXAMINED_MAX: usize = 1024;

/// Writes the snapshot's next piece to a reader; of one session, if one is given.
pub(super) fn write_piece(
    id: ConnectionId,
    (snapshot, of): (Snapshot, Option<SessionId>),
    (streams, clients, grants): (&Streams, &mut Clients, &Grants),
    ctx: &mut Context,
) {
    let parts = ListParts::new(streams, clients, ctx);
    let piece = piece(snapshot, of.as_ref(), &parts, grants);
    clients.push_snapshot(id, (piece.text, piece.next), ctx);
    for stream in piece.held {
        ctx.event_limits.report_hold(stream);
    }
}

/// A part of a snapshot.
struct Piece {
    /// The events, if there are any.
    text: Vec<u8>,
    /// Position after the piece.
    next: Option<Snapshot>,
    /// Numbers of the shown streams that wait for a source.
    held: Vec<u64>,
}

/// Returns the next piece; of one session, if one is given.
fn piece(
    (rows, after): Snapshot,
    of: Option<&SessionId>,
    parts: &ListParts<'_>,
    grants: &Grants,
) -> Piece {
    let (mut text, mut held) = (Vec::new(), Vec::new());
    let (same, mark, next) = match rows {
        Rows::Details | Rows::Tokens => {
            let of_session = |tuple: &Tuple| of.is_none_or(|of| is_about(tuple, of));
            let rows = grants
                .rows(after)
                .map(|(mark, tuple)| (mark, of_session(tuple).then_some(Detailed(tuple))));
            let mark = write_rows(&mut text, "token", rows, |_| false);
            (Rows::Details, mark, Some(Rows::Streams))
        }
        Rows::Streams | Rows::Histories => {
            let limits = &parts.ctx.event_limits;
            let rows = parts.streams.rows(after, parts.ctx).map(|(mark, row)| {
                let is_meant = of.is_none_or(|of| row.sessionid == of);
                let is_shown = is_meant && limits.reports_stream(row.id);
                held.extend((is_shown && row.held).then_some(row.id.serial));
                (mark, is_shown.then_some(row))
            });
            let mark = write_rows(&mut text, "stream", rows, Row::is_costly);
            (Rows::Streams, mark, Some(Rows::Viewers(None)))
        }
        Rows::Viewers(_) => {
            let viewers = parts.piece(after, of);
            let mark = viewers.last().map(|(mark, _)| *mark);
            for (_, row) in viewers {
                if row.is_reported() && parts.ctx.event_limits.reports_viewer(row.id) {
                    begin_unit(&mut text, "viewer", None);
                    end_unit(&mut text, &row);
                }
            }
            (Rows::Viewers(None), mark, None)
        }
    };
    let next = match mark {
        Some(mark) => Some((same, mark)),
        None => next.map(|rows| (rows, (0, 0))),
    };
    Piece { text, next, held }
}

/// Writes rows until the piece is full. A row that is left out is `None`. Returns the mark of the
/// last row, or `None` if there are no more.
fn write_rows<R: Serialize>(
    text: &mut Vec<u8>,
    name: &str,
    rows: impl Iterator<Item = (Mark, Option<R>)>,
    is_costly: impl Fn(&R) -> bool,
) -> Option<Mark> {
    let (mut last, mut was_costly) = (None, false);
    for (examined, (mark, row)) in rows.enumerate() {
        if text.len() >= PIECE_BYTES || examined >= EXAMINED_MAX || was_costly {
            return last;
        }
        if let Some(row) = row {
            was_costly |= is_costly(&row);
            begin_unit(text, name, None);
            end_unit(text, &row);
        }
        last = Some(mark);
    }
    None
}

/// Returns whether a token is the session's, or a key to it.
fn is_about(tuple: &Tuple, of: &SessionId) -> bool {
    let opens = tuple.http().and_then(|grant| grant.terms.opens.as_ref());
    opens.unwrap_or(&tuple.session) == of
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::session;
    use crate::gate::{Direction, Grant, Terms};
    use crate::relay::stage::Stage;

    fn grant(stage: &mut Stage, name: &str, opens: Option<&str>) {
        let terms = Terms {
            opens: opens.map(session),
            ..Terms::default()
        };
        let grant = Grant {
            direction: Direction::Out,
            terms,
        };
        let tokens = stage.relay.grants.table().expect("tokens");
        let added = tokens.add(&session(name), Some(grant), Vec::new());
        assert_eq!(added, Ok(1), "{name}");
    }

    /// Returns all pieces: the text of each, and the position after it.
    fn pieces(stage: &Stage, of: Option<&str>) -> Vec<(String, Option<Snapshot>)> {
        let relay = &stage.relay;
        let parts = ListParts::new(&relay.streams, &relay.clients, &relay.ctx);
        let of = of.map(session);
        let mut next = Some((Rows::Details, (0, 0)));
        let mut pieces = Vec::new();
        while let Some(snapshot) = next {
            let piece = piece(snapshot, of.as_ref(), &parts, &relay.grants);
            let text = String::from_utf8(piece.text).expect("UTF-8");
            pieces.push((text, piece.next.clone()));
            next = piece.next;
            assert!(pieces.len() < 100, "it comes to no end");
        }
        pieces
    }

    /// No row is skipped, and none appears twice.
    #[test]
    fn what_there_is_comes_once_and_in_bounded_pieces() {
        let mut stage = Stage::new(&["--token-server=10.0.0.0/24"]);
        let names: Vec<String> = (0..500).map(|number| format!("s{number}")).collect();
        names.iter().for_each(|name| grant(&mut stage, name, None));
        let pieces = pieces(&stage, None);
        let of_tokens: Vec<&String> = pieces
            .iter()
            .map(|(text, _)| text)
            .filter(|text| text.contains("event: token\n"))
            .collect();
        assert!(of_tokens.len() > 2, "{}", of_tokens.len());
        let whole: String = of_tokens.iter().map(|text| text.as_str()).collect();
        let row = whole.len() / names.len();
        for (number, text) in of_tokens.iter().enumerate() {
            let is_last = number + 1 == of_tokens.len();
            assert!(text.len() < PIECE_BYTES + 2 * row, "{}", text.len());
            assert!(is_last || text.len() >= PIECE_BYTES, "{}", text.len());
        }
        for name in names {
            let row = format!("\"sessionid\":\"{name}\"");
            assert_eq!(whole.matches(&row).count(), 1, "{name}");
        }
    }

    /// A piece looks at a limited number of rows, however few of them are of the session.
    #[test]
    fn a_piece_looks_at_a_bounded_number_of_rows() {
        for (others, before) in [
            (EXAMINED_MAX - 1, None),
            (EXAMINED_MAX, Some(EXAMINED_MAX)),
            (EXAMINED_MAX + 1, Some(EXAMINED_MAX)),
        ] {
            let mut stage = Stage::new(&["--token-server=10.0.0.0/24"]);
            for number in 0..others {
                grant(&mut stage, &format!("o{number}"), None);
            }
            grant(&mut stage, "s", None);
            let marks: Vec<_> = stage
                .relay
                .grants
                .rows((0, 0))
                .map(|(mark, _)| mark)
                .collect();
            let pieces = pieces(&stage, Some("s"));
            let (text, next) = &pieces[0];
            assert_eq!(
                text.contains("event: token\n"),
                before.is_none(),
                "{others}"
            );
            let expected = match before {
                None => (Rows::Streams, (0, 0)),
                Some(examined) => (Rows::Details, marks[examined - 1]),
            };
            assert_eq!(*next, Some(expected), "{others}");
            let whole: String = pieces.into_iter().map(|(text, _)| text).collect();
            assert_eq!(whole.matches("event: token\n").count(), 1);
        }
    }

    /// A key to the session belongs to it, whatever its name. A key to another session does not.
    #[test]
    fn who_follows_a_session_is_told_of_its_tokens_keys_stream_and_viewers() {
        let mut stage = Stage::new(&["--token-server=10.0.0.0/24"]);
        for (name, opens) in [
            ("a", None),
            ("b", None),
            ("of-a", Some("a")),
            ("of-b", Some("b")),
        ] {
            grant(&mut stage, name, opens);
        }
        stage
            .relay
            .grants
            .table()
            .expect("tokens")
            .revoke(&session("a"));
        stage
            .relay
            .grants
            .table()
            .expect("tokens")
            .revoke(&session("b"));
        for name in ["a", "b"] {
            let both = Grant {
                direction: Direction::Both,
                terms: Terms::default(),
            };
            let tokens = stage.relay.grants.table().expect("tokens");
            let added = tokens.add(&session(name), Some(both), Vec::new());
            assert_eq!(added, Ok(1));
            stage.client(&format!("PUT /stream/{name} HTTP/1.1\r\nHost: h\r\nContent-Type: audio/x\r\nContent-Length: 9\r\n\r\nx"));
            let viewer = stage.viewer(name);
            stage.assert_status(viewer, 200);
        }
        for (of, tokens, streams) in [
            (None, &["\"a\"", "\"b\"", "\"of-a\"", "\"of-b\""][..], 2),
            (Some("a"), &["\"a\"", "\"of-a\""], 1),
            (Some("b"), &["\"b\"", "\"of-b\""], 1),
            (Some("of-a"), &[], 0),
        ] {
            let text: String = pieces(&stage, of)
                .into_iter()
                .map(|(text, _)| text)
                .collect();
            let count = |name: &str| text.matches(&format!("event: {name}\n")).count();
            assert_eq!(count("token"), tokens.len(), "{of:?}: {text}");
            assert_eq!(
                (count("stream"), count("viewer")),
                (streams, streams),
                "{of:?}"
            );
            for name in tokens {
                let row = format!("event: token\ndata: {{\"sessionid\":{name}");
                assert!(text.contains(&row), "{of:?} {name}: {text}");
            }
        }
    }
}
