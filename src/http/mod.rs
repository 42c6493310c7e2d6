//! HTTP/1.x over bytes: heads of requests and answers, targets and queries, body framing, responses
//! (RFC 9110, RFC 9112).
//!
//! Plain functions and small state machines. Strict, because a proxy may stand in front: whatever
//! two readers could understand in two ways is refused. However a request is cut into pieces, the
//! outcome is the same.

mod answer;
mod body;
mod chunk;
#[cfg(feature = "icecast")]
pub mod credentials;
mod fields;
mod forwarded;
mod grammar;
mod head;
mod media_type;
mod refusal;
mod response;
mod scan;
mod status;
mod target;
#[cfg(test)]
mod tests;
mod version;

pub use answer::{Answer, AnswerReader};
pub use body::{Body, Framing, Part};
pub use chunk::{ChunkWriter, LAST_CHUNK};
pub use fields::Forwarded;
pub use grammar::elements;
pub use head::{Head, HeadReader, Limits, Method};
pub use media_type::stream_type;
pub use refusal::{Refusal, quoted};
pub use response::{Reply, ResponseHead, refused, whole};
pub use status::Status;
pub use target::{Parameter, Target, percent_decoded, percent_encoded};
pub use version::Version;
