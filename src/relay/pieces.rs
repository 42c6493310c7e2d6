//! Writes the next piece of a list. Its rows come from other parts than its client.

use super::ConnectionId;
use super::api::Rows;
use super::clients::Clients;
use super::context::Context;
use super::grants::Grants;
use super::lists::Lists;
use super::streams::{Row, Streams};
use super::viewers::Known;
use crate::gate::Detailed;

/// Writes the next piece of a client's list. It may be the last.
pub(super) fn write_piece(
    id: ConnectionId,
    (streams, clients, grants, lists): (&Streams, &mut Clients, &Grants, &mut Lists),
    ctx: &mut Context,
) {
    let due = clients.due_list(id);
    let due = due.map(|listing| (listing.rows.clone(), listing.after));
    let (rows, after) = match due {
        Some(due) => due,
        None => return,
    };
    if ctx.is_replaced && !rows.are_of_tokens() {
        // The successor has the rows that are not written yet. The caller sees that the list is cut.
        return clients.close(id, ctx);
    }
    // Two parts know the viewers, so their rows are made before the list is borrowed.
    let viewers = match &rows {
        Rows::Viewers(of) => Known::new(streams, clients, ctx).piece(after, of.as_ref()),
        Rows::Tokens | Rows::Details | Rows::Streams | Rows::Histories => Vec::new(),
    };
    let piece = clients.due_list(id).map(|listing| {
        let collecting = listing.collecting;
        let block = || lists.next_block(collecting?);
        let tokens = grants.rows(after);
        match rows {
            Rows::Tokens => listing.piece(tokens, |_| false, block),
            Rows::Details => {
                let tokens = tokens.map(|(mark, tuple)| (mark, Detailed(tuple)));
                listing.piece(tokens, |_| false, block)
            }
            Rows::Streams => listing.piece(streams.rows(after, ctx), Row::is_costly, block),
            Rows::Histories => {
                let rows = streams.rows(after, ctx);
                let rows = rows.map(|(mark, row)| (mark, row.with_history()));
                listing.piece(rows, Row::is_costly, block)
            }
            Rows::Viewers(_) => listing.piece(viewers.into_iter(), |_| false, block),
        }
    });
    if let Some(piece) = piece {
        clients.push_piece(id, piece, ctx);
    }
}
