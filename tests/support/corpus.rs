//! The small real files of `tests/media`, and what a scan of them finds.

use std::path::Path;

use tollgate::format::{Finding, Format, Header, Scanner};

/// Each file of `tests/media`, and whether a later source's header is left out.
pub const LATER_SOURCES: [(&str, bool); 10] = [
    ("vp8.webm", true),
    ("vp9.webm", true),
    ("h264.mkv", true),
    ("h264.mp4", true),
    ("h264.flv", true),
    ("h264.ts", false),
    ("theora.ogg", false),
    ("opus.ogg", false),
    ("sound.mp3", false),
    ("sound.aac", false),
];

/// The bytes of one.
pub fn file(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/media");
    std::fs::read(folder.join(name)).expect("a file of the corpus")
}

/// Goes through all that these bytes show, each with the header that holds then.
pub fn scan(bytes: &[u8], mut found: impl FnMut(Finding, Header<'_>)) {
    Scanner::default().feed(bytes, &mut found);
}

/// All that these bytes show.
pub fn findings(bytes: &[u8]) -> Vec<Finding> {
    let mut findings = Vec::new();
    scan(bytes, |finding, _| findings.push(finding));
    findings
}

/// The format and the header that a viewer has had.
pub fn had(bytes: &[u8]) -> (Option<Format>, Vec<u8>) {
    let (mut format, mut header) = (None, Vec::new());
    scan(bytes, |finding, told| match finding {
        Finding::Format(told) => format = Some(told),
        Finding::Header => header = told.to_vec(),
        Finding::Unknown => (format, header) = (None, Vec::new()),
        Finding::Join(_)
        | Finding::Unit(_)
        | Finding::Entry(_)
        | Finding::Time(..)
        | Finding::Lasts(_)
        | Finding::Split(_)
        | Finding::Break(_) => {}
    });
    (format, header)
}
