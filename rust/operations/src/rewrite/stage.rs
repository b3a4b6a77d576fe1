//! The last state of a command: its files are complete, and one commit or a dry run ends it.

use std::collections::{BTreeMap, HashSet};
use std::mem::ManuallyDrop;
use std::sync::Arc;

use deltaplane_data::Marked;
use deltaplane_error::Result;
use deltaplane_log::{DryRun, Rewritten};
use deltaplane_protocol::actions::{Add, Remove, claimed_sum};
use deltaplane_store::block_on;
use serde::Serialize;
use serde_json::Value;

use super::command::Command;
use super::row_conflicts::MarkedRows;
use super::written_files::WrittenFiles;

/// A command whose files are complete. They are deleted when it is dropped without a commit.
pub struct Staged {
    pub(super) command: Arc<Command>,
    pub(super) written: WrittenFiles,
    pub(super) deleted: Marked,
    pub(super) row_conflicts: Arc<MarkedRows>,
    pub(super) copies: Vec<Add>,
    pub(super) num_files: usize,
    pub(super) num_bytes: i64,
    pub(super) copied_rows: usize,
    pub(super) added_rows: usize,
}

/// What a command did to files, under delta-spark's names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileSummary {
    /// Files of which no row is left where it was.
    pub num_removed_files: usize,
    /// Their bytes.
    pub num_removed_bytes: i64,
    /// New data files.
    pub num_added_files: usize,
    /// Their bytes.
    pub num_added_bytes: i64,
    /// New files of changed rows.
    pub num_added_change_files: usize,
    /// New deletion vectors.
    pub num_deletion_vectors_added: usize,
    /// Those that replace another one. As in delta-spark, each of them also counts as added and as
    /// removed.
    pub num_deletion_vectors_updated: usize,
    /// Deletion vectors that were replaced, or that went with their file.
    pub num_deletion_vectors_removed: usize,
    /// Rows that were copied to new files.
    pub num_copied_rows: usize,
}

impl Staged {
    /// The number of files with selected rows.
    pub fn num_files(&self) -> usize {
        self.num_files
    }

    /// The bytes of these files.
    pub fn num_bytes(&self) -> i64 {
        self.num_bytes
    }

    /// The rows that were written, without copied ones.
    pub fn written_rows(&self) -> usize {
        self.added_rows
    }

    /// What the command did to files.
    pub fn summary(&self) -> FileSummary {
        let (deleted, written) = (&self.deleted, &self.written);
        let marked: HashSet<&str> = deleted.adds.iter().map(|a| a.path.as_str()).collect();
        let (rest, gone): (Vec<_>, Vec<_>) = deleted.removes.iter().partition(|r| marked.contains(r.path.as_str()));
        let with_vector = |removes: &[&Remove]| removes.iter().filter(|r| r.deletion_vector.is_some()).count();
        let updated = with_vector(&rest);
        FileSummary {
            num_removed_files: gone.len(),
            num_removed_bytes: claimed_sum(gone.iter().filter_map(|r| r.size)),
            num_added_files: written.adds.len(),
            num_added_bytes: claimed_sum(written.adds.iter().map(|a| a.size)),
            num_added_change_files: written.cdc.len(),
            num_deletion_vectors_added: marked.len(),
            num_deletion_vectors_updated: updated,
            num_deletion_vectors_removed: with_vector(&gone) + updated,
            num_copied_rows: self.copied_rows,
        }
    }

    /// What the commit with these metrics would be.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn dry_run(self, metrics: BTreeMap<String, Value>) -> Result<DryRun> {
        let target = self.command.spec()?.write_spec()?.target_file_size_bytes;
        let plan = &self.command.plan;
        block_on(plan.dry_run(self.rewritten(metrics), &self.copies, target))
    }

    /// Commits with these metrics; returns the version. The new files are deleted where the error
    /// says that the commit didn't happen; after any other error it may have happened, and they
    /// stay.
    ///
    /// # Errors
    /// A conflict kind when another writer changed what the command read; errors of the store.
    pub fn commit(self, metrics: BTreeMap<String, Value>) -> Result<u64> {
        let rewritten = self.rewritten(metrics);
        // A panic drops the command, and the commit may have happened before it: the files stay
        // then.
        let written = ManuallyDrop::new(self.written);
        let committed = block_on(self.command.plan.commit(rewritten));
        let mut written = ManuallyDrop::into_inner(written);
        written.vector_files.extend(self.row_conflicts.take_vector_files());
        if !committed.as_ref().is_err_and(|e| e.kind().rules_out_commit()) {
            written.keep();
        }
        Ok(committed?.version)
    }

    /// Deletes the new files.
    pub fn abort(mut self) -> Result<()> {
        self.written.delete()
    }

    /// The command's result for the log.
    fn rewritten(&self, metrics: BTreeMap<String, Value>) -> Rewritten {
        Rewritten {
            adds: [self.written.adds.as_slice(), &self.deleted.adds].concat(),
            removes: self.deleted.removes.clone(),
            cdc: self.written.cdc.clone(),
            row_conflicts: Some(self.row_conflicts.clone()),
            metrics,
        }
    }
}
