//! The part of a request that admission reads. It is kept until the request is answered, so that a
//! successor can decide about it again.

#[cfg(feature = "handover")]
use super::Caller;
use super::{AccessRequest, EntryPoint};

/// Part of an [`AccessRequest`] that the connection itself does not know.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "handover"),
    allow(dead_code, reason = "a successor alone asks again")
)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::relay) struct KeptAccessRequest {
    way: EntryPoint,
    host: Box<str>,
    origin: Option<Box<str>>,
    site: Option<Box<str>>,
    is_forwarded: bool,
    names_another: bool,
}

impl AccessRequest<'_> {
    /// Returns the part to keep.
    pub fn keep(&self) -> KeptAccessRequest {
        KeptAccessRequest {
            way: self.way,
            host: self.host.into(),
            origin: self.origin.map(Into::into),
            site: self.site.map(Into::into),
            is_forwarded: self.is_forwarded,
            names_another: self.names_another,
        }
    }
}

#[cfg(feature = "handover")]
impl KeptAccessRequest {
    /// Creates the record of a request for `localhost` without any of the fields.
    pub fn of_entry_point(way: EntryPoint) -> KeptAccessRequest {
        KeptAccessRequest {
            way,
            host: "localhost".into(),
            origin: None,
            site: None,
            is_forwarded: false,
            names_another: true,
        }
    }

    /// Returns the access request for this caller.
    pub fn access_request(&self, caller: Caller) -> AccessRequest<'_> {
        AccessRequest {
            way: self.way,
            from: caller.is_named.then_some(caller.peer),
            to: None,
            is_proxied: caller.is_proxied,
            is_forwarded: self.is_forwarded,
            names_another: self.names_another,
            host: &self.host,
            origin: self.origin.as_deref(),
            site: self.site.as_deref(),
        }
    }
}
