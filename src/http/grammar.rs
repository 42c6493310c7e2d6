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
