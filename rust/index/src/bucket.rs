//! How hashes are cut, and the entries of one bucket: for each (file, key) the bits of the key's
//! hash after those that choose the bucket, as Rice-coded differences, and the file's number.

use serde::{Deserialize, Serialize};

use crate::bits::{BitReader, BitWriter, MOST_BITS};

/// Entries of a bucket on average, at most: about 20 KB, which a store returns as fast as less.
const BUCKET_ENTRIES: u64 = 8192;
/// Entries from which on a segment is large.
const LARGE: u64 = 1 << 20;
/// Bits of a hash beyond those that number the entries. A file is read in vain about once in
/// 2^EXTRA_BITS look-ups.
const EXTRA_BITS: u32 = 3;
/// The same of small segments, of which a table may have several.
const EXTRA_BITS_IF_SMALL: u32 = 6;

/// How the hashes of a segment are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Coding {
    /// The first bits of a hash, which number its bucket.
    pub(crate) bucket_bits: u32,
    /// The bits after them, which are stored.
    pub(crate) stored_bits: u32,
    /// The low bits of a difference of stored bits that aren't unary.
    pub(crate) rice_bits: u32,
    /// Bits of a file's number.
    pub(crate) file_bits: u32,
}

impl Coding {
    /// For this many entries of this many files.
    pub(crate) fn of(entries: u64, files: usize) -> Coding {
        let entries_bits = ceil_log2(entries);
        let bucket_bits = ceil_log2(entries.div_ceil(BUCKET_ENTRIES));
        let extra = if entries < LARGE {
            EXTRA_BITS_IF_SMALL
        } else {
            EXTRA_BITS
        };
        Coding {
            bucket_bits,
            stored_bits: entries_bits + extra - bucket_bits,
            rice_bits: extra,
            file_bits: ceil_log2(files as u64),
        }
    }

    /// Whether hashes can be cut like this: false for what no writer made.
    pub(crate) fn is_sound(self) -> bool {
        self.bucket_bits <= 32
            && (1..=MOST_BITS).contains(&self.stored_bits)
            && self.rice_bits <= self.stored_bits
            && self.file_bits <= 32
    }

    /// How many buckets.
    pub(crate) fn buckets(self) -> u64 {
        1 << self.bucket_bits
    }

    /// The bucket of a hash, and the bits that are stored of it.
    pub(crate) fn cut(self, hash: u64) -> (u64, u64) {
        let bucket = hash.checked_shr(64 - self.bucket_bits).unwrap_or(0);
        (bucket, (hash << self.bucket_bits) >> (64 - self.stored_bits))
    }

    /// Packs a bucket's entries, (stored bits, file), in any order and with duplicates.
    pub(crate) fn encode(self, entries: &mut Vec<(u64, u32)>) -> Vec<u8> {
        entries.sort_unstable();
        entries.dedup();
        let mut bits = BitWriter::default();
        bits.write(entries.len() as u64, 32);
        let mut last = 0;
        for (stored, file) in entries.iter() {
            let difference = stored - last;
            bits.write_unary(difference >> self.rice_bits);
            bits.write(difference, self.rice_bits);
            bits.write(u64::from(*file), self.file_bits);
            last = *stored;
        }
        bits.finish()
    }

    /// Calls a function with the file of each entry whose stored bits are among `wanted`, which is
    /// sorted; `None` if the bytes end too early.
    pub(crate) fn find(self, bytes: &[u8], wanted: &[u64], mut take: impl FnMut(u32)) -> Option<()> {
        let mut bits = BitReader::new(bytes);
        let count = bits.read(32)?;
        let (mut stored, mut wanted) = (0_u64, wanted.iter().peekable());
        for _ in 0..count {
            let high = bits.read_unary()?;
            stored = stored.checked_add((high << self.rice_bits) | bits.read(self.rice_bits)?)?;
            let file = bits.read(self.file_bits)?;
            while wanted.next_if(|w| **w < stored).is_some() {}
            match wanted.peek() {
                None => break,
                Some(w) if **w == stored => take(u32::try_from(file).ok()?),
                Some(_) => {}
            }
        }
        Some(())
    }
}

/// The bits that number this many things.
fn ceil_log2(count: u64) -> u32 {
    count.max(1).next_power_of_two().trailing_zeros()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bucket_has_the_files_of_each_stored_key(
            entries in prop::collection::vec((any::<u64>(), 0_u32..50), 0..400),
            claimed in 1_u64..2_000_000,
            others in prop::collection::vec(any::<u64>(), 0..20),
        ) {
            let coding = Coding::of(claimed, 50);
            prop_assert!(coding.is_sound());
            let stored = |hash: u64| coding.cut(hash).1;
            let mut packed: Vec<(u64, u32)> = entries.iter().map(|(h, f)| (stored(*h), *f)).collect();
            let expected = packed.clone();
            let bytes = coding.encode(&mut packed);
            let mut wanted: Vec<u64> = entries.iter().step_by(3).map(|(h, _)| stored(*h)).chain(others.into_iter().map(stored)).collect();
            wanted.sort_unstable();
            let mut files_seen = BTreeSet::new();
            coding.find(&bytes, &wanted, |file| { files_seen.insert(file); }).unwrap();
            let files: BTreeSet<u32> = expected.iter().filter(|(s, _)| wanted.contains(s)).map(|(_, f)| *f).collect();
            prop_assert_eq!(files_seen, files);
        }
    }

    #[test]
    fn a_hash_is_cut_into_bucket_and_stored_bits() {
        let smallest = Coding::of(1, 1);
        assert_eq!((smallest.buckets(), smallest.file_bits), (1, 0));
        assert_eq!(smallest.cut(u64::MAX), (0, (1 << EXTRA_BITS_IF_SMALL) - 1));
        let many = Coding::of(100_000_000, 10_000);
        assert_eq!((many.bucket_bits, many.stored_bits, many.file_bits), (14, 16, 14));
        assert_eq!(many.cut(u64::MAX), ((1 << 14) - 1, (1 << 16) - 1));
        assert_eq!(many.cut(1 << 50), (1, 0));
    }

    #[test]
    fn an_entry_takes_about_twenty_bits() {
        let coding = Coding::of(1 << 27, 10_000);
        let spread = (1_u64 << coding.stored_bits) / BUCKET_ENTRIES;
        let mut entries: Vec<(u64, u32)> = (0..BUCKET_ENTRIES).map(|n| (n * spread, (n % 10_000) as u32)).collect();
        let bits = coding.encode(&mut entries).len() as u64 * 8 / BUCKET_ENTRIES;
        assert!((18..=20).contains(&bits), "{bits}");
    }

    #[test]
    fn a_truncated_bucket_has_no_answer() {
        let coding = Coding::of(100, 4);
        let mut entries: Vec<(u64, u32)> = (0..100).map(|n| (n * 100, n as u32 % 4)).collect();
        let bytes = coding.encode(&mut entries);
        let short = bytes.get(..bytes.len() / 2).unwrap();
        assert!(coding.find(short, &[9_900], |_| ()).is_none());
        assert!(coding.find(&[], &[0], |_| ()).is_none());
    }
}
