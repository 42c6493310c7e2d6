//! What media can make a stream hold, and what a byte of it costs: the scanner, the stream and the
//! splicer under an allocator that counts, driven by sources that cost as much as they can.
#![cfg(all(feature = "hls", feature = "hold"))]

use std::time::Duration;

use tollgate::format::splice::{Incompatible, Splicer};
use tollgate::format::{Finding, Format, MEMORY_BYTES_MAX, Scanner};
use tollgate::gather::Gather;
use tollgate::hls::{Cutter, Plan};
use tollgate::stream::{Detected, Limits, Outcome, Pool, StreamBuffer, Supply, ViewerId};
use tollgate::time::Instant;

#[path = "bounds/counting.rs"]
#[allow(dead_code, reason = "peaks are looked at for the core only")]
mod counting;
#[path = "bounds/media.rs"]
mod media;

use counting::{Counting, allocated, memory_bytes};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Over its life, for the scanner, the stream and the splicer together.
const ALLOCATED_PER_BYTE: usize = 8;
/// What is allocated once, however long the stream is: its first block, tables that are used again,
/// room for some viewers.
const ALLOCATED_ONCE: usize = 256 * 1024;

/// Piece sizes, and the bytes that are sent in pieces of each size. Small pieces send fewer bytes,
/// or the test would take minutes.
const PIECES: [(usize, usize); 4] = [
    (64 * 1024, usize::MAX),
    (4_099, usize::MAX),
    (188, 250_000),
    (1, 20_000),
];

const LIMITS: Limits = Limits {
    buffer_bytes: 1 << 18,
    join_back_bytes: 0,
    join_back_time: Duration::ZERO,
};

#[test]
fn a_byte_costs_a_scanner_little_and_it_holds_no_more_than_is_said() {
    for (name, source) in media::all() {
        for (piece, bytes_max) in PIECES {
            let source = &source[..source.len().min(bytes_max)];
            let before = (allocated(), memory_bytes());
            let mut scanner = Scanner::default();
            for bytes in source.chunks(piece) {
                scanner.feed(bytes, &mut |_, _| {});
                let now = usize::try_from(memory_bytes() - before.1).unwrap_or_default();
                assert!(
                    now <= MEMORY_BYTES_MAX,
                    "{name} by {piece}: {now} bytes are held"
                );
            }
            assert_cheap(name, piece, allocated() - before.0, source.len());
            drop(scanner);
            assert_eq!(
                memory_bytes(),
                before.1,
                "{name}: something is held when all is over"
            );
        }
    }
}

#[test]
fn a_byte_costs_a_stream_little_whoever_watches() {
    for (name, source) in media::all() {
        for (piece, bytes_max) in PIECES {
            let source = &source[..source.len().min(bytes_max)];
            for audience in Audience::ALL {
                let before = memory_bytes();
                let cost = Scene::new(audience).run(name, &[source], piece);
                assert_cheap(name, piece, cost, source.len());
                assert_eq!(
                    memory_bytes(),
                    before,
                    "{name}: something is held when all is over"
                );
            }
        }
    }
}

#[test]
fn a_byte_costs_little_where_sources_follow_each_other() {
    for (name, source) in media::all() {
        for (piece, bytes_max) in PIECES {
            let source = &source[..source.len().min(bytes_max)];
            let before = memory_bytes();
            let half = &source[..source.len() / 2];
            let mut scene = Scene::new(Audience::Steady);
            scene.splicer = Some(Splicer::new(UNIT_BYTES_MAX));
            let cost = scene.run(name, &[half, source], piece);
            assert_cheap(name, piece, cost, half.len() + source.len());
            assert_eq!(
                memory_bytes(),
                before,
                "{name}: something is held when all is over"
            );
        }
    }
}

fn assert_cheap(name: &str, piece: usize, cost: usize, bytes: usize) {
    assert!(
        cost <= ALLOCATED_PER_BYTE * bytes + ALLOCATED_ONCE,
        "{name} in pieces of {piece}: {bytes} bytes cost {cost} allocated ones"
    );
}

/// The viewers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Audience {
    Nobody,
    /// A few who take all there is.
    Steady,
    /// One after the other comes, takes what there is, and leaves.
    Passing,
    /// A few who take less than comes: they fall out of the buffer, and finish the unit that they
    /// were in.
    Slow,
    /// Each takes a few bytes and then nothing more, nor ever leaves.
    Stalled,
}

impl Audience {
    const ALL: [Audience; 5] = [
        Audience::Nobody,
        Audience::Steady,
        Audience::Passing,
        Audience::Slow,
        Audience::Stalled,
    ];
}

/// As `--hold` with a larger buffer has it: all that is to be one is seen as one.
const UNIT_BYTES_MAX: usize = 1 << 19;
const STALLED_MAX: usize = 100;
/// A viewer's own: its place, its place in the index, and a prelude.
const VIEWER_BYTES: usize = 1024;

struct Scene {
    stream: StreamBuffer<usize>,
    splicer: Option<Splicer>,
    spliced: Vec<u8>,
    pool: Pool,
    audience: Audience,
    viewers: Vec<ViewerId<usize>>,
    now: Instant,
    /// What it has allocated for media, and not for viewers who came.
    cost: usize,
}

impl Scene {
    fn new(audience: Audience) -> Scene {
        Scene {
            stream: StreamBuffer::new(LIMITS, None, Instant::START),
            splicer: None,
            spliced: Vec::new(),
            pool: Pool::new(1 << 30),
            audience,
            viewers: Vec::with_capacity(STALLED_MAX),
            now: Instant::START,
            cost: 0,
        }
    }

    /// Says how many bytes were allocated for the media of sources that follow each other.
    fn run(mut self, name: &str, sources: &[&[u8]], piece: usize) -> usize {
        let before = memory_bytes();
        let pieces = sources[0].len() / piece.max(1);
        for source in sources {
            for (number, bytes) in source.chunks(piece).enumerate() {
                if number % (pieces / 64).max(1) == 0 {
                    self.viewers_come();
                }
                let allocated_before = allocated();
                let goes_on = self.feed(bytes);
                self.cost += allocated() - allocated_before;
                self.check(
                    name,
                    piece,
                    usize::try_from(memory_bytes() - before).unwrap_or_default(),
                );
                if !goes_on {
                    break;
                }
                self.serve(bytes.len());
            }
            self.break_off();
        }
        self.cost
    }

    /// Whether the stream goes on.
    fn feed(&mut self, bytes: &[u8]) -> bool {
        let mut fed = Ok(());
        match &mut self.splicer {
            None => self.stream.append(bytes, &mut self.pool, self.now),
            Some(splicer) => {
                self.spliced.clear();
                fed = splicer.feed(bytes, &mut self.spliced);
                self.stream.append(&self.spliced, &mut self.pool, self.now);
            }
        }
        while let Some(viewer) = self.stream.take_cut() {
            self.stream.leave(self.viewers[viewer]);
        }
        !matches!(fed, Err(Incompatible(_)))
    }

    fn break_off(&mut self) {
        if let (Some(splicer), Detected::Known(format)) =
            (&mut self.splicer, self.stream.detected())
        {
            splicer.break_off(Some(format), self.stream.header().to_vec());
        }
    }

    fn viewers_come(&mut self) {
        let count = match self.audience {
            Audience::Nobody => return,
            Audience::Steady | Audience::Slow => 3,
            Audience::Passing => usize::MAX,
            Audience::Stalled => STALLED_MAX,
        };
        if self.viewers.len() < count.min(STALLED_MAX) {
            self.viewers
                .push(self.stream.join(self.viewers.len(), self.now));
        }
    }

    fn serve(&mut self, piece: usize) {
        if self.audience == Audience::Slow {
            for id in self.viewers.clone() {
                self.stream.supply(id, 0);
                let lent = self
                    .stream
                    .lend(id, 0..piece / 3 + 1, &mut Gather::default(), 0);
                self.stream.advance(id, lent);
                self.stream.end_turn(id, Outcome::Blocked);
            }
        }
        while let Some((id, _)) = self.stream.next_ready() {
            if !matches!(self.stream.supply(id, 0), Supply::Bytes(_)) {
                self.stream.end_turn(id, Outcome::Open);
                continue;
            }
            let bytes_max = if self.audience == Audience::Stalled {
                3
            } else {
                usize::MAX
            };
            let mut gather = Gather::default();
            let lent = self.stream.lend(id, 0..bytes_max, &mut gather, 0);
            self.stream.advance(id, lent);
            let outcome = match self.audience {
                Audience::Stalled => Outcome::Blocked,
                _ => Outcome::Open,
            };
            self.stream.end_turn(id, outcome);
        }
        if self.audience == Audience::Passing {
            for id in self.viewers.drain(..) {
                self.stream.leave(id);
            }
        }
    }

    /// The allocated bytes are bounded.
    fn check(&mut self, name: &str, piece: usize, now: usize) {
        self.stream.check();
        // Of the buffer, its list of blocks takes less than a sixteenth.
        let bound = LIMITS.buffer_bytes / 16 * 17
            + LIMITS.memory_beside_buffer_max()
            + STALLED_MAX * VIEWER_BYTES
            + self
                .splicer
                .as_ref()
                .map_or(0, |_| Splicer::memory_bytes_max(UNIT_BYTES_MAX));
        let bound = bound + self.spliced.capacity();
        assert!(
            now <= bound,
            "{name} by {piece}, {:?}: {now} bytes are held, {bound} are the most",
            self.audience
        );
    }
}

/// Each hostile source is recognised as the container that it floods.
#[test]
fn each_source_gets_to_the_container_that_it_is_for() {
    for (name, source) in media::all() {
        let mut told = None;
        Scanner::default().feed(&source, &mut |finding, _| {
            if let Finding::Format(format) = finding {
                told = Some(format);
            }
        });
        let expected = match name.split([' ', ',']).next() {
            Some("TS") => &[Format::MpegTs][..],
            Some("FLV") => &[Format::Flv],
            Some("Matroska") => &[Format::WebM],
            Some("Ogg") => &[Format::Ogg],
            Some("MP4") => &[Format::Mp4],
            Some("sound") => &[Format::Mp3, Format::Aac],
            _ => &[],
        };
        let is_expected = told.map_or(expected.is_empty(), |told| expected.contains(&told));
        assert!(is_expected, "{name} is told to be {told:?}");
    }
}

/// A join point that no segment can begin at, because of the header, costs nothing more than to
/// know that.
#[test]
fn a_header_that_segments_cannot_have_is_looked_at_once() {
    let file = std::fs::read("tests/media/h264.mp4").expect("it is there");
    let first = u32::from_be_bytes([file[0], file[1], file[2], file[3]]) as usize;
    let free = [&102_400u32.to_be_bytes()[..], b"free", &[0; 102_392]].concat();
    let source = [&file[..first], &free, &file[first..]].concat();
    let mut cutter = Cutter::of(Plan {
        segment: Duration::from_millis(1),
        buffer_bytes: 8 << 20,
        tag: 0,
        began: Instant::START,
        number_min: 0,
        started: Duration::ZERO,
    })
    .expect("it is cut");
    let (mut joins, mut cost) = (0, 0);
    Scanner::default().feed(&source, &mut |finding, header| {
        joins += usize::from(matches!(finding, Finding::Join(_)));
        let before = allocated();
        cutter.take(finding, header, Instant::default());
        cost += allocated() - before;
    });
    assert!(joins > 2, "{joins} join points");
    assert!(cost < 4096, "{cost} bytes for {joins} join points");
}
