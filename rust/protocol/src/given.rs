//! Files of a checkpoint that were given already, a few bytes for each: a checkpoint should name each file once (P040), but not
//! every writer's does. Called by plans of checkpoints that this program didn't write.

use arrow::array::{BooleanArray, RecordBatch};
use xxhash_rust::xxh3::xxh3_128;

use crate::file_rows::FileRows;
use crate::{Result, paths};

/// Bits for each file: most of those that weren't given meet none that is set, and need no further look.
const BITS: usize = 16;
/// Files of a list, about.
const LISTED: usize = 256;
/// Words of bits at the beginning.
const FEWEST: usize = 16;

/// 96 bits of a hash, of which no two files have the same.
type Mark = [u32; 3];

/// The files that were given.
#[derive(Debug, Default)]
pub struct Given {
    /// A bit for each file, by its mark's first word; a power of two of them.
    bits: Vec<u64>,
    /// The files' marks, by their second word; a power of two of lists.
    lists: Vec<Vec<Mark>>,
    count: usize,
}

impl Given {
    /// True for each of these files that wasn't given before.
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
        // Apart from looking them up, which waits for memory: it can wait for that of several then.
        let hashes: Vec<u128> = (0..files.num_rows()).map(&mut hash).collect::<Result<_>>()?;
        let first: Vec<bool> = hashes.into_iter().map(|hash| self.insert(hash)).collect();
        Ok(BooleanArray::from(first))
    }

    /// Whether it is new.
    fn insert(&mut self, hash: u128) -> bool {
        if self.count >= self.bits.len() * 64 / BITS {
            self.grow();
        }
        let part = |at: u32| u32::try_from((hash >> at) & u128::from(u32::MAX)).unwrap_or_default();
        let mark = [part(0), part(32), part(64)];
        let may_be_there = self.set_bit(mark);
        let at = place(mark[1], self.lists.len());
        let Some(list) = self.lists.get_mut(at) else {
            return true;
        };
        if may_be_there && list.contains(&mark) {
            return false;
        }
        if list.len() == list.capacity() {
            // Twice as much would be half empty.
            list.reserve_exact(list.len() / 4 + 8);
        }
        list.push(mark);
        self.count += 1;
        true
    }

    /// Whether it was set.
    fn set_bit(&mut self, mark: Mark) -> bool {
        let at = place(mark[0], self.bits.len() * 64);
        let bit = 1 << (at % 64);
        let word = self.bits.get_mut(at / 64);
        word.is_some_and(|word| std::mem::replace(word, *word | bit) & bit != 0)
    }

    /// Makes room for twice as many.
    fn grow(&mut self) {
        let words = (self.bits.len() * 2).max(FEWEST);
        self.bits = vec![0; words];
        let lists = (words * 64 / BITS / LISTED).max(1);
        let before = std::mem::take(&mut self.lists);
        let (kept, split) = (before.len().max(1), lists > before.len() && !before.is_empty());
        let mut upper = Vec::new();
        for mut list in before {
            list.iter().for_each(|mark| {
                self.set_bit(*mark);
            });
            if split {
                let there = |mark: &Mark| place(mark[1], lists) >= kept;
                upper.push(list.iter().filter(|mark| there(mark)).copied().collect());
                list.retain(|mark| !there(mark));
                list.shrink_to_fit();
            }
            self.lists.push(list);
        }
        self.lists.append(&mut upper);
        self.lists.resize_with(lists, Vec::new);
    }
}

/// A place among so many, of which there is a power of two.
fn place(part: u32, of: usize) -> usize {
    usize::try_from(part).unwrap_or_default() & of.saturating_sub(1)
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
        let mut given = Given::default();
        let mut first = |adds: &[&Add]| given.first(&adds_to_batch(adds.iter().copied()).unwrap()).unwrap();
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
        let mut given = Given::default();
        let mut firsts =
            |range: std::ops::Range<u128>| range.filter(|n| given.insert(xxh3_128(&n.to_le_bytes()))).count();
        assert_eq!(firsts(0..100_000), 100_000);
        assert_eq!(firsts(50_000..150_000), 50_000);
        let marks: usize = given.lists.iter().map(|l| l.capacity() * size_of::<Mark>()).sum();
        let bytes = marks + given.bits.len() * 8;
        assert!(bytes < 150_000 * 19, "{bytes}");
        assert!(given.lists.len() > 100 && given.lists.iter().all(|l| l.len() < 3 * LISTED));
        assert!(given.insert(0) && !given.insert(0));
    }
}
