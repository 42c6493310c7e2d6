//! Reads the parameters of a query.

use std::time::Duration;

use super::viewer_id::ListedId;
use crate::gate::SessionId;
use crate::http::{Parameter, Refusal, Status, Target, percent_decoded, quoted};

/// The longest time for which a session can be blocked: a day.
const BLOCK_SECONDS_MAX: u64 = 86_400;

/// The parameters of a query, each of which is known and comes once.
pub(super) struct Parameters<'a> {
    given: Vec<Parameter<'a>>,
}

impl<'a> Parameters<'a> {
    /// Reads the parameters of a target. Refuses unknown and repeated ones.
    pub fn read(target: &'a Target, known: &[&str]) -> Result<Parameters<'a>, Refusal> {
        let mut given: Vec<Parameter<'a>> = Vec::new();
        for parameter in target.parameters() {
            if !known.contains(&parameter.name) {
                return Err(bad(format!(
                    "the parameter '{}' is not known; {}",
                    quoted(parameter.name, 64),
                    if known.is_empty() {
                        "this path takes none".to_owned()
                    } else {
                        format!("this path takes {}", known.join(", "))
                    }
                )));
            }
            if given.iter().any(|earlier| earlier.name == parameter.name) {
                return Err(bad(format!(
                    "the parameter '{}' comes more than once",
                    parameter.name
                )));
            }
            given.push(parameter);
        }
        Ok(Parameters { given })
    }

    /// Returns a value as the client wrote it.
    pub fn raw(&self, name: &str) -> Option<&'a str> {
        self.given
            .iter()
            .find(|parameter| parameter.name == name)
            .map(|parameter| parameter.value)
    }

    /// Returns a value, percent-decoded.
    pub fn decoded(&self, name: &str) -> Result<Option<Vec<u8>>, Refusal> {
        self.raw(name).map(|raw| decoded(name, raw)).transpose()
    }

    /// Returns a value that is `true` or 1, `false` or 0. Without the parameter it is false.
    pub fn flag(&self, name: &str) -> Result<bool, Refusal> {
        match self.raw(name) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(other) => Err(bad(format!(
                "{name}: '{}' is wrong; give true or false",
                quoted(other, 64)
            ))),
        }
    }

    /// Returns a number of seconds from 1 to 86,400. `None`: the parameter is missing.
    pub fn seconds(&self, name: &str) -> Result<Option<Duration>, Refusal> {
        let Some(raw) = self.raw(name) else {
            return Ok(None);
        };
        match plain(raw) {
            Some(seconds @ 1..=BLOCK_SECONDS_MAX) => Ok(Some(Duration::from_secs(seconds))),
            Some(_) | None => Err(bad(format!(
                "{name}: '{}' is not a number of seconds from 1 to {BLOCK_SECONDS_MAX}",
                quoted(raw, 64)
            ))),
        }
    }

    /// Returns the viewer that `id` names.
    pub fn viewer_id(&self) -> Result<ListedId, Refusal> {
        let raw = self
            .raw("id")
            .ok_or_else(|| bad("the parameter 'id' is missing; list-viewers shows it"))?;
        let text = percent_decoded(raw).and_then(|bytes| String::from_utf8(bytes).ok());
        let id = text.as_deref().and_then(ListedId::of_text);
        id.ok_or_else(|| {
            bad(format!(
                "id: '{}' is not the id of a viewer; list-viewers shows the ids",
                quoted(raw, 64)
            ))
        })
    }

    /// Returns the session that `sessionid` names, if the query has one.
    pub fn session_if_given(&self) -> Result<Option<SessionId>, Refusal> {
        self.raw("sessionid").map(|_| self.session()).transpose()
    }

    /// Returns the session that `sessionid` names.
    pub fn session(&self) -> Result<SessionId, Refusal> {
        let name = self.decoded("sessionid")?;
        let name =
            name.ok_or_else(|| bad("the parameter 'sessionid' is missing; give sessionid=ID"))?;
        parse_session(&name)
    }
}

/// Parses a number of digits, without a sign.
pub(super) fn plain(digits: &str) -> Option<u64> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_plain)
}

/// Decodes the value of a parameter.
pub(super) fn decoded(name: &str, raw: &str) -> Result<Vec<u8>, Refusal> {
    percent_decoded(raw).ok_or_else(|| {
        bad(format!(
            "the parameter '{name}' has a % that two hexadecimal digits do not follow"
        ))
    })
}

/// Parses a session id. The refusal says what is wrong with it.
pub(super) fn parse_session(bytes: &[u8]) -> Result<SessionId, Refusal> {
    SessionId::parse(bytes).map_err(|error| bad(format!("sessionid: {error}")))
}

/// Returns 400.
pub(super) fn bad(detail: impl Into<String>) -> Refusal {
    Refusal::new(Status::BadRequest, detail)
}

/// Returns the session of a query without other parameters, such as `/stream?sessionid=…`.
pub(super) fn only_session(target: &Target) -> Result<SessionId, Refusal> {
    Parameters::read(target, &["sessionid"])?.session()
}

/// Refuses a target with parameters.
pub(super) fn no_parameters(target: &Target) -> Result<(), Refusal> {
    Parameters::read(target, &[]).map(|_| ())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn target(query: &str) -> Target {
        Target {
            segments: Vec::new(),
            is_plain: true,
            query: Some(query.to_owned()),
        }
    }

    #[test]
    fn each_parameter_is_known_and_comes_once() {
        for (query, known, wrong) in [
            ("", &[][..], None),
            ("a=1&b=2", &["a", "b"], None),
            ("a", &["a"], None),
            (
                "a=1",
                &[],
                Some("the parameter 'a' is not known; this path takes none"),
            ),
            (
                "c=1",
                &["a", "b"],
                Some("the parameter 'c' is not known; this path takes a, b"),
            ),
            (
                "a=1&b=2&a=1",
                &["a", "b"],
                Some("the parameter 'a' comes more than once"),
            ),
        ] {
            let target = target(query);
            let read = Parameters::read(&target, known)
                .err()
                .map(|refusal| refusal.detail);
            assert_eq!(read.as_deref(), wrong, "{query}");
        }
        assert!(no_parameters(&target("")).is_ok());
        assert!(no_parameters(&target("sessionid=a")).is_err());
        let named = only_session(&target("sessionid=a%20b")).expect("one");
        assert_eq!(named.as_str(), "a b");
        for bad in [
            "",
            "sessionid=",
            "sessionid=%4",
            "session=a",
            "sessionid=a&x=1",
        ] {
            assert!(only_session(&target(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_are_read_within_their_bounds() {
        let of = |query: &str| {
            let target = target(query);
            let parameters = Parameters::read(&target, &["flag", "block", "sessionid"]);
            let parameters = parameters.expect("known ones");
            let flag = parameters.flag("flag").ok();
            let block = parameters.seconds("block").ok();
            let session = parameters.session_if_given().ok();
            (flag, block, session.map(|session| session.is_some()))
        };
        let of_flag = |raw: &str| of(&format!("flag={raw}")).0;
        assert_eq!(of(""), (Some(false), Some(None), Some(false)));
        assert_eq!(of("sessionid=a").2, Some(true));
        assert_eq!(of("sessionid=").2, None);
        for (raw, flag) in [
            ("true", Some(true)),
            ("1", Some(true)),
            ("false", Some(false)),
            ("0", Some(false)),
            ("", None),
            ("yes", None),
            ("True", None),
        ] {
            assert_eq!(of_flag(raw), flag, "{raw}");
        }
        for (raw, seconds) in [
            ("1", Some(1)),
            ("86400", Some(86_400)),
            ("86401", None),
            ("0", None),
            ("", None),
            ("+5", None),
            ("5s", None),
            ("99999999999999999999", None),
        ] {
            let block = seconds.map(|seconds| Some(Duration::from_secs(seconds)));
            assert_eq!(of(&format!("block={raw}")).1, block, "{raw}");
        }
    }

    #[test]
    fn a_viewer_is_named_as_lists_name_it() {
        let id = |query: &str| {
            let target = target(query);
            let parameters = Parameters::read(&target, &["id"]).expect("known ones");
            parameters.viewer_id().map_err(|refusal| refusal.detail)
        };
        let known = ListedId::of_text("00000007-1a").expect("an id");
        assert_eq!(id("id=00000007-1a"), Ok(known));
        assert_eq!(id("id=00000007%2D1a"), Ok(known));
        assert!(id("").expect_err("none").contains("is missing"));
        for bad in ["id=", "id=7-1a", "id=%4", "id=%FF"] {
            assert!(
                id(bad)
                    .expect_err(bad)
                    .contains("is not the id of a viewer"),
                "{bad}"
            );
        }
    }
}
