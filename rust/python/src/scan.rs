//! Rows of one version as an Arrow stream: plan of the log, rows of the data crate.

use std::sync::Arc;

use arrow::array::RecordBatch;
use deltaplane_boundary::boundary;
use deltaplane_data::{FileRead, Members, ROW_COMMIT_VERSION, ROW_ID, ReadSpec};
use deltaplane_error::{Error, Result};
use deltaplane_log::{PlanColumns, Snapshot};
use deltaplane_protocol::expr::{Expr, Predicate};
use deltaplane_protocol::features::row_tracking;
use deltaplane_protocol::prune::Pruner;
use deltaplane_protocol::state::TableState;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow_bridge::{LastError, raise_last, schema_capsule, stream_capsule};
use crate::errors::run;
use crate::file_sets::{FileSet, file_reads};
use crate::incoming::Incoming;

/// Rows of one version; each reader starts anew.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct Scan {
    snapshot: Snapshot,
    spec: Arc<ReadSpec>,
    files: Files,
    error: LastError,
}

/// The files of a scan.
enum Files {
    /// Those that may hold rows which the pruner keeps.
    Planned(Option<Arc<Pruner>>),
    /// These.
    Listed(Vec<FileRead>),
    /// Of a version, that may be another one than the columns', what these files lack.
    MissingRows(Snapshot, Arc<FileSet>),
}

/// All rows of a version with these columns.
pub(crate) fn read_spec(snapshot: &Snapshot, columns: Option<Vec<String>>) -> Result<ReadSpec> {
    let state = snapshot.state();
    refuse_missing_ids(snapshot, columns.as_deref())?;
    let mut spec = ReadSpec::new(state.schema().clone(), state.partition_columns().to_vec());
    spec.mapping = state.mapping();
    spec.columns = columns;
    (spec.stored_row_ids, spec.stored_row_commit_versions) = row_tracking::materialised(state.metadata());
    Ok(spec)
}

/// The values of a stream's first column, as those of which a column has to hold one; `None` for types that aren't looked up.
pub(crate) fn members_of(column: &str, values: Incoming, nulls: bool) -> Result<Option<Members>> {
    let batches = values.collect::<Result<Vec<_>>>()?;
    let arrays: Vec<_> = batches.iter().filter_map(|b| b.columns().first().cloned()).collect();
    Ok(Members::new(column, &arrays, nulls))
}

/// Binds predicate text to a snapshot.
pub(crate) fn bind(snapshot: &Snapshot, predicate: Option<&str>) -> Result<Option<(Predicate, Arc<Pruner>)>> {
    bind_to(snapshot.state(), predicate)
}

/// The same to the table's state.
pub(crate) fn bind_to(state: &TableState, predicate: Option<&str>) -> Result<Option<(Predicate, Arc<Pruner>)>> {
    let Some(text) = predicate else { return Ok(None) };
    let predicate = Predicate::bind(&Expr::from_json(text)?, state.schema())?;
    let pruner = Pruner::new(&predicate, state.schema(), state.partition_columns(), state.mapping())?;
    Ok(Some((predicate, Arc::new(pruner))))
}

/// The names that one state's schema has for the columns by which another one is partitioned.
fn partition_columns_of(state: &TableState, named_by: &TableState) -> Vec<String> {
    let key = |of: &TableState, column: &str| of.mapping().partition_key(of.schema(), column).to_owned();
    let keys: Vec<String> = state.partition_columns().iter().map(|c| key(state, c)).collect();
    let fields = named_by.schema().fields().iter().map(|f| f.name.clone());
    fields.filter(|name| keys.contains(&key(named_by, name))).collect()
}

/// Row ids are asked for only of tables that have them (P143).
fn refuse_missing_ids(snapshot: &Snapshot, columns: Option<&[String]>) -> Result<()> {
    let wanted = columns.unwrap_or_default().iter().find(|name| {
        [ROW_ID, ROW_COMMIT_VERSION].contains(&name.as_str()) && snapshot.schema().field_ignore_case(name).is_none()
    });
    match wanted {
        Some(name) if !row_tracking::is_on(snapshot.state().metadata()) => Err(Error::invalid_argument(format!(
            "the column `{name}` is there only in tables with row tracking (delta.enableRowTracking = true), which this one hasn't"
        ))),
        _ => Ok(()),
    }
}

impl Scan {
    pub(crate) fn new(
        snapshot: &Snapshot,
        columns: Option<Vec<String>>,
        predicate: Option<&str>,
        batch_rows: Option<usize>,
        encoded_files: bool,
        members: Option<Members>,
    ) -> Result<Self> {
        let bound = bind(snapshot, predicate)?;
        let (predicate, pruner) = bound.unzip();
        let mut spec = read_spec(snapshot, columns)?;
        spec.predicate = predicate;
        spec.encoded_files = encoded_files;
        spec.members = members.map(Arc::new);
        if let Some(n) = batch_rows {
            spec.batch_rows = n.max(1);
        }
        spec.output_schema()?;
        Ok(Scan {
            snapshot: snapshot.clone(),
            spec: Arc::new(spec),
            files: Files::Planned(pruner),
            error: LastError::default(),
        })
    }

    /// The rows of these files of a version; `_file` comes as a dictionary.
    pub(crate) fn of_files(snapshot: &Snapshot, files: Vec<FileRead>, columns: Vec<String>) -> Result<Self> {
        Ok(Scan {
            snapshot: snapshot.clone(),
            spec: Arc::new(ReadSpec {
                encoded_files: true,
                ..read_spec(snapshot, Some(columns))?
            }),
            files: Files::Listed(files),
            error: LastError::default(),
        })
    }

    /// The rows that a version has in files, or has left in files, which another version hasn't; as this snapshot's columns.
    pub(crate) fn of_rows_missing_in(
        snapshot: &Snapshot,
        of: &Snapshot,
        others: FileSet,
        columns: Vec<String>,
    ) -> Result<Self> {
        let mut spec = read_spec(snapshot, Some(columns))?;
        spec.partition_columns = partition_columns_of(of.state(), snapshot.state());
        spec.output_schema()?;
        Ok(Scan {
            snapshot: snapshot.clone(),
            spec: Arc::new(spec),
            files: Files::MissingRows(of.clone(), Arc::new(others)),
            error: LastError::default(),
        })
    }

    fn file_stream(&self) -> BoxStream<'static, Result<FileRead>> {
        match &self.files {
            Files::Listed(files) => stream::iter(files.clone().into_iter().map(Ok)).boxed(),
            Files::MissingRows(of, others) => {
                let others = others.clone();
                of.plan(None, PlanColumns::Logged)
                    .map(|b| file_reads(&b?))
                    .map_ok(move |files| {
                        let with_missing_rows: Vec<_> = files
                            .into_iter()
                            .filter_map(|f| others.rows_missing_in(f))
                            .map(Ok)
                            .collect();
                        stream::iter(with_missing_rows)
                    })
                    .try_flatten()
                    .boxed()
            }
            Files::Planned(pruner) => self
                .snapshot
                .plan(pruner.clone(), PlanColumns::Logged)
                .map(|b| file_reads(&b?))
                .map_ok(|files| stream::iter(files.into_iter().map(Ok)))
                .try_flatten()
                .boxed(),
        }
    }

    /// The rows.
    pub(crate) fn stream(&self) -> BoxStream<'static, Result<RecordBatch>> {
        let files = self.file_stream();
        let parallelism = deltaplane_data::processors();
        let (table, version) = (
            self.snapshot.store().location().as_str().to_owned(),
            self.snapshot.version(),
        );
        deltaplane_data::scan(self.snapshot.store().clone(), files, self.spec.clone(), parallelism)
            .map_err(move |e| e.with_table(&table).with_version(version))
            .boxed()
    }
}

#[boundary]
#[pymethods]
impl Scan {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol lets a producer ignore the request; the consumer casts.
        drop(requested_schema);
        let schema = run(py, || self.spec.output_schema())?;
        stream_capsule(py, schema, self.stream(), self.error.clone())
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = run(py, || self.spec.output_schema())?;
        schema_capsule(py, &schema)
    }

    /// Raises the error that ended the last stream, as its own class: C streams carry text alone.
    fn raise_error(&self) -> PyResult<()> {
        raise_last(&self.error)
    }
}
