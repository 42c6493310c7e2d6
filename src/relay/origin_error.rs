//! Reasons why an origin does not send a stream.

/// A reason. If several origins were asked, the viewer gets the
/// greatest reason in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum OriginError {
    /// The session does not run at the origin.
    NotFound,
    /// The origin cannot be reached, or its answer cannot be used, for the reason in these words.
    Broken(#[cfg_attr(feature = "handover", serde(skip, default = "before"))] &'static str),
    /// The origin did not answer in time.
    TimedOut,
    /// The origin has reached a limit.
    Busy,
    /// The request would come back to this server.
    Loop,
    /// The origin does not admit this server to the session.
    Forbidden,
}

/// Returns the words of `Broken` after a hand-over, which does not carry them.
#[cfg(feature = "handover")]
fn before() -> &'static str {
    "it did not send the stream"
}

impl OriginError {
    /// Returns the error for an answer with this HTTP status, which is not 200.
    pub fn of_status(status: u16) -> OriginError {
        match status {
            401 | 403 => OriginError::Forbidden,
            404 | 410 => OriginError::NotFound,
            429 | 503 => OriginError::Busy,
            504 => OriginError::TimedOut,
            508 => OriginError::Loop,
            406 => OriginError::Broken("it cannot send the stream over HTTP"),
            _ => OriginError::Broken("its answer is neither a stream nor a refusal"),
        }
    }

    /// Describes the error in words, for the log and for the refused viewer.
    pub fn detail(self) -> &'static str {
        match self {
            OriginError::NotFound => "it does not run there",
            OriginError::Broken(what) => what,
            OriginError::TimedOut => "it did not answer in time",
            OriginError::Busy => "it has no room",
            OriginError::Loop => "the origins form a loop",
            OriginError::Forbidden => "it has no http token there",
        }
    }

    /// Returns whether asking again would give the same answer.
    pub fn is_final(self) -> bool {
        match self {
            OriginError::Loop | OriginError::Forbidden => true,
            OriginError::NotFound
            | OriginError::Broken(_)
            | OriginError::TimedOut
            | OriginError::Busy => false,
        }
    }
}
