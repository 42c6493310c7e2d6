//! Media whose bytes tell where they stand, and the reader that finds out what of it a viewer was
//! given.

use super::chance::Chance;
use super::films;
use super::knowledge::{Knowledge, StreamNumber};

/// So many bytes show a place beyond doubt.
const WINDOW: usize = 24;
/// Films are shorter, because each is also remuxed for comparison.
const FILM_PART: usize = 5;
/// With fewer it cannot be said which stream of a session they are from.
const TELLING_BYTES: usize = 4;
/// Bytes that are searched for gaps that are closer together than a window.
const CLOSE_GAPS_BYTES: usize = 160;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What shows itself as text at once.
    Text,
    /// What might have been the middle of a transport stream, for its first few hundred bytes.
    Binary,
    /// AAC, frame by frame: its session is watched in segments only.
    Sound,
    /// Pictures and sound in a container: its session is watched in others only.
    Film,
}

/// Returns the head of a frame of `bytes` bytes: 1,024 samples at 48,000 a second.
const FRAME_HEAD: [u8; 7] = [0xff, 0xf1, 0x4c, 0x80, 0x05, 0x1f, 0xfc];
const FRAME_BYTES: usize = 40;

/// Bytes that no container's magic matches, different in every stream, and nowhere in a stream the
/// same over a whole window.
pub fn content(kind: Kind, bytes: usize, chance: &mut Chance) -> Vec<u8> {
    if kind == Kind::Film {
        return films::content(bytes / FILM_PART, chance);
    }
    let mut content = Vec::with_capacity(bytes + 8);
    while content.len() < bytes {
        let drawn = chance.draw().to_le_bytes();
        content.extend(drawn.map(|byte| match kind {
            // None is the sync byte of a transport stream, or of a frame.
            Kind::Text => b'H' + byte % 55,
            Kind::Binary => 0x80 + byte % 127,
            Kind::Sound | Kind::Film => byte % 127,
        }));
    }
    content.truncate(bytes);
    if let Some(first) = content.first_mut() {
        *first = match kind {
            Kind::Text => b'x',
            Kind::Binary => 0x90,
            Kind::Sound | Kind::Film => 0xff,
        };
    }
    if kind == Kind::Sound {
        for frame in content.chunks_mut(FRAME_BYTES) {
            let head = frame.len().min(FRAME_HEAD.len());
            frame[..head].copy_from_slice(&FRAME_HEAD[..head]);
        }
    }
    content
}

/// After this many bytes a stream's format is known. Earlier viewers get it from its first byte on.
fn told_bytes(kind: Kind) -> u64 {
    match kind {
        Kind::Text | Kind::Sound | Kind::Film => 16,
        // As long as sound may begin in it that was cut within a frame.
        Kind::Binary => 12 * 1024,
    }
}

/// What a viewer has been given of a stream.
pub struct Track {
    session: usize,
    /// How much of each stream of the session had arrived when the viewer asked.
    asked_at: Vec<(StreamNumber, u64)>,
    /// It was served at once, not after other requests of the same client.
    is_exact: bool,
    pending: Vec<u8>,
    place: Option<Place>,
}

/// Where the viewer stands.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub stream: StreamNumber,
    pub at: u64,
    pub gaps: u64,
}

impl Track {
    pub fn new(session: usize, asked_at: Vec<(StreamNumber, u64)>, is_exact: bool) -> Track {
        Track {
            session,
            asked_at,
            is_exact,
            pending: Vec::new(),
            place: None,
        }
    }

    /// It is served later than it asked.
    pub fn is_kept_waiting(&mut self) {
        self.is_exact = false;
    }

    pub fn place(&self) -> Option<Place> {
        self.place
    }

    /// For who looks into a failure.
    pub fn state(&self, knowledge: &Knowledge) -> String {
        let arrived = self.place.map(|place| knowledge.newest(place.stream));
        format!(
            "{} bytes behind {:?} of {arrived:?}, {}",
            self.pending.len(),
            self.place,
            self.whereabouts(knowledge)
        )
    }

    /// Whether every byte has been understood, but for so few after a gap that only more would
    /// show where they are from.
    pub fn is_settled(&self, knowledge: &Knowledge) -> bool {
        let is_tail = |place: Place| knowledge.arrived(place.stream).ends_with(&self.pending);
        self.pending.len() < WINDOW && self.place.is_none_or(is_tail)
    }

    /// Whether all that has come has been given to it.
    pub fn is_at_end(&self, knowledge: &Knowledge) -> bool {
        self.place.is_none_or(|place| {
            !self.pending.is_empty() || place.at == knowledge.newest(place.stream)
        })
    }

    /// What streams it may be that a viewer without a byte is waiting for: none has sent anything
    /// since it asked.
    pub fn newest_when_asked(&self, stream: StreamNumber) -> u64 {
        let asked = self.asked_at.iter().find(|(asked, _)| *asked == stream);
        asked.map_or(0, |(_, newest)| *newest)
    }

    /// More has arrived.
    pub fn take(&mut self, bytes: &[u8], knowledge: &Knowledge) {
        self.pending.extend_from_slice(bytes);
        self.follow(knowledge, false);
    }

    /// Nothing more comes.
    pub fn finish(&mut self, knowledge: &Knowledge) {
        // So few may be from any of the session's streams: all begin with the same byte.
        if self.place.is_none() && self.pending.len() < TELLING_BYTES {
            self.pending.clear();
        }
        self.follow(knowledge, true);
    }

    fn follow(&mut self, knowledge: &Knowledge, is_over: bool) {
        loop {
            if let Some(place) = &mut self.place {
                let content = knowledge.arrived(place.stream);
                let ahead = &content[(place.at as usize).min(content.len())..];
                let same = same_bytes(&self.pending, ahead);
                place.at += same as u64;
                self.pending.drain(..same);
            }
            let at_hand = self.pending.len();
            if at_hand == 0 || (at_hand < WINDOW && !is_over) {
                return;
            }
            let found = match self.place {
                None => self.begin(knowledge),
                Some(place) => self.jump(knowledge, place),
            };
            if found.is_some() {
                self.place = found;
            } else if at_hand >= CLOSE_GAPS_BYTES + WINDOW || is_over {
                self.piece_together(knowledge, is_over);
            } else {
                return;
            }
        }
    }

    /// The first bytes tell which stream it is; they are where it was joined, unless it fell out
    /// before it was given any.
    fn begin(&self, knowledge: &Knowledge) -> Option<Place> {
        let needle = &self.pending[..self.pending.len().min(WINDOW)];
        let mut fallen = None;
        for stream in knowledge.streams_of(self.session) {
            let content = knowledge.arrived(stream);
            let at = self.start_in(knowledge, stream);
            // What was sent while it ended is not its own, of which the log tells after the turn.
            let behind = content.get(at as usize..);
            if behind.is_some_and(|behind| behind.starts_with(needle)) {
                return Some(Place {
                    stream,
                    at,
                    gaps: 0,
                });
            }
            fallen = fallen.or_else(|| {
                find(content, at as usize, needle).map(|at| Place {
                    stream,
                    at,
                    gaps: u64::from(self.is_exact),
                })
            });
        }
        fallen
    }

    /// Where in a stream it was joined, if it was that one.
    fn start_in(&self, knowledge: &Knowledge, stream: StreamNumber) -> u64 {
        let newest = self.newest_when_asked(stream);
        let is_told = newest >= told_bytes(knowledge.kind(stream));
        if is_told { newest } else { 0 }
    }

    /// After a gap the bytes go on at a later place.
    fn jump(&self, knowledge: &Knowledge, place: Place) -> Option<Place> {
        let needle = &self.pending[..self.pending.len().min(WINDOW)];
        let at = find(
            knowledge.arrived(place.stream),
            place.at as usize + 1,
            needle,
        )?;
        Some(Place {
            at,
            gaps: place.gaps + 1,
            ..place
        })
    }

    /// Gaps may be so close together that the bytes between them do not show their position. Then they
    /// must fit between the bytes before and the bytes after.
    fn piece_together(&mut self, knowledge: &Knowledge, is_over: bool) {
        for (place, before) in self.candidates(knowledge) {
            let pending = &self.pending[before..];
            let content = knowledge.arrived(place.stream);
            let from = place.at as usize + 1;
            // Up to bytes that show where they are from; or all there is, when nothing more comes
            // that would show it.
            let shown = (0..=CLOSE_GAPS_BYTES).filter_map(|behind| {
                let needle = pending.get(behind..behind + WINDOW)?;
                let at = find(content, from, needle)? as usize;
                Some((behind + WINDOW, at + WINDOW))
            });
            let all = is_over.then_some((pending.len(), content.len()));
            let found = shown.chain(all).find_map(|(given, upto)| {
                let (gaps, end) = pieces(&pending[..given], content.get(from..upto)?)?;
                Some((given, gaps, end))
            });
            if let Some((given, gaps, end)) = found {
                // A viewer that was served later than it asked joined where its first piece is from.
                let is_joined_there = self.place.is_none() && !self.is_exact;
                self.place = Some(Place {
                    at: (from + end) as u64,
                    gaps: place.gaps + gaps - u64::from(is_joined_there),
                    ..place
                });
                self.pending.drain(..before + given);
                return;
            }
        }
        panic!(
            "a viewer was given bytes that its stream does not have there: {:?} of {:?}, {}",
            self.place,
            self.place.map(|place| knowledge.state(place.stream)),
            self.whereabouts(knowledge)
        );
    }

    /// Where the viewer may stand, and how many of the bytes it was given before that, from where
    /// it was joined on: they may be too few to show where they are from.
    fn candidates(&self, knowledge: &Knowledge) -> Vec<(Place, usize)> {
        if let Some(place) = self.place {
            return vec![(place, 0)];
        }
        let stands = |stream| {
            let start = self.start_in(knowledge, stream);
            let ahead = knowledge.arrived(stream).get(start as usize..);
            let before = ahead.map_or(0, |ahead| same_bytes(&self.pending, ahead));
            let at = start + before as u64;
            let gaps = 0;
            (Place { stream, at, gaps }, before)
        };
        knowledge.streams_of(self.session).map(stands).collect()
    }

    /// Where the bytes come from that should not have come, for who looks into a failure.
    fn whereabouts(&self, knowledge: &Knowledge) -> String {
        let needle = &self.pending[..self.pending.len().min(WINDOW)];
        let places: Vec<_> = knowledge
            .streams_of(self.session)
            .filter_map(|stream| Some((stream, find(knowledge.arrived(stream), 0, needle)?)))
            .collect();
        format!("{:?} is at {places:?}", String::from_utf8_lossy(needle))
    }
}

/// In how few pieces `bytes` can be found in `content`, one after the other, and where the last of
/// them ends.
fn pieces(bytes: &[u8], content: &[u8]) -> Option<(u64, usize)> {
    const NEVER: u64 = u64::MAX - 1;
    // By how many of the bytes are found: in how few pieces so far, and if the last of them is the
    // byte just before.
    let mut so_far = vec![NEVER; bytes.len() + 1];
    so_far[0] = 0;
    let mut just_before = vec![NEVER; bytes.len() + 1];
    let mut whole = None;
    for (at, byte) in content.iter().enumerate() {
        for found in (1..=bytes.len()).rev() {
            just_before[found] = if bytes[found - 1] == *byte {
                just_before[found - 1].min(so_far[found - 1] + 1)
            } else {
                NEVER
            };
            if just_before[found] < so_far[found] {
                so_far[found] = just_before[found];
                if found == bytes.len() {
                    whole = Some((so_far[found], at + 1));
                }
            }
        }
    }
    whole
}

/// How many bytes both begin with.
fn same_bytes(one: &[u8], other: &[u8]) -> usize {
    let both = one.iter().zip(other);
    both.take_while(|(one, other)| one == other).count()
}

/// Where `needle` is found first in `content` from an offset on; nothing is found there at once.
fn find(content: &[u8], from: usize, needle: &[u8]) -> Option<u64> {
    let behind = content.get(from..)?;
    let Some(first) = needle.first() else {
        return Some(from as u64);
    };
    let mut at = 0;
    while let Some(distance) = behind[at..].iter().position(|byte| byte == first) {
        at += distance;
        if behind[at..].starts_with(needle) {
            return Some((from + at) as u64);
        }
        at += 1;
    }
    None
}

/// A session with a running stream that has sent `bytes`.
fn stream_of(bytes: usize) -> (Knowledge, StreamNumber, Vec<u8>) {
    let mut knowledge = Knowledge::new(vec![super::knowledge::Session::new("a")], 1);
    let content = content(Kind::Text, bytes, &mut Chance::new(1));
    let (sent, source) = (content.clone(), ([10, 0, 0, 1], 1).into());
    let stream = knowledge.announce(0, Kind::Text, sent, vec![(0, 0, bytes)], source);
    knowledge.handed(stream, bytes);
    (knowledge, stream, content)
}

/// Three bytes do not show where they are from, but for where it was joined.
#[test]
fn who_falls_out_behind_its_first_bytes_has_seen_one_gap() {
    let (knowledge, stream, content) = stream_of(5_000);
    let mut track = Track::new(0, vec![(stream, 1_000)], true);
    track.take(&content[1_000..1_003], &knowledge);
    track.take(&content[3_000..3_500], &knowledge);
    let place = track.place().expect("it is found");
    assert_eq!((place.at, place.gaps), (3_500, 1));
}

#[test]
fn who_is_served_later_than_it_asked_has_seen_no_gap_where_it_is_joined() {
    let (knowledge, stream, content) = stream_of(5_000);
    for first_bytes in [3, 100] {
        let mut track = Track::new(0, vec![(stream, 1_000)], false);
        track.take(&content[2_000..2_000 + first_bytes], &knowledge);
        track.take(&content[3_000..3_500], &knowledge);
        let place = track.place().expect("it is found");
        assert_eq!((place.at, place.gaps), (3_500, 1));
    }
}

/// The stream before was still sent to the viewer while it was ended.
#[test]
fn a_viewer_of_another_stream_may_have_asked_when_more_had_been_sent() {
    let session = super::knowledge::Session::new("a");
    let its = format!("session={}", session.digest);
    let mut knowledge = Knowledge::new(vec![session], 1);
    let mut chance = Chance::new(1);
    let mut announce = |knowledge: &mut Knowledge, number: usize| {
        let content = content(Kind::Text, 100, &mut chance);
        let source = ([10, 0, 0, 1], number as u16).into();
        let stream = knowledge.announce(0, Kind::Text, content.clone(), vec![(0, 0, 100)], source);
        knowledge.read_log(&format!(
            "level=info event=stream-begins {its} source={source}"
        ));
        knowledge.handed(stream, 100);
        (stream, content)
    };
    let (first, _) = announce(&mut knowledge, 1);
    let asked_at = vec![(first, knowledge.newest(first))];
    let figures = "bytes_received=50 bytes_sent=0 skips=0";
    knowledge.read_log(&format!(
        "level=info event=stream-ends {its} reason=x {figures}"
    ));
    let (second, content) = announce(&mut knowledge, 2);
    let mut track = Track::new(0, asked_at, true);
    track.take(&content, &knowledge);
    let place = track.place().expect("it is found");
    assert_eq!((place.stream, place.at, place.gaps), (second, 100, 0));
}
