//! Resolves conflicts by row for OPTIMIZE: rows that other writers deleted by vectors while their
//! files were rewritten are deleted in the new files. How rows are found there is decided by the
//! data crate.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deltaplane_data::{FileGroup, OptimizedFile, RowLineage, carry_deletes};
use deltaplane_error::{Error, Result};
use deltaplane_log::{Moved, ReappliedRows, RowConflictResolver, new_id, now_ms};
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::layout::Candidate;
use deltaplane_protocol::paths;
use deltaplane_store::{Store, block_on};
use futures::future::BoxFuture;

/// The rows of groups of files that were moved, as far as their new places are known.
pub(super) struct MovedRows {
    store: Store,
    groups: Vec<FileGroup>,
    marked: Mutex<MarkedMeanwhile>,
}

#[derive(Default)]
struct MarkedMeanwhile {
    /// Old files as others left them, by the path that they were read by.
    files: HashMap<String, Add>,
    vector_files: Vec<String>,
}

impl MovedRows {
    /// Of groups that aren't committed yet; `lineages` says where rows of new files were, by the
    /// files' paths.
    pub(super) fn new(
        store: Store,
        moved: &[Moved],
        lineages: &HashMap<String, Arc<RowLineage>>,
        ordered: bool,
    ) -> Self {
        let optimized = |add: &Add| {
            let lineage = lineages.get(&add.path).cloned();
            (lineage.is_some() == ordered).then(|| OptimizedFile {
                add: add.clone(),
                lineage,
            })
        };
        let joined = |m: &Moved| {
            let new: Vec<OptimizedFile> = m.adds.iter().map(optimized).collect::<Option<_>>()?;
            if !ordered && new.len() != 1 {
                return None;
            }
            let rows = |c: &Candidate| Some((c.add.clone(), u64::try_from(c.records?).ok()?));
            Some(FileGroup {
                old: m.bin.files.iter().map(rows).collect::<Option<_>>()?,
                new,
            })
        };
        MovedRows {
            store,
            groups: moved.iter().filter_map(joined).collect(),
            marked: Mutex::default(),
        }
    }

    fn locked(&self) -> MutexGuard<'_, MarkedMeanwhile> {
        self.marked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn old(&self) -> impl Iterator<Item = &Add> {
        self.groups.iter().flat_map(|g| g.old.iter().map(|(add, _)| add))
    }

    /// Deletes the vectors of a commit that didn't happen.
    pub(super) fn undo(&self) {
        let files = std::mem::take(&mut self.locked().vector_files);
        for file in files {
            if let Err(e) = block_on(self.store.delete(&file)) {
                tracing::warn!(%file, error = %e, "a file of deletion vectors is left behind: vacuum removes it");
            }
        }
    }
}

impl RowConflictResolver for MovedRows {
    fn paths(&self) -> HashSet<String> {
        self.old().filter_map(|add| paths::decode(&add.path).ok()).collect()
    }

    fn reapply(&self, files: Vec<Add>) -> BoxFuture<'_, Result<ReappliedRows>> {
        Box::pin(async move {
            let now = {
                let mut marked = self.locked();
                for file in files {
                    let path = paths::decode(&file.path)?;
                    let old = self.old().find(|old| paths::decode(&old.path).is_ok_and(|p| p == path));
                    let old = old.ok_or_else(|| Error::internal("rows were marked of a file that wasn't moved"))?;
                    marked.files.insert(old.path.clone(), file);
                }
                marked.files.clone()
            };
            let touched = |g: &&FileGroup| g.old.iter().any(|(old, _)| now.contains_key(&old.path));
            let groups: Vec<&FileGroup> = self.groups.iter().filter(touched).collect();
            let done = carry_deletes(&self.store, &groups, &now, now_ms(), new_id()).await?;
            self.locked().vector_files.extend(done.vector_file);
            let mut replaced = HashSet::new();
            let new = groups.iter().flat_map(|g| g.new.iter().map(|file| &file.add.path));
            for path in now.keys().chain(new) {
                replaced.insert(paths::decode(path)?);
            }
            let still = |add: Add| Add {
                data_change: false,
                ..add
            };
            Ok(ReappliedRows {
                replaced,
                removes: done.removes,
                adds: done.adds.into_iter().map(still).collect(),
            })
        })
    }
}
