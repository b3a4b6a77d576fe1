//! The set of files that a checkpoint has listed so far, with a few bytes per file: a checkpoint
//! should list each file once (P040), but not every writer's does.

use arrow::array::{BooleanArray, RecordBatch};
use xxhash_rust::xxh3::xxh3_128;

use crate::files::rows::FileRows;
use crate::{Result, paths};

/// Bits per file: most new files find their bit unset, and need no look-up.
const BITS: usize = 16;
/// Initial number of words of bits.
const FEWEST: usize = 16;
/// Number of lists of marks, a power of two: the list is a part of a file's identity, so the number
/// is fixed.
const LISTS: usize = 4096;
/// Marks per allocation, initially: a list is never moved, which would fragment memory.
const RUN: usize = 64;

/// 64 bits of a hash: together with the list they identify a file.
type Mark = u64;

/// The files that were listed.
#[derive(Debug, Default)]
pub struct SeenFiles {
    /// A bit for each file, by its mark; a power of two of them.
    bits: Vec<u64>,
    /// The files' marks, by other bits of the hash, in runs.
    lists: Vec<Vec<Vec<Mark>>>,
    count: usize,
}

impl SeenFiles {
    /// For each of these files, true if it wasn't listed before.
    pub fn first(&mut self, files: &RecordBatch) -> Result<BooleanArray> {
        let rows = FileRows::new(files);
        let mut text = String::new();
        let mut hash = |row| {
            let path = paths::decoded(rows.path(row)?)?;
            Ok(match rows.deletion_vector(row).map(|d| d.unique_id()) {
                None => xxh3_128(path.as_bytes()),
                Some(vector) => {
                    text.clear();
                    text.push_str(&path);
                    text.push('\0');
                    text.push_str(&vector);
                    xxh3_128(text.as_bytes())
                }
            })
        };
        // Separate from the look-ups, so that the processor can overlap their waits for memory.
        let hashes: Vec<u128> = (0..files.num_rows()).map(&mut hash).collect::<Result<_>>()?;
        let first: Vec<bool> = hashes.into_iter().map(|hash| self.insert(hash)).collect();
        Ok(BooleanArray::from(first))
    }

    /// Adds a file; true if it is new.
    fn insert(&mut self, hash: u128) -> bool {
        if self.count >= self.bits.len() * 64 / BITS {
            self.grow();
        }
        let low = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).unwrap_or_default();
        let (mark, number) = (low(hash), place(low(hash >> 64), LISTS));
        let may_be_there = self.set_bit(mark);
        let Some(list) = self.lists.get_mut(number) else {
            return true;
        };
        if may_be_there && list.iter().any(|run| run.contains(&mark)) {
            return false;
        }
        match list.last_mut().filter(|run| run.len() < run.capacity()) {
            Some(run) => run.push(mark),
            None => {
                // Long lists have long runs, since visiting another run waits for memory.
                let mut run = Vec::with_capacity(RUN * list.len().div_ceil(4).max(1));
                run.push(mark);
                list.push(run);
            }
        }
        self.count += 1;
        true
    }

    /// Sets a file's bit; true if it was set already.
    fn set_bit(&mut self, mark: Mark) -> bool {
        let bit_number = place(mark, self.bits.len() * 64);
        let bit = 1 << (bit_number % 64);
        let word = self.bits.get_mut(bit_number / 64);
        word.is_some_and(|word| std::mem::replace(word, *word | bit) & bit != 0)
    }

    /// Doubles the bits.
    fn grow(&mut self) {
        self.lists.resize_with(LISTS, Vec::new);
        self.bits = vec![0; (self.bits.len() * 2).max(FEWEST)];
        let lists = std::mem::take(&mut self.lists);
        for mark in lists.iter().flatten().flatten() {
            self.set_bit(*mark);
        }
        self.lists = lists;
    }
}

/// A slot among `of` slots, a power of two.
fn place(part: u64, size: usize) -> usize {
    usize::try_from(part & u64::try_from(size.saturating_sub(1)).unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::actions::{Add, DeletionVector};
    use crate::files::adds_to_batch;

    fn add(path: &str) -> Add {
        Add {
            path: path.into(),
            ..Add::default()
        }
    }

    #[test]
    fn a_file_is_given_once() {
        // P021, P040, P042
        let with = |path: &str, offset| Add {
            deletion_vector: Some(DeletionVector {
                storage_type: "u".into(),
                path_or_inline_dv: "v".into(),
                offset,
                ..DeletionVector::default()
            }),
            ..add(path)
        };
        let mut seen_files = SeenFiles::default();
        let mut first = |adds: &[&Add]| seen_files.first(&adds_to_batch(adds.iter().copied()).unwrap()).unwrap();
        assert_eq!(
            first(&[&add("a b"), &add("a%20b"), &with("a b", None), &with("a b", Some(0))]),
            BooleanArray::from(vec![true, false, true, true])
        );
        assert_eq!(
            first(&[&add("c"), &with("a%20b", Some(0)), &add("a b")]),
            BooleanArray::from(vec![true, false, false])
        );
    }

    #[test]
    fn many_files_are_given_once_in_few_bytes() {
        let mut seen_files = SeenFiles::default();
        let mut firsts =
            |range: std::ops::Range<u128>| range.filter(|n| seen_files.insert(xxh3_128(&n.to_le_bytes()))).count();
        assert_eq!(firsts(0..400_000), 400_000);
        assert_eq!(firsts(200_000..600_000), 200_000);
        let marks: usize = seen_files
            .lists
            .iter()
            .flatten()
            .map(|run| run.capacity() * size_of::<Mark>() + size_of::<Vec<Mark>>())
            .sum();
        let bytes = marks + seen_files.bits.len() * 8;
        assert!(bytes < 600_000 * 15, "{bytes}");
        assert!(seen_files.lists.iter().all(|l| l.len() < 4));
        assert!(seen_files.insert(0) && !seen_files.insert(0));
    }
}
