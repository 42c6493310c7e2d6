//! Arbitrary addresses below a stream's address: a request prints as it was written, each object has
//! one name, and no request waits for an object far ahead.

#[path = "../support/encoder.rs"]
#[allow(dead_code, reason = "two of its containers are enough")]
mod encoder;

use std::collections::HashSet;
use std::time::Duration;

use super::format::transport;
use encoder::{Encoder, Kind};
use tollgate::format::Scanner;
use tollgate::hls::{Content, Cutter, HlsRequest, HlsResponse, Plan};
use tollgate::http::{Head, HeadReader, Limits};
use tollgate::time::Instant;

const LIMITS: Limits = Limits {
    head_bytes_max: 4096,
    head_fields_max: 4,
    takes_old_sources: false,
};

/// The first byte says of which container the stream is, whether it may be waited for, and how the
/// rest is understood: as a query, or as a name. In it, `~` is the number of the
/// newest segment, and `^` the tag of the stream's names.
pub fn address(data: &[u8]) {
    let Some((&how, text)) = data.split_first() else {
        return;
    };
    let kind = if how & 1 == 0 { Kind::Mp4 } else { Kind::Ts };
    let (mut cutter, bytes) = stream(kind);
    let newest = cutter.newest_listed().expect("there is a list");
    let text = String::from_utf8_lossy(text)
        .replace('~', &newest.to_string())
        .replace('^', "00005eed");
    let target = match how & 2 == 0 {
        true => format!("/stream/a/index.m3u8?{text}"),
        false => format!("/stream/a/{text}"),
    };
    let Some(head) = head(&target) else {
        return;
    };
    let [_, _, file] = head.target.segments.as_slice() else {
        return;
    };
    let Some(Ok(wanted)) = HlsRequest::of(file, &head.target) else {
        return;
    };
    check_reading(&wanted, &target);
    let may_wait = how & 4 == 0;
    match cutter.find(&wanted, may_wait, &[]) {
        Some(HlsResponse::Object(object)) => {
            assert!(object.content.bytes() > 0);
            if let Content::Range { from, to, .. } = object.content {
                assert!(from < to && to <= bytes);
            }
            if let HlsRequest::Named(name) = &wanted {
                assert!(names(&mut cutter).contains(&**name), "{name}");
            }
        }
        Some(HlsResponse::NotYet(time)) => {
            assert!(may_wait && time <= Duration::from_secs(30));
            if let HlsRequest::List(ahead) = wanted {
                assert!(ahead.is_some_and(|ahead| ahead.number <= newest + 2));
            }
        }
        Some(HlsResponse::Refused(_) | HlsResponse::Over) | None => {}
    }
    cutter.check();
}

fn head(target: &str) -> Option<Head> {
    let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    let read = HeadReader::default().read(head.as_bytes(), &LIMITS);
    read.ok()?.map(|(head, _)| head)
}

/// The request prints the address, digit by digit.
fn check_reading(wanted: &HlsRequest, target: &str) {
    match wanted {
        HlsRequest::List(None) => assert!(!target.contains("_HLS_")),
        HlsRequest::List(Some(ahead)) => {
            let value = |name: &str| {
                let mut parameters = target.split(['?', '&']);
                let value = parameters.find_map(|each| each.strip_prefix(name)?.strip_prefix('='));
                value?.parse::<u64>().ok()
            };
            assert_eq!(value("_HLS_msn"), Some(ahead.number), "{target}");
            assert_eq!(value("_HLS_part"), ahead.part, "{target}");
        }
        HlsRequest::Named(name) => assert!(name.len() <= 64 && !target.contains("?_")),
    }
}

/// Of nine seconds all is kept.
fn stream(kind: Kind) -> (Box<Cutter>, u64) {
    let mut encoder = Encoder::new(kind);
    encoder.unit_bytes = 20;
    let bytes = encoder.run(9.2);
    let mut cutter = Cutter::of(Plan {
        segment: Duration::from_secs(2),
        buffer_bytes: 1 << 20,
        tag: 0x5eed,
        started: Duration::from_secs(1_763_776_800),
        began: Instant::START,
        number_min: 0,
    })
    .expect("it is cut");
    Scanner::default().feed(&bytes, &mut |finding, header| {
        cutter.take(finding, header, Instant::START);
    });
    (cutter, bytes.len() as u64)
}

/// Returns all listed objects, and the unlisted parts of listed segments.
fn names(cutter: &mut Cutter) -> HashSet<String> {
    let list = cutter.list(&[]).expect("there is a list");
    let list = String::from_utf8(list.to_vec()).expect("it is text");
    let of_line = |line: &str| match line.strip_prefix('#') {
        Some(tag) => tag
            .split_once("URI=\"")?
            .1
            .split('"')
            .next()
            .map(str::to_owned),
        None => Some(line.to_owned()),
    };
    let listed: HashSet<String> = list.lines().filter_map(of_line).collect();
    let part_of = |name: &String, index: usize| {
        let (segment, extension) = name.split_once('.')?;
        (extension == "m4s").then(|| format!("{segment}.{index}.m4s"))
    };
    let parts = listed
        .iter()
        .flat_map(|name| (0..4).filter_map(move |index| part_of(name, index)));
    let parts: Vec<String> = parts.collect();
    listed.into_iter().chain(parts).collect()
}
