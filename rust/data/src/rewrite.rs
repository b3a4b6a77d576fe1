//! Files in which a command deletes or changes rows: the selected rows, the rest, and the resulting
//! actions. Knows no log.

use std::sync::Arc;

use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::{Add, DeletionVector, Remove};
use deltaplane_protocol::deletion_vectors::{Positions, num_records};
use deltaplane_store::Store;
use uuid::Uuid;

use crate::read::{FileRead, SelectedRows, Vectors};
use crate::write::{Marked, mark_rows};

/// A live file with the rows that a command selected.
#[derive(Debug, Clone)]
pub struct SelectedFile {
    /// The file as the log has it.
    pub add: Add,
    /// Its rows by physical position; `None` for all that are live.
    pub rows: Option<Arc<Positions>>,
}

impl SelectedFile {
    /// A file with these rows, which must be live; if they are all rows, the whole file.
    pub fn new(add: Add, rows: Positions) -> Self {
        let deleted = add.deletion_vector.as_ref().map_or(0, |dv| dv.cardinality);
        let live = num_records(&add)
            .ok()
            .and_then(|n| n.checked_sub(u64::try_from(deleted).ok()?));
        let rows = (live != Some(rows.len())).then(|| Arc::new(rows));
        SelectedFile { add, rows }
    }

    /// How to read the selected rows.
    pub fn selected(&self) -> Result<FileRead> {
        Ok(FileRead {
            selected: self.rows.clone().map(SelectedRows::Only),
            ..FileRead::of(&self.add)?
        })
    }

    /// How to read the other rows; `None` if there are none.
    pub fn others(&self) -> Result<Option<FileRead>> {
        let Some(rows) = self.rows.clone() else { return Ok(None) };
        Ok(Some(FileRead {
            selected: Some(SelectedRows::Without(rows)),
            ..FileRead::of(&self.add)?
        }))
    }

    /// The number of other rows, and about how many bytes of the file; no number if the log lacks
    /// the file's row count.
    pub fn others_by_the_log(&self) -> (Option<u64>, i64) {
        let (Ok(records), Some(rows)) = (num_records(&self.add), &self.rows) else {
            return (None, self.add.size);
        };
        let deleted = self.add.deletion_vector.as_ref().map_or(0, |dv| dv.cardinality);
        let gone = rows.len().saturating_add(u64::try_from(deleted).unwrap_or(0));
        let others = records.saturating_sub(gone);
        let share = i128::from(self.add.size) * i128::from(others) / i128::from(records.max(1));
        (Some(others), i64::try_from(share).unwrap_or(self.add.size))
    }

    /// Whether a vector can delete some of the rows (P121); otherwise the file is rewritten or
    /// removed.
    pub fn takes_vector(&self) -> bool {
        self.rows.is_some() && num_records(&self.add).is_ok()
    }
}

/// Deletes the selected rows: by vectors where files support them, otherwise by removing the files,
/// whose other rows the caller rewrites.
/// A new file of vectors is named by `file_id`.
pub async fn delete_rows(
    store: &Store,
    files: &[SelectedFile],
    by_vector: bool,
    now_ms: i64,
    file_id: Uuid,
) -> Result<Marked> {
    let (marked, removed): (Vec<_>, Vec<_>) = files.iter().partition(|f| by_vector && f.takes_vector());
    let with_rows = marked.into_iter().map(|f| {
        let rows = f.rows.as_deref().cloned().unwrap_or_default();
        (f.add.clone(), rows)
    });
    let mut done = mark_rows(store, with_rows.collect(), now_ms, file_id).await?;
    let removes = removed.into_iter().map(|f| f.add.to_remove(now_ms, true));
    done.removes.extend(removes.collect::<Vec<Remove>>());
    Ok(done)
}

/// Repeats the deletion in the current state of the files, in which other writers deleted more
/// rows.
///
/// # Errors
/// `ConcurrentDeleteDelete` if one of the rows is deleted already or rows were restored; as
/// [`mark_rows`].
pub async fn reapply_deletes(
    store: &Store,
    files: &[SelectedFile],
    now: Vec<Add>,
    now_ms: i64,
    file_id: Uuid,
) -> Result<Marked> {
    let (mut left, vectors) = (Vec::with_capacity(now.len()), Vectors::new(store.clone()));
    for add in now {
        let lost = |what: &str| {
            Error::new(
                Kind::ConcurrentDeleteDelete,
                format!(
                    "another writer {what} of `{}` first: nothing of this transaction was committed; load the newest version and run it again",
                    add.path
                ),
            )
        };
        let selected = files.iter().find(|f| f.add.path == add.path);
        let Some((selected, rows)) = selected.and_then(|f| Some((f, f.rows.clone()?))) else {
            return Err(lost("changed rows"));
        };
        let load = async |dv: Option<&DeletionVector>| match dv {
            Some(dv) => vectors.load(dv).await,
            None => Ok(Positions::new()),
        };
        let before = load(selected.add.deletion_vector.as_ref()).await?;
        let after = load(add.deletion_vector.as_ref()).await?;
        if !after.includes(&before) {
            return Err(lost("brought back rows"));
        }
        let mut both = rows.as_ref().clone();
        both.intersect(&after);
        if !both.is_empty() {
            return Err(lost("deleted or changed the same rows"));
        }
        left.push((add, rows.as_ref().clone()));
    }
    mark_rows(store, left, now_ms, file_id).await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn add(rows: u64, deleted: i64) -> Add {
        Add {
            path: "f".to_owned(),
            stats: Some(format!("{{\"numRecords\":{rows}}}")),
            deletion_vector: (deleted > 0).then(|| DeletionVector {
                cardinality: deleted,
                ..DeletionVector::default()
            }),
            ..Add::default()
        }
    }

    #[test]
    fn all_live_rows_are_the_whole_file() {
        // P123: such a file is removed, not marked
        let rows = |n: u64| (0..n).collect::<Positions>();
        assert_eq!(SelectedFile::new(add(5, 0), rows(5)).rows, None);
        assert_eq!(SelectedFile::new(add(5, 2), rows(3)).rows, None);
        let some = SelectedFile::new(add(5, 0), rows(3));
        assert!(some.takes_vector() && some.others().unwrap().is_some());
        let sized = Add {
            size: 1000,
            ..add(5, 1)
        };
        assert_eq!(SelectedFile::new(sized, rows(3)).others_by_the_log(), (Some(1), 200));
        assert_eq!(
            some.selected().unwrap().selected,
            Some(SelectedRows::Only(Arc::new(rows(3))))
        );
    }

    #[test]
    fn a_file_of_unknown_length_is_written_anew() {
        // P121
        let uncounted = Add {
            stats: None,
            ..add(5, 0)
        };
        let file = SelectedFile::new(uncounted, (0..5).collect());
        assert!(file.rows.is_some() && !file.takes_vector());
        assert_eq!(file.others_by_the_log(), (None, 0));
    }
}
