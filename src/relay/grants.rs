//! What has been granted: the tokens, the sessions that are blocked, and changes on their way to the
//! disk.

use super::Settings;
use super::ledger::Ledger;
use crate::gate::{Blocks, Tokens, Tuple};

pub(super) struct Grants {
    /// `None`: the token framework is off.
    pub tokens: Option<Tokens>,
    pub blocks: Blocks,
    pub ledger: Option<Ledger>,
}

impl Grants {
    pub fn new(settings: &Settings) -> Grants {
        let is_gated = !settings.token_servers.is_empty();
        Grants {
            tokens: is_gated.then(|| Tokens::new(settings.limits.tokens)),
            blocks: Blocks::default(),
            ledger: None,
        }
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        let tokens = self.tokens.as_ref().map_or(0, Tokens::held_bytes);
        let ledger = self.ledger.as_ref().map_or(0, Ledger::held_bytes);
        tokens + self.blocks.held_bytes() + ledger
    }

    /// The rows of list-tokens from behind this serial on, each with its own.
    pub fn rows(&self, after: u64) -> impl Iterator<Item = (u64, &Tuple)> {
        let tuples = self
            .tokens
            .iter()
            .flat_map(move |tokens| tokens.after(after));
        tuples.map(|tuple| (tuple.serial(), tuple))
    }
}
