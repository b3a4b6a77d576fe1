//! Hashes for tables in memory: one multiplication per eight bytes. Each bit of a key influences
//! all bits of its hash, and a random seed prevents chosen collisions. Knows nothing of the keys.

use std::hash::{BuildHasher, Hasher, RandomState};

/// The random seed of one table's hashes.
#[derive(Debug, Clone)]
pub(crate) struct Seed(u64);

impl Default for Seed {
    fn default() -> Self {
        Seed(RandomState::new().hash_one(0) | 1)
    }
}

impl BuildHasher for Seed {
    type Hasher = Mixed;

    fn build_hasher(&self) -> Mixed {
        Mixed { seed: self.0, hash: 0 }
    }
}

/// The hash of one key.
pub(crate) struct Mixed {
    seed: u64,
    hash: u64,
}

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.hash
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        for byte in rest {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        let spread = (value ^ self.hash ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.hash = spread ^ (spread >> 32);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_i64(&mut self, value: i64) {
        self.write_u64(value.cast_unsigned());
    }
}
