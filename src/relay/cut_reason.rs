//! Reasons for which a viewer is disconnected, and how often each occurred.

use serde::Serialize;

/// Reason for which a viewer is disconnected. [`Cuts`] has a counter for each, and `cuts` in
/// `openapi.json` a property. `clients::deadlines` finds the ones that depend on time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CutReason {
    /// The viewer took no bytes for too long.
    Stalled,
    /// The buffer lost the middle of the unit that the viewer was getting.
    LostUnit,
    /// The token has expired or was revoked, or the options of a successor do not admit the viewer.
    Token,
    /// The operator has disconnected the viewer.
    Kicked,
}

impl CutReason {
    /// All reasons.
    #[cfg(test)]
    pub const ALL: [CutReason; 4] = [
        CutReason::Stalled,
        CutReason::LostUnit,
        CutReason::Token,
        CutReason::Kicked,
    ];

    /// Returns the name of the reason in events and in the log.
    pub fn name(self) -> &'static str {
        match self {
            CutReason::Stalled => "stalled",
            CutReason::LostUnit => "lost_unit",
            CutReason::Token => "token",
            CutReason::Kicked => "kicked",
        }
    }
}

/// Number of disconnected viewers for each reason.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[cfg_attr(feature = "handover", derive(serde::Deserialize))]
pub(super) struct Cuts {
    stalled: u64,
    lost_unit: u64,
    token: u64,
    kicked: u64,
}

impl Cuts {
    /// Adds the counters of another stream.
    pub fn add(&mut self, other: Cuts) {
        self.stalled = self.stalled.saturating_add(other.stalled);
        self.lost_unit = self.lost_unit.saturating_add(other.lost_unit);
        self.token = self.token.saturating_add(other.token);
        self.kicked = self.kicked.saturating_add(other.kicked);
    }

    /// Returns the counters, each with the value of the label `reason` in `/metrics`.
    pub fn rows(&self) -> [(&'static str, u64); 4] {
        [
            ("kicked", self.kicked),
            ("lost_unit", self.lost_unit),
            ("stalled", self.stalled),
            ("token", self.token),
        ]
    }

    /// Counts a viewer that is disconnected for this reason.
    pub fn count(&mut self, cut: CutReason) {
        let count = match cut {
            CutReason::Stalled => &mut self.stalled,
            CutReason::LostUnit => &mut self.lost_unit,
            CutReason::Token => &mut self.token,
            CutReason::Kicked => &mut self.kicked,
        };
        *count = count.saturating_add(1);
    }
}
