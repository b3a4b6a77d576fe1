//! Distributed replay of a log: the plan and the parts of the log pickle for Spark's tasks.

use deltaplane_boundary::boundary;
use deltaplane_error::Result;
use deltaplane_log::ReplayPart as CorePart;
use deltaplane_spark_plan::replay::{Plan, PlanSpec, Replay as CoreReplay, Selection, commit_words, replay_bytes};
use deltaplane_store::block_on;
use pyo3::prelude::*;

use crate::arrow_bridge::{ArrowSchema, ArrowStream};
use crate::snapshot::{Options, Snapshot, store};
use crate::values::added_files::AddedFiles;
use crate::values::predicate::{Predicate, expr};

fn parts(parts: &[CorePart]) -> Vec<ReplayPart> {
    parts.iter().cloned().map(ReplayPart).collect()
}

/// A version's state and its log in parts.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct Replay(CoreReplay);

#[boundary]
impl Replay {
    /// Bytes of the log that a plan by Catalyst's filters and their time zone may have to read.
    #[staticmethod]
    #[pyo3(signature = (snapshot, filters = None))]
    fn bytes(snapshot: &Snapshot, filters: Option<(Vec<String>, String)>) -> Result<u64> {
        block_on(replay_bytes(&snapshot.0, filters))
    }

    /// Of a version, in parts of about `target_bytes`.
    #[staticmethod]
    fn of(snapshot: &Snapshot, target_bytes: u64) -> Result<Self> {
        block_on(CoreReplay::of(&snapshot.0, target_bytes)).map(Replay)
    }

    /// The same of a table that isn't open: what its commits say of files is read past, not held.
    #[staticmethod]
    fn open(
        location: &str,
        options: Options,
        version: Option<u64>,
        timestamp_ms: Option<i64>,
        target_bytes: u64,
    ) -> Result<Self> {
        let store = store(location, options)?;
        block_on(CoreReplay::of_unopened(&store, version, timestamp_ms, target_bytes)).map(Replay)
    }

    /// The parts with the checkpoint's files.
    #[getter]
    fn checkpoint(&self) -> Vec<ReplayPart> {
        parts(&self.0.parts.checkpoint)
    }

    /// The parts with the commits after it.
    #[getter]
    fn commits(&self) -> Vec<ReplayPart> {
        parts(&self.0.parts.commits)
    }

    /// Bytes of these commits.
    #[getter]
    fn commit_bytes(&self) -> u64 {
        self.0.parts.commit_bytes
    }

    /// Whether the checkpoint may name a file twice.
    #[getter]
    fn may_repeat(&self) -> bool {
        self.0.parts.may_repeat
    }

    /// A plan of these files that may match, by a predicate or by Catalyst's filters and their time
    /// zone; shows `plan`, `adds` or `sizes`.
    #[pyo3(signature = (show, files, predicate = None, filters = None))]
    fn plan(
        &self,
        show: &str,
        files: &str,
        predicate: Option<&Predicate>,
        filters: Option<(Vec<String>, String)>,
    ) -> Result<ReplayPlan> {
        let selection = Selection::new(expr(predicate).cloned(), filters);
        self.0.plan(selection, show, files).map(ReplayPlan)
    }
}

/// A part of the log, which one task reads.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct ReplayPart(CorePart);

#[boundary(pickles)]
impl ReplayPart {
    /// What a part of the commits says of files: the keys alone, or each word to be reconciled.
    fn commit_words(&self, location: &str, options: Options, keys_only: bool) -> Result<ArrowStream> {
        Ok(commit_words(&store(location, options)?, self.0.clone(), keys_only).into())
    }

    /// `commits`, `row_groups`, `sidecars` or `manifest`.
    #[getter]
    fn kind(&self) -> &'static str {
        self.0.kind()
    }
}

/// What a plan tells its tasks.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct ReplayPlan(PlanSpec);

#[boundary(pickles)]
impl ReplayPlan {
    /// What is shown of each file.
    fn schema(&self) -> Result<ArrowSchema> {
        Plan::new(&self.0).map(|plan| ArrowSchema(plan.schema()))
    }

    /// The files in a part of the checkpoint that may match, whatever the commits after it say.
    fn checkpoint_files(&self, location: &str, options: Options, part: &ReplayPart) -> Result<ArrowStream> {
        let files = Plan::new(&self.0)?.checkpoint_files(&store(location, options)?, part.0.clone());
        files.map(Into::into)
    }

    /// Those of these files, which are known to live, that may match.
    fn live_files(&self, adds: &AddedFiles) -> Result<ArrowStream> {
        Plan::new(&self.0)?.live_files(&adds.0).map(Into::into)
    }
}
