//! Bytes that a client can make many: its unread input, its unsent answers, and what it is sent of a
//! unit that is overwritten. A hand-over copies them while the server runs.

use std::collections::BTreeMap;
use std::ops::Deref;

/// Bytes that wait, and how many of the first ones a successor has.
///
/// Whoever adds bytes adds them at the end. Whoever changes or removes others calls
/// [`Copied::forget`].
#[derive(Debug, Default)]
pub struct Copied {
    /// The bytes.
    pub bytes: Vec<u8>,
    copied: usize,
}

/// Fewer bytes are sent with all else.
#[cfg(feature = "handover")]
const COPIED_MIN: usize = 64;

impl Copied {
    /// Returns how many bytes no successor has.
    pub fn bytes_left(&self) -> usize {
        self.bytes.len().saturating_sub(self.copied)
    }

    /// Records that no successor has any of the bytes.
    pub fn forget(&mut self) {
        self.copied = 0;
    }

    /// Removes the first `count` bytes.
    pub fn remove(&mut self, count: usize) {
        self.bytes.drain(..count);
        self.forget();
    }
}

impl Deref for Copied {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl From<Vec<u8>> for Copied {
    fn from(bytes: Vec<u8>) -> Copied {
        Copied { bytes, copied: 0 }
    }
}

/// What a client can make large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientBytes {
    /// What it has sent that is not read.
    Input,
    /// Answers that its socket has not taken.
    Output,
    /// What a viewer is sent before it goes on in its stream: the rest of an overwritten unit.
    Rest,
}

/// Received copies of [`ClientBytes`]. `C` is the name of a client.
pub type Copies<C> = BTreeMap<(C, ClientBytes), Vec<u8>>;

#[cfg(feature = "handover")]
mod handover {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{COPIED_MIN, Copied};
    use crate::handover::{HandoverError, must};

    /// Bytes as a hand-over sends them.
    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum CopiedState {
        Rest {
            copied: usize,
            #[serde(with = "crate::handover::bytes")]
            rest: Vec<u8>,
        },
        /// All of them, as format 2 had it.
        All(#[serde(with = "crate::handover::bytes")] Vec<u8>),
    }

    impl Copied {
        /// Returns at most `bytes_max` of the bytes that no successor has, and where they begin.
        /// From now on the successor has them. `None`: they are few.
        pub fn next(&mut self, bytes_max: usize) -> Option<(usize, &[u8])> {
            let (from, left) = (self.copied, self.bytes_left());
            if left < COPIED_MIN {
                return None;
            }
            self.copied += left.min(bytes_max);
            Some((from, &self.bytes[from..self.copied]))
        }

        /// Puts the bytes that were copied before in front of the received ones.
        pub fn complete(&mut self, copy: Option<Vec<u8>>) -> Result<(), HandoverError> {
            let mut bytes = copy.unwrap_or_default();
            must(self.copied <= bytes.len(), || {
                "bytes that were to be copied before are missing".to_owned()
            })?;
            bytes.truncate(self.copied);
            bytes.append(&mut self.bytes);
            bytes.shrink_to_fit();
            *self = Copied::from(bytes);
            Ok(())
        }
    }

    impl Serialize for Copied {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let copied = self.copied.min(self.bytes.len());
            let rest = self.bytes[copied..].to_vec();
            CopiedState::Rest { copied, rest }.serialize(serializer)
        }
    }

    impl<'de> Deserialize<'de> for Copied {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Copied, D::Error> {
            Ok(match CopiedState::deserialize(deserializer)? {
                CopiedState::Rest { copied, rest } => Copied {
                    bytes: rest,
                    copied,
                },
                CopiedState::All(bytes) => Copied::from(bytes),
            })
        }
    }
}

#[cfg(test)]
#[cfg(feature = "handover")]
mod tests {
    use super::*;

    /// Sends the bytes as a hand-over does, with this copy of some of them.
    fn sent(bytes: &Copied, copy: &[u8]) -> Result<Vec<u8>, crate::handover::HandoverError> {
        let text = serde_json::to_string(bytes).expect("text");
        let mut received: Copied = serde_json::from_str(&text).expect("bytes");
        received.complete(Some(copy.to_vec()))?;
        Ok(received.bytes)
    }

    #[test]
    fn bytes_that_were_copied_are_not_sent_again() {
        let mut bytes = Copied::from((0..=255).collect::<Vec<u8>>());
        let mut copy = Vec::new();
        while let Some((from, piece)) = bytes.next(100) {
            assert_eq!(from, copy.len());
            copy.extend_from_slice(piece);
        }
        // The last piece would be short.
        assert_eq!((copy.len(), bytes.bytes_left()), (200, 56));
        bytes.bytes.extend_from_slice(b"more");
        let expected = bytes.bytes.clone();
        assert_eq!(sent(&bytes, &copy), Ok(expected));
        // The other process may have more bytes than count here.
        let longer = [&copy[..], b"else"].concat();
        assert_eq!(sent(&bytes, &longer), Ok(bytes.bytes.clone()));
        assert!(sent(&bytes, &copy[1..]).is_err());
        assert!(serde_json::to_string(&bytes).expect("text").len() < 400);
    }

    #[test]
    fn bytes_that_move_are_copied_again() {
        let mut bytes = Copied::from(vec![7; 500]);
        assert_eq!(
            bytes.next(400).map(|(from, piece)| (from, piece.len())),
            Some((0, 400))
        );
        bytes.remove(10);
        assert_eq!(bytes.bytes_left(), 490);
        assert_eq!(sent(&bytes, &[]), Ok(vec![7; 490]));
        assert_eq!(
            bytes.next(1_000).map(|(from, piece)| (from, piece.len())),
            Some((0, 490))
        );
        assert_eq!(bytes.next(1_000).map(|_| ()), None);
    }

    #[test]
    fn the_text_of_format_2_is_read() {
        let received: Copied = serde_json::from_str("\"ab\"").expect("bytes");
        assert_eq!(received.bytes, b"ab");
    }
}
