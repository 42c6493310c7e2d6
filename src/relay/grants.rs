//! What has been granted: the tokens, the sessions that are blocked, and changes on their way to the
//! disk.

use super::Settings;
use super::ledger::Ledger;
use crate::gate::{Blocks, Tokens};

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
}
