//! Plans of Spark scans: what the file index asks and is answered, URIs.

use std::collections::BTreeMap;

use deltaplane_boundary::boundary;
use deltaplane_error::Result;
use deltaplane_spark_plan::plan::{self, EncodedPlan, Files};
use deltaplane_spark_plan::question::{Answer, FoundFiles, JvmValue, PlainQuestion, PlainStatistics, Question};
use deltaplane_spark_plan::relation_schema;
use deltaplane_store::block_on;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::record::Record;
use crate::snapshot::Snapshot;
use crate::table_schema::TableSchema;
use crate::values::added_files::AddedFiles;

/// The files of one scan, ready for the JVM.
#[boundary(get(files: usize, directories: usize, understood: usize, size_bytes: u64, considered: u64, rows: Option<u64>))]
pub(crate) struct SparkPlan(EncodedPlan);

/// What the JVM's file index asks, from its text.
#[boundary]
pub(crate) fn spark_question(text: &str) -> Result<Record<PlainQuestion>> {
    Question::parse(text).map(|question| Record(question.into()))
}

/// An answer to the JVM's file index.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct SparkAnswer(JvmValue);

fn encoded(answer: &Answer<'_>) -> Result<SparkAnswer> {
    answer.to_jvm().map(SparkAnswer)
}

#[boundary]
impl SparkAnswer {
    /// The answer that the JVM has is still right.
    #[staticmethod]
    fn known() -> Result<Self> {
        encoded(&Answer::Known)
    }

    /// The optimiser does without.
    #[staticmethod]
    fn unprepared() -> Result<Self> {
        encoded(&Answer::Unprepared)
    }

    /// Whether there is another version.
    #[staticmethod]
    fn changed(changed: bool) -> Result<Self> {
        encoded(&Answer::Changed(changed))
    }

    /// Bytes of all files.
    #[staticmethod]
    fn size(size_bytes: u64) -> Result<Self> {
        encoded(&Answer::Size(size_bytes))
    }

    /// URIs of all files.
    #[staticmethod]
    fn files(uris: Vec<String>) -> Result<Self> {
        encoded(&Answer::Files(uris))
    }

    /// The files of a scan of a version, with statistics by column; `by_job` says whether a Spark
    /// job found them.
    #[staticmethod]
    #[pyo3(signature = (snapshot, plan, statistics, by_job = false))]
    fn found(
        snapshot: &Snapshot,
        plan: &SparkPlan,
        statistics: BTreeMap<String, PlainStatistics>,
        by_job: bool,
    ) -> Result<Self> {
        let files = FoundFiles::of(&snapshot.0, &plan.0, statistics, by_job);
        encoded(&Answer::Found(files))
    }

    /// As py4j takes it.
    fn to_jvm<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        match &self.0 {
            JvmValue::Null => None,
            JvmValue::Text(text) => Some(PyString::new(py, text).into_any()),
            JvmValue::Bytes(bytes) => Some(PyBytes::new(py, bytes).into_any()),
        }
    }
}

/// The files (`all`, `whole` or `marked`: without or with a deletion vector) that can hold rows for
/// which all of Catalyst's filters (as `toJSON` texts, in a session time zone) are true; with
/// `counts_rows` also how many rows they hold.
#[boundary]
#[pyo3(signature = (snapshot, filters, zone, files, counts_rows = false))]
pub(crate) fn spark_plan(
    snapshot: &Snapshot,
    filters: Vec<String>,
    zone: &str,
    files: &str,
    counts_rows: bool,
) -> Result<SparkPlan> {
    let plan = plan::plan(&snapshot.0, &filters, zone, Files::parse(files)?, counts_rows);
    block_on(plan)?.encode().map(SparkPlan)
}

/// The same of files that a distributed plan found by these filters.
#[boundary]
pub(crate) fn spark_plan_of(
    snapshot: &Snapshot,
    adds: &AddedFiles,
    filters: Vec<String>,
    zone: &str,
    files: &str,
) -> Result<SparkPlan> {
    let plan = plan::of_adds(&snapshot.0, &adds.0, &filters, zone, Files::parse(files)?);
    block_on(plan)?.encode().map(SparkPlan)
}

/// Bytes of those of these files.
#[boundary]
pub(crate) fn spark_size_of(adds: &AddedFiles, files: &str) -> Result<u64> {
    plan::size_of_adds(&adds.0, Files::parse(files)?)
}

/// Bytes of a version's files; `None` if only the list of the files tells, and isn't to be read.
#[boundary]
pub(crate) fn spark_size_bytes(snapshot: &Snapshot, files: &str, is_listed: bool) -> Result<Option<u64>> {
    block_on(plan::size_bytes(&snapshot.0, Files::parse(files)?, is_listed))
}

/// URIs of a version's files, as Spark's file systems know them.
#[boundary]
pub(crate) fn spark_file_uris(snapshot: &Snapshot, files: &str) -> Result<Vec<String>> {
    block_on(plan::uris(&snapshot.0, Files::parse(files)?))
}

/// URI of the table's root, as Spark's file systems know it.
#[boundary]
pub(crate) fn spark_uri(snapshot: &Snapshot) -> Result<String> {
    plan::spark_uri(snapshot.0.store().location())
}

/// The schema of Spark's relation of the table's files: the table's fields in their order, under
/// the names or with the field ids by which files have them.
#[boundary]
pub(crate) fn spark_schema(snapshot: &Snapshot) -> TableSchema {
    relation_schema(snapshot.0.state()).into()
}
