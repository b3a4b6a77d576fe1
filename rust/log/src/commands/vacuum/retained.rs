//! The files of a table that VACUUM must keep, as sorted hashes of their keys: eight bytes per
//! file. Two keys with one hash only mean that a deletable file stays.

use arrow::array::RecordBatch;
use deltaplane_error::Result;
use deltaplane_protocol::actions::{Action, DeletionVector};
use deltaplane_protocol::deletion_vectors::Place;
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::paths;
use deltaplane_store::Store;
use futures::TryStreamExt;
use xxhash_rust::xxh3::Xxh3;

use crate::{PlanColumns, Snapshot};

/// Files that stay.
#[derive(Default)]
pub(crate) struct RetainedFiles {
    hashes: Vec<u64>,
    is_sorted: bool,
}

impl RetainedFiles {
    /// Live files and their deletion vectors, and those of tombstones that haven't expired (P044).
    pub(crate) async fn of(snapshot: &Snapshot, cutoff_ms: i64) -> Result<Self> {
        let mut retained = RetainedFiles::default();
        let store = snapshot.store();
        let hashes = |batch: RecordBatch| hashes(store, &batch);
        // A tombstone with exactly this time doesn't count as older.
        let stay = snapshot.tombstones_as(cutoff_ms.saturating_sub(1), &[], &hashes);
        let ((), stay) = futures::try_join!(retained.live(snapshot), stay)?;
        retained.add(stay.into_iter().flatten());
        Ok(retained)
    }

    /// Adds the files of another version, including its change files.
    pub(crate) async fn version(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.live(snapshot).await?;
        let before = snapshot.version().checked_sub(1);
        for commit in snapshot.commits_after(before).await? {
            for action in commit.actions()? {
                if let Action::Cdc(file) = action {
                    self.keep(snapshot.store(), &paths::decode(&file.path)?)?;
                }
            }
        }
        Ok(())
    }

    async fn live(&mut self, snapshot: &Snapshot) -> Result<()> {
        let mut batches = snapshot.plan(None, PlanColumns::Files);
        while let Some(batch) = batches.try_next().await? {
            self.files(snapshot.store(), &batch)?;
        }
        Ok(())
    }

    /// Adds the files that these actions name.
    pub(crate) fn files(&mut self, store: &Store, batch: &RecordBatch) -> Result<()> {
        self.add(hashes(store, batch)?);
        Ok(())
    }

    fn keep(&mut self, store: &Store, path: &str) -> Result<()> {
        self.add(own_hash(store, path)?);
        Ok(())
    }

    fn add(&mut self, hashes: impl IntoIterator<Item = u64>) {
        self.hashes.extend(hashes);
        self.is_sorted = false;
    }

    /// Whether the file stays.
    pub(crate) fn has(&mut self, key: &str) -> bool {
        if !self.is_sorted {
            self.hashes.sort_unstable();
            self.hashes.dedup();
            self.is_sorted = true;
        }
        self.hashes.binary_search(&hash(key)).is_ok()
    }
}

/// Hashes of the files that these actions name.
fn hashes(store: &Store, batch: &RecordBatch) -> Result<Vec<u64>> {
    let rows = FileRows::new(batch);
    let mut file_hashes = Vec::with_capacity(batch.num_rows());
    for row in 0..batch.num_rows() {
        file_hashes.extend(own_hash(store, &paths::decode(rows.path(row)?)?)?);
        if let Some(path) = rows.deletion_vector(row).and_then(|dv| vector_path(&dv).transpose()) {
            file_hashes.extend(own_hash(store, &path?)?);
        }
    }
    Ok(file_hashes)
}

/// Files elsewhere are never examined, so they need no hash.
fn own_hash(store: &Store, path: &str) -> Result<Option<u64>> {
    Ok(store.own_key(path)?.map(|key| hash(&key)))
}

/// The decoded path of the file with the vector; `None` for a vector in the log itself.
pub(crate) fn vector_path(dv: &DeletionVector) -> Result<Option<String>> {
    Ok(match Place::of(dv)? {
        Place::File { path, .. } => Some(path),
        Place::Inline(_) => None,
    })
}

/// The same hash for all spellings by which a file system finds one file.
pub(crate) fn hash(key: &str) -> u64 {
    let mut hash = Xxh3::new();
    for part in key.split('/').filter(|part| !part.is_empty() && *part != ".") {
        hash.update(b"/");
        hash.update(part.as_bytes());
    }
    hash.digest()
}

#[cfg(test)]
mod tests {
    use super::hash;

    #[test]
    fn spellings_of_one_file_are_one() {
        assert_eq!(hash("a/b"), hash("./a//b"));
        assert_ne!(hash("a/b"), hash("ab"));
        assert_ne!(hash("a/b"), hash("b/a"));
    }
}
