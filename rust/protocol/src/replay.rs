//! The replay (protocol section "Action Reconciliation"): newest commit first, a file's newest
//! action decides (P041, P043). Remembers only keys of commits, never those of a checkpoint.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use arrow::array::{BooleanArray, RecordBatch, StringArray};
use xxhash_rust::xxh3::xxh3_64;

use crate::files::rows::FileRows;
use crate::{Result, paths};

/// A file's identity: decoded path and deletion-vector id (P041, P042).
type Key = (String, Option<String>);

/// How many of a batch's adds, and of another's removes, belong to one commit. Batches have commits
/// from the newest to the oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The commit's version.
    pub version: u64,
    /// Its adds, after those of the previous turns.
    pub adds: usize,
    /// Its removes, after those of the previous turns.
    pub removes: usize,
}

impl Turn {
    /// For two batches of a single commit.
    pub fn whole(version: u64, adds: &RecordBatch, removes: &RecordBatch) -> Self {
        Turn {
            version,
            adds: adds.num_rows(),
            removes: removes.num_rows(),
        }
    }
}

/// Processes commits from the newest to the oldest, then filters the checkpoint's rows.
#[derive(Debug, Default, Clone)]
pub struct Replay {
    decided: Decided,
}

/// Decided keys, and a bit filter on paths: a checkpoint has millions of files, and building an
/// owned key for each would take longer than reading it.
#[derive(Debug, Default, Clone)]
struct Decided {
    keys: HashSet<Key>,
    /// One bit per path, by a hash of it; the number of words is a power of two. Colliding hashes
    /// cost time, and never change a result.
    marks: Vec<u64>,
}

/// Bits for each key.
const MARKS: usize = 16;

impl Decided {
    /// Adds a key; true if it is new.
    fn insert(&mut self, key: Key) -> bool {
        let room = self.marks.len() * 64 / MARKS;
        if self.keys.len() >= room {
            self.marks = vec![0; (self.marks.len() * 4).max(16)];
            let again: Vec<_> = self.keys.iter().map(|(path, _)| self.mark(path)).collect();
            again.into_iter().for_each(|mark| self.set(mark));
        }
        self.set(self.mark(&key.0));
        self.keys.insert(key)
    }

    /// The index of the word with the path's bit, and the bit.
    fn mark(&self, path: &str) -> (usize, u64) {
        let hash = xxh3_64(path.as_bytes());
        let word = usize::try_from(hash >> 6).unwrap_or(usize::MAX);
        (word & self.marks.len().saturating_sub(1), 1 << (hash & 63))
    }

    fn set(&mut self, (word_index, bit): (usize, u64)) {
        if let Some(word) = self.marks.get_mut(word_index) {
            *word |= bit;
        }
    }

    /// Whether a key with this path may be decided.
    fn may_have(&self, path: &str) -> bool {
        let (word_index, bit) = self.mark(path);
        self.marks.get(word_index).is_some_and(|word| word & bit != 0)
    }
}

impl Replay {
    /// Without any commit.
    pub fn new() -> Self {
        Self::default()
    }

    /// Processes the next older commits; true for each of their adds that is live.
    pub fn commits(&mut self, adds: &RecordBatch, removes: &RecordBatch, turns: &[Turn]) -> Result<BooleanArray> {
        let mut live = Vec::with_capacity(adds.num_rows());
        walk(adds, removes, turns, |is_add, key| {
            let is_newest = self.decided.insert(key);
            if is_add {
                live.push(is_newest);
            }
        })?;
        Ok(BooleanArray::from(live))
    }

    /// True for each file action of the checkpoint that no later commit touched.
    pub fn checkpoint(&self, files: &RecordBatch) -> Result<BooleanArray> {
        if self.decided.keys.is_empty() {
            return Ok(BooleanArray::from(vec![true; files.num_rows()]));
        }
        let rows = FileRows::new(files);
        let is_left = |row| {
            let path = paths::decoded(rows.path(row)?)?;
            let key = |path: Cow<'_, str>| (path.into_owned(), vector(&rows, row));
            Ok(!self.decided.may_have(&path) || !self.decided.keys.contains(&key(path)))
        };
        let left = (0..files.num_rows()).map(is_left).collect::<Result<Vec<bool>>>()?;
        Ok(BooleanArray::from(left))
    }

    /// Marks these file actions as decided, whatever they say.
    pub fn remember(&mut self, files: &RecordBatch) -> Result<()> {
        let rows = FileRows::new(files);
        for row in 0..files.num_rows() {
            self.decided.insert(key(&rows, row)?);
        }
        Ok(())
    }

    /// Adds all keys that the other one has decided.
    pub fn absorb(&mut self, other: &Replay) {
        for key in &other.decided.keys {
            self.decided.insert(key.clone());
        }
    }

    /// The decoded paths of the files that the commits touched, in no order; one with several
    /// deletion vectors comes several times.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.decided.keys.iter().map(|(path, _)| path.as_str())
    }

    /// How many files the commits touched.
    pub fn touched(&self) -> usize {
        self.decided.keys.len()
    }
}

/// The tombstones that a checkpoint must have: for each commit, newest first, which of its removes
/// are the newest action on their file.
#[derive(Debug, Default)]
pub struct Tombstones {
    decided: HashSet<Key>,
}

impl Tombstones {
    /// Processes the next older commits; true for each of their removes that is a tombstone.
    pub fn commits(&mut self, adds: &RecordBatch, removes: &RecordBatch, turns: &[Turn]) -> Result<BooleanArray> {
        let mut dead = Vec::with_capacity(removes.num_rows());
        walk(adds, removes, turns, |is_add, key| {
            let is_newest = self.decided.insert(key);
            if !is_add {
                dead.push(is_newest);
            }
        })?;
        Ok(BooleanArray::from(dead))
    }
}

/// The keys of file actions in two columns: decoded path, and deletion-vector id, which is null
/// without a vector.
///
/// For reconciling rows of many commits by a join: for each key the action of the newest version
/// decides, and within a commit the first in the order of [`in_turn`].
pub fn keys(files: &RecordBatch) -> Result<(StringArray, StringArray)> {
    let rows = FileRows::new(files);
    let decided = (0..files.num_rows()).map(|row| key(&rows, row));
    let (paths, vectors): (Vec<_>, Vec<_>) = decided.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    Ok((StringArray::from(paths), StringArray::from(vectors)))
}

/// The keys in the order in which they decide, each with whether it is an add's: for each commit
/// its adds, then its removes.
fn walk(adds: &RecordBatch, removes: &RecordBatch, turns: &[Turn], mut take: impl FnMut(bool, Key)) -> Result<()> {
    let (added, removed) = (FileRows::new(adds), FileRows::new(removes));
    let (mut add, mut remove) = (0, 0);
    for turn in turns {
        let mut file = |rows: &FileRows<'_>, row: usize, is_add: bool| {
            take(is_add, key(rows, row).map_err(|e| e.with_version(turn.version))?);
            Ok(())
        };
        let (adds_end, removes_end) = (add + turn.adds, remove + turn.removes);
        (add..adds_end).try_for_each(|row| file(&added, row, true))?;
        (remove..removes_end).try_for_each(|row| file(&removed, row, false))?;
        (add, remove) = (adds_end, removes_end);
    }
    Ok(())
}

/// The ranks at which [`Replay::commits`] processes a commit's adds and its removes.
pub fn in_turn(adds: usize, removes: usize) -> (Range<usize>, Range<usize>) {
    (0..adds, adds..adds.saturating_add(removes))
}

fn key(rows: &FileRows<'_>, row: usize) -> Result<Key> {
    Ok((paths::decoded(rows.path(row)?)?.into_owned(), vector(rows, row)))
}

fn vector(rows: &FileRows<'_>, row: usize) -> Option<String> {
    rows.deletion_vector(row).map(|d| d.unique_id())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::Array;

    use super::*;
    use crate::actions::{Add, DeletionVector, Remove};
    use crate::files::{adds_to_batch, removes_to_batch};

    fn add(path: &str) -> Add {
        Add {
            path: path.into(),
            ..Add::default()
        }
    }
    fn remove(path: &str) -> Remove {
        Remove {
            path: path.into(),
            ..Remove::default()
        }
    }

    fn batches(adds: &[&Add], removes: &[&Remove]) -> (RecordBatch, RecordBatch) {
        (
            adds_to_batch(adds.iter().copied()).unwrap(),
            removes_to_batch(removes.iter().copied()).unwrap(),
        )
    }

    fn whole((adds, removes): &(RecordBatch, RecordBatch)) -> Turn {
        Turn::whole(0, adds, removes)
    }

    fn live(walk: &mut Replay, adds: &[&Add], removes: &[&Remove]) -> Vec<bool> {
        let files = batches(adds, removes);
        let live = walk.commits(&files.0, &files.1, &[whole(&files)]).unwrap();
        live.values().iter().collect()
    }

    fn dead(walk: &mut Tombstones, adds: &[&Add], removes: &[&Remove]) -> Vec<bool> {
        let files = batches(adds, removes);
        let dead = walk.commits(&files.0, &files.1, &[whole(&files)]).unwrap();
        dead.values().iter().collect()
    }

    #[test]
    fn the_newest_action_on_a_decoded_path_wins() {
        // P021, P041
        let mut r = Replay::new();
        assert!(live(&mut r, &[], &[&remove("a%20b")]).is_empty());
        assert_eq!(live(&mut r, &[&add("a b"), &add("c")], &[]), [false, true]);
        let checkpoint = r
            .checkpoint(&adds_to_batch([&add("a%20b"), &add("c"), &add("d")]).unwrap())
            .unwrap();
        assert_eq!(checkpoint, BooleanArray::from(vec![false, false, true]));
    }

    #[test]
    fn many_decided_files_are_found_among_more() {
        // P041: whatever marks are shared.
        let (mut walk, mut other) = (Replay::new(), Replay::new());
        for decided in (0..3000).step_by(3) {
            let batch = batches(&[&add(&format!("part-{decided}"))], &[]).0;
            walk.remember(&batch).unwrap();
        }
        other.absorb(&walk);
        let adds: Vec<Add> = (0..3000).map(|n| add(&format!("part%2d{n}"))).collect();
        let files = adds_to_batch(&adds).unwrap();
        let expected: BooleanArray = (0..3000).map(|n| Some(n % 3 != 0)).collect();
        for walked in [walk, other] {
            assert_eq!(walked.checkpoint(&files).unwrap(), expected);
            assert_eq!(walked.touched(), 1000);
        }
    }

    #[test]
    fn a_vector_makes_another_file() {
        // P042: offset 0 differs from absent
        let dv = |offset| DeletionVector {
            storage_type: "u".into(),
            path_or_inline_dv: "x".into(),
            offset,
            size_in_bytes: 1,
            cardinality: 1,
        };
        let mut r = Replay::new();
        let with = Add {
            deletion_vector: Some(dv(Some(0))),
            ..add("a")
        };
        live(&mut r, &[&with], &[&remove("a")]);
        let other = Add {
            deletion_vector: Some(dv(None)),
            ..add("a")
        };
        let older = adds_to_batch([&add("a"), &with, &other]).unwrap();
        assert_eq!(
            r.checkpoint(&older).unwrap(),
            BooleanArray::from(vec![false, false, true])
        );
    }

    #[test]
    fn the_first_word_in_turn_on_a_key_is_the_walk_s() {
        // P041, P043: also of a commit that contradicts itself.
        let adds = adds_to_batch([&add("a"), &add("b"), &add("%61")]).unwrap();
        let removes = removes_to_batch([&remove("b"), &remove("c")]).unwrap();
        let turn = Turn::whole(0, &adds, &removes);
        let walked = Replay::new().commits(&adds, &removes, &[turn]).unwrap();
        let (mut first, mut by_turn) = (HashSet::new(), Vec::new());
        let (of_adds, of_removes) = in_turn(adds.num_rows(), removes.num_rows());
        for (batch, turns) in [(&adds, of_adds), (&removes, of_removes)] {
            let (paths, vectors) = keys(batch).unwrap();
            assert_eq!(
                (turns.len(), vectors.null_count()),
                (batch.num_rows(), batch.num_rows())
            );
            by_turn.extend(turns.zip(paths.iter().map(|p| p.unwrap().to_owned())));
        }
        by_turn.sort();
        let live: Vec<bool> = by_turn.into_iter().map(|(_, key)| first.insert(key)).collect();
        assert_eq!(BooleanArray::from(live[..adds.num_rows()].to_vec()), walked);
        assert_eq!(live[adds.num_rows()..], [false, true]);
    }

    #[test]
    fn a_file_added_again_leaves_no_tombstone() {
        let mut t = Tombstones::default();
        assert!(dead(&mut t, &[&add("a")], &[]).is_empty());
        assert_eq!(dead(&mut t, &[], &[&remove("a"), &remove("b")]), [false, true]);
    }

    #[test]
    fn commits_in_one_batch_decide_as_one_by_one() {
        // P041: newest first, each time what it adds and what it removes.
        let (a, b, c) = (add("a"), add("b"), add("c"));
        let (no_a, no_b, no_c) = (remove("a"), remove("b"), remove("c"));
        let commits: [(&[&Add], &[&Remove]); 5] = [
            (&[&c], &[&no_a]),
            (&[], &[&no_c, &no_b]),
            (&[], &[]),
            (&[&a, &b, &c], &[]),
            (&[&b], &[&no_a]),
        ];
        let (mut walk, mut tombs) = (Replay::new(), Tombstones::default());
        let (mut lives, mut deads, mut turns) = (Vec::new(), Vec::new(), Vec::new());
        for (adds, removes) in commits {
            lives.extend(live(&mut walk, adds, removes));
            deads.extend(dead(&mut tombs, adds, removes));
            turns.push(whole(&batches(adds, removes)));
        }
        let (adds, removes) = commits.into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
        let files = batches(&adds.concat(), &removes.concat());
        let at_once = Replay::new().commits(&files.0, &files.1, &turns).unwrap();
        assert_eq!(at_once.values().iter().collect::<Vec<_>>(), lives);
        assert_eq!(lives, [true, false, false, false, false]);
        let at_once = Tombstones::default().commits(&files.0, &files.1, &turns).unwrap();
        assert_eq!(at_once.values().iter().collect::<Vec<_>>(), deads);
        assert_eq!(deads, [true, false, true, false]);
    }

    #[test]
    fn a_path_that_is_none_is_told_with_its_version() {
        let files = batches(&[&add("a"), &add("%ff")], &[]);
        let turns = [2, 1].map(|version| Turn {
            version,
            adds: 1,
            removes: 0,
        });
        let e = Replay::new().commits(&files.0, &files.1, &turns).unwrap_err();
        assert_eq!(e.version(), Some(1));
    }
}
