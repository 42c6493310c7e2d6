//! HTTP/1.x over bytes: heads of requests and responses, targets and queries, bodies, responses
//! (RFC 9110, RFC 9112).
//!
//! Pure functions and small state machines. They refuse any message that a proxy could read in
//! another way. The result never depends on how a message is cut into pieces.

mod answer;
mod body;
mod chunk;
#[cfg(feature = "icecast")]
pub mod credentials;
mod fields;
mod forwarded;
mod grammar;
mod head;
#[cfg_attr(not(feature = "icecast"), path = "icy/absent.rs")]
mod icy;
mod media_type;
mod refusal;
mod response;
mod scan;
mod status;
mod target;
#[cfg(test)]
mod tests;
mod version;

pub use crate::percent::{percent_decoded, percent_encoded};
pub use answer::{Answer, AnswerReader};
pub use body::{Body, Framing, Part};
pub use chunk::{ChunkWriter, LAST_CHUNK};
pub use fields::Forwarded;
pub use forwarded::is_of_another_machine;
pub use grammar::elements;
pub use head::{Head, HeadReader, Limits, Method};
pub use icy::{IcyPosition, describe};
pub use media_type::stream_type;
pub use refusal::{RETRY_AFTER_SECONDS, Refusal, quoted};
pub use response::{Reply, ResponseHead, refused, whole};
pub use status::Status;
pub use target::{Parameter, Target};
pub use version::Version;
