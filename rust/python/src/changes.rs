//! The change data feed as an Arrow stream and as splits for Spark: changed rows of files, with what happened
//! to them, when and in which version as constants of their files. Boundary; the plan is the log's, rows are the data crate's.

use std::sync::Arc;

use arrow::array::RecordBatch;
use deltaplane_boundary::boundary;
use deltaplane_data::{FileRead, ReadSpec};
use deltaplane_error::Result;
use deltaplane_log::{CommittedChange, Snapshot};
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::changes::feed_schema;
use deltaplane_protocol::expr::{Expr, Predicate};
use deltaplane_protocol::files::adds_to_batch;
use deltaplane_protocol::prune::Pruner;
use deltaplane_protocol::schema::StructType;
use deltaplane_store::Store;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow_bridge::{LastError, raise_last, schema_capsule, stream_capsule};
use crate::errors::run;

/// Changes that are read in one go: the columns that are constants of a file are the same for all of them.
pub(crate) struct Part {
    pub(crate) constants: Vec<&'static str>,
    pub(crate) files: Vec<FileRead>,
}

/// What the versions from `first` up to the snapshot's changed, oldest first, as far as it can match.
pub(crate) async fn parts(snapshot: &Snapshot, first: u64, predicate: Option<&str>) -> Result<Vec<Part>> {
    parts_of(snapshot, snapshot.changes(first).await?, predicate)
}

/// The same of changes that are known, to be shown with the snapshot's columns.
pub(crate) fn parts_of(
    snapshot: &Snapshot,
    changes: Vec<CommittedChange>,
    predicate: Option<&str>,
) -> Result<Vec<Part>> {
    let keep = keep(snapshot, &changes, predicate)?;
    let mut parts: Vec<Part> = Vec::new();
    for (change, _) in changes.into_iter().zip(keep).filter(|(_, keep)| *keep) {
        let values = change.file.constants(change.version, change.timestamp_ms);
        let constants: Vec<&'static str> = values.iter().map(|(name, _)| *name).collect();
        let mut file = FileRead {
            path: change.file.path,
            size_bytes: u64::try_from(change.file.size).unwrap_or(0),
            partition_values: change.file.partition_values,
            deletion_vector: change.file.deletion_vector,
            only: change.file.only,
            ..FileRead::default()
        };
        let values = values.into_iter().map(|(name, text)| (name.to_owned(), Some(text)));
        file.partition_values.extend(values);
        match parts.last_mut() {
            Some(part) if part.constants == constants => part.files.push(file),
            _ => parts.push(Part {
                constants,
                files: vec![file],
            }),
        }
    }
    Ok(parts)
}

/// Which of the changes may hold a row for which the predicate is true, by partition values and statistics.
fn keep(snapshot: &Snapshot, changes: &[CommittedChange], predicate: Option<&str>) -> Result<Vec<bool>> {
    let schema = feed_schema(snapshot.schema())?;
    let Some(predicate) = bind(&schema, predicate)? else {
        return Ok(vec![true; changes.len()]);
    };
    let adds: Vec<Add> = changes
        .iter()
        .map(|c| Add {
            path: c.file.path.clone(),
            partition_values: c.file.partition_values.clone(),
            stats: c.file.stats.clone(),
            ..Add::default()
        })
        .collect();
    let state = snapshot.state();
    let pruner = Pruner::new(&predicate, &schema, state.partition_columns(), state.mapping())?;
    Ok(pruner.keep(&adds_to_batch(&adds)?)?.values().iter().collect())
}

fn bind(schema: &StructType, predicate: Option<&str>) -> Result<Option<Predicate>> {
    predicate
        .map(|text| Predicate::bind(&Expr::from_json(text)?, schema))
        .transpose()
}

/// Changed rows of a range of versions; each reader starts anew.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct Changes {
    store: Store,
    spec: ReadSpec,
    parts: Vec<(Arc<ReadSpec>, Vec<FileRead>)>,
    error: LastError,
}

impl Changes {
    pub(crate) async fn new(
        snapshot: &Snapshot,
        first: u64,
        columns: Option<Vec<String>>,
        predicate: Option<&str>,
    ) -> Result<Self> {
        let parts = parts(snapshot, first, predicate).await?;
        Self::of_parts(snapshot, parts, columns, predicate, true)
    }

    /// The rows of these parts, with the snapshot's columns or with those of its changes.
    pub(crate) fn of_parts(
        snapshot: &Snapshot,
        parts: Vec<Part>,
        columns: Option<Vec<String>>,
        predicate: Option<&str>,
        with_changes: bool,
    ) -> Result<Self> {
        let partition_columns = snapshot.state().partition_columns();
        let schema = match with_changes {
            true => Arc::new(feed_schema(snapshot.schema())?),
            false => snapshot.schema().clone(),
        };
        let mut spec = ReadSpec::new(schema, partition_columns.to_vec());
        spec.mapping = snapshot.state().mapping();
        spec.columns = columns;
        spec.predicate = bind(&spec.schema, predicate)?;
        spec.output_schema()?;
        let with_constants = |part: Part| {
            let mut spec = spec.clone();
            spec.partition_columns
                .extend(part.constants.into_iter().map(str::to_owned));
            (Arc::new(spec), part.files)
        };
        Ok(Changes {
            store: snapshot.store().clone(),
            parts: parts.into_iter().map(with_constants).collect(),
            spec,
            error: LastError::default(),
        })
    }

    fn stream(&self) -> BoxStream<'static, Result<RecordBatch>> {
        let parallelism = deltaplane_data::processors();
        let (store, table) = (self.store.clone(), self.store.location().as_str().to_owned());
        stream::iter(self.parts.clone())
            .flat_map(move |(spec, files)| {
                let files = stream::iter(files.into_iter().map(Ok)).boxed();
                deltaplane_data::scan(store.clone(), files, spec, parallelism)
            })
            .map_err(move |e| e.with_table(&table))
            .boxed()
    }
}

#[boundary]
#[pymethods]
impl Changes {
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

    /// How many files they are in.
    #[getter]
    fn num_files(&self) -> usize {
        self.parts.iter().map(|(_, files)| files.len()).sum()
    }

    /// Raises the error that ended the last stream, as its own class: C streams carry text alone.
    fn raise_error(&self) -> PyResult<()> {
        raise_last(&self.error)
    }
}
