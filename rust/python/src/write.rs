//! Writing: plan on the driver, files anywhere, commit on the driver.

use std::collections::HashMap;

use deltaplane_boundary::boundary;
use deltaplane_error::Result;
use deltaplane_log::{DryRun, Protocols, WriteRequest};
pub(crate) use deltaplane_operations::write_job::Spec;
use deltaplane_operations::write_job::{self, AdoptedFile, CommitResult, WriteJob as Job, add_texts, parse_adds};
use deltaplane_operations::{snapshot_cache, table_types};
use deltaplane_protocol::arrow_types::{from_arrow_schema, to_arrow_schema_with_metadata};
use deltaplane_protocol::features::arrow_metadata;
use deltaplane_protocol::schema::StructType;
use deltaplane_store::{Store, block_on};
use futures::StreamExt;
use pyo3::prelude::*;

use crate::arrow_bridge::{ArrowSchema, ArrowStream};
use crate::errors::run;
use crate::incoming::{reader_of, schema_of};
use crate::record::Record;
use crate::snapshot::{Snapshot, store};
use crate::table_schema::TableSchema;

/// Adds this module's names to the native module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<WriteJob>()?;
    module.add_function(wrap_pyfunction!(write_files, module)?)?;
    module.add_function(wrap_pyfunction!(discard_files, module)?)?;
    module.add_function(wrap_pyfunction!(adopt_files, module)?)?;
    module.add_function(wrap_pyfunction!(create_table, module)?)?;
    module.add_function(wrap_pyfunction!(is_table, module)?)?;
    module.add_function(wrap_pyfunction!(schema_from_arrow, module)?)?;
    module.add_function(wrap_pyfunction!(schema_to_arrow, module)?)?;
    module.add_function(wrap_pyfunction!(rows_in_table_types, module)?)
}

/// A write that was checked against the table.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct WriteJob {
    job: Job,
    location: String,
    options: Option<HashMap<String, String>>,
}

/// Deletes files by their paths in the log.
pub(crate) fn delete_paths<'a>(store: &Store, logged: impl Iterator<Item = &'a str>) -> Result<()> {
    block_on(write_job::delete_paths(store, logged))
}

#[boundary]
#[pymethods]
impl WriteJob {
    #[staticmethod]
    fn begin(
        py: Python<'_>,
        location: &str,
        options: Option<HashMap<String, String>>,
        schema: &Bound<'_, PyAny>,
        request: Record<WriteRequest>,
    ) -> PyResult<Self> {
        let schema = schema_of(schema)?;
        let job = run(py, || {
            let store = store(location, options.clone())?;
            let (schema, request) = (from_arrow_schema(&schema)?, request.0);
            block_on(Job::begin(&store, snapshot_cache::of(&store).as_ref(), schema, request))
        })?;
        Ok(WriteJob {
            job,
            location: location.to_owned(),
            options,
        })
    }

    #[getter]
    fn skip(&self) -> Option<&'static str> {
        self.job.skip()
    }

    #[getter]
    fn protocols(&self, py: Python<'_>) -> PyResult<Record<Protocols>> {
        run(py, || self.job.protocols()).map(|pair| Record(pair.into()))
    }

    #[getter]
    fn spec(&self, py: Python<'_>) -> PyResult<Record<Spec>> {
        run(py, || self.job.spec()).map(Record)
    }

    /// The version that it was planned on, if there is a table.
    #[getter]
    fn version(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        run(py, || self.job.version())
    }

    /// Whether the table wants rows shuffled to files of a good size before tasks write them.
    #[getter]
    fn optimizes(&self, py: Python<'_>) -> PyResult<bool> {
        run(py, || self.job.optimizes())
    }

    /// What the commit of these files would be.
    fn dry_run(&self, py: Python<'_>, adds: Vec<String>) -> PyResult<Record<DryRun>> {
        run(py, || block_on(self.job.dry_run(parse_adds(&adds)?))).map(Record)
    }

    /// None where another writer made the table meanwhile, and the mode is `ignore`.
    fn commit(&self, py: Python<'_>, adds: Vec<String>) -> PyResult<Option<Record<CommitResult>>> {
        let committed = run(py, || block_on(self.job.commit(parse_adds(&adds)?)));
        committed.map(|committed| committed.map(|committed| Record(committed.into())))
    }

    /// The table's newest version.
    fn newest(&self, py: Python<'_>) -> PyResult<Snapshot> {
        let inner = run(py, || {
            let store = store(&self.location, self.options.clone())?;
            block_on(deltaplane_log::Snapshot::open(&store, None))
        })?;
        Ok(Snapshot { inner })
    }

    fn abort(&self, py: Python<'_>, adds: Vec<String>) -> PyResult<()> {
        discard_files(py, &self.location, self.options.clone(), adds)
    }
}

/// Deletes data files that won't be committed (texts of add actions); what is gone already is fine.
#[boundary]
#[pyfunction]
fn discard_files(
    py: Python<'_>,
    location: &str,
    options: Option<HashMap<String, String>>,
    adds: Vec<String>,
) -> PyResult<()> {
    run(py, || {
        let (store, adds) = (store(location, options)?, parse_adds(&adds)?);
        delete_paths(&store, adds.iter().map(|add| add.path.as_str()))
    })
}

/// Writes data to new files of a table; they are invisible until committed. With `keep` false
/// nothing is stored.
#[boundary]
#[pyfunction]
#[pyo3(signature = (location, options, spec, data, task = 0, keep = true))]
fn write_files(
    py: Python<'_>,
    location: &str,
    options: Option<HashMap<String, String>>,
    spec: Record<Spec>,
    data: &Bound<'_, PyAny>,
    task: u32,
    keep: bool,
) -> PyResult<Vec<String>> {
    let rows = reader_of(data)?;
    run(py, || {
        let store = match store(location, options)? {
            store if keep => store,
            store => store.dry_run()?,
        };
        add_texts(&block_on(write_job::write_files(store, &spec.0, rows, task))?)
    })
}

/// Reads another engine's files for exact statistics, unless none are wanted, and returns their add
/// actions.
#[boundary]
#[pyfunction]
#[pyo3(signature = (location, options, spec, files, statistics = true))]
fn adopt_files(
    py: Python<'_>,
    location: &str,
    options: Option<HashMap<String, String>>,
    spec: Record<Spec>,
    files: Vec<String>,
    statistics: bool,
) -> PyResult<Vec<String>> {
    run(py, || {
        let store = store(location, options)?;
        let files = files
            .iter()
            .map(|text| AdoptedFile::parse(text))
            .collect::<Result<_>>()?;
        add_texts(&block_on(write_job::adopt_files(&store, &spec.0, files, statistics))?)
    })
}

/// Creates a table without rows; returns its version.
#[boundary]
#[pyfunction]
fn create_table(
    py: Python<'_>,
    location: &str,
    options: Option<HashMap<String, String>>,
    schema: &Bound<'_, PyAny>,
    request: Record<WriteRequest>,
) -> PyResult<u64> {
    let schema = schema_of(schema)?;
    let snapshot = run(py, || {
        let (store, schema) = (store(location, options)?, from_arrow_schema(&schema)?);
        block_on(deltaplane_log::create_table(&store, schema, request.0))
    })?;
    Ok(snapshot.version())
}

/// Whether a table is here.
#[boundary]
#[pyfunction]
#[pyo3(signature = (location, options = None))]
fn is_table(py: Python<'_>, location: &str, options: Option<HashMap<String, String>>) -> PyResult<bool> {
    run(py, || block_on(deltaplane_log::is_table(&store(location, options)?)))
}

/// The Delta schema that holds every value of an Arrow schema.
#[boundary]
#[pyfunction]
fn schema_from_arrow(py: Python<'_>, schema: &Bound<'_, PyAny>) -> PyResult<TableSchema> {
    let schema = schema_of(schema)?;
    run(py, || arrow_metadata::from_arrow_text(&from_arrow_schema(&schema)?)).map(Into::into)
}

/// The Arrow schema of a Delta schema given as JSON.
#[boundary]
#[pyfunction]
fn schema_to_arrow(py: Python<'_>, schema_json: &str) -> PyResult<ArrowSchema> {
    run(py, || {
        let schema = arrow_metadata::shareable(&StructType::from_json(schema_json)?);
        Ok(ArrowSchema(to_arrow_schema_with_metadata(&schema)))
    })
}

/// The rows of a stream in the Arrow types that a table of its columns has; nulls may stand
/// everywhere. Columns that `table` has, a schema as JSON, get its types: the fields of their
/// structs are found by name, ignoring case.
#[boundary]
#[pyfunction]
#[pyo3(signature = (rows, table = None))]
fn rows_in_table_types(py: Python<'_>, rows: &Bound<'_, PyAny>, table: Option<&str>) -> PyResult<ArrowStream> {
    let rows = reader_of(rows)?;
    let (schema, rows) = run(py, || {
        let table = table.map(StructType::from_json).transpose()?;
        let input_schema = rows.schema();
        table_types::rows_in_table_types(rows, &input_schema, table.as_ref())
    })?;
    Ok(ArrowStream::new(schema, futures::stream::iter(rows).boxed()))
}
