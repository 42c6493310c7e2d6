//! The streams: the sessions that run, what drains of those that have ended, whose turn it is to
//! go out, and the bound on all buffers.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::draining::Draining;
use super::frame::Frame;
use super::live::{Cut, Live, Origin};
use super::turns::Turns;
use super::{ConnectionId, Limits, LiveId, PullId};
use crate::gate::SessionId;
use crate::held::{hash_map_bytes, tree_map_bytes};
use crate::slots::Slots;
use crate::stream::{End, Pool};

pub(super) struct Streams {
    pub lives: Slots<Live>,
    pub running: HashMap<SessionId, LiveId>,
    pub draining: Draining,
    /// All of them in the order in which they began.
    pub order: BTreeMap<u64, LiveId>,
    pub live_serial_next: u64,
    pub pool: Pool,
    /// Streams with something for their viewers.
    pub turns: Turns,
    pub frame: Frame,
    /// What goes out of the bytes that a source sent just now, where streams are held.
    pub spliced: Vec<u8>,
    /// Streams with datagrams for their UDP clients.
    pub posting: VecDeque<LiveId>,
    /// Whose datagrams were lent last.
    pub posted: Option<LiveId>,
    said: VecDeque<Said>,
}

/// What the streams say.
pub(super) enum Said {
    /// This viewer cannot go on with its stream.
    Cut(ConnectionId, Cut),
    /// What this viewer was watching is cut off.
    CutOff(ConnectionId),
    /// A stream has lost its source.
    SourceLeft { source: Origin, id: LiveId },
    /// A stream that was fetched has ended so, or has lost its source and is held.
    PullOver {
        pull: PullId,
        end: End,
        has_viewers: bool,
    },
}

impl Streams {
    /// None yet.
    pub fn new(limits: &Limits) -> Streams {
        Streams {
            lives: Slots::default(),
            running: HashMap::new(),
            draining: Draining::default(),
            order: BTreeMap::new(),
            live_serial_next: 1,
            pool: Pool::new(limits.buffers_bytes_max),
            turns: Turns::new(),
            frame: Frame::default(),
            spliced: Vec::new(),
            posting: VecDeque::new(),
            posted: None,
            said: VecDeque::new(),
        }
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        let each = self.lives.iter().map(|(_, live)| live.held_bytes());
        self.lives.held_bytes()
            + each.sum::<usize>()
            + hash_map_bytes(&self.running)
            + self.draining.held_bytes()
            + tree_map_bytes(&self.order)
            + self.turns.held_bytes()
            + self.posting.capacity() * size_of::<LiveId>()
            + self.frame.held_bytes()
            + self.pool.held_bytes()
            + self.spliced.capacity()
            + self.said.capacity() * size_of::<Said>()
    }

    /// What they have said and nobody has heard.
    pub fn said(&mut self) -> Option<Said> {
        self.said.pop_front()
    }

    pub fn say(&mut self, said: Said) {
        self.said.push_back(said);
    }
}
