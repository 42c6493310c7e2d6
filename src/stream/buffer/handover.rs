//! Receives the bytes of a stream from another process, from the oldest on, while the stream runs there.

use super::{Block, Buffer, Pool};
use crate::handover::{COUNT_MAX, HandoverError, must};
use crate::time::Instant;

impl Buffer {
    /// Takes bytes that begin at the offset `from`. They continue the received bytes, or replace them.
    pub fn receive(
        &mut self,
        from: u64,
        bytes: &[u8],
        pool: &mut Pool,
    ) -> Result<(), HandoverError> {
        if from != self.newest {
            self.release(pool);
            (self.oldest, self.newest) = (from, from);
        }
        let end = from.saturating_add(bytes.len() as u64);
        must(end <= COUNT_MAX, || {
            format!("no byte has the offset {from}")
        })?;
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.needs_block() {
                // What all of them may take together is looked at when all have come.
                match self.blocks.len() < self.blocks_max {
                    true => self.grow(pool, Instant::START),
                    false => self.recycle(Instant::START),
                }
            }
            rest = &rest[self.fill(rest)..];
        }
        Ok(())
    }

    /// Makes these bytes the content of a received buffer, with their recorded arrival times.
    pub fn become_as(&mut self, received: &Buffer, pool: &mut Pool) -> Result<(), HandoverError> {
        must(self.newest == received.newest, || {
            format!(
                "its bytes end at {}, not at {}",
                self.newest, received.newest
            )
        })?;
        must(self.oldest <= received.oldest, || {
            format!(
                "{} of its bytes are kept there, and --buffer={} keeps fewer; give it as the server there has it",
                received.newest.saturating_sub(received.oldest),
                self.bytes_max()
            )
        })?;
        while let Some(first) = self.blocks.front()
            && self.oldest + first.bytes.len() as u64 <= received.oldest
        {
            self.oldest += first.bytes.len() as u64;
            let free = self.blocks.pop_front().map(|block| block.bytes);
            free.into_iter()
                .for_each(|free| pool.give_back(free, self.block_bytes));
        }
        // Of what the pool kept for it still.
        let room = self.blocks_max - self.blocks.len();
        self.blocks_reserved = received.blocks_reserved.min(room);
        pool.bytes_left -= (self.blocks_reserved * self.block_bytes) as isize;
        let mut at = self.oldest;
        for block in &mut self.blocks {
            block.began = received.block_began(at);
            at += block.bytes.len() as u64;
        }
        Ok(())
    }

    /// Returns the bytes that it may take even if the pool is empty.
    pub fn granted_bytes(&self) -> usize {
        self.blocks_granted * self.block_bytes
    }

    /// Returns the recorded time of the block with this byte.
    fn block_began(&self, offset: u64) -> Instant {
        let place = offset.saturating_sub(self.oldest) / self.block_bytes.max(1) as u64;
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        let block = self.blocks.get(place).or(self.blocks.back());
        block.map_or(Instant::START, |block: &Block| block.began)
    }
}
