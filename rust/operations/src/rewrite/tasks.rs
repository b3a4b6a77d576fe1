//! What tasks on other machines do for a command that changes rows: they write rows, and delete
//! rows of files. The driver's `Command` gives what they must know (`TaskSpec`) and `Selected`
//! adopts what they did (`Outcome`), both serialized.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use deltaplane_data::{FileRead, IdentityValues, ReadSpec, RowSink, SelectedFile, delete_rows, scan};
use deltaplane_error::{Error, Result};
use deltaplane_log::{Rewrite, TableSchema, new_id, now_ms};
use deltaplane_protocol::actions::{Add, AddCdcFile, Remove};
use deltaplane_protocol::deletion_vectors::Positions;
use deltaplane_protocol::features::StoredIds;
use deltaplane_protocol::features::identity_columns;
use deltaplane_protocol::hidden_columns::{ROW_COMMIT_VERSION, ROW_ID};
use deltaplane_protocol::mapping::Mapping;
use deltaplane_store::{Store, block_on};
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use crate::write_job::Spec;

/// What a task must know of the table and the command.
#[derive(Serialize, Deserialize)]
pub struct TaskSpec {
    /// How files are written.
    pub write: Spec,
    /// The table that is read, which a command may leave with more columns.
    pub schema: TableSchema,
    /// Its partition columns.
    pub partition_columns: Vec<String>,
    /// Its column mapping mode.
    pub mapping: String,
    /// The physical columns of row ids and versions, where rows keep theirs (P142).
    pub ids: Option<StoredIds>,
    /// Whether changed rows are recorded.
    pub records_changes: bool,
    /// Whether rows are deleted by deletion vectors, in files that take one.
    pub by_vector: bool,
    /// Whether the files that are made are kept nowhere.
    pub dry_run: bool,
}

/// What a task did.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// New data files.
    pub adds: Vec<Add>,
    /// New files of changed rows.
    pub cdc: Vec<AddCdcFile>,
    /// Files with new vectors.
    pub marked: Vec<Add>,
    /// These as they were, and files that went.
    pub removes: Vec<Remove>,
    /// The new file of deletion vectors, relative to the table's root.
    pub vector_file: Option<String>,
    /// Rows that were copied to new files.
    pub copied_rows: usize,
    /// Of a dry run: the rows that would be copied, as files of their bytes.
    #[serde(default)]
    pub copies: Vec<Add>,
    /// Rows that were written, without copied ones.
    pub written_rows: usize,
    /// Rows that were taken out, by the number of the clause.
    pub taken_out: BTreeMap<i32, u64>,
    /// Rows that more than one row of a source would change: nothing was done then.
    pub twice: u64,
    /// The number of the task.
    pub task: u32,
}

impl TaskSpec {
    /// That of a command, whose new files are as `write` says.
    pub fn of(command: &Rewrite, write: Spec, by_vector: bool) -> Result<Self> {
        let state = command.base().state();
        Ok(TaskSpec {
            write,
            schema: TableSchema(Arc::clone(state.schema())),
            partition_columns: state.partition_columns().to_vec(),
            mapping: state.mapping().as_str().to_owned(),
            ids: command.stored_ids()?,
            records_changes: command.records_changes(),
            by_vector,
            dry_run: command.is_dry_run(),
        })
    }

    /// The table's store for a task: one that discards what is written, in a dry run.
    pub fn store(&self, table: Store) -> Result<Store> {
        if self.dry_run { table.dry_run() } else { Ok(table) }
    }

    fn sink(&self, store: &Store) -> Result<RowSink> {
        RowSink::new(store, self.write.write_spec()?, self.ids.clone(), self.records_changes)
    }

    /// How whole rows of the table are read, with their ids.
    pub fn read_spec(&self) -> Result<ReadSpec> {
        let schema = Arc::clone(&self.schema.0);
        let mut columns: Vec<String> = schema.fields().iter().map(|f| f.name.clone()).collect();
        let mut spec = ReadSpec::new(schema, self.partition_columns.clone());
        spec.mapping = Mapping::parse(&self.mapping)?;
        if let Some(ids) = &self.ids {
            columns.extend([ROW_ID.to_owned(), ROW_COMMIT_VERSION.to_owned()]);
            spec.stored_row_ids = Some(ids.id.clone());
            spec.stored_row_commit_versions = Some(ids.version.clone());
        }
        spec.columns = Some(columns);
        Ok(spec)
    }
}

/// Writes rows of one task to files that no log names yet, recorded as this change.
///
/// With `inserts` the rows are new in the table: identity columns that they lack are filled from
/// the range of the task's number.
///
/// # Errors
/// The first error of the rows, of their cast to the table's types or of the store; the files are
/// deleted then.
pub fn write_rows(
    store: &Store,
    spec: &TaskSpec,
    rows: impl Iterator<Item = Result<RecordBatch>>,
    change: Option<&str>,
    inserts: bool,
    task: u32,
) -> Result<Outcome> {
    let fills = if inserts { spec.write.fills() } else { Vec::new() };
    let mut identity = IdentityValues::new(fills, task);
    let mut sink = spec.sink(store)?;
    let mut outcome = Outcome {
        task,
        ..Outcome::default()
    };
    block_on(async {
        for batch in rows {
            let batch = batch.and_then(|b| identity.fill(b));
            let put = async {
                let batch = batch?;
                outcome.written_rows += batch.num_rows();
                sink.write(&batch).await?;
                match change {
                    Some(change) => sink.record(&batch, change).await,
                    None => Ok(()),
                }
            };
            if let Err(e) = put.await {
                sink.abort().await;
                return Err(e);
            }
        }
        let written = sink.finish().await?;
        (outcome.adds, outcome.cdc) = (written.adds, written.cdc);
        identity_columns::stamp(&mut outcome.adds, &identity.last()?);
        Ok(outcome)
    })
}

/// Deletes rows of files: by deletion vectors where files take one, else by copying the other rows.
///
/// `rows` has a row for each row to be deleted, with its file's decoded path (`file`), its position
/// (`row`) and the number of the clause that deletes it (`act`), and for each file a row with its
/// add action as JSON (`add`). Clauses in `deletes` may name a row several times. With `records`
/// the old rows are recorded, where the table records changes, as deleted by these and as updated
/// by others.
///
/// # Errors
/// `Internal` for other columns and for a file without its add action; what reading and writing
/// files raises.
pub fn take_out_rows(
    store: &Store,
    spec: &TaskSpec,
    rows: impl Iterator<Item = Result<RecordBatch>>,
    deletes: Vec<i32>,
    records: bool,
) -> Result<Outcome> {
    let mut named = Named::new(deletes);
    for batch in rows {
        named.collect(&batch?)?;
    }
    let twice = named.files.values().map(|f| f.twice.len()).sum();
    if twice > 0 {
        return Ok(Outcome {
            twice,
            ..Outcome::default()
        });
    }
    let counted = named.counted();
    let mut outcome = block_on(take(store, spec, named.files.into_values().collect(), records))?;
    outcome.taken_out = counted;
    Ok(outcome)
}

/// The rows of a file that go.
#[derive(Default)]
struct Going {
    add: Option<Add>,
    updated: Positions,
    deleted: Positions,
    twice: Positions,
    by_act: BTreeMap<i32, u64>,
}

/// The rows that a stream names.
struct Named {
    deletes: Vec<i32>,
    files: HashMap<String, Going>,
}

impl Named {
    fn new(deletes: Vec<i32>) -> Self {
        Named {
            deletes,
            files: HashMap::new(),
        }
    }

    fn counted(&self) -> BTreeMap<i32, u64> {
        let mut sums = BTreeMap::new();
        for (act, rows) in self.files.values().flat_map(|f| &f.by_act) {
            *sums.entry(*act).or_default() += rows;
        }
        sums
    }

    fn collect(&mut self, batch: &RecordBatch) -> Result<()> {
        let wrong = || Error::internal("rows are taken out by the columns file, row, act and add");
        let column = |name: &str, to: &DataType| {
            let input = batch.column_by_name(name).ok_or_else(wrong)?;
            arrow::compute::cast(input, to).map_err(|_| wrong())
        };
        let (files, adds) = (column("file", &DataType::Utf8)?, column("add", &DataType::Binary)?);
        let (rows, acts) = (column("row", &DataType::Int64)?, column("act", &DataType::Int32)?);
        let (files, adds) = (files.as_string::<i32>(), adds.as_binary::<i32>());
        let (rows, acts) = (rows.as_primitive::<Int64Type>(), acts.as_primitive::<Int32Type>());
        for index in 0..batch.num_rows() {
            if files.is_null(index) {
                return Err(wrong());
            }
            // Most rows stand beside others of their file.
            let file = match self.files.get_mut(files.value(index)) {
                Some(file) => file,
                None => self.files.entry(files.value(index).to_owned()).or_default(),
            };
            if adds.is_valid(index) {
                let add = serde_json::from_slice(adds.value(index));
                file.add = Some(add.map_err(|e| Error::internal(format!("not an add action: {e}")))?);
                continue;
            }
            let row = u64::try_from(rows.value(index)).map_err(|_| wrong())?;
            let act = acts.value(index);
            file.take(row, act, self.deletes.contains(&act));
        }
        Ok(())
    }
}

impl Going {
    fn take(&mut self, row: u64, act: i32, deletes: bool) {
        if self.updated.contains(row) || (!deletes && self.deleted.contains(row)) {
            self.twice.insert(row);
            return;
        }
        if self.deleted.contains(row) {
            return;
        }
        if deletes {
            self.deleted.insert(row);
        } else {
            self.updated.insert(row);
        }
        *self.by_act.entry(act).or_default() += 1;
    }

    fn picked(&self) -> Result<SelectedFile> {
        let mut rows = self.updated.clone();
        rows.union(&self.deleted);
        match &self.add {
            Some(add) => Ok(SelectedFile::new(add.clone(), rows)),
            None => Err(Error::internal(
                "rows of a file that the driver didn't name are taken out",
            )),
        }
    }
}

async fn take(store: &Store, spec: &TaskSpec, going: Vec<Going>, records: bool) -> Result<Outcome> {
    let mut sink = spec.sink(store)?;
    match write_others(store, spec, &going, records, &mut sink).await {
        Ok((files, outcome)) => {
            let written = sink.finish().await?;
            let out = delete_rows(store, &files, spec.by_vector, now_ms(), new_id()).await?;
            Ok(Outcome {
                adds: written.adds,
                cdc: written.cdc,
                marked: out.adds,
                removes: out.removes,
                vector_file: out.vector_file,
                ..outcome
            })
        }
        Err(e) => {
            sink.abort().await;
            Err(e)
        }
    }
}

/// Records the rows that go, and writes those that stay in files that go; a dry run doesn't read
/// these.
async fn write_others(
    store: &Store,
    spec: &TaskSpec,
    going: &[Going],
    records: bool,
    sink: &mut RowSink,
) -> Result<(Vec<SelectedFile>, Outcome)> {
    let read = Arc::new(spec.read_spec()?);
    let rows_of = |file: FileRead| scan(store.clone(), stream::iter([Ok(file)]).boxed(), read.clone(), 1);
    let (mut files, mut outcome) = (Vec::with_capacity(going.len()), Outcome::default());
    for file_edits in going {
        let file = file_edits.picked()?;
        for (rows, change) in [
            (&file_edits.updated, "update_preimage"),
            (&file_edits.deleted, "delete"),
        ] {
            if !records || !spec.records_changes || rows.is_empty() {
                continue;
            }
            let these = SelectedFile {
                add: file.add.clone(),
                rows: Some(Arc::new(rows.clone())),
            };
            let mut old = rows_of(these.selected()?);
            while let Some(batch) = old.try_next().await? {
                sink.record(&batch, change).await?;
            }
        }
        if !(spec.by_vector && file.takes_vector())
            && let Some(others) = file.others()?
        {
            match file.others_by_the_log() {
                (Some(rows), size) if spec.dry_run => {
                    outcome.copied_rows += usize::try_from(rows).unwrap_or(usize::MAX);
                    let add = file.add.clone();
                    outcome.copies.extend((rows > 0).then_some(Add { size, ..add }));
                }
                _ => {
                    let mut others = rows_of(others);
                    while let Some(batch) = others.try_next().await? {
                        outcome.copied_rows += batch.num_rows();
                        sink.write(&batch).await?;
                    }
                }
            }
        }
        files.push(file);
    }
    Ok((files, outcome))
}
