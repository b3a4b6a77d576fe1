//! Plans of Spark scans: what the file index asks and is answered, splits for readers in Python
//! workers, distributed replay, URIs.

use std::collections::{BTreeMap, HashMap};

use deltaplane_boundary::boundary;
use deltaplane_error::Result;
use deltaplane_spark_plan::plan::{self, EncodedPlan, Files, Planned};
use deltaplane_spark_plan::question::{Answer, Asked, ColumnStatistics, Estimates, FoundFiles, JvmValue, Question};
pub(crate) use deltaplane_spark_plan::splits::of_parts as split_parts;
use deltaplane_spark_plan::splits::{self, SplitRead};
use deltaplane_spark_plan::{relation_schema, replay};
use deltaplane_store::block_on;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::arrow_bridge::{ArrowSchema, ArrowStream};
use crate::errors::run;
use crate::snapshot::{Snapshot, store};

type Options = Option<HashMap<String, String>>;

/// Adds this module's names to the native module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<SparkPlan>()?;
    module.add_class::<SparkQuestion>()?;
    module.add_class::<SparkAnswer>()?;
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
    module.add_function(wrap_pyfunction!(replay_live, module)?)
}

/// The files of one scan, ready for the JVM.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct SparkPlan(EncodedPlan);

#[boundary]
#[pymethods]
impl SparkPlan {
    /// How many files.
    #[getter]
    fn files(&self) -> usize {
        self.0.files
    }

    /// How many partition tuples.
    #[getter]
    fn directories(&self) -> usize {
        self.0.directories
    }

    /// How many of the filters took part in pruning.
    #[getter]
    fn understood(&self) -> usize {
        self.0.understood
    }

    /// Bytes of these files.
    #[getter]
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes
    }

    /// How many files were looked at.
    #[getter]
    fn considered(&self) -> u64 {
        self.0.considered
    }

    /// Their rows, where that was asked for and every file says.
    #[getter]
    fn rows(&self) -> Option<u64> {
        self.0.rows
    }
}

/// What the JVM's file index asks.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct SparkQuestion(Question);

#[boundary]
#[pymethods]
impl SparkQuestion {
    /// From the JVM's text.
    #[staticmethod]
    fn parse(py: Python<'_>, text: &str) -> PyResult<Self> {
        run(py, || Question::parse(text).map(SparkQuestion))
    }

    /// `changed`, `prepare`, `size`, `files` or `list`.
    #[getter]
    fn asked(&self) -> &'static str {
        self.0.asked.name()
    }

    /// Whether the optimiser takes statistics of columns.
    #[getter]
    fn statistics(&self) -> bool {
        self.0.asked == Asked::Prepare(Estimates::Columns)
    }

    /// The query that is planned; none outside of a query.
    #[getter]
    fn query(&self) -> Option<&str> {
        self.0.query.as_deref()
    }

    /// The session's time zone.
    #[getter]
    fn zone(&self) -> &str {
        &self.0.zone
    }

    /// The version for which the JVM has an answer to the same question.
    #[getter]
    fn known_version(&self) -> Option<u64> {
        self.0.known_version
    }

    /// Catalyst's filters, each as `Expression.toJSON`.
    #[getter]
    fn filters(&self) -> Vec<String> {
        self.0.filters.clone()
    }
}

/// Statistics of a column: nulls, distinct values, least value, greatest value.
type Statistics = (u64, Option<u64>, Option<String>, Option<String>);

/// An answer to the JVM's file index, as py4j hands it over.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct SparkAnswer(Py<PyAny>);

impl SparkAnswer {
    fn of(py: Python<'_>, answer: impl FnOnce() -> Answer<'static> + Send) -> PyResult<Self> {
        Self::from_jvm(py, run(py, || answer().to_jvm())?)
    }

    fn from_jvm(py: Python<'_>, value: JvmValue) -> PyResult<Self> {
        Ok(SparkAnswer(match value {
            JvmValue::Null => py.None(),
            JvmValue::Text(text) => PyString::new(py, &text).into_any().unbind(),
            JvmValue::Bytes(bytes) => PyBytes::new(py, &bytes).into_any().unbind(),
        }))
    }
}

#[boundary]
#[pymethods]
impl SparkAnswer {
    /// The answer that the JVM has is still right.
    #[staticmethod]
    fn known(py: Python<'_>) -> PyResult<Self> {
        Self::of(py, || Answer::Known)
    }

    /// The optimiser does without.
    #[staticmethod]
    fn unprepared(py: Python<'_>) -> PyResult<Self> {
        Self::of(py, || Answer::Unprepared)
    }

    /// Whether there is another version.
    #[staticmethod]
    fn changed(py: Python<'_>, changed: bool) -> PyResult<Self> {
        Self::of(py, || Answer::Changed(changed))
    }

    /// Bytes of all files.
    #[staticmethod]
    fn size(py: Python<'_>, size_bytes: u64) -> PyResult<Self> {
        Self::of(py, || Answer::Size(size_bytes))
    }

    /// URIs of all files.
    #[staticmethod]
    fn files(py: Python<'_>, uris: Vec<String>) -> PyResult<Self> {
        Self::of(py, || Answer::Files(uris))
    }

    /// The files of a scan of a version, with statistics by column; `by_job` says whether a Spark
    /// job found them.
    #[staticmethod]
    #[pyo3(signature = (snapshot, plan, statistics, by_job = false))]
    fn found(
        py: Python<'_>,
        snapshot: &Snapshot,
        plan: &SparkPlan,
        statistics: BTreeMap<String, Statistics>,
        by_job: bool,
    ) -> PyResult<Self> {
        let statistics = statistics.into_iter();
        let columns = statistics.map(|(column, (nulls, distinct, low, high))| ColumnStatistics {
            column,
            distinct,
            low,
            high,
            nulls,
        });
        let columns = columns.collect();
        let value = run(py, || {
            Answer::Found(FoundFiles::of(&snapshot.inner, &plan.0, columns, by_job)).to_jvm()
        })?;
        Self::from_jvm(py, value)
    }

    /// As py4j takes it.
    fn to_jvm(&self, py: Python<'_>) -> Py<PyAny> {
        self.0.clone_ref(py)
    }
}

/// The files (`all`, `whole` or `marked`: without or with a deletion vector) that can hold rows for
/// which all of Catalyst's filters (as `toJSON` texts, in a session time zone) are true; with
/// `counts_rows` also how many rows they hold.
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
    encoded(py, || {
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
    encoded(py, || {
        let files = Files::parse(files)?;
        block_on(plan::of_adds(&snapshot.inner, &adds, &filters, zone, files))
    })
}

fn encoded(py: Python<'_>, plan: impl FnOnce() -> Result<Planned> + Send) -> PyResult<SparkPlan> {
    run(py, || plan()?.encode()).map(SparkPlan)
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

/// The schema of Spark's relation of the table's files, as JSON: the table's fields in their order,
/// under the names or with the field ids by which files have them.
#[boundary]
#[pyfunction]
fn spark_schema_json(snapshot: &Snapshot) -> String {
    relation_schema(snapshot.inner.state()).to_json()
}

/// The files that can match a predicate (expression JSON), in texts of about `target_bytes` bytes
/// of files each.
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

/// The rows of one split, on any machine: these columns of a table with this schema, where the
/// predicate (expression JSON) is true.
#[boundary]
#[pyfunction]
#[allow(
    clippy::too_many_arguments,
    reason = "each is a part of a scan that travels by itself"
)]
fn scan_split(
    py: Python<'_>,
    location: &str,
    options: Options,
    schema_json: &str,
    mapping: &str,
    partition_columns: Vec<String>,
    columns: Vec<String>,
    predicate: Option<&str>,
    split: &str,
) -> PyResult<ArrowStream> {
    let read = SplitRead {
        schema_json,
        mapping,
        partition_columns,
        columns,
        predicate,
    };
    let (schema, rows) = run(py, || splits::read_split(store(location, options)?, read, split))?;
    Ok(ArrowStream::new(schema, rows))
}

/// Bytes of the log's files that a plan of this version may have to read.
#[boundary]
#[pyfunction]
fn replay_bytes(snapshot: &Snapshot) -> u64 {
    snapshot.inner.replay_bytes()
}

/// A version's state and its log in parts of about `target_bytes` bytes, as JSON: the start of a
/// distributed plan.
#[boundary]
#[pyfunction]
fn replay_json(py: Python<'_>, snapshot: &Snapshot, target_bytes: u64) -> PyResult<String> {
    run(py, || block_on(replay::describe(&snapshot.inner, target_bytes)))
}

/// The same of a table that isn't open: what its commits say of files is read past, not held.
#[boundary]
#[pyfunction]
fn replay_json_of(
    py: Python<'_>,
    location: &str,
    options: Options,
    version: Option<u64>,
    timestamp_ms: Option<i64>,
    target_bytes: u64,
) -> PyResult<String> {
    run(py, || {
        let store = store(location, options)?;
        block_on(replay::describe_unopened(&store, version, timestamp_ms, target_bytes))
    })
}

/// What a distributed plan (JSON) shows of each file.
#[boundary]
#[pyfunction]
fn replay_schema(py: Python<'_>, plan: &str) -> PyResult<ArrowSchema> {
    Ok(ArrowSchema(run(py, || Ok(replay::Plan::parse(plan)?.schema()))?))
}

/// The files in a part of the checkpoint that may match, whatever the commits after it say, on any
/// machine.
#[boundary]
#[pyfunction]
fn replay_checkpoint(
    py: Python<'_>,
    location: &str,
    options: Options,
    plan: &str,
    part: &str,
) -> PyResult<ArrowStream> {
    let (schema, rows) = run(py, || {
        replay::Plan::parse(plan)?.checkpoint_files(&store(location, options)?, part)
    })?;
    Ok(ArrowStream::new(schema, rows))
}

/// What a part of the commits says of files, on any machine: the keys alone, or each word to be
/// reconciled.
#[boundary]
#[pyfunction]
fn replay_commits(
    py: Python<'_>,
    location: &str,
    options: Options,
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
