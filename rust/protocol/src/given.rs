//! Files of a checkpoint that were given already, a few bytes for each: a checkpoint should name each file once (P040), but not
//! every writer's does. Called by plans of checkpoints that this program didn't write.

use arrow::array::{BooleanArray, RecordBatch};
use xxhash_rust::xxh3::xxh3_128;

use crate::file_rows::FileRows;
use crate::{Result, paths};

/// Shards grow one after the other: what one had before is gone when the next one grows.
const SHARDS: usize = 64;
/// Slots of a shard's beginning.
const FEWEST: usize = 32;

/// 96 bits of a hash, of which no two files have the same.
type Mark = [u32; 3];
/// What no mark is.
const FREE: Mark = [0; 3];

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
        let mut text = String::new();
        let mut is_first = |row| {
            let path = paths::decoded(rows.path(row)?)?;
            let hash = match rows.deletion_vector(row).map(|d| d.unique_id()) {
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

/// Marks in their order, with gaps: each stands at or behind its home, which is the slot that its first word says as a fraction
/// of them, and nothing is free between. At most seven eighths of the homes are filled; it grows by a quarter, which reads
/// and writes it from one end to the other.
#[derive(Debug, Default)]
struct Shard {
    /// A few more than there are homes, for what the last ones have no room for.
    slots: Vec<Mark>,
    homes: usize,
    filled: usize,
}

impl Shard {
    /// Whether it wasn't there.
    fn insert(&mut self, mark: Mark) -> bool {
        if self.filled * 8 >= self.homes * 7 {
            self.grow();
        }
        let home = home(mark, self.homes);
        let behind = self.slots.get(home..).unwrap_or_default();
        let at = behind.iter().take_while(|slot| **slot != FREE && **slot < mark).count() + home;
        match self.slots.get(at) {
            Some(slot) if *slot == mark => return false,
            Some(slot) if *slot == FREE => {}
            _ => self.make_room(at),
        }
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = mark;
        }
        self.filled += 1;
        true
    }

    /// Moves the marks from here on to the next free slot.
    fn make_room(&mut self, at: usize) {
        let behind = self.slots.get(at..).unwrap_or_default();
        let taken = behind.iter().take_while(|slot| **slot != FREE).count();
        if at + taken == self.slots.len() {
            self.slots.reserve_exact(1);
            self.slots.push(FREE);
        }
        self.slots.copy_within(at..at + taken, at + 1);
    }

    fn grow(&mut self) {
        let homes = (self.homes / 4 * 5).max(FEWEST);
        let mut slots = Vec::with_capacity(homes + homes / 16);
        for mark in self.slots.drain(..).filter(|mark| *mark != FREE) {
            if slots.len() < home(mark, homes) {
                slots.resize(home(mark, homes), FREE);
            }
            slots.push(mark);
        }
        slots.resize(slots.len().max(homes), FREE);
        (self.slots, self.homes) = (slots, homes);
    }
}

/// The first slot for it, of so many.
fn home(mark: Mark, homes: usize) -> usize {
    usize::try_from((u64::from(mark[0]) * homes as u64) >> 32).unwrap_or_default()
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

    #[test]
    fn marks_that_crowd_are_given_once() {
        // The last homes' marks go behind them all, and the first ones' push theirs along.
        let mut shard = Shard::default();
        let crowd = |first: u32| (1..400).rev().map(move |n| [first, 0, n * 7 % 401]);
        let mut marks: Vec<Mark> = crowd(u32::MAX).chain(crowd(0)).chain(crowd(1 << 31)).collect();
        assert!(marks.iter().all(|mark| shard.insert(*mark)));
        assert!(!marks.iter().any(|mark| shard.insert(*mark)));
        marks.sort_unstable();
        assert!(shard.slots.iter().filter(|slot| **slot != FREE).eq(&marks));
    }
}
