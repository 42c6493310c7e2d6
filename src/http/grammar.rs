//! What several parts of a message are made of: tokens and authorities. Nothing here knows where
//! they stand.

/// `HOST[:PORT]` of RFC 3986, checked no further than that it holds nothing which could be taken
/// for something else.
pub(super) fn is_authority(text: &str) -> bool {
    if text.is_empty() {
        return true; // a target without an authority has an empty Host (RFC 9112 section 3.2)
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if address.parse::<std::net::Ipv6Addr>().is_ok() => ("v6", port),
            _ => return false,
        },
        None => text
            .find(':')
            .map_or((text, ""), |colon| text.split_at(colon)),
    };
    let host_is_good = !host.is_empty()
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=".contains(&byte));
    let port_is_good = match port.strip_prefix(':') {
        None => port.is_empty(),
        Some(digits) => digits.len() <= 5 && digits.bytes().all(|byte| byte.is_ascii_digit()),
    };
    host_is_good && port_is_good
}

/// What a token is made of (RFC 9110 section 5.6.2).
pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_a_host_and_perhaps_a_port() {
        for good in [
            "",
            "h",
            "h:",
            "h:0",
            "h:65535",
            "192.0.2.7:80",
            "a-b.c_d~%41!$&'()*+;=",
            "[::1]",
            "[::1]:",
            "[2001:db8::7]:8080",
        ] {
            assert!(is_authority(good), "{good}");
        }
        for bad in [
            ":80",
            "h:123456",
            "h:8a",
            "h:+1",
            "h: 80",
            "h:80:81",
            "::1",
            "a b",
            " h",
            "h\t",
            "a/b",
            "a\\b",
            "a,b",
            "a@b",
            "a?b",
            "a#b",
            "a\"b",
            "<a>",
            "é",
            "a[::1]",
            "[::1",
            "[::1]80",
            "[::1]:8a",
            "[::1]:123456",
            "[::1]]",
            "[]",
            "[h]",
            "[192.0.2.7]",
            "[fe80::1%eth0]",
        ] {
            assert!(!is_authority(bad), "{bad}");
        }
    }

    #[test]
    fn a_token_has_no_delimiters() {
        let delimiters = b"\"(),/:;<=>?@[\\]{}";
        for byte in 0..=u8::MAX {
            let is_of_token = byte.is_ascii_graphic() && !delimiters.contains(&byte);
            assert_eq!(is_token_byte(byte), is_of_token, "{byte:#x}");
        }
    }
}
