//! Calls that wait: for names to be looked up, or for the peers to tell their lists.

use std::collections::HashMap;

use super::errand::{Errand, Ticket};
use super::peers::Gathering;

#[derive(Default)]
pub(super) struct Lists {
    /// Calls whose names are being looked up.
    pub errands: HashMap<Ticket, Errand>,
    /// Lists that wait for the peers.
    pub gatherings: HashMap<Ticket, Gathering>,
}
