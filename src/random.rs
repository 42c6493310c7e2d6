//! Random numbers: SipHash-2-4 (Aumasson and Bernstein, 2012) of a counter, with a secret key.
//!
//! A number says nothing about earlier and later ones, unless the key is known. So names, nonces
//! and source identifiers can come from one sequence. The caller must pass a key that nobody can
//! guess.

/// A sequence of random numbers. Equal keys give equal sequences, so that a simulation can be
/// repeated.
pub struct Random {
    key: [u64; 2],
    pub drawn: u64,
}

impl Random {
    /// Returns the sequence of a key.
    pub fn new(key: u128) -> Random {
        Random {
            key: [key as u64, (key >> 64) as u64],
            drawn: 0,
        }
    }

    /// Returns the next number.
    pub fn draw(&mut self) -> u64 {
        self.drawn = self.drawn.wrapping_add(1);
        siphash(self.key, self.drawn)
    }
}

/// SipHash-2-4 of a number as eight bytes in little-endian order.
fn siphash(key: [u64; 2], number: u64) -> u64 {
    let mut state = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    // The second block contains only the length.
    for block in [number, 8 << 56] {
        state[3] ^= block;
        mix(&mut state, 2);
        state[0] ^= block;
    }
    state[2] ^= 0xff;
    mix(&mut state, 4);
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

fn mix(state: &mut [u64; 4], rounds: usize) {
    let [a, b, c, d] = state;
    for _ in 0..rounds {
        *a = a.wrapping_add(*b);
        *b = b.rotate_left(13) ^ *a;
        *a = a.rotate_left(32);
        *c = c.wrapping_add(*d);
        *d = d.rotate_left(16) ^ *c;
        *a = a.wrapping_add(*d);
        *d = d.rotate_left(21) ^ *a;
        *c = c.wrapping_add(*b);
        *b = b.rotate_left(17) ^ *c;
        *c = c.rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_equal_the_test_vector_of_siphash() {
        // Test vector of the reference implementation: message 00 01 … 07, key 00 01 … 0f.
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        assert_eq!(siphash(key, 0x0706_0504_0302_0100), 0x93f5_f579_9a93_2462);
    }

    #[test]
    fn the_same_key_gives_the_same_numbers_and_another_gives_others() {
        let draw = |key: u128| {
            let mut random = Random::new(key);
            [(); 4].map(|()| random.draw())
        };
        assert_eq!(draw(7), draw(7));
        for other in [8, 7 | 1 << 64, 7 | 1 << 127] {
            assert!(
                draw(7)
                    .iter()
                    .zip(draw(other))
                    .all(|(one, two)| *one != two)
            );
        }
    }

    /// With SplitMix64 this attack works: its step can be inverted, which reveals all further
    /// numbers.
    #[test]
    fn one_number_does_not_tell_the_next() {
        let unshift = |mixed: u64, bits: u32| {
            let mut number = mixed;
            for _ in 0..64 / bits {
                number = mixed ^ (number >> bits);
            }
            number
        };
        let inverse = |odd: u64| {
            let step = |guess: u64| guess.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(guess)));
            (0..6).fold(odd, |guess, _| step(guess))
        };
        let (first, second) = (0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb);
        let forward = |state: u64| {
            let mixed = (state ^ (state >> 30)).wrapping_mul(first);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(second);
            mixed ^ (mixed >> 31)
        };
        let back = |drawn: u64| {
            let mixed = unshift(drawn, 31).wrapping_mul(inverse(second));
            let mixed = unshift(mixed, 27).wrapping_mul(inverse(first));
            unshift(mixed, 30)
        };
        assert_eq!(back(forward(0x1234_5678_9abc_def0)), 0x1234_5678_9abc_def0);
        let mut random = Random::new(0x5eed);
        let seen = random.draw();
        let predicted = forward(back(seen).wrapping_add(0x9e37_79b9_7f4a_7c15));
        assert_ne!(random.draw(), predicted);
    }
}
