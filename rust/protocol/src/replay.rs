//! The one replay walk (protocol section "Action Reconciliation"): newest first, a file's newest
//! action decides (P041, P043). Only commits' keys are remembered, never those of a checkpoint.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use arrow::array::{BooleanArray, RecordBatch, StringArray};

use crate::files::FileRows;
use crate::{Result, paths};

/// A file's identity: decoded path and deletion-vector id (P041, P042).
type Key = (String, Option<String>);

/// Feeds on commits from the newest to the oldest, then judges the checkpoint's rows.
#[derive(Debug, Default, Clone)]
pub struct Replay {
    decided: HashSet<Key>,
}

impl Replay {
    /// Nothing seen yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next older commit; true for each of its adds that is live.
    pub fn commit(&mut self, adds: &RecordBatch, removes: &RecordBatch) -> Result<BooleanArray> {
        let rows = FileRows::new(adds);
        let mut live = Vec::with_capacity(adds.num_rows());
        for row in 0..adds.num_rows() {
            live.push(self.decided.insert(key(&rows, row)?));
        }
        let rows = FileRows::new(removes);
        for row in 0..removes.num_rows() {
            self.decided.insert(key(&rows, row)?);
        }
        Ok(BooleanArray::from(live))
    }

    /// True for each file action of the checkpoint that no later commit touched.
    pub fn checkpoint(&self, files: &RecordBatch) -> Result<BooleanArray> {
        if self.decided.is_empty() {
            return Ok(BooleanArray::from(vec![true; files.num_rows()]));
        }
        let rows = FileRows::new(files);
        (0..files.num_rows())
            .map(|row| Ok(Some(!self.decided.contains(&key(&rows, row)?))))
            .collect()
    }

    /// Takes these file actions as decided, whatever they say.
    pub fn remember(&mut self, files: &RecordBatch) -> Result<()> {
        let rows = FileRows::new(files);
        for row in 0..files.num_rows() {
            self.decided.insert(key(&rows, row)?);
        }
        Ok(())
    }

    /// Takes all as decided that the other has decided.
    pub fn absorb(&mut self, other: &Replay) {
        self.decided.extend(other.decided.iter().cloned());
    }

    /// How many files the commits touched.
    pub fn touched(&self) -> usize {
        self.decided.len()
    }
}

/// The tombstones that a checkpoint must carry: for each commit, newest first, which of its removes
/// are the newest word on their file.
#[derive(Debug, Default)]
pub struct Tombstones {
    decided: HashSet<Key>,
}

impl Tombstones {
    /// Takes the next older commit; true for each of its removes that is a tombstone.
    pub fn commit(&mut self, adds: &RecordBatch, removes: &RecordBatch) -> Result<BooleanArray> {
        let added = FileRows::new(adds);
        for row in 0..adds.num_rows() {
            self.decided.insert(key(&added, row)?);
        }
        let rows = FileRows::new(removes);
        let mut dead = Vec::with_capacity(removes.num_rows());
        for row in 0..removes.num_rows() {
            dead.push(self.decided.insert(key(&rows, row)?));
        }
        Ok(BooleanArray::from(dead))
    }
}

/// The keys of file actions in two columns: decoded path, and deletion-vector id, which is null without a vector.
///
/// For those who reconcile rows of many commits without walking them: of all words on a key the newest version's decides, and
/// within a commit the first of [`in_turn`].
pub fn keys(files: &RecordBatch) -> Result<(StringArray, StringArray)> {
    let rows = FileRows::new(files);
    let found = (0..files.num_rows()).map(|row| key(&rows, row));
    let (paths, vectors): (Vec<_>, Vec<_>) = found.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    Ok((StringArray::from(paths), StringArray::from(vectors)))
}

/// The places at which [`Replay::commit`] takes a commit's adds and its removes.
pub fn in_turn(adds: usize, removes: usize) -> (Range<usize>, Range<usize>) {
    (0..adds, adds..adds.saturating_add(removes))
}

fn key(rows: &FileRows<'_>, row: usize) -> Result<Key> {
    let raw = rows.path(row)?;
    let path = if raw.contains('%') {
        Cow::Owned(paths::decode(raw)?)
    } else {
        Cow::Borrowed(raw)
    };
    Ok((path.into_owned(), rows.deletion_vector(row).map(|d| d.unique_id())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::actions::{Add, DeletionVector, Remove};
    use crate::files::{adds_to_batch, removes_to_batch};
    use arrow::array::Array;

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

    #[test]
    fn the_newest_action_on_a_decoded_path_wins() {
        // P021, P041
        let mut r = Replay::new();
        let newest = r
            .commit(
                &adds_to_batch([]).unwrap(),
                &removes_to_batch([&remove("a%20b")]).unwrap(),
            )
            .unwrap();
        assert_eq!(newest.len(), 0);
        let older = r
            .commit(
                &adds_to_batch([&add("a b"), &add("c")]).unwrap(),
                &removes_to_batch([]).unwrap(),
            )
            .unwrap();
        assert_eq!(older, BooleanArray::from(vec![false, true]));
        let checkpoint = r
            .checkpoint(&adds_to_batch([&add("a%20b"), &add("c"), &add("d")]).unwrap())
            .unwrap();
        assert_eq!(checkpoint, BooleanArray::from(vec![false, false, true]));
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
        r.commit(
            &adds_to_batch([&with]).unwrap(),
            &removes_to_batch([&remove("a")]).unwrap(),
        )
        .unwrap();
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
        let walked = Replay::new().commit(&adds, &removes).unwrap();
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
        t.commit(&adds_to_batch([&add("a")]).unwrap(), &removes_to_batch([]).unwrap())
            .unwrap();
        let older = t
            .commit(
                &adds_to_batch([]).unwrap(),
                &removes_to_batch([&remove("a"), &remove("b")]).unwrap(),
            )
            .unwrap();
        assert_eq!(older, BooleanArray::from(vec![false, true]));
    }
}
