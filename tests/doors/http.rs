//! HTTP requests, and answers, in arbitrary bytes, cut anywhere: the outcome may not depend on the
//! cuts.

use std::fmt::Debug;

use tollgate::http::{
    Answer, AnswerReader, Body, Framing, Head, HeadReader, Limits, Part, Refusal,
};

/// What a connection's bytes come to: requests with their bodies' content, and how it ended.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    requests: Vec<(Head, Vec<u8>, bool)>,
    refusal: Option<Refusal>,
}

const LIMITS: Limits = Limits {
    head_bytes_max: 512,
    head_fields_max: 16,
    takes_old_sources: true,
};

/// Reads the bytes after the first one in one piece, byte by byte, and in pieces of which the first
/// byte sets the length. The results must be equal. Returns the result.
fn in_all_cuts<T: PartialEq + Debug>(data: &[u8], read: fn(&[u8], usize, usize) -> T) -> Option<T> {
    let (&seed, bytes) = data.split_first()?;
    let whole = read(bytes, bytes.len().max(1), 0);
    assert_eq!(whole, read(bytes, 1, 0), "byte by byte");
    let cut = read(bytes, 1 + usize::from(seed & 15), usize::from(seed >> 4));
    assert_eq!(whole, cut, "cut at {seed}");
    Some(whole)
}

pub fn request(data: &[u8]) {
    let Some(whole) = in_all_cuts(data, read) else {
        return;
    };
    for (head, content, _) in &whole.requests {
        assert!(head.host.bytes().all(|byte| byte.is_ascii_graphic()));
        assert!(content.len() < data.len());
    }
}

fn read(bytes: &[u8], piece: usize, first: usize) -> Outcome {
    let mut outcome = Outcome::default();
    let mut reader = HeadReader::default();
    let mut body: Option<(Head, Body, Vec<u8>)> = None;
    let mut held: Vec<u8> = Vec::new();
    let (start, rest) = bytes.split_at(first.min(bytes.len()));
    for arrived in std::iter::once(start).chain(rest.chunks(piece)) {
        held.extend_from_slice(arrived);
        let mut input = held.as_slice();
        let result = step(&mut input, &mut reader, &mut body, &mut outcome);
        if let Err(refusal) = result {
            outcome.refusal = Some(refusal);
            break;
        }
        let left = input.len();
        held.drain(..held.len() - left);
    }
    if let Some((head, body, content)) = body {
        outcome.requests.push((head, content, body.is_complete()));
    }
    outcome
}

fn step(
    input: &mut &[u8],
    reader: &mut HeadReader,
    body: &mut Option<(Head, Body, Vec<u8>)>,
    outcome: &mut Outcome,
) -> Result<(), Refusal> {
    loop {
        match body {
            None => match reader.read(input, &LIMITS)? {
                None => return Ok(()),
                Some((head, length)) => {
                    assert!(length <= LIMITS.head_bytes_max);
                    *input = &input[length..];
                    *reader = HeadReader::default();
                    let framing = head.framing;
                    *body = Some((head, Body::new(framing), Vec::new()));
                }
            },
            Some((_, reading, content)) => match reading.read(input)? {
                Part::More => return Ok(()),
                Part::Content(piece) => content.extend_from_slice(piece),
                Part::End => {
                    if let Some((head, _, content)) = body.take() {
                        outcome.requests.push((head, content, true));
                    }
                }
            },
        }
    }
}

/// What an origin's bytes come to: interim answers and the final one, its body's content, and how
/// far that came.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answered {
    heads: Vec<Answer>,
    content: Vec<u8>,
    is_complete: bool,
    refusal: Option<Refusal>,
}

pub fn answer(data: &[u8]) {
    let Some(whole) = in_all_cuts(data, read_answer) else {
        return;
    };
    assert!(whole.content.len() < data.len());
    for head in &whole.heads {
        assert!((100..600).contains(&head.status));
        let texts = [&head.content_type, &head.via];
        // They are sent on in heads of this server's.
        let mut characters = texts.into_iter().flatten().flat_map(|text| text.chars());
        assert!(characters.all(|character| character == '\t' || !character.is_ascii_control()));
        let has_none = matches!(head.status, 100..=199 | 204 | 304);
        assert_eq!(has_none, head.framing == Framing::None);
    }
}

fn read_answer(bytes: &[u8], piece: usize, first: usize) -> Answered {
    let mut answered = Answered::default();
    let mut reader = AnswerReader::default();
    let mut body: Option<Body> = None;
    let mut held: Vec<u8> = Vec::new();
    let (start, rest) = bytes.split_at(first.min(bytes.len()));
    for arrived in std::iter::once(start).chain(rest.chunks(piece)) {
        held.extend_from_slice(arrived);
        let mut input = held.as_slice();
        if let Err(refusal) = step_answer(&mut input, &mut reader, &mut body, &mut answered) {
            answered.refusal = Some(refusal);
            break;
        }
        let left = input.len();
        held.drain(..held.len() - left);
    }
    answered
}

fn step_answer(
    input: &mut &[u8],
    reader: &mut AnswerReader,
    body: &mut Option<Body>,
    answered: &mut Answered,
) -> Result<(), Refusal> {
    loop {
        match body {
            None => match reader.read(input, &LIMITS)? {
                None => return Ok(()),
                Some((head, length)) => {
                    assert!(length <= LIMITS.head_bytes_max);
                    *input = &input[length..];
                    *reader = AnswerReader::default();
                    if head.status >= 200 {
                        *body = Some(Body::new(head.framing));
                    }
                    answered.heads.push(head);
                }
            },
            Some(reading) => match reading.read(input)? {
                Part::More => return Ok(()),
                Part::Content(piece) => answered.content.extend_from_slice(piece),
                Part::End => {
                    answered.is_complete = true;
                    return Ok(());
                }
            },
        }
    }
}
