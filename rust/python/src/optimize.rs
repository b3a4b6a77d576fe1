//! The classes of OPTIMIZE and of indexes of keys: one call of `operations` for each step, and the
//! functions that do a part of it in a task.

use deltaplane_boundary::boundary;
use deltaplane_error::Result;
use deltaplane_log::LayoutRequest;
use deltaplane_operations::key_index::{self, KeyIndex};
use deltaplane_operations::optimize::groups::{self, move_group};
use deltaplane_operations::optimize::{Optimize, OptimizeCommit, OptimizeSummary};
use pyo3::prelude::*;

use crate::errors::run;
use crate::record::Record;
use crate::snapshot::{Options, Snapshot, store};
use crate::values::predicate::{Predicate, expr};

/// OPTIMIZE on one version of a table.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct Layout(Optimize);

#[boundary]
impl Layout {
    #[staticmethod]
    fn begin(snapshot: &Snapshot, request: Record<LayoutRequest>) -> Result<Self> {
        Optimize::begin(&snapshot.0, request.0).map(Layout)
    }

    /// Whether an application's version in the request was committed already.
    #[getter]
    fn was_done(&self) -> bool;

    /// What is to be done.
    #[getter]
    fn summary(&self) -> Record<OptimizeSummary>;

    /// Files and bytes that a scan would read if each group were one file: one that may match makes
    /// its whole group match.
    #[pyo3(signature = (predicate = None))]
    fn read_after(&self, predicate: Option<&Predicate>) -> Result<(u64, i64)> {
        self.0.read_after(expr(predicate))
    }

    /// Starts the job: up to `tasks` groups at a time, which hold up to `memory_bytes` of rows
    /// while sorting.
    fn start(&self, tasks: usize, memory_bytes: usize) -> Result<()>;

    /// What a task on another machine must know to move groups.
    #[getter]
    fn task_spec(&self) -> Result<GroupSpec> {
        self.0.task_spec().map(GroupSpec)
    }

    /// The groups, for `arrange_group`.
    fn groups(&self) -> Vec<Group> {
        self.0.groups().into_iter().map(Group).collect()
    }

    /// Takes over a group that a task moved, to be committed; the bytes of its old files.
    fn adopt(&self, moved: &MovedGroup) -> Result<i64> {
        self.0.adopt(moved.0.clone())
    }

    /// Goes on until one more group is written; the bytes of its old files, `None` at the end.
    fn step(&self) -> Result<Option<i64>>;

    /// Commits the groups that were written since the last commit, except those of which another
    /// writer took a file.
    fn commit(&self) -> Result<Record<OptimizeCommit>>;

    /// Deletes what was written for commits that didn't happen; with `committing` the last one may
    /// have happened.
    fn abort(&self, committing: bool) -> Result<()>;
}

/// What a task must know to move groups.
#[boundary(pickles)]
pub(crate) struct GroupSpec(groups::GroupSpec);

/// A group that one task moves.
#[boundary(pickles)]
pub(crate) struct Group(groups::Group);

/// A group whose rows a task moved.
#[boundary(pickles)]
pub(crate) struct MovedGroup(groups::MovedGroup);

/// Moves the rows of one group to new files, in any process, holding up to `memory_bytes` of rows
/// while sorting; returns the argument for `Layout.adopt`.
#[boundary]
pub(crate) fn arrange_group(
    location: &str,
    options: Options,
    spec: &GroupSpec,
    group: &Group,
    memory_bytes: usize,
) -> Result<MovedGroup> {
    move_group(store(location, options)?, &spec.0, &group.0, memory_bytes).map(MovedGroup)
}

/// What brings the indexes of keys of one version up to date.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct IndexBuild(key_index::IndexBuild);

#[boundary]
impl IndexBuild {
    /// Plans the work of up to `tasks` tasks at a time; with `again` on all files.
    #[staticmethod]
    fn begin(snapshot: &Snapshot, again: bool, tasks: usize) -> Result<Self> {
        key_index::IndexBuild::begin(&snapshot.0, again, tasks).map(IndexBuild)
    }

    /// The number of files whose keys are read.
    #[getter]
    fn files(&self) -> usize;

    /// What tasks do, for `build_key_segment`.
    fn tasks(&self) -> Vec<KeyTask> {
        self.0.tasks().into_iter().map(KeyTask).collect()
    }

    /// Publishes what the tasks wrote. The state of each index.
    fn publish(&self, built: Vec<PyRef<'_, KeySegment>>) -> PyResult<Record<Vec<KeyIndex>>> {
        let built: Vec<_> = built.iter().map(|segment| segment.0.clone()).collect();
        run(|| self.0.publish(&built)).map(Record)
    }

    /// Does the tasks' work here and publishes it. The state of each index.
    fn run(&self) -> Result<Record<Vec<KeyIndex>>>;
}

/// A part of building an index: one segment.
#[boundary(pickles)]
pub(crate) struct KeyTask(key_index::KeyTask);

/// A segment that a task wrote.
#[boundary(pickles)]
pub(crate) struct KeySegment(key_index::BuiltSegment);

/// Reads the keys of the task's files, in any process, and writes its segment; returns the argument
/// for `IndexBuild.publish`.
#[boundary]
pub(crate) fn build_key_segment(location: &str, options: Options, task: &KeyTask) -> Result<KeySegment> {
    key_index::build_segment(&store(location, options)?, &task.0).map(KeySegment)
}
