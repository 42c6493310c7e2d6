//! Chance that a seed decides: the same seed makes the same choices.

use std::ops::RangeInclusive;
use std::time::Duration;

use tollgate::random::Random;

pub struct Chance(Random, u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(Random::new(seed.into()), 0)
    }

    pub fn draw(&mut self) -> u64 {
        self.1 += 1;
        self.0.draw()
    }

    /// How often it was asked.
    pub fn drawn(&self) -> u64 {
        self.1
    }

    pub fn within(&mut self, range: RangeInclusive<usize>) -> usize {
        let span = (range.end() - range.start()) as u64 + 1;
        range.start() + (self.draw() % span) as usize
    }

    /// A number of which small ones are as likely as large ones: first its magnitude is drawn.
    pub fn magnitude(&mut self, range: RangeInclusive<usize>) -> usize {
        let bits = |number: usize| usize::BITS - number.leading_zeros();
        let width = self.within(bits(*range.start()) as usize..=bits(*range.end()) as usize);
        let lowest = if width == 0 { 0 } else { 1 << (width - 1) };
        let highest = (1_usize << width) - 1;
        self.within(
            lowest.max(*range.start())..=highest.min(*range.end()).max(lowest.max(*range.start())),
        )
    }

    pub fn percent(&mut self, percent: usize) -> bool {
        self.within(0..=99) < percent
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.within(0..=of.len() - 1)]
    }

    pub fn millis(&mut self, range: RangeInclusive<usize>) -> Duration {
        Duration::from_millis(self.magnitude(range) as u64)
    }
}
