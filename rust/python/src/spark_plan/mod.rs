//! What Spark needs of the core: scan plans that the JVM reads in one go, splits for readers in
//! Python workers, URIs. Boundary functions only; the work is in the modules below.

mod blob;
mod columns;
mod plan;
mod replay;
mod row;
mod splits;

use std::collections::HashMap;
use std::sync::Arc;

use deltaplane_boundary::boundary;
use deltaplane_data::ReadSpec;
use deltaplane_error::{Error, Result};
use deltaplane_log::LogHead;
use deltaplane_protocol::expr::{Expr, Predicate};
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::schema::StructType;
use deltaplane_store::block_on;
use futures::StreamExt;
use futures::stream;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

pub(crate) use self::plan::by_uri;
use self::plan::{Files, Planned};
use self::splits::Split;
pub(crate) use self::splits::of_parts as split_parts;
use crate::arrow_bridge::{ArrowSchema, ArrowStream};
use crate::errors::run;
use crate::snapshot::{Snapshot, store};
use crate::write::delete_files;

/// Adds this module's names to the native module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<SparkPlan>()?;
    module.add_function(wrap_pyfunction!(spark_plan, module)?)?;
    module.add_function(wrap_pyfunction!(spark_plan_of, module)?)?;
    module.add_function(wrap_pyfunction!(spark_size_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(spark_file_uris, module)?)?;
    module.add_function(wrap_pyfunction!(spark_uri, module)?)?;
    module.add_function(wrap_pyfunction!(spark_schema_json, module)?)?;
    module.add_function(wrap_pyfunction!(scan_splits, module)?)?;
    module.add_function(wrap_pyfunction!(change_splits, module)?)?;
    module.add_function(wrap_pyfunction!(scan_split, module)?)?;
    module.add_function(wrap_pyfunction!(replay_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(replay_json, module)?)?;
    module.add_function(wrap_pyfunction!(replay_json_of, module)?)?;
    module.add_function(wrap_pyfunction!(replay_schema, module)?)?;
    module.add_function(wrap_pyfunction!(replay_checkpoint, module)?)?;
    module.add_function(wrap_pyfunction!(replay_commits, module)?)?;
    module.add_function(wrap_pyfunction!(replay_live, module)?)?;
    module.add_function(wrap_pyfunction!(discard_files, module)?)
}

/// The files of one scan, ready for the JVM.
#[pyclass(frozen, get_all, module = "deltaplane._native")]
pub(crate) struct SparkPlan {
    /// What the JVM reads.
    blob: Py<PyBytes>,
    /// How many files.
    files: usize,
    /// How many partition tuples.
    directories: usize,
    /// How many of the filters took part in pruning.
    understood: usize,
    /// Bytes of these files.
    size_bytes: u64,
    /// How many files were looked at.
    considered: u64,
    /// Their rows, where that was asked for and every file says.
    rows: Option<u64>,
}

/// The files (`all`, `whole` or `marked`: without or with a deletion vector) that can hold rows for which all of
/// Catalyst's filters (as `toJSON` texts, in a session time zone) are true; with `counts_rows` also how many rows they hold.
#[boundary]
#[pyfunction]
#[pyo3(signature = (snapshot, filters, zone, files, counts_rows = false))]
fn spark_plan(
    py: Python<'_>,
    snapshot: &Snapshot,
    filters: Vec<String>,
    zone: &str,
    files: &str,
    counts_rows: bool,
) -> PyResult<SparkPlan> {
    serialised(py, || {
        let files = Files::parse(files)?;
        block_on(plan::plan(&snapshot.inner, &filters, zone, files, counts_rows))
    })
}

/// The same of files that a distributed plan found by these filters: their add actions as JSON.
#[boundary]
#[pyfunction]
fn spark_plan_of(
    py: Python<'_>,
    snapshot: &Snapshot,
    adds: Vec<String>,
    filters: Vec<String>,
    zone: &str,
    files: &str,
) -> PyResult<SparkPlan> {
    serialised(py, || {
        block_on(plan::of_adds(
            &snapshot.inner,
            &adds,
            &filters,
            zone,
            Files::parse(files)?,
        ))
    })
}

fn serialised(py: Python<'_>, plan: impl FnOnce() -> Result<Planned> + Send) -> PyResult<SparkPlan> {
    let (planned, blob) = run(py, || {
        let planned = plan()?;
        let blob = blob::encode(&planned.directories)?;
        Ok((planned, blob))
    })?;
    Ok(SparkPlan {
        blob: PyBytes::new(py, &blob).unbind(),
        files: planned.directories.iter().map(|d| d.files.len()).sum(),
        directories: planned.directories.len(),
        understood: planned.understood,
        size_bytes: planned.size_bytes,
        considered: planned.considered,
        rows: planned.rows,
    })
}

/// Bytes of a version's files.
#[boundary]
#[pyfunction]
fn spark_size_bytes(py: Python<'_>, snapshot: &Snapshot, files: &str) -> PyResult<u64> {
    run(py, || block_on(plan::size_bytes(&snapshot.inner, Files::parse(files)?)))
}

/// URIs of a version's files, as Spark's file systems know them.
#[boundary]
#[pyfunction]
fn spark_file_uris(py: Python<'_>, snapshot: &Snapshot, files: &str) -> PyResult<Vec<String>> {
    run(py, || block_on(plan::uris(&snapshot.inner, Files::parse(files)?)))
}

/// URI of the table's root, as Spark's file systems know it.
#[boundary]
#[pyfunction]
fn spark_uri(py: Python<'_>, snapshot: &Snapshot) -> PyResult<String> {
    run(py, || plan::spark_uri(snapshot.inner.store().location()))
}

/// The schema of Spark's relation of the table's files, as JSON: the table's fields in their order, under the names
/// or with the field ids by which files have them.
#[boundary]
#[pyfunction]
fn spark_schema_json(snapshot: &Snapshot) -> String {
    columns::relation_schema(snapshot.inner.state()).to_json()
}

/// The files that can match a predicate (expression JSON), in texts of about so many bytes of files each.
#[boundary]
#[pyfunction]
fn scan_splits(
    py: Python<'_>,
    snapshot: &Snapshot,
    predicate: Option<&str>,
    target_bytes: u64,
) -> PyResult<Vec<String>> {
    run(py, || {
        block_on(splits::splits(&snapshot.inner, predicate, target_bytes))
    })
}

/// The files with the rows that the versions from `first` up to the snapshot's changed, likewise.
#[boundary]
#[pyfunction]
fn change_splits(
    py: Python<'_>,
    snapshot: &Snapshot,
    first: u64,
    predicate: Option<&str>,
    target_bytes: u64,
) -> PyResult<Vec<String>> {
    run(py, || {
        block_on(splits::change_splits(&snapshot.inner, first, predicate, target_bytes))
    })
}

/// The rows of one split, on any machine: these columns of a table with this schema, where the predicate
/// (expression JSON) is true.
#[boundary]
#[pyfunction]
#[allow(
    clippy::too_many_arguments,
    reason = "each is a part of a scan that travels by itself"
)]
fn scan_split(
    py: Python<'_>,
    location: &str,
    options: Option<HashMap<String, String>>,
    schema_json: &str,
    mapping: &str,
    partition_columns: Vec<String>,
    columns: Vec<String>,
    predicate: Option<&str>,
    split: &str,
) -> PyResult<ArrowStream> {
    let (schema, stream) = run(py, || {
        let store = store(location, options)?;
        let (constants, files) = Split::parse(split)?.into_parts();
        let table = Arc::new(StructType::from_json(schema_json)?);
        let predicate = predicate
            .map(|text| Predicate::bind(&Expr::from_json(text)?, &table))
            .transpose()?;
        let mut spec = ReadSpec::new(table, partition_columns);
        spec.mapping = Mapping::parse(mapping)?;
        spec.partition_columns.extend(constants);
        spec.predicate = predicate;
        spec.columns = Some(columns);
        let schema = spec.output_schema()?;
        // A Spark task has one core, and its siblings the others.
        let rows = deltaplane_data::scan(
            store,
            stream::iter(files.into_iter().map(Ok)).boxed(),
            Arc::new(spec),
            1,
        );
        Ok((schema, rows))
    })?;
    Ok(ArrowStream::new(schema, stream))
}

/// Bytes of the log's files that a plan of this version may have to read.
#[boundary]
#[pyfunction]
fn replay_bytes(snapshot: &Snapshot) -> u64 {
    snapshot.inner.replay_bytes()
}

/// A version's state and its log in parts of about so many bytes, as JSON: what a distributed plan begins with.
#[boundary]
#[pyfunction]
fn replay_json(py: Python<'_>, snapshot: &Snapshot, target_bytes: u64) -> PyResult<String> {
    let of = &snapshot.inner;
    run(py, || {
        Ok(replay::described(
            of.version(),
            of.state(),
            &block_on(of.replay_parts(target_bytes))?,
        ))
    })
}

/// The same of a table that isn't open: what its commits say of files is read past, not held.
#[boundary]
#[pyfunction]
fn replay_json_of(
    py: Python<'_>,
    location: &str,
    options: Option<HashMap<String, String>>,
    version: Option<u64>,
    timestamp_ms: Option<i64>,
    target_bytes: u64,
) -> PyResult<String> {
    run(py, || {
        let store = store(location, options)?;
        // Refuses what other processes can't see.
        plan::spark_uri(store.location())?;
        let (head, parts) = block_on(async {
            let head = match timestamp_ms {
                Some(at) => LogHead::open_at(&store, at).await?,
                None => LogHead::open(&store, version).await?,
            };
            let parts = head.replay_parts(target_bytes).await?;
            Ok::<_, Error>((head, parts))
        })?;
        Ok(replay::described(head.version(), head.state(), &parts))
    })
}

/// What a distributed plan (JSON) shows of each file.
#[boundary]
#[pyfunction]
fn replay_schema(py: Python<'_>, plan: &str) -> PyResult<ArrowSchema> {
    Ok(ArrowSchema(run(py, || Ok(replay::Plan::parse(plan)?.schema()))?))
}

/// The files in a part of the checkpoint that may match, whatever the commits after it say, on any machine.
#[boundary]
#[pyfunction]
fn replay_checkpoint(
    py: Python<'_>,
    location: &str,
    options: Option<HashMap<String, String>>,
    plan: &str,
    part: &str,
) -> PyResult<ArrowStream> {
    let (schema, rows) = run(py, || {
        replay::Plan::parse(plan)?.checkpoint_files(&store(location, options)?, part)
    })?;
    Ok(ArrowStream::new(schema, rows))
}

/// What a part of the commits says of files, on any machine: the keys alone, or each word to be reconciled.
#[boundary]
#[pyfunction]
fn replay_commits(
    py: Python<'_>,
    location: &str,
    options: Option<HashMap<String, String>>,
    part: &str,
    keys_only: bool,
) -> PyResult<ArrowStream> {
    let (schema, rows) = run(py, || replay::commit_words(&store(location, options)?, part, keys_only))?;
    Ok(ArrowStream::new(schema, rows))
}

/// Those of these files (JSON of add actions), which are known to live, that may match.
#[boundary]
#[pyfunction]
fn replay_live(py: Python<'_>, plan: &str, adds: Vec<String>) -> PyResult<ArrowStream> {
    let (schema, rows) = run(py, || replay::Plan::parse(plan)?.live_files(&adds))?;
    Ok(ArrowStream::new(schema, rows))
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
    run(py, || delete_files(&store(location, options)?, &adds))
}
