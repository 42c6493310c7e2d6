//! Bytes that a client can make many, such as its unread input, or the unit that a source has begun.
//! A hand-over copies them while the server runs.

use std::collections::BTreeMap;
use std::ops::Deref;

/// Bytes that wait, and how many of the first ones a successor has.
///
/// Add bytes at the end only. To change or remove other bytes, or to move them to another
/// [`CopiedPart`], call [`Copied::forget`].
#[derive(Debug, Default)]
pub struct Copied {
    /// The bytes.
    pub bytes: Vec<u8>,
    copied: usize,
}

/// Fewer bytes are not copied, but sent with all else.
#[cfg(feature = "handover")]
pub const COPIED_MIN: usize = 64;

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

    /// Removes all bytes. The allocation stays.
    pub fn clear(&mut self) {
        self.bytes.clear();
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

/// Which bytes of a client or of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CopiedPart {
    /// What a client has sent that is not read.
    Input,
    /// Answers that a client's socket has not taken.
    Output,
    /// What a viewer is sent before it goes on in its stream: the rest of an overwritten unit.
    UnitTail,
    /// What the splicer holds of a stream's source: a unit, or the bytes before a join point.
    SplicerInput,
    /// The header with which a stream's next source is compared.
    Layout,
    /// The element that a stream's scanner has yet to see whole.
    Scanned,
    /// A stream's header.
    Header,
    /// The header that follows it, as far as it has come.
    NextHeader,
}

impl CopiedPart {
    /// Parts of a client.
    pub const OF_CLIENT: [CopiedPart; 3] =
        [CopiedPart::Input, CopiedPart::Output, CopiedPart::UnitTail];
    /// Parts of a stream.
    pub const OF_STREAM: [CopiedPart; 5] = [
        CopiedPart::SplicerInput,
        CopiedPart::Layout,
        CopiedPart::Scanned,
        CopiedPart::Header,
        CopiedPart::NextHeader,
    ];
}

/// Names copied bytes: the id of a client or of a stream, and the part.
pub type CopyName = (u64, CopiedPart);

/// Received copies.
pub type Copies = BTreeMap<CopyName, Vec<u8>>;

#[cfg(feature = "handover")]
mod handover {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{COPIED_MIN, Copied};
    use crate::handover::{HandoverError, is_default, must};

    /// Bytes as a hand-over sends them.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(default)]
    struct CopiedState {
        #[serde(skip_serializing_if = "is_default")]
        copied: usize,
        #[serde(with = "crate::handover::bytes", skip_serializing_if = "Vec::is_empty")]
        rest: Vec<u8>,
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
            CopiedState { copied, rest }.serialize(serializer)
        }
    }

    impl<'de> Deserialize<'de> for Copied {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Copied, D::Error> {
            let CopiedState { copied, rest } = CopiedState::deserialize(deserializer)?;
            Ok(Copied {
                bytes: rest,
                copied,
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
}
