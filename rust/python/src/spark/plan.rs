//! Plans of Spark scans: what the file index asks and is answered, URIs.

use std::collections::BTreeMap;

use deltaplane_boundary::boundary;
use deltaplane_error::Result;
use deltaplane_spark_plan::plan::{self, EncodedPlan, Files, Planned};
use deltaplane_spark_plan::question::{Answer, Asked, ColumnStatistics, Estimates, FoundFiles, JvmValue, Question};
use deltaplane_spark_plan::relation_schema;
use deltaplane_store::block_on;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::errors::run;
use crate::snapshot::Snapshot;
use crate::table_schema::TableSchema;

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
    module.add_function(wrap_pyfunction!(spark_schema, module)?)
}

/// The files of one scan, ready for the JVM.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct SparkPlan {
    encoded: EncodedPlan,
    /// How many files.
    #[pyo3(get)]
    files: usize,
    /// How many partition tuples.
    #[pyo3(get)]
    directories: usize,
    /// How many of the filters took part in pruning.
    #[pyo3(get)]
    understood: usize,
    /// Bytes of these files.
    #[pyo3(get)]
    size_bytes: u64,
    /// How many files were looked at.
    #[pyo3(get)]
    considered: u64,
    /// Their rows, where that was asked for and every file says.
    #[pyo3(get)]
    rows: Option<u64>,
}

impl From<EncodedPlan> for SparkPlan {
    fn from(encoded: EncodedPlan) -> Self {
        SparkPlan {
            files: encoded.files,
            directories: encoded.directories,
            understood: encoded.understood,
            size_bytes: encoded.size_bytes,
            considered: encoded.considered,
            rows: encoded.rows,
            encoded,
        }
    }
}

/// What the JVM's file index asks.
#[pyclass(frozen, get_all, module = "deltaplane._native")]
pub(crate) struct SparkQuestion {
    /// `changed`, `prepare`, `size`, `files` or `list`.
    asked: &'static str,
    /// Whether the optimiser takes statistics of columns.
    statistics: bool,
    /// The query that is planned; none outside of a query.
    query: Option<String>,
    /// The session's time zone.
    zone: String,
    /// The version for which the JVM has an answer to the same question.
    known_version: Option<u64>,
    /// Catalyst's filters, each as `Expression.toJSON`.
    filters: Vec<String>,
}

#[boundary]
#[pymethods]
impl SparkQuestion {
    /// From the JVM's text.
    #[staticmethod]
    fn parse(py: Python<'_>, text: &str) -> PyResult<Self> {
        let question = run(py, || Question::parse(text))?;
        Ok(SparkQuestion {
            asked: question.asked.name(),
            statistics: question.asked == Asked::Prepare(Estimates::Columns),
            query: question.query,
            zone: question.zone,
            known_version: question.known_version,
            filters: question.filters,
        })
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
            Answer::Found(FoundFiles::of(&snapshot.inner, &plan.encoded, columns, by_job)).to_jvm()
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
    run(py, || plan()?.encode()).map(Into::into)
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

/// The schema of Spark's relation of the table's files: the table's fields in their order, under
/// the names or with the field ids by which files have them.
#[boundary]
#[pyfunction]
fn spark_schema(snapshot: &Snapshot) -> TableSchema {
    relation_schema(snapshot.inner.state()).into()
}
