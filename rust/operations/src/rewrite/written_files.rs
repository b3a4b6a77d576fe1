//! The files that a command wrote and that no commit names yet. They are deleted when the command
//! is dropped, unless they are kept: because a commit names them, or may name them.

use deltaplane_data::RowSink;
use deltaplane_error::Result;
use deltaplane_protocol::actions::{Add, AddCdcFile};
use deltaplane_store::{Store, block_on};

use super::tasks::Outcome;
use crate::write_job::delete_paths;

/// New files of one command.
pub(super) struct WrittenFiles {
    store: Store,
    /// Writes the data files that aren't complete yet.
    pub(super) sink: Option<RowSink>,
    /// Data files.
    pub(super) adds: Vec<Add>,
    /// Files of changed rows.
    pub(super) cdc: Vec<AddCdcFile>,
    /// Files of deletion vectors, relative to the table's root.
    pub(super) vector_files: Vec<String>,
}

impl WrittenFiles {
    pub(super) fn new(store: Store) -> Self {
        WrittenFiles {
            store,
            sink: None,
            adds: Vec::new(),
            cdc: Vec::new(),
            vector_files: Vec::new(),
        }
    }

    /// Takes over the files that a task wrote.
    pub(super) fn adopt(&mut self, outcome: &mut Outcome) {
        self.adds.append(&mut outcome.adds);
        self.cdc.append(&mut outcome.cdc);
        self.vector_files.extend(outcome.vector_file.take());
    }

    /// Keeps the files in the store.
    pub(super) fn keep(&mut self) {
        self.adds.clear();
        self.cdc.clear();
        self.vector_files.clear();
    }

    /// Deletes the files. The first error of the store ends it; files that remain are left to
    /// vacuum.
    pub(super) fn delete(&mut self) -> Result<()> {
        if let Some(sink) = self.sink.take() {
            block_on(sink.abort());
        }
        let (adds, cdc) = (std::mem::take(&mut self.adds), std::mem::take(&mut self.cdc));
        let vector_files = std::mem::take(&mut self.vector_files);
        if adds.is_empty() && cdc.is_empty() && vector_files.is_empty() {
            return Ok(());
        }
        block_on(async {
            for file in &vector_files {
                self.store.delete(file).await?;
            }
            delete_paths(&self.store, adds.iter().map(|a| a.path.as_str())).await?;
            delete_paths(&self.store, cdc.iter().map(|a| a.path.as_str())).await
        })
    }
}

impl Drop for WrittenFiles {
    fn drop(&mut self) {
        if let Err(e) = self.delete() {
            tracing::warn!(error = %e, "files of a command that wasn't committed are left behind: vacuum removes them");
        }
    }
}
