//! What an `http` tuple grants: which way, to which session, until when, how much, and what for.
//!
//! A tuple without terms is the seed's token: both ways, for its own session, until it is revoked.

use std::fmt::{self, Display, Formatter};

use super::session_id::SessionId;
use crate::time::UnixTime;

/// Which way media may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub enum Direction {
    /// To be the source.
    In,
    /// To watch.
    Out,
    Both,
}

impl Direction {
    /// Whether the session's source may come.
    pub fn allows_in(self) -> bool {
        match self {
            Direction::In | Direction::Both => true,
            Direction::Out => false,
        }
    }

    /// Whether its viewers may.
    pub fn allows_out(self) -> bool {
        match self {
            Direction::Out | Direction::Both => true,
            Direction::In => false,
        }
    }

    /// As the API and the journal write it.
    pub fn name(self) -> &'static str {
        match self {
            Direction::In => "in",
            Direction::Out => "out",
            Direction::Both => "both",
        }
    }

    /// What [`Direction::name`] wrote.
    pub fn parse(name: &str) -> Option<Direction> {
        let mut all = [Direction::In, Direction::Out, Direction::Both].into_iter();
        all.find(|direction| direction.name() == name)
    }

    /// Returns a direction that allows what either of two allows.
    pub(super) fn widened_by(self, other: Direction) -> Direction {
        if self == other { self } else { Direction::Both }
    }
}

/// What an `http` tuple says besides its sessionid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Grant {
    /// Which way media may go.
    pub direction: Direction,
    /// What is not as with a plain token.
    pub terms: Terms,
}

/// What is not as with a plain token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Terms {
    /// The sessionid is a key to this session, and names none itself.
    pub opens: Option<SessionId>,
    /// From then on nobody new comes in by it.
    pub expires: Option<UnixTime>,
    /// From then on nobody is inside by it.
    pub ends: Option<UnixTime>,
    /// So many watch by it at once; where it names a session itself, so many watch that.
    pub viewers_max: Option<u32>,
    /// A source that came by it is read no faster, in bits a second; where it names a session
    /// itself, neither is any other source of that.
    pub bits_per_second_max: Option<u64>,
    /// What for.
    pub note: Option<Note>,
}

/// What a call says of an `http` tuple. What it leaves out stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct GrantChange {
    /// The new direction. A new tuple has [`Direction::Both`] where the call names none.
    pub direction: Option<Direction>,
    /// The terms that the call names.
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
    /// The second from which on nobody comes in.
    pub fn shuts(&self) -> Option<UnixTime> {
        let Terms { expires, ends, .. } = self.terms;
        [expires, ends].into_iter().flatten().min()
    }

    /// Whether nobody comes in any more.
    pub fn is_shut(&self, now: UnixTime) -> bool {
        self.shuts().is_some_and(|shuts| shuts <= now)
    }

    /// Returns the grant after a change. What the change names replaces the old value, and what it
    /// leaves out stays. `known` must not be over: nothing of a grant that is over stays.
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

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        self.terms.held_bytes()
    }
}

impl Terms {
    /// Bytes that their allocations take.
    pub fn held_bytes(&self) -> usize {
        let opens = self.opens.as_ref().map_or(0, SessionId::held_bytes);
        opens + self.note.as_ref().map_or(0, |note| note.0.len())
    }
}

/// What the operator wants to remember of a token: up to 256 bytes of UTF-8 without control
/// characters, shown to the API's callers only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note(Box<str>);

impl Note {
    /// The longest, in bytes.
    pub const BYTES_MAX: usize = 256;

    /// `None` for what is empty, too long or has control characters.
    pub fn parse(text: &str) -> Option<Note> {
        let is_good =
            (1..=Self::BYTES_MAX).contains(&text.len()) && !text.contains(char::is_control);
        is_good.then(|| Note(text.into()))
    }

    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its first word; empty, if it has none.
    pub fn first_word(&self) -> &str {
        self.0.split_whitespace().next().unwrap_or_default()
    }
}

/// Why somebody does not come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// There is no such token.
    NoToken,
    /// It is over.
    Over,
    /// It is for the other direction.
    Direction,
}

/// Why a sessionid cannot be what it is to be: a name is a session's, or a key to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadKey {
    /// It would open itself.
    Itself,
    /// What it would open is a key.
    OfKey,
    /// It has tokens of its own, or keys.
    IsSession,
    /// It is a key to something else.
    IsKey,
    /// It would have UDP clients.
    Rtp,
}

impl Display for BadKey {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            BadKey::Itself => "for: a sessionid is no key to itself; name another session",
            BadKey::OfKey => "for: that is a key itself; name the session that it is for",
            BadKey::IsSession => {
                "sessionid: it has tokens of its own, or keys, and cannot become a key; take another, or revoke them"
            }
            BadKey::IsKey => {
                "sessionid: it is a key to another session; say so with for, or revoke it first"
            }
            BadKey::Rtp => {
                "sessionid: it is a key, and keys are for HTTP; UDP clients are added to the session"
            }
        })
    }
}

impl std::error::Error for BadKey {}

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
    fn who_asks_for_a_bad_key_is_told_which_parameter_it_is() {
        for (bad, parameter) in [
            (BadKey::Itself, "for: "),
            (BadKey::OfKey, "for: "),
            (BadKey::IsSession, "sessionid: "),
            (BadKey::IsKey, "sessionid: "),
            (BadKey::Rtp, "sessionid: "),
        ] {
            assert!(bad.to_string().starts_with(parameter), "{bad:?}");
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
    fn whichever_time_comes_first_shuts_and_given_terms_take_the_place_of_old_ones() {
        let at = |unix_seconds| UnixTime { unix_seconds };
        let with = |expires, ends| Grant {
            direction: Direction::Out,
            terms: Terms {
                expires,
                ends,
                ..Terms::default()
            },
        };
        assert!(!Grant::from(Direction::In).is_shut(UnixTime::MAX));
        for grant in [with(Some(at(5)), Some(at(9))), with(None, Some(at(5)))] {
            assert!(!grant.is_shut(at(4)) && grant.is_shut(at(5)) && grant.is_shut(at(10)));
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
