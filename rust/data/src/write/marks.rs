//! Deletes rows by deletion vectors: writes the vectors of a commit into one file and returns the
//! actions. Knows no log.

use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::{Add, Remove};
use deltaplane_protocol::deletion_vectors::{Marking, Positions, VectorFile, mark, name_file, replace};
use deltaplane_store::Store;
use futures::{StreamExt, TryStreamExt, stream};
use uuid::Uuid;

use crate::read::Vectors;

/// Vectors that are fetched concurrently.
const PARALLEL_VECTORS: usize = 16;

/// The actions that delete rows.
#[derive(Debug, Default)]
pub struct Marked {
    /// Files with their new vectors.
    pub adds: Vec<Add>,
    /// The same files with their old vectors, and files without remaining rows.
    pub removes: Vec<Remove>,
    /// Rows that weren't deleted before.
    pub deleted_rows: u64,
    /// The new file of vectors, relative to the table's root: to be deleted if the commit fails.
    pub vector_file: Option<String>,
}

/// Deletes rows of live files by position. All new vectors are in one file (P122); a file without
/// remaining rows is removed (P123).
/// `file_id` is a new id, which names the file of vectors.
///
/// # Errors
/// `InvalidArgument` for rows that a file doesn't have, or a file without a row count (P121); the
/// errors of reading the old vectors and writing the new ones. Nothing is written before all
/// vectors are known.
pub async fn mark_rows(store: &Store, files: Vec<(Add, Positions)>, now_ms: i64, file_id: Uuid) -> Result<Marked> {
    let vectors = Vectors::new(store.clone());
    let load = |(add, deleted): (Add, Positions)| {
        let vectors = &vectors;
        async move {
            let old = match &add.deletion_vector {
                Some(dv) => Some(vectors.load(dv).await.map_err(|e| e.with_path(add.path.clone()))?),
                None => None,
            };
            Result::Ok((mark(&add, old.as_ref(), &deleted)?, old.map_or(0, |o| o.len()), add))
        }
    };
    let markings: Vec<_> = stream::iter(files)
        .map(load)
        .buffered(PARALLEL_VECTORS)
        .try_collect()
        .await?;
    let (mut marked, mut file) = (Marked::default(), VectorFile::default());
    let (path, name) = name_file(file_id);
    for (marking, before, add) in markings {
        match marking {
            Marking::Nothing => {}
            Marking::RemoveFile(rows) => {
                marked.deleted_rows += rows;
                marked.removes.push(add.to_remove(now_ms, true));
            }
            Marking::Vector(rows) => {
                let mut vector = file.append(&rows)?;
                vector.path_or_inline_dv.clone_from(&name);
                marked.deleted_rows += rows.len().saturating_sub(before);
                let (remove, add) = replace(&add, vector, now_ms);
                marked.removes.push(remove);
                marked.adds.push(add);
            }
        }
    }
    if !marked.adds.is_empty() {
        store
            .put(&path, file.into_bytes().into())
            .await
            .map_err(|e: Error| e.with_path(path.clone()))?;
        marked.vector_file = Some(path);
    }
    Ok(marked)
}
