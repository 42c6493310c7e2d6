//! Finds the end of a head (RFC 9112 sections 2.1 and 2.2) in bytes that arrive in pieces, and
//! looks at each byte once.
//!
//! It is strict about line ends and control characters, which other parsers may read in other ways.

/// The search for the end of a head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    /// Number of bytes that were looked at.
    scanned: usize,
    /// Where the current line begins: `line_start <= scanned`.
    line_start: usize,
    /// Whether the first line is complete.
    past_first_line: bool,
}

/// Limits on a head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Size of the head with its empty line.
    pub head_bytes_max: usize,
    /// Length of the first line with its CR.
    pub first_line_bytes_max: usize,
    /// A head that begins with this may have lines that end with LF alone.
    pub lf_after: Option<&'static [u8]>,
}

/// Errors in a head.
#[derive(Debug)]
pub(super) enum ScanFault {
    Malformed(String),
    FirstLineTooLong,
    TooLarge,
}

impl Scan {
    /// Continues in `bytes`, which begin with the head and contain at least the bytes of the call
    /// before. Returns the length of the head when it is complete.
    pub fn read(&mut self, bytes: &[u8], bounds: Bounds) -> Result<Option<usize>, ScanFault> {
        while let Some(&byte) = bytes.get(self.scanned) {
            if self.scanned >= bounds.head_bytes_max {
                return Err(self.too_large());
            }
            let after_cr = self.scanned > self.line_start && bytes[self.scanned - 1] == b'\r';
            let ends_with_lf = |beginning| byte == b'\n' && bytes.starts_with(beginning);
            match byte {
                b'\n' if after_cr || bounds.lf_after.is_some_and(ends_with_lf) => {
                    let line_bytes = self.scanned - usize::from(after_cr) - self.line_start;
                    self.scanned += 1;
                    self.line_start = self.scanned;
                    if line_bytes > 0 {
                        self.past_first_line = true;
                    } else if self.past_first_line {
                        return Ok(Some(self.scanned));
                    } else if self.scanned > 2 {
                        return Err(malformed(
                            "the head begins with empty lines; it must begin with its first line",
                        ));
                    }
                    continue;
                }
                _ if after_cr => {
                    return Err(malformed(
                        "a CR without its LF in the head; lines end with CRLF",
                    ));
                }
                b'\n' => {
                    return Err(malformed(
                        "an LF without its CR in the head; lines end with CRLF",
                    ));
                }
                b'\r' => {}
                b'\t' if self.past_first_line => {}
                byte if byte < b' ' || byte == 0x7f => {
                    return Err(malformed(format!(
                        "the byte 0x{byte:02x} in the head; control characters are not allowed there"
                    )));
                }
                byte if byte >= 0x80 && !self.past_first_line => {
                    return Err(malformed(format!(
                        "the byte 0x{byte:02x} in the head's first line; percent-encode all bytes that are not ASCII"
                    )));
                }
                _ => {}
            }
            self.scanned += 1;
            if !self.past_first_line && self.scanned - self.line_start > bounds.first_line_bytes_max
            {
                return Err(self.too_large());
            }
        }
        Ok(None)
    }

    fn too_large(&self) -> ScanFault {
        if self.past_first_line {
            ScanFault::TooLarge
        } else {
            ScanFault::FirstLineTooLong
        }
    }
}

fn malformed(detail: impl Into<String>) -> ScanFault {
    ScanFault::Malformed(detail.into())
}
