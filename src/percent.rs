//! Percent-encoding (RFC 3986 section 2.1).

/// Encodes all bytes that RFC 3986 does not call unreserved, for one segment of a path.
pub fn percent_encoded(text: &str) -> String {
    encoded(text.as_bytes()).map(char::from).collect()
}

/// Returns the encoding of `bytes` in which no unreserved byte is encoded.
pub fn encoded(bytes: &[u8]) -> impl Iterator<Item = u8> {
    let digit = |value: u8| b"0123456789ABCDEF"[usize::from(value & 15)];
    bytes.iter().flat_map(move |&byte| {
        let is_unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let (written, length) = match is_unreserved {
            true => ([byte, 0, 0], 1),
            false => ([b'%', digit(byte >> 4), digit(byte)], 3),
        };
        written.into_iter().take(length)
    })
}

/// Returns the decoded bytes; `None` if two hexadecimal digits do not follow a `%`. A `+` stays.
pub fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let high = char::from(bytes.next()?).to_digit(16)?;
            let low = char::from(bytes.next()?).to_digit(16)?;
            decoded.push((high << 4 | low) as u8);
        } else {
            decoded.push(byte);
        }
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_to_the_same() {
        for byte in 0..=u8::MAX {
            for written in [format!("x%{byte:02x}y"), format!("x%{byte:02X}y")] {
                assert_eq!(
                    percent_decoded(&written),
                    Some(vec![b'x', byte, b'y']),
                    "{written}"
                );
            }
        }
        let text: String = ('\0'..='\u{ff}').collect();
        let encoded = percent_encoded(&text);
        assert!(
            encoded
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte))
        );
        assert_eq!(percent_decoded(&encoded), Some(text.into_bytes()));
        assert_eq!(percent_encoded("a-B._~9/é"), "a-B._~9%2F%C3%A9");
    }
}
