//! Basic credentials (RFC 7617): base64 (RFC 4648 section 4) of a name, a colon and a password.

/// Returns the password of an `Authorization` field; `None` if it has no Basic credentials.
pub fn basic_password(authorization: &str) -> Option<Vec<u8>> {
    let (scheme, token) = authorization.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let credentials = from_base64(token.trim_matches(' '))?;
    let colon = credentials.iter().position(|byte| *byte == b':')?;
    Some(credentials[colon + 1..].to_vec())
}

/// Decodes base64. Ignores padding and left-over bits. `None`: a character of another alphabet, or
/// an impossible length.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    if text.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.as_bytes().chunks(4) {
        let mut bits = 0;
        for digit in group {
            bits = bits << 6 | digit_value(*digit)?;
        }
        bits <<= 6 * (4 - group.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

fn digit_value(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_its_rfc() {
        for (text, bytes) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg", "foob"),
            ("Zm9vYmE=", "fooba"),
            ("Zm9vYmFy", "foobar"),
        ] {
            assert_eq!(from_base64(text).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(from_base64("+/+/").as_deref(), Some(&b"\xfb\xff\xbf"[..]));
        for wrong in ["Z", "Zm9vY", "Zm 9", "Zm9-", "Z=g="] {
            assert_eq!(from_base64(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_password_is_what_follows_the_first_colon() {
        let password =
            |text| basic_password(text).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert_eq!(
            password("Basic c291cmNlOmEgc2VjcmV0OnBhcnQ="),
            Some("a secret:part".to_owned())
        );
        assert_eq!(password("basic OnA="), Some("p".to_owned()));
        for wrong in ["Bearer c291cmNlOng=", "Basic", "Basic c291cmNl", "Basic ?"] {
            assert_eq!(password(wrong), None, "{wrong}");
        }
    }
}
