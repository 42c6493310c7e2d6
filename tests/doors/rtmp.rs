//! The door into RTMP.

use tollgate::rtmp::{Event, Publisher};

/// What a publisher has sent may collect at most this memory.
const MEMORY_BYTES_MAX: usize = 576 * 1024;
/// Its header that is not whole is left in the input.
const LEFT_BYTES_MAX: usize = 18;

/// The results: answers, media, the number of requests, and the end.
type Outcome = (Vec<u8>, Vec<u8>, usize, Option<Result<(), &'static str>>);

/// Reads pieces. Every request is admitted.
fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Outcome {
    let mut publisher = Publisher::new(8000).expect("it is built in");
    let (mut answers, mut media, mut requests, mut end) = (Vec::new(), Vec::new(), 0, None);
    let mut left = Vec::new();
    for piece in pieces {
        left.extend_from_slice(piece);
        let input = std::mem::take(&mut left);
        let mut rest = &input[..];
        while end.is_none() {
            let (before, mut more) = (rest.len(), Vec::new());
            let found = publisher.read(&mut rest, &mut more);
            // A message of a byte becomes a tag of 16, and others may have waited for it.
            let waited = MEMORY_BYTES_MAX;
            assert!(more.len() <= 16 * (before - rest.len() + 1) + 13 + waited);
            assert!(publisher.memory_bytes() <= MEMORY_BYTES_MAX);
            media.append(&mut more);
            match found {
                Ok(Event::More) => break,
                Ok(Event::Media) => {}
                Ok(Event::Publish(_)) => {
                    publisher.admit();
                    requests += 1;
                }
                Ok(Event::End) => end = Some(Ok(())),
                Err(fault) => end = Some(Err(fault)),
            }
        }
        answers.extend(publisher.take_answers(false));
        left = rest.to_vec();
        assert!(end.is_some() || left.len() <= LEFT_BYTES_MAX);
    }
    (answers, media, requests, end)
}

/// What follows the handshake, whole and in pieces. Media are whole tags of FLV, but for the last.
pub fn publisher(data: &[u8]) {
    let mut handshake = vec![3];
    handshake.resize(1 + 2 * 1536, 7);
    let whole = read([&handshake[..], data].into_iter());
    let bytes = data.first().map_or(1, |first| 1 + usize::from(*first));
    let cut = read(std::iter::once(&handshake[..]).chain(data.chunks(bytes)));
    let (answers, media, requests, end) = &whole;
    assert!(answers.len() <= 3073 + 33 * 600, "{}", answers.len());
    assert!(*requests <= 1);
    assert_eq!(
        (answers, media, *requests, end),
        (&cut.0, &cut.1, cut.2, &cut.3)
    );
    let mut rest = media.get(13..).unwrap_or_default();
    while let Some((head, behind)) = rest.split_first_chunk::<11>() {
        let length = u32::from_be_bytes([0, head[1], head[2], head[3]]);
        assert!([8, 9, 18].contains(&head[0]) && length > 0);
        let Some((body, behind)) = behind.split_at_checked(length as usize) else {
            return;
        };
        assert_eq!(
            behind.get(..4),
            Some(&(11 + body.len() as u32).to_be_bytes()[..])
        );
        rest = &behind[4..];
    }
}
