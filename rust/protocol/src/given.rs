//! Files of a checkpoint that were given already, a few bytes for each: a checkpoint should name each file once (P040), but not
//! every writer's does. Called by plans of checkpoints that this program didn't write.

use arrow::array::{Array, BooleanArray, RecordBatch};
use xxhash_rust::xxh3::xxh3_128;

use crate::files::FileRows;
use crate::{Result, paths};

/// Shards grow one after the other: what one had before is gone when the next one grows.
const SHARDS: usize = 64;
/// Slots of a shard's beginning.
const FEWEST: usize = 32;

/// 96 bits of a hash, of which no two files have the same; all zeros is none.
type Mark = [u32; 3];

/// The files that were given.
#[derive(Debug)]
pub struct Given {
    shards: Vec<Shard>,
}

impl Default for Given {
    fn default() -> Self {
        let shards = std::iter::repeat_with(Shard::default).take(SHARDS).collect();
        Given { shards }
    }
}

impl Given {
    /// True for each of these files that wasn't given before.
    pub fn first(&mut self, files: &RecordBatch) -> Result<BooleanArray> {
        let rows = FileRows::new(files);
        // Most batches have none: looking for one in each row would cost more than the hash.
        let has_vectors = files
            .column_by_name("deletionVector")
            .is_some_and(|c| c.null_count() < c.len());
        let vector = |row| match has_vectors {
            true => rows.deletion_vector(row).map(|d| d.unique_id()),
            false => None,
        };
        let mut text = String::new();
        let mut is_first = |row| {
            let path = paths::decoded(rows.path(row)?)?;
            let hash = match vector(row) {
                None => xxh3_128(path.as_bytes()),
                Some(vector) => {
                    text.clear();
                    text.push_str(&path);
                    text.push('\0');
                    text.push_str(&vector);
                    xxh3_128(text.as_bytes())
                }
            };
            Ok(self.insert(hash))
        };
        let first = (0..files.num_rows()).map(&mut is_first);
        Ok(BooleanArray::from(first.collect::<Result<Vec<bool>>>()?))
    }

    /// Whether it is new.
    fn insert(&mut self, hash: u128) -> bool {
        let part = |at: u32| u32::try_from((hash >> at) & u128::from(u32::MAX)).unwrap_or_default();
        let mark = [part(0), part(32), part(64).max(1)];
        let shard = usize::try_from(part(96)).unwrap_or_default() % SHARDS;
        self.shards.get_mut(shard).is_none_or(|shard| shard.insert(mark))
    }
}

/// A table of marks by open addressing, at most seven eighths full, which grows by a quarter.
#[derive(Debug, Default)]
struct Shard {
    slots: Vec<Mark>,
    filled: usize,
}

impl Shard {
    fn insert(&mut self, mark: Mark) -> bool {
        if self.filled * 8 >= self.slots.len() * 7 {
            let wider = vec![Mark::default(); (self.slots.len() / 4 * 5).max(FEWEST)];
            let before = std::mem::replace(&mut self.slots, wider);
            for mark in before.into_iter().filter(|mark| *mark != Mark::default()) {
                self.place(mark);
            }
        }
        let is_new = self.place(mark);
        self.filled += usize::from(is_new);
        is_new
    }

    /// Whether it wasn't there; there is a free slot.
    fn place(&mut self, mark: Mark) -> bool {
        // The first word as a fraction of the slots: any number of them will do.
        let slots = self.slots.len();
        let first = usize::try_from((u64::from(mark[0]) * slots as u64) >> 32).unwrap_or_default();
        let (before, after) = self.slots.split_at_mut(first.min(slots));
        for slot in after.iter_mut().chain(before) {
            if *slot == mark {
                return false;
            }
            if *slot == Mark::default() {
                *slot = mark;
                return true;
            }
        }
        true
    }
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
        let bytes: usize = given
            .shards
            .iter()
            .map(|s| s.slots.capacity() * size_of::<Mark>())
            .sum();
        assert!(bytes < 150_000 * 19, "{bytes}");
        assert!(given.insert(0) && !given.insert(0));
    }
}
