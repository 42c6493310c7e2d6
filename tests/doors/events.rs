//! The door to the events: an id that somebody gives back, and readers of every slowness.

use tollgate::events::{EventId, Events};
use tollgate::gate::SessionId;
use tollgate::gather::Gather;

/// A parsed id prints as it was. Each reader gets its events whole and in order, for any events and
/// any pieces.
pub fn units(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Some(id) = EventId::of_text(text)
    {
        assert_eq!(id.to_string(), text);
    }
    let sessions = [b"a", b"b"].map(|name| SessionId::parse(name).expect("a good sessionid"));
    let filters = [None, Some(&sessions[0]), Some(&sessions[1])];
    let mut events = Events::default();
    events.keep();
    let mut readers = [(1, Vec::new()), (1, Vec::new()), (1, Vec::new())];
    let mut expected = [Vec::new(), Vec::new(), Vec::new()];
    for (number, unit) in data.chunks(7).enumerate() {
        let (take, which) = (usize::from(unit[0]), number % 2);
        events.push(Some(sessions[which].clone()), |text, _| {
            text.extend_from_slice(unit)
        });
        expected[0].extend_from_slice(unit);
        expected[which + 1].extend_from_slice(unit);
        for ((from, got), of) in readers.iter_mut().zip(filters) {
            read(&events, (from, got), of, take);
        }
    }
    for (((mut from, mut got), of), expected) in readers.into_iter().zip(filters).zip(expected) {
        while from < events.next() {
            read(&events, (&mut from, &mut got), of, usize::MAX);
        }
        assert_eq!(got, expected);
    }
}

fn read(
    events: &Events,
    (from, got): (&mut u64, &mut Vec<u8>),
    of: Option<&SessionId>,
    take: usize,
) {
    *from = events.skip(*from, of);
    let mut gather = Gather::default();
    events.lend(*from, of, &mut gather);
    let lent: Vec<u8> = gather
        .slices()
        .iter()
        .flat_map(|slice| slice.to_vec())
        .collect();
    let taken = lent.len().min(take);
    got.extend_from_slice(&lent[..taken]);
    let (next, rest) = events.advance(*from, of, taken);
    got.extend(rest);
    *from = next;
}
