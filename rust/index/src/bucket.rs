//! How hashes are cut, and the entries of one bucket: for each (file, key) the bits of the key's
//! hash after those that choose the bucket, and the file's number. Both are one number, a *cell*,
//! of which a bucket has the Rice-coded differences.

use serde::{Deserialize, Serialize};

use crate::bits::{BitReader, BitWriter, MOST_BITS};
use crate::entries::HASH_BITS;

/// Entries of a bucket on average, at most: about 20 KB, which a store returns as fast as less.
pub(crate) const BUCKET_ENTRIES: u64 = 8192;
/// Entries from which on a segment is large.
const LARGE: u64 = 1 << 20;
/// Bits of a hash beyond those that number the entries. A file is read in vain about once in
/// 2^EXTRA_BITS look-ups.
const EXTRA_BITS: u32 = 3;
/// The same of small segments, of which a table may have several.
const EXTRA_BITS_IF_SMALL: u32 = 6;
/// Bits of a hash in small segments at least, so that some hundred of them can become one whose
/// hashes are long enough.
const HASH_BITS_IF_SMALL: u32 = 28;
/// The largest share of the data files' bytes that entries take, as long as fewer bits suffice for
/// [`most_in_vain`]. Directory and list of files take the rest of 2 %.
const SHARE_OF_DATA: f64 = 0.0175;
/// Bytes of entries that are affordable for any segment.
const LEAST_BYTES: f64 = 65_536.0;
/// What an entry takes beyond the logarithm of cells for each entry: 1.44 bits by theory, and what
/// Rice's code loses.
const CODE_BITS: f64 = 1.5;
/// Bits for the number of entries of a bucket, and for its Rice parameter.
const COUNT_BITS: u32 = 32;
const RICE_BITS: u32 = 6;

/// How the hashes of a segment are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Coding {
    /// The first bits of a hash, which number its bucket.
    pub(crate) bucket_bits: u32,
    /// The bits after them, which are stored.
    pub(crate) stored_bits: u32,
    /// How many files.
    pub(crate) files: u64,
}

impl Coding {
    /// For this many entries of this many files, which have `data_bytes` bytes.
    pub(crate) fn of(entries: u64, files: usize, data_bytes: u64) -> Coding {
        let hash_bits = wanted_hash_bits(entries, files as u64, data_bytes);
        Self::cut_at(hash_bits, entries, files)
    }

    /// The same where no more than this many bits of each hash are known; `None` if more are
    /// needed.
    pub(crate) fn of_known(known_bits: u32, entries: u64, files: usize, data_bytes: u64) -> Option<Coding> {
        let wanted = wanted_hash_bits(entries, files as u64, data_bytes);
        let enough = wanted.min(ceil_log2(entries) + EXTRA_BITS);
        (known_bits >= enough).then(|| Self::cut_at(wanted.min(known_bits), entries, files))
    }

    fn cut_at(hash_bits: u32, entries: u64, files: usize) -> Coding {
        // A bucket stores one bit of a hash at least.
        let bucket_bits = ceil_log2(entries.div_ceil(BUCKET_ENTRIES)).min(hash_bits - 1);
        Coding {
            bucket_bits,
            stored_bits: hash_bits - bucket_bits,
            files: (files as u64).max(1),
        }
    }

    /// Whether hashes can be cut like this: false for what no writer made.
    pub(crate) fn is_sound(self) -> bool {
        self.bucket_bits <= 32
            && self.stored_bits >= 1
            && self.files >= 1
            && self.hash_bits() <= HASH_BITS
            && self.files <= 1 << 32
            && self.stored_bits + ceil_log2(self.files) <= MOST_BITS
    }

    /// The first bits of a hash that a segment has.
    pub(crate) fn hash_bits(self) -> u32 {
        self.bucket_bits + self.stored_bits
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

    /// The first bits of the hashes that are cut into this bucket and these stored bits.
    pub(crate) fn joined(self, bucket: u64, stored: u64) -> u64 {
        ((bucket << self.stored_bits) | stored) << (64 - self.hash_bits())
    }

    /// Packs a bucket's entries, (stored bits, file), in any order and with duplicates.
    pub(crate) fn encode(self, entries: &[(u64, u32)]) -> Vec<u8> {
        let cells = entries
            .iter()
            .map(|(stored, file)| stored * self.files + u64::from(*file));
        let mut cells: Vec<u64> = cells.collect();
        cells.sort_unstable();
        cells.dedup();
        let rice = rice_parameter(cells.last().map_or(0, |last| last / cells.len() as u64));
        let mut bits = BitWriter::default();
        bits.write(cells.len() as u64, COUNT_BITS);
        bits.write(u64::from(rice), RICE_BITS);
        let mut last = 0;
        for cell in cells {
            bits.write_rice(cell - last, rice);
            last = cell;
        }
        bits.finish()
    }

    /// Calls a function with each cell, in order, until it returns false; `None` if the bytes end
    /// too early.
    fn each_cell(bytes: &[u8], mut take: impl FnMut(u64) -> bool) -> Option<()> {
        let mut bits = BitReader::new(bytes);
        let count = bits.read(COUNT_BITS)?;
        let rice = bits.read(RICE_BITS)? as u32;
        if rice > MOST_BITS {
            return None;
        }
        let mut cell = 0_u64;
        for _ in 0..count {
            let high = bits.read_unary()?;
            let difference = high.checked_mul(1 << rice)? | bits.read(rice)?;
            cell = cell.checked_add(difference)?;
            if !take(cell) {
                break;
            }
        }
        Some(())
    }

    /// Calls a function with the file of each entry whose stored bits are among `wanted`, which is
    /// sorted; `None` if the bytes end too early.
    pub(crate) fn find(self, bytes: &[u8], wanted: &[u64], mut take: impl FnMut(u32)) -> Option<()> {
        let begins = wanted.iter().map(|w| w.checked_mul(self.files));
        let begins: Option<Vec<u64>> = begins.collect();
        let begins = begins?;
        let mut wanted = begins.into_iter().peekable();
        Self::each_cell(bytes, |cell| {
            while wanted
                .next_if(|begin| cell - (*begin).min(cell) >= self.files)
                .is_some()
            {}
            match wanted.peek() {
                None => return false,
                Some(begin) if *begin <= cell => take((cell - begin) as u32),
                Some(_) => {}
            }
            true
        })
    }

    /// Calls a function with each entry of a bucket, (stored bits, file), in order; `None` if the
    /// bytes end too early.
    pub(crate) fn each(self, bytes: &[u8], mut take: impl FnMut(u64, u32)) -> Option<()> {
        Self::each_cell(bytes, |cell| {
            take(cell / self.files, (cell % self.files) as u32);
            true
        })
    }
}

/// How many bits of a hash a segment has: enough for few files in vain, fewer where the entries
/// would take more than their share of the data, but as many as [`most_in_vain`] asks for.
fn wanted_hash_bits(entries: u64, files: u64, data_bytes: u64) -> u32 {
    let numbering = ceil_log2(entries);
    let wanted = match entries < LARGE {
        true => (numbering + EXTRA_BITS_IF_SMALL).max(HASH_BITS_IF_SMALL),
        false => numbering + EXTRA_BITS,
    };
    let count = entries.max(1) as f64;
    let affordable_bytes = (data_bytes as f64 * SHARE_OF_DATA).max(LEAST_BYTES);
    let affordable_bits = affordable_bytes * 8.0 / count - CODE_BITS;
    let affordable = (affordable_bits + count.log2() - (files.max(1) as f64).log2()).floor();
    let needed = (count.log2() - most_in_vain(files).log2()).ceil();
    (affordable.max(needed).max(1.0) as u32).min(wanted).min(HASH_BITS)
}

/// Files that a look-up reads in vain at most on average, where the index has to be small: 2 of
/// 10,000.
fn most_in_vain(files: u64) -> f64 {
    let files = files.max(1) as f64;
    (files / 5_000.0).clamp(0.25, 2.0).min(files / 32.0)
}

/// The low bits of differences that aren't unary, for differences of this mean: those that are
/// best where the differences are random.
fn rice_parameter(mean: u64) -> u32 {
    ((mean.max(1) as f64) * std::f64::consts::LN_2).log2().round().max(0.0) as u32
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

    /// Bytes of data by which entries of this many are affordable at any length.
    fn wide(entries: u64) -> u64 {
        entries * 1_000
    }

    proptest! {
        #[test]
        fn a_bucket_has_the_files_of_each_stored_key(
            entries in prop::collection::vec((any::<u64>(), 0_u32..50), 0..400),
            claimed in 1_u64..2_000_000,
            row_bytes in 0_u64..300,
            others in prop::collection::vec(any::<u64>(), 0..20),
        ) {
            let coding = Coding::of(claimed, 50, claimed * row_bytes);
            prop_assert!(coding.is_sound());
            let stored = |hash: u64| coding.cut(hash).1;
            let packed: Vec<(u64, u32)> = entries.iter().map(|(h, f)| (stored(*h), *f)).collect();
            let bytes = coding.encode(&packed);
            let mut wanted: Vec<u64> = entries.iter().step_by(3).map(|(h, _)| stored(*h)).chain(others.into_iter().map(stored)).collect();
            wanted.sort_unstable();
            let mut files_seen = BTreeSet::new();
            coding.find(&bytes, &wanted, |file| { files_seen.insert(file); }).unwrap();
            let files: BTreeSet<u32> = packed.iter().filter(|(s, _)| wanted.contains(s)).map(|(_, f)| *f).collect();
            prop_assert_eq!(files_seen, files);
            let mut all = Vec::new();
            coding.each(&bytes, |stored, file| all.push((stored, file))).unwrap();
            let expected: Vec<(u64, u32)> = packed.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
            prop_assert_eq!(all, expected);
        }

        #[test]
        fn a_hash_is_known_by_its_first_bits(hash in any::<u64>(), claimed in 1_u64..1 << 40, row_bytes in 0_u64..300) {
            let coding = Coding::of(claimed, 9, claimed.saturating_mul(row_bytes));
            let (bucket, stored) = coding.cut(hash);
            let unknown = 64 - coding.hash_bits();
            prop_assert_eq!(coding.joined(bucket, stored), hash >> unknown << unknown);
        }
    }

    #[test]
    fn a_hash_is_cut_into_bucket_and_stored_bits() {
        let smallest = Coding::of(1, 1, wide(1));
        assert_eq!((smallest.buckets(), smallest.files), (1, 1));
        assert_eq!(smallest.cut(u64::MAX), (0, (1 << HASH_BITS_IF_SMALL) - 1));
        let many = Coding::of(100_000_000, 10_000, wide(100_000_000));
        assert_eq!((many.bucket_bits, many.stored_bits, many.files), (14, 16, 10_000));
        assert_eq!(many.cut(u64::MAX), ((1 << 14) - 1, (1 << 16) - 1));
        assert_eq!(many.cut(1 << 50), (1, 0));
    }

    /// Bits of an entry in a bucket, and the files that a look-up finds in vain, for random keys of
    /// files of 10,000 rows.
    fn size_and_vain(files: u64, row_bytes: u64) -> (f64, f64) {
        let entries = files * 10_000;
        let coding = Coding::of(entries, usize::try_from(files).unwrap(), entries * row_bytes);
        let of_bucket = entries / coding.buckets();
        let hash = |n: u64| xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes());
        let packed: Vec<(u64, u32)> = (0..of_bucket)
            .map(|n| (hash(n) >> (64 - coding.stored_bits), (hash(!n) % files) as u32))
            .collect();
        let bits = coding.encode(&packed).len() as f64 * 8.0 / of_bucket as f64;
        (
            bits,
            entries as f64 / 2_f64.powi(coding.hash_bits().try_into().unwrap()),
        )
    }

    #[test]
    fn the_size_of_an_entry_depends_on_the_size_of_rows() {
        let (bits, vain) = size_and_vain(10_000, 150);
        assert!(bits < 19.0 && vain < 0.13, "{bits} bits, {vain} files in vain");
        assert!(bits / 8.0 < 0.02 * 150.0);
        let (bits, vain) = size_and_vain(10_000, 45);
        assert!(bits < 14.5 && vain <= 2.0, "{bits} bits, {vain} files in vain");
        // Any index that opens three of 10,000 files needs log2(10,000 / 3) = 11.7 bits.
        assert!(bits > 11.7);
        let (bits, vain) = size_and_vain(20, 45);
        assert!(bits < 9.5 && vain <= 0.25, "{bits} bits, {vain} files in vain");
    }

    #[test]
    fn segments_are_merged_while_their_hashes_are_long_enough() {
        let small = Coding::of(10_000, 1, wide(10_000));
        assert_eq!(small.hash_bits(), HASH_BITS_IF_SMALL);
        let merged = Coding::of_known(small.hash_bits(), 1 << 23, 839, wide(1 << 23)).unwrap();
        assert_eq!(merged.hash_bits(), 23 + EXTRA_BITS);
        assert_eq!(Coding::of_known(small.hash_bits(), 1 << 26, 6_711, wide(1 << 26)), None);
        assert_eq!(
            Coding::of_known(merged.hash_bits(), 1 << 24, 1_678, wide(1 << 24)),
            None
        );
    }

    #[test]
    fn a_truncated_bucket_has_no_answer() {
        let coding = Coding::of(100, 4, wide(100));
        let entries: Vec<(u64, u32)> = (0..100).map(|n| (n * 100, n as u32 % 4)).collect();
        let bytes = coding.encode(&entries);
        let short = bytes.get(..bytes.len() / 2).unwrap();
        assert!(coding.find(short, &[9_900], |_| ()).is_none());
        assert!(coding.find(&[], &[0], |_| ()).is_none());
    }
}
