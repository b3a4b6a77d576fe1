//! Writing: plan on the driver, files anywhere, commit on the driver.

use std::time::Duration;

use deltaplane_boundary::boundary;
use deltaplane_error::Result;
use deltaplane_log::{AFTER_COMMIT, DryRun, Protocols, WriteRequest, own_commits};
use deltaplane_operations::core_functions;
use deltaplane_operations::newest_version::NewestVersion as Newest;
use deltaplane_operations::table_types;
use deltaplane_operations::write_job::{self, AdoptedFile, CommitResult, Spec, WriteJob as Job, delete_paths};
use deltaplane_protocol::actions::PartitionValues;
use deltaplane_protocol::arrow_types::from_arrow_schema;
use deltaplane_store::{begin_thread_limit, block_on, end_thread_limit, finish_background as finish};
use futures::StreamExt;
use pyo3::prelude::*;

use crate::arrow_bridge::ArrowStream;
use crate::incoming::{Columns, Rows};
use crate::record::Record;
use crate::session_options::{Options, PythonSession, create_by, store};
use crate::table_schema::TableSchema;
use crate::values::added_files::AddedFiles;

/// The newest version of a table, which is asked for in the background.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct NewestVersion(Newest);

#[boundary]
impl NewestVersion {
    /// `None` if this process knows no commit of its own that a listing could begin with.
    #[staticmethod]
    #[pyo3(signature = (location, options))]
    fn ask(location: &str, options: Options) -> Result<Option<Self>> {
        // The write itself says why a store can't be opened, or creates the table.
        let own = store(location, options).ok().and_then(|store| own_commits::of(&store));
        Ok(block_on(async { own.as_ref().and_then(Newest::ask) }).map(NewestVersion))
    }
}

/// A write that was checked against the table.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct WriteJob(Job);

#[boundary]
impl WriteJob {
    #[staticmethod]
    #[pyo3(signature = (location, options, schema, request, ahead = false, newest = None))]
    fn begin(
        location: &str,
        options: Options,
        schema: Columns,
        request: Record<WriteRequest>,
        ahead: bool,
        newest: Option<&NewestVersion>,
    ) -> Result<Self> {
        create_by(location, options, |store, required| {
            let (schema, request) = (from_arrow_schema(&schema.0)?, request.0.requiring(required));
            let own = own_commits::of(store);
            let job = match (newest, ahead) {
                (Some(newest), _) => block_on(Job::begin_on(store, own.as_ref(), &newest.0, schema, request)),
                (None, true) => block_on(Job::begin_ahead(store, own.as_ref(), schema, request)),
                (None, false) => block_on(Job::begin(store, own.as_ref(), schema, request)),
            };
            job.map(WriteJob)
        })
    }

    /// Whether files of a job that was begun ahead fit the newest version.
    fn confirm(&self, has_failed: bool) -> Result<bool> {
        block_on(self.0.confirm(has_failed))
    }

    #[getter]
    fn skip(&self) -> Option<&'static str>;

    #[getter]
    fn location(&self) -> Result<String>;

    #[getter]
    fn protocols(&self) -> Result<Record<Protocols>> {
        self.0.protocols().map(|pair| Record(pair.into()))
    }

    #[getter]
    fn spec(&self) -> Result<Record<Spec>>;

    /// The version that it was planned on, if there is a table.
    #[getter]
    fn version(&self) -> Result<Option<u64>>;

    /// Whether the table wants rows shuffled to files of a good size before tasks write them.
    #[getter]
    fn optimizes(&self) -> Result<bool>;

    /// What the commit of these files would be.
    fn dry_run(&self, adds: &AddedFiles) -> Result<Record<DryRun>> {
        block_on(self.0.dry_run(adds.0.clone())).map(Record)
    }

    /// None where another writer made the table meanwhile, and the mode is `ignore`.
    fn commit(&self, adds: &AddedFiles) -> Result<Option<Record<CommitResult>>> {
        let committed = block_on(self.0.commit(adds.0.clone()))?;
        Ok(committed.map(|committed| Record(committed.into())))
    }
}

/// Waits for checksums of commits that are put in the background, at most this long.
#[boundary]
pub(crate) fn finish_background(most_seconds: f64) -> Result<()> {
    finish(Duration::from_secs_f64(most_seconds.clamp(0.0, 3600.0)));
    Ok(())
}

/// Bounds how long this thread waits for a failing store, as after a commit, until
/// `end_after_commit` is called as often.
#[boundary]
pub(crate) fn begin_after_commit() -> Result<()> {
    begin_thread_limit(AFTER_COMMIT);
    Ok(())
}

/// Ends what `begin_after_commit` began.
#[boundary]
pub(crate) fn end_after_commit() -> Result<()> {
    end_thread_limit();
    Ok(())
}

/// Deletes data files that won't be committed; what is gone already is fine.
#[boundary]
pub(crate) fn discard_files(location: &str, options: Options, adds: &AddedFiles) -> Result<()> {
    let paths = adds.0.iter().map(|add| add.path.as_str());
    block_on(delete_paths(&store(location, options)?, paths))
}

/// Writes data to new files of a table; they are invisible until committed. With `keep` false
/// nothing is stored.
#[boundary]
#[pyo3(signature = (location, options, spec, data, task = 0, keep = true))]
pub(crate) fn write_files(
    location: &str,
    options: Options,
    spec: Record<Spec>,
    data: Rows,
    task: u32,
    keep: bool,
) -> Result<AddedFiles> {
    let store = store(location, options)?;
    let store = if keep { store } else { store.dry_run()? };
    block_on(write_job::write_files(store, &spec.0, data.0, task)).map(AddedFiles)
}

/// Reads another engine's files, each with its path and its partition values, for exact statistics
/// unless none are wanted.
#[boundary]
#[pyo3(signature = (location, options, spec, files, statistics = true))]
pub(crate) fn adopt_files(
    location: &str,
    options: Options,
    spec: Record<Spec>,
    files: Vec<(String, PartitionValues)>,
    statistics: bool,
) -> Result<AddedFiles> {
    let files = files.into_iter();
    let files = files.map(|(path, partition_values)| AdoptedFile { path, partition_values });
    let store = store(location, options)?;
    block_on(write_job::adopt_files(&store, &spec.0, files.collect(), statistics)).map(AddedFiles)
}

/// Creates a table without rows; returns its version.
#[boundary]
pub(crate) fn create_table(
    location: &str,
    options: Options,
    schema: Columns,
    request: Record<WriteRequest>,
) -> Result<u64> {
    create_by(location, options, |store, required| {
        let (schema, request) = (from_arrow_schema(&schema.0)?, request.0.requiring(required));
        block_on(deltaplane_log::create_table(store, schema, request)).map(|snapshot| snapshot.version())
    })
}

/// Whether a table is here.
#[boundary]
#[pyo3(signature = (location, options = None))]
pub(crate) fn is_table(location: &str, options: Options) -> Result<bool> {
    deltaplane_catalog::named::is_table(location, options.unwrap_or_default(), &PythonSession)
}

/// The rows of a stream in the Arrow types that a table of its columns has; nulls may stand
/// everywhere. Columns that `table` has get its types: the fields of their structs are found by
/// name, ignoring case.
#[boundary]
#[pyo3(signature = (rows, table = None))]
pub(crate) fn rows_in_table_types(rows: Rows, table: Option<&TableSchema>) -> Result<ArrowStream> {
    let input_schema = rows.0.schema();
    let table = table.map(|table| table.schema.as_ref());
    let (schema, rows) = table_types::rows_in_table_types(rows.0, &input_schema, table)?;
    Ok((schema, futures::stream::iter(rows).boxed()).into())
}

/// The values of a function of the core for rows of its arguments, by the name in DuckDB.
#[boundary]
pub(crate) fn function_values(rows: Rows, name: &str) -> Result<ArrowStream> {
    let (schema, values) = core_functions::function_values(rows.0, name)?;
    Ok((schema, futures::stream::iter(values).boxed()).into())
}
