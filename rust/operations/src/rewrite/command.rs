//! What one command is, the same in all its states: the plan of the log, how its files are read and
//! written, and where they go.

use std::collections::HashMap;

use arrow::array::RecordBatch;
use deltaplane_data::{ReadSpec, SelectedFile};
use deltaplane_error::{Error, Result};
use deltaplane_log::{Rewrite as Plan, Snapshot};
use deltaplane_protocol::actions::{Add, Protocol};
use deltaplane_protocol::deletion_vectors::num_records;
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::hidden_columns::{ROW, ROW_COMMIT_VERSION, ROW_ID};
use deltaplane_protocol::paths;
use deltaplane_store::{Store, block_on};
use futures::TryStreamExt;

use super::tasks::TaskSpec;
use crate::scan::read_spec;
use crate::write_job::Spec;

/// A command on one version of a table.
pub struct Command {
    pub(super) plan: Plan,
    /// Whether rows are deleted by deletion vectors, in files that take one.
    pub(super) by_vector: bool,
}

/// A live file as tasks on other machines need it.
#[derive(Debug, Clone, PartialEq)]
pub struct LocatedFile {
    /// Its URI, as the caller wrote it.
    pub uri: String,
    /// Its decoded path.
    pub path: String,
    /// Its add action.
    pub add: Add,
    /// Whether it takes a deletion vector.
    pub takes_vector: bool,
}

/// A file's URI, its decoded path, its add action as JSON, the id of its first row, and whether it
/// takes a deletion vector.
pub type LocatedParts = (String, String, Vec<u8>, Option<i64>, bool);

impl LocatedFile {
    /// Its fields, the add action as text.
    ///
    /// # Errors
    /// `Internal` for an add action that can't be written as JSON.
    pub fn into_parts(self) -> Result<LocatedParts> {
        let add = serde_json::to_vec(&self.add);
        let add = add.map_err(|e| Error::internal(format!("can't write an add action: {e}")))?;
        Ok((self.uri, self.path, add, self.add.base_row_id, self.takes_vector))
    }
}

impl Command {
    pub(super) fn new(plan: Plan) -> Self {
        Command {
            by_vector: plan.may_mark(),
            plan,
        }
    }

    /// The version that the command reads.
    pub fn base(&self) -> &Snapshot {
        self.plan.base()
    }

    /// Whether the request names an application's version that was committed before (P076).
    pub fn was_done(&self) -> bool {
        self.plan.was_done()
    }

    /// Whether changed rows are recorded (P130).
    pub fn records_changes(&self) -> bool {
        self.plan.records_changes()
    }

    /// The protocol before and after the command.
    pub fn protocols(&self) -> (Protocol, Protocol) {
        self.plan.protocols()
    }

    /// Whether the condition selects whole files.
    pub fn selects_files(&self) -> bool {
        self.plan.selects_files()
    }

    /// Whether rows are deleted by deletion vectors, in files that take one.
    pub fn marks_rows(&self) -> bool {
        self.by_vector
    }

    /// How new files are written.
    ///
    /// # Errors
    /// As [`Spec::of`].
    pub fn spec(&self) -> Result<Spec> {
        Spec::of(&self.plan.target(), self.plan.fills(), self.plan.row_rules(), false)
    }

    /// What tasks on other machines must know.
    pub fn task_spec(&self) -> Result<TaskSpec> {
        TaskSpec::of(&self.plan, self.spec()?, self.by_vector)
    }

    /// The live files that have these URIs. `uris_of` gives the URI and the add action of each file
    /// of a batch.
    ///
    /// # Errors
    /// `InvalidArgument` for a URI that no file of the version has.
    pub fn located(
        &self,
        uris: Vec<String>,
        uris_of: impl Fn(&Snapshot, &RecordBatch) -> Result<Vec<(String, Add)>>,
    ) -> Result<Vec<LocatedFile>> {
        let mut wanted = HashMap::with_capacity(uris.len());
        for uri in uris {
            wanted.insert(plain_uri(&uri)?, uri);
        }
        let mut files_located = Vec::with_capacity(wanted.len());
        block_on(async {
            let mut batches = self.plan.candidates();
            while let Some(batch) = batches.try_next().await? {
                for (uri, add) in uris_of(self.base(), &batch)? {
                    let Some(uri) = wanted.remove(&plain_uri(&uri)?) else {
                        continue;
                    };
                    files_located.push(LocatedFile {
                        uri,
                        path: paths::decode(&add.path)?,
                        takes_vector: self.by_vector && num_records(&add).is_ok(),
                        add,
                    });
                }
            }
            match wanted.into_values().next() {
                None => Ok(files_located),
                Some(uri) => Err(not_of_version().with_path(uri)),
            }
        })
    }

    pub(super) fn store(&self) -> &Store {
        self.plan.store()
    }

    /// Whether the rows of a file that are not selected are copied to new files.
    pub(super) fn is_copied(&self, file: &SelectedFile) -> bool {
        file.rows.is_some() && !(self.by_vector && file.takes_vector())
    }

    /// Reads the ids of rows and their positions, where rows have ids that copied rows keep.
    pub(super) fn row_id_spec(&self) -> Result<Option<ReadSpec>> {
        let columns = vec![ROW_ID.to_owned(), ROW.to_owned()];
        match self.plan.stored_ids()? {
            Some(_) => read_spec(self.base(), Some(columns)).map(Some),
            None => Ok(None),
        }
    }
}

/// The columns of rows that are copied to new files.
pub(crate) fn all_columns(plan: &Plan) -> Result<Vec<String>> {
    let fields = plan.base().schema().fields().iter();
    let ids = id_columns(plan)?.iter().map(|c| (*c).to_owned());
    Ok(fields.map(|f| f.name.clone()).chain(ids).collect())
}

/// The columns of ids that rows keep when they are copied.
pub(super) fn id_columns(plan: &Plan) -> Result<&'static [&'static str]> {
    let has_ids = plan.stored_ids()?.is_some();
    Ok(if has_ids { &[ROW_ID, ROW_COMMIT_VERSION] } else { &[] })
}

/// The add actions of a batch of files.
pub(super) fn adds_of(batch: &RecordBatch) -> Result<Vec<Add>> {
    let adds = FileRows::new(batch);
    (0..batch.num_rows()).map(|row| adds.add(row)).collect()
}

pub(super) fn not_of_version() -> Error {
    Error::invalid_argument("rows can be changed only in files of the version that the command reads")
}

/// A URI without the differences between its writers: escapes, and slashes after the scheme.
fn plain_uri(uri: &str) -> Result<String> {
    let decoded = paths::decode(uri)?;
    Ok(match decoded.strip_prefix("file:") {
        Some(path) => format!("file:/{}", path.trim_start_matches('/')),
        None => decoded,
    })
}
