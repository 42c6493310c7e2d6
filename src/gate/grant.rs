//! What an `http` tuple grants: direction, session, times, limits, and a note.
//!
//! A tuple without terms allows both directions for its own session, until it is revoked.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::session_id::SessionId;
use crate::time::UnixTime;

/// Directions in which media may flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum Direction {
    /// Publishing.
    In,
    /// Watching.
    Out,
    Both,
}

impl Direction {
    /// Returns whether media may flow in this one direction.
    pub fn allows(self, one: Direction) -> bool {
        self == one || self == Direction::Both
    }

    /// Returns the name in the API and the journal.
    pub fn name(self) -> &'static str {
        match self {
            Direction::In => "in",
            Direction::Out => "out",
            Direction::Both => "both",
        }
    }

    /// Parses what [`Direction::name`] returns.
    pub fn parse(name: &str) -> Option<Direction> {
        let mut all = [Direction::In, Direction::Out, Direction::Both].into_iter();
        all.find(|direction| direction.name() == name)
    }
}

/// What an `http` tuple says about its session id.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Grant {
    /// Directions that are allowed.
    pub direction: Direction,
    /// Further terms of the token.
    pub terms: Terms,
}

/// Terms of a token; a plain token has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Terms {
    /// The session that this session id is a key to. A key has no session of its own.
    pub opens: Option<SessionId>,
    /// Nobody is admitted from this second on.
    pub expires: Option<UnixTime>,
    /// Everybody is disconnected at this second.
    pub ends: Option<UnixTime>,
    /// Largest number of viewers with this session id. On a session's own token, it limits all
    /// viewers of the session.
    pub viewers_max: Option<u32>,
    /// Largest bitrate of a source with this session id: it is read no faster. On a session's own
    /// token, it limits every source of the session.
    pub bits_per_second_max: Option<u64>,
    /// The operator's note.
    pub note: Option<Note>,
}

/// The changes of an `http` tuple that a call asks for. Terms that the call leaves out stay.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct GrantChange {
    /// The new direction. If a call for a new tuple leaves it out, it is [`Direction::Both`].
    pub direction: Option<Direction>,
    /// The terms that the call sets.
    pub terms: Terms,
}

impl From<Grant> for GrantChange {
    fn from(grant: Grant) -> GrantChange {
        GrantChange {
            direction: Some(grant.direction),
            terms: grant.terms,
        }
    }
}

impl From<Direction> for Grant {
    fn from(direction: Direction) -> Grant {
        let terms = Terms::default();
        Grant { direction, terms }
    }
}

impl Grant {
    /// Returns the second from which on nobody is admitted: the earlier one of `expires` and
    /// `ends`.
    pub fn expiry(&self) -> Option<UnixTime> {
        let Terms { expires, ends, .. } = self.terms;
        [expires, ends].into_iter().flatten().min()
    }

    /// Returns whether nobody is admitted any more.
    pub fn is_over(&self, now: UnixTime) -> bool {
        self.expiry().is_some_and(|expiry| expiry <= now)
    }

    /// Returns the grant after a change. Terms of the change replace old ones; the others stay.
    /// Pass no `known` that is over, since nothing of it stays.
    pub(super) fn changed(known: Option<&Grant>, change: GrantChange) -> Grant {
        let GrantChange { direction, terms } = change;
        let Some(Grant {
            direction: known_direction,
            terms: known,
        }) = known.cloned()
        else {
            let direction = direction.unwrap_or(Direction::Both);
            return Grant { direction, terms };
        };
        Grant {
            direction: direction.unwrap_or(known_direction),
            terms: Terms {
                opens: terms.opens.or(known.opens),
                expires: terms.expires.or(known.expires),
                ends: terms.ends.or(known.ends),
                viewers_max: terms.viewers_max.or(known.viewers_max),
                bits_per_second_max: terms.bits_per_second_max.or(known.bits_per_second_max),
                note: terms.note.or(known.note),
            },
        }
    }

    /// Returns the allocated memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.terms.memory_bytes()
    }
}

impl Terms {
    /// Returns the allocated memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        let opens = self.opens.as_ref().map_or(0, SessionId::memory_bytes);
        opens + self.note.as_ref().map_or(0, |note| note.0.len())
    }
}

/// The operator's note about a token: up to 256 bytes of UTF-8 without control characters. Only
/// callers of the API see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note(Box<str>);

impl Note {
    /// Length of the longest note, in bytes.
    pub const BYTES_MAX: usize = 256;

    /// Returns `None` if the text is empty, too long, or has control characters.
    pub fn parse(text: &str) -> Option<Note> {
        let is_good =
            (1..=Self::BYTES_MAX).contains(&text.len()) && !text.contains(char::is_control);
        is_good.then(|| Note(text.into()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first word; empty if there is none.
    pub fn first_word(&self) -> &str {
        self.0.split_whitespace().next().unwrap_or_default()
    }
}

impl Serialize for Note {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Note {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Note, D::Error> {
        let text = String::deserialize(deserializer)?;
        Note::parse(&text).ok_or_else(|| serde::de::Error::custom("no note"))
    }
}

/// Reasons not to admit a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// No token has this session id.
    NoToken,
    /// The token has expired.
    Over,
    /// The token is for the other direction.
    Direction,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_short_and_on_one_line() {
        for good in ["x", "desk 3, Ünal", &"x".repeat(256)] {
            assert_eq!(Note::parse(good).expect("a note").as_str(), good);
        }
        let words = |text| Note::parse(text).map(|note| note.first_word().to_owned());
        assert_eq!(words("  desk 3").as_deref(), Some("desk"));
        assert_eq!(words("  ").as_deref(), Some(""));
        for bad in ["", "a\nb", "a\u{7f}", &"é".repeat(129)] {
            assert_eq!(Note::parse(bad), None);
        }
    }

    #[test]
    fn directions_have_names() {
        for direction in [Direction::In, Direction::Out, Direction::Both] {
            assert_eq!(Direction::parse(direction.name()), Some(direction));
        }
        assert_eq!(Direction::parse("IN"), None);
    }

    #[test]
    fn the_earlier_time_counts_and_new_terms_replace_old_ones() {
        let at = |unix_seconds| UnixTime { unix_seconds };
        let with = |expires, ends| Grant {
            direction: Direction::Out,
            terms: Terms {
                expires,
                ends,
                ..Terms::default()
            },
        };
        assert!(!Grant::from(Direction::In).is_over(UnixTime::MAX));
        for grant in [with(Some(at(5)), Some(at(9))), with(None, Some(at(5)))] {
            assert!(!grant.is_over(at(4)) && grant.is_over(at(5)) && grant.is_over(at(10)));
        }
        let known = with(Some(at(5)), Some(at(9)));
        let later = GrantChange {
            direction: None,
            ..with(Some(at(7)), None).into()
        };
        let changed = Grant::changed(Some(&known), later.clone());
        assert_eq!(changed, with(Some(at(7)), Some(at(9))));
        let turned = Grant::changed(Some(&changed), Grant::from(Direction::In).into());
        assert_eq!(turned.direction, Direction::In);
        assert_eq!(turned.terms, changed.terms);
        let new = Grant::changed(None, later);
        assert_eq!(new.direction, Direction::Both);
        assert_eq!(new.terms, with(Some(at(7)), None).terms);
    }
}
