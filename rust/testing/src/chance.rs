//! Chance that a seed decides. Its own generator (SplitMix64), so that a seed means the same
//! schedule whatever version of a library is in use.

/// A stream of numbers that its seed decides.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Chance(seed)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which isn't 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// True `per_mille` times of a thousand.
    pub fn happens(&mut self, per_mille: u64) -> bool {
        self.next() % 1000 < per_mille
    }

    /// One of these.
    pub fn one<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// A stream of its own that the next number decides.
    pub fn branch(&mut self) -> Chance {
        Chance::new(self.next())
    }
}
