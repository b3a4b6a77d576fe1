//! Carries deletes over to optimized files: rows that other writers deleted by vectors while their
//! files were joined or sorted are found in the new files, which get deletion vectors of their own.

use std::collections::HashMap;
use std::sync::Arc;

use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::{Add, DeletionVector, Remove};
use deltaplane_protocol::deletion_vectors::Positions;
use deltaplane_store::Store;
use uuid::Uuid;

use super::row_lineage::RowLineage;
use crate::read::Vectors;
use crate::write::mark_rows;

/// A new file.
#[derive(Debug, Clone)]
pub struct OptimizedFile {
    /// Its add action.
    pub add: Add,
    /// The original positions of its rows, if they were sorted and the positions stored.
    pub lineage: Option<Arc<RowLineage>>,
}

/// Files whose live rows are those of the new files: one new file in the same order, or several
/// with row lineage.
#[derive(Debug, Clone)]
pub struct FileGroup {
    /// The old files as they were read, each with its number of rows, including deleted ones.
    pub old: Vec<(Add, u64)>,
    /// The new files.
    pub new: Vec<OptimizedFile>,
}

/// The actions that replace those of old and new files.
#[derive(Debug, Default)]
pub struct CarriedDeletes {
    /// The current state of the old files.
    pub removes: Vec<Remove>,
    /// The new files with their vectors, without files that have no row left.
    pub adds: Vec<Add>,
    /// The file of the new vectors, relative to the table's root.
    pub vector_file: Option<String>,
}

/// Carries the current vectors of the old files over to the new files.
///
/// # Errors
/// `ConcurrentDeleteDelete` if rows of an old file were restored; as [`mark_rows`].
pub async fn carry_deletes(
    store: &Store,
    joined: &[&FileGroup],
    now: &HashMap<String, Add>,
    now_ms: i64,
    file_id: Uuid,
) -> Result<CarriedDeletes> {
    let vectors = Vectors::new(store.clone());
    let load = async |dv: Option<&DeletionVector>| match dv {
        Some(dv) => vectors.load(dv).await,
        None => Ok(Positions::new()),
    };
    let (mut removes, mut adds, mut marked) = (Vec::new(), Vec::new(), Vec::new());
    for files in joined {
        let (mut gone, mut first) = (Positions::new(), 0);
        let mut more = Vec::with_capacity(files.old.len());
        for (old, rows) in &files.old {
            let before = load(old.deletion_vector.as_ref()).await?;
            let mut here = Positions::new();
            if let Some(newest) = now.get(&old.path) {
                let after = load(newest.deletion_vector.as_ref()).await?;
                if !after.includes(&before) {
                    return Err(came_back(&old.path));
                }
                for position in new_places(&before, &after) {
                    gone.insert(first + position);
                }
                here = after.iter().filter(|p| !before.contains(*p)).collect();
                removes.push(newest.to_remove(now_ms, false));
            }
            more.push(here);
            first += rows.saturating_sub(before.len());
        }
        for OptimizedFile { add, lineage } in &files.new {
            let gone = match lineage {
                Some(lineage) => lineage.marked(&more).await?,
                None => gone.clone(),
            };
            match gone.is_empty() {
                true => adds.push(add.clone()),
                false => marked.push((add.clone(), gone)),
            }
        }
    }
    let done = mark_rows(store, marked, now_ms, file_id).await?;
    adds.extend(done.adds);
    Ok(CarriedDeletes {
        removes,
        adds,
        vector_file: done.vector_file,
    })
}

fn came_back(path: &str) -> Error {
    Error::new(
        Kind::ConcurrentDeleteDelete,
        format!(
            "another writer brought back rows of `{path}` first: nothing of this transaction was committed; load the newest version and run it again"
        ),
    )
}

/// The rows that only the newer vector has, as positions among the rows that the older one leaves.
fn new_places(before: &Positions, after: &Positions) -> Vec<u64> {
    let mut older = before.iter().peekable();
    let mut skipped = 0;
    let mut places = Vec::new();
    for position in after.iter() {
        while older.next_if(|p| *p < position).is_some() {
            skipped += 1;
        }
        if older.peek() != Some(&position) {
            places.push(position - skipped);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_among_live_rows() {
        // P124: vectors count all rows of a file, the new file has only those that were live
        let rows = |positions_of: &[u64]| positions_of.iter().copied().collect::<Positions>();
        assert_eq!(new_places(&rows(&[]), &rows(&[0, 5])), [0, 5]);
        assert_eq!(new_places(&rows(&[0, 2]), &rows(&[0, 1, 2, 3, 9])), [0, 1, 7]);
        assert_eq!(new_places(&rows(&[4]), &rows(&[4])), [0_u64; 0]);
    }
}
