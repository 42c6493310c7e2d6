//! A request's part that admission asks about. It is kept until the request is answered.

#[cfg(feature = "handover")]
use super::Caller;
use super::{AccessRequest, EntryPoint};

/// What a request showed beside its caller.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "handover"),
    allow(dead_code, reason = "a successor alone asks again")
)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::relay) struct KeptClaim {
    way: EntryPoint,
    host: Box<str>,
    origin: Option<Box<str>>,
    site: Option<Box<str>>,
    is_forwarded: bool,
}

impl AccessRequest<'_> {
    /// What is kept of it.
    pub fn keep(&self) -> KeptClaim {
        KeptClaim {
            way: self.way,
            host: self.host.into(),
            origin: self.origin.map(Into::into),
            site: self.site.map(Into::into),
            is_forwarded: self.is_forwarded,
        }
    }
}

impl KeptClaim {
    /// Bytes that are allocated for it, with itself.
    pub fn held_bytes(&self) -> usize {
        let texts = [Some(&self.host), self.origin.as_ref(), self.site.as_ref()];
        let texts = texts.into_iter().flatten();
        size_of::<KeptClaim>() + texts.map(|text| text.len()).sum::<usize>()
    }
}

#[cfg(feature = "handover")]
impl KeptClaim {
    /// Of a request that showed nothing, for this host.
    pub fn of_way(way: EntryPoint) -> KeptClaim {
        KeptClaim {
            way,
            host: "localhost".into(),
            origin: None,
            site: None,
            is_forwarded: false,
        }
    }

    /// The claim, of this caller.
    pub fn access_request(&self, caller: Caller) -> AccessRequest<'_> {
        AccessRequest {
            way: self.way,
            from: caller.is_named.then_some(caller.peer),
            to: None,
            is_proxied: caller.is_proxied,
            is_forwarded: self.is_forwarded,
            host: &self.host,
            origin: self.origin.as_deref(),
            site: self.site.as_deref(),
        }
    }
}
