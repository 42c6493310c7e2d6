//! Writes the next piece of a list. Its rows come from other parts than its client.

use super::ConnectionId;
use super::api::Rows;
use super::clients::{Clients, ListResponse};
use super::context::Context;
use super::grants::Grants;
use super::lists::Lists;
use super::streams::{Row, Streams};
use super::viewers::ListParts;
use crate::gate::Detailed;

/// Writes the next piece of a client's list. It may be the last.
pub(super) fn write_piece(
    id: ConnectionId,
    mut list: Box<ListResponse>,
    (streams, clients, grants, lists): (&Streams, &mut Clients, &Grants, &mut Lists),
    ctx: &mut Context,
) {
    if ctx.is_replaced && !list.rows.are_of_tokens() {
        // The successor has the rows that are not written yet.
        return clients.cut_list(id, list, ctx);
    }
    let (after, collecting) = (list.after, list.collecting);
    let block = || lists.next_block(collecting?);
    let tokens = grants.rows(after);
    let piece = match list.rows.clone() {
        Rows::Tokens => list.piece(tokens, |_| false, block),
        Rows::Details => {
            let tokens = tokens.map(|(mark, tuple)| (mark, Detailed(tuple)));
            list.piece(tokens, |_| false, block)
        }
        Rows::Streams => list.piece(streams.rows(after, ctx), Row::is_costly, block),
        Rows::Histories => {
            let rows = streams.rows(after, ctx);
            let rows = rows.map(|(mark, row)| (mark, row.with_history()));
            list.piece(rows, Row::is_costly, block)
        }
        Rows::Viewers(of) => {
            let parts = ListParts::new(streams, clients, ctx);
            list.piece(parts.rows(after, of.as_ref()), |_| false, block)
        }
    };
    clients.push_piece(id, list, piece, ctx);
}
