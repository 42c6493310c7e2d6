//! The newest bytes of a stream, in a ring of blocks. Blocks are allocated as the ring fills, and
//! used again when it is full.
//!
//! Offsets count from the stream's first byte. `oldest <= newest`, and the bytes between them can
//! be lent.

#[cfg(feature = "handover")]
mod handover;

use std::collections::VecDeque;

use crate::gather::Gather;
use crate::time::Instant;

/// The bytes that all streams together may still take for their blocks.
#[derive(Debug, Default)]
pub struct Pool {
    /// Bytes that are left. Negative if streams took the blocks that each may have in any case.
    pub bytes_left: isize,
    /// Blocks of ended streams, for new ones. [`Pool::take_spare`] takes all but
    /// [`FREE_BLOCKS_KEPT`]. A new block is allocated only if none is free, so the free blocks do not
    /// raise the peak.
    free: Vec<Vec<u8>>,
}

/// The newest bytes of one stream.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Buffer {
    /// Every block but the last is full.
    blocks: VecDeque<Block>,
    block_bytes: usize,
    blocks_max: usize,
    blocks_granted: usize,
    /// Blocks that are reserved in the pool and not yet allocated.
    blocks_reserved: usize,
    pub oldest: u64,
    pub newest: u64,
}

#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct Block {
    #[cfg_attr(feature = "handover", serde(skip))]
    bytes: Vec<u8>,
    /// Arrival time of the block's first byte.
    began: Instant,
}

/// Small enough that a stream of sound holds little, large enough that a write seldom spans more
/// than two.
const BLOCK_BYTES_MAX: usize = 64 * 1024;
const BLOCK_BYTES_MIN: usize = 4 * 1024;
/// Bytes that each stream keeps even if the pool is empty, besides the block that is being filled.
/// It is the size of a first read, so viewers who wait for the stream get the bytes that came with
/// the source's head.
const GRANTED_BYTES: usize = 16 * 1024;
/// Short streams that follow each other need no new block.
const FREE_BLOCKS_KEPT: usize = 4;

impl Pool {
    /// Creates a pool of `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Pool {
        Pool {
            bytes_left: isize::try_from(bytes_max).unwrap_or(isize::MAX),
            free: Vec::new(),
        }
    }

    /// Returns the bytes that the free blocks take.
    pub fn memory_bytes(&self) -> usize {
        let blocks = self.free.iter().map(Vec::capacity);
        blocks.sum::<usize>() + self.free.capacity() * size_of::<Vec<u8>>()
    }

    /// Returns an empty block.
    fn take(&mut self, block_bytes: usize) -> Vec<u8> {
        self.bytes_left -= block_bytes as isize;
        let free = self
            .free
            .pop()
            .filter(|free| free.capacity() == block_bytes);
        free.unwrap_or_else(|| Vec::with_capacity(block_bytes))
    }

    /// Takes spare blocks of at most `bytes_max`, or one.
    pub fn take_spare(&mut self, bytes_max: usize) -> Vec<Vec<u8>> {
        let spare = self.free.len().saturating_sub(FREE_BLOCKS_KEPT);
        let block_bytes = self.free.last().map_or(1, Vec::capacity);
        let taken = spare.min((bytes_max / block_bytes).max(1));
        let blocks = self.free.split_off(self.free.len() - taken);
        self.free.shrink_to(2 * self.free.len());
        blocks
    }

    /// Takes back a block.
    fn give_back(&mut self, mut block: Vec<u8>, block_bytes: usize) {
        self.bytes_left += block_bytes as isize;
        block.clear();
        self.free.push(block);
    }
}

impl Buffer {
    /// Creates a buffer that holds about `bytes_max` bytes, and at least two blocks.
    pub fn new(bytes_max: usize) -> Buffer {
        let block_bytes = (bytes_max / 16).clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX);
        let blocks_max = (bytes_max / block_bytes).max(2);
        Buffer {
            blocks: VecDeque::new(),
            block_bytes,
            blocks_max,
            blocks_granted: (GRANTED_BYTES.div_ceil(block_bytes) + 1).min(blocks_max),
            blocks_reserved: 0,
            oldest: 0,
            newest: 0,
        }
    }

    /// Returns the bytes that the buffer takes from the pool: allocated and reserved blocks.
    pub fn pool_bytes(&self) -> usize {
        (self.blocks.len() + self.blocks_reserved) * self.block_bytes
    }

    /// Reserves all blocks in the pool, while the buffer is empty. Returns whether the pool had room.
    #[must_use]
    pub fn reserve(&mut self, pool: &mut Pool) -> bool {
        let bytes = isize::try_from(self.bytes_max()).unwrap_or(isize::MAX);
        let has_room = pool.bytes_left >= bytes;
        if has_room {
            pool.bytes_left -= bytes;
            self.blocks_reserved = self.blocks_max;
        }
        has_room
    }

    /// Returns the allocated bytes.
    pub fn memory_bytes(&self) -> usize {
        let blocks = self.blocks.iter().map(|block| block.bytes.capacity());
        blocks.sum::<usize>() + self.blocks.capacity() * size_of::<Block>()
    }

    /// Returns the number of bytes in a full buffer.
    pub fn bytes_max(&self) -> usize {
        self.blocks_max * self.block_bytes
    }

    /// Returns how many of the newest bytes stay in the buffer, whatever the pool has left.
    pub fn kept_bytes(&self) -> usize {
        (self.blocks.len().max(self.blocks_granted) - 1) * self.block_bytes
    }

    /// Returns how many of the newest bytes stay in the buffer if no other stream takes the rest of
    /// the pool.
    pub fn keepable_bytes(&self, pool: &Pool) -> usize {
        let blocks_left = usize::try_from(pool.bytes_left).unwrap_or(0) / self.block_bytes;
        let blocks_own = self.blocks.len() + self.blocks_reserved;
        let blocks = blocks_own.saturating_add(blocks_left);
        (blocks.clamp(self.blocks_granted, self.blocks_max) - 1) * self.block_bytes
    }

    /// Returns whether the last block is full, or no block exists.
    pub fn needs_block(&self) -> bool {
        self.blocks
            .back()
            .is_none_or(|block| block.bytes.len() == self.block_bytes)
    }

    /// Returns the oldest offset after [`Buffer::recycle`], or `None` if a block can be added instead.
    pub fn oldest_after_recycling(&self, pool: &Pool) -> Option<u64> {
        let has_room = self.blocks_reserved > 0 || pool.bytes_left >= self.block_bytes as isize;
        let may_grow = self.blocks.len() < self.blocks_max && has_room;
        if may_grow || self.blocks.len() < self.blocks_granted {
            None
        } else {
            Some(self.oldest + self.block_bytes as u64)
        }
    }

    /// Adds an empty block, for bytes that arrive at `now`.
    pub fn grow(&mut self, pool: &mut Pool, now: Instant) {
        if let Some(reserved) = self.blocks_reserved.checked_sub(1) {
            self.blocks_reserved = reserved;
            pool.bytes_left += self.block_bytes as isize;
        }
        self.blocks.push_back(Block {
            bytes: pool.take(self.block_bytes),
            began: now,
        });
    }

    /// Empties the oldest block and makes it the last one, for bytes that arrive at `now`.
    pub fn recycle(&mut self, now: Instant) {
        if let Some(mut block) = self.blocks.pop_front() {
            self.oldest += block.bytes.len() as u64;
            block.bytes.clear();
            block.began = now;
            self.blocks.push_back(block);
        }
    }

    /// Appends the bytes that fit into the last block, and returns their number.
    pub fn fill(&mut self, bytes: &[u8]) -> usize {
        let Some(block) = self.blocks.back_mut() else {
            return 0;
        };
        let taken = bytes.len().min(self.block_bytes - block.bytes.len());
        block.bytes.extend_from_slice(&bytes[..taken]);
        self.newest += taken as u64;
        taken
    }

    /// Returns all blocks to the pool.
    pub fn release(&mut self, pool: &mut Pool) {
        for block in self.blocks.drain(..) {
            pool.give_back(block.bytes, self.block_bytes);
        }
        pool.bytes_left += (self.blocks_reserved * self.block_bytes) as isize;
        self.blocks_reserved = 0;
        self.oldest = self.newest;
    }

    /// Lends the bytes from `from` on, at most `bytes_max`. `places_kept` places of `gather` stay
    /// free. Returns the number of bytes.
    pub fn lend<'a>(
        &'a self,
        from: u64,
        bytes_max: usize,
        gather: &mut Gather<'a>,
        places_kept: usize,
    ) -> usize {
        let mut lent = 0;
        while gather.places_left() > places_kept {
            let slice = self.slice(from + lent as u64, bytes_max - lent);
            if slice.is_empty() || !gather.push(slice) {
                break;
            }
            lent += slice.len();
        }
        lent
    }

    /// Returns contiguous bytes from `from` on, at most `bytes_max`. Returns an empty slice if `from`
    /// is not between oldest and newest.
    pub fn slice(&self, from: u64, bytes_max: usize) -> &[u8] {
        let Some(block) = self.block_of(from) else {
            return &[];
        };
        let distance = (from - self.oldest) % self.block_bytes as u64;
        let rest = block.bytes.get(distance as usize..).unwrap_or(&[]);
        &rest[..rest.len().min(bytes_max)]
    }

    fn block_of(&self, offset: u64) -> Option<&Block> {
        let distance = offset.checked_sub(self.oldest)?;
        self.blocks
            .get((distance / self.block_bytes as u64) as usize)
    }

    /// Returns the arrival time of the first byte in the block of `offset`. Returns `None` if the byte
    /// is not in the buffer.
    pub fn arrived(&self, offset: u64) -> Option<Instant> {
        self.block_of(offset).map(|block| block.began)
    }

    /// Appends a copy of the bytes between two offsets to `into`, as far as the buffer has them.
    pub fn copy_to(&self, into: &mut Vec<u8>, from: u64, to: u64) {
        into.reserve(to.saturating_sub(from) as usize);
        let mut at = from;
        loop {
            let slice = self.slice(at, to.saturating_sub(at) as usize);
            if slice.is_empty() {
                return;
            }
            into.extend_from_slice(slice);
            at += slice.len() as u64;
        }
    }
}

#[cfg(test)]
mod tests;
